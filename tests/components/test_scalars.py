"""Scalar helpers against scipy and high precision."""

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import special

from fiol.components import scalars, simd


@settings(max_examples=75)
@given(st.floats(-800, 1e15))
def test_wright_omega_matches_scipy(x):
    assert scalars.wright_omega(x) == pytest.approx(float(special.wrightomega(x)), rel=4e-15 * (1 + abs(min(x, 0))))


@pytest.mark.parametrize("x", [1e20, 1e150, 1e300])
def test_wright_omega_of_huge_numbers(x):
    assert scalars.wright_omega(x) + np.log(x) == pytest.approx(x, rel=1e-15)


@given(st.floats(-1e6, 1e6))
def test_sigmoid_and_softplus_are_precise(z):
    assert scalars.sigmoid(z) == pytest.approx(float(special.expit(z)), rel=1e-14)
    assert scalars.softplus(z) == pytest.approx(float(np.logaddexp(0.0, z)), rel=1e-14)


@given(st.floats(-1e308, 1e308), st.floats(-1e308, 1e308))
def test_between_returns_an_inner_point(a, b):
    middle = scalars.between(a, b)
    assert min(a, b) <= middle <= max(a, b)


@given(st.floats(1e-300, 1e300), st.floats(0, 1), st.floats(0.9, 1.0))
def test_bisection_by_between_converges_quickly(high, low_share, root_share):
    low, root, steps = low_share * high * 1e-200, root_share * high * 1e-100, 0
    while True:
        middle = scalars.between(low, high)
        if middle in (low, high):
            break
        low, high = (middle, high) if middle <= root else (low, middle)
        steps += 1
    assert steps <= 80
    assert low <= root <= high


def exact_decay(rate, n):
    with mpmath.workdps(50):
        y = -n * mpmath.log1p(mpmath.mpf(rate))
        return float(mpmath.exp(y)), float(-mpmath.expm1(y))


@given(st.floats(0, 1e6), st.integers(0, 1000))
def test_decay_is_precise(rate, n):
    assert simd.decay(rate, 1.0, n) == pytest.approx(exact_decay(rate, n), rel=1e-12, abs=1e-300)


@given(st.floats(0, 2.0**-6), st.integers(0, 10**6))
def test_mild_decay_is_precise(rate, n):
    assume(simd.is_mild(rate, 1.0, n))
    assert simd.mild_decay(rate, 1.0, n) == pytest.approx(exact_decay(rate, n), rel=1e-15, abs=1e-300)


def test_lane_exponential_matches_numpy():
    x = np.concatenate([np.linspace(-700.0, 700.0, 2001), [-1e-9, 0.0, 1e-300, -800.0]])
    np.testing.assert_allclose(simd.exponential(x), np.exp(np.maximum(x, -700.0)), rtol=5e-16)
