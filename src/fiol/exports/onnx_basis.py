"""Curves and pairs as nodes of an ONNX graph, which takes a matrix of the features as they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from fiol.exports.basis import ExportedBasis, ExportedSlot
from fiol.exports.linear import ExportedModel


def add_basis(graph: Any, scores: str, model: ExportedModel) -> str:
    """Add the terms of curves and pairs to scores, and return the name of the result."""
    basis, names = model.basis, model.names
    assert basis is not None
    place = {name: i for i, name in enumerate(range(model.weights.shape[1]) if names is None else names)}
    bins = dict[int, str]()
    paired = {s for pair in basis.pairs for s in (pair.left, pair.right)}
    for s, slot in enumerate(basis.slots):
        if slot.number is None:
            if s in paired:
                bins[s] = category_bin(graph, s, slot, place)
            continue
        if slot.curve is None and s not in paired:
            continue
        value = input_columns(graph, f"value_{s}", [place[slot.number]])
        missing = None
        if slot.missing:
            found = input_columns(graph, f"missing_features_{s}", [place[name] for name in slot.missing])
            total = graph.node("ReduceSum", [found, axis(graph)], f"missing_sum_{s}", keepdims=1)
            missing = graph.node("Greater", [total, number(graph, "zero", 0.0)], f"missing_{s}")
        ramps = clipped_ramps(graph, s, slot, value)
        if slot.curve is not None:
            rises = graph.constant(f"rises_{s}", np.diff(slot.curve, axis=1).T)
            term = graph.node("MatMul", [ramps, rises], f"rise_{s}")
            term = graph.node("Add", [term, graph.constant(f"start_{s}", slot.curve[:, 0])], f"curve_{s}")
            if missing is not None:
                term = graph.node("Where", [missing, number(graph, "zero", 0.0), term], f"present_curve_{s}")
            scores = graph.node("Add", [scores, term], f"score_with_curve_{s}")
        if s in paired:
            bins[s] = number_bin(graph, s, slot, value, ramps, missing)
    return add_pairs(graph, scores, basis, bins)


def number(graph: Any, name: str, value: float) -> str:
    """Return a constant number of the graph."""
    return graph.constant(name, np.array(value))  # type: ignore[no-any-return]


def axis(graph: Any) -> str:
    """Return the axis of columns as a constant."""
    return graph.constant("columns", np.array([1]))  # type: ignore[no-any-return]


def input_columns(graph: Any, name: str, places: list[int]) -> str:
    """Add a node that takes these columns of the input."""
    return graph.node("Gather", ["X", graph.constant(f"{name}_places", np.array(places))], name, axis=1)  # type: ignore[no-any-return]


def clipped_ramps(graph: Any, s: int, slot: ExportedSlot, value: str) -> str:
    """Add the position of a number in each interval: 0 before it, 1 behind it."""
    knots = np.array(slot.knots)
    shifted = graph.node("Sub", [value, graph.constant(f"knots_{s}", knots[:-1])], f"shifted_{s}")
    scaled = graph.node("Div", [shifted, graph.constant(f"widths_{s}", np.diff(knots))], f"scaled_{s}")
    limits = [number(graph, "zero", 0.0), number(graph, "one", 1.0)]
    return graph.node("Clip", [scaled, *limits], f"ramps_{s}")  # type: ignore[no-any-return]


def number_bin(graph: Any, s: int, slot: ExportedSlot, value: str, ramps: str, missing: str | None) -> str:
    """Add the bin of a number, as a whole number in a column."""
    if slot.few:
        below = graph.node("Less", [ramps, number(graph, "half", 0.5)], f"below_{s}")
    else:
        inner = graph.constant(f"inner_knots_{s}", np.array(slot.knots[1:-1]))
        below = graph.node("Less", [value, inner], f"below_{s}")
    above = graph.node("Cast", [graph.node("Not", [below], f"above_{s}")], f"above_number_{s}", to=7)
    found = graph.node("ReduceSum", [above, axis(graph)], f"bin_{s}", keepdims=1)
    if missing is None:
        return found  # type: ignore[no-any-return]
    last = graph.constant(f"last_bin_{s}", np.array(slot.bins - 1))
    return graph.node("Where", [missing, last, found], f"bin_or_missing_{s}")  # type: ignore[no-any-return]


def category_bin(graph: Any, s: int, slot: ExportedSlot, place: dict[Any, int]) -> str:
    """Add the bin of a category, as a whole number in a column; far below 0 where the row has none."""
    found = input_columns(graph, f"values_{s}", [place[name] for name in slot.codes])
    there = graph.node("Not", [graph.node("Equal", [found, number(graph, "zero", 0.0)], f"absent_{s}")], f"there_{s}")
    counted = graph.node("Cast", [there], f"counted_{s}", to=7)
    codes = graph.constant(f"codes_{s}", np.array(list(slot.codes.values())) + NO_CATEGORY)
    total = graph.node("ReduceSum", [graph.node("Mul", [counted, codes], f"coded_{s}"), axis(graph)], f"total_{s}")
    return graph.node("Sub", [total, graph.constant("far", np.array(NO_CATEGORY))], f"bin_{s}")  # type: ignore[no-any-return]


#: Far more than there are cells.
NO_CATEGORY = 2**40


def add_pairs(graph: Any, scores: str, basis: ExportedBasis, bins: dict[int, str]) -> str:
    """Add the weights of the cells of all pairs to scores, and return the name of the result."""
    for k, pair in enumerate(basis.pairs):
        width, count = pair.cells.shape[2], pair.cells[0].size
        row = graph.node("Mul", [bins[pair.left], graph.constant(f"width_{k}", np.array(width))], f"cell_row_{k}")
        cell = graph.node("Add", [row, bins[pair.right]], f"cell_{k}")
        lowest = graph.node("Min", [bins[pair.left], bins[pair.right]], f"lowest_bin_{k}")
        absent = graph.node("Less", [lowest, graph.constant("whole_zero", np.array(0))], f"no_cell_{k}")
        cell = graph.node("Where", [absent, graph.constant(f"cells_{k}", np.array(count)), cell], f"cell_or_none_{k}")
        flat = graph.node("Squeeze", [cell, axis(graph)], f"flat_cell_{k}")
        table = np.vstack([pair.cells.reshape(len(pair.cells), -1).T, np.zeros((1, len(pair.cells)))])
        weight = graph.node("Gather", [graph.constant(f"table_{k}", table), flat], f"cell_weight_{k}", axis=0)
        scores = graph.node("Add", [scores, weight], f"score_with_pair_{k}")
    return scores
