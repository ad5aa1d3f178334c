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
from fiol.algorithms.stored_weights import before_round
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
    than the end, and are corrected when they are first in the heap.
    """

    sums: Floats
    best: Floats  #: weights of the comparator
    end: Floats  #: `clock.cumulative_l1` when the weight becomes 0; negative for weights not in the sums
    near: Floats  #: ends before this are near, as an array of one
    queue: Any  #: features in the heap, the earliest first
    key: Floats  #: their keys
    heap_place: Any  #: place of a feature in the heap, -1 if it has none
    heap_size: Any  #: the size of the heap, as an array of one
    before: Floats  #: the weights of a row before its round


def no_absent(best: Floats) -> Absent:
    """Return sums over no weights, with memory for the features of the comparator."""
    features = best.shape[0]
    end, key = aligned(features, np.float64), aligned(features, np.float64)
    queue, places = aligned(features, np.int32), aligned(features, np.int32)
    sums, near, size, before = np.zeros(len(Sums._fields)), np.zeros(1), np.zeros(1, np.int64), np.zeros(0)
    return Absent(sums, best, end, near, queue, key, places, size, before)


#: The end of weights that are not in the sums.
NOT_COUNTED = -1.0
#: The number of ends that are compared per round, on average, to find which are near.
ENDS_PER_ROUND = 32.0


@inlined
def put_in_heap(absent, k, i, key):
    """Put feature i in place k of the heap."""
    absent.queue[k] = i
    absent.key[k] = key
    absent.heap_place[i] = k


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
    k, size = 0, absent.heap_size[0]
    while 2 * k + 1 < size:
        down = 2 * k + 1
        if down + 1 < size and absent.key[down + 1] < absent.key[down]:
            down += 1
        if key <= absent.key[down]:
            break
        put_in_heap(absent, k, absent.queue[down], absent.key[down])
        k = down
    put_in_heap(absent, k, i, key)


@inlined
def drop_first(absent):
    """Take the first feature out of the heap."""
    absent.heap_place[absent.queue[0]] = -1
    absent.heap_size[0] -= 1
    last = absent.heap_size[0]
    if last > 0:
        sift_down(absent, absent.queue[last], absent.key[last])


@inlined
def queue_up(absent, i, end):
    """Put feature i into the heap with a key of at most `end`."""
    if absent.heap_place[i] < 0:
        absent.heap_size[0] += 1
        sift_up(absent, absent.heap_size[0] - 1, i, end)
    elif end < absent.key[absent.heap_place[i]]:
        sift_up(absent, absent.heap_place[i], i, end)


@inlined
def queue_near(absent, near):
    """Put all features into the heap whose end is before `near`."""
    absent.near[0] = near
    for i in range(np.uint64(absent.end.shape[0])):
        if 0.0 <= absent.end[i] < near:
            queue_up(absent, i, absent.end[i])


@inlined
def rate_of(plan, state, i):
    """Return what u loses per unit of `clock.cumulative_l1`."""
    return plan.l1_rate(plan.step_of(state, i, 1.0), i)


@inlined
def penalty_of_sums(sums, scale, l1, l2):
    """Return the penalty of all absent weights."""
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
    """Take weight i out of the sums; they hold it if its end is not negative, whatever its last bit."""
    if absent.end[i] < 0.0:
        return sums
    absent.end[i] = NOT_COUNTED
    return add_to(sums, -1.0, u, rate, absent.best[i] if positive else -absent.best[i])


@inlined
def count_all(plan, state, absent, clock):
    """Return the sums over all weights, computed anew."""
    sums = Sums(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    absent.end[:] = NOT_COUNTED
    absent.heap_place[:] = -1
    absent.heap_size[0] = 0
    absent.near[0] = 0.0
    for i in range(np.uint64(state.w.shape[0])):
        w = plan.anchor.weight_of_score(plan, state, i, 0, clock)
        sums = count_in(absent, sums, i, w, rate_of(plan, state, i), clock)
    return sums


@inlined
def pass_round(plan, state, absent, sums, clock, after):
    """Make a round of all absent weights; return the sum of (w_new - w)^2, and the sums after it."""
    moved, more = 0.0, after.cumulative_l1 - clock.cumulative_l1
    if after.cumulative_l1 >= absent.near[0] and more > 0.0:
        queue_near(absent, after.cumulative_l1 + more * max(16.0, absent.end.shape[0] / ENDS_PER_ROUND))
    while absent.heap_size[0] > 0 and absent.key[0] <= after.cumulative_l1:
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


class RowTerms(NamedTuple):
    """What the weights of a row's features add to the measurement of its round."""

    penalty: float  #: before the round
    penalty_after: float
    bent: float  #: the sum of |w_new| - |w| - sign(w) (w_new - w)
    moved: float  #: the sum of (w_new - w)^2
    norm: float  #: the square of the gradient
    distance: float  #: the sum of (w* - w)^2 - w*^2
    square: float  #: |x|^2
    z_after: float  #: the score of the new weights
    z_best: float  #: the score of the comparator


@inlined
def leave_sums(plan, state, feature, x, absent, sums, clock):
    """Take the weights of a row out of the sums, and write what the round starts from to `absent.before`."""
    for k in range(x.shape[0]):
        i = np.uint64(np.uint32(feature[k]))
        w = plan.anchor.weight_of_score(plan, state, i, 0, clock)
        sums = count_out(absent, sums, i, abs(w) / clock.scale, state.w[i] > 0.0, rate_of(plan, state, i))
        absent.before[k] = plan.anchor.weight_for_value(plan, state, i, x[k], w)
    return sums


@inlined
def enter_sums(plan, state, feature, x, slope, absent, sums, new, after, l1, l2):
    """Return the `RowTerms` of a row after its round, and the sums with its weights: they are absent from now on."""
    penalty = penalty_after = bent = moved = norm = distance = square = z_after = z_best = 0.0
    for k in range(x.shape[0]):
        i = np.uint64(np.uint32(feature[k]))
        old, best = absent.before[k], absent.best[i]
        w = plan.anchor.weight_of_score(plan, state, i, 0, new)
        sign = 1.0 * (old > 0.0) - 1.0 * (old < 0.0)
        pull = slope * x[k] + (l1 * sign + l2 * old)
        penalty += l1 * abs(old) + 0.5 * l2 * old * old
        penalty_after += l1 * abs(w) + 0.5 * l2 * w * w
        bent += abs(w) - sign * w
        moved += (w - old) * (w - old)
        norm += pull * pull
        distance += (best - old) * (best - old) - best * best
        square += x[k] * x[k]
        z_after += x[k] * w
        z_best += x[k] * best
        sums = count_in(absent, sums, i, w, rate_of(plan, state, i), after)
    return RowTerms(penalty, penalty_after, bent, moved, norm, distance, square, z_after, z_best), sums


@inlined
def intercept_at(intercept_plan, intercept, clock):
    """Return the intercept, 0 without one."""
    if intercept.w.shape[0] == 0:
        return 0.0
    return intercept_plan.anchor.weight_of_score(intercept_plan, intercept, np.uint64(0), 0, clock)


@jit
def measure_rows(plan, intercept_plan, chunk, y, weight, memory, absent, strengths, comparator, stale, scores, out):
    """Make a round per row, and measure it at a cost that hardly depends on the number of features.

    For the last iterate in Euclidean geometry, with a penalty l1 |w| + l2 w^2 / 2. A row of `out` is a
    `fiol.regret.measuring.Measurement`. `memory` is `UpdateEngine.memory`, `strengths` are (l1, l2), and `comparator`
    is the square of its weights and its intercept. `stale`, given and returned, is whether the sums over absent weights
    have to be computed anew.
    """
    (indptr, indices, data), y, weight, absent = borrowed((chunk, y, weight, absent))
    state, intercept, ticks, buffers, intercept_buffers = memory
    state, intercept = borrowed(state), borrowed(intercept)
    buffers, intercept_buffers = row_buffers(buffers), row_buffers(intercept_buffers)
    (l1, l2), (far, intercept_best) = strengths, comparator
    loss, clock, kept, ones = plan.problem.loss, clock_from(ticks), absent.sums, 1.0 * intercept.w.shape[0]
    sums = Sums(kept[0], kept[1], kept[2], kept[3], kept[4], kept[5], kept[6], kept[7])
    for r in range(y.shape[0]):
        feature, x = indices[indptr[r] : indptr[r + 1]], data[indptr[r] : indptr[r + 1]]
        eta = plan.step_size.eta(clock.t + 1.0)
        now = before_round(plan, state, clock, eta)
        if stale or now.scale != clock.scale:
            sums = count_all(plan, state, absent, now)
        # 1. The terms of absent weights before the round.
        sums, scale = leave_sums(plan, state, feature, x, absent, sums, now), now.scale
        away = ones * (intercept_best - intercept_at(intercept_plan, intercept, now))
        penalty = penalty_of_sums(sums, scale, l1, l2)
        norm = l1 * l1 * sums.number + l2 * scale * (2.0 * l1 * sums.size + l2 * scale * sums.square)
        distance = far + scale * (scale * sums.square - 2.0 * sums.along) + away * away
        # 2. The round, and the terms of absent weights after it.
        row = feature, x, y[r], weight[r], state, intercept, now, buffers, intercept_buffers
        z, clock = learn_row(plan, intercept_plan, *row, 0.0)
        after = plan.lazy_update.tick(plan, now, eta)
        moved, sums = pass_round(plan, state, absent, sums, now, after)
        penalty_after = penalty_of_sums(sums, after.scale, l1, l2)
        # 3. The terms of the row's own weights.
        slope = weight[r] * loss.grad(z, y[r])
        own, sums = enter_sums(plan, state, feature, x, slope, absent, sums, clock, after, l1, l2)
        stale = clock.scale != after.scale
        if sums.number == 0.0:  # neither weights nor rounding are left
            sums = Sums(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        z_after = own.z_after + intercept_at(intercept_plan, intercept, clock)
        value, value_after = weight[r] * loss.value(z, y[r]), weight[r] * loss.value(z_after, y[r])
        best_value = weight[r] * loss.value(own.z_best + ones * intercept_best, y[r])
        improvement = (value_after - value - slope * (z_after - z)) + l1 * own.bent + 0.5 * l2 * (moved + own.moved)
        scores[r] = z
        out[r, 0], out[r, 1], out[r, 2] = value, penalty + own.penalty, improvement
        out[r, 3], out[r, 4] = np.sqrt(norm + own.norm + ones * slope * slope), 0.5 * (distance + own.distance)
        out[r, 5], out[r, 6], out[r, 7] = sums.number, value_after, penalty_after + own.penalty_after
        out[r, 8], out[r, 9], out[r, 10], out[r, 11] = abs(slope), own.square + ones, best_value, weight[r]
    kept[0], kept[1], kept[2], kept[3] = sums.number, sums.size, sums.rate, sums.square
    kept[4], kept[5], kept[6], kept[7] = sums.fall, sums.rate_square, sums.along, sums.rate_along
    clock_into(ticks, clock)
    return stale
