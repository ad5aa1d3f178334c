"""Rows as solvers take them, and the buffers in which a row is updated."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fiol.components.component import PerFeature

Floats = np.ndarray[Any, np.dtype[np.float64]]
Indices = np.ndarray[Any, np.dtype[np.int32]]
#: Rows as (indptr, indices, values).
CSR = tuple["np.ndarray[Any, np.dtype[np.int64]]", Indices, Floats]


class Row(NamedTuple):
    """The coordinates of one row, in contiguous arrays of the same order.

    The intercept is one more coordinate with x = 1 and no penalty, so it adds the line `lift` beta + `shift`.
    """

    feature: Indices  #: which feature each coordinate is
    x: Floats  #: its value
    center: Floats  #: where its step starts: the weight before the step, unless the anchor chooses another point
    steps: PerFeature  #: step size, one for all or one per coordinate
    y: float  #: target
    weight: float  #: sample weight: multiplies the loss
    rounds: float = 1.0  #: how many times the regularizer counts
    lift: float = 0.0  #: step size of the intercept, 0 without one
    shift: float = 0.0  #: where the intercept's step starts
    tolerance: float = 0.0  #: bound of the rounding error of the score before the round


class JointRow(NamedTuple):
    """A `Row` of many scores: centers and new weights are [position in the row, score], or `InPlace`."""

    feature: Indices
    x: Floats
    center: Any
    steps: PerFeature
    y: int
    weight: float
    rounds: float
    lift: float
    shift: Floats  #: one per score
    score: Floats  #: the scores where the steps start, intercepts included
    space: Floats  #: a buffer for as many scores
    beta: Floats  #: a buffer for the pulls
    tolerance: float = 0.0
    unit: PerFeature = 1.0  #: the factor of each feature's weights in the penalty


class RowBuffers(NamedTuple):
    """The arrays in which one row is updated, as long as the longest row or longer, in whole blocks.

    The records of the row's features are copied from the state once, next to each other, so that loops over them
    vectorize. With many scores, weights are [position in the row, score], unless they are updated in place (`InPlace`).
    """

    w: Any  #: the weights before the round
    center: Any  #: where their paths start
    new: Any  #: the weights after the round
    step: Floats  #: their step sizes
    before: Floats  #: 1 / step before the round
    elapsed: Floats  #: how far the clock has moved since each feature was last updated
    kept: Any  #: the stored values from which the weights are computed, where these are not the weights themselves
    x: Floats  #: the values of the row, where the layout pads them with zeros
    alike: Floats  #: zeros: feature 0 for every value, where all features are treated alike
    statistics: Any  #: [statistic, position in the row]: the features' records, before the round, then after it
    score: Any  #: with many scores, the scores of the centers; else 0
    beta: Any  #: with many scores, the pulls; else 0


def nth(feature: Indices, k: int) -> int:
    """Return the k-th feature of a row as an unsigned index: compiled loops then have no branch for negative ones."""
    return np.uint64(np.uint32(feature[k]))  # type: ignore[return-value]
