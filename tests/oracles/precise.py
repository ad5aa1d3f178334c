"""The exact step in 50-digit arithmetic: bisection on the optimality condition, nothing else.

Formulas are written from the definitions in the docstrings, per coordinate, and the root is found by halving
a bracket. Losses are given by their one-sided derivatives, so that kinks are handled exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import mpmath as mp
import numpy as np

import fiol

mp.mp.dps = 50
INF = mp.inf


def exp(v):
    """Far beyond what a double holds, any huge number will do for the sign of a bracket."""
    return mp.exp(max(min(v, mp.mpf(10) ** 5), -(mp.mpf(10) ** 5)))


def derivatives(loss, z, y):
    """Left and right derivative of the loss at score z."""
    e = z - y
    kind = type(loss).__name__
    if kind == "Squared":
        return e, e
    if kind in ("Absolute", "Quantile"):
        up, down = (mp.mpf(1), mp.mpf(-1)) if kind == "Absolute" else (1 - mp.mpf(loss.tau), -mp.mpf(loss.tau))
        return (up, up) if e > 0 else (down, down) if e < 0 else (down, up)
    if kind == "EpsilonInsensitive":
        eps = mp.mpf(loss.epsilon)
        left = 1 if e > eps else -1 if e <= -eps else 0
        right = 1 if e >= eps else -1 if e < -eps else 0
        return mp.mpf(left), mp.mpf(right)
    if kind == "SquaredEpsilonInsensitive":
        eps = mp.mpf(loss.epsilon)
        d = e - eps if e > eps else e + eps if e < -eps else mp.mpf(0)
        return d, d
    if kind == "Huber":
        d = max(-mp.mpf(loss.delta), min(mp.mpf(loss.delta), e))
        return d, d
    m = y * z
    if kind == "Hinge":
        inner = -1 if m < 1 else 0
        outer = -1 if m <= 1 else 0
        pair = (outer * y, inner * y)  # one-sided in m; ordered in z below
        return min(pair), max(pair)
    if kind == "SquaredHinge":
        d = -y * max(mp.mpf(0), 1 - m)
        return d, d
    if kind == "Logistic":
        d = -y / (1 + exp(m))
        return d, d
    if kind == "Exponential":
        d = -y * exp(-m)
        return d, d
    if kind == "Poisson":
        d = exp(z) - y
        return d, d
    raise NotImplementedError(kind)


@dataclass
class Penalty:
    l1: list
    l2: list
    lo: mp.mpf
    hi: mp.mpf


def penalty(regularizer, d):
    lo, hi = -INF, INF
    if isinstance(regularizer, fiol.Box):
        lo, hi, regularizer = mp.mpf(regularizer.lo), mp.mpf(regularizer.hi), regularizer.regularizer
    l1 = l2 = 0.0
    if isinstance(regularizer, fiol.L1):
        l1 = regularizer.lam
    elif isinstance(regularizer, fiol.Ridge):
        l2 = regularizer.lam
    elif isinstance(regularizer, fiol.ElasticNet):
        l1, l2 = regularizer.lam1, regularizer.lam2
    return Penalty(*([mp.mpf(float(v)) for v in np.broadcast_to(s, d)] for s in (l1, l2)), lo, hi)


def omega(t):
    """v + log(v) = t."""
    if t < -4 * mp.mp.dps:
        return mp.exp(t)
    v = t if t > 1 else mp.exp(t)
    for _ in range(200):
        step = (v + mp.log(v) - t) / (1 + 1 / v)
        step = v - v / 2 if step >= v else step
        v -= step
        if abs(step) < mp.mpf(10) ** (5 - mp.mp.dps) * v:
            return v
    raise AssertionError("no convergence")


def clip(v, lo, hi):
    return max(lo, min(hi, v))


class Path:
    """w(beta) for all coordinates of the doubled or plain problem."""

    def __init__(self, x, w, regularizer, geometry, eta):
        if isinstance(geometry, fiol.SignedEntropy):
            d = len(x)
            x, w = np.concatenate([x, -np.asarray(x)]), np.ravel(w)
            self.pen = penalty(regularizer, d)
            self.pen.l1, self.pen.l2 = self.pen.l1 * 2, self.pen.l2 * 2
        else:
            self.pen = penalty(regularizer, len(x))
        self.x = [mp.mpf(float(v)) for v in x]
        self.w = [mp.mpf(float(v)) for v in w]
        self.eta = mp.mpf(float(eta))
        self.geometry = geometry
        if isinstance(geometry, fiol.Mahalanobis):
            m = mp.matrix(geometry.matrix.tolist())
            a = m / self.eta + mp.diag(self.pen.l2)
            self.base = mp.lu_solve(a, m * mp.matrix(self.w) / self.eta)
            self.move = mp.lu_solve(a, mp.matrix(self.x))

    def weights(self, beta):
        g, p, eta = self.geometry, self.pen, self.eta
        if isinstance(g, fiol.Mahalanobis):
            return list(self.base + beta * self.move)
        out = []
        if isinstance(g, fiol.Simplex):
            logs = [
                mp.log(w) + eta * (beta * x - l1) if w > 0 else -INF
                for x, w, l1 in zip(self.x, self.w, p.l1, strict=True)
            ]
            top = max(logs)
            parts = [exp(v - top) for v in logs]
            return [v / sum(parts) for v in parts]
        for i, (x, w) in enumerate(zip(self.x, self.w, strict=True)):
            l1, l2 = p.l1[i], p.l2[i]
            if isinstance(g, fiol.Entropy):
                if w == 0:
                    v = mp.mpf(0)
                else:
                    t = mp.log(w) + eta * (beta * x - l1)
                    v = exp(t) if l2 == 0 else omega(t + mp.log(eta * l2)) / (eta * l2)
            else:
                h = mp.mpf(1) if isinstance(g, fiol.Euclidean) else mp.mpf(float(np.broadcast_to(g.h, len(self.x))[i]))
                a = h * w / eta + beta * x
                v = (a - clip(a, -l1, l1)) / (h / eta + l2)
            out.append(clip(v, p.lo, p.hi))
        return out

    def score(self, beta):
        return mp.fsum(x * w for x, w in zip(self.x, self.weights(beta), strict=True))


def root(path, y, loss, weight=1.0, shift=0):
    """The beta with -beta in weight * dphi(g(beta) + shift), to 30 digits.

    A bracket is halved; in between, its ends are drawn to either side of where their chord crosses zero, which is
    most of the way wherever the loss is smooth.
    """
    y, weight, tiny = mp.mpf(float(y)), mp.mpf(float(weight)), mp.mpf(10) ** -30

    def excess(beta):
        """Above 0 beyond the root, below 0 before, 0 at the root."""
        left, right = derivatives(loss, path.score(beta) + shift, y)
        left, right = beta + weight * left, beta + weight * right
        return left if left > 0 else right if right < 0 else mp.mpf(0)

    at_near = excess(mp.mpf(0))
    if at_near == 0:
        return mp.mpf(0)
    sign = -mp.sign(at_near)
    near, far = mp.mpf(0), sign * mp.mpf(10) ** -400
    at_far = excess(far)
    while at_far * sign < 0:
        near, at_near, far = far, at_far, far * mp.mpf(10) ** 50
        at_far = excess(far)
    turn = 0
    while at_far != 0 and abs(far - near) > tiny * abs(far):
        if near == 0:
            middle = far * mp.mpf(10) ** -25
        elif abs(far) > 4 * abs(near):
            middle = sign * mp.sqrt(abs(near) * abs(far))
        else:
            turn += 1
            middle = (near + far) / 2
            if turn % 3:
                chord = near - at_near * (far - near) / (at_far - at_near)
                aside = chord + (1 if turn % 3 == 1 else -1) * sign * min(tiny * abs(far) / 4, abs(far - near) / 4)
                middle = aside if min(near, far) < aside < max(near, far) else middle
        where = excess(middle)
        if where * sign < 0:
            near, at_near = middle, where
        else:
            far, at_far = middle, where
    return far


def reference(x, y, w, loss, regularizer, geometry, eta, weight=1.0):
    """(weights, beta, score) of the exact step, and the path they lie on."""
    path = Path(x, w, regularizer, geometry, eta)
    beta = root(path, y, loss, weight)
    return path.weights(beta), beta, path.score(beta), path


def position(loss, q, p, y):
    """Where z' = -phi'(z), z(0) = q is at the time p, solved in z and not in z - q: digits cancel, so take many."""
    q, p, y = mp.mpf(q), mp.mpf(p), mp.mpf(y)
    kind = type(loss).__name__
    if kind in ("Logistic", "Exponential"):  # (1 + exp(m)) m' = 1 and exp(m) m' = 1 for the margin m
        if kind == "Exponential":
            return y * mp.log(mp.exp(y * q) + p)
        return y * mp.log(omega(y * q + mp.exp(y * q) + p))
    if kind == "Poisson":  # v = exp(-z) has v' = 1 - y v
        v = mp.exp(-q) + p if y == 0 else 1 / y + (mp.exp(-q) - 1 / y) * mp.exp(-p * y)
        return -mp.log(v)
    # The others look like a constant or like the distance from the nearest minimizer.
    radius = mp.mpf(getattr(loss, "epsilon", 0))
    low, high = y - radius, y + radius
    if kind in ("Hinge", "SquaredHinge"):
        low, high = (mp.mpf(1), INF) if y > 0 else (-INF, mp.mpf(-1))
    goal = clip(q, low, high)
    if kind.startswith("Squared"):
        return goal + (q - goal) * mp.exp(-p)
    if kind == "Huber":
        delta = mp.mpf(loss.delta)
        time = max(0, abs(q - goal) - delta) / delta
        inner = goal + clip(q - goal, -delta, delta) * mp.exp(-(p - time))
        return inner if p > time else q + mp.sign(goal - q) * delta * p
    reach = max(map(abs, derivatives(loss, q, y))) * p
    return q + clip(goal - q, -reach, reach)
