"""The best fixed weights in hindsight, the comparator of regret, with a certificate of how good they are.

Over T rows, with an intercept b or without, they are

    w* = argmin_w  sum_t weight_t phi(<x_t, w> + b; y_t) + T r(w).

The regularizer counts once per round, and b is not penalised. Solvers of others find w*:

| loss | regularizer | solver |
|---|---|---|
| squared | one l1 strength, one ridge strength or none, w >= 0 or not | scikit-learn's Lasso, ElasticNet |
| logistic | one ridge strength | scikit-learn's LogisticRegression |
| these two and all other smooth ones, yours too | any l1 and ridge strengths, in a box or not | scipy's L-BFGS-B |
| hinge, absolute, quantile, epsilon-insensitive | any l1 strengths or none, in a box or not | scipy's HiGHS |
| the same four | the same with a ridge | Clarabel |
| any smooth one | your own, by its prox | FISTA, written out here |

On a simplex L-BFGS-B and HiGHS do it. Interior points and gradients leave the last digits open: what they found tells
which weights and which rows are at a kink or a bound, and knowing that, w* follows from linear equations or, for smooth
losses, from a few Newton steps.

The certificate is computed here, whoever found the weights. For any beta, a_t = weight_t beta_t and c = X'a, no weights
have an objective below  -sum_t weight_t phi*(-beta_t) - T r*(c / T),  where phi* and r* are the conjugates. The gap
between that and the objective of weights w with scores z is a sum of terms of which none is negative,

    sum_t weight_t (phi(z_t) + phi*(-beta_t) + beta_t z_t) + sum_i (T r(w_i) + T r*(c_i / T) - c_i w_i).

Here beta_t = -phi'(z_t), which makes the first sum 0, or beta comes from the solver. T r* may be infinite at c: if a
weight without penalty has a c_i other than 0, or one with an l1 penalty a c_i beyond its strength. Then a nearby a
where it is finite is tried too, and a is shrunk if need be. A c_i that only rounding makes infinite counts as finite.
"""

from __future__ import annotations

import functools
import importlib
import warnings
from dataclasses import dataclass, replace
from math import inf
from typing import Any, NamedTuple

import numpy as np

from fiol.components.component import per_feature_sizes
from fiol.components.geometries import Euclidean, Geometry, Separable, SignedEntropy, Simplex
from fiol.components.losses import EPS, Absolute, EpsilonInsensitive, Hinge, Logistic, Loss, Quantile, Squared
from fiol.components.problem import make_problem
from fiol.components.regularizers import Box, Regularizer, Unregularized
from fiol.components.row import Floats
from fiol.intake.chunk import Chunk
from fiol.intake.containers import to_chunk
from fiol.intake.targets import check_sample_weights, check_targets
from fiol.step import check_per_feature

#: Losses of straight lines: they fall to a first kink, are 0 up to a second one, and rise from there.
STRAIGHT = (Absolute, EpsilonInsensitive, Hinge, Quantile)
#: Relative errors: below the first there is nothing left to gain, above the second a warning says so.
EXACT, POOR = 1e-14, 1e-8
#: How many unknowns are solved for directly, and how many rows are worth compiling for.
DIRECT, MANY = 1000, 3000

GAP, RESIDUAL = "duality gap", "optimality residual"


class Comparator(NamedTuple):
    """The best fixed weights in hindsight, and how sure that is."""

    w: Floats  #: the weights
    intercept: float  #: the intercept, 0 if there is none
    value: float  #: the objective there
    error: float  #: a bound on value minus the least value; or, if there is none, how far the slope is from 0
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
    loss, regularizer : components; None is no regularizer.
    X, y, sample_weight : T rows, their targets and weights, as for `Learner.learn`.
    intercept : whether there is one. It is never penalised.
    geometry : only its domain matters: w >= 0 for `Entropy`, sum(w) = 1 as well for `Simplex`, and all weights for the
        quadratic ones. For `SignedEntropy` w = u - v with u, v >= 0, and the regularizer counts for both.
    solver : "scikit-learn", "L-BFGS-B", "HiGHS", "Clarabel" or "FISTA"; by default see the table above.

    Returns
    -------
    A `Comparator`. If its `certificate` is "duality gap", no weights have an objective below `value - error`. If no
    such bound is known, `error` is the norm of the slope at the weights (of a proximal gradient if there are kinks). A
    warning says if these may not be the best weights, or if there are none: without a penalty the logistic loss of rows
    that can be separated falls for ever.

    Examples
    --------
    >>> from fiol import L1, Squared
    >>> best = best_in_hindsight(Squared(), L1(0.5), [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [3.0, 1.0, 4.0])
    >>> best.w.round(6), round(best.value, 6), best.certificate, best.error < 1e-12
    (array([2.5, 0.5]), 5.25, 'duality gap', True)

    References
    ----------
    Song, Liu, Liu, Jiang, Zhang, "Fully Implicit Online Learning", the minimum in the definition of regret.
    Fercoq, Gramfort, Salmon, "Mind the duality gap: safer rules for the Lasso", 2015, for bounds by shrinking.
    """
    geometry = Euclidean() if geometry is None else geometry
    regularizer = Unregularized() if regularizer is None else regularizer
    problem = make_problem(loss, regularizer, geometry)
    chunk = to_chunk(X)
    d = width(X, chunk, regularizer)
    if chunk.rows == 0 or d == 0:
        raise ValueError(f"X must have at least one row and one column, got {chunk.rows} and {d}")
    check_per_feature(problem, d)
    geometry.check_weights(np.full(d, geometry.first_weight(d)))
    targets, weights = check_targets(y, chunk.rows, loss), check_sample_weights(sample_weight, chunk.rows)
    o = make_objective(loss, regularizer, geometry, chunk, d, targets, weights, bool(intercept))
    name = choose(o, solver)
    with one_thread(), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # what solvers say about themselves; the certificate knows better
        best, credit = solve(o, name)
    if best.endless:
        text = f"no weights are best, larger ones always are; these come within {best.error:.2g}: add a penalty"
        warnings.warn(text, RuntimeWarning, stacklevel=2)
    elif not best.relative <= POOR:
        text = f"the best weights may not be found: {best.certificate} {best.error:.2g}, relative {best.relative:.2g}"
        warnings.warn(text, RuntimeWarning, stacklevel=2)
    w = best.w[:d] if o.d == d else geometry.leave_weights(best.w[: o.d])
    b = float(best.w[-1]) if intercept else 0.0
    return Comparator(w + 0.0, b + 0.0, best.value, best.error, best.certificate, credit, chunk.rows)


def load(module: str) -> Any:
    """A module of the libraries that solve, or an ImportError that says how to get them."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0].replace("sklearn", "scikit-learn")
        raise ImportError(f'comparators need {package}: pip install "fiol[regret]"') from error


def one_thread() -> Any:
    """A context in which linear algebra uses one thread: several make small problems slow, and their last bits vary."""
    return controller().limit(limits=1, user_api="blas")


@functools.cache
def controller() -> Any:
    """What knows the libraries of linear algebra, which must have been loaded before."""
    load("scipy.linalg")
    return load("threadpoolctl").ThreadpoolController()


def width(X: Any, chunk: Chunk, regularizer: Regularizer) -> int:
    """How many features there are: as many as columns, or for a chunk as many as it or the regularizer mentions."""
    if not isinstance(X, Chunk):
        return int(X.shape[1] if hasattr(X, "shape") else np.shape(X)[1])
    strengths = [shape[0] for _, shape in per_feature_sizes(regularizer)]
    return max([int(chunk.indices.max(initial=-1)) + 1, *strengths])


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
    from fiol.compiler.compiled import jit  # imported here: `import fiol` loads no compiler

    return jit(loop)


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
        """Whether the loss is one of straight lines."""
        return type(self.loss) in STRAIGHT

    @functools.cached_property
    def sizes(self) -> Any:
        """A without its signs."""
        return abs(self.A)

    @functools.cached_property
    def curvature(self) -> Floats:
        """How fast the slope along every weight changes where phi'' is 1; 1 for weights without rows."""
        squares = np.asarray(self.A.multiply(self.A).T @ self.weight)
        return np.where(squares > 0.0, squares, 1.0)

    @functools.cached_property
    def lower(self) -> Floats:
        """The infimum of every row's loss."""
        return np.array([self.loss.lower(y) for y in self.y.tolist()])

    @functools.cached_property
    def ends(self) -> tuple[Floats, Floats]:
        """The least and the largest beta of every row: minus the slopes where scores are infinite."""
        least, most = ([-self.loss.grad(end, y) for y in self.y.tolist()] for end in (inf, -inf))
        return np.array(least), np.array(most)

    @functools.cached_property
    def start(self) -> Floats:
        """Weights to start from: 0 or next to it, or on a simplex all the same."""
        zeros = np.zeros(self.lam1.size)
        return np.where(np.arange(zeros.size) < self.d, 1.0 / self.d, 0.0) if self.simplex else self.inside(zeros)

    @functools.cached_property
    def start_value(self) -> float:
        """The size of the objective there."""
        return abs(self.value(self.start))

    def each(self, loop: Any, z: Floats) -> Floats:
        """What a loop over all scores writes."""
        out = np.empty_like(z)
        if z.size < MANY:  # as lists of plain numbers, on which the interpreter is fast
            loop(self.loss, z.tolist(), self.y.tolist(), out)
        else:
            compiled(loop)(self.loss, z, self.y, out)
        return out

    def scores_of(self, beta: Floats) -> Floats:
        """The scores where the loss has the slopes -beta; infinite where none has."""
        pairs = zip(beta.tolist(), self.y.tolist(), strict=True)
        return -np.array([self.loss.conjugate_grad(pull, y) for pull, y in pairs])

    def scores(self, w: Floats) -> Floats:
        """<A_t, w> of every row."""
        return np.asarray(self.A @ w)

    def pull(self, beta: Floats) -> Floats:
        """c = A'a for a = weight beta: how hard the losses pull at every weight."""
        return np.asarray(self.A.T @ (self.weight * beta))

    def penalty(self, w: Floats) -> float:
        """What is added to the losses."""
        r = self.regularizer
        if r is not None:
            return self.rounds * sum(r.value(v, i) for i, v in enumerate(w[: self.d].tolist()))
        return float(np.sum(self.lam1 * np.abs(w) + 0.5 * self.lam2 * w * w)) + self.constant

    def value(self, w: Floats) -> float:
        """The objective."""
        return self.total(self.each(fill_values, self.scores(w))) + self.penalty(w)

    def total(self, per_row: Floats) -> float:
        """The weighted sum over rows."""
        return float(self.weight @ per_row)

    def size(self, w: Floats, losses: Floats) -> float:
        """What errors are relative to: the terms of the objective, but no less than a thousandth of it at the start."""
        return max(self.total(np.abs(losses)) + abs(self.penalty(w)), 1e-3 * self.start_value) or 1.0

    def inside(self, w: Floats) -> Floats:
        """The nearest weights that are allowed (on a simplex nearly so), at a bound if that is within rounding."""
        w = np.clip(w, self.lo, self.hi)
        for bound in (self.lo, self.hi):
            w = np.where(np.abs(w - bound) <= 4.0 * EPS * np.abs(w), bound, w)
        if self.simplex:
            w[: self.d] /= w[: self.d].sum()
        return w

    def prox(self, u: Floats, step: Floats) -> Floats:
        """argmin_w  penalty(w) + sum_i (w_i - u_i)^2 / (2 step_i); on a simplex for equal steps."""
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
    loss: Loss, regularizer: Regularizer, geometry: Geometry, rows: Chunk, d: int, y: Floats, weight: Floats, bias: bool
) -> Objective:
    """The objective over the weights of a geometry, and an intercept behind them."""
    sparse = load("scipy.sparse")
    signed, known = isinstance(geometry, SignedEntropy), regularizer.strengths() is not None
    indptr, indices, data = geometry.enter_rows(rows, d) if signed and not known else rows
    if signed and not known:
        regularizer, d = geometry.enter_strengths(regularizer), geometry.entered(d)
    lam, lo, hi, constant = np.zeros((2, d + bias)), np.full(d + bias, -inf), np.full(d + bias, inf), 0.0
    if known:
        lam[:, :d] = rows.rows * np.array([[regularizer.l1(i), regularizer.l2(i)] for i in range(d)]).T
    inner = regularizer
    while isinstance(inner, Box):
        lo[:d], hi[:d] = np.maximum(lo[:d], inner.lo), np.minimum(hi[:d], inner.hi)
        inner = inner.regularizer
    simplex = isinstance(geometry, Simplex)
    if simplex or (isinstance(geometry, Separable) and geometry.mirror(0.0, 0) == -inf):
        lo[:d] = np.maximum(lo[:d], 0.0)
    if signed and known:  # one of u and v is at lo, so that the other's penalty is one of w = u - v
        least = lo[:d].copy()
        constant = float(np.sum((2.0 * lam[0, :d] + lam[1, :d] * least) * least))
        lam[0, :d] += lam[1, :d] * least
        lo[:d], hi[:d] = least - hi[:d], hi[:d] - least
    A = sparse.csr_matrix((data, indices, indptr), shape=(rows.rows, d))
    if bias:
        A = sparse.hstack([A, np.ones((rows.rows, 1))], format="csr")
    on = weight > 0.0
    parts = loss, A[on], y[on], weight[on], rows.rows, d, lam[0], lam[1], lo, hi
    return Objective(*parts, constant, simplex, None if known else regularizer)


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
    """Weights, the intercept last, with their certificate."""

    w: Floats
    value: float
    error: float
    certificate: str
    relative: float  #: the error beside the terms it is a sum of
    endless: bool  #: whether there is no minimum, and the error is what is left above the infimum

    def rank(self) -> tuple[bool, float]:
        """Less is better, and a bound is better than none."""
        return self.certificate != GAP, self.error


class Primal(NamedTuple):
    """Weights, their scores, and the losses of these."""

    w: Floats
    z: Floats
    losses: Floats


class Dual(NamedTuple):
    """beta, the conjugate phi*(-beta) of every row, and the pull c = A'(weight beta)."""

    beta: Floats
    conjugate: Floats
    c: Floats


def certify(o: Objective, w: Floats, beta: Floats | None = None) -> Candidate:
    """Weights with their certificate, from a solver's beta or from the slopes at the scores."""
    z = o.scores(w)
    at = Primal(w, z, o.each(fill_values, z))
    value, size = o.total(at.losses) + o.penalty(w), o.size(w, at.losses)
    dual = slopes_at(o, at) if beta is None else paired(o, at, beta)
    terms = np.asarray(o.sizes.T @ (o.weight * np.abs(dual.beta)))  # the pulls are sums of these
    bound, part = inf, 0.0
    if o.regularizer is None:
        noise = 8.0 * EPS * np.sqrt(z.size + 1.0) * terms
        duals = [dual]
        if o.loss.has("conjugate_grad") and (np.abs(excess(o, dual.c)) > noise).any():
            duals.append(moved(o, at, dual, noise))
        bound, part = min(duality_gap(o, at, each, noise) for each in duals)
        bound += 4.0 * EPS * (size + float((np.abs(dual.c) + terms) @ np.abs(w)))  # what rounding may have done
    step = np.full(w.size, 1.0 / o.curvature.max()) if o.simplex else 1.0 / o.curvature
    slope = (w - o.prox(w + step * dual.c, step)) / step
    relative = float(np.max(np.abs(slope) / np.maximum(terms + o.lam1 + o.lam2 * np.abs(w), 1e-300)))
    relative = relative if value < 1e300 else inf
    # That no loss is below its infimum is a bound, too, but says little unless nothing else is left.
    if bound < inf and (part > 0.0 or bound / size <= max(relative, POOR)):
        return Candidate(w, value, bound, GAP, bound / size, part == 0.0 and bound <= POOR * size and endless(o))
    return Candidate(w, value, float(np.linalg.norm(slope)), RESIDUAL, relative, False)


def endless(o: Objective) -> bool:
    """Whether no finite score has the least loss."""
    return o.loss.has("conjugate_grad") and any(np.isinf(o.loss.conjugate_grad(0.0, y)) for y in set(o.y.tolist()))


def slopes_at(o: Objective, at: Primal) -> Dual:
    """The dual point of the slopes at the scores, where the losses leave no gap."""
    slopes = o.each(fill_slopes, at.z)
    return Dual(-slopes, slopes * at.z - at.losses, o.pull(-slopes))


def paired(o: Objective, at: Primal, beta: Floats) -> Dual:
    """The dual point of the nearest beta that is minus a slope."""
    here, beta = slopes_at(o, at), np.clip(beta, *o.ends)
    z = o.scores_of(beta)
    conjugate = np.where(beta == 0.0, -o.lower, -beta * z - o.each(fill_values, z))
    found = np.isfinite(conjugate)  # not at slopes, other than 0, that a loss has only in the limit
    beta, conjugate = np.where(found, beta, here.beta), np.where(found, conjugate, here.conjugate)
    return Dual(beta, conjugate, o.pull(beta))


def excess(o: Objective, c: Floats) -> Floats:
    """How far every pull is from those at which T r* is finite."""
    bound = np.where((o.lam2 > 0.0) | (o.simplex & (np.arange(c.size) < o.d)), inf, o.lam1)
    return c - np.clip(c, np.where(np.isinf(o.lo), -bound, -inf), np.where(np.isinf(o.hi), bound, inf))


def moved(o: Objective, at: Primal, dual: Dual, noise: Floats) -> Dual:
    """The dual point with the least change of beta, by the curvature of the losses, where T r* is finite."""
    linalg, diags = load("scipy.sparse.linalg"), load("scipy.sparse").diags
    beta, wrong = dual.beta, np.zeros(noise.size, bool)
    for _ in range(5):
        dual = paired(o, at, beta)
        over = excess(o, dual.c)
        if not (np.abs(over) > noise).any():
            break
        wrong |= over != 0.0  # those put right before stay so
        room = np.sqrt(o.weight * room_of(o, at.z, dual.beta))
        columns = diags(room) @ o.A[:, wrong]
        norms = np.sqrt(np.asarray(columns.multiply(columns).sum(axis=0)).ravel())
        scale = 1.0 / np.where(norms > 0.0, norms, 1.0)
        found = linalg.lsqr((columns @ diags(scale)).T, scale * over[wrong], atol=1e-15, btol=1e-15, iter_lim=500)
        beta = dual.beta - room * found[0] / o.weight
    return dual


def room_of(o: Objective, z: Floats, beta: Floats) -> Floats:
    """How easily every beta changes: by phi'', or for straight losses as far as the nearer end of its range is."""
    if o.straight:
        least, most = o.ends
        return np.maximum(np.minimum(beta - least, most - beta), 0.0)
    return np.where(beta == 0.0, 0.0, o.each(fill_bends, z) if o.loss.has("hess") else 1.0)


def duality_gap(o: Objective, at: Primal, dual: Dual, noise: Floats) -> tuple[float, float]:
    """The gap to a dual point, shrunk as far as T r* asks for, and the part of it that is left.

    By convexity phi*(-s beta) <= s phi*(-beta) - (1 - s) inf phi for every part s.
    """
    over = np.abs(excess(o, dual.c)) > noise
    part = float(np.min(o.lam1[over] / np.abs(dual.c[over]), initial=1.0))
    # Only rounding makes a term negative, hence abs.
    gap = part * o.total(np.abs(at.losses + dual.conjugate + dual.beta * at.z))
    if part < 1.0:
        above = at.losses - o.lower
        gap += (1.0 - part) * o.total(above) if (above >= 0.0).all() else inf
    return gap + penalty_gap(o, at.w, part * dual.c), part


def penalty_gap(o: Objective, w: Floats, c: Floats) -> float:
    """sum_i  T r(w_i) + T r*(c_i / T) - c_i w_i, where T r* is finite but for rounding."""
    if o.simplex:
        net, weights = (c - o.lam1)[: o.d], w[: o.d]
        return float(weights @ (net.max() - net) + np.abs(c * w)[o.d :].sum())
    best = maximizer(o, c)
    best = np.where(np.isinf(best), np.clip(0.0, o.lo, o.hi), best)
    cost = o.lam1 * (np.abs(w) - np.abs(best)) + 0.5 * o.lam2 * (w - best) * (w + best)
    return float(np.sum(np.abs(cost - c * (w - best))))


def maximizer(o: Objective, c: Floats) -> Floats:
    """argmax_w  c w - lam1 abs(w) - lam2 w^2 / 2 over [lo, hi] for every weight."""
    net = c - np.clip(c, -o.lam1, o.lam1)
    far = np.where(net == 0.0, 0.0, np.where(o.lam2 > 0.0, net / o.lam2, np.copysign(inf, net)))
    return np.clip(far, o.lo, o.hi)


# --- solvers ----------------------------------------------------------------------------------


class Found(NamedTuple):
    """Who found which weights, and the beta found with them, if any."""

    credit: str
    w: Floats
    beta: Floats | None = None


def choose(o: Objective, solver: str | None) -> str:
    """The solver asked for, or the first that can do it; ValueError if the one asked for cannot."""
    free, above = (np.isinf(o.hi).all() and (o.lo[: o.d] == low).all() and not o.simplex for low in (-inf, 0.0))
    known, lam1, lam2 = o.regularizer is None, o.lam1[: o.d], o.lam2[: o.d]
    equal = known and o.y.size > 0 and np.ptp(lam1) == 0.0 == np.ptp(lam2)
    lasso = type(o.loss) is Squared and equal and lam1[0] > 0.0 and (free or above)
    ridge = type(o.loss) is Logistic and equal and lam1[0] == 0.0 < lam2[0] and free and np.ptp(o.y) > 0.0
    program = o.straight and known and o.y.size > 0
    able = {
        "scikit-learn": lasso or ridge,
        "HiGHS": program and not lam2.any(),
        "Clarabel": program,
        "L-BFGS-B": known and not program,
        "FISTA": not program,
    }
    names = [name for name, can in able.items() if can]
    if solver is not None and solver not in names:
        raise ValueError(f"solver must be {' or '.join(map(repr, names))} for these components, got {solver!r}")
    return solver or names[0]


def solve(o: Objective, name: str) -> tuple[Candidate, str]:
    """Weights with their certificate, and who found them."""
    methods = {
        "scikit-learn": by_scikit_learn,
        "HiGHS": by_highs,
        "Clarabel": by_clarabel,
        "L-BFGS-B": by_lbfgsb,
        "FISTA": by_fista,
    }
    if (o.each(fill_values, o.scores(o.start)) <= o.lower).all():  # a quadratic program would stop near there
        best = certify(o, o.start)
        if best.relative <= EXACT:
            return best, "none needed"
    credit, w, beta = methods[name](o)
    w = o.inside(np.where(np.isfinite(w), w, o.start))
    best = certify(o, w, beta)
    if beta is not None:
        best = min(best, certify(o, *settled(o, w, beta)), key=Candidate.rank)
    elif best.relative > EXACT and o.regularizer is None and o.loss.has("hess"):
        polished = certify(o, newton(o, w))
        if polished.rank() < best.rank():
            return polished, f"{credit}, then Newton steps"
    return best, credit


def by_scikit_learn(o: Objective) -> Found:
    """Coordinate descent for the lasso and the elastic net, Newton's method or L-BFGS for logistic regression."""
    models = load("sklearn.linear_model")
    X, lam1, lam2, bias = o.A[:, : o.d], float(o.lam1[0]), float(o.lam2[0]), o.lam1.size > o.d
    if X.nnz > 0.2 * X.shape[0] * X.shape[1]:
        X = X.toarray()
    common: dict[str, Any] = {"fit_intercept": bias, "tol": 1e-10, "max_iter": 10_000}
    if type(o.loss) is Logistic:
        how = "newton-cholesky" if o.d < DIRECT else "lbfgs"
        model = models.LogisticRegression(C=1.0 / lam2, solver=how, **common)
    else:
        common |= {"alpha": (lam1 + lam2) / float(o.weight.sum()), "positive": bool(o.lo[0] == 0.0)}
        model = models.ElasticNet(l1_ratio=lam1 / (lam1 + lam2), **common) if lam2 > 0.0 else models.Lasso(**common)
    model.fit(X, o.y, sample_weight=o.weight)
    w = np.append(np.ravel(model.coef_), np.ravel(model.intercept_) if bias else [])
    return Found(f"scikit-learn {type(model).__name__}", w)


class Split(NamedTuple):
    """Weights as w = S v for v in [low, high], those of either sign as differences: l1 becomes the linear cost @ v."""

    S: Any
    cost: Floats
    low: Floats
    high: Floats


def split(o: Objective) -> Split:
    """The variables of solvers that know no l1 penalty, scaled to columns of size 1 unless they share a simplex."""
    sparse = load("scipy.sparse")
    both = (o.lam1 > 0.0) & (o.lo < 0.0) & (o.hi > 0.0)
    one = sparse.identity(o.lam1.size, format="csc")
    S = sparse.hstack([one, -one[:, both]], format="csc")
    scale = np.ones(S.shape[1]) if o.simplex else np.sqrt(np.asarray(abs(S).T @ o.curvature))
    cost = np.append(np.where(o.hi <= 0.0, -o.lam1, o.lam1), o.lam1[both])
    low, high = np.append(np.where(both, 0.0, o.lo), np.zeros(both.sum())), np.append(o.hi, -o.lo[both])
    return Split(S @ sparse.diags(1.0 / scale), cost / scale, low * scale, high * scale)


def by_lbfgsb(o: Objective) -> Found:
    """L-BFGS-B; on a simplex for w = v / sum(v), v >= 0.

    As a function of such v the objective is not convex, but where it is stationary, it is so in w.
    """
    S, cost, low, high = split(o)
    size, some = o.start_value or 1.0, slice(o.d if o.simplex else 0)

    def value_and_slope(v: Floats) -> tuple[float, Floats]:
        total = v[some].sum()
        v = np.append(v[some] / total, v[some.stop :])
        w = np.asarray(S @ v)
        z, ridge = o.scores(w), o.lam2 * w
        value = o.total(o.each(fill_values, z)) + 0.5 * float(ridge @ w) + float(cost @ v)
        slope = np.asarray(S.T @ (ridge - o.pull(-o.each(fill_slopes, z)))) + cost
        slope[some] = (slope[some] - slope[some] @ v[some]) / total
        return min(value / size, 1e300), np.clip(slope / size, -1e300, 1e300)  # losses may overflow on the way

    v = o.start if o.simplex else np.clip(0.0, low, high)
    options = {"maxcor": 20, "maxiter": 5000, "maxfun": 10_000, "ftol": 1e-15, "gtol": 1e-13}
    minimize, bounds = load("scipy.optimize").minimize, np.column_stack([low, high])
    found = minimize(value_and_slope, v, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return Found("scipy L-BFGS-B", np.asarray(S @ found.x))


class Program(NamedTuple):
    """min cost @ v  subject to  matrix @ v = right,  least <= v <= most."""

    matrix: Any
    right: Floats
    cost: Floats
    least: Floats
    most: Floats


def straight_program(o: Objective, variables: Split) -> Program:
    """A loss of straight lines as a program in v, and in how far every score is below, above and between the kinks.

    The rows say  <A_t, S v> + below - above - between = first kink;  below and above cost as the loss falls and rises.
    """
    sparse = load("scipy.sparse")
    S, cost, low, high = variables
    (least, most), n = o.ends, o.y.size
    first, second = o.scores_of(most), o.scores_of(least)
    wide = second > first
    between = (second - first)[wide]
    one = sparse.identity(n, format="csc")
    matrix, right = sparse.hstack([o.A @ S, one, -one, -one[:, wide]], format="csc"), first
    if o.simplex:
        matrix = sparse.vstack([matrix, 1.0 * (np.arange(matrix.shape[1]) < o.d)], format="csc")
        right = np.append(first, 1.0)
    return Program(
        matrix,
        right,
        np.concatenate([cost, o.weight * most, -o.weight * least, np.zeros(between.size)]),
        np.append(low, np.zeros(2 * n + between.size)),
        np.concatenate([high, np.full(2 * n, inf), between]),
    )


def by_highs(o: Objective) -> Found:
    """The linear program, by the simplex method or, if there are many rows, by interior points and a crossover."""
    variables = split(o)
    matrix, right, cost, least, most = straight_program(o, variables)
    method, bounds = "highs-ds" if o.y.size < MANY else "highs-ipm", np.column_stack([least, most])
    tight = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    linprog = load("scipy.optimize").linprog
    found = linprog(cost, A_eq=matrix, b_eq=right, bounds=bounds, method=method, options=tight)
    if found.x is None:
        return Found("scipy HiGHS", o.start, np.zeros(o.y.size))
    w = np.asarray(variables.S @ found.x[: variables.cost.size])
    return Found("scipy HiGHS", w, found.eqlin.marginals[: o.y.size] / o.weight)


def by_clarabel(o: Objective) -> Found:
    """The quadratic program, by interior points."""
    clarabel, sparse = load("clarabel"), load("scipy.sparse")
    variables = split(o)
    matrix, right, cost, least, most = straight_program(o, variables)
    S, n = variables.S, variables.cost.size
    ridge = sparse.block_diag([S.T @ sparse.diags(o.lam2) @ S, sparse.csc_matrix(2 * (cost.size - n,))])
    one, low, high = sparse.identity(cost.size, format="csc"), np.isfinite(least), np.isfinite(most)
    rows = sparse.vstack([matrix, -one[low], one[high]], format="csc")
    sides = np.concatenate([right, -least[low], most[high]])
    cones = [clarabel.ZeroConeT(right.size), clarabel.NonnegativeConeT(sides.size - right.size)]
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.max_iter = False, 500
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-13
    settings.tol_infeas_abs = settings.tol_infeas_rel = 0.0  # there are always weights, far away though they may be
    found = clarabel.DefaultSolver(sparse.triu(ridge, format="csc"), cost, rows, sides, cones, settings).solve()
    return Found("Clarabel", np.asarray(S @ np.array(found.x)[:n]), -np.array(found.z)[: o.y.size] / o.weight)


def by_fista(o: Objective) -> Found:
    """Proximal gradient steps with momentum, in the metric of the columns' sizes.

    Beck and Teboulle, "A fast iterative shrinkage-thresholding algorithm for linear inverse problems", 2009, with the
    restarts of O'Donoghue and Candes, "Adaptive restart for accelerated gradient schemes", 2015.
    """
    metric = np.full(o.lam1.size, o.curvature.max()) if o.simplex else o.curvature
    w = v = o.start
    length, pace = 1.0, 1.0
    for _ in range(20_000):
        c = o.pull(-o.each(fill_slopes, o.scores(v)))
        for _ in range(60):
            step = length / metric
            new = o.prox(v + step * c, step)
            move = new - v
            bend = c - o.pull(-o.each(fill_slopes, o.scores(new)))  # of slopes, since values have no digits for this
            if float(move @ bend) <= 0.5 * float(move @ (move / step)):
                break
            length *= 0.5
        if float(metric @ np.square(move / length)) <= 1e-28 * float(metric @ np.square(new)):
            break
        before, pace = pace, 0.5 + np.sqrt(0.25 + pace * pace)
        if float(metric @ (move * (new - w))) < 0.0:
            before = pace = 1.0
        v = new + (before - 1.0) / pace * (new - w)
        w, length = new, 1.1 * length
    return Found("FISTA", new)


# --- the last digits --------------------------------------------------------------------------


def settled(o: Objective, w: Floats, beta: Floats) -> tuple[Floats, Floats]:
    """Weights and beta of a straight loss once more, exact if it is clear what is at a kink and which weights rest.

    A score is at a kink if beta is no slope of the loss. A weight rests, at 0 or at a bound, if the pull allows nothing
    else. The other weights balance their pulls, and scores at a kink stay there: linear equations.
    """
    (least, most), sparse = o.ends, load("scipy.sparse")
    slopes = np.array([least, np.where(o.scores_of(least) > o.scores_of(most), 0.0, least), most])
    nearest = slopes[np.argmin(np.abs(slopes - beta), axis=0), np.arange(beta.size)]
    kinked = np.flatnonzero(np.abs(beta - nearest) > 1e-6 * (most - least))
    c, doubt = o.pull(beta), 1e-6 * np.asarray(o.sizes.T @ (o.weight * np.abs(beta)))
    less, more = maximizer(o, c - doubt), maximizer(o, c + doubt)
    rests = (less == more) & np.isfinite(less)
    free = np.flatnonzero(~rests)
    if kinked.size + free.size > DIRECT or o.simplex:
        return w, beta
    w, beta = np.where(rests, less, w), np.where(np.isin(np.arange(beta.size), kinked), beta, nearest)
    kinks = o.scores_of(beta)[kinked]
    block = o.A[kinked][:, free]
    matrix = sparse.bmat([[sparse.diags(o.lam2[free]), -block.T], [block, None]]).toarray()
    unbalanced = o.pull(beta) - o.lam1 * np.sign(w) - o.lam2 * w
    change = load("scipy.linalg").lstsq(matrix, np.append(unbalanced[free], kinks - o.scores(w)[kinked]))[0]
    w[free] += change[: free.size]
    beta[kinked] += change[free.size :] / o.weight[kinked]
    return o.inside(w), beta


def newton(o: Objective, w: Floats) -> Floats:
    """Newton steps, halved where they lead uphill, until rounding is all that is left."""
    if o.simplex:
        return newton_on_simplex(o, w)
    value, last, size = o.value(w), inf, o.size(w, o.each(fill_values, o.scores(w)))
    for _ in range(100):
        move, low, high, gain = newton_move(o, w)
        room = np.where(move == 0.0, inf, (np.where(move > 0.0, high, low) - w) / move)
        reach = float(np.min(room[room > 0.0], initial=1.0))  # up to where the first weight would have to stop
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
    """The same where the largest weight is what the others leave of 1: its column is taken off theirs."""
    csr = load("scipy.sparse").csr_matrix
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
    """The way to the minimum of the quadratic model, the range of weights it is good for, and what it promises to gain.

    Weights with an l1 penalty stay on their side of 0. They rest at 0 where it outweighs the pull, and others rest at
    bounds they are pressed against.
    """
    z = o.scores(w)
    c = o.pull(-o.each(fill_slopes, z))
    sign = np.where(w != 0.0, np.sign(w), np.where(o.lo >= 0.0, 1.0, np.where(o.hi <= 0.0, -1.0, np.sign(c))))
    slope = o.lam1 * sign + o.lam2 * w - c
    rests = (w == 0.0) & (np.abs(c) <= o.lam1) & (o.lam1 > 0.0)
    rests |= ((w <= o.lo) & (slope > 0.0)) | ((w >= o.hi) & (slope < 0.0)) | (o.sizes.T @ o.weight == 0.0)
    free, move = np.flatnonzero(~rests), np.zeros(w.size)
    move[free] = -solve_bent(o.A[:, free], o.weight * o.each(fill_bends, z), o.lam2[free], slope[free])
    low = np.where((o.lam1 != 0.0) & (sign > 0.0), np.maximum(o.lo, 0.0), o.lo)
    high = np.where((o.lam1 != 0.0) & (sign < 0.0), np.minimum(o.hi, 0.0), o.hi)
    return move, low, high, -float(slope @ move)


def solve_bent(columns: Any, bend: Floats, ridge: Floats, slope: Floats) -> Floats:
    """The v with (columns' diag(bend) columns + diag(ridge)) v = slope, the least one if there are many."""
    n, diagonal = slope.size, np.asarray(columns.multiply(columns).T @ bend) + ridge
    scale = 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
    if n > DIRECT:
        sparse = load("scipy.sparse.linalg")

        def times(v: Floats) -> Floats:
            v = scale * v
            return scale * (np.asarray(columns.T @ (bend * (columns @ v))) + ridge * v)

        operator = sparse.LinearOperator((n, n), matvec=times, dtype=np.float64)
        return scale * sparse.minres(operator, scale * slope, rtol=1e-6, maxiter=500)[0]
    H = scale[:, None] * (gram(columns, bend) + np.diag(ridge)) * scale
    if not np.isfinite(H).all():
        return np.zeros(n)
    values, basis = np.linalg.eigh(H)
    slopes = basis.T @ (scale * slope)
    straight = values < 1e-12  # a long way to go, unless the slope is rounding
    slopes[straight & (np.abs(slopes) < 1e-6 * np.linalg.norm(slopes))] = 0.0
    return scale * (basis @ (slopes / np.maximum(values, 1e-12)))


def gram(columns: Any, bend: Floats) -> Floats:
    """columns' diag(bend) columns."""
    rows, n = columns.shape
    if columns.nnz <= 0.1 * rows * n:
        return np.asarray((columns.T @ columns.multiply(bend[:, None])).toarray())
    total, block = np.zeros((n, n)), max(1, 2**22 // n)
    for k in range(0, rows, block):
        dense = columns[k : k + block].toarray()
        total += dense.T @ (bend[k : k + block, None] * dense)
    return total
