"""The ledger matches brute force for any chunking, and audits stay within their bounds."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import regret as oracle

import fiol
from fiol import (
    COMID,
    FIOL,
    IOL,
    ISGD,
    L1,
    RDA,
    SGD,
    AdaGrad,
    Anytime,
    Box,
    Constant,
    DiagonalMetric,
    ElasticNet,
    Entropy,
    FTRLProximal,
    Hinge,
    ImplicitFTRL,
    Inverse,
    Learner,
    Logistic,
    Mahalanobis,
    Polynomial,
    Ridge,
    SignedEntropy,
    Simplex,
    Squared,
)
from fiol.algorithms.update import TUNING_FREE
from fiol.regret import Ledger, Records, audit, best_in_hindsight
from fiol.regret.measuring import Measurement, MeasuringBySums, MeasuringEveryWeight

D, T = 9, 60
MATRIX = np.diag(np.linspace(0.5, 2.0, D)) + 0.1


def stream(seed=0, d=D, rows=T, density=0.4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, d)) * (rng.random((rows, d)) < density)
    y = np.where(X @ rng.normal(size=d) + 0.5 * rng.normal(size=rows) > 0.0, 1.0, -1.0)
    return X, y, rng.uniform(0.2, 3.0, size=rows), rng.normal(size=d) * (rng.random(d) < 0.6)


def traced(update, X, y, h, intercept):
    """The weights before every round and after the last, one row at a time and without a ledger."""
    learner = Learner(update, n_features=X.shape[1], intercept=intercept, compiled=False)
    engine = learner.engine

    def now():
        to = update.geometry.reparametrization()
        w = engine.weights(to.weights_per_feature * X.shape[1], False)
        if isinstance(update.geometry, SignedEntropy):
            w = np.concatenate([w[::2], w[1::2]])
        elif isinstance(update.geometry, Mahalanobis):
            w = to.restore_weights(w)
        return np.append(w, engine.intercept_weight(False)) if intercept else w

    ws = [now()]
    for t in range(len(X)):
        learner.learn(X[t : t + 1], y[t : t + 1], h[t : t + 1])
        ws.append(now())
    return np.array(ws), learner


def measured(learner, X, y, h, best, cuts=(0, 7, 8, 30, T)):
    """The rounds as they were measured, and the closed ledger."""
    rounds = []
    with Ledger(learner, comparator=best, every=7) as ledger:
        add = ledger.add
        ledger.add = lambda found: (rounds.append(found.copy()), add(found))
        for start, stop in pairwise(cuts):
            learner.learn(X[start:stop], y[start:stop], None if h is None else h[start:stop])
    return Measurement(*np.concatenate(rounds).T)._asdict(), ledger


#: Updates whose rounds are measured by sums, and those for which every weight is looked at.
BY_SUMS = {
    "l1": FIOL(Logistic(), L1(0.05), Constant(0.5)),
    "l1, falling steps": FIOL(Squared(), L1(0.05), Polynomial(1.0)),
    "l1, AdaGrad": FIOL(Hinge(), L1(0.05), AdaGrad(0.3)),
    "l1, many zeros": FIOL(Squared(), L1(0.8), Constant(1.0)),
    "ridge": FIOL(Logistic(), Ridge(0.3), Polynomial(2.0)),
    "strong ridge": FIOL(Squared(), Ridge(1e3), Constant(10.0)),
    "elastic net": FIOL(Squared(), ElasticNet(0.02, 0.5), Constant(0.5)),
    "elastic net, long steps": FIOL(Squared(), ElasticNet(0.002, 30.0), Constant(1e3)),
    "no penalty": FIOL(Hinge(), step_size=Constant(1.0)),
    "ignored": IOL(Hinge(), Constant(1.0)).replace(regularizer=ElasticNet(0.1, 0.2)),
    "COMID": COMID(Hinge(), L1(0.02)),
    "inverse": FIOL(Hinge(), ElasticNet(0.01, 0.1), Inverse(0.1)),
}
ONE_BY_ONE = {
    "box": FIOL(Squared(), Box(L1(0.05), -0.2, 0.3), Constant(0.5)),
    "per feature": FIOL(Squared(), L1(np.linspace(0.0, 0.2, D)), Constant(0.5)),
    "linearized": SGD(Logistic(), L1(0.05), Constant(0.1)),
    "half": ISGD(Logistic(), Ridge(0.05), Constant(0.1)),
    "RDA": RDA(Logistic(), L1(0.05)),
    "FTRL": FTRLProximal(Logistic(), L1(0.05)),
    "implicit FTRL": ImplicitFTRL(Squared(), ElasticNet(0.05, 0.1), Polynomial(0.5)),
    "elastic net, AdaGrad": FIOL(Logistic(), ElasticNet(0.02, 0.1), AdaGrad()),
    "diagonal": FIOL(Squared(), L1(0.05), Constant(0.5), DiagonalMetric(np.linspace(0.5, 3.0, D))),
    "Mahalanobis": FIOL(Squared(), Ridge(0.05), Constant(0.5), Mahalanobis(MATRIX)),
    "entropy": FIOL(Squared(), L1(0.05), Constant(0.2), Entropy()),
    "signed entropy": FIOL(Logistic(), L1(0.05), Constant(0.2), SignedEntropy()),
    "simplex": FIOL(Squared(), step_size=Constant(0.2), geometry=Simplex()),
}


def comparator_for(update, u):
    if isinstance(update.geometry, Simplex):
        return np.abs(u) / np.abs(u).sum()
    if isinstance(update.geometry, Entropy) and not isinstance(update.geometry, SignedEntropy):
        return np.abs(u)
    return np.clip(u, -0.2, 0.3) if isinstance(update.regularizer, Box) else u


def close(found, expected, atol=1e-10):
    scale = np.maximum(1.0, np.abs(expected).max(initial=0.0))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=atol * scale)


@pytest.mark.parametrize("intercept", [False, True], ids=["", "intercept"])
@pytest.mark.parametrize("name", [*BY_SUMS, *ONE_BY_ONE])
def test_ledger_measurements_match_brute_force(name, intercept):
    update = {**BY_SUMS, **ONE_BY_ONE}[name]
    X, y, h, u = stream()
    u = comparator_for(update, u)
    ws, plain = traced(update, X, y, h, intercept)
    learner = Learner(update, n_features=D, intercept=intercept, compiled=False)
    m, ledger = measured(learner, X, y, h, u)
    assert type(ledger.measuring) is (MeasuringBySums if name in BY_SUMS else MeasuringEveryWeight)
    np.testing.assert_array_equal(learner.weights, plain.weights)  # it learns as before
    etas = [update.step_size.eta(t + 1.0) for t in range(T)]
    best = np.concatenate([np.maximum(u, 0.0), np.maximum(-u, 0.0)]) if name == "signed entropy" else u
    best = np.append(best, 0.0) if intercept else best
    book = oracle.account(ws, X, y, update.loss, update.regularizer, update.geometry, etas, best, h, intercept)
    for column, expected in {
        "loss": book["loss"],
        "penalty": book["penalty"][:-1],
        "improvement": book["delta"],
        "gradient": book["gradient"],
        "distance": book["distance"][:-1],
        "loss_after": book["loss_after"],
        "penalty_after": book["penalty"][1:],
        "slope": np.abs(book["slope"]),
        "comparator_loss": book["comparator_loss"],
        "convexity": book["convexity"],
        "weight": h,
    }.items():
        close(m[column], expected), column
    np.testing.assert_array_equal(m["nonzeros"], np.count_nonzero(ws[1:, : ws.shape[1] - intercept], axis=1))
    np.testing.assert_allclose(m["square"], np.sum(X * X, axis=1) * (2 if name == "signed entropy" else 1) + intercept)

    records = ledger.records
    np.testing.assert_array_equal(records.t, [7, 14, 21, 28, 35, 42, 49, 56, T])
    at = records.t - 1
    close(records.regret, book["regret"][at])
    close(records.improvement, np.cumsum(book["delta"])[at])
    close(records.variation[-1:], book["variation"])
    close(records.gradient, np.maximum.accumulate(book["gradient"])[at])
    close(records.distance, np.maximum.accumulate(book["distance"])[at])


@pytest.mark.parametrize("name", ["l1", "ridge", "entropy", "COMID", "inverse", "l1, falling steps"])
def test_regret_bounds_match_brute_force_and_hold(name):
    update = {**BY_SUMS, **ONE_BY_ONE}[name]
    X, y, h, u = stream(1)
    u = comparator_for(update, u)
    ws, _ = traced(update, X, y, h, False)
    learner = Learner(update, n_features=D, intercept=False, compiled=False)
    _, ledger = measured(learner, X, y, h, u)
    etas = np.array([update.step_size.eta(t + 1.0) for t in range(T)])
    book = oracle.account(ws, X, y, update.loss, update.regularizer, update.geometry, etas, u, h)
    found = {key: values[-1] for key, values in ledger.bounds.items()}
    anchor = oracle.telescoped(book) + book["distance"][-1] / etas[-1]  # the last term is left out
    deltas, G2, c = book["delta"].sum(), book["gradient"].max() ** 2, book["convexity"].min()
    expected = {
        "lemma 1": anchor + oracle.noise(book).sum() - deltas,
        "theorem 1": book["distance"][:-1].max() / etas[-1] + G2 * etas.sum() / (2 * c) - deltas,
        "variation": anchor + oracle.variability(book) - oracle.telescoped(book),
    }
    if name != "entropy":
        reach, slope = etas * book["x_norm"] ** 2, book["slope"] ** 2
        gamma = h if update.loss == Squared() else 0.0
        expected["proposition 1"] = anchor + book["penalty"][0] + np.sum(slope * reach / (2 * (1 + gamma * reach)))
        expected["linearized"] = anchor + book["penalty"][0] + np.sum(slope * reach / 2)
    if name == "inverse":
        expected["theorem 2"] = oracle.theorem2(T, 0.1, book["distance"][0], np.sqrt(G2), c, deltas)
    if name == "COMID":
        expected = {"linearized": expected["linearized"]}
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        close(found[key], value)
        assert ledger.records.regret[-1] <= found[key]
    for key, values in ledger.bounds.items():
        assert (ledger.records.regret <= values + 1e-9).all(), key


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    l1=st.sampled_from([0.0, 1e-3, 0.1, 2.0]),
    l2=st.sampled_from([0.0, 1e-3, 1.0, 1e6]),
    size=st.sampled_from([1e-3, 0.3, 5.0, 1e4]),
    kind=st.sampled_from([Constant, Polynomial, AdaGrad]),
    density=st.sampled_from([0.05, 0.3, 1.0]),
    cuts=st.lists(st.integers(0, 40), max_size=6),
)
def test_ledger_sums_match_a_loop_over_weights(seed, l1, l2, size, kind, density, cuts):
    if kind is AdaGrad:
        l2 = 0.0  # factors per feature have no common sum
    X, y, h, u = stream(seed, rows=40, density=density)
    update = FIOL(Squared(), ElasticNet(l1, l2), kind(size))
    found = []
    for force in (False, True):
        learner = Learner(update, n_features=D, compiled=False)
        with Ledger(learner, comparator=u, every=1) as ledger:
            m = ledger.measuring
            assert isinstance(m, MeasuringBySums)
            if force:
                ledger.measuring = MeasuringEveryWeight(m.engine, m.geometry, m.regularizer, m.best, m.intercept_best)
            edges = [0, *sorted(cuts), 40]
            for start, stop in pairwise(edges):
                learner.learn(X[start:stop], y[start:stop], h[start:stop])
            found.append(ledger.records)
    for column, one, other in zip(Records._fields, *found, strict=True):
        if column == "nonzeros":  # rounding may end a weight a round earlier or later
            assert np.abs(one - other).max() <= 1.0
        else:
            close(one, other)


def test_compiled_and_sparse_ledgers_match_interpreter():
    X, y, h, u = stream(2, d=200, rows=400, density=0.05)
    update = FIOL(Logistic(), L1(0.01), TUNING_FREE.replace(raw_penalty=1))
    plain = Learner(update, n_features=200)
    plain.learn(scipy.sparse.csr_matrix(X), y, h)
    learner, slow = Learner(update, n_features=200), Learner(update, n_features=200, compiled=False)
    fast, ledger = measured(learner, scipy.sparse.csr_matrix(X), y, h, u, (0, 100, 101, 400))
    sure, _ = measured(slow, X, y, h, u, (0, 400))
    for column in Measurement._fields:
        close(fast[column], sure[column])
    np.testing.assert_allclose(learner.weights, plain.weights, rtol=0, atol=1e-14)
    assert ledger.records.t[-1] == 400
    assert 0 < ledger.records.nonzeros[-1] < 200


def test_ledger_is_invariant_to_chunking():
    X, y, h, u = stream(3)
    update = FIOL(Logistic(), L1(0.02), Polynomial(1.0))
    whole, _ = measured(Learner(update, n_features=D, compiled=False), X, y, h, u, (0, T))
    rounds = []
    learner = Learner(update, compiled=False)  # grows
    with Ledger(learner, comparator=u) as ledger:
        ledger.add = lambda found: rounds.append(found.copy())
        for t in range(T):
            i = np.flatnonzero(X[t]).astype(np.int32)
            learner.learn_one(i, X[t, i], y[t], h[t])
            if t % 9 == 0:
                learner.settle()
            if t % 11 == 0:
                learner.weights, learner.scores(X[:2, : learner.n_features])
    for column, values in zip(Measurement._fields, np.concatenate(rounds).T, strict=True):
        close(values, whole[column])
    assert learner.rounds == T


def test_named_bounded_and_hashed_learners_are_measured():
    X, y, h, _ = stream(4)
    update = FIOL(Logistic(), L1(0.3), Constant(0.5))
    rows = [{f"f{i}": v for i, v in enumerate(row) if v} for row in X]
    whole, _ = measured(Learner(update, compiled=False), X, y, h, None, (0, T))
    for options in ({}, {"max_features": D}, {"bits": 12}):
        learner = Learner(update, compiled=False, **options)
        with Ledger(learner, every=T) as ledger:
            for row, target, weight in zip(rows, y, h, strict=True):
                learner.learn_named(row, target, weight)
        records = ledger.records
        assert records.nonzeros[-1] == learner.n_nonzero
        close(records.loss[-1], whole["loss"].sum())
        close(records.penalty[-1], whole["penalty"].sum())
        close(records.improvement[-1], whole["improvement"].sum())
        assert np.isnan(records.regret).all()
        assert ledger.bounds == {}


def test_rolled_back_rounds_leave_the_ledger_unchanged():
    learner = Learner(FIOL(Squared(), L1(0.1), Constant(0.5)), max_features=2, compiled=False)
    with Ledger(learner, every=1) as ledger:
        learner.learn([{"a": 1.0}, {"b": 1.0}], [1.0, 0.0])
        before = ledger.records
        with pytest.raises(ValueError, match="row 1 brings more features"):
            learner.learn([{"a": 2.0}, {"a": 1.0, "b": 1.0, "c": 1.0}], [9.0, 9.0])
        np.testing.assert_array_equal(ledger.records, before)
        learner.learn([{"a": 1.0}], [1.0])
        fresh = Learner(learner.update, compiled=False)
        with Ledger(fresh, every=1) as other:
            fresh.learn([{"a": 1.0}, {"b": 1.0}, {"a": 1.0}], [1.0, 0.0, 1.0])
        np.testing.assert_array_equal(ledger.records, other.records)


def test_closed_ledger_keeps_its_records_and_releases_the_learner():
    X, y, _, u = stream(5)
    learner = Learner(FIOL(Squared(), L1(0.1), Constant(0.1)), n_features=D, compiled=False)
    with Ledger(learner, comparator=u, every=1) as ledger:
        learner.learn(X[:10], y[:10])
    learner.learn(X[10:], y[10:])
    assert ledger.records.t[-1] == 10
    assert learner.rounds == T
    with Ledger(learner, every=1) as later:  # a ledger that begins in the middle
        learner.learn(X, y)
    assert later.records.t[-1] == T
    assert learner.copy().engine.observer is None


def test_ledger_without_rounds_has_no_records():
    ledger = Ledger(Learner(FIOL(Squared()), compiled=False))
    assert len(ledger.records.t) == 0
    assert len(ledger.records.regret) == 0


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Ledger(FIOL(Squared())), TypeError, "learner must be a fiol.Learner"),
        (lambda: Ledger(Learner(FIOL(Squared())), every=0), ValueError, "every must be an integer of at least 1"),
        (lambda: Ledger(Learner(FIOL(Squared())), every=1.5), ValueError, "every must be an integer"),
        (
            lambda: Ledger(Learner(FIOL(Squared()), n_features=3), [1.0]),
            ValueError,
            "comparator has 1 weights, but .* 3",
        ),
        (lambda: Ledger(Learner(FIOL(Squared())), [np.nan]), ValueError, "vector of finite weights"),
        (lambda: Ledger(Learner(FIOL(Squared())), "best"), ValueError, "vector of finite weights"),
        (lambda: Ledger(Learner(FIOL(Squared()), max_features=3), [1.0]), TypeError, "max_features renumbers"),
        (lambda: Ledger(Learner(FIOL(Squared(), geometry=Entropy()))), TypeError, "Entropy .* n_features"),
        (
            lambda: Ledger(Learner(FIOL(Squared(), geometry=Entropy()), n_features=2), [1.0, -1.0]),
            ValueError,
            "weights at 0 or above",
        ),
        (lambda: audit(FIOL(Squared()), np.ones((0, 2)), []), ValueError, "at least one row"),
        (lambda: audit(FIOL(Squared()), [[1.0]], [1.0], horizons=[2]), ValueError, "from 1 to the 1 rows"),
        (lambda: audit(FIOL(Squared()), [[1.0]], [1.0], horizons=0), ValueError, "horizons must be at least 1"),
        (lambda: audit(FIOL(Logistic()), [[1.0]], [3.0]), ValueError, r"y\[0\]"),
    ],
)
def test_ledger_errors_name_the_round(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.filterwarnings("ignore:the score")
@pytest.mark.parametrize("geometry", [fiol.Euclidean(), DiagonalMetric(1.0)], ids=repr)
def test_diverging_learner_is_measured(geometry):
    update = COMID(Squared(), L1(0.1), Constant(1e3), geometry)
    learner = Learner(update, n_features=1, compiled=False)
    with Ledger(learner, comparator=[0.0], every=1) as ledger, np.errstate(all="ignore"):
        learner.learn(10.0 * np.ones((80, 1)), np.ones(80))
    assert not np.isfinite(ledger.records.loss[-1])
    assert np.isfinite(ledger.records.loss[:10]).all()


def test_learner_has_one_ledger_at_a_time():
    learner = Learner(FIOL(Squared()))
    ledger = Ledger(learner)
    with pytest.raises(ValueError, match="has a ledger already"):
        Ledger(learner)
    ledger.close()
    Ledger(learner)


@pytest.mark.parametrize(
    ("update", "named_bounds"),
    [
        (
            FIOL(Squared(), L1(0.1), Constant(0.05)),
            {"lemma 1", "theorem 1", "proposition 1", "variation", "linearized"},
        ),
        (FIOL(Logistic(), Ridge(0.2), Inverse(0.2)), {"theorem 2"}),
        (FIOL(Logistic(), Ridge(0.1), Inverse(0.2)), {"theorem 1"}),  # not convex enough for theorem 2
        (FIOL(Hinge(), L1(0.1), Anytime(1.0, 3.0)), {"theorem 1"}),
        (COMID(Squared(), L1(0.1), Constant(0.01)), {"linearized"}),
        (FIOL(Logistic(), L1(0.1), fiol.ScaleFree(raw_penalty=1)), set()),
        (FIOL(Squared(), L1(0.1), Constant(0.05), Entropy()), {"lemma 1", "theorem 1", "variation"}),
    ],
    ids=["constant", "inverse", "too little ridge", "anytime", "COMID", "default", "entropy"],
)
def test_audits_stay_within_their_bounds(update, named_bounds):
    X, y, h, _ = stream(6)
    found = audit(update, X, y, sample_weight=h, horizons=[5, 20, T], compiled=False)
    np.testing.assert_array_equal(found.t, [5, 20, T])
    assert named_bounds <= found.bounds.keys()
    assert ("theorem 2" in found.bounds) == ("theorem 2" in named_bounds)
    assert bool(found.bounds) == bool(named_bounds)
    for values in found.bounds.values():
        assert (found.regret <= values + found.error).all()
    best = best_in_hindsight(update.loss, update.regularizer, X, y, sample_weight=h, geometry=update.geometry)
    whole = Learner(update, n_features=D, intercept=False, compiled=False)
    _, ledger = measured(whole, X, y, h, best)
    close(found.regret[-1], ledger.records.regret[-1], atol=1e-8)
    close(found.regret[-1], ledger.records.objective[-1] - best.value, atol=1e-8)


def test_audited_updates_may_depend_on_the_horizon():
    X, y, _, _ = stream(7)
    sizes, seen = [], []
    found = audit(
        lambda t: sizes.append(t) or FIOL(Squared(), L1(0.1), Constant(1.0 / np.sqrt(t))),
        X,
        y,
        horizons=3,
        intercept=True,
        compiled=False,
        progress=lambda done, of: seen.append((done, of)),
    )
    assert sizes == list(found.t) == [2, 12, T]
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_loss_convexity_is_not_inherited_by_another_derivative():
    class Steeper(Squared):
        def grad(self, z, y):
            return 0.5 * (z - y)

    assert (Squared.convexity, Steeper.convexity, fiol.Logistic.convexity) == (1.0, 0.0, 0.0)


def test_closing_a_ledger_twice_keeps_the_next_one():
    learner = Learner(FIOL(Squared()), compiled=False)
    first = Ledger(learner)
    first.close()
    second = Ledger(learner)
    first.close()
    learner.learn([[1.0]], [1.0])
    assert learner.ledger is second
    assert (len(first.records.t), second.records.t[-1]) == (0, 1)
