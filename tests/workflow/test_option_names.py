"""Messages name options as the user gives them: by the command, or in Python."""

import re

import pandas as pd
import pytest
from tests.commands import CliRunner
from tests.interpreted import interpret_all
from tests.test_source_limits import SOURCE

import fiol
from fiol.cli import main
from fiol.option_names import Wording
from fiol.workflow.errors import OptionError

#: Modules of the command, or that nothing else calls.
FOR_COMMAND = ("cli/", "server/run.py", "option_names.py")
CASES = [
    ({"alpha": 0.1}, ["--alpha", "0.1"], "{alpha} has no effect without {penalty}"),
    ({"l1_ratio": 0.1}, ["--l1-ratio", "0.1"], "{l1-ratio} has no effect without {penalty elasticnet}"),
    ({"seed": 5}, ["--seed", "5"], "{seed} has no effect without {shuffle} or {holdout}"),
    ({"columns": {"y": "category"}}, ["--column", "y=category"], "the column is no feature but the target ({target})"),
    (
        {"columns": {"age": "number"}, "weight": "age"},
        ["--column", "age=number", "--weight", "age"],
        "the column is no feature but the weight ({weight})",
    ),
    (
        {"columns": {"age": "skip"}, "tag": "age"},
        ["--column", "age=skip", "--tag", "age"],
        "the column is no feature but the tag ({tag})",
    ),
    ({"early_stop": 1}, ["--early-stop", "1"], "{early-stop} needs {holdout}"),
    ({"bits": 4, "max_features": 9}, ["--bits", "4", "--max-features", "9"], "{bits} and {max-features} exclude"),
    ({"step_size": "-1"}, ["--step-size", "-1"], "{step-size} is a number above 0"),
    ({"columns": {"agee": "number"}}, ["--column", "agee=number"], "({column}), there is no column 'agee'"),
    ({"class_weight": {"maybe": 2}}, ["--class-weight", "maybe=2"], "{class-weight} has the label 'maybe'"),
    ({"target": None}, [], "name the column to predict ({target})"),
]


def in_python(text):
    """Return a message with the names of parameters, and with values as Python has them."""
    named = {"{l1-ratio}": "l1_ratio", "{early-stop}": "early_stop", "{max-features}": "max_features"}
    named |= {"{step-size}": "step_size", "{class-weight}": "class_weight", "{column}": "columns"}
    named |= {"{penalty elasticnet}": "penalty='elasticnet'"}
    for before, after in named.items():
        text = text.replace(before, after)
    return re.sub(r"\{(\w+)\}", r"\1", text)


@pytest.mark.parametrize(("options", "arguments", "message"), CASES, ids=str)
def test_errors_name_options_as_they_are_given(tmp_path, options, arguments, message):
    path = tmp_path / "rows.csv"
    pd.DataFrame({"age": [1.5, 2.5, 3.5] * 9, "y": ["no", "yes", "no"] * 9}).to_csv(path, index=False)
    with pytest.raises(ValueError, match=re.escape(in_python(message))):
        fiol.train(path, **{"target": "y", **options})
    target = [] if "target" in options else ["--target", "y"]
    done = CliRunner().invoke(main, ["train", str(path), *target, *arguments, "-o", str(tmp_path / "m.fiol")])
    assert done.exit_code in (1, 2)
    assert re.sub(r"\{([^}]*)\}", r"--\1", message) in " ".join(done.output.split())
    assert not Wording.for_command


def test_only_modules_of_the_command_name_its_options_in_messages():
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if name.startswith(FOR_COMMAND):
            continue
        code = re.sub(r'"""[\s\S]*?"""|#.*|`[^`\n]*`', "", path.read_text())
        found += [(name, text) for text in re.findall(r"[\s\"'(](--[a-z][a-z-]+)", code)]
    assert [one for one in found if not one[0].startswith("reports/html")] == []


@pytest.fixture
def table_with_commas(tmp_path):
    """A table of which a name has a comma, one has an equals sign, and the third has dates with one."""
    path = tmp_path / "rows.csv"
    rows = [["a", 1.5, "2024=03=01", "no"], ["b", 2.5, "2024=05=01", "yes"], ["c", 3.5, "", "no"]]
    pd.DataFrame(rows * 9, columns=["city, zip", "x=1", "month", "y"]).to_csv(path, index=False)
    return path


@pytest.fixture(autouse=True)
def in_the_interpreter(monkeypatch):
    interpret_all(monkeypatch)


def test_resume_with_other_options_names_them_as_they_are_given(tmp_path, table_with_commas):
    path, model = str(table_with_commas), str(tmp_path / "m.fiol")
    options = ["--target", "y", "--algorithm", "FIOL", "-o", model]
    done = CliRunner().invoke(main, ["train", path, *options, "--column", '"city, zip"=words'])
    assert done.exit_code == 0, done.output
    done = CliRunner().invoke(main, ["train", path, *options, "--column", "x=1=category", "--resume"])
    assert "with --column '\"city, zip\"=words', not with --column x=1=category: --resume cont" in done.output
    done = CliRunner().invoke(main, ["train", path, *options, "--resume"])
    assert "not without --column: --resume" in done.output
    with pytest.raises(OptionError, match=r"with columns=\{'city, zip': 'words'\}, not without columns: resume=True"):
        fiol.train(path, "y", algorithm="FIOL", output=model, resume=True)


def test_checkpoint_with_unquoted_names_of_an_earlier_version_resumes(tmp_path, table_with_commas):
    path, model = str(table_with_commas), str(tmp_path / "m.fiol")
    options = {"algorithm": "FIOL", "columns": {"city, zip": "category"}, "pairs": [("city, zip", "x=1")]}
    trained = fiol.train(path, "y", **options, output=model)
    asked = trained.meta["training"]["asked"]
    assert (asked["columns"], asked["pairs"]) == (['"city, zip"=category'], ['"city, zip",x=1'])
    asked |= {"columns": ["city, zip=category"], "pairs": ["city, zip,x=1"]}
    trained.save(model)
    assert fiol.train(path, "y", **options, output=model, resume=True).rounds == trained.rounds


def test_column_option_takes_names_and_formats_with_an_equals_sign(table_with_commas):
    arguments = ["--column", "x=1=category", "--column", "month=date:%Y=%m=%d", "--dry-run"]
    done = CliRunner().invoke(main, ["train", str(table_with_commas), "--target", "y", *arguments])
    assert done.exit_code == 0, done.output
    assert re.search(r"month +a?.*date", done.output), done.output
