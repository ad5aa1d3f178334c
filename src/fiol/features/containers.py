"""Convert rows in any container to a chunk: scipy matrices, arrays, frames, and chunks that are not canonical.

The chunk has the same bits for every container of a matrix. Canonical arrays of the caller are shared, never written
to. `fiol.features.frames.register` adds containers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import numpy as np

from fiol.components.component import place
from fiol.features.chunk import (
    AT_ONCE,
    LARGEST,
    MOST_FEATURES,
    SMALLEST,
    Chunk,
    FeatureCountError,
    Names,
    check_indptr,
    column_label,
    first_wrong,
    from_csr,
    loops,
    refuse_value,
    spot,
)
from fiol.features.frames import (
    Frame,
    as_frame,
    as_numbers,
    converted,
    first_odd,
    is_sparse,
    match_columns,
    numbers_of_objects,
    sparse_entries,
)

ENCODE = "encode it, or pass dicts"


def to_chunk(X: Any, columns: Sequence[str] | None = None, n_features: int | None = None) -> Chunk:
    """Return the rows of `X` as a chunk; errors name the place in `X`.

    Parameters
    ----------
    X : a scipy sparse matrix, a two-dimensional array or nested list of numbers, a frame of pandas, polars, arrow or of
        any other library that narwhals supports, any Chunk, or a container of `fiol.features.frames.register`.
        Duplicates in sparse rows are added up in their order.
    columns : names of the columns. A frame with names must have exactly these and is read in this order;
        other containers are read by position.
    n_features : number of features: dense rows must have as many columns, indices must be smaller.

    Examples
    --------
    >>> to_chunk([[True, False, True]]).indices
    array([0, 2], dtype=int32)
    >>> to_chunk([[1.0, float("nan")]], columns=["age", "income"])
    Traceback (most recent call last):
    ValueError: X[0, 'income'] must be finite, got nan
    """
    names = None if columns is None else tuple(columns)
    if names is not None and n_features is None:
        n_features = len(names)
    X = converted(X)
    if isinstance(X, Chunk):
        X = Chunk(*map(np.asarray, X))
        return from_csr(X, max(X.rows, 0), MOST_FEATURES, names, n_features)
    if is_sparse(X):
        return from_sparse(X, names, n_features)
    frame = as_frame(X)
    if frame is not None:
        return from_frame(frame, names, n_features)
    return from_dense(as_matrix(X), names, n_features)


# --- sparse containers ------------------------------------------------------------------------


def from_sparse(X: Any, names: Names | None, n_features: int | None) -> Chunk:
    """Return a scipy sparse matrix of any format as a chunk."""
    check_two_dimensional(X.shape)
    rows, width = X.shape
    form = getattr(X, "format", "")
    if form in ("coo", "bsr"):  # scipy would add up duplicates in any order, and integers within their type
        X = X.tocoo()
        check_rows("row", X.row, rows)
        return from_entries(X.row, X.col, X.data, rows, width, names, n_features)
    if form == "csc":  # scipy does not check indices
        check_indptr(X.indptr, width, min(X.indices.shape[0], X.data.shape[0]))
        check_rows("indices", X.indices[: X.indptr[-1]], rows)
    X = X.tocsr()
    return from_csr(Chunk(X.indptr, X.indices, X.data), rows, width, names, n_features)


def from_entries(
    row: Any, indices: Any, data: Any, rows: int, width: int, names: Names | None, n_features: int | None
) -> Chunk:
    """Return entries in any order as a chunk."""
    order = np.argsort(row, kind="stable")
    indptr = np.zeros(rows + 1, np.int64)
    np.cumsum(np.bincount(row, minlength=rows), out=indptr[1:])
    return from_csr(Chunk(indptr, indices[order], data[order]), rows, width, names, n_features)


# --- dense containers -------------------------------------------------------------------------


def as_matrix(X: Any) -> Any:
    """Return a two-dimensional array of numbers."""
    if np.ma.is_masked(X):
        row, column = np.argwhere(np.ma.getmaskarray(X))[0]
        raise ValueError(f"X[{row}, {column}] is missing")
    try:
        array = np.asarray(X)
    except ValueError:  # a nested list with rows of different lengths
        refuse_ragged(X)
    if array.dtype.kind == "O" and array.size and isinstance(array.flat[0], dict):
        raise TypeError("X holds dict: use Vocabulary().encode(X) or Hashing(bits).encode(X)")
    if array.dtype.kind not in "biuf" and array.ndim == 0:
        raise TypeError(f"X must be a matrix of numbers, got {type(X).__name__}")
    check_two_dimensional(array.shape)
    array = numbers_of_objects(array, lambda k: spot(*divmod(k, array.shape[1])))
    if array.dtype.kind not in "biuf":
        k, found = first_odd(np.asarray(X, dtype=object), str(array.dtype))
        row, column = divmod(k, array.shape[1])
        raise (
            TypeError(f"column {column} holds {found}: {ENCODE}")
            if found
            else ValueError(f"X[{row}, {column}] is missing")
        )
    return array


def from_dense(array: Any, names: Names | None, n_features: int | None) -> Chunk:
    """Return a two-dimensional array of numbers as a chunk."""
    rows, width = array.shape
    check_width(width, n_features)
    if array.size <= AT_ONCE:  # usually
        x = doubles(array)
        return write_entries([x], rows, width, count_zeros(x, 0, names))
    some = AT_ONCE // width or 1  # interrupts are handled between pieces
    zeros = sum(count_zeros(doubles(array[k : k + some]), k, names) for k in range(0, rows, some))
    return write_entries((doubles(array[k : k + some]) for k in range(0, rows, some)), rows, width, zeros)


def doubles(array: Any) -> Any:
    """Return an array as doubles in C order that kernels may read."""
    x = np.require(array, np.float64, ["C_CONTIGUOUS", "ALIGNED", "ENSUREARRAY"]).view()
    x.flags.writeable = False  # kernels are compiled for one type
    return x


def count_zeros(x: Any, start: int, names: Names | None) -> int:
    """Return how many values of the rows from `start` on are 0; an error names the first that is out of range."""
    zeros, wrong = loops().survey(x.reshape(-1), SMALLEST, LARGEST)
    if wrong:
        row, column = divmod(first_wrong(x), x.shape[1])
        refuse_value(spot(start + row, column, names), float(x[row, column]))
    return int(zeros)


def write_entries(pieces: Iterable[Any], rows: int, width: int, zeros: int) -> Chunk:
    """Return the chunk of dense pieces with `rows` rows in all, of which `zeros` values are 0."""
    entries, row, n = rows * width - zeros, 0, 0
    indptr = np.zeros(rows + 1, np.int64)
    indices, data = np.empty(entries + 1, np.int32), np.empty(entries + 1)  # `fill` needs one place more
    for x in pieces:
        starts = indptr[row : row + x.shape[0] + 1]
        if zeros:
            loops().count(x, starts)
            loops().fill(x, indices[n:], data[n:])
        else:
            starts[:] = width * np.arange(starts.shape[0])
            indices[n : n + x.size].reshape(x.shape)[...] = np.arange(width, dtype=np.int32)
            data[n : n + x.size].reshape(x.shape)[...] = x
        if n:
            starts += n
        row, n = row + x.shape[0], int(starts[-1])
    return Chunk(indptr, indices[:-1], data[:-1])


# --- frames -----------------------------------------------------------------------------------


def from_frame(frame: Frame, names: Names | None, n_features: int | None) -> Chunk:
    """Return a frame as a chunk, its columns matched by name where there are names."""
    own, (rows, width) = frame.names, frame.shape
    order = match_columns(own, names) if own is not None and names is not None else None
    names = own if order is None and own is not None else names
    matrix = frame.matrix(order)
    if matrix is None:
        columns = frame.columns(order)
        entries = [sparse_entries(column) for column in columns]
        if any(found is not None for found in entries):
            return from_columns(columns, entries, rows, names, n_features)
        matrix = np.empty((rows, width))
        for i, column in enumerate(columns):
            matrix[:, i] = frame_column(column, i, names)
    return from_dense(matrix, names, n_features)


def from_columns(
    columns: list[Any], entries: list[Any], rows: int, names: Names | None, n_features: int | None
) -> Chunk:
    """Return columns of which some are sparse as a chunk, without making those dense."""
    check_width(len(columns), n_features)
    for i, column in enumerate(columns):
        if entries[i] is None:
            values = frame_column(column, i, names)
            (row,) = values.nonzero()
            entries[i] = (row, values[row])
    row = np.concatenate([found[0] for found in entries]).astype(np.int64)
    indices = np.repeat(np.arange(len(columns)), [len(found[0]) for found in entries])
    data = np.concatenate([np.asarray(found[1], np.float64) for found in entries])
    return from_entries(row, indices, data, rows, len(columns), names, n_features)


def frame_column(column: Any, i: int, names: Names | None) -> Any:
    """Return one column of a frame as an array of numbers."""
    return as_numbers(column, lambda row: spot(row, i, names), f"column {column_label(i, names)}", ENCODE)


# --- errors -----------------------------------------------------------------------------------


def check_two_dimensional(shape: tuple[int, ...]) -> None:
    """Raise ValueError unless `shape` is that of a matrix."""
    if len(shape) != 2:
        hint = ": use X.reshape(1, -1) for one row" if len(shape) == 1 else ""
        raise ValueError(f"X must be two-dimensional, got shape {shape}{hint}")


def check_width(width: int, n_features: int | None) -> None:
    """Raise ValueError unless there are as many columns as features."""
    if n_features is not None and width != n_features:
        raise FeatureCountError(f"X has {width} columns, but there are {n_features} features")
    if width > MOST_FEATURES:
        raise ValueError(f"X has {width} columns: index overflow, the largest index is {MOST_FEATURES - 1}")


def check_rows(name: str, row: Any, rows: int) -> None:
    """Raise ValueError unless every entry is in one of the rows."""
    wrong = (row < 0) | (row >= rows)
    if wrong.any():
        raise ValueError(f"X.{name}{place(wrong)} must be from 0 to {rows - 1}, got {row[wrong][0]}")


def refuse_ragged(X: Any) -> NoReturn:
    """Raise the error for a nested list that is not a matrix."""
    lengths = [len(row) if isinstance(row, (list, tuple, np.ndarray)) else None for row in X]
    k = next((k for k, length in enumerate(lengths) if length != lengths[0]), 0)
    if k == 0 or None in (lengths[0], lengths[k]):
        raise TypeError(f"X must be a matrix of numbers, got {type(X).__name__}")
    raise ValueError(f"X must have rows of one length, got {lengths[0]} columns in row 0 and {lengths[k]} in row {k}")
