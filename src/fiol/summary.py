"""The summary of a model: features by importance, as text and as HTML tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np

from fiol.components.component import Component
from fiol.components.row import Floats

#: The number of features in a summary.
SHOWN = 8


def by_importance(
    names: Sequence[str | int] | None, weights: Floats, scales: Floats, most: int | None = None
) -> dict[str | int, float]:
    """Return weight times typical size of features whose weight is not 0, by name or number, the largest in size first.

    For weights [class, feature], the weight is the root mean square over classes. `most` limits the number of features.

    >>> by_importance(["meters", "kilometers", "noise"], np.array([0.5, 100.0, 0.0]), np.array([9000.0, 9.0, 1.0]))
    {'meters': 4500.0, 'kilometers': 900.0}
    """
    found = scales * (weights if weights.ndim == 1 else np.sqrt(np.mean(weights * weights, axis=0)))
    order = np.argsort(-np.abs(found), kind="stable")[: np.count_nonzero(found)][:most]
    return {int(i) if names is None else names[i]: float(found[i]) for i in order}


def deviations(means: Floats, mean_squares: Floats) -> Floats:
    """Return standard deviations; 0 where rounding makes a variance negative.

    >>> deviations(np.array([1.0, 3.0]), np.array([1.0, 13.0]))
    array([0., 2.])
    """
    return np.sqrt(np.maximum(mean_squares - means * means, 0.0))


def typical_sizes(largest: Floats, curvature: Floats) -> Floats:
    """Return the typical size of values of every feature, from its largest value and the curvature along its weight.

    The curvature is a sum of c x^2 over rows, so that its root is proportional to a root mean square. The common factor
    is chosen so that no size is beyond the largest value.

    >>> typical_sizes(np.array([1.0, 50.0]), np.array([400.0, 100.0]))  # the second has one extreme value
    array([1. , 0.5])
    """
    roots = np.sqrt(np.maximum(curvature, 0.0))
    seen = (largest > 0.0) & np.isfinite(roots)
    ratio = np.divide(roots, largest, out=np.zeros(len(largest)), where=seen)
    return largest * ratio / max(ratio.max(initial=0.0), np.finfo(float).tiny)


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
    """Return one member of an ensemble as text, without the loss, which all share."""
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
        features that matter most, weight times typical size
          age  -0.25
        """
        lines = [self.title, *columns([(f"{name}:", shown(value)) for name, value in self.facts.items()], "<")]
        if self.members:
            lines.append("members: progressive loss, weight of the score, rounds in SIMD lanes or alone")
            lines += columns([(brief_member(member.update), *figures(member)) for member in self.members])
        if self.top:
            lines.append("features that matter most, weight times typical size")
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
            tables.append(html_table("Features that matter most: weight times typical size", top))
        return "".join(tables)


def figures(member: Any) -> tuple[str, str, str]:
    """Return the progressive loss and the weight of a member of an ensemble, and how its rounds are made, as text."""
    weight = "overflowed" if member.overflowed else f"{member.weight:+.3f}"
    return f"{member.loss:.4g}", weight, "lanes" if member.in_lanes else "alone"


def shown(value: Any) -> str:
    """Return a value as text."""
    return f"{value:,}" if type(value) is int else f"{value:.4g}" if isinstance(value, float) else str(value)


def columns(rows: Sequence[Sequence[str]], others: str = ">") -> list[str]:
    """Return rows as aligned lines: the first column to the left, the others as the format `others` says.

    >>> columns([("a", "1.5"), ("long", "10")])
    ['  a     1.5', '  long   10']
    """
    if not rows:
        return []
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        f"  {first:<{wide[0]}}"
        + "".join(f"  {value:{others}{width}}" for value, width in zip(rest, wide[1:], strict=True))
        for first, *rest in rows
    ]


def html_table(title: str, rows: Sequence[Sequence[str]]) -> str:
    """Return an HTML table whose first column is a heading."""
    lines = (
        f"<tr><th>{escape(first)}</th>{''.join(f'<td>{escape(value)}</td>' for value in rest)}</tr>"
        for first, *rest in rows
    )
    return f"<table><caption>{escape(title)}</caption>{''.join(lines)}</table>"
