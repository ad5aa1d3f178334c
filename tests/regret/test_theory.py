"""The paper's lemmas, theorems and propositions, as inequalities that every run has to satisfy.

Weights come from the library, all accounting from `oracles.regret`, best weights in hindsight from a general convex
solver. Lemma 1 holds in every single round against every comparator in Omega, so it is a test of the solvers too: the
sharp comparators are those close to the new weights, where it is an equality to first order.
"""

from __future__ import annotations

import warnings
from functools import cache, partial
from typing import NamedTuple

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from material import ENTROPIC, LOSSES, QUADRATIC, SOLVERS, cases, name
from oracles.general import loss_expression
from oracles.regret import (
    Rounds,
    account,
    against,
    composite,
    lemma1,
    lemma_strong,
    proposition1,
    secant_curvature,
    theorem1,
    theorem1_anytime,
    theorem1_fixed,
    theorem2,
    three_points,
    variability,
)
from oracles.table1 import penalty_of

import fiol

D = 3
MATRIX = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, -0.3], [0.0, -0.3, 0.7]])
#: Rounding, relative to the sizes of the terms.
ROUNDING = 1e-13

# --- streams, and the runs on them ------------------------------------------------------------


def most_costly(loss, z, choices):
    return max(choices, key=lambda y: loss.value(z, y))


def choices(loss):
    return (0.0, 4.0) if isinstance(loss, fiol.Poisson) else (-1.0, 1.0)


def random_row(rng, t, loss, z_of):
    return rng.standard_normal(D), rng.choice(choices(loss))


def correlated_row(rng, t, loss, z_of):
    return np.ones(D) + 0.01 * rng.standard_normal(D), rng.choice(choices(loss))


def huge_row(rng, t, loss, z_of):
    x = rng.standard_normal(D) * 10.0 ** rng.integers(0, 3)
    return x, 3.0 * rng.choice(choices(loss)) if loss.accepts(3.0) else rng.choice(choices(loss))


def drifting_row(rng, t, loss, z_of):
    x = rng.standard_normal(D)
    score = x @ np.array([np.cos(0.3 * t), np.sin(0.3 * t), 0.5])
    if isinstance(loss, fiol.Poisson):
        return x, float(rng.poisson(np.exp(np.clip(score, -3.0, 3.0))))
    return x, float(np.sign(score)) if loss.accepts(1.0) and not loss.accepts(0.5) else score


def adversarial_row(rng, t, loss, z_of):
    """A row with zeros, and the target that costs the current weights most."""
    x = rng.choice([-1.0, 0.0, 1.0, 2.0], D)
    return x, most_costly(loss, z_of(x), choices(loss))


STREAMS = [random_row, correlated_row, huge_row, drifting_row, adversarial_row]
STEPS = [
    fiol.Constant(0.3),
    fiol.FixedHorizon(2.0, 3.0, 15.0),
    fiol.Anytime(5.0, 1.0),
    fiol.Inverse(0.1),
    fiol.Polynomial(1.0, 0.7),
]


def score(geometry, x, w):
    return float(x @ (w[0] - w[1] if isinstance(geometry, fiol.SignedEntropy) else w))


def first(geometry, regularizer, d=D):
    """Where learners start: the least of psi, inside the box."""
    n = geometry.reparametrization().weights_per_feature * d
    w = np.full(n, geometry.first_weight(n))
    w = np.clip(w, getattr(regularizer, "lo", -np.inf), getattr(regularizer, "hi", np.inf))
    return w.reshape(2, d) if isinstance(geometry, fiol.SignedEntropy) else w


class Run(NamedTuple):
    ws: np.ndarray
    X: np.ndarray
    y: np.ndarray
    loss: fiol.Loss
    regularizer: fiol.Regularizer
    geometry: fiol.Geometry
    etas: np.ndarray

    def account(self, comparator=None, **options):
        return account(*self, comparator=comparator, **options)

    def best(self):
        return best_in_hindsight(*self[1:-1])


def play(draw, loss, regularizer, geometry, step, T=12, seed=0, start=None, solver=None):
    rng, rows, targets = np.random.default_rng(seed), [], []
    ws = [first(geometry, regularizer) if start is None else start]
    for t in range(1, T + 1):
        x, y = draw(rng, t, loss, partial(score, geometry, w=ws[-1]))
        found = fiol.solve_step(
            x,
            y,
            ws[-1],
            loss=loss,
            regularizer=regularizer,
            geometry=geometry,
            eta=step.eta(t),
            solver=solver,
            compiled=False,
        )
        ws.append(found.w)
        rows.append(x)
        targets.append(y)
    etas = np.array([step.eta(t) for t in range(1, T + 1)])
    return Run(np.array(ws), np.array(rows), np.array(targets), loss, regularizer, geometry, etas)


def learned(update, X, y):
    """The weights of a learner before the first round and after each."""
    learner = fiol.Learner(update, n_features=X.shape[1], intercept=False, compiled=False)
    ws = [learner.weights]
    for x, target in zip(X, y, strict=True):
        learner.learn(x[None], [target])
        ws.append(learner.weights)
    etas = [update.step_size.eta(t) for t in range(1, len(X) + 1)]
    return Run(np.array(ws), X, y, update.loss, update.regularizer, update.geometry, np.array(etas))


def best_in_hindsight(X, y, loss, regularizer, geometry):
    """argmin over Omega of sum of f_t + r, by a general convex solver."""
    v, pen, T = cp.Variable(X.shape[1]), penalty_of(regularizer), len(X)
    r = pen.l1 * cp.norm1(v) + pen.l2 * cp.sum_squares(v) / 2
    limits = [v >= pen.lo, v <= pen.hi] if isinstance(regularizer, fiol.Box) else []
    limits = [limit for limit, end in zip(limits, (pen.lo, pen.hi), strict=False) if np.isfinite(end)]
    if isinstance(geometry, (fiol.Entropy, fiol.Simplex)):
        limits.append(v >= 0.0)
    if isinstance(geometry, fiol.Simplex):
        limits.append(cp.sum(v) == 1)
    y = np.diag(y) if isinstance(loss, (fiol.Binary, fiol.Poisson)) else y  # y z is a product of matrices there
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cp.Problem(cp.Minimize(cp.sum(loss_expression(loss, X @ v, y)) + T * r), limits).solve(solver=cp.CLARABEL)
    return inside(v.value, regularizer, geometry)


# --- comparators ------------------------------------------------------------------------------


def inside(u, regularizer, geometry):
    """A point of Omega near u."""
    u = np.abs(u) if isinstance(geometry, (fiol.Entropy, fiol.Simplex)) else u
    u = np.clip(u, getattr(regularizer, "lo", -np.inf), getattr(regularizer, "hi", np.inf))
    return u / u.sum() if isinstance(geometry, fiol.Simplex) else u


def comparators(run, seed=0):
    """The first weights and the last; some others and points close to them; far away; at zero, or in a corner."""
    rng, shape = np.random.default_rng(seed), run.ws[0].shape
    some = run.ws[rng.choice(np.arange(1, len(run.ws)), min(len(run.ws) - 1, 4), replace=False)]
    near = [w + size * rng.standard_normal(shape) for w in some for size in (1e-6, 1e-2)]
    away = [size * rng.standard_normal(shape) for size in (1e-3, 1.0, 30.0, 1e3)]
    corner = np.zeros(shape)
    if isinstance(run.geometry, fiol.Simplex):
        corner[-1] = 1.0
    found = [run.ws[0], run.ws[-1], *some, *near, *away, corner]
    if isinstance(run.geometry, fiol.Simplex):
        found += [rng.dirichlet(np.full(shape, 0.1))]
    return [inside(u, run.regularizer, run.geometry) for u in found]


def assert_at_most(left, right, scale, *what):
    wrong = left - right > ROUNDING * scale
    assert not np.any(wrong), (left, right, scale, *what)


# --- Lemma 1, in every round ------------------------------------------------------------------

UNITS = fiol.Unregularized(), fiol.L1(0.2), fiol.Ridge(0.5), fiol.ElasticNet(0.2, 0.5)
PAIRS = [
    *[(fiol.Euclidean(), r) for r in UNITS],
    (fiol.Euclidean(), fiol.Box(fiol.L1(0.1), -0.5, 0.3)),
    (fiol.Euclidean(), fiol.non_negative(fiol.Ridge(0.1))),
    (fiol.Euclidean(), fiol.L1(np.array([0.0, 1.0, 0.1]))),
    (fiol.DiagonalMetric([0.1, 1.0, 5.0]), fiol.L1(0.2)),
    (fiol.DiagonalMetric([0.1, 1.0, 5.0]), fiol.Box(fiol.ElasticNet(0.1, 0.3), -1.0, 1.0)),
    (fiol.Mahalanobis(MATRIX), fiol.Unregularized()),
    (fiol.Mahalanobis(MATRIX), fiol.Ridge(0.5)),
    *[(fiol.Entropy(), r) for r in UNITS],
    (fiol.Entropy(), fiol.Box(fiol.L1(0.1), 0.05, 2.0)),
    (fiol.SignedEntropy(), fiol.Unregularized()),
    (fiol.SignedEntropy(), fiol.ElasticNet(0.2, 0.3)),
    (fiol.Simplex(), fiol.Unregularized()),
    (fiol.Simplex(), fiol.L1(np.array([0.0, 1.0, 0.1]))),
]


@cache
def runs_of(pair, k):
    """Return every second stream for the k-th loss, each with another step size; the next loss has the rest."""
    geometry, regularizer = PAIRS[pair]
    return [
        play(draw, LOSSES[k], regularizer, geometry, STEPS[(n + k + pair) % len(STEPS)], seed=100 * pair + k)
        for n, draw in enumerate(STREAMS)
        if (n + k + pair) % 2 == 0 and not (draw is huge_row and type(geometry).__name__ in ENTROPIC)
    ]


every_pair = pytest.mark.parametrize("pair", range(len(PAIRS)), ids=lambda p: f"{PAIRS[p][0]}-{PAIRS[p][1]}")
every_loss = pytest.mark.parametrize("k", range(len(LOSSES)), ids=lambda k: name(LOSSES[k]))


@every_pair
@every_loss
def test_lemma_1_in_every_round(pair, k):
    for run in runs_of(pair, k):
        booked = run.account()
        assert np.all(booked["delta"] >= -ROUNDING * booked["terms"])
        for u in comparators(run):
            a = against(booked, u)
            assert_at_most(a["gap"], three_points(a), a["scale"], u)
            assert_at_most(a["gap"], lemma1(a), a["scale"], u)


@pytest.mark.parametrize("side", [-1.0, 1.0])
@every_pair
def test_lemma_1_with_any_subgradient_of_the_penalty_at_zero(pair, side):
    for run in runs_of(pair, pair % len(LOSSES)):
        booked = run.account(side=side)
        assert np.all(booked["delta"] >= -ROUNDING * booked["terms"])
        for u in comparators(run):
            a = against(booked, u)
            assert_at_most(a["gap"], lemma1(a), a["scale"], u)


@pytest.mark.parametrize("solver", SOLVERS, ids=name)
@pytest.mark.parametrize("loss", [fiol.Squared(), fiol.Hinge(), fiol.Logistic()], ids=name)
def test_lemma_1_by_every_solver(solver, loss):
    pairs = [(g, r) for g, r in PAIRS if not solver.objection(r, g.working())]
    for geometry, regularizer in pairs if solver != fiol.Bisection() else pairs[::4]:
        for draw in (huge_row, adversarial_row) if geometry.quadratic else (adversarial_row,):
            run = play(draw, loss, regularizer, geometry, fiol.Polynomial(3.0), T=6, solver=solver)
            booked = run.account()
            for u in comparators(run):
                a = against(booked, u)
                assert_at_most(a["gap"], three_points(a), a["scale"], u)
                assert_at_most(a["gap"], lemma1(a), a["scale"], u)


@settings(max_examples=40)
@given(cases([*QUADRATIC, *ENTROPIC]), st.integers(0, 9))
def test_lemma_1_for_extreme_steps(case, seed):
    """Any eta from 1e-6 to 1e6, strengths to 1e3, rows with zeros and ties, samples that count 0 or 1000 times."""
    lo, hi = getattr(case.regularizer, "lo", -np.inf), getattr(case.regularizer, "hi", np.inf)
    case = case._replace(w=np.clip(case.w, lo, hi))
    try:
        new = case.solve().w
    except OverflowError:  # refused, with an error
        assume(False)
    entropic = type(case.geometry).__name__ in ENTROPIC
    assume(not entropic or ((new > 1e-290) | (case.w == 0.0)).all())  # below that logarithms lose their digits
    run = Run(np.array([case.w, new]), case.x[None], [case.y], *case[3:6], np.array([case.eta]))
    booked = run.account(sample_weight=[case.weight])
    assume(np.isfinite(booked["terms"]).all())
    assert np.all(booked["delta"] >= -ROUNDING * booked["terms"])
    for u in comparators(run, seed):
        a = against(booked, np.where(case.w == 0.0, 0.0, u) if entropic else u)  # a weight at 0 stays there
        if not np.isfinite(a["scale"]).all():  # the comparator's loss is no double
            continue
        assert_at_most(a["gap"], three_points(a), a["scale"], u)
        assert_at_most(a["gap"], lemma1(a), a["scale"], u)


@every_pair
def test_lemma_1_detects_a_slightly_wrong_step(pair):
    """The tests above detect a solver that is off by 1e-5: the exact weights as comparator violate the lemma."""
    geometry, regularizer = PAIRS[pair]
    run = runs_of(pair, LOSSES.index(fiol.Logistic()))[0]
    rng = np.random.default_rng(pair)
    for t in range(1, len(run.ws)):
        wrong = run.ws.copy()
        wrong[t] = inside(wrong[t] + 1e-5 * rng.standard_normal(wrong[t].shape), regularizer, geometry)
        a = run._replace(ws=wrong).account(run.ws[t])
        caught = a["gap"] - three_points(a) > ROUNDING * a["scale"]
        assert caught[t - 1] or np.allclose(wrong[t], run.ws[t], rtol=0.0, atol=3e-6), (t, wrong[t], run.ws[t])


# --- Theorem 1 --------------------------------------------------------------------------------


@every_pair
@every_loss
def test_regret_bounds_for_any_steps(pair, k):
    """Theorem 1 before its step sizes are put in, and its sibling by the variability of the losses."""
    for run in runs_of(pair, k):
        booked = run.account()
        assert np.all(np.diff(run.etas) <= 0.0)
        for u in comparators(run)[::4]:
            a = against(booked, u)
            if not np.isfinite(a["regret"][-1]):
                continue
            D2, scale = a["distance"][:-1].max(), a["scale"].sum()
            sharp, bound = theorem1(a), theorem1(a, D2)
            assert_at_most(sharp, bound, scale)
            assert_at_most(a["regret"][-1], sharp, scale)
            assert_at_most(a["regret"][-1], variability(a), scale)
            assert_at_most(variability(a), variability(a, D2), scale)


def test_unchanging_losses_cost_a_constant():
    """Without variability the regret stays below B(w*, w_1) / eta + F(w_1) for any number of rounds, any gradients."""
    same = lambda *_: (np.array([3.0, 4.0, 0.0]), 50.0)  # noqa: E731
    run = play(same, fiol.Absolute(), fiol.L1(0.1), fiol.Euclidean(), fiol.Constant(0.05), T=200)
    a = run.account(run.best())
    assert a["variation"] == 0.0
    assert 0.0 < a["regret"][-1] <= variability(a) + 1e-9 < 0.01 * theorem1(a) + a["loss"][0] + a["distance"][0] / 0.05


def steepest(loss, reach, targets):
    """The largest |phi'| for scores up to `reach`: by convexity, at an end."""
    return max(abs(loss.grad(z, y)) for z in (-reach, reach) for y in targets)


@pytest.mark.parametrize("loss", LOSSES, ids=name)
@pytest.mark.parametrize("geometry", [fiol.Euclidean(), fiol.DiagonalMetric([0.5, 1.0, 2.0]), fiol.Entropy()], ids=name)
def test_theorem_1(loss, geometry):
    """D and G known before the first round: rows of -1, 0, 1, 2, weights in a box, the most costly of two targets."""
    positive, T = isinstance(geometry, fiol.Entropy), 60
    lo, hi = (0.2, 1.0) if positive else (-0.5, 0.5)
    box = fiol.Box(fiol.L1(0.1), lo, hi)
    metric = getattr(geometry, "h", np.ones(D))
    slope = steepest(loss, 2.0 * D * hi, choices(loss))
    if positive:  # the divergence is convex in both: largest at corners
        a = 0.2
        D2, G, c = D * max(a * np.log(a) - a + 1.0, -np.log(a) - 1.0 + a), 2.0 * slope + 0.1, 1.0 / (D * hi)
    else:
        D2, G, c = np.sum(metric) * (hi - lo) ** 2 / 2.0, np.sqrt(np.sum((2.0 * slope + 0.1) ** 2 / metric)), 1.0
    for bound, step in [
        (theorem1_fixed, fiol.FixedHorizon(np.sqrt(D2), G, T, c)),
        (theorem1_anytime, fiol.Anytime(np.sqrt(D2), G, c)),
    ]:
        run = play(adversarial_row, loss, box, geometry, step, T=T)
        a = run.account(run.best())
        assert a["gradient"].max() <= G
        assert a["distance"].max() <= D2 * (1.0 + 1e-12)
        assert a["convexity"].min() >= c * (1.0 - 1e-12)
        assert a["regret"][-1] <= bound(T, np.sqrt(D2), G, c, a["delta"].sum())


@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_theorem_1_on_the_simplex_with_a_fixed_step_needs_only_the_first_distance(loss):
    """log(d) bounds B(w*, w_1) for uniform w_1; B(w*, w_t) has no bound, and with a fixed step needs none."""
    T, D2, G = 60, np.log(D), 2.0 * steepest(loss, 2.0, choices(loss))
    run = play(adversarial_row, loss, fiol.Unregularized(), fiol.Simplex(), fiol.FixedHorizon(np.sqrt(D2), G, T), T=T)
    a = run.account(run.best())
    assert a["gradient"].max() <= G
    assert a["regret"][-1] <= theorem1_fixed(T, np.sqrt(D2), G, 1.0, a["delta"].sum())


def against_signs(step, regularizer, T):
    """Absolute loss, one weight, each target the sign farther from it: every fixed weight in [-1, 1] pays 1 a round."""
    farther = lambda rng, t, loss, z_of: (np.ones(1), most_costly(loss, z_of(np.ones(1)), (-1.0, 1.0)))  # noqa: E731
    return play(farther, fiol.Absolute(), regularizer, fiol.Euclidean(), step, T=T, start=np.zeros(1))


def growth(x, y):
    """Slope of y over x by least squares, and how much of y it explains."""
    slope, offset = np.polyfit(x, y, 1)
    return slope, 1.0 - np.var(y - slope * np.asarray(x) - offset) / np.var(y)


HORIZONS = [2**k for k in range(5, 12)]


def best_of_signs(y, lam, T):
    """min over w of sum of |w - y_t| + T lam w^2 / 2 for targets -1 and +1: at 0, unless one sign is more frequent."""
    tilt = abs(np.sum(y[:T]))
    w = min(tilt / (T * lam), 1.0) if lam > 0.0 else float(tilt > 0.0)
    return T - tilt * w + T * lam * w**2 / 2.0


def test_regret_grows_like_the_root_of_the_rounds():
    """No method does better in the worst case; by Theorem 1 neither step does worse."""
    box = fiol.Box(fiol.Unregularized(), -1.0, 1.0)
    anytime = against_signs(fiol.Anytime(1.0, 1.0), box, HORIZONS[-1])
    a = anytime.account()
    costs = np.cumsum(a["loss"])
    known = [costs[T - 1] - best_of_signs(anytime.y, 0.0, T) for T in HORIZONS]
    fixed = []
    for T in HORIZONS[:-1]:
        run = against_signs(fiol.FixedHorizon(1.0, 1.0, T), box, T)
        fixed.append(run.account()["loss"].sum() - best_of_signs(run.y, 0.0, T))
    for regrets, horizons in (known, HORIZONS), (fixed, HORIZONS[:-1]):
        exponent, fit = growth(np.log(horizons), np.log(regrets))
        assert 0.4 < exponent < 0.6
        assert fit > 0.98


def test_regret_grows_like_the_logarithm_of_the_rounds_with_ridge():
    sigma = 0.5
    run = against_signs(fiol.Inverse(sigma), fiol.Ridge(sigma), HORIZONS[-1])
    a = run.account()
    costs = np.cumsum(a["loss"] + a["penalty"][:-1])
    regrets = [costs[T - 1] - best_of_signs(run.y, sigma, T) for T in HORIZONS]
    exponent, _ = growth(np.log(HORIZONS), np.log(regrets))
    slope, fit = growth(np.log(HORIZONS), regrets)
    assert exponent < 0.25
    assert fit > 0.99
    assert 0.0 < slope <= a["gradient"].max() ** 2 / (2.0 * sigma)


# --- Theorem 2 --------------------------------------------------------------------------------

STRONG = [
    (fiol.Euclidean(), fiol.Ridge(0.5), 0.5),
    (fiol.Euclidean(), fiol.ElasticNet(0.1, 0.5), 0.5),
    (fiol.Euclidean(), fiol.Box(fiol.Ridge(0.5), -0.3, 0.4), 0.5),
    (fiol.DiagonalMetric([0.5, 1.0, 2.0]), fiol.Ridge(0.5), 0.25),
    (fiol.Mahalanobis(MATRIX), fiol.Ridge(0.5), 0.5 / np.linalg.eigvalsh(MATRIX)[-1]),
    (fiol.Entropy(), fiol.Box(fiol.Ridge(0.5), 0.1, 2.0), 0.05),  # lam >= sigma / w where w >= lo
]


@pytest.mark.parametrize(("geometry", "regularizer", "sigma"), STRONG, ids=name)
@every_loss
def test_theorem_2(k, geometry, regularizer, sigma):
    loss = LOSSES[k]
    draw = STREAMS[k % 2] if isinstance(geometry, fiol.Mahalanobis) else adversarial_row
    run = play(draw, loss, regularizer, geometry, fiol.Inverse(sigma), T=30, seed=k)
    booked = run.account()
    for u in comparators(run):
        a = against(booked, u)
        assert_at_most(a["gap"], lemma_strong(a, sigma), a["scale"], u)
    a = against(booked, run.best())
    G, c = a["gradient"].max(), a["convexity"].min()
    for T in (1, 2, 10, 30):
        bound = theorem2(T, sigma, a["distance"][0], G, c, a["delta"][:T].sum())
        assert_at_most(a["regret"][T - 1], bound, a["scale"][:T].sum())


# --- Proposition 1: steps that are far too large ----------------------------------------------


@pytest.mark.parametrize("step", [*map(fiol.Constant, (1e-3, 1.0, 1e3, 1e6)), fiol.Polynomial(1e3)], ids=name)
@pytest.mark.parametrize("geometry", [fiol.Euclidean(), fiol.DiagonalMetric([0.5, 1.0, 2.0])], ids=name)
@every_loss
def test_proposition_1(k, geometry, step):
    loss = LOSSES[k]
    for regularizer in (*UNITS, fiol.Box(fiol.L1(0.1), -0.5, 0.3)):
        run = play(STREAMS[k % 5], loss, regularizer, geometry, step, seed=k)
        booked = run.account()
        known = (0.0, 0.3, 1.0) if isinstance(loss, fiol.Squared) else (0.0,)
        for u in comparators(run)[::3]:
            a = against(booked, u)
            if np.isfinite(a["regret"][-1]):
                for gamma in (*known, secant_curvature(a) * (1.0 - 1e-9)):
                    assert_at_most(a["regret"][-1], proposition1(a, gamma), a["scale"].sum(), gamma)


def noisy_line(T=40, seed=0):
    rng = np.random.default_rng(seed)
    X = np.ones((T, D)) + rng.standard_normal((T, D))
    return X, X @ np.array([1.0, -1.0, 0.0]) + 0.2 * rng.standard_normal(T)


def test_overlarge_steps_cost_no_more_than_a_bound_without_eta():
    """The regret as eta grows tends to a number; that of the composite step, and of its bound, to infinity."""
    X, y = noisy_line()
    penalty, found = fiol.L1(0.05), []
    for eta in (1e1, 1e3, 1e5, 1e7):
        rows = iter(zip(X, y, strict=True))
        run = play(
            lambda *_, rows=rows: next(rows), fiol.Squared(), penalty, fiol.Euclidean(), fiol.Constant(eta), T=40
        )
        a = run.account(best_in_hindsight(X, y, fiol.Squared(), penalty, fiol.Euclidean()))
        limit = a["distance"][0] / eta + a["penalty"][0] + (a["slope"] ** 2).sum() / 2.0
        assert a["regret"][-1] <= proposition1(a, 1.0) <= limit
        found.append(a["regret"][-1])
    assert np.ptp(found[1:]) < 0.02 * found[-1]


# --- explicit steps, for contrast -------------------------------------------------------------


@pytest.mark.parametrize("penalty", [fiol.Unregularized(), fiol.L1(0.1), fiol.Ridge(0.3)], ids=name)
@pytest.mark.parametrize("geometry", [fiol.Euclidean(), fiol.DiagonalMetric([0.5, 1.0, 2.0])], ids=name)
@pytest.mark.parametrize("loss", [fiol.Squared(), fiol.Logistic()], ids=name)
def test_composite_steps_have_their_own_lemma(loss, geometry, penalty):
    """f(w_t) + r(w_{t+1}) - F(u) <= (B(u, w_t) - B(u, w_{t+1})) / eta + eta |f'|^2 / (2 c): no -delta_t there."""
    X, y = noisy_line(T=10)
    y = y if isinstance(loss, fiol.Squared) else np.sign(y)
    run = learned(fiol.COMID(loss, penalty, fiol.Constant(0.4), geometry), X, y)
    booked = run.account()
    for u in comparators(run):
        a = against(booked, u)
        left = a["gap"] + np.diff(a["penalty"])
        right = -np.diff(a["distance"]) / 0.4 + 0.4 * a["loss_gradient"] ** 2 / 2.0
        assert_at_most(left, right, a["scale"], u)
        assert_at_most(a["regret"][-1], composite(a), a["scale"].sum(), u)


@pytest.mark.parametrize("preset", [fiol.SGD, fiol.COMID])
def test_explicit_steps_violate_what_holds_for_implicit_ones(preset):
    """The same stream, step and comparators: Lemma 1 and Proposition 1 are about implicit steps alone."""
    X, y = noisy_line(T=10)
    explicit = learned(preset(fiol.Squared(), fiol.L1(0.05), fiol.Constant(3.0)), X, y)
    implicit = learned(fiol.FIOL(fiol.Squared(), fiol.L1(0.05), fiol.Constant(3.0)), X, y)
    for run, holds in (explicit, False), (implicit, True):
        a = run.account(run.best())
        every = [against(a, u) for u in comparators(run)]
        assert holds == all(np.all(b["gap"] <= lemma1(b) + ROUNDING * b["scale"]) for b in every)
        assert holds == (a["regret"][-1] <= proposition1(a, 1.0))
        assert holds == (a["regret"][-1] <= variability(a))


def test_learner_follows_the_path_of_single_steps():
    """So that what is shown above of steps is shown of learners."""
    X, y = noisy_line(T=10)
    step, parts = fiol.Anytime(1.0, 2.0), (fiol.Squared(), fiol.ElasticNet(0.05, 0.1))
    rows = iter(zip(X, y, strict=True))
    single = play(lambda *_: next(rows), *parts, fiol.Euclidean(), step, T=10)
    np.testing.assert_allclose(learned(fiol.FIOL(*parts, step), X, y).ws, single.ws, rtol=1e-12, atol=1e-15)


# --- the accountant itself --------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_oracle_losses_match_the_library(loss):
    rounds = Rounds(np.ones((1, 1)), [1.0], loss, fiol.Unregularized(), fiol.Euclidean(), None, False, 0.0)
    for z in (-40.0, -1.5, -1.0, 0.0, 0.3, 0.5, 1.0, 1.5, 2.5, 40.0):
        np.testing.assert_allclose(rounds.phi(z, 1.0), loss.value(z, 1.0), rtol=1e-13, atol=1e-15)
        np.testing.assert_allclose(rounds.slope_of(z, 1.0), loss.grad(z, 1.0), rtol=1e-13, atol=1e-15)


@every_pair
def test_oracle_divergences_match_the_library(pair):
    geometry, regularizer = PAIRS[pair]
    run = runs_of(pair, 0)[0]
    u, w = run.ws[-1], run.ws[1]
    a = run.account(u)
    working = (lambda v: v.ravel()) if isinstance(geometry, fiol.SignedEntropy) else lambda v: v
    np.testing.assert_allclose(a["distance"][1], geometry.distance(working(u), working(w)), rtol=1e-9, atol=1e-12)
    convexity = geometry.strong_convexity(working(w), working(run.ws[0]))
    np.testing.assert_allclose(a["convexity"][0], convexity, rtol=1e-12)
    values = [regularizer.value(float(v), i % D) for i, v in enumerate(working(u))]
    np.testing.assert_allclose(a["penalty"][-1], np.sum(values), rtol=1e-12, atol=1e-15)
    x = np.concatenate([run.X[0], -run.X[0]]) if isinstance(geometry, fiol.SignedEntropy) else run.X[0]
    np.testing.assert_allclose(a["x_norm"][0], geometry.dual_norm(x), rtol=1e-12)


def test_oracle_covers_intercepts_and_sample_weights():
    """An intercept is one more column of ones without a penalty; a weight multiplies the loss."""
    rng = np.random.default_rng(0)
    X, y, weight, ws = rng.standard_normal((4, 2)), rng.standard_normal(4), [1.0, 0.0, 2.0, 3.0], rng.random((5, 3))
    ones = np.hstack([X, np.ones((4, 1))])
    u = rng.random(3)
    with_intercept = account(
        ws, X, y, fiol.Squared(), fiol.L1(0.3), fiol.Euclidean(), 0.5, u, sample_weight=weight, intercept=True
    )
    as_column = account(
        ws, ones, y, fiol.Squared(), fiol.L1([0.3, 0.3, 0.0]), fiol.Euclidean(), 0.5, u, sample_weight=weight
    )
    for key in ("loss", "penalty", "delta", "gradient", "distance", "gap", "moved", "change"):
        np.testing.assert_allclose(with_intercept[key], as_column[key], rtol=1e-13)
    np.testing.assert_allclose(with_intercept["loss"], weight * ((ones * ws[:4]).sum(axis=1) - y) ** 2 / 2.0)
    mixed = account(ws, X, y, fiol.Squared(), fiol.L1(0.3), fiol.Entropy(), 0.5, u, intercept=True)
    plain = account(ws[:, :2], X, y, fiol.Squared(), fiol.L1(0.3), fiol.Entropy(), 0.5, u[:2])
    np.testing.assert_allclose(mixed["distance"] - plain["distance"], (ws[:, 2] - u[2]) ** 2 / 2.0)
