"""Targets and sample weights: one number per row, from a series of any library."""

from __future__ import annotations

from typing import Any

import numpy as np

from fiol.components.component import place
from fiol.components.losses import Binary, Loss
from fiol.components.row import Floats
from fiol.features.chunk import HEAVIEST, LARGEST, kernel_array, loops
from fiol.features.frames import as_frame, as_numbers

#: Ends of error messages about values that are no targets.
MUST_BE_NUMBERS, ANY_LABELS = "it must be numbers", "fiol.OneVsRest and fiol.FIOLClassifier take any labels"


def check_targets(y: Any, rows: int | None, loss: Loss) -> Floats:
    """Return one target per row that the loss accepts, as float64; `rows` is None for any number of rows.

    >>> from fiol import Logistic
    >>> check_targets([1, -1, -1], 3, Logistic())
    array([ 1., -1., -1.])
    >>> check_targets([1, 0, 0], 3, Logistic())
    Traceback (most recent call last):
    ValueError: y[1] must be -1 or +1 for Logistic, got 0: use 2*y - 1
    """
    binary = isinstance(loss, Binary)
    wanted = f"must be {loss.targets} for {type(loss).__name__}"
    array = one_per_row("y", y, rows, f"it {wanted}; {ANY_LABELS}" if binary else MUST_BE_NUMBERS)
    targets: Floats = kernel_array(array, np.float64)
    rows = len(targets)
    if array.dtype.kind != "b" and loops().refused(loss, targets, LARGEST) == rows:
        return targets
    hint = recoding(array) if binary else ""
    if array.dtype.kind == "b" and hint:  # True would pass for +1, until the first False
        raise ValueError(f"y {wanted}, got bool{hint}")
    check_range("y", targets, -LARGEST, LARGEST, f"at most {LARGEST:g} in size")
    k = loops().refused(loss, targets, LARGEST)
    if k < rows:
        raise ValueError(f"y[{k}] {wanted}, got {targets[k]:g}{hint}")
    return targets


def recoding(y: Any) -> str:
    """Return how to turn codes of classes into -1 and +1, for the end of an error message; '' for other targets.

    >>> recoding(np.array([0, 1])), recoding(np.array([1.0, 2.0]))
    (': use 2*y - 1', ': use 2*y - 3; fiol.OneVsRest and fiol.FIOLClassifier take any labels')
    """
    found = np.unique(y)
    if np.isin(found, (0, 1)).all():
        return ": use 2*y - 1"
    return f": use 2*y - 3; {ANY_LABELS}" if np.isin(found, (1, 2)).all() else ""


def check_sample_weights(sample_weight: Any, rows: int) -> Floats:
    """Return one weight per row as float64, 1 by default.

    >>> check_sample_weights(None, 2), check_sample_weights([1, 0], 2)
    (array([1., 1.]), array([1., 0.]))
    """
    if sample_weight is None:
        return np.ones(rows)
    weights: Floats = kernel_array(one_per_row("sample_weight", sample_weight, rows), np.float64)
    if not rows or (weights.min() >= 0.0 and weights.max() <= HEAVIEST):
        return weights
    check_range("sample_weight", weights, 0.0, HEAVIEST, f"at least 0 and at most {HEAVIEST:g}")
    return weights


def one_per_row(name: str, values: Any, rows: int | None, advice: str = MUST_BE_NUMBERS) -> Any:
    """Return a series of one number per row as an array; `advice` ends the error for values that are no numbers."""
    frame = as_frame(values)
    array = as_numbers(values, lambda k: f"{name}[{k}]", name, advice) if frame is None else frame
    if array.shape != (rows,) and (rows is not None or len(array.shape) != 1):
        if len(array.shape) == 2 and array.shape[1] == 1:
            raise ValueError(f"{name} must be one-dimensional, got shape {array.shape}: use {name}.ravel()")
        if len(array.shape) != 1:
            raise ValueError(f"{name} must be one-dimensional, got shape {array.shape}")
        raise ValueError(f"{name} must have one entry per row: {rows}, got {array.shape[0]}")
    return array


def check_range(name: str, values: Floats, low: float, high: float, wanted: str) -> None:
    """Raise ValueError for the first value that is not finite, or not between `low` and `high`."""
    wrong = ~((values >= low) & (values <= high))
    if wrong.any():
        value = values[wrong][0]
        raise ValueError(f"{name}{place(wrong)} must be {wanted if np.isfinite(value) else 'finite'}, got {value:g}")
