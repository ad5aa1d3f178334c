"""Training on Spark in rounds: partitions learn in parallel, and their changes are merged.

Every row is sent once to the task that learns from it, in blocks of rows of one round, as bytes: a round is one
job, which reads its own blocks alone. Rows get rounds by chance, so that every round is a fair sample of all.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from fiol.engine.parallel.rounds import ALONE, GROWTH, SEARCH_ROWS, spacing
from fiol.features.frames import arrow
from fiol.integrations.spark_rows import SparkRows, from_ipc, to_ipc
from fiol.integrations.spark_training import ANSWER, PartFigures, answer, keys_apart, partition_id, quoted
from fiol.learner import Learner
from fiol.models.distributed_round import RoundMerger, learn_shard_chunks, losses_along_line
from fiol.models.sharded_merge import BlockMerger, MergedBlock, engine_options, merge_block, shard_deltas

#: A block of rows: its round, whose it is, where it comes in the round, and the rows.
BLOCKS = "round int, worker long, chance double, rows binary"
#: Least number of rows of a block, if there are enough: each costs time, and few of them leave parts of rounds empty.
LEAST_ROWS = 16
#: Bytes of rows that a task holds at once, as they were sent.
BYTES_AT_ONCE = 2**25


class Answered(NamedTuple):
    """What a part of a round sends back: what it learned, and some of its rows to search along the way."""

    part: Any  #: a `ShardResult`, or a `ShardSummary` where features are merged elsewhere
    some: list[bytes]  #: Arrow tables
    kept: int  #: rows in them
    figures: PartFigures


class Rounds(NamedTuple):
    """How rounds are made."""

    workers: int
    seed: int
    summed: str  #: who puts together what parts know: one of `SUMMED`
    tell: Callable[[PartFigures], None]


def train_in_rounds(frame: Any, rows: SparkRows, learner: Learner, how: Rounds) -> Learner:
    """Let partitions learn side by side in rounds: see `fiol.models.distributed_round`.

    After `rows_alone` rows, which one task learns from, a round has `GROWTH` times the rows before it. A part of a
    round sends its learner back, and some of its rows, of which those of all parts say how far what was learned goes.
    Chances depend on the seed and on which rows are in which partition of the frame.
    """
    if how.summed == "cluster" and learner.core.levels is not None:
        raise ValueError("summed='cluster' has no curves and pairs: use summed='driver'")
    total = frame.count()
    if not total:
        raise ValueError("there are no rows to learn from")
    dealing = Dealing(total, rows_alone(total), tuple(keys_apart(frame.sparkSession, how.workers)), how.seed)
    blocks = in_some_order(frame.select(*quoted(rows.columns))).mapInArrow(dealing.deal, BLOCKS)
    data = blocks.repartition(how.workers, "worker").sortWithinPartitions("round", "chance").persist()
    try:
        for k in range(dealing.rounds):
            some = data.where(f"round = {k}").select("rows")
            learner = one_round(some, rows, learner, Round(k, dealing.rows_in(k) / how.workers), how)
    finally:
        data.unpersist()
    return learner


class Dealing(NamedTuple):
    """Which rows are in which round, and who gets them."""

    total: int  #: rows
    alone: int  #: of these in round 0, all of which the first worker gets
    workers: tuple[int, ...]  #: a key for each, see `keys_apart`
    seed: int

    @property
    def rounds(self) -> int:
        """How many rounds there are.

        >>> Dealing(1000, 2000, (0,), 0).rounds, Dealing(100_000, 5000, (0,), 0).rounds
        (1, 33)
        """
        return int(self.numbers(np.array([float(self.total)]))[0]) + 1

    def numbers(self, places: Any) -> Any:
        """Return the rounds of the rows at these places of all rows, in a seeded random order."""
        later = np.log(np.maximum(places / self.alone, 1e-300)) / np.log1p(GROWTH)
        return np.where(places <= self.alone, 0, np.floor(later) + 1).astype(np.int64)

    def rows_in(self, number: int) -> float:
        """About how many rows a round has."""
        ends = [min(self.alone * (1.0 + GROWTH) ** k, self.total) for k in (number - 1, number)]
        return ends[1] - ends[0] if number else ends[1]

    def deal(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Blocks of rows, for each batch of one partition: a task of Spark's."""
        pa, rng = arrow(), np.random.default_rng([self.seed % 2**64, partition_id()])
        for batch in batches:
            if not batch.num_rows:
                continue
            numbers = self.numbers(rng.random(batch.num_rows) * self.total)
            dealt, found = (
                batch.take(pa.array(np.argsort(numbers, kind="stable"))),
                list[tuple[int, int, float, bytes]](),
            )
            start = 0
            for number, size in enumerate(np.bincount(numbers).tolist()):
                parts = 1 if number == 0 else min(max(size // LEAST_ROWS, 1), len(self.workers))
                first = int(rng.integers(len(self.workers))) if number else 0
                cuts = np.linspace(start, start + size, parts + 1).astype(int).tolist()
                for k in range(parts if size else 0):
                    block = to_ipc(dealt.slice(cuts[k], cuts[k + 1] - cuts[k]))
                    found.append((number, self.workers[(first + k) % len(self.workers)], float(rng.random()), block))
                start += size
            kinds = pa.int32(), pa.int64(), pa.float64(), pa.binary()
            columns = [pa.array(column, kind) for column, kind in zip(zip(*found, strict=True), kinds, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, names=["round", "worker", "chance", "rows"])


def in_some_order(frame: Any) -> Any:
    """Return the rows of a frame, each partition in an order that depends on nothing but its rows.

    After a shuffle rows come as they arrive. A partition that is computed anew, because its executor is lost, must
    give every row the same chance again; equal rows may change places.
    """
    from pyspark.sql import functions as F  # noqa: N812 - what Spark's users call them

    hashed = [
        F.map_entries(name) if field.dataType.typeName() == "map" else F.col(name)
        for name, field in zip(quoted(frame.columns), frame.schema.fields, strict=True)
    ]
    return frame.sortWithinPartitions(F.xxhash64(*hashed))


def rows_alone(rows: int) -> int:
    """Return how many of all rows one task learns from alone: a round costs a job, and one stream learns best.

    A twentieth, at least `ALONE` and at most 100,000, after which a round has 10,000.

    >>> rows_alone(1000), rows_alone(10**6), rows_alone(10**9)
    (2000, 50000, 100000)
    """
    return min(max(ALONE, rows // 20), 100_000)


class Round(NamedTuple):
    """One round."""

    number: int
    rows: float  #: about how many each part has


def round_tables(batches: Iterator[Any], seed: int) -> Iterator[Any]:
    """Tables of the rows of blocks, each as many as fit, in an order by chance: blocks come from one partition each."""
    pa, rng, waiting, size = arrow(), np.random.default_rng(seed), list[Any](), 0

    def shuffled() -> Any:
        table = pa.concat_tables(waiting).combine_chunks()
        return table.take(pa.array(rng.permutation(table.num_rows)))

    for batch in batches:
        for block in batch.column("rows"):
            waiting.append(from_ipc(block.as_buffer()))
            size += len(block.as_buffer())
            if size >= BYTES_AT_ONCE:
                yield shuffled()
                waiting, size = [], 0
    if waiting:
        yield shuffled()


def one_round(some: Any, rows: SparkRows, base: Learner, this: Round, how: Rounds) -> Learner:
    """Learn a round: all partitions learn their blocks with copies of the base, and the copies are merged.

    In round 0 there is one part, whose learner is the next base; there may be none, of a frame with few rows.
    """
    start, workers = pickle.dumps(base), how.workers

    def learn(batches: Iterator[Any]) -> Answered | None:
        began, kept, most = time.perf_counter(), list[Any](), SEARCH_ROWS // workers

        def pieces() -> Iterator[Any]:
            for table in round_tables(batches, this.number):
                if this.number:
                    step = spacing(table.num_rows, most * table.num_rows / this.rows)
                    kept.append(table.take(arrow().array(np.arange(0, table.num_rows, step))))
                yield rows.of(table)

        parts = workers if this.number else 1
        part = learn_shard_chunks(pickle.loads(start), pieces(), parts, this.rows)
        if not part.rows:
            return None
        took, loss = time.perf_counter() - began, part.loss / part.rows
        figures = PartFigures(this.number, partition_id() if this.number else -1, part.rows, loss, took)
        found = [to_ipc(table) for table in kept]
        return Answered(part, found, sum(table.num_rows for table in kept), figures)

    large = base.nbytes * workers > MOST_BYTES and base.core.levels is None  # levels are merged by the driver
    pooled: list[MergedBlock] | None = None
    if this.number and (how.summed == "cluster" or (how.summed == "auto" and large)):
        found, pooled = in_blocks(some, base, learn, workers)
    else:

        def learn_whole(batches: Iterator[Any]) -> Iterator[Any]:
            found = learn(batches)
            if found is not None:
                yield answer(found)

        found = [pickle.loads(bytes(row.answer)) for row in some.mapInArrow(learn_whole, ANSWER).collect()]
    found.sort(key=lambda one: one.figures.partition)
    for one in found:
        how.tell(one.figures)
    if not found:
        return base
    if not this.number:
        return found[0].part.learner  # type: ignore[no-any-return]
    parts, losses = [one.part for one in found], 0.0
    merger = RoundMerger(base, parts) if pooled is None else BlockMerger(base, parts, pooled)
    for one in found:
        for block in one.some:
            given = rows.of(from_ipc(block))
            way = losses_along_line(merger.base, merger.full, *given, workers)
            losses = losses + way * (one.part.rows / one.kept)
    return merger.finish(losses)  # type: ignore[arg-type]


# --- models that are too large for the driver to have many of ---------------------------------

#: Who puts together what parts know: tasks, if there is more of it than the driver should have; the driver; tasks.
SUMMED = ("auto", "driver", "cluster")
#: Most bytes of learners that the driver collects in a round: Spark's own limit for results of a job is 1 GiB.
MOST_BYTES = 2**28
#: What parts tell of blocks of features, and in block -1 of themselves.
IN_BLOCKS = "block int, part int, value binary"


def in_blocks(
    some: Any, base: Learner, learn: Callable[[Iterator[Any]], Answered | None], workers: int
) -> tuple[list[Answered], list[MergedBlock]]:
    """Make a round whose parts are merged by tasks, block by block of features: see `fiol.models.sharded_merge`.

    Return the answers of the parts without weights, and the merged blocks: the driver holds one model in all.
    """
    start, update, options = pickle.dumps(base), base.update, engine_options(base)
    blocks = 2 * workers

    def send_deltas(batches: Iterator[Any]) -> Iterator[Any]:
        found = learn(batches)
        if found is not None:
            shell, deltas = shard_deltas(pickle.loads(start), found.part, blocks)
            number = found.figures.partition
            yield block_row(-1, number, found._replace(part=shell))
            for k, one in enumerate(deltas):
                yield block_row(k, number, one)

    def merge_deltas(batches: Iterator[Any]) -> Iterator[Any]:
        rows = (row for batch in batches for row in batch.to_pylist())
        for block, some in groupby(rows, key=lambda row: row["block"]):
            if block < 0:
                yield from (block_row(block, row["part"], pickle.loads(row["value"])) for row in some)
            else:
                yield block_row(block, 0, merge_block(update, [pickle.loads(row["value"]) for row in some], **options))

    deltas = some.mapInArrow(send_deltas, IN_BLOCKS).repartition(workers, "block").sortWithinPartitions("block", "part")
    found = [
        (row.block, pickle.loads(bytes(row.value))) for row in deltas.mapInArrow(merge_deltas, IN_BLOCKS).collect()
    ]
    return [one for block, one in found if block < 0], [one for block, one in found if block >= 0]


def block_row(block: int, part: int, value: Any) -> Any:
    """Return a row of `IN_BLOCKS`."""
    pa = arrow()
    columns = pa.array([block], pa.int32()), pa.array([part], pa.int32()), pa.array([pickle.dumps(value)], pa.binary())
    return pa.RecordBatch.from_arrays(list(columns), ["block", "part", "value"])
