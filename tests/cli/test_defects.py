"""Defects of earlier versions of the command, one test each."""

import csv
import io
import os
import shlex
import subprocess
import sys

import pytest
from tests.cli.test_train import SINGLE, invoke
from tests.interpreted import interpret_all

import fiol
from fiol.training.run import Training


@pytest.fixture(autouse=True)
def in_the_interpreter(monkeypatch):
    interpret_all(monkeypatch)


@pytest.fixture
def rows(tmp_path):
    """Return a CSV file of 40 rows."""
    path = tmp_path / "rows.csv"
    path.write_text("a,b,y\n" + "".join(f"{k % 7},{k % 3},{'no' if k % 7 < 3 else 'yes'}\n" for k in range(40)))
    return path


def in_a_process(arguments, **options):
    """Run the command in a process of its own, in the interpreter."""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-m", "fiol", *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, **options)


def test_rows_with_an_empty_target_are_predicted(rows, tmp_path):
    model, new = tmp_path / "model.fiol", tmp_path / "new.csv"
    invoke("train", rows, "--target", "y", *SINGLE, "-o", model)
    new.write_text("a,b,y\n1,1,\n5,1,yes\n6,2,\n")
    for options in ([], ["--on-error", "skip"]):
        found = list(csv.DictReader(io.StringIO(invoke("predict", model, new, *options).output)))
        assert [row["label"] for row in found] == ["no", "yes", "yes"]


def test_closed_standard_output_does_not_cost_the_model(rows, tmp_path):
    read, write = os.pipe()
    os.close(read)
    process = in_a_process(["train", rows, "--target", "y", *SINGLE, "-o", tmp_path / "model.fiol"], stdout=write)
    os.close(write)
    _, error = process.communicate(timeout=60)
    assert (process.returncode, "Traceback" in error) == (0, False), error
    assert fiol.load(tmp_path / "model.fiol").rounds == 40


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_full_standard_output_does_not_cost_the_model_and_is_named(rows, tmp_path):
    model = tmp_path / "model.fiol"
    with open("/dev/full", "w") as full:
        process = in_a_process(["train", rows, "--target", "y", *SINGLE, "-o", model], stdout=full)
        _, error = process.communicate(timeout=60)
        assert process.returncode == 0
        assert "standard output: No space left on device" in error
        assert fiol.load(model).rounds == 40
        process = in_a_process(["predict", model, rows], stdout=full)
        _, error = process.communicate(timeout=60)
        assert process.returncode == 1
        assert "standard output: No space left on device" in error
        for arguments in (["evaluate", model, rows], ["evaluate", model, rows, "--json"], ["inspect", model]):
            process = in_a_process(arguments, stdout=full)
            _, error = process.communicate(timeout=60)
            assert (process.returncode, error) == (1, "Error: standard output: No space left on device\n")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize(
    "arguments",
    ["info", "info --json", "warmup --loss log_loss --penalty none", "demo --rows 10 --force", "--version",
     "train --help", "compare rows.csv --target y --step-sizes 1,2 --json", "export model.fiol --to sql"],
)  # fmt: skip
def test_closed_and_full_standard_output_are_no_traceback(arguments, rows, tmp_path):
    invoke("train", rows, "--target", "y", *SINGLE, "-o", tmp_path / "model.fiol")
    error = "Error: standard output: No space left on device\n"
    with open("/dev/full", "w") as full:
        process = in_a_process(arguments.split(), stdout=full, cwd=tmp_path)
        assert (process.communicate(timeout=60)[1], process.returncode) == (error, 1)
    read, write = os.pipe()
    os.close(read)
    process = in_a_process(arguments.split(), stdout=write, cwd=tmp_path)
    os.close(write)
    assert (process.communicate(timeout=60)[1], process.returncode) == ("", 1)


@pytest.mark.skipif(os.name == "nt", reason="needs a shell of Unix")
@pytest.mark.parametrize("arguments", ["predict model.fiol rows.csv", "export model.fiol --to sql"])
def test_results_for_a_standard_output_that_is_not_open_are_an_error(arguments, rows, tmp_path):
    invoke("train", rows, "--target", "y", *SINGLE, "-o", tmp_path / "model.fiol")
    command = shlex.join([sys.executable, "-m", "fiol", *arguments.split()])
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(f"{command} >&-", shell=True, cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert (done.stderr, done.returncode) == ("Error: standard output: it is closed\n", 1)


def test_control_characters_of_names_and_labels_are_shown_as_escapes(tmp_path):
    path, model = tmp_path / "rows.csv", tmp_path / "model.fiol"
    lines = [f"{k % 5},{('no', 'y-')[k % 5 > 1]}" for k in range(30)]
    path.write_text("\n".join(["a\x1b[31m,y", *lines, ""]).replace("-", "\x1b]0"))
    shown = invoke("train", path, "--target", "y", *SINGLE, "-o", model).output
    shown += invoke("inspect", model).output + invoke("evaluate", model, path).output
    assert "\x1b" not in shown
    assert "a\\x1b[31m" in shown


def test_control_characters_of_file_names_are_shown_as_escapes(rows, tmp_path):
    model, page = tmp_path / "m\x1b[31m.fiol", tmp_path / "p\x1b[31m.html"
    train = ["train", rows, "--target", "y", *SINGLE, "-o", model]
    shown = invoke(*train, "--report", page).output
    shown += invoke(*train, code=2).output  # the file exists
    shown += invoke("export", model, "-o", tmp_path / "e\x1b[31m.json").output
    shown += invoke("import", tmp_path / "e\x1b[31m.json", "-o", tmp_path / "i\x1b[31m.fiol").output
    shown += invoke("convert", rows, "--target", "b", "-o", tmp_path / "c\x1b[31m.svm").output
    shown += invoke("vw", "--dry-run", "--", "-d", "d\x1b[31m.vw", "-f", "f\x1b[31m.fiol").output
    assert "\x1b" not in shown
    assert shown.count("\\x1b[31m") >= 7


def test_examples_of_columns_are_on_one_line(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("a,y\n" + '"one\n\ttwo",no\nthree,yes\n' * 3)
    shown = invoke("train", path, "--target", "y", "--dry-run").output
    assert "  a       category     0.0%         2  one two, three\n" in shown


def test_file_without_a_header_is_named_as_such(rows, tmp_path):
    model, bare = tmp_path / "model.fiol", tmp_path / "bare.csv"
    bare.write_text(rows.read_text().partition("\n")[2])
    assert "csv: 2 columns, without a header" in invoke("train", bare, "--target", "c3", "--dry-run").output
    invoke("train", rows, "--target", "y", *SINGLE, "-o", model)
    assert "the first line is read as the header" in invoke("predict", model, bare, code=1).output


def test_evaluate_names_a_loss_above_that_of_the_best_constant(rows, tmp_path):
    model, other = tmp_path / "model.fiol", tmp_path / "other.csv"
    invoke("train", rows, "--target", "y", *SINGLE, "-o", model)
    assert "best constant." not in invoke("evaluate", model, rows).output
    head, _, body = rows.read_text().partition("\n")
    other.write_text(head + "\n" + body.replace("yes", "YES").replace("no", "yes").replace("YES", "no"))
    assert "The loss is above that of the best constant." in invoke("evaluate", model, other).output


def test_hashed_svmlight_features_may_have_large_numbers(tmp_path, monkeypatch):
    path = tmp_path / "ids.svm"
    path.write_text("".join(f"{k % 2} {200_000_000 + k % 2}:1 2000000000:1\n" for k in range(40)))
    widths = []
    rehearse = Training._rehearse
    monkeypatch.setattr(Training, "_rehearse", lambda self, part: widths.append(rehearse(self, part)))
    monkeypatch.setattr(fiol.Learner, "compiled", True)  # a trial is made of what is compiled
    invoke("train", path, "--bits", "10", *SINGLE, "-o", tmp_path / "ids.fiol")
    assert widths == [None]
    assert fiol.load(tmp_path / "ids.fiol").rounds == 40


@pytest.mark.parametrize("weight", ["-1", "heavy"])
def test_bad_weights_are_reported_with_file_and_line(tmp_path, weight):
    path = tmp_path / "rows.csv"
    path.write_text("a,w,y\n1,1,0\n2,1,1\n3,1,0\n4,WEIGHT,1\n5,1,0\n".replace("WEIGHT", weight))
    done = invoke("train", path, "--target", "y", "--weight", "w", *SINGLE, "-o", tmp_path / "m.fiol", code=1)
    assert "rows.csv:5" in done.output


def test_nested_json_is_a_bad_line(tmp_path):
    path, deep = tmp_path / "rows.jsonl", "[" * 100_000 + "]" * 100_000
    path.write_text('{"a": 1, "y": 0}\n{"a": 2, "y": 1}\n{"a": ' + deep + ', "y": 1}\n{"a": 3, "y": 0}\n')
    done = invoke("train", path, "--target", "y", *SINGLE, "-o", tmp_path / "m.fiol", code=1)
    assert "rows.jsonl:3" in done.output
    invoke("train", path, "--target", "y", *SINGLE, "--on-error", "skip", "-o", tmp_path / "m.fiol")
    assert fiol.load(tmp_path / "m.fiol").rounds == 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--checkpoint-seconds", "nan"], "--checkpoint-seconds"),
        (["--alpha", "0.1"], "--alpha has no effect without --penalty"),
        (["--penalty", "l1", "--l1-ratio", "0.5"], "--l1-ratio has no effect without --penalty elasticnet"),
        (["--class-weight", "maybe=2"], "--class-weight has the label 'maybe', but labels are no, yes"),
        (["--class-weight", "yes=-2"], "weights from 0 on"),
        (["--penalty", "l1:0.1", "--alpha", "0.2"], "--alpha has no effect: 'l1:0.1' has a strength"),
        (["--penalty", "l3"], "there is no penalty 'l3'"),
        (["--algorithm", "FOIL"], "there is no algorithm 'FOIL'"),
        (["--step-size", "-1"], "--step-size is a number above 0"),
        (["--pairs", "a,y"], "--pairs a,y has no effect: 'y' is no feature but the target"),
        (["--pairs", "a"], "--pairs takes two or three names with commas between them, got 'a'"),
        (["--features", "auto", "--bits", "8"], "--bits excludes curves and pairs"),
        (["--features", "auto", "--algorithm", "SGD"], "--features auto needs an ensemble"),
    ],
)
@pytest.mark.parametrize("dry_run", [False, True])
def test_options_without_effect_or_sense_are_refused(rows, tmp_path, options, words, dry_run):
    options = [*options, "--dry-run"] if dry_run and "nan" not in options else options
    assert words in invoke("train", rows, "--target", "y", *options, "-o", tmp_path / "m.fiol", code=2).output


def test_uncertainty_is_added_to_the_usual_predictions(rows, tmp_path):
    model = tmp_path / "model.fiol"
    invoke("train", rows, "--target", "y", "--features", "linear", "-o", model)
    for options, header in (
        (["--uncertainty"], "label,probability,uncertainty"),
        (["--scores", "--uncertainty"], "score,uncertainty"),
    ):
        assert invoke("predict", model, rows, *options).stdout.splitlines()[0] == header


def test_dry_run_prints_the_learner_and_the_parameter_of_the_loss(rows):
    printed = invoke("train", rows, "--target", "a", "--loss", "quantile:0.9", "--dry-run").output
    assert "Target a: quantile:0.9, as asked for" in printed
    assert "Learner: Ensemble of 7 with Quantile" in printed


@pytest.mark.parametrize(
    ("options", "name"),
    [(["--target", "y"], "--target"), (["--column", "a=skip"], "--column"), (["--missing", "x"], "--missing")],
)
def test_options_of_columns_are_refused_for_lines_without_columns(tmp_path, options, name):
    path = tmp_path / "rows.vw"
    path.write_text("1 | a:1\n-1 | b:2\n" * 9)
    printed = invoke("train", path, *options, "-o", tmp_path / "m.fiol", code=1).output
    assert f"vw has no columns: leave out {name}, or set --format" in printed


def test_pairs_of_a_namespace_that_is_in_no_row_give_a_warning(tmp_path):
    path = tmp_path / "rows.vw"
    path.write_text("1 |user a |page b\n-1 |user c\n" * 9)
    options = ["--pairs", "user,page", "--pairs", "user,pages", *SINGLE]
    printed = invoke("train", path, *options, "-o", tmp_path / "m.fiol").output
    assert "Warning: --pairs user,pages has no effect: one of the namespaces is in no row" in printed
    assert "user,page " not in printed
    with pytest.warns(UserWarning, match=r"pairs=.* has no effect|pairs user,pages has no effect"):
        fiol.train(path, pairs=[("user", "pages")], step_size="single")


def test_names_of_columns_must_be_a_list(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("1,2,0\n3,4,1\n" * 9)
    printed = invoke("train", path, "--reader", "names=abc", "--target", "c", "--dry-run", code=1).output
    assert 'names of csv must be a list of different names, such as ["age", "city"], got \'abc\'' in printed


def test_one_line_that_is_left_out_is_counted_in_the_singular(rows, tmp_path):
    with open(rows, "a") as file:
        file.write("1\n")
    printed = invoke("train", rows, "--target", "y", "--on-error", "skip", *SINGLE, "-o", tmp_path / "m.fiol").output
    assert "1 line could not be read and was left out:\n  " in printed


def test_balanced_class_weights_are_inverse_to_counts(rows, tmp_path):
    printed = invoke(
        "train", rows, "--target", "y", "--class-weight", "balanced", *SINGLE, "-o", tmp_path / "m.fiol"
    ).output
    assert "Class weights: no=1.111, yes=0.9091" in printed
    counts = {"no": 18, "yes": 22}
    learner = fiol.Learner(fiol.FIOL(fiol.Logistic()))
    for batch in fiol.read(rows, target="y"):
        signs = [1.0 if label == "yes" else -1.0 for label in batch.y]
        learner.learn(batch.X, signs, [40 / (2 * counts[label]) for label in batch.y])
    assert learner.weights.tobytes() == fiol.load(tmp_path / "m.fiol").weights.tobytes()


def test_full_disk_names_the_model_file(rows, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fiol.persistence.model_file.pour", fail)
    done = invoke("train", rows, "--target", "y", *SINGLE, "-o", tmp_path / "m.fiol", code=1)
    assert "m.fiol: No space left on device" in done.output
