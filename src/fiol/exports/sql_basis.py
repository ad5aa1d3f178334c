"""Curves and pairs as SQL: an inner SELECT has the number and the point of every column, which the score refers to.

| part | in SQL |
|---|---|
| point of a number | CASE over the points of the grid: the lower end of its interval; the last for a missing value |
| part of a number | CASE over the points of the grid: where in its interval it is, from 0 to 1 |
| point of a category | CASE over its values; -1 for values never seen |
| part of a period | numbers of periods less whole ones, in a SELECT of its own |
| curve | CASE over the intervals: a line in each |
| pair | CASE over the number of the lower corner: a plane in each triangle |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from fiol.components.row import Floats
from fiol.exports.basis import ExportedBasis, ExportedPair, ExportedSlot
from fiol.exports.dialects.standard import Dialect, identifier, number_literal
from fiol.features.basis import NEGLIGIBLE


class SlotSource(NamedTuple):
    """SQL expressions of one column."""

    value: str  #: its number
    missing: str  #: the condition that its number is missing; '' if it never is
    codes: list[tuple[str, int]]  #: conditions of the values of a category, and their points


def value_name(s: int) -> str:
    """Return the name of the number of slot s in the inner SELECT."""
    return identifier(f"fiol value {s}")


def point_name(s: int) -> str:
    """Return the name of the point of slot s in the inner SELECT."""
    return identifier(f"fiol point {s}")


def part_name(s: int) -> str:
    """Return the name of the part of slot s in the inner SELECT."""
    return identifier(f"fiol part {s}")


def inner_select(
    basis: ExportedBasis, source: Callable[[ExportedSlot], SlotSource], rows: str, dialect: Dialect
) -> str:
    """Return a table in parentheses with all columns of `rows`, and the number, point and part of every slot."""
    columns, periods, places = list[str](), list[str](), list[str]()
    for s, slot in enumerate(basis.slots):
        found = source(slot)
        if slot.number is None:
            cases = "".join(f" WHEN {condition} THEN {code}" for condition, code in found.codes)
            places.append(f"{f'CASE{cases} ELSE -1 END' if cases else '-1'} AS {point_name(s)}")
            continue
        value = f"CASE WHEN {found.missing} THEN NULL ELSE {found.value} END" if found.missing else found.value
        if slot.period:
            number = identifier(f"fiol periods {s}")
            columns.append(f"({value}) / {number_literal(slot.period)} AS {number}")
            part = f"({number} - {dialect.floor(number)})"
            periods.append(f"{sql_part_at_knots(part, len(slot.knots) - 1)} AS {value_name(s)}")
        else:
            columns.append(f"{value} AS {value_name(s)}")
        places.append(f"{point_of_number(slot, value_name(s))} AS {point_name(s)}")
        places.append(f"{part_of_number(slot, value_name(s))} AS {part_name(s)}")
    for name, more in (("fiol values", columns), ("fiol parts of periods", periods), ("fiol places", places)):
        if more or name != "fiol parts of periods":
            rows = f"(SELECT *{''.join(f', {one}' for one in more)} FROM {rows}{dialect.fence}) AS {identifier(name)}"
    return rows


def sql_part_at_knots(part: str, intervals: int) -> str:
    """Return a part of a period, or the knot where it is one but for rounding, as in `part_of_interval`."""
    place = f"{part} * {number_literal(intervals)}"
    near = f"ABS({place} - ROUND({place})) < {number_literal(NEGLIGIBLE)}"
    return f"CASE WHEN {near} THEN ROUND({place}) / {number_literal(intervals)} ELSE {part} END"


def point_of_number(slot: ExportedSlot, value: str) -> str:
    """Return the point at the lower end of the interval of a number; a missing one has the last point."""
    cases = [f" WHEN {value} IS NULL THEN {slot.points - 1}"]
    cases += [f" WHEN {value} < {number_literal(point)} THEN {j}" for j, point in enumerate(slot.grid[1:-1])]
    return f"CASE{''.join(cases)} ELSE {max(len(slot.grid) - 2, 0)} END"


def part_of_number(slot: ExportedSlot, value: str) -> str:
    """Return where a number is in its interval, from 0 to 1; 0 for a missing one."""
    if len(slot.grid) < 2:
        return "0.0e0"
    cases = [f" WHEN {value} IS NULL OR {value} <= {number_literal(slot.grid[0])} THEN 0.0e0"]
    for low, high in zip(slot.grid, slot.grid[1:], strict=False):
        part = f"({value} - {number_literal(low)}) / {number_literal(high - low)}"
        cases.append(f" WHEN {value} < {number_literal(high)} THEN {part}")
    return f"CASE{''.join(cases)} ELSE 1.0e0 END"


def basis_terms(basis: ExportedBasis, k: int) -> Iterator[str]:
    """Yield the terms of all curves and pairs in score k."""
    for s, slot in enumerate(basis.slots):
        if slot.curve is not None and slot.curve[k].any():
            yield curve_term(slot, slot.curve[k].tolist(), value_name(s))
    for pair in basis.pairs:
        if pair.nodes[k].any():
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
    """Return the value of the surface of a pair: linear in the part of both columns, in each of two triangles."""
    left, right = point_name(pair.left), point_name(pair.right)
    rows, columns = (upper_points(basis.slots[s]) for s in (pair.left, pair.right))
    nodes, cases = pair.nodes[k], list[str]()
    parts = [part_name(s) if basis.slots[s].number is not None else "" for s in (pair.left, pair.right)]
    for i, up in enumerate(rows):
        for j, along in enumerate(columns):
            corners = nodes[i, j], nodes[up, j], nodes[i, along], nodes[up, along]
            if np.any(corners):
                cases.append(f" WHEN {i * len(columns) + j} THEN {plane(corners, *parts)}")
    chosen = f"CASE {left} * {len(columns)} + {right}{''.join(cases)} ELSE 0.0e0 END"
    return f"(CASE WHEN {left} < 0 OR {right} < 0 THEN 0.0e0 ELSE {chosen} END)"


def upper_points(slot: ExportedSlot) -> list[int]:
    """Return the point at the upper end of the interval after each point; itself where numbers do not go on.

    >>> upper_points(ExportedSlot("a", 4, [0.0, 1.0, 2.0], [0.0, 1.0, 2.0], "a", [], {}, None))
    [1, 2, 2, 3]
    """
    return [j + 1 if j + 1 < len(slot.grid) else j for j in range(slot.points)]


def plane(corners: tuple[float, ...] | Floats, a: str, b: str) -> str:
    """Return the value of a surface between four corners, (0, 0), (1, 0), (0, 1), (1, 1), at the parts a and b.

    >>> plane((1.0, 3.0, 1.0, 3.0), "a", "")
    '1.0e0 + a * 2.0e0'
    """
    low, of_a, of_b, high = (float(corner) for corner in corners)

    def sum_of(rise_a: float, rise_b: float) -> str:
        rises = [f" + {part} * {number_literal(rise)}" for part, rise in ((a, rise_a), (b, rise_b)) if part and rise]
        return number_literal(low) + "".join(rises)

    first, second = sum_of(of_a - low, high - of_a), sum_of(high - of_b, of_b - low)
    return first if first == second else f"CASE WHEN {a} >= {b} THEN {first} ELSE {second} END"
