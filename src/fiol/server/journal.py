"""`Journal`: every acknowledged row, in order, in a SQLite file.

The journal is in WAL mode with synchronous=FULL: a transaction that has been committed survives a power failure. One
process at a time may write; `fiol journal` and the dashboard read beside it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from fiol.persistence.atomic_file import make_directory

#: The version of the tables, and statements that convert a file of an earlier version to the next one.
VERSION = 1
JOURNAL_CONVERSIONS: dict[int, tuple[str, ...]] = {}
#: Records that are removed in one transaction, so that requests do not wait for long.
COMPACTED_AT_ONCE = 1000
FILE, LOCK = "journal.sqlite", "lock"

TABLES = """
CREATE TABLE IF NOT EXISTS journal (
    position INTEGER PRIMARY KEY, time REAL NOT NULL, model TEXT NOT NULL, kind TEXT NOT NULL, rows INTEGER NOT NULL,
    payload BLOB NOT NULL, checksum INTEGER NOT NULL, refused TEXT);
CREATE TABLE IF NOT EXISTS models (
    name TEXT PRIMARY KEY, shadow_of TEXT, rules BLOB NOT NULL, source TEXT NOT NULL, time REAL NOT NULL);
CREATE TABLE IF NOT EXISTS ids (
    model TEXT NOT NULL, id TEXT NOT NULL, state TEXT NOT NULL, time REAL NOT NULL, features BLOB, score BLOB,
    label BLOB, PRIMARY KEY (model, id)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS ids_by_time ON ids (model, state, time);
CREATE TABLE IF NOT EXISTS answers (
    key TEXT PRIMARY KEY, digest BLOB NOT NULL, answer BLOB NOT NULL, position INTEGER, time REAL NOT NULL
    ) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS answers_by_time ON answers (time);
"""


class JournalError(ValueError):
    """A journal that cannot be used; the message gives the file and the reason."""


class JournalGoneError(RuntimeError):
    """The journal's file was deleted, moved or replaced while it was open."""


class Record(NamedTuple):
    """One record of the journal."""

    position: int
    time: float
    model: str
    kind: str
    rows: int
    payload: bytes
    refused: str | None


class Journal:
    """The journal in a folder: opened for writing by one process at a time.

    Parameters
    ----------
    folder : created if it does not exist.
    read_only : read beside a server, and take no lock.

    Raises
    ------
    JournalError : another process writes, the file is damaged, or it is of a newer version.
    """

    def __init__(self, folder: str | os.PathLike[str], read_only: bool = False) -> None:
        self.folder, self.read_only = os.fspath(folder), read_only
        self.path = os.path.join(self.folder, FILE)
        self._lock: Any = None
        if read_only and not os.path.exists(self.path):
            raise JournalError(f"{self.path}: there is no journal")
        if not read_only:
            make_directory(self.folder)
            self._lock = lock_file(os.path.join(self.folder, LOCK))
        try:
            self.connection = connect(self.path, read_only)
            with closed_on_error(self.connection):
                self._identity = os.stat(self.path)
                self._check_version()
        except sqlite3.DatabaseError as error:
            self._release()
            raise unreadable(self.path, error) from error
        except BaseException:
            self._release()
            raise
        first, last = self.connection.execute(
            "SELECT ifnull((SELECT min(position) FROM journal), 0), ifnull((SELECT max(position) FROM journal), 0)"
        ).fetchone()  # two queries: one of both would read the whole file
        when = next(self.connection.execute("SELECT time FROM journal WHERE position = ?", (last,)), (0.0,))[0]
        #: Positions of the first and the last record; 0 if there are none.
        self.first, self.last = first, last
        self.clock = JournalClock(when)

    def _check_version(self) -> None:
        version = self.connection.execute("PRAGMA user_version").fetchone()[0]
        fresh = not version and not self.connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if version > VERSION:
            raise JournalError(
                f"{self.path}: version {version} is newer than {VERSION}, the newest that this version of fiol reads"
            )
        if not fresh and not version:
            raise JournalError(f"{self.path}: this is no journal of fiol")
        if self.read_only:
            if version != VERSION:
                raise JournalError(f"{self.path}: version {version}: start fiol serve once, which converts it")
            return
        if version == VERSION:
            return  # nothing is written: SQLite itself needs 32 KiB of the disk, for the index of its log
        with self.connection:
            self.connection.execute("BEGIN IMMEDIATE")
            for older in range(version, VERSION) if version else ():
                for statement in JOURNAL_CONVERSIONS[older]:
                    self.connection.execute(statement)
            for statement in TABLES.split(";"):
                self.connection.execute(statement)
            self.connection.execute(f"PRAGMA user_version={VERSION}")

    # --- writing ------------------------------------------------------------------------------

    def check_in_place(self) -> None:
        """Raise JournalGoneError if another file, or none, has the journal's path: rows would be lost at the end.

        No other file gets the same number while this one is open, even if it was deleted.
        """
        try:
            same = os.path.samestat(os.stat(self.path), self._identity)
        except FileNotFoundError:
            same = False
        if not same:
            raise JournalGoneError(f"{self.path} was deleted, moved or replaced while the server used it")

    def begin(self) -> None:
        """Start a transaction; JournalGoneError if the file is no longer there."""
        self.check_in_place()
        self.connection.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Make everything since `begin` durable; JournalGoneError if the file is no longer there."""
        self.connection.execute("COMMIT")
        self.check_in_place()

    def rollback(self) -> None:
        """Forget everything since `begin`."""
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")

    def append(self, model: str, kind: str, rows: int, payload: bytes, position: int) -> Record:
        """Insert a record inside a transaction; positions follow one another."""
        record = Record(position, self.clock.now(), model, kind, rows, payload, None)
        self.connection.execute(
            "INSERT INTO journal VALUES (?, ?, ?, ?, ?, ?, ?, NULL)", (*record[:6], checksum(record))
        )
        return record

    def refuse(self, position: int, reason: str, undo: Callable[[], None] = lambda: None) -> None:
        """Mark a record that the model did not accept, so that no replay learns it; `undo` what else it changed."""
        with self.connection:
            self.connection.execute("BEGIN IMMEDIATE")
            self.connection.execute("UPDATE journal SET refused = ? WHERE position = ?", (reason, position))
            self.connection.execute("DELETE FROM answers WHERE position = ?", (position,))
            undo()

    def last_before(self, time: float, until: int) -> int:
        """Return the last position before a time among the next 1,000 to remove, at most `until`; 0 without one."""
        query = "SELECT ifnull(max(position), 0) FROM journal WHERE time < ? AND position <= ?"
        return int(self.connection.execute(query, (time, min(until, self.first + COMPACTED_AT_ONCE))).fetchone()[0])

    def compact(self, before: int) -> int:
        """Remove records before a position, but not the last one of the journal; return how many, at most 1,000."""
        before = min(before, self.last_position(), self.first + COMPACTED_AT_ONCE)
        with self.connection:
            self.connection.execute("BEGIN IMMEDIATE")
            done = self.connection.execute("DELETE FROM journal WHERE position < ?", (before,))
        self.connection.execute("PRAGMA incremental_vacuum").fetchall()
        self.first = before
        return done.rowcount

    def last_position(self) -> int:
        """Return the position of the last record in the file; 0 without one."""
        return int(self.connection.execute("SELECT ifnull(max(position), 0) FROM journal").fetchone()[0])

    # --- reading ------------------------------------------------------------------------------

    def records(self, after: int = 0, model: str | None = None, until: int | None = None) -> Iterator[Record]:
        """Yield the records after a position, in order; JournalError at one that is damaged."""
        where, values = "position > ?", [after]
        if model is not None:
            where, values = f"{where} AND model = ?", [*values, model]  # type: ignore[list-item]
        if until is not None:
            where, values = f"{where} AND position <= ?", [*values, until]
        query = "SELECT position, time, model, kind, rows, payload, refused, checksum FROM journal WHERE "
        for row in self.read(f"{query} {where} ORDER BY position", values):
            record = Record(*row[:7])
            if checksum(record) != row[7]:
                raise JournalError(f"{self.path}: {damage(record)}: restore the folder from a backup")
            yield record

    def read(self, query: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query; JournalError if the file is damaged."""
        try:
            yield from self.connection.execute(query, values)
        except sqlite3.DatabaseError as error:
            raise unreadable(self.path, error) from error

    def damaged(self) -> Iterator[str]:
        """Yield what is wrong with the file and its records, in words; nothing if all is well."""
        before = 0
        try:
            for (line,) in self.read("PRAGMA integrity_check"):
                if line != "ok":
                    yield f"SQLite: {line}"
            for row in self.read(
                "SELECT position, time, model, kind, rows, payload, refused, checksum FROM journal ORDER BY position"
            ):
                record, stored = Record(*row[:7]), row[7]
                if before and record.position != before + 1:
                    yield f"records {before + 1} to {record.position - 1} are missing"
                if checksum(record) != stored:
                    yield damage(record)
                before = record.position
        except JournalError as error:
            yield str(error)

    def size(self) -> int:
        """Return the bytes of the journal's files."""
        return sum(os.path.getsize(self.path + end) for end in ("", "-wal") if os.path.exists(self.path + end))

    def close(self) -> None:
        """Close the file and release the lock."""
        self.connection.close()
        self._release()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None


class JournalClock:
    """Seconds since 1970 that never go back: the wall clock at the start, then a clock that no one sets.

    A wall clock that is set while the server runs changes nothing. After a restart the clock continues from the last
    record if the wall clock is behind it.

    >>> clock = JournalClock(after=4e9)
    >>> 4e9 <= clock.now() <= clock.now()
    True
    """

    def __init__(self, after: float = 0.0) -> None:
        self.start, self.started = max(time.time(), after), time.monotonic()

    def now(self) -> float:
        """Return the time."""
        return self.start + (time.monotonic() - self.started)


def connect(path: str, read_only: bool = False) -> sqlite3.Connection:
    """Return a connection in WAL mode whose commits are durable, and in which transactions are explicit."""
    if read_only:
        uri = f"file:{path.replace('?', '%3f').replace('#', '%23')}?mode=ro"
        return sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    with closed_on_error(connection):
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")  # of new files: compaction makes them smaller
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA busy_timeout=10000")
    return connection


@contextlib.contextmanager
def closed_on_error(connection: sqlite3.Connection) -> Iterator[None]:
    """Close the connection if the block raises."""
    try:
        yield
    except BaseException:
        connection.close()
        raise


def checksum(record: Record) -> int:
    """Return a checksum of everything of a record but whether it was refused."""
    about = f"{record.position}|{record.time!r}|{record.model}|{record.kind}|{record.rows}|"
    return zlib.crc32(record.payload, zlib.crc32(about.encode()))


def unreadable(path: str, error: sqlite3.DatabaseError) -> JournalError:
    """Return the error for a file that SQLite cannot use; a backup helps where it is damaged."""
    operational = isinstance(error, sqlite3.OperationalError)
    advice = "" if operational else ": restore the folder from a backup"
    if operational and "disk" in str(error):  # "disk I/O error" is what SQLite says of full disks
        with contextlib.suppress(OSError):
            advice = f": {shutil.disk_usage(os.path.dirname(path)).free:,} bytes of the disk are free"
    return JournalError(f"{path}: {error}{advice}")


def damage(record: Record) -> str:
    """Return what is wrong with a record whose checksum is another one."""
    return f"record {record.position} has another checksum than when it was written"


def lock_file(path: str) -> Any:
    """Return an open file that this process has locked; JournalError if another process has."""
    import fcntl

    file = open(path, "a+")  # noqa: SIM115 the lock lasts as long as the file is open
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.seek(0)
        other = file.read().strip()
        file.close()
        who = f"process {other}" if other else "another process"
        raise JournalError(f"{os.path.dirname(path)}: {who} serves with this journal already") from None
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file
