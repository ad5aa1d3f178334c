"""The protocol of step sizes: `StepSize`, `Schedule` with one step for all weights, `Adaptive` with one per feature."""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING, Any, ClassVar

from fiol.components.component import Component, PerFeature
from fiol.components.joint_losses import AnyLoss
from fiol.components.row import Floats, RowBuffers
from fiol.components.step_sizes.rule import (
    Observation,
    RoundScale,
    StepOutcome,
    StepProperties,
    StepRule,
    learned_value,
    peak_of,
    shrink,
    step_length,
)

#: Names of arrays that every learner has, so that no statistic may be called so.
TAKEN = ("w", "mark", "total", "statistics")
#: The methods by which a step size writes the record of a feature.
OBSERVERS = ("observe", "observe_step")
#: The methods that a `StepRule` states: a class that defines one of them anew states its own `rule`, or has none.
STATED_BY_RULE = (
    "eta",
    "h",
    "raw_metric",
    *OBSERVERS,
    "step_of_feature",
    "observed_steps",
    "steps",
    "peak_place",
    "for_loss",
)


def check_names(owner: str, names: tuple[str, ...]) -> None:
    """Raise TypeError unless `names` are valid and different names for the statistics of a feature."""
    if not isinstance(names, tuple) or not all(isinstance(name, str) and name.isidentifier() for name in names):
        raise TypeError(f"{owner} must name its statistics by a tuple of words, got {names!r}")
    twice = next((name for k, name in enumerate(names) if name in (*TAKEN, *names[:k])), "")
    if twice:
        raise TypeError(f"{owner} cannot have a statistic {twice!r}: that name is taken")


class StepSize(Component):
    """A sequence of step sizes. Your own needs `eta`, and has one step for all weights; see `Adaptive` for others.

    | method | meaning |
    |---|---|
    | `eta(t)` | the step size of round t, from 1 |

    The package calls the others, of which `Adaptive` explains those for users:

    | method | called by |
    |---|---|
    | `eta`, `rule` | every round (`fiol.engine.round.rounds.learn_row`); `rule` also by lanes and merges |
    | `observed_steps`, `observe`, `step_of_feature`, `h` | the round, after the row is read |
    | `observe_step`, `width` | the round, when records are written (`fiol.engine.round.records`) |
    | `peak_place` | `peak_of` and `raise_peak` of `fiol.components.step_sizes.rule` |
    | `steps` | lazy updates and `Origin`, when weights are read |
    | `raw_metric` | `ScaleFree`, of the step size inside |
    | `variance` | `Learner.uncertainty` (`fiol.engine.round.reading`) |
    | `statistics`, `for_loss`, `properties` | plans |
    | `merged`, `merged_shards` | `fiol.engine.parallel`, when learners are merged |

    >>> class Warm(StepSize):
    ...     size: float = 1.0
    ...     def eta(self, t): return self.size * min(t / 100.0, 1.0)
    >>> Warm(2.0).eta(50.0), Warm().statistics()
    (1.0, ())
    """

    protocol: ClassVar[dict[str, tuple[str, ...]]] = {
        "eta": ("t",),
        "h": ("s", "unit"),
        "observe": ("s", "seen"),
        "observe_step": ("s", "outcome"),
    }
    required: ClassVar[tuple[str, ...]] = ("eta",)
    #: Whether eta(t) is the same in every round.
    constant: ClassVar[bool] = False
    #: Whether the steps of features differ.
    per_feature: ClassVar[bool] = False
    #: The names of the statistics kept per feature: one number each.
    keeps: ClassVar[tuple[str, ...]] = ()
    #: The number of names in `keeps`: compiled code sees the numbers of a class alone.
    kept: ClassVar[int] = 0
    #: Whether `observe` uses the length of the row.
    uses_length: ClassVar[bool] = False
    #: Whether `observe_step` uses the pull and the gain, so that steps change after a round.
    uses_pulls: ClassVar[bool] = False
    #: Whether values are divided by the largest absolute value of their feature: `peak` is kept.
    scale_free: ClassVar[bool] = False

    if TYPE_CHECKING:

        def eta(self, t: float) -> float: ...

    def __init_subclass__(cls, **kwargs: Any) -> None:
        own = next((name for name in ("h", *OBSERVERS, "keeps") if name in vars(cls)), "")
        if own and not cls.per_feature:
            raise TypeError(f"{cls.__name__} has `{own}`, which is for steps that differ: derive it from fiol.Adaptive")
        check_names(cls.__name__, cls.keeps)
        cls.kept = len(cls.keeps)
        if "h" in vars(cls) and "raw_metric" not in vars(cls):
            cls.raw_metric = StepSize.raw_metric  # type: ignore[method-assign] # that of the base has another h
        super().__init_subclass__(**kwargs)

    # Properties.

    def statistics(self) -> tuple[str, ...]:
        """Return the names of the numbers kept per feature, in the order of its record."""
        return self.keeps

    def width(self) -> int:
        """Return how many numbers are kept per feature."""
        return self.kept

    def properties(self) -> StepProperties:
        """Return the properties by which plans and rounds are made."""
        return StepProperties(self.constant, self.uses_pulls, False, False)

    def for_loss(self, loss: AnyLoss) -> StepSize:
        """Return the step size that does this for a loss."""
        return self

    def rule(self) -> StepRule:
        """Return the coefficients of the step in round 1: of a `Schedule`, whose steps ignore derivatives."""
        return StepRule(self.eta(1.0), 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)

    # One feature.

    def h(self, s: Floats, unit: float) -> float:
        """Return the metric of a feature whose record is s, its values divided by the square root of `unit`."""
        return 1.0

    def raw_metric(self, s: Floats, peak: float) -> float:
        """Return peak^2 h(s, peak^2), the metric of the weight as it is; `ScaleFree` calls it.

        A class may override it to save a division. A subclass with an `h` of its own has this one again.
        """
        square = peak * peak
        return square * self.h(s, square) if square > 0.0 else 0.0

    def observe(self, s: Floats, seen: Observation) -> None:
        """Write a feature's new statistics before the step of a round."""

    def observe_step(self, s: Floats, outcome: StepOutcome) -> None:
        """Write a feature's new statistics after the step of a round."""

    def step_of_feature(self, eta: float, s: Floats) -> float:
        """Return eta / h; 0 for a feature about which nothing is known."""
        return step_length(eta, self.h(s, 1.0))  # type: ignore[no-any-return]

    def variance(self, s: Floats, x: float, unit: float, step_scale: float) -> float:
        """Return the share of a feature with the record s in the variance of a score; nan if curvatures are not kept.

        `unit` is that of `h`, and x, the value of the feature, is in units of its root; `step_scale` is the unit of
        steps now.
        """
        return nan

    def peak_place(self) -> int:
        """Return where a record has the largest absolute value of its feature, if `scale_free`."""
        return 0

    # One row, whose records lie side by side in the buffers. Steps are one number for all features, or an array.

    def observed_steps(
        self, x: Floats, scale: RoundScale, length: float, eta: float, buffers: RowBuffers
    ) -> PerFeature:
        """Return the steps of a row's weights after `observe`; `length` is the squared length of the row."""
        return eta

    def steps(self, features: int, eta: float, buffers: RowBuffers) -> PerFeature:
        """Return the steps of the first features in the buffers, by their records as they are."""
        return eta

    # Several learners.

    def merged(self, statistics: list[Any], share: Floats) -> Any:
        """Return the records of a learner that is the weighted average of others with these."""
        return sum(c * a for c, a in zip(share, statistics, strict=True))

    def merged_shards(self, base: Any, records: list[Any]) -> Any:
        """Return the records of a learner that has seen all that several have seen since they were `base`."""
        return base + sum(record - base for record in records)


class Schedule(StepSize):
    """One step for all weights."""


class Adaptive(StepSize):
    """A metric per feature, from statistics that `keeps` names. Your own needs `eta` and `h`, most often `observe`.

    | method | meaning |
    |---|---|
    | `eta(t)` | the step size of round t, from 1 |
    | `h(s, unit)` | the metric of a feature: the step of its weight is eta / h |
    | `observe(s, seen)` | writes the new statistics into s before the step: `seen` is an `Observation` with `x`, |
    | | `square` (the squared gradient is square x^2), `length` and `unit` |
    | `observe_step(s, outcome)` | writes them after the step: `outcome` is a `StepOutcome` with `x`, `curvature`, |
    | | `pull`, `gain`, `slope` and `step_scale` |

    | attribute | meaning |
    |---|---|
    | `keeps` | the names of the statistics, a tuple |
    | `constant` | True if eta(t) is the same in every round: absent features need no loop then |
    | `uses_length` | True if `observe` uses `seen.length` |
    | `uses_pulls` | True if `observe_step` uses `outcome.pull` or `outcome.gain` |

    s is the record of the feature: an array of its statistics in the order of `keeps`, all 0 at first. `unit` is the
    square of the feature's own unit, by which a statistic in units of x^2 is divided: 1, unless a `ScaleFree` step
    size goes by largest values. The gradients are those at the weights before the step: for any convex loss they
    bound the ones the implicit step uses.

    >>> from math import sqrt
    >>> from fiol import ScaleFree
    >>> class LargestGradient(Adaptive):
    ...     keeps = ("largest",)
    ...     constant = True
    ...     def eta(self, t): return 0.5
    ...     def h(self, s, unit): return 0.1 + sqrt(s[0] / unit)
    ...     def observe(self, s, seen): s[0] = max(s[0], seen.square * (seen.x * seen.x))
    >>> LargestGradient().h([9.0], 1.0), ScaleFree(LargestGradient()).statistics()
    (3.1, ('largest', 'peak'))
    """

    per_feature: ClassVar[bool] = True

    def rule(self) -> StepRule:
        """Return the coefficients of the step in round 1: h is not among them unless a class states its own."""
        return StepRule(self.eta(1.0), 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0)

    def observed_steps(
        self, x: Floats, scale: RoundScale, length: float, eta: float, buffers: RowBuffers
    ) -> PerFeature:
        for k in range(x.shape[0]):  # one loop: two take a tenth longer for short rows
            s = buffers.statistics[:, k]
            self.observe(s, Observation(x[k], scale.square, length, 1.0, scale.step_scale))
            buffers.step[k] = self.step_of_feature(eta, s)
        return buffers.step[: x.shape[0]]

    def steps(self, features: int, eta: float, buffers: RowBuffers) -> PerFeature:
        for k in range(features):
            buffers.step[k] = self.step_of_feature(eta, buffers.statistics[:, k])
        return buffers.step[:features]


def scale_of(step_size: StepSize, s: Floats) -> float:
    """Return the size of the values of a feature whose record is s, 1 if nothing is known."""
    peak = peak_of(step_size, s)
    return peak if peak > 0.0 else 1.0


def shrink_for(step_size: StepSize, x: float, s: Floats) -> float:
    """Return the factor of a feature's weight before its round: less than 1 for a value beyond all before."""
    peak = peak_of(step_size, s)
    return shrink(peak, abs(learned_value(x, peak)))  # type: ignore[no-any-return]


def states_its_rule(step_size: StepSize) -> bool:
    """Return whether `rule` states all of a step size, so that it can run in a SIMD lane of an ensemble.

    That is so if no class derived from the one that defines `rule` defines a method of `STATED_BY_RULE`, and if the
    statistics are those of the rule: "square" for squared gradients, "bends" and "pending" for curvatures, "length".

    >>> from fiol import AdaGrad
    >>> class Twice(AdaGrad):
    ...     def h(self, s, unit): return 2.0 * AdaGrad.h(self, s, unit)
    >>> states_its_rule(AdaGrad()), states_its_rule(Twice())
    (True, False)
    """
    inner = getattr(step_size, "step_size", None)
    if isinstance(inner, StepSize):
        if not states_its_rule(inner):
            return False
    elif step_size.statistics() != statistics_of(step_size.rule()):
        return False
    for cls in type(step_size).__mro__:
        if "rule" in vars(cls):
            return cls not in (StepSize, Adaptive)
        if any(name in vars(cls) for name in STATED_BY_RULE):
            return False
    return False


def statistics_of(rule: StepRule) -> tuple[str, ...]:
    """Return the names of the statistics that a record in SIMD lanes keeps for a rule."""
    if rule.squares:
        return ("square",)
    if rule.curvatures:
        return ("bends", "pending")
    return ("length",) if rule.length else ()
