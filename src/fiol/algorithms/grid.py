"""One update with several values of some of its numbers: the members of an ensemble."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from fiol.algorithms.ensemble import Ensemble
from fiol.algorithms.update import Update
from fiol.components.combiners import BestMember, Stack
from fiol.components.component import Component
from fiol.components.subproblem import expect

#: The default stack of `tuned`.
KEEP_BEST = BestMember()


def tuned(update: Update, grid: Mapping[str, Sequence[Any]], stack: Stack = KEEP_BEST) -> Ensemble:
    """Return an update with all values of a grid at once: one pass over the rows tries every one.

    `grid` has for names of fields, such as "lam" of `L1` or "size" of `AdaGrad`, the values to try; of several names,
    every combination is a member, the last one changing first. Where several parts of the update have a field of that
    name, give its path: "regularizer.lam", "step_size.step_size.size". The update's own values do not matter.

    What is predicted is what the member with the least progressive loss so far predicts, zeros of its weights
    included (`BestMember`); with `stack=NewtonStack()` it is the best combination of all, whose weights are 0
    only where those of all members are. `Learner.members` has the loss and the non-zeros of each, and
    `Learner.member()` is the best one alone.

    >>> from fiol import FIOL, L1, Learner, Logistic
    >>> learner = Learner(tuned(FIOL(Logistic(), L1(0.0)), {"lam": [1e-3, 1e-1, 10.0]}))
    >>> scores = learner.learn([[1.0, 0.1], [1.0, -0.1], [-1.0, 0.1], [-1.0, -0.1]] * 25, [1, 1, -1, -1] * 25)
    >>> [(member.update.regularizer.lam, member.nonzero, member.weight) for member in learner.members]
    [(0.001, 1, 1.0), (0.1, 1, 0.0), (10.0, 0, 0.0)]
    >>> tuned(FIOL(Logistic(), L1(0.1)), {"lamda": [1.0]})
    Traceback (most recent call last):
    ValueError: no part of the update has a field 'lamda': there are regularizer.lam, step_size.step_size.size, \
step_size.step_size.kappa, step_size.raw_penalty, step_size.centered
    """
    expect("update", update, Update)
    if not isinstance(grid, Mapping) or not grid:
        raise TypeError(f'grid must have values by name, such as {{"lam": [1e-4, 1e-3]}}, got {grid!r}')
    paths = [path_of(update, name) for name in grid]
    values = [values_of(name, some) for name, some in grid.items()]
    members = []
    for combination in product(*values):
        member = update
        for path, value in zip(paths, combination, strict=True):
            member = replaced(member, path, value)
        members.append(member)
    return Ensemble(members, stack)  # type: ignore[arg-type]


def values_of(name: str, values: Any, grid: str = "grid") -> list[Any]:
    """Return the values to try, one or more; `grid` is the name of the grid in errors."""
    try:
        found = list(values)
    except TypeError:
        raise TypeError(f"{grid}[{name!r}] must be a list of values, got {values!r}") from None
    if not found or isinstance(values, (str, bytes)):
        raise ValueError(f"{grid}[{name!r}] must be a list of values, got {values!r}")
    return found


def fields_in(component: Component, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Return the paths of all numbers in a component, and in the components inside it."""
    for field in dataclasses.fields(component):  # type: ignore[arg-type]
        value, inside = getattr(component, field.name), (*path, field.name)
        if isinstance(value, Component):
            yield from fields_in(value, inside)
        elif value is not None:
            yield inside


def path_of(update: Update, name: Any) -> tuple[str, ...]:
    """Return the path of the one field that a name, or the end of a path, stands for."""
    known, wanted = list(fields_in(update)), tuple(str(name).split("."))
    found = [path for path in known if path[-len(wanted) :] == wanted]
    if not found:
        there = ", ".join(map(".".join, known)) or "none"
        raise ValueError(f"no part of the update has a field {name!r}: there are {there}")
    exact = [path for path in found if path == wanted]
    if len(found) > 1 and not exact:
        raise ValueError(f"{name!r} may be {' or '.join(map('.'.join, found))}: give the whole path")
    return (exact or found)[0]


def replaced(component: Any, path: tuple[str, ...], value: Any) -> Any:
    """Return the component with another value at the end of a path."""
    name, *rest = path
    inner = replaced(getattr(component, name), tuple(rest), value) if rest else value
    return component.replace(**{name: inner})
