"""The benchmark runs, agrees with itself and writes what it promises. Nothing here looks at a time."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def step():
    sys.path.insert(0, str(ROOT))
    try:
        import benchmarks.step
    finally:
        sys.path.remove(str(ROOT))
    return benchmarks.step


@pytest.fixture(scope="module")
def quick(step, tmp_path_factory):
    """A whole quick run, in the interpreter: compiling fourteen loops is not what is tested."""
    pytest.importorskip("matplotlib")
    folder = tmp_path_factory.mktemp("bench") / "new"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step, "compiled", lambda loop: loop)
        step.main(["--quick", "--json", str(folder / "step.json"), "--plot", str(folder / "step.png")])
    return folder


def test_json_holds_every_number_and_where_it_comes_from(step, quick):
    found = json.loads((quick / "step.json").read_text())
    assert found["quick"] is True
    assert found["command"].startswith("python -m benchmarks.step --quick --json")
    assert {"python", "numpy", "numba", "fiol"} == found["versions"].keys()
    assert all(found[key] for key in ("cpu", "platform", "date", "unit"))
    sections = [r["section"] for r in found["results"]]
    assert sections == ["paper"] * 4 + ["dense"] * 2 + ["sparse"] * 2
    names = {step.EXPLICIT, step.PLAIN, *step.SOLVERS}
    for result in found["results"]:
        assert result["us"].keys() == result["passes"].keys() == names
        assert all(value > 0.0 for value in result["us"].values())
    assert found["exponents"].keys() == {"dense", "sparse"}
    assert len(found["targets"]) == 9
    assert all({"claim", "measured", "holds"} == target.keys() for target in found["targets"])


def test_plot_is_an_image(quick):
    assert (quick / "step.png").read_bytes().startswith(b"\x89PNG")


def test_compiled_loops_agree_with_the_interpreter(step, monkeypatch):
    streams = step.paper_stream(30, 20, 0.0, 1e-3), step.sparse_stream(100, 10, 20, 0.1)
    names = ("Newton", step.EXPLICIT)
    found = [step.contestants(stream)[name].once()[0].copy() for stream in streams for name in names]
    monkeypatch.setattr(step, "compiled", lambda loop: loop)
    expected = [step.contestants(stream)[name].once()[0].copy() for stream in streams for name in names]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=0.0, atol=1e-12)


def test_solvers_that_disagree_are_noticed(step, monkeypatch):
    monkeypatch.setattr(step, "compiled", lambda loop: loop)
    monkeypatch.setitem(step.SOLVERS, "Bisection", step.Bisection(1e-2))
    with pytest.raises(AssertionError, match="Bisection ends"):
        step.measure("paper", step.paper_stream(30, 20, 0.0, 1e-3), 1)


def test_report_calls_a_failure_a_failure(step):
    names = [step.EXPLICIT, step.PLAIN, *step.SOLVERS]

    def result(section, nnz):
        us = {name: float(nnz) for name in names}
        return step.Result(section, section, nnz, nnz, 1, 0.0, 1e-4, us, us)

    results = [result("paper", 1000), *(result(s, n) for s in ("dense", "sparse") for n in (10, 1000, 2000))]
    holds = [t.holds for t in step.targets(results)]
    assert holds == [True, False, False, False, True, True, True, True]
    assert step.report(results, step.FULL).count("FAIL") == 3


def test_streams_are_the_papers(step):
    stream = step.paper_stream(200, 5000, 0.5, 1e-3)
    correlation = np.corrcoef(stream.x[:, 0], stream.x[:, 1])[0, 1]
    assert correlation == pytest.approx(0.5, abs=0.05)
    sparse = step.sparse_stream(1000, 30, 50, 1e-3)
    assert (np.diff(sparse.feature, axis=1) > 0).all()
    assert sparse.feature.max() < 1000


def test_help_loads_no_compiler():
    code = (
        "import sys, runpy\n"
        "sys.argv = ['step', '--help']\n"
        "try: runpy.run_module('benchmarks.step', run_name='__main__')\n"
        "except SystemExit: pass\n"
        "assert 'numba' not in sys.modules and 'matplotlib' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "--json" in done.stdout
