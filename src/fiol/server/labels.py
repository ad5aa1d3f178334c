"""Labels that come later: predictions with ids wait in the journal's file until their label comes, or expire.

All decisions are made before a record is written, so that a replay needs neither the clock nor these tables.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Sequence
from typing import Any

from fiol.server.messages import LabelRules, LearnRecord, LearnRow, Outcome, PredictRecord, decode, encode
from fiol.training.task_inference import Label

#: States of an id.
PENDING, EARLY, LABELED, EXPIRED = "pending", "early", "labeled", "expired"
#: Predictions that expire in one transaction.
EXPIRED_AT_ONCE = 1000


class RefusedError(ValueError):
    """A request that is refused: the status of the answer, the reason, and the row it is about."""

    def __init__(
        self, reason: str, row: int | None = None, column: str | None = None, status: int = 422, retry: float = 0.0
    ) -> None:
        super().__init__(reason)
        self.reason, self.row, self.column, self.status, self.retry = reason, row, column, status, retry


class LabelJoin:
    """The join of predictions and labels by id; all methods are called inside a transaction of the journal.

    Parameters
    ----------
    connection : of the journal.
    most_pending : predictions of all models that may wait for a label.
    """

    def __init__(self, connection: sqlite3.Connection, most_pending: int) -> None:
        self.connection, self.most_pending = connection, most_pending
        #: By model: predictions that wait for a label, and labels that wait for a prediction.
        self.pending_of, self.early_of = Counter[str](), Counter[str]()
        self.recount()

    @property
    def pending(self) -> int:
        """Predictions of all models that wait for a label."""
        return sum(list(self.pending_of.values()))  # a list, because other threads read it

    @property
    def early(self) -> int:
        """Labels of all models that wait for a prediction."""
        return sum(list(self.early_of.values()))

    def recount(self) -> None:
        """Count anew, after a transaction was rolled back."""
        found = self.connection.execute(
            "SELECT state, model, count(*) FROM ids WHERE state IN (?, ?) GROUP BY state, model", (PENDING, EARLY)
        ).fetchall()
        counts = {PENDING: Counter[str](), EARLY: Counter[str]()}
        for state, model, count in found:
            counts[state][model] = count
        self.pending_of, self.early_of = counts[PENDING], counts[EARLY]

    def counts(self) -> tuple[Counter[str], Counter[str]]:
        """Return a copy of all counts, for `restore`."""
        return self.pending_of.copy(), self.early_of.copy()

    def restore(self, counts: tuple[Counter[str], Counter[str]]) -> None:
        """Set the counts of before, after a part of a transaction was rolled back."""
        self.pending_of, self.early_of = counts

    def predicted(self, model: str, record: PredictRecord, now: float) -> LearnRecord | None:
        """Store predictions; return the rows whose label came before, if there are any.

        Raises RefusedError for an id that has a prediction already, and if too many wait for labels.
        """
        if self.pending + len(record.ids) > self.most_pending:
            raise RefusedError(f"{self.pending} predictions wait for labels, no more may", status=429, retry=60.0)
        learned = LearnRecord([], [], [], [], [], [])
        for row, (name, features, score) in enumerate(zip(record.ids, record.features, record.scores, strict=True)):
            found = self._find(model, name)
            if found is not None and found[0] != EARLY:
                raise RefusedError(f"the id {name!r} has a prediction already", row, status=409)
            if found is None:
                self._store(model, name, PENDING, now, encode(features), encode(score), None)
                self.pending_of[model] += 1
                continue
            label, weight = decode(found[4])
            add_row(learned, name, features, label, weight, score, 0.0)
            self._store(model, name, LABELED, now, None, None, found[4])
            self.early_of[model] -= 1
        return learned if learned.labels else None

    def labeled(
        self, model: str, rows: Sequence[LearnRow], rules: LabelRules, now: float
    ) -> tuple[LearnRecord, list[Outcome]]:
        """Return the rows to learn from, with features as predicted with, and what became of each row."""
        learned, outcomes = LearnRecord([], [], [], [], [], []), list[Outcome]()
        for number, row in enumerate(rows):
            if row.id is None:
                if row.features is None:
                    raise RefusedError("a row to learn from has features, or the id of a prediction", number)
                add_row(learned, None, row.features, row.label, row.weight, None, None)
                outcomes.append("learned")
            else:
                outcomes.append(self._labeled_by_id(model, number, row, rules, now, learned))
        return learned, outcomes

    def _labeled_by_id(
        self, model: str, number: int, row: LearnRow, rules: LabelRules, now: float, learned: LearnRecord
    ) -> Outcome:
        name, given = row.id, encode([row.label, row.weight])
        assert name is not None
        found = self._find(model, name)
        if found is None and row.features is None:
            return self._early(model, number, name, given, rules, now)
        if found is None:
            add_row(learned, name, row.features or {}, row.label, row.weight, None, None)
            self._store(model, name, LABELED, now, None, None, given)
            return "learned"
        state, time, features, score, label = found
        if state == PENDING or (state == EXPIRED and rules.late == "learn" and label is None):
            served = row.features if features is None else decode(features)
            add_row(learned, name, served or {}, row.label, row.weight, decode(score), now - time)
            self._store(model, name, LABELED, now, features if rules.conflict == "learn" else None, None, given)
            self.pending_of[model] -= state == PENDING
            return "learned"
        if state == EXPIRED:
            if rules.late == "refuse":
                raise RefusedError(f"the prediction {name!r} has expired", number, status=409)
            return "late"
        same = label is not None and decode(label) == [row.label, row.weight]  # 1 and 1.0 are one label
        if same and state != EARLY:
            return "duplicate"
        if state == EARLY:
            return self._early_again(model, row, given, same, now, learned)
        if rules.conflict == "refuse":
            raise RefusedError(f"the id {name!r} has another label already, {decode(label)[0]!r}", number, status=409)
        served = row.features if features is None else decode(features)
        if rules.conflict == "learn" and served is not None:
            add_row(learned, name, served, row.label, row.weight, None, None)
            self._store(model, name, LABELED, now, features, None, given)
            return "learned"
        return "conflict"

    def _early(self, model: str, number: int, name: str, given: bytes, rules: LabelRules, now: float) -> Outcome:
        """Return what becomes of a label without a prediction."""
        if rules.early == "refuse":
            raise RefusedError(f"there is no prediction {name!r}", number, status=409)
        if rules.early == "drop":
            return "dropped"
        if self.early >= self.most_pending:
            raise RefusedError(f"{self.early} labels wait for predictions, no more may", number, status=429, retry=60.0)
        self._store(model, name, EARLY, now, None, None, given)
        self.early_of[model] += 1
        return "held"

    def _early_again(
        self, model: str, row: LearnRow, given: bytes, same: bool, now: float, learned: LearnRecord
    ) -> Outcome:
        """Return what becomes of a second label while the first one waits for its prediction."""
        if row.features is not None:
            assert row.id is not None
            add_row(learned, row.id, row.features, row.label, row.weight, None, None)
            self._store(model, row.id, LABELED, now, None, None, given)
            self.early_of[model] -= 1
            return "learned"
        return "duplicate" if same else "conflict"

    def expire(self, model: str, rules: LabelRules, now: float) -> tuple[LearnRecord | None, int, bool]:
        """Expire predictions older than the horizon, and forget ids older than twice that.

        Returns rows to learn with the default label, None without such a label, how many predictions expired, and
        whether there may be more to do.
        """
        expired = self.connection.execute(
            "SELECT id, time, features, score FROM ids "
            "WHERE model = ? AND state = ? AND time < ? ORDER BY time LIMIT ?",
            (model, PENDING, now - rules.horizon, EXPIRED_AT_ONCE),
        ).fetchall()
        learned, keep = LearnRecord([], [], [], [], [], [], True), rules.late == "learn" and rules.default is None
        for name, time, features, score in expired:
            if rules.default is not None:
                add_row(learned, name, decode(features), rules.default, 1.0, decode(score), now - time)
            kept = (features, score) if keep else (None, None)
            self._store(model, name, EXPIRED, now, *kept, None if keep else encode([rules.default, 1.0]))
        self.pending_of[model] -= len(expired)
        forgotten = self.connection.execute(
            "SELECT state, id FROM ids WHERE model = ? AND state IN (?, ?, ?) AND time < ? LIMIT ?",
            (model, EARLY, LABELED, EXPIRED, now - rules.horizon, EXPIRED_AT_ONCE),
        ).fetchall()
        self.connection.executemany("DELETE FROM ids WHERE model = ? AND id = ?", [(model, id) for _, id in forgotten])
        self.early_of[model] -= sum(state == EARLY for state, _ in forgotten)
        more = max(len(expired), len(forgotten)) == EXPIRED_AT_ONCE
        return (learned if learned.labels else None), len(expired), more

    def forget(self, model: str) -> None:
        """Forget all ids of a model."""
        self.connection.execute("DELETE FROM ids WHERE model = ?", (model,))
        del self.pending_of[model], self.early_of[model]

    def _find(self, model: str, name: str) -> Any:
        query = "SELECT state, time, features, score, label FROM ids WHERE model = ? AND id = ?"
        return self.connection.execute(query, (model, name)).fetchone()

    def _store(self, model: str, name: str, *rest: Any) -> None:
        self.connection.execute("INSERT OR REPLACE INTO ids VALUES (?, ?, ?, ?, ?, ?, ?)", (model, name, *rest))


def forget_labels(connection: sqlite3.Connection, model: str, record: LearnRecord, now: float) -> None:
    """Let the predictions of a record that was refused wait for another label; ids without prediction are forgotten."""
    scores = record.served or [None] * len(record.labels)
    for name, features, score in zip(record.ids or (), record.features, scores, strict=False):
        if name is not None:
            connection.execute("DELETE FROM ids WHERE model = ? AND id = ?", (model, name))
        if name is not None and score is not None:
            values = model, name, PENDING, now, encode(features), encode(score), None
            connection.execute("INSERT INTO ids VALUES (?, ?, ?, ?, ?, ?, ?)", values)


def add_row(
    record: LearnRecord,
    name: str | None,
    features: dict[str, Any],
    label: Label,
    weight: float,
    score: Any,
    delay: float | None,
) -> None:
    """Append a row to a record."""
    columns: tuple[Any, ...] = (
        record.ids,
        record.features,
        record.labels,
        record.weights,
        record.served,
        record.delays,
    )
    for column, value in zip(columns, (name, features, label, weight, score, delay), strict=True):
        column.append(value)
