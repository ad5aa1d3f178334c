"""The exact step matches independent references for all combinations of components."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from material import ENTROPIC, LOSSES, QUADRATIC, cases
from oracles.general import minimize
from oracles.precise import reference, root

import fiol

EPS = mp.mpf(2) ** -52


def ill_conditioning(case, exact, beta, path):
    """How far each weight moves when the score is off by its own rounding error, and beta by its."""
    terms = [abs(x * w) for x, w in zip(path.x, exact, strict=True)] + [
        abs(x * w) for x, w in zip(path.x, path.w, strict=True)
    ]
    error = 16 * len(exact) * EPS * mp.fsum(terms)
    ends = [root(path, case.y, case.loss, case.weight, shift) for shift in (-error, error)]
    spread = abs(ends[1] - ends[0]) + 4 * EPS * abs(beta)
    moved = zip(path.weights(beta - spread), path.weights(beta + spread), strict=True)
    own = [
        16 * EPS * (abs(a) + abs(b) + path.eta * (abs(beta * x) + l1))
        for a, b, x, l1 in zip(path.w, exact, path.x, path.pen.l1, strict=True)
    ]
    room = np.array([float(abs(a - b) + c) for (a, b), c in zip(moved, own, strict=True)])
    if isinstance(case.geometry, fiol.Mahalanobis):  # the weights are mixed: errors spread to all of them
        room[:] = 1e3 * room.max() + 1e-12 * float(max(map(abs, exact)))
    return room


def assert_exact(case):
    """All solvers that suit the case agree with 50-digit arithmetic to 1e-9, or to its conditioning."""
    exact, beta, _, path = reference(*case[:2], case.w, *case[3:])
    expected = np.array([float(v) for v in exact])
    room = None
    for solver in case.solvers():
        try:
            step = case.solve(solver)
        except OverflowError:
            assert case.eta * np.max(case.x**2, initial=0.0) * max(1.0, case.weight) > 1e290
            continue
        error = np.abs(step.w.ravel() - expected)
        if np.all(error <= 1e-9 * np.abs(expected)):
            continue
        room = ill_conditioning(case, exact, beta, path) if room is None else room
        assert np.all(error <= 1e-9 * np.abs(expected) + room), (solver, step, expected)


@settings(max_examples=60)
@given(cases(QUADRATIC))
def test_quadratic_geometries_are_exact(case):
    assert_exact(case)


@settings(max_examples=40)
@given(cases(["Euclidean", "DiagonalMetric"], wide=True))
def test_features_from_1e_minus_150_to_1e150_are_exact(case):
    with mp.workdps(250):  # beside a score of 1e-43, the exponential of it has few of fifty digits left
        assert_exact(case)


@settings(max_examples=40)
@given(cases(ENTROPIC))
def test_entropic_geometries_are_exact(case):
    assert_exact(case)


@settings(max_examples=40)
@given(cases([*QUADRATIC, *ENTROPIC]))
def test_step_satisfies_the_optimality_conditions(case):
    """beta x - (psi'(w+) - psi'(w)) / eta is a subgradient of the penalty at w+, and -beta one of the loss."""
    step = case.solve()
    scale = 1.0 + abs(step.beta) + abs(step.z) + case.weight * abs(case.y)
    size = np.sum(np.abs(np.ravel([case.x * v for v in np.atleast_2d(step.w)])))
    assert step.residual <= 1e-9 * (scale + size)
    if not isinstance(case.geometry, fiol.components.geometries.Quadratic):
        return
    r = case.regularizer
    lo, hi = r.clip(-np.inf), r.clip(np.inf)
    for i, (x, w, new) in enumerate(zip(case.x, case.w, step.w, strict=True)):
        h = case.geometry.metric(i)
        pull = step.beta * x - h * (new - w) / case.eta
        room = 1e-9 * (abs(step.beta * x) + h * (abs(new) + abs(w)) / case.eta + r.l1(i) + r.l2(i) * abs(new))
        assert new == hi or pull <= r.slope(new, 1, i) + room
        assert new == lo or pull >= r.slope(new, -1, i) - room


@pytest.mark.parametrize("seed", range(60))
def test_step_agrees_with_a_general_convex_solver(seed):
    """Small, well-scaled problems against cvxpy, which solves them without the scalar equation."""
    rng = np.random.default_rng(seed)
    loss = LOSSES[seed % len(LOSSES)]
    d = 5
    x, w, y = rng.standard_normal(d), rng.standard_normal(d), float(rng.integers(0, 4))
    y = (1.0 if y > 1 else -1.0) if isinstance(loss, fiol.Binary) else y
    l1, l2, eta, weight = rng.uniform(0, 1), rng.uniform(0, 1), rng.uniform(0.1, 3), rng.uniform(0.5, 2)
    box = (-0.5, 0.8) if seed % 3 == 0 else (-np.inf, np.inf)
    kind = ("Euclidean", "DiagonalMetric", "Mahalanobis", "Entropy", "Simplex")[seed % 5]
    a = rng.standard_normal((d, d))
    geometry = {
        "Euclidean": fiol.Euclidean(),
        "DiagonalMetric": fiol.DiagonalMetric(rng.uniform(0.2, 2, d)),
        "Mahalanobis": fiol.Mahalanobis(a @ a.T + np.eye(d)),
        "Entropy": fiol.Entropy(),
        "Simplex": fiol.Simplex(),
    }[kind]
    if kind in ("Mahalanobis", "Simplex"):
        box, l1, l2 = (-np.inf, np.inf), 0.0, l2 * (kind == "Mahalanobis")
    if kind in ("Entropy", "Simplex"):
        w = np.abs(w)
        w = w / w.sum() if kind == "Simplex" else w
    regularizer = fiol.ElasticNet(l1, l2) if l1 else fiol.Ridge(l2) if l2 else fiol.Unregularized()
    if np.isfinite(box[0]):
        regularizer = fiol.Box(regularizer, *box)
    step = fiol.solve_step(
        x,
        y,
        w,
        loss=loss,
        regularizer=regularizer,
        geometry=geometry,
        eta=eta,
        sample_weight=weight,
        compiled=False,
    )
    expected = minimize(x, y, w, loss, l1, l2, box, geometry, eta, weight)
    np.testing.assert_allclose(step.w, expected, atol=2e-5)


# --- Lemma 1 ----------------------------------------------------------------------------------


@settings(max_examples=40)
@given(cases([*QUADRATIC, *ENTROPIC]))
def test_lemma_1_holds_for_random_comparators(case):
    """f(w) + r(w) - f(u) - r(u) <= (B(u, w) - B(u, w+)) / eta + eta/(2c) |f' + r'|*^2 - delta, delta >= 0."""
    r, geometry, h = case.regularizer, case.geometry, case.weight
    signed = isinstance(geometry, fiol.SignedEntropy)
    x = np.concatenate([case.x, -case.x]) if signed else case.x
    index = np.tile(np.arange(len(case.x)), 2 if signed else 1)
    old = np.array([r.clip(v) for v in np.ravel(case.w)])
    case = case._replace(w=old.reshape(case.w.shape))
    new = np.ravel(case.solve().w)
    rng = np.random.default_rng(0)
    spread = rng.standard_normal((8, len(old))) * 10 ** rng.uniform(-2, 2, (8, 1))
    assume(abs(case.loss.grad(float(x @ old), case.y)) < 1e100)  # its square overflows, and says nothing
    others = [old, new, *(np.array([r.clip(v) for v in row]) for row in spread)]
    if isinstance(geometry, (fiol.Entropy, fiol.Simplex)):
        others = [np.array([r.clip(v) for v in np.abs(u)]) for u in others]
    if isinstance(geometry, fiol.Simplex):
        others = [u / u.sum() for u in others if u.sum() > 0]

    def objective(u):
        penalty = sum(r.value(v, i) for v, i in zip(u, index, strict=True))
        return h * case.loss.value(float(x @ u), case.y) + penalty

    slope = h * case.loss.grad(float(x @ old), case.y) * x
    slope = slope + np.array([r.slope(v, 0, i) for v, i in zip(old, index, strict=True)])
    delta = objective(new) - objective(old) - slope @ (new - old)
    size = abs(objective(new)) + abs(objective(old)) + np.abs(slope) @ (np.abs(new) + np.abs(old))
    assert delta >= -1e-9 * size - 1e-12
    convexity = geometry.strong_convexity(new, old)
    gain = case.eta / (2 * convexity) * geometry.dual_norm(slope) ** 2
    for u in others:
        left = objective(old) - objective(u)
        away, closer = geometry.distance(u, old) / case.eta, geometry.distance(u, new) / case.eta
        if not np.isfinite(away + closer):
            continue
        room = 1e-9 * (size + abs(objective(u)) + away + closer + gain + np.abs(slope) @ np.abs(u)) + 1e-12
        assert left <= away - closer + gain - delta + room


# --- what must not matter ---------------------------------------------------------------------


@settings(max_examples=40)
@given(cases([*QUADRATIC, *ENTROPIC]))
def test_sparse_rows_match_dense_rows(case):
    index = np.flatnonzero(case.x)
    dense, sparse = case.solve(), case.solve(x=(index, case.x[index]))
    np.testing.assert_allclose(sparse.w, dense.w, rtol=1e-9, atol=1e-9 * np.abs(dense.w).max(initial=1.0))


@settings(max_examples=40)
@given(cases(["Euclidean", "DiagonalMetric", "Entropy"]))
def test_zero_weight_step_only_shrinks(case):
    idle = case._replace(weight=0.0).solve()
    absent = case.solve(x=([], []))
    np.testing.assert_allclose(idle.w, absent.w, rtol=1e-12, atol=0)
    assert idle.beta == 0.0


@settings(max_examples=30)
@given(cases(["Euclidean"]))
def test_sample_weight_multiplies_the_loss(case):
    """weight * phi is itself a loss: Squared with weight h is Squared of sqrt(h) times everything."""
    case = case._replace(loss=fiol.Squared(), weight=4.0)
    scaled = case._replace(weight=1.0, x=2.0 * case.x, y=2.0 * case.y)
    np.testing.assert_allclose(case.solve().w, scaled.solve().w, rtol=1e-9, atol=1e-9)


def test_exact_step_never_overshoots():
    """For any step and sample weight the new score stays short of the target."""
    for eta in 10.0 ** np.arange(-6, 7):
        for weight in (1.0, 1000.0):
            step = fiol.solve_step([1.0, 50.0], 3.0, [0.0, 0.0], loss=fiol.Squared(), eta=eta, sample_weight=weight)
            assert 0.0 < step.z <= 3.0
