"""Statistics of the features of the first rows, by which `fiol.engine.centering` decides what is centered."""

from __future__ import annotations

from typing import Any

import numpy as np

from fiol.components.row import Floats, Indices

#: After this many rows it is decided which features are centered.
WINDOW = 16
#: Only features in this fraction of them may be.
OFTEN_ENOUGH = 0.5
#: The columns of `Centering.seen`.
NUMBERS_SEEN = 8


def fewest_rows(rows: float) -> float:
    """Return in how many of the first `rows` rows a feature must be to be in enough of the window in the end."""
    return rows - (1.0 - OFTEN_ENOUGH) * max(rows, WINDOW)


def with_rows(
    seen: Floats, rows: float, more: int, numbers: Any, features: Indices, values: Floats, indicators: Indices
) -> Floats:
    """Return `Centering.seen` after `more` rows, given that after `rows` rows, whatever rows come at a time.

    A missing value counts as the mean of the values so far. Features that were in too few rows to be centered are
    dropped.

    Parameters
    ----------
    numbers, features, values : of the entries of the rows; rows are numbered from 0.
    indicators : see `Engine.indicators`.
    """
    names, columns = np.unique(np.concatenate([seen[:, 0], features]), return_inverse=True)
    counts = np.bincount(columns, np.append(seen[:, 1], np.ones(len(features))), minlength=len(names))
    likely = may_be_centered(names, counts.astype(np.float64), rows + more, indicators)  # integers if empty
    (known, columns), places = np.split(columns, [len(seen)]), np.cumsum(likely) - 1
    seen, known = seen[likely[known]], places[known[likely[known]]]
    numbers, values, columns = numbers[likely[columns]], values[likely[columns]], places[columns[likely[columns]]]
    names = names[likely]
    start = np.tile([0.0, 0.0, 0.0, np.inf, -np.inf, 0.0, 0.0, 0.0], (len(names), 1))
    start[known] = seen
    x, there = np.zeros((more + 1, len(names))), np.zeros((more, len(names)), bool)
    x[0], x[numbers + 1, columns], there[numbers, columns] = start[:, 5], values, True
    fill_with_means(x, there, names, start, indicators)
    before = rows + np.arange(more, dtype=np.float64)[:, None]  # rows before each
    totals = np.cumsum(np.vstack([start[:, 2], np.where(there, x[1:], 0.0)]), axis=0)
    steps = np.where(before > 0.0, x[1:] - x[:-1], 0.0)
    distance = x[1:] - totals[:-1] / np.maximum(before, 1.0)
    scatter = distance * distance * (before / (before + 1.0))
    low, high = (np.where(there, x[1:], sign * np.inf) for sign in (1.0, -1.0))
    numbers_seen = (
        names,
        start[:, 1] + np.count_nonzero(there, axis=0),
        totals[-1],
        np.minimum(start[:, 3], low.min(axis=0, initial=np.inf)),
        np.maximum(start[:, 4], high.max(axis=0, initial=-np.inf)),
        x[-1],
        np.cumsum(np.vstack([start[:, 6], steps * steps]), axis=0)[-1],
        np.cumsum(np.vstack([start[:, 7], scatter]), axis=0)[-1],
    )
    found = np.column_stack(numbers_seen)
    return found[found[:, 1] >= fewest_rows(rows + more)]  # type: ignore[no-any-return]


def places_of_indicators(names: Floats, indicators: Indices) -> tuple[Any, Any]:
    """Return the places of features among sorted names, and of the indicators of their missing values there."""
    numbered = np.flatnonzero(names < len(indicators))
    indicator = indicators[names[numbered].astype(np.int64)]
    place = np.searchsorted(names, indicator)
    found = (place < len(names)) & (names[np.minimum(place, len(names) - 1)] == indicator) if len(names) else place > 0
    return numbered[found], place[found]


def may_be_centered(names: Floats, counts: Floats, rows: float, indicators: Indices) -> Any:
    """Return which features are in enough of the first rows, given in how many each is, or indicate missing values."""
    column, indicator = places_of_indicators(names, indicators)
    counts[column] += counts[indicator]  # a missing value counts as one
    counts[indicator] = np.inf
    return counts >= fewest_rows(rows)


def fill_with_means(x: Floats, there: Floats, names: Floats, start: Floats, indicators: Indices) -> None:
    """Write the mean of the values so far where a row has the indicator of a missing value."""
    for column, indicated in zip(*places_of_indicators(names, indicators), strict=True):
        count, total = start[column, 1], start[column, 2]
        for r in range(len(there)):
            if not there[r, column] and there[r, indicated] and count > 0.0:
                x[r + 1, column], there[r, column] = total / count, True
            count, total = count + there[r, column], total + x[r + 1, column]


def memory_after(rows: float, entries: int) -> Floats:
    """Return memory in which the fast path notes this many entries of rows after the first `rows`.

    The first line has the number of rows before, and the number of entries noted; others have the number of a row, from
    1, a feature and its value.
    """
    first = np.zeros((entries + 1, 3))
    first[0, 0] = rows
    return first


def with_noted_rows(seen: Floats, first: Floats, rows: float) -> Floats:
    """Return `Centering.seen` after `rows` rows, given that after the rows before those that are noted in `first`."""
    if len(first) == 1:  # no memory
        return seen
    before, noted = first[0, 0], first[1 : int(first[0, 1]) + 1]
    numbers, features = (noted[:, 0] - before - 1.0).astype(np.int64), noted[:, 1].astype(np.int32)
    more = int(min(rows, WINDOW) - before)
    return with_rows(seen, before, more, numbers, features, noted[:, 2], np.empty(0, np.int32))
