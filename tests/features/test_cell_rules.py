"""The rules of one cell: names of categories by the cell alone, in frames of every library, files and exports."""

import datetime as dt
import decimal
import io
import json
import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fiol.exports.row_features import features_of_columns
from fiol.features.cell_rules import cell_text, words_of_text
from fiol.features.table_encoding import Column, TableEncoding
from fiol.readers.reader_config import infer_config
from fiol.training.task_inference import infer_task

FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}
CATEGORY = TableEncoding((Column("x", "category"),))

#: A cell of every type, and its category.
CELLS = [
    ("red", "red"),
    (True, "True"),
    (7, "7"),
    (2**60 + 1, "1152921504606846977"),
    (2.0, "2"),
    (-0.0, "0"),
    (2.5, "2.5"),
    (dt.date(2024, 3, 1), "2024-03-01"),
    (dt.datetime(2024, 3, 1), "2024-03-01"),
    (dt.datetime(2024, 3, 1, 7, 30), "2024-03-01T07:30:00"),
    (dt.datetime(2024, 3, 1, 7, 30, 0, 5), "2024-03-01T07:30:00.000005"),
    (dt.time(7, 30), "07:30:00"),
    (decimal.Decimal("2.50"), "2.5"),
    (decimal.Decimal("200"), "200"),
    (dt.timedelta(hours=36), "1.5"),
]
#: Cells of the same type that a batch may have beside.
BESIDE = {
    bool: False, int: 2**61 + 1, float: 0.25, str: "blue", dt.date: dt.date(1999, 1, 1),
    dt.datetime: dt.datetime(1999, 1, 1, 23, 59, 59, 999999), dt.time: dt.time(1, 2, 3, 4),
    decimal.Decimal: decimal.Decimal("0.125"), dt.timedelta: dt.timedelta(seconds=1),
}  # fmt: skip


def names_of(frame, row):
    """The features of one row of a frame."""
    rows = CATEGORY.named_rows(frame)
    start, end = rows.chunk.indptr[row : row + 2]
    return [rows.names[i] for i in rows.chunk.indices[start:end]]


@pytest.mark.parametrize(("cell", "text"), CELLS)
def test_category_depends_on_its_cell_alone(cell, text):
    assert cell_text(cell) == text
    assert features_of_columns({"x": cell}, [("x", "category", 1, ())], False, (), False) == [(f"x={text}", 1.0, "x")]
    other = BESIDE[type(cell)]
    for make in FRAMES.values():
        for beside in ([], [other], [other, other]):
            assert names_of(make({"x": [cell, *beside]}), 0) == [f"x={text}"]
        if make is pd.DataFrame and isinstance(cell, int) and not isinstance(cell, bool):
            continue  # pandas makes floats of ints beside None
        assert names_of(make({"x": [cell, other, None]}), 0) == [f"x={text}"]
    if not isinstance(cell, (dt.date, dt.time, dt.timedelta)):
        assert names_of(pd.DataFrame({"x": pd.Series([cell, "blue", 1, 1.0, True], dtype=object)}), 0) == [f"x={text}"]
    if isinstance(cell, bool):
        assert names_of(pd.DataFrame({"x": pd.Series([1, cell, "blue"], dtype=object)}), 1) == [f"x={text}"]


def test_json_category_depends_on_its_cell_alone():
    first = b'{"x": "a", "y": 1}\n'
    reading = infer_config(io.BytesIO(first), format="json", target="y")
    for cell, text in [("true", "True"), ("1", "1"), ("1.0", "1"), (str(2**60 + 3), str(2**60 + 3)), ("0.1", "0.1")]:
        line = b'{"x": %s, "y": 1}\n' % cell.encode()
        for data in (line, line + first, line + b'{"x": 1, "y": 1}\n', line + b'{"x": null, "y": 1}\n'):
            (batch,) = reading.batches(io.BytesIO(data))
            assert batch.X.names[batch.X.chunk.indices[0]] == f"x={text}"


def test_integers_keep_their_digits_as_categories(tmp_path):
    ids = [2**60 + k for k in range(4)]
    frame = pd.DataFrame({"x": ids, "y": [0, 1, 0, 1]})
    frame.to_csv(tmp_path / "a.csv", index=False)
    pq.write_table(pa.table({"x": [*ids, None], "y": [0, 1, 0, 1, 1]}), tmp_path / "a.parquet")
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in frame.to_dict("records")))
    wanted = [f"x={k}" for k in ids]
    for file in ("a.csv", "a.parquet", "a.jsonl"):
        reading = infer_config(tmp_path / file, target="y", table_encoding={"x": "category"})
        (batch,) = reading.batches(tmp_path / file)
        assert batch.X.names[:4] == wanted
    for make in FRAMES.values():
        assert CATEGORY.named_rows(make({"x": ids})).names == wanted
    assert CATEGORY.named_rows(pd.DataFrame({"x": pd.array([*ids, None], "Int64")})).names[:4] == wanted
    assert CATEGORY.named_rows(pd.DataFrame({"x": np.array([2**63 + 1], np.uint64)})).names == [f"x={2**63 + 1}"]


def test_integers_keep_their_digits_as_labels(tmp_path):
    labels = [2**53, 2**53 + 1, 7] * 5
    text = "x,y\n" + "".join(f"1,{label}\n" for label in labels)
    (tmp_path / "a.csv").write_text(text)
    pq.write_table(pa.table({"x": [1] * 15, "y": labels}), tmp_path / "a.parquet")
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"x": 1, "y": y}) + "\n" for y in labels))
    found = [np.array(labels), pa.array(labels), labels, pd.Series(labels), np.array(labels, np.uint64)]
    for file in ("a.csv", "a.parquet", "a.jsonl"):
        (batch,) = infer_config(tmp_path / file, target="y").batches(tmp_path / file)
        found.append(batch.y)
    for y in found:
        task = infer_task(y)
        assert task.kind == "classes"
        assert list(task.coded(y)[0]) == labels


@pytest.mark.parametrize("label", [2**60 + 1, 2**63 - 1, 2**70 + 1])
def test_long_integers_of_csv_keep_their_digits_as_labels(label):
    data = f"x,y\n1,{label}\n2,3\n".encode()
    (batch,) = infer_config(io.BytesIO(data), format="csv", target="y").batches(io.BytesIO(data))
    assert [int(y) for y in batch.y.to_pylist()] == [label, 3]


@settings(max_examples=150)
@given(st.text() | st.text(st.sampled_from("aZ_9 \t\n-\xa0\u0130ßé½²٣日\u0301,.'")), st.integers(1, 4))
def test_words_are_runs_of_word_characters_and_ngrams_of_them(text, most):
    words = re.findall(r"\w+", text.lower())
    grams = [" ".join(words[k : k + n]) for n in range(1, most + 1) for k in range(len(words) - n + 1)]
    assert words_of_text(text, most) == grams
    found = features_of_columns({"w": text}, [("w", "words", most, ())], False, (), False)
    rows = TableEncoding((Column("w", "words", ngrams=most),)).named_rows(pd.DataFrame({"w": [text]}))
    assert [rows.names[i] for i in rows.chunk.indices] == [name for name, _, _ in found]
