"""A stack that learns anew from rows that its members have not learned from."""

from __future__ import annotations

from typing import Any

import numpy as np

from fiol.components.row import Floats
from fiol.engine.engine import Engine

#: A stack learns anew if that lowers the loss in all blocks of rows: 8 by chance with a probability of 1/256.
RESTACK_BLOCKS = 8


def restacked(
    engine: Engine, stack: Any, Z: Floats, now: Floats, y: Floats, sample_weights: Floats
) -> tuple[Floats, Any]:
    """Return scores of rows by a stack that has learned anew from the scores Z of its members, and this stack.

    See `Engine.restack`. If that is not better than the scores of now in every block of rows, these are returned, and
    the stack as it is.
    """
    rows, half, scores = (Z, y, sample_weights), len(now) // 2, np.zeros_like(now)
    if len(now) < RESTACK_BLOCKS:
        return now, stack
    blocks = np.array_split(np.arange(len(now)), RESTACK_BLOCKS)
    for own, others in ((slice(0, half), slice(half, None)), (slice(half, len(now)), slice(half))):
        part = stack.learned_anew(engine.call, *(array[others] for array in rows))
        scores[own] = Z[own] @ part.member_weights()
        for block in (block for block in blocks if own.start <= block[-1] < own.stop):  # now scored as a whole
            new, old = (engine.mean_loss(one, y, sample_weights, block) for one in (scores, now))
            if not new < old:
                return now, stack
    return scores, stack.learned_anew(engine.call, *rows)
