"""The compiled rounds of a stack whose members give a score per class: one weight per member, shared by all classes."""

from __future__ import annotations

from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from fiol.compiler.compiled import inlined, jit
from fiol.components.combiners import OVERFLOWN
from fiol.components.component import borrowed, value_at
from fiol.engine.ensemble.newton_stack import bound_information, forget, invert, invert_all, share_out, take_out
from fiol.engine.ensemble.stack_state import FROZEN, MASS, NEXT, T

#: Newton's method takes at most so many steps, and halves each at most so often.
NEWTON_STEPS, HALVINGS = 50, 40
#: A kinked loss is looked at so often; its pulls are then known to so many digits.
LOOKS, PULL_DIGITS = 2000, 1e-13
#: A loss with kinks counts as smooth over this length of margins, where its curvature is asked for.
MARGIN_REACH = 1.0


class JointStackRoom(NamedTuple):
    """Where one row is worked on."""

    Z: Any  #: [class, member] scores, from their mean over classes
    q: Any  #: [class] scores of the whole, or of one stack
    beta: Any  #: [4, class] pulls
    values: Any  #: [stack] losses
    vectors: Any  #: [5, member]
    H: Any  #: [3, member, member]
    L: Any  #: [member, member]


@inlined
def new_joint_stack_room(state, classes):
    """Working space for one row."""
    J, K = state.v.shape
    many, few = np.zeros((classes, K)), np.zeros((4, classes))
    return JointStackRoom(
        many, np.zeros(classes), few, np.zeros(J), np.zeros((5, K)), np.zeros((3, K, K)), np.zeros((K, K))
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
    """Write what pulls on the scores of classes pull on the weights: Z' beta."""
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
        part = weight * max((1.0 if c == y else 0.0) - beta[c], 0.0)
        if part > 0.0:
            for k in range(K):
                a = part * (Z[c, k] - mean[k])
                for i in range(K):
                    H[k, i] += a * (Z[c, i] - mean[i])


@inlined
def distance(A, v, center, away):
    """|v - center|_A^2 / 2; writes A (v - center)."""
    total = 0.0
    for k in range(v.shape[0]):
        a = 0.0
        for i in range(v.shape[0]):
            a += A[k, i] * (v[i] - center[i])
        away[k] = a
        total += 0.5 * a * (v[k] - center[k])
    return total


@inlined
def smooth_step(loss, Z, y, weight, A, center, v, least, room):
    """Write argmin_v weight phi(Z v) + |v - center|_A^2 / 2, by Newton's method with halved steps from v.

    Leaves the pulls at the new scores in room.beta[0].
    """
    K = v.shape[0]
    away, g, step, mean = room.vectors[1], room.vectors[2], room.vectors[3], room.vectors[4]
    q, beta, H, inverse = room.q, room.beta[0], room.H[0], room.H[1]
    scores_into(Z, v, q)
    value = weight * loss.value(q, y) + distance(A, v, center, away)
    for _ in range(NEWTON_STEPS):
        loss.duals(q, 0.0, y, beta)
        pull_into(Z, beta, g)
        for k in range(K):
            for i in range(K):
                H[k, i] = A[k, i]
        add_curvature(Z, beta, y, weight, mean, H)
        invert(H, inverse, room.L, least)
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
def kinked_step(loss, Z, y, weight, P, center, v, room):
    """Write argmin_v weight phi(Z v) + |v - center|_A^2 / 2 for a loss with kinks; P is the inverse of A.

    v = center + P Z' beta with beta = -weight phi'(Z v): accelerated proximal steps for beta, each by the loss's own
    `duals` with a slope p that is at least the largest eigenvalue of G = Z P Z', from beta to the root of
    beta = -weight phi'(q + G beta_old + p (beta - beta_old)), with q = Z center.
    """
    K, C = v.shape[0], Z.shape[0]
    q, beta, ahead, new, base = room.q, room.beta[0], room.beta[1], room.beta[2], room.beta[3]
    g, S, B = room.vectors[1], room.H[0], room.H[1]
    scores_into(Z, center, base)
    for k in range(K):
        for i in range(K):
            S[k, i] = 0.0
    for c in range(C):
        for k in range(K):
            for i in range(K):
                S[k, i] += Z[c, k] * Z[c, i]
    p, size = 0.0, 1.0
    for k in range(K):
        for i in range(K):
            a = 0.0
            for m in range(K):
                a += P[k, m] * S[m, i]
            B[k, i] = a
    for k in range(K):  # the sum of squared eigenvalues of G
        for i in range(K):
            p += B[k, i] * B[i, k]
    p = sqrt(max(p, 0.0))
    for c in range(C):
        beta[c] = 0.0
        ahead[c] = 0.0
        size = max(size, abs(base[c]))
    for k in range(K):
        v[k] = center[k]
    momentum = 1.0
    for _ in range(LOOKS if weight > 0.0 else 0):
        pull_into(Z, ahead, g)
        for k in range(K):
            a = center[k]
            for i in range(K):
                a += P[k, i] * g[i]
            v[k] = a
        scores_into(Z, v, q)
        for c in range(C):
            q[c] -= p * ahead[c]
        loss.duals(q, weight * p, y, new)
        following = 0.5 * (1.0 + sqrt(1.0 + 4.0 * momentum * momentum))
        moved, back = 0.0, 0.0
        for c in range(C):
            new[c] *= weight
            moved = max(moved, abs(new[c] - ahead[c]))
            back += (ahead[c] - new[c]) * (new[c] - beta[c])
        if back > 0.0:  # momentum leads astray: start it anew
            following = 1.0
            momentum = 1.0
        for c in range(C):
            ahead[c] = new[c] + (momentum - 1.0) / following * (new[c] - beta[c])
            beta[c] = new[c]
        momentum = following
        if not moved * p > PULL_DIGITS * size:
            break
    pull_into(Z, beta, g)
    for k in range(K):
        a = center[k]
        for i in range(K):
            a += P[k, i] * g[i]
        v[k] = a


@inlined
def joint_stack_row(stack, loss, scores, y, weight, state, room, out):
    """One round; writes the scores of the whole before it. `scores` [class, member] are those of the members."""
    J, K = state.v.shape
    C, ticks, Z = scores.shape[0], state.ticks, room.Z
    t, all_in = ticks[T] + 1.0, True
    for k in range(K):  # a member with a score that is not finite is out
        for c in range(C):
            if state.live[k] > 0.0 and not abs(scores[c, k]) <= OVERFLOWN:
                take_out(stack, state, k)
                all_in = False
    if not all_in:
        invert_all(stack, state, room)
    mixed, center = room.vectors[0], room.vectors[0]
    for k in range(K):
        mixed[k] = 0.0
        for j in range(J):
            mixed[k] += state.share[j] * state.v[j, k]
        for c in range(C):
            Z[c, k] = scores[c, k] if state.live[k] > 0.0 else 0.0
    scores_into(Z, mixed, out)
    if ticks[FROZEN] > 0.0:
        ticks[T] = t
        return
    for k in range(K):
        for c in range(C):
            room.q[c] = Z[c, k]
        state.losses[1 + k] += weight * loss.value(room.q, y) * state.live[k]
    state.losses[0] += weight * loss.value(out, y)
    ticks[MASS] += weight
    for j in range(J):
        scores_into(Z, state.v[j], room.q)
        room.values[j] = loss.value(room.q, y)
    share_out(stack, state, room.values, weight, t)
    peak = 0.0
    for k in range(K):  # what all classes have in common changes no loss
        mean = 0.0
        for c in range(C):
            mean += Z[c, k] / C
        for c in range(C):
            Z[c, k] -= mean
            peak = max(peak, abs(Z[c, k]))
    part = (stack.limit / peak) ** 2 if peak > stack.limit else 1.0
    least = 1.0 / stack.prior
    for j in range(J):
        v, A, P = state.v[j], state.A[j], state.P[j]
        wrong = weight * stack.wrong(value_at(stack.forgets, j), t, peak) * C / (C - 1.0) if C > 1 else 0.0
        for k in range(K):  # so many labels count as wrong: their pull is the same wherever v is
            a = v[k]
            for i in range(K):
                a -= wrong * P[k, i] * Z[y, i]
            center[k] = a
        for k in range(K):
            v[k] = center[k]
        if loss.kinked:
            kinked_step(loss, Z, y, weight, P, center, v, room)
            scores_into(Z, v, room.q)
            loss.duals(room.q, MARGIN_REACH, y, room.beta[0])
        else:
            smooth_step(loss, Z, y, weight, A, center, v, least, room)
        add_curvature(Z, room.beta[0], y, part * weight, room.vectors[4], A)
    ticks[T] = t
    if t >= ticks[NEXT]:
        forget(stack, state, t)
    bound_information(stack, state)
    invert_all(stack, state, room)


@jit
def joint_stack_rows(stack, loss, Z, y, weight, state, scores):
    """A round for every row of Z [row, class, member]; writes the scores of the whole before each, [row, class]."""
    own = new_joint_stack_room(state, Z.shape[1])
    Z, y, weight, state, room, scores = borrowed((Z, y, weight, state, own, scores))
    for r in range(y.shape[0]):
        joint_stack_row(stack, loss, Z[r], y[r], weight[r], state, room, scores[r])
    own.q[0] = 0.0  # which keeps it alive
