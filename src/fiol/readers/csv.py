"""CSV and TSV: fields with a delimiter, read by pyarrow a block at a time.

Values are missing where pandas has it so: empty fields, `NA`, `NaN`, `null` and the like, quoted or not. What a column
holds (numbers, truth values, texts) is decided by the first 2^20 bytes, and later values that are something else are
bad lines; so is a line with more or fewer fields than there are columns (where pandas fills up what is missing).
"""

from __future__ import annotations

import csv
import functools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from fiol.intake.column_values import NUMERAL, ColumnValues, columns_of
from fiol.intake.frames import as_frame
from fiol.readers.bad_lines import BadLines
from fiol.readers.batch import BadLineError, Batch, Place
from fiol.readers.columns import ASIDE, arrow_module, batch_of, check_columns, coding_of, guessed_fields, table_rows
from fiol.readers.formats import Format, is_true_or_false
from fiol.readers.sources import START_SIZE, Block, Sources

if TYPE_CHECKING:
    from fiol.readers.reading import Reading

#: Delimiters that are looked for.
DELIMITERS = ",\t;|"
#: Fields that say that a value is missing: those of pandas.
MISSING_WORDS = [
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
    "NULL", "NaN", "None", "n/a", "nan", "null",
]  # fmt: skip
TRUE_WORDS, FALSE_WORDS = ["True", "TRUE", "true"], ["False", "FALSE", "false"]
#: A whole number.
WHOLE_NUMBER = re.compile(r"\s*[+-]?\d{1,18}\s*")
#: A record of more bytes is a quote that nobody closed.
LONGEST_RECORD = 2**26
#: So many records decide about the delimiter.
LOOKED_AT = 100


class Csv(Format):
    """Fields with a delimiter, and a line of names at the top, or none."""

    extensions = (".csv", ".tsv", ".txt", ".tab")
    #: `names` are those of the columns, where files have none; `types` what columns hold: number, whole, truth, text.
    options: Mapping[str, Any] = {"delimiter": None, "quote": '"', "header": None, "names": None, "types": None}
    must_be: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
        **dict.fromkeys(
            ("delimiter", "quote"), ("one plain character", lambda told: is_text(told) and len(told.encode()) == 1)
        ),
        "header": ("true or false", is_true_or_false),
        "names": ("different texts", lambda told: all(map(is_text, told)) and len(set(told)) == len(told)),
        "types": ("columns with what they hold", lambda told: {*told.values()} <= {"number", "whole", "truth", "text"}),
    }
    has_columns = True

    def recognises(self, start: bytes) -> bool:
        """Whether lines have one delimiter, as often in each."""
        return delimiter_of(start, '"') is not None

    def guess(self, start: bytes, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """The delimiter, whether there are names, what columns hold, and the coding."""
        told = {**self.options, **given.get("options", {})}
        if told["delimiter"] is None:
            told["delimiter"] = (
                "\t" if name.lower().endswith((".tsv", ".tab")) else delimiter_of(start, told["quote"]) or ","
            )
        records = first_records(start, told)
        if told["header"] is None:
            first = fields_of_record(records.record(0), told) if len(records) else []
            told["header"] = told["names"] is None and is_header(first)
        names = told["names"] or records.names(told)
        body, bad = records.without_first() if told["header"] else records, BadLines("skip")
        texts, body = typed_table(body, names, {**told, "types": {}}, names, bad)
        types = {**types_of(texts, given.get("target"), kinds_given(given.get("coding"))), **(told["types"] or {})}
        typed, _ = typed_table(body, names, {**told, "types": types}, names, bad)
        made = guessed_fields(columns_of(as_frame(typed)), given)
        return {**made, "options": {**{k: v for k, v in told.items() if k != "names" or v is not None}, "types": types}}

    def batches(self, reading: Reading, sources: Sources, bad: BadLines) -> Iterator[Batch]:
        """A batch per block of about a megabyte."""
        reading = self.completed(reading, sources)
        for table, lines in self.tables(reading, sources, bad):
            batch = batch_of(reading, table_rows(reading, table, lines.line, lines.file, lines.read), bad)
            if batch is not None:
                yield batch

    def completed(self, reading: Reading, sources: Sources) -> Reading:
        """The reading with what is not told, of how the first file begins."""
        if reading.coding is None or not reading.coding.complete or reading.option("types") is None:
            given = {name: getattr(reading, name) for name in (*ASIDE, "pairs", "coding")}
            start, name = sources.start()
            made = self.guess(start, name, {**given, "options": reading.options})
            reading = type(reading)(**{**given, **made, "format": reading.format})
        return reading

    def tables(self, reading: Reading, sources: Sources, bad: BadLines) -> Iterator[tuple[Any, CsvRecords]]:
        """The columns of every block, without those that are skipped, and its records; of a complete reading."""
        told = {**self.options, **reading.options}
        skipped = {column.name for column in coding_of(reading).columns if column.kind == "skip"}
        skipped -= {getattr(reading, field) for field in ASIDE}
        names: list[str] = []
        for lines in record_blocks(sources, told):
            if lines.first:
                names = list(told["names"] or lines.names(told))
                check_columns(reading, names, lines.file)
                if told["header"]:
                    lines = lines.without_first()
            lines = lines.of_width(len(names), bad)
            wanted = [name for name in names if name not in skipped]
            yield typed_table(lines, names, told, wanted, bad)


def is_text(told: Any) -> bool:
    """Whether an option, or a part of one, is a text."""
    return isinstance(told, str)


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
        """The line of a record."""
        return int(self.lines[k])

    def record(self, k: int) -> bytes:
        """The bytes of a record, with its end."""
        return self.data[self.starts[k] : self.starts[k + 1]]

    def names(self, told: Mapping[str, Any]) -> list[str]:
        """What the columns of the file are called."""
        return names_of_file(self.record(0) if len(self) else b"", told)

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
        """All records but the one with the names."""
        rest = self.starts[1:] - self.starts[min(1, len(self))] if len(self) else self.starts
        data = self.data[self.starts[1] :] if len(self) else self.data
        return CsvRecords(data, rest, self.fields[1:], self.lines[1:], self.file, self.read, False)

    def of_width(self, width: int, bad: BadLines) -> CsvRecords:
        """The records with so many fields; the others are bad lines."""
        right = self.fields == width
        for k in np.flatnonzero(~right).tolist():
            reason = f"has {self.fields[k]} fields, but there are {width} columns"
            bad.note(BadLineError(Place(self.file, self.line(k)), 0, reason))
        return self.kept(right)


def record_blocks(sources: Sources, told: Mapping[str, Any]) -> Iterator[CsvRecords]:
    """The records of all files, about a megabyte at a time, without empty lines."""
    rest, line, file, first = b"", 1, "", True
    for block in with_end(sources.blocks()):
        if block is None or block.place.line == 1:  # another file, or none
            check_closed(rest, file, line)
            if block is None:
                return
            rest, line, file, first = b"", 1, block.place.file, True
        data = rest + bytes(block.data[: block.size])
        starts, fields, lines, (end, last) = records_of(data, told)
        rest = data[end:]
        if len(rest) > LONGEST_RECORD:
            raise BadLineError(Place(file, line + last), 0, "has a quote that is not closed")
        found = CsvRecords(data[:end], starts, fields, lines + line, file, block.read, first)
        line += last
        found = found.kept(fields > 0)
        if len(found):
            first = False
            yield found


def with_end(blocks: Iterator[Block]) -> Iterator[Block | None]:
    """The blocks, and None after the last."""
    yield from blocks
    yield None


def check_closed(rest: bytes, file: str, line: int) -> None:
    """BadLineError if a file ended within quotes."""
    if rest:
        raise BadLineError(Place(file, line), 0, "has a quote that is not closed")


def records_of(data: bytes, told: Mapping[str, Any]) -> Any:
    """Where records are: see `records_in`."""
    from fiol.readers.csv_records import records_in  # loaded here: it is compiled

    quote = ord(told["quote"]) if told["quote"] else -1
    return records_in(data, len(data), ord(told["delimiter"]), quote)


def first_records(start: bytes, told: Mapping[str, Any]) -> CsvRecords:
    """The records at the beginning of a file that are whole, and as wide as the first."""
    text = start if start.endswith((b"\n", b"\r")) or len(start) >= START_SIZE else start + b"\n"
    starts, fields, lines, (end, _) = records_of(text, told)
    found = CsvRecords(text[:end], starts, fields, lines + 1, "", 0, True).kept(fields > 0)
    return found.kept(found.fields == found.fields[0]) if len(found) else found


def delimiter_of(start: bytes, quote: str) -> str | None:
    """The delimiter that the first records agree on; None if there is none.

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


def first_and_odd(start: bytes, told: Mapping[str, Any]) -> list[tuple[int, bytes]]:
    """`first_records` of all widths, of the first few lines."""
    text = b"".join(start[: 2**16].splitlines(keepends=True)[: 4 * LOOKED_AT])
    text = text if text.endswith((b"\n", b"\r")) or len(start) > len(text) else text + b"\n"
    starts, fields, _, _ = records_of(text, told)
    return [(int(n), text[starts[k] : starts[k + 1]]) for k, n in enumerate(fields) if n > 0]


def fields_of_record(record: bytes, told: Mapping[str, Any]) -> list[str]:
    """The fields of one record, by Python's own reader."""
    quoting = {"quotechar": told["quote"]} if told["quote"] else {"quoting": csv.QUOTE_NONE}
    text = record.decode("utf-8", "replace").rstrip("\r\n")
    try:
        return next(csv.reader([text], delimiter=told["delimiter"], **quoting), [])
    except csv.Error:  # a field that is too long for it
        return [text]


def is_header(fields: list[str]) -> bool:
    """Whether the first record is names: no field of it is a number, and not all are empty.

    >>> is_header(["age", "city"]), is_header(["30", "Rome"])
    (True, False)
    """
    return any(fields) and not any(NUMERAL.fullmatch(field) for field in fields)


def names_of_file(record: bytes, told: Mapping[str, Any]) -> list[str]:
    """What columns are called: by the first record, as pandas has it, or c1, c2, ... without a header.

    >>> names_of_file(b",a,a", {"delimiter": ",", "quote": None, "header": True})
    ['Unnamed: 0', 'a', 'a.1']
    """
    fields = fields_of_record(record, told)
    if not told["header"]:
        return [f"c{k}" for k in range(1, len(fields) + 1)]
    names = list[str]()
    for k, field in enumerate(fields):
        name, n = field or f"Unnamed: {k}", 0
        while name in names:
            n += 1
            name = f"{field}.{n}"
        names.append(name)
    return names


# --- values -----------------------------------------------------------------------------------


def kinds_given(coding: Any) -> dict[str, str]:
    """The kinds that are told by hand."""
    from fiol.intake.coding import Coding

    return {column.name: column.kind for column in Coding.given(coding).columns}


def types_of(table: Any, target: Any, kinds: Mapping[str, str]) -> dict[str, str]:
    """What the columns of texts hold: number, truth, text; a target may be whole numbers."""
    found = {}
    for values in columns_of(as_frame(table)):
        found[values.name] = type_of_column(values, values.name == target, kinds.get(values.name))
    return found


def type_of_column(values: ColumnValues, target: bool, kind: str | None) -> str:
    """What one column of texts holds, where a kind may be told by hand."""
    texts = values.texts().texts
    if kind in ("category", "words", "tags", "numeral", "date") or not texts:
        return "text"
    if target and all(WHOLE_NUMBER.fullmatch(text) for text in texts):
        return "whole"
    if kind == "number" or all(NUMERAL.fullmatch(text) for text in texts):
        return "number"
    return "truth" if {*texts} <= {*TRUE_WORDS, *FALSE_WORDS} else "text"


@functools.cache
def arrow_types() -> dict[str, Any]:
    """Types of Arrow by what columns hold."""
    arrow = arrow_module()
    return {"number": arrow.float64(), "whole": arrow.int64(), "truth": arrow.bool_(), "text": arrow.string()}


def read_table(
    data: bytes, names: list[str], types: Mapping[str, str], told: Mapping[str, Any], wanted: list[str]
) -> Any:
    """CsvRecords as an Arrow table of the columns that are wanted."""
    reader, arrow = arrow_module("pyarrow.csv"), arrow_module()
    kinds = {name: arrow_types()[types.get(name, "text")] for name in wanted}
    if not data:
        return arrow.table({name: arrow.array([], kinds[name]) for name in wanted})
    convert = reader.ConvertOptions(
        column_types=kinds, null_values=MISSING_WORDS, strings_can_be_null=True, true_values=TRUE_WORDS,
        false_values=FALSE_WORDS, include_columns=wanted,
    )  # fmt: skip
    parse = reader.ParseOptions(
        delimiter=told["delimiter"], quote_char=told["quote"] or False, newlines_in_values=bool(told["quote"])
    )
    read = reader.ReadOptions(column_names=names, block_size=len(data) + 1, use_threads=False)
    return reader.read_csv(arrow.py_buffer(data), read_options=read, parse_options=parse, convert_options=convert)


def typed_table(
    lines: CsvRecords, names: list[str], told: Mapping[str, Any], wanted: list[str], bad: BadLines
) -> tuple[Any, CsvRecords]:
    """The records as a table, without those that have a value of another type; these are bad lines."""
    invalid = arrow_module().ArrowInvalid
    types = told["types"] or {}
    try:
        table = read_table(lines.data, names, types, told, wanted)
    except invalid:
        right = np.array([well_formed(lines, k, names, types, told, wanted, bad) for k in range(len(lines))], bool)
        lines = lines.kept(right)
        try:
            table = read_table(lines.data, names, types, told, wanted)
        except invalid as error:
            if len(lines) == 1:
                bad.note(BadLineError(Place(lines.file, lines.line(0)), 0, str(error)))
                return read_table(b"", names, types, told, wanted), lines.kept(np.zeros(1, bool))
            early = np.arange(len(lines)) < len(lines) // 2  # what only pyarrow knows is found by halving
            parts = [typed_table(lines.kept(half), names, told, wanted, bad) for half in (early, ~early)]
            kept = np.isin(lines.lines, np.concatenate([part.lines for _, part in parts]))
            return arrow_module().concat_tables([table for table, _ in parts]), lines.kept(kept)
    if table.num_rows != len(lines):
        where = Place(lines.file, lines.line(0))
        raise BadLineError(
            where, 0, f"{len(lines)} records from here on were read as {table.num_rows}: check the quotes"
        )
    return table, lines


def well_formed(
    lines: CsvRecords,
    k: int,
    names: list[str],
    types: Mapping[str, str],
    told: Mapping[str, Any],
    wanted: list[str],
    bad: BadLines,
) -> bool:
    """Whether every field of a record is of its column's type; if not, it is a bad line."""
    record, reason = lines.record(k), ""
    try:
        record.decode("utf-8")
    except UnicodeDecodeError as error:
        reason = f"is no text in UTF-8: {error.reason} at byte {error.start}"
    for name, field in zip(names, [] if reason else fields_of_record(record, told), strict=False):
        held = types.get(name, "text")
        if name not in wanted or held == "text" or field in MISSING_WORDS:
            continue
        text = field.strip()
        number = WHOLE_NUMBER if held == "whole" else NUMERAL
        fine = text in (*TRUE_WORDS, *FALSE_WORDS) if held == "truth" else number.fullmatch(text)
        if (
            not fine
            and text not in MISSING_WORDS
            and text.lower() not in ("inf", "-inf", "+inf", "infinity", "-infinity")
        ):
            wanted_is = {"truth": "true or false", "whole": "a whole number", "number": "a number"}[held]
            reason = f"column {name!r} must be {wanted_is}, got {field!r}"
            break
    if reason:
        bad.note(BadLineError(Place(lines.file, lines.line(k)), 0, reason))
    return not reason
