"""Regret by the book: a brute-force accountant of whole runs, and the right-hand sides of every bound on them.

    F_t(w) = f_t(w) + r(w),   f_t(w) = c_t phi(<x_t, w>; y_t)

Losses, penalties, divergences and norms are written out here once more; the library's components only say which
ones are meant. Where a loss has a kink its slope is the one of the library's `grad`, 0 between the two sides; r' of
an l1 part at 0 is `side` times its strength. Omega (a box, the simplex, the positive orthant) has the slope 0.
"""

from __future__ import annotations

from itertools import pairwise
from math import exp, inf, log, sqrt

import numpy as np

from oracles.table1 import penalty_of

# --- the functions, by the names of the components --------------------------------------------


def tube(e, epsilon):
    return np.sign(e) * max(abs(e) - epsilon, 0.0)


def sigmoid(m):
    return 1.0 / (1.0 + exp(-m)) if m > -700.0 else exp(m)


def power(z):
    return exp(z) if z < 709.0 else inf


def loss_of(loss):
    """Value and slope of phi(z; y)."""
    tau, epsilon, delta = (getattr(loss, name, None) for name in ("tau", "epsilon", "delta"))
    return {
        "Squared": (lambda z, y: (y - z) ** 2 / 2.0, lambda z, y: z - y),
        "Absolute": (lambda z, y: abs(y - z), lambda z, y: float(np.sign(z - y))),
        "Quantile": (
            lambda z, y: tau * (y - z) if y >= z else (1.0 - tau) * (z - y),
            lambda z, y: 0.0 if z == y else -tau if z < y else 1.0 - tau,
        ),
        "EpsilonInsensitive": (
            lambda z, y: max(abs(y - z) - epsilon, 0.0),
            lambda z, y: float(np.sign(tube(z - y, epsilon))),
        ),
        "SquaredEpsilonInsensitive": (
            lambda z, y: tube(z - y, epsilon) ** 2 / 2.0,
            lambda z, y: tube(z - y, epsilon),
        ),
        "Huber": (
            lambda z, y: (z - y) ** 2 / 2.0 if abs(z - y) <= delta else delta * abs(z - y) - delta**2 / 2.0,
            lambda z, y: z - y if abs(z - y) <= delta else delta * float(np.sign(z - y)),
        ),
        "Hinge": (lambda z, y: max(1.0 - y * z, 0.0), lambda z, y: -y if y * z < 1.0 else 0.0),
        "SquaredHinge": (
            lambda z, y: max(1.0 - y * z, 0.0) ** 2 / 2.0,
            lambda z, y: -y * max(1.0 - y * z, 0.0),
        ),
        "Logistic": (lambda z, y: float(np.logaddexp(0.0, -y * z)), lambda z, y: -y * sigmoid(-y * z)),
        "Exponential": (lambda z, y: power(-y * z), lambda z, y: -y * power(-y * z)),
        "Poisson": (lambda z, y: power(z) - y * z, lambda z, y: power(z) - y),
    }[type(loss).__name__]


def relative_entropy(u, w):
    if u == 0.0:
        return w
    return u * log(u / w) - u + w if w > 0.0 else inf


class Distance:
    """B, the dual of the norm in which it is strongly convex, and that convexity between two points."""

    def __init__(self, geometry, d, intercept):
        self.kind, self.d, self.intercept = type(geometry).__name__, d, intercept
        self.entropic = self.kind in ("Entropy", "SignedEntropy", "Simplex")
        matrix = np.diag(np.resize(getattr(geometry, "h", 1.0), d))
        self.matrix = np.array(getattr(geometry, "matrix", matrix), dtype=float)
        self.inverse = np.linalg.inv(self.matrix)

        self.size = np.abs(self.matrix)

    def parts(self, v):
        """The weights, and the intercept, whose geometry is Euclidean."""
        return v[: self.d], v[self.d] if self.intercept else 0.0

    def between(self, u, w):
        (a, a0), (b, b0) = self.parts(u), self.parts(w)
        if self.entropic:
            own = sum(relative_entropy(float(p), float(q)) for p, q in zip(a, b, strict=True))
        else:
            own = (a - b) @ self.matrix @ (a - b) / 2.0
        return float(own) + (a0 - b0) ** 2 / 2.0

    def dual_norm(self, v):
        a, a0 = self.parts(v)
        own = np.abs(a).max() ** 2 if self.entropic else a @ self.inverse @ a
        return sqrt(float(own) + a0**2)

    def spread(self, u, w):
        """The sizes of the terms of B(u, w), of either sign."""
        (a, a0), (b, b0) = self.parts(np.abs(u)), self.parts(np.abs(w))
        if self.entropic:
            logs = [abs(log(p)) if p > 0.0 else 0.0 for p in (*a, *b)]
            own = (a + b) @ (1.0 + np.array(logs[: self.d]) + np.array(logs[self.d :]))
        else:
            own = (a + b) @ self.size @ (a + b)
        return float(own) + (a0 + b0) ** 2

    def convexity(self, u, w):
        """c with B(u, w) >= c norm(u - w)^2 / 2: psi'' is 1/w, and sum of v^2/w >= (sum of |v|)^2 / (sum of w)."""
        if self.kind in ("Entropy", "SignedEntropy"):
            own = 1.0 / max(self.parts(u)[0].sum(), self.parts(w)[0].sum(), 1e-300)
            return float(min(own, 1.0) if self.intercept else own)
        return 1.0


# --- one run ----------------------------------------------------------------------------------


class Rounds:
    """f_t and r as functions of the weights, whatever the number of weights per feature."""

    def __init__(self, X, y, loss, regularizer, geometry, sample_weight, intercept, side):
        X = np.array(X, dtype=float)
        T, signed = len(X), type(geometry).__name__ == "SignedEntropy"
        X = np.hstack([X, -X]) if signed else X
        self.d = d = X.shape[1]
        self.X = np.hstack([X, np.ones((T, 1))]) if intercept else X
        self.y = [float(v) for v in y]
        self.weight = np.ones(T) if sample_weight is None else np.array(sample_weight, dtype=float)
        self.phi, self.slope_of = loss_of(loss)
        self.penalty, self.side, copies = penalty_of(regularizer), side, 2 if signed else 1
        strengths = self.penalty.l1, self.penalty.l2
        self.l1, self.l2 = (np.append(np.tile(np.resize(v, d // copies), copies), 0.0) for v in strengths)
        self.B = Distance(geometry, d, intercept)

    def f(self, t, w):
        return self.weight[t] * self.phi(self.X[t] @ w, self.y[t])

    def slope(self, t, w):
        return self.weight[t] * self.slope_of(self.X[t] @ w, self.y[t])

    def r(self, w):
        own = w[: self.d]
        if (own < self.penalty.lo).any() or (own > self.penalty.hi).any():
            return inf
        return float(self.l1[: self.d] @ np.abs(own) + self.l2[: self.d] @ own**2 / 2.0)

    def r_slope(self, w):
        sign = np.where(w == 0.0, self.side, np.sign(w))
        return self.l1[: len(w)] * sign + self.l2[: len(w)] * w


@np.errstate(all="ignore")  # infinite losses are losses, too
def account(
    ws, X, y, loss, regularizer, geometry, etas, comparator=None, sample_weight=None, intercept=False, side=0.0
):
    """Everything the theory speaks of, from the weights w_1 ... w_{T+1} of a run of T rounds.

    ws has T + 1 rows (of shape (2, d) for signed entropy; with an intercept, one more column, the last), `comparator`
    is a vector like them, etas one number or one per round. Returns a dict of arrays with one entry per round (t - 1
    for round t; `penalty` and `distance` have one more, `change` begins with round 2). See `against` for a comparator.
    """
    rounds = Rounds(X, y, loss, regularizer, geometry, sample_weight, intercept, side)
    X, B, T = rounds.X, rounds.B, len(rounds.X)
    ws = np.array(ws, dtype=float).reshape(T + 1, -1)
    assert ws.shape == (T + 1, X.shape[1]), (ws.shape, X.shape)
    moves, every = np.diff(ws, axis=0), range(T)
    slope = np.array([rounds.slope(t, ws[t]) for t in every])
    gradients = np.array([slope[t] * X[t] + rounds.r_slope(ws[t]) for t in every])
    loss_before, loss_after = (np.array([rounds.f(t, ws[t + after]) for t in every]) for after in (0, 1))
    penalty = np.array([rounds.r(w) for w in ws])
    rise = np.array([gradients[t] @ moves[t] for t in every])
    out = {
        "rounds": rounds,
        "w": ws,
        "eta": np.resize(np.array(etas, dtype=float), T),
        "loss": loss_before,
        "loss_after": loss_after,
        "penalty": penalty,
        "score": np.array([X[t] @ ws[t] for t in every]),
        "score_after": np.array([X[t] @ ws[t + 1] for t in every]),
        "slope": slope,
        "slope_after": np.array([rounds.slope(t, ws[t + 1]) for t in every]),
        "gradient": np.array([B.dual_norm(g) for g in gradients]),  # G_t
        "loss_gradient": np.array([B.dual_norm(slope[t] * X[t]) for t in every]),
        "x_norm": np.array([B.dual_norm(x) for x in X]),
        "rise": rise,
        "delta": loss_after + penalty[1:] - loss_before - penalty[:-1] - rise,
        "loss_delta": loss_after - loss_before - slope * np.array([X[t] @ moves[t] for t in every]),
        "moved": np.array([B.between(ws[t + 1], ws[t]) for t in every]),
        "convexity": np.array([B.convexity(ws[t + 1], ws[t]) for t in every]),
        "change": np.array([rounds.f(t, ws[t]) - rounds.f(t - 1, ws[t]) for t in every[1:]]),
    }
    out["variation"] = np.abs(out["change"]).sum()
    terms = np.abs(loss_before) + np.abs(loss_after) + penalty[:-1] + penalty[1:]
    tall = np.abs(X) * (np.abs(slope) + np.abs(out["slope_after"]))[:, None] + np.abs(gradients)
    near = np.array([B.spread(new, old) for old, new in pairwise(ws)]) / out["eta"]
    out["terms"] = terms + near + (tall * (np.abs(ws[1:]) + np.abs(ws[:-1]))).sum(axis=1)
    out["tall"] = tall
    return out if comparator is None else against(out, comparator)


@np.errstate(all="ignore")
def against(account, comparator):
    """The account with what depends on the comparator u: `gap` is F_t(w_t) - F_t(u), `regret` its running sum.

    `scale` is how large the terms of a round are: what rounding is relative to.
    """
    rounds, ws = account["rounds"], account["w"]
    u, B = np.array(comparator, dtype=float).reshape(-1), rounds.B
    own, r = np.array([rounds.f(t, u) for t in range(len(ws) - 1)]), rounds.r(u)
    gap = account["loss"] + account["penalty"][:-1] - own - r
    out = {"comparator_loss": own, "comparator_penalty": r, "gap": gap, "regret": np.cumsum(gap)}
    out["distance"] = np.array([B.between(u, w) for w in ws])
    spread = np.array([B.spread(u, w) for w in ws])
    near = (spread[:-1] + spread[1:]) / account["eta"]
    out["scale"] = account["terms"] + np.abs(own) + r + account["tall"] @ np.abs(u) + near
    return {**account, **out}


# --- right-hand sides, per round: what "gap" must not exceed ----------------------------------


def three_points(a):
    """(B(u, w_t) - B(u, w_{t+1}) - B(w_{t+1}, w_t)) / eta + F_t(w_t) - F_t(w_{t+1}): optimality and nothing else."""
    fall = a["loss"] - a["loss_after"] - np.diff(a["penalty"])
    return (-np.diff(a["distance"]) - a["moved"]) / a["eta"] + fall


def lemma1(a):
    """(B(u, w_t) - B(u, w_{t+1})) / eta + eta G_t^2 / (2 c) - delta_t."""
    return -np.diff(a["distance"]) / a["eta"] + noise(a) - a["delta"]


def lemma_strong(a, sigma):
    """Lemma 1 with  - sigma B(u, w_{t+1}), for F_t strongly convex relative to psi."""
    return lemma1(a) - sigma * a["distance"][1:]


def noise(a):
    return a["eta"] * a["gradient"] ** 2 / (2.0 * a["convexity"])


# --- right-hand sides for whole runs: what "regret"[-1] must not exceed -----------------------


def telescoped(a, D2=None):
    """Sum of (B(u, w_t) - B(u, w_{t+1})) / eta_t, or its bound by D^2 / eta_T for steps that never grow."""
    if D2 is not None:
        return D2 / a["eta"][-1]
    return float(-np.diff(a["distance"]) @ (1.0 / a["eta"]))


def theorem1(a, D2=None):
    """Any steps: D^2 / eta_T + sum of eta_t G_t^2 / (2 c) - sum of delta_t (or the telescoped sum itself)."""
    return telescoped(a, D2) + noise(a).sum() - a["delta"].sum()


def theorem1_fixed(T, D, G, c, deltas):
    """For eta = sqrt(2 c) D / (G sqrt(T))."""
    return G * D * sqrt(2.0 * T / c) - deltas


def theorem1_anytime(T, D, G, c, deltas):
    """For eta_t = sqrt(c) D / (G sqrt(t))."""
    return 2.0 * G * D * sqrt(T / c) - deltas


def theorem2(T, sigma, B1, G, c, deltas):
    """For eta_t = 1 / (sigma t); the sum of 1/t is at most 1 + log(T)."""
    return sigma * B1 + G**2 * (1.0 + log(T)) / (2.0 * c * sigma) - deltas


def proposition1(a, gamma):
    """The telescoped sum + r(w_1) + sum of eta |x|^2 phi'^2 / (2 (1 + gamma eta |x|^2)), for quadratic geometries.

    gamma is one number, or one per round: phi has that curvature between the scores before and after. With a constant
    step the telescoped sum is at most B(u, w_1) / eta, as printed.
    """
    reach = a["eta"] * a["x_norm"] ** 2
    return telescoped(a) + a["penalty"][0] + (reach * a["slope"] ** 2 / (2.0 * (1.0 + gamma * reach))).sum()


def composite(a):
    """Linearized loss: the telescoped sum + r(w_1) + sum of eta |f'|^2 / (2 c)."""
    steep = a["eta"] * a["loss_gradient"] ** 2 / (2.0 * a["convexity"])
    return telescoped(a) + a["penalty"][0] + steep.sum()


def variability(a, D2=None):
    """D^2 / eta_T + F_1(w_1) - F_T(w_{T+1}) + sum over t >= 2 of f_t(w_t) - f_{t-1}(w_t)  (r cancels).

    Without D^2 the telescoped sum stands for its first term; with a constant step that is B(u, w_1) / eta at most.
    """
    start, end = a["loss"][0] + a["penalty"][0], a["loss_after"][-1] + a["penalty"][-1]
    return telescoped(a, D2) + start - end + a["change"].sum()


def secant_curvature(a):
    """The largest gamma_t that Proposition 1 may use in round t: phi's own curvature between its two scores."""
    step = a["score_after"] - a["score"]
    return np.where(step != 0.0, 2.0 * np.maximum(a["loss_delta"], 0.0) / np.where(step != 0.0, step, 1.0) ** 2, 0.0)
