"""The summary of a model: features by importance, as text and as HTML tables."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np

from fiol.components.component import Component
from fiol.components.row import Floats

#: The number of features in a summary.
SHOWN = 8


def by_importance(names: Sequence[Any] | None, sizes: Floats, most: int | None = None) -> dict[Any, float]:
    """Return the sizes that are not 0, by name or number, the largest in size first; at most `most` of them.

    >>> by_importance(["meters", "kilometers", "noise"], np.array([4500.0, -900.0, 0.0]))
    {'meters': 4500.0, 'kilometers': -900.0}
    """
    order = np.argsort(-np.abs(sizes), kind="stable")[: np.count_nonzero(sizes)][:most]
    return {int(i) if names is None else names[i]: float(sizes[i]) for i in order}


def root_mean_squares(largest: Floats, curvature: Floats, rows: float) -> Floats:
    """Return the root mean square of the values of every feature, from the curvature along its weight.

    The curvature is a sum of c x^2 over rows. `rows` is the sum of c, the curvature along the intercept. Without an
    intercept it is 0, and the sum is chosen so that no root mean square is beyond the largest value of its feature,
    which is infinite where it is not known.

    >>> root_mean_squares(np.array([1.0, 50.0]), np.array([400.0, 100.0]), 400.0)  # the second has one extreme value
    array([1. , 0.5])
    >>> root_mean_squares(np.array([1.0, 50.0]), np.array([400.0, 100.0]), 0.0)
    array([1. , 0.5])
    """
    roots = np.sqrt(np.clip(curvature, 0.0, np.finfo(float).max))
    if not 0.0 < rows < math.inf:
        seen = largest > 0.0
        rows = np.divide(roots, np.where(seen, largest, 1.0)).max(initial=0.0, where=seen) ** 2 or 1.0
    return np.minimum(roots / math.sqrt(rows), largest)


def brief_part(part: Any) -> str:
    """Return a component as its name and its fields that are not the default.

    >>> from fiol import AdaGrad, Logistic, ScaleFree
    >>> brief_part(ScaleFree(AdaGrad(30.0))), brief_part(Logistic())
    ('ScaleFree(AdaGrad(size=30))', 'Logistic()')
    """
    if not isinstance(part, Component):
        return f"{part:g}" if isinstance(part, float) else repr(part)
    fields = list[str]()
    for field in dataclasses.fields(part):  # type: ignore[arg-type]
        value = getattr(part, field.name)
        if field.default is dataclasses.MISSING or isinstance(value, Component):
            fields.append(brief_part(value))
        elif value is not field.default and value != field.default:
            fields.append(f"{field.name}={brief_part(value)}")
    return f"{type(part).__name__}({', '.join(fields)})"


def brief_member(update: Any) -> str:
    """Return one member of an ensemble as text, without the loss, which all share; or one level, an ensemble."""
    if hasattr(update, "members"):
        return "columns as they are" if update.basis is None else f"with{update.brief().partition(',')[2]}"
    fields = [field for field in dataclasses.fields(update) if field.name != "loss"]
    own = [getattr(update, field.name) for field in fields if getattr(update, field.name) != field.default]
    return ", ".join(map(brief_part, own)) or brief_part(update.step_size)


class Summary(NamedTuple):
    """Facts about a model, its members and its most important features."""

    title: str
    facts: Mapping[str, Any]
    members: Sequence[Any]  #: `fiol.engine.ensemble.engine.Member`s, none unless the model is an ensemble
    top: Mapping[str | int, float]  #: the most important features: see `by_importance`

    def text(self) -> str:
        """Return lines for a terminal.

        >>> print(Summary("Learner", {"rounds": 3}, [], {"age": -0.25}).text())
        Learner
          rounds:  3
        features that matter most, weight times standard deviation
          age  -0.25
        """
        lines = [self.title, *columns([(f"{name}:", shown(value)) for name, value in self.facts.items()], "<")]
        if self.members:
            lines.append("members: progressive loss, weight of the score, rounds in SIMD lanes or alone")
            lines += columns([(brief_member(member.update), *figures(member)) for member in self.members])
        if self.top:
            lines.append("features that matter most, weight times standard deviation")
            lines += columns([(str(name), f"{value:.4g}") for name, value in self.top.items()])
        return "\n".join(lines)

    def html(self) -> str:
        """Return HTML tables for notebooks.

        >>> Summary("Model", {"rounds": 3}, [], {}).html()
        '<table><caption>Model</caption><tr><th>rounds</th><td>3</td></tr></table>'
        """
        tables = [html_table(self.title, [(name, shown(value)) for name, value in self.facts.items()])]
        if self.members:
            members = [(brief_member(member.update), *figures(member)) for member in self.members]
            tables.append(
                html_table("Members: progressive loss, weight of the score, rounds in SIMD lanes or alone", members)
            )
        if self.top:
            top = [(str(name), f"{value:.4g}") for name, value in self.top.items()]
            tables.append(html_table("Features that matter most: weight times standard deviation", top))
        return "".join(tables)


def figures(member: Any) -> tuple[str, str, str]:
    """Return the progressive loss and the weight of a member of an ensemble, and how its rounds are made, as text."""
    weight = "overflowed" if member.overflowed else f"{member.weight:+.3f}"
    return f"{member.loss:.4g}", weight, "lanes" if member.in_lanes else "alone"


def shown(value: Any) -> str:
    """Return a value as text."""
    return f"{value:,}" if type(value) is int else f"{value:.4g}" if isinstance(value, float) else str(value)


def columns(rows: Sequence[Sequence[str]], others: str = ">") -> list[str]:
    """Return rows as aligned lines: the first column to the left, the others as `others` says, for each or for all.

    >>> columns([("a", "1.5"), ("long", "10")])
    ['  a     1.5', '  long   10']
    >>> columns([("a", "1.5", "x"), ("long", "10", "text")], "><")
    ['  a     1.5  x', '  long   10  text']
    """
    if not rows:
        return []
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = "<" + (others * (len(wide) - 1) if len(others) == 1 else others)
    return [
        "".join(f"  {cell:{side}{width}}" for cell, side, width in zip(row, sides, wide, strict=True)).rstrip()
        for row in rows
    ]


def html_table(title: str, rows: Sequence[Sequence[str]]) -> str:
    """Return an HTML table whose first column is a heading."""
    lines = (
        f"<tr><th>{escape(first)}</th>{''.join(f'<td>{escape(value)}</td>' for value in rest)}</tr>"
        for first, *rest in rows
    )
    return f"<table><caption>{escape(title)}</caption>{''.join(lines)}</table>"
