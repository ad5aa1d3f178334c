"""Rows that a `LevelsEngine` keeps until it has found knots from them."""

from __future__ import annotations

from typing import Any

import numpy as np

from fiol.features.chunk import Chunk

NO_FIRST_ROWS = Chunk(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0))


def joined_rows(before: Chunk, rows: Chunk) -> Chunk:
    """Return rows and those that follow them."""
    indptr = np.concatenate([before.indptr, before.indptr[-1] + rows.indptr[1:]])
    return Chunk(indptr, np.concatenate([before.indices, rows.indices]), np.concatenate([before.data, rows.data]))


def restored_rows(arrays: dict[str, Any]) -> Chunk:
    """Return stored rows; ValueError if they are none."""
    try:
        return Chunk(**{name: array.copy() for name, array in arrays.items()}).checked()
    except TypeError as error:
        raise ValueError(str(error)) from error
