"""What SQL dialects share: quoting, numbers, and dates as ISO text; `Dialect` by itself is standard SQL.

A date is turned into text in ISO form, of which parts are taken by position, so that every database follows the rules
of `fiol.features.cell_rules`: time zones are ignored, fractions of seconds are cut after six digits, and blank text
is missing.
"""

from __future__ import annotations

from fiol.exports.linear import NoExportError
from fiol.option_names import option_text

#: Code points that `str.strip` removes.
BLANK_CODES = (9, 10, 11, 12, 13, 28, 29, 30, 31, 32, 133, 160, 5760, *range(8192, 8203), 8232, 8233, 8239, 8287, 12288)


class Dialect:
    """Standard SQL, which has no common functions for parts of dates. Arguments are SQL expressions."""

    name = "standard"
    #: The end of a nested SELECT whose expressions must not be copied into the outer one, each time they are used.
    fence = ""
    #: Names of columns, in lower case, that `*` in an inner SELECT renames.
    lost_columns: frozenset[str] = frozenset()

    # --- numbers ------------------------------------------------------------------------------

    def number(self, column: str) -> str:
        """Return the value of a column of numbers."""
        return column

    def number_is_missing(self, column: str) -> str:
        """Return the condition that a number is missing."""
        return f"{column} IS NULL"

    def number_of_text(self, text: str) -> str:
        """Return the number that a text is."""
        return f"CAST({text} AS DOUBLE PRECISION)"

    def floor(self, number: str) -> str:
        """Return the largest whole number that is at most a number."""
        return f"FLOOR({number})"

    # --- text ---------------------------------------------------------------------------------

    def text(self, column: str) -> str:
        """Return a column of any type as text."""
        return column

    def trimmed(self, column: str) -> str:
        """Return a column as text without blanks at its ends."""
        return f"TRIM({column})"

    def text_or_null(self, column: str) -> str:
        """Return a column as trimmed text, NULL if nothing is left."""
        return f"NULLIF({self.trimmed(column)}, '')"

    def matches(self, text: str, pattern: str) -> str:
        """Return the condition that a whole text has a pattern: characters, and sets of them such as [0-9]."""
        raise NotImplementedError

    def pattern_of_mark(self, mark: str) -> str:
        """Return the pattern of a character that stands for itself."""
        raise NotImplementedError

    def is_iso(self, text: str) -> str:
        """Return the condition that a text has the form of an ISO date, or of one with a time of day and a zone."""
        raise NotImplementedError

    # --- dates --------------------------------------------------------------------------------

    def day(self, date: str) -> str:
        """Return the days since 2000-01-01 of a text such as 2024-03-01."""
        raise NoExportError(
            f"dates need a dialect, such as {option_text('dialect', 'sqlite')}: {self.name} SQL has no parts of dates"
        )

    def second_fraction(self, moment: str) -> str:
        """Return the fraction of a second of a text such as 2024-03-01 07:30:00.25+02:00, cut after six digits."""
        raise NotImplementedError

    def whole_day(self, moment: str) -> str:
        """Return the day of an ISO text, as the number of days since 2000-01-01."""
        return self.day(f"SUBSTR({moment}, 1, 10)")

    def integer(self, moment: str, first: int) -> str:
        """Return the two digits of a text that begin at this position."""
        return f"CAST(SUBSTR({moment}, {first}, 2) AS INTEGER)"

    def days(self, moment: str) -> str:
        """Return the days since 2000 of an ISO text, with the share of the day that has passed.

        They are a whole number of microseconds divided once, as in `fiol.features.cell_rules`: the same bits.
        """
        fraction = f"ROUND({self.second_fraction(moment)} * 1000000.0e0)"
        seconds = f"{self.integer(moment, 18)} * 1000000.0e0 + {fraction}"
        seconds = f"CASE WHEN SUBSTR({moment}, 17, 1) = ':' THEN {seconds} ELSE 0 END"
        clock = f"({self.integer(moment, 12)} * 3600 + {self.integer(moment, 15)} * 60) * 1000000.0e0 + {seconds}"
        micros = f"{self.whole_day(moment)} * 86400000000.0e0 + {self.if_clock(moment, clock)}"
        return f"(CAST({micros} AS DOUBLE PRECISION) / 86400000000.0e0)"

    def if_clock(self, moment: str, value: str) -> str:
        """Return a value if an ISO text has a time of day, else 0."""
        return f"CASE WHEN SUBSTR({moment}, 11, 1) IN ('T', ' ') THEN {value} ELSE 0 END"

    def date_part(self, moment: str, part: str) -> str:
        """Return the month, the weekday (from 0 for Sunday) or the hour of an ISO text as a whole number."""
        if part == "month":
            return self.integer(moment, 6)
        if part == "hour":
            return self.if_clock(moment, self.integer(moment, 12))
        return f"(CAST({self.whole_day(moment)} AS INTEGER) % 7 + 13) % 7"  # the first day was a Saturday


def identifier(name: str) -> str:
    """Return a quoted name.

    >>> print(identifier('a "b" c'))
    "a ""b"" c"
    """
    if not name or "\0" in name:
        raise NoExportError(f"SQL has no name {name!r}")
    return '"' + name.replace('"', '""') + '"'


def text_literal(value: str) -> str:
    """Return a quoted text.

    >>> text_literal("it's")
    "'it''s'"
    """
    if "\0" in value:
        raise NoExportError(f"SQL has no text {value!r}")
    return "'" + value.replace("'", "''") + "'"


def number_literal(value: float) -> str:
    """Return a number with all its digits, with an exponent: without, some databases read it as a decimal.

    >>> number_literal(2.0), number_literal(-0.1), number_literal(1e-300)
    ('2.0e0', '-0.1e0', '1e-300')
    """
    found = repr(float(value))
    return found if "e" in found else f"{found}e0"
