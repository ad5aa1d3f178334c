"""The exact step as a general convex program."""

from __future__ import annotations

import warnings

import cvxpy as cp
import numpy as np

import fiol


def loss_expression(loss, z, y):
    kind = type(loss).__name__
    return {
        "Squared": lambda: cp.square(z - y) / 2,
        "Absolute": lambda: cp.abs(z - y),
        "Quantile": lambda: cp.maximum(loss.tau * (y - z), (1 - loss.tau) * (z - y)),
        "EpsilonInsensitive": lambda: cp.pos(cp.abs(z - y) - loss.epsilon),
        "SquaredEpsilonInsensitive": lambda: cp.square(cp.pos(cp.abs(z - y) - loss.epsilon)) / 2,
        "Huber": lambda: cp.huber(z - y, loss.delta) / 2,
        "Hinge": lambda: cp.pos(1 - y * z),
        "SquaredHinge": lambda: cp.square(cp.pos(1 - y * z)) / 2,
        "Logistic": lambda: cp.logistic(-y * z),
        "Exponential": lambda: cp.exp(-y * z),
        "Poisson": lambda: cp.exp(z) - y * z,
    }[kind]()


def minimize(x, y, w, loss, l1, l2, box, geometry, eta, weight):
    v = cp.Variable(len(x))
    if isinstance(geometry, fiol.Mahalanobis):
        near = cp.quad_form(v - w, cp.psd_wrap(geometry.matrix)) / 2
    elif isinstance(geometry, (fiol.Entropy, fiol.Simplex)):
        near = cp.sum(cp.kl_div(v, w))
    else:
        h = getattr(geometry, "h", 1.0)
        near = cp.sum(cp.multiply(h * np.ones(len(x)), cp.square(v - w))) / 2
    penalty = l1 * cp.norm1(v) + l2 * cp.sum_squares(v) / 2
    limits = [v >= box[0], v <= box[1]] if np.isfinite(box[0]) else []
    if isinstance(geometry, fiol.Simplex):
        limits.append(cp.sum(v) == 1)
    objective = weight * loss_expression(loss, x @ v, y) + penalty + near / eta
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "may be inaccurate": it asked for more digits than it could get
        cp.Problem(cp.Minimize(objective), limits).solve(
            solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12
        )
    return v.value
