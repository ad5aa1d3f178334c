"""Compare algorithms and step sizes on the same rows, all in one pass, by progressive loss."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from fiol.learner import Learner
from fiol.training.metrics import Mean, TargetTable
from fiol.training.rows import TargetRows
from fiol.training.task_inference import Task


class SweepResult(NamedTuple):
    """The result of one learner: its algorithm, step size (None if it has none), and mean progressive loss.

    The loss is infinite if scores or weights overflowed.
    """

    algorithm: str
    size: float | None
    loss: float
    nonzeros: int


class Sweep:
    """Learners, by (algorithm, step size), that see the same rows in the same order: `add` rows, then `results()`.

    A learner that overflows stops learning.

    >>> from fiol import FIOL, SGD, Constant, Squared, to_chunk
    >>> x = np.linspace(1.0, 20.0, 30)
    >>> rows = TargetRows(to_chunk(x[:, None]), 2.0 * x, np.ones(30))
    >>> kinds = [(kind, eta) for kind in (FIOL, SGD) for eta in (0.01, 10.0)]
    >>> made = {(kind.__name__, eta): Learner(kind(Squared(), step_size=Constant(eta))) for kind, eta in kinds}
    >>> sweep = Sweep(made, Task(Squared(), None, ""))
    >>> sweep.add(rows)
    >>> [(f.algorithm, f.size, bool(f.loss < 1.1 * sweep.constant_loss())) for f in sweep.results()]
    [('FIOL', 0.01, True), ('FIOL', 10.0, True), ('SGD', 0.01, True), ('SGD', 10.0, False)]
    """

    def __init__(self, learners: dict[tuple[str, float | None], Learner], task: Task) -> None:
        self.learners, self.task, self.rows = learners, task, 0
        self.losses = {key: Mean() for key in learners}
        self.out: set[tuple[str, float | None]] = set()
        self.targets = TargetTable()

    def add(self, rows: TargetRows) -> None:
        """Let all learners learn from rows."""
        self.rows += rows.size
        mass, codes = float(rows.weights.sum()), rows.y
        for key, learner in self.learners.items():
            if key in self.out:
                continue
            try:
                with warnings.catch_warnings(), np.errstate(all="ignore"):
                    warnings.simplefilter("ignore", RuntimeWarning)  # of scores that overflow
                    scores = learner.learn(*rows)
                    codes = self.task.codes(learner, rows.y)
                    mean = learner.core.mean_loss(scores, codes, rows.weights)
            except OverflowError:
                mean = math.inf
            if not math.isfinite(mean):
                self.out.add(key)
            self.losses[key].add(mean, mass)
        self.targets.add(codes, rows.weights)

    def constant_loss(self) -> float | None:
        """Return the mean loss of the best constant."""
        return self.targets.least_loss(self.task.loss)

    def results(self) -> list[SweepResult]:
        """Return the result of every learner, in their order."""
        return [
            SweepResult(*key, math.inf if key in self.out else self.losses[key].value, learner.n_nonzero)
            for key, learner in self.learners.items()
        ]


def best_results(results: Iterable[SweepResult]) -> dict[str, SweepResult]:
    """Return the result with the least loss of every algorithm.

    >>> best_results([SweepResult("SGD", 0.1, 0.5, 3), SweepResult("SGD", 1.0, 0.4, 3)])["SGD"].size
    1.0
    """
    found: dict[str, SweepResult] = {}
    for result in results:
        if result.algorithm not in found or result.loss < found[result.algorithm].loss:
            found[result.algorithm] = result
    return found


def count_near_best(results: Iterable[SweepResult], least: float, within: float = 1.1) -> tuple[int, int, Any]:
    """Return how many results are at most `within` times the least loss, their number, and the worst loss.

    >>> count_near_best([SweepResult("SGD", 0.1, 0.5, 3), SweepResult("SGD", 1.0, math.inf, 3)], 0.5)
    (1, 2, inf)
    """
    losses = [result.loss for result in results]
    return sum(loss <= within * least for loss in losses), len(losses), max(losses)
