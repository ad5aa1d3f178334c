"""Regret of ensembles against their members and their best combination: ledgers, audits and bounds."""

import numpy as np
import pytest
from partly_seen import learner_alone
from scipy.optimize import minimize

import fiol
from fiol import (
    FIOL,
    L1,
    AdaGrad,
    Bayes,
    Constant,
    Curvature,
    Ensemble,
    Learner,
    Logistic,
    NewtonStack,
    ScaleFree,
    Squared,
)
from fiol.regret import EnsembleLedger, Ledger, audit_stack

STEPS = [ScaleFree(Curvature()), ScaleFree(AdaGrad(30.0)), ScaleFree(AdaGrad(1.0)), ScaleFree(Constant(10.0))]


def ensemble(loss=None, stack=None):
    return Ensemble([FIOL(loss or Logistic(), step_size=step) for step in STEPS], stack or NewtonStack())


def stream(n=60, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * rng.integers(0, 2, (n, d))
    y = X @ rng.normal(size=d) + rng.logistic(size=n)
    return X, y, rng.uniform(0.2, 1.0, n)


def signs(y):
    return np.where(y > 0.0, 1.0, -1.0)


def alone(update, X, y, weight):
    """[row, member] scores of all members, each a learner of its own, before every row."""
    return np.column_stack([learner_alone(m, compiled=False).learn(X, y, weight) for m in update.members])


# --- ledgers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [Logistic(), Squared(), fiol.Hinge()], ids=repr)
def test_ledger_has_losses_of_ensemble_and_members(loss):
    X, y, weight = stream()
    y = y if isinstance(loss, Squared) else signs(y)
    update = ensemble(loss)
    plain, learner = (learner_alone(update, compiled=False) for _ in range(2))
    Z, scores = alone(update, X, y, weight), plain.learn(X, y, weight)
    with Ledger(learner, every=7) as ledger:
        assert isinstance(ledger, EnsembleLedger)
        found = [learner.learn(X[a:b], y[a:b], weight[a:b]) for a, b in ((0, 5), (5, 40), (40, 60))]
    assert (np.concatenate(found) == scores).all()
    pairs = zip(plain.core.arrays().values(), learner.core.arrays().values(), strict=True)
    assert all((a == b).all() for a, b in pairs)
    records = ledger.records
    assert records.t.tolist() == [7, 14, 21, 28, 35, 42, 49, 56, 60]
    values = np.array([[loss.value(float(z), t) for z in row] for row, t in zip(np.c_[scores, Z], y, strict=True)])
    sums = np.cumsum(weight[:, None] * values, axis=0)[records.t - 1]
    np.testing.assert_allclose(records.loss, sums[:, 0], rtol=1e-12)
    np.testing.assert_allclose(records.members, sums[:, 1:], rtol=1e-12)
    np.testing.assert_allclose(records.regret, sums[:, 0] - sums[:, 1:].min(axis=1), rtol=1e-9, atol=1e-9)
    if isinstance(loss, fiol.Hinge):
        assert ledger.bounds == {}
        return
    curvature = 0.25 if isinstance(loss, Logistic) else 1.0
    for k, t in enumerate(records.t):  # the bound, written out
        d, E = (
            (1.0, 1.0) if isinstance(loss, Logistic) else (records.unit[k], max(weight[:t] * (scores[:t] - y[:t]) ** 2))
        )
        G = (Z[:t] * (curvature * weight[:t])[:, None]).T @ Z[:t]
        u = np.eye(4)[records.members[k].argmin()]
        pool = np.log(3.0) - sum(np.log(1.0 - min(0.5, 1.0 / s)) for s in range(1, t))
        size = np.linalg.slogdet(np.eye(4) + 0.1 / d * G)[1]
        expected = d * ((u - 0.25) ** 2).sum() / 0.2 + E * (0.5 * size + pool)
        assert ledger.bounds["stack"][k] == pytest.approx(expected, rel=1e-9)
    assert (records.regret <= ledger.bounds["stack"]).all()


def test_ledger_changes_no_bit_of_compiled_lanes():
    """With a ledger, members and stack run in two loops; without one, in a single loop."""
    X, y, weight = stream(300)
    plain, measured = Learner(ensemble(), n_features=5), Learner(ensemble(), n_features=5)
    with Ledger(measured) as ledger:
        assert (measured.learn(X, signs(y), weight) == plain.learn(X, signs(y), weight)).all()
    assert measured.engine.all_in_lanes
    pairs = zip(plain.core.arrays().values(), measured.core.arrays().values(), strict=True)
    assert all((a == b).all() for a, b in pairs)
    assert ledger.records.loss[-1] == pytest.approx(plain.progressive_loss * weight.sum())


@pytest.mark.parametrize("switching", [0.0, 0.05])
def test_bayes_bound_holds_from_mid_stream(switching):
    X, y, weight = stream(120, seed=3)
    y = signs(y)
    learner = Learner(ensemble(stack=Bayes(switching)), compiled=False)
    with Ledger(learner, every=5) as whole:
        learner.learn(X[:50], y[:50], weight[:50])
    first = learner.mixing
    with Ledger(learner, every=5) as later:
        learner.learn(X[50:], -y[50:], weight[50:])
    for ledger, pi in ((whole, np.full(4, 0.25)), (later, first)):
        records, bound = ledger.records, ledger.bounds["bayes"]
        expected = -np.log(pi[records.members.argmin(axis=1)]) - (records.t - 1) * np.log(1.0 - switching)
        np.testing.assert_allclose(bound, expected, rtol=1e-9)
        assert (records.regret <= bound + 1e-9).all()
    assert later.records.t[-1] == 70
    with Ledger(Learner(ensemble(stack=Bayes()), compiled=False)) as heavy:
        heavy.learner.learn(X, y, 3.0 * weight)
    assert np.isnan(heavy.bounds["bayes"]).all()  # a row of weight 3 is more than the bound is for


def test_rolled_back_rounds_leave_the_ensemble_ledger_unchanged():
    gate = fiol.ImplicitFTRL(Logistic(), L1(0.001), ScaleFree(AdaGrad(1.0)))
    learner = Learner(Ensemble(ensemble().members, gate=gate), max_features=2, compiled=False)
    with Ledger(learner, every=1) as ledger:
        learner.learn([{"a": 1.0}, {"b": 1.0}], [1.0, -1.0])
        before = ledger.records
        with pytest.raises(ValueError, match="row 1 brings more features"):
            learner.learn([{"a": 2.0}, {"a": 1.0, "b": 1.0, "c": 1.0}], [1.0, -1.0])
        for one, other in zip(ledger.records, before, strict=True):
            np.testing.assert_array_equal(one, other)
        with learner.engine.freeze_stack():  # which the stack does not count either
            learner.learn([{"a": 1.0}], [1.0])
        assert ledger.records.t[-1] == 2
        learner.learn([{"a": 1.0}], [1.0])
    assert ledger.records.t.tolist() == [1, 2, 3]
    assert learner.ledger is None


def test_overflowed_member_has_no_loss():
    X, y, weight = stream(200)
    members = [FIOL(Squared(), step_size=STEPS[0]), fiol.SGD(Squared(), step_size=Constant(1e6))]
    learner = Learner(Ensemble(members), compiled=False)
    with Ledger(learner, every=200) as ledger, pytest.warns(RuntimeWarning, match="member 1 overflows"):
        learner.learn(X, y, weight)
    assert np.isnan(ledger.records.members[-1]).tolist() == [False, True]
    assert ledger.records.best[-1] == ledger.records.members[-1, 0]
    assert np.isfinite(ledger.records.regret).all()


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Ledger(Learner(ensemble()), [1.0]), TypeError, "compared with its members: leave comparator out"),
        (lambda: Ledger(Learner(ensemble()), every=0), ValueError, "every must be an integer of at least 1"),
        (lambda: Ledger(Learner(ensemble(fiol.Softmax()))), TypeError, "one score"),
        (lambda: audit_stack(FIOL(Logistic()), [[1.0]], [1.0]), TypeError, "ensemble must be a fiol.Ensemble"),
        (
            lambda: audit_stack(ensemble(stack=Bayes()), [[1.0]], [1.0]),
            TypeError,
            "ledger compares it with every member",
        ),
        (lambda: audit_stack(ensemble(), np.ones((0, 2)), []), ValueError, "at least one row"),
        (lambda: audit_stack(ensemble(), [[1.0]], [3.0]), ValueError, r"y\[0\]"),
    ],
)
def test_ensemble_ledger_errors_name_the_round(make, error, message):
    with pytest.raises(error, match=message):
        make()


# --- the best combination ---------------------------------------------------------------------


@pytest.mark.parametrize("loss", [Logistic(), Squared()], ids=repr)
def test_audit_compares_with_the_best_combination_of_members(loss):
    X, y, weight = stream(50)
    y = y if isinstance(loss, Squared) else signs(y)
    found = audit_stack(ensemble(loss), X, y, horizons=[20, 50], sample_weight=weight, compiled=False)
    Z = alone(ensemble(loss), X, y, weight)
    scores = learner_alone(ensemble(loss), compiled=False).learn(X, y, weight)

    def total(z, t):
        values = 0.5 * (z - y[:t]) ** 2 if isinstance(loss, Squared) else np.logaddexp(0.0, -y[:t] * z)
        return float(weight[:t] @ values)

    for k, t in enumerate(found.t):
        d = found.records.unit[k]
        best = minimize(lambda u: total(Z[:t] @ u, t) + d * u @ u / 0.2, np.zeros(4), tol=1e-12)  # noqa: B023
        np.testing.assert_allclose(found.comparators[k].w, best.x, atol=1e-4)
        assert found.regret[k] == pytest.approx(total(scores[:t], t) - total(Z[:t] @ best.x, t), abs=1e-5)


def streams(n):
    """Streams of several kinds, by name, with real targets."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5))
    yield "stationary", X, 2.0 * X[:, 0] + rng.logistic(size=n)
    yield "noise", X, rng.normal(size=n)
    yield "drift", X, np.where(np.arange(n) < n / 2, 2.0, -2.0) * X[:, 0] + 0.5 * rng.normal(size=n)
    yield "alternating", np.ones((n, 5)), np.where(np.arange(n) % 2, 1.0, -1.0)
    yield "separable", X, 5.0 * X[:, 0]
    yield "rare", X * (rng.random((n, 5)) < 0.02), X[:, 1] + rng.normal(size=n)
    yield "lengths", X * np.exp(2.0 * rng.normal(size=(n, 1))), X[:, 1] + rng.standard_t(2.0, size=n)


def test_stack_regret_grows_like_its_bound():
    """Regret grows like the bound, which is K log T: on all but one stream it stays below it, on that one near it."""
    for name, X, y in streams(2000):
        found = audit_stack(ensemble(), X, signs(y), horizons=[20, 200, 2000])
        # Rows whose lengths differ a thousandfold give members scores that no combination can rely on.
        assert (found.regret <= (1.5 if name == "lengths" else 1.0) * found.bound).all(), name
        growth = np.diff(found.bound)  # from 20 to 200 rounds, and from 200 to 2000
        assert growth[1] < 3.0 * growth[0] < 90.0, name
