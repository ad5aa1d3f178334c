"""The compiled rounds of `fiol.components.stacks.BestMember`: the score of the member with the least loss so far."""

from __future__ import annotations

from math import inf
from typing import Any, NamedTuple

import numpy as np

from fiol.compiler.compiled import inlined, jit
from fiol.components.component import borrowed
from fiol.components.stacks import OVERFLOWN, BestMember
from fiol.engine.stacking import MASS, TICKS, StackKind, T


class ChoiceState(NamedTuple):
    """What is known of K members; all arrays are float64."""

    live: Any  #: [member] 1, or 0 for one that has been taken out
    losses: Any  #: [member + 1] progressive losses so far: of each member while it was in, of the whole
    ticks: Any  #: as in `StackState`


def new_choice_state(stack: BestMember, members: int) -> ChoiceState:
    """What is known before the first row."""
    return ChoiceState(np.ones(members), np.zeros(members + 1), np.zeros(TICKS))


def chosen_weights(stack: BestMember, state: ChoiceState) -> Any:
    """1 for the best member, 0 for the others, and for all if none is left."""
    losses = np.where(state.live > 0.0, state.losses[:-1], inf)
    v = np.zeros(len(losses))
    if np.isfinite(losses).any():
        v[losses.argmin()] = 1.0
    return v


def merged_choices(states: list[ChoiceState], share: Any, t: float) -> ChoiceState:
    """The mean of what is known, with these shares, after t rounds."""
    parts = zip(*states, strict=True)
    new = ChoiceState(*(sum(c * array for c, array in zip(share, arrays, strict=True)) for arrays in parts))
    new.ticks[T] = t
    return new._replace(live=np.min([state.live for state in states], axis=0))


@inlined
def best_of(state):  # type: ignore[no-untyped-def]
    """The member with the least loss of those that are in, the first of equal ones; -1 if there is none."""
    best, least = -1, inf
    for k in range(state.live.shape[0]):
        if state.live[k] > 0.0 and state.losses[k] < least:
            best, least = k, state.losses[k]
    return best


@jit
def choice_rows(stack, loss, Z, y, weight, state, scores):  # type: ignore[no-untyped-def]
    """A round for every row of Z [row, member]; writes the score of the whole before each."""
    Z, y, weight, state, scores = borrowed((Z, y, weight, state, scores))
    K = Z.shape[1]
    for r in range(y.shape[0]):
        for k in range(K):
            if not abs(Z[r, k]) <= OVERFLOWN:
                state.live[k] = 0.0
        best = best_of(state)
        scores[r] = Z[r, best] if best >= 0 else 0.0
        for k in range(K):
            if state.live[k] > 0.0:
                state.losses[k] += weight[r] * loss.value(Z[r, k], y[r])
        state.losses[K] += weight[r] * loss.value(scores[r], y[r])
        state.ticks[MASS] += weight[r]
        state.ticks[T] += 1.0


@jit
def joint_choice_rows(stack, loss, Z, y, weight, state, scores):  # type: ignore[no-untyped-def]
    """The same for a score per class: Z [row, class, member]."""
    one = np.zeros(Z.shape[1])
    C, K = Z.shape[1], Z.shape[2]
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
                state.losses[k] += weight[r] * loss.value(one, y[r])
        for c in range(C):
            one[c] = scores[r, c]
        state.losses[K] += weight[r] * loss.value(one, y[r])
        state.ticks[MASS] += weight[r]
        state.ticks[T] += 1.0


CHOICE = StackKind(new_choice_state, chosen_weights, merged_choices, "choice_rows", "joint_choice_rows", "")
