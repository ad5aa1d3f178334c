"""Solvers: the public checks, the choice of a default, and the selection algorithm inside `Partition`."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interpreted import check_uncompiled
from material import SOLVERS, name

import fiol
from fiol.checks import CheckError, check_solver
from fiol.components.row import Row
from fiol.components.solvers import breakpoints, select
from fiol.components.subproblem import make_problem


@pytest.mark.parametrize("solver", SOLVERS, ids=name)
def test_solver_passes_public_checks(solver, monkeypatch):
    if solver != fiol.ClosedForm():
        check_uncompiled(monkeypatch)
    check_solver(solver)


@settings(max_examples=75)
@given(st.lists(st.floats(-1e9, 1e9) | st.sampled_from([0.0, 1.0]), min_size=1, max_size=300), st.data())
def test_select_finds_the_kth_smallest(values, data):
    k = data.draw(st.integers(0, len(values) - 1))
    array = np.array(values)
    assert select(array, k) == sorted(values)[k]
    np.testing.assert_array_equal(array, values)


@given(st.integers(1, 500), st.integers(0, 1000))
def test_median_of_medians_leaves_three_tenths_on_either_side(n, seed):
    values = np.random.default_rng(seed).standard_normal(n)
    rank = np.sum(values < fiol.MedianOfMedians().pick(values, 0))
    assert 0.3 * n - 5 <= rank <= 0.7 * n + 5


def test_random_pivots_spread_over_all_places():
    values = np.arange(10.0)
    drawn = {fiol.RandomPivot().pick(values, n) for n in range(200)}
    assert drawn == set(values)
    assert [fiol.RandomPivot(1).pick(values, n) for n in range(9)] != [
        fiol.RandomPivot(2).pick(values, n) for n in range(9)
    ]


@pytest.mark.parametrize(
    ("regularizer", "geometry", "expected"),
    [
        (fiol.Unregularized(), fiol.Euclidean(), fiol.ClosedForm()),
        (fiol.Ridge(0.1), fiol.DiagonalMetric(2.0), fiol.ClosedForm()),
        (fiol.Ridge(0.1), fiol.Mahalanobis([[1.0]]), fiol.ClosedForm()),
        (fiol.L1(0.1), fiol.Euclidean(), fiol.Newton()),
        (fiol.Box(fiol.Ridge(0.1), 0.0), fiol.Euclidean(), fiol.Newton()),
        (fiol.Unregularized(), fiol.Entropy(), fiol.Newton()),
        (fiol.Unregularized(), fiol.Simplex(), fiol.Newton()),
    ],
    ids=name,
)
def test_default_solver_is_the_fastest_valid_one(regularizer, geometry, expected):
    assert make_problem(fiol.Squared(), regularizer, geometry).solver == expected


def test_newton_needs_few_passes_on_the_papers_problem():
    rng = np.random.default_rng(0)
    d, w = 1000, np.zeros(1000)
    truth = np.array([(-1) ** j * np.exp(-2 * (j - 1) / 20) for j in range(1, d + 1)])
    passes = []
    for _ in range(30):
        x = rng.standard_normal(d)
        y = float(x @ truth + 0.2 * rng.standard_normal())
        step = fiol.solve_step(x, y, w, loss=fiol.Squared(), regularizer=fiol.L1(0.1), eta=1e-3)
        w = step.w
        passes.append(step.iterations)
    assert np.mean(passes) <= 5.0


def test_breakpoints_are_those_of_lemma_2():
    """mu = -(w -/+ sign(x) lam eta) / (eta x), without the coordinates at x = 0."""
    x, w, eta, lam = np.array([1.0, -2.0, 0.0, 0.5]), np.array([0.3, 0.1, 0.2, -0.4]), 0.5, 0.2
    problem = make_problem(fiol.Squared(), fiol.L1(lam), fiol.Euclidean(), fiol.Sorting())
    mu = breakpoints(problem, Row(np.arange(4, dtype=np.int32), x, w, eta, 1.0, 1.0))
    on = x != 0
    u = -(w[on] - np.sign(x[on]) * lam * eta) / (eta * x[on])
    v = -(w[on] + np.sign(x[on]) * lam * eta) / (eta * x[on])
    np.testing.assert_allclose(np.sort(mu), np.sort(np.r_[u, v]))


def test_newton_evaluates_the_loss_once_if_no_weight_changes_its_piece(monkeypatch):
    """Rounding of the score must not cause another iteration, for any small pull."""
    rng, calls, dual = np.random.default_rng(1), [], fiol.Logistic.dual

    def counted(self, q, p, y):
        calls.append(p)
        return dual(self, q, p, y)

    monkeypatch.setattr(fiol.Logistic, "dual", counted)
    problem = make_problem(fiol.Logistic(), fiol.L1(1e-5), fiol.Euclidean(), fiol.Newton())
    exact = make_problem(fiol.Logistic(), fiol.L1(1e-5), fiol.Euclidean(), fiol.Bisection())
    for _ in range(200):
        w, y = rng.choice([-1.0, 1.0], 14) + rng.uniform(-0.4, 0.4, 14), rng.choice([-1.0, 1.0])
        row = Row(np.arange(14, dtype=np.int32), rng.uniform(0.5, 1.0, 14), w, 0.02, y, 1.0)
        before, out = len(calls), np.empty(14)
        beta, z, passes = problem.step(row, out)
        assert (len(calls) - before, passes) == (1, 3)
        expected = exact.step(row, np.empty(14))[0]
        assert beta == pytest.approx(expected, rel=1e-14 * (1.0 + np.abs(row.x * w).sum()))
        assert z == pytest.approx(row.x @ out, rel=1e-14)


def test_newton_rejects_the_slope_of_a_distant_point():
    """On a path as steep as exp, a line from far off makes any score look right."""
    x, w, steps = np.array([2.0, 0.1, -1.0]), np.array([1.7, 0.3, 15.0]), np.array([5.0, 107.0, 11.0])
    problem = make_problem(fiol.Logistic(), fiol.L1(0.4), fiol.Entropy(), fiol.Newton())
    row, out = Row(np.arange(3, dtype=np.int32), x, w, steps, 1.0, 1.0), np.empty(3)
    beta, z, _ = problem.step(row, out)
    assert z == pytest.approx(x @ out, rel=1e-12)
    assert beta == pytest.approx(-fiol.Logistic().grad(z, 1.0), rel=1e-9)


def test_checks_catch_a_solver_that_stops_early():
    with pytest.raises(CheckError, match="solve"):
        check_solver(fiol.Bisection(1e-3))
    with pytest.raises(CheckError, match="solve"):
        check_solver(fiol.Newton(passes=2))


@pytest.mark.parametrize("passes", [0, -3])
def test_newton_needs_at_least_one_pass(passes):
    with pytest.raises(ValueError, match=r"Newton\.passes"):
        fiol.Newton(passes)
