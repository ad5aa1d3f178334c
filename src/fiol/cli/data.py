"""Options that say how data are read, and models with what they know about that."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from fiol.cli.sections import option_in

if TYPE_CHECKING:
    from fiol.learner import Learner
    from fiol.readers.reading import Reading
    from fiol.training.task_inference import Task

#: The section of these options.
DATA_SECTION = "Data"


def reading_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Let a command have the options that `given_reading` takes."""
    data = option_in(DATA_SECTION)
    decorators = [
        data(
            "--format",
            "format_",
            metavar="NAME",
            help="svmlight, vw, csv, json, parquet or arrow [default: found out].",
        ),
        data("--target", metavar="COLUMN", help="The column to predict, where there are columns."),
        data("--weight", metavar="COLUMN", help="The column of sample weights."),
        data("--tag", metavar="COLUMN", help="The column that says what a row is called."),
        data(
            "--pairs", multiple=True, metavar="A,B", help="Multiply the features of two or three columns or namespaces."
        ),
        data(
            "--column",
            "columns",
            multiple=True,
            metavar="NAME=KIND",
            help="What a column is: number, category, words, words:2 (pairs of words, too), tags, date, time, skip; "
            "may come again [default: found out].",
        ),
        data(
            "--reader",
            "reader_options",
            multiple=True,
            metavar="NAME=VALUE",
            help="An option of the format, such as zero_based=true or delimiter=';'; may come again.",
        ),
        data(
            "--missing",
            multiple=True,
            metavar="TEXT",
            help="A text that stands for a missing value, in every column; may come again [default: NA, ?, -, inf and "
            "the like in columns of numbers, dates and times].",
        ),
        data(
            "--on-error",
            type=click.Choice(["missing", "skip", "stop"]),
            default="missing",
            show_default=True,
            help="missing: a cell that is not of its column's kind is a missing value, and counted; another bad line, "
            "or a row without a target, is an error. skip: leave bad lines out, and count. stop: all are errors.",
        ),
    ]
    for decorate in reversed(decorators):
        command = decorate(command)
    return command


def given_reading(options: dict[str, Any]) -> dict[str, Any]:
    """What the options say of a `Reading`, for `guess`; they are taken out of `options`, but for on_error.

    >>> given_reading({"format_": None, "target": "y", "pairs": ("a,b",), "reader_options": ("zero_based=true",)})
    {'target': 'y', 'pairs': (('a', 'b'),), 'options': {'zero_based': True}}
    """
    given: dict[str, Any] = {}
    for option, name in (("format_", "format"), ("target", "target"), ("weight", "weight"), ("tag", "tag")):
        value = options.pop(option, None)
        if value is not None:
            given[name] = value
    pairs = tuple(tuple(pair.split(",")) for pair in options.pop("pairs", ()))
    if pairs:
        given["pairs"] = pairs
    kinds = dict(column_kind(text) for text in options.pop("columns", ()))
    missing = options.pop("missing", ())
    if kinds or missing:
        from fiol.features.table_encoding import TableEncoding

        given["coding"] = TableEncoding.from_spec(kinds, missing=missing or None)
    found = dict(named_value(text) for text in options.pop("reader_options", ()))
    if found:
        given["options"] = found
    return given


def named_value(text: str) -> tuple[str, Any]:
    """A name and a value: JSON if it is, a text otherwise.

    >>> named_value("delimiter=;"), named_value("names=[1, 2]")
    (('delimiter', ';'), ('names', [1, 2]))
    """
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.UsageError(f"--reader takes NAME=VALUE, got {text!r}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def column_kind(text: str) -> tuple[str, Any]:
    """A column and its kind, as `TableEncoding.from_spec` takes them.

    >>> column_kind("zip=category"), column_kind("review=words:2")
    (('zip', 'category'), ('review', {'kind': 'words', 'ngrams': 2}))
    """
    name, equals, kind = text.rpartition("=")
    kind, colon, ngrams = kind.partition(":")
    if not equals or not name or (colon and not ngrams.isdigit()):
        raise click.UsageError(f"--column takes NAME=KIND, such as zip=category or review=words:2, got {text!r}")
    return name, {"kind": kind, "ngrams": int(ngrams)} if colon else kind


def load_trained(path: str) -> tuple[Learner, Reading, Task]:
    """A model in a file, how its data are read, and what it predicts; ValueError if it does not say."""
    import fiol
    from fiol.components.joint_losses import JointLoss
    from fiol.components.losses import Binary
    from fiol.learner import Learner
    from fiol.readers.reading import Reading
    from fiol.training.checkpoint_schema import check_checkpoint, check_stored_labels
    from fiol.training.task_inference import Task

    learner = fiol.load(path)
    if not isinstance(learner, Learner):
        raise ValueError(f"{path} holds a {type(learner).__name__}, not a model made by fiol train")
    if "reading" not in learner.meta:
        raise ValueError(f"{path} does not say how its data are read: it was not made by fiol train")
    loss = learner.update.loss
    check_checkpoint(learner.meta)
    labels = check_stored_labels(learner.meta, loss)
    if labels is None and isinstance(loss, Binary) and not isinstance(loss, JointLoss):
        labels = [-1, 1]
    why = learner.meta.get("training", {}).get("why", "")
    return learner, Reading.from_json(learner.meta["reading"]), Task(loss, labels, why)


def tell_skipped(reader: Any, missing: int = 0) -> None:
    """Say on standard error how many lines were left out, and why the first ones were."""
    skipped = getattr(reader, "skipped", 0)
    if skipped:
        click.echo(f"{skipped:,} lines could not be read and were left out. The first of them:", err=True)
        for error in reader.first_skipped[:3]:
            click.echo(f"  {error}", err=True)
    for column, (count, first) in getattr(reader, "odd_cells", {}).items():
        cells = "1 cell" if count == 1 else f"{count:,} cells"
        click.echo(f"{cells} of column {column!r} could not be read and became missing, the first at {first}", err=True)
    if missing:
        click.echo(f"{missing:,} rows without a target were left out.", err=True)
