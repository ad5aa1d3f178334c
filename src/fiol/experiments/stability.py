"""Stability: loss and weights against step size, over twenty decades, for all algorithms.

Every algorithm learns the same rows from zero weights, once with every step size. Its progressive loss is relative to
that of w = 0: a run that ends above 1 is worse than no learning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fiol.components.losses import EpsilonInsensitive, Hinge, Logistic, Loss, Squared
from fiol.components.regularizers import L1, Regularizer
from fiol.components.row import Floats
from fiol.experiments.algorithms import Algorithm
from fiol.experiments.lasso import Lasso
from fiol.experiments.parallel import run_parallel
from fiol.experiments.report import Claim, Picture, Report, Table, number, power_of_ten, prose
from fiol.features.containers import to_chunk
from fiol.plots import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY
from fiol.presets import COMID, FIOL, IOL, ISGD, RDA, SGD, FTRLProximal, ImplicitFTRL

#: A run survives if its loss is at most this multiple of that of w = 0.
LIMIT = 10.0
DEFAULT = "FIOL, default steps"
EXPLICIT = ("SGD", "COMID")
IMPLICIT = ("PA-I", "IOL", "FIOL", "implicit FTRL")


class Lesson(NamedTuple):
    """A stream and its loss."""

    name: str
    loss: Loss
    regularizer: Regularizer
    passive: Loss  #: the loss of passive-aggressive algorithms

    def rows(self, s: Settings) -> tuple[Floats, Floats]:
        """Return correlated features, and the paper's target or its sign."""
        x, y = Lasso(s.d, rho=0.5).rows(np.random.default_rng(s.seed), s.rows)
        return x, np.where(y > 0.0, 1.0, -1.0) if self.name == "classification" else y

    def algorithms(self) -> list[Algorithm]:
        """Return all algorithms: constant steps for those anchored at the last weights, eta/sqrt(t) for the others."""
        parts = self.loss, self.regularizer
        return [
            Algorithm("SGD", partial(SGD, *parts)),
            Algorithm("COMID", partial(COMID, *parts)),
            Algorithm("RDA", partial(RDA, *parts), 0.5),
            Algorithm("FTRL-Proximal", partial(FTRLProximal, *parts), 0.5),
            Algorithm("I-SGD", partial(ISGD, *parts)),
            Algorithm("PA-I", partial(IOL, self.passive)),
            Algorithm("IOL", partial(IOL, self.loss)),
            Algorithm("FIOL", partial(FIOL, *parts)),
            Algorithm("implicit FTRL", partial(ImplicitFTRL, *parts), 0.5),
            Algorithm(DEFAULT, partial(FIOL, *parts), None),
        ]


PROBLEMS = (
    Lesson("lasso", Squared(), L1(0.1), EpsilonInsensitive(0.1)),
    Lesson("classification", Logistic(), L1(0.01), Hinge()),
)


@dataclass(frozen=True)
class Settings:
    """Sizes of the experiment."""

    seed: int = 1
    d: int = 300
    rows: int = 4000
    per_decade: int = 2
    workers: int = 1
    compiled: bool = True

    @property
    def etas(self) -> list[float]:
        """Step sizes from 1e-10 to 1e10."""
        return [10.0 ** (k / self.per_decade) for k in range(-10 * self.per_decade, 10 * self.per_decade + 1)]


QUICK = Settings(d=100, rows=1500, per_decade=1)


class Point(NamedTuple):
    """One algorithm with one step size."""

    eta: float
    loss: float  #: mean progressive loss, relative to that of w = 0; infinite if it overflowed
    norm: float  #: |w|_2 in the end

    @property
    def survived(self) -> bool:
        """Whether the loss at the end is in the range of that of w = 0."""
        return self.loss < LIMIT


class Sweep(NamedTuple):
    """One algorithm with all step sizes."""

    problem: str
    algorithm: str
    points: list[Point]


def try_step_sizes(s: Settings, problem: Lesson, algorithm: Algorithm) -> Iterator[Sweep]:
    """Learn the stream with every step size, as a task."""
    x, y = problem.rows(s)
    chunk, ones, points = to_chunk(x), np.ones(s.rows), []
    idle = sum(problem.loss.value(0.0, target) for target in y.tolist())
    for eta in algorithm.etas(s.etas):
        engine = algorithm.engine(eta, s.d, s.compiled)
        with np.errstate(all="ignore"):
            scores = np.nan_to_num(engine.learn(chunk, y, ones), nan=np.inf)
            loss = (
                sum(map(problem.loss.value, scores.tolist(), y.tolist())) / idle
                if np.isfinite(scores).all()
                else np.inf
            )
            norm = float(np.linalg.norm(algorithm.weights(engine, s.d)))
        points.append(Point(eta, loss if np.isfinite(loss) else np.inf, norm if np.isfinite(norm) else np.inf))
    yield Sweep(problem.name, algorithm.name, points)


class Stability:
    """The experiment: `run` it; `report` works at any time."""

    name = "stability"

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.sweeps: list[Sweep] = []
        self.all = [(problem, a) for problem in PROBLEMS for a in problem.algorithms()]

    def run(self) -> Iterator[tuple[float, str]]:
        """Run the experiment; yield the share that is done, and a description."""
        tasks = [partial(try_step_sizes, self.settings, *pair) for pair in self.all]
        for _, found in run_parallel(tasks, self.settings.workers):
            self.sweeps.append(found)
            yield len(self.sweeps) / len(tasks), f"{found.algorithm}, {found.problem}"

    def report(self) -> Report:
        """Return the results so far."""
        order = [(problem.name, a.name) for problem, a in self.all]
        sweeps = sorted(self.sweeps, key=lambda w: order.index((w.problem, w.algorithm)))
        return Report(
            self.name,
            "Stability: twenty decades of step sizes",
            summary(self.settings),
            {**asdict(self.settings), "etas": self.settings.etas, "limit": LIMIT},
            sweeps,
            tables(sweeps),
            claims(sweeps),
            pictures(sweeps) if sweeps else [],
            REMARKS,
            len(sweeps) < len(self.all),
        )


# --- the report -------------------------------------------------------------------------------


def summary(s: Settings) -> list[str]:
    """Return a description of the experiment."""
    return prose(
        f"""{s.rows:,} rows of {s.d} features with correlation 0.5, learned from w = 0 with each of {len(s.etas)}
        step sizes from 1e-10 to 1e10. Lasso: the paper's targets, squared loss, L1(0.1). Classification: their
        signs, logistic loss, L1(0.01). Loss is that of each row before it is learned, relative to w = 0. RDA and
        both FTRL take steps eta/sqrt(t), the others constant steps; the default steps have nothing to choose. PA-I
        minimizes its own loss (epsilon-insensitive, hinge) and is measured by the same loss as the others."""
    )


REMARKS = prose(
    """Surviving is not learning: a step far too long stays finite if it is implicit, but what it has learned is
    mostly the last row. I-SGD's loss is implicit, its penalty is not, and pushes every weight by eta lam in every
    round."""
)


def tables(sweeps: Sequence[Sweep]) -> list[Table]:
    """Return one table per problem."""
    head = ["", "survived", "best loss", "at step", "worst loss", "largest |w|"]
    found = []
    for problem in PROBLEMS:
        rows = []
        for w in (w for w in sweeps if w.problem == problem.name):
            best, survived = min(w.points, key=lambda p: p.loss), sum(p.survived for p in w.points)
            worst, norm = max(p.loss for p in w.points), max(p.norm for p in w.points)
            share = f"{survived} of {len(w.points)}"
            rows.append([w.algorithm, share, number(best.loss), power_of_ten(best.eta), number(worst), number(norm)])
        if rows:
            note = f"Survived: loss below {LIMIT:g} times that of w = 0."
            found.append(Table(f"{problem.name.capitalize()}: loss relative to w = 0", head, rows, note))
    return found


def claims(sweeps: Sequence[Sweep]) -> list[Claim]:
    """Return the expectations that follow from the paper's Proposition 1."""
    found = []
    for problem in PROBLEMS:
        points = {w.algorithm: w.points for w in sweeps if w.problem == problem.name}
        if not {*EXPLICIT, *IMPLICIT, DEFAULT} <= points.keys():
            continue
        for name in EXPLICIT:
            lost = [p.eta for p in points[name] if not p.survived]
            beyond = f"from {power_of_ten(min(lost))} on" if lost else "at no step size"
            found.append(Claim(f"{problem.name}: {name} blows up at large steps", bool(lost), beyond))
        for name in (*IMPLICIT, DEFAULT):
            worst = max(p.loss for p in points[name])
            text = f"{problem.name}: {name} survives every step size"
            found.append(
                Claim(text, all(p.survived for p in points[name]), f"{number(worst)} times the loss of w = 0 at worst")
            )
    return found


# --- pictures ---------------------------------------------------------------------------------

STYLES = {
    "SGD": (RED, "-"),
    "COMID": (RED, ":"),
    "RDA": (PURPLE, "-"),
    "FTRL-Proximal": (PURPLE, "--"),
    "I-SGD": (ORANGE, "-"),
    "PA-I": (SKY, "--"),
    "IOL": (SKY, "-"),
    "FIOL": (BLUE, "-"),
    "implicit FTRL": (GREEN, "-"),
    DEFAULT: (BLACK, "-"),
}
TOP = {"loss": 1e4, "norm": 1e8}


def pictures(sweeps: Sequence[Sweep]) -> list[Picture]:
    """Return one figure of all problems."""
    alt = "Explicit updates leave the top of the picture as steps grow; implicit ones level off."
    return [
        Picture(
            "stability",
            "Loss and weight norm over twenty decades of step sizes",
            alt,
            partial(draw, sweeps=sweeps),
            (9.0, 7.2),
        )
    ]


def draw(figure: Any, sweeps: Sequence[Sweep]) -> None:
    """Draw losses above and weights below, with a mark where a curve leaves the figure."""
    panels = figure.subplots(2, len(PROBLEMS), sharex=True, sharey="row", squeeze=False)
    for row, quantity in enumerate(("loss", "norm")):
        top = TOP[quantity]
        for ax, problem in zip(panels[row], PROBLEMS, strict=True):
            for w in (w for w in sweeps if w.problem == problem.name):
                color, dash = STYLES[w.algorithm]
                etas, values = np.array([p.eta for p in w.points]), np.array([getattr(p, quantity) for p in w.points])
                if w.algorithm == DEFAULT:
                    ax.axhline(values[0], color=color, lw=1.4, ls=dash, label=w.algorithm)
                    continue
                ax.plot(etas, np.minimum(values, 1e3 * top), color=color, ls=dash, label=w.algorithm)
                if (values > top).any():
                    first = etas[np.argmax(values > top)]
                    ax.plot([first], [top], marker=6, ms=9, color=color, clip_on=False, zorder=5)  # runs off here
            ax.set(xscale="log", yscale="log", ylim=(None, top))
            ax.set_xticks([10.0**k for k in range(-10, 11, 5)])
            ax.minorticks_off()
        panels[row][0].set_ylabel({"loss": "progressive loss, relative to w = 0", "norm": "final |w|"}[quantity])
    for ax, problem in zip(panels[0], PROBLEMS, strict=True):
        ax.axhline(1.0, color=GREY, lw=1.2, ls=":")
        ax.set_title(problem.name)
        ax.set_ylim(0.05, TOP["loss"])
    for ax in panels[1]:
        ax.set_ylim(1e-9, TOP["norm"])
        ax.set_xlabel("step size eta")
    handles = dict(zip(*reversed(panels[0][0].get_legend_handles_labels()), strict=True))
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=5)
