"""`fiol train --update` and `--resume`: models that continue with new rows, and runs that notice other data."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from tests.cli.test_train import SINGLE, invoke
from tests.interpreted import interpret_all

import fiol
from fiol.readers import sources
from fiol.training import run as loop

ROWS = 160


@pytest.fixture(autouse=True)
def in_the_interpreter(monkeypatch):
    interpret_all(monkeypatch)
    monkeypatch.setattr(loop, "FIRST_LINE", 50)


@pytest.fixture
def lines():
    """Return the header and the rows of a CSV file; the column `far` is centered."""
    draw = np.random.default_rng(8)
    x, far, city = draw.normal(size=ROWS), draw.normal(1000.0, 1.0, ROWS), draw.choice(["a", "b", "c"], ROWS)
    y = x + (far - 1000.0) + (city == "a") + draw.normal(size=ROWS) > 0.3
    y[:2] = True, False
    rows = [f"{a:.3f},{b:.3f},{c},{['no', 'yes'][int(t)]}" for a, b, c, t in zip(x, far, city, y, strict=True)]
    return "x,far,city,sold\n", rows


def write(path, head, rows):
    path.write_text(head + "".join(f"{row}\n" for row in rows))
    return path


@pytest.mark.parametrize("cut", [3, 20, 31, 50, 100, 159])
@pytest.mark.parametrize("options", ["", "--holdout 0.2", "--class-weight yes=3,no=1", "--bits 6"])
def test_updated_model_has_the_bytes_of_one_run_over_all_rows(lines, tmp_path, cut, options):
    head, rows = lines
    first, rest = write(tmp_path / "first.csv", head, rows[:cut]), write(tmp_path / "rest.csv", head, rows[cut:])
    command = ["--target", "sold", *SINGLE, *options.split()]
    invoke("train", first, rest, *command, "-o", tmp_path / "whole.fiol")
    invoke("train", first, *command, "-o", tmp_path / "model.fiol")
    invoke("train", rest, "--update", tmp_path / "model.fiol", "-o", tmp_path / "new.fiol")
    invoke("train", rest, "--update", tmp_path / "model.fiol")
    assert (tmp_path / "new.fiol").read_bytes() == (tmp_path / "model.fiol").read_bytes()
    whole, model = fiol.load(tmp_path / "whole.fiol"), fiol.load(tmp_path / "model.fiol")
    for name, array in whole.core.arrays().items():
        assert array.tobytes() == model.core.arrays()[name].tobytes(), name
    assert whole.names == model.names
    assert whole.meta["history"] == model.meta["history"]
    same = ("rows", "scored", "missing", "figures", "rows_read", "finished")
    assert [whole.meta["training"][key] for key in same] == [model.meta["training"][key] for key in same]


def test_missing_option_is_stored_for_resume_and_update(lines, tmp_path, monkeypatch):
    head, rows = lines
    rows = ["none,1000.5,?,no" if k % 7 == 3 else row for k, row in enumerate(rows)]
    path, whole, model = write(tmp_path / "rows.csv", head, rows), tmp_path / "whole.fiol", tmp_path / "model.fiol"
    rest = write(tmp_path / "rest.csv", head, rows[100:])
    command = ["train", path, "--target", "sold", *SINGLE, "--missing", "None", "--missing", "?"]
    invoke(*command, "-o", whole)
    assert "city is missing" in fiol.load(whole).names
    assert "city=?" not in fiol.load(whole).names
    restore = interrupt(monkeypatch, 40)
    with pytest.raises((KeyboardInterrupt, AssertionError)):
        invoke(*command, "--checkpoint-rows", "30", "-o", model)
    restore()
    other = invoke(*command, "--missing", "-", "-o", model, "--resume", code=2).output
    assert "was made with --missing None --missing '?', not with --missing None --missing '?' --missing -:" in other
    invoke(*command, "--checkpoint-rows", "30", "-o", model, "--resume")
    assert np.array_equal(fiol.load(model).weights, fiol.load(whole).weights)
    write(path, head, rows[:100])
    invoke(*command, "-o", model, "--force")
    invoke("train", rest, "--update", model)
    assert np.array_equal(fiol.load(model).weights, fiol.load(whole).weights)
    found = fiol.train(path, "sold", algorithm="FIOL", missing=("None", "?"), output=tmp_path / "python.fiol")
    assert np.array_equal(fiol.load(tmp_path / "python.fiol").weights, found.weights)


def test_update_refuses_what_cannot_be_exact_or_has_no_effect(lines, tmp_path):
    head, rows = lines
    path, model = write(tmp_path / "rows.csv", head, rows), tmp_path / "model.fiol"
    for options in (["--passes", "2"], ["--shuffle", "10"]):
        invoke("train", path, "--target", "sold", *SINGLE, *options, "-o", model, "--force")
        assert "cannot be updated exactly" in invoke("train", path, "--update", model, code=2).output
    invoke("train", path, "--target", "sold", *SINGLE, "-o", model, "--force")
    done = invoke("train", path, "--update", model, "--loss", "hinge", code=2)
    assert "--update takes --loss from the model" in done.output
    done = invoke("train", path, "--update", model, "--column", "x=category", code=2)
    assert "--update takes --column from the model" in done.output
    before = model.read_bytes()
    done = invoke("train", path, "--update", model, "--target", "x", code=2)
    assert "model.fiol predicts the column 'sold': an update cannot change --target to 'x'" in done.output
    assert model.read_bytes() == before


@pytest.mark.parametrize("options", [[], ["--holdout", "0.2"]])
def test_update_prints_the_loss_of_its_rows_alone(lines, tmp_path, options):
    head, rows = lines
    first, rest = write(tmp_path / "first.csv", head, rows[:93]), write(tmp_path / "rest.csv", head, rows[93:])
    model = tmp_path / "model.fiol"
    assert "new rows" not in invoke("train", first, "--target", "sold", *SINGLE, *options, "-o", model).output
    before = fiol.load(model).meta["history"][-1]
    done = invoke("train", rest, "--update", model)
    after = fiol.load(model).meta["history"][-1]
    new = after["rows"] - before["rows"]
    expected = (after["loss"] * after["rows"] - before["loss"] * before["rows"]) / new
    [line] = [line for line in done.output.splitlines() if "new rows" in line]
    words, _, loss = line.partition(": ")
    assert words == f"Loss of the {new} new rows, each before it was learned from"
    assert float(loss) == pytest.approx(expected, rel=1e-5)


def test_update_that_is_killed_resumes_to_the_same_bytes(lines, tmp_path, monkeypatch):
    head, rows = lines
    first, rest = write(tmp_path / "first.csv", head, rows[:70]), write(tmp_path / "rest.csv", head, rows[70:])
    whole, model = tmp_path / "whole.fiol", tmp_path / "model.fiol"
    monkeypatch.setattr(loop, "WORK_AT_ONCE", 30)
    for path in (whole, model):
        invoke("train", first, "--target", "sold", *SINGLE, "-o", path)
    invoke("train", rest, "--update", whole)
    restore = interrupt(monkeypatch, 100)
    with pytest.raises((KeyboardInterrupt, AssertionError)):
        invoke("train", rest, "--update", model, "--checkpoint-rows", "5")
    assert 70 < fiol.load(model).rounds < ROWS
    restore()
    invoke("train", rest, "--update", model, "--resume")
    a, b = fiol.load(whole), fiol.load(model)
    assert a.weights.tobytes() == b.weights.tobytes()
    assert a.meta["history"] == b.meta["history"]


def test_finished_update_learns_the_same_file_again_only_on_purpose(lines, tmp_path):
    head, rows = lines
    first, rest = write(tmp_path / "first.csv", head, rows[:70]), write(tmp_path / "rest.csv", head, rows[70:])
    model = tmp_path / "model.fiol"
    invoke("train", first, "--target", "sold", *SINGLE, "-o", model)
    assert "before" not in invoke("train", rest, "--update", model, "--resume").stderr
    once = model.read_bytes()
    printed = invoke("train", rest, "--update", model, "--resume").output
    assert f"{model} is finished already: nothing is left to do: without --resume, the same rows are learned" in printed
    assert model.read_bytes() == once
    with pytest.raises(ValueError, match="resume=True has no effect without output"):
        fiol.train(rest, update=model, resume=True)
    assert fiol.train(rest, update=model, output=model, resume=True).rounds == ROWS
    assert model.read_bytes() == once

    for path in (rest, first):
        done = invoke("train", path, "--update", model, "-o", tmp_path / "twice.fiol", "--force")
        assert f"Warning: the model has learned the rows of {path} before" in done.stderr
        assert fiol.load(tmp_path / "twice.fiol").rounds == ROWS + (90 if path == rest else 70)
    with pytest.warns(UserWarning, match=r"rest\.csv before"):
        fiol.train(rest, update=model)
    write(rest, head, rows[80:100])  # tomorrow's rows in a file of the same name
    assert "before" not in invoke("train", rest, "--update", model, "--resume").stderr
    assert fiol.load(model).rounds == ROWS + 20


def test_update_warns_of_files_that_begin_with_learned_rows(lines, tmp_path):
    head, rows = lines
    model, log = tmp_path / "model.fiol", write(tmp_path / "log.csv", head, rows[:70])
    invoke("train", log, "--target", "sold", *SINGLE, "-o", model)
    size = log.stat().st_size
    write(log, head, rows)
    done = invoke("train", log, "--update", model)
    assert f"Warning: the model has learned rows of the first {size:,} bytes of {log} before" in done.stderr
    other = write(tmp_path / "other.csv", head, [*rows[1:70], rows[0]])
    assert "before" not in invoke("train", other, "--update", model).stderr


def interrupt(monkeypatch, after):
    """Let training be killed after some rows."""
    learn = loop.Training._learn
    monkeypatch.setattr(loop, "WORK_AT_ONCE", 30)

    def die(self, block):
        if self.rows >= after:
            raise KeyboardInterrupt
        return learn(self, block)

    monkeypatch.setattr(loop.Training, "_learn", die)
    return lambda: monkeypatch.setattr(loop.Training, "_learn", learn)


@pytest.mark.parametrize("change", ["shuffled", "flipped", "first row gone"])
def test_resume_notices_other_data_and_names_the_file(lines, tmp_path, monkeypatch, change):
    head, rows = lines
    path, model = write(tmp_path / "rows.csv", head, rows), tmp_path / "model.fiol"
    restore = interrupt(monkeypatch, 60)
    with pytest.raises((KeyboardInterrupt, AssertionError)):
        invoke("train", path, "--target", "sold", *SINGLE, "-o", model, "--checkpoint-rows", "5")
    restore()
    other = {"shuffled": rows[::-1], "flipped": [row.replace("yes", "nay") for row in rows], "first row gone": rows[1:]}
    write(path, head, other[change])
    done = invoke("train", path, "--target", "sold", *SINGLE, "-o", model, "--resume", code=1)
    assert "rows.csv has changed: its first" in done.output
    write(path, head, rows)
    invoke("train", path, "--target", "sold", *SINGLE, "-o", model, "--resume")
    invoke("train", path, "--target", "sold", *SINGLE, "-o", tmp_path / "whole.fiol")
    assert model.read_bytes() == (tmp_path / "whole.fiol").read_bytes()


def test_resume_takes_checkpoints_of_versions_without_an_option(lines, tmp_path):
    head, rows = lines
    path, model = write(tmp_path / "rows.csv", head, rows), tmp_path / "model.fiol"
    command = ["train", path, "--target", "sold", *SINGLE, "-o", model]
    invoke(*command)
    learner = fiol.load(model)
    asked = learner.meta["training"]["asked"]
    old = {"format_": None, "pairs": [], "columns": [], "on_error": "stop", "penalty": "none", "alpha": 1e-4, "seed": 1}
    learner.meta["training"]["asked"] = {**asked, **old, "l1_ratio": 0.15, "dtype": "float64", "no_intercept": False}
    learner.save(model)
    assert "nothing is left to do" in invoke(*command, "--resume").output
    other = invoke(*command, "--dtype", "float32", "--resume", code=2).output
    assert "was made with --dtype float64, not with --dtype float32" in other


def test_dry_run_of_an_update_prints_what_the_model_knows_and_changes_nothing(lines, tmp_path):
    head, rows = lines
    first, rest = write(tmp_path / "first.csv", head, rows[:100]), write(tmp_path / "rest.csv", head, rows[100:])
    model = tmp_path / "model.fiol"
    invoke("train", first, "--target", "sold", *SINGLE, "-o", model)
    before = model.read_bytes()
    printed = invoke("train", rest, "--update", model, "--dry-run").output
    assert "Updating after 100 rows" in printed
    assert "two values, no and yes" in printed
    assert (
        "--update takes --loss" in invoke("train", rest, "--update", model, "--dry-run", "--loss", "l", code=2).output
    )
    assert model.read_bytes() == before


# --- pipes and files that grow ----------------------------------------------------------------


def run_fed(arguments, feed, tmp_path):
    """Run the command in a process of its own with `feed(process)` for its input; return output and error."""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "fiol", *map(str, arguments)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, cwd=tmp_path
    )
    feed(process)
    return (*(text.decode() for text in process.communicate(timeout=60)), process.returncode)


def wait_for(condition, seconds=30.0):
    """Wait until a condition holds; fail after some seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.skipif(os.name == "nt", reason="pipes are not live on Windows")
def test_rows_of_a_slow_pipe_are_learned_as_they_arrive_and_ctrl_c_loses_none(lines, tmp_path):
    head, rows = lines
    write(tmp_path / "rows.csv", head, rows)
    model = tmp_path / "live.fiol"
    command = ["train", "-", "--target", "sold", *SINGLE, "-o", model, "--checkpoint-seconds", "0.2"]

    def feed(process):
        process.stdin.write((head + "\n".join(rows[:40]) + "\n").encode())
        process.stdin.flush()
        wait_for(model.exists)
        assert fiol.load(model).rounds == 40
        process.stdin.write(("\n".join(rows[40:]) + "\n0.5,10").encode())  # the last line is not complete
        process.stdin.flush()
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        process.wait(30)

    _, error, code = run_fed(command, feed, tmp_path)
    assert (code, f"Stopped after {ROWS} rows" in error) == (130, True), error
    command = ["train", "rows.csv", "--target", "sold", *SINGLE, "-o", "whole.fiol"]
    assert run_fed(command, lambda process: None, tmp_path)[2] == 0
    live, whole = fiol.load(model), fiol.load(tmp_path / "whole.fiol")
    assert live.weights.tobytes() == whole.weights.tobytes()
    assert live.meta["training"]["figures"] == whole.meta["training"]["figures"]


def test_follow_reads_a_file_that_grows_to_the_bits_of_the_whole_file(lines, tmp_path):
    head, rows = lines
    whole, growing = write(tmp_path / "rows.csv", head, rows), write(tmp_path / "growing.csv", head, rows[:80])

    def grow():
        with growing.open("a") as file:
            for start in range(80, ROWS, 16):
                time.sleep(0.15)
                text = "".join(f"{row}\n" for row in rows[start : start + 16])
                file.write(text[:25])
                file.flush()
                time.sleep(0.05)
                file.write(text[25:])
                file.flush()

    invoke("train", whole, "--target", "sold", *SINGLE, "-o", tmp_path / "whole.fiol")
    writer = threading.Thread(target=grow)
    writer.start()
    command = ["train", growing, "--target", "sold", *SINGLE, "-o", tmp_path / "model.fiol"]
    invoke(*command, "--follow", "--follow-seconds", "1.5")
    writer.join()
    a, b = fiol.load(tmp_path / "whole.fiol"), fiol.load(tmp_path / "model.fiol")
    assert a.weights.tobytes() == b.weights.tobytes()
    assert a.meta["history"] == b.meta["history"]
    assert "no effect without --follow" in invoke(*command, "--follow-seconds", "1", code=2).output


def test_dry_run_prints_columns_and_writes_nothing(lines, tmp_path):
    head, rows = lines
    path = write(tmp_path / "rows.csv", head, [*rows[:-1], ",1000.1,b,no"])
    printed = invoke("train", path, "--target", "sold", "--dry-run", "--column", "x,city=category").output
    assert [line.split()[:2] for line in printed.splitlines() if line.startswith("  ")][1:] == [
        ["x", "category"],
        ["far", "number"],
        ["city", "category"],
    ]
    assert "two values, no and yes" in printed
    assert os.listdir(tmp_path) == ["rows.csv"]
    for option in (
        ["--report", tmp_path / "page.html"],
        ["--resume"],
        ["--checkpoint-rows", 9],
        ["--checkpoint-seconds", 9],
        ["--force"],
        ["--json"],
    ):
        refused = invoke("train", path, "--target", "sold", "--dry-run", "-o", tmp_path / "m.fiol", *option, code=2)
        assert f"{option[0]} has no effect with --dry-run" in refused.output
    printed = invoke("train", path, "--target", "sold", *SINGLE, "-o", tmp_path / "model.fiol").output
    line = next(line for line in printed.splitlines() if line.startswith("  x"))
    assert line.split()[:4] == ["x", "number", "0.6%", "2"]
    assert (
        line.split()[:4]
        == next(
            line for line in invoke("inspect", tmp_path / "model.fiol").output.splitlines() if line.startswith("  x ")
        ).split()[:4]
    )
    facts = json.loads(invoke("inspect", tmp_path / "model.fiol", "--json").output)
    assert [column["features"] for column in facts["columns"]] == [2, 1, 3]


def test_update_with_a_column_that_cannot_be_read_leaves_the_model_as_it_is(lines, tmp_path):
    head, rows = lines
    path, model = write(tmp_path / "rows.csv", head, rows), tmp_path / "model.fiol"
    invoke("train", path, "--target", "sold", *SINGLE, "-o", model)
    before = model.read_bytes()
    cheap = [",".join(["cheap", *row.split(",")[1:]]) for row in rows]
    for more in ([], ["--checkpoint-rows", "10"]):
        new = write(tmp_path / "new.csv", head, [*cheap[:81], *rows[81:]])
        found = invoke("train", new, "--update", model, *more, code=1).output
        assert f"of column 'x' (number) cannot be read: {new}:2:1: column 'x' must be a number, got 'cheap'" in found
        assert "The model is unchanged" in found
        assert model.read_bytes() == before
    with pytest.raises(ValueError, match="81 of 160 cells of column 'x'"):
        fiol.train(new, update=model)
    invoke("train", write(tmp_path / "new.csv", head, [*cheap[:80], *rows[80:]]), "--update", model)
    assert model.read_bytes() != before


def test_update_prints_the_columns_of_the_new_rows_after_its_checks(lines, tmp_path):
    head, rows = lines
    path, model = write(tmp_path / "rows.csv", head, rows), tmp_path / "model.fiol"
    invoke("train", path, "--target", "sold", *SINGLE, "-o", model)
    without = write(tmp_path / "without.csv", "x,far,city\n", [row.rpartition(",")[0] for row in rows])
    found = invoke("train", without, "--update", model, code=1).output
    assert found == f"Error: {without}: the rows have no target: there is no column 'sold'\n"
    empty = write(tmp_path / "empty.csv", head, [",".join(["", *row.split(",")[1:]]) for row in rows])
    found = invoke("train", empty, "--update", model, "-o", tmp_path / "new.fiol").output
    assert "csv: 3 columns" in found
    assert [line.split() for line in found.splitlines() if line.startswith("  x ")] == [["x", "number", "100.0%", "1"]]
    assert "examples" not in found


def test_update_prints_the_classes_that_are_new(tmp_path):
    rows = [f"{k % 7},{'abc'[k % 3]}" for k in range(60)]
    path, model = write(tmp_path / "rows.csv", "x,kind\n", rows), tmp_path / "model.fiol"
    invoke("train", path, "--target", "kind", *SINGLE, "-o", model)
    new = write(tmp_path / "new.csv", "x,kind\n", ["1,repair", "2,a"])
    assert "New class 'repair': 1 row\n" in invoke("train", new, "--update", model, "-o", tmp_path / "new.fiol").output
    with pytest.warns(UserWarning, match="^new class 'repair': 1 row$"):
        assert fiol.train(new, update=model).classes == ["a", "b", "c", "repair"]


def test_update_by_standard_input_can_be_repeated_with_resume(lines, tmp_path, monkeypatch):
    """What a pipe will have is not known before it is read, so a finished update by it counts as another one."""
    head, rows = lines
    first, model = tmp_path / "first.fiol", tmp_path / "model.fiol"
    invoke("train", write(tmp_path / "rows.csv", head, rows[:70]), "--target", "sold", *SINGLE, "-o", first)
    for rest in (rows[70:], rows[70:], rows[75:]):
        reading, writing = os.pipe()
        os.write(writing, (head + "".join(f"{row}\n" for row in rest)).encode())
        os.close(writing)
        with open(reading, "rb", buffering=0) as pipe:
            monkeypatch.setattr(sources, "standard_input", lambda pipe=pipe: pipe)
            invoke("train", "-", "--update", first, "-o", model, "--resume")
        assert fiol.load(model).rounds == 70 + len(rest)
