"""Units of weights: what a penalty sees of a weight.

A feature in millimetres has values a thousand times those in metres, and a weight a thousandth of theirs. With a scale
s per feature, the size of its values, s w is the same in both. A penalty in units of features is r(s w) for r(w), and

    argmin_w  r(s w) + (w - u)^2 / (2 step)  =  prox(s u, s^2 step) / s

so that a round with weights s w, values x / s and steps s^2 step is a round of the penalty itself. That is for
quadratic geometries, whose rounds look alike in any unit.
"""

from __future__ import annotations

from math import inf
from typing import Any, ClassVar

from fiol.components.component import Component, PerFeature, at
from fiol.components.geometries import Geometry
from fiol.components.regularizers import Regularizer
from fiol.components.row import Desk, Floats
from fiol.components.step_sizes import StepSize
from fiol.update.regularizer_steps import RegularizerStep


class Units(Component):
    """The units in which the penalty of a plan sees weights.

    | method | meaning |
    |---|---|
    | `unit_of(step_size, s)` | the unit s of the weight of a feature with this record, as a factor |
    | `units_of_row(step_size, features, desk)` | those of a row, whose values are met: one for all or an array |
    | `row_in_units(x, center, steps, unit, desk)` | values, centers and steps of a row, as its problem sees them |
    | `row_from_units(new, unit)` | the row's weights that solve the problem, in place, as weights |
    | `shrunk(geometry, regularizer, w, step, unit, i)` | argmin_v r(s v) + B(v, w) / step |
    | `after_rounds(regularizer, w, step, n, unit, i)` | what n rounds without its feature leave of a weight, |
    | `sum_of_rounds(regularizer, w, step, n, unit, i)` | and the sum of the weights in these rounds |
    """

    #: Whether there are units at all.
    scaled: ClassVar[bool] = False

    def unit_of(self, step_size: StepSize, s: Floats) -> float:
        return 1.0

    def units_of_row(self, step_size: StepSize, features: int, desk: Desk) -> PerFeature:
        return 1.0

    def row_in_units(self, x: Floats, center: Any, steps: PerFeature, unit: PerFeature, desk: Desk) -> Any:
        return x, center, steps

    def row_from_units(self, new: Any, unit: PerFeature) -> None:
        pass

    def shrunk(self, geometry: Geometry, regularizer: Regularizer, w: float, step: float, unit: float, i: int) -> float:
        return geometry.weight(regularizer, w, 0.0, 0.0, step, i)

    def after_rounds(self, regularizer: Regularizer, w: float, step: float, n: float, unit: float, i: int) -> float:
        return regularizer.catch_up(w, step, n, i)

    def sum_of_rounds(self, regularizer: Regularizer, w: float, step: float, n: float, unit: float, i: int) -> float:
        return regularizer.catch_up_sum(w, step, n, i)


class RawUnits(Units):
    """Weights as they are: r(w)."""


class FeatureUnits(Units):
    """Weights times the scales of their features, which the step size knows: r(s w).

    >>> from fiol import L1, Euclidean, Ridge
    >>> FeatureUnits().shrunk(Euclidean(), L1(0.1), 0.003, 1e-6, 1000.0, 0)  # in millimetres, as 3 in metres
    0.0029
    >>> FeatureUnits().shrunk(Euclidean(), Ridge(1.0), 0.003, 1e-6, 1000.0, 0)
    0.0015
    """

    scaled: ClassVar[bool] = True

    def unit_of(self, step_size: StepSize, s: Floats) -> float:
        return step_size.scale(s)

    def units_of_row(self, step_size: StepSize, features: int, desk: Desk) -> PerFeature:
        for j in range(features):  # what has passed since their marks is of no more use
            desk.passed[j] = step_size.scale(desk.statistics[:, j])
        return desk.passed[:features]

    def row_in_units(self, x: Floats, center: Any, steps: PerFeature, unit: PerFeature, desk: Desk) -> Any:
        for j in range(x.shape[0]):  # one loop for all has too many arrays to vectorise
            desk.before[j] = x[j] / at(unit, j)
        for j in range(x.shape[0]):
            desk.center[j] = at(unit, j) * center[j]
        for j in range(x.shape[0]):
            desk.step[j] = (at(unit, j) * at(unit, j)) * at(steps, j)
        return desk.before[: x.shape[0]], desk.center[: x.shape[0]], desk.step[: x.shape[0]]

    def row_from_units(self, new: Any, unit: PerFeature) -> None:
        for j in range(new.shape[0]):
            new[j] /= at(unit, j)

    def shrunk(self, geometry: Geometry, regularizer: Regularizer, w: float, step: float, unit: float, i: int) -> float:
        return geometry.weight(regularizer, unit * w, 0.0, 0.0, (unit * unit) * step, i) / unit

    def after_rounds(self, regularizer: Regularizer, w: float, step: float, n: float, unit: float, i: int) -> float:
        return regularizer.catch_up(unit * w, (unit * unit) * step, n, i) / unit

    def sum_of_rounds(self, regularizer: Regularizer, w: float, step: float, n: float, unit: float, i: int) -> float:
        return regularizer.catch_up_sum(unit * w, (unit * unit) * step, n, i) / unit


class JointUnits(FeatureUnits):
    """The same for rows of many scores, whose problem knows the units itself: weights may be worked on in place."""

    def row_in_units(self, x: Floats, center: Any, steps: PerFeature, unit: PerFeature, desk: Desk) -> Any:
        return x, center, steps

    def row_from_units(self, new: Any, unit: PerFeature) -> None:
        pass


class PushedUnits(Units):
    """The same for a penalty that a push replaces: no problem sees it."""

    scaled: ClassVar[bool] = True

    def unit_of(self, step_size: StepSize, s: Floats) -> float:
        return step_size.scale(s)


def choose_units(
    step_size: StepSize, regularizer: Regularizer, how: RegularizerStep, geometry: Geometry, joint: bool
) -> Units:
    """The units in which a penalty sees weights: those of features if the step size has them.

    Not in entropic geometries, whose weights start from a number that knows no unit. TypeError for bounds of weights
    that are neither 0 nor infinite: these are raw.

    >>> from fiol import L1, AdaGrad, Box, Euclidean, ImplicitRegularizer, ScaleFree
    >>> choose_units(ScaleFree(), L1(0.1), ImplicitRegularizer(), Euclidean(), False)
    FeatureUnits()
    >>> choose_units(ScaleFree(), Box(L1(0.1), -1.0, 1.0), ImplicitRegularizer(), Euclidean(), False)
    Traceback (most recent call last):
    TypeError: Box bounds raw weights, and ScaleFree has their penalty in units of features: use raw_penalty=1, or \
bounds that are 0 or infinite
    """
    penalised = not how.ignores and (regularizer.has_l1() or regularizer.has_ridge())
    if not (penalised and step_size.penalises_in_units() and geometry.quadratic):
        return RawUnits()
    if how.pushes:
        return PushedUnits()
    if not set(regularizer.bounds()) <= {0.0, inf, -inf}:
        raise TypeError(
            f"{type(regularizer).__name__} bounds raw weights, and {type(step_size).__name__} has their penalty in "
            "units of features: use raw_penalty=1, or bounds that are 0 or infinite"
        )
    return JointUnits() if joint else FeatureUnits()
