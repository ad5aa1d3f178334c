"""The third switch of Table 1, C(w): what keeps the new weights near where they were."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from fiol.components.component import (
    Component,
    PerFeature,
    at,
    entry,
    next_score,
    plus,
    put,
    put_row_entry,
    row_entry,
    scores_of,
    working_place,
)
from fiol.components.row import Desk, Floats, Indices, nth
from fiol.update.state import Clock, State

if TYPE_CHECKING:
    from fiol.update.plan import Plan


class Anchor(Component):
    """The part of a round that keeps new weights near the old ones, and decides what is stored of them.

    | method | meaning |
    |---|---|
    | `weight_of_score(plan, state, i, k, clock)` | the weight of feature i for score k after `clock.t` rounds |
    | `shared_factor(plan, state, i, clock)` | the factor by which missed rounds changed all weights of feature i |
    | `weight_times(plan, state, i, k, clock, factor)` | that weight times a factor, the shared one included |
    | `weight_for_value(plan, state, i, x, w)` | what becomes of w, before anything else, when its feature is x |
    | `gather(plan, state, feature, x, eta, clock, desk, z)` | the weights of a row into `desk.w`, their score onto z |
    | `centers_of_row(plan, state, feature, w, steps, eta, desk)` | where the paths of its weights start |
    | `where(plan, state, space)` | where the weights of a row are while it is worked on: in that space, or in place |
    | `finish(plan, state, feature, x, beta, new, clock)` | remember the outcome of the round |
    | `pass_by(plan, state, i, eta, clock)` | a round for feature i alone, for `Eager` |
    | `rounds(plan, t)` | how often the regularizer counts in round t |

    Rows have one score, with `state.w` a vector, or many, with `state.w` [feature, score]: `entry(state.w, i, k)` and
    `put(state.w, i, k, value)` are for both, and loops over k stand inside those over features.
    """

    #: Whether the weights follow from sums over all rounds, and not from the weights of the round before.
    keeps_all_rounds: ClassVar[bool] = False
    #: Whether those sums change for every feature when eta(t) does.
    follows_eta: ClassVar[bool] = False

    if TYPE_CHECKING:

        def rounds(self, plan: Plan, t: float) -> float: ...
        def weight_of_score(self, plan: Plan, state: State, i: int, k: int, clock: Clock) -> float: ...
        def pass_by(self, plan: Plan, state: State, i: int, eta: float, clock: Clock) -> None: ...

    def weight_of_feature(self, plan: Plan, state: State, i: int, clock: Clock) -> float:
        """The weight of feature i, where there is one score."""
        return plan.anchor.weight_of_score(plan, state, i, 0, clock)

    def shared_factor(self, plan: Plan, state: State, i: int, clock: Clock) -> float:
        return 1.0

    def weight_times(self, plan: Plan, state: State, i: int, k: int, clock: Clock, factor: float) -> float:
        return factor * plan.anchor.weight_of_score(plan, state, i, k, clock)

    def weight_for_value(self, plan: Plan, state: State, i: int, x: float, w: float) -> float:
        return w

    def where(self, plan: Plan, state: State, space: Any) -> Any:
        return space

    def gather(
        self, plan: Plan, state: State, feature: Indices, x: Floats, eta: float, clock: Clock, desk: Desk, z: Any
    ) -> Any:
        for j in range(x.shape[0]):
            k = 0
            while k < scores_of(state.w):
                w = plan.anchor.weight_of_score(plan, state, nth(feature, j), k, clock)
                put(desk.w, j, k, w)
                z = plus(z, k, x[j] * w)
                k = next_score(state.w, k)
        return z


class LastIterate(Anchor):
    """C(w) = B(w, w_hat) / eta: near the weights of the round before (mirror descent)."""

    def rounds(self, plan: Plan, t: float) -> float:
        return 1.0

    def weight_of_score(self, plan: Plan, state: State, i: int, k: int, clock: Clock) -> float:
        return plan.laziness.load(plan, state, i, k, clock)

    def shared_factor(self, plan: Plan, state: State, i: int, clock: Clock) -> float:
        return plan.laziness.shared_factor(plan, state, i, clock)

    def weight_times(self, plan: Plan, state: State, i: int, k: int, clock: Clock, factor: float) -> float:
        return plan.laziness.load_times(plan, state, i, k, clock, factor)

    def weight_for_value(self, plan: Plan, state: State, i: int, x: float, w: float) -> float:
        return plan.regularizer.clip(w * plan.step_size.shrink_for(x, state.statistics[i]))

    def gather(
        self, plan: Plan, state: State, feature: Indices, x: Floats, eta: float, clock: Clock, desk: Desk, z: Any
    ) -> Any:
        by_row = plan.laziness.by_row and plan.step_size.per_feature and scores_of(state.w) == 1
        if by_row:
            plan.laziness.load_row(plan, state, feature, clock, desk)
        held = self.where(plan, state, desk.w)
        for j in range(x.shape[0]):
            i = nth(feature, j)
            kept = plan.step_size.shrink_for(x[j], desk.statistics[:, j])
            if not by_row:
                kept = plan.laziness.shared_factor(plan, state, i, clock) * kept
            k = 0
            while k < scores_of(state.w):
                w = entry(desk.w, j, k) * kept if by_row else plan.laziness.load_times(plan, state, i, k, clock, kept)
                w = plan.regularizer.clip(w)
                put_row_entry(held, i, j, k, w)
                if plan.step_size.watches_pulls():  # which may be worked on in place
                    put(desk.w, j, k, w)
                z = plus(z, k, x[j] * w)
                k = next_score(state.w, k)
        return z

    def centers_of_row(
        self, plan: Plan, state: State, feature: Indices, w: Any, steps: PerFeature, eta: float, desk: Desk
    ) -> Any:
        return plan.regularizer_step.centers(plan, feature, w, steps, desk)

    def where(self, plan: Plan, state: State, space: Any) -> Any:
        return working_place(plan.laziness, state.w, space)

    def finish(self, plan: Plan, state: State, feature: Indices, x: Floats, beta: Any, new: Any, clock: Clock) -> None:
        for j in range(x.shape[0]):
            i = nth(feature, j)
            k = 0
            while k < scores_of(state.w):
                plan.laziness.keep(plan, state, i, k, row_entry(new, i, j, k), clock)
                k = next_score(state.w, k)
            plan.laziness.set_mark(state, i, clock)

    def pass_by(self, plan: Plan, state: State, i: int, eta: float, clock: Clock) -> None:
        geometry, step, unit = plan.problem.geometry, plan.step_of(state, i, eta), plan.unit_of(state, i)
        k = 0
        while k < scores_of(state.w):
            w = entry(state.w, i, k)
            center = plan.regularizer_step.start_of(plan, w, step, unit, i)
            put(state.w, i, k, plan.units.shrunk(geometry, plan.problem.regularizer, center, step, unit, i))
            k = next_score(state.w, k)


class Origin(Anchor):
    """C(w) = psi(w) / eta with the sum of all past pulls: near the origin (dual averaging).

    `state.w` holds the sum of the pulls, beta x over all rounds. The weights follow from it,

        w = argmin_w  -pulls w + (rounds) r(w) + psi(w) / step,

    so that nothing happens to an absent feature that its pulls and the clock do not tell.
    """

    keeps_all_rounds: ClassVar[bool] = True

    def rounds(self, plan: Plan, t: float) -> float:
        return plan.regularizer_step.count(t)

    def weight_of_score(self, plan: Plan, state: State, i: int, k: int, clock: Clock) -> float:
        return self.weight_of_step(plan, state, i, k, clock, plan.step_of(state, i, clock.eta), plan.unit_of(state, i))

    def weight_of_step(self, plan: Plan, state: State, i: int, k: int, clock: Clock, step: float, unit: float) -> float:
        """The weight of feature i for score k that its sum of pulls makes with this step, and in this unit."""
        center = plan.problem.geometry.inverse(step * entry(state.w, i, k), i)
        count = plan.regularizer_step.count(clock.t)
        return plan.units.shrunk(plan.problem.geometry, plan.problem.regularizer, center, count * step, unit, i)

    def gather(
        self, plan: Plan, state: State, feature: Indices, x: Floats, eta: float, clock: Clock, desk: Desk, z: Any
    ) -> Any:
        for j in range(x.shape[0]):
            i = nth(feature, j)
            step = unit = 1.0
            if plan.step_size.watches_pulls():  # bets are made in the unit of the value that they are for
                plan.step_size.meet(desk.statistics[:, j], x[j])
                step = plan.step_size.step_of_feature(clock.eta, desk.statistics[:, j])
                unit = plan.units.unit_of(plan.step_size, desk.statistics[:, j])
            k = 0
            while k < scores_of(state.w):
                if plan.step_size.watches_pulls():
                    w = self.weight_of_step(plan, state, i, k, clock, step, unit)
                else:
                    w = plan.anchor.weight_of_score(plan, state, i, k, clock)
                put(desk.w, j, k, w)
                z = plus(z, k, x[j] * w)
                k = next_score(state.w, k)
        return z

    def centers_of_row(
        self, plan: Plan, state: State, feature: Indices, w: Any, steps: PerFeature, eta: float, desk: Desk
    ) -> Any:
        for j in range(feature.shape[0]):
            i = nth(feature, j)
            k = 0
            while k < scores_of(state.w):
                put(desk.center, j, k, plan.problem.geometry.inverse(at(steps, j) * entry(state.w, i, k), i))
                k = next_score(state.w, k)
        return desk.center[: feature.shape[0]]

    def finish(self, plan: Plan, state: State, feature: Indices, x: Floats, beta: Any, new: Any, clock: Clock) -> None:
        for j in range(x.shape[0]):
            i = nth(feature, j)
            k = 0
            while k < scores_of(state.w):
                put(state.w, i, k, entry(state.w, i, k) + at(beta, k) * x[j])
                k = next_score(state.w, k)

    def pass_by(self, plan: Plan, state: State, i: int, eta: float, clock: Clock) -> None:
        k = 0
        while k < scores_of(state.w):
            w = self.weight_of_score(plan, state, i, k, clock)
            put(state.w, i, k, entry(state.w, i, k) + plan.regularizer_step.push(plan, w, plan.unit_of(state, i), i))
            k = next_score(state.w, k)


class AllIterates(Origin):
    """C(w) = sum of hold_s B(w, w_s) over all rounds, hold_s = 1/step_s - 1/step_(s-1): near all past weights.

    (Follow the proximally regularized leader; the first term is centered at the origin.) `state.w` holds the sum of
    the pulls and the mirrored past weights, sum of hold_s psi'(w_s), together.
    """

    follows_eta: ClassVar[bool] = True

    def gather(
        self, plan: Plan, state: State, feature: Indices, x: Floats, eta: float, clock: Clock, desk: Desk, z: Any
    ) -> Any:
        # Roots and quotients in loops of their own, without a branch: these vectorise.
        steps = plan.step_size.steps_now(x.shape[0], clock.eta, desk)
        for j in range(x.shape[0]):
            # Where eta changes, `pass_by` has already taken that part of the hold to its account.
            desk.before[j] = plan.step_size.h(desk.statistics[:, j], 1.0) / eta
        for j in range(x.shape[0]):
            i, unit = nth(feature, j), plan.units.unit_of(plan.step_size, desk.statistics[:, j])
            k = 0
            while k < scores_of(state.w):
                w = self.weight_of_step(plan, state, i, k, clock, at(steps, j), unit)
                put(desk.w, j, k, w)
                z = plus(z, k, x[j] * w)
                k = next_score(state.w, k)
        return z

    def centers_of_row(
        self, plan: Plan, state: State, feature: Indices, w: Any, steps: PerFeature, eta: float, desk: Desk
    ) -> Any:
        for j in range(feature.shape[0]):
            desk.before[j] = plan.step_size.h(desk.statistics[:, j], 1.0) / eta - desk.before[j]
        for j in range(feature.shape[0]):
            i, hold = nth(feature, j), desk.before[j]
            k = 0
            while k < scores_of(state.w):
                if hold != 0.0:
                    mirrored = plan.problem.geometry.mirror(entry(w, j, k), i)
                    put(state.w, i, k, entry(state.w, i, k) + hold * mirrored)
                put(desk.center, j, k, plan.problem.geometry.inverse(at(steps, j) * entry(state.w, i, k), i))
                k = next_score(state.w, k)
        return desk.center[: feature.shape[0]]

    def pass_by(self, plan: Plan, state: State, i: int, eta: float, clock: Clock) -> None:
        hold = plan.h_of(state, i) * (1.0 / eta - 1.0 / clock.eta)
        k = 0
        while k < scores_of(state.w):
            w = self.weight_of_score(plan, state, i, k, clock)
            put(state.w, i, k, entry(state.w, i, k) + plan.regularizer_step.push(plan, w, plan.unit_of(state, i), i))
            if hold != 0.0:
                put(state.w, i, k, entry(state.w, i, k) + hold * plan.problem.geometry.mirror(w, i))
            k = next_score(state.w, k)
