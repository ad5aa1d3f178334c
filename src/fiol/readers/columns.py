"""What formats with columns share: rows of a table become a batch, by the table encoding of their `ReaderConfig`.

The columns of target, weight and tag have the kind "skip" in the table encoding, so that rows without a target, to
predict for, are read alike.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from fiol.features.arrow_arrays import null_mask, numbers_of_arrow
from fiol.features.cell_rules import cell_text, is_missing
from fiol.features.column_values import BadValueError, ColumnValues
from fiol.features.frames import as_list, refuse_columns
from fiol.features.named_rows import NamedRows
from fiol.features.table_encoding import Column, TableEncoding
from fiol.features.table_rows import has_no_column
from fiol.option_names import option_text
from fiol.readers.bad_lines import BadLines
from fiol.readers.batch import BadLineError, Batch, Place, SourceError

if TYPE_CHECKING:
    from fiol.readers.reader_config import ReaderConfig

#: Fields of a `ReaderConfig` that name a column which is no feature.
NON_FEATURE_COLUMNS = ("target", "weight", "tag")
#: How many columns an error names where one is not there.
MOST_NAMED = 20
#: How many different cells of a column are examples, out of how many first rows.
EXAMPLES, EXAMPLE_ROWS = 3, 100


def arrow_module(name: str = "pyarrow") -> Any:
    """Return a module of pyarrow; raise ImportError, with what to install, if it is missing."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError("reading CSV, Parquet and Arrow files needs pyarrow: pip install fiol[files]") from error


def inferred_fields(columns: Sequence[ColumnValues], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table encoding that the first rows suggest, unless it is given; ValueError if a column is absent."""
    names, aside = (
        [values.name for values in columns],
        [given[name] for name in NON_FEATURE_COLUMNS if given.get(name) is not None],
    )
    for name in NON_FEATURE_COLUMNS[1:]:  # files to predict for may have no target
        if given.get(name) is not None and given[name] not in names:
            raise ValueError(f"for the {name}, {no_column(given[name], names)}")
    given_encoding = TableEncoding.from_spec(given.get("table_encoding"))
    if not given_encoding.complete:
        for column in given_encoding.columns:
            if column.name not in names:
                raise ValueError(
                    f"for the kind of a column ({option_text('columns')}), {no_column(column.name, names)}"
                )
    if given_encoding.complete:  # that of a model, which holds for files of every format
        return {"table_encoding": given_encoding, "pairs": tuple(given.get("pairs") or given_encoding.pairs)}
    examples = {values.name: examples_of(values) for values in columns}
    own = tuple(column for column in given_encoding.columns if column.name not in aside)
    skipped = tuple(Column(name, "skip") for name in aside if name in names)
    pairs = tuple(given.get("pairs") or given_encoding.pairs)
    encoding = dataclasses.replace(given_encoding, columns=(*own, *skipped), pairs=pairs, complete=False).completed_by(
        columns
    )
    return {"table_encoding": encoding, "pairs": pairs, "examples": examples}


def examples_of(values: ColumnValues) -> list[str]:
    """Return the first different cells of a column as text, out of its first rows.

    >>> from fiol.features.column_values import ListedValues
    >>> examples_of(ListedValues("age", [30, None, 30.5, 30, 0]))
    ['30', '30.5', '0']
    """
    first = values.series[:EXAMPLE_ROWS] if isinstance(values.series, list) else values.series.head(EXAMPLE_ROWS)
    cells = first if isinstance(first, list) else first.to_list()
    present = (cell for cell in cells if not is_missing(cell))
    strings = (
        ", ".join(map(str, cell)) if isinstance(cell, (list, np.ndarray)) else cell_text(cell) for cell in present
    )
    return list(dict.fromkeys(strings))[:EXAMPLES]


def no_column(name: str, names: Sequence[str]) -> str:
    """Return the message about a missing column: the columns there are, similar names first.

    >>> no_column("Pirce", ["size", "price"])
    "there is no column 'Pirce': did you mean 'price'? The columns are size, price"
    """
    plain = {other.lower(): other for other in names}
    near = [plain[other] for other in difflib.get_close_matches(name.lower(), plain, 3)]
    hint = f" did you mean {' or '.join(map(repr, near))}?" if near else ""
    some = ", ".join(names[:MOST_NAMED]) + (f", and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else "")
    return f"there is no column {name!r}:{hint} {'The' if near else 'the'} columns are {some}"


def encoding_of(config: ReaderConfig) -> TableEncoding:
    """Return the table encoding of a config, with its pairs."""
    encoding: TableEncoding = config.table_encoding
    return dataclasses.replace(encoding, pairs=config.pairs or encoding.pairs)


@dataclasses.dataclass
class Rows:
    """Rows of a file, before they are features.

    `code(rows, odd)` gives the features of these rows, or raises a BadValueError, unless bad cells are missing, and go
    into the list `odd` (see `TableEncoding.named_rows`); `column(name)` the values of a column,
    None if there is no such column; `line(row)` the line, or row of a table, that a row begins on; `where(row, name)`
    the place of a value in that line, counted in characters from 1, or 0 if it has none.
    """

    count: int
    code: Callable[[Any, list[tuple[int, str, str]] | None], NamedRows]
    column: Callable[[str], Any]
    line: Callable[[int], int]
    file: str
    read: int  #: bytes on disk, until the end of these rows
    where: Callable[[int, str], int] = lambda row, name: 0

    def bad(self, row: int, column: str, reason: str) -> BadLineError:
        """Return the error of a value."""
        return BadLineError(Place(self.file, self.line(row)), self.where(row, column), f"column {column!r} {reason}")


def batch_of(config: ReaderConfig, rows: Rows, bad: BadLines) -> Batch | None:
    """Return a batch of all rows that can be read; None if there are none."""
    if not rows.count:
        return None
    aside = {
        name: rows.column(getattr(config, name)) for name in NON_FEATURE_COLUMNS if getattr(config, name) is not None
    }
    kept = np.arange(rows.count)
    for name in ("target", "weight"):
        if aside.get(name) is not None:
            kept = present(kept, rows, name, getattr(config, name), aside[name], bad)
    found, kept = coded(rows, kept, bad)
    if not len(kept):
        return None
    whole = len(kept) == rows.count
    y, weights, tags = (taken(aside.get(name), kept, whole) for name in NON_FEATURE_COLUMNS)
    return Batch(
        found,
        y,
        None if weights is None else numbers_in(weights, rows, kept, config.weight),
        None if tags is None else ["" if is_missing(tag) else cell_text(tag) for tag in as_list(tags)],
        Place(rows.file, rows.line(int(kept[0]))),
        len(kept),
        rows.read,
        lambda row: rows.line(int(kept[row])),
    )


def present(kept: Any, rows: Rows, role: str, column: str, values: Any, bad: BadLines) -> Any:
    """Return the rows whose target or weight is there; the others are bad lines."""
    lacking = missing_in(values)
    reason = f"is missing: it is the {role}" + (
        "" if bad.on_error == "skip" else f"; {option_text('on_error', 'skip')} leaves such rows out"
    )
    for row in kept[lacking[kept]].tolist():
        bad.note(rows.bad(row, column, reason))
    return kept[~lacking[kept]]


def missing_in(values: Any) -> Any:
    """Which of the values of an Arrow array, or of a list, are missing."""
    if isinstance(values, list):
        return np.array([is_missing(value) for value in values], bool)
    nulls, numbers = null_mask(values), numbers_of_arrow(values)
    lacking = np.zeros(len(values), bool) if nulls is None else nulls
    return lacking | np.isnan(numbers) if numbers is not None and numbers.dtype.kind == "f" else lacking


def taken(values: Any, kept: Any, whole: bool) -> Any:
    """Return the values of some rows."""
    if values is None or whole:
        return values
    return [values[k] for k in kept.tolist()] if isinstance(values, list) else values.take(kept)


def numbers_in(values: Any, rows: Rows, kept: Any, column: str) -> Any:
    """Sample weights as an array."""
    found = np.empty(len(kept))
    for k, value in enumerate(as_list(values)):
        try:
            found[k] = value if isinstance(value, (int, float, str)) else np.nan
        except ValueError:  # one weight that is no number makes the column text
            found[k] = np.nan
        if not 0.0 <= found[k] < np.inf:
            raise rows.bad(int(kept[k]), column, f"must be a number of at least 0, got {value!r}")
    return found


def coded(rows: Rows, kept: Any, bad: BadLines) -> tuple[NamedRows | None, Any]:
    """Return the features of all rows that can be encoded, and which rows these are; the others are bad lines."""
    errors: list[tuple[int, str, str]] = []
    found: NamedRows | None
    if bad.on_error == "missing" and len(kept):
        try:
            found = rows.code(kept, errors)
        except BadValueError as error:
            raise rows.bad(int(kept[error.row]), error.column, error.reason) from None
        for row, column, reason in sorted(errors):
            bad.note_cell(column, rows.bad(int(kept[row]), column, reason))
        return found, kept
    found, kept = coded_but(rows, kept, errors)
    for row, column, reason in sorted(errors):
        bad.note(rows.bad(row, column, reason))
    return found, kept


def coded_but(rows: Rows, kept: Any, errors: list[tuple[int, str, str]]) -> tuple[NamedRows | None, Any]:
    """Return the features of the rows that can be coded, and which rows those are.

    Row, column and reason of every bad row are added to `errors`.
    """
    while len(kept):
        try:
            return rows.code(kept, None), kept
        except BadValueError as error:
            if not error.others and len(kept) > 1:
                break
            wrong = [(error.row, error.reason), *error.others]
            errors += [(int(kept[k]), error.column, reason) for k, reason in wrong]
            kept = np.delete(kept, [k for k, _ in wrong])
    if not len(kept):
        return None, kept
    good = np.concatenate([coded_but(rows, half, errors)[1] for half in np.array_split(kept, 2)])
    return (rows.code(good, None), good) if len(good) else (None, good)


# --- tables of Arrow --------------------------------------------------------------------------


def table_rows(
    config: ReaderConfig,
    table: Any,
    line: Callable[[int], int],
    file: str,
    read: int,
    where: Callable[[int, str], int] = lambda row, name: 0,
) -> Rows:
    """Return the rows of an Arrow table; for `line` and `where` see `Rows`."""
    encoding, names = encoding_of(config), set(table.column_names)
    known = {*encoding.names} - aside_columns(config)
    needed = [name for name in table.column_names if name in known]
    own = table.select(needed)

    def code(kept: Any, odd: list[tuple[int, str, str]] | None) -> NamedRows:
        return encoding.named_rows(own if len(kept) == own.num_rows else own.take(kept), odd, all_columns=False)

    column = lambda name: table.column(name) if name in names else None  # noqa: E731
    return Rows(table.num_rows, code, column, line, file, read, where)


def aside_columns(config: ReaderConfig) -> set[str]:
    """Columns that are no features."""
    return {getattr(config, name) for name in NON_FEATURE_COLUMNS if getattr(config, name) is not None}


def check_columns(config: ReaderConfig, names: Sequence[str], file: str, bad: BadLines, may_lack: bool = False) -> None:
    """Note the columns in which a file differs from a config, those that are no features aside.

    SourceError if it has none of the columns, if errors stop, or if it must have all columns and does not; with
    `may_lack`, as in JSON lines, an absent column is a missing value and no error.
    """
    encoding, aside = encoding_of(config), aside_columns(config)
    absent, unknown = ([name for name in found if name not in aside] for found in encoding.other_columns(names))
    none = bool(absent) and has_no_column(encoding, absent)
    if none or (absent and bad.all_columns and not may_lack) or (unknown and bad.on_error == "stop"):
        try:
            refuse_columns(absent, unknown)
        except ValueError as error:
            hint = header_hint(absent, names) if none and config.options.get("header") else ""
            raise SourceError(f"{file}: {error}{hint}") from None
    bad.note_columns(file, absent, unknown)


def header_hint(columns: Sequence[str], names: Sequence[str]) -> str:
    r"""Return why the names in the first line of a CSV file may be none of the columns.

    >>> header_hint(["age", "city"], ["age;city"])
    " (another delimiter? reader={'delimiter': ';'})"
    >>> header_hint(["age", "city"], ["41", "Rome"])
    ' (the first line is read as the header, as in the training data)'
    """
    for delimiter in ",;\t|":
        if not set(columns).isdisjoint(part for name in names for part in name.split(delimiter)):
            return f" (another delimiter? {option_text('reader', {'delimiter': delimiter})})"
    return " (the first line is read as the header, as in the training data)"


def flat_table(table: Any) -> Any:
    """Return a table without nested columns: those of a struct `a` become `a.b`."""
    is_struct = arrow_module("pyarrow.types").is_struct
    while any(is_struct(field.type) for field in table.schema):
        table = table.flatten()
    return table
