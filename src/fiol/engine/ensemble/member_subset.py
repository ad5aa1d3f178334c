"""Engines with some members of an ensemble, which learn without the others and the stack, with the same bits.

The rounds of a member depend on the rows, the means subtracted from them, and the gate. So such an engine subtracts the
means itself, and has a copy of the gate. Members that share lanes in the ensemble are lanes here, too, even a single
one: every lane is computed by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fiol.components.row import Floats
from fiol.engine.ensemble.engine import EnsembleEngine
from fiol.engine.ensemble.members import Members
from fiol.engine.ensemble.stack_engine import Call, StackEngine
from fiol.engine.ensemble.stack_state import T


class ScoreRecorder(StackEngine):
    """Stands for the stack: records the scores of some members, and returns scores of 0."""

    def __init__(self, stack: StackEngine, places: Sequence[int]) -> None:
        self.first_state = stack.copy().state
        super().__init__(stack.stack, stack.loss, stack.members)
        #: The members whose scores are recorded.
        self.places = tuple(places)
        #: For every piece scores, [row, member] or [row, score, member], and targets; both less the origin.
        self.recorded: list[tuple[Floats, Floats]] = []

    def new_state(self) -> Any:
        return self.first_state

    def learn(self, call: Call, Z: Floats, y: Floats, sample_weights: Floats) -> Floats:
        self.recorded.append((Z[..., list(self.places)], y.copy()))
        self.ticks[T] += len(y)
        return np.zeros(Z.shape[:-1])

    def take_recorded(self) -> list[tuple[Floats, Floats]]:
        """Return the recorded scores and targets, and forget them."""
        found, self.recorded = self.recorded, []
        return found

    def with_state(self, state: Any) -> ScoreRecorder:
        """Return a recorder with these arrays and nothing recorded."""
        new = super().with_state(state)
        new.recorded = []
        return new

    def member_weights(self) -> Floats:
        return np.zeros(self.members)

    def merged_state(self, states: list[Any], share: Any, t: float) -> Any:
        raise NotImplementedError  # the stack itself is merged


def subset_engine(whole: EnsembleEngine, places: Sequence[int]) -> EnsembleEngine:
    """Return a copy of an ensemble's engine with the members at these places, its gate, and a recorder as `stack`."""
    new, members = whole.copy(), whole.members_in_use
    engines = dict(zip(members.places, whole.members, strict=True))
    there = sorted({*places, *([whole.gate] if whole.gate >= 0 else [])})
    lane_places = [k for k in members.in_lanes if k in there]
    with_ridge = members.group is not None and members.group.with_ridge
    subset = Members({k: engines[k].copy() for k in there}, lane_places, whole.gate, with_ridge)
    new.replace(members=subset, stack=ScoreRecorder(whole.stack, places))
    return new


def subset_arrays(arrays: dict[str, Any], places: Sequence[int]) -> dict[str, Any]:
    """Return the arrays of the members at these places, and of the means, among all arrays of an ensemble."""
    starts = (*(f"{k}/" for k in places), "centring.")
    return {name: array for name, array in arrays.items() if name.startswith(starts)}
