"""Rows of a table in other forms than one complete frame: dicts, frames with other columns, and plain frames.

A dict given to a model with a table encoding is a row of that table: its keys are columns, an absent column is missing,
and keys that are no columns are left out; so are the columns of a frame. If columns are optional, as in JSON lines, an
absent column has no feature, and a new key is encoded by the type of its value. The features are those of the same row
of a frame, to the bit.
"""

from __future__ import annotations

import contextlib
import datetime
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fiol.features.cell_rules import is_marker, is_missing, words_of_text
from fiol.features.column_values import BadValueError, ColumnValues, ListedValues, columns_of
from fiol.features.feature_columns import FeatureColumn
from fiol.features.frames import (
    REAL_NUMBERS,
    Frame,
    enumeration,
    frame_labels,
    narwhals,
    refuse_columns,
    sparse_entries,
)
from fiol.features.named_rows import NamedRows
from fiol.features.table_encoding import Column, TableEncoding

#: Kinds of columns by what they hold, where no table encoding was inferred from rows.
KINDS_BY_TYPE = {"numbers": "number", "lists": "tags", "dates": "date", "times": "time"}
#: Types of values in dicts that have values of their own.
NESTED = frozenset((dict, list))
#: The greatest depth of dicts within dicts.
DEEPEST = 100


def named_rows_of_dicts(
    encoding: TableEncoding,
    rows: Sequence[Mapping[Any, Any]],
    odd: list[tuple[int, str, str]] | None = None,
    left_out: Collection[str] = (),
) -> NamedRows:
    """Return the features of dicts whose keys are columns, but for those `left_out`.

    An absent column is missing; if columns are optional, it has no feature. For `odd` see `TableEncoding.named_rows`.

    >>> encoding = TableEncoding((Column("age", "number"), Column("city", "category")))
    >>> named_rows_of_dicts(encoding, [{"city": "Rome", "age": 30}, {"city": "Oslo"}]).names
    ['age', 'city=Rome', 'age is missing', 'city=Oslo']
    """
    rows, features = [with_text_keys(row, k) for k, row in enumerate(rows)], list[FeatureColumn]()
    for column, there, values in (present_values_in if encoding.optional else all_values_in)(encoding, rows):
        if column.is_left_out or column.name in left_out:
            continue
        here = None if odd is None else list[tuple[int, str, str]]()
        try:
            found = column.feature_columns(encoding.prepared(ListedValues(column.name, values), here))
        except BadValueError as error:
            others = [(int(there[row]), reason) for row, reason in error.others]
            raise BadValueError(int(there[error.row]), column.name, error.reason, others) from None
        except TypeError as error:
            raise BadValueError(int(there[0]), column.name, f"is of a type that rows do not have: {error}") from None
        if odd is not None and here:
            odd += [(int(there[row]), name, reason) for row, name, reason in here]
        features += [one._replace(rows=there[one.rows]) for one in found]
    return encoding.rows_of(features, len(rows))


def all_values_in(
    encoding: TableEncoding, rows: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[Column, Any, list[Any]]]:
    """Yield every column, the numbers of all rows, and the column's values, None where it is absent."""
    everywhere, rows = np.arange(len(rows)), list(map(flat_dict, rows))
    for column in encoding.columns:
        yield column, everywhere, [plain_cell(row.get(column.name)) for row in rows]


def present_values_in(
    encoding: TableEncoding, rows: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[Column, Any, list[Any]]]:
    """Yield columns that are in some row, the numbers of these rows, and the values; new ones by the type of values."""
    rows = [flat_dict(row) for row in rows]
    known = {column.name: column for column in encoding.columns if column.kind != "undecided"}
    columns, undecided = columns_in(rows), {*encoding.names}.difference(known)
    for key in dict.fromkeys([*encoding.names, *columns]):
        if key not in columns:
            continue
        there, values = columns[key]
        if key in known:
            yield known[key], there, values
            continue
        if key in undecided:
            values = [None if is_marker(value, encoding.markers) else value for value in values]
        for column, which in columns_by_type(key, values):
            yield column, there[which], [values[k] for k in which.tolist()]


def columns_in(rows: Sequence[Mapping[str, Any]]) -> dict[str, tuple[Any, list[Any]]]:
    """Return for every key the rows that have it, and their values."""
    if len({*map(tuple, rows)}) == 1:  # usually
        everywhere = np.arange(len(rows))
        columns = zip(*(row.values() for row in rows), strict=True)
        return {key: (everywhere, list(map(plain_cell, some))) for key, some in zip(rows[0], columns, strict=True)}
    places: dict[str, list[int]] = {}
    for k, row in enumerate(rows):
        for key in row:
            places.setdefault(key, []).append(k)
    return {
        key: (np.array(there, np.int64), [plain_cell(rows[k][key]) for k in there]) for key, there in places.items()
    }


def columns_by_type(key: str, values: list[Any]) -> list[tuple[Column, Any]]:
    """Return columns for a key that the encoding does not have, by the types of values, and which values each has."""
    kinds = [
        "number" if isinstance(value, REAL_NUMBERS) else "tags" if isinstance(value, list) else "category"
        for value in values
    ]
    places = {kind: np.array([k for k, found in enumerate(kinds) if found == kind], np.int64) for kind in set(kinds)}
    return [(Column(key, kind), places[kind]) for kind in sorted(places)]


def flat_dict(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a dict with dotted names for the keys of dicts within.

    >>> flat_dict({"user": {"age": 30, "tags": ["a", "b"]}, "city": None})
    {'user.age': 30, 'user.tags': ['a', 'b'], 'city': None}
    """
    return row if NESTED.isdisjoint(map(type, row.values())) else dict(flattened(row, "", 0))


def flattened(value: Mapping[str, Any], before: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Yield the keys of a dict, and of those within, by dotted names; raise ValueError for lists of dicts or lists."""
    if depth > DEEPEST:
        raise ValueError(f"has objects within objects, deeper than {DEEPEST}")
    for key, inner in value.items():
        name = f"{before}{key}"
        if isinstance(inner, dict):
            yield from flattened(inner, f"{name}.", depth + 1)
        elif isinstance(inner, list) and any(isinstance(entry, (dict, list)) for entry in inner):
            raise ValueError(f"has a list of objects or lists at {name!r}: lists must be of strings")
        else:
            yield name, inner


def features_of_dict(encoding: TableEncoding, row: dict[Any, Any]) -> dict[str, float] | None:
    """Return the features of one dict without arrays.

    None for rows that need `named_rows_of_dicts`: dates, lists, interactions, unknown keys, values of unusual types.

    >>> encoding = TableEncoding((Column("age", "number"), Column("city", "category")))
    >>> features_of_dict(encoding, {"city": "Rome"})
    {'age is missing': 1.0, 'city=Rome': 1.0}
    """
    if encoding.pairs or not encoding.complete or encoding.missing is not None:
        return None
    found, present = dict[str, float](), 0
    for column in encoding.columns:
        name, kind = column.name, column.kind
        value = row.get(name)
        there = value is not None or name in row
        present += there
        if column.is_left_out or (encoding.optional and not there):
            continue
        number, of = 1.0, type(value)
        if value is None or (of is float and value != value):  # noqa: PLR0124
            name = column.missing_feature
        elif column.rules.is_number and of in (float, int, bool):
            number = value
        elif kind == "category" and of is str and value:
            name = column.prefix + value
        elif kind == "words" and of is str and value:
            for word in words_of_text(value, column.ngrams):
                found[column.prefix + word] = found.get(column.prefix + word, 0.0) + 1.0
            continue
        else:
            return None
        found[name] = found[name] + number if name in found else number
    return found if present == len(row) else None


def infer_from_dicts(encoding: TableEncoding, rows: Sequence[Mapping[Any, Any]]) -> TableEncoding:
    """Return an encoding with a kind for every key of some dicts, in the order in which they appear."""
    if encoding.complete:
        return encoding
    rows = [with_text_keys(row, k) for k, row in enumerate(rows)]
    names = dict.fromkeys([*(key for row in rows for key in row), *encoding.names])
    return encoding.completed_by([values_in_dicts(name, rows) for name in names])


def rows_of_table(
    encoding: TableEncoding, X: Any, frame: Frame | None, unknown: UnknownKeys, learning: bool, is_inferred: bool
) -> NamedRows:
    """Return the features of dicts, or of a frame: unknown columns are left out, and noted, absent ones are missing.

    A frame to learn from must have all columns, and other frames at least one of them. If the encoding `is_inferred`
    from these rows, the error of an odd cell names the remedy.
    """
    try:
        return checked_rows(encoding, X, frame, unknown, learning)
    except BadValueError as error:
        if not is_inferred:
            raise
        remedy = f"make it a missing value, or give the column a kind: table_encoding={{{error.column!r}: 'category'}}"
        raise BadValueError(error.row, error.column, f"{error.reason}: {remedy}", error.others) from None


def checked_rows(
    encoding: TableEncoding, X: Any, frame: Frame | None, unknown: UnknownKeys, learning: bool
) -> NamedRows:
    """Return the features of dicts or a frame as `rows_of_table` does; errors of cells have no remedy."""
    if frame is None:
        unknown.note(encoding, X)
        return named_rows_of_dicts(encoding, X)
    labels, is_nested = labels_with_nested(encoding, frame)
    absent, others = encoding.other_columns(labels)
    if absent and (learning or has_no_column(encoding, absent)):
        refuse_columns(absent, others)
    unknown.note_columns(encoding, others, absent, len(frame))
    if is_nested:
        known = [(i, label) for i, label in enumerate(frame_labels(frame)) if label not in others]
        rows = [{label: row[i] for i, label in known} for row in frame.rows()]
        unknown.note(encoding, rows, "dicts in cells have keys")
        return named_rows_of_dicts(encoding, rows)
    return encoding.named_rows(frame, all_columns=False)


def refuse_absent_columns(encoding: TableEncoding | None, frame: Frame) -> None:
    """Raise ValueError if a frame to learn from lacks a column of an encoding that has been completed."""
    if encoding is not None and encoding.complete:
        absent, others = encoding.other_columns(labels_with_nested(encoding, frame)[0])
        if absent:
            refuse_columns(absent, others)


def labels_with_nested(encoding: TableEncoding, frame: Frame) -> tuple[list[str], bool]:
    """Return the labels of a frame, those of an encoding for columns of structs or dicts, and whether there are such.

    >>> import pandas as pd
    >>> from fiol.features.frames import as_frame
    >>> frame = as_frame(pd.DataFrame({"id": [1, 2], "user": [{"age": 30}, None]}))
    >>> labels_with_nested(TableEncoding.from_spec({"id": "number", "user.age": "number"}), frame)
    (['id', 'user.age'], True)
    """
    labels, inner = frame_labels(frame), dict[str, list[str]]()
    absent = set(encoding.names).difference(labels)
    unknown = set(labels).difference(encoding.names) if absent else ()
    for name in absent if unknown else ():
        for k, character in enumerate(name):
            if character == "." and name[:k] in unknown:
                inner.setdefault(name[:k], []).append(name)
    nested = {label: names for label, names in inner.items() if holds_dicts(frame, labels.index(label))}
    return [name for label in labels for name in nested.get(label, [label])], bool(nested)


def holds_dicts(frame: Frame, i: int) -> bool:
    """Return whether the cells of column `i` that are not missing are dicts, as those of structs are."""
    cells = narwhals().from_native(frame.columns([i])[0], series_only=True).to_list()
    return all(isinstance(cell, dict) or is_missing(cell) for cell in cells)


def has_no_column(encoding: TableEncoding, absent: Sequence[str]) -> bool:
    """Return whether rows without the columns `absent` have no column of an encoding."""
    return len(absent) == sum(not column.is_left_out for column in encoding.columns)


class UnknownKeys:
    """Count the keys of dicts, and the cells of frames, that belong to no column of a model, and warn of the first.

    >>> unknown = UnknownKeys()
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     for _ in range(2):
    ...         unknown.note(TableEncoding((Column("age", "number"),)), [{"age": 1, "agee": 2}])
    >>> unknown.count, len(caught)
    (2, 1)
    """

    def __init__(self) -> None:
        self.count = 0
        self.absent = set[str]()  #: columns of which was warned that frames do not have them

    def note(self, encoding: TableEncoding, rows: Sequence[Mapping[Any, Any]], what: str = "dicts have keys") -> None:
        """Count the keys of some dicts that are no columns of an encoding; warn if they are the first.

        A missing value in the place of a dict of columns is none of them.

        >>> unknown = UnknownKeys()
        >>> unknown.note(TableEncoding((Column("user.age", "number"),)), [{"user": None}, {"user": {"age": 30}}])
        >>> unknown.count
        0
        """
        if encoding.optional:
            return
        known = set(encoding.names)
        outer = {name[:k] for name in known for k, character in enumerate(name) if character == "."}
        found = [
            str(key)
            for row in rows
            for key, value in flat_dict(row).items()
            if key not in known and str(key) not in known and not (key in outer and is_missing(value))
        ]
        self.add(encoding, what, found, len(found))

    def note_columns(self, encoding: TableEncoding, others: Sequence[str], absent: Sequence[str], rows: int) -> None:
        """Count the cells of columns that a model does not have; warn if they are the first, or if columns are absent.

        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     UnknownKeys().note_columns(TableEncoding((Column("age", "number"),)), [], ["age"], 2)
        >>> str(caught[0].message)
        "the frame does not have these columns of the model, which count as missing: 'age'"
        """
        self.add(encoding, "the frame has columns", others, len(others) * rows)
        if not self.absent.issuperset(absent):
            self.absent.update(absent)
            warnings.warn(
                "the frame does not have these columns of the model, which count as missing: "
                f"{enumeration(list(absent))}",
                stacklevel=2,
            )

    def add(self, encoding: TableEncoding, what: str, found: Sequence[str], count: int) -> None:
        """Count values that are left out; warn if they are the first."""
        first = count and not self.count
        self.count += count
        if first:
            warnings.warn(
                f"{what} that are no columns of the model, and are left out: "
                f"{enumeration(list(dict.fromkeys(found)))}; the columns are {enumeration(list(encoding.names))} "
                "(there are no more warnings of such keys, `unknown_keys` of the model counts them)",
                stacklevel=2,
            )


def values_in_dicts(name: str, rows: Sequence[Mapping[Any, Any]]) -> ListedValues:
    """Return the values of a column in dicts, None where it is absent."""
    return ListedValues(name, [plain_cell(row.get(name)) for row in rows])


def plain_cell(value: Any) -> Any:
    """Return a missing value as None, a scalar of numpy as the Python object, and a duration in days.

    >>> plain_cell(np.float64(2.5)), plain_cell(np.bool_(True)), plain_cell(datetime.timedelta(hours=12))
    (2.5, True, 0.5)
    >>> plain_cell("red"), plain_cell(float("nan"))
    ('red', None)
    """
    if is_missing(value):
        return None
    if isinstance(value, (datetime.timedelta, np.timedelta64)):
        return float(np.timedelta64(value) / np.timedelta64(1, "D"))
    if isinstance(value, np.datetime64):
        return value.astype("datetime64[us]").item()
    return value.item() if isinstance(value, np.generic) else value


def with_text_keys(row: Any, number: int) -> Mapping[str, Any]:
    """Return a dict with keys that are str, as names of columns are; an error names row `number`."""
    if not isinstance(row, Mapping):
        raise TypeError(f"X[{number}] must be a dict, got {type(row).__name__}")
    return row if all(isinstance(key, str) for key in row) else {str(key): value for key, value in row.items()}


# --- frames -----------------------------------------------------------------------------------


def needs_encoding(frame: Frame) -> bool:
    """Return whether a frame has text, dates, lists or missing values.

    >>> import pandas as pd
    >>> from fiol.features.frames import as_frame
    >>> frames = pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"a": [1.0, None]}), pd.DataFrame({"a": ["x"]})
    >>> [needs_encoding(as_frame(frame)) for frame in frames]
    [False, True, True]
    """
    block = frame.numbers
    if block is not None:
        with np.errstate(all="ignore"):
            suspect = np.isnan(block.sum())  # a sum takes no memory
        return bool(suspect and np.isnan(block).any())
    return any(map(is_not_plain, columns_of(frame)))


def holds_only_numbers(frame: Frame) -> bool:
    """Return whether all columns of a frame have numbers, perhaps with missing values."""
    return frame.numbers is not None or all(values.holds == "numbers" for values in columns_of(frame))


def is_not_plain(values: ColumnValues) -> bool:
    """Return whether a column has other values than numbers, or missing ones."""
    if sparse_entries(values.series.to_native()) is not None:
        return False
    if values.holds != "numbers":
        return True
    with contextlib.suppress(BadValueError):
        return bool(np.isnan(values.numbers()).any())
    return False


def encoding_by_types(frame: Frame) -> TableEncoding:
    """Return the encoding that follows from the types of columns alone, whatever the rows are.

    Models without a table encoding read frames by it: numbers are numbers and text is a category, as in dicts.

    >>> import pandas as pd
    >>> from fiol.features.frames import as_frame
    >>> encoding_by_types(as_frame(pd.DataFrame({"age": [30.0], "day": ["2024-03-04"]}))).describe()
    ['age: a number', 'day: one feature for every value (day=...)']
    """
    return TableEncoding(tuple(map(column_by_type, columns_of(frame))))


def column_by_type(values: ColumnValues) -> Column:
    """Return a column with the kind that follows from its type."""
    return Column(values.name, KINDS_BY_TYPE.get(values.holds, "category")).with_all_parts()
