"""The comparator of regret: the best fixed weights in hindsight, with a certificate of their precision.

Over T rows, with an intercept b or without, these weights are

    w* = argmin_w  sum_t weight_t phi(<x_t, w> + b; y_t) + T r(w).

The regularizer counts once per round, and b is not penalized. These solvers find w*:

| loss | regularizer | solver |
|---|---|---|
| squared | one l1 strength, one ridge strength or none, w >= 0 or not | scikit-learn's Lasso, ElasticNet |
| logistic | one ridge strength | scikit-learn's LogisticRegression |
| these two and all other smooth ones, yours too | any l1 and ridge strengths, in a box or not | scipy's L-BFGS-B |
| hinge, absolute, quantile, epsilon-insensitive | any l1 strengths or none, in a box or not | scipy's HiGHS |
| the same four | the same with a ridge | Clarabel |
| any smooth one | your own, by its prox | FISTA, written out in `solvers/fista.py` |

On a simplex the solvers are L-BFGS-B and HiGHS. Interior-point and gradient methods stop before the last digits: their
weights identify which weights and rows are at a kink or a bound, and then linear equations, or for smooth losses a few
Newton steps, give w*. Every solver has a file in `fiol.regret.solvers`.

The certificate does not depend on the solver, see `fiol.regret.certificate`.
"""

from __future__ import annotations

import warnings
from math import inf
from typing import Any, NamedTuple

import numpy as np

from fiol.components.component import per_feature_sizes
from fiol.components.geometries import Euclidean, Geometry
from fiol.components.losses import Loss
from fiol.components.regularizers import Regularizer, Unregularized
from fiol.components.row import Floats
from fiol.components.subproblem import make_problem
from fiol.features.chunk import Chunk
from fiol.features.containers import to_chunk
from fiol.features.targets import check_sample_weights, check_targets
from fiol.regret.certificate import POOR, Candidate, certify
from fiol.regret.libraries import one_thread
from fiol.regret.objective import Objective, fill_values, make_objective
from fiol.regret.solvers.fista import by_fista
from fiol.regret.solvers.lbfgsb import by_lbfgsb
from fiol.regret.solvers.newton import newton
from fiol.regret.solvers.programs import by_clarabel, by_highs, settled
from fiol.regret.solvers.scikit_learn import by_scikit_learn
from fiol.step import check_per_feature

#: Relative error that is good enough.
EXACT = 1e-14


class Comparator(NamedTuple):
    """The best fixed weights in hindsight, with a bound on their error."""

    w: Floats  #: the weights
    intercept: float  #: the intercept, 0 if there is none
    value: float  #: the objective there
    error: float  #: a bound on value minus the least value; or, if there is none, how far the slope is from 0
    certificate: str  #: "duality gap" or "optimality residual"
    solver: str  #: the name of the solver
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
    """Return the weights that would have been best for all rows,

        argmin_w  sum_t sample_weight_t loss(<x_t, w> + b; y_t) + T sum_i regularizer(w_i),

    over the regularizer's set Omega and the geometry's domain, and over b if there is an intercept.

    Parameters
    ----------
    loss, regularizer : components; None is no regularizer.
    X, y, sample_weight : T rows, their targets and weights, as for `Learner.learn`.
    intercept : whether there is one. An intercept is never penalized.
    geometry : only its domain matters: w >= 0 for `Entropy`, sum(w) = 1 as well for `Simplex`, and all weights for the
        quadratic ones. For `SignedEntropy` w = u - v with u, v >= 0, and the regularizer counts for both.
    solver : "scikit-learn", "L-BFGS-B", "HiGHS", "Clarabel" or "FISTA"; by default see the table above.

    Returns
    -------
    A `Comparator`. If its `certificate` is "duality gap", no weights have an objective below `value - error`. If no
    such bound is known, `error` is the norm of the slope at the weights (of a proximal gradient if there are kinks).
    Warns if these may not be the best weights, or if there are none: without a penalty the logistic loss of separable
    rows has no minimum.

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
    chunk = to_chunk(X)
    d = width(X, chunk, regularizer)
    if chunk.rows == 0 or d == 0:
        raise ValueError(f"X must have at least one row and one column, got {chunk.rows} and {d}")
    check_per_feature(make_problem(loss, regularizer, geometry), d)
    geometry.check_domain(np.full(d, geometry.first_weight(d)))
    targets, weights = check_targets(y, chunk.rows, loss), check_sample_weights(sample_weight, chunk.rows)
    o = make_objective(loss, regularizer, geometry, chunk, d, targets, weights, bool(intercept))
    best, credit = solve_quietly(o, choose_solver(o, solver))
    warn_if_doubtful(best)
    w = best.w[:d] if o.d == d else geometry.reparametrization().restore_weights(best.w[: o.d])
    b = float(best.w[-1]) if intercept else 0.0
    return Comparator(w + 0.0, b + 0.0, best.value, best.error, best.certificate, credit, chunk.rows)


def solve_quietly(o: Objective, name: str) -> tuple[Candidate, str]:
    """Return the results of `solve`, computed in one thread, without warnings of solvers: there is the certificate."""
    with one_thread(), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return solve(o, name)


def warn_if_doubtful(best: Candidate) -> None:
    """Warn the caller of `best_in_hindsight` if there are no best weights, or if these may not be the best."""
    if best.endless:
        text = f"no weights are best, larger ones always are; these come within {best.error:.2g}: add a penalty"
        warnings.warn(text, RuntimeWarning, stacklevel=3)
    elif not best.relative <= POOR:
        text = f"the best weights may not be found: {best.certificate} {best.error:.2g}, relative {best.relative:.2g}"
        warnings.warn(text, RuntimeWarning, stacklevel=3)


def width(X: Any, chunk: Chunk, regularizer: Regularizer) -> int:
    """Return the number of features: the columns, or for a chunk as many as its rows or the regularizer have."""
    if not isinstance(X, Chunk):
        return int(X.shape[1] if hasattr(X, "shape") else np.shape(X)[1])
    strengths = [shape[0] for _, shape in per_feature_sizes(regularizer)]
    return max([int(chunk.indices.max(initial=-1)) + 1, *strengths])


def choose_solver(o: Objective, solver: str | None) -> str:
    """Return the solver of this name, or the first that supports the objective; raise ValueError if it does not."""
    free, above = (np.isinf(o.hi).all() and (o.lo[: o.d] == low).all() and not o.simplex for low in (-inf, 0.0))
    known, lam1, lam2 = o.regularizer is None, o.lam1[: o.d], o.lam2[: o.d]
    equal = known and o.y.size > 0 and np.ptp(lam1) == 0.0 == np.ptp(lam2)
    lasso = o.loss.alias == "squared_error" and equal and lam1[0] > 0.0 and (free or above)
    ridge = o.loss.alias == "log_loss" and equal and lam1[0] == 0.0 < lam2[0] and free and np.ptp(o.y) > 0.0
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
    """Return weights with their certificate, and the name of the solver."""
    methods = {
        "scikit-learn": by_scikit_learn,
        "HiGHS": by_highs,
        "Clarabel": by_clarabel,
        "L-BFGS-B": by_lbfgsb,
        "FISTA": by_fista,
    }
    if (o.each(fill_values, o.scores(o.start)) <= o.lower).all():  # a quadratic program would stop before
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
