"""Entropic geometries: weights change by factors, and stay positive."""

from __future__ import annotations

from math import exp, inf, log1p
from typing import ClassVar

import numpy as np

from fiol.components.component import common_factor, place
from fiol.components.geometries.geometry import Geometry
from fiol.components.geometries.reparametrization import Pairs, Reparametrization, WholeRows
from fiol.components.geometries.separable import Separable
from fiol.components.regularizers import Regularizer
from fiol.components.row import Floats, Row, nth
from fiol.components.scalars import safe_exp, safe_log, wright_omega


def relative_entropy(u: float, w: float) -> float:
    """Return u log(u / w) - u + w, without cancellation when u is near w."""
    if u == 0.0:
        return w
    if w == 0.0:
        return inf
    if abs(u - w) < 0.5 * w:
        d = (u - w) / w
        return w * ((1.0 + d) * log1p(d) - d)
    return u * (safe_log(u) - safe_log(w)) - u + w


class Entropy(Separable):
    """B(u, w) = sum of u log(u/w) - u + w, on weights >= 0: w(beta) = w exp(eta (beta x - lam)).

    Weights change by factors, and a weight at 0 stays there.

    >>> from fiol import Unregularized
    >>> Entropy().weight(Unregularized(), 1.0, 1.0, 0.5, 2.0, 0)  # exp(1)
    2.718281828459045
    """

    alias: ClassVar[str] = "entropy"

    def mirror(self, w: float, i: int) -> float:
        return safe_log(w)

    def inverse(self, theta: float, i: int) -> float:
        return safe_exp(theta)

    def inverse_hess(self, w: float, i: int) -> float:
        return w

    def divergence(self, u: float, w: float, i: int) -> float:
        return relative_entropy(u, w)

    def resolve(self, theta: float, ridge: float, i: int) -> float:
        # log(w) + ridge w = theta; with v = ridge w this reads v + log(v) = theta + log(ridge).
        if ridge == 0.0 or theta + safe_log(ridge) < -36.0:
            return safe_exp(theta)
        v = wright_omega(theta + safe_log(ridge))
        return safe_exp(theta - v) if v < 1.0 else v / ridge  # the logarithm of a small ridge takes digits of w

    def objection_to(self, regularizer: Regularizer) -> str:
        if regularizer.has("clip") and regularizer.clip(inf) <= 0.0:
            return f"{type(self).__name__} keeps weights positive and {regularizer} allows none"
        return super().objection_to(regularizer)

    def norm(self, v: Floats) -> float:
        return float(np.sum(np.abs(v)))

    def dual_norm(self, v: Floats) -> float:
        return float(np.max(np.abs(v), initial=0.0))

    def strong_convexity(self, u: Floats, w: Floats) -> float:
        return 1.0 / max(float(np.sum(u)), float(np.sum(w)), 1e-300)


class SignedEntropy(Entropy):
    """Weights of either sign as differences of two positive vectors (EG plus/minus).

    The weights of a step are an array of shape (2, d); the model is `w[0] - w[1]`. Every feature enters twice,
    as x and as -x, and an L1 penalty counts both parts.

    >>> pair = SignedEntropy.split(np.array([0.5, -2.0]), scale=1.0)
    >>> SignedEntropy.join(pair)
    array([ 0.5, -2. ])
    """

    alias: ClassVar[str] = "signed_entropy"

    @staticmethod
    def split(w: Floats, scale: float = 1.0) -> Floats:
        """Return two positive vectors with difference `w` and product `scale`^2."""
        root = np.hypot(w, 2.0 * scale)
        larger = 0.5 * (root + np.abs(w))
        smaller = scale * scale / larger
        return np.where(np.asarray(w) >= 0.0, [larger, smaller], [smaller, larger])

    @staticmethod
    def join(pair: Floats) -> Floats:
        """Return the weights of the model, `pair[0] - pair[1]`."""
        return pair[0] - pair[1]

    def check_domain(self, w: Floats) -> None:
        if w.ndim == 2:  # weights of the model may have either sign
            super().check_domain(w)

    def reparametrization(self) -> Reparametrization:
        return Pairs()

    def working(self) -> Geometry:
        return Entropy()

    def distance(self, u: Floats, w: Floats) -> float:
        return super().distance(np.ravel(u), np.ravel(w))


class Simplex(Geometry):
    """Relative entropy on the probability simplex: w(beta) proportional to w exp(eta (beta x - lam)).

    The weights of all features share one normalizer, so a row holds all of them. A penalty `L1` with
    one strength for all is constant here and changes nothing.

    >>> Simplex().distance(np.array([0.5, 0.5]), np.array([0.5, 0.5]))
    0.0
    """

    sums_to_one: ClassVar[bool] = True
    alias: ClassVar[str] = "simplex"

    def objection_to(self, regularizer: Regularizer) -> str:
        if not regularizer.has_ridge() and not regularizer.is_bounded():
            return ""
        return f"Simplex goes with Unregularized() and L1(), not {regularizer}: use Entropy()"

    def least_weight(self) -> float:
        return 0.0

    def check_domain(self, w: Floats) -> None:
        if (w < 0.0).any():
            raise ValueError(f"Simplex needs weights of at least 0, got w{place(w < 0.0)} = {w[w < 0.0][0]:g}")
        if abs(float(np.sum(w)) - 1.0) > 1e-6:
            raise ValueError(f"Simplex needs weights that sum to 1, got {float(np.sum(w)):g}")

    def first_weight(self, features: int) -> float:
        return 1.0 / features

    def reparametrization(self) -> Reparametrization:
        return WholeRows()

    def path_start(self, row: Row) -> tuple[float, float]:
        p = q = 0.0
        for k in range(row.x.shape[0]):
            q += row.x[k] * row.center[k]
        for k in range(row.x.shape[0]):
            p += row.center[k] * (row.x[k] - q) * (row.x[k] - q)
        return common_factor(row.steps) * p + row.lift, q + row.shift

    def path_excess(self, regularizer: Regularizer, row: Row, beta: float, out: Floats) -> None:
        """Write the logarithms of the weights, but for a constant that all of them have in common."""
        least = inf  # the part of the strengths that all features share changes nothing, and would cost digits
        for k in range(row.x.shape[0]):
            least = min(least, regularizer.l1(nth(row.feature, k)))
        for k in range(row.x.shape[0]):
            push = beta * row.x[k] - row.rounds * (regularizer.l1(nth(row.feature, k)) - least)
            out[k] = safe_log(row.center[k]) + common_factor(row.steps) * push

    def path_near(
        self, regularizer: Regularizer, row: Row, beta: float, delta: float, excess: Floats, out: Floats
    ) -> float:
        top = -inf
        for k in range(row.x.shape[0]):
            top = max(top, excess[k])
        total = 0.0
        for k in range(row.x.shape[0]):
            excess[k] -= top
            out[k] = exp(excess[k])
            total += out[k]
        z = 0.0
        for k in range(row.x.shape[0]):
            out[k] /= total
            z += row.x[k] * out[k]
        return z

    def path_fill(self, regularizer: Regularizer, row: Row, beta: float, out: Floats) -> float:
        self.path_excess(regularizer, row, beta, out)
        return self.path_near(regularizer, row, beta, 0.0, out, out) + (row.shift + row.lift * beta)

    def path_point(self, regularizer: Regularizer, row: Row, beta: float, out: Floats) -> tuple[float, float]:
        # The slope of the mean of x under w(beta) is eta times its variance.
        z = self.path_fill(regularizer, row, beta, out)
        mean, p = z - (row.shift + row.lift * beta), 0.0
        for k in range(row.x.shape[0]):
            p += out[k] * (row.x[k] - mean) * (row.x[k] - mean)
        return z, common_factor(row.steps) * p + row.lift

    def distance(self, u: Floats, w: Floats) -> float:
        return Entropy().distance(u, w)

    def norm(self, v: Floats) -> float:
        return Entropy().norm(v)

    def dual_norm(self, v: Floats) -> float:
        return Entropy().dual_norm(v)

    def strong_convexity(self, u: Floats, w: Floats) -> float:
        return 1.0
