"""A learner in threads: shards of rows that are learned from in parallel, and members of an ensemble in parallel."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from fiol.components.geometries import Euclidean
from fiol.components.row import Floats
from fiol.engine.engine import Engine
from fiol.engine.parallel.rounds import in_threads, learn_in_rounds
from fiol.features.chunk import Chunk
from fiol.features.feature_space import counted
from fiol.features.targets import check_sample_weights
from fiol.learner.arguments import check_size

if TYPE_CHECKING:
    from fiol.learner.core import LearnerCore


def learn_parallel(core: LearnerCore, X: Any, y: Any, sample_weight: Any, parts: int, threads: int | None) -> Floats:
    """Learn from rows in rounds of `parts` shards each: see `Learner.learn_parallel`; takes the lock."""
    parts = check_size("parts", parts)
    if threads is not None:
        check_size("threads", threads)
    X, rows = counted(X)
    if rows is None:
        raise TypeError("X must be rows that can be counted, not a generator: use learn")
    if parts > 1 and not takes_shards(core):
        raise TypeError("rows are not learned from in parallel with max_features, a geometry or a ledger: use learn")
    with core.lock, core.transaction():
        targets, sample_weights = core.check_targets(y, rows), check_sample_weights(sample_weight, rows)
        if parts == 1:
            with members_in_threads(core, threads):
                scores = core.learn_container(X, targets, sample_weights)
        else:
            chunk, labels, engine = core.entered(core.encode_rows(X)), core.labels, core.engine
            if labels is not None:
                targets, first = labels.code(targets)
                if first.size:  # all shards have the same classes from their first row on
                    engine = engine.copy()
                    engine.add_scores(np.arange(engine.trailing[0]), engine.trailing[0] + len(first))
            scores = learn_in_parts(core, engine, chunk, targets, sample_weights, parts, threads)
        core.warn_if_not_finite(scores, stacklevel=3)
        return scores


def learn_in_parts(
    core: LearnerCore, engine: Engine, chunk: Chunk, y: Any, sample_weights: Floats, parts: int, threads: int | None
) -> Floats:
    """Continue from an engine with rows in `parts` shards; the core takes over the result if all are learned from."""
    with in_threads(min(threads or parts, parts, processors())) as each:
        core.engine, scores = learn_in_rounds(engine.copy(), chunk, y, sample_weights, parts, each)
    return scores


@contextmanager
def members_in_threads(core: LearnerCore, threads: int | None) -> Iterator[None]:
    """Let members of an ensemble that do not share SIMD lanes learn in threads."""
    engine: Any = core.engine
    members = 1 if engine.observer is not None else engine.apart
    with in_threads(min(threads or processors(), max(members, 1))) as each:
        engine.each = each
        try:
            yield
        finally:
            engine.each = map


def takes_shards(core: LearnerCore) -> bool:
    """Return whether rows can be learned from in several shards."""
    plain = core.space.max_features is None and core.update.geometry == Euclidean()
    return plain and core.engine.observer is None


def processors() -> int:
    """Return the number of processors."""
    return os.cpu_count() or 1
