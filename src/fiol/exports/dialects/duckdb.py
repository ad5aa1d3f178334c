"""DuckDB: as PostgreSQL, except for NaN, blanks and regular expressions."""

from __future__ import annotations

from fiol.exports.dialects.postgresql import PostgreSql
from fiol.exports.dialects.standard import BLANK_CODES


class DuckDb(PostgreSql):
    """DuckDB 1.0 and later."""

    name = "duckdb"

    def number_is_missing(self, column: str) -> str:
        """Return the condition that a number is missing."""
        return f"({column} IS NULL OR ISNAN({self.number(column)}))"

    def trimmed(self, column: str) -> str:
        """Return a column as text without blanks at its ends."""
        blanks = " || ".join(f"CHR({code})" for code in BLANK_CODES)
        return f"TRIM({self.text(column)}, {blanks})"

    def second_fraction(self, moment: str) -> str:
        """Return the fraction of a second of a text such as 2024-03-01 07:30:00.25+02:00, cut after six digits."""
        return f"CAST('0' || REGEXP_EXTRACT({moment}, '[.][0-9]{{1,6}}') AS DOUBLE)"
