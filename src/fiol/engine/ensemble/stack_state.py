"""The arrays of stacks: what they learn about members, and buffers for one row. Kernels change them in place."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fiol.algorithms.state import aligned, realigned
from fiol.components.combiners import NewtonStack

#: Entries of `StackState.ticks`: rounds; rounds of the last and next update of A and P; sums of squared derivatives,
#: curvatures, values and derivatives at the ensemble's score; the factor by which P has shrunk since LAST; the sum of
#: sample weights; 1 while the stack is frozen, for rows that were learned from before.
T, LAST, NEXT, SQUARES, CURVED, EXCESS, SLOPED, SHRUNK, MASS, FROZEN = range(10)
TICKS = 10
#: The least logarithm of a weight that is stored: negligible, and finite as all that is stored.
GONE = -1e300


class StackState(NamedTuple):
    """The arrays of J Newton stacks of K members; all are float64."""

    v: Any  #: [stack, member] weights
    A: Any  #: [stack, member, member] information
    P: Any  #: [stack, member, member] its inverse
    share: Any  #: [stack] the weight of each in the ensemble
    live: Any  #: [member] 1, or 0 for one that has been taken out
    losses: Any  #: [1 + member] sums of progressive losses: of the ensemble, of each member while it was live
    ticks: Any  #: see T, LAST, ...
    alone: Any  #: [member] the weight of each by itself in the ensemble, or empty: then stacks have all of it


def new_stack_state(stack: NewtonStack, members: int) -> StackState:
    """Return the arrays before the first row."""
    stacks = np.size(stack.forgets)
    one = np.broadcast_to(np.eye(members), (stacks, members, members))
    ticks = np.zeros(TICKS)
    ticks[NEXT] = ticks[SHRUNK] = 1.0
    v, share = np.full((stacks, members), 1.0 / members), np.full(stacks, 1.0 / stacks)
    live, losses, alone = np.ones(members), np.zeros(members + 1), np.empty(0)
    return StackState(v, one / stack.prior, one * stack.prior, share, live, losses, ticks, alone)


def widened(state: StackState, width: int, prior: float) -> StackState:
    """Return a copy for SIMD lanes: `width` members, of which the last are not live, and four shares."""
    J, K = state.v.shape
    one = np.broadcast_to(np.eye(width), (J, width, width))
    v, share, live, losses = aligned((J, width), float), aligned(4, float), aligned(width, float), np.zeros(1 + width)
    information = realigned(one / prior), realigned(one * prior)
    alone = aligned(width if len(state.alone) else 0, float)
    new = StackState(v, *information, share, live, losses, np.zeros(TICKS), alone)
    for own, given in zip(narrowed(new, J, K), state, strict=True):
        own[...] = given
    return new


def narrowed(state: StackState, J: int, K: int) -> StackState:
    """Return the first J stacks and K members of a state, in its own arrays."""
    information, ticks = (state.A[:, :K, :K], state.P[:, :K, :K]), state.ticks
    return StackState(
        state.v[:, :K], *information, state.share[:J], state.live[:K], state.losses[: 1 + K], ticks, state.alone[:K]
    )


def combined_weights(state: StackState) -> Any:
    """Return the weights of the members in the ensemble's linear model: the sum of share_j v_j, and those alone."""
    found: Any = sum(share * v for share, v in zip(state.share, state.v, strict=True))
    return found + state.alone if len(state.alone) else found


class ChoiceState(NamedTuple):
    """The arrays of `BestMember` for K members; all are float64."""

    live: Any  #: [member] 1, or 0 for one that has been taken out
    losses: Any  #: as in `StackState`
    ticks: Any  #: as in `StackState`


class BayesState(NamedTuple):
    """The arrays of `Bayes` for K members; all are float64."""

    logs: Any  #: [member] logarithms of their weights, which add up to 1; a bad member may be the best one later
    live: Any  #: [member] 1, or 0 for one that has been taken out
    losses: Any  #: as in `StackState`
    ticks: Any  #: as in `StackState`


# --- members in lanes -------------------------------------------------------------------------

#: With up to this many stacks, members are SIMD lanes.
MOST_STACKS = 3
#: Rows of `LaneBuffers.rows`, each with a number per stack: 1 where there is a stack; pulls; curvatures; losses.
THERE, PULLS, CURVATURES, LOST = range(4)


class LaneBuffers(NamedTuple):
    """Buffers for one row; all arrays are float64."""

    z: Any  #: [lane] scores of the members
    u: Any  #: [stack, lane] directions of the steps
    one: Any  #: [lane, lane] 1 where both are the same
    rows: Any  #: [4, 4], as one axis
    spare: Any  #: [6, number], for the roots of members and stacks, as one axis


def lane_buffers(stacks: int, width: int) -> LaneBuffers:
    """Return buffers for this many stacks, with members in `width` lanes."""
    rows = np.zeros((4, 4))
    rows[THERE, :stacks] = 1.0
    one = realigned(np.eye(width))
    return LaneBuffers(
        aligned(width, float), aligned((stacks, width), float), one, realigned(rows.reshape(-1)), np.zeros(12 * width)
    )
