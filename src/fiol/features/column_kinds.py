"""The table of kinds of columns: each in words, the names of its features, and its parts.

| kind | features of a column `c` |
|---|---|
| `number` | `c` |
| `numeric_text` | `c`, parsed from text |
| `category` | `c=Rome`, which is 1, for every text (or number) |
| `words` | `c:hello` for every word, with its count; with `ngrams=2`, also `c:new york` for every two in a row |
| `tags` | `c=a`, `c=b` for a list of strings |
| `date` | `c`, in days since 2000, and `c.month=3`, `c.weekday=Mon`, `c.hour=7` |
| `time` | `c`, the fraction of the day, and `c.hour=7` |
| `skip`, `id` | none |
| `undecided` | none: no value so far; the first frame that has one decides |

A missing value is the feature `c is missing`, which is 1. How one cell becomes a value is in
`fiol.features.cell_rules`, whose functions are copied into exported modules, and therefore have the names again; tests
compare them with this table.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple


class Cycle(NamedTuple):
    """A period of dates and times, over which a curve closes: its value at the end is that at the start."""

    name: str
    days: float  #: the length of the period, in days
    knots: int  #: evenly spaced, the first at the start of the period
    unit: float  #: the length of the period in the unit that names and pictures use
    part: str  #: the part of a date that it stands for in pairs; "" if it is in no pairs


#: The mean year of the calendar, from January 1 at midnight.
YEARLY = Cycle("yearday", 365.2425, 12, 365.2425, "")
#: The time of day in hours.
DAILY = Cycle("time", 1.0, 24, 24.0, "hour")


@dataclasses.dataclass(frozen=True)
class ColumnKind:
    """One kind of columns: what becomes of a column in words, and the rules that differ between kinds."""

    words: str
    spec: str = ""  #: how users give the kind, in words; "" for kinds that are only inferred
    sign: str = ""  #: between the name of the column and a text, in names of features
    is_number: bool = False  #: whether a value is one number, and nothing else
    parts: tuple[str, ...] = ()  #: of a date or time, in the order of a row's features
    cycles: tuple[Cycle, ...] = ()  #: periods over which curves of the column close
    is_left_out: bool = False
    has_several: bool = False  #: whether a row may have several of the features at once


#: A column of text is numbers, dates or times if this share of its cells is: the others are odd cells.
KIND_SHARE = 0.9
#: Parts of a date format, each after a %.
DATE_LETTERS = "YymbdHIpMS"
COLUMN_KINDS = {
    "number": ColumnKind("a number", "number", is_number=True),
    "numeric_text": ColumnKind("a number, parsed from text", is_number=True),
    "category": ColumnKind("one feature for every value", "category", "="),
    "words": ColumnKind(
        "one feature for every word", "words, words:2 (words, and two words in a row)", ":", has_several=True
    ),
    "tags": ColumnKind("one feature for every entry of a list", "tags (lists of text)", "=", has_several=True),
    "date": ColumnKind(
        "parts of a date:",
        f"date, date:%m/%d/%Y (parts: {' '.join(f'%{letter}' for letter in DATE_LETTERS)})",
        parts=("days", "month", "weekday", "hour"),
        cycles=(YEARLY, DAILY),
    ),
    "time": ColumnKind("the time of day:", "time", parts=("days", "hour"), cycles=(DAILY,)),
    "skip": ColumnKind("left out", "skip", is_left_out=True),
    "id": ColumnKind("left out: every value is different, or the row's number", is_left_out=True),
    "undecided": ColumnKind("no value so far"),
}


def split_kind(text: str) -> tuple[str, str]:
    """Return the names and the kind of NAME,...=KIND, split at the first = that a kind follows, or else at the last =.

    An = within a name in double quotes does not count. Names are empty if there is no =.

    >>> split_kind("day=date:%Y=%m"), split_kind("a=b=category"), split_kind("zip=text")
    (('day', 'date:%Y=%m'), ('a=b', 'category'), ('zip', 'text'))
    >>> split_kind('"x=date:1"=category')
    ('"x=date:1"', 'category')
    """
    for place in (place for place, letter in enumerate(text) if letter == "="):
        names, (kind, colon, more) = text[:place], text[place + 1 :].partition(":")
        is_kind = (
            kind in COLUMN_KINDS if not colon else more and (kind == "date" or (kind == "words" and more.isdecimal()))
        )
        if is_kind and names.count('"') % 2 == 0:
            return names, text[place + 1 :]
    names, _, kind = text.rpartition("=")
    return names, kind


#: The kinds that users give, in words.
KIND_SPECS = ", ".join(kind.spec for kind in COLUMN_KINDS.values() if kind.spec)
#: All parts, in the order of a row's features.
PARTS = COLUMN_KINDS["date"].parts
#: The values of a part in names of features, but for the days, which are a number.
PART_VALUES = {
    "month": tuple(map(str, range(1, 13))),
    "weekday": ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"),
    "hour": tuple(map(str, range(24))),
}
#: What follows the name of a column in the feature of missing values.
MISSING = " is missing"


def part_features(column: str, part: str) -> list[str]:
    """Return the names of the features of a part.

    >>> part_features("day", "weekday")[:2]
    ['day.weekday=Mon', 'day.weekday=Tue']
    """
    return [f"{column}.{part}={value}" for value in PART_VALUES[part]]
