"""Rounds of an ensemble's members in SIMD lanes: one pass over the rows for all, one operation for a number of each.

A round has the four steps of `learn_row` in `fiol.engine.round.rounds`, and calls the same formulas
(`fiol.components.step_sizes.rule`, `fiol.engine.round.rounding`). What differs is the memory: a feature has one record
for all members (`fiol.engine.ensemble.lane_records`). Results differ from those of the members alone by rounding.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fiol.compiler.compiled import inlined_strictly, jit
from fiol.components.component import borrowed
from fiol.components.simd import (
    anywhere,
    choose,
    first_lanes,
    is_short,
    lanes,
    load_lanes,
    smaller,
    square_root,
    store,
    with_first,
    with_lane,
)
from fiol.components.step_sizes.rule import (
    LARGEST_SUM,
    RoundScale,
    add_to_sum,
    base_metric,
    learned_value,
    metric,
    observed_curvature,
    round_scale,
    shrink,
    step_length,
)
from fiol.engine.ensemble.exact_root import root_in_lanes
from fiol.engine.ensemble.lane_records import (
    CACHE,
    ENTRIES_AHEAD,
    by_unit,
    current_weights,
    prefetch_record,
    prefetch_row,
    rule_in_lanes,
)
from fiol.engine.ensemble.lane_steps import (
    move_under_ridge,
    move_weights,
    uses_sums,
    write_ridge_steps,
    write_steps,
)
from fiol.engine.round.rounding import kink_range, kink_within, rounding_tolerance

#: float32 has digits enough for steps where no value is larger than this, or smaller than one by this.
FAR_APART = 1e15


class LaneScores(NamedTuple):
    """What a row is to all members before their round."""

    z: Any  #: its scores
    own: Any  #: the intercepts, which are part of these
    length: float  #: its squared length in units of the largest values,
    raw: float  #: and as it is, if any member is not scale-free
    wide: bool  #: whether values are so large or small that steps need double precision


class MemberSteps(NamedTuple):
    """The steps of all members in a round, before the root is known."""

    z: Any  #: the scores before the round
    q: Any  #: the scores that the ridge leaves of them
    p: Any  #: what steps move these by, per pull,
    straight: Any  #: and what they would without a ridge
    tolerance: Any  #: the rounding tolerance of the scores
    scale: RoundScale
    lift: Any  #: the step of the intercept
    lengths: Any  #: the squared length of the row
    common: Any  #: the steps of members without sums
    wide: Any  #: whether steps need double precision


@inlined_strictly
def tolerance_of_scores(loss, rule, feature, x, y, z, own, memory):
    """Return the rounding tolerance of every score; 0 where no kink is near."""
    near, stride = kink_range(z, y), np.uint64(len(memory.vectors) * len(z))
    close = choose(kink_within(loss, z, near, y), rule.adaptive, 0.0)
    if y == 0.0:
        close = rule.adaptive
    if not anywhere(close > 0.0):
        return 0.0 * rule.adaptive
    terms = abs(own)
    for j in range(x.shape[0]):
        w = load_lanes(memory.records, np.uint64(np.uint32(feature[j])) * stride, z)
        terms = terms + abs(w * by_unit(rule, memory.values[j], x[j]))
    return choose(close > 0.0, rounding_tolerance(terms, near, y), 0.0)


@inlined_strictly
def read_members(like, feature, x, memory):
    """Return the scores of a row, and write the values that scale-free members learn from to `memory.values`.

    Weights are brought up to date, and largest values include this row's.
    """
    vectors, records, parts, values = memory.vectors, memory.records, memory.parts, memory.values
    rule, last, t = rule_in_lanes(memory.rules, len(like), like), np.uint64(len(like) - 1), memory.ticks[0]
    stride = np.uint64(len(vectors) * len(like))
    own, z = load_lanes(memory.intercept, 0, like) * memory.has_intercept, like
    length, raw, wide = 0.0, 0.0, False
    last_ahead = x.shape[0] - ENTRIES_AHEAD if records.nbytes > CACHE else 0
    for j in range(x.shape[0]):
        i, value = np.uint64(np.uint32(feature[j])) * stride, x[j]
        if j < last_ahead:
            prefetch_record(feature, j + ENTRIES_AHEAD, records, vectors, len(like))
        w = current_weights(memory.rules, vectors, like, records, i, t)
        size, peak = abs(value), 1.0 * records[i + last]
        if size > peak:
            value = learned_value(value, peak)
            size = abs(value)
            w = w * by_unit(rule, shrink(peak, size), 1.0)
            store(records, i, with_lane(w, last, size))
            peak, w = size, load_lanes(records, i, like)  # which may be stored in float32
        elif len(vectors) == 3:
            store(records, i, w)
        unit = 1.0 / peak
        part = value * unit
        parts[2 * j], parts[2 * j + 1], values[j] = part, unit, value
        length += part * part
        if len(memory.as_they_are) > 0:
            raw += x[j] * x[j]
            wide = wide or abs(x[j]) > FAR_APART
            z = z + w * by_unit(rule, value, x[j])
        else:
            z = z + w * value
        wide = wide or peak > FAR_APART or size < 1.0 / FAR_APART
    return LaneScores(with_lane(z + own, last, 0.0), own, length, raw, wide)


@inlined_strictly
def prepare_members(loss, like, digits, feature, x, y, weight, memory, row):
    """Return the `MemberSteps` of a row with these `LaneScores`: all that the root depends on.

    `ticks` are the number of rounds, then `Clock.slopes` of every lane, then the squared length of the last row.
    """
    n, has_intercept, t = len(like), memory.has_intercept, memory.ticks[0] + 1.0
    rule, vectors = rule_in_lanes(memory.rules, n, like), memory.vectors
    z, wide, inner = row.z, row.wide, by_unit(rule, row.length, row.raw)
    lengths, tolerance = inner + has_intercept, like
    if loss.kinked:
        tolerance = tolerance_of_scores(loss, rule, feature, x, y, z, row.own, memory)
    slopes = load_lanes(memory.ticks, 1, like)
    scale = round_scale(loss, rule, z, tolerance, y, weight, lengths, slopes, t)
    square, base, size = scale.square * rule.squares, base_metric(rule, lengths), scale.step_scale * rule.size
    own_sums = add_to_sum(load_lanes(memory.intercept, np.uint64(n), like), square)
    lift = step_length(size, metric(rule, base, square_root(own_sums), own_sums)) * has_intercept
    if is_short(digits):
        wide = wide or anywhere((square > FAR_APART) | (size > FAR_APART) | (base > FAR_APART))
    common = step_length(size, base)
    if len(vectors) == 3:
        if wide and is_short(digits):
            moved = write_ridge_steps(like, feature, x, square, base, lengths, size, t, memory, lift)
        else:
            moved = write_ridge_steps(digits, feature, x, square, base, lengths, size, t, memory, lift)
        straight, p, taken = moved
        return MemberSteps(z, z - taken, p, straight, tolerance, scale, lift, lengths, common, wide)
    if wide and is_short(digits):
        p = write_steps(loss, n, lanes(memory.first), feature, x, square, base, size, memory)
    else:
        p = write_steps(loss, n, lanes(memory.some), feature, x, square, base, size, memory)
    if not loss.has_step_scale:
        p = choose(uses_sums(rule_in_lanes(memory.rules, n, p)), p, first_lanes(common * inner, p))
    p = with_first(common * inner, p) + lift
    return MemberSteps(z, z, p, p, tolerance, scale, lift, lengths, common, wide)


@inlined_strictly
def finish_members(loss, like, digits, feature, x, y, weight, memory, steps, beta, curvature):
    """Move all weights by the root beta, and let sums grow."""
    width, last = np.uint64(len(like)), np.uint64(len(like) - 1)
    rule, vectors, intercept = rule_in_lanes(memory.rules, len(like), like), memory.vectors, memory.intercept
    wide, step_scale, short = steps.wide, steps.scale.step_scale, is_short(digits)
    if loss.kinked and len(vectors) == 3:  # over a step that began at z
        met = loss.curvature(steps.z, steps.q + steps.p * beta, beta, steps.tolerance, step_scale, y, weight)
        curvature = smaller(met + like, LARGEST_SUM)
    curvature = observed_curvature(curvature, steps.straight, step_scale) * rule.curvatures
    more = steps.scale.square * rule.squares + curvature
    if len(vectors) == 3:
        if wide and short:
            move_under_ridge(like, feature, x, beta, curvature, memory)
        else:
            move_under_ridge(digits, feature, x, beta, curvature, memory)
    elif wide and short:
        move_weights(loss, like, lanes(memory.first), feature, x, steps.common, beta, more, memory)
    else:
        move_weights(loss, digits, lanes(memory.some), feature, x, steps.common, beta, more, memory)
    store(intercept, 0, with_lane(load_lanes(intercept, 0, like) + steps.lift * beta, last, 1.0))
    store(intercept, width, add_to_sum(load_lanes(intercept, width, like), more))
    memory.ticks[0] += 1.0
    store(memory.ticks, 1, steps.scale.slopes)
    store(memory.ticks, 1 + len(like), steps.lengths)


@inlined_strictly
def learn_member_row(loss, like, digits, feature, x, y, weight, memory):
    """Make one round of all members; return their scores before it."""
    row = read_members(like, feature, x, memory)
    steps = prepare_members(loss, like, digits, feature, x, y, weight, memory, row)
    q, p, reach = steps.q, steps.p, steps.scale.step_scale
    beta, curvature = root_in_lanes(loss, like, q, p, steps.tolerance, reach, y, weight, memory.spare)
    finish_members(loss, like, digits, feature, x, y, weight, memory, steps, beta, curvature)
    return steps.z


@jit
def learn_lanes(loss, zero, digits, chunk, y, weight, memory, scores):
    """Make a round for every row; write the scores before each: [row, lane], as one axis.

    `zero` has a 0 for every lane, and so has `digits`, whose type is that of steps.
    """
    (indptr, indices, data), y, weight = borrowed(chunk), borrowed(y), borrowed(weight)
    memory, scores, width = borrowed(memory), borrowed(scores), len(zero)
    like, digits = lanes(zero), lanes(digits)
    for r in range(y.shape[0]):
        first, last = indptr[r], indptr[r + 1]
        if r + 1 < y.shape[0]:
            prefetch_row(indices, last, indptr[r + 2], memory.records, memory.vectors, width)
        z = learn_member_row(loss, like, digits, indices[first:last], data[first:last], y[r], weight[r], memory)
        store(scores, r * width, z)
