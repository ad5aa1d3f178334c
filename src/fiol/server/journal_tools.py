"""What `fiol journal` does: list, verify, export, and replay the records of a journal."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from fiol.server.journal import Journal
from fiol.server.messages import LabelRules, LearnRecord
from fiol.server.replay import REPLAY_ROWS, decode_learn_record, learn_records
from fiol.server.served_model import ServedModel
from fiol.server.snapshots import SnapshotStore
from fiol.training.evaluation import Evaluation


def journal_summary(journal: Journal) -> list[dict[str, Any]]:
    """Return for every model its records, rows, first and last position, and snapshots."""
    snapshots, found = SnapshotStore(journal.folder), []
    for row in journal.connection.execute(
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
    the rest. Values of a column that are of several types become text.
    """
    from fiol.readers.columns import arrow_module

    rows = [
        {**features, **about}
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
    temporary = f"{path}.part"
    parquet.write_table(arrow.table(columns), temporary)
    os.replace(temporary, path)
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
) -> tuple[Evaluation, ServedModel, int]:
    """Teach another model the rows of a model; return its progressive evaluation, and how many records it refused.

    Every row is predicted before it is learned from, by the other model as it was then.
    """
    served = ReplayedModel(model, other, LabelRules())
    waiting, rows, refused = list[tuple[int, LearnRecord]](), 0, 0
    for record, found in learned_records(journal, model, since, until):
        waiting.append((record.position, LearnRecord(found.features, found.labels, found.weights)))
        rows += record.rows
        if rows >= REPLAY_ROWS:
            refused += len(learn_records(served, waiting))
            waiting, rows = [], 0
    if waiting:
        refused += len(learn_records(served, waiting))
    if not served.evaluation.rows:
        raise ValueError(f"{journal.path} has no rows of {model!r} in that time that the other model accepts")
    return served.evaluation, served, refused


class ReplayedModel(ServedModel):
    """A model that is taught from a journal, with an `Evaluation` of its predictions before each row."""

    def __init__(self, name: str, model: Any, rules: LabelRules) -> None:
        super().__init__(name, model, rules)
        self.evaluation = Evaluation(model, model.task)

    def learn(self, rows: Any, record: LearnRecord, position: int) -> Any:
        """Learn from rows, and add their scores from before to the evaluation."""
        scores = super().learn(rows, record, position)
        self.evaluation.add(scores, rows.y, rows.weights)
        return scores
