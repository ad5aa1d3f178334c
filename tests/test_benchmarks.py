"""The benchmarks run, are consistent and write their files. No test measures time."""

import importlib
import io
import json
import lzma
import re
import subprocess
import sys
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from interpreted import interpret

ROOT = Path(__file__).parents[1]


def load(name):
    sys.path.insert(0, str(ROOT))
    try:
        return importlib.import_module(f"benchmarks.{name}")
    finally:
        sys.path.remove(str(ROOT))


@pytest.fixture(scope="module")
def step():
    return load("step")


@pytest.fixture(scope="module")
def solvers():
    from fiol.experiments import solvers

    return solvers


@pytest.fixture(scope="module")
def stream():
    return load("stream")


@pytest.fixture(scope="module")
def data():
    return load("data")


# --- benchmarks.step --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def quick(step, solvers, tmp_path_factory):
    """A whole quick run, in the interpreter: compiling fourteen loops is not what is tested."""
    pytest.importorskip("matplotlib")
    folder = tmp_path_factory.mktemp("bench") / "new"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solvers, "compiled_loop", lambda loop: loop)
        step.main(["--quick", "--json", str(folder / "step.json"), "--plot", str(folder / "step.png")])
    return folder


def test_step_json_holds_all_results_and_the_environment(solvers, quick):
    found = json.loads((quick / "step.json").read_text())
    assert found["quick"] is True
    assert found["command"].startswith("python -m benchmarks.step --quick --json")
    assert {"python", "numpy", "numba", "fiol"} == found["versions"].keys()
    assert all(found[key] for key in ("cpu", "platform", "date", "unit"))
    sections = [r["section"] for r in found["results"]]
    assert sections == ["paper"] * 4 + ["dense"] * 2 + ["sparse"] * 2
    names = {solvers.EXPLICIT, solvers.PLAIN, *solvers.SOLVERS}
    for result in found["results"]:
        assert result["us"].keys() == result["passes"].keys() == names
        assert all(value > 0.0 for value in result["us"].values())
    assert found["exponents"].keys() == {"dense", "sparse"}
    assert len(found["targets"]) == 9
    assert all({"claim", "measured", "holds"} == target.keys() for target in found["targets"])


def test_step_plot_is_an_image(quick):
    assert (quick / "step.png").read_bytes().startswith(b"\x89PNG")


def test_compiled_benchmark_loops_match_interpreter(solvers, monkeypatch):
    streams = solvers.paper_stream(30, 20, 0.0, 1e-3), solvers.sparse_stream(100, 10, 20, 0.1)
    names = ("Newton", solvers.EXPLICIT)
    found = [solvers.contestants(stream)[name].once()[0].copy() for stream, name in zip(streams, names, strict=True)]
    monkeypatch.setattr(solvers, "compiled_loop", lambda loop: loop)
    expected = [solvers.contestants(stream)[name].once()[0].copy() for stream, name in zip(streams, names, strict=True)]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=0.0, atol=1e-12)


def test_disagreeing_solvers_are_reported(solvers, monkeypatch):
    monkeypatch.setattr(solvers, "compiled_loop", lambda loop: loop)
    monkeypatch.setitem(solvers.SOLVERS, "Bisection", solvers.Bisection(1e-2))
    with pytest.raises(AssertionError, match="Bisection ends"):
        solvers.measure("paper", solvers.paper_stream(30, 20, 0.0, 1e-3), 1)


def test_report_marks_missed_targets(step, solvers):
    names = [solvers.EXPLICIT, solvers.PLAIN, *solvers.SOLVERS]

    def result(section, nnz):
        us = {name: float(nnz) for name in names}
        return step.Result(section, section, nnz, nnz, 1, 0.0, 1e-4, us, us)

    results = [result("paper", 1000), *(result(s, n) for s in ("dense", "sparse") for n in (10, 1000, 2000))]
    holds = [t.holds for t in step.targets(results)]
    assert holds == [True, False, False, False, True, True, True, True]
    assert step.report(results, step.FULL).count("FAIL") == 3


def test_streams_match_the_paper(solvers):
    stream = solvers.paper_stream(200, 5000, 0.5, 1e-3)
    correlation = np.corrcoef(stream.x[:, 0], stream.x[:, 1])[0, 1]
    assert correlation == pytest.approx(0.5, abs=0.05)
    sparse = solvers.sparse_stream(1000, 30, 50, 1e-3)
    assert (np.diff(sparse.feature, axis=1) > 0).all()
    assert sparse.feature.max() < 1000


# --- benchmarks.stream ------------------------------------------------------------------------

A9A = "-1 2:1 5:0.5\n+1 1:2\n\n-1\n+1 3:1 4:1 7:-3\n"
COVTYPE = "Elevation,Slope,Cover\n200,0,2\n-400,3,5\n0,0,2\n"


def interpreted(stream, patch):
    make = lambda name, **options: stream.Learner(stream.UPDATES[name], compiled=False, **options)  # noqa: E731
    patch.setattr(stream, "make_learner", make)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with two tiny data sets."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "a9a.xz").write_bytes(lzma.compress(A9A.encode()))
    (folder / "covtype.csv").write_text(COVTYPE)
    return folder


@pytest.fixture(scope="module")
def streamed(stream, data, folder, tmp_path_factory):
    """A whole quick run, in the interpreter and without peers: its report and its numbers."""
    path = tmp_path_factory.mktemp("bench") / "new" / "stream.json"
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as printed:
        interpreted(stream, patch)
        patch.setattr(stream, "peer", lambda module: False)
        patch.setattr(data, "load", partial(data.load, cache=path.parent))
        stream.main(["--quick", "--rounds", "2", "--data", str(folder), "--json", str(path)])
    return printed.getvalue(), json.loads(path.read_text())


def test_stream_json_holds_all_results_and_the_environment(stream, streamed):
    _, found = streamed
    assert found["quick"] is True
    assert found["command"].startswith("python -m benchmarks.stream --quick --rounds 2")
    assert {"python", "numpy", "numba", "fiol"} == found["versions"].keys()
    assert all(found[key] for key in ("cpu", "platform", "date", "unit", "clock"))
    assert found["rounds"] == dict.fromkeys(stream.SECTIONS, 2)
    sections = [r["section"] for r in found["results"]]
    assert sections == ["pass"] * 3 + ["width"] * 2 + ["pages"] + ["nnz"] * 2 + ["event"] * 6
    assert [r["name"] for r in found["results"][:3]] == ["a9a", "covtype", "synthetic"]
    for result in found["results"]:
        assert all(value > 0.0 for value in result["us"].values())
    names = {s: list(r["us"]) for s, r in zip(sections, found["results"], strict=True)}
    assert names["nnz"] == list(stream.UPDATES)
    assert names["pass"] == [*stream.UPDATES, *stream.ACCOUNTED.values()]
    assert names["width"] == [stream.LASSO, stream.DEFAULT, stream.READS]
    assert names["event"] == [stream.EXPLICIT, stream.LASSO, stream.DEFAULT]
    assert all(0.0 < loss < 10.0 for loss in found["results"][2]["seen"]["log loss"].values())
    assert found["exponents"].keys() == stream.UPDATES.keys()
    assert len(found["targets"]) == 6


def test_stream_reports_skipped_peers(streamed):
    report, _ = streamed
    assert "scikit-learn is not installed: left out." in report
    assert "river is not installed: left out." in report
    assert "FAIL" not in report
    assert report.count("too small to judge") == 6


def stream_results(stream, slow=1.0):
    """Results of a machine on which every target is met by a hair, or missed if that is `slow`."""

    def result(section, name, nnz, **us):
        names = {"explicit": stream.EXPLICIT, "lasso": stream.LASSO, "ridge": stream.RIDGE, "default": stream.DEFAULT}
        us = {names.get(key, key): value for key, value in us.items()}
        if section == "pass":
            us |= dict.fromkeys(stream.ACCOUNTED.values(), 1.0)
        for sk in (stream.SKLEARN_L1, stream.SKLEARN_L2) if section == "pass" else ():
            us |= {f"{sk}, fit": us["peer"], f"{sk}, partial_fit": 2.0 * us["peer"]}
        seen = {key: dict.fromkeys(us, 1.0) for key in ("log loss", "non-zero weights", "first pass", "bytes")}
        return stream.with_faster(stream.Result(section, name, int(nnz), nnz, 10, us, seen))

    fiol = {"lasso": 1.99 * slow, "ridge": 2.99 * slow, "default": 9.0}
    results = [result("pass", "short", 10.0, explicit=1.0, peer=2.0, **fiol)]
    results += [result("pass", "long", 60.0, explicit=1.0, peer=2.6, **fiol)]
    for d, us in ((100, 1.0), (1000, 1.29 * slow)):
        results.append(result("width", f"{d}", d, lasso=us, default=us, **{stream.READS: 1.0}))
    for nnz in (10.0, 1000.0, 2000.0):
        us = nnz ** (1.09 * slow)
        results.append(result("nnz", f"{nnz}", nnz, explicit=us, lasso=us, ridge=us, default=us))
    results.append(result("event", "learn_one", 20.0, explicit=1.0, lasso=4.9 * slow, default=4.8 * slow))
    for nnz, bound in ((20.0, 1.0), (150.0, 3.0)):
        river = {stream.RIVER: bound * 5.0, stream.RIVER_SCORED: 100.0}
        results.append(result("event", "learn_named", nnz, explicit=1.0, lasso=4.9 * slow, default=4.8, **river))
    return results


def test_stream_targets_are_judged(stream):
    met, missed = stream.targets(stream_results(stream)), stream.targets(stream_results(stream, 1.05))
    assert [t.holds for t in met] == [True] * 11
    assert [t.holds for t in missed] == [False] * 11
    report = stream.report(stream_results(stream, 1.05), stream.FULL, [0.5])
    assert report.count("FAIL") == 11
    assert "(fit 4 times of 4)" in report
    assert "no memory here for 10,000" in report


def test_stream_reports_the_faster_of_two_variants(stream):
    ways = {f"{stream.SKLEARN_L1}, fit": 2.0, f"{stream.SKLEARN_L1}, partial_fit": 1.0}
    loss = {f"{stream.SKLEARN_L1}, fit": 0.2, f"{stream.SKLEARN_L1}, partial_fit": 0.1}
    found = stream.with_faster(stream.Result("pass", "", 1, 1.0, 1, ways, {"log loss": loss}))
    assert found.us[stream.SKLEARN_L1] == 1.0
    assert found.seen["log loss"][stream.SKLEARN_L1] == 0.1
    assert stream.SKLEARN_L2 not in found.us


def test_all_widths_learn_the_same_rows(stream):
    narrow = stream.even_rows(5, 20, 10)
    wide = stream.spread(narrow, 1000)
    place = np.unique(wide.indices)
    assert (np.diff(wide.indices.reshape(20, 5), axis=1) > 0).all()
    assert (np.diff(place) >= 8).all()  # a cache line each
    np.testing.assert_array_equal(np.searchsorted(place, wide.indices), narrow.indices)


def test_widths_that_do_not_fit_are_skipped(stream):
    assert stream.affordable((10, 100, 1000), 2 * stream.WIDE * 110) == [10, 100]
    assert stream.affordable((10, 100), np.inf) == [10, 100]


def test_events_agree_as_arrays_and_dicts(stream):
    rows = stream.event_rows(stream.QUICK, 20)
    for (indices, values), features in zip(stream.as_arrays(rows), stream.as_dicts(rows), strict=True):
        assert (np.diff(indices) > 0).all()
        assert features == {f"feature {i}": x for i, x in zip(indices, values, strict=True)}


def test_scikit_learn_makes_the_same_steps(stream, monkeypatch):
    pytest.importorskip("sklearn")
    interpreted(stream, monkeypatch)
    runs = stream.pass_contestants(stream.data.text_like(40, 500, 5))
    assert len(runs) == 11
    expected = runs[stream.EXPLICIT].once().weights
    for name in (f"{s}, {way}" for s in (stream.SKLEARN_L1, stream.SKLEARN_L2) for way in ("fit", "partial_fit")):
        np.testing.assert_allclose(runs[name].once().coef_[0], expected, atol=1e-2)  # strength 1e-5 against none


def test_river_learns_the_same_events(stream, monkeypatch):
    pytest.importorskip("river")
    interpreted(stream, monkeypatch)
    found = stream.measure_events("learn_named", 20, stream.QUICK)
    assert {stream.RIVER, stream.RIVER_SCORED} <= found.us.keys()


def test_stream_rejects_unsupported_options(stream, tmp_path, capsys):
    for arguments, message in ((["--data", str(tmp_path / "none")], "no folder"), (["--rounds", "0"], "at least 1")):
        with pytest.raises(SystemExit):
            stream.main(arguments)
        assert message in capsys.readouterr().err


# --- benchmarks.data --------------------------------------------------------------------------


def test_data_sets_are_parsed(data, folder, tmp_path):
    a9a, covtype = data.load(folder, tmp_path)
    assert (a9a.name, a9a.d, a9a.size, a9a.nnz) == ("a9a", 7, 4, 1.5)
    np.testing.assert_array_equal(a9a.indptr, [0, 2, 3, 3, 6])
    np.testing.assert_array_equal(a9a.indices, [1, 4, 0, 2, 3, 6])
    np.testing.assert_array_equal(a9a.data, [1.0, 0.5, 2.0, 1.0, 1.0, -3.0])
    np.testing.assert_array_equal(a9a.y, [-1.0, 1.0, -1.0, 1.0])
    np.testing.assert_array_equal(covtype.matrix().toarray(), [[0.5, 0.0], [-1.0, 1.0], [0.0, 0.0]])
    np.testing.assert_array_equal(covtype.y, [1.0, -1.0, 1.0])
    np.testing.assert_array_equal(covtype.scores(np.array([2.0, 3.0])), [1.0, 1.0, 0.0])


def test_data_set_cache_is_refreshed_when_the_file_changes(data, tmp_path):
    source, path = data.Source("frappe", "frappe.libfm", data.read_libfm), tmp_path / "frappe.libfm"
    path.write_text("1 0:1 2:1\n")
    first = data.read(source, path, tmp_path / "cache")
    source = source._replace(read=None)
    again = data.read(source, path, tmp_path / "cache")
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)
    assert (again.d, again.indices.tolist(), again.indices.dtype) == (3, [0, 2], np.int32)
    path.write_text("1 0:1 2:1 5:1\n")
    assert data.read(source._replace(read=data.read_libfm), path, tmp_path / "cache").d == 6


def test_shuffled_rows_keep_their_labels(data, tmp_path):
    lines = [f"{1 if i % 3 else -1} {i + 1}:{i + 1}" for i in range(30)]
    (tmp_path / "w8a").write_text("\n".join(lines))
    (rows,) = data.load(tmp_path, tmp_path / "cache")
    assert not (np.diff(rows.indices) > 0).all()
    np.testing.assert_array_equal(rows.data, rows.indices + 1)
    np.testing.assert_array_equal(rows.y, np.where(rows.indices % 3, 1.0, -1.0))


def test_made_up_text_is_skewed_and_canonical(data):
    rows = data.text_like(500, 47_000)
    assert 65.0 < rows.nnz < 75.0
    assert np.mean(rows.indices < 47_000 / 8) == pytest.approx(0.5, abs=0.02)
    starts = np.zeros(len(rows.indices), bool)
    starts[rows.indptr[:-1]] = True
    assert ((np.diff(rows.indices) > 0) | starts[1:]).all()


# --- estimators -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def estimators():
    return importlib.import_module("benchmarks.estimators")


def test_estimators_parse_their_data_sets(estimators, data, folder):
    (folder / "a9a.t").write_text("-1 1:1\n+1 5:2\n")
    tasks = {task.name: task for task in estimators.load(folder)}
    assert tasks.keys() == {"a9a", "covtype", "covtype, class 2"}
    assert tasks["a9a"].X.shape[1] == tasks["a9a"].X_test.shape[1] >= 5
    assert tasks["a9a"].y_test.tolist() == [-1, 1]
    assert not any(task.numeric for task in tasks.values())
    X, y = data.columns(io.StringIO("a,target,b\n1,2,3\n4,5,6\n"), target="target", drop=("b",))
    assert (X.tolist(), y.tolist()) == ([[1.0], [4.0]], ["2", "5"])


def test_estimators_targets_are_judged(estimators, capsys):
    def passes(ours):
        return [
            {"task": "t", "rows": 30_000, "penalty": None, "seconds": {"sklearn": 1.0, "fiol": ours, "constant": 0.5}}
        ]

    def learned(ours):
        scaled = {"sklearn scaled": 0.7, "fiol scaled": 0.8}
        means = {"sklearn": 0.5, "fiol": ours, **scaled}
        errors = {f"{name} error": 0.0123 for name in means}
        return [{"task": "t", "what": "R2", **means, **errors, "sklearn worst": 0.4, "fiol worst": ours}]

    good = estimators.report(passes(0.9), {"fiol": 7.0}, learned(0.75))
    assert "0.75 (0.01)" in capsys.readouterr().out
    assert [target.holds for target in good] == [True] * 5
    bad = estimators.report(passes(1.1), {"fiol": 31.0}, learned(0.4))
    assert [target.holds for target in bad] == [False, True, False, False, False]
    scaled_better = estimators.report(passes(1.1), {"fiol": 31.0}, learned(0.6))
    assert [target.holds for target in scaled_better] == [False, True, False, True, False]
    assert "1.10 (t, None)" in bad[0].measured
    assert "behind on t" in bad[3].measured
    assert "30,000" in capsys.readouterr().out


def test_estimators_use_the_conventional_scaler(estimators):
    pytest.importorskip("sklearn")
    from sklearn.linear_model import SGDClassifier

    rng = np.random.default_rng(0)
    X = 1e3 + rng.standard_normal((200, 3))
    dense = estimators.behind_scaler(SGDClassifier(), X)
    np.testing.assert_allclose(dense[:-1].fit(X).transform(X).mean(axis=0), 0.0, atol=1e-9)
    rare = estimators.sparse.csr_matrix(X * (X > 1e3))
    scaled = estimators.behind_scaler(SGDClassifier(), rare)[:-1].fit(rare).transform(rare)
    assert scaled.nnz == rare.nnz
    np.testing.assert_allclose(abs(scaled).max(axis=0).toarray(), 1.0)


def test_estimators_are_scored_with_and_without_a_scaler(estimators, monkeypatch):
    from sklearn.base import BaseEstimator

    class Model(BaseEstimator):
        def __init__(self, random_state=None, max_iter=1, tol=None, features="linear"):
            self.random_state = random_state

        def fit(self, X, y):
            self.fitted_ = True
            return self

        def score(self, X, y):
            return self.random_state + float(np.abs(X).max())

    for name in ("SGDClassifier", "FIOLClassifier"):
        monkeypatch.setattr(estimators, name, Model)
    X, y = np.array([[0.0], [10.0]]), np.array([0, 1])
    found = estimators.accuracies(estimators.Task("t", X, y, X, y), 3)
    alone, scaled = {"sklearn": 11.0, "sklearn worst": 10.0}, {"sklearn scaled": 2.0, "sklearn scaled worst": 1.0}
    alone["sklearn error"] = scaled["sklearn scaled error"] = 3**-0.5  # of 10, 11 and 12
    expected = {**alone, **scaled} | {key.replace("sklearn", "fiol"): v for key, v in {**alone, **scaled}.items()}
    expected |= {key.replace("sklearn", "fiol auto"): v for key, v in alone.items()}  # dense rows have curves as well
    assert found == pytest.approx({"task": "t", "what": "accuracy", **expected})


def test_estimators_report_without_times(estimators, monkeypatch, capsys):
    names = "sklearn", "sklearn scaled", "fiol", "fiol scaled"
    one = {"task": "t", "what": "accuracy", **dict.fromkeys(names, 0.5)}
    one |= dict.fromkeys((f"{name} error" for name in names), 0.1)
    worst = {"sklearn worst": 0.25, "fiol worst": 0.25}
    monkeypatch.setattr(estimators, "accuracies", lambda task, seeds: {**one, **worst})
    estimators.main(["--quick", "--no-times"])
    printed = capsys.readouterr().out
    assert "0.25" in printed
    assert "microseconds" not in printed


# --- benchmarks.ensembles ---------------------------------------------------------------------


def test_ensembles_time_all_models_and_judge_the_worst_set(tmp_path, capsys):
    ensembles, path = load("ensembles"), tmp_path / "new" / "ensembles.json"
    ensembles.main(["--quick", "--rounds", "1", "--json", str(path)])
    found = json.loads(path.read_text())
    assert found["command"].startswith("python -m benchmarks.ensembles --quick")
    names = ["single", "ensemble", "ensemble, floats", "gate", "ridge", "softmax", "single l1", "single ridge"]
    assert list(found["us"]["synthetic"]) == [*names, "scikit-learn l1", "scikit-learn l2"]
    assert "too small to judge" in capsys.readouterr().out
    us = dict.fromkeys([*names, "scikit-learn l1", "scikit-learn l2", "base"], 1.0)
    targets = ensembles.targets_of({"a": us, "b": us | {"ensemble": 1.8}}, 7.0)
    failed = [target.claim for target in targets if not target.holds]
    assert failed == ["ensemble at most 1.7 times base", "learn_one of 20 features in 6 us"]
    assert targets[0].measured == "1.00 to 1.80 (b)"


# --- benchmarks.step_sizes --------------------------------------------------------------------


@pytest.fixture(scope="module")
def step_sizes():
    return load("step_sizes")


@pytest.fixture(scope="module")
def sized(step_sizes, tmp_path_factory):
    """A whole quick run in the interpreter: its report and its folder."""
    pytest.importorskip("matplotlib")
    folder = tmp_path_factory.mktemp("bench") / "new"
    files = ["--json", str(folder / "sizes.json"), "--plot", str(folder / "sizes.svg")]
    with redirect_stdout(io.StringIO()) as printed:
        step_sizes.main(["--quick", *files], compiled=False)
    return printed.getvalue(), folder


def test_step_size_benchmark_varies_only_the_loss_step(step_sizes):
    for step_size in step_sizes.KINDS.values():
        explicit, exact = (
            vars(make(step_sizes.Logistic(), step_size=step_size(3.0, 2.0))) for make in step_sizes.UPDATES.values()
        )
        assert {key for key in exact if exact[key] != explicit[key]} == {"loss_step"}


def test_progressive_losses_match_a_plain_loop(step_sizes):
    rows = step_sizes.badly_scaled(40, d=4)
    x, eta, w, b, losses = rows.data.reshape(40, 4), 1e-4, np.zeros(4), 0.0, []
    for row, y in zip(x, rows.y, strict=True):
        margin = y * (row @ w + b)
        losses.append(np.logaddexp(0.0, -margin))
        pull = eta * y / (1.0 + np.exp(margin))
        w, b = w + pull * row, b + pull
    update = step_sizes.COMID(step_sizes.Logistic(), step_size=step_sizes.Constant(eta))
    assert step_sizes.progressive_loss(update, rows, compiled=False) == pytest.approx(np.mean(losses), rel=1e-9)


def test_curves_count_step_sizes_near_the_best_of_both_steps(step_sizes):
    curves = step_sizes.Curves("t", "k", {"explicit": [0.5, 0.22, 0.24, np.inf], "exact": [0.5, 0.21, 0.2, 0.3]})
    assert (curves.best("explicit"), curves.worst("explicit"), curves.good("explicit")) == (0.22, np.inf, 1)
    assert (curves.best("exact"), curves.worst("exact"), curves.good("exact")) == (0.2, 0.5, 2)
    report = step_sizes.report([curves])
    assert "explicit 1, exact 2" in report
    assert "better than the best explicit one in 1 of 1" in report
    assert "Worst loss of all: explicit overflow, exact 0.5" in report


def test_step_sizes_json_and_plot(step_sizes, sized):
    report, folder = sized
    found = json.loads((folder / "sizes.json").read_text())
    assert found["command"].startswith("python -m benchmarks.step_sizes --quick")
    np.testing.assert_allclose(np.log10(found["sizes"]), np.arange(-3.0, 3.1, 0.5))
    assert [(r["name"], r["kind"]) for r in found["results"]] == [
        (name, kind) for name in ("synthetic", "badly scaled") for kind in step_sizes.KINDS
    ]
    for result in found["results"]:
        assert list(result["losses"]) == ["explicit", "exact"]
        assert all(len(losses) == 13 for losses in result["losses"].values())
        assert 10.0 * max(result["losses"]["exact"]) < max(result["losses"]["explicit"])
    assert "badly scaled" in report
    light, dark = (folder / "sizes.svg").read_text(), (folder / "sizes_dark.svg").read_text()
    assert step_sizes.LIGHT.steps["exact"].lower() in light.lower()
    assert step_sizes.DARK.steps["exact"].lower() in dark.lower()


def test_overflow_is_plotted(step_sizes, tmp_path):
    pytest.importorskip("matplotlib")
    lines = {"explicit": [0.5] * 12 + [np.inf], "exact": [0.5] * 13}
    step_sizes.draw([step_sizes.Curves("t", "k", lines)], "k", tmp_path / "one.png", step_sizes.LIGHT)
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")


def test_step_sizes_with_missing_data_raise(step_sizes, tmp_path, capsys):
    for folder, message in ((tmp_path / "none", "no folder"), (tmp_path, "has none of a9a, w8a")):
        with pytest.raises(SystemExit):
            step_sizes.main(["--data", str(folder)])
        assert message in capsys.readouterr().err


def test_raw_covtype_is_not_scaled(data, folder, tmp_path):
    (rows,) = data.load(folder, tmp_path, (data.RAW_COVTYPE,))
    np.testing.assert_array_equal(rows.matrix().toarray(), [[200.0, 0.0], [-400.0, 3.0], [0.0, 0.0]])
    np.testing.assert_array_equal(rows.y, [1.0, -1.0, 1.0])


# --- benchmarks.tuning ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tuning():
    return load("tuning")


def small_tasks(tuning, rows=30):
    """A task of each kind, in the interpreter: sparse rows of two classes, a table of numbers, a table of classes."""
    return [tuning.Task(*made, compiled=False) for made in tuning.made_up(rows)]


@pytest.fixture(scope="module")
def tuned(tuning, tmp_path_factory):
    """Return report and numbers of a quick run in the interpreter, without other libraries."""
    path = tmp_path_factory.mktemp("bench") / "new" / "tuning.json"
    with redirect_stdout(io.StringIO()) as printed:
        tuning.main(["--quick", "--no-vw", "--no-river", "--json", str(path)], compiled=False)
    return printed.getvalue(), json.loads(path.read_text())


def test_tuning_json_holds_all_results_and_the_environment(tuning, tuned):
    report, found = tuned
    assert found["command"].startswith("python -m benchmarks.tuning --quick --no-vw")
    assert [r["name"] for r in found["results"]] == ["synthetic", "numbers", "three classes"]
    for result in found["results"]:
        assert list(result["columns"]) == ["sklearn", "sklearn scaled", *tuning.NAMED, tuning.SINGLE]
        assert {name for names in result["columns"].values() for name in names} == result["losses"].keys()
        assert result["losses"].keys() > tuning.MODELS.keys()
        others = [name for column in ("sklearn", "sklearn scaled") for name in result["columns"][column]]
        assert result["best_other"] == min(result["losses"][name] for name in others)
        assert len(others) == 13 * (6 if result["name"] == "synthetic" else 4)
    assert "mean log ratio" in report
    assert "not installed" not in report


def test_missing_data_and_programs_are_reported(tuning, monkeypatch, capsys):
    monkeypatch.setattr(tuning, "find_spec", lambda name: None)
    monkeypatch.setattr(tuning.shutil, "which", lambda name: None)
    monkeypatch.setattr(tuning, "tasks", lambda options, compiled: small_tasks(tuning, 2)[:1])
    tuning.main(["--quick"], compiled=False)
    printed = capsys.readouterr().out
    assert "Vowpal Wabbit is not installed" in printed
    assert "River is not installed: left out." in printed


def test_metrics_of_scores(tuning):
    y = np.array([1.0, -1.0, -1.0])
    assert tuning.log_loss(np.zeros(3), y) == pytest.approx(np.log(2.0))
    assert tuning.log_loss(np.array([2.0, -1.0, 3.0]), y) == pytest.approx(
        np.mean(np.log1p(np.exp([-2.0, -1.0, 3.0]))), rel=1e-12
    )
    targets = np.array([3.0, 5.0, -2.0, 8.0])
    so_far = np.array([0.0, 3.0, 4.0, 2.0])
    assert tuning.relative_error(so_far, targets) == 1.0
    assert tuning.relative_error(targets + 2.0, targets) == pytest.approx(16.0 / (9.0 + 4.0 + 36.0 + 36.0))
    scores = np.array([[1.0, 2.0, 0.0], [0.0, 0.0, 0.0]])
    p = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    assert tuning.class_loss(scores, np.array([1.0, 2.0])) == pytest.approx(-np.log(p[0, 1] * p[1, 2]) / 2.0)
    shares = 1.0 / (1.0 + np.exp(-scores))
    expected = np.log(shares / shares.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(tuning.one_vs_rest(scores), expected, rtol=1e-12)


def test_overflow_is_an_infinite_loss(tuning):
    task = small_tasks(tuning)[1]
    overflows = tuning.Contestant("", "", lambda task: (_ for _ in ()).throw(OverflowError))
    assert task.judge(tuning.run(overflows, task)) == np.inf
    assert task.judge(np.full(30, 1e200)) == np.inf
    assert tuning.number(np.inf, 3) == "overflow"


def test_rows_are_predicted_before_they_are_learned_from(tuning):
    for task in small_tasks(tuning):
        y = task.rows.y.copy()
        y[-1] = -y[-1] if task.kind is not tuning.CLASSES else (y[-1] + 1.0) % task.classes
        other = tuning.Task(task.rows._replace(y=y), task.kind, compiled=False)
        for c in (*tuning.own("")["fiol"], *tuning.scikit_learn(task)["sklearn"][5:6]):
            np.testing.assert_array_equal(c.scores(task), c.scores(other))
            assert c.scores(task)[-1].any()


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kind", [0, 1, 2])
def test_scikit_learn_sgd_makes_the_same_constant_steps(tuning, kind, sparse):
    linear_model = pytest.importorskip("sklearn.linear_model")
    task = small_tasks(tuning, 200)[kind]
    x, y = task.rows.matrix(), task.labels
    eta = 0.1 / (1.0 + x.multiply(x).sum() / 200)
    x = x if sparse else x.toarray()
    options = {"learning_rate": "constant", "eta0": eta, "penalty": None}
    if task.kind is tuning.NUMBERS:
        model, more = linear_model.SGDRegressor(**options), {}
    else:
        model, more = linear_model.SGDClassifier(loss="log_loss", **options), {"classes": np.unique(y)}
    scores = tuning.sgd_scores(0.1, tuning.as_it_is, sparse, task)
    first = {tuning.NUMBERS: 0.0, tuning.BINARY: 0.0, tuning.CLASSES: -np.log(3.0)}[task.kind]
    np.testing.assert_allclose(scores[0], first)
    for t in range(200):
        if t and task.kind is tuning.NUMBERS:
            np.testing.assert_allclose(scores[t], model.predict(x[t : t + 1])[0], rtol=1e-9, atol=1e-12)
        elif t and task.kind is tuning.BINARY:
            np.testing.assert_allclose(scores[t], model.decision_function(x[t : t + 1])[0], rtol=1e-9, atol=1e-12)
        elif t:
            np.testing.assert_allclose(np.exp(scores[t]), model.predict_proba(x[t : t + 1])[0], rtol=1e-9)
        model.partial_fit(x[t : t + 1], y[t : t + 1], **more)


def test_scaled_rows_match_scikit_learn(tuning):
    preprocessing = pytest.importorskip("sklearn.preprocessing")
    sparse, numbers, _ = small_tasks(tuning)
    x, scaler = sparse.rows.matrix(), preprocessing.StandardScaler(with_mean=False)
    np.testing.assert_allclose(
        tuning.standardized(sparse).matrix().toarray(), scaler.fit_transform(x).toarray(), rtol=1e-9
    )
    for task in (sparse, numbers):
        expected = preprocessing.MaxAbsScaler().fit_transform(task.rows.matrix()).toarray()
        np.testing.assert_allclose(tuning.largest_one(task).matrix().toarray(), expected)
    x = numbers.rows.matrix().toarray()
    np.testing.assert_array_equal(numbers.array, x)
    expected = preprocessing.StandardScaler().fit_transform(x)
    np.testing.assert_allclose(tuning.standardized(numbers).matrix().toarray(), expected, atol=1e-12)
    found = tuning.standardized_so_far(numbers).matrix().toarray()
    for t in range(len(x)):
        expected = preprocessing.StandardScaler().fit(x[: t + 1]).transform(x[t : t + 1])[0]
        np.testing.assert_allclose(found[t], expected, atol=1e-9)


def test_constant_columns_are_not_scaled_up(tuning):
    rows = tuning.data.from_array(np.array([[0.1, 0.0], [0.1, 1.0], [0.1, 0.0]]), np.ones(3))
    task = tuning.Task(rows, tuning.NUMBERS, compiled=False)
    for scaled in (tuning.standardized, tuning.standardized_so_far):
        assert np.abs(scaled(task).matrix().toarray()[:, 0]).max() < 1e-9


def test_river_uses_its_default_steps(tuning):
    pytest.importorskip("river")
    task, numbers, classes = small_tasks(tuning)
    assert list(tuning.river(task)) == ["River", "River best"]
    update = tuning.SGD(tuning.Logistic(), step_size=tuning.Constant(0.01))
    expected = tuning.Learner(update, compiled=False).learn(task.rows.matrix(), task.rows.y)
    np.testing.assert_allclose(tuning.river_scores("SGD", (0.01,), task), expected, atol=1e-9)
    scaled = tuning.standardized_so_far(numbers).matrix().toarray()
    rows = np.array([[x[k] for k in range(8)] for x in tuning.river_rows(numbers)])
    np.testing.assert_allclose(rows, scaled, atol=1e-9)
    first = tuning.river_scores("SGD", (0.01,), classes)[0]
    np.testing.assert_allclose(first, -np.log(3.0))


def test_vowpal_wabbit_rows_are_written_and_scores_are_read(tuning, tmp_path):
    """By a program that writes back how many features a row has, negated for class 2."""
    script = tmp_path / "vw.py"
    script.write_text(
        "import sys\n"
        "options = dict(zip(sys.argv[1:-1], sys.argv[2:]))\n"
        "if '-d' in options:\n"
        "    lines = [line.count(':') for line in open(options['-d'])]\n"
        "    if '--oaa' in options:\n"
        "        text = ''.join(f' 1:{n} 2:{-n} 3:0\\n' for n in lines)\n"
        "    else:\n"
        "        text = ''.join(f'{n}\\n' for n in lines)\n"
        "    open(options['-r' if '--oaa' in options else '-p'], 'w').write(text)\n"
    )
    folder = tmp_path / "text"
    folder.mkdir()
    vw = tuning.VowpalWabbit([sys.executable, str(script)], folder)
    binary, numbers, classes = small_tasks(tuning)
    for task in (binary, numbers):
        np.testing.assert_array_equal(vw.scores(("-l", "2"), task), np.diff(task.rows.indptr))
    expected = tuning.one_vs_rest(np.diff(classes.rows.indptr)[:, None] * [1.0, -1.0, 0.0])
    np.testing.assert_allclose(vw.scores(("--coin",), classes), expected)
    columns = vw.columns()
    assert [c.name for c in columns["VW"]] == ["VW -l 0.5"]
    assert len(columns["VW best"]) == 6


def test_vowpal_wabbit_rows_match_libsvm_rows(tuning, data):
    rows = data.read_libsvm(io.StringIO("2 2:1 5:0.5\n-1.25 1:2\n7\n"), targets=data.numbers)
    lines = list(tuning.vw_lines(tuning.Task(rows, tuning.NUMBERS)))
    assert lines == ["2 | 1:1 4:0.5\n", "-1.25 | 0:2\n", "7 | \n"]
    coded = tuning.Task(rows._replace(y=data.classes(rows.y)), tuning.CLASSES)
    assert [line.partition(" ")[0] for line in tuning.vw_lines(coded)] == ["2", "1", "3"]
    read = data.read_vw(io.StringIO("1 |f 1:1 4:0.5\n-1 |f 0:2\n"))
    np.testing.assert_array_equal(read.matrix().toarray(), rows.matrix().toarray()[:2])
    assert read.y.tolist() == [1.0, -1.0]


def test_cached_results_are_keyed_by_their_inputs(tuning, tmp_path):
    task, asked = small_tasks(tuning)[0], []

    def contestant(name, made_from):
        return tuning.Contestant(name, made_from, lambda task: asked.append(name) or np.zeros(task.rows.size))

    def losses(*contestants, keep=False):
        asked.clear()
        return dict(tuning.Kept(tmp_path, keep).losses(task, contestants)), list(asked)

    a, b = contestant("a", "1"), contestant("b", "1")
    log2 = pytest.approx(np.log(2.0))
    assert losses(a) == ({"a": log2}, ["a"])
    assert losses(a, b) == ({"a": log2, "b": log2}, ["b"])
    assert losses(a, b) == ({"a": log2, "b": log2}, [])
    assert losses(contestant("a", "2"), keep=True)[1] == []
    assert losses(contestant("a", "2"), b)[1] == ["a"]
    task = tuning.Task(task.rows.take(np.arange(29)), task.kind, compiled=False)
    assert losses(b)[1] == ["b"]  # other rows


def test_tuning_compares_with_the_best_peer(tuning):
    columns = {"VW": ["a"], "VW best": ["a", "b"], "sklearn": ["c"], "fiol": ["fiol"], "ensemble": ["ensemble"]}
    columns[tuning.SINGLE] = ["d", "e"]
    losses = {"a": 0.5, "b": 0.2, "c": np.inf, "fiol": 0.1, "ensemble": 0.05, "d": 0.3, "e": 0.4}
    first = tuning.Found("s", 9, "u", losses, columns)
    second = first._replace(name="t", losses={**first.losses, "fiol": 0.2 * np.exp(0.5), "d": 0.4, "e": 0.2})
    assert (first.peer, first.winner("VW best"), first.best(tuning.SINGLE)) == (0.2, "b", 0.3)
    assert first.ratio(0.3) == pytest.approx(1.5)
    assert np.isnan(first.best("River"))
    lines = tuning.report([first, second]).splitlines()
    shown = " ".join(lines[2].split())
    assert shown == "s 9 0.5000 2.500 0.2000 1.000 overflow overflow 0.1000 0.500 0.0500 0.250 0.3000 1.500"
    means = [np.log(2.5), 0.0, np.inf, (np.log(0.5) + 0.5) / 2.0, np.log(0.25), np.log(1.5) / 2.0]
    assert lines[4].split()[3:] == [f"{mean:+.4f}" for mean in means]
    summary = {line.split()[0]: line.split()[1:] for line in lines[8:]}
    assert summary["fiol"] == [f"{means[3]:+.4f}", "1.649", "(t)", "1", "of", "2"]
    assert summary["d"][1:] == ["2.000", "(t)", "0", "of", "2"]


def test_tuning_with_missing_data_raises(tuning, tmp_path, capsys):
    for options, message in (
        (["--data", str(tmp_path / "none")], "no folder"),
        (["--data", str(tmp_path), "--sets", "bike"], "has none of bike_hour.csv"),
        (["--rows", "0"], "must be at least 1"),
        (["--sets", "what"], "invalid choice"),
    ):
        with pytest.raises(SystemExit):
            tuning.main([*options, "--no-vw", "--no-river"])
        assert message in capsys.readouterr().err


def test_tuning_takes_the_first_rows_of_selected_sets(tuning, data, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(data, "load", partial(data.load, cache=tmp_path))
    _, options = tuning.parse(["--data", str(folder), "--sets", "covtype 7", "a9a", "--rows", "2"])
    first, second = tuning.tasks(options, compiled=False)
    assert [first.rows.name, second.rows.name] == ["a9a", "covtype 7"]
    assert first.rows.y.tolist() == [-1.0, 1.0]
    assert (second.kind, second.classes, second.labels.tolist()) == (tuning.CLASSES, 2, [0, 1])


def test_messages_are_hashed_words(data):
    rows = data.read_messages(io.StringIO("Label\tSMS\nham\tOk ok, lar\nspam\tWin\tlar!\n"))
    assert rows.y.tolist() == [-1.0, 1.0]
    assert np.diff(rows.indptr).tolist() == [2, 2]
    assert sorted(rows.data[:2].tolist()) == [1.0, 2.0]
    assert len(set(rows.indices[:2]) & set(rows.indices[2:])) == 1
    assert rows.indices.max() < rows.d == 2**18


def test_tables_are_read_without_scaling(data):
    text = "instant,dteday,hr,temp,casual,registered,cnt\n1,1/1/2011,0,0.24,3,13,16\n2,1/1/2011,1,0.22,8,32,40\n"
    rows = data.read_table(io.StringIO(text), data.BIKE)
    np.testing.assert_array_equal(rows.matrix().toarray(), [[0.0, 0.24], [1.0, 0.22]])
    assert rows.y.tolist() == [16.0, 40.0]
    rows = data.read_table(io.StringIO("a,class\n2,1\n3,0\n"), targets=data.binary)
    assert rows.y.tolist() == [1.0, -1.0]


# --- benchmarks.sparsity ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def sparsity():
    return load("sparsity")


def test_sparsity_writes_json_and_plot(sparsity, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    singles = {name: sparsity.SINGLES[name] for name in ("FIOL 0.5", "ImplicitFTRL 3.0")}
    monkeypatch.setattr(sparsity, "SINGLES", singles)
    monkeypatch.setattr(sparsity, "WEIGHTS", [20, 10])
    path, picture, out = tmp_path / "new" / "sparsity.json", tmp_path / "new" / "sparsity.svg", io.StringIO()
    with redirect_stdout(out):
        sparsity.main(["--quick", "--no-vw", "--json", str(path), "--plot", str(picture)], compiled=False)
    found = json.loads(path.read_text())
    (result,) = found["results"]
    assert list(result["columns"]) == ["ensemble", "budget", "all l1", "best single", "sklearn l1", "batch l1"]
    assert found["strengths"] == sparsity.STRENGTHS[8::3]
    for name, runs in result["runs"].items():
        counts = [run["nonzero"] for run in runs]
        assert counts[0] >= counts[-1] or name == "all l1"  # the more penalty, the fewer
        what = "progressive" if name.endswith("partial_fit") else "held_back"
        assert all(0.0 < run[what] < 100.0 for run in runs)
    assert "Log loss, held back" in out.getvalue()
    assert picture.stat().st_size > 1000


def test_sparsity_holds_out_rows(sparsity, data, monkeypatch):
    rows = data.text_like(20, 50, 5)
    monkeypatch.setattr(sparsity.data, "text_like", lambda *size: rows)
    for option, last in (([], 4), (["--future"], 16)):
        _, options = sparsity.parse(["--quick", *option])
        (split,) = sparsity.splits(options, compiled=False)
        assert (split.first.rows.size, split.rest.rows.size) == (16, 4)
        assert split.rest.rows.y[0] == rows.y[last]
        np.testing.assert_array_equal(split.rest.rows.take([0]).data, rows.take([last]).data)


def test_sparsity_reads_vowpal_wabbit_models(sparsity, tmp_path):
    """A script in its place: it writes weights for features 1 and 3, and for the intercept, and scores of 0."""
    script = tmp_path / "vw.py"
    script.write_text(
        "import sys\n"
        "def of(name): return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else None\n"
        "open(of('-p'), 'w').writelines('0\\n' for _ in open(of('-d')))\n"
        "weights = 'lda:0\\n:0\\n1:0.5\\n3:-1\\n4:0\\n116060:2\\n'\n"
        "if of('--readable_model'): open(of('--readable_model'), 'w').write(weights)\n"
        "open(of('-f') or of('-i'), 'a').write(of('--l1') or '')\n"
    )
    _, options = sparsity.parse(["--quick"])
    (split,) = sparsity.splits(options, compiled=False)
    (tmp_path / "vw").mkdir()
    vw = sparsity.PenalisedWabbit([sys.executable, str(script)], tmp_path / "vw")
    assert vw.run(("-l", "2"), split, 0.5) == (2, pytest.approx(np.log(2.0)), pytest.approx(np.log(2.0)))
    assert (tmp_path / "vw" / "model").read_text() == "0.5"
    vw.run(("--ftrl",), split, 0.5)
    assert (tmp_path / "vw" / "model").read_text() == "0.516"  # times 32 rows, as its penalty counts once


# --- benchmarks.sensitivity -------------------------------------------------------------------


@pytest.fixture(scope="module")
def sensitivity():
    return load("sensitivity")


def test_sensitivity_of_all_models_to_step_sizes(sensitivity, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    files = ["--json", str(tmp_path / "new" / "s.json"), "--plot", str(tmp_path / "new" / "s.svg")]
    sensitivity.main(["--quick", "--no-vw", "--no-river", *files], compiled=False)
    found = json.loads((tmp_path / "new" / "s.json").read_text())
    (result,) = found["results"]
    assert list(result["curves"]) == ["scikit-learn", "exact", "explicit"]
    assert all(len(losses) == len(found["sizes"]) == 13 for losses in result["curves"].values())
    assert max(result["curves"]["exact"]) < 1.0 < max(result["curves"]["explicit"])
    assert result["ways"]["scikit-learn"].startswith("SGD")  # the best of six ways
    assert "of 13" in capsys.readouterr().out
    dark = (tmp_path / "new" / "s_dark.svg").read_text().lower()
    assert sensitivity.DARK.who["exact"].lower() in dark
    assert sensitivity.DARK.ground in dark


def test_sensitivity_headline_matches_the_results(sensitivity):
    curves = {"exact": [0.5, 0.22], "explicit": [0.25, np.inf]}
    better = sensitivity.Sensitivity("a", 9, 0.21, curves, {})
    worse = sensitivity.Sensitivity("b", 9, 0.231, curves, {})
    assert sensitivity.headline([better]) == (
        "Without tuning, fiol beats the others at their best step size; 1 of 4 tuned runs come within 10%"
    )
    both = sensitivity.headline([better, worse])
    assert "step size on 1 of 2 data sets, elsewhere at most 5.0% worse; 3 of 8 tuned runs" in both


def test_sensitivity_with_missing_data_raises(sensitivity, tmp_path, capsys):
    for folder, message in ((tmp_path / "none", "no folder"), (tmp_path, "has none of a9a, w8a")):
        with pytest.raises(SystemExit):
            sensitivity.main(["--data", str(folder), "--no-vw"])
        assert message in capsys.readouterr().err


# --- benchmarks.parallel ----------------------------------------------------------------------


def test_parallel_costs_are_percents_above_one_stream(monkeypatch):
    parallel = load("parallel")
    monkeypatch.setattr(parallel, "LEARNERS", {"Curvature": parallel.LEARNERS["Curvature"]})
    rows = parallel.data.text_like(2600, 50)
    (found,) = parallel.measure(rows, 1, (2,), squared=False)
    order = np.random.default_rng(0).permutation(rows.size)
    seen, kept, X = order[:2080], order[2080:], rows.matrix()
    losses = []
    for parts in (1, 2):
        learner = parallel.Learner(parallel.LEARNERS["Curvature"](parallel.Logistic()))
        learner.learn_parallel(X[seen], rows.y[seen], parts=parts, threads=1)
        losses.append(np.mean(np.logaddexp(0.0, -rows.y[kept] * learner.scores(X[kept]))))
    assert found.loss == pytest.approx(losses[0], rel=1e-9)
    assert found.percent["K = 2"] == pytest.approx([100.0 * (losses[1] / losses[0] - 1.0)], abs=1e-5)
    assert "Curvature" in parallel.report([found])


# --- benchmarks.robustness --------------------------------------------------------------------


@pytest.fixture(scope="module")
def robustness():
    pytest.importorskip("sklearn")
    return load("robustness")


def test_robustness_quick_run_holds_all_parts(robustness, tmp_path, monkeypatch, capsys):
    """With fewer rows than `--quick`, in the interpreter."""
    interpret(monkeypatch)
    monkeypatch.setattr(robustness, "QUICK", robustness.Sizes(60, (20,), (3,), 4, 12, 40, 12))
    robustness.main(["--quick", "--json", str(tmp_path / "new" / "r.json")])
    found = json.loads((tmp_path / "new" / "r.json").read_text())
    assert found["command"].startswith("python -m benchmarks.robustness --quick --json")
    units = {}
    for one in found["results"]:
        units.setdefault(one["group"], []).append(one["unit"])
        assert np.isfinite(one["measured"])
        assert (one["beside"] is None) == (one["group"] == "usual")
    assert units["outliers"] == 6 * ["accuracy"] + 6 * ["R2"]
    assert units["passes"] == 3 * ["RMSE"]
    assert units["offsets"][:2] == ["log loss of classes", "log loss"]
    assert units["targets"] == 8 * ["R2"]
    assert units["classes"] == 4 * ["log loss"]
    assert units["usual"] == ["log loss", "relative squared error"]
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 1 + len(found["results"])
    assert "outliers: 10 of 1e6, squared, fit" in "\n".join(printed)


def test_robustness_compares_merits_by_difference_and_losses_by_ratio(robustness):
    compared = [robustness.Found("g", "n", *row).compared() for row in (("R2", -1.0, 0.5), ("RMSE", 3.0, 2.0))]
    assert compared == ["-1.5", "x 1.500"]
    assert robustness.Found("usual", "n", "log loss", 0.5).compared() == ""


def test_robustness_finds_the_first_rows_of_a_folder(robustness, tmp_path):
    (tmp_path / "vw").mkdir()
    (tmp_path / "vw" / "0001_25.dat").write_text("1 |f a:2 b\n0 |f c:-1\n")
    (found,) = robustness.first_rows(tmp_path)
    assert (found.group, found.name, found.unit) == ("first rows", "0001_25.dat", "squared error")
    assert 0.0 < found.measured <= 1.0
    assert found.beside is None or 0.0 < found.beside <= 1.0


def test_robustness_scaler_knows_only_rows_so_far(robustness):
    X = np.random.default_rng(0).normal(5.0, 2.0, (9, 2))
    found = robustness.standardized_so_far(X)
    assert (found[0] == 0.0).all()
    for r in range(1, 9):
        seen = X[: r + 1]
        np.testing.assert_allclose(found[r], (X[r] - seen.mean(axis=0)) / seen.std(axis=0), rtol=1e-9)


def test_robustness_with_missing_data_raises(robustness, tmp_path, capsys):
    with pytest.raises(SystemExit):
        robustness.main(["--data", str(tmp_path / "none")])
    assert "is no folder" in capsys.readouterr().err


# --- benchmarks.tables ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tables():
    pytest.importorskip("sklearn")
    return load("tables")


def test_tables_compare_the_stack_with_its_best_level(tables, monkeypatch, capsys):
    interpret(monkeypatch)
    found = next(tables.made_up(40))
    record = tables.compare(found, "file", tables.Limits(0, 0.0, 0), rivals=False)
    assert record["stack / best level"] > 0.9
    assert record["loss"].keys() == set(tables.LEVELS)
    head = tables.shown([record]).splitlines()[0]
    assert head.split()[-5:] == ["auto", "stack", "/", "best", "level"]


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_tables_have_predictions_of_vowpal_wabbit_for_every_row(tables, classes):
    pytest.importorskip("vowpalwabbit")
    draw = np.random.default_rng(0)
    X = draw.normal(size=(60, 3))
    y = X[:, 0] ** 2 if classes == 0 else draw.integers(0, classes, 60)
    found = tables.Table("t", X, y, classes)
    for choices in tables.VW_INTERACTIONS.values():
        for interactions in choices:
            said = tables.vw_predictions(found, interactions, 0.5)
            assert said.shape == ((60, 3) if classes == 3 else (60,))
            assert np.isfinite(tables.losses_of(found, said)).all()


def test_tables_say_that_interpret_is_missing(tables, monkeypatch, capsys):
    interpret(monkeypatch)
    monkeypatch.setattr(tables, "times", lambda rows, turns: {})
    monkeypatch.setattr(tables, "compare", lambda found, order, limits, rivals: asked.append(rivals) or {})
    monkeypatch.setattr(tables, "shown", lambda records: "")
    monkeypatch.setattr(tables.importlib.util, "find_spec", lambda name: None)
    asked = []
    tables.main(["--only", "made-up noisy", "--seeds", "3", "--rival-seeds", "2", "--rows", "9", "--rival-rows", "9"])
    assert "EBM: interpret is not installed" in capsys.readouterr().out
    assert asked == [True, True, True, False]  # the file's order, then shuffled


# --- all --------------------------------------------------------------------------------------


HELP = """
import sys, runpy
for name in sys.argv[1:]:
    sys.argv = [name, "--help"]
    try:
        runpy.run_module(f"benchmarks.{name}", run_name="__main__")
    except SystemExit:
        pass
    loaded = {"numba", "matplotlib", "sklearn", "river"} & sys.modules.keys()
    assert not loaded, f"{name} --help loads {loaded}"
"""


def test_benchmark_help_loads_no_compiler():
    names = ["step", "stream", "step_sizes", "tuning", "sensitivity", "sparsity", "files", "parallel", "robustness"]
    done = subprocess.run([sys.executable, "-c", HELP, *names], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for page in done.stdout.split("usage: ")[1:]:
        assert "--json" in page
    assert done.stdout.count("usage: ") == len(names)


# --- two versions side by side ----------------------------------------------------------------


def test_times_are_read_from_benchmark_json():
    from benchmarks.versus import times

    passes = [{"task": "a9a", "rows": 3, "seconds": {"fiol": 0.5}}]
    found = {"command": "python -m x", "results": [{"name": "a9a", "us": {"FIOL": 2.0}}], "passes": passes}
    assert dict(times(found)) == {"a9a: FIOL": 2.0, "a9a, rows 3: fiol": 0.5}
    by_set = {"command": "python -m x", "date": "today", "us": {"a9a": {"gate": 2.0}}}
    assert dict(times(by_set)) == {"us, a9a: gate": 2.0}


@pytest.mark.parametrize(("script", "benchmark"), [("versus", ["step"]), ("first_use", [])])
def test_folder_without_another_version_raises(script, benchmark, tmp_path, capsys):
    with pytest.raises(SystemExit):
        importlib.import_module(f"benchmarks.{script}").main([str(tmp_path), *benchmark])
    assert f"{tmp_path} holds no version of fiol" in capsys.readouterr().err


def test_first_use_leaves_out_cases_that_another_version_lacks(tmp_path, monkeypatch, capsys):
    first_use = importlib.import_module("benchmarks.first_use")
    (tmp_path / "src" / "fiol").mkdir(parents=True)
    (tmp_path / "src" / "fiol" / "__init__.py").write_text("")
    clock = "import json, time, fiol\nwall, cpu = time.perf_counter(), time.process_time()\n"
    monkeypatch.setattr(first_use, "START", clock)
    monkeypatch.setattr(first_use, "CASES", {"both": "", "newer": "fiol.__version__\n"})
    first_use.main([str(tmp_path), "--turns", "2", "--json", str(tmp_path / "found.json")])
    said = capsys.readouterr().out
    assert said.count(f"newer is left out for {tmp_path.name}: AttributeError") == 1
    found = json.loads((tmp_path / "found.json").read_text())["times"]
    assert [len(found["both"]), len(found["newer"])] == [2, 1]


# --- single events ----------------------------------------------------------------------------


@pytest.fixture
def events():
    pytest.importorskip("river")
    return importlib.import_module("benchmarks.events")


def test_events_have_the_expected_names(events):
    for names, distinct in (("same", 3), ("known", 12), ("new", 180), ("text", 3)):
        rows = events.events(3, names, 60)
        assert {len(x) for x, _ in rows} == {3}
        assert len({name for x, _ in rows for name in x}) == distinct


def test_every_cell_of_events_is_measured(events, monkeypatch):
    interpret(monkeypatch)
    monkeypatch.setattr(events.gc, "collect", lambda: None)  # among all that tests leave behind it takes a second
    found = {(name, 2, "new"): pair for name, pair in events.measure(2, "new", 1, 4).items()}
    assert len(found) == 11
    assert all(ours > 0.0 and theirs > 0.0 for ours, theirs in found.values())
    lines = events.table(found).splitlines()
    assert len(lines) == 13
    assert lines[2].startswith("| regressor predict_one | ")


# --- benchmarks.files -------------------------------------------------------------------------


def test_files_benchmark_writes_equal_rows_and_a_quick_run_is_complete(tmp_path, monkeypatch, capsys):
    files = load("files")
    monkeypatch.setattr(files, "CACHE", tmp_path / "texts")
    spent = files.Spent
    monkeypatch.setattr(files, "run", lambda command: spent(1.0 + ("start" not in command[-2]), 1.0))  # no process
    monkeypatch.setattr(files, "peak_of_pipe", lambda path, size, quick: 100.0)
    files.main(["--quick", "--vw", "vw", "--json", str(tmp_path / "new" / "files.json")])
    found = json.loads((tmp_path / "new" / "files.json").read_text())
    assert found["command"].startswith("python -m benchmarks.files --quick")
    assert {*found["parsing_bytes_per_second"]} == {
        "fiol svmlight", "fiol vw, names", "fiol vw, hashed", "load_svmlight_file", "pyarrow csv",
        "fiol csv, numbers", "fiol json, numbers",
    }  # fmt: skip
    (timed,) = found["training"].values()
    assert [t["name"] for t in timed] == ["fiol l1", "fiol", "vw l1", "vw"]
    assert all(t["pass"] > 0 for t in timed)
    printed = capsys.readouterr().out
    assert "too small to judge" in printed
    assert "largest resident size" in printed
    svm, vw = (next((tmp_path / "texts").glob(f"*.{end}")) for end in ("svm", "vw"))
    assert svm.read_text() == vw.read_text().replace(" | ", " ")
    assert svm.stat().st_size == pytest.approx(50_000, rel=0.05)
    assert files.start_of(svm).read_text().count("\n") == 10


def test_files_benchmark_of_interactions_repeats_the_rows_of_rcv1(tmp_path, monkeypatch, capsys):
    files = load("files")
    monkeypatch.setattr(files, "CACHE", tmp_path / "texts")
    monkeypatch.setattr(files.data, "CACHE", tmp_path / "rows")
    (tmp_path / "rcv1_small.dat").write_text("-1 |f 9:0.5 12:2\n1 |f 9:1\n")
    run = []
    monkeypatch.setattr(files, "run", lambda command: run.append(command) or files.Spent(1.0, 1.0))
    files.main(["--interactions", "--data", str(tmp_path), "--vw", "vw", "--rounds", "1"])
    assert (tmp_path / "texts" / "rcv1-20.vw").read_text().splitlines()[1:3] == ["1 |f 10:1", "-1 |f 10:0.5 13:2"]
    assert [command[-2:] for command in run if command[0] != "vw"] == [["f", "f"]] * 6
    assert all("ff" in command for command in run if command[0] == "vw")
    assert "interactions: fiol, whole seconds of vw times 3" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="needs --data"):
        files.main(["--interactions"])


# --- benchmarks.story -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def story_numbers():
    """Made-up numbers of a run: one set that fiol loses, and one on which scikit-learn overflows."""
    speed = {f"{who}{p}": t for p in ("", ", L1") for who, t in (("fiol, default", 2.0), ("scikit-learn SGD", 1.0))}
    losses = {"fiol": {"default": 0.5}, "scikit-learn": {"default": 0.6, "rate 0.1": 0.4}}
    overflow = {"fiol": {"default": 0.5}, "scikit-learn": {"default": float("inf")}, "River": {"rate 0.01": 1.0}}
    contests = [
        {"name": name, "rows": 100, "losses": each, "shuffled": [[0.5, 0.6], [0.4, 0.7]]}
        for name, each in (("lost", losses), ("won", overflow))
    ]
    trees = {"fiol": [0.8, 1.0], "fiol, curves and pairs": [0.4, 2.0], "HistGradientBoosting": [0.1, 3.0]}
    return {
        **dict.fromkeys(("command", "cpu", "platform", "date"), "x"),
        "versions": {"fiol": "0.2.0"},
        "contests": contests,
        "trees": [{"name": "bike", "rows": 100, **trees}],
        "speed": speed,
        "events": {"fiol.river, default": 4.0, "River LogisticRegression": 2.0},
        "robustness": [{"name": "lost", "exact steps": [0.5, 0.9], "gradient steps": [0.5, 1e300], "default": 0.5}],
        "sparsity": [{"name": "lost", "fiol": [[1e-4, 10, 0.5]], "scikit-learn": [[1e-4, 20, 0.4]]}],
        "memory": {"default, file": 92.0},
        "growth": {"rows": [[100, 1.0], [1000, 1.0]]},
    }


def test_story_page_begins_with_what_is_lost(story_numbers):
    page = load("story.page").render(story_numbers)
    assert len(page.split()) <= 1500
    lost = page[page.index("## Where fiol loses") : page.index("## Defaults against defaults")]
    for line in ("trees is 0.25 times that", "**lost**: scikit-learn with `rate 0.1`", "2 times as long", "L1 on lost"):
        assert line in lost
    assert "won" not in lost
    assert "overflow" in page


def test_geometric_mean_of_ratios(story_numbers):
    page = load("story.page")
    assert page.geometric_mean([2.0, 0.5]) == pytest.approx(1.0)
    assert page.geometric_mean([0.0, 1.0]) == pytest.approx(0.1)  # an overflow counts as 1/100
    *_, means = page.contest_rows(story_numbers["contests"], page.default_loss)
    assert means[-1] == "0.5"
    assert float(means[3]) == pytest.approx((0.5 / 0.6 * 0.01) ** 0.5, rel=0.01)


def test_story_run_measures_all_sections_and_writes_its_page(tmp_path, monkeypatch):
    for library in ("sklearn", "river", "threadpoolctl"):
        pytest.importorskip(library)
    interpret(monkeypatch)
    story = load("story.__main__")
    contests = load("story.contests")
    monkeypatch.setattr(contests, "Task", partial(contests.Task, compiled=False))
    monkeypatch.setattr(contests, "find_vw", lambda _: None)  # twelve processes
    monkeypatch.setattr(story, "QUICK", story.Sizes(20, 20, 20, 5, 64, 2, 1, 1))
    story.main(["--quick", "--folder", str(tmp_path / "new"), "--page", str(tmp_path / "page.md")])
    found = json.loads((tmp_path / "new" / "story.json").read_text())
    assert found["command"] == "make bench OPTIONS=--quick"
    assert [one["name"] for one in found["contests"]] == ["made-up text", "made-up table"]
    for one in found["contests"]:
        assert {"fiol", "scikit-learn"} <= one["losses"].keys()
        assert np.isfinite(list(one["losses"]["fiol"].values())).all()
    assert found["contests"][1]["losses"].keys() >= {"River"}
    assert all(0.0 < v < np.inf for part in ("speed", "events", "memory") for v in found[part].values())
    assert found["growth"].keys() == {"rows", "non-zeros of a row", "features", "shards, all threads together"}
    page = (tmp_path / "page.md").read_text()
    assert page == (tmp_path / "new" / "benchmarks.md").read_text()
    assert re.findall(r"^## (.+)$", page, re.MULTILINE)[0] == "Where fiol loses"
    assert not re.search(r"\{\w+\}|\bnan\b", page)
    assert "| made-up table | 20 |" in page

    monkeypatch.setattr(story, "measure", None)  # an earlier run is not measured again
    (tmp_path / "page.md").unlink()
    earlier = str(tmp_path / "new" / "story.json")
    story.main(["--from", earlier, "--folder", str(tmp_path / "new"), "--page", str(tmp_path / "page.md")])
    assert (tmp_path / "page.md").read_text() == page
