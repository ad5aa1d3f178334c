"""Progressive loss of several libraries against their step size, beside the loss of the default, which has none.

    python -m benchmarks.sensitivity [--data DIR] [--json FILE] [--plot FILE] [--vw COMMAND] [--no-vw] [--no-river]
                                     [--keep] [--quick]

Two classes, logistic loss, no penalty, one pass over the same rows in the same order; every row is predicted before it
is learned from. 13 step sizes from 0.001 to 1000, each in the unit of its library:

- scikit-learn: SGD with a constant step, over the mean squared length of a row, as in benchmarks/tuning.py; without a
  scaler or with the scaler that is best for it, also one that was fitted to all rows beforehand;
- Vowpal Wabbit: `-l`;
- River: the size of SGD or of AdaGrad, whichever is better, with its StandardScaler for tables;
- one learner of fiol: `ScaleFree(AdaGrad(size))`, with gradient steps and with exact steps;
- the default of fiol: `Stacked`, which has no step size.

Losses are stored where those of benchmarks/tuning.py are. --plot draws twice: FILE on a light background, and FILE with
_dark in its name.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import data
from benchmarks.report import header, progress, table
from benchmarks.tuning import (
    BINARY,
    CACHE,
    MODELS,
    SIZES,
    Contestant,
    Kept,
    Task,
    VowpalWabbit,
    code_digest,
    find_vw,
    number,
    own_scores,
    river_scores,
    scikit_learn,
)
from fiol import COMID, AdaGrad, Logistic, ScaleFree
from fiol.plots import BLUE, GREEN, ORANGE, PURPLE, RED, SKY, load_matplotlib, save_figure

SOURCES = tuple(
    source
    for name in ("a9a", "w8a", "frappe", "reuters", "spam", "elec")
    for source in (*data.SOURCES, *data.MORE_BINARY)
    if source.name == name
)
SKLEARN, VW, RIVER, EXPLICIT, EXACT = "scikit-learn", "Vowpal Wabbit", "River", "explicit", "exact"
#: A size is a good choice if its loss is at most this multiple of the loss of the ensemble.
NEAR = 1.1


class Sensitivity(NamedTuple):
    """Losses of one data set: of the ensemble, and of each competitor one for each of `SIZES`."""

    name: str
    rows: int
    ensemble: float
    curves: dict[str, list[float]]
    #: Which variant of each competitor is shown: the one with the least loss at its best size.
    ways: dict[str, str]

    def ratios(self, who: str) -> Any:
        """Losses divided by the ensemble's."""
        return np.array(self.curves[who]) / self.ensemble


# --- measuring --------------------------------------------------------------------------------


def grids(task: Task, vw: VowpalWabbit | None, with_river: bool, digest: str) -> Iterator[tuple[str, str, Any]]:
    """Yield competitor, variant, and its contestants, one for every size."""
    ours: dict[str, dict[str, Any]] = {
        EXACT: {f"AdaGrad({s:.3g})": MODELS[f"AdaGrad({s:.3g})"] for s in SIZES},
        EXPLICIT: {f"explicit AdaGrad({s:.3g})": partial(COMID, step_size=ScaleFree(AdaGrad(s))) for s in SIZES},
    }
    columns = scikit_learn(task)
    steps = [*columns["sklearn"], *columns["sklearn scaled"]]
    for k in range(0, len(steps), len(SIZES)):
        yield SKLEARN, steps[k].name.rpartition(", ")[0], steps[k : k + len(SIZES)]
    if vw is not None:
        release = vw.release
        runs = ((f"{s:.3g}", ("-l", f"{s:.3g}")) for s in SIZES)
        yield VW, "-l", [Contestant(f"VW -l {text}", release, partial(vw.scores, run)) for text, run in runs]
    if with_river:
        for kind in ("SGD", "AdaGrad"):
            parts = [(f"River {kind}({s:.3g})", partial(river_scores, kind, (s,))) for s in SIZES]
            yield RIVER, kind, [Contestant(name, version("river"), scores) for name, scores in parts]
    for who, models in ours.items():
        made = ((name, f"{digest} {make(Logistic())!r}", partial(own_scores, make)) for name, make in models.items())
        yield who, "", [Contestant(*parts) for parts in made]


def measure(task: Task, kept: Kept, vw: VowpalWabbit | None, with_river: bool) -> Sensitivity:
    """Return the losses of all competitors at all sizes on one data set."""
    digest, curves, ways = code_digest(), dict[str, list[float]](), dict[str, str]()
    for who, way, contestants in grids(task, vw, with_river, digest):
        losses = [loss for _, loss in kept.losses(task, contestants)]
        if who not in curves or min(losses) < min(curves[who]):
            curves[who], ways[who] = losses, way
    stacked = Contestant(
        "ensemble", f"{digest} {MODELS['ensemble'](Logistic())!r}", partial(own_scores, MODELS["ensemble"])
    )
    ((_, ensemble),) = kept.losses(task, [stacked])
    return Sensitivity(task.rows.name, task.rows.size, ensemble, curves, ways)


# --- the report --------------------------------------------------------------------


def report(found: list[Sensitivity]) -> str:
    """Return a table of each competitor's best and worst loss, its best size, and how many sizes are good."""
    head = ["", "", "best", "at", "worst", f"sizes within {NEAR - 1:.0%} of the ensemble", "way"]
    body = []
    for s in found:
        body.append([s.name, "ensemble", number(s.ensemble, 4), "", "", "", ""])
        for who, losses in s.curves.items():
            good = f"{int((s.ratios(who) <= NEAR).sum())} of {len(SIZES)}"
            best = int(np.argmin(losses))
            body.append(
                ["", who, number(losses[best], 4), f"{SIZES[best]:.3g}", number(max(losses), 2), good, s.ways[who]]
            )
    return f"Progressive log loss over one pass, 13 sizes from 0.001 to 1000\n{table(head, body)}"


class Outcome(NamedTuple):
    """How the ensemble compares with each competitor at its best size."""

    sets: int
    #: On how many data sets no competitor has a lower loss at any size.
    least: int
    #: The largest ratio of the ensemble's loss to the least loss of a competitor.
    worst: float


def outcome(found: list[Sensitivity]) -> Outcome:
    """Compare the ensemble with each competitor at its best size."""
    others = [min(min(losses) for losses in s.curves.values()) for s in found]
    least = sum(s.ensemble <= best for s, best in zip(found, others, strict=True))
    return Outcome(len(found), least, max(s.ensemble / best for s, best in zip(found, others, strict=True)))


def title(found: list[Sensitivity]) -> str:
    """Return the result in a line, the title of the figure."""
    result = outcome(found)
    where = "" if result.least == result.sets else f" on {result.least} of {result.sets} data sets"
    return f"Without tuning, fiol beats the others at their best step size{where}"


def headline(found: list[Sensitivity]) -> str:
    """Return the title, by how much the ensemble is worse elsewhere, and how many runs come near."""
    result = outcome(found)
    runs = [ratio for s in found for who in s.curves for ratio in s.ratios(who)]
    near = sum(ratio <= NEAR for ratio in runs)
    above = f", elsewhere at most {result.worst - 1:.1%} worse" if result.worst > 1.0 else ""
    return f"{title(found)}{above}; {near} of {len(runs)} tuned runs come within {NEAR - 1:.0%}"


# --- the picture ------------------------------------------------------------------------------


class Theme(NamedTuple):
    """Colors of a figure: of the background, the text, axes, and each competitor."""

    ground: str
    text: str
    faint: str
    who: dict[str, str]


LIGHT = Theme("#ffffff", "#1f2328", "#6e7781", {SKLEARN: ORANGE, VW: PURPLE, RIVER: GREEN, EXPLICIT: RED, EXACT: BLUE})
DARK = Theme("#0d1117", "#e6edf3", "#8b949e", {SKLEARN: ORANGE, VW: PURPLE, RIVER: GREEN, EXPLICIT: RED, EXACT: SKY})
#: The range of ratios that is shown.
LOW, TOP = 0.9, 10.0


def draw(found: list[Sensitivity], path: Path, theme: Theme) -> None:
    """Loss divided by the ensemble's against step size, a panel per set, with the same axes everywhere."""
    matplotlib = load_matplotlib()
    from matplotlib.figure import Figure

    columns = min(3, len(found))
    rows = -(-len(found) // columns)
    colors = dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color", "axes.labelcolor"), theme.faint)
    style = {"font.size": 15, "text.color": theme.text, "svg.fonttype": "path", "svg.hashsalt": "fiol", **colors}
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(11.0, 2.2 + 2.6 * rows), facecolor=theme.ground)
        axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
        for k, (ax, one) in enumerate(zip(axes, found, strict=False)):
            draw_panel(ax, one, theme, first=k == 0)
        for ax in axes[len(found) :]:
            ax.remove()
        axes[0].set(xscale="log", yscale="log", xlim=(SIZES[0], SIZES[-1]), ylim=(LOW, TOP))
        axes[0].set_xticks([1e-3, 1.0, 1e3], ["0.001", "1", "1000"])
        axes[0].set_yticks([1.0, 1.5, 2.0, 3.0, 5.0, 10.0], ["1", "1.5", "2", "3", "5", "10"])
        for ax in axes:
            ax.minorticks_off()
            for label, side in zip(ax.get_xticklabels(), ("left", "center", "right"), strict=False):
                label.set_horizontalalignment(side)
        height = figure.get_figheight()
        figure.text(0.012, 1.0 - 0.16 / height, title(found), weight="bold", size=19, va="top")
        note = "Log loss of one pass, divided by that of fiol's default, against step size; dots: best step size"
        figure.text(0.012, 1.0 - 0.56 / height, note, color=theme.faint, va="top")
        draw_names(figure, found, theme, 1.0 - 1.02 / height)
        figure.supxlabel(
            "step size, in the unit of each library", y=0.1 / height, va="bottom", color=theme.faint, size=15
        )
        figure.subplots_adjust(0.062, 0.78 / height, 0.985, 1.0 - 1.78 / height, wspace=0.09, hspace=0.34)
        path.parent.mkdir(parents=True, exist_ok=True)
        save_figure(figure, path, dpi=100)


def draw_names(figure: Any, found: list[Sensitivity], theme: Theme, y: float) -> None:
    """Write the names of all competitors in their colors above the panels."""
    names = {"fiol's default": theme.text}
    names |= {"one exact learner": theme.who[EXACT], "gradient steps": theme.who[EXPLICIT]}
    names |= {who: theme.who[who] for who in (VW, SKLEARN, RIVER) if who in found[0].curves}
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    renderer, x = FigureCanvasAgg(figure).get_renderer(), 0.012  # type: ignore[no-untyped-call]  # it knows how long words are
    for name, color in names.items():
        text = figure.text(x, y, name, color=color, weight="bold", va="top", size=15)
        x += text.get_window_extent(renderer).width / figure.bbox.width + 0.02


def draw_panel(ax: Any, one: Sensitivity, theme: Theme, first: bool) -> None:
    """Draw one data set: a curve for each competitor with a dot at its best size, and the level of the ensemble."""
    ax.set_facecolor(theme.ground)
    ax.axhline(np.log(2.0) / one.ensemble, color=theme.faint, lw=1.2, ls=(0, (1, 2)))
    for who, color in theme.who.items():
        if who in one.curves:
            ratios = np.minimum(one.ratios(who), 1e3)
            ax.plot(SIZES, ratios, color=color, lw=2.2, solid_capstyle="round")
            best = int(np.argmin(ratios))
            ax.plot(SIZES[best], ratios[best], "o", color=color, ms=7, clip_on=False, zorder=4)
    ax.axhline(1.0, color=theme.text, lw=3.2, zorder=3)
    if first:
        ax.text(
            SIZES[0] * 1.3, np.log(2.0) / one.ensemble * 1.05, "p = 1/2 always", color=theme.faint, va="bottom", size=13
        )
    ax.set_title(one.name, loc="left", size=15, weight="bold")
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(length=3)


# --- command line -----------------------------------------------------------------------------


def main(arguments: list[str] | None = None, compiled: bool = True) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sensitivity", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--data", type=Path, metavar="DIR", help="a folder with data sets (see benchmarks/data.py)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers, versions and the command")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw loss against step size")
    parser.add_argument("--vw", metavar="COMMAND", help="how to start Vowpal Wabbit, such as 'python -m vowpalwabbit'")
    parser.add_argument("--no-vw", action="store_true", help="leave Vowpal Wabbit out")
    parser.add_argument("--no-river", action="store_true", help="leave River out, which is slow")
    parser.add_argument("--keep", action="store_true", help="take losses of fiol that another version of the code made")
    parser.add_argument(
        "--quick", action="store_true", help="few made-up rows, nothing stored: shows that everything runs"
    )
    options = parser.parse_args(arguments)
    if options.data is not None and not options.data.is_dir():
        parser.error(f"--data: {options.data} is no folder")
    command = None if options.no_vw else find_vw(options.vw)
    with_river = not options.no_river and find_spec("river") is not None
    kept, found = Kept(None if options.quick else CACHE, options.keep), []
    real = options.data is not None and not options.quick
    with tempfile.TemporaryDirectory() as folder:
        vw = VowpalWabbit(command, Path(folder)) if command else None
        sets = (
            data.load(options.data, sources=SOURCES)
            if real
            else [data.text_like(20 if options.quick else 5000, 2000, 20)]
        )
        for rows in sets:
            found.append(measure(Task(rows, BINARY, compiled), kept, vw, with_river))
    progress("")
    if not found:
        parser.error(f"--data: {options.data} has none of {', '.join(s.file for s in SOURCES)}")
    print(f"{report(found)}\n\n{headline(found)}.")
    if options.plot:
        draw(found, options.plot, LIGHT)
        draw(found, options.plot.with_stem(f"{options.plot.stem}_dark"), DARK)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        head = header("benchmarks.sensitivity", arguments, options.quick, ["river"] if with_river else [])
        if vw:
            head["versions"]["vowpalwabbit"] = vw.release
        results = [s._asdict() for s in found]
        options.json.write_text(json.dumps({**head, "sizes": SIZES, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
