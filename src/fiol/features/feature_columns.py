"""Feature columns: the entries of one column, or of one interaction, in all rows; `interleave` makes rows of them.

Names are numbered as they first appear, row by row and column by column, as if the rows were dicts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fiol.components.row import Floats
from fiol.features.chunk import Chunk
from fiol.features.named_rows import NamedRows, number_by_appearance


class FeatureColumn(NamedTuple):
    """Entries in the order of rows: the row of each, the number of its name in `names`, and its value, not 0.

    `groups[i]` is the column or namespace of `names[i]`.
    """

    rows: Any
    codes: Any
    data: Floats
    names: list[str]
    groups: list[str]


def indicators(rows: Any, codes: Any, names: list[str], group: str) -> FeatureColumn:
    """Return a feature column whose values are 1, with names of one group."""
    return FeatureColumn(rows, codes, np.ones(len(rows)), names, [group] * len(names))


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
    return join_equal_names(Chunk(indptr, codes, data), names, groups)


def ranks(rows: Any, count: Any) -> Any:
    """Return the number of entries of its row before each entry; rows ascend, and `count` is the length of each."""
    if not len(count) or count.max() <= 1:
        return 0
    return np.arange(len(rows)) - (np.cumsum(count) - count)[rows]


def join_equal_names(chunk: Chunk, names: list[str], groups: list[str]) -> tuple[NamedRows, list[str]]:
    """Return rows with names numbered as they first appear, and the group of every name.

    Columns may have a name in common; its group is that of the first one.
    """
    rows, order = number_by_appearance(chunk, names)
    known, kept = dict.fromkeys(rows.names), [groups[i] for i in order.tolist()]
    if len(known) < len(rows.names):
        places = {name: k for k, name in enumerate(known)}
        numbers = np.array([places[name] for name in rows.names], np.int32)
        kept = [kept[i] for i in np.unique(numbers, return_index=True)[1]]
        rows = NamedRows(chunk._replace(indices=numbers[rows.chunk.indices]), list(known))
    return rows, kept
