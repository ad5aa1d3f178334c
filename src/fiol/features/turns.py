"""Threads take turns at a model: one lock each, which no copy, pickle or file takes along."""

from __future__ import annotations

import os
import weakref
from _thread import RLock
from typing import Any, NoReturn


class Turns(RLock):  # type: ignore[misc]
    """The lock of a model. `with model.core.lock:` nobody else learns from rows or reads what was learned.

    The thread whose turn it is may ask again. A copy, or a pickle, is a lock that nobody holds. If a process forks
    while another thread has its turn, its child has a model in the middle of a round, which nobody will end: there,
    every use of that model is a RuntimeError.

    Where a tenth of a microsecond counts, methods do without `with`, which takes twice as long:

        try:
            turns.acquire()
            ...
        finally:
            try:
                turns.release()
            except RuntimeError:  # an interrupt came while this thread waited
                pass

    An interrupt comes after `acquire` returned, and then `release` follows; or while `acquire` waits, and then there is
    nothing to release.

    >>> import copy
    >>> turns = Turns()
    >>> with turns, turns:
    ...     copy.deepcopy(turns) is turns
    False
    """

    __slots__ = ()

    def __new__(cls) -> Turns:
        """A lock that a forked process finds."""
        new: Turns = super().__new__(cls)
        LOCKS.add(new)
        return new

    def __reduce__(self) -> tuple[Any, ...]:
        return Turns, ()


class Torn(Turns):  # type: ignore[misc]
    """The lock of a model that a fork has cut off in the middle of another thread's turn."""

    __slots__ = ()

    def acquire(self, *args: Any, **options: Any) -> NoReturn:
        """RuntimeError: there are no turns any more."""
        raise RuntimeError(
            "this process was forked while another thread was using this model, which is torn here: "
            "fork before threads start, or use a snapshot() or copy() made before"
        )

    __enter__ = acquire


class Free:
    """The lock of a model that never changes: all threads may read at once."""

    __slots__ = ()

    def acquire(self) -> None:
        """Nothing to wait for."""

    def release(self) -> None:
        """Nobody waits."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass


#: All locks there are.
LOCKS: weakref.WeakSet[Turns] = weakref.WeakSet()


def after_fork() -> None:
    """In a child process: find the models that other threads of the parent were using."""
    for turns in list(LOCKS):
        if turns.acquire(blocking=False):
            turns.release()
        else:
            turns.__class__ = Torn


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=after_fork)
