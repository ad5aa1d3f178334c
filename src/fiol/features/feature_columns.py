"""Feature columns: the entries of one column, or of one interaction, in all rows; `interleave` makes rows of them.

Names are numbered as they first appear, row by row and column by column, as if the rows were dicts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fiol.components.row import Floats
from fiol.features.chunk import Chunk
from fiol.features.named_rows import NamedRows


class FeatureColumn(NamedTuple):
    """Entries in the order of rows: the row of each, the number of its name in `names`, and its value, which is not 0.

    `groups[i]` is the column, or namespace, of `names[i]`.
    """

    rows: Any
    codes: Any
    data: Floats
    names: list[str]
    groups: list[str]


def interleave(columns: Sequence[FeatureColumn], rows: int) -> tuple[NamedRows, list[str]]:
    """Return the rows of all columns, each row's entries in the order of the columns, and the group of every name.

    >>> ages = FeatureColumn(np.array([0, 1]), np.array([0, 0]), np.array([30.0, 31.0]), ["age"], ["age"])
    >>> cities = FeatureColumn(np.array([1]), np.array([0]), np.array([1.0]), ["city=Rome"], ["city"])
    >>> interleave([ages, cities], 3)[0].chunk
    Chunk(indptr=array([0, 1, 3, 3]), indices=array([0, 0, 1], dtype=int32), data=array([30., 31.,  1.]))
    """
    counts = [np.bincount(column.rows, minlength=rows) for column in columns]
    indptr = np.zeros(rows + 1, np.int64)
    if columns:
        np.cumsum(np.sum(counts, axis=0), out=indptr[1:])
    codes, data, free, base = np.empty(indptr[-1], np.int64), np.empty(indptr[-1]), indptr[:-1].copy(), 0
    for column, count in zip(columns, counts, strict=True):
        places = free[column.rows] + ranks(column.rows, count)
        codes[places], data[places] = column.codes + base, column.data
        free += count
        base += len(column.names)
    names = [name for column in columns for name in column.names]
    groups = [group for column in columns for group in column.groups]
    return numbered_as_they_appear(Chunk(indptr, codes, data), names, groups)


def ranks(rows: Any, count: Any) -> Any:
    """How many entries of its row come before each, where rows do not fall and `count` is how many each row has."""
    if not len(count) or count.max() <= 1:
        return 0
    return np.arange(len(rows)) - (np.cumsum(count) - count)[rows]


def numbered_as_they_appear(chunk: Chunk, names: list[str], groups: list[str]) -> tuple[NamedRows, list[str]]:
    """Rows whose names are numbered as they first appear, those that do not appear left out, those that are one joined.

    Names of different columns may be one; then the group is that of the first.
    """
    first = np.full(len(names), -1, np.int64)
    first[chunk.indices[::-1]] = np.arange(len(chunk.indices))[::-1]  # the first of a name is written last
    seen = np.flatnonzero(first >= 0)
    seen = seen[np.argsort(first[seen])]
    numbers = np.empty(len(names), np.int32)
    numbers[seen] = np.arange(len(seen))
    called = [names[i] for i in seen.tolist()]
    known = dict.fromkeys(called)
    if len(known) < len(called):  # two columns have made one name
        places = {name: k for k, name in enumerate(known)}
        numbers[seen] = [places[name] for name in called]
        seen = seen[np.unique(numbers[seen], return_index=True)[1]]
    kept = [groups[i] for i in seen.tolist()]
    return NamedRows(chunk._replace(indices=numbers[chunk.indices]), list(known)), kept
