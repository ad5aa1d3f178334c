"""The compiled loops that read weights and scores from a state, and store weights in it."""

from __future__ import annotations

import numpy as np

from fiol.algorithms.stored_weights import missed_sum, set_last_seen, settle, store_weight
from fiol.compiler.compiled import inlined, jit
from fiol.components.component import borrowed, count_scores, get_weight, next_score, set_weight
from fiol.components.simd import larger
from fiol.components.step_sizes.rule import unit_of_steps
from fiol.engine.round.rounds import clock_from, clock_into


@jit
def predict_all(loss, scores):
    """Replace every score by the prediction that the loss makes from it."""
    for r in range(scores.shape[0]):
        scores[r] = loss.predict(scores[r])


@inlined
def prediction(loss, score):
    """Return the prediction that a loss makes from a score."""
    return loss.predict(score)


@jit
def total_loss(loss, scores, order, y, weight):
    """Return the weighted sum of the losses of all scores, or of those in `order`, and the sum of the weights.

    A score is a number, or a row of them where there is one per class.
    """
    total = mass = 0.0
    for k in range(order.shape[0] if order.shape[0] > 0 else y.shape[0]):
        r = order[k] if order.shape[0] > 0 else k
        total += weight[r] * loss.value(scores[r], y[r])
        mass += weight[r]
    return total, mass


@inlined
def value_of(plan, state, i, k, clock):
    """Return the weight of feature i for score k, or its average over all rounds if that is kept."""
    if plan.lazy_update.averages and state.total.shape[0] > 0 and clock.t > 0.0:
        return (get_weight(state.total, i, k) + missed_sum(plan, state, i, k, clock)) / clock.t
    return plan.anchor.weight_of_score(plan, state, i, k, clock)


@inlined
def weighed(plan, indices, data, first, last, state, unseen, clock):
    """Return the score of the entries from `first` to `last`, without the intercept."""
    z = 0.0
    for k in range(first, last):
        i = np.uint64(np.uint32(indices[k]))
        if i < state.w.shape[0]:
            z += data[k] * value_of(plan, state, i, 0, clock)
        else:
            z += data[k] * unseen
    return z


@inlined
def intercept_of(intercept_plan, intercept, clock):
    """Return the intercept, 0 without one."""
    return value_of(intercept_plan, intercept, np.uint64(0), 0, clock) if intercept.w.shape[0] > 0 else 0.0


@jit
def score_rows(plan, intercept_plan, chunk, state, intercept, fresh, ticks, scores):
    """Write the scores of rows; `fresh` is the state of features beyond the arrays."""
    (indptr, indices, data), state, intercept, fresh = borrowed((chunk, state, intercept, fresh))
    clock = clock_from(ticks)
    shift = intercept_of(intercept_plan, intercept, clock)
    unseen = value_of(plan, fresh, np.uint64(0), 0, clock)
    for r in range(scores.shape[0]):
        scores[r] = weighed(plan, indices, data, indptr[r], indptr[r + 1], state, unseen, clock) + shift


@inlined
def score_one_row(plan, intercept_plan, feature, x, state, intercept, fresh, ticks):
    """Return the score of one row."""
    clock = clock_from(ticks)
    unseen = value_of(plan, fresh, np.uint64(0), 0, clock)
    return weighed(plan, feature, x, 0, x.shape[0], state, unseen, clock) + intercept_of(
        intercept_plan, intercept, clock
    )


@inlined
def weighted_sum(x, w, first, last):
    """Return the sum of x w over the entries from `first` to `last`."""
    total = 0.0
    for k in range(first, last):
        total += x[k] * w[k]
    return total


@jit
def add_weighted_rows(indptr, data, w, scores):
    """Add the weighted sum of every row to its score; w has the weight of every entry."""
    indptr, data, w = borrowed(indptr), borrowed(data), borrowed(w)
    for r in range(scores.shape[0]):
        scores[r] += weighted_sum(data, w, indptr[r], indptr[r + 1])


@jit
def add_weighted_rows_of_many(indptr, data, w, scores):
    """Add the weighted sums of every row to its scores, with weights [entry, score]."""
    for r in range(scores.shape[0]):
        for j in range(indptr[r], indptr[r + 1]):
            for k in range(scores.shape[1]):
                scores[r, k] += data[j] * w[j, k]


@jit
def variance_rows(plan, intercept_plan, chunk, state, intercept, fresh, ticks, variances):
    """Write the variances of the scores of rows, by the statistics of step sizes; see `score_rows`."""
    (indptr, indices, data), state, intercept, fresh = borrowed((chunk, state, intercept, fresh))
    clock = clock_from(ticks)
    step_scale = unit_of_steps(plan.problem.loss, plan.step_size.rule(), clock.slopes, larger(clock.t, 1.0))
    own = (
        intercept_plan.step_size.variance(intercept.statistics[0], 1.0, 1.0, step_scale)
        if intercept.w.shape[0] > 0
        else 0.0
    )
    for r in range(variances.shape[0]):
        total = own
        for k in range(indptr[r], indptr[r + 1]):
            i = np.uint64(np.uint32(indices[k]))
            if i < state.w.shape[0]:
                total += plan.step_size.variance(state.statistics[i], data[k], 1.0, step_scale)
            else:
                total += plan.step_size.variance(fresh.statistics[0], data[k], 1.0, step_scale)
        variances[r] = total


@jit
def score_rows_of_many(plan, intercept_plan, chunk, state, intercept, fresh, ticks, scores):
    """Write several scores per row: intercepts first; a factor that all weights of a feature share is found once."""
    (indptr, indices, data), state, intercept, fresh = borrowed((chunk, state, intercept, fresh))
    clock, shift, unseen = clock_from(ticks), np.zeros(scores.shape[1]), np.zeros(scores.shape[1])
    plain = state.total.shape[0] == 0
    for k in range(scores.shape[1]):
        if intercept.w.shape[0] > 0:
            shift[k] = value_of(intercept_plan, intercept, np.uint64(0), k, clock)
        unseen[k] = value_of(plan, fresh, np.uint64(0), k, clock)
    for r in range(scores.shape[0]):
        for k in range(scores.shape[1]):
            scores[r, k] = shift[k]
        for j in range(indptr[r], indptr[r + 1]):
            i = np.uint64(np.uint32(indices[j]))
            if i >= state.w.shape[0]:
                for k in range(scores.shape[1]):
                    scores[r, k] += data[j] * unseen[k]
            elif plain:
                factor = data[j] * plan.anchor.shared_factor(plan, state, i, clock)
                for k in range(scores.shape[1]):
                    scores[r, k] += plan.anchor.weight_times(plan, state, i, k, clock, factor)
            else:
                for k in range(scores.shape[1]):
                    scores[r, k] += data[j] * value_of(plan, state, i, k, clock)


@jit
def read_weights(plan, state, ticks, averaged, out):
    """Write all weights, or all averages, without changing the state."""
    clock = clock_from(ticks)
    for i in range(np.uint64(out.shape[0])):
        k = 0
        while k < count_scores(out):
            if averaged:
                set_weight(out, i, k, value_of(plan, state, i, k, clock))
            else:
                set_weight(out, i, k, plan.anchor.weight_of_score(plan, state, i, k, clock))
            k = next_score(out, k)


@jit
def add_weights(plan, state, fresh, ticks, features, factor, out):
    """Add the weights of `features`, times a factor, to `out`; those never seen are as in `fresh`."""
    clock, state, fresh = clock_from(ticks), borrowed(state), borrowed(fresh)
    for j in range(features.shape[0]):
        i = np.uint64(np.uint32(features[j]))
        k = 0
        while k < count_scores(out):
            if i < state.w.shape[0]:
                w = plan.anchor.weight_of_score(plan, state, i, k, clock)
            else:
                w = plan.anchor.weight_of_score(plan, fresh, np.uint64(0), k, clock)
            set_weight(out, j, k, get_weight(out, j, k) + factor * w)
            k = next_score(out, k)


@jit
def settle_all(plan, state, ticks):
    """Bring every weight up to date."""
    clock = settle(plan, state, clock_from(ticks))
    clock_into(ticks, clock)


@jit
def store_weights(plan, state, ticks, w):
    """Store weights that are up to date."""
    clock = clock_from(ticks)
    for i in range(np.uint64(w.shape[0])):
        k = 0
        while k < count_scores(w):
            store_weight(plan, state, i, k, get_weight(w, i, k), clock)
            k = next_score(w, k)
        set_last_seen(plan, state, i, clock)
