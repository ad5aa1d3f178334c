"""Hats and cells of rows by plain loops over a dense table of numbers, as a reference for `fiol.features.basis`."""

import itertools

import numpy as np


def knots_of_column(values, most):
    """Return knots, and whether they are the values of the column."""
    seen = sorted(set(values))
    if len(seen) <= most:
        return np.array(seen), True
    return np.unique(np.quantile(values, [k / most for k in range(most + 1)])), False


def bin_of(value, knots, few):
    """Return the nearest knot, or the interval."""
    if few:
        distances = [abs(value - knot) for knot in knots]
        return len(knots) - 1 - int(np.argmin(distances[::-1]))  # of two that are equally near, the upper one
    return min(max(sum(value >= knot for knot in knots) - 1, 0), len(knots) - 2)


def expanded(X, first, most=24):
    """Return a dense matrix: the columns, all hats, all cells of all pairs; knots are those of the first rows."""
    parts, slots = [X], []
    for column in X.T:
        if len(set(column[:first])) < 2:
            continue
        knots, few = knots_of_column(column[:first], most)
        if len(knots) > 2:
            hats = [np.interp(column, knots, unit) for unit in np.eye(len(knots))]
            parts.append(np.column_stack(hats))
        bins = len(knots) + 1 if few else len(knots)
        slots.append((np.array([bin_of(value, knots, few) for value in column]), bins))
    for (a, n), (b, m) in itertools.combinations(slots, 2):
        cells = np.zeros((len(X), n * m))
        cells[np.arange(len(X)), a * m + b] = 1.0
        parts.append(cells)
    return np.hstack(parts)
