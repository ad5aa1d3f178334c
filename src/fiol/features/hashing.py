"""Number named features by a hash of their names, without storing the names."""

from __future__ import annotations

import functools
import operator
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from fiol.features.byte_words import joined_words
from fiol.features.chunk import MOST_FEATURES, Chunk, canonical, spot
from fiol.features.product_names import FactorHashes, ProductNames
from fiol.features.vocabulary import Encoder

#: Size of the cache of hashes.
CACHE_SIZE = 2**18
#: Names of hashes: of new models, and of older files.
MURMUR3, CRC32 = "murmur3", "crc32"


class Hashing(Encoder):
    """Number features by a hash of their names, from 0 to 2**bits - 1; values of features that share a number add up.

    The hash is murmur3 of the name in UTF-8, with 32 bits and seed 0, modulo 2**bits; an integer is its own number
    modulo 2**bits. (For 31 bits, 2**31 - 1 replaces 2**31.) Model files without the name of a hash use "crc32": the
    CRC-32 of the name, with the last steps of murmur3.

    >>> Hashing(18).encode_one({"age": 30, 7: 1.0})
    (array([     7, 165201], dtype=int32), array([ 1., 30.]))
    >>> from fiol import to_chunk
    >>> Hashing(2).fold(to_chunk([[1.0, 2.0, 0.0, 0.0, 5.0]]))
    Chunk(indptr=array([0, 2]), indices=array([0, 1], dtype=int32), data=array([6., 2.]))
    """

    def __init__(self, bits: int, function: str = MURMUR3) -> None:
        self.bits, self.function = integer("bits", bits), function
        if function not in FUNCTIONS:
            raise ValueError(f"the hash must be one of {', '.join(FUNCTIONS)}, got {function!r}")
        if not 1 <= self.bits <= 31:
            raise ValueError(f"bits must be from 1 to 31, got {bits}")
        self.size = min(2**self.bits, MOST_FEATURES)
        self.known = HashCache(self.size, FUNCTIONS[function])
        self.find = self.known.__getitem__

    def number(self, name: str | int, owner: str = "x") -> int:
        """Return the number of the feature `name`."""
        if isinstance(name, str):
            return self.known[name]
        if name < 0:
            raise ValueError(f"{owner} has the key {name}: an index is at least 0")
        return name % self.size

    def numbers_of_names(self, names: Sequence[str], grow: bool, unseen: int) -> Any:
        """Return the numbers of many names at once.

        >>> Hashing(18).numbers_of_names(["age", "color=red"], True, -1)
        array([165201, 167982])
        """
        if isinstance(names, ProductNames) and self.function == MURMUR3:
            return FactorHashes(names.names).of_products(names.factors, self.size).astype(np.int64)
        data = [name.encode("utf-8", "surrogatepass") for name in names]
        if self.function == MURMUR3:
            return murmur3_hashes(data, self.size)
        return np.array([FUNCTIONS[self.function](name) % self.size for name in data], np.int64)

    def fold(self, chunk: Chunk) -> Chunk:
        """Return the chunk with every index modulo 2**bits."""
        if not chunk.indices.size or chunk.indices.max() < self.size:
            return chunk
        return canonical(chunk._replace(indices=chunk.indices % np.int32(self.size)), spot)

    def __repr__(self) -> str:
        return f"Hashing({self.bits})" if self.function == MURMUR3 else f"Hashing({self.bits}, {self.function!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hashing) and (self.bits, self.function) == (other.bits, other.function)

    def __hash__(self) -> int:
        return hash((Hashing, self.bits, self.function))

    def __reduce__(self) -> tuple[Any, ...]:
        return Hashing, (self.bits, self.function)


def integer(name: str, value: Any) -> int:
    """Return an integer; raise TypeError for anything else, also for a bool.

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


class HashCache(dict[str, int]):
    """Cache of hashes by name; it is cleared when it is full."""

    def __init__(self, size: int, function: Any) -> None:
        self.size, self.function = size, function

    def __missing__(self, name: str) -> int:
        if len(self) >= CACHE_SIZE:
            self.clear()
        number = self[name] = self.function(name.encode("utf-8", "surrogatepass")) % self.size
        return number


@functools.cache
def hash_loops() -> Any:
    """Return the module of compiled loops."""
    from fiol.features import murmur  # imported here: `import fiol` loads no compiler

    return murmur


def murmur3_hashes(names: Sequence[bytes], modulus: int) -> Any:
    """Return the 32-bit murmur3 hashes of names, with seed 0, modulo `modulus`."""
    numbers = np.empty(len(names), np.int64)
    with np.errstate(over="ignore"):  # the interpreter warns where integers wrap around
        hash_loops().hash_names(*joined_words(names), modulus, numbers)
    return numbers


def murmur3(data: bytes) -> int:
    """Return the 32-bit murmur3 hash with seed 0.

    >>> murmur3(b"hello"), murmur3(b"")
    (613153351, 0)
    """
    return int(murmur3_hashes([data], 2**32)[0])


def finished_crc(data: bytes) -> int:
    """Return the CRC-32 after the last steps of murmur3, so that every bit depends on every bit.

    >>> finished_crc(b"age") % 2**18
    186462
    """
    with np.errstate(over="ignore"):
        return int(plain_finish()(np.uint64(zlib.crc32(data)), np.uint64(0), np.uint64(0)))


@functools.cache
def plain_finish() -> Any:
    """Return the last steps of murmur3 as a plain function."""
    from fiol.compiler.compiled import interpreted  # imported here: `import fiol` loads no compiler

    return interpreted(hash_loops().finished)


#: Hash functions of bytes, by name.
FUNCTIONS = {MURMUR3: murmur3, CRC32: finished_crc}
