"""The exact root of the scalar equation in SIMD lanes: beta of every lane, and the curvature that its step meets."""

from __future__ import annotations

from fiol.compiler.compiled import inlined_strictly
from fiol.components.simd import load_lanes, smaller, store
from fiol.components.step_sizes.rule import LARGEST_SUM


@inlined_strictly
def root_in_lanes(loss, like, q, p, tolerance, reach, y, weight, spare):
    """Return beta = -weight phi'(q + p beta) in lanes like these, and the curvatures that the steps meet."""
    if loss.lane_exact(q, weight * p, y):
        beta, curvature = loss.lane_step(q, p, tolerance, reach, y, weight)
        return beta + like, smaller(curvature + like, LARGEST_SUM)
    return roots_one_by_one(loss, q, p, tolerance, reach, y, weight, spare)


@inlined_strictly
def roots_one_by_one(loss, q, p, tolerance, reach, y, weight, spare):
    """Return beta and curvature of every lane, by `Loss.exact_step` where `Loss.lane_step` is not exact: large numbers.

    The result of a lane does not depend on the other lanes.
    """
    n = spare.shape[0] // 6
    beta, curvature = loss.lane_step(q, p, tolerance, reach, y, weight)
    store(spare, 0, q)
    store(spare, n, p)
    store(spare, 2 * n, q * 0.0 + tolerance)
    store(spare, 3 * n, q * 0.0 + reach)
    store(spare, 4 * n, q * 0.0 + beta)
    store(spare, 5 * n, smaller(q * 0.0 + curvature, LARGEST_SUM))
    for k in range(n):
        if not loss.lane_exact(spare[k], weight * spare[n + k], y):
            own, met = loss.exact_step(spare[k], spare[n + k], spare[2 * n + k], spare[3 * n + k], y, weight)
            spare[4 * n + k] = own
            spare[5 * n + k] = smaller(met, LARGEST_SUM)
    return load_lanes(spare, 4 * n, q), load_lanes(spare, 5 * n, q)
