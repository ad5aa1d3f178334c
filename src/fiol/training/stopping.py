"""SIGINT and SIGTERM as an exception that waits for the end of what must not be cut in two."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Stopped(KeyboardInterrupt):
    """A signal asked for the end: its `number`, and `notes` on what was done about it."""

    def __init__(self, number: int, *notes: str) -> None:
        super().__init__(signal.Signals(number).name)
        self.number, self.notes = number, notes


class Signals:
    """`with Signals() as signals:` SIGINT and SIGTERM raise `Stopped`: at once, or when `with signals.held():` ends.

    Not every place passes an exception on: whoever calls back from C, or deletes an object, drops it. So what was heard
    is `pending` until somebody says that it is dealt with (`answered`), and the next block of `held` raises again.
    Elsewhere than in the main thread, where Python hears no signals, nothing happens.

    >>> import os
    >>> done = []
    >>> try:
    ...     with Signals() as signals:
    ...         with signals.held():
    ...             os.kill(os.getpid(), signal.SIGTERM)
    ...             done.append("whole")
    ...         done.append("more")
    ... except Stopped as stopped:
    ...     done, stopped.number == signal.SIGTERM
    (['whole'], True)
    """

    def __init__(self) -> None:
        self.depth, self.pending, self.before = 0, 0, dict[int, Any]()

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self.before[number] = signal.signal(number, self._heard)
        return self

    def __exit__(self, *error: object) -> None:
        while self.before:
            number, handler = self.before.popitem()
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _heard(self, number: int, frame: FrameType | None) -> None:
        self.pending = number
        if not self.depth:
            raise Stopped(number)

    def answered(self) -> None:
        """What was heard is being dealt with: blocks of `held` raise no more, unless there is another signal."""
        self.pending = 0

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let signals wait for the end of the block; what is done there is done whole."""
        self._raise()
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1
        self._raise()

    def _raise(self) -> None:
        if self.pending and not self.depth:
            raise Stopped(self.pending)
