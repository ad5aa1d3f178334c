"""Certificate of weights: an upper bound on their objective minus the least one.

The certificate does not depend on the solver. For any beta, a_t = weight_t beta_t and c = X'a, no weights have
an objective below  -sum_t weight_t phi*(-beta_t) - T r*(c / T),  where phi* and r* are the conjugates. The gap between
that and the objective of weights w with scores z is a sum of terms of which none is negative,

    sum_t weight_t (phi(z_t) + phi*(-beta_t) + beta_t z_t) + sum_i (T r(w_i) + T r*(c_i / T) - c_i w_i).

Here beta_t = -phi'(z_t), which makes the first sum 0, or beta comes from the solver. T r* may be infinite at c: if a
weight without penalty has a c_i other than 0, or one with an l1 penalty a c_i beyond its strength. Then a nearby a
where T r* is finite is tried too, and a is shrunk if need be. A c_i that only rounding makes infinite counts as finite.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np

from fiol.components.row import Floats
from fiol.components.scalars import EPS
from fiol.regret.libraries import library
from fiol.regret.objective import Objective, fill_curvatures, fill_slopes, fill_values

#: Relative error above which there is a warning.
POOR = 1e-8

GAP, RESIDUAL = "duality gap", "optimality residual"


class Candidate(NamedTuple):
    """Weights, the intercept last, with their certificate."""

    w: Floats
    value: float
    error: float
    certificate: str
    relative: float  #: the error, divided by the size of the terms that the objective is a sum of
    endless: bool  #: whether there is no minimum, and the error is what is left above the infimum

    def rank(self) -> tuple[bool, float]:
        """Return a sort key: smaller is better, and any bound is better than none."""
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
    """Return weights with their certificate, from a solver's beta or from the slopes at the scores."""
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
        bound += 4.0 * EPS * (size + float((np.abs(dual.c) + terms) @ np.abs(w)))  # rounding errors
    step = np.full(w.size, 1.0 / o.curvature.max()) if o.simplex else 1.0 / o.curvature
    slope = (w - o.prox(w + step * dual.c, step)) / step
    relative = float(np.max(np.abs(slope) / np.maximum(terms + o.lam1 + o.lam2 * np.abs(w), 1e-300)))
    relative = relative if value < 1e300 else inf
    # The infimum of every loss is a bound too, but a weak one unless there is no other.
    if bound < inf and (part > 0.0 or bound / size <= max(relative, POOR)):
        return Candidate(w, value, bound, GAP, bound / size, part == 0.0 and bound <= POOR * size and endless(o))
    return Candidate(w, value, float(np.linalg.norm(slope)), RESIDUAL, relative, False)


def endless(o: Objective) -> bool:
    """Return whether the least loss is approached at infinite scores only."""
    return o.loss.has("conjugate_grad") and any(np.isinf(o.loss.conjugate_grad(0.0, y)) for y in set(o.y.tolist()))


def slopes_at(o: Objective, at: Primal) -> Dual:
    """Return the dual point of the slopes at the scores, for which the losses have no gap."""
    slopes = o.each(fill_slopes, at.z)
    return Dual(-slopes, slopes * at.z - at.losses, o.pull(-slopes))


def paired(o: Objective, at: Primal, beta: Floats) -> Dual:
    """Return the dual point of the nearest beta that is minus a slope."""
    here, beta = slopes_at(o, at), np.clip(beta, *o.ends)
    z = o.scores_of(beta)
    conjugate = np.where(beta == 0.0, -o.lower, -beta * z - o.each(fill_values, z))
    found = np.isfinite(conjugate)  # infinite at slopes that a loss has only in the limit
    beta, conjugate = np.where(found, beta, here.beta), np.where(found, conjugate, here.conjugate)
    return Dual(beta, conjugate, o.pull(beta))


def excess(o: Objective, c: Floats) -> Floats:
    """Return the distance of every pull from those at which T r* is finite."""
    bound = np.where((o.lam2 > 0.0) | (o.simplex & (np.arange(c.size) < o.d)), inf, o.lam1)
    return c - np.clip(c, np.where(np.isinf(o.lo), -bound, -inf), np.where(np.isinf(o.hi), bound, inf))


def moved(o: Objective, at: Primal, dual: Dual, noise: Floats) -> Dual:
    """Return the dual point with finite T r* and the least change of beta, weighted by the curvature of the losses."""
    linalg, diags = library("scipy.sparse.linalg"), library("scipy.sparse").diags
    beta, wrong = dual.beta, np.zeros(noise.size, bool)
    for _ in range(5):
        dual = paired(o, at, beta)
        over = excess(o, dual.c)
        if not (np.abs(over) > noise).any():
            break
        wrong |= over != 0.0  # those corrected before are kept
        slack = np.sqrt(o.weight * slack_of(o, at.z, dual.beta))
        columns = diags(slack) @ o.A[:, wrong]
        norms = np.sqrt(np.asarray(columns.multiply(columns).sum(axis=0)).ravel())
        scale = 1.0 / np.where(norms > 0.0, norms, 1.0)
        found = linalg.lsqr((columns @ diags(scale)).T, scale * over[wrong], atol=1e-15, btol=1e-15, iter_lim=500)
        beta = dual.beta - slack * found[0] / o.weight
    return dual


def slack_of(o: Objective, z: Floats, beta: Floats) -> Floats:
    """Return how far every beta can change: by phi'', or for straight losses up to the nearer end of its range."""
    if o.straight:
        least, most = o.ends
        return np.maximum(np.minimum(beta - least, most - beta), 0.0)
    return np.where(beta == 0.0, 0.0, o.each(fill_curvatures, z) if o.loss.has("hess") else 1.0)


def duality_gap(o: Objective, at: Primal, dual: Dual, noise: Floats) -> tuple[float, float]:
    """Return the gap to a dual point, shrunk until T r* is finite, and the fraction of it that is left.

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
    """Return sum_i  T r(w_i) + T r*(c_i / T) - c_i w_i, where T r* is finite up to rounding."""
    if o.simplex:
        net, weights = (c - o.lam1)[: o.d], w[: o.d]
        return float(weights @ (net.max() - net) + np.abs(c * w)[o.d :].sum())
    best = maximizer(o, c)
    best = np.where(np.isinf(best), np.clip(0.0, o.lo, o.hi), best)
    cost = o.lam1 * (np.abs(w) - np.abs(best)) + 0.5 * o.lam2 * (w - best) * (w + best)
    return float(np.sum(np.abs(cost - c * (w - best))))


def maximizer(o: Objective, c: Floats) -> Floats:
    """Return argmax_w  c w - lam1 abs(w) - lam2 w^2 / 2 over [lo, hi] for every weight."""
    net = c - np.clip(c, -o.lam1, o.lam1)
    far = np.where(net == 0.0, 0.0, np.where(o.lam2 > 0.0, net / o.lam2, np.copysign(inf, net)))
    return np.clip(far, o.lo, o.hi)
