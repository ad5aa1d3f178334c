"""The rounds of a stack with its members as lanes: `fiol.engine.stacking`, to rounding, in a fifth of the time.

The state is `widened`: lanes without a member are as members that were taken out.
"""

from __future__ import annotations

from math import inf
from typing import Any, NamedTuple

from fiol.compiler.compiled import inlined_strictly, jit
from fiol.components.component import at, borrowed, flat
from fiol.components.lanes import (
    anywhere,
    choose,
    exponential,
    lane,
    lanes,
    larger,
    load_lanes,
    smaller,
    square_root,
    store,
    total,
    totals,
    with_lane,
)
from fiol.components.stacks import MOST_NEWS, OVERFLOWN
from fiol.components.step_sizes import LARGEST_SUM
from fiol.engine.lanes import lane_root
from fiol.engine.stack_state import AGAIN, CURVATURES, LOST, MASS, PULLS, SHRUNK, THERE, T
from fiol.engine.stacking import information_is_new, mean_curvature, take_out, unit_and_reach


@inlined_strictly
def sums_of_products(values, n, z, stacks):  # type: ignore[no-untyped-def]
    """<values_j, z> of up to three stacks, in lanes; those without a stack are as the first."""
    first = load_lanes(values, 0, z) * z
    second = load_lanes(values, n, z) * z if stacks > 1 else first
    third = load_lanes(values, 2 * n, z) * z if stacks > 2 else first
    return totals(first, second, third, first)


@inlined_strictly
def invert_lanes(stack, zero, state, room):  # type: ignore[no-untyped-def]
    """`invert_all` by rows in lanes: Gauss's and Jordan's elimination, whose pivots are at least those of the prior."""
    n, like, least = len(zero), lanes(zero), 1.0 / stack.prior
    A, P, one = flat(state.A), flat(state.P), flat(room.one)
    for j in range(state.v.shape[0]):
        first = j * n * n
        for k in range(n):
            store(P, first + k * n, load_lanes(A, first + k * n, like))
        for k in range(n):
            here, pivot = load_lanes(one, k * n, like) > 0.0, 1.0 / max(P[first + k * n + k], least)
            row = choose(here, pivot, load_lanes(P, first + k * n, like) * pivot)
            for i in range(n):
                place = first + i * n
                rest = choose(here, 0.0, load_lanes(P, place, like)) - P[place + k] * row
                store(P, place, row if i == k else rest)
    state.ticks[SHRUNK] = 1.0


class StackRound(NamedTuple):
    """A round of a stack that lacks its root."""

    score: float  #: that of the whole, before it
    counts: bool  #: whether rows are new: losses count,
    goes_on: bool  #: and whether there is anything to learn
    z: Any  #: the scores of the members that are in
    s: Any  #: the scores of all stacks,
    q: Any  #: how far each can reach,
    p: Any  #: what that moves its score by, per pull,
    wrong: Any  #: and the pull of labels that may be wrong
    unit: float
    reach: float
    rate: float
    part: float


@inlined_strictly
def begin_stack_row(stack, loss, zero, four, z, y, weight, members, state, room):  # type: ignore[no-untyped-def]
    """The first part of `stack_row`, with scores of all members in lanes, z, and numbers of all stacks in lanes: what
    the root needs.
    """
    J, n, like, quad = state.v.shape[0], len(zero), lanes(zero), lanes(four)
    ticks, seen, v, P, u = state.ticks, room.z, flat(state.v), flat(state.P), flat(room.u)
    t = ticks[T] + 1.0
    # 1. The score of the one linear model, from those of the members that are in.
    z = choose(load_lanes(state.live, 0, like) > 0.0, z, 0.0)
    store(seen, 0, z)
    if anywhere(choose(abs(z) <= OVERFLOWN, like, 1.0) > 0.0):
        for k in range(members):
            if not abs(seen[k]) <= OVERFLOWN:
                take_out(stack, state, k)
        invert_lanes(stack, zero, state, room)
        z = choose(load_lanes(state.live, 0, like) > 0.0, z, 0.0)
        store(seen, 0, z)
    s = sums_of_products(v, n, z, J)
    score, counts = total(load_lanes(state.share, 0, quad) * s), not ticks[AGAIN] > 0.0
    # 2. The unit of the loss, and how far its kinks reach.
    unit, reach, rate = 1.0, 1.0, 0.0
    if counts:
        unit, reach = unit_and_reach(loss, score, y, weight, stack.robust, ticks)
        rate = weight / unit if unit > 0.0 else inf
    goes_on = counts and rate <= LARGEST_SUM  # else there has been no loss, or none of which anything could be said
    if not goes_on:
        rate = 0.0
    # 3. Where the step of each goes, and how far.
    part, peak = 1.0, 0.0
    if loss.value_unit > 0.0 and anywhere(abs(z) > stack.limit):
        for k in range(members):
            peak = max(peak, abs(seen[k]))
        part = (stack.limit / peak) ** 2
    for j in range(J):
        moved = like
        for k in range(members):
            moved = moved + load_lanes(P, (j * n + k) * n, like) * seen[k]
        store(u, j * n, moved)
    q, wrong = larger(sums_of_products(u, n, z, J), 0.0), quad
    if loss.value_unit > 0.0:
        rates = lanes((at(stack.forgets, 0), at(stack.forgets, min(1, J - 1)), at(stack.forgets, J - 1), 0.0))
        wrong = y * stack.wrong(rates, t, peak)
    return StackRound(score, counts, goes_on, z, s, q, rate * q, wrong, unit, reach, rate, part)


@inlined_strictly
def stack_start(four, begun):  # type: ignore[no-untyped-def]
    """Where the steps of all stacks start, and how far a pull moves them: what a root is asked for."""
    quad = lanes(four)
    return begun.s - begun.p * begun.wrong, begun.p, quad, quad + begun.reach


@inlined_strictly
def end_stack_row(stack, loss, zero, four, z, y, weight, members, state, room, begun, root, h):  # type: ignore[no-untyped-def]
    """The rest of a round of a stack, with its root. The scores of members are as they told them, so that their losses
    have exponentials in common with their steps.
    """
    ticks, t, like, quad = state.ticks, state.ticks[T] + 1.0, lanes(zero), lanes(four)
    ticks[T] = t
    if not begun.counts:
        return
    # 4. Losses.
    values = loss.value(with_lane(begun.s, 3, begun.score), y) + quad
    lost = choose(load_lanes(state.live, 0, like) > 0.0, weight * loss.value(z, y) + like, 0.0)
    store(state.losses, 1, load_lanes(state.losses, 1, like) + lost)
    state.losses[0] += weight * lane(values, 3)
    ticks[MASS] += weight
    if begun.goes_on:
        share_out_lanes(stack, values, begun.rate, t, state, room)
        move_stacks(stack, loss, zero, four, y, members, state, room, begun, root, h)


@inlined_strictly
def share_out_lanes(stack, values, rate, t, state, room):  # type: ignore[no-untyped-def]
    """`share_out`, in lanes."""
    J, values = state.v.shape[0], with_lane(values, 3, lane(values, 0))
    best = min(min(lane(values, 0), lane(values, 1)), lane(values, 2))
    share = load_lanes(state.share, 0, values)
    share = share * larger(1.0 / (1.0 + t), exponential(rate * (best - values)))  # also where losses are infinite
    common = stack.common_share(t)
    parts = load_lanes(room.rows, 4 * THERE, values) * (common / J)
    store(state.share, 0, share * ((1.0 - common) / total(share)) + parts)


@inlined_strictly
def move_stacks(stack, loss, zero, four, y, members, state, room, begun, root, h):  # type: ignore[no-untyped-def]
    """A step of each stack, and what it knows after it."""
    J, n, like, quad = state.v.shape[0], len(zero), lanes(zero), lanes(four)
    seen, rows, v, A, P, u = room.z, room.rows, flat(state.v), flat(state.A), flat(state.P), flat(room.u)
    z, q, p, rate = begun.z, begun.q, begun.p, begun.rate
    beta = root - begun.wrong
    if loss.kinked or loss.value_unit == 0.0:
        h = mean_curvature(loss, begun.s, begun.reach, y) + quad
    if loss.value_unit > 0.0:
        h = larger(h, stack.floor)
    elif loss.convexity > 0.0:
        most = stack.robust * square_root(begun.unit * loss.convexity / (1.0 + loss.convexity * p))
        over = abs(beta) > most
        h = choose(over, h * (most / choose(over, abs(beta), 1.0)), h)
        beta = choose(over, choose(beta > 0.0, most, -most), beta)
    h = smaller(rate * begun.part * h, LARGEST_SUM)
    h = choose(h * q > MOST_NEWS, MOST_NEWS / choose(q > 0.0, q, 1.0), h)
    news = h * q
    store(rows, 4 * PULLS, rate * beta)
    store(rows, 4 * CURVATURES, h)
    store(rows, 4 * LOST, h / (1.0 + news))
    for j in range(J):
        moved = load_lanes(u, j * n, like)
        store(v, j * n, load_lanes(v, j * n, like) + rows[4 * PULLS + j] * moved)
        told, less = rows[4 * CURVATURES + j] * z, rows[4 * LOST + j] * moved
        for k in range(members):
            place = (j * n + k) * n
            store(A, place, load_lanes(A, place, like) + told * seen[k])
            store(P, place, load_lanes(P, place, like) - less * u[j * n + k])
    most_news = max(max(lane(news, 0), lane(news, 1)), lane(news, 2))
    if information_is_new(stack, state, state.ticks[T], most_news):
        invert_lanes(stack, zero, state, room)


@inlined_strictly
def lane_stack_row(stack, loss, zero, four, z, y, weight, members, state, room):  # type: ignore[no-untyped-def]
    """`stack_row` in lanes; returns the score of the whole before it."""
    begun = begin_stack_row(stack, loss, zero, four, z, y, weight, members, state, room)
    root, h = lane_root(loss, lanes(four), *stack_start(four, begun), y, 1.0, room.spare[: 6 * len(four)])
    end_stack_row(stack, loss, zero, four, z, y, weight, members, state, room, begun, root, h)
    return begun.score


@jit
def lane_stack_rows(stack, loss, zero, four, Z, y, weight, members, state, room, scores):  # type: ignore[no-untyped-def]
    """`stack_rows` for scores [row, lane], as one axis, of so many members; for at most three stacks."""
    like, n, (Z, y, weight, scores) = lanes(zero), len(zero), borrowed((Z, y, weight, scores))
    stack, state, room = borrowed(stack), borrowed(state), borrowed(room)
    for r in range(y.shape[0]):
        z = load_lanes(Z, r * n, like)
        scores[r] = lane_stack_row(stack, loss, zero, four, z, y[r], weight[r], members, state, room)
