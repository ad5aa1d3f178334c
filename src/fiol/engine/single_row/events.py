"""The compiled functions of the single-row fast path: score a row, or make its round.

A row of n entries is memory that belongs to the call: n values, n feature numbers in any order, and memory for what the
function computes (`Packers`). The functions return None, and change nothing, if the row needs the general code.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fiol.compiler.addresses import floats_at, ints_at, load_values
from fiol.compiler.compiled import inlined, inlined_strictly, jit
from fiol.components.component import flatten
from fiol.components.simd import choose, lanes, load_lanes, smaller
from fiol.engine.ensemble.lane_records import mixed_sum, mixed_weight
from fiol.engine.ensemble.rounds import ensemble_round
from fiol.engine.first_rows import WINDOW
from fiol.engine.round.center_rows import add_to_mean, center_any_row, has_entry
from fiol.engine.round.reading import prediction, score_one_row, weighted_sum
from fiol.engine.round.rounds import clock_from, clock_into, in_order, learn_row, row_buffers
from fiol.features.canonicalize import arrange_entries
from fiol.features.chunk import LARGEST, SMALLEST


class Means(NamedTuple):
    """The means that are subtracted from rows: see `fiol.engine.centering.Centering`."""

    features: Any
    sums: Any
    widths: Any
    count: Any  #: number of rows so far, as an array of one
    least: float  #: smaller differences from a mean are 0
    first: Any  #: the first rows
    origin: Any  #: of targets, and how many there are in `targets`
    targets: Any  #: the first ones
    missing: Any  #: the indicators of missing values


class UpdateValues(NamedTuple):
    """What the functions take of an `UpdateEngine`."""

    plan: Any
    intercept_plan: Any
    state: Any
    intercept: Any
    fresh: Any
    ticks: Any
    buffers: Any
    intercept_buffers: Any
    limits: tuple[float, float, float]
    means: Means


class LaneValues(NamedTuple):
    """What the functions take of an `EnsembleEngine` whose members are all lanes."""

    stack: Any
    loss: Any
    zero: Any
    four: Any
    digits: Any
    members: int
    memory: Any  #: a `LaneMemory`
    known: Any  #: a `StackState` for lanes
    buffers: Any  #: a `LaneBuffers`
    limits: tuple[float, float, float]
    means: Means


@inlined
def read_entries(row, n):
    """Sort the entries of a row, add up those of one feature and drop zeros; return their number, -1 if refused."""
    return arrange_entries(ints_at(row + 8 * n, n), floats_at(row, n), SMALLEST, LARGEST)


@inlined
def scratch_after(row, n):
    """Return the address of the memory for intermediate results, behind a row of n entries."""
    return row + 8 * n + (4 * n + 7) // 8 * 8


@inlined
def centered_row(row, n, entries, means):
    """Return the features and values of a row whose `entries` are read, with the means subtracted."""
    feature, x = ints_at(row + 8 * n, entries), floats_at(row, entries)
    if means.features.shape[0] == 0:
        return feature, x
    longest = n + means.features.shape[0]
    scratch = scratch_after(row, n) + 8 * (longest + 1)
    return subtract_means(feature, x, means, ints_at(scratch + 8 * longest, longest), floats_at(scratch, longest))


@inlined
def subtract_means(feature, x, means, new_feature, new_x):
    """Return the features and values of a row with the means subtracted, in this memory."""
    part, least, missing = 1.0 / means.count[0], means.least, means.missing
    known = means.features, means.sums, means.widths
    left = center_any_row(feature, x, known[0], known[1], known[2], missing, part, False, least, new_feature, new_x)
    return new_feature[:left], new_x[:left]


@inlined
def cannot_add(entries, means, deciding):
    """Return whether there are no unused lines for one of the first rows, or the target becomes the origin.

    Or whether something has to be decided after the row, unless the caller does so: see `Centering.steady_rows`.
    """
    if means.count[0] >= WINDOW:
        return False
    rows, has_origin = np.int64(means.count[0]) + 1, means.targets.shape[0] > 0
    if has_origin and means.origin[1] == 0.0:
        return True
    if not deciding and (rows >= WINDOW or (has_origin and rows & (rows - 1) == 0)):
        return True
    return means.first.shape[0] <= np.int64(means.first[0, 1]) + 1 + entries


@inlined
def add_to_means(feature, x, y, weight, means):
    """Add a row and its target, as they came, to the means."""
    entries, k = x.shape[0], 0
    if means.count[0] < WINDOW:
        first = means.first
        last = np.int64(first[0, 1])
        for j in range(entries):
            first[last + j + 1, 0], first[last + j + 1, 1] = means.count[0] + 1.0, feature[j]
            first[last + j + 1, 2] = x[j]
        first[0, 1] += entries
        if means.targets.shape[0] > 0 and weight > 0.0:
            means.targets[np.int64(means.origin[1])] = y
            means.origin[1] += 1.0
    elif means.features.shape[0] == 0:
        return
    part = 1.0 / means.count[0] if means.features.shape[0] > 0 else 0.0
    for j in range(means.features.shape[0]):
        while k < entries and feature[k] < means.features[j]:
            k += 1
        value = 0.0
        if k < entries and feature[k] == means.features[j]:
            value = x[k]
        elif has_entry(feature, means.missing[j]):
            value = means.sums[j] * part
        add_to_mean(means.sums, means.widths, j, value, part)
    means.count[0] += 1.0


@inlined
def cannot_score(row, n, entries, limit):
    """Return whether a row that is to be scored has a value out of range, or a feature not from 0 to `limit`."""
    feature = ints_at(row + 8 * n, n)
    return entries < 0 or (entries > 0 and (feature[0] < 0 or feature[entries - 1] >= limit))


@jit(nogil=False)
def score_event(block, row, n, limit, predicting):
    """Return the score of a row of features below `limit`, or its prediction."""
    values, entries = load_values(block), read_entries(row, n)
    if cannot_score(row, n, entries, limit):
        return None
    feature, x = centered_row(row, n, entries, values.means)
    state, own = values.state, values.intercept
    z = score_one_row(values.plan, values.intercept_plan, feature, x, state, own, values.fresh, values.ticks)
    z = z + values.means.origin[0]
    return prediction(values.plan.problem.loss, z) if predicting else z


@jit(nogil=False)
def learn_event(block, row, n, limit, y, weight, deciding):
    """Make the round of a row of features below `limit`; return its score before. For `deciding` see `cannot_add`."""
    values, entries = load_values(block), read_entries(row, n)
    if entries < 0 or cannot_add(entries, values.means, deciding):
        return None
    feature, x = centered_row(row, n, entries, values.means)
    features, entries_fit = smaller(limit, values.state.w.shape[0]), values.buffers.shape[1]
    if not in_order(values.plan.problem.loss, feature, x, y, weight, features, entries_fit, values.limits):
        return None
    state, own, clock = values.state, values.intercept, clock_from(values.ticks)
    buffers, own_buffers = row_buffers(values.buffers), row_buffers(values.intercept_buffers)
    origin = values.means.origin[0]
    z, clock = learn_row(
        values.plan, values.intercept_plan, feature, x, y - origin, weight, state, own, clock, buffers, own_buffers, 0.0
    )
    clock_into(values.ticks, clock)
    add_to_means(ints_at(row + 8 * n, entries), floats_at(row, entries), y, weight, values.means)
    return z + origin


@inlined_strictly
def mixed_lanes(like, known):
    """Return the weight of each member in lanes, the bits as in `ensemble.stack_state.combined_weights`."""
    v = like
    for j in range(known.v.shape[0]):
        part = known.share[j] * load_lanes(flatten(known.v), j * len(like), like)
        v = v + choose(part != 0.0, part, 0.0)  # which is no product any more, to be fused with a sum
    if known.alone.shape[0] > 0:
        v = v + load_lanes(known.alone, 0, like)
    return v


@inlined_strictly
def gather(values, feature, w):
    """Write the weights of a row's features in the linear model; return the intercept."""
    memory, v = values.memory, mixed_lanes(lanes(values.zero), values.known)
    size = np.uint64(len(memory.vectors) * len(values.zero))
    for k in range(feature.shape[0]):
        i = np.uint64(np.uint32(feature[k])) * size
        w[k] = 0.0
        if i < memory.records.shape[0]:
            w[k] = mixed_weight(memory, i, v)
    return mixed_sum(load_lanes(memory.intercept, 0, v) * memory.has_intercept, v)


@jit(nogil=False)
def score_lane_event(block, row, n, limit, predicting):
    """Return the score of a row of features below `limit` by an ensemble, or its prediction."""
    values, entries = load_values(block), read_entries(row, n)
    if cannot_score(row, n, entries, limit):
        return None
    feature, x = centered_row(row, n, entries, values.means)
    w = floats_at(scratch_after(row, n), feature.shape[0])
    z = gather(values, feature, w) + weighted_sum(x, w, 0, x.shape[0]) + values.means.origin[0]
    return prediction(values.loss, z) if predicting else z


@jit(nogil=False)
def learn_lane_event(block, row, n, limit, y, weight, deciding):
    """Make the round of a row of features below `limit` by an ensemble; return its score before."""
    values, entries = load_values(block), read_entries(row, n)
    if entries < 0 or cannot_add(entries, values.means, deciding):
        return None
    feature, x = centered_row(row, n, entries, values.means)
    memory, loss = values.memory, values.loss
    features = smaller(limit, memory.records.shape[0] // (len(memory.vectors) * len(values.zero)))
    entries_fit = memory.parts.shape[0] // 2
    if not in_order(loss, feature, x, y, weight, features, entries_fit, values.limits):
        return None
    like, quad, digits = lanes(values.zero), lanes(values.four), lanes(values.digits)
    stack, members, known, origin = values.stack, values.members, values.known, values.means.origin[0]
    z = ensemble_round(
        stack, loss, like, quad, digits, members, feature, x, y - origin, weight, None, 0, memory, known, values.buffers
    )
    add_to_means(ints_at(row + 8 * n, entries), floats_at(row, entries), y, weight, values.means)
    return z + origin
