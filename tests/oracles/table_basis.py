"""Hats and nodes of rows by plain loops over a dense table of numbers, as a reference for `fiol.features.basis`."""

import itertools

import numpy as np


def knots_of_column(values, most):
    """Return knots, and whether they are the values of the column."""
    seen = sorted(set(values))
    if len(seen) <= most:
        return np.array(seen), True
    return np.unique(np.quantile(values, [k / most for k in range(most + 1)])), False


def points_of(knots, few, intervals):
    """Return the points of a grid: all knots that are values, or the first, the last and some between them."""
    if few or len(knots) <= intervals + 1:
        return knots
    return np.array([knots[round((len(knots) - 1) * k / intervals)] for k in range(intervals + 1)])


def node_values(x, z, a, b):
    """Return what a node at grid points (a, b) adds at (x, z): the tent of a plane that is 1 there, 0 at its neighbors.

    `x` and `z` are positions in units of the grid; intervals are split by the diagonal from (0, 0) to (1, 1).
    """
    u, v = x - a, z - b
    return max(0.0, 1.0 - max(abs(u), abs(v), abs(u - v)))


def expanded(X, first, most=24, intervals=8):
    """Return a dense matrix: the columns, all hats, all nodes of all pairs; knots are those of the first rows."""
    parts, slots = [X], []
    for column in X.T:
        if len(set(column[:first])) < 2:
            continue
        knots, few = knots_of_column(column[:first], most)
        if len(knots) > 2:
            hats = [np.interp(column, knots, unit) for unit in np.eye(len(knots))]
            parts.append(np.column_stack(hats))
        points = points_of(knots, few, intervals)
        slots.append((np.interp(column, points, np.arange(len(points))), len(points)))
    for (x, n), (z, m) in itertools.combinations(slots, 2):
        nodes = np.zeros((len(X), n + 1, m + 1))  # the last ones are for missing values
        for r in range(len(X)):
            for a in (int(x[r]), int(x[r]) + 1):
                for b in (int(z[r]), int(z[r]) + 1):
                    value = node_values(x[r], z[r], a, b)
                    if value:
                        nodes[r, a, b] = value
        parts.append(nodes.reshape(len(X), -1))
    return np.hstack(parts)
