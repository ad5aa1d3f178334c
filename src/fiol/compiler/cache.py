"""Kernels whose compiled code is kept on disk: one process compiles for all, and a failing disk is one warning."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import multiprocessing
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fiol.compiler.fingerprint import digest
from fiol.compiler.lean_start import loading_kernel
from fiol.compiler.numba_names import CPUDispatcher, FunctionCache, NumbaError, global_compiler_lock
from fiol.compiler.options import dispatcher

try:
    import fcntl
except ImportError:  # no locks: every process compiles for itself
    fcntl = None  # type: ignore[assignment]

#: Seconds after which compiling is reported, and from one report to the next.
WAITS, PAUSE = 1.0, 10.0
#: Seconds for which a process waits for another that compiles the same kernel, before it compiles for itself.
LONGEST_WAIT = 120.0


@dataclasses.dataclass
class CompileCounts:
    """What compiled code has cost this process so far."""

    kernels: int = 0  #: compiled, because the cache did not have them
    seconds: float = 0.0  #: of compiling kernels, or of loading them from the cache
    depth: int = 0  #: kernels that are compiled at this moment, each for the one before


counts = CompileCounts()
_told = -PAUSE
_warned = False


class Kernel(CPUDispatcher):
    """A function that Python calls, compiled for the types of its arguments and kept on disk.

    While one process compiles a kernel, others wait for what it will write. The system takes the lock from a process
    that dies. Whatever the disk does, compiling goes on.
    """

    def compile(self, sig: Any) -> Any:
        with global_compiler_lock:  # one thread at a time, from the lock's beginning to its end
            with contextlib.suppress(KeyError):
                return self.overloads[tuple(sig)].entry_point
            with counting_kernels(self), locked(self), reported(self), older_objects_frozen(), loading_kernel():
                try:
                    return super().compile(sig)
                except (NumbaError, Warning):
                    raise
                except Exception as error:
                    return self.compile_again(sig, error)

    def compile_again(self, sig: Any, error: Exception) -> Any:
        """Return the compiled code after the disk could not be read or written."""
        path = self.stats.cache_path
        if path is None:
            raise error
        if tuple(sig) in self.overloads:
            warn(f"compiled code cannot be kept in {path} ({error!r}) and every process compiles for itself")
        else:
            warn(f"compiled code in {path} cannot be read ({error!r}) and is compiled anew")
            with contextlib.suppress(OSError):
                FunctionCache(self.py_func).flush()
        return super().compile(sig)


def kernel(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Return `function` as a kernel, kept on disk wherever a directory can be written."""
    made = dispatcher(Kernel, function, options)
    if made is function:
        return function
    try:
        made.enable_caching()
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
        warn("fiol found no writable directory to cache compiled code in, and every process compiles for itself")
    return made


@contextlib.contextmanager
def counting_kernels(kernel: Kernel) -> Iterator[None]:
    """Within, `kernel` is compiled or loaded, which `counts` takes down."""
    started, before = time.perf_counter(), kernel.stats.cache_misses.total()
    counts.depth += 1
    try:
        yield
    finally:
        counts.depth -= 1
        counts.kernels += kernel.stats.cache_misses.total() > before
        if not counts.depth:
            counts.seconds += time.perf_counter() - started


@contextlib.contextmanager
def locked(kernel: Kernel) -> Iterator[None]:
    """Within, no other process compiles the kernel, unless it takes long or the disk has no locks."""
    path, lock = kernel.stats.cache_path, None
    if fcntl is not None and path is not None:
        name = f"{digest([f'{kernel.__module__}.{kernel.__qualname__}'.encode()])}.lock"
        with contextlib.suppress(OSError):  # without room on the disk, saving will warn
            Path(path).mkdir(parents=True, exist_ok=True)
            lock = open(Path(path) / name, "ab")  # noqa: SIM115 - held until the end
            wait_for(lock)
    try:
        yield
    finally:
        if lock is not None:
            Path(lock.name).unlink(missing_ok=True)
            lock.close()


def wait_for(lock: Any) -> None:
    """Take a lock as soon as it is free; give up after `LONGEST_WAIT`."""
    end = time.monotonic() + LONGEST_WAIT
    while time.monotonic() < end:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            time.sleep(0.01)


@contextlib.contextmanager
def older_objects_frozen() -> Iterator[None]:
    """Within, the garbage collector examines new objects only, since compiling makes many that all stay.

    A program that has frozen objects by itself keeps them frozen.
    """
    ours = gc.get_freeze_count() == 0
    if ours:
        gc.freeze()
    try:
        yield
    finally:
        if ours:
            gc.unfreeze()


@contextlib.contextmanager
def reported(kernel: Kernel) -> Iterator[None]:
    """Within, a line says that code is being compiled, if that takes long and somebody reads it."""
    if not someone_reads():
        yield
        return
    timer = threading.Timer(WAITS, tell, [kernel.stats.cache_path])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def warn(text: str) -> None:
    """Warn, once in a process."""
    global _warned
    if not _warned:
        _warned = True
        remedy = "set NUMBA_CACHE_DIR to a directory that can be written and has room"
        warnings.warn(f"{text}; {remedy}", RuntimeWarning, stacklevel=2)


def tell(directory: str | None) -> None:
    """Say that code is being compiled, unless that has just been said."""
    global _told
    if time.monotonic() - _told >= PAUSE:
        _told = time.monotonic()
        text = "fiol: compiling this combination, which takes some seconds, once"
        kept = f": kept for later in {directory}" if directory else ""
        print(f"{text}{kept} (FIOL_QUIET=1 silences this line)", file=sys.stderr, flush=True)


def someone_reads() -> bool:
    """Return whether standard error is a terminal or a notebook, in a main process without FIOL_QUIET."""
    if os.environ.get("FIOL_QUIET", "0") not in ("", "0") or multiprocessing.current_process().name != "MainProcess":
        return False
    return "ipykernel" in sys.modules or bool(sys.stderr is not None and sys.stderr.isatty())
