"""What each column, and each pair of columns, adds to the score of a model with curves and pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fiol.components.row import Floats
from fiol.engine.levels_engine import LevelsEngine
from fiol.features.basis import CYCLES, ColumnBasis
from fiol.features.basis_names import HAT, knots_of, point_names, points_of, shown_knots, slot_names
from fiol.features.column_kinds import PART_VALUES
from fiol.features.column_roles import IS_CATEGORY, IS_NUMBER, Roles
from fiol.learner.calendar_ticks import shown_date

#: Pairs with less than this part of the size of the largest effect are not drawn.
WEAK_PAIR = 0.05


class ColumnEffect(NamedTuple):
    """What a column adds to scores at some of its values; its mean over rows is 0."""

    name: str
    points: Any  #: the knots of a column of numbers in the unit of its axis, or the categories as text
    numeric: bool
    values: Floats  #: [score, point]
    shares: Floats  #: [point] of the rows, estimated
    deviations: Floats  #: [point] standard deviation of the value that the rows so far leave
    axis: str = "number"  #: what points are: numbers, "date" (days since 2000), "yearday" or "time" (hours)

    @property
    def size(self) -> float:
        """The standard deviation of the effect over rows; the root mean square over classes."""
        return float(np.sqrt(np.mean(self.values**2 @ self.shares)))


def calendar_order(column: str, values: Sequence[str]) -> list[int]:
    """Return the places of values in the order of the calendar, others last; none if the column is no part of a date.

    >>> calendar_order("day.weekday", ["Wed", "missing", "Mon"]), calendar_order("city", ["Rome", "Oslo"])
    ([2, 0, 1], [])
    """
    place = {value: k for k, value in enumerate(PART_VALUES.get(column.rpartition(".")[2], ()))}
    if place.keys().isdisjoint(values):
        return []
    return sorted(range(len(values)), key=lambda k: place.get(values[k], len(place)))


def shown_categories(effect: ColumnEffect, most: int) -> list[int]:
    """Return the places of the categories of a column that are drawn: the largest effects first.

    Parts of a date are drawn in the order of the calendar.

    >>> values = np.array([[1.0, -3.0, 2.0]])
    >>> shown_categories(ColumnEffect("day.weekday", ["Wed", "Mon", "Tue"], False, values, None, None), 9)
    [1, 2, 0]
    >>> shown_categories(ColumnEffect("city", ["Rome", "Oslo", "Bonn"], False, values, None, None), 2)
    [1, 2]
    """
    return (
        calendar_order(effect.name, list(map(str, effect.points)))
        or np.argsort(-np.abs(effect.values).max(axis=0), kind="stable")[:most].tolist()
    )  # type: ignore[no-any-return]


class PairEffect(NamedTuple):
    """What a pair of columns adds to scores beyond the effects of both: means over each column are about 0."""

    left: str
    right: str
    left_points: list[str]
    right_points: list[str]
    values: Floats  #: [score, point, point]
    shares: Floats  #: [point, point] of the rows, estimated

    @property
    def name(self) -> str:
        """The names of both columns."""
        return f"{self.left} & {self.right}"

    @property
    def size(self) -> float:
        """The standard deviation of the effect over rows; the root mean square over classes."""
        return float(np.sqrt(np.mean(np.sum(self.values**2 * self.shares, axis=(1, 2)))))


class Effects(NamedTuple):
    """The effects of columns and of pairs, each the largest first."""

    columns: list[ColumnEffect]
    pairs: list[PairEffect]

    def shown_pairs(self, most: int) -> list[PairEffect]:
        """Return the pairs that are drawn: the largest, `most` of them, without those that are weak."""
        sizes = [column.size for column in self.columns[:1]] + [pair.size for pair in self.pairs[:1]]
        largest = max(sizes, default=0.0)
        return [pair for pair in self.pairs[:most] if pair.size > WEAK_PAIR * largest]


def effects_of(core: Any, squares: Any = None) -> Effects:
    """Return the effects of a model with curves; TypeError for any other, ValueError before knots are known.

    Shares of rows follow from the mean squares of hats and nodes: `squares` of all features, by default what step sizes
    store of the rows learned from. A hat that was added later has those of the rows since then. Where the nodes of a
    pair have a mean over one of its columns, the mean is counted as an effect of that column.
    """
    engine = core.levels
    if engine is None:
        raise TypeError('only a model with curves has effects: use features="auto"')
    if engine.basis is None:
        rows = int(engine.options.rows)
        raise ValueError(f"knots are found from the first {rows} rows, and there are {core.rows} so far")
    basis, roles = engine.basis, core.space.roles
    names = core.space.names
    names = list(range(core.space.features)) if names is None else names
    weights, squares = np.atleast_2d(core.weights()), core.root_mean_squares() ** 2 if squares is None else squares
    parts = Parts(basis, roles, names, weights, squares, hat_deviations(engine))
    means, pairs = pair_effects(parts) if engine.options.levels > 2 else ({}, [])
    columns = [column_effect(parts, s, means.get(s)) for s in range(len(basis.member))]
    return Effects(sorted(columns, key=lambda one: -one.size), sorted(pairs, key=lambda one: -one.size))


class Parts(NamedTuple):
    """What effects are made of."""

    basis: ColumnBasis
    roles: Roles
    names: Any
    weights: Floats  #: [score, feature]
    squares: Floats  #: [feature] mean squares
    deviations: Floats  #: [hat]

    @property
    def columns(self) -> list[str]:
        """The names of the columns of all slots."""
        return slot_names(self.basis, self.names, self.roles)


def hat_deviations(engine: LevelsEngine) -> Floats:
    """Return the standard deviation of the weight of every hat, by the curvature of the loss along it."""
    basis: Any = engine.basis
    known, level = int(basis.known[0]), engine.levels[1]
    stiffness = level.stiffness(known + basis.hats)[known:]
    unit = 1.0 if engine.plan.problem.loss.value_unit else 2.0 * engine.progressive_loss
    return np.sqrt(unit / np.maximum(stiffness, 1e-300))  # type: ignore[no-any-return]


def pair_effects(parts: Parts) -> tuple[dict[int, Floats], list[PairEffect]]:
    """Return the effects of all pairs, less their means over each column; and these means, [score, point] by slot."""
    basis, columns = parts.basis, parts.columns
    points, means, found = shown_points(parts), dict[int, Floats](), list[PairEffect]()
    start = int(basis.known[0]) + basis.hats
    for a, b in zip(basis.left.tolist(), basis.right.tolist(), strict=True):
        shape = int(basis.points[a]), int(basis.points[b])
        nodes = slice(start, start + shape[0] * shape[1])
        start = nodes.stop
        values = parts.weights[:, nodes].reshape(-1, *shape).copy()
        shares = shares_of_masses(parts.squares[nodes].reshape(shape))
        for slot, axis in ((a, 2), (b, 1)):
            mass = np.maximum(shares.sum(axis=axis - 1), 1e-300)
            mean = np.sum(values * shares, axis=axis) / mass
            values -= np.expand_dims(mean, axis)
            means[slot] = means.get(slot, 0.0) + mean
        values[:, shares == 0.0] = 0.0
        found.append(ordered_effect(PairEffect(columns[a], columns[b], points[a], points[b], values, shares)))
    return means, found


def ordered_effect(pair: PairEffect) -> PairEffect:
    """Return the effect of a pair with parts of dates in the order of the calendar.

    >>> pair = PairEffect("d.weekday", "b", ["d.weekday=Tue", "d.weekday=Mon"], ["b=1"], np.array([[[1.0], [2.0]]]), np.ones((2, 1)))
    >>> ordered_effect(pair).left_points, ordered_effect(pair).values.tolist()
    (['d.weekday=Mon', 'd.weekday=Tue'], [[[2.0], [1.0]]])
    """  # noqa: E501
    left, right = (
        calendar_order(column, [point.removeprefix(f"{column}=") for point in points]) or list(range(len(points)))
        for column, points in ((pair.left, pair.left_points), (pair.right, pair.right_points))
    )
    cells = np.ix_(left, right)
    return pair._replace(
        left_points=[pair.left_points[k] for k in left],
        right_points=[pair.right_points[k] for k in right],
        values=pair.values[:, cells[0], cells[1]],
        shares=pair.shares[cells],
    )


def shown_points(parts: Parts) -> list[list[str]]:
    """Return the names of the points of every slot, with dates instead of days since 2000."""
    found = point_names(parts.basis, parts.names, parts.roles)
    for s, column in enumerate(parts.columns):
        if axis_of_slot(parts, s) == "date" and parts.basis.numeric[s]:
            dates = [f"{column}{HAT}{shown_date(days)}" for days in points_of(parts.basis, s).tolist()]
            found[s] = [*dates, found[s][-1]]
    return found


def column_effect(parts: Parts, s: int, means: Floats | None) -> ColumnEffect:
    """Return the effect of a slot; `means` are those of its pairs, [score, point]."""
    basis, slots = parts.basis, parts.basis.slots_of(parts.roles)
    numbers = basis.numbers(parts.roles.size, 2 if len(basis.left) else 1)
    if not basis.numeric[s]:
        features = np.flatnonzero((slots == s) & (parts.roles.role == IS_CATEGORY))
        values = parts.weights[:, numbers[features]]
        if means is not None:
            values = values + means[:, basis.codes[features]]
        shares = shares_of_masses(parts.squares[numbers[features]])
        labels = [str(parts.names[i]).partition("=")[2] or "missing" for i in features.tolist()]
        found = labels, False, values, shares, np.zeros(len(features))
    else:
        found = numeric_effect(parts, s, numbers, means)  # type: ignore[assignment]
    points, numeric, values, shares, deviations = found
    values = values - (values @ shares)[:, None]
    return ColumnEffect(parts.columns[s], points, numeric, values, shares, deviations, axis_of_slot(parts, s))


def numeric_effect(
    parts: Parts, s: int, numbers: Any, means: Floats | None
) -> tuple[Any, bool, Floats, Floats, Floats]:
    """Return knots, True, and values, shares and deviations at the knots of a column of numbers, or of a period of it.

    `numbers` are those of the features as they are; `means` are those of its pairs, [score, point].
    """
    basis, slots = parts.basis, parts.basis.slots_of(parts.roles)
    knots, hats = knots_of(basis, s), int(basis.hat_counts[s])
    at_knots = np.arange(len(knots)) % max(hats, 1)  # the last knot of a curve that closes is the first
    values, shares = np.zeros((len(parts.weights), len(knots))), np.full(len(knots), 1.0 / len(knots))
    deviations = np.zeros(len(knots))
    for feature in np.flatnonzero((slots == s) & (parts.roles.role == IS_NUMBER)).tolist():
        values = parts.weights[:, numbers[feature], None] * knots * (basis.period[s] or 1.0)
    if hats:
        first = int(basis.hat_counts[:s].sum())
        own = int(basis.known[0]) + first + at_knots
        masses = parts.squares[own]
        if len(masses) > hats:  # rows near the first knot are near the last one as well
            masses[[0, -1]] *= 0.5
        values = values + parts.weights[:, own]
        shares, deviations = shares_of_masses(masses), parts.deviations[first + at_knots]
    if means is not None:
        at_points = means[:, :-1] if not basis.period[s] else np.hstack([means[:, :-1], means[:, :1]])
        values = values + np.array([np.interp(knots, points_of(basis, s), own) for own in at_points])
    return shown_knots(basis, s), True, values, shares, deviations


def axis_of_slot(parts: Parts, s: int) -> str:
    """Return what the points of a slot are: numbers, dates, days of the year, or times of day."""
    period = float(parts.basis.period[s])
    if period:
        return CYCLES[period].name
    return parts.roles.kinds.get(int(parts.roles.column[parts.basis.member[s]]), "number")


def shares_of_masses(masses: Floats) -> Floats:
    """Return masses divided by their sum; all equal if there are none."""
    total = masses.sum()
    return masses / total if total > 0.0 else np.full(masses.shape, 1.0 / max(masses.size, 1))
