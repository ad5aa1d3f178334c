"""Step sizes: how far a weight may move in a round.

The step of weight i in round t is eta(t) / h_i. A `Schedule` has one step for all weights (h_i = 1); an `Adaptive`
step size has a metric h_i per feature, from the statistics it keeps of the feature. They are frozen while the feature
is absent.
"""

from __future__ import annotations

from math import nan, sqrt
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from fiol.components.component import Component, PerFeature, at, entry, next_score, require, scores_of
from fiol.components.joint_losses import AnyLoss
from fiol.components.row import Desk, Floats, Indices, nth
from fiol.components.scalars import HUGE

#: Sums of squares go no further: what is infinite leaves no difference.
LARGEST_SUM = 1e300
#: Derivatives count as no larger than this where they are squared; so many squares may be added up.
STEEPEST = 1e145
#: Steps in units of a loss are no longer than this, whatever the units: their products with strengths are doubles.
LONGEST = 1e280
#: Of a prior, one part in so many is left at least: float32 holds that number.
MOST_LOST = 1e30
#: Names of arrays that every learner has, so that no statistic may be called so.
TAKEN = ("w", "mark", "total", "statistics")
#: The methods by which a rule writes the record of a feature.
OBSERVERS = ("observe", "observe_row", "observe_bend", "observe_pull")


def check_names(owner: str, names: tuple[str, ...]) -> None:
    """Raise TypeError unless `names` are good ones for the statistics of a feature, all different."""
    if not isinstance(names, tuple) or not all(isinstance(name, str) and name.isidentifier() for name in names):
        raise TypeError(f"{owner} must name its statistics by a tuple of words, got {names!r}")
    twice = next((name for k, name in enumerate(names) if name in (*TAKEN, *names[:k])), "")
    if twice:
        raise TypeError(f"{owner} cannot have a statistic {twice!r}: that name is taken")


class LaneRule(NamedTuple):
    """A step size of the kind that can be a lane of an ensemble (`fiol.engine.lanes`).

    The step of a weight is size / h with h = base + length L + root sqrt(s / unit) + part s / unit, where L is the
    squared length of the row (see `Adaptive`), and s a sum over the feature's rows: of squared gradients square x^2,
    each before its step, if it `adds_squares`; of bend x^2, each after it, if it `adds_bends`. `adaptive` says whether
    derivatives are of interest at all, and `scale_free` whether values have the unit of the largest: those of a
    `ScaleFree` step size.
    """

    size: float
    base: float
    root: float = 0.0
    part: float = 0.0
    length: float = 0.0
    adds_squares: bool = False
    adds_bends: bool = False
    adaptive: bool = True
    scale_free: bool = False


#: What a `LaneRule` says of a step size: a class with one of these of its own says its rule anew, or has none.
RULED: tuple[str, ...] = ("eta", "h", "observe", "observe_bend", "square_slope", "added", "bend_seen", "square_unit")
RULED += ("unit_of_steps", "square_length", "steps", "steps_now", "step_of_feature", "meet", "shrink_for", "store")
RULED += ("collect", "for_loss", "observe_row", "observe_pull", "row_length", "slope_of", "h_in_units")


class StepSize(Component):
    """A sequence of step sizes. A user's own needs `eta`, and has one step for all weights; see `Adaptive` for others.

    | method | meaning |
    |---|---|
    | `eta(t)` | the step size of round t, from 1 |

    >>> class Warm(StepSize):
    ...     size: float = 1.0
    ...     def eta(self, t): return self.size * min(t / 100.0, 1.0)
    >>> Warm(2.0).eta(50.0), Warm().statistics()
    (1.0, ())
    """

    protocol: ClassVar[dict[str, tuple[str, ...]]] = {
        "eta": ("t",),
        "h": ("s", "unit"),
        "observe": ("s", "x", "square"),
        "observe_row": ("s", "length", "unit"),
        "observe_bend": ("s", "x", "bend"),
        "observe_pull": ("s", "x", "pull", "gain", "slope", "stride"),
    }
    required: ClassVar[tuple[str, ...]] = ("eta",)
    #: Whether eta(t) is the same in every round.
    constant: ClassVar[bool] = False
    #: Whether the steps of features differ.
    per_feature: ClassVar[bool] = False
    #: The statistics kept per feature, by name: one number each.
    keeps: ClassVar[tuple[str, ...]] = ()
    #: How many `keeps` names: compiled code sees the numbers of a class alone.
    kept: ClassVar[int] = 0
    #: Whether there is an `observe_row` of its own.
    sees_rows: ClassVar[bool] = False
    #: Whether there is an `observe_pull` of its own.
    sees_pulls: ClassVar[bool] = False

    if TYPE_CHECKING:

        def eta(self, t: float) -> float: ...

    def __init_subclass__(cls, **kwargs: Any) -> None:
        own = next((name for name in ("h", *OBSERVERS, "keeps") if name in vars(cls)), "")
        if own and not cls.per_feature:
            raise TypeError(f"{cls.__name__} has `{own}`, which is for steps that differ: derive it from fiol.Adaptive")
        check_names(cls.__name__, cls.keeps)
        cls.kept = len(cls.keeps)
        if "lane_rule" not in vars(cls) and any(name in vars(cls) for name in RULED):
            cls.lane_rule = StepSize.lane_rule  # type: ignore[method-assign]
        if "h" in vars(cls) and "h_in_units" not in vars(cls):
            cls.h_in_units = StepSize.h_in_units  # type: ignore[method-assign]
        cls.sees_rows = cls.observe_row is not StepSize.observe_row
        cls.sees_pulls = cls.observe_pull is not StepSize.observe_pull
        super().__init_subclass__(**kwargs)

    def statistics(self) -> tuple[str, ...]:
        """The names of the numbers kept per feature, in the order of its record."""
        return self.keeps

    def width(self) -> int:
        """How many numbers are kept per feature."""
        return self.kept

    def is_constant(self) -> bool:
        """Whether eta(t) is the same in every round."""
        return self.constant

    def knows_variance(self) -> bool:
        """Whether `variance` tells anything."""
        return False

    def penalises_in_units(self) -> bool:
        """Whether penalties see a weight times the `scale` of its feature."""
        return False

    def scale(self, s: Floats) -> float:
        """The size of the values of a feature whose record is s, 1 if nothing is known."""
        return 1.0

    def centres(self) -> bool:
        """Whether features far from 0 are learned as if their mean were 0: see `fiol.engine.centring`."""
        return False

    def centre(self, s: Floats, distance: float) -> None:
        """Begin the record of a feature anew, whose values are distances from its mean, so far up to `distance`."""

    def lane_rule(self) -> LaneRule | None:
        """This step size as a lane of an ensemble has it; None if it is of another kind."""
        return None

    def watches_pulls(self) -> bool:
        """Whether steps depend on what rounds did, by `observe_pull`."""
        return self.sees_pulls

    def h(self, s: Floats, unit: float) -> float:
        """The metric of a feature whose record is s, its values divided by the square root of `unit`."""
        return 1.0

    def h_in_units(self, s: Floats, unit: float) -> float:
        """unit^2 h(s, unit^2), where h is that of values divided by `unit`: a rule may know a quicker way."""
        return unit * unit * self.h(s, unit * unit)

    def observe(self, s: Floats, x: float, square: float) -> None:
        """Write a feature's new statistics, after a round in which it was x and its squared gradient square x^2."""

    def observe_row(self, s: Floats, length: float, unit: float) -> None:
        """Write a feature's new statistics, after `observe`: of the row that it is in, and of its own unit.

        `length` is the squared length of the row, each value divided by the root of its feature's `unit`, intercept
        included.
        """

    def observe_bend(self, s: Floats, x: float, bend: float) -> None:
        """Write a feature's new statistics, after a step that adds bend x^2 to its metric."""

    def observe_pull(self, s: Floats, x: float, pull: float, gain: float, slope: float, stride: float) -> None:
        """Write a feature's new statistics, after a round whose pull on its weight w was beta x.

        `pull` is abs(beta) and `gain` is beta x w, with the weight before the round; of many scores it is the length of
        beta, and the sum of the gains. `slope` and `stride` are what counts as a derivative of 1 and as a step of 1.
        """

    def step_of_feature(self, eta: float, s: Floats) -> float:
        """eta / h; 0 for a feature about which nothing is known."""
        h = self.h(s, 1.0)
        return eta / h if h > 0.0 else 0.0

    def meet(self, s: Floats, x: float) -> None:
        """Take a value into account before anything else happens in its round."""

    def shrink_for(self, x: float, s: Floats) -> float:
        """The factor of a feature's weight, before all else in a round, when the feature has the value x."""
        return 1.0

    def outgrown(self, x: Floats, desk: Desk) -> bool:
        """Whether `shrink_for` is not 1 for any value of a row."""
        return False

    def for_loss(self, loss: AnyLoss) -> StepSize:
        """The step size that does what this one says, for a loss."""
        return self

    def square_slope(self, loss: AnyLoss, z: Any, doubt: float, y: Any) -> float:
        """The squared derivative of the loss at the weights before the step, if it is of interest.

        Of a loss with kinks the least one at scores within `doubt` of z, so that rounding does not choose it.
        """
        return 0.0

    def added(self, loss: AnyLoss, z: Any, y: Any, square: float) -> float:
        """The term that a round adds to the clock's `slopes`; `square` is the squared derivative."""
        return square

    def bend_seen(self, loss: AnyLoss, row: Any, z: Any, after: Any, beta: Any, stride: float) -> float:
        """The curvature that a step by beta from z to `after` has shown: x^2 times this is added to the metric.

        `stride` is the unit of steps.
        """
        return 0.0

    def square_unit(self, loss: AnyLoss, slopes: float, t: float) -> float:
        """The square of the unit of derivatives, when the squares of t rounds have added up to `slopes`."""
        return 1.0

    def slope_of(self, unit: float) -> float:
        """The unit of pulls, for `observe_pull`, when `unit` is what `square_unit` says."""
        return 1.0

    def unit_of_steps(self, loss: AnyLoss, slopes: float, t: float) -> float:
        """The unit of steps, a factor of each, when t rounds have added up to `slopes`."""
        return 1.0

    def row_length(self, x: Floats, more: float, desk: Desk) -> float:
        """The squared length of a row, whose values are met, in the units of its features, if it is of interest.

        The row has `more` entries of 1.
        """
        return 1.0

    def square_length(self, length: float) -> float:
        """The factor of the squared derivative of a row of this squared length."""
        return 1.0

    def collect(self, feature: Indices, statistics: Any, desk: Desk) -> None:
        """Read the records of a row's features."""

    def steps(self, x: Floats, square: float, length: float, stride: float, eta: float, desk: Desk) -> PerFeature:
        """The steps of a row's weights, after its squared gradients, square * x^2, and its length have been observed.

        `stride` is the unit of steps.
        """
        return eta

    def steps_now(self, features: int, eta: float, desk: Desk) -> PerFeature:
        """The steps of the first weights on the desk, by the records as they are."""
        return eta

    def store(
        self,
        feature: Indices,
        x: Floats,
        bend: float,
        beta: Any,
        slope: float,
        stride: float,
        statistics: Any,
        desk: Desk,
    ) -> None:
        """Write the records of a row's features back, after a pull beta that has shown the curvature `bend`."""

    def variance(self, s: Floats, x: float, unit: float, stride: float) -> float:
        """The share of a feature with the record s in the variance of a score: its weight is not known exactly.

        `unit` is that of `h`, and x, the value of the feature, is in units of its root; `stride` is the unit of steps
        now. Step sizes that add up no curvature do not know.
        """
        return nan

    def merged(self, statistics: list[Any], share: Floats) -> Any:
        """The records of a learner that is the weighted average of others with these."""
        return sum(c * a for c, a in zip(share, statistics, strict=True))

    def pooled(self, base: Any, records: list[Any], w: Any, weights: list[Any], unit: Any) -> Pooled:
        """What learners that went on from one, the base, each with rows of its own, know together.

        `base` and `records` are [feature, statistic], w and `weights` [feature] or [feature, score], `unit` is the
        square of every feature's unit. By default, sums go on by what each has added. A weight goes a part of the sum
        of all ways (`pooled_part`): each who saw the feature went the whole way, and the sum of steps that are long
        enough for one would overshoot. What a penalty did to it in the rounds of the others counts with the same part:
        of a feature that few saw, these few had all rows, and the penalty all rounds. If nobody saw it, all adds up.
        """
        pairs = list(zip(records, weights, strict=True))
        seen = [np.any(record != base, axis=1) if record.shape[1] else ~same(own, w) for record, own in pairs]
        part = self.pooled_part(np.maximum(np.sum(seen, axis=0), 1))
        change = sum(for_scores(part, own) * (own - w) for own in weights)
        return Pooled(self.pooled_records(base, records), w, change, np.zeros(len(w)))

    def pooled_part(self, seen: Any) -> Any:
        """Which part of the sum of ways a weight goes whose feature so many have seen, at least 1: the mean way."""
        return 1.0 / seen

    def pooled_records(self, base: Any, records: list[Any]) -> Any:
        """The records of a learner that has seen what several have seen beyond a base."""
        return base + sum(record - base for record in records)


class Pooled(NamedTuple):
    """What several learners know together: the same features as each of them, in the same order."""

    records: Any  #: [feature, statistic]
    w: Any  #: weights of the base, in the units of these records
    change: Any  #: how far they go
    stiffness: Any  #: [feature] what half a squared change costs, by what the base knows of the loss; 0 if unknown


def same(a: Any, b: Any) -> Any:
    """Which features have the same weights, for all scores."""
    return a == b if a.ndim == 1 else np.all(a == b, axis=1)


def for_scores(per_feature: Any, weights: Any) -> Any:
    """A number per feature for all its scores."""
    return per_feature if weights.ndim == 1 else per_feature[:, None]


class Schedule(StepSize):
    """One step for all weights."""


class Constant(Schedule):
    """eta(t) = eta.

    >>> Constant(0.5).eta(1), Constant(0.5).eta(100)
    (0.5, 0.5)
    """

    size: float
    constant: ClassVar[bool] = True

    def validate(self) -> None:
        require("Constant.size", self.size, 0.0, 1e100, open_low=True)

    def lane_rule(self) -> LaneRule | None:
        return LaneRule(self.size, 1.0, adaptive=False)

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
    """A metric per feature, from statistics that `keeps` names. A user's own needs `eta` and `h`, most often `observe`.

    | method | meaning |
    |---|---|
    | `eta(t)` | the step size of round t, from 1 |
    | `h(s, unit)` | the metric of a feature: the step of its weight is eta / h |
    | `observe(s, x, square)` | writes the new statistics into s, after x with the squared gradient square x^2 |
    | `observe_row(s, length, unit)` | the same, next, for a row of this squared length, intercept included |
    | `observe_bend(s, x, bend)` | the same after the step, which has shown `bend_seen` |
    | `observe_pull(s, x, pull, gain, slope, stride)` | the same after the step, of the pull beta on the weight w: |
    | | `pull` is abs(beta), `gain` is beta x w; both are raw, their units `slope` and `slope^2 stride` |

    s is the record of the feature: an array of its statistics in the order of `keeps`, all 0 at first. `unit` is the
    square of the feature's own unit, by which a statistic in units of x^2 is divided: 1, unless a `ScaleFree` step
    size goes by largest values. The gradients are those at the weights before the step: for any convex loss they
    bound the ones the implicit step uses.

    >>> class LargestGradient(Adaptive):
    ...     keeps = ("largest",)
    ...     constant = True  # eta is: absent features need no loop
    ...     def eta(self, t): return 0.5
    ...     def h(self, s, unit): return 0.1 + sqrt(s[0] / unit)
    ...     def observe(self, s, x, square): s[0] = max(s[0], square * (x * x))
    >>> LargestGradient().h([9.0], 1.0), ScaleFree(LargestGradient()).statistics()
    (3.1, ('largest', 'peak'))
    """

    per_feature: ClassVar[bool] = True

    def square_slope(self, loss: AnyLoss, z: Any, doubt: float, y: Any) -> float:
        slope = min(loss.least_slope(z, doubt, y), STEEPEST)
        return slope * slope

    def collect(self, feature: Indices, statistics: Any, desk: Desk) -> None:
        for k in range(feature.shape[0]):
            i = nth(feature, k)
            for j in range(self.width()):
                desk.statistics[j, k] = statistics[i, j]

    def row_length(self, x: Floats, more: float, desk: Desk) -> float:
        total = more
        if self.sees_rows:
            for k in range(x.shape[0]):
                total += x[k] * x[k]
        return total

    def steps(self, x: Floats, square: float, length: float, stride: float, eta: float, desk: Desk) -> PerFeature:
        for k in range(x.shape[0]):
            self.observe(desk.statistics[:, k], x[k], square)
            self.observe_row(desk.statistics[:, k], length, 1.0)
            desk.step[k] = self.step_of_feature(eta, desk.statistics[:, k])
        return desk.step[: x.shape[0]]

    def steps_now(self, features: int, eta: float, desk: Desk) -> PerFeature:
        for k in range(features):
            desk.step[k] = self.step_of_feature(eta, desk.statistics[:, k])
        return desk.step[:features]

    def store(
        self,
        feature: Indices,
        x: Floats,
        bend: float,
        beta: Any,
        slope: float,
        stride: float,
        statistics: Any,
        desk: Desk,
    ) -> None:
        pull = length_of(beta, desk) if self.watches_pulls() else 0.0
        for k in range(feature.shape[0]):
            i = nth(feature, k)
            self.observe_bend(desk.statistics[:, k], x[k], bend)
            if self.watches_pulls():
                gain = x[k] * along(beta, k, desk)
                self.observe_pull(desk.statistics[:, k], x[k], pull, gain, slope, stride)
            for j in range(self.width()):
                statistics[i, j] = desk.statistics[j, k]


def length_of(beta: Any, desk: Desk) -> float:
    """abs(beta); the length of many."""
    if scores_of(desk.w) == 1:
        return abs(at(beta, 0))
    total = 0.0
    k = 0
    while k < scores_of(desk.w):
        total += at(beta, k) * at(beta, k)
        k = next_score(desk.w, k)
    return sqrt(total)


def along(beta: Any, j: int, desk: Desk) -> float:
    """beta times the weight of the row's j-th feature before the round; the sum over many scores."""
    total = 0.0
    k = 0
    while k < scores_of(desk.w):
        total += at(beta, k) * entry(desk.w, j, k)
        k = next_score(desk.w, k)
    return total


class AdaGrad(Adaptive):
    """h_i = kappa + sqrt(sum of squared gradients of feature i): steps that shrink where gradients were large.

    Duchi, Hazan, Singer 2011. FTRL-Proximal's per-coordinate rates are the same with kappa called beta.

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

    def lane_rule(self) -> LaneRule | None:
        return LaneRule(self.size, self.kappa, root=1.0, adds_squares=True)

    def eta(self, t: float) -> float:
        return self.size

    def h(self, s: Floats, unit: float) -> float:
        return self.kappa + sqrt(s[0] / unit)

    def h_in_units(self, s: Floats, unit: float) -> float:
        return unit * (self.kappa * unit + sqrt(s[0]))  # no quotient

    def observe(self, s: Floats, x: float, square: float) -> None:
        s[0] = min(s[0] + square * (x * x), LARGEST_SUM)

    def pooled_part(self, seen: Any) -> Any:
        """1 / sqrt(n): with the squares of all n known, steps are so much shorter, and there are n times as many."""
        return 1.0 / np.sqrt(seen)


class Normalized(Adaptive):
    """h_i = L: a row moves its score as far as a step of length `size` in one dimension would, whatever its length.

    L is the squared length of the row that the feature was last seen in, intercept included: sum of x_i^2, or, in
    `ScaleFree`, of (x_i / peak_i)^2. So the sum of step_i x_i^2 over a row is `size`, times the unit of steps. Nothing
    that was learned makes steps shorter: what rows say is followed at once, and forgotten at once.

    With explicit steps on squared loss this is the normalised least mean squares of Nagumo and Noda (1967), without
    end (`size` 1e100) and with exact steps on the hinge `PA`.

    >>> step_size = Normalized(0.5)
    >>> s = [0.0]
    >>> step_size.observe_row(s, 25.0, 1.0)
    >>> step_size.step_of_feature(step_size.eta(1), s), step_size.statistics()
    (0.02, ('length',))
    """

    size: float = 1.0
    constant: ClassVar[bool] = True
    keeps: ClassVar[tuple[str, ...]] = ("length",)

    def validate(self) -> None:
        require("Normalized.size", self.size, 0.0, 1e100, open_low=True)

    def lane_rule(self) -> LaneRule | None:
        return LaneRule(self.size, 0.0, length=1.0)

    def eta(self, t: float) -> float:
        return self.size

    def h(self, s: Floats, unit: float) -> float:
        return 1.0 * s[0]

    def observe_row(self, s: Floats, length: float, unit: float) -> None:
        s[0] = length

    def merged(self, statistics: list[Any], share: Floats) -> Any:
        # The shortest step of any: who has not seen a feature knows no length of it.
        return np.max([record for record, c in zip(statistics, share, strict=True) if c > 0.0], axis=0)

    def pooled_records(self, base: Any, records: list[Any]) -> Any:
        return np.max(records, axis=0)


class Curvature(Adaptive):
    """h_i = prior + sum of x_i^2 b / (1 + b p): Newton's method with a variance per weight.

    b is the curvature of a round's loss at the score after the step, weight phi'' (`Loss.bend` for losses without
    second derivatives), and p the sum of step_i x_i^2, intercept included. Weights count as normal and independent,
    with variance 1 / prior before the first row and 1 / h_i now. A row would lower the variance of its score from p to
    p / (1 + b p) if what it says were kept in a matrix, and the diagonal of that matrix is kept here; without the
    denominator (assumed-density filtering by precisions, as Graepel, Candela, Borchert and Herbrich 2010 approximate)
    each of the row's features would take all that it says for itself. `fiol.Learner.uncertainty` tells the variances.

    What a round has shown counts from the feature's next row on, so that nothing changes while a feature is absent:
    the record of a feature is the sum, and the last term, which is still `pending`.

    With `noise`, weights count as walking at random: whenever a feature is seen, the variance of its weight first grows
    by `noise`, in the feature's own unit, h_i <- h_i / (1 + noise h_i). So what was learned is forgotten by and by, and
    steps end as long as the stream is unpredictable, about sqrt(noise / b), instead of at 0. See `WalkingCurvature`.

    >>> step_size = Curvature(prior=2.0)
    >>> s = [0.0, 0.0]
    >>> step_size.observe_bend(s, 3.0, 0.25)
    >>> step_size.h(s, 1.0)
    2.0
    >>> step_size.observe(s, 1.0, 0.0)
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
        walks = self.noise > 0.0 and type(self) is Curvature
        return WalkingCurvature(self.size, self.prior, self.noise) if walks else self

    def lane_rule(self) -> LaneRule | None:
        return LaneRule(self.size, self.prior, part=1.0, adds_bends=True) if self.noise == 0.0 else None

    def eta(self, t: float) -> float:
        return self.size

    def h(self, s: Floats, unit: float) -> float:
        return self.prior + s[0] / unit

    def observe(self, s: Floats, x: float, square: float) -> None:
        s[0] = min(s[0] + s[1], LARGEST_SUM)
        s[1] = 0.0

    def observe_bend(self, s: Floats, x: float, bend: float) -> None:
        s[1] = min(bend * (x * x), LARGEST_SUM)

    def knows_variance(self) -> bool:
        return True

    def variance(self, s: Floats, x: float, unit: float, stride: float) -> float:
        return self.size * stride * x * x / (self.prior + (s[0] + s[1]) / unit)

    def bend_seen(self, loss: AnyLoss, row: Any, z: Any, after: Any, beta: Any, stride: float) -> float:
        p = row.lift
        for k in range(row.x.shape[0]):
            p += at(row.steps, k) * (row.x[k] * row.x[k])
        b = min(loss.bend(z, after, beta, row.doubt, stride, row.y, row.weight), LARGEST_SUM)
        return stride / (1.0 / b + p) if b > 0.0 else 0.0

    def pooled(self, base: Any, records: list[Any], w: Any, weights: list[Any], unit: Any) -> Pooled:
        """Weights are normal variables, of which rows add information: natural parameters add up.

        With precisions P = prior + bends, of the base P_0 and of the learners P_k, that is P = P_0 + sum of P_k - P_0
        and w = w_0 + sum of P_k (w_k - w_0) / P.
        """
        prior = self.prior * unit
        before, after = prior + base[:, :2].sum(axis=1), [prior + record[:, :2].sum(axis=1) for record in records]
        now = before + sum(one - before for one in after)
        share = [np.divide(one, now, out=np.zeros(len(w)), where=now > 0.0) for one in after]
        change = sum(for_scores(part, own) * (own - w) for part, own in zip(share, weights, strict=True))
        found = np.zeros_like(base)
        found[:, 0] = now - prior
        return Pooled(found, w, change, before / self.size)


class WalkingCurvature(Curvature):
    """`Curvature` with noise: h_i = prior / (1 + lost) + sum of what is left of its terms.

    The record of a feature has the `lost` part of the prior, too, so that nothing is subtracted from anything.

    >>> step_size = WalkingCurvature(prior=2.0, noise=0.25)
    >>> s = [1.0, 0.0, 0.0]
    >>> step_size.h(s, 1.0)
    3.0
    >>> step_size.observe_row(s, 1.0, 1.0)
    >>> round(1.0 / step_size.h(s, 1.0) - 1.0 / 3.0, 12), Curvature(noise=0.25).for_loss(None)
    (0.25, WalkingCurvature(size=1.0, prior=1.0, noise=0.25))
    """

    keeps: ClassVar[tuple[str, ...]] = ("bends", "pending", "lost")

    def h(self, s: Floats, unit: float) -> float:
        return self.prior / (1.0 + s[2]) + s[0] / unit

    def observe_row(self, s: Floats, length: float, unit: float) -> None:
        growth = self.noise * self.h(s, unit)
        s[0] = s[0] / (1.0 + growth)
        s[2] = min(s[2] + (1.0 + s[2]) * growth, MOST_LOST)

    def pooled(self, base: Any, records: list[Any], w: Any, weights: list[Any], unit: Any) -> Pooled:
        return StepSize.pooled(self, base, records, w, weights, unit)  # what is forgotten does not add up

    def pooled_records(self, base: Any, records: list[Any]) -> Any:
        return np.mean(records, axis=0)

    def variance(self, s: Floats, x: float, unit: float, stride: float) -> float:
        h = self.prior / (1.0 + s[2]) + (s[0] + s[1]) / unit
        return self.size * stride * x * x * (1.0 / h + self.noise)


class CoinBetting(Adaptive):
    """h_i = (D + G) / (endowment D + reward / D): every weight is a bet on the sign of its next pull.

    With pulls beta x_i of feature i, G is the sum of abs(beta x_i), D the largest abs(beta) (and at least 1: `slope`),
    and reward the sum of beta x_i w_i, what was won so far, never below 0. At the `Origin`, where a weight is its step
    times the sum of its pulls, with gradient steps (`LinearizedLoss`), that is for abs(beta) <= 1

        w_i = (endowment + reward) (sum of beta x_i) / (1 + G)

    the part of the money that a gambler stakes who believes in the frequencies so far (Orabona and Pal 2016; the steps
    of COCOB, Orabona and Tommasi 2017): weights grow as fast as they win, and no step size has to be chosen. In
    `ScaleFree`, values are divided by their largest so far, M, before they count (M (M + G) in place of 1 + G), also
    those of the row whose score is computed; D is at least a quarter of the unit g of the loss's derivatives, and the
    endowment has the unit of scores, that of steps times D. `fiol.Coin` puts the three together.

    With a joint loss, the weights of a feature make one bet in as many dimensions: lengths for absolute values, inner
    products for products.

    >>> step_size = CoinBetting()
    >>> s = [0.0, 0.0, 0.0]
    >>> step_size.observe_pull(s, 1.0, 0.5, 0.0, 1.0, 1.0)
    >>> step_size.observe_pull(s, 1.0, 0.5, 0.25, 1.0, 1.0)
    >>> s, step_size.h(s, 1.0), step_size.statistics()
    ([1.0, 1.0, 0.25], 1.6, ('steepest', 'pulled', 'reward'))
    """

    endowment: float = 1.0
    constant: ClassVar[bool] = True
    keeps: ClassVar[tuple[str, ...]] = ("steepest", "pulled", "reward")

    def validate(self) -> None:
        require("CoinBetting.endowment", self.endowment, 1e-100, 1e100)

    def eta(self, t: float) -> float:
        return 1.0

    def h(self, s: Floats, unit: float) -> float:
        largest = 1.0 * s[0]
        if largest == 0.0:  # no pull yet: nothing is won, nothing is pulled
            return 1.0 / self.endowment
        return (largest + s[1] / sqrt(unit)) / (self.endowment * largest + s[2] / largest)

    def observe_pull(self, s: Floats, x: float, pull: float, gain: float, slope: float, stride: float) -> None:
        s[0] = max(s[0], slope, pull)
        s[1] = min(s[1] + pull * abs(x), LARGEST_SUM)
        won = s[2] + gain / stride if stride > 0.0 else s[2]
        s[2] = min(max(won, 0.0), LARGEST_SUM)

    def merged(self, statistics: list[Any], share: Floats) -> Any:
        found = super().merged(statistics, share)
        found[:, 0] = np.max([record[:, 0] for record in statistics], axis=0)
        return found

    def pooled_records(self, base: Any, records: list[Any]) -> Any:
        found = super().pooled_records(base, records)
        found[:, 0] = np.max([record[:, 0] for record in records], axis=0)
        found[:, 2] = np.maximum(found[:, 2], 0.0)  # what some have won, others may have lost
        return found


class ScaleFree(Adaptive):
    """Another step size as if features and targets had natural units.

    Every feature is divided by its largest absolute value so far, peak: steps are divided by peak^2, and a value x
    beyond it first multiplies the last iterate by peak / abs(x) (Ross, Mineiro and Langford 2013). The gradients that
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
    penalised. So metres and kilometres are treated alike. With `raw_penalty=1` penalties see the weights as they are.
    Bounds (`Box`) are those of raw weights in any case; beside a penalty in units they must be 0 or infinite, which
    have none.

    With entropic geometries (`Entropy`, `SignedEntropy`, `Simplex`) the unit of
    targets matters all the same, and that of features: there weights start from a number that knows no unit, and steps
    multiply them; penalties are raw there.

    Offsets do not matter either, in learners with an intercept: a feature that is in nearly every row, and whose mean
    is far from 0 beside its distances from it, is learned as x - mean, with the mean of the rows so far, and the
    intercept that is told takes that into account (`fiol.engine.centring`). With `centred=0` values stay what they are.

    The record of a feature is that of the step size inside, and its peak.

    >>> ScaleFree(Constant(0.5)).h([10.0], 1.0), ScaleFree(AdaGrad(kappa=1.0)).h([400.0, 10.0], 1.0)
    (100.0, 300.0)
    """

    step_size: StepSize = AdaGrad()
    raw_penalty: int = 0
    centred: int = 1
    of_older_files: ClassVar[dict[str, Any]] = {"raw_penalty": 1, "centred": 0}

    def validate(self) -> None:
        if not isinstance(self.step_size, StepSize) or isinstance(self.step_size, ScaleFree):
            raise TypeError(f"ScaleFree.step_size must be another StepSize, got {self.step_size!r}")
        require("ScaleFree.raw_penalty", self.raw_penalty, 0, 1)
        require("ScaleFree.centred", self.centred, 0, 1)
        check_names(repr(self), self.statistics())

    def for_loss(self, loss: AnyLoss) -> StepSize:
        inner = self.step_size.for_loss(loss)
        if loss.has("step_unit"):
            return ScaleFreeSteps(inner, self.raw_penalty, self.centred)
        return self if inner is self.step_size else self.replace(step_size=inner)

    def statistics(self) -> tuple[str, ...]:
        return (*self.step_size.statistics(), "peak")

    def width(self) -> int:
        return self.step_size.width() + 1

    def peak(self, s: Floats) -> float:
        """The largest absolute value of a feature."""
        return 1.0 * s[self.step_size.width()]  # whose square needs double precision, whatever s is stored in

    def penalises_in_units(self) -> bool:
        return self.raw_penalty == 0

    def scale(self, s: Floats) -> float:
        peak = self.peak(s)
        return peak if peak > 0.0 else 1.0

    def centres(self) -> bool:
        return self.centred == 1

    def centre(self, s: Floats, distance: float) -> None:
        for j in range(self.step_size.width()):
            s[j] = 0.0
        s[self.step_size.width()] = distance

    def lane_rule(self) -> LaneRule | None:
        rule = self.step_size.lane_rule()
        return None if rule is None else rule._replace(adaptive=True, scale_free=True)

    def eta(self, t: float) -> float:
        return self.step_size.eta(t)

    def h(self, s: Floats, unit: float) -> float:
        return self.scaled(s)

    def scaled(self, s: Floats) -> float:
        """The metric of the step size inside, for values divided by the largest."""
        peak = self.peak(s)
        return self.step_size.h_in_units(s, peak) if peak * peak > 0.0 else 0.0

    def observe(self, s: Floats, x: float, square: float) -> None:
        self.step_size.observe(s, x, square)

    def observe_row(self, s: Floats, length: float, unit: float) -> None:
        if self.step_size.sees_rows:
            peak = self.peak(s)
            self.step_size.observe_row(s, length, peak * peak)

    def observe_bend(self, s: Floats, x: float, bend: float) -> None:
        self.step_size.observe_bend(s, x, bend)

    def observe_pull(self, s: Floats, x: float, pull: float, gain: float, slope: float, stride: float) -> None:
        self.step_size.observe_pull(s, x, pull, gain, slope, stride)

    def watches_pulls(self) -> bool:
        return self.step_size.sees_pulls

    def slope_of(self, unit: float) -> float:
        return 0.25 * sqrt(unit)

    def bend_seen(self, loss: AnyLoss, row: Any, z: Any, after: Any, beta: Any, stride: float) -> float:
        return self.step_size.bend_seen(loss, row, z, after, beta, stride)

    def variance(self, s: Floats, x: float, unit: float, stride: float) -> float:
        peak = max(self.peak(s), abs(x))  # a feature never seen is as uncertain in any unit
        return self.step_size.variance(s, x / peak, peak * peak, stride) if peak > 0.0 else 0.0

    def meet(self, s: Floats, x: float) -> None:
        s[self.step_size.width()] = max(self.peak(s), abs(x))

    def shrink_for(self, x: float, s: Floats) -> float:
        peak = self.peak(s)
        return peak / abs(x) if abs(x) > peak > 0.0 else 1.0

    def square_unit(self, loss: AnyLoss, slopes: float, t: float) -> float:
        return loss.square_slope_unit(slopes, t)

    def row_length(self, x: Floats, more: float, desk: Desk) -> float:
        total = more
        for k in range(x.shape[0]):
            self.meet(desk.statistics[:, k], x[k])
            peak = self.peak(desk.statistics[:, k])
            part = x[k] / peak if peak > 0.0 else 0.0
            total += part * part
        return total

    def outgrown(self, x: Floats, desk: Desk) -> bool:
        found = False
        for k in range(x.shape[0]):
            found |= abs(x[k]) > self.peak(desk.statistics[:, k]) > 0.0
        return found

    def square_length(self, length: float) -> float:
        return length

    def is_constant(self) -> bool:
        return self.step_size.is_constant()

    def knows_variance(self) -> bool:
        return self.step_size.knows_variance()

    def merged(self, statistics: list[Any], share: Floats) -> Any:
        found = self.step_size.merged(statistics, share)
        peak = self.step_size.width()
        found[:, peak] = np.max([record[:, peak] for record in statistics], axis=0)
        return found

    def pooled(self, base: Any, records: list[Any], w: Any, weights: list[Any], unit: Any) -> Pooled:
        """As the step size inside has it, for weights shrunk to the unit of whoever has seen the largest value."""
        inside, peaks = self.step_size.width(), [record[:, self.step_size.width()] for record in (base, *records)]
        peak = np.max(peaks, axis=0)
        shrunk = [
            for_scores(np.divide(own, peak, out=np.ones(len(peak)), where=peak > own), weight) * weight
            for own, weight in zip(peaks, (w, *weights), strict=True)
        ]
        own = self.step_size.pooled(
            base[:, :inside], [record[:, :inside] for record in records], shrunk[0], shrunk[1:], peak * peak
        )
        found = np.max([base, *records], axis=0)
        found[:, :inside] = own.records
        return own._replace(records=found, stiffness=own.stiffness / self.stride_of(found))

    def stride_of(self, records: Any) -> Any:
        """The unit of steps of every feature."""
        return 1.0


class ScaleFreeSteps(ScaleFree):
    """`ScaleFree` for losses whose steps have a unit: `fiol.Loss.step_unit`, kept in the record as `stride`.

    The metric is divided by the stride, that is by the unit of steps when the feature was last seen, so that nothing
    changes while the feature is absent.

    >>> ScaleFreeSteps(Constant(0.5)).statistics(), ScaleFreeSteps(Constant(0.5)).h([10.0, 2.0], 1.0)
    (('peak', 'stride'), 50.0)
    """

    def lane_rule(self) -> LaneRule | None:
        return ScaleFree.lane_rule(self)

    def statistics(self) -> tuple[str, ...]:
        return (*self.step_size.statistics(), "peak", "stride")

    def width(self) -> int:
        return self.step_size.width() + 2

    def stride_of(self, records: Any) -> Any:
        stride = records[:, self.step_size.width() + 1]
        return np.where(stride > 0.0, stride, 1.0)

    def stride(self, s: Floats) -> float:
        """The unit of steps when the feature was last seen."""
        return 1.0 * s[self.step_size.width() + 1]

    def h(self, s: Floats, unit: float) -> float:
        stride = self.stride(s)
        return self.scaled(s) / stride if stride > 0.0 else 0.0

    def step_of_feature(self, eta: float, s: Floats) -> float:
        h = self.scaled(s)
        return min(eta * self.stride(s) / h, LONGEST) if h > 0.0 else 0.0

    def added(self, loss: AnyLoss, z: Any, y: Any, square: float) -> float:
        return min(loss.gauge(z, y), LARGEST_SUM)

    def unit_of_steps(self, loss: AnyLoss, slopes: float, t: float) -> float:
        return loss.step_unit(slopes, t)

    def steps(self, x: Floats, square: float, length: float, stride: float, eta: float, desk: Desk) -> PerFeature:
        for k in range(x.shape[0]):
            self.observe(desk.statistics[:, k], x[k], square)
            self.observe_row(desk.statistics[:, k], length, 1.0)
            desk.statistics[self.step_size.width() + 1, k] = stride
            desk.step[k] = self.step_of_feature(eta, desk.statistics[:, k])
        return desk.step[: x.shape[0]]
