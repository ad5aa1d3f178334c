"""The column that a feature of a table encoding comes from, by the name of the feature."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

from fiol.features.column_kinds import MISSING
from fiol.features.product_names import TIMES

#: What ends the name of a column in the name of a feature.
SEPARATOR = re.compile("[=:.]")


def column_and_value(feature: str, columns: Any) -> tuple[str | None, str | None]:
    """Return the column of a feature, and the value in its name: "" for a number, None for a missing value.

    >>> column_and_value("city=Rome", {"city", "age"}), column_and_value("age is missing", {"age"})
    (('city', 'Rome'), ('age', None))
    """
    if feature in columns:
        return feature, ""
    if feature.endswith(MISSING) and feature.removesuffix(MISSING) in columns:
        return feature.removesuffix(MISSING), None
    for found in SEPARATOR.finditer(feature):
        if feature[: found.start()] in columns:
            return feature[: found.start()], feature[found.end() :]
    return None, None


def column_of_feature(feature: str, columns: Collection[str], pairs: Sequence[Sequence[str]] = ()) -> str:
    """Return the column of a feature, the columns of an interaction joined by `*`, or else the feature itself.

    >>> columns = {"city", "age"}
    >>> column_of_feature("city=Rome", columns), column_of_feature("city=Rome*age", columns, [("city", "age")])
    ('city', 'city*age')
    """
    if pairs and TIMES in feature:
        factors = [column_and_value(factor, columns)[0] for factor in feature.split(TIMES)]
        if None not in factors and len(factors) in map(len, pairs):
            return TIMES.join(map(str, factors))
    return column_and_value(feature, columns)[0] or feature


def needs_moments(feature: str, columns: Collection[str]) -> bool:
    """Return whether a feature is a column of numbers, or stands for a missing value.

    Means of other features of a table, which have the values 0 and 1, follow from their mean squares.
    """
    return feature in columns or feature.removesuffix(MISSING) in columns
