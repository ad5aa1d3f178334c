"""The compiled rounds of a gate: those of any member, and which entries of the rows the other members get to see."""

from __future__ import annotations

import numpy as np

from fiol.compiler.compiled import inlined, jit
from fiol.components.component import borrowed, next_score, put_score, scores_of
from fiol.engine.rounds import clock_from, clock_into, desk_on, learn_row


@inlined
def has_weight(plan, state, i, clock):  # type: ignore[no-untyped-def]
    """Whether the weight of feature i is not exactly 0 now, for any score."""
    found, k = False, 0
    while k < scores_of(state.w):
        found |= plan.anchor.weight_of_score(plan, state, i, k, clock) != 0.0
        k = next_score(state.w, k)
    return found


@inlined
def pass_entry(passed, n, i, x, passes):  # type: ignore[no-untyped-def]
    """Write an entry behind the n that have passed; how many there are then, if this one passes."""
    passed.indices[n] = i
    passed.data[n] = x
    return n + 1 if passes else n


@jit
def gate_rows(  # type: ignore[no-untyped-def]
    plan, intercept_plan, chunk, y, weight, state, intercept, ticks, desk, intercept_desk, scores, passed
):
    """A round for every row, as by `learn_rows`; writes the entries that pass, as rows of their own, to `passed`.

    An entry passes if its feature has a weight before the round.
    """
    (indptr, indices, data), y, weight, passed = borrowed(chunk), borrowed(y), borrowed(weight), borrowed(passed)
    state, intercept = borrowed(state), borrowed(intercept)
    desk, intercept_desk = desk_on(desk), desk_on(intercept_desk)
    clock, scores = clock_from(ticks), borrowed(scores)
    n = 0
    passed.indptr[0] = 0
    for r in range(y.shape[0]):
        first, last = indptr[r], indptr[r + 1]
        if state.w.ndim == 2:  # where a round may work on weights in place
            for k in range(first, last):
                passes = has_weight(plan, state, np.uint64(np.uint32(indices[k])), clock)
                n = pass_entry(passed, n, indices[k], data[k], passes)
        feature, x = indices[first:last], data[first:last]
        z = scores[r]
        z, clock = learn_row(
            plan, intercept_plan, feature, x, y[r], weight[r], state, intercept, clock, desk, intercept_desk, z
        )
        put_score(scores, r, z)
        if state.w.ndim == 1:  # the weights that the round began with are on the desk still
            for k in range(last - first):
                n = pass_entry(passed, n, feature[k], x[k], desk.w[k] != 0.0)
        passed.indptr[r + 1] = n
    clock_into(ticks, clock)


@jit
def mark_weights(plan, state, fresh, ticks, features, out):  # type: ignore[no-untyped-def]
    """Write 1 for each of `features` that has a weight, 0 for the others; those never seen are as in `fresh`."""
    clock, state, fresh = clock_from(ticks), borrowed(state), borrowed(fresh)
    for j in range(features.shape[0]):
        i = np.uint64(np.uint32(features[j]))
        if i < state.w.shape[0]:
            out[j] = 1.0 if has_weight(plan, state, i, clock) else 0.0
        else:
            out[j] = 1.0 if has_weight(plan, fresh, np.uint64(0), clock) else 0.0
