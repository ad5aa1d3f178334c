"""Which column a feature belongs to, and what it is there: a number, a value of a category, or a missing value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fiol.features.product_names import TIMES
from fiol.features.table_encoding import DATED, TableEncoding

#: Roles of a feature: none (words, tags, products), the number of a column, a value of a category, a missing number.
NO_ROLE, NUMBER, CATEGORY, MISSING = range(4)
#: The end of the name of a missing value.
IS_MISSING = " is missing"
#: Kinds of columns whose features are numbers.
NUMERIC = ("number", "numeric_text", *DATED)


class Roles(NamedTuple):
    """The role of every feature, and its column, by the number of the column's first feature."""

    role: Any
    column: Any

    @property
    def size(self) -> int:
        """The number of features."""
        return len(self.role)

    def first(self, features: int) -> Roles:
        """Return the roles of the first features."""
        return Roles(self.role[:features], self.column[:features])


def columns_of_numbers(features: int) -> Roles:
    """Return the roles of features that are columns of numbers."""
    return Roles(np.full(features, NUMBER, np.int32), np.arange(features, dtype=np.int32))


class ColumnRoles:
    """The roles of the features of a model, found as features appear.

    >>> roles = ColumnRoles().of(["age", "city=Rome", "age is missing", "city=Oslo"], 4, None)
    >>> roles.role.tolist(), roles.column.tolist()
    ([1, 2, 3, 2], [0, 1, 0, 1])
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all features."""
        self.role, self.column, self.first = list[int](), list[int](), dict[str, int]()
        self.known = columns_of_numbers(0)

    def of(self, names: Sequence[Any] | None, features: int, encoding: TableEncoding | None) -> Roles:
        """Return the roles of features with these names; without names they are columns of numbers."""
        if names is None:
            return self.known if self.known.size == features else columns_of_numbers(features)
        if features < len(self.role):  # taken back
            self.clear()
        if features > len(self.role):
            kinds = {} if encoding is None else {column.name: column.kind for column in encoding.columns}
            for i in range(len(self.role), features):
                role, column = role_of(names[i], kinds)
                self.role.append(role)
                self.column.append(self.first.setdefault(column, i))
            self.known = Roles(np.array(self.role, np.int32), np.array(self.column, np.int32))
        return self.known


def role_of(name: Any, kinds: dict[str, str]) -> tuple[int, str]:
    """Return the role of a feature and the name of its column, given the kinds of columns as far as they are known.

    >>> role_of("day.month=3", {"day": "date"}), role_of("review:good", {"review": "words"}), role_of(7, {})
    ((2, 'day.month'), (0, 'review:good'), (1, '7'))
    """
    name = str(name)
    if name in kinds:
        return (NUMBER if kinds[name] in NUMERIC else NO_ROLE), name
    if TIMES in name:
        return NO_ROLE, name
    column, sign, _ = name.partition("=")
    if sign:
        return (NO_ROLE if kinds.get(column, "category") in ("tags", "words") else CATEGORY), column
    if name.endswith(IS_MISSING):
        column = name.removesuffix(IS_MISSING)
        kind = kinds.get(column, "number")
        return (MISSING if kind in NUMERIC else CATEGORY if kind == "category" else NO_ROLE), column
    if kinds.get(name.partition(":")[0]) == "words":
        return NO_ROLE, name
    return NUMBER, name
