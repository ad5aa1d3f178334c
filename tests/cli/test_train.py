"""`fiol train`, `predict`, `evaluate` and `inspect` on files."""

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from importlib.metadata import metadata

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file
from sklearn.metrics import log_loss, roc_auc_score
from tests.commands import CliRunner
from tests.interpreted import interpret_all

import fiol
from fiol import cli
from fiol.features.column_kinds import COLUMN_KINDS
from fiol.features.table_encoding import column_from_spec
from fiol.names import ALGORITHMS
from fiol.training import run as loop

SINGLE = ["--algorithm", "FIOL"]


@pytest.fixture(autouse=True)
def small_table_in_the_interpreter(monkeypatch):
    interpret_all(monkeypatch)
    monkeypatch.setattr(loop, "FIRST_LINE", 50)


def invoke(*arguments, code=0, **options):
    done = CliRunner().invoke(cli.main, list(map(str, arguments)), **options)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert code in (None, done.exit_code), done.output
    return done


def make_data(n=200, seed=1):
    draw = np.random.default_rng(seed)
    X = draw.normal(size=(n, 5)).round(3) * (draw.random((n, 5)) < 0.8)
    z = X @ [1.0, -2.0, 0.5, 0.0, 1.5]
    return X, z, draw


@pytest.fixture
def two(tmp_path):
    """A file with targets 0 and 1."""
    X, z, draw = make_data()
    y = (z + draw.normal(size=len(z)) > 0.0).astype(int)
    dump_svmlight_file(X, y, str(tmp_path / "two.svm"), zero_based=False)
    return tmp_path / "two.svm", X, y


def test_train_predict_and_evaluate(two, tmp_path):
    path, X, y = two
    model = tmp_path / "two.fiol"
    printed = invoke("train", path, "-o", model).output
    assert "two values, 0 and 1: logistic loss, 1 is positive" in printed
    assert "Ensemble" in printed
    assert [line.split()[0] for line in printed.splitlines() if line.strip()[:1].isdigit()] == ["50", "100", "200"]
    learner = fiol.load(model)
    by_hand = fiol.Learner()
    by_hand.learn(X, 2.0 * y - 1.0)
    assert learner.weights.tobytes() == by_hand.weights.tobytes()
    assert [line["rows"] for line in learner.meta["history"]] == [50, 100, 200]

    rows = list(csv.DictReader(io.StringIO(invoke("predict", model, path).output)))
    p = by_hand.predict(X)
    assert [float(row["probability"]) for row in rows] == p.tolist()
    assert [row["label"] for row in rows] == [str(int(z > 0.5)) for z in p]
    more = tmp_path / "predictions.csv"
    invoke("predict", model, path, "--scores", "--uncertainty", "-o", more)
    rows = list(csv.DictReader(io.StringIO(more.read_text())))
    assert list(rows[0]) == ["score", "uncertainty"]
    assert [float(row["score"]) for row in rows] == by_hand.scores(X).tolist()
    assert [float(row["uncertainty"]) for row in rows] == by_hand.uncertainty(X).tolist()
    printed = invoke("predict", model, path, "--probabilities", "--labels", "--json").output.splitlines()
    assert json.loads(printed[0]) == {"label": int(p[0] > 0.5), "probability": p[0]}

    found = json.loads(invoke("evaluate", model, path, "--json").output)
    assert found["log_loss"] == pytest.approx(log_loss(y, p))
    assert found["auc"] == pytest.approx(roc_auc_score(y, p))
    text = invoke("evaluate", model, path, "--plot", tmp_path / "two.png").output
    assert "Brier score" in text
    assert "true \\ predicted" in text
    assert (tmp_path / "two.png").stat().st_size > 5000

    printed = invoke("inspect", model, "--top", 2).output
    assert "Data: svmlight" in printed
    assert "logistic loss, 1 is positive" in printed
    facts = json.loads(invoke("inspect", model, "--json").output)
    assert facts["nonzeros"] == by_hand.n_nonzero
    assert [feature["feature"] for feature in facts["top"][:2]] == [1, 4]
    assert facts["top"][0]["weight"] == by_hand.weights[1]
    assert facts["recipe"]
    assert len(facts["members"]) == 7


def test_train_on_numbers_and_classes(tmp_path):
    X, z, draw = make_data()
    dump_svmlight_file(X, (z + draw.normal(size=200)).round(2), str(tmp_path / "numbers.svm"), zero_based=False)
    dump_svmlight_file(X, np.digitize(z, [-1.0, 1.0]) + 3, str(tmp_path / "classes.svm"), zero_based=False)
    printed = invoke("train", tmp_path / "numbers.svm", *SINGLE, "-o", tmp_path / "numbers.fiol").output
    assert "squared loss" in printed
    assert invoke("predict", tmp_path / "numbers.fiol", tmp_path / "numbers.svm").output.startswith("prediction\n")
    found = json.loads(invoke("evaluate", tmp_path / "numbers.fiol", tmp_path / "numbers.svm", "--json").output)
    assert 0.7 < found["r2"] < 1.0
    printed = invoke("train", tmp_path / "classes.svm", *SINGLE, "-o", tmp_path / "classes.fiol", "--json").output
    printed = json.loads(printed)
    assert printed["labels"] == [3, 4, 5]
    assert printed["loss"] < printed["constant"]
    rows = list(
        csv.DictReader(io.StringIO(invoke("predict", tmp_path / "classes.fiol", tmp_path / "classes.svm").output))
    )
    assert {row["label"] for row in rows} == {"3", "4", "5"}
    assert all(float(row["probability"]) >= 1 / 3 for row in rows)
    header = invoke("predict", tmp_path / "classes.fiol", tmp_path / "classes.svm", "--scores").output.splitlines()[0]
    assert header == "score of 3,score of 4,score of 5"
    assert "accuracy" in invoke("evaluate", tmp_path / "classes.fiol", tmp_path / "classes.svm").output
    invoke("inspect", tmp_path / "classes.fiol")
    invoke("predict", tmp_path / "numbers.fiol", tmp_path / "numbers.svm", "--probabilities", code=2)
    done = invoke("predict", tmp_path / "numbers.fiol", tmp_path / "numbers.svm", "--uncertainty", code=2)
    assert "Curvature" in done.output


def test_options_reach_the_learner(two, tmp_path):
    path, _, _ = two
    model = tmp_path / "two.fiol"
    options = ["--loss", "hinge", "--penalty", "l1", "--alpha", "0.01", "--step-size", "0.5", "--bits", "4"]
    invoke("train", path, "-o", model, "--algorithm", "COMID", *options, "--no-intercept", "--dtype", "float32")
    learner = fiol.load(model)
    assert learner.update == fiol.COMID(fiol.Hinge(), fiol.L1(0.01), step_size=fiol.Constant(0.5))
    assert (learner.bits, learner.intercept_fitted, learner.dtype.name) == (4, False, "float32")
    assert invoke("predict", model, path).output.startswith("label,score\n")
    assert "log_loss" not in json.loads(invoke("evaluate", model, path, "--json").output)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--loss", "hingee"], "there is no loss 'hingee'"),
        (["--algorithm", "SDG"], "there is no algorithm 'SDG'"),
        (["--algorithm", "PA1", "--penalty", "l1"], "PA1 has no use for penalty='l1'"),
        (["--step-size", "-1"], "--step-size is a number above 0"),
        (["--step-size", "nan"], "--step-size"),
        (["--alpha", "inf"], "--alpha"),
        (["--passes", "0"], "--passes"),
        (["--holdout", "1"], "--holdout"),
        (["--early-stop", "1"], "--early-stop needs --holdout"),
        (["--bits", "4", "--max-features", "9"], "exclude each other"),
        (["--average", "--loss", "softmax", "--penalty", "l1"], "Softmax"),
        (["--reader", "zero_based"], "NAME=VALUE"),
        (["-o", "nowhere/two.fiol"], "folder"),
    ],
)
def test_invalid_options_are_rejected(two, tmp_path, options, words):
    path, _, _ = two
    done = invoke("train", path, *([] if "-o" in options else ["-o", tmp_path / "new.fiol"]), *options, code=2)
    assert words in done.output
    assert "Traceback" not in done.output
    assert sorted(os.listdir(tmp_path)) == ["two.svm"]


def test_invalid_data_and_models_are_rejected(two, tmp_path):
    path, _, _ = two
    bad, model = tmp_path / "bad.svm", tmp_path / "bad.fiol"
    bad.write_text(path.read_text() + "1 x:1\n0 1:2\n")
    done = invoke("train", bad, *SINGLE, "-o", model, code=1)
    assert f"{bad}:201" in done.output
    assert "Traceback" not in done.output
    assert not model.exists()
    done = invoke("train", bad, *SINGLE, "-o", model, "--on-error", "skip")
    assert "1 line could not be read" in done.output
    assert fiol.load(model).rounds == 201
    before = model.read_bytes()
    for code, words, arguments in [
        (2, "exists", ["train", path, "-o", model]),
        (1, "no file", ["train", tmp_path / "nowhere.svm", "-o", tmp_path / "new.fiol"]),
        (1, "201", ["predict", model, bad]),
        (1, "", ["predict", path, path]),
        (1, "neither 0 nor 1", ["evaluate", model, tmp_path / "other.svm"]),
        (1, "all of the first", ["train", tmp_path / "ones.svm", "-o", tmp_path / "new.fiol"]),
        (2, "does not exist", ["predict", tmp_path / "nowhere.fiol", path]),
        (2, "exists", ["predict", model, path, "-o", path]),
    ]:
        (tmp_path / "other.svm").write_text("3 1:1\n")
        (tmp_path / "ones.svm").write_text("1 1:1\n1 2:1\n")
        done = invoke(*arguments, code=code)
        assert words in done.output
        assert "Traceback" not in done.output
    assert model.read_bytes() == before
    invoke("predict", model, bad, "-o", tmp_path / "half.csv", code=1)
    assert {*os.listdir(tmp_path)} == {"two.svm", "bad.svm", "bad.fiol", "other.svm", "ones.svm"}
    invoke("train", path, *SINGLE, "-o", model, "--force")
    assert fiol.load(model).rounds == 200


def test_full_disk_leaves_no_partial_file(two, tmp_path, monkeypatch):
    path, _, _ = two
    model = tmp_path / "two.fiol"
    invoke("train", path, *SINGLE, "-o", model)
    before = model.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fiol.persistence.model_file.pour", full)
    done = invoke("train", path, *SINGLE, "-o", model, "--force", code=1)
    assert "No space left" in done.output
    assert model.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["two.fiol", "two.svm"]


def test_train_from_standard_input_and_folders(two, tmp_path):
    path, _, _ = two
    lines = path.read_text().splitlines(keepends=True)
    model = tmp_path / "two.fiol"
    invoke("train", "-", *SINGLE, "-o", model, input=path.read_bytes())
    whole = fiol.load(model).weights.tobytes()
    folder = tmp_path / "parts"
    folder.mkdir()
    (folder / "a.svm").write_text("".join(lines[:120]))
    (folder / "b.svm").write_text("".join(lines[120:]))
    invoke("train", folder, *SINGLE, "-o", tmp_path / "parts.fiol")
    assert fiol.load(tmp_path / "parts.fiol").weights.tobytes() == whole
    done = invoke("train", "-", *SINGLE, "--passes", 2, "-o", tmp_path / "new.fiol", input=path.read_bytes(), code=2)
    assert "can be read again" in done.output


@pytest.mark.parametrize(
    "options",
    [[], ["--passes", 3, "--shuffle", 30, "--holdout", 0.2, "--early-stop", 1]],
    ids=["one pass", "early stop"],
)
def test_checkpoint_resumes_to_the_same_file(two, tmp_path, monkeypatch, options):
    path, _, _ = two
    monkeypatch.setattr(loop, "WORK_AT_ONCE", 60)
    whole, broken = tmp_path / "whole.fiol", tmp_path / "broken.fiol"
    command = ["train", path, *SINGLE, *options]
    invoke(*command, "-o", whole)
    count, killed = [0], [3, 5, 11, 17]
    save = fiol.Learner.save

    class KilledError(Exception):
        pass

    def save_and_die(self, where):
        save(self, where)
        count[0] += not str(where).endswith(".best")
        if killed and count[0] == killed[0]:
            killed.pop(0)
            raise KilledError

    monkeypatch.setattr(fiol.Learner, "save", save_and_die)
    for _ in range(5):
        done = CliRunner().invoke(
            cli.main, [*map(str, command), "-o", str(broken), "--resume", "--checkpoint-rows", "9"]
        )
        if done.exit_code == 0:
            break
        assert isinstance(done.exception, KilledError), done.output
    assert not killed
    assert broken.read_bytes() == whole.read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["broken.fiol", "two.svm", "whole.fiol"]
    assert "nothing is left to do" in invoke(*command, "-o", broken, "--resume").output
    with_seed = {"--shuffle", "--holdout"} & set(options)
    other, message = (
        (["--seed", 2], "with --seed 1, not with --seed 2")
        if with_seed
        else (["--no-intercept"], "without --no-intercept, not with --no-intercept")
    )
    done = invoke(*command, *other, "-o", broken, "--resume", code=2)
    assert f"was made {message}" in done.output


def test_old_model_trained_with_jobs_loads_and_resumes(two, tmp_path):
    """`--jobs` was an option of an earlier version, whose files have it in two places."""
    path, X, _ = two
    model, command = tmp_path / "jobs.fiol", ["train", path, *SINGLE, "--passes", 2]
    invoke(*command, "-o", model)
    learner = fiol.load(model)
    for jobs, stored in ((None, 1), (1, 1), (3, 3)):
        learner.meta["training"]["asked"]["jobs"] = jobs
        learner.meta["training"]["regime"]["jobs"] = stored
        learner.save(model)
        assert "finished" in invoke("inspect", model).output
        assert invoke("predict", model, path).output.count("\n") == len(X) + 1
        done = invoke(*command, "-o", model, "--resume", code=2 if jobs == 3 else 0)
        expected = "was made with --jobs, which fiol train no longer has" if jobs == 3 else "nothing is left to do"
        assert expected in done.output
    assert "No such option" in invoke(*command, "--jobs", 2, "-o", tmp_path / "none", code=2).output


def test_info_prints_versions():
    found = json.loads(invoke("info", "--json").output)
    assert found["fiol"] == fiol.__version__
    assert found["libraries"]["numpy"] == np.__version__
    assert found["extras"]["sklearn"]["scikit-learn"]
    assert {"files", "serve", "mlflow", "spark"} <= {*found["extras"]} <= {*metadata("fiol").get_all("Provides-Extra")}
    assert fiol.__version__ in invoke("info").output


def test_help_has_whole_summaries_and_all_algorithms():
    assert "..." not in invoke("--help").output.partition("\nModels:")[2]
    listed = " ".join(invoke("train", "--help").output.partition("--algorithm")[2].split()).partition("[default")[0]
    assert [name for name in ALGORITHMS if name not in re.findall(r"\w+", listed)] == []


def test_help_of_column_lists_all_kinds_that_can_be_given():
    listed = " ".join(invoke("train", "--help").output.partition("--column")[2].split()).partition("[default")[0]
    inferred_only = ["numeric_text", "id", "undecided"]
    assert [kind for kind in COLUMN_KINDS if kind not in re.findall(r"\w+", listed)] == inferred_only
    for example in re.findall(r"\w+:\S+", listed.replace("(parts:", "")):
        assert column_from_spec("c", example.rstrip(",")).spec == example.rstrip(",")


@pytest.mark.skipif(os.name == "nt", reason="needs signals")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_stop_training_with_a_checkpoint(tmp_path, number, code):
    X, z, _ = make_data(400)
    path, model = tmp_path / "long.svm", tmp_path / "long.fiol"
    dump_svmlight_file(X, (z > 0).astype(int), str(path), zero_based=False)
    path.write_text(100 * path.read_text())
    command = [sys.executable, "-m", "fiol", "train", str(path), *SINGLE, "--passes", "10000", "-o", str(model)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen([*command, "--checkpoint-rows", "40000"], **pipes)
    while not model.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)  # all passes would take hours
    assert process.returncode == code, errors
    assert "is a checkpoint, --resume goes on" in errors
    learner = fiol.load(model)
    assert learner.meta["training"]["rows"] == learner.rounds < 4e8


TABLE = """id,age,city,joined,note,bought
a,31,Rome,2024-03-04,quick brown fox jumps over it,yes
b,,Oslo,2024-03-05,the lazy dog sleeps here all day,no
c,45,Rome,2024-03-06,one more fox and one more dog,yes
d,27,"Oslo, north",,nothing to say about these dogs at all,no
"""


def test_train_on_text_dates_and_missing_values(tmp_path):
    path, model = tmp_path / "people.csv", tmp_path / "people.fiol"
    path.write_text(TABLE)
    done = invoke("train", path, "-o", model, code=1)
    assert "name the column to predict (--target): id, age, city" in done.output
    wrong = invoke("train", path, "--target", "Bougth", "-o", model, code=1).output
    assert "people.csv: there is no column 'Bougth': did you mean 'bought'? The columns are id, age, city" in wrong
    wrong = invoke("train", path, "--target", "bought", "--weight", "z", "-o", model, code=1).output
    assert "for the weight, there is no column 'z': the columns are id, age" in wrong
    printed = invoke(
        "train", path, "--target", "bought", "--tag", "id", "--pairs", "city,age", *SINGLE, "-o", model
    ).output
    assert "Target bought: two values, no and yes: logistic loss, yes is positive" in printed
    names = fiol.load(model).names
    assert {"age", "age is missing", "city=Oslo, north", "joined.month=3", "note:fox", "city=Rome*age"} <= {*names}
    rows = list(csv.DictReader(io.StringIO(invoke("predict", model, path).output)))
    assert [row["tag"] for row in rows] == ["a", "b", "c", "d"]
    assert {row["label"] for row in rows} <= {"no", "yes"}
    without = tmp_path / "new.csv"
    without.write_text("\n".join(line.rpartition(",")[0] for line in TABLE.splitlines()) + "\n")
    assert invoke("predict", model, without).output == invoke("predict", model, path).output
    assert "no target" in invoke("evaluate", model, without, code=1).output
    shown = invoke("inspect", model).output
    assert re.search(r"^  note +words ", shown, re.MULTILINE)
    assert re.search(r"^  joined +date ", shown, re.MULTILINE)
    invoke(
        "train",
        path,
        "--target",
        "bought",
        "--column",
        "note=words:2",
        "--column",
        "id=skip",
        *SINGLE,
        "-o",
        model,
        "--force",
    )
    names = fiol.load(model).names
    assert "note:brown fox" in names
    assert "id=a" not in names
    for words in ("note", "note=prose", "note=words:x", "nothing=skip"):
        done = invoke("train", path, "--target", "bought", "--column", words, "-o", model, "--force", code=None)
        assert done.exit_code in (1, 2)
        assert "Traceback" not in done.output


def test_names_with_commas_are_quoted_in_options(tmp_path):
    path, model = tmp_path / "table.csv", tmp_path / "model.fiol"
    rows = [f"{k % 5},{k % 3},{'no' if k % 2 else 'yes, please'}" for k in range(40)]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["p,q", "s", "y"], *(row.split(",", 2) for row in rows)])
    kind, pair, weights = '"p,q"=category', 's,"p,q"', '"yes, please"=2,no=1'
    printed = invoke(
        "train",
        path,
        "--target",
        "y",
        *SINGLE,
        "--column",
        kind,
        "--pairs",
        pair,
        "--class-weight",
        weights,
        "-o",
        model,
    ).output
    assert "Class weights: no=1, yes, please=2" in printed or "Class weights: yes, please=2, no=1" in printed
    assert any(line.split()[:2] == ["p,q", "category"] for line in printed.splitlines())
    asked = fiol.load(model).meta["training"]["asked"]
    assert (asked["columns"], asked["pairs"]) == ([kind], [pair])
    done = invoke("train", path, "--target", "y", "--class-weight", "yes, please=2", "-o", tmp_path / "x", code=2)
    assert "a label with a comma is in double quotes" in " ".join(done.output.split())
    for empty in (["--class-weight", ""], ["--column", "=category"]):
        done = invoke("train", path, "--target", "y", *empty, "-o", tmp_path / "x", code=2)
        assert f"got '{empty[1]}'" in done.output
    done = invoke("train", path, "--target", "y", "--column", "p,q=category", "-o", tmp_path / "x", code=None)
    assert "there is no column 'p'" in done.output


def test_train_on_vw_lines_with_tags_and_without_labels(tmp_path):
    path, model = tmp_path / "rows.vw", tmp_path / "rows.fiol"
    path.write_text("1 2.0 'first|a x:2 y |b z\n-1 'second|a y |b z:0.5\n1 |a x\n-1 |b z:2\n")
    invoke("train", path, *SINGLE, "-o", model)
    assert fiol.load(model).names == ["a^x", "a^y", "b^z"]
    hashed = tmp_path / "hashed.fiol"
    invoke("train", path, *SINGLE, "--bits", "3", "-o", hashed)
    assert fiol.load(hashed).meta["reading"]["options"] == {"bits": 3}
    by_hand = fiol.Learner(fiol.FIOL(fiol.Logistic()), bits=3)
    rows = [{"a^x": 2, "a^y": 1, "b^z": 1}, {"a^y": 1, "b^z": 0.5}, {"a^x": 1}, {"b^z": 2}]
    by_hand.learn(rows, [1.0, -1.0, 1.0, -1.0], [2.0, 1.0, 1.0, 1.0])
    assert fiol.load(hashed).weights.tobytes() == by_hand.weights.tobytes()
    path.write_text("'one|a x\n|b z\n")
    rows = list(csv.reader(io.StringIO(invoke("predict", model, path).output)))
    assert [row[0] for row in rows] == ["tag", "one", ""]


def test_terminal_shows_table_and_progress_bar(two, tmp_path, monkeypatch, capsys):
    path, _, _ = two
    for stream in (sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    arguments = ["train", str(path), *SINGLE, "--passes", "2", "--holdout", "0.1", "-o", str(tmp_path / "two.fiol")]
    with pytest.raises(SystemExit) as done:
        cli.main(arguments, prog_name="fiol")
    assert done.value.code == 0
    printed = capsys.readouterr()
    assert "held out" in printed.err
    assert "rows" in printed.err
    assert "features have a weight" in printed.out


@pytest.mark.skipif(os.name == "nt", reason="needs pipes")
def test_closed_pipe_ends_predict_quietly(two, tmp_path):
    path, _, _ = two
    invoke("train", path, *SINGLE, "-o", tmp_path / "two.fiol")
    path.write_text(2000 * path.read_text())
    command = [sys.executable, "-m", "fiol", "predict", str(tmp_path / "two.fiol"), str(path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline() == b"label,probability\n"
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=60) in (0, 1, 141)


@pytest.mark.filterwarnings("default::RuntimeWarning")
def test_diverged_model_is_saved(two, tmp_path):
    path, _, _ = two
    model = tmp_path / "wild.fiol"
    wild = ["--loss", "squared_error", "--algorithm", "SGD", "--step-size", "1e90"]
    done = invoke("train", path, *wild, "-o", model, "--json", "--report", tmp_path / "wild.html")
    assert "Warning: the score of row" in done.stderr
    assert "<h1>Squared loss" in (tmp_path / "wild.html").read_text()
    printed = json.loads(done.stdout)
    assert printed["loss"] is None
    assert fiol.load(model).rounds == 200
    assert "finished" in invoke("inspect", model).output
    json.loads(invoke("inspect", model, "--json").output)


def test_files_without_rows_are_rejected(tmp_path):
    (tmp_path / "empty.svm").write_text("")
    (tmp_path / "comments.svm").write_text("# nothing\n")
    for name in ("empty.svm", "comments.svm"):
        done = invoke("train", tmp_path / name, "-o", tmp_path / "new.fiol", code=1)
        assert name in done.output
        assert "Traceback" not in done.output


def test_train_accepts_all_algorithms(two, tmp_path):
    path, X, y = two
    page = tmp_path / "page.html"
    options = ["--algorithm", "FIOL", "--algorithm", "SGD", "--steps", "constant", "--step-sizes", "0.1,1e8"]
    done = invoke("compare", path, *options, "--json", "--report", page)
    assert f"The page is {page}: open it in a browser." in done.stderr
    found = json.loads(done.stdout)
    runs = {(run["algorithm"], run["size"]): run["loss"] for run in found["runs"]}
    signs, losses = 2.0 * y - 1.0, {}
    for name, kind in (("FIOL", fiol.FIOL), ("SGD", fiol.SGD)):
        for size in (0.1, 1e8):
            scores = fiol.Learner(kind(fiol.Logistic(), step_size=fiol.Constant(size))).learn(X, signs)
            losses[name, size] = np.mean(np.logaddexp(0.0, -signs * scores))
    losses["ensemble", None] = np.mean(np.logaddexp(0.0, -signs * fiol.Learner().learn(X, signs)))
    assert runs == pytest.approx(losses)
    assert runs["SGD", 1e8] > 1e6 > 100.0 > runs["FIOL", 1e8]
    share = y.mean()
    assert found["constant"] == pytest.approx(-share * np.log(share) - (1 - share) * np.log(1 - share))
    text = page.read_text()
    assert "The worst choice: " in text
    assert "SGD, explicit" in text
    assert "FIOL, exact" in text
    printed = invoke("compare", path, *options).output
    assert printed.startswith("Nothing chosen: ")
    assert invoke("compare", path, "--step-sizes", "0,1", code=2)
    assert "choose from" in invoke("compare", path, "--algorithm", "Adam", code=2).output


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        (("training", "rows"), "many", "its training is not as fiol train writes it: rows = 'many'"),
        (("training", "piece"), 0, "piece = 0"),
        (("training", "figures", "targets"), [[1.0, 0.0], [3.0, 4.0]], "figures = {"),
        (("training", "regime", "passes"), 2.5, "regime = {"),
        (("training", "regime"), {}, "regime = {}"),
        (("training",), [], "its training is not as fiol train writes it, but []"),
        (("history", 0, "loss"), "low", "its history is not as fiol train writes it: loss = 'low'"),
        (("history", 0, "colour"), "red", "it has ['colour']"),
        (("labels",), ["no"], "its labels must be the two of a loss of two classes, got ['no']"),
        (("reading", "options", "zero_based"), 7, "the option zero_based of svmlight must be true or false, got 7"),
        (("reading", "target"), 7, "target must be the name of a column, got 7"),
    ],
)
def test_model_with_invalid_training_record_is_rejected(two, tmp_path, place, value, says):
    path, _, _ = two
    model = tmp_path / "two.fiol"
    invoke("train", path, *SINGLE, "-o", model)
    learner = fiol.load(model)
    *way, last = place
    here = learner.meta
    for step in way:
        here = here[step]
    here[last] = value
    learner.save(model)
    for command in (["predict", model, path], ["train", path, *SINGLE, "-o", model, "--resume"]):
        assert says in invoke(*command, code=1).output


@pytest.mark.filterwarnings("default::RuntimeWarning")
def test_diverged_run_resumes(two, tmp_path):
    path, _, _ = two
    model = tmp_path / "wild.fiol"
    wild = ["train", path, "--loss", "squared_error", "--algorithm", "SGD", "--step-size", "1e90", "-o", model]
    invoke(*wild)
    assert "is finished already" in invoke(*wild, "--resume").output


def test_file_size_limit_leaves_no_partial_file(tmp_path):
    """As on a disk that is full: no file may be larger than some bytes."""
    resource = pytest.importorskip("resource")
    pytest.importorskip("pyarrow")
    data, model = tmp_path / "rows.csv", tmp_path / "rows.fiol"
    data.write_text("x,c,y\n" + "".join(f"{k},c{k % 50},{k % 2}\n" for k in range(2000)))
    invoke("train", data, "--target", "y", *SINGLE, "-o", model)
    there, before = sorted(os.listdir(tmp_path)), model.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for arguments in [
        ["train", data, "--target", "y", *SINGLE, "-o", tmp_path / "new.fiol"],
        ["train", data, "--target", "y", *SINGLE, "-o", model, "--force"],
        ["predict", model, data, "-o", tmp_path / "p.csv"],
        ["evaluate", model, data, "--report", tmp_path / "page.html"],
        ["export", model, "--to", "json", "-o", tmp_path / "m.json"],
        ["convert", data, "-o", tmp_path / "rows.vw", "--target", "y"],
    ]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
        try:
            done = invoke(*arguments, code=1)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert "File too large" in done.output, arguments
        assert "Traceback" not in done.output
        assert sorted(os.listdir(tmp_path)) == there
    assert model.read_bytes() == before


@pytest.mark.parametrize(
    "arguments", [["train", "{}", "--target", "y", "-o"], ["convert", "{}", "--target", "y", "--format", "csv", "-o"]]
)
def test_unwritable_folder_is_reported_before_training(tmp_path, monkeypatch, arguments):
    data = tmp_path / "rows.csv"
    data.write_text("x,y\n1,0\n2,1\n")

    def refused(dir):
        raise PermissionError(13, "Permission denied", str(dir))

    monkeypatch.setattr("tempfile.TemporaryFile", refused)
    monkeypatch.setattr("fiol.readers.sources.Sources.blocks", lambda *_: pytest.fail("rows were read"))
    output = tmp_path / "model.svm"
    done = CliRunner().invoke(cli.main, [a.format(data) for a in arguments] + [str(output)])
    assert done.exit_code == 2
    assert f"no file can be written to the folder of {output}: Permission denied" in done.output


def test_lines_by_time_do_not_repeat_those_of_the_table(two, tmp_path, monkeypatch):
    monkeypatch.setattr("fiol.cli.progress.LINE_SECONDS", -1.0)
    printed = invoke("train", two[0], "-o", tmp_path / "two.fiol").output
    rows = [line.split()[0] for line in printed.splitlines() if line.strip()[:1].isdigit()]
    assert rows == list(dict.fromkeys(rows))
    assert rows[-1] == "200"
