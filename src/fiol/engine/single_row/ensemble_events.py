"""The single-row fast path of an ensemble whose members are all lanes: see `fiol.engine.single_row.events`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fiol.compiler.compiled import inlined_strictly, jit_as_c
from fiol.compiler.python_objects import attempted, block_in, new_float, python_function, share, usable
from fiol.components.component import flatten
from fiol.components.simd import choose, lanes, load_lanes
from fiol.engine.ensemble.lane_records import mixed_sum, mixed_weight
from fiol.engine.ensemble.rounds import ensemble_round
from fiol.engine.round.reading import prediction, score_one_row
from fiol.engine.round.rounds import in_order
from fiol.engine.single_row.events import (
    NONE,
    RowReading,
    add_to_means,
    features_after,
    locked_by_other,
    read_event,
    read_example,
    reading_for,
    store_new,
    without_means,
)


class LaneValues(NamedTuple):
    """Arrays of the members and their stack that the functions work on."""

    predicting: int  #: whether the prediction is wanted, not the score
    stack: Any
    loss: Any
    zero: Any
    four: Any
    digits: Any
    members: int
    memory: Any  #: a `LaneMemory`
    known: Any  #: a `StackState` for lanes
    buffers: Any  #: a `LaneRoom`
    plan: Any  #: that of the linear model,
    intercept_plan: Any
    state: Any  #: and a state with the weights of the entries of a row
    intercept: Any
    fresh: Any
    ticks: Any
    places: Any  #: 0, 1, 2, ...
    reading: RowReading


@inlined_strictly
def lane_round(values, feature, x, y, weight):
    """Make one round of all members and their stack; return the ensemble's score before it."""
    parts = values.stack, values.loss, values.zero, values.four, values.digits, values.members
    return ensemble_round(*parts, feature, x, y, weight, None, 0, values.memory, values.known, values.buffers)


@inlined_strictly
def mixed_lanes(zero, known):
    """The weight of each member in lanes, with the same bits as `fiol.engine.ensemble.stack_state.mixing`."""
    v = lanes(zero)
    for j in range(known.v.shape[0]):
        part = known.share[j] * load_lanes(flatten(known.v), j * len(zero), v)
        v = v + choose(part != 0.0, part, 0.0)  # which is no product any more, to be fused with a sum
    return v


@inlined_strictly
def gather(values, feature):
    """Write the weights of a row's features, and the intercept, of the linear model."""
    memory, zero = values.memory, values.zero
    v, size = mixed_lanes(zero, values.known), np.uint64(len(memory.vectors) * len(zero))
    for k in range(feature.shape[0]):
        i = np.uint64(np.uint32(feature[k])) * size
        values.state.w[k] = 0.0
        if i < memory.records.shape[0]:
            values.state.w[k] = mixed_weight(memory, zero, i, v)
    if values.intercept.w.shape[0] > 0:
        values.intercept.w[0] = mixed_sum(load_lanes(memory.intercept, 0, v), v)


@jit_as_c
def score_lane_event(function, arguments, count):
    """Return the score of a row by an ensemble, or its prediction; None if the row needs the general code."""
    values = block_in(function)
    reading = values.reading
    n = -1 if locked_by_other(reading) else read_event(reading, arguments, count == 1)[0]
    if n < 0:
        return share(reading.facts[NONE])
    n = without_means(reading, n)
    gather(values, reading.feature[:n])
    known = values.state, values.intercept, values.fresh, values.ticks
    row = values.plan, values.intercept_plan, values.places[:n], reading.x[:n]
    failed, z = attempted(score_one_row, (*row, *known))
    if not failed and values.predicting:
        failed, z = attempted(prediction, (values.loss, z))
    return 0 if failed else new_float(z)


@jit_as_c
def learn_lane_event(function, arguments, count):
    """Make a round of an ensemble for a row, a target and a weight; see `learn_event`."""
    values = block_in(function)
    reading, memory = values.reading, values.memory
    entries, new, y, w = read_example(reading, arguments, count)
    if entries < 0:
        return share(reading.facts[NONE])
    features, more = features_after(reading, entries, new, count == 3)
    n = without_means(reading, entries)
    row, x = reading.feature[:n], reading.x[:n]
    sizes = (
        min(features, memory.records.shape[0] // (len(memory.vectors) * len(values.zero))),
        memory.parts.shape[0] // 2,
    )
    limits = reading.low, reading.high, reading.heaviest
    failed, fine = attempted(in_order, (values.loss, row, x, y, w, *sizes, *limits))
    if failed:
        return 0
    if not fine or not store_new(reading, new, more, features):
        return share(reading.facts[NONE])
    failed, z = attempted(lane_round, (values, row, x, y, w))
    if failed:
        return 0
    add_to_means(reading, entries)
    return new_float(z)


def lane_functions_for(
    engine: Any, fast_path: Any, spaces: tuple[Any, ...], learning: bool, grows: bool, lock: Any
) -> None:
    """Compile the functions of a `FastPath` for an `EnsembleEngine` that is `all_in_lanes`."""
    if not usable():
        return
    reading, alive = reading_for(engine, fast_path, spaces, learning, grows, lock)
    group, stack = engine.group, engine.stack
    size = len(reading.feature)
    alone = *engine.plans, *engine.linear_memory(size), np.arange(size, dtype=np.int32)
    state = stack.own_state, stack.buffers
    parts = *stack.lane_parts, group.digits, stack.members, group.memory, *state, *alone

    def function(kernel: Any, predicting: int = 0) -> Any:
        return python_function(kernel, LaneValues._make((predicting, *parts, reading)), alive)

    if learning:
        fast_path.learn = function(learn_lane_event)
    else:
        fast_path.score, fast_path.predict = function(score_lane_event), function(score_lane_event, 1)
