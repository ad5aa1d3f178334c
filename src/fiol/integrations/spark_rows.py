"""Rows as Spark's tasks get them, in Arrow batches, as a learner takes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fiol.features.chunk import Chunk, canonical, spot
from fiol.features.frames import arrow

#: How features come: a column of vectors of Spark's, of arrays, of maps from names to numbers; or columns as they are.
OF_VECTORS, OF_ARRAYS, OF_MAPS, PLAIN_COLUMNS = "vector", "array", "map", "columns"


@dataclass(frozen=True)
class SparkRows:
    """Which columns are features, target and weight, and how they come.

    `classes` are the labels of a classifier: of two, the second is +1 and the first -1; None for numbers.
    """

    kind: str
    features: tuple[str, ...]
    label: str | None = None
    weight: str | None = None
    classes: tuple[Any, ...] | None = None

    @property
    def columns(self) -> list[str]:
        """All columns that are read."""
        return [*self.features, *(name for name in (self.label, self.weight) if name is not None)]

    def of(self, table: Any) -> tuple[Any, Any, Any]:
        """Features, targets and sample weights of an Arrow table or batch; targets are None without a label column."""
        weights = None if self.weight is None else doubles_in(table, self.weight)
        return self.features_of(table), None if self.label is None else self.targets_of(table), weights

    def features_of(self, table: Any) -> Any:
        """Return the features alone: a `Chunk`, dicts, or a table of columns."""
        if self.kind == PLAIN_COLUMNS:
            missing = [name for name in self.features if name not in table.schema.names]
            if missing:
                raise ValueError(f"the frame has no column {missing[0]!r}, which the model was trained with")
            return (
                arrow().Table.from_batches([table]).select(list(self.features))
                if is_batch(table)
                else table.select(list(self.features))
            )
        column = joined_array(table.column(self.features[0]))
        if column.null_count:
            raise ValueError(f"column {self.features[0]!r} has nulls where there should be features")
        if self.kind == OF_MAPS:
            return [dict(pairs) for pairs in column.to_pylist()]
        return of_arrays(column) if self.kind == OF_ARRAYS else of_vectors(column)

    def targets_of(self, table: Any) -> Any:
        """Numbers; -1 or +1 of two classes, labels of more."""
        assert self.label is not None
        if self.classes is None:
            return doubles_in(table, self.label)
        found = joined_array(table.column(self.label))
        if found.null_count:
            raise ValueError(f"column {self.label!r} has nulls: leave rows without a label out")
        labels = found.to_pylist()
        unknown = next((label for label in labels if label not in self.classes), None)
        if unknown is not None:
            raise ValueError(f"column {self.label!r} has {unknown!r}, which is none of {list(self.classes)}")
        if len(self.classes) == 2:
            return np.where([label == self.classes[1] for label in labels], 1.0, -1.0)
        return labels


def is_batch(table: Any) -> bool:
    """Return whether `data` is a record batch, not a table."""
    return isinstance(table, arrow().RecordBatch)


def joined_array(column: Any) -> Any:
    """Return a column as one array."""
    return column.combine_chunks() if hasattr(column, "combine_chunks") else column


def doubles_in(table: Any, name: str) -> Any:
    """Return a column of numbers without missing values."""
    column = joined_array(table.column(name))
    if column.null_count:
        raise ValueError(f"column {name!r} has nulls: leave such rows out")
    return np.asarray(column.cast(arrow().float64()).to_numpy(zero_copy_only=False), np.float64)


def of_arrays(column: Any) -> Chunk:
    """Return rows of lists of numbers; the place in the list is the feature."""
    starts, lengths, values = lists_in(column)
    indices = np.arange(len(values), dtype=np.int64) - np.repeat(starts, lengths)
    return rows_from(lengths, indices, values)


def of_vectors(column: Any) -> Chunk:
    """Return rows of Spark's vectors: struct<type, size, indices, values>, type 0 sparse and 1 dense."""
    kinds = np.asarray(column.field("type").to_numpy(zero_copy_only=False))
    starts, lengths, values = lists_in(column.field("values"))
    places = np.arange(len(values), dtype=np.int64) - np.repeat(starts, lengths)
    _, named, given = lists_in(column.field("indices").fill_null([]))
    sparse = np.repeat(kinds == 0, lengths)
    if int(sparse.sum()) != int(named[kinds == 0].sum()):
        raise ValueError("a sparse vector has not as many indices as values")
    places[sparse] = given[np.repeat(kinds == 0, named)]
    return rows_from(lengths, places, values)


def lists_in(column: Any) -> tuple[Any, Any, Any]:
    """Return where every list starts among the values of all, its length, and the values."""
    offsets = np.asarray(column.offsets.to_numpy(), np.int64)
    values = column.values.slice(offsets[0], offsets[-1] - offsets[0])
    if values.null_count:
        raise ValueError("there are nulls among the values of features")
    return offsets[:-1] - offsets[0], np.diff(offsets), values.to_numpy(zero_copy_only=False)


def rows_from(lengths: Any, indices: Any, values: Any) -> Chunk:
    """Return a canonical chunk of rows of these lengths."""
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return canonical(Chunk(indptr, indices.astype(np.int32), np.array(values, np.float64)), spot)


# --- between tasks ----------------------------------------------------------------------------


def to_ipc(rows: Any) -> bytes:
    """Return an Arrow batch or table as bytes."""
    pa = arrow()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write(rows)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def from_ipc(data: Any) -> Any:
    """Return the table of bytes that `to_ipc` wrote."""
    return arrow().ipc.open_stream(data).read_all()
