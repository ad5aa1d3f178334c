"""Columns as features: names and values are those that a slow loop over rows gives to dicts, to the bit."""

import collections
import datetime as dt
import itertools
import json
import math
import re
import subprocess
import sys

import narwhals
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fiol
from fiol.features.arrow_arrays import null_mask, numbers_of_arrow
from fiol.features.cell_rules import MISSING_MARKERS, column_features, date_parts
from fiol.features.column_kinds import COLUMN_KINDS, PART_VALUES, part_features
from fiol.features.column_values import BadValueError
from fiol.features.date_formats import MONTH_WORDS
from fiol.features.interactions import add_interactions
from fiol.features.named_rows import NamedRows
from fiol.features.table_encoding import Column, TableEncoding
from fiol.features.vocabulary import Vocabulary

FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}


# --- the oracle: one row, one column, one value at a time ----------------------------------------


def features(column, value):
    """The features of one value, as pairs (group, name, value)."""
    c = column.name
    if column.kind == "skip":
        return []
    if value in (None, "") or (isinstance(value, float) and math.isnan(value)):
        return [(c, f"{c} is missing", 1.0)]
    if column.kind in ("number", "numeric_text"):
        return [(c, c, float(value))]
    if column.kind == "category":
        whole = isinstance(value, float) and value == int(value)
        return [(c, f"{c}={int(value) if whole else value}", 1.0)]
    if column.kind == "tags":
        return [(c, f"{c}={entry}", 1.0) for entry in value]
    if column.kind == "words":
        words = re.findall(r"\w+", value.lower())
        return [
            (c, f"{c}:{' '.join(words[k : k + n])}", 1.0)
            for n in range(1, column.ngrams + 1)
            for k in range(len(words) - n + 1)
        ]
    moment = dt.datetime.fromisoformat(value) if isinstance(value, str) else value
    if not isinstance(moment, dt.datetime):
        moment = dt.datetime.combine(moment, dt.time())
    since = moment.replace(tzinfo=None) - dt.datetime(2000, 1, 1)
    days = since // dt.timedelta(microseconds=1) / 86_400_000_000
    parts = {"month": moment.month, "weekday": moment.strftime("%a"), "hour": moment.hour}
    document = [(f"{c}.{part}", f"{c}.{part}={said}", 1.0) for part, said in parts.items() if part in column.parts]
    return [(c, c, days)] * ("days" in column.parts) + document


def products(entries, pair):
    """What a pair or triple adds to a row of such entries; in alphabetical order if it names a group twice."""
    if len(set(pair)) < len(pair):
        entries = sorted(entries, key=lambda entry: entry[1])
    chosen = [[(k, e) for k, e in enumerate(entries) if e[0] == want or e[0].startswith(want + ".")] for want in pair]
    for found in itertools.product(*chosen):
        if any(found[b][0] > found[a][0] for a in range(len(pair)) for b in range(a) if pair[a] == pair[b]):
            continue  # every two of a group once
        names = [entry[1] for _, entry in found]
        yield "*".join(names), math.prod(entry[2] for _, entry in found)


def slow_rows(encoding, table):
    """The rows as dicts."""
    for values in zip(*(table[column.name] for column in encoding.columns), strict=True):
        entries = list[tuple[str, str, float]]()
        for column, value in zip(encoding.columns, values, strict=True):
            merged = {}
            for group, name, x in features(column, value):
                merged[group, name] = merged.get((group, name), 0.0) + x
            entries += [(group, name, x) for (group, name), x in merged.items() if x != 0.0]
        row = {name: x for _, name, x in entries}
        for pair in encoding.pairs:
            for name, x in products(entries, pair):
                row[name] = row.get(name, 0.0) + x
        yield row


def same(rows, dicts):
    """Whether rows with names are these dicts, and number names alike."""
    fast, slow = Vocabulary(), Vocabulary()
    a, b = rows.encoded(fast), slow.encode(dicts)
    assert fast.names == slow.names
    assert rows.names == list(dict.fromkeys(rows.names))
    assert [x.tobytes() for x in a] == [x.tobytes() for x in b]


TEXT = st.sampled_from(["Rome", "Oslo", "", "a b", "New York is big, and New York is far away"])
MOMENT = st.datetimes(dt.datetime(1990, 1, 1), dt.datetime(2030, 1, 1))
VALUES = {
    "number": st.floats(-10, 10).filter(lambda x: x == 0.0 or abs(x) > 1e-9) | st.just(0.0),
    "whole": st.integers(-3, 3),
    "truth": st.booleans(),
    "text": TEXT,
    "words": TEXT,
    "numeric_text": st.sampled_from(["1.5", "-2", "0", "1e3"]),
    "moment": MOMENT,
    "day": MOMENT.map(dt.datetime.date),
    "iso": MOMENT.map(lambda m: m.replace(microsecond=0).isoformat()),
    "zip": st.integers(0, 4),
    "gone": st.integers(0, 4),
}
GIVEN = {
    "words": {"kind": "words", "ngrams": 2},
    "numeric_text": "numeric_text",
    "zip": "category",
    "gone": "skip",
    "text": "category",
}
PAIRS = st.lists(
    st.sampled_from(
        [
            ("text", "zip"),
            ("words", "words"),
            ("number", "number", "text"),
            ("moment.hour", "text"),
            ("words", "text", "words"),
        ]
    ),
    max_size=2,
    unique=True,
)
ROWS = st.lists(
    st.fixed_dictionaries({name: values | st.none() for name, values in VALUES.items()}), min_size=1, max_size=6
)
FIRST = {
    "number": 1.5, "whole": 2, "truth": True, "text": "Rome", "words": "on", "numeric_text": "1",
    "moment": dt.datetime(2024, 3, 4, 7), "day": dt.date(2024, 3, 4), "iso": "2024-03-04T00:00:00", "zip": 7, "gone": 1,
}  # fmt: skip


@settings(max_examples=30)
@given(ROWS, st.sampled_from(sorted(FRAMES)), PAIRS)
def test_encoded_rows_match_slow_loop(rows, library, pairs):
    table = {name: [FIRST[name], *(row[name] for row in rows)] for name in VALUES}
    frame = FRAMES[library](table)
    encoding = TableEncoding.from_spec(GIVEN, pairs).completed(frame)
    kinds = {column.name: column.kind for column in encoding.columns}
    assert kinds == {
        **dict.fromkeys(["number", "whole", "truth"], "number"), "text": "category", "words": "words",
        "numeric_text": "numeric_text", "moment": "date", "day": "date", "iso": "date", "zip": "category",
        "gone": "skip",
    }  # fmt: skip
    assert "hour" in encoding.columns[6].parts
    assert "hour" not in encoding.columns[7].parts
    same(encoding.named_rows(frame), list(slow_rows(encoding, table)))
    document = json.loads(json.dumps(encoding.to_json()))
    assert TableEncoding.from_json(document) == encoding
    assert hash(TableEncoding.from_json(document)) == hash(encoding)


def test_encoded_rows_are_invariant_to_column_order_and_chunking():
    table = {
        "city": ["Rome", None, "Oslo", "Rome"],
        "age": [1.0, 0.0, None, 2.0],
        "tags": [["a", "b", "a"], [], None, ["b"]],
    }
    whole = pl.DataFrame(table)
    encoding = TableEncoding.infer(whole)
    assert [column.kind for column in encoding.columns] == ["category", "number", "tags"]
    dicts = list(slow_rows(encoding, table))
    same(encoding.named_rows(whole), dicts)
    same(encoding.named_rows(whole.select("tags", "age", "city")), dicts)
    for k, row in enumerate(dicts):
        same(encoding.named_rows(whole[k : k + 1]), [row])
    assert encoding.named_rows(whole[:0]).rows == 0
    same(TableEncoding.infer(pa.table(table)).named_rows(pa.table(table)), dicts)


def test_encoding_is_inferred_from_the_first_frame():
    long = [f"{k} is one of the many texts of some length" for k in range(4)]
    frame = pd.DataFrame(
        {
            "long": long, "often": [long[0]] * 4, "short": ["a b", "c", "d", "e"], "none": [None] * 4,
            "soon": ["2024-01-01", "soon", "", ""], "late": ["2024-01-01", "2024-01-02T00:00:01Z", None, ""],
            "mixed": pd.Series([1, "x", None, 2.0], dtype=object), "kept": pd.Categorical(long),
            "span": pd.to_timedelta(["1D", "12h", None, "2D"]),
        }
    )  # fmt: skip
    encoding = TableEncoding.infer(frame)
    kinds = [column.kind for column in encoding.columns]
    assert kinds == ["words", "category", "category", "undecided", "category", "date", "category", "category", "number"]
    rows = encoding.named_rows(frame)
    assert {"mixed=1", "mixed=x", "mixed is missing", "mixed=2", "span", "none is missing"} <= set(rows.names)
    assert "long:texts" in rows.names
    assert len(encoding.describe()) == 9
    clock = pd.DataFrame({"t": pd.to_datetime(["2024-06-02T03:00:00Z"]).tz_convert("Asia/Tokyo")})
    for tokyo in (clock, pl.from_pandas(clock), pa.Table.from_pandas(clock)):
        assert "t.hour=12" in TableEncoding.infer(tokyo).named_rows(tokyo).names
    assert (
        "t.hour=3"
        in TableEncoding.infer(pd.DataFrame({"t": ["2024-06-02 03:00+09:00"]}))
        .named_rows(pd.DataFrame({"t": ["2024-06-02 03:00+09:00"]}))
        .names
    )  # as it is written


NUMBER, DATE = TableEncoding((Column("a", "number"),)), TableEncoding((Column("a", "date", parts=("days",)),))
REFUSED = [
    (NUMBER, {"a": [None, "x", "y"]}, r"^X\[1, 'a'\] must be a number, got 'x'$"),
    (NUMBER, {"a": [1.0, math.inf]}, r"^X\[1, 'a'\] must be finite, got inf$"),
    (NUMBER, {"a": [1.0, 1e200]}, r"^X\[1, 'a'\] must be 0 or between 1e-100 and 1e\+100 in size"),
    (NUMBER, {"b": [1.0]}, r"missing 'a'; unexpected 'b'"),
    (NUMBER, {"a": [1.0], "b": [1.0]}, r"unexpected 'b'"),
    (DATE, {"a": ["2024-01-01", "2024-02-30"]}, r"^X\[1, 'a'\] must be an ISO date, got '2024-02-30'$"),
    (DATE, {"a": [1.0]}, r"^X\[0, 'a'\] must be a date, got 1.0$"),
    (TableEncoding((Column("a", "numeric_text"),)), {"a": ["1", "1_0"]}, r"^X\[1, 'a'\] must be a number, got '1_0'$"),
    (TableEncoding((Column("a", "number"),), (("a", "a"),)), {"a": [1e60]}, r"^X\[0, 'a\*a'\] must be between"),
]  # fmt: skip


@pytest.mark.parametrize(("encoding", "table", "message"), REFUSED)
@pytest.mark.parametrize("library", sorted(FRAMES))
def test_encoding_errors_name_row_and_column(encoding, table, message, library):
    with pytest.raises(ValueError, match=message):
        encoding.named_rows(FRAMES[library](table))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TableEncoding.from_json({"columns": [], "colour": 1}), "unknown field 'colour'"),
        (lambda: TableEncoding.from_json({"columns": [{"name": "a"}]}), "a name and a kind"),
        (
            lambda: TableEncoding.from_json({"columns": [{"name": "a", "kind": "words", "ngrams": True}]}),
            "ngrams must be",
        ),
        (lambda: TableEncoding.from_json({"columns": [], "pairs": [["a"]]}), "two or three"),
        (lambda: TableEncoding.from_json([]), "must be a mapping"),
        (lambda: TableEncoding.from_json({"columns": {}}), "columns and pairs of a table encoding must be lists"),
        (lambda: TableEncoding((Column("a", "number"),), ((1, 2),), complete=False), "two or three names of columns"),
        (lambda: TableEncoding((Column("a", "number"),), (("a", "b"),)), "'b', which is no column"),
        (lambda: TableEncoding((Column("a", "number"), Column("a", "skip"))), "more than once"),
        (lambda: Column("a", "colour"), "its kind must be one of number"),
        (lambda: Column("a", ["number"]), "its kind must be one of number"),
        (lambda: Column("a", "date", parts=5), "parts must be a list, got 5"),
        (lambda: Column("a", "date", parts=[{}]), "parts must be of days"),
        (lambda: Column("a", "date", parts=("year",)), "parts must be of days"),
        (lambda: TableEncoding.infer(pd.DataFrame({"a": [1]}), {"b": "number"}), "not there: 'b'"),
        (lambda: TableEncoding.from_spec({"a": {"sort": "number"}}), "unknown field 'sort'"),
    ],
)
def test_invalid_encodings_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    "column",
    [
        *(Column("c", kind) for kind in COLUMN_KINDS),
        Column("c", "words", ngrams=3),
        Column("c", "date", format="%d.%m.%Y"),
    ],
    ids=lambda column: column.spec,
)
def test_column_is_made_of_its_spec(column):
    assert TableEncoding.from_spec({"c": column.spec}).columns == (column,)


SAMPLES = {
    "number": 3.0,
    "numeric_text": "3",
    "category": "a b",
    "words": "a b a",
    "tags": ["a", "b"],
    "date": "2024-03-01T07:00",
    "time": "7:00",
}


@pytest.mark.parametrize("kind", SAMPLES)
def test_features_of_a_kind_are_those_of_the_rule_of_one_cell(kind):
    column = Column("c", kind, ngrams=2 if kind == "words" else 1).with_all_parts()
    for value in (SAMPLES[kind], None):
        by_rule = column_features("c", column.spec if kind == "date" else kind, column.ngrams, column.parts, value,
                                  MISSING_MARKERS, False)  # fmt: skip
        names = {name for name, _, _ in by_rule}
        frame = pl.DataFrame({"c": [value]}) if value is not None else pl.DataFrame({"c": [None]}, {"c": pl.String})
        assert {*TableEncoding((column,)).named_rows(frame).names} == names
        endings = tuple(f"c{ending}" for ending in column.feature_endings)
        assert all(name == "c" or name.startswith(endings) for name in names)
        assert names == {column.missing_feature} if value is None else column.missing_feature not in names


def test_parts_of_dates_are_those_of_the_rule_of_one_cell():
    moments = [dt.datetime(2024, 1 + k % 12, 1 + k % 7, k % 24) for k in range(12 * 7 * 24)]
    parts = COLUMN_KINDS["date"].parts
    by_rule = {name for m in moments for name, _, _ in column_features("c", "date", 1, parts, m, (), False)}
    assert by_rule == {"c"} | {name for part in PART_VALUES for name in part_features("c", part)}
    assert [date_parts(word, "%b")["b"] for word in MONTH_WORDS] == [*range(1, 13)]


def test_bad_value_error_names_its_place():
    with pytest.raises(BadValueError) as caught:
        NUMBER.named_rows(pl.DataFrame({"a": ["x"]}))
    assert (caught.value.row, caught.value.column) == (0, "a")


def test_interactions_of_missing_values():
    rows = NUMBER.named_rows(pd.DataFrame({"a": [0.0, 0.0]}))
    again = add_interactions(rows, [], [("a", "b")])
    assert isinstance(again, NamedRows)
    assert again.names == []
    assert np.array_equal(again.chunk.indptr, [0, 0, 0])


def test_features_of_one_name_of_an_encoding_made_by_hand_add_up():
    table = {"city": ["Rome", "Oslo"], "city=Rome": [2.0, 3.0], "b": [1.0, 0.0]}
    columns = Column("city", "category"), Column("city=Rome", "number"), Column("b", "number")
    encoding = TableEncoding(columns, (("city=Rome", "b"), ("city", "b")))
    rows = encoding.named_rows(pd.DataFrame(table))
    assert rows.names == ["city=Rome", "b", "city=Rome*b", "city=Oslo"]
    vocabulary = Vocabulary()
    chunk = rows.encoded(vocabulary)
    assert chunk.data.tolist() == [3.0, 1.0, 3.0, 3.0, 1.0]


def test_times_of_day_become_fractions_and_hours():
    times = [dt.time(12), dt.time(0), None, dt.time(18, 0, 0, 500000), dt.time(6)]
    texts = [None if time is None else time.isoformat() for time in times]
    frames = [
        pd.DataFrame({"at": times}),
        pd.DataFrame({"at": texts}),
        pl.DataFrame({"at": times}),
        pa.table({"at": pa.array(times, pa.time64("us"))}),
        pd.DataFrame({"at": ["12:00", "0:00", "", "18:00:00.5", "6:00"]}),
    ]
    found = []
    for frame in frames:
        encoding = TableEncoding.infer(frame)
        assert encoding.describe() == ["at: the time of day: share of the day, hour"]
        rows = encoding.named_rows(frame)
        found.append((rows.names, rows.chunk.data.tolist(), rows.chunk.indptr.tolist()))
    assert found[0][0] == ["at", "at.hour=12", "at.hour=0", "at is missing", "at.hour=18", "at.hour=6"]
    assert found[0][1] == [0.5, 1.0, 1.0, 1.0, 64800.5 / 86400.0, 1.0, 0.25, 1.0]
    assert all(other == found[0] for other in found)
    assert TableEncoding.infer(frames[0], {"at": "category"}).named_rows(frames[0]).names[0] == "at=12:00:00"
    with pytest.raises(BadValueError, match="must be a time of day such as 13:45, got 'later'"):
        TableEncoding.infer(frames[1]).named_rows(pd.DataFrame({"at": ["13:45", "later"]}))
    with pytest.raises(BadValueError, match="must be a time of day, got 7"):
        TableEncoding.infer(frames[1]).named_rows(pd.DataFrame({"at": [7]}))


@pytest.mark.parametrize("name", ["tocsr", "readinto", "shape", "columns", "tolist"])
def test_frame_with_a_column_named_as_an_attribute_is_a_frame(name):
    frame = pd.DataFrame({name: [1.0, 2.0, 3.0] * 5, "other": [0.5, 0.25, 1.0] * 5})
    plain = frame.rename(columns={name: "plain"})
    y = [-1, 1, 1] * 5
    scores = fiol.Learner().learn(frame, y)
    assert (scores == fiol.Learner().learn(plain, y)).all()


@pytest.mark.parametrize(
    "values", [[1, None, 3], [0.5, 2.0], [True, None, False], [None, None], [float("nan"), 1.0], []]
)
@pytest.mark.parametrize("kind", [pa.int8(), pa.uint64(), pa.float32(), pa.float64(), pa.bool_()])
def test_buffers_of_arrow_match_its_own_conversion(values, kind):
    try:
        array = pa.array([None, *values, None], kind)[1:-1]  # with an offset
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        pytest.skip("no such values of this type")
    nulls = null_mask(array)
    mask = np.zeros(len(array), bool) if nulls is None else nulls
    assert mask.tolist() == [value is None for value in array.to_pylist()]
    for form in (array, pa.chunked_array([array, array[:1]])[: len(array)]):
        found = numbers_of_arrow(form)
        expected = array.drop_null().to_numpy(zero_copy_only=False)
        assert np.array_equal(found[~mask], expected, equal_nan=found.dtype.kind == "f")


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_work_for_a_wide_table_is_in_proportion_to_its_columns(make, monkeypatch):
    names, seen = narwhals.DataFrame.columns.fget, []
    monkeypatch.setattr(narwhals.DataFrame, "columns", property(lambda frame: seen.append(frame) or names(frame)))
    calls = []
    for width in (20, 80):
        frame = make({f"c{k}": [1.0, None, 2.0] for k in range(width)})
        TableEncoding.infer(frame)  # what is loaded at first use
        seen.clear()
        counts = collections.Counter()
        sys.setprofile(lambda *event, counts=counts: counts.update([event[1]]))
        try:
            TableEncoding.infer(frame).named_rows(frame)
        finally:
            sys.setprofile(None)
        calls.append((len(seen), counts["call"] + counts["c_call"]))
    assert calls[0][0] == calls[1][0]  # the list of all names
    assert calls[1][1] < 4.4 * calls[0][1]


def test_small_csv_is_read_without_pandas(tmp_path):
    (tmp_path / "a.csv").write_text("n,c,d,t,y\n1.5,a,2024-03-04,True,no\n,,2024-03-05,False,yes\n3,b,,,no\n")
    code = "import sys, fiol; list(fiol.read(sys.argv[1], target='y')); print('pandas' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "a.csv")], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


def test_kind_without_rules_is_refused_instead_of_read_as_another(monkeypatch):
    monkeypatch.setitem(COLUMN_KINDS, "color", COLUMN_KINDS["category"])
    learner = fiol.Learner(compiled=False, table_encoding={"c": "color"})
    with pytest.raises(NotImplementedError, match="no rule for columns of the kind 'color'"):
        learner.learn(pd.DataFrame({"c": ["red", "blue"]}), [1, -1])
    with pytest.raises(ValueError, match="column 'c' has the kind 'color', for which there is no rule"):
        column_features("c", "color", 1, (), "red", MISSING_MARKERS, False)
    known = ", ".join(COLUMN_KINDS)
    with pytest.raises(ValueError, match=f"column 'c': its kind must be one of {known}, got 'colour'"):
        fiol.Learner(table_encoding={"c": "colour"})
