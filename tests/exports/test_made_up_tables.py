"""Exports of models of made-up tables score as the model does: to 1e-12 of the sizes of the terms."""

import io
import json
import math
import os

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.exports import tables
from tests.exports.postgres import missing_parts, postgres_server
from tests.exports.tables import KINDS, PYTHON_KINDS, Expected, exported_features, library_features, model_of
from tests.interpreted import interpret_all

import fiol
from fiol.exports.dialects import DIALECTS
from fiol.exports.dialects.standard import BLANK_CODES
from fiol.features.cell_rules import moment_of_value
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


@settings(max_examples=40)
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


@settings(max_examples=40)
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


@settings(max_examples=40)
@given(st.lists(OBJECTS, min_size=1, max_size=4), st.lists(LATER, min_size=1, max_size=3))
def test_python_scores_rows_of_json_lines_as_the_model(learned, scored):
    start = "".join(json.dumps({"y": 1, **row}) + "\n" for row in learned)
    reading = infer_config(io.BytesIO(start.encode()), target="y")
    model = fiol.Learner(fiol.FIOL(fiol.Squared()))
    model.learn(batch_of(reading, [*learned, *scored]), np.arange(1.0, 1.0 + len(learned) + len(scored)))
    model.meta["reading"] = reading.to_json()
    expected = model.scores(batch_of(reading, scored))
    np.testing.assert_allclose(np.ravel(tables.python_scores(model, scored)), expected, rtol=1e-12, atol=1e-12)


@st.composite
def nearly_dates(draw):
    """A date as text with up to two changes, so that some are no dates."""
    text = draw(tables.date_texts())
    for _ in range(draw(st.integers(0, 2))):
        k = draw(st.integers(0, len(text)))
        piece = draw(st.sampled_from(["", "0", "9", "-", "+", ":", ".", "T", " ", "Z", "\u0663", "+02"]))
        text = text[:k] + piece + text[k + draw(st.integers(0, 1)) :]
    return text


@settings(max_examples=200)
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
