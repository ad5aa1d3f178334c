"""Date formats such as %m/%d/%Y: which are allowed, which one the cells of a column have, and whole columns as moments.

The rule of one cell is `fiol.features.cell_rules.moment_of_value`; the arrays here follow it, and leave to it what they
do not cover: time zones, fractions of seconds, blanks around a text.
"""

from __future__ import annotations

import functools
import itertools
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fiol.features.cell_rules import moment_of_value
from fiol.features.column_kinds import DATE_LETTERS, KIND_SHARE
from fiol.option_names import Wording, option_text

#: Days are counted from here, so that they are small numbers.
FIRST_DAY = np.datetime64("2000-01-01", "us")
NO_MOMENT = np.datetime64("NaT", "us")
#: A part of a format, or a character that stands for itself.
FORMAT_PIECE = re.compile(r"%(.?)|(.)", re.DOTALL)
#: ISO dates and date-times without zone and fraction of a second: all parts have all their digits.
ISO_FORMATS = {
    "%Y-%m-%d": 10, "%Y-%m-%dT%H:%M": 16, "%Y-%m-%d %H:%M": 16, "%Y-%m-%dT%H:%M:%S": 19, "%Y-%m-%d %H:%M:%S": 19
}  # fmt: skip
#: Formats that are recognized: years have four digits, because 1.2.03 may be a version.
DAYS = (
    *(f"{a}{mark}{b}{mark}%Y" for mark in "/.-" for a, b in (("%m", "%d"), ("%d", "%m"))),
    *(f"%Y{mark}%m{mark}%d" for mark in "/.-"),
    *(f"%d{mark}%b{mark}%Y" for mark in ("-", " ", "/", "")),
    "%b %d, %Y",
    "%b %d %Y",
    "%Y-%b-%d",
)
CLOCKS = ("", *(f" {clock}" for clock in ("%H:%M", "%H:%M:%S", "%I:%M %p", "%I:%M:%S %p", "%I:%M%p", "%I:%M:%S%p")))
KNOWN_FORMATS = tuple(day + clock for day in DAYS for clock in CLOCKS)
#: Formats that are not inferred, but give a hint.
SHORT_DAYS = (*(f"{a}{mark}{b}{mark}%y" for mark in "/.-" for a, b in (("%m", "%d"), ("%d", "%m"))),
              *(f"%d{mark}%b{mark}%y" for mark in ("-", " ", "/")))  # fmt: skip
SHORT_FORMATS = tuple(day + clock for day in SHORT_DAYS for clock in CLOCKS)
#: A column is dates or times only if one of its first different cells is: others need not be looked at.
FIRST_TEXTS = 100
#: The number or word of a part of a date, how an ISO date begins, and the sign of each part in a shape.
SHAPE_PIECE, ISO_START = re.compile(r"[0-9]+|[a-z]+"), re.compile(r"\s*[0-9]{4}-[0-9]{2}-[0-9]{2}")
SHAPE_SIGNS = {"Y": "Y", "b": "B", "p": "P"}
#: The first letters of months as one number, in order, and the months.
MONTH_WORDS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
MONTH_CODES = np.array([int.from_bytes(word.encode(), "big") for word in MONTH_WORDS])


def format_pieces(form: str) -> list[tuple[str, str]]:
    """Return the pieces of a format: the letter of a part, or "" and a character that stands for itself.

    >>> format_pieces("%m/%Y")
    [('m', ''), ('', '/'), ('Y', '')]
    """
    return [(letter, mark) for letter, mark in FORMAT_PIECE.findall(form)]


def check_format(form: Any) -> None:
    """Raise ValueError unless a text is a date format: day, month and year, and possibly a time of day.

    >>> check_format("%d.%m.%Y %H:%M")
    >>> check_format("%m/%d")
    Traceback (most recent call last):
    ValueError: a date format needs one of %Y and %y, got '%m/%d'
    """
    if not isinstance(form, str):
        raise ValueError(f"a date format must be a text such as %m/%d/%Y, got {form!r}")
    pieces = FORMAT_PIECE.findall(form)
    letters = "".join(letter for letter, mark in pieces if not mark)
    if "%" in re.sub(f"%[{DATE_LETTERS}]", "", form) or len(set(letters)) < len(letters):
        parts = ", ".join(f"%{letter}" for letter in DATE_LETTERS)
        raise ValueError(f"a date format may have each of {parts} once, and no other part, got {form!r}")
    if any(mark.isdigit() or not mark.isprintable() for _, mark in pieces) or form.strip() != form:
        raise ValueError(f"a date format must have no digits, and no blanks at its ends, got {form!r}")
    for choice in ("Yy", "mb", "d"):
        if sum(letter in letters for letter in choice) != 1:
            raise ValueError(f"a date format needs one of {' and '.join(f'%{c}' for c in choice)}, got {form!r}")
    clock = "".join(letter for letter in "HIpMS" if letter in letters)
    if clock not in ("", "H", "HM", "HMS", "Ip", "IpM", "IpMS"):
        raise ValueError(f"the time of a date format must be as %H:%M:%S or %I:%M:%S %p, got {form!r}")


# --- inference --------------------------------------------------------------------------------


def infer_format(name: str, cells: Mapping[str, int]) -> str | None:
    """Return the format that nearly all cells of a column have: "" for ISO dates, None if they are no dates.

    `cells` is how often each text occurs, without missing markers. Of several formats the one of most cells is
    returned. Raise ValueError if day and month cannot be distinguished. With dots the day is first. Years of two digits
    are not inferred, but give a warning.

    >>> infer_format("d", {"2024-03-01": 1}), infer_format("d", {"5/6/2011": 1, "5/28/2011": 1})
    ('', '%m/%d/%Y')
    >>> infer_format("d", {"5/28/2011": 9, "soon": 1}), infer_format("d", {"soon": 9})
    ('%m/%d/%Y', None)
    """
    found = most_common_formats(cells, KNOWN_FORMATS)
    if len(found) > 1 and "" in found:
        return ""
    if len(found) > 1 and "." in found[0]:
        found = [form for form in found if form.startswith("%d")]
    if len(found) > 1:
        both = " or ".join(found)
        example = next(text for text in cells if moment_of_text(text, found[0]) is not None)
        raise ValueError(
            f"column {name!r}: day and month cannot be distinguished, {example!r} may be {both}: give the format by "
            f"{option_text('columns', {name: f'date:{found[0]}'})}, or {option_text('columns', {name: 'category'})}"
            f"{'' if Wording.for_command else ' (table_encoding of learners and estimators)'}"
        )
    if not found:
        warn_of_short_years(name, cells)
    return found[0] if found else None


def warn_of_short_years(name: str, cells: Mapping[str, int]) -> None:
    """Warn if nearly all cells of a column may be dates with years of two digits, which are not inferred.

    >>> import pytest
    >>> with pytest.warns(UserWarning, match="years of two digits, such as 3/17/11: if that is so"):
    ...     warn_of_short_years("d", {"3/17/11": 1})
    """
    found = most_common_formats(cells, SHORT_FORMATS)
    if found:
        example = next(text for text in cells if moment_of_text(text, found[0]) is not None)
        advice = " or ".join(option_text("columns", {name: f"date:{form}"}) for form in found)
        warnings.warn(
            f"column {name!r} is text that may be dates with years of two digits, such as {example}: if that is so, "
            f"give {advice}",
            stacklevel=2,
        )


def most_common_formats(cells: Mapping[str, int], known: Sequence[str]) -> list[str]:
    """Return those of the known formats, and of ISO dates (""), that nearly all cells have, and most of them.

    >>> most_common_formats({"5/6/2011": 19, "5/28/2011": 1}, KNOWN_FORMATS)
    ['%m/%d/%Y']
    """
    candidates = {form for text in itertools.islice(cells, FIRST_TEXTS) for form in formats_of_shape(text)}
    counts = {
        form: count_moments(cells, functools.partial(moments_of_strings, form=form))
        for form in ("", *known)
        if form in candidates
    }
    most = max(counts.values(), default=0)
    return [form for form, count in counts.items() if count == most > 0]


def formats_of_shape(text: str) -> Iterator[str]:
    """Yield the formats that a text may have by its marks and the lengths of its numbers, "" for ISO dates.

    >>> [form for form in formats_of_shape("5/28/2011") if form in KNOWN_FORMATS], list(formats_of_shape("2011"))
    (['%m/%d/%Y', '%d/%m/%Y'], [])
    """
    if ISO_START.match(text):
        yield ""
    shape = SHAPE_PIECE.sub(lambda piece: sign_of_piece(piece[0]), text.strip().lower())
    yield from formats_by_shape().get(shape, ())


@functools.cache
def formats_by_shape() -> dict[str, list[str]]:
    """Return the formats of every shape."""
    found: dict[str, list[str]] = {}
    for form in (*KNOWN_FORMATS, *SHORT_FORMATS):
        found.setdefault(shape_of_format(form), []).append(form)
    return found


def sign_of_piece(piece: str) -> str:
    """Return the sign of a number or word in the shape of a date: Y for a year, N for one or two digits, B, P."""
    if piece.isdigit():
        return "Y" if len(piece) == 4 else "N" if len(piece) < 3 else piece
    return "B" if piece in MONTH_WORDS else "P" if piece in ("am", "pm") else piece


def shape_of_format(form: str) -> str:
    """Return the shape that strings in a format have.

    >>> shape_of_format("%b %d, %Y %I:%M%p")
    'B N, Y N:NP'
    """
    return "".join(SHAPE_SIGNS.get(letter, "N") if letter else mark for letter, mark in format_pieces(form))


def count_moments(cells: Mapping[str, int], parse: Callable[[list[str]], Any]) -> int:
    """Return how many cells `parse` makes moments, 0 if these are not nearly all: no more strings are parsed then."""
    total = right = sum(cells.values())
    strings = list(cells)
    for start in range(0, len(cells), 1000):
        some = strings[start : start + 1000]
        right -= sum(cells[some[k]] for k in np.flatnonzero(np.isnat(parse(some))).tolist())
        if right < KIND_SHARE * total:
            return 0
    return right


# --- moments ----------------------------------------------------------------------------------


def moment_of_text(text: str, form: str) -> Any:
    """Return the moment in a text, None if it is no date in this format.

    >>> moment_of_text("2024-03-01 07:30+02:00", ""), moment_of_text("2/30/2024", "%m/%d/%Y")
    (np.datetime64('2024-03-01T07:30:00.000000'), None)
    """
    try:
        days, _, micros = moment_of_value(text, form)
    except ValueError:
        return None
    return np.datetime64(days * 86400000000 + micros, "us")


def moments_of_strings(strings: Sequence[str], form: str) -> Any:
    """Return strings in a format, "" for ISO dates, as moments, NaT for those that are no dates.

    >>> moments_of_strings(["5/28/2011", "28/5/2011"], "%m/%d/%Y")
    array(['2011-05-28T00:00:00.000000',                        'NaT'],
          dtype='datetime64[us]')
    """
    data = [text.encode("utf-8", "surrogatepass") for text in strings]
    ends = np.cumsum([0, *map(len, data)])
    found = moments_in_bytes(np.frombuffer(b"".join(data), np.uint8), ends[:-1], ends[1:], form)
    for k in np.flatnonzero(np.isnat(found)).tolist():
        moment = moment_of_text(strings[k], form)
        found[k] = NO_MOMENT if moment is None else moment
    return found


def moments_in_bytes(data: Any, starts: Any, stops: Any, form: str) -> Any:
    """Return the moments of strings that are ranges of bytes; NaT for those that are left to the rule of one cell."""
    if form:
        return moments_by_format(data, starts, stops, form)
    found = np.full(len(starts), NO_MOMENT)
    marks = np.append(data, np.zeros(11, np.uint8))[starts + 10] if len(starts) else starts
    for iso, width in ISO_FORMATS.items():
        rows = np.flatnonzero((stops - starts == width) & ((width == 10) | (marks == ord(iso[8:9] or " "))))
        if len(rows):
            found[rows] = moments_by_format(data, starts[rows], stops[rows], iso)
    return found


def moments_by_format(data: Any, starts: Any, stops: Any, form: str) -> Any:
    """Return the moments of strings in a format, NaT for those that have it not, or are no dates."""
    data = np.append(data, np.zeros(4 * len(form), np.uint8)).astype(np.int64)
    p, fine, parts = starts.copy(), np.ones(len(starts), bool), dict[str, Any]()
    for letter, mark in format_pieces(form):
        if letter in ("b", "p"):
            codes = data[p] | 32, data[p + 1] | 32, data[p + 2] | 32
            if letter == "b":
                word = (codes[0] << 16) | (codes[1] << 8) | codes[2]
                is_month = word[:, None] == MONTH_CODES
                parts["b"], right, size = is_month.argmax(axis=1) + 1, is_month.any(axis=1), 3
            else:
                parts["p"], size = (codes[0] == ord("p")).astype(np.int64), 2
                right = ((codes[0] == ord("a")) | (codes[0] == ord("p"))) & (codes[1] == ord("m"))
            fine &= right
        elif letter:
            parts[letter], size, right = numbers_at_places(data, p, stops, {"Y": 4, "y": 2}.get(letter, 1))
            fine &= right
        else:
            size = 0
            for byte in mark.encode():
                fine &= data[p + size] == byte
                size += 1
        p = np.minimum(p + size, stops + 1)
    return moments_of_parts(parts, fine & (p == stops))


def numbers_at_places(data: Any, p: Any, stops: Any, least: int) -> tuple[Any, Any, Any]:
    """Return the numbers at places p of bytes, how many digits they have, and whether these are as many as needed."""
    value, size = np.zeros(len(p), np.int64), np.zeros(len(p), np.int64)
    for k in range(max(least, 2)):
        digit = data[p + k] - ord("0")
        more = (size == k) & (digit >= 0) & (digit <= 9) & (p + k < stops)
        value, size = np.where(more, 10 * value + digit, value), size + more
    return value, size, size >= least


def moments_of_parts(parts: dict[str, Any], fine: Any) -> Any:
    """Return the moments of arrays of parts, NaT where they are not fine, or there is no such day or time."""
    short = parts.get("y", np.zeros(len(fine), np.int64))
    year, month = parts.get("Y", short + np.where(short >= 69, 1900, 2000)), parts["m" if "m" in parts else "b"]
    hour, minute, second = (parts.get(letter, np.zeros(len(fine), np.int64)) for letter in "HMS")
    if "I" in parts:
        hour = np.where((parts["I"] >= 1) & (parts["I"] <= 12), parts["I"] % 12 + 12 * parts["p"], 24)
    months = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    days = months.astype("datetime64[D]") + (parts["d"] - 1)
    fine = fine & (month >= 1) & (month <= 12) & (parts["d"] >= 1) & (days.astype("datetime64[M]") == months)
    fine &= (hour < 24) & (minute < 60) & (second < 60)
    clock = ((hour * 60 + minute) * 60 + second).astype("timedelta64[s]")
    return np.where(fine, days.astype("datetime64[us]") + clock, NO_MOMENT)
