"""Knots beyond the outermost ones, for columns whose values move, and for columns that were constant at first.

The knots that there are stay where they are, and what is learned stays as it is: beyond the knots a curve was constant,
so new hats begin with the weights of the outermost ones, and new nodes with those of the outermost points. Pairs stay
those of the first rows: columns that were constant there get curves alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fiol.components.row import Floats
from fiol.components.table_basis import TableBasis
from fiol.features.basis import ColumnBasis, grid_of_knots, pair_arrays, values_of_columns
from fiol.features.chunk import Chunk
from fiol.features.column_roles import IS_MISSING, IS_NUMBER, Roles

#: A column has moved if this share of some rows is beyond its knots.
MOVED = 0.05
#: The largest number of new knots on each side, and of knots in all before they are refined, in units of
#: `TableBasis.knots`.
NEW_PER_SIDE, MOST_KNOTS = 6, 2
#: The largest number of knots and of points of merged models, in units of `TableBasis.knots` and `TableBasis.grid`.
MOST_UNITED = 4
#: The largest number of new knots on each side that are points of the grid.
POINTS_PER_SIDE = 2
#: The source of a feature that has not been seen.
FRESH = -1


class Extension(NamedTuple):
    """A basis with more knots, and where its features come from."""

    basis: ColumnBasis
    hats: Any  #: [hat] the old hat, or `FRESH`
    nodes: Any  #: [node] the old node, or `FRESH`
    kept: Any  #: [hat or node] whether it is the old one: others begin as copies

    def inherited(self, before: Floats, stiffness: Floats) -> Floats:
        """Return `ColumnBasis.inherited` of the new basis, given that of the old one and the stiffness there."""
        sources = np.concatenate([self.hats, self.nodes])
        fresh, stiffness = sources == FRESH, np.append(stiffness, 0.0)  # the last for `FRESH`: there may be none
        old = np.zeros(len(stiffness))
        old[: len(before)] = before
        return np.where(fresh, 0.0, np.where(self.kept, old[sources], stiffness[sources]))


class SlotKnots(NamedTuple):
    """The knots of a slot, which of them are points of the grid, and whether they are values of its column."""

    knots: Floats
    in_grid: Any
    few: bool

    @property
    def points(self) -> Floats:
        """The knots that are points of the grid."""
        return self.knots[self.in_grid > 0]


def extended_slot(options: TableBasis, slot: SlotKnots, values: Floats, most: float) -> SlotKnots | None:
    """Return the knots of a column with more for values beyond, at most this many; None if it has not moved.

    >>> slot = SlotKnots(np.array([1.0, 2.0]), np.ones(2, int), True)
    >>> extended_slot(TableBasis(), slot, np.array([0.0, 1.0, 3.0]), 9)
    SlotKnots(knots=array([0., 1., 2., 3.]), in_grid=array([1, 1, 1, 1], dtype=int32), few=True)
    """
    knots, in_grid, few = slot
    outside = values[(values < knots[0]) | (values > knots[-1])]
    if len(outside) <= (MOVED * len(values) if len(knots) > 1 else 0):
        return None
    different = np.unique(np.concatenate([knots, outside]))
    if few and len(different) <= options.knots:
        return SlotKnots(different, grid_of_knots(len(different), len(different)), True)
    if len(knots) == 1:
        shares = np.linspace(0.0, 1.0, int(options.knots) + 1)
        found = np.unique(np.quantile(values, shares))
        return SlotKnots(found, grid_of_knots(len(found), int(options.grid)), False)
    below, above = values[values < knots[0]], values[values > knots[-1]]
    parts = np.arange(1, NEW_PER_SIDE + 1) / NEW_PER_SIDE
    low = np.unique(np.quantile(below, 1.0 - parts)) if len(below) else below
    high = np.unique(np.quantile(above, parts)) if len(above) else above
    found, new = (
        np.concatenate([low, knots, high]),
        (grid_of_knots(len(own), POINTS_PER_SIDE - 1) for own in (low, high)),
    )
    first, last = new
    return SlotKnots(found, np.concatenate([first, in_grid, last]), few) if len(found) <= most else None


def halved_slot(slot: SlotKnots) -> SlotKnots:
    """Return the knots of a column with one more between every two, and one more point of its grid between every two.

    >>> halved_slot(SlotKnots(np.array([0.0, 1.0, 4.0]), np.array([1, 0, 1]), False))
    SlotKnots(knots=array([0. , 0.5, 1. , 2.5, 4. ]), in_grid=array([1, 0, 1, 0, 1], dtype=int32), few=False)
    """
    knots, in_grid, few = slot
    found = np.sort(np.concatenate([knots, 0.5 * knots[1:] + 0.5 * knots[:-1]]))
    if few or len(knots) < 3 or (np.diff(found) <= 0.0).any():
        return slot
    points = np.flatnonzero(in_grid)
    mask = np.zeros(len(found), np.int32)
    mask[2 * points] = mask[points[1:] + points[:-1]] = 1
    return SlotKnots(found, mask, False)


def refined_knots(options: TableBasis, basis: ColumnBasis) -> list[SlotKnots] | None:
    """Return the knots of every slot with those between them; None if grids would have too many nodes."""
    open_ended = (basis.numeric > 0) & (basis.period == 0.0)
    slots = [
        halved_slot(slot) if own else slot for slot, own in zip(slot_knots(basis), open_ended.tolist(), strict=True)
    ]
    points = np.where(open_ended, [len(slot.points) + 1 for slot in slots], basis.points)
    nodes = int(points[basis.left] @ points[basis.right])
    return slots if nodes <= options.max_nodes else None


def slot_knots(basis: ColumnBasis) -> list[SlotKnots]:
    """Return the knots of every slot; none for categories."""
    ends = np.cumsum(basis.counts).tolist()
    each = zip(ends, basis.counts.tolist(), basis.few.tolist(), strict=True)
    return [
        SlotKnots(basis.knots[end - count : end], basis.in_grid[end - count : end], bool(few))
        for end, count, few in each
    ]


def extended_basis(options: TableBasis, basis: ColumnBasis, chunk: Chunk, roles: Roles) -> Extension | None:
    """Return the basis for columns that have moved in these rows; None if there are none."""
    if not any_moved(basis, chunk, roles):
        return None
    columns, slots = values_of_columns(chunk, roles), slot_knots(basis)
    moved, most = False, MOST_KNOTS * options.knots * (1 + int(basis.refined[0]))
    for s in np.flatnonzero((basis.numeric > 0) & (basis.period == 0.0)).tolist():
        column = columns.get(int(roles.column[basis.member[s]]))
        if column is not None:
            _, values, there = column
            found = extended_slot(options, slots[s], values[there], most)
            if found is not None:
                moved, slots[s] = True, found
    return with_knots(basis, slots) if moved else None


def any_moved(basis: ColumnBasis, chunk: Chunk, roles: Roles) -> bool:
    """Return whether a column may have moved in these rows; as a rule none has, and that is found quickly."""
    slots, numeric = basis.slots_of(roles), (basis.numeric > 0) & (basis.period == 0.0)
    if not numeric.any():
        return False
    first = basis.first_knots
    low, high = np.zeros(len(numeric)), np.zeros(len(numeric))
    low[numeric], high[numeric] = basis.knots[first[numeric]], basis.knots[(first + basis.counts - 1)[numeric]]
    slot, role = slots[chunk.indices], roles.role[chunk.indices]
    number, missing = (slot >= 0) & (role == IS_NUMBER), (slot >= 0) & (role == IS_MISSING)
    s, values = slot[number], chunk.data[number]
    outside = np.bincount(s[(values < low[s]) | (values > high[s])], minlength=len(numeric))
    there = chunk.rows - np.bincount(slot[missing], minlength=len(numeric))
    zeros = there - np.bincount(s, minlength=len(numeric))  # numbers that rows leave out
    outside = outside + zeros * ((low > 0.0) | (high < 0.0))
    return bool(np.any(numeric & (outside > np.where(basis.counts > 1, MOVED * there, 0.0))))


def united_knots(options: TableBasis, bases: Sequence[ColumnBasis]) -> list[SlotKnots]:
    """Return the knots of every slot in any of several bases."""
    most = MOST_UNITED * (1 + max(int(basis.refined[0]) for basis in bases))
    each = zip(zip(*map(slot_knots, bases), strict=True), bases[0].period.tolist(), strict=True)
    return [slots[0] if period else united_slot(options, slots, most) for slots, period in each]


def united_slot(options: TableBasis, slots: Sequence[SlotKnots], most_united: int = MOST_UNITED) -> SlotKnots:
    """Return the knots of a column in any of several bases; points of a grid are those of any.

    Of very many, some are left out, so that merging many models keeps memory bounded; then they are not all values of
    the column any more.

    >>> one, other = (SlotKnots(np.array(knots), np.ones(2, int), False) for knots in ([0.0, 1.0], [0.5, 1.0]))
    >>> united_slot(TableBasis(), [one, other]).knots.tolist()
    [0.0, 0.5, 1.0]
    """
    first, few = slots[0], all(one.few for one in slots)
    if all(np.array_equal(one.knots, first.knots) and np.array_equal(one.in_grid, first.in_grid) for one in slots):
        return first._replace(few=few)
    knots = np.unique(np.concatenate([one.knots for one in slots]))
    most = int(most_united * options.knots)
    if len(knots) > most:
        knots, few = knots[grid_of_knots(len(knots), most) > 0], False
    in_grid = np.isin(knots, np.concatenate([one.points for one in slots])).astype(np.int32)
    most = int(most_united * options.grid)
    if in_grid.sum() > most and not few:
        in_grid = grid_of_knots(len(knots), most)
    return SlotKnots(knots, in_grid, few)


def with_knots(basis: ColumnBasis, slots: Sequence[SlotKnots]) -> Extension:
    """Return a basis with other knots, where a new hat or point comes from the nearest old one."""
    hats, sources, first_hat = list[Any](), list[Any](), 0
    kept_hats, kept_points = [np.empty(0, bool)], list[Any]()
    few, points = basis.few.copy(), basis.points.copy()
    for s, (old, new) in enumerate(zip(slot_knots(basis), slots, strict=True)):
        own = np.arange(points[s])
        kept_points.append(np.ones(len(own), bool))
        if basis.numeric[s] and not basis.period[s]:
            kept_points[s] = np.append(np.isin(new.points, old.points), True)
            few[s], points[s] = new.few, len(new.points) + 1
            own = np.append(nearest_knots(old.points, new.points), basis.points[s] - 1)
        sources.append(own)
        if len(new.knots) > 2:
            known = first_hat + nearest_knots(old.knots, new.knots)
            known = known[: len(known) - int(basis.period[s] > 0.0)]
            hats.append(known if basis.hat_counts[s] else np.full(len(new.knots), FRESH))
            kept_hats.append(np.isin(new.knots, old.knots)[: len(known)])
        first_hat += int(basis.hat_counts[s])
    changed = basis._replace(
        few=few,
        points=points,
        counts=np.array([len(slot.knots) for slot in slots], np.int32),
        knots=np.concatenate([np.empty(0), *(slot.knots for slot in slots)]),
        in_grid=np.concatenate([np.empty(0, np.int32), *(slot.in_grid for slot in slots)]),
    )
    pairs = zip(basis.left.tolist(), basis.right.tolist(), strict=True)
    kept = np.concatenate([*kept_hats, *((kept_points[a][:, None] & kept_points[b]).ravel() for a, b in pairs)])
    return Extension(changed, np.concatenate([np.empty(0, np.int64), *hats]), node_sources(basis, sources), kept)


def with_pairs(basis: ColumnBasis, pairs: Sequence[tuple[int, int]]) -> Extension:
    """Return a basis that had no pairs with these ones."""
    left, right = pair_arrays(pairs)
    new = basis._replace(left=left, right=right, candidates=np.zeros_like(basis.candidates))
    return Extension(new, np.arange(new.hats), np.full(new.nodes, FRESH), np.ones(new.added[2], bool))


class Corners(NamedTuple):
    """The old functions whose weights make that of each new one: [function, corner], three at most."""

    numbers: Any
    shares: Floats


def intervals_of(knots: Floats, values: Floats) -> tuple[Any, Any, Floats]:
    """Return for each value the knots that it is between, and its part of the interval; constant beyond the outermost.

    >>> intervals_of(np.array([0.0, 2.0, 3.0]), np.array([-1.0, 0.5, 3.0]))
    (array([0, 0, 1]), array([1, 1, 2]), array([0.  , 0.25, 1.  ]))
    """
    last = max(len(knots) - 1, 0)
    low = np.clip(np.searchsorted(knots, values, side="right") - 1, 0, max(last - 1, 0))
    high = np.minimum(low + 1, last)
    width = knots[high] - knots[low]
    part = np.clip((values - knots[low]) / np.where(width > 0.0, width, 1.0), 0.0, 1.0)
    return low, high, part


def hat_corners(basis: ColumnBasis, slots: Sequence[SlotKnots]) -> Corners:
    """Return the hats of a basis that make those of other knots: old curves have these values at the new knots."""
    numbers, shares, first = [np.empty((0, 3), np.int64)], [np.empty((0, 3))], 0
    for s, (old, new) in enumerate(zip(slot_knots(basis), slots, strict=True)):
        count = int(basis.hat_counts[s])
        if len(new.knots) > 2:
            low, high, part = intervals_of(old.knots, new.knots[: len(new.knots) - int(basis.period[s] > 0.0)])
            there = float(count > 0)
            numbers.append(first + np.minimum(np.stack([low, high, low], axis=1), max(count - 1, 0)))
            shares.append(there * np.stack([1.0 - part, part, np.zeros(len(part))], axis=1))
        first += count
    return Corners(np.concatenate(numbers), np.concatenate(shares))


def node_corners(basis: ColumnBasis, slots: Sequence[SlotKnots]) -> Corners:
    """Return the nodes of a basis that make those of other knots: old surfaces have these values at the new nodes."""
    places = list[tuple[Any, Any, Floats]]()
    for s, (old, new) in enumerate(zip(slot_knots(basis), slots, strict=True)):
        if basis.numeric[s] and not basis.period[s]:
            missing, own = int(basis.points[s]) - 1, intervals_of(old.points, new.points)
            ends = np.array([missing]), np.array([missing]), np.zeros(1)
            places.append(tuple(map(np.concatenate, zip(own, ends, strict=True))))  # type: ignore[arg-type]
        else:
            same = np.arange(int(basis.points[s]))
            places.append((same, same, np.zeros(len(same))))
    numbers, shares, first = [np.empty((0, 3), np.int64)], [np.empty((0, 3))], 0
    for a, b in zip(basis.left.tolist(), basis.right.tolist(), strict=True):
        (low, up, x), (left, right, z) = places[a], places[b]
        low, up, x, size = low[:, None], up[:, None], x[:, None], int(basis.points[b])
        small, large = np.minimum(x, z), np.maximum(x, z)  # the triangles of `write_nodes`
        aside = np.where(x >= z, up * size + left, low * size + right)
        corners = np.broadcast_arrays(low * size + left, aside, up * size + right)
        numbers.append(first + np.stack([corner.ravel() for corner in corners], axis=1))
        shares.append(np.stack([part.ravel() for part in (1.0 - large, large - small, small)], axis=1))
        first += int(basis.points[a]) * size
    return Corners(np.concatenate(numbers), np.concatenate(shares))


def nearest_knots(knots: Floats, values: Floats) -> Any:
    """Return the number of the knot nearest to each value."""
    return np.abs(values[:, None] - knots).argmin(axis=1)


def node_sources(basis: ColumnBasis, sources: list[Any]) -> Any:
    """Return the old node of every new one, given the old point of every new point of each slot."""
    found, start = list[Any](), 0
    for a, b in zip(basis.left.tolist(), basis.right.tolist(), strict=True):
        found.append((start + sources[a][:, None] * int(basis.points[b]) + sources[b]).ravel())
        start += int(basis.points[a]) * int(basis.points[b])
    return np.concatenate([np.empty(0, np.int64), *found])


def new_numbers(basis: ColumnBasis, extension: Extension, features: int, level: int) -> Any:
    """Return the old number of every feature at a level of the extended basis; `FRESH` for those not seen."""
    known, old = int(basis.known[0]), basis.numbers(features, level)
    hats = np.where(extension.hats == FRESH, FRESH, known + extension.hats)
    nodes = np.where(extension.nodes == FRESH, FRESH, known + basis.hats + extension.nodes)
    return np.concatenate([old[:known], *([hats] if level else []), *([nodes] if level > 1 else []), old[known:]])
