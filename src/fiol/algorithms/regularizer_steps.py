"""Regularizer steps, the second switch of Table 1, B(w): the penalty itself, its linearization, or none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from fiol.algorithms.units import from_unit, to_unit
from fiol.components.component import (
    Component,
    PerFeature,
    count_scores,
    get_row_weight,
    next_score,
    set_weight,
    value_at,
)
from fiol.components.regularizers import Regularizer
from fiol.components.row import Floats, Indices, RowBuffers, nth
from fiol.components.simd import ridge_factor

if TYPE_CHECKING:
    from fiol.algorithms.plan import Plan


class RegularizerStep(Component):
    """How the regularizer enters a round.

    | method | meaning |
    |---|---|
    | `seen(regularizer)` | the part of the regularizer that the solver handles |
    | `push(plan, w, unit, i)` | the pull on weight i that replaces the other part; `unit` is that of `Units` |
    | `start_of(plan, w, step, unit, i)` | where the step of weight i starts: w, moved by that pull |
    | `ridge_factor(ridge)` | the factor that a round of a ridge, times the step, leaves of an absent weight |
    | `count(t)` | how often the regularizer counts after t rounds, where all rounds are kept |
    """

    protocol: ClassVar[dict[str, tuple[str, ...]]] = {
        "push": ("plan", "w", "unit", "i"),
        "start_of": ("plan", "w", "step", "unit", "i"),
        "ridge_factor": ("ridge",),
        "count": ("t",),
    }
    #: Whether `push` is ever anything but 0.
    pushes: ClassVar[bool] = False
    #: Whether nothing of the regularizer counts but the set Omega.
    ignores: ClassVar[bool] = False
    #: Whether the regularizer counts once for the whole stream, which only anchors that keep all rounds can do.
    counts_once: ClassVar[bool] = False

    def seen(self, regularizer: Regularizer) -> Regularizer:
        return regularizer

    def push(self, plan: Plan, w: float, unit: float, i: int) -> float:
        return 0.0

    def start_of(self, plan: Plan, w: float, step: float, unit: float, i: int) -> float:
        return w

    def centers(self, plan: Plan, feature: Indices, x: Floats, w: Any, steps: PerFeature, buffers: RowBuffers) -> Any:
        """Return where the paths of a row's weights start: the weights themselves, if nothing pushes."""
        return w

    def ridge_factor(self, ridge: float) -> float:
        return ridge_factor(ridge)  # type: ignore[no-any-return]

    def count(self, t: float) -> float:
        return t


class ImplicitRegularizer(RegularizerStep):
    """B(w) = r(w): the penalty itself, through its prox. Gives exact zeros."""


class LinearizedRegularizer(RegularizerStep):
    """B(w) = <r'(w_hat), w>, on the set Omega if the regularizer is a `Box`.

    Near the last iterate a ridge multiplies a weight by max(0, 1 - step lam), as scikit-learn's SGD does: steps longer
    than 1 / lam would else turn its sign, and make it grow without end.
    """

    pushes: ClassVar[bool] = True

    def seen(self, regularizer: Regularizer) -> Regularizer:
        return regularizer.omega()

    def push(self, plan: Plan, w: float, unit: float, i: int) -> float:
        return -unit * plan.regularizer.slope(unit * w, 0, i)

    def start_of(self, plan: Plan, w: float, step: float, unit: float, i: int) -> float:
        w, step = to_unit(w, step, unit)
        return from_unit(plan.problem.geometry.gradient_step(plan.regularizer, w, step, i), unit)

    def centers(self, plan: Plan, feature: Indices, x: Floats, w: Any, steps: PerFeature, buffers: RowBuffers) -> Any:
        for j in range(feature.shape[0]):
            i, unit = nth(feature, j), plan.units.unit_of(plan.step_size, buffers.statistics[:, j])
            k = 0
            while k < count_scores(buffers.center):
                set_weight(
                    buffers.center, j, k, self.start_of(plan, get_row_weight(w, i, j, k), value_at(steps, j), unit, i)
                )
                k = next_score(buffers.center, k)
        return buffers.center[: x.shape[0]]

    def ridge_factor(self, ridge: float) -> float:
        return max(1.0 - ridge, 0.0)


class IgnoredRegularizer(RegularizerStep):
    """B(w) = 0, on the set Omega if the regularizer is a `Box`."""

    ignores: ClassVar[bool] = True

    def seen(self, regularizer: Regularizer) -> Regularizer:
        return regularizer.omega()


class RegularizerOnce(RegularizerStep):
    """r(w) counts once for the whole stream, not once per round; for anchors that keep all rounds.

    The FTRL-Proximal of McMahan et al. 2013, whose penalty fades as data come in.
    """

    counts_once: ClassVar[bool] = True

    def count(self, t: float) -> float:
        return min(t, 1.0)
