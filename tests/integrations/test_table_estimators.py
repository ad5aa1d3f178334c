"""Estimators fitted on frames with text, dates and missing values: the bits of a learner, files, pickles, pipelines."""

import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from tests.frames import polars_frame
from tests.interpreted import interpret_all

import fiol
from fiol import FIOL, FIOLClassifier, FIOLRegressor, Learner, Logistic, OneVsRest, Squared, TableEncoding

RNG = np.random.default_rng(0)
ROWS = 40
FRAME = pd.DataFrame(
    {
        "age": np.where(RNG.random(ROWS) < 0.2, np.nan, RNG.normal(40.0, 10.0, ROWS)),
        "city": RNG.choice(["Rome", "Oslo", "Bern"], ROWS),
        "day": pd.Series(pd.date_range("2024-03-01", periods=ROWS)),
    }
)
Y = np.where(FRAME["city"] == "Rome", 2.0, -1.0) + RNG.normal(0.0, 0.1, ROWS)
PAIR, THREE = np.where(Y > 0.0, "yes", "no"), FRAME["city"].to_numpy(str)
ONCE = {"max_iter": 1, "shuffle": False, "step_size": "single"}


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    interpret_all(monkeypatch)


@pytest.mark.parametrize("build", [lambda f: f, polars_frame, pa.Table.from_pandas])
def test_estimator_pass_on_frames_matches_learner(build):
    frame, learner = build(FRAME), Learner(FIOL(Squared()))
    learner.learn(frame, Y)
    fitted = FIOLRegressor(**ONCE).fit(frame, Y)
    parts = FIOLRegressor(**ONCE).partial_fit(build(FRAME[:15]), Y[:15]).partial_fit(build(FRAME[15:]), Y[15:])
    for model in (fitted, parts):
        assert model.coef_.tobytes() == learner.weights.tobytes()
        assert model.coef_names_ == learner.names
        assert model.predict(frame).tobytes() == learner.predict(frame).tobytes()
        assert model.feature_names_in_.tolist() == ["age", "city", "day"]
        assert model.n_features_in_ == 3


@pytest.mark.parametrize(("y", "loss"), [(PAIR, "auto"), (THREE, "log_loss"), (THREE, "auto")])
def test_classifiers_on_frames(y, loss, tmp_path):
    model = FIOLClassifier(loss, **ONCE).fit(FRAME, y)
    assert model.score(FRAME, y) > 0.9
    assert model.coef_.shape[1] == len(model.coef_names_) > 10
    parts = FIOLClassifier(loss, **ONCE)
    for k in range(0, ROWS, 20):
        parts.partial_fit(FRAME[k : k + 20], y[k : k + 20], classes=np.unique(y))
    assert parts.coef_.tobytes() == model.coef_.tobytes()
    model.save(tmp_path / "model")
    for again in (pickle.loads(pickle.dumps(model)), fiol.load(tmp_path / "model")):
        assert again.coef_names_ == model.coef_names_
        assert again.predict_proba(FRAME).tobytes() == model.predict_proba(FRAME).tobytes()
        again.partial_fit(FRAME.assign(city="Paris"), y)
        assert "city=Paris" in again.coef_names_
        assert again.coef_.shape[1] == model.coef_.shape[1] + 1
    rest = OneVsRest(FIOL(Logistic()), classes=sorted(set(y)))
    rest.learn(FRAME, y.tolist())
    if loss == "log_loss":
        assert rest.weights.tobytes() == model.coef_.tobytes()


@pytest.mark.parametrize("options", [ONCE, {"max_iter": 2, "tol": None, "random_state": 0}], ids=["single", "default"])
@pytest.mark.parametrize(
    ("model", "y"),
    [
        (FIOLRegressor(), Y),
        (FIOLClassifier(), PAIR),
        (FIOLClassifier(), THREE),
        (FIOLClassifier("log_loss"), THREE),
    ],
    ids=["regressor", "two_classes", "softmax", "one_vs_rest"],
)
def test_importances_are_named_by_encoded_features(model, y, options, tmp_path):
    model = clone(model).set_params(**options).fit(FRAME, y)
    names, weights = model.coef_names_, np.atleast_2d(model.coef_)
    found = model.importances()
    assert set(found) == {name for name, used in zip(names, weights.any(axis=0), strict=True) if used}
    sizes = np.abs(list(found.values()))
    assert (sizes[:-1] >= sizes[1:]).all()
    assert list(model.importances(2)) == list(found)[:2]

    dense = np.zeros((ROWS, len(names)))
    for k, column in enumerate(names):
        if column.startswith("city="):
            dense[:, k] = FRAME["city"] == column.removeprefix("city=")
        elif column == "age":
            dense[:, k] = FRAME["age"].fillna(FRAME["age"].mean())  # a missing value counts as the running mean
    weight = np.sqrt(np.mean(weights**2, axis=0))
    by_rows = model.importances(X=polars_frame(FRAME))
    for k, name in enumerate(names):
        if name == "age" or name.startswith("city="):
            assert abs(by_rows[name]) == pytest.approx(weight[k] * dense[:, k].std(), rel=1e-3)
    with pytest.raises(TypeError, match="X must be one with the columns age, city, day"):
        model.importances(X=FRAME.to_numpy())
    model.save(tmp_path / "model")
    assert fiol.load(tmp_path / "model").importances() == found


def test_given_encoding_works_with_scikit_learn_tools(tmp_path):
    numbers = pd.DataFrame({"zip": [1, 2, 3, 1] * 10, "x": RNG.normal(size=40)})
    model = FIOLRegressor(table_encoding={"zip": "category"}, **ONCE).fit(numbers, Y)
    assert set(model.coef_names_) == {"zip=1", "zip=2", "zip=3", "x"}
    model.save(tmp_path / "model")
    assert fiol.load(tmp_path / "model").table_encoding == {"zip": "category"}
    whole = FIOLRegressor(table_encoding=TableEncoding.from_spec({"age": "skip"}), random_state=0)
    whole.fit(FRAME, Y).save(tmp_path / "whole")
    assert fiol.load(tmp_path / "whole").table_encoding == whole.table_encoding
    assert fiol.load(tmp_path / "whole").predict(FRAME.drop(columns="age")).shape == (ROWS,)
    assert (cross_val_score(clone(FIOLClassifier(random_state=0)), FRAME, PAIR, cv=3) > 0.8).all()
    assert make_pipeline(FIOLClassifier(random_state=0)).fit(FRAME, PAIR).score(FRAME, PAIR) > 0.9
    warm = FIOLClassifier("log_loss", warm_start=True, **ONCE).fit(FRAME[:20], THREE[:20])
    before = warm.coef_.shape[1]
    warm.fit(FRAME.assign(city="Paris"), THREE)
    assert warm.coef_.shape[1] > before
    assert warm.set_params(alpha=0.1, penalty="l1").fit(FRAME, THREE).coef_.shape == warm.coef_.shape


def test_rejected_frames_leave_the_estimator_unchanged():
    model = FIOLClassifier(**ONCE).fit(FRAME, PAIR)
    before = model.coef_.tobytes(), model.coef_names_, model.t_
    for call, kind, message in [
        (lambda: model.predict(FRAME.to_numpy()), TypeError, "X must be one with the columns age, city, day"),
        (lambda: model.partial_fit(FRAME.drop(columns="age"), PAIR), ValueError, "missing 'age'"),
        (lambda: model.partial_fit(FRAME.assign(age="x"), PAIR), ValueError, r"^X\[0, 'age'\] must be a number"),
        (lambda: model.partial_fit(FRAME.assign(city="Paris"), ["perhaps"] * ROWS), ValueError, "no classes"),
        (lambda: model.partial_fit(FRAME, PAIR[1:]), ValueError, "inconsistent numbers of samples"),
    ]:
        with pytest.raises(kind, match=message):
            call()
    with pytest.warns(UserWarning, match="count as missing: 'age'"):
        found = model.predict(FRAME.drop(columns="age"))
    assert np.array_equal(found, model.predict(FRAME.assign(age=np.nan)))
    assert (model.coef_.tobytes(), model.coef_names_, model.t_) == before
    plain = FIOLRegressor(**ONCE).fit(FRAME[["day"]].assign(day=1.0), Y)
    assert plain.coef_names_ == ["day"]
    with pytest.raises(ValueError, match=r"NaN|could not convert"):
        plain.predict(pd.DataFrame({"day": [np.nan]}))
