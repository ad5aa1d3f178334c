"""The effects of columns and pairs as figures of matplotlib (`pip install "fiol[plots]"`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from fiol.learner.calendar_ticks import calendar_ticks
from fiol.learner.effects import ColumnEffect, PairEffect, effects_of, shown_categories

#: Okabe and Ito's blue, which color-blind readers can distinguish, and a gray.
CURVE_COLOR, SHARE_COLOR = "#0072B2", "#bbbbbb"
#: Bins with a label on an axis of a heat map.
MOST_TICKS = 8


def plot_effects(core: Any, columns: int, pairs: int, label: Any) -> Any:
    """Return a figure of the largest effects: see `Model.plot_effects`; ImportError without matplotlib."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError('plots need matplotlib: pip install "fiol[plots]"') from error
    for name, most in (("columns", columns), ("pairs", pairs)):
        if not isinstance(most, (int, np.integer)):
            raise TypeError(f"{name} must be a whole number, how many are drawn at most, got {most!r}")
    effects, labels = effects_of(core), core.labels
    score = 0 if labels is None else labels.classes.index(label if label is not None else labels.classes[-1])
    chosen: list[Any] = [*effects.columns[:columns], *effects.pairs[:pairs]]
    rows = max(-(-len(chosen) // 3), 1)
    figure, axes = pyplot.subplots(rows, 3, figsize=(11.0, 3.2 * rows), layout="constrained", squeeze=False)
    for ax, effect in zip(axes.flat, chosen, strict=False):
        if isinstance(effect, PairEffect):
            draw_pair(figure, ax, effect, score)
        else:
            draw_column(ax, effect, score)
    for ax in axes.flat[len(chosen) :]:
        ax.set_visible(False)
    return figure


def draw_column(ax: Any, effect: ColumnEffect, score: int) -> None:
    """Draw a curve with its band of two standard deviations and the shares of rows, or bars of categories."""
    values = effect.values[score]
    if not effect.numeric:
        order = shown_categories(effect, MOST_TICKS)
        ax.bar([str(effect.points[k]) for k in order], values[order], color=CURVE_COLOR)
    else:
        shares = ax.twinx()
        widths = np.diff(np.concatenate([effect.points[:1], effect.points]))
        shares.fill_between(
            effect.points, effect.shares / np.where(widths > 0.0, widths, np.inf), color=SHARE_COLOR, alpha=0.4
        )
        shares.set(yticks=[], ylim=(0.0, None))
        shares.margins(y=2.0)
        band = 2.0 * np.minimum(effect.deviations, 5.0 * max(effect.size, 1e-300))
        ax.fill_between(effect.points, values - band, values + band, color=CURVE_COLOR, alpha=0.2, lw=0)
        ax.plot(effect.points, values, color=CURVE_COLOR)
        ax.set_zorder(shares.get_zorder() + 1)
        ax.patch.set_visible(False)
        ticks = calendar_ticks(effect.axis, float(effect.points[0]), float(effect.points[-1]))
        if ticks:
            ax.set_xticks(*zip(*ticks, strict=True))
    ax.set(title=effect.name)


def draw_pair(figure: Any, ax: Any, effect: PairEffect, score: int) -> None:
    """Draw the cells of a pair of columns as a heat map; cells without rows are empty, and points left out."""
    across, up = (np.flatnonzero(effect.shares.sum(axis=axis) > 0.0) for axis in (1, 0))
    cells = np.ix_(across, up)
    values = np.where(effect.shares[cells] > 0.0, effect.values[score][cells], np.nan).T
    largest = float(np.nanmax(np.abs(values), initial=0.0)) or 1.0
    image = ax.imshow(values, origin="lower", aspect="auto", cmap="RdBu", vmin=-largest, vmax=largest)
    for bins, name, ticks in (
        ([effect.left_points[k] for k in across], effect.left, ax.set_xticks),
        ([effect.right_points[k] for k in up], effect.right, ax.set_yticks),
    ):
        places = range(0, len(bins), max(1, -(-len(bins) // MOST_TICKS)))
        ticks(list(places), [bins[k].removeprefix(name).lstrip(" =~")[:10] for k in places], rotation=30, fontsize=8)
    ax.set(title=effect.name, xlabel=effect.left, ylabel=effect.right)
    figure.colorbar(image, ax=ax)
