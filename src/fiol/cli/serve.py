"""`fiol serve`: models that learn while they serve."""

from __future__ import annotations

import contextlib
import json
import math
import os
import warnings
from typing import Any

import click

from fiol.cli.errors import error_line, print_warning
from fiol.cli.terminal import echo

#: Units of durations and sizes.
SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
BYTES = {"k": 2**10, "m": 2**20, "g": 2**30}


class Duration(click.ParamType):  # type: ignore[type-arg]
    """Seconds, or a number with s, m, h or d."""

    name = "duration"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        """Return seconds."""
        return parsed(self, value, SECONDS, param, ctx)


class Size(click.ParamType):  # type: ignore[type-arg]
    """Bytes, or a number with k, m or g."""

    name = "size"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        """Return bytes."""
        return parsed(self, value, BYTES, param, ctx)


def parsed(kind: Any, value: Any, units: dict[str, Any], param: Any, ctx: Any) -> float:
    """Return a number above 0 with its unit."""
    if isinstance(value, (int, float)):
        return float(value)
    text = str(value).strip().lower()
    factor = units.get(text[-1:], 1.0)
    try:
        number = float(text[:-1] if text[-1:] in units else text) * factor
    except ValueError:
        number = math.nan
    if not 0.0 < number < math.inf:
        kind.fail(f"{value!r} is no {kind.name}: a number above 0, and one of {' '.join(units)}", param, ctx)
    return number


@click.command("serve")
@click.argument("models", nargs=-1, metavar="[NAME=]MODEL...")
@click.option("--journal", default="fiol-journal", show_default=True, metavar="FOLDER", help="Journal and snapshots.")
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address to listen on; all but the default need tokens."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8080,
    show_default=True,
    help="Port to listen on; 0 takes a free one.",
)
@click.option(
    "--read-token-file",
    type=click.Path(exists=True, dir_okay=False),
    help="File of tokens that may read, one per line.",
)
@click.option(
    "--write-token-file", type=click.Path(exists=True, dir_okay=False), help="File of tokens that may read and write."
)
@click.option("--certificate", type=click.Path(exists=True, dir_okay=False), help="TLS certificate (PEM).")
@click.option(
    "--certificate-key", type=click.Path(exists=True, dir_okay=False), help="Private key of the certificate (PEM)."
)
@click.option("--rate", type=click.FloatRange(0.0, min_open=True), help="Most requests per second of one client.")
@click.option("--max-body", type=Size(), default="16m", show_default=True, help="Most bytes of a request.")
@click.option("--max-rows", type=click.IntRange(1), default=10_000, show_default=True, help="Most rows of a request.")
@click.option(
    "--max-queue", type=click.IntRange(1), default=20_000, show_default=True, help="Most rows that wait to be learned."
)
@click.option(
    "--max-pending",
    type=click.IntRange(1),
    default=1_000_000,
    show_default=True,
    help="Most predictions that wait for a label.",
)
@click.option(
    "--snapshot-every",
    type=Duration(),
    default="5m",
    show_default=True,
    help="Time between snapshots while a model learns.",
)
@click.option(
    "--keep-snapshots", type=click.IntRange(2), default=5, show_default=True, help="Snapshots to keep of each model."
)
@click.option(
    "--keep-records",
    type=Duration(),
    default="30d",
    show_default=True,
    help="Age at which records of the journal are removed.",
)
@click.option("--max-journal", type=Size(), help="Size above which records before the oldest snapshot are removed.")
@click.option(
    "--early",
    type=click.Choice(["hold", "drop", "refuse"]),
    help="Labels that come before their prediction [default: hold].",
)
@click.option(
    "--late", type=click.Choice(["drop", "learn", "refuse"]), help="Labels of expired predictions [default: drop]."
)
@click.option(
    "--conflict",
    type=click.Choice(["keep", "learn", "refuse"]),
    help="Second labels that differ [default: keep the first].",
)
@click.option("--horizon", type=Duration(), help="Time after which predictions without a label expire [default: 7d].")
@click.option("--default-label", help="Label that expired predictions are learned with (JSON, or text).")
def serve(models: tuple[str, ...], **options: Any) -> None:
    """Serve models that learn while they predict.

    MODEL is a model file, or a specification of an empty model (.json). Its name is that of the file. Models that the
    journal has continue from there, bit for bit as if the server had never stopped.

    \b
    fiol serve clicks.fiol                                    http://127.0.0.1:8080
    fiol serve live=clicks.fiol spam=spam.json --journal /var/lib/fiol
    """
    try:
        from fiol.server.run import run_server
    except ImportError as error:
        raise click.ClickException(f"fiol serve needs {error.name}: pip install 'fiol[serve]'") from error
    from fiol.server.app import Limits
    from fiol.server.journal import JournalError
    from fiol.server.registry import Registry
    from fiol.server.writer import WriterOptions

    o = options
    writing = WriterOptions(
        o["max_queue"], o["max_pending"], o["snapshot_every"], o["keep_records"], o["max_journal"] or math.inf
    )

    def say(text: str) -> None:
        echo(text, err=True)

    try:
        listen = listen_options(o)
        listen.check()
        sources = [name_and_path(given) for given in models]
        names = [name for name, _ in sources]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"two models have the name {twice!r}: give them names, as in live={twice}.fiol")
        if not os.path.exists(o["journal"]):  # a mistyped name makes no folder
            for _, path in sources:
                os.stat(path)
        opened = contextlib.closing(Registry(o["journal"], writing, o["keep_snapshots"], say))
        with warnings.catch_warnings(), opened as registry:
            warnings.showwarning = print_warning
            if registry.replayed:
                say(f"learned {registry.replayed:,} rows of the journal since the last snapshots")
            for name, path in sources:
                say(f"{name}: {registry.add_file(name, path, rules_of(o))}")
            registry.warm_up_all()
            limits = Limits(int(o["max_body"]), o["max_rows"])
            run_server(registry, listen, limits, lambda address: say(f"listening on {address}"))
    except (JournalError, ValueError, OSError, RuntimeError) as error:
        raise click.ClickException(error_line(error)) from error


def rules_of(o: dict[str, Any]) -> dict[str, Any]:
    """Return the rules for labels that are given."""
    found = {name: o[name] for name in ("early", "late", "conflict", "horizon") if o[name] is not None}
    if o["default_label"] is not None:
        found["default"] = o["default_label"]
        with contextlib.suppress(ValueError):  # a text without quotes
            label = json.loads(o["default_label"])
            found["default"] = o["default_label"] if isinstance(label, (list, dict)) else label
    return found


def listen_options(o: dict[str, Any]) -> Any:
    """Return where to listen, with the tokens in files."""
    from fiol.server.run import Listen

    reading, writing = (tokens_in(o[f"{role}_token_file"]) for role in ("read", "write"))
    return Listen(o["host"], o["port"], reading, writing, o["rate"], o["certificate"], o["certificate_key"])


def tokens_in(path: str | None) -> tuple[str, ...]:
    """Return the tokens in a file, one a line; ValueError for short ones."""
    if path is None:
        return ()
    with open(path, encoding="utf-8") as file:
        found = tuple(line.strip() for line in file if line.strip())
    if not found or min(map(len, found)) < 16 or not all(one.isascii() and one.isprintable() for one in found):
        raise ValueError(f"{path}: a token has at least 16 characters of ASCII, one token a line")
    return found


def name_and_path(given: str) -> tuple[str, str]:
    """Return name and path of a model; without a name that of the file, without folder and ending.

    >>> name_and_path("live=models/tickets.fiol"), name_and_path("models/tickets.fiol")
    (('live', 'models/tickets.fiol'), ('tickets', 'models/tickets.fiol'))
    """
    name, path = given.split("=", 1) if "=" in given else ("", given)
    return name or os.path.splitext(os.path.basename(path))[0], path
