"""`fiol reproduce`: the experiments of the paper."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from fiol.cli.terminal import echo

#: What there is to reproduce, in the order of `all`.
EXPERIMENTS = {
    "table3": "The lasso of the paper: all algorithms for the same time each.",
    "stability": "Loss and weights over twenty decades of step sizes.",
    "regret": "Measured regret beside every bound of the paper.",
    "solvers": "Time per step of every solver against the length of a row.",
}


@click.group()
def reproduce() -> None:
    """Run the experiments of the paper: tables, figures and one page of HTML.

    Ctrl-C ends an experiment early; its results so far are written.
    """


def finite(context: click.Context, option: click.Parameter, value: float | None) -> float | None:
    """Refuse nan and inf, which click accepts as numbers."""
    if value is None or math.isfinite(value):
        return value
    raise click.BadParameter(f"{value} is not a finite number.")


def command(name: str, text: str) -> Callable[..., Any]:
    """Return one subcommand of `reproduce`."""

    @reproduce.command(name, help=text)
    @click.option("--quick", is_flag=True, help="Everything smaller: all together under three minutes on two cores.")
    @click.option(
        "--seconds",
        type=click.FloatRange(0.0, min_open=True),
        callback=finite,
        help="Time of every run of table3 [default: 2, quick 0.08].",
    )
    @click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Random seed.")
    @click.option(
        "--workers",
        type=click.IntRange(1),
        default=min(2, os.cpu_count() or 1),
        show_default=True,
        help="Number of processes.",
    )
    @click.option(
        "--out",
        type=click.Path(path_type=Path, file_okay=False),
        default="reproduction",
        show_default=True,
        help="Folder to write to.",
    )
    def run(**options: Any) -> None:
        names = list(EXPERIMENTS) if name == "all" else [name]
        sys.exit(run_all(names, **options))

    return run


for _name, _text in {**EXPERIMENTS, "all": "All experiments, one after the other."}.items():
    command(_name, _text)


def run_all(names: list[str], quick: bool, seconds: float | None, seed: int, workers: int, out: Path) -> int:
    """Run experiments, write what they found, and return the exit code: 130 if it was cut short."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / ".writable").touch()
        (out / ".writable").unlink()
    except OSError as error:
        raise click.ClickException(f"cannot write to {out}: {error.strerror}") from error
    try:
        from fiol.experiments import page
        from fiol.experiments.all import make_experiment
        from fiol.plots import load_matplotlib

        load_matplotlib()  # better now than in ten minutes
    except ImportError as error:
        raise click.ClickException(f'{error}: pip install "fiol[reproduce]"') from error

    reports, interrupted = [], False
    for name in names:
        experiment = make_experiment(name, quick, seconds, seed, workers)
        interrupted = show(name, experiment)
        report = experiment.report()
        report.partial |= interrupted
        reports.append(report)
        paths = report.write(out)
        paths.append(page.write_page(reports, out))
        echo(report.markdown())
        echo("Written: " + ", ".join(str(path) for path in paths))
        if interrupted:
            echo("Cut short: what was found until then is written.", err=True)
            break
    return 130 if interrupted else 0


def show(name: str, experiment: Any) -> bool:
    """Run one experiment with a progress bar on stderr, or lines if that is no terminal; whether it was interrupted."""
    try:
        if not sys.stderr.isatty():
            shown = -1
            for share, text in experiment.run():
                if int(10 * share) > shown:
                    shown = int(10 * share)
                    echo(f"{name}: {share:4.0%}  {text}", err=True)
            return False
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

        columns = TextColumn("{task.fields[name]}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn()
        console = Console(stderr=True)
        with Progress(*columns, TextColumn("{task.description}"), console=console) as bar:
            task = bar.add_task("", total=1.0, name=name)
            for share, text in experiment.run():
                bar.update(task, completed=share, description=text)
    except KeyboardInterrupt:
        return True
    return False
