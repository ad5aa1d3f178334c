"""Members of an ensemble as lanes: one pass over the rows for all, one operation for a number of each.

A feature has one record for all members: their weights, then their sums (`LaneRule`), a lane each. The last lane is
no member: among the weights it is the feature's largest absolute value. In a round all members take the same steps as
they would alone (`learn_row` in `fiol.engine.rounds` has their numbers), and results differ by rounding alone.

Members whose steps do not depend on sums take one for all features of a row, in the unit of each. Where all members in
the second half of the lanes are such, sums have half as many lanes to compute with: `LaneMemory.first`.

If any member has a ridge, weights shrink in every round that their feature misses, all of them as in the last one that
it did not: h is what it was then. So a record has a third vector: the squared length of the row, where steps are by
length; the root of the sum, where h has that, at no cost; and the last curvature, which is not among the sums until the
next row. The last lanes of sums and of these are when that was, as the sum of two numbers that a float can hold.
`vectors` has a 0 for every vector of a record: its length tells the two kinds of records apart when kernels are
compiled.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fiol.compiler.compiled import inlined_strictly, jit, prefetch
from fiol.components.component import borrowed
from fiol.components.lanes import (
    anywhere,
    choose,
    first_lanes,
    is_short,
    lane_decay,
    lanes,
    larger,
    like_lanes,
    load_lanes,
    smaller,
    square_root,
    store,
    total,
    with_first,
    with_lane,
)
from fiol.components.step_sizes import LARGEST_SUM, LONGEST, STEEPEST
from fiol.engine.rounds import LAST_DIGITS, NEAR
from fiol.update.state import FLOAT_ROUNDS

#: Above so many bytes of records, those of the next row are asked for ahead.
CACHE = 2**20
INFINITE = np.inf
#: Of a metric between these, the square is a number.
SMALLEST_METRIC, LARGEST_METRIC = 1e-150, 1e150
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
    ridge: Any  #: the strength of the ridge
    plain: Any  #: 1 where members are not scale-free


@inlined_strictly
def table_from(rules, n, some):  # type: ignore[no-untyped-def]
    """The table of as many of the n lanes as `some` has zeros, the first ones, as it is kept in an array."""
    like = lanes(some)
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
        load_lanes(rules, 9 * n, like),
        1.0 - load_lanes(rules, 8 * n, like),
    )


@inlined_strictly
def metric(table, base, root):  # type: ignore[no-untyped-def]
    """h of a feature's weights, by the root of their sums in units of values."""
    return base + root * (table.root + table.part * root)


@inlined_strictly
def lane_steps(size, h):  # type: ignore[no-untyped-def]
    """size / h, and 0 where nothing is known."""
    return choose(h > 0.0, size / h, 0.0)


@inlined_strictly
def whole_floats(t):  # type: ignore[no-untyped-def]
    """The part of a number of rounds that a float can hold, and so can the rest."""
    return 1.0 * (np.int64(t) // FLOAT_ROUNDS * FLOAT_ROUNDS)


@inlined_strictly
def weights_now(table, vectors, zero, records, i, t):  # type: ignore[no-untyped-def]
    """The weights of the record at place i after t rounds, of which its feature may have missed some."""
    like, n = lanes(zero), len(zero)
    w = load_lanes(records, i, like)
    if len(vectors) == 3:
        missed = (t - records[i + np.uint64(3 * n - 1)]) - records[i + np.uint64(2 * n - 1)]
        if missed > 0.0:
            peak, rest = 1.0 * records[i + np.uint64(n - 1)], load_lanes(records, i + np.uint64(2 * n), like)
            unit, met = (1.0 / peak, 1.0) if peak > 0.0 else (0.0, 0.0)
            s, unit = load_lanes(records, i + np.uint64(n), like), table.plain + table.free * unit
            h = table.base + rest * (table.length + table.root * unit) + table.part * (s * unit * unit)
            pull = table.ridge * table.size * (table.plain + table.free * met)
            w = w * choose(h > 0.0, lane_decay(pull, h, missed), 1.0)
    return w


@inlined_strictly
def row_steps(loss, zero, some, feature, x, square, base, longest, held):  # type: ignore[no-untyped-def]
    """Write the steps of a row's weights, of members with sums; returns what these move their scores by, per pull."""
    n, m, parts = len(zero), np.uint64(len(some)), held.parts
    table, like, room, width = (
        table_from(held.rules, n, some),
        lanes(some),
        np.uint64(len(held.vectors) * n),
        np.uint64(n),
    )
    gain, base, size = first_lanes(square, like), first_lanes(base, like), first_lanes(longest, like)
    p = 0.0 * first_lanes(square, lanes(held.first))
    for j in range(x.shape[0]):
        i, value, part, unit = np.uint64(np.uint32(feature[j])) * room, x[j], parts[2 * j], parts[2 * j + 1]
        s = smaller(load_lanes(held.records, i + width, like) + gain * (value * value), LARGEST_SUM)
        if len(held.as_they_are) == 0:
            step = lane_steps(size, metric(table, base, square_root(s) * unit))
            far = like + part * part
        else:
            step = lane_steps(size, metric(table, base, square_root(s) * (table.plain + table.free * unit)))
            far = table.plain * (value * value) + table.free * (part * part)
        if loss.has_stride:
            step = smaller(step, choose(table.free > 0.5, like + LONGEST / (unit * unit), INFINITE))
        store(held.steps, np.uint64(j) * m, step)
        p = p + like_lanes(step * far, p)
    return p


@inlined_strictly
def adds_up(table):  # type: ignore[no-untyped-def]
    """Whose steps depend on sums."""
    return table.root + table.part > 0.0


@inlined_strictly
def move_row(loss, zero, digits, some, feature, x, common, beta, more, held):  # type: ignore[no-untyped-def]
    """Move a row's weights by their steps times beta, and let sums grow. Members without sums have `common` steps, in
    whichever lane they are, unless every feature has a longest one.
    """
    n, m, parts, width = len(zero), np.uint64(len(some)), held.parts, np.uint64(len(zero))
    table, like, few, room = (
        table_from(held.rules, n, zero),
        lanes(digits),
        lanes(some),
        np.uint64(len(held.vectors) * n),
    )
    free, plain = beta * table.free, beta * table.plain
    far_free, far_plain = like_lanes(common * free, like), like_lanes(common * plain, like)
    free, plain, more = first_lanes(free, few), first_lanes(plain, few), first_lanes(more, few)
    own = adds_up(table_from(held.rules, n, some))
    for j in range(x.shape[0]):
        i, value, turn = np.uint64(np.uint32(feature[j])) * room, x[j], parts[2 * j] * parts[2 * j + 1]
        step = load_lanes(held.steps, np.uint64(j) * m, few)
        if len(held.as_they_are) == 0:
            far, near = far_free * turn, step * (free * turn)
        else:
            far, near = far_plain * value + far_free * turn, step * (plain * value + free * turn)
        if not loss.has_stride:
            near = choose(own, near, first_lanes(far, few))
        store(held.records, i, load_lanes(held.records, i, like) + with_first(far, near))
        s = load_lanes(held.records, i + width, few) + more * (value * value)
        store(held.records, i + width, smaller(s, LARGEST_SUM))


@inlined_strictly
def ridge_steps(zero, digits, feature, x, square, base, length, longest, t, held, lift):  # type: ignore[no-untyped-def]
    """Write the steps of a row's weights under a ridge; returns what they move scores by, per pull, without and with
    the ridge, and what the ridge takes from scores.

    A weight of which a ridge leaves 1 / (1 + ridge step) moves by so much less, too: by steps that end at 1 / ridge.
    Records are written, too, but for weights and the curvature of this round.
    """
    n, records, parts = np.uint64(len(zero)), held.records, held.parts
    table, like, room = table_from(held.rules, len(zero), digits), lanes(digits), np.uint64(len(held.vectors)) * n
    gain, base, size = like_lanes(square, like), like_lanes(base, like), like_lanes(longest, like)
    straight, p, taken, length = lift, lift, like_lanes(like, lift), table.length * like_lanes(length, like)
    last, rest, early, pull = n - np.uint64(1), np.uint64(2) * n, whole_floats(t), table.ridge * size
    for j in range(x.shape[0]):
        i, value, part, unit = np.uint64(np.uint32(feature[j])) * room, x[j], parts[2 * j], parts[2 * j + 1]
        s, far = load_lanes(records, i + n, like), table.plain * (value * value) + table.free * (part * part)
        s = smaller(s + table.bends * load_lanes(records, i + rest, like) + gain * (value * value), LARGEST_SUM)
        store(records, i + n, with_lane(s, last, t - early))
        if records.itemsize == 4 and not is_short(like):
            s = load_lanes(records, i + n, like)  # the root is that of what is kept
        root = square_root(s)
        store(records, i + rest, with_lane(choose(table.root > 0.0, root, length), last, early))
        h = metric(table, base, root * (table.plain + table.free * unit))
        safe = smaller(larger(h, SMALLEST_METRIC), LARGEST_METRIC)
        both = choose(h > 0.0, size / (safe * (safe + pull)), 0.0)
        step = both * safe
        straight = straight + like_lanes(both * (safe + pull) * far, p)
        taken = taken + like_lanes(table.ridge * step * (load_lanes(records, i, like) * value), p)
        store(held.steps, np.uint64(j) * n, step)
        p = p + like_lanes(step * far, p)
    return straight, p, taken


@inlined_strictly
def move_under_ridge(zero, digits, feature, x, beta, bend, held):  # type: ignore[no-untyped-def]
    """Move a row's weights by their steps times beta less the ridge, and let sums of curvatures grow: others have."""
    n, records, parts = np.uint64(len(zero)), held.records, held.parts
    table, like, room = table_from(held.rules, len(zero), digits), lanes(digits), np.uint64(len(held.vectors)) * n
    free, plain = like_lanes(beta, like) * table.free, like_lanes(beta, like) * table.plain
    bend, rest = like_lanes(bend, like), np.uint64(2) * n
    for j in range(x.shape[0]):
        i, value = np.uint64(np.uint32(feature[j])) * room, x[j]
        w, step = load_lanes(records, i, like), load_lanes(held.steps, np.uint64(j) * n, like)
        pull = plain * value + free * (parts[2 * j] * parts[2 * j + 1]) - table.ridge * w
        met = smaller(bend * (value * value), LARGEST_SUM)
        store(records, i + rest, load_lanes(records, i + rest, like) + met)
        store(records, i, w + step * pull)


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
def lane_doubt(loss, table, vectors, zero, feature, x, y, z, own, records):  # type: ignore[no-untyped-def]
    """How far its last digits may have moved each score: `doubt_about` in every lane."""
    like, room = lanes(zero), np.uint64(len(vectors) * len(zero))
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


class LaneScores(NamedTuple):
    """What a row is to all members before their round."""

    z: Any  #: its scores
    own: Any  #: what intercepts have of these
    length: float  #: its squared length in units of the largest values,
    raw: float  #: and as it is, if any member sees that
    far: bool  #: whether values are so large or small that numbers need all digits


class LaneRound(NamedTuple):
    """A round of all members that lacks its root."""

    z: Any  #: the scores before it
    q: Any  #: the scores that the ridge leaves of them
    p: Any  #: what steps move these by, per pull,
    straight: Any  #: and what they would without a ridge
    doubt: Any
    stride: Any
    square: Any
    lift: Any  #: the step of the intercept
    slopes: Any  #: `Clock.slopes` after it
    lengths: Any  #: the squared length of the row
    common: Any  #: the steps of members without sums
    far: Any  #: whether numbers need all digits


@inlined_strictly
def read_lane_row(zero, feature, x, held):  # type: ignore[no-untyped-def]
    """The scores of a row: `LaneScores`. Weights are brought up to date, and largest values counted with this row."""
    like, last = lanes(zero), np.uint64(len(zero) - 1)
    vectors, records, parts = held.vectors, held.records, held.parts
    table, room, t = table_from(held.rules, len(zero), zero), np.uint64(len(vectors) * len(zero)), held.ticks[0]
    own, z = load_lanes(held.intercept, 0, like) * held.has_intercept, like
    length, raw, far = 0.0, 0.0, False
    for j in range(x.shape[0]):
        i, value = np.uint64(np.uint32(feature[j])) * room, x[j]
        w = weights_now(table, vectors, zero, records, i, t)
        size, peak = abs(value), 1.0 * records[i + last]
        if size > peak:
            if peak > 0.0:
                w = w * (table.plain + table.free * (peak / size))
            store(records, i, with_lane(w, last, size))
            peak, w = size, load_lanes(records, i, like)  # which may have fewer digits
        elif len(vectors) == 3:
            store(records, i, w)
        unit = 1.0 / peak
        part = value * unit
        parts[2 * j], parts[2 * j + 1] = part, unit
        length += part * part
        if len(held.as_they_are) > 0:
            raw += value * value
        far = far or peak > FAR_APART or size < 1.0 / FAR_APART
        z = z + w * value
    return LaneScores(with_lane(z + own, last, 0.0), own, length, raw, far)


@inlined_strictly
def begin_lane_row(loss, zero, digits, feature, x, y, weight, held, row):  # type: ignore[no-untyped-def]
    """The first part of a round of all members, who know what `held` has, a `LaneMemory`: a `LaneRound` of
    `LaneScores`.

    The `ticks` are the number of rounds, then `Clock.slopes` of every lane, then the squared length of the last row.
    """
    like, width = lanes(zero), np.uint64(len(zero))
    vectors, intercept, has_intercept = held.vectors, held.intercept, held.has_intercept
    table, t = table_from(held.rules, len(zero), zero), held.ticks[0] + 1.0
    z, own, length, raw, far = row
    inner = table.plain * raw + table.free * length
    lengths = inner + has_intercept
    # 1. What the derivatives say about steps.
    doubt = like
    if loss.kinked:
        doubt = lane_doubt(loss, table, vectors, zero, feature, x, y, z, own, held.records)
    slope = smaller(loss.least_slope(z, doubt, y), STEEPEST)
    square = slope * slope * table.adaptive
    added = square
    if loss.has_stride:
        added = choose(table.free > 0.5, smaller(loss.gauge(z, y) + like, LARGEST_SUM), square)
    slopes = load_lanes(held.ticks, 1, like) + added
    unit = table.plain + table.free * loss.square_slope_unit(slopes, t)
    square = square * table.squares * (weight * weight) * (table.plain + table.free * (length + has_intercept))
    base = table.base + table.length * lengths
    square = choose(unit > 0.0, square / choose(unit > 0.0, unit, 1.0), 0.0)
    stride = like + 1.0
    if loss.has_stride:
        stride = table.plain + table.free * loss.lane_stride(slopes, t)
    longest = stride * table.size
    # 2. Steps.
    own_sums = smaller(load_lanes(intercept, width, like) + square, LARGEST_SUM)
    lift = lane_steps(longest, metric(table, base, square_root(own_sums))) * has_intercept
    if is_short(lanes(digits)):
        far = far or anywhere((square > FAR_APART) | (longest > FAR_APART) | (base > FAR_APART))
    common = lane_steps(longest, base)
    if len(vectors) == 3:
        given = feature, x, square, base, lengths, longest, t, held, lift
        if far and is_short(lanes(digits)):
            straight, p, taken = ridge_steps(zero, zero, *given)
        else:
            straight, p, taken = ridge_steps(zero, digits, *given)
        return LaneRound(z, z - taken, p, straight, doubt, stride, square, lift, slopes, lengths, common, far)
    row_of = feature, x, square, base, longest, held
    if far and is_short(lanes(digits)):
        p = row_steps(loss, zero, held.first, *row_of)
    else:
        p = row_steps(loss, zero, held.some, *row_of)
    if not loss.has_stride:
        p = choose(adds_up(table_from(held.rules, len(zero), held.first)), p, first_lanes(common * inner, p))
    p = with_first(common * inner, p) + lift
    return LaneRound(z, z, p, p, doubt, stride, square, lift, slopes, lengths, common, far)


@inlined_strictly
def lane_root(loss, like, q, p, doubt, reach, y, weight, spare):  # type: ignore[no-untyped-def]
    """The pulls of exact steps in lanes like these, and the curvatures that they meet."""
    if loss.lane_exact(q, weight * p):
        beta, bend = loss.lane_step(q, p, doubt, reach, y, weight)
        return beta + like, smaller(bend + like, LARGEST_SUM)
    return one_by_one(loss, q, p, doubt, reach, y, weight, spare)


@inlined_strictly
def end_lane_row(loss, zero, digits, feature, x, y, weight, held, begun, beta, bend):  # type: ignore[no-untyped-def]
    """The rest of a round, with its root: new weights and sums."""
    like, width, last, t = lanes(zero), np.uint64(len(zero)), np.uint64(len(zero) - 1), held.ticks[0] + 1.0
    table, vectors, intercept = table_from(held.rules, len(zero), zero), held.vectors, held.intercept
    z, q, p, straight, doubt, stride, square, lift, slopes, lengths, common, far = begun
    if loss.kinked and len(vectors) == 3:  # over a step that began at z
        bend = smaller(loss.bend(z, q + p * beta, beta, doubt, stride, y, weight) + like, LARGEST_SUM)
    bend = choose(bend > 0.0, stride / (1.0 / choose(bend > 0.0, bend, 1.0) + straight), 0.0) * table.bends
    more = square + bend
    if len(vectors) == 3:
        if far and is_short(lanes(digits)):
            move_under_ridge(zero, zero, feature, x, beta, bend, held)
        else:
            move_under_ridge(zero, digits, feature, x, beta, bend, held)
    elif far and is_short(lanes(digits)):
        move_row(loss, zero, zero, held.first, feature, x, common, beta, more, held)
    else:
        move_row(loss, zero, digits, held.some, feature, x, common, beta, more, held)
    store(intercept, 0, with_lane(load_lanes(intercept, 0, like) + lift * beta, last, 1.0))
    store(intercept, width, smaller(load_lanes(intercept, width, like) + more, LARGEST_SUM))
    held.ticks[0] = t
    store(held.ticks, 1, slopes)
    store(held.ticks, 1 + len(zero), lengths)


@inlined_strictly
def next_lane_row(loss, zero, digits, feature, x, y, weight, held):  # type: ignore[no-untyped-def]
    """One round of all members; returns their scores before it."""
    row = read_lane_row(zero, feature, x, held)
    begun = begin_lane_row(loss, zero, digits, feature, x, y, weight, held, row)
    start = begun.q, begun.p, begun.doubt, begun.stride
    beta, bend = lane_root(loss, lanes(zero), *start, y, weight, held.spare)
    end_lane_row(loss, zero, digits, feature, x, y, weight, held, begun, beta, bend)
    return begun.z


@inlined_strictly
def fetch_row(indices, first, last, records, vectors, width):  # type: ignore[no-untyped-def]
    """Ask for the records of a row's features, if there are so many records that they may be far away."""
    if records.nbytes > CACHE:
        for j in range(first, last):
            i = np.uint64(np.uint32(indices[j])) * np.uint64(len(vectors) * width)
            for k in range(len(vectors)):
                prefetch(records, i + np.uint64(k * width))


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
            fetch_row(indices, last, indptr[r + 2], held.records, held.vectors, width)
        z = next_lane_row(loss, zero, digits, indices[first:last], data[first:last], y[r], weight[r], held)
        store(scores, r * width, z)


@inlined_strictly
def mixed_sum(w, v):  # type: ignore[no-untyped-def]
    """The sum of all members' weights times v; a member with v = 0 does not count at all."""
    return total(choose(v != 0.0, w * v, 0.0))


@inlined_strictly
def mixed_weight(held, zero, i, v):  # type: ignore[no-untyped-def]
    """The `mixed_sum` of the record at place i, now."""
    w = weights_now(table_from(held.rules, len(zero), zero), held.vectors, zero, held.records, i, held.ticks[0])
    return mixed_sum(w, v)


@jit
def add_lane_weights(zero, held, features, v, out):  # type: ignore[no-untyped-def]
    """Add the sums of all members' weights of `features` times v."""
    held, room, parts = borrowed(held), np.uint64(len(held.vectors) * len(zero)), load_lanes(v, 0, lanes(zero))
    for j in range(features.shape[0]):
        i = np.uint64(np.uint32(features[j])) * room
        if i < held.records.shape[0]:
            out[j] += mixed_weight(held, zero, i, parts)


@jit
def settle_lanes(zero, held):  # type: ignore[no-untyped-def]
    """Bring all weights up to date, where features may have missed rounds."""
    held, t, n = borrowed(held), held.ticks[0], len(zero)
    table, early = table_from(held.rules, len(zero), zero), whole_floats(t)
    for k in range(held.records.shape[0] // (3 * n)):
        i = np.uint64(3 * n * k)
        store(held.records, i, weights_now(table, held.vectors, zero, held.records, i, t))
        held.records[i + np.uint64(2 * n - 1)], held.records[i + np.uint64(3 * n - 1)] = t - early, early
