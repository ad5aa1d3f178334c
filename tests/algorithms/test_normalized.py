"""Normalized steps: their formula, and invariance to feature units."""

from math import exp

import numpy as np
import pytest
from oracles.outliers import learned
from scipy.optimize import brentq

import fiol

FREE = fiol.ScaleFree(fiol.Normalized())


def data(rows=60, d=4, seed=0):
    """Sparse rows of columns of different size, labels, and sample weights."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, d)) * 10.0 ** np.arange(d) * (rng.random((rows, d)) < 0.5)
    return X, np.where(rng.random(rows) < 0.5, 1.0, -1.0), rng.choice([0.5, 1.0, 3.0], rows)


def play(size, free, X, y, weight):
    """The rounds of logistic loss, number by number: scores before each."""
    w, peak, scores = np.zeros(X.shape[1] + 1), np.zeros(X.shape[1] + 1), []
    for row, label, c in zip(X, y, weight, strict=True):
        x = learned(np.append(row, 1.0), peak) if free else np.append(row, 1.0)
        seen = np.flatnonzero(x)
        for i in seen:
            if free and abs(x[i]) > peak[i]:
                w[i] *= peak[i] / abs(x[i])
                peak[i] = abs(x[i])
        unit = peak if free else np.ones(len(x))
        length = sum((x[i] / unit[i]) ** 2 for i in seen)
        scores.append(sum(x[i] * w[i] for i in seen))
        margin = label * scores[-1]
        beta = brentq(lambda b, m=margin, c=c: b - c / (1.0 + exp(m + size * b)), 0.0, c, xtol=1e-15)
        for i in seen:
            w[i] += size / length / unit[i] ** 2 * beta * label * x[i]
    return scores


@pytest.mark.parametrize("size", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("free", [False, True])
def test_normalized_scores_match_formula(size, free):
    X, y, weight = data()
    step_size = fiol.ScaleFree(fiol.Normalized(size)) if free else fiol.Normalized(size)
    learner = fiol.Learner(fiol.FIOL(fiol.Logistic(), step_size=step_size), n_features=4, compiled=False)
    np.testing.assert_allclose(learner.learn(X, y, weight), play(size, free, X, y, weight), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("step_size", [fiol.Normalized(0.5), fiol.ScaleFree(fiol.Normalized(0.5))], ids=repr)
def test_normalized_step_moves_the_score_independently_of_row_length(step_size, intercept):
    X, y, _ = data()
    X, y = X[np.any(X != 0.0, axis=1)], 10.0 * y[np.any(X != 0.0, axis=1)]
    learner = fiol.Learner(
        fiol.FIOL(fiol.Squared(), step_size=step_size), n_features=4, intercept=intercept, compiled=False
    )
    peak = np.zeros(4)
    for row, target in zip(X, y, strict=True):
        before = learner.learn(row[None, :], [target])[0]
        seen = learned(row, peak) if step_size.scale_free else row
        peak = np.maximum(peak, np.abs(seen))
        after = learner.scores(seen[None, :])[0]  # p = 1/2: beta = (y - z) / (1 + p), moved by p beta
        np.testing.assert_allclose(after - before, 0.5 * (target - before) / 1.5, rtol=1e-9)


def test_explicit_normalized_steps_are_nlms():
    X, y, _ = data()
    learner = fiol.Learner(
        fiol.SGD(fiol.Squared(), step_size=fiol.Normalized(0.3)), n_features=4, intercept=False, compiled=False
    )
    learner.learn(X, y)
    w = np.zeros(4)
    for x, target in zip(X, y, strict=True):
        if x.any():
            w = w + 0.3 * (target - x @ w) * x / (x @ x)
    np.testing.assert_allclose(learner.weights, w, rtol=1e-9)


def test_unbounded_normalized_steps_are_passive_aggressive():
    X, y, _ = data()
    ours = fiol.Learner(fiol.FIOL(fiol.Hinge(), step_size=fiol.Normalized(1e100)), n_features=4, compiled=False)
    theirs = fiol.Learner(fiol.PA(), n_features=4, compiled=False)
    np.testing.assert_allclose(ours.learn(X, y), theirs.learn(X, y), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("loss", [fiol.Logistic(), fiol.Squared(), fiol.Absolute(), fiol.Poisson()], ids=repr)
def test_normalized_steps_are_invariant_to_feature_units(loss, dtype):
    X, y, weight = data()
    y = y if isinstance(loss, fiol.Logistic) else np.abs(X[:, 0] + y)
    units = 2.0 ** np.array([0, 9, -11, 4])
    one, two, three = (
        fiol.Learner(fiol.FIOL(loss, step_size=FREE), n_features=4, dtype=dtype, compiled=False) for _ in range(3)
    )
    scores = one.learn(X, y, weight)
    np.testing.assert_array_equal(two.learn(X * units, y, weight), scores)
    np.testing.assert_array_equal(two.weights * units, one.weights)
    if isinstance(loss, (fiol.Squared, fiol.Absolute)):  # the unit of targets
        np.testing.assert_array_equal(three.learn(X, 1024.0 * y, weight), 1024.0 * scores)


def test_merge_keeps_statistics_that_one_learner_has():
    X, y, _ = data()
    X[:30, 0] = X[30:, 1] = 0.0
    update = fiol.FIOL(fiol.Logistic(), step_size=FREE)
    first, second = (fiol.Learner(update, n_features=4, compiled=False) for _ in range(2))
    first.learn(X[:30], y[:30])
    second.learn(X[30:], y[30:])
    lengths = [learner.engine.state.statistics[:4, 0] for learner in (first, second)]
    merged = fiol.Learner.merge([first, second]).engine.state.statistics[:4, 0]
    np.testing.assert_array_equal(merged, np.maximum(*lengths))
    assert (merged > 0.0).all()
    assert lengths[0][0] == lengths[1][1] == 0.0


def test_normalized_size_out_of_range_raises():
    for size in (0.0, -1.0, 1e101, np.inf):
        with pytest.raises(ValueError, match=r"Normalized\.size must be greater than 0 and at most 1e\+100"):
            fiol.Normalized(size)
