"""Run generators in several processes, so that two cores measure two things."""

from __future__ import annotations

import multiprocessing
import queue
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import Any

#: A task that yields its results; it must pickle to run in another process.
Task = Callable[[], Iterator[Any]]


def run_parallel(tasks: Sequence[Task], workers: int = 1) -> Iterator[tuple[int, Any]]:
    """Run all tasks, and yield (number of the task, its next result) as results come.

    With one worker tasks run here, one after the other; with more, in as many processes. Closing the generator, for
    example by an interrupt, stops all tasks. An exception of a task is raised here.

    >>> list(run_parallel([lambda: iter("ab"), lambda: iter("c")]))
    [(0, 'a'), (0, 'b'), (1, 'c')]
    """
    if min(workers, len(tasks)) > 1:
        yield from run_in_processes(tasks, min(workers, len(tasks)))
        return
    for k, task in enumerate(tasks):
        for item in task():
            yield k, item


def run_in_processes(tasks: Sequence[Task], workers: int) -> Iterator[tuple[int, Any]]:
    """Run tasks in processes, each of which takes the next task when it has finished one; see `run_parallel`."""
    context = multiprocessing.get_context("spawn")  # a fork of a process with threads could hang
    todo, found = context.Queue(), context.Queue()
    for numbered in (*enumerate(tasks), *[None] * workers):
        todo.put(numbered)
    processes = [context.Process(target=run_worker, args=(todo, found), daemon=True) for _ in range(workers)]
    try:
        for process in processes:
            process.start()
        unfinished = len(tasks)
        while unfinished:
            try:
                k, kind, item = found.get(timeout=1.0)
            except queue.Empty:
                if any(process.exitcode for process in processes):
                    raise RuntimeError("a worker process has died") from None
                continue
            if kind == "error":
                raise item
            if kind == "item":
                yield k, item
            else:
                unfinished -= 1
    finally:
        for process in processes:
            if process.pid is not None:
                process.terminate()
                process.join()
        for pipe in (todo, found):
            pipe.close()
            pipe.cancel_join_thread()  # unread results are dropped


def run_worker(todo: Any, found: Any) -> None:
    """Run tasks from a queue in one process; the parent process handles interrupts."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for k, task in iter(todo.get, None):
        try:
            for item in task():
                found.put((k, "item", item))
        except Exception as error:
            found.put((k, "error", error))
            return
        found.put((k, "done", None))
