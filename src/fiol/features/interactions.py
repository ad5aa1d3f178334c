"""Interactions: products of the features of two or three columns, or namespaces.

A pair (A, B) adds to every row a feature for each feature of A and each of B, with the product of their values.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from fiol.features.chunk import LARGEST, SMALLEST, Chunk, arranged_rows, canonical, loops, row_of, spot
from fiol.features.column_values import BadValueError
from fiol.features.hashing import Hashing
from fiol.features.named_rows import NamedRows
from fiol.features.product_names import TIMES, FactorHashes, ProductNames, product_loops, texts_of_factors


def add_interactions(rows: NamedRows, groups: Sequence[str], pairs: Iterable[Sequence[str]]) -> NamedRows:
    """Return the rows, with the features of every pair (or triple) after their own, in the order of the pairs.

    Parameters
    ----------
    rows : features with names.
    groups : the column or namespace of every name of `rows`.
    pairs : tuples of two or three groups. "when" is the group "when" and all that begin with "when.".

    The name of a product joins the names of its factors by `*`, in the order of the pair. If a pair names a group
    twice, every two of its features are multiplied once, each also with itself, in the alphabetical order of names.

    >>> from fiol import Chunk
    >>> entries = np.array([0, 1, 2], np.int32), np.array([2.0, 1.0, 1.0])
    >>> rows = NamedRows(Chunk(np.array([0, 3]), *entries), ["age", "city=Rome", "when.hour=7"])
    >>> both = add_interactions(rows, ["age", "city", "when.hour"], [("city", "when"), ("age", "age")])
    >>> both.names[3:], both.chunk.data
    (['city=Rome*when.hour=7', 'age*age'], array([2., 1., 1., 1., 4.]))
    """
    pairs = list(pairs)
    return Products(rows, groups, pairs).named(np.arange(rows.rows)) if pairs else rows


class Products:
    """The products of the features of rows, made for some rows at a time.

    Parameters
    ----------
    rows, groups, pairs : see `add_interactions`.
    belongs : whether an element of a pair means a group: `belongs(group, element)`.
    """

    def __init__(
        self,
        rows: NamedRows,
        groups: Sequence[str],
        pairs: Sequence[Sequence[str]],
        belongs: Callable[[str, str], bool] | None = None,
    ) -> None:
        self.names, self.chunk = rows.names, added_up(rows)
        belongs = belongs_to if belongs is None else belongs
        elements = list(dict.fromkeys(element for pair in pairs for element in pair))
        known, which = {group: k for k, group in enumerate(dict.fromkeys(groups))}, np.zeros(len(groups), np.int64)
        which[:] = [known[group] for group in groups]
        means = np.array([[belongs(group, element) for group in known] for element in elements], np.int64)
        #: The pairs that no row can have products of: for one of their elements there is no feature.
        self.unmet = {tuple(p) for p in pairs if not all(means[elements.index(element)].any() for element in p)}
        self.belongs = np.ascontiguousarray(means.reshape(len(elements), len(known))[:, which])
        self.elements = np.full((len(pairs), 3), -1, np.int64)
        for k, pair in enumerate(pairs):
            self.elements[k, : len(pair)] = [elements.index(element) for element in pair]
        self.ranked = self.places_by_name() if any(len(set(pair)) < len(pair) for pair in pairs) else None
        self.has_stars = any(TIMES in name for name in self.names)
        self.bounds = np.empty(self.chunk.rows, np.int64)
        product_loops().bound_products(self.chunk.indptr, self.chunk.indices, self.belongs, self.elements, self.bounds)

    def places_by_name(self) -> Chunk:
        """Return the ranks of the features of every row, by name, in ascending order, and their places, from 1."""
        rank = np.empty(len(self.names), np.int32)
        rank[sorted(range(len(self.names)), key=self.names.__getitem__)] = np.arange(len(self.names), dtype=np.int32)
        indptr = self.chunk.indptr
        places = np.arange(1.0, indptr[-1] + 1) - np.repeat(indptr[:-1], np.diff(indptr))
        return arranged_rows(Chunk(indptr, rank[self.chunk.indices], places))

    def parts(self, most: int) -> Iterator[Any]:
        """Yield the numbers of rows that have at most `most` entries and products together, or of a single row.

        >>> from fiol import Chunk
        >>> chunk = Chunk(np.arange(4), np.array([0, 0, 1], np.int32), np.ones(3))
        >>> list(Products(NamedRows(chunk, ["a", "b"]), ["a", "b"], [("a", "a")]).parts(4))
        [array([0, 1]), array([2])]
        """
        ends, start = np.cumsum(self.bounds), 0
        while start < self.chunk.rows:
            before = ends[start - 1] if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, before + most, side="right")))
            yield np.arange(start, stop)
            start = stop

    def named(self, order: Any) -> NamedRows:
        """Return some rows with their products, by names; BadValueError for a product out of range."""
        indptr, factors, data = self.multiplied(order)
        indices, distinct = np.empty(len(data), np.int32), np.empty((len(data), 3), np.int32)
        slots = np.zeros(1 << (2 * len(data) + 1).bit_length(), np.int32)
        with np.errstate(over="ignore"):
            count = product_loops().number_factors(factors, slots, distinct, indices)
        if not self.has_stars:
            return NamedRows(Chunk(indptr, indices, data), ProductNames(self.names, distinct[:count].copy()))
        names = texts_of_factors(self.names, distinct[:count])
        known = dict.fromkeys(names)
        if len(known) < count:  # two combinations of names have made one
            places = {name: k for k, name in enumerate(known)}
            indices = np.array([places[name] for name in names], np.int32)[indices]
        return NamedRows(Chunk(indptr, indices, data), list(known) if len(known) < count else names)

    def hashed(self, order: Any, hashing: Hashing) -> Chunk:
        """Return some rows with their products, by the hashes of names; BadValueError for a product out of range."""
        chunk, ranked, most, longest = self.taken(order)
        indptr, indices, data = np.empty(chunk.rows + 1, np.int64), np.empty(most, np.int32), np.empty(most)
        words = np.empty((int(self.hashes.words[2].max(initial=0)) // 4 + 2, longest), np.uint32)
        last = words, np.empty(longest, np.int64), np.empty(longest), np.empty(longest, np.uint32)
        places, hashes = np.empty((3, longest + 1), np.int64), (*self.hashes.words, *self.hashes.hashes)
        with np.errstate(over="ignore"):  # the interpreter warns where integers wrap around
            n = product_loops().hash_entries(
                *chunk, ranked, self.belongs, self.elements, places, *hashes, hashing.size, last, indptr, indices, data
            )
        if any(loops().survey(data[:n], SMALLEST, LARGEST)):
            self.multiplied(order)  # which names the product
        return canonical(Chunk(indptr, indices[:n], data[:n]), spot)

    @functools.cached_property
    def hashes(self) -> FactorHashes:
        """The hashes of all names."""
        return FactorHashes(self.names)

    def taken(self, order: Any) -> tuple[Chunk, Any, int, int]:
        """Return some rows, their places by name, the most entries and products of all, and the most entries of one."""
        chunk = self.chunk.take(order)
        ranked = np.empty(0) if self.ranked is None else self.ranked.take(order).data
        return chunk, ranked, int(self.bounds[order].sum()), int(np.diff(chunk.indptr).max(initial=0))

    def multiplied(self, order: Any) -> tuple[Any, Any, Any]:
        """Return where rows start, and the factors and values of entries; BadValueError for a value out of range."""
        chunk, ranked, most, longest = self.taken(order)
        places = np.empty((3, longest + 1), np.int64)
        indptr, factors, data = np.empty(chunk.rows + 1, np.int64), np.empty((most, 3), np.int32), np.empty(most)
        n = product_loops().multiply_entries(*chunk, ranked, self.belongs, self.elements, places, indptr, factors, data)
        factors, data = factors[:n], data[:n]
        if any(loops().survey(data, SMALLEST, LARGEST)):
            k = int(np.argmin((np.abs(data) >= SMALLEST) & (np.abs(data) <= LARGEST)))
            reason = f"must be between {SMALLEST:g} and {LARGEST:g} in size, got {data[k]:g}"
            raise BadValueError(row_of(indptr, k), texts_of_factors(self.names, factors[k : k + 1])[0], reason)
        return indptr, factors, data


def added_up(rows: NamedRows) -> Chunk:
    """Return rows that have every feature once, where it was first, with the sum of its values.

    >>> indices = np.array([1, 0, 1], np.int32)
    >>> added_up(NamedRows(Chunk(np.array([0, 3]), indices, np.array([1.0, 5.0, 2.0])), ["a", "b"]))[1:]
    (array([1, 0], dtype=int32), array([3., 5.]))
    """
    chunk, names = rows
    if not product_loops().count_twins(chunk.indptr, chunk.indices, np.full(len(names), -1, np.int64)):
        return chunk
    row = np.repeat(np.arange(chunk.rows), np.diff(chunk.indptr))
    _, first, which = np.unique(row * len(names) + chunk.indices, return_index=True, return_inverse=True)
    order = np.argsort(first)
    sums = np.bincount(which, chunk.data)[order]
    kept = first[order][sums != 0.0]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row[kept], minlength=chunk.rows))])
    return Chunk(indptr, chunk.indices[kept], sums[sums != 0.0])


def belongs_to(group: str, element: str) -> bool:
    """Return whether an element of a pair names a group.

    >>> belongs_to("when.hour", "when"), belongs_to("whenever", "when")
    (True, False)
    """
    return group == element or group.startswith(f"{element}.")
