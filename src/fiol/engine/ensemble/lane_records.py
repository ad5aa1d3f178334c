"""Records of members in SIMD lanes: one per feature, read and brought up to date.

A record has a vector of weights and a vector of sums (`StepRule`), a lane per member. The last lane belongs to no
member: among the weights it is the feature's largest absolute value.

If any member has a ridge, weights shrink in every round that their feature misses, all by the h of the last round that
it did not miss. So a record has a third vector: the squared length of the row for members with normalized steps, the
root of the sum for AdaGrad, and the last curvature, which is not among the sums until the next row. The last lanes of
the second and third vector add up to the round of the feature's last row, each a number that float32 can hold.
`vectors` is a tuple with a 0 for every vector of a record, so that their number is part of the compiled type.
"""

from __future__ import annotations

import numpy as np

from fiol.algorithms.state import FLOAT_ROUNDS
from fiol.compiler.compiled import inlined_strictly, jit, prefetch
from fiol.components.component import borrowed
from fiol.components.simd import choose, decay, lanes, load_lanes, store, total
from fiol.components.step_sizes.rule import StepRule, base_metric, metric

#: Records of more bytes than this are prefetched: the first of a row while the row before is learned, others this many
#: entries ahead, since the records of a long row are themselves more than the cache holds.
CACHE, ENTRIES_AHEAD = 2**20, 64


@inlined_strictly
def rule_in_lanes(rules, n, like):
    """Return the `StepRule` of all members, a lane each: as many of the n lanes as `like` has, the first ones."""
    return StepRule(
        load_lanes(rules, 0, like),
        load_lanes(rules, n, like),
        load_lanes(rules, 2 * n, like),
        load_lanes(rules, 3 * n, like),
        load_lanes(rules, 4 * n, like),
        load_lanes(rules, 5 * n, like),
        load_lanes(rules, 6 * n, like),
        load_lanes(rules, 7 * n, like),
        load_lanes(rules, 8 * n, like),
    )


@inlined_strictly
def ridge_in_lanes(rules, n, like):
    """Return the strength of every member's ridge, for as many lanes as `like` has."""
    return load_lanes(rules, 9 * n, like)


@inlined_strictly
def by_unit(rule, scaled, raw):
    """Return `scaled` in the lanes of scale-free members, `raw` in the others."""
    zero = 0.0 * rule.scale_free
    return choose(rule.scale_free > 0.5, zero + scaled, zero + raw)


@inlined_strictly
def whole_floats(t):
    """Return the part of a number of rounds that a float can hold, such that it can hold the rest, too."""
    return 1.0 * (np.int64(t) // FLOAT_ROUNDS * FLOAT_ROUNDS)


@inlined_strictly
def current_weights(rules, vectors, like, records, i, t):
    """Return the weights of the record at place i after t rounds, of which its feature may have missed some."""
    w, n = load_lanes(records, i, like), len(like)
    if len(vectors) == 3:
        missed = (t - records[i + np.uint64(3 * n - 1)]) - records[i + np.uint64(2 * n - 1)]
        if missed > 0.0:
            rule, peak = rule_in_lanes(rules, n, like), 1.0 * records[i + np.uint64(n - 1)]
            s, kept = load_lanes(records, i + np.uint64(n), like), load_lanes(records, i + np.uint64(2 * n), like)
            unit, known = (1.0 / peak, 1.0) if peak > 0.0 else (0.0, 0.0)
            unit = by_unit(rule, unit, 1.0)
            h = metric(rule, base_metric(rule, kept), kept * unit, s * unit * unit)
            pull = ridge_in_lanes(rules, n, like) * rule.size * by_unit(rule, known, 1.0)
            w = w * choose(h > 0.0, decay(pull, h, missed)[0], 1.0)
    return w


@inlined_strictly
def prefetch_record(indices, j, records, vectors, width):
    """Prefetch the record of the feature of entry j."""
    i = np.uint64(np.uint32(indices[j])) * np.uint64(len(vectors) * width)
    for k in range(len(vectors)):
        prefetch(records, i + np.uint64(k * width))


@inlined_strictly
def last_prefetched(feature, vectors, width):
    """Return how many entries of a row are read while a later one is prefetched: none if its records fit the cache."""
    n = feature.shape[0]
    return n - ENTRIES_AHEAD if n * (8 * len(vectors) * width) > CACHE // 2 else 0


@inlined_strictly
def prefetch_row(indices, first, last, records, vectors, width):
    """Prefetch the records of the first features of a row, if all records are too many for the cache."""
    if records.nbytes > CACHE:
        for j in range(first, min(last, first + ENTRIES_AHEAD)):
            prefetch_record(indices, j, records, vectors, width)


@inlined_strictly
def mixed_sum(w, v):
    """Return the sum of all members' weights times v; a member with v = 0 does not count, whatever its weight."""
    return total(choose(v != 0.0, w * v, 0.0))


@inlined_strictly
def mixed_weight(memory, i, v):
    """Return the weight of the record at place i in the linear model in which members count with v."""
    return mixed_sum(current_weights(memory.rules, memory.vectors, v, memory.records, i, memory.ticks[0]), v)


@jit
def add_lane_weights(zero, memory, features, v, out):
    """Add the weights of `features` in the linear model in which members count with v."""
    memory, stride, parts = borrowed(memory), np.uint64(len(memory.vectors) * len(zero)), load_lanes(v, 0, lanes(zero))
    for j in range(features.shape[0]):
        i = np.uint64(np.uint32(features[j])) * stride
        if i < memory.records.shape[0]:
            out[j] += mixed_weight(memory, i, parts)


@jit
def score_lanes(zero, memory, chunk, scores):
    """Write the scores of all rows: [row, lane], as one axis; features without a record have no weights."""
    (indptr, indices, data), memory, scores = borrowed(chunk), borrowed(memory), borrowed(scores)
    like, n, t = lanes(zero), len(zero), memory.ticks[0]
    for r in range(indptr.shape[0] - 1):
        z = load_lanes(memory.intercept, 0, like) * memory.has_intercept
        for j in range(indptr[r], indptr[r + 1]):
            i = np.uint64(np.uint32(indices[j])) * np.uint64(len(memory.vectors) * n)
            if i < memory.records.shape[0]:
                z = z + current_weights(memory.rules, memory.vectors, like, memory.records, i, t) * data[j]
        store(scores, r * n, z)


@jit
def settle_lanes(zero, memory):
    """Bring all weights up to date, where features may have missed rounds."""
    memory, t, n = borrowed(memory), memory.ticks[0], len(zero)
    early, like = whole_floats(t), lanes(zero)
    for k in range(memory.records.shape[0] // (3 * n)):
        i = np.uint64(3 * n * k)
        store(memory.records, i, current_weights(memory.rules, memory.vectors, like, memory.records, i, t))
        memory.records[i + np.uint64(2 * n - 1)], memory.records[i + np.uint64(3 * n - 1)] = t - early, early
