"""What loops over lines share: bytes as arrays, numbers that need Python, places of what is wrong, first lines."""

from __future__ import annotations

from typing import Any

import numpy as np

from fiol.features.byte_words import SPARE
from fiol.features.chunk import LARGEST, SMALLEST
from fiol.readers.batch import BadLineError, Place
from fiol.readers.sources import START_SIZE, Block

#: How many lines decide whether a file may be of a format.
LINES_LOOKED_AT = 20
#: How many bytes of a bad line an error shows.
SHOWN_BYTES = 40
#: What a value out of range should be.
VALUES = f"must be 0 or between {SMALLEST:g} and {LARGEST:g} in size"


def wrapping() -> Any:
    """`with wrapping():` integers may wrap around, of which the interpreter, unlike compiled code, would warn."""
    return np.errstate(over="ignore")


def is_utf8(data: bytearray, start: int, end: int) -> bool:
    """Return whether data[start:end] is text.

    >>> is_utf8(bytearray(b"a\\xff"), 0, 2), is_utf8(bytearray(b"a\\xff"), 0, 1)
    (False, True)
    """
    if not data.isascii():
        try:
            data[start:end].decode()
        except UnicodeDecodeError:
            return False
    return True


class HardNumbers:
    """Numbers of a block that the loop leaves to Python: where they start, and what they are."""

    def __init__(self) -> None:
        self.at, self.values, self.known = np.empty(64, np.uint64), np.empty(64), 0

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What a loop takes."""
        return self.at, self.values, np.uint64(self.known)

    def read(self, block: Block, found: int, ends: bytes) -> bool:
        """Return whether all of the `found` numbers were known; if not, parse those that were noted since."""
        if found <= self.known:
            return True
        there = min(found, len(self.at))
        for k in range(self.known, there):
            self.values[k] = float(token_at(block, int(self.at[k]), ends))
        self.known = there
        if found > there:
            self.at, self.values = np.resize(self.at, 2 * found), np.resize(self.values, 2 * found)
        return False


def token_at(block: Block, position: int, ends: bytes) -> bytes:
    """Return the bytes from a place of a block to the first byte that ends a token, or to the end of the line."""
    end = block.data.find(b"\n", position)
    for c in ends:
        found = block.data.find(c, position, end)
        end = found if found >= 0 else end
    return bytes(block.data[position:end])


def shown_at(block: Block, position: int, ends: bytes) -> str:
    """Return the text at a place, in quotes, for an error message; shortened if it is long."""
    token = token_at(block, position, ends)
    return repr(token[:SHOWN_BYTES].decode("utf-8", "replace")) + ("..." if len(token) > SHOWN_BYTES else "")


class LineCount:
    """Which line of a file a place in a block is in, counted on from the last place that was asked for."""

    def __init__(self, block: Block) -> None:
        self.block, self.place, self.line = block, 0, block.place.line

    def place_at(self, position: int) -> Place:
        """Return the file and line of a place in the block, which is not before the last one."""
        self.line += self.block.data.count(b"\n", self.place, position)
        self.place = position
        return self.block.place._replace(line=self.line)

    def bad(self, position: int, reason: str) -> BadLineError:
        """Return the error of a place in the block; the column is counted in bytes."""
        column = position - self.block.data.rfind(b"\n", 0, position)
        return BadLineError(self.place_at(position), column, reason)


def next_line(block: Block, position: int) -> int:
    """Return where the line after that of this place starts."""
    return block.data.find(b"\n", position) + 1


def text_block(text: bytes, place: Any) -> Block:
    """Text as a block."""
    text = text if text.endswith(b"\n") else text + b"\n"
    return Block(bytearray(text) + bytes(SPARE), len(text), place, len(text))


def first_lines(start: bytes) -> list[bytes]:
    """Return the first lines that are neither empty nor comments; the last only if it is whole.

    >>> first_lines(b"# a comment\\n\\n1 1:2\\n")
    [b'1 1:2']
    """
    whole = len(start) < START_SIZE or start.endswith(b"\n")
    lines = start.split(b"\n", 10 * LINES_LOOKED_AT)
    if len(lines) > 10 * LINES_LOOKED_AT or not whole:
        last = lines.pop()
        if not lines:  # one line, longer than what is looked at: up to its last blank
            lines = [last[: last.rfind(b" ")]]
    lines = [line.strip() for line in lines]
    return [line for line in lines if line and line[:1] != b"#"][:LINES_LOOKED_AT]
