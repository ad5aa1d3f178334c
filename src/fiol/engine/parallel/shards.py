"""What engines have learned apart from each other, since they were one, put together: for rounds of parallel work.

Each engine k went on from a copy of the base, with rows of its own. How far the weights of all together go, the
change d, is one rule (`fiol.components.step_sizes.merge`): for `Curvature` natural parameters add up, for others the
shards that updated a weight count alike. Features are correlated, which no record per feature knows, and each engine
has corrected for itself what all of them found wrong. So one more exact step follows, along the line w + s d:

    s = argmin  sum over all rows of the round  phi(<x, w + s d>; y)  +  s^2 / 2 sum_i h_i d_i^2,     1/K <= s <= 1

with what the base knows of earlier rows, h (0 where steps do not know). Whoever has the rows adds up `Pool.losses`, at
a few s; nobody needs all of them. In an ensemble every member has an s of its own, and the stack learns from the scores
that the base's members gave the rows, before they were learned from.

Rounds grow with the rows so far, so that there are few of them, and none changes much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from fiol.algorithms.plan import Plan
from fiol.algorithms.state import START, Clock, State, Uncounted
from fiol.components.row import Floats
from fiol.components.step_sizes import merge_shards
from fiol.engine.centering import Centering
from fiol.engine.engine import IN_ORDER, Engine
from fiol.engine.ensemble.engine import EnsembleEngine
from fiol.engine.ensemble.stack_state import FROZEN
from fiol.engine.parallel.lane_shards import LanePool, PartsRoom, lane_scores
from fiol.engine.parallel.merge import at_means, change_members, mean_of_updates, members_of, shares_of
from fiol.engine.update_engine import UpdateEngine
from fiol.features.chunk import Chunk

#: Does one thing for each of many, perhaps in threads.
Each = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
#: Rows, their targets or codes of classes, and sample weights.
Given = tuple[Chunk, Any, Floats]
#: Where losses are computed along the line.
ALONG = np.linspace(0.0, 1.0, 17)


class Way(NamedTuple):
    """How far one member goes."""

    engine: UpdateEngine  #: the member if its weights go all the way
    start: tuple[Any, Any]  #: the base's weights of features, and of the intercept
    cost: float  #: the sum of h_i d_i^2
    zeros: Any  #: which weights are 0 with most of those who say anything of them, and stay so
    straight: bool  #: whether weights are what is kept: otherwise the member is the mean of all, at every s


class Pool:
    """The base, and what the engines know together.

    All engines have the same plan, features and scores, and are up to date (`Engine.placed`).
    """

    def __init__(self, base: Engine, engines: Sequence[Engine], members: Sequence[UpdateEngine] | None = None) -> None:
        self.base, self.parts = base, len(engines)
        self.members = members_of(base) if members is None else members  #: the base's, for reading
        centred = base.centering is not None and base.centering.features.shape[0] > 0
        for engine in engines:
            if centred:  # in the frame of the base
                move_frame(engine, engine.centering.means, base.centering.means)  # type: ignore[union-attr]
                engine.replace(centering=base.centering)
        together = zip(*(members_of(engine) for engine in engines), strict=True)
        self.ways = [way_of(own, list(others)) for own, others in zip(self.members, together, strict=True)]

    def losses(self, chunk: Chunk, y: Any, sample_weights: Floats, before: Floats | None = None) -> Floats:
        """[member, point of ALONG]: the sum of the losses of some rows, each times its sample weight.

        y are targets, or codes of classes; `before` the scores by the base's members, if they are known.
        """
        ahead, rows = [way.engine for way in self.ways], (chunk, y, sample_weights)
        return losses_of_members(self.base, self.members, ahead, *rows, self.parts, before)

    def full(self) -> Engine:
        """The engine whose weights go all the way, for whoever computes `losses_along` elsewhere."""
        if not isinstance(self.base, EnsembleEngine):
            return self.ways[0].engine
        new = self.base.copy()
        new.members = [way.engine for way in self.ways]
        return new

    def ended(self, losses: Floats, means: Centering | None) -> tuple[Engine, Floats]:
        """The engine whose weights go as far as the losses of all rows say, by new means; and how far that is."""
        chosen = steps_chosen(losses, np.array([way.cost for way in self.ways]), self.parts)
        for s, way in zip(chosen, self.ways, strict=True):
            if way.straight and s < 1.0:
                for state, start in zip((way.engine.state, way.engine.intercept), way.start, strict=True):
                    state.w[...] = start + s * (state.w - start)
            way.engine.state.w[way.zeros] = 0.0
        new = self.base.copy()
        if isinstance(new, EnsembleEngine):
            new.members = [way.engine for way in self.ways]
        else:
            new = self.ways[0].engine
            new.replace(centering=self.base.centering)
        if means is not None and means.features.shape[0]:
            move_frame(new, self.base.centering.means, means.means)  # type: ignore[union-attr]
        new.replace(centering=means)
        return new, chosen


class PoolInLanes(LanePool):
    """`Pool` for engines whose members all are lanes: the same of all members at once."""

    def losses(self, chunk: Chunk, y: Any, sample_weights: Floats, before: Floats | None = None) -> Floats:
        """As of `Pool`."""
        return losses_along(self.base, self.ahead, chunk, y, sample_weights, self.parts, before)

    def ended(self, losses: Floats, means: Centering | None) -> tuple[Engine, Floats]:
        """As of `Pool`."""
        chosen = steps_chosen(losses, self.costs, self.parts)
        return self.moved(chosen, means), chosen


def pool_of(
    base: Engine,
    engines: Sequence[Engine],
    members: Sequence[UpdateEngine] | None = None,
    room: PartsRoom | None = None,
) -> Pool | PoolInLanes:
    """What the base and engines that went on from it know together, however they keep it."""
    everyone: Any = [base, *engines]
    if all(map(lanes_alone, everyone)) and len({engine.group.records.shape for engine in everyone}) == 1:
        return PoolInLanes(everyone[0], everyone[1:], room)
    return Pool(base, engines, members)


def lanes_alone(engine: Engine) -> bool:
    """Whether an engine has members that all are lanes, none of them with a penalty."""
    return isinstance(engine, EnsembleEngine) and engine.all_in_lanes and not engine.group.with_ridge  # type: ignore[union-attr]


def steps_chosen(losses: Floats, costs: Floats, parts: int) -> Floats:
    """How far each member goes, by its losses along the way and what the way costs."""
    along = np.where(np.isnan(losses), np.inf, losses) + 0.5 * np.outer(costs, ALONG**2)
    return np.maximum(ALONG[np.argmin(along, axis=1)], 1.0 / parts)


def first_point(parts: int) -> int:
    """The first point of `ALONG` that so many parts may choose: the last that is not beyond 1/K.

    >>> [first_point(parts) for parts in (1, 2, 3, 8, 32)]
    [16, 8, 5, 2, 0]
    """
    return (len(ALONG) - 1) // parts


def losses_along(
    base: Engine,
    ahead: Engine,
    chunk: Chunk,
    y: Any,
    sample_weights: Floats,
    parts: int,
    before: Floats | None = None,
) -> Floats:
    """[member, point of ALONG]: losses of rows on the way from the base to the engine that goes all of it.

    Points that so many parts do not choose are infinite: losses are convex, and there are others nearer to the best.
    """
    from fiol.engine.parallel.merge_kernels import losses_of_lanes  # imported here: `import fiol` loads no compiler

    if not (lanes_alone(base) and lanes_alone(ahead)):
        return losses_of_members(base, members_of(base), members_of(ahead), chunk, y, sample_weights, parts, before)
    rows, found = rows_of_members(base, chunk), no_losses(len(base.ensemble.updates), parts)  # type: ignore[attr-defined]
    scores = lane_scores(base, rows) if before is None else before, lane_scores(ahead, rows)  # type: ignore[arg-type]
    loss, given = base.plan.problem.loss, (ALONG, first_point(parts), y, sample_weights)
    base.call(losses_of_lanes, loss, *map(np.ascontiguousarray, scores), *given, found)
    return found


def no_losses(members: int, parts: int) -> Floats:
    """[member, point of ALONG]: 0 at the points that parts may choose."""
    found = np.full((members, len(ALONG)), np.inf)
    found[:, first_point(parts) :] = 0.0
    return found


def losses_of_members(
    base: Engine,
    members: Sequence[UpdateEngine],
    ahead: Sequence[UpdateEngine],
    chunk: Chunk,
    y: Any,
    sample_weights: Floats,
    parts: int,
    before: Floats | None = None,
) -> Floats:
    """`losses_along` for members that are engines, those of the base and those that go all the way."""
    from fiol.engine.round.reading import total_loss

    chunk, found, loss = rows_of_members(base, chunk), no_losses(len(members), parts), base.plan.problem.loss
    for j, (own, other) in enumerate(zip(members, ahead, strict=True)):
        if not own.plan.anchor.keeps_all_rounds:
            z = own.scores(chunk) if before is None else np.ascontiguousarray(before[..., j])
            way, given = other.scores(chunk) - z, (IN_ORDER, y, sample_weights)
            for p in range(first_point(parts), len(ALONG)):
                found[j, p] = base.call(total_loss, loss, z + ALONG[p] * way, *given)[0]
    return found


def way_of(base: UpdateEngine, engines: list[UpdateEngine]) -> Way:
    """How far a member goes that was `base`, and of which each engine has learned from some rows since."""
    share = shares_of(None, [engine.rows for engine in engines], base.rows)
    new = mean_of_updates(engines, share, float(base.rows))
    if new.plan.anchor.keeps_all_rounds:  # sums of pulls that correct the same error would correct it many times
        return Way(new, (base.state.w, base.intercept.w), 0.0, np.zeros(base.state.w.shape, bool), False)
    clocks, before = [Clock(*engine.ticks) for engine in engines], Clock(*base.ticks)
    t = before.t + sum(clock.t - before.t for clock in clocks)
    slopes = before.slopes + sum(clock.slopes - before.slopes for clock in clocks)
    rows = base.rows + sum(engine.rows - base.rows for engine in engines)
    ticks = np.array(START._replace(t=t, eta=new.plan.step_size.eta(max(t, 1.0)), slopes=slopes))
    new.replace(ticks=ticks, uncounted=np.array(Uncounted(rows - t, 0.0)))
    parts: list[Any] = []
    for part, plan in (("state", new.plan), ("intercept", new.intercept_plan)):
        states = [getattr(engine, part) for engine in (base, *engines)]
        parts.append(pool_state(getattr(new, part), plan, states))
    zeros = np.zeros(base.state.w.shape, bool)
    if new.plan.regularizer.has_l1():
        zeros = zero_with_most(base.state, [engine.state for engine in engines])
    return Way(new, (parts[0][0], parts[1][0]), parts[0][1] + parts[1][1], zeros, True)


def pool_state(new: State, plan: Plan, states: Sequence[State]) -> tuple[Any, float]:
    """Write what all know together into a state; returns the base's weights, and the cost of the way."""
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
    if sums and plan.regularizer.has_l1():  # penalties add up to 0, not beyond it, where nobody saw a feature
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
    """Which weights are exactly 0 with more than half of those who have seen the feature, or had a weight to lose."""
    zeros = known = np.zeros(base.w.shape, int)
    for state in states:
        seen = np.any(state.statistics != base.statistics, axis=1)
        heard = (seen if base.w.ndim == 1 else seen[:, None]) | (base.w != 0.0) | (state.w != 0.0)
        zeros, known = zeros + (heard & (state.w == 0.0)), known + heard
    return zeros > known / 2


def pooled_means(base: Centering, others: Sequence[Any]) -> Centering:
    """The means of what the base has seen, and of what each of the others has seen since."""
    rows = base.rows + sum(other.rows - base.rows for other in others)
    sums = base.sums + sum(other.sums - base.sums for other in others)
    return base._replace(so_far=np.array([rows]), sums=sums)


def move_frame(engine: Engine, old: Floats, new: Floats) -> None:
    """Let scores stay what they are where rows have other means taken away than before."""
    features: Any = engine.centering.features  # type: ignore[union-attr]
    shifts = iter(at_means(engine, features, new - old))
    change_members(engine, lambda member: member.shift(*next(shifts)))


def scores_of_members(engine: Engine, members: Sequence[Engine], chunk: Chunk) -> Floats:
    """The scores of rows by every member of an engine, the last axis."""
    chunk = rows_of_members(engine, chunk)
    if isinstance(engine, EnsembleEngine) and lanes_alone(engine):
        return lane_scores(engine, chunk)
    return np.stack([member.scores(chunk) for member in members], axis=-1)


def rows_of_members(engine: Engine, chunk: Chunk) -> Chunk:
    """The rows as members see them: an ensemble takes the means away for all of them."""
    return engine.centred(chunk) if isinstance(engine, EnsembleEngine) else chunk


# --- rounds -----------------------------------------------------------------------------------

#: So many rows are learned from alone at first.
ALONE = 2000
#: A round has so many rows for every row before it,
GROWTH = 0.1
#: and on one machine, whose memory holds them, at most so many.
MOST_IN_ROUND = 2**18
#: So many rows of a round, evenly spaced, say how far its weights go, and teach the stack, which has few weights.
SEARCH_ROWS = 4096


def round_ends(rows: int, before: int) -> list[int]:
    """Where rounds end, in `rows` rows that follow `before` others; the first of them may be learned from alone.

    >>> round_ends(5000, 0), round_ends(1000, 5000), round_ends(900, 0)
    ([2000, 2200, 2420, 2662, 2928, 3220, 3542, 3896, 4285, 4713, 5000], [0, 500, 1000], [900])
    """
    ends, sizes = [0], rows_of_rounds(before)
    while ends[-1] < rows:
        ends.append(min(ends[-1] + next(sizes), rows))
    return ends if before >= ALONE or not rows else ends[1:]


def rows_of_rounds(before: int) -> Iterator[int]:
    """How many rows the next rounds have, after so many others; those that are learned from alone are one.

    >>> sizes = rows_of_rounds(0)
    >>> next(sizes), next(sizes), next(sizes), next(rows_of_rounds(10**9))
    (2000, 200, 220, 262144)
    """
    while True:
        size = ALONE - before if before < ALONE else min(max(int(GROWTH * before), 1), MOST_IN_ROUND)
        yield size
        before += size


def learn_in_rounds(
    engine: Engine, chunk: Chunk, y: Any, sample_weights: Floats, parts: int, each: Each = map
) -> tuple[Engine, Floats]:
    """An engine that has learned from the rows, each round in so many parts; and the score of each row before.

    The score is that of the part that learned from the row. The engine given has learned from some of them, too. The
    result depends on `parts`, not on how `each` maps functions to them.
    """
    scores = np.zeros((chunk.rows, *engine.trailing))
    engine.fit_in(chunk)
    first, *ends = round_ends(chunk.rows, engine.rows)
    if first:
        rows = slice(0, first)
        scores[rows] = engine.learn(chunk.row_block(0, first), y[rows], sample_weights[rows])
    room = PartsRoom()
    for start, stop in pairwise([first, *ends]):
        cuts = np.linspace(start, stop, min(parts, stop - start) + 1).astype(int)
        pieces = [(chunk.row_block(a, b), y[a:b], sample_weights[a:b]) for a, b in pairwise(cuts)]
        engine, scores[start:stop] = round_in_parts(engine, pieces, each, room)
    if isinstance(engine, EnsembleEngine):
        engine.ticks[FROZEN] = 0.0  # who said that rows come again said so of the engine given
    return engine, scores


def round_in_parts(
    engine: Engine, pieces: Sequence[Given], each: Each = map, room: PartsRoom | None = None
) -> tuple[Engine, Floats]:
    """The engine after a round whose parts are these, and the score of each row before; there must be room for them.

    With memory for its parts, the round takes that of the engine in return.
    """
    engine.settle()
    lanes: Any = engine if lanes_alone(engine) else None
    members = members_of(engine) if lanes is None else []
    places = [None] * len(pieces) if room is None or lanes is None else room.make(lanes, len(pieces))
    work = partial(part_of_round, engine, members, len(pieces))
    done = list(each(lambda k: work(pieces[k], places[k]), range(len(pieces))))
    pool = pool_of(engine, [part.engine for part in done], members or None, room)
    losses = np.sum(list(each(partial(losses_of_some, pool), done)), axis=0)
    means = None if engine.centering is None else pooled_means(engine.centering, [part.means for part in done])
    new, _ = pool.ended(losses, means)
    if isinstance(new, EnsembleEngine):
        shown = (np.concatenate(some) for some in zip(*((p.said, *p.some[1:]) for p in done), strict=True))
        teach_stack(new, sum(piece[0].rows for piece in pieces), *shown)
    return new, np.concatenate([part.scores for part in done])


@contextmanager
def in_threads(threads: int) -> Iterator[Each]:
    """A `map` that works in so many threads; with one, the plain one.

    An interrupt does not wait for what threads are about, which nobody has a use for then.

    >>> with in_threads(2) as each:
    ...     list(each(abs, [-1, 2]))
    [1, 2]
    """
    if threads == 1:
        yield map
        return
    pool = ThreadPoolExecutor(threads)
    try:
        yield pool.map
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


class PartOfRound(NamedTuple):
    """What one part of a round gave."""

    engine: Engine
    means: Centering | None  #: the engine's own
    scores: Floats  #: of the rows, each before it was learned from
    some: Given  #: rows that say how far weights go, and teach the stack
    said: Floats  #: the scores of these, by members of the base


def part_of_round(base: Engine, members: Sequence[Engine], parts: int, rows: Given, records: Any = None) -> PartOfRound:
    """Learn from some rows, one of so many parts of a round, with a copy of the base, which has these members.

    The copy has its records there, if that is given.
    """
    engine = base.copy() if records is None else base.copy(records)  # type: ignore[call-arg]
    some = some_of(rows, SEARCH_ROWS // parts)
    said = scores_of_members(base, members, some[0])
    scores = engine.learn(*rows)
    engine.settle()
    return PartOfRound(engine, engine.centering, scores, some, said)


def losses_of_some(pool: Pool | PoolInLanes, part: PartOfRound) -> Floats:
    """`Pool.losses`, of some of the rows for all of them."""
    return pool.losses(*part.some, part.said) * (len(part.scores) / max(part.some[0].rows, 1))


def spacing(rows: int, most: float) -> int:
    """Every how many rows one is chosen, for about so many of them."""
    return max(int(rows // max(most, 1.0)), 1)


def some_of(rows: Given, most: float) -> Given:
    """About so many of the rows, evenly spaced; all if there are fewer than twice as many."""
    chunk, y, sample_weights = rows
    step = spacing(chunk.rows, most)
    if step == 1:
        return rows
    some = np.arange(0, chunk.rows, step)
    return chunk.take(some), y[some], sample_weights[some]


def teach_stack(engine: Engine, rows: int, Z: Floats, y: Any, sample_weights: Floats) -> None:
    """Let the stack of an ensemble, if there is one, learn from scores that members gave a sample of `rows` rows."""
    if isinstance(engine, EnsembleEngine):
        engine.stack.learn_sample(engine.call, rows, np.ascontiguousarray(Z), y, sample_weights)
