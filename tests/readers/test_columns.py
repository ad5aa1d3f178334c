"""Files with columns: CSV matches pandas, all formats give the same bits, errors name the line."""

import csv
import datetime as dt
import gzip
import io
import json
import os
import re
import threading

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.frames import polars_frame
from tests.interpreted import interpret

from fiol import FIOL, Learner, Logistic, OneVsRest, TableEncoding
from fiol.features.hashing import Hashing
from fiol.features.vocabulary import Vocabulary
from fiol.readers import columns
from fiol.readers.batch import BadLineError, SourceError
from fiol.readers.reader_config import ReaderConfig, format_of, infer_config


def rows_of(batches, vocabulary=None):
    """All rows of batches as dicts of names."""
    found = []
    for batch in batches:
        rows = getattr(batch, "X", batch)
        for k in range(rows.rows):
            a, b = rows.chunk.indptr[k : k + 2]
            found.append(
                [(rows.names[i], x) for i, x in zip(rows.chunk.indices[a:b], rows.chunk.data[a:b], strict=True)]
            )
    return found


def values(y):
    """A column as a list."""
    return y if isinstance(y, list) else y.to_pylist()


# --- CSV as pandas reads it -----------------------------------------------------------------------

FIELD = st.sampled_from(
    [
        "",
        "a",
        "b c",
        "NA",
        "n/a",
        "nan",
        " x ",
        'say "hi"',
        "a,b",
        "two\nlines",
        "cr\rlf\r\n",
        "'",
        "é",
        "|",
        ";",
        "\t",
        "null",
        "-",
    ]
)
NUMBER = st.sampled_from(["", "1", "-2.5", "1e3", "0", "  7 ", ".5", "NaN", "+3", "0.1", "1E-7"])
TRUTH = st.sampled_from(["True", "False", "", "TRUE", "false"])
TABLE = st.lists(st.tuples(FIELD, NUMBER, TRUTH, FIELD, NUMBER), min_size=1, max_size=8)


@pytest.mark.filterwarnings("ignore:.*line breaks within quotes")
@settings(max_examples=35)
@given(
    TABLE,
    st.sampled_from(",\t;|"),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    st.booleans(),
    st.booleans(),
)
def test_csv_matches_pandas(table, delimiter, end, quoting, marked, ended):
    text = io.StringIO()
    quoting = csv.QUOTE_ALL if end == "\r" else quoting  # it would leave other ends of lines as they are
    writer = csv.writer(text, delimiter=delimiter, lineterminator=end, quoting=quoting)
    writer.writerow(["name", "size", "yes", "", "name"])
    writer.writerows([("x", "1", "True", "y", "2"), *table])
    written = text.getvalue() if ended else text.getvalue().removesuffix(end)
    data = b"\xef\xbb\xbf" * marked + written.encode()
    frame = pd.read_csv(io.BytesIO(data), sep=delimiter)
    reading = infer_config(io.BytesIO(data), format="csv", options={"delimiter": delimiter})
    assert reading.options["types"]["size"] == "number"
    assert reading.options["types"]["yes"] == "truth"
    assert reading.table_encoding.names == tuple(frame.columns) == ("name", "size", "yes", "Unnamed: 3", "name.1")
    (batch,) = reading.batches(io.BytesIO(data), prefetch=False)
    expected = reading.table_encoding.named_rows(frame)
    assert batch.X.names == expected.names
    assert [a.tobytes() for a in batch.X.chunk] == [a.tobytes() for a in expected.chunk]
    assert batch.place.line == 2
    if delimiter_is_plain(written):
        assert infer_config(io.BytesIO(data), format="csv") == reading


def delimiter_is_plain(text):
    """Whether only one delimiter is in a text: then it has to be found."""
    return sum(c in text for c in ",\t;|") == 1


def test_blocks_end_at_record_boundaries():
    rng = np.random.default_rng(0)
    names = np.array(["plain", 'a "quoted" one', "two\nlines", "cr\r\nlf", "x, y"])
    frame = pd.DataFrame({"t": names[rng.integers(0, 5, 90_000)], "x": rng.integers(0, 1000, 90_000) / 8, "y": 1})
    text = frame.to_csv(index=False, lineterminator="\n")
    assert len(text) > 1.5 * 2**20
    reading = infer_config(io.BytesIO(text.encode()), format="csv", target="y")
    whole = reading.table_encoding.named_rows(frame).encoded(Vocabulary())
    for data in (text.encode(), gzip.compress(text.encode(), 1)):
        vocabulary, parts = Vocabulary(), []
        batches = list(reading.batches(io.BytesIO(data)))
        assert len(batches) > 1
        parts = [batch.X.encoded(vocabulary) for batch in batches]
        assert np.array_equal(np.concatenate([p.data for p in parts]), whole.data)
        assert np.array_equal(np.concatenate([p.indices for p in parts]), whole.indices)
    before = frame[: batches[0].rows]
    lines = 2 + len(before) + sum(name.count("\n") for name in before["t"])
    assert batches[1].place.line == lines
    assert batches[-1].read == len(data)


# --- the same bits, whatever holds the rows --------------------------------------------------------

ROWS = 60
RNG = np.random.default_rng(1)
FRAME = pd.DataFrame(
    {
        "age": np.where(RNG.random(ROWS) < 0.2, np.nan, RNG.normal(40.0, 9.0, ROWS)),
        "city": RNG.choice(np.array(["Rome", "Oslo, cold", 'the "city"', None], object), ROWS),
        "text": [f"word{k % 7} and word{k % 3} are in text {k}" for k in range(ROWS)],
        "when": pd.date_range("2024-01-01", periods=ROWS, freq="7h"),
        "at": [None if k == 5 else dt.time(k % 24, k % 60, k % 59) for k in range(ROWS)],
        "ok": RNG.random(ROWS) < 0.5,
        "n": RNG.integers(0, 9, ROWS),
        "w": RNG.integers(1, 4, ROWS),
        "id": [f"row {k}" for k in range(ROWS)],
        "y": RNG.choice([-1, 1], ROWS),
    }
)


def written(folder):
    """The frame as a file of every format."""
    table = pa.Table.from_pandas(FRAME, preserve_index=False)
    FRAME.to_csv(folder / "a.csv", index=False)
    FRAME.to_csv(folder / "a.tsv", index=False, sep="\t")
    times = [None if time is None else time.isoformat() for time in FRAME["at"]]
    iso = FRAME.assign(when=FRAME["when"].dt.strftime("%Y-%m-%dT%H:%M:%S"), at=times).astype(object)
    records = iso.where(iso.notna(), None).to_dict("records")
    (folder / "a.jsonl").write_text("\n".join(map(json.dumps, records)))
    pq.write_table(table, folder / "a.parquet", row_group_size=25)
    with pa.ipc.new_file(folder / "a.arrow", table.schema) as sink:
        sink.write_table(table, max_chunksize=25)
    with pa.ipc.new_stream(folder / "a.arrows", table.schema) as sink:
        sink.write_table(table, max_chunksize=25)
    return sorted(folder.iterdir())


@pytest.mark.parametrize("pairs", [(), (("city", "when.hour"), ("age", "ok", "age"))])
def test_all_readers_and_frames_give_the_same_bits(tmp_path, monkeypatch, pairs):
    interpret(monkeypatch)
    features, y, weights = FRAME.drop(columns=["y", "w", "id"]), FRAME["y"], FRAME["w"]
    encoding = TableEncoding.from_spec({"n": "category"}, pairs)
    found = {}
    for name, X in {"pandas": features, "polars": polars_frame(features)}.items():
        found[name] = Learner(FIOL(Logistic()), table_encoding=encoding)
        found[name].learn(X, y, weights)
    assert {
        "text:word1",
        "n=3",
        "when.hour=7",
        "at",
        "at.hour=7",
        "at is missing",
        "age is missing",
        "city=Oslo, cold",
    } <= set(found["pandas"].names)
    assert any("city=Rome*when.hour=" in name for name in found["pandas"].names) == bool(pairs)
    for path in written(tmp_path):
        reading = infer_config(path, target="y", weight="w", tag="id", table_encoding=encoding)
        reading = ReaderConfig.from_json(json.loads(json.dumps(reading.to_json())))
        model, tags = Learner(FIOL(Logistic()), table_encoding=reading.table_encoding), []
        for batch in reading.batches(path):
            model.learn(batch.X, batch.y, batch.weights)
            tags += batch.tags
        found[path.name] = model
        assert tags == FRAME["id"].tolist()
        assert batch.read == path.stat().st_size
        assert all(batch.y is None for batch in ReaderConfig(**{**vars(reading), "target": None}).batches(path))
        frame = reading.table_encoding.named_rows(features)  # kinds are those of the frame
        assert frame.names == found["pandas"].table_encoding.named_rows(features).names
    assert len(found) == 8
    assert len({(tuple(m.names), m.weights.tobytes(), m.rounds) for m in found.values()}) == 1


def test_labels_keep_their_type(tmp_path, monkeypatch):
    interpret(monkeypatch)
    (tmp_path / "a.csv").write_text("x,kind\n1,cat\n2,dog\n")
    reading = infer_config(tmp_path / "a.csv", target="kind")
    (batch,) = reading.batches(tmp_path / "a.csv")
    model = OneVsRest(FIOL(Logistic()))
    model.learn(batch.X, batch.y)
    assert model.classes == ["cat", "dog"]
    (tmp_path / "b.csv").write_text("x\n1\n2\n")  # to predict for
    (batch,) = reading.batches(tmp_path / "b.csv")
    assert batch.y is None
    assert model.predict(batch.X).shape == (2,)
    for text, label in [("x,y\n1,3\n", 3), ("x,y\n1,true\n", True), ("x,y\n1,0.5\n", 0.5)]:
        data = io.BytesIO(text.encode())
        (batch,) = infer_config(data, format="csv", target="y").batches(io.BytesIO(text.encode()))
        assert values(batch.y) == [label]
        assert type(values(batch.y)[0]) is type(label)


# --- what a file looks like ------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*commas in numbers")
def test_formats_and_dialects_are_inferred(tmp_path):
    for path in written(tmp_path):
        kind = {"csv": "csv", "tsv": "csv", "jsonl": "json", "parquet": "parquet", "arrow": "arrow", "arrows": "arrow"}
        assert infer_config(path).format == kind[path.suffix[1:]]
        hidden = path.rename(path.with_name(path.stem + path.suffix[1:]))  # by content alone
        assert infer_config(hidden).format == kind[path.suffix[1:]]
    for text, delimiter, header, names in [
        (b"a;b\n1;2,5\n3;4,5\n", ";", True, ("a", "b")),
        (b"1,x\n2,y\n", ",", False, ("c1", "c2")),
        (b"a\tb\n\n1\t2\n", "\t", True, ("a", "b")),
    ]:
        reading = infer_config(io.BytesIO(text))
        assert (reading.options["delimiter"], reading.options["header"]) == (delimiter, header)
        assert reading.table_encoding.names == names
        assert rows_of(reading.batches(io.BytesIO(text))) == rows_of(
            ReaderConfig("csv", options={"delimiter": delimiter}).batches(io.BytesIO(text))
        )
    config = infer_config(
        io.BytesIO(b"1,2\n3,4\n"),
        format="csv",
        options={"names": ["p", "q"]},
        target="q",
        table_encoding={"p": "category"},
    )
    (batch,) = config.batches(io.BytesIO(b"1,2\n3,4\n"))
    assert (batch.X.names, values(batch.y)) == (["p=1", "p=3"], [2, 4])
    quoted = {"quote": "'", "header": False}
    (batch,) = infer_config(io.BytesIO(b"'a,b',1\n"), format="csv", options=quoted).batches(io.BytesIO(b"'a,b',1\n"))
    assert batch.X.names == ["c1=a,b", "c2"]
    only = infer_config(io.BytesIO(b"a,b\n"), format="csv")
    assert list(only.batches(io.BytesIO(b"a,b\n"))) == []
    assert list(only.batches(io.BytesIO(b""))) == []


def test_several_files_have_a_header_each(tmp_path):
    (tmp_path / "1.csv").write_text("a,b\n1,x\n")
    (tmp_path / "2.csv").write_text("b,a\ny,2\n")
    reading = infer_config(tmp_path)
    assert rows_of(reading.batches(tmp_path)) == [[("a", 1.0), ("b=x", 1.0)], [("a", 2.0), ("b=y", 1.0)]]
    (tmp_path / "3.csv").write_text("b,c\ny,2\n")
    with pytest.raises(SourceError, match=r"3\.csv: columns must be those of the model: missing 'a'; unexpected 'c'"):
        list(reading.batches(tmp_path))


def test_json_lines_are_read():
    lines = [
        '{"user": {"age": 30, "tags": ["a", "b"]}, "day": "2024-03-04"}',
        "",
        '{"day": "2024-03-05", "user": {"age": null}, "new": "x"}',
    ]
    start = "\n".join(lines[:2]).encode()
    reading = infer_config(io.BytesIO(start))
    assert reading.format == "json"
    monday = [("day", 8829.0), ("day.month=3", 1.0), ("day.weekday=Mon", 1.0)]
    tuesday = [("day", 8830.0), ("day.month=3", 1.0), ("day.weekday=Tue", 1.0)]
    assert rows_of(reading.batches(io.BytesIO("\r\n".join(lines).encode()))) == [
        [("user.age", 30.0), ("user.tags=a", 1.0), ("user.tags=b", 1.0), *monday],
        [("user.age is missing", 1.0), *tuesday, ("new=x", 1.0)],
    ]
    late = [{"new": 1.5}, {"new": "x"}, {"new": ["p", "q"]}, {"new": True}, {"new": None}, {}]
    found = rows_of(reading.batches(io.BytesIO("\n".join(map(json.dumps, late)).encode())))
    names = [["new"], ["new=x"], ["new=p", "new=q"], ["new"], ["new is missing"], []]
    assert [[name for name, _ in row] for row in found] == names


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("rows.vw", b"yes | a\nno | b\n", "vw"),
        ("rows.VW.gz", b"yes | a\nno | b\n", "vw"),
        ("rows.dat", b"yes | a\nno | b\n", "csv"),
        ("rows.dat", b"a,b\n1,2\n", "csv"),
        ("rows.dat", b"yes |x a\nno |x b |y c\n", "vw"),
        ("rows.svm", b"a,b\n1,2\n", "svmlight"),
        ("rows.csv", b"1 | a\n-1 | b\n", "vw"),
        ("rows", b"yes | a\nno | b\n", "csv"),
    ],
)
def test_ending_decides_before_content_that_looks_like_csv(name, text, kind):
    assert format_of(text, name) == kind


def test_error_of_a_line_with_another_number_of_fields_names_the_remedies():
    reading = infer_config(io.BytesIO(b"a,y\n1,2\n"), target="y")
    expected = (
        "has 1 field, but there are 2 columns (another delimiter? reader={'delimiter': ';'}); "
        "on_error='skip' leaves such lines out"
    )
    with pytest.raises(BadLineError, match=re.escape(expected)):
        list(reading.batches(io.BytesIO(b"a,y\n1,2\n3;4\n")))
    reader = reading.batches(io.BytesIO(b"a,y\n1,2\n3;4\n"), on_error="skip")
    list(reader)
    assert [error.reason for error in reader.first_skipped] == ["has 1 field, but there are 2 columns"]


# --- bad lines ---------------------------------------------------------------------------------------

CSV = b'a,b,y\n1,"x\nx",1\n'
BAD = [
    ("csv", CSV + b"2,y,1\noh,y,1\n3,z,1\n", 5, "column 'a' must be a number, got 'oh'"),
    ("csv", CSV + b"2,y\n3,z,1\n", 4, "has 2 fields, but there are 3 columns"),
    ("csv", CSV + b"2\n3,z,1\n", 4, "has 1 field, but there are 3 columns"),
    ("csv", CSV + b"2,y,1,\n", 4, "has 4 fields, but there are 3 columns"),
    ("csv", CSV + b"2,\xff,1\n", 4, "is no text in UTF-8"),
    ("csv", CSV + b"1e999,y,1\n", 4, "column 'a' must be finite, got inf"),
    ("csv", CSV + b"1e300,y,1\n", 4, "column 'a' must be 0 or between"),
    ("csv", CSV + b"1,y,\n", 4, "column 'y' is missing"),
    ("csv", CSV + b"1,y,1.5\n", 4, "column 'y' must be a whole number, got '1.5'"),
    ("json", b'{"a": 1, "y": 1}\n{"a": "x", "y": 1}\n', 2, "column 'a' must be a number, got 'x'"),
    ("json", b'{"a": 1, "y": 1}\n{"a": 2}\n', 2, "column 'y' is missing"),
    ("json", b'{"a": 1, "y": 1}\n{"a": NaN, "y": 1}\n', 2, "has NaN, which is no number of JSON"),
    ("json", b'{"a": 1, "y": 1}\n{"a": 1\n{"a": 3, "y": 1}\n', 2, "is no JSON: Expecting ',' delimiter"),
    ("json", b'{"a": 1, "y": 1}\n[1]\n', 2, "must be an object"),
    ("json", b'{"a": 1, "y": 1}\n{"a": [{"b": 1}], "y": 1}\n', 2, "list of objects or lists at 'a'"),
    ("json", b'{"a": 1, "y": 1}\n{"a": 1' + b"0" * 400 + b', "y": 1}\n', 2, "column 'a' must be finite"),
    ("json", b'{"a": 1, "y": 1}\n' + b'{"b":' * 5000 + b"1" + b"}" * 5000 + b"\n", 2, "deeper than"),
    ("json", b'{"a": 1, "y": 1}\n{"a": "\xff"}\n', 2, "is no text in UTF-8"),
]


@pytest.mark.parametrize(("kind", "data", "line", "reason"), BAD)
def test_errors_name_the_line(kind, data, line, reason, tmp_path):
    good = data.split(b"\n")[0] + b"\n" if kind == "json" else CSV
    reading = infer_config(io.BytesIO(good), format=kind, target="y")
    path = tmp_path / "bad"
    path.write_bytes(data)
    with pytest.raises(BadLineError) as caught:
        list(reading.batches(path))
    assert (caught.value.place.file, caught.value.place.line) == (str(path), line)
    assert reason in str(caught.value)
    reader = reading.batches(path, on_error="skip")
    rows = sum(batch.rows for batch in reader)
    assert reader.skipped == 1
    assert reason in str(reader.first_skipped[0])
    whole = data.count(b"\n") - (2 if kind == "csv" else 0)
    assert rows == whole - 1


@pytest.mark.parametrize(
    ("kind", "line", "place"),
    [
        ("csv", b'"x, ""y""",oh,1', ":2:12: column 'b' must be a number, got 'oh'"),
        ("csv", "ü,1e999,1".encode(), ":2:3: column 'b' must be finite"),
        ("csv", b"x,1,", ":2:5: column 'y' is missing"),
        ("csv", b'"x\nx",oh,1', ":2: column 'b' must be a number"),
        ("json", '{"a": "ü\\"", "b": "oh", "y": 1}'.encode(), ":1:19: column 'b' must be a number, got 'oh'"),
        ("json", b' {"a": {"b": [1, {}]}, "b": "oh", "y": 1}', ":1: has a list of objects or lists at 'a.b'"),
        ("json", b'{"c": {"a": {}, "b": 1e300}, "y": 1}', ":1:22: column 'c.b' must be 0 or between"),
        ("json", b'{"a": "x", "b": 1 "y": 1}', ":1:19: is no JSON: Expecting ',' delimiter"),
    ],
)
def test_errors_name_the_line_and_column(kind, line, place):
    good = b"a,b,y\n" if kind == "csv" else b""
    first = b"x,1.5,1\n" if kind == "csv" else b'{"a": "x", "b": 1.5, "y": 1, "c": {"b": 1}}\n'
    reading = infer_config(io.BytesIO(good + first), format=kind, target="y")
    with pytest.raises(BadLineError) as caught:
        list(reading.batches(io.BytesIO(good + line + b"\n")))
    assert place in str(caught.value)


def test_unclosed_quotes():
    reading = infer_config(io.BytesIO(CSV), format="csv", target="y")
    with pytest.raises(BadLineError, match=r":4: has a quote that is not closed"):
        list(reading.batches(io.BytesIO(CSV + b'2,"open,1\n3,z,1\n')))
    reader = reading.batches(io.BytesIO(CSV + b'2,"open,1\n3,z,1\n'), on_error="skip")
    assert [len(values(batch.y)) for batch in reader] == [1, 1]
    assert [str(error).partition(":")[2] for error in reader.first_skipped] == ["4: has a quote that is not closed"]


def test_damaged_files_are_rejected(tmp_path):
    for path in written(tmp_path):
        if path.suffix in (".parquet", ".arrow", ".arrows"):
            reading = infer_config(path, target="y")
            data = path.read_bytes()
            path.write_bytes(data[: len(data) // 2])
            with pytest.raises(SourceError, match=path.name):
                list(reading.batches(path))
    table = pa.table({"a": [1.0, np.inf, 3.0, None], "s": [{"b": "x"}] * 4, "y": [1, 1, None, 1]})
    pq.write_table(table, tmp_path / "bad.parquet")
    reading = infer_config(tmp_path / "bad.parquet", format="parquet", target="y", table_encoding={"a": "number"})
    with pytest.raises(BadLineError, match=r"bad\.parquet:2: column 'a' must be finite|:3: column 'y' is missing"):
        list(reading.batches(tmp_path / "bad.parquet"))
    reader = reading.batches(tmp_path / "bad.parquet", on_error="skip")
    assert rows_of(reader) == [[("a", 1.0), ("s.b=x", 1.0)], [("a is missing", 1.0), ("s.b=x", 1.0)]]
    assert reader.skipped == 2


def test_missing_pyarrow_names_the_install_command(monkeypatch):
    def gone(name):
        raise ImportError(name)

    monkeypatch.setattr(columns, "import_module", gone)
    with pytest.raises(ImportError, match=r"needs pyarrow: pip install fiol\[files\]"):
        infer_config(io.BytesIO(CSV), format="csv")


def test_parquet_dates_match_csv_dates(tmp_path):
    table = pa.table({"d": [dt.date(2024, 3, 4), None], "s": ["a", "b"]})
    pq.write_table(table, tmp_path / "a.parquet")
    (tmp_path / "a.csv").write_text("d,s\n2024-03-04,a\n,b\n")
    a, b = (infer_config(tmp_path / name) for name in ("a.parquet", "a.csv"))
    assert a.table_encoding == b.table_encoding
    assert rows_of(a.batches(tmp_path / "a.parquet")) == rows_of(b.batches(tmp_path / "a.csv"))


def test_vw_namespaces_make_the_same_interactions():
    text = b"1 |u age:2 old |a shoes |b:2 x\n-1 |a hats |u age:3 age:1\n1 | plain |u new\n"
    rows = [
        {"u^age": 2.0, "u^old": 1.0, "a^shoes": 1.0, "b^x": 2.0, "u^age*a^shoes": 2.0, "u^old*a^shoes": 1.0}
        | {"a^shoes*b^x*u^age": 4.0, "a^shoes*b^x*u^old": 2.0},
        {"a^hats": 1.0, "u^age": 4.0, "u^age*a^hats": 4.0},
        {"plain": 1.0, "u^new": 1.0},
    ]
    reading = ReaderConfig("vw", pairs=[("u", "a"), ("a", "b", "u")])
    (batch,) = reading.batches(io.BytesIO(text))
    fast, slow = Vocabulary(), Vocabulary()
    a, b = batch.X.encoded(fast), slow.encode(rows)
    assert fast.names == slow.names
    assert [x.tobytes() for x in a] == [x.tobytes() for x in b]
    (hashed,) = ReaderConfig("vw", pairs=reading.pairs, options={"bits": 18}).batches(io.BytesIO(text))
    assert [x.tobytes() for x in hashed.X] == [x.tobytes() for x in Hashing(18).encode(rows)]


PIECES = [
    *(bytes([c]) for c in b',;"\n\r\t .-+eE09NAax{}[]:\\'),
    b"\xff",
    b"\x00",
    b"inf",
    b"1e400",
    b'""',
    b"9" * 400,
    b"NaN",
    b"[]",
]
SOUND = {
    "csv": CSV + b"2.5,z,0\n,NA,1\n",
    "json": b'{"a": 1, "b": {"c": "x", "t": ["p"]}, "y": 1}\n{"a": null, "y": 0}\n{"a": 2.5, "y": 1}\n',
}


@settings(max_examples=50)
@given(
    st.sampled_from(sorted(SOUND)),
    st.lists(st.tuples(st.integers(0, 120), st.integers(0, 3), st.sampled_from(PIECES)), min_size=1, max_size=3),
    st.booleans(),
)
def test_random_files_are_read_or_rejected(kind, changes, blind):
    data = SOUND[kind]
    for place, length, piece in changes:
        data = data[:place] + piece + data[place + length :]
    reading = infer_config(io.BytesIO(data if blind else SOUND[kind]), format=kind, target="y")
    try:
        whole = sum(batch.rows for batch in reading.batches(io.BytesIO(data), prefetch=False))
    except (BadLineError, SourceError):
        whole = None
    reader = reading.batches(io.BytesIO(data), on_error="skip", prefetch=False)
    try:
        rows = sum(batch.rows for batch in reader)
    except (BadLineError, SourceError):  # other columns, or a quote that is not closed: there is no next line
        assert whole is None
        return
    assert (whole is None) == (reader.skipped > 0)
    assert whole in (None, rows)


@pytest.mark.parametrize("named", [False, True])
def test_pipes_are_read_once(tmp_path, named):
    """A pipe is inspected and then read whole, although it can be read only once; Parquet through a copy."""
    for path in written(tmp_path):
        data = path.read_bytes()
        pipe = io.BytesIO(data)
        if named:
            pipe = tmp_path / "pipe"
            os.mkfifo(pipe)
            writer = threading.Thread(target=pipe.write_bytes, args=(data,))
            writer.start()
        reading = infer_config(pipe, target="y")
        with reading.batches(pipe) as reader:
            assert sum(batch.rows for batch in reader) == ROWS
        if named:
            writer.join()
            pipe.unlink()
    with pytest.raises(SourceError, match="an open file is no Parquet file that can be read"):
        infer_config(io.BytesIO(b"PAR1" + bytes(1000)), target="y")


def test_text_of_a_long_arrow_stream_is_a_category():
    """The first record batch is longer than what a reader looks at, so that types alone decide."""
    table = pa.table({"n": range(20_000), "city": ["Oslo", "Rome"] * 10_000, "y": ["a" * 100, "b" * 100] * 10_000})
    file = io.BytesIO()
    with pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    reading = infer_config(io.BytesIO(file.getvalue()), target="y")
    assert {column.name: column.kind for column in reading.table_encoding.columns} == {
        "n": "number",
        "city": "category",
        "y": "skip",
    }


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_unusual_files(kind):
    lines = {
        "csv": ["n,c,y", "1,x,1", "2,y,0"],
        "json": ['{"n": 1, "c": "x", "y": 1}', '{"n":\t2,\t"c": "y", "y": 0}\t'],
    }
    text = "\n".join(lines[kind])
    reading = infer_config(io.BytesIO(text.encode()), target="y")
    assert reading.format == kind
    right = [([("n", 1.0), ("c=x", 1.0)], 1), ([("n", 2.0), ("c=y", 1.0)], 0)]

    def read(data):
        batches = list(reading.batches(io.BytesIO(data)))
        return list(zip(rows_of(batches), [y for batch in batches for y in values(batch.y)], strict=True))

    for data in (text, text + "\n", text.replace("\n", "\r\n"), "\ufeff" + text, "\n\n" + text.replace("\n", "\n\n")):
        assert read(data.encode()) == right
    assert read(b"") == []
    with pytest.raises(SourceError, match="is empty"):
        infer_config(io.BytesIO(b""))
    edge = {"csv": "{},x,1", "json": '{{"n": {}, "c": "x", "y": 1}}'}[kind]
    for number, place in [("1.7976931348623157e308", "between"), ("1e-320", "between"), ("1e999", "finite")]:
        with pytest.raises(BadLineError, match=f":3:[0-9]+: column 'n' must be .*{place}"):
            read("\n".join([*lines[kind][:2], edge.format(number)]).encode())
    garbage = np.random.default_rng(0).integers(0, 256, 3000, np.uint8).tobytes()
    with pytest.raises((SourceError, BadLineError), match="an open file"):
        read(text.encode() + b"\n" + garbage)
    with pytest.raises((SourceError, BadLineError), match="an open file"):
        infer_config(io.BytesIO(b"\x00" + garbage))


def test_deeply_nested_first_line_of_json_is_a_bad_line_of_json():
    data = b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"\n"
    reading = infer_config(io.BytesIO(data + b'{"a": 1, "y": 1}\n'), target="y")
    assert reading.format == "json"
    with pytest.raises(BadLineError, match="has objects within objects, deeper than 100"):
        list(reading.batches(io.BytesIO(data)))
