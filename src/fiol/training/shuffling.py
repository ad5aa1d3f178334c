"""Shuffle rows in a buffer, and choose held-out rows; both depend on seeds only."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, repeat
from typing import Any

import numpy as np

from fiol.training.rows import TargetRows, regrouped, rows_together


def shuffled(blocks: Iterator[TargetRows], size: int, *seed: int) -> Iterator[TargetRows]:
    """Yield all rows of the blocks, shuffled in a buffer of `size` to `2 * size` rows.

    When the buffer has 2 * size rows, it is permuted and half of it is yielded, so that a row may move any distance,
    mostly about `size`. The order depends on rows and seed, not on the blocks.

    >>> from fiol import to_chunk
    >>> y = np.arange(8.0)
    >>> def rows(*cuts):
    ...     for some in np.split(y, cuts):
    ...         yield TargetRows(to_chunk(some[:, None] + 1.0), some, np.ones(len(some)))
    >>> one, other = (np.concatenate([r.y for r in shuffled(rows(*cuts), 2, 7)]) for cuts in ([4], [1, 5]))
    >>> bool((one == other).all()), bool((np.sort(one) == y).all()), bool((one == y).all())
    (True, True, False)
    """
    random, waiting = np.random.default_rng(seed), list[TargetRows]()
    for block in regrouped(blocks, chain([2 * size], repeat(size))):
        rows = rows_together([*waiting, block])
        waiting = [rows]
        if rows.size == 2 * size:
            order = random.permutation(rows.size)
            yield rows.taken(order[:size])
            waiting = [rows.taken(order[size:])]
    for rows in waiting:
        yield rows.taken(random.permutation(rows.size))


def held_out_rows(start: int, stop: int, share: float, seed: int) -> Any:
    """Return a mask of the rows `start` to `stop` that are held out: this share, by a hash of the row's number.

    >>> held_out_rows(0, 10, 0.3, 1).tolist() == [*held_out_rows(0, 4, 0.3, 1), *held_out_rows(4, 10, 0.3, 1)]
    True
    """
    with np.errstate(over="ignore"):  # SplitMix64, modulo 2^64
        z = np.arange(start, stop, dtype=np.uint64) + np.uint64(seed) * np.uint64(0xD1342543DE82EF95)
        z = z * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return (z >> np.uint64(11)).astype(np.float64) * 2.0**-53 < share
