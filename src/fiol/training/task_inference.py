"""Infer the loss from the first targets, with the reason in words, and convert targets to the form of the loss."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fiol.components.joint_losses import AnyLoss, JointLoss, Softmax
from fiol.components.losses import Binary, Logistic, Squared
from fiol.features.frames import as_list

#: Whole numbers are classes up to this number of different ones, with this number of rows each on average.
FEW_NUMBERS, ROWS_OF_EACH = 20, 5
#: Text values are classes up to this number of different ones.
MAX_CLASSES = 1000
#: Up to this many different strings are classes, even if each is in one row alone.
FEW_CLASSES = 50
#: Two numbers that are not whole are classes from this number of rows on.
ROWS_OF_TWO = 10
#: All integers up to here are floats.
LARGEST_WHOLE = 2**53 - 1

#: Types of labels in JSON.
Label = str | bool | int | float


class UnclearTargetError(ValueError):
    """Targets from which no loss can be inferred, or that the loss does not accept; `row` is that of one target."""

    def __init__(self, message: str, row: int | None = None) -> None:
        super().__init__(message)
        self.row = row


class Task(NamedTuple):
    """What to learn: a loss, its two labels if it is binary, and the reason for this loss."""

    loss: AnyLoss
    labels: list[Label] | None  #: [negative, positive] for a loss of two classes; None for all others
    why: str
    one_vs_rest: bool = False  #: whether each class has a learner of its own, with a loss of two classes

    @property
    def kind(self) -> str:
        """What is predicted: "two classes", "classes" or "numbers"."""
        if self.labels is not None:
            return "two classes"
        return "classes" if self.one_vs_rest or isinstance(self.loss, JointLoss) else "numbers"

    def coded(self, y: Any) -> tuple[Any, Any]:
        """Return targets in the form of the loss, -1.0 and +1.0, labels or numbers, and a mask of rows with a target.

        A row without a target (nan, None) gets any value. Raise UnclearTargetError for an invalid target.

        >>> task = infer_task(["no", "yes", "no"])
        >>> task.coded(["yes", None, "no"])
        (array([ 1., -1., -1.]), array([ True, False,  True]))
        """
        values = plain_values(y)
        if self.labels is not None:
            return self._signs(values)
        there = has_value(values)
        if self.kind == "classes":
            return class_labels(values, there), there
        if values.dtype == object:
            wrong = next((k for k, value in enumerate(values) if there[k] and not is_numeric(value)), None)
            if wrong is not None:
                raise UnclearTargetError(
                    f"the target must be a number for {called_as(self.loss)}, got {values[wrong]!r}", wrong
                )
            values = np.where(there, values, 0.0).astype(np.float64)
        return np.where(there, values, 0.0), there

    def codes(self, learner: Any, y: Any) -> Any:
        """Return targets of `coded` as a learner's loss takes them: codes of classes for a joint loss."""
        return learner.core.codes_of(y) if isinstance(self.loss, JointLoss) else y

    def _signs(self, values: Any) -> tuple[Any, Any]:
        """Return +1.0 for the positive label and -1.0 for the negative one, and a mask of rows with a target."""
        assert self.labels is not None
        negative, positive = self.labels
        if values.dtype == object:
            there = has_value(values)
            plus = np.array([value == positive for value in values], bool)
            known = plus | np.array([value == negative for value in values], bool)
        else:  # numpy warns if text is compared with numbers
            plus = values == positive if is_numeric(positive) else np.zeros(len(values), bool)
            known = plus | (values == negative if is_numeric(negative) else np.zeros(len(values), bool))
            there = known if known.all() else has_value(values)
        if not (known | ~there).all():
            k = int(np.argmin(known | ~there))
            raise UnclearTargetError(
                f"the target {plain_number(values[k])!r} is neither {negative!r} nor {positive!r}, the two labels "
                "of the model: for more classes train one with the loss softmax",
                k,
            )
        return np.where(plus, 1.0, -1.0), there


def infer_task(targets: Any, loss: AnyLoss | None = None) -> Task:
    """Return the task inferred from the first targets; if a loss is given, only the labels are inferred.

    | the target has | loss |
    |---|---|
    | two values: bools, whole numbers, text, or other numbers in at least 10 rows | `Logistic` |
    | text, at most 1,000 different values; of more than 50, each in two rows or more on average | `Softmax` |
    | 3 to 20 different whole numbers, none below 0, in five times as many rows | `Softmax` |
    | any other numbers | `Squared` |

    The larger of two numbers, or the later of two strings in alphabetical order, is positive.

    >>> infer_task([0, 1, 1, 0]).why
    'two values, 0 and 1: logistic loss, 1 is positive'
    >>> infer_task(["cat", "dog", "cow"]).why
    "3 different strings, such as 'cat', 'cow', 'dog': softmax, a score per class"
    >>> infer_task([2.5, 1.25, 3.0]).why
    'numbers from 1.25 to 3: squared loss'
    """
    values = plain_values(targets)
    values = values[has_value(values)]
    if not len(values):
        raise UnclearTargetError("no row has a target: nothing can be learned")
    found = distinct(values)
    if loss is not None:
        return task_of_loss(loss, found)
    strings = [value for value in found if isinstance(value, str)]
    if strings and len(strings) < len(found):
        number = next(value for value in found if not isinstance(value, str))
        raise UnclearTargetError(f"the target has strings, such as {strings[0]!r}, and numbers, such as {number!r}")
    if isinstance(found[0], bool) and all(isinstance(value, bool) for value in found):
        return Task(Logistic(), [False, True], "false and true: logistic loss, true is positive")
    if len(found) == 1:
        raise UnclearTargetError(
            f"the target is {found[0]!r} in all of the first {len(values):,} rows: name the loss, or mix the rows"
        )
    whole = all(isinstance(value, (int, str)) for value in found)
    if len(found) == 2 and (whole or len(values) >= ROWS_OF_TWO):
        why = f"two values, {found[0]} and {found[1]}: logistic loss, {found[1]} is positive"
        return Task(Logistic(), found, why)
    if strings:
        if len(strings) > MAX_CLASSES or (len(strings) > FEW_CLASSES and 2 * len(strings) > len(values)):
            raise UnclearTargetError(
                f"the target has {len(strings):,} different strings in the first {len(values):,} rows, such as "
                f"{strings[0]!r}: too many for classes; name another column, or the loss softmax"
            )
        some = ", ".join(repr(text) for text in strings[:3])
        return Task(Softmax(), None, f"{len(strings)} different strings, such as {some}: softmax, a score per class")
    low, high = found[0], found[-1]
    if whole and low >= 0 and len(found) <= FEW_NUMBERS and len(values) >= ROWS_OF_EACH * len(found):  # type: ignore[operator]
        why = f"{len(found)} different whole numbers from {low} to {high}: softmax, a score per class"
        return Task(Softmax(), None, why)
    return Task(Squared(), None, f"numbers from {low:g} to {high:g}: squared loss")


def task_of_loss(loss: AnyLoss, found: list[Label]) -> Task:
    """Return the task of a loss that the user chose, with the sorted labels so far."""
    why = f"{with_parameters(loss)}, as asked for"
    if not isinstance(loss, Binary):
        return Task(loss, None, why)
    if len(found) > 2:
        some = ", ".join(repr(value) for value in found[:3])
        raise UnclearTargetError(f"{called_as(loss)} is for two classes, but the target has {some}, ...")
    if len(found) == 1:
        found = other_label(found[0], loss)
    return Task(loss, found, f"{why}: {found[1]} is positive")


def other_label(label: Label, loss: AnyLoss) -> list[Label]:
    """Return both labels of a binary target, of which the first rows have only one."""
    pairs: list[list[Label]] = [[False, True], [0, 1], [-1, 1]]
    for pair in pairs:
        if type(label) in (type(pair[0]), float) and label in pair:
            return pair
    raise UnclearTargetError(
        f"{called_as(loss)} is for two classes, but the target is {label!r} in all of the first rows: mix the rows"
    )


def with_parameters(loss: AnyLoss) -> str:
    """Return the name of a loss, with its parameter if that is not the default.

    >>> from fiol import Huber, Logistic, Quantile
    >>> with_parameters(Quantile(0.9)), with_parameters(Logistic()), with_parameters(Huber())
    ('quantile:0.9', 'log_loss', 'huber')
    """
    given = [
        getattr(loss, field.name) for field in dataclasses.fields(loss) if getattr(loss, field.name) != field.default
    ]
    return ":".join([called_as(loss), *(repr(value).removesuffix(".0") for value in given)])


def called_as(loss: AnyLoss) -> str:
    """Return the name of a loss in estimators, or that of its class."""
    return loss.alias or type(loss).__name__


# --- values -----------------------------------------------------------------------------------


def plain_values(y: Any) -> Any:
    """Return the values of a series of any library as an array: float64 if all are numbers, else objects.

    Whole numbers from 2^53 on are objects, which keep all their digits.

    >>> plain_values([1, 2]), plain_values(["a", None]), plain_values([2**53 + 1])
    (array([1., 2.]), array(['a', None], dtype=object), array([9007199254740993], dtype=object))
    """
    if isinstance(y, np.ndarray) and y.dtype.kind == "f":
        return y.astype(np.float64, copy=False)
    if isinstance(y, np.ndarray) and y.dtype.kind in "iu" and fits_floats(y):
        return y.astype(np.float64)
    listed = as_list(y)
    kinds = set(map(type, listed))
    if kinds <= {int, float} and not any(type(v) is int and abs(v) > LARGEST_WHOLE for v in listed):
        return np.array(listed, np.float64)
    found = np.empty(len(listed), object)
    found[:] = listed
    return found


def fits_floats(values: Any) -> bool:
    """Return whether an array of integers has the same values as float64."""
    return not len(values) or (-LARGEST_WHOLE <= values.min() and values.max() <= LARGEST_WHOLE)


def has_value(values: Any) -> Any:
    """Return a mask of the values that are neither nan nor None."""
    if values.dtype != object:
        return ~np.isnan(values)
    return np.array([value is not None and not (isinstance(value, float) and math.isnan(value)) for value in values])


def is_numeric(value: Any) -> bool:
    """Return whether a value is an int, a float or a bool."""
    return isinstance(value, (int, float))


def plain_number(value: Any) -> Any:
    """Return a value as a plain Python value, an int if it is a whole number.

    >>> plain_number(np.float64(3.0)), plain_number(2.5), plain_number("a")
    (3, 2.5, 'a')
    """
    value = value.item() if isinstance(value, np.generic) else value
    whole = isinstance(value, float) and math.isfinite(value) and value == int(value) and abs(value) <= LARGEST_WHOLE
    return int(value) if whole else value


def distinct(values: Any) -> list[Label]:
    """Return the different values, sorted, whole numbers as ints, text after numbers."""
    found = np.unique(values).tolist() if values.dtype != object else list(dict.fromkeys(values.tolist()))
    return sorted((plain_number(value) for value in found), key=lambda value: (isinstance(value, str), value))


def class_labels(values: Any, there: Any) -> Any:
    """Return class labels: str, int or bool; a row without one gets the first label."""
    if values.dtype != object:
        filled = np.where(there, values, values[np.argmax(there)] if len(values) else 0.0)
        codes = filled.astype(np.int64)
        if (codes != filled).any():
            k = int(np.argmax(codes != filled))
            raise UnclearTargetError(f"classes are whole numbers or strings, got {filled[k]:g}", k)
        return codes
    labels: Sequence[Any] = [plain_number(value) for value in values]
    first = next((value for value, is_there in zip(labels, there, strict=True) if is_there), 0)
    found = np.empty(len(labels), object)
    found[:] = [value if is_there else first for value, is_there in zip(labels, there, strict=True)]
    return found
