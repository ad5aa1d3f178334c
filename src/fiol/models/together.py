"""Learners that went on from one, far from each other, become one again: rounds of parallel work, wherever rows are.

A round has two steps for whoever has some of its rows, and two for whoever directs it; between them go learners and a
few numbers. Rows stay where they are.

| who | does |
|---|---|
| each part | `part = learn_part(base, X, y)`: a copy of the base learns from its rows |
| the director | `together = Together(base, parts)`: what all know, features united by name |
| each part | `losses = losses_on_the_way(together.base, together.full, X, y)` |
| the director | `base = together.ended(sum of losses)`: one more exact step says how far all of it goes |

`fiol.engine.pooling` has the mathematics, `Learner.learn_parallel` does the same in threads of one machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fiol.components.row import Floats
from fiol.engine.ensemble import EnsembleEngine
from fiol.engine.merging import members_of
from fiol.engine.pooling import (
    SEARCH_ROWS,
    lanes_alone,
    losses_along,
    pool_of,
    pooled_means,
    scores_of_members,
    some_of,
    teach_stack,
)
from fiol.intake.intake import counted
from fiol.intake.targets import check_sample_weights
from fiol.intake.uniting import united
from fiol.learner import Learner, check_parts


class PartLearned(NamedTuple):
    """What one part of a round gives to whoever directs it."""

    learner: Learner
    shown: tuple[Any, Any, Any]  #: for the stack of an ensemble: scores of the base's members, targets, sample weights
    rows: int
    loss: float  #: the sum of the losses of rows, each before it was learned from, times their sample weights


def learn_part(base: Learner, X: Any, y: Any, sample_weight: Any = None, parts: int = 1) -> PartLearned:
    """Learn from some rows, one of so many parts of a round, with a copy of the base.

    >>> part = learn_part(Learner(), [{"a": 1.0}, {"b": 1.0}], [1, -1])
    >>> part.learner.names, part.rows
    (['a', 'b'], 2)
    """
    return learn_pieces(base, [(X, y, sample_weight)], parts)


def learn_pieces(
    base: Learner, pieces: Iterable[tuple[Any, Any, Any]], parts: int = 1, rows: float | None = None
) -> PartLearned:
    """`learn_part` from rows that come piece by piece, each X, y and sample weights; about so many in all.

    Without that number, the first piece is taken for all.

    >>> part = learn_pieces(Learner(), [([{"a": 1.0}], [1], None), ([{"b": 1.0}], [-1], None)])
    >>> part.learner.names, part.rows
    (['a', 'b'], 2)
    """
    learner, known = base.copy(), [] if lanes_alone(base.engine) else members_of(base.engine)
    shown, seen, loss = list[tuple[Any, Any, Any]](), 0, 0.0
    for X, y, sample_weight in pieces:
        X, n = rows_there(X)
        weights = check_sample_weights(sample_weight, n)
        scores = learner.learn(X, y, weights)
        if not n:
            continue
        codes = targets_of(learner, y, n)
        rows = rows or n
        if isinstance(base.engine, EnsembleEngine):
            chosen, *beside = some_of((base._intake.read(X), codes, weights), SEARCH_ROWS // parts * (n / rows))
            shown.append((scores_of_members(base.engine, known, chosen), *beside))
        loss += learner.engine.mean_loss(scores, codes, weights) * float(weights.sum())
        seen += n
    nothing = np.empty((0, 0)), np.empty(0), np.empty(0)
    together: Any = tuple(map(np.concatenate, zip(*shown, strict=True))) if shown else nothing
    return PartLearned(learner, together, seen, loss)


def losses_on_the_way(
    base: Learner, full: Learner, X: Any, y: Any, sample_weight: Any = None, parts: int = 1
) -> Floats:
    """[member, point]: losses of a part's rows on the way from the base to the learner that goes all of it.

    Those of all parts add up.
    """
    X, rows = rows_there(X)
    weights = check_sample_weights(sample_weight, rows)
    given = base._intake.read(X), targets_of(base, y, rows), weights
    chosen = some_of(given, SEARCH_ROWS // parts)
    found = losses_along(base.engine, full.engine, *chosen, parts)
    return found * (rows / max(chosen[0].rows, 1))


def rows_there(X: Any) -> tuple[Any, int]:
    """X and its number of rows; TypeError for a generator, whose rows are gone when they are needed again."""
    X, rows = counted(X)
    if rows is None:
        raise TypeError("X must be rows that can be read twice, not a generator")
    return X, rows


def targets_of(learner: Learner, y: Any, rows: int | None) -> Any:
    """Targets as rounds take them: checked numbers, or the codes of labels that are known."""
    targets = learner._targets(y, rows)
    return learner.codes_of(targets) if learner.classes is not None else targets


class Together:
    """What learners know together that went on from copies of a base: see the module.

    >>> base = Learner()
    >>> score = base.learn_named({"a": 1.0}, 1)
    >>> rows = [([{"a": 1.0}, {"b": 1.0}], [1, -1]), ([{"c": -1.0}, {"a": 2.0}], [1, 1])]
    >>> parts = [learn_part(base, X, y, parts=2) for X, y in rows]
    >>> together = Together(base, parts)
    >>> losses = sum(losses_on_the_way(together.base, together.full, X, y, parts=2) for X, y in rows)
    >>> new = together.ended(losses)
    >>> new.rows, new.names
    (5, ['a', 'b', 'c'])
    """

    def __init__(self, base: Learner, parts: Sequence[PartLearned]) -> None:
        if not parts:
            raise ValueError("there must be at least one part")
        learners = [part.learner for part in parts]
        check_parts(Learner, learners, base)
        everyone = [base, *learners]
        intake, places = united(
            [one._intake for one in everyone], ["base", *(f"parts[{k}]" for k in range(len(parts)))]
        )
        engines = [one._placed(place, intake) for one, place in zip(everyone, places, strict=True)]
        centrings = [engine.centring for engine in engines]
        chosen = [() if one is None else tuple(one.features) for one in centrings]
        if len(set(chosen)) > 1:
            raise ValueError("parts have centred other columns than the base: let the base learn from more rows first")
        self._means = None if centrings[0] is None else pooled_means(centrings[0], centrings[1:])
        self._pool, self._parts = pool_of(engines[0], engines[1:]), parts
        #: The base, with the features of all; and the learner that goes all the way.
        self.base, self.full = base.with_engine(engines[0], intake), base.with_engine(self._pool.full(), intake)

    def ended(self, losses: Floats) -> Learner:
        """The learner that has learned from the rows of all parts, as far as losses say; it has their features."""
        engine, self.steps = self._pool.ended(losses, self._means)  #: how far each member went, from 0 to 1
        new = self.base.with_engine(engine, self.base._intake)
        shown = (np.concatenate(some) for some in zip(*(part.shown for part in self._parts if part.rows), strict=True))
        rows = sum(part.rows for part in self._parts)
        if rows:
            teach_stack(new.engine, rows, *shown)
        return new
