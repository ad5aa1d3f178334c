"""Split weights of either sign into differences, for solvers without l1 penalties."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fiol.components.row import Floats
from fiol.regret.libraries import library
from fiol.regret.objective import Objective


class Split(NamedTuple):
    """Weights as w = S v for v in [low, high], those of either sign as differences: l1 becomes the linear cost @ v."""

    S: Any
    cost: Floats
    low: Floats
    high: Floats


def split(o: Objective) -> Split:
    """Return the variables of solvers without l1 penalties, scaled to columns of size 1 except on a simplex."""
    sparse = library("scipy.sparse")
    both = (o.lam1 > 0.0) & (o.lo < 0.0) & (o.hi > 0.0)
    one = sparse.identity(o.lam1.size, format="csc")
    S = sparse.hstack([one, -one[:, both]], format="csc")
    scale = np.ones(S.shape[1]) if o.simplex else np.sqrt(np.asarray(abs(S).T @ o.curvature))
    cost = np.append(np.where(o.hi <= 0.0, -o.lam1, o.lam1), o.lam1[both])
    low, high = np.append(np.where(both, 0.0, o.lo), np.zeros(both.sum())), np.append(o.hi, -o.lo[both])
    return Split(S @ sparse.diags(1.0 / scale), cost / scale, low * scale, high * scale)
