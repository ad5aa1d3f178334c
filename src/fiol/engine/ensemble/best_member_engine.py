"""`BestMemberEngine`: rounds of `fiol.components.combiners.BestMember`, the member with the least loss so far."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from fiol.components.row import Floats
from fiol.engine.ensemble.stack_engine import Call, StackEngine, mean_of_arrays
from fiol.engine.ensemble.stack_state import TICKS, ChoiceState, T


class BestMemberEngine(StackEngine):
    """The member with the least loss so far has weight 1."""

    def new_state(self) -> ChoiceState:
        return ChoiceState(np.ones(self.members), np.zeros(self.members + 1), np.zeros(TICKS))

    def learn(self, call: Call, Z: Floats, y: Floats, sample_weights: Floats) -> Floats:
        from fiol.engine.ensemble.best_member import choice_rows  # imported here: `import fiol` loads no compiler

        scores = np.zeros(Z.shape[:-1])
        call(choice_rows, self.loss, Z, y, sample_weights, self.own_state, scores)
        return scores

    def member_weights(self) -> Floats:
        losses = np.where(self.state.live > 0.0, self.state.losses[1:], inf)
        v = np.zeros(len(losses))
        if np.isfinite(losses).any():
            v[losses.argmin()] = 1.0
        return v

    def variances(self, Z: Floats) -> Floats:
        return np.zeros(Z.shape[:-1])  # the choice is made

    def merged_state(self, states: list[ChoiceState], share: Any, t: float) -> ChoiceState:
        new: ChoiceState = mean_of_arrays(states, share)
        new.ticks[T] = t
        return new._replace(live=np.min([state.live for state in states], axis=0))
