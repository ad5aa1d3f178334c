"""`LevelsPath`: the single-row fast path of a model with curves and pairs."""

from __future__ import annotations

from typing import Any

import numpy as np

from fiol.engine.single_row.fast_path import NO_FAST_PATH, FastPath
from fiol.features.basis import Expander, find_basis
from fiol.features.chunk import MOST_FEATURES, Chunk
from fiol.features.column_roles import columns_of_numbers

#: Rows with more entries than this are expanded by the general code.
LONGEST_ROW = 4096


class LevelsPath(FastPath):
    """Functions that score a single row by all levels, and make their rounds.

    They point to the arrays of the levels. The fast path of a level is a marker here, which the level drops when it
    replaces an array.
    """

    __slots__ = ("engine", "keep_from", "kernels", "look_at", "markers", "plain", "ticks")

    def __init__(self, engine: Any, block: Any, markers: list[FastPath]) -> None:
        super().__init__(block, 0)
        values, basis, needed = block.values, engine.basis, int(engine.options.rows)
        self.engine, self.ticks, self.plain = engine, engine.ticks, values.rows.plain
        self.markers = list(zip(engine.levels, markers, strict=True))
        #: The compiled functions that score and learn.
        self.kernels: dict[str, Any] = {}
        #: The rounds from which on rows are kept, and before which the general code looks at them.
        self.keep_from, self.look_at = 0, engine.rounds + needed - engine.storage.kept.rows - 1
        if basis is not None:
            self.look_at = int(basis.check[0])
            self.keep_from = self.look_at - engine.window

    @property
    def is_current(self) -> bool:
        """Whether no array has been replaced."""
        return all(level.fast_path is marker for level, marker in self.markers)

    def score_packed(self, address: int, row: int, n: int, limit: int, predicting: bool) -> float | None:
        """Return the score of a packed row, or its prediction."""
        if not self.is_current:
            return None
        return self.kernels["score"](address, row, n, limit, predicting)  # type: ignore[no-any-return]

    def learn_packed(
        self, address: int, row: int, n: int, limit: int, y: float, weight: float, deciding: bool
    ) -> float | None:
        """Make the round of a packed row, and return its score before; `deciding` is for models without levels."""
        rounds = self.ticks[0]
        if rounds >= self.look_at or not self.is_current:
            return None
        z = self.kernels["learn"](address, row, n, limit, y, weight)
        if z is not None and rounds >= self.keep_from:
            starts, indices, data = self.plain
            n = int(starts[1])
            self.engine.keep_rows(Chunk(starts.copy(), indices[:n].copy(), data[:n].copy()), y)
        return z  # type: ignore[no-any-return]


def prepare_levels_path(engine: Any, learning: bool) -> FastPath:
    """Return the fast path of a `LevelsEngine`, compiled for scoring or learning; `NO_FAST_PATH` if there is none."""
    path = engine.fast_path
    if (path.learn if learning else path.score) is not None and path.is_current:
        return path  # type: ignore[no-any-return]
    if not engine.compiled or engine.trailing or (learning and engine.observer is not None):
        return NO_FAST_PATH
    return compile_levels_path(engine, learning)


def compile_levels_path(engine: Any, learning: bool) -> FastPath:
    """Return the fast path of a `LevelsEngine` with the function that learns, or scores, compiled.

    `NO_FAST_PATH` if single rows are handled as chunks: until the general code has expanded a row, and for levels
    without lanes, or of several types.
    """
    found, expander = [level.event_kernels() for level in engine.levels], engine.expander
    current = engine.basis is None or (expander is not None and expander.fits(engine.basis, 0))
    if None in found or not hasattr(found[0][0], "compile") or not engine.stack.width or not current:
        return NO_FAST_PATH
    # `import fiol` loads no compiler.
    from fiol.compiler.addresses import StoredValues, compile_for_block, hold_one_type
    from fiol.engine.single_row.level_events import learn_level_event, score_level_event

    path = engine.fast_path
    if path is NO_FAST_PATH or not path.is_current:
        blocks = [StoredValues(values) for _, _, values in found]
        if not hold_one_type(blocks):
            return NO_FAST_PATH
        markers = [FastPath(block) for block in blocks]
        for level, marker in zip(engine.levels, markers, strict=True):
            level.fast_path = marker
        path = LevelsPath(engine, StoredValues(level_values(engine, blocks)), markers)
    if learning:
        path.kernels["learn"] = compile_for_block(learn_level_event, path.block, 0, 0, 0, 0.0, 0.0)
        path.learn = path.learn_packed
    else:
        path.kernels["score"] = compile_for_block(score_level_event, path.block, 0, 0, 0, False)
        path.score = path.score_packed
    return path


def level_values(engine: Any, blocks: list[Any]) -> Any:
    """Return a `fiol.engine.single_row.level_events.LevelValues`, given the `StoredValues` of every level."""
    from fiol.engine.single_row.level_events import LevelValues

    stack, basis, expander = engine.stack, engine.basis, engine.expander
    learned, known = MOST_FEATURES, MOST_FEATURES
    if basis is None:
        roles = columns_of_numbers(0)
        expander = Expander(
            find_basis(engine.options, Chunk(np.zeros(1, np.int64), roles.role, np.empty(0)), roles), roles
        )
    else:
        learned, known = len(basis.codes), len(expander.numbers[0])
    centered = max(len(block.values.means.features) for block in blocks)
    addresses = np.array([block.address for block in blocks], np.int64)
    of_stack = *stack.lane_parts, stack.members, stack.own_state, stack.buffers
    memory = row_memory(expander, centered, stack.width)
    return LevelValues._make((*of_stack, blocks[0].values, addresses, expander.parts, learned, known, memory))


def row_memory(expander: Expander, centered: int, width: int) -> Any:
    """Return a `fiol.engine.single_row.level_events.LevelRows`."""
    from fiol.engine.single_row.level_events import LevelRows

    longest = min(LONGEST_ROW, max(expander.size, 64))
    expanded = longest + expander.most_hats + expander.most_nodes + centered + 1  # see `expand_rows`

    def entries(n: int) -> tuple[Any, Any, Any]:
        return np.zeros(2, np.int64), np.zeros(n, np.int32), np.zeros(n)

    lower = entries(expanded)
    rows = entries(longest), lower, entries(expanded) if expander.most_nodes else lower
    memory = np.zeros((3, expanded), np.int32), np.zeros((3, expanded)), np.zeros((3, 2), np.int64)
    return LevelRows(*rows, *memory, np.zeros(width), np.zeros(max(expanded, width)))
