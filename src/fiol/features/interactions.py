"""Interactions: products of the features of two or three columns, or namespaces.

A pair (A, B) adds to every row a feature for each feature of A and each of B, with the product of their values.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fiol.components.row import Floats
from fiol.features.chunk import LARGEST, SMALLEST
from fiol.features.column_values import BadValueError
from fiol.features.feature_columns import FeatureColumn, interleave, ranks
from fiol.features.named_rows import NamedRows

#: Joins the names of features that are multiplied.
TIMES = "*"


def add_interactions(rows: NamedRows, groups: Sequence[str], pairs: Iterable[Sequence[str]]) -> NamedRows:
    """Return the rows, with the features of every pair (or triple) after their own, in the order of the pairs.

    Parameters
    ----------
    rows : features with names.
    groups : the column or namespace of every name of `rows`.
    pairs : tuples of two or three groups. "when" is the group "when" and all that begin with "when.".

    The name of a product joins the names of its factors by `*`, in the order of the pair. If a pair names a group
    twice, every two of its features are multiplied once, each also with itself, and their names are in alphabetical
    order.

    >>> from fiol import Chunk
    >>> entries = np.array([0, 1, 2], np.int32), np.array([2.0, 1.0, 1.0])
    >>> rows = NamedRows(Chunk(np.array([0, 3]), *entries), ["age", "city=Rome", "when.hour=7"])
    >>> both = add_interactions(rows, ["age", "city", "when.hour"], [("city", "when"), ("age", "age")])
    >>> both.names[3:], both.chunk.data
    (['city=Rome*when.hour=7', 'age*age'], array([2., 1., 1., 1., 4.]))
    """
    pairs = list(pairs)
    if not pairs:
        return rows
    chunk, names = rows
    row_of_entry = np.repeat(np.arange(chunk.rows), np.diff(chunk.indptr))
    own = added_up(FeatureColumn(row_of_entry, chunk.indices, chunk.data, names, list(groups)))
    return interleave([own, *(interaction_column(own, pair, chunk.rows) for pair in pairs)], chunk.rows)[0]


def added_up(own: FeatureColumn) -> FeatureColumn:
    """Return a feature column in which every row has a feature once, with the sum of its values.

    >>> twice = FeatureColumn(np.array([0, 0, 0]), np.array([1, 0, 1]), np.array([1.0, 5.0, 2.0]), ["a", "b"], ["", ""])
    >>> added_up(twice)[:3]
    (array([0, 0]), array([1, 0]), array([3., 5.]))
    """
    keys = own.rows * len(own.names) + own.codes
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    if len(first) == len(keys):
        return own
    order = np.argsort(first)
    sums = np.bincount(which, own.data)[order]
    kept = first[order][sums != 0.0]
    return own._replace(rows=own.rows[kept], codes=own.codes[kept], data=sums[sums != 0.0])


def interaction_column(own: FeatureColumn, pair: Sequence[str], rows: int) -> FeatureColumn:
    """Return the features of one pair or triple as a column."""
    factors, row = list[Any](), np.empty(0, np.int64)
    for k, element in enumerate(pair):
        belongs = np.array([belongs_to(group, element) for group in own.groups], bool)
        entries = np.flatnonzero(belongs[own.codes]) if len(belongs) else np.empty(0, np.int64)
        if k == 0:
            row, factors = own.rows[entries], [entries]
            continue
        here = own.rows[entries]
        count = np.bincount(here, minlength=rows)
        start = np.cumsum(count) - count
        times = count[row]  # number of partners of each product so far
        which = np.repeat(np.arange(len(row)), times)
        row = row[which]
        new = entries[start[row] + ranks(which, times)]
        factors = [*(factor[which] for factor in factors), new]
        same = [j for j in range(k) if pair[j] == element]
        if same:
            once = new >= factors[same[-1]]
            row, factors = row[once], [factor[once] for factor in factors]
    data = multiplied([own.data[factor] for factor in factors])
    codes, names = joined_names([own.codes[factor] for factor in factors], own.names, pair)
    wrong = ~((np.abs(data) >= SMALLEST) & (np.abs(data) <= LARGEST))
    if wrong.any():
        k = int(wrong.argmax())
        reason = f"must be between {SMALLEST:g} and {LARGEST:g} in size, got {data[k]:g}"
        raise BadValueError(int(row[k]), names[codes[k]], reason)
    return FeatureColumn(row, codes, data, names, [TIMES.join(pair)] * len(names))


def belongs_to(group: str, element: str) -> bool:
    """Return whether an element of a pair names a group.

    >>> belongs_to("when.hour", "when"), belongs_to("whenever", "when")
    (True, False)
    """
    return group == element or group.startswith(f"{element}.")


def multiplied(factors: list[Floats]) -> Floats:
    """Return the products, from left to right."""
    found = factors[0]
    for factor in factors[1:]:
        found = found * factor
    return found


def joined_names(codes: list[Any], names: Sequence[str], pair: Sequence[str]) -> tuple[Any, list[str]]:
    """Return a code for every combination of names, and the name of each code."""
    whole, table = codes[0].astype(np.int64), np.arange(len(names), dtype=np.int64)[:, None]
    for more in codes[1:]:
        keys, whole = np.unique(whole * len(names) + more, return_inverse=True)
        before, last = np.divmod(keys, max(len(names), 1))
        table = np.column_stack([table[before], last])
    return whole, [joined([names[i] for i in row], pair) for row in table.tolist()]


def joined(factors: list[str], pair: Sequence[str]) -> str:
    """Return the name of a product.

    >>> joined(["b", "x", "a"], ["words", "age", "words"])
    'a*x*b'
    """
    for element in set(pair):
        places = [k for k, other in enumerate(pair) if other == element]
        for k, name in zip(places, sorted(factors[k] for k in places), strict=True):
            factors[k] = name
    return TIMES.join(factors)
