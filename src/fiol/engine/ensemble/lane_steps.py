"""Loops over the records of a row for members in SIMD lanes: their steps before the root, their weights after it.

Members whose steps do not depend on sums take one step for all features of a row, in the unit of each. Where all
members in the second half of the lanes are such, sums have half as many lanes: `LaneMemory.first`.
"""

from __future__ import annotations

import numpy as np

from fiol.compiler.compiled import inlined_strictly
from fiol.components.simd import (
    choose,
    first_lanes,
    is_short,
    lanes,
    like_lanes,
    load_lanes,
    smaller,
    square_root,
    store,
    with_first,
    with_lane,
)
from fiol.components.step_sizes.rule import LARGEST_SUM, LONGEST, add_to_sum, metric, step_length, steps_under_ridge
from fiol.engine.ensemble.lane_records import (
    ENTRIES_AHEAD,
    by_unit,
    last_prefetched,
    prefetch_record,
    ridge_in_lanes,
    rule_in_lanes,
    whole_floats,
)

INFINITE = np.inf


@inlined_strictly
def uses_sums(rule):
    """Return in which lanes steps depend on sums."""
    return rule.root + rule.part > 0.0


@inlined_strictly
def squared_value(rule, value, raw, memory):
    """Return the square of the value that members learn from: `raw` where they are not scale-free."""
    if len(memory.as_they_are) == 0:
        return 0.0 * rule.scale_free + value * value
    return by_unit(rule, value * value, raw * raw)


@inlined_strictly
def write_steps(loss, n, like, feature, x, square, base, size, memory):
    """Write the steps of a row's weights, of members with sums; return what a pull of 1 moves their scores by."""
    rule, width, m = rule_in_lanes(memory.rules, n, like), np.uint64(n), np.uint64(len(like))
    parts, stride = memory.parts, np.uint64(len(memory.vectors) * n)
    gain, base, size = first_lanes(square, like), first_lanes(base, like), first_lanes(size, like)
    p = 0.0 * first_lanes(square, lanes(memory.first))
    last_ahead = last_prefetched(feature, memory.vectors, n)
    for j in range(x.shape[0]):
        if j < last_ahead:
            prefetch_record(feature, j + ENTRIES_AHEAD, memory.records, memory.vectors, n)
        i, part, unit = np.uint64(np.uint32(feature[j])) * stride, parts[2 * j], parts[2 * j + 1]
        grown = gain * squared_value(rule, memory.values[j], x[j], memory)
        s = add_to_sum(load_lanes(memory.records, i + width, like), grown)
        if len(memory.as_they_are) == 0:  # all members are scale-free
            root, far = square_root(s) * unit, like + part * part
        else:
            root, far = square_root(s) * by_unit(rule, unit, 1.0), by_unit(rule, part * part, x[j] * x[j])
        step = step_length(size, metric(rule, base, root, root * root))
        if loss.has_step_scale:
            step = smaller(step, by_unit(rule, LONGEST / (unit * unit), INFINITE))
        store(memory.steps, np.uint64(j) * m, step)
        p = p + like_lanes(step * far, p)
    return p


@inlined_strictly
def move_weights(loss, like, few, feature, x, common, beta, more, memory):
    """Move a row's weights by their steps times beta, and let sums grow by `more` x^2.

    Members without sums have `common` steps in any lane, unless every feature has a longest one.
    """
    n, width, m = len(beta), np.uint64(len(beta)), np.uint64(len(few))
    rule, parts, stride = rule_in_lanes(memory.rules, n, beta), memory.parts, np.uint64(len(memory.vectors) * n)
    scaled, raw = by_unit(rule, beta, 0.0), by_unit(rule, 0.0, beta)
    far_scaled, far_raw = like_lanes(common * scaled, like), like_lanes(common * raw, like)
    scaled, raw, more = first_lanes(scaled, few), first_lanes(raw, few), first_lanes(more, few)
    of_sums = rule_in_lanes(memory.rules, n, few)
    own = uses_sums(of_sums)
    last_ahead = last_prefetched(feature, memory.vectors, n)
    for j in range(x.shape[0]):
        if j < last_ahead:
            prefetch_record(feature, j + ENTRIES_AHEAD, memory.records, memory.vectors, n)
        i, value, turn = np.uint64(np.uint32(feature[j])) * stride, x[j], parts[2 * j] * parts[2 * j + 1]
        step = load_lanes(memory.steps, np.uint64(j) * m, few)
        if len(memory.as_they_are) == 0:
            far, near = far_scaled * turn, step * (scaled * turn)
        else:
            far, near = far_raw * value + far_scaled * turn, step * (raw * value + scaled * turn)
        if not loss.has_step_scale:
            near = choose(own, near, first_lanes(far, few))
        store(memory.records, i, load_lanes(memory.records, i, like) + with_first(far, near))
        s = load_lanes(memory.records, i + width, few)
        grown = more * squared_value(of_sums, memory.values[j], value, memory)
        store(memory.records, i + width, add_to_sum(s, grown))


@inlined_strictly
def write_ridge_steps(like, feature, x, square, base, length, size, t, memory, lift):
    """Write the steps of a row's weights under a ridge, and its records but for weights and this round's curvature.

    Returns what a pull of 1 moves scores by, without and with the ridge, and what the ridge takes from scores. A weight
    of which a ridge leaves 1 / (1 + ridge step) has a step times that factor, which is at most 1 / ridge.
    """
    n, records, parts = np.uint64(len(like)), memory.records, memory.parts
    rule, stride = rule_in_lanes(memory.rules, len(like), like), np.uint64(len(memory.vectors)) * n
    gain, base, size = like_lanes(square, like), like_lanes(base, like), like_lanes(size, like)
    ridge, length = ridge_in_lanes(memory.rules, len(like), like), rule.length * like_lanes(length, like)
    straight, p, taken = lift, lift, like_lanes(like, lift)
    last, rest = n - np.uint64(1), np.uint64(2) * n
    early = whole_floats(t)
    for j in range(x.shape[0]):
        i, part, unit = np.uint64(np.uint32(feature[j])) * stride, parts[2 * j], parts[2 * j + 1]
        value, raw = memory.values[j], x[j]
        s = load_lanes(records, i + n, like) + rule.curvatures * load_lanes(records, i + rest, like)
        s = add_to_sum(s, gain * squared_value(rule, value, raw, memory))
        store(records, i + n, with_lane(s, last, t - early))
        if records.itemsize == 4 and not is_short(like):
            s = load_lanes(records, i + n, like)  # the root is that of the stored sum
        root, far = square_root(s), by_unit(rule, part * part, raw * raw)
        store(records, i + rest, with_lane(choose(rule.root > 0.0, root, length), last, early))
        root = root * by_unit(rule, unit, 1.0)
        h = metric(rule, base, root, root * root)
        free, step = steps_under_ridge(size, h, ridge)
        straight = straight + like_lanes(free * far, p)
        score = load_lanes(records, i, like) * by_unit(rule, value, raw)
        taken = taken + like_lanes(ridge * step * score, p)
        store(memory.steps, np.uint64(j) * n, step)
        p = p + like_lanes(step * far, p)
    return straight, p, taken


@inlined_strictly
def move_under_ridge(like, feature, x, beta, curvature, memory):
    """Move a row's weights by their steps times beta less the ridge, and note its curvatures: other sums have grown."""
    n, records, parts = np.uint64(len(like)), memory.records, memory.parts
    rule, stride = rule_in_lanes(memory.rules, len(like), like), np.uint64(len(memory.vectors)) * n
    beta, curvature, rest = like_lanes(beta, like), like_lanes(curvature, like), np.uint64(2) * n
    ridge = ridge_in_lanes(memory.rules, len(like), like)
    scaled, raw = by_unit(rule, beta, 0.0), by_unit(rule, 0.0, beta)
    for j in range(x.shape[0]):
        i, value = np.uint64(np.uint32(feature[j])) * stride, x[j]
        w, step = load_lanes(records, i, like), load_lanes(memory.steps, np.uint64(j) * n, like)
        pull = raw * value + scaled * (parts[2 * j] * parts[2 * j + 1]) - ridge * w
        met = smaller(curvature * squared_value(rule, memory.values[j], value, memory), LARGEST_SUM)
        store(records, i + rest, load_lanes(records, i + rest, like) + met)
        store(records, i, w + step * pull)
