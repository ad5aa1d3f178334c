"""`FastPath`: compiled functions of an engine for single rows, and the arrays that they work on."""

from __future__ import annotations

import functools
import struct
from array import array
from typing import Any

import numpy as np

from fiol.engine.centering import AS_THEY_ARE, NO_FIRST
from fiol.engine.float32_guard import SMALLEST_SINGLE
from fiol.features.chunk import MOST_FEATURES, SMALLEST
from fiol.features.numbered_rows import NumberedRow
from fiol.features.vocabulary import join_text

#: The types of targets and sample weights that the fast path takes.
TARGET_TYPES = frozenset((float, int, np.float64, np.int64))


class Packers(dict[int, Any]):
    """By number of entries, the function that packs the values and the feature numbers of a row.

    The bytes have memory for results of `fiol.engine.single_row.events`: a weight per entry
    and an intercept; and, where the means of `centered` features are subtracted, another row.

    The function takes as values what `math.fsum` takes, and raises for anything else, such as text.

    >>> len(Packers(0)[3](1.0, 2.5, True, 7, 8, 9))
    72
    """

    def __init__(self, centered: int) -> None:
        self.centered = centered

    def __missing__(self, n: int) -> Any:
        pack = self[n] = struct.Struct(f"{n}d{n}i0d{self.scratch_bytes(n)}x").pack
        return pack

    def scratch_bytes(self, n: int) -> int:
        """Return the bytes behind the entries of a row."""
        longest = n + self.centered
        return 8 * (longest + 1) + (16 * longest if self.centered else 0)

    def pack_arrays(self, indices: Any, values: Any) -> bytes:
        """Return what the function for their length returns for the entries of arrays of int32 and float64."""
        n = len(values)
        return values.tobytes() + indices.tobytes() + bytes(4 * (n % 2) + self.scratch_bytes(n))  # type: ignore[no-any-return]


row_packers = functools.cache(Packers)


class FastPath:
    """Functions that score a single row and make its round, without the checks and copies that chunks need.

    They return None, and change nothing, if the row needs the general code: an unknown name, a value that is no number
    or out of range, a feature without memory, a target that may be wrong.

    The functions point to the arrays of an engine, which drops its fast path when it replaces one of these
    (`Engine.set_storage`); `block` keeps them alive for a thread that still reads them. Every call has memory of its
    own for its row, and holds the interpreter's lock while compiled code runs. A caller that learns, or reads a model
    that may change, holds the lock of the model.

    Parameters
    ----------
    block : what the functions take of the engine, `fiol.compiler.addresses.StoredValues`; None for `NO_FAST_PATH`.
    centered : the number of features whose means are subtracted.
    """

    __slots__ = ("address", "block", "learn", "pack", "score")

    def __init__(self, block: Any = None, centered: int = 0) -> None:
        self.block, self.address = block, 0 if block is None else block.address
        self.pack = row_packers(centered)  #: packs rows, with memory for what the functions compute
        self.score: Any = None  #: `score_event` or `score_lane_event`, once it is compiled
        self.learn: Any = None  #: `learn_event` or `learn_lane_event`, once it is compiled

    def score_row(self, row: NumberedRow, limit: int, predicting: bool) -> float | None:
        """Return the score of a row with features below `limit`, or its prediction."""
        memory = array("d", self.pack[len(row.values)](*row.values, *row.numbers))
        return self.score(self.address, memory.buffer_info()[0], len(row.values), limit, predicting)  # type: ignore[no-any-return]

    def learn_row(self, row: NumberedRow, limit: int, y: float, weight: float, deciding: bool = False) -> float | None:
        """Make the round of a row with features below `limit`, and return its score before.

        With `deciding` the caller decides about centering after the row, if it is time (`Engine.set_means`).
        """
        n, memory = len(row.values), array("d", self.pack[len(row.values)](*row.values, *row.numbers))
        return self.learn(self.address, memory.buffer_info()[0], n, limit, y, weight, deciding)  # type: ignore[no-any-return]

    def score_dict(self, find: Any, x: Any, predicting: bool) -> float | None:
        """Return the score of a dict, or its prediction; `find` returns the numbers of known names, or raises."""
        if self.score is None or not isinstance(x, dict):
            return None
        n = len(x)
        try:
            row = array("d", self.pack[n](*x.values(), *map(find, x)))
        except Exception:
            row = self.pack_text(find, x)
            if row is None:
                return None
        return self.score(self.address, row.buffer_info()[0], n, MOST_FEATURES, predicting)  # type: ignore[no-any-return]

    def learn_dict(self, find: Any, x: Any, y: Any, weight: Any, limit: int) -> float | None:
        """Make the round of a dict of known features below `limit`, and return its score before."""
        if type(y) is not float or type(weight) is not float:  # most are: the check is quicker than the call
            y, weight = target_of(y), target_of(weight)
        if self.learn is None or not isinstance(x, dict) or y is None or weight is None:
            return None
        n = len(x)
        try:
            row = array("d", self.pack[n](*x.values(), *map(find, x)))
        except Exception:
            row = self.pack_text(find, x)
            if row is None:
                return None
        return self.learn(self.address, row.buffer_info()[0], n, limit, y, weight, False)  # type: ignore[no-any-return]

    def pack_text(self, find: Any, x: dict[Any, Any]) -> Any:
        """Return the packed entries of a dict with text values; None if it has none, or an unknown name."""
        try:
            joined = join_text(x)
            if joined is None:
                return None
            names, values = joined
            return array("d", self.pack[len(values)](*values, *map(find, names)))
        except Exception:  # whatever it is: the general code raises it, if it is an error
            return None

    def score_arrays(self, indices: Any, values: Any, limit: int) -> float | None:
        """Return the score of a row of features below `limit`, given as arrays of int32 and float64."""
        n = len(values)
        if self.score is None or len(indices) != n:
            return None
        row = array("d", self.pack.pack_arrays(indices, values))
        return self.score(self.address, row.buffer_info()[0], n, limit, False)  # type: ignore[no-any-return]

    def learn_arrays(self, indices: Any, values: Any, y: Any, weight: Any, limit: int) -> float | None:
        """Make the round of a row of features below `limit`, given as arrays, and return its score before."""
        n = len(values)
        if type(y) is not float or type(weight) is not float:
            y, weight = target_of(y), target_of(weight)
        if self.learn is None or len(indices) != n or y is None or weight is None:
            return None
        row = array("d", self.pack.pack_arrays(indices, values))
        return self.learn(self.address, row.buffer_info()[0], n, limit, y, weight, False)  # type: ignore[no-any-return]


def target_of(value: Any) -> float | None:
    """Return a target or a sample weight as a float; None if the general code has to look at it."""
    try:
        return float(value) if type(value) in TARGET_TYPES else None
    except OverflowError:
        return None


#: No function is compiled.
NO_FAST_PATH = FastPath()


def compile_fast_path(engine: Any, path: FastPath, learning: bool) -> FastPath:
    """Return the fast path of an engine with the function that learns, or scores, compiled.

    That is `path`, unless it is `NO_FAST_PATH`; or `NO_FAST_PATH` if single rows are handled as chunks.
    """
    found = engine.event_kernels()
    if found is None or not hasattr(found[0], "compile"):  # the compiler may be switched off
        return NO_FAST_PATH
    from fiol.compiler.addresses import StoredValues, compile_for_block  # `import fiol` loads no compiler

    score_kernel, learn_kernel, values = found
    if path is NO_FAST_PATH:
        path = FastPath(StoredValues(values), len(values.means.features))
    if learning:
        path.learn = compile_for_block(learn_kernel, path.block, 0, 0, 0, 0.0, 0.0, False)
    else:
        path.score = compile_for_block(score_kernel, path.block, 0, 0, 0, False)
    return path


def means_of_events(engine: Any) -> tuple[Any, ...]:
    """Return the fields of a `fiol.engine.single_row.events.Means`."""
    means, least = engine.centering or AS_THEY_ARE, SMALLEST if engine.dtype.itemsize == 8 else SMALLEST_SINGLE
    known = means.features, means.sums, means.widths, means.so_far, least
    return *known, means.first if means.watches else NO_FIRST, means.origin, means.targets, means.missing
