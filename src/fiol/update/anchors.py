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
    | `centers_of_row(plan, state, feature, x, w, steps, eta, desk)` | where the paths of its weights start |
    | `where(plan, state, space)` | where the weights of a row are while it is worked on: in that space, or in place |
    | `finish(plan, state, feature, x, beta, new, clock)` | remember the outcome of the round |
    | `pass_by(plan, state, i, eta, clock)` | a round for feature i alone, for `Eager` |
    | `rounds(plan, t)` | how often the regularizer counts in round t |

    Rows have one score, with `state.w` a vector, or many, with `state.w` [feature, score]: `entry(state.w, i, k)` and
    `put(state.w, i, k, value)` are for both, and loops over k stand inside those over features. But for `finish`, x may
    have zeros behind the values of the features (`fiol.update.layout`).
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
        for j in range(feature.shape[0]):
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
        if state.w.ndim == 1:
            return self.gather_one(plan, state, feature, x, clock, desk, z)
        held = self.where(plan, state, desk.w)
        for j in range(feature.shape[0]):
            i = nth(feature, j)
            kept = plan.step_size.shrink_for(x[j], desk.statistics[:, j])
            kept = plan.laziness.shared_factor(plan, state, i, clock) * kept
            k = 0
            while k < scores_of(state.w):
                w = plan.regularizer.clip(plan.laziness.load_times(plan, state, i, k, clock, kept))
                put_row_entry(held, i, j, k, w)
                if plan.step_size.watches_pulls():  # which may be worked on in place
                    put(desk.w, j, k, w)
                z = plus(z, k, x[j] * w)
                k = next_score(state.w, k)
        return z

    def gather_one(
        self, plan: Plan, state: State, feature: Indices, x: Floats, clock: Clock, desk: Desk, z: Any
    ) -> Any:
        """`gather` where rows have one score: first the weights side by side, then sums that vectorise."""
        if plan.laziness.by_row and plan.step_size.per_feature:
            plan.laziness.load_row(plan, state, feature, clock, desk)
        else:
            for j in range(feature.shape[0]):
                put(desk.w, j, 0, plan.laziness.load(plan, state, nth(feature, j), 0, clock))
        if plan.step_size.outgrown(x, desk):
            for j in range(x.shape[0]):
                put(desk.w, j, 0, entry(desk.w, j, 0) * plan.step_size.shrink_for(x[j], desk.statistics[:, j]))
        for j in range(x.shape[0]):
            w = plan.regularizer.clip(entry(desk.w, j, 0))
            put(desk.w, j, 0, w)
            z = plus(z, 0, x[j] * w)
        return z

    def centers_of_row(
        self, plan: Plan, state: State, feature: Indices, x: Floats, w: Any, steps: PerFeature, eta: float, desk: Desk
    ) -> Any:
        return plan.regularizer_step.centers(plan, feature, x, w, steps, desk)

    def where(self, plan: Plan, state: State, space: Any) -> Any:
        return working_place(plan.laziness, state.w, space)

    def finish(self, plan: Plan, state: State, feature: Indices, x: Floats, beta: Any, new: Any, clock: Clock) -> None:
        for j in range(feature.shape[0]):
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
        return self.weight_of_sum(plan, entry(state.w, i, k), clock, step, unit, i)

    def weight_of_sum(self, plan: Plan, pulls: float, clock: Clock, step: float, unit: float, i: int) -> float:
        """The weight of feature i that a sum of pulls makes."""
        center = plan.problem.geometry.inverse(step * pulls, i)
        count = plan.regularizer_step.count(clock.t)
        return plan.units.shrunk(plan.problem.geometry, plan.problem.regularizer, center, count * step, unit, i)

    def gather(
        self, plan: Plan, state: State, feature: Indices, x: Floats, eta: float, clock: Clock, desk: Desk, z: Any
    ) -> Any:
        for j in range(feature.shape[0]):
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
        self, plan: Plan, state: State, feature: Indices, x: Floats, w: Any, steps: PerFeature, eta: float, desk: Desk
    ) -> Any:
        for j in range(feature.shape[0]):
            i = nth(feature, j)
            k = 0
            while k < scores_of(state.w):
                put(desk.center, j, k, plan.problem.geometry.inverse(at(steps, j) * entry(state.w, i, k), i))
                k = next_score(state.w, k)
        return desk.center[: x.shape[0]]

    def finish(self, plan: Plan, state: State, feature: Indices, x: Floats, beta: Any, new: Any, clock: Clock) -> None:
        for j in range(feature.shape[0]):
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
            desk.before[j] = self.inverse_step(plan, at(steps, j), eta, desk.statistics[:, j])
        self.read_sums(state, feature, desk)
        features = plan.layout.features(feature, x, desk)
        for j in range(x.shape[0]):
            i, unit = nth(features, j), plan.units.unit_of(plan.step_size, desk.statistics[:, j])
            k = 0
            while k < scores_of(state.w):
                w = self.weight_of_sum(plan, entry(desk.kept, j, k), clock, at(steps, j), unit, i)
                put(desk.w, j, k, w)
                z = plus(z, k, x[j] * w)
                k = next_score(state.w, k)
        return z

    def inverse_step(self, plan: Plan, step: float, eta: float, s: Floats) -> float:
        """One over the step of a feature with this record at eta; `step` is that, or that at another eta."""
        if plan.step_size.is_constant():
            return 1.0 / step if step > 0.0 else 0.0
        return plan.step_size.h(s, 1.0) / eta

    def read_sums(self, state: State, feature: Indices, desk: Desk) -> None:
        """The sums of a row's features, side by side."""
        for j in range(feature.shape[0]):
            k = 0
            while k < scores_of(state.w):
                put(desk.kept, j, k, entry(state.w, nth(feature, j), k))
                k = next_score(state.w, k)

    def centers_of_row(
        self, plan: Plan, state: State, feature: Indices, x: Floats, w: Any, steps: PerFeature, eta: float, desk: Desk
    ) -> Any:
        if plan.laziness.everywhere or not plan.step_size.is_constant():  # all sums may have gone on since
            self.read_sums(state, feature, desk)
        for j in range(x.shape[0]):
            desk.before[j] = self.inverse_step(plan, at(steps, j), eta, desk.statistics[:, j]) - desk.before[j]
        features = plan.layout.features(feature, x, desk)
        for j in range(x.shape[0]):
            i, hold = nth(features, j), desk.before[j]
            k = 0
            while k < scores_of(state.w):
                kept = entry(desk.kept, j, k)
                kept = kept + hold * plan.problem.geometry.mirror(entry(w, j, k), i) if hold != 0.0 else kept
                put(desk.kept, j, k, kept)
                put(desk.center, j, k, plan.problem.geometry.inverse(at(steps, j) * kept, i))
                k = next_score(state.w, k)
        for j in range(feature.shape[0]):
            k = 0
            while k < scores_of(state.w):
                put(state.w, nth(feature, j), k, entry(desk.kept, j, k))
                k = next_score(state.w, k)
        return desk.center[: x.shape[0]]

    def pass_by(self, plan: Plan, state: State, i: int, eta: float, clock: Clock) -> None:
        hold = plan.h_of(state, i) * (1.0 / eta - 1.0 / clock.eta)
        k = 0
        while k < scores_of(state.w):
            w = self.weight_of_score(plan, state, i, k, clock)
            put(state.w, i, k, entry(state.w, i, k) + plan.regularizer_step.push(plan, w, plan.unit_of(state, i), i))
            if hold != 0.0:
                put(state.w, i, k, entry(state.w, i, k) + hold * plan.problem.geometry.mirror(w, i))
            k = next_score(state.w, k)
