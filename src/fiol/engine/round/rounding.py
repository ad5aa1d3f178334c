"""The rounding tolerance of a score near a kink of its loss, for a number or for SIMD lanes.

An exact step puts the score on a kink of the loss but for the last digits, and these must not choose the derivative.
There the derivative is the least one within a tolerance of the score (`Loss.least_grad`).
"""

from __future__ import annotations

from fiol.compiler.compiled import inlined_strictly
from fiol.components.simd import smaller

#: A score may be wrong by this part of the sizes of its terms: enough for weights in float32.
LAST_DIGITS = 2.0**-20
#: A kink further away than this part of the sizes of score and target is not near, whatever the terms.
NEAR = 2.0**-10


@inlined_strictly
def kink_range(z, y):
    """Return how far from the score z a kink counts as near."""
    return NEAR * (abs(z) + abs(y))


@inlined_strictly
def kink_within(loss, z, near, y):
    """Return whether the derivative changes within `near` of the score z."""
    return loss.least_grad(z, near, y) != loss.grad(z, y)


@inlined_strictly
def rounding_tolerance(terms, near, y):
    """Return how far last digits may have moved a score whose terms have these sizes in sum; at most `near`, unless the
    target is 0.
    """
    tolerance = LAST_DIGITS * terms
    return tolerance if y == 0.0 else smaller(tolerance, near)
