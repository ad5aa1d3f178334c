"""Rollback of rounds whose weights overflow: float32 ends at 3.4e38.

All arithmetic is in float64, so that only stored numbers can overflow. Rows whose numbers are of ordinary size cannot
cause that; after all other rows the state is checked, and rounds that it cannot store are rolled back.

float64 stores the results of all valid rows, unless steps are longer than 1e50: there the largest values are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np

from fiol.components.component import place
from fiol.components.row import Floats
from fiol.features.chunk import HEAVIEST, LARGEST, SMALLEST, Chunk, row_of

#: Values of features between these have weights that float32 stores with all its digits.
SMALLEST_SINGLE, LARGEST_SINGLE = 1e-30, 1e30
#: Up to this step size, the squares of all valid values, times all valid sample weights, are in the range of float64;
LONG = 1e50
#: with longer steps, the square times sample weight and step must not be larger than this.
REACH = 1e290
#: The largest product of a value, a target and a sample weight that needs no check of the state.
ORDINARY = 1e12


def longest_step(plan: Any) -> float:
    """Return the largest Euclidean step of the first round."""
    geometry = plan.problem.geometry
    return plan.step_size.eta(1.0) / float(np.min(getattr(geometry, "h", 1.0)))  # type: ignore[no-any-return]


def limits(dtype: Any, step: float) -> tuple[float, float, float]:
    """Return least and largest value and target, and largest sample weight, of a row that needs no check."""
    if dtype.itemsize == 4:
        return 1e-4, 1e4, 1e4
    return SMALLEST, LARGEST if step <= LONG else (REACH / step / HEAVIEST) ** 0.5, HEAVIEST


def overflow_guard(engine: Any, chunk: Chunk, y: Any, sample_weights: Floats) -> AbstractContextManager[None]:
    """Return a context in which rounds of the chunk are rolled back if the state overflows.

    Raises OverflowError then, or if a value is out of its range.
    """
    single, step = engine.dtype.itemsize == 4, engine.longest
    if not single and step <= LONG:
        return nullcontext()
    least, high = chunk.data.min(initial=1.0), chunk.data.max(initial=1.0)
    largest = max(-least, high)
    check_reach(chunk, largest, step, sample_weights)
    if not single:
        return nullcontext()
    if not least > 0.0:  # some are negative, or 0, as in rows that mix features
        sizes = np.abs(chunk.data)
        least = sizes.min(initial=1.0, where=sizes > 0.0)
    if least < SMALLEST_SINGLE or largest > LARGEST_SINGLE:
        sizes = np.abs(chunk.data)
        k = int(np.argmax((sizes > 0.0) & ((sizes < SMALLEST_SINGLE) | (sizes > LARGEST_SINGLE))))
        raise OverflowError(
            f"X[{row_of(chunk.indptr, k)}, {chunk.indices[k]}] must be 0 or between {SMALLEST_SINGLE:g} and "
            f"{LARGEST_SINGLE:g} in size, got {chunk.data[k]:g}: its weight would leave the range of float32; "
            'use dtype="float64"'
        )
    target = np.abs(y).max(initial=1.0) if y.dtype.kind == "f" else 1.0  # labels have codes
    if largest * target * sample_weights.max(initial=1.0) <= ORDINARY and target <= ORDINARY * least:
        return nullcontext()
    return rollback_on_overflow(engine)


def check_reach(chunk: Chunk, largest: float, step: float, sample_weights: Floats) -> None:
    """Raise OverflowError if the largest value, squared, times sample weight and step, is beyond `REACH`."""
    weight = sample_weights.max(initial=1.0)
    if largest**2 * weight > REACH / step:
        k = int(np.abs(chunk.data).argmax())
        raise OverflowError(
            f"X[{row_of(chunk.indptr, k)}, {chunk.indices[k]}] is {chunk.data[k]:g}, whose square times a step of "
            f"{step:g} and sample weights up to {weight:g} leaves the range of double precision: scale the features"
        )


@contextmanager
def rollback_on_overflow(engine: Any) -> Iterator[None]:
    """Take back the rounds made inside if any array of the engine is not finite afterwards."""
    before = engine.mark()
    try:
        yield
    except OverflowError:  # of an engine inside this one
        engine.rewind(before)
        raise
    for name, array in engine.arrays().items():
        wrong = ~np.isfinite(array)
        if wrong.any():
            engine.rewind(before)
            raise OverflowError(
                f"{name}{place(wrong)} leaves the range of float32 in these rows: scale the features, targets or "
                'sample weights, or use dtype="float64"'
            )
