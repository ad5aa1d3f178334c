"""The names that a compiled loop has found, as arrays that it takes: see `fiol.readers.loops.names`."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from fiol.features.byte_words import SPARE, bytes_and_words

#: As few slots as there are to begin with.
FEW_SLOTS = 2**12


class NameTable:
    """Slots, names and their text, with room for a number of names and of bytes."""

    def __init__(self, names: int, size: int, slots: int | None = None) -> None:
        self.fewest, self.names = slots or FEW_SLOTS, 0
        self.make_room(names, size)

    def make_room(self, names: int, size: int) -> None:
        """Allocate room for this many names; forget those that are there."""
        self.room = names, size
        self.slots = np.zeros((max(self.fewest, 1 << (2 * names - 1).bit_length()), 2), np.uint64)
        self.about, self.text = np.zeros((names + 1, 5), np.uint64), bytearray(size + SPARE)
        self.mask = self.fewest - 1
        self.start()

    def start(self) -> None:
        """Begin without names, with as many slots as at last, fewer if those were far too many."""
        while self.mask >= self.fewest and 8 * self.names < self.mask:
            self.mask //= 2
        self.slots[: self.mask + 1, 1] = 0
        self.names = 0

    @property
    def arrays(self) -> tuple[Any, ...]:
        """As the loops take them."""
        return (self.slots, self.about, *bytes_and_words(self.text))

    def strings(self, names: int) -> list[str]:
        """Return the first names."""
        whole = self.text[: int(self.about[names, 0])]
        found = whole.decode().split("\n")[:-1]
        if len(found) == names:
            return found
        places = pairwise(self.about[: names + 1, 0].tolist())  # some have line ends inside
        return [whole[start : end - 1].decode() for start, end in places]
