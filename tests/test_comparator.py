"""The best weights in hindsight against a general convex solver, and their certificate against everything nearby."""

from __future__ import annotations

import subprocess
import sys
import warnings

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse
from material import LOSSES
from oracles.general import loss_expression
from oracles.regret import loss_of
from oracles.table1 import penalty_of

import fiol
from fiol import L1, Box, ElasticNet, Hinge, Logistic, Poisson, Regularizer, Ridge, Squared, Unregularized, non_negative
from fiol.comparator import best_in_hindsight

T, D = 40, 6
STRENGTHS = np.array([0.05, 0.0, 0.3, 0.1, 0.02, 0.2])
PENALTIES = {
    "none": Unregularized(),
    "l1": L1(0.05),
    "ridge": Ridge(0.1),
    "elastic net": ElasticNet(0.05, 0.1),
    "box": Box(L1(0.02), -0.3, 0.4),
    "away from 0": Box(Ridge(0.02), 0.1, 0.4),
    "non-negative": non_negative(L1(0.05)),
    "l1 per feature": L1(STRENGTHS),
    "both per feature": ElasticNet(STRENGTHS, STRENGTHS[::-1].copy()),
}


def rows(loss, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((T, D)) * [0.3, 1.0, 2.0, 1.0, 0.5, 1.0]
    X[rng.random((T, D)) < 0.3] = 0.0
    s = X[:, :3].sum(axis=1) + 2.0 * rng.standard_normal(T)
    if isinstance(loss, fiol.losses.Binary):
        s = np.where(s > 0.0, 1.0, -1.0)
    elif isinstance(loss, Poisson):
        s = np.exp(np.clip(s, -3.0, 2.0)).round()
    return X, s, rng.choice([0.0, 1.0, 1.0, 2.5], T)


def objective(loss, regularizer, X, y, h, w, b=0.0):
    """By the book, in plain numbers."""
    phi, pen = loss_of(loss)[0], penalty_of(regularizer)
    cost = sum(c * phi(float(x @ w) + b, t) for x, t, c in zip(X, y, h, strict=True))
    return cost + len(X) * float(np.sum(pen.l1 * np.abs(w) + pen.l2 * w * w / 2.0))


def solved(loss, regularizer, X, y, h, intercept, geometry):
    """The least value, by a general convex solver."""
    v, b, pen = cp.Variable(D), cp.Variable() if intercept else 0.0, penalty_of(regularizer)
    l1, l2 = np.resize(pen.l1, D), np.resize(pen.l2, D)
    costs = [c * loss_expression(loss, x @ v + b, t) for x, t, c in zip(X, y, h, strict=True) if c]
    total = sum(costs) + len(X) * (l1 @ cp.abs(v) + l2 @ cp.square(v) / 2)
    limits = [v >= pen.lo] * bool(np.isfinite(pen.lo)) + [v <= pen.hi] * bool(np.isfinite(pen.hi))
    limits += [v >= 0.0] if isinstance(geometry, (fiol.Entropy, fiol.Simplex)) else []
    limits += [cp.sum(v) == 1] if isinstance(geometry, fiol.Simplex) else []
    problem = cp.Problem(cp.Minimize(total), limits)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return problem.value


def near(w, regularizer, geometry, rng):
    """Weights around w that are allowed."""
    pen = penalty_of(regularizer)
    for size in (1e-6, 1e-4, 1e-2, 1.0):
        u = np.clip(w + size * rng.standard_normal(D) * (rng.random(D) < 0.7), pen.lo, pen.hi)
        if isinstance(geometry, (fiol.Entropy, fiol.Simplex)):
            u = np.maximum(u, 0.0)
        yield u / u.sum() if isinstance(geometry, fiol.Simplex) else u


@pytest.mark.parametrize("name", PENALTIES)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_no_weights_are_better(loss, name):
    regularizer, rng = PENALTIES[name], np.random.default_rng(1)
    for intercept in (False, True):
        X, y, h = rows(loss, int(intercept))
        best = best_in_hindsight(loss, regularizer, X, y, sample_weight=h, intercept=intercept)
        least = solved(loss, regularizer, X, y, h, intercept, None)
        own = objective(loss, regularizer, X, y, h, best.w, best.intercept)
        np.testing.assert_allclose(best.value, own, rtol=1e-12)
        np.testing.assert_allclose(best.value, least, rtol=1e-6, atol=1e-7)
        assert best.certificate == "duality gap" or name == "none"
        assert best.error <= 1e-8 * max(1.0, abs(best.value))
        if best.certificate == "duality gap":
            for u in near(best.w, regularizer, None, rng):
                b = best.intercept + intercept * 1e-3 * rng.standard_normal()
                assert objective(loss, regularizer, X, y, h, u, b) >= best.value - best.error - 1e-13 * abs(own)
        assert (best.rounds, best.intercept == 0.0) == (T, not intercept)


@pytest.mark.parametrize("loss", [Squared(), Hinge(), Logistic()], ids=repr)
@pytest.mark.parametrize(
    ("geometry", "regularizer"),
    [
        (fiol.Entropy(), L1(0.05)),
        (fiol.Simplex(), Unregularized()),
        (fiol.Simplex(), L1(STRENGTHS)),
        (fiol.SignedEntropy(), L1(0.05)),
        (fiol.DiagonalMetric(2.0), Ridge(0.1)),
    ],
    ids=repr,
)
def test_only_the_domain_of_a_geometry_matters(loss, geometry, regularizer):
    X, y, h = rows(loss)
    best = best_in_hindsight(loss, regularizer, X, y, sample_weight=h, geometry=geometry)
    domain = None if isinstance(geometry, fiol.SignedEntropy) else geometry
    np.testing.assert_allclose(best.value, solved(loss, regularizer, X, y, h, False, domain), rtol=1e-6)
    np.testing.assert_allclose(best.value, objective(loss, regularizer, X, y, h, best.w), rtol=1e-12)
    assert best.certificate == "duality gap"
    assert best.error <= 1e-8 * best.value
    if domain is not None and not isinstance(domain, fiol.DiagonalMetric):
        assert (best.w >= 0.0).all()


def test_sparse_rows_and_chunks_give_the_same():
    X, y, h = rows(Logistic())
    dense = best_in_hindsight(Logistic(), L1(0.05), X, y, sample_weight=h)
    for same in (scipy.sparse.csr_matrix(X), X.tolist()):
        other = best_in_hindsight(Logistic(), L1(0.05), same, y, sample_weight=h)
        np.testing.assert_allclose(other.w, dense.w, atol=1e-9)


def test_the_regularizer_counts_once_per_round():
    X, y, _ = rows(Squared())
    once, twice = (best_in_hindsight(Squared(), L1(0.05), np.vstack([X] * n), np.tile(y, n)) for n in (1, 2))
    np.testing.assert_allclose(once.w, twice.w, atol=1e-10)
    np.testing.assert_allclose(2.0 * once.value, twice.value)


@pytest.mark.parametrize("solver", ["scikit-learn", "L-BFGS-B", "FISTA"])
def test_all_solvers_agree(solver):
    X, y, h = rows(Squared())
    best = best_in_hindsight(Squared(), ElasticNet(0.05, 0.1), X, y, sample_weight=h, solver=solver)
    np.testing.assert_allclose(best.value, solved(Squared(), ElasticNet(0.05, 0.1), X, y, h, False, None), rtol=1e-8)
    assert best.error <= 1e-8 * best.value
    assert solver.lower() in best.solver.lower()


def test_own_components_have_comparators():
    class LogCosh(fiol.Loss):
        def value(self, z, y):
            return float(np.logaddexp(z - y, y - z) - np.log(2.0))

        def grad(self, z, y):
            return float(np.tanh(z - y))

    class Quartic(Regularizer):
        def value(self, w, i):
            return w**4

        def prox(self, u, step, i):
            roots = np.roots([4.0 * step, 0.0, 1.0, -u])
            return float(roots[np.argmin(np.abs(roots.imag))].real)

    X, y, _ = rows(Squared())
    for loss, regularizer in ((LogCosh(), L1(0.05)), (Squared(), Quartic())):
        best = best_in_hindsight(loss, regularizer, X, y)
        rng = np.random.default_rng(0)

        def cost(w, loss=loss, regularizer=regularizer):
            losses = sum(loss.value(float(x @ w), t) for x, t in zip(X, y, strict=True))
            return losses + T * sum(regularizer.value(v, i) for i, v in enumerate(w))

        np.testing.assert_allclose(best.value, cost(best.w), rtol=1e-12)
        for size in (1e-4, 1e-2, 1.0):
            assert cost(best.w + size * rng.standard_normal(D)) >= best.value - 1e-9


def test_says_so_if_nothing_is_best():
    X = np.array([[1.0], [2.0], [-1.0]])
    with pytest.warns(RuntimeWarning, match="add a penalty"):
        best_in_hindsight(Logistic(), None, X, [1.0, 1.0, -1.0])


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: best_in_hindsight(Squared(), L1(0.1), np.ones((0, 2)), []), ValueError, "at least one row"),
        (lambda: best_in_hindsight(Squared(), L1([0.1, 0.2]), [[1.0]], [1.0]), ValueError, "2"),
        (lambda: best_in_hindsight(Logistic(), L1(0.1), [[1.0]], [0.5]), ValueError, r"y\[0\]"),
        (lambda: best_in_hindsight(Squared(), L1(0.1), [[np.nan]], [0.5]), ValueError, r"X\[0, 0\]"),
        (lambda: best_in_hindsight(Squared(), L1(0.1), [[1.0]], [0.5], solver="magic"), ValueError, "solver must be"),
        (lambda: best_in_hindsight(Squared, L1(0.1), [[1.0]], [0.5]), TypeError, "loss must be an instance"),
    ],
)
def test_errors_name_the_place(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_missing_libraries_are_named():
    code = (
        "import sys; sys.modules['sklearn'] = sys.modules['sklearn.linear_model'] = None\n"
        "from fiol import L1, Squared; from fiol.comparator import best_in_hindsight\n"
        "best_in_hindsight(Squared(), L1(0.1), [[1.0], [2.0]], [0.5, 1.0])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert 'comparators need scikit-learn: pip install "fiol[regret]"' in run.stderr
