"""Learn from rows block by block: rows of a generator, chunks, or rows in a given order; and join their scores."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any

import numpy as np

from fiol.components.row import Floats
from fiol.features.chunk import Chunk
from fiol.features.feature_space import counted
from fiol.features.targets import check_sample_weights
from fiol.features.transaction import rows_learned, say_learned

#: Rows of a generator that are read at a time.
BLOCK = 4096
#: Learns from rows with checked targets and sample weights, and returns their scores.
Learn = Callable[[Any, Any, Floats], Floats]


def blocks_of(rows: Iterator[Any]) -> Iterator[list[Any]]:
    """Yield the rows of a generator, `BLOCK` at a time; one empty block if there are none."""
    block = list(itertools.islice(rows, BLOCK))
    while True:
        yield block
        if len(block) < BLOCK:
            return
        block = list(itertools.islice(rows, BLOCK))


def learned_in_blocks(learn: Learn, X: Iterator[Any], y: Any, sample_weight: Any) -> list[Floats]:
    """Learn from a generator of rows, `BLOCK` at a time, and return the scores of each block; `learn` is atomic."""
    sample_weights = check_sample_weights(sample_weight, len(y))
    scores, start = list[Floats](), 0
    try:
        for block in blocks_of(X):
            stop = start + len(block)
            if stop > len(y) or (len(block) < BLOCK and stop < len(y)):
                raise ValueError(f"y must have one entry per row: {stop}, got {len(y)}")
            rows, _ = counted(block)
            scores.append(learn(rows, y[start:stop], sample_weights[start:stop]))
            start = stop
    except BaseException as error:
        if start:
            say_learned(error, start + rows_learned(error))
        raise
    return scores


def learned_in_chunks(learn: Callable[..., Floats], chunks: Iterable[Any]) -> list[Floats]:
    """Learn from pairs (X, y) or triples (X, y, sample_weight), and return the scores of each; `learn` is atomic."""
    scores = list[Floats]()
    try:
        for chunk in chunks:
            if not isinstance(chunk, (tuple, list)) or isinstance(chunk, Chunk) or len(chunk) not in (2, 3):
                raise TypeError("chunks must be pairs (X, y) or triples (X, y, sample_weight)")
            scores.append(learn(*chunk))
    except BaseException as error:
        say_learned(error, sum(map(len, scores)) + rows_learned(error), f"in chunk {len(scores)}: ")
        raise
    return scores


def padded(scores: list[Floats], labels: Sized) -> Floats:
    """Return the scores of all blocks in one array; classes that a block did not have are 0 there.

    The classes are those of the last block, since other threads may have added more. Without blocks, they are `labels`.
    """
    classes = scores[-1].shape[1] if scores else len(labels)
    whole, stop = np.zeros((sum(map(len, scores)), classes)), 0
    for some in scores:
        start, stop = stop, stop + len(some)
        whole[start:stop, : some.shape[1]] = some
    return whole


def scattered(values: Any, order: Any, rows: int) -> Any:
    """Return an array with one value per row: those of the rows that `order` names, 0 for all others."""
    whole = np.zeros((rows, *values.shape[1:]), values.dtype)
    whole[order] = values
    return whole


def check_order(order: Any, rows: int) -> Any:
    """Return row numbers as int64; raise TypeError or ValueError if one is no row."""
    found = np.ascontiguousarray(order)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise TypeError(f"order must be numbers of rows, got {found.dtype} of shape {found.shape}")
    if found.size and not (found.min() >= 0 and found.max() < rows):
        wrong = found[(found < 0) | (found >= rows)][0]
        raise ValueError(f"order must be numbers of rows from 0 to {rows - 1}, got {wrong}")
    return found.astype(np.int64, copy=False)
