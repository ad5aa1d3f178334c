"""Laziness: how the weight of a feature that is absent from a row is brought up to date later.

The weight is exactly the one that a loop over all features in every round would give.

A feature that is not in a row still meets the regularizer in that round. For the anchors that keep all
rounds its weight follows from sums and the clock. For the last iterate the missed rounds are replayed when
the feature is seen again:

| laziness | replays by | exact for |
|---|---|---|
| `UpToDate` | nothing to replay | no regularizer; anchors that keep all rounds, without averages |
| `Resting` | the number of rounds | no regularizer, with averages |
| `ByRidge` | a common factor | ridge (and a box) of one strength, any schedule, Euclidean; linearized without a box |
| `BySums` | the sum of the steps: proxes of l1 add up | l1 (and a box), any step sizes, any separable geometry |
| `ByScale` | a common factor and such a sum | the same as `ByRidge` and l1, not linearized |
| `ByRounds` | the number of rounds, in closed form | all penalties and quadratic geometries, where eta(t) is constant |
| `ByRidgePath` | a common factor, and sums of that factor for averages | the same as `ByRidge`, without a box |
| `Eager` | a loop over all features in every round | everything else |

The table goes from cheap to dear. Each laziness says itself which updates it is exact for (`exact_for`) and what a
round of it costs (`cost`); the plan takes the cheapest. Where features are mixed, as in `Mahalanobis`, no feature is
ever absent, and the first two lazinesses are exact for every penalty.

Everything else is, for anchors that keep all rounds: averages, a linearized regularizer, and all past iterates
where eta(t) changes. For the last iterate: a linearized regularizer other than a common ridge; and, where eta(t)
changes or the geometry is not quadratic, ridges per feature or in a metric, and averages with l1 or a box.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from fiol.components.component import Component, at, column, entry, next_score, put, scores_of
from fiol.components.row import Desk, Indices, nth
from fiol.components.scalars import clamp
from fiol.update.state import Clock, State

if TYPE_CHECKING:
    from fiol.update.plan import Plan

#: Below this, the common factor of all weights is multiplied out and starts again at 1; earlier if sums of it are
#: kept, whose differences would have no digits left.
SMALLEST_FACTOR, SMALLEST_FACTOR_OF_SUMS = 1e-120, 1e-3
#: The same where weights divided by that factor are stored in float32, which ends at 3.4e38.
SMALLEST_SINGLE_FACTOR = 1e-15

#: What a round may cost for every entry of its row, beyond the weight that is read and written: one more number to
#: read and write, a product, a prox, a power, a loop over all features whenever the sums of the common factor run out
#: of digits, and a loop over all features in every round. The unit is a product, and only the order matters.
MARK, FACTOR, PROX, POWER, OFTEN, ALWAYS = 1.0, 1.0, 2.0, 8.0, 16.0, 1e6


class Facts(NamedTuple):
    """The properties of an update by which a laziness knows whether it is exact for it."""

    l1: bool  #: whether the regularizer may have an l1 part
    ridge: bool  #: whether the regularizer may have a ridge part
    common_ridge: bool  #: whether the ridge, 0 included, has one strength for all features
    bounded: bool  #: whether weights are kept in a box
    replayable: bool  #: whether the regularizer knows `catch_up`
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
    def penalised(self) -> bool:
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


class Laziness(Component):
    """How weights are kept between rounds, and brought up to date after rounds that their features missed.

    | method | meaning |
    |---|---|
    | `load(plan, state, i, k, clock)` | the weight of feature i for score k after `clock.t` rounds |
    | `shared_factor(plan, state, i, clock)` | the factor by which missed rounds changed all weights of feature i |
    | `load_times(plan, state, i, k, clock, factor)` | `load` times a factor, in which the shared one is included |
    | `load_row(plan, state, feature, clock, desk)` | `load` for a row whose steps differ, into `desk.w`, if `by_row` |
    | `keep(plan, state, i, k, w, clock)` | store w as that weight after `clock.t` rounds |
    | `set_mark(state, i, clock)` | note that the weights of feature i were kept after `clock.t` rounds |
    | `missed(plan, state, i, k, clock)` | sum of that weight over the rounds since the mark of its feature |
    | `tick(plan, clock, eta)` | the clock after one more round |
    | `before_round(plan, state, clock, eta)` | the clock with which a round may begin |
    | `visit_all(plan, state, eta, clock)` | the round of all features, for `Eager` |
    | `after_round(plan, state, feature, clock)` | the clock with which a round may end; called before the row is kept |
    | `add_totals(plan, state, clock)` | add all weights to their sums, for `Eager` |
    """

    #: Whether all features take part in every round.
    everywhere: ClassVar[bool] = False
    #: Whether `state.mark` is used.
    marks: ClassVar[bool] = True
    #: Whether `keep` leaves a weight in `state.w` as it is, and a round changes no weights of its row before that.
    as_they_are: ClassVar[bool] = False
    #: Whether there is a `load_row`, which pays where every weight has its own step.
    by_row: ClassVar[bool] = False
    #: Whether all absent weights of a Euclidean geometry change by one law, so that sums over them can be kept.
    one_law: ClassVar[bool] = False
    #: What a round costs for every entry of its row, see `MARK` and the constants beside it.
    cost: ClassVar[float] = ALWAYS

    def exact_for(self, facts: Facts) -> bool:
        """Whether the weights of such an update are those that a loop over all features would give."""
        return False

    if TYPE_CHECKING:

        def load(self, plan: Plan, state: State, i: int, k: int, clock: Clock) -> float: ...
        def keep(self, plan: Plan, state: State, i: int, k: int, w: float, clock: Clock) -> None: ...

    def load_times(self, plan: Plan, state: State, i: int, k: int, clock: Clock, factor: float) -> float:
        return self.load(plan, state, i, k, clock) * factor

    def shared_factor(self, plan: Plan, state: State, i: int, clock: Clock) -> float:
        return 1.0

    def load_row(self, plan: Plan, state: State, feature: Indices, clock: Clock, desk: Desk) -> None:
        pass

    def set_mark(self, state: State, i: int, clock: Clock) -> None:
        pass

    def missed(self, plan: Plan, state: State, i: int, k: int, clock: Clock) -> float:
        return 0.0

    def tick(self, plan: Plan, clock: Clock, eta: float) -> Clock:
        return Clock(clock.t + 1.0, eta, clock.scale, clock.shrunk, clock.path, clock.slopes)

    def before_round(self, plan: Plan, state: State, clock: Clock, eta: float) -> Clock:
        return clock

    def after_round(self, plan: Plan, state: State, feature: Indices, clock: Clock) -> Clock:
        return clock

    def visit_all(self, plan: Plan, state: State, eta: float, clock: Clock) -> None:
        pass

    def add_totals(self, plan: Plan, state: State, clock: Clock) -> None:
        pass

    def settled(self, plan: Plan, state: State, clock: Clock) -> Clock:
        """Bring every weight up to date, and return the clock with its sums started again."""
        new = Clock(clock.t, clock.eta, 1.0, 0.0, 0.0, clock.slopes)
        for i in range(np.uint64(state.w.shape[0])):
            k = 0
            while k < scores_of(state.w):
                if state.total.shape[0] > 0:
                    put(state.total, i, k, entry(state.total, i, k) + self.missed(plan, state, i, k, clock))
                self.keep(plan, state, i, k, self.load(plan, state, i, k, clock), new)
                k = next_score(state.w, k)
            self.set_mark(state, i, new)
        return new


class UpToDate(Laziness):
    """Absent features are not touched by anything."""

    marks: ClassVar[bool] = False
    one_law: ClassVar[bool] = True
    as_they_are: ClassVar[bool] = True
    cost: ClassVar[float] = 0.0

    def exact_for(self, facts: Facts) -> bool:
        if facts.keeps_all_rounds:
            moved = (facts.follows_eta and not facts.constant) or (facts.linearized and facts.penalised)
        else:
            moved = facts.penalised and not facts.mixes_features
        return not moved and not facts.averaged

    def load(self, plan: Plan, state: State, i: int, k: int, clock: Clock) -> float:
        return entry(state.w, i, k)

    def keep(self, plan: Plan, state: State, i: int, k: int, w: float, clock: Clock) -> None:
        put(state.w, i, k, w)


class Resting(Laziness):
    """Absent weights do not change, and their average counts the rounds."""

    one_law: ClassVar[bool] = True
    as_they_are: ClassVar[bool] = True
    cost: ClassVar[float] = MARK

    def exact_for(self, facts: Facts) -> bool:
        return not facts.keeps_all_rounds and (facts.mixes_features or not facts.penalised)

    def load(self, plan: Plan, state: State, i: int, k: int, clock: Clock) -> float:
        return entry(state.w, i, k)

    def keep(self, plan: Plan, state: State, i: int, k: int, w: float, clock: Clock) -> None:
        put(state.w, i, k, w)

    def set_mark(self, state: State, i: int, clock: Clock) -> None:
        state.mark[i] = clock.t

    def missed(self, plan: Plan, state: State, i: int, k: int, clock: Clock) -> float:
        return (clock.t - state.mark[i]) * entry(state.w, i, k)


class Eager(UpToDate):
    """Every feature takes part in every round: time grows with the number of features."""

    everywhere: ClassVar[bool] = True
    as_they_are: ClassVar[bool] = False
    one_law: ClassVar[bool] = False
    cost: ClassVar[float] = ALWAYS

    def exact_for(self, facts: Facts) -> bool:
        return not facts.mixes_features  # a feature's round alone is unknown where features are mixed

    def visit_all(self, plan: Plan, state: State, eta: float, clock: Clock) -> None:
        for i in range(np.uint64(state.w.shape[0])):
            plan.anchor.pass_by(plan, state, i, eta, clock)

    def add_totals(self, plan: Plan, state: State, clock: Clock) -> None:
        for i in range(np.uint64(state.total.shape[0])):
            k = 0
            while k < scores_of(state.w):
                w = plan.anchor.weight_of_score(plan, state, i, k, clock)
                put(state.total, i, k, entry(state.total, i, k) + w)
                k = next_score(state.w, k)


class BySums(Laziness):
    """n proxes of l1 with steps eta_s are one with the sum of the steps, in any separable geometry."""

    by_row: ClassVar[bool] = True
    one_law: ClassVar[bool] = True
    cost: ClassVar[float] = MARK + PROX

    def exact_for(self, facts: Facts) -> bool:
        return facts.replays and not facts.ridge and not facts.linearized and not facts.averaged

    def load(self, plan: Plan, state: State, i: int, k: int, clock: Clock) -> float:
        step = plan.step_of(state, i, 1.0) * (clock.shrunk - state.mark[i])
        w, unit = entry(state.w, i, k), plan.unit_of(state, i)
        return plan.units.shrunk(plan.problem.geometry, plan.regularizer, w, step, unit, i)

    def load_row(self, plan: Plan, state: State, feature: Indices, clock: Clock, desk: Desk) -> None:
        if not collect_marks(state, feature, clock.shrunk, desk):
            return
        step = plan.step_size.steps_now(feature.shape[0], 1.0, desk)
        for j in range(feature.shape[0]):
            i, passed = nth(feature, j), at(step, j) * desk.passed[j]
            unit = plan.units.unit_of(plan.step_size, desk.statistics[:, j])
            k = 0
            while k < scores_of(desk.w):
                w = entry(desk.w, j, k)
                w = plan.units.shrunk(plan.problem.geometry, plan.regularizer, w, passed, unit, i)
                put(desk.w, j, k, w)
                k = next_score(desk.w, k)

    def keep(self, plan: Plan, state: State, i: int, k: int, w: float, clock: Clock) -> None:
        put(state.w, i, k, w)

    def set_mark(self, state: State, i: int, clock: Clock) -> None:
        state.mark[i] = clock.shrunk

    def tick(self, plan: Plan, clock: Clock, eta: float) -> Clock:
        return Clock(clock.t + 1.0, eta, clock.scale, clock.shrunk + eta, clock.path, clock.slopes)


class ByScale(Laziness):
    """Ridge multiplies all weights by the same factor; `state.w` holds weight / (product of these factors).

    In those units l1 takes eta / (product so far) in each round, so its sums add up again (Lipton and Elkan 2015).
    """

    smallest: ClassVar[float] = SMALLEST_FACTOR
    one_law: ClassVar[bool] = True
    cost: ClassVar[float] = MARK + PROX + FACTOR

    def exact_for(self, facts: Facts) -> bool:
        return facts.shares_factor and not facts.linearized and not facts.averaged

    def load(self, plan: Plan, state: State, i: int, k: int, clock: Clock) -> float:
        v = entry(state.w, i, k)
        tau = plan.regularizer.l1(i) * (clock.shrunk - state.mark[i])
        return plan.regularizer.clip(clock.scale * (v - clamp(v, -tau, tau)))

    def keep(self, plan: Plan, state: State, i: int, k: int, w: float, clock: Clock) -> None:
        put(state.w, i, k, w / clock.scale)

    def set_mark(self, state: State, i: int, clock: Clock) -> None:
        state.mark[i] = clock.shrunk

    def tick(self, plan: Plan, clock: Clock, eta: float) -> Clock:
        scale = clock.scale * plan.regularizer_step.decay(eta * plan.regularizer.l2(0))
        shrunk = clock.shrunk + eta / clock.scale
        return Clock(clock.t + 1.0, eta, scale, shrunk, clock.path + scale, clock.slopes)

    def smallest_for(self, state: State) -> float:
        """The smallest factor that stored weights may be divided by."""
        return self.smallest if state.w.itemsize == 8 else max(self.smallest, SMALLEST_SINGLE_FACTOR)

    def before_round(self, plan: Plan, state: State, clock: Clock, eta: float) -> Clock:
        """Multiply the factor out before it becomes too small to divide by."""
        too_small = abs(self.tick(plan, clock, eta).scale) < self.smallest_for(state)
        return self.settled(plan, state, clock) if too_small else clock

    def after_round(self, plan: Plan, state: State, feature: Indices, clock: Clock) -> Clock:
        """A round that alone leaves next to nothing of the weights cannot be divided by: store what is left of them."""
        if abs(clock.scale) >= self.smallest_for(state):
            return clock
        new = Clock(clock.t, clock.eta, 1.0, 0.0, 0.0, clock.slopes)
        for i in range(np.uint64(state.w.shape[0])):
            k = 0
            while k < scores_of(state.w):
                w = self.load(plan, state, i, k, clock)
                self.keep(plan, state, i, k, w, new)
                if state.total.shape[0] > 0:
                    put(state.total, i, k, entry(state.total, i, k) + w)
                k = next_score(state.w, k)
            self.set_mark(state, i, new)
        if state.total.shape[0] > 0:  # the row's own weights are added when they are kept
            for j in range(feature.shape[0]):
                i = nth(feature, j)
                k = 0
                while k < scores_of(state.w):
                    w = self.load(plan, state, i, k, new)
                    put(state.total, i, k, entry(state.total, i, k) - w)
                    k = next_score(state.w, k)
        return new


class ByRidge(ByScale):
    """`ByScale` without l1: no marks are needed."""

    marks: ClassVar[bool] = False
    cost: ClassVar[float] = FACTOR

    def exact_for(self, facts: Facts) -> bool:
        # In a box, the rounds of a linearized ridge are made one by one.
        clipped = facts.bounded and facts.linearized
        return facts.shares_factor and not facts.l1 and not clipped and not facts.averaged

    def load(self, plan: Plan, state: State, i: int, k: int, clock: Clock) -> float:
        return plan.regularizer.clip(clock.scale * entry(state.w, i, k))

    def keep(self, plan: Plan, state: State, i: int, k: int, w: float, clock: Clock) -> None:
        put(state.w, i, k, w / clock.scale)

    def set_mark(self, state: State, i: int, clock: Clock) -> None:
        pass


class ByRidgePath(ByRidge):
    """`ByRidge` with sums for the average: over the missed rounds only the common factor changed."""

    marks: ClassVar[bool] = True
    smallest: ClassVar[float] = SMALLEST_FACTOR_OF_SUMS
    cost: ClassVar[float] = MARK + FACTOR + OFTEN

    def exact_for(self, facts: Facts) -> bool:
        return facts.shares_factor and not facts.l1 and not facts.bounded

    def keep(self, plan: Plan, state: State, i: int, k: int, w: float, clock: Clock) -> None:
        put(state.w, i, k, w / clock.scale)

    def set_mark(self, state: State, i: int, clock: Clock) -> None:
        state.mark[i] = clock.path

    def missed(self, plan: Plan, state: State, i: int, k: int, clock: Clock) -> float:
        return entry(state.w, i, k) * (clock.path - state.mark[i])


class ByRounds(Laziness):
    """All steps were alike, so the regularizer replays n rounds at once."""

    by_row: ClassVar[bool] = True
    as_they_are: ClassVar[bool] = True
    cost: ClassVar[float] = MARK + POWER

    def exact_for(self, facts: Facts) -> bool:
        return facts.replays and facts.quadratic and facts.constant and facts.replayable and not facts.linearized

    def load_row(self, plan: Plan, state: State, feature: Indices, clock: Clock, desk: Desk) -> None:
        if not collect_marks(state, feature, clock.t, desk):
            return
        step = plan.step_size.steps_now(feature.shape[0], clock.eta, desk)
        w = column(desk.w, 0)
        for k in range(feature.shape[0]):
            unit = plan.units.unit_of(plan.step_size, desk.statistics[:, k])
            desk.step[k] = (unit * unit) * (at(step, k) / plan.problem.geometry.metric(nth(feature, k)))
            w[k] *= unit
        plan.regularizer.catch_up_row(feature, desk.step, desk.passed, w)
        if plan.units.scaled:
            for k in range(feature.shape[0]):
                w[k] /= plan.units.unit_of(plan.step_size, desk.statistics[:, k])

    def load_times(self, plan: Plan, state: State, i: int, k: int, clock: Clock, factor: float) -> float:
        if state.w.ndim == 1 or not plan.regularizer.linear:
            return self.load(plan, state, i, k, clock) * factor
        return entry(state.w, i, k) * factor

    def shared_factor(self, plan: Plan, state: State, i: int, clock: Clock) -> float:
        if state.w.ndim == 1 or not plan.regularizer.linear:
            return 1.0
        n, step = clock.t - state.mark[i], plan.euclidean_step(state, i, clock.eta)
        return plan.units.after_rounds(plan.regularizer, 1.0, step, n, plan.unit_of(state, i), i)

    def load(self, plan: Plan, state: State, i: int, k: int, clock: Clock) -> float:
        n, step = clock.t - state.mark[i], plan.euclidean_step(state, i, clock.eta)
        return plan.units.after_rounds(plan.regularizer, entry(state.w, i, k), step, n, plan.unit_of(state, i), i)

    def keep(self, plan: Plan, state: State, i: int, k: int, w: float, clock: Clock) -> None:
        put(state.w, i, k, w)

    def set_mark(self, state: State, i: int, clock: Clock) -> None:
        state.mark[i] = clock.t

    def missed(self, plan: Plan, state: State, i: int, k: int, clock: Clock) -> float:
        n, step = clock.t - state.mark[i], plan.euclidean_step(state, i, clock.eta)
        return plan.units.sum_of_rounds(plan.regularizer, entry(state.w, i, k), step, n, plan.unit_of(state, i), i)


def collect_marks(state: State, feature: Indices, now: float, desk: Desk) -> bool:
    """The stored weights of a row into `desk.w`, what passed since their marks into `desk.passed`; whether any did."""
    most = 0.0
    for j in range(feature.shape[0]):
        i = nth(feature, j)
        k = 0
        while k < scores_of(state.w):
            put(desk.w, j, k, entry(state.w, i, k))
            k = next_score(state.w, k)
        desk.passed[j] = now - state.mark[i]
        most = max(most, desk.passed[j])
    return most > 0.0


#: Every laziness there is. The plan takes the cheapest one that is exact for an update.
LAZINESSES: tuple[Laziness, ...] = (
    UpToDate(),
    Resting(),
    BySums(),
    ByScale(),
    ByRidge(),
    ByRidgePath(),
    ByRounds(),
    Eager(),
)
