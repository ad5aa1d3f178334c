"""What options are called in messages: `--on-error skip` by the command, `on_error='skip'` in Python."""

from __future__ import annotations

import csv
import io
import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

#: Options whose names in the command are not those of the parameters.
COMMAND_NAMES = {"columns": "--column", "reader_options": "--reader", "intercept": "--no-intercept"}
#: What checkpoints call parameters.
STORED_NAMES = {"format": "format_", "reader": "reader_options"}


class Wording:
    """Whether messages are for users of the command."""

    for_command = False


@contextmanager
def command_options(for_command: bool = True) -> Iterator[None]:
    """Name options in messages as the command does, or as Python does, while the block runs."""
    before, Wording.for_command = Wording.for_command, for_command
    try:
        yield
    finally:
        Wording.for_command = before


def option_text(name: str, value: Any = None) -> str:
    """Return an option by the name of its parameter, with a value if one is given.

    >>> option_text("on_error", "skip"), option_text("columns", {"day": "category"}), option_text("format_")
    ("on_error='skip'", "columns={'day': 'category'}", 'format')
    >>> with command_options():
    ...     option_text("on_error", "skip"), option_text("columns", {"day": "category"}), option_text("format_")
    ('--on-error skip', '--column day=category', '--format')
    >>> with command_options():
    ...     option_text("reader", {"quote": None}), option_text("l1_ratio"), option_text("resume", True)
    ('--reader quote=none', '--l1-ratio', '--resume')
    >>> with command_options():
    ...     option_text("reader", {"delimiter": ";"})
    "--reader 'delimiter=;'"
    >>> with command_options():
    ...     print(option_text("columns", {"city, zip": "category"}))
    --column '"city, zip"=category'
    """
    if not Wording.for_command:
        own = {stored: parameter for parameter, stored in STORED_NAMES.items()}.get(name, name)
        return own if value is None else f"{own}={value!r}"
    option = COMMAND_NAMES.get(name, f"--{name.rstrip('_').replace('_', '-')}")
    if value is None or value is True:
        return option
    if isinstance(value, Mapping):
        named = [f"{joined_names([str(key)])}={command_value(one)}" for key, one in value.items()]
        return " ".join(f"{option} {shlex.quote(text)}" for text in named)
    return f"{option} {shlex.quote(command_value(value))}"


def command_value(value: Any) -> str:
    r"""Return a value as the command takes it, before a shell.

    >>> command_value(","), command_value(None), command_value(True), command_value(2), command_value("\t")
    (',', 'none', 'true', '2', '"\\t"')
    """
    is_plain = isinstance(value, str) and value.isprintable()
    return "none" if value is None else value if is_plain else json.dumps(value)


def joined_names(names: Sequence[str]) -> str:
    """Return names with commas between them, as `split_names` takes them.

    >>> joined_names(["age", "city, zip"]), joined_names(["user", ""])
    ('age,"city, zip"', 'user,')
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(names)
    return text.getvalue() if len(names) != 1 or names[0] else ""


def split_names(text: str) -> list[str]:
    """Return names between commas, read as a row of CSV: a name with a comma is in double quotes.

    >>> split_names('age,"city, zip"'), split_names("user,"), split_names('"a,b"=2,c=1'), split_names("")
    (['age', 'city, zip'], ['user', ''], ['a,b=2', 'c=1'], [''])
    """
    try:
        return next(csv.reader([text])) or [""]  # an empty row has no names
    except csv.Error:  # a line end
        return text.split(",")
