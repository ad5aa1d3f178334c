"""Hat functions of columns and nodes of pairs of columns: found from the first rows, then added to every row.

The features of a row are numbered in blocks: features that were known when the knots were found have their own numbers,
then come the hats, then the nodes, then features that appeared later. So every number follows from the knots and pairs,
and nothing depends on how rows are cut into chunks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from fiol.components.row import Floats
from fiol.components.table_basis import TableBasis
from fiol.features.chunk import Chunk
from fiol.features.column_kinds import COLUMN_KINDS
from fiol.features.column_roles import IS_CATEGORY, IS_NUMBER, NO_ROLE, Roles

#: A category has this many points for each of its values in the first rows, and this many more; at most `MOST_POINTS`.
POINTS_PER_VALUE, MORE_POINTS, MOST_POINTS = 2, 8, 256
#: Columns are looked at again whenever there are this many times as many rows.
GROWTH_OF_CHECKS = 1.5
#: Pairs are not judged if there are at most this many of them for each column.
FEW_PAIRS = 3
#: Numbers that are compared at once.
VECTOR = 8
#: A hat below this is 0.
NEGLIGIBLE = 1e-9
#: A value that is this close to a knot, in intervals of a period, is there.
AT_KNOT = 1e-6
#: Periods over which curves close, by their length in days.
CYCLES = {cycle.days: cycle for kind in COLUMN_KINDS.values() for cycle in kind.cycles}
#: The code of a feature that is no value of a category.
NO_CODE = -1


class ColumnBasis(NamedTuple):
    """Knots, points and pairs of the columns of a table; all arrays. A slot is a column that has knots or points.

    The grid of a pair has a node for every point of one slot and every point of the other.
    """

    known: Any  #: [1] the number of features when the knots were found
    member: Any  #: [slot] a feature of its column
    numeric: Any  #: [slot] 1 for numbers, 0 for categories
    few: Any  #: [slot] 1 if knots are the values of the column, 0 if they are quantiles
    points: Any  #: [slot] the number of points; the last is for missing values, or for all further values of a category
    counts: Any  #: [slot] the number of knots
    knots: Any  #: the knots of all slots, one after the other
    in_grid: Any  #: [knot] 1 if the knot is a point of its slot
    left: Any  #: [pair] a slot
    right: Any  #: [pair] another slot
    candidates: Any  #: [slot] 1 if pairs have not been judged yet, and may be of this slot
    codes: Any  #: [feature] the point of a value of a category, or `NO_CODE`; of features so far
    check: Any  #: [1] the round before which columns are looked at again
    period: Any  #: [slot] the period of a curve that closes, in units of the column; 0 for other curves
    inherited: (
        Any  #: [hat or node] the part of its stiffness that it took over from another one; empty if all have none
    )

    refined: Any  #: [1] 1 if intervals have been halved, see `TableBasis.refine_rows`

    @property
    def hat_counts(self) -> Any:
        """The number of hats of every slot; a column of two values needs none.

        The knots of a curve that closes are parts of its period, from 0 to 1; the last is the first.
        """
        return np.where(self.counts > 2, self.counts - (self.period > 0.0), 0)

    @property
    def hats(self) -> int:
        """The number of hats."""
        return int(self.hat_counts.sum())

    @property
    def node_counts(self) -> Any:
        """The number of nodes of every pair."""
        return self.points[self.left] * self.points[self.right]

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return int(self.node_counts.sum())

    def less_inherited(self, stiffness: Floats) -> Floats:
        """Return the stiffness of features of the last level without what hats and nodes took over from others."""
        found, known = stiffness.copy(), int(self.known[0])
        own = found[known : known + len(self.inherited)]
        own[...] = np.maximum(own - self.inherited[: len(own)], 0.0)
        return found

    @property
    def undecided(self) -> bool:
        """Whether pairs have not been judged yet; if there are none so far, they are chosen then."""
        return bool(self.candidates.any())

    @property
    def first_knots(self) -> Any:
        """The place of the first knot of every slot."""
        return (np.cumsum(self.counts) - self.counts).astype(np.int32)

    @property
    def added(self) -> tuple[int, int, int]:
        """The number of features that each level adds to the features as they are."""
        return 0, self.hats, self.hats + self.nodes

    def numbers(self, features: int, level: int) -> Any:
        """Return the number that each of the first features as they are has at a level, from 0."""
        i = np.arange(features, dtype=np.int32)
        return i + (i >= self.known[0]) * np.int32(self.added[level])

    def places_at_last(self, features: int, levels: int) -> list[Any]:
        """Return the numbers that the features of each of the levels have at the last of them."""
        known, own = int(self.known[0]), self.numbers(features, levels - 1).astype(np.int64)
        with_hats = np.concatenate([own[:known], known + np.arange(self.hats), own[known:]])
        return [own, with_hats, np.arange(features + self.added[2])][:levels]

    def level_places(self, places: Any, features: int, level: int) -> Any:
        """Return the new number of every feature of a level, where those as they are become `places` of `features`."""
        count, known, added = len(places), int(self.known[0]), self.added[level]
        where = np.empty(count + added, np.int64)
        where[self.numbers(count, level)] = places
        where[known : known + added] = features + np.arange(added)
        return where

    def placed(self, places: Any, features: int) -> ColumnBasis:
        """Return the basis where places[i] is the old feature i as it is, and all of `features` features are known."""
        codes, where = np.full(features, NO_CODE, np.int32), np.asarray(places, np.int32)
        codes[where[: len(self.codes)]] = self.codes[: len(where)]
        return self._replace(known=np.array([features], np.int32), member=where[self.member], codes=codes)

    def slots_of(self, roles: Roles) -> Any:
        """Return the slot of every feature, the first one of its column; -1 without one."""
        slot_of_column = np.full(roles.size + 1, -1, np.int32)
        slot_of_column[roles.column[self.member][::-1]] = np.arange(len(self.member))[::-1]
        return np.where(roles.role == NO_ROLE, -1, slot_of_column[roles.column])

    def with_codes(self, roles: Roles, features: int) -> ColumnBasis:
        """Return the basis with points for the values of categories among the first `features` features."""
        before = len(self.codes)
        if features <= before:
            return self
        codes = np.concatenate([self.codes, np.full(features - before, NO_CODE, np.int32)])
        slots = self.slots_of(roles)
        for s in np.flatnonzero(self.numeric == 0):
            taken = int(codes[:before][slots[:before] == s].max(initial=NO_CODE)) + 1
            new = np.flatnonzero(slots[before:features] == s) + before
            codes[new] = np.minimum(taken + np.arange(len(new)), self.points[s] - 1)
        return self._replace(codes=codes)


def values_of_columns(chunk: Chunk, roles: Roles) -> dict[int, tuple[bool, Floats, Any]]:
    """Return for every column whether it has numbers, its numbers or categories in all rows, and which rows have one.

    Columns are named by their first feature. A category is the number of its feature.
    """
    rows = np.repeat(np.arange(chunk.rows), np.diff(chunk.indptr))
    order = np.argsort(chunk.indices, kind="stable")
    starts = np.searchsorted(chunk.indices[order], np.arange(roles.size + 1))
    numeric = np.zeros(roles.size, bool)
    numeric[roles.column[roles.role == IS_NUMBER]] = True
    found: dict[int, tuple[bool, Floats, Any]] = {}
    for i in np.flatnonzero(roles.role != NO_ROLE).tolist():
        some, column = order[starts[i] : starts[i + 1]], int(roles.column[i])
        number, values, there = found.setdefault(
            column, (bool(numeric[column]), np.zeros(chunk.rows), np.full(chunk.rows, numeric[column]))
        )
        if not number:
            values[rows[some]], there[rows[some]] = i, True
        elif roles.role[i] == IS_NUMBER:
            values[rows[some]] = chunk.data[some]
        else:
            there[rows[some]] = False
    return found


class NewSlot(NamedTuple):
    """The slot of a column in the first rows."""

    member: int
    numeric: bool
    few: bool
    points: int
    knots: Floats
    in_grid: Any
    paired: bool
    period: float = 0.0


def find_basis(options: TableBasis, chunk: Chunk, roles: Roles) -> ColumnBasis:
    """Return knots, points and pairs for the columns in some rows, whose features have these roles."""
    columns, slots = values_of_columns(chunk, roles), list[NewSlot]()
    for column, (numeric, values, there) in columns.items() if len(columns) <= options.max_columns else ():
        if there.any():
            slots += slots_of_column(options, column, numeric, values[there], roles.kinds.get(column))
    closing = {name_of_part(roles, slot.member, slot.period) for slot in slots if slot.period}
    paired = [slot.paired and roles.titles.get(slot.member) not in closing for slot in slots]
    points = np.array([slot.points for slot in slots], np.int32)
    count = sum(paired)
    possible = count * (count - 1) // 2
    undecided = possible > min(options.max_pairs, FEW_PAIRS * count) and options.max_pairs > 0
    pairs = [] if possible > options.max_pairs else combinations(np.flatnonzero(paired).tolist(), 2)
    left, right = pair_arrays(pairs_that_fit(options, points, pairs))
    found = ColumnBasis(
        np.array([roles.size], np.int32),
        np.array([slot.member for slot in slots], np.int32),
        np.array([slot.numeric for slot in slots], np.int32),
        np.array([slot.few for slot in slots], np.int32),
        points,
        np.array([len(slot.knots) for slot in slots], np.int32),
        np.concatenate([np.empty(0), *(slot.knots for slot in slots)]),
        np.concatenate([np.empty(0, np.int32), *(slot.in_grid for slot in slots)]),
        left,
        right,
        np.array(paired, np.int32) * np.int32(undecided),
        np.empty(0, np.int32),
        np.array([next_check(chunk.rows, options, undecided, 0)], np.int64),
        np.array([slot.period for slot in slots]),
        np.empty(0),
        np.zeros(1, np.int32),
    )
    return found.with_codes(roles, roles.size)


def slots_of_column(
    options: TableBasis, column: int, numeric: bool, values: Floats, kind: str | None
) -> Iterator[NewSlot]:
    """Yield the slots of a column with these values: one, and one for each period of dates.

    A time of day has a curve that closes, and no other. Dates with whole hours have no curve for the time of day, which
    would be that of the feature of each hour.
    """
    cycles = COLUMN_KINDS[kind].cycles if kind is not None else ()
    if kind != "time":
        seen = np.unique(values)
        own, few = seen[:0], True
        if numeric:
            few = len(seen) <= options.knots
            own = seen if few else np.unique(np.quantile(values, np.linspace(0.0, 1.0, options.knots + 1)))
        mask = grid_of_knots(len(own), len(own) if few else int(options.grid))
        points = int(mask.sum()) + 1 if numeric else min(POINTS_PER_VALUE * len(seen) + MORE_POINTS, MOST_POINTS)
        yield NewSlot(column, numeric, few, points, own, mask, len(seen) > 1)
    for cycle in cycles:
        places = values / cycle.days * cycle.knots
        if kind == "time" or np.any(np.abs(places - np.round(places)) > AT_KNOT):
            knots, mask = np.arange(cycle.knots + 1) / cycle.knots, np.ones(cycle.knots + 1, np.int32)
            yield NewSlot(column, True, False, cycle.knots + 1, knots, mask, bool(cycle.part), cycle.days)


def part_of_period(values: Any, period: float) -> Any:
    """Return numbers as parts of a period, from 0 to 1; as they are without one (0).

    >>> part_of_period(np.array([7305.25, -0.25]), 1.0)
    array([0.25, 0.75])
    """
    return values / period - np.floor(values / period) if period else values


def name_of_part(roles: Roles, column: int, period: float) -> str:
    """Return the name of the part of dates that a curve that closes stands for in pairs, as far as there is one."""
    return f"{roles.titles.get(column)}.{CYCLES[period].part}"


def grid_of_knots(knots: int, intervals: int) -> Any:
    """Return which knots are points of a grid of at most this many intervals: 1 for the first, the last and some more.

    >>> grid_of_knots(7, 3), grid_of_knots(3, 8)
    (array([1, 0, 1, 0, 1, 0, 1], dtype=int32), array([1, 1, 1], dtype=int32))
    """
    mask = np.zeros(knots, np.int32)
    mask[np.round(np.linspace(0.0, knots - 1.0, min(intervals + 1, knots))).astype(np.int64)] = 1
    return mask


def next_check(rounds: int, options: TableBasis, undecided: bool, kept: int) -> int:
    """Return the round before which columns are looked at again, after this many rounds.

    If pairs are `undecided`, it is at the latest when there are enough rows, of which some are kept, to judge them.

    >>> next_check(200, TableBasis(), False, 0), next_check(10_000, TableBasis(), False, 0)
    (400, 15000)
    >>> next_check(900, TableBasis(), True, 700)
    1200
    """
    check = max(rounds + int(options.rows), int(GROWTH_OF_CHECKS * rounds))
    return min(check, rounds + int(options.choice_rows) - kept) if undecided else check


def pair_arrays(pairs: Sequence[tuple[int, int]]) -> tuple[Any, Any]:
    """Return the slots on the left and on the right of every pair."""
    left, right = np.array(pairs, np.int32).reshape(-1, 2).T.copy()
    return left, right


def pairs_that_fit(options: TableBasis, points: Any, pairs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the first pairs of slots, as many as there may be, as far as nodes fit; in the order of slots."""
    found, nodes = list[tuple[int, int]](), 0
    for a, b in pairs:
        more = int(points[a]) * int(points[b])
        if nodes + more <= options.max_nodes and len(found) < options.max_pairs:
            found.append((a, b))
            nodes += more
    return sorted(found)


class Expander:
    """Adds hats and nodes to rows, by a basis and the roles of the features that are there."""

    def __init__(self, basis: ColumnBasis, roles: Roles) -> None:
        self.basis, self.size, slots = basis, roles.size, basis.slots_of(roles)
        #: Memory of the last call that may be used again.
        self.kept: list[Chunk | None] = [None, None]
        #: Numbers of features with hats, and with hats and nodes; one more for features never seen.
        self.numbers = basis.numbers(roles.size + 1, 1), basis.numbers(roles.size + 1, 2)
        codes = np.full(roles.size, NO_CODE, np.int32)
        codes[: len(basis.codes)] = basis.codes[: roles.size]
        missing = basis.points[slots] - 1 if len(basis.points) else codes
        role = np.where((slots < 0) | ((roles.role == IS_CATEGORY) & (codes < 0)), NO_ROLE, roles.role).astype(np.int32)
        self.features = role, slots.astype(np.int32), np.where(codes < 0, missing, codes).astype(np.int32)
        hats, nodes, known = basis.hat_counts, basis.node_counts, int(basis.known[0])
        curve = np.where(hats > 0, known + np.cumsum(hats) - hats, -1).astype(np.int32)
        inner, *places = inner_knots(basis)
        sources = slots[basis.member].astype(np.int32)
        closing = (basis.period > 0.0) * (basis.counts - 1)
        self.slots = basis.first_knots, basis.counts, curve, basis.numeric, *places, sources, basis.period, closing
        self.knots = basis.knots, inner, *grid_intervals(basis)
        first = (known + basis.hats + np.cumsum(nodes) - nodes).astype(np.int32)
        self.pairs = basis.left, basis.right, first, basis.points[basis.right]

    def fits(self, basis: ColumnBasis, features: int) -> bool:
        """Return whether rows of this many features are expanded by this basis."""
        return self.size >= features and all(
            mine is its for name, mine, its in zip(basis._fields, self.basis, basis, strict=True) if name != "check"
        )

    @property
    def most_hats(self) -> int:
        """The largest number of hats that a row has."""
        return 2 * len(self.basis.member)

    @property
    def most_nodes(self) -> int:
        """The largest number of nodes that a row has."""
        return 3 * len(self.basis.left)

    @property
    def parts(self) -> tuple[Any, ...]:
        """What `expand_rows` takes between the rows and the memory for them; with buffers that are new."""
        slots = len(self.basis.member)
        buffers = np.empty(slots), np.empty(slots, np.int32), np.empty(slots, np.int32)
        return self.features, self.numbers, int(self.basis.known[0]), self.slots, self.knots, self.pairs, buffers

    def expanded(self, chunk: Chunk, reuse: bool = False, centered: Chunk | None = None) -> tuple[Chunk, Chunk]:
        """Return the rows with hats, and with hats and nodes; if `reuse`, in memory that the next call overwrites.

        With the rows `centered`, their entries stand in the place of those of the rows.
        """
        from fiol.features.basis_loops import expand_rows  # imported here: `import fiol` loads no compiler

        rows, plain = chunk.rows, chunk if centered is None else centered
        entries = int(plain.indptr[-1] - plain.indptr[0]) + self.most_hats * rows + 1  # see `expand_rows`
        lower = self.memory(0, rows, entries, reuse)
        more = self.most_nodes * rows
        upper = self.memory(1, rows, entries + more, reuse) if more else lower  # without nodes both are the same
        n, m = expand_rows(tuple(chunk), tuple(plain), *self.parts, tuple(lower), tuple(upper))
        return (
            Chunk(lower.indptr[: rows + 1], lower.indices[:n], lower.data[:n]),
            Chunk(upper.indptr[: rows + 1], upper.indices[:m], upper.data[:m]),
        )

    def memory(self, k: int, rows: int, entries: int, reuse: bool) -> Chunk:
        """Return arrays for rows with at most this many entries; new memory costs as much as writing to it."""
        old = self.kept[k] if reuse else None
        if old is not None and old.indptr.shape[0] > rows and old.data.shape[0] >= entries:
            return old
        new = Chunk(np.empty(rows + 1, np.int64), np.empty(entries, np.int32), np.empty(entries))
        if reuse:
            self.kept[k] = new
        return new


def inner_knots(basis: ColumnBasis) -> tuple[Any, Any, Any]:
    """Return the knots of every slot but the outermost ones; where those of each slot begin, and how many there are.

    Knots at infinity make their numbers multiples of `VECTOR`.
    """
    parts, counts = list[Any](), list[int]()
    for first, count in zip(basis.first_knots.tolist(), basis.counts.tolist(), strict=True):
        own = basis.knots[first + 1 : first + count - 1]
        counts.append(-(-len(own) // VECTOR) * VECTOR)
        parts += own, np.full(counts[-1] - len(own), np.inf)
    sizes = np.array(counts, np.int64)
    return np.concatenate([np.empty(0), *parts]), np.cumsum(sizes) - sizes, sizes


def grid_intervals(basis: ColumnBasis) -> tuple[Any, Any, Any]:
    """Return for the interval after every knot the interval of the grid that it is in: number, lower point, width."""
    number = np.zeros(len(basis.knots), np.int32)
    low, width = np.zeros(len(basis.knots)), np.ones(len(basis.knots))
    for first, count in zip(basis.first_knots.tolist(), basis.counts.tolist(), strict=True):
        own = slice(first, first + count)
        points = basis.knots[own][basis.in_grid[own] > 0]
        if len(points) > 1:
            number[own] = np.minimum(np.cumsum(basis.in_grid[own]), len(points) - 1) - 1
            low[own], width[own] = points[number[own]], np.diff(points)[number[own]]
    return number, low, width
