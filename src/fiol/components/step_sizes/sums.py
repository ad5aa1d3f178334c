"""Step sizes by one sum per feature: AdaGrad, normalized steps, curvature. They run in SIMD lanes of an ensemble."""

from __future__ import annotations

from math import sqrt
from typing import Any, ClassVar

import numpy as np

from fiol.components.component import require
from fiol.components.joint_losses import AnyLoss
from fiol.components.row import Floats
from fiol.components.scalars import HUGE
from fiol.components.simd import smaller
from fiol.components.step_sizes.protocol import Adaptive, StepSize
from fiol.components.step_sizes.rule import (
    LARGEST_SUM,
    Observation,
    StepOutcome,
    StepRule,
    add_to_sum,
    base_metric,
    metric,
    precision,
    rule_of_curvatures,
    rule_of_length,
    rule_of_squares,
)

#: At least this part of a prior is left, however much is forgotten: float32 can hold its inverse.
MOST_LOST = 1e30


class AdaGrad(Adaptive):
    """h_i = kappa + sqrt(sum of squared gradients of feature i): steps that shrink where gradients were large.

    Duchi, Hazan, Singer 2011. FTRL-Proximal's per-coordinate rates are the same with kappa called beta.

    Parameters
    ----------
    size : float
        The step size eta.
    kappa : float
        The metric before the first gradient: the first steps are shorter the larger it is.

    Examples
    --------
    >>> AdaGrad(0.5, kappa=1.0).h([9.0], 1.0), AdaGrad(0.5).eta(100), AdaGrad().statistics()
    (4.0, 0.5, ('square',))
    """

    size: float = 0.5
    kappa: float = 0.1
    constant: ClassVar[bool] = True
    keeps: ClassVar[tuple[str, ...]] = ("square",)

    def validate(self) -> None:
        require("AdaGrad.size", self.size, 0.0, 1e100, open_low=True)
        require("AdaGrad.kappa", self.kappa, 0.0, HUGE)

    def rule(self) -> StepRule:
        return rule_of_squares(self.size, self.kappa, 1.0, 0.0)

    def eta(self, t: float) -> float:
        return self.size

    def h(self, s: Floats, unit: float) -> float:
        return metric(self.rule(), self.kappa, sqrt(s[0] / unit), 0.0)  # type: ignore[no-any-return]

    def raw_metric(self, s: Floats, peak: float) -> float:
        root = sqrt(1.0 * s[0])  # in double precision, whatever s is stored in
        return metric(self.rule(), self.kappa * (peak * peak), root * peak, 0.0)  # type: ignore[no-any-return]

    def observe(self, s: Floats, seen: Observation) -> None:
        s[0] = add_to_sum(s[0], seen.square * (seen.x * seen.x))


class Normalized(Adaptive):
    """h_i = L: a row moves its score as far as a step of length `size` in one dimension would, whatever its length.

    L is the squared length of the row that the feature was last seen in, intercept included: sum of x_i^2, or, in
    `ScaleFree`, of (x_i / peak_i)^2. So the sum of step_i x_i^2 over a row is `size`, times the unit of steps. Steps
    never become shorter, so the learner follows new rows at once and forgets old ones at once.

    With explicit steps on squared loss this is the normalized least mean squares of Nagumo and Noda (1967); with `size`
    1e100 and exact steps on the hinge loss it is `PA`.

    Parameters
    ----------
    size : float
        How far a step moves the score, in units of the derivative.

    Examples
    --------
    >>> step_size = Normalized(0.5)
    >>> s = [0.0]
    >>> step_size.observe(s, Observation(1.0, 1.0, length=25.0))
    >>> step_size.step_of_feature(step_size.eta(1), s), step_size.statistics()
    (0.02, ('length',))
    """

    size: float = 1.0
    constant: ClassVar[bool] = True
    keeps: ClassVar[tuple[str, ...]] = ("length",)
    uses_length: ClassVar[bool] = True

    def validate(self) -> None:
        require("Normalized.size", self.size, 0.0, 1e100, open_low=True)

    def rule(self) -> StepRule:
        return rule_of_length(self.size, 0.0, 1.0)

    def eta(self, t: float) -> float:
        return self.size

    def h(self, s: Floats, unit: float) -> float:
        return base_metric(self.rule(), s[0])  # type: ignore[no-any-return]

    def observe(self, s: Floats, seen: Observation) -> None:
        s[0] = seen.length

    def merged(self, statistics: list[Any], share: Floats) -> Any:
        # The shortest step of any: a learner that has not seen a feature has a length of 0.
        return np.max([record for record, c in zip(statistics, share, strict=True) if c > 0.0], axis=0)

    def merged_shards(self, base: Any, records: list[Any]) -> Any:
        return np.max(records, axis=0)


class Curvature(Adaptive):
    """h_i = prior + sum of x_i^2 b / (1 + b p): Newton's method with a variance per weight.

    b is the curvature of a round's loss at the score after the step, weight phi'' (`Loss.curvature` for losses without
    second derivatives), and p the sum of step_i x_i^2, intercept included. Weights count as normal and independent,
    with variance 1 / prior before the first row and 1 / h_i now. With a full matrix, a row would lower the
    variance of its score from p to p / (1 + b p); here the diagonal of that matrix is kept. Without the denominator
    (assumed-density filtering by precisions, as Graepel, Candela, Borchert and Herbrich 2010 approximate)
    each of the row's features would count all of the row's information as its own. `fiol.Learner.uncertainty` returns
    standard deviations made of these variances.

    The curvature of a round counts from the feature's next row on, so that nothing changes while a feature is absent:
    the record of a feature is the sum, and the last term, which is `pending`.

    With `noise`, weights count as random walks: whenever a feature is seen, the variance of its weight first grows by
    `noise`, in the feature's own unit, h_i <- h_i / (1 + noise h_i). So the learner forgets, and steps end as long as
    the stream is unpredictable, about sqrt(noise / b), instead of at 0. See `WalkingCurvature`.

    Parameters
    ----------
    size : float
        The factor of all steps; 1 is Newton's method.
    prior : float
        One over the variance of every weight before the first row.
    noise : float
        The growth of the variance of a weight whenever its feature is seen; 0 forgets nothing.

    Examples
    --------
    >>> step_size = Curvature(prior=2.0)
    >>> s = [0.0, 0.0]
    >>> step_size.observe_step(s, StepOutcome(3.0, 0.25))
    >>> step_size.h(s, 1.0)
    2.0
    >>> step_size.observe(s, Observation(1.0, 0.0))
    >>> step_size.h(s, 1.0), step_size.statistics()
    (4.25, ('bends', 'pending'))
    """

    size: float = 1.0
    prior: float = 1.0
    noise: float = 0.0
    constant: ClassVar[bool] = True
    keeps: ClassVar[tuple[str, ...]] = ("bends", "pending")

    def validate(self) -> None:
        require("Curvature.size", self.size, 0.0, 1e100, open_low=True)
        require("Curvature.prior", self.prior, 0.0, HUGE, open_low=True)
        require("Curvature.noise", self.noise, 0.0, 1e100)

    def for_loss(self, loss: AnyLoss) -> StepSize:
        if self.noise == 0.0:
            return self
        if type(self) is not Curvature:
            raise TypeError(
                f"{type(self).__name__} does not use noise={self.noise}: set noise=0, or define for_loss(loss) to "
                "return a step size that uses noise, such as self"
            )
        return WalkingCurvature(self.size, self.prior, self.noise)

    def rule(self) -> StepRule:
        return rule_of_curvatures(self.size, self.prior, 1.0)

    def eta(self, t: float) -> float:
        return self.size

    def h(self, s: Floats, unit: float) -> float:
        return metric(self.rule(), self.prior, 0.0, s[0] / unit)  # type: ignore[no-any-return]

    def raw_metric(self, s: Floats, peak: float) -> float:
        return precision(self.rule(), peak * peak, s[0])  # type: ignore[no-any-return]

    def observe(self, s: Floats, seen: Observation) -> None:
        add_pending(s)

    def observe_step(self, s: Floats, outcome: StepOutcome) -> None:
        s[1] = smaller(outcome.curvature * (outcome.x * outcome.x), LARGEST_SUM)

    def variance(self, s: Floats, x: float, unit: float, step_scale: float) -> float:
        h = metric(self.rule(), self.prior, 0.0, (s[0] + s[1]) / unit)
        return self.size * step_scale * x * x / h  # type: ignore[no-any-return]

    def merged_shards(self, base: Any, records: list[Any]) -> Any:
        found = np.zeros_like(base)  # of which nothing is pending
        found[:, 0] = base[:, :2].sum(axis=1) + sum(
            record[:, :2].sum(axis=1) - base[:, :2].sum(axis=1) for record in records
        )
        return found


def add_pending(s: Floats) -> None:
    """Add the curvature of the last round to the sum of a record."""
    s[0] = add_to_sum(s[0], s[1])
    s[1] = 0.0


class WalkingCurvature(Curvature):
    """`Curvature` with noise: h_i = prior / (1 + lost) + the sum of what is left of its terms.

    The record of a feature has the `lost` part of the prior, too, so that nothing is subtracted from anything.

    >>> step_size = WalkingCurvature(prior=2.0, noise=0.25)
    >>> s = [1.0, 0.0, 0.0]
    >>> step_size.h(s, 1.0)
    3.0
    >>> step_size.observe(s, Observation(1.0, 0.0))
    >>> round(1.0 / step_size.h(s, 1.0) - 1.0 / 3.0, 12), Curvature(noise=0.25).for_loss(None)
    (0.25, WalkingCurvature(size=1.0, prior=1.0, noise=0.25))
    """

    keeps: ClassVar[tuple[str, ...]] = ("bends", "pending", "lost")

    def for_loss(self, loss: AnyLoss) -> StepSize:
        return self

    def h(self, s: Floats, unit: float) -> float:
        return metric(self.rule(), self.prior / (1.0 + s[2]), 0.0, s[0] / unit)  # type: ignore[no-any-return]

    def observe(self, s: Floats, seen: Observation) -> None:
        add_pending(s)
        growth = self.noise * self.h(s, seen.unit)
        s[0] = s[0] / (1.0 + growth)
        s[2] = smaller(s[2] + (1.0 + s[2]) * growth, MOST_LOST)

    def merged_shards(self, base: Any, records: list[Any]) -> Any:
        return np.mean(records, axis=0)

    def variance(self, s: Floats, x: float, unit: float, step_scale: float) -> float:
        h = metric(self.rule(), self.prior / (1.0 + s[2]), 0.0, (s[0] + s[1]) / unit)
        return self.size * step_scale * x * x * (1.0 / h + self.noise)  # type: ignore[no-any-return]
