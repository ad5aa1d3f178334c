"""Read and make frames and series of any library through narwhals, which is imported on first use.

`register` adds a library that narwhals does not support.
"""

from __future__ import annotations

import decimal
import functools
import numbers
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from fiol.components.row import Floats
from fiol.features.arrow_arrays import null_mask, numbers_of_arrow
from fiol.features.chunk import Names

#: Conversions of other containers to supported ones, by class or by "library.Class".
CONVERSIONS: dict[type | str, Callable[[Any], Any]] = {
    "pyarrow.RecordBatch": lambda batch: arrow().Table.from_batches([batch]),
    "pyarrow.Array": lambda array: arrow().chunked_array([array]),
    "pandas.ExtensionArray": lambda array: pandas().Series(array),
}
#: Types of numbers in columns of objects.
REAL_NUMBERS = (numbers.Real, decimal.Decimal, np.bool_)
#: Types that are neither frames nor series.
NO_FRAMES = (np.ndarray, list, tuple, str, bytes, type(None))


def register(container: type | str, convert: Callable[[Any], Any]) -> None:
    """Accept rows, targets and sample weights in one more container, which `convert` turns into a supported one.

    `container` is a class, or "library.Class" for one that is not imported yet; subclasses are included. `convert` may
    return a frame or series that narwhals supports, an array, a scipy sparse matrix, a list of dicts or a `fiol.Chunk`.

    >>> from fiol import to_chunk
    >>> class Columns:
    ...     def __init__(self, *columns):
    ...         self.columns = columns
    >>> register(Columns, lambda table: np.column_stack(table.columns))
    >>> to_chunk(Columns([1.0, 2.0], [0.0, 3.0])).data
    array([1., 2., 3.])
    """
    if not isinstance(container, (type, str)):
        raise TypeError(f'container must be a class or "library.Class", got {container!r}')
    if not callable(convert):
        raise TypeError(f"convert must be a function of one container, got {convert!r}")
    CONVERSIONS[container] = convert
    conversion_of.cache_clear()


def converted(values: Any) -> Any:
    """Return a registered container as a supported one; any other object unchanged."""
    kind: Any = type(values)
    convert = None if isinstance(values, NO_FRAMES) else conversion_of(kind)
    return values if convert is None else convert(values)


@functools.cache
def conversion_of(kind: type) -> Callable[[Any], Any] | None:
    """Return the registered conversion of a class; None if there is none."""
    keys = ((cls, f"{cls.__module__.partition('.')[0]}.{cls.__name__}") for cls in kind.__mro__)
    return next((CONVERSIONS[key] for pair in keys for key in pair if key in CONVERSIONS), None)


def narwhals() -> Any:
    """Return the module narwhals, imported on first use."""
    import narwhals.stable.v1 as known  # imported here: `import fiol` loads no frames

    return known


def arrow() -> Any:
    """Return pyarrow, which is installed if one of its objects is used."""
    import pyarrow

    return pyarrow


def pandas() -> Any:
    """Return pandas, which is installed if one of its objects is used."""
    import pandas

    return pandas


# --- frames in --------------------------------------------------------------------------------


class Frame:
    """A frame of any library: its column labels, rows and columns.

    pandas is used directly where narwhals lacks a function: a block of numbers, sparse columns, the index.
    """

    def __init__(self, native: Any, wrapped: Any) -> None:
        self.native = native  #: the frame of its own library
        self._wrapped = wrapped  # None for pandas until it is needed
        self.shape: tuple[int, int] = native.shape if wrapped is None else wrapped.shape
        #: The labels of the columns, usually str.
        self.column_labels: list[Any] = list(native.columns if wrapped is None else wrapped.columns)

    def __len__(self) -> int:
        return self.shape[0]

    @functools.cached_property
    def wrapped(self) -> Any:
        """The frame wrapped by narwhals."""
        return narwhals().from_native(self.native, eager_only=True) if self._wrapped is None else self._wrapped

    @functools.cached_property
    def names(self) -> Names | None:
        """The column labels if they are distinct strings; None if they are numbers."""
        strings = [label for label in self.column_labels if isinstance(label, str)]
        if strings and len(strings) < len(self.column_labels):
            other = next(label for label in self.column_labels if not isinstance(label, str))
            raise TypeError(f"column names must all be str or none, got {strings[0]!r} and {other!r}")
        if len(set(strings)) < len(strings):
            refuse_twice(strings)
        return tuple(map(str, strings)) or None

    @functools.cached_property
    def numbers(self) -> Any:
        """All columns as one array; None if columns must be converted one by one."""
        if self._wrapped is None:
            if all(isinstance(dtype, np.dtype) and dtype.kind in "biuf" for dtype in self.native.dtypes):
                return self.native.to_numpy(dtype=np.float64)
            return None
        if not all(dtype.is_numeric() or dtype == narwhals().Boolean for dtype in self.wrapped.schema.values()):
            return None  # a library may convert dates to numbers
        try:
            array = self.wrapped.to_numpy()
        except Exception:  # the type of the error depends on the library
            return None
        fine = array.dtype.kind in "iu" or (array.dtype.kind == "f" and not np.isnan(array).any())  # NaN may be a null
        return array if fine and array.shape == self.shape else None

    def matrix(self, order: list[int] | None) -> Any:
        """Return all columns, in this order, as one array; None if columns must be converted one by one."""
        return self.numbers if order is None or self.numbers is None else self.numbers[:, order]

    def columns(self, order: list[int] | None) -> list[Any]:
        """Return every column, in this order, as a series of the frame's library."""
        chosen = range(self.shape[1]) if order is None else order
        if self._wrapped is None:
            return [self.native.iloc[:, i] for i in chosen]
        series = list(self.wrapped.iter_columns())  # a single one by its place takes time for all names
        return [series[i].to_native() for i in chosen]

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Return an iterator over the rows."""
        if self._wrapped is None:
            return iter(self.native.itertuples(index=False, name=None))
        return iter(self.wrapped.iter_rows())


def is_sparse(X: Any) -> bool:
    """Return whether X is a sparse matrix of scipy; a frame may have a column called tocsr."""
    return hasattr(type(X), "tocsr")


def as_frame(X: Any) -> Frame | None:
    """Return X as a `Frame`; None if narwhals does not support it, or it is lazy."""
    X = converted(X)
    if isinstance(X, Frame):
        return X
    if isinstance(X, NO_FRAMES) or is_sparse(X):
        return None
    nw = narwhals()
    if nw.dependencies.is_pandas_dataframe(X):
        return Frame(X, None)
    try:
        wrapped = nw.from_native(X, eager_only=True, pass_through=True)
    except nw.exceptions.DuplicateError:
        refuse_twice(list(getattr(X, "column_names", getattr(X, "columns", ()))))
    return Frame(X, wrapped) if isinstance(wrapped, nw.DataFrame) else None


def known_frame(frame: Any) -> Frame:
    """Return a `Frame`; raise TypeError if narwhals does not support the object."""
    found = as_frame(frame)
    if found is None:
        raise TypeError(f"a table encoding is for frames, got {type(frame).__name__}")
    return found


def frame_labels(frame: Frame) -> list[str]:
    """Return the labels of the columns of a frame as text."""
    return list(map(str, frame.names or frame.column_labels))


def eager(X: Any) -> str:
    """Return advice about a lazy frame, for the end of an error message; '' for anything else."""
    return ": collect() it first" if hasattr(X, "collect") else ""


def refuse_twice(names: Sequence[str]) -> NoReturn:
    """Raise the error for two columns with one name."""
    twice = next((name for name in names if names.count(name) > 1), "")
    raise ValueError(f"column {twice!r} occurs more than once")


def match_columns(names: Sequence[str], expected: Sequence[str]) -> list[int] | None:
    """Return the position in `names` of each expected column; None if they are in order already.

    >>> match_columns(["b", "a"], ["a", "b"])
    [1, 0]
    >>> match_columns(["a", "c"], ["a", "b"])
    Traceback (most recent call last):
    ValueError: columns must be those of the model: missing 'b'; unexpected 'c'
    """
    if tuple(names) == tuple(expected):
        return None
    position, known = {name: k for k, name in enumerate(names)}, set(expected)
    absent, unknown = [name for name in expected if name not in position], [name for name in names if name not in known]
    if absent or unknown:
        refuse_columns(absent, unknown)
    return [position[name] for name in expected]


def refuse_columns(absent: list[str], unknown: list[str]) -> NoReturn:
    """Raise the error for rows without columns of a model, or with others."""
    wrong = {"missing": absent, "unexpected": unknown}
    parts = [f"{kind} {enumeration(found)}" for kind, found in wrong.items() if found]
    raise ValueError(f"columns must be those of the model: {'; '.join(parts)}")


def enumeration(names: list[str], show: Callable[[str], str] = repr) -> str:
    """Return the first five names, in quotes unless `show` is `str`, and the number of the others."""
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(map(show, names[:5])) + more


def sparse_entries(column: Any) -> tuple[Any, Any] | None:
    """Return rows and values of a pandas sparse column whose other values are 0; None for any other column."""
    array: Any = getattr(column, "array", None)
    if not hasattr(array, "sp_index") or array.dtype.kind not in "biuf" or array.fill_value != 0:
        return None
    return array.sp_index.to_int_index().indices, array.sp_values


# --- series in --------------------------------------------------------------------------------


def as_series(values: Any) -> Any:
    """Return a series wrapped by narwhals; None if narwhals does not support it."""
    if isinstance(values, NO_FRAMES):
        return None
    nw = narwhals()
    found = nw.from_native(values, series_only=True, pass_through=True)
    return found if isinstance(found, nw.Series) else None


def as_numbers(values: Any, where: Callable[[int], str], what: str, advice: str) -> Any:
    """Return a series of any library as an array of numbers; `where(k)` names its k-th entry in errors."""
    if type(values) is np.ndarray and values.dtype.kind in "biuf":  # usually
        return values
    values = converted(values)
    series = as_series(values)
    present, missing = known_values(values) if series is None else present_values(series)
    if series is not None and present.ndim != 1:  # polars gives a matrix for Struct and Array
        raise TypeError(f"{what} holds {type(series.dtype).__name__}: {advice}")
    if series is None or getattr(values, "dtype", None) == np.dtype(object) or series.dtype == narwhals().Decimal:
        present = numbers_of_objects(present, where)
    if series is not None and present.dtype.kind == "O" and all(isinstance(v, (bool, np.bool_)) for v in present):
        present = present.astype(bool)  # older versions of narwhals give objects for pandas' boolean columns
    if present.dtype.kind not in "biuf" and present.size:
        dtype = getattr(values, "dtype", present.dtype) if present.dtype.kind == "O" else present.dtype
        k, found = first_odd(present.astype(object), str(dtype))
        raise TypeError(f"{what} holds {found}: {advice}") if found else ValueError(f"{where(k)} is missing")
    if missing is not None:
        raise ValueError(f"{where(int(missing.argmax()))} is missing")
    return present


def present_values(series: Any) -> tuple[Any, Any]:
    """Return the values of a narwhals series that are not null, and a mask of nulls, None without any."""
    if isinstance(getattr(series.to_native(), "dtype", None), np.dtype):
        return series.to_numpy(), None
    if type(series.to_native()).__module__.partition(".")[0] == "pyarrow":
        found, nulls = numbers_of_arrow(series.to_native()), null_mask(series.to_native())
        if found is not None:
            return found if nulls is None else found[~nulls], nulls
    missing = series.is_null().to_numpy()
    present = series.drop_nulls() if missing.any() else series
    array = present.to_numpy()
    if array.dtype.kind in "biuf" and present.dtype in (narwhals().Categorical, narwhals().Enum):
        array = array.astype(object)  # categories that are numbers
    return array, missing if missing.any() else None


def known_values(values: Any) -> tuple[Any, Any]:
    """Return the values of an array or list that are not masked, and a mask of the others, None without any."""
    if np.ma.is_masked(values):
        return values.compressed(), np.ma.getmaskarray(values)
    try:
        return np.asarray(values), None
    except ValueError:  # lists of different lengths
        return np.asarray(values, dtype=object), None


def first_odd(objects: Any, dtype: str) -> tuple[int, str]:
    """Return position and type of the first object that is no number; the type is '' if it is missing."""
    for k, value in enumerate(objects.flat):
        if value is None or type(value).__name__ == "NAType":
            return k, ""
        if not isinstance(value, REAL_NUMBERS):
            return k, "str" if isinstance(value, str) else type(value).__name__
    return 0, dtype


def numbers_of_objects(objects: Any, where: Callable[[int], str]) -> Any:
    """Return an array of objects as float64 if all of them are numbers; any other array unchanged.

    `where(k)` names the k-th entry in errors.

    >>> numbers_of_objects(np.array([1, 2.5, True], object), str), numbers_of_objects(np.array([1, "2"], object), str)
    (array([1. , 2.5, 1. ]), array([1, '2'], dtype=object))
    """
    if objects.dtype.kind != "O" or not all(isinstance(value, REAL_NUMBERS) for value in objects.flat):
        return objects
    try:
        return objects.astype(np.float64)
    except OverflowError:  # an int beyond all floats
        k = next(k for k, value in enumerate(objects.flat) if abs(value) > sys.float_info.max)
        raise ValueError(f"{where(k)} must be finite, got a number beyond double precision") from None


def as_list(values: Any) -> list[Any]:
    """Return the values of a series of any library as a list."""
    values = converted(values)
    series = as_series(values)
    if series is not None:
        return list(series.to_list())
    return list(values.tolist() if isinstance(values, np.ndarray) else values)


def series_name(values: Any) -> Any:
    """Return the name of a series; None if it has none."""
    return getattr(values, "name", None)


# --- results as series and frames ---------------------------------------------------------------


def series_like(frame: Frame, values: Any, name: Any = None) -> Any:
    """Return values as a series of a frame's library, with the index of the frame if it has one.

    >>> import pandas as pd
    >>> series_like(as_frame(pd.DataFrame({"a": [1, 2]}, index=["x", "y"])), [0.5, 0.75]).to_dict()
    {'x': 0.5, 'y': 0.75}
    """
    if frame._wrapped is None:
        return pandas().Series(values, index=frame.native.index, name=name)
    nw = narwhals()
    library = nw.get_native_namespace(frame.wrapped)
    return nw.new_series("" if name is None else str(name), values, native_namespace=library).to_native()


def labels_like(frame: Frame, labels: list[Any]) -> list[Any]:
    """Return labels that a series of a frame's library can hold: outside pandas, text if types differ.

    >>> import pandas as pd, pyarrow as pa
    >>> labels_like(as_frame(pd.DataFrame({"a": [1]})), ["x", 2]), labels_like(as_frame(pa.table({"a": [1]})), ["x", 2])
    (['x', 2], ['x', '2'])
    """
    return labels if frame._wrapped is None or len(set(map(type, labels))) < 2 else list(map(str, labels))


def frame_like(frame: Frame, columns: dict[Any, Floats]) -> Any:
    """Return columns as a frame of another frame's library; only pandas allows names that are not str.

    >>> import pandas as pd
    >>> frame_like(as_frame(pd.DataFrame({"a": [1, 2]})), {True: [0.5, 0.75]}).columns.tolist()
    [True]
    """
    if frame._wrapped is None:
        return pandas().DataFrame(columns, index=frame.native.index)
    nw = narwhals()
    if not columns:  # old versions of narwhals have no `from_dict` for them
        return frame.wrapped.drop(frame.wrapped.columns).to_native()
    named, library = {str(name): values for name, values in columns.items()}, nw.get_native_namespace(frame.wrapped)
    return nw.from_dict(named, native_namespace=library).to_native()
