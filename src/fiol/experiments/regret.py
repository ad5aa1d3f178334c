"""Measured regret and its bounds: convex and strongly convex problems, over-large steps.

`fiol.regret` measures and bounds. Regret after T rounds is against the best weights for these T rounds; every horizon
is a run of its own.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fiol.algorithms.update import Update
from fiol.components.losses import Hinge, Logistic, Loss, Squared
from fiol.components.regularizers import L1, Ridge
from fiol.components.row import Floats
from fiol.components.step_sizes import Anytime, Constant, FixedHorizon, Inverse, StepSize
from fiol.experiments.parallel import Task, run_parallel
from fiol.experiments.report import Claim, Picture, Report, Table, number, power_of_ten, prose
from fiol.experiments.timing import exponent
from fiol.learner import Learner
from fiol.plots import BLUE, GREEN, GREY, ORANGE, RED
from fiol.presets import COMID, FIOL
from fiol.regret import audit

LOSSES: dict[str, Loss] = {"squared": Squared(), "hinge": Hinge(), "logistic": Logistic()}
STREAMS = ("random", "adversarial")
HORIZON, ANYTIME, INVERSE = "fixed horizon", "anytime", "1/(sigma t)"
#: Strength of the penalty: l1 in the convex cases, ridge in the strongly convex ones.
LAM, SIGMA = 0.01, 0.1
#: Distance and gradient for the steps of Theorem 1; the bounds use measured ones.
DIAMETER, GRADIENT = 2.0, 1.5
#: Rounds with one constant step, at most.
ROUNDS_OVERLARGE = 1000


@dataclass(frozen=True)
class Settings:
    """Sizes of the experiment."""

    seed: int = 1
    d: int = 20
    rounds: int = 20_000
    horizons: int = 12
    etas: tuple[float, ...] = tuple(10.0**k for k in range(-4, 9))
    workers: int = 1
    compiled: bool = True

    def times(self) -> list[int]:
        """Return the horizons, evenly spaced on a logarithmic scale."""
        return sorted({round(t) for t in np.geomspace(min(20, self.rounds), self.rounds, self.horizons)})


#: Short enough to run in the interpreter.
QUICK = Settings(d=10, rounds=600, horizons=10, etas=tuple(10.0**k for k in range(-4, 9, 2)), compiled=False)


class Case(NamedTuple):
    """One line of the figures: a loss, steps and a stream."""

    loss: str
    steps: str
    stream: str

    @property
    def theorem(self) -> str:
        """The name of the bound that the case is about."""
        return "theorem 2" if self.steps == INVERSE else "theorem 1"

    def update(self, rounds: int) -> Update:
        """Return the update for this number of rounds."""
        loss = LOSSES[self.loss]
        if self.steps == INVERSE:
            return FIOL(loss, Ridge(SIGMA), Inverse(SIGMA))
        steps: StepSize = Anytime(DIAMETER, GRADIENT)
        if self.steps == HORIZON:
            steps = FixedHorizon(DIAMETER, GRADIENT, float(rounds))
        return FIOL(loss, L1(LAM), steps)


CASES = [Case(loss, steps, stream) for steps in (HORIZON, ANYTIME, INVERSE) for loss in LOSSES for stream in STREAMS]


def rows(s: Settings, loss: str, adversary: Update | None = None) -> tuple[Floats, Floats]:
    """Return rows of length 1, with targets of a linear model with noise, or of an adversary."""
    rng = np.random.default_rng(s.seed)
    x = rng.standard_normal((s.rounds, s.d))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    true, noise = rng.standard_normal(s.d), rng.standard_normal(s.rounds)
    y = x @ (3.0 * true / np.linalg.norm(true)) + 0.3 * noise
    y = y if loss == "squared" else np.where(y > 0.0, 1.0, -1.0)
    if adversary is not None:
        learner, feature = Learner(adversary, intercept=False, compiled=s.compiled), np.arange(s.d, dtype=np.int32)
        for t in range(s.rounds):
            y[t] = -1.0 if learner.score_one(feature, x[t]) > 0.0 else 1.0
            learner.learn_one(feature, x[t], float(y[t]))
    return x, y


class Curve(NamedTuple):
    """Regret of a case by rounds, and its bound with and without the gain of exact steps."""

    case: Case
    t: list[int]
    regret: list[float]
    error: list[float]  #: largest error of the regret, from that of the best weights
    bound: list[float]
    without: list[float]  #: the bound without the improvement of exact steps

    @property
    def holds(self) -> bool:
        """Whether the regret is within the bound at every horizon, its error included."""
        return all(r + e <= b * (1.0 + 1e-9) for r, e, b in zip(self.regret, self.error, self.bound, strict=True))

    @property
    def growth(self) -> float:
        """The b of regret = a T^b, over the positive ones."""
        return growth(self.t, self.regret)


class Overlarge(NamedTuple):
    """Regret with one constant step, and its bound: Proposition 1 for FIOL, that of linearized losses for COMID."""

    algorithm: str
    eta: float
    regret: float
    bound: float


def growth(t: Sequence[float], values: Sequence[float]) -> float:
    """Return the b of value = a t^b, over the positive and finite values; NaN if there are fewer than three.

    >>> round(growth([1, 10, 100], [2, 20, 200]), 6)
    1.0
    """
    fine = [(n, v) for n, v in zip(t, values, strict=True) if v > 0.0 and np.isfinite(v)]
    return exponent([n for n, _ in fine], [v for _, v in fine]) if len(fine) > 2 else float("nan")


def measure_curve(s: Settings, case: Case) -> Iterator[Curve]:
    """Measure the regret of a case at all horizons, as a task."""
    x, y = rows(s, case.loss, case.update(s.rounds) if case.stream == "adversarial" else None)
    found = audit(case.update, x, y, horizons=s.times(), compiled=s.compiled)
    bound = found.bounds[case.theorem]
    parts = found.t, found.regret, found.error, bound, bound + found.records.improvement
    yield Curve(case, *(part.tolist() for part in parts))


def measure_overlarge(s: Settings, algorithm: str, eta: float) -> Iterator[Overlarge]:
    """Measure the regret of one constant step, as a task."""
    x, y = rows(s, "squared")
    n = min(s.rounds, ROUNDS_OVERLARGE)
    preset, bound = (FIOL, "proposition 1") if algorithm == "FIOL" else (COMID, "linearized")
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the learner warns of scores that overflow
        found = audit(preset(Squared(), L1(LAM), Constant(eta)), x[:n], y[:n], compiled=s.compiled)
        yield Overlarge(algorithm, eta, finite_or_inf(found.regret[-1]), finite_or_inf(found.bounds[bound][-1]))


def finite_or_inf(value: float) -> float:
    """Return the value, infinity instead of NaN."""
    return float(value) if np.isfinite(value) else float("inf")


class Regret:
    """The experiment: `run` it; `report` works at any time."""

    name = "regret"

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.curves: list[Curve] = []
        self.overlarge: list[Overlarge] = []

    def tasks(self) -> list[Task]:
        """Return all tasks."""
        s = self.settings
        curves: list[Task] = [partial(measure_curve, s, case) for case in CASES]
        return curves + [partial(measure_overlarge, s, name, eta) for name in ("FIOL", "COMID") for eta in s.etas]

    def run(self) -> Iterator[tuple[float, str]]:
        """Run the experiment; yield the share that is done, and a description."""
        tasks = self.tasks()
        for done, (_, found) in enumerate(run_parallel(tasks, self.settings.workers)):
            if isinstance(found, Curve):
                self.curves.append(found)
                text = ", ".join(found.case)
            else:
                self.overlarge.append(found)
                text = f"{found.algorithm}, constant step {found.eta:.0e}"
            yield (done + 1) / len(tasks), text

    def report(self) -> Report:
        """Return the results so far."""
        curves = sorted(self.curves, key=lambda c: CASES.index(c.case))
        overlarge = sorted(self.overlarge, key=lambda o: (o.algorithm != "FIOL", o.eta))
        return Report(
            self.name,
            "Regret: measured, beside its bounds",
            summary(self.settings),
            asdict(self.settings) | {"lam": LAM, "sigma": SIGMA, "diameter": DIAMETER, "gradient": GRADIENT},
            {"curves": curves, "overlarge": overlarge},
            tables(curves, overlarge),
            claims(curves, overlarge),
            pictures(curves, overlarge),
            REMARKS,
            len(curves) + len(overlarge) < len(self.tasks()),
        )


# --- the report -------------------------------------------------------------------------------


def summary(s: Settings) -> list[str]:
    """Return a description of the experiment."""
    return prose(
        f"""Rows of {s.d} features and length 1. Random targets come from a linear model with noise; adversarial
        ones contradict, in every round, the score of the very learner that is measured. Regret after T rounds is
        what the learner paid, penalties included, minus what the best fixed weights for these T rounds would have
        paid; {len(s.times())} horizons up to {s.rounds:,}, each a run of its own. Convex: L1({LAM:g}) and the steps
        of Theorem 1. Strongly convex: Ridge({SIGMA:g}) and the steps 1/(sigma t) of Theorem 2. Over-large: squared
        loss, L1({LAM:g}), one constant step for {min(s.rounds, ROUNDS_OVERLARGE):,} rounds."""
    )


REMARKS = prose(
    """Theorem 2 is printed with log T; the sum of 1/t it comes from is at most 1 + log T, and that is what is used
    here. Proposition 1 is printed without the sum over rounds of its last term; it is summed here. The bounds use
    the largest gradient and distance that were measured, as the theorems allow."""
)


def tables(curves: Sequence[Curve], overlarge: Sequence[Overlarge]) -> list[Table]:
    """Return the last horizon of every case, and all constant steps."""
    found = []
    if curves:
        head = [
            "loss, steps, stream",
            "T",
            "regret",
            "bound",
            "without improvement",
            "regret / bound",
            "regret grows like",
        ]
        body = [
            [
                ", ".join(c.case),
                f"{c.t[-1]:,}",
                number(c.regret[-1]),
                number(c.bound[-1]),
                number(c.without[-1]),
                f"{c.regret[-1] / c.bound[-1]:.2f}",
                f"T^{c.growth:.2f}" if np.isfinite(c.growth) else "",
            ]
            for c in curves
        ]
        found.append(Table("Regret and the bounds of Theorems 1 and 2", head, body))
    if overlarge:
        body = [[o.algorithm, power_of_ten(o.eta), number(o.regret), number(o.bound)] for o in overlarge]
        found.append(Table("Constant steps of any size: Proposition 1", ["", "step", "regret", "bound"], body))
    return found


def claims(curves: Sequence[Curve], overlarge: Sequence[Overlarge]) -> list[Claim]:
    """Return the statements of the theorems as claims."""
    found = []
    for theorem in ("theorem 1", "theorem 2"):
        mine = [c for c in curves if c.case.theorem == theorem]
        if mine:
            worst = max(max(r / b for r, b in zip(c.regret, c.bound, strict=True)) for c in mine)
            text = f"{theorem}: the regret is within its bound at every horizon, improvement included"
            found.append(Claim(text, all(c.holds for c in mine), f"at most {worst:.2f} of it, {len(mine)} cases"))
            fastest = max(c.growth for c in mine if np.isfinite(c.growth))
            limit, slower = (1.0, "T") if theorem == "theorem 1" else (0.5, "sqrt(T)")
            text = f"{theorem}: fitted over these horizons, it grows slower than {slower}"
            found.append(Claim(text, fastest < limit, f"T^{fastest:.2f} at most"))
    fiol, comid = ([o for o in overlarge if o.algorithm == name] for name in ("FIOL", "COMID"))
    if fiol and comid:
        found.append(
            Claim(
                "proposition 1: FIOL's regret is within its bound for every constant step",
                all(o.regret <= o.bound for o in fiol),
                f"at most {max(o.regret / o.bound for o in fiol):.2f} of it",
            )
        )
        large = [o for o in fiol if o.eta >= 1e4]
        if len(large) > 1:
            low, high = min(o.bound for o in large), max(o.bound for o in large)
            text = "proposition 1: the bound no longer depends on steps from 1e4 on"
            found.append(Claim(text, high < 1.1 * low, f"{number(low)} to {number(high)}"))
        worst = max(o.regret for o in comid)
        text = "COMID's regret does depend on them"
        most = max(o.regret for o in fiol)
        found.append(Claim(text, worst > 100.0 * most, f"{number(worst)} at worst, FIOL {number(most)}"))
    return found


# --- pictures ---------------------------------------------------------------------------------

COLORS = {HORIZON: ORANGE, ANYTIME: BLUE, INVERSE: GREEN}


def pictures(curves: Sequence[Curve], overlarge: Sequence[Overlarge]) -> list[Picture]:
    """Return a figure per theorem, and one for Proposition 1."""
    found = []
    for theorem, name, convexity in (("theorem 1", "convex", "convex"), ("theorem 2", "strong", "strongly convex")):
        mine = [c for c in curves if c.case.theorem == theorem]
        if mine:
            share = max(max(r / b for r, b in zip(c.regret, c.bound, strict=True)) for c in mine)
            held = "stays within" if all(c.holds for c in mine) else "LEAVES"
            title = f"Regret {held} the bound of {theorem.capitalize()} ({convexity}): at most {share:.2f} of it"
            alt = "In every panel the regret stays below the bound, with and without the improvement of exact steps."
            found.append(Picture(f"regret-{name}", title, alt, partial(draw_curves, curves=mine), (9.0, 6.4)))
    if overlarge:
        alt = "FIOL's regret and its bound are level for large steps, COMID's grow without end."
        title = overlarge_title(overlarge)
        found.append(Picture("regret-overlarge", title, alt, partial(draw_overlarge, found=overlarge), (9.0, 4.6)))
    return found


def overlarge_title(found: Sequence[Overlarge]) -> str:
    """Return the effect of large steps on the regret.

    >>> overlarge_title([Overlarge("FIOL", 1e4, 30.0, 50.0), Overlarge("COMID", 1e4, 1e9, 1e12)])
    'Steps of any size: the regret is at most 30 with FIOL, up to 1e+09 with COMID'
    """
    parts = []
    for name, within in (("FIOL", "at most"), ("COMID", "up to")):
        most = max((o.regret for o in found if o.algorithm == name), default=math.nan)
        if not math.isnan(most):
            parts.append(f"that of {name} overflows" if math.isinf(most) else f"{within} {number(most)} with {name}")
    return f"Steps of any size: the regret is {', '.join(parts)}"


def draw_curves(figure: Any, curves: Sequence[Curve]) -> None:
    """Draw regret and bounds by rounds, a panel for every loss and stream."""
    panels = figure.subplots(len(STREAMS), len(LOSSES), sharex=True, sharey=True)
    shown = [n for k in range(1, 7) for n in (10**k, 3 * 10**k) if curves[0].t[0] <= n <= curves[0].t[-1]]
    ticks = shown if len(shown) < 5 else [n for n in shown if str(n).startswith("1")]
    for line, stream in zip(panels, STREAMS, strict=True):
        for ax, loss in zip(line, LOSSES, strict=True):
            for c in (c for c in curves if (c.case.loss, c.case.stream) == (loss, stream)):
                color, steps = COLORS[c.case.steps], c.case.steps
                ax.plot(c.t, np.maximum(c.regret, 1e-3), color=color, marker="o", ms=4, label=f"regret, {steps}")
                ax.plot(c.t, c.bound, color=color, ls="--", label=f"bound, {steps}")
                # broad and pale, to be visible below the bound
                ax.plot(c.t, c.without, color=color, lw=6, alpha=0.25, label=f"without improvement, {steps}", zorder=1)
            ax.set(xscale="log", yscale="log", title=f"{loss}, {stream}")
            ax.set_xticks(ticks, [f"{n:,}" for n in ticks])
            ax.minorticks_off()
    for ax in panels[-1]:
        ax.set_xlabel("rounds T")
    for line in panels:
        line[0].set_ylabel("regret")
    least = min(min((r for r in c.regret if r > 0.0), default=0.1) for c in curves)
    panels[0][0].set_ylim(0.5 * least, 2.0 * max(max(c.without) for c in curves))
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2 if len(labels) > 3 else 3)


def draw_overlarge(figure: Any, found: Sequence[Overlarge]) -> None:
    """Draw regret and bounds by step size."""
    ax = figure.subplots()
    top = 1e3 * max(o.bound for o in found if o.algorithm == "FIOL")
    for name, color, bound in (("FIOL", BLUE, "Proposition 1"), ("COMID", RED, "its bound")):
        mine = [o for o in found if o.algorithm == name]
        etas = [o.eta for o in mine]
        ax.plot(etas, [min(o.regret, 1e9 * top) for o in mine], color=color, marker="o", label=f"{name}, regret")
        ax.plot(etas, [min(o.bound, 1e9 * top) for o in mine], color=color, ls="--", label=f"{name}, {bound}")
    least = min((o.regret for o in found if o.regret > 0.0), default=1.0)
    ax.set(xscale="log", yscale="log", ylim=(0.3 * least, top), xlabel="constant step size eta", ylabel="regret")
    ax.axhline(top, color=GREY, lw=0.5)
    ax.minorticks_off()
    ax.legend(loc="center right")
