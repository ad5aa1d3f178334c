"""`fiol warmup`: compile ahead."""

from __future__ import annotations

from typing import Any

import click

from fiol.cli.errors import handle_errors
from fiol.cli.terminal import echo


@click.command()
@click.option("--loss", "losses", multiple=True, help="A loss by its name, as estimators take it; may be repeated.")
@click.option("--penalty", "penalties", multiple=True, help="none, l1, l2 or elasticnet; may be repeated.")
@click.option("--model", "models", multiple=True, type=click.Path(exists=True, dir_okay=False), help="A saved model.")
@handle_errors
def warmup(losses: tuple[str, ...], penalties: tuple[str, ...], models: tuple[str, ...], signals: Any) -> None:
    """Compile ahead, for images and servers: later processes find everything in the cache.

    Without options the usual combinations: log_loss, squared_error and softmax, with no penalty, l1 and l2. The cache
    is where NUMBA_CACHE_DIR says, else beside the library or in the user's cache.
    """
    from fiol.persistence.model_file import ModelFileError
    from fiol.warmup import combinations, warm_up

    try:
        chosen = combinations(losses, penalties, models)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    for number, (name, make) in enumerate(chosen, 1):
        echo(f"{number} of {len(chosen)}: {name} ... ", nl=False)
        try:
            seconds, directory = warm_up(make)
        except ModelFileError as error:
            echo()
            raise click.UsageError(str(error)) from error
        echo(f"{seconds:.1f} s")
    echo(f"Kept in {directory}")
