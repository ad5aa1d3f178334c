"""The lock of a model, which no copy, pickle or file takes along."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any, NoReturn


class Lock(type(threading.RLock())):  # type: ignore[misc]
    """The lock of a model: `with model.core.lock:` no other thread learns from rows or reads what was learned.

    It is reentrant. A copy, or a pickle, is a lock that no thread holds. If a process forks while another thread holds
    the lock, its child has a model in the middle of a round that no thread will end: there, every use of that model is
    a RuntimeError.

    >>> import copy
    >>> lock = Lock()
    >>> with lock, lock:
    ...     copy.deepcopy(lock) is lock
    False
    """

    def __new__(cls) -> Lock:
        """Return a lock that a forked process finds."""
        new: Lock = super().__new__(cls)
        LOCKS.add(new)
        return new

    def __reduce__(self) -> tuple[Any, ...]:
        return Lock, ()


class TornLock(Lock):
    """The lock of a model that another thread was using when the process forked."""

    def acquire(self, *args: Any, **options: Any) -> NoReturn:
        """Raise RuntimeError: the model is in the middle of a round."""
        raise RuntimeError(
            "this process was forked while another thread was using this model, which is torn here: "
            "fork before threads start, or use a snapshot() or copy() made before"
        )

    __enter__ = acquire


class NoLock:
    """The lock of a model that never changes: all threads may read at once."""

    __slots__ = ()

    def acquire(self) -> None:
        """Do nothing."""

    def release(self) -> None:
        """Do nothing."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass


#: All locks there are.
LOCKS: weakref.WeakSet[Lock] = weakref.WeakSet()


def after_fork() -> None:
    """In a child process: mark the locks that other threads of the parent held."""
    for lock in list(LOCKS):
        if lock.acquire(blocking=False):
            lock.release()
        else:
            lock.__class__ = TornLock


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=after_fork)
