"""Compiling ahead: learners see a few rows, so that later processes find their code in the cache."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fiol.components.joint_losses import JointLoss
from fiol.features.chunk import Chunk, loops
from fiol.features.containers import to_chunk
from fiol.integrations.parameters import make_update
from fiol.learner import Learner
from fiol.names import loss_named, penalty_named
from fiol.persistence.model import load

#: What is compiled unless something else is asked for.
USUAL_LOSSES, USUAL_PENALTIES = ("log_loss", "squared_error", "softmax"), ("none", "l1", "l2")


def combinations(
    losses: Sequence[str] = (), penalties: Sequence[str] = (), models: Sequence[str] = ()
) -> list[tuple[str, Callable[[], Any]]]:
    """Return what to compile, by name: every loss with every penalty that it goes with, and saved models.

    >>> [name for name, _ in combinations(["hinge"], ["l1", "none"])]
    ['hinge, l1', 'hinge, none']
    >>> [name for name, _ in combinations(["softmax"], ["l1", "l2"])]  # its steps know ridges only
    ['softmax, l2']
    """
    if models and not losses and not penalties:
        return [(path, lambda path=path: load(Path(path))) for path in models]  # type: ignore[misc]
    chosen: list[tuple[str, Callable[[], Any]]] = []
    for loss in losses or USUAL_LOSSES:
        for penalty in penalties or USUAL_PENALTIES:
            update = make_update(loss_named(loss), penalty_named(penalty))  # type: ignore[arg-type]
            try:
                Learner(update, compiled=False)
            except TypeError:  # the two do not go together
                continue
            chosen.append((f"{loss}, {penalty}", lambda update=update: Learner(update)))  # type: ignore[misc]
    return chosen + (combinations(models=models) if models else [])


def warm_up(make: Callable[[], Any]) -> tuple[float, str]:
    """Compile what a model needs to learn and to predict; seconds it took, and where the code is kept."""
    from fiol.engine.round import rounds  # imported here: a list of combinations needs no compiler

    start = time.perf_counter()
    like = one_of(make())
    names = {"intercept": "intercept_fitted", "average": "averages", "dtype": "dtype"}
    options = {option: getattr(like, name) for option, name in names.items()}
    loss = like.update.loss
    y = [0, 1] if isinstance(loss, JointLoss) else [1.0, -1.0 if loss.accepts(-1.0) else 1.0]
    learner = Learner(like.update, **options)
    rows = np.resize([1.0, 0.0, 2.0, 0.0, 3.0, 4.0], (2, learner.width or 3))
    learner.learn(rows, y)
    chunk, codes, ones = to_chunk(Chunk(*to_chunk(rows))), np.array(y), np.ones(2)  # looked at as sparse rows are
    order = np.arange(2)
    loops().shuffle(order, 1)
    learner.core.mean_loss(learner.core.learn_canonical(chunk, codes, ones, order), codes, ones)
    learner.predict(rows)
    _ = learner.weights, learner.intercept
    far = Learner(like.update, **options)  # more rows than decide about centering, of columns far from 0
    far.learn(np.resize([90.0, 91.0], (40, learner.width or 3)), np.resize(codes, 40))
    far.predict(rows)
    engine = learner.engine
    if engine.moves:  # as `fit` of estimators ends
        engine.move_to(engine.weights(learner.n_features, False), engine.intercept_weight(False))
    numbered = Learner(like.update, **options)
    for target in y:
        numbered.score_one([0], [1.0])
        numbered.learn_one([0], [1.0], target)
    if learner.width is None:  # a component with a number per feature has no names
        named, row = Learner(like.update, **options), {"a": 1.0, "b": 2.0}
        for target in y:  # new names go another way than known ones
            named.score_named(row)
            named.learn_named(row, target)
    stats = getattr(rounds.learn_rows, "stats", None)  # none where the compiler is switched off
    return time.perf_counter() - start, str(getattr(stats, "cache_path", None) or "memory only")


def one_of(model: Any) -> Learner:
    """Return the learner that stands for all learners of a model, which run the same code."""
    of_estimator = getattr(model, "learners_", None) or getattr(model, "_learners", None)
    several = of_estimator or list(getattr(model, "learners", {}).values())
    found: Learner = several[0] if several else model
    return found
