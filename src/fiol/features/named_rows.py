"""Rows whose features have names, as readers hand them over: a chunk with numbers of its own, and the name of each.

A reader numbers the names of a batch as they appear; the feature space of a model looks every name up once per batch.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fiol.features.chunk import Chunk
from fiol.features.max_features import renumbered
from fiol.features.vocabulary import Encoder


class NamedRows(NamedTuple):
    """Rows as CSR whose feature i is called `names[i]`, names numbered as they first appear.

    Values are not 0; a row's features may be in any order, and values of a feature that is there twice add up.

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
    names: list[str]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.chunk.rows

    def encoded(self, encoder: Encoder, grow: bool = True, unseen: int | None = None) -> Chunk:
        """The rows with the numbers that an encoder has for their names, canonical; see `Encoder.encode`."""
        return renumbered(self.chunk, encoder.numbers_of_names(self.names, grow, -1 if unseen is None else unseen))

    def part(self, start: int, stop: int) -> NamedRows:
        """Rows `start` to `stop`, as a slice has them, and the names that these have.

        >>> from fiol import NamedRows
        >>> rows = NamedRows(Chunk(np.array([0, 1, 2]), np.array([0, 1], np.int32), np.array([1.0, 2.0])), ["b", "a"])
        >>> rows.part(1, 2).names
        ['a']
        """
        block = self.chunk.row_block(start, stop)
        found, first, local = np.unique(block.indices, return_index=True, return_inverse=True)
        order = np.argsort(first)
        numbers = np.empty(len(found), np.int32)
        numbers[order] = np.arange(len(found), dtype=np.int32)
        return NamedRows(block._replace(indices=numbers[local]), [self.names[i] for i in found[order]])
