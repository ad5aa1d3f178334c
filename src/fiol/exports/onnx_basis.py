"""Curves and pairs as nodes of an ONNX graph, which takes a matrix of the features as they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from fiol.exports.basis import ExportedBasis, ExportedSlot
from fiol.exports.linear import ExportedModel
from fiol.features.basis import NEGLIGIBLE


def add_basis(graph: Any, scores: str, model: ExportedModel) -> str:
    """Add the terms of curves and pairs to scores, and return the name of the result."""
    basis, names = model.basis, model.names
    assert basis is not None
    place = {name: i for i, name in enumerate(range(model.weights.shape[1]) if names is None else names)}
    places = dict[int, tuple[str, str | None]]()
    paired = {s for pair in basis.pairs for s in (pair.left, pair.right)}
    for s, slot in enumerate(basis.slots):
        if slot.number is None:
            if s in paired:
                places[s] = category_point(graph, s, slot, place), None
            continue
        if slot.curve is None and s not in paired:
            continue
        value = input_columns(graph, f"value_{s}", [place[slot.number]])
        if slot.period:
            value = graph.node("Div", [value, number(graph, f"period_{s}", slot.period)], f"periods_{s}")
            value = graph.node("Sub", [value, graph.node("Floor", [value], f"whole_periods_{s}")], f"phase_{s}")
            value = add_part_at_knots(graph, s, len(slot.knots) - 1, value)
        missing = None
        if slot.missing:
            found = input_columns(graph, f"missing_features_{s}", [place[name] for name in slot.missing])
            total = graph.node("ReduceSum", [found, axis(graph)], f"missing_sum_{s}", keepdims=1)
            missing = graph.node("Greater", [total, number(graph, "zero", 0.0)], f"missing_{s}")
        if slot.curve is not None:
            ramps = clipped_ramps(graph, f"knots_{s}", slot.knots, value)
            rises = graph.constant(f"rises_{s}", np.diff(slot.curve, axis=1).T)
            term = graph.node("MatMul", [ramps, rises], f"rise_{s}")
            term = graph.node("Add", [term, graph.constant(f"start_{s}", slot.curve[:, 0])], f"curve_{s}")
            if missing is not None:
                term = graph.node("Where", [missing, number(graph, "zero", 0.0), term], f"present_curve_{s}")
            scores = graph.node("Add", [scores, term], f"score_with_curve_{s}")
        if s in paired:
            places[s] = number_place(graph, s, slot, value, missing)
    return add_pairs(graph, scores, basis, places)


def add_part_at_knots(graph: Any, s: int, intervals: int, part: str) -> str:
    """Add nodes for a part of a period, or the knot where it is one but for rounding, as in `part_of_interval`."""
    count = number(graph, f"intervals_of_period_{s}", float(intervals))
    place = graph.node("Mul", [part, count], f"place_of_period_{s}")
    nearest = graph.node("Round", [place], f"nearest_of_period_{s}")
    distance = graph.node(
        "Abs", [graph.node("Sub", [place, nearest], f"aside_of_period_{s}")], f"distance_of_period_{s}"
    )
    near = graph.node(
        "Less", [distance, number(graph, f"negligible_of_period_{s}", NEGLIGIBLE)], f"at_knot_of_period_{s}"
    )
    knot = graph.node("Div", [nearest, count], f"knot_of_period_{s}")
    return graph.node("Where", [near, knot, part], f"part_of_period_{s}")  # type: ignore[no-any-return]


def number(graph: Any, name: str, value: float) -> str:
    """Return a constant number of the graph."""
    return graph.constant(name, np.array(value))  # type: ignore[no-any-return]


def axis(graph: Any) -> str:
    """Return the axis of columns as a constant."""
    return graph.constant("columns", np.array([1]))  # type: ignore[no-any-return]


def input_columns(graph: Any, name: str, places: list[int]) -> str:
    """Add a node that takes these columns of the input."""
    return graph.node("Gather", ["X", graph.constant(f"{name}_places", np.array(places))], name, axis=1)  # type: ignore[no-any-return]


def clipped_ramps(graph: Any, name: str, knots: list[float], value: str) -> str:
    """Add the position of a number in each interval: 0 before it, 1 behind it."""
    array = np.array(knots)
    shifted = graph.node("Sub", [value, graph.constant(name, array[:-1])], f"shifted_{name}")
    scaled = graph.node("Div", [shifted, graph.constant(f"widths_{name}", np.diff(array))], f"scaled_{name}")
    limits = [number(graph, "zero", 0.0), number(graph, "one", 1.0)]
    return graph.node("Clip", [scaled, *limits], f"ramps_{name}")  # type: ignore[no-any-return]


def number_place(graph: Any, s: int, slot: ExportedSlot, value: str, missing: str | None) -> tuple[str, str]:
    """Add the point below a number, a whole number in a column, and where it is in its interval."""
    inner = graph.constant(f"inner_points_{s}", np.array(slot.grid[1:-1]))
    below = graph.node("Less", [value, inner], f"below_{s}")
    above = graph.node("Cast", [graph.node("Not", [below], f"above_{s}")], f"above_number_{s}", to=7)
    point = graph.node("ReduceSum", [above, axis(graph)], f"point_{s}", keepdims=1)
    ramps = clipped_ramps(graph, f"points_{s}", slot.grid, value)
    total = graph.node("ReduceSum", [ramps, axis(graph)], f"ramp_sum_{s}", keepdims=1)
    part = graph.node("Sub", [total, graph.node("Cast", [point], f"whole_part_{s}", to=11)], f"part_{s}")
    if missing is not None:
        last = graph.constant(f"last_point_{s}", np.array(slot.points - 1))
        point = graph.node("Where", [missing, last, point], f"point_or_missing_{s}")
        part = graph.node("Where", [missing, number(graph, "zero", 0.0), part], f"part_or_missing_{s}")
    return point, part


def category_point(graph: Any, s: int, slot: ExportedSlot, place: dict[Any, int]) -> str:
    """Add the point of a category, as a whole number in a column; far below 0 where the row has none."""
    found = input_columns(graph, f"values_{s}", [place[name] for name in slot.codes])
    there = graph.node("Not", [graph.node("Equal", [found, number(graph, "zero", 0.0)], f"absent_{s}")], f"there_{s}")
    counted = graph.node("Cast", [there], f"counted_{s}", to=7)
    codes = graph.constant(f"codes_{s}", np.array(list(slot.codes.values())) + NO_CATEGORY)
    total = graph.node("ReduceSum", [graph.node("Mul", [counted, codes], f"coded_{s}"), axis(graph)], f"total_{s}")
    return graph.node("Sub", [total, graph.constant("far", np.array(NO_CATEGORY))], f"point_{s}")  # type: ignore[no-any-return]


#: Far more than there are nodes.
NO_CATEGORY = 2**40


def add_pairs(graph: Any, scores: str, basis: ExportedBasis, places: dict[int, tuple[str, str | None]]) -> str:
    """Add the surfaces of all pairs to scores, and return the name of the result."""
    zero, one = number(graph, "zero", 0.0), number(graph, "one", 1.0)
    for k, pair in enumerate(basis.pairs):
        (left, a), (right, b) = places[pair.left], places[pair.right]
        width, count = pair.nodes.shape[2], pair.nodes[0].size
        row = graph.node("Mul", [left, graph.constant(f"width_{k}", np.array(width))], f"node_row_{k}")
        node = graph.node("Add", [row, right], f"node_{k}")
        lowest = graph.node("Min", [left, right], f"lowest_point_{k}")
        absent = graph.node("Less", [lowest, graph.constant("whole_zero", np.array(0))], f"no_node_{k}")
        last = graph.constant(f"nodes_{k}", np.array(count))
        node = graph.node("Where", [absent, last, node], f"node_or_none_{k}")
        table = np.vstack([pair.nodes.reshape(len(pair.nodes), -1).T, np.zeros((1, len(pair.nodes)))])
        weights = graph.constant(f"table_{k}", table)
        a, b = a or zero, b or zero
        large, small = graph.node("Max", [a, b], f"larger_{k}"), graph.node("Min", [a, b], f"smaller_{k}")
        across = graph.node("GreaterOrEqual", [a, b], f"across_{k}")
        steps = graph.constant(f"across_step_{k}", np.array(width)), graph.constant("whole_one", np.array(1))
        aside = graph.node("Where", [across, *steps], f"aside_{k}")
        corners = (
            (node, graph.node("Sub", [one, large], f"lower_{k}")),
            (graph.node("Add", [node, aside], f"aside_node_{k}"), graph.node("Sub", [large, small], f"middle_{k}")),
            (graph.node("Add", [node, graph.constant(f"far_{k}", np.array(width + 1))], f"far_node_{k}"), small),
        )
        for c, (its_node, value) in enumerate(corners):
            inside = graph.node("Min", [its_node, last], f"inside_{k}_{c}")
            flat = graph.node("Squeeze", [inside, axis(graph)], f"flat_{k}_{c}")
            weight = graph.node("Gather", [weights, flat], f"weight_{k}_{c}", axis=0)
            term = graph.node("Mul", [weight, value], f"corner_{k}_{c}")
            scores = graph.node("Add", [scores, term], f"score_{k}_{c}")
    return scores
