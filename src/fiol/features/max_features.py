"""Bounded memory: find the rows of a chunk whose features fit beside those that are stored."""

from __future__ import annotations

from typing import Any

import numpy as np

from fiol.components.row import Indices
from fiol.features.chunk import Chunk, canonical, spot


def renumbered(chunk: Chunk, numbers: Any) -> Chunk:
    """Return the chunk with feature i renamed to numbers[i], or left out if that is -1.

    >>> from fiol import to_chunk
    >>> renumbered(to_chunk([[1.0, 2.0, 3.0]]), np.array([5, -1, 0]))
    Chunk(indptr=array([0, 2]), indices=array([0, 5], dtype=int32), data=array([3., 1.]))
    """
    if numbers.min(initial=0) >= 0:  # usually
        return canonical(chunk._replace(indices=numbers.astype(np.int32)[chunk.indices]), spot)
    new = numbers[chunk.indices]
    known = new >= 0
    indptr = np.concatenate([[0], np.cumsum(known)])[chunk.indptr]
    return canonical(Chunk(indptr, new[known].astype(np.int32), chunk.data[known]), spot)


def rows_that_fit(chunk: Chunk, numbers: Any, free: int) -> tuple[int, Indices]:
    """Return how many rows, from the first, have at most `free` new features, and these features in order.

    A feature is new if its number is -1.

    >>> from fiol import to_chunk
    >>> rows_that_fit(to_chunk([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), np.array([0, -1, -1]), 1)
    (2, array([1]))
    """
    features, places = np.unique(chunk.indices, return_index=True)
    new = numbers[features] < 0
    features, rows = features[new], np.searchsorted(chunk.indptr, places[new], side="right") - 1
    order = np.lexsort((features, rows))
    features, rows = features[order].astype(np.int64), rows[order]
    fit = chunk.rows if features.shape[0] <= free else int(rows[free])
    return fit, features[rows < fit]
