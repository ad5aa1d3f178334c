"""DuckDB: as PostgreSQL, except for NaN, blanks and regular expressions."""

from __future__ import annotations

from fiol.exports.dialects.postgresql import PostgreSql
from fiol.exports.dialects.standard import text_literal

#: The regular expression of one of `BLANK_CODES`.
BLANK = r"[\t-\r\x1C- \x{85}\p{Z}]"


class DuckDb(PostgreSql):
    """DuckDB 1.0 and later."""

    name = "duckdb"

    def number_is_missing(self, column: str) -> str:
        """Return the condition that a number is missing."""
        return f"({column} IS NULL OR ISNAN({self.number(column)}))"

    def trimmed(self, column: str) -> str:
        """Return a column as text without blanks at its ends."""
        return f"REGEXP_REPLACE({self.text(column)}, '^{BLANK}+|{BLANK}+$', '', 'g')"

    def matches(self, text: str, pattern: str) -> str:
        """Return the condition that a whole text has a pattern: characters, and sets of them such as [0-9]."""
        return f"REGEXP_FULL_MATCH({text}, {text_literal(pattern)})"

    def second_fraction(self, moment: str) -> str:
        """Return the fraction of a second of a text such as 2024-03-01 07:30:00.25+02:00, cut after six digits."""
        return f"CAST('0' || REGEXP_EXTRACT({moment}, '[.][0-9]{{1,6}}') AS DOUBLE)"
