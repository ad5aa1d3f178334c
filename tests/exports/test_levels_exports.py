"""Exported models with curves and pairs give the scores of `Learner.scores`."""

import contextlib
import json
import re
import sqlite3

import numpy as np
import onnxruntime
import pandas as pd
import pytest
import scipy.sparse
from tests.interpreted import interpret
from tests.test_levels import as_dicts, numbers, table

import fiol
from fiol.exports.json_model import model_from_json
from fiol.exports.linear import NoExportError

ODD = 'so "called" \' name = ^*: %'
TOLERANCE = 1e-12


@pytest.fixture(autouse=True)
def in_the_interpreter(monkeypatch):
    interpret(monkeypatch)


def columns(scores):
    """Return scores, a number or a dict per row, as a matrix."""
    return np.array([list(s.values()) if isinstance(s, dict) else [s] for s in scores])


#: Columns are looked at after 200 and 300 rows.
REFINED = fiol.TableBasis(rows=100, refine_rows=250)


@pytest.mark.parametrize("features", ["additive", "pairwise", REFINED], ids=["additive", "pairwise", "refined"])
@pytest.mark.parametrize("loss", [fiol.Squared(), fiol.Logistic(), fiol.Softmax()], ids=str)
def test_exports_of_a_table_have_the_scores_of_the_model(loss, features, tmp_path):
    frame, y = table(500)
    frame[ODD] = np.random.default_rng(5).choice(['x"', "y=1*", "it's"], 500)
    targets = {
        "Squared": y,
        "Logistic": np.sign(y - 0.5),
        "Softmax": np.where(y > 0.8, "high", np.where(y < -0.5, "low", "middle")).astype(object),
    }[type(loss).__name__]
    learner = fiol.Learner(loss=loss, features=features, compiled=not isinstance(loss, fiol.Softmax))  # compiles long
    learned = 320 if features is REFINED else 240
    learner.learn(frame[:learned], targets[:learned])
    assert learner.core.levels.basis.refined[0] == (features is REFINED)
    rows = frame[learned + 60 :]
    scores = learner.scores(rows).reshape(len(rows), -1)
    (tmp_path / "model.json").write_text(learner.to_json(), encoding="utf-8")
    again = fiol.load_json(tmp_path / "model.json", compiled=not isinstance(loss, fiol.Softmax))
    assert np.array_equal(again.scores(rows).reshape(scores.shape), scores)
    module = {}
    exec(learner.to_python(), module)
    assert np.abs(columns(map(module["score"], as_dicts(rows))) - scores).max() < TOLERANCE
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        rows.to_sql("data", database, index=False)
        found = np.array(database.execute(learner.to_sql(dialect="sqlite")).fetchall(), float)
    assert np.abs(found - scores).max() < TOLERANCE
    pipeline = learner.to_sklearn()
    score = (
        pipeline.predict if learner.classes is None and isinstance(loss, fiol.Squared) else pipeline.decision_function
    )
    assert np.abs(np.asarray(score(rows)).reshape(scores.shape) - scores).max() < TOLERANCE
    chunk = learner.core.read_rows(rows)
    shape = len(rows), learner.core.space.features
    matrix = scipy.sparse.csr_matrix((chunk.data, chunk.indices, chunk.indptr), shape).toarray()
    session = onnxruntime.InferenceSession(learner.to_onnx().SerializeToString())
    assert np.abs(session.run(["score"], {"X": matrix})[0] - scores).max() < TOLERANCE


def test_exports_of_an_array_have_the_scores_of_the_model():
    X, y = numbers(400)
    learner = fiol.Learner(loss=fiol.Squared(), features="auto")
    learner.learn(X, y)
    scores, module = learner.scores(X), {}
    exec(learner.to_python(), module)
    assert np.abs(columns(module["score"](list(x)) for x in X)[:, 0] - scores).max() < TOLERANCE
    assert np.abs(learner.to_sklearn().predict(X) - scores).max() < TOLERANCE
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        pd.DataFrame(X, columns=[f"f{k}" for k in range(X.shape[1])]).to_sql("data", database, index=False)
        found = np.array(database.execute(learner.to_sql()).fetchall())
    assert np.abs(found[:, 0] - scores).max() < TOLERANCE


def test_sklearn_pipeline_reads_columns_of_numbers_by_name():
    X, y = numbers(400)
    frame = pd.DataFrame(X).rename(columns=lambda k: f"c{k}")
    learner = fiol.Learner(loss=fiol.Squared(), features=fiol.TableBasis(rows=100, knots=5))
    learner.learn(frame, y)
    pipeline = learner.to_sklearn()
    assert np.abs(pipeline.predict(frame[frame.columns[::-1]]) - learner.scores(frame)).max() < TOLERANCE
    assert np.abs(pipeline.predict(X) - learner.scores(frame)).max() < TOLERANCE
    with pytest.raises(ValueError, match="c0"):
        pipeline.predict(frame.rename(columns={"c0": "other"}))
    with pytest.raises(ValueError, match="columns"):
        pipeline.predict(X[:, 1:])


@pytest.mark.parametrize("kind", ["frame of text", "frame of numbers", "array"])
@pytest.mark.parametrize("labels", [None, ["low", "high"], ["low", "middle", "high"]], ids=["numbers", "two", "three"])
def test_exports_of_an_estimator_with_curves_have_its_scores(kind, labels, tmp_path):
    frame, y = table(500) if kind == "frame of text" else (pd.DataFrame(numbers(500)[0]), numbers(500)[1])
    X = frame.to_numpy() if kind == "array" else frame.rename(columns=str)
    options = {"features": fiol.TableBasis(rows=100, knots=5), "max_iter": 1, "shuffle": False}
    if labels is None:
        model = fiol.FIOLRegressor(**options).fit(X, y)
        scores = model.predict(X).reshape(-1, 1)
    else:
        codes = np.digitize(y, np.quantile(y, np.arange(1, len(labels)) / len(labels)))
        model = fiol.FIOLClassifier("log_loss", **options).fit(X, np.array(labels)[codes])
        scores = model.decision_function(X).reshape(len(X), -1)
    assert np.abs(model.coef_).max() > 0.0  # stores them
    module, rows = {}, X.tolist() if kind == "array" else as_dicts(X)
    exec(model.to_python(), module)
    assert np.abs(columns(map(module["score"], rows)) - scores).max() < TOLERANCE
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        (frame.add_prefix("f") if kind == "array" else X).to_sql("data", database, index=False)
        found = np.array(database.execute(model.to_sql(dialect="sqlite")).fetchall(), float)
    assert np.abs(found - scores).max() < TOLERANCE
    pipeline = model.to_sklearn()
    found = pipeline.predict(X) if labels is None else pipeline.decision_function(X)
    assert np.abs(np.asarray(found).reshape(scores.shape) - scores).max() < TOLERANCE
    if kind != "frame of text":
        session = onnxruntime.InferenceSession(model.to_onnx().SerializeToString())
        assert np.abs(session.run(["score"], {"X": frame.to_numpy()})[0] - scores).max() < TOLERANCE
    (tmp_path / "model.json").write_text(model.to_json(), encoding="utf-8")
    assert np.array_equal(fiol.load_json(tmp_path / "model.json").predict(X), model.predict(X))


def test_json_has_all_weights_and_continues_to_the_same_bits(tmp_path):
    frame, y = table(400)
    learner = fiol.Learner(loss=fiol.Squared(), features="auto")
    learner.learn(frame[:300], y[:300])
    path = tmp_path / "model.json"
    path.write_text(learner.to_json(), encoding="utf-8")
    again = fiol.load_json(path)
    assert np.array_equal(again.learn(frame[300:], y[300:]), learner.learn(frame[300:], y[300:]))
    assert np.array_equal(again.weights, learner.weights)
    with pytest.raises(NoExportError, match="without its state"):
        learner.to_json(state=False)


def test_json_of_models_whose_hats_had_names_of_more_digits_loads():
    frame, y = table(300)
    learner = fiol.Learner(loss=fiol.Squared(), features="auto")
    learner.learn(frame, y)
    older = re.sub(r"(~-?\d+\.\d+)", r"\g<1>0000000001", learner.to_json())
    assert older != learner.to_json()
    assert np.array_equal(model_from_json(json.loads(older)).scores(frame), learner.scores(frame))
    with pytest.raises(ValueError, match="not those of its state"):
        model_from_json({**json.loads(older), "weights": json.loads(older)["weights"][1:]})


def test_sql_and_python_agree_on_values_that_were_not_learned_from():
    frame, y = table(200)
    learner = fiol.Learner(loss=fiol.Squared(), features=fiol.TableBasis(rows=100, knots=5))  # for a short query
    learner.learn(frame, y)
    full = {"a": 0.3, "k": 2.0, "city": "A", "day": "2024-02-03 04:00:00"}
    changes = [{name: None} for name in full]  # of these, only `a` and `city` were missing before
    changes += [{"city": "Z"}, {"a": 1e6}, {"a": -1e6}, {"k": 2.5}, {"day": "1999-01-01 00:00:00"}, dict.fromkeys(full)]
    rows = [{**full, **change} for change in changes]
    scores, module = learner.scores(rows), {}
    exec(learner.to_python(), module)
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE data (a REAL, k REAL, city TEXT, day TEXT)")
        database.executemany("INSERT INTO data VALUES (?, ?, ?, ?)", [tuple(row.values()) for row in rows])
        found = np.array(database.execute(learner.to_sql(dialect="sqlite")).fetchall(), float)[:, 0]
    for exported in (found, np.array([module["score"](row) for row in rows])):
        assert np.abs((exported - scores) / (1.0 + np.abs(scores))).max() < TOLERANCE
