"""Teach models from records of the journal: while serving, after a restart, and into other models."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fiol.server.journal import Journal, JournalError, Record
from fiol.server.labels import forget_labels
from fiol.server.messages import LearnRecord, ReplaceRecord, decoder_of
from fiol.server.served_model import EncodedRows, ServedModel
from fiol.server.snapshots import SnapshotStore

#: Rows that are learned from at once; cutting rows into chunks differently changes no bit.
REPLAY_ROWS = 4096

decode_learn_record, decode_replace = decoder_of(LearnRecord), decoder_of(ReplaceRecord)


def learn_records(
    served: ServedModel, records: Sequence[tuple[int, LearnRecord]], rows: EncodedRows | None = None
) -> list[tuple[int, str]]:
    """Teach a model the rows of records, at once if it accepts all; return position and reason of those it refuses.

    A record that the model does not accept, for whatever reason, is skipped as a whole. `rows` are the encoded rows of
    all records, if the caller has them.
    """
    rounds = served.model.rounds
    together, last = joined_records([record for _, record in records]), records[-1][0]
    try:
        known = served.encode(together.features, together.labels, together.weights) if rows is None else rows
        served.learn(known, together, last)
    except Exception as error:
        if served.model.rounds != rounds:
            raise
        if len(records) == 1:
            served.position = last
            return [(last, str(error) or type(error).__name__)]
    else:
        return []
    return [refused for one in records for refused in learn_records(served, [one])]


def refuse_record(journal: Journal, model: str, position: int, record: LearnRecord, reason: str) -> None:
    """Mark a record that a model did not accept; its predictions wait for another label."""
    now = journal.clock.now()
    journal.refuse(position, reason, lambda: forget_labels(journal.connection, model, record, now))


def joined_records(records: Sequence[LearnRecord]) -> LearnRecord:
    """Return the rows of several records as one."""
    if len(records) == 1:
        return records[0]
    found = LearnRecord([], [], [], None, [], None)
    assert found.weights is not None
    assert found.served is not None
    for record in records:
        count = len(record.labels)
        found.features += record.features
        found.labels += record.labels
        found.weights += record.weights or [1.0] * count
        found.served += record.served or [None] * count
    return found


def replay(
    journal: Journal, snapshots: SnapshotStore, models: dict[str, ServedModel], say: Callable[[str], None]
) -> int:
    """Teach models everything since their snapshots, and return the number of rows.

    Raises
    ------
    JournalError : records that a snapshot needs are damaged, or no longer in the journal.
    """
    if not models:
        return 0
    start = min(served.position for served in models.values())
    if start + 1 < journal.first:
        raise JournalError(
            f"{journal.path} begins at position {journal.first}, but the newest whole snapshot of a model is at "
            f"{start}: restore the folder from a backup"
        )
    waiting: list[tuple[int, LearnRecord]] = []
    of, rows = "", 0

    def flush() -> None:
        if not waiting:
            return
        refused = dict[int, str]()
        for served in (models[of], *(one for one in models.values() if one.shadow_of == of)):
            mine = [one for one in waiting if one[0] > served.position and one[0] not in refused]
            found = learn_records(served, mine) if mine else []
            if served.name == of:  # what the live model refuses no shadow learns
                refused = dict(found)
                for position, record in mine:
                    if position in refused:
                        refuse_record(journal, of, position, record, refused[position])
        waiting.clear()

    for record in records_of_models(journal.records(after=start), models):
        if record.model != of or sum(len(one.labels) for _, one in waiting) >= REPLAY_ROWS or record.kind != "learn":
            flush()
            of = record.model
        if record.kind == "learn":
            found = decode_learn_record(record.payload)
            waiting.append((record.position, found))
            rows += record.rows
            if record.position > models[of].position:
                models[of].metrics.note_labels({"expired" if found.expired else "learned": record.rows}, found.delays)
        elif record.kind == "predict" and record.position > models[of].position:
            models[of].metrics.note_labels({"predicted": record.rows})
        elif record.kind == "replace" and record.position > models[of].position:
            models[of].replace(replacement(record, snapshots, say), record.position)
    flush()
    for served in models.values():
        served.refresh()
    return rows


def replacement(record: Record, snapshots: SnapshotStore, say: Callable[[str], None]) -> Any:
    """Return the model that a record replaces another by: its snapshot, or the one that was rolled back to.

    Raises
    ------
    ValueError : neither can be read.
    """
    name, about, snapshot = record.model, decode_replace(record.payload), snapshots.at(record.model, record.position)
    try:
        if snapshot is None:
            raise ValueError(f"the snapshot of {name!r} at position {record.position} is missing")
        return snapshots.load(name, snapshot)
    except (ValueError, OSError) as error:
        source = next((one for one in snapshots.list(name) if one.file == about.source), None)
        if source is None:
            raise
        say(f"{error}: {source.file}, which was rolled back to, is used")
        return snapshots.load(name, source)


def records_of_models(records: Iterable[Record], models: dict[str, Any]) -> Iterable[Record]:
    """Yield the records of these models that were not refused."""
    for record in records:
        if record.model in models and record.kind != "remove" and record.refused is None:
            yield record
