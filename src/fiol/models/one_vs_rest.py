"""Many classes by learners that tell two apart: each is told +1 for the rows of its class and -1 for all others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from fiol.components.row import Floats
from fiol.intake.labels import Labels
from fiol.learner import Learner


class OneVsRest:
    """The learner of every class; classes may appear at any time, unless all are given from the start.

    Parameters
    ----------
    new : makes a learner before its first round.
    classes : the classes there are.
    closed : whether there will never be others. For two of them one learner is enough then, that of the second.

    Unless the classes are closed, one more learner is told -1 in every round. A class starts from a copy of it, so
    that the model is exactly the one that knew all classes from the start.

    >>> from fiol import FIOL, Learner, Logistic
    >>> fruit = OneVsRest(lambda: Learner(FIOL(Logistic())))
    >>> fruit.meet(["apple", "pear"])
    >>> [target for _, target in fruit.told("pear")]
    [-1.0, 1.0, -1.0]
    >>> OneVsRest(lambda: Learner(FIOL(Logistic())), [False, True], closed=True).meet(["apple"])
    Traceback (most recent call last):
    ValueError: 'apple' is none of the classes [False, True]
    """

    def __init__(self, new: Callable[[], Learner], classes: Sequence[Any] = (), closed: bool = False) -> None:
        own = classes[1:] if closed and len(classes) == 2 else classes
        #: The classes and their codes, by default in the order of their appearance.
        self.labels = Labels(classes, closed)
        #: The learners of these classes.
        self.learners: dict[Any, Learner] = {label: new() for label in own}
        #: The one that is told -1 in every round; None if there will be no more classes.
        self.standby: Learner | None = None if closed else new().copy()  # no ledger rides along with a copy

    @property
    def numbers(self) -> dict[Any, int]:
        """The code of every class."""
        return self.labels.codes

    @property
    def classes(self) -> list[Any]:
        """The classes there are, in the order of their codes."""
        return self.labels.classes

    def meet(self, labels: Iterable[Any]) -> None:
        """Take in the classes that are new; ValueError if there are none to come."""
        new = self.labels.take_in(labels)
        if new:
            assert self.standby is not None
            self.learners = {**self.learners, **{label: self.standby.copy() for label in new}}

    def mark(self) -> Any:
        """Where `rewind` goes back to."""
        return self.labels.mark(), self.learners

    def rewind(self, mark: Any) -> None:
        """Take back all classes since the mark: something went wrong before their first round."""
        codes, self.learners = mark
        self.labels.rewind(codes)

    def arrange(self, classes: Iterable[Any]) -> None:
        """Number the classes, which are those there are, in this order."""
        self.labels.arrange(classes)
        self.learners = {label: self.learners[label] for label in self.numbers}

    def told(self, label: Any) -> list[tuple[Learner, float]]:
        """Every learner, and its target in a round with this label; the one that stands by comes last."""
        own = self.learners.get(label)
        tasks = [(learner, 1.0 if learner is own else -1.0) for learner in self.learners.values()]
        if self.standby is not None:
            tasks.append((self.standby, -1.0))
        return tasks

    def told_all(self, numbers: Any) -> list[tuple[Learner, Floats]]:
        """Every learner, and its targets in rounds whose classes have these numbers; the same order."""
        own = ((learner, numbers == self.numbers[label]) for label, learner in self.learners.items())
        tasks = [(learner, np.where(yes, 1.0, -1.0)) for learner, yes in own]
        return tasks if self.standby is None else [*tasks, (self.standby, np.full(numbers.shape, -1.0))]


def normalized(p: Floats) -> Floats:
    """Probabilities of one class against the rest, for each class, as probabilities that add up to 1.

    >>> normalized(np.array([[0.5, 0.25, 0.25], [0.0, 0.0, 0.0]])).round(3)
    array([[0.5  , 0.25 , 0.25 ],
           [0.333, 0.333, 0.333]])
    """
    mass = p.sum(axis=1, keepdims=True)
    return np.divide(p, mass, out=np.full(p.shape, 1.0 / p.shape[1]), where=mass > 0.0)
