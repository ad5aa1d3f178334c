"""The compiled rounds with a measurement of each.

In Euclidean geometry with a penalty l1 |w| + l2 w^2 / 2, all weights whose feature is absent move by the law of the
lazy updates with `shared_decay` (`fiol.algorithms.lazy_updates`): u = abs(w) / clock.scale loses `Plan.l1_rate` per
unit of `clock.cumulative_l1` until it is 0. So sums over all absent weights follow from round to round without reading
any weight, but for those that become 0, which a heap finds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fiol.algorithms.state import aligned
from fiol.compiler.compiled import inlined, jit
from fiol.components.component import borrowed
from fiol.components.row import Floats
from fiol.engine.round.rounds import clock_from, clock_into, learn_row, row_buffers


class Sums(NamedTuple):
    """Sums over all absent weights that are not 0, with u = abs(w) / clock.scale."""

    number: float  #: of 1
    size: float  #: of u
    rate: float  #: of rate
    square: float  #: of u^2
    fall: float  #: of rate u
    rate_square: float  #: of rate^2
    along: float  #: of u times the comparator's weight, with the sign of w
    rate_along: float  #: of rate times the same


class Absent(NamedTuple):
    """The weights of absent features: sums over them, and which become 0 when.

    `sums` are the `Sums`, kept between calls. The heap holds the features whose end is near. Its keys are never later
    than the end, and are put right when they come up.
    """

    sums: Floats
    best: Floats  #: weights of the comparator
    end: Floats  #: what `clock.cumulative_l1` will say when the weight becomes 0; negative for weights not in the sums
    near: Floats  #: ends before this are near, as an array of one
    queue: Any  #: features in the heap, the earliest first
    key: Floats  #: and when they come up
    seat: Any  #: place of a feature in the heap, -1 if it has none
    waiting: Any  #: how many are in the heap, as an array of one
    before: Floats  #: the weights of a row before its round


def no_absent(best: Floats) -> Absent:
    """Sums over nothing, with room for as many features as the comparator has weights."""
    features = best.shape[0]
    end, key = aligned(features, np.float64), aligned(features, np.float64)
    queue, seat = aligned(features, np.int32), aligned(features, np.int32)
    sums, near, waiting, before = np.zeros(len(Sums._fields)), np.zeros(1), np.zeros(1, np.int64), np.zeros(0)
    return Absent(sums, best, end, near, queue, key, seat, waiting, before)


#: The end of weights that are not in the sums.
NOT_COUNTED = -1.0
#: How many ends are looked at per round, on average, to see which are near.
ENDS_PER_ROUND = 32.0


@inlined
def put_in_heap(absent, k, i, key):
    """Put feature i in place k of the heap."""
    absent.queue[k] = i
    absent.key[k] = key
    absent.seat[i] = k


@inlined
def sift_up(absent, k, i, key):
    """Put feature i into the heap, starting at place k, which is free."""
    while k > 0 and key < absent.key[(k - 1) // 2]:
        up = (k - 1) // 2
        put_in_heap(absent, k, absent.queue[up], absent.key[up])
        k = up
    put_in_heap(absent, k, i, key)


@inlined
def sift_down(absent, i, key):
    """Put feature i into the heap, whose first place is free."""
    k, waiting = 0, absent.waiting[0]
    while 2 * k + 1 < waiting:
        down = 2 * k + 1
        if down + 1 < waiting and absent.key[down + 1] < absent.key[down]:
            down += 1
        if key <= absent.key[down]:
            break
        put_in_heap(absent, k, absent.queue[down], absent.key[down])
        k = down
    put_in_heap(absent, k, i, key)


@inlined
def drop_first(absent):
    """Take the first feature out of the heap."""
    absent.seat[absent.queue[0]] = -1
    absent.waiting[0] -= 1
    last = absent.waiting[0]
    if last > 0:
        sift_down(absent, absent.queue[last], absent.key[last])


@inlined
def queue_up(absent, i, end):
    """Let feature i come up at `end` at the latest."""
    if absent.seat[i] < 0:
        absent.waiting[0] += 1
        sift_up(absent, absent.waiting[0] - 1, i, end)
    elif end < absent.key[absent.seat[i]]:
        sift_up(absent, absent.seat[i], i, end)


@inlined
def queue_near(absent, near):
    """Let all features come up whose end is before `near`."""
    absent.near[0] = near
    for i in range(np.uint64(absent.end.shape[0])):
        if 0.0 <= absent.end[i] < near:
            queue_up(absent, i, absent.end[i])


@inlined
def rate_of(plan, state, i):
    """How much u loses per unit of `clock.cumulative_l1`."""
    return plan.l1_rate(plan.step_of(state, i, 1.0), i)


@inlined
def penalty_of_sums(sums, scale, l1, l2):
    """The penalty of all absent weights."""
    return scale * (l1 * sums.size + 0.5 * l2 * scale * sums.square)


@inlined
def add_to(sums, times, u, rate, along):
    """Add a weight to the sums (`times` = 1), or take it away (-1)."""
    return Sums(
        sums.number + times,
        sums.size + times * u,
        sums.rate + times * rate,
        sums.square + times * u * u,
        sums.fall + times * rate * u,
        sums.rate_square + times * rate * rate,
        sums.along + times * along * u,
        sums.rate_along + times * along * rate,
    )


@inlined
def count_in(absent, sums, i, w, rate, clock):
    """Add weight i to the sums: its feature is absent from now on."""
    if w == 0.0:
        return sums
    u = abs(w) / clock.scale
    absent.end[i] = np.inf
    if rate > 0.0:
        end = clock.cumulative_l1 + u / rate
        absent.end[i] = end
        if end < absent.near[0]:
            queue_up(absent, i, end)
    return add_to(sums, 1.0, u, rate, absent.best[i] if w > 0.0 else -absent.best[i])


@inlined
def count_out(absent, sums, i, u, positive, rate):
    """Take weight i out of the sums; the end of the weight, not its last bit, says whether the sums hold it."""
    if absent.end[i] < 0.0:
        return sums
    absent.end[i] = NOT_COUNTED
    return add_to(sums, -1.0, u, rate, absent.best[i] if positive else -absent.best[i])


@inlined
def count_all(plan, state, absent, clock):
    """The sums over all weights, from nothing."""
    sums = Sums(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    absent.end[:] = NOT_COUNTED
    absent.seat[:] = -1
    absent.waiting[0] = 0
    absent.near[0] = 0.0
    for i in range(np.uint64(state.w.shape[0])):
        w = plan.anchor.weight_of_score(plan, state, i, 0, clock)
        sums = count_in(absent, sums, i, w, rate_of(plan, state, i), clock)
    return sums


@inlined
def pass_round(plan, state, absent, sums, clock, after):
    """A round of all absent weights: the sums after it, and the sum of (w_new - w)^2."""
    moved, more = 0.0, after.cumulative_l1 - clock.cumulative_l1
    if after.cumulative_l1 >= absent.near[0] and more > 0.0:
        queue_near(absent, after.cumulative_l1 + more * max(16.0, absent.end.shape[0] / ENDS_PER_ROUND))
    while absent.waiting[0] > 0 and absent.key[0] <= after.cumulative_l1:
        i = absent.queue[0]
        end = absent.end[i]
        if end > after.cumulative_l1:
            sift_down(absent, i, end)  # the key was too early
            continue
        drop_first(absent)
        if end >= 0.0:
            rate = rate_of(plan, state, i)
            u = rate * (end - clock.cumulative_l1)
            sums = count_out(absent, sums, i, u, state.w[i] > 0.0, rate)
            moved += (clock.scale * u) * (clock.scale * u)
    lost = clock.scale - after.scale
    taken = after.scale * more
    moved += lost * lost * sums.square + 2.0 * lost * taken * sums.fall + taken * taken * sums.rate_square
    return moved, Sums(
        sums.number,
        sums.size - more * sums.rate,
        sums.rate,
        sums.square + more * (more * sums.rate_square - 2.0 * sums.fall),
        sums.fall - more * sums.rate_square,
        sums.rate_square,
        sums.along - more * sums.rate_along,
        sums.rate_along,
    )


@jit
def measure_rows(
    plan,
    intercept_plan,
    chunk,
    y,
    weight,
    state,
    intercept,
    ticks,
    buffers,
    intercept_buffers,
    absent,
    l1,
    l2,
    far,
    intercept_best,
    stale,
    scores,
    out,
):
    """`learn_rows` with a measurement of every round, at a cost that hardly depends on the number of features.

    For the last iterate in Euclidean geometry, with a penalty l1 |w| + l2 w^2 / 2. A row of `out` is a
    `fiol.regret.measuring.Measurement`. `far` is the comparator's square; `stale` says, coming in and going out, that
    the sums over absent weights have to be made anew.
    """
    (indptr, indices, data), y, weight = borrowed(chunk), borrowed(y), borrowed(weight)
    state, intercept = borrowed(state), borrowed(intercept)
    buffers, intercept_buffers = row_buffers(buffers), row_buffers(intercept_buffers)
    absent = borrowed(absent)
    loss, clock, zero, kept = plan.problem.loss, clock_from(ticks), np.uint64(0), absent.sums
    sums = Sums(kept[0], kept[1], kept[2], kept[3], kept[4], kept[5], kept[6], kept[7])
    for r in range(y.shape[0]):
        first, last = indptr[r], indptr[r + 1]
        feature, x, row_weight = indices[first:last], data[first:last], weight[r]
        eta = plan.step_size.eta(clock.t + 1.0)
        now = plan.lazy_update.before_round(plan, state, clock, eta)
        if stale or now.scale != clock.scale:
            sums = count_all(plan, state, absent, now)
        clock = now
        # The weights of the row leave the sums.
        for k in range(x.shape[0]):
            i = np.uint64(np.uint32(feature[k]))
            w = plan.anchor.weight_of_score(plan, state, i, 0, clock)
            sums = count_out(absent, sums, i, abs(w) / clock.scale, state.w[i] > 0.0, rate_of(plan, state, i))
            absent.before[k] = plan.anchor.weight_for_value(plan, state, i, x[k], w)
        old_intercept = (
            intercept_plan.anchor.weight_of_score(intercept_plan, intercept, zero, 0, clock)
            if intercept.w.shape[0] > 0
            else 0.0
        )
        # The absent weights' terms, before the round and after it.
        scale = clock.scale
        penalty = penalty_of_sums(sums, scale, l1, l2)
        norm = l1 * l1 * sums.number + l2 * scale * (2.0 * l1 * sums.size + l2 * scale * sums.square)
        distance = far + scale * (scale * sums.square - 2.0 * sums.along)
        z, new = learn_row(
            plan, intercept_plan, feature, x, y[r], row_weight, state, intercept, clock, buffers, intercept_buffers, 0.0
        )
        after = plan.lazy_update.tick(plan, clock, eta)
        moved, sums = pass_round(plan, state, absent, sums, clock, after)
        penalty_after = penalty_of_sums(sums, after.scale, l1, l2)
        # The terms of the row's own weights.
        slope = row_weight * loss.grad(z, y[r])
        bent = z_after = z_best = square = 0.0
        for k in range(x.shape[0]):
            i = np.uint64(np.uint32(feature[k]))
            old, best = absent.before[k], absent.best[i]
            w = plan.anchor.weight_of_score(plan, state, i, 0, new)
            sign = 1.0 * (old > 0.0) - 1.0 * (old < 0.0)
            pull = slope * x[k] + (l1 * sign + l2 * old)
            penalty += l1 * abs(old) + 0.5 * l2 * old * old
            penalty_after += l1 * abs(w) + 0.5 * l2 * w * w
            bent += abs(w) - sign * w  # |w| - |old| - sign (w - old)
            moved += (w - old) * (w - old)
            norm += pull * pull
            distance += (best - old) * (best - old) - best * best
            square += x[k] * x[k]
            z_after += x[k] * w
            z_best += x[k] * best
            sums = count_in(absent, sums, i, w, rate_of(plan, state, i), after)
        if intercept.w.shape[0] > 0:
            z_after += intercept_plan.anchor.weight_of_score(intercept_plan, intercept, zero, 0, new)
            z_best += intercept_best
            square += 1.0
            norm += slope * slope
            distance += (intercept_best - old_intercept) * (intercept_best - old_intercept)
        stale = new.scale != after.scale
        if sums.number == 0.0:  # nothing is left: neither is rounding
            sums = Sums(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        clock = new
        value, value_after = row_weight * loss.value(z, y[r]), row_weight * loss.value(z_after, y[r])
        improvement = (value_after - value - slope * (z_after - z)) + l1 * bent + 0.5 * l2 * moved
        scores[r] = z
        out[r, 0], out[r, 1], out[r, 2], out[r, 3] = value, penalty, improvement, np.sqrt(norm)
        out[r, 4], out[r, 5], out[r, 6], out[r, 7] = 0.5 * distance, sums.number, value_after, penalty_after
        out[r, 8], out[r, 9], out[r, 10] = abs(slope), square, row_weight * loss.value(z_best, y[r])
        out[r, 11] = row_weight
    kept[0], kept[1], kept[2], kept[3] = sums.number, sums.size, sums.rate, sums.square
    kept[4], kept[5], kept[6], kept[7] = sums.fall, sums.rate_square, sums.along, sums.rate_along
    clock_into(ticks, clock)
    return stale
