"""Encode dicts as rows: `Encoder`, and `Vocabulary`, which numbers names as they appear (see also `Hashing`)."""

from __future__ import annotations

import functools
import math
import numbers
import struct
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fiol.components.row import Floats, Indices
from fiol.features.chunk import LARGEST, MOST_FEATURES, SMALLEST, Chunk, canonical, loops, refuse_value
from fiol.features.product_names import ProductNames, ProductTable
from fiol.features.transaction import Transaction

#: Types of names that need no conversion.
NAME_TYPES = frozenset((str, int))


class Encoder:
    """Encode dicts as rows: a key is the name of a feature, str or int, and its value a number.

    A text value is part of the name: {"color": "red"} is {"color=red": 1}. Zeros are left out.
    """

    #: The number of features.
    size: int
    #: The numbers of str names.
    known: dict[str, int]
    #: Returns the number of a name that is a str; raises for any other.
    find: Callable[[Any], int]

    def number(self, name: str | int, owner: str = "x") -> int:
        """Return the number of the feature `name`; errors name its row, `owner`."""
        raise NotImplementedError

    def knows(self, name: str | int) -> bool:
        """Return whether the feature `name` has a number."""
        return True

    def numbers_of_names(self, names: Sequence[str], grow: bool, unseen: int) -> Any:
        """Return the numbers of many names at once; without `grow`, new names get the number `unseen`."""
        raise NotImplementedError

    @property
    def tables(self) -> tuple[dict[Any, int], dict[Any, int], list[Any]]:
        """The numbers of str names and of int names, and all names that have a number."""
        return self.known, {}, []

    def mark(self) -> Any:
        """Return a token for `rewind`."""

    def rewind(self, mark: Any) -> None:
        """Remove all names added since the mark."""

    def look_up(self, row: Mapping[Any, Any]) -> tuple[Indices, Floats] | None:
        """Return the indices (ascending) and values of a row whose names are all known; None for any other row."""
        return looked_up(row, self.known) or looked_up_with_text(row, self.known)

    def encode(self, rows: Iterable[Mapping[Any, Any]], grow: bool = True, unseen: int | None = None) -> Chunk:
        """Return the rows as a chunk; nothing changes if one of them is invalid, or `rows` raises.

        With `grow=False` no names are added: new features get the number `unseen`, or are left out if that is None.
        """
        if isinstance(rows, Mapping):
            raise TypeError("rows must be an iterable of dicts: for a single one use encode_one")
        found = list[tuple[Indices, Floats]]()
        try:
            with Transaction(self):
                for row in rows:
                    found.append(self.encode_one(row, len(found), grow, unseen))
        except BaseException as error:
            if hasattr(error, "add_note") and not str(error).startswith("X["):
                error.add_note(f"in row {len(found)}")
            raise
        indptr = np.zeros(len(found) + 1, np.int64)
        np.cumsum([indices.shape[0] for indices, _ in found], out=indptr[1:])
        found.append((np.empty(0, np.int32), np.empty(0)))  # numpy cannot join an empty list
        indices, data = zip(*found, strict=True)
        return Chunk(indptr, np.concatenate(indices), np.concatenate(data))

    def encode_one(
        self, row: Mapping[Any, Any], number: int | None = None, grow: bool = True, unseen: int | None = None
    ) -> tuple[Indices, Floats]:
        """Return the indices (ascending) and values of one row; errors name row `number`."""
        return self.look_up(row) or self.encode_carefully(row, number, grow, unseen)

    def encode_carefully(
        self, row: Mapping[Any, Any], number: int | None, grow: bool, unseen: int | None
    ) -> tuple[Indices, Floats]:
        """Return the indices (ascending) and values of one row, checking every entry."""
        owner = "x" if number is None else f"X[{number}]"
        if not isinstance(row, Mapping):
            raise TypeError(f"{owner} must be a dict, got {type(row).__name__}")
        entries = [checked_entry(owner, key, value) for key, value in row.items()]
        keep = grow or unseen is not None
        entries = [(name, value) for name, value in entries if value != 0.0 and (keep or self.knows(name))]
        with Transaction(self):
            numbers = [self.number(name, owner) if grow or self.knows(name) else unseen for name, _ in entries]
            indices = np.array(numbers, np.int32)
            data = np.array([value for _, value in entries], np.float64)
            done = arranged(indices.copy(), data.copy())
            if done is not None:
                return done
            one = Chunk(np.array([0, len(entries)]), indices, data)
            return canonical(one, lambda _, index: f"{owner}, the sum of all that is feature {index},")[1:]


def looked_up(row: Any, known: dict[str, int]) -> tuple[Indices, Floats] | None:
    """Return indices and values of a row; None if it has a new name, a text, or a bad value."""
    try:
        return packed_entries(row, row.values(), known)
    except Exception:
        return None


def looked_up_with_text(row: Any, known: dict[str, int]) -> tuple[Indices, Floats] | None:
    """Return indices and values of a row with text; None if it has none, a new name or a bad value."""
    try:
        joined = join_text(row)
        return None if joined is None else packed_entries(*joined, known)
    except Exception:
        return None


def packed_entries(names: Any, values: Any, known: dict[str, int]) -> tuple[Indices, Floats] | None:
    """Return indices and values of a row given by its names and numbers; None if a value is out of range."""
    n = len(values)
    indices, data = np.empty(n, np.int32), np.empty(n)
    pack_indices, pack_data = packers(n)
    pack_indices(indices, 0, *map(known.__getitem__, names))
    pack_data(data, 0, *values)
    return arranged(indices, data)


def join_text(row: dict[Any, Any]) -> tuple[list[Any], list[Any]] | None:
    """Return names and values of a dict with every text value joined to its name, in the same order.

    None if there is no text, or its key is neither str nor int. Almost all time is spent in C: most values are numbers.

    >>> join_text({"age": 30.0, "color": "red"})
    (['age', 'color=red'], [30.0, 1.0])
    """
    names, values, k = list(row), list(row.values()), -1
    kinds = list(map(type, values))
    text_values = kinds.count(str)
    for _ in range(text_values):
        k = kinds.index(str, k + 1)
        if type(names[k]) not in NAME_TYPES:
            return None
        names[k], values[k] = f"{names[k]}={values[k]}", 1.0
    return (names, values) if text_values else None


@functools.cache
def packers(n: int) -> tuple[Any, Any]:
    """Return functions that write n integers, and n floats, into an array, and convert nothing else."""
    return struct.Struct(f"{n}i").pack_into, struct.Struct(f"{n}d").pack_into


def arranged(indices: Indices, data: Floats) -> tuple[Indices, Floats] | None:
    """Return one row in canonical form; None if a value is out of range."""
    n = loops().arrange(indices, data, SMALLEST, LARGEST)
    if n < 0:
        return None
    return (indices, data) if n == len(data) else (indices[:n], data[:n])


def checked_entry(owner: str, key: Any, value: Any) -> tuple[str | int, float]:
    """Return the checked name and value of a feature."""
    name: str | int = key if type(key) is str or type(key) is int else check_name(owner, key)
    if isinstance(value, str):
        return f"{name}={value}", 1.0
    number = value if type(value) is float else check_value(owner, name, value)
    if not (number == 0.0 or SMALLEST <= abs(number) <= LARGEST):
        refuse_value(feature(owner, name), number)
    return name, number


def feature(owner: str, name: str | int) -> str:
    """Return the name of a feature of the row `owner` for error messages."""
    return f"x[{name!r}]" if owner == "x" else f"{owner[:-1]}, {name!r}]"


def check_name(owner: str, key: Any) -> str | int:
    """Return a key as a plain str or int."""
    if isinstance(key, str):
        return str(key)
    if isinstance(key, numbers.Integral) and not isinstance(key, bool):
        return int(key)
    raise TypeError(f"{owner} has the key {key!r}: keys must be str or int")


def check_value(owner: str, name: str | int, value: Any) -> float:
    """Return a value as a float, infinite if it is beyond the largest one."""
    if value is None or type(value).__name__ == "NAType":
        raise ValueError(f"{feature(owner, name)} is missing")
    try:
        return math.fsum([value])  # float() would read bytes
    except TypeError:
        message = f"{feature(owner, name)} must be a number or a str, got {type(value).__name__}"
        raise TypeError(message) from None
    except OverflowError:
        return math.inf if value > 0 else -math.inf


class Vocabulary(Encoder):
    """Number features in the order in which their names first appear with a value other than 0.

    >>> vocabulary = Vocabulary()
    >>> vocabulary.encode([{"age": 30, "color": "red"}, {"color": "blue", "size": 0}]).indices
    array([0, 1, 2], dtype=int32)
    >>> vocabulary.names
    ['age', 'color=red', 'color=blue']
    >>> vocabulary.encode_one({"color": "red", "age": 31})
    (array([0, 1], dtype=int32), array([31.,  1.]))
    """

    def __init__(self, names: Iterable[str | int] = ()) -> None:
        self._names: list[str | int] = []
        self._known, self._integers = dict[str, int](), dict[int, int]()
        self.find = self._known.__getitem__  # raises for names of products that are no strings yet, too
        #: Numbers names of products by their factors.
        self._products: ProductTable | None = None
        #: The number of features, if some of the last have no strings as names yet.
        self._numbered = 0
        self._lock = threading.Lock()
        for name in names:
            self.number(name)

    @property
    def size(self) -> int:  # type: ignore[override]
        """The number of features."""
        return max(self._numbered, len(self._names))

    @property
    def names(self) -> list[str | int]:
        """The name of every feature."""
        if self._numbered > len(self._names):
            self._write_names()
        return self._names

    @property
    def known(self) -> dict[str, int]:  # type: ignore[override]
        """The numbers of str names."""
        if self._numbered > len(self._names):
            self._write_names()
        return self._known

    def _write_names(self) -> None:
        """Write the names of products as strings."""
        with self._lock:
            start, stop = len(self._names), self._numbered
            if self._products is not None and start < stop:
                new = self._products.strings(start, stop)
                self._known.update(zip(new, range(start, stop), strict=True))
                self._names += new  # last: these names count as written now

    def table(self, name: str | int) -> dict[Any, int]:
        """Return the numbers of names of this type: True and 1.0 equal 1, and must not be found as such."""
        return self.known if isinstance(name, str) else self._integers

    def knows(self, name: str | int) -> bool:
        """Return whether the feature `name` has a number."""
        return name in self.table(name)

    @property
    def tables(self) -> tuple[dict[Any, int], dict[Any, int], list[Any]]:
        """The numbers of str names and of int names, and all names of this vocabulary."""
        return self.known, self._integers, self.names

    def number(self, name: str | int, owner: str = "x") -> int:
        """Return the number of the feature `name`, the next one if it is new."""
        table = self.table(name)
        found = table.get(name)
        if found is None:
            found = len(self.names)
            if found >= MOST_FEATURES:
                raise ValueError(
                    f"{owner} has the new key {name!r}: index overflow, there are {MOST_FEATURES} features"
                )
            plain = str.__str__(name) if isinstance(name, str) else int(name)  # a lookup must not run a subclass's code
            self.names.append(plain)
            table[plain] = found
        return found

    def numbers_of_names(self, names: Sequence[str], grow: bool, unseen: int) -> Any:
        """Return the numbers of many names at once; new ones get the next, or without `grow` the number `unseen`.

        >>> vocabulary = Vocabulary(["b"])
        >>> vocabulary.numbers_of_names(["a", "b"], False, -1), vocabulary.numbers_of_names(["a", "b"], True, -1)
        (array([-1,  0]), array([1, 0]))
        """
        if isinstance(names, ProductNames):
            with self._lock:
                numbers = self._numbers_of_products(names, grow, unseen)
            if numbers is not None:
                return numbers
        found = list(map(self.known.get, names))
        if None not in found:
            return np.array(found, np.int64)
        numbers = np.array([-1 if number is None else number for number in found], np.int64)
        places = np.flatnonzero(numbers < 0)
        if not grow:
            numbers[places] = unseen
            return numbers
        new = [str.__str__(names[i]) for i in places.tolist()]
        distinct = list(dict.fromkeys(new))
        start, room = len(self.names), MOST_FEATURES - len(self.names)
        self._names += distinct[:room]  # before their numbers: `rewind` takes back what is here
        self.known.update(zip(distinct, range(start, start + room), strict=False))
        for name in distinct[room:]:
            self.number(name)  # raises: there is no room
        each_once = len(distinct) == len(new)
        numbers[places] = range(start, start + len(new)) if each_once else [self.known[name] for name in new]
        return numbers

    def _numbers_of_products(self, names: ProductNames, grow: bool, unseen: int) -> Any:
        """Return the numbers of many names without their strings; None if there is no room for that."""
        if self._products is None:
            self._products = ProductTable()
        table, size = self._products, self.size
        table.forget(size)
        if (grow and size + len(names) > MOST_FEATURES) or (table.count < size and not table.enter_texts(self._names)):
            return None
        numbers = table.number(names, grow, unseen)
        self._numbered = table.count
        return numbers

    def mark(self) -> int:
        """Return a token for `rewind`: the number of names."""
        return self.size

    def rewind(self, mark: int) -> None:
        """Remove all names but the first `mark`."""
        self._numbered = min(self._numbered, mark)
        if self._products is not None:
            self._products.forget(mark)
        if len(self._names) > mark:
            for name in self.names[mark:]:
                self.table(name).pop(name, None)  # an interrupt may come between the two lines of `number`
            del self.names[mark:]

    def __repr__(self) -> str:
        return f"<Vocabulary of {self.size} names>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Vocabulary, (self.names,)
