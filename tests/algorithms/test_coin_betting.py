"""Coin betting matches a loop over all coordinates and keeps its guarantees."""

from math import inf, sqrt

import numpy as np
import pytest
from interpreted import interpret
from scipy.optimize import brentq
from streams import raw_beside_bounds

import fiol
from fiol.algorithms.plan import make_plan

FREE = fiol.ScaleFree(fiol.CoinBetting())
LOSSES = [fiol.Logistic(), fiol.Squared(), fiol.Absolute(), fiol.Poisson()]
PENALTIES = [
    fiol.Unregularized(),
    fiol.L1(0.02),
    fiol.Ridge(0.05),
    fiol.ElasticNet(0.01, 0.05),
    fiol.Box(fiol.L1(0.01), -0.1, 0.2),
]


def data(loss, rows=50, d=4, seed=0):
    """Sparse rows of columns of different size, targets, and sample weights, some above 1."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, d)) * 10.0 ** np.arange(d) * (rng.random((rows, d)) < 0.5)
    y = X[:, 0] - 1e-2 * X[:, 2] + 0.3 * rng.standard_normal(rows) + 0.2
    y = np.where(y > 0.0, 1.0, -1.0) if isinstance(loss, fiol.Binary) else y
    return X, np.abs(y) if isinstance(loss, fiol.Poisson) else y, rng.choice([0.0, 0.5, 1.0, 3.0], rows)


def units_of(loss, slopes, errors, targets):
    """A quarter of the unit of derivatives, and the unit of steps."""
    if isinstance(loss, fiol.Logistic):
        return 1.0, 1.0
    if isinstance(loss, fiol.Squared):
        return 0.5 * np.sqrt(np.mean(slopes**2)), 1.0
    if isinstance(loss, fiol.Absolute):
        return 0.5, np.mean(errors)
    return 0.5 * np.mean(targets), 1.0 / np.mean(targets)


def play(loss, penalty, exact, free, endowment, X, y, weight):
    """Scores before every round and the weights after the last, the intercept behind them."""
    d = X.shape[1]
    inner = getattr(penalty, "regularizer", penalty)
    l1, l2 = (np.append(np.full(d, part), 0.0) for part in inner.strengths())
    lo, hi = (
        np.append(np.full(d, getattr(penalty, "lo", -inf)), -inf),
        np.append(np.full(d, getattr(penalty, "hi", inf)), inf),
    )
    pulls, M, D, G, won = np.zeros((5, d + 1))
    u, scores, slopes = np.ones(d + 1), [], []

    def weight_of(i, pull, t):
        """argmin of -pull w + t r(w) + w^2 / (2 step)."""
        unit = M[i] if free else 1.0
        if unit == 0.0:
            return min(max(0.0, lo[i]), hi[i])
        if D[i] == 0.0:
            step = endowment * u[i] / unit**2
        else:
            step = u[i] * (endowment * D[i] + won[i] / D[i]) / (unit * (unit * D[i] + G[i]))
        scale = unit if getattr(penalty, "lo", 0.0) == 0.0 else 1.0  # bounds other than 0 go with raw penalties
        shrunk = np.sign(pull) * max(abs(pull) - t * l1[i] * scale, 0.0)
        return min(max(shrunk * step / (1.0 + t * step * l2[i] * scale**2), lo[i]), hi[i])

    for t, (row, target, c) in enumerate(zip(X, y, weight, strict=True), 1):
        x = np.append(row, 1.0)
        seen = np.flatnonzero(x)
        M[seen] = np.maximum(M[seen], np.abs(x[seen]))
        w = {i: weight_of(i, pulls[i], t - 1) for i in seen}
        z = sum(w[i] * x[i] for i in seen)
        scores.append(z)
        stride, unit = 1.0, 1.0
        slopes.append([loss.grad(z, target), abs(z - target), target])
        if free:
            unit, stride = units_of(loss, *np.transpose(slopes))
        u[seen] = stride
        beta = -c * loss.grad(z, target)
        if exact and c > 0.0:

            def gap(b, x=x, seen=seen, t=t, target=target, c=c):
                return b + c * loss.grad(sum(x[i] * weight_of(i, pulls[i] + b * x[i], t) for i in seen), target)

            size = abs(-gap(0.0)) + 1.0
            beta = brentq(gap, -size, size, xtol=1e-16, rtol=1e-15, maxiter=1000)
        for i in seen:
            pulls[i] += beta * x[i]
            D[i] = max(D[i], unit, abs(beta))
            G[i] += abs(beta * x[i])
            won[i] = max(won[i] + beta * x[i] * w[i] / stride, 0.0)
    return np.array(scores), np.array([weight_of(i, pulls[i], len(y)) for i in range(d + 1)])


@pytest.mark.parametrize("penalty", PENALTIES, ids=repr)
@pytest.mark.parametrize("exact", [False, True], ids=["explicit", "exact"])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_coin_betting_matches_eager_loop(loss, exact, penalty):
    for free, endowment in ((True, 1.0), (True, 0.3), (False, 0.5)):
        X, y, weight = data(loss)
        if not free:
            X, weight = X / [1.0, 20.0, 200.0, 2000.0], np.minimum(weight, 0.5)
        rule = fiol.CoinBetting(endowment)
        preset = fiol.ImplicitCoin if exact else fiol.Coin
        update = preset(loss, penalty, raw_beside_bounds(fiol.ScaleFree(rule), penalty) if free else rule)
        learner = fiol.Learner(update, n_features=4, compiled=False)
        found = learner.learn(X, y, weight)
        scores, w = play(loss, penalty, exact, free, endowment, X, y, weight)
        np.testing.assert_allclose(found, scores, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(np.append(learner.weights, learner.intercept), w, rtol=1e-7, atol=1e-12)
        assert type(make_plan(update).lazy_update).__name__ == "NothingDeferred"


def test_coin_betting_with_many_scores_bets_once_per_feature():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, 3)) * [1.0, 30.0, 0.1] * (rng.random((60, 3)) < 0.6)
    y, weight = rng.integers(0, 3, 60), rng.choice([0.5, 1.0, 3.0], 60)
    learner = fiol.Learner(fiol.Coin(fiol.Softmax()), n_features=3, classes=[0, 1, 2], compiled=False)
    found = learner.learn(X, y, weight)
    pulls, (M, G, won), D = np.zeros((4, 3)), np.zeros((3, 4)), np.zeros(4)
    for row, label, c, said in zip(X, y, weight, found, strict=True):
        x = np.append(row, 1.0)
        seen = np.flatnonzero(x)
        M[seen] = np.maximum(M[seen], np.abs(x[seen]))
        w = np.zeros((4, 3))
        for i in seen:
            if D[i] > 0.0:
                w[i] = (D[i] + won[i] / D[i]) * pulls[i] / (M[i] * (M[i] * D[i] + G[i]))
        z = x @ w
        np.testing.assert_allclose(said, z, rtol=1e-9, atol=1e-12)
        beta = c * (np.eye(3)[label] - np.exp(z) / np.exp(z).sum())
        size = sqrt(sum(b * b for b in beta))
        for i in seen:
            pulls[i] += beta * x[i]
            D[i] = max(D[i], 2.0, size)  # a quarter of 8, the unit of derivatives of many classes
            G[i] += size * abs(x[i])
            won[i] = max(won[i] + x[i] * sum(beta * w[i]), 0.0)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("preset", [fiol.Coin, fiol.ImplicitCoin], ids=lambda preset: preset.__name__)
def test_coin_betting_is_invariant_to_feature_units(preset, loss, dtype):
    X, y, weight = data(loss)
    units = 2.0 ** np.array([0, 9, -11, 4])
    one, two, three = (fiol.Learner(preset(loss), n_features=4, dtype=dtype, compiled=False) for _ in range(3))
    scores = one.learn(X, y, weight)
    np.testing.assert_array_equal(two.learn(X * units, y, weight), scores)
    np.testing.assert_array_equal(two.weights * units, one.weights)
    if isinstance(loss, (fiol.Squared, fiol.Absolute)):  # the unit of targets
        np.testing.assert_array_equal(three.learn(X, 1024.0 * y, weight), 1024.0 * scores)


def test_coin_betting_score_is_bounded_when_a_feature_grows():
    """Weights are in the unit of the row's own values, so a large value does not enlarge the score."""
    learner = fiol.Learner(fiol.Coin(fiol.Logistic()), intercept=False, compiled=False)
    learner.learn([[1.0]] * 20, [1.0] * 20)
    before = learner.scores([[1.0]])[0]
    assert abs(learner.learn([[1e6]], [1.0])[0]) <= before


def test_implicit_coin_betting_stays_finite_with_squared_loss():
    """Gradients of many features each make up for the whole error: explicit bets overshoot, and double them."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((300, 30))
    y = X @ rng.standard_normal(30) + 5.0
    learner = fiol.Learner(fiol.ImplicitCoin(fiol.Squared()), compiled=False)
    errors = (learner.learn(X, y) - y) ** 2
    assert errors.max() < 20.0 * np.mean(y**2)
    assert errors[-50:].mean() < 0.2 * np.mean(y**2)


def test_coin_betting_wealth_stays_positive_and_grows_with_winnings():
    learner = fiol.Learner(fiol.Coin(fiol.Hinge(), step_size=fiol.CoinBetting()), intercept=False, compiled=False)
    for _ in range(8):
        learner.learn([[0.1]], [1.0])
    won = learner.engine.state.statistics[0, 2]
    assert won > 0.0
    for _ in range(200):
        learner.learn([[0.1]], [-1.0])
    assert learner.engine.state.statistics[0, 2] >= 0.0
    assert learner.scores([[1.0]])[0] < 0.0


class Counting(fiol.Adaptive):
    """A user's rule that writes down its arguments."""

    keeps = ("pulled", "won", "slope", "stride")
    constant = True
    uses_pulls = True

    def eta(self, t):
        return 0.1

    def h(self, s, unit):
        return 1.0

    def observe_step(self, s, outcome):
        s[0] += outcome.pull
        s[1] += outcome.gain
        s[2] = outcome.slope
        s[3] = outcome.step_scale


@pytest.mark.parametrize("anchor", [fiol.LastIterate(), fiol.Origin()], ids=repr)
def test_own_step_size_observes_pulls(anchor):
    X, y, weight = data(fiol.Squared())
    X = X * 10.0 ** -np.arange(4)
    update = fiol.Update(fiol.Squared(), fiol.Ridge(0.1), Counting(), fiol.LinearizedLoss(), anchor=anchor)
    learner = fiol.Learner(update, n_features=4, compiled=False)
    pulled, won = np.zeros((2, 4))
    for row, target, c in zip(X, y, weight, strict=True):
        w = learner.weights
        beta = c * (target - learner.learn(row[None, :], [target], [c])[0])
        pulled += np.where(row != 0.0, abs(beta), 0.0)
        won += beta * row * w
    records = learner.engine.state.statistics
    np.testing.assert_allclose(records[:4, :2].T, [pulled, won], rtol=1e-9)
    np.testing.assert_array_equal(records[:4, 2:], 1.0)


def test_own_step_size_observes_pulls_of_many_scores():
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((20, 3)), rng.integers(0, 3, 20)
    update = fiol.Update(fiol.Softmax(), fiol.Unregularized(), Counting(), fiol.LinearizedLoss())
    learner = fiol.Learner(update, n_features=3, classes=[0, 1, 2], compiled=False)  # weights are worked on in place
    pulled, won = 0.0, np.zeros(3)
    for row, label in zip(X, y, strict=True):
        w = learner.weights.copy()
        z = learner.learn(row[None, :], [label])[0]
        beta = np.eye(3)[label] - np.exp(z) / np.exp(z).sum()
        pulled += np.linalg.norm(beta)
        won += row * (beta @ w)
    records = learner.engine.state.statistics
    np.testing.assert_allclose(records[:3, 0], pulled, rtol=1e-9)
    np.testing.assert_allclose(records[:3, 1], won, rtol=1e-9)


def test_coin_betting_with_unsupported_parts_raises():
    with pytest.raises(
        TypeError, match=r"CoinBetting.* changes steps after a round, AllIterates\(\) .*: use Origin\(\)"
    ):
        fiol.Learner(fiol.FTRLProximal(fiol.Logistic(), step_size=FREE))
    for endowment in (0.0, -1.0, np.inf):
        with pytest.raises(ValueError, match=r"CoinBetting\.endowment must be at least 1e-100"):
            fiol.CoinBetting(endowment)
    with pytest.raises(TypeError, match="Fixed has `observe_step`, which is for steps that differ"):

        class Fixed(fiol.Schedule):
            def eta(self, t):
                return 1.0

            def observe_step(self, s, outcome):
                s[0] = 1.0


def test_merge_keeps_the_largest_pull():
    X, y, _ = data(fiol.Squared())
    first, second = (fiol.Learner(fiol.ImplicitCoin(fiol.Squared()), n_features=4, compiled=False) for _ in range(2))
    first.learn(X[:25], y[:25])
    second.learn(X[25:], 100.0 * y[25:])
    records = [learner.engine.state.statistics for learner in (first, second)]
    merged = fiol.Learner.merge([first, second]).engine.state.statistics
    np.testing.assert_array_equal(merged[:, [0, 3]], np.maximum(*records)[:, [0, 3]])
    np.testing.assert_allclose(merged[:, 1:3], (records[0] + records[1])[:, 1:3] / 2.0)


def test_estimator_with_coin_betting(monkeypatch):
    """The compiled rounds, which observe pulls, are those of the interpreter."""
    X, y, _ = data(fiol.Logistic())
    found = []
    for algorithm in ("ImplicitCoin", "ImplicitCoin", "Coin"):
        model = fiol.FIOLClassifier(algorithm=algorithm, penalty="l1", alpha=1e-3, max_iter=2, tol=None, shuffle=False)
        assert model.fit(X, y).score(X, y) > 0.7
        found.append(model.coef_)
        interpret(monkeypatch)  # all but the first
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9, atol=1e-12)
