"""Single rows with numbered features, in any order, for the fast path of an engine."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fiol.features.chunk import LARGEST, SMALLEST, Chunk
from fiol.features.vocabulary import NAME_TYPES, Encoder, arranged

#: No rows.
NOTHING = Chunk(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0))
#: The types of values that `number_dict` takes, beside text.
VALUE_TYPES = frozenset((float, int, bool, np.float64, np.float32, np.int64))


class NumberedRow(NamedTuple):
    """One row; values of a feature that is there twice add up, and values may be 0 or out of range."""

    numbers: list[int]
    values: list[float]

    @property
    def features(self) -> int:
        """One more than the largest number."""
        return max(self.numbers, default=-1) + 1

    def chunk(self) -> Chunk:
        """Return the row as a canonical chunk; no row if a value is out of range."""
        done = arranged(np.array(self.numbers, np.int32), np.array(self.values, np.float64))
        return NOTHING if done is None else Chunk(np.array([0, len(done[0])]), *done)


def number_dict(encoder: Encoder, row: dict[Any, Any], grow: bool, leave_out: bool) -> NumberedRow | None:
    """Return a dict of numbers and text with its names numbered; None if it needs `Encoder.encode_carefully`.

    An unknown name gets a number if rows `grow`, inside a transaction; otherwise it is left out if `leave_out`.

    >>> from fiol.features.vocabulary import Vocabulary
    >>> number_dict(Vocabulary(["age"]), {"age": 3, "color": "red", "zero": 0.0}, True, False)
    NumberedRow(numbers=[0, 1], values=[3.0, 1.0])
    """
    strings, integers, _ = encoder.tables
    numbers, values = list[int](), list[float]()
    try:
        for key, value in row.items():
            kind = type(key)
            if kind not in NAME_TYPES:
                return None
            if type(value) is str:
                key, kind, value = f"{key}={value}", str, 1.0
            elif type(value) not in VALUE_TYPES:
                return None
            elif value == 0.0:
                continue
            number = strings.get(key) if kind is str else integers.get(key)
            if number is None:
                if grow or encoder.knows(key):
                    number = encoder.number(key)
                elif leave_out and SMALLEST <= abs(float(value)) <= LARGEST:  # a float32 has no such limits
                    continue
                else:
                    return None
            numbers.append(number)
            values.append(float(value))
    except (ValueError, OverflowError):  # `encode_carefully` raises what is wrong first
        return None
    return NumberedRow(numbers, values)


def number_arrays(indices: Any, values: Any) -> NumberedRow | None:
    """Return arrays of int32 and float64 as a row; None unless they have one length and no index below 0."""
    if len(indices) != len(values) or (len(indices) and indices.min() < 0):
        return None
    return NumberedRow(indices.tolist(), values.tolist())


def one_row(indices: Any, values: Any) -> Chunk:
    """Return one row as a chunk, which need not be canonical."""
    index, data = np.asarray(indices), np.asarray(values)
    if index.size == 0:
        index = index.astype(np.int32)
    if index.ndim != 1 or index.shape != data.shape:
        raise ValueError(f"indices and values must have one length, got shapes {index.shape} and {data.shape}")
    return Chunk(np.array([0, index.shape[0]]), index, data)
