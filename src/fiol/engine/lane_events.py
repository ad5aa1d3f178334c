"""One event at a time for an ensemble whose members are all lanes: see `fiol.engine.events`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fiol.compiler.compiled import inlined_strictly, jit_as_c
from fiol.compiler.python_objects import attempted, block_in, new_float, python_function, share, usable
from fiol.components.component import flat
from fiol.components.lanes import choose, lanes, load_lanes
from fiol.engine.events import (
    NONE,
    RowReading,
    add_to_means,
    features_after,
    met,
    others_turn,
    read_event,
    read_example,
    reading_for,
    without_means,
)
from fiol.engine.lane_rounds import stacked_round
from fiol.engine.lanes import mixed_sum, mixed_weight
from fiol.engine.reading import prediction, score_one_row
from fiol.engine.rounds import in_order


class LaneValues(NamedTuple):
    """What the functions work on."""

    predicting: int  #: whether the prediction is wanted, not the score
    stack: Any
    loss: Any
    zero: Any
    four: Any
    digits: Any
    members: int
    held: Any  #: a `LaneMemory`
    known: Any  #: a `StackState` for lanes
    room: Any  #: a `LaneRoom`
    plan: Any  #: that of the one linear model,
    intercept_plan: Any
    state: Any  #: and a state that has the weights of a row, one after the other
    intercept: Any
    fresh: Any
    ticks: Any
    places: Any  #: 0, 1, 2, ...
    reading: RowReading


@inlined_strictly
def lane_round(values, feature, x, y, weight):  # type: ignore[no-untyped-def]
    """One round of all members and their stack; returns the score of the whole before it."""
    parts = values.stack, values.loss, values.zero, values.four, values.digits, values.members
    return stacked_round(*parts, feature, x, y, weight, None, 0, values.held, values.known, values.room)


@inlined_strictly
def mixed_lanes(zero, known):  # type: ignore[no-untyped-def]
    """What the score of each member counts with now: `mixing`, in lanes, to the bit."""
    v = lanes(zero)
    for j in range(known.v.shape[0]):
        part = known.share[j] * load_lanes(flat(known.v), j * len(zero), v)
        v = v + choose(part != 0.0, part, 0.0)  # which is no product any more, to be fused with a sum
    return v


@inlined_strictly
def gather(values, feature):  # type: ignore[no-untyped-def]
    """Write the weights of a row's features, and the intercept, in the one linear model."""
    held, zero = values.held, values.zero
    v, room = mixed_lanes(zero, values.known), np.uint64(len(held.vectors) * len(zero))
    for k in range(feature.shape[0]):
        i = np.uint64(np.uint32(feature[k])) * room
        values.state.w[k] = 0.0
        if i < held.records.shape[0]:
            values.state.w[k] = mixed_weight(held, zero, i, v)
    if values.intercept.w.shape[0] > 0:
        values.intercept.w[0] = mixed_sum(load_lanes(held.intercept, 0, v), v)


@jit_as_c
def score_lane_event(function, arguments, count):  # type: ignore[no-untyped-def]
    """`score_event` of an ensemble."""
    values = block_in(function)
    reading = values.reading
    n = -1 if others_turn(reading) else read_event(reading, arguments, count == 1)[0]
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
def learn_lane_event(function, arguments, count):  # type: ignore[no-untyped-def]
    """`learn_event` of an ensemble."""
    values = block_in(function)
    reading, held = values.reading, values.held
    entries, new, y, w = read_example(reading, arguments, count)
    if entries < 0:
        return share(reading.facts[NONE])
    features, more = features_after(reading, entries, new, count == 3)
    n = without_means(reading, entries)
    row, x = reading.feature[:n], reading.x[:n]
    room = min(features, held.records.shape[0] // (len(held.vectors) * len(values.zero))), held.parts.shape[0] // 2
    limits = reading.low, reading.high, reading.heaviest
    failed, fine = attempted(in_order, (values.loss, row, x, y, w, *room, *limits))
    if failed:
        return 0
    if not fine or not met(reading, new, more, features):
        return share(reading.facts[NONE])
    failed, z = attempted(lane_round, (values, row, x, y, w))
    if failed:
        return 0
    add_to_means(reading, entries)
    return new_float(z)


def lane_functions_for(
    engine: Any, at_hand: Any, intakes: tuple[Any, ...], learning: bool, grows: bool, turns: Any
) -> None:
    """`functions_for` an `EnsembleEngine` that is `all_in_lanes`."""
    if not usable():
        return
    reading, alive = reading_for(engine, at_hand, intakes, learning, grows, turns)
    group, known = engine.group, (engine.known_to_stack, engine.stack_room)
    room = len(reading.feature)
    alone = *engine.plans, *engine.linear_memory(room), np.arange(room, dtype=np.int32)
    parts = *engine.stack_parts, group.digits, len(engine.in_lanes), group.memory, *known, *alone

    def function(kernel: Any, predicting: int = 0) -> Any:
        return python_function(kernel, LaneValues._make((predicting, *parts, reading)), alive)

    if learning:
        at_hand.learn = function(learn_lane_event)
    else:
        at_hand.score, at_hand.predict = function(score_lane_event), function(score_lane_event, 1)
