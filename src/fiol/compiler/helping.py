"""A second process compiles what will be needed next, into the cache, where this one finds it.

It is a copy of this process (`fork`), so that it begins at once and knows what this one knows, also classes of a
script. It reads and writes nothing but the cache, and ends with its work, with this process, or after `LONGEST_HELP`
seconds. Whatever happens to it, this process compiles what it does not find. Which machine code comes out does not
depend on who made it.

`FIOL_HELPER=0` does without, and so do processes on one processor, workers of others, and systems without `fork`.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import multiprocessing
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from llvmlite.binding import ffi

#: After so many seconds a helper is ended by the system, whatever it does.
LONGEST_HELP = 60

_here = threading.local()
#: The ends of two pipes: the first reads nothing as long as the helper is there, the other tells it that we are.
_ends: tuple[int, int] | None = None
#: In a helper, the kernels that were asked for while it found out what is needed, with the types of their arguments.
asked_for: list[tuple[Any, Any]] | None = None
is_helper = False


@contextlib.contextmanager
def expecting(rehearsal: Callable[[], None]) -> Iterator[None]:
    """Within, if anything has to be compiled, a helper compiles the kernels that `rehearsal` asks for, too.

    The outermost counts. A rehearsal runs in the helper, with kernels that do nothing.
    """
    if getattr(_here, "rehearsal", None) is not None:
        yield
        return
    _here.rehearsal = rehearsal
    try:
        yield
    finally:
        _here.rehearsal = None


def start() -> None:
    """Start a helper, if something is expected, there is none yet, and it would help."""
    rehearsal = getattr(_here, "rehearsal", None)
    if rehearsal is not None and not is_helper and may_help() and not there():
        _here.rehearsal = None  # once
        with contextlib.suppress(OSError):
            fork(rehearsal)


def may_help() -> bool:
    """Whether this process may start another, and there is a processor for it."""
    told = os.environ.get("FIOL_HELPER", "")
    if told == "0" or not hasattr(os, "fork") or not sys.platform.startswith("linux"):
        return False
    if told != "1" and ("PYTEST_XDIST_WORKER" in os.environ or "pyspark.worker" in sys.modules):
        return False
    process: Any = multiprocessing.current_process()
    if process.name != "MainProcess" or process.daemon or multiprocessing.parent_process() is not None:
        return False
    return len(os.sched_getaffinity(0)) > 1


def there() -> bool:
    """Whether a helper is at work: it alone holds the other end of a pipe."""
    global _ends
    if _ends is None:
        return False
    try:
        os.read(_ends[0], 1)
    except BlockingIOError:
        return True
    except OSError:
        pass
    ends, _ends = _ends, None
    for end in ends:
        with contextlib.suppress(OSError):
            os.close(end)
    return False


def fork(rehearsal: Callable[[], None]) -> None:
    """Start a helper: a grandchild, so that nobody has to wait for its end.

    No signal is heard meanwhile: what it raised in the copy would go on as this process would.
    """
    global _ends
    watched, held = os.pipe()
    seen, own = os.pipe()
    os.set_blocking(seen, False)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        with warnings.catch_warnings(), ffi.lib._lock:  # nobody is inside LLVM
            warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12, about threads: the copy has none
            child = os.fork()
            if not child:
                be_helper(rehearsal, watched, own)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(watched)
        os.close(own)
        _ends = seen, held
    with contextlib.suppress(ChildProcessError):
        os.waitpid(child, 0)


def be_helper(rehearsal: Callable[[], None], watched: int, own: int) -> None:
    """Do a helper's work; never returns."""
    try:
        if not os.fork():
            settle_in(watched, own)
            compile_all(tasks_of(rehearsal))
    finally:
        os._exit(0)  # whatever was raised


def settle_in(watched: int, own: int) -> None:
    """Let go of whatever belongs to the other process."""
    global is_helper
    is_helper = True
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.alarm(LONGEST_HELP)
    faulthandler.disable()
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)
    low, high = sorted((watched, own))
    for first, last in ((3, low), (low + 1, high), (high + 1, os.sysconf("SC_OPEN_MAX"))):
        os.closerange(first, last)
    warnings.simplefilter("ignore")
    gc.disable()
    threading.Thread(target=lambda: (os.read(watched, 1), os._exit(0)), daemon=True).start()


def tasks_of(rehearsal: Callable[[], None]) -> list[tuple[Any, Any]]:
    """The kernels that will be needed, in a helper's order.

    The other process goes from the first to the last, so the helper begins with the second of those that take long, and
    goes on with the last of the others.
    """
    global asked_for
    found: list[tuple[Any, Any]] = []
    asked_for = found
    with contextlib.suppress(BaseException):
        rehearsal()
    asked_for = None
    large = [task for task in found if is_large(task[0])]
    return [*large[1:], *(task for task in reversed(found) if not is_large(task[0])), *large[:1]]


def is_large(kernel: Any) -> bool:
    """Whether a kernel makes rounds, which takes most of the time."""
    return any(word in kernel.__name__ for word in ("learn", "gate", "stack"))


def compile_all(tasks: list[tuple[Any, Any]]) -> None:
    """Compile kernels that nobody else does meanwhile; what fails is left to the other process, which will tell why."""
    for kernel, kinds in tasks:
        with contextlib.suppress(Exception):
            kernel.compile(kinds)


def nothing_done(*arguments: Any) -> Any:
    """What a kernel does while a helper finds out what is needed."""
    return 0.0, 1.0
