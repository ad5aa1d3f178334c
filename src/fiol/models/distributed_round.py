"""Rounds of parallel learning over shards of rows that stay where they are, on other machines for example.

A round has two steps for every shard of its rows, and two for the coordinator; learners and a few numbers are sent
between them, rows are not.

| who | does |
|---|---|
| each shard | `result = learn_shard(base, X, y)`: a copy of the base learns from its rows |
| the coordinator | `merger = RoundMerger(base, results)`: merges the updates, features by name |
| each shard | `losses = losses_along_line(merger.base, merger.full, X, y)` |
| the coordinator | `base = merger.finish(sum of losses)`: an exact step finds how much of the merged update to apply |

`fiol.engine.parallel.shards` has the mathematics, `Learner.learn_parallel` does the same in threads of one machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fiol.components.row import Floats
from fiol.engine.engine import Engine
from fiol.engine.ensemble.engine import EnsembleEngine
from fiol.engine.levels_engine import LevelsEngine
from fiol.engine.parallel.levels import LevelsMerge, level_losses, level_scores, teach_stacks
from fiol.engine.parallel.merge import members_of
from fiol.engine.parallel.rounds import SEARCH_ROWS, sample_of, teach_stack
from fiol.engine.parallel.shards import lanes_alone, losses_along, merge_of, pooled_means, scores_of_members
from fiol.features.feature_space import FeatureSpace, counted
from fiol.features.targets import check_sample_weights
from fiol.features.vocabulary_merge import merge_feature_spaces
from fiol.learner import Learner
from fiol.learner.merge import aligned_engine, check_mergeable


class ShardResult(NamedTuple):
    """What one shard of a round sends to the coordinator."""

    learner: Learner
    stack_rows: tuple[Any, Any, Any]  #: scores by the base's members, targets, sample weights: for the ensemble's stack
    rows: int
    loss: float  #: the sum of the losses of rows, each before it was learned from, times their sample weights


def learn_shard(base: Learner, X: Any, y: Any, sample_weight: Any = None, parts: int = 1) -> ShardResult:
    """Learn from the rows of one of `parts` shards of a round with a copy of the base.

    >>> result = learn_shard(Learner(), [{"a": 1.0}, {"b": 1.0}], [1, -1])
    >>> result.learner.names, result.rows
    (['a', 'b'], 2)
    """
    return learn_shard_chunks(base, [(X, y, sample_weight)], parts)


def learn_shard_chunks(
    base: Learner, chunks: Iterable[tuple[Any, Any, Any]], parts: int = 1, rows: float | None = None
) -> ShardResult:
    """Learn from the rows of a shard that come in chunks, each X, y and sample weights.

    `rows` is about the number of rows in all; without it, that of the first chunk.

    >>> result = learn_shard_chunks(Learner(), [([{"a": 1.0}], [1], None), ([{"b": 1.0}], [-1], None)])
    >>> result.learner.names, result.rows
    (['a', 'b'], 2)
    """
    learner, engine = base.copy(), base.core.engine
    members = [] if lanes_alone(engine) or isinstance(engine, LevelsEngine) else members_of(engine)
    if isinstance(learner.core.engine, LevelsEngine) and parts > 1:
        learner.core.engine.begin_shard()
    found, seen, loss = list[tuple[Any, Any, Any]](), 0, 0.0
    for X, y, sample_weight in chunks:
        X, n = check_countable(X)
        weights = check_sample_weights(sample_weight, n)
        scores = learner.learn(X, y, weights)
        if not n:
            continue
        codes = targets_of(learner, y, n)
        rows = rows or n
        if isinstance(engine, (EnsembleEngine, LevelsEngine)):
            given = base.core.entered(base.core.read_rows(X)), codes, weights
            some, *beside = sample_of(given, SEARCH_ROWS // parts * (n / rows))
            levels = isinstance(engine, LevelsEngine)
            Z = level_scores(engine, some) if levels else scores_of_members(engine, members, some)  # type: ignore[arg-type]
            found.append((Z, *beside))
        loss += learner.core.mean_loss(scores, codes, weights) * float(weights.sum())
        seen += n
    nothing = np.empty((0, 0)), np.empty(0), np.empty(0)
    stack_rows: Any = tuple(map(np.concatenate, zip(*found, strict=True))) if found else nothing
    return ShardResult(learner, stack_rows, seen, loss)


def losses_along_line(
    base: Learner, full: Learner, X: Any, y: Any, sample_weight: Any = None, parts: int = 1
) -> Floats:
    """Return [member, point]: losses of a shard's rows at points of the line from the base to the full merged update.

    The coordinator adds up those of all shards.
    """
    X, rows = check_countable(X)
    weights = check_sample_weights(sample_weight, rows)
    given = base.core.entered(base.core.read_rows(X)), targets_of(base, y, rows), weights
    some = sample_of(given, SEARCH_ROWS // parts)
    along = level_losses if isinstance(base.core.engine, LevelsEngine) else losses_along
    found: Floats = along(base.core.engine, full.core.engine, *some, parts)  # type: ignore[arg-type]
    return found * (rows / max(some[0].rows, 1))


def check_countable(X: Any) -> tuple[Any, int]:
    """Return X and its number of rows; TypeError for a generator, whose rows cannot be read twice."""
    X, rows = counted(X)
    if rows is None:
        raise TypeError("X must be rows that can be read twice, not a generator")
    return X, rows


def targets_of(learner: Learner, y: Any, rows: int | None) -> Any:
    """Return targets as an engine takes them: checked numbers, or the codes of known labels."""
    targets = learner.core.check_targets(learner.targets_of(y), rows)
    return targets if learner.core.labels is None else learner.core.codes_of(targets)


class RoundMerger:
    """Pools the updates of learners that went on from copies of a base: see the module.

    Attributes
    ----------
    base : the base, with the features of all shards.
    full : the learner with the full merged update.

    Examples
    --------
    >>> base = Learner()
    >>> score = base.learn_named({"a": 1.0}, 1)
    >>> shards = [([{"a": 1.0}, {"b": 1.0}], [1, -1]), ([{"c": -1.0}, {"a": 2.0}], [1, 1])]
    >>> results = [learn_shard(base, X, y, parts=2) for X, y in shards]
    >>> merger = RoundMerger(base, results)
    >>> losses = sum(losses_along_line(merger.base, merger.full, X, y, parts=2) for X, y in shards)
    >>> new = merger.finish(losses)
    >>> new.rows, new.names
    (5, ['a', 'b', 'c'])
    """

    def __init__(self, base: Learner, results: Sequence[ShardResult]) -> None:
        if not results:
            raise ValueError("there must be at least one part")
        learners = [result.learner for result in results]
        check_mergeable(Learner, learners, base)
        cores, names = [one.core for one in (base, *learners)], ["base", *(f"parts[{k}]" for k in range(len(results)))]
        space, places = merge_feature_spaces([core.space for core in cores], names)
        engines = [aligned_engine(core, place, space) for core, place in zip(cores, places, strict=True)]
        for apart in zip(*map(centered_engines, engines), strict=False):  # the levels that all have
            for one in apart[1:]:
                check_same_centered(apart[0].centering, one.centering)
        own = engines[0].centering
        self._means = None if own is None else pooled_means(own, [engine.centering for engine in engines[1:]])
        levels = isinstance(engines[0], LevelsEngine)
        self._merge: Any = LevelsMerge(engines[0], engines[1:]) if levels else merge_of(engines[0], engines[1:])  # type: ignore[arg-type]
        self._results = results
        self.base, self.full = (
            with_engine(base, self._merge.base, space),
            with_engine(base, self._merge.full(), space),
        )

    def finish(self, losses: Floats) -> Learner:
        """Return the learner with as much of the merged update as the summed losses say, and the features of all."""
        levels = isinstance(self._merge, LevelsMerge)
        found = self._merge.finish(losses) if levels else self._merge.finish(losses, self._means)
        engine, self.steps = found  #: the part of the update by member, from 0 to 1
        new = with_engine(self.base, engine, self.base.core.space)
        rows = sum(result.rows for result in self._results)
        if rows:
            stack_rows = zip(*(result.stack_rows for result in self._results if result.rows), strict=True)
            teach = teach_stacks if levels else teach_stack
            teach(engine, rows, *(np.concatenate(some) for some in stack_rows))
        return new


def with_engine(learner: Learner, engine: Engine, space: FeatureSpace) -> Learner:
    """Return a learner with the same update and options, and this engine and space, not copies."""
    return type(learner).from_core(learner.core.with_engine(engine, space), learner.meta)


def centered_engines(engine: Engine) -> Sequence[Engine]:
    """Return the engines that center rows: those of levels, or the engine itself."""
    return engine.levels if isinstance(engine, LevelsEngine) else [engine]


def check_same_centered(base: Any, other: Any) -> None:
    """Raise ValueError if a shard has chosen other columns to center than the base."""
    features = [() if one is None else tuple(one.features) for one in (base, other)]
    if features[0] != features[1]:
        raise ValueError("parts have centered other columns than the base: let the base learn from more rows first")
