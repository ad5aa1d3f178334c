"""Data that are still being written: pipes, and files that grow. Bytes are read as they arrive."""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from stat import S_ISREG
from typing import Any

#: A block of a live source ends this many seconds after its first byte, whatever has arrived.
LIVE_SECONDS = 0.5
#: How often, in seconds, a waiting reader looks whether it should stop, or whether a file has grown.
POLL_SECONDS = 0.1
#: Bytes read at once, and the most that are read after `stop`: what a pipe can hold.
READ_SIZE, MOST_AFTER_STOP = 2**16, 2**20


class LiveFile:
    """A pipe, or a file that grows, read as bytes arrive.

    Parameters
    ----------
    raw : the file, open for bytes.
    follow : wait for more at the end of the file, as `tail -f` does.
    idle_seconds : with `follow`, end after this many seconds without a new byte; None waits for ever.
    stop : set to end the data: bytes that have arrived by then are still read.

    >>> import tempfile
    >>> with tempfile.TemporaryFile() as file:
    ...     _ = file.write(b"1 1:2"), file.seek(0)
    ...     live = LiveFile(file, follow=True, idle_seconds=0.0)
    ...     live.read(), live.read()
    (b'1 1:2', b'')
    """

    def __init__(
        self,
        raw: Any,
        follow: bool = False,
        idle_seconds: float | None = None,
        stop: threading.Event | None = None,
    ) -> None:
        self.raw, self.follow, self.idle_seconds = raw, follow, idle_seconds
        self.stop = threading.Event() if stop is None else stop
        self._after_stop = 0
        # read1 returns what a buffer holds or one read of the pipe, and leaves nothing in the buffer for READ_SIZE
        self._read_once = getattr(raw, "read1", raw.read)

    def is_ready(self, seconds: float) -> bool:
        """Return whether bytes, or the end of a pipe, arrive within some seconds."""
        if self.follow:
            deadline = time.monotonic() + seconds
            while os.fstat(self.raw.fileno()).st_size <= self.raw.tell():
                left = deadline - time.monotonic()
                if left <= 0.0 or self.stop.is_set():
                    return False
                time.sleep(min(POLL_SECONDS, left))
            return True
        return bool(select.select([self.raw.fileno()], [], [], max(0.0, seconds))[0])

    def read(self) -> bytes:
        """Return the bytes that have arrived, at least one; none at the end of the data."""
        waited_from = time.monotonic()
        while not self.stop.is_set():
            if self.is_ready(POLL_SECONDS):
                return self._read_once(READ_SIZE)  # type: ignore[no-any-return]
            idle = time.monotonic() - waited_from
            if self.follow and self.idle_seconds is not None and idle >= self.idle_seconds:
                return b""
        if self._after_stop >= MOST_AFTER_STOP or not self.is_ready(0.0):
            return b""
        found: bytes = self._read_once(READ_SIZE)
        self._after_stop += len(found)
        return found

    def close(self) -> None:
        """Close the file."""
        self.raw.close()


def is_pipe(raw: Any) -> bool:
    """Return whether an open file is a pipe, socket or terminal that `select` can wait for (on Windows it cannot)."""
    if raw is None or os.name == "nt":
        return False
    with contextlib.suppress(AttributeError, OSError, ValueError):
        return not S_ISREG(os.fstat(raw.fileno()).st_mode)
    return False
