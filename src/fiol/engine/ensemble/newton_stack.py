"""The compiled rounds of Newton stacks, for any number of members and stacks."""

from __future__ import annotations

from math import inf, sqrt
from typing import Any, NamedTuple

import numpy as np

from fiol.compiler.compiled import inlined, jit
from fiol.components.combiners import MOST_DECLINE, MOST_INFORMATION, OVERFLOWN
from fiol.components.component import borrowed, value_at
from fiol.components.simd import larger, smaller
from fiol.engine.ensemble.stack_rules import (
    bounded_step,
    curvature_part,
    judged_share,
    label_pull,
    lost_variance,
    pooled_share,
    rate_of_row,
    unit_and_reach,
)
from fiol.engine.ensemble.stack_state import FROZEN, LAST, MASS, NEXT, SHRUNK, T


class StackBuffers(NamedTuple):
    """Buffers for one row."""

    z: Any  #: [member] scores
    u: Any  #: [stack, member] where the steps go
    s: Any  #: [2, stack] scores, losses
    own: Any  #: [member] losses
    L: Any  #: [member, member]


@inlined
def stack_buffers(state):
    """Return buffers for one row."""
    J, K = state.v.shape
    return StackBuffers(np.zeros(K), np.zeros((J, K)), np.zeros((2, J)), np.zeros(K), np.zeros((K, K)))


@inlined
def invert(A, P, L, least):
    """Write the inverse of A into P, by A = L L'; A is at least `least` times the identity, and so is every pivot."""
    K = A.shape[0]
    for j in range(K):  # column j of L, below it in P the inverse of L
        pivot = A[j, j]
        for i in range(j):
            pivot -= L[j, i] * L[j, i]
        root = 1.0 / sqrt(larger(pivot, least))
        L[j, j] = root
        for k in range(j + 1, K):
            a = A[k, j]
            for i in range(j):
                a -= L[k, i] * L[j, i]
            L[k, j] = a * root
    for j in range(K):  # L^-1, over L; its diagonal is there
        for k in range(j + 1, K):
            a = 0.0
            for i in range(j, k):
                a -= L[k, i] * (L[i, j] if i > j else L[j, j])
            L[k, j] = a * L[k, k]
    for j in range(K):
        for k in range(j, K):
            a = 0.0
            for i in range(k, K):
                a += L[i, j] * L[i, k]
            P[j, k] = a
            P[k, j] = a


@inlined
def take_out(stack, state, k):
    """Take member k out: its weights are 0, and the information about the others stays; P is not changed."""
    state.live[k] = 0.0
    if state.alone.shape[0] > 0:
        state.alone[k] = 0.0
    for j in range(state.v.shape[0]):
        state.v[j, k] = 0.0
        for i in range(state.v.shape[1]):
            state.A[j, k, i] = 0.0
            state.A[j, i, k] = 0.0
        state.A[j, k, k] = 1.0 / stack.prior


@inlined
def forget(stack, state, t):
    """Multiply information by what is kept of it up to round t."""
    K, n = state.v.shape[1], t - state.ticks[LAST]
    for j in range(state.v.shape[0]):
        A, kept = state.A[j], stack.kept(j, n, t)
        for k in range(K):
            for i in range(K):
                A[k, i] *= kept
            A[k, k] += (1.0 - kept) / stack.prior
    state.ticks[LAST] = t
    state.ticks[NEXT] = t + stack.period(t)


@inlined
def bound_information(stack, state):
    """Bound the information of every member, so that doubles hold the prior beside it."""
    K, least = state.v.shape[1], 1.0 / stack.prior
    for j in range(state.v.shape[0]):
        A = state.A[j]
        for k in range(K):
            part = MOST_INFORMATION * least / A[k, k]
            if part < 1.0:
                for i in range(K):
                    A[k, i] *= sqrt(part)
                    A[i, k] *= sqrt(part)
                A[k, k] += (1.0 - part) * least


@inlined
def invert_all(stack, state, buffers):
    """Invert the information of all stacks."""
    for j in range(state.v.shape[0]):
        invert(state.A[j], state.P[j], buffers.L, 1.0 / stack.prior)
    state.ticks[SHRUNK] = 1.0


@inlined
def members_seen(scores, state, z):
    """Copy the scores of live members to z; return the largest size, infinite if one has overflowed."""
    peak, fine = 0.0, True
    for k in range(z.shape[0]):
        z[k] = scores[k] if state.live[k] > 0.0 else 0.0
        fine &= abs(z[k]) <= OVERFLOWN
        peak = larger(peak, abs(z[k]))
    return peak if fine else inf


@inlined
def share_out(stack, state, values, own, rate, t):
    """Give each stack its share in the ensemble after round t, in which its loss was rate times its value.

    So do members by themselves, if they have shares: `own` has their values.
    """
    J, alone, best, total = values.shape[0], state.alone, inf, 0.0
    for j in range(J):
        best = smaller(best, values[j])
    for k in range(alone.shape[0]):
        best = smaller(best, own[k] if state.live[k] > 0.0 else inf)
    for j in range(J):
        state.share[j] = judged_share(state.share[j], values[j], best, rate, t)
        total += state.share[j]
    for k in range(alone.shape[0]):
        alone[k] = judged_share(alone[k], own[k], best, rate, t) if state.live[k] > 0.0 else 0.0
        total += alone[k]
    common, experts = stack.common_share(t), J + alone.shape[0]
    for j in range(J):
        state.share[j] = pooled_share(state.share[j], total, common, experts, 1.0)
    for k in range(alone.shape[0]):
        alone[k] = pooled_share(alone[k], total, common, experts, state.live[k])


@inlined
def information_is_new(stack, state, t, largest_growth):
    """Forget after round t, if it is time; return whether information has to be inverted anew.

    That is so if P is not its inverse any more, or has shrunk by much since it was.
    """
    ticks = state.ticks
    ticks[SHRUNK] *= 1.0 + largest_growth
    due = t >= ticks[NEXT]
    if due:
        forget(stack, state, t)
    if due or ticks[SHRUNK] > MOST_DECLINE:
        bound_information(stack, state)
        return True
    return False


@inlined
def move_stack(stack, loss, j, s, y, t, peak, rate, unit, reach, state, buffers):
    """Make the step of stack j, whose score is s, and add the row to its information; return the growth of that."""
    K, z, u = state.v.shape[1], buffers.z, buffers.u[j]
    v, A, P, q = state.v[j], state.A[j], state.P[j], 0.0
    for k in range(K):
        a = 0.0
        for i in range(K):
            a += P[k, i] * z[i]
        u[k] = a
        q += a * z[k]
    q, part = larger(q, 0.0), curvature_part(stack, loss, peak)
    p, wrong = rate * q, label_pull(stack, loss, value_at(stack.forgets, j), t, peak, y)
    root, met = loss.exact_step(s - p * wrong, p, 0.0, reach, y, 1.0)
    pull, h, growth = bounded_step(stack, loss, s, root - wrong, met, q, rate, unit, part, reach, y)
    less = lost_variance(h, growth)
    for k in range(K):
        v[k] += pull * u[k]
        a, b = h * z[k], less * u[k]
        for i in range(K):
            A[k, i] += a * z[i]
            P[k, i] -= b * u[i]
    return growth


@inlined
def stack_row(stack, loss, scores, y, weight, state, buffers):
    """Make one round; return the score of the ensemble before it. `scores` are those of the members."""
    J, K = state.v.shape
    ticks, z, s, values = state.ticks, buffers.z, buffers.s[0], buffers.s[1]
    t = ticks[T] + 1.0
    # 1. The score of the one linear model, from those of the members that are in.
    peak = members_seen(scores, state, z)
    if peak == inf:
        for k in range(K):
            if not abs(z[k]) <= OVERFLOWN:
                take_out(stack, state, k)
        invert_all(stack, state, buffers)
        peak = members_seen(scores, state, z)
    score = 0.0
    for j in range(J):
        a = 0.0
        for k in range(K):
            a += state.v[j, k] * z[k]
        s[j] = a
        score += state.share[j] * a
    for k in range(state.alone.shape[0]):
        score += state.alone[k] * z[k]
    if ticks[FROZEN] > 0.0:
        ticks[T] = t
        return score
    for k in range(K):
        buffers.own[k] = loss.value(z[k], y)
        state.losses[1 + k] += weight * buffers.own[k] * state.live[k]
    state.losses[0] += weight * loss.value(score, y)
    ticks[MASS] += weight
    # 2. The unit of the loss, and how far its kinks reach.
    unit, reach = unit_and_reach(loss, score, y, weight, stack.robust, ticks)
    ticks[T], rate = t, rate_of_row(weight, unit)
    if rate == inf:
        return score
    # 3. The share of each stack.
    for j in range(J):
        values[j] = loss.value(s[j], y)
    share_out(stack, state, values, buffers.own, rate, t)
    # 4. A step of each.
    largest_growth = 0.0
    for j in range(J):
        growth = move_stack(stack, loss, j, s[j], y, t, peak, rate, unit, reach, state, buffers)
        largest_growth = larger(largest_growth, growth)
    if information_is_new(stack, state, t, largest_growth):
        invert_all(stack, state, buffers)
    return score


@jit
def stack_rows(stack, loss, Z, y, weight, state, scores):
    """Make a round for every row of Z [row, member]; write the score of the ensemble before each."""
    own = stack_buffers(state)
    Z, y, weight, state, buffers, scores = borrowed((Z, y, weight, state, own, scores))
    for r in range(y.shape[0]):
        scores[r] = stack_row(stack, loss, Z[r], y[r], weight[r], state, buffers)
    own.z[0] = 0.0  # which keeps it alive
