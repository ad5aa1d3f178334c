"""`fiol demo`: a table to try the command on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from fiol.cli.errors import handle_errors
from fiol.cli.terminal import echo


@click.command()
@click.argument("folder", default=".", type=click.Path(file_okay=False))
@click.option("--rows", type=click.IntRange(10), default=50_000, show_default=True, help="Rows in both files together.")
@click.option("--force", is_flag=True, help="Replace files that exist.")
@handle_errors
def demo(folder: str, rows: int, force: bool, signals: Any) -> None:
    """Write a made-up table to try the other commands on.

    The files are tickets.csv, and later.csv with the last fifth of the rows. The rows are tickets of a help desk, with
    text, categories, a date and missing values; the column escalated is to be predicted.

    \b
    fiol demo
    fiol train tickets.csv --target escalated -o tickets.fiol
    fiol evaluate tickets.fiol later.csv --report tickets.html
    fiol predict tickets.fiol later.csv -o predictions.csv
    """
    from fiol.workflow.demo import FILES, write_tickets

    found = [str(Path(folder, name)) for name in FILES if os.path.exists(Path(folder, name))]
    if found and not force:
        raise click.UsageError(f"{found[0]} exists: --force replaces it")
    for path in write_tickets(Path(folder), rows):
        echo(f"{path}: {path.stat().st_size / 1e6:.1f} MB")
    first, later = (Path(folder, name) for name in FILES)
    echo(f"Next: fiol train {first} --target escalated -o tickets.fiol")
    echo(f"      fiol evaluate tickets.fiol {later} --report tickets.html")
