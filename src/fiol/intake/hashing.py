"""Named features without a memory: dicts as rows, features numbered by a hash of their names."""

from __future__ import annotations

import operator
import zlib
from typing import Any

import numpy as np

from fiol.intake.chunk import MOST_FEATURES, Chunk, canonical, spot
from fiol.intake.vocabulary import Encoder

#: How many hashed names are remembered.
REMEMBERED = 2**18


class Hashing(Encoder):
    """Features numbered by a hash of their names, from 0 to 2**bits - 1; those that share a number add up.

    The hash is the CRC-32 of the name in UTF-8, finished as murmur3 finishes, modulo 2**bits; an integer is its own
    number modulo 2**bits. (2**31 - 1, the most features there are, stands for 2**31.)

    >>> Hashing(18).encode_one({"age": 30, 7: 1.0})
    (array([     7, 186462], dtype=int32), array([ 1., 30.]))
    >>> from fiol import to_chunk
    >>> Hashing(2).fold(to_chunk([[1.0, 2.0, 0.0, 0.0, 5.0]]))
    Chunk(indptr=array([0, 2]), indices=array([0, 1], dtype=int32), data=array([6., 2.]))
    """

    def __init__(self, bits: int) -> None:
        self.bits = integer("bits", bits)
        if not 1 <= self.bits <= 31:
            raise ValueError(f"bits must be from 1 to 31, got {bits}")
        self.size = min(2**self.bits, MOST_FEATURES)
        self.known = Remembered(self.size)

    def number(self, name: str | int, owner: str = "x") -> int:
        """The number of the feature `name`."""
        if isinstance(name, str):
            return self.known[name]
        if name < 0:
            raise ValueError(f"{owner} has the key {name}: an index is at least 0")
        return name % self.size

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


def integer(name: str, value: Any) -> int:
    """An integer, which True and False are not.

    >>> integer("bits", True)
    Traceback (most recent call last):
    TypeError: bits must be an integer, got True
    """
    try:
        if not isinstance(value, (bool, np.bool_)):
            return operator.index(value)
    except TypeError:
        pass
    raise TypeError(f"{name} must be an integer, got {value!r}")


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
