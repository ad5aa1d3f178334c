"""Small figures as SVG: curves with their names beside them, in colors of the page's style sheet.

A figure is as wide as its container; its unit is a pixel at a width of 460, so that text stays readable on a phone. All
text is escaped here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

PAGE_WIDTH, HEIGHT = 460.0, 270.0
#: Margins above, below and left of the curves; their names are on the right.
TOP, BOTTOM, LEFT = 12.0, 42.0, 52.0
#: Width of a letter, and least distance of two names.
LETTER_WIDTH, APART = 7.6, 14.0
#: Longest name.
LONGEST_NAME = 24


class DrawnCurve(NamedTuple):
    """A curve: its points, its name, and its kind, which selects a style of the page."""

    x: Sequence[float]
    y: Sequence[float]
    name: str = ""
    kind: str = "main"  #: "main", "other", "level" or "members"
    dots: Sequence[float] | None = None  #: the radius of a dot at every point; None draws a line


class Axis(NamedTuple):
    """A range of numbers from `low` to `high` with a title; `log` for a logarithmic scale."""

    title: str
    low: float
    high: float
    log: bool = False
    unit: str = ""  #: "%" shows 0.5 as 50 %
    labels: Sequence[tuple[float, str]] = ()  #: places and labels of ticks; without, they are round numbers

    def place(self, value: float) -> float:
        """Return the position of a value, from 0 to 1; values outside of the range are at its end.

        >>> Axis("rows", 1.0, 100.0, log=True).place(10.0), Axis("loss", 0.0, 2.0).place(5.0)
        (0.5, 1.0)
        """
        low, high = self.low, self.high
        if self.log:
            low, high, value = math.log(low), math.log(high), math.log(max(value, self.low))
        return min(max((value - low) / (high - low), 0.0), 1.0)

    def ticks(self) -> list[float]:
        """Return three to seven round numbers in the range.

        >>> Axis("loss", 0.41, 0.69).ticks(), Axis("rows", 1000.0, 40000.0, log=True).ticks()
        ([0.45, 0.5, 0.55, 0.6, 0.65], [1000.0, 2000.0, 5000.0, 10000.0, 20000.0])
        """
        if self.labels:
            return [place for place, _ in self.labels]
        if self.log:
            first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
            steps = (1, 2, 5) if last - first <= 2 else (1, 3) if last - first <= 3 else (1,)
            every = 1 + (last - first) // 7
            tens = range(first, last + 1, every)
            found = [digit * 10.0**k for k in tens for digit in steps]
            inside = [value for value in found if self.low * (1 - 1e-9) <= value <= self.high * (1 + 1e-9)]
            if len(inside) > 1:
                return inside
        rough = (self.high - self.low) / 5.0
        ten = 10.0 ** math.floor(math.log10(rough))
        step = min((ten * digit for digit in (1, 2, 2.5, 5, 10)), key=lambda step: abs(math.log(step / rough)))
        digits = max(0, 2 - math.floor(math.log10(step)))
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [round(step * k, digits) for k in range(first, last + 1)]

    def text(self, value: float) -> str:
        """Return the label of a tick."""
        if self.labels:
            return dict(self.labels)[value]
        return f"{100 * value:g} %" if self.unit == "%" else short_number(value)


def axis_for(title: str, values: Sequence[float], log: bool = False, zero: bool = False, unit: str = "") -> Axis:
    """Return an axis for these values, with a margin; from 0 on if `zero`.

    >>> axis_for("loss", [0.4, 0.5]).low < 0.4, axis_for("rows", [3.0], zero=True).low
    (True, 0.0)
    """
    low, high = min(values), max(values)
    if log:
        return Axis(title, low, high if high > low else 2.0 * low, True, unit)
    low = min(low, 0.0) if zero else low
    room = (high - low) * 0.06 or 0.1 * abs(high) or 1.0
    return Axis(title, low if zero and low >= 0.0 else low - room, high + room, False, unit)


def short_number(value: float) -> str:
    """Return a number in few characters.

    >>> [short_number(value) for value in (40000.0, 1500.0, 2.5e6, 0.25, 0.0, 1.5e-7)]
    ['40k', '1,500', '2.5M', '0.25', '0', '1.5e-07']
    """
    size = abs(value)
    if size >= 1e12 or (size and size < 1e-4):
        return f"{value:.3g}"
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if size >= (1e4 if letter == "k" else unit):
            return f"{value / unit:.4g}{letter}"
    return f"{value:,.0f}" if size >= 1000 else f"{value:.4g}"


def spread_labels(wanted: Sequence[float], apart: float, low: float, high: float) -> list[float]:
    """Return positions near those wanted, at least `apart` from each other and within the range if possible.

    >>> spread_labels([10.0, 11.0, 50.0], 4.0, 0.0, 100.0)
    [8.5, 12.5, 50.0]
    >>> spread_labels([99.0, 99.0], 10.0, 0.0, 100.0)
    [90.0, 100.0]
    """
    order = sorted(range(len(wanted)), key=lambda k: wanted[k])
    groups: list[list[int]] = []

    def start(group: list[int]) -> float:
        middle = sum(wanted[k] for k in group) / len(group)
        long = apart * (len(group) - 1)
        return max(min(middle - 0.5 * long, high - long), low)

    for k in order:
        groups.append([k])
        while len(groups) > 1 and start(groups[-2]) + apart * len(groups[-2]) > start(groups[-1]):
            last = groups.pop()
            groups[-1] += last
    found = [0.0] * len(wanted)
    for group in groups:
        for place, k in enumerate(group):
            found[k] = start(group) + apart * place
    return found


def shortened(text: str, most: int = LONGEST_NAME) -> str:
    """Return a text of at most this many letters.

    >>> shortened("a long name of a feature", 10)
    'a long na…'
    """
    return text if len(text) <= most else text[: most - 1] + "…"


class PlotArea(NamedTuple):
    """Layout of a figure: two axes, and the right end of the curves."""

    across: Axis
    up: Axis
    right: float

    @property
    def bottom(self) -> float:
        """The position of the lower axis."""
        return HEIGHT - BOTTOM

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return the position of a point."""
        across, up = self.across.place(x), self.up.place(y)
        return LEFT + across * (self.right - LEFT), self.bottom - up * (self.bottom - TOP)

    def drawn(self) -> list[str]:
        """Return grid, ticks and titles."""
        bottom, right, parts = self.bottom, self.right, list[str]()
        for tick in self.up.ticks():
            y = self.at(self.across.low, tick)[1]
            parts.append(f'<path class="grid" d="M{LEFT:g} {y:.1f}H{right:.1f}"/>')
            parts.append(drawn_text(self.up.text(tick), LEFT - 6.0, y + 4.0, anchor="end"))
        last = -math.inf
        for tick in self.across.ticks():
            x, half = self.at(tick, self.up.low)[0], 0.5 * LETTER_WIDTH * len(self.across.text(tick))
            if x - half < last + 6.0:
                continue  # there is no room for it
            last = x + half
            parts.append(f'<path class="grid" d="M{x:.1f} {bottom:g}v4"/>')
            parts.append(drawn_text(self.across.text(tick), x, bottom + 17.0))
        parts.append(f'<path class="axis" d="M{LEFT:g} {bottom:g}H{right:.1f}"/>')
        parts.append(drawn_text(self.across.title, 0.5 * (LEFT + right), HEIGHT - 6.0))
        if self.up.title:
            turned = f'transform="translate(11 {0.5 * (TOP + bottom):g}) rotate(-90)"'
            parts.append(f'<text class="tick" text-anchor="middle" {turned}>{escape(self.up.title)}</text>')
        return parts


def drawn_text(text: str, x: float, y: float, kind: str = "tick", anchor: str = "middle") -> str:
    """Return a text element."""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def svg(parts: Sequence[str], alt: str) -> str:
    """Return the elements as one picture; `alt` describes it."""
    head = f'<svg viewBox="0 0 {PAGE_WIDTH:g} {HEIGHT:g}" role="img" aria-label="{escape(alt)}">'
    return "".join([head, *parts, "</svg>"])


def figure(curves: Sequence[DrawnCurve], across: Axis, up: Axis, alt: str) -> str:
    """Return a figure of these curves, the first one on top, each with its name at its right end.

    >>> text = figure([DrawnCurve([1, 2], [3, 4], "<b>")], Axis("x", 1, 2), Axis("y", 3, 4), "rises")
    >>> text.startswith("<svg "), "&lt;b&gt;" in text, "<b>" in text
    (True, True, False)
    """
    longest = max((len(shortened(curve.name)) for curve in curves), default=0)
    frame = PlotArea(across, up, PAGE_WIDTH - (14.0 + LETTER_WIDTH * longest if longest else 22.0))
    parts, right = frame.drawn(), frame.right
    for curve in reversed(curves):
        points = [frame.at(x, y) for x, y in zip(curve.x, curve.y, strict=True) if math.isfinite(y)]
        if curve.dots is not None:
            dots = zip(points, curve.dots, strict=True)
            parts += [f'<circle class="{curve.kind}" cx="{x:.1f}" cy="{y:.1f}" r="{r:.1f}"/>' for (x, y), r in dots]
        elif points:
            line = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
            parts.append(f'<path class="curve {curve.kind}" d="M{line}"/>')
    named = [curve for curve in curves if curve.name and math.isfinite(curve.y[-1])]
    ends = [frame.at(curve.x[-1], curve.y[-1]) for curve in named]
    places = spread_labels([y for _, y in ends], APART, TOP + 2.0, frame.bottom - 2.0)
    for curve, (x, y), place in zip(named, ends, places, strict=True):
        if abs(place - y) > 3.0:
            parts.append(f'<path class="leader" d="M{x + 1:.1f} {y:.1f}L{right + 6:.1f} {place:.1f}"/>')
        parts.append(drawn_text(shortened(curve.name), right + 8.0, place + 4.0, f"name {curve.kind}", "start"))
    return svg(parts, alt)


def histogram(edges: Sequence[float], heights: Sequence[float], across: Axis, up: Axis, alt: str) -> str:
    """Return a histogram with these edges and heights.

    >>> histogram([0, 1, 2], [1, 3], Axis("x", 0, 2), Axis("share", 0, 3), "two columns").count("<rect")
    2
    """
    frame = PlotArea(across, up, PAGE_WIDTH - 22.0)
    parts = frame.drawn()
    for low, high, height in zip(edges, edges[1:], heights, strict=False):
        (x, y), (end, _) = frame.at(low, height), frame.at(high, height)
        place = f'x="{x + 0.5:.1f}" y="{y:.1f}" width="{max(end - x - 1.0, 0.5):.1f}"'
        parts.append(f'<rect class="main" {place} height="{frame.bottom - y:.1f}"/>')
    return svg(parts, alt)
