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
from tests.exports.tables import KINDS, PYTHON_KINDS, assert_scores, exported_features, library_features, model_of

#: Ways that score rows of columns of any kind, and ways that score those of SQL.
ANY_KIND, OF_SQL = ("features", "python", "json", "sklearn", "onnx"), ("sqlite", "duckdb", "postgresql")


def check(way, table, model, bases):
    """Assert that one way scores the rows of a table as the model does."""
    frame = table.frame(table.scored)
    if way == "features":
        for row, expected in zip(table.row_dicts(), library_features(model, frame), strict=True):
            found = exported_features(model, row)
            assert found.keys() == expected.keys(), (found, expected)
            assert all(math.isclose(found[name], value, rel_tol=1e-14) for name, value in expected.items())
    elif way == "python":
        assert_scores(tables.python_scores(model, table.row_dicts()), model, frame)
    elif way == "json":
        for scores in tables.json_scores(model, frame):
            assert_scores(scores, model, frame)
    elif way in ("sklearn", "onnx"):
        if model.n_features:
            assert_scores(getattr(tables, f"{way}_scores")(model, frame), model, frame)
    elif way == "sqlite":
        assert_scores(tables.sqlite_scores(model, table), model, frame)
    elif way == "duckdb":
        assert_scores(tables.duckdb_scores(bases[way], model, table), model, frame)
    else:
        assert_scores(tables.postgres_scores(bases[way], model, table), model, frame)


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
        for ways, kinds in ((ANY_KIND, (*KINDS, *PYTHON_KINDS)), (tuple(bases), tuple(KINDS))):
            chosen = [way for way in ways if only in (None, way)]
            if chosen:
                check_tables(chosen, kinds, bases, counts, count, start)
    return counts


def check_tables(ways, kinds, bases, counts, count, start):
    """Let these ways score made-up tables with columns of these kinds."""

    @seed(start)
    @settings(max_examples=count, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(tables.tables(kinds))
    def campaign(table):
        model = model_of(table)
        for way in ways:
            check(way, table, model, bases)
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
