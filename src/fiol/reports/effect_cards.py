"""Cards with the curves of columns and the heat maps of pairs of a model with curves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

import numpy as np

from fiol.learner.calendar_ticks import calendar_ticks
from fiol.learner.effect_plots import point_labels
from fiol.learner.effects import ColumnEffect, PairEffect, effects_of, shown_categories
from fiol.reports.html import LONGEST_CELL, Card, bar_table
from fiol.reports.svg import (
    HEIGHT,
    LEFT,
    PAGE_WIDTH,
    TOP,
    Axis,
    DrawnCurve,
    PlotArea,
    axis_for,
    drawn_text,
    figure,
    shortened,
    svg,
)

#: Columns and pairs that are shown, and categories of a column.
COLUMNS_SHOWN, PAIRS_SHOWN, CATEGORIES_SHOWN = 6, 3, 12
#: The height of bars that show how many rows there are.
BAR_HEIGHT = 40.0
#: Cells with less than this share of rows are pale.
RARE_CELL = 1e-4


def effect_cards(learner: Any, unit: str, labels: Sequence[Any] | None) -> Iterator[Card]:
    """Yield cards of the largest effects of columns and pairs; none for a model without curves.

    `unit` is that of scores, and `labels` are those of the classes, if there are several scores.
    """
    levels = learner.core.levels
    if levels is None or levels.basis is None:
        return
    effects = effects_of(learner.core)
    for effect in effects.columns[:COLUMNS_SHOWN]:
        if effect.size > 0.0:
            yield column_effect_card(effect, unit, labels)
    if labels is None:
        for pair in effects.shown_pairs(PAIRS_SHOWN):
            yield pair_effect_card(pair, unit)


def column_effect_card(effect: ColumnEffect, unit: str, labels: Sequence[Any] | None) -> Card:
    """Return the card of one column: a curve, or bars of categories."""
    name, most = shortened(effect.name, LONGEST_CELL), float(np.ptp(effect.values))
    title = f"{name} moves the score by up to {most:.3g}"
    if not effect.numeric:
        order = shown_categories(effect, CATEGORIES_SHOWN)
        values = np.sqrt(np.mean(effect.values**2, axis=0)) if labels is not None else effect.values[0]
        body = bar_table([(str(effect.points[k]), float(values[k])) for k in order])
        how = "Root mean square over classes. " if labels is not None else ""
        return Card(title, body, f"{how}What each value adds to the score, in {unit}; the mean over rows is 0.")
    if labels is not None:
        named = zip(labels, effect.values, strict=True)
        curves = [DrawnCurve(effect.points, own.tolist(), str(label), "other") for label, own in named]
        up = axis_for(unit, effect.values.ravel().tolist())
        picture = figure(curves, axis_of(effect), up, title)
        return Card(title, picture, "What the column adds to the score of each class; the mean over rows is 0.")
    remark = f"What the column adds to the score, in {unit}; the mean over rows is 0. Band: two standard deviations."
    return Card(title, curve_picture(effect, unit, title), remark + " Bars: how many rows.")


def axis_of(effect: ColumnEffect) -> Axis:
    """Return the axis from the first to the last knot of a column."""
    low, high = float(effect.points[0]), float(effect.points[-1])
    return Axis(shortened(effect.name), low, high, labels=calendar_ticks(effect.axis, low, high))


def curve_picture(effect: ColumnEffect, unit: str, alt: str) -> str:
    """Return a curve with its band, and bars with the shares of rows below."""
    values, deviations = effect.values[0], np.minimum(effect.deviations, 10.0 * effect.size)
    low, high = values - 2.0 * deviations, values + 2.0 * deviations
    area = PlotArea(axis_of(effect), axis_for(unit, [*low.tolist(), *high.tolist()]), PAGE_WIDTH - 22.0)
    band = [area.at(x, y) for x, y in zip(effect.points, high, strict=True)]
    band += [area.at(x, y) for x, y in zip(effect.points[::-1], low[::-1], strict=True)]
    line = [area.at(x, y) for x, y in zip(effect.points, values, strict=True)]
    bars = share_bars(area, effect)
    outline = "L".join(f"{x:.1f} {y:.1f}" for x, y in band)
    curve = "L".join(f"{x:.1f} {y:.1f}" for x, y in line)
    drawn = [f'<path class="band" d="M{outline}Z"/>', f'<path class="curve main" d="M{curve}"/>']
    return svg([*bars, *area.drawn(), *drawn], alt)


def share_bars(area: PlotArea, effect: ColumnEffect) -> list[str]:
    """Return bars with the share of rows near every knot, per length, at the bottom of a picture."""
    points = np.asarray(effect.points)
    middles = np.concatenate([points[:1], 0.5 * (points[1:] + points[:-1]), points[-1:]])
    density = effect.shares / np.maximum(np.diff(middles), 1e-300)
    heights, parts = BAR_HEIGHT * density / max(density.max(), 1e-300), list[str]()
    for low, high, height in zip(middles, middles[1:], heights, strict=False):
        (x, _), (end, _) = area.at(low, area.up.low), area.at(high, area.up.low)
        place = f'x="{x:.1f}" y="{area.bottom - height:.1f}" width="{max(end - x, 0.5):.1f}" height="{height:.1f}"'
        parts.append(f'<rect class="rows" {place}/>')
    return parts


def pair_effect_card(effect: PairEffect, unit: str) -> Card:
    """Return the card of a pair of columns: a heat map of its cells."""
    most = float(np.abs(effect.values).max())
    title = f"{shortened(effect.left)} and {shortened(effect.right)} together: up to {most:.3g} more or less"
    remark = f"What each cell adds to the effects of both columns, in {unit}; blue adds, orange takes away."
    return Card(title, heat_map(effect, title), f"{remark} Cells without rows are empty.")


def heat_map(effect: PairEffect, alt: str) -> str:
    """Return a heat map with the left column across and the right one up; bins that no row has are left out.

    >>> cells = PairEffect("a", "b", ["a=1", "a=2"], ["b=1", "b=2"], np.array([[[1.0, -1.0], [0.0, 2.0]]]), np.full((2, 2), 0.25))
    >>> heat_map(cells, "two columns").count("<rect")
    4
    """  # noqa: E501
    rows, columns = effect.shares.sum(axis=0) > 0.0, effect.shares.sum(axis=1) > 0.0
    values, shares = effect.values[0][np.ix_(columns, rows)], effect.shares[np.ix_(columns, rows)]
    across = [name for name, there in zip(effect.left_points, columns, strict=True) if there]
    up = [name for name, there in zip(effect.right_points, rows, strict=True) if there]
    left, bottom = LEFT + 60.0, HEIGHT - 42.0
    wide, high = (PAGE_WIDTH - 14.0 - left) / len(across), (bottom - TOP) / len(up)
    largest, parts = max(float(np.abs(values).max()), 1e-300), list[str]()
    for i, j in np.argwhere(shares > 0.0).tolist():
        value, pale = float(values[i, j]), 1.0 if shares[i, j] >= RARE_CELL else 0.5
        kind, x, y = ("plus" if value >= 0.0 else "minus"), left + i * wide, bottom - (j + 1) * high
        style = f'fill-opacity="{pale * (0.06 + 0.94 * abs(value) / largest):.2f}"'
        about = f"<title>{escape(across[i])}, {escape(up[j])}: {value:+.3g}</title>"
        place = f'x="{x:.1f}" y="{y:.1f}" width="{wide:.2f}" height="{high:.2f}"'
        parts.append(f'<rect class="{kind}" {place} {style}>{about}</rect>')
    below, beside = point_labels(across, effect.left, 10), point_labels(up, effect.right, 10)
    for i in spaced(len(across), 5):
        parts.append(drawn_text(below[i], left + (i + 0.5) * wide, bottom + 15.0))
    for j in spaced(len(up), 8):
        parts.append(drawn_text(beside[j], left - 6.0, bottom - (j + 0.5) * high + 4.0, anchor="end"))
    parts.append(drawn_text(shortened(effect.left), 0.5 * (left + PAGE_WIDTH), HEIGHT - 8.0))
    turned = f'transform="translate(11 {0.5 * (TOP + bottom):g}) rotate(-90)"'
    parts.append(f'<text class="tick" text-anchor="middle" {turned}>{escape(shortened(effect.right))}</text>')
    return svg(parts, alt)


def spaced(count: int, most: int) -> range:
    """Return at most `most` numbers below `count`, evenly spaced.

    >>> list(spaced(24, 5)), list(spaced(3, 5))
    ([0, 5, 10, 15, 20], [0, 1, 2])
    """
    return range(0, count, max(1, -(-count // most)))
