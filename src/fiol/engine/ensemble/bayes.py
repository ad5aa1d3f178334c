"""The compiled rounds of `fiol.components.combiners.Bayes`: members by exponential weights."""

from __future__ import annotations

from math import exp, inf, log

import numpy as np

from fiol.compiler.compiled import inlined, jit
from fiol.components.component import borrowed, set_score
from fiol.engine.ensemble.best_member import overflows, scores_of_member
from fiol.engine.ensemble.stack_rules import rate_of_row, unit_and_reach
from fiol.engine.ensemble.stack_state import FROZEN, GONE, MASS, T

#: In the unit of the loss, squared errors count as at most this many squared standard deviations.
ROBUST = 5.0


@inlined
def log_sum(logs):
    """Return the logarithm of the sum of exp(logs), minus infinity if there is none."""
    top, total = -inf, 0.0
    for k in range(logs.shape[0]):
        top = max(top, logs[k])
    if top == -inf:
        return top
    for k in range(logs.shape[0]):
        total += exp(logs[k] - top)
    return top + log(total)


@inlined
def normalize(state):
    """Scale the weights so that they add up to 1."""
    total = log_sum(state.logs)
    for k in range(state.logs.shape[0]):
        state.logs[k] = max(state.logs[k] - total, GONE)


@inlined
def take_out_member(state, k):
    """Take member k out; the weights of the others keep their ratios."""
    state.live[k] = 0.0
    state.logs[k] = GONE
    normalize(state)


@inlined
def weigh(stack, state, values, rate):
    """Update the weights of members after a round with losses rate times `values`."""
    living = 0.0
    for k in range(values.shape[0]):
        living += state.live[k]
        state.logs[k] = max(state.logs[k] - rate * values[k], GONE) if state.live[k] > 0.0 else GONE
    normalize(state)
    if stack.switching > 0.0:
        for k in range(values.shape[0]):
            if state.live[k] > 0.0:
                state.logs[k] = log((1.0 - stack.switching) * exp(state.logs[k]) + stack.switching / living)


@inlined
def pooled_score(loss, scores, state, values):
    """Return the ensemble's score, given the scores of the members."""
    K, score = state.live.shape[0], 0.0
    if loss.is_probability:
        for k in range(K):
            values[k] = state.logs[k] - loss.value(scores[k], 1.0) if state.live[k] > 0.0 else -inf
        right = log_sum(values)
        for k in range(K):
            values[k] = state.logs[k] - loss.value(scores[k], -1.0) if state.live[k] > 0.0 else -inf
        score = right - log_sum(values) if right > -inf else 0.0
    else:
        for k in range(K):
            score += exp(state.logs[k]) * scores[k] if state.live[k] > 0.0 else 0.0
    return score


@inlined
def pooled_scores(loss, scores, state, values, one, out):
    """Return the ensemble's scores in `out`, given the scores [class, member] of the members."""
    C, K = scores.shape
    for c in range(C):
        out[c] = 0.0
        if loss.is_probability:
            for k in range(K):
                values[k] = -inf
                if state.live[k] > 0.0:
                    values[k] = state.logs[k] - loss.value(scores_of_member(scores, k, one), c)
            total = log_sum(values)
            out[c] = total if total > -inf else 0.0
        else:
            for k in range(K):
                out[c] += exp(state.logs[k]) * scores[c, k] if state.live[k] > 0.0 else 0.0
    return out


@inlined
def pooled(loss, scores, state, values, one, out):
    """Return the ensemble's score, or with a score per class its scores in `out`."""
    if scores.ndim == 1:
        return pooled_score(loss, scores, state, values)
    return pooled_scores(loss, scores, state, values, one, out)


@inlined
def unit_of_loss(loss, scores, score, y, weight, ticks):
    """Return the unit of the loss after a row; scores of classes are margins, which have none."""
    if scores.ndim == 1:
        return unit_and_reach(loss, score, y, weight, ROBUST, ticks)[0]
    return 1.0


@inlined
def bayes_row(stack, loss, scores, y, weight, state, values, one, out):
    """Make one round; return the ensemble's score before it, given the scores of the members (see `pooled`)."""
    K, ticks = state.live.shape[0], state.ticks
    for k in range(K):
        if state.live[k] > 0.0 and overflows(scores, k):
            take_out_member(state, k)
    score = pooled(loss, scores, state, values, one, out)
    ticks[T] += 1.0
    if ticks[FROZEN] > 0.0:
        return score
    for k in range(K):
        values[k] = loss.value(scores_of_member(scores, k, one), y) if state.live[k] > 0.0 else 0.0
        state.losses[1 + k] += weight * values[k]
    state.losses[0] += weight * loss.value(score, y)
    unit = unit_of_loss(loss, scores, score, y, weight, ticks)
    ticks[MASS] += weight
    rate = rate_of_row(weight, unit)
    if rate < inf:
        weigh(stack, state, values, rate)
    return score


@jit
def bayes_rows(stack, loss, Z, y, weight, state, scores):
    """Make a round for every row of Z [row, member] or [row, class, member]; write the ensemble's scores before."""
    own, column = np.zeros(Z.shape[-1]), np.zeros(Z.shape[1])
    Z, y, weight, state, values, one, scores = borrowed((Z, y, weight, state, own, column, scores))
    for r in range(y.shape[0]):
        set_score(scores, r, bayes_row(stack, loss, Z[r], y[r], weight[r], state, values, one, scores[r]))
    own[0] = column[0] = 0.0  # which keeps them alive


@jit
def bayes_scores(loss, Z, state, scores):
    """Write the ensemble's scores for every row of Z [row, member] or [row, class, member]."""
    values, one = np.zeros(Z.shape[-1]), np.zeros(Z.shape[1])
    for r in range(Z.shape[0]):
        set_score(scores, r, pooled(loss, Z[r], state, values, one, scores[r]))
