"""The weighted mean of learners that went through different rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fiol.engine.engine import Engine
from fiol.engine.levels_engine import LevelsEngine
from fiol.engine.parallel.merge import merge_engines, shares_of
from fiol.features.feature_space import FeatureSpace
from fiol.features.missing_values import name_indicators
from fiol.features.vocabulary import Vocabulary
from fiol.features.vocabulary_merge import Places, check_descends, check_places, merge_feature_spaces
from fiol.learner.core import LearnerCore


def check_mergeable(kind: Any, models: Any, base: Any) -> list[Any]:
    """Return models of one kind as a list; TypeError or ValueError unless all have the same update and options."""
    if not isinstance(models, Iterable):
        raise TypeError(f"learners must be a list of learners, got {type(models).__name__}: use merge([a, b])")
    parts = list(models)
    if not parts:
        raise ValueError("merge needs at least one learner")
    named = [(f"learners[{k}]", model) for k, model in enumerate(parts)]
    for name, model in [*named, *([] if base is None else [("base", base)])]:
        if not isinstance(model, kind):
            raise TypeError(f"{name} must be a {kind.__name__}, got {type(model).__name__}")
        if not model.core.has_update_of(parts[0].core):
            raise ValueError(f"{name} has another update than learners[0]")
    for name, model in [] if base is None else named:
        check_descends(model.core.space, base.core.space, name)
        if model.rounds < base.rounds and model.rows >= base.rows:  # fewer rows are refused with the shares
            raise ValueError(f"{name} has made {model.rounds} rounds, base {base.rounds}: it did not go on from base")
    return parts


def part_names(parts: Sequence[Any], base: Any) -> list[str]:
    """Return what error messages call the base, if there is one, and the parts."""
    return ["base"] * (base is not None) + [f"learners[{k}]" for k in range(len(parts))]


def merge_cores(parts: Sequence[LearnerCore], weights: Sequence[float] | None, base: LearnerCore | None) -> LearnerCore:
    """Return the mean of learners, see `Learner.merge`; they must not change meanwhile."""
    rows_before = 0 if base is None else base.rows
    share = shares_of(weights, [core.rows for core in parts], rows_before)
    everyone, names = [*([] if base is None else [base]), *parts], part_names(parts, base)
    space, places = merge_feature_spaces([core.space for core in everyone], names)
    check_places(parts[0].update, places, names)
    counted = zip(parts, places[-len(parts) :], share, strict=True)
    name_partly_centered(space, [(core, place) for core, place, c in counted if c > 0.0])
    engines = [aligned_engine(core, place, space) for core, place in zip(parts, places[-len(parts) :], strict=True)]
    new = parts[0].with_engine(merge_engines(engines, share, rows_before), space)
    most = space.max_features
    if most is not None and space.features > most:
        new.prune()
        if space.features > most:
            raise ValueError(
                f"together, {space.features} features have weights that are not 0, more than max_features={most}"
            )
    return new


def aligned_engine(core: LearnerCore, places: Places, space: FeatureSpace) -> Engine:
    """Return a copy of an engine, up to date, with its features and classes numbered as in `space`."""
    each = core.update.geometry.reparametrization().weights_per_feature
    features = (each * places.features[:, None] + np.arange(each)).ravel()
    scores = None if space.labels is None else len(space.labels)
    engine = core.engine.placed(features, each * space.features, places.scores, scores)
    if isinstance(engine, LevelsEngine):
        engine.roles = space.roles
    engine.set_indicators(space.indicators)
    return engine


def name_partly_centered(space: FeatureSpace, parts: Sequence[tuple[LearnerCore, Places]]) -> None:
    """Number the missing values of columns that some learners center and others do not, in the space of all.

    They count as the mean in the former and as 0 in the latter, so that the merged model has a weight for them.
    """
    if space.table_encoding is None or not isinstance(space.encoder, Vocabulary):
        return
    centered = list[set[int]]()
    for core, places in parts:
        engine = core.engine if core.levels is None else core.levels.levels[0]
        features = () if engine.centering is None else engine.centering.features
        centered.append({int(places.features[i]) for i in features})
    partly = centered[0].union(*centered) - centered[0].intersection(*centered)
    name_indicators(sorted(partly), space.encoder, space.table_encoding)
    space.features = space.encoder.size
