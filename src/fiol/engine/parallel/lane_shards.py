"""What engines know together whose members all are lanes: as `fiol.engine.parallel.shards`, for all members at once.

These members have no penalties and see the same rows: a feature that a part has not seen has the record of the base.
So one pass over all records is enough (`fiol.engine.parallel.merge_kernels`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fiol.algorithms.state import aligned
from fiol.components.row import Floats
from fiol.components.step_sizes.rule import unit_of_steps
from fiol.engine.centering import Centering
from fiol.engine.ensemble.engine import EnsembleEngine
from fiol.engine.ensemble.lane_group import LaneGroup
from fiol.features.chunk import Chunk


class PartsRoom:
    """Memory for engines that go on from a base side by side, used again in every round: fresh pages cost time.

    Whoever begins a round has the records of its parts here, one after another; what they know together goes where the
    base of the round before was.
    """

    def __init__(self) -> None:
        self.tables = aligned(0, np.float64)
        self.spare = aligned(0, np.float64)

    def make(self, base: EnsembleEngine, parts: int) -> list[Any]:
        """A place for the records of each part."""
        records: Any = base.group.records  # type: ignore[union-attr]
        size = records.shape[0]
        if self.tables.shape[0] != parts * size or self.tables.dtype != records.dtype:
            self.tables, self.spare = aligned(parts * size, records.dtype), aligned(size, records.dtype)
        return [self.tables[k * size : (k + 1) * size] for k in range(parts)]

    def taken(self, base: EnsembleEngine) -> Any:
        """A place for what all know, which is theirs from now on; that of the base is the next."""
        found, self.spare = self.spare, base.group.records  # type: ignore[union-attr]
        return found


class LanePool:
    """As `fiol.engine.parallel.shards.Pool`, of engines whose members all are lanes (`EnsembleEngine.all_in_lanes`).

    With a room, in which the engines have their records, the base is nobody's after the pool has `moved`.
    """

    def __init__(self, base: EnsembleEngine, engines: Sequence[EnsembleEngine], room: PartsRoom | None = None) -> None:
        self.base, self.parts, self.room = base, len(engines), room
        from fiol.engine.parallel.merge_kernels import pool_records  # imported here: `import fiol` loads no compiler

        if base.centering is not None and base.centering.features.shape[0]:
            for engine in engines:  # in the frame of the base
                means: Any = engine.centering
                shift_lanes(engine, base.centering.features, base.centering.means - means.means)
        groups: list[LaneGroup] = [engine.group for engine in engines]  # type: ignore[misc]
        own: Any = base.group
        size = own.records.shape[0]
        tables = np.concatenate([group.records for group in groups]) if room is None else room.tables
        #: The engine whose weights go all the way.
        self.ahead = base.copy(aligned(size, own.dtype) if room is None else room.taken(base))
        new: Any = self.ahead.group
        step_scales, costs = step_scales_of([own, *groups]), np.zeros(own.width)
        pooled = own.zero, own.rules, step_scales, self.parts
        base.call(pool_records, *pooled, own.records, tables, new.records, costs)
        if own.has_intercept:
            ones = np.concatenate([group.intercept for group in groups])
            base.call(pool_records, *pooled, own.intercept, ones, new.intercept, costs)
        n = 1 + own.width
        new.ticks[:n] = own.ticks[:n] + sum(group.ticks[:n] - own.ticks[:n] for group in groups)
        new.ticks[n:] = np.max([group.ticks[n:] for group in groups], axis=0)
        #: The sum of h_i d_i^2 of every member.
        self.costs = costs[: len(own.engines)]

    def full(self) -> EnsembleEngine:
        """The engine whose weights go all the way, for whoever has the rows."""
        return self.ahead.copy()

    def moved(self, steps: Floats, means: Centering | None) -> EnsembleEngine:
        """The engine whose members go so far, by new means."""
        new, group, own = self.ahead, self.ahead.group, self.base.group
        assert group is not None
        assert own is not None
        if (steps < 1.0).any():
            s = np.ones(group.width)
            s[: len(steps)] = steps
            from fiol.engine.parallel.merge_kernels import go_part_way

            self.base.call(go_part_way, group.zero, own.records, s, group.records)
            self.base.call(go_part_way, group.zero, own.intercept, s, group.intercept)
        if means is not None and means.features.shape[0]:
            shift_lanes(new, means.features, means.means - self.base.centering.means)  # type: ignore[union-attr]
        new.replace(centering=means)
        return new


def step_scales_of(groups: Sequence[LaneGroup]) -> Floats:
    """The unit of steps of every lane, the largest of these; 1 where there is none."""
    found = np.ones(groups[0].width)
    for k, engine in enumerate(groups[0].engines):
        step_size = engine.plan.step_size
        if "stride" in step_size.statistics():
            ticks = [(group.ticks[1 + k], group.ticks[0]) for group in groups if group.ticks[0] > 0.0]
            largest = max((unit_of_steps(groups[0].loss, step_size.rule(), *both) for both in ticks), default=0.0)
            found[k] = largest or 1.0
    return found


def lane_scores(engine: EnsembleEngine, chunk: Chunk) -> Floats:
    """[row, member]: the scores of rows as members see them, by all members."""
    from fiol.engine.parallel.lane_scores import score_lanes

    group: Any = engine.group
    scores = group.new_scores(chunk.rows)
    known = group.records, group.intercept, float(group.has_intercept)
    engine.call(score_lanes, group.zero, chunk, *known, scores)
    return group.scores_of_members(scores)  # type: ignore[no-any-return]


def shift_lanes(engine: EnsembleEngine, features: Any, difference: Floats) -> None:
    """Let scores stay what they are where rows have so much more taken away than before."""
    group: Any = engine.group
    members = slice(len(group.engines))
    said = difference @ group.records.reshape(-1, 2, group.width)[features, 0].astype(np.float64)
    group.intercept.reshape(2, -1)[0, members] += said[members]
