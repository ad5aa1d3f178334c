"""The compiled rounds of a stack whose members give a score per class: one weight per member, shared by all classes."""

from __future__ import annotations

from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from fiol.compiler.compiled import inlined, jit
from fiol.components.combiners import OVERFLOWN
from fiol.components.component import borrowed, value_at
from fiol.components.simd import larger
from fiol.engine.ensemble.newton_stack import bound_information, forget, invert, invert_all, share_out, take_out
from fiol.engine.ensemble.stack_rules import curvature_part
from fiol.engine.ensemble.stack_state import FROZEN, MASS, NEXT, T

#: The largest number of Newton steps, and of halvings of each.
NEWTON_STEPS, HALVINGS = 50, 40
#: The largest number of proximal steps for a loss with kinks, and the relative error of its pulls.
PROXIMAL_STEPS, PULL_DIGITS = 2000, 1e-13
#: The curvature of a loss with kinks is that over this length of margins.
MARGIN_REACH = 1.0


class JointStackBuffers(NamedTuple):
    """Buffers for one row."""

    Z: Any  #: [class, member] scores, from their mean over classes
    q: Any  #: [class] scores of one stack, or of one member
    beta: Any  #: [3, class] pulls
    values: Any  #: [stack] losses
    own: Any  #: [member] losses
    vectors: Any  #: [5, member]
    H: Any  #: [2, member, member]
    L: Any  #: [member, member]


@inlined
def joint_stack_buffers(state, classes):
    """Return buffers for one row."""
    J, K = state.v.shape
    many, few = np.zeros((classes, K)), np.zeros((3, classes))
    return JointStackBuffers(
        many, np.zeros(classes), few, np.zeros(J), np.zeros(K), np.zeros((5, K)), np.zeros((2, K, K)), np.zeros((K, K))
    )


@inlined
def scores_into(Z, v, q):
    """Write the scores of all classes by weights v."""
    for c in range(Z.shape[0]):
        a = 0.0
        for k in range(Z.shape[1]):
            a += Z[c, k] * v[k]
        q[c] = a


@inlined
def pull_into(Z, beta, g):
    """Write Z' beta, the pull on the weights."""
    for k in range(Z.shape[1]):
        g[k] = 0.0
    for c in range(Z.shape[0]):
        for k in range(Z.shape[1]):
            g[k] += beta[c] * Z[c, k]


@inlined
def add_curvature(Z, beta, y, weight, mean, H):
    """Add weight times the loss's curvature, the covariance of the rows of Z under e_y - beta, to H."""
    K = Z.shape[1]
    for k in range(K):
        mean[k] = 0.0
    for c in range(Z.shape[0]):
        part = (1.0 if c == y else 0.0) - beta[c]
        for k in range(K):
            mean[k] += part * Z[c, k]
    for c in range(Z.shape[0]):
        part = weight * larger((1.0 if c == y else 0.0) - beta[c], 0.0)
        if part > 0.0:
            for k in range(K):
                a = part * (Z[c, k] - mean[k])
                for i in range(K):
                    H[k, i] += a * (Z[c, i] - mean[i])


@inlined
def distance(A, v, center, away):
    """Return |v - center|_A^2 / 2; write A (v - center) to `away`."""
    total = 0.0
    for k in range(v.shape[0]):
        a = 0.0
        for i in range(v.shape[0]):
            a += A[k, i] * (v[i] - center[i])
        away[k] = a
        total += 0.5 * a * (v[k] - center[k])
    return total


@inlined
def smooth_step(loss, Z, y, weight, A, center, v, least, buffers):
    """Write argmin_v weight phi(Z v) + |v - center|_A^2 / 2, by Newton's method with halved steps from the center.

    Leaves the pulls at the new scores in buffers.beta[0].
    """
    K = v.shape[0]
    away, g, step, mean = buffers.vectors[1], buffers.vectors[2], buffers.vectors[3], buffers.vectors[4]
    q, beta, H, inverse = buffers.q, buffers.beta[0], buffers.H[0], buffers.H[1]
    for k in range(K):
        v[k] = center[k]
    scores_into(Z, v, q)
    value = weight * loss.value(q, y) + distance(A, v, center, away)
    for _ in range(NEWTON_STEPS):
        loss.duals(q, 0.0, y, beta)
        pull_into(Z, beta, g)
        for k in range(K):
            for i in range(K):
                H[k, i] = A[k, i]
        add_curvature(Z, beta, y, weight, mean, H)
        invert(H, inverse, buffers.L, least)
        fall = 0.0
        for k in range(K):
            a = 0.0
            for i in range(K):
                a += inverse[k, i] * (weight * g[i] - away[i])
            step[k] = a
            fall += a * (weight * g[k] - away[k])
        if not fall > 1e-30:
            break
        length, lower = 1.0, False
        for _ in range(HALVINGS):
            for k in range(K):
                v[k] += length * step[k]
            scores_into(Z, v, q)
            new = weight * loss.value(q, y) + distance(A, v, center, away)
            lower = new <= value - 0.25 * length * fall or fall < 1e-14 * (1.0 + abs(value))
            if lower:
                break
            for k in range(K):
                v[k] -= length * step[k]
            length *= 0.5
        if not lower:
            break
        value = new
        if fall < 1e-14 * (1.0 + abs(value)):  # the next step would be below the last digit
            break
    scores_into(Z, v, q)
    loss.duals(q, 0.0, y, beta)


@inlined
def largest_slope(Z, P, S, B):
    """Return a bound of the largest eigenvalue of Z P Z': the root of the sum of squared eigenvalues of P Z' Z."""
    K, total = P.shape[0], 0.0
    for k in range(K):
        for i in range(K):
            S[k, i] = 0.0
    for c in range(Z.shape[0]):
        for k in range(K):
            for i in range(K):
                S[k, i] += Z[c, k] * Z[c, i]
    for k in range(K):
        for i in range(K):
            a = 0.0
            for m in range(K):
                a += P[k, m] * S[m, i]
            B[k, i] = a
    for k in range(K):
        for i in range(K):
            total += B[k, i] * B[i, k]
    return sqrt(larger(total, 0.0))


@inlined
def step_by_pulls(Z, beta, P, center, g, v):
    """Write v = center + P Z' beta."""
    pull_into(Z, beta, g)
    for k in range(v.shape[0]):
        a = center[k]
        for i in range(v.shape[0]):
            a += P[k, i] * g[i]
        v[k] = a


@inlined
def kinked_step(loss, Z, y, weight, P, center, v, buffers):
    """Write argmin_v weight phi(Z v) + |v - center|_A^2 / 2 for a loss with kinks; P is the inverse of A.

    v = center + P Z' beta with beta = -weight phi'(Z v): accelerated proximal steps for beta, each by the loss's own
    `duals` with a slope p that is at least the largest eigenvalue of G = Z P Z', from beta to the root of
    beta = -weight phi'(q + G beta_old + p (beta - beta_old)), with q = Z center. Leaves the pulls of a line of
    `MARGIN_REACH` at the new scores in buffers.beta[0].
    """
    C, q, beta, ahead, new = Z.shape[0], buffers.q, buffers.beta[0], buffers.beta[1], buffers.beta[2]
    g, p, size, momentum = buffers.vectors[1], largest_slope(Z, P, buffers.H[0], buffers.H[1]), 1.0, 1.0
    scores_into(Z, center, q)
    for c in range(C):
        beta[c] = 0.0
        ahead[c] = 0.0
        size = larger(size, abs(q[c]))
    for _ in range(PROXIMAL_STEPS if weight > 0.0 else 0):
        step_by_pulls(Z, ahead, P, center, g, v)
        scores_into(Z, v, q)
        for c in range(C):
            q[c] -= p * ahead[c]
        loss.duals(q, weight * p, y, new)
        following = 0.5 * (1.0 + sqrt(1.0 + 4.0 * momentum * momentum))
        moved, back = 0.0, 0.0
        for c in range(C):
            new[c] *= weight
            moved = larger(moved, abs(new[c] - ahead[c]))
            back += (ahead[c] - new[c]) * (new[c] - beta[c])
        if back > 0.0:  # momentum points the wrong way: it starts again
            following = 1.0
            momentum = 1.0
        for c in range(C):
            ahead[c] = new[c] + (momentum - 1.0) / following * (new[c] - beta[c])
            beta[c] = new[c]
        momentum = following
        if not moved * p > PULL_DIGITS * size:
            break
    step_by_pulls(Z, beta, P, center, g, v)
    scores_into(Z, v, q)
    loss.duals(q, MARGIN_REACH, y, beta)


@inlined
def read_scores(stack, scores, state, buffers):
    """Copy the scores [class, member] of live members to buffers.Z; take members out whose scores are not finite."""
    Z, all_in = buffers.Z, True
    for k in range(Z.shape[1]):
        for c in range(Z.shape[0]):
            if state.live[k] > 0.0 and not abs(scores[c, k]) <= OVERFLOWN:
                take_out(stack, state, k)
                all_in = False
        for c in range(Z.shape[0]):
            Z[c, k] = scores[c, k] if state.live[k] > 0.0 else 0.0
    if not all_in:
        invert_all(stack, state, buffers)


@inlined
def add_losses(stack, loss, y, weight, t, state, buffers, out):
    """Add the losses of a row, that of the ensemble with scores `out`, and give each stack its share."""
    Z, q = buffers.Z, buffers.q
    for k in range(Z.shape[1]):
        for c in range(Z.shape[0]):
            q[c] = Z[c, k]
        buffers.own[k] = loss.value(q, y)
        state.losses[1 + k] += weight * buffers.own[k] * state.live[k]
    state.losses[0] += weight * loss.value(out, y)
    state.ticks[MASS] += weight
    for j in range(state.v.shape[0]):
        scores_into(Z, state.v[j], q)
        buffers.values[j] = loss.value(q, y)
    share_out(stack, state, buffers.values, buffers.own, weight, t)


@inlined
def center_scores(Z):
    """Subtract the mean over classes, which changes no loss, from the scores; return the largest size after that."""
    peak = 0.0
    for k in range(Z.shape[1]):
        mean = 0.0
        for c in range(Z.shape[0]):
            mean += Z[c, k] / Z.shape[0]
        for c in range(Z.shape[0]):
            Z[c, k] -= mean
            peak = larger(peak, abs(Z[c, k]))
    return peak


@inlined
def joint_stack_row(stack, loss, scores, y, weight, state, buffers, out):
    """Make one round, given the scores [class, member] of the members; write the scores of the ensemble before it."""
    J, K = state.v.shape
    Z, C, ticks, t, center = buffers.Z, scores.shape[0], state.ticks, state.ticks[T] + 1.0, buffers.vectors[0]
    read_scores(stack, scores, state, buffers)
    combined = center  # the weights of the members in the ensemble
    for k in range(K):
        combined[k] = 0.0
        for j in range(J):
            combined[k] += state.share[j] * state.v[j, k]
    for k in range(state.alone.shape[0]):
        combined[k] += state.alone[k]
    scores_into(Z, combined, out)
    ticks[T] = t
    if ticks[FROZEN] > 0.0:
        return
    add_losses(stack, loss, y, weight, t, state, buffers, out)
    peak, least = center_scores(Z), 1.0 / stack.prior
    part = curvature_part(stack, loss, peak)
    for j in range(J):
        v, A, P = state.v[j], state.A[j], state.P[j]
        wrong = weight * stack.wrong(value_at(stack.forgets, j), t, peak) * C / (C - 1.0) if C > 1 else 0.0
        for k in range(K):  # labels that may be wrong pull with the same force wherever v is
            a = v[k]
            for i in range(K):
                a -= wrong * P[k, i] * Z[y, i]
            center[k] = a
        if loss.kinked:
            kinked_step(loss, Z, y, weight, P, center, v, buffers)
        else:
            smooth_step(loss, Z, y, weight, A, center, v, least, buffers)
        add_curvature(Z, buffers.beta[0], y, part * weight, buffers.vectors[4], A)
    if t >= ticks[NEXT]:
        forget(stack, state, t)
    bound_information(stack, state)
    invert_all(stack, state, buffers)


@jit
def joint_stack_rows(stack, loss, Z, y, weight, state, scores):
    """Make a round for every row of Z [row, class, member]; write the scores of the ensemble before, [row, class]."""
    own = joint_stack_buffers(state, Z.shape[1])
    Z, y, weight, state, buffers, scores = borrowed((Z, y, weight, state, own, scores))
    for r in range(y.shape[0]):
        joint_stack_row(stack, loss, Z[r], y[r], weight[r], state, buffers, scores[r])
    own.q[0] = 0.0  # which keeps it alive
