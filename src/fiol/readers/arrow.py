"""Arrow IPC, files and streams: columns with types, a record batch at a time."""

from __future__ import annotations

import dataclasses
import io
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from fiol.features.column_values import columns_of
from fiol.features.frames import as_frame
from fiol.readers.bad_lines import BadLines
from fiol.readers.batch import SourceError
from fiol.readers.columns import arrow_module, check_columns, flat_table, inferred_fields
from fiol.readers.parquet import ROWS_AT_ONCE
from fiol.readers.sources import Sources, Stream
from fiol.readers.table_format import ArrowTableFormat, TablePart

if TYPE_CHECKING:
    from fiol.readers.reader_config import ReaderConfig

#: How files and streams begin.
FILE_MAGIC, STREAM_MAGIC = b"ARROW1", b"\xff\xff\xff\xff"


class ArrowFile(ArrowTableFormat):
    """Record batches of columns with types, one after the other."""

    extensions = (".arrow", ".feather", ".ipc", ".arrows")

    def recognizes(self, start: bytes) -> bool:
        """Return whether the bytes begin as a file, or a stream, of record batches does."""
        return start.startswith((FILE_MAGIC, STREAM_MAGIC))

    def infer(self, start: bytes, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the table encoding of the first rows; by types for a pipe whose first batch is longer than `start`."""
        arrow, ipc = arrow_module(), arrow_module("pyarrow.ipc")
        if os.path.isfile(name):  # no pipe, which can be read only once
            with Sources(name).open(0) as stream:
                table = next(tables_in(stream), None)
            if table is not None:
                return inferred_fields(columns_of(as_frame(flat_table(table))), given)
        try:
            reader = ipc.open_stream(io.BytesIO(start[8:] if start.startswith(FILE_MAGIC) else start))
        except arrow.ArrowInvalid as error:
            raise SourceError(f"{name} holds Arrow data that is damaged: {error}") from None
        try:
            table = arrow.Table.from_batches([reader.read_next_batch()[:ROWS_AT_ONCE]])
        except (arrow.ArrowInvalid, OSError, StopIteration):
            return fields_by_types(flat_table(reader.schema.empty_table()), given)
        return inferred_fields(columns_of(as_frame(flat_table(table))), given)

    def parts(self, config: ReaderConfig, sources: Sources, bad: BadLines) -> Iterator[TablePart]:
        """Yield the record batches of all files, long ones in parts of `ROWS_AT_ONCE` rows."""
        before = 0
        for stream in sources.streams():
            first = 1
            for table in tables_in(stream):
                if first == 1:
                    check_columns(config, flat_table(table).column_names, stream.name, bad)
                yield TablePart(table, first, stream.name, before + stream.taken)
                first += table.num_rows
            before += stream.taken


def fields_by_types(table: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a table without rows: text is a category, everything else is what its type says."""
    fields = inferred_fields(columns_of(as_frame(table)), given)
    text = {field.name for field in table.schema if "string" in str(field.type)}
    columns = (
        dataclasses.replace(column, kind="category") if column.kind == "undecided" and column.name in text else column
        for column in fields["table_encoding"].columns
    )
    return {**fields, "table_encoding": dataclasses.replace(fields["table_encoding"], columns=tuple(columns))}


def tables_in(stream: Stream) -> Iterator[Any]:
    """Yield one file or stream as tables of at most `ROWS_AT_ONCE` rows; raise SourceError if it is damaged.

    A file is read as the stream it holds, from its beginning to its end, so that pipes and compressed files will do.
    """
    arrow, ipc = arrow_module(), arrow_module("pyarrow.ipc")
    source = io.BufferedReader(stream)
    try:
        if source.peek(len(FILE_MAGIC)).startswith(FILE_MAGIC):
            source.read(8)  # and two bytes up to a multiple of 8
        reader = ipc.open_stream(arrow.PythonFile(source, "r"))
        for batch in reader:
            for start in range(0, batch.num_rows, ROWS_AT_ONCE):
                yield arrow.Table.from_batches([batch.slice(start, ROWS_AT_ONCE)])
    except (arrow.ArrowInvalid, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise SourceError(f"{stream.name} holds Arrow data that is damaged: {error}") from None
    finally:
        source.detach()
