"""The merge rule for shards that went on from one learner, as arrays over features."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fiol.components.step_sizes.protocol import StepSize, statistics_of
from fiol.components.step_sizes.rule import merge_share, precision, shrink


class MergedShards(NamedTuple):
    """The merged records and weights of several shards, which have the same features in the same order."""

    records: Any  #: [feature, statistic]
    w: Any  #: weights of the base, in the units of these records
    change: Any  #: how far they move
    stiffness: (
        Any  #: [feature] the cost of half a squared change, by the curvatures of the base; 0 if these are not kept
    )


def merge_shards(
    step_size: StepSize, base: Any, records: list[Any], w: Any, weights: list[Any], updated: list[Any]
) -> MergedShards:
    """Return the merge of learners that went on from a base, each with a shard of rows of its own.

    `base` and `records` are [feature, statistic], w and `weights` [feature] or [feature, score], and `updated` marks
    for each shard the features that it updated. Sums grow by the terms of all shards. A weight moves by a
    share of each shard's change (`merge_share`), in the unit of the largest value that any shard has seen.
    """
    kept, rule = step_size.statistics(), step_size.rule()
    peaks = [record[:, kept.index("peak")] if "peak" in kept else np.ones(len(base)) for record in (base, *records)]
    peak = np.max(peaks, axis=0)
    shrunk = [for_scores(shrink(own, peak), weight) * weight for own, weight in zip(peaks, (w, *weights), strict=True)]
    seen = np.maximum(np.sum(updated, axis=0), 1)
    known = [precision(rule, peak * peak, summed_curvatures(kept, record)) for record in (base, *records)]
    total = known[0] + sum(own - known[0] for own in known[1:])
    if tuple(name for name in kept if name not in ("peak", "stride")) != statistics_of(rule):
        rule = rule._replace(curvatures=0.0)  # a step size with more statistics than its rule forgets part of its sums
    change = sum(
        for_scores(merge_share(rule, own, total, seen), weight) * (weight - shrunk[0])
        for own, weight in zip(known[1:], shrunk[1:], strict=True)
    )
    found = step_size.merged_shards(base, records)
    step_scales = found[:, kept.index("stride")] if "stride" in kept else np.ones(len(found))
    stiffness = (
        known[0] / rule.size / np.where(step_scales > 0.0, step_scales, 1.0) if rule.curvatures else np.zeros(len(w))
    )
    return MergedShards(found, shrunk[0], change, stiffness)


def summed_curvatures(kept: tuple[str, ...], record: Any) -> Any:
    """Return the sum of curvatures in the records of features, 0 where there is none."""
    columns = [kept.index(name) for name in ("bends", "pending") if name in kept]
    return record[:, columns].sum(axis=1)


def for_scores(per_feature: Any, weights: Any) -> Any:
    """Return a number per feature in the shape of weights, which may have many scores."""
    return per_feature if weights.ndim == 1 or np.ndim(per_feature) == 0 else per_feature[:, None]
