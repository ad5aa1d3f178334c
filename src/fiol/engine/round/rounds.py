"""The compiled rounds of one learner: one row, many rows, and a check of a row that comes unchecked."""

from __future__ import annotations

import numpy as np

from fiol.algorithms.state import Clock, RoundRow
from fiol.algorithms.stored_weights import add_all_totals, add_missed, after_round, before_round, regularize_all
from fiol.compiler.compiled import inlined, jit, prefetch
from fiol.components.component import (
    borrowed,
    count_scores,
    flatten,
    flatten_rows,
    get_first_weights,
    get_row_weight,
    get_weight,
    next_score,
    score_after_row,
    score_before_row,
    set_row_weight,
    set_score,
    set_weight,
    value_at,
    zero_score,
)
from fiol.components.row import RowBuffers
from fiol.components.simd import larger, smaller
from fiol.components.step_sizes.rule import LARGEST_SUM, RoundScale, observed_curvature, round_scale
from fiol.engine.round.records import learned_values, read_records, squared_length, write_records
from fiol.engine.round.rounding import LAST_DIGITS, kink_range, kink_within, rounding_tolerance

#: The intercept as a row of its own: feature 0 with value 1.
ZERO = np.zeros(1, np.int32)
ONE = np.ones(1)
#: Rows in random order are prefetched this many rows ahead.
TURNS_AHEAD = 4


@inlined
def clock_from(ticks):
    """Return the clock from the array that stores it between calls."""
    return Clock(ticks[0], ticks[1], ticks[2], ticks[3], ticks[4], ticks[5])


@inlined
def clock_into(ticks, clock):
    """Store the clock until the next call."""
    ticks[0], ticks[1], ticks[2] = clock.t, clock.eta, clock.scale
    ticks[3], ticks[4], ticks[5] = clock.cumulative_l1, clock.cumulative_scale, clock.slopes


@inlined
def split_buffers(space):
    """Return the row buffers, which are parts of one array."""
    w, new, center = space[0], space[1], space[2]
    step, before, elapsed = space[3], space[4], space[5]
    kept, x, alike = space[6], space[7], space[8]
    if space.ndim == 2:
        return borrowed(RowBuffers(w, new, center, step, before, elapsed, kept, x, alike, space[9:], 0.0, 0.0))
    step, before, elapsed = flatten(step), flatten(before), flatten(elapsed)
    records, rest = flatten_rows(space[9 : space.shape[0] - 1]), space[space.shape[0] - 1]
    x, alike = flatten(x), flatten(alike)
    return borrowed(RowBuffers(w, new, center, step, before, elapsed, kept, x, alike, records, rest[0], rest[1]))


@inlined
def row_buffers(space):
    """Return the row buffers of an array, which the caller keeps alive."""
    return split_buffers(borrowed(space))


# Loops are functions of their own where they can be: a function with a loop is optimized alone with all that it calls.


@inlined
def read_row(plan, state, row, z):
    """Bring the weights of a `RoundRow` up to date in its buffers, and add their score to z."""
    if plan.lazy_update.averages:
        add_missed(plan, state, row.feature, row.clock, 1.0)
    return plan.anchor.read_row(plan, state, row, z)


@inlined
def tolerance_of_score(plan, x, w, z, own, y):
    """Return the rounding tolerance of the score z of weights w and intercept `own`; 0 if no kink is near."""
    loss, terms = plan.problem.loss, 0.0
    if not loss.kinked or (plan.loss_step.solves and not plan.step_size.per_feature):
        return 0.0
    if w.ndim == 2:  # scores of many classes are margins, whose size is 1 or more
        terms += 1.0
        for k in range(w.shape[1]):
            terms = larger(terms, abs(z[k]))
        return LAST_DIGITS * terms
    near = kink_range(z, y)
    if y != 0.0 and not kink_within(loss, z, near, y):
        return 0.0
    terms += abs(own)
    for j in range(x.shape[0]):
        terms += abs(x[j] * w[j])
    return rounding_tolerance(terms, near, y)


@inlined
def scale_of_round(plan, rule, z, tolerance, y, weight, length, clock):
    """Return how the next round counts derivatives and steps; schedules ignore both."""
    if not plan.step_size.per_feature:
        return RoundScale(0.0, clock.slopes, 1.0, 1.0)
    return round_scale(plan.problem.loss, rule, z, tolerance, y, weight, length, clock.slopes, clock.t + 1.0)


@inlined
def steps_and_centers(plan, state, row, scale, length):
    """Return the steps of a row's weights, and the centers where their paths start."""
    steps = plan.step_size.observed_steps(row.x, scale, length, row.eta, row.buffers)
    weights = plan.anchor.row_storage(plan, state, row.buffers.w[: row.x.shape[0]])
    return steps, plan.anchor.prox_centers(plan, state, row, weights, steps)


@inlined
def squared_norm(row):
    """Return the derivative of a row's score by beta where no weight meets a penalty."""
    p = row.lift
    for k in range(row.x.shape[0]):
        p += value_at(row.steps, k) * (row.x[k] * row.x[k])
    return p


@inlined
def solve_row(plan, rule, scale, feature, x, start, steps, y, weight, t, lift, shift, z, tolerance, new, buffers):
    """Write the new weights of a row into `new`; return beta, and the curvature that the step has observed."""
    units = plan.units.units_of_row(plan.step_size, x.shape[0], buffers)
    parts, start, steps = plan.units.row_in_units(x, start, steps, units, buffers)
    features, rounds = plan.layout.features(feature, x, buffers), plan.anchor.penalty_count(plan, t)
    row = plan.problem.row(features, parts, start, steps, y, weight, rounds, lift, shift, z, tolerance, units, buffers)
    beta, score = plan.loss_step.pull(plan.problem, row, z, new)
    curvature = 0.0
    if rule.curvatures > 0.0:
        p = squared_norm(row)
        met = plan.problem.loss.curvature(z, score, beta, row.tolerance, scale.step_scale, row.y, row.weight)
        curvature = observed_curvature(smaller(met, LARGEST_SUM), p, scale.step_scale)
    plan.units.row_from_units(new, units)
    return beta, curvature


@inlined
def add_row_totals(plan, state, feature, new, clock):
    """Add the new weights of a row to their totals."""
    for j in range(feature.shape[0]):
        i = np.uint64(np.uint32(feature[j]))
        k = 0
        while k < count_scores(state.w):
            w = get_row_weight(new, i, j, k)
            if not plan.anchor.follows_eta and plan.step_size.properties().uses_pulls:
                w = plan.anchor.weight_of_score(plan, state, i, k, clock)  # the steps of sums of pulls have changed
            set_weight(state.total, i, k, get_weight(state.total, i, k) + w)
            k = next_score(state.w, k)


@inlined
def store_row(plan, state, feature, x, curvature, beta, scale, new, buffers, clock):
    """Store the new weights of a row, and the records of its features."""
    write_records(plan.step_size, feature, x, curvature, beta, scale, state.statistics, buffers)
    plan.anchor.store_row(plan, state, feature, x[: feature.shape[0]], beta, new, clock)
    if plan.lazy_update.averages and not plan.lazy_update.everywhere and state.total.shape[0] > 0:
        add_row_totals(plan, state, feature, new, clock)


@inlined
def learn_row(plan, intercept_plan, feature, x, y, weight, state, intercept, clock, buffers, intercept_buffers, z):
    """Make one round; return the score before it, and the clock after it.

    The numbers are those of docs/explanations/streams.md. `intercept` is the intercept's state, or empty. A score is
    a number, or, where there are many, the array z.
    """
    zero, one, has_intercept = borrowed(ZERO), borrowed(ONE), intercept.w.shape[0] > 0
    x = plan.layout.values(x, buffers)
    # 1. Read the records and weights of the row's features, and their score.
    read_records(plan.step_size, feature, state.statistics, buffers)
    x = learned_values(plan.step_size, x, buffers)
    eta = plan.step_size.eta(clock.t + 1.0)
    clock = before_round(plan, state, clock, eta)
    own, row = zero_score(z), RoundRow(feature, x, eta, clock, buffers)
    intercept_row = RoundRow(zero, one, eta, clock, intercept_buffers)
    if has_intercept:
        read_records(plan.step_size, zero, intercept.statistics, intercept_buffers)
        own = read_row(intercept_plan, intercept, intercept_row, own)
    z = score_after_row(read_row(plan, state, row, score_before_row(own)), own)
    if plan.lazy_update.everywhere:
        regularize_all(plan, state, eta, clock)
    # 2. Give every feature its step.
    rule, tolerance = plan.step_size.rule(), tolerance_of_score(plan, x, buffers.w, z, own, y)
    length = squared_length(plan.step_size, x, 1.0 * intercept.w.shape[0], buffers)
    scale = scale_of_round(plan, rule, z, tolerance, y, weight, length, clock)
    lift, shift = 0.0, zero_score(intercept_buffers.score)
    if has_intercept:
        if plan.lazy_update.everywhere:
            regularize_all(intercept_plan, intercept, eta, clock)
        own_steps, own_center = steps_and_centers(intercept_plan, intercept, intercept_row, scale, length)
        lift, shift = value_at(own_steps, 0), get_first_weights(own_center)
    steps, start = steps_and_centers(plan, state, row, scale, length)
    # 3. Find beta, and with it the new weights of the row's features.
    new, t = plan.anchor.row_storage(plan, state, buffers.new[: x.shape[0]]), clock.t + 1.0
    beta, curvature = solve_row(
        plan, rule, scale, feature, x, start, steps, y, weight, t, lift, shift, z, tolerance, new, buffers
    )
    # 4. Advance the clock: every other feature is regularized lazily, when it is next read.
    clock = Clock(clock.t, clock.eta, clock.scale, clock.cumulative_l1, clock.cumulative_scale, scale.slopes)
    after = plan.lazy_update.tick(plan, clock, eta)
    after = after_round(plan, state, feature, after)
    store_row(plan, state, feature, x, curvature, beta, scale, new, buffers, after)
    if has_intercept:
        own_new = intercept_plan.anchor.row_storage(intercept_plan, intercept, intercept_buffers.new)
        k = 0
        while k < count_scores(intercept.w):
            set_row_weight(own_new, 0, 0, k, value_at(shift, k) + lift * value_at(beta, k))
            k = next_score(intercept.w, k)
        store_row(intercept_plan, intercept, zero, one, curvature, beta, scale, own_new, intercept_buffers, after)
    if plan.lazy_update.everywhere:
        add_all_totals(plan, state, after)
    return z, after


@jit
def learn_rows(
    plan, intercept_plan, chunk, order, y, weight, state, intercept, ticks, buffers, intercept_buffers, scores
):
    """Make a round for every row, in `order` unless that is empty; write the score before each."""
    (indptr, indices, data), order = borrowed(chunk), borrowed(order)
    y, weight = borrowed(y), borrowed(weight)
    state, intercept = borrowed(state), borrowed(intercept)
    buffers, intercept_buffers = row_buffers(buffers), row_buffers(intercept_buffers)
    clock, scores = clock_from(ticks), borrowed(scores)
    shuffled = order.shape[0] > 0
    for turn in range(order.shape[0] if shuffled else y.shape[0]):
        if shuffled and turn + 2 * TURNS_AHEAD < order.shape[0]:
            prefetch(indptr, order[turn + 2 * TURNS_AHEAD])
            soon = order[turn + TURNS_AHEAD]
            prefetch(y, soon)
            prefetch(weight, soon)
            prefetch(indices, indptr[soon])
            prefetch(data, indptr[soon])
            prefetch(data, indptr[soon] + 8)
        r = order[turn] if shuffled else turn
        first, last = indptr[r], indptr[r + 1]
        feature, x = indices[first:last], data[first:last]
        z = scores[r]
        z, clock = learn_row(
            plan, intercept_plan, feature, x, y[r], weight[r], state, intercept, clock, buffers, intercept_buffers, z
        )
        set_score(scores, r, z)
    clock_into(ticks, clock)


@inlined
def in_order(loss, feature, x, y, weight, features, entries, limits):
    """Return whether a round can be made for an unchecked row without `Engine.learn`.

    Not if it has more than `entries` entries, indices that do not rise or are not below `features`, values that are 0
    or out of range, or a target or weight that may be invalid. `limits` are the smallest and largest value, and the
    largest weight.
    """
    n, low, high = x.shape[0], limits[0], limits[1]
    fine = feature.shape[0] == n and n <= entries
    fine &= abs(y) <= high and 0.0 <= weight <= limits[2] and loss.accepts(y)
    last = -1
    if fine:
        for k in range(n):
            fine &= feature[k] > last and low <= abs(x[k]) <= high
            last = feature[k]
    return fine and last < features
