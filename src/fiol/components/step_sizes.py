"""Step sizes: how far a weight may move in a round.

The step of weight i in round t is eta(t) / h_i. A `Schedule` has one step for all weights (h_i = 1); an
`Adaptive` step size also learns a metric h_i per feature from what it has seen of it. The metric of a feature
is frozen while the feature is absent.
"""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fiol.components.component import Component, PerFeature, require
from fiol.components.losses import Loss
from fiol.components.row import Floats, Indices, nth
from fiol.update.state import Room

MOST = np.finfo(float).max
#: Sums of squares go no further: what is infinite leaves no difference.
LARGEST = 1e300
#: Derivatives count as no larger than this where they are squared; so many squares may be added up.
STEEPEST = 1e145


class StepSize(Component):
    """A sequence of step sizes. A user's own needs `eta`; an adaptive one derives from `Adaptive`.

    | method | meaning |
    |---|---|
    | `eta(t)` | the step size of round t, from 1 |
    | `h(square, peak)` | metric of a feature, from the sum of its squared gradients and its largest abs(x) |
    """

    protocol: ClassVar[dict[str, tuple[str, ...]]] = {"eta": ("t",), "h": ("square", "peak")}
    required: ClassVar[tuple[str, ...]] = ("eta",)
    #: Whether eta(t) is the same in every round.
    constant: ClassVar[bool] = False

    if TYPE_CHECKING:

        def eta(self, t: float) -> float: ...
        def steps(self, x: Floats, square: float, eta: float, room: Room) -> PerFeature:
            """The steps of a row's weights, after its squared gradients, square * x^2, have been added up."""

        def steps_now(self, features: int, eta: float, room: Room) -> PerFeature:
            """The steps of the first weights in the room as things stand."""

    def h(self, square: float, peak: float) -> float:
        return 1.0

    def step_of_feature(self, eta: float, square: float, peak: float) -> float:
        """eta / h; 0 for a feature about which nothing is known."""
        h = self.h(square, peak)
        return eta / h if h > 0.0 else 0.0

    def shrink_for(self, x: float, peak: float) -> float:
        """What becomes of the last iterate, before anything else, when its feature takes the value x."""
        return 1.0

    def square_slope(self, loss: Loss, z: float, y: float) -> float:
        """The squared derivative of the loss at the weights before the step, if it is of interest."""
        return 0.0

    def square_unit(self, loss: Loss, slopes: float, t: float) -> float:
        """What counts as a squared derivative of 1, when those of t rounds have added up to `slopes`."""
        return 1.0

    def square_length(self, x: Floats, more: float, room: Room) -> float:
        """What multiplies it for a row, whose values are taken into account; the row has `more` entries of 1."""
        return 1.0

    def collect(self, feature: Indices, square: Floats, peak: Floats, room: Room) -> None:
        """Read what is known of a row's features."""
        squares, peaks = self.statistics()
        for k in range(feature.shape[0]):
            i = nth(feature, k)
            if squares:
                room.square[k] = square[i]
            if peaks:
                room.peak[k] = peak[i]

    def store(self, feature: Indices, square: Floats, peak: Floats, room: Room) -> None:
        """Remember it."""
        squares, peaks = self.statistics()
        for k in range(feature.shape[0]):
            i = nth(feature, k)
            if squares:
                square[i] = room.square[k]
            if peaks:
                peak[i] = room.peak[k]

    def is_constant(self) -> bool:
        """Whether eta(t) is the same in every round."""
        return self.constant

    def statistics(self) -> tuple[bool, bool]:
        """Whether sums of squared gradients, and largest values, are kept per feature."""
        return False, False


class Schedule(StepSize):
    """One step for all weights."""

    def steps(self, x: Floats, square: float, eta: float, room: Room) -> PerFeature:
        return eta

    def steps_now(self, features: int, eta: float, room: Room) -> PerFeature:
        return eta


class Constant(Schedule):
    """eta(t) = eta.

    >>> Constant(0.5).eta(1), Constant(0.5).eta(100)
    (0.5, 0.5)
    """

    size: float
    constant: ClassVar[bool] = True

    def validate(self) -> None:
        require("Constant.size", self.size, 0.0, 1e100, open_low=True)

    def eta(self, t: float) -> float:
        return self.size


class FixedHorizon(Schedule):
    """The paper's step for a known number of rounds T: eta = sqrt(2 c) D / (G sqrt(T)) (Theorem 1).

    `diameter` is D, a bound on the distances between the weights and the comparator; `gradient` is G, a bound on
    the dual norms of the gradients; `convexity` is c, the strong convexity of the geometry.

    >>> FixedHorizon(diameter=1.0, gradient=2.0, horizon=200).eta(7)
    0.05
    """

    diameter: float
    gradient: float
    horizon: float
    convexity: float = 1.0
    constant: ClassVar[bool] = True

    def validate(self) -> None:
        for name in ("diameter", "gradient", "horizon", "convexity"):
            require(f"FixedHorizon.{name}", getattr(self, name), 0.0, MOST, open_low=True)

    def eta(self, t: float) -> float:
        return sqrt(2.0 * self.convexity / self.horizon) * self.diameter / self.gradient


class Anytime(Schedule):
    """The paper's step without a horizon: eta(t) = sqrt(c) D / (G sqrt(t)) (Theorem 1).

    >>> Anytime(diameter=1.0, gradient=2.0).eta(4)
    0.25
    """

    diameter: float
    gradient: float
    convexity: float = 1.0

    def validate(self) -> None:
        for name in ("diameter", "gradient", "convexity"):
            require(f"Anytime.{name}", getattr(self, name), 0.0, MOST, open_low=True)

    def eta(self, t: float) -> float:
        return sqrt(self.convexity / t) * self.diameter / self.gradient


class Inverse(Schedule):
    """eta(t) = 1 / (sigma t), for penalties of strong convexity sigma (Theorem 2).

    >>> Inverse(0.1).eta(20)
    0.5
    """

    sigma: float

    def validate(self) -> None:
        require("Inverse.sigma", self.sigma, 0.0, MOST, open_low=True)

    def eta(self, t: float) -> float:
        return 1.0 / (self.sigma * t)


class Polynomial(Schedule):
    """eta(t) = size t^-power.

    >>> Polynomial(2.0, power=0.5).eta(4)
    1.0
    """

    size: float = 1.0
    power: float = 0.5

    def validate(self) -> None:
        require("Polynomial.size", self.size, 0.0, 1e100, open_low=True)
        require("Polynomial.power", self.power, 0.0, 10.0)

    def eta(self, t: float) -> float:
        return self.size * t**-self.power


# --- per feature ------------------------------------------------------------------------------


class Adaptive(StepSize):
    """A metric per feature. The gradients are those at the weights before the step: for any convex loss
    they bound the ones the implicit step uses.
    """

    def square_slope(self, loss: Loss, z: float, y: float) -> float:
        slope = min(abs(loss.grad(z, y)), STEEPEST)
        return slope * slope

    def steps(self, x: Floats, square: float, eta: float, room: Room) -> PerFeature:
        if self.statistics()[0]:
            for k in range(x.shape[0]):
                room.square[k] = min(room.square[k] + square * (x[k] * x[k]), LARGEST)
        return self.steps_now(x.shape[0], eta, room)

    def steps_now(self, features: int, eta: float, room: Room) -> PerFeature:
        for k in range(features):
            room.step[k] = self.step_of_feature(eta, room.square[k], room.peak[k])
        return room.step[:features]


class AdaGrad(Adaptive):
    """h_i = kappa + sqrt(sum of squared gradients of feature i): steps that shrink where gradients were large.

    Duchi, Hazan, Singer 2011. FTRL-Proximal's per-coordinate rates are the same with kappa called beta.

    >>> AdaGrad(0.5, kappa=1.0).h(9.0, 0.0), AdaGrad(0.5).eta(100)
    (4.0, 0.5)
    """

    size: float = 0.5
    kappa: float = 0.1
    constant: ClassVar[bool] = True

    def validate(self) -> None:
        require("AdaGrad.size", self.size, 0.0, 1e100, open_low=True)
        require("AdaGrad.kappa", self.kappa, 0.0, MOST)

    def eta(self, t: float) -> float:
        return self.size

    def h(self, square: float, peak: float) -> float:
        return self.kappa + sqrt(square)

    def statistics(self) -> tuple[bool, bool]:
        return True, False


class ScaleFree(Adaptive):
    """Another step size as if features and targets had natural units.

    Every feature is divided by its largest absolute value so far, peak: steps are divided by peak^2, and a value x
    beyond it first multiplies the last iterate by peak / abs(x) (Ross, Mineiro and Langford 2013). The gradients that
    AdaGrad adds up are divided by the unit of the loss's derivatives (`Loss.square_slope_unit`), and multiplied by the
    length of the row, intercept included: the weights that make up a score of size 1 from n features are of size
    1/sqrt(n). So multiplying a column by a constant divides its weight by it and changes no score; multiplying the
    targets of a squared loss by one multiplies the scores by it (not even the last bit differs, if it is a power of 2).
    Penalties see the weights as they are.

    >>> ScaleFree(Constant(0.5)).h(0.0, 10.0), ScaleFree(AdaGrad(kappa=1.0)).h(400.0, 10.0)
    (100.0, 300.0)
    """

    step_size: StepSize = AdaGrad()

    def validate(self) -> None:
        if not isinstance(self.step_size, StepSize) or isinstance(self.step_size, ScaleFree):
            raise TypeError(f"ScaleFree.step_size must be another StepSize, got {self.step_size!r}")

    def eta(self, t: float) -> float:
        return self.step_size.eta(t)

    def h(self, square: float, peak: float) -> float:
        unit = peak * peak
        return unit * self.step_size.h(square / unit, 1.0) if unit > 0.0 else 0.0

    def shrink_for(self, x: float, peak: float) -> float:
        return peak / abs(x) if abs(x) > peak > 0.0 else 1.0

    def square_unit(self, loss: Loss, slopes: float, t: float) -> float:
        return loss.square_slope_unit(slopes, t)

    def square_length(self, x: Floats, more: float, room: Room) -> float:
        total = more
        for k in range(x.shape[0]):
            peak = max(room.peak[k], abs(x[k]))
            room.peak[k] = peak
            total += (x[k] / peak) * (x[k] / peak)
        return total

    def is_constant(self) -> bool:
        return self.step_size.is_constant()

    def statistics(self) -> tuple[bool, bool]:
        return self.step_size.statistics()[0], True


def entry(values: Any, i: int) -> float:
    """values[i], or 0 if the statistic is not kept."""
    return values[i] if values.shape[0] > 0 else 0.0
