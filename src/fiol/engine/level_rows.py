"""The rows of several levels that subtract the same means from the same columns: they are centered once for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fiol.engine.centered_learning import CenteredRows, center_chunk
from fiol.engine.centering import Centering
from fiol.engine.ensemble.engine import EnsembleEngine
from fiol.engine.float32_guard import LONG
from fiol.features.basis import Expander
from fiol.features.chunk import Chunk


def rows_for_levels(engine: Any, chunk: Chunk) -> list[tuple[Chunk, CenteredRows | None]]:
    """Return the rows of every level of a `LevelsEngine`: as they are, with the centered ones if means are the same."""
    if engine.basis is None or not have_same_means(engine.levels):
        return [(rows, None) for rows in engine.expanded(chunk, reuse=True)]
    return [(chunk, rows) for rows in centered_rows(engine.levels, chunk, engine.expander_for(chunk))]


def have_same_means(levels: Sequence[EnsembleEngine]) -> bool:
    """Return whether levels center the same features by the same means, and their weights cannot overflow.

    They do if knots were found after the centered features. float32 is checked by rows that are not centered.
    """
    first = levels[0].centering
    return first is not None and not first.watches and all(is_like(first, level) for level in levels)


def is_like(first: Centering, level: EnsembleEngine) -> bool:
    """Return whether a level has the same means as the first one, and no part that needs rows as they are."""
    own = level.centering
    if own is None or level.observer is not None or level.dtype.itemsize == 4 or level.longest > LONG:
        return False
    return own is first or (
        own.rows == first.rows
        and np.array_equal(own.features, first.features)
        and np.array_equal(own.sums, first.sums)
        and np.array_equal(own.widths, first.widths)
    )


def centered_rows(levels: Sequence[EnsembleEngine], chunk: Chunk, expander: Expander) -> list[CenteredRows]:
    """Return the centered rows of every level, given rows with features as they are; see `have_same_means`.

    They are in memory that the next call overwrites.
    """
    first = levels[0]
    before = first.centering
    assert before is not None
    centered, after = center_chunk(first, chunk, before)

    def rows_of_level(rows: Chunk, old: Centering) -> CenteredRows:
        def means_after(count: int) -> Centering:
            means = after if count == chunk.rows else center_chunk(first, chunk.row_block(0, count), before)[1]
            return old._replace(so_far=means.so_far.copy(), sums=means.sums.copy(), widths=means.widths.copy())

        return CenteredRows(rows, means_after)

    rows = centered, *expander.expanded(chunk, reuse=True, centered=centered)
    return [rows_of_level(its, level.centering) for its, level in zip(rows, levels, strict=False)]  # type: ignore[arg-type]
