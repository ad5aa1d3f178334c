"""Odd cells in columns of numbers, dates and times: missing markers, cells of another kind, undecided columns."""

import datetime
import io
import itertools
import json
import sqlite3
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from fiol import FIOL, Learner, Logistic
from fiol.exports.row_features import features_of_columns
from fiol.features.cell_rules import MISSING_MARKERS
from fiol.features.column_kinds import PARTS
from fiol.features.column_values import BadValueError
from fiol.features.table_encoding import Column, TableEncoding
from fiol.readers import compiled_parser
from fiol.readers.batch import BadLineError
from fiol.readers.reader_config import ReaderConfig, infer_config


def csv_of(cells):
    """CSV with a column x of these cells, and a target."""
    return ("x,y\n" + "".join(f"{cell},{k % 2}\n" for k, cell in enumerate(cells))).encode()


def rows_of(reading, data, on_error="stop"):
    """The features of each row, and the reader."""
    reader, found = reading.batches(io.BytesIO(data), on_error), []
    for batch in reader:
        found += features_by_row(batch.X)
    return found, reader


def features_by_row(rows):
    """The features of each row of `NamedRows`."""
    indptr, indices, values = rows.chunk
    return [
        {rows.names[i]: x for i, x in zip(indices[a:b], values[a:b], strict=True)}
        for a, b in itertools.pairwise(indptr)
    ]


@pytest.mark.parametrize("looped", [True, False])
@pytest.mark.parametrize("marker", [*MISSING_MARKERS, "N/A", "Inf", " ? ", "Unknown"])
def test_marker_among_numbers_is_missing(marker, looped, monkeypatch):
    monkeypatch.setattr(compiled_parser, "COMPILED_MIN_BYTES", 0 if looped else float("inf"))
    data = csv_of([1.5, marker, *range(1, 40)])
    reading = infer_config(io.BytesIO(data), format="csv", target="y")
    assert reading.table_encoding.columns[0].kind == "number"
    found, reader = rows_of(reading, data)
    assert found[:3] == [{"x": 1.5}, {"x is missing": 1.0}, {"x": 1.0}]
    assert reader.odd_cells == {}
    assert features_of_columns({"x": marker}, [("x", "number", 1, ())], False, MISSING_MARKERS, False) == [
        ("x is missing", 1.0, "x")
    ]
    for kind in ("date", "time"):
        encoding = TableEncoding((Column("x", kind, parts=("days",)),))
        for frame in (pd.DataFrame({"x": [marker]}), pa.table({"x": [marker]})):
            assert encoding.named_rows(frame).names == ["x is missing"]


@pytest.mark.parametrize("looped", [True, False])
def test_text_among_numbers_is_missing_and_counted(looped, monkeypatch):
    monkeypatch.setattr(compiled_parser, "COMPILED_MIN_BYTES", 0 if looped else float("inf"))
    data = csv_of([*range(1, 20), "oh", "1,5".join('""'), 7])
    reading = infer_config(io.BytesIO(data), format="csv", target="y")
    assert reading.table_encoding.columns[0].kind == "number"
    found, reader = rows_of(reading, data, "missing")
    assert found[18:] == [{"x": 19.0}, {"x is missing": 1.0}, {"x is missing": 1.0}, {"x": 7.0}]
    count, first = reader.odd_cells["x"]
    assert count == 2
    assert ":21:1: column 'x' must be a number, got 'oh'" in str(first)
    with pytest.raises(BadLineError, match=":21:1: column 'x' must be a number, got 'oh'"):
        rows_of(reading, data)
    found, reader = rows_of(reading, data, "skip")
    assert (len(found), reader.skipped) == (20, 2)
    assert "decimal comma" in str(reader.first_skipped[1])


def test_bad_target_is_an_error_though_cells_may_be_missing():
    reading = infer_config(io.BytesIO(csv_of([1, 2, 3])), format="csv", target="y")
    for line in (b"1,oh\n", b"1,?\n", b"1\n"):
        with pytest.raises(BadLineError):
            rows_of(reading, csv_of([1, 2]) + line, "missing")


def test_half_texts_and_half_numbers_are_categories():
    reading = infer_config(io.BytesIO(csv_of([1, 2, 3, "a", "b"])), format="csv", target="y")
    assert reading.table_encoding.columns[0].kind == "category"


def test_json_text_among_numbers_is_missing_and_counted():
    lines = [{"x": k, "d": "2024-03-01", "y": 0} for k in range(1, 30)]
    lines += [{"x": "?", "d": "-", "y": 1}, {"x": "2.5", "d": "soon", "y": 1}, {"x": "oh", "d": "", "y": 1}]
    data = "\n".join(map(json.dumps, lines)).encode()
    reading = infer_config(io.BytesIO(data), format="json", target="y", table_encoding={"d": "date"})
    assert [column.kind for column in reading.table_encoding.columns][:2] == ["number", "date"]
    found, reader = rows_of(reading, data, "missing")
    assert found[29:] == [
        {"x is missing": 1.0, "d is missing": 1.0},
        {"x": 2.5, "d is missing": 1.0},
        {"x is missing": 1.0, "d is missing": 1.0},
    ]
    assert {name: count for name, (count, _) in reader.odd_cells.items()} == {"x": 1, "d": 1}


def test_missing_option_replaces_markers_in_every_column():
    data = b"x,c,y\n1,red,0\n-999,-999,1\n3,NA,1\n,blue,0\n"
    encoding = TableEncoding.from_spec(missing=["-999"])
    reading = infer_config(io.BytesIO(data), format="csv", target="y", table_encoding=encoding)
    assert ReaderConfig.from_json(json.loads(json.dumps(reading.to_json()))) == reading
    wanted = [
        {"x": 1.0, "c=red": 1.0},
        {"x is missing": 1.0, "c is missing": 1.0},
        {"x": 3.0, "c=NA": 1.0},
        {"x is missing": 1.0, "c=blue": 1.0},
    ]
    assert rows_of(reading, data)[0] == wanted
    frame = pd.DataFrame({"x": ["1", "-999", "3", ""], "c": ["red", "-999", "NA", "blue"]})
    encoding = TableEncoding((Column("x", "number"), Column("c", "category")), missing=("-999",))
    rows = encoding.named_rows(frame)
    assert rows.names == ["x", "c=red", "x is missing", "c is missing", "c=NA", "c=blue"]
    columns = [("x", "number", 1, ()), ("c", "category", 1, ())]
    for row, features in zip(frame.to_dict("records"), wanted, strict=True):
        found = features_of_columns(row, columns, False, encoding.markers, True)
        assert {name: value for name, value, _ in found} == features


def test_decimal_comma_is_an_option():
    data = b'a;b\n1,5;x\n"-2,25";y\n3;z\n'
    reading = infer_config(io.BytesIO(data), format="csv", options={"decimal": ",", "delimiter": ";"})
    assert rows_of(reading, data)[0] == [{"a": 1.5, "b=x": 1.0}, {"a": -2.25, "b=y": 1.0}, {"a": 3.0, "b=z": 1.0}]
    found, reader = rows_of(reading, data + b"?;x\n1.5;y\n", "missing")
    assert found[3:] == [{"a is missing": 1.0, "b=x": 1.0}, {"a is missing": 1.0, "b=y": 1.0}]
    assert reader.odd_cells["a"][0] == 1


def test_column_of_numbers_with_commas_gives_a_hint(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("a;b;y\n" + "".join(f"{k},5;x{k % 3},{k % 2};{k % 2}\n" for k in range(30)))
    hint = r"column 'a' is text with commas in numbers, such as 0,5: .*reader={'decimal': ','}"
    with pytest.warns(UserWarning, match=hint) as found:
        infer_config(path, target="y")
    assert len(found) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        infer_config(path, target="y", options={"decimal": ","})
        infer_config(path, target="y", table_encoding={"a": "category"})


@pytest.mark.parametrize("looped", [True, False])
def test_column_without_values_in_the_first_rows_does_not_become_categories(looped, monkeypatch):
    monkeypatch.setattr(compiled_parser, "COMPILED_MIN_BYTES", 0 if looped else float("inf"))
    first = b"x,z,y\n" + b"1,,0\n2,,1\n" * 5
    reading = infer_config(io.BytesIO(first), format="csv", target="y")
    assert reading.table_encoding.columns[1].kind == "undecided"
    assert rows_of(reading, first)[0][0] == {"x": 1.0, "z is missing": 1.0}
    with pytest.raises(BadLineError, match="column 'z' must be missing, as it was in all of the first rows"):
        rows_of(reading, first + b"3,7.5,1\n")
    found, reader = rows_of(reading, first + b"3,7.5,1\n", "missing")
    assert found[-1] == {"x": 3.0, "z is missing": 1.0}
    assert reader.odd_cells["z"][0] == 1


def test_first_frame_with_values_decides_an_undecided_column():
    learner = Learner(FIOL(Logistic()), compiled=False)
    learner.learn(pd.DataFrame({"x": [1.0, 2.0], "z": [None, None]}), [1, -1])
    assert learner.table_encoding.columns[1].kind == "undecided"
    learner.learn(pd.DataFrame({"x": [1.0, 2.0], "z": [None, 7.5]}), [1, -1])
    assert learner.table_encoding.columns[1].kind == "number"
    assert learner.names == ["x", "z is missing", "z"]


def test_few_odd_objects_among_numbers_leave_a_column_of_numbers():
    frame = pd.DataFrame({"x": pd.Series([*range(30), "?", "oh"], dtype=object)})
    encoding = TableEncoding.infer(frame)
    assert encoding.columns == (Column("x", "number"),)
    with pytest.raises(BadValueError, match=r"X\[31, 'x'\] must be a number, got 'oh'"):
        encoding.named_rows(frame)
    odd = []
    rows = encoding.named_rows(frame, odd)
    assert odd == [(31, "x", "must be a number, got 'oh'")]
    assert np.array_equal(rows.chunk.data[-2:], [1.0, 1.0])


MARKERS_FIRST = b"x,z,y\n" + b"".join(b"%d,%s,%d\n" % (k, m, k % 2) for k, m in enumerate([b"?", b"-", b"", b"NA"] * 5))


@pytest.mark.parametrize("looped", [True, False])
@pytest.mark.parametrize("form", ["csv", "json"])
def test_column_of_markers_alone_is_undecided_and_markers_stay_missing(looped, form, monkeypatch):
    monkeypatch.setattr(compiled_parser, "COMPILED_MIN_BYTES", 0 if looped else float("inf"))
    data, later = MARKERS_FIRST, b"7,oh,1\n8,Unknown,0\n9, ? ,1\n"
    if form == "json":
        cells = [dict(zip("xzy", line.split(","), strict=True)) for line in data.decode().splitlines()[1:]]
        data = "".join(json.dumps({**row, "x": int(row["x"])}) + "\n" for row in cells).encode()
        later = b'{"x": 7, "z": null, "y": 1}\n{"x": 8, "z": "Unknown", "y": 0}\n{"x": 9, "z": " ? ", "y": 1}\n'
    reading = infer_config(io.BytesIO(data), format=form, target="y")
    assert reading.table_encoding.columns[:2] == (Column("x", "number"), Column("z", "undecided"))
    found, reader = rows_of(reading, data + later, "missing")
    assert found[1] == {"x": 1.0, "z is missing": 1.0}
    assert found[-3:] == [{"x": float(k), "z is missing": 1.0} for k in (7, 8, 9)]
    if form == "csv":
        assert reader.odd_cells["z"][0] == 1
        with pytest.raises(BadLineError, match=r":22:3: column 'z' must be missing, as it was in .*, got 'oh'"):
            rows_of(reading, data + later)
    else:
        assert reader.odd_cells == {}


def test_column_of_markers_alone_is_undecided_in_frames_and_dicts():
    cells = ["?", "-", "", None] * 5
    frame = pd.DataFrame({"x": np.arange(20.0) / 3, "z": cells})
    for rows in (frame, pa.Table.from_pandas(frame), frame.to_dict("records")):
        learner = Learner(FIOL(Logistic()), compiled=False, table_encoding={})
        learner.learn(rows, [1, -1] * 10)
        assert learner.table_encoding.columns == (Column("x", "number"), Column("z", "undecided"))
        assert learner.names == ["z is missing", "x"]
        assert learner.score_named({"x": 1.0, "z": "unknown"}) == learner.score_named({"x": 1.0, "z": None})
    learner.learn(pd.DataFrame({"x": [1.0, 2.0], "z": [None, 7.5]}), [1, -1])
    assert learner.table_encoding.columns[1].kind == "number"


def test_exports_know_markers_of_an_undecided_column():
    for optional in (True, False):
        for marker in ("?", " NA "):
            found = features_of_columns({"z": marker}, [("z", "undecided", 1, ())], optional, MISSING_MARKERS, False)
            assert found == [("z is missing", 1.0, "z")]
    assert features_of_columns({"z": "a"}, [("z", "undecided", 1, ())], True, MISSING_MARKERS, False) == [
        ("z=a", 1.0, "z")
    ]
    encoding = TableEncoding((Column("x", "number"), Column("z", "undecided")))
    learner = Learner(FIOL(Logistic()), compiled=False, table_encoding=encoding)
    learner.learn(pd.DataFrame({"x": [1.0, 2.0, 3.0], "z": ["?", "-", None]}), [1, -1, 1])
    with sqlite3.connect(":memory:") as base:
        base.execute("CREATE TABLE data (x DOUBLE PRECISION, z TEXT)")
        base.executemany("INSERT INTO data VALUES (?, ?)", [(2.0, None), (2.0, " Unknown ")])
        scores = base.execute(learner.to_sql(dialect="sqlite")).fetchall()
    assert np.allclose(np.ravel(scores), learner.score_named({"x": 2.0, "z": "?"}), rtol=1e-12)


ODD_CELLS = {
    "iso": (["2024-03-01", "2024-03-02 07:30"], "soon", Column("c", "date", parts=PARTS)),
    "format": (["5/28/2011", "6/7/2012"], "31/31/2011", Column("c", "date", parts=PARTS[:-1], format="%m/%d/%Y")),
    "time": (["7:30", "13:45:10"], "noon", Column("c", "time", parts=("days", "hour"))),
}


@pytest.mark.parametrize("kind", ODD_CELLS)
def test_few_odd_cells_among_dates_and_times_are_missing_by_every_way_in(kind, monkeypatch):
    good, odd_cell, column = ODD_CELLS[kind]
    cells = [*good * 10, "?", odd_cell, good[0]]
    csv = ("c,y\n" + "".join(f"{cell},{k % 2}\n" for k, cell in enumerate(cells))).encode()
    lines = "".join(json.dumps({"c": cell, "y": k % 2}) + "\n" for k, cell in enumerate(cells)).encode()
    present = [None if cell == odd_cell else cell for cell in cells]
    expected = features_by_row(TableEncoding((column,)).named_rows(pd.DataFrame({"c": present})))
    for form, data in (("csv", csv), ("json", lines)):
        for size in (0, float("inf")):
            monkeypatch.setattr(compiled_parser, "COMPILED_MIN_BYTES", size)
            reading = infer_config(io.BytesIO(data), format=form, target="y")
            assert reading.table_encoding.columns[0] == column
            found, reader = rows_of(reading, data, "missing")
            assert found == expected
            assert reader.odd_cells["c"][0] == 1
            with pytest.raises(BadLineError, match=f"'c' must be .*, got '{odd_cell}'"):
                rows_of(reading, data)
    frame = pd.DataFrame({"c": cells})
    for rows in (frame, pa.table({"c": cells})):
        encoding, odd = TableEncoding.infer(rows), []
        assert encoding.columns == (column,)
        assert features_by_row(encoding.named_rows(rows, odd)) == expected
        assert [row for row, _, _ in odd] == [21]
    learner = Learner(FIOL(Logistic()), compiled=False, table_encoding={})
    with pytest.raises(BadValueError, match=rf"X\[21, 'c'\] must be .*, got '{odd_cell}'"):
        learner.learn(frame.to_dict("records"), [1, -1, 1] * 7 + [1, -1])


@pytest.mark.parametrize("kind", ODD_CELLS)
def test_more_odd_cells_than_a_tenth_make_a_category(kind):
    good, odd_cell, column = ODD_CELLS[kind]
    for count, wanted in ((9, column.kind), (8, "category")):
        cells = [odd_cell, *good * 5][: count + 1]
        assert TableEncoding.infer(pd.DataFrame({"c": cells})).columns[0].kind == wanted


def test_missing_option_decides_which_cells_of_dates_are_odd():
    frame = pd.DataFrame({"c": ["2024-03-01"] * 8 + ["none of it", "x"]})
    for missing, kind in ((None, "category"), (["None of it"], "category"), (["none of it", "X"], "date")):
        encoding = TableEncoding.from_spec(missing=missing).completed(frame)
        assert encoding.columns[0].kind == kind


def test_day_and_month_are_distinguished_by_most_cells():
    cells = ["5/6/2011", "6/7/2011"] * 20 + ["5/28/2011"]
    assert TableEncoding.infer(pd.DataFrame({"c": cells})).columns[0].format == "%m/%d/%Y"
    with pytest.raises(ValueError, match=r"cannot be distinguished, '5/6/2011' may be %m/%d/%Y or %d/%m/%Y"):
        TableEncoding.infer(pd.DataFrame({"c": ["soon", *cells[:-1]]}))


@pytest.mark.parametrize(
    ("cells", "hint"),
    [
        (["3/7/11", "5/28/11"], r"such as 3/7/11: if that is so, give columns=\{'c': 'date:%m/%d/%y'\}$"),
        (["3.7.11 7:30", "1.2.12 13:00"], r"'date:%m.%d.%y %H:%M'\} or columns=\{'c': 'date:%d.%m.%y %H:%M'\}$"),
        (["28-May-11", "1-Jun-11"], r"'date:%d-%b-%y'\}$"),
    ],
)
def test_dates_with_years_of_two_digits_give_a_hint(cells, hint):
    frame = pd.DataFrame({"c": cells * 10})
    with pytest.warns(UserWarning, match=f"column 'c' is text that may be dates with years of two digits.*{hint}"):
        assert TableEncoding.infer(frame).columns[0].kind == "category"
    with pytest.warns(UserWarning, match="years of two digits"):
        TableEncoding.infer(frame, {"c": "date"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TableEncoding.infer(frame, {"c": "category"})
        TableEncoding.infer(pd.DataFrame({"c": ["1.2.3", "10.20.11", "5/6"]}))


def test_error_of_an_odd_cell_in_the_first_frame_names_the_remedy():
    days = [f"2024-03-{day:02}" for day in range(1, 21)]
    frame, y = pd.DataFrame({"day": [*days, "soon"]}), np.tile([1.0, -1.0], 11)[:21]
    learner = Learner(FIOL(Logistic()), compiled=False)
    remedy = "make it a missing value, or give the column a kind: table_encoding={'day': 'category'}"
    with pytest.raises(BadValueError) as caught:
        learner.learn(frame, y)
    assert str(caught.value) == f"X[20, 'day'] must be an ISO date, got 'soon': {remedy}"
    assert learner.table_encoding is None
    learner.learn(frame[:20], y[:20])
    with pytest.raises(BadValueError, match=r"got 'soon'$"):  # the kind is settled
        learner.learn(frame, y)
    other = Learner(FIOL(Logistic()), compiled=False, table_encoding={"day": "category"})
    assert len(other.learn(frame, y)) == 21


@pytest.mark.parametrize("kind", ["number", "category", "tags", None])
def test_bools_of_numpy_among_objects_are_bools(kind):
    cells, y = [np.True_, np.False_, None] * 4, [1.0, -1.0, 1.0] * 4
    frame = pd.DataFrame({"x": range(12), "seen": pd.Series(cells, dtype=object)})
    forms = frame, frame.assign(seen=[None if cell is None else bool(cell) for cell in cells]), frame.to_dict("records")
    models = [Learner(table_encoding={} if kind is None else {"seen": kind}, compiled=False) for _ in forms]
    scores = [model.learn(rows, y) for model, rows in zip(models, forms, strict=True)]
    assert models[0].names == models[1].names == models[2].names
    np.testing.assert_array_equal(scores[0], scores[1])
    np.testing.assert_array_equal(scores[0], scores[2])


def test_cells_that_are_no_lists_are_named_in_columns_of_tags():
    frame = pd.DataFrame({"x": [["a"], datetime.date(2024, 3, 1)]})
    with pytest.raises(BadValueError, match=r"X\[1, 'x'\] must be a list of strings, got datetime.date"):
        Learner(table_encoding={"x": "tags"}, compiled=False).learn(frame, [1.0, -1.0])
