"""The objective of the best fixed weights in hindsight,

    sum_t weight_t phi(<x_t, w> + b; y_t) + T r(w),

as arrays that solvers and the certificate work on.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from fiol.compiler.when_needed import compiled_loop
from fiol.components.geometries import Geometry
from fiol.components.losses import Loss
from fiol.components.regularizers import Regularizer
from fiol.components.row import Floats
from fiol.components.scalars import EPS
from fiol.features.chunk import Chunk
from fiol.regret.libraries import library

#: Loops over fewer rows than this are not worth compiling.
ROWS_TO_COMPILE = 3000


def fill_values(loss, z, y, out):
    """Write the loss of every score."""
    for k in range(out.shape[0]):
        out[k] = loss.value(z[k], y[k])


def fill_slopes(loss, z, y, out):
    """Write the derivative of the loss at every score."""
    for k in range(out.shape[0]):
        out[k] = loss.grad(z[k], y[k])


def fill_curvatures(loss, z, y, out):
    """Write the second derivative of the loss at every score."""
    for k in range(out.shape[0]):
        out[k] = loss.hess(z[k], y[k])


@dataclass(frozen=True, eq=False)
class Objective:
    """sum_t weight_t phi(<A_t, w>; y_t) + sum_i lam1_i abs(w_i) + lam2_i w_i^2 / 2, for w in [lo, hi] or on a simplex.

    The strengths are T times those of the regularizer; T times a `regularizer` that has none is added, and so is a
    constant. Behind the d weights there may be an intercept, whose column is 1. Rows of weight 0 are left out.
    """

    loss: Loss
    A: Any
    y: Floats
    weight: Floats
    rounds: int
    d: int
    lam1: Floats
    lam2: Floats
    lo: Floats
    hi: Floats
    constant: float
    simplex: bool
    regularizer: Regularizer | None

    @property
    def straight(self) -> bool:
        """Whether the loss is piecewise linear: it falls to a first kink, is 0 up to a second one, and rises."""
        return self.loss.has("flat_interval") and self.loss.has("conjugate_grad")

    @functools.cached_property
    def sizes(self) -> Any:
        """The absolute values of A."""
        return abs(self.A)

    @functools.cached_property
    def curvature(self) -> Floats:
        """The change of the slope along every weight where phi'' is 1; 1 for weights without rows."""
        squares = np.asarray(self.A.multiply(self.A).T @ self.weight)
        return np.where(squares > 0.0, squares, 1.0)

    @functools.cached_property
    def lower(self) -> Floats:
        """The infimum of every row's loss."""
        return np.array([self.loss.lower(y) for y in self.y.tolist()])

    @functools.cached_property
    def ends(self) -> tuple[Floats, Floats]:
        """The least and the largest beta of every row: minus the slopes at infinite scores."""
        least, most = ([-self.loss.grad(end, y) for y in self.y.tolist()] for end in (inf, -inf))
        return np.array(least), np.array(most)

    @functools.cached_property
    def start(self) -> Floats:
        """Weights to start from: 0 or next to it, or on a simplex all the same."""
        zeros = np.zeros(self.lam1.size)
        return np.where(np.arange(zeros.size) < self.d, 1.0 / self.d, 0.0) if self.simplex else self.inside(zeros)

    @functools.cached_property
    def start_value(self) -> float:
        """The size of the objective at the start."""
        return abs(self.value(self.start))

    def each(self, loop: Any, z: Floats) -> Floats:
        """Return the output of a loop over all scores."""
        out = np.empty_like(z)
        if z.size < ROWS_TO_COMPILE:  # as lists of plain numbers, on which the interpreter is fast
            loop(self.loss, z.tolist(), self.y.tolist(), out)
        else:
            compiled_loop(loop)(self.loss, z, self.y, out)
        return out

    def scores_of(self, beta: Floats) -> Floats:
        """Return the scores where the loss has the slopes -beta; infinite where there are none."""
        pairs = zip(beta.tolist(), self.y.tolist(), strict=True)
        return -np.array([self.loss.conjugate_grad(pull, y) for pull, y in pairs])

    def scores(self, w: Floats) -> Floats:
        """Return <A_t, w> for every row."""
        return np.asarray(self.A @ w)

    def pull(self, beta: Floats) -> Floats:
        """Return c = A'a for a = weight beta: the pull of the losses on every weight."""
        return np.asarray(self.A.T @ (self.weight * beta))

    def penalty(self, w: Floats) -> float:
        """Return the penalty of all weights, T r(w)."""
        r = self.regularizer
        if r is not None:
            return self.rounds * sum(r.value(v, i) for i, v in enumerate(w[: self.d].tolist()))
        return float(np.sum(self.lam1 * np.abs(w) + 0.5 * self.lam2 * w * w)) + self.constant

    def value(self, w: Floats) -> float:
        """Return the objective."""
        return self.total(self.each(fill_values, self.scores(w))) + self.penalty(w)

    def total(self, per_row: Floats) -> float:
        """Return the weighted sum over rows."""
        return float(self.weight @ per_row)

    def size(self, w: Floats, losses: Floats) -> float:
        """Return the sum of the sizes of all terms, for relative errors; at least a thousandth of that at the start."""
        return max(self.total(np.abs(losses)) + abs(self.penalty(w)), 1e-3 * self.start_value) or 1.0

    def inside(self, w: Floats) -> Floats:
        """Return the nearest feasible weights (on a simplex nearly so), at a bound if that is within rounding."""
        w = np.clip(w, self.lo, self.hi)
        for bound in (self.lo, self.hi):
            w = np.where(np.abs(w - bound) <= 4.0 * EPS * np.abs(w), bound, w)
        if self.simplex:
            w[: self.d] /= w[: self.d].sum()
        return w

    def prox(self, u: Floats, step: Floats) -> Floats:
        """Return argmin_w  penalty(w) + sum_i (w_i - u_i)^2 / (2 step_i); on a simplex for equal steps."""
        shrink = step * self.lam1
        w = (u - np.clip(u, -shrink, shrink)) / (1.0 + step * self.lam2)
        r = self.regularizer
        if r is not None:
            pairs = zip(u[: self.d].tolist(), (self.rounds * step[: self.d]).tolist(), strict=True)
            w[: self.d] = [r.prox(v, s, i) for i, (v, s) in enumerate(pairs)]
        if self.simplex:
            w[: self.d] = onto_simplex((u - shrink)[: self.d])
        return np.clip(w, self.lo, self.hi)


def make_objective(
    loss: Loss,
    regularizer: Regularizer,
    geometry: Geometry,
    chunk: Chunk,
    d: int,
    y: Floats,
    weight: Floats,
    intercept: bool,
) -> Objective:
    """Return the objective over the weights of a geometry, with the intercept last."""
    sparse = library("scipy.sparse")
    pairs, known = geometry.reparametrization(), regularizer.strengths() is not None
    signed = pairs.weights_per_feature == 2
    indptr, indices, data = pairs.transform_rows(chunk, d) if signed and not known else chunk
    if signed and not known:
        regularizer, d = pairs.transform_regularizer(regularizer), 2 * d
    lam, lo, hi, constant = np.zeros((2, d + intercept)), np.full(d + intercept, -inf), np.full(d + intercept, inf), 0.0
    lo[:d], hi[:d] = regularizer.bounds()
    lo[:d] = np.maximum(lo[:d], geometry.least_weight())
    if known:
        lam[:, :d] = chunk.rows * np.array([[regularizer.l1(i), regularizer.l2(i)] for i in range(d)]).T
    if signed and known:  # one of u and v is at lo, so that the other's penalty is one of w = u - v
        least = lo[:d].copy()
        constant = float(np.sum((2.0 * lam[0, :d] + lam[1, :d] * least) * least))
        lam[0, :d] += lam[1, :d] * least
        lo[:d], hi[:d] = least - hi[:d], hi[:d] - least
    A = sparse.csr_matrix((data, indices, indptr), shape=(chunk.rows, d))
    if intercept:
        A = sparse.hstack([A, np.ones((chunk.rows, 1))], format="csr")
    on = weight > 0.0
    parts = loss, A[on], y[on], weight[on], chunk.rows, d, lam[0], lam[1], lo, hi
    return Objective(*parts, constant, geometry.sums_to_one, None if known else regularizer)


def onto_simplex(u: Floats) -> Floats:
    """Return the nearest weights that are at least 0 and sum to 1.

    >>> onto_simplex(np.array([0.5, 0.9, -3.0]))
    array([0.3, 0.7, 0. ])
    """
    falling = np.sort(u)[::-1]
    over = (np.cumsum(falling) - 1.0) / np.arange(1, u.size + 1)
    w = np.maximum(u - over[np.flatnonzero(falling > over)[-1]], 0.0)
    return w / w.sum()
