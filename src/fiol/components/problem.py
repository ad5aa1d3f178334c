"""The round's subproblem: a loss, a regularizer, a geometry and a solver that fit together."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from fiol.components.component import Component, PerFeature, at, center_entry, check_complete, put_row_entry, row_entry
from fiol.components.geometries import Geometry
from fiol.components.hints import meant
from fiol.components.joint_losses import JointLoss
from fiol.components.losses import Loss
from fiol.components.regularizers import Elastic, Regularizer
from fiol.components.row import Desk, Floats, Indices, JointRow, Row, nth
from fiol.components.scalars import EPS, HUGE, STEEP, between, clamp
from fiol.components.solvers import Bisection, ClosedForm, Newton, Solver

#: How far beta and the score may be from solving the equation before they are looked at again, as a part of themselves.
SLACK = 1e-11
#: No score is that small.
LEAST = 1e-250
#: So often at most: each turn gains all the digits of a double.
TURNS = 24
#: A change of beta, as a part of itself, that leaves the excess of weights few digits.
FAR = 1e-6


class Problem(Component):
    """argmin_w  weight * phi(<x, w>; y) + rounds * r(w) + B(w, w_hat) / eta, and how to find it.

    The methods are the questions a solver asks about one row. Build one with `make_problem`, which
    checks that the parts fit. A pull that is no double counts as the largest one: times a step of 0 it is 0.
    """

    loss: Loss
    regularizer: Regularizer
    geometry: Geometry
    solver: Solver

    def step(self, row: Row, out: Floats) -> tuple[float, float, int]:
        """Write the minimiser into `out`; return (beta, its score, passes over the row)."""
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
        doubt: float,
        unit: PerFeature,
        desk: Desk,
    ) -> Row:
        """A row as solvers take it; z is the score of the weights before the round, to within `doubt`.

        The row is in the units of its weights, if these have any: `unit` is of use where rows have many scores.
        """
        return Row(feature, x, center, steps, y, weight, rounds, lift, shift, doubt)

    def explicit(self, row: Row, z: float) -> float:
        """The pull of a gradient step: beta = -weight phi'(z)."""
        return -row.weight * self.loss.least_grad(z, row.doubt, row.y)

    def dual(self, row: Row, p: float, q: float) -> float:
        """The root of beta = -weight phi'(p beta + q)."""
        return clamp(row.weight * self.loss.dual(q, row.weight * p, row.y), -HUGE, HUGE)

    def guess(self, row: Row, p: float, q: float) -> float:
        """A rough `dual`."""
        return clamp(row.weight * self.loss.guess(q, row.weight * p, row.y), -HUGE, HUGE)

    def near(self, row: Row, p: float, q: float, beta: float) -> float:
        """`dual` from a guess."""
        found = row.weight * self.loss.near(q, row.weight * p, row.y, beta / row.weight) if row.weight > 0.0 else 0.0
        return clamp(found, -HUGE, HUGE)

    def gap(self, row: Row, beta: float) -> float:
        """beta + weight phi'(g(beta)): increases with beta, 0 at the root."""
        return beta + row.weight * self.loss.grad(self.score(row, beta), row.y)

    def bracket(self, row: Row, low: float, high: float) -> tuple[float, float]:
        """The root lies between 0 and minus the derivative of the loss at g(0)."""
        end = clamp(-row.weight * self.loss.grad(self.score(row, 0.0), row.y), -HUGE, HUGE)
        return max(low, min(end, 0.0)), min(high, max(end, 0.0))

    def residual(self, row: Row, beta: float, z: float) -> float:
        """How far (beta, z) is from beta in -weight phi'(z), also where phi has a kink."""
        return abs(self.dual(row, 1.0, z - beta) - beta)

    def solves(self, row: Row, beta: float, z: float, slack: float, near: float) -> bool:
        """Whether beta in -weight phi'(z), give or take `slack` for beta and `near` for z."""
        # A pull that is no double counts as the largest one: bounds may keep a score where a loss is as steep as that.
        left = beta + clamp(row.weight * self.loss.grad(z - near, row.y), -HUGE, HUGE)
        right = beta + clamp(row.weight * self.loss.grad(z + near, row.y), -HUGE, HUGE)
        return left <= slack and right >= -slack

    def landed(self, row: Row, steep: float, beta: float, z: float, n: int, out: Floats) -> tuple[float, float, int]:
        """Beta, score and passes, the answer of a solver that found beta and z in n passes, w(beta) being in `out`.

        `steep` is the slope of the score without a regularizer. Where that is large, a weight may be the difference of
        numbers so much larger that no double beta gives the score it asks for: then the rest of beta is looked for.
        """
        curved = not self.geometry.quadratic  # there it says nothing of lengths far from the start
        long = curved or steep * row.weight > STEEP or steep * abs(beta) > STEEP * min(abs(z), 1.0)
        if long and not self.solves(row, beta, z, SLACK * abs(beta), SLACK * abs(z) + LEAST):
            return self.refined(row, beta, n, out)
        return beta, z, n

    def refined(self, row: Row, beta: float, n: int, out: Floats) -> tuple[float, float, int]:
        """The root beta + delta, where the score changes with a delta far below the last digit of beta.

        In each of a few turns, delta is looked for between 0 and minus the gap there. Then it becomes part of the
        excess of all weights, so that the next turn starts with all its digits.
        """
        excess = np.empty(row.x.shape[0])
        base, own, delta, spread = beta, 0.0, 0.0, inf
        low, high, under, over, below, above = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        turns, far, begins, done, halve = 0, True, True, False, True
        while True:
            if far:  # count from here; base decides on which side of 0 weights are, own is the intercept
                self.geometry.path_excess(self.regularizer, row, beta, excess)
                base, own, spread, far = beta, row.shift + row.lift * beta, inf, False
            z = self.geometry.path_near(self.regularizer, row, base, delta, excess, out) + (own + row.lift * delta)
            n += 1
            if done:
                return beta, z, n
            gap = delta + beta + row.weight * self.loss.grad(z, row.y)
            if begins:
                low, high = min(-gap, 0.0), max(-gap, 0.0)
                under, over = (gap, inf) if gap < 0.0 else (-inf, gap)  # the gaps there,
                below, above = (z, inf) if gap < 0.0 else (-inf, z)  # and the scores
                begins, halve = False, True
            elif gap > 0.0:
                high, over, above = delta, gap, z
            else:
                low, under, below = delta, gap, z
            wide = above - below  # infinite while a path overflows at one end
            if not (wide <= EPS * min(abs(z), HUGE) and high - low <= EPS * abs(beta + delta)):
                delta = between(low, high)
                if not halve and over - under < inf:  # where the gap is a line, its root
                    cut = low - under * ((high - low) / (over - under))
                    delta = cut if low < cut < high else delta
                halve = not halve
                if low < delta < high:
                    continue
            size, move = abs(own), 0.0
            for k in range(row.x.shape[0]):
                change = delta * self.geometry.reach(row, k)
                excess[k] += change
                move = max(move, abs(change) * (abs(row.x[k]) if self.geometry.quadratic else 1.0))
                size += abs(row.x[k] * out[k])
            self.geometry.path_level(excess)
            own += row.lift * delta
            beta += delta
            turns += 1
            far = abs(delta) > FAR * abs(beta)  # the beta counted from was none
            # Scores can be no nearer once the two ends agree, or come no nearer than in the turn before. They do not
            # either while the excess is so wrong that weights are 0, at a bound, or exponentials that overflow.
            stuck = inf > wide >= 0.5 * spread and move <= (size if self.geometry.quadratic else 1.0)
            met = not far and (wide <= 4.0 * EPS * min(size, HUGE) or stuck)
            done, spread, delta, begins = met or turns == TURNS, wide, 0.0, True

    # The path of the weights, from the geometry and the regularizer.

    def start(self, row: Row) -> tuple[float, float]:
        return self.geometry.path_start(row)

    def line(self, row: Row, beta: float) -> tuple[float, float]:
        return self.geometry.path_line(self.regularizer, row, beta)

    def score(self, row: Row, beta: float) -> float:
        return self.geometry.path_score(self.regularizer, row, beta)

    def fill(self, row: Row, beta: float, out: Floats) -> float:
        return self.geometry.path_fill(self.regularizer, row, beta, out)

    def point(self, row: Row, beta: float, out: Floats) -> tuple[float, float]:
        return self.geometry.path_point(self.regularizer, row, beta, out)

    def weight_of(self, row: Row, k: int, beta: float) -> float:
        step, pull = row.rounds * at(row.steps, k), beta / row.rounds
        return self.geometry.weight(self.regularizer, row.center[k], row.x[k], pull, step, nth(row.feature, k))

    def share_at(self, row: Row, k: int, beta: float) -> tuple[float, float]:
        step, pull = row.rounds * at(row.steps, k), beta / row.rounds
        return self.geometry.share_of(self.regularizer, row.center[k], row.x[k], pull, step, nth(row.feature, k))


class CommonLine(Solver):
    """Of many scores: with at most a ridge, they are lines in their beta with one slope, and the loss knows beta."""

    def solve(self, problem: Any, row: Any, out: Any) -> tuple[Any, Any, int]:
        p, q, shrunk = row.lift, row.score, False
        for j in range(row.x.shape[0]):
            i = nth(row.feature, j)
            m = problem.regularizer.shrink(row.rounds * own_step(row, j) / problem.geometry.metric(i), i)
            p += m * at(row.steps, j) * row.x[j] * row.x[j] / problem.geometry.metric(i)
            if m != 1.0:
                if not shrunk:
                    q, shrunk = copied(row.score, row.space), True
                for k in range(row.beta.shape[0]):
                    q[k] -= (1.0 - m) * row.x[j] * row_entry(row.center, i, j, k)
        problem.loss.duals(q, row.weight * p, row.y, row.beta)
        for j in range(row.x.shape[0]):
            i = nth(row.feature, j)
            m = problem.regularizer.shrink(row.rounds * own_step(row, j) / problem.geometry.metric(i), i)
            pull = row.weight * at(row.steps, j) * row.x[j] / problem.geometry.metric(i)
            for k in range(row.beta.shape[0]):
                w = m * (center_entry(row.center, out, i, j, k) + pull * row.beta[k])
                put_row_entry(out, i, j, k, w)
        for k in range(row.beta.shape[0]):
            row.beta[k] *= row.weight
        return row.beta, q, 1


def own_step(row: JointRow, j: int) -> float:
    """The step of the row's j-th feature in its own unit."""
    return (at(row.unit, j) * at(row.unit, j)) * at(row.steps, j)


def copied(values: Floats, out: Floats) -> Floats:
    """`out`, with these values in it."""
    for k in range(values.shape[0]):
        out[k] = values[k]
    return out


class JointProblem(Component):
    """A `Problem` of one score per class: argmin_W weight * phi(W'x; y) + rounds * r(W) + B(W, W_hat) / eta."""

    loss: JointLoss
    regularizer: Regularizer
    geometry: Geometry
    solver: CommonLine
    #: 1 if the paths start at the weights before the round, whose scores are known; 0 if elsewhere.
    at_weights: int = 1

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
        doubt: float,
        unit: PerFeature,
        desk: Desk,
    ) -> JointRow:
        """A row as solvers take it; z are the scores of the weights before the round, to within `doubt`.

        The row is raw, and the penalty sees its weights times `unit`.
        """
        score = z
        if self.at_weights == 0:
            score = copied(shift, desk.score)
            for j in range(x.shape[0]):
                for k in range(z.shape[0]):
                    score[k] += x[j] * row_entry(center, nth(feature, j), j, k)
        space = desk.score
        return JointRow(feature, x, center, steps, y, weight, rounds, lift, shift, score, space, desk.beta, doubt, unit)

    def step(self, row: JointRow, out: Any) -> tuple[Any, Any, int]:
        """Write the minimiser into `out`; return (beta, the scores without any pull, passes over the row)."""
        return self.solver.solve(self, row, out)

    def explicit(self, row: JointRow, z: Floats) -> Floats:
        """The pulls of a gradient step: beta = -weight phi'(z)."""
        # Where scores are equal but for their last digits, a line as short as these digits shares the pull.
        self.loss.duals(z, row.doubt, row.y, row.beta)
        for k in range(row.beta.shape[0]):
            row.beta[k] *= row.weight
        return row.beta

    def fill(self, row: JointRow, beta: Floats, out: Any) -> Floats:
        """Write the weights that pulls of beta make into `out`; return the scores without any pull."""
        for j in range(row.x.shape[0]):
            i, unit = nth(row.feature, j), at(row.unit, j)
            x, step = row.x[j] / unit, (unit * unit) * (row.rounds * at(row.steps, j))
            for k in range(beta.shape[0]):
                center, pull = unit * center_entry(row.center, out, i, j, k), beta[k] / row.rounds
                put_row_entry(out, i, j, k, self.geometry.weight(self.regularizer, center, x, pull, step, i) / unit)
        return row.score


def has_common_line(regularizer: Regularizer) -> bool:
    """Whether all scores of a row are lines in their beta, with the same slope: so it is for at most a ridge."""
    return isinstance(regularizer, Elastic) and not np.any(regularizer.strengths()[0])  # type: ignore[index]


def make_joint_problem(
    loss: JointLoss, regularizer: Regularizer, geometry: Geometry, solver: Solver | None = None, at_weights: bool = True
) -> JointProblem:
    """The subproblem of many scores; TypeError if its parts do not fit.

    `at_weights` says whether paths start at the weights before the round.
    """
    name = type(loss).__name__
    expect("loss", loss, JointLoss)
    expect("regularizer", regularizer, Regularizer)
    expect("geometry", geometry, Geometry)
    if not geometry.quadratic or geometry.whole_rows:
        refuse(f"{name} goes with Euclidean() or DiagonalMetric(), not {geometry!r}")
    if solver is not None and not isinstance(solver, CommonLine):
        refuse(f"{name} has a solver of its own: leave out {solver!r}")
    return JointProblem(loss, regularizer, geometry.working(), CommonLine(), int(at_weights))


def make_problem(loss: Loss, regularizer: Regularizer, geometry: Geometry, solver: Solver | None = None) -> Problem:
    """The subproblem in the geometry that does the work; TypeError if its parts do not fit.

    Without a solver the fastest valid one is chosen.

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
