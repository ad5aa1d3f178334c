"""One row of data beside the weights it touches: what a solver sees of the problem, and where it is worked on."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fiol.components.component import PerFeature

Floats = np.ndarray[Any, np.dtype[np.float64]]
Indices = np.ndarray[Any, np.dtype[np.int32]]
#: Many rows: where each starts and the last ends, feature of each entry, its value.
CSR = tuple["np.ndarray[Any, np.dtype[np.int64]]", Indices, Floats]


class Row(NamedTuple):
    """The touched coordinates of one round, contiguous and in the same order.

    The intercept is one more coordinate with x = 1 and no penalty, so it adds the line `lift` beta + `shift`.
    """

    feature: Indices  #: which feature each coordinate is
    x: Floats  #: its value
    center: Floats  #: where its step starts: the weight before the step, unless the anchor says otherwise
    steps: PerFeature  #: step size, one for all or one per coordinate
    y: float  #: target
    weight: float  #: sample weight: multiplies the loss
    rounds: float = 1.0  #: how many times the regularizer counts
    lift: float = 0.0  #: step size of the intercept, 0 without one
    shift: float = 0.0  #: where the intercept's step starts
    doubt: float = 0.0  #: how far the last digits may have moved the score of the weights before the round


class JointRow(NamedTuple):
    """A `Row` of many scores: centers and new weights are [place in the row, score], or `InPlace`."""

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
    space: Floats  #: as much space for them
    beta: Floats  #: where the pulls go
    doubt: float = 0.0
    unit: PerFeature = 1.0  #: the unit in which a penalty sees the weights of each feature, as a factor


class Desk(NamedTuple):
    """The desk that one row is worked on: arrays as long as the longest row, or longer, in whole blocks.

    The records of the row's features are read from the state once, side by side, so that loops over them vectorise.
    With many scores, weights are [place in the row, score], unless they are worked on in place (`InPlace`).
    """

    w: Any  #: its weights before the round
    center: Any  #: where their paths start
    new: Any  #: its weights after the round
    step: Floats  #: their steps
    before: Floats  #: 1 / step before the round
    passed: Floats  #: what the clock went on since the marks of its features
    kept: Any  #: what is kept of its weights, where these follow from it
    x: Floats  #: its values, where zeros are to follow them
    alike: Floats  #: zeros: feature 0 for every value, where features are treated alike
    statistics: Any  #: [statistic, place in the row]: the records of its features, first before, then after the round
    score: Any  #: with many scores, where those of the centers are,
    beta: Any  #: and the pulls; otherwise 0


def nth(feature: Indices, k: int) -> int:
    """The k-th feature of a row, in such a way that compiled loops know it does not count from the end."""
    return np.uint64(np.uint32(feature[k]))  # type: ignore[return-value]
