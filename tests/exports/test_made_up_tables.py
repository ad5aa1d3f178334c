"""Exports of models of made-up tables score as the model does: to 1e-12 of the sizes of the terms."""

import functools
import io
import json
import math
import os
import sqlite3

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.exports import tables
from tests.exports.postgres import missing_parts, postgres_server
from tests.exports.tables import KINDS, PYTHON_KINDS, Expected, exported_features, library_features, model_of
from tests.features.dates import FORMATS, date_cells
from tests.interpreted import interpret_all

import fiol
from fiol.exports.dialects import DIALECTS
from fiol.exports.dialects.standard import BLANK_CODES
from fiol.features.cell_rules import moment_of_value
from fiol.features.column_values import times_of_strings
from fiol.features.date_formats import moments_of_strings
from fiol.readers.reader_config import infer_config

ALL_KINDS = (*KINDS, *PYTHON_KINDS)


@pytest.fixture(autouse=True, scope="module")
def interpreted():
    with pytest.MonkeyPatch.context() as patch:
        interpret_all(patch)
        yield


@given(tables.tables(ALL_KINDS))
def test_features_of_exported_modules_are_those_of_the_library(table):
    model = model_of(table)
    for row, expected in zip(table.row_dicts(), library_features(model, table.frame(table.scored)), strict=True):
        found = exported_features(model, row)
        assert found.keys() == expected.keys()
        assert all(math.isclose(found[name], value, rel_tol=1e-14) for name, value in expected.items())


@settings(max_examples=20)
@given(tables.tables(ALL_KINDS))
def test_python_and_json_score_as_the_model(table):
    model, frame = model_of(table), table.frame(table.scored)
    expected = Expected(model, frame)
    expected.check(tables.python_scores(model, table.row_dicts()))
    for scores in tables.json_scores(model, frame):
        expected.check(scores)


@settings(max_examples=25)
@given(tables.tables(ALL_KINDS))
def test_onnx_and_sklearn_score_as_the_model(table):
    model, frame = model_of(table), table.frame(table.scored)
    assume(model.n_features)  # scikit-learn has no models without
    expected = Expected(model, frame)
    expected.check(tables.sklearn_scores(model, frame))
    expected.check(tables.onnx_scores(model, frame))


@given(tables.tables())
def test_sqlite_scores_as_the_model(table):
    model = model_of(table)
    expected = Expected(model, table.frame(table.scored))
    expected.check(tables.sqlite_scores(model, table))


@pytest.fixture(scope="module")
def duckdb_base():
    with pytest.importorskip("duckdb").connect() as base:
        base.execute("SET threads TO 1")
        yield base


@settings(max_examples=20)
@given(table=tables.tables())
def test_duckdb_scores_as_the_model(duckdb_base, table):
    model = model_of(table)
    expected = Expected(model, table.frame(table.scored))
    expected.check(tables.duckdb_scores(duckdb_base, model, table))


@pytest.fixture(scope="module")
def postgres():
    reason = missing_parts()
    if reason is not None:
        assert not os.environ.get("FIOL_POSTGRES"), reason  # make test-postgres is there to run them
        pytest.skip(reason)
    with postgres_server() as server:
        yield server


@given(table=tables.tables())
def test_postgresql_scores_as_the_model(postgres, table):
    model = model_of(table)
    expected = Expected(model, table.frame(table.scored))
    expected.check(tables.postgres_scores(postgres, model, table))


# --- dates as text -----------------------------------------------------------------------------


@st.composite
def nearly_dates(draw):
    """A date as text with up to two changes, so that some are no dates."""
    text = draw(tables.date_texts())
    for _ in range(draw(st.integers(0, 2))):
        k = draw(st.integers(0, len(text)))
        piece = draw(st.sampled_from(["", "0", "9", "-", "+", ":", ".", "T", " ", "Z", "\u0663", "+02"]))
        text = text[:k] + piece + text[k + draw(st.integers(0, 1)) :]
    return text


#: A format, "" for ISO dates, and cells of a column of it, some of which are no dates.
DATE_COLUMNS = st.sampled_from(["", *FORMATS]).flatmap(
    lambda form: st.tuples(
        st.just(form),
        st.lists(st.one_of(date_cells(form) if form else nearly_dates(), st.none()), min_size=1, max_size=8),
    )
)
#: Cells that are dates in another way, or nearly.
HARD_DATES = [
    ("%m/%d/%Y", ["2/29/2023", "2/29/2024", "2/29/1900", "02/29/2000", "13/1/2011", "4/31/2011", "0/1/2011"]),
    ("%d/%m/%y", ["1/1/69", "31/12/68", "1/1/1969", "001/1/69", "1/1/6", "0/1/69"]),
    ("%Y%m%d", ["20110528", "2011528", "2011052", "201105281", "20111305"]),
    ("%I%p %d %b %y", ["12AM 1 Jan 00", "12pm 1 JAN 00", "0AM 1 Jan 00", "13PM 1 Jan 00", "1xm 1 Jan 00"]),
    ("%I%p %d %b %y", ["1AM 1 Jam 00", "1AM 1 jan 00"]),
    ("%d.%m.%Y %H:%M:%S", ["1.2.2011 23:59:59", "1.2.2011 24:00:00", "1.2.2011 0:60:0", "1.2.2011 0:0:60"]),
    ("%d[%m]%Y*?^$|(\\'", ["1[2]2011*?^$|(\\'", "1[2]2011xx^$|(\\'", "1x2]2011*?^$|(\\'"]),
    ("", ["soon", "2011-02-30", "2011-13-01", "2011-1-1", "2011-01-01x", "2011-01-01 24:00", "2011-01-01 12:3", "n/a"]),
    ("", ["2011-01-01t07:30", "2011-01-01T7:30", "2011-01-01T07:30.5", "2011-01-01T07:30:00.", " 2012-02-29"]),
    ("", ["2011-01-01T07:30:00.1234567890", "2011-01-01T07:30:00.123456789+01:00", "2011-01-01+1", "2011-01-01-0330"]),
]  # fmt: skip
#: Cells of a column of times of day, some of which are none.
HARD_TIMES = ["7:30", "07:30:15.25", "noon", "24:00", "7:60", "7:3", "730", "2011-01-01", "07:30Z", " 7:30 ", "", "nan"]


def check_dates_in_sql(form, cells, scores, kind="date"):
    """Assert that scores by SQL are those of the model, where cells that are no dates are missing."""
    stored = [c if c is None or "\0" not in c else None for c in cells]  # no database has text with NUL
    table = tables.Table({"d": "text"}, {}, {"d": stored}, [], 0, 1, 0)
    parts = ("days", "hour") if kind == "time" else ("days", "month", "weekday", "hour")
    encoding = fiol.TableEncoding.from_spec({"d": {"kind": kind, "format": form, "parts": parts}}, [("d", "d.hour")])
    model = fiol.Learner(fiol.FIOL(fiol.Squared()), table_encoding=encoding, compiled=False)
    cells = [c if c is not None and is_date(c, form, kind) else None for c in table.scored["d"]]
    model.core.encode_rows(pd.DataFrame({"d": pd.Series([*cells, None], dtype=object)}))
    model.start_from(np.random.default_rng(0).normal(size=model.n_features), 0.25)
    Expected(model, pd.DataFrame({"d": pd.Series(cells, dtype=object)})).check(scores(model, table))


def is_date(text, form, kind):
    """Return whether a text is a date from the year 1 on, or a time of day."""
    (moment,) = times_of_strings([text]) if kind == "time" else moments_of_strings([text], form)
    return bool(moment >= np.datetime64("0001-01-01"))


@given(DATE_COLUMNS)
def test_sqlite_reads_dates_as_the_model(column):
    check_dates_in_sql(*column, tables.sqlite_scores)


@pytest.mark.parametrize("column", HARD_DATES)
def test_sqlite_and_duckdb_read_hard_dates_as_the_model(column, duckdb_base):
    check_dates_in_sql(*column, tables.sqlite_scores)
    check_dates_in_sql(*column, functools.partial(tables.duckdb_scores, duckdb_base))


@pytest.mark.parametrize("database", ["sqlite", "duckdb", "postgresql"])
def test_databases_read_hard_times_as_the_model(database, request):
    if database == "sqlite":
        scores = tables.sqlite_scores
    elif database == "duckdb":
        scores = functools.partial(tables.duckdb_scores, request.getfixturevalue("duckdb_base"))
    else:
        scores = functools.partial(tables.postgres_scores, request.getfixturevalue("postgres"))
    check_dates_in_sql("", HARD_TIMES, scores, "time")


@settings(max_examples=20)
@given(column=DATE_COLUMNS)
def test_duckdb_reads_dates_as_the_model(duckdb_base, column):
    check_dates_in_sql(*column, functools.partial(tables.duckdb_scores, duckdb_base))


@given(column=st.one_of(DATE_COLUMNS, st.sampled_from(HARD_DATES)))
def test_postgresql_reads_dates_as_the_model(postgres, column):
    check_dates_in_sql(*column, functools.partial(tables.postgres_scores, postgres))


def test_curves_of_dates_in_a_format_have_the_scores_of_the_model_in_sql():
    draw = np.random.default_rng(5)
    days = pd.to_datetime("2011-01-01") + pd.to_timedelta(draw.integers(0, 900, 400), unit="D")
    cells = [f"{day.month}/{day.day}/{day.year}" for day in days]
    frame = pd.DataFrame({"a long name " * 6: cells, "x": draw.normal(size=400)})
    model = fiol.Learner(loss=fiol.Squared(), features="additive", compiled=False)
    model.learn(frame, np.sin(days.day_of_year / 58.0) + frame["x"])
    frame.iloc[::7, 0] = "not yet"
    expected = model.scores(frame.where(frame != "not yet", None))
    with sqlite3.connect(":memory:") as base:
        frame.to_sql("data", base, index=False)
        found = np.ravel(base.execute(model.to_sql(dialect="sqlite")).fetchall())
    np.testing.assert_allclose(found, expected, rtol=1e-10)


# --- rows of JSON lines -----------------------------------------------------------------------

NUMBER = st.one_of(st.integers(-9, 9), st.floats(1e-3, 1e3), st.booleans())
#: Values by key; a key may be absent, and `new` is in rows to score alone.
JSON_VALUES = {
    "n": NUMBER,
    "c": st.one_of(tables.TEXT, st.none()),
    "when": st.dates().map(str),
    "at": st.sampled_from(["7:30", "23:59:59", "00:00"]),
    "user": st.fixed_dictionaries({}, optional={"age": NUMBER, "tags": st.lists(tables.TEXT, max_size=2)}),
    "it's": st.lists(tables.TEXT, max_size=3),
}
OBJECTS = st.fixed_dictionaries({}, optional=JSON_VALUES)
LATER = st.fixed_dictionaries({}, optional={**JSON_VALUES, "new": st.one_of(NUMBER, tables.TEXT)})


def batch_of(reading, objects):
    """Return the rows that the reader of JSON lines makes of objects."""
    lines = "".join(json.dumps({"y": 1, **row}) + "\n" for row in objects)
    (batch,) = reading.batches(io.BytesIO(lines.encode()), prefetch=False)
    return batch.X


@settings(max_examples=20)
@given(st.lists(OBJECTS, min_size=1, max_size=4), st.lists(LATER, min_size=1, max_size=3))
def test_python_scores_rows_of_json_lines_as_the_model(learned, scored):
    start = "".join(json.dumps({"y": 1, **row}) + "\n" for row in learned)
    reading = infer_config(io.BytesIO(start.encode()), target="y")
    model = fiol.Learner(fiol.FIOL(fiol.Squared()))
    model.learn(batch_of(reading, [*learned, *scored]), np.arange(1.0, 1.0 + len(learned) + len(scored)))
    model.meta["reading"] = reading.to_json()
    expected = model.scores(batch_of(reading, scored))
    np.testing.assert_allclose(np.ravel(tables.python_scores(model, scored)), expected, rtol=1e-12, atol=1e-12)


@settings(max_examples=100)
@given(nearly_dates())
def test_exported_modules_take_the_dates_that_the_library_takes(text):
    (moment,) = moments_of_strings([text], "")
    if np.isnat(moment):
        with pytest.raises(ValueError, match=r"date|day|time"):
            moment_of_value(text)
    else:
        days, _, micros = moment_of_value(text)
        assert np.datetime64(days, "D") + np.timedelta64(micros, "us") == moment


def test_databases_trim_what_python_strips(duckdb_base):
    """`BLANK_CODES` are the characters that `str.strip` removes, and DuckDB's expression has the same ones."""
    blanks = [code for code in range(0x110000) if not chr(code).strip()]
    assert blanks == list(BLANK_CODES)
    others = [0x180E, 0x200B, 0xFEFF, 0x2060, 8, 14, 27, 33, 0x7F, 0x84, 0x86]
    query = f"SELECT {DIALECTS['duckdb'].trimmed('c')} FROM (SELECT ? AS c)"
    for code in [*blanks, *others]:
        text = f"{chr(code)}a{chr(code)}"
        assert duckdb_base.execute(query, [text]).fetchall() == [(text.strip(),)]
