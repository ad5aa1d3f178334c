"""Kernel discovery: the kernels that a new engine will need, for a helper process that compiles them ahead."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np

from fiol.features.chunk import Chunk


def rehearse(engine: Any) -> None:
    """Request all kernels that learn from rows and read weights and scores; in a helper the kernels do nothing.

    The engine is a helper's copy, and is not to be used afterwards.
    """
    engine.set_observer(None)
    engine.unbind_kernels()
    chunk = Chunk(np.array([0, 1, 2]), np.zeros(2, np.int32), np.ones(2))
    many = bool(engine.trailing)
    y, ones = np.zeros(2, np.int64) if many else np.ones(2), np.ones(2)
    scores = np.zeros((2, *engine.trailing))
    steps: list[Callable[[], Any]] = [
        lambda: engine.learn_plainly(chunk, y, ones),
        lambda: engine.watched(engine.centering, chunk),
        lambda: engine.mean_loss(scores, y, ones),
        lambda: engine.weights(1, False),
        lambda: engine.intercept_weight(False),
        lambda: engine.scores(chunk),
        lambda: engine.predictions(scores),
    ]
    for step in steps:
        with contextlib.suppress(Exception):
            step()
