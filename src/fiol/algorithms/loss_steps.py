"""Loss steps, the first switch of Table 1, A(w): the loss itself, its linearization, or between the two.

A `LossStep` chooses beta, and the new weights are w(beta) of the row's path (`fiol.components.geometries`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from fiol.components.component import Component
from fiol.components.row import Floats, Row
from fiol.components.subproblem import Problem


class LossStep(Component):
    """How the loss enters a round: `pull(problem, row, z, out)` writes the new weights and returns (beta, score).

    `z` is the score of the weights before the round. With many scores, z and beta are arrays, and the returned scores
    are not used.
    """

    protocol: ClassVar[dict[str, tuple[str, ...]]] = {"pull": ("problem", "row", "z", "out")}
    required: ClassVar[tuple[str, ...]] = ("pull",)
    #: The method that a loss must have.
    needs: ClassVar[str] = "value"
    #: Whether beta is the root of the round's equation, so that all of the problem must be one a solver can solve.
    solves: ClassVar[bool] = False

    if TYPE_CHECKING:

        def pull(self, problem: Problem, row: Row, z: float, out: Floats) -> tuple[float, float]: ...


class ImplicitLoss(LossStep):
    """A(w) = f(w): the loss itself, so beta = -f'(new score). Never overshoots."""

    solves: ClassVar[bool] = True
    in_lanes: ClassVar[bool] = True  #: see `fiol.engine.ensemble.lane_group.declares_lanes`

    def pull(self, problem: Problem, row: Row, z: float, out: Floats) -> tuple[float, float]:
        beta, score, _ = problem.step(row, out)
        return beta, score


class LinearizedLoss(LossStep):
    """A(w) = <f'(w_hat), w>: a gradient step, beta = -f'(old score)."""

    def pull(self, problem: Problem, row: Row, z: float, out: Floats) -> tuple[float, float]:
        beta = problem.explicit(row, z)
        return beta, problem.fill(row, beta, out)


class ImportanceAware(LossStep):
    """The limit of many small gradient steps: a sample of weight h counts exactly as h samples of weight 1.

    beta is chosen as if there were no penalty (Karampatziakis and Langford 2011).
    """

    needs: ClassVar[str] = "flow"

    def pull(self, problem: Problem, row: Row, z: float, out: Floats) -> tuple[float, float]:
        p, _ = problem.start(row)
        beta = row.weight * problem.loss.flow(z, row.weight * p, row.y)
        return beta, problem.fill(row, beta, out)


class Truncated(LossStep):
    """A(w) = max(f(w_hat) + <f'(w_hat), w - w_hat>, min f): a gradient step that stops where the model bottoms out.

    beta = -f' min(1, (f - min f) / (p f'^2)), chosen as if there were no penalty (Asi and Duchi 2019).
    """

    needs: ClassVar[str] = "lower"

    def pull(self, problem: Problem, row: Row, z: float, out: Floats) -> tuple[float, float]:
        p, _ = problem.start(row)
        slope = problem.loss.grad(z, row.y)
        above = problem.loss.value(z, row.y) - problem.loss.lower(row.y)
        reach = row.weight * p * slope * slope
        beta = -row.weight * slope * (above / reach if above < reach else 1.0)
        return beta, problem.fill(row, beta, out)


class WithoutIntercept(LossStep):
    """beta as if the intercept stood still, times the sample weight; the intercept is moved by it all the same.

    `shift` is an intercept that nothing moves, added to the score. scikit-learn's passive-aggressive estimators step
    so: see `fiol.PassiveAggressiveClassifier`.
    """

    shift: float = 0.0

    def pull(self, problem: Problem, row: Row, z: float, out: Floats) -> tuple[float, float]:
        alone = Row(row.feature, row.x, row.center, row.steps, row.y, row.weight, row.rounds, 0.0, row.shift)
        p, _ = problem.start(alone)
        beta = row.weight * problem.loss.dual(z + self.shift, p, row.y)
        return beta, problem.fill(row, beta, out)
