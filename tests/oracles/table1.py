"""Table 1 of the paper by the book: dense loops over all coordinates in every round, one scalar equation each.

Every coordinate is  argmin_w  -theta w + n r(w) + psi(w) / s,  written out again for r = l1 |w| + l2 w^2 / 2 on
[lo, hi] and psi = h w^2 / 2 or w log w - w. Losses and step sizes are asked for their values and slopes, nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf, log, sqrt
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import wrightomega

import fiol
from oracles.outliers import learned

JUMPS = (fiol.Absolute, fiol.Quantile, fiol.EpsilonInsensitive, fiol.Hinge)
BINARY = (fiol.Hinge, fiol.SquaredHinge, fiol.Logistic, fiol.Exponential)


#: The parts of the sizes of its terms, and of score and target, within which a score is on a kink.
DOUBT, NEAR = 2.0**-20, 2.0**-10


def least_grad(loss, z, doubt, y):
    """The derivative nearest to 0 within `doubt` of z, of losses whose derivatives jump."""
    if not isinstance(loss, JUMPS):
        return loss.grad(z, y)
    low, high = loss.grad(z - doubt, y), loss.grad(z + doubt, y)
    return low if low > 0.0 else high if high < 0.0 else 0.0


class UndecidedError(Exception):
    """Rounding decides what happens, in the oracle as in the library: at a jump of a derivative, or near overflow."""


@dataclass
class Penalty:
    l1: object = 0.0
    l2: object = 0.0
    lo: float = -inf
    hi: float = inf


def penalty_of(regularizer):
    inner = getattr(regularizer, "regularizer", regularizer)
    lam, kind = getattr(inner, "lam", 0.0), type(inner)
    return Penalty(
        lam if kind is fiol.L1 else getattr(inner, "lam1", 0.0),
        lam if kind is fiol.Ridge else getattr(inner, "lam2", 0.0),
        getattr(regularizer, "lo", -inf),
        getattr(regularizer, "hi", inf),
    )


class Played(NamedTuple):
    """The scores before each round, and what the last one left; then the averages over all rounds."""

    scores: np.ndarray
    weights: np.ndarray
    intercept: float
    mean_weights: np.ndarray
    mean_intercept: float


def metric(step, square, bends, left, length, peak, step_scale=1.0):
    """h of one coordinate."""
    if isinstance(step, fiol.ScaleFree):
        if not (peak > 0.0 and step_scale > 0.0):
            return 0.0
        return peak**2 * metric(step.step_size, square / peak**2, bends / peak**2, left, length, 1.0) / step_scale
    if isinstance(step, fiol.Curvature):
        return step.prior * left + bends
    if isinstance(step, fiol.Normalized):
        return length
    return step.kappa + sqrt(square) if isinstance(step, fiol.AdaGrad) else 1.0


def in_units(step):
    """Whether penalties are those of weights times the largest values of their features."""
    return isinstance(step, fiol.ScaleFree) and not step.raw_penalty


def quadratic(theta, n, s, l1, l2, lo, hi, h):
    soft = max(abs(theta) - n * l1, 0.0) * (1.0 if theta > 0.0 else -1.0)
    return min(max(soft / (h / s + n * l2), lo), hi)


def entropic(theta, n, s, l1, l2, lo, hi):
    t, ridge = s * (theta - n * l1), s * n * l2  # log(w) + ridge w = t
    if t > 300.0:
        raise UndecidedError
    w = exp(t) if ridge == 0.0 else wrightomega(t + log(ridge)) / ridge
    return min(max(w, lo), hi)


def root(gap):
    """Where the increasing gap(beta) = beta + (a slope at beta) meets 0."""
    end = -gap(0.0)
    if end == 0.0 or gap(end) == 0.0:
        return end
    if not abs(end) < 1e250:
        raise UndecidedError
    return brentq(gap, 0.0, float(end), xtol=1e-300, rtol=1e-15, maxiter=2000)


@dataclass
class Game:
    """The coordinates are the features and, last, the intercept (which has x = 0 if there is none)."""

    loss: fiol.Loss
    penalty: Penalty
    step: fiol.StepSize
    loss_step: str  # implicit, linearized, importance-aware, truncated
    regularizer_step: str  # implicit, once, linearized, none
    anchor: str  # last, origin, all
    geometry: fiol.Geometry

    def start(self, d):
        self.kind, self.d = type(self.geometry).__name__, d
        one = {"Simplex": 1.0 / d, "Entropy": 1.0, "SignedEntropy": 1.0}.get(self.kind, 0.0)
        pen = self.penalty
        self.lam1, self.lam2 = (np.append(np.resize(v, d), 0.0) for v in (pen.l1, pen.l2))
        self.l1, self.l2 = self.lam1, self.lam2
        self.lo, self.hi = np.append(np.full(d, pen.lo), -inf), np.append(np.full(d, pen.hi), inf)
        self.h = np.append(np.resize(getattr(self.geometry, "h", 1.0), d), 1.0)
        self.first = np.clip(np.append(np.full(d, one), 0.0), self.lo, self.hi)
        self.w = self.first.copy()
        self.theta, self.square, self.peak, self.bends, self.pending, self.length = np.zeros((6, d + 1))
        self.slopes, self.errors, self.targets = [], [], []
        self.step_scale, self.left = np.ones((2, d + 1))

    def units(self):
        """Of the derivatives, and of the steps."""
        loss, e, y = self.loss, np.mean(self.errors), np.mean(self.targets)
        if isinstance(loss, BINARY):
            return 4.0, 1.0
        if isinstance(loss, fiol.Poisson):
            return 2.0 * y, 1.0 / y if y > 0.0 else 1.0
        if isinstance(loss, JUMPS):
            k = max(loss.tau, 1.0 - loss.tau) if isinstance(loss, fiol.Quantile) else 1.0
            return 2.0 * k, e / k
        return 2.0 * np.sqrt(np.mean(np.square(self.slopes))), 1.0

    def metric(self, i):
        kept = self.square[i], self.bends[i], self.left[i], self.length[i]
        return metric(self.step, *kept, self.peak[i], self.step_scale[i])

    def ridge_slope(self, l2):
        """Of a linearized ridge, which near the last iterate takes no more than all of a weight."""
        if self.anchor != "last" or self.kind in ("Entropy", "SignedEntropy", "Simplex"):
            return l2 * self.w
        s = np.where(self.s > 0.0, self.s, 1e-300)
        if self.kind != "Mahalanobis":
            return np.minimum(l2, self.h / s) * self.w
        values, basis = np.linalg.eigh(self.geometry.matrix)
        own = basis @ (np.minimum(l2[0], values / s[0]) * (basis.T @ self.w[: self.d]))
        return np.append(own, 0.0)

    def mirrored(self, i, w):
        """psi'(w)."""
        if self.kind in ("Entropy", "SignedEntropy") and i < self.d:
            return log(w) if w > 0.0 else -inf
        return self.h[i] * w

    def coordinate(self, i, theta, n, s):
        """argmin_w  -theta w + n r(w) + psi(w) / s."""
        terms = theta, n, s, self.l1[i], self.l2[i], self.lo[i], self.hi[i]
        if self.kind in ("Entropy", "SignedEntropy") and i < self.d:
            return entropic(*terms)
        return quadratic(*terms, self.h[i])

    def weights(self, beta):
        """argmin_w  -beta <x, w> + B(w) + C(w)."""
        x, w, s, d, new = self.x, self.w, self.s, self.d, np.empty(self.d + 1)
        implicit = self.regularizer_step in ("implicit", "once")
        pull = beta * x + self.push
        for i in range(d + 1):
            if self.kind in ("Mahalanobis", "Simplex") and i < d:
                continue
            if s[i] == 0.0:
                new[i] = w[i] if self.anchor == "last" else self.first[i]
            elif self.anchor == "last":
                new[i] = self.coordinate(i, self.mirrored(i, w[i]) / s[i] + pull[i], implicit, s[i])
            else:
                count = implicit * (1 if self.regularizer_step == "once" else self.t)
                new[i] = self.coordinate(i, self.theta[i] + pull[i], count, s[i])
        if self.kind == "Mahalanobis":
            m = self.geometry.matrix / s[0]
            new[:d] = np.linalg.solve(m + implicit * self.l2[0] * np.eye(d), m @ w[:d] + pull[:d])
        if self.kind == "Simplex":
            logits = np.log(w[:d]) + s[0] * (pull - implicit * self.l1)[:d]
            new[:d] = np.exp(logits - logits.max())
            new[:d] /= new[:d].sum()
        return new

    def reach(self):
        """How far a unit of pull moves the score where there is no penalty."""
        x, w, s, d = self.x[: self.d], self.w[: self.d], self.s[: self.d], self.d
        if self.kind == "Mahalanobis":
            own = s[0] * x @ np.linalg.solve(self.geometry.matrix, x)
        elif self.kind == "Simplex":
            own = s[0] * w @ (x - w @ x) ** 2
        else:
            own = s @ (x**2 * (w if "Entropy" in self.kind else 1.0 / self.h[:d]))
        return float(own) + self.s[d] * self.x[d] ** 2

    def round(self, t, x, y, weight, jitter):
        """One round; returns the score before it."""
        loss, every = self.loss, range(self.d + 1)
        if isinstance(self.step, fiol.ScaleFree):
            x = learned(x, self.peak)
        self.t, self.x, self.w, self.theta = t, jitter(x), jitter(self.w), jitter(self.theta)
        if (
            isinstance(self.step, fiol.ScaleFree) and self.anchor == "last"
        ):  # a value larger than any before shrinks its weight first
            growth = [self.peak[i] / abs(x[i]) if abs(x[i]) > self.peak[i] > 0.0 else 1.0 for i in every]
            self.w = np.clip(self.w * growth, self.lo, self.hi)
        z, size = float(self.x @ self.w), float(np.abs(self.x) @ np.abs(self.w))
        if not size < 1e60:
            raise UndecidedError
        doubt = DOUBT * size if y == 0.0 else min(DOUBT * size, NEAR * (abs(z) + abs(y)))
        slope = least_grad(loss, z, doubt, y)
        g = weight * slope
        inner = getattr(self.step, "step_size", self.step)
        adaptive, noise = isinstance(inner, (fiol.AdaGrad, fiol.Curvature)), getattr(inner, "noise", 0.0)
        asked = self.loss_step != "implicit" or adaptive
        unclear = any(least_grad(loss, z, (1.0 + c) * doubt, y) != slope for c in (-1e-3, 1e-3))
        if asked and (unclear or not abs(g) * np.abs(x).max() < 1e100):
            raise UndecidedError

        eta, eta_before = self.step.eta(t), self.step.eta(max(t - 1, 1))
        h_before = [self.metric(i) for i in every]
        self.slopes.append(slope)
        self.errors.append(abs(z - y))
        self.targets.append(y)
        self.peak = np.maximum(self.peak, np.abs(x))
        before = self.l1, self.l2
        if in_units(self.step) and self.kind in ("Euclidean", "DiagonalMetric"):  # lam s |w| and lam (s w)^2 / 2
            self.l1, self.l2 = self.lam1 * self.peak, self.lam2 * self.peak**2
        counts = 1.0
        unit, step_scale = self.units() if isinstance(self.step, fiol.ScaleFree) else (1.0, 1.0)
        self.step_scale[x != 0.0] = step_scale
        if isinstance(self.step, fiol.ScaleFree) and slope != 0.0:
            counts = np.linalg.norm([x[i] / self.peak[i] for i in every if x[i] != 0.0]) / unit
        for i in every:
            if x[i] != 0.0:
                self.square[i] += (g * counts * self.x[i]) ** 2
                self.bends[i] += self.pending[i]
        for i in every:  # the variance of a weight, 1 / h in its own unit, grows by the noise
            own = self.peak[i] ** 2 if isinstance(self.step, fiol.ScaleFree) else 1.0
            if x[i] != 0.0 and noise > 0.0:
                h = inner.prior * self.left[i] + self.bends[i] / own
                kept = 1.0 / (1.0 / h + noise) / h
                self.bends[i], self.left[i] = self.bends[i] * kept, self.left[i] * kept
        units = self.peak[x != 0.0] if isinstance(self.step, fiol.ScaleFree) else 1.0
        self.length[x != 0.0] = np.sum((self.x[x != 0.0] / units) ** 2)
        h = [self.metric(i) for i in every]
        self.s = jitter(np.array([eta / v if v > 0.0 else 0.0 for v in h]))

        mass = np.abs(self.theta)
        if self.anchor == "all":
            for i in every:
                sigma = h[i] / eta - h_before[i] / eta_before
                if sigma != 0.0:
                    self.theta[i] += sigma * self.mirrored(i, self.w[i])
                    mass[i] += abs(sigma * self.mirrored(i, self.w[i]))
        linearized = self.regularizer_step == "linearized"
        l1, l2 = (self.l1, self.l2) if self.anchor == "last" else before  # of weights that no larger value shrank
        self.push = -linearized * (l1 * np.sign(self.w) + self.ridge_slope(l2))

        if self.loss_step == "implicit":
            beta = root(lambda b: b + weight * loss.grad(float(self.x @ self.weights(b)), y))
        elif self.loss_step == "importance-aware":
            beta = weight * loss.flow(z, weight * self.reach(), y)
        else:
            beta = -g
            if self.loss_step == "truncated":
                most, above = weight * self.reach() * slope**2, loss.value(z, y) - loss.lower(y)
                beta *= above / most if above < most else 1.0

        beta *= 1.0 + 10.0 * (float(jitter(1.0)) - 1.0)  # solvers stop at 1e-13 of beta
        self.w, self.theta = jitter(self.w), jitter(self.theta)  # and evaluating w(beta) rounds once more
        new, moved = self.weights(beta), np.abs(beta * self.x) + np.abs(self.push)
        mass = np.abs(self.w) + self.s * (moved + (0.0 if self.anchor == "last" else mass))
        free = (new != self.lo) & (new != self.hi) & (self.l1 > 0.0)
        if linearized and (free & (mass > 0.0) & (np.abs(new) <= 1e-9 * mass)).any():
            raise UndecidedError  # is it 0 or 1e-17? The sign matters in the next round
        if not np.abs(new).max() + moved.max() < 1e60:
            raise UndecidedError
        after = float(self.x @ new)
        met = abs(beta + g) / max(abs(after - z), step_scale) if step_scale > 0.0 else 0.0
        curvature = met if isinstance(loss, JUMPS) else weight * loss.hess(after, y)
        curvature *= step_scale / (1.0 + curvature * float(self.s @ self.x**2))
        if adaptive and not curvature * np.abs(x).max() ** 2 < 1e100:
            raise UndecidedError
        self.pending = np.where(x != 0.0, curvature * x**2, self.pending)
        self.w, self.theta = new, self.theta + beta * self.x + self.push
        return z


@np.errstate(all="ignore")
def play(stream, *parts, intercept=False, jitter=lambda v: v):
    """All rounds. jitter(v) may disturb what a round starts from, to see how much rounding can matter."""
    game, x = Game(*parts), stream.x
    signed = isinstance(game.geometry, fiol.SignedEntropy)
    x = np.hstack([x, -x]) if signed else x
    game.start(x.shape[1])
    scores, total, d = [], np.zeros(game.d + 1), x.shape[1]
    for t, (row, y, weight) in enumerate(zip(x, stream.y, stream.weight, strict=True), 1):
        try:
            scores.append(game.round(t, np.append(row, float(intercept)), float(jitter(y)), float(weight), jitter))
        except OverflowError as error:
            raise UndecidedError from error
        total += jitter(game.w)
    half, found = d // 2, []
    for v in (game.w, total / len(scores)):
        found += [v[:half] - v[half:d] if signed else v[:d], v[d]]
    return Played(np.array(scores), *found)


# --- the rows of the table: loss, regularizer, anchor -----------------------------------------

EUCLID = fiol.Euclidean()


def sgd(stream, loss, penalty, step, **rest):
    return play(stream, loss, penalty, step, "linearized", "linearized", "last", EUCLID, **rest)


def pa(stream, loss, **rest):
    return pa1(stream, loss, 1e100, **rest)


def pa1(stream, loss, c, **rest):
    return iol(stream, loss, fiol.Constant(c), **rest)


def pa2(stream, loss, c, **rest):
    return iol(stream, loss, fiol.Constant(2.0 * c), **rest)


def iol(stream, loss, step, geometry=EUCLID, **rest):
    return play(stream, loss, Penalty(), step, "implicit", "none", "last", geometry, **rest)


def comid(stream, loss, penalty, step, geometry=EUCLID, **rest):
    return play(stream, loss, penalty, step, "linearized", "implicit", "last", geometry, **rest)


def rda(stream, loss, penalty, step, geometry=EUCLID, **rest):
    return play(stream, loss, penalty, step, "linearized", "implicit", "origin", geometry, **rest)


def isgd(stream, loss, penalty, step, **rest):
    return play(stream, loss, penalty, step, "implicit", "linearized", "last", EUCLID, **rest)


def fully_implicit(stream, loss, penalty, step, geometry=EUCLID, **rest):
    return play(stream, loss, penalty, step, "implicit", "implicit", "last", geometry, **rest)


def ftrl_proximal(stream, loss, penalty, step, once=False, **rest):
    return play(stream, loss, penalty, step, "linearized", "once" if once else "implicit", "all", EUCLID, **rest)


def implicit_ftrl(stream, loss, penalty, step, once=False, **rest):
    return play(stream, loss, penalty, step, "implicit", "once" if once else "implicit", "all", EUCLID, **rest)
