"""`KeptRows`: rows with targets that a `LevelsEngine` keeps until it has found knots, or chosen pairs, from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fiol.features.chunk import Chunk, canonical, spot


class KeptRows(NamedTuple):
    """Rows with the features as they are, and their targets."""

    chunk: Chunk
    targets: Any

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.chunk.rows

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in (*self.chunk, self.targets))

    def followed_by(self, chunk: Chunk, targets: Any) -> KeptRows:
        """Return these rows and the rows of `chunk` after them.

        >>> two = Chunk(np.array([0, 1, 2]), np.array([0, 3], np.int32), np.array([1.0, 2.0]))
        >>> both = NO_KEPT_ROWS.followed_by(two, np.zeros(2)).followed_by(two.row_block(1, 2), np.ones(1))
        >>> both.chunk.indptr, both.chunk.indices, both.targets
        (array([0, 1, 2, 3]), array([0, 3, 3], dtype=int32), array([0., 0., 1.]))
        """
        own = self.chunk
        indptr = np.concatenate([own.indptr, own.indptr[-1] + chunk.indptr[1:]])
        indices, data = np.concatenate([own.indices, chunk.indices]), np.concatenate([own.data, chunk.data])
        return KeptRows(Chunk(indptr, indices, data), np.append(self.targets, targets))

    def first(self, rows: int) -> KeptRows:
        """Return the first rows."""
        return KeptRows(self.chunk.row_block(0, rows), self.targets[:rows])

    def last(self, rows: int) -> KeptRows:
        """Return the last rows."""
        first = max(self.rows - rows, 0)
        return KeptRows(self.chunk.row_block(first, self.rows), self.targets[first:])

    def placed(self, places: Any) -> KeptRows:
        """Return the rows where places[i] is the old feature i."""
        moved = self.chunk._replace(indices=np.asarray(places, np.int32)[self.chunk.indices])
        return self._replace(chunk=canonical(moved, spot))

    def arrays(self) -> dict[str, Any]:
        """Return the arrays, by name."""
        return {f"first_rows.{name}": a for name, a in {**self.chunk._asdict(), "targets": self.targets}.items()}


NO_KEPT_ROWS = KeptRows(Chunk(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0)), np.empty(0))


def joined_rows(parts: Iterable[KeptRows]) -> KeptRows:
    """Return the rows of all parts, one after the other."""
    whole = NO_KEPT_ROWS
    for part in parts:
        whole = whole.followed_by(*part)
    return whole


def last_of_shards(shards: Sequence[KeptRows], rows: int) -> KeptRows:
    """Return the last rows of shards, as many of each where all have that many; the last of every shard come last.

    >>> rows = KeptRows(Chunk(np.arange(4), np.arange(3, dtype=np.int32), np.ones(3)), np.arange(3.0))
    >>> last_of_shards([rows, rows._replace(targets=rows.targets + 10.0), rows.last(1)], 6).targets
    array([ 0., 11.,  1.,  2., 12.,  2.])
    """
    joined, age = joined_rows(shards), np.concatenate([np.arange(shard.rows)[::-1] for shard in shards])
    chosen = np.argsort(age, kind="stable")[:rows][::-1]
    return KeptRows(joined.chunk.take(chosen), joined.targets[chosen])


def restored_rows(arrays: dict[str, Any]) -> KeptRows:
    """Return the rows with these `KeptRows.arrays`; ValueError if there are none, or they do not fit."""
    try:
        chunk = Chunk(**{name: arrays[f"first_rows.{name}"].copy() for name in Chunk._fields}).checked()
    except TypeError as error:
        raise ValueError(str(error)) from error
    targets = arrays["first_rows.targets"].copy()
    if targets.shape != (chunk.rows,):
        raise ValueError(f"{chunk.rows} rows are kept, and {targets.size} targets")
    return KeptRows(chunk, targets)
