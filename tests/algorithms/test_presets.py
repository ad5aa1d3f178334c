"""Presets match Table 1, published algorithms and other implementations."""

from __future__ import annotations

import dataclasses
import itertools
import os
import warnings
from collections import Counter
from functools import cache, partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from material import SOLVERS
from oracles import table1
from oracles.table1 import UndecidedError, penalty_of
from sklearn import datasets, linear_model
from streams import GEOMETRIES, Draws, Stream, raw_beside_bounds, switched

import fiol

# --- how it is compared -----------------------------------------------------------------------


def jitter_of(seed):
    rng = np.random.default_rng(seed)
    return lambda v: v * (1.0 + 1e-14 * rng.uniform(-1.0, 1.0, np.shape(v)))


def assert_same(reference, *learners):
    """1e-12 of each number; more only where disturbing all numbers by 1e-14 in every round shows that they decide more.

    `reference(jitter=...)` plays the oracle, each of `learners` returns what it has to be compared with. Returns
    "exact", "disturbed", or "undecided" if rounding decides all.
    """
    try:
        expected, disturbed = reference(), []
        for found in [learner() for learner in learners]:
            if all(np.all(np.abs(a - b) <= 1e-12 * np.abs(b)) for a, b in zip(found, expected, strict=False)):
                continue
            disturbed = disturbed or [reference(jitter=jitter_of(seed)) for seed in range(4)]
            for part, a, b, *others in zip(expected._fields, found, expected, *disturbed, strict=False):
                room = 1e-12 * np.abs(b) + 8.0 * np.max([np.abs(b - c) for c in others], axis=0)
                assert np.all(np.abs(a - b) <= room), (part, a, b, room)
    except UndecidedError:
        return "undecided"
    return "disturbed" if disturbed else "exact"


def learned(update, stream, intercept=False, average=False, compiled=False):
    """Return scores and weights of a learner after a stream, in the order of `table1.Played`."""
    d = stream.x.shape[1]
    learner = fiol.Learner(update, n_features=d, intercept=intercept, average=average, compiled=compiled)
    scores = learner.learn(*stream)
    learner.engine.compiled = False  # reading the weights is not what takes long
    if not average:
        return scores, learner.weights, learner.intercept
    last = learner.engine.intercept_weight(False)
    return scores, learner.last_weights, last, learner.weights, learner.intercept


def compare(examples, case, decided=0.8):
    """Most examples that `case(draws)` compares must be decided by more than rounding."""
    seen = Counter()

    @settings(max_examples=examples)
    @given(st.integers(0, 2**32))
    def run(seed):
        seen[case(Draws(seed))] += 1

    run()
    assert seen["exact"] + seen["disturbed"] >= decided * seen.total(), seen


# --- the rows of Table 1 ----------------------------------------------------------------------

TABLE = {
    "SGD": (fiol.SGD, table1.sgd),
    "COMID": (fiol.COMID, table1.comid),
    "RDA": (fiol.RDA, table1.rda),
    "ISGD": (fiol.ISGD, table1.isgd),
    "FIOL": (fiol.FIOL, table1.fully_implicit),
    "FTRLProximal": (fiol.FTRLProximal, table1.ftrl_proximal),
    "ImplicitFTRL": (fiol.ImplicitFTRL, table1.implicit_ftrl),
}


@pytest.mark.parametrize("row", TABLE)
def test_presets_match_rows_of_table_1(row):
    preset, oracle = TABLE[row]

    def case(draws):
        loss, d, intercept, average = draws.start()
        regularizer, step, stream = draws.penalty(d), draws.step_size(), draws.stream(loss, d)
        step = raw_beside_bounds(step, regularizer)
        rest = {"once": draws.pick(False, True)} if "FTRL" in row else {}
        update, penalty = preset(loss, regularizer, step, **rest), penalty_of(regularizer)
        return assert_same(
            partial(oracle, stream, loss, penalty, step, intercept=intercept, **rest),
            partial(learned, update, stream, intercept, average),
        )

    compare(50, case)


def test_implicit_online_learning_matches_reference():
    def case(draws):
        loss, d, intercept, average = draws.start()
        step, stream = draws.step_size(), draws.stream(loss, d)
        oracle = partial(table1.iol, stream, loss, step, intercept=intercept)
        return assert_same(oracle, partial(learned, fiol.IOL(loss, step), stream, intercept, average))

    compare(50, case)


@pytest.mark.parametrize("row", ["PA", "PA1", "PA2"])
def test_passive_aggressive_matches_reference(row):
    def case(draws):
        d, intercept, c = draws.pick(1, 2, 3, 5), draws.pick(False, True), float(draws.size())
        plain, squared = (
            (fiol.Hinge(), fiol.EpsilonInsensitive()),
            (fiol.SquaredHinge(), fiol.SquaredEpsilonInsensitive()),
        )
        loss = draws.pick(*(squared if row == "PA2" else plain))
        stream = draws.stream(loss, d)
        preset, oracle = getattr(fiol, row), getattr(table1, row.lower())
        rest = () if row == "PA" else (c,)
        return assert_same(
            partial(oracle, stream, loss, *rest, intercept=intercept),
            partial(learned, preset(*rest, loss=loss), stream, intercept),
        )

    compare(30, case)


# --- everything else the switches can say -----------------------------------------------------


@pytest.mark.parametrize("kind", GEOMETRIES)
def test_all_switches_match_reference_in_all_geometries(kind):
    def case(draws):
        update, stream, oracle = switched(draws, kind)
        return assert_same(oracle, partial(learned, update, *stream))

    compare(50, case, decided=0.6)


def test_all_solvers_give_the_same_weights():
    def case(draws):
        update, stream, oracle = switched(draws, draws.pick("Euclidean", "DiagonalMetric", "Entropy"), "implicit")
        seen, working = update.regularizer_step.seen(update.regularizer), update.geometry.working()
        updates = [update.replace(solver=s) for s in SOLVERS if not s.objection(seen, working)]
        return assert_same(oracle, *(partial(learned, u, *stream) for u in updates))

    compare(25, case, decided=0.6)


# --- implementations of other libraries -------------------------------------------------------


def rows(seed, n=40, d=6):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.6) * 10.0 ** rng.integers(-1, 2, d)
    x[:, 0] = rng.standard_normal(n)  # scikit-learn divides by the length of a row
    y = x @ rng.standard_normal(d) + rng.standard_normal(n)
    return x, y, rng.choice([0.5, 1.0, 2.0], n)


def sklearn_passive_aggressive(x, y, c, kind, classify):
    """Its own classes up to 1.9, a learning rate of SGD from 1.8."""
    own = "PassiveAggressiveClassifier" if classify else "PassiveAggressiveRegressor"
    if hasattr(linear_model, own):
        names = ("hinge", "squared_hinge") if classify else ("epsilon_insensitive", "squared_epsilon_insensitive")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            model = getattr(linear_model, own)(C=c, loss=names[kind == "pa2"], fit_intercept=False, shuffle=False)
    else:
        model = linear_model.SGDClassifier if classify else linear_model.SGDRegressor
        loss = "hinge" if classify else "epsilon_insensitive"
        model = model(loss=loss, penalty=None, learning_rate=kind, eta0=c, fit_intercept=False, shuffle=False)
    return model.partial_fit(x, y, **({"classes": [-1.0, 1.0]} if classify else {})).coef_.ravel()


@pytest.mark.parametrize("classify", [True, False])
@pytest.mark.parametrize(("preset", "kind", "c"), [("PA", "pa1", 1e100), ("PA1", "pa1", 0.1), ("PA2", "pa2", 0.1)])
def test_passive_aggressive_matches_scikit_learn(preset, kind, c, classify):
    x, y, _ = rows(1)
    y = np.sign(y) if classify else y
    losses = {
        ("pa1", True): fiol.Hinge(),
        ("pa1", False): fiol.EpsilonInsensitive(0.1),
        ("pa2", True): fiol.SquaredHinge(),
        ("pa2", False): fiol.SquaredEpsilonInsensitive(0.1),
    }
    update = getattr(fiol, preset)(*(() if preset == "PA" else (c,)), loss=losses[kind, classify])
    _, weights, _ = learned(update, Stream(x, y, np.ones(len(y))))
    np.testing.assert_allclose(weights, sklearn_passive_aggressive(x, y, c, kind, classify), rtol=1e-10)


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("power", [0.0, 0.5])
@pytest.mark.parametrize("lam", [0.0, 0.3])
@pytest.mark.parametrize(
    ("theirs", "loss", "factor"),
    [
        ("hinge", fiol.Hinge(), 1.0),
        ("squared_hinge", fiol.SquaredHinge(), 2.0),
        ("log_loss", fiol.Logistic(), 1.0),
        ("squared_error", fiol.Squared(), 1.0),
        ("huber", fiol.Huber(0.5), 1.0),
        ("epsilon_insensitive", fiol.EpsilonInsensitive(0.5), 1.0),
    ],
)
def test_sgd_matches_scikit_learn(theirs, loss, factor, lam, power, average):
    """On dense rows, where its intercept moves like ours."""
    x, y, weight = rows(2)
    classify = isinstance(loss, fiol.Binary)
    y = np.sign(y) if classify else y
    model = (linear_model.SGDClassifier if classify else linear_model.SGDRegressor)(
        loss=theirs,
        penalty="l2" if lam else None,
        alpha=lam or 1.0,
        learning_rate="invscaling" if power else "constant",
        eta0=0.01,
        power_t=power,
        shuffle=False,
        average=average,
        **({} if theirs == "hinge" or classify else {"epsilon": 0.5}),
    )
    model.partial_fit(x, y, sample_weight=weight, **({"classes": [-1.0, 1.0]} if classify else {}))
    update = fiol.SGD(loss, fiol.Ridge(lam), fiol.Polynomial(0.01, power))
    *_, weights, intercept = learned(update, Stream(x, y, factor * weight), intercept=True, average=average)
    np.testing.assert_allclose(weights, model.coef_.ravel(), rtol=1e-11)
    np.testing.assert_allclose(intercept, model.intercept_[0], rtol=1e-11)


def test_ftrl_proximal_matches_published_algorithm():
    """McMahan et al., "Ad click prediction: a view from the trenches", 2013, Algorithm 1."""
    x, y, _ = rows(3)
    alpha, beta, lam1, lam2 = 0.3, 0.7, 0.5, 0.2
    z, n, scores = np.zeros(6), np.zeros(6), []
    for row, click in zip(x, y > 0, strict=True):
        w = np.where(np.abs(z) <= lam1, 0.0, -(z - np.sign(z) * lam1) / ((beta + np.sqrt(n)) / alpha + lam2))
        scores.append(row @ w)
        g = (1.0 / (1.0 + np.exp(-row @ w)) - click) * row
        sigma = (np.sqrt(n + g**2) - np.sqrt(n)) / alpha
        z += g - sigma * w
        n += g**2
    update = fiol.FTRLProximal(fiol.Logistic(), fiol.ElasticNet(lam1, lam2), fiol.AdaGrad(alpha, beta), once=True)
    found, weights, _ = learned(update, Stream(x, np.sign(y), np.ones(len(y))))
    assert (weights == 0.0).any()
    np.testing.assert_allclose(found, scores, rtol=1e-11, atol=1e-14)


def test_dual_averaging_matches_published_algorithm():
    """Xiao, "Dual averaging methods for regularized stochastic learning", 2010: l1-RDA with beta_t = gamma sqrt(t)."""
    x, y, _ = rows(4)
    gamma, lam, total, w, scores = 5.0, 0.2, np.zeros(6), np.zeros(6), []
    for t, (row, target) in enumerate(zip(x, y, strict=True), 1):
        scores.append(row @ w)
        total += (row @ w - target) * row
        mean = total / t
        w = np.where(np.abs(mean) <= lam, 0.0, -np.sqrt(t) / gamma * (mean - lam * np.sign(mean)))
    update = fiol.RDA(fiol.Squared(), fiol.L1(lam), fiol.Polynomial(1.0 / gamma, 0.5))
    found, weights, _ = learned(update, Stream(x, y, np.ones(len(y))))
    np.testing.assert_allclose(found, scores, rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(weights, w, rtol=1e-11)


# --- compiled ---------------------------------------------------------------------------------

#: Each takes 5 seconds to compile on a slow machine.
COMPILED = int(os.environ.get("FIOL_COMPILED", "4"))


def traits(update, average):
    """The kinds of all parts of an update, by role."""
    names = {f.name: type(getattr(update, f.name)).__name__ for f in dataclasses.fields(update) if f.name != "solver"}
    return {
        *names.items(),
        ("average", average),
        ("inner", type(getattr(update.regularizer, "regularizer", None)).__name__),
    }


@cache
def covering(size):
    """Return `count` well-conditioned examples, each chosen to bring as many new pairs of parts as it can."""
    choices = []
    for seed in range(600):
        draws = Draws(seed)
        update, (stream, intercept, average), oracle = switched(draws, draws.pick(*GEOMETRIES))
        pairs = set(itertools.combinations(sorted(traits(update, average), key=str), 2))
        choices.append((pairs, update, (stream, intercept, average), oracle))
    chosen, covered = [], set()
    while len(chosen) < size:
        choices.sort(key=lambda choice: len(choice[0] - covered))
        pairs, update, stream, oracle = choices.pop()
        if well_conditioned(oracle):
            covered |= pairs
            chosen.append((update, stream))
    return chosen


def well_conditioned(oracle):
    try:
        expected, *others = oracle(), *(oracle(jitter=jitter_of(seed)) for seed in range(3))
    except UndecidedError:
        return False
    return len(expected.scores) > 2 and all(
        np.allclose(a, b, rtol=1e-12, atol=0.0) for o in others for a, b in zip(expected, o, strict=True)
    )


@pytest.mark.parametrize("k", range(COMPILED))
def test_compiled_presets_match_interpreter(k):
    update, stream = covering(COMPILED)[k]
    for a, b in zip(learned(update, *stream, compiled=True), learned(update, *stream), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=0.0)


# --- Stacked ----------------------------------------------------------------------------------


def small_stream(name):
    """A data set that scikit-learn ships, shuffled: tumours, or whether a digit is odd."""
    x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))[:300]
    return x[order], np.where(y[order] % 2 == 1, 1.0, -1.0)


@pytest.mark.parametrize("name", ["breast_cancer", "digits"])
def test_stacked_is_close_to_its_best_member(name):
    learner = fiol.Learner(fiol.Stacked(fiol.Logistic()))
    x, y = small_stream(name)
    scores = learner.learn(x, y)
    losses = sorted(member.loss for member in learner.members)
    assert np.mean(np.logaddexp(0.0, -y * scores)) == pytest.approx(learner.progressive_loss)
    assert learner.progressive_loss < 1.05 * losses[0]
    assert losses[0] < 0.75 * np.median(losses)  # it matters which


@pytest.mark.parametrize("loss", [fiol.Squared(), fiol.Hinge(), fiol.Poisson(), fiol.Softmax()], ids=repr)
def test_stacked_keeps_the_given_loss_and_penalty(loss):
    ensemble = fiol.Stacked(loss, fiol.Ridge(0.01))
    assert {member.loss for member in ensemble.members} == {loss}
    assert {member.regularizer for member in ensemble.members} == {fiol.Ridge(0.01)}
    assert len({member.step_size for member in ensemble.members}) == len(ensemble.members)
