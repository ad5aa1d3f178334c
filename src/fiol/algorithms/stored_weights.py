"""Reading and storing weights by the lazy update of a plan: what is the same for all kinds of `LazyUpdate`.

Anchors and kernels call these functions, which call the methods of `plan.lazy_update`. A stored weight may lack the
rounds that its feature missed: `load_weight` and `load_row` return it up to date, `settle` brings all up to date.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fiol.algorithms.state import Clock, State
from fiol.components.component import count_scores, get_weight, next_score, set_weight, weights_of_score
from fiol.components.row import Indices, RowBuffers, nth
from fiol.components.simd import larger

if TYPE_CHECKING:
    from fiol.algorithms.plan import Plan

#: `LazyUpdate.smallest_scale` is at least this where weights divided by the scale are stored in float32, which ends at
#: 3.4e38.
SMALLEST_FLOAT32_SCALE = 1e-15


# One weight.


def elapsed_of(plan: Plan, state: State, i: int, clock: Clock) -> float:
    """Return how far `LazyUpdate.now` has advanced since feature i was last seen."""
    return plan.lazy_update.now(clock) - state.last_seen[i] if plan.lazy_update.records else 0.0


def load_weight(plan: Plan, state: State, i: int, k: int, clock: Clock) -> float:
    """Return the weight of feature i for score k after `clock.t` rounds."""
    if plan.lazy_update.replays:
        elapsed, step = elapsed_of(plan, state, i, clock), plan.step_of(state, i, plan.lazy_update.replay_eta(clock))
        w, unit = get_weight(state.w, i, k), plan.unit_of(state, i)
        return plan.lazy_update.replay(plan, w, elapsed, step, unit, clock, i)
    return get_weight(state.w, i, k)


def missed_sum(plan: Plan, state: State, i: int, k: int, clock: Clock) -> float:
    """Return the sum of that weight over the rounds since its feature was last seen."""
    if plan.lazy_update.records:
        elapsed, step = elapsed_of(plan, state, i, clock), plan.step_of(state, i, plan.lazy_update.replay_eta(clock))
        w, unit = get_weight(state.w, i, k), plan.unit_of(state, i)
        return plan.lazy_update.replay_sum(plan, w, elapsed, step, unit, i)
    return 0.0


def shared_factor(plan: Plan, state: State, i: int, clock: Clock) -> float:
    """Return the factor by which missed rounds changed all weights of feature i; 1 if there is no common one."""
    if state.w.ndim == 1 or not (plan.lazy_update.linear and plan.regularizer.linear):
        return 1.0
    elapsed, step = elapsed_of(plan, state, i, clock), plan.step_of(state, i, plan.lazy_update.replay_eta(clock))
    return plan.lazy_update.replay(plan, 1.0, elapsed, step, plan.unit_of(state, i), clock, i)


def load_weight_times(plan: Plan, state: State, i: int, k: int, clock: Clock, factor: float) -> float:
    """Return the weight of feature i for score k times a factor, in which the shared one is included."""
    if state.w.ndim == 1 or not (plan.lazy_update.linear and plan.regularizer.linear):
        return load_weight(plan, state, i, k, clock) * factor
    return get_weight(state.w, i, k) * factor


def store_weight(plan: Plan, state: State, i: int, k: int, w: float, clock: Clock) -> None:
    """Store w as the weight of feature i for score k after `clock.t` rounds."""
    set_weight(state.w, i, k, plan.lazy_update.stored_form(w, clock))


def set_last_seen(plan: Plan, state: State, i: int, clock: Clock) -> None:
    """Record that the weights of feature i were stored after `clock.t` rounds."""
    if plan.lazy_update.records:
        state.last_seen[i] = plan.lazy_update.now(clock)


# The weights of a row.


def load_row(plan: Plan, state: State, feature: Indices, clock: Clock, buffers: RowBuffers) -> None:
    """Write the weights of a row of one score to `buffers.w`, by the records of its features in the buffers."""
    w, now, most = weights_of_score(buffers.w, 0), plan.lazy_update.now(clock), 0.0
    for j in range(feature.shape[0]):
        i = nth(feature, j)
        w[j] = get_weight(state.w, i, 0)
        buffers.elapsed[j] = now - state.last_seen[i]
        most = larger(most, buffers.elapsed[j])
    if most > 0.0:
        steps = plan.step_size.steps(feature.shape[0], plan.lazy_update.replay_eta(clock), buffers)
        plan.lazy_update.replay_row(plan, feature, steps, clock, buffers)


def add_missed(plan: Plan, state: State, feature: Indices, clock: Clock, times: float) -> None:
    """Add `missed_sum` of a row's weights, `times` 1 or -1, to their sums over all rounds, if these are kept."""
    if plan.lazy_update.averages and state.total.shape[0] > 0:
        for j in range(feature.shape[0]):
            i = nth(feature, j)
            k = 0
            while k < count_scores(state.w):
                missed = times * missed_sum(plan, state, i, k, clock)
                set_weight(state.total, i, k, get_weight(state.total, i, k) + missed)
                k = next_score(state.w, k)


# All weights.


def settle(plan: Plan, state: State, clock: Clock) -> Clock:
    """Bring every weight up to date, and return the clock with its sums started again."""
    new = Clock(clock.t, clock.eta, 1.0, 0.0, 0.0, clock.slopes)
    for i in range(np.uint64(state.w.shape[0])):
        k = 0
        while k < count_scores(state.w):
            if plan.lazy_update.averages and state.total.shape[0] > 0:
                missed = missed_sum(plan, state, i, k, clock)
                set_weight(state.total, i, k, get_weight(state.total, i, k) + missed)
            store_weight(plan, state, i, k, load_weight(plan, state, i, k, clock), new)
            k = next_score(state.w, k)
        set_last_seen(plan, state, i, new)
    return new


def smallest_scale_for(plan: Plan, state: State) -> float:
    """Return the smallest scale that weights of the state's precision may be divided by."""
    smallest = plan.lazy_update.smallest_scale
    return smallest if state.w.itemsize == 8 else max(smallest, SMALLEST_FLOAT32_SCALE)


def before_round(plan: Plan, state: State, clock: Clock, eta: float) -> Clock:
    """Return the clock for a round to begin with: the scale is multiplied out before a round makes it too small."""
    if plan.lazy_update.smallest_scale == 0.0:
        return clock
    small = abs(plan.lazy_update.tick(plan, clock, eta).scale) < smallest_scale_for(plan, state)
    return settle(plan, state, clock) if small else clock


def after_round(plan: Plan, state: State, feature: Indices, clock: Clock) -> Clock:
    """Return the clock for a round to end with, before its row is stored.

    The scale of a round that alone leaves next to nothing of the weights is multiplied out, not divided by.
    """
    if plan.lazy_update.smallest_scale == 0.0:
        return clock
    if abs(clock.scale) < smallest_scale_for(plan, state):
        add_missed(plan, state, feature, clock, -1.0)  # the row's own weights are added when they are stored
        return settle(plan, state, clock)
    return clock


def regularize_all(plan: Plan, state: State, eta: float, clock: Clock) -> None:
    """Make the round of all features, for `Eager`."""
    for i in range(np.uint64(state.w.shape[0])):
        plan.anchor.regularize_absent(plan, state, i, eta, clock)


def add_all_totals(plan: Plan, state: State, clock: Clock) -> None:
    """Add all weights after a round to their sums, for `Eager`."""
    for i in range(np.uint64(state.total.shape[0])):
        k = 0
        while k < count_scores(state.w):
            w = plan.anchor.weight_of_score(plan, state, i, k, clock)
            set_weight(state.total, i, k, get_weight(state.total, i, k) + w)
            k = next_score(state.w, k)


#: The functions that kernels call as well as anchors.
WEIGHT_FUNCTIONS: tuple[Any, ...] = (elapsed_of, load_weight, missed_sum, shared_factor, load_weight_times)
WEIGHT_FUNCTIONS += (store_weight, set_last_seen, load_row, add_missed, settle, smallest_scale_for)
WEIGHT_FUNCTIONS += (before_round, after_round, regularize_all, add_all_totals)
