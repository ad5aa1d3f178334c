"""The experiments: their problem against independent formulas, their framework, what they write. No time is judged."""

import json
import pickle
from functools import partial
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from fiol import COMID, FIOL, L1, SGD, Squared
from fiol.experiments import parallel, regret, solvers, stability, table3
from fiol.experiments.algorithms import Algorithm, compilations, kind
from fiol.experiments.lasso import Lasso
from fiol.experiments.page import page, write_page
from fiol.experiments.report import Claim, Picture, Report, Table, as_json, environment
from fiol.plots import save_figure

RHOS = (0.0, 0.5, 0.9)


# --- the problem ------------------------------------------------------------------------------


def covariance(problem):
    return np.eye(problem.d) + problem.delta**2 * np.ones((problem.d, problem.d))


@pytest.mark.parametrize("rho", RHOS)
def test_objective_is_the_expectation(rho):
    problem = Lasso(d=12, rho=rho)
    w = np.random.default_rng(0).standard_normal(12)
    miss = w - problem.true
    dense = 0.5 * miss @ covariance(problem) @ miss + 0.5 * 0.2**2 + 0.1 * np.abs(w).sum()
    assert problem.objective(w) == pytest.approx(dense, rel=1e-13)
    x, y = problem.rows(np.random.default_rng(1), 200_000)
    losses = 0.5 * (x @ w - y) ** 2 + 0.1 * np.abs(w).sum()
    assert problem.objective(w) == pytest.approx(losses.mean(), abs=5 * losses.std() / np.sqrt(losses.size))


def test_objective_of_overflowed_weights_is_infinite():
    problem = Lasso(d=3)
    assert problem.objective(np.array([0.0, np.nan, 0.0])) == np.inf
    assert problem.objective(np.array([0.0, 1e200, 0.0])) == np.inf


@pytest.mark.parametrize("rho", RHOS)
def test_rows_have_the_specified_covariance(rho):
    problem = Lasso(d=5, rho=rho)
    x, y = problem.rows(np.random.default_rng(0), 100_000)
    np.testing.assert_allclose(np.cov(x.T), covariance(problem), atol=0.05 * (1 + problem.delta**2))
    assert np.corrcoef(x[:, 0], x[:, 3])[0, 1] == pytest.approx(rho, abs=0.02)
    assert np.std(y - x @ problem.true) == pytest.approx(0.2, abs=0.005)
    np.testing.assert_allclose(problem.true[:3], [-1.0, np.exp(-0.1), -np.exp(-0.2)])


@pytest.mark.parametrize("d", [1, 2, 30, 1000])
@pytest.mark.parametrize("rho", RHOS)
def test_optimum_satisfies_the_optimality_conditions(rho, d):
    problem = Lasso(d, rho)
    w, value, error = problem.optimum
    gradient = (w - problem.true) + problem.delta**2 * np.sum(w - problem.true)
    assert np.abs(gradient[w == 0.0]).max(initial=0.0) <= 0.1 + 1e-12
    np.testing.assert_allclose(gradient[w != 0.0], -0.1 * np.sign(w[w != 0.0]), atol=1e-12)
    assert 0.0 <= error < 1e-12
    assert value == problem.objective(w)


@pytest.mark.parametrize("rho", RHOS)
def test_optimum_matches_scikit_learn(rho):
    linear_model = pytest.importorskip("sklearn.linear_model")
    problem = Lasso(d=40, rho=rho)
    root = np.linalg.cholesky(covariance(problem)).T * np.sqrt(40)  # 1/(2n) |root (w - v)|^2 is the quadratic
    model = linear_model.Lasso(alpha=0.1, fit_intercept=False, tol=1e-14, max_iter=1_000_000)
    w = model.fit(root, root @ problem.true).coef_
    np.testing.assert_allclose(problem.optimum.w, w, atol=1e-6)
    assert problem.optimum.value <= problem.objective(w) + 1e-13


def test_error_bound_of_the_optimum_holds():
    problem = Lasso(d=30, rho=0.5)
    w = problem.optimum.w + 1e-3
    bound = 0.5 * np.sum(problem.smallest_subgradient(w) ** 2)
    assert 0.0 < problem.objective(w) - problem.optimum.value <= bound


def test_optimum_matches_the_paper():
    values = [Lasso(rho=rho).optimum.value for rho in (0.0, 0.5)]
    np.testing.assert_allclose(values, [0.878204, 0.878251], atol=1e-6)
    assert all(p.value < min(values) for printed in table3.PRINTED.values() for p in printed.values())


def test_chunks_are_canonical_and_seeded():
    problem = Lasso(d=4, rho=0.5)
    stream, again = problem.chunks(3, 7), problem.chunks(3, 7)
    rng = np.random.default_rng(7)
    for _ in range(3):
        (chunk, y), (same, y_same) = next(stream), next(again)
        x, expected = problem.rows(rng, 3)
        np.testing.assert_array_equal(chunk.data.reshape(3, 4), x)
        np.testing.assert_array_equal(chunk.data, same.data)
        np.testing.assert_array_equal(y, expected)
        np.testing.assert_array_equal(y, y_same)
        assert chunk.indices.tolist() == [0, 1, 2, 3] * 3
        assert chunk.indptr.tolist() == [0, 4, 8, 12]


# --- the framework ----------------------------------------------------------------------------

PARTS = Squared(), L1(0.1)
TINY = table3.Settings(seconds=0.02, d=20, etas=(1e-3, 1e2), rows=8, compiled=False)


def test_equal_kinds_of_updates_are_compiled_once():
    fiol, comid = partial(FIOL, *PARTS), partial(COMID, *PARTS)
    algorithms = [
        Algorithm("a", fiol),
        Algorithm("b", fiol, 0.5),
        Algorithm("c", fiol, average=True),
        Algorithm("d", comid),
    ]
    assert len(compilations(algorithms)) == 3
    assert kind(fiol()) != kind(comid())
    pickle.loads(pickle.dumps(algorithms))
    assert np.isnan(Algorithm("e", fiol, None).etas([1.0])).all()


def steady_clock(monkeypatch):
    """Let every chunk of a race take a millisecond, on any machine."""
    ticks = count(10**6)
    monkeypatch.setattr(table3.time, "process_time", lambda: 1e-3 * next(ticks))


def test_all_runs_learn_the_same_rows_in_turns(monkeypatch):
    seen, learn = [], table3.Run.learn

    def spy(self, chunk, y, ones):
        seen.append((self.algorithm.name, self.eta, chunk.data.tobytes(), y.tobytes()))
        learn(self, chunk, y, ones)

    steady_clock(monkeypatch)
    monkeypatch.setattr(table3.Run, "learn", spy)
    algorithms = [Algorithm("SGD", partial(SGD, *PARTS)), Algorithm("FIOL", partial(FIOL, *PARTS))]
    *_, last = table3.race(TINY, 0.5, algorithms)
    runs = {(name, eta): [rows for n, e, *rows in seen if (n, e) == (name, eta)] for name, eta, *_ in seen}
    assert len(runs) == 4
    longest = max(runs.values(), key=len)
    for (name, eta), rows in runs.items():
        assert rows == longest[: len(rows)]
        outcome = next(o for o in last.outcomes if (o.algorithm, o.eta) == (name, eta))
        assert outcome.steps == 8 * len(rows)
        lost = outcome.overflowed or outcome.gap > 1e50
        assert lost == ((name, eta) == ("SGD", 1e2))
        assert outcome.overflowed or outcome.seconds >= TINY.seconds
    assert [name for name, *_ in seen[:8]] == ["SGD", "SGD", "FIOL", "FIOL"] * 2
    assert last.share == 1.0


def test_race_outcomes_match_a_plain_loop(monkeypatch):
    steady_clock(monkeypatch)
    settings = table3.Settings(seconds=0.01, d=6, etas=(1e-2,), rows=4, compiled=False)
    *_, last = table3.race(settings, 0.0, [Algorithm("SGD", partial(SGD, *PARTS))])
    (found,), problem, w, losses = last.outcomes, Lasso(6), np.zeros(6), []
    x, y = [], []
    stream = problem.chunks(4, settings.seed)
    for _ in range(found.steps // 4):
        chunk, targets = next(stream)
        x.append(chunk.data.reshape(4, 6).copy())
        y.append(targets)
    penalty = 0.0
    for t, (row, target) in enumerate(zip(np.concatenate(x), np.concatenate(y), strict=True)):
        if t % 4 == 0:
            penalty = 0.1 * np.abs(w).sum()
        losses.append((0.5 * (row @ w - target) ** 2, penalty))
        w = w - 1e-2 * ((row @ w - target) * row + 0.1 * np.sign(w))
    np.testing.assert_allclose([found.loss, found.progressive - found.loss], np.mean(losses, axis=0), rtol=1e-9)
    assert found.objective == pytest.approx(problem.objective(w), rel=1e-9)
    assert found.gap == pytest.approx(found.objective - problem.optimum.value)


def count(n):
    yield from range(n)


def fail():
    yield 1
    raise ValueError("no more")


@pytest.mark.parametrize("workers", [1, 2])
def test_follow_yields_results_of_all_workers(workers):
    found = list(parallel.run_parallel([partial(count, 3), partial(count, 2)], workers))
    assert sorted(found) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
    assert [item for k, item in found if k == 0] == [0, 1, 2]


def test_errors_of_workers_are_raised():
    with pytest.raises(ValueError, match="no more"):
        list(parallel.run_parallel([fail, partial(count, 2)], 2))


def test_closing_follow_stops_the_workers():
    following = parallel.run_parallel([partial(count, 10**9), partial(count, 10**9)], 2)
    next(following)
    following.close()  # would hang if the processes went on


# --- every experiment, tiny -------------------------------------------------------------------


def tiny_experiments():
    return {
        "table3": table3.Table3(table3.Settings(seconds=0.003, d=20, etas=(1e-3, 1e2), rows=4, compiled=False)),
        "stability": stability.Stability(stability.Settings(d=4, rows=12, per_decade=1, compiled=False)),
        "solvers": solvers.Solvers(
            solvers.Settings(dense=(5, 300), sparse=(5, 10), width=100, volume=50, rounds=1, compiled=False)
        ),
        "regret": regret.Regret(regret.Settings(d=3, rounds=40, horizons=3, etas=(1e-2, 1e2, 1e6), compiled=False)),
    }


@pytest.fixture(autouse=True, scope="module")
def coarse_pictures():
    """Pictures of few dots, arranged once: drawing them well takes most of the time."""

    def save(figure, path):
        save_figure(figure, path, dpi=20)
        figure.set_layout_engine("none")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fiol.experiments.report.save_figure", save)
        yield


@pytest.fixture(scope="module")
def finished():
    pytest.importorskip("matplotlib")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solvers, "compiled_loop", lambda loop: loop)
        experiments = tiny_experiments()
        for experiment in experiments.values():
            shares = [share for share, _ in experiment.run()]
            assert shares == sorted(shares)
            assert shares[-1] == pytest.approx(1.0)
    return experiments


@pytest.fixture(scope="module")
def written(finished, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reproduction")
    reports = [experiment.report() for experiment in finished.values()]
    paths = {report.name: report.write(folder) for report in reports}
    return folder, reports, paths, write_page(reports, folder)


@pytest.mark.parametrize("name", list(tiny_experiments()))
def test_experiment_writes_its_files(written, name):
    folder, reports, paths, _ = written
    report = next(r for r in reports if r.name == name)
    assert not report.partial
    assert all(path.stat().st_size > 0 for path in paths[name])
    document = json.loads((folder / f"{name}.json").read_text())
    assert document == json.loads(json.dumps(report.document(), allow_nan=False))
    assert document["experiment"] == name
    assert document["partial"] is False
    assert document["settings"]["seed"] == 1
    assert {"python", "numpy", "numba", "fiol", "cpus"} <= document["environment"].keys()
    text = (folder / f"{name}.md").read_text()
    assert "Cut short" not in text
    for table in report.tables:
        assert table.title in text
        assert {len(row) for row in table.rows} == {len(table.head)}
    assert report.pictures
    for picture in report.pictures:
        assert (folder / f"{picture.name}.png").read_bytes().startswith(b"\x89PNG")
        assert b"<svg" in (folder / f"{picture.name}.svg").read_bytes()


class Strict(HTMLParser):
    """Notes sources and links, and whether every tag is closed in order."""

    void = ("meta", "img", "br")

    def __init__(self):
        super().__init__()
        self.open, self.links, self.ids = [], [], set()

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.links += [attributes[key] for key in ("src", "href") if key in attributes]
        self.ids |= {attributes["id"]} if "id" in attributes else set()
        if tag == "img":
            assert attributes["alt"]
        if tag not in self.void:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_page_is_well_formed_and_stands_alone(written):
    _, reports, _, path = written
    text, parser = path.read_text(), Strict()
    parser.feed(text)
    assert parser.open == []
    for link in parser.links:
        assert link.startswith("data:image/svg+xml;base64,") or link[1:] in parser.ids
    for report in reports:
        assert report.name in parser.ids
    assert "url(" not in text
    assert "@import" not in text


def test_page_escapes_html(tmp_path):
    report = Report(
        "x", "A <b> & c", ["1 < 2"], {}, {}, [Table("t<", ["<"], [["&"]])], [Claim("<p>", None, "&")], partial=True
    )
    text = page([report], tmp_path)
    assert "A &lt;b&gt; &amp; c" in text
    assert "<td>&lt;p&gt;</td>" in text
    assert "Cut short" in text


def test_files_do_not_name_the_machine(written):
    folder, *_ = written
    home, cwd = str(Path.home()), str(Path.cwd())
    for path in folder.glob("*.*"):
        if path.suffix in (".json", ".md", ".html"):
            assert cwd not in path.read_text()
            assert home == "/" or home not in path.read_text()


@pytest.mark.parametrize("name", list(tiny_experiments()))
def test_interrupted_experiments_report_partial_results(name, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(solvers, "compiled_loop", lambda loop: loop)
    monkeypatch.setattr("fiol.experiments.report.save_figure", lambda _, path: path.touch())  # others look at pictures
    experiment = tiny_experiments()[name]
    before = experiment.report()  # nothing found yet
    assert before.partial
    assert len(before.write(tmp_path / "nothing")) == 2
    running = experiment.run()
    for _ in range(2):
        next(running)
    running.close()
    report = experiment.report()
    if name != "table3":  # which may be done by then
        assert report.partial
        assert "Cut short" in report.markdown()
    assert report.tables
    report.write(tmp_path)
    write_page([report], tmp_path)


@pytest.mark.parametrize("name", ["stability", "regret"])
def test_experiments_without_times_are_reproducible(finished, name):
    again = tiny_experiments()[name]
    for _ in zip(again.run(), range(4), strict=False):
        pass
    first = finished[name].sweeps if name == "stability" else finished[name].curves
    second = again.sweeps if name == "stability" else again.curves
    assert len(second) >= 4
    assert as_json(second) == as_json(first[: len(second)])


# --- what they say ----------------------------------------------------------------------------


def outcome(name, eta, gap, true_zeros=0, steps=100, overflowed=False):
    objective = np.inf if overflowed else 0.878 + gap
    return table3.Outcome(
        name, eta, steps, 1.0, 0.3, 0.9, objective, objective - 0.878, true_zeros, true_zeros, overflowed
    )


def made_up(leader_gap=1e-4, worst=1.0):
    gaps = {a.name: 0.01 for a in table3.ALGORITHMS} | {table3.LEADER: leader_gap}
    speed = {table3.SORTING: 10, table3.PARTITION: 50}
    zeros = {"COMID": 200, table3.NEWTON: 200, table3.LEADER: 950}
    found = [outcome(n, 1e-4, gap, zeros.get(n, 0), speed.get(n, 100)) for n, gap in gaps.items()]
    found += [outcome(n, 1.0, 0.0, overflowed=True) for n in ("SGD", "COMID")]
    return [*found, outcome(table3.NEWTON, 1.0, worst)]


def test_table3_claims_follow_from_the_numbers():
    settings = table3.Settings()
    assert [c.holds for c in table3.claims(settings, 0.0, made_up())] == [True] * 7
    assert [c.holds for c in table3.claims(settings, 0.0, made_up(leader_gap=0.02))][:2] == [False, False]
    assert [c.holds for c in table3.claims(settings, 0.0, made_up(worst=1e3))][3] is False
    assert table3.claims(settings, 0.0, []) == []


def test_best_step_has_the_smallest_objective():
    runs = [outcome("SGD", 1e-4, 0.2), outcome("SGD", 1e-3, 0.1), outcome("SGD", 1e-2, 0.0, overflowed=True)]
    assert table3.best_of(runs)["SGD"].eta == 1e-3


def test_page_shows_the_printed_table_beside_ours():
    main, variants = table3.tables(table3.Settings(), 0.0, made_up())
    assert main.rows[0][-3:] == ["1e-6", "0.4313", "0"]
    assert main.rows[-1][-3:] == ["", "", ""]
    assert len(variants.rows) == len(table3.VARIANTS)


def test_stability_of_the_finished_run(finished):
    points = {(w.problem, w.algorithm): w.points for w in finished["stability"].sweeps}
    assert len(points) == 20
    for problem in ("lasso", "classification"):
        assert all(p.survived for p in points[problem, "FIOL"])
        assert not points[problem, "SGD"][-1].survived
        assert len(points[problem, "SGD"]) == 21
        assert points[problem, "SGD"][0].loss == pytest.approx(1.0, abs=1e-6)


def test_regret_of_the_finished_run(finished):
    found = finished["regret"]
    assert len(found.curves) == len(regret.CASES) == 18
    assert all(curve.holds for curve in found.curves)
    assert all(w >= b for c in found.curves for w, b in zip(c.without, c.bound, strict=True))
    fiol = [o for o in found.overlarge if o.algorithm == "FIOL"]
    assert all(o.regret <= o.bound for o in fiol)
    assert max(o.regret for o in found.overlarge) > 1e3 * max(o.regret for o in fiol)


def test_violated_bound_is_reported(finished):
    curve = finished["regret"].curves[0]
    broken = curve._replace(bound=[0.5 * r for r in curve.regret[:-1]] + [0.5 * abs(curve.regret[-1])])
    assert not broken.holds
    assert next(c.holds for c in regret.claims([broken], [])) is False


def test_adversary_contradicts_the_learner():
    from fiol import Learner

    settings = regret.Settings(d=3, rounds=30, compiled=False)
    case = regret.Case("hinge", regret.ANYTIME, "adversarial")
    x, y = regret.rows(settings, "hinge", case.update(30))
    scores = Learner(case.update(30), intercept=False, compiled=False).learn(x, y)
    assert (scores * y <= 0.0).all()
    np.testing.assert_allclose(np.linalg.norm(x, axis=1), 1.0)


def test_environment_is_plain_json():
    assert json.loads(json.dumps(environment())) == environment()


def test_figures_are_reproducible(tmp_path):
    pytest.importorskip("matplotlib")
    picture = Picture("p", "t", "a", lambda figure: figure.subplots().plot([1, 2]))
    report = Report("x", "t", [], {}, {}, pictures=[picture])
    (tmp_path / "a").mkdir()
    first, second = report.write(tmp_path / "a"), report.write(tmp_path / "b")
    assert first[-1].read_bytes() == second[-1].read_bytes()
