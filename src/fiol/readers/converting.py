"""Files of one format as a file of another: rows in their order, a batch at a time, whole or not at all.

| from | to | what becomes of rows |
|---|---|---|
| columns: csv, json, parquet, arrow | csv, json, parquet | the same columns and values; missing ones stay so |
| any | svmlight, vw | features as a learner would see them; names become numbers for svmlight |
| svmlight, vw | json | an object per row: the features that it has, `target`, `weight` and `tag` |
| svmlight, vw | csv, parquet | a column per feature, 0 where a row has it not: two passes, 10,000 features at most |

Numbers are doubles: whole ones beyond 2^53 lose digits.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from fiol.features.chunk import Chunk
from fiol.features.hashing import Hashing
from fiol.features.named_rows import NamedRows
from fiol.features.vocabulary import Encoder, Vocabulary
from fiol.readers.bad_lines import BadLines
from fiol.readers.batch import BadLineError, Batch, SourceError
from fiol.readers.columns import arrow_module, flat_table
from fiol.readers.formats import format_called
from fiol.readers.reading import Reading, as_sources
from fiol.readers.writing import WRITERS, CannotWriteError, file_for, write_rows

#: The formats that can be written.
WRITTEN = ("svmlight", "vw", "csv", "json", "parquet")
#: A table has so many columns at most.
MOST_COLUMNS = 10_000
#: So many values of a dense table are made at once.
VALUES_AT_ONCE = 2**20
#: What a row has beside its features.
BESIDE = ("target", "weight", "tag")


class Conversion:
    """From files, by a reading, to one file of another format.

    `run` does it; `rows` and `skipped` count, `first_skipped` are the first lines that were left out, and `encoder`
    numbers the names of features for svmlight: by hashing into 2^bits, or as they first appear.

    >>> import io
    >>> file = io.BytesIO()
    >>> Conversion(Reading("vw"), io.BytesIO(b"1 |a x:2 y\\n-1 |a y\\n"), "svmlight").run(file)
    2
    >>> file.getvalue()
    b'1 1:2 2:1\\n-1 2:1\\n'
    """

    def __init__(
        self, reading: Reading, sources: Any, format: str, on_error: str = "stop", bits: int | None = None
    ) -> None:
        if format not in WRITTEN:
            raise ValueError(f"a format to write must be one of {', '.join(WRITTEN)}, got {format!r}")
        self.reading, self.sources, self.format, self.bad = reading, as_sources(sources), format, BadLines(on_error)
        self.encoder: Encoder = Vocabulary() if bits is None else Hashing(bits)
        self.rows = 0

    @property
    def skipped(self) -> int:
        """How many lines were left out."""
        return self.bad.count

    @property
    def first_skipped(self) -> list[BadLineError]:
        """The first lines that were left out."""
        return self.bad.first

    def run(self, path: Any, overwrite: bool = False) -> int:
        """Write the file, and return how many rows it has; FileExistsError if there is one, unless it is replaced."""
        if self.format in WRITERS:
            more = {"escape": True} if self.format == "vw" else {}
            self.rows = write_rows(path, self.numbered(), self.format, overwrite, **more)
            return self.rows
        if self.reading.kind.has_columns:
            parts: Iterable[Any] = self.tables() if self.format != "json" or not self.has_objects else self.objects()
        else:
            parts = self.row_objects() if self.format == "json" else self.dense_tables()
        with file_for(path, overwrite) as file:
            {"json": write_objects, "csv": write_csv, "parquet": write_parquet}[self.format](file, self.counted(parts))
        return self.rows

    def counted(self, parts: Iterable[Any]) -> Iterator[Any]:
        """The parts, counted."""
        for part in parts:
            self.rows += part.num_rows if hasattr(part, "num_rows") else len(part)
            yield part

    def batches(self) -> Iterator[Batch]:
        """The rows as features."""
        return self.reading.kind.batches(self.reading, self.sources, self.bad)

    def numbered(self) -> Iterator[Batch]:
        """The rows as features, with numbers if the format has no names."""
        for batch in self.batches():
            if self.format == "svmlight" and isinstance(batch.X, NamedRows):
                batch = batch._replace(X=batch.X.encoded(self.encoder))
            yield batch

    # --- columns to columns -------------------------------------------------------------------

    @property
    def has_objects(self) -> bool:
        """Whether rows are objects, whose keys differ."""
        return self.reading.format == "json"

    def objects(self) -> Iterator[list[dict[str, Any]]]:
        """Rows of JSON lines, flat."""
        kind: Any = self.reading.kind
        for rows, _, _ in kind.objects(self.sources.blocks(), self.bad):
            yield rows

    def tables(self) -> Iterator[Any]:
        """The columns of files, as Arrow tables."""
        kind: Any = self.reading.kind
        if self.has_objects:
            yield from self.tables_of_objects()
        elif self.reading.format == "csv":
            reading = kind.completed(self.reading, self.sources)
            for table, _ in kind.tables(reading, self.sources, self.bad):
                yield table
        else:
            for table, _, _, _ in kind.tables(self.reading, self.sources):
                yield flat_table(table)

    def tables_of_objects(self) -> Iterator[Any]:
        """Rows of JSON lines as tables, with the keys of the first megabyte; a later key is a bad line."""
        kind, arrow = self.reading.kind, arrow_module()
        assert self.reading.coding is not None
        types = {"number": arrow.float64(), "tags": arrow.list_(arrow.string())}
        columns = [column for column in self.reading.coding.columns if column.kind != "skip"]
        schema = arrow.schema([(column.name, types.get(column.kind, arrow.string())) for column in columns])
        known = {column.name for column in self.reading.coding.columns}
        for rows, lines, block in kind.objects(self.sources.blocks(), self.bad):  # type: ignore[attr-defined]
            kept = []
            for row, line in zip(rows, lines, strict=True):
                try:
                    new = next((key for key in row if key not in known), None)
                    if new is not None:
                        raise ValueError(f"the key {new!r} is none of the columns, which the first megabyte tells")
                    kept.append({field.name: plain_cell(row.get(field.name), field.type) for field in schema})
                except ValueError as error:
                    self.bad.note(BadLineError(block.place._replace(line=line), 0, str(error)))
            if kept:
                yield arrow.Table.from_pylist(kept, schema)

    # --- features to columns ------------------------------------------------------------------

    def row_objects(self) -> Iterator[list[dict[str, Any]]]:
        """Rows of features as objects."""
        for batch in self.batches():
            chunk, names = chunk_and_names_of(batch)
            found = []
            for row in range(batch.rows):
                beside = {key: value for key, value in row_beside(batch, row).items() if value is not None}
                own = slice(chunk.indptr[row], chunk.indptr[row + 1])
                features: dict[str, float] = {}
                for i, value in zip(chunk.indices[own].tolist(), chunk.data[own].tolist(), strict=True):
                    check_feature(names(i), batch, row)
                    features[names(i)] = features.get(names(i), 0.0) + value
                found.append({**beside, **features})
            yield found

    def dense_tables(self) -> Iterator[Any]:
        """Rows of features as tables with a column per feature of all rows."""
        if not self.sources.is_seekable:
            raise SourceError("columns of all rows take two passes, and a pipe is read only once: write json instead")
        arrow, places = arrow_module(), dict[str, int]()
        beside = dict.fromkeys(BESIDE, False)
        for batch in self.reading.kind.batches(self.reading, self.sources, BadLines(self.bad.on_error)):
            chunk, names = chunk_and_names_of(batch)
            for i in np.unique(chunk.indices).tolist() if isinstance(batch.X, Chunk) else range(len(batch.X.names)):
                check_feature(names(i), batch, 0)
                places.setdefault(names(i), len(places))
            for name, there in zip(BESIDE, (batch.y, batch.weights, batch.tags), strict=True):
                beside[name] |= there is not None
            if len(places) > MOST_COLUMNS:
                raise SourceError(f"there are more than {MOST_COLUMNS:,} features: write json, which has no columns")
        if self.reading.format == "svmlight":
            places = {name: k for k, name in enumerate(sorted(places, key=int))}
        step = max(1, VALUES_AT_ONCE // max(1, len(places)))
        kept = [name for name in BESIDE if beside[name]]
        for batch in self.batches():
            chunk, names = chunk_and_names_of(batch)
            for start in range(0, batch.rows, step):
                part = chunk.row_block(start, start + step)
                dense = np.zeros((part.rows, len(places)))
                row = np.repeat(np.arange(part.rows), np.diff(part.indptr))
                columns = np.array([places[names(i)] for i in part.indices.tolist()], np.int64)
                np.add.at(dense, (row, columns), part.data)
                told = [row_beside(batch, start + k) for k in range(part.rows)]
                aside = {
                    name: arrow.array([row[name] for row in told], arrow.string() if name == "tag" else arrow.float64())
                    for name in kept
                }
                yield arrow.table({**aside, **{name: arrow.array(dense[:, k]) for name, k in places.items()}})


def chunk_and_names_of(batch: Batch) -> tuple[Chunk, Any]:
    """The entries of a batch, and what gives the name of a feature."""
    if isinstance(batch.X, NamedRows):
        return batch.X.chunk, batch.X.names.__getitem__
    return batch.X, str


def row_beside(batch: Batch, row: int) -> dict[str, Any]:
    """What a row has beside its features; None for what it has not."""
    target = None if batch.y is None else float(batch.y[row])
    weight = None if batch.weights is None else float(batch.weights[row])
    return {
        "target": None if target is None or math.isnan(target) else target,
        "weight": weight,
        "tag": (batch.tags[row] or None) if batch.tags else None,
    }


def check_feature(name: str, batch: Batch, row: int) -> None:
    """CannotWriteError for a feature that is called as what stands beside the features."""
    if name in BESIDE:
        raise CannotWriteError(batch.place, f"a feature is called {name!r}, as the column of the {name} is", row)


def plain_cell(value: Any, kind: Any) -> Any:
    """A value of JSON as one of a column's type; ValueError if it is none."""
    arrow = arrow_module()
    if value is None:
        return None
    if kind == arrow.float64():
        if not isinstance(value, (int, float)):
            raise ValueError(f"a number is wanted, got {value!r}")
        return float(value)
    if kind == arrow.string():
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    entries = value if isinstance(value, list) else [value]
    return [entry if isinstance(entry, str) else json.dumps(entry, ensure_ascii=False) for entry in entries]


# --- files with columns -----------------------------------------------------------------------


def write_objects(file: Any, parts: Iterable[Any]) -> None:
    """JSON lines of tables, or of lists of dicts; what is not finite is null."""
    for part in parts:
        rows = part.to_pylist() if hasattr(part, "to_pylist") else part
        lines = (json.dumps({key: plain_json(value) for key, value in row.items()}, ensure_ascii=False) for row in rows)
        file.write("".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass"))


def plain_json(value: Any) -> Any:
    """A value as JSON has it: dates in ISO's form, whole numbers without a point.

    >>> plain_json(2.0), plain_json(float("nan")), plain_json([1.5, None])
    (2, None, [1.5, None])
    """
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return int(value) if value.is_integer() and abs(value) < 2**53 and str(value) != "-0.0" else value
    if isinstance(value, list):
        return [plain_json(entry) for entry in value]
    if value is None or isinstance(value, (str, bool, int)):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def write_csv(file: Any, parts: Iterable[Any]) -> None:
    """Tables as CSV with a header; ValueError for columns that fields have no form for, such as lists."""
    arrow, theirs = arrow_module(), arrow_module("pyarrow.csv")
    writer = schema = None
    try:
        for table in parts:
            if writer is None:
                schema = table.schema
                writer = theirs.CSVWriter(file, schema)
            writer.write_table(table.cast(schema))
    except (arrow.ArrowInvalid, arrow.ArrowNotImplementedError, arrow.ArrowTypeError) as error:
        raise ValueError(f"these columns cannot be written as CSV: {error}") from None
    finally:
        if writer is not None:
            writer.close()


def write_parquet(file: Any, parts: Iterable[Any]) -> None:
    """Tables as Parquet, a row group each, with the types of the first."""
    arrow, theirs = arrow_module(), arrow_module("pyarrow.parquet")
    writer = None
    try:
        for table in parts:
            if writer is None:
                writer = theirs.ParquetWriter(file, table.schema)
            writer.write_table(table.cast(writer.schema))
        if writer is None:
            raise ValueError("there are no rows, whose columns a Parquet file would have")
    except (arrow.ArrowInvalid, arrow.ArrowNotImplementedError, arrow.ArrowTypeError) as error:
        raise ValueError(f"these columns cannot be written as Parquet: {error}") from None
    finally:
        if writer is not None:
            writer.close()


def format_to_write(format: str | None, path: str) -> str:
    """The format that is named, or that the ending of a file says; ValueError if it says none.

    >>> format_to_write(None, "rows.parquet"), format_to_write(None, "rows.svm"), format_to_write("vw", "rows")
    ('parquet', 'svmlight', 'vw')
    """
    if format is not None:
        return format
    for name in WRITTEN:
        if path.lower().endswith(format_called(name).extensions):
            return name
    raise ValueError(f"{path} does not say by its ending which format it is: say it by --to")
