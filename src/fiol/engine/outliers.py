"""Rows without outliers, and the largest values of rows: for passes over rows that are known beforehand."""

from __future__ import annotations

import numpy as np

from fiol.components.row import Floats
from fiol.components.step_sizes.rule import OUTLYING
from fiol.engine.centering import Centering
from fiol.features.chunk import Chunk, loops, pieces


def cut_outliers(chunk: Chunk, largest: Floats, centering: Centering | None) -> Chunk:
    """Return rows whose outliers are as far from the means of their features as the largest values so far.

    `largest` has the largest distance of every feature, 0 if it was never seen.

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
