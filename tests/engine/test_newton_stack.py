"""The Newton stack and its compiled rounds (`fiol.engine.ensemble.newton_stack`)."""

from math import log, log1p

import numpy as np
import pytest
from campaigns import rounds
from oracles.stacking import scores_by_definition
from scipy.optimize import minimize

import fiol
from fiol.compiler.compiled import interpreted
from fiol.components.combiners import NewtonStack
from fiol.components.scalars import safe_exp, sigmoid
from fiol.engine.ensemble.joint_newton_stack import joint_stack_rows
from fiol.engine.ensemble.newton_stack import stack_rows
from fiol.engine.ensemble.stack_state import T, combined_weights, new_stack_state


class LogCosh(fiol.Loss):
    """Somebody's own loss: value and derivative, and nothing else."""

    def value(self, z, y):
        return abs(z - y) + log1p(safe_exp(-2.0 * abs(z - y))) - log(2.0)

    def grad(self, z, y):
        return 2.0 * sigmoid(2.0 * (z - y)) - 1.0


LOSSES = [
    fiol.Logistic(),
    fiol.Hinge(),
    fiol.SquaredHinge(),
    fiol.Exponential(),
    fiol.Squared(),
    fiol.Absolute(),
    fiol.Quantile(0.8),
    fiol.EpsilonInsensitive(0.3),
    fiol.SquaredEpsilonInsensitive(0.3),
    fiol.Huber(0.7),
    fiol.Poisson(),
    LogCosh(),
]


def losses_of(state):
    """The losses of all members, and last that of the whole."""
    return np.roll(state.losses, -1)


def members(loss, rows=300, count=4, seed=0):
    """Return scores of members with different errors, and the targets."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=rows)
    Z = np.stack(
        [a * truth + b * rng.normal(size=rows) for a, b in ((1.0, 0.5), (3.0, 2.0), (0.2, 1.0), (-1.0, 1.0))], 1
    )
    if isinstance(loss, fiol.Binary):
        y = np.where(truth + 0.7 * rng.normal(size=rows) > 0.0, 1.0, -1.0)
    elif isinstance(loss, fiol.Poisson):
        y = rng.poisson(np.exp(truth)).astype(float)
    else:
        y = 2.0 * truth + rng.standard_t(3.0, size=rows)
    return np.ascontiguousarray(Z[:, :count]), y


def run(stack, loss, Z, y, weight=None, kernel=stack_rows, pieces=(), state=None):
    """Scores before every row, and the state after the last."""
    state = new_stack_state(stack, Z.shape[1]) if state is None else state
    weight, scores = np.ones(len(y)) if weight is None else weight, np.full(len(y), np.nan)
    for first, last in zip((0, *pieces), (*pieces, len(y)), strict=True):
        kernel(stack, loss, Z[first:last], y[first:last], weight[first:last], state, scores[first:last])
    return scores, state


plain = interpreted(stack_rows)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_stack_is_invariant_to_chunking(loss):
    Z, y = members(loss)
    stack = NewtonStack()
    scores, state = run(stack, loss, Z, y, kernel=plain)
    pieces = run(stack, loss, Z, y, kernel=plain, pieces=(1, 2, 33, 34, 200))
    assert np.array_equal(scores, pieces[0])
    assert all(map(np.array_equal, state, pieces[1]))


@pytest.mark.parametrize("loss", [fiol.Logistic(), fiol.Absolute()], ids=repr)  # smooth, and with a kink
def test_compiled_stack_matches_interpreter(loss):
    Z, y = members(loss)
    stack = NewtonStack()
    scores, state = run(stack, loss, Z, y)
    pieces = run(stack, loss, Z, y, pieces=(1, 2, 33, 34, 200))
    assert np.array_equal(scores, pieces[0])
    assert all(map(np.array_equal, state, pieces[1]))
    slow = run(stack, loss, Z, y, kernel=plain)
    np.testing.assert_allclose(scores, slow[0], rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(combined_weights(state), combined_weights(slow[1]), rtol=1e-9)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_stack_score_uses_the_mixing_before_the_row(loss):
    Z, y = members(loss, rows=100)
    stack, state = NewtonStack(), new_stack_state(NewtonStack(), 4)
    for r in range(100):
        v = combined_weights(state)
        score = run(stack, loss, Z[r : r + 1], y[r : r + 1], kernel=plain, state=state)[0][0]
        assert score == pytest.approx(v @ Z[r], rel=1e-14, abs=1e-14)


# --- the definition -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "loss",
    [
        fiol.Logistic(),
        fiol.Hinge(),
        fiol.SquaredHinge(),
        fiol.Exponential(),
        fiol.Squared(),
        fiol.Absolute(),
        fiol.Quantile(0.8),
        fiol.Poisson(),
        LogCosh(),
    ],
    ids=repr,
)
def test_stack_matches_definition_in_fifty_digits(loss):
    rows = 55
    Z, y = members(loss, rows=rows, count=3, seed=3)
    Z[20] *= 40.0  # beyond the limit of margins
    y[40] *= 1.0 if isinstance(loss, (fiol.Binary, fiol.Poisson)) else 200.0  # and an error beyond all others
    weight = np.random.default_rng(1).uniform(0.2, 3.0, rows)
    weight[7] = 0.0
    stack = NewtonStack(prior=0.3, forgets=[0.0, 0.02], burn=2.0, floor=0.01, limit=9.0, robust=4.0, doubt=0.7)
    scores, state = run(stack, loss, Z, y, weight, kernel=plain)
    fields = (0.3, [0.0, 0.02], 2.0, 0.01, 9.0, 4.0, 0.7)
    exact, v, share = scores_by_definition(type(loss).__name__, Z.tolist(), y.tolist(), weight.tolist(), *fields)
    exact = np.array(list(map(float, exact)))
    np.testing.assert_allclose(scores, exact, rtol=1e-9, atol=1e-9 * np.abs(exact).max())
    np.testing.assert_allclose(state.v, [[float(a) for a in row] for row in v], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(state.share, list(map(float, share)), rtol=1e-7)


#: Losses with units, and a target whose loss has no slope at the score 0.
UNITS = [(fiol.Squared(), 0.0), (fiol.Poisson(), 1.0), (fiol.SquaredEpsilonInsensitive(0.3), 0.2), (fiol.Huber(), 0.0)]


@pytest.mark.parametrize(("loss", "target"), UNITS, ids=repr)
def test_stack_learns_after_first_rows_without_error(loss, target):
    """The first errors set the unit of the loss; rows before them, which the first score fits exactly, do not."""
    Z, y = members(loss, rows=200)
    later = combined_weights(run(NewtonStack(), loss, Z, y, kernel=plain)[1])
    Z, y = np.append(np.zeros((3, 4)), Z, axis=0), np.append(np.full(3, target), y)
    found = combined_weights(run(NewtonStack(), loss, Z, y, kernel=plain)[1])
    assert np.abs(later - 0.25).max() > 0.1
    np.testing.assert_allclose(found, later, atol=0.05)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_stack_step_is_the_minimizer(loss):
    """With no doubt about labels, no rare rows and a known unit, v minimizes loss / unit + distance."""
    Z, y = members(loss, rows=40)
    stack = NewtonStack(doubt=0.0, limit=1e9, robust=1e9)
    _, state = run(stack, loss, Z[:-1], y[:-1], kernel=plain)
    v, A = state.v.copy(), state.A.copy()
    after = run(stack, loss, Z[-1:], y[-1:], kernel=plain, state=state)[1]
    unit = loss.value_unit if loss.value_unit > 0.0 else after.ticks[3] / after.ticks[4]
    for j in range(3):

        def objective(w, j=j):
            return loss.value(float(w @ Z[-1]), y[-1]) / unit + 0.5 * (w - v[j]) @ A[j] @ (w - v[j])

        found = minimize(
            objective, v[j], method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-14, "maxfev": 6000}
        )
        assert objective(after.v[j]) <= found.fun + 1e-12 * (1.0 + abs(found.fun))
        assert objective(after.v[j]) <= objective(v[j])


# --- what must not matter -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "scaled"),
    [
        (fiol.Squared(), fiol.Squared()),
        (fiol.Absolute(), fiol.Absolute()),
        (fiol.Quantile(0.8), fiol.Quantile(0.8)),
        (fiol.EpsilonInsensitive(0.25), fiol.EpsilonInsensitive(256.0)),
        (fiol.SquaredEpsilonInsensitive(0.25), fiol.SquaredEpsilonInsensitive(256.0)),
        (fiol.Huber(0.5), fiol.Huber(512.0)),
    ],
    ids=repr,
)
def test_stack_is_invariant_to_target_units(loss, scaled):
    Z, y = members(loss)
    scores, _ = run(NewtonStack(), loss, Z, y, kernel=plain)
    others, _ = run(NewtonStack(), scaled, 1024.0 * Z, 1024.0 * y, kernel=plain)
    np.testing.assert_allclose(1024.0 * scores, others, rtol=1e-12)
    if not isinstance(loss, fiol.SquaredEpsilonInsensitive):  # whose power of a number is not exact in Python
        assert np.array_equal(1024.0 * scores, others)


def test_sample_weight_scales_the_stack_loss():
    class Twice(fiol.Logistic):
        def value(self, z, y):
            return 2.0 * fiol.Logistic.value(self, z, y)

        def grad(self, z, y):
            return 2.0 * fiol.Logistic.grad(self, z, y)

        def hess(self, z, y):
            return 2.0 * fiol.Logistic.hess(self, z, y)

    Z, y = members(fiol.Logistic(), rows=100)
    stack = NewtonStack(doubt=0.0, floor=0.0)
    heavy, state = run(stack, fiol.Logistic(), Z, y, np.full(100, 2.0), kernel=plain)
    twice, other = run(stack, Twice(), Z, y, kernel=plain)
    np.testing.assert_allclose(heavy, twice, rtol=1e-9)
    np.testing.assert_allclose(losses_of(state), losses_of(other), rtol=1e-12)
    light, _ = run(stack, fiol.Logistic(), Z, y, kernel=plain)
    assert not np.allclose(heavy, light, rtol=1e-3)


def test_zero_weight_rows_do_not_change_the_stack():
    Z, y = members(fiol.Squared(), rows=50)
    _, state = run(NewtonStack(), fiol.Squared(), Z, y, kernel=plain)
    v, A, losses = state.v.copy(), state.A.copy(), state.losses.copy()
    run(NewtonStack(), fiol.Squared(), 100.0 * Z[:1], 100.0 * y[:1], np.zeros(1), kernel=plain, state=state)
    assert np.array_equal(state.v, v)
    assert np.array_equal(state.A, A)
    assert np.array_equal(state.losses, losses)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_stack_reports_progressive_losses_of_members_and_ensemble(loss):
    Z, y = members(loss, rows=60)
    weight = np.linspace(0.0, 2.0, 60)
    scores, state = run(NewtonStack(), loss, Z, y, weight, kernel=plain)
    columns = [*Z.T, scores]
    expected = [sum(w * loss.value(float(a), b) for w, a, b in zip(weight, c, y, strict=True)) for c in columns]
    np.testing.assert_allclose(losses_of(state), expected, rtol=1e-12)
    assert state.ticks[T] == 60.0


# --- members that are alike, empty, or gone -----------------------------------------------------


def well(state, stack):
    """Check that the information is symmetric and at least the prior, and that P is its inverse."""
    for A, P in zip(state.A, state.P, strict=True):
        np.testing.assert_allclose(A, A.T, rtol=1e-9, atol=1e-9)
        assert np.linalg.eigvalsh(A)[0] >= (1.0 - 1e-3) / stack.prior
        assert np.linalg.eigvalsh(0.5 * (P + P.T))[-1] <= stack.prior * (1.0 + 1e-3)
        assert np.linalg.eigvalsh(0.5 * (P + P.T))[0] > 0.0
    return np.isfinite(state.v).all() and np.isfinite(state.losses).all()


@pytest.mark.parametrize("loss", [fiol.Logistic(), fiol.Squared(), fiol.Absolute()], ids=repr)
@pytest.mark.parametrize("kind", ["alike", "collinear", "noiseless"])
def test_stack_of_collinear_members_stays_stable(loss, kind):
    rows = 200_000
    Z, y = members(loss, rows=rows)
    if kind == "alike":
        Z = np.repeat(Z[:, :1], 4, axis=1)
    elif kind == "collinear":
        Z = np.stack([Z[:, 0], 1000.0 * Z[:, 0], Z[:, 1], Z[:, 0] - 3.0 * Z[:, 1], 0.0 * y], 1)
    else:
        y = 10.0 * y if isinstance(loss, fiol.Binary) else y
        Z = np.stack([y, 2.0 * y, -y, Z[:, 0]], 1)
        y = np.sign(y) if isinstance(loss, fiol.Binary) else y
    stack = NewtonStack()
    scores, state = run(stack, loss, np.ascontiguousarray(Z), y)
    assert well(state, stack)
    half = rows // 2
    losses = [
        np.mean([loss.value(float(a), b) for a, b in zip(c[half::50], y[half::50], strict=True)])
        for c in (scores, *Z.T)
    ]
    assert losses[0] <= min(losses[1:]) * 1.02 + (1e-3 if isinstance(loss, fiol.Binary) else 1e-6)  # the price of doubt
    if kind == "alike":
        assert np.ptp(state.v, axis=1).max() < 1e-6


def test_stack_of_zero_scores_stays_finite():
    stack = NewtonStack()
    for loss in LOSSES:
        y = np.ones(100)
        scores, state = run(stack, loss, np.zeros((100, 3)), y, kernel=plain)
        assert (scores == 0.0).all()
        assert (state.v == 1.0 / 3.0).all()
        assert well(state, stack)
    scores, state = run(stack, fiol.Squared(), np.zeros((100, 3)), np.zeros(100), kernel=plain)  # nor any error
    assert (scores == 0.0).all()
    assert well(state, stack)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e200])
@pytest.mark.parametrize("loss", [fiol.Logistic(), fiol.Squared(), fiol.Hinge()], ids=repr)
def test_stack_removes_only_the_overflowed_member(loss, bad):
    Z, y = members(loss)
    stack = NewtonStack()
    _, state = run(stack, loss, Z[:200], y[:200], kernel=plain)
    others = [0, 2, 3]
    v, A, share = state.v[:, others].copy(), state.A[:, others][:, :, others].copy(), state.share.copy()
    Z[200:, 1] = bad
    seen = [a.copy() for a in state]
    scores, state = run(stack, loss, Z[200:], y[200:], kernel=plain, state=state)
    assert state.live.tolist() == [1.0, 0.0, 1.0, 1.0]
    assert scores[0] == pytest.approx(share @ v @ Z[200, others], rel=1e-13)
    assert np.isfinite(scores).all()
    assert (state.v[:, 1] == 0.0).all()
    assert losses_of(state)[1] == seen[5][2]
    assert well(state, stack)
    # From here on it is the stack of the others, with what they knew.
    rest = new_stack_state(stack, 3)
    rest = rest._replace(v=v, A=A, P=np.linalg.inv(A), share=share, losses=seen[5][[0, 1, 3, 4]], ticks=seen[6])
    alone, rest = run(stack, loss, np.ascontiguousarray(Z[200:, others]), y[200:], kernel=plain, state=rest)
    np.testing.assert_allclose(scores, alone, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(losses_of(state)[[*others, 4]], losses_of(rest), rtol=1e-10)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_stack_accepts_scores_of_any_size(loss):
    rng = np.random.default_rng(5)
    Z, y = members(loss, rows=400)
    Z *= (
        10.0 ** rng.uniform(-150.0, 100.0, Z.shape)
        if not isinstance(loss, fiol.Poisson)
        else 10.0 ** rng.uniform(-9, 3)
    )
    stack = NewtonStack()
    with np.errstate(all="ignore"):
        scores, state = run(stack, loss, Z, y, kernel=plain)
    assert np.isfinite(scores).all()
    assert np.isfinite(state.v).all()
    assert np.isfinite(state.share).all()
    assert state.share.sum() == pytest.approx(1.0)
    assert np.isfinite(state.P).all()


def test_stack_beats_its_members_and_follows_drift():
    rng = np.random.default_rng(2)
    truth = rng.normal(size=6000)
    y = np.where(truth + 0.3 * rng.normal(size=6000) > 0.0, 1.0, -1.0)
    a, b = truth + rng.normal(size=6000), truth + rng.normal(size=6000)
    a[3000:], b[3000:] = -a[3000:], 3.0 * b[3000:]
    _, state = run(NewtonStack(), fiol.Logistic(), np.stack([a, b], 1), y)
    assert losses_of(state)[2] < 0.8 * losses_of(state)[:2].min()
    assert state.share[2] > 0.5  # the one that forgets fastest
    still = run(NewtonStack(forgets=[0.0]), fiol.Logistic(), np.stack([a, b], 1), y)[1]
    assert losses_of(state)[2] < 0.9 * losses_of(still)[2]


# --- a score per class --------------------------------------------------------------------------


def classes_of(rows=150, count=4, members=3, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(rows, count))
    y = np.argmax(truth + 0.5 * rng.normal(size=truth.shape), axis=1)
    noise = rng.normal(size=(rows, count, members))
    return np.ascontiguousarray(truth[:, :, None] * [1.0, 3.0, -0.5] + noise * [0.5, 2.0, 1.0]), y


#: One of the losses, whose kernels a stack sees through numbers alone, is enough to compile.
FAST = {fiol.Softmax(): joint_stack_rows, fiol.CrammerSinger(): interpreted(joint_stack_rows)}


def joint_run(stack, loss, Z, y, weight=None, state=None, kernel=None, pieces=()):
    state = new_stack_state(stack, Z.shape[2]) if state is None else state
    weight, scores = np.ones(len(y)) if weight is None else weight, np.full(Z.shape[:2], np.nan)
    kernel = interpreted(joint_stack_rows) if kernel is None else kernel
    for first, last in zip((0, *pieces), (*pieces, len(y)), strict=True):
        kernel(stack, loss, Z[first:last], y[first:last], weight[first:last], state, scores[first:last])
    return scores, state


@pytest.mark.parametrize("loss", [fiol.Softmax(), fiol.CrammerSinger()], ids=repr)
def test_joint_stack_steps_are_minimizers(loss):
    """Against scipy; for Crammer-Singer as a smooth problem with a bound for every class."""
    stack = NewtonStack(doubt=0.0, limit=1e9, forgets=[0.0, 0.01])
    Z, y = classes_of(40)
    state, weight = new_stack_state(stack, 3), np.linspace(0.3, 3.0, 40)
    for r in range(40):
        v, A = state.v.copy(), state.A.copy()
        _, state = joint_run(stack, loss, Z[r : r + 1], y[r : r + 1], weight[r : r + 1], state)
        for j in range(2 if r % 5 == 0 else 0):

            def distance(w, j=j, v=v, A=A):
                return 0.5 * (w - v[j]) @ A[j] @ (w - v[j])

            def objective(w, j=j, r=r, distance=distance):
                return weight[r] * loss.value(Z[r] @ w, y[r]) + distance(w)

            if loss.kinked:
                costs = 1.0 - np.eye(4)[y[r]]
                bounds = {"type": "ineq", "fun": lambda w, r=r, c=costs: w[3] + (Z[r, y[r]] - Z[r]) @ w[:3] - c}
                whole = lambda w, r=r, d=distance: weight[r] * w[3] + d(w[:3])  # noqa: E731
                start = np.append(v[j], loss.value(Z[r] @ v[j], y[r]) + 0.1)
                options = {"ftol": 1e-14, "maxiter": 500}
                found = minimize(whole, start, constraints=[bounds], method="SLSQP", options=options).x[:3]
            else:
                found = minimize(objective, v[j], method="BFGS", options={"gtol": 1e-9}).x
            assert objective(state.v[j]) <= objective(found) + 1e-10
            np.testing.assert_allclose(state.v[j], found, atol=2e-5)
    assert (np.abs(state.v - 1.0 / 3.0) > 0.01).any()


@pytest.mark.parametrize("loss", [fiol.Softmax(), fiol.CrammerSinger()], ids=repr)
def test_joint_stack_beats_its_members_for_any_chunking(loss):
    Z, y = classes_of(400)
    scores, state = joint_run(NewtonStack(), loss, Z, y, kernel=FAST[loss])
    pieces = joint_run(NewtonStack(), loss, Z, y, kernel=FAST[loss], pieces=(1, 2, 77, 300))
    assert np.array_equal(scores, pieces[0])
    assert all(map(np.array_equal, state, pieces[1]))
    slow = joint_run(NewtonStack(), loss, Z[:120], y[:120])
    np.testing.assert_allclose(scores[:120], slow[0], rtol=1e-6, atol=1e-8)
    assert losses_of(state)[3] < losses_of(state)[:3].min()
    v = combined_weights(state)
    last = joint_run(NewtonStack(), loss, Z[:1], y[:1], state=state, kernel=FAST[loss])[0]
    np.testing.assert_allclose(last[0], Z[0] @ v, rtol=1e-12)


@pytest.mark.parametrize("loss", [fiol.Softmax(), fiol.CrammerSinger()], ids=repr)
def test_joint_stack_with_equal_or_overflowed_members(loss):
    Z, y = classes_of(300)
    Z = np.ascontiguousarray(np.concatenate([Z[:, :, :1], Z], axis=2))
    Z[150:, 2, 2] = np.inf
    stack = NewtonStack()
    scores, state = joint_run(stack, loss, Z, y, kernel=FAST[loss])
    assert np.isfinite(scores).all()
    assert state.live.tolist() == [1.0, 1.0, 0.0, 1.0]
    assert well(state, stack)
    np.testing.assert_allclose(state.v[:, 0], state.v[:, 1], rtol=1e-9)


@pytest.mark.parametrize("doubt", [-5.0, -1e-9, float("inf"), float("nan")])
def test_negative_or_infinite_doubt_raises(doubt):
    with pytest.raises(ValueError, match=r"^NewtonStack\.doubt must be "):
        NewtonStack(doubt=doubt)


@pytest.mark.parametrize("doubt", [0.0, 100.0, 1e100])
def test_stack_weights_stay_finite_for_any_doubt(doubt):
    Z, y = members(fiol.Logistic(), rows=35)
    scores, state = run(NewtonStack(doubt=doubt), fiol.Logistic(), Z, y, kernel=plain)
    assert np.isfinite(scores).all()
    assert np.isfinite(state.v).all()


# --- for long -----------------------------------------------------------------------------------


def test_stack_keeps_its_invariants_with_adversarial_members():
    """A short version of tests/campaigns/rounds.py: the state is consistent, and the stack still learns."""
    worst, made, ratio = rounds.campaign(20_000, 5, fiol.Logistic(), plain=True, block=2_000)
    assert made == 20_000
    assert rounds.fine(worst, ratio), (worst, ratio)


def test_extreme_scores_do_not_move_stack_weights_under_label_doubt():
    """Rows with scores of 1e40 determine the sign only, not the weights for rows of usual size."""
    rng = np.random.default_rng(0)
    Z, y = members(fiol.Logistic(), rows=35)
    fields = (0.1, [0.0, 3e-4, 3e-3], 3.0, 1e-3, 20.0, 5.0, 0.5)
    for largest in (12.0, 40.0):
        rows = Z.copy()
        rows[::7] *= 10.0 ** rng.uniform(5.0, largest, (len(rows[::7]), 1))
        scores, state = run(NewtonStack(), fiol.Logistic(), rows, y, kernel=plain)
        assert abs(state.v).max() < 10.0
        if largest < 20.0:  # what the fifty digits of the definition are enough for
            exact = scores_by_definition("Logistic", rows.tolist(), y.tolist(), [1.0] * 35, *fields)[0]
            np.testing.assert_allclose(scores, list(map(float, exact)), rtol=1e-6, atol=1e-6)
    Z, codes = classes_of()
    Z[::7] *= 1e30
    joint = joint_run(NewtonStack(), fiol.Softmax(), Z, codes)[1]
    assert abs(joint.v).max() < 10.0
