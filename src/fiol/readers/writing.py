"""Writers of svmlight and of Vowpal Wabbit's text, which the readers read back to the same bits."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from fiol.features.chunk import Chunk
from fiol.features.named_rows import NamedRows
from fiol.persistence.atomic_file import output_file
from fiol.readers.batch import Batch, Place
from fiol.readers.namespaces import split_name

#: Characters that names and tags in Vowpal Wabbit's text cannot have: with those that escapes use, and without.
UNFIT = re.compile(r"[\s|:%\x00]")
UNFIT_AS_THEY_ARE = re.compile(r"[ \t\r\n|:]")


class CannotWriteError(ValueError):
    """A row that a format cannot express; the message has its place and the reason.

    >>> str(CannotWriteError(Place("a.csv", 3), "no target"))
    'row 1 of those from a.csv:3 on cannot be written: no target'
    """

    def __init__(self, place: Place, reason: str, row: int = 0) -> None:
        super().__init__(f"row {row + 1} of those from {place} on cannot be written: {reason}")


def write_rows(path: Any, batches: Iterable[Batch], format: str, overwrite: bool = False, **options: Any) -> int:
    """Write batches to a file, or to an open one, as "svmlight" or "vw", and return the number of rows.

    The file appears when it is complete. FileExistsError if it exists and `overwrite` is not set. For options see
    `svmlight_lines` and `vw_lines`.

    >>> import io
    >>> rows = Batch(Chunk(np.array([0, 2]), np.array([0, 4], np.int32), np.array([0.5, 1.0])), [1.0], None, None,
    ...              Place("-", 1), 1, 0)
    >>> file = io.BytesIO()
    >>> write_rows(file, [rows], "svmlight"), file.getvalue()
    (1, b'1 1:0.5 5:1\\n')
    """
    if format not in WRITERS:
        raise ValueError(f"format must be one of {', '.join(WRITERS)}, got {format!r}")
    with file_for(path, overwrite) as file:
        rows = 0
        for batch in batches:
            file.write("".join(WRITERS[format](batch, **options)).encode("utf-8"))
            rows += batch.rows
    return rows


@contextlib.contextmanager
def file_for(path: Any, overwrite: bool) -> Iterator[Any]:
    """Yield an open file itself, or a temporary one that replaces the file at the path if no exception is raised."""
    if hasattr(path, "write"):
        yield path
        return
    with output_file(path, overwrite) as file:
        yield file


def svmlight_lines(batch: Batch, zero_based: bool = False) -> Iterator[str]:
    """Yield the rows of a batch as lines of svmlight, features numbered from 1 or, with `zero_based`, from 0.

    Every row needs a target and numbers for features; tags become comments. CannotWriteError for what svmlight cannot
    express: names, sample weights, and rows without a target.
    """
    if not isinstance(batch.X, Chunk):
        raise CannotWriteError(
            batch.place, "svmlight has numbers for features, not names: hash them (bits), or write vw"
        )
    if batch.weights is not None:
        raise CannotWriteError(batch.place, "svmlight has no place for sample weights")
    base, (indptr, indices, data) = 0 if zero_based else 1, batch.X
    entries = joined_entries(indices, lambda i: f" {i + base}:", data, number_text)
    for row, (a, b) in enumerate(pairwise(indptr.tolist())):
        target = written_target(batch, row)
        if target is None:
            raise CannotWriteError(batch.place, "a line of svmlight starts with a target", row)
        yield "".join([target, *entries[a:b], comment(batch.tags[row]) if batch.tags else "", "\n"])


def vw_lines(batch: Batch, escape: bool = False) -> Iterator[str]:
    """Yield the rows of a batch as lines of Vowpal Wabbit's text.

    A name `a^b` is `b` in the namespace `a`; numbers of features are names. Blanks, bars and colons cannot be part of
    a name: CannotWriteError, or with `escape` they, and %, are percent-encoded (`New%20York`), and read back so. A
    weight without a target is a CannotWriteError, too.
    """
    escaped: Callable[[str], str] = percent_encoded if escape else (lambda name: name)
    indptr, indices, data = batch.X.chunk if isinstance(batch.X, NamedRows) else batch.X
    names = batch.X.names if isinstance(batch.X, NamedRows) else Numerals()
    ends = indptr.tolist()
    row_of = np.repeat(np.arange(len(ends) - 1), np.diff(indptr))
    found, first = np.unique(indices, return_index=True)
    called = [names[i] for i in found.tolist()]
    split = [split_name(name) for name in called]
    if UNFIT.search("".join(called)) or "" in called:  # seldom
        places = row_of[first].tolist()
        split = [fit_parts(*both, escaped, batch.place, k) for both, k in zip(split, places, strict=True)]
    known = dict(zip(found.tolist(), split, strict=True))
    entries = joined_entries(
        indices, lambda i: f" {known[i][1]}", data, lambda x: "" if x == 1.0 else f":{number_text(x)}"
    )
    numbers = {space: k for k, space in enumerate(dict.fromkeys(space for space, _ in known.values()))}
    spaces = np.array([numbers[known[i][0]] for i in found.tolist()], np.int64)[np.searchsorted(found, indices)]
    is_first = np.diff(row_of, prepend=-1) != 0
    for k in np.flatnonzero(is_first | (np.diff(spaces, prepend=-1) != 0)).tolist():  # another namespace
        entries[k] = f"{'' if is_first[k] else ' '}|{known[int(indices[k])][0]}{entries[k]}"
    for row, (a, b) in enumerate(pairwise(ends)):
        target, weight = written_target(batch, row), 1.0 if batch.weights is None else float(batch.weights[row])
        tag = batch.tags[row] if batch.tags else ""
        if target is None and weight != 1.0:
            raise CannotWriteError(batch.place, "Vowpal Wabbit's text has no place for a weight without a target", row)
        parts = [] if target is None else [target]
        if weight != 1.0:
            parts.append(number_text(weight))
        if tag:
            parts.append("'" + fit(escaped(tag), "tag", batch.place, row))
        yield "".join([" ".join([*parts, ""]), *(entries[a:b] if b > a else "|"), "\n"])


def joined_entries(features: Any, name: Callable[[int], str], values: Any, text: Callable[[float], str]) -> list[str]:
    """Return name and value of every entry as text; equal names and equal values are formatted once.

    >>> joined_entries(np.array([0, 1, 0]), "xy".__getitem__, np.array([1.0, 1.0, 2.5]), number_text)
    ['x1', 'y1', 'x2.5']
    """
    found, which = np.unique(features, return_inverse=True)
    known, of_value = np.unique(values, return_inverse=True)
    names, values = [name(i) for i in found.tolist()], [text(x) for x in known.tolist()]
    return [names[i] + values[k] for i, k in zip(which.tolist(), of_value.tolist(), strict=True)]


class Numerals:
    """Names of numbered features."""

    def __getitem__(self, number: int) -> str:
        return str(number)


def number_text(value: float) -> str:
    """Return the shortest text that is exactly this number, without a fraction of 0.

    >>> number_text(1.0), number_text(-0.1), number_text(1e300)
    ('1', '-0.1', '1e+300')
    """
    return repr(value).removesuffix(".0")


def written_target(batch: Batch, row: int) -> str | None:
    """Return the target of a row as text with all its digits; None if there is none."""
    if batch.y is None:
        return None
    target = batch.y[row]
    target = target.as_py() if hasattr(target, "as_py") else target
    if target is None:
        return None
    if isinstance(target, (int, np.integer)) and not isinstance(target, bool):
        return str(int(target))  # a float would lose digits beyond 2^53
    try:
        number = float(target)
    except (TypeError, ValueError):
        raise CannotWriteError(
            batch.place, f"the target {target!r} is no number: replace labels by numbers, such as -1 and 1", row
        ) from None
    return None if np.isnan(number) else number_text(number)


def comment(tag: str) -> str:
    """Return a tag as a comment on one line."""
    return f" # {' '.join(tag.split())}" if tag else ""


def fit(text: str, what: str, place: Place, row: int) -> str:
    """Return a name or tag that a line can hold; CannotWriteError if it cannot."""
    if text == "" or UNFIT_AS_THEY_ARE.search(text):
        reason = f"the {what} {text!r} has a blank, a bar or a colon, or is empty: escape=True writes it another way"
        raise CannotWriteError(place, reason, row)
    return text


def fit_parts(namespace: str, feature: str, escaped: Any, place: Place, row: int) -> tuple[str, str]:
    """Return a namespace and a name in it that a line can hold; CannotWriteError if they are none."""
    return namespace and fit(escaped(namespace), "name", place, row), fit(escaped(feature), "name", place, row)


def percent_encoded(name: str) -> str:
    """Return a name with blanks, bars, colons and % percent-encoded; the empty name is %.

    >>> percent_encoded("text:new york")
    'text%3Anew%20york'
    """
    return UNFIT.sub(lambda found: "".join(f"%{c:02X}" for c in found.group().encode()), name) or "%"


#: Functions that format a batch as lines, by format.
WRITERS: dict[str, Callable[..., Iterator[str]]] = {"svmlight": svmlight_lines, "vw": vw_lines}
