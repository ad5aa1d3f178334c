"""What the benchmarks share: tables, targets, the header of a file of numbers; turns and fits are those of fiol."""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Iterable
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import fiol
from fiol.experiments.report import cpu_name
from fiol.experiments.timing import FIT_FROM, Contestant, decades, exponent, fit_ranges, take_turns

__all__ = [
    "FIT_FROM",
    "Contestant",
    "Target",
    "checkout",
    "decades",
    "exponent",
    "fit_ranges",
    "header",
    "progress",
    "table",
    "take_turns",
    "verdicts",
]

# --- saying what was found --------------------------------------------------------------------


class Target(NamedTuple):
    """A bound the project has set itself, and what was measured."""

    claim: str
    measured: str
    holds: bool


def verdicts(targets: list[Target], judged: bool) -> str:
    """Return the targets as a table; unless `judged`, without a verdict."""
    verdict = {True: "ok", False: "FAIL"} if judged else {True: "too small to judge", False: "too small to judge"}
    return table(["", "measured", ""], [[t.claim, t.measured, verdict[t.holds]] for t in targets])


def table(head: list[str], rows: list[list[str]]) -> str:
    """Columns of text, the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = (
        "  ".join(c.rjust(n) if k else c.ljust(n) for k, (c, n) in enumerate(zip(r, widths, strict=True)))
        for r in [head, *rows]
    )
    return "\n".join("  " + line.rstrip() for line in lines)


def progress(text: str) -> None:
    """Print one line on stderr, overwritten on terminals."""
    if sys.stderr.isatty():
        print(f"\r{text:<78}\r{text}", end="", file=sys.stderr, flush=True)
    elif text:
        print(text, file=sys.stderr, flush=True)


def checkout(folder: str) -> Path:
    """Return the path of a folder with another version of this project; the type of an argument of a script.

    A script that runs in any other folder would compare this version with itself.
    """
    if not Path(folder, "src", "fiol").is_dir():
        raise argparse.ArgumentTypeError(f"{folder} holds no version of fiol")
    return Path(folder)


def version_of(package: str) -> str | None:
    """Return the version of an installed package, or None: benchmarks leave out peers that are not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def header(program: str, arguments: list[str] | None, quick: bool, packages: Iterable[str] = ()) -> dict[str, Any]:
    """Return what is needed to read numbers later; `packages` are those used beside the usual ones."""
    return {
        "command": " ".join([f"python -m {program}", *(sys.argv[1:] if arguments is None else arguments)]),
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "quick": quick,
        "cpu": cpu_name(),
        "platform": platform.platform(),
        "versions": {
            "python": platform.python_version(),
            "fiol": fiol.__version__,
            **{package: version_of(package) for package in ("numpy", "numba", *packages)},
        },
    }
