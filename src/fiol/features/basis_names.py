"""Names of hats, points and nodes, for weights, plots and exported models."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Any

import numpy as np

from fiol.features.basis import CYCLES, ColumnBasis
from fiol.features.column_kinds import MISSING
from fiol.features.column_roles import Roles

#: Between the names of the two points of a node.
AND = " & "
#: Between the name of a column and a knot.
HAT = "~"
#: The value of a category that has no point of its own.
OTHERS = "(others)"


def slot_names(basis: ColumnBasis, names: Sequence[Any], roles: Roles) -> list[str]:
    """Return the name of the column of every slot; `names` are those of the features as they are.

    Curves of dates that close have the name of their period as well, such as `day.yearday`.
    """
    columns, own = roles.column[basis.member].tolist(), basis.slots_of(roles)[basis.member].tolist()
    periods = basis.period.tolist()
    ends = ["" if s == first else f".{CYCLES[periods[s]].name}" for s, first in enumerate(own)]
    return [roles.titles.get(first, str(names[first])) + end for first, end in zip(columns, ends, strict=True)]


def knots_of(basis: ColumnBasis, slot: int) -> Any:
    """Return the knots of a slot."""
    start = int(basis.counts[:slot].sum())
    return basis.knots[start : start + int(basis.counts[slot])]


def shown_knots(basis: ColumnBasis, slot: int) -> Any:
    """Return the knots of a slot in the unit of its names: hours and days, if its curve closes."""
    period = float(basis.period[slot])
    return knots_of(basis, slot) * (CYCLES[period].unit if period else 1.0)


def knot_texts(basis: ColumnBasis, slot: int) -> list[str]:
    """Return the text of every knot of a slot in its unit: as few digits as tell them apart, but six at least.

    Whole numbers have all their digits, up to 15: the ids 1234567 and 2345678 are no 1.23457e+06 and 2.34568e+06.
    Names of features follow from knots whenever they are read, and are not part of model files.
    """
    knots = shown_knots(basis, slot)[: -1 if basis.period[slot] else None].tolist()
    for digits in (6, 9, 12):
        found = [f"{knot:.0f}" if knot.is_integer() and abs(knot) < 1e15 else f"{knot:.{digits}g}" for knot in knots]
        if len({*found}) == len(found):
            return found
    return list(map(repr, knots))


def points_of(basis: ColumnBasis, slot: int) -> Any:
    """Return the knots of a slot that are points of its grids."""
    start = int(basis.counts[:slot].sum())
    return knots_of(basis, slot)[basis.in_grid[start : start + int(basis.counts[slot])] > 0]


def point_names(basis: ColumnBasis, names: Sequence[Any], roles: Roles) -> list[list[str]]:
    """Return the names of the points of every slot.

    >>> from fiol import to_chunk
    >>> from fiol.components.table_basis import TableBasis
    >>> from fiol.features.basis import find_basis
    >>> from fiol.features.column_roles import columns_of_numbers
    >>> rows, roles = to_chunk([[1.0, 0.1], [2.0, 0.4], [1.0, 0.7]]), columns_of_numbers(2)
    >>> point_names(find_basis(TableBasis(rows=2, knots=2), rows, roles), ["a", "b"], roles)
    [['a=1', 'a=2', 'a is missing'], ['b~0.1', 'b~0.4', 'b~0.7', 'b is missing']]
    """
    slots, found = basis.slots_of(roles), list[list[str]]()
    for s, column in enumerate(slot_names(basis, names, roles)):
        if basis.period[s]:
            found.append([*(f"{column}{HAT}{knot}" for knot in knot_texts(basis, s)), column + MISSING])
            continue
        if basis.numeric[s]:
            sign = "=" if basis.few[s] else HAT
            points = compress(knot_texts(basis, s), np.isin(knots_of(basis, s), points_of(basis, s)).tolist())
            found.append([*(f"{column}{sign}{point}" for point in points), column + MISSING])
            continue
        own = [f"{column}={OTHERS}"] * int(basis.points[s])
        for i in np.flatnonzero(slots[: len(basis.codes)] == s).tolist():
            if basis.codes[i] < basis.points[s] - 1:
                own[basis.codes[i]] = str(names[i])
        found.append(own)
    return found


def hat_names(basis: ColumnBasis, names: Sequence[Any], roles: Roles) -> list[str]:
    """Return the names of all hats: the column, and the knot where the hat is 1."""
    columns = slot_names(basis, names, roles)
    return [
        f"{columns[s]}{HAT}{knot}" for s in np.flatnonzero(basis.hat_counts).tolist() for knot in knot_texts(basis, s)
    ]


def node_names(basis: ColumnBasis, names: Sequence[Any], roles: Roles) -> list[str]:
    """Return the names of all nodes: those of their two points."""
    points = [numbered_points(own) for own in point_names(basis, names, roles)]
    pairs = zip(basis.left.tolist(), basis.right.tolist(), strict=True)
    return [f"{a}{AND}{b}" for left, right in pairs for a in points[left] for b in points[right]]


def numbered_points(names: list[str]) -> list[str]:
    """Return names of points, with their numbers where points have no values yet.

    >>> numbered_points(["city=Rome", "city=(others)", "city=(others)"])
    ['city=Rome', 'city=(others) 1', 'city=(others)']
    """
    *first, last = names
    return [*(f"{name} {k}" if name == last else name for k, name in enumerate(first)), last]


def all_names(basis: ColumnBasis, names: Sequence[Any], roles: Roles, nodes: bool) -> list[Any]:
    """Return the names of the features as they are, hats and nodes, in the order of their numbers."""
    known = int(basis.known[0])
    made = [*hat_names(basis, names, roles), *(node_names(basis, names, roles) if nodes else [])]
    return [*names[:known], *made, *names[known:]]
