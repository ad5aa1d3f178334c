"""What `fiol journal` does: list, verify, export, and replay the records of a journal."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from fiol.models.one_vs_rest import OneVsRest
from fiol.persistence.atomic_file import atomic_file
from fiol.server.journal import Journal
from fiol.server.messages import LabelRules, LearnRecord
from fiol.server.replay import REPLAY_ROWS, decode_learn_record, learn_records
from fiol.server.served_model import ServedModel, as_served
from fiol.server.snapshots import SnapshotStore
from fiol.training.evaluation import Evaluation


def journal_summary(journal: Journal) -> list[dict[str, Any]]:
    """Return for every model its records, rows, first and last position, and snapshots."""
    snapshots, found = SnapshotStore(journal.folder), []
    for row in journal.read(
        "SELECT model, count(*), sum(CASE WHEN kind = 'learn' AND refused IS NULL THEN rows ELSE 0 END), "
        "sum(CASE WHEN kind = 'predict' THEN rows ELSE 0 END), sum(refused IS NOT NULL), min(position), max(position), "
        "min(time), max(time) FROM journal GROUP BY model ORDER BY model"
    ):
        names = ("model", "records", "learned", "predicted", "refused", "first", "last", "since", "until")
        one = dict(zip(names, row, strict=True))
        found.append({**one, "snapshots": [snapshot.position for snapshot in snapshots.list(one["model"])]})
    return found


def learned_records(
    journal: Journal, model: str, since: float = 0.0, until: float = float("inf")
) -> Iterator[tuple[Any, LearnRecord]]:
    """Yield the records of learning of a model between two times."""
    for record in journal.records(model=model):
        if record.kind == "learn" and record.refused is None and since <= record.time < until:
            yield record, decode_learn_record(record.payload)


def check_model(journal: Journal, model: str | None) -> str:
    """Return the name of a model that the journal has; the only one if none is given; ValueError otherwise."""
    names = [one["model"] for one in journal_summary(journal) if one["learned"]]
    if model is None and len(names) == 1:
        return str(names[0])
    if model is None or model not in names:
        there = ", ".join(names) or "no rows of any model"
        raise ValueError(f"{journal.path} has {there}" + ("" if model is None else f", not {model!r}"))
    return model


def export_parquet(journal: Journal, model: str, path: str, since: float = 0.0, until: float = float("inf")) -> int:
    """Write the rows that a model learned from to a Parquet file, and return their number.

    Features are columns of their names; `_position`, `_time`, `_label`, `_weight`, `_id`, `_served` and `_delay` are
    the rest, and a feature with one of these names is the column `feature _id`. Values of a column that are of several
    types become text.
    """
    from fiol.readers.columns import arrow_module

    rows = [
        {**{f"feature {name}" if name in about else name: value for name, value in features.items()}, **about}
        for record, found in learned_records(journal, model, since, until)
        for features, about in exported_rows(record, found)
    ]
    if not rows:
        raise ValueError(f"{journal.path} has no rows of {model!r} in that time")
    arrow, parquet = arrow_module(), arrow_module("pyarrow.parquet")
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {}
    for name in names:
        values = [row.get(name) for row in rows]
        try:
            columns[name] = arrow.array(values)
        except (arrow.ArrowInvalid, arrow.ArrowTypeError, OverflowError):
            columns[name] = arrow.array([None if value is None else str(value) for value in values])
    with atomic_file(path) as file:
        parquet.write_table(arrow.table(columns), file)
    return len(rows)


def exported_rows(record: Any, found: LearnRecord) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield features, and the other columns, of every row of a record."""
    for k, features in enumerate(found.features):
        served = found.served[k] if found.served else None
        yield (
            features,
            {
                "_position": record.position,
                "_time": record.time,
                "_label": found.labels[k],
                "_weight": found.weights[k] if found.weights else 1.0,
                "_id": found.ids[k] if found.ids else None,
                "_served": str(served) if isinstance(served, list) else served,
                "_delay": found.delays[k] if found.delays else None,
            },
        )


def replay_into(
    journal: Journal, model: str, other: Any, since: float = 0.0, until: float = float("inf")
) -> tuple[ReplayedModel, int]:
    """Teach another model the rows of a model; return it with its evaluations, and how many records it refused.

    Every row is predicted before it is learned from, by the other model as it was then.
    """
    served = ReplayedModel(model, other, newest_readable(SnapshotStore(journal.folder), model))
    waiting, rows, refused = list[tuple[int, LearnRecord]](), 0, 0
    for record, found in learned_records(journal, model, since, until):
        waiting.append((record.position, found))
        rows += record.rows
        if rows >= REPLAY_ROWS:
            refused += len(learn_records(served, waiting))
            waiting, rows = [], 0
    if waiting:
        refused += len(learn_records(served, waiting))
    if not served.evaluation.rows:
        raise ValueError(f"{journal.path} has no rows of {model!r} in that time that the other model accepts")
    return served, refused


def newest_readable(snapshots: SnapshotStore, model: str) -> Any:
    """Return the model of the newest snapshot that can be read; None without one."""
    for snapshot in snapshots.list(model):
        with contextlib.suppress(ValueError, OSError):
            return snapshots.load(model, snapshot)
    return None


class ReplayedModel(ServedModel):
    """A model that is taught from a journal, with an `Evaluation` of its predictions before each row.

    Parameters
    ----------
    live : the model that served, for its loss and labels; None if it is not known.

    Attributes
    ----------
    evaluation : of all rows.
    as_served, compared : of the rows that were predicted with an id, by the score that the live model served, and by
        this model. No other rows have a score in the journal.
    """

    def __init__(self, name: str, model: Any, live: Any) -> None:
        super().__init__(name, model, LabelRules())
        self.evaluation = Evaluation(model, model.task)
        self.live = None if live is None or isinstance(live, OneVsRest) else ServedModel(name, live, LabelRules())
        self.compared = Evaluation(model, model.task)
        self.as_served = None if self.live is None else Evaluation(self.live.model, self.live.task)

    def learn(self, rows: Any, record: LearnRecord, position: int) -> Any:
        """Learn from rows, and add their scores from before, and those that were served, to the evaluations."""
        scores = super().learn(rows, LearnRecord([], []), position)
        self.evaluation.add(scores, rows.y, rows.weights)
        there = [row for row, score in enumerate(record.served or ()) if score is not None]
        if there and self.live is not None and self.as_served is not None:
            weights, served = rows.weights[there], [(record.served or [])[row] for row in there]
            self.compared.add(scores[there], rows.y[there], weights)
            y = self.live.encode([], [record.labels[row] for row in there]).y
            zeros, classes = np.zeros(len(there)), self.live.model.classes
            if classes is not None:
                zeros = np.zeros((len(there), len(classes)))
            self.as_served.add(as_served(zeros, served), y, weights)
        return scores

    def comparison(self) -> list[tuple[str, Any, Any]]:
        """Return name, metric of this model and metric as served, on the same rows; nothing without such rows.

        Losses are compared only if both models have the same one.
        """
        if self.as_served is None or not self.as_served.rows:
            return []
        mine, served = self.compared.results(), self.as_served.results()
        same_loss = self.model.update.loss == self.as_served.learner.update.loss
        names = [name for name, value in mine.items() if name in served and not isinstance(value, (list, dict))]
        return [
            (name, mine[name], served[name]) for name in names if same_loss or name not in ("loss", "constant_loss")
        ]
