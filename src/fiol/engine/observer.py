"""`Observer`: what measures an engine between rounds."""

from __future__ import annotations

from typing import Any, Protocol

from fiol.components.row import Floats
from fiol.engine.centering import Centering
from fiol.features.chunk import Chunk


class Observer(Protocol):
    """Measures an engine between rounds (`fiol.regret.Ledger` is one), see `Engine.set_observer`.

    An observed engine allocates memory for a chunk and leaves the rounds to `observe`, which makes them one by one
    (`Engine.learn_plainly`) or by a kernel that contains the engine's own round.
    """

    def observe(self, chunk: Chunk, y: Floats, sample_weights: Floats) -> Floats:
        """Make a round per row, in order, and return the score of each row before its round.

        Whatever is raised, the measurements include the rounds that the engine's clock counts, and no others.
        """

    @property
    def row_cost(self) -> float:
        """The cost of observing a round besides the entries of its row, see `Engine.row_cost`."""

    def mark(self) -> Any:
        """Return a token for `rewind`."""

    def rewind(self, mark: Any) -> None:
        """Drop the measurements since `mark`: the engine has taken these rounds back."""

    def center(self, centering: Centering) -> None:
        """Center all following rows by these means, and targets by this origin."""
