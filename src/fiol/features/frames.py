"""Frames and series of any library, in and out, through narwhals, which is imported when one of them comes.

A library that narwhals does not know becomes known by one line: see `register`.
"""

from __future__ import annotations

import functools
import numbers
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from fiol.components.row import Floats
from fiol.features.chunk import Names

#: How to turn containers that nothing here knows into ones that are known, by class or by "library.Class".
CONVERSIONS: dict[type | str, Callable[[Any], Any]] = {
    "pyarrow.RecordBatch": lambda batch: arrow().Table.from_batches([batch]),
    "pyarrow.Array": lambda array: arrow().chunked_array([array]),
    "pandas.ExtensionArray": lambda array: pandas().Series(array),
}
#: Types that need no narwhals.
NO_FRAMES = (np.ndarray, list, tuple, str, bytes, type(None))


def register(container: type | str, convert: Callable[[Any], Any]) -> None:
    """Let rows, targets and sample weights come in one more container: `convert` turns it into a known one.

    `container` is a class, or "library.Class" for one that is not imported yet; subclasses follow. `convert` may give
    a frame or series that narwhals knows, an array, a scipy sparse matrix, a list of dicts or a `fiol.Chunk`. Names of
    columns, errors that name their place and everything else follow from what it gives.

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
    """A container that `register` was told about as one that is known; any other as it is."""
    kind: Any = type(values)
    convert = None if isinstance(values, NO_FRAMES) else conversion_of(kind)
    return values if convert is None else convert(values)


@functools.cache
def conversion_of(kind: type) -> Callable[[Any], Any] | None:
    """How to convert objects of a class; None if nothing is registered for it."""
    keys = ((cls, f"{cls.__module__.partition('.')[0]}.{cls.__name__}") for cls in kind.__mro__)
    return next((CONVERSIONS[key] for pair in keys for key in pair if key in CONVERSIONS), None)


def narwhals() -> Any:
    """The library that knows the others."""
    import narwhals.stable.v1 as known  # imported here: `import fiol` loads no frames

    return known


def arrow() -> Any:
    """Arrow, which is there if one of its objects is."""
    import pyarrow

    return pyarrow


def pandas() -> Any:
    """pandas, which is there if one of its objects is."""
    import pandas

    return pandas


# --- frames in --------------------------------------------------------------------------------


class Frame:
    """A frame of any library: its column labels, its rows, its columns.

    pandas is asked itself for what narwhals does not pass on: one block of numbers, sparse columns, the index.
    """

    def __init__(self, native: Any, wrapped: Any) -> None:
        self.native = native  #: what came in
        self._wrapped = wrapped  # by narwhals; None for pandas until it is needed
        self.shape: tuple[int, int] = native.shape if wrapped is None else wrapped.shape
        #: What the columns are called, str as a rule.
        self.column_labels: list[Any] = list(native.columns if wrapped is None else wrapped.columns)

    def __len__(self) -> int:
        return self.shape[0]

    @functools.cached_property
    def wrapped(self) -> Any:
        """The frame as narwhals sees it."""
        return narwhals().from_native(self.native, eager_only=True) if self._wrapped is None else self._wrapped

    @functools.cached_property
    def names(self) -> Names | None:
        """The column labels if they are names, all different; None if they are numbers."""
        strings = [label for label in self.column_labels if isinstance(label, str)]
        if strings and len(strings) < len(self.column_labels):
            other = next(label for label in self.column_labels if not isinstance(label, str))
            raise TypeError(f"column names must all be str or none, got {strings[0]!r} and {other!r}")
        if len(set(strings)) < len(strings):
            refuse_twice(strings)
        return tuple(map(str, strings)) or None

    def matrix(self, order: list[int] | None) -> Any:
        """All columns, in this order, as one array; None if that has to be done column by column."""
        if self._wrapped is None:
            X = self.native if order is None else self.native.iloc[:, order]
            if all(isinstance(dtype, np.dtype) and dtype.kind in "biuf" for dtype in X.dtypes):
                return X.to_numpy(dtype=np.float64)
            return None
        if not all(dtype.is_numeric() or dtype == narwhals().Boolean for dtype in self.wrapped.schema.values()):
            return None  # a library may give the numbers behind dates
        try:
            array = self.wrapped.to_numpy()
        except Exception:  # each library has its own for columns that are no numbers
            return None
        fine = array.dtype.kind in "iu" or (array.dtype.kind == "f" and not np.isnan(array).any())  # NaN may be a null
        if not fine or array.shape != self.shape:
            return None
        return array if order is None else array[:, order]

    def columns(self, order: list[int] | None) -> list[Any]:
        """Every column, in this order, as a series of the frame's own library."""
        chosen = range(self.shape[1]) if order is None else order
        if self._wrapped is None:
            return [self.native.iloc[:, i] for i in chosen]
        return [self.wrapped[:, i].to_native() for i in chosen]

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The values of every row."""
        if self._wrapped is None:
            return iter(self.native.itertuples(index=False, name=None))
        return iter(self.wrapped.iter_rows())


def as_frame(X: Any) -> Frame | None:
    """X as a frame; None if it is none that narwhals knows, or lazy."""
    X = converted(X)
    if isinstance(X, Frame):
        return X
    if isinstance(X, NO_FRAMES) or hasattr(X, "tocsr"):
        return None
    nw = narwhals()
    if nw.dependencies.is_pandas_dataframe(X):
        return Frame(X, None)
    try:
        wrapped = nw.from_native(X, eager_only=True, pass_through=True)
    except nw.exceptions.DuplicateError:
        refuse_twice(list(getattr(X, "column_names", getattr(X, "columns", ()))))
    return Frame(X, wrapped) if isinstance(wrapped, nw.DataFrame) else None


def eager(X: Any) -> str:
    """Advice about a lazy frame, for the end of an error message; '' for anything else."""
    return ": collect() it first" if hasattr(X, "collect") else ""


def refuse_twice(names: list[str]) -> NoReturn:
    """Raise the error of two columns with one name."""
    twice = next((name for name in names if names.count(name) > 1), "")
    raise ValueError(f"column {twice!r} is there more than once")


def column_names(X: Any) -> Names | None:
    """The names of the columns of a frame; None if they are numbers, or X is no frame.

    >>> column_names([[1.0, 2.0]]) is None
    True
    """
    frame = as_frame(X)
    return None if frame is None else frame.names


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


def sparse_entries(column: Any) -> tuple[Any, Any] | None:
    """Rows and values of a pandas sparse column whose other values are 0."""
    array: Any = getattr(column, "array", None)
    if not hasattr(array, "sp_index") or array.dtype.kind not in "biuf" or array.fill_value != 0:
        return None
    return array.sp_index.to_int_index().indices, array.sp_values


# --- series in --------------------------------------------------------------------------------


def as_series(values: Any) -> Any:
    """A series as narwhals sees it; None if it is of no library that narwhals knows."""
    if isinstance(values, NO_FRAMES):
        return None
    nw = narwhals()
    found = nw.from_native(values, series_only=True, pass_through=True)
    return found if isinstance(found, nw.Series) else None


def as_numbers(values: Any, where: Callable[[int], str], what: str, advice: str) -> Any:
    """A series of whatever library as an array of numbers; `where(k)` is how an error calls its k-th entry."""
    if type(values) is np.ndarray and values.dtype.kind in "biuf":  # as a rule
        return values
    values = converted(values)
    series = as_series(values)
    present, missing = known_values(values) if series is None else present_values(series)
    if series is not None and present.ndim != 1:  # polars gives a matrix for Struct and Array
        raise TypeError(f"{what} holds {type(series.dtype).__name__}: {advice}")
    if series is None or getattr(values, "dtype", None) == np.dtype(object):
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
    """The values of a series of narwhals that are not null, and which are, if any; NaN in an array of numpy is none."""
    if isinstance(getattr(series.to_native(), "dtype", None), np.dtype):
        return series.to_numpy(), None
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
    """The first object that is no number: its place and type, which is '' if it is missing."""
    for k, value in enumerate(objects.flat):
        if value is None or type(value).__name__ == "NAType":
            return k, ""
        if not isinstance(value, numbers.Real):
            return k, "str" if isinstance(value, str) else type(value).__name__
    return 0, dtype


def numbers_of_objects(objects: Any, where: Callable[[int], str]) -> Any:
    """An array of objects as one of float64, if all of them are numbers; any other array as it is.

    `where(k)` is how an error calls the k-th entry.

    >>> numbers_of_objects(np.array([1, 2.5, True], object), str), numbers_of_objects(np.array([1, "2"], object), str)
    (array([1. , 2.5, 1. ]), array([1, '2'], dtype=object))
    """
    if objects.dtype.kind != "O" or not all(isinstance(value, numbers.Real) for value in objects.flat):
        return objects
    try:
        return objects.astype(np.float64)
    except OverflowError:  # an int beyond all floats
        k = next(k for k, value in enumerate(objects.flat) if abs(value) > sys.float_info.max)
        raise ValueError(f"{where(k)} must be finite, got a number beyond double precision") from None


def as_list(values: Any) -> list[Any]:
    """The values of a series of whatever library, as they are."""
    values = converted(values)
    series = as_series(values)
    if series is not None:
        return list(series.to_list())
    return list(values.tolist() if isinstance(values, np.ndarray) else values)


def series_name(values: Any) -> Any:
    """The name of a series; None if it has none."""
    return getattr(values, "name", None)


# --- out, as it came in -----------------------------------------------------------------------


def series_like(frame: Frame, values: Any, name: Any = None) -> Any:
    """Values as a series of the library of a frame, with its index if it has one.

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
    """Labels as a series of the library of a frame holds them: outside pandas, texts if they are of several types.

    >>> import pandas as pd, pyarrow as pa
    >>> labels_like(as_frame(pd.DataFrame({"a": [1]})), ["x", 2]), labels_like(as_frame(pa.table({"a": [1]})), ["x", 2])
    (['x', 2], ['x', '2'])
    """
    return labels if frame._wrapped is None or len(set(map(type, labels))) < 2 else list(map(str, labels))


def frame_like(frame: Frame, columns: dict[Any, Floats]) -> Any:
    """Columns as a frame of the library of a frame; only in pandas may their names be anything but str.

    >>> import pandas as pd
    >>> frame_like(as_frame(pd.DataFrame({"a": [1, 2]})), {True: [0.5, 0.75]}).columns.tolist()
    [True]
    """
    if frame._wrapped is None:
        return pandas().DataFrame(columns, index=frame.native.index)
    nw = narwhals()
    named, library = {str(name): values for name, values in columns.items()}, nw.get_native_namespace(frame.wrapped)
    return nw.from_dict(named, native_namespace=library).to_native()
