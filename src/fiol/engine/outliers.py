"""Rows without outliers, and the largest values of rows: for passes over rows that are known beforehand."""

from __future__ import annotations

import numpy as np

from fiol.components.row import Floats
from fiol.components.step_sizes.rule import OUTLYING
from fiol.engine.centering import Centering
from fiol.features.chunk import Chunk, loops, pieces

#: Values beyond the limit that are in more than this fraction of the rows, and in more than one, are no outliers.
RARE_OUTLIERS = 0.01


def cut_outliers(chunk: Chunk, largest: Floats, centering: Centering | None, among: Chunk | None = None) -> Chunk:
    """Return rows whose outliers are as far from the means of their features as the largest values so far.

    `largest` has the largest distance of every feature, 0 if it was never seen. A feature with many values beyond its
    limit was nearly constant in the rows that set it: its values stay as they are. They are counted in the rows
    `among` which these are.

    >>> rows = Chunk(np.array([0, 2]), np.array([0, 1], np.int32), np.array([-1e6, 7.0]))
    >>> cut_outliers(rows, np.array([3.0, 1.0]), None).data.tolist()
    [-3.0, 7.0]
    """
    means, sizes = np.zeros(len(largest)), np.where(largest > 0.0, largest, np.inf)
    if centering is not None:
        there = centering.features < len(largest)
        means[centering.features[there]] = centering.means[there]
    limits = OUTLYING * sizes
    if not any(loops().count_beyond(some.indices, some.data, means, limits) for some in pieces(chunk)):
        return chunk
    mean, known, data = means[chunk.indices], sizes[chunk.indices], chunk.data.copy()
    beyond = np.abs(data - mean) > OUTLYING * known
    all_rows = chunk if among is None else among
    known_to_all = all_rows.indices < len(means)
    feature, value = all_rows.indices[known_to_all], all_rows.data[known_to_all]
    counts = np.bincount(feature[np.abs(value - means[feature]) > limits[feature]], minlength=len(means))
    beyond &= (counts <= max(RARE_OUTLIERS * all_rows.rows, 1.0))[chunk.indices]
    data[beyond] = mean[beyond] + np.copysign(known[beyond], data[beyond] - mean[beyond])
    return chunk._replace(data=data)


def largest_values(chunk: Chunk) -> Floats:
    """Return the largest absolute value of every feature.

    >>> largest_values(Chunk(np.array([0, 2, 3]), np.array([0, 2, 0], np.int32), np.array([1.0, 7.0, -3.0]))).tolist()
    [3.0, 0.0, 7.0]
    """
    largest = np.zeros(int(chunk.indices.max(initial=-1)) + 1)
    np.maximum.at(largest, chunk.indices, np.abs(chunk.data))
    return largest
