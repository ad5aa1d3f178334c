"""`BayesEngine`: rounds of `fiol.components.combiners.Bayes`, exponential weights of members."""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np

from fiol.components.row import Floats
from fiol.engine.ensemble.stack_engine import Call, StackEngine, mean_of_arrays
from fiol.engine.ensemble.stack_state import GONE, TICKS, BayesState, T


class BayesEngine(StackEngine):
    """Members weighted by the exponential of minus their losses."""

    def new_state(self) -> BayesState:
        K = self.members
        return BayesState(np.full(K, -log(K)), np.ones(K), np.zeros(K + 1), np.zeros(TICKS))

    def learn(self, call: Call, Z: Floats, y: Floats, sample_weights: Floats) -> Floats:
        from fiol.engine.ensemble.bayes import bayes_rows  # imported here: `import fiol` loads no compiler

        scores = np.zeros(Z.shape[:-1])
        call(bayes_rows, self.stack, self.loss, Z, y, sample_weights, self.own_state, scores)
        return scores

    def member_weights(self) -> Floats:
        return np.exp(self.state.logs) * self.state.live  # type: ignore[no-any-return]

    def scores(self, call: Call, Z: Floats) -> Floats:
        from fiol.engine.ensemble.bayes import bayes_scores

        scores = np.empty(Z.shape[:-1])
        call(bayes_scores, self.loss, Z, self.own_state, scores)
        return scores

    def merged_state(self, states: list[BayesState], share: Any, t: float) -> BayesState:
        """Return the mean of states; of weights, that of their logarithms, normalized."""
        counted = [(c, state) for c, state in zip(share, states, strict=True) if c > 0.0]
        new: BayesState = mean_of_arrays([state for _, state in counted], [c for c, _ in counted])
        new.ticks[T] = t
        live = np.min([state.live for _, state in counted], axis=0)
        logs = np.where(live > 0.0, new.logs, GONE)
        top = logs.max()
        total = top + log(np.exp(logs - top).sum())
        return new._replace(live=live, logs=np.maximum(logs - total, GONE))
