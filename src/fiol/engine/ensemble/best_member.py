"""The compiled rounds of `fiol.components.combiners.BestMember`: the score of the member with the least loss so far."""

from __future__ import annotations

from math import inf

import numpy as np

from fiol.compiler.compiled import inlined, jit
from fiol.components.combiners import OVERFLOWN
from fiol.components.component import borrowed
from fiol.engine.ensemble.stack_state import FROZEN, MASS, T


@inlined
def best_of(state):
    """The live member with the least loss, the first of equal ones; -1 if there is none."""
    best, least = -1, inf
    for k in range(state.live.shape[0]):
        if state.live[k] > 0.0 and state.losses[1 + k] < least:
            best, least = k, state.losses[1 + k]
    return best


@jit
def choice_rows(stack, loss, Z, y, weight, state, scores):
    """Make a round for every row of Z [row, member]; write the ensemble's score before each."""
    Z, y, weight, state, scores = borrowed((Z, y, weight, state, scores))
    K, new = Z.shape[1], 1.0 - state.ticks[FROZEN]
    for r in range(y.shape[0]):
        for k in range(K):
            if not abs(Z[r, k]) <= OVERFLOWN:
                state.live[k] = 0.0
        best = best_of(state)
        scores[r] = Z[r, best] if best >= 0 else 0.0
        for k in range(K):
            if state.live[k] > 0.0:
                state.losses[1 + k] += new * weight[r] * loss.value(Z[r, k], y[r])
        state.losses[0] += new * weight[r] * loss.value(scores[r], y[r])
        state.ticks[MASS] += new * weight[r]
        state.ticks[T] += 1.0


@jit
def joint_choice_rows(stack, loss, Z, y, weight, state, scores):
    """Make a round for every row of Z [row, class, member]; write the ensemble's scores before each."""
    one = np.zeros(Z.shape[1])
    C, K, new = Z.shape[1], Z.shape[2], 1.0 - state.ticks[FROZEN]
    for r in range(y.shape[0]):
        for k in range(K):
            for c in range(C):
                if not abs(Z[r, c, k]) <= OVERFLOWN:
                    state.live[k] = 0.0
        best = best_of(state)
        for c in range(C):
            scores[r, c] = Z[r, c, best] if best >= 0 else 0.0
        for k in range(K):
            if state.live[k] > 0.0:
                for c in range(C):
                    one[c] = Z[r, c, k]
                state.losses[1 + k] += new * weight[r] * loss.value(one, y[r])
        for c in range(C):
            one[c] = scores[r, c]
        state.losses[0] += new * weight[r] * loss.value(one, y[r])
        state.ticks[MASS] += new * weight[r]
        state.ticks[T] += 1.0
