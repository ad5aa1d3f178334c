"""Estimator files: loaded estimators keep all bits, and invalid files are rejected."""

import functools
import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from tests.interpreted import interpret

import fiol
from fiol.integrations import estimator_file
from fiol.persistence import model as files
from fiol.persistence.model_file import ModelFileError

rng = np.random.default_rng(3)
X = rng.standard_normal((40, 3))
X[rng.random(X.shape) < 0.3] = 0.0
SCORE = X @ [2.0, -1.0, 0.5] + 0.3 * rng.standard_normal(40)
THREE = np.digitize(SCORE, [-0.7, 0.7])
ONE_PASS = {"max_iter": 1, "shuffle": False}


@pytest.fixture(autouse=True)
def _nothing_compiles(monkeypatch):
    interpret(monkeypatch)


def regressor(**options):
    return fiol.FIOLRegressor(**{**ONE_PASS, **options}), SCORE


def classifier(y, **options):
    return fiol.FIOLClassifier(**{**ONE_PASS, **options}), y


def passive(kind, y, **options):
    return getattr(fiol, f"PassiveAggressive{kind}")(**{**ONE_PASS, **options}), y


CASES = {
    "numbers": lambda: regressor(),
    "a loss of its own kind, l1": lambda: regressor(loss=fiol.Huber(2.0), penalty=fiol.L1(0.01), average=True),
    "counts": lambda: (regressor(loss="poisson", step_size=0.1)[0], np.round(np.abs(SCORE))),
    "seeded": lambda: regressor(max_iter=3, shuffle=True, random_state=np.int64(3), tol=None),
    "two of bool": lambda: classifier(SCORE > 0.0),
    "two of float, weighted": lambda: classifier((SCORE > 0.0).astype(float), class_weight={0.0: 2.0, 1.0: 0.5}),
    "balanced": lambda: classifier(SCORE > 0.0, class_weight="balanced"),
    "three of int": lambda: classifier(THREE),
    "three of str": lambda: classifier(np.array(["no", "perhaps", "yes"])[THREE], loss="hinge"),
    "three objects": lambda: classifier(np.array(["no", "perhaps", "yes"], object)[THREE], loss="crammer_singer"),
    "passive-aggressive numbers": lambda: passive("Regressor", SCORE, C=0.1, fit_intercept=False),
    "passive-aggressive averages": lambda: passive("Regressor", SCORE, average=7, loss="squared_epsilon_insensitive"),
    "passive-aggressive, two of str": lambda: passive("Classifier", np.array(["no", "yes"])[(SCORE > 0.0).astype(int)]),
    "passive-aggressive, three of int": lambda: passive("Classifier", THREE, loss="squared_hinge", average=True),
}


def seen(model):
    """Return the fitted attributes of an estimator."""
    names = ("n_iter_", "t_", "loss_curve_", "n_features_in_", "feature_names_in_", "classes_", "coef_", "intercept_")
    return {name: np.asarray(getattr(model, name)).tolist() for name in names if hasattr(model, name)}


@pytest.mark.parametrize("way", ["fit", "frame", "partial_fit"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_saved_estimator_loads_identically(case, way, tmp_path):
    model, y = case()
    rows = pd.DataFrame(X, columns=["a", "b", "c"]) if way == "frame" else X
    if way == "partial_fit":
        if model.get_params().get("class_weight") == "balanced":
            pytest.skip("needs all rows")
        known = {"classes": np.unique(y)} if isinstance(model, fiol.PassiveAggressiveClassifier) else {}
        model.partial_fit(rows[25:], y[25:], **known).partial_fit(rows, y)  # classes appear in another order
    else:
        model.fit(rows, y)
    path = tmp_path / "model.fiol"
    model.save(path)
    for again in (fiol.load(path, compiled=False), type(model).load(path, compiled=False)):
        assert type(again) is type(model)
        assert again.get_params() == model.get_params()
        assert seen(again) == seen(model)
        if hasattr(model, "classes_"):
            assert again.classes_.dtype == model.classes_.dtype
            assert np.array_equal(again.decision_function(rows), model.decision_function(rows))
        assert again.predict(rows).tolist() == model.predict(rows).tolist()
    model.partial_fit(rows[:20], y[:20])
    assert seen(again.partial_fit(rows[:20], y[:20])) == seen(model)
    assert again.coef_.any()


def test_estimator_file_keeps_fitted_attributes(tmp_path):
    model, path = fiol.FIOLRegressor(**ONE_PASS, warm_start=True).fit(X, SCORE).fit(X, SCORE), tmp_path / "model.fiol"
    model.sparsify()
    model.meta = {"unit": "m"}
    model.save(path)
    again = fiol.load(path, compiled=False)
    assert (again.meta, again.t_, sparse.issparse(again.coef_)) == ({"unit": "m"}, model.t_, True)
    again.save(path)
    assert fiol.load(path, compiled=False).meta == {"unit": "m"}


def test_passive_aggressive_files_with_sparse_rows_and_weights(tmp_path):
    rows, path = sparse.csr_matrix(X), tmp_path / "model.fiol"
    model = fiol.PassiveAggressiveClassifier(**ONE_PASS).fit(rows, THREE)
    expected = seen(model)
    model.sparsify().save(path)
    again = fiol.load(path, compiled=False)
    assert sparse.issparse(again.coef_)
    assert seen(again.densify()) == expected
    assert seen(again.partial_fit(rows, THREE)) == seen(model.densify().partial_fit(rows, THREE))


@pytest.mark.parametrize(
    ("key", "value"),
    [("learners", []), ("learners", 3), ("steps", -1.0), ("steps", "1"), ("columns", 2), ("labels", {"texts": ["a"]})],
)
def test_altered_passive_aggressive_header_is_rejected(key, value, tmp_path):
    path = tmp_path / "model.fiol"
    model = fiol.PassiveAggressiveClassifier(**ONE_PASS).fit(X, np.array(["a", "b", "c"])[THREE])
    header, arrays = model._parts()
    for altered in ({**header, key: value}, {name: part for name, part in header.items() if name != key}):
        files.write_model(path, model._kind, altered, arrays, {})
        with pytest.raises(ModelFileError, match=r"model\.fiol: "):
            fiol.load(path, compiled=False)


def test_unsupported_estimators_cannot_be_saved(tmp_path):
    path = tmp_path / "model.fiol"
    with pytest.raises(ValueError, match="not fitted yet"):
        fiol.FIOLRegressor().save(path)
    seeded = fiol.FIOLRegressor(**ONE_PASS, random_state=np.random.RandomState(0)).fit(X, SCORE)
    with pytest.raises(TypeError, match="plain values or components, but random_state is RandomState"):
        seeded.save(path)
    assert not path.exists()


def test_file_of_another_kind_is_rejected(tmp_path):
    path = tmp_path / "model.fiol"
    fiol.FIOLRegressor(**ONE_PASS).fit(X, SCORE).save(path)
    with pytest.raises(ModelFileError, match="it holds 'regressor', not a classifier"):
        fiol.FIOLClassifier.load(path)
    with pytest.raises(ModelFileError, match="it holds 'regressor', not a learner"):
        fiol.Learner.load(path)


WRONG = {
    "parameters": [{"alpha": -1.0}, {"flavor": 1}, {"loss": {"recipe": {"component": "os.system", "fields": {}}}}, 3],
    "columns": [True, -1, 4, "3"],
    "names": [["a", "b"], [1, 2, 3], "abc"],
    "passes": [-1, None],
    "rounds_before": [-1, 0.5],
    "inner": ["classifier", None, []],
    "model": [{}, None],
    "labels": [{"texts": ["a", "a", "b"], "objects": False}, {"texts": [1, 2, 3], "objects": False}, {}, "abc"],
    "order": [[0, 1], [0, 1, 1], [0, 1, 3], None, [0, 1, "2"]],
    "closed": [False, None, 1],
}


@functools.cache
def parts_of_three():
    """Return the parts of the file of a one-vs-rest model of three classes."""
    model = fiol.FIOLClassifier(**ONE_PASS, loss="hinge", step_size="single")
    return estimator_file.parts_of(model.fit(X, np.array(["a", "b", "c"])[THREE]))


@pytest.mark.parametrize(("key", "value"), [(key, value) for key in WRONG for value in WRONG[key]], ids=str)
def test_altered_estimator_header_is_rejected(key, value, tmp_path):
    path = tmp_path / "model.fiol"
    header, arrays = parts_of_three()
    for altered in ({**header, key: value}, {name: part for name, part in header.items() if name != key}):
        files.write_model(path, "classifier", altered, arrays, {})
        with pytest.raises(ModelFileError, match=r"model\.fiol: "):
            fiol.load(path, compiled=False)


def test_altered_estimator_arrays_are_rejected(tmp_path):
    path = tmp_path / "model.fiol"
    model = fiol.FIOLClassifier(**ONE_PASS).fit(X, THREE)
    header, arrays = estimator_file.parts_of(model)
    wrong = {"losses": np.ones((2, 2)), "classes": np.array([0, 1]), "class_weights": np.ones(2)}
    for name, value in itertools.chain(wrong.items(), [("losses", None), ("classes", None), ("state.w", None)]):
        altered = {**arrays, name: value}
        files.write_model(path, "classifier", header, {k: a for k, a in altered.items() if a is not None}, {})
        with pytest.raises(ModelFileError, match=r"model\.fiol: "):
            fiol.load(path, compiled=False)
