"""Losses: the public checks, extreme arguments, and prox and flow against many-digit arithmetic."""

import math

import mpmath as mp
import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interpreted import check_uncompiled
from material import LOSSES, magnitudes, name, signed, targets
from oracles.precise import derivatives, position, root

import fiol
from fiol.checks import CheckError, check_loss
from fiol.compiler.compiled import jit
from fiol.components.losses import defaults_of_grad


@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_loss_passes_public_checks(loss, monkeypatch):
    if loss != fiol.Logistic():
        check_uncompiled(monkeypatch)
    check_loss(loss)


class Line:
    """g(beta) = p beta + q."""

    def __init__(self, p, q):
        self.p, self.q = mp.mpf(p), mp.mpf(q)

    def score(self, beta):
        return self.p * beta + self.q


@settings(max_examples=75)
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
    # An error of q in its last place moves beta by this much in any computation.
    shift = mp.mpf(4 * np.spacing(abs(q) + abs(y) + 1.0))
    room = abs(root(Line(p, q), y, loss, shift=shift) - root(Line(p, q), y, loss, shift=-shift))
    assert abs(beta - exact) <= 1e-9 * abs(exact) + room + mp.mpf(10) ** -300


@st.composite
def flows(draw):
    """A loss and where it flows from; some start next to the minimizer."""
    loss = draw(st.sampled_from(LOSSES))
    poisson = isinstance(loss, fiol.Poisson)
    y = draw(st.one_of(st.just(0.0), targets(loss)) if poisson else targets(loss))
    best = math.log(y) if poisson and y > 0.0 else y
    q = draw(st.one_of(st.just(0.0), signed(-3, 6), signed(-6, 0).map(lambda off: best + off)))
    return loss, q, y


@settings(max_examples=75)
@given(flows(), magnitudes(-2, 2))
def test_flow_oracle_satisfies_its_equation(start, p):
    loss, q, y = start
    q = math.fmod(q, 30.0)
    assert abs(position(loss, q, 0.0, y) - q) < mp.mpf(10) ** -30
    rate = mp.diff(lambda t: position(loss, q, t, y), p)
    left, right = derivatives(loss, position(loss, q, p, y), mp.mpf(y))
    slack = mp.mpf(10) ** -15 * (1 + abs(rate))
    assert left - slack <= -rate <= right + slack


@settings(max_examples=75)
@given(flows(), st.one_of(st.just(0.0), magnitudes(-12, 12)))
def test_flow_is_exact_for_any_slope_and_score(start, p):
    loss, q, y = start
    beta = loss.flow(q, p, y)
    assert math.isfinite(beta)
    if p == 0.0:
        assert beta == -loss.grad(q, y)
        return
    with mp.workdps(400):

        def exact(shift):
            return (position(loss, mp.mpf(q) + shift, p, y) - mp.mpf(q) - shift) / mp.mpf(p)

        # An error of q in its last place moves beta by this much in any computation.
        shift = mp.mpf(np.spacing(abs(q) + abs(y)))
        room = abs(exact(shift) - exact(-shift))
        assert abs(beta - exact(0)) <= 2e-14 * abs(exact(0)) + 2 * room + mp.mpf(10) ** -300


@settings(max_examples=75)
@given(flows(), magnitudes(-6, 6), magnitudes(-6, 6))
def test_flow_composes_and_never_crosses_the_minimizer(start, p1, p2):
    loss, q, y = start
    p = p1 + p2
    beta = loss.flow(q, p, y)
    once, half = q + p * beta, q + p1 * loss.flow(q, p1, y)
    twice = half + p2 * loss.flow(half, p2, y)
    off = 1e-14 * (abs(q) + abs(y) + abs(p * beta) + 1.0)  # convex flows shrink errors
    assert abs(once - twice) <= off
    explicit, implicit = -loss.grad(q, y), loss.dual(q, p, y)
    room = 1e-12 * abs(explicit) + 2.0 * off / p
    assert min(explicit, implicit) - room <= beta <= max(explicit, implicit) + room
    ahead = math.copysign(1.0, explicit)
    assert ahead * loss.grad(once - ahead * off, y) <= 0.0


@jit
def flow(loss, q, p, y):
    return loss.flow(q, p, y)


@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_flow_compiles(loss):
    for y in [t for t in (-1.0, 0.0, 1.0, 3.7) if loss.accepts(t)]:
        for q in (-1e6, -30.0, -1.0, 0.0, 0.3, 5.0, 800.0):
            for p in (0.0, 1e-12, 1e-3, 1.0, 50.0, 1e12):
                assert flow(loss, q, p, y) == pytest.approx(loss.flow(q, p, y), rel=1e-13, abs=1e-300)


@pytest.mark.parametrize("loss", LOSSES, ids=name)
@pytest.mark.parametrize("z", [-1e6, -1e3, 1e3, 1e6])
def test_losses_are_finite_at_scores_of_a_million(loss, z):
    for y in [t for t in (-1.0, 0.0, 1.0, 1e6) if loss.accepts(t)]:
        numbers = [loss.value(z, y), loss.grad(z, y), loss.predict(z), loss.lower(y)]
        numbers += [loss.hess(z, y)] if loss.has("hess") else []
        numbers += [step(z, p, y) for p in (0.0, 1e-12, 1.0, 1e12) for step in (loss.dual, loss.flow)]
        assert all(map(math.isfinite, numbers))


@settings(max_examples=75)
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


def test_generic_prox_matches_closed_forms():
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
def test_predictions_of_losses(loss, z, prediction):
    assert loss.predict(z) == pytest.approx(prediction)


def test_checks_catch_a_wrong_derivative_prox_curvature_and_flow():
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

    class Implicit(fiol.Squared):
        def flow(self, q, p, y):
            return self.dual(q, p, y)

    class Fast(fiol.Logistic):
        def flow(self, q, p, y):
            return 1.01 * fiol.components.losses.logistic_flow(y * q, p) * y

    class Overshooting(fiol.Absolute):
        def flow(self, q, p, y):
            return -self.grad(q, y)

    class Overflowing(fiol.Squared):
        def flow(self, q, p, y):
            return math.inf

    flawed = [(Steep(), "grad"), (Far(), "dual"), (Bent(), "hess"), (Concave(), "grad")]
    flawed += [(loss(), "flow") for loss in (Implicit, Fast, Overshooting, Overflowing)]
    for loss, method in flawed:
        with pytest.raises(CheckError, match=method):
            check_loss(loss)


def test_subclass_with_own_derivative_inherits_neither_prox_nor_flow():
    class Double(fiol.Squared):
        def value(self, z, y):
            return (z - y) ** 2

        def grad(self, z, y):
            return 2.0 * (z - y)

    assert Double().dual(0.0, 1.0, 3.0) == pytest.approx(2.0)
    assert not Double().has("flow")
    assert fiol.solve_step([1.0], 3.0, [0.0], loss=Double()).beta == pytest.approx(2.0)


def test_flow_is_optional():
    class Plain(fiol.Loss):
        def value(self, z, y):
            return abs(z - y)

        def grad(self, z, y):
            return np.sign(z - y)

    assert not Plain().has("flow")
    assert not fiol.Loss().has("flow")


class Steeper(fiol.Logistic):
    """A derivative of its own, and nothing else: log(1 + exp(-3 y z))."""

    def value(self, z, y):
        return fiol.Logistic().value(3.0 * z, y)

    def grad(self, z, y):
        return 3.0 * fiol.Logistic().grad(3.0 * z, y)


def test_subclass_with_own_derivative_drops_derived_methods():
    """The base's guess, hess, conjugate and name belong to another loss."""
    left = {name for name, default in defaults_of_grad().items() if getattr(Steeper, name, None) != default}
    assert left == set()
    steps = [
        fiol.solve_step([1.0, -2.0], 1.0, [0.3, 0.1], loss=Steeper(), eta=5.0, solver=solver, compiled=False)
        for solver in (None, fiol.Bisection())
    ]
    np.testing.assert_allclose(steps[0].w, steps[1].w, rtol=1e-12)
    assert steps[0].beta == pytest.approx(-Steeper().grad(steps[0].z, 1.0), rel=1e-12)
    curved = type("Curved", (Steeper,), {"hess": lambda self, z, y: 9.0 * fiol.Logistic().hess(3.0 * z, y)})
    assert curved.dual is fiol.Loss.newton_dual
    assert curved().dual(0.2, 3.0, 1.0) == pytest.approx(Steeper().dual(0.2, 3.0, 1.0), rel=1e-13)


def test_subclass_without_own_derivative_keeps_all_methods():
    class Louder(fiol.Hinge):
        targets = "-1 or +1, please"

    assert Louder.dual is fiol.Hinge.dual
    assert Louder().flat_interval(1.0) == (1.0, 1.0)
    assert Louder.alias == "hinge"


def test_link_requires_matching_predict():
    with pytest.raises(TypeError, match="Odds sets its link, but its predict is that of Binary: define predict"):
        type("Odds", (fiol.Binary,), {"link": "logit"})
    with pytest.raises(TypeError, match=r"Probit.link must be one of identity, sign, logit, log, got 'probit'"):
        type("Probit", (fiol.Binary,), {"link": "probit", "predict": lambda self, z: z})
    assert all(loss.states_link() for loss in LOSSES)
    silent = type("Silent", (fiol.Logistic,), {"predict": lambda self, z: z})
    assert not silent().states_link()
    assert type("Again", (silent,), {"link": "identity", "predict": lambda self, z: z})().states_link()


def test_checks_catch_a_wrong_link_and_a_wrong_flat_interval():
    wrong = type("Wrong", (fiol.Logistic,), {"link_factor": 2.0, "predict": lambda self, z: fiol.Logistic().predict(z)})
    assert wrong().states_link() is False  # it states a factor, but not of which link
    wrong = type("Wrong", (wrong,), {"link": "logit", "predict": lambda self, z: fiol.Logistic().predict(z)})
    with pytest.raises(CheckError, match=r"Wrong.*predict: at z = .* the link 'logit' gives"):
        check_loss(wrong())
    narrow = type("Narrow", (fiol.EpsilonInsensitive,), {"flat_interval": lambda self, y: (y, y)})
    with pytest.raises(CheckError, match=r"flat_interval: for y = .* straight lines have"):
        check_loss(narrow())
    bent = type("Bent", (fiol.Squared,), {"flat_interval": lambda self, y: (y, y)})
    with pytest.raises(CheckError, match="flat_interval"):
        check_loss(bent())


def test_checks_name_the_method_that_raises_and_its_arguments():
    class Logarithmic(fiol.Loss):
        def value(self, z, y):
            return math.log(z)

        def grad(self, z, y):
            return 1.0 / z

    class Catenary(fiol.Loss):
        def value(self, z, y):
            return math.log(math.cosh(z - y))

        def grad(self, z, y):
            return math.tanh(z - y)

    with pytest.raises(CheckError, match=r"Logarithmic\(\)\.value: at z=-1000\.0, y=-2\.0 it raises ValueError: "):
        check_loss(Logarithmic())
    with pytest.raises(CheckError, match=r"Catenary\(\)\.value: at z=-1000\.0, y=-2\.0 it raises OverflowError: "):
        check_loss(Catenary())


@pytest.mark.parametrize("loss", [fiol.Absolute(), fiol.Huber(1.0)], ids=name)
def test_conjugate_domain_ends_at_the_extreme_derivatives(loss):
    """Pulls between -1 and 1 have a score; larger pulls have none."""
    inside = [loss.conjugate_grad(beta, 3.0) for beta in (-1.0, -0.5, 0.0, 0.5, 1.0)]
    assert np.isfinite(inside).all()
    assert loss.conjugate_grad(-1.5, 3.0) == -math.inf
    assert loss.conjugate_grad(1.5, 3.0) == math.inf


# --- lanes ------------------------------------------------------------------------------------

IN_LANES = [loss for loss in LOSSES if loss.lanes]


@settings(max_examples=75)
@given(st.data())
def test_lane_steps_match_exact_steps(data):
    loss = data.draw(st.sampled_from(IN_LANES))
    y, weight = data.draw(targets(loss)), data.draw(st.sampled_from([0.0, 0.5, 1.0, 3.0]))
    p = np.array([data.draw(st.one_of(st.just(0.0), magnitudes(-12, 5))) for _ in range(4)])
    z = np.array([data.draw(st.one_of(st.just(0.0), signed(-3, 5))) for _ in range(4)])
    found = loss.lane_step(z, p, 0.0, 1.0, y, weight)
    assert loss.lane_exact(z, weight * p, y)
    for k in range(4):
        beta, curvature = loss.exact_step(z[k], p[k], 0.0, 1.0, y, weight)
        off = 8.0 * np.spacing(abs(z[k]) + weight * p[k] + 1.0)  # of the score
        steep = weight if isinstance(loss, fiol.Logistic) else weight / (1.0 + weight * p[k])
        assert np.broadcast_to(found[0], 4)[k] == pytest.approx(beta, rel=1e-14, abs=off * steep)
        assert np.broadcast_to(found[1], 4)[k] == pytest.approx(curvature, rel=1e-12, abs=off * steep + 1e-300)


def test_logistic_root_in_lanes_is_precise():
    rng = np.random.default_rng(0)
    p, m = 10.0 ** rng.uniform(-9.0, 5.9, 1200), rng.normal(size=1200) * 10.0 ** rng.uniform(-2.0, 4.0, 1200)
    m[::3] = -p[::3] * rng.random(400)  # around the middle
    m[1::3], p[1::3] = rng.uniform(-40.0, 40.0, 400), 10.0 ** rng.uniform(-3.0, 3.0, 400)
    p[::50] = 0.0
    c, curvature = fiol.components.logistic_roots.even_logistic_root(m, p)
    with mp.workdps(700):
        for k in range(len(m)):
            margin, slope = mp.mpf(m[k]), mp.mpf(p[k])
            u = margin + slope * mp.mpf(c[k])
            for _ in range(60):  # of the new margin, by Newton's method
                s = 1 / (1 + mp.exp(u))
                step = (u - margin - slope * s) / (1 + slope * s * (1 - s))
                u -= step
                if abs(step) < mp.mpf(10) ** -320:
                    break
            exact = 1 / (1 + mp.exp(u))
            assert abs(c[k] - exact) <= 1e-15 * exact + mp.mpf(10) ** -303
            curved = exact * (1 - exact)
            # Where c is near 1, an error of the margin in its last place is one of 1 - c.
            room = 1e-15 + 4 * np.spacing(abs(m[k]) + p[k]) / (1 + slope * curved)
            assert abs(curvature[k] - curved) <= room * curved + mp.mpf(10) ** -303


def test_scalar_root_matches_lane_root():
    rng = np.random.default_rng(1)
    p, q, y = 10.0 ** rng.uniform(-9.0, 5.9, 400), rng.normal(size=400) * 30.0, rng.choice([-1.0, 1.0], 400)
    c, _ = fiol.components.logistic_roots.even_logistic_root(y * q, p)
    loss = fiol.Logistic()
    assert [loss.dual(*three) for three in zip(q, p, y, strict=True)] == list(y * c)


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_compiled_scalar_roots_are_precise():
    @fiol.compiler.compiled.jit
    def duals(loss, q, p, y, out):
        for k in range(q.shape[0]):
            out[k] = loss.dual(q[k], p[k], y[k])

    rng = np.random.default_rng(2)
    p, q, y = 10.0 ** rng.uniform(-9.0, 12.0, 600), rng.normal(size=600) * 20.0, rng.choice([-1.0, 1.0], 600)
    q[::3] = -y[::3] * p[::3] * rng.random(200)  # around the middle
    loss, found = fiol.Logistic(), np.empty(600)
    duals(loss, q, p, y, found)
    for k in range(600):
        exact, one_ulp = root(Line(p[k], q[k]), y[k], loss), mp.mpf(np.spacing(abs(q[k]) + 1.0))
        room = abs(root(Line(p[k], q[k]), y[k], loss, shift=one_ulp) - exact)
        assert abs(found[k] - exact) <= 4e-15 * abs(exact) + 2 * room


@pytest.mark.parametrize("p", [0.0, 1e-3, 0.5, 7.5, 40.0, 1e3, 1e9, 1e100])
@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_logistic_initial_guess_is_close(p, y):
    loss = fiol.Logistic()
    for q in (*np.linspace(-60.0, 60.0, 121), -0.3 * p, -0.7 * p, 1e3, -1e3, 1e9, 0.0):
        c, guess = y * loss.dual(q, p, y), y * loss.guess(q, p, y)
        assert 0.0 <= guess <= 1.0
        assert abs(guess - c) <= 0.08
        # What is small is as small, on either side: the pieces of weights between them are few.
        assert 0.4 * min(c, 1.0 - c) - 1e-12 <= min(guess, 1.0 - guess) <= 2.0 * min(c, 1.0 - c) + 1e-12


@pytest.mark.parametrize("name", ["grad", "hess", "dual", "scale_statistic"])
def test_loss_with_own_method_has_no_lanes_by_default(name):
    own = getattr(fiol.Logistic, name)
    assert fiol.Logistic.lanes
    assert not type("Own", (fiol.Logistic,), {name: own}).lanes
    assert type("Said", (fiol.Logistic,), {name: own, "lanes": True}).lanes
    assert type("Named", (fiol.Logistic,), {"predict": fiol.Logistic.predict}).lanes
