"""The round's subproblem: a loss, a regularizer, a geometry and a solver that fit together."""

from __future__ import annotations

from math import inf
from typing import Any, ClassVar

import numpy as np

from fiol.components.component import (
    Component,
    PerFeature,
    check_complete,
    get_center,
    get_row_weight,
    set_row_weight,
    value_at,
)
from fiol.components.geometries import Geometry
from fiol.components.hints import meant
from fiol.components.joint_losses import JointLoss
from fiol.components.losses import Loss
from fiol.components.regularizers import Elastic, Regularizer
from fiol.components.row import Floats, Indices, JointRow, Row, RowBuffers, nth
from fiol.components.scalars import EPS, HUGE, STEEP, between, clamp
from fiol.components.simd import larger, smaller
from fiol.components.solvers import Bisection, ClosedForm, Newton, Solver

#: The relative error of beta and of the score in their equation above which the solution is refined.
SLACK = 1e-11
#: The least score that counts as different from 0.
LEAST = 1e-250
#: The largest number of turns of a refinement; each gains all digits of a double.
TURNS = 24
#: The relative change of beta after which the excess of the weights is computed anew, having lost digits.
FAR = 1e-6


class Problem(Component):
    """argmin_w  weight * phi(<x, w>; y) + rounds * r(w) + B(w, w_hat) / eta, and how to find it.

    The methods are what a solver needs of one row. `make_problem` makes a problem and checks that its parts fit. A pull
    that overflows counts as the largest double, so that a step of 0 times the pull is 0.
    """

    loss: Loss
    regularizer: Regularizer
    geometry: Geometry
    solver: Solver

    def step(self, row: Row, out: Floats) -> tuple[float, float, int]:
        """Write the minimizer into `out`; return (beta, its score, passes over the row)."""
        return self.solver.solve(self, row, out)

    def row(
        self,
        feature: Indices,
        x: Floats,
        center: Floats,
        steps: PerFeature,
        y: float,
        weight: float,
        rounds: float,
        lift: float,
        shift: float,
        z: float,
        tolerance: float,
        unit: PerFeature,
        buffers: RowBuffers,
    ) -> Row:
        """Return a row for the solver; z is the score of the weights before the round, with rounding error `tolerance`.

        The row is given in the units of its features already; `JointProblem.row` uses `unit`.
        """
        return Row(feature, x, center, steps, y, weight, rounds, lift, shift, tolerance)

    def explicit(self, row: Row, z: float) -> float:
        """Return the pull of a gradient step: beta = -weight phi'(z)."""
        return -row.weight * self.loss.least_grad(z, row.tolerance, row.y)

    def dual(self, row: Row, p: float, q: float) -> float:
        """Return the root of beta = -weight phi'(p beta + q)."""
        found = row.weight * self.loss.dual(q, row.weight * p, row.y) if row.weight > 0.0 else 0.0
        return clamp(found, -HUGE, HUGE)

    def guess(self, row: Row, p: float, q: float) -> float:
        """Return an approximation of `dual`, to start from."""
        return clamp(row.weight * self.loss.guess(q, row.weight * p, row.y), -HUGE, HUGE)

    def gap(self, row: Row, beta: float) -> float:
        """Return beta + weight phi'(g(beta)), which increases with beta and is 0 at the root."""
        return beta + row.weight * self.loss.grad(self.score(row, beta), row.y)

    def bracket(self, row: Row, low: float, high: float) -> tuple[float, float]:
        """Narrow [low, high] to the interval between 0 and -weight phi'(g(0)), which holds the root."""
        end = clamp(-row.weight * self.loss.grad(self.score(row, 0.0), row.y), -HUGE, HUGE)
        return larger(low, smaller(end, 0.0)), smaller(high, larger(end, 0.0))

    def residual(self, row: Row, beta: float, z: float) -> float:
        """Return the distance of beta from -weight phi'(z), an interval where phi has a kink."""
        return abs(self.dual(row, 1.0, z - beta) - beta)

    def solves(self, row: Row, beta: float, z: float, slack: float, near: float) -> bool:
        """Return whether beta is in -weight phi'(z), up to errors of `slack` in beta and `near` in z."""
        # A pull that overflows counts as the largest double: bounds may keep a score where the loss is that steep.
        left = beta + clamp(row.weight * self.loss.grad(z - near, row.y), -HUGE, HUGE)
        right = beta + clamp(row.weight * self.loss.grad(z + near, row.y), -HUGE, HUGE)
        return left <= slack and right >= -slack

    def landed(self, row: Row, steep: float, beta: float, z: float, n: int, out: Floats) -> tuple[float, float, int]:
        """Return (beta, score, passes) of a solver that found beta and z in n passes and wrote w(beta) to `out`.

        `steep` is the slope of the score without a regularizer. Where it is large, a weight may be the difference of
        two much larger numbers, and no double beta may solve the equation: then the solution is refined.
        """
        curved = not self.geometry.quadratic  # the slope at the start does not bound slopes elsewhere
        long = curved or steep * row.weight > STEEP or steep * abs(beta) > STEEP * smaller(abs(z), 1.0)
        if long and not self.solves(row, beta, z, SLACK * abs(beta), SLACK * abs(z) + LEAST):
            return self.refined(row, beta, n, out)
        return beta, z, n

    def refined(self, row: Row, beta: float, n: int, out: Floats) -> tuple[float, float, int]:
        """Return (beta, score, passes) at the root beta + delta; delta may be far below the last digit of beta.

        Each of a few turns searches delta between 0 and minus the gap there, and then adds it to the excess of all
        weights, so that the next turn starts with all digits.
        """
        excess, moved = np.empty(row.x.shape[0]), np.empty(row.x.shape[0])
        base, own, turns = beta, 0.0, 0
        delta = low = high = under = over = below = above = 0.0
        far = begins = halve = True
        done, spread = False, inf
        while True:
            if far:  # the excess is that of base, which decides on which side of 0 weights are; own is the intercept
                self.geometry.path_excess(self.regularizer, row, beta, excess)
                base, own = beta, row.shift + row.lift * beta
                spread, far = inf, False
            for k in range(row.x.shape[0]):
                moved[k] = excess[k] + delta * (self.scaled_step(row, k) * row.x[k])
            there = excess if begins else moved  # delta is 0 at the beginning of a turn
            z = self.geometry.path_near(self.regularizer, row, base, delta, there, out) + (own + row.lift * delta)
            n += 1
            if done:
                return beta, z, n
            gap = delta + beta + row.weight * self.loss.grad(z, row.y)
            if begins:
                low, high = smaller(-gap, 0.0), larger(-gap, 0.0)
                under, over = (gap, inf) if gap < 0.0 else (-inf, gap)  # the gaps there,
                below, above = (z, inf) if gap < 0.0 else (-inf, z)  # and the scores
                begins, halve = False, True
            elif gap > 0.0:
                high, over, above = delta, gap, z
            else:
                low, under, below = delta, gap, z
            wide = above - below  # infinite while a path overflows at one end
            if not (wide <= EPS * smaller(abs(z), HUGE) and high - low <= EPS * abs(beta + delta)):
                delta = between(low, high)
                if not halve and over - under < inf:  # where the gap is a line, its root
                    cut = low - under * ((high - low) / (over - under))
                    delta = cut if low < cut < high else delta
                halve = not halve
                if low < delta < high:
                    continue
            size, move = abs(own), 0.0
            for k in range(row.x.shape[0]):
                change = delta * (self.scaled_step(row, k) * row.x[k])
                excess[k] += change
                move = larger(move, abs(change) * (abs(row.x[k]) if self.geometry.quadratic else 1.0))
                size += abs(row.x[k] * out[k])
            own += row.lift * delta
            beta += delta
            turns += 1
            far = abs(delta) > FAR * abs(beta)
            # The search ends once the scores at both ends agree, or agree no better than after the turn before, unless
            # the excess is still so wrong that weights are 0, at a bound, or overflow (a large `move`).
            stuck = inf > wide >= 0.5 * spread and move <= (size if self.geometry.quadratic else 1.0)
            met = not far and (wide <= 4.0 * EPS * smaller(size, HUGE) or stuck)
            done, spread = met or turns == TURNS, wide
            delta, begins = 0.0, True

    # The path of the weights, see `Geometry`.

    def start(self, row: Row) -> tuple[float, float]:
        """Return slope and score at beta = 0 as if there were no regularizer."""
        return self.geometry.path_start(row)

    def line(self, row: Row, beta: float) -> tuple[float, float]:
        """Return (p, q) with g = p beta + q around beta."""
        return self.geometry.path_line(self.regularizer, row, beta)

    def score(self, row: Row, beta: float) -> float:
        """Return g(beta)."""
        return self.geometry.path_score(self.regularizer, row, beta)

    def fill(self, row: Row, beta: float, out: Floats) -> float:
        """Write w(beta) to `out`; return g(beta)."""
        return self.geometry.path_fill(self.regularizer, row, beta, out)

    def point(self, row: Row, beta: float, out: Floats) -> tuple[float, float]:
        """Write w(beta) to `out`; return (g(beta), g'(beta))."""
        return self.geometry.path_point(self.regularizer, row, beta, out)

    def scaled_step(self, row: Row, k: int) -> float:
        """Return the step of the k-th weight in the prox of a quadratic geometry, or else the step itself."""
        return value_at(row.steps, k) / self.geometry.metric(nth(row.feature, k))

    def weight_of(self, row: Row, k: int, beta: float) -> float:
        """Return the k-th weight of w(beta), in separable geometries."""
        step, pull = row.rounds * value_at(row.steps, k), beta / row.rounds
        return self.geometry.weight(self.regularizer, row.center[k], row.x[k], pull, step, nth(row.feature, k))  # type: ignore[attr-defined]

    def share_at(self, row: Row, k: int, beta: float) -> tuple[float, float]:
        """Return (a, b): x_k w_k is step a beta + b around beta, in quadratic geometries."""
        step, pull = row.rounds * value_at(row.steps, k), beta / row.rounds
        return self.geometry.share_of(self.regularizer, row.center[k], row.x[k], pull, step, nth(row.feature, k))  # type: ignore[attr-defined]


class CommonLine(Solver):
    """The solver of many scores, for at most a ridge: scores are lines in beta with a common slope.

    The loss then has the pulls in closed form, or by a scalar equation of its own (`JointLoss.duals`).
    """

    def solve(self, problem: Any, row: Any, out: Any) -> tuple[Any, Any, int]:
        p, q, shrunk = row.lift, row.score, False
        for j in range(row.x.shape[0]):
            i = nth(row.feature, j)
            m = problem.regularizer.shrink(row.rounds * own_step(row, j) / problem.geometry.metric(i), i)
            p += m * value_at(row.steps, j) * row.x[j] * row.x[j] / problem.geometry.metric(i)
            if m != 1.0:
                if not shrunk:
                    q, shrunk = copied(row.score, row.space), True
                for k in range(row.beta.shape[0]):
                    q[k] -= (1.0 - m) * row.x[j] * get_row_weight(row.center, i, j, k)
        problem.loss.duals(q, row.weight * p, row.y, row.beta)
        for j in range(row.x.shape[0]):
            i = nth(row.feature, j)
            m = problem.regularizer.shrink(row.rounds * own_step(row, j) / problem.geometry.metric(i), i)
            pull = row.weight * value_at(row.steps, j) * row.x[j] / problem.geometry.metric(i)
            for k in range(row.beta.shape[0]):
                w = m * (get_center(row.center, out, i, j, k) + pull * row.beta[k])
                set_row_weight(out, i, j, k, w)
        for k in range(row.beta.shape[0]):
            row.beta[k] *= row.weight
        return row.beta, q, 1


def own_step(row: JointRow, j: int) -> float:
    """Return the step of the feature at position j of the row, in the unit of that feature."""
    return (value_at(row.unit, j) * value_at(row.unit, j)) * value_at(row.steps, j)


def copied(values: Floats, out: Floats) -> Floats:
    """Copy `values` to `out`; return `out`."""
    for k in range(values.shape[0]):
        out[k] = values[k]
    return out


class JointProblem(Component):
    """A `Problem` of one score per class: argmin_W weight * phi(W'x; y) + rounds * r(W) + B(W, W_hat) / eta."""

    loss: JointLoss
    regularizer: Regularizer
    geometry: Geometry
    solver: CommonLine
    #: Whether the paths start at the weights before the round, whose scores are known.
    at_weights: ClassVar[bool] = True

    def row(
        self,
        feature: Indices,
        x: Floats,
        center: Any,
        steps: PerFeature,
        y: int,
        weight: float,
        rounds: float,
        lift: float,
        shift: Floats,
        z: Floats,
        tolerance: float,
        unit: PerFeature,
        buffers: RowBuffers,
    ) -> JointRow:
        """Return a row for the solver; z are the scores of the weights before the round, with rounding error
        `tolerance`.

        Values and weights are raw; the penalty is applied to weights times `unit`.
        """
        score = z
        if not self.at_weights:
            score = copied(shift, buffers.score)
            for j in range(x.shape[0]):
                for k in range(z.shape[0]):
                    score[k] += x[j] * get_row_weight(center, nth(feature, j), j, k)
        space = buffers.score
        return JointRow(
            feature, x, center, steps, y, weight, rounds, lift, shift, score, space, buffers.beta, tolerance, unit
        )

    def step(self, row: JointRow, out: Any) -> tuple[Any, Any, int]:
        """Write the minimizer into `out`; return (beta, the scores without any pull, passes over the row)."""
        return self.solver.solve(self, row, out)

    def explicit(self, row: JointRow, z: Floats) -> Floats:
        """Return the pulls of a gradient step: beta = -weight phi'(z)."""
        # A line as short as the rounding error shares the pull among scores that are equal up to rounding.
        self.loss.duals(z, row.tolerance, row.y, row.beta)
        for k in range(row.beta.shape[0]):
            row.beta[k] *= row.weight
        return row.beta

    def fill(self, row: JointRow, beta: Floats, out: Any) -> Floats:
        """Write the weights after pulls of beta to `out`; return the scores without any pull."""
        for j in range(row.x.shape[0]):
            i, unit = nth(row.feature, j), value_at(row.unit, j)
            x, step = row.x[j] / unit, (unit * unit) * (row.rounds * value_at(row.steps, j))
            for k in range(beta.shape[0]):
                center, pull = unit * get_center(row.center, out, i, j, k), beta[k] / row.rounds
                set_row_weight(out, i, j, k, self.geometry.weight(self.regularizer, center, x, pull, step, i) / unit)  # type: ignore[attr-defined]
        return row.score


class OffsetJointProblem(JointProblem):
    """A `JointProblem` whose paths start elsewhere than at the weights before the round."""

    at_weights: ClassVar[bool] = False


def has_common_line(regularizer: Regularizer) -> bool:
    """Return whether all scores of a row are lines in beta with a common slope: true for at most a ridge."""
    return isinstance(regularizer, Elastic) and not np.any(regularizer.strengths()[0])  # type: ignore[index]


def make_joint_problem(
    loss: JointLoss, regularizer: Regularizer, geometry: Geometry, solver: Solver | None = None, at_weights: bool = True
) -> JointProblem:
    """Return the subproblem of many scores; TypeError if its parts do not fit.

    `at_weights`: whether paths start at the weights before the round.
    """
    name = type(loss).__name__
    expect("loss", loss, JointLoss)
    expect("regularizer", regularizer, Regularizer)
    expect("geometry", geometry, Geometry)
    if not (geometry.quadratic and geometry.reparametrization().is_identity):
        refuse(f"{name} goes with Euclidean() or DiagonalMetric(), not {geometry!r}")
    if solver is not None and not isinstance(solver, CommonLine):
        refuse(f"{name} has a solver of its own: leave out {solver!r}")
    return (JointProblem if at_weights else OffsetJointProblem)(loss, regularizer, geometry, CommonLine())


def make_problem(loss: Loss, regularizer: Regularizer, geometry: Geometry, solver: Solver | None = None) -> Problem:
    """Return the subproblem in the working geometry; TypeError if its parts do not fit.

    The default solver is the fastest valid one.

    >>> from fiol import L1, Entropy, Euclidean, Ridge, Sorting, Squared
    >>> make_problem(Squared(), L1(0.1), Euclidean()).solver
    Newton(passes=200)
    >>> make_problem(Squared(), Ridge(0.1), Euclidean()).solver
    ClosedForm()
    >>> make_problem(Squared(), L1(0.1), Entropy(), Sorting())
    Traceback (most recent call last):
    TypeError: Sorting needs a piecewise linear path; Entropy bends it: use Newton()
    """
    expect("loss", loss, Loss)
    expect("regularizer", regularizer, Regularizer)
    expect("geometry", geometry, Geometry)
    refuse(geometry.objection_to(regularizer))
    working = geometry.working()
    if solver is None:
        choices = (ClosedForm(), Newton(), Bisection())
        solver = next(s for s in choices if not s.objection(regularizer, working))
    expect("solver", solver, Solver)
    refuse(solver.objection(regularizer, working))
    return Problem(loss, regularizer, working, solver)


def expect(name: str, value: Any, family: type[Component]) -> None:
    """Raise TypeError unless `value` is a complete member of `family`."""
    if isinstance(value, type) and issubclass(value, family):
        raise TypeError(f"{name} must be an instance, not the class: write {value.__name__}(...)")
    if not isinstance(value, family):
        raise TypeError(f"{name} must be a fiol.{family.__name__}, got {value!r}{meant(value, family)}")
    check_complete(value)


def refuse(objection: str) -> None:
    """Raise TypeError with the objection, if there is one."""
    if objection:
        raise TypeError(objection)
