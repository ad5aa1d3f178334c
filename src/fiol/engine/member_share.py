"""Some members of an ensemble that learn without the others, and without the stack: to the bit as they would with them.

A member's rounds depend on the rows alone, on the means taken from them, and on what the gate lets pass. So a share
takes the means itself, and has a gate of its own. Lanes stay lanes, also where there is but one of them: every lane is
computed by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fiol.components.row import Floats
from fiol.engine.engine import Engine
from fiol.engine.ensemble import EnsembleEngine
from fiol.engine.lane_group import LaneGroup
from fiol.engine.stack_state import T


class MemberShare(EnsembleEngine):
    """The engine of an ensemble with the members at these places only, and its gate; scores are 0.

    What they said of rows is in `said`: an array for every piece, [row, member], or [row, score, member].
    """

    # The kernel that makes the rounds of all has the stack's, too.
    all_in_lanes = lanes_behind_gate = False  # type: ignore[assignment]

    def __init__(self, whole: EnsembleEngine, places: Sequence[int]) -> None:
        vars(self).update(vars(whole.copy()))
        members = whole.members
        self.places, self.said = tuple(places), list[Floats]()
        there = {*places, *([whole.gate] if whole.gate >= 0 else [])}
        self.in_lanes = [k for k in whole.in_lanes if k in there]
        self.keep([members[k] for k in sorted(there)], sorted(there))

    def keep(self, engines: Sequence[Engine], places: Sequence[int]) -> None:
        """Have these members, at these places."""
        found = dict(zip(places, (engine.copy() for engine in engines), strict=True))
        together = [found[k] for k in self.in_lanes]
        with_ridge = self.group is not None and self.group.with_ridge  # as it is where all members are
        self.group = LaneGroup(together, with_ridge) if together else None
        if self.group is not None and not self.group.pack(together):
            raise ValueError("members that are lanes have learned from different rows")
        self.beside = {k: engine for k, engine in found.items() if k not in self.in_lanes}

    @property
    def members(self) -> list[Engine]:
        return EnsembleEngine.members.fget(self)  # type: ignore[attr-defined, no-any-return]

    @members.setter
    def members(self, engines: list[Engine]) -> None:
        self.keep(engines, sorted([*self.in_lanes, *self.beside]))

    def learn_stack(self, Z: Floats, y: Floats, sample_weights: Floats) -> Floats:
        self.said.append(Z[..., list(self.places)])
        self.ticks[T] += len(y)
        return np.zeros(Z.shape[:-1])

    def arrays(self) -> dict[str, Any]:
        """Those of its members, by the names that they have in the whole, and of the means."""
        named = zip(sorted([*self.in_lanes, *self.beside]), self.members, strict=True)
        own = {f"{k}/{name}": a for k, member in named if k in self.places for name, a in member.arrays().items()}
        return {**own, **self.centring_arrays()}
