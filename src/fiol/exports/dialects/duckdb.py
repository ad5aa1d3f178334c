"""DuckDB: as PostgreSQL, except for NaN, blanks and regular expressions."""

from __future__ import annotations

from fiol.exports.dialects.postgresql import PostgreSql

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

    def second_fraction(self, moment: str) -> str:
        """Return the fraction of a second of a text such as 2024-03-01 07:30:00.25+02:00, cut after six digits."""
        return f"CAST('0' || REGEXP_EXTRACT({moment}, '[.][0-9]{{1,6}}') AS DOUBLE)"
