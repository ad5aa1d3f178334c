"""Ids that are left out, features whose names collide, numbers of the decimal module, and keys that are absent."""

import decimal
import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fiol
from fiol.features.table_encoding import Column, TableEncoding
from fiol.readers.batch import BadLineError

RNG = np.random.default_rng(7)


def table(rows=60):
    """A column of numbers, a target, and two ids: a text and the number of the row."""
    return pd.DataFrame(
        {
            "user": [f"u{k}" for k in range(rows)],
            "row": np.arange(1, rows + 1),
            "size": RNG.normal(size=rows),
            "y": RNG.integers(0, 2, rows),
        }
    )


def kinds(encoding):
    return {column.name: column.kind for column in encoding.columns}


# --- ids --------------------------------------------------------------------------------------


def test_column_of_different_texts_and_row_numbers_are_left_out_as_ids():
    found = TableEncoding.infer(table())
    assert kinds(found) == {"user": "id", "row": "id", "size": "number", "y": "number"}
    assert found.named_rows(table()).names == ["size", "y"]
    assert TableEncoding.from_json(found.to_json()) == found


def test_ids_need_at_least_fifty_rows():
    assert kinds(TableEncoding.infer(table(49))) == {
        "user": "category",
        "row": "number",
        "size": "number",
        "y": "number",
    }


@pytest.mark.parametrize("change", ["repeated", "missing", "shuffled", "from two"])
def test_columns_that_are_nearly_ids_are_used(change):
    frame = table().astype({"user": object})
    if change == "repeated":
        frame.loc[3, "user"] = "u4"
    elif change == "missing":
        frame.loc[3, "user"] = frame.loc[9, "user"] = None
    frame["row"] = frame["row"] + 1 if change == "from two" else frame["row"].to_numpy()[::-1]
    found = kinds(TableEncoding.infer(frame))
    assert found["row"] == "number"
    assert found["user"] == ("category" if change in ("repeated", "missing") else "id")


def test_kind_of_an_id_that_is_given_is_kept():
    assert kinds(TableEncoding.infer(table(), {"user": "category", "row": "number"}))["user"] == "category"


def test_columns_of_pairs_are_no_ids():
    encoding = TableEncoding.from_spec(pairs=[("user", "size")]).completed(table())
    assert kinds(encoding)["user"] == "category"


def test_train_warns_of_ids_and_predicts_without_them(tmp_path):
    table().to_csv(tmp_path / "rows.csv", index=False)
    with pytest.warns(UserWarning, match=r"left out as ids: 'user', 'row'"):
        model = fiol.train(tmp_path / "rows.csv", target="y")
    assert model.columns == ("size",)
    with_ids, without = table(5), table(5)[["size"]]
    without["size"] = with_ids["size"]
    assert (model.predict_proba(with_ids.drop(columns="y")) == model.predict_proba(without)).all()


def test_learner_warns_of_ids():
    frame = table().drop(columns="y")
    with pytest.warns(UserWarning, match="left out as ids"):
        fiol.Learner().learn(frame, np.where(frame["size"] > 0, 1, -1))


# --- names that collide -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Column("x", "category"), Column("x=a", "number")),
        (Column("x", "tags"), Column("x=a", "category")),
        (Column("x", "words"), Column("x:the", "number")),
        (Column("x", "number"), Column("x is missing", "number")),
        (Column("d", "date", parts=("days", "month")), Column("d.month=3", "number")),
    ],
)
def test_columns_that_make_features_of_one_name_are_refused(first, second):
    values = {"number": 1.0, "category": "a", "tags": ["a"], "words": "a b", "date": "2024-03-01"}
    frame = pd.DataFrame({column.name: [values[column.kind]] for column in (second, first)})
    with pytest.raises(ValueError, match="make features of one name"):
        TableEncoding.infer(frame, {first.name: first, second.name: second})
    left_out = {first.name: first, second.name: "skip"}
    assert TableEncoding.infer(frame, left_out).named_rows(frame).rows == 1


def test_columns_with_signs_in_their_names_are_fine_where_nothing_collides():
    frame = pd.DataFrame({"x=a": [1.0], "x=b": [0.0], "y": [2.0], "y=": ["a"], "z.month": ["a"]})
    assert TableEncoding.infer(frame).named_rows(frame).names == ["x=a", "y", "y==a", "z.month=a"]


# --- types ------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("beside", [{}, {"c": ["u", "v", "u"]}], ids=["alone", "beside text"])
def test_decimal_columns_are_numbers(make, beside):
    plain = {"a": [1.5, 2.25, -3.0], "b": [1.0, 0.0, 2.0], **beside}
    exact = {**plain, "a": [decimal.Decimal(str(value)) for value in plain["a"]]}
    y = [1, -1, 1]
    assert (fiol.Learner().learn(make(exact), y) == fiol.Learner().learn(make(plain), y)).all()


def test_list_of_structs_is_refused_with_its_place(tmp_path):
    rows = pa.table({"s": [[{"a": 1}], [{"a": 2}]], "y": [0, 1]})
    pq.write_table(rows, tmp_path / "rows.parquet")
    with pytest.raises(BadLineError, match=r"rows.parquet:1: column 's' must be a list of strings"):
        fiol.train(tmp_path / "rows.parquet", target="y")


# --- absent keys ------------------------------------------------------------------------------


def test_dicts_of_a_model_of_json_lines_are_encoded_as_its_lines(tmp_path):
    rows = [
        {"a": float(k % 3), "c": "xyz"[k % 3], "u": {"age": k % 5}, "y": k % 2}
        if k % 4
        else {"c": "x", "new": 2, "y": 1}
        for k in range(200)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    model = fiol.train(tmp_path / "rows.jsonl", target="y")
    assert model.table_encoding.optional
    ask = [{"c": "x"}, {"a": None, "u": {"age": 3}}, {"c": "z", "new": 3, "late": "text"}, {}]
    (tmp_path / "ask.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ask))
    from_file = np.concatenate([model.predict_proba(batch.X) for batch in model.batches(tmp_path / "ask.jsonl")])
    assert (model.predict_proba(ask) == from_file).all()
    one_by_one = [model.predict_proba([row])[0] for row in ask]
    assert (np.array(one_by_one) == from_file).all()
    assert [1.0 / (1.0 + np.exp(-model.score_named(row))) for row in ask] == pytest.approx(from_file[:, 1], abs=1e-12)
    loaded = fiol.load(save(model, tmp_path))
    assert loaded.table_encoding == model.table_encoding
    assert (loaded.predict_proba(ask) == from_file).all()


def save(model, folder):
    model.save(folder / "model.fiol")
    return folder / "model.fiol"


def test_absent_column_of_a_table_is_missing_in_dicts_and_in_exported_python(tmp_path):
    frame = table().drop(columns=["user", "row"]).assign(c=["u", "v", None] * 20)
    model = fiol.train(frame, target="y")
    module = {}
    exec(model.to_python(), module)
    for row in ({"size": 1.0}, {"c": "u"}, {}):
        whole = pd.DataFrame([{"size": np.nan, "c": None, **row}])
        assert model.predict_proba([row])[0, 1] == model.predict_proba(whole)[0, 1]
        assert module["probability"](row) == pytest.approx(model.predict_proba([row])[0, 1], abs=1e-12)
