"""Columns of frames of any library as plain arrays: numbers, numbered strings, moments, lists of strings.

Missing values (null, and NaN in a column of floats) are NaN, -1 or NaT. A `BadValueError` names row and column.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fiol.components.row import Floats
from fiol.features.arrow_arrays import arrow_whole, null_mask, numbers_of_arrow
from fiol.features.cell_rules import (
    MISSING_MARKERS,
    cell_text,
    is_marker,
    is_missing,
    number_of_text,
    time_of_value,
)
from fiol.features.chunk import allowed, range_reason
from fiol.features.date_formats import (
    FIRST_DAY,
    FIRST_TEXTS,
    NO_MOMENT,
    count_moments,
    moments_in_bytes,
    moments_of_strings,
)
from fiol.features.frames import REAL_NUMBERS, narwhals, pandas, present_values

#: A number in text, without forms that only Python knows.
NUMERIC_TEXT = re.compile(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*")

#: How a time of day begins.
CLOCK_START = re.compile(r"\s*[0-9]{1,2}:[0-9]{2}")

#: `ColumnValues.holds` of Python objects.
HELD: dict[Any, str] = {
    REAL_NUMBERS: "numbers",
    str: "text",
    datetime.date: "dates",
    datetime.time: "times",
    (list, tuple, np.ndarray): "lists",
}


class BadValueError(ValueError):
    """A value that a column cannot have: its row, from 0, the name of the column, and the reason.

    `others` are more rows of that column that are wrong, and the reason for each.

    >>> str(BadValueError(3, "age", "must be a number, got 'old'"))
    "X[3, 'age'] must be a number, got 'old'"
    """

    def __init__(self, row: int, column: str, reason: str, others: Sequence[tuple[int, str]] = ()) -> None:
        super().__init__(f"X[{row}, {column!r}] {reason}")
        self.row, self.column, self.reason, self.others = row, column, reason, others

    def __reduce__(self) -> tuple[Any, ...]:
        return BadValueError, (self.row, self.column, self.reason)


class CodedText(NamedTuple):
    """Text values of a column: row k has `strings[codes[k]]`, and no value if its code is -1. Strings are distinct."""

    codes: Any
    strings: list[str]


class ColumnValues:
    """One column of a frame: the type of its values, and the values as arrays for a table encoding.

    >>> import pandas as pd
    >>> from fiol.features.frames import as_frame
    >>> city, age = columns_of(as_frame(pd.DataFrame({"city": ["Rome", None, "Rome"], "age": [30.0, None, 32.0]})))
    >>> city.holds, city.coded_text(), age.holds, age.numbers()
    ('text', CodedText(codes=array([ 0, -1,  0]), strings=['Rome']), 'numbers', array([30., nan, 32.]))
    """

    def __init__(self, name: str, series: Any) -> None:
        self.name, self.series = name, series
        #: Strings that stand for a missing value, and whether they do in columns of text.
        self.markers: Sequence[str] = MISSING_MARKERS
        self.everywhere = False
        #: Row, column and reason of cells that cannot be encoded, and are missing; None to raise BadValueError.
        self.odd: list[tuple[int, str, str]] | None = None

    def refuse(self, wrong: Sequence[tuple[int, str]]) -> None:
        """Note rows with a bad cell, and the reason for each; raise BadValueError if they are not to be missing."""
        if self.odd is None:
            raise BadValueError(wrong[0][0], self.name, wrong[0][1], wrong[1:])
        self.odd += [(row, self.name, reason) for row, reason in wrong]

    def refuse_all(self, wanted: str) -> None:
        """Refuse all values that are neither missing nor a marker."""
        there = [k for k, x in enumerate(self.objects) if not (is_missing(x) or is_marker(x, self.markers))]
        if there:
            self.refuse([(k, f"must be {wanted}, got {value_shown(self.objects[k])}") for k in there])

    def __len__(self) -> int:
        return len(self.series)

    @functools.cached_property
    def holds(self) -> str:
        """The type of the values: "numbers", "text", "dates", "times", "lists" or "nothing"."""
        nw, kind = narwhals(), self.series.dtype
        if kind.is_numeric() or kind in (nw.Boolean, nw.Duration):
            return "numbers"
        if kind in (nw.String, nw.Categorical, nw.Enum):
            return "text"
        if kind in (nw.Date, nw.Datetime):
            return "dates"
        if kind == getattr(nw, "Time", None):  # older versions have none
            return "times"
        if kind == nw.List:
            return "lists"
        if kind in (nw.Object, nw.Unknown):
            return self.held_by_objects()
        raise TypeError(f"column {self.name!r} holds {type(kind).__name__}: convert it, or leave it out by kind 'skip'")

    def held_by_objects(self) -> str:
        """Return `holds` of a column of Python objects."""
        present = [value for value in self.objects if not is_missing(value)]
        for kind, what in HELD.items():
            if present and all(isinstance(value, kind) for value in present):
                return what
        odd = next((value for value in present if not isinstance(value, (str, *REAL_NUMBERS))), None)
        if odd is not None:
            what = type(odd).__name__
            raise TypeError(f"column {self.name!r} holds {what}: convert it, or leave it out by kind 'skip'")
        return "text" if present else "nothing"  # numbers among text

    @property
    def are_objects(self) -> bool:
        """Whether the column is one of Python objects, which may be of several types."""
        return isinstance(self.series, list) or self.series.dtype in (narwhals().Object, narwhals().Unknown)

    @functools.cached_property
    def objects(self) -> list[Any]:
        """The values as Python objects."""
        return list(self.series.to_list())

    def numbers(self) -> Floats:
        """Return the values as float64, NaN where they are missing; durations in days."""
        if self.holds == "text":
            return self.numbers_of_text()
        if self.holds not in ("numbers", "nothing"):
            self.refuse_all("a number")
        if self.holds != "numbers":
            return np.full(len(self), np.nan)
        values, missing = self.present()
        if values.dtype.kind == "m":
            values = np.where(np.isnat(values), np.nan, values / np.timedelta64(1, "D"))
        if values.dtype.kind == "O":
            values = np.array([np.nan if is_missing(value) else value for value in values.tolist()], object)
        found = np.full(len(self), np.nan)
        there = slice(None) if missing is None else ~missing
        try:
            found[there] = values
        except OverflowError:  # an int beyond all floats
            found[there] = [float(value) if abs(value) < 2**1023 else np.inf for value in values.tolist()]
        return self.in_range(found)

    def present(self) -> tuple[Any, Any]:
        """Return the values that are not null, and a mask of the others, None if there are none; NaN is a value."""
        return present_values(self.series)

    def numbers_of_text(self) -> Floats:
        """Return strings that are numbers, and numbers among them, as float64; NaN for missing ones and markers."""
        if self.are_objects:
            codes, cells = np.arange(len(self)), self.objects
        else:
            codes, cells = self.coded_text()
        known, wrong = np.full(len(cells) + 1, np.nan), dict[int, str]()
        for code, cell in enumerate(cells):
            if is_missing(cell) or is_marker(cell, self.markers):
                continue
            try:
                known[code] = number_of_text(cell) if isinstance(cell, str) else float(cell)
            except ValueError:
                wrong[code] = f"must be a number, got {value_shown(cell)}{comma_hint(cell)}"
        if wrong:
            rows = np.flatnonzero(np.isin(codes, list(wrong)))
            self.refuse([(row, wrong[int(codes[row])]) for row in rows.tolist()])
        return self.in_range(known[codes])

    def in_range(self, values: Floats) -> Floats:
        """Return the values, NaN for those that are neither 0 nor in range, which are refused."""
        wrong = ~(allowed(values) | np.isnan(values))
        if wrong.any():
            self.refuse([(row, range_reason(values[row])) for row in np.flatnonzero(wrong).tolist()])
            return np.where(wrong, np.nan, values)
        return values

    def coded_text(self) -> CodedText:
        """Return the values as strings; empty ones are missing, and so are markers if they hold in columns of text."""
        found = self.all_coded_text()
        marked = [
            code
            for code, text in enumerate(found.strings)
            if not text or (self.everywhere and is_marker(text, self.markers))
        ]
        return found._replace(codes=np.where(np.isin(found.codes, marked), -1, found.codes)) if marked else found

    def cell_counts(self) -> dict[str, int]:
        """Return how many cells have each text, without missing ones and markers, in the order of appearance."""
        found = self.coded_text()
        counts = np.bincount(found.codes[found.codes >= 0], minlength=len(found.strings)).tolist()
        cells = zip(found.strings, counts, strict=True)
        return {text: count for text, count in cells if count and not is_marker(text, self.markers)}

    def all_coded_text(self) -> CodedText:
        """Return the values as strings: whole numbers without a decimal point, dates in ISO format."""
        if self.holds == "nothing":
            return CodedText(np.full(len(self), -1), [])
        if self.holds == "lists":
            raise BadValueError(0, self.name, "must be a text, got a list: use kind 'tags'")
        if self.holds == "dates":
            return distinct_text(self.moments(), None)
        if self.holds == "numbers" and not isinstance(self.series, list):
            values, missing = self.present()
            if values.dtype.kind == "m":
                return distinct_text(self.numbers(), None)
            if values.dtype.kind in "biuf":
                return distinct_text(values, missing)
        return CodedText(*self.numbered())

    def numbered(self) -> tuple[Any, list[str]]:
        """Return a code for every text, and the strings in the order of their codes, by the library's own function."""
        native = self.series.to_native()
        library = type(native).__module__.partition(".")[0]
        if library == "pandas":
            codes, found = pandas().factorize(native)
            strings = found.tolist()
            if all(type(text) is str for text in strings):  # of other values, some are equal that have other strings
                return codes, strings
        if library == "pyarrow":
            return numbered_by_arrow(native)
        return number_strings(None if is_missing(value) else cell_text(value) for value in self.objects)

    def moments(self, form: str = "") -> Any:
        """Return dates as datetime64[us], NaT where they are missing; time zones are dropped, not converted.

        Strings are in a format, "" for ISO dates.
        """
        if self.holds == "nothing":
            return np.full(len(self), np.datetime64("NaT", "us"))
        if self.holds == "text":
            return self.parsed_moments(form)
        if self.holds != "dates":
            self.refuse_all("a date")
            return np.full(len(self), np.datetime64("NaT", "us"))
        series, nw = self.series, narwhals()
        if isinstance(series, list) or series.dtype in (nw.Object, nw.Unknown):
            plain = (None if is_missing(value) else wall_clock(value) for value in self.objects)
            return np.array(list(plain), "datetime64[us]")
        if getattr(series.dtype, "time_zone", None) is not None:
            series = series.dt.replace_time_zone(None)
        return np.asarray(series.to_numpy()).astype("datetime64[us]")

    def times(self) -> Any:
        """Return times of day as moments of the first day, NaT where they are missing; zones are dropped."""
        if self.holds not in ("times", "text", "nothing"):
            self.refuse_all("a time of day")
            return np.full(len(self), np.datetime64("NaT", "us"))
        return self.parsed(self.coded_text(), times_of_strings, "a time of day such as 13:45")

    def parsed_moments(self, form: str) -> Any:
        """Return strings as moments."""
        native = None if isinstance(self.series, list) else self.series.to_native()
        if type(native).__module__.partition(".")[0] == "pyarrow":
            found = moments_in_arrow(native, form)
            if found is not None:
                return found
        what = f"a date as {form}" if form else "an ISO date"
        return self.parsed(self.coded_text(), lambda strings: moments_of_strings(strings, form), what)

    def parsed(self, values: CodedText, parse: Callable[[list[str]], Any], what: str) -> Any:
        """Return strings as moments, NaT for missing ones and markers; others that `parse` makes NaT are refused."""
        known = np.append(parse(values.strings), NO_MOMENT)
        unknown = np.flatnonzero(np.isnat(known[:-1])).tolist()
        wrong = [code for code in unknown if not is_marker(values.strings[code], self.markers)]
        if wrong:
            rows = np.flatnonzero(np.isin(values.codes, wrong)).tolist()
            self.refuse(
                [(row, f"must be {what}, got {value_shown(values.strings[values.codes[row]])}") for row in rows]
            )
        return known[values.codes]

    def lists(self) -> tuple[Any, CodedText]:
        """Return the length of each row's list, -1 if it is missing, and the entries of all lists as strings."""
        counts, entries = np.zeros(len(self), np.int64), list[str]()
        for row, value in enumerate(self.objects):
            if is_missing(value) or (isinstance(value, str) and not value):
                counts[row] = -1
            else:
                some = [value] if isinstance(value, (str, *REAL_NUMBERS)) else value
                if not hasattr(some, "__iter__") or any(isinstance(entry, (dict, list)) for entry in some):
                    raise BadValueError(row, self.name, f"must be a list of strings, got {value_shown(value)}")
                kept = [cell_text(entry) for entry in some if not is_missing(entry)]
                if any(isinstance(entry, (float, np.floating)) and "." in cell_text(entry) for entry in some):
                    raise BadValueError(row, self.name, f"must be a list of strings, got {value_shown(value)}")
                counts[row] = len(kept)
                entries += kept
        return counts, CodedText(*number_strings(entries))


class ListedValues(ColumnValues):
    """A column of JSON values, of which None is missing.

    >>> ListedValues("age", [30, None, 31.5]).numbers()
    array([30. ,  nan, 31.5])
    """

    def __init__(self, name: str, objects: list[Any]) -> None:
        super().__init__(name, objects)
        self.objects = objects

    @functools.cached_property
    def types(self) -> set[type]:
        """The types of the values that are not None."""
        return {*map(type, self.objects)} - {type(None)}

    @functools.cached_property
    def holds(self) -> str:
        """The type of the values."""
        if self.types and self.types <= {int, float, bool}:
            return "numbers"
        return "text" if self.types == {str} else self.held_by_objects()

    def present(self) -> tuple[Any, Any]:
        """Return the values and None: none are left out."""
        try:
            return np.array(self.objects, np.float64), None
        except (OverflowError, TypeError):
            return np.array(self.objects, object), None

    def numbered(self) -> tuple[Any, list[str]]:
        """Return a code for every text, -1 for missing ones, and the strings in the order of their codes."""
        if self.types == {str}:
            return number_strings(self.objects)
        return number_strings(None if is_missing(value) else cell_text(value) for value in self.objects)


def columns_of(frame: Any, order: Iterable[int] | None = None) -> list[ColumnValues]:
    """Return the columns of a `Frame`, in this order."""
    chosen = list(range(frame.shape[1]) if order is None else order)
    series = list(frame.wrapped.iter_columns())  # all at once: a single one by its place takes time for all names
    return [ColumnValues(str(frame.column_labels[i]), series[i]) for i in chosen]


def comma_hint(cell: Any) -> str:
    """Return advice about a decimal comma, for the end of an error message; '' for any other cell.

    >>> comma_hint("1,5"), comma_hint("1,5,6")
    (' (a decimal comma? CSV: option decimal=",")', '')
    """
    plain = isinstance(cell, str) and "." not in cell and NUMERIC_TEXT.fullmatch(cell.replace(",", ".", 1))
    return ' (a decimal comma? CSV: option decimal=",")' if plain and "," in cell else ""


def value_shown(value: Any) -> str:
    """Return a value for an error message, at most 40 characters long."""
    text = repr(value.item() if isinstance(value, np.generic) else value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def distinct_text(values: Any, missing: Any) -> CodedText:
    """Return an array of numbers or moments as strings; `missing` is a mask of rows that the array leaves out, or None.

    >>> distinct_text(np.array([2.0, np.nan, 0.5]), np.array([False, True, False, False]))
    CodedText(codes=array([ 1, -1, -1,  0]), strings=['0.5', '2'])
    """
    known, codes = np.unique(values, return_inverse=True)
    codes = np.where(values != values, -1, codes.reshape(-1))  # noqa: PLR0124
    strings = [cell_text(value) for value in known[known == known].tolist()]  # noqa: PLR0124
    if missing is None:
        return CodedText(codes, strings)
    found = np.full(len(missing), -1)
    found[~missing] = codes
    return CodedText(found, strings)


def number_strings(values: Iterable[str | None]) -> tuple[Any, list[str]]:
    """Return strings numbered as they appear, -1 for None, and the strings in the order of their numbers.

    >>> number_strings(["b", None, "a", "b"])
    (array([ 0, -1,  1,  0]), ['b', 'a'])
    """
    known: dict[str, int] = {}
    add: Callable[[str, int], int] = known.setdefault
    codes = [-1 if value is None else add(value, len(known)) for value in values]
    return np.array(codes, np.int64), list(known)


def numbered_by_arrow(array: Any) -> tuple[Any, list[str]]:
    """Return the strings of an Arrow array as numbers, -1 for null, and the strings in the order of their numbers."""
    import pyarrow

    coded = arrow_whole(array).dictionary_encode()
    strings = coded.dictionary.to_pylist()
    plain = pyarrow.types.is_string(coded.type.value_type) or pyarrow.types.is_large_string(coded.type.value_type)
    codes, nulls = numbers_of_arrow(coded.indices).astype(np.int64), null_mask(coded.indices)
    if nulls is not None:
        codes[nulls] = -1
    return codes, strings if plain else list(map(cell_text, strings))


def moments_in_arrow(array: Any, form: str) -> Any:
    """Return the moments of an Arrow array of strings, NaT for nulls; None if strings are not all dates in a format."""
    import pyarrow

    whole = arrow_whole(array)
    if whole.type != pyarrow.string():
        return None
    present = whole.drop_null()
    found = np.full(len(whole), NO_MOMENT)
    if not len(present):
        return found
    _, offsets, data = present.buffers()
    ends = np.frombuffer(offsets, np.int32)[present.offset : present.offset + len(present) + 1].astype(np.int64)
    moments = moments_in_bytes(np.frombuffer(data or b"", np.uint8), ends[:-1], ends[1:], form)
    if np.isnat(moments).any():
        return None
    nulls = null_mask(whole)
    found[slice(None) if nulls is None else ~nulls] = moments
    return found


def wall_clock(value: Any) -> Any:
    """Return a date or time without its zone."""
    return value.replace(tzinfo=None) if isinstance(value, datetime.datetime) else value


def times_of_strings(strings: Sequence[str]) -> Any:
    """Return times of day as moments of the first day, NaT for strings that are none.

    >>> times_of_strings(["0:00:01.5"]) - FIRST_DAY, times_of_strings(["24:00", "noon"])
    (array([1500000], dtype='timedelta64[us]'), array(['NaT', 'NaT'], dtype='datetime64[us]'))
    """
    found = np.full(len(strings), NO_MOMENT)
    for k, text in enumerate(strings):
        with contextlib.suppress(ValueError):
            found[k] = FIRST_DAY + np.timedelta64(time_of_value(text)[2], "us")
    return found


def are_times(cells: Mapping[str, int]) -> bool:
    """Return whether nearly all cells are times of day; `cells` is how often each text occurs.

    >>> are_times({"13:45": 8, "7:00:30": 1, "later": 1}), are_times({"13:45": 1, "later": 1}), are_times({})
    (True, False, False)
    """
    may_be = any(CLOCK_START.match(text) for text in itertools.islice(cells, FIRST_TEXTS))
    return may_be and count_moments(cells, times_of_strings) > 0
