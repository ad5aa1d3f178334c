"""Labels of classes as codes: 0, 1, ... in the order of their appearance, or sorted."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

#: Classes are first looked for in so many rows, and so few are compared with every label: sorting takes longer.
AHEAD, FEW = 256, 8


class Labels:
    """The classes there are, and the code of each.

    Parameters
    ----------
    classes : the labels there are from the start, in the order of their codes.
    closed : whether there will never be others.

    >>> fruit = Labels()
    >>> fruit.take_in(["pear", "apple", "pear"]), fruit.codes_of(["apple", "pear"])
    (['pear', 'apple'], array([1, 0]))
    >>> fruit.arrange(["apple", "pear"])
    >>> fruit.codes
    {'apple': 0, 'pear': 1}
    >>> Labels([False, True], closed=True).take_in(["apple"])
    Traceback (most recent call last):
    ValueError: 'apple' is none of the classes [False, True]
    """

    def __init__(self, classes: Iterable[Any] = (), closed: bool = False) -> None:
        #: The code of every class, in the order of codes. Replaced when it changes, so that marks cost nothing.
        self.codes: dict[Any, int] = {label: k for k, label in enumerate(classes)}
        self.closed = closed

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def classes(self) -> list[Any]:
        """The classes there are, in the order of their codes."""
        return list(self.codes)

    def take_in(self, labels: Iterable[Any]) -> list[Any]:
        """Give codes to labels that are new, and return those; ValueError if the classes are closed."""
        new = [label for label in dict.fromkeys(labels) if label not in self.codes]
        if new and self.closed:
            raise ValueError(f"{new[0]!r} is none of the classes {self.classes}")
        if new:
            self.codes = {label: k for k, label in enumerate([*self.codes, *new])}
        return new

    def codes_of(self, labels: Iterable[Any]) -> Any:
        """The code of every label; KeyError if one is no class."""
        return np.array([self.codes[label] for label in labels], np.int64)

    def arrange(self, classes: Iterable[Any]) -> None:
        """Give the classes, which are those there are, codes in this order."""
        self.codes = {label: k for k, label in enumerate(classes)}

    def mark(self) -> dict[Any, int]:
        """Where `rewind` goes back to."""
        return self.codes

    def rewind(self, mark: dict[Any, int]) -> None:
        """Take back all classes since the mark."""
        self.codes = mark


def plain_label(label: Any) -> Any:
    """A label without numpy around it; ValueError if it is missing.

    >>> plain_label(np.bool_(True))
    True
    """
    if isinstance(label, np.generic):
        label = label.item()
    if label is None or type(label).__name__ == "NAType" or (isinstance(label, float) and math.isnan(label)):
        raise ValueError("y is missing")
    return label


def sorted_codes(labels: Any, classes: Any = None) -> tuple[Any, Any]:
    """The sorted classes, those known before and others that there are, and the code of every label of an array.

    >>> sorted_codes(np.array([7, 3, 5, 3]), np.array([3, 7]))
    (array([3, 5, 7]), array([2, 0, 1, 0], dtype=int8))
    """
    classes = np.unique(labels[:AHEAD]) if classes is None else classes
    codes, known = places(labels, classes)
    if known.all():
        return classes, codes
    classes = np.union1d(classes, labels[~known])
    return classes, places(labels, classes)[0]


def places(labels: Any, classes: Any) -> tuple[Any, Any]:
    """The place of every label among the sorted classes, and whether it is there."""
    if len(classes) > FEW:
        codes = np.searchsorted(classes[1:], labels, side="right")
        return codes, classes[codes] == labels
    codes, known = np.zeros(len(labels), np.int8), np.zeros(len(labels), bool)
    for code, label in enumerate(classes):
        own = labels == label
        codes += own * np.int8(code)
        known |= own
    return codes, known
