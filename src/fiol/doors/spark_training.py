"""Training on Spark: one task learns from all rows, or parts learn side by side in rounds.

Tasks are functions of a learner and of rows, so that a task that fails and is tried again counts no row twice. Between
tasks go Arrow batches and pickled learners, through `DataFrame.mapInArrow` alone: no RDD, no server.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np

from fiol.doors.spark_rows import SparkRows, from_ipc, to_ipc
from fiol.engine.pooling import ALONE, GROWTH, SEARCH_ROWS
from fiol.intake.frames import arrow
from fiol.learner import Learner
from fiol.models.together import PartLearned, Together, learn_part, losses_on_the_way

#: Columns of our own beside the user's.
ROUND, CHANCE = "__fiol_round", "__fiol_chance"
#: So many of the first rows say how columns are coded.
ROWS_FOR_CODING = 1000


class PartFigures(NamedTuple):
    """What one task did: a row of the frame `model.partitions`."""

    round: int
    partition: int
    rows: int
    loss: float  #: mean loss of its rows, each before it was learned from
    seconds: float


def partition_id() -> int:
    """The number of the partition that this task has."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return -1 if context is None else int(context.partitionId())


def packed(batches: Iterator[Any]) -> Iterator[Any]:
    """Batches as bytes, with the places they have in the frame."""
    pa, part = arrow(), partition_id()
    for k, batch in enumerate(batches):
        if batch.num_rows:
            yield pa.RecordBatch.from_pydict(
                {"part": pa.array([part], pa.int32()), "place": pa.array([k], pa.int64()), "rows": [to_ipc(batch)]}
            )


PACKED = "part int, place long, rows binary"
ANSWER = "answer binary"


def answer(value: Any) -> Any:
    """One row that holds a pickled value."""
    return arrow().RecordBatch.from_pydict({"answer": [pickle.dumps(value)]})


def first_rows(frame: Any, columns: list[str], rows: int) -> list[Any]:
    """Arrow tables of the first rows of a frame."""
    found = frame.select(*quoted(columns)).limit(rows).mapInArrow(packed, PACKED).collect()
    return [from_ipc(bytes(row.rows)) for row in sorted(found, key=lambda row: (row.part, row.place))]


def quoted(columns: list[str]) -> list[str]:
    """Names of columns as Spark's expressions have them: dots are no fields of structs."""
    return [f"`{name.replace('`', '``')}`" for name in columns]


# --- one task ---------------------------------------------------------------------------------


def train_in_one(frame: Any, rows: SparkRows, learner: Learner, passes: int) -> tuple[Learner, list[PartFigures]]:
    """Let one task learn from all rows in the order of the frame: the learner of a single stream, to the bit.

    Reading, and whatever the frame computes, is done by as many tasks as the frame has partitions.
    """
    start = pickle.dumps(learner)

    def learn_all(batches: Iterator[Any]) -> Iterator[Any]:
        learner, figures = pickle.loads(start), list[PartFigures]()
        blocks = [bytes(block) for batch in batches for block in batch.column("rows").to_pylist()]
        for number in range(passes):
            began, seen, loss = time.perf_counter(), 0, 0.0
            for block in blocks:
                X, y, weights = rows.of(from_ipc(block))
                part = learn_again(learner, X, y, weights, again=number > 0)
                seen, loss = seen + part[0], loss + part[1]
            figures.append(PartFigures(number, 0, seen, loss / max(seen, 1), time.perf_counter() - began))
        yield answer((learner, figures))

    blocks = frame.select(*quoted(rows.columns)).mapInArrow(packed, PACKED)
    found = blocks.repartition(1).sortWithinPartitions("part", "place").mapInArrow(learn_all, ANSWER).collect()
    if not found:
        raise ValueError("there are no rows to learn from")
    return pickle.loads(bytes(found[0].answer))  # type: ignore[no-any-return]


def learn_again(learner: Learner, X: Any, y: Any, weights: Any, again: bool) -> tuple[int, float]:
    """Learn from rows, perhaps seen before; returns their number and the sum of their losses before."""
    with learner.engine.rows_again() if again else nullcontext():
        scores = learner.learn(X, y, weights)
    targets = learner.codes_of(y) if learner.classes is not None else np.asarray(y, np.float64)
    ones = np.ones(len(scores))
    return len(scores), learner.mean_loss(scores, targets, ones) * len(scores)


# --- parts in rounds --------------------------------------------------------------------------


class Answered(NamedTuple):
    """What a part of a round sends back: what it learned, and some of its rows to search along the way."""

    part: PartLearned
    some: list[bytes]  #: Arrow batches
    kept: int  #: rows in them
    figures: PartFigures


def train_in_rounds(
    frame: Any, rows: SparkRows, learner: Learner, workers: int, seed: int, tell: Callable[[PartFigures], None]
) -> Learner:
    """Let partitions learn side by side in rounds: see `fiol.models.together`.

    Rows get rounds by chance, so that every round is a fair sample: after `ALONE` rows, learned from by the driver, a
    round has `GROWTH` times the rows before it. A part of a round sends its learner back, and some of its rows, of
    which those of all parts say how far what was learned goes.
    """
    from pyspark.sql import functions as F  # noqa: N812 - what Spark's users call them

    rows_at_all = frame.count()
    if not rows_at_all:
        raise ValueError("there are no rows to learn from")
    chance = F.col(CHANCE) * F.lit(float(rows_at_all))
    growing = F.floor(F.log(chance / F.lit(float(ALONE))) / F.lit(float(np.log1p(GROWTH)))) + F.lit(1)
    number = F.when(chance <= F.lit(float(ALONE)), F.lit(0)).otherwise(growing).cast("int")
    data = (
        frame.select(*quoted(rows.columns))
        .withColumn(CHANCE, F.rand(seed))
        .withColumn(ROUND, number)
        .repartition(workers)
        .sortWithinPartitions(ROUND, CHANCE)
        .persist()
    )
    try:
        last = 0
        if rows_at_all > ALONE:
            last = int(np.floor(np.log(rows_at_all / ALONE) / np.log1p(GROWTH))) + 1
        for k in range(last + 1):
            some = data.where(F.col(ROUND) == F.lit(k)).select(*quoted(rows.columns))
            learner = (
                first_round(some, rows, learner, tell) if k == 0 else one_round(some, rows, learner, k, workers, tell)
            )
    finally:
        data.unpersist()
    return learner


def first_round(some: Any, rows: SparkRows, learner: Learner, tell: Callable[[PartFigures], None]) -> Learner:
    """The driver learns from the first rows alone."""
    began = time.perf_counter()
    found = sorted(some.mapInArrow(packed, PACKED).collect(), key=lambda row: (row.part, row.place))
    seen, loss = 0, 0.0
    for row in found:
        n, total = learn_again(learner, *rows.of(from_ipc(bytes(row.rows))), again=False)
        seen, loss = seen + n, loss + total
    tell(PartFigures(0, -1, seen, loss / max(seen, 1), time.perf_counter() - began))
    return learner


def one_round(
    some: Any, rows: SparkRows, base: Learner, number: int, workers: int, tell: Callable[[PartFigures], None]
) -> Learner:
    """All partitions learn from their rows of a round with copies of the base, and what they know is put together."""
    start = pickle.dumps(base)

    def learn(batches: Iterator[Any]) -> Iterator[Any]:
        pa, began = arrow(), time.perf_counter()
        there = [batch for batch in batches if batch.num_rows]
        if not there:
            return
        table = pa.Table.from_batches(there)
        X, y, weights = rows.of(table)
        part = learn_part(pickle.loads(start), X, y, weights, parts=workers)
        step = max(table.num_rows // max(SEARCH_ROWS // workers, 1), 1)
        kept = table.take(pa.array(np.arange(0, table.num_rows, step)))
        figures = PartFigures(
            number, partition_id(), part.rows, part.loss / max(part.rows, 1), time.perf_counter() - began
        )
        yield answer(Answered(part, [to_ipc(batch) for batch in kept.to_batches()], kept.num_rows, figures))

    found = [pickle.loads(bytes(row.answer)) for row in some.mapInArrow(learn, ANSWER).collect()]
    found.sort(key=lambda one: one.figures.partition)
    if not found:
        return base
    together, losses = Together(base, [one.part for one in found]), 0.0
    for one in found:
        for block in one.some:
            X, y, weights = rows.of(from_ipc(block))
            losses = losses + losses_on_the_way(together.base, together.full, X, y, weights, workers) * (
                one.part.rows / one.kept
            )
        tell(one.figures)
    return together.ended(losses)  # type: ignore[arg-type]
