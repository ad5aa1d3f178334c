"""The stack of the scores of levels: how much the model uses its features as they are, its curves and its pairs."""

from __future__ import annotations

from typing import Any

import numpy as np

from fiol.components.combiners import NewtonStack
from fiol.engine.ensemble.newton_stack_engine import NewtonStackEngine

#: The stack of levels. Levels are alike at first, and a narrow prior lets few rows change little in how they are mixed.
LEVELS = NewtonStack(prior=0.03)
#: The prior of the first of its stacks, which forgets nothing: all but the mean of the levels, for tables of few rows.
PRIOR_OF_MEAN = 3e-4
#: The share of each of its stacks before the first row. Levels by themselves have the rest, equally: the loss is then
#: at most that of the best level and a little, on few rows too.
SHARE_OF_STACK = 0.1
#: The first weights of the levels in the other stacks. All levels begin alike, so that the richer ones do no harm.
FIRST_SHARES = {2: (0.4, 0.6), 3: (0.2, 0.3, 0.5)}


def stack_of_levels(levels: int, loss: Any, compiled: bool) -> NewtonStackEngine:
    """Return the stack of this many levels before the first row."""
    stack, one = NewtonStackEngine(LEVELS, loss, levels, compiled), np.eye(levels)
    state = stack.state
    state.v[1:] = FIRST_SHARES[levels]
    state.A[0], state.P[0] = one / PRIOR_OF_MEAN, one * PRIOR_OF_MEAN
    state.share[...] = SHARE_OF_STACK
    stack.set_state(state._replace(alone=np.full(levels, (1.0 - state.share.sum()) / levels)))
    return stack
