"""Exact steps that end at kinks of losses do not depend on the last digit of a score."""

import random
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interpreted import interpret

import fiol


class Bent(fiol.Loss):
    """A user's own loss with two kinks and no method but the derivative."""

    def value(self, z, y):
        return max(-2.0 * (z - y), 0.0, z - y - 0.5)

    def grad(self, z, y):
        return -2.0 if z < y else (1.0 if z > y + 0.5 else 0.0)


class Perceptron(fiol.Binary):
    """A user's own loss of two classes, whose kink is at the score 0."""

    def value(self, z, y):
        return max(0.0, -y * z)

    def grad(self, z, y):
        return -y * (y * z < 0.0)


class Last(fiol.Adaptive):
    """A user's own step size, which remembers the last squared gradient alone."""

    keeps: ClassVar[tuple[str, ...]] = ("last",)
    constant: ClassVar[bool] = True

    def eta(self, t):
        return 0.5

    def h(self, s, unit):
        return 0.1 + (s[0] / unit) ** 0.5

    def observe(self, s, seen):
        s[0] = seen.square * (seen.x * seen.x)


KINKED = (
    fiol.Hinge(),
    fiol.Absolute(),
    fiol.Quantile(0.3),
    fiol.EpsilonInsensitive(0.1),
    fiol.CrammerSinger(),
    Bent(),
    Perceptron(),
)
SMOOTH = (fiol.Logistic(), fiol.Squared(), fiol.Huber(), fiol.Poisson(), fiol.Softmax(), fiol.SquaredHinge())
FIXED, FALLING, ADAGRAD, FREE = fiol.Constant(0.5), fiol.Polynomial(0.5), fiol.AdaGrad(), fiol.ScaleFree()
STEP_SIZES = (FIXED, FALLING, ADAGRAD, FREE, Last(), fiol.ScaleFree(Last()), fiol.ScaleFree(FALLING))
RIDGE, L1 = fiol.Ridge(0.01), fiol.L1(0.01)


def updates(loss):
    """Every preset, and the loss steps that none of them has."""
    for size in STEP_SIZES:
        yield from (fiol.IOL(loss, size), fiol.SGD(loss, RIDGE, size), fiol.ISGD(loss, RIDGE, size))
        yield from (fiol.FIOL(loss, RIDGE, size), fiol.COMID(loss, L1, size), fiol.RDA(loss, L1, size))
        yield from (fiol.FTRLProximal(loss, L1, size), fiol.ImplicitFTRL(loss, RIDGE, size, once=True))
    yield from (fiol.PA(loss), fiol.PA1(0.5, loss))
    if not isinstance(loss, fiol.JointLoss):
        yield fiol.FIOL(loss, L1)
        yield fiol.Update(loss, RIDGE, FREE, fiol.Truncated())
        if loss.has("flow"):
            yield fiol.Update(loss, RIDGE, ADAGRAD, fiol.ImportanceAware())


def targets_of(loss):
    if isinstance(loss, fiol.JointLoss):
        return ["a", "b", "c"]
    return [-1.0, 1.0] if isinstance(loss, fiol.Binary) else [0.0, 1.0, 3.0, 0.7]


EXAMPLES = 8
NUMBERS = (0.0, 0.1, 0.3, 0.6, 0.7, 0.8, 1.0, 3.0)


@st.composite
def repeated_rows(draw):
    """Few different rows, most of them more than once, which of how many targets each has, and another order."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    d, pool = draw(st.integers(2, 6)), draw(st.integers(1, 3))
    X = rng.choice(NUMBERS, (pool, d)) * rng.choice([-1.0, 1.0], (pool, d))
    which = rng.integers(pool, size=draw(st.integers(4, 9)))
    return X[which], rng.integers(12, size=pool)[which], rng.permutation(d)


def result(update, X, y):
    """Scores before each round and weights after the last, a feature a row."""
    learner = fiol.Learner(update, n_features=X.shape[1], compiled=False)
    scores = learner.learn(X, y)
    weights = learner.weights
    return scores, weights.T if weights.ndim == 2 else weights


@pytest.mark.parametrize("loss", [*KINKED, *SMOOTH], ids=repr)
def test_steps_at_kinks_do_not_depend_on_feature_order(loss):
    rules, names = list(updates(loss)), targets_of(loss)
    if loss == fiol.Poisson():  # whose explicit steps know no bounds
        rules = [update for update in rules if update.loss_step.solves]

    @settings(max_examples=EXAMPLES)
    @given(repeated_rows(), st.lists(st.integers(0, len(rules) - 1), min_size=8, max_size=8))
    def check(rows, chosen):
        X, targets, order = rows
        y = [names[k % len(names)] for k in targets]
        for update in {rules[k] for k in chosen}:
            scores, weights = result(update, X, y)
            again, moved = result(update, X[:, order], y)
            size = 1.0 + np.abs(weights).max()
            np.testing.assert_allclose(again, scores, rtol=1e-9, atol=1e-9 * size, err_msg=repr(update))
            np.testing.assert_allclose(moved, weights[order], rtol=1e-9, atol=1e-9 * size, err_msg=repr(update))

    check()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("loss", [loss for loss in KINKED if loss != fiol.CrammerSinger()], ids=repr)
def test_second_step_on_a_row_at_its_kink_changes_nothing(loss, dtype):
    """The first step of a row is long enough to reach the kink; there the derivative that counts is 0."""
    x = np.array([[0.7, 3.0, 0.1, 0.3]])
    for y in targets_of(loss):
        learner = fiol.Learner(fiol.FIOL(loss, step_size=fiol.AdaGrad(50.0)), n_features=4, compiled=False, dtype=dtype)
        learner.learn(x, [y])
        before = learner.engine.state.statistics.copy()
        for _ in range(3):
            learner.learn(x, [y])
        np.testing.assert_array_equal(learner.engine.state.statistics, before)


@pytest.mark.parametrize("kind", ["FIOLRegressor", "FIOLClassifier"])
def test_kinked_losses_pass_rivers_shuffle_check(kind, monkeypatch):
    from river.checks.common import check_shuffle_features_no_impact

    from fiol import river
    from fiol.names import CLASSIFICATION, JOINT, REGRESSION

    interpret(monkeypatch)
    rows = [({"a": 0.7, "b": 3.0, "c": 0.1}, 1.0), ({"a": 1.0, "b": -1.0, "c": 0.5}, 3.0)]
    rows = [rows[k] for k in (0, 0, 1, 1, 0, 1)]
    if kind == "FIOLClassifier":
        rows = [(x, y > 2.0) for x, y in rows]
    names = list(REGRESSION) if kind == "FIOLRegressor" else [*CLASSIFICATION, *JOINT]
    for seed in range(40):
        random.seed(seed)
        check_shuffle_features_no_impact(getattr(river, kind)(names[seed % len(names)]), rows)


def test_step_near_a_kink_uses_the_full_derivative():
    """A ten-thousandth away from it, a row counts in full; at the kink, of all derivatives there the least one."""
    for loss, y, kink, low, high in (
        (fiol.Absolute(), 2.0, 2.0, -1.0, 1.0),
        (fiol.Quantile(0.3), 2.0, 2.0, -0.3, 0.7),
        (fiol.EpsilonInsensitive(0.5), 2.0, 2.5, 0.0, 1.0),
        (fiol.Hinge(), -1.0, -1.0, 0.0, 1.0),
        (Bent(), 2.0, 2.0, -2.0, 0.0),
    ):
        for z, expected in ((kink - 1e-4, low), (kink, 0.0), (kink + 1e-15, 0.0), (kink + 1e-4, high)):
            assert loss.least_grad(z, 1e-6, y) == expected
    assert fiol.Logistic().least_grad(0.5, 1e-6, 1.0) == fiol.Logistic().grad(0.5, 1.0)


def test_explicit_step_is_shared_by_tied_classes():
    learner = fiol.Learner(fiol.SGD(fiol.CrammerSinger(), step_size=FIXED), classes=["a", "b", "c"], compiled=False)
    learner.learn([[1.0]], ["a"])
    np.testing.assert_allclose(learner.weights[:, 0], [0.5, -0.25, -0.25])
