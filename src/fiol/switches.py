"""Table 1 of the paper as three switches: what a round does with the loss, the regularizer and the anchor.

    w_new = argmin_w  A(w) + B(w) + C(w)

A is the loss (a `LossStep`), B the regularizer (a `RegularizerStep`), C what keeps the weights near where they
were (an `Anchor`). Whatever the switches say, the new weights are w(beta) of one row (`fiol.geometries`): a
`LossStep` chooses beta, the other two say where the path w(.) starts and how often the penalty counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from fiol.component import Component, PerFeature, at
from fiol.regularizers import Box, Regularizer, Unregularized
from fiol.row import Floats, Indices, Row, nth
from fiol.state import Clock, Room, State
from fiol.step_sizes import entry

if TYPE_CHECKING:
    from fiol.plan import Plan
    from fiol.problem import Problem


# --- A: the loss ------------------------------------------------------------------------------


class LossStep(Component):
    """How the loss enters a round: `pull(problem, row, z, out)` writes the new weights and returns (beta, score).

    `z` is the score of the weights before the round.
    """

    protocol: ClassVar[dict[str, tuple[str, ...]]] = {"pull": ("problem", "row", "z", "out")}
    required: ClassVar[tuple[str, ...]] = ("pull",)
    #: The method without which a loss cannot be used.
    asks: ClassVar[str] = "grad"

    if TYPE_CHECKING:

        def pull(self, problem: Problem, row: Row, z: float, out: Floats) -> tuple[float, float]: ...


class ImplicitLoss(LossStep):
    """A(w) = f(w): the loss itself, so beta = -f'(new score). Never overshoots."""

    def pull(self, problem: Problem, row: Row, z: float, out: Floats) -> tuple[float, float]:
        beta, score, _ = problem.step(row, out)
        return beta, score


class LinearizedLoss(LossStep):
    """A(w) = <f'(w_hat), w>: a gradient step, beta = -f'(old score)."""

    def pull(self, problem: Problem, row: Row, z: float, out: Floats) -> tuple[float, float]:
        beta = -row.weight * problem.loss.grad(z, row.y)
        return beta, problem.fill(row, beta, out)


class ImportanceAware(LossStep):
    """The limit of many small gradient steps: a sample of weight h counts exactly as h samples of weight 1.

    beta is chosen as if there were no penalty (Karampatziakis and Langford 2011).
    """

    asks: ClassVar[str] = "flow"

    def pull(self, problem: Problem, row: Row, z: float, out: Floats) -> tuple[float, float]:
        p, _ = problem.start(row)
        beta = row.weight * problem.loss.flow(z, row.weight * p, row.y)
        return beta, problem.fill(row, beta, out)


class Truncated(LossStep):
    """A(w) = max(f(w_hat) + <f'(w_hat), w - w_hat>, min f): a gradient step that stops where the model bottoms out.

    beta = -f' min(1, (f - min f) / (p f'^2)), chosen as if there were no penalty (Asi and Duchi 2019).
    """

    asks: ClassVar[str] = "lower"

    def pull(self, problem: Problem, row: Row, z: float, out: Floats) -> tuple[float, float]:
        p, _ = problem.start(row)
        slope = problem.loss.grad(z, row.y)
        above = problem.loss.value(z, row.y) - problem.loss.lower(row.y)
        reach = row.weight * p * slope * slope
        beta = -row.weight * slope * (above / reach if above < reach else 1.0)
        return beta, problem.fill(row, beta, out)


# --- B: the regularizer -----------------------------------------------------------------------


class RegularizerStep(Component):
    """How the regularizer enters a round.

    | method | meaning |
    |---|---|
    | `seen(regularizer)` | what is left of it for the solver |
    | `push(plan, w, i)` | the pull on weight i that replaces the rest |
    | `decay(ridge)` | the factor that a ridge, times the step, leaves of an absent weight |
    | `count(t)` | how often the regularizer counts after t rounds, where all rounds are kept |
    """

    protocol: ClassVar[dict[str, tuple[str, ...]]] = {"push": ("plan", "w", "i"), "decay": ("ridge",), "count": ("t",)}
    #: Whether `push` is ever anything but 0.
    pushes: ClassVar[bool] = False

    def seen(self, regularizer: Regularizer) -> Regularizer:
        return regularizer

    def push(self, plan: Plan, w: float, i: int) -> float:
        return 0.0

    def centers(self, plan: Plan, feature: Indices, w: Floats, steps: PerFeature, out: Floats) -> Floats:
        """Where the paths of a row's weights start: the weights themselves, if nothing pushes."""
        return w

    def decay(self, ridge: float) -> float:
        return 1.0 / (1.0 + ridge)

    def count(self, t: float) -> float:
        return t


class ImplicitRegularizer(RegularizerStep):
    """B(w) = r(w): the penalty itself, through its prox. Gives exact zeros."""


class LinearizedRegularizer(RegularizerStep):
    """B(w) = <r'(w_hat), w>, on the set Omega if the regularizer is a `Box`."""

    pushes: ClassVar[bool] = True

    def seen(self, regularizer: Regularizer) -> Regularizer:
        return omega_of(regularizer)

    def push(self, plan: Plan, w: float, i: int) -> float:
        return -plan.regularizer.slope(w, 0, i)

    def centers(self, plan: Plan, feature: Indices, w: Floats, steps: PerFeature, out: Floats) -> Floats:
        for k in range(w.shape[0]):
            i = nth(feature, k)
            out[k] = plan.problem.geometry.moved(w[k], self.push(plan, w[k], i), at(steps, k), i)
        return out[: w.shape[0]]

    def decay(self, ridge: float) -> float:
        return 1.0 - ridge


class IgnoredRegularizer(RegularizerStep):
    """B(w) = 0, on the set Omega if the regularizer is a `Box`."""

    def seen(self, regularizer: Regularizer) -> Regularizer:
        return omega_of(regularizer)


class RegularizerOnce(RegularizerStep):
    """r(w) counts once for the whole stream, not once per round; for anchors that keep all rounds.

    The FTRL-Proximal of McMahan et al. 2013, whose penalty fades as data come in.
    """

    def count(self, t: float) -> float:
        return min(t, 1.0)


def omega_of(regularizer: Regularizer) -> Regularizer:
    """What is left of a regularizer without its penalty.

    >>> from fiol import L1, Box
    >>> omega_of(Box(L1(0.1), 0.0, 1.0)), omega_of(L1(0.1))
    (Box(regularizer=Unregularized(), lo=0.0, hi=1.0), Unregularized())
    """
    return regularizer.replace(regularizer=Unregularized()) if isinstance(regularizer, Box) else Unregularized()


# --- C: the anchor ----------------------------------------------------------------------------


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
        return plan.regularizer.clip(w * plan.step_size.shrink_for(x, entry(state.peak, i)))

    def gather(
        self, plan: Plan, state: State, feature: Indices, x: Floats, eta: float, clock: Clock, room: Room
    ) -> float:
        squares, peaks = plan.step_size.statistics()
        by_row = plan.laziness.by_row and (squares or peaks)
        if by_row:
            plan.laziness.load_row(plan, state, feature, clock, room)
        z = 0.0
        for k in range(x.shape[0]):
            w = room.w[k] if by_row else plan.laziness.load(plan, state, nth(feature, k), clock)
            room.w[k] = plan.regularizer.clip(w * plan.step_size.shrink_for(x[k], room.peak[k]))
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

    def gather(
        self, plan: Plan, state: State, feature: Indices, x: Floats, eta: float, clock: Clock, room: Room
    ) -> float:
        z = 0.0
        for k in range(x.shape[0]):
            i = nth(feature, k)
            room.w[k] = self.weight_of_feature(plan, state, i, clock)
            # Where eta changes, `pass_by` has already taken that part of sigma to its account.
            room.before[k] = plan.step_size.h(room.square[k], room.peak[k]) / eta
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
            sigma = plan.step_size.h(room.square[k], room.peak[k]) / eta - room.before[k]
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
