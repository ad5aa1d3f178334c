"""What the benchmarks share: turns, fits, tables, targets, and the header of a file of numbers."""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable, Iterable
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

#: Where the fits of exponents begin: at the first size, and where the fixed cost of a row no longer flatters them.
FIT_FROM = (0, 1000)


def decades(first: int, last: int) -> tuple[int, ...]:
    """Two sizes per power of ten."""
    return tuple(round(10 ** (k / 2)) for k in range(2 * first, 2 * last + 1))


# --- timing -----------------------------------------------------------------------------------


class Contestant:
    """Something to time: `prepare` gives, untimed, what is then called and timed. The best time counts."""

    #: What is read before and after: the time of day, or the time the process has had.
    clock: Callable[[], float] = staticmethod(time.perf_counter)

    def __init__(self, prepare: Callable[[], Callable[[], Any]]) -> None:
        self.prepare, self.seconds = prepare, np.inf

    def once(self) -> Any:
        """One timed call; returns what it returned."""
        go, clock = self.prepare(), self.clock
        start = clock()
        found = go()
        self.seconds = min(self.seconds, clock() - start)
        return found

    def turn(self, seconds: float = 0.03) -> None:
        """At least one call; more of those too short to time well."""
        end = time.perf_counter() + seconds
        self.once()
        while time.perf_counter() + self.seconds < end:
            self.once()


def take_turns(contestants: Iterable[Contestant], rounds: int) -> None:
    """All contestants in turns, so that none has the quiet minutes to itself."""
    contestants = list(contestants)
    for _ in range(rounds):
        for contestant in contestants:
            contestant.turn()


def exponent(sizes: Iterable[float], times: Iterable[float], first: float = 0) -> float:
    """The b of time = a size^b, by least squares of the logarithms over sizes >= first."""
    n, t = np.log([(n, t) for n, t in zip(sizes, times, strict=True) if n >= first]).T
    return float(np.polyfit(n, t, 1)[0])


def fit_ranges(sizes: Iterable[float]) -> list[int]:
    """Those of FIT_FROM that leave enough sizes for a fit."""
    sizes = list(sizes)
    return [first for first in FIT_FROM if sum(n >= first for n in sizes) > 1]


# --- saying what was found --------------------------------------------------------------------


class Target(NamedTuple):
    """A bound the project has set itself, and what was measured."""

    claim: str
    measured: str
    holds: bool


def verdicts(targets: list[Target], judged: bool) -> str:
    """The targets as a table; unless `judged`, no verdict is given."""
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
    """One line on stderr, overwritten where it can be."""
    if sys.stderr.isatty():
        print(f"\r{text:<78}\r{text}", end="", file=sys.stderr, flush=True)
    elif text:
        print(text, file=sys.stderr, flush=True)


def header(program: str, arguments: list[str] | None, quick: bool, packages: Iterable[str] = ()) -> dict[str, Any]:
    """What is needed to read numbers later; `packages` are those that were used beside the usual ones."""
    return {
        "command": " ".join([f"python -m {program}", *(sys.argv[1:] if arguments is None else arguments)]),
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "quick": quick,
        "cpu": cpu_name(),
        "platform": platform.platform(),
        "versions": {
            "python": platform.python_version(),
            **{p: version(p) for p in ("fiol", "numpy", "numba", *packages)},
        },
    }


def cpu_name() -> str:
    """What the processor calls itself; `platform` does not know on Linux."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())
