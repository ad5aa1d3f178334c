"""Names of products by their factors, which become text when they are read.

`ProductNames` are those of some rows. `ProductTable` numbers them for the vocabulary of a model.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np

from fiol.features.byte_words import joined_words

#: Joins the names of features that are multiplied.
TIMES = "*"
#: The most factors of a product, and the bits for each in a key; 0 stands for a factor that is not there.
MOST_FACTORS, FACTOR_BITS = 3, 21
#: The most names of factors that a `ProductTable` has keys for.
MOST_FACTOR_NAMES = 2**FACTOR_BITS - 1
#: As few slots as there are to begin with, a power of two.
FEWEST_SLOTS = 2**12


class ProductNames(Sequence[str]):
    """The names of features by their factors: name i joins the factors `factors[i]` by `*`.

    Parameters
    ----------
    names : names of factors, without a star.
    factors : up to three factors of each feature, -1 for none; no two features have the same.

    >>> names = ProductNames(["a", "b"], np.array([[0, -1, -1], [0, 1, -1], [0, 1, 1]], np.int32))
    >>> list(names), names[1], names[1:], len(names)
    (['a', 'a*b', 'a*b*b'], 'a*b', ['a*b', 'a*b*b'], 3)
    """

    def __init__(self, names: Sequence[str], factors: Any) -> None:
        self.names, self.factors = names, factors

    def __len__(self) -> int:
        return len(self.factors)

    @overload
    def __getitem__(self, place: int) -> str: ...

    @overload
    def __getitem__(self, place: slice) -> list[str]: ...

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return texts_of_factors(self.names, self.factors[place])
        return texts_of_factors(self.names, self.factors[place][None])[0]

    def __iter__(self) -> Iterator[str]:
        return iter(self[:])

    def __eq__(self, other: object) -> bool:
        return self[:] == other[:] if isinstance(other, (list, ProductNames)) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self[:])

    def take(self, order: Any) -> ProductNames:
        """Return the names with these numbers, in this order."""
        return ProductNames(self.names, self.factors[order])


def texts_of_factors(names: Sequence[str], factors: Any) -> list[str]:
    """Return the names of features by their factors, -1 for none."""
    after = ["", *(f"{TIMES}{name}" for name in names)]  # nothing for a factor that is not there
    a, b, c = (factors[:, k].tolist() for k in range(MOST_FACTORS))
    return [f"{names[i]}{after[j + 1]}{after[k + 1]}" for i, j, k in zip(a, b, c, strict=True)]


class FactorHashes:
    """The hashes of names, from which those of their products go on."""

    def __init__(self, names: Sequence[str]) -> None:
        encoded = [name.encode("utf-8", "surrogatepass") for name in names]
        words, ends = joined_words(encoded)
        sizes = np.diff(ends)
        #: The bytes of all names as words, where those of each start, and their number.
        self.words = words, ends[:-1], sizes
        #: Of every name its hash, and what the name and a star leave of a hash that goes on.
        self.hashes = (*(np.empty(len(sizes), np.uint64) for _ in range(3)), np.empty(len(sizes), np.int64))
        with np.errstate(over="ignore"):
            product_loops().hash_names_and_stars(*self.words, *self.hashes)

    def of_products(self, factors: Any, modulus: int) -> Any:
        """Return murmur3 of the names of products, modulo `modulus`.

        >>> from fiol.features.hashing import Hashing
        >>> hashes = FactorHashes(["a", "b"]).of_products(np.array([[0, -1, -1], [0, 1, -1]], np.int32), 2**18)
        >>> hashes.tolist() == [Hashing(18).number(name) for name in ("a", "a*b")]
        True
        """
        indices = np.empty(len(factors), np.int32)
        with np.errstate(over="ignore"):  # the interpreter warns where integers wrap around
            product_loops().hash_factors(factors, *self.words, *self.hashes, modulus, indices)
        return indices


class ProductTable:
    """The numbers of features by their factors, found in compiled code.

    A name is split at its stars. Each feature of up to three factors has a key, which holds the numbers of these; names
    of more factors, and names that are integers, have the key 0 and are not found here.
    """

    def __init__(self) -> None:
        #: The names of factors, and their numbers from 1.
        self.names, self.known = list[str](), dict[str, int]()
        #: The keys of features, and how many features have been entered.
        self.keys, self.count = np.zeros(FEWEST_SLOTS // 2, np.uint64), 0
        #: Pairs of a key and a number from 1, by the hash of the key; None if they have to be entered again.
        self.slots: Any = None
        #: The names that were numbered last, and their numbers.
        self.last: tuple[Any, Any] = (None, None)

    def numbers_of_factors(self, names: Sequence[str]) -> Any:
        """Return the numbers of names of factors, new ones added; None if there are too many."""
        if self.last[0] is names:  # as for all batches of a block of text
            return self.last[1]
        if len(self.names) + len(names) > MOST_FACTOR_NAMES:
            return None
        for name in names:
            if name not in self.known:
                self.names.append(name)
                self.known[name] = len(self.names)
        numbers = np.array([0, *map(self.known.__getitem__, names)], np.uint64)
        self.last = names, numbers
        return numbers

    def enter_texts(self, names: Sequence[Any]) -> bool:
        """Enter the features from `count` on, whose names are strings; False if there are too many factors."""
        parts = [name.split(TIMES) if isinstance(name, str) else [] for name in names[self.count :]]
        parts = [some if len(some) <= MOST_FACTORS else [] for some in parts]
        factors = self.numbers_of_factors([name for some in parts for name in some])
        if factors is None:
            return False
        lengths, keys = np.array([len(some) for some in parts], np.int64), np.zeros(len(parts), np.uint64)
        starts = np.cumsum(lengths) - lengths + 1  # the first number is that of no factor
        for k in range(MOST_FACTORS):
            some = lengths > k
            keys[some] |= factors[starts[some] + k] << np.uint64(k * FACTOR_BITS)
        self.make_room(self.count + len(parts))
        self.keys[self.count : self.count + len(parts)] = keys
        self.count, self.slots = self.count + len(parts), None
        return True

    def number(self, names: ProductNames, grow: bool, unseen: int) -> Any:
        """Return the numbers of features; new ones get the next, or without `grow` the number `unseen`.

        Return None if there are too many factors.
        """
        factors = self.numbers_of_factors(names.names)
        if factors is None:
            return None
        self.make_room(self.count + len(names))
        slots = self.make_slots(self.count + len(names))
        numbers = np.empty(len(names), np.int64)
        self.slots = None  # if an interrupt comes, they are entered again
        with np.errstate(over="ignore"):
            count = product_loops().number_keys(
                factors, names.factors, slots, self.keys, self.count, grow, unseen, numbers
            )
        self.count, self.slots = count, slots
        return numbers

    def make_room(self, count: int) -> None:
        """Make room for the keys of this many features."""
        if count > len(self.keys):
            keys = np.zeros(max(count, len(self.keys) + len(self.keys) // 2), np.uint64)
            keys[: self.count] = self.keys[: self.count]
            self.keys = keys

    def make_slots(self, count: int) -> Any:
        """Return slots with all features, and with room for this many."""
        size = FEWEST_SLOTS if self.slots is None else len(self.slots)
        while 3 * size < 4 * count:
            size *= 2
        if self.slots is None or len(self.slots) < size:
            self.slots = np.zeros((size, 2), np.uint64)
            with np.errstate(over="ignore"):
                product_loops().enter_keys(self.keys, self.count, self.slots)
        return self.slots

    def strings(self, start: int, stop: int) -> list[str]:
        """Return the names of some features, all of which have keys."""
        keys, mask = self.keys[start:stop], np.uint64(MOST_FACTOR_NAMES)
        factors = [((keys >> np.uint64(k * FACTOR_BITS)) & mask).astype(np.int64) - 1 for k in range(MOST_FACTORS)]
        return texts_of_factors(self.names, np.stack(factors, axis=1))

    def forget(self, count: int) -> None:
        """Forget all features but the first ones."""
        if self.count > count or self.slots is None:
            self.count, self.slots = min(count, self.count), None


@functools.cache
def product_loops() -> Any:
    """Return the compiled loops."""
    from fiol.features import interaction_loops  # here: `import fiol` loads no compiler

    return interaction_loops
