"""All or nothing: what is remembered of rows is taken back, unless the call succeeds or has learned from some."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Protocol


class Rewindable(Protocol):
    """An object that can take back what it remembered since a mark."""

    def mark(self) -> Any:
        """A token for `rewind`, made in constant time."""

    def rewind(self, mark: Any) -> None:
        """Forget all that the object remembered since it made this mark."""


class Counting(Protocol):
    """A model that counts its rounds, one per row."""

    @property
    def rounds(self) -> int:
        """Rounds made."""


class Transaction:
    """`with Transaction(a, b):` whatever is raised inside, KeyboardInterrupt included, a and b are as they were.

    Not so if the `learner` has learned from rows inside: an interrupt has stopped it in the middle of them, and what
    was remembered is needed. Then a and b stay as they are, and the exception says how many rows (`say_learned`).

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
        if rows_learned(error):  # by a model that is taken back, or that nobody keeps
            say_learned(error, 0)
        try:
            self.rewind()
        except BaseException:  # another interrupt
            self.rewind()
            raise

    def rewind(self) -> None:
        """Take everything back."""
        for thing, mark in zip(self.things, self.marks, strict=True):
            thing.rewind(mark)


def rows_learned(error: BaseException) -> int:
    """How many rows of the call that raised `error` have been learned from; those before its last, if it says so."""
    return getattr(error, "rows_learned", 0)


def say_learned(error: BaseException, rows: int, where: str = "") -> None:
    """Let an exception say how many rows were learned from before it: as `error.rows_learned`, and in a note.

    The note says `where`, too, if that is told.

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
