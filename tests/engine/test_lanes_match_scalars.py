"""Members of an ensemble in SIMD lanes match the same learners alone, on sparse, partly seen rows."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import config
from partly_seen import (
    BINARY,
    LOSSES,
    RULES,
    assert_scores_match,
    assert_weights_match,
    ensemble_learner,
    lanes,
    learner_alone,
    partly_seen,
)

import fiol
from fiol import FIOL, L1, AdaGrad, Ensemble, Ridge, ScaleFree, Unregularized
from fiol.compiler import linking

#: Losses with which members in lanes may have a ridge.
WITH_RIDGE = [*BINARY, fiol.Squared(), fiol.Huber(0.7)]
SETTINGS = {
    "plain": {},
    "ridge": {"ridge": 0.02},
    "float32, no intercept": {"dtype": "float32", "intercept": False},
    "ridge, float32": {"ridge": 0.3, "dtype": "float32"},
}
CASES = [(loss, setting) for loss in LOSSES for setting in SETTINGS if "ridge" not in setting or loss in WITH_RIDGE]
#: The numbers of rules whose learners are members of one ensemble, by the number of lanes.
GROUPS = {4: [(0, 5, 2), (3, 1, 7), (6, 4)], 8: [(7, 5, 1, 4, 6, 2, 0), (3, 2, 5, 0, 6)]}


def updates_of(loss, ridge=0.0):
    """A learner of every rule, some of them with a ridge; plain constant steps have none, since lanes would not."""
    strengths = [0.0, ridge, ridge, 10.0 * ridge, 0.0, ridge, 0.1 * ridge, ridge]
    penalties = [Ridge(lam) if lam else Unregularized() for lam in strengths]
    return [FIOL(loss, penalty, rule) for rule, penalty in zip(RULES, penalties, strict=True)]


def stack_of(update, Z, stream):
    """The scores of an ensemble whose members have the scores Z, by its stack without lanes."""
    engine = ensemble_learner(update, False).engine
    return engine.stack.learn(engine.call, np.ascontiguousarray(Z), stream.y, stream.weight)


def check_members(loss, updates, groups, stream, **options):
    """Ensembles of these groups of members match the learners alone and a stack of their scores."""
    dtype = options.get("dtype", "float64")
    alone = [learner_alone(update, compiled=False, **options) for update in updates]
    Z = np.column_stack([learner.learn(*stream) for learner in alone])
    for group in map(list, groups):
        update = Ensemble([updates[k] for k in group])
        together = ensemble_learner(update, True, **options)
        assert_scores_match(together.learn(*stream), stack_of(update, Z[:, group], stream), dtype)
        for k, number in enumerate(group):
            assert_weights_match(together.member(k), alone[number], stream, dtype)
            lost = sum(w * loss.value(z, y) for z, y, w in zip(Z[:, number], stream.y, stream.weight, strict=True))
            mean = lost / stream.weight.sum()
            assert together.members[k].loss == pytest.approx(mean, rel=1e-7 if dtype == "float64" else 1e-4)
        yield together


@pytest.mark.parametrize("width", [4, 8])
@pytest.mark.parametrize(("loss", "setting"), CASES, ids=str)
def test_members_in_lanes_match_learners_alone(loss, setting, width):
    options = dict(SETTINGS[setting])
    updates, stream = updates_of(loss, options.pop("ridge", 0.0)), partly_seen(loss, seed=width)
    for together in check_members(loss, updates, GROUPS[width], stream, **options):
        assert together.engine.group.width == width
        assert together.engine.group.with_ridge == ("ridge" in setting)


@settings(max_examples=8)
@given(
    st.sampled_from(LOSSES),
    st.lists(st.integers(0, 7), min_size=2, max_size=7),
    st.sampled_from([0.0, 1e-3, 2.0]),
    st.booleans(),
    st.sampled_from([1.0, 1e3, 1e9]),
    st.integers(0, 10**6),
)
def test_random_members_in_lanes_match_learners_alone(loss, group, ridge, intercept, units, seed):
    """Also equal members, and features whose units differ by a factor of 1e9."""
    stream = partly_seen(loss, 14, 6, seed, units=units)
    updates = [updates_of(loss, ridge if loss in WITH_RIDGE else 0.0)[k] for k in group]
    for together in check_members(loss, updates, [range(len(group))], stream, intercept=intercept):
        assert together.engine.all_in_lanes


# --- behind a gate ----------------------------------------------------------------------------


def scores_behind_gate(update, stream, options):
    """The scores of every member, then of the gate, row by row: members see features that have a weight in the gate."""
    gate, *alone = (
        learner_alone(one, n_features=stream.X.shape[1], **options) for one in (update.gate, *update.members)
    )
    Z = []
    for r in range(len(stream.y)):
        row, target = stream.X[r], ([stream.y[r]], [stream.weight[r]])
        passing = row.multiply(gate.weights[None] != 0.0).tocsr()
        Z.append([learner.learn(passing, *target)[0] for learner in alone] + [gate.learn(row, *target)[0]])
    return np.array(Z), alone, gate


def gated(loss, group, penalty, ridge=0.0):
    gate = fiol.ImplicitFTRL(loss, penalty, ScaleFree(AdaGrad(3.0)))
    return Ensemble([updates_of(loss, ridge)[k] for k in group], gate=gate)


GATED = [
    (gated(fiol.Logistic(), (7, 5, 4), L1(0.01)), {}),
    (gated(fiol.Logistic(), (1, 6, 7, 3, 0), L1(0.01), 0.02), {}),
    (gated(fiol.Squared(), (7, 5), L1(0.2)), {"dtype": "float32"}),
    (gated(fiol.Quantile(0.3), (5, 2, 6, 7, 4, 1, 0), L1(0.005)), {"intercept": False}),
    (gated(fiol.Hinge(), (3, 5, 6), fiol.ElasticNet(0.01, 0.1)), {}),
]


@pytest.mark.parametrize(("update", "options"), GATED, ids=[f"{one.loss} {len(one.members)}" for one, _ in GATED])
def test_members_in_lanes_behind_a_gate_match_learners_alone(update, options):
    stream, dtype = partly_seen(update.loss, 30, seed=5), options.get("dtype", "float64")
    together = ensemble_learner(update, True, n_features=stream.X.shape[1], **options)
    found = together.learn(*stream)
    Z, alone, gate = scores_behind_gate(update, stream, {"compiled": False, **options})
    assert 0 < np.count_nonzero(gate.weights) < stream.X.shape[1] - 1
    assert_scores_match(found, stack_of(update, Z, stream), dtype)
    mixed = sum(v * learner.weights for v, learner in zip(together.mixing, [*alone, gate], strict=True))
    scale = np.abs(stream.X).max(axis=0).toarray()[0]
    mixed, own = (scale * w for w in (np.where(gate.weights != 0.0, mixed, 0.0), together.weights))
    np.testing.assert_allclose(own, mixed, rtol=1e-3 if dtype == "float32" else 1e-9, atol=1e-9 * abs(mixed).max())
    losses = [[update.loss.value(z, y) for z, y in zip(column, stream.y, strict=True)] for column in Z.T]
    expected = np.array(losses) @ stream.weight / stream.weight.sum()
    np.testing.assert_allclose([member.loss for member in together.members], expected, rtol=1e-4)


# --- chunks, single events, copies and files --------------------------------------------------


def learned_in_pieces(learner, stream, tmp_path):
    """The scores of rows learned from by chunks, single events, a copy and a model read from a file; and the model."""
    rows, found, compiled = stream.named(), [], learner.compiled
    ends = [0, 1, 2, 7, 11, len(rows)]
    for number, (start, stop) in enumerate(pairwise(ends)):
        piece = slice(start, stop)
        if number % 2:
            for row, y, weight in zip(rows[piece], stream.y[piece], stream.weight[piece], strict=True):
                found.append(learner.learn_named(row, y, weight))
        else:
            found += list(learner.learn(rows[piece], stream.y[piece], stream.weight[piece]))
        learner.weights  # reading changes nothing
        learner = learner.copy()
        if number == 2:
            learner.save(tmp_path / "model.fiol")
            learner = fiol.load(tmp_path / "model.fiol", compiled=compiled)
    return np.array(found), learner


def bits_of(learner):
    """Return all stored arrays of a learner, without memory reserved for new features."""
    n = learner.n_features
    return {name: (a[:n] if "state." in name else a).tobytes() for name, a in learner.core.arrays().items()}


def check_pieces(update, stream, tmp_path, compiled=False, **options):
    """In lanes, pieces have the bits of one chunk; both have the numbers of members without lanes."""
    dtype = options.get("dtype", "float64")
    with lanes(True):
        whole = ensemble_learner(update, True, compiled, **options)
        scores, one_by_one = whole.learn(stream.named(), stream.y, stream.weight), whole.copy()
        found, parts = learned_in_pieces(ensemble_learner(update, True, compiled, **options), stream, tmp_path)
        assert (found == scores).all()
        assert bits_of(parts) == bits_of(whole)
        rows = partly_seen(update.loss, 6, seed=3).named()
        single = [one_by_one.score_named(row) for row in rows]
        # Without linking, every kernel vectorizes the sum of a score by itself.
        tolerance = 0.0 if linking.switched_on() else 1e-12
        np.testing.assert_allclose(single, whole.scores(rows), rtol=tolerance)
        predicted = [one_by_one.predict_named(row) for row in rows]
        np.testing.assert_allclose(predicted, whole.predict(rows), rtol=tolerance)
    apart = ensemble_learner(update, False, **options)
    assert_scores_match(scores, apart.learn(stream.named(), stream.y, stream.weight), dtype)
    assert_scores_match(np.array(single), apart.scores(rows), dtype)
    np.testing.assert_allclose(whole.mixing, apart.mixing, rtol=1e-6 if dtype == "float64" else 1e-3, atol=1e-9)


@pytest.mark.parametrize(
    ("ridge", "options"), [(0.0, {}), (0.05, {"intercept": False}), (0.0, {"dtype": "float32", "intercept": False})]
)
def test_chunking_changes_no_bit_in_lanes(ridge, options, tmp_path):
    update = Ensemble([updates_of(fiol.Logistic(), ridge)[k] for k in (7, 1, 5, 2, 4)])
    check_pieces(update, partly_seen(update.loss, 20, seed=8), tmp_path, **options)


def test_chunking_changes_no_bit_in_lanes_behind_a_gate(tmp_path):
    check_pieces(GATED[1][0], partly_seen(fiol.Logistic(), 20, seed=9), tmp_path)


@pytest.mark.parametrize(("loss", "ridge"), [(fiol.Logistic(), 0.0), (fiol.Logistic(), 0.1), (fiol.Quantile(0.3), 0.0)])
def test_members_taken_from_lanes_learn_on_as_learners_alone(loss, ridge):
    """Members keep all state that steps depend on, and lanes accept members that have learned alone."""
    updates, stream, more = updates_of(loss, ridge), partly_seen(loss), partly_seen(loss, 10, seed=4)
    for group in GROUPS[4]:
        update = Ensemble([updates[k] for k in group])
        together, apart = ensemble_learner(update, True), ensemble_learner(update, False)
        together.learn(*stream)
        apart.learn(*stream)
        for k in range(len(group)):
            assert_scores_match(together.member(k).learn(*more), apart.member(k).learn(*more))
        apart_again, together_again = ensemble_learner(update, False), ensemble_learner(update, True)
        apart_again.engine.restore(together.core.arrays())
        together_again.engine.restore(apart.core.arrays())
        scores = together.learn(*more)
        for other in (apart_again, together_again):
            assert_scores_match(other.engine.learn(fiol.to_chunk(more.X), more.y, more.weight), scores)


# --- compiled ---------------------------------------------------------------------------------

#: Compiled code depends on the loss and on the kinds of numbers, not on the rules of members.
COMPILED = {
    "default": (fiol.Stacked(fiol.Logistic()), {}),
    "squared": (fiol.Stacked(fiol.Squared()), {}),
    "ridge, float32": (Ensemble([updates_of(fiol.Logistic(), 0.05)[k] for k in (7, 1, 5, 2, 4)]), {"dtype": "float32"}),
    "quantile, 4 lanes": (Ensemble([updates_of(fiol.Quantile(0.3))[k] for k in (1, 6, 7)]), {}),
    "gate": (fiol.Stacked(fiol.Logistic(), L1(0.01)), {}),
}


@pytest.mark.skipif(bool(config.DISABLE_JIT), reason="nothing is compiled")
@pytest.mark.parametrize("name", COMPILED)
def test_compiled_lanes_match_scalars_in_the_interpreter(name, tmp_path):
    """In one chunk, in pieces and by single events."""
    update, options = COMPILED[name]
    check_pieces(update, partly_seen(update.loss, 40, seed=7), tmp_path, compiled=True, **options)
