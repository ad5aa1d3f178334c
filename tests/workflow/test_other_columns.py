"""Rows with columns that a model does not know, and rows without some of its columns, by every way in."""

import io
import json
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import feather, parquet
from tests.commands import CliRunner
from tests.interpreted import interpret_all

import fiol
from fiol.cli import main
from fiol.readers import compiled_parser
from fiol.readers.batch import BadLineError, SourceError
from fiol.workflow.model import open_model

ROWS = 60
ENDINGS = ("csv", "tsv", "jsonl", "parquet", "arrow")


def table():
    """Return rows of a table with numbers, a category and a target."""
    rng = np.random.default_rng(0)
    age, city = rng.normal(40.0, 10.0, ROWS).round(3), rng.choice(["Rome", "Oslo", "Lima"], ROWS)
    size = rng.normal(0.0, 1.0, ROWS).round(3)
    sold = np.where(age + 5.0 * (city == "Rome") + 4.0 * size > 41.0, "yes", "no")
    return pd.DataFrame({"age": age, "size": size, "city": city, "sold": sold})


#: Columns that the model does not know, and those that are absent.
CHANGES = {
    "unknown": lambda frame: frame.assign(more=1.5, note="x"),
    "absent": lambda frame: frame.drop(columns="age"),
    "both": lambda frame: frame.drop(columns="city").assign(more=np.arange(ROWS)),
}


@pytest.fixture(autouse=True)
def in_the_interpreter(monkeypatch):
    interpret_all(monkeypatch)


@pytest.fixture
def model():
    return fiol.train(table(), target="sold", algorithm="FIOL")


def written(frame, path):
    """Write a frame as a file of the format of its ending."""
    ending = path.suffix[1:]
    if ending in ("csv", "tsv"):
        frame.to_csv(path, index=False, sep="," if ending == "csv" else "\t")
    elif ending == "jsonl":
        path.write_text(frame.to_json(orient="records", lines=True))
    elif ending == "parquet":
        parquet.write_table(pa.Table.from_pandas(frame), path)
    else:
        feather.write_feather(pa.Table.from_pandas(frame), path, compression="uncompressed")
    return path


def expected_scores(model, change):
    """Return the scores of rows that have exactly the columns of the model, None where they are absent."""
    changed = CHANGES[change](table())
    rows = table().astype(object)
    for name in ("age", "size", "city"):
        if name not in changed:
            rows[name] = None
    return model.scores(rows.drop(columns="sold").to_dict("records"))


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("change", sorted(CHANGES))
def test_files_with_other_columns_are_read(model, tmp_path, monkeypatch, change, ending, compiled):
    if compiled:
        if ending in ("parquet", "arrow"):
            pytest.skip("there is no compiled loop")
        monkeypatch.setattr(compiled_parser, "COMPILED_MIN_BYTES", 0)
    path = written(CHANGES[change](table()), tmp_path / f"new.{ending}")
    with pytest.warns(UserWarning, match="were left out|were absent") as caught:
        found = model.scores(path)
    assert np.array_equal(found, expected_scores(model, change))
    said = sorted(str(warning.message).replace(f"{path}: ", "") for warning in caught)
    unknown = {"unknown": "'more', 'note'", "both": "'more'"}.get(change)
    absent = {"absent": "'age'", "both": "'city'"}.get(change)
    assert said == [
        *([f"columns of the model were absent, and count as missing: {absent}"] if absent else []),
        *([f"columns that the model does not know were left out: {unknown}"] if unknown else []),
    ]


@pytest.mark.parametrize("library", ["pandas", "arrow"])
@pytest.mark.parametrize("change", sorted(CHANGES))
def test_frames_with_other_columns_are_read_and_said_once(model, change, library):
    changed, other = CHANGES[change](table()).drop(columns="sold"), model.copy()
    frame = changed if library == "pandas" else pa.Table.from_pandas(changed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = other.scores(frame)
    said = " ".join(str(warning.message) for warning in caught)
    assert [f"'{name}'" in said for name in ("more", "note")] == [name in changed for name in ("more", "note")]
    assert ("count as missing" in said) == (change != "unknown")
    assert np.array_equal(found, expected_scores(model, change))
    assert other.unknown_keys == ROWS * len({"more", "note"} & {*changed})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.array_equal(other.scores(frame), found)


@pytest.mark.parametrize("change", sorted(CHANGES))
def test_dicts_with_other_columns_have_the_scores_of_frames(model, change):
    changed = CHANGES[change](table()).drop(columns="sold").to_dict("records")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert np.array_equal(model.copy().scores(changed), expected_scores(model, change))
        assert model.copy().snapshot().score_named(changed[0]) == expected_scores(model, change)[0]


@pytest.mark.parametrize("ending", ENDINGS)
def test_command_predicts_and_evaluates_files_with_other_columns(model, tmp_path, ending):
    model.save(tmp_path / "m.fiol")
    changed = CHANGES["both"](table())
    path = written(changed, tmp_path / f"new.{ending}")
    found = CliRunner().invoke(main, ["predict", str(tmp_path / "m.fiol"), str(path), "--scores"])
    assert found.exit_code == 0, found.output
    assert [float(line) for line in found.stdout.split()[1:]] == expected_scores(model, "both").tolist()
    for text in ("the model does not know were left out: 'more'", "were absent, and count as missing: 'city'"):
        assert found.stderr.count(text) == 1
    evaluated = CliRunner().invoke(main, ["evaluate", str(tmp_path / "m.fiol"), str(path), "--json"])
    assert evaluated.exit_code == 0, evaluated.output
    labels = np.where(expected_scores(model, "both") > 0.0, "yes", "no")
    assert json.loads(evaluated.stdout)["accuracy"] == pytest.approx(np.mean(labels == changed["sold"]))
    assert "'more'" in evaluated.stderr


@pytest.mark.parametrize("ending", ENDINGS)
def test_on_error_stop_refuses_other_columns(model, tmp_path, ending):
    model.save(tmp_path / "m.fiol")
    path = written(CHANGES["unknown"](table()), tmp_path / f"new.{ending}")
    found = CliRunner().invoke(main, ["predict", str(tmp_path / "m.fiol"), str(path), "--on-error", "stop"])
    assert found.exit_code == 1
    assert "'more'" in found.stderr
    with pytest.raises((SourceError, BadLineError), match="'more'"):
        model.evaluation(path, on_error="stop")


@pytest.mark.parametrize("ending", ENDINGS)
def test_files_without_any_column_of_the_model_raise(model, tmp_path, ending):
    path = written(table().rename(columns={"age": "a", "size": "b", "city": "c"}), tmp_path / f"new.{ending}")
    with pytest.raises(SourceError, match="missing 'age', 'size', 'city'; unexpected 'a', 'b', 'c'"):
        model.scores(path)
    with pytest.raises(ValueError, match="missing 'age', 'size', 'city'; unexpected 'a', 'b', 'c'"):
        model.scores(table().rename(columns={"age": "a", "size": "b", "city": "c"}).drop(columns="sold"))


def test_evaluate_report_and_read_warn_of_other_columns(model, tmp_path):
    path, whole = written(CHANGES["both"](table()), tmp_path / "it's new.csv"), written(table(), tmp_path / "whole.csv")
    unknown = f"{path}: columns that the model does not know were left out: 'more'"
    absent = f"{path}: columns of the model were absent, and count as missing: 'city'"
    for call in (lambda: model.evaluate(path), lambda: model.report(tmp_path / "page.html", path)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        assert [str(warning.message) for warning in caught] == [unknown, absent]
        assert {warning.filename for warning in caught} == {__file__}
    more = written(table().assign(more=1.0), path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert sum(batch.rows for batch in fiol.read([whole, more], "sold")) == 2 * ROWS
    assert [(str(warning.message), warning.filename) for warning in caught] == [(unknown, __file__)]


def test_convert_prints_unknown_columns_and_odd_cells(tmp_path):
    first, second = written(table(), tmp_path / "1.csv"), tmp_path / "2.csv"
    written(table().assign(more=1.0).astype({"age": object}).replace({"age": {table()["age"][3]: "old"}}), second)
    found = CliRunner().invoke(main, ["convert", str(first), str(second), "--target", "size", "-o", f"{tmp_path}/a.vw"])
    assert found.exit_code == 0, found.output
    assert f"{second}: columns that the model does not know were left out: 'more'" in found.stderr
    assert f"1 cell of column 'age' could not be read and became missing, the first at {second}:5" in found.stderr


@pytest.mark.parametrize("files", [["new.jsonl"], ["good.jsonl", "new.jsonl"]])
def test_update_refuses_json_lines_without_any_column_and_keeps_the_model(model, tmp_path, files):
    old, new = tmp_path / "m.fiol", tmp_path / "new.jsonl"
    model.save(old)
    before = old.read_bytes()
    written(table(), tmp_path / "good.jsonl")
    new.write_text('{"Age": 30.0, "sold": "yes"}\n{"Age": 31.0, "sold": "no"}\n')
    found = CliRunner().invoke(main, ["train", *(str(tmp_path / file) for file in files), "--update", str(old)])
    assert found.exit_code == 1
    assert "missing 'age', 'size', 'city'; unexpected 'Age'" in found.stderr
    assert old.read_bytes() == before


@pytest.mark.parametrize("ending", ENDINGS)
def test_update_leaves_unknown_columns_out(model, tmp_path, ending):
    old, new = tmp_path / "m.fiol", written(CHANGES["unknown"](table()), tmp_path / f"new.{ending}")
    model.save(old)
    expected = fiol.train(written(table(), tmp_path / f"same.{ending}"), update=old)
    with pytest.warns(UserWarning, match="the model does not know were left out: 'more', 'note'"):
        found = fiol.train(new, update=old)
    assert found.names == expected.names
    assert np.array_equal(found.weights, expected.weights)


@pytest.mark.parametrize("ending", [*ENDINGS[:2], *ENDINGS[3:]])
def test_update_refuses_absent_columns_and_keeps_the_model(model, tmp_path, ending):
    old, new = tmp_path / "m.fiol", written(CHANGES["both"](table()), tmp_path / f"new.{ending}")
    model.save(old)
    before = old.read_bytes()
    found = CliRunner().invoke(main, ["train", str(new), "--update", str(old)])
    assert found.exit_code == 1
    assert "missing 'city'; unexpected 'more'" in found.stderr
    assert old.read_bytes() == before


@pytest.mark.parametrize("numeric", [False, True])
def test_frames_to_learn_from_need_all_columns(numeric):
    frame = table().drop(columns=["sold", *(["city"] if numeric else [])])
    y = np.where(table()["sold"] == "yes", 1.0, -1.0)
    models = [fiol.Learner(fiol.FIOL(fiol.Logistic())) for _ in range(2)]
    models[0].learn(frame, y)
    with pytest.raises(ValueError, match="missing 'age'"):
        models[0].learn(frame.drop(columns="age"), y)
    with pytest.warns(UserWarning, match="no columns of the model, and are left out: 'more'"):
        models[0].learn(frame.assign(more=1.0), y)
    models[1].learn(frame, y)
    models[1].learn(frame, y)
    assert models[0].names == models[1].names
    assert np.array_equal(models[0].weights, models[1].weights)


def test_frames_of_numbers_with_other_columns_have_the_scores_of_dicts():
    frame = table()[["age", "size"]]
    model = fiol.Learner(fiol.FIOL(fiol.Logistic()))
    model.learn(frame, np.where(table()["sold"] == "yes", 1.0, -1.0))
    with pytest.warns(UserWarning, match="'more'"):
        assert np.array_equal(model.scores(frame.assign(more=1.0)), model.scores(frame))
    with pytest.warns(UserWarning, match="count as missing: 'age'"):
        found = model.scores(frame[["size"]])
    assert np.array_equal(found, model.scores(frame[["size"]].to_dict("records")))


def test_estimators_with_columns_of_text_leave_unknown_columns_out():
    frame, y = table().drop(columns="sold"), table()["sold"]
    model = fiol.FIOLClassifier(max_iter=1, shuffle=False, random_state=0).fit(frame, y)
    expected = model.decision_function(frame)
    with pytest.warns(UserWarning, match="'more'"):
        assert np.array_equal(model.decision_function(frame.assign(more=1.0)), expected)
    assert np.array_equal(model.decision_function(frame.assign(more=1.0).to_dict("records")), expected)
    with pytest.warns(UserWarning, match="count as missing: 'age'"):
        found = model.decision_function(frame.drop(columns="age"))
    assert np.array_equal(found, model.decision_function(frame.drop(columns="age").to_dict("records")))


def test_saved_estimators_leave_unknown_columns_of_files_out(tmp_path):
    frame, y = table()[["age", "size"]], table()["sold"]
    fiol.FIOLClassifier(max_iter=1, shuffle=False, random_state=0).fit(frame, y).save(tmp_path / "e.fiol")
    model = open_model(tmp_path / "e.fiol")
    for ending in ENDINGS:
        path = written(frame.assign(more=1.0), tmp_path / f"new.{ending}")
        with pytest.warns(UserWarning, match="'more'"):
            assert np.array_equal(model.scores(path), model.scores(frame))
    with pytest.raises(SourceError, match="missing 'age'"):
        model.scores(written(frame[["size"]], tmp_path / "less.csv"))


def test_saved_estimators_of_numbers_name_columns_with_missing_values(tmp_path):
    frame, y = table()[["age", "size"]], table()["sold"]
    fiol.FIOLClassifier(max_iter=1, shuffle=False, random_state=0).fit(frame, y).save(tmp_path / "e.fiol")
    path = written(frame.assign(size=np.where(frame["size"] > 1.0, np.nan, frame["size"])), tmp_path / "new.csv")
    with pytest.raises(ValueError, match="column 'size' has missing values, but the model learned from numbers alone"):
        open_model(tmp_path / "e.fiol").scores(path)


def test_river_reads_frames_with_other_columns_as_dicts():
    frame, y = table().drop(columns="sold"), table()["sold"]
    model = fiol.river.FIOLClassifier()
    model.learn_many(frame, y)
    for changed in (frame.assign(more=1.0), frame.drop(columns="age")):
        found = model.predict_proba_many(changed)
        rows = [model.predict_proba_one(row) for row in changed.to_dict("records")]
        assert np.allclose(found["yes"], [row["yes"] for row in rows], rtol=1e-12, atol=0.0)
    same = model.predict_proba_many(frame)
    assert np.array_equal(model.predict_proba_many(frame.assign(more=1.0)), same)


def test_training_leaves_out_columns_that_the_first_file_does_not_have(tmp_path):
    first, second = written(table(), tmp_path / "1.csv"), written(table().assign(more=1.0), tmp_path / "2.csv")
    expected = fiol.train([first, first], target="sold", algorithm="FIOL")
    with pytest.warns(UserWarning, match=r"2\.csv: columns that the model does not know were left out: 'more'"):
        found = fiol.train([first, second], target="sold", algorithm="FIOL")
    assert np.array_equal(found.weights, expected.weights)
    with pytest.raises(SourceError, match="unexpected 'more'"):
        fiol.train([first, second], target="sold", algorithm="FIOL", on_error="stop")


def test_optional_columns_of_a_model_of_json_lines_are_no_features_if_absent(tmp_path):
    lines = table().to_json(orient="records", lines=True)
    model = fiol.train(io.BytesIO(lines.encode()), "sold", algorithm="FIOL")
    path = written(table().drop(columns=["age", "sold"]), tmp_path / "new.csv")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = model.scores(path)
        frame = model.scores(table().drop(columns=["age", "sold"]))
    expected = model.scores(table().drop(columns=["age", "sold"]).to_dict("records"))
    assert np.array_equal(found, expected)
    assert np.array_equal(frame, expected)


def test_file_with_another_delimiter_gives_a_hint(tmp_path):
    model = fiol.train(written(table(), tmp_path / "old.csv"), target="sold", algorithm="FIOL")
    table().to_csv(tmp_path / "new.csv", index=False, sep=";")
    with pytest.raises(SourceError, match=r"another delimiter\? reader=\{'delimiter': ';'\}"):
        model.scores(tmp_path / "new.csv")


def nested_table():
    """Return rows with a column of dicts, some of which are missing or lack a key."""
    frame = table()
    places = [{"city": city, "more": {"size": size}} for city, size in zip(frame["city"], frame["size"], strict=True)]
    places[3], places[7] = None, {"city": "Rome", "more": None}
    return pd.DataFrame({"age": frame["age"], "place": places, "sold": frame["sold"]})


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames_with_structs_have_the_scores_of_the_same_rows_as_dicts(library, recwarn):
    frame = nested_table()
    polars_frame = pl.from_pandas(frame)
    frames = {"pandas": frame, "polars": polars_frame, "pyarrow": polars_frame.to_arrow()}
    model = fiol.train(frames[library], target="sold", algorithm="FIOL")
    assert model.columns == ("age", "place.city", "place.more.size")
    rows = frames[library][:9] if library != "pyarrow" else frames[library].slice(0, 9)
    scores, learned = model.scores(rows), model.copy().learn(rows, frame["sold"][:9])
    assert not recwarn.list
    dicts = polars_frame[:9].drop("sold").to_dicts()
    np.testing.assert_array_equal(scores, model.scores(dicts))
    np.testing.assert_array_equal(learned, model.copy().learn(dicts, frame["sold"][:9]))


def test_unknown_columns_of_plain_values_are_not_taken_for_structs(recwarn):
    model = fiol.train(nested_table(), target="sold", algorithm="FIOL")
    model.scores(table()[["age"]].assign(place="Rome"))
    assert "no columns of the model, and are left out: 'place'" in str(recwarn.list[0].message)
    assert "which count as missing: 'place.city', 'place.more.size'" in str(recwarn.list[1].message)
