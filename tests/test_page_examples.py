"""Examples of pages that are neither doctests nor cells of notebooks run, in the interpreter."""

import re
import sys
import textwrap
import types
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.commands import CliRunner
from tests.interpreted import interpret_all, interpret_ensembles

import fiol
from fiol.cli import main

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    interpret_all(monkeypatch)
    interpret_ensembles(monkeypatch)


def page(name):
    return (DOCS / name).read_text(encoding="utf-8")


def fenced(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def indented(text):
    """Return the blocks of code that are indented by four spaces."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    blocks = re.findall(r"(?:^    .*\n(?:\n+(?=    ))?)+", text, re.MULTILINE)
    return [textwrap.dedent(block) for block in blocks]


def run_commands(block):
    """Run the commands of fiol in a block."""
    lines = [line.removeprefix("$ ") for line in block.splitlines() if "fiol" in line]
    assert lines
    for line in lines:
        words = re.sub(r"\s+[#>].*$", "", line).split()
        assert words[0] == "fiol"
        done = CliRunner().invoke(main, words[1:])
        assert done.exit_code == 0, (line, done.output)


def clicks(rows):
    k = np.arange(rows)
    return pd.DataFrame({"site": np.array(["news", "sport", "mail"])[k % 3], "hour": k % 24, "clicked": k % 3 // 2})


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Files under the names that pages use, in the working directory."""
    monkeypatch.chdir(tmp_path)
    for name in ("clicks", "more_clicks", "new_clicks"):
        clicks(60).to_csv(f"{name}.csv", index=False)
    return tmp_path


# --- the index ------------------------------------------------------------------------------------


def test_index_python_example_runs(files):
    (block,) = fenced(page("index.md"), "python")
    chunks = [(np.eye(3), [1, -1, 1])] * 2
    names = {"chunks": chunks}
    exec(block, names)
    assert fiol.load("model.fiol").rows == 6
    assert len(names["scores"]) == 3


def test_index_commands_run(files):
    CliRunner().invoke(main, ["demo", "--rows", "200"])
    (block,) = fenced(page("index.md"), "text")
    run_commands(block)
    assert Path("predictions.csv").exists()
    assert Path("tickets.html").exists()


# --- the command ----------------------------------------------------------------------------------


def test_first_commands_of_the_reference_run(files):
    run_commands(indented(page("reference/command.md"))[0])


def test_python_example_of_the_command_reference_runs(files):
    (block,) = (one for one in indented(page("reference/command.md")) if one.startswith("model = "))
    names = {"fiol": fiol, "frame": clicks(10).drop(columns="clicked")}
    exec(block, names)
    assert names["model"].labels == [0, 1]
    assert Path("clicks.html").exists()
    assert fiol.load("clicks.fiol").rows == 60


def test_translated_command_of_vowpal_wabbit_is_the_printed_one(files):
    Path("train.vw").write_text("1 |user a |item b\n-1 |user c |item d\n")
    command, printed = indented(page("guides/from_vowpal_wabbit.md"))[0].splitlines()
    done = CliRunner().invoke(main, command.removeprefix("$ fiol ").split())
    assert done.exit_code == 0, done.output
    assert printed in done.output.splitlines()


# --- rounds over machines -------------------------------------------------------------------------


@pytest.fixture
def dask(monkeypatch):
    module = types.ModuleType("dask")
    module.delayed = lambda work: work
    module.compute = lambda *found: found
    monkeypatch.setitem(sys.modules, "dask", module)


def ray():
    """Ray's functions that the guide uses, in this process."""
    return types.SimpleNamespace(remote=lambda work: types.SimpleNamespace(remote=work), get=lambda found: found)


@pytest.mark.parametrize("library", ["dask", "ray"])
def test_round_of_the_parallel_guide_learns_all_blocks(library, dask):
    blocks = indented(page("guides/parallel.md"))
    of_dask = next(block for block in blocks if block.startswith("import dask"))
    of_ray = next(block for block in blocks if block.startswith("@ray.remote"))
    names = {"ray": ray()}
    exec(of_dask, names)
    if library == "ray":
        del names["one_round"]
        exec(of_ray, names)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 3))
    y = np.where(X[:, 0] > 0.0, 1.0, -1.0)
    base = fiol.Learner()
    base.learn(X[:40], y[:40])
    after = names["one_round"](base, [(X[40:60], y[40:60]), (X[60:], y[60:])])
    assert after.rows == 80
    assert np.mean(np.sign(after.scores(X)) == y) > 0.8


# --- streams and files ----------------------------------------------------------------------------


def test_interrupted_stream_goes_on_where_the_page_says(files):
    (block,) = (one for one in fenced(page("explanations/streams.md"), "python") if one.startswith("try:"))
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((20, 2)), np.tile([1.0, -1.0], 10)

    class Interrupted(fiol.Learner):
        """A learner that is interrupted once, after 12 rows."""

        def learn(self, X, y):
            super().learn(X[:12], y[:12])
            error = KeyboardInterrupt()
            error.rows_learned = 12
            raise error

    names = {"learner": Interrupted(), "X": X, "y": y}
    exec(block, names)
    saved = fiol.load("so_far.fiol")
    saved.learn(X[names["done"] :], y[names["done"] :])
    whole = fiol.Learner()
    whole.learn(X, y)
    assert saved.weights.tobytes() == whole.weights.tobytes()


def test_file_with_an_own_component_loads_after_its_module_is_imported(files, monkeypatch):
    (block,) = (one for one in fenced(page("explanations/streams.md"), "python") if one.startswith("import parts"))
    Path("parts.py").write_text(
        "import math, fiol\n\n"
        "class LogCosh(fiol.Loss):\n"
        "    def value(self, z, y): return math.log(math.cosh(z - y))\n"
        "    def grad(self, z, y): return math.tanh(z - y)\n"
    )
    monkeypatch.syspath_prepend(files)
    parts = __import__("parts")
    learner = fiol.Learner(fiol.FIOL(parts.LogCosh()))
    learner.learn([[1.0]], [2.0])
    learner.save("prices.fiol")
    names = {"fiol": fiol}
    exec(block, names)
    assert names["learner"].update.loss == parts.LogCosh()
