"""The features `c is missing` of columns of numbers c, their indicators; also of those that were never seen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fiol.components.row import Indices
from fiol.features.column_kinds import MISSING
from fiol.features.column_roles import IS_MISSING, IS_NUMBER, NO_ROLE, Roles
from fiol.features.table_encoding import TableEncoding
from fiol.features.vocabulary import Encoder, Vocabulary


def indicators_of(roles: Roles) -> Indices:
    """Return the number of the feature `c is missing` of every column of numbers c; other features have -1.

    Beyond all features there is a number for every `c is missing` never seen, which no feature soon gets.

    >>> from fiol.features.column_roles import ColumnRoles
    >>> from fiol.features.table_encoding import TableEncoding
    >>> encoding = TableEncoding.from_spec({"age": "number", "size": "number"})
    >>> indicators_of(ColumnRoles().of(["age", "size", "age is missing", "city=Rome"], 4, encoding)).tolist()
    [2, 65, -1, -1]
    """
    beyond, number = first_beyond(roles.size), np.flatnonzero(roles.role == IS_NUMBER)
    found, of_column = np.full(roles.size, -1, np.int32), np.full(roles.size, -1, np.int32)
    found[number], of_column[roles.column[number]] = beyond + number, number
    for i in np.flatnonzero(roles.role == IS_MISSING).tolist():
        if of_column[roles.column[i]] >= 0:
            found[of_column[roles.column[i]]] = i
    return found


def first_beyond(features: int) -> int:
    """Return a number beyond this many features that is seldom another one if these become more."""
    return max(64, 1 << features.bit_length())


def roles_with_never_seen(roles: Roles, indicators: Indices, features: int) -> Roles:
    """Return the roles of at least `features` features, with those of indicators that are beyond all features."""
    size = max(features, int(indicators.max(initial=-1)) + 1)
    role, column = np.full(size, NO_ROLE, np.int32), np.zeros(size, np.int32)
    role[: roles.size], column[: roles.size] = roles.role, roles.column
    new = np.flatnonzero(indicators >= roles.size)
    role[indicators[new]], column[indicators[new]] = IS_MISSING, roles.column[new]
    return roles._replace(role=role, column=column)


def indicators_at_level(indicators: Indices, basis: Any, level: int) -> Indices:
    """Return the indicators of features as they are numbered at a level of a basis, or without one."""
    size = max(len(indicators), int(indicators.max(initial=-1)) + 1)
    numbers = np.arange(size, dtype=np.int32) if basis is None else basis.numbers(size, level)
    own = np.full(int(numbers.max(initial=-1)) + 1, -1, np.int32)
    own[numbers[: len(indicators)]] = np.where(indicators < 0, -1, numbers[indicators])
    return own


def number_never_seen(names: Sequence[Any], numbers: Any, known: Vocabulary) -> Any:
    """Return numbers of names, -1 if unknown, where indicators never seen have the numbers of `indicators_of`.

    >>> number_never_seen(["age", "age is missing", "city is missing"], np.array([0, -1, -1]), Vocabulary(["age"]))
    array([ 0, 64, -1])
    """
    beyond = first_beyond(known.size)
    for k in np.flatnonzero(numbers < 0).tolist():
        column = names[k].removesuffix(MISSING) if isinstance(names[k], str) else names[k]
        if column != names[k] and known.knows(column):
            numbers[k] = beyond + known.number(column)
    return numbers


def has_never_seen(row: Iterable[Any], known: Encoder) -> bool:
    """Return whether some of these names are indicators never seen."""
    return any(type(name) is str and name.endswith(MISSING) and not known.knows(name) for name in row)


def name_indicators(features: Iterable[int], known: Vocabulary, encoding: TableEncoding) -> None:
    """Number the indicators of these features, as far as they are columns."""
    columns = {column.name for column in encoding.columns}
    for name in [known.names[i] for i in features]:
        if name in columns:
            known.number(f"{name}{MISSING}")
