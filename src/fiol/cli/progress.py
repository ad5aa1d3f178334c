"""Progress of a run: a table that grows, and on a terminal a bar with the time left."""

from __future__ import annotations

import dataclasses
import os
import sys
import time
from typing import Any

import click

from fiol.cli.terminal import printable
from fiol.compiler.cache import counts
from fiol.training.metrics import Line, Speed
from fiol.training.run import Advance, is_line

#: Compiling that takes this many seconds is mentioned.
SLOW_COMPILE = 0.5
#: A line is printed at least this often, in seconds, while rows arrive.
LINE_SECONDS = 10.0
#: The columns of the table: title and width.
TABLE_COLUMNS = (
    ("rows", 11),
    ("loss", 10),
    ("last rows", 10),
    ("constant", 10),
    ("held out", 10),
    ("non-zeros", 11),
    ("rows/s", 10),
    ("MB/s", 7),
)


class TrainingProgress:
    """`with Screen(size, passes) as screen:` shows events of a `Training`.

    `size` is all bytes of a pass, None if that is not known, `rows` what was learned from before. Lines of the table go
    to standard output, or to nowhere if `quiet`; the bar, if standard error is a terminal, to that. Where both are
    terminals, lines stand above the bar. Rows and bytes a second are those since the line before.
    """

    def __init__(self, size: int | None, passes: int, holdout: bool, rows: int = 0, quiet: bool = False) -> None:
        self.size, self.passes, self.quiet, self.bar = size, passes, quiet, None
        self.columns = [c for c in TABLE_COLUMNS if holdout or c[0] != "held out"]
        if passes > 1:
            self.columns.insert(0, ("pass", 4))
        self.read = 0  # in passes before this one
        self.started, self.last, self.task = time.perf_counter(), Advance(1, 0, rows), None
        self.speeds = [Speed(0.0, rows, 0)]  #: at the start and at every line; what compiling took does not count
        self.counts_before, self.printed, self.has_compiled = dataclasses.replace(counts), time.perf_counter(), False

    def __enter__(self) -> TrainingProgress:
        if sys.stderr.isatty() and not self.quiet:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

            console = Console(stderr=True, highlight=False)
            columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
            bar: Any = Progress(*columns, console=console, transient=True)
            bar.start()
            self.bar = bar
            total = None if not self.size else float(self.size * self.passes)
            self.task = bar.add_task("reading", total=total)
        self.print("  ".join(f"{title:>{width}}" for title, width in self.columns), "bold")
        self.started, self.counts_before = time.perf_counter(), dataclasses.replace(counts)
        return self

    def __exit__(self, *error: object) -> None:
        if self.bar is not None:
            self.bar.stop()
            self.bar = None

    def print(self, text: str, style: str | None = None) -> None:
        """Print a line of text, above the bar if there is one; a closed or full standard output ends printing alone."""
        if self.quiet:
            return
        text = printable(text)
        if self.bar is not None and sys.stdout.isatty():
            self.bar.console.print(text, style=style, soft_wrap=True, markup=False)
            return
        try:
            click.echo(text)
        except OSError as error:  # the model counts, not the table
            self.quiet = True
            drop_standard_output()
            if not isinstance(error, BrokenPipeError):
                click.echo(f"standard output: {error.strerror}: nothing more is printed", err=True)

    @property
    def compiling(self) -> float:
        """Seconds of compiling and loading code since the start, which do not count as learning."""
        return counts.seconds - self.counts_before.seconds

    def print_compiling(self) -> None:
        """Print, once, how long compiling took, if something was compiled and not loaded from the cache."""
        if not self.has_compiled and counts.kernels > self.counts_before.kernels and self.compiling >= SLOW_COMPILE:
            self.has_compiled, self.printed = True, time.perf_counter()
            self.print(f"Compiled in {self.compiling:.1f} s; later runs use the cache")

    def show(self, event: Any, current_line: Any = None) -> None:
        """Show an event; `current_line` returns a line of the table if the last one was printed long ago."""
        due = time.perf_counter() - self.printed > LINE_SECONDS
        if due and current_line is not None and isinstance(event, Advance) and event.rows > self.last.rows:
            self.show(event)
            line = current_line()
            event = event if is_line(line.rows) else line  # that of the table follows
        if isinstance(event, Line):
            self.printed = time.perf_counter()
            seconds = max(0.0, time.perf_counter() - self.started - self.compiling)
            self.speeds.append(Speed(seconds, self.last.rows, self.read + self.last.read))
            self.print("  ".join(f"{self.cell(event, title):>{width}}" for title, width in self.columns))
        elif isinstance(event, Advance):
            if event.number > self.last.number:
                self.read += self.last.read
            self.last = event
            if self.bar is not None:
                self.bar.update(self.task, completed=self.read + event.read, description=f"{event.rows:,} rows")

    def cell(self, line: Line, title: str) -> str:
        """Return the text of a cell of the table."""
        seconds, rows, read = (now - then for now, then in zip(self.speeds[-1], self.speeds[-2], strict=True))
        seconds = max(seconds, 1e-9)
        found = {
            "pass": line.number,
            "rows": f"{line.rows:,}",
            "loss": loss_text(line.loss),
            "last rows": loss_text(line.since),
            "constant": loss_text(line.constant),
            "held out": loss_text(line.held_out),
            "non-zeros": f"{line.nonzeros:,}",
            "rows/s": f"{rows / seconds:,.0f}",
            "MB/s": f"{read / seconds / 1e6:,.1f}",
        }
        return str(found[title])


def loss_text(value: float | None) -> str:
    """Return a loss with five digits or more; a dash for none.

    >>> loss_text(0.123456789), loss_text(1234.5678), loss_text(None), loss_text(1e12)
    ('0.123457', '1234.57', '-', '1e+12')
    """
    return "-" if value is None else f"{value:.6g}"


def drop_standard_output() -> None:
    """Let standard output go nowhere, so that nothing else fails at a closed pipe or a full disk."""
    stream = sys.stdout
    if stream is None or stream is not sys.__stdout__:
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
