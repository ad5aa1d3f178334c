"""Whether the methods of a loss work in SIMD lanes: one clear error instead of one of the compiler."""

from __future__ import annotations

import functools

import numpy as np

from fiol.components.losses import LANE_METHODS, Loss
from fiol.components.simd import lanes

#: Scores and slopes of the trial, on both sides of every target in `TRIED`.
LANE_SCORES, LANE_SLOPES, TRIED = (-3.0, -0.25, 0.5, 4.0), (0.0, 0.5, 1.0, 8.0), (1.0, 0.0, 0.5, 2.0, -1.0)
#: Where docs explain lanes.
PAGE = "docs/guides/components.md#simd-lanes-of-ensembles"


@functools.lru_cache(maxsize=256)
def check_lanes(loss: Loss) -> None:
    """Raise TypeError unless every method of `LANE_METHODS` takes lanes, as arrays in the interpreter.

    >>> class Branchy(Loss):
    ...     lanes = True
    ...     def value(self, z, y): return 0.5 * (z - y) * (z - y)
    ...     def grad(self, z, y): return z - y if z > y else 1.0 * (z - y)
    ...     def dual(self, q, p, y): return (y - q) / (1.0 + p)
    >>> check_lanes(Branchy())  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    TypeError: `Branchy.grad` branches on the score: use `choose`, or lanes = False (docs/guides/components.md#...)
    """
    y = next((y for y in TRIED if loss.accepts(y)), TRIED[0])
    z, p, t = lanes(LANE_SCORES), lanes(LANE_SLOPES), lanes((1.0, 2.0, 3.0, 4.0))
    given = {"curvature": (z, z + p, p, 0.0, 1.0, y, 1.0), "lane_step": (z, p, 0.0, 1.0, y, 1.0)}
    given |= {"dual": (z, p, y), "lane_exact": (z, p, y)}
    given |= dict.fromkeys(("square_slope_unit", "step_unit"), (t, t))
    own_root = type(loss).lane_step is not Loss.lane_step
    for name in LANE_METHODS:
        if not loss.has(name) or (own_root and name == "dual"):  # which lanes call by the default `lane_step` alone
            continue
        try:
            with np.errstate(all="ignore"):
                getattr(loss, name)(*given.get(name, (z, y)))
        except Exception as error:
            raise TypeError(lane_error(loss, name, error)) from error


def lane_error(loss: Loss, name: str, error: Exception) -> str:
    """Return the message for a method that does not take lanes."""
    method = f"`{type(loss).__name__}.{name}`"
    if isinstance(error, ValueError) and "ambiguous" in str(error):
        return f"{method} branches on the score: use `choose`, or lanes = False ({PAGE})"
    return (
        f"{method} does not take SIMD lanes ({type(error).__name__}: {error}): use operators, abs and the functions of "
        f"fiol.components.simd, or lanes = False ({PAGE})"
    )
