"""Parallel learning and merging of ensembles in SIMD lanes match those of scalar members, on partly seen rows."""

import numpy as np
import pytest
from oracles.outliers import learned
from partly_seen import PLAIN, SCALE_FREE, ensemble_learner, lanes, partly_seen, tolerance

import fiol
from fiol import FIOL, AdaGrad, Constant, Curvature, Ensemble, Learner, Normalized, Ridge, ScaleFree, Unregularized
from fiol.engine.parallel import rounds, shards
from fiol.models.distributed_round import RoundMerger, learn_shard, losses_along_line
from fiol.models.sharded_merge import BlockMerger, engine_options, merge_block, shard_deltas

#: Pairs of members with one rule: so a failure names its rule.
KINDS = {
    "constant": [Constant(0.3), Constant(0.05)],
    "adagrad": [AdaGrad(0.5), AdaGrad(2.0)],
    "normalized": [Normalized(0.7), Normalized(0.1)],
    "curvature": [Curvature(prior=2.0), Curvature(0.5)],
}
KINDS |= {f"scale-free {kind}": [ScaleFree(rule) for rule in rules] for kind, rules in KINDS.items()}
KINDS |= {"plain": PLAIN, "all": [*PLAIN[1:], *SCALE_FREE]}


def ensemble_of(loss, kind, ridge=0.0):
    penalty = Ridge(ridge) if ridge else Unregularized()
    return Ensemble([FIOL(loss, penalty, rule) for rule in KINDS[kind]])


@pytest.fixture(autouse=True)
def short_rounds(monkeypatch):
    monkeypatch.setattr(rounds, "ALONE", 16)  # after these rows centering is decided
    monkeypatch.setattr(rounds, "GROWTH", 0.9)


def assert_learners_match(found, expected, stream, dtype="float64"):
    """Compare the weights of all members in the units of their features, and what the stack makes of them."""
    scale = np.maximum(np.abs(stream.X).max(axis=0).toarray()[0], 1e-300)
    near = {"rtol": tolerance(dtype)}
    for k in range(len(expected.members)):
        own, other = (one.member(k) for one in (found, expected))
        w = other.weights * scale[: len(other.weights)]
        np.testing.assert_allclose(own.weights * scale[: len(w)], w, **near, atol=tolerance(dtype) * abs(w).max())
        np.testing.assert_allclose(own.intercept, other.intercept, **near, atol=tolerance(dtype))
    np.testing.assert_allclose(found.mixing, expected.mixing, rtol=1e3 * tolerance(dtype), atol=tolerance(dtype))
    assert (found.rows, found.rounds) == (expected.rows, expected.rounds)


def parallel(update, stream, parts, in_lanes, **options):
    learner = ensemble_learner(update, in_lanes, **options)
    with lanes(in_lanes):
        scores = learner.learn_parallel(*stream, parts=parts, threads=1)
    assert shards.lanes_alone(learner.engine) == in_lanes
    return learner, scores


def shards_of(loss, parts, rows=34, weightless=False):
    """Rows of which each shard has some features alone; all of them count unless `weightless`."""
    stream = partly_seen(loss, rows, 12, seed=parts, shards=parts)
    return stream if weightless else stream._replace(weight=np.maximum(stream.weight, 0.5))


PARALLEL = [(kind, fiol.Logistic(), 2 + number % 3, False) for number, kind in enumerate(KINDS)]
PARALLEL += [("all", loss, 3, False) for loss in (fiol.Hinge(), fiol.Squared(), fiol.Absolute(), fiol.Huber(0.7))]
PARALLEL += [("scale-free curvature", fiol.Quantile(0.3), 3, False)]
PARALLEL += [("scale-free adagrad", fiol.Logistic(), 4, True), ("all", fiol.Hinge(), 2, True)]


@pytest.mark.parametrize(("kind", "loss", "parts", "weightless"), PARALLEL, ids=str)
def test_parallel_learning_in_lanes_matches_scalars(kind, loss, parts, weightless):
    update, stream = ensemble_of(loss, kind), shards_of(loss, parts, weightless=weightless)
    expected, scores = parallel(update, stream, parts, False)
    found, own = parallel(update, stream, parts, True)
    assert_learners_match(found, expected, stream)
    np.testing.assert_allclose(own, scores, rtol=1e-9, atol=1e-9 * abs(scores).max())


def test_parallel_learning_in_lanes_matches_scalars_in_float32():
    update, stream = ensemble_of(fiol.Logistic(), "curvature"), shards_of(fiol.Logistic(), 2)
    options = {"dtype": "float32", "intercept": False}
    expected, _ = parallel(update, stream, 2, False, **options)
    found, _ = parallel(update, stream, 2, True, **options)
    assert_learners_match(found, expected, stream, "float32")


def test_parallel_learning_with_a_ridge_matches_scalars():
    """Members with a ridge are merged one by one, whether or not they learn in lanes."""
    update, stream = ensemble_of(fiol.Logistic(), "scale-free curvature", 0.02), shards_of(fiol.Logistic(), 3)
    expected, _ = parallel(update, stream, 3, False)
    found = ensemble_learner(update, True)
    with lanes(True):
        found.learn_parallel(*stream, parts=3, threads=1)
    assert_learners_match(found, expected, stream)


# --- one round, as the formulas of `StepSize.pooled` have it ----------------------------------


def round_of(update, stream, parts, in_lanes, **options):
    """A base that has learned from the first rows, the parts of a round with the others, and whose rows these are."""
    rows, y, weight = stream.named(), stream.y, stream.weight
    first, n = 10, len(rows) - 10
    base = ensemble_learner(update, in_lanes, **options)
    with lanes(in_lanes):
        base.learn(rows[:first], y[:first], weight[:first])
        pieces = [slice(first + k * n // parts, first + (k + 1) * n // parts) for k in range(parts)]
        data = [(rows[piece], y[piece], weight[piece]) for piece in pieces]
        return base, [learn_shard(base, *one, parts=parts) for one in data], data


def named_weights(learner, names):
    known = dict(zip(learner.names, learner.weights, strict=True))
    return np.array([known.get(name, 0.0) for name in names])


def largest_values(rows, names):
    """The largest absolute value of every feature in these rows, as they are learned from."""
    peaks = np.zeros(len(names))
    for row in rows:
        peaks = np.maximum(peaks, np.abs(learned([row.get(name, 0.0) for name in names], peaks)))
    return peaks


SHARES = [(kind, fiol.Logistic(), in_lanes) for kind in KINDS for in_lanes in (False, True)]
SHARES = [one for one in SHARES if "curvature" not in one[0] and one[0] not in ("plain", "all")]
SHARES += [(kind, fiol.Hinge(), in_lanes) for kind in ("adagrad", "scale-free adagrad") for in_lanes in (False, True)]


@pytest.mark.parametrize(("kind", "loss", "in_lanes"), SHARES, ids=str)
def test_merged_weight_change_counts_the_shards_that_updated_it(kind, loss, in_lanes):
    """Logistic loss updates every feature of a row; rows without hinge loss update none."""
    update, stream = ensemble_of(loss, kind), shards_of(loss, 3, 40)
    base, parts, data = round_of(update, stream, 3, in_lanes)
    with lanes(in_lanes):
        full = RoundMerger(base, parts).full
    names, before = full.names, stream.named()[:10]
    seen = np.array([largest_values(rows, names) > 0.0 for rows, _, _ in data]).sum(axis=0)
    peaks = np.array([largest_values(before + rows, names) for rows in ([], *(one[0] for one in data))])
    for j in range(len(update.members)):
        w = np.array([named_weights(one.member(j), names) for one in (base, *(part.learner for part in parts))])
        if loss == fiol.Hinge():
            seen = (w[1:] != w[0]).sum(axis=0)
        if "scale-free" in kind:  # in the unit of the largest value that any shard has seen
            w = w * peaks / peaks.max(axis=0)
        share = 1.0 / np.maximum(seen, 1) ** (0.5 if "adagrad" in kind else 1.0)
        expected = w[0] + share * (w[1:] - w[0]).sum(axis=0)
        found = named_weights(full.member(j), names)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12 * abs(expected).max())


# --- rounds of learners that are far from each other, and merges ------------------------------


def finished(together, data, parts):
    losses = sum(losses_along_line(together.base, together.full, *one, parts=parts) for one in data)
    return together.finish(losses)


def named_arrays(learner):
    """Weights by name, of every member."""
    return [dict(zip(learner.names, learner.member(k).weights, strict=True)) for k in range(len(learner.members))]


def assert_same_by_name(found, expected, dtype="float64"):
    for own, other in zip(named_arrays(found), named_arrays(expected), strict=True):
        assert own.keys() == other.keys()
        a, b = (np.array([one[name] for name in sorted(other)]) for one in (own, other))
        np.testing.assert_allclose(a, b, rtol=tolerance(dtype), atol=tolerance(dtype) * abs(b).max() * 1e-3)
    np.testing.assert_allclose(found.mixing, expected.mixing, rtol=1e3 * tolerance(dtype), atol=tolerance(dtype))
    assert (found.rows, found.rounds) == (expected.rows, expected.rounds)


ROUNDS = [(kind, fiol.Logistic(), 0) for kind in KINDS]
ROUNDS += [(kind, fiol.Squared(), 3) for kind in ("adagrad", "scale-free normalized", "scale-free curvature", "all")]


@pytest.mark.parametrize(("kind", "loss", "blocks"), ROUNDS, ids=str)
def test_distributed_round_in_lanes_matches_scalars(kind, loss, blocks):
    """Learners as a whole, or what they changed in blocks of features."""
    update, stream, ended = ensemble_of(loss, kind), shards_of(loss, 3, 40), []
    for in_lanes in (False, True):
        base, parts, data = round_of(update, stream, 3, in_lanes)
        with lanes(in_lanes):
            if blocks:
                shells, deltas = zip(*(shard_deltas(base, part, blocks) for part in parts), strict=True)
                pooled = [merge_block(update, some, **engine_options(base)) for some in zip(*deltas, strict=True)]
                together = BlockMerger(base, shells, pooled)
            else:
                together = RoundMerger(base, parts)
            ended.append(finished(together, data, 3))
    assert_same_by_name(ended[1], ended[0])


MERGES = [("plain", 0.0, {}, True), ("all", 0.0, {"dtype": "float32", "intercept": False}, False)]
MERGES += [("all", 0.0, {}, True), ("scale-free curvature", 0.0, {"intercept": False}, False)]
MERGES += [("scale-free adagrad", 0.1, {}, from_base) for from_base in (False, True)]


@pytest.mark.parametrize(("kind", "ridge", "options", "from_base"), MERGES, ids=str)
def test_merged_ensembles_in_lanes_match_scalars(kind, ridge, options, from_base):
    loss, dtype = fiol.Logistic(), options.get("dtype", "float64")
    update, stream, merged = ensemble_of(loss, kind, ridge), shards_of(loss, 3, weightless=True), []
    for in_lanes in (False, True):
        base, parts, _ = round_of(update, stream, 3, in_lanes, **options)
        with lanes(in_lanes):
            whole = Learner.merge([part.learner for part in parts], base=base if from_base else None)
            assert len(whole.engine.members_in_use.in_lanes) == len(update.members) * in_lanes
            merged.append(whole)
    assert_same_by_name(merged[1], merged[0], dtype)
    more = partly_seen(loss, 8, 12, seed=9)
    scores = [one.learn(more.named(), more.y, more.weight) for one in merged]
    np.testing.assert_allclose(
        scores[1], scores[0], rtol=tolerance(dtype), atol=tolerance(dtype) * abs(scores[0]).max()
    )


def test_compiled_parallel_learning_matches_scalars_in_the_interpreter():
    """With members whose merges are the same today, in as many lanes as the default ensemble has."""
    loss = fiol.Logistic()
    rules = [Curvature(), AdaGrad(1.0), AdaGrad(300.0), Constant(100.0), Constant(1.0), Constant(3.0)]
    update = Ensemble([FIOL(loss, step_size=ScaleFree(rule)) for rule in rules])
    stream = shards_of(loss, 3, 60)
    expected, scores = parallel(update, stream, 3, False)
    found = ensemble_learner(update, True, compiled=True)
    own = found.learn_parallel(*stream, parts=3, threads=2)
    assert_learners_match(found, expected, stream)
    np.testing.assert_allclose(own, scores, rtol=1e-9, atol=1e-9 * abs(scores).max())
