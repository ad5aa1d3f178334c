"""The compiled parser of tables: fields of CSV or values of JSON as features, by the rules of table encodings.

The compiled loops read numbers, truth values, categories, words of ASCII, dates in a format, and missing values. All
other cells, and every line that is wrong, are left to `fiol.readers.columns`, a block at a time; both make the same
rows, to the bit.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import compress, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from fiol.features.byte_words import SPARE, joined_words
from fiol.features.chunk import LARGEST, SMALLEST, Chunk
from fiol.features.column_kinds import PART_VALUES, PARTS, part_features
from fiol.features.date_formats import format_pieces
from fiol.features.interactions import add_interactions
from fiol.features.named_rows import NamedRows
from fiol.features.table_encoding import Column, TableEncoding
from fiol.readers.batch import Batch, Place
from fiol.readers.columns import NON_FEATURE_COLUMNS, encoding_of
from fiol.readers.line_blocks import wrapping
from fiol.readers.loops import codes
from fiol.readers.name_table import NameTable
from fiol.readers.sources import BLOCK_SIZE

if TYPE_CHECKING:
    from fiol.readers.reader_config import ReaderConfig

#: Files of fewer bytes, and the first bytes of a pipe, are parsed without it: nothing is compiled for little text.
COMPILED_MIN_BYTES = 2**22
#: After this many blocks in a row that the loop does not take it is not tried again.
MAX_FALLBACKS = 16


@dataclasses.dataclass
class ParsedColumn:
    """One column as the loop takes it: its kind, and the names of features that are known beforehand."""

    name: str
    kind: int
    column: Column
    prefix: str = ""  #: of the names that text makes
    fixed: tuple[str, ...] = ()  #: names, in the order in which the loop counts them
    groups: tuple[str, ...] = ()  #: of these names

    @classmethod
    def of(cls, column: Column, held: str) -> ParsedColumn | None:
        """Return the cells of a column: numbers, truth, or text; None if the loop does not read such columns."""
        kinds = {
            ("number", "number"): codes.NUMBER_CELL,
            ("number", "truth"): codes.TRUTH_CELL,
            ("category", "text"): codes.CATEGORY_CELL,
            ("words", "text"): codes.WORDS_CELL,
            ("date", "text"): codes.DATE_CELL,
            ("time", "text"): codes.TIME_CELL,
            ("undecided", "text"): codes.UNDECIDED_CELL,
        }
        if (column.kind, held) not in kinds:
            return None
        name, fixed = column.name, [(column.name, column.name), (column.missing_feature, column.name)]
        if column.rules.parts:
            fixed += [(feature, f"{name}.{part}") for part in PART_VALUES for feature in part_features(name, part)]
        names, groups = zip(*fixed, strict=True)
        prefix = column.prefix if column.rules.sign else ""
        return cls(name, kinds[column.kind, held], column, prefix, names, groups)


class TableBuffers:
    """What the compiled loop takes, and rows made of what it has found.

    `columns` are those of features in the order of the table encoding, then target, weight and tag.
    """

    def __init__(self, columns: list[ParsedColumn], encoding: TableEncoding) -> None:
        self.columns, self.pairs, self.size = columns, encoding.pairs, -1
        fixed = [name.encode() for c in columns for name in c.fixed]
        self.fixed = joined_words(fixed)
        self.prefixes = joined_words([c.prefix.encode() for c in columns])
        self.bases = np.cumsum([0, *(len(c.fixed) for c in columns)])[:-1].astype(np.int64)
        self.known = np.zeros(max(len(fixed), 1), np.int64)
        self.kinds = np.array([c.kind for c in columns], np.int64)
        parts = [sum(1 << PARTS.index(part) for part in c.column.parts) for c in columns]
        self.parts, self.ngrams = np.array(parts, np.int64), np.array([c.column.ngrams for c in columns], np.int64)
        self.formats = format_codes([c.column for c in columns])
        self.fixed_groups = [group for c in columns for group in c.groups]
        self.work, self.table = bytearray(), NameTable(2**12, 2**16)
        self.longest = max([1, *self.ngrams.tolist()])

    @classmethod
    def of(cls, config: ReaderConfig, held: dict[str, str], targets: dict[str, int]) -> TableBuffers | None:
        """Return the cells of a configuration whose columns hold `held`; None if the loop does not read one of them.

        `targets` are the kinds that a target may have, by what it holds.
        """
        encoding = encoding_of(config)
        if encoding.missing is not None:
            return None  # the loop has the default markers
        aside = {getattr(config, name): name for name in NON_FEATURE_COLUMNS if getattr(config, name) is not None}
        found = list[ParsedColumn | None]()
        for column in encoding.columns:
            if not column.is_left_out and column.name not in aside:
                found.append(ParsedColumn.of(column, held.get(column.name, "text")))
        for name, role in aside.items():
            holds = held.get(name, "text")
            kinds = {"target": targets, "weight": {"number": codes.WEIGHT_CELL}, "tag": {"text": codes.TAG_CELL}}[role]
            found.append(ParsedColumn(name, kinds[holds], Column(name, "skip")) if holds in kinds else None)
        known = [column for column in found if column is not None]
        if len(known) < len(found) or len(aside) < sum(
            getattr(config, name) is not None for name in NON_FEATURE_COLUMNS
        ):
            return None
        return (
            None
            if may_be_one(known) or not all(is_encodable(column.name) for column in known)
            else cls(known, encoding)
        )

    def make_room(self, size: int, more: int = 1) -> None:
        """Allocate arrays for what `size` bytes hold as a rule, `more` times."""
        if size * more > self.size:
            size = max(size + size // 8, BLOCK_SIZE + BLOCK_SIZE // 8)  # blocks are of about one size
            self.size = entries = size * more
            rows = size // 2 + 2
            self.indptr = np.zeros(rows + 1, np.int64)
            self.indices, self.values = np.empty(entries, np.int32), np.empty(entries)
            self.y, self.y_forms, self.weights = np.empty(rows), np.empty(rows, np.uint8), np.empty(rows)
            self.tags, self.spans = (
                np.zeros((rows, 2), np.int64),
                np.empty((size if self.longest > 1 else 1, 2), np.int64),
            )
            self.table.make_room(entries // 2, 4 * entries + 2**12)

    def working_copy(self, data: bytearray, start: int, end: int) -> bytearray:
        """data[start:end] with zeros behind it, and twice as many bytes that the loop may write to."""
        size = end - start
        if 3 * size + 2 * SPARE + 64 > len(self.work):
            self.work = bytearray(4 * size + 2 * SPARE + 64)
        self.work[:size] = data[start:end]
        self.work[size : size + SPARE] = bytes(SPARE)
        return self.work

    def start(self) -> None:
        """Begin without names."""
        self.table.start()
        self.known[:] = 0

    @property
    def arguments(self) -> tuple[Any, ...]:
        """Of the loop, from columns on."""
        return (
            self.kinds, self.bases, self.parts, self.formats, self.ngrams, self.spans, self.known, *self.fixed,
            *self.prefixes, *self.table.arrays, self.indices, self.values, self.y, self.y_forms, self.weights,
            self.tags, self.indptr, np.uint64(self.table.mask), SMALLEST, LARGEST,
        )  # fmt: skip

    def run(self, size: int, call: Callable[..., Any]) -> tuple[int, ...]:
        """Call a loop with `arguments`, with more room if it was not enough; return its result without names."""
        found: tuple[int, ...] = ()
        for more in (1, 4, 16):
            self.make_room(size, more)
            self.start()
            with wrapping():
                code, rows, self.table.names, first, self.table.mask, *place = map(int, call(*self.arguments))
            found = (code, rows, first, *place)
            if code != codes.FULL:
                break
        return found

    def features(self, rows: int) -> NamedRows:
        """Return the features that the loop found, pairs included."""
        n, names = int(self.indptr[rows]), self.table.names
        indices, owners = self.indices[:n].copy(), self.table.about[:names, 4]
        called = self.table.strings(names)
        labels = (owners % 2 == 1) & (owners > 2 * self.first_aside)
        if labels.any():  # names of the target are none of features
            indices = (np.cumsum(~labels) - 1).astype(np.int32)[indices]
            called = list(compress(called, (~labels).tolist()))
        found = NamedRows(Chunk(self.indptr[: rows + 1].copy(), indices, self.values[:n].copy()), called)
        return add_interactions(found, self.groups(owners[~labels]), self.pairs) if self.pairs else found

    @property
    def first_aside(self) -> int:
        """The first column that is no feature."""
        return int(np.count_nonzero(self.kinds < codes.TARGET_NUMBER))

    def groups(self, owners: Any) -> list[str]:
        """Return the columns, or parts of dates, of names."""
        return [self.columns[o // 2].name if o % 2 else self.fixed_groups[o // 2] for o in owners.tolist()]

    def label(self, name: int) -> str:
        """Return the text of a target."""
        start, end = map(int, self.table.about[name : name + 2, 0])
        return self.table.text[start : end - 1].decode()


class CompiledParser(ABC):
    """From a part of a file to a batch by a compiled loop: `parser(part)`, None for parts that `batch_of` is for.

    These are the first `COMPILED_MIN_BYTES` bytes, unless the files have more, and parts with a line that is wrong or
    unusual. After `MAX_FALLBACKS` such parts in a row the loop is not tried again.
    """

    def __init__(self, config: ReaderConfig, size: int) -> None:
        self.config, self.seen, self.fallbacks = config, size, 0
        self.rows: TableBuffers | None = None

    def __call__(self, part: Any) -> Batch | None:
        """Return the rows of a part, which has a `size`; None if one of them is not for the loop."""
        self.seen += part.size
        if self.seen <= COMPILED_MIN_BYTES or self.fallbacks > MAX_FALLBACKS:
            return None
        batch = self.batch(part)
        self.fallbacks = self.fallbacks + 1 if batch is None else 0
        return batch

    @abstractmethod
    def batch(self, part: Any) -> Batch | None:
        """Return the rows of a part; None if one of them is not for the loop."""

    @abstractmethod
    def targets(self, rows: TableBuffers, count: int) -> Any:
        """Return the targets of the first rows."""

    def found_batch(self, data: bytearray, count: int, cells: Sequence[int], place: Place, read: int) -> Batch:
        """Return the batch of what the loop has found in `data`; `cells` are the places of columns, -1 for none."""
        rows = self.rows
        assert rows is not None
        there = {column.name for column, cell in zip(rows.columns, cells, strict=True) if cell >= 0}
        target, weight, tag = (getattr(self.config, role) in there for role in NON_FEATURE_COLUMNS)
        return Batch(
            rows.features(count),
            self.targets(rows, count) if target else None,
            rows.weights[:count].copy() if weight else None,
            [data[a:b].decode() for a, b in rows.tags[:count].tolist()] if tag else None,
            place,
            count,
            read,
        )


def is_encodable(name: str) -> bool:
    """Return whether a name can be written as UTF-8; half of a surrogate pair, which JSON may have, cannot.

    >>> is_encodable("größe"), is_encodable("\\ud800")
    (True, False)
    """
    return not any("\ud800" <= c <= "\udfff" for c in name)


def may_be_one(columns: list[ParsedColumn]) -> bool:
    """Return whether two columns could make one name: a category `a` with the value `b=c`, and another, `a=b`."""
    names = [name for column in columns for name in column.fixed]
    prefixes = [column.prefix for column in columns if column.prefix]
    if len(set(names)) < len(names):
        return True
    ordered = sorted([(prefix, 0) for prefix in prefixes] + [(name, 1) for name in names])
    return any(not is_name and later.startswith(prefix) for (prefix, is_name), (later, _) in pairwise(ordered))


def format_codes(columns: Sequence[Column]) -> Any:
    """Return the formats of dates and times as the loop takes them, a row for every column.

    >>> format_codes([Column("d", "date", format="%d.%m.%Y")]) == [codes.DAY, 46, codes.MONTH, 46, codes.YEAR, 0]
    array([[ True,  True,  True,  True,  True,  True]])
    """
    clock = [codes.HOUR, ord(":"), codes.MINUTE, codes.MAY_END, ord(":"), codes.SECOND]
    day = [codes.YEAR, ord("-"), codes.MONTH, ord("-"), codes.DAY, codes.MAY_END, codes.BLANK_OR_T]
    iso = {"date": [codes.FULL_WIDTH, *day, *clock], "time": [codes.FULL_WIDTH, *clock]}
    found = [
        [piece for letter, mark in format_pieces(column.format)
         for piece in ([codes.FORMAT_LETTERS[letter]] if letter else mark.encode())]
        or iso.get(column.kind, [])
        for column in columns
    ]  # fmt: skip
    rows = np.full((len(found), 1 + max(map(len, found), default=0)), codes.END_OF_FORMAT, np.int64)
    for row, pieces in zip(rows, found, strict=True):
        row[: len(pieces)] = pieces
    return rows
