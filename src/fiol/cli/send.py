"""`fiol send`: stream files or a pipe to a server that learns."""

from __future__ import annotations

import bz2
import contextlib
import csv
import gzip
import io
import itertools
import json
import lzma
import queue
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import click

from fiol.cli.errors import error_line, handle_errors
from fiol.cli.terminal import echo

#: Seconds after which rows of a pipe are sent, though a batch is not full.
PATIENCE_SECONDS = 0.5
OPENERS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


@click.command("send")
@click.argument("sources", nargs=-1, required=True, metavar="DATA...")
@click.option("--to", "address", default="http://127.0.0.1:8080", show_default=True, help="Address of the server.")
@click.option("--model", help="Name of the model; need not be given if there is one.")
@click.option("--target", help="Column of labels; that of the model's training data by default.")
@click.option("--weight", help="Column of sample weights.")
@click.option("--id", "id_column", help="Column of ids, so that no row is learned twice.")
@click.option("--predict", "predicting", is_flag=True, help="Print predictions as JSON lines instead of learning.")
@click.option("--batch", type=click.IntRange(1, 10_000), default=200, show_default=True, help="Rows of a request.")
@click.option("--token-file", type=click.Path(exists=True, dir_okay=False), help="File with a bearer token.")
@click.option("--certificate", type=click.Path(exists=True, dir_okay=False), help="Certificates to trust (https).")
@handle_errors
def send(
    sources: tuple[str, ...],
    address: str,
    model: str | None,
    target: str | None,
    weight: str | None,
    id_column: str | None,
    predicting: bool,
    batch: int,
    token_file: str | None,
    certificate: str | None,
    signals: Any,
) -> None:
    """Send the rows of DATA to a server, to learn from or to predict for.

    DATA are CSV, JSON lines, Parquet or Arrow files, also .gz .bz2 .xz, or - for standard input (CSV, JSON lines).
    Rows are sent in their order; requests that get no answer are sent again, and count once.

    \b
    fiol send clicks.csv --to http://127.0.0.1:8080
    tail -f events.jsonl | fiol send - --model clicks --target clicked
    """
    import http.client

    from fiol.client import Client, ServerError

    token = None
    if token_file is not None:
        with open(token_file, encoding="utf-8") as file:
            token = file.readline().strip()
    client = Client(address, token, certificate=certificate)
    sender: Sender | None = None
    try:
        sender = Sender(client, model or only_model(client), target, weight, id_column, predicting)
        for part in batches_of(itertools.chain.from_iterable(map(rows_in, sources)), batch):
            with signals.deferred():
                sender.send(part)
    except ServerError as error:
        raise click.ClickException(str(error)) from error
    except (OSError, http.client.HTTPException) as error:
        if getattr(error, "filename", None) is not None:  # of DATA
            raise
        raise click.ClickException(f"{address}: {error_line(error)}") from error
    finally:
        client.close()
        if sender is not None:
            echo(f"{sender.sent:,} {'row' if sender.sent == 1 else 'rows'} sent to {sender.name}", err=True)


class Sender:
    """Sends batches of rows to one model, to learn from or to predict for."""

    def __init__(
        self, client: Any, name: str, target: str | None, weight: str | None, id_column: str | None, predicting: bool
    ) -> None:
        about = client.model(name, 0)
        self.client, self.name, self.predicting, self.sent = client, name, predicting, 0
        self.target, self.weight, self.id_column = target or about["target"], weight, id_column
        #: Labels by their text in CSV; None if numbers are predicted.
        self.labels = None if about["labels"] is None else {str(label): label for label in about["labels"]}
        if self.target is None and not predicting:
            raise click.UsageError("say by --target which column has the labels")

    def send(self, rows: list[dict[str, Any]]) -> None:
        """Send rows; print predictions."""
        weights, ids, targets = (self.take(column, rows) for column in (self.weight, self.id_column, self.target))
        names = None if ids is None else [str(one) for one in ids]
        if self.predicting:
            for prediction in self.client.predict(self.name, rows, names):
                echo(json.dumps(prediction))
        else:
            labels = [self.label(target) for target in targets or []]
            self.client.learn(self.name, rows, labels, names, None if weights is None else list(map(float, weights)))
        self.sent += len(rows)

    def take(self, column: str | None, rows: list[dict[str, Any]]) -> list[Any] | None:
        """Remove a column from rows and return its values, None without a column; ValueError for a row without one."""
        if column is None:
            return None
        found = [row.pop(column, None) for row in rows]
        needed = column == self.id_column or not self.predicting
        if needed and None in found:
            k = found.index(None)
            raise ValueError(f"row {self.sent + k + 1:,} has no {column!r}: {json.dumps(rows[k])[:200]}")
        return found

    def label(self, target: Any) -> Any:
        """Return the label of a row as the model has it."""
        if isinstance(target, str):
            return float(target) if self.labels is None else self.labels.get(target, target)
        return target


def only_model(client: Any) -> str:
    """Return the name of the only live model; UsageError if there are others."""
    names = [one["name"] for one in client.models() if one["shadow_of"] is None]
    if len(names) != 1:
        raise click.UsageError(f"say by --model which one: {', '.join(names) or 'there is none'}")
    return str(names[0])


def rows_in(source: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file as dicts: text of CSV as it is, since the model's encoding decides what it means."""
    if source.endswith((".parquet", ".arrow", ".feather")):
        yield from arrow_rows_in(source)
        return
    opener: Any = next((opener for ending, opener in OPENERS.items() if source.endswith(ending)), open)
    with contextlib.ExitStack() as stack:
        text = sys.stdin
        if source != "-":
            text = stack.enter_context(opener(source, "rt", encoding="utf-8", newline=""))
        yield from text_rows_in(text, "standard input" if source == "-" else source)


def text_rows_in(text: Any, source: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of lines of JSON objects, or of CSV with a header; ValueError with source and line for others."""
    lines = enumerate(text, 1)
    start, first = next(((number, line) for number, line in lines if line.strip("\ufeff \t\r\n")), (0, ""))
    first = first.removeprefix("\ufeff")  # the mark that some programs begin files with
    if first.lstrip().startswith(("{", "[")):
        for number, line in itertools.chain([(start, first)], lines):
            if line.strip():
                yield json_row(line, f"{source}:{number}")
    elif first:
        yield from rows_of_csv(first, text, source, start - 1)


def json_row(line: str, place: str) -> dict[str, Any]:
    """Return the object in a line of JSON; ValueError with the place for anything else."""
    try:
        found = json.loads(line)
    except ValueError as error:
        raise ValueError(f"{place}: is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{place}: must be an object {{...}}, got {line.strip()[:50]}")
    return found


def rows_of_csv(head: str, text: Any, source: str, before: int) -> Iterator[dict[str, Any]]:
    """Yield the rows of CSV below its header, which `before` empty lines precede; empty cells are None."""
    from fiol.readers.csv import DELIMITERS, names_of_fields

    reader: Any = None
    try:
        delimiter = max(
            DELIMITERS, key=lambda one: len(next(csv.reader([head], delimiter=one)))
        )  # comma without others
        reader = csv.reader(itertools.chain([head], text), delimiter=delimiter)
        names = names_of_fields(next(reader))
        for cells in reader:
            if cells and len(cells) != len(names):
                place = f"{source}:{before + reader.line_num}"
                raise ValueError(f"{place}: has {len(cells)} fields, but there are {len(names)} columns")
            if cells:
                yield {name: cell or None for name, cell in zip(names, cells, strict=True)}
    except csv.Error as error:
        line = 1 if reader is None else reader.line_num
        raise ValueError(f"{source}:{before + line}: {error}") from None


def arrow_rows_in(source: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a Parquet or Arrow file as JSON would have them."""
    from fiol.readers.columns import arrow_module

    if source.endswith(".parquet"):
        batches: Any = arrow_module("pyarrow.parquet").ParquetFile(source).iter_batches()
    else:
        with open(source, "rb") as file:
            content = io.BytesIO(file.read())
        ipc = arrow_module("pyarrow.ipc")
        reader = ipc.open_file(content) if content.getvalue()[:6] == b"ARROW1" else ipc.open_stream(content)
        batches = reader.read_all().to_batches()
    for batch in batches:
        yield from json.loads(json.dumps(batch.to_pylist(), default=str))


def batches_of(rows: Iterator[dict[str, Any]], size: int) -> Iterator[list[dict[str, Any]]]:
    """Yield rows in batches; those of a pipe are not held back for longer than half a second."""
    waiting: queue.Queue[Any] = queue.Queue(4 * size)
    end = object()

    def read() -> None:
        try:
            for row in rows:
                waiting.put(row)
            waiting.put(end)
        except BaseException as error:
            waiting.put(error)

    threading.Thread(target=read, daemon=True).start()
    found, due = list[dict[str, Any]](), float("inf")
    while True:
        try:
            row = waiting.get(timeout=max(0.0, min(due - time.monotonic(), 60.0)))
        except queue.Empty:
            row = None
        if isinstance(row, BaseException):
            raise row
        if isinstance(row, dict):  # all rows are; the end, and a pause, are not
            found.append(row)
            due = min(due, time.monotonic() + PATIENCE_SECONDS)
        if found and (len(found) >= size or row is end or time.monotonic() >= due):
            yield found
            found, due = [], float("inf")
        if row is end:
            return
