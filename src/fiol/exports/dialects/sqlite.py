"""SQLite: dates are text, and CAST reads the number that a text begins with."""

from __future__ import annotations

from fiol.exports.dialects.standard import BLANK_CODES, Dialect, text_literal


class Sqlite(Dialect):
    """SQLite 3; NaN is NULL there."""

    name = "sqlite"
    fence = " LIMIT -1 OFFSET 0"

    def floor(self, number: str) -> str:
        """Return the largest whole number that is at most a number; many builds of SQLite have no FLOOR."""
        whole = f"CAST({number} AS INTEGER)"
        return f"({whole} - ({number} < {whole}))"

    def trimmed(self, column: str) -> str:
        """Return a column as text without blanks at its ends."""
        return f"TRIM({column}, CHAR({', '.join(map(str, BLANK_CODES))}))"

    def matches(self, text: str, pattern: str) -> str:
        """Return the condition that a whole text has a pattern: characters, and sets of them such as [0-9]."""
        return f"{text} GLOB {text_literal(pattern)}"

    def pattern_of_mark(self, mark: str) -> str:
        """Return the pattern of a character that stands for itself."""
        return f"[{mark}]" if mark in "*?[" else mark

    def day(self, date: str) -> str:
        """Return the days since 2000-01-01 of a text such as 2024-03-01; JULIANDAY of a whole day is exact."""
        return f"(JULIANDAY({date}) - 2451544.5e0)"

    def second_fraction(self, moment: str) -> str:
        """Return the fraction of a second of a text such as 2024-03-01 07:30:00.25+02:00, cut after six digits."""
        return f"CASE WHEN SUBSTR({moment}, 20, 1) = '.' THEN CAST('0' || SUBSTR({moment}, 20, 7) AS REAL) ELSE 0 END"
