"""Several passes over the same rows: their order, and when to stop."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from fiol.engine.engine import IN_ORDER
from fiol.features.chunk import loops
from fiol.features.transaction import Rewindable

#: A `map`, which may run its calls in threads.
Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
#: The combination weights of an ensemble are frozen after the first pass, because repeated rows favor members that
#: overfit; but not before this number of rows. (Of 0, 300, 1,000, 3,000 and infinitely many, 1,000 and 3,000 had the
#: least losses on new rows of scikit-learn's breast cancer and diabetes data and of `examples/own_loss.py`.)
MIN_STACK_ROWS = 1000


class Stopping(NamedTuple):
    """Stop after `epochs` passes, or once `patience` passes in a row did not improve the best one by `tol`.

    The criterion is the mean loss of rows before they are learned from, or the score on held-out rows. From the second
    pass on that loss is one of rows seen before, as in scikit-learn: it shows convergence, but only held-out rows show
    overfitting.
    """

    epochs: int = 1
    tol: float | None = None  #: None: all epochs are made
    patience: int = 5
    #: `tol` is a fraction of the loss of the first pass (where the best pass is restored, of the least loss so far), so
    #: that the unit of targets is irrelevant.
    relative: bool = False


class EpochRun:
    """One learner that makes passes over the same rows.

    Parameters
    ----------
    learn : makes one pass over the rows in a given order, or in theirs; returns their mean loss before learning.
    score : returns the score on held-out rows, called after every pass; None if there are none.
    back_to_best : the core of the learner, to restore its state after the best pass in the end; None to keep the last.
    """

    def __init__(
        self,
        learn: Callable[[Any], float],
        score: Callable[[], float] | None = None,
        back_to_best: Rewindable | None = None,
    ) -> None:
        self.learn, self.score, self.back_to_best = learn, score, back_to_best
        self.losses: list[float] = []  #: of every pass
        self.best, self.waited, self.mark = -np.inf, 0, None

    def make_pass(self, order: Any, stopping: Stopping) -> None:
        """Learn once from the rows in `order`, from all rows in theirs if it is empty."""
        self.losses.append(self.learn(order))
        merit = -self.losses[-1] if self.score is None else self.score()
        of_losses = self.score is None or self.back_to_best is not None
        unit = abs(self.losses[0]) if stopping.relative and of_losses else 1.0
        if stopping.relative and self.back_to_best is not None and len(self.losses) > 1:
            unit = abs(self.best)  # the loss of rows held back, which may fall by orders of magnitude
        improved = stopping.tol is None or merit >= self.best + stopping.tol * (unit or 1.0)
        self.waited = 0 if improved else self.waited + 1
        if self.back_to_best is not None and merit > self.best:
            self.mark = self.back_to_best.mark()
        self.best = max(self.best, merit)

    def end(self) -> None:
        """Restore the state after the best pass, if `back_to_best` is given."""
        if self.back_to_best is not None and self.mark is not None:
            self.back_to_best.rewind(self.mark)


def run_epochs(
    runs: list[EpochRun],
    rows: int,
    stopping: Stopping,
    seed: int | None = None,
    kept: Any = None,
    each: Map = map,
    on_pass: Callable[[int, list[EpochRun]], None] | None = None,
) -> int:
    """Let every learner make passes over the rows until it stops; return the largest number of passes.

    Parameters
    ----------
    seed : seed of the shuffling before every pass, the same as scikit-learn's; None keeps the order of the rows.
    kept : a mask of the rows to learn from; by default all.
    each : a `map`, which may run the learners in threads.
    on_pass : called after every pass with its number and the runs that made it.

    Examples
    --------
    >>> orders = []
    >>> run_epochs([EpochRun(lambda order: orders.append(order.tolist()) or 1.0)], 3, Stopping(epochs=2), seed=1)
    2
    >>> orders
    [[0, 2, 1], [0, 1, 2]]
    """
    order = IN_ORDER if seed is None and kept is None else np.arange(rows)
    for epoch in range(1, stopping.epochs + 1):
        if seed is not None:
            loops().shuffle(order, seed)
        now = order if kept is None else order[kept[order]]
        active = [run for run in runs if run.waited < stopping.patience]
        for _ in each(lambda run: run.make_pass(now, stopping), active):  # noqa: B023
            pass
        if on_pass is not None:
            on_pass(epoch, active)
        if all(run.waited >= stopping.patience for run in active):
            break
    for run in runs:
        run.end()
    return max(len(run.losses) for run in runs)
