"""The compiled rounds of a feature gate, which also select the entries of rows that the other members see."""

from __future__ import annotations

import numpy as np

from fiol.compiler.compiled import inlined, jit
from fiol.components.component import borrowed, count_scores, next_score, set_score
from fiol.engine.round.rounds import clock_from, clock_into, learn_row, row_buffers


@inlined
def has_weight(plan, state, i, clock):
    """Return whether the weight of feature i for any score is not exactly 0."""
    found, k = False, 0
    while k < count_scores(state.w):
        found |= plan.anchor.weight_of_score(plan, state, i, k, clock) != 0.0
        k = next_score(state.w, k)
    return found


@inlined
def pass_entry(passed, n, i, x, passes):
    """Write an entry behind the n that have passed; return n + 1 if this one passes, else n."""
    passed.indices[n] = i
    passed.data[n] = x
    return n + 1 if passes else n


@jit
def gate_rows(
    plan, intercept_plan, chunk, y, weight, state, intercept, ticks, buffers, intercept_buffers, scores, passed
):
    """Make a round for every row, as `learn_rows` does; write the entries that pass, as rows, to `passed`.

    An entry passes if its feature has a weight before the round.
    """
    (indptr, indices, data), y, weight = borrowed(chunk), borrowed(y), borrowed(weight)
    state, intercept, passed = borrowed(state), borrowed(intercept), borrowed(passed)
    buffers, intercept_buffers = row_buffers(buffers), row_buffers(intercept_buffers)
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
            plan, intercept_plan, feature, x, y[r], weight[r], state, intercept, clock, buffers, intercept_buffers, z
        )
        set_score(scores, r, z)
        if state.w.ndim == 1:  # the weights that the round began with are still in the buffers
            for k in range(last - first):
                n = pass_entry(passed, n, feature[k], x[k], buffers.w[k] != 0.0)
        passed.indptr[r + 1] = n
    clock_into(ticks, clock)


@jit
def mark_weights(plan, state, fresh, ticks, features, out):
    """Write 1 for each of `features` that has a weight, 0 for others; `fresh` is the state of an unseen feature."""
    clock, state, fresh = clock_from(ticks), borrowed(state), borrowed(fresh)
    for j in range(features.shape[0]):
        i = np.uint64(np.uint32(features[j]))
        if i < state.w.shape[0]:
            out[j] = 1.0 if has_weight(plan, state, i, clock) else 0.0
        else:
            out[j] = 1.0 if has_weight(plan, fresh, np.uint64(0), clock) else 0.0
