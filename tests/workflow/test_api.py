"""`fiol.train`, `fiol.read` and the models that they return; files of estimators in the command."""

import contextlib
import csv
import io
import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from tests.cli.test_train import SINGLE, invoke
from tests.interpreted import interpret_all

import fiol
from fiol.readers.batch import SourceError
from fiol.readers.digests import FileDigest
from fiol.training.run import Training
from fiol.workflow.errors import OptionError
from fiol.workflow.frame_file import frame_file
from fiol.workflow.model import open_model

ROWS = 60


@pytest.fixture(autouse=True)
def in_the_interpreter(monkeypatch):
    interpret_all(monkeypatch)


@pytest.fixture
def table(tmp_path):
    """Return a CSV file with numbers and text, and its frame."""
    draw = np.random.default_rng(3)
    frame = pd.DataFrame(
        {"size": draw.normal(50.0, 9.0, ROWS).round(2), "city": draw.choice(["Rome", "Oslo", "Bonn"], ROWS)}
    )
    score = 0.1 * (frame["size"] - 50.0) + 2.0 * (frame["city"] == "Oslo") + draw.normal(size=ROWS)
    frame["sold"] = np.where(score > 0.5, "yes", "no")
    frame.to_csv(tmp_path / "table.csv", index=False)
    return tmp_path / "table.csv", pd.read_csv(tmp_path / "table.csv")


def test_train_returns_the_model_of_the_command(table, tmp_path):
    path, frame = table
    invoke("train", path, "--target", "sold", *SINGLE, "-o", tmp_path / "model.fiol")
    by_command = fiol.load(tmp_path / "model.fiol")
    for data in (path, str(path), [path], frame, pl.from_pandas(frame)):
        model = fiol.train(data, target="sold", algorithm="FIOL")
        assert isinstance(model, fiol.TrainedModel)
        assert model.weights.tobytes() == by_command.weights.tobytes()
        assert (model.labels, model.columns) == (["no", "yes"], ("size", "city"))
    labels = [
        row["label"] for row in csv.DictReader(io.StringIO(invoke("predict", tmp_path / "model.fiol", path).output))
    ]
    for X in (path, frame, frame.drop(columns="sold"), pl.from_pandas(frame)):
        assert by_command.predict(X).tolist() == labels
    p = by_command.predict_proba(frame)
    assert p.shape == (ROWS, 2)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    found = json.loads(invoke("evaluate", tmp_path / "model.fiol", path, "--json").output)
    for given in ((path,), (frame,), (frame.drop(columns="sold"), frame["sold"])):
        assert by_command.evaluate(*given)["auc"] == found["auc"]
    by_command.report(tmp_path / "page.html", path)
    assert "<html" in (tmp_path / "page.html").read_text()


def test_train_writes_resumes_and_updates_files(table, tmp_path):
    _, frame = table
    first, rest = tmp_path / "first.csv", tmp_path / "rest.csv"
    frame[:25].to_csv(first, index=False)
    frame[25:].to_csv(rest, index=False)
    whole = fiol.train([first, rest], "sold", algorithm="FIOL", output=tmp_path / "whole.fiol")
    fiol.train(first, "sold", algorithm="FIOL", output=tmp_path / "model.fiol")
    model = fiol.train(rest, output=tmp_path / "model.fiol", update=tmp_path / "model.fiol")
    assert model.weights.tobytes() == whole.weights.tobytes()
    again = fiol.train([first, rest], "sold", algorithm="FIOL", output=tmp_path / "whole.fiol", resume=True)
    assert again.weights.tobytes() == whole.weights.tobytes()


@pytest.mark.parametrize("form", ["frame", "open file"])
def test_resume_of_a_finished_run_refuses_other_rows_in_memory(table, tmp_path, form):
    _, frame = table
    rows = {"frame": lambda frame: frame, "open file": lambda frame: io.BytesIO(frame.to_csv(index=False).encode())}[
        form
    ]
    path = tmp_path / "model.fiol"
    model = fiol.train(rows(frame), "sold", algorithm="FIOL", output=path)
    same = fiol.train(rows(frame), "sold", algorithm="FIOL", output=path, resume=True)
    assert same.weights.tobytes() == model.weights.tobytes()
    with pytest.raises(
        SourceError, match=r"has changed: its first [\d,]+ (bytes|rows) are not those that the model learned"
    ):
        fiol.train(rows(frame[::-1]), "sold", algorithm="FIOL", output=path, resume=True)


def test_resume_of_a_finished_run_warns_of_files_that_have_grown(table, tmp_path):
    path, frame = table
    fiol.train(path, "sold", algorithm="FIOL", output=tmp_path / "model.fiol")
    frame.to_csv(path, index=False, header=False, mode="a")
    with pytest.warns(UserWarning, match=r"has grown since the run was finished: its new rows are not learned"):
        model = fiol.train(path, "sold", algorithm="FIOL", output=tmp_path / "model.fiol", resume=True)
    assert model.rounds == len(frame)


def test_resume_of_a_finished_run_warns_of_files_that_are_new_in_its_folder(table, tmp_path):
    path, frame = table
    folder = tmp_path / "days"
    folder.mkdir()
    for day in (1, 3):
        (folder / f"{day}.csv").write_text(path.read_text())
    given = {"data": str(folder / "*.csv"), "target": "sold", "algorithm": "FIOL", "output": tmp_path / "model.fiol"}
    fiol.train(**given)
    (folder / "2.csv").write_text(path.read_text())
    with pytest.warns(UserWarning, match=r"2\.csv was not there when the run was finished: its rows are not learned"):
        model = fiol.train(**given, resume=True)
    assert model.rounds == 2 * len(frame)


@pytest.mark.parametrize("library", [pd.DataFrame, pl.from_pandas], ids=["pandas", "polars"])
def test_frames_that_have_grown_or_changed_are_named_by_rows(table, tmp_path, library):
    _, frame = table
    frame = frame.assign(gap=frame["size"].where(frame["size"] > 50), old=frame["size"] > 45, kind=frame["city"])
    frame = frame.assign(kind=frame["kind"].astype("category"), note=frame["city"].where(frame["old"]))
    path, first = tmp_path / "model.fiol", library(frame[:45])
    fiol.train(first, "sold", algorithm="FIOL", output=path)
    with pytest.warns(UserWarning, match="a frame has grown since the run was finished: its new rows"):
        assert fiol.train(library(frame), "sold", algorithm="FIOL", output=path, resume=True).rounds == 45
    with pytest.warns(UserWarning, match="the model has learned the first 45 rows of a frame before"):
        fiol.train(library(frame), update=path, output=tmp_path / "other.fiol")
    with pytest.raises(
        SourceError, match="a frame has changed: its first 45 rows are not those that the model learned"
    ):
        fiol.train(library(frame[::-1]), "sold", algorithm="FIOL", output=path, resume=True)


def test_resume_accepts_the_frame_of_a_file_with_digests_of_bytes(table, tmp_path):
    _, frame = table
    path, given = tmp_path / "model.fiol", {"target": "sold", "algorithm": "FIOL"}
    model = fiol.train(frame, **given, output=path)
    model.meta["training"]["digests"] = [["a frame", *FileDigest("a frame", frame_file(frame, "sold")).of_first()]]
    model.save(path)
    assert fiol.train(frame, **given, output=path, resume=True).rounds == len(frame)
    with pytest.raises(SourceError, match="a frame has changed"):
        fiol.train(frame[::-1], **given, output=path, resume=True)


def test_digests_of_frames_are_of_categories_and_not_of_their_codes(table, tmp_path):
    _, frame = table
    frame = frame.assign(kind=frame["city"].astype("category"))
    path, given = tmp_path / "model.fiol", {"target": "sold", "algorithm": "FIOL"}
    fiol.train(frame, **given, output=path)
    grown = pd.concat([frame, frame[:1].assign(kind="Aachen")], ignore_index=True).astype({"kind": "category"})
    with pytest.warns(UserWarning, match="a frame has grown since the run was finished"):  # other codes
        fiol.train(grown, **given, output=path, resume=True)
    renamed = frame.assign(kind=frame["kind"].cat.rename_categories(str.upper))
    with pytest.raises(SourceError, match="a frame has changed: its first"):  # the same codes
        fiol.train(renamed, **given, output=path, resume=True)


@contextlib.contextmanager
def interrupted(monkeypatch, rows):
    """Write a checkpoint and interrupt training after some rows."""
    learn = Training._learn

    def stop(run, block):
        if run.rows >= rows:
            run.checkpoint()
            raise KeyboardInterrupt
        return learn(run, block)

    with monkeypatch.context() as patch:
        patch.setattr("fiol.training.run.WORK_AT_ONCE", 30)
        patch.setattr(Training, "_learn", stop)
        with contextlib.suppress(KeyboardInterrupt):
            yield
            pytest.fail("training was not interrupted")


@pytest.mark.parametrize(("new", "gone"), [("2", None), ("4", None), (None, "3")])
def test_resume_of_an_interrupted_run_refuses_other_files_in_its_folder(table, tmp_path, monkeypatch, new, gone):
    path, _ = table
    folder, output = tmp_path / "days", tmp_path / "model.fiol"
    folder.mkdir()
    for day in (1, 3):
        (folder / f"{day}.csv").write_text(path.read_text())
    given = {"data": str(folder), "target": "sold", "algorithm": "FIOL", "output": output}
    with interrupted(monkeypatch, 70):
        fiol.train(**given)
    if new is not None:
        (folder / f"{new}.csv").write_text(path.read_text())
    if gone is not None:
        (folder / f"{gone}.csv").unlink()
    with pytest.raises(ValueError, match=f"{new}.csv is new" if new else f"{gone}.csv is gone"):
        fiol.train(**given, resume=True)


def test_resume_of_an_update_keeps_digests_of_the_files_before(table, tmp_path, monkeypatch):
    path, _ = table
    output, new = tmp_path / "model.fiol", [tmp_path / "second.csv", tmp_path / "third.csv"]
    for k, rest in enumerate(new):
        rest.write_text("".join(path.read_text().splitlines(keepends=True)[: 45 + k]))
    fiol.train(path, "sold", algorithm="FIOL", output=tmp_path / "first.fiol")
    fiol.train(new, update=tmp_path / "first.fiol", output=tmp_path / "whole.fiol")
    with interrupted(monkeypatch, ROWS + 44):
        fiol.train(new, update=tmp_path / "first.fiol", output=output)
    fiol.train(new, update=tmp_path / "first.fiol", output=output, resume=True)
    assert output.read_bytes() == (tmp_path / "whole.fiol").read_bytes()


def test_resume_repeats_no_finished_update_with_a_frame_but_learns_another_frame(table, tmp_path):
    _, frame = table
    first, path = tmp_path / "first.fiol", tmp_path / "model.fiol"
    fiol.train(frame[:25], "sold", algorithm="FIOL", output=first)
    model = fiol.train(frame[25:], update=first, output=path)
    same = fiol.train(frame[25:], update=first, output=path, resume=True)
    assert same.weights.tobytes() == model.weights.tobytes()
    other = fiol.train(frame[27:], update=first, output=path, resume=True)
    assert other.rounds == len(frame) - 2
    with pytest.warns(UserWarning, match="the model has learned the rows of a frame before"):
        fiol.train(frame[27:], update=path, output=path)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pd.period_range("2024-01", periods=ROWS, freq="M"), "column 'odd' holds pandas.period: convert it"),
        (pd.cut(np.arange(ROWS), 3), "column 'odd' holds pandas.interval: convert it"),
        ([2**70] * ROWS, "column 'odd' cannot be read: .* too large"),
        ([1, "one"] * (ROWS // 2), "column 'odd' cannot be read: .*Conversion failed"),
    ],
    ids=["periods", "intervals", "large numbers", "mixed types"],
)
def test_columns_of_frames_that_cannot_be_read_are_named(table, column, message):
    _, frame = table
    with pytest.raises(TypeError, match=message):
        fiol.train(frame.assign(odd=column), "sold")


def test_evaluation_names_targets_of_another_length(table):
    _, frame = table
    model = fiol.train(frame, "sold", algorithm="FIOL")
    with pytest.raises(ValueError, match=f"y must have one entry per row: {ROWS}, got 5"):
        model.evaluate(frame, frame["sold"][:5])


def test_large_frames_have_the_kinds_of_small_ones(table):
    """A frame of more than a megabyte: a reader looks at no more of it when it infers kinds."""
    _, frame = table
    large = pd.concat([frame.assign(note="x" * 2000)] * 20, ignore_index=True)
    assert len(large["note"].iloc[0]) * len(large) > 2**20
    kinds = [
        {column.name: column.kind for column in fiol.train(data, "sold", algorithm="FIOL").table_encoding.columns}
        for data in (large[: len(frame)], large, pl.from_pandas(large))
    ]
    assert kinds[0] == kinds[1] == kinds[2]
    assert kinds[0]["city"] == "category"


def test_options_of_train_are_those_of_the_command(table):
    path, _ = table
    model = fiol.train(
        path, "sold", loss="hinge", algorithm="comid", penalty="l1", alpha=0.01, columns={"city": "skip"}
    )
    assert model.update == fiol.COMID(fiol.Hinge(), fiol.L1(0.01))
    assert model.columns == ("size",)
    by_words = fiol.train(path, "sold", algorithm="FIOL", columns={"city": "words:2"})
    assert by_words.table_encoding.columns[1].spec == "words:2"
    with pytest.raises(TypeError, match="predict or scores"):
        model.predict_proba(path)
    with pytest.raises(OptionError, match=r"^alpha has no effect without penalty$"):
        fiol.train(path, "sold", alpha=0.1)
    with pytest.raises(TypeError, match="losss"):
        fiol.train(path, "sold", losss="hinge")


def test_read_yields_batches_that_learners_take(table):
    path, _ = table
    learner = fiol.Learner(fiol.FIOL(fiol.Logistic()))
    for batch in fiol.read(path, target="sold"):
        learner.learn(batch.X, [1.0 if label == "yes" else -1.0 for label in batch.y], batch.weights)
    assert learner.weights.tobytes() == fiol.train(path, "sold", algorithm="FIOL").weights.tobytes()


def estimators(frame):
    """Return fitted estimators of several kinds, and the rows they predict for."""
    X, y, numbers = frame[["size", "city"]], frame["sold"], frame["size"] * 2.0 + 1.0
    once = {"max_iter": 1, "tol": None, "shuffle": False, "step_size": "single"}
    return {
        "two classes": (fiol.FIOLClassifier(**once).fit(X, y), y),
        "numbers alone": (fiol.FIOLClassifier(**once).fit(X[["size"]], y), y),
        "regression": (fiol.FIOLRegressor(**once).fit(X, numbers), numbers),
        "softmax": (fiol.FIOLClassifier("softmax", **once).fit(X, frame["city"]), frame["city"]),
        "one against the rest": (fiol.FIOLClassifier("log_loss", **once).fit(X, frame["city"]), frame["city"]),
    }


@pytest.mark.parametrize("kind", ["two classes", "numbers alone", "regression", "softmax", "one against the rest"])
def test_command_predicts_and_inspects_models_of_estimators(table, tmp_path, kind):
    _, frame = table
    model, y = estimators(frame)[kind]
    columns = list(model.feature_names_in_)
    frame[columns].to_csv(tmp_path / "rows.csv", index=False)
    model.save(tmp_path / "model.fiol")
    rows = list(csv.DictReader(io.StringIO(invoke("predict", tmp_path / "model.fiol", tmp_path / "rows.csv").output)))
    expected = model.predict(frame[columns])
    if kind == "regression":
        np.testing.assert_allclose([float(row["prediction"]) for row in rows], expected, rtol=1e-12)
    else:
        assert [row["label"] for row in rows] == expected.tolist()
    facts = json.loads(invoke("inspect", tmp_path / "model.fiol", "--json").output)
    assert facts["features"] == model.coef_.shape[-1]
    frame[columns].assign(target=y).to_csv(tmp_path / "more.csv", index=False)
    if kind == "one against the rest":
        return
    invoke("export", tmp_path / "model.fiol", "--to", "json", "-o", tmp_path / "model.json")
    invoke("train", tmp_path / "more.csv", "--target", "target", "--update", tmp_path / "model.fiol")
    again = fiol.load(tmp_path / "model.fiol")
    assert type(again) is type(model)
    assert again.t_ == model.t_ + ROWS
    by_hand = model.partial_fit(frame[columns], y)
    assert again.coef_.tobytes() == by_hand.coef_.tobytes()


def test_mistyped_options_name_the_nearest_one(table):
    path, frame = table
    with pytest.raises(TypeError, match=r"^fiol\.train has no option 'feature': did you mean 'features'\?$"):
        fiol.train(frame, target="sold", feature="linear")
    with pytest.raises(TypeError, match=r"^fiol\.read has no option 'q': options are target, weight, "):
        next(fiol.read(path, target="sold", q=1))


def test_row_without_a_target_names_the_option_that_leaves_it_out(tmp_path):
    (tmp_path / "rows.csv").write_text("x,y\n1,2.5\n2,\n3,4.5\n")
    with pytest.raises(
        ValueError, match=r"rows\.csv:3:3: column 'y' is missing: it is the target; on_error='skip' leaves"
    ):
        fiol.train(tmp_path / "rows.csv", target="y")
    assert fiol.train(tmp_path / "rows.csv", target="y", on_error="skip").rounds == 2


@pytest.mark.parametrize("content", ["", "size,city\n"])
def test_predictions_of_no_rows_have_a_header(table, tmp_path, content):
    path, _ = table
    invoke("train", path, "--target", "sold", *SINGLE, "-o", tmp_path / "model.fiol")
    (tmp_path / "none.csv").write_text(content)
    done = invoke("predict", tmp_path / "model.fiol", tmp_path / "none.csv", "-o", tmp_path / "found.csv")
    assert (tmp_path / "found.csv").read_text() == "label,probability\n"
    assert "There are no rows to predict for" in done.output


@pytest.mark.parametrize("kind", ["two", "three", "one against the rest", "numbers"])
def test_command_predicts_evaluates_and_inspects_files_of_estimators_of_several_learners(table, tmp_path, kind):
    path, frame = table
    X, model = frame[["size"]], tmp_path / "model.fiol"
    y = frame["sold"] if kind == "two" else frame["city"]
    if kind == "numbers":
        X, y = (frame["city"] == "Oslo").astype(float).to_frame("oslo"), frame["size"]
        frame.assign(oslo=X["oslo"]).to_csv(path, index=False)
        estimator = fiol.PassiveAggressiveRegressor(random_state=0, max_iter=5, tol=None).fit(X, y)
    elif kind == "one against the rest":
        estimator = fiol.FIOLClassifier("hinge", algorithm="FIOL", max_iter=1).fit(X, y)
    else:
        estimator = fiol.PassiveAggressiveClassifier(random_state=0, max_iter=5, tol=None).fit(X, y)
    estimator.save(model)
    before = model.read_bytes()
    name = "prediction" if kind == "numbers" else "label"
    predicted = [row[name] for row in csv.DictReader(io.StringIO(invoke("predict", model, path).stdout))]
    assert predicted == list(map(str, estimator.predict(X).tolist()))
    found = json.loads(invoke("evaluate", model, path, "--target", y.name, "--json").stdout)
    score = found["r2" if kind == "numbers" else "accuracy"]
    assert score == pytest.approx(estimator.score(X, y))
    invoke("evaluate", model, path, "--target", y.name, "--report", tmp_path / "page.html")
    facts = json.loads(invoke("inspect", model, "--json").stdout)
    assert facts["rounds"] > 0
    np.testing.assert_allclose(
        np.ravel([feature["weight"] for feature in facts["top"]]), np.ravel(estimator.coef_), rtol=1e-12
    )
    done = invoke("train", path, "--update", model, "--target", y.name, code=2)
    assert f"--update cannot continue the {type(estimator).__name__} in {model}" in done.output
    assert "model.partial_fit(X, y); model.save(" in done.output
    assert model.read_bytes() == before


def test_probabilities_of_one_against_the_rest_are_evaluated(table, tmp_path):
    path, frame = table
    estimator = fiol.FIOLClassifier("log_loss", algorithm="FIOL").partial_fit(frame[["size"]], frame["city"])
    estimator.save(tmp_path / "model.fiol")
    found = json.loads(invoke("evaluate", tmp_path / "model.fiol", path, "--target", "city", "--json").stdout)
    p = estimator.predict_proba(frame[["size"]])
    codes = np.searchsorted(estimator.classes_, frame["city"])
    assert found["log_loss"] == pytest.approx(-np.log(p[np.arange(ROWS), codes]).mean())


def test_files_of_estimators_that_learned_from_arrays_say_so(table, tmp_path):
    path, frame = table
    for estimator in (fiol.FIOLClassifier(algorithm="FIOL"), fiol.PassiveAggressiveClassifier()):
        estimator.fit(frame[["size"]].to_numpy(), frame["sold"]).save(tmp_path / "model.fiol")
        done = invoke("predict", tmp_path / "model.fiol", path, code=1)
        assert done.stdout == ""
        assert f"the {type(estimator).__name__} learned from arrays, whose columns have no names" in done.stderr


@pytest.mark.parametrize("kind", ["PassiveAggressiveClassifier", "PassiveAggressiveRegressor"])
def test_model_of_a_passive_aggressive_file_is_saved_again(table, tmp_path, kind):
    _, frame = table
    X, y = frame[["size"]], frame["sold"] if kind.endswith("Classifier") else frame["size"]
    estimator = getattr(fiol, kind)(max_iter=1, random_state=0).fit(X, y)
    first, second = tmp_path / "first.fiol", tmp_path / "second.fiol"
    estimator.save(first)
    model = open_model(first, compiled=False)
    model.save(second)
    assert second.read_bytes() == first.read_bytes()
    model.learn(X, y)
    model.save(second)
    again = open_model(second, compiled=False)
    assert again.predict(X).tolist() == model.predict(X).tolist()
    assert again.estimator is None


def test_predictions_of_a_file_with_another_delimiter_take_reader(table, tmp_path):
    path, frame = table
    model = fiol.train(path, target="sold", algorithm="FIOL")
    other = tmp_path / "other.csv"
    frame.to_csv(other, index=False, sep=";")
    with pytest.raises(ValueError, match=r"reader=\{'delimiter': ';'\}"):
        model.predict(other)
    reader = {"delimiter": ";"}
    snapshot = model.snapshot()
    assert snapshot.predict_proba(other, reader=reader).tolist() == snapshot.predict_proba(path).tolist()
    assert snapshot.scores(other, reader=reader).tolist() == snapshot.scores(path).tolist()
    assert snapshot.predict(other, reader=reader).tolist() == model.predict(path).tolist()
    for method in (model.predict, model.scores, model.predict_proba):
        assert method(other, reader=reader).tolist() == method(path).tolist()
    assert model.evaluate(other, reader=reader) == model.evaluate(path)
    model.report(tmp_path / "page.html", other, reader=reader)
    with pytest.raises(ValueError, match="is for files, but X is no path"):
        model.predict(frame, reader=reader)


def test_predictions_take_on_error(table, tmp_path):
    path, _ = table
    model = fiol.train(path, target="sold", algorithm="FIOL")
    path.write_text(path.read_text() + "1\n")
    for method in (model.predict, model.evaluate):
        with pytest.raises(ValueError, match="1 field"):
            method(path)
    assert len(model.predict(path, on_error="skip")) == ROWS
    assert model.evaluate(path, on_error="skip")["rows"] == ROWS


def test_row_index_of_pandas_is_no_column():
    frame = pd.DataFrame({"a": np.arange(60.0) % 7, "t": np.arange(60) >= 30})
    shuffled = frame.sample(frac=1.0, random_state=0)  # an index from which the target follows
    model = fiol.train(shuffled, target="t")
    assert model.columns == ("a",)
    assert np.array_equal(model.weights, fiol.train(shuffled.reset_index(drop=True), target="t").weights)
