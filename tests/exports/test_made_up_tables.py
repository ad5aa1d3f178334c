"""Exports of models of made-up tables score as the model does: to 1e-12 of the sizes of the terms."""

import math
import os

import pytest
from hypothesis import assume, given, settings
from tests.exports import tables
from tests.exports.postgres import missing_parts, postgres_server
from tests.exports.tables import KINDS, PYTHON_KINDS, assert_scores, exported_features, library_features, model_of
from tests.interpreted import interpret_all

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
    assert_scores(tables.python_scores(model, table.row_dicts()), model, frame)
    for scores in tables.json_scores(model, frame):
        assert_scores(scores, model, frame)


@settings(max_examples=25)
@given(tables.tables(ALL_KINDS))
def test_onnx_and_sklearn_score_as_the_model(table):
    model, frame = model_of(table), table.frame(table.scored)
    assume(model.n_features)  # scikit-learn has no models without
    assert_scores(tables.sklearn_scores(model, frame), model, frame)
    assert_scores(tables.onnx_scores(model, frame), model, frame)


@given(tables.tables())
def test_sqlite_scores_as_the_model(table):
    model = model_of(table)
    assert_scores(tables.sqlite_scores(model, table), model, table.frame(table.scored))


@pytest.fixture(scope="module")
def duckdb_base():
    with pytest.importorskip("duckdb").connect() as base:
        base.execute("SET threads TO 1")
        yield base


@settings(max_examples=40)
@given(table=tables.tables())
def test_duckdb_scores_as_the_model(duckdb_base, table):
    model = model_of(table)
    assert_scores(tables.duckdb_scores(duckdb_base, model, table), model, table.frame(table.scored))


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
    assert_scores(tables.postgres_scores(postgres, model, table), model, table.frame(table.scored))
