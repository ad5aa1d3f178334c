"""`TargetRows`: rows with targets and weights that can be reordered, cut and joined, in any container."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from fiol.components.row import Floats
from fiol.features.chunk import Chunk
from fiol.features.named_rows import NamedRows, number_by_appearance


class TargetRows(NamedTuple):
    """Some rows: X is a `Chunk` or `NamedRows`, y their targets in the form of the loss."""

    X: Any
    y: Any
    weights: Floats

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(self.weights)

    def part(self, start: int, stop: int) -> TargetRows:
        """Return rows `start` to `stop`, as a slice."""
        if start == 0 and stop >= self.size:
            return self
        X = self.X.part(start, stop) if isinstance(self.X, NamedRows) else self.X.row_block(start, stop)
        return TargetRows(X, self.y[start:stop], self.weights[start:stop])

    def taken(self, order: Any) -> TargetRows:
        """Return these rows, in this order, with the names that occur in them, numbered as they first appear.

        >>> chunk = Chunk(np.array([0, 1, 2]), np.array([0, 1], np.int32), np.array([1.0, 2.0]))
        >>> rows = TargetRows(NamedRows(chunk, ["b", "a"]), np.array([1.0, 2.0]), np.ones(2))
        >>> rows.taken([1, 0]).X.names, rows.taken([1]).X.names, rows.taken([1]).y
        (['a', 'b'], ['a'], array([2.]))
        """
        order = np.asarray(order, np.int64)
        if isinstance(self.X, NamedRows):
            X: Any = number_by_appearance(self.X.chunk.take(order), self.X.names)[0]
        else:
            X = self.X.take(order)
        return TargetRows(X, self.y[order], self.weights[order])

    @property
    def entries(self) -> Any:
        """The start of each row among all entries, and the end of the last one."""
        return self.X.chunk.indptr if isinstance(self.X, NamedRows) else self.X.indptr


def rows_together(parts: Sequence[TargetRows]) -> TargetRows:
    """Return the rows of all parts, one part after the other.

    >>> chunk = Chunk(np.array([0, 1]), np.array([0], np.int32), np.array([1.0]))
    >>> b, a = (TargetRows(NamedRows(chunk, [name]), np.ones(1), np.ones(1)) for name in "ba")
    >>> rows_together([b, a, b]).X.names, rows_together([b, a, b]).X.chunk.indices
    (['b', 'a'], array([0, 1, 0], dtype=int32))
    """
    if len(parts) == 1:
        return parts[0]
    y, weights = np.concatenate([part.y for part in parts]), np.concatenate([part.weights for part in parts])
    chunks = [part.X.chunk if isinstance(part.X, NamedRows) else part.X for part in parts]
    starts = np.cumsum([0, *(chunk.indptr[-1] for chunk in chunks)])
    pointers = [chunk.indptr[1:] + start for chunk, start in zip(chunks, starts, strict=False)]
    indptr = np.concatenate([np.zeros(1, np.int64), *pointers])
    data = np.concatenate([chunk.data for chunk in chunks])
    if not isinstance(parts[0].X, NamedRows):
        return TargetRows(Chunk(indptr, np.concatenate([chunk.indices for chunk in chunks]), data), y, weights)
    numbers: dict[str, int] = {}
    indices = [np.zeros(0, np.int32)]
    for part, chunk in zip(parts, chunks, strict=True):
        own = np.array([numbers.setdefault(name, len(numbers)) for name in part.X.names], np.int32)
        indices.append(own[chunk.indices])
    return TargetRows(NamedRows(Chunk(indptr, np.concatenate(indices), data), list(numbers)), y, weights)


def regrouped(blocks: Iterable[TargetRows], sizes: Iterator[int]) -> Iterator[TargetRows]:
    """Yield the rows of all blocks in blocks of these sizes; the last one may be smaller.

    >>> from fiol import to_chunk
    >>> blocks = (TargetRows(to_chunk(np.ones((n, 1))), np.ones(n), np.ones(n)) for n in (3, 4))
    >>> [block.size for block in regrouped(blocks, iter([2, 2, 2, 2]))]
    [2, 2, 2, 1]
    """
    waiting, count, size = list[TargetRows](), 0, next(sizes)
    for block in blocks:
        start = 0
        while start < block.size:
            stop = min(block.size, start + size - count)
            waiting.append(block.part(start, stop))
            count, start = count + stop - start, stop
            if count == size:
                yield rows_together(waiting)
                waiting, count, size = [], 0, next(sizes)
    if count:
        yield rows_together(waiting)
