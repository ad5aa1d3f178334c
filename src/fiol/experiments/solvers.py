"""Solvers: microseconds per step of every solver of the exact step, beside the explicit step of SGD.

All contestants of a setting run in turns, on the same arrays, compiled with the same flags, and must first end with the
same weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from math import copysign
from typing import Any, NamedTuple

import numpy as np

from fiol.compiler.when_needed import compiled_loop
from fiol.components.component import Component, borrowed
from fiol.components.geometries import Euclidean
from fiol.components.losses import Squared
from fiol.components.regularizers import L1
from fiol.components.row import Floats, Indices, Row
from fiol.components.solvers import Bisection, MedianOfMedians, Newton, Partition, Sorting
from fiol.components.subproblem import make_problem
from fiol.experiments.lasso import Lasso
from fiol.experiments.parallel import run_parallel
from fiol.experiments.report import Claim, Picture, Report, Table, prose
from fiol.experiments.timing import Contestant, decades, exponent, fit_ranges, take_turns
from fiol.plots import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, RED

LAM = Lasso.lam
EXPLICIT, PLAIN = "explicit SGD", "explicit, no penalty"
SOLVERS = {
    "Newton": Newton(),
    "Partition": Partition(),
    "Partition, medians": Partition(MedianOfMedians()),
    "Sorting": Sorting(),
    "Bisection": Bisection(),
}


# --- the loops that are timed -----------------------------------------------------------------
# All take a method, the stream, the weights and two scratch rows, and return the final weights and the
# passes made. Plain functions here, compiled when first called, so that --help loads no compiler.


def implicit_dense(problem: Any, feature: Any, x: Any, y: Any, eta: Any, w: Any, a: Any, b: Any) -> Any:
    """Make exact steps on dense rows; the new weights go to the other buffer."""
    features, rows, old, new = borrowed(feature), borrowed(x), borrowed(w), borrowed(a)
    passes = 0
    for t in range(x.shape[0]):
        _, _, n = problem.step(Row(features[0], rows[t], old, eta, y[t], 1.0, 1.0, 0.0, 0.0), new)
        passes += n
        old, new = new, old
    w[:] = old
    return w, passes


def implicit_sparse(problem: Any, feature: Any, x: Any, y: Any, eta: Any, w: Any, a: Any, b: Any) -> Any:
    """Make exact steps on the weights of a row, gathered before and scattered after."""
    features, rows, old, new = borrowed(feature), borrowed(x), borrowed(a), borrowed(b)
    passes = 0
    for t in range(x.shape[0]):
        for k in range(x.shape[1]):
            old[k] = w[np.uint64(features[t, k])]
        _, _, n = problem.step(Row(features[t], rows[t], old, eta, y[t], 1.0, 1.0, 0.0, 0.0), new)
        passes += n
        for k in range(x.shape[1]):
            w[np.uint64(features[t, k])] = new[k]
    return w, passes


def explicit_dense(sgd: Any, feature: Any, x: Any, y: Any, eta: Any, w: Any, a: Any, b: Any) -> Any:
    """Make explicit steps w <- w - eta (phi'(<x, w>) x + r'(w)) in place."""
    for t in range(x.shape[0]):
        z = 0.0
        for k in range(x.shape[1]):
            z += x[t, k] * w[k]
        pull = eta * (z - y[t])
        for k in range(x.shape[1]):
            w[k] -= pull * x[t, k] + sgd.penalty(w[k], eta)
    return w, 2 * x.shape[0]


def explicit_sparse(sgd: Any, feature: Any, x: Any, y: Any, eta: Any, w: Any, a: Any, b: Any) -> Any:
    """Make explicit steps on the weights of a row, in place."""
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
    """No penalty: the cheapest step."""

    def penalty(self, w: float, eta: float) -> float:
        return 0.0


# --- the streams ------------------------------------------------------------------------------


class Stream(NamedTuple):
    """Rows of one length, their targets, and the step size."""

    layout: str  #: dense or sparse
    d: int
    rho: float
    eta: float
    feature: Indices  #: one row of indices for all (dense) or one for each
    x: Floats
    y: Floats

    def title(self) -> str:
        """Return the name in reports."""
        return f"{self.layout}, {self.x.shape[1]} non-zeros, rho {self.rho:g}, eta {self.eta:g}"


def paper_stream(d: int, rows: int, rho: float, eta: float, seed: int = 1) -> Stream:
    """Return the paper's data: equally correlated features, alternating and vanishing true weights, noise 0.2."""
    x, y = Lasso(d, rho).rows(np.random.default_rng(seed), rows)
    return Stream("dense", d, rho, eta, np.arange(d, dtype=np.int32)[None, :], x, y)


def sparse_stream(d: int, nnz: int, rows: int, eta: float, seed: int = 1) -> Stream:
    """Return rows with one feature from each of `nnz` equal ranges, so that no feature is likelier in cache."""
    rng = np.random.default_rng(seed)
    room = d // nnz
    feature = (np.arange(nnz) * room + rng.integers(0, room, (rows, nnz))).astype(np.int32)
    x = rng.standard_normal((rows, nnz))
    true = rng.standard_normal(d) * (rng.random(d) < 0.1)
    y = np.sum(x * true[feature], axis=1) + 0.2 * rng.standard_normal(rows)
    return Stream("sparse", d, 0.0, eta, feature, x, y)


# --- measuring --------------------------------------------------------------------------------


class Result(NamedTuple):
    """The result of one setting: microseconds and passes per step of every contestant."""

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
    """A contestant on a stream, with the arrays that all contestants share."""

    def __init__(self, stream: Stream, w: Floats, a: Floats, b: Floats, loop: Callable[..., Any], method: Any) -> None:
        data = stream.feature, stream.x, stream.y, stream.eta

        def prepare() -> Callable[[], Any]:
            w[:] = 0.0
            return lambda: compiled_loop(loop)(method, *data, w, a, b)

        super().__init__(prepare)


def contestants(stream: Stream) -> dict[str, Run]:
    """Return explicit steps, and exact steps by every solver."""
    loops = {"dense": (explicit_dense, implicit_dense), "sparse": (explicit_sparse, implicit_sparse)}
    explicit, implicit = loops[stream.layout]
    nnz = stream.x.shape[1]
    shared = stream, cache_line_zeros(stream.d), cache_line_zeros(nnz), cache_line_zeros(nnz)
    runs = {PLAIN: Run(*shared, explicit, NoPenalty()), EXPLICIT: Run(*shared, explicit, LinearizedL1(LAM))}
    for name, solver in SOLVERS.items():
        runs[name] = Run(*shared, implicit, make_problem(Squared(), L1(LAM), Euclidean(), solver))
    return runs


def cache_line_zeros(n: int) -> Floats:
    """Return zeros that begin on a cache line: the alignment of weights changes the time of a step by 20 %."""
    room = np.zeros(n + 8)
    first = -room.__array_interface__["data"][0] % 64 // 8
    return room[first : first + n]


def measure(section: str, stream: Stream, rounds: int) -> Result:
    """Return the best time of every contestant; raise AssertionError unless all solvers find the same weights."""
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
            if not error <= 1e-9:
                raise AssertionError(f"{stream.title()}: {name} ends {error:g} away from Newton")
    take_turns(runs.values(), rounds)
    us = {name: 1e6 * run.seconds / rows for name, run in runs.items()}
    return Result(section, stream.layout, stream.d, nnz, rows, stream.rho, stream.eta, us, passes)


def fits_of(results: Sequence[Result], name: str) -> list[float]:
    """Return the exponents of a contestant's time, one for each range of sizes."""
    sizes = [r.nnz for r in results]
    return [exponent(sizes, [r.us[name] for r in results], first) for first in fit_ranges(sizes)]


def scaling_streams(
    dense: Sequence[int], sparse: Sequence[int], width: int, volume: int, seed: int = 1
) -> Iterator[Stream]:
    """Return dense rows of all sizes, then sparse ones; the step shrinks with the row, since eta |x|^2 matters.

    `volume` is the number of non-zeros of a stream.
    """
    for d in dense:
        yield paper_stream(d, rows_for(volume, d), 0.0, 1.0 / d, seed)
    for nnz in sparse:
        yield sparse_stream(width, nnz, rows_for(volume, nnz), 1.0 / nnz, seed)


def rows_for(volume: int, nnz: int) -> int:
    """Return the number of rows of this many non-zeros."""
    return min(max(volume // nnz, 4), 20_000)


# --- the experiment ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Settings:
    """Sizes of the experiment."""

    seed: int = 1
    dense: tuple[int, ...] = decades(1, 5)
    sparse: tuple[int, ...] = decades(1, 4)
    width: int = 1_000_000
    volume: int = 1_000_000
    rounds: int = 3
    workers: int = 1
    compiled: bool = True

    def streams(self) -> Iterator[Stream]:
        """Return all settings."""
        return scaling_streams(self.dense, self.sparse, self.width, self.volume, self.seed)


QUICK = Settings(dense=(10, 100, 1000, 10_000), sparse=(10, 100, 1000), width=100_000, volume=100_000, rounds=1)


def compile_loop(layout: str, name: str) -> Iterator[str]:
    """Compile the loop of one contestant, as a task."""
    stream = paper_stream(4, 2, 0.0, 0.1) if layout == "dense" else sparse_stream(8, 4, 2, 0.1)
    contestants(stream)[name].once()
    yield f"{name}, {layout} rows"


class Solvers:
    """The experiment: `run` it; `report` works at any time."""

    name = "solvers"

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.results: list[Result] = []

    def run(self) -> Iterator[tuple[float, str]]:
        """Run the experiment in one process; yield the share that is done, and a description."""
        s, compiling = self.settings, 0.5
        if s.compiled:
            names = [EXPLICIT, PLAIN, *SOLVERS]
            tasks = [partial(compile_loop, layout, name) for name in names for layout in ("dense", "sparse")]
            for done, (_, name) in enumerate(run_parallel(tasks, s.workers)):
                yield compiling * (done + 1) / len(tasks), f"compiling {name}"
        count = len(s.dense) + len(s.sparse)
        for stream in s.streams():
            yield compiling + (1.0 - compiling) * len(self.results) / count, stream.title()
            self.results.append(measure(stream.layout, stream, s.rounds))
        yield 1.0, "measured"

    def report(self) -> Report:
        """Return the results so far."""
        s, results = self.settings, self.results
        return Report(
            self.name,
            "Solvers: time per step against the length of a row",
            prose(
                f"""Exact steps on squared loss + L1({LAM:g}) by every solver, beside explicit steps (with and
                without the penalty), double precision, one thread, the best of several turns. Before they are
                timed, all solvers have to end with the same weights to 1e-9. Sparse rows: exact steps gather, solve
                and scatter. Times depend on the machine; their ratios and growth much less."""
            ),
            asdict(s),
            results,
            tables(results),
            claims(results),
            [Picture("solvers", "Time per step of every solver", PICTURE, partial(draw, results=results), (9.0, 4.8))]
            if results
            else [],
            [],
            len(results) < len(s.dense) + len(s.sparse),
        )


# --- the report -------------------------------------------------------------------------------


def tables(results: Sequence[Result]) -> list[Table]:
    """Return times by length, and their growth."""
    found = []
    for layout in ("dense", "sparse"):
        rows = [r for r in results if r.section == layout]
        if rows:
            names = list(rows[0].us)
            body = [[f"{r.nnz:,}", *(f"{r.us[name]:.3g}" for name in names)] for r in rows]
            if len(rows) > 1:
                body.append(["exponent", *(f"{fits_of(rows, name)[0]:.2f}" for name in names)])
            title = f"{layout.capitalize()} rows: microseconds per step by non-zeros"
            found.append(Table(title, ["non-zeros", *names], body, "Exponent: b of time = a n^b, by least squares."))
    return found


def claims(results: Sequence[Result]) -> list[Claim]:
    """Return comparisons of the solvers, at the length that is hardest for each claim."""
    long = [r for r in results if r.nnz >= 1000]
    if not long:
        return []

    def least(slow: str, fast: str) -> float:
        return min(r.us[slow] / r.us[fast] for r in long)

    found = [
        Claim("all solvers end with the same weights", True, "to 1e-9, in every setting"),
        Claim(
            "partition is faster than sorting from 1000 non-zeros on",
            least("Sorting", "Partition") > 1.0,
            f"at least {least('Sorting', 'Partition'):.1f} times",
        ),
        Claim(
            "Newton is at least 8 times faster than partition there",
            least("Partition", "Newton") >= 8.0,
            f"at least {least('Partition', 'Newton'):.0f} times",
        ),
        Claim(
            "Newton is at least 40 times faster than sorting there",
            least("Sorting", "Newton") >= 40.0,
            f"at least {least('Sorting', 'Newton'):.0f} times",
        ),
    ]
    for layout in ("dense", "sparse"):
        rows = [r for r in results if r.section == layout]
        if len(rows) > 1:
            fit = fits_of(rows, "Newton")[0]
            found.append(Claim(f"Newton's time grows slower than n^1.1, {layout} rows", fit < 1.1, f"n^{fit:.2f}"))
    return found


# --- the picture ------------------------------------------------------------------------------

PICTURE = "Times of all solvers grow nearly linearly; Newton is close to explicit SGD, partition and sorting far above."
STYLES = {
    "Sorting": (RED, "s"),
    "Partition, medians": (PURPLE, "v"),
    "Partition": (ORANGE, "^"),
    "Bisection": (GREEN, "D"),
    "Newton": (BLUE, "o"),
    EXPLICIT: (BLACK, "x"),
}


def draw(figure: Any, results: Sequence[Result]) -> None:
    """Draw time per step against non-zeros, dense and sparse, with slopes for comparison."""
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    for layout, ax in zip(("dense", "sparse"), panels, strict=True):
        rows = [r for r in results if r.section == layout]
        if not rows:
            continue
        n = np.array([r.nnz for r in rows], dtype=float)
        for name, (color, marker) in STYLES.items():
            ax.plot(n, [r.us[name] for r in rows], color=color, marker=marker, mew=1.8, label=name)
        for growth, dash, label in ((n, "--", "growth like n"), (n * np.log(n), ":", "growth like n log n")):
            guide = 0.3 * rows[-1].us[EXPLICIT] * growth / growth[-1]  # below everything measured
            ax.plot(n, guide, color=GREY, lw=1.5, ls=dash, label=label)
        ax.set(xscale="log", yscale="log", xlabel="non-zeros per row (n)")
        ax.set_title(f"{layout} rows" + ("" if layout == "dense" else f" of {rows[0].d:,} features"))
    panels[0].set_ylabel("microseconds per step")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
