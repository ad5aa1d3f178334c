"""What the columns of CSV hold, numbers, truth values or text, and records as typed tables."""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from fiol.features.arrow_arrays import numbers_of_arrow
from fiol.features.cell_rules import is_marker, number_of_text
from fiol.features.column_kinds import COLUMN_KINDS, KIND_SHARE
from fiol.features.column_values import NUMERIC_TEXT, ColumnValues, columns_of, comma_hint
from fiol.features.frames import as_frame
from fiol.features.table_encoding import TableEncoding
from fiol.option_names import option_text
from fiol.readers.bad_lines import BadLines
from fiol.readers.batch import BadLineError, Place
from fiol.readers.columns import arrow_module
from fiol.readers.loops import codes

if TYPE_CHECKING:
    from fiol.readers.csv import CsvRecords

TRUE_WORDS, FALSE_WORDS = ["True", "TRUE", "true"], ["False", "FALSE", "false"]
#: A whole number.
WHOLE_NUMBER = re.compile(r"\s*[+-]?\d+\s*")
#: Kinds of columns that are read as text.
TEXT_KINDS = {
    name for name, kind in COLUMN_KINDS.items() if name not in ("number", "undecided") and not kind.is_left_out
}
#: What a cell must be, by what its column holds.
WANTED = {"truth": "true or false", "whole": "a whole number", "number": "a number"}


class CsvTypes:
    """What columns hold: `types` has number, whole (of targets), truth or text by their names.

    `options` are the options of the format. Cells of the columns `strict`, such as a target, make no missing values.
    """

    def __init__(
        self,
        types: Mapping[str, str],
        options: Mapping[str, Any],
        encoding: TableEncoding,
        strict: set[str] | frozenset[str] = frozenset(),
    ) -> None:
        self.types, self.options, self.encoding, self.strict = types, options, encoding, strict
        #: Fields that are missing in every column.
        self.nulls = ["", *(codes.MISSING_WORDS if encoding.missing is None else encoding.missing)]

    # --- from the first records ---------------------------------------------------------------

    def inferred(self, table: Any, target: Any) -> dict[str, str]:
        """Return what the columns of a table of text hold; a target may be whole numbers."""
        kinds = {column.name: column.kind for column in self.encoding.columns}
        columns = [self.encoding.prepared(values, []) for values in columns_of(as_frame(table))]
        return {v.name: self.inferred_type(v, v.name == target, kinds.get(v.name)) for v in columns}

    def inferred_type(self, values: ColumnValues, target: bool, kind: str | None) -> str:
        """Return what one column of text holds, where its kind may be given."""
        cells = values.cell_counts()
        if kind in TEXT_KINDS or not (cells or kind == "number"):
            return "text"
        if target and all(WHOLE_NUMBER.fullmatch(text) for text in cells):
            return "whole" if all(-(2**63) <= int(text) < 2**63 for text in cells) else "text"
        numbers = sum(count for text, count in cells.items() if self.is_number(text))
        share = 1.0 if target else KIND_SHARE  # classes may be numbers and text
        if cells and {*cells} <= {*TRUE_WORDS, *FALSE_WORDS}:
            return "truth"
        if kind == "number" or numbers >= share * sum(cells.values()):
            return "number"
        self.warn_of_commas(values.name, cells)
        return "text"

    def warn_of_commas(self, name: str, cells: Mapping[str, int]) -> None:
        """Warn if nearly all cells of a column of text are numbers with a comma."""
        commas = [text for text in cells if comma_hint(text)]
        if self.options["decimal"] == "." and sum(cells[text] for text in commas) >= KIND_SHARE * sum(cells.values()):
            advice = f"if that is the decimal point, give {option_text('reader', {'decimal': ','})}"
            warnings.warn(
                f"column {name!r} is text with commas in numbers, such as {commas[0]}: {advice}", stacklevel=2
            )

    def is_number(self, text: str) -> bool:
        """Return whether a text is a number, with the decimal point of the options."""
        return NUMERIC_TEXT.fullmatch(self.with_point(text)) is not None

    def with_point(self, text: str) -> str:
        """Return a number with a decimal point; one with a point where there should be a comma is no number."""
        if self.options["decimal"] == ".":
            return text
        return text.replace(".", " . ").replace(",", ".")

    # --- tables -------------------------------------------------------------------------------

    def table(self, lines: CsvRecords, names: list[str], wanted: list[str], bad: BadLines) -> tuple[Any, CsvRecords]:
        """Return the wanted columns of records, and the records: without those that are bad lines."""
        invalid = arrow_module().ArrowInvalid
        try:
            table = self.read(lines.data, names, wanted, self.types)
            if self.has_infinite(table):
                return self.table_by_cell(lines, names, wanted, bad)
        except invalid:
            lines = lines.kept(np.array([is_utf8_record(lines, k, bad) for k in range(len(lines))], bool))
            try:
                return self.table_by_cell(lines, names, wanted, bad)
            except invalid as error:
                if len(lines) == 1:
                    bad.note(BadLineError(Place(lines.file, lines.line(0)), 0, str(error)))
                    return self.read(b"", names, wanted, self.types), lines.kept(np.zeros(1, bool))
                early = np.arange(len(lines)) < len(lines) // 2  # errors that only pyarrow finds are located by halving
                parts = [self.table(lines.kept(half), names, wanted, bad) for half in (early, ~early)]
                kept = np.isin(lines.lines, np.concatenate([part.lines for _, part in parts]))
                return arrow_module().concat_tables([table for table, _ in parts]), lines.kept(kept)
        return same_rows(table, lines), lines

    def read(self, data: bytes, names: list[str], wanted: list[str], types: Mapping[str, str]) -> Any:
        """Return records as an Arrow table of the wanted columns."""
        reader, arrow = arrow_module("pyarrow.csv"), arrow_module()
        kinds = {name: arrow_types()[types.get(name, "text")] for name in wanted}
        if not data:
            return arrow.table({name: arrow.array([], kinds[name]) for name in wanted})
        convert = reader.ConvertOptions(
            column_types=kinds, null_values=self.nulls, strings_can_be_null=True, true_values=TRUE_WORDS,
            false_values=FALSE_WORDS, include_columns=wanted, decimal_point=self.options["decimal"],
        )  # fmt: skip
        parse = reader.ParseOptions(
            delimiter=self.options["delimiter"],
            quote_char=self.options["quote"] or False,
            newlines_in_values=bool(self.options["quote"]),
        )
        read = reader.ReadOptions(column_names=names, block_size=len(data) + 1, use_threads=False)
        return reader.read_csv(arrow.py_buffer(data), read_options=read, parse_options=parse, convert_options=convert)

    def has_infinite(self, table: Any) -> bool:
        """Return whether pyarrow read a number that is not finite, such as inf."""
        numbers = (table.column(name) for name in table.column_names if self.types.get(name) == "number")
        return any(not np.isfinite(numbers_of_arrow(column.drop_null())).all() for column in numbers)

    def table_by_cell(
        self, lines: CsvRecords, names: list[str], wanted: list[str], bad: BadLines
    ) -> tuple[Any, CsvRecords]:
        """Return the same as `table`, with cells of numbers and truth values read one by one."""
        arrow = arrow_module()
        table = same_rows(self.read(lines.data, names, wanted, {}), lines)
        wrong, right = list[tuple[int, str, str]](), np.ones(len(lines), bool)
        for place, name in enumerate(table.column_names):
            held = self.types.get(name, "text")
            if held == "text":
                continue
            found: list[Any] = []
            for row, field in enumerate(table.column(name).to_pylist()):
                try:
                    found.append(self.parsed(field, held))
                except ValueError:
                    found.append(None)
                    reason = f"column {name!r} must be {WANTED[held]}, got {field!r}{comma_hint(field)}"
                    wrong.append((row, name, reason))
            table = table.set_column(place, name, arrow.array(found, arrow_types()[held]))
        for row, name, reason in sorted(wrong):
            where = lines.place_of_field(names, self.options, row, name)
            error = BadLineError(Place(lines.file, lines.line(row)), where, reason)
            if bad.on_error == "missing" and name not in self.strict:
                bad.note_cell(name, error)
            elif right[row]:
                bad.note(error)
                right[row] = False
        return (table, lines) if right.all() else (table.filter(arrow.array(right)), lines.kept(right))

    def parsed(self, field: str | None, held: str) -> Any:
        """Return a field as a number or truth value, None for missing ones; raise ValueError if it is none."""
        if field is None or is_marker(field, self.encoding.markers):
            return None
        text = field.strip()
        if held == "truth":
            return bool([text in FALSE_WORDS, text in TRUE_WORDS].index(True))
        if held == "whole":
            if not WHOLE_NUMBER.fullmatch(text) or not -(2**63) <= int(text) < 2**63:
                raise ValueError
            return int(text)
        return number_of_text(self.with_point(text))


@functools.cache
def arrow_types() -> dict[str, Any]:
    """Return the types of Arrow by what columns hold."""
    arrow = arrow_module()
    return {"number": arrow.float64(), "whole": arrow.int64(), "truth": arrow.bool_(), "text": arrow.string()}


def same_rows(table: Any, lines: CsvRecords) -> Any:
    """Return a table that has as many rows as there are records; raise BadLineError if it has not."""
    if table.num_rows != len(lines):
        where = Place(lines.file, lines.line(0))
        reason = f"{len(lines)} records from here on were read as {table.num_rows}: check the quotes"
        raise BadLineError(where, 0, reason)
    return table


def is_utf8_record(lines: CsvRecords, k: int, bad: BadLines) -> bool:
    """Return whether a record is text in UTF-8; if not, it is a bad line."""
    try:
        lines.record(k).decode("utf-8")
    except UnicodeDecodeError as error:
        reason = f"is no text in UTF-8: {error.reason} at byte {error.start + 1}"
        bad.note(BadLineError(Place(lines.file, lines.line(k)), 0, reason))
        return False
    return True
