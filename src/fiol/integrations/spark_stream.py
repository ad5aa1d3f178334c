"""Learning from a stream of Spark's, every batch once, and scoring one with the model as it is now.

`foreachBatch` may hand a batch over again after a failure. The number of the last batch stands in the model's file,
which is replaced at once: a batch that is in it is skipped.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fiol.integrations.spark import FIOLClassificationModel, FIOLRegressionModel
from fiol.integrations.spark_rows import SparkRows, from_ipc
from fiol.integrations.spark_training import PACKED, learn_again, packed, quoted
from fiol.learner import Learner
from fiol.persistence.model import load

#: Under this name of `learner.meta` the file says which batches it has learned from.
BATCHES = "spark_stream"


class StreamTrainer:
    """What `foreachBatch` calls: the driver learns from every batch, in the order of the batch, and saves the model.

    `losses` has the mean loss of every batch before it was learned from, since this object was made.
    """

    def __init__(self, learner: Learner, rows: SparkRows, path: str | Path) -> None:
        self.learner, self.rows, self.path = learner, rows, Path(path)
        self.losses: list[tuple[int, int, float]] = []  #: number of the batch, rows, mean loss

    @property
    def last(self) -> int:
        """The number of the last batch that the model has learned from, -1 before the first."""
        return int(self.learner.meta.get(BATCHES, {}).get("last", -1))

    def __call__(self, frame: Any, number: int) -> None:
        if number <= self.last:
            return
        found = frame.select(*quoted(self.rows.columns)).mapInArrow(packed, PACKED).collect()
        new, rows, loss = self.learner.copy(), 0, 0.0
        for row in sorted(found, key=lambda row: (row.part, row.place)):
            seen, total = learn_again(new, *self.rows.of(from_ipc(bytes(row.rows))), again=False)
            rows, loss = rows + seen, loss + total
        before = new.meta.get(BATCHES, {})
        new.meta[BATCHES] = {
            "last": int(number),
            "rows": before.get("rows", 0) + rows,
            "loss": before.get("loss", 0.0) + loss,
        }
        new.save(self.path)
        self.learner = new
        self.losses.append((number, rows, loss / max(rows, 1)))


def train_stream(frame: Any, path: str | Path, model: Any, checkpoint: str | Path, **options: Any) -> Any:
    """Learn from a streaming frame, every batch exactly once; returns Spark's running query.

    Parameters
    ----------
    frame : a streaming `DataFrame` with the columns of the model, label included.
    path : the file of the model. If it is there, learning goes on from it; otherwise from `model`.
    model : a model of `fiol.spark`, which says what the columns, their encoding and the classes are.
    checkpoint : a folder for Spark's own record of what was read. It belongs to the file: keep or drop both.
    options : of the query, such as `trigger={"availableNow": True}`; `queryName`.

    The query's `trainer` has the learner as it is now, and the progressive loss of every batch.
    """
    path = Path(path)
    learner = load(path) if path.exists() else model.learner.copy()
    trainer = StreamTrainer(learner, model.rows, path)
    writer = frame.writeStream.foreachBatch(trainer).option("checkpointLocation", str(checkpoint))
    if "trigger" in options:
        writer = writer.trigger(**options.pop("trigger"))
    for name, value in options.items():
        writer = getattr(writer, name)(value)
    query = writer.start()
    query.trainer = trainer
    return query


class RefreshedModel:
    """Scores frames with the model that is in a file now: read again whenever the file has been replaced.

    `RefreshedModel(path, model).transform(frame)`; in a stream, `foreachBatch(lambda frame, n: ...)` calls it for every
    batch, so that each is scored by one model, the newest.
    """

    def __init__(self, path: str | Path, model: FIOLClassificationModel | FIOLRegressionModel) -> None:
        self.path, self.model, self._stamp = Path(path), model.copy(), None

    def transform(self, frame: Any) -> Any:
        """Return the frame with the model's predictions."""
        stat = self.path.stat()
        stamp: Any = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        if stamp != self._stamp:
            self.model.learner, self._stamp = load(self.path), stamp
        return self.model.transform(frame)


def progressive_loss(learner: Learner) -> float:
    """Return the mean loss of all rows of all batches, each before it was learned from; nan before the first."""
    found = learner.meta.get(BATCHES, {})
    return found["loss"] / found["rows"] if found.get("rows") else float(np.nan)
