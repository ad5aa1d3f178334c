"""All integrations predict alike: scores are linear in the row, also beyond the learned values.

Rows of the exact tests have at most two terms, each a weight times a power of two: a sum in any order rounds once, so
that integrations that share no code with each other agree to the last bit.
"""

import functools

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from tests.interpreted import interpret
from tests.oracles.outliers import learned

import fiol
from fiol.features.hashing import Hashing
from fiol.onnx import to_onnx
from fiol.river import FIOLClassifier as RiverClassifier
from fiol.river import FIOLRegressor as RiverRegressor

NAMES = ["a", "b", "c"]
rng = np.random.default_rng(5)
#: Values up to 1, each beside its negative: no column is centered, so that scores are sums of weights times values.
SEEN = np.repeat(np.round(rng.uniform(-1, 1, (20, 3)), 2), 2, axis=0) * np.tile([[1.0], [-1.0]], (20, 1))
Y = SEEN @ [3.0, -2.0, 0.5] + 1.0
SIGNS = np.where(Y > 1.0, 1.0, -1.0)
THREE = np.digitize(Y, [0.0, 2.0])
BEYOND = np.array([[16.0, 0.0, 0.0], [0.0, -1024.0, 0.0], [0.0, 0.0, 2.0**20], [0.5, 0.0, 0.0], [0.0, 0.0, 0.0]])
#: For models without an intercept.
PAIRS = np.vstack([BEYOND, [[4.0, -8.0, 0.0], [0.0, 2.0, 2048.0], [-512.0, 0.0, 0.25]]])
UPDATES = {
    "default": fiol.FIOL(fiol.Squared()),
    "l1": fiol.FIOL(fiol.Squared(), fiol.L1(0.01)),
    "scale-free, constant": fiol.FIOL(fiol.Squared(), step_size=fiol.ScaleFree(fiol.Constant(0.5))),
    "in a box": fiol.FIOL(fiol.Squared(), fiol.Box(fiol.Unregularized(), -1.0, 1.0)),
    "dual averaging": fiol.ImplicitFTRL(fiol.Squared(), fiol.L1(0.01)),
}


def dicts(X):
    return [{name: value for name, value in zip(NAMES, row, strict=True) if value} for row in X.tolist()]


def run(model, X, output, dtype="float64"):
    session = onnxruntime.InferenceSession(to_onnx(model, dtype).SerializeToString())
    return session.run([output], {"X": X.astype(dtype)})[0]


def readings(learner, X):
    """The scores of rows by every method of a learner, or of a model of several, with numbered features."""
    yield learner.scores(X)
    yield learner.scores(X.tolist())
    yield learner.scores(sparse.csr_matrix(X))
    yield learner.scores(pd.DataFrame(X))
    yield learner.score_chunk(fiol.to_chunk(X))
    yield np.concatenate([learner.scores(X[k : k + 1]) for k in range(len(X))])
    yield learner.copy().scores(X)
    if isinstance(learner, fiol.Learner):
        yield np.array([learner.score_one(row.nonzero()[0], row[row != 0.0]) for row in X])


def test_scores_extrapolate_beyond_learned_values():
    learner = fiol.Learner(fiol.FIOL(fiol.Squared()))
    x = np.linspace(0.0, 1.0, 200)[:, None]
    for _ in range(20):
        learner.learn(x, 3.0 * x[:, 0])
    assert learner.predict([[10.0]])[0] == pytest.approx(30.0, rel=0.01)


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("update", UPDATES.values(), ids=UPDATES)
def test_learner_predictions_agree_bitwise(update, average):
    for intercept, X in ((True, BEYOND), (False, PAIRS)):
        plain = update is UPDATES["default"] and not average  # compiled for other tests as well
        learner = fiol.Learner(update, intercept=intercept, average=average, compiled=plain)
        learner.learn(SEEN, Y)
        expected = X @ learner.weights + learner.intercept
        for found in readings(learner, X):
            assert found.tolist() == expected.tolist()
        assert learner.predict(X).tolist() == expected.tolist()
        assert run(learner, X, "prediction")[:, 0].tolist() == expected.tolist()


def test_named_predictions_agree_bitwise():
    for intercept, X in ((True, BEYOND), (False, PAIRS)):
        learner = fiol.Learner(UPDATES["default"], intercept=intercept)
        learner.learn(dicts(SEEN), Y)
        expected = X[:, [NAMES.index(name) for name in learner.names]] @ learner.weights + learner.intercept
        rows = dicts(X)
        assert learner.scores(rows).tolist() == expected.tolist()
        assert learner.scores(row for row in rows).tolist() == expected.tolist()
        assert [learner.score_named(row) for row in rows] == expected.tolist()
        assert [learner.predict_named(row) for row in rows] == expected.tolist()


def test_hashed_predictions_agree_bitwise():
    learner = fiol.Learner(UPDATES["default"], bits=10)
    learner.learn(dicts(SEEN), Y)
    expected = BEYOND @ learner.weights[[Hashing(10).number(name) for name in NAMES]] + learner.intercept
    assert [learner.score_named(row) for row in dicts(BEYOND)] == expected.tolist()


def test_float32_predictions_agree_bitwise():
    """Weights that single precision holds: a round of sample weight 0 shows values up to 1, and moves nothing."""
    learner = fiol.Learner(UPDATES["default"], n_features=3)
    learner.start_from([1.5, -0.375, 7.0], intercept=-0.25)
    learner.learn(np.ones((1, 3)), [5.0], sample_weight=[0.0])
    X = np.array([[1.0, 2.0, -3.0], [100.0, 16.0, 1000.0], [0.5, -64.0, 0.0]])
    expected = [1.5 - 0.75 - 21.0 - 0.25, 150.0 - 6.0 + 7000.0 - 0.25, 0.75 + 24.0 - 0.25]
    for found in readings(learner, X):
        assert found.tolist() == expected
    for dtype in ("float32", "float64"):
        assert run(learner, X, "prediction", dtype)[:, 0].tolist() == expected


@pytest.mark.parametrize("update", [fiol.FIOL(fiol.Logistic()), fiol.FIOL(fiol.Hinge(), fiol.Ridge(0.01))])
def test_one_vs_rest_predictions_agree_bitwise(update):
    compiled = update.regularizer == fiol.Unregularized()  # the model of several is the same for both
    for intercept, X in ((True, BEYOND), (False, PAIRS)):
        for y in (THREE, SIGNS.astype(int)):
            options = {"intercept": intercept, "classes": sorted(set(y.tolist())), "compiled": compiled}
            model = fiol.OneVsRest(update, **options)
            model.learn(SEEN, y)
            expected = X @ model.weights.T + model.intercept
            for found in readings(model, X):
                assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("loss", [fiol.Softmax(), fiol.CrammerSinger()])
def test_joint_predictions_agree_bitwise(loss, average):
    for intercept, X in ((True, BEYOND), (False, PAIRS)):
        plain = loss == fiol.Softmax() and not average  # compiled for other tests as well
        learner = fiol.Learner(fiol.FIOL(loss), intercept=intercept, average=average, compiled=plain)
        learner.learn(SEEN, THREE)
        expected = X @ learner.weights.T + learner.intercept
        for found in readings(learner, X):
            assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("average", [False, True])
def test_regressor_predictions_agree_bitwise(average, monkeypatch):
    if average:  # which weights are read is what differs
        interpret(monkeypatch)
    for intercept, X in ((True, BEYOND), (False, PAIRS)):
        options = {"average": average, "fit_intercept": intercept}
        ours = fiol.FIOLRegressor(max_iter=1, shuffle=False, **options).fit(SEEN, Y)
        expected = (X @ ours.coef_ + ours.intercept_).tolist()
        assert ours.predict(X).tolist() == ours.predict(sparse.csr_matrix(X)).tolist() == expected
        assert run(ours, X, "prediction")[:, 0].tolist() == expected
        assert ours.to_sklearn().predict(X).tolist() == expected

        river = RiverRegressor(**options)
        for x, y in zip(dicts(SEEN), Y, strict=True):
            river.learn_one(x, y)
        named = [sum(river.weights[name] * value for name, value in x.items()) + river.intercept for x in dicts(X)]
        assert [river.predict_one(x) for x in dicts(X)] == named == expected
        assert river.predict_many(pd.DataFrame(X, columns=NAMES)).tolist() == expected


@pytest.mark.parametrize(("loss", "classes"), [("hinge", 2), ("hinge", 3), ("crammer_singer", 3)])
def test_classifier_predictions_agree_bitwise(loss, classes, monkeypatch):
    interpret(monkeypatch)
    y = THREE if classes == 3 else (SIGNS > 0).astype(int)
    for intercept, X in ((True, BEYOND), (False, PAIRS)):
        ours = fiol.FIOLClassifier(loss, fit_intercept=intercept, max_iter=1, shuffle=False).fit(SEEN, y)
        expected = X @ ours.coef_.T + ours.intercept_
        found = ours.decision_function(X)
        assert found.reshape(expected.shape).tolist() == expected.tolist()
        assert run(ours, X, "score").tolist() == expected.tolist()
        best = expected.argmax(axis=1) if classes == 3 else (expected[:, 0] > 0.0).astype(int)
        assert ours.predict(X).tolist() == ours.classes_[best].tolist() == run(ours, X, "label").tolist()

        river = RiverClassifier(loss, fit_intercept=intercept)
        for x, label in zip(dicts(SEEN), y.tolist(), strict=True):
            river.learn_one(x, label)
        scores = {
            label: [
                sum(w.get(name, 0.0) * value for name, value in x.items()) + river.intercept[label] for x in dicts(X)
            ]
            for label, w in river.weights.items()
        }
        named = [max(river.classes, key=lambda label: scores[label][k]) for k in range(len(X))]
        assert [river.predict_one(x) for x in dicts(X)] == named
        assert river.predict_many(pd.DataFrame(X, columns=NAMES)).tolist() == named


def test_probabilities_from_a_shared_kernel_agree_bitwise():
    learner, river = fiol.Learner(), RiverClassifier()
    learner.learn(SEEN, SIGNS)
    ours = fiol.FIOLClassifier(max_iter=1, shuffle=False).fit(SEEN, SIGNS > 0)
    river.learn_many(pd.DataFrame(SEEN, columns=NAMES), SIGNS > 0)
    X = rng.standard_normal((20, 3)) * 50.0
    expected = learner.predict(X).tolist()
    assert ours.predict_proba(X)[:, 1].tolist() == expected
    assert [river.predict_proba_one(x)[True] for x in dicts(X)] == expected
    assert river.predict_proba_many(pd.DataFrame(X, columns=NAMES))[True].tolist() == expected


def test_passive_aggressive_predictions_agree_bitwise():
    model = fiol.PassiveAggressiveRegressor(max_iter=1, shuffle=False).fit(SEEN, Y)
    expected = (BEYOND @ model.coef_ + model.intercept_).tolist()
    assert model.predict(BEYOND).tolist() == expected == run(model, BEYOND, "prediction")[:, 0].tolist()


@functools.cache
def four_of_a_kind():
    """A learner, an estimator, a model of River and a graph that have learned the same."""
    learner, river = fiol.Learner(loss=fiol.Squared()), RiverRegressor()
    learner.learn(SEEN, Y)
    river.learn_many(pd.DataFrame(SEEN, columns=NAMES), Y)
    estimator = fiol.FIOLRegressor(max_iter=1, shuffle=False).fit(SEEN, Y)
    return learner, estimator, river, onnxruntime.InferenceSession(to_onnx(estimator).SerializeToString())


values = st.one_of(st.just(0.0), st.floats(1e-9, 1e9), st.floats(-1e9, -1e-9))


@settings(max_examples=50, deadline=None)
@given(row=st.lists(values, min_size=3, max_size=3), factor=st.floats(1e-3, 1e3))
def test_random_rows_are_scored_linearly_in_all_integrations(row, factor):
    (learner, estimator, river, session), X = four_of_a_kind(), np.array([row])
    terms = np.append(X[0] * learner.weights, learner.intercept)
    near = pytest.approx(terms.sum(), rel=0, abs=1e-14 * np.abs(terms).sum())
    shared = learner.scores(X)[0]
    assert shared == near
    assert estimator.predict(X)[0] == river.predict_one(dict(zip(NAMES, row, strict=True))) == shared
    assert session.run(None, {"X": X})[0][0, 0] == near
    stretched = learner.scores(factor * X)[0] - learner.intercept
    spread = 1e-14 * (factor * np.abs(terms).sum() + abs(terms[-1]))
    assert stretched == pytest.approx(factor * (shared - learner.intercept), rel=1e-12, abs=4 * spread)


def test_learn_returns_the_prediction_except_for_new_largest_values():
    """A new largest value starts from a weight shrunk by peak / value; an outlier is scaled down."""
    learner = fiol.Learner(UPDATES["default"])
    learner.learn(SEEN, Y)
    peaks = np.abs(SEEN).max(axis=0)
    for row in (SEEN[3], peaks, [0.1, 0.0, -0.2], [10.0, 0.1, 0.0], [11.0, -20.0, 30.0], [1.0, 1.0, 1.0]):
        x, w, b = np.asarray(row, float), learner.weights, learner.intercept
        before = learner.scores([row])[0]
        x = learned(x, peaks)
        shrunk = w * np.minimum(1.0, peaks / np.maximum(np.abs(x), 1e-300))
        z = learner.learn([row], [1.0])[0]
        assert z == pytest.approx(x @ shrunk + b, rel=1e-12, abs=1e-12)
        if (np.abs(x) <= peaks).all():
            assert z == pytest.approx(before, rel=1e-12, abs=1e-12)
        peaks = np.maximum(peaks, np.abs(x))
