"""The third switch of Table 1, C(w): what keeps the new weights near where they were."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from fiol.components.component import Component, PerFeature, at
from fiol.components.row import Floats, Indices, Room, nth
from fiol.update.state import Clock, State

if TYPE_CHECKING:
    from fiol.update.plan import Plan


class Anchor(Component):
    """What keeps the new weights near where they were, and what of them is remembered.

    | method | meaning |
    |---|---|
    | `weight_of_feature(plan, state, i, clock)` | the weight after `clock.t` rounds |
    | `ready(plan, state, i, x, w)` | what becomes of it, before anything else, when its feature takes the value x |
    | `gather(plan, state, feature, x, eta, clock, room)` | the weights of a row into `room.w`, and their score |
    | `centers_of_row(plan, state, feature, w, steps, eta, room)` | where the paths of its weights start |
    | `finish(plan, state, feature, x, beta, new, clock)` | remember the outcome of the round |
    | `pass_by(plan, state, i, eta, clock)` | a round for feature i alone, where absent features cannot wait |
    | `rounds(plan, t)` | how often the regularizer counts in round t |
    """

    #: Whether the weights follow from sums over all rounds, and not from the weights of the round before.
    keeps_all_rounds: ClassVar[bool] = False
    #: Whether those sums change for every feature when eta(t) does.
    follows_eta: ClassVar[bool] = False

    if TYPE_CHECKING:

        def rounds(self, plan: Plan, t: float) -> float: ...
        def weight_of_feature(self, plan: Plan, state: State, i: int, clock: Clock) -> float: ...
        def pass_by(self, plan: Plan, state: State, i: int, eta: float, clock: Clock) -> None: ...

    def ready(self, plan: Plan, state: State, i: int, x: float, w: float) -> float:
        return w

    def gather(
        self, plan: Plan, state: State, feature: Indices, x: Floats, eta: float, clock: Clock, room: Room
    ) -> float:
        z = 0.0
        for k in range(x.shape[0]):
            room.w[k] = plan.anchor.weight_of_feature(plan, state, nth(feature, k), clock)
            z += x[k] * room.w[k]
        return z


class LastIterate(Anchor):
    """C(w) = B(w, w_hat) / eta: near the weights of the round before (mirror descent)."""

    def rounds(self, plan: Plan, t: float) -> float:
        return 1.0

    def weight_of_feature(self, plan: Plan, state: State, i: int, clock: Clock) -> float:
        return plan.laziness.load(plan, state, i, clock)

    def ready(self, plan: Plan, state: State, i: int, x: float, w: float) -> float:
        return plan.regularizer.clip(w * plan.step_size.shrink_for(x, state.statistics[i]))

    def gather(
        self, plan: Plan, state: State, feature: Indices, x: Floats, eta: float, clock: Clock, room: Room
    ) -> float:
        by_row = plan.laziness.by_row and plan.step_size.per_feature
        if by_row:
            plan.laziness.load_row(plan, state, feature, clock, room)
        z = 0.0
        for k in range(x.shape[0]):
            w = room.w[k] if by_row else plan.laziness.load(plan, state, nth(feature, k), clock)
            room.w[k] = plan.regularizer.clip(w * plan.step_size.shrink_for(x[k], room.statistics[:, k]))
            z += x[k] * room.w[k]
        return z

    def centers_of_row(
        self,
        plan: Plan,
        state: State,
        feature: Indices,
        w: Floats,
        steps: PerFeature,
        eta: float,
        room: Room,
    ) -> Floats:
        return plan.regularizer_step.centers(plan, feature, w, steps, room.center)

    def finish(
        self, plan: Plan, state: State, feature: Indices, x: Floats, beta: float, new: Floats, clock: Clock
    ) -> None:
        for k in range(x.shape[0]):
            plan.laziness.keep(plan, state, nth(feature, k), new[k], clock)

    def pass_by(self, plan: Plan, state: State, i: int, eta: float, clock: Clock) -> None:
        geometry, step, w = plan.problem.geometry, plan.step_of(state, i, eta), state.w[i]
        center = geometry.moved(w, plan.regularizer_step.push(plan, w, i), step, i)
        state.w[i] = geometry.weight(plan.problem.regularizer, center, 0.0, 0.0, step, i)


class Origin(Anchor):
    """C(w) = psi(w) / eta with the sum of all past pulls: near the origin (dual averaging).

    `state.w` holds theta, the sum of the pulls beta x. The weights follow from it,

        w = argmin_w  -theta w + (rounds) r(w) + psi(w) / step,

    so that nothing happens to an absent feature that its theta and the clock do not tell.
    """

    keeps_all_rounds: ClassVar[bool] = True

    def rounds(self, plan: Plan, t: float) -> float:
        return plan.regularizer_step.count(t)

    def weight_of_feature(self, plan: Plan, state: State, i: int, clock: Clock) -> float:
        step = plan.step_of(state, i, clock.eta)
        center = plan.problem.geometry.inverse(step * state.w[i], i)
        count = plan.regularizer_step.count(clock.t)
        return plan.problem.geometry.weight(plan.problem.regularizer, center, 0.0, 0.0, count * step, i)

    def centers_of_row(
        self,
        plan: Plan,
        state: State,
        feature: Indices,
        w: Floats,
        steps: PerFeature,
        eta: float,
        room: Room,
    ) -> Floats:
        for k in range(w.shape[0]):
            i = nth(feature, k)
            room.center[k] = plan.problem.geometry.inverse(at(steps, k) * state.w[i], i)
        return room.center[: w.shape[0]]

    def finish(
        self, plan: Plan, state: State, feature: Indices, x: Floats, beta: float, new: Floats, clock: Clock
    ) -> None:
        for k in range(x.shape[0]):
            state.w[nth(feature, k)] += beta * x[k]

    def pass_by(self, plan: Plan, state: State, i: int, eta: float, clock: Clock) -> None:
        state.w[i] += plan.regularizer_step.push(plan, self.weight_of_feature(plan, state, i, clock), i)


class AllIterates(Origin):
    """C(w) = sum of sigma_s B(w, w_s) over all rounds, sigma_s = 1/step_s - 1/step_(s-1): near all past weights.

    (Follow the proximally regularized leader; the first term is centered at the origin.) `state.w` holds theta
    and the mirrored past weights, sum of sigma_s psi'(w_s), together.
    """

    follows_eta: ClassVar[bool] = True

    def gather(
        self, plan: Plan, state: State, feature: Indices, x: Floats, eta: float, clock: Clock, room: Room
    ) -> float:
        z = 0.0
        for k in range(x.shape[0]):
            i = nth(feature, k)
            room.w[k] = self.weight_of_feature(plan, state, i, clock)
            # Where eta changes, `pass_by` has already taken that part of sigma to its account.
            room.before[k] = plan.step_size.h(room.statistics[:, k], 1.0) / eta
            z += x[k] * room.w[k]
        return z

    def centers_of_row(
        self,
        plan: Plan,
        state: State,
        feature: Indices,
        w: Floats,
        steps: PerFeature,
        eta: float,
        room: Room,
    ) -> Floats:
        for k in range(w.shape[0]):
            i = nth(feature, k)
            sigma = plan.step_size.h(room.statistics[:, k], 1.0) / eta - room.before[k]
            if sigma != 0.0:
                state.w[i] += sigma * plan.problem.geometry.mirror(w[k], i)
            room.center[k] = plan.problem.geometry.inverse(at(steps, k) * state.w[i], i)
        return room.center[: w.shape[0]]

    def pass_by(self, plan: Plan, state: State, i: int, eta: float, clock: Clock) -> None:
        w = self.weight_of_feature(plan, state, i, clock)
        sigma = plan.h_of(state, i) * (1.0 / eta - 1.0 / clock.eta)
        state.w[i] += plan.regularizer_step.push(plan, w, i)
        if sigma != 0.0:
            state.w[i] += sigma * plan.problem.geometry.mirror(w, i)
