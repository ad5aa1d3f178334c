"""Hat functions of columns and cells of pairs of columns: found from the first rows, then added to every row.

The features of a row are numbered in blocks: features that were known when the knots were found have their own numbers,
then come the hats, then the cells, then features that appeared later. So every number follows from the knots and pairs,
and nothing depends on how rows are cut into chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from fiol.components.row import Floats
from fiol.components.table_basis import TableBasis
from fiol.features.chunk import Chunk
from fiol.features.column_roles import IS_CATEGORY, IS_NUMBER, NO_ROLE, Roles

#: A category has this many bins for each of its values in the first rows, and this many more; at most so many in all.
BINS_PER_VALUE, MORE_BINS, MOST_BINS = 2, 8, 256
#: Columns are looked at again whenever there are this many times as many rows.
GROWTH_OF_CHECKS = 1.5
#: The code of a feature that is no value of a category.
NO_CODE = -1


class ColumnBasis(NamedTuple):
    """Knots, bins and pairs of the columns of a table; all arrays. A slot is a column that has knots or bins."""

    known: Any  #: [1] the number of features when the knots were found
    member: Any  #: [slot] a feature of its column
    numeric: Any  #: [slot] 1 for numbers, 0 for categories
    few: Any  #: [slot] 1 if knots are the values of the column, 0 if they are quantiles
    bins: Any  #: [slot] the number of bins; the last is for missing values, or for all further values of a category
    counts: Any  #: [slot] the number of knots
    knots: Any  #: the knots of all slots, one after the other
    left: Any  #: [pair] a slot
    right: Any  #: [pair] another slot
    codes: Any  #: [feature] the bin of a value of a category, or `NO_CODE`; of features so far
    check: Any  #: [1] the round before which columns are looked at again

    @property
    def hat_counts(self) -> Any:
        """The number of hats of every slot; a column of two values needs none."""
        return np.where(self.counts > 2, self.counts, 0)

    @property
    def hats(self) -> int:
        """The number of hats."""
        return int(self.hat_counts.sum())

    @property
    def cell_counts(self) -> Any:
        """The number of cells of every pair."""
        return self.bins[self.left] * self.bins[self.right]

    @property
    def cells(self) -> int:
        """The number of cells."""
        return int(self.cell_counts.sum())

    @property
    def added(self) -> tuple[int, int, int]:
        """The number of features that each level adds to the features as they are."""
        return 0, self.hats, self.hats + self.cells

    def numbers(self, features: int, level: int) -> Any:
        """Return the number that each of the first features as they are has at a level, from 0."""
        i = np.arange(features, dtype=np.int32)
        return i + (i >= self.known[0]) * np.int32(self.added[level])

    def slots_of(self, roles: Roles) -> Any:
        """Return the slot of every feature, -1 without one."""
        slot_of_column = np.full(roles.size + 1, -1, np.int32)
        slot_of_column[roles.column[self.member]] = np.arange(len(self.member))
        return np.where(roles.role == NO_ROLE, -1, slot_of_column[roles.column])

    def with_codes(self, roles: Roles, features: int) -> ColumnBasis:
        """Return the basis with bins for the values of categories among the first `features` features."""
        before = len(self.codes)
        if features <= before:
            return self
        codes = np.concatenate([self.codes, np.full(features - before, NO_CODE, np.int32)])
        slots = self.slots_of(roles)
        for s in np.flatnonzero(self.numeric == 0):
            taken = int(codes[:before][slots[:before] == s].max(initial=NO_CODE)) + 1
            new = np.flatnonzero(slots[before:features] == s) + before
            codes[new] = np.minimum(taken + np.arange(len(new)), self.bins[s] - 1)
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


def find_basis(options: TableBasis, chunk: Chunk, roles: Roles) -> ColumnBasis:
    """Return knots, bins and pairs for the columns in some rows, whose features have these roles."""
    columns = values_of_columns(chunk, roles)
    slots, knots, different = list[tuple[int, int, int, int]](), list[Any](), list[int]()
    for column, (numeric, values, there) in columns.items() if len(columns) <= options.max_columns else ():
        seen = np.unique(values[there])
        if not len(seen):
            continue
        own = seen[:0]
        if numeric:
            few = len(seen) <= options.knots
            own = seen if few else np.unique(np.quantile(values[there], np.linspace(0.0, 1.0, options.knots + 1)))
            bins = len(own) + few
        else:
            few, bins = True, min(BINS_PER_VALUE * len(seen) + MORE_BINS, MOST_BINS)
        slots.append((column, int(numeric), int(few), bins))
        knots.append(own)
        different.append(len(seen))
    pairs = chosen_pairs(options, [bins for *_, bins in slots], different)
    table = np.array(slots, np.int32).reshape(-1, 4)
    counts = np.array([len(own) for own in knots], np.int32)
    left, right = np.array(pairs, np.int32).reshape(-1, 2).T.copy()
    member, is_numeric, is_few, bin_counts = table.T.copy()
    all_knots = np.concatenate([np.empty(0), *knots])
    known, codes = np.array([roles.size], np.int32), np.empty(0, np.int32)
    check = np.array([next_check(chunk.rows, options)], np.int64)
    found = ColumnBasis(known, member, is_numeric, is_few, bin_counts, counts, all_knots, left, right, codes, check)
    return found.with_codes(roles, roles.size)


def next_check(rounds: int, options: TableBasis) -> int:
    """Return the round before which columns are looked at again, after this many rounds.

    >>> next_check(200, TableBasis()), next_check(10_000, TableBasis())
    (400, 15000)
    """
    return max(rounds + int(options.rows), int(GROWTH_OF_CHECKS * rounds))


def chosen_pairs(options: TableBasis, bins: Sequence[int], different: Sequence[int]) -> list[tuple[int, int]]:
    """Return pairs of slots with several values: all, or those with most values, as far as cells fit."""
    most = sum(count > 1 for count in different)
    while most * (most - 1) // 2 > options.max_pairs:
        most -= 1
    ranked = sorted(range(len(bins)), key=lambda s: (-different[s], s))[:most]
    found, cells = list[tuple[int, int]](), 0
    for a, b in combinations(sorted(ranked), 2):
        if cells + bins[a] * bins[b] <= options.max_cells:
            found.append((a, b))
            cells += bins[a] * bins[b]
    return found


class Expander:
    """Adds hats and cells to rows, by a basis and the roles of the features that are there."""

    def __init__(self, basis: ColumnBasis, roles: Roles) -> None:
        self.basis, self.size, slots = basis, roles.size, basis.slots_of(roles)
        #: Memory of the last call that may be used again.
        self.kept: list[Chunk | None] = [None, None]
        #: Numbers of features with hats, and with hats and cells; one more for features never seen.
        self.numbers = basis.numbers(roles.size + 1, 1), basis.numbers(roles.size + 1, 2)
        codes = np.full(roles.size, NO_CODE, np.int32)
        codes[: len(basis.codes)] = basis.codes[: roles.size]
        missing = basis.bins[slots] - 1 if len(basis.bins) else codes
        role = np.where((slots < 0) | ((roles.role == IS_CATEGORY) & (codes < 0)), NO_ROLE, roles.role).astype(np.int32)
        self.features = role, slots.astype(np.int32), np.where(codes < 0, missing, codes).astype(np.int32)
        hats, cells, known = basis.hat_counts, basis.cell_counts, int(basis.known[0])
        curve = np.where(hats > 0, np.cumsum(hats) - hats, -1).astype(np.int32)
        first = (np.cumsum(basis.counts) - basis.counts).astype(np.int32)
        self.slots = first, basis.counts, basis.few, basis.bins, curve, basis.numeric
        self.pairs = basis.left, basis.right, (known + basis.hats + np.cumsum(cells) - cells).astype(np.int32)

    @property
    def most_hats(self) -> int:
        """The largest number of hats that a row has."""
        return 2 * len(self.basis.member)

    @property
    def most_cells(self) -> int:
        """The largest number of cells that a row has."""
        return len(self.basis.left)

    @property
    def parts(self) -> tuple[Any, ...]:
        """What `expand_rows` takes between the rows and the memory for them; with buffers that are new."""
        slots = len(self.basis.member)
        buffers = np.empty(slots), np.empty(slots, np.int32), int(self.basis.known[0])
        return self.features, self.numbers, self.slots, self.basis.knots, self.pairs, buffers

    def expanded(self, chunk: Chunk, reuse: bool = False) -> tuple[Chunk, Chunk]:
        """Return the rows with hats, and with hats and cells; if `reuse`, in memory that the next call overwrites."""
        from fiol.features.basis_loops import expand_rows  # imported here: `import fiol` loads no compiler

        rows = chunk.rows
        entries = int(chunk.indptr[-1] - chunk.indptr[0]) + self.most_hats * rows
        lower = self.memory(0, rows, entries, reuse)
        more = self.most_cells * rows
        upper = self.memory(1, rows, entries + more, reuse) if more else lower  # without cells both are the same
        n, m = expand_rows(tuple(chunk), *self.parts, tuple(lower), tuple(upper))
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
