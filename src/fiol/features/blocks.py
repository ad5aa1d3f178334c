"""Rows block by block: those of a generator, chunk after chunk, or those an order names; and their scores together."""

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

#: So many rows of a generator are read at a time.
BLOCK = 4096
#: Learns from rows with checked targets and sample weights, and returns their scores.
Learn = Callable[[Any, Any, Floats], Floats]


def blocks_of(rows: Iterator[Any]) -> Iterator[list[Any]]:
    """The rows of a generator, `BLOCK` at a time; one empty block if there are none."""
    block = list(itertools.islice(rows, BLOCK))
    while True:
        yield block
        if len(block) < BLOCK:
            return
        block = list(itertools.islice(rows, BLOCK))


def learned_in_blocks(learn: Learn, X: Iterator[Any], y: Any, sample_weight: Any) -> list[Floats]:
    """The scores of rows that are made as they are asked for, of `BLOCK` at a time; `learn` is all or nothing."""
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
    """The scores of one pair (X, y), or triple (X, y, sample_weight), after another; `learn` is all or nothing."""
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
    """The scores of one block of rows after another; classes that a block did not know have 0 there.

    The classes are those of the last block: other threads may have learned of more since. Without blocks, they are all.
    """
    classes = scores[-1].shape[1] if scores else len(labels)
    whole, stop = np.zeros((sum(map(len, scores)), classes)), 0
    for some in scores:
        start, stop = stop, stop + len(some)
        whole[start:stop, : some.shape[1]] = some
    return whole


def scattered(values: Any, order: Any, rows: int) -> Any:
    """Values of the rows that `order` names, one after the other, by row; 0 for the others."""
    whole = np.zeros((rows, *values.shape[1:]), values.dtype)
    whole[order] = values
    return whole


def check_order(order: Any, rows: int) -> Any:
    """Numbers of rows."""
    found = np.ascontiguousarray(order)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise TypeError(f"order must be numbers of rows, got {found.dtype} of shape {found.shape}")
    if found.size and not (found.min() >= 0 and found.max() < rows):
        wrong = found[(found < 0) | (found >= rows)][0]
        raise ValueError(f"order must be numbers of rows from 0 to {rows - 1}, got {wrong}")
    return found.astype(np.int64, copy=False)
