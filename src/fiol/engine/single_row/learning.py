"""Learning from one numbered row by the fast path: memory for what is new, and decisions about centering after it."""

from __future__ import annotations

from typing import Any

from fiol.engine.single_row.fast_path import NO_FAST_PATH
from fiol.features.numbered_rows import NumberedRow


def learn_numbered(engine: Any, row: NumberedRow, y: float, sample_weight: float, limit: int) -> float | None:
    """Let an engine make the round of a row with features below `limit`; return the row's score before.

    None, and no round, if that needs `Engine.learn`. Memory for new features is allocated.
    """
    if not engine.learns_single_rows or engine.watches_missing(row):
        return None
    known, before, rounds, grown = engine.centering, engine.storage_in_use(), engine.rounds, False
    deciding, entries = known is not None and known.steady_rows == 1, len(row.values)
    try:
        path = engine.fast_path
        tried = path.learn is not None and not deciding
        z = path.learn_row(row, limit, y, sample_weight) if tried else None
        if z is None:
            engine.enlarge_window(entries)
            centered = 0 if known is None else known.features.shape[0]
            grown = engine.make_place(row.features, entries + centered)
            new = engine.prepare_fast_path(learning=True)
            if new is not NO_FAST_PATH and (new is not path or not tried):
                z = new.learn_row(row, limit, y, sample_weight, deciding)
        if deciding and z is not None:
            decide_centering(engine, row)
    except BaseException:
        if deciding and engine.rounds > rounds:  # interrupted
            decide_centering(engine, row)
        raise
    finally:
        if engine.rounds == rounds and grown:
            engine.undo_growth(before)
    return z


def decide_centering(engine: Any, row: NumberedRow) -> None:
    """Change the origin of targets, and choose the centered features, after a row that the fast path learned from."""
    engine.set_means(engine.centering, row.chunk().data.shape[0])  # of a row as chunks have it: without zeros
