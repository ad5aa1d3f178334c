"""Entries of many columns become rows with names: strands, one beside the other, woven row by row.

A strand is what one column (or a cross of columns) has in all rows. Weaving numbers names as they first appear, row by
row and strand by strand, so that rows are those that dicts would have been, to the bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fiol.components.row import Floats
from fiol.features.chunk import Chunk
from fiol.features.named_rows import NamedRows


class Strand(NamedTuple):
    """Entries in the order of rows: the row of each, the number of its name in `names`, and its value, which is not 0.

    `groups[i]` is the column, or namespace, of `names[i]`.
    """

    rows: Any
    codes: Any
    data: Floats
    names: list[str]
    groups: list[str]


def woven(strands: Sequence[Strand], rows: int) -> tuple[NamedRows, list[str]]:
    """The rows of all strands, the entries of each row in the order of the strands; and the group of every name.

    >>> ages = Strand(np.array([0, 1]), np.array([0, 0]), np.array([30.0, 31.0]), ["age"], ["age"])
    >>> cities = Strand(np.array([1]), np.array([0]), np.array([1.0]), ["city=Rome"], ["city"])
    >>> woven([ages, cities], 3)[0].chunk
    Chunk(indptr=array([0, 1, 3, 3]), indices=array([0, 0, 1], dtype=int32), data=array([30., 31.,  1.]))
    """
    counts = [np.bincount(strand.rows, minlength=rows) for strand in strands]
    indptr = np.zeros(rows + 1, np.int64)
    if strands:
        np.cumsum(np.sum(counts, axis=0), out=indptr[1:])
    codes, data, free, base = np.empty(indptr[-1], np.int64), np.empty(indptr[-1]), indptr[:-1].copy(), 0
    for strand, count in zip(strands, counts, strict=True):
        places = free[strand.rows] + ranks(strand.rows, count)
        codes[places], data[places] = strand.codes + base, strand.data
        free += count
        base += len(strand.names)
    names = [name for strand in strands for name in strand.names]
    groups = [group for strand in strands for group in strand.groups]
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
