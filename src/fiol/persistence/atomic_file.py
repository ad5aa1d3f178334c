"""Files that are replaced whole or not at all."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
from collections.abc import Iterator
from typing import Any, BinaryIO

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

#: Prefix and suffix of temporary files.
TEMPORARY = re.compile(r"\.fiol-[0-9a-f]{16}\.tmp")


@contextlib.contextmanager
def atomic_file(path: str | os.PathLike[str], overwrite: bool = True) -> Iterator[BinaryIO]:
    """Open a file for bytes that replaces the one at `path` when the block ends without an exception.

    An existing file keeps its permissions; of a symbolic link the target is replaced. A killed process can leave a file
    `.fiol-*.tmp`, which the next write into that folder deletes (where files can be locked; elsewhere delete it
    yourself). FileExistsError if there is a file and it must not be overwritten.

    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "rows.txt")
    >>> with atomic_file(path) as file:
    ...     _ = file.write(b"1 1:2"), os.path.exists(path)
    >>> os.path.exists(path), os.listdir(os.path.dirname(path))
    (True, ['rows.txt'])
    """
    target = os.path.realpath(path)
    if not overwrite and os.path.exists(target):
        raise FileExistsError(f"there is a file {os.fspath(path)!r} already")
    mode, folder, temporary = permissions(target), os.path.dirname(target), ""
    delete_leftovers(folder)
    try:
        file = None
        while file is None:
            temporary = os.path.join(folder, f".fiol-{secrets.token_hex(8)}.tmp")
            file, is_locked = new_file(temporary, mode)
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if is_locked:
                os.replace(temporary, target)
        if not is_locked:  # on Windows an open file cannot be renamed
            os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.filename in (temporary, None):  # the user knows `path` only
            raise OSError(error.errno, error.strerror, os.fspath(path)) from error
        raise
    sync_directory(folder)


@contextlib.contextmanager
def output_file(path: str | os.PathLike[str], overwrite: bool = True) -> Iterator[BinaryIO]:
    """Open `atomic_file`, or a pipe or device as it is, which must not be replaced by a file."""
    if not os.path.exists(path) or os.path.isfile(path):
        with atomic_file(path, overwrite) as file:
            yield file
        return
    try:
        with open(path, "wb") as special:
            yield special
    except OSError as error:
        raise error if error.filename is not None else OSError(error.errno, error.strerror, os.fspath(path)) from error


def new_file(name: str, mode: int | None) -> tuple[BinaryIO | None, bool]:
    """Return a new file and whether it is locked; None for the file if another process deleted it as a leftover."""
    initial = 0o666 if mode is None else mode
    # Never more readable than the file it replaces, not even for a moment.
    file: Any = open(name, "xb", opener=lambda path, flags: os.open(path, flags, initial))  # noqa: SIM115
    if mode is not None:
        os.chmod(name, mode)  # undoes the umask
    is_locked = lock(file)
    if is_locked and not os.path.exists(name):
        file.close()
        return None, False
    return file, is_locked


def permissions(target: str) -> int | None:
    """Return the permissions of the file that is replaced, None if there is none."""
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(mode):
        raise OSError(f"{target} is not a regular file")
    return stat.S_IMODE(mode) & 0o777


def lock(file: BinaryIO) -> bool:
    """Lock a file that is written against `delete_leftovers`; return False if the system has no file locks."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
    except OSError:  # a file system without locks
        return False
    return True


def delete_leftovers(directory: str) -> None:
    """Delete temporary files of killed processes: those without a lock."""
    if fcntl is None:
        return
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        for name in [entry.path for entry in entries if TEMPORARY.fullmatch(entry.name)]:
            with contextlib.suppress(OSError), open(name, "rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(name)


def sync_directory(directory: str) -> None:
    """Sync the directory, where possible, so that the new name survives a power failure."""
    with contextlib.suppress(OSError):  # the file is written already
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def make_directory(directory: str) -> None:
    """Make a directory and its parents, so that their names survive a power failure."""
    if not os.path.isdir(directory):
        parent = os.path.dirname(os.path.abspath(directory))
        make_directory(parent)
        os.makedirs(directory, exist_ok=True)
        sync_directory(parent)
