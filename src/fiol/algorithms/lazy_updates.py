"""Lazy updates: how the weight of a feature that is absent from a row is brought up to date later.

The weight is exactly the one that a loop over all features in every round would give.

A feature that is not in a row still meets the regularizer in that round. For the anchors that keep all
rounds its weight follows from sums and the clock. For the last iterate the missed rounds are replayed when
the feature is seen again:

| lazy update | replays by | exact for |
|---|---|---|
| `NothingDeferred` | nothing to replay | no regularizer; anchors that keep all rounds, without averages |
| `DeferredAverage` | the number of rounds | no regularizer, with averages |
| `ScaledRidge` | a common factor | one ridge (and a box), any schedule, Euclidean; linearized without a box |
| `CumulativeL1` | the sum of the steps: proxes of l1 add up | l1 (and a box), any step sizes, any separable geometry |
| `ScaledWeights` | a common factor and such a sum | the same as `ScaledRidge` and l1, not linearized |
| `CatchUpReplay` | the number of rounds: `catch_up` | all penalties, quadratic geometries, constant eta(t) |
| `AveragedScaledRidge` | a common factor, and its sum for averages | the same as `ScaledRidge`, without a box |
| `Eager` | a loop over all features in every round | everything else |

The table goes from cheap to dear. Each lazy update states which updates it is exact for (`exact_for`) and what a
round of it costs (`cost`); the plan takes the cheapest. Where features are mixed, as in `Mahalanobis`, no feature is
ever absent, and the first two are exact for every penalty.

Everything else is, for anchors that keep all rounds: averages, a linearized regularizer, and all past iterates
where eta(t) changes. For the last iterate: a linearized regularizer other than a common ridge; and, where eta(t)
changes or the geometry is not quadratic, ridges per feature or in a metric, and averages with l1 or a box.

The formulas stand elsewhere, each once: soft-thresholding in `fiol.components.scalars.soft_threshold`, n rounds of a
ridge in `fiol.components.simd.decay`, n rounds of an elastic net in `fiol.components.regularizers.Elastic.decayed`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

from fiol.algorithms.state import Clock
from fiol.components.component import Component, PerFeature, value_at, weights_of_score
from fiol.components.row import Indices, RowBuffers, nth
from fiol.components.scalars import soft_threshold

if TYPE_CHECKING:
    from fiol.algorithms.plan import Plan

#: Below this, the common factor of all weights is multiplied out and starts again at 1; earlier if sums of it are
#: kept, whose differences would have no digits left.
SMALLEST_SCALE, SMALLEST_SUMMED_SCALE = 1e-120, 1e-3

#: What a round may cost for every entry of its row, beyond the weight that is read and written: one more number to
#: read and write, a product, a prox, a power, a loop over all features whenever the sums of the common factor run out
#: of digits, and a loop over all features in every round. The unit is a product, and only the order matters.
LAST_SEEN, FACTOR, PROX, POWER, OFTEN, ALWAYS = 1.0, 1.0, 2.0, 8.0, 16.0, 1e6


class UpdateProperties(NamedTuple):
    """The properties of an update that decide which lazy updates are exact for it."""

    l1: bool  #: whether the regularizer may have an l1 part
    ridge: bool  #: whether the regularizer may have a ridge part
    common_ridge: bool  #: whether the ridge, 0 included, has one strength for all features
    bounded: bool  #: whether weights are kept in a box
    replayable: bool  #: whether the regularizer has `catch_up`
    linearized: bool  #: whether a push replaces the penalty
    constant: bool  #: whether eta(t) is the same in every round
    one_step: bool  #: whether all features have the same step
    quadratic: bool  #: whether the working geometry is quadratic
    unit_metric: bool  #: whether the working geometry is the Euclidean one
    keeps_all_rounds: bool  #: whether the weights follow from sums over all rounds
    follows_eta: bool  #: whether the anchor's sums change for every feature when eta(t) does
    mixes_features: bool  #: whether the geometry mixes features, so that none is ever absent
    averaged: bool  #: whether sums of the weights over all rounds are kept

    @property
    def penalized(self) -> bool:
        """Whether an absent weight may change."""
        return self.l1 or self.ridge

    @property
    def replays(self) -> bool:
        """Whether absent features have rounds to catch up with."""
        return not self.keeps_all_rounds and not self.mixes_features

    @property
    def shares_factor(self) -> bool:
        """Whether the ridge leaves the same part of all absent weights."""
        return self.replays and self.unit_metric and self.one_step and self.common_ridge


class LazyUpdate(Component):
    """How weights are stored between rounds, and brought up to date after rounds that their features missed.

    The kinds of lazy update differ in these methods and in the constants below. `fiol.algorithms.stored_weights` has
    the functions that call them.

    | method | meaning |
    |---|---|
    | `exact_for(update)` | whether the weights of such an update are those of a loop over all features |
    | `now(clock)` | the reading of the clock that `state.last_seen` records: rounds, or a sum over them |
    | `replay_eta(clock)` | the eta of the steps that `replay` gets; 1 where `now` adds up eta itself |
    | `replay(plan, stored, elapsed, step, unit, clock, i)` | the weight of feature i, of which `stored` is kept |
    | `replay_sum(plan, stored, elapsed, step, unit, i)` | the sum of that weight over the missed rounds |
    | `replay_row(plan, feature, steps, clock, buffers)` | `replay` for the stored weights of a row in `buffers.w` |
    | `stored_form(w, clock)` | the number that is stored for a weight w |
    | `tick(plan, clock, eta)` | the clock after one more round |

    Plans call `exact_for`, and every round calls `tick`.

    `elapsed` is the difference between `now(clock)` and `state.last_seen`, in the unit of `now`. `step` is the
    step of the feature, `unit` the unit in which the penalty sees its weight (`fiol.algorithms.units`).
    """

    #: Whether all features take part in every round.
    everywhere: ClassVar[bool] = False
    #: Whether absent weights change, so that `replay` is needed.
    replays: ClassVar[bool] = False
    #: Whether `state.last_seen` is used.
    records: ClassVar[bool] = True
    #: Whether `state.total` may be used: for learners without averages, the loops over it are not compiled.
    averages: ClassVar[bool] = False
    #: Whether weights are stored as they are, and a round changes no stored weights of its row before it ends. Rows of
    #: many scores are then updated in place.
    in_place: ClassVar[bool] = False
    #: Whether `replay_row` pays, where every weight has its own step.
    by_row: ClassVar[bool] = False
    #: Whether `replay` multiplies by one number, if the regularizer does (`Regularizer.linear`).
    linear: ClassVar[bool] = False
    #: Whether one law with sums in the clock describes all absent weights of a Euclidean geometry, so that sums over
    #: these weights can be kept (`fiol.regret.kernels`).
    shared_decay: ClassVar[bool] = False
    #: The smallest `clock.scale` that weights may be divided by; 0 if they are not.
    smallest_scale: ClassVar[float] = 0.0
    #: What a round costs for every entry of its row, see `LAST_SEEN` and the constants beside it.
    cost: ClassVar[float] = ALWAYS

    def exact_for(self, update: UpdateProperties) -> bool:
        return False

    def now(self, clock: Clock) -> float:
        return clock.t

    def replay_eta(self, clock: Clock) -> float:
        return 1.0

    def replay(
        self, plan: Plan, stored: float, elapsed: float, step: float, unit: float, clock: Clock, i: int
    ) -> float:
        return stored

    def replay_sum(self, plan: Plan, stored: float, elapsed: float, step: float, unit: float, i: int) -> float:
        return 0.0

    def replay_row(self, plan: Plan, feature: Indices, steps: PerFeature, clock: Clock, buffers: RowBuffers) -> None:
        w = weights_of_score(buffers.w, 0)
        for j in range(feature.shape[0]):
            unit = plan.units.unit_of(plan.step_size, buffers.statistics[:, j])
            w[j] = self.replay(plan, w[j], buffers.elapsed[j], value_at(steps, j), unit, clock, nth(feature, j))

    def stored_form(self, w: float, clock: Clock) -> float:
        return w

    def tick(self, plan: Plan, clock: Clock, eta: float) -> Clock:
        return Clock(clock.t + 1.0, eta, clock.scale, clock.cumulative_l1, clock.cumulative_scale, clock.slopes)


class NothingDeferred(LazyUpdate):
    """Absent features are not touched by anything."""

    lane_ready: ClassVar[bool] = True  #: see `fiol.engine.ensemble.lane_group.declares_lanes`
    records: ClassVar[bool] = False
    shared_decay: ClassVar[bool] = True
    in_place: ClassVar[bool] = True
    cost: ClassVar[float] = 0.0

    def exact_for(self, update: UpdateProperties) -> bool:
        if update.keeps_all_rounds:
            moved = (update.follows_eta and not update.constant) or (update.linearized and update.penalized)
        else:
            moved = update.penalized and not update.mixes_features
        return not moved and not update.averaged


class AlwaysPresent(NothingDeferred):
    """`NothingDeferred` with averages, for the intercept, which is absent from no row."""

    averages: ClassVar[bool] = True


class DeferredAverage(LazyUpdate):
    """Absent weights do not change, and their average counts the rounds."""

    averages: ClassVar[bool] = True
    shared_decay: ClassVar[bool] = True
    in_place: ClassVar[bool] = True
    cost: ClassVar[float] = LAST_SEEN

    def exact_for(self, update: UpdateProperties) -> bool:
        return not update.keeps_all_rounds and (update.mixes_features or not update.penalized)

    def replay_sum(self, plan: Plan, stored: float, elapsed: float, step: float, unit: float, i: int) -> float:
        return elapsed * stored


class Eager(LazyUpdate):
    """Every feature takes part in every round: time grows with the number of features."""

    everywhere: ClassVar[bool] = True
    records: ClassVar[bool] = False
    averages: ClassVar[bool] = True

    def exact_for(self, update: UpdateProperties) -> bool:
        return not update.mixes_features  # a feature's round alone is unknown where features are mixed


class CumulativeL1(LazyUpdate):
    """n proxes of l1 with steps eta_s are one with the sum of the steps, in any separable geometry.

    `clock.cumulative_l1` is the sum of eta_s.
    """

    replays: ClassVar[bool] = True
    by_row: ClassVar[bool] = True
    shared_decay: ClassVar[bool] = True
    cost: ClassVar[float] = LAST_SEEN + PROX

    def exact_for(self, update: UpdateProperties) -> bool:
        return update.replays and not update.ridge and not update.linearized and not update.averaged

    def now(self, clock: Clock) -> float:
        return clock.cumulative_l1

    def replay(
        self, plan: Plan, stored: float, elapsed: float, step: float, unit: float, clock: Clock, i: int
    ) -> float:
        return plan.units.prox_in_units(plan.problem.geometry, plan.regularizer, stored, step * elapsed, unit, i)

    def tick(self, plan: Plan, clock: Clock, eta: float) -> Clock:
        cumulative_l1 = clock.cumulative_l1 + eta
        return Clock(clock.t + 1.0, eta, clock.scale, cumulative_l1, clock.cumulative_scale, clock.slopes)


class ScaledWeights(LazyUpdate):
    """Ridge multiplies all weights by the same factor; weights are stored divided by the product of these factors.

    The product is `clock.scale`. Of weights so divided, l1 takes eta / (product so far) in each round, so that its sums
    add up again (Lipton and Elkan 2015): `clock.cumulative_l1`.
    """

    replays: ClassVar[bool] = True
    shared_decay: ClassVar[bool] = True
    smallest_scale: ClassVar[float] = SMALLEST_SCALE
    cost: ClassVar[float] = LAST_SEEN + PROX + FACTOR

    def exact_for(self, update: UpdateProperties) -> bool:
        return update.shares_factor and not update.linearized and not update.averaged

    def now(self, clock: Clock) -> float:
        return clock.cumulative_l1

    def replay(
        self, plan: Plan, stored: float, elapsed: float, step: float, unit: float, clock: Clock, i: int
    ) -> float:
        return plan.regularizer.clip(clock.scale * soft_threshold(stored, plan.l1_rate(step, i) * elapsed))

    def stored_form(self, w: float, clock: Clock) -> float:
        return w / clock.scale

    def tick(self, plan: Plan, clock: Clock, eta: float) -> Clock:
        scale = clock.scale * plan.regularizer_step.ridge_factor(eta * plan.regularizer.l2(0))
        cumulative_l1 = clock.cumulative_l1 + eta / clock.scale
        return Clock(clock.t + 1.0, eta, scale, cumulative_l1, clock.cumulative_scale + scale, clock.slopes)


class ScaledRidge(ScaledWeights):
    """`ScaledWeights` without l1: nothing is recorded."""

    records: ClassVar[bool] = False
    cost: ClassVar[float] = FACTOR

    def exact_for(self, update: UpdateProperties) -> bool:
        # In a box, the rounds of a linearized ridge are made one by one.
        clipped = update.bounded and update.linearized
        return update.shares_factor and not update.l1 and not clipped and not update.averaged

    def replay(
        self, plan: Plan, stored: float, elapsed: float, step: float, unit: float, clock: Clock, i: int
    ) -> float:
        return plan.regularizer.clip(clock.scale * stored)


class AveragedScaledRidge(ScaledRidge):
    """`ScaledRidge` with averages: over the missed rounds only the scale changed, and `cumulative_scale` is its sum."""

    records: ClassVar[bool] = True
    averages: ClassVar[bool] = True
    smallest_scale: ClassVar[float] = SMALLEST_SUMMED_SCALE
    cost: ClassVar[float] = LAST_SEEN + FACTOR + OFTEN

    def exact_for(self, update: UpdateProperties) -> bool:
        return update.shares_factor and not update.l1 and not update.bounded

    def now(self, clock: Clock) -> float:
        return clock.cumulative_scale

    def replay_sum(self, plan: Plan, stored: float, elapsed: float, step: float, unit: float, i: int) -> float:
        return stored * elapsed


class CatchUpReplay(LazyUpdate):
    """All steps were alike, so `Regularizer.catch_up` replays n rounds: by a formula, or by a loop over them."""

    lane_ready: ClassVar[bool] = True  #: see `fiol.engine.ensemble.lane_group.declares_lanes`
    replays: ClassVar[bool] = True
    averages: ClassVar[bool] = True
    by_row: ClassVar[bool] = True
    linear: ClassVar[bool] = True
    in_place: ClassVar[bool] = True
    cost: ClassVar[float] = LAST_SEEN + POWER

    def exact_for(self, update: UpdateProperties) -> bool:
        return update.replays and update.quadratic and update.constant and update.replayable and not update.linearized

    def replay_eta(self, clock: Clock) -> float:
        return clock.eta

    def replay(
        self, plan: Plan, stored: float, elapsed: float, step: float, unit: float, clock: Clock, i: int
    ) -> float:
        w, step = plan.units.to_units(stored, step / plan.problem.geometry.metric(i), unit)
        if plan.regularizer.linear:  # a factor is the same in any unit
            return plan.regularizer.catch_up(stored, step, elapsed, i)
        return plan.units.from_units(plan.regularizer.catch_up(w, step, elapsed, i), unit)

    def replay_sum(self, plan: Plan, stored: float, elapsed: float, step: float, unit: float, i: int) -> float:
        w, step = plan.units.to_units(stored, step / plan.problem.geometry.metric(i), unit)
        return plan.units.from_units(plan.regularizer.catch_up_sum(w, step, elapsed, i), unit)

    def replay_row(self, plan: Plan, feature: Indices, steps: PerFeature, clock: Clock, buffers: RowBuffers) -> None:
        w = weights_of_score(buffers.w, 0)
        for j in range(feature.shape[0]):
            unit = plan.units.unit_of(plan.step_size, buffers.statistics[:, j])
            step = value_at(steps, j) / plan.problem.geometry.metric(nth(feature, j))
            scaled, buffers.step[j] = plan.units.to_units(w[j], step, unit)
            w[j] = w[j] if plan.regularizer.linear else scaled
        plan.regularizer.catch_up_row(feature, buffers.step, buffers.elapsed, w)
        if plan.units.scaled and not plan.regularizer.linear:
            for j in range(feature.shape[0]):
                unit = plan.units.unit_of(plan.step_size, buffers.statistics[:, j])
                w[j] = plan.units.from_units(w[j], unit)


#: Every lazy update there is. The plan takes the cheapest one that is exact for an update.
LAZY_UPDATES: tuple[LazyUpdate, ...] = (
    NothingDeferred(),
    DeferredAverage(),
    CumulativeL1(),
    ScaledWeights(),
    ScaledRidge(),
    AveragedScaledRidge(),
    CatchUpReplay(),
    Eager(),
)
