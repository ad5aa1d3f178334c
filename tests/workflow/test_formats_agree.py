"""A model reads files of every format, dicts and frames by its own encoding."""

import io
import json

import numpy as np
import pyarrow as pa
import pytest
from tests.interpreted import interpret_all

import fiol


@pytest.fixture(autouse=True)
def in_the_interpreter(monkeypatch):
    interpret_all(monkeypatch)


def trained(table, **options):
    """Return a single learner of an Arrow table."""
    return fiol.train(pa.table(table), "y", algorithm="FIOL", **options)


def scores_of_file(model, path, text):
    """Return the scores of a file with this text."""
    path.write_text(text)
    return model.scores(path)


LABELS = ["no", "yes", "yes", "no", "no", "yes"]


def test_booleans_of_a_typed_table_are_read_from_csv(tmp_path):
    model = trained({"member": [True, False, False, True, True, None], "y": LABELS})
    expected = model.scores([{"member": True}, {"member": False}, {"member": None}])
    assert len({*expected.tolist()}) == 3
    assert np.array_equal(
        scores_of_file(model, tmp_path / "a.csv", "member,b\n".replace(",b", ",y") + "true,no\nfalse,no\n,no\n"),
        expected,
    )


def test_absent_keys_of_json_lines_are_missing_for_a_model_of_a_table(tmp_path):
    model = trained({"age": [1.0, None, 2.0, 3.0, None, 1.0], "city": ["a", "b", None, "a", None, "b"], "y": LABELS})
    rows = [{"age": 2.0}, {"city": "a"}, {"age": None, "city": None}]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    assert np.array_equal(scores_of_file(model, tmp_path / "a.jsonl", text), model.scores(rows))
    assert np.array_equal(model.scores(rows), model.scores([{"age": None, "city": None, **row} for row in rows]))


def test_absent_keys_are_no_features_for_a_model_of_json_lines(tmp_path):
    lines = "".join(
        json.dumps({"y": label, **({"age": k} if k % 2 else {"age": None})}) + "\n" for k, label in enumerate(LABELS)
    )
    model = fiol.train(io.BytesIO(lines.encode()), "y", algorithm="FIOL")
    rows = [{"age": None}, {}, {"age": 2.0}]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    found = model.scores(rows)
    assert found[0] != found[1]
    assert np.array_equal(scores_of_file(model, tmp_path / "a.jsonl", text), found)


def test_unknown_keys_of_json_lines_are_left_out_with_one_warning(tmp_path):
    model = trained({"age": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "y": LABELS})
    with pytest.warns(UserWarning, match="'agee'") as caught:
        found = scores_of_file(model, tmp_path / "a.jsonl", '{"age": 1.0, "agee": 7}\n{"age": 2.0, "agee": 7}\n')
    assert len(caught) == 1
    assert np.array_equal(found, model.scores([{"age": 1.0}, {"age": 2.0}]))


def test_nested_dicts_are_rows_of_a_table_with_structs():
    model = trained({"user": [{"age": float(k)} for k in range(6)], "y": LABELS})
    assert model.columns == ("user.age",)
    assert np.array_equal(model.scores([{"user": {"age": 3.0}}]), model.scores([{"user.age": 3.0}]))


def test_prediction_needs_neither_target_nor_weight(tmp_path):
    model = trained({"age": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "w": [1.0] * 6, "y": LABELS}, weight="w")
    for name, text in (("a.csv", "age\n1.0\n2.0\n"), ("a.jsonl", '{"age": 1.0}\n{"age": 2.0}\n')):
        assert np.array_equal(scores_of_file(model, tmp_path / name, text), model.scores([{"age": 1.0}, {"age": 2.0}]))


def test_csv_whose_columns_are_all_left_out_has_scores(tmp_path):
    model = trained({"note": ["a", "b", "c", "d", "e", "f"], "y": LABELS}, columns={"note": "skip"})
    assert scores_of_file(model, tmp_path / "a.csv", "note,y\n1.5,no\nx,no\n").shape == (2,)


def test_csv_with_no_number_in_a_column_of_numbers_has_scores(tmp_path):
    model = trained({"age": [1.0, None, 3.0, 4.0, 5.0, 6.0], "y": LABELS})
    assert np.array_equal(scores_of_file(model, tmp_path / "a.csv", "age,y\n,no\nNA,no\n"), model.scores([{}, {}]))


@pytest.mark.parametrize("form", ["csv", "json"])
def test_labels_beyond_floats_stay_apart_in_batches_of_one_label(form):
    low, high = 2**53, 2**53 + 1
    model = trained({"x": [1.0, 2.0, 3.0, 4.0], "y": [low, high, low, high]})
    text = f"x,y\n1.0,{low}\n" if form == "csv" else f'{{"x": 1.0, "y": {low}}}\n'
    (batch,) = model.batches(io.BytesIO(text.encode()), needs_target=True)
    assert model.task.coded(batch.y)[0].tolist() == [-1.0]


def test_cells_that_become_missing_in_prediction_give_a_warning(tmp_path):
    model = trained({"age": [1.0, None, 3.0, 4.0, 5.0, 6.0], "y": LABELS})
    with pytest.warns(UserWarning, match="1 cell of column 'age' could not be read"):
        scores_of_file(model, tmp_path / "a.csv", "age,y\n1.0,no\nold,no\n")


def test_null_column_of_json_lines_keeps_its_place_in_interactions():
    rows = [{"c": k, "d": None, "a": "xy"[k % 2], "y": label} for k, label in enumerate(LABELS)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    options = {"pairs": [("d", "a")], "columns": {"c": "category"}, "algorithm": "FIOL"}
    model = fiol.train(io.BytesIO(lines.encode()), "y", **options)
    table = fiol.train(pa.Table.from_pylist(rows), "y", **options)
    assert model.names == table.names
    assert np.array_equal(model.weights, table.weights)


def test_column_of_missing_markers_alone_is_missing_in_dicts():
    model = trained({"age": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "note": ["x"] * 6, "y": LABELS}, missing=["x"])
    assert np.array_equal(model.scores([{"age": 1.0, "note": "x"}]), model.scores([{"age": 1.0, "note": None}]))


def test_examples_of_columns_are_cells_of_the_file(tmp_path):
    rows = "".join(f"0,1/{k}/2011,{label}\n" for k, label in enumerate(LABELS * 5, 1))
    (tmp_path / "a.csv").write_text("zero,day,y\n" + rows)
    model = fiol.train(tmp_path / "a.csv", "y", algorithm="FIOL")
    found = {column["name"]: column["examples"] for column in model.meta["training"]["columns"]}
    assert found == {"zero": ["0"], "day": ["1/1/2011", "1/2/2011", "1/3/2011"]}


def test_quotes_of_tables_with_tabs_are_switched_off(tmp_path):
    (tmp_path / "a.tsv").write_text("label\ttext\n" + 'no\t"hello there\nyes\tgood bye" you\n' * 3)
    with pytest.warns(UserWarning, match="line breaks within quotes in 3 of the first rows.*reader={'quote': None}"):
        assert sum(batch.rows for batch in fiol.read(tmp_path / "a.tsv", "label")) == 3
    for none in ("none", None):
        assert sum(batch.rows for batch in fiol.read(tmp_path / "a.tsv", "label", reader={"quote": none})) == 6
    with pytest.raises(ValueError, match="option quote of csv must be one plain character or none, got 'nix'"):
        list(fiol.read(tmp_path / "a.tsv", "label", reader={"quote": "nix"}))


def test_line_breaks_within_quotes_are_warned_of_when_a_model_reads_a_table_with_tabs(tmp_path):
    (tmp_path / "a.tsv").write_text("label\ttext\n" + "no\thello there\nyes\tgood bye you\n" * 3)
    (tmp_path / "b.tsv").write_text("label\ttext\n" + 'no\t"hello there\nyes\tgood bye" you\n' * 3)
    model = fiol.train(tmp_path / "a.tsv", "label", algorithm="FIOL")
    with pytest.warns(UserWarning, match="b.tsv: line breaks within quotes in 3 of the first rows.*{'quote': None}"):
        assert len(model.scores(tmp_path / "b.tsv")) == 3
    found, _, _ = model.evaluation(str(tmp_path / "b.tsv"), options={"quote": "none"})
    assert found.results()["rows"] == 6


def test_options_of_the_reader_replace_those_of_training(tmp_path):
    (tmp_path / "a.csv").write_text("age,y\n" + "".join(f"{k},{label}\n" for k, label in enumerate(LABELS)))
    (tmp_path / "b.csv").write_text("age;y\n" + "".join(f"{k};{label}\n" for k, label in enumerate(LABELS)))
    model = fiol.train(tmp_path / "a.csv", "y", algorithm="FIOL")
    found, _, _ = model.evaluation(str(tmp_path / "b.csv"), options={"delimiter": ";"})
    assert found.results() == model.evaluate(tmp_path / "a.csv")
