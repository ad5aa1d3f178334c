"""Figures, which need matplotlib (`pip install "fiol[plots]"`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Union

import numpy as np
from numpy.typing import ArrayLike

from fiol.components.geometries import Euclidean, Geometry
from fiol.components.losses import Loss
from fiol.components.regularizers import Regularizer, Unregularized
from fiol.components.row import Floats, Row
from fiol.components.solvers import Sorting, breakpoints
from fiol.components.subproblem import Problem, make_problem
from fiol.step import Step, check_start, make_row, solve_step

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Colors that color-blind readers can distinguish (Okabe and Ito, "Color universal design", 2008).
BLACK, ORANGE, SKY, GREEN, BLUE, RED, PURPLE, GREY = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7", "#767676",
)  # fmt: skip
#: Style of the figures of all experiments, readable at half their size.
STYLE: dict[str, Any] = {
    "font.size": 11,
    "axes.titlesize": 12,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "lines.linewidth": 2.0,
    "lines.markersize": 6,
    "legend.frameon": False,
    "svg.fonttype": "path",
    "svg.hashsalt": "fiol",
}
PIECE: dict[str, Any] = {"color": SKY, "lw": 9, "alpha": 0.55, "solid_capstyle": "butt"}
BENDS: dict[str, Any] = {"ls": "", "marker": "o", "ms": 6, "mfc": "white", "mec": BLUE, "mew": 1.5}


def load_matplotlib() -> Any:
    """Return the module matplotlib; ImportError with the command that installs it."""
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError('plots need matplotlib: pip install "fiol[plots]"') from error
    return matplotlib


def save_figure(figure: Any, path: Path, dpi: int = 200) -> None:
    """Write a figure; equal figures are equal files."""
    figure.savefig(path, dpi=dpi, metadata={"Date": None} if path.suffix == ".svg" else None)


class StepCurves(NamedTuple):
    """The equation of a step as points of a figure."""

    betas: Floats  #: where g is evaluated, increasing
    scores: Floats  #: g there
    breakpoints: Floats  #: where g changes its slope, between `low` and `high`
    low: float  #: least beta of the figure
    high: float  #: largest beta of the figure
    bottom: float  #: least score of the figure
    top: float  #: largest score of the figure
    linearized: list[tuple[float, float]]  #: (beta, score) before and after a linearized step; empty if not shown


def plot_step(
    x: Union[ArrayLike, tuple[ArrayLike, ArrayLike]],
    y: float,
    w: ArrayLike,
    *,
    loss: Loss,
    regularizer: Regularizer | None = None,
    geometry: Geometry | None = None,
    eta: float = 1.0,
    sample_weight: float = 1.0,
    explicit: bool = False,
    span: tuple[float, float] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the scalar equation of a step: the score of the weights and the derivative of the loss, as curves.

    With a pull beta the new weights have the score g(beta), which never falls. The loss has the pull beta at the score
    z where beta = -phi'(z), which never rises. The two curves cross once, at the exact step. In Euclidean and diagonal
    geometries g is a chain of straight pieces between breakpoints (Lemma 2); the piece with the root is drawn bold.
    Meant for rows of up to a few hundred features.

    Parameters
    ----------
    x, y, w, loss, regularizer, geometry, eta, sample_weight : the step, as for `solve_step`.
    explicit : whether to draw the step of the linearized loss too, whose pull is -phi' at the old score.
    span : the values of beta to show; by default from 0 to the root, with a margin on both sides.
    ax : matplotlib axes to draw on; by default those of a new figure.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from fiol import L1, Squared
    >>> ax = plot_step([1.0, 2.0], 3.0, [0.5, -1.0], loss=Squared(), regularizer=L1(0.5), ax=Figure().subplots())
    >>> ax.get_xlabel()
    '$\\\\beta$, the pull of the loss'

    References
    ----------
    Song, Liu, Liu, Jiang, Zhang, "Fully Implicit Online Learning", Lemma 2.
    """
    load_matplotlib()
    geometry = Euclidean() if geometry is None else geometry
    problem = make_problem(loss, Unregularized() if regularizer is None else regularizer, geometry)
    same = {"loss": loss, "regularizer": regularizer, "geometry": geometry, "eta": eta, "sample_weight": sample_weight}
    step = solve_step(x, y, w, compiled=False, **same)  # type: ignore[arg-type]
    problem, row, _ = make_row(problem, geometry, x, y, check_start(w, geometry), eta, sample_weight)
    if ax is None:
        from matplotlib import pyplot

        ax = pyplot.subplots(figsize=(7.0, 4.6), layout="constrained")[1]
    curves = curves_of_step(problem, row, step.beta, explicit, span)
    draw_weights(ax, curves, step.beta)
    draw_loss(ax, curves, loss, row)
    draw_steps(ax, curves, step)
    ax.set(xlim=(curves.low, curves.high), xlabel="$\\beta$, the pull of the loss")
    ax.set(ylim=(curves.bottom, curves.top), ylabel="score $z = \\langle x, w\\rangle$")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    return ax


def curves_of_step(
    problem: Problem, row: Row, root: float, explicit: bool, span: tuple[float, float] | None
) -> StepCurves:
    """Return the points of g, and ranges of the axes with the root and, if `explicit`, the linearized step."""
    old = float(row.x @ row.center)
    pull = -row.weight * problem.loss.grad(old, row.y)
    low, high = span or around([0.0, root, *([pull] if explicit else [])], 0.25)
    bends, betas = grid(problem, row, low, high, root)
    with np.errstate(all="ignore"):
        scores = np.array([problem.score(row, beta) for beta in betas.tolist()])
        linearized = [(0.0, old), (pull, problem.score(row, pull))] if explicit else []
    bottom, top = around([*scores, *(score for _, score in linearized)], 0.06, least=high - low)
    return StepCurves(betas, scores, bends, low, high, bottom, top, linearized)


def draw_weights(ax: Axes, curves: StepCurves, root: float) -> None:
    """Draw g, its breakpoints, and bold the piece with the root."""
    betas, scores, bends = curves.betas, curves.scores, curves.breakpoints
    if bends.size:
        left = max(bends[bends < root], default=curves.low)
        right = min(bends[bends > root], default=curves.high)
        on = (left <= betas) & (betas <= right)
        ax.plot(betas[on], scores[on], **PIECE, label="the piece with the root")
    ax.plot(betas, scores, color=BLUE, lw=2.2, label="score $g(\\beta)$ of the weights for $\\beta$")
    if bends.size:
        ax.plot(bends, np.interp(bends, betas, scores), **BENDS, label="breakpoints of $g$")


def draw_loss(ax: Axes, curves: StepCurves, loss: Loss, row: Row) -> None:
    """Draw the score at which the loss has the pull beta."""
    z = np.linspace(curves.bottom, curves.top, 1001)
    pulls = [-row.weight * loss.grad(score, row.y) for score in z.tolist()]
    ax.plot(pulls, z, color=RED, lw=2.2, label="score $z$ at which the loss pulls by $\\beta=-\\varphi'(z)$")


def draw_steps(ax: Axes, curves: StepCurves, step: Step) -> None:
    """Draw the linearized step, if there is one, and the exact one."""
    if curves.linearized:
        (start, old), (pull, landed) = curves.linearized
        ax.plot([start, pull, pull], [old, old, landed], color=GREY, lw=1.5, ls="--")
        ax.plot(pull, landed, "X", color=GREY, ms=9, label="linearized loss: $\\beta=-\\varphi'$(old score)")
    ax.plot([curves.low, step.beta, step.beta], [step.z, step.z, curves.bottom], color=BLACK, lw=1, ls=":")
    root = f"exact step: $\\beta$ = {step.beta:.3g}, new score {step.z:.3g}"
    ax.plot(step.beta, step.z, "o", color=BLACK, ms=9, zorder=5, label=root)


def grid(problem: Problem, row: Row, low: float, high: float, root: float) -> tuple[Floats, Floats]:
    """Return the breakpoints of g between low and high, and the betas at which to evaluate g for a figure."""
    chain = not Sorting().objection(problem.regularizer, problem.geometry)
    mu = np.unique(breakpoints(problem, row)) if chain else np.empty(0)
    bends = mu[(low < mu) & (mu < high)]
    return bends, np.unique(np.concatenate([bends, np.linspace(low, high, 2 if chain else 301), [root]]))


def around(values: list[float], margin: float, least: float = 0.0) -> tuple[float, float]:
    """Return a range of all values with a relative margin on both sides, at least `least` wide.

    >>> around([0.0, 2.0], 0.5), around([3.0], 0.5)
    ((-1.0, 3.0), (2.0, 4.0))
    """
    low, high = min(values), max(values)
    half = (0.5 + margin) * (max(high - low, least) or 1.0)
    return 0.5 * (low + high) - half, 0.5 * (low + high) + half
