"""Models of `fiol train`, loaded in Python, predict and learn from frames."""

import copy
import csv
import io
import json
import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.cli.test_train import SINGLE, invoke
from tests.frames import polars_frame
from tests.interpreted import interpret_all

import fiol
from fiol.exports.json_model import load_json, model_from_json, model_to_json
from fiol.persistence.model import read_model, write_model
from fiol.persistence.model_file import ModelFileError
from fiol.readers.columns import encoding_of
from fiol.readers.reader_config import ReaderConfig

ROWS = 40
#: Strings that are dates and numbers in some rows, and neither in others.
CODES = ["2024-03-04", "17", "x9", "13:45", ""]
NOTES = ["no", "one more word in this note", "the long note has words of its own", ""]


@pytest.fixture(autouse=True)
def in_the_interpreter(monkeypatch):
    interpret_all(monkeypatch)
    monkeypatch.setattr(load_json, "__defaults__", (False,))


@pytest.fixture
def table(tmp_path):
    """Return a CSV file with numbers, text, dates and missing values, and its frame."""
    draw = np.random.default_rng(5)
    age = draw.integers(18, 80, ROWS)
    frame = pd.DataFrame(
        {
            "age": np.where(draw.random(ROWS) < 0.2, "", age.astype(str)),
            "size": draw.integers(1, 40, ROWS) / 4,
            "code": draw.choice(CODES, ROWS),
            "note": [f"{note} {k}" * bool(note) for k, note in enumerate(draw.choice(NOTES, ROWS))],
            "day": draw.choice(["2024-03-04", "2024-03-05 07:30", ""], ROWS),
            "member": draw.choice(["true", "false"], ROWS),
            "bought": draw.choice(["no", "yes"], ROWS),
        }
    )
    frame.to_csv(tmp_path / "table.csv", index=False)
    return tmp_path / "table.csv", pd.read_csv(tmp_path / "table.csv")


def predicted(model, path, option="--probabilities"):
    """Return the numbers that `fiol predict` writes."""
    rows = csv.DictReader(io.StringIO(invoke("predict", model, path, option).output))
    return np.array([[float(row[name]) for name in row if name != "tag"] for row in rows]).squeeze()


def probabilities(model, X):
    """Return the probability of the positive label."""
    return model.predict_proba(X)[:, 1]


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--pairs", "code,age", "--pairs", "day.hour,code,member"],
        ["--bits", "12"],
        ["--max-features", "500"],
        ["--column", "age=category", "--column", "note=words:2", "--column", "member=skip"],
        ["--tag", "note", "--weight", "size"],
    ],
    ids=["plain", "pairs", "bits", "max_features", "column", "tag"],
)
def test_one_row_frames_match_prediction_of_all_rows(table, tmp_path, options):
    path, frame = table
    model = tmp_path / "table.fiol"
    invoke("train", path, "--target", "bought", *SINGLE, *options, "-o", model)
    learner = fiol.load(model)
    expected = predicted(model, path)
    for whole in (frame, frame.drop(columns="bought"), frame[frame.columns[::-1]], polars_frame(frame)):
        assert probabilities(learner, whole).tolist() == expected.tolist()
    rows = [frame.iloc[[k]] for k in range(ROWS)]
    assert np.concatenate([probabilities(learner, row) for row in rows]).tolist() == expected.tolist()
    objects = frame.astype(object).where(frame.notna(), None).to_dict("records")
    assert (
        np.concatenate([probabilities(learner, pd.DataFrame([row])) for row in objects]).tolist() == expected.tolist()
    )
    assert np.concatenate([learner.scores(row) for row in rows]).tolist() == predicted(model, path, "--scores").tolist()
    for again in (learner.copy(), pickle.loads(pickle.dumps(learner)), copy.deepcopy(learner)):
        assert probabilities(again, rows[0]).tolist() == expected[:1].tolist()
    assert learner.snapshot().scores(rows[0]).tolist() == learner.scores(rows[0]).tolist()
    labels = [row["label"] for row in csv.DictReader(io.StringIO(invoke("predict", model, path).output))]
    assert learner.predict(frame).tolist() == learner.snapshot().predict(frame).tolist() == labels


@pytest.mark.parametrize("options", [[], ["--pairs", "code,age"], ["--bits", "12"], ["--max-features", "500"]])
def test_dicts_are_predicted_as_rows_of_the_file(table, tmp_path, options):
    path, frame = table
    model = tmp_path / "table.fiol"
    invoke("train", path, "--target", "bought", *SINGLE, *options, "-o", model)
    learner, rows = fiol.load(model), frame.drop(columns="bought").to_dict("records")
    expected, scores = predicted(model, path).tolist(), predicted(model, path, "--scores").tolist()
    assert probabilities(learner, rows).tolist() == expected
    assert [learner.score_named(row) for row in rows] == learner.scores(rows).tolist() == scores
    assert [learner.predict_named(row) for row in rows] == learner.predict(rows).tolist()
    assert [learner.snapshot().predict([row])[0] for row in rows[:3]] == learner.predict(frame).tolist()[:3]


def test_one_row_frames_of_several_classes_match_prediction_of_all_rows(table, tmp_path):
    path, frame = table
    model = tmp_path / "table.fiol"
    frame = frame.assign(bought=["low", "mid", "high", "mid"] * (ROWS // 4))
    frame.to_csv(path, index=False)
    invoke("train", path, "--target", "bought", *SINGLE, "-o", model)
    learner = fiol.load(model)
    expected = predicted(model, path)
    assert expected.shape == (ROWS, 3)
    assert np.vstack([learner.predict_proba(frame.iloc[[k]]) for k in range(ROWS)]).tolist() == expected.tolist()


@pytest.mark.parametrize("ending", ["parquet", "arrow", "jsonl"])
def test_models_of_other_formats_predict_frames(table, tmp_path, ending):
    path, frame = table
    path = path.with_suffix(f".{ending}")
    if ending == "parquet":
        frame.to_parquet(path)
    elif ending == "arrow":
        rows = pa.Table.from_pandas(frame)
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
            writer.write_table(rows)
    else:
        path.write_text(frame.to_json(orient="records", lines=True))
    model = tmp_path / "table.fiol"
    invoke("train", path, "--target", "bought", *SINGLE, "-o", model)
    learner = fiol.load(model)
    expected = predicted(model, path)
    assert probabilities(learner, frame).tolist() == expected.tolist()
    assert np.concatenate([probabilities(learner, frame.iloc[[k]]) for k in range(ROWS)]).tolist() == expected.tolist()


def test_frames_with_other_columns_raise(table, tmp_path):
    path, frame = table
    invoke("train", path, "--target", "bought", *SINGLE, "-o", tmp_path / "table.fiol")
    learner = fiol.load(tmp_path / "table.fiol")
    with pytest.raises(ValueError, match="missing 'age'"):
        learner.learn(frame.drop(columns="age"), frame["bought"])
    with pytest.raises(ValueError, match=r"X\[0, 'age'\] must be a number, got 'old'"):
        learner.predict(frame.assign(age="old"))


def test_model_learns_from_frames_as_from_its_file(table, tmp_path):
    path, frame = table
    model = tmp_path / "table.fiol"
    train = ["train", path, "--target", "bought", *SINGLE, "-o", model, "--force"]
    invoke(*train)
    learner = fiol.load(model)
    for k in range(ROWS):
        learner.learn(frame.iloc[[k]], [frame["bought"][k]])
    invoke(*train, "--passes", "2")
    assert learner.names == fiol.load(model).names
    assert learner.weights.tobytes() == fiol.load(model).weights.tobytes()


def test_model_file_stores_the_encoding_once(table, tmp_path):
    path, frame = table
    model, again = tmp_path / "table.fiol", tmp_path / "again.fiol"
    invoke("train", path, "--target", "bought", "--pairs", "age,code", *SINGLE, "-o", model)
    learner = fiol.load(model)
    assert learner.table_encoding == encoding_of(ReaderConfig.from_json(learner.meta["reading"]))
    assert learner.table_encoding.pairs == (("age", "code"),)
    assert "coding" not in read_model(model).header
    learner.save(again)
    assert again.read_bytes() == model.read_bytes()
    del learner.meta["reading"]  # the table encoding is the model's, not that of its meta
    learner.save(again)
    assert fiol.load(again).table_encoding == learner.table_encoding
    assert fiol.load(again).predict(frame).tolist() == predicted(model, path).tolist()
    learner.meta["reading"] = {"format": "csv", "coding": fiol.TableEncoding().to_json()}
    learner.save(again)
    assert fiol.load(again).table_encoding == learner.table_encoding


@pytest.mark.parametrize("state", [True, False])
def test_json_export_keeps_the_encoding(table, tmp_path, state):
    path, frame = table
    model = tmp_path / "table.fiol"
    invoke("train", path, "--target", "bought", "--pairs", "age,code", *SINGLE, "-o", model)
    learner = fiol.load(model)
    document = json.loads(json.dumps(model_to_json(learner, state)))
    assert "coding" not in document["model"]
    again = model_from_json(document, compiled=False)
    assert again.table_encoding == learner.table_encoding
    assert type(again) is fiol.TrainedModel
    assert again.predict(frame).tolist() == learner.predict(frame).tolist()
    np.testing.assert_allclose(again.predict_proba(frame)[:, 1], probabilities(learner, frame), rtol=1e-12)


def test_reader_config_without_columns_is_unchanged(tmp_path):
    frame, path = pd.DataFrame({"a": [1.0, 2.0], "b": [0.0, 1.0]}), tmp_path / "model.fiol"
    encoding = fiol.TableEncoding.infer(frame)
    for meta in ({"reading": "a book"}, {"reading": {"coding": "utf-8"}}, {"reading": {"format": "csv"}}):
        named = fiol.Learner(fiol.FIOL(fiol.Squared()))
        named.learn([{"a": 1.0}], [1.0])
        named.meta = meta
        named.save(path)
        assert (fiol.load(path).table_encoding, fiol.load(path).meta) == (None, meta)
    plain = fiol.Learner(fiol.FIOL(fiol.Squared()))
    plain.learn(frame, [1.0, 2.0])
    plain.meta["reading"] = {"format": "csv", "coding": encoding.to_json()}
    plain.save(path)  # its features are columns, not names that a table encoding makes
    assert fiol.load(path).table_encoding is None
    assert fiol.load(path).predict(frame).tolist() == plain.predict(frame).tolist()


def test_unknown_encoding_is_rejected(table, tmp_path):
    path, _ = table
    model = tmp_path / "table.fiol"
    invoke("train", path, "--target", "bought", *SINGLE, "-o", model)
    kind, header, arrays, meta = read_model(model)
    meta["reading"]["coding"]["columns"][0]["unit"] = "years"
    write_model(model, kind, header, arrays, meta)
    with pytest.raises(ModelFileError, match=r"table\.fiol: a column has the unknown field 'unit'"):
        fiol.load(model)


def test_command_takes_the_target_column_of_files_for_a_model_of_an_estimator(tmp_path):
    frame = pd.DataFrame({"age": [20.0, 30.0, 60.0, 70.0] * 20, "city": ["Rome", "Oslo", "Bonn", "Rome"] * 20})
    y = np.where(frame["age"] > 40, "yes", "no")
    data, model = tmp_path / "people.csv", tmp_path / "people.fiol"
    frame.assign(bought=y).to_csv(data, index=False)
    for X in (frame, frame[["age"]]):
        fiol.FIOLClassifier(random_state=0).fit(X, y).save(model)
        X.assign(bought=y).to_csv(data, index=False)
        assert "left out: 'bought'" in invoke("predict", model, data).stderr
        rows = invoke("predict", model, data, "--target", "bought").output.splitlines()
        assert [row.split(",")[0] for row in rows[1:]] == y.tolist()
        assert json.loads(invoke("evaluate", model, data, "--target", "bought", "--json").output)["accuracy"] == 1.0
    fiol.train(data, "bought", algorithm="FIOL", output=tmp_path / "other.fiol")
    other = invoke("evaluate", tmp_path / "other.fiol", data, "--target", "age", code=1)
    assert "the target of the model is 'bought', not 'age'" in other.output
