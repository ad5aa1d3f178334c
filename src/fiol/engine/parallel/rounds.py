"""Rounds of parallel learning: every round is learned in shards, which are then merged.

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

from fiol.components.row import Floats
from fiol.engine.centering import Centering
from fiol.engine.engine import Engine
from fiol.engine.ensemble.engine import EnsembleEngine
from fiol.engine.ensemble.stack_state import FROZEN
from fiol.engine.levels_engine import LevelsEngine
from fiol.engine.parallel.merge import members_of
from fiol.engine.parallel.shards import (
    ShardMemory,
    ShardMerge,
    lanes_alone,
    merge_of,
    pooled_means,
    scores_of_members,
    targets_of_members,
)
from fiol.features.chunk import Chunk

#: A `map`, perhaps in threads.
Each = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
#: Rows, their targets or codes of classes, and sample weights.
Given = tuple[Chunk, Any, Floats]
#: The first rows, this many, are learned from by one engine.
ALONE = 2000
#: A round has this many rows for every row before it,
GROWTH = 0.1
#: and on one machine, whose memory holds them, at most this many.
MOST_IN_ROUND = 2**18
#: This many rows of a round, evenly spaced, decide how far weights move, and are what the stack learns from.
SEARCH_ROWS = 4096


def round_ends(rows: int, before: int) -> list[int]:
    """Return where rounds end, in `rows` rows that follow `before` others; one engine learns from the first rows.

    >>> round_ends(5000, 0), round_ends(1000, 5000), round_ends(900, 0)
    ([2000, 2200, 2420, 2662, 2928, 3220, 3542, 3896, 4285, 4713, 5000], [0, 500, 1000], [900])
    """
    ends, sizes = [0], rows_of_rounds(before)
    while ends[-1] < rows:
        ends.append(min(ends[-1] + next(sizes), rows))
    return ends if before >= ALONE or not rows else ends[1:]


def rows_of_rounds(before: int) -> Iterator[int]:
    """Yield the sizes of the next rounds, after `before` rows; the rows that one engine learns from are a round.

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
    """Return an engine that has learned from the rows, each round in `parts` shards; and the score of each row before.

    The score is that of the shard that learned from the row. The given engine has learned from the first rows, too. The
    result depends on `parts`, not on how `each` maps functions to shards.
    """
    if isinstance(engine, LevelsEngine):
        from fiol.engine.parallel.levels import learn_levels_in_rounds  # which learns levels by `learn_round`

        return learn_levels_in_rounds(engine, chunk, y, sample_weights, parts, each)
    scores = np.zeros((chunk.rows, *engine.trailing))
    engine.fit_in(chunk)
    first, *ends = round_ends(chunk.rows, engine.rows)
    if first:
        rows = slice(0, first)
        scores[rows] = engine.learn(chunk.row_block(0, first), y[rows], sample_weights[rows])
    memory = ShardMemory()
    for start, stop in pairwise([first, *ends]):
        cuts = np.linspace(start, stop, min(parts, stop - start) + 1).astype(int)
        pieces = [(chunk.row_block(a, b), y[a:b], sample_weights[a:b]) for a, b in pairwise(cuts)]
        engine, scores[start:stop] = learn_round(engine, pieces, each, memory)
    if isinstance(engine, EnsembleEngine):
        engine.ticks[FROZEN] = 0.0  # a stack is frozen for the rows of one call
    return engine, scores


def learn_round(engine: Engine, pieces: Sequence[Given], each: Each, memory: ShardMemory) -> tuple[Engine, Floats]:
    """Return the engine after a round with these shards, and the score of each row before.

    The round may use the memory of the given engine, which has a place for every feature.
    """
    engine.settle()
    lanes: Any = engine if lanes_alone(engine) else None
    members = members_of(engine) if lanes is None else []
    places = [None] * len(pieces) if lanes is None else memory.make(lanes, len(pieces))
    work = partial(learn_shard_of_round, engine, members, len(pieces))
    done = list(each(lambda k: work(pieces[k], places[k]), range(len(pieces))))
    merge = merge_of(engine, [shard.engine for shard in done], members or None, memory)
    losses = np.sum(list(each(partial(losses_of_sample, merge), done)), axis=0)
    means = None if engine.centering is None else pooled_means(engine.centering, [shard.means for shard in done])
    new, _ = merge.finish(losses, means)
    if isinstance(new, EnsembleEngine):
        samples = zip(*((shard.member_scores, *shard.sample[1:]) for shard in done), strict=True)
        teach_stack(new, sum(piece[0].rows for piece in pieces), *map(np.concatenate, samples))
    return new, np.concatenate([shard.scores for shard in done])


@contextmanager
def in_threads(threads: int) -> Iterator[Each]:
    """Yield a `map` that works in this many threads; with one, the plain one.

    An interrupt does not wait for the threads.

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


class ShardOfRound(NamedTuple):
    """The result of one shard of a round."""

    engine: Engine
    means: Centering | None  #: the engine's own
    scores: Floats  #: of the rows, each before it was learned from
    sample: Given  #: rows that decide how far weights move, and from which the stack learns
    member_scores: Floats  #: the scores of the sample by members of the base


def learn_shard_of_round(
    base: Engine, members: Sequence[Engine], parts: int, rows: Given, records: Any
) -> ShardOfRound:
    """Learn from the rows of one of `parts` shards with a copy of the base, which has these members.

    Records of lanes are written into `records`; None without lanes.
    """
    engine = base.copy() if records is None else base.copy(records)  # type: ignore[call-arg]
    sample = sample_of(rows, SEARCH_ROWS // parts)
    member_scores = scores_of_members(base, members, sample[0])
    scores = engine.learn(*rows)
    engine.settle()
    return ShardOfRound(engine, engine.centering, scores, sample, member_scores)


def losses_of_sample(merge: ShardMerge, shard: ShardOfRound) -> Floats:
    """Return `ShardMerge.losses` of all rows of a shard, estimated from its sample."""
    return merge.losses(*shard.sample, shard.member_scores) * (len(shard.scores) / max(shard.sample[0].rows, 1))


def spacing(rows: int, most: float) -> int:
    """Return the distance between the rows of a sample of about `most` rows."""
    return max(int(rows // max(most, 1.0)), 1)


def sample_of(rows: Given, most: float) -> Given:
    """Return about `most` of the rows, evenly spaced; all if there are fewer than twice as many."""
    chunk, y, sample_weights = rows
    step = spacing(chunk.rows, most)
    if step == 1:
        return rows
    some = np.arange(0, chunk.rows, step)
    return chunk.take(some), y[some], sample_weights[some]


def teach_stack(engine: Engine, rows: int, Z: Floats, y: Any, sample_weights: Floats) -> None:
    """Let the stack of an ensemble, if there is one, learn from scores that members gave a sample of `rows` rows."""
    if isinstance(engine, EnsembleEngine):
        y = targets_of_members(engine, y)
        engine.stack.learn_sample(engine.call, rows, np.ascontiguousarray(Z), y, sample_weights)
