"""Made-up tables for the campaign of tables: columns of any kind, and the same rows in files, frames and dicts."""

import csv
import dataclasses
import datetime
import io
import json
import random
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from fiol.features.cell_rules import cell_text

NAMES = [
    "a",
    "b",
    "c",
    "d",
    "size of it",
    "größe",
    "x.y",
    "it's",
    'say "hi"',
    "p,q",
    "k;l",
    "日本",
    "u|v",
    "e^f",
    "m*n",
]
WORDS = [
    "red",
    "Blue",
    "größe",
    "it's",
    "a, b",
    'say "hi"',
    "x;y",
    " padded ",
    "日本",
    "new\nline",
    "tab\there",
    "-",
    "?",
]
NUMBER_WORDS = ["007", "1.5", "True", "1e3", "0", "-0", "12345678901234567890"]
SENTENCES = [
    "the quick brown fox jumps",
    "Größe ist nicht alles, Herr Müller",
    "one two three four five six",
    "to be or not to be",
]
DATE_FORMATS = ["%d.%m.%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%b-%Y", "%m/%d/%Y %H:%M"]
MARKERS = ["?", "NA", "-", "inf", "unknown", "n/a"]
NUMBERS = [0.0, 1.0, -2.0, 0.5, 1e-9, -3.25e7, 0.1, 1 / 3, 1e30, 123456789.125]
ASIDE = ("the target", "w w")
BIG = [2**60, 2**60 + 1, 2**60 + 2, 2**53, 2**53 + 1, -7]


@dataclasses.dataclass
class Column:
    """A column: cells in frames (`typed`), and in CSV, JSON and dicts, which may have text where frames have none."""

    name: str
    typed: list[Any]
    arrow: pa.DataType
    spec: Any = None  #: the kind, if it is given
    raw: list[Any] | None = None
    texts: bool = True  #: whether CSV can hold the cells

    def cells(self, way):
        """Return the cells as a way has them."""
        return self.raw if self.raw is not None and way in ("csv", "json") else self.typed


@dataclasses.dataclass
class Table:
    """Columns, targets, weights, options of training, and the number of rows to learn from."""

    columns: list[Column]
    target: Column
    weight: list[float] | None
    options: dict[str, Any]
    learned: int

    def part(self, start, stop):
        """Return the rows from `start` to `stop` as a table."""
        cut = lambda c: dataclasses.replace(c, typed=c.typed[start:stop], raw=c.raw and c.raw[start:stop])  # noqa: E731
        weight = self.weight and self.weight[start:stop]
        return Table(list(map(cut, self.columns)), cut(self.target), weight, self.options, stop - start)

    @property
    def has_texts(self):
        """Whether CSV can hold all columns."""
        return all(column.texts for column in self.columns)

    def all_columns(self, target=True):
        """Return all columns, with target and weight."""
        weight = [Column("w w", self.weight, pa.float64())] if self.weight else []
        return [*self.columns, *([self.target] if target else []), *weight]


# --- made-up columns --------------------------------------------------------------------------


def drawn(draw, some, rows, missing=0.2):
    """Return cells from some values, the first of them present."""
    return [draw.choice(some) if k == 0 or draw.random() > missing else None for k in range(rows)]


def make_column(draw, name, rows):
    """Return a column of a random kind."""
    return draw.choice(MAKERS)(draw, name, rows, draw.choice([0.0, 0.1, 0.4]))


def number(draw, name, rows, missing):
    some = [draw.choice([*NUMBERS, draw.gauss(0, 1), float(draw.randint(-9, 9))]) for _ in range(rows)]
    return Column(name, drawn(draw, some, rows, missing), pa.float64())


def whole(draw, name, rows, missing):
    big = draw.random() < 0.2
    some = BIG if big else [draw.randint(-9, 9) for _ in range(9)]
    return Column(name, drawn(draw, some, rows, missing), pa.int64(), spec="category" if draw.random() < 0.4 else None)


def truth(draw, name, rows, missing):
    spec = draw.choice([None, None, "category"])
    return Column(name, drawn(draw, [True, False], rows, missing), pa.bool_(), spec=spec)


def decimals(draw, name, rows, missing):
    return Column(name, drawn(draw, [0.5, -2.25, 3.0, 1e-7, 1e22], rows, missing), pa.float64(), spec="category")


def text(draw, name, rows, missing):
    given = draw.random() < 0.4
    some = draw.sample([*WORDS, *(NUMBER_WORDS if given else [])], 5)
    if not given:
        some = [word for word in some if word not in MARKERS] or ["red"]
    return Column(name, drawn(draw, some, rows, missing), pa.string(), spec="category" if given else None)


def sentences(draw, name, rows, missing):
    spec = draw.choice([None, "words", {"kind": "words", "ngrams": 2}])
    some = [f"{draw.choice(SENTENCES)} {draw.choice(WORDS)}{k}" for k in range(rows)]
    return Column(name, [None if k and draw.random() < missing else some[k] for k in range(rows)], pa.string(), spec)


def dates(draw, name, rows, missing):
    first = datetime.date(1990, 1, 1)
    some = [first + datetime.timedelta(draw.randrange(20000)) for _ in range(9)]
    how = draw.choice(["typed", "moments", "iso", "format", "category"])
    if how == "moments":
        at = [datetime.datetime.combine(day, datetime.time(draw.randrange(24), draw.choice([0, 30]))) for day in some]
        return Column(name, drawn(draw, at, rows, missing), pa.timestamp("us"))
    if how == "iso":
        clock = draw.choice(["", "", "T07:30", " 23:59:59.25+02:00"])
        return Column(name, drawn(draw, [day.isoformat() + clock for day in some], rows, missing), pa.string())
    if how == "format":
        form = draw.choice(DATE_FORMATS)
        texts = [day.strftime(form) for day in some]
        return Column(name, drawn(draw, texts, rows, missing), pa.string(), spec={"kind": "date", "format": form})
    cells, spec = drawn(draw, some, rows, missing), "category" if how == "category" else None
    return Column(name, cells, pa.date32(), spec)


def times(draw, name, rows, missing):
    some = [datetime.time(draw.randrange(24), draw.randrange(60), draw.choice([0, 0, 5])) for _ in range(6)]
    if draw.random() < 0.5:
        return Column(name, drawn(draw, some, rows, missing), pa.time64("us"))
    return Column(name, drawn(draw, [f"{t.hour}:{t.minute:02}" for t in some], rows, missing), pa.string())


def tags(draw, name, rows, missing):
    some = [draw.sample(WORDS[:9], draw.randrange(4)) for _ in range(6)]
    return Column(name, drawn(draw, [["red"], *some], rows, missing), pa.list_(pa.string()), texts=False)


def numeric_text(draw, name, rows, missing):
    some = [repr(draw.choice(NUMBERS)) for _ in range(6)] + [" 3", "+4", "5.", "1E2"]
    return Column(name, drawn(draw, some, rows, missing), pa.string(), spec="numeric_text")


def values_in(cells):
    """Return how many cells are not missing: a column of numbers or dates may have a ninth as many others."""
    return sum(cell is not None for cell in cells)


def marked(draw, name, rows, missing):
    found, few = number(draw, name, rows, missing), draw.random() < 0.5
    places = [k for k in range(1, rows) if draw.random() < 0.1]
    found.typed = [None if k in places else x for k, x in enumerate(found.typed)]
    odd = places[: values_in(found.typed) // 30] if few else []
    found.raw = [("odd" if k in odd else draw.choice(MARKERS)) if k in places else x for k, x in enumerate(found.typed)]
    return found


def markers_alone(draw, name, rows, missing):
    """Return a column without a value: of markers in CSV, JSON and dicts of these."""
    kind = pa.null() if draw.random() < 0.3 else pa.string()
    return Column(name, [None] * rows, kind, raw=[draw.choice([*MARKERS, None]) for _ in range(rows)])


def odd_dates(draw, name, rows, missing):
    """Return dates or times as text, with markers and a few odd cells in CSV and JSON; the kind is inferred."""
    days = [datetime.date(1990, 1, 1) + datetime.timedelta(draw.randrange(20000)) for _ in range(9)]
    form = draw.choice(["%Y-%m-%d", "%Y-%m-%d", "%d.%m.%Y", "%d-%b-%Y", "%H:%M"])
    some = [f"{k % 24}:{k:02}" for k in range(9, 60, 7)] if form == "%H:%M" else [day.strftime(form) for day in days]
    found = Column(name, drawn(draw, some, rows, missing), pa.string())
    odd = [k for k in range(1, rows) if draw.random() < 0.1]
    found.typed = [None if k in odd else text for k, text in enumerate(found.typed)]
    few = odd[: values_in(found.typed) * 3 // 100]
    found.raw = list(found.typed)
    for k in odd:
        found.raw[k] = draw.choice(["odd", "31/31/2011", "25:61", "7"]) if k in few else draw.choice(MARKERS)
    return found


def row_numbers(draw, name, rows, missing):
    start = draw.choice([0, 1])
    return Column(name, [start + k for k in range(rows)], pa.int64())


def unique_texts(draw, name, rows, missing):
    return Column(name, [f"u{k}x" for k in range(rows)], pa.string())


def nothing(draw, name, rows, missing):
    return Column(name, [None] * rows, pa.null() if draw.random() < 0.5 else pa.string())


def skipped(draw, name, rows, missing):
    return dataclasses.replace(text(draw, name, rows, missing), spec="skip")


MAKERS = (
    number, whole, truth, decimals, text, sentences, dates, times, tags, numeric_text, marked, markers_alone,
    odd_dates, row_numbers, unique_texts, nothing, skipped,
)  # fmt: skip


def make_target(draw, rows):
    """Return a column of labels or numbers."""
    labels, kind = draw.choice(
        [(["no", "yes"], pa.string()), ([False, True], pa.bool_()), ([0, 1], pa.int64()), ([-1, 1], pa.int64()),
         ([2**53, 2**53 + 1], pa.int64()), (["x", "y y", "größe"], pa.string()), ([1.5, -2.0, 0.25, 7.0], pa.float64())]
    )  # fmt: skip
    cells = [*labels, *(draw.choice(labels) for _ in range(rows - len(labels)))]
    if kind == pa.float64():
        cells = [draw.gauss(3.0, 1.0) for _ in range(rows)]
    return Column("the target", cells, kind)


def make_table(seed):
    """Return the table of a seed."""
    draw = random.Random(seed)
    rows = draw.choice([3, 8, 20, 20, 40, 70])
    learned = max(3, rows * 3 // 4) if draw.random() < 0.9 else rows
    names = draw.sample(NAMES, draw.randint(1, 5))
    columns = [make_column(draw, name, rows) for name in names]
    target = make_target(draw, rows)
    weight = [draw.choice([0.5, 1.0, 2.0, 0.0]) for _ in range(rows)] if draw.random() < 0.2 else None
    options: dict[str, Any] = {"algorithm": draw.choice(["FIOL", "FIOL", "FIOL", None])}
    if draw.random() < 0.2:
        options["bits"] = 12
    elif draw.random() < 0.1:
        options["max_features"] = 10_000
    if draw.random() < 0.25:
        usable = [column.name for column in columns if column.spec != "skip"]
        options["pairs"] = [tuple(draw.choices(usable, k=draw.choice([2, 2, 3])))] if usable else []
    if draw.random() < 0.2:
        own = [[*MARKERS, "red"]] if any(column.raw for column in columns) else [["?", "red"], ["-999"]]
        options["missing"] = draw.choice(own)
    if draw.random() < 0.1:
        options["intercept"] = False
    return Table(columns, target, weight, options, learned)


# --- ways to hold a table ---------------------------------------------------------------------


def csv_text(value):
    """Return a cell as CSV has it: a category as its text, others as Python writes them."""
    if value is None:
        return ""
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ")
    return repr(value) if isinstance(value, float) else value.isoformat() if hasattr(value, "isoformat") else str(value)


def as_csv(table, target=True):
    """Return the bytes of a CSV file."""
    file, columns = io.StringIO(), table.all_columns(target)
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([column.name for column in columns])
    cells = []
    for column in columns:
        own = cell_text if column.spec == "category" and column.arrow == pa.float64() else csv_text
        cells.append(["" if value is None else own(value) for value in column.cells("csv")])
    writer.writerows(zip(*cells, strict=True))
    return file.getvalue().encode()


def json_value(value):
    """Return a cell as JSON has it."""
    return csv_text(value) if hasattr(value, "isoformat") else value


def as_dicts(table, target=False, way="dicts"):
    """Return the rows as dicts."""
    columns = table.all_columns(target) if target else table.columns
    names, cells = [c.name for c in columns], [c.cells(way) for c in columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*cells, strict=True)]


def as_json(table, target=True):
    """Return the bytes of a file of JSON lines."""
    rows = as_dicts(table, target, "json")
    lines = (json.dumps({k: json_value(v) for k, v in row.items()}, ensure_ascii=False) for row in rows)
    return "".join(f"{line}\n" for line in lines).encode()


def as_arrow(table, target=True):
    """Return an Arrow table."""
    columns = table.all_columns(target)
    return pa.table([pa.array(c.typed, c.arrow) for c in columns], names=[c.name for c in columns])


def as_parquet(table, target=True):
    """Return the bytes of a Parquet file."""
    file = io.BytesIO()
    pq.write_table(as_arrow(table, target), file)
    return file.getvalue()


def as_ipc(table, target=True):
    """Return the bytes of an Arrow file."""
    file, found = io.BytesIO(), as_arrow(table, target)
    with pa.ipc.new_file(file, found.schema) as writer:
        writer.write_table(found)
    return file.getvalue()


def as_pandas(table, target=True):
    """Return a frame of pandas; integers and booleans with missing values have its nullable types."""
    kinds = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
    return as_arrow(table, target).to_pandas(types_mapper=kinds.get, date_as_object=True)


def as_polars(table, target=True):
    """Return a frame of polars."""
    return pl.from_arrow(as_arrow(table, target))


FILES = {"csv": as_csv, "json": as_json, "parquet": as_parquet, "arrow": as_ipc}
FRAMES = {"pandas": as_pandas, "polars": as_polars, "pyarrow": as_arrow}
