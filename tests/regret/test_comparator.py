"""The best weights in hindsight match a general solver and carry valid certificates."""

import subprocess
import sys
import warnings
from math import cosh, inf, log, tanh

import cvxpy as cp
import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from material import LOSSES, name
from oracles import precise
from oracles.general import loss_expression
from oracles.table1 import penalty_of
from scipy import sparse
from scipy.optimize import linprog, minimize
from streams import GEOMETRIES, Draws, geometry_of, penalty_for

import fiol
from fiol.components.component import PerFeature, value_at
from fiol.features.containers import to_chunk
from fiol.features.targets import check_sample_weights
from fiol.regret import comparator, libraries, objective
from fiol.regret.certificate import certify
from fiol.regret.comparator import best_in_hindsight
from fiol.regret.objective import make_objective
from fiol.regret.solvers import newton

D = 6
STRENGTHS = np.array([0.3, 0.0, 0.02, 0.1, 0.0, 0.05])
REGULARIZERS = {
    "none": fiol.Unregularized(),
    "l1": fiol.L1(0.1),
    "ridge": fiol.Ridge(0.1),
    "elastic net": fiol.ElasticNet(0.05, 0.1),
    "box": fiol.Box(fiol.Unregularized(), -0.2, 0.3),
    "box and l1": fiol.Box(fiol.L1(0.05), -0.2, 0.3),
    "box away from 0": fiol.Box(fiol.ElasticNet(0.05, 0.05), 0.1, 0.4),
    "non-negative": fiol.non_negative(fiol.Unregularized()),
    "non-negative l1": fiol.non_negative(fiol.L1(0.05)),
    "per feature": fiol.L1(STRENGTHS),
    "per feature, both": fiol.ElasticNet(STRENGTHS, STRENGTHS[::-1].copy()),
}
STRAIGHT = (fiol.Absolute, fiol.Quantile, fiol.EpsilonInsensitive, fiol.Hinge)
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=name)
every_regularizer = pytest.mark.parametrize("kind", REGULARIZERS)


def rows(loss, seed=0, n=40, d=D):
    """A noisy problem: columns of different size, zeros, weights that are 0 or not whole, labels nothing separates."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * rng.choice([0.3, 1.0, 3.0], d) * (rng.random((n, d)) < 0.8)
    score = 0.5 * X @ rng.standard_normal(d) + rng.standard_normal(n)
    y = score + 1.0
    if isinstance(loss, fiol.Binary):
        y = np.where(rng.random(n) < 0.25, -1.0, 1.0) * np.where(score > 0.0, 1.0, -1.0)
    if isinstance(loss, fiol.Poisson):
        y = rng.poisson(np.exp(np.clip(score, -2.0, 2.0))).astype(float)
    return X, y, rng.choice([0.0, 0.5, 1.0, 1.0, 3.0], n)


def value(loss, regularizer, X, y, weight, w, b=0.0):
    """The objective, added up one by one."""
    total = sum(h * loss.value(float(x @ w) + b, t) for x, t, h in zip(X, y.tolist(), weight.tolist(), strict=True))
    return total + len(y) * sum(regularizer.value(v, i) for i, v in enumerate(w.tolist()))


def general(loss, regularizer, X, y, weight, intercept, limits=lambda w: []):
    """The least value, from a general convex solver."""
    w, b = cp.Variable(X.shape[1]), cp.Variable()
    penalty = penalty_of(regularizer)
    strengths = [lam * np.ones(X.shape[1]) for lam in (penalty.l1, penalty.l2)]
    z = X @ w + (b if intercept else 0.0)
    cost = strengths[0] @ cp.abs(w) + strengths[1] @ cp.square(w) / 2
    box = [w >= penalty.lo] * (penalty.lo > -inf) + [w <= penalty.hi] * (penalty.hi < inf)
    problem = cp.Problem(cp.Minimize(weight @ losses(loss, z, y) + len(y) * cost), box + limits(w))
    return by_clarabel(problem)


def losses(loss, z, y):
    """The losses of all scores, for the general solver."""
    if isinstance(loss, fiol.Binary):
        return loss_expression(loss, cp.multiply(y, z), 1.0)
    return cp.exp(z) - cp.multiply(y, z) if isinstance(loss, fiol.Poisson) else loss_expression(loss, z, y)


def by_clarabel(problem):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "may be inaccurate": it asks for more digits than it can get
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    return problem.value


def unbalanced(loss, regularizer, X, y, weight, w, b, intercept):
    """How far 0 is from the subgradients at w, beside their terms: the least over all betas, by a linear program.

    Slopes of the loss are taken in 50 digits, on both sides of a score that a last digit may have moved off a kink.
    """
    z, penalty, room = X @ w + b, penalty_of(regularizer), 1e-9
    slopes = [
        [float(precise.derivatives(loss, mp.mpf(z[k]) + side * room, mp.mpf(y[k]))[side > 0]) for side in (-1, 1)]
        for k in range(len(y))
    ]
    l1, l2 = (len(y) * lam * np.ones(w.size) for lam in (penalty.l1, penalty.l2))
    low, high = l2 * w + np.where(w > 0.0, l1, -l1), l2 * w + np.where(w < 0.0, -l1, l1)
    low, high = np.where(w <= penalty.lo, -inf, low), np.where(w >= penalty.hi, inf, high)
    A = X * weight[:, None]
    if intercept:
        A, low, high = np.column_stack([A, weight]), np.append(low, 0.0), np.append(high, 0.0)
    size = np.abs(A).T @ np.abs(slopes).max(axis=1) + 1e-12
    # low - s size <= -A'slope <= high + s size, for the least s
    blocks = [(A.T, -low), (-A.T, high)]
    matrix = np.vstack([np.column_stack([rows, -size])[np.isfinite(end)] for rows, end in blocks])
    right = np.concatenate([end[np.isfinite(end)] for _, end in blocks])
    bounds = [*map(tuple, slopes), (0.0, None)]
    cost = np.append(np.zeros(len(y)), 1.0)
    return linprog(cost, A_ub=matrix, b_ub=right, bounds=bounds).fun


# --- right, and how sure ----------------------------------------------------------------------


@every_regularizer
@every_loss
def test_comparator_for_all_losses_and_regularizers(loss, kind):
    regularizer = REGULARIZERS[kind]
    seed = LOSSES.index(loss) + 100 * list(REGULARIZERS).index(kind)
    (X, y, weight), intercept = rows(loss, seed), seed % 2 == 1
    best = best_in_hindsight(loss, regularizer, X, y, sample_weight=weight, intercept=intercept)
    size = abs(best.value) + value(loss, fiol.Unregularized(), X, y, weight, 0.0 * best.w)
    assert best.rounds == len(y)
    assert best.certificate == "duality gap"
    assert best.error <= 1e-11 * size
    assert best.value == pytest.approx(value(loss, regularizer, X, y, weight, best.w, best.intercept), rel=1e-12)
    optimum = general(loss, regularizer, X, y, weight, intercept)
    assert best.value == pytest.approx(optimum, rel=1e-8, abs=1e-8)
    assert best.value - best.error <= optimum + 1e-8 * size
    assert unbalanced(loss, regularizer, X, y, weight, best.w, best.intercept, intercept) <= 1e-7


@every_regularizer
@every_loss
def test_dual_bound_holds_at_any_weights(loss, kind):
    """Far from the optimum, from slopes or, for losses with kinks, from betas that do not belong to the weights."""
    regularizer, (X, y, weight) = REGULARIZERS[kind], rows(loss, seed=len(kind))
    intercept = (LOSSES.index(loss) + list(REGULARIZERS).index(kind)) % 2 == 0
    best = best_in_hindsight(loss, regularizer, X, y, sample_weight=weight, intercept=intercept)
    o = make_objective(loss, regularizer, fiol.Euclidean(), to_chunk(X), D, y, weight, intercept)
    rng, gaps, n = np.random.default_rng(1), [], D + intercept
    for scale in (1e-3, 0.1, 1.0):
        w = o.inside(np.append(best.w, best.intercept)[:n] + scale * rng.standard_normal(n))
        beta = rng.uniform(-1.0, 1.0, o.y.size) if isinstance(loss, STRAIGHT) else None
        with np.errstate(all="ignore"):
            found = certify(o, w, beta)
        b = w[D] if intercept else 0.0
        assert found.value == pytest.approx(value(loss, regularizer, X, y, weight, w[:D], b), rel=1e-12)
        assert found.value >= best.value - best.error
        if found.certificate == "duality gap":
            gaps.append(found.error)
            assert found.value - found.error <= best.value + 1e-13 * abs(best.value)
    assert gaps or intercept or kind in ("none", "non-negative", "per feature", "per feature, both")


def test_dual_bound_is_tight_near_the_optimum():
    """Before the optimum the bound has the size of the remaining error."""
    loss, regularizer, (X, y, weight) = fiol.Logistic(), fiol.ElasticNet(0.02, 0.05), rows(fiol.Logistic())
    best = best_in_hindsight(loss, regularizer, X, y, sample_weight=weight)
    o = make_objective(loss, regularizer, fiol.Euclidean(), to_chunk(X), D, y, weight, False)
    for part in (0.5, 0.9, 0.99):
        found = certify(o, part * best.w)
        assert found.value - best.value <= found.error <= 100.0 * (found.value - best.value)


@pytest.mark.parametrize(
    ("loss", "regularizer", "names"),
    [
        (fiol.Squared(), fiol.L1(0.1), ["scikit-learn", "L-BFGS-B", "FISTA"]),
        (fiol.Squared(), fiol.ElasticNet(0.1, 0.2), ["scikit-learn", "L-BFGS-B", "FISTA"]),
        (fiol.Squared(), fiol.non_negative(fiol.L1(0.1)), ["scikit-learn", "L-BFGS-B", "FISTA"]),
        (fiol.Squared(), fiol.Box(fiol.L1(0.1), -0.1, 0.2), ["L-BFGS-B", "FISTA"]),
        (fiol.Logistic(), fiol.Ridge(0.1), ["scikit-learn", "L-BFGS-B", "FISTA"]),
        (fiol.Poisson(), fiol.L1(STRENGTHS), ["L-BFGS-B", "FISTA"]),
        (fiol.Hinge(), fiol.L1(0.05), ["HiGHS", "Clarabel"]),
        (fiol.Quantile(0.8), fiol.Unregularized(), ["HiGHS", "Clarabel"]),
        (fiol.EpsilonInsensitive(0.3), fiol.Box(fiol.L1(0.05), -0.1, 0.3), ["HiGHS", "Clarabel"]),
    ],
)
@pytest.mark.parametrize("intercept", [False, True])
def test_comparator_solvers_agree(loss, regularizer, names, intercept):
    X, y, weight = rows(loss, seed=3)
    how = {"sample_weight": weight, "intercept": intercept}
    default = best_in_hindsight(loss, regularizer, X, y, **how)
    assert names[0].split("-")[0].lower() in default.solver.lower()
    for solver in names:
        best = best_in_hindsight(loss, regularizer, X, y, solver=solver, **how)
        assert solver in best.solver
        assert best.value == pytest.approx(default.value, rel=1e-11)
        np.testing.assert_allclose(best.w, default.w, rtol=1e-6, atol=1e-7)
        assert best.intercept == pytest.approx(default.intercept, rel=1e-6, abs=1e-7)
    with pytest.raises(ValueError, match=f"solver must be .*{names[-1]}.* for these components, got 'Simplex'"):
        best_in_hindsight(loss, regularizer, X, y, solver="Simplex")


@pytest.mark.parametrize(
    ("method", "loss", "kinds"),
    [
        (comparator.by_scikit_learn, fiol.Squared(), ["l1", "elastic net", "non-negative l1"]),
        (comparator.by_scikit_learn, fiol.Logistic(), ["ridge"]),
        (comparator.by_lbfgsb, fiol.Logistic(), REGULARIZERS),
        (comparator.by_fista, fiol.Logistic(), REGULARIZERS),
        (comparator.by_highs, fiol.Absolute(), ["none", "l1", "box", "box and l1", "non-negative", "per feature"]),
        (comparator.by_clarabel, fiol.Absolute(), REGULARIZERS),
        (comparator.by_clarabel, fiol.Hinge(), ["ridge", "elastic net", "box away from 0"]),
    ],
)
def test_comparator_solvers_converge_without_polishing(method, loss, kinds):
    """Before anything makes the last digits right; columns may be of any size."""
    X, y, weight = rows(loss, seed=4)
    X = X * 10.0 ** np.array([-3.0, 3.0, 0.0, -1.0, 2.0, 0.0]) if method is not comparator.by_scikit_learn else X
    for kind in kinds:
        o = make_objective(loss, REGULARIZERS[kind], fiol.Euclidean(), to_chunk(X), D, y, weight, True)
        best = best_in_hindsight(loss, REGULARIZERS[kind], X, y, sample_weight=weight, intercept=True)
        found = method(o)
        w = o.inside(found.w)
        np.testing.assert_allclose(w, found.w, atol=1e-6)
        assert o.value(w) == pytest.approx(best.value, rel=1e-7), kind


@pytest.mark.parametrize("density", [0.05, 1.0])
def test_weighted_least_squares_solve_matches_numpy(density, monkeypatch):
    rng = np.random.default_rng(0)
    A = sparse.random(300, 20, density, format="csr", random_state=0) + sparse.eye(300, 20, format="csr")
    curvature, ridge, slope = rng.random(300), rng.random(20), rng.standard_normal(20)
    H = A.toarray().T @ (curvature[:, None] * A.toarray()) + np.diag(ridge)
    expected = np.linalg.solve(H, slope)
    np.testing.assert_allclose(newton.solve_bent(A, curvature, ridge, slope), expected, rtol=1e-9)
    monkeypatch.setattr(newton, "MOST_UNKNOWNS", 5)
    np.testing.assert_allclose(newton.solve_bent(A, curvature, ridge, slope), expected, rtol=1e-3, atol=1e-4)


# --- what is minimized ------------------------------------------------------------------------


def test_comparator_counts_the_regularizer_once_per_round():
    """In one dimension there are formulas. Rows of weight 0 are rounds, too."""
    x, y, weight = np.array([1.0, -2.0, 0.5, 3.0]), np.array([2.0, 1.0, 1.0, 0.5]), np.array([1.0, 0.5, 0.0, 2.0])
    X, xy, xx = x[:, None], weight @ (x * y), weight @ (x * x)
    ridge = best_in_hindsight(fiol.Squared(), fiol.Ridge(0.3), X, y, sample_weight=weight)
    assert ridge.w[0] == pytest.approx(xy / (xx + 4 * 0.3), rel=1e-13)
    lasso = best_in_hindsight(fiol.Squared(), fiol.L1(0.3), X, y, sample_weight=weight)
    assert lasso.w[0] == pytest.approx((xy - 4 * 0.3) / xx, rel=1e-13)
    assert best_in_hindsight(fiol.Squared(), fiol.L1(2.0), X, y, sample_weight=weight).w.tolist() == [0.0]
    twice = best_in_hindsight(fiol.Squared(), fiol.L1(0.3), np.tile(X, (2, 1)), np.tile(y, 2))
    once = best_in_hindsight(fiol.Squared(), fiol.L1(0.3), X, y)
    assert twice.value == pytest.approx(2 * once.value, rel=1e-13)


@pytest.mark.parametrize("loss", [fiol.Logistic(), fiol.Squared(), fiol.Hinge()], ids=name)
def test_comparator_sample_weights_count_rows(loss):
    X, y, _ = rows(loss)
    weight = np.arange(len(y)) % 4
    penalty = fiol.ElasticNet(0.1, 0.1)
    weighted = best_in_hindsight(loss, penalty, X, y, sample_weight=weight)
    more = np.repeat(np.arange(len(y)), weight)
    scaled = fiol.ElasticNet(0.1 * len(y) / len(more), 0.1 * len(y) / len(more))
    repeated = best_in_hindsight(loss, scaled, X[more], y[more])
    assert weighted.value == pytest.approx(repeated.value, rel=1e-11)
    np.testing.assert_allclose(weighted.w, repeated.w, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("regularizer", [fiol.L1(0.2), fiol.Ridge(0.5), fiol.non_negative(fiol.L1(0.1))], ids=name)
@pytest.mark.parametrize("loss", [fiol.Squared(), fiol.Huber(1.0), fiol.Absolute(), fiol.Quantile(0.2)], ids=name)
def test_comparator_intercept_is_not_penalized(loss, regularizer):
    X, y, _ = rows(loss)
    here, there = (best_in_hindsight(loss, regularizer, X, y + shift, intercept=True) for shift in (0.0, 1000.0))
    assert there.intercept == pytest.approx(here.intercept + 1000.0)
    assert there.value == pytest.approx(here.value, rel=1e-9)
    np.testing.assert_allclose(here.w, there.w, atol=1e-7)
    without = best_in_hindsight(loss, regularizer, X, y)
    assert without.intercept == 0.0
    assert without.value > here.value


@pytest.mark.parametrize("loss", [fiol.Logistic(), fiol.Hinge()], ids=name)
def test_comparator_has_the_same_bits_for_any_container(loss):
    pd = pytest.importorskip("pandas")
    X, y, weight = rows(loss)
    dense = best_in_hindsight(loss, fiol.Ridge(0.1), X, y, sample_weight=weight, intercept=True)
    names = [f"x{i}" for i in range(D)]
    for other in (X.tolist(), sparse.csr_matrix(X), sparse.coo_array(X), pd.DataFrame(X, columns=names), to_chunk(X)):
        best = best_in_hindsight(loss, fiol.Ridge(0.1), other, list(y), sample_weight=weight, intercept=True)
        assert best.w.tolist() == dense.w.tolist()
        assert best[1:] == dense[1:]


def test_comparator_takes_the_number_of_features_from_strengths():
    chunk = to_chunk([[1.0, 0.0], [2.0, 0.0]])
    assert best_in_hindsight(fiol.Squared(), fiol.Ridge(0.1), chunk, [1.0, 2.0]).w.size == 1
    assert best_in_hindsight(fiol.Squared(), fiol.Ridge([0.1, 0.2, 0.3]), chunk, [1.0, 2.0]).w.size == 3


# --- domains ----------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [fiol.Squared(), fiol.Poisson(), fiol.Hinge()], ids=name)
def test_comparator_in_quadratic_geometries_is_unconstrained(loss):
    X, y, _ = rows(loss)
    everywhere = best_in_hindsight(loss, fiol.Ridge(0.1), X, y)
    for geometry in (fiol.Euclidean(), fiol.DiagonalMetric(np.arange(1.0, D + 1)), fiol.Mahalanobis(2.0 * np.eye(D))):
        best = best_in_hindsight(loss, fiol.Ridge(0.1), X, y, geometry=geometry)
        assert best.w.tolist() == everywhere.w.tolist()


@pytest.mark.parametrize("loss", [fiol.Squared(), fiol.Logistic(), fiol.Absolute()], ids=name)
def test_comparator_in_entropy_geometry_is_positive(loss):
    X, y, _ = rows(loss)
    penalty = fiol.ElasticNet(0.01, 0.02)
    best = best_in_hindsight(loss, penalty, X, y, geometry=fiol.Entropy())
    boxed = best_in_hindsight(loss, fiol.non_negative(penalty), X, y)
    assert best.w.tolist() == boxed.w.tolist()
    assert best.value == boxed.value > best_in_hindsight(loss, penalty, X, y).value
    lifted = best_in_hindsight(loss, fiol.Box(penalty, -1.0, 0.1), X, y, geometry=fiol.Entropy())
    assert lifted.w.min() == 0.0
    assert lifted.w.max() <= 0.1


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("regularizer", [fiol.Unregularized(), fiol.L1(STRENGTHS)], ids=["none", "l1"])
@every_loss
def test_comparator_on_the_simplex(loss, regularizer, intercept):
    X, y, weight = rows(loss, seed=11)
    best = best_in_hindsight(
        loss, regularizer, X, y, sample_weight=weight, intercept=intercept, geometry=fiol.Simplex()
    )
    assert best.w.min() >= 0.0
    assert best.w.sum() == pytest.approx(1.0, abs=1e-14)
    assert best.value == pytest.approx(value(loss, regularizer, X, y, weight, best.w, best.intercept), rel=1e-12)
    optimum = general(loss, regularizer, X, y, weight, intercept, lambda w: [w >= 0, cp.sum(w) == 1])
    assert best.value == pytest.approx(optimum, rel=1e-8, abs=1e-8)
    assert best.certificate == "duality gap"
    assert best.error <= 1e-10 * (abs(best.value) + 1.0)
    assert best.value - best.error <= optimum + 1e-8 * abs(optimum)


@every_loss
def test_dual_bound_holds_anywhere_on_the_simplex(loss):
    X, y, weight = rows(loss, seed=11)
    best = best_in_hindsight(loss, fiol.L1(STRENGTHS), X, y, sample_weight=weight, geometry=fiol.Simplex())
    o = make_objective(loss, fiol.L1(STRENGTHS), fiol.Simplex(), to_chunk(X), D, y, weight, False)
    for w in np.random.default_rng(0).dirichlet(np.ones(D), 3):
        found = certify(o, w, np.zeros(o.y.size) if isinstance(loss, STRAIGHT) else None)
        assert found.certificate == "duality gap"
        assert found.value - found.error <= best.value + 1e-13 * abs(best.value)
        assert best.value - best.error <= found.value


@pytest.mark.parametrize(
    "regularizer",
    [
        fiol.L1(STRENGTHS),
        fiol.ElasticNet(0.05, STRENGTHS),
        fiol.Box(fiol.ElasticNet(0.05, STRENGTHS), 0.2, 0.5),
        fiol.Box(fiol.L1(0.05), -1.0, 0.3),
    ],
    ids=["l1", "elastic net", "box above 0", "box"],
)
@pytest.mark.parametrize("loss", [fiol.Squared(), fiol.Logistic(), fiol.Hinge()], ids=name)
def test_comparator_in_signed_entropy_penalizes_both_parts(loss, regularizer):
    X, y, weight = rows(loss, seed=5)
    best = best_in_hindsight(
        loss, regularizer, X, y, sample_weight=weight, intercept=True, geometry=fiol.SignedEntropy()
    )
    u, v, b = cp.Variable(D), cp.Variable(D), cp.Variable()
    penalty = penalty_of(regularizer)
    l1, l2 = penalty.l1 * np.ones(D), penalty.l2 * np.ones(D)
    cost = sum(l1 @ part + l2 @ cp.square(part) / 2 for part in (u, v))
    lo = max(penalty.lo, 0.0)
    limits = [u >= lo, v >= lo] + ([u <= penalty.hi, v <= penalty.hi] if penalty.hi < inf else [])
    objective = weight @ losses(loss, X @ (u - v) + b, y) + len(y) * cost
    optimum = by_clarabel(cp.Problem(cp.Minimize(objective), limits))
    assert best.value == pytest.approx(optimum, rel=1e-8)
    assert best.error <= 1e-11 * best.value
    np.testing.assert_allclose(best.w, (u - v).value, atol=1e-4)


# --- components of one's own ------------------------------------------------------------------


class LogCosh(fiol.Loss):
    """Smooth, without second derivative and conjugate."""

    def value(self, z, y):
        return log(cosh(z - y))

    def grad(self, z, y):
        return tanh(z - y)


class BentLogCosh(LogCosh):
    """With a second derivative."""

    def hess(self, z, y):
        return 1.0 - tanh(z - y) ** 2


class Pinched(fiol.Loss):
    """A kink that is not declared."""

    def value(self, z, y):
        return abs(z - y)

    def grad(self, z, y):
        return 1.0 if z > y else -1.0


class Unbounded(fiol.Loss):
    """A loss that falls below its declared lower bound."""

    def value(self, z, y):
        return 0.5 * (z - y) ** 2 - 100.0

    def grad(self, z, y):
        return z - y


class DeadZone(fiol.Regularizer):
    """lam * max(0, |w| - free)."""

    lam: PerFeature
    free: float = 0.1

    def value(self, w, i):
        return value_at(self.lam, i) * max(0.0, abs(w) - self.free)

    def prox(self, u, step, i):
        shrunk = abs(u) - step * value_at(self.lam, i)
        size = shrunk if shrunk > self.free else min(abs(u), self.free)
        return size if u > 0.0 else -size


@pytest.mark.parametrize("kind", ["none", "l1", "ridge", "box and l1", "per feature"])
@pytest.mark.parametrize("loss", [LogCosh(), BentLogCosh()], ids=name)
def test_comparator_with_own_losses(loss, kind):
    X, y, weight = rows(loss)
    regularizer = REGULARIZERS[kind]
    best = best_in_hindsight(loss, regularizer, X, y, sample_weight=weight)
    penalty = penalty_of(regularizer)

    def split_value(v):
        w, size = v[:D] - v[D:], v[:D] + v[D:]
        cost = np.sum(penalty.l1 * size + 0.5 * penalty.l2 * w * w)
        return weight @ np.log(np.cosh(X @ w - y)) + len(y) * cost

    bounds = [(0.0, penalty.hi)] * D + [(0.0, -penalty.lo)] * D
    starts = np.random.default_rng(0).uniform(0.0, 0.2, (3, 2 * D))
    found = min(minimize(split_value, v, bounds=bounds, tol=1e-14).fun for v in starts)
    assert best.value <= found + 1e-12 * abs(found)
    assert best.value == pytest.approx(found, rel=1e-6)
    if isinstance(loss, BentLogCosh):
        assert best.certificate == "duality gap"
        assert best.error < 1e-11
    elif kind in ("none", "per feature"):  # weights without penalty, and no conjugate: no bound
        assert best.certificate == "optimality residual"
        assert best.error < 1e-5
    else:
        assert best.certificate == "duality gap"
        assert best.error <= 1e-7 * best.value


def test_comparator_with_own_regularizers():
    X, y, weight = rows(fiol.Squared())
    lam = np.array([0.3, 0.1, 0.3, 0.2, 0.1, 0.5])
    best = best_in_hindsight(fiol.Squared(), DeadZone(lam), X, y, sample_weight=weight, intercept=True)
    w, b = cp.Variable(D), cp.Variable()
    cost = weight @ cp.square(X @ w + b - y) / 2 + len(y) * (lam @ cp.pos(cp.abs(w) - 0.1))
    assert best.value == pytest.approx(by_clarabel(cp.Problem(cp.Minimize(cost))), rel=1e-9)
    assert best.solver == "FISTA"
    assert best.certificate == "optimality residual"
    assert best.error < 1e-8
    boxed = best_in_hindsight(fiol.Squared(), fiol.Box(DeadZone(lam), 0.0, 0.12), X, y, sample_weight=weight)
    cost = weight @ cp.square(X @ w - y) / 2 + len(y) * (lam @ cp.pos(cp.abs(w) - 0.1))
    assert boxed.value == pytest.approx(by_clarabel(cp.Problem(cp.Minimize(cost), [w >= 0, w <= 0.12])), rel=1e-9)


class Barrier(fiol.Regularizer):
    """A ridge penalty that does not declare its curvature."""

    def value(self, w, i):
        return 0.05 * w * w

    def prox(self, u, step, i):
        return u / (1.0 + 0.1 * step)

    def l1(self, i):
        return 0.0

    def l2(self, i):
        return 0.1


@pytest.mark.parametrize("geometry", [fiol.Euclidean(), fiol.Entropy(), fiol.SignedEntropy()], ids=name)
def test_comparator_with_own_regularizers_on_domains(geometry):
    X, y, _ = rows(fiol.Squared())
    known = best_in_hindsight(fiol.Squared(), fiol.Ridge(0.1), X, y, geometry=geometry, intercept=True)
    unknown = best_in_hindsight(fiol.Squared(), Barrier(), X, y, geometry=geometry, intercept=True)
    assert unknown.value == pytest.approx(known.value, rel=1e-12)
    np.testing.assert_allclose(unknown.w, known.w, atol=1e-7)
    assert unknown.certificate == "optimality residual"


def test_unfinished_solution_is_not_certified():
    X, y, _ = rows(Pinched())
    with pytest.warns(RuntimeWarning, match=r"the best weights may not be found: duality gap .*, relative"):
        best = best_in_hindsight(Pinched(), fiol.Ridge(0.1), X, y)
    exact = best_in_hindsight(fiol.Absolute(), fiol.Ridge(0.1), X, y)
    assert best.value > exact.value
    assert best.value - best.error <= exact.value


def test_wrong_lower_bound_certifies_nothing():
    X, y, _ = rows(Unbounded())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        best = best_in_hindsight(Unbounded(), fiol.L1(0.1), X, y)
    exact = best_in_hindsight(fiol.Squared(), fiol.L1(0.1), X, y)
    assert best.value == pytest.approx(exact.value - 100.0 * len(y))
    assert best.certificate == "optimality residual"


# --- the edges --------------------------------------------------------------------------------


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", [fiol.Logistic(), fiol.Exponential()], ids=name)
def test_separable_rows_have_no_comparator(loss, intercept):
    X = np.random.default_rng(0).standard_normal((30, 3))
    y = np.where(X @ [1.0, -2.0, 0.5] > 0.0, 1.0, -1.0)
    with pytest.warns(RuntimeWarning, match="no weights are best, larger ones always are"):
        best = best_in_hindsight(loss, None, X, y, intercept=intercept)
    assert best.certificate == "duality gap"
    assert 0.0 < best.value <= best.error < 1e-10  # the infimum is 0
    assert best_in_hindsight(loss, fiol.Ridge(1e-3), X, y, intercept=intercept).error < 1e-13


@pytest.mark.parametrize("loss", [fiol.Hinge(), fiol.SquaredHinge()], ids=name)
def test_hinge_loss_on_separable_rows_has_a_comparator(loss):
    X = np.random.default_rng(0).standard_normal((30, 3))
    best = best_in_hindsight(loss, None, X, np.where(X @ [1.0, -2.0, 0.5] > 0.0, 1.0, -1.0))
    assert best.value <= best.error < 1e-11


def test_comparator_with_unbounded_weights():
    """A feature that only positive rows have: its weight has no best value, the infimum is that of the other rows."""
    X, y, _ = rows(fiol.Logistic())
    rare = (np.arange(len(y)) < 3) & (y > 0.0)
    assert rare.any()
    best = best_in_hindsight(fiol.Logistic(), None, np.column_stack([X, rare]), y)
    others = best_in_hindsight(fiol.Logistic(), None, X[~rare], y[~rare])
    assert best.value == pytest.approx(others.value, rel=1e-13)
    assert best.certificate == "duality gap"
    assert best.error <= 1e-12


@every_loss
def test_comparator_of_empty_rows(loss):
    X, y, _ = rows(loss)
    nothing = best_in_hindsight(loss, fiol.Box(fiol.Ridge(0.1), 0.5, 2.0), X, y, sample_weight=np.zeros(len(y)))
    assert nothing.w.tolist() == [0.5] * D
    assert nothing.value == pytest.approx(len(y) * D * 0.05 * 0.25, rel=1e-14)
    empty = best_in_hindsight(loss, fiol.L1(0.1), np.zeros((3, 2)), y[:3])
    assert empty.w.tolist() == [0.0, 0.0]
    assert empty.value == pytest.approx(sum(loss.value(0.0, t) for t in y[:3].tolist()))
    assert empty.error <= 1e-14 * abs(empty.value)


def test_comparator_with_more_features_than_rows():
    X, y, _ = rows(fiol.Squared(), n=10, d=30)
    best = best_in_hindsight(fiol.Squared(), None, X, y)
    assert best.value <= best.error < 1e-12
    lasso = best_in_hindsight(fiol.Squared(), fiol.L1(0.05), X, y)
    assert lasso.error <= 1e-13 * lasso.value
    assert 0 < np.count_nonzero(lasso.w) <= 10


def test_comparator_with_columns_of_any_scale():
    X, y, _ = rows(fiol.Logistic())
    scales = 10.0 ** np.array([-6.0, -3.0, 0.0, 2.0, 4.0, 6.0])
    here = best_in_hindsight(fiol.Logistic(), None, X, y, intercept=True)
    there = best_in_hindsight(fiol.Logistic(), None, X * scales, y, intercept=True)
    assert there.value == pytest.approx(here.value, rel=1e-12)
    np.testing.assert_allclose(there.w * scales, here.w, rtol=1e-6)


@pytest.mark.parametrize("loss", [fiol.Quantile(0.3), fiol.Absolute(), fiol.Huber(1.0), fiol.Squared()], ids=name)
def test_comparator_with_scores_far_from_targets(loss):
    X = np.array([[-1e6, -1.0], [3e5, 1.0], [0.0, 2.0]])
    best = best_in_hindsight(loss, fiol.Box(fiol.ElasticNet(0.2, 2.0), 1.4, 6.0), X, [0.1, -1.3, 0.5])
    assert best.w[0] == 1.4
    assert best.value > 1e5
    assert best.error <= 1e-12 * best.value


def test_overflowing_weights_are_not_the_comparator():
    with pytest.warns(RuntimeWarning, match="may not be found"):
        best = best_in_hindsight(fiol.Poisson(), fiol.Box(fiol.L1(0.1), 1.0, 2.0), [[1000.0]], [1.0])
    assert best.value > 1e300


def test_comparator_zeros_are_exact():
    for loss, lam in [(fiol.Squared(), 0.4), (fiol.Logistic(), 0.1), (fiol.Hinge(), 0.2), (fiol.Absolute(), 0.2)]:
        X, y, _ = rows(loss)
        best = best_in_hindsight(loss, fiol.ElasticNet(lam, 0.01), X, y)
        assert 0 < np.count_nonzero(best.w) < D
        boxed = best_in_hindsight(loss, fiol.Box(fiol.Ridge(0.01), -0.05, 0.05), X, y)
        assert set(np.abs(boxed.w)) & {0.05}


def test_compiled_and_iterative_comparators_agree(monkeypatch):
    """Many rows are compiled for, and many weights not solved for directly; the results are the same."""
    X, y, weight = rows(fiol.Logistic(), n=200)
    how = {"sample_weight": weight, "intercept": True, "solver": "L-BFGS-B"}
    plain = best_in_hindsight(fiol.Logistic(), fiol.ElasticNet(0.01, 0.02), X, y, **how)
    monkeypatch.setattr(objective, "ROWS_TO_COMPILE", 100)
    monkeypatch.setattr(newton, "MOST_UNKNOWNS", 2)
    other = best_in_hindsight(fiol.Logistic(), fiol.ElasticNet(0.01, 0.02), X, y, **how)
    assert other.value == pytest.approx(plain.value, rel=1e-13)
    assert other.error < 1e-11
    np.testing.assert_allclose(other.w, plain.w, rtol=1e-6, atol=1e-8)


def test_comparator_is_deterministic():
    X, y, weight = rows(fiol.Logistic())
    for loss, penalty in [(fiol.Logistic(), fiol.L1(0.01)), (fiol.Hinge(), fiol.Ridge(0.1)), (fiol.Hinge(), None)]:
        first, second = (best_in_hindsight(loss, penalty, X, y, sample_weight=weight) for _ in range(2))
        assert first.w.tolist() == second.w.tolist()
        assert first[1:] == second[1:]


@settings(max_examples=37)
@given(st.integers(0, 2**32 - 1))
def test_comparator_of_random_streams_is_certified(seed):
    """No error or warning of a solver escapes, and no other weights are better than the bound allows."""
    draws = Draws(seed)
    loss, d, intercept, _ = draws.start()
    kind = draws.pick(*GEOMETRIES)
    geometry, regularizer = geometry_of(draws, kind, d), penalty_for(draws, kind, d)
    stream = draws.stream(loss, d, (0, 0, -1, 1) if "ntropy" in kind or kind == "Simplex" else (0, 0, 0, -3, 3))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        best = best_in_hindsight(
            loss,
            regularizer,
            stream.x,
            stream.y,
            sample_weight=stream.weight,
            intercept=intercept,
            geometry=geometry,
        )
    assert all("best" in str(w.message) for w in caught)
    rough = any("may not" in str(w.message) for w in caught)
    chunk = to_chunk(stream.x)
    parts = (
        loss,
        regularizer,
        geometry,
        chunk,
        d,
        stream.y,
        check_sample_weights(stream.weight, len(stream.y)),
        intercept,
    )
    o = make_objective(*parts)
    found = np.append(best.w, best.intercept) if intercept else best.w
    with np.errstate(all="ignore"):
        assert best.value == pytest.approx(o.value(found), rel=1e-9, abs=1e-9) or rough
        for scale in (1e-6, 1e-2, 1.0, 10.0):
            other = o.inside(
                np.maximum(found + scale * draws.rng.standard_normal(found.size), 1e-9 if o.simplex else -inf)
            )
            least = best.value - (best.error if best.certificate == "duality gap" else 1e-6 * abs(best.value) + 1e-6)
            assert o.value(other) >= least - 1e-12 * abs(best.value) or rough


# --- errors -----------------------------------------------------------------------------------


X2, Y2 = [[1.0, 2.0], [3.0, 4.0]], [1.0, -1.0]
WRONG = {
    "rows": ({"X": np.zeros((0, 2)), "y": []}, "X must have at least one row and one column, got 0 and 2"),
    "columns": ({"X": np.zeros((2, 0))}, "X must have at least one row and one column, got 2 and 0"),
    "value": ({"X": [[1.0, np.nan], [0.0, 1.0]]}, r"X\[0, 1\] must be finite, got nan"),
    "target": ({"y": [1.0, 0.0]}, r"y\[1\] must be -1 or \+1 for Logistic, got 0"),
    "targets": ({"y": [1.0]}, "y must have one entry per row: 2, got 1"),
    "weight": ({"sample_weight": [1.0, -1.0]}, r"sample_weight\[1\] must be at least 0"),
    "strengths": ({"regularizer": fiol.L1([0.1, 0.2, 0.3])}, r"L1.lam has shape \(3,\), but there are 2 features"),
    "metric": ({"geometry": fiol.DiagonalMetric([1.0])}, r"DiagonalMetric.h has shape \(1,\), but there are 2"),
    "matrix": ({"geometry": fiol.Mahalanobis(np.eye(3))}, r"has shape \(3,\), but there are 2 features"),
    "solver": ({"solver": "HiGHS"}, "solver must be 'L-BFGS-B' or 'FISTA' for these components, got 'HiGHS'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_comparator_rejects_wrong_values(case):
    changes, message = WRONG[case]
    arguments = {"loss": fiol.Logistic(), "regularizer": None, "X": X2, "y": Y2, **changes}
    with pytest.raises(ValueError, match=message):
        best_in_hindsight(**arguments)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loss": fiol.Logistic}, "loss must be an instance, not the class"),
        ({"loss": "logistic"}, "loss must be a fiol.Loss, got 'logistic'"),
        ({"regularizer": 0.1}, "regularizer must be a fiol.Regularizer, got 0.1"),
        ({"geometry": fiol.Simplex(), "regularizer": fiol.Ridge(0.1)}, "Simplex goes with Unregularized"),
        ({"X": [{"a": 1.0}, {"a": 2.0}]}, "use Vocabulary"),
    ],
)
def test_comparator_rejects_wrong_types(changes, message):
    arguments = {"loss": fiol.Logistic(), "regularizer": None, "X": X2, "y": Y2, **changes}
    with pytest.raises(TypeError, match=message):
        best_in_hindsight(**arguments)


@pytest.mark.parametrize(
    ("module", "package", "loss", "regularizer"),
    [
        ("scipy.sparse", "scipy", fiol.Squared(), None),
        ("sklearn.linear_model", "scikit-learn", fiol.Squared(), fiol.L1(0.1)),
        ("clarabel", "clarabel", fiol.Hinge(), fiol.Ridge(0.1)),
    ],
)
def test_missing_solver_library_is_named(monkeypatch, module, package, loss, regularizer):
    found = libraries.importlib.import_module

    def without(name):
        if name == module:
            raise ImportError(f"No module named {name}")
        return found(name)

    monkeypatch.setattr(libraries.importlib, "import_module", without)
    with pytest.raises(ImportError, match=rf'comparators need {package}: pip install "fiol\[regret\]"'):
        best_in_hindsight(loss, regularizer, X2, Y2)


def test_importing_regret_loads_no_solver():
    script = "import sys, fiol.regret.comparator; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & {"numba", "scipy", "sklearn", "clarabel", "cvxpy"}
    assert "fiol" in done.stdout
