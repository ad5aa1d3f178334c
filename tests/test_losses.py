"""Losses: the public checks, extreme arguments, and the prox against 50-digit arithmetic."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from material import LOSSES, magnitudes, name, signed, targets
from oracles.precise import derivatives, root

import fiol
from fiol.checks import CheckError, check_loss


@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_keeps_its_promises(loss):
    check_loss(loss)


class Line:
    """g(beta) = p beta + q."""

    def __init__(self, p, q):
        self.p, self.q = mp.mpf(p), mp.mpf(q)

    def score(self, beta):
        return self.p * beta + self.q


@settings(max_examples=1500)
@given(st.data())
def test_dual_is_exact_for_any_slope_and_score(data):
    loss = data.draw(st.sampled_from(LOSSES))
    y = data.draw(targets(loss))
    p = data.draw(st.one_of(st.just(0.0), magnitudes(-12, 12)))
    q = data.draw(st.one_of(st.just(0.0), signed(-3, 6)))
    beta = loss.dual(q, p, y)
    assert math.isfinite(beta)
    if p == 0.0:
        assert beta == pytest.approx(-loss.grad(q, y), rel=1e-14)
        return
    if isinstance(loss, fiol.Exponential) and -y * q > 700.0 + math.log(max(1.0, 1 / p)):
        return  # the answer is no double
    exact = root(Line(p, q), y, loss)
    # An error of q in its last place moves beta by this much, whoever computes it.
    shift = mp.mpf(4 * np.spacing(abs(q) + abs(y) + 1.0))
    room = abs(root(Line(p, q), y, loss, shift=shift) - root(Line(p, q), y, loss, shift=-shift))
    assert abs(beta - exact) <= 1e-9 * abs(exact) + room + mp.mpf(10) ** -300


@pytest.mark.parametrize("loss", LOSSES, ids=name)
@pytest.mark.parametrize("z", [-1e6, -1e3, 1e3, 1e6])
def test_everything_is_finite_at_scores_of_a_million(loss, z):
    for y in [t for t in (-1.0, 0.0, 1.0, 1e6) if loss.accepts(t)]:
        numbers = [loss.value(z, y), loss.grad(z, y), loss.predict(z), loss.lower(y)]
        numbers += [loss.hess(z, y)] if loss.has("hess") else []
        numbers += [loss.dual(z, p, y) for p in (0.0, 1e-12, 1.0, 1e12)]
        assert all(map(math.isfinite, numbers))


@settings(max_examples=300)
@given(st.data())
def test_conjugate_derivative_inverts_the_derivative(data):
    """phi'(z) = -beta exactly where d/dbeta phi*(-beta) = -z, and it never decreases."""
    loss = data.draw(st.sampled_from(LOSSES))
    y = data.draw(targets(loss))
    beta = data.draw(signed(-3, 1)) if not isinstance(loss, fiol.Logistic) else y * data.draw(st.floats(0.001, 0.999))
    z = -loss.conjugate_grad(beta, y)
    if math.isfinite(z):
        off = 1e-12 * (abs(z) + abs(y) + 1.0)  # a kink is where rounding puts it
        left, _ = derivatives(loss, mp.mpf(z - off), mp.mpf(y))
        _, right = derivatives(loss, mp.mpf(z + off), mp.mpf(y))
        slack = 1e-9 * (abs(beta) + abs(y) + 1.0)
        assert left - slack <= -beta <= right + slack
    higher = beta + abs(beta) * 0.5
    assert loss.conjugate_grad(higher, y) >= loss.conjugate_grad(beta, y)


def test_generic_prox_equals_the_closed_forms():
    """A loss with only `value` and `grad`, or with `hess` as well, gets the same beta from the default root."""

    class Plain(fiol.Loss):
        def value(self, z, y):
            return fiol.Logistic().value(z, y)

        def grad(self, z, y):
            return fiol.Logistic().grad(z, y)

    class Curved(Plain):
        def hess(self, z, y):
            return fiol.Logistic().hess(z, y)

    rng = np.random.default_rng(0)
    for _ in range(300):
        q, p, y = rng.uniform(-20, 20), 10 ** rng.uniform(-6, 6), rng.choice([-1.0, 1.0])
        expected = fiol.Logistic().dual(q, p, y)
        assert Plain().dual(q, p, y) == pytest.approx(expected, rel=1e-12)
        assert Curved().dual(q, p, y) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("loss", "z", "prediction"),
    [
        (fiol.Squared(), 2.5, 2.5),
        (fiol.Hinge(), -0.1, -1.0),
        (fiol.Logistic(), 0.0, 0.5),
        (fiol.Exponential(), 0.0, 0.5),
        (fiol.Poisson(), 1.0, math.e),
    ],
)
def test_predictions(loss, z, prediction):
    assert loss.predict(z) == pytest.approx(prediction)


def test_checks_catch_a_wrong_derivative_prox_and_curvature():
    class Steep(fiol.Squared):
        def grad(self, z, y):
            return 1.01 * (z - y)

    class Far(fiol.Squared):
        def dual(self, q, p, y):
            return (y - q) / (1.01 + p)

    class Bent(fiol.Squared):
        def hess(self, z, y):
            return 1.1

    class Concave(fiol.Loss):
        def value(self, z, y):
            return -z * z

        def grad(self, z, y):
            return -2 * z

    for loss, method in [(Steep(), "grad"), (Far(), "dual"), (Bent(), "hess"), (Concave(), "grad")]:
        with pytest.raises(CheckError, match=method):
            check_loss(loss)


def test_a_subclass_with_its_own_derivative_does_not_inherit_the_prox():
    class Double(fiol.Squared):
        def value(self, z, y):
            return (z - y) ** 2

        def grad(self, z, y):
            return 2.0 * (z - y)

    assert Double().dual(0.0, 1.0, 3.0) == pytest.approx(2.0)
