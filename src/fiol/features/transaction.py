"""Transactions: changes are rolled back unless the call succeeds, or a learner has learned from some rows."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Protocol


class Rewindable(Protocol):
    """An object that can undo its changes since a mark."""

    def mark(self) -> Any:
        """Return a token for `rewind`, made in constant time."""

    def rewind(self, mark: Any) -> None:
        """Undo all changes since this mark."""


class Counting(Protocol):
    """A model that counts its rounds, one per row."""

    @property
    def rounds(self) -> int:
        """Rounds made."""


class Transaction:
    """`with Transaction(a, b):` restores a and b if any exception, also KeyboardInterrupt, leaves the block.

    If the `learner` has learned from rows inside, an interrupt stopped it between rows, and their features are needed:
    a and b stay as they are, and the exception has the number of rows (`say_learned`).

    >>> from fiol.features.vocabulary import Vocabulary
    >>> vocabulary = Vocabulary(["age"])
    >>> with Transaction(vocabulary):
    ...     number = vocabulary.number("income")
    ...     raise OSError("the file is gone")
    Traceback (most recent call last):
    OSError: the file is gone
    >>> vocabulary.names
    ['age']
    """

    __slots__ = ("learner", "marks", "rounds", "things")

    def __init__(self, *things: Rewindable, learner: Counting | None = None) -> None:
        self.things, self.learner = things, learner
        self.rounds = 0 if learner is None else learner.rounds
        self.marks = [thing.mark() for thing in things]

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            return
        learned = 0 if self.learner is None else self.learner.rounds - self.rounds
        if learned:
            say_learned(error, learned)
            return
        if rows_learned(error):  # by a model that is rolled back or dropped
            say_learned(error, 0)
        try:
            self.rewind()
        except BaseException:  # another interrupt
            self.rewind()
            raise

    def rewind(self) -> None:
        """Undo all changes."""
        for thing, mark in zip(self.things, self.marks, strict=True):
            thing.rewind(mark)


def rows_learned(error: BaseException) -> int:
    """Return how many rows of the call that raised `error` were learned from."""
    return getattr(error, "rows_learned", 0)


def say_learned(error: BaseException, rows: int, where: str = "") -> None:
    """Store the number of rows learned from before an exception as `error.rows_learned`, and in a note.

    `where` is put before the note.

    >>> error = KeyboardInterrupt()
    >>> say_learned(error, 3), say_learned(error, 5)
    (None, None)
    >>> error.rows_learned, getattr(error, "__notes__", [])[1:]
    (5, [])
    """
    error.rows_learned = rows  # type: ignore[attr-defined]
    if hasattr(error, "add_note"):
        notes = [note for note in getattr(error, "__notes__", ()) if not note.endswith(NOTE)]
        error.__notes__ = [*notes, f"{where}the first {rows} {NOTE}"] if rows else notes


#: How a note of `say_learned` ends.
NOTE = "rows have been learned from"
