"""Curves and pairs as SQL: an inner SELECT has the number and the bin of every column, which the score refers to.

| part | in SQL |
|---|---|
| bin of a number | CASE over the knots; a missing value is the last bin |
| bin of a category | CASE over its values; -1 for values never seen |
| curve | CASE over the intervals: a line in each |
| pair | CASE over the number of the cell |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from fiol.exports.basis import ExportedBasis, ExportedPair, ExportedSlot, nonzero_cells
from fiol.exports.dialects.standard import identifier, number_literal


class SlotSource(NamedTuple):
    """SQL expressions of one column."""

    value: str  #: its number
    missing: str  #: the condition that its number is missing; '' if it never is
    codes: list[tuple[str, int]]  #: conditions of the values of a category, and their bins


def value_name(s: int) -> str:
    """Return the name of the number of slot s in the inner SELECT."""
    return identifier(f"fiol value {s}")


def bin_name(s: int) -> str:
    """Return the name of the bin of slot s in the inner SELECT."""
    return identifier(f"fiol bin {s}")


def inner_select(basis: ExportedBasis, source: Callable[[ExportedSlot], SlotSource], table: str) -> str:
    """Return a table in parentheses with all columns of `table`, and the number and bin of every slot."""
    columns, bins = list[str](), list[str]()
    for s, slot in enumerate(basis.slots):
        found = source(slot)
        if slot.number is None:
            cases = "".join(f" WHEN {condition} THEN {code}" for condition, code in found.codes)
            bins.append(f"{f'CASE{cases} ELSE -1 END' if cases else '-1'} AS {bin_name(s)}")
            continue
        value = f"CASE WHEN {found.missing} THEN NULL ELSE {found.value} END" if found.missing else found.value
        columns.append(f"{value} AS {value_name(s)}")
        bins.append(f"{bin_of_number(slot, value_name(s))} AS {bin_name(s)}")
    first = (
        f"(SELECT *{''.join(f', {one}' for one in columns)} FROM {identifier(table)}) AS {identifier('fiol values')}"
    )
    return f"(SELECT *{''.join(f', {one}' for one in bins)} FROM {first}) AS {identifier('fiol bins')}"


def bin_of_number(slot: ExportedSlot, value: str) -> str:
    """Return the bin of a number; a missing one is the last."""
    cases = [f" WHEN {value} IS NULL THEN {slot.bins - 1}"]
    if slot.few:
        for j, (low, high) in enumerate(zip(slot.knots, slot.knots[1:], strict=False)):
            part = f"({value} - {number_literal(low)}) / {number_literal(high - low)}"
            cases.append(f" WHEN {part} < 0.5e0 THEN {j}")
        last = len(slot.knots) - 1
    else:
        cases += [f" WHEN {value} < {number_literal(knot)} THEN {j}" for j, knot in enumerate(slot.knots[1:-1])]
        last = len(slot.knots) - 2
    return f"CASE{''.join(cases)} ELSE {last} END"


def basis_terms(basis: ExportedBasis, k: int) -> Iterator[str]:
    """Yield the terms of all curves and pairs in score k."""
    for s, slot in enumerate(basis.slots):
        if slot.curve is not None and slot.curve[k].any():
            yield curve_term(slot, slot.curve[k].tolist(), value_name(s))
    for pair in basis.pairs:
        if pair.cells[k].any():
            yield pair_term(pair, basis, k)


def curve_term(slot: ExportedSlot, weights: list[float], value: str) -> str:
    """Return the value of a curve: constant beyond its knots, linear between them."""
    knots, number = slot.knots, number_literal
    cases = [f" WHEN {value} IS NULL THEN 0.0e0", f" WHEN {value} <= {number(knots[0])} THEN {number(weights[0])}"]
    for j in range(len(knots) - 1):
        rise = f"({value} - {number(knots[j])}) / {number(knots[j + 1] - knots[j])}"
        line = f"{number(weights[j])} + {rise} * {number(weights[j + 1] - weights[j])}"
        cases.append(f" WHEN {value} < {number(knots[j + 1])} THEN {line}")
    return f"(CASE{''.join(cases)} ELSE {number(weights[-1])} END)"


def pair_term(pair: ExportedPair, basis: ExportedBasis, k: int) -> str:
    """Return the weight of the cell that a row is in."""
    left, right, width = bin_name(pair.left), bin_name(pair.right), basis.slots[pair.right].bins
    cells: Any = nonzero_cells(pair.cells[k : k + 1])
    cases = "".join(f" WHEN {cell} THEN {number_literal(float(own[0]))}" for cell, own in cells)
    chosen = f"CASE {left} * {width} + {right}{cases} ELSE 0.0e0 END"
    return f"(CASE WHEN {left} < 0 OR {right} < 0 THEN 0.0e0 ELSE {chosen} END)"
