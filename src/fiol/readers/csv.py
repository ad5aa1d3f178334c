"""CSV and TSV: fields with a delimiter, read by pyarrow a block at a time.

Values are missing where pandas has it so: empty fields, `NA`, `NaN`, `null` and the like, quoted or not; in columns of
numbers, truth values, dates and times also `fiol.features.cell_rules.MISSING_MARKERS`. What a column holds (numbers,
truth values, text) is decided by the first 2^20 bytes: numbers if at least nine of ten cells are. Later values that
are something else are bad cells (`BadLines`). A line with more or fewer fields than there are columns is a bad line
(where pandas fills up what is missing).
"""

from __future__ import annotations

import csv
import functools
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fiol.features.byte_words import SPARE, bytes_and_words
from fiol.features.column_values import NUMERIC_TEXT, columns_of
from fiol.features.frames import as_frame
from fiol.features.table_encoding import TableEncoding
from fiol.option_names import option_text
from fiol.readers.bad_lines import BadLines
from fiol.readers.batch import BadLineError, Batch, Place
from fiol.readers.columns import (
    Rows,
    arrow_module,
    aside_columns,
    check_columns,
    encoding_of,
    inferred_fields,
    table_rows,
)
from fiol.readers.compiled_parser import CompiledParser, TableBuffers
from fiol.readers.csv_types import CsvTypes
from fiol.readers.formats import is_true_or_false
from fiol.readers.line_blocks import is_utf8, wrapping
from fiol.readers.loops import codes
from fiol.readers.sources import START_SIZE, Block, Sources
from fiol.readers.table_format import TableFormat

if TYPE_CHECKING:
    from fiol.readers.reader_config import ReaderConfig

#: Delimiters that are looked for.
DELIMITERS = ",\t;|"
#: Options that a configuration does not store.
OPTION_DEFAULTS = (("names", None), ("decimal", "."))
#: A byte that is no end of a line.
NOT_EMPTY = re.compile(rb"[^\r\n]")
#: A record of more bytes is a quote that is not closed.
LONGEST_RECORD = 2**26
#: How many records decide about the delimiter.
LOOKED_AT = 100


class Csv(TableFormat):
    """Fields with a delimiter, and a line of names at the top, or none."""

    extensions = (".csv", ".tsv", ".txt", ".tab")
    #: `names` are those of the columns, where files have none; `types` what columns hold: number, whole, truth, text.
    options: Mapping[str, Any] = {"delimiter": None, "quote": '"', "decimal": ".", "header": None, "names": None,
                                  "types": None}  # fmt: skip
    must_be: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
        "delimiter": ("one plain character", lambda value: is_text(value) and len(value.encode()) == 1),
        "quote": ("one plain character or none", lambda value: is_text(value) and len(value.encode()) == 1),
        "decimal": ("a point or a comma", lambda value: value in (".", ",")),
        "header": ("true or false", is_true_or_false),
        "names": ('a list of different names, such as ["age", "city"]', lambda value: is_list_of_names(value)),
        "types": (
            "columns with what they hold",
            lambda value: {*value.values()} <= {"number", "whole", "truth", "text"},
        ),
    }
    may_be_none = ("quote",)

    def recognizes(self, start: bytes) -> bool:
        """Return whether all lines have the same count of one delimiter."""
        return delimiter_of(start, '"') is not None

    def infer(self, start: bytes, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Infer the delimiter, the header, the kinds of columns, and the table encoding."""
        encoding = TableEncoding.from_spec(given.get("table_encoding"))
        options = {**self.options, **given.get("options", {})}
        if options["delimiter"] is None:
            options["delimiter"] = (
                "\t" if name.lower().endswith((".tsv", ".tab")) else delimiter_of(start, options["quote"]) or ","
            )
        records = first_records(start, options)
        if options["header"] is None:
            first = fields_of_record(records.record(0), options) if len(records) else []
            options["header"] = options["names"] is None and is_header(first)
        if options["delimiter"] == "\t" and "quote" not in given.get("options", {}):
            warn_of_line_breaks(records, name)
        names = options["names"] or records.names(options)
        body, bad = records.without_first() if options["header"] else records, BadLines("skip")
        strings, body = CsvTypes({}, options, encoding).table(body, names, names, bad)
        types = CsvTypes({}, options, encoding).inferred(strings, given.get("target"))
        bad.on_error = "missing"  # lines that are no rows are left out by now
        typed, _ = CsvTypes({**types, **(options["types"] or {})}, options, encoding).table(body, names, names, bad)
        types = {**types, **(options["types"] or {})}
        made = inferred_fields(columns_of(as_frame(typed)), given)
        kept = {name: value for name, value in options.items() if (name, value) not in OPTION_DEFAULTS}
        return {**made, "options": {**kept, "types": types}}

    def warn_of_start(self, config: ReaderConfig, start: bytes, name: str) -> None:
        """Warn of line breaks within quotes, where fields end with tabs."""
        options = {**self.options, **config.options}
        if options["delimiter"] == "\t" and options["quote"]:
            warn_of_line_breaks(first_records(start, options), name)

    def is_complete(self, config: ReaderConfig) -> bool:
        """Return whether a configuration has an encoding, and says what columns hold."""
        return super().is_complete(config) and config.option("types") is not None

    def compiled_parser(self, config: ReaderConfig, sources: Sources) -> CompiledCsv:
        """Return the compiled parser of blocks."""
        return CompiledCsv(config, sources.size or 0, {**self.options, **config.options})

    def row_maker(self, config: ReaderConfig, bad: BadLines) -> Callable[[CsvText], Rows]:
        """Return the function that makes the rows of a block."""
        options = {**self.options, **config.options}

        def rows_of(text: CsvText) -> Rows:
            table, lines = self.table(config, options, text, bad)
            where = functools.partial(lines.place_of_field, text.names, options)
            return table_rows(config, table, lines.line, lines.file, lines.read, where)

        return rows_of

    def parts(self, config: ReaderConfig, sources: Sources, bad: BadLines) -> Iterator[CsvText]:
        """Yield the text of every block of about a megabyte, without the line of names."""
        options = {**self.options, **config.options}
        names: list[str] = []
        for text in text_blocks(sources, options, bad):
            if text.first:
                lines = text.records(options)
                names = list(options["names"] or lines.names(options))
                check_columns(config, names, text.file, bad)
                if options["header"]:
                    text = text.without_first(lines)
            yield text._replace(names=names)

    def table(
        self, config: ReaderConfig, options: Mapping[str, Any], text: CsvText, bad: BadLines
    ) -> tuple[Any, CsvRecords]:
        """Return the columns of a block, without those that are skipped, and its records."""
        known = {column.name for column in encoding_of(config).columns if not column.is_left_out}
        known |= aside_columns(config)
        names = text.names
        lines = text.records(options).of_width(len(names), options["delimiter"], bad)
        types = CsvTypes(options["types"] or {}, options, encoding_of(config), aside_columns(config))
        wanted = [name for name in names if name in known] or names[:1]  # for the number of rows
        return types.table(lines, names, wanted, bad)


def warn_of_line_breaks(records: CsvRecords, name: str) -> None:
    """Warn if fields have line breaks within quotes: in tables with tabs, quotes are plain characters as a rule."""
    lines = (records.record(k).rstrip(b"\r\n") for k in range(len(records)))
    count = sum(b"\n" in line or b"\r" in line for line in lines)
    if count:
        advice = f"if quotes are plain characters in this file, give {option_text('reader', {'quote': None})}"
        warnings.warn(f"{name}: line breaks within quotes in {count:,} of the first rows: {advice}", stacklevel=2)


def is_list_of_names(value: Any) -> bool:
    """Return whether an option is a list of different names."""
    return isinstance(value, (list, tuple)) and all(map(is_text, value)) and len(set(value)) == len(value)


def is_text(value: Any) -> bool:
    """Return whether an option, or a part of one, is a text."""
    return isinstance(value, str)


# --- records ----------------------------------------------------------------------------------


class CsvRecords:
    """Some records of a file: their bytes, and the line that each begins on, from 1."""

    def __init__(self, data: bytes, starts: Any, fields: Any, lines: Any, file: str, read: int, first: bool) -> None:
        self.data, self.file, self.read = data, file, read
        self.starts, self.fields, self.lines = starts, fields, lines
        self.first = first  #: whether they are the first of their file

    def __len__(self) -> int:
        return len(self.fields)

    def line(self, k: int) -> int:
        """Return the line of a record."""
        return int(self.lines[k])

    def record(self, k: int) -> bytes:
        """Return the bytes of a record, with its end."""
        return self.data[self.starts[k] : self.starts[k + 1]]

    def place_of_field(self, names: list[str], options: Mapping[str, Any], k: int, name: str) -> int:
        """Return where in its line the field of a column starts, counted in characters from 1; 0 if unknown."""
        if name not in names:  # such as that of a pair
            return 0
        record, place = self.record(k), names.index(name)
        start = start_of_field(
            record, place, ord(options["delimiter"]), ord(options["quote"]) if options["quote"] else -1
        )
        before = record[:start]
        return 0 if b"\n" in before or b"\r" in before else len(before.decode("utf-8", "replace")) + 1

    def names(self, options: Mapping[str, Any]) -> list[str]:
        """Return the names of the file's columns."""
        return names_of_file(self.record(0) if len(self) else b"", options)

    def kept(self, which: Any) -> CsvRecords:
        """Some of the records."""
        if which.all():
            return self
        data = [self.record(k) for k in np.flatnonzero(which).tolist()]
        starts = np.concatenate([[0], np.cumsum([len(record) for record in data], dtype=np.int64)]).astype(np.int64)
        return CsvRecords(
            b"".join(data), starts, self.fields[which], self.lines[which], self.file, self.read, self.first
        )

    def without_first(self) -> CsvRecords:
        """Return all records but the header."""
        rest = self.starts[1:] - self.starts[min(1, len(self))] if len(self) else self.starts
        data = self.data[self.starts[1] :] if len(self) else self.data
        return CsvRecords(data, rest, self.fields[1:], self.lines[1:], self.file, self.read, False)

    def of_width(self, width: int, delimiter: str, bad: BadLines) -> CsvRecords:
        """Return the records with `width` fields; the others are bad lines."""
        right = self.fields == width
        columns = "is 1 column" if width == 1 else f"are {width} columns"
        other = option_text("reader", {"delimiter": ";" if delimiter == "," else ","})
        advice = f" (another delimiter? {other}); {option_text('on_error', 'skip')} leaves such lines out"
        advice = "" if bad.on_error == "skip" else advice
        for k in np.flatnonzero(~right).tolist():
            fields = "1 field" if self.fields[k] == 1 else f"{self.fields[k]} fields"
            reason = f"has {fields}, but there {columns}{advice}"
            bad.note(BadLineError(Place(self.file, self.line(k)), 0, reason))
        return self.kept(right)


class CsvText(NamedTuple):
    """Some whole records of a file: `data[start:size]`, and what is to be known about them."""

    data: bytearray  #: with `byte_words.SPARE` zeros behind the text
    start: int
    size: int
    line: int  #: that it starts on
    file: str
    read: int
    first: bool  #: whether they are the first of their file
    names: list[str]  #: of the columns

    def records(self, options: Mapping[str, Any]) -> CsvRecords:
        """Return the records, without empty lines."""
        data = bytes(self.data[self.start : self.size])
        starts, fields, lines, _ = records_of(data, options)
        return CsvRecords(data, starts, fields, lines + self.line, self.file, self.read, self.first).kept(fields > 0)

    def without_first(self, records: CsvRecords) -> CsvText:
        """Return the text after the first of its records."""
        rest = records.starts[1] - records.starts[0]
        start = self.start + self.data[self.start : self.size].index(records.record(0)) + int(rest)
        return self._replace(start=start, line=self.line + count_lines(self.data, self.start, start), first=False)


def text_blocks(sources: Sources, options: Mapping[str, Any], bad: BadLines) -> Iterator[CsvText]:
    """Yield the records of all files, about a megabyte at a time, without blocks of empty lines alone.

    A line with a quote that is not closed, until the end of the file or for `LONGEST_RECORD` bytes, is a bad line;
    what follows it is read as if it were not there.
    """
    rest, line, file, read, first = b"", 1, "", 0, True
    quote = (options["quote"] or "").encode()
    for block in with_end(sources.blocks()):
        ended = block is None or block.place.line == 1  # another file, or none
        while rest and (ended or len(rest) > LONGEST_RECORD):
            bad.note(BadLineError(Place(file, line), 0, "has a quote that is not closed"))
            data, line = bytearray(rest[rest.index(b"\n") + 1 :]), line + 1
            end = records_of(bytes(data), options)[3][0]
            rest = bytes(data[end:])
            if NOT_EMPTY.search(data, 0, end):
                yield CsvText(data[:end] + bytes(SPARE), 0, end, line, file, read, first, [])
                first = False
            line += count_lines(data, 0, end)
        if block is None:
            return
        if ended:
            line, file, first = 1, block.place.file, True
        data, size, read = bytearray(rest) + block.data if rest else block.data, len(rest) + block.size, block.read
        end = size
        if quote and data.find(quote, 0, size) >= 0 and in_quotes(data, size, options):  # goes on in the next block
            end = records_of(bytes(data[:size]), options)[3][0]
        rest = bytes(data[end:size])
        if NOT_EMPTY.search(data, 0, end):
            data = data if end == size else data[:end] + bytes(SPARE)  # the block is its owner's
            yield CsvText(data, 0, end, line, file, block.read, first, [])
            first = False
        line += count_lines(data, 0, end)


def count_lines(data: bytearray, start: int, end: int) -> int:
    """Return the number of line ends: LF, CR LF, or CR.

    >>> count_lines(bytearray(b"a\\r\\nb\\nc\\r"), 0, 7)
    3
    """
    ends = int(np.count_nonzero(np.frombuffer(data, np.uint8, end - start, start) == ord("\n"))) if end > start else 0
    if data.find(b"\r", start, end) < 0:  # as a rule
        return ends
    return ends + data.count(b"\r", start, end) - data.count(b"\r\n", start, end)


def with_end(blocks: Iterator[Block]) -> Iterator[Block | None]:
    """Yield the blocks, and None after the last."""
    yield from blocks
    yield None


def records_of(data: bytes, options: Mapping[str, Any]) -> Any:
    """Return the places of records: see `records_in`."""
    from fiol.readers.csv_records import records_in  # loaded here: it is compiled

    quote = ord(options["quote"]) if options["quote"] else -1
    return records_in(data, len(data), ord(options["delimiter"]), quote)


def in_quotes(data: bytearray, size: int, options: Mapping[str, Any]) -> bool:
    """Return whether a record does not end where data[:size], which is whole lines, ends.

    >>> comma = {"delimiter": ",", "quote": '"'}
    >>> [in_quotes(bytearray(text + bytes(16)), len(text), comma) for text in (b'a,"b\\n', b'a"b,"c"\\n', b'"a""\\n')]
    [True, False, True]
    """
    from fiol.readers.loops.csv_rows import ends_in_quotes  # loaded here: it is compiled

    with wrapping():
        delimiter, quote = ord(options["delimiter"]), ord(options["quote"])
        return bool(ends_in_quotes(*bytes_and_words(data), np.uint64(size), delimiter, quote))


def first_records(start: bytes, options: Mapping[str, Any]) -> CsvRecords:
    """Return the whole records at the beginning of a file that are as wide as the first."""
    text = start if start.endswith((b"\n", b"\r")) or len(start) >= START_SIZE else start + b"\n"
    starts, fields, lines, (end, _) = records_of(text, options)
    found = CsvRecords(text[:end], starts, fields, lines + 1, "", 0, True).kept(fields > 0)
    return found.kept(found.fields == found.fields[0]) if len(found) else found


def delimiter_of(start: bytes, quote: str) -> str | None:
    """Return the delimiter on which the first records agree, or None.

    >>> delimiter_of(b"a;b,c;d\\n1;2;3\\n", '"'), delimiter_of(b"hello, world\\nand so on\\n", '"')
    (';', None)
    """
    best = None
    for delimiter in DELIMITERS:
        fields = [n for n, _ in first_and_odd(start, {"delimiter": delimiter, "quote": quote})][:LOOKED_AT]
        width = fields[0] if fields else 0
        if width > 1 and 10 * sum(n == width for n in fields) >= 9 * len(fields) and (best is None or width > best[0]):
            best = width, delimiter
    return None if best is None else best[1]


def first_and_odd(start: bytes, options: Mapping[str, Any]) -> list[tuple[int, bytes]]:
    """Return the number of fields and the bytes of every record in the first few lines, whatever its width."""
    text = b"".join(start[: 2**16].splitlines(keepends=True)[: 4 * LOOKED_AT])
    text = text if text.endswith((b"\n", b"\r")) or len(start) > len(text) else text + b"\n"
    starts, fields, _, _ = records_of(text, options)
    return [(int(n), text[starts[k] : starts[k + 1]]) for k, n in enumerate(fields) if n > 0]


def start_of_field(record: bytes, place: int, delimiter: int, quote: int) -> int:
    """Return where the field at a place, from 0, starts in a record.

    >>> start_of_field(b'1,"a,b",7', 2, ord(","), ord('"'))
    8
    """
    start, quoted, fresh = 0, False, True
    for k, c in enumerate(record):
        if place == 0:
            break
        if quoted or (fresh and c == quote):
            quoted = not quoted if c == quote else quoted  # two of them are none
        elif c == delimiter:
            place, start = place - 1, k + 1
        fresh = c == delimiter and not quoted
    return start


def fields_of_record(record: bytes, options: Mapping[str, Any]) -> list[str]:
    """Return the fields of one record, by Python's own reader."""
    quoting = {"quotechar": options["quote"]} if options["quote"] else {"quoting": csv.QUOTE_NONE}
    text = record.decode("utf-8", "replace").rstrip("\r\n")
    try:
        return next(csv.reader([text], delimiter=options["delimiter"], **quoting), [])
    except csv.Error:  # a field that is too long for it
        return [text]


def is_header(fields: list[str]) -> bool:
    """Return whether the first record is names: no field of it is a number, and not all are empty.

    >>> is_header(["age", "city"]), is_header(["30", "Rome"])
    (True, False)
    """
    return any(fields) and not any(NUMERIC_TEXT.fullmatch(field) for field in fields)


def names_of_file(record: bytes, options: Mapping[str, Any]) -> list[str]:
    """Return the names of columns: those of the first record, as in pandas, or c1, c2, ... without a header.

    >>> names_of_file(b",a,a", {"delimiter": ",", "quote": None, "header": True})
    ['Unnamed: 0', 'a', 'a.1']
    """
    fields = fields_of_record(record, options)
    if not options["header"]:
        return [f"c{k}" for k in range(1, len(fields) + 1)]
    return names_of_fields(fields)


def names_of_fields(fields: list[str]) -> list[str]:
    """Return the names of columns by the fields of a header, each of them once, as in pandas.

    >>> names_of_fields(["", "a", "a"])
    ['Unnamed: 0', 'a', 'a.1']
    """
    names: dict[str, None] = {}
    for k, field in enumerate(fields):
        name, n = field or f"Unnamed: {k}", 0
        while name in names:
            n += 1
            name = f"{field}.{n}"
        names[name] = None
    return list(names)


# --- the compiled way -------------------------------------------------------------------------


class CompiledCsv(CompiledParser):
    """The compiled parser of CSV: it takes no text with a line that is wrong."""

    def __init__(self, config: ReaderConfig, size: int, options: Mapping[str, Any]) -> None:
        super().__init__(config, size)
        self.options, self.names = options, list[str]()
        self.known = ord(options["delimiter"]) in map(ord, DELIMITERS) and len(options["quote"] or " ") == 1
        self.known &= options["decimal"] == "."
        self.is_whole = False  #: whether the file has all columns of features
        self.cell_of, self.is_number = np.empty(0, np.int64), np.empty(0, bool)

    def begin(self, names: list[str]) -> None:
        """Be ready for a file with these columns."""
        types = dict(self.options["types"] or {})
        for column in encoding_of(self.config).columns:
            if column.kind == "numeric_text" and types.get(column.name, "text") == "text":
                self.known = False
                return  # text that is a number has rules of its own
        targets = {
            "number": codes.TARGET_NUMBER, "whole": codes.TARGET_WHOLE, "truth": codes.TARGET_TRUTH,
            "text": codes.TARGET_TEXT,
        }  # fmt: skip
        self.rows, self.names = TableBuffers.of(self.config, types, targets), names
        self.known = self.rows is not None
        if self.rows is not None:
            places = {name: k for k, name in enumerate(names)}
            self.is_whole = all(c.name in places for c in self.rows.columns[: self.rows.first_aside])
            self.cell_of = np.array([places.get(column.name, -1) for column in self.rows.columns], np.int64)
            numeric = (codes.NUMBER_CELL, codes.TARGET_NUMBER, codes.TARGET_WHOLE, codes.WEIGHT_CELL)
            self.is_number = np.zeros(len(names), bool)
            self.is_number[self.cell_of[np.isin(self.rows.kinds, numeric) & (self.cell_of >= 0)]] = True

    def batch(self, part: CsvText) -> Batch | None:
        """Return the rows of a text; None if one of them is not for the loop."""
        from fiol.readers.loops.csv_rows import csv_rows  # here: what only looks at files loads no compiler

        if self.known and (self.rows is None or part.names != self.names):
            self.begin(part.names)
        if not self.known or self.rows is None or not self.is_whole or not is_utf8(part.data, part.start, part.size):
            return None
        size = part.size - part.start
        data = self.rows.working_copy(part.data, part.start, part.size)
        fields = np.empty((2, len(self.names)), np.uint64)
        forms, numbers = np.empty(len(self.names), np.int64), np.empty(len(self.names))
        quote = ord(self.options["quote"]) if self.options["quote"] else 256
        text = (*bytes_and_words(data), np.uint64(0), np.uint64(size), ord(self.options["delimiter"]), quote)
        cells = (self.is_number, *fields, forms, numbers, self.cell_of)
        code, count, first = self.rows.run(size, functools.partial(csv_rows, *text, *cells))
        if code != codes.DONE or not count:
            return None
        place = Place(part.file, part.line + count_lines(data, 0, first))
        return self.found_batch(data, count, self.cell_of.tolist(), place, part.read)

    def targets(self, rows: TableBuffers, count: int) -> Any:
        """Return the targets as the column of a table has them."""
        held, arrow = (self.options["types"] or {}).get(self.config.target, "text"), arrow_module()
        y: Any = rows.y[:count]
        if held == "text":
            codes, which = np.unique(y.astype(np.int64), return_inverse=True)
            labels = arrow.array([rows.label(code) for code in codes.tolist()], arrow.string())
            return arrow.chunked_array([labels.take(arrow.array(which))])
        kinds = {"number": np.float64, "whole": np.int64, "truth": np.bool_}
        return arrow.chunked_array([arrow.array(y.astype(kinds[held]))])
