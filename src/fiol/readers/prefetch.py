"""The next batches, made on a thread of their own while the last one is learned from."""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")

#: How many batches are prefetched.
DEPTH = 4
#: A thread that has nothing to do looks this often, in seconds, whether anybody still waits for it.
GLANCE = 0.1


class Prefetch(Generic[Item]):
    """Yield the items of an iterator, each made ahead in a thread; errors are raised where they would have come.

    The thread ends with the iterator, when `close` is called, and when this object is no longer referenced; then the
    iterator is closed, too. (A thread that waits for a pipe ends when that has something to say; it is a daemon.)

    >>> list(Prefetch(iter("abc")))
    ['a', 'b', 'c']
    """

    def __init__(self, iterator: Iterator[Item], depth: int = DEPTH) -> None:
        self._made: queue.Queue[tuple[bool, Any]] = queue.Queue(depth)
        stop = threading.Event()
        arguments = (iterator, self._made, stop)  # not this object: it could not be let go
        self._thread = threading.Thread(target=run_prefetch, args=arguments, name="fiol-reader", daemon=True)
        self._over = False
        self._finalizer = weakref.finalize(self, stop.set)
        self._thread.start()

    def __iter__(self) -> Prefetch[Item]:
        return self

    def __next__(self) -> Item:
        return self.next_within(None)

    def next_within(self, seconds: float | None) -> Item:
        """Return the next item; queue.Empty if none comes within some seconds."""
        if self._over:
            raise StopIteration
        is_item, found = self._made.get(timeout=seconds)
        if is_item:
            return found  # type: ignore[no-any-return]
        self._over = True
        self._thread.join()
        if found is not None:
            raise found
        raise StopIteration

    def close(self) -> None:
        """Make no more, and wait until the thread has ended, unless it waits for a pipe."""
        self._over = True
        self._finalizer()
        while True:  # room for the batches that wait
            try:
                self._made.get_nowait()
            except queue.Empty:
                break
        self._thread.join(2 * GLANCE)


def run_prefetch(iterator: Iterator[Any], made: queue.Queue[tuple[bool, Any]], stop: threading.Event) -> None:
    """Put what an iterator gives into a queue, with True; at last None, or the error, with False."""
    end: BaseException | None = None
    try:
        for found in iterator:
            if not offered((True, found), made, stop):
                break
            del found
    except BaseException as error:
        end = error
    finally:
        if hasattr(iterator, "close"):
            iterator.close()
    offered((False, end), made, stop)


def offered(item: tuple[bool, Any], made: queue.Queue[tuple[bool, Any]], stop: threading.Event) -> bool:
    """Return whether an item found room in the queue before the queue was stopped."""
    while not stop.is_set():
        try:
            made.put(item, timeout=GLANCE)
        except queue.Full:
            continue
        return True
    return False
