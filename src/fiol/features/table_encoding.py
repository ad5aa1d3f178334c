"""Table encodings: the kind of every column of a table (`fiol.features.column_kinds`), and the rows of frames.

A dict is a row as well: {"age": 30, "city": "Rome"} has the columns age and city (`fiol.features.table_rows`).
"""

from __future__ import annotations

import dataclasses
import functools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fiol.features.cell_rules import MISSING_MARKERS, is_marker, is_missing, words_of_text
from fiol.features.chunk import Names
from fiol.features.column_kinds import COLUMN_KINDS, KIND_SHARE, MISSING, PARTS, ColumnKind, part_features
from fiol.features.column_values import CodedText, ColumnValues, ListedValues, are_times, columns_of
from fiol.features.date_formats import FIRST_DAY, check_format, infer_format
from fiol.features.feature_columns import FeatureColumn, indicators, interleave, ranks
from fiol.features.frames import (
    REAL_NUMBERS,
    enumeration,
    frame_labels,
    known_frame,
    narwhals,
    refuse_columns,
    refuse_twice,
)
from fiol.features.interactions import add_interactions, belongs_to
from fiol.features.named_rows import NamedRows

#: Text with more words than that on average, most values different, is words, not a category.
SHORT_TEXT = 4.0
#: A category of which every value is different is an id if there are at least this many.
MIN_ID_VALUES = 50
#: The largest `ngrams`.
MAX_NGRAMS = 8


@dataclasses.dataclass(frozen=True)
class Column:
    """How one column becomes features: its kind, the length of n-grams, and the parts and the format of a date.

    >>> Column("review", "words", ngrams=2).describe()
    'review: one feature for every word, and for up to 2 in a row (review:...)'
    >>> Column("day", "date", parts=("days", "month"), format="%m/%d/%Y").describe()
    'day: parts of a date: days, month; text as %m/%d/%Y'
    """

    name: str
    kind: str
    ngrams: int = 1
    parts: tuple[str, ...] = ()  #: of a date; empty if the first frame decides
    format: str = ""  #: of dates that are text, such as %m/%d/%Y (see `fiol.features.date_formats`); "" for ISO dates

    def __post_init__(self) -> None:
        where = f"column {self.name!r}"
        if not isinstance(self.name, str):
            raise TypeError(f"the name of a column must be a str, got {self.name!r}")
        if not isinstance(self.kind, str) or self.kind not in COLUMN_KINDS:
            raise ValueError(f"{where}: its kind must be one of {', '.join(COLUMN_KINDS)}, got {self.kind!r}")
        if type(self.ngrams) is not int or not 1 <= self.ngrams <= MAX_NGRAMS:
            raise ValueError(f"{where}: ngrams must be from 1 to {MAX_NGRAMS}, got {self.ngrams!r}")
        if not isinstance(self.parts, (list, tuple)):
            raise ValueError(f"{where}: parts must be a list, got {self.parts!r}")
        object.__setattr__(self, "parts", tuple(self.parts))
        for part in self.parts:
            if not isinstance(part, str) or part not in PARTS:
                raise ValueError(f"{where}: parts must be of {', '.join(PARTS)}, got {part!r}")
        if self.format != "":
            if self.kind != "date":
                raise ValueError(f"{where}: only a date has a format, got {self.format!r} for the kind {self.kind!r}")
            try:
                check_format(self.format)
            except ValueError as error:
                raise ValueError(f"{where}: {error}") from None

    @property
    def spec(self) -> str:
        """The kind as the option --column takes it, such as words:2 or date:%m/%d/%Y."""
        more = str(self.ngrams) if self.kind == "words" and self.ngrams > 1 else self.format
        return f"{self.kind}:{more}" if more else self.kind

    @functools.cached_property
    def rules(self) -> ColumnKind:
        """The rules of the column's kind."""
        return COLUMN_KINDS[self.kind]

    @property
    def is_left_out(self) -> bool:
        """Whether the column makes no features."""
        return self.rules.is_left_out

    @functools.cached_property
    def missing_feature(self) -> str:
        """The name of the feature of missing values."""
        return self.name + MISSING

    @functools.cached_property
    def prefix(self) -> str:
        """What is before a text, a word or an entry of a list in names of features."""
        return self.name + self.rules.sign

    def describe(self) -> str:
        """Return the kind of the column in words."""
        ending = f" ({self.prefix}...)" if self.rules.sign else ""
        more = f", and for up to {self.ngrams} in a row" if self.kind == "words" and self.ngrams > 1 else ""
        named = {
            **dict(zip(PARTS, PARTS, strict=True)),
            **({"days": "share of the day"} if self.kind == "time" else {}),
        }
        parts = f" {', '.join(named[part] for part in self.parts)}" if self.rules.parts else ""
        form = f"; text as {self.format}" if self.format else ""
        return f"{self.name}: {self.rules.words}{more}{parts}{form}{ending}"

    @property
    def feature_endings(self) -> tuple[str, ...]:
        """What may follow the name of the column in names of features."""
        sign = (self.rules.sign,) if self.rules.sign else ()
        return (MISSING, *sign, *(f".{part}=" for part in self.parts if part != "days"))

    def feature_columns(self, values: ColumnValues) -> list[FeatureColumn]:
        """Return the features of the column's values."""
        if self.is_left_out:
            return []
        if self.kind == "undecided":
            if values.holds not in ("nothing", "text") or (values.holds == "text" and values.cell_counts()):
                values.refuse_all("missing, as it was in all of the first rows: name the kind of the column")
            return [self.number_column(np.full(len(values), np.nan))]
        if self.rules.parts:
            return self.date_columns(values.moments(self.format) if self.kind == "date" else values.times())
        if self.rules.is_number:
            return [self.number_column(values.numbers())]
        if self.kind == "tags":
            return [self.tag_column(*values.lists())]
        if self.kind == "category":
            return [self.category_column(values.coded_text())]
        if self.kind == "words":
            return [self.word_column(values.coded_text())]
        raise NotImplementedError(f"Column.feature_columns has no rule for columns of the kind {self.kind!r}")

    def number_column(self, values: Any) -> FeatureColumn:
        """Return a feature for the number, and one for missing values."""
        rows = np.flatnonzero(values)
        kept = values[rows]
        missing = np.isnan(kept)
        names = [self.name, self.missing_feature]
        return FeatureColumn(rows, missing.astype(np.int64), np.where(missing, 1.0, kept), names, [self.name] * 2)

    def category_column(self, values: CodedText) -> FeatureColumn:
        """Return a feature per text, and one for missing values."""
        names = [*(self.prefix + text for text in values.strings), self.missing_feature]
        codes = np.where(values.codes < 0, len(values.strings), values.codes)
        return indicators(np.arange(len(codes)), codes, names, self.name)

    def word_column(self, values: CodedText) -> FeatureColumn:
        """Return a feature per word, and one for missing values."""
        known: defaultdict[str, int] = defaultdict()
        known.default_factory = known.__len__
        counts, codes = list[int](), list[int]()
        for text in values.strings:
            words = words_of_text(text, self.ngrams)
            counts.append(len(words))
            codes += map(known.__getitem__, words)
        names = [*(self.prefix + word for word in known), self.missing_feature]
        return self.several(values.codes, [*counts, 1], [*codes, len(known)], names)

    def tag_column(self, counts: Any, values: CodedText) -> FeatureColumn:
        """Return a feature per entry, and one for missing lists."""
        names = [*(self.prefix + text for text in values.strings), self.missing_feature]
        lengths = np.where(counts < 0, 1, counts)
        codes = np.full(lengths.sum(), len(values.strings))
        codes[np.repeat(counts >= 0, lengths)] = values.codes
        return self.several(np.arange(len(counts)), lengths, codes, names)

    def several(self, which: Any, counts: Any, codes: Any, names: list[str]) -> FeatureColumn:
        """Return the feature column whose row r has the entries of list `which[r]`; `counts` are the lists' lengths."""
        counts = np.asarray(counts, np.int64)
        lengths = counts[which]
        rows = np.repeat(np.arange(len(which)), lengths)
        entries = (np.cumsum(counts) - counts)[which][rows] + ranks(rows, lengths)
        return indicators(rows, np.asarray(codes, np.int64)[entries], names, self.name)

    def date_columns(self, moments: Any) -> list[FeatureColumn]:
        """Return the parts of dates, and a feature for missing values."""
        known, feature_columns = ~np.isnat(moments), list[FeatureColumn]()
        rows = np.flatnonzero(known)
        kept = moments[rows]
        days = kept.astype("datetime64[D]")
        if "days" in self.parts:
            values = np.full(len(moments), np.nan)
            values[rows] = (kept - FIRST_DAY) / np.timedelta64(1, "D")
            feature_columns.append(self.number_column(values))
        elif len(rows) < len(moments):
            absent, names = np.flatnonzero(~known), [self.missing_feature]
            feature_columns.append(indicators(absent, np.zeros_like(absent), names, self.name))
        for part in PARTS[1:]:
            if part not in self.parts:
                continue
            if part == "month":
                codes = kept.astype("datetime64[M]").astype(np.int64) % 12
            elif part == "weekday":
                codes = (days.astype(np.int64) + 3) % 7
            else:
                codes = (kept - days).astype("timedelta64[h]").astype(np.int64)
            names = part_features(self.name, part)
            feature_columns.append(indicators(rows, codes, names, f"{self.name}.{part}"))
        return feature_columns

    def with_parts(self, values: ColumnValues) -> Column:
        """Return the column with the parts and the format of its dates, from the values if no parts are given."""
        if not self.rules.parts or self.parts:
            return self
        if self.kind == "time":
            return self.with_all_parts()
        form = self.format
        if not form and values.holds == "text":
            form = infer_format(self.name, values.cell_counts()) or ""
        moments = values.moments(form)
        moments = moments[~np.isnat(moments)]
        whole = bool((moments == moments.astype("datetime64[D]")).all())
        return dataclasses.replace(self, parts=PARTS[:-1] if whole else PARTS, format=form)

    def with_all_parts(self) -> Column:
        """Return the column with all parts of its kind, unless parts are given.

        >>> Column("day", "date").with_all_parts().parts, Column("size", "number").with_all_parts().parts
        (('days', 'month', 'weekday', 'hour'), ())
        """
        return dataclasses.replace(self, parts=self.parts or self.rules.parts)

    def to_json(self) -> dict[str, Any]:
        """Return the column as plain JSON, without fields that have their defaults."""
        more = {"ngrams": self.ngrams, "parts": list(self.parts), "format": self.format}
        defaults: dict[str, Any] = {"ngrams": 1, "parts": [], "format": ""}
        return {"name": self.name, "kind": self.kind, **{k: v for k, v in more.items() if v != defaults[k]}}


@dataclasses.dataclass(frozen=True)
class TableEncoding:
    """How the columns of frames become features with names.

    Parameters
    ----------
    columns : a `Column` each, in the order of the features of a row.
    pairs : columns to multiply, two or three at a time: see `fiol.features.interactions`.
    complete : False if the first frame decides about other columns.
    optional : whether rows may lack columns and have others, as in JSON lines: an absent column has no feature, and the
        kind of a new one follows from the type of its value.
    missing : strings that stand for a missing value in every column, without case and blanks around them; None for
        `fiol.features.cell_rules.MISSING_MARKERS` in columns of numbers, dates and times. Blank text is always one.

    `TableEncoding.infer` takes the kinds from a first frame. Numbers and booleans are numbers. Text is a date if nine
    of ten values are dates of one format, a time if nine of ten are times of day such as 13:45, words if the values
    have more than 4 words on average and more than half of them are different, and a category otherwise. Lists are
    tags. Dates have an hour if one is not at midnight. A category is left out as an id if there are at least 50 values
    and all of them differ, and so is a column of whole numbers that count 50 rows or more from 0 or 1; columns of
    `pairs` are not.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"age": [30.0, None], "city": ["Rome", "Oslo"], "day": ["2024-03-04", "2024-03-05"]})
    >>> encoding = TableEncoding.infer(frame)
    >>> print(*encoding.describe(), sep="\\n")
    age: a number
    city: one feature for every value (city=...)
    day: parts of a date: days, month, weekday
    >>> encoding.named_rows(frame).names
    ['age', 'city=Rome', 'day', 'day.month=3', 'day.weekday=Mon', 'age is missing', 'city=Oslo', 'day.weekday=Tue']
    >>> TableEncoding.infer(frame, {"age": "category", "day": "skip"}).named_rows(frame).names
    ['age=30', 'city=Rome', 'age is missing', 'city=Oslo']
    >>> TableEncoding.from_json(encoding.to_json()) == encoding
    True
    """

    columns: tuple[Column, ...] = ()
    pairs: tuple[tuple[str, ...], ...] = ()
    complete: bool = True
    missing: tuple[str, ...] | None = None
    optional: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        if self.missing is not None:
            if isinstance(self.missing, str) or not all(isinstance(text, str) for text in self.missing):
                raise ValueError(f"missing must be a list of strings, got {self.missing!r}")
            object.__setattr__(self, "missing", tuple(self.missing))
        object.__setattr__(self, "pairs", tuple(map(tuple, self.pairs)))
        names = self.names
        if len(set(names)) < len(names):
            refuse_twice(names)
        for pair in self.pairs:
            if len(pair) not in (2, 3) or not all(isinstance(element, str) for element in pair):
                raise ValueError(f"pairs must be tuples of two or three names of columns, got {pair!r}")
            for element in pair if self.complete else ():
                if not any(belongs_to(group, element) for group in self.groups()):
                    raise ValueError(
                        f"the pair {pair!r} names {element!r}, which is no column: the columns are "
                        f"{enumeration(list(names))}"
                    )

    @property
    def names(self) -> Names:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)

    @property
    def markers(self) -> tuple[str, ...]:
        """Strings that stand for a missing value, in lower case and without blanks around them."""
        return MISSING_MARKERS if self.missing is None else tuple(text.strip().lower() for text in self.missing)

    def prepared(self, values: ColumnValues, odd: list[tuple[int, str, str]] | None) -> ColumnValues:
        """Return a column that knows the missing markers; see `ColumnValues.odd`."""
        values.markers, values.everywhere, values.odd = self.markers, self.missing is not None, odd
        return values

    def groups(self) -> list[str]:
        """Return the names that a pair may have: columns, and parts of dates."""
        return [
            name for column in self.columns for name in (column.name, *(f"{column.name}.{p}" for p in column.parts))
        ]

    @classmethod
    def from_spec(
        cls, kinds: Any = None, pairs: Sequence[Sequence[str]] = (), missing: Sequence[str] | None = None
    ) -> TableEncoding:
        """Return an encoding with the kinds that are given; the first frame decides about all other columns.

        `kinds` is a mapping from columns to kinds, as `--column` takes them, or to fields of `Column`; for `missing`
        see the class.

        >>> encoding = TableEncoding.from_spec({"zip": "category", "text": "words:2", "day": {"kind": "date"}})
        >>> [(column.name, column.spec) for column in encoding.columns]
        [('zip', 'category'), ('text', 'words:2'), ('day', 'date')]
        """
        if isinstance(kinds, TableEncoding):
            return kinds
        if kinds is not None and not isinstance(kinds, Mapping):
            raise TypeError(
                f"a table encoding must be a fiol.TableEncoding or a dict of kinds by column, got {kinds!r}"
            )
        columns = tuple(column_from_spec(name, kind) for name, kind in (kinds or {}).items())
        return cls(columns, tuple(map(tuple, pairs)), False, missing)  # type: ignore[arg-type]

    @classmethod
    def infer(cls, frame: Any, overrides: Any = None) -> TableEncoding:
        """Return the encoding with kinds inferred from a frame, except for those given in `overrides`."""
        return cls.from_spec(overrides).completed(frame)

    def completed(self, frame: Any) -> TableEncoding:
        """Return the encoding with a kind for every column of a frame that has values."""
        if not self.complete:
            return self.completed_by(columns_of(known_frame(frame)))
        undecided = {column.name for column in self.columns if column.kind == "undecided"}
        if not undecided:
            return self
        frame = known_frame(frame)
        places = [i for i, label in enumerate(frame.column_labels) if str(label) in undecided]
        found = {v.name: infer_column(self.prepared(v, [])) for v in columns_of(frame, places)}
        return dataclasses.replace(self, columns=tuple(found.get(c.name, c) for c in self.columns))

    def completed_by(self, columns: Sequence[ColumnValues]) -> TableEncoding:
        """Return the encoding with a kind for each of these columns."""
        given, names = {column.name: column for column in self.columns}, [values.name for values in columns]
        there = set(names)
        unknown = [name for name in given if name not in there]
        if unknown:
            raise ValueError(
                f"the table encoding names columns that are not there: {enumeration(unknown)}; the columns are "
                f"{enumeration(names)}"
            )
        for values in columns:
            self.prepared(values, [])
        found = [given[v.name].with_parts(v) if v.name in given else self.inferred(v) for v in columns]
        refuse_collisions(found)
        return dataclasses.replace(self, columns=tuple(found), complete=True)

    def inferred(self, values: ColumnValues) -> Column:
        """Return the column with the kind that its values suggest; an id is left out unless a pair names it."""
        column = infer_column(values)
        if is_id(column, values) and not any(
            belongs_to(values.name, element) for pair in self.pairs for element in pair
        ):
            return Column(values.name, "id")
        return column

    def with_skipped(self, name: str) -> TableEncoding:
        """Return the encoding with a column that is left out, unless it has the column already.

        >>> TableEncoding((Column("age", "number"),)).with_skipped("bought").names
        ('age', 'bought')
        """
        if name in self.names:
            return self
        return dataclasses.replace(self, columns=(*self.columns, Column(name, "skip")))

    @property
    def ids_message(self) -> str:
        """Which columns are left out as ids, in words; '' if there are none."""
        ids = [column.name for column in self.columns if column.kind == "id"]
        reason = "each value is different, or the row's number; to use a column, give its kind, such as category"
        return f"left out as ids: {enumeration(ids)} ({reason})" if ids else ""

    def other_columns(self, names: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return the columns that rows with these columns lack, and those of the rows that are unknown.

        If columns are optional, rows lack none of them, unless they have none at all.
        """
        there, known = set(names), set(self.names)
        needed = [column.name for column in self.columns if not column.is_left_out]
        absent = [name for name in needed if name not in there]
        if self.optional and len(absent) < len(needed):
            absent = []
        return absent, [name for name in names if name not in known]

    def named_rows(
        self, frame: Any, odd: list[tuple[int, str, str]] | None = None, all_columns: bool = True
    ) -> NamedRows:
        """Return the encoded rows of a frame with these columns, in any order; skipped ones may be absent.

        Without `all_columns`, absent columns are missing (or no features, if columns are optional), and others left
        out. Cells that cannot be encoded raise a BadValueError; with `odd` they are missing, and their row, column and
        reason are added to that list.
        """
        frame = known_frame(frame)
        labels = frame_labels(frame)
        if all_columns and any(other := self.other_columns(labels)):
            refuse_columns(*other)
        place = {label: i for i, label in enumerate(labels)}
        needed = [c for c in self.columns if not c.is_left_out and (c.name in place or not self.optional)]
        there = [c.name for c in needed if c.name in place]
        found = dict(zip(there, columns_of(frame, [place[name] for name in there]), strict=True))
        absent = ListedValues("", [None] * len(frame))
        made = (c.feature_columns(self.prepared(found.get(c.name, absent), odd)) for c in needed)
        return self.rows_of([column for columns in made for column in columns], len(frame))

    def rows_of(self, feature_columns: Sequence[FeatureColumn], rows: int) -> NamedRows:
        """Return the features of all columns, and their interactions, row by row."""
        rows_and_names, groups = interleave(feature_columns, rows)
        return add_interactions(rows_and_names, groups, self.pairs)

    def describe(self) -> list[str]:
        """Return the kind of every column in words, one line each."""
        return [*(column.describe() for column in self.columns), *(" * ".join(pair) for pair in self.pairs)]

    def to_json(self) -> dict[str, Any]:
        """Return the encoding as plain JSON."""
        columns = [column.to_json() for column in self.columns]
        more: dict[str, Any] = {} if self.missing is None else {"missing": list(self.missing)}
        more |= {"optional": True} if self.optional else {}
        return {"columns": columns, "pairs": list(map(list, self.pairs)), "complete": self.complete, **more}

    @classmethod
    def from_json(cls, stored: Any) -> TableEncoding:
        """Return the table encoding that `to_json` wrote; raise ValueError if a field is unknown or has a wrong value.

        >>> TableEncoding.from_json({"columns": [{"name": "age", "kind": "number", "unit": "years"}]})
        Traceback (most recent call last):
        ValueError: a column has the unknown field 'unit'
        """
        check_fields("a table encoding", stored, cls)
        columns, pairs = stored.get("columns", []), stored.get("pairs", [])
        complete, optional = stored.get("complete", True), stored.get("optional", False)
        if not isinstance(columns, list) or not isinstance(pairs, list):
            raise ValueError("the columns and pairs of a table encoding must be lists")
        if type(complete) is not bool or type(optional) is not bool:
            raise ValueError("complete and optional of a table encoding must be true or false")
        try:
            own = tuple(map(column_from_json, columns))
            return cls(own, tuple(map(tuple, pairs)), complete, stored.get("missing"), optional)
        except TypeError as error:
            raise ValueError(str(error)) from error


def column_from_json(stored: Any) -> Column:
    """Return the column that `Column.to_json` wrote; raise ValueError if a field is unknown or missing."""
    check_fields("a column", stored, Column)
    if not isinstance(stored.get("name"), str) or "kind" not in stored:
        raise ValueError(f"a column has a name and a kind, got {stored!r}")
    kind = "numeric_text" if stored["kind"] == "numeral" else stored["kind"]  # the name of earlier versions
    return Column(**{**stored, "kind": kind})


def check_fields(what: str, stored: Any, kind: Any) -> None:
    """Raise ValueError unless a stored value is a mapping whose keys are fields of a dataclass."""
    if not isinstance(stored, dict):
        raise ValueError(f"{what} must be a mapping, got {stored!r}")
    for name in stored:
        if name not in kind.__dataclass_fields__:
            raise ValueError(f"{what} has the unknown field {name!r}")


def column_from_spec(name: Any, kind: Any) -> Column:
    """Return a column given as `Column.spec` has it, by a mapping of its fields, or as a `Column`.

    >>> column_from_spec("review", "words:2").ngrams, column_from_spec("day", "date:%m/%d/%Y").format
    (2, '%m/%d/%Y')
    >>> column_from_spec("zip", "category:2")
    Traceback (most recent call last):
    ValueError: column 'zip': only words:N and date:FORMAT have something after a colon, got 'category:2'
    """
    if isinstance(kind, Column):
        return kind
    if isinstance(kind, Mapping):
        fields = {"name": name, **kind}
        check_fields(f"the table encoding of column {name!r}", fields, Column)
        return Column(**fields)
    kind, colon, more = kind.partition(":") if isinstance(kind, str) else (kind, "", "")
    if not colon:
        return Column(name, kind)
    if kind == "date" and more:
        return Column(name, kind, format=more)
    if kind == "words" and more.isdecimal():
        return Column(name, kind, ngrams=int(more))
    raise ValueError(
        f"column {name!r}: only words:N and date:FORMAT have something after a colon, got {f'{kind}:{more}'!r}"
    )


def infer_column(values: ColumnValues) -> Column:
    """Return the column with the kind that its values suggest."""
    holds = values.holds
    if holds == "text":
        nw, series = narwhals(), values.series
        if not isinstance(series, list) and series.dtype in (nw.Categorical, nw.Enum):
            return Column(values.name, "category")
        cells = values.cell_counts()
        if not cells:
            return Column(values.name, "undecided")
        if are_numbers(values):
            return Column(values.name, "number")
        form = infer_format(values.name, cells)
        if form is not None:
            return Column(values.name, "date", format=form).with_parts(values)
        if are_times(cells):
            return Column(values.name, "time").with_parts(values)
        return Column(values.name, "words" if are_long(values.coded_text()) else "category")
    kinds = {"numbers": "number", "dates": "date", "times": "time", "lists": "tags", "nothing": "undecided"}
    return Column(values.name, kinds[holds]).with_parts(values)


def is_id(column: Column, values: ColumnValues) -> bool:
    """Return whether a column of this kind is an id: a category whose values all differ, or the number of the row.

    >>> import pandas as pd
    >>> user, row = columns_of(known_frame(pd.DataFrame({"user": [f"u{k}" for k in range(50)], "row": range(50)})))
    >>> is_id(Column("user", "category"), user), is_id(Column("row", "number"), row)
    (True, True)
    """
    if len(values) < MIN_ID_VALUES:
        return False
    if column.kind == "category":
        codes = values.coded_text().codes
        return bool(len(codes) == len(np.unique(codes)) and codes.min() >= 0)
    if column.kind != "number" or values.holds != "numbers":
        return False
    found = values.numbers()
    return bool(found[0] in (0.0, 1.0) and (np.diff(found) == 1.0).all())


def refuse_collisions(columns: Sequence[Column]) -> None:
    """Raise ValueError if the name of a column is that of a feature of another one.

    >>> refuse_collisions([Column("x", "category"), Column("x=a", "number")])
    Traceback (most recent call last):
    ValueError: columns 'x' and 'x=a' make features of one name: rename one of them, or leave it out by kind 'skip'
    """
    known = {column.name: column for column in columns if not column.is_left_out}
    for name in known:
        for k in range(1, len(name)):
            other = known.get(name[:k])
            if other is not None and name[k:].startswith(other.feature_endings):
                raise ValueError(
                    f"columns {other.name!r} and {name!r} make features of one name: rename one of them, or leave it "
                    "out by kind 'skip'"
                )


def are_numbers(values: ColumnValues) -> bool:
    """Return whether nearly all of the values are numbers, though some are strings."""
    if not values.are_objects:
        return False
    there = [v for v in values.objects if not is_missing(v) and not is_marker(v, values.markers)]
    numbers = sum(isinstance(value, REAL_NUMBERS) for value in there)
    return numbers > 0 and numbers >= KIND_SHARE * len(there)


def are_long(values: CodedText) -> bool:
    """Return whether strings are encoded word by word.

    >>> are_long(CodedText(np.array([0, 1]), ["all happy families are alike", "call me Ishmael, and do not ask why"]))
    True
    """
    present = values.codes[values.codes >= 0]
    words = sum(len(values.strings[code].split()) for code in present.tolist())
    return 2 * len(values.strings) > len(present) and words > SHORT_TEXT * len(present)
