"""`Writer`: the one thread that writes the journal and teaches the models.

Everything that waits is one transaction (group commit): the records are durable, then the models learn from them in
the order of the journal, and then the requests are answered.
"""

from __future__ import annotations

import asyncio
import dataclasses
import math
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fiol.server.journal import COMPACTED_AT_ONCE, Journal, Record
from fiol.server.labels import LabelJoin, RefusedError
from fiol.server.messages import LearnAnswer, LearnRecord, LearnRow, PredictAnswer, PredictRecord, encode
from fiol.server.replay import learn_records, refuse_record
from fiol.server.served_model import EncodedRows, ServedModel
from fiol.server.snapshots import SnapshotStore

#: Rows and requests of one transaction.
GROUP_ROWS, GROUP_REQUESTS = 4096, 512
#: Seconds between checks of expiry, snapshots and compaction.
DUTY_SECONDS = 1.0
#: Seconds for which answers to idempotency keys are kept.
KEYS_KEPT = 86400.0


@dataclasses.dataclass
class WriterOptions:
    """Limits and intervals of the writer."""

    queue_rows: int = 20_000  #: rows that may wait
    most_pending: int = 1_000_000  #: predictions that may wait for labels
    snapshot_seconds: float = 300.0  #: between snapshots of a model that has learned
    keep_age: float = 30 * 86400.0  #: seconds for which records are kept beyond the oldest snapshot
    keep_bytes: float = math.inf  #: size of the journal above which records before the oldest snapshot are removed


@dataclasses.dataclass
class Command:
    """A request for the writer, and the future that its answer goes to."""

    model: str
    rows: int = 1
    key: str | None = None
    digest: bytes = b""
    future: Any = None
    loop: Any = None
    answer: Any = None
    error: Exception | None = None


@dataclasses.dataclass
class LearnCommand(Command):
    """Rows with labels."""

    learn: Sequence[LearnRow] = ()

    @property
    def has_ids(self) -> bool:
        """Whether a row has an id."""
        return any(row.id is not None for row in self.learn)


@dataclasses.dataclass
class PredictCommand(Command):
    """Predictions with ids, which wait for their labels."""

    record: PredictRecord = None  # type: ignore[assignment]
    predictions: PredictAnswer = None  # type: ignore[assignment]


@dataclasses.dataclass
class ControlCommand(Command):
    """A change of models, alone in the writer's thread."""

    run: Callable[[], Any] = lambda: None


@dataclasses.dataclass
class Entry:
    """A record of learning that is durable, and the request that it belongs to."""

    served: ServedModel
    position: int
    record: LearnRecord
    command: Command | None = None
    outcomes: dict[str, int] = dataclasses.field(default_factory=dict)


class Writer(threading.Thread):
    """Writes the journal, teaches the models, takes snapshots.

    Parameters
    ----------
    journal, snapshots : of one folder.
    models : by name; only this thread changes it and them once it runs.
    say : reports an event that somebody should know of.
    """

    def __init__(
        self,
        journal: Journal,
        snapshots: SnapshotStore,
        models: dict[str, ServedModel],
        options: WriterOptions,
        say: Callable[[str], None],
    ) -> None:
        super().__init__(name="fiol-writer", daemon=True)
        self.journal, self.snapshots, self.models, self.options, self.say = journal, snapshots, models, options, say
        self.join_labels = LabelJoin(journal.connection, options.most_pending)
        self.waiting: deque[Command] = deque()
        self.waiting_rows, self.stopping = 0, False
        self.changed = threading.Condition()
        self.position = journal.last  #: of the last durable record
        self.commit_seconds: deque[float] = deque(maxlen=1000)
        self.commits = self.group_rows = 0
        self.failed: str | None = None  #: why the last transaction failed
        self.saver = ThreadPoolExecutor(1, thread_name_prefix="fiol-snapshots")
        #: Position of the last snapshot of every model, and when it was taken, by a clock that is never set.
        self.saved = {name: (one.position, time.monotonic()) for name, one in models.items()}
        self.next_tick = 0.0
        self.group: list[Command] | None = None  #: the requests that are processed
        self.broken: str | None = None  #: why the thread ended
        #: Called when the thread ends because of an error.
        self.on_failure: Callable[[], None] = lambda: None
        self._counts: list[tuple[ServedModel, dict[str, int]]] = []  #: label flow of the open transaction

    # --- requests -----------------------------------------------------------------------------

    def submit(self, command: Command) -> asyncio.Future[Any]:
        """Put a request into the queue and return the future of its answer; RefusedError if the queue is full."""
        command.loop = asyncio.get_running_loop()
        command.future = command.loop.create_future()
        with self.changed:
            if self.stopping:
                raise RefusedError("the server is stopping", status=503, retry=5.0)
            if self.waiting_rows + command.rows > self.options.queue_rows and self.waiting:
                raise RefusedError(f"{self.waiting_rows} rows wait to be written", status=429, retry=1.0)
            self.waiting.append(command)
            self.waiting_rows += command.rows
            self.changed.notify()
        return command.future  # type: ignore[no-any-return]

    def stop(self) -> None:
        """Refuse new requests, finish those that wait, save all models, and close the journal."""
        with self.changed:
            self.stopping = True
            self.changed.notify()
        self.join()

    # --- the thread ---------------------------------------------------------------------------

    def run(self) -> None:
        """Process groups of requests until `stop`, then save all models.

        After an unexpected error models may lack rows that are in the journal: nothing is saved, everything that waits
        is refused, and the server ends. Its next start learns these rows from the journal.
        """
        try:
            self._process_groups()
            self.saver.shutdown(wait=True)
            for served in self.models.values():
                self._save_snapshot(served)
        except BaseException as error:
            self.broken = f"{type(error).__name__}: {error}"
            self.say(f"the writer failed: {self.broken}")
            self._refuse_all()
            self.on_failure()
        finally:
            self.saver.shutdown(wait=True)
            self.journal.close()

    def _process_groups(self) -> None:
        while True:
            self.group = self._next_group()
            if self.group is None:
                break
            if self.group:
                self._process(self.group)
            self._keep_up()

    def _refuse_all(self) -> None:
        """Refuse all requests that wait, and all that come."""
        with self.changed:
            self.stopping = True
            left = [*(self.group or []), *self.waiting]
            self.waiting.clear()
        for command in left:
            command.error = command.error or RefusedError("the server failed", status=500)
        self._answer(left)

    def _next_group(self) -> list[Command] | None:
        """Return the requests that wait, in order; none after a while; None at the end."""
        with self.changed:
            if not self.waiting and not self.stopping:
                self.changed.wait(max(0.0, self._seconds_to_next_duty()))
            if not self.waiting:
                return None if self.stopping else []
            group, rows = list[Command](), 0
            while self.waiting and len(group) < GROUP_REQUESTS and rows < GROUP_ROWS:
                if isinstance(self.waiting[0], ControlCommand) and group:
                    break
                command = self.waiting.popleft()
                group.append(command)
                rows += command.rows
                if isinstance(command, ControlCommand):
                    break
            self.waiting_rows -= rows
            return group

    def _seconds_to_next_duty(self) -> float:
        due = [served.refresh_due for served in self.models.values()]
        return min([self.next_tick - time.monotonic(), *due])

    def _process(self, group: list[Command]) -> None:
        """Make a group durable, teach the models, answer."""
        if isinstance(group[0], ControlCommand):
            self._control(group[0])
        else:
            encoded = self._validate(group)
            entries = self._write(group)
            if entries:
                self._apply(entries, encoded)
        self._answer(group)

    def _control(self, command: ControlCommand) -> None:
        position = self.position
        try:
            command.answer = command.run()
        except (TypeError, ValueError, KeyError, OverflowError) as error:
            if self.position != position:
                raise  # it is in the journal
            self.undo()
            command.error = error if isinstance(error, RefusedError) else RefusedError(str(error))
        except (OSError, sqlite3.Error) as error:
            if self.position != position:
                raise
            self.undo()
            reason = getattr(error, "strerror", None) or str(error)
            self.say(f"the change of a model was not written: {error}")
            command.error = RefusedError(f"the change was not written: {reason}", status=507, retry=10.0)

    def undo(self) -> None:
        """Roll the open transaction back, if there is one."""
        self.journal.rollback()
        self.join_labels.recount()

    # --- 1: are all rows good? ----------------------------------------------------------------

    def _validate(self, group: list[Command]) -> dict[str, tuple[list[Command], EncodedRows]]:
        """Refuse requests with bad rows; return the encoded rows of all others by model, if rows have no ids."""
        by_model: dict[str, list[LearnCommand]] = {}
        for command in group:
            if command.model not in self.models:
                command.error = RefusedError(f"there is no model {command.model!r}", status=404)
            elif self.models[command.model].shadow_of is not None:
                command.error = RefusedError(
                    f"{command.model!r} is a shadow: it learns with its live model", status=409
                )
            elif isinstance(command, LearnCommand):
                by_model.setdefault(command.model, []).append(command)
        found: dict[str, tuple[list[Command], EncodedRows]] = {}
        for name, commands in by_model.items():
            served = self.models[name]
            encoded = self._encode(served, commands)
            if encoded is None:
                for command in commands:
                    self._encode(served, [command])
            elif not any(command.has_ids for command in commands):
                found[name] = list(commands), encoded
        return found

    def _encode(self, served: ServedModel, commands: Sequence[LearnCommand]) -> EncodedRows | None:
        """Return the encoded rows of requests; for a single request, set its error if there is one."""
        rows = [row for command in commands for row in command.learn]
        try:
            known = [row for row in rows if row.features is not None]
            served.encode([], [row.label for row in rows if row.features is None])
            return served.encode(
                [row.features for row in known],  # type: ignore[misc]
                [row.label for row in known],
                [row.weight for row in known],
            )
        except RefusedError as error:
            if len(commands) == 1:
                commands[0].error = error
        except Exception as error:  # nothing has changed: the server goes on
            if len(commands) == 1:
                self.say(f"rows were not encoded: {type(error).__name__}: {error}")
                commands[0].error = RefusedError("the server failed", status=500)
        return None

    # --- 2: make them durable -----------------------------------------------------------------

    def _write(self, group: list[Command]) -> list[Entry]:
        """Write the records of a group in one transaction; return those that models learn from."""
        journal, entries, position = self.journal, list[Entry](), self.position
        started, self._counts = time.perf_counter(), []
        try:
            journal.begin()
            for command in group:
                if command.error is None or command.key is not None:  # a repeated request has its answer already
                    journal.connection.execute("SAVEPOINT request")
                    before = self.position, len(entries), len(self._counts)
                    counts = self.join_labels.counts()
                    try:
                        self._decide(command, entries)
                    except RefusedError as error:
                        journal.connection.execute("ROLLBACK TO request")
                        self.join_labels.restore(counts)
                        self.position = before[0]
                        del entries[before[1] :], self._counts[before[2] :]
                        command.error = error
                    journal.connection.execute("RELEASE request")
            journal.commit()
        except (sqlite3.Error, OSError) as error:
            self.undo()
            self.position, self.failed = position, str(error)
            self.say(f"the journal was not written: {error}")
            for command in group:
                if command.error is None:
                    command.error = RefusedError(f"the journal was not written: {error}", status=507, retry=10.0)
            return []
        self.failed = None
        for served, outcomes in self._counts:
            served.metrics.note_labels(outcomes)
        self.commits += 1
        self.group_rows += sum(command.rows for command in group)
        self.commit_seconds.append(time.perf_counter() - started)
        return entries

    def _decide(self, command: Command, entries: list[Entry]) -> None:
        """Write the records of one request, and its answer."""
        if command.key is not None:
            found = self.journal.connection.execute(
                "SELECT digest, answer FROM answers WHERE key = ?", (command.key,)
            ).fetchone()
            if found is not None and found[0] != command.digest:
                raise RefusedError("the idempotency key was used for another request")
            if found is not None:
                command.answer, command.error = found[1], None
                return
        if command.error is not None:
            raise command.error
        served, now = self.models[command.model], self.journal.clock.now()
        if isinstance(command, LearnCommand):
            answer: Any = self._decide_learn(command, served, now, entries)
        else:
            assert isinstance(command, PredictCommand)
            answer = self._decide_predict(command, served, now, entries)
        command.answer = encode(answer)
        if command.key is not None:
            self.journal.connection.execute(
                "INSERT INTO answers VALUES (?, ?, ?, ?, ?)",
                (command.key, command.digest, command.answer, self.position, now),
            )

    def _decide_learn(
        self, command: LearnCommand, served: ServedModel, now: float, entries: list[Entry]
    ) -> LearnAnswer:
        rows = command.learn
        if not command.has_ids and all(row.features is not None for row in rows):
            record, outcomes = record_of(rows), None
            counts = {"learned": len(rows)}
        else:
            record, outcomes = self.join_labels.labeled(served.name, rows, served.rules, now)
            counts = {name: outcomes.count(name) for name in dict.fromkeys(outcomes)}
        if record.labels:
            self._append_learn(served, record, command, counts, entries)
        else:
            self._counts.append((served, counts))
        return LearnAnswer(served.name, self.position, len(rows), counts, outcomes if command.has_ids else None)

    def _decide_predict(
        self, command: PredictCommand, served: ServedModel, now: float, entries: list[Entry]
    ) -> PredictAnswer:
        record = command.record
        learned = self.join_labels.predicted(served.name, record, now)
        self._append(served.name, "predict", len(record.ids), encode(record))
        command.predictions.position = self.position
        self._counts.append((served, {"predicted": len(record.ids)}))
        if learned is not None:
            self._append_learn(served, learned, command, {"learned": len(learned.labels)}, entries)
        return command.predictions

    def _append_learn(
        self,
        served: ServedModel,
        record: LearnRecord,
        command: Command | None,
        outcomes: dict[str, int],
        entries: list[Entry],
    ) -> None:
        self._append(served.name, "learn", len(record.labels), encode(record))
        entries.append(Entry(served, self.position, record, command, outcomes))

    def _append(self, model: str, kind: str, rows: int, payload: bytes) -> Record:
        self.position += 1
        return self.journal.append(model, kind, rows, payload, self.position)

    # --- 3: teach the models ------------------------------------------------------------------

    def _apply(self, entries: list[Entry], encoded: dict[str, tuple[list[Command], EncodedRows]]) -> None:
        """Teach models and their shadows, in the order of the journal; contiguous records of a model at once."""
        runs = list[list[Entry]]()
        for entry in entries:
            if runs and runs[-1][0].served is entry.served:
                runs[-1].append(entry)
            else:
                runs.append([entry])
        for run in runs:
            served = run[0].served
            commands, rows = encoded.get(served.name, ([], None))
            known = rows if [entry.command for entry in run] == commands else None
            refused = dict(learn_records(served, [(one.position, one.record) for one in run], known))
            for entry in run:
                if entry.position not in refused:
                    served.metrics.note_labels(entry.outcomes, entry.record.delays)
                    continue
                refuse_record(self.journal, served.name, entry.position, entry.record, refused[entry.position])
                self.join_labels.recount()
                self._refuse_request(entry.command, RefusedError(refused[entry.position]))
            left = [(one.position, one.record) for one in run if one.position not in refused]
            for shadow in self.shadows_of(served.name) if left else ():
                shadow.errors += len(learn_records(shadow, left))

    def _refuse_request(self, command: Command | None, error: RefusedError) -> None:
        """Refuse a request, and those of the group that repeat it by its idempotency key."""
        if command is None:
            return
        for one in self.group or ():
            repeats = one.key is not None and (one.key, one.digest) == (command.key, command.digest)
            if one is command or repeats:
                one.error = error

    def shadows_of(self, name: str) -> list[ServedModel]:
        """Return the models that learn beside a live model."""
        return [one for one in self.models.values() if one.shadow_of == name]

    # --- 4: answer ----------------------------------------------------------------------------

    def _answer(self, group: list[Command]) -> None:
        """Hand the answers of a group to the event loops that wait for them."""
        by_loop: dict[Any, list[Command]] = {}
        for command in group:
            if command.loop is not None:
                by_loop.setdefault(command.loop, []).append(command)
        for loop, commands in by_loop.items():
            try:
                loop.call_soon_threadsafe(resolve, commands)
            except RuntimeError:  # the loop is closed: no request waits
                continue

    # --- duties beside requests ---------------------------------------------------------------

    def _keep_up(self) -> None:
        """Replace readers that lag; every second expire predictions, take snapshots and compact the journal."""
        for served in self.models.values():
            if served.refresh_due <= 0.0:
                served.refresh()
        if time.monotonic() < self.next_tick:
            return
        self.next_tick = time.monotonic() + DUTY_SECONDS
        more = self._expire()
        for served in self.models.values():
            served.publish()
        try:
            for served in self.models.values():
                position, when = self.saved.get(served.name, (0, -math.inf))
                if served.position > position and time.monotonic() - when > self.options.snapshot_seconds:
                    self.start_snapshot(served)
            more |= self._compact()
        except (sqlite3.Error, OSError) as error:
            self._note_failure(error)
        if more:  # what comes in a second may be more than is done at once
            self.next_tick = time.monotonic()

    def _note_failure(self, error: Exception) -> None:
        """Roll back what the journal could not write."""
        self.undo()
        self.position, self.failed = self.journal.last_position(), str(error)
        self.say(f"the journal was not written: {error}")

    def _expire(self) -> bool:
        """Expire predictions without labels, and forget old answers; return whether there may be more to do.

        An error after the transaction ends the server, as with requests: rows that are durable must be learned from.
        """
        try:
            entries, more = self._write_expired()
        except (sqlite3.Error, OSError) as error:
            self._note_failure(error)
            return False
        if entries:
            self._apply(entries, {})
        return more

    def _write_expired(self) -> tuple[list[Entry], bool]:
        now, entries, dropped = self.journal.clock.now(), list[Entry](), list[tuple[ServedModel, int]]()
        more = False
        self.journal.begin()
        for served in self.models.values():
            record, count, is_full = self.join_labels.expire(served.name, served.rules, now)
            more |= is_full
            if record is not None:
                self._append_learn(served, record, None, {"expired": count}, entries)
            elif count:
                dropped.append((served, count))
        connection, old = self.journal.connection, now - KEYS_KEPT
        if self.failed is not None:  # tries to write, so that the server gets ready again without requests
            connection.execute("INSERT OR REPLACE INTO answers VALUES ('', x'', x'', NULL, ?)", (old - 1.0,))
        connection.execute("DELETE FROM answers WHERE time < ?", (old,))
        self.journal.commit()
        self.failed = None
        for served, count in dropped:
            served.metrics.note_labels({"expired": count})
        return entries, more

    def start_snapshot(self, served: ServedModel) -> None:
        """Save a copy of a model in the background."""
        self.saved[served.name] = served.position, time.monotonic()
        self.saver.submit(self._save_in_background, served.name, served.file_copy())

    def _save_snapshot(self, served: ServedModel) -> None:
        """Save a model now, if it has learned since its last snapshot."""
        if served.position > self.saved.get(served.name, (0, 0.0))[0] or not self.snapshots.list(served.name):
            self._save(served.name, served.file_copy())

    def _save_in_background(self, name: str, model: Any) -> None:
        try:
            self._save(name, model)
        except Exception as error:  # the writer finds out by itself, or takes the next one
            self.say(f"the snapshot of {name} was not saved: {error}")

    def _save(self, name: str, model: Any) -> None:
        try:
            self.snapshots.save(name, model)
            self.snapshots.prune(name)
        except OSError as error:
            self.saved[name] = 0, time.monotonic()  # another one is due after the usual time, and at the end
            self.say(f"the snapshot of {name} was not saved: {error}")

    def _compact(self) -> bool:
        """Remove records that no kept snapshot needs, if they are too old or the journal is too large.

        Returns whether there is more to remove.
        """
        if not self.models:
            return False
        needed = min(self.snapshots.oldest(name) for name in self.models)
        if needed <= self.journal.first:
            return False
        found = self.journal.last_before(self.journal.clock.now() - self.options.keep_age, needed)
        if self.journal.size() > self.options.keep_bytes:
            found = needed
        if found < self.journal.first:
            return False
        removed = self.journal.compact(found + 1)
        if removed:
            self.say(f"removed {removed} records of the journal, those before position {self.journal.first}")
        return removed >= COMPACTED_AT_ONCE


def record_of(rows: Sequence[LearnRow]) -> LearnRecord:
    """Return the record of rows with features and without ids."""
    weights = [row.weight for row in rows]
    plain = all(weight == 1.0 for weight in weights)
    return LearnRecord([row.features or {} for row in rows], [row.label for row in rows], None if plain else weights)


def resolve(commands: list[Command]) -> None:
    """Set the futures of requests; runs in the event loop."""
    for command in commands:
        if command.future.done():  # the client has gone
            continue
        if command.error is not None:
            command.future.set_exception(command.error)
        else:
            command.future.set_result(command.answer)
