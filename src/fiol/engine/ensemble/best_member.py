"""The compiled rounds of `fiol.components.combiners.BestMember`: the score of the member with the least loss so far."""

from __future__ import annotations

from math import inf

import numpy as np

from fiol.compiler.compiled import inlined, jit
from fiol.components.combiners import OVERFLOWN
from fiol.components.component import borrowed, set_score
from fiol.engine.ensemble.stack_state import FROZEN, MASS, T


@inlined
def best_of(state):
    """Return the live member with the least loss, the first of equal ones; -1 if there is none."""
    best, least = -1, inf
    for k in range(state.live.shape[0]):
        if state.live[k] > 0.0 and state.losses[1 + k] < least:
            best, least = k, state.losses[1 + k]
    return best


@inlined
def scores_of_member(scores, k, one):
    """Return the score of member k, or with a score per class its scores, copied to `one`."""
    if scores.ndim == 1:
        return scores[k]
    for c in range(scores.shape[0]):
        one[c] = scores[c, k]
    return one


@inlined
def overflows(scores, k):
    """Return whether any score of member k is not finite, or too large."""
    if scores.ndim == 1:
        return not abs(scores[k]) <= OVERFLOWN
    found = False
    for c in range(scores.shape[0]):
        found |= not abs(scores[c, k]) <= OVERFLOWN
    return found


@inlined
def copy_score(scores, best, out):
    """Return the score of member `best`, or with a score per class its scores in `out`; 0 without a member."""
    if scores.ndim == 1:
        return scores[best] if best >= 0 else 0.0
    for c in range(scores.shape[0]):
        out[c] = scores[c, best] if best >= 0 else 0.0
    return out


@jit
def choice_rows(loss, Z, y, weight, state, scores):
    """Make a round for every row of Z [row, member] or [row, class, member]; write the ensemble's scores before."""
    column = np.zeros(Z.shape[1])
    Z, y, weight, state, one, scores = borrowed((Z, y, weight, state, column, scores))
    K, new = Z.shape[-1], 1.0 - state.ticks[FROZEN]
    for r in range(y.shape[0]):
        for k in range(K):
            if overflows(Z[r], k):
                state.live[k] = 0.0
        score = copy_score(Z[r], best_of(state), scores[r])
        set_score(scores, r, score)
        for k in range(K):
            if state.live[k] > 0.0:
                state.losses[1 + k] += new * weight[r] * loss.value(scores_of_member(Z[r], k, one), y[r])
        state.losses[0] += new * weight[r] * loss.value(score, y[r])
        state.ticks[MASS] += new * weight[r]
        state.ticks[T] += 1.0
    column[0] = 0.0  # which keeps it alive
