"""Rounds of Newton stacks with their members in SIMD lanes: the formulas of `stack_rules`, a lane per stack.

The state is `widened`: lanes without a member are as members that were taken out.
"""

from __future__ import annotations

from math import inf
from typing import Any, NamedTuple

from fiol.compiler.compiled import inlined_strictly, jit
from fiol.components.combiners import ABSURD, OVERFLOWN
from fiol.components.component import borrowed, flatten, value_at
from fiol.components.simd import (
    anywhere,
    choose,
    lane,
    lanes,
    larger,
    load_lanes,
    smaller,
    store,
    total,
    totals,
    with_lane,
)
from fiol.engine.ensemble.exact_root import root_in_lanes
from fiol.engine.ensemble.newton_stack import information_is_new, take_out
from fiol.engine.ensemble.stack_rules import (
    bounded_step,
    curvature_part,
    judged_share,
    label_pull,
    lost_variance,
    pooled_share,
    rate_of_row,
    unit_and_reach,
)
from fiol.engine.ensemble.stack_state import CURVATURES, FROZEN, LOST, MASS, PULLS, SHRUNK, THERE, T


@inlined_strictly
def sums_of_products(values, n, z, stacks):
    """Return <values_j, z> of up to three stacks, a lane each; lanes without a stack have the value of the first."""
    first = load_lanes(values, 0, z) * z
    second = load_lanes(values, n, z) * z if stacks > 1 else first
    third = load_lanes(values, 2 * n, z) * z if stacks > 2 else first
    return totals(first, second, third, first)


@inlined_strictly
def invert_lanes(stack, like, state, buffers):
    """Invert the information of all stacks afresh, by Gauss-Jordan elimination with pivots of at least the prior."""
    n, least = len(like), 1.0 / stack.prior
    A, P, one = flatten(state.A), flatten(state.P), flatten(buffers.one)
    for j in range(state.v.shape[0]):
        first = j * n * n
        for k in range(n):
            store(P, first + k * n, load_lanes(A, first + k * n, like))
        for k in range(n):
            here, pivot = load_lanes(one, k * n, like) > 0.0, 1.0 / larger(P[first + k * n + k], least)
            row = choose(here, pivot, load_lanes(P, first + k * n, like) * pivot)
            for i in range(n):
                place = first + i * n
                rest = choose(here, 0.0, load_lanes(P, place, like)) - P[place + k] * row
                store(P, place, row if i == k else rest)
    state.ticks[SHRUNK] = 1.0


class StackSteps(NamedTuple):
    """A round of all stacks before its root is known."""

    score: float  #: the score of the ensemble before it
    counts: bool  #: whether rows are new: losses count,
    goes_on: bool  #: and whether there is anything to learn
    z: Any  #: the scores of the members that are in
    s: Any  #: the scores of all stacks
    q: Any  #: <z, A^-1 z> of all stacks
    wrong: Any  #: the pull of labels that may be wrong
    unit: float
    reach: float
    rate: float
    part: float


@inlined_strictly
def largest_score(stack, z, seen, members):
    """Return the largest size of a member's score, 0 if that is within all limits."""
    peak = 0.0
    if anywhere(abs(z) > smaller(stack.limit, ABSURD)):
        for k in range(members):
            peak = larger(peak, abs(seen[k]))
    return peak


@inlined_strictly
def prepare_stacks(stack, loss, quad, z, y, weight, members, state, buffers):
    """Return the `StackSteps` of a row for which the members have the scores z, a lane each."""
    J, n = state.v.shape[0], len(z)
    ticks, seen = state.ticks, buffers.z
    P, u, t = flatten(state.P), flatten(buffers.u), ticks[T] + 1.0
    # 1. The score of the one linear model, from those of the members that are in.
    z = choose(load_lanes(state.live, 0, z) > 0.0, z, 0.0)
    store(seen, 0, z)
    if anywhere(choose(abs(z) <= OVERFLOWN, 0.0, 1.0) > 0.0):
        for k in range(members):
            if not abs(seen[k]) <= OVERFLOWN:
                take_out(stack, state, k)
        invert_lanes(stack, z, state, buffers)
        z = choose(load_lanes(state.live, 0, z) > 0.0, z, 0.0)
        store(seen, 0, z)
    s = sums_of_products(flatten(state.v), n, z, J)
    score, counts = total(load_lanes(state.share, 0, quad) * s), not ticks[FROZEN] > 0.0
    if state.alone.shape[0] > 0:
        score += total(load_lanes(state.alone, 0, z) * z)
    # 2. The unit of the loss, and how far its kinks reach.
    unit, reach, rate = 1.0, 1.0, 0.0
    if counts:
        unit, reach = unit_and_reach(loss, score, y, weight, stack.robust, ticks)
        rate = rate_of_row(weight, unit)
    goes_on = counts and rate < inf
    if not goes_on:
        rate = 0.0
    # 3. Where the step of each goes, and how far.
    peak = largest_score(stack, z, seen, members)
    for j in range(J):
        moved = load_lanes(P, j * n * n, z) * seen[0]
        for k in range(1, members):
            moved = moved + load_lanes(P, (j * n + k) * n, z) * seen[k]
        store(u, j * n, moved)
    q, last = larger(sums_of_products(u, n, z, J), 0.0), J - 1
    second = value_at(stack.forgets, smaller(1, last))
    rates = lanes((value_at(stack.forgets, 0), second, value_at(stack.forgets, last), 0.0))
    wrong, part = quad + label_pull(stack, loss, rates, t, peak, y), curvature_part(stack, loss, peak)
    return StackSteps(score, counts, goes_on, z, s, q, wrong, unit, reach, rate, part)


@inlined_strictly
def root_problem(quad, steps):
    """Return q, p, tolerance and reach of the root of every stack."""
    p = steps.rate * steps.q
    return steps.s - p * steps.wrong, p, quad, quad + steps.reach


@inlined_strictly
def finish_stacks(stack, loss, quad, z, y, weight, members, state, buffers, steps, root, met):
    """Learn from a row with these roots. z are the scores of all members: losses share exponentials with roots."""
    ticks, t = state.ticks, state.ticks[T] + 1.0
    ticks[T] = t
    if not steps.counts:
        return
    # 4. Losses.
    values = loss.value(with_lane(steps.s, 3, steps.score), y) + quad
    own = loss.value(z, y)
    lost = choose(load_lanes(state.live, 0, z) > 0.0, weight * own, 0.0)
    store(state.losses, 1, load_lanes(state.losses, 1, z) + lost)
    state.losses[0] += weight * lane(values, 3)
    ticks[MASS] += weight
    if steps.goes_on:
        share_out_lanes(stack, values, own, members, steps.rate, t, state, buffers)
        move_stacks(stack, loss, quad, y, members, state, buffers, steps, root, met)


@inlined_strictly
def least_lane(values, count, best):
    """Return the least of the first lanes and `best`."""
    for k in range(count):
        best = smaller(best, lane(values, k))
    return best


@inlined_strictly
def share_out_lanes(stack, values, own, members, rate, t, state, buffers):
    """Give each stack its share in the ensemble after round t, in which its loss was rate times its value.

    So do members by themselves, if they have shares: `own` has their values.
    """
    J, values = state.v.shape[0], with_lane(values, 3, lane(values, 0))
    best = smaller(smaller(lane(values, 0), lane(values, 1)), lane(values, 2))
    common = stack.common_share(t)
    there = load_lanes(buffers.rows, 4 * THERE, values)
    if state.alone.shape[0] > 0:
        live = load_lanes(state.live, 0, own)
        best = least_lane(choose(live > 0.0, own, inf), members, best)
        alone = choose(live > 0.0, judged_share(load_lanes(state.alone, 0, own), own, best, rate, t), 0.0)
        share = judged_share(load_lanes(state.share, 0, values), values, best, rate, t)
        whole, experts = total(share * there) + total(alone), J + members
        store(state.share, 0, pooled_share(share * there, whole, common, experts, there))
        store(state.alone, 0, pooled_share(alone, whole, common, experts, live))
    else:
        share = judged_share(load_lanes(state.share, 0, values), values, best, rate, t)
        store(state.share, 0, pooled_share(share, total(share), common, J, there))


@inlined_strictly
def move_stacks(stack, loss, quad, y, members, state, buffers, steps, root, met):
    """Make a step of each stack, and add the row to its information."""
    J, like, n = state.v.shape[0], steps.z, len(steps.z)
    seen, rows, u = buffers.z, buffers.rows, flatten(buffers.u)
    v, A, P = flatten(state.v), flatten(state.A), flatten(state.P)
    beta, q, rate = root - steps.wrong, steps.q, steps.rate
    moves = bounded_step(stack, loss, steps.s, beta, met + quad, q, rate, steps.unit, steps.part, steps.reach, y)
    pulls, h, growth = moves
    store(rows, 4 * PULLS, pulls)
    store(rows, 4 * CURVATURES, h)
    store(rows, 4 * LOST, lost_variance(h, growth))
    for j in range(J):
        moved = load_lanes(u, j * n, like)
        store(v, j * n, load_lanes(v, j * n, like) + rows[4 * PULLS + j] * moved)
        more, less = rows[4 * CURVATURES + j] * steps.z, rows[4 * LOST + j] * moved
        for k in range(members):
            place = (j * n + k) * n
            store(A, place, load_lanes(A, place, like) + more * seen[k])
            store(P, place, load_lanes(P, place, like) - less * u[j * n + k])
    largest_growth = larger(larger(lane(growth, 0), lane(growth, 1)), lane(growth, 2))
    if information_is_new(stack, state, state.ticks[T], largest_growth):
        invert_lanes(stack, like, state, buffers)


@inlined_strictly
def lane_stack_row(stack, loss, quad, z, y, weight, members, state, buffers):
    """Make one round of all stacks; return the score of the ensemble before it."""
    steps = prepare_stacks(stack, loss, quad, z, y, weight, members, state, buffers)
    s, p, tolerance, reach = root_problem(quad, steps)
    root, met = root_in_lanes(loss, quad, s, p, tolerance, reach, y, 1.0, buffers.spare[: 6 * len(quad)])
    finish_stacks(stack, loss, quad, z, y, weight, members, state, buffers, steps, root, met)
    return steps.score


@jit
def lane_stack_rows(stack, loss, zero, four, Z, y, weight, members, state, buffers, scores):
    """Make a round for every row of Z, the scores [row, lane] of the members as one axis, for at most three stacks."""
    like, quad, n = lanes(zero), lanes(four), len(zero)
    Z, y, weight = borrowed(Z), borrowed(y), borrowed(weight)
    stack, state, buffers = borrowed(stack), borrowed(state), borrowed(buffers)
    scores = borrowed(scores)
    for r in range(y.shape[0]):
        z = load_lanes(Z, r * n, like)
        scores[r] = lane_stack_row(stack, loss, quad, z, y[r], weight[r], members, state, buffers)
