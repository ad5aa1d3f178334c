"""Digests of what was read of files, so that a run that is resumed notices other data."""

from __future__ import annotations

import hashlib
import io
import os
import threading
from collections.abc import Callable, Collection
from typing import IO, Any, Protocol

from fiol.readers.batch import SourceError

#: Bytes of a digest, and of a file that are hashed at once.
DIGEST_SIZE, HASHED_AT_ONCE = 16, 2**20


class FileDigest:
    """A digest of the first bytes of a file, as they are on disk.

    >>> digest = FileDigest("a.csv")
    >>> digest.add(b"age,"), digest.add(b"price"), digest.record()[:2]
    (None, None, ['a.csv', 9])
    >>> again = FileDigest("a.csv")
    >>> again.expected = tuple(digest.record()[1:])
    >>> again.add(b"age;price")
    Traceback (most recent call last):
    fiol.readers.batch.SourceError: a.csv has changed: its first 9 bytes are not those that the model learned from
    """

    #: What a digest is of.
    unit = "bytes"

    def __init__(self, name: str, held: Any = None) -> None:
        self.name = name
        self.held = held  #: the file, if it is in memory
        self.expected: tuple[int, str] | None = None  #: bytes and digest of an earlier run
        self.whole = False  #: whether all of the file counts, since it is not read from start to end
        self._hash, self._size = hashlib.blake2b(digest_size=DIGEST_SIZE), 0
        self._longest: tuple[int, str] = 0, ""
        self._lock = threading.Lock()

    def restart(self) -> None:
        """Begin again at the start of the file; the digest of most bytes is kept."""
        with self._lock:
            self._longest = max(self._longest, (self._size, self._hash.hexdigest()))
            self._hash, self._size = hashlib.blake2b(digest_size=DIGEST_SIZE), 0

    def add(self, data: Any) -> None:
        """Add the next bytes; SourceError if they are not those of `expected`."""
        with self._lock:
            size, text = self.expected or (0, "")
            if self._size < size <= self._size + len(data):
                first = size - self._size
                self._hash.update(data[:first])
                if self._hash.hexdigest() != text:
                    raise self._changed()
                self._hash.update(data[first:])
            else:
                self._hash.update(data)
            self._size += len(data)

    def record(self) -> list[Any]:
        """Return the name of the file, how many bytes were read, and their digest, as a checkpoint keeps them."""
        if self.whole:
            return [self.name, *self.of_first()]
        with self._lock:
            return [self.name, *max(self._longest, (self._size, self._hash.hexdigest()))]

    @property
    def whole_size(self) -> int:
        """The bytes of the file on disk or in memory."""
        return os.path.getsize(self.name) if self.held is None else self.held.getbuffer().nbytes

    def opened(self) -> IO[bytes]:
        """Return the file on disk or in memory, from its beginning."""
        return open(self.name, "rb") if self.held is None else io.BytesIO(self.held.getvalue())

    def of_first(self, size: int | None = None) -> tuple[int, str]:
        """Return the number and the digest of the first bytes of the file, by default of all of them."""
        found, left, done = hashlib.blake2b(digest_size=DIGEST_SIZE), self.whole_size if size is None else size, 0
        with self.opened() as file:
            while left > done and (data := file.read(min(HASHED_AT_ONCE, left - done))):
                found.update(data)
                done += len(data)
        return done, found.hexdigest()

    def check_beginning(self) -> None:
        """Raise SourceError unless the file on disk or in memory begins with the expected bytes."""
        assert self.expected is not None
        if self.of_first(self.expected[0]) != self.expected:
            raise self._changed()

    def known_beginning(self, records: Collection[tuple[int, str]]) -> int:
        """Return the size of the longest beginning of the file with one of these sizes and digests, or 0."""
        whole, known = self.whole_size, 0
        found, done = hashlib.blake2b(digest_size=DIGEST_SIZE), 0
        with self.opened() as file:
            for size in sorted({size for size, _ in records if 0 < size <= whole}):
                while size > done and (data := file.read(min(HASHED_AT_ONCE, size - done))):
                    found.update(data)
                    done += len(data)
                if (done, found.hexdigest()) in records:
                    known = done
        return known

    def _changed(self) -> SourceError:
        assert self.expected is not None
        first = f"its first {self.expected[0]:,} {self.unit}"
        return SourceError(f"{self.name} has changed: {first} are not those that the model learned from")


class RowsDigest(FileDigest):
    """A digest of the first rows of a frame in memory, `held` with the methods of `RowsInMemory`."""

    unit = "rows"

    def restart(self) -> None:
        """Do nothing: the digest is of rows, not of what is read."""

    def add(self, data: Any) -> None:
        """Do nothing, as `restart`."""

    def record(self) -> list[Any]:
        """Return a name, the number of all rows, and their digest."""
        return [self.name, *self.of_first()]

    @property
    def whole_size(self) -> int:
        """The number of rows."""
        return self.held.count()  # type: ignore[no-any-return]

    def of_first(self, size: int | None = None) -> tuple[int, str]:
        """Return the number and the digest of the first rows, by default of all of them."""
        count = self.whole_size if size is None else min(size, self.whole_size)
        found = hashlib.blake2b(digest_size=DIGEST_SIZE)
        self.held.write_first(count, found.update)
        return count, found.hexdigest()

    def check_beginning(self) -> None:
        """Raise SourceError unless the frame begins with the expected rows, or is that of an older file, by bytes."""
        assert self.expected is not None
        if self.expected != FileDigest(self.name, self.held).of_first(self.expected[0]):
            super().check_beginning()

    def known_beginning(self, records: Collection[tuple[int, str]]) -> int:
        """Return the number of the most first rows with one of these sizes and digests, or 0."""
        sizes = {size for size, _ in records if 0 < size <= self.whole_size}
        return max((size for size in sizes if self.of_first(size) in records), default=0)


class RowsInMemory(Protocol):
    """Rows of a frame, as `RowsDigest` reads them."""

    def count(self) -> int:
        """Return the number of rows."""

    def write_first(self, count: int, write: Callable[[bytes], Any]) -> None:
        """Write the first rows as bytes that depend on nothing but these."""


def digest_for(name: str, held: Any = None) -> FileDigest:
    """Return a digest of a file, on disk or in memory, by rows if it has a frame."""
    return RowsDigest(name, held) if hasattr(held, "write_first") else FileDigest(name, held)
