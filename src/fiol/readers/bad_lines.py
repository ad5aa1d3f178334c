"""What happens to lines and cells that cannot be read: an error, lines left out and counted, or cells missing."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fiol.option_names import joined_names, option_text

if TYPE_CHECKING:  # the command takes ON_ERROR from here, and starts without numpy
    from fiol.readers.batch import BadLineError

#: What may be done about a bad line or cell.
ON_ERROR = ("stop", "skip", "missing")
#: How many errors are kept, to be shown.
KEPT_ERRORS = 10


class BadLines:
    """Lines that were left out: how many, and the first of them; cells that became missing, by column.

    With `on_error="stop"` the first error is raised. With "skip", lines with a bad cell are bad lines. With "missing",
    bad cells are missing values, and lines that are no rows are still errors.

    Columns that the model does not know are left out, and noted. Without `all_columns`, columns that files do not have
    are missing, and noted too. With "stop", both are errors; in JSON lines an absent key is none.

    >>> from fiol.readers.batch import BadLineError, Place
    >>> bad = BadLines("skip")
    >>> bad.note(BadLineError(Place("a.svm", 3), 8, "no number"))
    >>> bad.count, [str(error) for error in bad.first]
    (1, ['a.svm:3:8: no number'])
    """

    def __init__(self, on_error: str = "stop", all_columns: bool = True) -> None:
        if on_error not in ON_ERROR:
            raise ValueError(f"on_error must be one of {', '.join(ON_ERROR)}, got {on_error!r}")
        self.on_error, self.count = on_error, 0
        self.first: list[BadLineError] = []
        #: How many cells of a column became missing, and the first of them.
        self.cells: dict[str, tuple[int, BadLineError]] = {}
        self.all_columns = all_columns or on_error == "stop"
        #: Columns that the model does not know, and those that are absent, each with the first file.
        self.unknown_columns: dict[str, str] = {}
        self.absent_columns: dict[str, str] = {}
        #: Names of pairs that no row has features of, so far; None where pairs are of columns.
        self.unmet_pairs: set[tuple[str, ...]] | None = None

    def note_columns(self, file: str, absent: Sequence[str], unknown: Sequence[str]) -> None:
        """Note the columns that a file does not have, and those that the model does not know."""
        for name in absent:
            self.absent_columns.setdefault(name, file)
        for name in unknown:
            self.unknown_columns.setdefault(name, file)

    def note_unmet_pairs(self, unmet: set[tuple[str, ...]]) -> None:
        """Note the pairs that have no products in some rows; those of all rows so far remain."""
        self.unmet_pairs = unmet if self.unmet_pairs is None else self.unmet_pairs & unmet

    def note(self, error: BadLineError) -> None:
        """Count this line, or raise the error."""
        if self.on_error != "skip":
            raise error
        self.count += 1
        if len(self.first) < KEPT_ERRORS:
            self.first.append(error)

    def note_cell(self, column: str, error: BadLineError) -> None:
        """Count a cell that becomes missing."""
        count, first = self.cells.get(column, (0, error))
        self.cells[column] = count + 1, first


def unreadable_column(reader: Any, kinds: Mapping[str, str]) -> str | None:
    """Return a sentence about the first column of which more than half of the cells could not be read; None if none is.

    Only columns in `kinds`, by name, are looked at. The sentence names the kind, the counts and the first cell.
    """
    for column, (count, first) in reader.odd_cells.items():
        if column in kinds and 2 * count > reader.rows:
            return f"{count:,} of {reader.rows:,} cells of column {column!r} ({kinds[column]}) cannot be read: {first}"
    return None


def warn_of_reading(reader: Any, stacklevel: int) -> None:
    """Warn of what `reader_messages` names; `stacklevel` is as in `warnings.warn`, seen from the caller."""
    for message in reader_messages(reader):
        warnings.warn(message, stacklevel=stacklevel + 1)


def unmet_pair_messages(reader: Any) -> list[str]:
    """Return a sentence for every pair that has no products, because one of its namespaces is in no row."""
    return [
        f"{option_text('pairs')} {joined_names(pair)} has no effect: one of the namespaces is in no row"
        for pair in sorted(getattr(reader, "unmet_pairs", ()))
    ]


def reader_messages(reader: Any) -> list[str]:
    """Return a sentence on unknown and on absent columns, and one for every column with cells that became missing."""
    from fiol.features.frames import enumeration  # here: the command starts without numpy

    messages = []
    for found, what in (
        (getattr(reader, "unknown_columns", {}), "columns that the model does not know were left out"),
        (getattr(reader, "absent_columns", {}), "columns of the model were absent, and count as missing"),
    ):
        if found:
            files = enumeration(list(dict.fromkeys(found.values())), str)
            messages.append(f"{files}: {what}: {enumeration(list(found))}")
    return messages + [
        f"{'1 cell' if count == 1 else f'{count:,} cells'} of column {column!r} could not be read and became missing, "
        f"the first at {first}"
        for column, (count, first) in getattr(reader, "odd_cells", {}).items()
    ]
