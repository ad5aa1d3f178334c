"""All or nothing: what is remembered of rows is taken back unless the whole call succeeds."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Protocol


class Rewindable(Protocol):
    """An object that can take back what it remembered since a mark."""

    def mark(self) -> Any:
        """A token for `rewind`, made in constant time."""

    def rewind(self, mark: Any) -> None:
        """Forget all that the object remembered since it made this mark."""


class Transaction:
    """`with Transaction(a, b):` whatever is raised inside, KeyboardInterrupt included, a and b are as they were.

    >>> from fiol.intake.vocabulary import Vocabulary
    >>> vocabulary = Vocabulary(["age"])
    >>> with Transaction(vocabulary):
    ...     number = vocabulary.number("income")
    ...     raise OSError("the file is gone")
    Traceback (most recent call last):
    OSError: the file is gone
    >>> vocabulary.names
    ['age']
    """

    __slots__ = ("marks", "things")

    def __init__(self, *things: Rewindable) -> None:
        self.things = things
        self.marks = [thing.mark() for thing in things]

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            for thing, mark in zip(self.things, self.marks, strict=True):
                thing.rewind(mark)
