"""SQLite: dates are text, and CAST reads the number that a text begins with."""

from __future__ import annotations

from fiol.exports.dialects.standard import BLANK_CODES, Dialect, text_literal

#: Patterns of two digits, of an ISO date, of one with a time of day, and of one with seconds.
TWO_DIGITS = "[0-9][0-9]"
TO_DAY = f"{TWO_DIGITS}{TWO_DIGITS}-{TWO_DIGITS}-{TWO_DIGITS}"
TO_MINUTES = f"{TO_DAY}[T ]{TWO_DIGITS}:{TWO_DIGITS}"
TO_SECONDS = f"{TO_MINUTES}:{TWO_DIGITS}"


class Sqlite(Dialect):
    """SQLite 3; NaN is NULL there."""

    name = "sqlite"
    fence = " LIMIT -1 OFFSET 0"
    lost_columns = frozenset(("true", "false"))

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

    def is_iso(self, text: str) -> str:
        """Return the condition that a text has the form of an ISO date, or of one with a time of day and a zone."""
        rests = {
            f"{TO_SECONDS}.[0-9]": f"LTRIM(SUBSTR({text}, 21, 9), '0123456789') || SUBSTR({text}, 30)",
            TO_SECONDS: f"SUBSTR({text}, 20)",
            TO_MINUTES: f"SUBSTR({text}, 17)",
            TO_DAY: f"SUBSTR({text}, 11)",
        }
        cases = (f" WHEN {self.matches(text, f'{start}*')} THEN {rest}" for start, rest in rests.items())
        zone = f"(CASE{''.join(cases)} END)"
        zones = (
            self.matches(zone, f"[+-]{form}")
            for form in (TWO_DIGITS, TWO_DIGITS + TWO_DIGITS, f"{TWO_DIGITS}:{TWO_DIGITS}")
        )
        return f"({zone} IN ('', 'Z') OR {' OR '.join(zones)})"

    def day(self, date: str) -> str:
        """Return the days since 2000-01-01 of a text such as 2024-03-01; JULIANDAY of a whole day is exact."""
        return f"(JULIANDAY({date}) - 2451544.5e0)"

    def second_fraction(self, moment: str) -> str:
        """Return the fraction of a second of a text such as 2024-03-01 07:30:00.25+02:00, cut after six digits."""
        return f"CASE WHEN SUBSTR({moment}, 20, 1) = '.' THEN CAST('0' || SUBSTR({moment}, 20, 7) AS REAL) ELSE 0 END"
