"""Options of commands that read data."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import click

from fiol.cli.sections import option_in
from fiol.cli.terminal import echo
from fiol.features.column_kinds import KIND_SPECS, split_kind
from fiol.option_names import joined_names, split_names
from fiol.readers.bad_lines import ON_ERROR, reader_messages

#: The section of these options.
DATA_SECTION = "Data"


def data_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that `take_data_options` takes to a command."""
    data = option_in(DATA_SECTION)
    decorators = [
        data(
            "--format",
            "format_",
            metavar="NAME",
            help="svmlight, vw, csv, json, parquet or arrow [default: inferred].",
        ),
        data("--target", metavar="COLUMN", help="The column to predict, where there are columns."),
        data("--weight", metavar="COLUMN", help="The column of sample weights."),
        data("--tag", metavar="COLUMN", help="The column with names of rows."),
        data(
            "--pairs",
            multiple=True,
            metavar="A,B",
            help="Multiply the features of two or three columns or namespaces; may be repeated.",
        ),
        data(
            "--column",
            "columns",
            multiple=True,
            metavar="NAME,...=KIND",
            help=f"Kind of columns: {KIND_SPECS}; may be repeated [default: inferred]. Names with a comma are in "
            "double quotes, here and in --pairs: '\"city, zip\"=category'.",
        ),
        data(
            "--reader",
            "reader_options",
            multiple=True,
            metavar="NAME=VALUE",
            help="An option of the format; may be repeated. CSV: delimiter=';', decimal=, (a decimal comma), "
            "quote=none, header=false; svmlight: zero_based=true.",
        ),
        data(
            "--missing",
            multiple=True,
            metavar="TEXT",
            help="A text that stands for a missing value, in every column; may be repeated [default: NA, ?, -, inf and "
            "the like in columns of numbers, dates and times].",
        ),
        data(
            "--on-error",
            type=click.Choice(ON_ERROR),
            default="missing",
            show_default=True,
            help="missing: a cell that is not of its column's kind is a missing value, and counted; any other bad "
            "line, or a row without a target, is an error. skip: leave bad lines out and count them. stop: errors.",
        ),
    ]
    for decorate in reversed(decorators):
        command = decorate(command)
    return command


def reading_options(command: Any) -> Any:
    """Add the options of commands that read data as a model does: `target`, `reader_options` and `on_error`."""
    target = click.option(
        "--target", metavar="COLUMN", help="The column of the target, for models that do not store it: of estimators."
    )
    on_error = click.option(
        "--on-error",
        type=click.Choice(ON_ERROR),
        default="missing",
        show_default=True,
        help="At bad lines and cells, and rows without a target that is needed: see fiol train.",
    )
    reader = click.option(
        "--reader",
        "reader_options",
        multiple=True,
        metavar="NAME=VALUE",
        help="An option of the format that differs from the training data, such as delimiter=';'; may be repeated.",
    )
    return target(on_error(reader(command)))


def take_reader_options(options: tuple[str, ...]) -> dict[str, Any]:
    """Return the options of a format by name.

    >>> take_reader_options(("zero_based=true", "quote=none"))
    {'zero_based': True, 'quote': 'none'}
    """
    return dict(map(named_value, options))


def take_data_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of `TrainOptions` that concern data; they are taken out of `options`.

    >>> take_data_options({"format_": None, "target": "y", "pairs": ("a,b",), "reader_options": ("zero_based=true",)})
    {'target': 'y', 'pairs': (('a', 'b'),), 'reader': {'zero_based': True}}
    """
    given: dict[str, Any] = {}
    for option, name in (("format_", "format"), *((name, name) for name in ("target", "weight", "tag", "on_error"))):
        value = options.pop(option, None)
        if value is not None:
            given[name] = value
    pairs = tuple(tuple(split_names(pair)) for pair in options.pop("pairs", ()))
    for pair in pairs:
        if not 2 <= len(pair) <= 3:
            raise click.UsageError(
                f"--pairs takes two or three names with commas between them, got {joined_names(pair)!r}"
            )
    if pairs:
        given["pairs"] = pairs
    missing = options.pop("missing", ())
    if missing:
        given["missing"] = missing
    columns = dict(pair for text in options.pop("columns", ()) for pair in column_kinds(text))
    if columns:
        given["columns"] = columns
    reader = take_reader_options(options.pop("reader_options", ()))
    if reader:
        given["reader"] = reader
    return given


def named_value(text: str) -> tuple[str, Any]:
    r"""Return the name and the value of NAME=VALUE: JSON if it parses, a tab for \t, text otherwise.

    >>> named_value("delimiter=;"), named_value("names=[1, 2]"), named_value("delimiter=\\t")
    (('delimiter', ';'), ('names', [1, 2]), ('delimiter', '\t'))
    """
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.UsageError(f"--reader takes NAME=VALUE, got {text!r}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, "\t" if value == "\\t" else value


def column_kinds(text: str) -> list[tuple[str, str]]:
    """Return columns and their kind, as `TableEncoding.from_spec` takes them.

    >>> column_kinds("zip=category"), column_kinds("id,name=skip")
    ([('zip', 'category')], [('id', 'skip'), ('name', 'skip')])
    >>> column_kinds('"city, zip"=category')
    [('city, zip', 'category')]
    >>> column_kinds("month=date:year %Y=%m"), column_kinds("a=b=number")
    ([('month', 'date:year %Y=%m')], [('a=b', 'number')])
    """
    names, kind = split_kind(text)
    split = split_names(names)
    if not all(split):
        raise click.UsageError(
            f"--column takes NAME=KIND, such as zip=category, id,name=skip or day=date:%m/%d/%Y, got {text!r}"
        )
    return [(name, kind) for name in split]


def print_skipped(reader: Any, missing: int = 0) -> None:
    """Print on standard error how many lines were left out, and why the first ones were."""
    skipped = getattr(reader, "skipped", 0)
    if skipped:
        one = "1 line could not be read and was left out:"
        several = f"{skipped:,} lines could not be read and were left out. The first of them:"
        echo(one if skipped == 1 else several, err=True)
        for error in reader.first_skipped[:3]:
            echo(f"  {error}", err=True)
    for message in reader_messages(reader):
        echo(message, err=True)
    if missing:
        rows = "1 row without a target was" if missing == 1 else f"{missing:,} rows without a target were"
        echo(f"{rows} left out.", err=True)
