"""The compiled rounds: one row, many rows, one row that nobody has looked at."""

from __future__ import annotations

import numpy as np

from fiol.compiler.compiled import inlined, jit, prefetch
from fiol.components.component import (
    again,
    at,
    begun,
    borrowed,
    ended,
    entry,
    first_weights,
    flat,
    flat_rows,
    next_score,
    put,
    put_row_entry,
    put_score,
    row_entry,
    scores_of,
)
from fiol.components.row import Desk
from fiol.update.state import Clock

#: The intercept as a row of its own: feature 0 with value 1.
ZERO = np.zeros(1, np.int32)
ONE = np.ones(1)
#: A score may be wrong by this part of the sizes of its terms, digits enough for weights of 32 bits; what is further
#: away from a kink than that part of score and target is not near it, whatever the terms.
LAST_DIGITS, NEAR = 2.0**-20, 2.0**-10
#: So many rows before its turn, a row in random order is asked for.
TURNS_AHEAD = 4


@inlined
def clock_from(ticks):  # type: ignore[no-untyped-def]
    """The clock, as it is kept between calls."""
    return Clock(ticks[0], ticks[1], ticks[2], ticks[3], ticks[4], ticks[5])


@inlined
def clock_into(ticks, clock):  # type: ignore[no-untyped-def]
    """Keep the clock until the next call."""
    ticks[0], ticks[1], ticks[2] = clock.t, clock.eta, clock.scale
    ticks[3], ticks[4], ticks[5] = clock.shrunk, clock.path, clock.slopes


@inlined
def uses_of(space):  # type: ignore[no-untyped-def]
    """A desk, by the uses of the array. With many scores most of them waste some, for the sake of one array."""
    if space.ndim == 2:
        step, before, passed, x, alike = space[3], space[4], space[5], space[7], space[8]
        return Desk(space[0], space[1], space[2], step, before, passed, space[6], x, alike, space[9:], 0.0, 0.0)
    last = space.shape[0] - 1
    step, before, passed, x, alike = flat(space[3]), flat(space[4]), flat(space[5]), flat(space[7]), flat(space[8])
    records, rest = flat_rows(space[9:last]), space[last]
    return Desk(space[0], space[1], space[2], step, before, passed, space[6], x, alike, records, rest[0], rest[1])


@inlined
def desk_on(space):  # type: ignore[no-untyped-def]
    """The desk of one row, which is an array between calls."""
    return uses_of(borrowed(space))


@inlined
def begin(plan, state, feature, x, eta, clock, desk, z):  # type: ignore[no-untyped-def]
    """Bring the weights of a row up to date, and add their score to z."""
    plan.step_size.collect(feature, state.statistics, desk)
    if state.total.shape[0] > 0:
        for j in range(feature.shape[0]):
            i = np.uint64(np.uint32(feature[j]))
            k = 0
            while k < scores_of(state.w):
                put(state.total, i, k, entry(state.total, i, k) + plan.laziness.missed(plan, state, i, k, clock))
                k = next_score(state.w, k)
    return plan.anchor.gather(plan, state, feature, x, eta, clock, desk, z)


@inlined
def doubt_about(plan, x, w, z, own, y):  # type: ignore[no-untyped-def]
    """How far its last digits may have moved the score z of weights w and intercept `own`; 0 if no kink is near."""
    loss, terms = plan.problem.loss, 0.0
    if not loss.kinked or (plan.loss_step.solves and not plan.step_size.per_feature):
        return 0.0
    if w.ndim == 2:  # scores of many classes are margins, whose size is 1 or more
        terms += 1.0
        for k in range(w.shape[1]):
            terms = max(terms, abs(z[k]))
        return LAST_DIGITS * terms
    near = NEAR * (abs(z) + abs(y))
    if y != 0.0 and loss.least_grad(z, near, y) == loss.grad(z, y):
        return 0.0
    terms += abs(own)
    for j in range(x.shape[0]):
        terms += abs(x[j] * w[j])
    return LAST_DIGITS * terms if y == 0.0 else min(LAST_DIGITS * terms, near)


@inlined
def centers(plan, state, feature, x, square, length, stride, eta, desk):  # type: ignore[no-untyped-def]
    """The steps of a row's weights, and where their paths start."""
    steps = plan.step_size.steps(x, square, length, stride, eta, desk)
    held = plan.anchor.where(plan, state, desk.w[: x.shape[0]])
    start = plan.anchor.centers_of_row(plan, state, feature, x, held, steps, eta, desk)
    return steps, start


@inlined
def remember(plan, state, feature, x, bend, beta, slope, stride, new, desk, clock):  # type: ignore[no-untyped-def]
    """Keep what the round did to a row's weights."""
    plan.step_size.store(feature, x, bend, beta, slope, stride, state.statistics, desk)
    plan.anchor.finish(plan, state, feature, x[: feature.shape[0]], beta, new, clock)
    if state.total.shape[0] > 0 and not plan.laziness.everywhere:
        for j in range(feature.shape[0]):
            i = np.uint64(np.uint32(feature[j]))
            k = 0
            while k < scores_of(state.w):
                w = row_entry(new, i, j, k)
                if not plan.anchor.follows_eta and plan.step_size.watches_pulls():
                    w = plan.anchor.weight_of_score(plan, state, i, k, clock)  # steps of sums of pulls are others now
                put(state.total, i, k, entry(state.total, i, k) + w)
                k = next_score(state.w, k)


@inlined
def learn_row(plan, intercept_plan, feature, x, y, weight, state, intercept, clock, desk, intercept_desk, z):  # type: ignore[no-untyped-def]
    """One round; returns the score before it, and the clock after it. `intercept` is the intercept's state, or empty.

    The numbers are those of docs/streams.md. A score is a number, or, where there are many, the array z.
    """
    zero, one = borrowed(ZERO), borrowed(ONE)
    x = plan.layout.values(x, desk)
    # 1. Read the weights of the row's features, and their score.
    eta = plan.step_size.eta(clock.t + 1.0)
    clock = plan.laziness.before_round(plan, state, clock, eta)
    own = begun(z)
    if intercept.w.shape[0] > 0:
        own = begin(intercept_plan, intercept, zero, one, eta, clock, intercept_desk, own)
    z = ended(begin(plan, state, feature, x, eta, clock, desk, again(own)), own)
    plan.laziness.visit_all(plan, state, eta, clock)
    # 2. Give every feature its step: `square` times x^2 counts as squared gradient, `stride` is the unit of steps.
    doubt = doubt_about(plan, x, desk.w, z, own, y)
    square = plan.step_size.square_slope(plan.problem.loss, z, doubt, y)
    slopes = clock.slopes + plan.step_size.added(plan.problem.loss, z, y, square)
    unit = plan.step_size.square_unit(plan.problem.loss, slopes, clock.t + 1.0)
    length = plan.step_size.row_length(x, 1.0 * intercept.w.shape[0], desk)
    square *= weight * weight * plan.step_size.square_length(length)
    square = square / unit if unit > 0.0 else 0.0
    stride = plan.step_size.unit_of_steps(plan.problem.loss, slopes, clock.t + 1.0)
    if intercept.w.shape[0] > 0:
        plan.laziness.visit_all(intercept_plan, intercept, eta, clock)
        intercept_steps, intercept_start = centers(
            intercept_plan, intercept, zero, one, square, length, stride, eta, intercept_desk
        )
        lift, shift = at(intercept_steps, 0), first_weights(intercept_start)
    else:
        lift, shift = 0.0, begun(intercept_desk.score)
    steps, start = centers(plan, state, feature, x, square, length, stride, eta, desk)
    # 3. Find beta, and with it the new weights of the row's features.
    rounds = plan.anchor.rounds(plan, clock.t + 1.0)
    scales = plan.units.units_of_row(plan.step_size, x.shape[0], desk)
    parts, start, steps = plan.units.row_in_units(x, start, steps, scales, desk)
    features = plan.layout.features(feature, x, desk)
    row = plan.problem.row(features, parts, start, steps, y, weight, rounds, lift, shift, z, doubt, scales, desk)
    new = plan.anchor.where(plan, state, desk.new[: x.shape[0]])
    beta, score = plan.loss_step.pull(plan.problem, row, z, new)
    bend = plan.step_size.bend_seen(plan.problem.loss, row, z, score, beta, stride)
    plan.units.row_from_units(new, scales)
    # 4. Let every other feature meet the regularizer: the clock says what it missed when somebody looks at it.
    clock = Clock(clock.t, clock.eta, clock.scale, clock.shrunk, clock.path, slopes)
    after = plan.laziness.after_round(plan, state, feature, plan.laziness.tick(plan, clock, eta))
    slope = plan.step_size.slope_of(unit)
    remember(plan, state, feature, x, bend, beta, slope, stride, new, desk, after)
    if intercept.w.shape[0] > 0:
        intercept_new = intercept_plan.anchor.where(intercept_plan, intercept, intercept_desk.new)
        k = 0
        while k < scores_of(intercept.w):
            put_row_entry(intercept_new, 0, 0, k, at(shift, k) + lift * at(beta, k))
            k = next_score(intercept.w, k)
        remember(intercept_plan, intercept, zero, one, bend, beta, slope, stride, intercept_new, intercept_desk, after)
    plan.laziness.add_totals(plan, state, after)
    return z, after


@jit
def learn_rows(plan, intercept_plan, chunk, order, y, weight, state, intercept, ticks, desk, intercept_desk, scores):  # type: ignore[no-untyped-def]
    """A round for every row, in `order` unless that is empty; writes the scores before each."""
    (indptr, indices, data), order, y, weight = borrowed(chunk), borrowed(order), borrowed(y), borrowed(weight)
    state, intercept = borrowed(state), borrowed(intercept)
    desk, intercept_desk = desk_on(desk), desk_on(intercept_desk)
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
            plan, intercept_plan, feature, x, y[r], weight[r], state, intercept, clock, desk, intercept_desk, z
        )
        put_score(scores, r, z)
    clock_into(ticks, clock)


@inlined
def in_order(loss, feature, x, y, weight, features, entries, low, high, heaviest):  # type: ignore[no-untyped-def]
    """Whether a round can be made for a row that nobody has looked at: one of at most so many entries, none of which is
    beyond the first `features`.

    Out of order is whatever needs a second look: indices that do not rise or have no place yet, values that
    are 0 or out of range, a target or weight that may be wrong.
    """
    n = x.shape[0]
    fine = feature.shape[0] == n and n <= entries
    fine &= abs(y) <= high and 0.0 <= weight <= heaviest and loss.accepts(y)
    last = -1
    if fine:
        for k in range(n):
            fine &= feature[k] > last and low <= abs(x[k]) <= high
            last = feature[k]
    return fine and last < features


@jit
def row_in_order(loss, feature, x, y, weight, features, entries, low, high, heaviest):  # type: ignore[no-untyped-def]
    """`in_order`, for Python to ask."""
    return in_order(loss, feature, x, y, weight, features, entries, low, high, heaviest)
