"""Codes of class labels: 0, 1, ... in the order of their appearance, or sorted."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from fiol.features.frames import as_list

#: Rows in which classes are looked for first.
ROWS_FOR_CLASSES = 256
#: Up to this number of classes, comparing every label with each is faster than sorting.
COMPARED_CLASSES = 8


class Labels:
    """The classes of a model, and the code of each.

    Parameters
    ----------
    classes : the first labels, in the order of their codes.
    closed : whether no classes can be added.

    >>> fruit = Labels()
    >>> fruit.add(["pear", "apple", "pear"]), fruit.codes_of(["apple", "pear"])
    (['pear', 'apple'], array([1, 0]))
    >>> fruit.arrange(["apple", "pear"])
    >>> fruit.codes
    {'apple': 0, 'pear': 1}
    >>> Labels([False, True], closed=True).add(["apple"])
    Traceback (most recent call last):
    ValueError: 'apple' is none of the classes [False, True]
    """

    def __init__(self, classes: Iterable[Any] = (), closed: bool = False) -> None:
        #: The code of every class, in the order of codes. Replaced, not changed: a mark is a reference.
        self.codes: dict[Any, int] = {label: k for k, label in enumerate(classes)}
        self.closed = closed

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def classes(self) -> list[Any]:
        """The classes, in the order of their codes."""
        return list(self.codes)

    def add(self, labels: Iterable[Any]) -> list[Any]:
        """Give codes to new labels and return these; raise ValueError if the classes are closed."""
        new = [label for label in dict.fromkeys(labels) if label not in self.codes]
        if new and self.closed:
            raise ValueError(f"{new[0]!r} is none of the classes {self.classes}")
        if new:
            self.codes = {label: k for k, label in enumerate([*self.codes, *new])}
        return new

    def codes_of(self, labels: Iterable[Any]) -> Any:
        """Return the code of every label; raise KeyError if one is no class."""
        return np.array([self.codes[label] for label in labels], np.int64)

    def code(self, labels: list[Any]) -> tuple[Any, Any]:
        """Return the code of every label, and the row in which each new class first appears; add new classes.

        >>> Labels(["pear"]).code(["pear", "fig", "pear", "kiwi"])
        (array([0, 1, 0, 2]), array([1, 3]))
        """
        before = len(self.codes)
        if self.closed and not self.codes.keys() >= set(labels):
            k = next(k for k, label in enumerate(labels) if label not in self.codes)
            raise ValueError(f"y[{k}]: {labels[k]!r} is none of the classes {self.classes}")
        new = self.add(labels)
        codes = self.codes_of(labels)
        # New classes are numbered as they appear, so the largest code so far reaches each of them at its first row.
        return codes, np.searchsorted(np.maximum.accumulate(codes), np.arange(before, before + len(new)))

    def array(self, first: int | None = None) -> Any:
        """Return the classes, or the `first` of them, as an array (`label_array`)."""
        return label_array(self.classes[:first])

    def header(self) -> dict[str, Any]:
        """Return the classes, as the header of a file stores them."""
        return {"classes": self.classes, "closed": self.closed}

    def check_storable(self) -> None:
        """Raise TypeError if a label cannot be stored in a file."""
        for label in self.codes:
            if type(label) not in LABEL_TYPES:
                raise TypeError(f"labels in a file must be str, int or bool, got {label!r}")

    def arrange(self, classes: Iterable[Any]) -> None:
        """Assign codes to the classes in this order."""
        self.codes = {label: k for k, label in enumerate(classes)}

    def mark(self) -> dict[Any, int]:
        """Return a token for `rewind`."""
        return self.codes

    def rewind(self, mark: dict[Any, int]) -> None:
        """Remove all classes added since the mark."""
        self.codes = mark


#: Types of labels that files store.
LABEL_TYPES = (str, int, bool)


def label_array(labels: list[Any]) -> Any:
    """Return labels as an array of their type, or of objects if they have several, or an array would change them.

    >>> label_array(["a", "b"]), label_array([3, 2**63 + 1]), label_array(["a", 1])
    (array(['a', 'b'], dtype='<U1'), array([3, 9223372036854775809], dtype=object), array(['a', 1], dtype=object))
    """
    found = np.empty(len(labels), object)
    found[:] = labels
    if len({type(label) for label in labels}) != 1 or type(labels[0]) not in (*LABEL_TYPES, float):
        return found
    plain = np.array(labels)
    same = plain.tolist() == labels and type(plain[0].item()) is type(labels[0])  # NULs at the end, floats of integers
    return plain if same else found


class AnyLabels(list[Any]):
    """Labels of any hashable type, as in River. Files do not store all of them."""


def check_kinds(labels: list[Any], name: str, known: Iterable[Any] = ()) -> None:
    """Raise TypeError unless labels are str, int or bool, and none equals one of another type, as True and 1 do.

    >>> check_kinds(["pear", 1.5], "y")
    Traceback (most recent call last):
    TypeError: y[1] must be a label: str, int or bool, got 1.5
    >>> check_kinds([True], "y", known=[0, 1])
    Traceback (most recent call last):
    TypeError: y[0]: True equals the label 1: use int or bool for both
    """
    kinds, before = set(map(type, labels)), set(map(type, known))
    if not kinds <= set(LABEL_TYPES):
        k = next(k for k, label in enumerate(labels) if type(label) not in LABEL_TYPES)
        raise TypeError(f"{name}[{k}] must be a label: str, int or bool, got {labels[k]!r}")
    if {int, bool} <= kinds | before:
        first = {label: label for label in reversed([*known, *labels])}
        for k, label in enumerate(labels):
            if type(first[label]) is not type(label):
                raise TypeError(f"{name}[{k}]: {label!r} equals the label {first[label]!r}: use int or bool for both")


def check_classes(classes: Any) -> list[Any]:
    """Return labels as plain Python values; raise if there are none, or two are equal."""
    if isinstance(classes, str):
        raise TypeError(f"classes must be a sequence of labels, got {classes!r}")
    found = [plain_label(label) for label in as_list(classes)]
    if not found:
        raise ValueError("classes must name at least one class; without classes, they may appear at any time")
    if not isinstance(classes, AnyLabels):
        check_kinds(found, "classes")
    if len(set(found)) < len(found):
        raise ValueError(f"classes must be all different, got {found}")
    return found


def labels_from_header(value: Any) -> dict[str, Any] | None:
    """Return the labels in the header of a file, None if it has none; raise ValueError if they are invalid."""
    if value is None:
        return None
    if not isinstance(value, Mapping) or value.keys() != {"classes", "closed"} or type(value["closed"]) is not bool:
        raise ValueError(f"its labels are given as {value!r}")
    classes = value["classes"]
    if not isinstance(classes, list) or not all(type(label) in LABEL_TYPES for label in classes):
        raise ValueError("its classes are not str, int or bool")
    if len(set(classes)) < len(classes) or (value["closed"] and not classes):
        raise ValueError("its classes are not all different, or there are none")
    return {"classes": classes, "closed": value["closed"]}


def labels_of_rows(y: Any, rows: int | None, known: Labels | None = None) -> list[Any]:
    """Return one label per row as plain Python values, from a list, an array or a series.

    Labels are str, int or bool, of types that go with the known classes; those in `AnyLabels` may be anything hashable.
    `rows` is the number of rows, None for any.

    >>> labels_of_rows(np.array(["pear", "fig"]), 2)
    ['pear', 'fig']
    """
    if isinstance(y, (str, bytes, Mapping)) or not isinstance(y, Iterable):
        raise TypeError(f"y must be one label per row, got {y!r}")
    shape = getattr(y, "shape", (0,))
    if len(shape) != 1:
        raise ValueError(f"y must be one-dimensional, got shape {shape}")
    labels = as_list(y)
    if rows is not None and len(labels) != rows:
        raise ValueError(f"y must have one entry per row: {rows}, got {len(labels)}")
    if isinstance(y, np.ndarray) and y.dtype.kind in "biuU":
        if known is not None and y.dtype.kind != "U":
            check_kinds(labels, "y", known.codes)
        return labels
    for k, label in enumerate(labels):
        try:
            labels[k] = plain_label(label)
            hash(labels[k])
        except ValueError:
            raise ValueError(f"y[{k}] is missing") from None
        except TypeError:
            raise TypeError(f"y[{k}] must be a label: str, int or bool, got {label!r}") from None
    if not isinstance(y, AnyLabels):
        check_kinds(labels, "y", () if known is None else known.codes)
    return labels


def plain_label(label: Any) -> Any:
    """Return a label as a plain Python value; raise ValueError if it is missing.

    >>> plain_label(np.bool_(True))
    True
    """
    if isinstance(label, np.generic):
        label = label.item()
    if label is None or type(label).__name__ == "NAType" or (isinstance(label, float) and math.isnan(label)):
        raise ValueError("y is missing")
    return label


def sorted_codes(labels: Any, classes: Any = None) -> tuple[Any, Any]:
    """Return the sorted classes, known ones and those in `labels`, and the code of every label.

    >>> sorted_codes(np.array([7, 3, 5, 3]), np.array([3, 7]))
    (array([3, 5, 7]), array([2, 0, 1, 0], dtype=int8))
    """
    classes = np.unique(labels[:ROWS_FOR_CLASSES]) if classes is None else classes
    codes, known = places(labels, classes)
    if known.all():
        return classes, codes
    new = np.unique(labels[~known])
    joined = np.union1d(classes, new)
    if {*joined.tolist()} != {*classes.tolist(), *new.tolist()}:
        raise ValueError(f"y has labels of type {new.dtype}, which {classes.dtype} of the classes so far cannot join")
    return joined, places(labels, joined)[0]


def places(labels: Any, classes: Any) -> tuple[Any, Any]:
    """Return the position of every label among the sorted classes, and whether it is one of them."""
    if len(classes) > COMPARED_CLASSES:
        codes = np.searchsorted(classes[1:], labels, side="right")
        return codes, classes[codes] == labels
    codes, known = np.zeros(len(labels), np.int8), np.zeros(len(labels), bool)
    for code, label in enumerate(classes):
        own = labels == label
        codes += own * np.int8(code)
        known |= own
    return codes, known
