"""Members of an ensemble as lanes: one pass over the rows for all, one operation for a number of each.

A feature has one record for all members: their weights, then their sums (`LaneRule`), a lane each. The last lane is
no member: among the weights it is the feature's largest absolute value. In a round all members take the same steps as
they would alone (`learn_row` in `fiol.engine.rounds` has their numbers), and results differ by rounding alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fiol.compiler.compiled import inlined_strictly, jit, prefetch
from fiol.components.component import borrowed
from fiol.components.lanes import (
    anywhere,
    choose,
    is_short,
    lanes,
    like_lanes,
    load_lanes,
    smaller,
    square_root,
    store,
    total,
    with_lane,
)
from fiol.components.step_sizes import LARGEST_SUM, LONGEST, STEEPEST
from fiol.engine.rounds import LAST_DIGITS, NEAR

#: Above so many bytes of records, those of the next row are asked for ahead.
CACHE = 2**20
INFINITE = np.inf
#: Steps have the digits of a float where no value is larger than this, or smaller than one by this.
FAR_APART = 1e15


class Table(NamedTuple):
    """The rules of all members, as rows of an array with a lane per member; see `coefficients`."""

    size: Any  #: the numerator of steps
    base: Any  #: their denominator is base,
    root: Any  #: and root times the root of s,
    part: Any  #: and part times s,
    length: Any  #: and length times that of the row
    squares: Any  #: 1 where s adds up squared gradients,
    bends: Any  #: 1 where it adds up curvatures
    adaptive: Any  #: 1 where derivatives are of interest
    free: Any  #: 1 where members are scale-free,
    plain: Any  #: 1 where they are not


@inlined_strictly
def table_from(rules, zero):  # type: ignore[no-untyped-def]
    """The table, as it is kept in an array."""
    n = len(zero)
    like = lanes(zero)
    return Table(
        load_lanes(rules, 0, like),
        load_lanes(rules, n, like),
        load_lanes(rules, 2 * n, like),
        load_lanes(rules, 3 * n, like),
        load_lanes(rules, 4 * n, like),
        load_lanes(rules, 5 * n, like),
        load_lanes(rules, 6 * n, like),
        load_lanes(rules, 7 * n, like),
        load_lanes(rules, 8 * n, like),
        1.0 - load_lanes(rules, 8 * n, like),
    )


@inlined_strictly
def lane_steps(table, base, size, s, unit):  # type: ignore[no-untyped-def]
    """The steps of a feature's weights, whose sums are s and whose values are multiplied by `unit`: size / h."""
    root = square_root(s) * unit
    h = base + root * (table.root + table.part * root)
    return choose(h > 0.0, size / h, 0.0)


@inlined_strictly
def row_steps(loss, rules, digits, feature, x, parts, square, base, longest, records, steps, p):  # type: ignore[no-untyped-def]
    """Write the steps of a row's weights; returns p, and what they move the score by, per pull."""
    table, like, width, room = (
        table_from(rules, digits),
        lanes(digits),
        np.uint64(len(digits)),
        np.uint64(2 * len(digits)),
    )
    gain, base, size = like_lanes(square, like), like_lanes(base, like), like_lanes(longest, like)
    for j in range(x.shape[0]):
        i, value, part, unit = np.uint64(np.uint32(feature[j])) * room, x[j], parts[2 * j], parts[2 * j + 1]
        s = smaller(load_lanes(records, i + width, like) + gain * (value * value), LARGEST_SUM)
        step = lane_steps(table, base, size, s, table.plain + table.free * unit)
        if loss.has_stride:
            step = smaller(step, choose(table.free > 0.5, like + LONGEST / (unit * unit), INFINITE))
        store(steps, np.uint64(j) * width, step)
        p = p + like_lanes(step * (table.plain * (value * value) + table.free * (part * part)), p)
    return p


@inlined_strictly
def move_row(rules, digits, feature, x, parts, beta, more, records, steps):  # type: ignore[no-untyped-def]
    """Move a row's weights by their steps times beta, and let their sums grow."""
    table, like, width, room = (
        table_from(rules, digits),
        lanes(digits),
        np.uint64(len(digits)),
        np.uint64(2 * len(digits)),
    )
    free, plain, more = (
        like_lanes(beta, like) * table.free,
        like_lanes(beta, like) * table.plain,
        like_lanes(more, like),
    )
    for j in range(x.shape[0]):
        i, value = np.uint64(np.uint32(feature[j])) * room, x[j]
        pull = plain * value + free * (parts[2 * j] * parts[2 * j + 1])
        store(records, i, load_lanes(records, i, like) + load_lanes(steps, np.uint64(j) * width, like) * pull)
        s = load_lanes(records, i + width, like) + more * (value * value)
        store(records, i + width, smaller(s, LARGEST_SUM))


@inlined_strictly
def one_by_one(loss, z, p, doubt, reach, y, weight, spare):  # type: ignore[no-untyped-def]
    """`Loss.exact_step` in lanes whose numbers are so large that the form for lanes is not exact, that form in others.

    So a lane's numbers do not depend on those of other lanes.
    """
    n = np.uint64(spare.shape[0] // 6)
    beta, bend = loss.lane_step(z, p, doubt, reach, y, weight)
    store(spare, 0, z)
    store(spare, n, p)
    store(spare, 2 * n, z * 0.0 + doubt)
    store(spare, 3 * n, z * 0.0 + reach)
    store(spare, 4 * n, z * 0.0 + beta)
    store(spare, 5 * n, smaller(z * 0.0 + bend, LARGEST_SUM))
    for k in range(n):
        if not loss.lane_exact(spare[k], weight * spare[n + k]):
            own, curve = loss.exact_step(spare[k], spare[n + k], spare[2 * n + k], spare[3 * n + k], y, weight)
            spare[4 * n + k] = own
            spare[5 * n + k] = min(curve, LARGEST_SUM)
    return load_lanes(spare, 4 * n, z), load_lanes(spare, 5 * n, z)


@inlined_strictly
def lane_doubt(loss, table, zero, feature, x, y, z, own, records):  # type: ignore[no-untyped-def]
    """How far its last digits may have moved each score: `doubt_about` in every lane."""
    like, room = lanes(zero), np.uint64(2 * len(zero))
    near = NEAR * (abs(z) + abs(y))
    close = choose(loss.least_grad(z, near, y) != loss.grad(z, y), 1.0, like)
    if y == 0.0:
        close = like + 1.0
    close = close * table.adaptive
    if not anywhere(close > 0.0):
        return like
    terms = abs(own)
    for j in range(x.shape[0]):
        terms = terms + abs(load_lanes(records, np.uint64(np.uint32(feature[j])) * room, like) * x[j])
    doubt = LAST_DIGITS * terms
    if y != 0.0:
        doubt = smaller(doubt, near)
    return choose(close > 0.0, doubt, 0.0)


@inlined_strictly
def learn_lane_row(  # type: ignore[no-untyped-def]
    loss,
    table,
    zero,
    feature,
    x,
    y,
    weight,
    records,
    intercept,
    has_intercept,
    t,
    slopes,
    steps,
    parts,
    spare,
    rules,
    digits,
):
    """One round of all members; returns their scores before it, `Clock.slopes` after it, and the length of the row."""
    like, width, room, last = lanes(zero), np.uint64(len(zero)), np.uint64(2 * len(zero)), np.uint64(len(zero) - 1)
    # 1. Scores, and how long the row is in units of the largest values.
    own, z = load_lanes(intercept, 0, like) * has_intercept, like
    length = raw = has_intercept
    far = False
    for j in range(x.shape[0]):
        i, value = np.uint64(np.uint32(feature[j])) * room, x[j]
        size, peak = abs(value), 1.0 * records[i + last]
        if size > peak:
            if peak > 0.0:
                w = load_lanes(records, i, like)
                store(records, i, w * (table.plain + table.free * (peak / size)))
            records[i + last] = size
            peak = size
        unit = 1.0 / peak
        part = value * unit
        parts[2 * j], parts[2 * j + 1] = part, unit
        length += part * part
        raw += value * value
        far = far or peak > FAR_APART or size < 1.0 / FAR_APART
        z = z + load_lanes(records, i, like) * value
    z = with_lane(z + own, last, 0.0)
    # 2. What the derivatives say about steps.
    doubt = like
    if loss.kinked:
        doubt = lane_doubt(loss, table, zero, feature, x, y, z, own, records)
    slope = smaller(loss.least_slope(z, doubt, y), STEEPEST)
    square = slope * slope * table.adaptive
    added = square
    if loss.has_stride:
        added = choose(table.free > 0.5, smaller(loss.gauge(z, y) + like, LARGEST_SUM), square)
    slopes = slopes + added
    unit = table.plain + table.free * loss.square_slope_unit(slopes, t)
    square = square * table.squares * (weight * weight) * (table.plain + table.free * length)
    lengths = table.plain * raw + table.free * length
    base = table.base + table.length * lengths
    square = choose(unit > 0.0, square / choose(unit > 0.0, unit, 1.0), 0.0)
    stride = like + 1.0
    if loss.has_stride:
        stride = table.plain + table.free * loss.lane_stride(slopes, t)
    longest = stride * table.size
    # 3. Steps, and the pull of each member.
    own_sums = smaller(load_lanes(intercept, width, like) + square, LARGEST_SUM)
    lift = lane_steps(table, base, longest, own_sums, 1.0) * has_intercept
    if is_short(lanes(digits)):
        far = far or anywhere((square > FAR_APART) | (longest > FAR_APART) | (base > FAR_APART))
    if far and is_short(lanes(digits)):
        p = row_steps(loss, rules, zero, feature, x, parts, square, base, longest, records, steps, lift)
    else:
        p = row_steps(loss, rules, digits, feature, x, parts, square, base, longest, records, steps, lift)
    if loss.lane_exact(z, weight * p):
        beta, seen = loss.lane_step(z, p, doubt, stride, y, weight)
        bend = smaller(seen + like, LARGEST_SUM)
    else:
        beta, bend = one_by_one(loss, z, p, doubt, stride, y, weight, spare)
    bend = choose(bend > 0.0, stride / (1.0 / choose(bend > 0.0, bend, 1.0) + p), 0.0)
    more = square + bend * table.bends
    # 4. New weights and sums.
    if far and is_short(lanes(digits)):
        move_row(rules, zero, feature, x, parts, beta, more, records, steps)
    else:
        move_row(rules, digits, feature, x, parts, beta, more, records, steps)
    store(intercept, 0, with_lane(load_lanes(intercept, 0, like) + lift * beta, last, 1.0))
    store(intercept, width, smaller(load_lanes(intercept, width, like) + more, LARGEST_SUM))
    return z, slopes, lengths


@inlined_strictly
def next_lane_row(loss, zero, digits, feature, x, y, weight, held):  # type: ignore[no-untyped-def]
    """`learn_lane_row` for members that know what `held` has, a `LaneMemory`; returns their scores before it.

    Its `ticks` are the number of rounds, then `Clock.slopes` of every lane, then the squared length of the last row.
    """
    like, width, ticks = lanes(zero), len(zero), held.ticks
    t = ticks[0] + 1.0
    z, slopes, lengths = learn_lane_row(
        loss, table_from(held.rules, zero), zero, feature, x, y, weight, held.records, held.intercept,
        held.has_intercept, t, load_lanes(ticks, 1, like), held.steps, held.parts, held.spare, held.rules, digits,
    )  # fmt: skip
    ticks[0] = t
    store(ticks, 1, slopes)
    store(ticks, 1 + width, lengths)
    return z


@inlined_strictly
def fetch_row(indices, first, last, records, width):  # type: ignore[no-untyped-def]
    """Ask for the records of a row's features, if there are so many records that they may be far away."""
    if records.nbytes > CACHE:
        for j in range(first, last):
            i = np.uint64(np.uint32(indices[j])) * np.uint64(2 * width)
            prefetch(records, i)
            prefetch(records, i + np.uint64(width))


@jit
def learn_lanes(loss, zero, digits, chunk, y, weight, held, scores):  # type: ignore[no-untyped-def]
    """A round for every row; writes the scores before each: [row, lane], as one axis. `zero` has a 0 for every lane,
    and so has `digits`, which says by its type how many digits the steps have.
    """
    (indptr, indices, data), y, weight = borrowed(chunk), borrowed(y), borrowed(weight)
    held, scores, width = borrowed(held), borrowed(scores), len(zero)
    for r in range(y.shape[0]):
        first, last = indptr[r], indptr[r + 1]
        if r + 1 < y.shape[0]:
            fetch_row(indices, last, indptr[r + 2], held.records, width)
        z = next_lane_row(loss, zero, digits, indices[first:last], data[first:last], y[r], weight[r], held)
        store(scores, r * width, z)


@jit
def add_lane_weights(zero, records, features, v, out):  # type: ignore[no-untyped-def]
    """Add the sums of all members' weights of `features` times v; a member with v = 0 does not count at all."""
    records, like, room = borrowed(records), lanes(zero), np.uint64(2 * len(zero))
    parts = load_lanes(v, 0, like)
    for j in range(features.shape[0]):
        i = np.uint64(np.uint32(features[j])) * room
        if i < records.shape[0]:
            out[j] += total(choose(parts != 0.0, load_lanes(records, i, like) * parts, 0.0))
