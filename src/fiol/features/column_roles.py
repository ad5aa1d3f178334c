"""Which column a feature belongs to, and what it is there: a number, a value of a category, or a missing value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fiol.features.column_kinds import COLUMN_KINDS
from fiol.features.column_names import column_and_value, column_of_feature
from fiol.features.product_names import TIMES
from fiol.features.table_encoding import TableEncoding

#: Roles of a feature: none (words, tags, products), the number of a column, a value of a category, a missing number.
NO_ROLE, IS_NUMBER, IS_CATEGORY, IS_MISSING = range(4)


class Roles(NamedTuple):
    """The role of every feature, and its column, by the number of the column's first feature."""

    role: Any
    column: Any
    titles: Mapping[int, str]  #: names of columns by their first feature, as far as these are not names of features
    kinds: Mapping[int, str] = {}  #: kinds of columns of dates and times, by their first feature

    @property
    def size(self) -> int:
        """The number of features."""
        return len(self.role)

    def first(self, features: int) -> Roles:
        """Return the roles of the first features."""
        return self._replace(role=self.role[:features], column=self.column[:features])


def has_curve(kind: str) -> bool:
    """Return whether a column of a kind may have a curve."""
    return COLUMN_KINDS[kind].is_number or bool(COLUMN_KINDS[kind].parts)


def has_bins(kind: str) -> bool:
    """Return whether a column of a kind may be part of a pair: words and tags are not."""
    return has_curve(kind) or (bool(COLUMN_KINDS[kind].sign) and not COLUMN_KINDS[kind].has_several)


def columns_of_numbers(features: int) -> Roles:
    """Return the roles of features that are columns of numbers."""
    return Roles(np.full(features, IS_NUMBER, np.int32), np.arange(features, dtype=np.int32), {})


class ColumnRoles:
    """The roles of the features of a model, found as features appear.

    >>> roles = ColumnRoles().of(["age", "city=Rome", "size", "city=Oslo"], 4, None)
    >>> roles.role.tolist(), roles.column.tolist()
    ([1, 2, 1, 2], [0, 1, 2, 1])
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all features."""
        #: The role of every feature, the first feature of its column, and the first feature of every column.
        self.role, self.column, self.first = list[int](), list[int](), dict[str, int]()
        #: The kinds of columns of dates and times, by their first feature.
        self.kinds = dict[int, str]()
        self.known = columns_of_numbers(0)

    def of(self, names: Sequence[Any] | None, features: int, encoding: TableEncoding | None) -> Roles:
        """Return the roles of features with these names; without names they are columns of numbers."""
        if names is None:
            return self.known if self.known.size == features else columns_of_numbers(features)
        features = min(features, len(names))
        if features < len(self.role):  # taken back
            self.clear()
        if features > len(self.role):
            kinds = {} if encoding is None else {column.name: column.kind for column in encoding.columns}
            pairs = () if encoding is None else encoding.pairs
            for i in range(len(self.role), features):
                role, column = role_of(names[i], kinds, pairs)
                self.role.append(role)
                self.column.append(self.first.setdefault(column, i))
                if role in (IS_NUMBER, IS_MISSING) and column in kinds and COLUMN_KINDS[kinds[column]].cycles:
                    self.kinds[self.column[-1]] = kinds[column]
            titles = {i: column for column, i in self.first.items()}
            self.known = Roles(np.array(self.role, np.int32), np.array(self.column, np.int32), titles, dict(self.kinds))
        return self.known


def role_of(name: Any, kinds: dict[str, str], pairs: Sequence[Sequence[str]] = ()) -> tuple[int, str]:
    """Return the role of a feature and the name of its column, given the kinds of columns as far as they are known.

    >>> role_of("day.month=3", {"day": "date"}), role_of("review:good", {"review": "words"}), role_of(7, {})
    ((2, 'day.month'), (0, 'review'), (1, '7'))
    >>> role_of("city=Rome", {}), role_of("age is missing", {"age": "number"}), role_of("a=1*b=2", {})
    ((2, 'city'), (3, 'age'), (0, 'a=1*b=2'))
    """
    name = str(name)
    if TIMES in name and (not kinds or (pairs and column_of_feature(name, kinds, pairs) not in kinds)):
        return NO_ROLE, name
    column, value = column_and_value(name, kinds)
    if column is None:  # of a dict
        column, sign, _ = name.partition("=")
        return (IS_CATEGORY, column) if sign else (IS_NUMBER, name)
    if has_curve(kinds[column]):
        if value == "":
            return IS_NUMBER, column
        return (IS_MISSING, column) if value is None else (IS_CATEGORY, f"{column}.{value.partition('=')[0]}")
    return (IS_CATEGORY if has_bins(kinds[column]) else NO_ROLE), column
