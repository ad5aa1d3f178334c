"""PostgreSQL: types are strict, numbers have NaN, and the difference of two dates is a number of days."""

from __future__ import annotations

from fiol.exports.dialects.standard import BLANK_CODES, Dialect, text_literal

#: The regular expression of an ISO date; the zone of an old moment of the database's own types may have seconds.
ISO_DATE = (
    "[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,9})?)?)?"
    "(Z|[+-][0-9]{2}(:?[0-9]{2}(:[0-9]{2})?)?)?"
)


class PostgreSql(Dialect):
    """PostgreSQL 12 and later, with the default settings of `DateStyle` and `standard_conforming_strings`."""

    name = "postgresql"
    fence = " OFFSET 0"

    def number(self, column: str) -> str:
        """Return the value of a column of numbers, which may be NUMERIC."""
        return f"CAST({column} AS DOUBLE PRECISION)"

    def number_is_missing(self, column: str) -> str:
        """Return the condition that a number is missing."""
        return f"({column} IS NULL OR {self.number(column)} = 'NaN')"

    def text(self, column: str) -> str:
        """Return a column of any type as text."""
        return f"CAST({column} AS TEXT)"

    def trimmed(self, column: str) -> str:
        """Return a column as text without blanks at its ends."""
        blanks = "".join(f"\\{code:04X}" for code in BLANK_CODES)
        return f"BTRIM({self.text(column)}, U&'{blanks}')"

    def matches(self, text: str, pattern: str) -> str:
        """Return the condition that a whole text has a pattern: characters, and sets of them such as [0-9]."""
        return f"{text} ~ {text_literal(f'^{pattern}$')}"

    def pattern_of_mark(self, mark: str) -> str:
        """Return the pattern of a character that stands for itself."""
        return f"\\{mark}" if mark in r"\.^$*+?()[]{}|" else mark

    def is_iso(self, text: str) -> str:
        """Return the condition that a text has the form of an ISO date, or of one with a time of day and a zone."""
        return self.matches(text, ISO_DATE)

    def day(self, date: str) -> str:
        """Return the days since 2000-01-01 of a text such as 2024-03-01."""
        return f"(CAST({date} AS DATE) - DATE '2000-01-01')"

    def second_fraction(self, moment: str) -> str:
        """Return the fraction of a second of a text such as 2024-03-01 07:30:00.25+02:00, cut after six digits."""
        return f"CAST('0' || COALESCE(SUBSTRING({moment} FROM '[.][0-9]{{1,6}}'), '') AS DOUBLE PRECISION)"
