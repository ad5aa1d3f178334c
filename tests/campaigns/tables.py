"""Made-up tables: bits of a model do not depend on the input format, nor bits of scores on the output format.

    python tests/campaigns/tables.py [--tables N] [--seed N] [--ways N] [--only WAY]

A table has columns of any kind, missing values, labels or numbers to predict, and options of training. A model learns
from its first rows as CSV, JSON lines, Parquet, Arrow (small files, and the compiled loop of large ones), frames of
pandas, polars and pyarrow, dicts, one dict at a time, and by `update` and `resume`. Names, weights, labels and the
scores of the other rows must be those of the first way. One of the ways is the command, with its own options. Rows are
scored as frames, dicts and files, one and many, before and after saving; dicts and JSON lines without some of the
columns are compared as well. `--ways` is how many ways in and out are drawn for a table; the first table that disagrees
is made small and shown.
"""

import argparse
import collections
import dataclasses
import io
import json
import os
import random
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from click.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.campaigns.made_up_tables import (
    ASIDE,
    FILES,
    FRAMES,
    as_arrow,
    as_dicts,
    as_pandas,
    as_parquet,
    as_polars,
    json_value,
    make_table,
)

import fiol
from fiol import cli
from fiol.features.table_rows import has_no_column
from fiol.readers import compiled_parser
from fiol.training import run as training_run
from fiol.workflow.job import TrainingJob
from fiol.workflow.options import TrainOptions

#: Models are written in memory, if the system has such a folder: to wait for a disk takes a quarter of the time.
FOLDER = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


class Looped:
    """The compiled loop for files of any size, or for none."""

    def __init__(self, size):
        self.size = size

    def __enter__(self):
        self.before, compiled_parser.COMPILED_MIN_BYTES = compiled_parser.COMPILED_MIN_BYTES, self.size

    def __exit__(self, *_):
        compiled_parser.COMPILED_MIN_BYTES = self.before


# --- ways in ----------------------------------------------------------------------------------


class Checks:
    """The ways of one table."""

    def __init__(self, table, folder, seed):
        self.table, self.folder, self.seed = table, folder, seed
        self.first, self.rest = table.part(0, table.learned), table.part(table.learned, len(table.target.typed))
        kinds = {c.name: c.spec for c in table.columns if c.spec is not None}
        self.options = {**table.options, "columns": kinds, "weight": "w w" if table.weight else None}
        self.has_csv = table.has_texts

    def given(self, form):
        """Return the options of training for a format."""
        more = {"format": form} if form in FILES else {}
        if form == "csv":
            more["reader"] = {"delimiter": ",", "header": True}
        return {**self.options, **more}

    def train(self, data, form, **more):
        """Train on data in a format."""
        return fiol.train(data, "the target", **{**self.given(form), **more})

    def file(self, form, table, name="rows", target=True):
        """Write a table to a file and return its path."""
        path = self.folder / f"{name}.{form}"
        path.write_bytes(FILES[form](table, target))
        return str(path)

    def ways_in(self):
        """Return functions that make the model, by name."""
        found = {}
        for form, make in FILES.items():
            if form != "csv" or self.has_csv:
                found[form] = lambda form=form, make=make: self.train(io.BytesIO(make(self.first)), form)
        for form in ("csv", "json"):
            if form in found:
                found[f"{form} loop"] = lambda form=form: self.in_loop(form)
        for name, make in FRAMES.items():
            found[name] = lambda make=make, name=name: self.train(make(self.first), name)
        found["update"], found["resume"] = self.updated, self.resumed
        if not any("," in column.name for column in self.table.columns):  # which the command takes as two names
            found["command"] = self.by_command
        found["learner"] = lambda: self.learner(self.first, None)
        found["dicts"] = lambda: self.learner(self.first, "dicts")
        found["one by one"] = lambda: self.learner(self.first, "one")
        return found

    def in_loop(self, form):
        """Train by the compiled loop."""
        with Looped(0):
            return self.train(io.BytesIO(FILES[form](self.first)), form)

    def by_command(self):
        """Train by the command, in this process, and return the model that it wrote."""
        form = self.draw.choice([form for form in FILES if form != "csv" or self.has_csv])
        path, options = self.folder / "command.fiol", TrainOptions(target="the target", **self.given(form)).stored()
        names = {"columns": "column", "reader_options": "reader", "format_": "format"}
        command = ["train", self.file(form, self.first, "command"), "-o", str(path), "--force"]
        for name, value in options.items():
            for one in value if isinstance(value, list) else [value]:
                option = f"--{names.get(name, name).replace('_', '-')}"
                command += [option] if one is True else [option, str(one)]
        done = CliRunner().invoke(cli.main, command)
        if done.exit_code:
            raise ValueError(done.output)
        return fiol.load(path)

    def updated(self):
        """Train on a first part, in a file, and update the model with the others, in files of any format."""
        cut = self.draw.randint(3, self.first.learned)  # the first rows have all labels
        path = str(self.folder / "updated.fiol")
        self.train(self.file("parquet", self.first.part(0, cut)), "parquet", output=path, columns=self.specs())
        if cut < self.first.learned:
            form = self.draw.choice([form for form in FILES if form != "csv" or self.has_csv])
            rest = self.file(form, self.first.part(cut, self.first.learned), "more")
            fiol.train(rest, update=path, output=path)
        return fiol.load(path)

    def specs(self):
        """Return the kinds of the reference for all columns of features, of which the first rows say too little."""
        columns = [c for c in self.reference.table_encoding.columns if c.name not in ASIDE]
        return {c.name: {"kind": c.kind, "ngrams": c.ngrams, "parts": c.parts, "format": c.format} for c in columns}

    def resumed(self):
        """Train a while, end, and continue from the checkpoint."""
        form = self.draw.choice([form for form in FILES if form != "csv" or self.has_csv])
        path, before = str(self.folder / "resumed.fiol"), training_run.WORK_AT_ONCE
        data, training_run.WORK_AT_ONCE = self.file(form, self.first), self.draw.choice([5, 40, 200])
        try:
            job = TrainingJob([data], TrainOptions(target="the target", **self.given(form)), path)
            job.begin()
            job.prepare(every_rows=1)
            events = job.run()
            for _ in zip(range(self.draw.randrange(4)), events, strict=False):
                pass
            events.close()
            return self.train(data, form, output=path, resume=True)
        finally:
            training_run.WORK_AT_ONCE = before
            Path(path).unlink(missing_ok=True)

    def learner(self, table, how):
        """Return a `Learner` with the components of the reference that learned from frames or dicts."""
        like = self.reference
        encoding = like.table_encoding if how or self.draw.random() < 0.5 else self.encoding_given()
        given = {name: self.options[name] for name in ("max_features", "intercept") if name in self.options}
        model = fiol.Learner(like.update, table_encoding=encoding, bits=like.bits, **given)
        if like.classes is not None:
            model.add_classes(like.classes)
        y, weights = self.coded(table.target.typed), None if table.weight is None else np.array(table.weight)
        if how is None:
            make = self.draw.choice(list(FRAMES.values()))
            model.learn(make(dataclasses.replace(table, weight=None), False), y, weights)
        elif how == "dicts":
            model.learn(as_dicts(table), y, weights)
        else:
            for k, row in enumerate(as_dicts(table)):
                model.learn_named(row, y[k], 1.0 if weights is None else weights[k])
        return model

    def encoding_given(self):
        """Return what the options say about columns: the rows decide about the others."""
        return fiol.TableEncoding.from_spec(
            self.options["columns"], self.options.get("pairs", ()), self.options.get("missing")
        )

    def coded(self, labels):
        """Return targets as a learner takes them."""
        if self.reference.labels is None or self.reference.classes is not None:
            return labels
        return [1.0 if label == self.reference.labels[1] else -1.0 for label in labels]

    # --- ways out -----------------------------------------------------------------------------

    def ways_out(self, model):
        """Return functions that score the rest by a model, by name."""
        rest, found = self.rest, {}
        plain = dataclasses.replace(rest, weight=None)
        for name, make in FRAMES.items():
            found[name] = lambda make=make: model.scores(make(plain, False))
            found[f"{name}, one row"] = lambda make=make: one_by_one(model, make, plain)
        found["dicts"] = lambda: model.scores(as_dicts(rest))
        found["dicts, one"] = lambda: np.array([model.score_named(row) for row in as_dicts(rest)])
        found["snapshot"] = lambda: model.snapshot().scores(as_dicts(rest))
        found["copy"] = lambda: model.copy().scores(as_polars(plain, False))
        found["saved"] = lambda: self.saved(model).scores(as_pandas(plain, False))
        found["saved, dicts"] = lambda: self.saved(model).scores(as_dicts(rest))
        if isinstance(model, fiol.TrainedModel):
            for form in FILES:
                if form != "csv" or self.has_csv:
                    path = lambda form=form: self.file(form, rest, "rest", self.draw.random() < 0.5)  # noqa: E731
                    found[form] = lambda path=path: model.scores(path())
            for form in ("csv", "json"):
                if form in found:
                    found[f"{form} loop"] = lambda form=form: self.scored_in_loop(model, form)
        return found

    def scored_in_loop(self, model, form):
        """Return the scores of a file by the compiled loop."""
        with Looped(0):
            return model.scores(self.file(form, self.rest, "rest", self.draw.random() < 0.5))

    def saved(self, model):
        """Return the model that a file has after saving."""
        path = self.folder / "saved.fiol"
        model.save(path)
        return fiol.load(path)

    def check(self, ways, counts, only=None):
        """Compare the models of some ways in, and the scores of some ways out."""
        try:
            self.reference = self.train(io.BytesIO(as_parquet(self.first)), "parquet")
        except ValueError as error:
            self.check_refused(ways, error)
            counts["refused"] += 1
            return
        rest = as_arrow(dataclasses.replace(self.rest, weight=None), False)
        expected = self.reference.scores(rest) if self.rest.learned else None
        into = self.ways_in()
        models = {"parquet": self.reference}
        for way in self.chosen(into, ways, only):
            self.draw = random.Random(f"{self.seed} {way}")
            models[way] = into[way]()
            same_model(self.reference, models[way], way)
            counts["in", way] += 1
        if expected is None:
            return
        for came, model in models.items():
            out = self.ways_out(model)
            for way in self.chosen(out, ways if came == "parquet" else 2, only):
                self.draw = random.Random(f"{self.seed} {came} {way}")
                found = np.asarray(out[way]())
                assert found.shape == expected.shape, f"in by {came}, out by {way}: {found.shape} for {expected.shape}"
                assert np.array_equal(found, expected), f"in by {came}, out by {way}: {found} for {expected}"
                counts["out", way] += 1
        counts["absent"] += self.check_absent(models)

    def check_refused(self, ways, error):
        """Assert that a table is refused by all ways in if it is by one."""
        into = {name: way for name, way in self.ways_in().items() if name in (*FILES, *FRAMES, "csv loop", "json loop")}
        for way in self.chosen(into, ways, None):
            self.draw = random.Random(f"{self.seed} {way}")
            try:
                into[way]()
            except ValueError:
                continue
            raise AssertionError(f"in by {way}: not refused, though parquet is: {error}")

    def check_absent(self, models):
        """Compare rows without some columns, as dicts and as JSON lines, by the rule of each model."""
        rows, self.draw = as_dicts(self.rest, way="json"), random.Random(self.seed)
        rows = [{k: json_value(v) for k, v in row.items() if self.draw.random() < 0.7} for row in rows]
        path, count = self.folder / "absent.json", 0
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        if not any(rows):
            return 0
        for came, model in models.items():
            if isinstance(model, fiol.TrainedModel) and not any(c.raw for c in self.table.columns):
                absent, _ = model.table_encoding.other_columns([name for row in rows for name in row])
                if has_no_column(model.table_encoding, absent):
                    continue  # a file without any column of the model is refused
                from_dicts, from_file = model.scores(rows), model.scores(path)
                assert np.array_equal(from_dicts, from_file), f"in by {came}, absent keys: {from_file} for {from_dicts}"
                if not model.table_encoding.optional:
                    filled = [{c.name: row.get(c.name) for c in self.table.columns} for row in rows]
                    assert np.array_equal(model.scores(filled), from_dicts), f"in by {came}, absent keys are missing"
                count += 1
        return count

    def chosen(self, every, count, only):
        """Return some of the ways."""
        names = [name for name in every if only in (None, name)]
        return random.Random(self.seed).sample(names, min(count, len(names)))


def one_by_one(model, make, table):
    """Return the scores of rows, each alone in a frame."""
    return np.concatenate([model.scores(make(table.part(k, k + 1), False)) for k in range(table.learned)])


def weights_by_name(model):
    """Return the weights of every feature."""
    return dict(zip(model.names, np.atleast_2d(model.weights).T.tolist(), strict=True))


def same_model(expected, found, way):
    """Assert that two models have the same features, weights and labels."""
    if isinstance(found, fiol.TrainedModel):
        assert repr(found.labels) == repr(expected.labels), f"in by {way}: labels {found.labels} for {expected.labels}"
    own, others = ([c for c in m.table_encoding.columns if c.name not in ASIDE] for m in (expected, found))
    assert own == others, f"in by {way}: {others} for {own}"
    if expected.bits is None:
        own, others = (weights_by_name(model) for model in (expected, found))
        different = {n: (own.get(n), others.get(n)) for n in {*own, *others} if own.get(n) != others.get(n)}
        assert not different, f"in by {way}: {dict(list(different.items())[:5])}"
    else:
        assert np.array_equal(expected.weights, found.weights), f"in by {way}: weights"
    assert np.array_equal(expected.intercept, found.intercept), f"in by {way}: intercept"


# --- the campaign -----------------------------------------------------------------------------


def check_table(table, seed, ways, counts, only=None):
    """Check one table; AssertionError if ways disagree."""
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Checks(table, Path(folder), seed).check(ways, counts, only)


def failure(table, seed, only):
    """Return the error of a table, with all ways, or None."""
    try:
        check_table(table, seed, 99, collections.Counter(), only)
    except Exception as error:
        return error
    return None


def smaller(table):
    """Yield tables with a column, an option or some rows less."""
    for k in range(len(table.columns)):
        name = table.columns[k].name
        if len(table.columns) > 1 and not any(name in pair for pair in table.options.get("pairs", ())):
            yield dataclasses.replace(table, columns=[*table.columns[:k], *table.columns[k + 1 :]])
    for name in table.options:
        yield dataclasses.replace(table, options={k: v for k, v in table.options.items() if k != name})
    if table.weight:
        yield dataclasses.replace(table, weight=None)
    for rows in (len(table.target.typed) // 2, len(table.target.typed) - 1):
        if rows >= 4:
            yield dataclasses.replace(table.part(0, rows), learned=min(table.learned, rows - 1))


def smallest(table, seed, only):
    """Return a small table that fails in the same way."""
    kind = type(failure(table, seed, only))
    for _ in range(40):
        found = next((t for t in smaller(table) if kind is type(failure(t, seed, only)) is not type(None)), None)
        if found is None:
            return table
        table = found
    return table


def run(tables, seed=0, ways=5, only=None, keep_going=0):
    """Check tables; return counts of ways. The first that fails is made small and raised again."""
    counts = collections.Counter()
    for k in range(tables):
        table = make_table(seed * 10**7 + k)
        try:
            check_table(table, k, ways, counts, only)
        except Exception as error:
            counts["failed"] += 1
            if counts["failed"] > keep_going:
                table = smallest(table, k, only)
                print(f"table {k} of seed {seed}:\n{table}", file=sys.stderr)
                raise (failure(table, k, only) or error) from None
            print(f"table {k}: {type(error).__name__} {str(error)[:300]}", file=sys.stderr, flush=True)
        counts["tables"] += 1
        if (k + 1) % 1000 == 0:
            print(f"seed {seed}: {k + 1:,} tables, {counts['failed']} failed", flush=True)
    return counts


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ways", type=int, default=5)
    parser.add_argument("--only")
    parser.add_argument("--keep-going", type=int, default=0, help="how many failures are printed before the end")
    arguments = parser.parse_args()
    begin = time.perf_counter()
    found = run(arguments.tables, arguments.seed, arguments.ways, arguments.only, arguments.keep_going)
    for what, count in sorted(found.items(), key=str):
        print(f"{', '.join(what) if isinstance(what, tuple) else what:24} {count:9,}")
    print(f"{'all agree' if not found['failed'] else 'some disagree'}, {time.perf_counter() - begin:.0f} s")
