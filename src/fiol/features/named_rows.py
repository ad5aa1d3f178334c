"""`NamedRows`: a chunk of a reader with its own feature numbers, and the name of each feature.

A reader numbers the names of a batch as they appear; the feature space of a model looks every name up once per batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fiol.features.chunk import Chunk
from fiol.features.max_features import renumbered
from fiol.features.product_names import ProductNames
from fiol.features.vocabulary import Encoder


class NamedRows(NamedTuple):
    """Rows as CSR whose feature i has the name `names[i]`, numbered as names first appear.

    Values are not 0. The features of a row may be in any order, and values of a feature that occurs twice add up.

    >>> import fiol
    >>> from fiol import Chunk, NamedRows
    >>> entries = np.array([0, 1, 0], np.int32), np.array([1.0, 2.0, 3.0])
    >>> rows = NamedRows(Chunk(np.array([0, 2, 3]), *entries), ["b", "a"])
    >>> learner = fiol.Learner(fiol.FIOL(fiol.Squared()))
    >>> learner.learn(rows, [1.0, 0.0]).shape, learner.names
    ((2,), ['b', 'a'])
    >>> again = fiol.Learner(fiol.FIOL(fiol.Squared()))
    >>> scores = again.learn([{"b": 1.0, "a": 2.0}, {"b": 3.0}], [1.0, 0.0])
    >>> again.weights.tobytes() == learner.weights.tobytes()
    True
    """

    chunk: Chunk
    names: Sequence[str]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.chunk.rows

    def encoded(self, encoder: Encoder, grow: bool = True, unseen: int | None = None) -> Chunk:
        """Return the rows as a canonical chunk with the numbers of an encoder; see `Encoder.encode`."""
        return renumbered(self.chunk, encoder.numbers_of_names(self.names, grow, -1 if unseen is None else unseen))

    def part(self, start: int, stop: int) -> NamedRows:
        """Return rows `start` to `stop`, as a slice, with the names that occur in them.

        >>> from fiol import NamedRows
        >>> rows = NamedRows(Chunk(np.array([0, 1, 2]), np.array([0, 1], np.int32), np.array([1.0, 2.0])), ["b", "a"])
        >>> rows.part(1, 2).names
        ['a']
        """
        return number_by_appearance(self.chunk.row_block(start, stop), self.names)[0]


def number_by_appearance(chunk: Chunk, names: Sequence[str]) -> tuple[NamedRows, Any]:
    """Return rows with the names that occur in them, numbered as they first appear, and the old number of each."""
    first = np.full(len(names), -1, np.int64)
    first[chunk.indices[::-1]] = np.arange(len(chunk.indices))[::-1]  # the first entry of a name is written last
    order = np.flatnonzero(first >= 0)
    order = order[np.argsort(first[order])]
    numbers = np.empty(len(names), np.int32)
    numbers[order] = np.arange(len(order))
    left = names.take(order) if isinstance(names, ProductNames) else [names[i] for i in order.tolist()]
    return NamedRows(chunk._replace(indices=numbers[chunk.indices]), left), order
