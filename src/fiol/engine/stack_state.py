"""What stacks know of their members, as arrays: made, read and merged here, changed by `fiol.engine.stacking`."""

from __future__ import annotations

from math import inf, log
from typing import Any, NamedTuple

import numpy as np

from fiol.components.stacks import Bayes, BestMember, NewtonStack
from fiol.update.state import aligned, realigned

#: What `StackState.ticks` holds: rounds; when information is brought up to date, last and next; sums of squared
#: derivatives, curvatures, values and derivatives at the score of the whole; by how much P has shrunk since LAST; sum
#: of sample weights; 1 while rows come again, and there is nothing to learn from how members do.
T, LAST, NEXT, SQUARES, CURVED, EXCESS, SLOPED, SHRUNK, MASS, AGAIN = range(10)
TICKS = 10
#: What stacks share, whatever their losses of rows of one moment were.
BACK = 3e-3
#: What a sum of losses counts as that is not finite.
WORST_SUM = 1e300


class StackState(NamedTuple):
    """What J stacks of K members know; all arrays are float64."""

    v: Any  #: [stack, member] weights
    A: Any  #: [stack, member, member] information
    P: Any  #: [stack, member, member] its inverse
    share: Any  #: [stack] the part of each in the whole
    live: Any  #: [member] 1, or 0 for one that has been taken out
    losses: Any  #: [1 + member] progressive losses so far: of the whole, of each member while it was in
    ticks: Any  #: see T, LAST, ...


def new_stack_state(stack: NewtonStack, members: int) -> StackState:
    """What is known before the first row."""
    stacks = np.size(stack.forgets)
    one = np.broadcast_to(np.eye(members), (stacks, members, members))
    ticks = np.zeros(TICKS)
    ticks[NEXT] = ticks[SHRUNK] = 1.0
    v, share = np.full((stacks, members), 1.0 / members), np.full(stacks, 1.0 / stacks)
    return StackState(v, one / stack.prior, one * stack.prior, share, np.ones(members), np.zeros(members + 1), ticks)


def widened(state: StackState, width: int, prior: float) -> StackState:
    """A copy for `fiol.engine.lane_stack`, with so many members, of which the last are out, and four shares."""
    J, K = state.v.shape
    one = np.broadcast_to(np.eye(width), (J, width, width))
    v, share, live, losses = aligned((J, width), float), aligned(4, float), aligned(width, float), np.zeros(1 + width)
    new = StackState(v, realigned(one / prior), realigned(one * prior), share, live, losses, np.zeros(TICKS))
    for own, given in zip(narrowed(new, J, K), state, strict=True):
        own[...] = given
    return new


def narrowed(state: StackState, J: int, K: int) -> StackState:
    """The first J stacks and K members of a state, in its own arrays."""
    information = state.A[:, :K, :K], state.P[:, :K, :K]
    return StackState(state.v[:, :K], *information, state.share[:J], state.live[:K], state.losses[: 1 + K], state.ticks)


def mixing(stack: NewtonStack, state: StackState) -> Any:
    """The weights of the members in the one linear model now."""
    v = np.zeros(state.v.shape[1])
    for j in range(state.v.shape[0]):
        v += state.share[j] * state.v[j]
    return v


def open_scores(state: StackState, Z: Any) -> Any:
    """The variances of scores that stacks leave open, where the members have the scores Z [row, ..., member].

    Of one of the stacks, drawn by shares, with weights drawn from the normal distribution that it knows them by: the
    mean of z' P_j z, and that of the squared distance of z' v_j from the score of the whole.
    """
    z, total = np.moveaxis(Z * state.live, -1, 0), np.zeros(Z.shape[:-1])
    own = [sum_of_products(v, z) for v in state.v]
    score = sum_of_products(state.share, own)
    for pi, P, s in zip(state.share, state.P, own, strict=True):
        within = sum_of_products(z, [sum_of_products(row, z) for row in P])
        total += pi * (np.maximum(within, 0.0) + (s - score) ** 2)
    return total


def sum_of_products(c: Any, z: Any) -> Any:
    """The sum of c_k z_k, one after the other: the same digits in whichever rows it stands."""
    total = 0.0 * z[0]
    for factor, part in zip(c, z, strict=True):
        total = total + factor * part
    return total


def mean_losses(state: StackState) -> Any:
    """The mean progressive loss of the whole, and of each member while it was in; 0 before the first row."""
    return state.losses / max(state.ticks[MASS], 1e-300)


def merged_stacks(states: list[StackState], share: Any, t: float) -> StackState:
    """The mean of what stacks know, with these shares, after t rounds."""
    parts = zip(*states, strict=True)
    new = StackState(*(sum(c * array for c, array in zip(share, arrays, strict=True)) for arrays in parts))
    new.ticks[T], new.ticks[LAST], new.ticks[NEXT] = t, t, t + 1.0
    live = np.min([state.live for state in states], axis=0)
    return new._replace(P=np.linalg.inv(new.A), live=live, v=new.v * live)


def judged_shares(state: StackState, share: Any, losses: Any, unit: float) -> Any:
    """The shares that stacks have after rows of which these were the sums of their losses, by weights of one moment.

    As after a row, with exp(-loss / d) in one; d is the `unit` of the loss, 0 where that is what the state knows. There
    are few such moments, so what was bad comes back more easily: all stacks share `BACK`.
    """
    if not unit:
        unit = state.ticks[SQUARES] / state.ticks[CURVED] if state.ticks[CURVED] > 0.0 else inf
    losses = np.where(np.isfinite(losses), losses, WORST_SUM)
    new = share * np.exp((losses.min() - losses) / unit)
    return (1.0 - BACK) * new / new.sum() + BACK / len(new)


# --- the best member --------------------------------------------------------------------------


class ChoiceState(NamedTuple):
    """What is known of K members; all arrays are float64."""

    live: Any  #: [member] 1, or 0 for one that has been taken out
    losses: Any  #: as in `StackState`
    ticks: Any  #: as in `StackState`


def new_choice_state(stack: BestMember, members: int) -> ChoiceState:
    """What is known before the first row."""
    return ChoiceState(np.ones(members), np.zeros(members + 1), np.zeros(TICKS))


def chosen_weights(stack: BestMember, state: ChoiceState) -> Any:
    """1 for the best member, 0 for the others, and for all if none is left."""
    losses = np.where(state.live > 0.0, state.losses[1:], inf)
    v = np.zeros(len(losses))
    if np.isfinite(losses).any():
        v[losses.argmin()] = 1.0
    return v


def nothing_open(state: ChoiceState, Z: Any) -> Any:
    """The variances of scores that the choice leaves open: it is made."""
    return np.zeros(Z.shape[:-1])


def merged_choices(states: list[ChoiceState], share: Any, t: float) -> ChoiceState:
    """The mean of what is known, with these shares, after t rounds."""
    parts = zip(*states, strict=True)
    new = ChoiceState(*(sum(c * array for c, array in zip(share, arrays, strict=True)) for arrays in parts))
    new.ticks[T] = t
    return new._replace(live=np.min([state.live for state in states], axis=0))


# --- members by exponential weights -----------------------------------------------------------


#: The least logarithm of a weight that is kept: as good as none, and finite as all that is stored.
GONE = -1e300


class BayesState(NamedTuple):
    """What is known of K members; all arrays are float64."""

    logs: Any  #: [member] logarithms of their weights, which add up to 1; a bad member may be the best one later
    live: Any  #: [member] 1, or 0 for one that has been taken out
    losses: Any  #: as in `StackState`
    ticks: Any  #: as in `StackState`


def new_bayes_state(stack: Bayes, members: int) -> BayesState:
    """What is known before the first row."""
    return BayesState(np.full(members, -log(members)), np.ones(members), np.zeros(members + 1), np.zeros(TICKS))


def member_weights(stack: Bayes, state: BayesState) -> Any:
    """The weights of the members now; 0 for those that have been taken out."""
    return np.exp(state.logs) * state.live


def merged_weights(states: list[BayesState], share: Any, t: float) -> BayesState:
    """The mean of what is known, with these shares, after t rounds: of weights, that of their logarithms."""
    counted = [(c, state) for c, state in zip(share, states, strict=True) if c > 0.0]
    parts = zip(*(state for _, state in counted), strict=True)
    new = BayesState(*(sum(c * array for (c, _), array in zip(counted, arrays, strict=True)) for arrays in parts))
    new.ticks[T] = t
    live = np.min([state.live for _, state in counted], axis=0)
    logs = np.where(live > 0.0, new.logs, GONE)
    top = logs.max()
    total = top + log(np.exp(logs - top).sum())
    return new._replace(live=live, logs=np.maximum(logs - total, GONE))


class StackKind(NamedTuple):
    """How a kind of stack is run: functions, and kernels by name."""

    new_state: Any  #: what is known before the first row, of the stack and the number of members
    mixing: Any  #: the weights of the members now, of the stack and its state
    merged: Any  #: one state of several, their shares, and rounds
    rows: str
    joint_rows: str
    #: Shares of its stacks, by losses of rows with scores of one moment; None if it has none.
    judged: Any = None
    #: What pools the scores of members where that is not linear, and of many scores.
    scores: str = ""
    joint_scores: str = ""
    #: The variances of scores that it leaves open, of its state and the scores of members; None if it does not know.
    variances: Any = None


#: By `Stack.kind`.
STACK_KINDS = {
    "newton": StackKind(
        new_stack_state,
        mixing,
        merged_stacks,
        "stack_rows",
        "joint_stack_rows",
        judged_shares,
        variances=open_scores,
    ),
    "best": StackKind(
        new_choice_state,
        chosen_weights,
        merged_choices,
        "choice_rows",
        "joint_choice_rows",
        variances=nothing_open,
    ),
    "bayes": StackKind(
        new_bayes_state,
        member_weights,
        merged_weights,
        "bayes_rows",
        "joint_bayes_rows",
        scores="bayes_scores",
        joint_scores="joint_bayes_scores",
    ),
}

# --- members in lanes -------------------------------------------------------------------------

#: So many stacks may have their members as lanes.
MOST_STACKS = 3
#: Rows of `LaneRoom.rows`, for numbers of all stacks: 1 where there is a stack; pulls, curvatures, what is lost.
THERE, PULLS, CURVATURES, LOST = range(4)


class LaneRoom(NamedTuple):
    """Where one row is worked on; all arrays are float64."""

    z: Any  #: [lane] scores of the members
    u: Any  #: [stack, lane] where the steps go
    one: Any  #: [lane, lane] 1 where both are the same
    rows: Any  #: [4, 4], as one axis
    spare: Any  #: [6, number], for the roots of members and stacks, as one axis


def new_lane_room(stacks: int, width: int) -> LaneRoom:
    """Working space for so many stacks, and members in so many lanes."""
    rows = np.zeros((4, 4))
    rows[THERE, :stacks] = 1.0
    one = realigned(np.eye(width))
    return LaneRoom(
        aligned(width, float), aligned((stacks, width), float), one, realigned(rows.reshape(-1)), np.zeros(12 * width)
    )
