"""Units of weights: the number that a penalty is applied to.

A feature in millimeters has values a thousand times those in meters, and a weight a thousandth of theirs. With a scale
s per feature, the size of its values, s w is the same in both. A penalty in units of features is r(s w) for r(w), and

    argmin_w  r(s w) + (w - u)^2 / (2 step)  =  prox(s u, s^2 step) / s

so that a round with weights s w, values x / s and steps s^2 step is a round of the penalty itself. That is for
quadratic geometries, whose rounds look alike in any unit.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, ClassVar

from fiol.components.component import Component, PerFeature, value_at
from fiol.components.geometries import Geometry, Separable
from fiol.components.regularizers import Regularizer
from fiol.components.row import Floats, RowBuffers
from fiol.components.step_sizes import StepSize, scale_of

if TYPE_CHECKING:
    from fiol.algorithms.regularizer_steps import RegularizerStep


def to_unit(w: float, step: float, unit: float) -> tuple[float, float]:
    """Return a weight and its step as the penalty sees them: s w and s^2 step."""
    return unit * w, (unit * unit) * step


def from_unit(w: float, unit: float) -> float:
    """Return the weight of which the penalty sees s w = `w`."""
    return w / unit


class Units(Component):
    """The units in which the penalty of a plan sees weights.

    | method | meaning |
    |---|---|
    | `unit_of(step_size, s)` | the unit s of the weight of a feature with this record, as a factor |
    | `to_units(w, step, unit)` | a weight and its step, for the penalty |
    | `from_units(w, unit)` | the weight, given the number that the penalty is applied to |
    | `units_of_row(step_size, features, buffers)` | the units of a row's features: one for all or an array |
    | `row_in_units(x, center, steps, unit, buffers)` | values, centers and steps of a row, for its problem |
    | `row_from_units(new, unit)` | the row's weights that solve the problem, in place, as weights |
    """

    #: Whether there are units at all.
    scaled: ClassVar[bool] = False

    def unit_of(self, step_size: StepSize, s: Floats) -> float:
        return 1.0

    def to_units(self, w: float, step: float, unit: float) -> tuple[float, float]:
        return w, step

    def from_units(self, w: float, unit: float) -> float:
        return w

    def units_of_row(self, step_size: StepSize, features: int, buffers: RowBuffers) -> PerFeature:
        return 1.0

    def row_in_units(self, x: Floats, center: Any, steps: PerFeature, unit: PerFeature, buffers: RowBuffers) -> Any:
        return x, center, steps

    def row_from_units(self, new: Any, unit: PerFeature) -> None:
        pass

    def prox_in_units(
        self, geometry: Separable, regularizer: Regularizer, w: float, step: float, unit: float, i: int
    ) -> float:
        """Return argmin_v r(s v) + B(v, w) / step."""
        w, step = self.to_units(w, step, unit)
        return self.from_units(geometry.weight(regularizer, w, 0.0, 0.0, step, i), unit)


class RawUnits(Units):
    """Weights as they are: r(w)."""


class FeatureUnits(Units):
    """Weights times the sizes of their features' values, which the step size keeps: r(s w).

    >>> from fiol import L1, Euclidean, Ridge
    >>> FeatureUnits().prox_in_units(Euclidean(), L1(0.1), 0.003, 1e-6, 1000.0, 0)  # in millimeters, as 3 in meters
    0.0029
    >>> FeatureUnits().prox_in_units(Euclidean(), Ridge(1.0), 0.003, 1e-6, 1000.0, 0)
    0.0015
    """

    scaled: ClassVar[bool] = True

    def unit_of(self, step_size: StepSize, s: Floats) -> float:
        return scale_of(step_size, s)

    def to_units(self, w: float, step: float, unit: float) -> tuple[float, float]:
        return to_unit(w, step, unit)

    def from_units(self, w: float, unit: float) -> float:
        return from_unit(w, unit)

    def units_of_row(self, step_size: StepSize, features: int, buffers: RowBuffers) -> PerFeature:
        for j in range(features):  # which is free again, once weights are up to date
            buffers.elapsed[j] = scale_of(step_size, buffers.statistics[:, j])
        return buffers.elapsed[:features]

    def row_in_units(self, x: Floats, center: Any, steps: PerFeature, unit: PerFeature, buffers: RowBuffers) -> Any:
        for j in range(x.shape[0]):  # one loop for all has too many arrays to vectorize
            buffers.before[j] = from_unit(x[j], value_at(unit, j))
        for j in range(x.shape[0]):
            buffers.center[j] = to_unit(center[j], 0.0, value_at(unit, j))[0]
        for j in range(x.shape[0]):
            buffers.step[j] = to_unit(0.0, value_at(steps, j), value_at(unit, j))[1]
        return buffers.before[: x.shape[0]], buffers.center[: x.shape[0]], buffers.step[: x.shape[0]]

    def row_from_units(self, new: Any, unit: PerFeature) -> None:
        for j in range(new.shape[0]):
            new[j] = from_unit(new[j], value_at(unit, j))


class JointUnits(FeatureUnits):
    """`FeatureUnits` for rows of many scores: their problem applies the units, since weights may be in place."""

    def row_in_units(self, x: Floats, center: Any, steps: PerFeature, unit: PerFeature, buffers: RowBuffers) -> Any:
        return x, center, steps

    def row_from_units(self, new: Any, unit: PerFeature) -> None:
        pass


class PushedUnits(Units):
    """`FeatureUnits` for a linearized penalty: a push replaces it in the problem."""

    scaled: ClassVar[bool] = True

    def unit_of(self, step_size: StepSize, s: Floats) -> float:
        return scale_of(step_size, s)


def choose_units(
    step_size: StepSize, regularizer: Regularizer, how: RegularizerStep, geometry: Geometry, joint: bool
) -> Units:
    """Return the units in which a penalty sees weights: those of features if the step size has them.

    Not in entropic geometries, whose weights start from a number without a unit. TypeError for bounds of weights
    that are neither 0 nor infinite: these are raw.

    >>> from fiol import L1, AdaGrad, Box, Euclidean, ImplicitRegularizer, ScaleFree
    >>> choose_units(ScaleFree(), L1(0.1), ImplicitRegularizer(), Euclidean(), False)
    FeatureUnits()
    >>> choose_units(ScaleFree(), Box(L1(0.1), -1.0, 1.0), ImplicitRegularizer(), Euclidean(), False)
    Traceback (most recent call last):
    TypeError: the bounds of Box are of raw weights, but with ScaleFree its penalty is of weights in units of their \
features: use a single learner with step_size=ScaleFree(raw_penalty=1), or bounds that are 0 or infinite
    """
    penalized = not how.ignores and (regularizer.has_l1() or regularizer.has_ridge())
    if not (penalized and step_size.properties().penalizes_in_units and geometry.quadratic):
        return RawUnits()
    if how.pushes:
        return PushedUnits()
    if not set(regularizer.bounds()) <= {0.0, inf, -inf}:
        raise TypeError(
            f"the bounds of {type(regularizer).__name__} are of raw weights, but with {type(step_size).__name__} its "
            "penalty is of weights in units of their features: use a single learner with "
            "step_size=ScaleFree(raw_penalty=1), or bounds that are 0 or infinite"
        )
    return JointUnits() if joint else FeatureUnits()
