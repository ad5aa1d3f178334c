"""FISTA: any smooth loss with a user's own regularizer, by its prox."""

from __future__ import annotations

import numpy as np

from fiol.regret.objective import Objective, fill_slopes
from fiol.regret.solvers.found import Found


def by_fista(o: Objective) -> Found:
    """Minimize by proximal gradient steps with momentum, in the metric of the columns' sizes.

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
            curvature = c - o.pull(
                -o.each(fill_slopes, o.scores(new))
            )  # of slopes, since values have no digits for this
            if float(move @ curvature) <= 0.5 * float(move @ (move / step)):
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
