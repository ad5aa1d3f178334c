"""What an exact step buys, with everything else equal: explicit and exact steps of the same sizes on the same rows.

    python -m benchmarks.step_sizes [--data DIR] [--json FILE] [--plot FILE] [--quick]

Two learners differ in one word: the loss of a row is linearized (explicit) or minimized as it is (exact). Everything
else is the same: logistic loss, no penalty, rows and their order, the kind of step and its size. Each learns every data
set once, with each of 13 sizes over six decades and three kinds of steps. The number is the progressive loss, that of
every row before it is learned from. --plot draws the default kind of step twice: FILE on a light ground, and FILE with
_dark in its name.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import data
from benchmarks.data import Rows
from benchmarks.report import header, progress, table
from fiol import COMID, FIOL, AdaGrad, Constant, Learner, Logistic, ScaleFree, StepSize, Update
from fiol.plots import BLUE, ORANGE, RED, SKY, load_matplotlib, save_figure

SIZES = np.logspace(-3.0, 3.0, 13)
#: A size is a good choice if its loss is at most this multiple of the loss of the best size, explicit or exact.
NEAR = 1.1
EXPLICIT, EXACT = "explicit", "exact"
#: COMID without a penalty is SGD, and has the other fields of FIOL.
UPDATES: dict[str, Callable[..., Update]] = {EXPLICIT: COMID, EXACT: FIOL}
SCALE_FREE, ADAGRAD, CONSTANT = "ScaleFree(AdaGrad)", "AdaGrad", "Constant"
#: Kinds of steps, from a size and the mean squared length of a row. A constant step of size s is s over that mean.
KINDS: dict[str, Callable[[float, float], StepSize]] = {
    SCALE_FREE: lambda size, square: ScaleFree(AdaGrad(size)),
    ADAGRAD: lambda size, square: AdaGrad(size),
    CONSTANT: lambda size, square: Constant(size / square),
}
SOURCES = (*(source for source in data.SOURCES if source.name != "covtype"), data.RAW_COVTYPE)


class Curves(NamedTuple):
    """Progressive losses of one data set and kind of step, one for each of `SIZES`, by the name of the loss step."""

    name: str
    kind: str
    losses: dict[str, list[float]]

    def best(self, step: str) -> float:
        """Return the smallest loss over all sizes."""
        return min(self.losses[step])

    def worst(self, step: str) -> float:
        """Return the largest loss over all sizes; infinite if a score overflowed."""
        return max(self.losses[step])

    def good(self, step: str) -> int:
        """Return how many sizes are within `NEAR` of the best loss of either step at any size."""
        bound = NEAR * min(map(self.best, self.losses))
        return sum(loss <= bound for loss in self.losses[step])


# --- measuring --------------------------------------------------------------------------------


def progressive_loss(update: Update, rows: Rows, compiled: bool = True) -> float:
    """Mean log loss of every row before it is learned from; infinite if scores overflow."""
    learner = Learner(update, n_features=rows.d, compiled=compiled)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # a learner warns of scores that overflow
        loss = float(np.mean(np.logaddexp(0.0, -rows.y * learner.learn(rows.matrix(), rows.y))))
    return loss if np.isfinite(loss) else np.inf


def measure(rows: Rows, compiled: bool = True) -> Iterator[Curves]:
    """Both loss steps over all sizes, for every kind of step."""
    square = float(np.sum(rows.data**2)) / rows.size
    for kind, step_size in KINDS.items():
        losses = {}
        for name, preset in UPDATES.items():
            updates = [preset(Logistic(), step_size=step_size(size, square)) for size in SIZES.tolist()]
            losses[name] = [progressive_loss(update, rows, compiled) for update in updates]
        yield Curves(rows.name, kind, losses)


def badly_scaled(rows: int, d: int = 30, seed: int = 0) -> Rows:
    """Dense rows whose columns have scales from 0.001 to 1000; one in three counts."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, d))
    y = np.where(x[:, ::3].sum(axis=1) + rng.standard_normal(rows) > 0.0, 1.0, -1.0)
    x *= 10.0 ** rng.permutation(np.linspace(-3.0, 3.0, d))
    return Rows("badly scaled", d, np.arange(rows + 1) * d, np.tile(np.arange(d, dtype=np.int32), rows), x.ravel(), y)


def made_up(rows: int) -> Iterator[Rows]:
    """Return made-up rows, for runs without data sets."""
    yield data.text_like(rows, 20_000)
    yield badly_scaled(rows)


# --- saying what was found --------------------------------------------------------------------


def report(found: list[Curves]) -> str:
    """Return all curves as a table, and their sums."""
    near = f"within {NEAR - 1:.0%}"
    head = ["", "steps", *(f"{what}, {step}" for what in ("best", "worst", near) for step in UPDATES)]
    body = []
    for c in found:
        losses = (number(loss(step)) for loss in (c.best, c.worst) for step in UPDATES)
        body.append([c.name, c.kind, *losses, *(str(c.good(step)) for step in UPDATES)])
    good = {step: sum(c.good(step) for c in found) for step in UPDATES}
    worst = {step: number(max(c.worst(step) for c in found)) for step in UPDATES}
    better = sum(c.best(EXACT) < c.best(EXPLICIT) for c in found)
    tried = f"{SIZES.size} sizes from {SIZES[0]:g} to {SIZES[-1]:g}"
    return (
        f"Progressive log loss, one pass, logistic loss, no penalty; {tried}\n{table(head, body)}\n\n"
        f"Sizes {near} of the best of both, of {SIZES.size * len(found)}: "
        f"explicit {good[EXPLICIT]}, exact {good[EXACT]}.\n"
        f"The best exact step is better than the best explicit one in {better} of {len(found)} cases.\n"
        f"Worst loss of all: explicit {worst[EXPLICIT]}, exact {worst[EXACT]}."
    )


def number(loss: float) -> str:
    """Three digits, or what happened instead."""
    return "overflow" if loss == np.inf else f"{loss:,.0f}" if loss >= 100.0 else f"{loss:#.3g}"


# --- the picture ------------------------------------------------------------------------------


class Theme(NamedTuple):
    """Colours of a picture: its ground, its text, what stays behind, and both steps."""

    ground: str
    text: str
    faint: str
    steps: dict[str, str]


LIGHT = Theme("#ffffff", "#1f2328", "#6e7781", {EXPLICIT: RED, EXACT: BLUE})
DARK = Theme("#0d1117", "#e6edf3", "#8b949e", {EXPLICIT: ORANGE, EXACT: SKY})


def draw(found: list[Curves], kind: str, path: Path, theme: Theme) -> None:
    """Loss against step size, a panel per data set, with the same axes everywhere."""
    matplotlib = load_matplotlib()
    from matplotlib.figure import Figure

    panels = [c for c in found if c.kind == kind]
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    colors = dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color", "axes.labelcolor"), theme.faint)
    style = {"font.size": 15, "text.color": theme.text, "svg.fonttype": "path", "svg.hashsalt": "fiol", **colors}
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(11.0, 1.75 + 2.45 * rows), facecolor=theme.ground)
        axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
        worst = {s: max(c.worst(s) for c in panels) for s in UPDATES}
        top = min(worst[EXPLICIT], 1e6) * 4.0
        for k, (ax, curves) in enumerate(zip(axes, panels, strict=False)):
            draw_panel(ax, curves, theme, top, first=k == 0)
        for ax in axes[len(panels) :]:
            ax.remove()
        axes[0].set(xscale="log", yscale="log", xlim=(SIZES[0], SIZES[-1]), ylim=(0.03, top))
        axes[0].set_xticks([1e-3, 1.0, 1e3], ["0.001", "1", "1000"])
        axes[0].set_yticks([0.1, 1.0, 10.0, 100.0], ["0.1", "1", "10", "100"])
        for ax in axes:
            ax.minorticks_off()
            for label, side in zip(ax.get_xticklabels(), ("left", "center", "right"), strict=False):
                label.set_horizontalalignment(side)
        height = figure.get_figheight()
        losses = f"at worst a loss of {worst[EXACT]:.2g}, explicit {number(worst[EXPLICIT])}"
        title = f"Exact steps have no disastrous size: {losses}"
        figure.text(0.012, 1.0 - 0.16 / height, title, weight="bold", size=19, va="top")
        note = f"Mean log loss of every row before it is learned; one pass, the same {kind} steps"
        figure.text(0.012, 1.0 - 0.56 / height, note, color=theme.faint, va="top")
        figure.supxlabel("step size", y=0.1 / height, va="bottom", color=theme.faint, size=15)
        figure.subplots_adjust(0.062, 0.78 / height, 0.945, 1.0 - 1.32 / height, wspace=0.23, hspace=0.36)
        path.parent.mkdir(parents=True, exist_ok=True)
        save_figure(figure, path, dpi=100)


def draw_panel(ax: Any, curves: Curves, theme: Theme, top: float, first: bool) -> None:
    """Draw one data set: both curves, named in the first panel, each with its loss at the largest size."""
    ax.set_facecolor(theme.ground)
    ax.axhline(np.log(2.0), color=theme.faint, lw=1.2, ls=(0, (1, 2)))
    for step, color in theme.steps.items():
        losses = np.minimum(curves.losses[step], top)
        ax.plot(SIZES, losses, color=color, lw=3.0, solid_capstyle="round", clip_on=False)
        last = curves.losses[step][-1]
        label = f"{last:.2f}" if last < 1.0 else f"{last:.2g}" if last < 100.0 else number(last)
        ax.text(SIZES[-1] * 1.35, losses[-1], label, color=color, va="center")
    if first:
        ax.text(12.0, 8.0, EXPLICIT, color=theme.steps[EXPLICIT], weight="bold", ha="right", va="center")
        ax.text(12.0, 0.27, EXACT, color=theme.steps[EXACT], weight="bold", ha="left", va="top")
        ax.text(SIZES[0] * 1.2, 0.8, "guessing", color=theme.faint, va="bottom", size=13)
    ax.set_title(curves.name, loc="left", size=15, weight="bold")
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(length=3)


# --- command line -----------------------------------------------------------------------------


def main(arguments: list[str] | None = None, compiled: bool = True) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.step_sizes", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--data", type=Path, metavar="DIR", help="a folder with data sets (see benchmarks/data.py)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers, versions and the command")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw loss against step size")
    parser.add_argument("--quick", action="store_true", help="few made-up rows: shows that everything runs")
    options = parser.parse_args(arguments)
    if options.data is not None and not options.data.is_dir():
        parser.error(f"--data: {options.data} is no folder")
    found = []
    real = options.data is not None and not options.quick
    for rows in data.load(options.data, sources=SOURCES) if real else made_up(20 if options.quick else 20_000):
        for curves in measure(rows, compiled):
            progress(f"{curves.name}, {curves.kind}")
            found.append(curves)
    progress("")
    if not found:
        parser.error(f"--data: {options.data} has none of {', '.join(s.file for s in SOURCES)}")
    print(report(found))
    if options.plot:
        draw(found, SCALE_FREE, options.plot, LIGHT)
        draw(found, SCALE_FREE, options.plot.with_stem(f"{options.plot.stem}_dark"), DARK)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        head = header("benchmarks.step_sizes", arguments, options.quick)
        results = [c._asdict() for c in found]
        options.json.write_text(json.dumps({**head, "sizes": SIZES.tolist(), "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
