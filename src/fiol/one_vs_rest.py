"""Many classes by learners that tell two apart: each is told +1 for the rows of its class and -1 for all others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from fiol.learner import Learner
from fiol.row import Floats


class OneVsRest:
    """The learner of every class; classes may appear at any time, unless all are given from the start.

    Parameters
    ----------
    new : makes a learner before its first round.
    classes : all classes there will ever be. For two of them one learner is enough, that of the second.

    Without `classes`, one more learner is told -1 in every round. A class starts from a copy of it, so that the
    model is exactly the one that knew all classes from the start.

    >>> from fiol import FIOL, Learner, Logistic
    >>> fruit = OneVsRest(lambda: Learner(FIOL(Logistic())))
    >>> fruit.meet(["apple", "pear"])
    >>> [target for _, target in fruit.told("pear")]
    [-1.0, 1.0, -1.0]
    >>> OneVsRest(lambda: Learner(FIOL(Logistic())), [False, True]).meet(["apple"])
    Traceback (most recent call last):
    ValueError: 'apple' is none of the classes [False, True]
    """

    def __init__(self, new: Callable[[], Learner], classes: Sequence[Any] | None = None) -> None:
        closed = list(classes or ())
        #: The number of every class, in the order of their appearance.
        self.numbers: dict[Any, int] = {label: k for k, label in enumerate(closed)}
        #: The learners of these classes.
        self.learners: dict[Any, Learner] = {label: new() for label in (closed[1:] if len(closed) == 2 else closed)}
        self.standby: Learner | None = None if closed else new()

    @property
    def classes(self) -> list[Any]:
        """The classes that have appeared, in this order."""
        return list(self.numbers)

    def meet(self, labels: Iterable[Any]) -> None:
        """Take in the classes that are new; ValueError if there are none to come."""
        for label in labels:
            if label in self.numbers:
                continue
            if self.standby is None:
                raise ValueError(f"{label!r} is none of the classes {self.classes}")
            self.learners[label] = self.standby.copy()
            self.numbers[label] = len(self.numbers)

    def forget(self, classes: int) -> None:
        """Take back all classes but the first so many: something went wrong before their first round."""
        for label in self.classes[classes:]:
            del self.numbers[label], self.learners[label]

    def told(self, label: Any) -> list[tuple[Learner, float]]:
        """Every learner, and its target in a round with this label."""
        tasks = [(learner, 1.0 if own == label else -1.0) for own, learner in self.learners.items()]
        return tasks if self.standby is None else [*tasks, (self.standby, -1.0)]

    def told_all(self, labels: Sequence[Any]) -> list[tuple[Learner, Floats]]:
        """Every learner, and its targets in rounds with these labels."""
        codes = np.array([self.numbers[label] for label in labels], np.int64)
        tasks = [(learner, np.where(codes == self.numbers[own], 1.0, -1.0)) for own, learner in self.learners.items()]
        return tasks if self.standby is None else [*tasks, (self.standby, np.full(codes.shape, -1.0))]


def normalized(p: Floats) -> Floats:
    """Probabilities of one class against the rest, for each class, as probabilities that add up to 1.

    >>> normalized(np.array([[0.5, 0.25, 0.25], [0.0, 0.0, 0.0]])).round(3)
    array([[0.5  , 0.25 , 0.25 ],
           [0.333, 0.333, 0.333]])
    """
    mass = p.sum(axis=1, keepdims=True)
    return np.divide(p, mass, out=np.full(p.shape, 1.0 / p.shape[1]), where=mass > 0.0)
