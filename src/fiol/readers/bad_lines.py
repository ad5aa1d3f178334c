"""What happens to lines that cannot be read: the first one stops, or all are left out and counted."""

from __future__ import annotations

from fiol.readers.batch import BadLineError

#: What may be done about a bad line.
ON_ERROR = ("stop", "skip")
#: So many of them are kept, to be shown.
SHOWN = 10


class BadLines:
    """Lines that were left out: how many, and the first of them. With `on_error="stop"` the first is raised.

    >>> from fiol.readers.batch import Place
    >>> bad = BadLines("skip")
    >>> bad.note(BadLineError(Place("a.svm", 3), 8, "no number"))
    >>> bad.count, [str(error) for error in bad.first]
    (1, ['a.svm:3:8: no number'])
    """

    def __init__(self, on_error: str = "stop") -> None:
        if on_error not in ON_ERROR:
            raise ValueError(f"on_error must be one of {', '.join(ON_ERROR)}, got {on_error!r}")
        self.on_error, self.count, self.first = on_error, 0, list[BadLineError]()

    def note(self, error: BadLineError) -> None:
        """Count this line, or raise the error."""
        if self.on_error == "stop":
            raise error
        self.count += 1
        if len(self.first) < SHOWN:
            self.first.append(error)
