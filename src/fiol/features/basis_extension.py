"""Knots beyond the outermost ones, for columns whose values move, and for columns that were constant at first.

The knots that there are stay where they are, and what is learned stays as it is: beyond the knots a curve was constant,
so new hats begin with the weights of the outermost ones, and new cells with those of the outermost bins. Pairs stay
those of the first rows: columns that were constant there get curves alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fiol.components.row import Floats
from fiol.components.table_basis import TableBasis
from fiol.features.basis import ColumnBasis, values_of_columns
from fiol.features.chunk import Chunk
from fiol.features.column_roles import Roles

#: A column has moved if this share of some rows is beyond its knots.
MOVED = 0.05
#: The largest number of new knots on each side, and of knots in all, in units of `TableBasis.knots`.
NEW_PER_SIDE, MOST_KNOTS = 6, 2
#: The source of a feature that has not been seen.
FRESH = -1


class Extension(NamedTuple):
    """A basis with more knots, and where its features come from."""

    basis: ColumnBasis
    hats: Any  #: [hat] the old hat, or `FRESH`
    cells: Any  #: [cell] the old cell


class SlotKnots(NamedTuple):
    """The knots of a slot, and whether they are values of its column."""

    knots: Floats
    few: bool


def extended_slot(options: TableBasis, knots: Floats, few: bool, values: Floats) -> SlotKnots | None:
    """Return the knots of a column with more of them for values beyond; None if it has not moved.

    >>> extended_slot(TableBasis(), np.array([1.0, 2.0]), True, np.array([0.0, 1.0, 3.0]))
    SlotKnots(knots=array([0., 1., 2., 3.]), few=True)
    """
    outside = values[(values < knots[0]) | (values > knots[-1])]
    if len(outside) <= (MOVED * len(values) if len(knots) > 1 else 0):
        return None
    different = np.unique(np.concatenate([knots, outside]))
    if few and len(different) <= options.knots:
        return SlotKnots(different, True)
    if len(knots) == 1:
        shares = np.linspace(0.0, 1.0, int(options.knots) + 1)
        return SlotKnots(np.unique(np.quantile(values, shares)), False)
    below, above = values[values < knots[0]], values[values > knots[-1]]
    parts = np.arange(1, NEW_PER_SIDE + 1) / NEW_PER_SIDE
    low = np.unique(np.quantile(below, 1.0 - parts)) if len(below) else below
    high = np.unique(np.quantile(above, parts)) if len(above) else above
    found = np.concatenate([low, knots, high])
    return SlotKnots(found, few) if len(found) <= MOST_KNOTS * options.knots else None


def slot_knots(basis: ColumnBasis) -> list[SlotKnots]:
    """Return the knots of every slot; none for categories."""
    ends = np.cumsum(basis.counts).tolist()
    each = zip(ends, basis.counts.tolist(), basis.few.tolist(), strict=True)
    return [SlotKnots(basis.knots[end - count : end], bool(few)) for end, count, few in each]


def extended_basis(options: TableBasis, basis: ColumnBasis, chunk: Chunk, roles: Roles) -> Extension | None:
    """Return the basis for columns that have moved in these rows; None if there are none."""
    columns, slots = values_of_columns(chunk, roles), slot_knots(basis)
    moved = False
    for s in np.flatnonzero(basis.numeric).tolist():
        column = columns.get(int(roles.column[basis.member[s]]))
        if column is not None:
            _, values, there = column
            found = extended_slot(options, *slots[s], values[there])
            if found is not None:
                moved, slots[s] = True, found
    return with_knots(basis, slots) if moved else None


def united_knots(bases: Sequence[ColumnBasis]) -> list[SlotKnots]:
    """Return the knots of every slot in any of several bases."""
    together = zip(*map(slot_knots, bases), strict=True)
    return [
        SlotKnots(np.unique(np.concatenate([one.knots for one in slots])), all(one.few for one in slots))
        for slots in together
    ]


def with_knots(basis: ColumnBasis, slots: Sequence[SlotKnots]) -> Extension:
    """Return a basis with other knots, where a new hat or bin comes from the nearest old one."""
    hats, sources, first_hat = list[Any](), list[Any](), 0
    few, bins = basis.few.copy(), basis.bins.copy()
    for s, (old, new) in enumerate(zip(slot_knots(basis), slots, strict=True)):
        own = np.arange(bins[s])
        if basis.numeric[s] and not (np.array_equal(old.knots, new.knots) and old.few == new.few):
            few[s], bins[s] = new.few, len(new.knots) + new.few
            middles = new.knots if new.few else 0.5 * (new.knots[1:] + new.knots[:-1])
            own = np.append(bins_at(old, middles), basis.bins[s] - 1)
        sources.append(own)
        if len(new.knots) > 2:
            known = first_hat + nearest_knots(old.knots, new.knots)
            hats.append(known if basis.hat_counts[s] else np.full(len(new.knots), FRESH))
        first_hat += int(basis.hat_counts[s])
    counts = np.array([len(slot.knots) for slot in slots], np.int32)
    knots = np.concatenate([np.empty(0), *(slot.knots for slot in slots)])
    changed = basis._replace(few=few, bins=bins, counts=counts, knots=knots)
    return Extension(changed, np.concatenate([np.empty(0, np.int64), *hats]), cell_sources(basis, sources))


def nearest_knots(knots: Floats, values: Floats) -> Any:
    """Return the number of the knot nearest to each value."""
    return np.abs(values[:, None] - knots).argmin(axis=1)


def bins_at(slot: SlotKnots, values: Floats) -> Any:
    """Return the bin of each value: the nearest knot, or the interval."""
    if slot.few:
        return nearest_knots(slot.knots, values)
    return np.clip(np.searchsorted(slot.knots, values, side="right") - 1, 0, len(slot.knots) - 2)


def cell_sources(basis: ColumnBasis, sources: list[Any]) -> Any:
    """Return the old cell of every new one, given the old bin of every new bin of each slot."""
    found, start = list[Any](), 0
    for a, b in zip(basis.left.tolist(), basis.right.tolist(), strict=True):
        found.append((start + sources[a][:, None] * int(basis.bins[b]) + sources[b]).ravel())
        start += int(basis.bins[a]) * int(basis.bins[b])
    return np.concatenate([np.empty(0, np.int64), *found])


def new_numbers(basis: ColumnBasis, extension: Extension, features: int, level: int) -> Any:
    """Return the old number of every feature at a level of the extended basis; `FRESH` for those not seen."""
    known, old = int(basis.known[0]), basis.numbers(features, level)
    hats = np.where(extension.hats == FRESH, FRESH, known + extension.hats)
    cells = known + basis.hats + extension.cells
    return np.concatenate([old[:known], *([hats] if level else []), *([cells] if level > 1 else []), old[known:]])
