"""The experiments by name, in full and quick."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Protocol

from fiol.experiments import regret, solvers, stability, table3
from fiol.experiments.report import Report


class Experiment(Protocol):
    """The interface of all experiments."""

    name: str

    def run(self) -> Iterator[tuple[float, str]]:
        """Run the experiment; yield the share that is done, and a description."""

    def report(self) -> Report:
        """Return the results so far."""


def make_experiment(name: str, quick: bool, seconds: float | None, seed: int, workers: int) -> Experiment:
    """Return an experiment by name, ready to run; `seconds` is the time of a run of table3."""
    common: dict[str, Any] = {"seed": seed, "workers": workers}
    makers: dict[str, Callable[[], Experiment]] = {
        "table3": lambda: table3.Table3(
            table3.Settings(seconds=seconds or (table3.QUICK if quick else table3.Settings.seconds), **common)
        ),
        "stability": lambda: stability.Stability(replace(stability.QUICK if quick else stability.Settings(), **common)),
        "regret": lambda: regret.Regret(replace(regret.QUICK if quick else regret.Settings(), **common)),
        "solvers": lambda: solvers.Solvers(replace(solvers.QUICK if quick else solvers.Settings(), **common)),
    }
    return makers[name]()
