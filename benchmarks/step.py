"""Microseconds per step: every solver of the exact step beside the explicit step of SGD.

    python -m benchmarks.step [--json FILE] [--plot FILE] [--quick]

Three questions, each about a stream of rows: the paper's problem (dense, d = 1000), and how the time grows with the
number of non-zeros of dense and of sparse rows. All contestants of a setting run in turns, on the same arrays, compiled
with the same flags, and must first end with the same weights.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from functools import cache
from math import copysign
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.report import (
    FIT_FROM,
    Contestant,
    Target,
    decades,
    exponent,
    fit_ranges,
    header,
    progress,
    table,
    take_turns,
    verdicts,
)
from fiol import L1, Bisection, Euclidean, MedianOfMedians, Newton, Partition, Sorting, Squared
from fiol.component import Component
from fiol.plots import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, RED, load_matplotlib
from fiol.problem import make_problem
from fiol.row import Floats, Indices, Row

LAM = 0.1
EXPLICIT, PLAIN = "explicit SGD", "explicit, no penalty"
SOLVERS = {
    "Newton": Newton(),
    "Partition": Partition(),
    "Partition, medians": Partition(MedianOfMedians()),
    "Sorting": Sorting(),
    "Bisection": Bisection(),
}


class Plan(NamedTuple):
    """How much to run."""

    d: int  #: features of the paper's problem
    rows: int  #: and its rows
    dense: tuple[int, ...]  #: features of the dense scaling runs
    sparse: tuple[int, ...]  #: non-zeros of the sparse ones
    width: int  #: and their features
    volume: int  #: non-zeros in a scaling run, for as many rows as that makes
    rounds: dict[str, int]  #: turns of every contestant, by section


FULL = Plan(1000, 2000, decades(1, 6), decades(1, 5), 1_000_000, 2_000_000, {"paper": 9, "dense": 3, "sparse": 3})
QUICK = Plan(30, 20, (10, 30), (10, 30), 1000, 200, {"paper": 1, "dense": 1, "sparse": 1})


# --- the loops that are timed -----------------------------------------------------------------
# All take a method, the stream, the weights and two scratch rows, and return the final weights and the
# passes made. Plain functions here, compiled when first called, so that --help loads no compiler.


def implicit_dense(problem: Any, feature: Any, x: Any, y: Any, eta: Any, w: Any, a: Any, b: Any) -> Any:
    """Exact steps on rows that hold every feature; the new weights go to the other buffer, not back."""
    passes = 0
    for t in range(x.shape[0]):
        _, _, n = problem.step(Row(feature[0], x[t], w, eta, y[t], 1.0, 1.0, 0.0, 0.0), a)
        passes += n
        w, a = a, w
    return w, passes


def implicit_sparse(problem: Any, feature: Any, x: Any, y: Any, eta: Any, w: Any, a: Any, b: Any) -> Any:
    """Exact steps on the weights a row touches, gathered before and scattered after."""
    passes = 0
    for t in range(x.shape[0]):
        for k in range(x.shape[1]):
            a[k] = w[np.uint64(feature[t, k])]
        _, _, n = problem.step(Row(feature[t], x[t], a, eta, y[t], 1.0, 1.0, 0.0, 0.0), b)
        passes += n
        for k in range(x.shape[1]):
            w[np.uint64(feature[t, k])] = b[k]
    return w, passes


def explicit_dense(sgd: Any, feature: Any, x: Any, y: Any, eta: Any, w: Any, a: Any, b: Any) -> Any:
    """w <- w - eta (phi'(<x, w>) x + r'(w)), in place."""
    for t in range(x.shape[0]):
        z = 0.0
        for k in range(x.shape[1]):
            z += x[t, k] * w[k]
        pull = eta * (z - y[t])
        for k in range(x.shape[1]):
            w[k] -= pull * x[t, k] + sgd.penalty(w[k], eta)
    return w, 2 * x.shape[0]


def explicit_sparse(sgd: Any, feature: Any, x: Any, y: Any, eta: Any, w: Any, a: Any, b: Any) -> Any:
    """The same for the weights a row touches, without the detour over scratch rows."""
    for t in range(x.shape[0]):
        z = 0.0
        for k in range(x.shape[1]):
            z += x[t, k] * w[np.uint64(feature[t, k])]
        pull = eta * (z - y[t])
        for k in range(x.shape[1]):
            i = np.uint64(feature[t, k])
            w[i] -= pull * x[t, k] + sgd.penalty(w[i], eta)
    return w, 2 * x.shape[0]


class LinearizedL1(Component):
    """The penalty of the SGD row of Table 1: eta lam sign(w)."""

    lam: float

    def penalty(self, w: float, eta: float) -> float:
        return copysign(eta * self.lam, w) if w != 0.0 else 0.0  # faster than np.sign, dense and sparse


class NoPenalty(Component):
    """The cheapest step there is."""

    def penalty(self, w: float, eta: float) -> float:
        return 0.0


@cache
def compiled(loop: Callable[..., Any]) -> Callable[..., Any]:
    from fiol.compiled import jit

    return jit(loop)


# --- the streams ------------------------------------------------------------------------------


class Stream(NamedTuple):
    """Rows of one length, their targets, and the step size to learn them with."""

    layout: str  #: dense or sparse
    d: int
    rho: float
    eta: float
    feature: Indices  #: one row of indices for all (dense) or one for each
    x: Floats
    y: Floats

    def title(self) -> str:
        return f"{self.layout}, {self.x.shape[1]} non-zeros, rho {self.rho:g}, eta {self.eta:g}"


def paper_stream(d: int, rows: int, rho: float, eta: float, seed: int = 1) -> Stream:
    """The paper's data: equally correlated features, alternating and vanishing true weights, noise 0.2."""
    rng = np.random.default_rng(seed)
    delta = np.sqrt(rho / (1.0 - rho))
    x = rng.standard_normal((rows, d)) + delta * rng.standard_normal((rows, 1))
    j = np.arange(1, d + 1)
    true = (-1.0) ** j * np.exp(-2.0 * (j - 1) / 20.0)
    y = x @ true + 0.2 * rng.standard_normal(rows)
    return Stream("dense", d, rho, eta, np.arange(d, dtype=np.int32)[None, :], x, y)


def sparse_stream(d: int, nnz: int, rows: int, eta: float, seed: int = 1) -> Stream:
    """Rows with one feature drawn from each of `nnz` equal ranges, so no feature is likelier to be in cache."""
    rng = np.random.default_rng(seed)
    room = d // nnz
    feature = (np.arange(nnz) * room + rng.integers(0, room, (rows, nnz))).astype(np.int32)
    x = rng.standard_normal((rows, nnz))
    true = rng.standard_normal(d) * (rng.random(d) < 0.1)
    y = np.sum(x * true[feature], axis=1) + 0.2 * rng.standard_normal(rows)
    return Stream("sparse", d, 0.0, eta, feature, x, y)


def streams(plan: Plan) -> Iterator[tuple[str, Stream]]:
    """All settings, each with the section it belongs to. The step shrinks with the row, as eta |x|^2 is what counts."""
    for rho in (0.0, 0.5):
        for eta in (1e-4, 1e-3):
            yield "paper", paper_stream(plan.d, plan.rows, rho, eta)
    for d in plan.dense:
        yield "dense", paper_stream(d, rows_for(plan, d), 0.0, 1.0 / d)
    for nnz in plan.sparse:
        yield "sparse", sparse_stream(plan.width, nnz, rows_for(plan, nnz), 1.0 / nnz)


def rows_for(plan: Plan, nnz: int) -> int:
    return min(max(plan.volume // nnz, 4), 20_000)


# --- measuring --------------------------------------------------------------------------------


class Result(NamedTuple):
    """What one setting gave: microseconds and passes per step of every contestant."""

    section: str
    layout: str
    d: int
    nnz: int
    rows: int
    rho: float
    eta: float
    us: dict[str, float]
    passes: dict[str, float]


class Run(Contestant):
    """A contestant on a stream, with the arrays all contestants share."""

    def __init__(self, stream: Stream, w: Floats, a: Floats, b: Floats, loop: Callable[..., Any], method: Any) -> None:
        data = stream.feature, stream.x, stream.y, stream.eta

        def prepare() -> Callable[[], Any]:
            w[:] = 0.0
            return lambda: compiled(loop)(method, *data, w, a, b)

        super().__init__(prepare)


def contestants(stream: Stream) -> dict[str, Run]:
    loops = {"dense": (explicit_dense, implicit_dense), "sparse": (explicit_sparse, implicit_sparse)}
    explicit, implicit = loops[stream.layout]
    nnz = stream.x.shape[1]
    shared = stream, cache_line_zeros(stream.d), cache_line_zeros(nnz), cache_line_zeros(nnz)
    runs = {PLAIN: Run(*shared, explicit, NoPenalty()), EXPLICIT: Run(*shared, explicit, LinearizedL1(LAM))}
    for name, solver in SOLVERS.items():
        runs[name] = Run(*shared, implicit, make_problem(Squared(), L1(LAM), Euclidean(), solver))
    return runs


def cache_line_zeros(n: int) -> Floats:
    """Zeros that begin on a cache line: where malloc happens to put weights is worth 20 % of a step."""
    room = np.zeros(n + 8)
    first = -room.__array_interface__["data"][0] % 64 // 8
    return room[first : first + n]


def measure(section: str, stream: Stream, rounds: int) -> Result:
    """Every contestant's best time; AssertionError unless all solvers first agree on the weights."""
    runs = contestants(stream)
    rows, nnz = stream.x.shape
    passes, expected = dict[str, float](), np.empty(0)
    for name, run in runs.items():
        w, n = run.once()  # compiles, too
        passes[name] = n / rows
        if name == "Newton":
            expected = w.copy()
        if name in SOLVERS:
            error = float(np.max(np.abs(w - expected))) / max(1.0, float(np.max(np.abs(expected))))
            assert error <= 1e-9, f"{stream.title()}: {name} ends {error:g} away from Newton"
    take_turns(runs.values(), rounds)
    us = {name: 1e6 * run.seconds / rows for name, run in runs.items()}
    return Result(section, stream.layout, stream.d, nnz, rows, stream.rho, stream.eta, us, passes)


def fits_of(results: list[Result], name: str) -> list[float]:
    """The exponents of a contestant's time, one for each range of sizes."""
    sizes = [r.nnz for r in results]
    return [exponent(sizes, [r.us[name] for r in results], first) for first in fit_ranges(sizes)]


def measure_all(plan: Plan) -> list[Result]:
    results = []
    for section, stream in streams(plan):
        progress(f"{section}: {stream.title()}")
        results.append(measure(section, stream, plan.rounds[section]))
    progress("")
    return results


# --- what the numbers say ---------------------------------------------------------------------


def targets(results: list[Result]) -> list[Target]:
    """The targets, each at its worst setting."""
    paper, dense, sparse = ([r for r in results if r.section == s] for s in ("paper", "dense", "sparse"))
    found = []
    for eta in sorted({r.eta for r in paper}):
        worst = max(r.us["Newton"] / r.us[EXPLICIT] for r in paper if r.eta == eta)
        found.append(Target(f"Newton at most 2.0 x {EXPLICIT}, eta {eta:g}", f"{worst:.2f} x", worst <= 2.0))
    for name, bound in (("Sorting", 40.0), ("Partition", 8.0)):
        worst = min(r.us[name] / r.us["Newton"] for r in paper)
        found.append(Target(f"Newton at least {bound:g} x faster than {name}", f"{worst:.0f} x", worst >= bound))
    large = [r for r in results if r.nnz >= 1000] or results
    worst = min(r.us["Sorting"] / r.us["Partition"] for r in large)
    found.append(Target("Partition faster than Sorting from 1000 non-zeros on", f"{worst:.2f} x", worst > 1.0))
    for section in (dense, sparse):
        for name in ("Newton", "Partition"):
            fits = fits_of(section, name)
            measured = f"nnz^{fits[0]:.3f}" + "".join(f" (nnz^{b:.3f} from {FIT_FROM[1]:,})" for b in fits[1:])
            span = f"{section[0].layout}, {section[0].nnz} to {section[-1].nnz:,} non-zeros"
            found.append(Target(f"{name} grows slower than nnz^1.1, {span}", measured, fits[0] < 1.1))
    return found


def report(results: list[Result], plan: Plan) -> str:
    paper = [r for r in results if r.section == "paper"]
    names = list(paper[0].us)
    head = ["", *(f"rho {r.rho:g}, eta {r.eta:g}" for r in paper)]
    pairs = [("Newton", EXPLICIT), ("Newton", PLAIN), ("Sorting", "Newton"), ("Partition", "Newton")]
    pairs += [("Bisection", "Newton"), ("Sorting", "Partition")]
    parts = [
        f"Squared loss + L1({LAM:g}), double precision, one thread, the best of several turns.\n"
        f"{EXPLICIT}: w -= eta (phi' x + lam sign(w)), in place. {PLAIN}: w -= eta phi' x, in place.\n"
        "Sparse rows: exact steps gather, solve and scatter; no step touches absent features.",
        f"The paper's problem, dense d = {plan.d}, {plan.rows} rows from w = 0: microseconds per step",
        table(head, [[name, *(f"{r.us[name]:.3f}" for r in paper)] for name in names]),
        "Ratios of these times",
        table(head, [[f"{a} / {b}", *(f"{r.us[a] / r.us[b]:.2f}" for r in paper)] for a, b in pairs]),
        "Passes over the row per step",
        table(head, [[name, *(f"{r.passes[name]:.2f}" for r in paper)] for name in names]),
    ]
    for layout in ("dense", "sparse"):
        rows = [r for r in results if r.section == layout]
        width = "" if layout == "dense" else f" in d = {plan.width:,}"
        body = [[f"{r.nnz:,}", *(f"{r.us[name]:.3g}" for name in names)] for r in rows]
        for k, first in enumerate(fit_ranges(r.nnz for r in rows)):
            fits = (f"{fits_of(rows, name)[k]:.3f}" for name in names)
            body.append([f"exponent from {first:,}" if first else "exponent, all sizes", *fits])
        parts.append(f"Scaling, {layout} rows{width}, eta = 1 / non-zeros: microseconds per step")
        parts.append(table(["non-zeros", *names], body))
    parts += ["Targets, each at its worst setting", verdicts(targets(results), plan is FULL)]
    return "\n\n".join(parts)


def document(results: list[Result], plan: Plan, arguments: list[str] | None) -> dict[str, Any]:
    """All numbers, and what is needed to read them later."""
    return {
        **header("benchmarks.step", arguments, plan is not FULL),
        "unit": "microseconds per step",
        "results": [r._asdict() for r in results],
        "exponents_from": FIT_FROM,
        "exponents": {
            layout: {name: fits_of(rows, name) for name in rows[0].us}
            for layout in ("dense", "sparse")
            for rows in [[r for r in results if r.section == layout]]
        },
        "targets": [t._asdict() for t in targets(results)],
    }


# --- the scaling plot -------------------------------------------------------------------------


STYLES = {
    "Sorting": (RED, "s"),
    "Partition, medians": (PURPLE, "v"),
    "Partition": (ORANGE, "^"),
    "Bisection": (GREEN, "D"),
    "Newton": (BLUE, "o"),
    EXPLICIT: (BLACK, "x"),
}


def draw(results: list[Result], path: Path) -> None:
    """Time per step against non-zeros, dense and sparse, with slopes to compare with."""
    matplotlib = load_matplotlib()
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"font.size": 14, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(13, 6), layout="constrained")
        panels = figure.subplots(1, 2, sharex=True, sharey=True)
        for layout, ax in zip(("dense", "sparse"), panels, strict=True):
            rows = [r for r in results if r.section == layout]
            n = np.array([r.nnz for r in rows], dtype=float)
            for name, (color, marker) in STYLES.items():
                ax.plot(n, [r.us[name] for r in rows], color=color, marker=marker, lw=2.2, ms=7, mew=2, label=name)
            for growth, dash, label in ((n, "--", "growth like n"), (n * np.log(n), ":", "growth like n log n")):
                guide = 0.3 * rows[-1].us[EXPLICIT] * growth / growth[-1]  # below everything measured
                ax.plot(n, guide, color=GREY, lw=1.5, ls=dash, label=label)
            ax.set(xscale="log", yscale="log", xlabel="non-zeros per row (n)")
            ax.set_title(f"{layout} rows" + ("" if layout == "dense" else f" of {rows[0].d:,} features"))
            ax.grid(alpha=0.25)
        panels[0].set_ylabel("microseconds per step")
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right center", frameon=False)
        figure.savefig(path, dpi=100)


# --- command line -----------------------------------------------------------------------------


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.step", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers, versions and the command")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw time against non-zeros (png, svg, pdf)")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that everything runs, measures nothing")
    options = parser.parse_args(arguments)
    if options.plot:
        load_matplotlib()  # better now than after three minutes
    plan = QUICK if options.quick else FULL
    results = measure_all(plan)
    print(report(results, plan))
    for path in filter(None, (options.json, options.plot)):
        path.parent.mkdir(parents=True, exist_ok=True)
    if options.json:
        options.json.write_text(json.dumps(document(results, plan, arguments), indent=1) + "\n")
    if options.plot:
        draw(results, options.plot)


if __name__ == "__main__":
    main()
