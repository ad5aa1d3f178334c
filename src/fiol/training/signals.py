"""Turn SIGINT and SIGTERM into an exception that can be deferred to the end of a block."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Stopped(KeyboardInterrupt):
    """A signal stopped the run: its `number`, and `notes` for the user."""

    def __init__(self, number: int, *notes: str) -> None:
        super().__init__(signal.Signals(number).name)
        self.number, self.notes = number, notes


class Signals:
    """Raise `Stopped` on SIGINT and SIGTERM inside `with Signals() as signals:`; `signals.deferred()` delays it.

    Callbacks from C and destructors drop exceptions. So a signal stays `pending` until `acknowledge` is called, and the
    next deferred block raises again. Outside the main thread, where Python handles no signals, nothing happens.

    >>> import os
    >>> done = []
    >>> try:
    ...     with Signals() as signals:
    ...         with signals.deferred():
    ...             os.kill(os.getpid(), signal.SIGTERM)
    ...             done.append("whole")
    ...         done.append("more")
    ... except Stopped as stopped:
    ...     done, stopped.number == signal.SIGTERM
    (['whole'], True)
    """

    def __init__(self) -> None:
        self.depth, self.pending, self.before = 0, 0, dict[int, Any]()
        #: Called at the first signal instead of raising `Stopped`, and the number of that signal.
        self.on_signal: Callable[[], None] | None = None
        self.handled = 0

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self.before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *error: object) -> None:
        while self.before:
            number, handler = self.before.popitem()
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.on_signal is not None:
            stop, self.on_signal, self.handled = self.on_signal, None, number
            stop()
            return
        self.pending = number
        if not self.depth:
            raise Stopped(number)

    def acknowledge(self) -> None:
        """Mark the pending signal as handled: deferred blocks do not raise until the next signal."""
        self.pending = 0

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Delay signals to the end of the block."""
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
