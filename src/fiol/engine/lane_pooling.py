"""What engines know together whose members all are lanes: as `fiol.engine.pooling`, for all members at once.

These members have no penalties and see the same rows: a feature that a part has not seen has the record of the base.
So what follows is about features that some part has seen, and a few operations on arrays [feature, lane].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fiol.components.row import Floats
from fiol.engine.centring import Centring
from fiol.engine.ensemble import EnsembleEngine
from fiol.engine.lane_group import LaneGroup
from fiol.intake.chunk import Chunk


class LanePool:
    """As `fiol.engine.pooling.Pool`, of engines whose members all are lanes (`EnsembleEngine.all_in_lanes`)."""

    def __init__(self, base: EnsembleEngine, engines: Sequence[EnsembleEngine]) -> None:
        self.base, self.parts = base, len(engines)
        if base.centring is not None and base.centring.features.shape[0]:
            for engine in engines:  # in the frame of the base
                means: Any = engine.centring
                shift_lanes(engine, base.centring.features, base.centring.means - means.means)
        groups: list[LaneGroup] = [engine.group for engine in engines]  # type: ignore[misc]
        own: Any = base.group
        #: The engine whose weights go all the way.
        self.ahead = base.copy()
        new: Any = self.ahead.group
        tables = [group.records.reshape(-1, 2 * own.width) for group in (own, *groups)]
        moved = [np.any(table != tables[0], axis=1) for table in tables[1:]]
        self.features = np.flatnonzero(np.any(moved, axis=0))
        records = [table[self.features].astype(np.float64).reshape(-1, 2, own.width) for table in tables]
        strides = strides_of([own, *groups])
        found, costs = pool_lanes(own.rules, records, [one[self.features] for one in moved], strides)
        new.records.reshape(-1, 2, own.width)[self.features] = found
        #: The weights of the base, [feature, lane], and of its intercept.
        self.start = records[0][:, 0].copy(), own.intercept.reshape(2, -1)[0].astype(np.float64)
        if own.has_intercept:
            ones = [group.intercept.astype(np.float64).reshape(1, 2, -1) for group in (own, *groups)]
            found, more = pool_lanes(own.rules, ones, [np.ones(1, bool)] * len(groups), strides)
            new.intercept[...], costs = found.reshape(-1), costs + more
        n = 1 + own.width
        new.ticks[:n] = own.ticks[:n] + sum(group.ticks[:n] - own.ticks[:n] for group in groups)
        new.ticks[n:] = np.max([group.ticks[n:] for group in groups], axis=0)
        #: The sum of h_i d_i^2 of every member.
        self.costs = costs[: len(own.engines)]

    def scores(self, chunk: Chunk) -> tuple[Floats, Floats]:
        """[row, member]: the scores of rows before, and if weights go all the way."""
        rows = self.base.centred(chunk)
        return lane_scores(self.base, rows), lane_scores(self.ahead, rows)

    def full(self) -> EnsembleEngine:
        """The engine whose weights go all the way, for whoever has the rows."""
        return self.ahead.copy()

    def moved(self, steps: Floats, means: Centring | None) -> EnsembleEngine:
        """The engine whose members go so far, by new means."""
        new, group = self.ahead, self.ahead.group
        assert group is not None
        s = np.ones(group.width)
        s[: len(steps)] = steps
        if (steps < 1.0).any():
            table, intercept = group.records.reshape(-1, 2, group.width), group.intercept.reshape(2, -1)
            w = self.start[0] + s * (table[self.features, 0] - self.start[0])
            w[:, -1] = table[self.features, 0, -1]  # which is no weight
            table[self.features, 0] = w
            intercept[0, :-1] = (self.start[1] + s * (intercept[0] - self.start[1]))[:-1]
        if means is not None and means.features.shape[0]:
            shift_lanes(new, means.features, means.means - self.base.centring.means)  # type: ignore[union-attr]
        new.centring = means
        return new


def pool_lanes(rules: Floats, records: Sequence[Floats], seen: Sequence[Any], strides: Floats) -> tuple[Floats, Floats]:
    """Records [feature, 2, lane] of all together, of the base's and those of parts; and the cost of the way, per lane.

    `seen` says for every part which features it has seen; `strides` are the units of steps. Lanes whose sums are
    curvatures add natural parameters, others go the mean way of those who saw the feature: `StepSize.pooled`. Steps by
    the length of rows never end, so their weights are noisy: they go the mean way of all parts, and have less noise.
    """
    size, prior, _, _, length, _, bends, _, free, _ = rules.reshape(10, -1)
    curved, short, scaled, base = bends > 0.0, length > 0.0, free > 0.0, records[0]
    peak = np.max([one[:, 0, -1] for one in records], axis=0)

    def weights(one: Floats) -> Floats:  # in the unit of whoever has seen the largest value
        own = one[:, 0, -1]
        factor = np.divide(own, peak, out=np.ones(len(peak)), where=peak > own)
        return np.where(scaled, factor[:, None] * one[:, 0], one[:, 0])

    unit = prior * np.where(scaled, (peak * peak)[:, None], 1.0)
    before, after = unit + base[:, 1], base[:, 1] + sum(one[:, 1] - base[:, 1] for one in records[1:])
    known, among = unit + after, np.maximum(np.sum(seen, axis=0), 1)
    w, change = weights(base), np.zeros_like(base[:, 0])
    for one, saw in zip(records[1:], seen, strict=True):
        share = np.divide(unit + one[:, 1], known, out=np.zeros_like(known), where=known > 0.0)
        part = np.where(short, 1.0 / len(seen), (saw / among)[:, None])
        change += np.where(curved, share, part) * (weights(one) - w)
    found = np.stack([w + change, after], axis=1)
    found[:, 0, -1] = peak
    stiff = np.where(curved, before / np.where(curved, size, 1.0) / strides, 0.0)
    stiff[:, -1] = 0.0
    return found, np.sum(stiff * change**2, axis=0)


def strides_of(groups: Sequence[LaneGroup]) -> Floats:
    """The unit of steps of every lane, the largest of these; 1 where there is none."""
    found = np.ones(groups[0].width)
    for k, engine in enumerate(groups[0].engines):
        step_size = engine.plan.step_size
        if "stride" in step_size.statistics():
            ticks = [(group.ticks[1 + k], group.ticks[0]) for group in groups if group.ticks[0] > 0.0]
            largest = max((step_size.unit_of_steps(groups[0].loss, *both) for both in ticks), default=0.0)
            found[k] = largest or 1.0
    return found


def lane_scores(engine: EnsembleEngine, chunk: Chunk) -> Floats:
    """[row, member]: the scores of rows as members see them, by all members."""
    group: Any = engine.group
    scores = group.new_scores(chunk.rows)
    known = group.records, group.intercept, float(group.has_intercept)
    engine.call("score_lanes", group.zero, chunk, *known, scores)
    return group.scores_of_members(scores)  # type: ignore[no-any-return]


def shift_lanes(engine: EnsembleEngine, features: Any, difference: Floats) -> None:
    """Let scores stay what they are where rows have so much more taken away than before."""
    group: Any = engine.group
    members = slice(len(group.engines))
    said = difference @ group.records.reshape(-1, 2, group.width)[features, 0].astype(np.float64)
    group.intercept.reshape(2, -1)[0, members] += said[members]
