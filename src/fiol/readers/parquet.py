"""Parquet: columns with types, read by pyarrow, a part of a row group at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from fiol.features.column_values import columns_of
from fiol.features.frames import as_frame
from fiol.readers.bad_lines import BadLines
from fiol.readers.batch import SourceError
from fiol.readers.columns import (
    arrow_module,
    aside_columns,
    check_columns,
    encoding_of,
    flat_table,
    inferred_fields,
)
from fiol.readers.sources import Sources, forget_pipe
from fiol.readers.table_format import ArrowTableFormat, TablePart

if TYPE_CHECKING:
    from fiol.readers.reader_config import ReaderConfig

#: Rows of a batch, and rows that decide what columns are.
ROWS_AT_ONCE = 2**14


class Parquet(ArrowTableFormat):
    """Columns with types."""

    extensions = (".parquet", ".pq")

    def recognizes(self, start: bytes) -> bool:
        """Return whether the file begins with the bytes of the format."""
        return start.startswith(b"PAR1")

    def infer_from_sources(self, sources: Sources, start: bytes, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the table encoding of the first rows."""
        with parquet_file(sources, 0) as file:
            table = next((batch for batch, _, _ in tables_of(file, None)), None)
            if table is None:
                table = file.schema_arrow.empty_table()
        return inferred_fields(columns_of(as_frame(flat_table(table))), given)

    def parts(self, config: ReaderConfig, sources: Sources, bad: BadLines) -> Iterator[TablePart]:
        """Yield `ROWS_AT_ONCE` rows of a row group at a time."""
        before = 0
        skipped = {column.name for column in encoding_of(config).columns if column.is_left_out}
        for number, name in enumerate(sources.files):
            with parquet_file(sources, number) as file:
                there, size = file.schema_arrow.names, file_size(sources.on_disk(number))
                check_columns(config, flat_table(file.schema_arrow.empty_table()).column_names, name, bad)
                wanted = [column for column in there if column not in skipped - aside_columns(config)]
                for table, first, share in tables_of(file, wanted):
                    yield TablePart(table, first, name, before + int(share * size))
            before += size
            forget_pipe(sources.pipe(number))


def parquet_file(sources: Sources, number: int) -> Any:
    """Open a Parquet file, a pipe by its copy on disk; raise SourceError if it is damaged."""
    parquet, arrow = arrow_module("pyarrow.parquet"), arrow_module()
    file = sources.on_disk(number)
    try:
        return parquet.ParquetFile(file if isinstance(file, str) else arrow.PythonFile(file, "r"))
    except arrow.ArrowInvalid as error:
        raise SourceError(f"{sources.files[number]} is no Parquet file that can be read: {error}") from None


def tables_of(file: Any, columns: list[str] | None) -> Iterator[tuple[Any, int, float]]:
    """Yield the rows of an open file, at most `ROWS_AT_ONCE` in a table, the row each starts at, and the share read."""
    arrow, first = arrow_module(), 1
    for group in range(file.metadata.num_row_groups):
        for batch in file.iter_batches(ROWS_AT_ONCE, row_groups=[group], columns=columns, use_threads=False):
            yield arrow.Table.from_batches([batch]), first, (first - 1 + batch.num_rows) / file.metadata.num_rows
            first += batch.num_rows


def file_size(file: Any) -> int:
    """Return the size in bytes of a file on disk, by its name or open."""
    return os.stat(file if isinstance(file, str) else file.fileno()).st_size
