"""Many passes over the same rows: in which order, and when to stop."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from fiol.chunks import Chunk, loops
from fiol.row import Floats

#: Does one thing for each of many, perhaps in threads.
Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]


class Stopping(NamedTuple):
    """Stop after `epochs` passes, or once `patience` passes in a row did not improve the best one by `tol`.

    What has to improve is the mean loss of rows before they are learned from, or the score on rows held out.
    """

    epochs: int = 1
    tol: float | None = None  #: None: all epochs are made
    patience: int = 5


class Course:
    """One learner on its way through the epochs.

    Parameters
    ----------
    learn : takes rows, targets and weights in the order of the pass; returns their mean loss before learning.
    y, weight : one entry per row.
    score : how good the learner is on rows held out, called after every pass; None if there are none.
    """

    def __init__(
        self,
        learn: Callable[[Chunk, Any, Floats], float],
        y: Any,
        weight: Floats,
        score: Callable[[], float] | None = None,
    ) -> None:
        self.learn, self.y, self.weight, self.score = learn, y, weight, score
        self.losses: list[float] = []  #: of every pass
        self.best, self.waited = -np.inf, 0

    def make_pass(self, rows: Chunk, order: Any, stopping: Stopping) -> None:
        """Learn from all rows once. They come in their order already, targets and weights do not."""
        y, weight = (self.y, self.weight) if order is None else (self.y[order], self.weight[order])
        self.losses.append(self.learn(rows, y, weight))
        merit = -self.losses[-1] if self.score is None else self.score()
        improved = stopping.tol is None or merit >= self.best + stopping.tol
        self.waited = 0 if improved else self.waited + 1
        self.best = max(self.best, merit)


def run(
    courses: list[Course],
    rows: Chunk,
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

    >>> from fiol import FIOL, Learner, Squared
    >>> from fiol.chunks import to_chunk
    >>> learner = Learner(FIOL(Squared()), n_features=1)
    >>> course = Course(lambda *rows: float(learner.learn(*rows).mean()), np.array([1.0, 2.0]), np.ones(2))
    >>> run([course], to_chunk([[1.0], [2.0]]), Stopping(epochs=3)), learner.rounds
    (3, 6)
    """
    order = None if seed is None else np.arange(rows.rows)
    for epoch in range(1, stopping.epochs + 1):
        if order is not None:
            loops().shuffle(order, seed)
        now = order if kept is None else np.flatnonzero(kept) if order is None else order[kept[order]]
        these = rows if now is None else rows.take(now)
        active = [course for course in courses if course.waited < stopping.patience]
        for _ in each(lambda course: course.make_pass(these, now, stopping), active):  # noqa: B023
            pass
        if tell is not None:
            tell(epoch, active)
        if all(course.waited >= stopping.patience for course in active):
            break
    return max(len(course.losses) for course in courses)
