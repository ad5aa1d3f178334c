"""Geometries: the public checks, and relations between them."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from interpreted import check_uncompiled
from material import name

import fiol
from fiol.checks import CheckError, check_geometry
from fiol.components.geometries import Pairs, Quadratic, Reparametrization, WholeRows, relative_entropy
from fiol.components.geometries.reparametrization import repeat_entries
from fiol.components.row import Row

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
def test_geometry_passes_public_checks(geometry, monkeypatch):
    if geometry not in (Hypentropy(0.5), fiol.DiagonalMetric(2.0)):
        check_uncompiled(monkeypatch)
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


def test_unit_metric_is_euclidean():
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
    strengths = fiol.L1([0.1, 0.1, 0.2, 0.2, 0.0, 0.0, 0.3, 0.3])  # x and -x of a feature are neighbors
    doubled = solve(fiol.Entropy(), pair.T.ravel(), x=np.stack([x, -x], axis=1).ravel(), regularizer=strengths)
    np.testing.assert_array_equal(signed.w.T.ravel(), doubled.w)
    assert signed.z == pytest.approx(float(x @ fiol.SignedEntropy.join(signed.w)))


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=5), st.floats(1e-6, 1e3))
def test_split_gives_positive_parts_that_join(w, scale):
    pair = fiol.SignedEntropy.split(np.array(w), scale)
    assert (pair > 0).all()
    np.testing.assert_allclose(fiol.SignedEntropy.join(pair), w, rtol=1e-9, atol=1e-9 * scale)


def test_zero_weight_stays_zero_under_entropy():
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
def test_reparametrized_weights_round_trip(geometry):
    """And a row has the same score: <x, w> is <working row, working weights>."""
    d = len(MATRIX)
    w, x = np.linspace(1.0, 2.0, d), np.linspace(-1.0, 3.0, d)
    w = w / w.sum() if geometry.sums_to_one else w
    geometry.check_domain(w)
    to = geometry.reparametrization()
    working = to.transform_weights(w)
    assert working.shape == (to.weights_per_feature * d,)
    np.testing.assert_allclose(to.restore_weights(working), w, rtol=1e-12)
    _, index, value = to.transform_rows((np.array([0, d]), np.arange(d, dtype=np.int32), x), d)
    assert value @ working[index] == pytest.approx(x @ w, rel=1e-12)
    assert to.whole_rows == isinstance(geometry, (fiol.Mahalanobis, fiol.Simplex))
    assert to.is_identity == isinstance(geometry, (Quadratic, Hypentropy)) or type(geometry) is fiol.Entropy
    assert (geometry.least_weight() == 0.0) == isinstance(geometry, (fiol.Entropy, fiol.Simplex))


def test_weights_outside_the_domain_raise():
    w = np.array([1.5, -0.5])
    for geometry in (fiol.Entropy(), fiol.Simplex()):
        with pytest.raises(ValueError, match=r"got w\[1\] = -0.5"):
            geometry.check_domain(w)
    fiol.SignedEntropy().check_domain(w)
    np.testing.assert_array_equal(Pairs().transform_weights(w), [1.5, 0.0, 0.0, 0.5])


def test_reparametrization_is_identity_except_for_rotated_and_paired_geometries():
    assert Reparametrization().is_identity
    assert WholeRows().whole_rows
    assert not WholeRows().is_identity
    assert not Pairs().whole_rows
    assert not Pairs().is_identity


@given(
    st.sampled_from([Hypentropy(0.5), fiol.Euclidean()]),
    st.sampled_from([fiol.L1(0.7), fiol.ElasticNet(0.4, 0.3), fiol.Box(fiol.L1(0.2), -0.5, 0.8)]),
    st.floats(-2.0, 2.0),
    st.floats(-2.0, 2.0),
    st.floats(-3.0, 3.0),
    st.floats(-3.0, 3.0),
)
def test_weight_from_excess_matches_weight(geometry, regularizer, w, x, beta, delta):
    """Near a pull and beyond the kink at 0: long steps keep their precision this way."""
    step = 0.8
    excess = geometry.excess_of(regularizer, w, x, beta, step, 0) + step * x * delta
    near = geometry.weight_near(regularizer, excess, w, x, beta, step, 0)
    assert near == pytest.approx(geometry.weight(regularizer, w, x, beta + delta, step, 0), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("regularizer", [fiol.Unregularized(), fiol.L1([0.1, 0.0, 0.2])], ids=name)
@pytest.mark.parametrize(
    "geometry",
    [fiol.Euclidean(), fiol.DiagonalMetric([1.0, 2.0, 0.5]), fiol.Entropy(), fiol.Simplex(), Hypentropy(0.5)],
    ids=name,
)
def test_path_scores_and_slopes_agree(geometry, regularizer):
    """With an intercept: all methods for a point of the path agree, and the slope is the derivative of the scores."""
    center, beta, tiny = np.array([0.5, 0.2, 0.3]), 0.3, 1e-6
    row = Row(np.arange(3), np.array([1.0, -2.0, 0.5]), center, 0.4, 1.0, 1.0, 2.0, lift=0.7, shift=-1.5)
    out = np.empty(3)
    z, p = geometry.path_point(regularizer, row, beta, out)
    assert z == pytest.approx(row.x @ out - 1.5 + 0.7 * beta, rel=1e-12)
    assert z == pytest.approx(geometry.path_score(regularizer, row, beta), rel=1e-12)
    again = np.empty(3)
    assert z == pytest.approx(geometry.path_fill(regularizer, row, beta, again), rel=1e-12)
    assert out.tolist() == again.tolist()
    assert out == pytest.approx(w_of(geometry, regularizer, row, beta), rel=1e-9)
    low, high = (geometry.path_score(regularizer, row, beta + d) for d in (-tiny, tiny))
    assert p == pytest.approx((high - low) / (2.0 * tiny), rel=1e-6)
    assert geometry.path_line(regularizer, row, beta) == pytest.approx((p, z - p * beta), rel=1e-9)
    steep, start = geometry.path_start(row)
    assert start == pytest.approx(row.x @ center - 1.5, rel=1e-12)
    none = fiol.Unregularized()
    low, high = (geometry.path_score(none, row, d) for d in (-tiny, tiny))
    assert steep == pytest.approx((high - low) / (2.0 * tiny), rel=1e-6)


def w_of(geometry, regularizer, row, beta):
    """The weights of the definition, by a step of two rounds' penalty under the same pull."""
    if isinstance(geometry, fiol.Simplex):
        logits = np.log(row.center) + row.steps * (beta * row.x - 2.0 * np.array([regularizer.l1(i) for i in range(3)]))
        return np.exp(logits) / np.exp(logits).sum()
    parts = zip(row.center, row.x, strict=True)
    return [geometry.weight(regularizer, w, x, beta / 2.0, 2.0 * row.steps, i) for i, (w, x) in enumerate(parts)]


@given(st.floats(1e-3, 1e9), st.floats(-1e-3, 1e-3))
def test_relative_entropy_is_precise_near_equality(w, part):
    """Near w it is about w part^2 / 2, of which u log(u / w) - u + w has no digit left."""
    u = w * (1.0 + part)
    with mp.workdps(60):
        exact = mp.mpf(u) * mp.log(mp.mpf(u) / mp.mpf(w)) - mp.mpf(u) + mp.mpf(w)
    assert relative_entropy(u, w) == pytest.approx(float(exact), rel=1e-9, abs=1e-20 * w)


@pytest.mark.parametrize("theta", [0.0, -1e-9, 0.3, -5.0, 30.0, 500.0])
def test_entropy_with_ridge_is_precise(theta):
    """log(w) + ridge w = theta to the rounding of its terms, which the logarithm of a small ridge is not."""
    for ridge in np.geomspace(1e-20, 1e20, 123):
        w = fiol.Entropy().resolve(theta, ridge, 0)
        miss = mp.log(w) + mp.mpf(ridge) * mp.mpf(w) - mp.mpf(theta)
        assert abs(miss) <= 4 * 2.0**-53 * (abs(theta) + ridge * w + abs(math.log(w)) + 1.0), ridge


def test_repeated_entries_include_those_of_inner_components():
    repeated = repeat_entries(fiol.Box(fiol.L1([0.1, 0.2]), 0.0, 1.0), 2)
    np.testing.assert_array_equal(repeated.regularizer.lam, [0.1, 0.1, 0.2, 0.2])
    assert (repeated.lo, repeated.hi) == (0.0, 1.0)
