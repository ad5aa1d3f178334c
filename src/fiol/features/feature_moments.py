"""Sums over the values of some features, from which their standard deviations follow."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from fiol.components.row import Floats
from fiol.features.chunk import Chunk, kernel_array, loops, pieces


@dataclasses.dataclass
class FeatureMoments:
    """Number, sum and sum of squares of the values of some features, in differences from the first value of each.

    Sums are added up row by row, so that they do not depend on how rows are divided into chunks. A row without a
    feature has the value 0.

    >>> from fiol import to_chunk
    >>> moments = FeatureMoments.of_features(["year", "size"])
    >>> moments.add(to_chunk([[2011.0, 0.0], [2013.0, 6.0]]), np.array([0, 1]))
    >>> moments.means_and_deviations()
    (array([2012.,    3.]), array([1., 3.]))
    >>> FeatureMoments.from_json(moments.to_json()).means_and_deviations()
    (array([2012.,    3.]), array([1., 3.]))
    """

    names: list[Any]  #: of the features, or their numbers
    rows: int
    counts: Floats  #: of rows with a value other than 0
    first: Floats  #: the first value of each feature; 0 before
    sums: Floats  #: of values minus the first one
    squares: Floats  #: of the squares of these differences

    @classmethod
    def of_features(cls, names: list[Any]) -> FeatureMoments:
        """Return the moments of features before the first row."""
        return cls(list(names), 0, *(np.zeros(len(names)) for _ in range(4)))

    def include(self, names: list[Any]) -> None:
        """Add features that no row had so far."""
        self.names += names
        for field in ("counts", "first", "sums", "squares"):
            setattr(self, field, np.concatenate([getattr(self, field), np.zeros(len(names))]))

    def add(self, chunk: Chunk, places: Any) -> None:
        """Add rows, where `places[i]` is the position in `names` of the chunk's feature i, or -1."""
        self.rows += chunk.rows
        places, sums = kernel_array(places, np.int64), (self.counts, self.first, self.sums, self.squares)
        for some in pieces(chunk):
            loops().add_moments(some.indices, some.data, places, *sums)

    def means_and_deviations(self) -> tuple[Floats, Floats]:
        """Return mean and standard deviation of every feature over all rows."""
        rows, absent, first = max(self.rows, 1), self.rows - self.counts, self.first
        mean = (self.sums - absent * first) / rows
        variance = (self.squares + absent * first * first) / rows - mean * mean
        return first + mean, np.sqrt(np.maximum(variance, 0.0))

    def to_json(self) -> dict[str, Any]:
        """Return the moments as plain JSON."""
        arrays = {field: getattr(self, field).tolist() for field in ("counts", "first", "sums", "squares")}
        return {"names": list(self.names), "rows": self.rows, **arrays}

    @classmethod
    def from_json(cls, stored: Any) -> FeatureMoments:
        """Return the moments that `to_json` wrote; ValueError if they are anything else."""
        try:
            arrays = [np.array(stored[field], np.float64) for field in ("counts", "first", "sums", "squares")]
            names, rows = list(stored["names"]), stored["rows"]
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError("moments of features are not as fiol writes them") from error
        right = all(array.shape == (len(names),) and np.isfinite(array).all() for array in arrays)
        if not right or type(rows) is not int or rows < 0 or not all(type(name) in (str, int) for name in names):
            raise ValueError("moments of features are not as fiol writes them")
        return cls(names, rows, *arrays)
