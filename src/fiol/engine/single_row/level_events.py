"""The compiled functions of the single-row fast path of a model with curves and pairs.

A row is expanded once, into buffers of the model. The functions hold the interpreter's lock, so that no other call uses
the buffers. They return None, and change nothing, if the row needs the general code.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from fiol.compiler.addresses import floats_at, ints_at, load_values, load_values_like
from fiol.compiler.compiled import inlined, inlined_strictly, jit
from fiol.components.simd import choose, lanes, load_lanes, smaller, store
from fiol.engine.ensemble.lane_stack import lane_stack_row
from fiol.engine.ensemble.rounds import ensemble_round
from fiol.engine.round.reading import prediction, weighted_sum
from fiol.engine.round.rounds import in_order
from fiol.engine.single_row.events import (
    add_to_means,
    cannot_add,
    cannot_score,
    gather,
    mixed_lanes,
    read_entries,
    subtract_means,
)
from fiol.features.basis_loops import expand_rows


class LevelRows(NamedTuple):
    """Memory for one row at every level: as it came, with hats, and with hats and nodes."""

    plain: Any  #: three arrays, as a `Chunk`
    lower: Any
    upper: Any
    features: Any  #: [level, entry] of centered rows
    values: Any  #: [level, entry]
    counts: Any  #: [level, 2] the number of entries, and of centered ones
    scores: Any  #: [lane] of the levels
    weights: Any  #: [entry]; and of the levels


class LevelValues(NamedTuple):
    """What the functions take of a `LevelsEngine`."""

    stack: Any
    loss: Any
    zero: Any
    four: Any
    members: int
    state: Any  #: a `StackState` for lanes
    buffers: Any  #: a `LaneBuffers`
    level: Any  #: the `LaneValues` of the first level
    addresses: Any  #: [level] of the `LaneValues` of all levels
    parts: Any  #: what `expand_rows` takes beside rows; with one level it is not used
    learned: int  #: features below this can be learned from
    known: int  #: features below this can be scored
    rows: LevelRows


@inlined
def expand_event(row, n, entries, values):
    """Write a row as it came, with hats, and with hats and nodes into the buffers; whether they are long enough."""
    rows, parts, levels = values.rows, values.parts, values.addresses.shape[0]
    starts, indices, data = rows.plain
    if entries > data.shape[0]:
        return False
    feature, x = ints_at(row + 8 * n, entries), floats_at(row, entries)
    for k in range(entries):
        indices[k], data[k] = feature[k], x[k]
    starts[1] = rows.counts[0, 0] = entries
    if levels > 1:
        lower, upper = expand_rows(rows.plain, rows.plain, *parts, rows.lower, rows.upper)
        rows.counts[1, 0] = lower
        if levels > 2:
            rows.counts[2, 0] = upper
    return True


@inlined
def row_at_level(values, k):
    """Return the features and values of the expanded row at a level."""
    entries, rows = values.rows.counts[k, 0], values.rows
    if k == 0:
        return rows.plain[1][:entries], rows.plain[2][:entries]
    if k == 1:
        return rows.lower[1][:entries], rows.lower[2][:entries]
    return rows.upper[1][:entries], rows.upper[2][:entries]


@inlined
def center_at_level(values, level, k):
    """Return the features and values at a level, with the means subtracted."""
    feature, x = row_at_level(values, k)
    if level.means.features.shape[0] == 0:
        return feature, x
    return subtract_means(feature, x, level.means, values.rows.features[k], values.rows.values[k])


@inlined
def centered_at_level(values, level, k):
    """Return what `center_at_level` has returned for the same row."""
    if level.means.features.shape[0] == 0:
        return row_at_level(values, k)
    entries = values.rows.counts[k, 1]
    return values.rows.features[k, :entries], values.rows.values[k, :entries]


@inlined_strictly
def combined_score(values):
    """Return the score that the stack makes of the scores of the levels, with the bits of `LevelsEngine.scores`."""
    scores, weights = values.rows.scores, values.rows.weights
    store(weights, 0, mixed_lanes(lanes(values.zero), values.state))
    total = 0.0
    for k in range(values.addresses.shape[0]):
        part = weights[k] * scores[k]
        total += choose(part != 0.0, part, 0.0)  # which is no product any more, to be fused with a sum
    return total


@jit(nogil=False)
def score_level_event(block, row, n, limit, predicting):
    """Return the score of a row of features below `limit` by all levels, or its prediction."""
    values, entries = load_values(block), read_entries(row, n)
    if cannot_score(row, n, entries, smaller(limit, values.known)) or not expand_event(row, n, entries, values):
        return None
    levels, rows = values.addresses.shape[0], values.rows
    for k in range(levels):
        level = load_values_like(values.level, values.addresses[k])
        feature, x = center_at_level(values, level, k)
        w = rows.weights[: x.shape[0]]
        rows.scores[k] = gather(level, feature, w) + weighted_sum(x, w, 0, x.shape[0])
    z = (rows.scores[0] if levels == 1 else combined_score(values)) + values.level.means.origin[0]
    return prediction(values.loss, z) if predicting else z


@jit(nogil=False)
def learn_level_event(block, row, n, limit, y, weight):
    """Make the round of a row of features below `limit` by all levels and their stack; return its score before."""
    values, entries = load_values(block), read_entries(row, n)
    if cannot_score(row, n, entries, smaller(limit, values.learned)) or not expand_event(row, n, entries, values):
        return None
    levels, rows, loss = values.addresses.shape[0], values.rows, values.loss
    origin = values.level.means.origin[0]  # of all levels
    for k in range(levels):  # nothing is changed unless all levels can make the round
        level = load_values_like(values.level, values.addresses[k])
        if cannot_add(rows.counts[k, 0], level.means, False):
            return None
        feature, x = center_at_level(values, level, k)
        rows.counts[k, 1] = x.shape[0]
        features = level.memory.records.shape[0] // (len(level.memory.vectors) * len(level.zero))
        if not in_order(loss, feature, x, y, weight, features, level.memory.parts.shape[0] // 2, level.limits):
            return None
    for k in range(levels):
        level = load_values_like(values.level, values.addresses[k])
        feature, x = centered_at_level(values, level, k)
        like, quad, digits = lanes(level.zero), lanes(level.four), lanes(level.digits)
        stack, members, memory, known = level.stack, level.members, level.memory, level.known
        rows.scores[k] = ensemble_round(
            stack,
            loss,
            like,
            quad,
            digits,
            members,
            feature,
            x,
            y - origin,
            weight,
            None,
            0,
            memory,
            known,
            level.buffers,
        )
        feature, x = row_at_level(values, k)
        add_to_means(feature, x, y, weight, level.means)
    for k in range(levels, values.members):
        rows.scores[k] = rows.scores[levels - 1]
    z, quad = load_lanes(rows.scores, 0, lanes(values.zero)), lanes(values.four)
    stack, members, state, buffers = values.stack, values.members, values.state, values.buffers
    score = lane_stack_row(stack, loss, quad, z, y - origin, weight, members, state, buffers)
    return (rows.scores[0] if levels == 1 else score) + origin
