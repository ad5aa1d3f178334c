"""The best fixed weights in hindsight, the comparator of regret, with a certificate of how good they are.

Over T rows, with h_t the sample weights (1 by default) and b an intercept that is never penalised,

    w* = argmin_w  sum_t h_t phi(<x_t, w> + b; y_t) + T r(w).

The regularizer counts once per round. Solvers of others find w*:

| loss | regularizer | solver |
|---|---|---|
| squared | one l1 strength, with or without one ridge strength; all weights, or those >= 0 | scikit-learn's Lasso, ElasticNet |
| logistic | one ridge strength | scikit-learn's LogisticRegression |
| these and all other smooth ones, yours too | l1 and ridge of any strengths, in a box or not | scipy's L-BFGS-B |
| hinge, absolute, quantile, epsilon-insensitive | l1 of any strengths or none, in a box or not | scipy's HiGHS, a linear program |
| the same four | with a ridge | Clarabel, a quadratic program |
| any smooth one | your own, by its prox | FISTA (Beck and Teboulle, 2009) |

Weights in a simplex go with L-BFGS-B or HiGHS. Where a loss has second derivatives, a few Newton steps on the weights
that are free to move follow, unless the solver's weights are as good as rounding allows already.

The certificate is computed here, whoever found the weights. Every a with entries a_t = h_t beta_t bounds the optimum from
below by its dual value, -sum_t h_t phi*(-beta_t) - T r*(X'a / T), where phi* and r* are conjugates. With beta_t = -phi'(s_t)
at some score s_t, z_t the scores of w, and c = X'a, the gap between the objective at w and this bound is a sum of
terms none of which is negative,

    sum_t h_t (phi(z_t) - phi(s_t) + beta_t (z_t - s_t)) + sum_i (T r(w_i) + T r*(c_i / T) - c_i w_i),

so that nothing cancels. Where T r* is infinite at c (a weight without penalty, or one whose l1 strength c_i exceeds), a is
moved to the nearest place where it is not, and then shrunk. Infinite to the last digits counts as finite.
"""

from __future__ import annotations

import functools
import importlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

import numpy as np

from fiol.chunks import Chunk, check_targets, check_weights, to_chunk
from fiol.geometries import Euclidean, Geometry, Separable, SignedEntropy, Simplex
from fiol.losses import EPS, Absolute, EpsilonInsensitive, Hinge, Logistic, Loss, Quantile, Squared
from fiol.problem import make_problem
from fiol.regularizers import Box, Elastic, Regularizer, Unregularized
from fiol.row import Floats
from fiol.step import check_per_feature

#: Losses made of straight lines: steep below a first kink, 0 up to a second one, steep above it.
STRAIGHT = (Absolute, EpsilonInsensitive, Hinge, Quantile)
#: Relative errors: below the first nothing is left to gain, above the second a warning says so.
EXACT, POOR = 1e-14, 1e-8
#: The largest dense system that is solved directly, and how many rows are worth compiling for.
DIRECT, MANY = 2000, 3000

GAP, RESIDUAL = "duality gap", "optimality residual"


class Comparator(NamedTuple):
    """The best fixed weights in hindsight, and how sure that is."""

    w: Floats  #: the weights
    intercept: float  #: the intercept, 0 if there is none
    value: float  #: the objective there
    error: float  #: by how much the value exceeds the least one at most; or how far from 0 the slope is
    certificate: str  #: which of the two: "duality gap" or "optimality residual"
    solver: str  #: who found the weights
    rounds: int  #: T, the number of rows


def best_in_hindsight(
    loss: Loss,
    regularizer: Regularizer | None,
    X: Any,
    y: Any,
    *,
    sample_weight: Any = None,
    intercept: bool = False,
    geometry: Geometry | None = None,
    solver: str | None = None,
) -> Comparator:
    """The weights that would have been best for all rows,

        argmin_w  sum_t sample_weight_t loss(<x_t, w> + b; y_t) + T sum_i regularizer(w_i),

    over the regularizer's set Omega and the geometry's domain, and over b if there is an intercept.

    Parameters
    ----------
    loss, regularizer : components; no regularizer if None.
    X, y, sample_weight : rows, targets and weights, as for `Learner.learn`.
    intercept : whether there is one. It is never penalised.
    geometry : only its domain matters: w >= 0 for `Entropy`, also sum(w) = 1 for `Simplex`. For `SignedEntropy` w = u - v
        with u, v >= 0, and the regularizer counts for both.
    solver : "scikit-learn", "L-BFGS-B", "HiGHS", "Clarabel" or "FISTA"; by default as the table in `fiol.comparator` says.

    Returns
    -------
    A `Comparator`. If its `certificate` is "duality gap", the least value of the objective is at least `value - error`. If
    no dual value is finite there is none, and `error` is the norm of the smallest slope at the weights found (for kinks, of
    a proximal gradient). A warning says if the weights may not be best: where rows can be separated and nothing
    is penalised, the logistic loss has no best weights.

    Examples
    --------
    >>> from fiol import L1, Squared
    >>> best = best_in_hindsight(Squared(), L1(0.5), [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [3.0, 1.0, 4.0])
    >>> best.w.round(6), round(best.value, 6), best.certificate, best.error < 1e-12
    (array([2.5, 0.5]), 4.875, 'duality gap', True)

    References
    ----------
    Song, Liu, Liu, Jiang, Zhang, "Fully Implicit Online Learning", the minimum in the definition of regret.
    Fercoq, Gramfort, Salmon, "Mind the duality gap: safer rules for the Lasso", 2015, for dual points by shrinking.
    """
    geometry = Euclidean() if geometry is None else geometry
    regularizer = Unregularized() if regularizer is None else regularizer
    problem = make_problem(loss, regularizer, geometry)
    chunk = to_chunk(X)
    d = width(X, chunk)
    if chunk.rows == 0 or d == 0:
        raise ValueError(f"X must have at least one row and one column, got {chunk.rows} and {d}")
    check_per_feature(problem, d)
    geometry.check_weights(np.full(d, geometry.first_weight(d)))
    targets, weights = check_targets(y, chunk.rows, loss), check_weights(sample_weight, chunk.rows)
    objective = make_objective(loss, regularizer, geometry, chunk, d, targets, weights, bool(intercept))
    name = choose(objective, solver)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # what solvers say about themselves; the certificate knows better
        best, credit = solve(objective, name)
    if not best.relative <= POOR:
        message = f"the best weights in hindsight may not be: {best.certificate} {best.error:.2g}, relative {best.relative:.2g}"
        hint = "; if larger weights are always better, none are best: add a penalty" if objective.unpenalized() else ""
        warnings.warn(message + hint, RuntimeWarning, stacklevel=2)
    w = best.w[: objective.d]
    w = geometry.leave_weights(w) if objective.d > d else w
    b = float(best.w[-1]) if intercept else 0.0
    return Comparator(w + 0.0, b + 0.0, best.value, best.error, best.certificate, credit, chunk.rows)


def load(module: str) -> Any:
    """A module of the libraries that solve, or an ImportError that says how to get them."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = {"sklearn": "scikit-learn"}.get(module.partition(".")[0], module.partition(".")[0])
        raise ImportError(f'comparators need {package}: pip install "fiol[regret]"') from error


def width(X: Any, chunk: Chunk) -> int:
    """How many features the rows have: columns, or for a chunk as many as it mentions."""
    if isinstance(X, Chunk):
        return int(chunk.indices.max(initial=-1)) + 1
    return int(X.shape[1] if hasattr(X, "shape") else np.shape(X)[1])


# --- the objective ----------------------------------------------------------------------------


def fill_values(loss, z, y, out):  # type: ignore[no-untyped-def]
    """The loss of every score."""
    for k in range(out.shape[0]):
        out[k] = loss.value(z[k], y[k])


def fill_slopes(loss, z, y, out):  # type: ignore[no-untyped-def]
    """Its derivative."""
    for k in range(out.shape[0]):
        out[k] = loss.grad(z[k], y[k])


def fill_bends(loss, z, y, out):  # type: ignore[no-untyped-def]
    """Its second derivative."""
    for k in range(out.shape[0]):
        out[k] = loss.hess(z[k], y[k])


@functools.cache
def compiled(loop: Any) -> Any:
    """The same loop, compiled."""
    from fiol.compiled import jit  # imported here: `import fiol` loads no compiler

    return jit(loop)


@dataclass(frozen=True, eq=False)
class Objective:
    """sum_t h_t phi(<A_t, w>; y_t) + sum_i lam1_i abs(w_i) + lam2_i w_i^2 / 2, for w in [lo, hi] or, also, in a simplex.

    The strengths are T times those of the regularizer. A column of ones, without strengths and bounds, is the intercept. Rows
    of weight 0 are left out. If `own` is a regularizer, T times that takes the place of the strengths.
    """

    loss: Loss
    A: Any
    y: Floats
    h: Floats
    rounds: int
    d: int
    lam1: Floats
    lam2: Floats
    lo: Floats
    hi: Floats
    simplex: bool
    own: Regularizer | None

    @functools.cached_property
    def size_of_entries(self) -> Any:
        """A without its signs."""
        return abs(self.A)

    @functools.cached_property
    def curvature(self) -> Floats:
        """How fast the slope of every weight changes at most, per second derivative of the loss; 1 for weights without rows."""
        squares = np.asarray(self.A.multiply(self.A).T @ self.h)
        return np.where(squares > 0.0, squares, 1.0)

    @property
    def straight(self) -> bool:
        """Whether the loss is made of straight lines."""
        return type(self.loss) in STRAIGHT

    def unpenalized(self) -> bool:
        """Whether some weight may grow for free."""
        return self.own is None and bool((np.isinf(self.hi - self.lo) & (self.lam1 + self.lam2 == 0.0)).any())

    def each(self, loop: Any, z: Floats) -> Floats:
        """What a loop over scores writes."""
        out = np.empty_like(z)
        if z.shape[0] < MANY:  # plain numbers, on which the interpreter is fast and does not warn
            loop(self.loss, z.tolist(), self.y.tolist(), out)
        else:
            compiled(loop)(self.loss, z, self.y, out)
        return out

    def lower(self) -> Floats:
        """The infimum of every row's loss."""
        return np.array([self.loss.lower(y) for y in self.y.tolist()])

    def pull(self, slopes: Floats) -> Floats:
        """c = A'a for a = -h slopes: how hard the losses pull at every weight."""
        return np.asarray(-(self.A.T @ (self.h * slopes)))

    def penalty(self, w: Floats) -> float:
        """What the regularizer adds."""
        if self.own is not None:
            own = self.own
            return self.rounds * sum(own.value(v, i) for i, v in enumerate(w[: self.d].tolist()))
        return float(np.sum(np.abs(w) * self.lam1 + 0.5 * self.lam2 * w * w))

    def value(self, w: Floats) -> float:
        """The objective."""
        return float(self.h @ self.each(fill_values, self.A @ w)) + self.penalty(w)

    def prox(self, u: Floats, step: Floats) -> Floats:
        """argmin_w  penalty(w) + sum_i (w_i - u_i)^2 / (2 step_i); in a simplex for equal steps only."""
        w = u - np.clip(u, -step * self.lam1, step * self.lam1)
        if self.own is not None:
            pairs = zip(u[: self.d].tolist(), (self.rounds * step).tolist(), strict=False)
            w[: self.d] = [self.own.prox(v, s, i) for i, (v, s) in enumerate(pairs)]
        if self.simplex:
            w[: self.d] = onto_simplex((u - step * self.lam1)[: self.d])
            return w
        return np.clip(w / (1.0 + step * self.lam2), self.lo, self.hi)

    def start(self) -> Floats:
        """Weights to start from: what the regularizer likes best."""
        if self.simplex:
            return np.append(np.full(self.d, 1.0 / self.d), np.zeros(self.lam1.size - self.d))
        return np.clip(np.zeros(self.lam1.size), self.lo, self.hi)


def make_objective(
    loss: Loss,
    regularizer: Regularizer,
    geometry: Geometry,
    chunk: Chunk,
    d: int,
    y: Floats,
    h: Floats,
    intercept: bool,
) -> Objective:
    """The objective over the working weights, and the intercept behind them."""
    rows: Any = chunk
    if isinstance(geometry, SignedEntropy) and not isinstance(regularizer, Elastic):
        # Otherwise the better of u and v is 0, and the two cost what their difference costs.
        rows, regularizer, d = geometry.enter_rows(chunk, d), geometry.enter_strengths(regularizer), 2 * d
        geometry = geometry.working()
    sparse = load("scipy.sparse")
    A = sparse.csr_matrix((rows[2], rows[1], rows[0]), shape=(chunk.rows, d))
    n = d + intercept
    if intercept:
        A = sparse.hstack([A, np.ones((chunk.rows, 1))], format="csr")
    lam, (lo, hi) = np.zeros((2, n)), np.array([[-inf], [inf]]) * np.ones(n)
    known = regularizer.strengths() is not None
    if known:
        lam[:, :d] = [[regularizer.l1(i) for i in range(d)], [regularizer.l2(i) for i in range(d)]]
    inner = regularizer
    while isinstance(inner, Box):
        lo[:d], hi[:d] = np.maximum(lo[:d], inner.lo), np.minimum(hi[:d], inner.hi)
        inner = inner.regularizer
    positive = isinstance(geometry, Separable) and geometry.mirror(0.0, 0) == -inf
    if isinstance(geometry, Simplex) or (positive and not isinstance(geometry, SignedEntropy)):
        lo[:d] = np.maximum(lo[:d], 0.0)
    lam1, lam2 = chunk.rows * lam
    own, seen = None if known else regularizer, h > 0.0
    parts = loss, A[seen], y[seen], h[seen], chunk.rows, d
    return Objective(*parts, lam1, lam2, lo, hi, isinstance(geometry, Simplex), own)


def onto_simplex(u: Floats) -> Floats:
    """The nearest weights that are at least 0 and sum to 1.

    >>> onto_simplex(np.array([0.5, 0.9, -3.0]))
    array([0.3, 0.7, 0. ])
    """
    falling = np.sort(u)[::-1]
    over = (np.cumsum(falling) - 1.0) / np.arange(1, u.size + 1)
    w = np.maximum(u - over[np.flatnonzero(falling > over)[-1]], 0.0)
    return w / w.sum()


# --- the certificate --------------------------------------------------------------------------


class Candidate(NamedTuple):
    """Weights (the intercept last) with their certificate."""

    w: Floats
    value: float
    error: float
    certificate: str
    relative: float  #: the error beside the terms it is a sum of

    def rank(self) -> tuple[bool, float]:
        """Less is better, and any bound is better than none."""
        return self.certificate != GAP, self.error


class Dual(NamedTuple):
    """A point of the dual: beta, the conjugates phi*(-beta) for every row, and the pull c = A'(h beta)."""

    beta: Floats
    conjugate: Floats
    c: Floats


class Losses(NamedTuple):
    """The scores of weights, and their losses."""

    z: Floats
    values: Floats


def certify(o: Objective, w: Floats, beta: Floats | None = None) -> Candidate:
    """Weights with their certificate, from a solver's beta or from the slopes at the scores."""
    z = np.asarray(o.A @ w)
    at = Losses(z, o.each(fill_values, z))
    cost = o.penalty(w)
    value, size = float(o.h @ at.values) + cost, float(o.h @ np.abs(at.values)) + abs(cost)
    size = max(size, 1e-3 * abs(o.value(o.start())))  # what came down to nothing is not measured by itself
    dual = at_scores(o, at) if beta is None else paired(o, at, beta)
    terms = o.size_of_entries.T @ (o.h * np.abs(dual.beta))  # what the entries of c are sums of
    if o.own is None:
        noise = 8.0 * EPS * np.sqrt(z.size + 1.0) * terms
        rounding = 4.0 * EPS * (size + float((np.abs(dual.c) + terms) @ np.abs(w)))
        duals = [dual]
        if o.loss.has("conjugate_grad") and (np.abs(excess(o, dual.c)) > noise).any():
            duals.append(moved(o, at, dual, noise))
        gap, part = min(duality_gap(o, w, at, each, noise) for each in duals)
        if part > 0.0:
            return Candidate(w, value, gap + rounding, GAP, (gap + rounding) / (size or 1.0))
        if gap <= POOR * size:  # a bound by 0 alone says little, unless the objective has come down to it
            return Candidate(w, value, gap + rounding, GAP, 1.0 if endless(o) else (gap + rounding) / size)
    step = np.full(w.size, 1.0 / o.curvature.max()) if o.simplex else 1.0 / o.curvature
    slope = (w - o.prox(w + step * dual.c, step)) / step
    scale = terms + o.lam1 + o.lam2 * np.abs(w)
    relative = np.max(np.abs(slope) / np.where(scale > 0.0, scale, 1.0), initial=0.0)
    return Candidate(w, value, float(np.linalg.norm(slope)), RESIDUAL, float(relative))


def endless(o: Objective) -> bool:
    """Whether no finite score has the least loss."""
    grad = o.loss.conjugate_grad if o.loss.has("conjugate_grad") else lambda beta, y: inf
    return any(np.isinf(grad(0.0, y)) for y in np.unique(o.y).tolist())


def at_scores(o: Objective, at: Losses) -> Dual:
    """The dual point of the slopes at the scores."""
    slopes = o.each(fill_slopes, at.z)
    return Dual(-slopes, slopes * at.z - at.values, o.pull(slopes))


def paired(o: Objective, at: Losses, beta: Floats) -> Dual:
    """The dual point nearest to beta where the conjugate is finite."""
    targets, here = o.y.tolist(), at_scores(o, at)
    least, most = ([-o.loss.grad(edge, y) for y in targets] for edge in (inf, -inf))
    beta = np.clip(beta, least, most)
    scores = -np.array([o.loss.conjugate_grad(b, y) for b, y in zip(beta.tolist(), targets, strict=True)])
    conjugate = -beta * scores - o.each(fill_values, scores)
    # No score has a slope at the end of its range. At 0 the conjugate is known, elsewhere keep what is there.
    conjugate = np.where(beta == 0.0, -o.lower(), conjugate)
    known = np.isfinite(conjugate)
    beta, conjugate = np.where(known, beta, here.beta), np.where(known, conjugate, here.conjugate)
    return Dual(beta, conjugate, o.pull(-beta))


def excess(o: Objective, c: Floats) -> Floats:
    """By how much the pulls leave the set where T r* is finite."""
    bound = np.where(o.lam2 > 0.0, inf, o.lam1)
    if o.simplex:
        bound[: o.d] = inf
    return c - np.clip(c, np.where(np.isinf(o.lo), -bound, -inf), np.where(np.isinf(o.hi), bound, inf))


def moved(o: Objective, at: Losses, dual: Dual, noise: Floats) -> Dual:
    """The dual point with the least change of beta, as the loss measures it, whose pulls T r* is finite at.

    Rows that cost next to nothing do not pull at all: where rows are separated, only that is feasible.
    """
    linalg, diags = load("scipy.sparse.linalg"), load("scipy.sparse").diags
    cost, pull = o.h * (at.values - o.lower()), o.h * np.abs(dual.beta)
    idle = (cost < EPS * cost.mean()) & (pull < EPS * pull.mean())
    beta, wrong = np.where(idle, 0.0, dual.beta), np.zeros(noise.size, bool)
    for _ in range(5):
        dual = paired(o, at, beta)
        over = excess(o, dual.c)
        if not (np.abs(over) > noise).any():
            break
        wrong |= np.abs(over) > 0.0  # those put right before stay so
        room = np.sqrt(o.h * room_of(o, at.z, dual.beta))
        columns = diags(room) @ o.A[:, wrong]
        norms = np.sqrt(np.asarray(columns.multiply(columns).sum(axis=0)).ravel())
        norms = np.where(norms > 0.0, norms, 1.0)
        matrix, right = (columns @ diags(1.0 / norms)).T, over[wrong] / norms
        change = linalg.lsqr(matrix, right, atol=1e-15, btol=1e-15, conlim=0.0)[0]
        beta = dual.beta - room * change / o.h
    return dual


def room_of(o: Objective, z: Floats, beta: Floats) -> Floats:
    """How easily every beta changes: phi'' for smooth losses, the way to the nearest end for straight ones."""
    if o.straight:
        ends = [(b + o.loss.grad(inf, y), -o.loss.grad(-inf, y) - b) for b, y in zip(beta, o.y.tolist(), strict=True)]
        return np.array([max(min(pair), 0.0) for pair in ends])
    room = o.each(fill_bends, z) if o.loss.has("hess") else np.ones(z.size)
    return np.where(beta == 0.0, 0.0, room)


def duality_gap(o: Objective, w: Floats, at: Losses, dual: Dual, noise: Floats) -> tuple[float, float]:
    """The gap to a dual point, shrunk towards 0 as far as needed, and what part of it is left.

    A part s of it costs, by convexity, phi*(-s beta) <= s phi*(-beta) - (1 - s) inf phi.
    """
    beta, conjugate, c = dual
    over = np.abs(excess(o, c)) > noise
    s = float(np.min(o.lam1[over] / np.abs(c[over]), initial=1.0))
    gap = s * float(o.h @ np.abs(at.values + conjugate + beta * at.z))  # abs: only rounding is below 0
    if s < 1.0:
        above = at.values - o.lower()
        gap += (1.0 - s) * float(o.h @ above) if (above >= 0.0).all() else inf
    return gap + penalty_gap(o, w, s * c), s


def penalty_gap(o: Objective, w: Floats, c: Floats) -> float:
    """sum_i  T r(w_i) + T r*(c_i / T) - c_i w_i, where T r* is finite but for rounding."""
    if o.simplex:
        net, weights = (c - o.lam1)[: o.d], w[: o.d]
        return float(weights @ (net.max() - net) + np.abs(c * w)[o.d :].sum())
    best = maximizer(o, c)
    cost = o.lam1 * (np.abs(w) - np.abs(best)) + 0.5 * o.lam2 * (w - best) * (w + best)
    return float(np.sum(np.abs(cost - c * (w - best))))


def maximizer(o: Objective, c: Floats) -> Floats:
    """argmax_v  c v - lam1 abs(v) - lam2 v^2 / 2 over [lo, hi], 0 where only rounding would make it infinite."""
    net = c - np.clip(c, -o.lam1, o.lam1)
    far = np.where(net == 0.0, 0.0, np.where(o.lam2 > 0.0, net / o.lam2, np.copysign(inf, net)))
    best = np.clip(far, o.lo, o.hi)
    return np.where(np.isinf(best), np.clip(0.0, o.lo, o.hi), best)


# --- solvers ----------------------------------------------------------------------------------


def choose(o: Objective, solver: str | None) -> str:
    """The first solver of the module's table that can do it, or the one asked for; ValueError if that cannot."""
    free = bool(np.isinf(o.lo).all() and np.isinf(o.hi).all())
    above = bool((o.lo[: o.d] == 0.0).all() and np.isinf(o.hi).all())
    equal = np.ptp(o.lam1[: o.d]) == 0.0 == np.ptp(o.lam2[: o.d]) and not o.simplex and o.own is None and o.y.size > 0
    lasso = type(o.loss) is Squared and equal and o.lam1[0] > 0.0 and (free or above)
    ridge = type(o.loss) is Logistic and equal and o.lam1[0] == 0.0 < o.lam2[0] and free and np.ptp(o.y) > 0.0
    straight = o.straight and o.own is None and o.y.size > 0
    able = {
        "scikit-learn": lasso or ridge,
        "HiGHS": straight and not o.lam2.any(),
        "Clarabel": straight,
        "L-BFGS-B": o.own is None and not straight,
        "FISTA": not straight,
    }
    names = [name for name, can in able.items() if can]
    if solver is not None and solver not in names:
        raise ValueError(
            f"solver must be {' or '.join(map(repr, names))} for this loss and regularizer, got {solver!r}"
        )
    return solver or names[0]


def solve(o: Objective, name: str) -> tuple[Candidate, str]:
    """Weights with their certificate, and who found them."""
    method: Callable[[Objective], tuple[str, Floats, Floats | None]] = {
        "scikit-learn": by_scikit_learn,
        "HiGHS": by_highs,
        "Clarabel": by_clarabel,
        "L-BFGS-B": by_lbfgsb,
        "FISTA": by_fista,
    }[name]
    credit, w, beta = method(o)
    w = np.clip(np.where(np.isfinite(w), w, o.start()), o.lo, o.hi)
    if o.simplex:
        w[: o.d] /= w[: o.d].sum()
    best = certify(o, w, beta)
    if best.relative > EXACT and o.own is None:
        if o.straight and beta is not None:
            best = min(best, certify(o, snapped(o, w, beta), beta), key=Candidate.rank)
        elif o.loss.has("hess"):
            polished = certify(o, newton(o, w))
            if polished.rank() < best.rank():
                best, credit = polished, f"{credit}, then Newton steps"
    return best, credit


def by_scikit_learn(o: Objective) -> tuple[str, Floats, None]:
    """Coordinate descent for the lasso and the elastic net, Newton's method or L-BFGS for logistic ridge regression."""
    models = load("sklearn.linear_model")
    X, lam1, lam2, total = o.A[:, : o.d], float(o.lam1[0]), float(o.lam2[0]), float(o.h.sum())
    common: dict[str, Any] = {"fit_intercept": o.lam1.size > o.d, "tol": 1e-10}
    if X.nnz > 0.2 * X.shape[0] * X.shape[1]:
        X = X.toarray()
    if type(o.loss) is Logistic:
        how = "newton-cholesky" if o.d < DIRECT else "lbfgs"
        model = models.LogisticRegression(C=1.0 / lam2, solver=how, max_iter=1000, **common)
    else:
        common |= {"positive": bool(o.lo[0] == 0.0), "max_iter": 10_000, "alpha": (lam1 + lam2) / total}
        model = models.ElasticNet(l1_ratio=lam1 / (lam1 + lam2), **common) if lam2 > 0.0 else models.Lasso(**common)
    model.fit(X, o.y, sample_weight=o.h)
    w = np.append(np.ravel(model.coef_), np.ravel(model.intercept_) if common["fit_intercept"] else [])
    return f"scikit-learn {type(model).__name__}", w, None


class Split(NamedTuple):
    """Weights as w = S v, such that the l1 penalty is the linear cost @ v: those of both signs as v - v'."""

    S: Any
    cost: Floats
    low: Floats
    high: Floats


def split(o: Objective) -> Split:
    """The variables that solvers without an l1 penalty see."""
    sparse = load("scipy.sparse")
    both = (o.lam1 > 0.0) & (o.lo < 0.0) & (o.hi > 0.0)
    one = sparse.identity(o.lam1.size, format="csc")
    sign = np.where(o.hi <= 0.0, -1.0, 1.0)
    return Split(
        sparse.hstack([one, -one[:, both]], format="csc"),
        np.append(o.lam1 * sign, o.lam1[both]),
        np.append(np.where(both, 0.0, o.lo), np.zeros(both.sum())),
        np.append(o.hi, -o.lo[both]),
    )


def by_lbfgsb(o: Objective) -> tuple[str, Floats, None]:
    """L-BFGS-B on split weights, each scaled to the size of its column; a simplex as w = v / sum(v), v >= 0.

    On the simplex v the objective is not convex, but its stationary points are those of w.
    """
    S, cost, low, high = split(o)
    scale = np.ones(cost.size) if o.simplex else np.sqrt(np.asarray(abs(S).T @ o.curvature))
    size = abs(o.value(o.start())) or 1.0

    def weights(v: Floats) -> Floats:
        w = np.asarray(S @ (v / scale))
        if o.simplex:
            w[: o.d] /= w[: o.d].sum()
        return w

    def value_and_slope(v: Floats) -> tuple[float, Floats]:
        w = weights(v)
        z = np.asarray(o.A @ w)
        ridge = o.lam2 * w
        value = float(o.h @ o.each(fill_values, z)) + 0.5 * float(ridge @ w)
        slope = np.asarray(S.T @ (ridge - o.pull(o.each(fill_slopes, z))))
        if o.simplex:
            slope += cost
            value += float(cost @ w)
            slope[: o.d] = (slope[: o.d] - slope[: o.d] @ w[: o.d]) / v[: o.d].sum()
        else:
            value += float(cost @ (v / scale))
            slope = (slope + cost) / scale
        return min(value, 1e300) / size, np.clip(slope, -1e300, 1e300) / size

    start = o.start()
    v = np.append(start, np.zeros(cost.size - start.size)) * scale
    options = {"maxcor": 20, "maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-15, "gtol": 1e-13}
    bounds = list(zip(low * scale, high * scale, strict=True))
    found = load("scipy.optimize").minimize(
        value_and_slope, v, jac=True, method="L-BFGS-B", bounds=bounds, options=options
    )
    return "scipy L-BFGS-B", weights(found.x), None


def program(o: Objective) -> tuple[Any, Floats, Floats, Floats, Floats]:
    """A loss of straight lines as a program in v, below, above, between: matrix, right side, cost, least, most.

    Its rows say  <A_t, S v> + below_t - above_t - between_t = first kink of row t,  where below and above cost what
    the loss is steep there, and between, up to the second kink, costs nothing.
    """
    sparse = load("scipy.sparse")
    S, cost, low, high = split(o)
    targets, n = o.y.tolist(), o.y.size
    fall, rise = (np.array([abs(o.loss.grad(end, y)) for y in targets]) for end in (-inf, inf))
    first, second = (
        -np.array([o.loss.conjugate_grad(b, y) for b, y in zip(slopes.tolist(), targets, strict=True)])
        for slopes in (fall, -rise)
    )
    wide = second > first
    one = sparse.identity(n, format="csc")
    matrix = sparse.hstack([o.A @ S, one, -one, -one[:, wide]], format="csc")
    right = first
    if o.simplex:
        total = np.append(np.arange(cost.size) < o.d, np.zeros(matrix.shape[1] - cost.size))
        matrix, right = sparse.vstack([matrix, total], format="csc"), np.append(first, 1.0)
    gaps = (second - first)[wide]
    costs = np.concatenate([cost, o.h * fall, o.h * rise, np.zeros(gaps.size)])
    least = np.append(low, np.zeros(2 * n + gaps.size))
    return matrix, right, costs, least, np.concatenate([high, np.full(2 * n, inf), gaps])


def by_highs(o: Objective) -> tuple[str, Floats, Floats]:
    """The linear program, by the simplex method or, if large, by interior points with a crossover to a vertex."""
    matrix, right, cost, least, most = program(o)
    method = "highs-ds" if o.y.size < MANY else "highs-ipm"
    bounds = np.column_stack([least, most])
    found = load("scipy.optimize").linprog(cost, A_eq=matrix, b_eq=right, bounds=bounds, method=method)
    if found.x is None:
        return "scipy HiGHS", o.start(), np.zeros(o.y.size)
    S = split(o).S
    return "scipy HiGHS", np.asarray(S @ found.x[: S.shape[1]]), found.eqlin.marginals[: o.y.size] / o.h


def by_clarabel(o: Objective) -> tuple[str, Floats, Floats]:
    """The quadratic program, by interior points."""
    clarabel, sparse = load("clarabel"), load("scipy.sparse")
    matrix, right, cost, least, most = program(o)
    S = split(o).S
    n, v = cost.size, S.shape[1]
    ridge = sparse.block_diag([S.T @ sparse.diags(o.lam2) @ S, sparse.csc_matrix((n - v, n - v))])
    one = sparse.identity(n, format="csc")
    under, over = np.isfinite(least), np.isfinite(most)
    rows = sparse.vstack([matrix, -one[under], one[over]], format="csc")
    sides = np.concatenate([right, -least[under], most[over]])
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.max_iter = False, 500
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-13
    cones = [clarabel.ZeroConeT(right.size), clarabel.NonnegativeConeT(sides.size - right.size)]
    found = clarabel.DefaultSolver(sparse.triu(ridge, format="csc"), cost, rows, sides, cones, settings).solve()
    return "Clarabel", np.asarray(S @ np.array(found.x)[:v]), -np.array(found.z)[: o.y.size] / o.h


def by_fista(o: Objective) -> tuple[str, Floats, None]:
    """Accelerated proximal gradient steps, restarted where they overshoot, in the metric of the columns' sizes."""
    metric = np.full(o.lam1.size, o.curvature.max()) if o.simplex else o.curvature
    w = v = o.start()
    long, t = 1.0, 1.0
    for _ in range(20_000):
        z = np.asarray(o.A @ v)
        base, c = float(o.h @ o.each(fill_values, z)), o.pull(o.each(fill_slopes, z))
        for _ in range(60):
            step = long / metric
            new = o.prox(v + step * c, step)
            move = new - v
            rise = float(o.h @ o.each(fill_values, np.asarray(o.A @ new))) - base
            if rise <= float(move @ (0.5 * move / step - c)) + 4.0 * EPS * abs(base):
                break
            long *= 0.5
        if float(metric @ np.square(new - w)) <= 1e-30 * float(metric @ np.square(new)) and t == 1.0:
            return "FISTA", new, None
        if float(metric @ ((v - new) * (new - w))) > 0.0:
            t, v = 1.0, new
        else:
            t, old = 0.5 + np.sqrt(0.25 + t * t), t
            v = new + (old - 1.0) / t * (new - w)
        w, long = new, 1.1 * long
    return "FISTA", w, None


# --- the last digits --------------------------------------------------------------------------


def snapped(o: Objective, w: Floats, beta: Floats) -> Floats:
    """The weights, exactly 0 or at a bound where the pull says so clearly."""
    c = o.pull(-beta)
    inside = (np.abs(c) < (1.0 - 1e-6) * o.lam1) & (o.lo <= 0.0) & (o.hi >= 0.0)
    slope = o.lam1 * np.sign(w) + o.lam2 * w - c
    clear = 1e-6 * np.abs(c)
    w = np.where((w - o.lo < 1e-6 * np.abs(w)) & (slope > clear), o.lo, w)
    w = np.where((o.hi - w < 1e-6 * np.abs(w)) & (slope < -clear), o.hi, w)
    return np.where(inside, 0.0, w)


def newton(o: Objective, w: Floats) -> Floats:
    """Newton steps on the weights that are free to move, on the side of 0 they are on.

    A weight rests at 0 where its l1 penalty outweighs the pull, and at a bound it is pressed against.
    """
    value = o.value(w)
    for _ in range(100):
        z = np.asarray(o.A @ w)
        c = o.pull(o.each(fill_slopes, z))
        sign = np.where(w != 0.0, np.sign(w), 1.0 if o.simplex else np.sign(c))
        slope = o.lam1 * sign + o.lam2 * w - c
        rests = (w == 0.0) & (np.abs(c) <= o.lam1) & (o.lam1 > 0.0)
        if o.simplex:
            pivot = int(np.argmax(w[: o.d]))
            slope[: o.d] -= slope[pivot]
            rests = (w == 0.0) & (slope >= 0.0) & (np.arange(w.size) < o.d)
            rests[pivot] = True  # it moves against the others
        rests |= ((w <= o.lo) & (slope > 0.0)) | ((w >= o.hi) & (slope < 0.0))
        free = np.flatnonzero(~rests & (o.size_of_entries.T @ o.h > 0.0))
        columns = o.A[:, free]
        if o.simplex:
            inside = np.append(free[free < o.d], pivot)
            columns = columns - o.A[:, [pivot]] @ (free < o.d).astype(float)[None, :]
        move = np.zeros(w.size)
        move[free] = -solve_bent(columns, o.h * o.each(fill_bends, z), o.lam2[free], slope[free])
        if o.simplex:
            move[pivot] = -move[: o.d].sum()
        low = np.where((o.lam1 > 0.0) & (sign > 0.0), np.maximum(o.lo, 0.0), o.lo)
        high = np.where((o.lam1 > 0.0) & (sign < 0.0), np.minimum(o.hi, 0.0), o.hi)
        gain = -float(slope @ move)
        for halvings in range(40):
            new = np.clip(w + 0.5**halvings * move, low, high)
            if o.simplex:
                new[inside] = onto_simplex(new[inside])
            reached = o.value(new)
            if reached <= value + 2.0 * EPS * abs(value):
                break
        else:
            return w
        if not gain > EPS * EPS * abs(value) or (new == w).all():
            return new
        w, value = new, reached
    return w


def solve_bent(columns: Any, bend: Floats, ridge: Floats, slope: Floats) -> Floats:
    """The solution of (columns' diag(bend) columns + diag(ridge)) v = slope, of least size if there are many."""
    sparse = load("scipy.sparse")
    columns = sparse.csr_matrix(columns)
    n = slope.size
    diagonal = np.asarray(columns.multiply(columns).T @ bend) + ridge
    scale = 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
    if n > DIRECT:

        def times(v: Floats) -> Floats:
            v = scale * v.ravel()
            return scale * (np.asarray(columns.T @ (bend * (columns @ v))) + ridge * v)

        linalg = load("scipy.sparse.linalg")
        operator = linalg.LinearOperator((n, n), matvec=times, dtype=np.float64)
        return scale * linalg.minres(operator, scale * slope, rtol=1e-12, maxiter=2000)[0]
    H = np.diag(ridge)
    dense = columns.nnz > 0.1 * columns.shape[0] * n
    rows = max(1, 2**22 // max(n, 1)) if dense else max(columns.shape[0], 1)
    for start in range(0, columns.shape[0], rows):
        block, weight = columns[start : start + rows], bend[start : start + rows, None]
        if dense:
            block = block.toarray()
            H = H + block.T @ (weight * block)
        else:
            H = H + (block.T @ block.multiply(weight)).toarray()
    H = scale[:, None] * H * scale
    linalg = load("scipy.linalg")
    try:
        return scale * linalg.cho_solve(linalg.cho_factor(H), scale * slope)
    except linalg.LinAlgError:  # directions in which the objective is straight
        return scale * linalg.lstsq(H, scale * slope, cond=1e-12)[0]
