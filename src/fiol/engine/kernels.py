"""The compiled loops over rows. A kernel calls only components' methods and other kernels."""

from __future__ import annotations

import numpy as np

from fiol.compiler.compiled import borrowed, inlined, jit, prefetch
from fiol.components.component import at
from fiol.components.row import Room, Row
from fiol.update.state import Clock

#: The intercept as a row of its own: feature 0 with value 1.
ZERO = np.zeros(1, np.int32)
ONE = np.ones(1)
#: So many rows before its turn, a row in random order is asked for.
AHEAD = 4


# --- one exact step ---------------------------------------------------------------------------


@jit
def step_row(problem, row, out):  # type: ignore[no-untyped-def]
    """Solve one row into `out`; return beta, new score, passes, residual, and how far a unit of pull can reach."""
    beta, z, passes = problem.step(row, out)
    reach, _ = problem.start(row)
    return beta, z, passes, problem.residual(row, beta, z), row.weight * reach


@jit
def settle(problem, w, eta, out):  # type: ignore[no-untyped-def]
    """What a round does to weights whose feature is absent."""
    for i in range(w.shape[0]):
        out[i] = problem.geometry.weight(problem.regularizer, w[i], 0.0, 0.0, eta, i)


# --- streams ----------------------------------------------------------------------------------


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
def rooms(space):  # type: ignore[no-untyped-def]
    """Working space, one row of the array for each use."""
    space = borrowed(space)
    return Room(space[0], space[1], space[2], space[3], space[4], space[5:])


@inlined
def begin(plan, state, feature, x, eta, clock, room):  # type: ignore[no-untyped-def]
    """Bring the weights of a row up to date, and return their score."""
    plan.step_size.collect(feature, state.statistics, room)
    if state.total.shape[0] > 0:
        for k in range(x.shape[0]):
            i = np.uint64(np.uint32(feature[k]))
            state.total[i] += plan.laziness.missed(plan, state, i, clock)
    return plan.anchor.gather(plan, state, feature, x, eta, clock, room)


@inlined
def centers(plan, state, feature, x, square, eta, room):  # type: ignore[no-untyped-def]
    """The steps of a row's weights, and where their paths start."""
    steps = plan.step_size.steps(x, square, eta, room)
    start = plan.anchor.centers_of_row(plan, state, feature, room.w[: x.shape[0]], steps, eta, room)
    return steps, start


@inlined
def remember(plan, state, feature, x, beta, room, clock):  # type: ignore[no-untyped-def]
    """Keep what the round did to a row's weights."""
    plan.step_size.store(feature, state.statistics, room)
    plan.anchor.finish(plan, state, feature, x, beta, room.new, clock)
    if state.total.shape[0] > 0 and not plan.laziness.everywhere:
        for k in range(x.shape[0]):
            state.total[np.uint64(np.uint32(feature[k]))] += room.new[k]


@inlined
def learn_row(plan, bias_plan, feature, x, y, weight, state, bias, clock, room, bias_room):  # type: ignore[no-untyped-def]
    """One round; returns the score before it, and the clock after it. `bias` is the intercept's state, or empty."""
    eta = plan.step_size.eta(clock.t + 1.0)
    clock = plan.laziness.ahead(plan, state, clock, eta)
    z = begin(plan, state, feature, x, eta, clock, room)
    if bias.w.shape[0] > 0:
        z += begin(bias_plan, bias, ZERO, ONE, eta, clock, bias_room)
    plan.laziness.sweep(plan, state, eta, clock)
    # What the row adds to the sums of squared gradients, per square of a value.
    square = plan.step_size.square_slope(plan.problem.loss, z, y)
    slopes = clock.slopes + square
    unit = plan.step_size.square_unit(plan.problem.loss, slopes, clock.t + 1.0)
    square *= weight * weight * plan.step_size.square_length(x, 1.0 * bias.w.shape[0], room)
    square = square / unit if unit > 0.0 else 0.0
    lift = shift = 0.0
    if bias.w.shape[0] > 0:
        plan.laziness.sweep(bias_plan, bias, eta, clock)
        bias_steps, bias_start = centers(bias_plan, bias, ZERO, ONE, square, eta, bias_room)
        lift, shift = at(bias_steps, 0), bias_start[0]
    steps, start = centers(plan, state, feature, x, square, eta, room)
    rounds = plan.anchor.rounds(plan, clock.t + 1.0)
    row = Row(feature, x, start, steps, y, weight, rounds, lift, shift)
    beta, _ = plan.loss_step.pull(plan.problem, row, z, room.new[: x.shape[0]])
    clock = Clock(clock.t, clock.eta, clock.scale, clock.shrunk, clock.path, slopes)
    after = plan.laziness.behind(plan, state, feature, plan.laziness.tick(plan, clock, eta))
    remember(plan, state, feature, x, beta, room, after)
    if bias.w.shape[0] > 0:
        bias_room.new[0] = shift + lift * beta
        remember(bias_plan, bias, ZERO, ONE, beta, bias_room, after)
    plan.laziness.tally(plan, state, after)
    return z, after


@jit
def learn_rows(plan, bias_plan, chunk, order, y, weight, state, bias, ticks, room, bias_room, scores):  # type: ignore[no-untyped-def]
    """A round for every row, in `order` unless that is empty; writes the scores before each."""
    (indptr, indices, data), order, y, weight = borrowed(chunk), borrowed(order), borrowed(y), borrowed(weight)
    state, bias, room, bias_room = borrowed(state), borrowed(bias), rooms(room), rooms(bias_room)
    clock = clock_from(ticks)
    shuffled = order.shape[0] > 0
    for k in range(order.shape[0] if shuffled else y.shape[0]):
        if shuffled and k + 2 * AHEAD < order.shape[0]:
            prefetch(indptr, order[k + 2 * AHEAD])
            soon = order[k + AHEAD]
            prefetch(y, soon)
            prefetch(weight, soon)
            prefetch(indices, indptr[soon])
            prefetch(data, indptr[soon])
            prefetch(data, indptr[soon] + 8)
        r = order[k] if shuffled else k
        first, last = indptr[r], indptr[r + 1]
        feature, x = indices[first:last], data[first:last]
        scores[r], clock = learn_row(plan, bias_plan, feature, x, y[r], weight[r], state, bias, clock, room, bias_room)
    clock_into(ticks, clock)


@jit
def learn_one_row(  # type: ignore[no-untyped-def]
    plan, bias_plan, feature, x, y, weight, state, bias, ticks, room, bias_room, features, low, high, heaviest
):
    """A round for one row that nobody has looked at: returns whether it is in order, and its score.

    Out of order is whatever needs a second look: indices that do not rise or have no place yet, values that
    are 0 or out of range, a target or weight that may be wrong. Then nothing has happened.
    """
    feature, x, state, bias = borrowed(feature), borrowed(x), borrowed(state), borrowed(bias)
    room, bias_room, n = rooms(room), rooms(bias_room), x.shape[0]
    fine = feature.shape[0] == n and n <= room.w.shape[0]
    fine &= abs(y) <= high and 0.0 <= weight <= heaviest and plan.problem.loss.accepts(y)
    if not fine:
        return False, 0.0
    last = -1
    for k in range(n):
        fine &= feature[k] > last and low <= abs(x[k]) <= high
        last = feature[k]
    if not fine or last >= min(features, state.w.shape[0]):
        return False, 0.0
    clock = clock_from(ticks)
    z, clock = learn_row(plan, bias_plan, feature, x, y, weight, state, bias, clock, room, bias_room)
    clock_into(ticks, clock)
    return True, z


@jit
def predict_all(loss, scores):  # type: ignore[no-untyped-def]
    """What each score says, in place."""
    for r in range(scores.shape[0]):
        scores[r] = loss.predict(scores[r])


@jit
def total_loss(loss, scores, order, y, weight):  # type: ignore[no-untyped-def]
    """The weighted sum of the losses of all scores, or of those that `order` names, and that of the weights.

    A score is a number, or a row of them where there is one per class.
    """
    total = mass = 0.0
    for k in range(order.shape[0] if order.shape[0] > 0 else y.shape[0]):
        r = order[k] if order.shape[0] > 0 else k
        total += weight[r] * loss.value(scores[r], y[r])
        mass += weight[r]
    return total, mass


@inlined
def value_of(plan, state, i, clock):  # type: ignore[no-untyped-def]
    """The weight of feature i, or its average over all rounds if that is kept."""
    if state.total.shape[0] > 0 and clock.t > 0.0:
        return (state.total[i] + plan.laziness.missed(plan, state, i, clock)) / clock.t
    return plan.anchor.weight_of_feature(plan, state, i, clock)


@jit
def score_rows(plan, bias_plan, chunk, state, bias, fresh, ticks, linear, scores):  # type: ignore[no-untyped-def]
    """The scores of rows; `fresh` stands for features that have no place in the state yet.

    Weights are ready for the row's values as before learning from it, unless scores are to be linear in these.
    """
    (indptr, indices, data), state, bias, fresh = borrowed(chunk), borrowed(state), borrowed(bias), borrowed(fresh)
    clock = clock_from(ticks)
    shift = value_of(bias_plan, bias, np.uint64(0), clock) if bias.w.shape[0] > 0 else 0.0
    unseen = value_of(plan, fresh, np.uint64(0), clock)
    for r in range(scores.shape[0]):
        z = 0.0
        for k in range(indptr[r], indptr[r + 1]):
            i = np.uint64(np.uint32(indices[k]))
            if i < state.w.shape[0]:
                w = value_of(plan, state, i, clock)
                z += data[k] * (w if linear else plan.anchor.ready(plan, state, i, data[k], w))
            else:
                z += data[k] * unseen
        scores[r] = z + shift


@jit
def read_weights(plan, state, ticks, averaged, out):  # type: ignore[no-untyped-def]
    """All weights, or all averages, without changing the state."""
    clock = clock_from(ticks)
    for i in range(np.uint64(out.shape[0])):
        out[i] = value_of(plan, state, i, clock) if averaged else plan.anchor.weight_of_feature(plan, state, i, clock)


@jit
def settle_all(plan, state, ticks):  # type: ignore[no-untyped-def]
    """Bring every weight up to date."""
    clock = plan.laziness.settled(plan, state, clock_from(ticks))
    clock_into(ticks, clock)


@jit
def store_weights(plan, state, ticks, w):  # type: ignore[no-untyped-def]
    """Take over weights that are up to date."""
    clock = clock_from(ticks)
    for i in range(np.uint64(w.shape[0])):
        plan.laziness.keep(plan, state, i, w[i], clock)


# --- one score per class ----------------------------------------------------------------------


@inlined
def catch_up_joint(plan, state, i, t):  # type: ignore[no-untyped-def]
    """What the missed rounds left of the weights of feature i."""
    if state.mark.shape[0] == 0:
        return 1.0
    step = plan.step_of(state, i, plan.step_size.eta(1.0))
    return plan.regularizer.catch_up(1.0, step, t - state.mark[i], i)


@jit
def learn_joint(plan, chunk, order, y, weight, state, ticks, room, bias_room, scores):  # type: ignore[no-untyped-def]
    """A round for every row, in `order` unless that is empty; writes the scores before each."""
    (indptr, indices, data), order, y, weight = borrowed(chunk), borrowed(order), borrowed(y), borrowed(weight)
    state, room, bias_room, w, b = borrowed(state), rooms(room), rooms(bias_room), borrowed(state.w), borrowed(state.b)
    classes, shuffled = w.shape[1], order.shape[0] > 0
    q, beta = np.zeros(classes), np.zeros(classes)
    t, slopes = ticks[0], ticks[1]
    for turn in range(order.shape[0] if shuffled else y.shape[0]):
        r = order[turn] if shuffled else turn
        feature, x = indices[indptr[r] : indptr[r + 1]], data[indptr[r] : indptr[r + 1]]
        eta, z = plan.step_size.eta(t + 1.0), scores[r]
        plan.step_size.collect(feature, state.statistics, room)
        for k in range(b.shape[0]):
            z[k] = b[k]
        for j in range(x.shape[0]):
            i = np.uint64(np.uint32(feature[j]))
            kept = catch_up_joint(plan, state, i, t)
            kept *= plan.step_size.shrink_for(x[j], room.statistics[:, j])
            for k in range(classes):
                w[i, k] *= kept
                z[k] += x[j] * w[i, k]
            if state.mark.shape[0] > 0:
                state.mark[i] = t + 1.0
        square = 0.0
        if plan.step_size.per_feature:
            square = plan.loss.steepness(z, y[r]) ** 2
            slopes += square
        unit = plan.step_size.square_unit(plan.loss, slopes, t + 1.0)
        square *= weight[r] * weight[r] * plan.step_size.square_length(x, 1.0 * (b.shape[0] > 0), room)
        square = square / unit if unit > 0.0 else 0.0
        lift = 0.0
        if b.shape[0] > 0:
            plan.step_size.collect(ZERO, state.bias_statistics, bias_room)
            lift = at(plan.step_size.steps(ONE, square, eta, bias_room), 0)
            plan.step_size.store(ZERO, state.bias_statistics, bias_room)
        steps = plan.step_size.steps(x, square, eta, room)
        plan.step_size.store(feature, state.statistics, room)
        p = lift
        for k in range(classes):
            q[k] = z[k]
        for j in range(x.shape[0]):
            i = np.uint64(np.uint32(feature[j]))
            m = plan.regularizer.shrink(at(steps, j), i)
            p += m * at(steps, j) * x[j] * x[j]
            if m != 1.0:
                for k in range(classes):
                    q[k] -= (1.0 - m) * x[j] * w[i, k]
        plan.loss.duals(q, weight[r] * p, y[r], beta)
        for j in range(x.shape[0]):
            i = np.uint64(np.uint32(feature[j]))
            m, pull = plan.regularizer.shrink(at(steps, j), i), weight[r] * at(steps, j) * x[j]
            for k in range(classes):
                w[i, k] = m * (w[i, k] + pull * beta[k])
        for k in range(b.shape[0]):
            b[k] += weight[r] * lift * beta[k]
        t += 1.0
    ticks[0], ticks[1] = t, slopes


@jit
def score_joint(plan, chunk, state, ticks, scores):  # type: ignore[no-untyped-def]
    """The scores of rows, one per class."""
    (indptr, indices, data), state = borrowed(chunk), borrowed(state)
    for r in range(scores.shape[0]):
        for k in range(state.b.shape[0]):
            scores[r, k] = state.b[k]
        for j in range(indptr[r], indptr[r + 1]):
            i = np.uint64(np.uint32(indices[j]))
            value = data[j] * catch_up_joint(plan, state, i, ticks[0])
            for k in range(scores.shape[1]):
                scores[r, k] += value * state.w[i, k]


@jit
def read_joint(plan, state, ticks, out):  # type: ignore[no-untyped-def]
    """All weights, a column per class, without changing the state."""
    for i in range(np.uint64(out.shape[0])):
        kept = catch_up_joint(plan, state, i, ticks[0])
        for k in range(out.shape[1]):
            out[i, k] = kept * state.w[i, k]
