"""The claims of the examples with scikit-learn and River hold on short data."""

import importlib.util
import sys
from pathlib import Path

import pytest
from tests.interpreted import interpret

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture
def run(monkeypatch, capsys):
    """Run an example by name, nothing compiled: what it returns, and what it prints."""
    interpret(monkeypatch)

    def run(name):
        spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)  # components are looked up there
        spec.loader.exec_module(module)
        return module.main(["--quick"]), capsys.readouterr().out

    return run


def test_text_pipeline_example(run):
    right, printed = run("text_pipeline")
    assert right["FIOL, one pass"] > 0.6
    assert right["FIOL, one pass, l1"] > 0.6
    assert "The words that tell most" in printed
    assert any(word in printed.rpartition("chess")[2] for word in ("rook", "pawn", "castle", "bishop", "queen"))


def test_out_of_core_example(run):
    (*_, last), same = run("out_of_core")[0]
    assert last > 0.8
    assert same is True


def test_click_stream_example(run):
    found, printed = run("click_stream")
    assert found["ours"] < found["rate"]
    assert 0.0 < found["zeros"] < 1.0
    assert "microseconds each" in printed


def test_drift_with_river_example(run):
    right, _ = run("drift_with_river")
    before, after, last = right["one learner, started anew after a drift"]
    assert min(before, after) > 0.85
    assert after > right["FIOL, one learner"][1] + 0.1
    assert min(right["FIOL"]) > 0.85  # members that follow the last rows take over
    assert right["FIOL"][1] > right["FIOL, one learner"][1] + 0.1
    assert min(right["FIOL, constant steps"]) > 0.85
    assert last > right["FIOL, one learner"][2]


def test_own_loss_example(run):
    costs, printed = run("own_loss")
    assert costs["OrderCost(shortage=5.0)"] < 0.9 * costs["squared error"]
    assert "too little" in printed
