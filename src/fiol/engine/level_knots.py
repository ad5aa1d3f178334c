"""Levels with other knots: more of them where columns have moved, between the old ones, or those of several models."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fiol.components.row import Floats
from fiol.components.table_basis import TableBasis
from fiol.engine.ensemble.engine import EnsembleEngine
from fiol.features.basis import ColumnBasis
from fiol.features.basis_extension import (
    FRESH,
    Corners,
    Extension,
    SlotKnots,
    hat_corners,
    new_numbers,
    node_corners,
    refined_knots,
    slot_knots,
    with_knots,
)

#: The least unit of hats and nodes, whose values are up to 1: with 1, those that are small in all rows learn slowly.
KNOWN_SIZE = 0.25

#: The engine of every level.
Levels = tuple[EnsembleEngine, ...]


def with_known_sizes(levels: Sequence[EnsembleEngine], basis: ColumnBasis) -> Levels:
    """Return the levels, which know the size of hats and nodes from now on, before they are seen."""
    known = int(basis.known[0])
    for level, added in zip(levels, basis.added, strict=False):
        level.expect_values(slice(known, known + added), KNOWN_SIZE)
    return tuple(levels)


def extended(levels: Levels, basis: ColumnBasis, found: Extension) -> tuple[Levels, ColumnBasis]:
    """Return copies of levels with the features of an extended basis, and this basis with what they inherit."""
    features, new_levels = len(basis.codes), [levels[0]]
    for k, level in enumerate(levels[1:], 1):
        size, numbers = features + basis.added[k], new_numbers(basis, found, features, k)
        new = level.copy()
        new.grow(size + 1)  # the last has never been seen
        new.select(np.where(numbers == FRESH, size, numbers))
        new_levels.append(new)
    inherited = found.inherited(basis.inherited, stiffness_of_added(levels, basis))
    return with_known_sizes(new_levels, found.basis), found.basis._replace(inherited=inherited)


def stiffness_of_added(levels: Levels, basis: ColumnBasis) -> Floats:
    """Return the stiffness of all hats and nodes."""
    known, added = int(basis.known[0]), basis.added[len(levels) - 1]
    return levels[-1].stiffness(known + added)[known:]


def corners_at_knots(basis: ColumnBasis, slots: Sequence[SlotKnots]) -> tuple[Corners, Corners]:
    """Return the hats and the nodes of a basis that make those of other knots."""
    return hat_corners(basis, slots), node_corners(basis, slots)


def at_knots(
    levels: Levels, basis: ColumnBasis, slots: Sequence[SlotKnots], known_corners: tuple[Corners, Corners] | None = None
) -> tuple[Levels, ColumnBasis]:
    """Return levels where curves have the same values at all of these knots, and surfaces at all nodes; and the basis.

    If knots are added, curves stay as they are, and surfaces but for some of the triangles between new nodes. Records
    of steps are those of the nearest hats and nodes.
    """
    found = with_knots(basis, slots)
    if np.array_equal(found.basis.knots, basis.knots) and np.array_equal(found.basis.in_grid, basis.in_grid):
        return levels, basis
    new_levels, new_basis = extended(levels, basis, found)
    known, (hats, nodes) = int(basis.known[0]), known_corners or corners_at_knots(basis, slots)
    numbers = known + np.concatenate([hats.numbers, basis.hats + nodes.numbers])
    shares = np.concatenate([hats.shares, nodes.shares])
    sizes = zip(basis.added[1:], new_basis.added[1:], strict=True)
    for old, level, (before, added) in zip(levels[1:], new_levels[1:], sizes, strict=False):
        corners = np.minimum(numbers[:added], known + before - 1)  # columns without hats have shares of 0
        own = slice(known, known + added), corners, shares[:added]
        level.members_in_use.interpolate(old.members_in_use, *own)
    return new_levels, new_basis


def refined(options: TableBasis, levels: Levels, basis: ColumnBasis) -> tuple[Levels, ColumnBasis]:
    """Return levels and basis with knots between the old ones, and finer grids; as they are if these are too large."""
    slots, done = refined_knots(options, basis), np.ones(1, np.int32)
    if slots is None:
        return levels, basis._replace(refined=done)
    levels = (levels[0], *(level.copy() for level in levels[1:]))
    for level in levels[1:]:
        level.settle()
    corners = corners_at_knots(basis, slots)
    new_levels, new = at_knots(levels, basis, slots, corners)
    known = int(basis.known[0])
    own = basis.less_inherited(levels[-1].stiffness(known + basis.hats + basis.nodes))[known:]
    inherited = np.maximum(
        stiffness_of_added(new_levels, new) - stiffness_between(basis, slots, new, own, corners), 0.0
    )
    return new_levels, new._replace(refined=done, inherited=inherited)


def stiffness_between(
    basis: ColumnBasis, slots: Sequence[SlotKnots], new: ColumnBasis, own: Floats, corners: tuple[Corners, Corners]
) -> Floats:
    """Return the stiffness that hats and nodes of a refined basis would have from the rows so far, given the old one.

    The rows of two halves of an interval are as many.
    """
    halved = [len(slot.knots) > len(old.knots) for slot, old in zip(slots, slot_knots(basis), strict=True)]
    hats = np.repeat(np.where(halved, 0.5, 1.0), new.hat_counts)
    points = [
        np.append(np.full(n - 1, 0.5 if half else 1.0), 1.0)
        for n, half in zip(new.points.tolist(), halved, strict=True)
    ]
    pairs = zip(new.left.tolist(), new.right.tolist(), strict=True)
    nodes = np.concatenate([np.empty(0), *(np.outer(points[a], points[b]).ravel() for a, b in pairs)])

    def mixed(corners: Corners, values: Floats) -> Floats:
        return (
            np.sum(corners.shares * values[corners.numbers], axis=1) if len(values) else np.zeros(len(corners.numbers))
        )

    of_hats, of_nodes = np.split(own, [basis.hats])
    return np.concatenate([hats * mixed(corners[0], of_hats), nodes * mixed(corners[1], of_nodes)])
