"""The effects of columns and pairs as figures of matplotlib (`pip install "fiol[plots]"`)."""

from __future__ import annotations

from math import isnan, nan
from typing import Any

import numpy as np

from fiol.features.basis_names import HAT
from fiol.learner.calendar_ticks import calendar_ticks
from fiol.learner.effects import ColumnEffect, PairEffect, effects_of, shown_categories

#: Okabe and Ito's blue, which color-blind readers can distinguish, and a gray.
CURVE_COLOR, SHARE_COLOR = "#0072B2", "#bbbbbb"
#: Bins with a label on an axis of a heat map, categories that have a bar, and characters of a label.
MOST_TICKS, MOST_BARS, LONGEST_LABEL = 6, 12, 12
#: How labels of ticks are drawn.
SMALL_TEXT = {"fontsize": 8}
SLANTED = {**SMALL_TEXT, "rotation": 35, "ha": "right", "rotation_mode": "anchor"}


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
    drawn = effects.shown_pairs(pairs)
    chosen: list[Any] = [*effects.columns[:columns], *drawn]
    rows = max(-(-len(chosen) // 3), 1)
    largest = max((largest_value(pair, score) for pair in drawn), default=1.0) or 1.0
    figure, axes = pyplot.subplots(rows, 3, figsize=(12.0, 3.4 * rows), layout="constrained", squeeze=False)
    for ax, effect in zip(axes.flat, chosen, strict=False):
        if isinstance(effect, PairEffect):
            draw_pair(figure, ax, effect, score, largest)
        else:
            draw_column(ax, effect, score)
    for ax in axes.flat[len(chosen) :]:
        ax.set_visible(False)
    return figure


def draw_column(ax: Any, effect: ColumnEffect, score: int) -> None:
    """Draw a curve with its band of two standard deviations and the shares of rows, or bars of categories."""
    values = effect.values[score]
    if not effect.numeric:
        order = shown_categories(effect, MOST_BARS)
        ax.bar(range(len(order)), values[order], color=CURVE_COLOR)
        places = range(0, len(order), max(1, -(-len(order) // MOST_BARS)))
        ax.set_xticks(list(places), [shown_text(short_label(effect.points[order[k]])) for k in places], **SLANTED)
    else:
        shares = ax.twinx()
        widths = np.diff(np.concatenate([effect.points[:1], effect.points]))
        density = effect.shares / np.where(widths > 0.0, widths, np.inf)
        shares.fill_between(effect.points, density, color=SHARE_COLOR, alpha=0.4)
        shares.set(yticks=[], ylim=(0.0, 3.0 * float(density.max()) or 1.0))
        band = 2.0 * np.minimum(effect.deviations, 5.0 * max(effect.size, 1e-300))
        ax.fill_between(effect.points, values - band, values + band, color=CURVE_COLOR, alpha=0.2, lw=0)
        ax.plot(effect.points, values, color=CURVE_COLOR)
        ax.set_zorder(shares.get_zorder() + 1)
        ax.patch.set_visible(False)
        ticks = calendar_ticks(effect.axis, float(effect.points[0]), float(effect.points[-1]))
        if ticks:
            ax.set_xticks(*zip(*ticks, strict=True), **SLANTED)
    ax.set_title(shown_text(short_label(effect.name, 3 * LONGEST_LABEL)), fontsize=10)


def short_label(value: Any, most: int = LONGEST_LABEL) -> str:
    """Return a text of at most this many characters.

    >>> short_label("a very long category"), short_label("02134")
    ('a very long…', '02134')
    """
    text = str(value)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def shown_text(text: str) -> str:
    """Return a text that matplotlib shows as it is: between two dollars it would read a formula.

    >>> print(shown_text("$5 to $10"))
    \\$5 to \\$10
    """
    return text.replace("$", r"\$")


def point_labels(points: list[str], column: str, most: int = LONGEST_LABEL) -> list[str]:
    """Return the labels of the points of a column in a pair, given their names.

    Labels have at most `most` characters. Knots have up to four digits, and more if these do not distinguish all knots.

    >>> point_labels(["size~12.345678", "size~20", "size is missing"], "size"), point_labels(["zip=02134"], "zip")
    (['12.35', '20', 'missing'], ['02134'])
    >>> point_labels(["price~12345.678", "price~12346.9"], "price"), point_labels(["day~2024-01-31"], "day")
    (['12346', '12347'], ['2024-01-31'])
    """
    texts = [point.removeprefix(column) for point in points]
    knots = [number_in(text.removeprefix(HAT)) if text.startswith(HAT) else nan for text in texts]
    known = {knot for knot in knots if not isnan(knot)}
    digits = next((n for n in range(4, 17) if len({f"{knot:.{n}g}" for knot in known}) == len(known)), 17)
    return [
        short_label((text[1:] if text[:1] in ("=", HAT) else text).removeprefix(" is "), most)
        if isnan(knot)
        else f"{knot:.{digits}g}"
        for text, knot in zip(texts, knots, strict=True)
    ]


def number_in(text: str) -> float:
    """Return the number that a text has; nan for others, such as dates and times."""
    try:
        return float(text)
    except ValueError:
        return nan


def largest_value(effect: PairEffect, score: int) -> float:
    """Return the largest absolute value in the cells of a pair that have rows."""
    return float(np.max(np.abs(effect.values[score]), initial=0.0, where=effect.shares > 0.0))


def draw_pair(figure: Any, ax: Any, effect: PairEffect, score: int, largest: float) -> None:
    """Draw the cells of a pair of columns as a heat map; cells without rows are empty, and points left out.

    Colors have the same meaning in all pairs: `largest` is the largest absolute value of any.
    """
    across, up = (np.flatnonzero(effect.shares.sum(axis=axis) > 0.0) for axis in (1, 0))
    cells = np.ix_(across, up)
    values = np.where(effect.shares[cells] > 0.0, effect.values[score][cells], np.nan).T
    image = ax.imshow(values, origin="lower", aspect="auto", cmap="RdBu", vmin=-largest, vmax=largest)
    for bins, name, ticks in (
        ([effect.left_points[k] for k in across], effect.left, ax.set_xticks),
        ([effect.right_points[k] for k in up], effect.right, ax.set_yticks),
    ):
        places = range(0, len(bins), max(1, -(-len(bins) // MOST_TICKS)))
        labels = point_labels(bins, name)
        ticks(
            list(places),
            [shown_text(labels[k]) for k in places],
            **(SLANTED if ticks == ax.set_xticks else SMALL_TEXT),
        )
    ax.set_title(shown_text(short_label(effect.name, 3 * LONGEST_LABEL)), fontsize=10)
    across_title, up_title = (shown_text(short_label(name, 2 * LONGEST_LABEL)) for name in (effect.left, effect.right))
    ax.set(xlabel=across_title, ylabel=up_title)
    figure.colorbar(image, ax=ax)
