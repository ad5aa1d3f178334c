"""Learning from centered rows: rows less the running means of their features, targets less their origin.

What is centered, and why, is in `fiol.engine.centering`. Here is the loop over the rows of an engine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fiol.components.row import Floats, Indices
from fiol.engine.centering import Centering, less, watched_rows
from fiol.engine.float32_guard import SMALLEST_SINGLE
from fiol.features.chunk import SMALLEST, Chunk

#: Entries of centered rows that are learned from at a time.
CENTERED_AT_ONCE = 2**17
#: Among this many rows, the usual one is looked for.
ROWS_LOOKED_AT = 16


class CenteredRows(NamedTuple):
    """Rows that have been centered before an engine learns from them."""

    rows: Chunk
    means_after: Callable[[int], Centering]  #: the centering of the engine after this many of the rows


def learn_centered(
    engine: Any, chunk: Chunk, y: Floats, sample_weights: Floats, order: Any, less_origin: bool
) -> Floats:
    """Let an engine learn from centered rows; parameters and scores are those of `Engine.learn`.

    Rows are learned in blocks: within a block neither the origin nor the centered features change.
    """
    rows, start, scores = len(order) or chunk.rows, 0, np.zeros((chunk.rows, *engine.trailing))
    per_row = chunk.data.shape[0] / max(chunk.rows, 1) + 1.0
    buffers: Chunk | None = None  # memory that is new to the process takes more time than the copies
    while start < rows:
        known: Centering = engine.centering
        most = known.steady_rows
        if known.features.shape[0] or len(order):  # rows are copied
            most = min(most, max(int(CENTERED_AT_ONCE / per_row), 1))
        if engine.observer is not None and known.features.shape[0]:
            most = 1  # the comparator is moved with every row
        some: Any = slice(start, min(start + most, rows))
        start = some.stop
        some = order[some] if len(order) else some
        if len(order):
            block = buffers = chunk.take(some, buffers)
        else:
            block = chunk.row_block(some.start, some.stop)
        found = learn_block(engine, block, y[some], sample_weights[some])
        scores[some] = found if less_origin else found + known.origin[0]
    return scores


def learn_block(
    engine: Any, block: Chunk, y: Floats, sample_weights: Floats, given: CenteredRows | None = None
) -> Floats:
    """Let an engine learn from a block of rows, and then from their means; return scores less the origin.

    The means include the rows of all rounds made, also after an error. The centered rows may be `given`.
    """
    old, before = engine.centering, engine.rounds

    def means_after(rows: int) -> Centering:
        """Return the centering after the first rows of the block."""
        if given is not None:
            return given.means_after(rows)
        some_more = old.with_targets(y[:rows], sample_weights[:rows])
        return center_chunk(engine, block.row_block(0, rows), some_more)[1]

    if given is None:
        centered, known = center_chunk(engine, block, old.with_targets(y, sample_weights))
    else:
        centered, known = given.rows, means_after(block.rows)
    if engine.observer is not None:
        engine.observer.center(old)
    first = old.awaits_target and not known.awaits_target
    if first:
        engine.count_first_loss(y, sample_weights)
    try:
        scores = engine.learn_in_parts(centered, less(y, known.origin[0]), sample_weights)
        engine.set_means(known, int(block.indptr[-1] - block.indptr[-2]))
    except BaseException:
        if first and engine.rounds == before:
            engine.count_first_loss(y, -sample_weights)
        if engine.rounds > before:  # interrupted
            made = engine.rounds - before
            if engine.centering is not old:
                known = engine.centering
            elif made < block.rows:
                known = means_after(made)
            engine.set_means(known, int(np.diff(block.indptr)[made - 1]))
        raise
    return scores  # type: ignore[no-any-return]


def center_chunk(engine: Any, chunk: Chunk, centering: Centering, learning: bool = True) -> tuple[Chunk, Centering]:
    """Return the centered rows, and the means after them.

    Rows that are learned from are in buffers of the engine, until the next call.
    """
    from fiol.engine.round.center_rows import center_rows  # imported here: `import fiol` loads no compiler

    if centering.watches:
        return chunk, watched_rows(centering, chunk, engine.indicators) if learning else centering
    if not centering.features.shape[0]:
        return chunk, centering
    longest = int(max(chunk.indices.max(initial=0), centering.features[-1])) + 1  # no row has more entries
    size = min(chunk.data.shape[0] + chunk.rows * centering.features.shape[0], chunk.rows * longest) + 1
    sums, widths = centering.sums.copy(), centering.widths.copy()
    new = engine.centered_rows if learning else None
    if new is None or new.data.shape[0] < size or new.indptr.shape[0] <= chunk.rows:
        new = Chunk(np.empty(chunk.rows + 1, np.int64), np.empty(size, np.int32), np.empty(size))
        engine.centered_rows = new if learning else engine.centered_rows
    least = SMALLEST if engine.dtype.itemsize == 8 else SMALLEST_SINGLE
    usual, places = usual_row(chunk, centering.features)
    wide = np.zeros(3 * usual.shape[0])
    wide[places] = 1.0
    arguments = (sums, widths, centering.missing), usual, places, wide, centering.rows, learning, least, *new
    n, written = engine.call(center_rows, tuple(chunk), centering.features, *arguments)
    if 0 <= written < n:
        new.indices[written:n].reshape(-1, usual.shape[0])[...] = usual
    count = centering.so_far + chunk.rows * learning
    entries = chunk if written < 0 else new
    found = Chunk(entries.indptr[: chunk.rows + 1], entries.indices[:n], new.data[:n])
    return found, centering._replace(so_far=count, sums=sums, widths=widths)


def usual_row(chunk: Chunk, features: Indices) -> tuple[Indices, Any]:
    """Return the features of the shortest of the first rows that has all these, and where they are; empty if none has.

    >>> from fiol import to_chunk
    >>> usual_row(to_chunk([[1.0, 0.0, 2.0], [1.0, 3.0, 2.0], [0.0, 3.0, 0.0]]), np.array([0, 2], np.int32))
    (array([0, 2], dtype=int32), array([0, 1]))
    """
    starts = chunk.indptr[: ROWS_LOOKED_AT + 1]
    for r in np.argsort(np.diff(starts), kind="stable").tolist():
        row = chunk.indices[starts[r] : starts[r + 1]]
        places = np.searchsorted(row, features)
        if len(row) > places[-1] and (row[places] == features).all():
            return row, places
    return chunk.indices[:0], np.empty(0, np.intp)
