"""Rows in short pieces: Python handles signals between two calls of compiled code, so interrupts are handled soon.

How rows are cut into pieces changes no bit of the result.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterator
from functools import partial
from typing import Any

from fiol.features.chunk import Chunk

#: The work of the first piece: entries of rows, plus the cost of each row. Some 0.1 to 10 ms.
FIRST = 2**16
#: A piece should take this many seconds.
LASTING = 0.03
#: A piece is at most this many times as much work as the one before, and at least one part in as many.
FASTER = 4.0


def paced(chunk: Chunk, order: Any, row_cost: float = 1.0) -> Iterator[tuple[int, int]]:
    """Yield where pieces of the rows start and stop, or pieces of `order`, which is random, unless that is empty.

    The time that a piece took, from its `yield` to the next, decides the size of the next one. A row costs its entries
    plus `row_cost`.

    >>> import numpy as np
    >>> from fiol import to_chunk
    >>> list(paced(to_chunk([[1.0], [2.0], [3.0]]), np.empty(0, np.int64), row_cost=FIRST / 2))
    [(0, 1), (1, 3)]
    """
    shuffled = len(order) > 0
    rows, start, work = len(order) if shuffled else chunk.rows, 0, float(FIRST)
    cost = float(chunk.indptr[-1] - chunk.indptr[0]) + row_cost * chunk.rows if rows else 0.0
    if not shuffled and rows and cost <= work:  # as a rule
        yield 0, rows
        return
    while start < rows:
        if shuffled:  # long and short rows are mixed: adding up their costs would take a third of a pass
            fits = int(work * chunk.rows / cost)
        elif cost_up_to(chunk.indptr, row_cost, start, rows - 1) <= work:
            fits = rows - start
        else:  # costs add up by differences of indptr, and few are needed
            some = range(start, min(rows, start + max(1, int(work / row_cost))))
            fits = bisect_right(some, work, key=partial(cost_up_to, chunk.indptr, row_cost, start))
        stop = min(rows, start + max(1, fits))
        began = time.perf_counter()
        yield start, stop
        took = max(time.perf_counter() - began, 1e-9)
        start, work = stop, max(work * min(max(LASTING / took, 1.0 / FASTER), FASTER), 1.0)


def cost_up_to(indptr: Any, row_cost: float, start: int, last: int) -> float:
    """Return the cost of rows `start` to `last`, the last one included."""
    return float(indptr[last + 1] - indptr[start] + row_cost * (last + 1 - start))


def piece_of(chunk: Chunk, start: int, stop: int) -> Chunk:
    """Return rows `start` to `stop` for a kernel: a `Chunk.row_block` that shares all entries."""
    return Chunk(chunk.indptr[start : stop + 1], chunk.indices, chunk.data)
