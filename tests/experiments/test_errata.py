"""Errata of the paper: for each, that what is printed fails, and that what the library does instead holds.

Counterexamples are in exact arithmetic wherever they are small enough. docs/explanations/paper.md has them
in this order.
"""

from __future__ import annotations

import re
from fnmatch import filter as matching
from fractions import Fraction
from math import exp, inf, isnan, log, sqrt
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq

import fiol

HALF = Fraction(1, 2)


def solve(x, y, w, loss, penalty=None, eta=1.0, **rest):
    return fiol.solve_step(x, y, w, loss=loss, regularizer=penalty, eta=eta, compiled=False, **rest)


# --- the theory -------------------------------------------------------------------------------


def test_divergence_is_weighted_by_one_over_eta():
    """Eq. 3 and Table 1 have 1/(2 eta); with B = |.|^2/2 that is not the SGD row, and Lemma 1 fails at u = w_t."""
    eta, slope = Fraction(1, 4), Fraction(3)  # f(w) = 3 w near w_t = 0
    for weight, holds in (HALF / eta, False), (1 / eta, True):
        new = -slope / weight  # minimizes f(w) + weight w^2 / 2
        delta = 0
        right = (0 - new**2 / 2) / eta + eta * slope**2 / 2 - delta  # Lemma 1 at u = w_t = 0, where its left side is 0
        assert (right >= 0) == holds
    assert solve([1.0], 9.0, [0.0], fiol.Absolute(), eta=0.25).w[0] == 0.25  # one slope times eta, as SGD's row has it


def test_lemma_1_holds_for_comparators_in_omega_only():
    """Printed for all of R^d. Omega = [0, inf), f(w) = w, w_t = w_{t+1} = 0: at u = -1 it says 1 <= eta / 2."""
    eta = 0.5
    new = solve([1.0], -9.0, [0.0], fiol.Absolute(), fiol.non_negative(fiol.Unregularized()), eta).w[0]
    assert new == 0.0

    def holds(u):
        left = 0.0 - u
        return left <= ((u - 0.0) ** 2 - (u - new) ** 2) / (2.0 * eta) + eta / 2.0

    assert not holds(-1.0)
    assert all(holds(u) for u in np.linspace(0.0, 10.0, 101))


def test_optimality_holds_for_some_subgradient_only():
    """The proof of Lemma 1 reads as if for each. f(w) = |w|, w_t = w_{t+1} = 0: <w, s> >= 0 for all w needs s = 0."""
    points = (-1, 1)
    assert [s for s in (-1, -HALF, 0, HALF, 1) if all(w * s >= 0 for w in points)] == [0]
    assert solve([1.0], 0.0, [0.0], fiol.Absolute()).beta == 0.0


def test_strong_convexity_of_the_divergence_has_no_eta():
    """The proof of Lemma 1 prints B(w_{t+1}, w_t) >= c/(2 eta) |w_{t+1} - w_t|^2: false for eta < 1 and B = |.|^2/2."""
    move, eta = Fraction(1), HALF
    assert not move**2 / 2 >= move**2 / (2 * eta)
    assert move**2 / 2 >= move**2 / 2


def test_sum_of_inverse_roots_is_bounded_by_the_integral_from_0():
    """The proof of Theorem 1 bounds the sum over t = 1..T of 1/(2 sqrt(t)) by the integral from 1, sqrt(T) - 1."""
    for T in (1, 2, 10, 1000):
        total = sum(0.5 / sqrt(t) for t in range(1, T + 1))
        assert not total <= sqrt(T) - 1.0
        assert total <= sqrt(T)


def test_proof_of_theorem_1_needs_the_divergence_not_the_squared_norm():
    """It puts |w_t - u|^2 for B(u, w_t), twice as much in the Euclidean case and unrelated to B in others."""
    w, u = np.array([0.1, 0.9]), np.array([0.6, 0.4])
    assert fiol.Euclidean().distance(u, w) == pytest.approx(np.sum((u - w) ** 2) / 2.0)
    assert fiol.Simplex().distance(u, w) > np.sum((u - w) ** 2)
    assert fiol.Entropy().distance(10.0 * u, 10.0 * w) < np.sum((10.0 * u - 10.0 * w) ** 2)


def test_theorem_1_with_a_fixed_step_needs_the_first_distance_only():
    """Printed for D^2 >= B(w*, w_t) in all rounds. Here B(w*, w_t) grows 4 times beyond B(w*, w_1), and it holds."""
    T, w1, targets = 12, 0.5, [3.0] * 6 + [-3.0] * 6  # every w in [-3, 3] has the same total loss; r makes w* = 0
    lam, D, G = 1e-3, 0.5 / sqrt(2.0), 1.0 + 1e-3
    eta, w, walk, delta = fiol.FixedHorizon(D, G, T).eta(1), w1, [w1], 0.0
    for y in targets:
        new = solve([1.0], y, [w], fiol.Absolute(), fiol.L1(lam), eta).w[0]
        slope = np.sign(w - y) + lam * np.sign(w)
        delta += abs(new - y) + lam * abs(new) - abs(w - y) - lam * abs(w) - slope * (new - w)
        w = new
        walk.append(w)
    walk = np.array(walk)
    regret = np.sum(np.abs(walk[:-1] - targets) + lam * np.abs(walk[:-1])) - 3.0 * T
    assert np.max(walk**2 / 2.0) > 4.0 * D**2
    assert regret <= G * D * sqrt(2.0 * T) - delta


def one_round_of_ridge(sigma=Fraction(1)):
    """f = 0, r = sigma w^2 / 2, w_1 = 1, eta_1 = 1/sigma: exactly Theorem 2's step, for one round."""
    new = 1 / (1 + sigma / sigma)
    regret = sigma / 2
    delta = sigma * new**2 / 2 - sigma / 2 - sigma * (new - 1)
    return new, regret, sigma, delta  # G = sigma


def test_theorem_2_needs_one_plus_log():
    """The sum of 1/t is at most 1 + log T, not log T: one round of ridge alone has regret 1/2 against 1/2 - 1/8."""
    new, regret, G, delta = one_round_of_ridge()
    assert solve([0.0], 0.0, [1.0], fiol.Squared(), fiol.Ridge(1.0), fiol.Inverse(1.0).eta(1)).w[0] == new
    printed, corrected = HALF + G**2 * 0 / 2 - delta, HALF + G**2 * (1 + 0) / 2 - delta
    assert printed < regret <= corrected
    for T in (1, 2, 10, 1000):
        total = sum(1.0 / t for t in range(1, T + 1))
        assert log(T) < total <= 1.0 + log(T)


def test_theorem_2_holds_for_the_best_comparator_only():
    """Its B(w, w_1) has a free w. With w = w_1 it would say 1/2 <= 0 + 1/2 - 1/8, even with 1 + log T."""
    _, regret, G, delta = one_round_of_ridge()
    free = 0 + G**2 / 2 - delta
    assert not regret <= free


def test_theorem_2_bounds_gradients_on_the_iterates():
    """Read for all w in R^d, its G cannot exist: the slope sigma w of a strongly convex function is unbounded."""
    slope = fiol.Ridge(0.5).slope
    assert all(slope(2.0 * G / 0.5, 0, 0) > G for G in (1.0, 1e3, 1e100))
    w = 1.0
    for t in range(1, 50):  # on the iterates it does
        assert slope(w, 0, 0) <= 0.5
        w = solve([1.0], 0.0, [w], fiol.Squared(), fiol.Ridge(0.5), fiol.Inverse(0.5).eta(t)).w[0]


def test_proposition_1_needs_its_sum():
    """Printed with one term of one t. Targets of alternating sign: the regret grows with T, no single term does."""
    T, eta, w, terms, regret = 100, 1.0, 0.0, [], 0.0
    for t in range(T):
        y = 1.0 if t % 2 == 0 else -1.0
        terms.append(eta * (w - y) ** 2 / (2.0 * (1.0 + eta)))
        regret += (w - y) ** 2 / 2.0 - 0.5  # w* = 0
        w = solve([1.0], y, [w], fiol.Squared(), eta=eta).w[0]
    assert max(terms) < 1.0 < regret <= sum(terms)


def test_proof_of_proposition_1_bounds_scores_not_weights():
    """It has gamma/2 |w_{t+1} - w_t|^2 equal to gamma/2 <x, w_{t+1} - w_t>^2; a penalty moves weights with x = 0."""
    x, w = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    new = solve(x, 1.0, w, fiol.Squared(), fiol.Ridge(1.0), 1.0).w
    own = ((x @ new - 1.0) ** 2 - (x @ w - 1.0) ** 2) / 2.0 - (x @ w - 1.0) * (x @ (new - w))
    assert own < np.sum((new - w) ** 2) / 2.0
    assert own == pytest.approx((x @ (new - w)) ** 2 / 2.0)


def test_bounded_slopes_are_an_assumption_on_the_data():
    """A regret of order T for any eta is claimed for bounded slopes; nearly parallel rows make them 1/epsilon."""
    for epsilon in (0.3, 0.1):
        w = np.zeros(2)
        for t in range(int(8.0 / epsilon**2)):
            sign = 1.0 if t % 2 == 0 else -1.0
            w = solve([1.0, sign * epsilon], sign, w, fiol.Squared(), eta=1e9).w
        assert abs(fiol.Squared().grad(w[1], 0.0)) > 0.9 / epsilon  # the slope of a row (0, 1) with target 0


# --- the computation --------------------------------------------------------------------------


def test_closed_form_for_squared_loss_and_ridge():
    """Printed: w_hat minus a multiple of x, which never shrinks what is orthogonal to x."""
    x, w, y, eta, lam = np.array([2.0, 0.0]), np.array([1.0, 3.0]), 1.0, 0.7, 0.4

    def gradient(v, weight):
        return x * (x @ v - y) + lam * v + weight * (v - w)

    a, square = eta + lam, x @ x
    printed = w - eta * (x @ w - a * y) / (a * (eta * square + a)) * x
    for weight in (1.0 / eta, 1.0 / (2.0 * eta), eta):  # whatever was meant by eta
        assert abs(gradient(printed, weight)[1]) > 0.1
    s = 1.0 / (1.0 + eta * lam)
    beta = (y - s * (x @ w)) / (1.0 + s * eta * square)
    corrected = s * (w + eta * beta * x)
    np.testing.assert_allclose(gradient(corrected, 1.0 / eta), 0.0, atol=1e-14)
    np.testing.assert_allclose(solve(x, y, w, fiol.Squared(), fiol.Ridge(lam), eta).w, corrected, rtol=1e-14)


def test_losses_as_printed_are_wrong():
    """(y - z^2)/2 is no loss; {1 - y z, 0} lacks its max."""
    y, z = 2.0, 2.0
    assert (y - z**2) / 2.0 < 0.0 == fiol.Squared().value(z, y) == (y - z) ** 2 / 2.0
    assert 1.0 - 1.0 * 3.0 < 0.0 == fiol.Hinge().value(3.0, 1.0) == max(1.0 - 3.0, 0.0)


def test_conjugate_of_the_penalty_lacks_a_constant():
    """l*(0) = -min l is 0 without a penalty, printed |w_hat|^2 / (2 eta). Harmless: the derivative is the same."""
    w, x, eta, lam = np.array([1.0, -2.0]), np.array([0.5, 1.0]), 0.5, 0.3
    path = np.linspace(-6.0, 6.0, 240001)

    def printed(beta, lam):
        return np.sum(np.maximum(np.abs(w + eta * beta * x) - lam * eta, 0.0) ** 2) / (2.0 * eta)

    def conjugate(beta, lam):  # by brute force, coordinate by coordinate
        penalty = lam * np.abs(path)
        return sum(np.max(beta * x[i] * path - penalty - (path - w[i]) ** 2 / (2.0 * eta)) for i in range(2))

    assert printed(0.0, 0.0) == np.sum(w**2) / (2.0 * eta) != 0.0
    for beta in (-1.0, 0.0, 2.0):
        for strength in (0.0, lam):
            constant = np.sum(w**2) / (2.0 * eta)
            assert printed(beta, strength) - constant == pytest.approx(conjugate(beta, strength), abs=1e-8)


def dual_slope_of_hinge(beta):
    """The derivative of beta -> phi*(-beta) for the hinge with y = 1: infinite outside its domain [0, 1]."""
    return -inf if beta < 0.0 else inf if beta > 1.0 else -1.0


def test_bisection_as_printed_may_not_terminate():
    """Alg. 1 runs while |varphi'(mid)| >= epsilon. Hinge, x = 1, eta = 1/2: that jumps from -1/2 to infinity at 1."""
    low, high, steps = -1.0, 3.0, 0
    middle = (low + high) / 2.0
    while steps < 2000 and abs(dual_slope_of_hinge(middle) + 0.5 * middle) >= 1e-3:
        middle = (low + high) / 2.0
        low, high = (low, middle) if dual_slope_of_hinge(middle) + 0.5 * middle > 0.0 else (middle, high)
        steps += 1
    assert steps == 2000
    assert middle == pytest.approx(1.0, abs=1e-15)  # it is there, and does not know
    assert solve([1.0], 1.0, [0.0], fiol.Hinge(), eta=0.5, solver=fiol.Bisection()).beta == pytest.approx(1.0)


def test_bisection_counts_halvings_of_beta_not_of_the_derivative():
    """log2((beta_2 - beta_1)/epsilon) halvings make the bracket small; varphi' is still that times its slope."""
    slope, root, epsilon = 1.0 + 1e9, 1.0 / 3.0, 1e-3  # squared loss, eta |x|^2 = 1e9
    low, high, steps = 0.0, 1.0, 0
    while abs(slope * ((low + high) / 2.0 - root)) >= epsilon:
        middle = (low + high) / 2.0
        low, high = (low, middle) if middle > root else (middle, high)
        steps += 1
    assert steps > log(1.0 / epsilon, 2) + 20
    assert steps <= log(slope / epsilon, 2) + 1


def test_root_on_a_piece_may_lie_outside_the_domain():
    """Lemma 3 and Proposition 2 take beta as the root of (phi*(-beta))' + C_1 beta + C_2, which may have none.

    Hinge, x = 1, w_hat = 0, eta = 1/2: -1 + beta/2 = 0 at 2, where phi* is infinite. 0 is in the subdifferential at 1.
    """
    assert -1.0 + 0.5 * 2.0 == 0.0
    assert dual_slope_of_hinge(2.0) == inf
    assert not any(dual_slope_of_hinge(beta) + 0.5 * beta == 0.0 for beta in np.linspace(0.0, 1.0, 1001))
    for solver in (fiol.Sorting(), fiol.Partition(), fiol.Newton(), fiol.Bisection()):
        step = solve([1.0], 1.0, [0.0], fiol.Hinge(), fiol.L1(0.0), 0.5, solver=solver)
        assert step.beta == pytest.approx(1.0, rel=1e-12)


def test_newtons_method_needs_a_safeguard():
    """Proposition 2, logistic loss: from 1/2 the first step for log(b/(1-b)) - 5 = 0 leaves the domain (0, 1)."""
    b = 0.5
    assert b - (log(b / (1.0 - b)) - 5.0) / (1.0 / (b * (1.0 - b))) > 1.0
    beta = fiol.Logistic().dual(-5.0, 0.0, 1.0)
    assert beta == pytest.approx(1.0 / (1.0 + exp(-5.0)), rel=1e-15)
    for q, p in ((-5.0, 0.0), (-400.0, 1.0), (300.0, 1e9), (-1e6, 1e-9)):
        assert 0.0 <= fiol.Logistic().dual(q, p, 1.0) <= 1.0


def breakpoints(x, w, eta, lam):
    """Lemma 2: mu and z, for features that are not 0."""
    sign = np.sign(x)
    u, v = -(w - sign * lam * eta) / (eta * x), -(w + sign * lam * eta) / (eta * x)
    return np.concatenate([u, v]), np.concatenate([x**2, -(x**2)]), v


def g_of(beta, x, w, eta, lam):
    u = w + eta * beta * x
    return float(x @ (np.sign(u) * np.maximum(np.abs(u) - lam * eta, 0.0)))


def test_lemma_2_omits_absent_features():
    """It divides by x_i. Without those with x_i = 0 it is right; without a penalty breakpoints coincide in pairs."""
    x, w, eta, lam = np.array([1.0, 0.0, -2.0]), np.array([0.5, 1.0, 0.3]), 0.7, 0.4
    with np.errstate(all="ignore"):
        mu, z, v = breakpoints(x, w, eta, lam)
        printed = eta * np.sum(z * np.maximum(0.2 - mu, 0.0)) + eta * np.sum(x**2 * (0.2 - v))
    assert isnan(printed)
    on = x != 0.0
    mu, z, v = breakpoints(x[on], w[on], eta, lam)
    for beta in np.linspace(-3.0, 3.0, 61):
        rewritten = eta * np.sum(z * np.maximum(beta - mu, 0.0)) + eta * np.sum(x[on] ** 2 * (beta - v))
        assert rewritten == pytest.approx(g_of(beta, x, w, eta, lam), abs=1e-12)
    mu, _, _ = breakpoints(x[on], w[on], eta, 0.0)
    np.testing.assert_array_equal(mu[:2], mu[2:])
    assert solve(x, 1.0, w, fiol.Squared(), fiol.L1(lam), eta, solver=fiol.Partition()).w[1] == 1.0 - lam * eta


class Passes:
    """Alg. 3 for the squared loss on the 2d breakpoints, its root after the loop; what it knows before every pass."""

    def __init__(self, x, y, w, eta, lam, pick):
        self.x, self.y, self.w, self.eta, self.lam = x, y, w, eta, lam
        self.mu, self.z, v = breakpoints(x, w, eta, lam)
        p, q = np.sum(x**2), np.sum(x**2 * v)
        U, left, right, self.before = list(range(len(self.mu))), -inf, inf, []
        while U:
            self.before.append((list(U), p, q, left, right))
            k = pick(self.mu, U)
            lower = [j for j in U if self.mu[j] <= self.mu[k]]
            dp, dq = sum(self.z[j] for j in lower), sum(self.z[j] * self.mu[j] for j in lower)
            if self.mu[k] - y + eta * (p + dp) * self.mu[k] - eta * (q + dq) < 0.0:
                p, q, U, left = p + dp, q + dq, [j for j in U if self.mu[j] > self.mu[k]], self.mu[k]
            else:
                U, right = [j for j in lower if j != k], self.mu[k]
        self.before.append((U, p, q, left, right))
        self.beta = (y + eta * q) / (1.0 + eta * p)

    def derivative(self, beta):
        return beta - self.y + g_of(beta, self.x, self.w, self.eta, self.lam)

    def h(self, beta, U, p, q, factor):
        hinges = sum(self.z[k] * max(beta - self.mu[k], 0.0) for k in U)
        return beta - self.y + factor * hinges + self.eta * p * beta - self.eta * q


def problem(seed, d=4):
    rng = np.random.default_rng(seed)
    return rng.standard_normal(d), 3.0 * rng.standard_normal(), rng.standard_normal(d), 0.4, 0.5


def at_random(seed):
    rng = np.random.default_rng(seed)
    return lambda mu, U: U[rng.integers(len(U))]


@pytest.mark.parametrize("seed", range(10))
def test_partition_on_the_2d_breakpoints_is_correct(seed):
    """As the library has it: the 2d breakpoints, the root after the loop; at most 2d passes, not 2d + 2."""
    parts = problem(seed)
    alg = Passes(*parts, at_random(seed))
    x, y, w, eta, lam = parts
    root = brentq(alg.derivative, -100.0, 100.0, xtol=1e-14)
    assert alg.beta == pytest.approx(root, abs=1e-9)
    assert solve(x, y, w, fiol.Squared(), fiol.L1(lam), eta, solver=fiol.Partition()).beta == pytest.approx(alg.beta)
    largest = Passes(*parts, lambda mu, U: max(U, key=lambda k: mu[k]))
    assert max(len(alg.before), len(largest.before)) - 1 <= 2 * len(x)


def test_partition_needs_no_breakpoint_at_infinity():
    """Alg. 3 starts from U = [2d + 1], mu = +inf, with no z for it; even with z = 0 its test is 0 * inf."""
    z, mu, p, q = 0.0, inf, 1.0, 1.0
    with np.errstate(all="ignore"):
        test = mu - 1.0 + 0.5 * (p + z) * mu - 0.5 * (q + np.float64(z) * mu)
    assert isnan(test)


def test_root_is_solved_after_the_loop():
    """Inside it is never set when there are no breakpoints, and solved for in every pass when there are."""
    empty = Passes(np.zeros(0), 1.0, np.zeros(0), 0.4, 0.5, at_random(0))
    assert len(empty.before) == 1  # no pass at all, and yet
    assert empty.beta == 1.0
    assert solve([0.0], 1.0, [0.0], fiol.Squared(), fiol.L1(0.5), 0.4, solver=fiol.Partition()).beta == 1.0


@pytest.mark.parametrize("seed", range(10))
def test_loop_invariant(seed):
    """Printed without eta before its sum, and on [min mu_U, max mu_U], which the root may leave and is void in the end.

    It holds, with eta, between the last pivots to the left and to the right of the root.
    """
    alg = Passes(*problem(seed), at_random(seed))
    gaps = []
    for U, p, q, left, right in alg.before:
        assert left <= alg.beta <= right
        for beta in np.linspace(max(left, -20.0), min(right, 20.0), 9):
            assert alg.h(beta, U, p, q, alg.eta) == pytest.approx(alg.derivative(beta), abs=1e-9)
        if U:
            top = max(alg.mu[k] for k in U)
            gaps.append(abs(alg.h(top, U, p, q, 1.0) - alg.derivative(top)))
    assert max(gaps) > 1e-3


def test_first_condition_of_the_loop_invariant_is_off_by_one():
    """i* is defined by mu_{i*-1} <= beta <= mu_{i*}, but the condition is right for mu_{i*} <= beta <= mu_{i*+1}."""
    mu, beta = [1.0, 2.0], 0.0  # sorted; U holds both

    def condition(i):  # mu_0 = -inf and mu_3 = +inf
        padded = [-inf, *mu, inf]
        return mu[0] <= beta <= mu[1] or padded[i + 1] == min(mu) or padded[i] == max(mu)

    defined = next(i for i in (1, 2, 3) if [-inf, *mu, inf][i - 1] <= beta <= [-inf, *mu, inf][i])
    assert not condition(defined)
    assert condition(defined - 1)


def test_derivative_is_monotone_and_the_function_is_not():
    """The proofs of Lemma 3 and of Alg. 3 say so of varphi, which falls to its minimum first."""
    alg = Passes(*problem(3), at_random(3))
    path = alg.beta + np.linspace(-2.0, 2.0, 401)
    slopes = np.array([alg.derivative(beta) for beta in path])
    heights = np.cumsum(slopes)
    assert np.all(np.diff(slopes) >= 0.0)
    assert np.any(np.diff(heights) < 0.0)


# --- the experiments --------------------------------------------------------------------------

PRINTED = {0.0: (0.4313, 0.3964, 0.1948, 0.3696, 0.3049), 0.5: (0.7863, 0.7680, 0.163, 0.4079, 0.313)}


def population_optimum(rho, d=1000, tau=0.2, lam=0.1):
    """min over w of (w - v)'(I + s 11')(w - v)/2 + tau^2/2 + lam |w|_1 with s = rho/(1 - rho); its weights and value.

    With c = s 1'(w - v) a number, w = soft(v - c, lam) coordinate by coordinate: one equation for c.
    """
    s, j = rho / (1.0 - rho), np.arange(1, d + 1)
    v = (-1.0) ** j * np.exp(-(j - 1) / 10.0)

    def weights(c):
        return np.sign(v - c) * np.maximum(np.abs(v - c) - lam, 0.0)

    c = brentq(lambda c: c - s * np.sum(weights(c) - v), -10.0, 10.0, xtol=1e-15) if s > 0.0 else 0.0
    w = weights(c)

    def value(w):
        return (np.sum((w - v) ** 2) + s * np.sum(w - v) ** 2 + tau**2) / 2.0 + lam * np.sum(np.abs(w))

    return w, value(w), value(np.zeros(d)), value


@pytest.mark.parametrize("rho", [0.0, 0.5])
def test_values_of_table_3_lie_below_the_optimum(rho):
    """Weights chosen before a row is seen cost the population optimum or more on average; no printed value does."""
    w, best, zero, value = population_optimum(rho)
    assert best == pytest.approx(0.878, abs=5e-4)
    assert zero == pytest.approx({0.0: 2.78, 0.5: 2.92}[rho], abs=5e-3)
    assert np.sum(w == 0.0) in (976, 977)
    rng = np.random.default_rng(0)
    assert all(value(w + size * rng.standard_normal(1000)) > best for size in (1e-4, 1e-3, 1e-2) for _ in range(20))
    assert max(PRINTED[rho]) < best


# --- the map of the paper ---------------------------------------------------------------------

TESTS = Path(__file__).parents[1]


def only(folder, file):
    (found,) = folder.rglob(file)
    return found


def test_docs_paper_names_existing_tests():
    text = (TESTS.parent / "docs" / "explanations" / "paper.md").read_text()
    named = re.findall(r"(test_\w+\.py)(?:::(\w+\*?))?", text)
    assert len(named) > 20
    for file, test in named:
        defined = re.findall(r"^def (test_\w+)", only(TESTS, file).read_text(), re.MULTILINE)
        assert matching(defined, test or "test_*"), (file, test)


def test_docs_paper_names_existing_code():
    text = (TESTS.parent / "docs" / "explanations" / "paper.md").read_text()
    source = TESTS.parent / "src" / "fiol"
    for file, names in re.findall(r"`([\w/]+\.py)`: ((?:`[\w.]+`(?:, )?)+)", text):
        code = (source / file).read_text()
        for name in re.findall(r"`(?:\w+\.)?(\w+)`", names):
            assert re.search(rf"(class|def) {name}\b", code), (file, name)
