"""The loops of a round over the records that a step size keeps of the row's features.

The records lie side by side in `RowBuffers.statistics`, so that loops over them vectorize.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from fiol.compiler.compiled import inlined
from fiol.components.component import count_scores, get_weight, next_score, value_at
from fiol.components.step_sizes.rule import StepOutcome, is_outlier, learned_value, peak_of, raise_peak


@inlined
def read_records(step_size, feature, statistics, buffers):
    """Copy the records of a row's features into the buffers."""
    for k in range(feature.shape[0]):
        i = np.uint64(np.uint32(feature[k]))
        for j in range(step_size.width()):
            buffers.statistics[j, k] = statistics[i, j]


@inlined
def has_outliers(step_size, x, buffers):
    """Return whether a row has a value that is not learned as it is."""
    found = False
    for k in range(x.shape[0]):
        found |= is_outlier(x[k], peak_of(step_size, buffers.statistics[:, k]))
    return found


@inlined
def learned_values(step_size, x, buffers):
    """Return the values that a round learns from, by the largest ones in the records before it."""
    if not step_size.scale_free or not has_outliers(step_size, x, buffers):
        return x
    for k in range(x.shape[0]):
        buffers.x[k] = learned_value(x[k], peak_of(step_size, buffers.statistics[:, k]))
    return buffers.x[: x.shape[0]]


@inlined
def squared_length(step_size, x, more, buffers):
    """Return the squared length of a row in units of features, with `more` entries of 1; largest values include x.

    It is 1 where the step size does not use it.
    """
    if not step_size.per_feature:
        return 1.0
    length = more
    if step_size.uses_length or step_size.scale_free:
        for k in range(x.shape[0]):
            s = buffers.statistics[:, k]
            raise_peak(step_size, s, x[k])
            peak = peak_of(step_size, s) if step_size.scale_free else 1.0
            part = x[k] / peak if peak > 0.0 else 0.0
            length += part * part
    return length


@inlined
def write_records(step_size, feature, x, curvature, beta, scale, statistics, buffers):
    """Let the step size observe the step by beta, and store the records of the row's features."""
    pull = 0.0
    if step_size.properties().uses_pulls:
        pull = length_of(beta, buffers.w)
    for k in range(feature.shape[0]):
        i, s, gain = np.uint64(np.uint32(feature[k])), buffers.statistics[:, k], 0.0
        if step_size.properties().uses_pulls:
            gain = x[k] * gain_of(beta, k, buffers.w)
        step_size.observe_step(s, StepOutcome(x[k], curvature, pull, gain, scale.slope, scale.step_scale))
        for j in range(step_size.width()):
            statistics[i, j] = buffers.statistics[j, k]


@inlined
def length_of(beta, w):
    """Return abs(beta), or the length of beta where rows have many scores."""
    if count_scores(w) == 1:
        return abs(value_at(beta, 0))
    total = 0.0
    k = 0
    while k < count_scores(w):
        total += value_at(beta, k) * value_at(beta, k)
        k = next_score(w, k)
    return sqrt(total)


@inlined
def gain_of(beta, j, w):
    """Return beta times the weight of the row's j-th feature before the round, summed over scores."""
    total = 0.0
    k = 0
    while k < count_scores(w):
        total += value_at(beta, k) * get_weight(w, j, k)
        k = next_score(w, k)
    return total
