"""Text for terminals: names and labels of users without control characters."""

from __future__ import annotations

import re
from typing import Any

import click

#: Characters that a terminal interprets: controls (but tab and newline), and marks that reverse the direction of text.
TERMINAL_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    r"""Return text with control characters shown as escapes.

    >>> printable("a\x1b[31mred")
    'a\\x1b[31mred'
    """
    return TERMINAL_CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def echo(text: Any = "", err: bool = False, nl: bool = True) -> None:
    """Print text with control characters shown as escapes; errors of a full disk name standard output."""
    try:
        click.echo(printable(str(text)), err=err, nl=nl)
    except OSError as error:
        if err or isinstance(error, BrokenPipeError):
            raise
        raise OSError(error.errno, error.strerror, "standard output") from error
