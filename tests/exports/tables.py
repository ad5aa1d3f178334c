"""Made-up tables for hypothesis, models of them, and their scores by every export."""

import dataclasses
import datetime
import json
import sqlite3
from typing import Any

import numpy as np
import onnxruntime
import pandas as pd
from hypothesis import strategies as st
from tests.features.dates import formatted

import fiol
from fiol.exports.json_model import model_from_json
from fiol.exports.row_features import features_of_columns, products
from fiol.features.table_encoding import TableEncoding

#: Names and values that break code which quotes them badly.
HOSTILE = [
    'so "called"', "it's", "a;--", "*/ DROP", "\\", "new\nline", "{}", "{0.__class__}", '"""', "''", "%s", "日本*x",
    "a=b", "\x1b[31m", "\u202eabc", "a b", "\\u0041", "$1", ":x", "\r", "#{x}", "`rm`", "<script>alert(1)</script>",
    "a.b", "a^b", "</style>", "&lt;", "\x9b1m", "a\tb", "--", "/*",
]  # fmt: skip
#: Any character that databases can store.
CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
TEXT = st.one_of(st.sampled_from(HOSTILE), st.text(CHARACTERS, max_size=6))
NUMBERS = st.one_of(st.just(0.0), st.floats(1e-3, 1e3), st.floats(-1e3, -1e-3), st.integers(-9, 9).map(float))
BLANKS = st.sampled_from(["", " ", "\t", "\u3000", "\n "])
DATES = st.dates()
TIMES = st.times()


def digits_of_fraction(micros, digits):
    """Return a fraction of a second with this number of digits, none for 0."""
    return "" if not digits else f".{micros:06d}000"[: digits + 1]


@st.composite
def time_texts(draw, padded):
    """A time of day as text: 7:30, 07:30:05, 07:30:05.25."""
    time, digits = draw(TIMES), draw(st.integers(0, 9))
    hour = f"{time.hour:02d}" if padded else str(time.hour)
    short = f"{hour}:{time.minute:02d}"
    return draw(st.sampled_from([short, f"{short}:{time.second:02d}{digits_of_fraction(time.microsecond, digits)}"]))


@st.composite
def date_texts(draw):
    """A date in ISO form, with or without a time of day and a time zone."""
    date = draw(DATES).isoformat()
    clock = draw(st.one_of(st.just(""), st.tuples(st.sampled_from("T "), time_texts(True)).map("".join)))
    zone = draw(st.sampled_from(["", "", "Z", "+02:00", "-0330", "+01"]))
    return draw(st.sampled_from(["", " "])) + date + clock + zone


@st.composite
def formatted_dates(draw, form):
    """A date in a format, with or without zeros in front of its numbers."""
    low, high = (datetime.datetime(1969, 1, 1), datetime.datetime(2068, 12, 31)) if "%y" in form else (None, None)
    moments = st.datetimes(low, high) if low else st.datetimes(datetime.datetime(1, 1, 1))
    return draw(st.sampled_from(["", " "])) + formatted(draw(moments), form, draw(st.booleans()))


NUMERALS = st.one_of(
    st.tuples(st.sampled_from(["", " ", "\t", "\xa0"]), NUMBERS.map(repr), st.sampled_from(["", " "])).map("".join),
    st.sampled_from(["+3", "-.5e-2", "7.", "1E2", "nan", " NaN ", "-0", "1e+01"]),
    BLANKS,
)
MOMENTS = st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2200, 1, 1))

#: The kinds of columns: how each is coded, its values, the type of a frame's column, and its type in a database.
KINDS: dict[str, tuple[str, Any, Any, str]] = {
    "numbers": ("number", NUMBERS, "float64", "DOUBLE PRECISION"),
    "whole numbers": ("number", st.integers(-9, 9), "Int64", "INTEGER"),
    "numeric text": ("numeric_text", NUMERALS, object, "TEXT"),
    "text": ("category", TEXT, object, "TEXT"),
    "numbers as categories": ("category", st.integers(-3, 3), "Int64", "INTEGER"),
    "decimals as categories": (
        "category",
        st.sampled_from([0.5, -2.25, 3.0, 1e22, 1e-7]),
        "float64",
        "DOUBLE PRECISION",
    ),
    "date text": ("date", st.one_of(date_texts(), BLANKS), object, "TEXT"),
    **{
        f"dates as {form}": (f"date:{form}", st.one_of(formatted_dates(form), BLANKS), object, "TEXT")
        for form in ("%m/%d/%Y", "%d.%m.%y %H:%M", "%b %d, %Y %I:%M:%S%p")
    },
    "dates": ("date", DATES.filter(lambda d: 1700 < d.year < 2200), object, "DATE"),
    "dates as categories": ("category", DATES.filter(lambda d: 1700 < d.year < 2200), object, "DATE"),
    "moments": ("date", MOMENTS, "datetime64[us]", "TIMESTAMP"),
    "time text": ("time", st.one_of(time_texts(True), time_texts(False), BLANKS), object, "TEXT"),
    "times": ("time", TIMES, object, "TIME"),
}
#: Kinds that SQL cannot express, or that databases store in another way.
PYTHON_KINDS: dict[str, tuple[str, Any, Any, str]] = {
    "words": ("words", st.one_of(TEXT, st.lists(TEXT, max_size=4).map(" ".join)), object, ""),
    "tags": ("tags", st.lists(TEXT, max_size=3), object, ""),
    "booleans": ("number", st.booleans(), "boolean", ""),
    "booleans as categories": ("category", st.booleans(), "boolean", ""),
    "times as categories": ("category", TIMES, object, ""),
    "durations": ("number", st.timedeltas(datetime.timedelta(0), datetime.timedelta(99)), "timedelta64[us]", ""),
}


@dataclasses.dataclass
class Table:
    """Columns with their kinds, rows to learn from, rows to score, and interactions."""

    kinds: dict[str, str]
    learned: dict[str, list[Any]]
    scored: dict[str, list[Any]]
    pairs: list[tuple[str, ...]]
    classes: int
    ngrams: int
    seed: int

    def kind(self, name):
        """Return how a column is coded, its values, its type in a frame and its type in a database."""
        return {**KINDS, **PYTHON_KINDS}[self.kinds[name]]

    def frame(self, rows):
        """Return rows as a frame."""
        return pd.DataFrame({name: pd.Series(values, dtype=self.kind(name)[2]) for name, values in rows.items()})

    def row_dicts(self):
        """Return the rows to score as dicts of Python's values."""
        return [dict(zip(self.scored, row, strict=True)) for row in zip(*self.scored.values(), strict=True)]


def values_of_column(kind):
    """Values of a column, some of them missing; a column of text has a value, so that it is known to be text."""
    return st.lists(st.one_of(kind[1], kind[1], kind[1], st.none()), min_size=4, max_size=4)


@st.composite
def tables(draw, kinds=tuple(KINDS)):
    """A table of one to four columns."""
    names = draw(
        st.lists(
            TEXT.filter(bool).filter(lambda s: len(s.encode()) < 60), min_size=1, max_size=4, unique_by=str.casefold
        )
    )
    chosen = {name: draw(st.sampled_from(kinds)) for name in names}
    every = {**KINDS, **PYTHON_KINDS}
    learned = {name: [draw(every[kind][1]), *draw(values_of_column(every[kind]))] for name, kind in chosen.items()}
    scored = {name: draw(values_of_column(every[kind])) for name, kind in chosen.items()}
    for name in names:  # some values that were learned from
        for k in draw(st.sets(st.integers(0, 3), max_size=4)):
            scored[name][k] = learned[name][k]
    groups = [*names, *(f"{name}.hour" for name, kind in chosen.items() if kind in ("times", "time text"))]
    pairs = draw(st.lists(st.lists(st.sampled_from(groups), min_size=2, max_size=3).map(tuple), max_size=2))
    classes, ngrams, seed = draw(st.sampled_from([0, 0, 3])), draw(st.integers(1, 2)), draw(st.integers(0, 99))
    return Table(chosen, learned, scored, pairs, classes, ngrams, seed)


def model_of(table):
    """Return a learner of a table, with weights from a normal distribution."""
    kinds = {name: table.kind(name)[0] for name in table.kinds}
    given = {n: {"kind": kind, "ngrams": table.ngrams} if kind == "words" else kind for n, kind in kinds.items()}
    loss = fiol.Softmax() if table.classes else fiol.Logistic()
    model = fiol.Learner(fiol.FIOL(loss), table_encoding=TableEncoding.from_spec(given, table.pairs), compiled=False)
    draw = np.random.default_rng(table.seed)
    model.core.encode_rows(table.frame(table.learned))  # the features alone: weights of one round are much alike
    if table.classes:
        model.add_classes(["no", 'it\'s "so"', "\x1b[1m日本"])
    shape = (table.classes, model.n_features) if table.classes else model.n_features
    model.start_from(draw.normal(size=shape), draw.normal(size=table.classes or None))
    return model


class Expected:
    """The scores of a model for the rows of a table, and 1e-12 of the sizes of their terms."""

    def __init__(self, model, frame):
        self.scores = model.scores(frame).reshape(len(frame), -1)
        terms = abs(model.to_sklearn()[0].transform(frame)) @ np.abs(np.atleast_2d(model.weights)).T
        self.tolerance = 1e-12 * (1.0 + terms)

    def check(self, found):
        """Assert that scores, a row each with a number per class, are these."""
        found = np.array(found, float).reshape(self.scores.shape)
        off = np.abs(found - self.scores) - self.tolerance
        assert (off <= 0.0).all(), (found.tolist(), self.scores.tolist())


# --- features ---------------------------------------------------------------------------------


def library_features(model, frame):
    """Return the features of every row by name, from the library."""
    named = model.table_encoding.named_rows(frame)
    for row in range(len(frame)):
        a, b = named.chunk.indptr[row : row + 2]
        found = {}
        for i, value in zip(named.chunk.indices[a:b].tolist(), named.chunk.data[a:b].tolist(), strict=True):
            found[named.names[i]] = found.get(named.names[i], 0.0) + value
        yield {name: value for name, value in found.items() if value != 0.0}


def exported_features(model, row):
    """Return the features of a dict by name, from the functions of exported modules."""
    columns = [
        (c.name, f"date:{c.format}" if c.format else c.kind, c.ngrams, c.parts) for c in model.table_encoding.columns
    ]
    found = {}
    encoding = model.table_encoding
    own = features_of_columns(row, columns, False, encoding.markers, encoding.missing is not None)
    for name, value, _ in products(own, encoding.pairs):
        found[name] = found.get(name, 0.0) + value
    return {name: value for name, value in found.items() if value != 0.0}


# --- libraries --------------------------------------------------------------------------------


def python_scores(model, rows):
    """Return the scores of dicts by the exported module, which is run."""
    module = {}
    exec(model.to_python(), module)
    scores = [module["score"](row) for row in rows]
    return [list(score.values()) if isinstance(score, dict) else [score] for score in scores]


def json_scores(model, frame):
    """Return the scores of a model that is read back from JSON, with and without its state."""
    return [
        model_from_json(json.loads(model.to_json(state)), compiled=False).scores(frame).reshape(len(frame), -1)
        for state in (True, False)
    ]


def sklearn_scores(model, frame):
    """Return the scores of scikit-learn's estimator."""
    return model.to_sklearn().decision_function(frame)


def onnx_scores(model, frame):
    """Return the scores of the ONNX graph, whose matrix scikit-learn's vectorizer makes."""
    session = onnxruntime.InferenceSession(model.to_onnx().SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(["score"], {"X": model.to_sklearn()[0].transform(frame).toarray()})[0]


# --- databases --------------------------------------------------------------------------------


def quoted(name):
    """Return a name as an SQL identifier, by the rule of the standard."""
    return '"' + name.replace('"', '""') + '"'


def create_table(table, name, types=None):
    """Return CREATE TABLE for a table."""
    columns = (
        f"{quoted(column)} {(types or {}).get(table.kind(column)[3], table.kind(column)[3])}" for column in table.kinds
    )
    return f"CREATE TEMPORARY TABLE {quoted(name)} ({', '.join(columns)})"


def sqlite_scores(model, table, name="made; up"):
    """Return the scores of SQLite, which stores dates as text."""
    base = sqlite3.connect(":memory:")
    try:
        base.execute(create_table(table, name))
        marks = ", ".join("?" for _ in table.kinds)
        values = (
            tuple(
                v.isoformat(*" " * isinstance(v, datetime.datetime)) if hasattr(v, "isoformat") else v
                for v in row.values()
            )
            for row in table.row_dicts()
        )
        base.executemany(f"INSERT INTO {quoted(name)} VALUES ({marks})", values)
        return base.execute(model.to_sql(name, dialect="sqlite")).fetchall()
    finally:
        base.close()


def duckdb_scores(base, model, table, name="made; up"):
    """Return the scores of DuckDB."""
    base.execute(create_table(table, name))
    try:
        marks = ", ".join("?" for _ in table.kinds)
        rows = [list(row.values()) for row in table.row_dicts()]
        base.executemany(f"INSERT INTO {quoted(name)} VALUES ({marks})", rows)
        return base.execute(model.to_sql(name, dialect="duckdb")).fetchall()
    finally:
        base.execute(f"DROP TABLE {quoted(name)}")


def copied(value):
    """Return a value as COPY reads it."""
    if value is None:
        return r"\N"
    text = str(value)
    return text.replace("\\", r"\\").replace("\n", r"\n").replace("\t", r"\t").replace("\r", r"\r").replace("\v", r"\v")


def postgres_scores(server, model, table, name="made; up"):
    """Return the scores of PostgreSQL."""
    rows = "".join("\t".join(copied(value) for value in row.values()) + "\n" for row in table.row_dicts())
    script = f"{create_table(table, name)};\nCOPY {quoted(name)} FROM STDIN;\n{rows}\\.\n"
    return server.run(f"{script}{model.to_sql(name, dialect='postgresql')};\nDROP TABLE {quoted(name)};")
