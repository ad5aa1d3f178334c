"""Curves and pairs of an exported model: knots, points and weights by column, for all formats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fiol.components.row import Floats
from fiol.features.basis_names import knots_of, points_of, slot_names
from fiol.features.column_roles import IS_CATEGORY, IS_MISSING, IS_NUMBER


class ExportedSlot(NamedTuple):
    """A column with knots or points; features are names, or numbers without names."""

    column: str
    points: int  #: the number of points, the last one for missing numbers or further categories
    knots: list[float]  #: empty for a category
    grid: list[float]  #: the knots that are points
    number: str | int | None  #: the feature that is the number of the column; None for a category
    missing: list[Any]  #: features that stand for a missing number
    codes: dict[Any, int]  #: the points of the values of a category, by feature
    curve: Floats | None  #: [score, knot] weights of hats
    period: float = 0.0  #: the number is taken as a part of this period, from 0 to 1; 0 if it is taken as it is


class ExportedPair(NamedTuple):
    """The nodes of two slots."""

    left: int
    right: int
    nodes: Floats  #: [score, point, point] weights


class ExportedBasis(NamedTuple):
    """The slots and pairs of a model.

    The last knot and point of a curve that closes have the weights of the first.
    """

    slots: list[ExportedSlot]
    pairs: list[ExportedPair]
    weights: Floats  #: [score, feature] of all features, hats and nodes included
    names: list[Any]  #: of all features

    def of_scores(self, chosen: Callable[[Floats], Floats]) -> ExportedBasis:
        """Return the basis of other scores: of an array with a row per score, `chosen` returns one with their rows."""
        slots = [one._replace(curve=None if one.curve is None else chosen(one.curve)) for one in self.slots]
        pairs = [one._replace(nodes=chosen(one.nodes)) for one in self.pairs]
        return ExportedBasis(slots, pairs, chosen(self.weights), self.names)


def exported_basis(core: Any, weights: Floats) -> ExportedBasis | None:
    """Return curves and pairs of a model, given all of its weights, [score, feature]; None if it has none."""
    engine = core.levels
    if engine is None or engine.basis is None:
        return None
    basis, roles, names = engine.basis, core.space.roles, core.space.names
    names = list(range(core.space.features)) if names is None else names
    of_feature, slots, start = basis.slots_of(roles), list[ExportedSlot](), int(basis.known[0])
    for s, column in enumerate(slot_names(basis, names, roles)):
        mine, period = np.flatnonzero(of_feature == of_feature[basis.member[s]]), float(basis.period[s])
        by_role = {role: mine[roles.role[mine] == role].tolist() for role in (IS_NUMBER, IS_CATEGORY, IS_MISSING)}
        numbers = [names[i] for i in by_role[IS_NUMBER]]
        codes = {names[i]: int(basis.codes[i]) for i in by_role[IS_CATEGORY] if i < len(basis.codes)}
        hats, curve = int(basis.hat_counts[s]), None
        if hats:
            curve, start = weights[:, start : start + hats], start + hats
            curve = np.hstack([curve, curve[:, :1]]) if period else curve
        knots, grid = knots_of(basis, s).tolist(), points_of(basis, s).tolist()
        missing = [names[i] for i in by_role[IS_MISSING]]
        number = numbers[0] if numbers else None
        points = int(basis.points[s]) + int(period > 0.0)
        slots.append(ExportedSlot(column, points, knots, grid, number, missing, codes, curve, period))
    pairs = list[ExportedPair]()
    for a, b in zip(basis.left.tolist(), basis.right.tolist(), strict=True):
        shape = int(basis.points[a]), int(basis.points[b])
        stop = start + shape[0] * shape[1]
        nodes = weights[:, start:stop].reshape(-1, *shape)
        pairs.append(ExportedPair(a, b, nodes[:, points_with_first(slots[a])][:, :, points_with_first(slots[b])]))
        start = stop
    return ExportedBasis(slots, pairs, weights, core.feature_names())


def points_with_first(slot: ExportedSlot) -> list[int]:
    """Return the points of a slot, with the first one again before that of missing values if its curve closes."""
    points = list(range(slot.points - int(slot.period > 0.0)))
    return [*points[:-1], 0, points[-1]] if slot.period else points


def nonzero_nodes(nodes: Floats) -> list[tuple[int, Floats]]:
    """Return the number of every node with a weight other than 0 within its pair, and its weights by score."""
    flat = nodes.reshape(len(nodes), -1)
    return [(k, flat[:, k]) for k in np.flatnonzero(flat.any(axis=0)).tolist()]
