"""Which pairs of columns get surfaces, and which of these learn slowly, by how much they explain of what curves leave.

As in FAST (Lou et al. 2013): the values of every column are put into a few groups, and a pair is judged by the sums of
negative slopes of the loss in each of its cells, at the scores of the model with curves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fiol.components.row import Floats
from fiol.features.basis import ColumnBasis, part_of_period, values_of_columns
from fiol.features.chunk import Chunk
from fiol.features.column_roles import Roles

#: Groups of the values of a column, and one more for missing values.
GROUPS = 4
#: Rows that a cell has more than those that are there: rare cells count less.
MORE_ROWS = 5.0
#: Pairs that explain less than this, in standard deviations of what noise explains, learn slowly.
STRONG_PAIR = 1.0
#: With more columns than this, pairs are those of the columns that matter most by themselves.
MOST_JUDGED = 100


def negative_slopes(loss: Any, scores: Floats, y: Floats) -> Floats:
    """Return minus the derivative of the loss of each row by each of its scores, [row, score].

    >>> from fiol import Softmax, Squared
    >>> negative_slopes(Squared(), np.array([1.0, 3.0]), np.array([2.0, 0.0])).tolist()
    [[1.0], [-3.0]]
    >>> negative_slopes(Softmax(), np.zeros((1, 2)), np.array([1.0])).tolist()
    [[-0.5, 0.5]]
    """
    if scores.ndim == 1:
        return -np.array([[loss.grad(float(z), float(target))] for z, target in zip(scores, y, strict=True)])
    found = np.zeros(scores.shape)
    for z, target, out in zip(scores, y, found, strict=True):
        loss.duals(z, 0.0, int(target), out)
    return found


def group_of_values(numeric: bool, values: Floats, there: Any) -> Any:
    """Return the group of every row: quarters of numbers, or the most frequent values; the last for missing ones.

    >>> group_of_values(True, np.array([3.0, 1.0, 9.0, 4.0, 0.0]), np.array([1, 1, 1, 1, 0], bool)).tolist()
    [1, 0, 3, 2, 4]
    """
    groups = np.full(len(values), GROUPS)
    own = values[there]
    if not len(own):
        return groups
    different, counts = np.unique(own, return_counts=True)
    if len(different) <= GROUPS:
        groups[there] = np.searchsorted(different, own)
    elif numeric:
        edges = np.unique(np.quantile(own, np.arange(1, GROUPS) / GROUPS))
        groups[there] = np.searchsorted(edges, own, side="right")
    else:
        frequent = different[np.argsort(-counts, kind="stable")[: GROUPS - 1]]
        places = own[:, None] == frequent
        groups[there] = np.where(places.any(axis=1), places.argmax(axis=1), GROUPS - 1)
    return groups


def judged_pairs(
    basis: ColumnBasis, roles: Roles, chunk: Chunk, loss: Any, scores: Floats, y: Floats
) -> dict[tuple[int, int], float]:
    """Return what pairs of slots explain beyond noise, in standard deviations of what noise explains; the best first.

    Parameters
    ----------
    basis : its candidates may be chosen.
    roles : of the features of the rows.
    chunk : the rows by which pairs are judged.
    loss : of the model.
    scores : of the rows, by the model with curves.
    y : the targets of the rows.
    """
    columns, slots, groups = values_of_columns(chunk, roles), list[int](), list[Any]()
    for s in np.flatnonzero(basis.candidates).tolist():
        column = columns.get(int(roles.column[basis.member[s]]))
        if column is not None:
            numeric, values, there = column
            slots.append(s)
            groups.append(group_of_values(numeric, part_of_period(values, float(basis.period[s])), there))
    slopes = negative_slopes(loss, scores, y)
    if len(slots) > MOST_JUDGED:
        mean = np.broadcast_to(scores.mean(axis=0), scores.shape).copy()
        first_slopes = negative_slopes(loss, mean, y)
        own = [gain_of_groups(group, first_slopes) for group in groups]
        kept = np.sort(np.argsort(-np.array(own), kind="stable")[:MOST_JUDGED]).tolist()
        slots, groups = [slots[k] for k in kept], [groups[k] for k in kept]
    left, right = np.triu_indices(len(slots), 1)
    noise = max(float(np.mean(slopes**2, axis=0).sum()) * np.sqrt(2.0) * (GROUPS - 1), 1e-300)  # of (GROUPS - 1)^2 sums
    gains = gains_of_pairs(groups, slopes)[left, right] / noise
    order = np.argsort(-gains, kind="stable").tolist()
    return {(slots[left[k]], slots[right[k]]): float(gains[k]) for k in order}


def best_pairs(gains: dict[tuple[int, int], float]) -> list[tuple[int, int]]:
    """Return the pairs that explain more than noise would, at least as many as slots, given `judged_pairs`.

    >>> best_pairs({(0, 1): 2.0, (1, 2): 1.0, (0, 2): 0.5, (0, 3): 0.1, (2, 3): -1.0, (1, 3): -2.0})
    [(0, 1), (1, 2), (0, 2), (0, 3)]
    """
    slots = len({slot for pair in gains for slot in pair})
    return [pair for k, (pair, gain) in enumerate(gains.items()) if gain > 0.0 or k < slots]


def gain_of_groups(groups: Any, slopes: Floats) -> float:
    """Return what means of groups explain of slopes, beyond what they would explain of noise."""
    counts = np.bincount(groups, minlength=GROUPS + 1)
    sums = np.array([np.bincount(groups, own, minlength=GROUPS + 1) for own in slopes.T])
    parts = counts / (counts + MORE_ROWS)
    return float(np.sum(sums**2 / (counts + MORE_ROWS)) - np.mean(slopes**2, axis=0).sum() * parts.sum())


def gains_of_pairs(groups: Sequence[Any], slopes: Floats) -> Floats:
    """Return what the cells of every two columns explain of slopes beyond the means of both columns, and beyond noise.

    With n rows in a cell and sums S of slopes there, less what the means of its row and its column of cells give, this
    is the sum over cells of S^2 / (n + `MORE_ROWS`), less its mean if slopes were noise.
    """
    S, B = len(groups), GROUPS + 1
    codes = np.stack(groups, axis=1) if S else np.zeros((len(slopes), 0), np.int64)  # [row, column]
    places = codes + B * np.arange(S)

    def sums_by_group(weights: Any) -> Any:
        """Return sums of weights of rows by column and group."""
        each = None if weights is None else np.repeat(weights, S)
        return np.bincount(places.ravel(), each, S * B).reshape(S, B)

    def sums_by_cell(s: int, weights: Any) -> Any:
        """Return sums of weights of rows by group of column s, other column, and its group."""
        each = None if weights is None else np.repeat(weights, S)
        return np.bincount((codes[:, s, None] * (S * B) + places).ravel(), each, S * B * B).reshape(B, S, B)

    mass, gains = np.maximum(sums_by_group(None), 1.0), np.zeros((S, S))
    for g in slopes.T:
        means = sums_by_group(g) / mass
        for s in range(S):  # no products of matrices, whose threads take longer than the sums
            counts = sums_by_cell(s, None)
            sums = sums_by_cell(s, g) - counts * (means[s][:, None, None] + means - g.mean())
            noise = counts / (counts + MORE_ROWS) * np.mean(g * g)
            gains[s] += np.sum(sums**2 / (counts + MORE_ROWS) - noise, axis=(0, 2))
    return gains
