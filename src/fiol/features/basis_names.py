"""Names of hats, bins and cells, for weights, plots and exported models."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from fiol.features.basis import ColumnBasis
from fiol.features.column_kinds import MISSING
from fiol.features.column_roles import Roles

#: Between the names of the two bins of a cell.
AND = " & "
#: The value of a category that has no bin of its own.
OTHERS = "(others)"


def slot_names(basis: ColumnBasis, names: Sequence[Any], roles: Roles) -> list[str]:
    """Return the name of the column of every slot; `names` are those of the features as they are."""
    columns = roles.column[basis.member].tolist()
    return [roles.titles.get(first, str(names[first])) for first in columns]


def knots_of(basis: ColumnBasis, slot: int) -> Any:
    """Return the knots of a slot."""
    start = int(basis.counts[:slot].sum())
    return basis.knots[start : start + int(basis.counts[slot])]


def bin_names(basis: ColumnBasis, names: Sequence[Any], roles: Roles) -> list[list[str]]:
    """Return the names of the bins of every slot.

    >>> from fiol import to_chunk
    >>> from fiol.components.table_basis import TableBasis
    >>> from fiol.features.basis import find_basis
    >>> from fiol.features.column_roles import columns_of_numbers
    >>> rows, roles = to_chunk([[1.0, 0.1], [2.0, 0.4], [1.0, 0.7]]), columns_of_numbers(2)
    >>> bin_names(find_basis(TableBasis(rows=2, knots=2), rows, roles), ["a", "b"], roles)
    [['a=1', 'a=2', 'a is missing'], ['b in [0.1, 0.4)', 'b in [0.4, 0.7)', 'b is missing']]
    """
    slots, found = basis.slots_of(roles), list[list[str]]()
    for s, column in enumerate(slot_names(basis, names, roles)):
        knots = [f"{knot:.12g}" for knot in knots_of(basis, s)]
        if not basis.numeric[s]:
            own = [f"{column}={OTHERS}"] * int(basis.bins[s])
            for i in np.flatnonzero(slots[: len(basis.codes)] == s).tolist():
                if basis.codes[i] < basis.bins[s] - 1:
                    own[basis.codes[i]] = str(names[i])
            found.append(own)
        elif basis.few[s]:
            found.append([*(f"{column}={knot}" for knot in knots), column + MISSING])
        else:
            pairs = itertools.pairwise(knots)
            found.append([*(f"{column} in [{low}, {high})" for low, high in pairs), column + MISSING])
    return found


def hat_names(basis: ColumnBasis, names: Sequence[Any], roles: Roles) -> list[str]:
    """Return the names of all hats: the column, and the knot where the hat is 1."""
    columns = slot_names(basis, names, roles)
    return [
        f"{columns[s]}~{knot!r}"
        for s in np.flatnonzero(basis.hat_counts).tolist()
        for knot in knots_of(basis, s).tolist()
    ]


def cell_names(basis: ColumnBasis, names: Sequence[Any], roles: Roles) -> list[str]:
    """Return the names of all cells: those of their two bins."""
    bins = [numbered_bins(own) for own in bin_names(basis, names, roles)]
    pairs = zip(basis.left.tolist(), basis.right.tolist(), strict=True)
    return [f"{a}{AND}{b}" for left, right in pairs for a in bins[left] for b in bins[right]]


def numbered_bins(names: list[str]) -> list[str]:
    """Return names of bins, with their numbers where bins have no values yet.

    >>> numbered_bins(["city=Rome", "city=(others)", "city=(others)"])
    ['city=Rome', 'city=(others) 1', 'city=(others)']
    """
    *first, last = names
    return [*(f"{name} {k}" if name == last else name for k, name in enumerate(first)), last]


def all_names(basis: ColumnBasis, names: Sequence[Any], roles: Roles, cells: bool) -> list[Any]:
    """Return the names of the features as they are, hats and cells, in the order of their numbers."""
    known = int(basis.known[0])
    made = [*hat_names(basis, names, roles), *(cell_names(basis, names, roles) if cells else [])]
    return [*names[:known], *made, *names[known:]]
