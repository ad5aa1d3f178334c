"""Smooth losses with l1 and ridge, in boxes and on simplexes, by scipy's L-BFGS-B."""

from __future__ import annotations

import numpy as np

from fiol.components.row import Floats
from fiol.regret.libraries import library
from fiol.regret.objective import Objective, fill_slopes, fill_values
from fiol.regret.solvers.found import Found
from fiol.regret.solvers.split import split


def by_lbfgsb(o: Objective) -> Found:
    """Minimize by L-BFGS-B; on a simplex for w = v / sum(v), v >= 0.

    As a function of such v the objective is not convex, but a stationary point of it is one in w too.
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
    minimize, bounds = library("scipy.optimize").minimize, np.column_stack([low, high])
    found = minimize(value_and_slope, v, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return Found("scipy L-BFGS-B", np.asarray(S @ found.x))
