"""The round's subproblem: a loss, a regularizer, a geometry and a solver that fit together."""

from __future__ import annotations

from typing import Any

from fiol.components.component import Component, at, check_complete
from fiol.components.geometries import Geometry
from fiol.components.losses import Loss
from fiol.components.regularizers import Regularizer
from fiol.components.row import Floats, Row, nth
from fiol.components.solvers import Bisection, ClosedForm, Newton, Solver


class Problem(Component):
    """argmin_w  weight * phi(<x, w>; y) + rounds * r(w) + B(w, w_hat) / eta, and how to find it.

    The methods are the questions a solver asks about one row. Build one with `make_problem`, which
    checks that the parts fit.
    """

    loss: Loss
    regularizer: Regularizer
    geometry: Geometry
    solver: Solver

    def step(self, row: Row, out: Floats) -> tuple[float, float, int]:
        """Write the minimiser into `out`; return (beta, its score, passes over the row)."""
        return self.solver.solve(self, row, out)

    def dual(self, row: Row, p: float, q: float) -> float:
        """The root of beta = -weight phi'(p beta + q)."""
        return row.weight * self.loss.dual(q, row.weight * p, row.y)

    def guess(self, row: Row, p: float, q: float) -> float:
        """A rough `dual`."""
        return row.weight * self.loss.guess(q, row.weight * p, row.y)

    def near(self, row: Row, p: float, q: float, beta: float) -> float:
        """`dual` from a guess."""
        return row.weight * self.loss.near(q, row.weight * p, row.y, beta / row.weight) if row.weight > 0.0 else 0.0

    def gap(self, row: Row, beta: float) -> float:
        """beta + weight phi'(g(beta)): increases with beta, 0 at the root."""
        return beta + row.weight * self.loss.grad(self.score(row, beta), row.y)

    def bracket(self, row: Row, low: float, high: float) -> tuple[float, float]:
        """The root lies between 0 and minus the derivative of the loss at g(0)."""
        end = -row.weight * self.loss.grad(self.score(row, 0.0), row.y)
        return max(low, min(end, 0.0)), min(high, max(end, 0.0))

    def residual(self, row: Row, beta: float, z: float) -> float:
        """How far (beta, z) is from beta in -weight phi'(z), also where phi has a kink."""
        return abs(self.dual(row, 1.0, z - beta) - beta)

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
        step, pull = row.rounds * at(row.eta, k), beta / row.rounds
        return self.geometry.weight(self.regularizer, row.w[k], row.x[k], pull, step, nth(row.feature, k))

    def share_at(self, row: Row, k: int, beta: float) -> tuple[float, float]:
        step, pull = row.rounds * at(row.eta, k), beta / row.rounds
        return self.geometry.share_of(self.regularizer, row.w[k], row.x[k], pull, step, nth(row.feature, k))


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
        raise TypeError(f"{name} must be a fiol.{family.__name__}, got {value!r}")
    check_complete(value)


def refuse(objection: str) -> None:
    """Raise TypeError with the objection, if there is one."""
    if objection:
        raise TypeError(objection)
