"""`fiol vw`: Vowpal Wabbit's command line, as commands of fiol."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import tempfile
from typing import Any

import click

from fiol.cli.terminal import echo
from fiol.cli.vw_options import Translated, VwOptionError, translated_words

#: A namespace in a line, with a factor or not; the unnamed one if there is a feature in it.
NAMESPACE = re.compile(rb"\|(?:([^ \t\r\n|:]+)|[ \t]+[^ \t\r\n|])")


@click.command("vw", context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="-- OPTIONS...")
@click.option("--dry-run", is_flag=True, help="Print the commands, and run none.")
def vowpal_wabbit(words: tuple[str, ...], dry_run: bool) -> None:
    """Run a command of Vowpal Wabbit: print and run the commands of fiol that correspond to it.

    Translated are -d, -f, -i, -t, -p, -r, --link, --binary, --probabilities, --loss_function, --quantile_tau, --oaa,
    --named_labels, -b, -q, --cubic, --interactions, --ngram, --ignore, --keep, --l1, --l2, --sgd, --ftrl, --coin, -l,
    --passes, --holdout_off, --holdout_period, --early_terminate, --noconstant, --random_seed and --quiet.
    Caches, readable models, options of its output and, without --sgd, learning rates and schedules are ignored with a
    note. All other options are errors.

    The learner is fiol's: models are not the same. Predictions are CSV with a header.

    \b
    fiol vw -- -d train.vw --loss_function logistic -b 24 -f clicks.fiol
    fiol vw -- -d test.vw -t -i clicks.fiol -p predictions.csv --link logistic
    fiol vw --dry-run -- -d train.vw -q ab --passes 10 -c
    """
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = translated_words(words, namespaces_in, has_several_classes, os.path.join(folder, "model.fiol"))
        except VwOptionError as error:
            raise click.UsageError(str(error)) from error
        for note in done.notes:
            echo(f"# {note}", err=True)
        for command in done.commands:
            echo(shlex.join(["fiol", *command]), err=not dry_run)
        if not dry_run:
            run_commands(done)


def run_commands(done: Translated) -> None:
    """Run the commands one after the other, in this process; the first that fails ends it."""
    from fiol import cli

    for command in done.commands:
        silent: Any = contextlib.redirect_stdout(io.StringIO()) if done.quiet and command[0] == "train" else None
        with silent or contextlib.nullcontext():
            cli.main.main(command, prog_name="fiol", standalone_mode=False)


def namespaces_in(file: str) -> list[str]:
    """Return the namespaces in the first megabyte of a file; none if it cannot be read, which the reader reports."""
    from fiol.readers.sources import Sources

    try:
        start, _ = Sources([file]).start()
    except (OSError, ValueError):
        return []
    return list(dict.fromkeys(name.decode("utf-8", "replace") for name in NAMESPACE.findall(start)))


def has_several_classes(model: str) -> bool:
    """Return whether a model file has a score per class."""
    import fiol

    try:
        return getattr(fiol.load(model, compiled=False), "classes", None) is not None
    except (OSError, ValueError):
        return False
