"""Averaged weights at the end of a shuffled `fit` match loops over the last rows."""

import pickle

import numpy as np
import onnxruntime
import pytest
from scipy import sparse
from sklearn.utils import check_random_state
from tests.interpreted import interpret

import fiol
from fiol.engine.ensemble import lane_group
from fiol.features.chunk import loops
from fiol.integrations.validation import LARGEST_SEED
from fiol.onnx import to_onnx

ROWS = 100
#: Of 100 rows the last twelve, after which the weights are looked at.
LOOKS = [89, 91, 92, 94, 95, 97, 98, 100]
rng = np.random.default_rng(8)
MEANS = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 100.0])
#: One column is far from 0, and is centered; half of the entries of the others are 0.
X = MEANS + np.where(rng.random((ROWS, 6)) < 0.5, np.round(rng.normal(size=(ROWS, 6)), 2), 0.0)
NUMBERS = (X - MEANS) @ [3.0, -2.0, 1.0, 0.0, 0.0, 0.5] + rng.normal(size=ROWS)
WEIGHTS = rng.random(ROWS)
TARGETS = {"regressor": NUMBERS, "two": (NUMBERS > 0.0).astype(int), "three": np.digitize(NUMBERS, [-2.0, 2.0])}


def shuffled(seed=3, rows=ROWS, passes=1):
    """The orders of the passes of a fit with random_state=3."""
    order, seed = np.arange(rows), check_random_state(seed).randint(LARGEST_SEED)
    for _ in range(passes):
        loops().shuffle(order, seed)
        yield order.copy()


def by_hand(learner, y, passes=1):
    """The learner after these passes, and what its weights and intercept were at the looks of the last."""
    for order in shuffled(passes=passes):
        seen = []
        for count, row in enumerate(order, start=1):
            learner.learn(X[[row]], y[[row]], WEIGHTS[[row]])
            if count in LOOKS:
                seen.append(np.column_stack([learner.weights, learner.intercept]) if learner.weights.ndim == 2 else
                            np.append(learner.weights, learner.intercept))  # fmt: skip
    return learner, np.mean(seen, axis=0)


def new(kind, **options):
    """An estimator that makes one pass, and its targets."""
    options = {"max_iter": 1, "random_state": 3, **options}
    model = fiol.FIOLRegressor(**options) if kind == "regressor" else fiol.FIOLClassifier(**options)
    return model, TARGETS[kind]


def coefficients(model):
    """Weights, the intercept last."""
    return np.column_stack([np.atleast_2d(model.coef_), model.intercept_])


CASES = {
    "numbers": ("regressor", {}, fiol.Stacked(fiol.Squared())),
    "ridge": ("regressor", {"penalty": "l2", "alpha": 0.1}, fiol.Stacked(fiol.Squared(), fiol.Ridge(0.1))),
    # Five rows are too few to be held back: all rows are learned from.
    "two passes": (
        "regressor",
        {"max_iter": 2, "tol": None, "validation_fraction": 0.05},
        fiol.Stacked(fiol.Squared()),
    ),
    "softmax": ("three", {"step_size": "stacked"}, fiol.Stacked(fiol.Softmax())),
    "as lanes": ("two", {}, fiol.Stacked(fiol.Logistic())),
}


@pytest.mark.parametrize(("kind", "options", "update"), CASES.values(), ids=CASES)
def test_fit_returns_the_mean_over_the_last_rows(kind, options, update, monkeypatch):
    lanes = update.loss == fiol.Logistic()
    if not lanes:
        interpret(monkeypatch)
    model, y = new(kind, **options)
    model.fit(X, y, sample_weight=WEIGHTS)
    classes = {"classes": [0, 1, 2]} if kind == "three" else {}
    plain = fiol.Learner(update, n_features=6, **classes)
    assert not lanes or plain.engine.all_in_lanes
    learner, mean = by_hand(plain, 2.0 * y - 1.0 if kind == "two" else y, options.get("max_iter", 1))
    np.testing.assert_allclose(coefficients(model), np.atleast_2d(mean), rtol=1e-9, atol=1e-12)
    # It is not where learning ended, members count with what they did, and each moved along the same way, by that.
    moved = model.learners_[0]
    assert np.abs(moved.weights - learner.weights).max() > 1e-3
    v = np.array([member.weight for member in moved.members])
    np.testing.assert_allclose(v, [member.weight for member in learner.members], rtol=1e-9)
    change = (moved.weights - learner.weights).T / (v @ v)
    for alone in np.eye(7):
        there, before = (one.engine.weights_of(np.arange(6, dtype=np.int32), alone) for one in (moved, learner))
        np.testing.assert_allclose(there, before + (v @ alone) * change, rtol=1e-8, atol=1e-10)
    assert moved.rounds == learner.rounds
    assert moved.progressive_loss == pytest.approx(learner.progressive_loss, rel=1e-9)


def test_gated_average_has_the_zeros_of_the_last_weights(monkeypatch):
    interpret(monkeypatch)
    model, y = new("two", penalty="l1", alpha=0.02)
    model.fit(X, y, sample_weight=WEIGHTS)
    learner, mean = by_hand(fiol.Learner(fiol.Stacked(fiol.Logistic(), fiol.L1(0.02)), n_features=6), 2.0 * y - 1.0)
    closed = learner.weights == 0.0
    assert 0 < closed.sum() < 6
    np.testing.assert_array_equal(model.coef_[0] == 0.0, closed)
    np.testing.assert_allclose(model.coef_[0], np.where(closed, 0.0, mean[:-1]), rtol=1e-9)
    np.testing.assert_allclose(model.intercept_, mean[-1:], rtol=1e-9)
    assert (model.learners_[0].member(7).weights == learner.member(7).weights).all()  # the gate


@pytest.mark.parametrize(
    "options",
    [{"shuffle": False}, {"step_size": "single"}, {"tune": {"step_size": [0.1, 1.0]}}],
    ids=["as they come", "single", "best of several"],
)
def test_fits_without_averaging(options, monkeypatch):
    interpret(monkeypatch)
    model, y = new("regressor", **options)
    model.fit(X, y, sample_weight=WEIGHTS)
    learner = fiol.Learner(model.learners_[0].update, n_features=6)
    order = np.arange(ROWS) if "shuffle" in options else next(shuffled())
    learner.core.learn_canonical(fiol.to_chunk(X[order]), y[order], WEIGHTS[order])
    np.testing.assert_allclose(coefficients(model)[0], [*learner.weights, learner.intercept], rtol=1e-12)


def test_average_of_few_rows(monkeypatch):
    """Of seven rows no eighth is left; of nine the last is the mean of itself."""
    interpret(monkeypatch)
    for rows in (2, 7, 9):
        model = fiol.FIOLRegressor(max_iter=1, random_state=3).fit(X[:rows], NUMBERS[:rows])
        learner = fiol.Learner(loss=fiol.Squared(), n_features=6)
        order = next(shuffled(rows=rows))
        learner.learn(X[order], NUMBERS[order])
        np.testing.assert_allclose(model.coef_, learner.weights, rtol=1e-9)


def test_threads_change_no_bit_of_averages(monkeypatch):
    interpret(monkeypatch)
    one, y = new("three", step_size="stacked")
    other, _ = new("three", step_size="stacked", n_jobs=3)
    assert coefficients(one.fit(X, y)).tolist() == coefficients(other.fit(X, y)).tolist()


def test_one_vs_rest_averages_each_class(monkeypatch):
    interpret(monkeypatch)
    model, y = new("three", loss="log_loss")
    model.fit(X, y, sample_weight=WEIGHTS)
    for code in range(3):
        _, mean = by_hand(fiol.Learner(n_features=6), np.where(y == code, 1.0, -1.0))
        np.testing.assert_allclose(coefficients(model)[code], mean, rtol=1e-9)


def test_averaged_model_predicts_alike_in_all_integrations(tmp_path):
    """Each row has one term, a weight times a power of two, so every sum rounds once. No column is centered."""
    model, y = new("regressor", step_size=fiol.ScaleFree(centered=0))
    model.fit(X[:, :5], y)
    rows = np.array([[16.0, 0, 0, 0, 0], [0, -1024.0, 0, 0, 0], [0, 0, 0, 0, 0.5], [0.0] * 5])
    expected = (rows @ model.coef_ + model.intercept_).tolist()
    assert model.predict(rows).tolist() == model.predict(sparse.csr_matrix(rows)).tolist() == expected
    learner = model.learners_[0]
    assert learner.scores(rows).tolist() == learner.copy().scores(rows).tolist() == expected
    assert [learner.score_one(row.nonzero()[0], row[row != 0.0]) for row in rows] == expected
    session = onnxruntime.InferenceSession(to_onnx(model, "float64").SerializeToString())
    assert session.run(["prediction"], {"X": rows})[0].ravel().tolist() == expected
    assert model.to_sklearn().predict(rows).tolist() == expected
    model.save(tmp_path / "model")
    others = [fiol.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))]
    assert [one.predict(rows).tolist() for one in others] == [expected] * 2
    future = coefficients(model.partial_fit(X[:, :5], y)).tolist()
    assert [coefficients(one.partial_fit(X[:, :5], y)).tolist() for one in others] == [future] * 2


def test_stacked_estimator_with_unsupported_options_raises():
    message = "step_size='stacked', and features other than 'linear', are seven learners with no algorithm but FIOL"
    for options in ({"average": True}, {"algorithm": "SGD"}, {"geometry": "entropy"}, {"positive": True}):
        for ensemble in ({"step_size": "stacked"}, {"features": "additive"}):
            model, y = new("two", **ensemble, **options)
            with pytest.raises(ValueError, match=message):
                model.fit(X, y)
    for tune in ({"alpha": [0.1, 1.0]}, {"step_size": ["single", "stacked"]}):
        model, y = new("two", step_size="stacked", penalty="l2", tune=tune)
        with pytest.raises(ValueError, match="tune tries single learners"):
            model.fit(X, y)


def test_ridge_lanes_have_the_average_of_scalars(monkeypatch):
    interpret(monkeypatch)
    found = []
    for lanes in (True, False):
        monkeypatch.setattr(lane_group, "INTERPRETED", lanes)
        model, y = new("two", penalty="l2", alpha=0.05)
        model.fit(X, y)
        model.partial_fit(X, y)  # goes on from the mean
        found.append(coefficients(model))
    np.testing.assert_allclose(*found, rtol=1e-11)
