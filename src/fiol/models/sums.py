"""`fiol.models.together` for models too large to have many of in one place: features are shared out in blocks.

What parts of a round know together is known feature by feature, but for intercepts and clocks, which are a few numbers.
So each part tells what it changed, by blocks of features; whoever has a block puts together what all parts tell of it;
and the director has one model, not one for every part.

| who | does |
|---|---|
| each part | `shell, blocks = told_by(base, part, 8)`: a few numbers for the director, and changes in 8 blocks |
| each block | `pooled = pooled_block(base.update, [told, ...])`: of what all parts told, in their order |
| the director | `Summed(base, [shell, ...], [pooled, ...])`: a `Together` like any other |

The result is that of `Together(base, parts)` to rounding, since costs are added block by block, and the sum of many
equal numbers may differ from one of them in its last digit. It does not depend on who comes first.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from fiol.components.row import Floats
from fiol.engine.engine import Engine
from fiol.engine.ensemble import make_engine
from fiol.engine.merging import members_of
from fiol.engine.pooling import Pool, Way, move_frame, pooled_means, way_of
from fiol.intake.intake import Intake
from fiol.intake.uniting import united
from fiol.intake.vocabulary import Vocabulary
from fiol.learner import Learner, plans_of
from fiol.models.together import PartLearned, Together
from fiol.update.state import State

#: So many features nobody tells of are looked at together.
FEATURES_AT_ONCE = 2**16


class MemberShell(NamedTuple):
    """A member without its features."""

    ticks: Floats
    uncounted: Floats
    fresh: State
    intercept: State


class PartShell(NamedTuple):
    """What the director needs of one part, besides the features."""

    members: list[MemberShell]
    centring: Any  #: the part's own means
    features: int  #: how many it has
    shown: tuple[Any, Any, Any]  #: see `PartLearned`
    rows: int


class ToldBlock(NamedTuple):
    """What one part changed in one block of features."""

    members: list[MemberShell]
    before: list[MemberShell]  #: the base's
    known: int  #: how many features the base has
    keys: list[Any]  #: of features, in their order: the number of one that the base has, or its name
    numbers: Any  #: their numbers with the part
    old: list[State]  #: what the base knows of them, for every member
    new: list[State]  #: and what the part does


class PooledBlock(NamedTuple):
    """What all parts know of the features of one block that any of them changed."""

    keys: list[Any]
    first: list[tuple[int, int]]  #: the first part that has each, and its number there
    states: list[State]  #: for every member
    costs: list[float]
    zeros: list[Any]


def told_by(base: Learner, part: PartLearned, blocks: int) -> tuple[PartShell, list[ToldBlock]]:
    """What a part of a round that went on from a copy of the base has to tell, in so many blocks."""
    own, other = part.learner.engine, base.copy().engine
    centring = own.centring
    features = part.learner.n_features
    own, other = (engine.placed(np.arange(features), features) for engine in (own, grown_to(other, features)))
    if centring is not None:
        known: Any = other.centring
        if tuple(centring.features) != tuple(known.features):
            raise ValueError("parts have centred other columns than the base: let the base learn from more rows first")
        if known.features.shape[0]:
            move_frame(own, centring.means, known.means)
    members, before = members_of(own), members_of(other)
    shells, old_shells = shells_of(members), shells_of(before)
    changed = np.zeros(features, bool)
    for mine, its in zip(members, before, strict=True):
        for a, b in zip(mine.state, its.state, strict=True):
            if a.shape[0]:
                changed |= differs(a, b)
    changed[base.n_features :] = True
    where = np.flatnonzero(changed)
    keys = feature_keys(part.learner, base.n_features, where)
    block = np.array([key % blocks if isinstance(key, int) else crc32(str(key).encode()) % blocks for key in keys])
    told = []
    for k in range(blocks):
        chosen = np.flatnonzero(block == k)
        some = where[chosen]
        states = [[part_of_state(m.state, some) for m in engines] for engines in (before, members)]
        told.append(ToldBlock(shells, old_shells, base.n_features, [keys[j] for j in chosen], some, *states))
    return PartShell(shells, centring, features, part.shown, part.rows), told


def grown_to(engine: Engine, features: int) -> Engine:
    """The engine with room for so many features."""
    engine.grow(features)
    return engine


def differs(a: Any, b: Any) -> Any:
    """Which records are not the same."""
    return (a != b) if a.ndim == 1 else (a != b).any(axis=tuple(range(1, a.ndim)))


def feature_keys(learner: Learner, known: int, features: Any) -> list[Any]:
    """The keys of features: numbers, but names of those that the base does not know, where there are names."""
    encoder = learner._intake.encoder
    if not isinstance(encoder, Vocabulary):
        return features.tolist()  # type: ignore[no-any-return]
    return [i if i < known else encoder.names[i] for i in features.tolist()]


def shells_of(members: Sequence[Engine]) -> list[MemberShell]:
    """All members without their features."""
    return [MemberShell(one.ticks, one.uncounted, one.fresh, one.intercept) for one in members]


def part_of_state(state: State, features: Any) -> State:
    """What is known of some features; arrays that are not used stay empty."""
    return State(*(a[features] if a.shape[0] else a for a in state))


def pooled_block(update: Any, told: Sequence[ToldBlock], **options: Any) -> PooledBlock:
    """What all parts know together of the features of a block, from what each told, in the order of the parts.

    `options` are those of the engine (`options_of`): intercept, average, dtype, compiled, scores.
    """
    place, first = dict[Any, int](), list[tuple[int, int]]()
    for k, one in enumerate(told):
        for key, number in zip(one.keys, one.numbers.tolist(), strict=True):
            if place.setdefault(key, len(place)) == len(first):
                first.append((k, number))
    states, costs, zeros = list[State](), list[float](), list[Any]()
    where = [np.array([place[key] for key in one.keys], np.int64) for one in told]
    met = np.array([not isinstance(key, int) or key >= told[0].known for key in place], bool)
    for j, member in enumerate(blank_members(update, **options)):
        known = spread_out(len(place), where, [one.old[j] for one in told], told[0].old[j])
        base = with_shell(member, told[0].before[j], known)
        engines = []
        for one, spots in zip(told, where, strict=True):
            own = State(*(a.copy() for a in known))
            for array, new, fresh in zip(own, one.new[j], one.members[j].fresh, strict=True):
                if array.shape[0]:
                    array[met] = fresh  # whoever has not met a feature
                    array[spots] = new
            engines.append(with_shell(member, one.members[j], own))
        way = way_of(base, engines)
        states.append(way.engine.state)
        costs.append(way.cost)
        zeros.append(way.zeros)
    return PooledBlock(list(place), first, states, costs, zeros)


def blank_members(update: Any, intercept: bool, average: bool, dtype: Any, compiled: bool, scores: Any) -> list[Engine]:
    """An engine without features for every member."""
    return members_of(make_engine(update, plans_of(update, average), 0, intercept, average, dtype, compiled, scores))


def spread_out(n: int, where: Sequence[Any], states: Sequence[State], like: State) -> State:
    """What several parts know of n features between them, each of some: at these places."""
    used = [n if any(state[j].shape[0] for state in states) else 0 for j in range(len(like))]
    found = State(*(np.zeros((rows, *a.shape[1:]), a.dtype) for rows, a in zip(used, like, strict=True)))
    for spots, state in zip(where, states, strict=True):
        put_into(found, spots, state)
    return found


def put_into(state: State, where: Any, some: State) -> None:
    """Write what is known of some features into a state, at these places."""
    for array, its in zip(state, some, strict=True):
        if its.shape[0]:
            array[where] = its


def with_shell(member: Engine, shell: MemberShell, state: State) -> Engine:
    """A member with these features, and no intercept: that is for the director."""
    new = copy.copy(member)
    new.ticks, new.uncounted, new.fresh = shell.ticks.copy(), shell.uncounted.copy(), shell.fresh
    new.intercept = State(*(a[:0] for a in shell.intercept))
    new.state, new.centring = state, None
    return new


class Summed(Together):
    """What parts know together, of which others have put the features together, block by block: see the module.

    >>> from fiol.models.together import learn_part, losses_on_the_way
    >>> base = Learner(compiled=False)
    >>> score = base.learn_named({"a": 1.0}, 1)
    >>> rows = [([{"a": 1.0}, {"b": 1.0}], [1, -1]), ([{"c": -1.0}, {"a": 2.0}], [1, 1])]
    >>> parts = [learn_part(base, X, y, parts=2) for X, y in rows]
    >>> shells, told = zip(*(told_by(base, part, 3) for part in parts))
    >>> pooled = [pooled_block(base.update, some, **options_of(base)) for some in zip(*told)]
    >>> summed = Summed(base, shells, pooled)
    >>> summed.full.names, summed.full.weights.tolist() == Together(base, parts).full.weights.tolist()
    (['a', 'b', 'c'], True)
    """

    def __init__(self, base: Learner, shells: Sequence[PartShell], pooled: Sequence[PooledBlock]) -> None:
        keys = ((*first, key) for block in pooled for key, first in zip(block.keys, block.first, strict=True))
        names = [key for _, _, key in sorted(one for one in keys if not isinstance(one[2], int))]
        intake = base.copy()._intake
        features = max(shell.features for shell in shells)
        if isinstance(intake.encoder, Vocabulary):
            more = Intake(None, None, None, intake.counts_unseen, intake.any_names)
            more.encoder, more.features, more.labels = Vocabulary(names), len(names), intake.labels
            intake, _ = united([intake, more], ["base", "parts"])
            features = intake.features
        else:
            intake.features = features
        number = {name: base.n_features + k for k, name in enumerate(names)}
        engine = grown_to(base.copy().engine, features).placed(np.arange(features), features)
        self._means = None
        if engine.centring is not None:
            self._means = pooled_means(engine.centring, [shell.centring for shell in shells])
        pool = self._pool = object.__new__(Pool)
        pool.base, pool.parts, pool.members = engine, len(shells), members_of(engine)
        pool.ways = []
        for j, member in enumerate(pool.members):
            nothing = part_of_state(member.state, slice(0, 0))
            apart = [with_intercept(member, shell.members[j], nothing) for shell in shells]
            own = with_intercept(member, shells_of([member])[0], nothing)
            way = way_of(own, apart)
            state, zeros, cost = (
                State(*(a.copy() for a in member.state)),
                np.zeros(member.state.w.shape, bool),
                way.cost,
            )
            silent = shells[:1] if way.straight else shells  # who says nothing of a feature adds nothing
            for start in range(0, features, FEATURES_AT_ONCE):
                some = slice(start, start + FEATURES_AT_ONCE)
                same = part_of_state(member.state, some)
                told = [with_shell(member, shell.members[j], same) for shell in silent]
                alone = way_of(with_shell(member, shells_of([member])[0], same), told)
                put_into(state, some, alone.engine.state)
                zeros[some] = alone.zeros
            for block in pooled:
                spots = np.array([key if isinstance(key, int) else number[key] for key in block.keys], np.int64)
                put_into(state, spots, block.states[j])
                zeros[spots] = block.zeros[j]
                cost += block.costs[j]
            way.engine.state, way.engine.centring = state, member.centring
            pool.ways.append(Way(way.engine, (member.state.w, way.start[1]), cost, zeros, way.straight))
        self._parts = [PartLearned(base, shell.shown, shell.rows, 0.0) for shell in shells]
        self.base, self.full = base.with_engine(engine, intake), base.with_engine(pool.full(), intake)


def with_intercept(member: Engine, shell: MemberShell, state: State) -> Engine:
    """A member with these features, and the intercept of a shell."""
    new = with_shell(member, shell, state)
    new.intercept = State(*(a.copy() for a in shell.intercept))
    return new


def options_of(learner: Learner) -> dict[str, Any]:
    """What `pooled_block` needs to know of a learner."""
    scores = None if learner.classes is None else len(learner.classes)
    return {
        "intercept": learner.intercept_fitted,
        "average": learner.averages,
        "dtype": learner.dtype,
        "compiled": learner.compiled,
        "scores": scores,
    }
