"""Named features: dicts as rows, by a vocabulary that grows or by a hash that does not."""

from __future__ import annotations

import functools
import math
import numbers
import operator
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from fiol.components.row import Floats, Indices
from fiol.intake.chunks import FEATURES, LARGEST, SMALLEST, Chunk, canonical, loops, refuse_value, spot

#: How many hashed names are remembered.
REMEMBERED = 2**18
#: Types of names that need no second look.
NAMES = frozenset((str, int))


class Schema(NamedTuple):
    """The names of rows that are all alike."""

    indices: Indices  #: their numbers, rising
    order: Any  #: how to sort the values in this order; None if they are
    texts: bool  #: whether all names are str: others may equal what is no name, as 1 equals True

    def values_of(self, row: Mapping[Any, Any]) -> tuple[Indices, Floats] | None:
        """Indices and values; None if a value is not a number."""
        n = self.indices.shape[0]
        data = np.empty(n)
        try:
            packers(n)[1](data, 0, *row.values())
        except Exception:
            return None
        return self.indices, data if self.order is None else data[self.order]


def learned_schema(names: tuple[Any, ...], find: Callable[[Any], int]) -> Schema | None:
    """What is known of names; None if one of them is new, or two are the same feature."""
    try:
        indices = np.array([find(name) for name in names], np.int32)
    except (KeyError, TypeError):
        return None
    order = indices.argsort(kind="stable")
    rising = bool((indices[1:] > indices[:-1]).all())
    indices, texts = indices[order], all(isinstance(name, str) for name in names)
    return Schema(indices, None if rising else order, texts) if (indices[1:] > indices[:-1]).all() else None


class Encoder:
    """Dicts as rows: a key is the name of a feature, str or int, and its value a number.

    A text as value is part of the name: {"color": "red"} is {"color=red": 1}. Zeros are left out.
    """

    #: How many features there are.
    size: int
    #: The numbers of names that are str.
    known: dict[str, int]
    #: The names of the row before, and what is known of them once they have come twice in a row.
    last: tuple[Any, ...] = ()
    schema: Schema | None = None

    def number(self, name: str | int, owner: str = "x") -> int:
        """The number of the feature `name`; errors say that `owner` has it."""
        raise NotImplementedError

    def knows(self, name: str | int) -> bool:
        """Whether the feature `name` has a number already."""
        return True

    def find(self, name: Any) -> int:
        """The number of the feature `name`; KeyError if it has none yet, or `name` is none."""
        raise NotImplementedError

    def forget(self, size: int) -> None:
        """Take back all names but the first `size`."""

    def again(self, row: Mapping[Any, Any]) -> tuple[Indices, Floats] | None:
        """Indices and values of a row with the same names as the rows before it, fast; None if it has others.

        The values have not been looked at: they may be 0 or out of range.
        """
        names = tuple(row)
        if names != self.last:
            self.last, self.schema = names, None
            return None
        if self.schema is None:
            self.schema = learned_schema(names, self.find)
        if self.schema is None or not (self.schema.texts or NAMES.issuperset(map(type, names))):
            return None
        return self.schema.values_of(row)

    def encode(self, rows: Iterable[Mapping[Any, Any]], grow: bool = True) -> Chunk:
        """The rows as a chunk. If one of them is wrong, or `rows` raises, it is as if there had been no call.

        `grow=False` leaves out features that have no number yet.
        """
        if isinstance(rows, Mapping):
            raise TypeError("rows must be an iterable of dicts: for a single one use encode_one")
        size, found = self.size, list[tuple[Indices, Floats]]()
        try:
            for row in rows:
                found.append(self.encode_one(row, len(found), grow))
        except BaseException as error:
            self.forget(size)
            if hasattr(error, "add_note") and not str(error).startswith("X["):
                error.add_note(f"in row {len(found)}")
            raise
        indptr = np.zeros(len(found) + 1, np.int64)
        np.cumsum([indices.shape[0] for indices, _ in found], out=indptr[1:])
        found.append((np.empty(0, np.int32), np.empty(0)))  # nothing cannot be joined
        indices, data = zip(*found, strict=True)
        return Chunk(indptr, np.concatenate(indices), np.concatenate(data))

    def encode_one(
        self, row: Mapping[Any, Any], number: int | None = None, grow: bool = True
    ) -> tuple[Indices, Floats]:
        """Indices, which rise, and values of one row; errors say that it is row `number`."""
        done = looked_up(row, self.known) or looked_up(named_texts(row), self.known)
        return done or self.encode_carefully(row, number, grow)

    def encode_carefully(self, row: Mapping[Any, Any], number: int | None, grow: bool) -> tuple[Indices, Floats]:
        """The same for any row, name by name."""
        owner = "x" if number is None else f"X[{number}]"
        if not isinstance(row, Mapping):
            raise TypeError(f"{owner} must be a dict, got {type(row).__name__}")
        entries = [entry(owner, key, value) for key, value in row.items()]
        entries = [(name, value) for name, value in entries if value != 0.0 and (grow or self.knows(name))]
        size = self.size
        try:
            indices = np.array([self.number(name, owner) for name, _ in entries], np.int32)
            data = np.array([value for _, value in entries], np.float64)
            done = arranged(indices.copy(), data.copy())
            if done is not None:
                return done
            one = Chunk(np.array([0, len(entries)]), indices, data)
            return canonical(one, lambda _, index: f"{owner}, the sum of all that is feature {index},")[1:]
        except BaseException:
            self.forget(size)
            raise


def looked_up(row: Any, known: dict[str, int]) -> tuple[Indices, Floats] | None:
    """Indices and values of a row, fast; None if it has a new name, a text, or something wrong."""
    try:
        n = len(row)
        indices, data = np.empty(n, np.int32), np.empty(n)
        pack_indices, pack_data = packers(n)
        pack_indices(indices, 0, *map(known.__getitem__, row))
        pack_data(data, 0, *row.values())
    except Exception:
        return None
    return arranged(indices, data)


def named_texts(row: Any) -> dict[Any, Any] | None:
    """A row with its texts as names; None if it has none, or that may not be the same row."""
    if type(row) is not dict:
        return None
    texts = {f"{key}={value}": 1.0 for key, value in row.items() if type(value) is str and type(key) is str}
    if not texts:
        return None
    both = texts | {key: value for key, value in row.items() if type(value) is not str}
    return both if len(both) == len(row) else None


@functools.cache
def packers(n: int) -> tuple[Any, Any]:
    """How to write n integers, and n floats but nothing that is merely convertible to them, into an array."""
    return struct.Struct(f"{n}i").pack_into, struct.Struct(f"{n}d").pack_into


def arranged(indices: Indices, data: Floats) -> tuple[Indices, Floats] | None:
    """One row in canonical form; None if a value is out of range."""
    n = loops().arrange(indices, data, SMALLEST, LARGEST)
    if n < 0:
        return None
    return (indices, data) if n == len(data) else (indices[:n], data[:n])


def entry(owner: str, key: Any, value: Any) -> tuple[str | int, float]:
    """Name and value of a feature, checked."""
    name: str | int = key if type(key) is str or type(key) is int else check_name(owner, key)
    if isinstance(value, str):
        return f"{name}={value}", 1.0
    number = value if type(value) is float else check_value(owner, name, value)
    if not (number == 0.0 or SMALLEST <= abs(number) <= LARGEST):
        refuse_value(feature(owner, name), number)
    return name, number


def feature(owner: str, name: str | int) -> str:
    """How an error calls a feature of the row `owner`."""
    return f"x[{name!r}]" if owner == "x" else f"{owner[:-1]}, {name!r}]"


def check_name(owner: str, key: Any) -> str | int:
    """A key as a plain str or int."""
    if isinstance(key, str):
        return str(key)
    if isinstance(key, numbers.Integral) and not isinstance(key, bool):
        return int(key)
    raise TypeError(f"{owner} has the key {key!r}: keys must be str or int")


def check_value(owner: str, name: str | int, value: Any) -> float:
    """A value as a float, infinite if it is beyond the largest one."""
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
    """Features numbered in the order in which their names first appear with a value that is not 0.

    >>> words = Vocabulary()
    >>> words.encode([{"age": 30, "color": "red"}, {"color": "blue", "size": 0}]).indices
    array([0, 1, 2], dtype=int32)
    >>> words.names
    ['age', 'color=red', 'color=blue']
    >>> words.encode_one({"color": "red", "age": 31})
    (array([0, 1], dtype=int32), array([31.,  1.]))
    """

    def __init__(self, names: Iterable[str | int] = ()) -> None:
        #: The name of every number.
        self.names: list[str | int] = []
        self.known, self._integers = {}, dict[int, int]()
        for name in names:
            self.number(name)

    @property
    def size(self) -> int:  # type: ignore[override]
        """How many features there are."""
        return len(self.names)

    def table(self, name: str | int) -> dict[Any, int]:
        """The numbers of names of this kind. True and 1.0, which equal 1, must not find it in the other one."""
        return self.known if isinstance(name, str) else self._integers

    def knows(self, name: str | int) -> bool:
        """Whether the feature `name` has a number already."""
        return name in self.table(name)

    def find(self, name: Any) -> int:
        """The number of the feature `name`; KeyError if it has none yet, or `name` is none."""
        if type(name) not in NAMES:
            raise KeyError(name)
        return self.table(name)[name]

    def number(self, name: str | int, owner: str = "x") -> int:
        """The number of the feature `name`, the next one if it is new."""
        table = self.table(name)
        found = table.get(name)
        if found is None:
            found = len(self.names)
            if found >= FEATURES:
                raise ValueError(f"{owner} has the new key {name!r}: index overflow, there are {FEATURES} features")
            self.names.append(name)
            table[name] = found
        return found

    def forget(self, size: int) -> None:
        """Take back all names but the first `size`."""
        self.last, self.schema = (), None
        for name in self.names[size:]:
            del self.table(name)[name]
        del self.names[size:]

    def __repr__(self) -> str:
        return f"<Vocabulary of {self.size} names>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Vocabulary, (self.names,)


class Hashing(Encoder):
    """Features numbered by a hash of their names, from 0 to 2**bits - 1; those that share a number add up.

    The hash is the CRC-32 of the name in UTF-8, finished as murmur3 finishes, modulo 2**bits; an integer is its own
    number modulo 2**bits. (2**31 - 1, the most features there are, stands for 2**31.)

    >>> Hashing(18).encode_one({"age": 30, 7: 1.0})
    (array([     7, 186462], dtype=int32), array([ 1., 30.]))
    >>> from fiol.intake.chunks import to_chunk
    >>> Hashing(2).fold(to_chunk([[1.0, 2.0, 0.0, 0.0, 5.0]]))
    Chunk(indptr=array([0, 2]), indices=array([0, 1], dtype=int32), data=array([6., 2.]))
    """

    def __init__(self, bits: int) -> None:
        try:
            self.bits = operator.index(bits)
        except TypeError:
            raise TypeError(f"bits must be an integer, got {bits!r}") from None
        if not 1 <= self.bits <= 31:
            raise ValueError(f"bits must be from 1 to 31, got {bits}")
        self.size = min(2**self.bits, FEATURES)
        self.known = Remembered(self.size)

    def number(self, name: str | int, owner: str = "x") -> int:
        """The number of the feature `name`."""
        if isinstance(name, str):
            return self.known[name]
        if name < 0:
            raise ValueError(f"{owner} has the key {name}: an index is at least 0")
        return name % self.size

    def find(self, name: Any) -> int:
        """The number of the feature `name`; KeyError if `name` is none."""
        if type(name) not in NAMES or (type(name) is int and name < 0):
            raise KeyError(name)
        return self.number(name)

    def fold(self, chunk: Chunk) -> Chunk:
        """The chunk with every index modulo 2**bits."""
        if not chunk.indices.size or chunk.indices.max() < self.size:
            return chunk
        return canonical(chunk._replace(indices=chunk.indices % np.int32(self.size)), spot)

    def __repr__(self) -> str:
        return f"Hashing({self.bits})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hashing) and self.bits == other.bits

    def __hash__(self) -> int:
        return hash((Hashing, self.bits))

    def __reduce__(self) -> tuple[Any, ...]:
        return Hashing, (self.bits,)


class Remembered(dict[str, int]):
    """Hashes of names, computed when they are looked up and kept for a while."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __missing__(self, name: str) -> int:
        if len(self) >= REMEMBERED:
            self.clear()
        number = self[name] = finish(zlib.crc32(name.encode("utf-8", "surrogatepass"))) % self.size
        return number


def finish(h: int) -> int:
    """The last steps of murmur3 with 32 bits: every bit of `h` reaches every bit of the result.

    >>> hex(finish(1))
    '0x514e28b7'
    """
    h = ((h ^ (h >> 16)) * 0x85EBCA6B) & 0xFFFFFFFF
    h = ((h ^ (h >> 13)) * 0xC2B2AE35) & 0xFFFFFFFF
    return h ^ (h >> 16)
