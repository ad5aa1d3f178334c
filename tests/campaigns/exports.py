"""Made-up tables: every export of a model scores as the model does, to 1e-12 of the sizes of the terms.

    python tests/campaigns/exports.py [--tables N] [--seed N] [--only WAY]

Tables, models and databases are those of tests/exports; hypothesis draws other ones. DuckDB takes part where its
package is installed, PostgreSQL where a server can be started. The first table that disagrees is made small and shown.
"""

import argparse
import collections
import math
import sys
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from hypothesis import HealthCheck, given, seed, settings
from tests.exports import tables
from tests.exports.postgres import missing_parts, postgres_server
from tests.exports.tables import KINDS, PYTHON_KINDS, Expected, exported_features, library_features, model_of

#: The number of tables that are drawn from one seed.
BLOCK = 250
#: Ways that score rows of columns of any kind, and ways that score those of SQL.
ANY_KIND, OF_SQL = ("features", "python", "json", "sklearn", "onnx"), ("sqlite", "duckdb", "postgresql")


def check(way, table, model, bases, expected):
    """Assert that one way scores the rows of a table as the model does."""
    frame = table.frame(table.scored)
    if way == "features":
        for row, features in zip(table.row_dicts(), library_features(model, frame), strict=True):
            found = exported_features(model, row)
            assert found.keys() == features.keys(), (found, features)
            assert all(math.isclose(found[name], value, rel_tol=1e-14) for name, value in features.items())
    elif way == "python":
        expected.check(tables.python_scores(model, table.row_dicts()))
    elif way == "json":
        for scores in tables.json_scores(model, frame):
            expected.check(scores)
    elif way in ("sklearn", "onnx"):
        if model.n_features:
            expected.check(getattr(tables, f"{way}_scores")(model, frame))
    elif way == "sqlite":
        expected.check(tables.sqlite_scores(model, table))
    elif way == "duckdb":
        expected.check(tables.duckdb_scores(bases[way], model, table))
    else:
        expected.check(tables.postgres_scores(bases[way], model, table))


def run(count, start, only=None):
    """Check this many tables of all kinds, and as many of the kinds that SQL has; return the tables of every way."""
    counts = collections.Counter()
    with ExitStack() as stack:
        bases = {"sqlite": None}
        try:
            import duckdb

            bases["duckdb"] = stack.enter_context(duckdb.connect())
        except ImportError:
            print("duckdb is not installed")
        if missing_parts() is None:
            bases["postgresql"] = stack.enter_context(postgres_server())
        else:
            print(missing_parts())
        every = [(ANY_KIND, (*KINDS, *PYTHON_KINDS)), (tuple(bases), tuple(KINDS))]
        for first in range(0, count, BLOCK):
            for ways, kinds in every:
                chosen = [way for way in ways if only in (None, way)]
                if chosen:
                    check_tables(chosen, kinds, bases, counts, min(BLOCK, count - first), start + first)
            print(", ".join(f"{way} {number:,}" for way, number in counts.items()), flush=True)
    return counts


def check_tables(ways, kinds, bases, counts, count, start):
    """Let these ways score made-up tables with columns of these kinds."""

    @seed(start)
    @settings(max_examples=count, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(tables.tables(kinds))
    def campaign(table):
        model = model_of(table)
        expected = Expected(model, table.frame(table.scored))
        for way in ways:
            check(way, table, model, bases, expected)
            counts[way] += 1

    campaign()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=(*ANY_KIND, *OF_SQL))
    arguments = parser.parse_args()
    begin = time.perf_counter()
    for what, number in run(arguments.tables, arguments.seed, arguments.only).items():
        print(f"{what:12} {number:9,} tables")
    print(f"all scores agree, {time.perf_counter() - begin:.0f} s")
