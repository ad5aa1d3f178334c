"""What the examples claim, on a stream short enough for the interpreter."""

import doctest
import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture(scope="module")
def who_survives():
    spec = importlib.util.spec_from_file_location("who_survives", EXAMPLES / "who_survives.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_who_survives(who_survives, tmp_path, capsys):
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


def test_helpers_of_who_survives(who_survives):
    assert doctest.testmod(who_survives) == (0, 1)
    assert who_survives.crossing(np.array([1.0, 10.0, 100.0]), np.array([0.1, 0.1, 10.0]), 1.0) == pytest.approx(
        10**1.5
    )
