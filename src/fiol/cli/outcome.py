"""How a command ends: one clear line and an exit code, whatever went wrong."""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import click

#: Set to anything, errors come with their tracebacks.
TRACEBACKS = "FIOL_TRACEBACK"
#: What is the user's to mend: data, models, disks, libraries that are not there.
USERS_TO_MEND = (ValueError, TypeError, OverflowError, OSError, ImportError, MemoryError)


def answering(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command whose errors are one line on standard error: 1 for data and models, 130 and 143 for signals."""

    @functools.wraps(command)
    def answer(*args: Any, **options: Any) -> Any:
        from fiol.training.signals import Signals, Stopped  # imported here: help is for everyone

        try:
            with Signals() as signals, warnings.catch_warnings():
                warnings.showwarning = say_warning
                return command(*args, signals=signals, **options)
        except Stopped as stopped:
            for note in stopped.notes:
                click.echo(note, err=True)
            leave(128 + stopped.number)
        except (click.ClickException, click.exceptions.Exit, BrokenPipeError):
            raise
        except USERS_TO_MEND as error:
            if os.environ.get(TRACEBACKS):
                raise
            raise click.ClickException(one_line(error)) from error

    return answer


def say_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """A warning as one line on standard error."""
    click.echo(f"Warning: {' '.join(str(message).split())}", err=True)


def leave(code: int) -> NoReturn:
    """End the process at once: to tear down the interpreter and its compiler takes longer than a stop may.

    Where standard output is not that of the process, this is somebody else's process, and as `sys.exit`.
    """
    if sys.stdout is sys.__stdout__:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, OSError, ValueError):  # it is closed, or there is none
                stream.flush()  # type: ignore[union-attr]
        os._exit(code)
    sys.exit(code)


def one_line(error: BaseException) -> str:
    """What an exception says, in a line.

    >>> one_line(OSError(28, "No space left on device", "model.fiol"))
    'model.fiol: No space left on device'
    """
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return " ".join(str(error).split()) or type(error).__name__


def refuse_existing(path: str, force: bool) -> None:
    """UsageError if something is at `path` that nobody allowed to be replaced, or if nothing can be written there."""
    if os.path.isdir(path):
        raise click.UsageError(f"{path} is a folder")
    if os.path.exists(path) and not force:
        raise click.UsageError(f"{path} exists: --force replaces it")
    check_folder(path)


def check_folder(path: str) -> None:
    """UsageError if no file can be written at `path`: found out before the work, not after it."""
    if os.path.exists(path) and not os.path.isfile(path):  # a pipe, a device
        return
    folder = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(folder):
        raise click.UsageError(f"the folder of {path} is not there")
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise click.UsageError(f"no file can be written to the folder of {path}: {error.strerror}") from error


@contextmanager
def whole_file(path: str | None) -> Iterator[Any]:
    """A text file that is at `path` when the block has ended well, and not before; None is standard output."""
    if path is None:
        yield sys.stdout
        return
    folder, name = os.path.split(os.path.abspath(path))
    temporary = os.path.join(folder, f".{name}.{os.getpid()}.tmp")
    try:
        try:
            with open(temporary, "x", encoding="utf-8", newline="") as file:
                yield file
        except OSError as error:
            if error.filename == temporary:  # nobody has heard of that name
                raise OSError(error.errno, error.strerror, path) from error
            raise
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


def tell_page(path: str | None) -> None:
    """Say on standard error which page was written, if one was."""
    if path is not None:
        click.echo(f"The page is {path}: open it in a browser.", err=True)


def json_text(found: Any) -> str:
    """Plain values as JSON; numbers that JSON does not have are null.

    >>> print(json_text({"loss": [0.5, float("inf")]}))
    {
      "loss": [
        0.5,
        null
      ]
    }
    """
    return json.dumps(with_nulls(found), indent=2, allow_nan=False)


def with_nulls(found: Any) -> Any:
    """Return a JSON value with None in the place of numbers that are not finite."""
    if isinstance(found, dict):
        return {name: with_nulls(value) for name, value in found.items()}
    if isinstance(found, (list, tuple)):
        return [with_nulls(value) for value in found]
    return None if isinstance(found, float) and not math.isfinite(found) else found
