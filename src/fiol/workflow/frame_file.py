"""Frames as open Arrow files, so that they are read as files are."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

#: Rows that are hashed at once.
ROWS_DIGESTED_AT_ONCE = 4096


class FrameFile(io.BytesIO):
    """The rows of a frame as an open file, with a name for messages."""

    name = "a frame"

    def __init__(self, table: Any) -> None:
        super().__init__()
        self.table = table

    def count(self) -> int:
        """Return the number of rows."""
        return int(self.table.num_rows)

    def write_first(self, count: int, write: Callable[[bytes], Any]) -> None:
        """Write the schema and the first rows; bits after them are 0, since `take` copies."""
        from fiol.readers.columns import arrow_module

        arrow = arrow_module()
        table = with_values(self.table)
        write(table.schema.serialize().to_pybytes())
        for start in range(0, count, ROWS_DIGESTED_AT_ONCE):
            rows = arrow.array(range(start, min(start + ROWS_DIGESTED_AT_ONCE, count)))
            for batch in table.take(rows).combine_chunks().to_batches():
                write(batch.serialize().to_pybytes())


def with_values(table: Any) -> Any:
    """Return an Arrow table with values in the place of categories, whose codes depend on all rows.

    >>> import pyarrow
    >>> with_values(pyarrow.table({"city": pyarrow.array(["Rome", "Oslo"]).dictionary_encode()}))["city"].type
    DataType(string)
    """
    from fiol.readers.columns import arrow_module

    types = arrow_module("pyarrow.types")
    for k, field in enumerate(table.schema):
        if types.is_dictionary(field.type):
            table = table.set_column(k, field.name, table.column(k).cast(field.type.value_type))
    return table


def frame_file(frame: Any, target: str, y: Any = None) -> FrameFile:
    """Return the columns of a frame as an open Arrow file, with targets `y` as one more column."""
    from fiol.readers.columns import arrow_module

    arrow, table = arrow_module(), arrow_table(frame)
    if y is not None:
        values = y.tolist() if hasattr(y, "tolist") else list(y)
        if len(values) != table.num_rows:
            raise ValueError(f"y must have one entry per row: {table.num_rows}, got {len(values)}")
        table = table.drop_columns([target]) if target in table.column_names else table
        table = table.append_column(target, arrow.array(values))
    file = FrameFile(table)
    with arrow_module("pyarrow.ipc").new_stream(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows_to_look_at(table))
    file.seek(0)
    return file


def arrow_table(frame: Any) -> Any:
    """Return a frame as an Arrow table; TypeError with the name of a column that Arrow does not have.

    >>> import pandas as pd
    >>> arrow_table(pd.DataFrame({"size": [1, 2], "month": pd.period_range("2024-01", periods=2, freq="M")}))
    Traceback (most recent call last):
    TypeError: column 'month' holds pandas.period: convert it, or leave it out
    """
    import narwhals as nw

    from fiol.readers.columns import arrow_module

    arrow, native = arrow_module(), nw.from_native(frame, eager_only=True, pass_through=True)
    try:
        # pandas adds its row index as the last column.
        table = frame if isinstance(frame, arrow.Table) else native.to_arrow().select(range(len(native.columns)))
    except Exception as error:  # the type of the error depends on the library and the column
        name = next((name for name in native.columns if not has_arrow(native.select(name))), None)
        if name is None:
            raise
        raise TypeError(f"column {name!r} cannot be read: {error}: convert it, or leave it out") from error
    for field in table.schema:
        kind = getattr(field.type, "value_type", field.type)  # of categories, and of lists
        if isinstance(kind, arrow.BaseExtensionType):
            raise TypeError(f"column {field.name!r} holds {kind.extension_name}: convert it, or leave it out")
    return table.replace_schema_metadata(None)  # pandas describes its index there


def has_arrow(column: Any) -> bool:
    """Return whether a frame of one column can be a table of Arrow."""
    try:
        column.to_arrow()
    except Exception:  # as above
        return False
    return True


def rows_to_look_at(table: Any) -> int:
    """Return the number of rows of a batch that a reader sees as a whole when it infers the kinds of columns."""
    from fiol.readers.sources import START_SIZE

    rows = max(table.num_rows, 1)
    while rows > 1 and table.slice(0, rows).nbytes > START_SIZE // 2:
        rows = (rows + 1) // 2
    return rows
