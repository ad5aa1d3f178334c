"""How a command ends: errors and warnings as one line on standard error, and exit codes."""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

import click

from fiol.cli.terminal import echo, printable

#: Set to anything, errors come with their tracebacks.
TRACEBACKS = "FIOL_TRACEBACK"
#: Errors of data, models, disks and missing libraries, which the user can mend.
USER_ERRORS = (ValueError, TypeError, OverflowError, OSError, ImportError, MemoryError, RecursionError)


def handle_errors(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command: errors are one line; exit code 1 for data and models, 130 and 143 for signals."""

    @functools.wraps(command)
    def run(*args: Any, **options: Any) -> Any:
        from fiol.option_names import command_options
        from fiol.training.signals import Signals, Stopped  # imported here: --help needs none of it
        from fiol.workflow.errors import OptionError

        try:
            with Signals() as signals, warnings.catch_warnings(), command_options():
                warnings.showwarning = print_warning
                return command(*args, signals=signals, **options)
        except Stopped as stopped:
            for note in stopped.notes:
                echo(note, err=True)
            exit_now(128 + stopped.number)
        except (click.ClickException, click.exceptions.Exit, BrokenPipeError):
            raise
        except OptionError as error:
            raise click.UsageError(error_line(error)) from error
        except USER_ERRORS as error:
            if os.environ.get(TRACEBACKS):
                raise
            raise click.ClickException(error_line(error)) from error

    return run


def print_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning as one line on standard error."""
    echo(f"Warning: {' '.join(str(message).split())}", err=True)


def exit_now(code: int) -> NoReturn:
    """End the process at once: to tear down the interpreter and its compiler takes longer than a stop may.

    Where standard output is not that of the process, this is somebody else's process, and as `sys.exit`.
    """
    if sys.stdout is sys.__stdout__:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, OSError, ValueError):  # it is closed, or there is none
                stream.flush()  # type: ignore[union-attr]
        os._exit(code)
    sys.exit(code)


def error_line(error: BaseException) -> str:
    """Return the message of an exception as one line.

    >>> error_line(OSError(28, "No space left on device", "model.fiol"))
    'model.fiol: No space left on device'
    """
    if isinstance(error, OSError) and error.strerror:
        return printable(f"{error.filename}: {error.strerror}" if error.filename else error.strerror)
    return printable(" ".join(str(error).split())) or type(error).__name__


def refuse_existing(path: str, force: bool) -> None:
    """UsageError if something is at `path` that must not be replaced, or if nothing can be written there."""
    if os.path.isdir(path):
        raise click.UsageError(f"{printable(path)} is a folder")
    if os.path.exists(path) and not force:
        raise click.UsageError(f"{printable(path)} exists: --force replaces it")
    check_folder(path)


def check_folder(path: str) -> None:
    """UsageError if no file can be written at `path`: found out before the work, not after it."""
    if os.path.exists(path) and not os.path.isfile(path):  # a pipe, a device
        return
    folder = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(folder):
        raise click.UsageError(f"the folder of {printable(path)} is not there")
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        reason = f"no file can be written to the folder of {printable(path)}: {error.strerror}"
        raise click.UsageError(reason) from error


def print_page(path: str | None) -> None:
    """Print on standard error which page was written, if one was."""
    if path is not None:
        echo(f"The page is {path}: open it in a browser.", err=True)


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
