"""Rows in any container as one chunk: CSR with rising indices, no zeros, and nothing a step could overflow on.

Containers are known by what they can do, so that none of their libraries is imported. Whatever held a
matrix, its chunk is the same to the bit. The caller's arrays are shared where they are canonical
already, and never written to.
"""

from __future__ import annotations

import functools
import numbers
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from fiol.components.component import place
from fiol.components.losses import Binary, Loss
from fiol.components.row import Floats, Indices

Pointers = np.ndarray[Any, np.dtype[np.int64]]
Names = tuple[str, ...]

#: Values are 0 or in this range: exact steps, which multiply them with each other, do not overflow there.
SMALLEST, LARGEST = 1e-100, 1e100
#: One more than the largest index.
FEATURES = 2**31 - 1
#: The largest sample weight.
HEAVIEST = 1e30
ENCODE = "encode it, or pass dicts"


class Chunk(NamedTuple):
    """Rows as CSR, canonical: indices rise within a row and no value is 0. Contiguous, aligned, writeable arrays.

    >>> chunk = to_chunk([[0.0, 2.0, 3.0], [0.0, 0.0, 0.0], [4.0, 0.0, 0.0]])
    >>> chunk.rows, chunk.indptr, chunk.indices, chunk.data
    (3, array([0, 2, 2, 3]), array([1, 2, 0], dtype=int32), array([2., 3., 4.]))
    """

    indptr: Pointers  #: where each row starts, from 0, and where the last one ends
    indices: Indices  #: which feature each entry is
    data: Floats  #: its value

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.indptr.shape[0] - 1

    def row_block(self, start: int, stop: int) -> Chunk:
        """Rows `start` to `stop`, as a slice has them, sharing the entries.

        >>> to_chunk([[0.0, 2.0], [3.0, 0.0]]).row_block(1, 2)
        Chunk(indptr=array([0, 1]), indices=array([0], dtype=int32), data=array([3.]))
        """
        start, stop, _ = slice(start, stop).indices(self.rows)
        indptr = self.indptr[start : max(start, stop) + 1]
        entries = slice(indptr[0], indptr[-1])
        return Chunk(indptr - indptr[0], self.indices[entries], self.data[entries])

    def take(self, order: Any) -> Chunk:
        """Copies of these rows, in this order.

        >>> to_chunk([[0.0, 2.0], [3.0, 0.0]]).take([1, 0, 1]).data
        array([3., 2., 3.])
        """
        order = kernel_array(order, np.int64)
        indptr = np.zeros(order.shape[0] + 1, np.int64)
        np.cumsum((self.indptr[1:] - self.indptr[:-1])[order], out=indptr[1:])
        new = Chunk(indptr, np.empty(indptr[-1], np.int32), np.empty(indptr[-1]))
        loops().take(*self, order, *new)
        return new


def to_chunk(X: Any, columns: Sequence[str] | None = None, n_features: int | None = None) -> Chunk:
    """The rows of `X` as a chunk; errors name the place in `X`.

    Parameters
    ----------
    X : a scipy sparse matrix, a two-dimensional array or nested list of numbers, a pandas or polars DataFrame,
        an arrow Table or RecordBatch, or a Chunk. Duplicates in sparse rows are added up in their order.
    columns : what the columns are called. A frame with names must have exactly these and is read in this order;
        other containers are read by position.
    n_features : how many there are: dense rows must have as many, indices must be below it.

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
    if isinstance(X, Chunk):
        X = Chunk(*map(np.asarray, X))
        return from_csr(X, max(X.rows, 0), FEATURES, names, n_features)
    if hasattr(X, "tocsr"):
        return from_sparse(X, names, n_features)
    if is_frame(X):
        return from_frame(X, names, n_features)
    return from_dense(as_matrix(X), names, n_features)


@functools.cache
def loops() -> Any:
    """The compiled loops."""
    from fiol.intake import scan  # imported here: `import fiol` loads no compiler

    return scan


def kernel_array(array: Any, dtype: Any) -> Any:
    """`array`, or a copy if need be, as the one array type that kernels are compiled for."""
    return np.require(array, dtype, ["C_CONTIGUOUS", "ALIGNED", "WRITEABLE", "ENSUREARRAY"])


# --- sparse containers ------------------------------------------------------------------------


def from_sparse(X: Any, names: Names | None, n_features: int | None) -> Chunk:
    """A scipy sparse matrix of any format as a chunk."""
    check_two_dimensional(X.shape)
    rows, width = X.shape
    form = getattr(X, "format", "")
    if form in ("coo", "bsr"):  # scipy would add up duplicates in any order, and integers within their type
        X = X.tocoo()
        check_rows("row", X.row, rows)
        return from_entries(X.row, X.col, X.data, rows, width, names, n_features)
    if form == "csc":  # scipy does not look where it writes
        check_indptr(X.indptr, width, min(X.indices.shape[0], X.data.shape[0]))
        check_rows("indices", X.indices[: X.indptr[-1]], rows)
    X = X.tocsr()
    return from_csr(Chunk(X.indptr, X.indices, X.data), rows, width, names, n_features)


def from_csr(X: Chunk, rows: int, width: int, names: Names | None, n_features: int | None) -> Chunk:
    """The arrays of a CSR matrix, in whatever state, as a chunk."""
    check_indptr(X.indptr, rows, min(X.indices.shape[0], X.data.shape[0]))
    indptr = kernel_array(X.indptr, np.int64)
    indices, data = X.indices[: indptr[-1]], X.data[: indptr[-1]]
    if data.dtype.kind not in "biuf":
        raise TypeError(f"X must hold numbers, got {data.dtype}")
    check_indices(indptr, indices, min(width, FEATURES if n_features is None else n_features, FEATURES))
    chunk = Chunk(indptr, kernel_array(indices, np.int32), kernel_array(data, np.float64))
    return canonical(chunk, functools.partial(spot, names=names))


def from_entries(
    row: Any, indices: Any, data: Any, rows: int, width: int, names: Names | None, n_features: int | None
) -> Chunk:
    """Entries in any order as a chunk."""
    order = np.argsort(row, kind="stable")
    indptr = np.zeros(rows + 1, np.int64)
    np.cumsum(np.bincount(row, minlength=rows), out=indptr[1:])
    return from_csr(Chunk(indptr, indices[order], data[order]), rows, width, names, n_features)


def canonical(chunk: Chunk, where: Callable[[int, int], str]) -> Chunk:
    """`chunk` itself if it is canonical, otherwise its rows sorted, added up and without zeros.

    `where(row, index)` is how an error calls an entry.
    """
    indptr, indices, data = chunk
    falls, zeros, wrong = loops().flaws(*chunk, SMALLEST, LARGEST)
    if wrong:
        k = first_wrong(data)
        refuse_value(where(row_of(indptr, k), int(indices[k])), float(data[k]))
    if falls:
        row = np.repeat(np.arange(chunk.rows, dtype=np.int64), np.diff(indptr))
        order = np.argsort((row << 31) | indices, kind="stable")
        indices, data = indices[order], data[order]
    if not (falls or zeros):
        return chunk
    new = Chunk(np.empty_like(indptr), np.empty_like(indices), np.empty_like(data))
    left = loops().compact(indptr, indices, data, *new)
    new = Chunk(new.indptr, new.indices[:left].copy(), new.data[:left].copy())
    return canonical(new, where) if falls else new  # sums may leave the range


def row_of(indptr: Pointers, k: int) -> int:
    """The row that holds entry `k`."""
    return int(np.searchsorted(indptr, k, side="right")) - 1


def first_wrong(values: Floats) -> int:
    """The first of `values` that is neither 0 nor in range."""
    size = np.abs(values)
    return int(np.argmin((values == 0.0) | ((size >= SMALLEST) & (size <= LARGEST))))


# --- dense containers -------------------------------------------------------------------------


def as_matrix(X: Any) -> Any:
    """A two-dimensional array of numbers."""
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
    """A two-dimensional array of numbers as a chunk."""
    rows, width = array.shape
    check_width(width, n_features)
    x = np.require(array, np.float64, ["C_CONTIGUOUS", "ALIGNED", "ENSUREARRAY"]).view()
    x.flags.writeable = False  # so that kernels see one type
    zeros, wrong = loops().survey(x.reshape(-1), SMALLEST, LARGEST)
    if wrong:
        row, column = divmod(first_wrong(x), width)
        refuse_value(spot(row, column, names), float(x[row, column]))
    if not zeros:
        indices = np.tile(np.arange(width, dtype=np.int32), rows)
        return Chunk(width * np.arange(rows + 1, dtype=np.int64), indices, x.flatten())
    indptr = np.empty(rows + 1, np.int64)
    loops().count(x, indptr)
    indices, data = np.empty(indptr[-1] + 1, np.int32), np.empty(indptr[-1] + 1)
    loops().fill(x, indices, data)
    return Chunk(indptr, indices[:-1], data[:-1])


# --- frames -----------------------------------------------------------------------------------


def is_frame(X: Any) -> bool:
    """Whether X is a pandas or polars DataFrame, or an arrow Table or RecordBatch."""
    return any(hasattr(X, verb) for verb in ("iloc", "get_columns", "column_names")) and len(X.shape) == 2


def column_names(X: Any) -> Names | None:
    """The names of the columns of a frame; None if they are numbers, or X is no frame.

    >>> column_names([[1.0, 2.0]]) is None
    True
    """
    if not is_frame(X):
        return None
    names = tuple(X.column_names if hasattr(X, "column_names") else X.columns)
    strings = [name for name in names if isinstance(name, str)]
    if strings and len(strings) < len(names):
        other = next(name for name in names if not isinstance(name, str))
        raise TypeError(f"column names must all be str or none, got {strings[0]!r} and {other!r}")
    if len(set(strings)) < len(strings):
        twice = next(name for name in strings if strings.count(name) > 1)
        raise ValueError(f"column {twice!r} is there more than once")
    return tuple(map(str, strings)) or None


def match_columns(names: Sequence[str], expected: Sequence[str]) -> list[int] | None:
    """Where in `names` each of the expected columns is; None if they are in order already.

    >>> match_columns(["b", "a"], ["a", "b"])
    [1, 0]
    >>> match_columns(["a", "c"], ["a", "b"])
    Traceback (most recent call last):
    ValueError: columns must be those first seen: missing 'b'; unexpected 'c'
    """
    if tuple(names) == tuple(expected):
        return None
    position, known = {name: k for k, name in enumerate(names)}, set(expected)
    wrong = {
        "missing": [name for name in expected if name not in position],
        "unexpected": [name for name in names if name not in known],
    }
    if any(wrong.values()):
        parts = [f"{kind} {enumeration(found)}" for kind, found in wrong.items() if found]
        raise ValueError(f"columns must be those first seen: {'; '.join(parts)}")
    return [position[name] for name in expected]


def enumeration(names: list[str]) -> str:
    """The first five names, and how many more there are."""
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(map(repr, names[:5])) + more


def from_frame(X: Any, names: Names | None, n_features: int | None) -> Chunk:
    """A frame as a chunk, its columns matched by name where there are names."""
    own = column_names(X)
    order = match_columns(own, names) if own is not None and names is not None else None
    names = own if order is None and own is not None else names
    rows, width = X.shape
    if hasattr(X, "iloc"):
        X = X if order is None else X.iloc[:, order]
        if all(isinstance(dtype, np.dtype) and dtype.kind in "biuf" for dtype in X.dtypes):
            return from_dense(X.to_numpy(dtype=np.float64), names, n_features)
        columns = [X.iloc[:, i] for i in range(width)]
    else:
        columns = X.get_columns() if hasattr(X, "get_columns") else X.columns
        columns = columns if order is None else [columns[i] for i in order]
    entries = [sparse_entries(column) for column in columns]
    if any(found is not None for found in entries):
        return from_columns(columns, entries, rows, names, n_features)
    matrix = np.empty((rows, width))
    for i, column in enumerate(columns):
        matrix[:, i] = frame_column(column, i, names)
    return from_dense(matrix, names, n_features)


def sparse_entries(column: Any) -> tuple[Any, Any] | None:
    """Rows and values of a pandas sparse column whose other values are 0."""
    array: Any = getattr(column, "array", None)
    if not hasattr(array, "sp_index") or array.dtype.kind not in "biuf" or array.fill_value != 0:
        return None
    return array.sp_index.to_int_index().indices, array.sp_values


def from_columns(
    columns: list[Any], entries: list[Any], rows: int, names: Names | None, n_features: int | None
) -> Chunk:
    """Columns of which some are sparse as a chunk, without making those dense."""
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
    """One column of a frame as an array of numbers."""
    return as_numbers(column, lambda row: spot(row, i, names), f"column {label(i, names)}", ENCODE)


def as_numbers(values: Any, where: Callable[[int], str], what: str, advice: str) -> Any:
    """A series of whatever library as an array of numbers; `where(k)` is how an error calls its k-th entry."""
    missing = nulls(values)
    present = values if missing is None else without_nulls(values)
    if hasattr(present, "isna"):  # pandas
        kind = present.dtype.kind
        array = present.to_numpy(dtype=bool if kind == "b" else np.float64 if kind in "iuf" else object)
    else:
        try:
            array = np.asarray(present)
        except ValueError:  # lists of different lengths
            array = np.asarray(present, dtype=object)
    if array.dtype.kind not in "biuf" and array.size:
        dtype = getattr(values, "dtype", array.dtype) if array.dtype.kind == "O" else array.dtype
        k, found = first_odd(np.asarray(present, dtype=object), str(dtype))
        raise TypeError(f"{what} holds {found}: {advice}") if found else ValueError(f"{where(k)} is missing")
    if missing is not None:
        raise ValueError(f"{where(int(missing.argmax()))} is missing")
    return array


def nulls(values: Any) -> Any:
    """Which values are null, if any, in a series with a notion of null that is not NaN."""
    if hasattr(values, "isna"):  # pandas
        mask = None if isinstance(values.dtype, np.dtype) else np.asarray(values.isna())
    elif hasattr(values, "is_null"):  # polars, arrow
        mask = np.asarray(values.is_null())
    else:
        mask = np.ma.getmaskarray(values) if np.ma.is_masked(values) else None
    return mask if mask is not None and mask.any() else None


def without_nulls(values: Any) -> Any:
    """The other values."""
    verbs = ("dropna", "drop_nulls", "drop_null", "compressed")  # pandas, polars, arrow, numpy
    return next(getattr(values, verb)() for verb in verbs if hasattr(values, verb))


def first_odd(objects: Any, dtype: str) -> tuple[int, str]:
    """The first object that is no number: its place and type, which is '' if it is missing."""
    for k, value in enumerate(objects.flat):
        if value is None or type(value).__name__ == "NAType":
            return k, ""
        if not isinstance(value, numbers.Real):
            return k, "str" if isinstance(value, str) else type(value).__name__
    return 0, dtype


# --- targets and sample weights ---------------------------------------------------------------


def check_targets(y: Any, rows: int, loss: Loss) -> Floats:
    """One target per row that the loss accepts, as float64.

    >>> from fiol import Logistic
    >>> check_targets([1, -1, -1], 3, Logistic())
    array([ 1., -1., -1.])
    >>> check_targets([1, 0, 0], 3, Logistic())
    Traceback (most recent call last):
    ValueError: y[1] must be -1 or +1 for Logistic, got 0: use 2*y - 1
    """
    array = one_per_row("y", y, rows)
    targets: Floats = kernel_array(array, np.float64)
    if array.dtype.kind != "b" and loops().refused(loss, targets, LARGEST) == rows:
        return targets
    wanted = f"must be {loss.targets} for {type(loss).__name__}"
    zero_one = bool(((array == 0) | (array == 1)).all())
    hint = ": use 2*y - 1" if zero_one and isinstance(loss, Binary) else ""
    if array.dtype.kind == "b" and hint:  # True would pass for +1, until the first False
        raise ValueError(f"y {wanted}, got bool{hint}")
    check_range("y", targets, -LARGEST, LARGEST, f"at most {LARGEST:g} in size")
    k = loops().refused(loss, targets, LARGEST)
    if k < rows:
        raise ValueError(f"y[{k}] {wanted}, got {targets[k]:g}{hint}")
    return targets


def check_weights(sample_weight: Any, rows: int) -> Floats:
    """One weight per row as float64, 1 by default.

    >>> check_weights(None, 2), check_weights([1, 0], 2)
    (array([1., 1.]), array([1., 0.]))
    """
    if sample_weight is None:
        return np.ones(rows)
    weights: Floats = kernel_array(one_per_row("sample_weight", sample_weight, rows), np.float64)
    check_range("sample_weight", weights, 0.0, HEAVIEST, f"at least 0 and at most {HEAVIEST:g}")
    return weights


def one_per_row(name: str, values: Any, rows: int) -> Any:
    """A series with as many numbers as there are rows."""
    array = values
    if not is_frame(values):
        array = as_numbers(values, lambda k: f"{name}[{k}]", name, "it must be numbers")
    if array.shape != (rows,):
        if len(array.shape) == 2 and array.shape[1] == 1:
            raise ValueError(f"{name} must be one-dimensional, got shape {array.shape}: use {name}.ravel()")
        if len(array.shape) != 1:
            raise ValueError(f"{name} must be one-dimensional, got shape {array.shape}")
        raise ValueError(f"{name} must have one entry per row: {rows}, got {array.shape[0]}")
    return array


def check_range(name: str, values: Floats, low: float, high: float, wanted: str) -> None:
    """Raise ValueError at the first value that is not finite, or not between `low` and `high`."""
    wrong = ~((values >= low) & (values <= high))
    if wrong.any():
        value = values[wrong][0]
        raise ValueError(f"{name}{place(wrong)} must be {wanted if np.isfinite(value) else 'finite'}, got {value:g}")


# --- errors, each naming the place that is wrong ----------------------------------------------


def spot(row: int, column: int, names: Names | None = None) -> str:
    """How an error calls an entry of X: by the name of its column if there is one."""
    return f"X[{row}, {label(column, names)}]"


def label(column: int, names: Names | None) -> str:
    """The name of a column, or its number."""
    return repr(names[column]) if names is not None and 0 <= column < len(names) else str(column)


def check_two_dimensional(shape: tuple[int, ...]) -> None:
    """Raise ValueError unless `shape` is that of a matrix."""
    if len(shape) != 2:
        hint = ": use X.reshape(1, -1) for one row" if len(shape) == 1 else ""
        raise ValueError(f"X must be two-dimensional, got shape {shape}{hint}")


def check_width(width: int, n_features: int | None) -> None:
    """Raise ValueError unless there are as many columns as features."""
    if n_features is not None and width != n_features:
        raise ValueError(f"X has {width} columns, but there are {n_features} features")
    if width > FEATURES:
        raise ValueError(f"X has {width} columns: index overflow, the largest index is {FEATURES - 1}")


def check_indptr(indptr: Any, rows: int, entries: int) -> None:
    """Raise ValueError unless `indptr` cuts `entries` into rows (scipy allows some to be left over)."""
    if indptr.ndim != 1 or indptr.dtype.kind not in "iu":
        raise TypeError(f"X.indptr must be one-dimensional integers, got {indptr.dtype} of shape {indptr.shape}")
    if indptr.shape[0] != rows + 1:
        raise ValueError(f"X.indptr must have one entry more than there are rows: {rows + 1}, got {indptr.shape[0]}")
    if indptr[0] != 0:
        raise ValueError(f"X.indptr must start at 0, got {indptr[0]}")
    falls = indptr[1:] < indptr[:-1]
    if falls.any():
        k = int(falls.argmax()) + 1
        raise ValueError(f"X.indptr must not decrease, got {indptr[k]} after {indptr[k - 1]} at row {k - 1}")
    if indptr[-1] > entries:
        raise ValueError(f"X.indptr must end at the number of entries: {entries}, got {indptr[-1]}")


def check_rows(name: str, row: Any, rows: int) -> None:
    """Raise ValueError unless every entry is in one of the rows."""
    wrong = (row < 0) | (row >= rows)
    if wrong.any():
        raise ValueError(f"X.{name}{place(wrong)} must be from 0 to {rows - 1}, got {row[wrong][0]}")


def check_indices(indptr: Pointers, indices: Any, limit: int) -> None:
    """Raise ValueError unless every index is from 0 to `limit` - 1."""
    if indices.ndim != 1 or indices.dtype.kind not in "iu":
        raise TypeError(f"X.indices must be one-dimensional integers, got {indices.dtype} of shape {indices.shape}")
    if not indices.size or (indices.min() >= 0 and indices.max() < limit):
        return
    k = int(np.argmax((indices < 0) | (indices >= limit)))
    index = int(indices[k])
    reason = f"there are {limit} features"
    if index < 0:
        reason = "an index is at least 0"
    elif index >= FEATURES:
        reason = f"index overflow, the largest is {FEATURES - 1}"
    raise ValueError(f"X[{row_of(indptr, k)}, {index}] is no entry: {reason}")


def refuse_value(where: str, value: float) -> NoReturn:
    """Raise the ValueError of a value that is out of range."""
    wanted = f"0 or between {SMALLEST:g} and {LARGEST:g} in size" if np.isfinite(value) else "finite"
    raise ValueError(f"{where} must be {wanted}, got {value:g}")


def refuse_ragged(X: Any) -> NoReturn:
    """Raise the error of a nested list that is no matrix."""
    lengths = [len(row) if isinstance(row, (list, tuple, np.ndarray)) else None for row in X]
    k = next((k for k, length in enumerate(lengths) if length != lengths[0]), 0)
    if k == 0 or None in (lengths[0], lengths[k]):
        raise TypeError(f"X must be a matrix of numbers, got {type(X).__name__}")
    raise ValueError(f"X must have rows of one length, got {lengths[0]} columns in row 0 and {lengths[k]} in row {k}")
