"""Bytes as the compiled loops read them: one by one, and eight at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

#: Zeros behind text, which may be read.
SPARE = 16


def bytes_and_words(data: bytearray) -> tuple[Any, Any]:
    """Return the bytes of a text, and for every place the 8 bytes from it on as one integer, the first the lowest."""
    return np.frombuffer(data, np.uint8), np.ndarray((len(data) - 7,), "<u8", data, 0, (1,))


def joined_words(names: Sequence[bytes]) -> tuple[Any, Any]:
    """Return names one behind the other, as words, and where each starts; the last number is where all end.

    >>> words, ends = joined_words([b"age", b"city"])
    >>> ends.tolist(), int(words[0]).to_bytes(8, "little")
    ([0, 3, 7], b'agecity\\x00')
    """
    ends = np.zeros(len(names) + 1, np.int64)
    np.cumsum([len(name) for name in names], out=ends[1:])
    return bytes_and_words(bytearray(b"".join(names)) + bytearray(SPARE))[1], ends
