"""The svmlight format, also called libsvm: `target feature:value feature:value ... # comment`, a row a line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from fiol.components.row import Floats
from fiol.features.byte_words import bytes_and_words
from fiol.features.chunk import LARGEST, MOST_FEATURES, SMALLEST, Chunk
from fiol.readers.bad_lines import BadLines
from fiol.readers.batch import Batch
from fiol.readers.formats import Format, is_true_or_false
from fiol.readers.line_blocks import (
    VALUES,
    HardNumbers,
    LineCount,
    first_lines,
    next_line,
    shown_at,
)
from fiol.readers.loops import codes
from fiol.readers.sources import BLOCK_SIZE, START_SIZE, Block, Sources

if TYPE_CHECKING:
    from fiol.readers.reader_config import ReaderConfig

#: What ends a token.
BLANKS = b" \t\r\n#"
NUMBER = rb"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
#: A line of the format.
SVMLIGHT_LINE = re.compile(rb"%s(?:[ \t]+(?:qid:-?\d+|\d+:%s))*[ \t]*(?:#.*)?" % (NUMBER, NUMBER))
#: A feature that is number 0, in text without comments.
FEATURE_ZERO = re.compile(rb"[ \t]0+:")


class Svmlight(Format):
    """Lines of svmlight: a target, then features with their values, in any order; values of one feature add up.

    Features are numbered from 1 as a rule, so that the first is feature 0 of the model, as
    `sklearn.datasets.load_svmlight_file` has it. They are numbered from 0 with the option `zero_based=True`, and
    without that option if a feature 0 is among the first 2^20 bytes of text; a feature 0 later on is an error.
    What follows a # is left out, and so are `qid:` with its number, and empty lines. Numbers are decimal and finite.
    """

    extensions = (".svm", ".svmlight", ".libsvm", ".libfm")
    options: Mapping[str, Any] = {"zero_based": None}
    must_be: Mapping[str, tuple[str, Callable[[Any], bool]]] = {"zero_based": ("true or false", is_true_or_false)}
    has_groups = False

    def recognizes(self, start: bytes) -> bool:
        """Return whether the first lines are svmlight, and one of them has a feature."""
        lines = first_lines(start)
        return all(map(SVMLIGHT_LINE.fullmatch, lines)) and any(b":" in line.partition(b"#")[0] for line in lines)

    def infer(self, start: bytes, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Infer whether features are numbered from 0."""
        return {"options": {"zero_based": has_feature_zero(start)}}

    def batches(self, config: ReaderConfig, sources: Sources, bad: BadLines) -> Iterator[Batch]:
        """Yield the rows of every block of text."""
        zero_based = config.option("zero_based")
        if zero_based is None:
            zero_based = has_feature_zero(sources.start(START_SIZE)[0])
        parse = SvmlightLines(bool(zero_based))
        for block in sources.blocks():
            chunk, y = parse(block, bad)
            if chunk.rows:
                line = partial(line_in_block, block, chunk.rows)
                yield Batch(chunk, y, None, None, block.place, chunk.rows, block.read, line)


def line_in_block(block: Block, rows: int, row: int) -> int | None:
    """Return the line of a row; None if some lines of the block are no rows."""
    return block.place.line + row if block.data.count(b"\n", 0, block.size) == rows else None


def has_feature_zero(start: bytes) -> bool:
    """Return whether a feature is number 0 in text that may be cut off.

    >>> has_feature_zero(b"1 10:2 # 0:\\n"), has_feature_zero(b"1 0:2\\n")
    (False, True)
    """
    if b" 0" not in start and b"\t0" not in start:  # a tenth of the time
        return False
    return FEATURE_ZERO.search(re.sub(rb"#[^\n]*", b"", start)) is not None


class SvmlightLines:
    """From blocks of svmlight to rows, with arrays that are used again for the next one."""

    def __init__(self, zero_based: bool) -> None:
        self.base, self.size = np.uint64(0 if zero_based else 1), -1

    def make_room(self, size: int) -> None:
        """Allocate arrays for all that could be in this many bytes: a row takes 2 of them, an entry 4."""
        if size > self.size:
            self.size = size = max(size, BLOCK_SIZE)
            self.y, self.indptr = np.empty(size // 2 + 1), np.empty(size // 2 + 2, np.int64)
            self.indptr[0] = 0
            self.indices, self.data = np.empty(size // 4 + 1, np.int32), np.empty(size // 4 + 1)

    def __call__(self, block: Block, bad: BadLines) -> tuple[Chunk, Floats]:
        """Return the rows and targets of a block; report unreadable lines by `bad.note`."""
        self.make_room(block.size)
        from fiol.readers.loops.svmlight_rows import svmlight_rows  # here: what only looks at files loads no compiler

        text = bytes_and_words(block.data)
        room = (self.y, self.indptr, self.indices, self.data)
        end, place, row, n = np.uint64(block.size), 0, 0, 0
        hard, count = HardNumbers(), LineCount(block)
        while place < block.size:
            start = np.uint64(place), end, self.base, np.uint64(row), np.uint64(n)
            found = svmlight_rows(*text, *start, *room, *hard.arguments, SMALLEST, LARGEST)
            code, stop, rows, entries, hards = map(int, found)
            if not hard.read(block, hards, BLANKS):
                continue
            place, row, n = stop, rows, entries
            if code != codes.DONE:
                bad.note(count.bad(stop, self.reason(code, block, stop)))
                place, hard = next_line(block, stop), HardNumbers()
        chunk = Chunk(self.indptr[: row + 1].copy(), self.indices[:n].copy(), self.data[:n].copy())
        return chunk, self.y[:row].copy()

    def reason(self, code: int, block: Block, place: int) -> str:
        """Why the line with this place cannot be read."""
        token = shown_at(block, place, BLANKS)
        return {
            codes.NO_LABEL: f"{token} is no finite number, which a line starts with: its target",
            codes.NO_INDEX: f"{token} is not a feature number, a colon and a value",
            codes.NO_VALUE: f"{token} is no finite number",
            codes.ZERO_INDEX: f"{token} is feature 0, but features are numbered from 1: zero_based=True counts from 0",
            codes.LARGE_INDEX: f"{token} is beyond the largest feature number there is, {MOST_FEATURES - 1}",
            codes.OUT_OF_RANGE: f"{token} is a value that {VALUES}",
        }[code]
