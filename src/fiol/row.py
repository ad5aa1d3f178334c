"""One row of data beside the weights it touches: what a solver sees of the problem."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float64]]
Indices = np.ndarray[Any, np.dtype[np.int32]]


class Row(NamedTuple):
    """The touched coordinates of one round, contiguous and in the same order."""

    feature: Indices  #: which feature each coordinate is
    x: Floats  #: its value
    w: Floats  #: its weight before the step
    eta: float  #: step size
    y: float  #: target
    weight: float  #: sample weight: multiplies the loss
