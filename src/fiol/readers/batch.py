"""What every reader yields: some rows, and what stands beside them in the file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from fiol.components.row import Floats


class Place(NamedTuple):
    """Where rows come from: a file, and the line (or row of a table) that the first of them is, from 1.

    >>> str(Place("clicks.csv", 7))
    'clicks.csv:7'
    """

    file: str  #: as it was named, "-" for standard input
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Batch(NamedTuple):
    """Some rows of a file in order, for `Learner.learn(batch.X, batch.y, batch.weights)`."""

    X: Any  #: rows as `Learner.learn` takes them: a `Chunk`, `NamedRows`, or an Arrow table
    y: Any  #: a target or label per row, in an array or list; None if the rows have none
    weights: Floats | None  #: sample weights; None if all are 1
    tags: list[str] | None  #: what a row is called, for predictions; None if no row has a tag
    place: Place
    rows: int
    read: int  #: bytes of the files, as they are on disk, that were read until the end of this batch
    line: Callable[[int], int | None] | None = None  #: the line of a row, slow to find; None if it is unknown

    def place_of(self, row: int) -> str:
        """Return where a row is, for an error message.

        >>> Batch(None, None, None, None, Place("a.csv", 2), 3, 0, [2, 5, 6].__getitem__).place_of(1)
        'a.csv:5'
        >>> Batch(None, None, None, None, Place("a.csv", 2), 3, 0).place_of(1)
        'row 2 of the 3 rows from a.csv:2 on'
        """
        line = None if self.line is None else self.line(row)
        if line is None:
            return f"row {row + 1:,} of the {self.rows:,} rows from {self.place} on"
        return str(self.place._replace(line=line))


class SourceError(ValueError):
    """A file that cannot be read as what it seems to be: its name, and the reason."""


class BadLineError(ValueError):
    """A line that cannot be read: file, line, column (from 1; 0 for the whole line) and the reason.

    >>> str(BadLineError(Place("clicks.svm", 3), 8, "'x:1' has no number as feature"))
    "clicks.svm:3:8: 'x:1' has no number as feature"
    """

    def __init__(self, place: Place, column: int, reason: str) -> None:
        super().__init__(f"{place}:{column}: {reason}" if column else f"{place}: {reason}")
        self.place, self.column, self.reason = place, column, reason
