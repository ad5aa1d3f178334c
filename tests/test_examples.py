"""The claims of the examples hold on short streams."""

import doctest
import importlib.util
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from tests.commands import CliRunner
from tests.interpreted import interpret_all

from fiol import cli

ROOT = Path(__file__).parent.parent


@contextmanager
def example(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[name]


@pytest.fixture(scope="module")
def who_survives():
    with example("who_survives") as module:
        yield module


def run_fiol(words):
    done = CliRunner().invoke(cli.main, words)
    assert done.exit_code == 0, done.output
    return done.output


def test_make_demo_runs(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    interpret_all(monkeypatch)
    monkeypatch.chdir(tmp_path)
    recipe = (ROOT / "Makefile").read_text().partition("\ndemo: ")[2].partition("\n\n")[0].splitlines()[1:]
    commands = [line.split() for line in recipe]
    assert [command[:2] for command in commands] == [["$(BIN)/fiol", name] for name in ("demo", "train", "evaluate")]
    commands[0] += ["--rows", "400"]
    shown = "".join(run_fiol(words[1:]) for words in commands)
    assert "two values, no and yes" in shown
    assert "customer_days" in shown
    assert "AUC" in shown


def test_demo_replaces_files_only_if_forced(tmp_path):
    shown = run_fiol(["demo", str(tmp_path / "new"), "--rows", "50"])
    assert "fiol train" in shown
    assert len((tmp_path / "new" / "tickets.csv").read_text().splitlines()) == 1 + 40
    assert len((tmp_path / "new" / "later.csv").read_text().splitlines()) == 1 + 10
    (tmp_path / "new" / "later.csv").write_text("mine")
    refused = CliRunner().invoke(cli.main, ["demo", str(tmp_path / "new"), "--rows", "50"])
    assert refused.exit_code == 2
    assert "exists: --force replaces it" in refused.output
    assert (tmp_path / "new" / "later.csv").read_text() == "mine"
    run_fiol(["demo", str(tmp_path / "new"), "--rows", "50", "--force"])
    assert (tmp_path / "new" / "later.csv").read_text() != "mine"


def test_who_survives_example(who_survives, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    figure = tmp_path / "new folder" / "figure.png"
    sweeps = who_survives.main(["--quick", "--figure", str(figure)])
    printed = capsys.readouterr()
    assert figure.stat().st_size > 10_000
    who_survives.draw(who_survives.QUICK, sweeps, figure.with_suffix(".svg"))
    assert figure.with_suffix(".svg").stat().st_size > 10_000
    assert "identical bits: True" in printed.out
    for name, preset in who_survives.PRESETS.items():
        assert name in printed.out
        assert name in printed.err
        survived = sweeps[name].survived
        if preset.group == who_survives.IMPLICIT:
            assert survived.all(), name
        elif preset.group != who_survives.NO_STEP_SIZE:
            assert survived[0], name
            assert not survived[-1], name
            assert not np.any(np.diff(survived.astype(int)) > 0), f"{name} came back to life"
    assert sweeps["FIOL, default"].survived.all()
    for name in ("SGD", "I-SGD"):  # a linearized penalty stops at no zero
        assert not sweeps[name].zeros.any()


def test_who_survives_helpers(who_survives):
    assert doctest.testmod(who_survives) == (0, 1)
    assert who_survives.crossing(np.array([1.0, 10.0, 100.0]), np.array([0.1, 0.1, 10.0]), 1.0) == pytest.approx(
        10**1.5
    )
