"""Scale-free steps: another step size as if features and targets had natural units."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from fiol.components.component import require
from fiol.components.joint_losses import AnyLoss
from fiol.components.row import Floats
from fiol.components.simd import larger, smaller
from fiol.components.step_sizes.protocol import Adaptive, StepSize, check_names
from fiol.components.step_sizes.rule import (
    LONGEST,
    Observation,
    StepOutcome,
    StepProperties,
    StepRule,
    peak_of,
    step_length,
)
from fiol.components.step_sizes.sums import AdaGrad


def scale_free_rule(rule: StepRule) -> StepRule:
    """Return the rule of the step size inside with values, derivatives and steps in units."""
    inner = rule.size, rule.base, rule.root, rule.part, rule.length, rule.squares, rule.curvatures
    return StepRule(*inner, 1.0, 1.0)


class ScaleFree(Adaptive):
    """Another step size as if features and targets had natural units.

    Every feature is divided by its largest absolute value so far, peak: steps are divided by peak^2, and a value x
    beyond it first multiplies the last iterate by peak / abs(x) (Ross, Mineiro and Langford 2013). A value beyond
    8 peak is an outlier and counts as 1.25 peak (`learned_value`). The gradients that
    AdaGrad adds up are divided by the unit g of the loss's derivatives (`Loss.square_slope_unit` is g^2) and
    multiplied by the length of the row, intercept included: the weights that make up a score of size 1 from n features
    are of size 1/sqrt(n). Steps are multiplied by the unit u of the loss's steps (`Loss.step_unit`), as it was when the
    feature was last seen, up to a length of 1e280. With means over all rounds so far, each with the weights before its
    step,

    | loss | g | u |
    |---|---|---|
    | squared, Huber, any without a unit of its own | 2 sqrt(mean phi'^2) | 1 |
    | absolute, epsilon-insensitive | 2 | mean abs(z - y) |
    | quantile, with k = max(tau, 1 - tau) | 2 k | mean abs(z - y) / k |
    | Poisson | 2 mean y | 1 / mean y |
    | of two classes, of many | 4, 8 | 1 |

    So multiplying a column by a constant divides its weight by it and changes no score; multiplying the targets of a
    regression by one (with epsilon and delta, that have their unit) multiplies the scores by it, or, if the loss is
    Poisson's, adds its logarithm in the long run. Not even the last bit differs, if the constant is a power of 2.
    Penalties see a weight in units of its feature, peak times w: `L1(lam)` is lam times the sum of peak_i abs(w_i),
    `Ridge(lam)` half lam times the sum of (peak_i w_i)^2, each with the peaks so far; a feature never seen is not
    penalized. So meters and kilometers are treated alike. With `raw_penalty=1` penalties see the weights as they are.
    Bounds (`Box`) are those of raw weights in any case; beside a penalty in units they must be 0 or infinite, which
    have none.

    With entropic geometries (`Entropy`, `SignedEntropy`, `Simplex`) the units of targets and features matter: weights
    start from a number without a unit, and steps multiply them; penalties are raw there.

    Offsets do not matter either, in learners with an intercept: a feature that is in nearly every row, and whose mean
    is far from 0 beside its distances from it, is learned as x - mean, with the mean of the rows so far. Ensembles
    learn targets as y - origin, if the loss allows it. The intercept that a learner returns is that of raw values and
    targets (`fiol.engine.centering`). With `centered=0` neither is done.

    The record of a feature is that of the step size inside, and its peak.

    Parameters
    ----------
    step_size : StepSize
        The step size inside.
    raw_penalty : int
        1 if penalties are applied to raw weights, 0 if in units of features.
    centered : int
        1 if columns far from 0 are centered, 0 if values are used as they are.

    Examples
    --------
    >>> from fiol import Constant
    >>> ScaleFree(Constant(0.5)).h([10.0], 1.0), ScaleFree(AdaGrad(kappa=1.0)).h([400.0, 10.0], 1.0)
    (100.0, 300.0)
    """

    step_size: StepSize = AdaGrad()
    raw_penalty: int = 0
    centered: int = 1
    of_older_files: ClassVar[dict[str, Any]] = {"raw_penalty": 1, "centered": 0}
    renamed_fields: ClassVar[dict[str, str]] = {"centred": "centered"}
    scale_free: ClassVar[bool] = True

    def validate(self) -> None:
        if not isinstance(self.step_size, StepSize) or isinstance(self.step_size, ScaleFree):
            raise TypeError(f"ScaleFree.step_size must be another StepSize, got {self.step_size!r}")
        require("ScaleFree.raw_penalty", self.raw_penalty, 0, 1)
        require("ScaleFree.centered", self.centered, 0, 1)
        check_names(repr(self), self.statistics())

    # What it is, mostly by the step size inside.

    def for_loss(self, loss: AnyLoss) -> StepSize:
        inner = self.step_size.for_loss(loss)
        if loss.has_step_scale:
            return ScaleFreeSteps(inner, self.raw_penalty, self.centered)
        return self if inner is self.step_size else self.replace(step_size=inner)

    def statistics(self) -> tuple[str, ...]:
        return (*self.step_size.statistics(), "peak")

    def width(self) -> int:
        return self.step_size.width() + 1

    def properties(self) -> StepProperties:
        inner = self.step_size.properties()
        return StepProperties(inner.constant, inner.uses_pulls, self.raw_penalty == 0, self.centered == 1)

    def rule(self) -> StepRule:
        return scale_free_rule(self.step_size.rule())

    def eta(self, t: float) -> float:
        return self.step_size.eta(t)

    # One feature.

    def peak_place(self) -> int:
        return self.step_size.width()

    def h(self, s: Floats, unit: float) -> float:
        return self.step_size.raw_metric(s, peak_of(self, s))

    def observe(self, s: Floats, seen: Observation) -> None:
        peak = peak_of(self, s)
        self.step_size.observe(s, Observation(seen.x, seen.square, seen.length, peak * peak))

    def observe_step(self, s: Floats, outcome: StepOutcome) -> None:
        self.step_size.observe_step(s, outcome)

    def variance(self, s: Floats, x: float, unit: float, step_scale: float) -> float:
        peak = larger(peak_of(self, s), abs(x))  # a feature never seen is as uncertain in any unit
        return self.step_size.variance(s, x / peak, peak * peak, step_scale) if peak > 0.0 else 0.0

    # Several learners.

    def merged(self, statistics: list[Any], share: Floats) -> Any:
        found = self.step_size.merged(statistics, share)
        peak = self.step_size.width()
        found[:, peak] = np.max([record[:, peak] for record in statistics], axis=0)
        return found

    def merged_shards(self, base: Any, records: list[Any]) -> Any:
        inside, found = self.step_size.width(), np.max([base, *records], axis=0)
        found[:, :inside] = self.step_size.merged_shards(base[:, :inside], [record[:, :inside] for record in records])
        return found


class ScaleFreeSteps(ScaleFree):
    """`ScaleFree` for losses whose steps have a unit: `fiol.Loss.step_unit`, kept in the record as `step_scale`.

    The metric is divided by the stride, that is by the unit of steps when the feature was last seen, so that nothing
    changes while the feature is absent.

    >>> from fiol import Constant
    >>> ScaleFreeSteps(Constant(0.5)).statistics(), ScaleFreeSteps(Constant(0.5)).h([10.0, 2.0], 1.0)
    (('peak', 'stride'), 50.0)
    """

    def rule(self) -> StepRule:
        return scale_free_rule(self.step_size.rule())  # in lanes the unit of steps is that of the round

    def statistics(self) -> tuple[str, ...]:
        return (*self.step_size.statistics(), "peak", "stride")

    def width(self) -> int:
        return self.step_size.width() + 2

    def step_scale(self, s: Floats) -> float:
        """Return the unit of steps when the feature was last seen."""
        return 1.0 * s[self.step_size.width() + 1]

    def h(self, s: Floats, unit: float) -> float:
        return step_length(self.step_size.raw_metric(s, peak_of(self, s)), self.step_scale(s))  # type: ignore[no-any-return]

    def step_of_feature(self, eta: float, s: Floats) -> float:
        h = self.step_size.raw_metric(s, peak_of(self, s))
        return smaller(step_length(eta * self.step_scale(s), h), LONGEST)  # type: ignore[no-any-return]

    def observe(self, s: Floats, seen: Observation) -> None:
        s[self.step_size.width() + 1] = seen.step_scale
        peak = peak_of(self, s)
        self.step_size.observe(s, Observation(seen.x, seen.square, seen.length, peak * peak))
