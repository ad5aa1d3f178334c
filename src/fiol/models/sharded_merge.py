"""Rounds of `fiol.models.distributed_round` for large models: blocks of features are merged in different places.

The merged update of a round is computed feature by feature, except for intercepts and clocks, which are a few numbers.
So each shard sends its changes by blocks of features, the changes of all shards to one block are merged in one place,
and the coordinator holds one model, not one per shard.

| who | does |
|---|---|
| each shard | `summary, deltas = shard_deltas(base, result, 8)`: a few numbers and the changes, in 8 blocks |
| each block | `block = merge_block(base.update, [delta, ...])`: of the changes of all shards, in their order |
| the coordinator | `BlockMerger(base, [summary, ...], [block, ...])`: a `RoundMerger` like any other |

The result is that of `RoundMerger(base, results)` to rounding, since costs are added block by block, and the sum of
many equal numbers may differ from one of them in its last digit. It does not depend on the order of the shards.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from fiol.algorithms.state import State
from fiol.components.row import Floats
from fiol.engine.engine import Engine
from fiol.engine.ensemble.engine import make_engine
from fiol.engine.parallel.merge import members_of
from fiol.engine.parallel.shards import MemberMerge, MergeDirection, merge_direction, move_centering, pooled_means
from fiol.engine.update_engine import UpdateEngine
from fiol.features.feature_space import FeatureSpace
from fiol.features.vocabulary import Vocabulary
from fiol.features.vocabulary_merge import merge_feature_spaces
from fiol.learner import Learner
from fiol.learner.arguments import plans_of
from fiol.models.distributed_round import RoundMerger, ShardResult, check_same_centered, with_engine

#: Features without a change are merged in pieces of this size.
FEATURES_AT_ONCE = 2**16


class MemberSummary(NamedTuple):
    """A member without its features."""

    ticks: Floats
    uncounted: Floats
    fresh: State
    intercept: State


class ShardSummary(NamedTuple):
    """What the coordinator needs of one shard, besides the changes of features."""

    members: list[MemberSummary]
    centering: Any  #: the shard's own means
    features: int  #: their number
    stack_rows: tuple[Any, Any, Any]  #: see `ShardResult`
    rows: int


class ShardDelta(NamedTuple):
    """The changes of one shard to one block of features."""

    members: list[MemberSummary]
    before: list[MemberSummary]  #: the base's
    known: int  #: the number of features of the base
    keys: list[Any]  #: of the features: the number of one that the base has, else its name
    numbers: Any  #: their numbers in the shard
    old: list[State]  #: their state in the base, for every member
    new: list[State]  #: and in the shard


class MergedBlock(NamedTuple):
    """The merged state of the features of one block that any shard changed."""

    keys: list[Any]
    first: list[tuple[int, int]]  #: the first shard that has each feature, and its number there
    states: list[State]  #: for every member
    costs: list[float]
    zeros: list[Any]


def shard_deltas(base: Learner, result: ShardResult, blocks: int) -> tuple[ShardSummary, list[ShardDelta]]:
    """Return the changes of a shard that went on from a copy of the base, in `blocks` blocks of features."""
    own, other = result.learner.core.engine, base.copy().core.engine
    centering = own.centering
    features = result.learner.n_features
    own, other = (engine.placed(np.arange(features), features) for engine in (own, grown_to(other, features)))
    if centering is not None:
        known: Any = other.centering
        check_same_centered(known, centering)
        move_centering(own, known)
    members, before = members_of(own), members_of(other)
    summaries, old_summaries = summaries_of(members), summaries_of(before)
    where = changed_features(members, before, base.n_features, features)
    keys = feature_keys(result.learner, base.n_features, where)
    block = np.array([key % blocks if isinstance(key, int) else crc32(str(key).encode()) % blocks for key in keys])
    deltas = []
    for k in range(blocks):
        chosen = np.flatnonzero(block == k)
        some = where[chosen]
        states = [[part_of_state(member.state, some) for member in engines] for engines in (before, members)]
        deltas.append(ShardDelta(summaries, old_summaries, base.n_features, [keys[j] for j in chosen], some, *states))
    return ShardSummary(summaries, centering, features, result.stack_rows, result.rows), deltas


def changed_features(members: Sequence[UpdateEngine], before: Sequence[UpdateEngine], known: int, features: int) -> Any:
    """Return the numbers of features whose state differs for any member, and of all that the base does not know."""
    changed = np.zeros(features, bool)
    for mine, its in zip(members, before, strict=True):
        for a, b in zip(mine.state, its.state, strict=True):
            if a.shape[0]:
                changed |= (a != b) if a.ndim == 1 else (a != b).any(axis=tuple(range(1, a.ndim)))
    changed[known:] = True
    return np.flatnonzero(changed)


def grown_to(engine: Engine, features: int) -> Engine:
    """Return the engine, with memory for `features` features."""
    engine.grow(features)
    return engine


def feature_keys(learner: Learner, known: int, features: Any) -> list[Any]:
    """Return the keys of features: numbers, or names of those that the base does not know, if features have names."""
    encoder = learner.core.space.encoder
    if not isinstance(encoder, Vocabulary):
        return features.tolist()  # type: ignore[no-any-return]
    return [i if i < known else encoder.names[i] for i in features.tolist()]


def summaries_of(members: Sequence[UpdateEngine]) -> list[MemberSummary]:
    """Return all members without their features."""
    return [MemberSummary(one.ticks, one.uncounted, one.fresh, one.intercept) for one in members]


def part_of_state(state: State, features: Any) -> State:
    """Return the state of some features; arrays that are not used stay empty."""
    return State(*(a[features] if a.shape[0] else a for a in state))


def merge_block(update: Any, deltas: Sequence[ShardDelta], **options: Any) -> MergedBlock:
    """Return the merged state of the features of a block, from the changes of all shards in their order.

    `options` are those of the engine (`engine_options`): intercept, average, dtype, compiled, scores.
    """
    place, first = dict[Any, int](), list[tuple[int, int]]()
    for k, delta in enumerate(deltas):
        for key, number in zip(delta.keys, delta.numbers.tolist(), strict=True):
            if place.setdefault(key, len(place)) == len(first):
                first.append((k, number))
    states, costs, zeros = list[State](), list[float](), list[Any]()
    where = [np.array([place[key] for key in delta.keys], np.int64) for delta in deltas]
    new = np.array([not isinstance(key, int) or key >= deltas[0].known for key in place], bool)
    for j, member in enumerate(empty_members(update, **options)):
        known = scattered_state(len(place), where, [delta.old[j] for delta in deltas], deltas[0].old[j])
        base = with_summary(member, deltas[0].before[j], known)
        engines = []
        for delta, places in zip(deltas, where, strict=True):
            own = State(*(a.copy() for a in known))
            for array, changed, fresh in zip(own, delta.new[j], delta.members[j].fresh, strict=True):
                if array.shape[0]:
                    array[new] = fresh  # of shards that have not seen the feature
                    array[places] = changed
            engines.append(with_summary(member, delta.members[j], own))
        direction = merge_direction(base, engines)
        states.append(direction.engine.state)
        costs.append(direction.cost)
        zeros.append(direction.zeros)
    return MergedBlock(list(place), first, states, costs, zeros)


def empty_members(
    update: Any, intercept: bool, average: bool, dtype: Any, compiled: bool, scores: Any
) -> list[UpdateEngine]:
    """Return an engine without features for every member."""
    return members_of(make_engine(update, plans_of(update, average), 0, intercept, average, dtype, compiled, scores))


def scattered_state(n: int, where: Sequence[Any], states: Sequence[State], like: State) -> State:
    """Return the state of n features from the states of some of them, at these places."""
    used = [n if any(state[j].shape[0] for state in states) else 0 for j in range(len(like))]
    found = State(*(np.zeros((rows, *a.shape[1:]), a.dtype) for rows, a in zip(used, like, strict=True)))
    for places, state in zip(where, states, strict=True):
        write_state(found, places, state)
    return found


def write_state(state: State, where: Any, some: State) -> None:
    """Write the state of some features into a state, at these places."""
    for array, its in zip(state, some, strict=True):
        if its.shape[0]:
            array[where] = its


def with_summary(member: UpdateEngine, summary: MemberSummary, state: State, intercept: bool = False) -> UpdateEngine:
    """Return a member with these features; the coordinator alone gives it an intercept."""
    new = copy.copy(member)
    own = State(*(a.copy() if intercept else a[:0] for a in summary.intercept))
    clock = {"ticks": summary.ticks.copy(), "uncounted": summary.uncounted.copy()}
    new.replace(**clock, fresh=summary.fresh, intercept=own, state=state, centering=None)
    return new


class BlockMerger(RoundMerger):
    """A `RoundMerger` whose features have been merged elsewhere, block by block: see the module.

    >>> from fiol.models.distributed_round import learn_shard
    >>> base = Learner(compiled=False)
    >>> score = base.learn_named({"a": 1.0}, 1)
    >>> shards = [([{"a": 1.0}, {"b": 1.0}], [1, -1]), ([{"c": -1.0}, {"a": 2.0}], [1, 1])]
    >>> results = [learn_shard(base, X, y, parts=2) for X, y in shards]
    >>> summaries, deltas = zip(*(shard_deltas(base, result, 3) for result in results))
    >>> blocks = [merge_block(base.update, some, **engine_options(base)) for some in zip(*deltas)]
    >>> merger = BlockMerger(base, summaries, blocks)
    >>> merger.full.names, merger.full.weights.tolist() == RoundMerger(base, results).full.weights.tolist()
    (['a', 'b', 'c'], True)
    """

    def __init__(self, base: Learner, summaries: Sequence[ShardSummary], blocks: Sequence[MergedBlock]) -> None:
        space, numbers = merged_space(base, summaries, blocks)
        features = space.features
        engine = grown_to(base.copy().core.engine, features).placed(np.arange(features), features)
        self._means = None
        if engine.centering is not None:
            self._means = pooled_means(engine.centering, [summary.centering for summary in summaries])
        members = members_of(engine)
        directions = [merged_direction(member, j, summaries, blocks, numbers) for j, member in enumerate(members)]
        self._merge = MergedUpdates(engine, members, directions, len(summaries))
        self._results = [ShardResult(base, summary.stack_rows, summary.rows, 0.0) for summary in summaries]
        self.base, self.full = (
            with_engine(base, engine, space),
            with_engine(base, self._merge.full(), space),
        )


class MergedUpdates(MemberMerge):
    """A `MemberMerge` of updates that have been merged already."""

    def __init__(
        self, base: Engine, members: Sequence[UpdateEngine], directions: list[MergeDirection], parts: int
    ) -> None:
        self.base, self.parts = base, parts
        self.set_directions(members, directions)


def merged_space(
    base: Learner, summaries: Sequence[ShardSummary], blocks: Sequence[MergedBlock]
) -> tuple[FeatureSpace, dict[Any, int]]:
    """Return a feature space with the features of the base and all shards, and the numbers of names new to the base."""
    keys = ((*first, key) for block in blocks for key, first in zip(block.keys, block.first, strict=True))
    names = [key for _, _, key in sorted(one for one in keys if not isinstance(one[2], int))]
    space = base.copy().core.space
    if isinstance(space.encoder, Vocabulary):
        more = FeatureSpace(None, None, None, space.counts_unseen, space.any_names)
        more.encoder, more.features, more.labels = Vocabulary(names), len(names), space.labels
        space, _ = merge_feature_spaces([space, more], ["base", "parts"])
    else:
        space.features = max(summary.features for summary in summaries)
    return space, {name: base.n_features + k for k, name in enumerate(names)}


def merged_direction(
    member: UpdateEngine,
    j: int,
    summaries: Sequence[ShardSummary],
    blocks: Sequence[MergedBlock],
    numbers: dict[Any, int],
) -> MergeDirection:
    """Return the merged update of member j: of its intercept, of features that no shard changed, and of the blocks."""
    nothing, own = part_of_state(member.state, slice(0, 0)), summaries_of([member])[0]
    apart = [with_summary(member, summary.members[j], nothing, intercept=True) for summary in summaries]
    direction = merge_direction(with_summary(member, own, nothing, intercept=True), apart)
    state, zeros, cost = State(*(a.copy() for a in member.state)), np.zeros(member.state.w.shape, bool), direction.cost
    silent = summaries[:1] if direction.straight else summaries  # a shard without a change adds nothing
    for start in range(0, member.state.w.shape[0], FEATURES_AT_ONCE):
        some = slice(start, start + FEATURES_AT_ONCE)
        same = part_of_state(member.state, some)
        engines = [with_summary(member, summary.members[j], same) for summary in silent]
        unchanged = merge_direction(with_summary(member, own, same), engines)
        write_state(state, some, unchanged.engine.state)
        zeros[some] = unchanged.zeros
    for block in blocks:
        places = np.array([key if isinstance(key, int) else numbers[key] for key in block.keys], np.int64)
        write_state(state, places, block.states[j])
        zeros[places] = block.zeros[j]
        cost += block.costs[j]
    direction.engine.replace(state=state, centering=member.centering)
    return MergeDirection(direction.engine, (member.state.w, direction.start[1]), cost, zeros, direction.straight)


def engine_options(learner: Learner) -> dict[str, Any]:
    """Return the options of the engine that `merge_block` needs."""
    core = learner.core
    scores = None if core.labels is None else len(core.labels)
    return {
        "intercept": core.intercept_fitted,
        "average": core.averages,
        "dtype": core.dtype,
        "compiled": core.compiled,
        "scores": scores,
    }
