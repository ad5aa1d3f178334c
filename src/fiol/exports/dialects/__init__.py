"""SQL dialects, a file each: `standard` states what all share, the others what differs."""

from fiol.exports.dialects.duckdb import DuckDb
from fiol.exports.dialects.postgresql import PostgreSql
from fiol.exports.dialects.sqlite import Sqlite
from fiol.exports.dialects.standard import Dialect

#: All dialects by name.
DIALECTS: dict[str, Dialect] = {dialect.name: dialect for dialect in (Dialect(), Sqlite(), PostgreSql(), DuckDb())}
