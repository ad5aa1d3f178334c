"""Vowpal Wabbit's text: `target weight 'tag |namespace:factor feature:value feature ... |namespace ...`, row by row."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from fiol.features.byte_words import bytes_and_words
from fiol.features.chunk import HEAVIEST, LARGEST, SMALLEST, Chunk, canonical, spot
from fiol.features.column_values import BadValueError
from fiol.features.hashing import Hashing
from fiol.features.interactions import Products
from fiol.features.named_rows import NamedRows
from fiol.option_names import option_text
from fiol.readers.bad_lines import BadLines
from fiol.readers.batch import Batch
from fiol.readers.formats import Format
from fiol.readers.line_blocks import (
    VALUES,
    HardNumbers,
    LineCount,
    first_lines,
    next_line,
    shown_at,
    wrapping,
)
from fiol.readers.loops import codes
from fiol.readers.name_table import NameTable
from fiol.readers.namespaces import NamespaceChoice, split_name
from fiol.readers.sources import BLOCK_SIZE, Block, Sources
from fiol.readers.svmlight import NUMBER

if TYPE_CHECKING:
    from fiol.readers.reader_config import ReaderConfig

#: What ends a number, and a name.
AFTER_NUMBER = b" \t\r\n|"
#: What stands before the first bar: numbers, and a tag that a quote or a number before it distinguishes from a column.
VW_LINE = re.compile(rb"(?:%s[ \t]+){0,3}(?:'[^ \t|]*[ \t]*)?\|.*|(?:%s[ \t]+){1,3}[^ \t|]+\|.*" % (NUMBER, NUMBER))
#: The most names in a batch, and bytes of them, unless a single row has more; and namespaces with a number.
MOST_NAMES, MOST_TEXT, MOST_SPACES = 2**19, 2**22, 2**9
#: The most entries and products of a batch, unless a single row has more: they take about 40 bytes each.
MOST_PRODUCTS = 2**18
#: About how many bytes are decoded at a time.
DECODED = 2**12


class VowpalWabbit(Format):
    """Lines of Vowpal Wabbit's text format: rows with names, see `fiol.NamedRows`.

    - `|space f:2` is the feature `space^f` with value 2, `| f` is `f`; without a value it is 1, and 0 is left out.
      `|space:3` multiplies all values in it by 3. Values of one feature add up. A feature without a name, `:2`, is
      called by its place among those of its namespace, from 0.
    - `|space f:red` is the feature `space^f:red` with value 1, whatever the factor of its namespace. A text value
      begins with neither a digit, a sign, a point, nan nor inf, and has no bar in it.
    - A caret that would make a name ambiguous is avoided: `| p^the` is the feature `| p^the`, `|p^q the` is `|p^q the`.
    - Before the first bar: the target, the sample weight (1 if there is none), and the tag: the last word, if it
      begins with a quote ' or touches the bar. Lines without a target have the target NaN; if that is all lines of a
      batch, its `y` is None. A third number, the prediction to start from, is refused. With the option `labels` set to
      "names" the first word is a label, as text.
    - Names are UTF-8 without blanks, bars and colons. Empty lines are skipped.
    - The pairs of a `ReaderConfig` are of namespaces; "" is that without a name.
    - The option `ignore` leaves out namespaces that begin with one of its letters, `keep` all others; a blank stands
      for the namespace without a name. `ngrams` adds a feature, with value 1, for every two up to that many features
      that follow one another in a namespace, called by their names with blanks between: 2 for all namespaces, "t3" for
      those that begin with t, "t3,u2" for several.
    - With the option `bits` features are numbered by the hash of their names, as `fiol.Learner(bits=...)` does it, and
      rows are a `fiol.Chunk`.

    Vowpal Wabbit itself stores values with 24 bits, here they are doubles; it hashes by rules of its own, so that
    numbers of features are others; it takes tabs before the bar to end something that is left out, here they are
    blanks. It warns where a line is malformed and goes on with what it has: here the line is refused. So are lines
    without a bar, values that are missing behind a colon or neither number nor text, and labels of other reductions
    (`action:cost:probability`).
    """

    extensions = (".vw",)
    shared_extensions = (".dat",)
    options: Mapping[str, Any] = {"bits": None, "ignore": None, "keep": None, "ngrams": None, "labels": None}
    must_be: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
        "bits": ("a whole number from 1 to 31", lambda bits: type(bits) is int and 1 <= bits <= 31),
        "labels": ('"numbers" or "names"', lambda labels: labels in ("numbers", "names")),
    }

    def recognizes(self, start: bytes) -> bool:
        """Return whether all of the first lines are Vowpal Wabbit's text."""
        lines = first_lines(start)
        return bool(lines) and all(map(VW_LINE.fullmatch, lines))

    def infer(self, start: bytes, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Nothing: lines say all there is to know."""
        return {}

    def batches(self, config: ReaderConfig, sources: Sources, bad: BadLines) -> Iterator[Batch]:
        """Yield the rows of every block of text; of parts of a block where names take much more room than the text."""
        bits = config.option("bits")
        choice = NamespaceChoice.of(*(config.option(name) for name in ("ignore", "keep", "ngrams")))
        named_labels = config.option("labels") == "names"
        parse = VwLines(None if bits is None else Hashing(bits), config.pairs, choice, named_labels)
        for block in sources.blocks():
            yield from parse(block, bad)


class VwLines:
    """From blocks of Vowpal Wabbit's text to batches, with arrays that are used again for the next one."""

    def __init__(
        self,
        hashing: Hashing | None = None,
        pairs: tuple[tuple[str, ...], ...] = (),
        choice: NamespaceChoice | None = None,
        named_labels: bool = False,
    ) -> None:
        self.hashing, self.pairs, self.size, self.choice = hashing, pairs, -1, choice
        self.named_labels = named_labels
        self.table, self.spaces = NameTable(MOST_NAMES, MOST_TEXT), NameTable(MOST_SPACES, 2**14, 2 * MOST_SPACES)
        self.modulus = np.uint64(hashing.size if hashing is not None and not pairs and choice is None else 0)
        self.digits = bytearray(48)  # of a feature's place, ending at 24

    def make_room(self, size: int) -> None:
        """Allocate arrays for all that could be in this many bytes: a row takes 2 of them, an entry, too."""
        if size > self.size:
            self.size = size = max(size, BLOCK_SIZE)
            rows = entries = size // 2 + 1
            self.y, self.weights, self.tags = np.empty(rows), np.empty(rows), np.empty((rows, 5), np.int64)
            self.indptr = np.empty(rows + 1, np.int64)
            self.indptr[0] = 0
            self.indices, self.data = np.empty(entries, np.int32), np.empty(entries)

    def __call__(self, block: Block, bad: BadLines) -> Iterator[Batch]:
        """Return the batches of a block, usually one; report unreadable lines by `bad.note`."""
        self.make_room(block.size)
        self.start_batch(0)
        count = LineCount(block)
        for start, end, broken in sound_parts(block):
            yield from self.part(block, start, end, count, bad)
            if broken is not None:
                bad.note(count.bad(broken, "a byte that is no UTF-8"))
        if self.row:
            yield from self.batch(block, bad)

    def start_batch(self, place: int) -> None:
        """Begin a batch without rows; the next rows start at this place of the block."""
        self.row = self.n = self.kept = 0
        self.first = place
        self.table.start()
        self.spaces.start()

    def part(self, block: Block, place: int, end: int, count: LineCount, bad: BadLines) -> Iterator[Batch]:
        """Take in the lines from a place to the end, and give batches if there is no room for more names."""
        from fiol.readers.loops.vw_rows import vw_rows  # here: what only looks at files loads no compiler

        text, digits = bytes_and_words(block.data), bytes_and_words(self.digits)
        hard = HardNumbers()
        while place < end:
            rows = (self.y, self.weights, self.tags, self.indptr, self.indices, self.data)
            table, spaces, at = self.table, self.spaces, map(np.uint64, (place, end, self.row, self.n))
            names = (self.modulus, *map(np.uint64, (table.names, self.kept, table.mask)), *table.arrays)
            more = (np.uint64(spaces.names), *spaces.arrays, *digits, *hard.arguments, SMALLEST, LARGEST)
            more = (*more, self.named_labels)
            with wrapping():
                found = map(int, vw_rows(*text, *at, *rows, *names, *more))
            code, stop, row, n, table.names, kept, table.mask, spaces.names, hards = found
            if not hard.read(block, hards, AFTER_NUMBER):
                continue
            place, self.row, self.n, self.kept = stop, row, n, kept
            if code == codes.FULL:
                hard = HardNumbers()
                if self.row:
                    yield from self.batch(block, bad)
                else:  # a single line
                    table.make_room(*(2 * room for room in table.room))
                self.start_batch(place)
            elif code != codes.DONE:
                bad.note(count.bad(stop, self.reason(code, block, stop)))
                place, hard = next_line(block, stop), HardNumbers()

    def batch(self, block: Block, bad: BadLines) -> Iterator[Batch]:
        """Yield the rows so far, in several batches if they have many products."""
        rows, n, names = self.row, self.n, self.kept
        found = Chunk(self.indptr[: rows + 1].copy(), self.indices[:n], self.data[:n])
        chunk = canonical(found, spot) if self.modulus else found  # sorted rows are copies
        if chunk is found:
            chunk = Chunk(found.indptr, found.indices.copy(), found.data.copy())
        order, lines = np.arange(rows), LineCount(block)
        if self.pairs or self.choice is not None:
            named = NamedRows(chunk, self.table.strings(names))
            groups = [split_name(name)[0] for name in named.names]
            if self.choice is not None:
                named, groups = self.choice.applied(named, groups)
            if self.pairs:
                products = Products(named, groups, self.pairs, operator.eq)
                bad.note_unmet_pairs(products.unmet)
                yield from self.batches_with_products(products, block, bad)
            else:
                yield self.batch_of(named if self.hashing is None else named.encoded(self.hashing), order, lines)
        else:
            yield self.batch_of(chunk if self.modulus else NamedRows(chunk, self.table.strings(names)), order, lines)

    def batches_with_products(self, products: Products, block: Block, bad: BadLines) -> Iterator[Batch]:
        """Yield rows with the features of pairs, some at a time, without those whose products are out of range."""
        lines, bad_lines = LineCount(block), LineCount(block)
        for order in products.parts(MOST_PRODUCTS):
            while len(order):
                try:
                    X = products.named(order) if self.hashing is None else products.hashed(order, self.hashing)
                except BadValueError as error:
                    place = int(self.tags[order[error.row], 2])
                    bad.note(bad_lines.bad(place, f"the feature {error.column!r} of a pair {error.reason}"))
                    order = np.delete(order, error.row)
                else:
                    yield self.batch_of(X, order, lines)
                    break

    def batch_of(self, X: Any, order: Any, lines: LineCount) -> Batch:
        """Return a batch of some rows, whose features are X."""
        block = lines.block
        y, weights, tags = self.y[order], self.weights[order], self.tags[order]
        row_names = texts_at(block, tags[:, :2])
        first = self.first if order[0] == 0 else int(tags[0, 2])
        return Batch(
            X,
            texts_at(block, tags[:, 3:]) if self.named_labels else None if np.isnan(y).all() else y,
            None if (weights == 1.0).all() else weights,
            None if row_names is None else [name or "" for name in row_names],
            lines.place_at(first),
            len(order),
            block.read,
            lambda row: LineCount(block).place_at(int(tags[row, 2])).line,
        )

    def reason(self, code: int, block: Block, place: int) -> str:
        """Why the line with this place cannot be read."""
        token = shown_at(block, place, AFTER_NUMBER)
        return {
            codes.NO_LABEL: f"{token} is no finite number: before the bar are a target, a weight and a tag; "
            f"labels that are names need {option_text('reader', {'labels': 'names'})}",
            codes.NO_WEIGHT: f"{token} is no sample weight, which is between 0 and {HEAVIEST:g}",
            codes.THIRD_NUMBER: f"{token} is a third number before the bar, a prediction to start from: leave it out",
            codes.AFTER_TAG: f"{token} follows the tag, which is the last before the bar",
            codes.NO_BAR: "there is no bar '|', which features follow",
            codes.NO_NAMESPACE: f"{token} is no namespace: its name is missing",
            codes.NO_VALUE: f"{token} is no finite number, and no text value",
            codes.OUT_OF_RANGE: f"{token} has a value, times that of its namespace, that {VALUES}",
            codes.RETURN_INSIDE: "a carriage return in the middle of a line",
        }[code]


def texts_at(block: Block, places: Any) -> list[str | None] | None:
    """Return the pieces of text of a block from where to where each is, None where there is none; None if all are."""
    if not places.any():
        return None
    return [block.data[a:b].decode() if b else None for a, b in places.tolist()]


def sound_parts(block: Block) -> Iterator[tuple[int, int, int | None]]:
    """Parts of a block that are UTF-8, from where to where, each with the place in the line after it that is not.

    >>> from fiol.readers.line_blocks import text_block
    >>> list(sound_parts(text_block(b"| a\\n| \\xff\\n| b\\n", None)))
    [(0, 4, 6), (8, 12, None)]
    """
    start, data = 0, block.data
    if not data.isascii():
        text, looked = bytes(data[: block.size]), 0
        while looked < block.size:  # some at a time: what follows a bad line is not looked at for each of them
            end = next_line(block, min(looked + DECODED, block.size - 1))
            try:
                text[looked:end].decode()
                looked = end
            except UnicodeDecodeError as error:
                broken = looked + error.start
                yield start, text.rfind(b"\n", 0, broken) + 1, broken
                start = looked = next_line(block, broken)
    if start < block.size:
        yield start, block.size, None
