"""The layout of a row in its buffers.

Loops over a row are made of instructions for several numbers at once, and what is left over at the end of a row is
done number by number, at several times the cost: a row of 15 took longer than one of 16. So rows end with zeros up
to a whole number of blocks. These belong to no feature: their values and weights are 0, which adds nothing to any sum.
"""

from __future__ import annotations

from typing import Any

from fiol.components.component import Component
from fiol.components.geometries import Geometry
from fiol.components.regularizers import Regularizer
from fiol.components.row import Floats, Indices, RowBuffers

#: Numbers in a block: as many doubles as the widest instructions take, and a cache line has.
ROW_BLOCK = 8


class Layout(Component):
    """The values of a row as the loops of a round see them, and the features as penalties do.

    A row's `feature` has its n entries, and loops over the state run over these; its values may have zeros behind them.
    """

    def values(self, x: Floats, buffers: RowBuffers) -> Any:
        """Return the values of a row, and prepare the buffers for it."""
        return x

    def features(self, feature: Indices, x: Floats, buffers: RowBuffers) -> Any:
        """Return the feature of each of these values."""
        return feature


class AsGiven(Layout):
    """Rows as they come."""


class InBlocks(Layout):
    """Rows with zeros behind them, where penalty and geometry treat all features alike: feature 0 stands for all.

    Weights and records of these zeros are 0, too, as those of a feature never seen.
    """

    def values(self, x: Floats, buffers: RowBuffers) -> Any:
        n = x.shape[0]
        entries = (n + ROW_BLOCK - 1) // ROW_BLOCK * ROW_BLOCK
        if n < entries:
            first = entries - ROW_BLOCK  # all of the block, which takes as long for every row
            clear(buffers.x, first)
            clear(buffers.w, first)
            clear(buffers.center, first)
            clear(buffers.kept, first)
            for j in range(buffers.statistics.shape[0]):
                clear(buffers.statistics[j], first)
        for k in range(n):
            buffers.x[k] = x[k]
        return buffers.x[:entries]

    def features(self, feature: Indices, x: Floats, buffers: RowBuffers) -> Any:
        return buffers.alike[: x.shape[0]]


def clear(values: Floats, first: int) -> None:
    """Write a block of zeros, from `first` on."""
    for k in range(ROW_BLOCK):
        values[first + k] = 0.0


def choose_layout(regularizer: Regularizer, geometry: Geometry, joint: bool) -> Layout:
    """Return the layout of rows for a penalty and a working geometry.

    >>> from fiol import L1, DiagonalMetric, Euclidean
    >>> choose_layout(L1(0.1), Euclidean(), False), choose_layout(L1([0.1, 0.2]), Euclidean(), False)
    (InBlocks(), AsGiven())
    """
    strengths = regularizer.strengths()
    alike = strengths is not None and all(isinstance(part, float) for part in strengths)
    return InBlocks() if alike and geometry.unit_metric and not joint else AsGiven()
