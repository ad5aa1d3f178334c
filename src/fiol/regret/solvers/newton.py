"""Newton steps for the last digits of smooth losses, which gradient methods do not reach.

The current weights identify which weights are at a kink or a bound; the others solve linear equations.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import numpy as np

from fiol.components.row import Floats
from fiol.components.scalars import EPS
from fiol.regret.libraries import library
from fiol.regret.objective import Objective, fill_curvatures, fill_slopes, fill_values

#: Unknowns up to which a step is solved directly; beyond, by iterations.
MOST_UNKNOWNS = 1000


def newton(o: Objective, w: Floats) -> Floats:
    """Take Newton steps, halved where they lead uphill, until only rounding errors are left."""
    if o.simplex:
        return newton_on_simplex(o, w)
    value, last, size = o.value(w), inf, o.size(w, o.each(fill_values, o.scores(w)))
    for _ in range(100):
        move, low, high, gain = newton_move(o, w)
        reaches = np.where(move == 0.0, inf, (np.where(move > 0.0, high, low) - w) / move)
        reach = float(np.min(reaches[reaches > 0.0], initial=1.0))  # up to the bound of the first weight
        for length in (1.0, reach, *(reach * 0.5**k for k in range(1, 40))):
            new = np.clip(w + length * move, low, high)
            reached = o.value(new)
            if reached <= value - 0.01 * length * gain + 100.0 * EPS * size:
                break
        else:
            return w
        if not gain > EPS * EPS * size or (gain <= EPS * size and gain > 0.5 * last):
            return new
        w, value, last = new, reached, gain
    return w


def newton_on_simplex(o: Objective, w: Floats) -> Floats:
    """Take Newton steps on a simplex: the largest weight is 1 minus the others, and its column is subtracted."""
    csr = library("scipy.sparse").csr_matrix
    k = int(np.argmax(w[: o.d]))
    others = np.where(np.arange(w.size) < o.d, 1.0, 0.0)
    others[k] = 0.0
    A = (o.A - o.A[:, [k]] @ csr(others)).tocsr()
    lo, hi, start = o.lo.copy(), o.hi.copy(), w.copy()
    lo[k] = hi[k] = start[k] = 1.0
    new = newton(replace(o, A=A, lam1=o.lam1 - o.lam1[k] * others, lo=lo, hi=hi, simplex=False), start)
    new[k] -= others @ new
    return o.inside(new)


def newton_move(o: Objective, w: Floats) -> tuple[Floats, Floats, Floats, float]:
    """Return the step to the minimum of the quadratic model, the range where it is valid, and the expected gain.

    Weights with an l1 penalty stay on their side of 0. They rest at 0 where the penalty outweighs the pull, and others
    rest at bounds they are pressed against.
    """
    z = o.scores(w)
    c = o.pull(-o.each(fill_slopes, z))
    sign = np.where(w != 0.0, np.sign(w), np.where(o.lo >= 0.0, 1.0, np.where(o.hi <= 0.0, -1.0, np.sign(c))))
    slope = o.lam1 * sign + o.lam2 * w - c
    rests = (w == 0.0) & (np.abs(c) <= o.lam1) & (o.lam1 > 0.0)
    rests |= ((w <= o.lo) & (slope > 0.0)) | ((w >= o.hi) & (slope < 0.0)) | (o.sizes.T @ o.weight == 0.0)
    free, move = np.flatnonzero(~rests), np.zeros(w.size)
    move[free] = -solve_bent(o.A[:, free], o.weight * o.each(fill_curvatures, z), o.lam2[free], slope[free])
    low = np.where((o.lam1 != 0.0) & (sign > 0.0), np.maximum(o.lo, 0.0), o.lo)
    high = np.where((o.lam1 != 0.0) & (sign < 0.0), np.minimum(o.hi, 0.0), o.hi)
    return move, low, high, -float(slope @ move)


def solve_bent(columns: Any, curvature: Floats, ridge: Floats, slope: Floats) -> Floats:
    """Return the v with (columns' diag(bend) columns + diag(ridge)) v = slope, the least one if there are many."""
    n, diagonal = slope.size, np.asarray(columns.multiply(columns).T @ curvature) + ridge
    scale = 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
    if n > MOST_UNKNOWNS:
        sparse = library("scipy.sparse.linalg")

        def times(v: Floats) -> Floats:
            v = scale * v
            return scale * (np.asarray(columns.T @ (curvature * (columns @ v))) + ridge * v)

        operator = sparse.LinearOperator((n, n), matvec=times, dtype=np.float64)
        return scale * sparse.minres(operator, scale * slope, rtol=1e-6, maxiter=500)[0]
    H = scale[:, None] * (gram(columns, curvature) + np.diag(ridge)) * scale
    if not np.isfinite(H).all():
        return np.zeros(n)
    values, basis = np.linalg.eigh(H)
    slopes = basis.T @ (scale * slope)
    straight = values < 1e-12  # a long way to go, unless the slope is rounding
    slopes[straight & (np.abs(slopes) < 1e-6 * np.linalg.norm(slopes))] = 0.0
    return scale * (basis @ (slopes / np.maximum(values, 1e-12)))


def gram(columns: Any, curvature: Floats) -> Floats:
    """Return columns' diag(bend) columns."""
    rows, n = columns.shape
    if columns.nnz <= 0.1 * rows * n:
        return np.asarray((columns.T @ columns.multiply(curvature[:, None])).toarray())
    total, block = np.zeros((n, n)), max(1, 2**22 // n)
    for k in range(0, rows, block):
        dense = columns[k : k + block].toarray()
        total += dense.T @ (curvature[k : k + block, None] * dense)
    return total
