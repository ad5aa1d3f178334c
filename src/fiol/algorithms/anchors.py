"""Anchors, the third switch of Table 1, C(w): the divergence that keeps the new weights near earlier ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from fiol.algorithms.state import Clock, RoundRow, State
from fiol.algorithms.stored_weights import (
    load_row,
    load_weight,
    load_weight_times,
    set_last_seen,
    shared_factor,
    store_weight,
)
from fiol.components.component import (
    Component,
    PerFeature,
    add_to_score,
    choose_row_storage,
    count_scores,
    get_row_weight,
    get_weight,
    next_score,
    set_row_weight,
    set_weight,
    value_at,
)
from fiol.components.row import Floats, Indices, RowBuffers, nth
from fiol.components.step_sizes import StepSize, shrink_for
from fiol.components.step_sizes.rule import outgrows, peak_of, raise_peak

if TYPE_CHECKING:
    from fiol.algorithms.plan import Plan


class Anchor(Component):
    """The part of a round that keeps new weights near the old ones, and decides what is stored of them.

    | method | meaning |
    |---|---|
    | `weight_of_score(plan, state, i, k, clock)` | the weight of feature i for score k after `clock.t` rounds |
    | `shared_factor(plan, state, i, clock)` | the factor by which missed rounds changed all weights of feature i |
    | `weight_times(plan, state, i, k, clock, factor)` | that weight times a factor, the shared one included |
    | `weight_for_value(plan, state, i, x, w)` | the weight with which a round in which its feature is x starts from w |
    | `read_row(plan, state, row, z)` | copies the weights of a `RoundRow` to its buffers, adds to z |
    | `prox_centers(plan, state, row, w, steps)` | where the steps of a row's weights start |
    | `row_storage(plan, state, space)` | where a row's weights are during the round: in `space`, or in place |
    | `store_row(plan, state, feature, x, beta, new, clock)` | store the outcome of the round |
    | `regularize_absent(plan, state, i, eta, clock)` | the round of feature i, if it is absent, for `Eager` |
    | `penalty_count(plan, t)` | how often the regularizer counts in round t |
    | `sum_for_weight(plan, state, i, w, clock)` | the sum that stands for a weight, where all rounds are kept |

    `fiol.engine.round.rounds` calls `read_row`, `prox_centers`, `row_storage`, `penalty_count` and `store_row`, in this
    order, in every round; `fiol.engine.round.reading` the methods of single weights, for weights and scores; `Eager`
    calls `regularize_absent`; `fiol.regret.kernels` calls `weight_for_value`, and Python, when learners are merged,
    `sum_for_weight`.

    Rows have one score, with `state.w` a vector, or many, with `state.w` [feature, score]: `get_weight(state.w, i, k)`
    and `set_weight(state.w, i, k, value)` are for both, and loops over k stand inside those over features. But for
    `store_row`, x may have zeros behind the values of the features (`fiol.algorithms.layout`).
    """

    #: Whether the weights follow from sums over all rounds, and not from the weights of the round before.
    keeps_all_rounds: ClassVar[bool] = False
    #: Whether those sums change for every feature when eta(t) does.
    follows_eta: ClassVar[bool] = False

    if TYPE_CHECKING:

        def weight_of_score(self, plan: Plan, state: State, i: int, k: int, clock: Clock) -> float: ...
        def regularize_absent(self, plan: Plan, state: State, i: int, eta: float, clock: Clock) -> None: ...
        def penalty_count(self, plan: Plan, t: float) -> float: ...
        def sum_for_weight(self, plan: Plan, state: State, i: int, w: float, clock: Clock) -> float: ...

    def shared_factor(self, plan: Plan, state: State, i: int, clock: Clock) -> float:
        return 1.0

    def weight_times(self, plan: Plan, state: State, i: int, k: int, clock: Clock, factor: float) -> float:
        return factor * self.weight_of_score(plan, state, i, k, clock)

    def weight_for_value(self, plan: Plan, state: State, i: int, x: float, w: float) -> float:
        return w

    def row_storage(self, plan: Plan, state: State, space: Any) -> Any:
        return space


class LastIterate(Anchor):
    """C(w) = B(w, w_hat) / eta: near the weights of the round before (mirror descent)."""

    lane_ready: ClassVar[bool] = True  #: see `fiol.engine.ensemble.lane_group.declares_lanes`

    def weight_of_score(self, plan: Plan, state: State, i: int, k: int, clock: Clock) -> float:
        return load_weight(plan, state, i, k, clock)

    def shared_factor(self, plan: Plan, state: State, i: int, clock: Clock) -> float:
        return shared_factor(plan, state, i, clock)

    def weight_times(self, plan: Plan, state: State, i: int, k: int, clock: Clock, factor: float) -> float:
        return load_weight_times(plan, state, i, k, clock, factor)

    def weight_for_value(self, plan: Plan, state: State, i: int, x: float, w: float) -> float:
        return plan.regularizer.clip(w * shrink_for(plan.step_size, x, state.statistics[i]))

    def read_row(self, plan: Plan, state: State, row: RoundRow, z: Any) -> Any:
        if state.w.ndim == 1:
            return self.read_row_of_one_score(plan, state, row, z)
        feature, x = row.feature, row.x
        clock, buffers = row.clock, row.buffers
        storage = self.row_storage(plan, state, buffers.w)
        for j in range(feature.shape[0]):
            i = nth(feature, j)
            kept = shrink_for(plan.step_size, x[j], buffers.statistics[:, j])
            kept = shared_factor(plan, state, i, clock) * kept
            k = 0
            while k < count_scores(state.w):
                w = plan.regularizer.clip(load_weight_times(plan, state, i, k, clock, kept))
                set_row_weight(storage, i, j, k, w)
                if plan.step_size.properties().uses_pulls:  # the round may overwrite weights in place
                    set_weight(buffers.w, j, k, w)
                z = add_to_score(z, k, x[j] * w)
                k = next_score(state.w, k)
        return z

    def read_row_of_one_score(self, plan: Plan, state: State, row: RoundRow, z: Any) -> Any:
        """Bring the weights up to date in the buffers, then add their score to z in a loop that vectorizes."""
        feature, x = row.feature, row.x
        clock, buffers = row.clock, row.buffers
        if plan.lazy_update.by_row and plan.step_size.per_feature:
            load_row(plan, state, feature, clock, buffers)
        else:
            for j in range(feature.shape[0]):
                set_weight(buffers.w, j, 0, load_weight(plan, state, nth(feature, j), 0, clock))
        if outgrown(plan.step_size, x, buffers):
            for j in range(x.shape[0]):
                shrunk = get_weight(buffers.w, j, 0) * shrink_for(plan.step_size, x[j], buffers.statistics[:, j])
                set_weight(buffers.w, j, 0, shrunk)
        for j in range(x.shape[0]):
            w = plan.regularizer.clip(get_weight(buffers.w, j, 0))
            set_weight(buffers.w, j, 0, w)
            z = add_to_score(z, 0, x[j] * w)
        return z

    def prox_centers(self, plan: Plan, state: State, row: RoundRow, w: Any, steps: PerFeature) -> Any:
        return plan.regularizer_step.centers(plan, row.feature, row.x, w, steps, row.buffers)

    def row_storage(self, plan: Plan, state: State, space: Any) -> Any:
        return choose_row_storage(plan.lazy_update, state.w, space)

    def store_row(
        self, plan: Plan, state: State, feature: Indices, x: Floats, beta: Any, new: Any, clock: Clock
    ) -> None:
        for j in range(feature.shape[0]):
            i = nth(feature, j)
            k = 0
            while k < count_scores(state.w):
                store_weight(plan, state, i, k, get_row_weight(new, i, j, k), clock)
                k = next_score(state.w, k)
            set_last_seen(plan, state, i, clock)

    def regularize_absent(self, plan: Plan, state: State, i: int, eta: float, clock: Clock) -> None:
        geometry, step, unit = plan.problem.geometry, plan.step_of(state, i, eta), plan.unit_of(state, i)
        k = 0
        while k < count_scores(state.w):
            center = plan.regularizer_step.start_of(plan, get_weight(state.w, i, k), step, unit, i)
            set_weight(
                state.w, i, k, plan.units.prox_in_units(geometry, plan.problem.regularizer, center, step, unit, i)
            )
            k = next_score(state.w, k)

    def penalty_count(self, plan: Plan, t: float) -> float:
        return 1.0


class Origin(Anchor):
    """C(w) = psi(w) / eta with the sum of all past pulls: near the origin (dual averaging).

    `state.w` holds the sum of the pulls, beta x over all rounds. The weights follow from it,

        w = argmin_w  -pulls w + (rounds) r(w) + psi(w) / step,

    so that an absent feature changes by the clock alone.
    """

    keeps_all_rounds: ClassVar[bool] = True

    def weight_of_score(self, plan: Plan, state: State, i: int, k: int, clock: Clock) -> float:
        step, unit = plan.step_of(state, i, clock.eta), plan.unit_of(state, i)
        return self.weight_of_sum(plan, get_weight(state.w, i, k), clock, step, unit, i)

    def weight_of_sum(self, plan: Plan, pulls: float, clock: Clock, step: float, unit: float, i: int) -> float:
        """Return the weight of feature i, given the sum of its pulls, its step and its unit."""
        center = plan.problem.geometry.inverse(step * pulls, i)
        count = plan.regularizer_step.count(clock.t)
        return plan.units.prox_in_units(plan.problem.geometry, plan.problem.regularizer, center, count * step, unit, i)

    def sum_for_weight(self, plan: Plan, state: State, i: int, w: float, clock: Clock) -> float:
        """Return the sum of pulls from which weight i is w, given a step and a quadratic geometry.

        The optimality condition of `weight_of_sum` with v = s w: psi'(s center) = psi'(v) + s^2 (rounds) step r'(v).
        """
        step, unit = plan.step_of(state, i, clock.eta), plan.unit_of(state, i)
        v, own = plan.units.to_units(w, plan.regularizer_step.count(clock.t) * step, unit)
        center = plan.problem.geometry.mirror(v, i) + own * plan.problem.regularizer.slope(v, 0, i)
        return plan.units.from_units(center, unit) / step

    def read_row(self, plan: Plan, state: State, row: RoundRow, z: Any) -> Any:
        # Roots and quotients are in loops of their own, without a branch, so that they vectorize.
        x, clock, buffers = row.x, row.clock, row.buffers
        if plan.step_size.properties().uses_pulls:  # bets are made in the unit of the value that they are for
            for j in range(x.shape[0]):
                raise_peak(plan.step_size, buffers.statistics[:, j], x[j])
        steps = plan.step_size.steps(x.shape[0], clock.eta, buffers)
        self.note_inverse_steps(plan, row, steps)
        read_sums(state, row.feature, buffers)
        features = plan.layout.features(row.feature, x, buffers)
        for j in range(x.shape[0]):
            i, unit = nth(features, j), plan.units.unit_of(plan.step_size, buffers.statistics[:, j])
            k = 0
            while k < count_scores(state.w):
                w = self.weight_of_sum(plan, get_weight(buffers.kept, j, k), clock, value_at(steps, j), unit, i)
                set_weight(buffers.w, j, k, w)
                z = add_to_score(z, k, x[j] * w)
                k = next_score(state.w, k)
        return z

    def prox_centers(self, plan: Plan, state: State, row: RoundRow, w: Any, steps: PerFeature) -> Any:
        x, buffers, moved = row.x, row.buffers, self.follows_eta and not plan.step_size.properties().constant
        if plan.lazy_update.everywhere or moved:  # `regularize_absent` has changed sums since they were read
            read_sums(state, row.feature, buffers)
        features = plan.layout.features(row.feature, x, buffers)
        self.hold_weights(plan, state, row, features, w, steps)
        for j in range(x.shape[0]):
            i = nth(features, j)
            k = 0
            while k < count_scores(state.w):
                pulled = value_at(steps, j) * get_weight(buffers.kept, j, k)
                set_weight(buffers.center, j, k, plan.problem.geometry.inverse(pulled, i))
                k = next_score(state.w, k)
        return buffers.center[: x.shape[0]]

    def note_inverse_steps(self, plan: Plan, row: RoundRow, steps: PerFeature) -> None:
        """Write the inverse steps before the round to `buffers.before`, for `hold_weights`; nothing here."""

    def hold_weights(
        self, plan: Plan, state: State, row: RoundRow, features: Indices, w: Any, steps: PerFeature
    ) -> None:
        """Add the pulls towards the last weights of a row to its sums; nothing here."""

    def store_row(
        self, plan: Plan, state: State, feature: Indices, x: Floats, beta: Any, new: Any, clock: Clock
    ) -> None:
        for j in range(feature.shape[0]):
            i = nth(feature, j)
            k = 0
            while k < count_scores(state.w):
                set_weight(state.w, i, k, get_weight(state.w, i, k) + value_at(beta, k) * x[j])
                k = next_score(state.w, k)

    def regularize_absent(self, plan: Plan, state: State, i: int, eta: float, clock: Clock) -> None:
        hold = plan.step_size.h(state.statistics[i], 1.0) * (1.0 / eta - 1.0 / clock.eta) if self.follows_eta else 0.0
        unit = plan.unit_of(state, i)
        k = 0
        while k < count_scores(state.w):
            w = self.weight_of_score(plan, state, i, k, clock)
            pulls = get_weight(state.w, i, k) + plan.regularizer_step.push(plan, w, unit, i)
            if hold != 0.0:
                pulls = pulls + hold * plan.problem.geometry.mirror(w, i)
            set_weight(state.w, i, k, pulls)
            k = next_score(state.w, k)

    def penalty_count(self, plan: Plan, t: float) -> float:
        return plan.regularizer_step.count(t)


class AllIterates(Origin):
    """C(w) = sum of hold_s B(w, w_s) over all rounds, hold_s = 1/step_s - 1/step_(s-1): near all past weights.

    (Follow the proximally regularized leader; the first term is centered at the origin.) `state.w` holds the sum of
    the pulls and the mirrored past weights, sum of hold_s psi'(w_s), together.
    """

    follows_eta: ClassVar[bool] = True

    def note_inverse_steps(self, plan: Plan, row: RoundRow, steps: PerFeature) -> None:
        buffers = row.buffers
        for j in range(row.x.shape[0]):
            # Where eta changes, `regularize_absent` adds that part of the hold.
            buffers.before[j] = self.inverse_step(plan, value_at(steps, j), row.eta, buffers.statistics[:, j])

    def inverse_step(self, plan: Plan, step: float, eta: float, s: Floats) -> float:
        """Return one over the step of a feature with this record at eta; `step` is that, or that at another eta."""
        if plan.step_size.properties().constant:
            return 1.0 / step if step > 0.0 else 0.0
        return plan.step_size.h(s, 1.0) / eta

    def hold_weights(
        self, plan: Plan, state: State, row: RoundRow, features: Indices, w: Any, steps: PerFeature
    ) -> None:
        feature, buffers = row.feature, row.buffers
        for j in range(row.x.shape[0]):
            inverse = self.inverse_step(plan, value_at(steps, j), row.eta, buffers.statistics[:, j])
            buffers.before[j] = inverse - buffers.before[j]
        for j in range(row.x.shape[0]):
            i, hold = nth(features, j), buffers.before[j]
            k = 0
            while k < count_scores(state.w):
                kept = get_weight(buffers.kept, j, k)
                kept = kept + hold * plan.problem.geometry.mirror(get_weight(w, j, k), i) if hold != 0.0 else kept
                set_weight(buffers.kept, j, k, kept)
                k = next_score(state.w, k)
        for j in range(feature.shape[0]):
            k = 0
            while k < count_scores(state.w):
                set_weight(state.w, nth(feature, j), k, get_weight(buffers.kept, j, k))
                k = next_score(state.w, k)


def outgrown(step_size: StepSize, x: Floats, buffers: RowBuffers) -> bool:
    """Return whether `shrink_for` is not 1 for any value of a row."""
    found = False
    for j in range(x.shape[0]):
        found |= outgrows(abs(x[j]), peak_of(step_size, buffers.statistics[:, j]))
    return found


def read_sums(state: State, feature: Indices, buffers: RowBuffers) -> None:
    """Copy the sums of a row's features to `buffers.kept`."""
    for j in range(feature.shape[0]):
        k = 0
        while k < count_scores(state.w):
            set_weight(buffers.kept, j, k, get_weight(state.w, nth(feature, j), k))
            k = next_score(state.w, k)
