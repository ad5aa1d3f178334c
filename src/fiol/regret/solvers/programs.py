"""Piecewise linear losses: linear programs by scipy's HiGHS, quadratic programs by Clarabel, and their last digits.

Interior points leave the last digits open. The weights and beta they find tell which weights and which rows are at a
kink or a bound, and knowing that, w* follows from linear equations (`settled`).
"""

from __future__ import annotations

from math import inf
from typing import Any, NamedTuple

import numpy as np

from fiol.components.row import Floats
from fiol.regret.certificate import maximizer
from fiol.regret.libraries import library
from fiol.regret.objective import Objective
from fiol.regret.solvers.found import Found
from fiol.regret.solvers.split import Split, split

#: The simplex method is for fewer rows than this, interior points for more.
ROWS_FOR_SIMPLEX_METHOD = 3000
#: No more unknowns than this are solved for to get the last digits.
MOST_TO_POLISH = 1000


class Program(NamedTuple):
    """The program min cost @ v  subject to  matrix @ v = right,  least <= v <= most."""

    matrix: Any
    right: Floats
    cost: Floats
    least: Floats
    most: Floats


def straight_program(o: Objective, variables: Split) -> Program:
    """Return a piecewise linear loss as a program in v and in the distances of every score to the kinks.

    The rows say  <A_t, S v> + below - above - between = first kink;  below and above cost as the loss falls and rises.
    """
    sparse = library("scipy.sparse")
    S, cost, low, high = variables
    (least, most), n = o.ends, o.y.size
    first, second = np.array([o.loss.flat_interval(y) for y in o.y.tolist()]).T
    wide = second > first
    between = (second - first)[wide]
    one = sparse.identity(n, format="csc")
    matrix, right = sparse.hstack([o.A @ S, one, -one, -one[:, wide]], format="csc"), first
    if o.simplex:
        matrix = sparse.vstack([matrix, 1.0 * (np.arange(matrix.shape[1]) < o.d)], format="csc")
        right = np.append(first, 1.0)
    return Program(
        matrix,
        right,
        np.concatenate([cost, o.weight * most, -o.weight * least, np.zeros(between.size)]),
        np.append(low, np.zeros(2 * n + between.size)),
        np.concatenate([high, np.full(2 * n, inf), between]),
    )


def by_highs(o: Objective) -> Found:
    """Solve the linear program, by the simplex method or, for many rows, by interior points and a crossover."""
    variables = split(o)
    matrix, right, cost, least, most = straight_program(o, variables)
    method, bounds = "highs-ds" if o.y.size < ROWS_FOR_SIMPLEX_METHOD else "highs-ipm", np.column_stack([least, most])
    tight = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    linprog = library("scipy.optimize").linprog
    found = linprog(cost, A_eq=matrix, b_eq=right, bounds=bounds, method=method, options=tight)
    if found.x is None:
        return Found("scipy HiGHS", o.start, np.zeros(o.y.size))
    w = np.asarray(variables.S @ found.x[: variables.cost.size])
    return Found("scipy HiGHS", w, found.eqlin.marginals[: o.y.size] / o.weight)


def by_clarabel(o: Objective) -> Found:
    """Solve the quadratic program by interior points."""
    clarabel, sparse = library("clarabel"), library("scipy.sparse")
    variables = split(o)
    matrix, right, cost, least, most = straight_program(o, variables)
    S, n = variables.S, variables.cost.size
    ridge = sparse.block_diag([S.T @ sparse.diags(o.lam2) @ S, sparse.csc_matrix(2 * (cost.size - n,))])
    one, low, high = sparse.identity(cost.size, format="csc"), np.isfinite(least), np.isfinite(most)
    rows = sparse.vstack([matrix, -one[low], one[high]], format="csc")
    sides = np.concatenate([right, -least[low], most[high]])
    cones = [clarabel.ZeroConeT(right.size), clarabel.NonnegativeConeT(sides.size - right.size)]
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.max_iter = False, 500
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-13
    settings.tol_infeas_abs = settings.tol_infeas_rel = 0.0  # there are always weights, far away though they may be
    found = clarabel.DefaultSolver(sparse.triu(ridge, format="csc"), cost, rows, sides, cones, settings).solve()
    return Found("Clarabel", np.asarray(S @ np.array(found.x)[:n]), -np.array(found.z)[: o.y.size] / o.weight)


def settled(o: Objective, w: Floats, beta: Floats) -> tuple[Floats, Floats]:
    """Return exact weights and beta of a piecewise linear loss, if it is clear what is at a kink or a bound.

    A score is at a kink if beta is no slope of the loss. A weight rests, at 0 or at a bound, if the pull allows nothing
    else. The other weights balance their pulls, and scores at a kink stay there: linear equations.
    """
    (least, most), sparse = o.ends, library("scipy.sparse")
    slopes = np.array([least, np.where(o.scores_of(least) > o.scores_of(most), 0.0, least), most])
    nearest = slopes[np.argmin(np.abs(slopes - beta), axis=0), np.arange(beta.size)]
    kinked = np.flatnonzero(np.abs(beta - nearest) > 1e-6 * (most - least))
    c, tolerance = o.pull(beta), 1e-6 * np.asarray(o.sizes.T @ (o.weight * np.abs(beta)))
    less, more = maximizer(o, c - tolerance), maximizer(o, c + tolerance)
    rests = (less == more) & np.isfinite(less)
    free = np.flatnonzero(~rests)
    if kinked.size + free.size > MOST_TO_POLISH or o.simplex:
        return w, beta
    w, beta = np.where(rests, less, w), np.where(np.isin(np.arange(beta.size), kinked), beta, nearest)
    kinks = o.scores_of(beta)[kinked]
    block = o.A[kinked][:, free]
    matrix = sparse.bmat([[sparse.diags(o.lam2[free]), -block.T], [block, None]]).toarray()
    unbalanced = o.pull(beta) - o.lam1 * np.sign(w) - o.lam2 * w
    change = library("scipy.linalg").lstsq(matrix, np.append(unbalanced[free], kinks - o.scores(w)[kinked]))[0]
    w[free] += change[: free.size]
    beta[kinked] += change[free.size :] / o.weight[kinked]
    return o.inside(w), beta
