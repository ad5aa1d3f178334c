"""Where compiled code is kept: one process compiles for all, a failing disk is one warning, a long wait one line."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import sys
import threading
import time
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from numba.core.caching import FunctionCache
from numba.core.compiler_lock import global_compiler_lock
from numba.core.runtime import rtsys

from fiol.compiler import helping
from fiol.compiler.fingerprint import digest

try:
    import fcntl
except ImportError:  # no locks: every process compiles for itself
    fcntl = None  # type: ignore[assignment]

#: Compiling is worth a word after so many seconds; the next word comes after so many more.
WAITS, PAUSE = 1.0, 10.0
#: So long one process waits for another that compiles the same code, before it compiles for itself.
LONGEST_WAIT = 120.0

#: How many kernels are being compiled, one inside the other.
_depth = 0
_told = -PAUSE
_warned = False


class BusyError(Exception):
    """Another process compiles the same: a helper leaves it to that one."""


class Kept(FunctionCache):
    """The compiled code of one kernel on disk.

    A process that finds nothing takes a lock for these argument types; the others wait for what it will write. The
    system takes the lock from a process that dies. Whatever the disk does, compiling goes on.
    """

    lock: Any = None
    timer: threading.Timer | None = None

    def __init__(self, function: Any, files: Iterable[Path] = ()) -> None:
        super().__init__(function)
        self.place = f"{function.__module__}.{function.__qualname__}"  # numba's name has an address in it
        stamps = [(file.name, file.stat().st_mtime, file.stat().st_size) for file in files]
        if stamps:  # beside that of its own file, which is numba's
            self._cache_file._source_stamp = (self._cache_file._source_stamp, *stamps)

    def load_overload(self, signature: Any, context: Any) -> Any:
        found = self.read(signature, context)
        if found is None:
            if self.take_turn(signature):
                found = self.read(signature, context)
            if found is None and self.lock is not None and _depth == 1:
                helping.start()
            if found is None and someone_reads():
                self.timer = threading.Timer(WAITS, tell, [self.cache_path])
                self.timer.daemon = True
                self.timer.start()
        return found

    def read(self, signature: Any, context: Any) -> Any:
        """The compiled code on disk; None if there is none, or none that can be read."""
        try:
            return self.load_at_once(signature, context) or super().load_overload(signature, context)
        except Exception as error:
            warn(f"compiled code in {self.cache_path} cannot be read ({error!r}) and is compiled anew")
        with contextlib.suppress(OSError):
            self.flush()
        return None

    def load_at_once(self, signature: Any, context: Any) -> Any:
        """The compiled code on disk without all that numba loads before it compiles, which takes half a second.

        None where this numba does not know how, or if there is none.
        """
        with contextlib.suppress(Exception), self._guard_against_spurious_io_errors():
            rtsys.initialize(context)
            return self._load_overload(signature, context)
        return None

    def save_overload(self, signature: Any, data: Any) -> None:
        try:
            super().save_overload(signature, data)
        except Exception as error:
            warn(f"compiled code cannot be kept in {self.cache_path} ({error!r}) and every process compiles for itself")

    def take_turn(self, signature: Any) -> bool:
        """Wait until no other process compiles the same; whether there was one."""
        if fcntl is None:
            return False
        name = f"{digest([self.place.encode(), str(signature).encode()])}.lock"
        waited, end = False, time.monotonic() + LONGEST_WAIT
        try:
            Path(self.cache_path).mkdir(parents=True, exist_ok=True)
            self.lock = open(Path(self.cache_path) / name, "ab")  # noqa: SIM115 - held until `end_turn`
            while time.monotonic() < end:
                try:
                    fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if helping.is_helper:
                        self.lock.close()
                        self.lock = None
                        raise BusyError from None
                    waited = True
                    time.sleep(0.01)
        except OSError:
            pass  # a disk without locks, or without room: `save_overload` will tell
        return waited

    def end_turn(self) -> None:
        """Compiling is over, well or not."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if self.lock is not None:
            Path(self.lock.name).unlink(missing_ok=True)
            self.lock.close()
            self.lock = None


def kept(kernel: Any, files: Iterable[Path] = ()) -> Any:
    """The same kernel, whose compiled code is kept on disk wherever a directory can be written.

    An edit of its own file, or of one of these `files`, compiles it anew.
    """
    if not hasattr(kernel, "compile"):  # the compiler is switched off
        return kernel
    try:
        cache = kernel._cache = Kept(kernel.py_func, files)
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
        warn("fiol found no writable directory to cache compiled code in, and every process compiles for itself")
        return kernel
    compile_now = kernel.compile

    def compile_in_turn(signature: Any) -> Any:
        # One thread at a time, from the turn's beginning to its end.
        global _depth
        with global_compiler_lock, without_collecting():
            _depth += 1
            try:
                return compile_now(signature)
            finally:
                _depth -= 1
                cache.end_turn()

    kernel.compile = compile_in_turn
    return kernel


@contextlib.contextmanager
def without_collecting() -> Iterator[None]:
    """Garbage is collected later: next to nothing that compiling allocates is any, and looking for it takes a tenth."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def warn(text: str) -> None:
    """Warn, once in a process."""
    global _warned
    if not _warned:
        _warned = True
        remedy = "set NUMBA_CACHE_DIR to a directory that can be written and has room"
        warnings.warn(f"{text}; {remedy}", RuntimeWarning, stacklevel=2)


def tell(directory: str) -> None:
    """Say that code is being compiled, unless that has just been said."""
    global _told
    if time.monotonic() - _told >= PAUSE:
        _told = time.monotonic()
        text = "fiol: compiling this combination, which takes some seconds, once"
        print(f"{text}: kept for later in {directory} (FIOL_QUIET=1 silences this line)", file=sys.stderr, flush=True)


def someone_reads() -> bool:
    """Whether standard error is a terminal or a notebook, this is no worker process, and FIOL_QUIET is not set."""
    if os.environ.get("FIOL_QUIET", "0") not in ("", "0") or multiprocessing.current_process().name != "MainProcess":
        return False
    return "ipykernel" in sys.modules or bool(sys.stderr is not None and sys.stderr.isatty())
