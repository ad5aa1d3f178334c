"""The merge of engines that learned apart from each other since they were one, for rounds of parallel learning.

Each engine k went on from a copy of the base, with a shard of rows of its own. How far the weights of all together
move, the change d, is one rule (`fiol.components.step_sizes.merge`): for `Curvature` natural parameters add up, for
others the shards that updated a weight count alike. Features are correlated, which no record per feature shows, and
each engine has corrected for itself what all of them found wrong. So one more exact step follows, on the line w + s d:

    s = argmin  sum over all rows of the round  phi(<x, w + s d>; y)  +  s^2 / 2 sum_i h_i d_i^2,     1/K <= s <= 1

with the curvature h of earlier rows that the base has (0 where steps do not store it). Every shard computes the losses
of its own rows at a few s, and these add up (`ShardMerge.losses`). In an ensemble every member has an s of its own, and
the stack learns from the scores that the base's members gave the rows, before they were learned from.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fiol.algorithms.plan import Plan
from fiol.algorithms.state import START, Clock, State, Uncounted, aligned
from fiol.components.row import Floats
from fiol.components.step_sizes import merge_shards
from fiol.components.step_sizes.rule import unit_of_steps
from fiol.engine.centering import NO_TARGETS, Centering, less
from fiol.engine.engine import IN_ORDER, Engine
from fiol.engine.ensemble.engine import EnsembleEngine
from fiol.engine.ensemble.lane_group import LaneGroup
from fiol.engine.parallel.merge import (
    change_members,
    mean_of_updates,
    members_of,
    missing_of,
    move_means,
    products_with,
    shares_of,
    subtracted_means,
    weighed_places,
)
from fiol.engine.update_engine import UpdateEngine
from fiol.features.chunk import Chunk

#: The points of the line at which losses are computed.
ALONG = np.linspace(0.0, 1.0, 17)


class MergeDirection(NamedTuple):
    """The direction in which one member moves."""

    engine: UpdateEngine  #: the member after the full step
    start: tuple[Any, Any]  #: the base's weights of features, and of the intercept
    cost: float  #: the sum of h_i d_i^2
    zeros: Any  #: which weights are 0 in most of the shards that have any, and stay so
    straight: bool  #: whether weights are stored: otherwise the member is the mean of all, at every s


class ShardMerge(ABC):
    """The base and the full step of all shards: the common part of both kinds, see `merge_of`.

    All engines have the same plan, features and scores, and are up to date (`Engine.placed`).
    """

    #: For every member, the sum of h_i d_i^2.
    costs: Floats

    def __init__(self, base: Engine, engines: Sequence[Engine]) -> None:
        self.base, self.parts = base, len(engines)
        for engine in engines:
            move_centering(engine, base.centering)

    @abstractmethod
    def losses(self, chunk: Chunk, y: Any, sample_weights: Floats, before: Floats | None = None) -> Floats:
        """Return [member, point of ALONG]: sums of the losses of some rows, times sample weights.

        y are targets, or codes of classes; `before` the scores by the base's members, if they are known.
        """

    @abstractmethod
    def full(self) -> Engine:
        """Return the engine after the full step."""

    @abstractmethod
    def interpolated(self, steps: Floats) -> Engine:
        """Return the engine whose members make these parts of the full step; called once, at the end."""

    def finish(self, losses: Floats, means: Centering | None) -> tuple[Engine, Floats]:
        """Return the merged engine, given the losses of all rows and the new means; and the step of every member."""
        steps = best_steps(losses, self.costs, self.parts)
        new = self.interpolated(steps)
        new.replace(centering=self.base.centering)
        move_centering(new, means)
        new.replace(centering=means)
        return new, steps


class MemberMerge(ShardMerge):
    """A merge of members that are engines; `members` are those of the base, for reading."""

    def __init__(self, base: Engine, engines: Sequence[Engine], members: Sequence[UpdateEngine] | None = None) -> None:
        super().__init__(base, engines)
        members = members_of(base) if members is None else members
        together = zip(*(members_of(engine) for engine in engines), strict=True)
        self.set_directions(
            members, [merge_direction(own, list(of)) for own, of in zip(members, together, strict=True)]
        )

    def set_directions(self, members: Sequence[UpdateEngine], directions: list[MergeDirection]) -> None:
        """Use these members of the base, with the directions in which they move."""
        self.members, self.directions = members, directions
        self.costs = np.array([direction.cost for direction in directions])

    def losses(self, chunk: Chunk, y: Any, sample_weights: Floats, before: Floats | None = None) -> Floats:
        rows, full = (chunk, y, sample_weights), [direction.engine for direction in self.directions]
        return losses_of_members(self.base, self.members, full, *rows, self.parts, before)

    def full(self) -> Engine:
        if not isinstance(self.base, EnsembleEngine):
            return self.directions[0].engine
        new = self.base.copy()
        new.members = [direction.engine for direction in self.directions]
        return new

    def interpolated(self, steps: Floats) -> Engine:
        for s, direction in zip(steps, self.directions, strict=True):
            if direction.straight and s < 1.0:
                states = direction.engine.state, direction.engine.intercept
                for state, start in zip(states, direction.start, strict=True):
                    state.w[...] = start + s * (state.w - start)
            direction.engine.state.w[direction.zeros] = 0.0
        new = self.full()
        new.replace(centering=self.base.centering)
        return new


class ShardMemory:
    """Memory for the records of shards in lanes, used again in every round: pages that are new to a process cost time.

    The records of all shards follow each other. The merged records replace those of the base of the round before.
    """

    def __init__(self) -> None:
        self.tables = aligned(0, np.float64)
        self.spare = aligned(0, np.float64)

    def make(self, base: EnsembleEngine, parts: int) -> list[Any]:
        """Return an array for the records of each shard."""
        records: Any = base.group.records  # type: ignore[union-attr]
        size = records.shape[0]
        if self.tables.shape[0] != parts * size or self.tables.dtype != records.dtype:
            self.tables, self.spare = aligned(parts * size, records.dtype), aligned(size, records.dtype)
        return [self.tables[k * size : (k + 1) * size] for k in range(parts)]

    def exchange(self, base: EnsembleEngine) -> Any:
        """Return an array for merged records; that of the base is the next one."""
        found, self.spare = self.spare, base.group.records  # type: ignore[union-attr]
        return found


class LaneMerge(ShardMerge):
    """A merge of engines whose members are all in lanes and have no penalty (`lanes_alone`): one pass over all records.

    A shard that has not seen a feature has the record of the base. With a `memory`, which holds the records of the
    engines, the base must not be used after `finish`.
    """

    def __init__(
        self, base: EnsembleEngine, engines: Sequence[EnsembleEngine], memory: ShardMemory | None = None
    ) -> None:
        from fiol.engine.parallel.merge_kernels import merge_records  # imported here: `import fiol` loads no compiler

        super().__init__(base, engines)
        own: Any = base.group
        groups: list[LaneGroup] = [engine.group for engine in engines]  # type: ignore[misc]
        tables = np.concatenate([group.records for group in groups]) if memory is None else memory.tables
        #: The engine after the full step.
        self.ahead = base.copy(aligned(own.records.shape[0], own.dtype) if memory is None else memory.exchange(base))
        new: Any = self.ahead.group
        costs = np.zeros(own.width)
        given = own.zero, own.rules, step_scales_of([own, *groups]), self.parts
        base.call(merge_records, *given, own.records, tables, new.records, costs)
        if own.has_intercept:
            intercepts = np.concatenate([group.intercept for group in groups])
            base.call(merge_records, *given, own.intercept, intercepts, new.intercept, costs)
        n = 1 + own.width
        new.ticks[:n] = own.ticks[:n] + sum(group.ticks[:n] - own.ticks[:n] for group in groups)
        new.ticks[n:] = np.max([group.ticks[n:] for group in groups], axis=0)
        self.costs = costs[: len(own.engines)]

    def losses(self, chunk: Chunk, y: Any, sample_weights: Floats, before: Floats | None = None) -> Floats:
        return losses_along(self.base, self.ahead, chunk, y, sample_weights, self.parts, before)

    def full(self) -> EnsembleEngine:
        return self.ahead.copy()

    def interpolated(self, steps: Floats) -> EnsembleEngine:
        from fiol.engine.parallel.merge_kernels import interpolate

        own, new = self.base.group, self.ahead.group  # type: ignore[attr-defined]
        if (steps < 1.0).any():
            s = np.ones(own.width)
            s[: len(steps)] = steps
            self.base.call(interpolate, own.zero, own.records, s, new.records)  # type: ignore[union-attr]
            self.base.call(interpolate, own.zero, own.intercept, s, new.intercept)  # type: ignore[union-attr]
        return self.ahead


def merge_of(
    base: Engine,
    engines: Sequence[Engine],
    members: Sequence[UpdateEngine] | None = None,
    memory: ShardMemory | None = None,
) -> ShardMerge:
    """Return the merge of engines that went on from the base: in lanes if all members are lanes, else by member."""
    everyone: Any = [base, *engines]
    if all(map(lanes_alone, everyone)) and len({engine.group.records.shape for engine in everyone}) == 1:
        return LaneMerge(everyone[0], everyone[1:], memory)
    return MemberMerge(base, engines, members)


def lanes_alone(engine: Engine) -> bool:
    """Return whether all members of an engine are in lanes, none of them with a penalty."""
    return isinstance(engine, EnsembleEngine) and engine.all_in_lanes and not engine.group.with_ridge  # type: ignore[union-attr]


def best_steps(losses: Floats, costs: Floats, parts: int) -> Floats:
    """Return the part of the full step that every member makes, given its losses along the line and its cost."""
    along = np.where(np.isnan(losses), np.inf, losses) + 0.5 * np.outer(costs, ALONG**2)
    return np.maximum(ALONG[np.argmin(along, axis=1)], 1.0 / parts)


def first_point(parts: int) -> int:
    """Return the first point of `ALONG` that this many shards may choose: the last that is not beyond 1/K.

    >>> [first_point(parts) for parts in (1, 2, 3, 8, 32)]
    [16, 8, 5, 2, 0]
    """
    return (len(ALONG) - 1) // parts


def losses_along(
    base: Engine,
    full: Engine,
    chunk: Chunk,
    y: Any,
    sample_weights: Floats,
    parts: int,
    before: Floats | None = None,
) -> Floats:
    """Return [member, point of ALONG]: losses of rows on the line from the base to the engine after the full step.

    Points that this many shards do not choose are infinite: losses are convex, and others are nearer to the best.
    """
    from fiol.engine.parallel.merge_kernels import losses_of_lanes  # imported here: `import fiol` loads no compiler

    if not (lanes_alone(base) and lanes_alone(full)):
        return losses_of_members(base, members_of(base), members_of(full), chunk, y, sample_weights, parts, before)
    rows, found = rows_of_members(base, chunk), no_losses(len(base.ensemble.updates), parts)  # type: ignore[attr-defined]
    groups: Any = base.group, full.group  # type: ignore[attr-defined]
    scores = groups[0].scores(rows) if before is None else before, groups[1].scores(rows)
    loss = base.plan.problem.loss
    given = ALONG, first_point(parts), targets_of_members(base, y), sample_weights
    base.call(losses_of_lanes, loss, *map(np.ascontiguousarray, scores), *given, found)
    return found


def no_losses(members: int, parts: int) -> Floats:
    """Return [member, point of ALONG]: 0 at the points that this many shards may choose, infinity elsewhere."""
    found = np.full((members, len(ALONG)), np.inf)
    found[:, first_point(parts) :] = 0.0
    return found


def losses_of_members(
    base: Engine,
    members: Sequence[UpdateEngine],
    full: Sequence[UpdateEngine],
    chunk: Chunk,
    y: Any,
    sample_weights: Floats,
    parts: int,
    before: Floats | None = None,
) -> Floats:
    """Return `losses_along` for members that are engines: those of the base, and those after the full step."""
    from fiol.engine.round.reading import total_loss

    chunk, found, loss = rows_of_members(base, chunk), no_losses(len(members), parts), base.plan.problem.loss
    y = targets_of_members(base, y)
    for j, (own, other) in enumerate(zip(members, full, strict=True)):
        if not own.plan.anchor.keeps_all_rounds:
            z = own.scores(chunk) if before is None else np.ascontiguousarray(before[..., j])
            change, given = other.scores(chunk) - z, (IN_ORDER, y, sample_weights)
            for p in range(first_point(parts), len(ALONG)):
                found[j, p] = base.call(total_loss, loss, z + ALONG[p] * change, *given)[0]
    return found


def merge_direction(base: UpdateEngine, engines: list[UpdateEngine]) -> MergeDirection:
    """Return the direction of a member that was `base`, given one engine for every shard."""
    share = shares_of(None, [engine.rows for engine in engines], base.rows)
    new = mean_of_updates(engines, share, float(base.rows))
    if new.plan.anchor.keeps_all_rounds:  # sums of pulls that correct the same error would correct it many times
        return MergeDirection(new, (base.state.w, base.intercept.w), 0.0, np.zeros(base.state.w.shape, bool), False)
    clocks, before = [Clock(*engine.ticks) for engine in engines], Clock(*base.ticks)
    t = before.t + sum(clock.t - before.t for clock in clocks)
    slopes = before.slopes + sum(clock.slopes - before.slopes for clock in clocks)
    rows = base.rows + sum(engine.rows - base.rows for engine in engines)
    ticks = np.array(START._replace(t=t, eta=new.plan.step_size.eta(max(t, 1.0)), slopes=slopes))
    new.replace(ticks=ticks, uncounted=np.array(Uncounted(rows - t, 0.0)))
    parts: list[Any] = []
    for part, plan in (("state", new.plan), ("intercept", new.intercept_plan)):
        states = [getattr(engine, part) for engine in (base, *engines)]
        parts.append(merged_state(getattr(new, part), plan, states))
    zeros = np.zeros(base.state.w.shape, bool)
    if new.plan.regularizer.has_l1():
        zeros = zero_with_most(base.state, [engine.state for engine in engines])
    return MergeDirection(new, (parts[0][0], parts[1][0]), parts[0][1] + parts[1][1], zeros, True)


def merged_state(new: State, plan: Plan, states: Sequence[State]) -> tuple[Any, float]:
    """Write the merged state into `new`; return the base's weights, and the cost of the full step."""
    w = [np.asarray(state.w, np.float64) for state in states]
    if not w[0].shape[0]:
        return w[0], 0.0
    records = [np.asarray(state.statistics, np.float64) for state in states]
    updated = [
        updated_features(plan, records[0], record, w[0], own) for record, own in zip(records[1:], w[1:], strict=True)
    ]
    found = merge_shards(plan.step_size, records[0], records[1:], w[0], w[1:], updated)
    new.w[...], new.statistics[...] = found.w + found.change, found.records
    sums = {*plan.step_size.statistics()} - {"peak", "stride"}  # which change whenever a feature is seen
    if sums and plan.regularizer.has_l1():  # where no shard saw a feature, penalties stop at 0
        unseen = np.all([np.all(record == records[0], axis=1) for record in records[1:]], axis=0)
        new.w[(new.w * found.w < 0.0) & (unseen if found.w.ndim == 1 else unseen[:, None])] = 0.0
    moved = found.change**2 if found.change.ndim == 1 else np.sum(found.change**2, axis=1)
    return w[0], float(found.stiffness @ moved)


def updated_features(plan: Plan, base: Any, record: Any, w: Any, own: Any) -> Any:
    """Return which features a shard updated: whose weights changed, or, if penalties change all, whose sums did."""
    sums = [j for j, name in enumerate(plan.step_size.statistics()) if name not in ("peak", "stride")]
    if sums and (plan.regularizer.has_l1() or plan.regularizer.has_ridge()):
        return np.any(record[:, sums] != base[:, sums], axis=1)
    return own != w if w.ndim == 1 else np.any(own != w, axis=1)


def zero_with_most(base: State, states: Sequence[State]) -> Any:
    """Return which weights are exactly 0 in more than half of the shards that saw the feature or have a weight."""
    zeros = known = np.zeros(base.w.shape, int)
    for state in states:
        seen = np.any(state.statistics != base.statistics, axis=1)
        counts = (seen if base.w.ndim == 1 else seen[:, None]) | (base.w != 0.0) | (state.w != 0.0)
        zeros, known = zeros + (counts & (state.w == 0.0)), known + counts
    return zeros > known / 2


def pooled_means(base: Centering, others: Sequence[Any]) -> Centering:
    """Return the means of the rows of the base, and of the rows that each of the others has seen since.

    The origin of targets is that of the base. If it had none yet, that of the first of the others stays.
    """
    known = next((other for other in others if base.awaits_target and not other.awaits_target), None)
    if known is not None:
        base = base._replace(origin=known.origin, targets=NO_TARGETS)
    rows = base.rows + sum(other.rows - base.rows for other in others)
    if any(other.features.shape != base.features.shape for other in others):  # decided by shards of a few rows
        return base._replace(so_far=np.array([rows]))
    sums = base.sums + sum(other.sums - base.sums for other in others)
    widths = np.max([one.widths for one in (base, *others)], axis=0)
    return base._replace(so_far=np.array([rows]), sums=sums, widths=widths)


def move_centering(engine: Engine, new: Centering | None) -> None:
    """Use other means and another origin; change intercepts and missing values so that members' scores do not change.

    Nor do scores of an ensemble if its means change. If its origin moves by d, they change by d (1 - sum of the stack's
    weights): members keep what they predict, since it is members that are merged. In a merge that concerns shards
    only, whose stacks are not used: the merged origin is the base's, or that of a base without rows, whose stack has
    equal weights with the sum 1.
    """
    old = engine.centering
    if old is None or new is None:
        return
    shift = old.origin[0] - new.origin[0]
    features = np.union1d(old.features, new.features).astype(np.int32)
    if not features.shape[0] and not shift:
        return
    moved = np.zeros(len(features))
    moved[np.searchsorted(features, new.features)] += new.means
    moved[np.searchsorted(features, old.features)] -= old.means
    engine.replace(centering=new)
    missing = missing_of(engine, features)
    means = subtracted_means(new.features, new.means, missing)
    if lanes_alone(engine):
        group: Any = engine.group  # type: ignore[attr-defined]
        members = slice(len(group.engines))
        w = group.table(group.records)[:, 0, members]
        change, there = moved[:, None] * w[features].astype(np.float64), weighed_places(w, missing)
        group.intercept.reshape(2, -1)[0, members] += (1.0 - np.where(there, means, 0.0)) @ change + shift
        w[missing[there]] -= change[there]
        return
    change, seen = products_with(engine, features, moved), np.zeros(len(features), bool)
    for member in members_of(engine):
        seen |= weighed_places(member.state.w, missing)
    move_means(engine, missing, seen, change, means)
    if shift:
        change_members(engine, lambda member: member.shift(shift, shift))


def scores_of_members(engine: Engine, members: Sequence[Engine], chunk: Chunk) -> Floats:
    """Return the scores of rows by every member of an engine, the last axis."""
    chunk = rows_of_members(engine, chunk)
    if isinstance(engine, EnsembleEngine) and lanes_alone(engine):
        return engine.group.scores(chunk)  # type: ignore[union-attr]
    return np.stack([member.scores(chunk) for member in members], axis=-1)


def rows_of_members(engine: Engine, chunk: Chunk) -> Chunk:
    """Return the rows as members score them: an ensemble subtracts the means for all members."""
    return engine.centered(chunk) if isinstance(engine, EnsembleEngine) else chunk


def targets_of_members(engine: Engine, y: Any) -> Any:
    """Return the targets as members learn from them: an ensemble subtracts the origin for all members."""
    return less(y, engine.origin) if isinstance(engine, EnsembleEngine) else y


def step_scales_of(groups: Sequence[LaneGroup]) -> Floats:
    """Return the largest unit of steps of every lane; 1 where steps have none."""
    found = np.ones(groups[0].width)
    for k, engine in enumerate(groups[0].engines):
        step_size = engine.plan.step_size
        if "stride" in step_size.statistics():
            ticks = [(group.ticks[1 + k], group.ticks[0]) for group in groups if group.ticks[0] > 0.0]
            largest = max((unit_of_steps(groups[0].loss, step_size.rule(), *both) for both in ticks), default=0.0)
            found[k] = largest or 1.0
    return found
