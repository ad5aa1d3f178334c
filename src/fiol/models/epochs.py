"""Many passes over the same rows: in which order, and when to stop."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from fiol.engine.engine import IN_ORDER
from fiol.intake.chunk import loops
from fiol.intake.transaction import Rewindable

#: Does one thing for each of many, perhaps in threads.
Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
#: So many rows a stack learns from, also if they come again. (Of 0, 300, 1,000, 3,000 and no end, 1,000 and 3,000 had
#: the least losses on new rows of scikit-learn's breast cancer and diabetes data and of `examples/own_loss.py`.)
ROWS_FOR_STACKS = 1000


class Stopping(NamedTuple):
    """Stop after `epochs` passes, or once `patience` passes in a row did not improve the best one by `tol`.

    What has to improve is the mean loss of rows before they are learned from, or the score on rows held out. From the
    second pass on, that loss is one of rows seen before, as scikit-learn's is: it says when learning has come to its
    end, not when a model begins to fit its rows too well, which rows held out alone can say.

    A loss in units of targets has to improve by `tol` times that of the first pass if `relative`, so that the unit in
    which targets are written does not decide how many passes are made.
    """

    epochs: int = 1
    tol: float | None = None  #: None: all epochs are made
    patience: int = 5
    relative: bool = False  #: whether `tol` is a part of the loss of the first pass


class Course:
    """One learner on its way through the epochs.

    Parameters
    ----------
    learn : makes one pass over the rows in a given order, or as they come; returns their mean loss before learning.
    score : how good the learner is on rows held out, called after every pass; None if there are none.
    back_to_best : the learner, if it is to go back in the end to where it was after its best pass.
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
        """Learn from the rows that `order` names once, from all as they come if it is empty."""
        self.losses.append(self.learn(order))
        merit = -self.losses[-1] if self.score is None else self.score()
        of_losses = self.score is None or self.back_to_best is not None
        unit = abs(self.losses[0]) if stopping.relative and of_losses else 1.0
        improved = stopping.tol is None or merit >= self.best + stopping.tol * (unit or 1.0)
        self.waited = 0 if improved else self.waited + 1
        if self.back_to_best is not None and merit > self.best:
            self.mark = self.back_to_best.mark()
        self.best = max(self.best, merit)

    def end(self) -> None:
        """Go back to where the best pass ended, if that is asked for."""
        if self.back_to_best is not None and self.mark is not None:
            self.back_to_best.rewind(self.mark)


def run(
    courses: list[Course],
    rows: int,
    stopping: Stopping,
    seed: int | None = None,
    kept: Any = None,
    each: Map = map,
    tell: Callable[[int, list[Course]], None] | None = None,
) -> int:
    """Let every learner pass over the rows until it stops; returns the most passes that one of them made.

    Parameters
    ----------
    seed : rows are shuffled before every pass, in the order in which scikit-learn would; None keeps their order.
    kept : which rows are learned from; by default all.
    tell : called after every pass with its number and the learners that made it.

    >>> orders = []
    >>> run([Course(lambda order: orders.append(order.tolist()) or 1.0)], 3, Stopping(epochs=2), seed=1)
    2
    >>> orders
    [[0, 2, 1], [0, 1, 2]]
    """
    order = IN_ORDER if seed is None and kept is None else np.arange(rows)
    for epoch in range(1, stopping.epochs + 1):
        if seed is not None:
            loops().shuffle(order, seed)
        now = order if kept is None else order[kept[order]]
        active = [course for course in courses if course.waited < stopping.patience]
        for _ in each(lambda course: course.make_pass(now, stopping), active):  # noqa: B023
            pass
        if tell is not None:
            tell(epoch, active)
        if all(course.waited >= stopping.patience for course in active):
            break
    for course in courses:
        course.end()
    return max(len(course.losses) for course in courses)
