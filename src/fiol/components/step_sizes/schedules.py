"""Schedules: one step for all weights, by the number of the round."""

from __future__ import annotations

from math import sqrt
from typing import ClassVar

from fiol.components.component import require
from fiol.components.scalars import HUGE
from fiol.components.step_sizes.protocol import Schedule
from fiol.components.step_sizes.rule import StepRule


class Constant(Schedule):
    """eta(t) = size.

    Parameters
    ----------
    size : float
        The step size of every round.

    Examples
    --------
    >>> Constant(0.5).eta(1), Constant(0.5).eta(100)
    (0.5, 0.5)
    """

    size: float
    constant: ClassVar[bool] = True

    def validate(self) -> None:
        require("Constant.size", self.size, 0.0, 1e100, open_low=True)

    def rule(self) -> StepRule:
        return StepRule(self.size, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)

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
            require(f"FixedHorizon.{name}", getattr(self, name), 0.0, HUGE, open_low=True)

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
            require(f"Anytime.{name}", getattr(self, name), 0.0, HUGE, open_low=True)

    def eta(self, t: float) -> float:
        return sqrt(self.convexity / t) * self.diameter / self.gradient


class Inverse(Schedule):
    """eta(t) = 1 / (sigma t), for penalties of strong convexity sigma (Theorem 2).

    Parameters
    ----------
    sigma : float
        The strong convexity of the penalty, such as lam of `Ridge`.

    Examples
    --------
    >>> Inverse(0.1).eta(20)
    0.5
    """

    sigma: float

    def validate(self) -> None:
        require("Inverse.sigma", self.sigma, 0.0, HUGE, open_low=True)

    def eta(self, t: float) -> float:
        return 1.0 / (self.sigma * t)


class Polynomial(Schedule):
    """eta(t) = size t^-power.

    Parameters
    ----------
    size : float
        The step size of the first round.
    power : float
        How fast steps become shorter, from 0 to 10.

    Examples
    --------
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
