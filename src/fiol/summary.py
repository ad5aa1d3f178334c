"""What a model is, for people: its features by importance, and a short text or a table for notebooks."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np

from fiol.components.component import Component
from fiol.components.row import Floats

#: So many features are shown.
SHOWN = 8


def by_importance(
    names: Sequence[str | int] | None, weights: Floats, scales: Floats, most: int | None = None
) -> dict[str | int, float]:
    """Features whose weight is not 0, by name or else number: weight times scale, the largest in size first.

    Of weights [class, feature] it is the root of their mean square over classes. `most` is how many to return.

    >>> by_importance(["metres", "kilometres", "noise"], np.array([0.5, 100.0, 0.0]), np.array([9000.0, 9.0, 1.0]))
    {'metres': 4500.0, 'kilometres': 900.0}
    """
    found = scales * (weights if weights.ndim == 1 else np.sqrt(np.mean(weights * weights, axis=0)))
    order = np.argsort(-np.abs(found), kind="stable")[: np.count_nonzero(found)][:most]
    return {int(i) if names is None else names[i]: float(found[i]) for i in order}


def deviations(means: Floats, mean_squares: Floats) -> Floats:
    """Standard deviations; 0 where rounding leaves less.

    >>> deviations(np.array([1.0, 3.0]), np.array([1.0, 13.0]))
    array([0., 2.])
    """
    return np.sqrt(np.maximum(mean_squares - means * means, 0.0))


def brief_part(part: Any) -> str:
    """A component by its name and whatever is not the default.

    >>> from fiol import AdaGrad, Logistic, ScaleFree
    >>> brief_part(ScaleFree(AdaGrad(30.0))), brief_part(Logistic())
    ('ScaleFree(AdaGrad(size=30))', 'Logistic()')
    """
    if not isinstance(part, Component):
        return f"{part:g}" if isinstance(part, float) else repr(part)
    told = list[str]()
    for field in dataclasses.fields(part):  # type: ignore[arg-type]
        value = getattr(part, field.name)
        if field.default is dataclasses.MISSING or isinstance(value, Component):
            told.append(brief_part(value))
        elif value is not field.default and value != field.default:
            told.append(f"{field.name}={brief_part(value)}")
    return f"{type(part).__name__}({', '.join(told)})"


def brief_member(update: Any) -> str:
    """What one member of an ensemble has that is its own: everything but the loss, which all share."""
    fields = [field for field in dataclasses.fields(update) if field.name != "loss"]
    own = [getattr(update, field.name) for field in fields if getattr(update, field.name) != field.default]
    return ", ".join(map(brief_part, own)) or brief_part(update.step_size)


class Summary(NamedTuple):
    """A model in numbers and names."""

    title: str
    facts: Mapping[str, Any]
    members: Sequence[Any]  #: `fiol.engine.ensemble.Member`s, none unless the model is an ensemble
    top: Mapping[str | int, float]  #: the features that matter most: see `by_importance`

    def text(self) -> str:
        """A few lines for a terminal.

        >>> print(Summary("Learner", {"rounds": 3}, [], {"age": -0.25}).text())
        Learner
          rounds:  3
        features that matter most, weight times scale
          age  -0.25
        """
        lines = [self.title, *columns([(f"{name}:", shown(value)) for name, value in self.facts.items()], "<")]
        if self.members:
            lines.append("members: progressive loss, weight of the score")
            lines += columns([(brief_member(member.update), *figures(member)) for member in self.members])
        if self.top:
            lines.append("features that matter most, weight times scale")
            lines += columns([(str(name), f"{value:.4g}") for name, value in self.top.items()])
        return "\n".join(lines)

    def html(self) -> str:
        """Tables for notebooks.

        >>> Summary("Model", {"rounds": 3}, [], {}).html()
        '<table><caption>Model</caption><tr><th>rounds</th><td>3</td></tr></table>'
        """
        tables = [html_table(self.title, [(name, shown(value)) for name, value in self.facts.items()])]
        if self.members:
            members = [(brief_member(member.update), *figures(member)) for member in self.members]
            tables.append(html_table("Members: progressive loss, weight of the score", members))
        if self.top:
            top = [(str(name), f"{value:.4g}") for name, value in self.top.items()]
            tables.append(html_table("Features that matter most: weight times scale", top))
        return "".join(tables)


def figures(member: Any) -> tuple[str, str]:
    """Progressive loss and weight of a member of an ensemble."""
    return f"{member.loss:.4g}", "overflowed" if member.overflowed else f"{member.weight:+.3f}"


def shown(value: Any) -> str:
    """A value for people."""
    return f"{value:,}" if type(value) is int else f"{value:.4g}" if isinstance(value, float) else str(value)


def columns(rows: Sequence[Sequence[str]], others: str = ">") -> list[str]:
    """Rows as lines: the first column to the left, the others to the right of theirs, or where `others` says.

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
    """A small table, the first column a heading."""
    lines = (
        f"<tr><th>{escape(first)}</th>{''.join(f'<td>{escape(value)}</td>' for value in rest)}</tr>"
        for first, *rest in rows
    )
    return f"<table><caption>{escape(title)}</caption>{''.join(lines)}</table>"
