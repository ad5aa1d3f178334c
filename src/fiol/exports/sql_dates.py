"""Dates and times as SQL: inner SELECTs turn the text of a column into ISO text, NULL where it is missing or no date.

ISO text stays as it is, and a time of day is one of the first day. A part of one or two digits makes two patterns, so a
format is a CASE over patterns in which every part has its place: `5/28/2011` and `05/28/2011` are two of the four of
`%m/%d/%Y`.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence

from fiol.exports.dialects.standard import Dialect, identifier, text_literal
from fiol.features.date_formats import MONTH_WORDS, format_pieces
from fiol.features.table_encoding import Column

#: The numbers of characters that parts have; all others are numbers of one or two digits.
FIELD_WIDTHS = {"Y": (4,), "y": (2,), "b": (3,), "p": (2,)}
#: The longest name of a column that is part of a name here: PostgreSQL cuts names after 63 bytes.
MAX_NAME_BYTES = 48
#: What a character of a part is, in patterns.
ONE_DIGIT, ONE_LETTER = "[0-9]", "[A-Za-z]"


def moment_name(column: Column) -> str:
    """Return the name of the ISO text of a column of dates or times.

    >>> print(moment_name(Column("day", "date", format="%m/%d/%Y")))
    "fiol date day"
    """
    return step_name("date", column)


def step_name(step: str, column: Column) -> str:
    """Return the name of a step towards the ISO text of a column."""
    name = column.name
    if len(name.encode()) > MAX_NAME_BYTES:
        name = hashlib.blake2b(name.encode(), digest_size=12).hexdigest()
    return identifier(f"fiol {step} {name}")


def select_moments(columns: Sequence[Column], rows: str, dialect: Dialect) -> str:
    """Return rows in parentheses with the ISO text of every column of dates or times; `rows` if there is none."""
    dates = [column for column in columns if column.rules.parts and not column.is_left_out]
    if not dates:
        return rows
    strings = [f"{whole_text(c, dialect)} AS {step_name('text', c)}" for c in dates]
    parsed = [f"{parsed_text(c.format, step_name('text', c), dialect)} AS {step_name('parts', c)}" for c in dates]
    valid = [f"{valid_moment(step_name('parts', c))} AS {moment_name(c)}" for c in dates]
    for name, more in (("fiol strings", strings), ("fiol parts of dates", parsed), ("fiol dates", valid)):
        rows = f"(SELECT *, {', '.join(more)} FROM {rows}{dialect.fence}) AS {identifier(name)}"
    return rows


def whole_text(column: Column, dialect: Dialect) -> str:
    """Return the trimmed text of a column; a time of day, such as 7:30, as one of the first day."""
    text = dialect.text_or_null(identifier(column.name))
    if column.kind != "time":
        return text
    return f"('2000-01-01 ' || CASE WHEN SUBSTR({text}, 2, 1) = ':' THEN '0' ELSE '' END || {text})"


def parsed_text(form: str, text: str, dialect: Dialect) -> str:
    """Return a text in a format, "" for ISO, as ISO text, whose parts may be no date; NULL for another text."""
    if not form:
        return f"CASE WHEN {dialect.is_iso(text)} THEN {text} END"
    pieces = format_pieces(form)
    widths = [(0,) if not letter else widths_of_part(pieces, k) for k, (letter, _) in enumerate(pieces)]
    cases = list[str]()
    for chosen in itertools.product(*widths):
        pattern, parts, place = list[str](), dict[str, str](), 1
        for (letter, mark), width in zip(pieces, chosen, strict=True):
            character = ONE_LETTER if letter in "bp" else ONE_DIGIT
            pattern += [dialect.pattern_of_mark(mark)] if mark else [character] * width
            if letter:
                parts[letter] = ("'0' || " if width == 1 else "") + f"SUBSTR({text}, {place}, {width})"
            place += len(mark) + width
        cases.append(f" WHEN {dialect.matches(text, ''.join(pattern))} THEN {iso_text(parts)}")
    return f"CASE{''.join(cases)} END"


def widths_of_part(pieces: Sequence[tuple[str, str]], k: int) -> tuple[int, ...]:
    """Return the numbers of characters that a part may have: one digit only where no other number follows."""
    letter = pieces[k][0]
    following = pieces[k + 1][0] if k + 1 < len(pieces) else ""
    return FIELD_WIDTHS.get(letter, (2,) if following and following not in "bp" else (2, 1))


def iso_text(parts: dict[str, str]) -> str:
    """Return the ISO text of parts, which are SQL expressions with two digits, or four."""
    short = parts.get("y")
    year = parts.get("Y") or f"CASE WHEN {short} >= '69' THEN '19' ELSE '20' END || {short}"
    month = parts.get("m") or words_to_digits(parts["b"], {word: f"{k:02}" for k, word in enumerate(MONTH_WORDS, 1)})
    pieces = [year, "'-'", month, "'-'", parts["d"]]
    hour = parts.get("H")
    if "I" in parts:  # the hours of the night and of noon are 12
        clocks = {"am": [12, *range(1, 12)], "pm": [12, *range(1, 12)]}
        hours = {
            f"{number:02}{half}": f"{k + 12 * (half == 'pm'):02}"
            for half, numbers in clocks.items()
            for k, number in enumerate(numbers)
        }
        hour = words_to_digits(f"{parts['I']} || {parts['p']}", hours)
    if hour is not None:
        zero = "'00'"
        pieces += ["' '", hour, "':'", parts.get("M", zero), "':'", parts.get("S", zero)]
    return " || ".join(f"({piece})" for piece in pieces)


def words_to_digits(text: str, digits: dict[str, str]) -> str:
    """Return the digits that a word, in any case, stands for; NULL for any other word."""
    cases = (f" WHEN {text_literal(word)} THEN {text_literal(number)}" for word, number in digits.items())
    return f"CASE LOWER({text}){''.join(cases)} END"


def valid_moment(moment: str) -> str:
    """Return an ISO text, NULL unless there is such a day, from the year 1 on, and such a time."""
    year, month, day = f"CAST(SUBSTR({moment}, 1, 4) AS INTEGER)", f"SUBSTR({moment}, 6, 2)", f"SUBSTR({moment}, 9, 2)"
    leap = f"({year} % 4 = 0 AND {year} % 100 <> 0) OR {year} % 400 = 0"
    february = f"CASE WHEN {leap} THEN '29' ELSE '28' END"
    last = f"CASE WHEN {month} = '02' THEN {february} WHEN {month} IN ('04', '06', '09', '11') THEN '30' ELSE '31' END"
    clock = " AND ".join(
        f"SUBSTR({moment}, {place}, 2) <= '{most}'" for place, most in ((12, 23), (15, 59), (18, 59))
    )  # '' without a time
    return (
        f"CASE WHEN SUBSTR({moment}, 1, 4) > '0000' AND {month} BETWEEN '01' AND '12' "
        f"AND {day} BETWEEN '01' AND {last} AND {clock} THEN {moment} END"
    )
