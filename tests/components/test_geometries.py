"""Geometries: the public checks, and relations between them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from material import name

import fiol
from fiol.checks import CheckError, check_geometry

MATRIX = [[2.0, 1.0, 0.0, 0.0], [1.0, 2.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 3.0]]


class Hypentropy(fiol.Separable):
    """Between Euclid and entropy: psi'' = 1 / sqrt(w^2 + scale^2)."""

    scale: float = 1.0

    def mirror(self, w, i):
        return math.asinh(w / self.scale)

    def inverse(self, theta, i):
        return self.scale * math.sinh(theta)

    def inverse_hess(self, w, i):
        return math.sqrt(w * w + self.scale * self.scale)

    def divergence(self, u, w, i):
        distance = u * (self.mirror(u, i) - self.mirror(w, i)) - self.inverse_hess(u, i) + self.inverse_hess(w, i)
        return max(distance, 0.0) if u == w else distance


GEOMETRIES = [
    fiol.Euclidean(),
    fiol.DiagonalMetric([1.0, 2.0, 0.5, 3.0]),
    fiol.DiagonalMetric(2.0),
    fiol.Mahalanobis(MATRIX),
    fiol.Entropy(),
    fiol.SignedEntropy(),
    fiol.Simplex(),
    Hypentropy(0.5),
]


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=name)
def test_keeps_its_promises(geometry):
    check_geometry(geometry)


def solve(geometry, w, x=(1.0, -2.0, 0.5, 3.0), regularizer=None, eta=0.3):
    return fiol.solve_step(
        x, 1.5, w, loss=fiol.Huber(2.0), regularizer=regularizer, geometry=geometry, eta=eta, compiled=False
    )


@pytest.mark.parametrize("regularizer", [fiol.Unregularized(), fiol.Ridge(0.7)], ids=name)
def test_mahalanobis_with_a_diagonal_matrix_is_the_diagonal_metric(regularizer):
    h, w = [1.0, 2.0, 0.5, 3.0], [0.1, -0.2, 0.3, 0.0]
    full = solve(fiol.Mahalanobis(np.diag(h)), w, regularizer=regularizer)
    np.testing.assert_allclose(full.w, solve(fiol.DiagonalMetric(h), w, regularizer=regularizer).w, rtol=1e-12)


def test_a_unit_metric_is_euclid():
    w = [0.1, -0.2, 0.3, 0.0]
    plain = solve(fiol.Euclidean(), w, regularizer=fiol.L1(0.1)).w
    np.testing.assert_array_equal(solve(fiol.DiagonalMetric(1.0), w, regularizer=fiol.L1(0.1)).w, plain)


def test_hypentropy_lies_between_euclid_and_entropy():
    """psi'' is 1 / scale when the scale is wide, and 1 / w when it is narrow."""
    w, penalty = [0.1, 0.2, 0.3, 0.4], fiol.ElasticNet(0.1, 0.2)
    wide = solve(Hypentropy(1e6), w, regularizer=penalty, eta=0.3e-6)
    np.testing.assert_allclose(wide.w, solve(fiol.Euclidean(), w, regularizer=penalty).w, rtol=1e-6, atol=1e-9)
    narrow = solve(Hypentropy(1e-9), w, regularizer=penalty)
    np.testing.assert_allclose(narrow.w, solve(fiol.Entropy(), w, regularizer=penalty).w, rtol=1e-9)


def test_simplex_stays_on_the_simplex_and_ignores_a_uniform_penalty():
    w = [0.1, 0.2, 0.3, 0.4]
    plain = solve(fiol.Simplex(), w)
    assert plain.w.sum() == pytest.approx(1.0, abs=1e-15)
    np.testing.assert_allclose(solve(fiol.Simplex(), w, regularizer=fiol.L1(5.0)).w, plain.w, rtol=1e-12)
    uneven = solve(fiol.Simplex(), w, regularizer=fiol.L1([5.0, 0.0, 0.0, 0.0])).w
    assert uneven[0] < plain.w[0]


def test_signed_entropy_is_entropy_on_doubled_features():
    pair = np.array([[0.5, 0.1, 1.0, 0.2], [0.1, 0.7, 1.0, 0.3]])
    x = np.array([1.0, -2.0, 0.5, 3.0])
    signed = solve(fiol.SignedEntropy(), pair, regularizer=fiol.L1([0.1, 0.2, 0.0, 0.3]))
    doubled = solve(
        fiol.Entropy(), pair.ravel(), x=np.r_[x, -x], regularizer=fiol.L1([0.1, 0.2, 0.0, 0.3, 0.1, 0.2, 0.0, 0.3])
    )
    np.testing.assert_array_equal(signed.w.ravel(), doubled.w)
    assert signed.z == pytest.approx(float(x @ fiol.SignedEntropy.join(signed.w)))


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=5), st.floats(1e-6, 1e3))
def test_split_gives_positive_parts_that_join(w, scale):
    pair = fiol.SignedEntropy.split(np.array(w), scale)
    assert (pair > 0).all()
    np.testing.assert_allclose(fiol.SignedEntropy.join(pair), w, rtol=1e-9, atol=1e-9 * scale)


def test_a_weight_at_zero_stays_there_under_entropy():
    step = solve(fiol.Entropy(), [0.0, 0.2, 0.3, 0.4])
    assert step.w[0] == 0.0


def test_checks_catch_a_wrong_mirror_map():
    class Crooked(Hypentropy):
        def inverse_hess(self, w, i):
            return 1.1 * math.sqrt(w * w + self.scale * self.scale)

    class Lost(Hypentropy):
        def inverse(self, theta, i):
            return self.scale * math.sinh(theta) + 0.1

    for geometry, method in [(Crooked(), "inverse_hess"), (Lost(), "inverse")]:
        with pytest.raises(CheckError, match=method):
            check_geometry(geometry)


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=name)
def test_weights_that_enter_leave_as_they_were(geometry):
    """And a row has the same score there: <x, w> is <x entered, w entered>."""
    d = len(MATRIX)
    w, x = np.linspace(1.0, 2.0, d), np.linspace(-1.0, 3.0, d)
    w = w / w.sum() if geometry.sums_to_one else w
    entered = geometry.enter_weights(w)
    assert entered.shape == (geometry.entered(d),)
    np.testing.assert_allclose(geometry.leave_weights(entered), w, rtol=1e-12)
    _, index, value = geometry.enter_rows((np.array([0, d]), np.arange(d, dtype=np.int32), x), d)
    assert value @ entered[index] == pytest.approx(x @ w, rel=1e-12)
    assert geometry.mixes_features() == isinstance(geometry, (fiol.Mahalanobis, fiol.Simplex))
    assert (geometry.least_weight() == 0.0) == isinstance(geometry, (fiol.Entropy, fiol.Simplex))


def test_weights_outside_the_domain_do_not_enter():
    for geometry in (fiol.Entropy(), fiol.Simplex()):
        with pytest.raises(ValueError, match=r"got w\[1\] = -0.5"):
            geometry.enter_weights(np.array([1.5, -0.5]))
    np.testing.assert_array_equal(fiol.SignedEntropy().enter_weights(np.array([1.5, -0.5])), [1.5, 0.0, 0.0, 0.5])


def test_a_geometry_of_whole_rows_mixes_features_unless_its_weights_are_pairs():
    whole = type("Whole", (fiol.Euclidean,), {"whole_rows": True})
    assert whole().mixes_features()
    assert not type("Pairs", (whole,), {"paired": True})().mixes_features()
