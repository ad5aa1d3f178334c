"""Training on Spark to the bits of one stream: one task learns from all rows, or members of an ensemble learn apart.

Tasks are functions of a learner and of rows, so that a task that fails and is tried again counts no row twice. Between
tasks go Arrow batches and pickled learners, through `DataFrame.mapInArrow` alone: no RDD, no server.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np

from fiol.features.frames import arrow
from fiol.integrations.spark_rows import SparkRows, from_ipc, to_ipc
from fiol.learner import Learner
from fiol.models.member_parallel import MemberScores, MemberSubset, StackLearner, SubsetState, split_members

#: The encoding of columns is inferred from this many of the first rows.
ROWS_FOR_CODING = 1000


class PartFigures(NamedTuple):
    """What one task did: a row of the frame `model.partitions`."""

    round: int
    partition: int
    rows: int
    loss: float  #: mean loss of its rows, each before it was learned from
    seconds: float


def partition_id() -> int:
    """Return the number of this task's partition."""
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
    """Return one row that holds a pickled value."""
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
    return only_answer(in_one_task(frame, rows, learner, passes))  # type: ignore[no-any-return]


def in_one_task(frame: Any, rows: SparkRows, learner: Learner, passes: int) -> list[Any]:
    """Yield one row with the learner and its metrics; no row where there are no rows."""
    start = pickle.dumps(learner)

    def learn_all(batches: Iterator[Any]) -> Iterator[Any]:
        learner, figures = pickle.loads(start), list[PartFigures]()
        blocks = [bytes(block) for batch in batches for block in batch.column("rows").to_pylist()]
        if not blocks:
            return
        for number in range(passes):
            began, seen, loss = time.perf_counter(), 0, 0.0
            for block in blocks:
                X, y, weights = rows.of(from_ipc(block))
                part = learn_again(learner, X, y, weights, again=number > 0)
                seen, loss = seen + part[0], loss + part[1]
            figures.append(PartFigures(number, 0, seen, loss / max(seen, 1), time.perf_counter() - began))
        yield answer((learner, figures))

    blocks = frame.select(*quoted(rows.columns)).mapInArrow(packed, PACKED)
    return blocks.repartition(1).sortWithinPartitions("part", "place").mapInArrow(learn_all, ANSWER).collect()  # type: ignore[no-any-return]


def learn_again(learner: Learner, X: Any, y: Any, weights: Any, again: bool) -> tuple[int, float]:
    """Learn from rows, perhaps seen before; returns their number and the sum of their losses before."""
    with learner.engine.freeze_stack() if again else nullcontext():
        scores = learner.learn(X, y, weights)
    targets = learner.core.codes_of(y) if learner.classes is not None else np.asarray(y, np.float64)
    ones = np.ones(len(scores))
    return len(scores), learner.core.mean_loss(scores, targets, ones) * len(scores)


# --- members apart ----------------------------------------------------------------------------

#: What shares of members tell the stack: of a pass, a block of rows, a share of members.
RESULTS = "number int, part int, place long, share long, value binary"
SHARE = "__fiol_share"


def train_members(
    frame: Any, rows: SparkRows, learner: Learner, passes: int, workers: int
) -> tuple[Learner, list[PartFigures]]:
    """Let the members of an ensemble learn from all rows in several tasks, and then one task their stack.

    To the bit the learner that `train_in_one` gives: see `fiol.models.member_parallel`. Rows are read once, and sent
    to every share; each returns the scores of its members for a row, and in the end their state.
    """
    from pyspark.sql import functions as F  # noqa: N812 - what Spark's users call them

    before, start, places = learner.rows, pickle.dumps(learner), split_members(learner, workers)
    keys = keys_apart(frame.sparkSession, len(places))

    def learn_share(batches: Iterator[Any]) -> Iterator[Any]:
        shares, blocks, began = dict[int, MemberSubset](), list[tuple[int, int, int, bytes]](), time.perf_counter()
        for number in range(passes):
            coming = sent_blocks(batches) if number == 0 else iter(blocks)
            for key, part, place, block in coming:
                if key not in shares:
                    shares[key] = MemberSubset(pickle.loads(start), places[keys.index(key)])
                yield result_row(number, part, place, keys.index(key), shares[key].learn(*rows.of(from_ipc(block))))
                if number == 0 and passes > 1:
                    blocks.append((key, part, place, block))
        for key, share in shares.items():
            k = keys.index(key)
            figures = PartFigures(0, k, share.learner.rows - before, 0.0, time.perf_counter() - began)
            yield result_row(passes, 0, 0, k, (share.state(), figures))

    def learn_stack(batches: Iterator[Any]) -> Iterator[Any]:
        stack, scored = StackLearner(pickle.loads(start), places), list[MemberScores]()
        ends = list[tuple[SubsetState, PartFigures]]()
        seen, losses, began = [0] * passes, [0.0] * passes, time.perf_counter()
        for number, value in result_values(batches):
            if number == passes:
                ends.append(value)
                continue
            scored.append(value)
            if len(scored) == len(places):
                scores = stack.learn(scored, freeze=number > 0)
                seen[number] += len(scores)
                losses[number] += stack.learner.core.mean_loss(scores, scored[0].targets, np.ones(len(scores))) * len(
                    scores
                )
                scored = []
        took = (time.perf_counter() - began) / passes
        parts = zip((figures for _, figures in ends), stack.best_losses(), strict=True)
        figures = [one._replace(loss=loss) for one, loss in parts]
        figures += [PartFigures(k, -1, seen[k], losses[k] / max(seen[k], 1), took) for k in range(passes)]
        yield answer((stack.finish([state for state, _ in ends]), figures))

    blocks = frame.select(*quoted(rows.columns)).mapInArrow(packed, PACKED)
    each = blocks.withColumn(SHARE, F.explode(F.array(*(F.lit(key).cast("long") for key in keys))))
    shared = each.repartition(len(keys), SHARE).sortWithinPartitions(SHARE, "part", "place")
    results = (
        shared.mapInArrow(learn_share, RESULTS).repartition(1).sortWithinPartitions("number", "part", "place", "share")
    )
    found = results.mapInArrow(learn_stack, ANSWER).collect()
    return only_answer(found)


def keys_apart(session: Any, shares: int) -> list[int]:
    """Return a key per share such that Spark sends every share to its own partition."""
    tried = session.range(64 * shares).selectExpr("id", f"pmod(hash(id), {shares}) as place").collect()
    places = {row.place: row.id for row in reversed(tried)}
    rest = iter(range(64 * shares, 65 * shares))
    return [int(places[k]) if k in places else next(rest) for k in range(shares)]


def sent_blocks(batches: Iterator[Any]) -> Iterator[tuple[int, int, int, bytes]]:
    """Yield the share that a block of rows is for, its place in the frame, and the block."""
    for batch in batches:
        for row in batch.to_pylist():
            yield row[SHARE], row["part"], row["place"], row["rows"]


def result_row(number: int, part: int, place: int, share: int, value: Any) -> Any:
    """Return a row of `RESULTS`."""
    pa = arrow()
    where = pa.array([number], pa.int32()), pa.array([part], pa.int32()), pa.array([place], pa.int64())
    names = ["number", "part", "place", "share", "value"]
    return pa.RecordBatch.from_arrays(
        [*where, pa.array([share], pa.int64()), pa.array([pickle.dumps(value)], pa.binary())], names
    )


def result_values(batches: Iterator[Any]) -> Iterator[tuple[int, Any]]:
    """Yield the passes and values of rows of `RESULTS`."""
    for batch in batches:
        for number, value in zip(batch.column("number").to_pylist(), batch.column("value"), strict=True):
            yield number, pickle.loads(value.as_buffer())


def only_answer(found: list[Any]) -> Any:
    """Return the value of the one row of a job; raise ValueError if there is none, since there were no rows."""
    if not found:
        raise ValueError("there are no rows to learn from")
    return pickle.loads(bytes(found[0].answer))
