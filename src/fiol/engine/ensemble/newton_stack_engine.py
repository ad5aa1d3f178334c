"""`NewtonStackEngine`: rounds of `fiol.components.combiners.NewtonStack`, with members as SIMD lanes where possible."""

from __future__ import annotations

from math import inf
from typing import Any, ClassVar, TypeVar

import numpy as np

from fiol.components.combiners import NewtonStack
from fiol.components.losses import Loss
from fiol.components.row import Floats
from fiol.engine.engine import IN_ORDER
from fiol.engine.ensemble.lane_group import WIDTHS, lanes_there
from fiol.engine.ensemble.stack_engine import Call, StackEngine, mean_of_arrays
from fiol.engine.ensemble.stack_state import (
    CURVED,
    FROZEN,
    LAST,
    MASS,
    MOST_STACKS,
    NEXT,
    SQUARES,
    LaneBuffers,
    StackState,
    T,
    combined_weights,
    lane_buffers,
    narrowed,
    new_stack_state,
    widened,
)
from fiol.features.chunk import Chunk

Self = TypeVar("Self", bound="NewtonStackEngine")
#: The part of all shares that is divided equally after a `learn_sample`.
BACK = 3e-3
#: Stands for a sum of losses that is not finite.
WORST_SUM = 1e300
#: A 0 for every stack that may have its members as lanes, and for the ensemble.
FOUR = (0.0,) * (MOST_STACKS + 1)


class NewtonStackEngine(StackEngine):
    """One or more Newton stacks that forget at different rates."""

    moves: ClassVar[bool] = True
    stack: NewtonStack

    def __init__(self, stack: NewtonStack, loss: Any, members: int, compiled: bool) -> None:
        self.width = lane_width(stack, loss, members, compiled)
        super().__init__(stack, loss, members)

    def new_state(self) -> StackState:
        return new_stack_state(self.stack, self.members)

    def set_state(self, state: StackState) -> None:
        if self.width:
            self.own_state = widened(state, self.width, self.stack.prior)
            #: Buffers for one row.
            self.buffers: LaneBuffers | None = lane_buffers(len(state.v), self.width)
        else:
            self.own_state, self.buffers = state, None

    @property
    def state(self) -> StackState:
        if self.width:
            return narrowed(self.own_state, np.size(self.stack.forgets), self.members)
        return self.own_state  # type: ignore[no-any-return]

    @property
    def live(self) -> Any:
        return self.own_state.live[: self.members]

    # --- rounds -------------------------------------------------------------------------------

    def learn(self, call: Call, Z: Floats, y: Floats, sample_weights: Floats) -> Floats:
        from fiol.engine.ensemble.joint_newton_stack import joint_stack_rows  # `import fiol` loads no compiler
        from fiol.engine.ensemble.lane_stack import lane_stack_rows
        from fiol.engine.ensemble.newton_stack import stack_rows

        scores = np.zeros(Z.shape[:-1])
        if self.width:
            if Z.shape[1] < self.width:
                Z = np.hstack([Z, np.zeros((len(y), self.width - Z.shape[1]))])
            rows = Z.reshape(-1), y, sample_weights, self.members
            call(lane_stack_rows, *self.lane_parts, *rows, self.own_state, self.buffers, scores)
        else:
            kernel = stack_rows if Z.ndim == 2 else joint_stack_rows
            call(kernel, self.stack, self.loss, Z, y, sample_weights, self.own_state, scores)
        return scores

    @property
    def lane_parts(self) -> tuple[Any, ...]:
        """What kernels of lanes take first: stack, loss, and a 0 for every lane and every stack."""
        return self.stack, self.loss, (0.0,) * self.width, FOUR

    def learn_with_lanes(
        self, call: Call, group: Any, chunk: Chunk, y: Floats, sample_weights: Floats, of_gate: Any, out: Floats
    ) -> None:
        """Make the rounds of members in lanes and of this stack; write the ensemble's scores before into `out`.

        `of_gate` are scores of the gate, or None without one.
        """
        from fiol.engine.ensemble.rounds import learn_stacked_rows

        parts = *self.lane_parts, group.digits, self.members, chunk, y, sample_weights, of_gate
        call(learn_stacked_rows, *parts, group.memory, self.own_state, self.buffers, out)

    def learn_sample(self, call: Call, rows: int, Z: Floats, y: Floats, sample_weights: Floats) -> None:
        # All rows of the sample have scores by the same weights of members. So the stack that forgets fastest soon fits
        # these weights, noise included, and would get all shares; but the following rows have scores by other weights.
        # Hence shares are updated by the losses of the scores before the sample was learned from.
        if self.ticks[FROZEN]:
            super().learn_sample(call, rows, Z, y, sample_weights)
            return
        from fiol.engine.round.reading import total_loss

        before = self.state
        experts = [*before.v, *np.eye(self.members)[: len(before.alone)]]
        scores = [np.ascontiguousarray((Z * before.live) @ v) for v in experts]
        losses = np.array([call(total_loss, self.loss, z, IN_ORDER, y, sample_weights)[0] for z in scores])
        shares = np.append(before.share, before.alone)
        super().learn_sample(call, rows, Z, y, sample_weights)
        state = self.state
        state.share[...], state.alone[...] = np.split(self.updated_shares(shares, losses), [len(state.share)])
        state.alone[...] *= state.live[: len(state.alone)]

    def learned_anew(self, call: Call, Z: Floats, y: Floats, sample_weights: Floats) -> NewtonStackEngine:
        old, fresh = self.state, self.new_state()
        fresh = fresh._replace(alone=np.zeros_like(old.alone))
        fresh.v[...], fresh.live[...] = combined_weights(old), old.live
        new = self.with_state(fresh)
        new.learn(call, np.ascontiguousarray(Z), y, sample_weights)
        ticks, kept = new.ticks, old.ticks
        ticks[[T, LAST, NEXT]] += kept[T] - ticks[T]  # the rounds are those of the members
        ticks[[MASS, FROZEN]], new.state.losses[...] = kept[[MASS, FROZEN]], old.losses
        return new

    def updated_shares(self, share: Floats, losses: Floats) -> Floats:
        """Return the shares after rows with these sums of losses, by weights that did not change.

        As after a single row, exp(-loss / d) in one step; d is the unit of the loss. There are few such samples, so the
        stacks divide `BACK` equally, which lets one that was bad come back.
        """
        unit, ticks = self.loss.value_unit, self.ticks
        if not unit:
            unit = ticks[SQUARES] / ticks[CURVED] if ticks[CURVED] > 0.0 else inf
        losses = np.where(np.isfinite(losses), losses, WORST_SUM)
        new = share * np.exp((losses.min() - losses) / unit)
        return (1.0 - BACK) * new / new.sum() + BACK / len(new)  # type: ignore[no-any-return]

    # --- the state as a whole -----------------------------------------------------------------

    def arrays(self) -> dict[str, Any]:
        found = super().arrays()
        return found if len(self.state.alone) else {name: a for name, a in found.items() if name != "stack.alone"}

    def restored(self: Self, arrays: dict[str, Any]) -> Self:
        if "stack.alone" in arrays:
            return super().restored(arrays)
        none = self.with_state(self.state._replace(alone=np.empty(0)))
        return super(NewtonStackEngine, none).restored({**arrays, "stack.alone": np.empty(0)})

    # --- reading ------------------------------------------------------------------------------

    def member_weights(self) -> Floats:
        return combined_weights(self.state)  # type: ignore[no-any-return]

    def variances(self, Z: Floats) -> Floats:
        """Return the variance of <z, v> for a stack drawn by shares, with weights v drawn from its normal distribution.

        That is the mean of z' P_j z, plus that of the squared distance of z' v_j from the ensemble's score.
        """
        state = self.state
        z, total = np.moveaxis(Z * state.live, -1, 0), np.zeros(Z.shape[:-1])
        own = [sum_of_products(v, z) for v in state.v]
        score = sum_of_products([*state.share, *state.alone], [*own, *z[: len(state.alone)]])
        for pi, s in zip(state.alone, z, strict=False):
            total += pi * (s - score) ** 2
        for pi, P, s in zip(state.share, state.P, own, strict=True):
            within = sum_of_products(z, [sum_of_products(row, z) for row in P])
            total += pi * (np.maximum(within, 0.0) + (s - score) ** 2)
        return total

    def merged_state(self, states: list[StackState], share: Any, t: float) -> StackState:
        if any(len(state.alone) for state in states):  # those of older files have none
            none = np.zeros(self.members)
            states = [state if len(state.alone) else state._replace(alone=none) for state in states]
        new: StackState = mean_of_arrays(states, share)
        new.ticks[T], new.ticks[LAST], new.ticks[NEXT] = t, t, t + 1.0
        live = np.min([state.live for state in states], axis=0)
        alone = new.alone * live[: len(new.alone)]
        return new._replace(P=np.linalg.inv(new.A), live=live, v=new.v * live, alone=alone)


def lane_width(stack: NewtonStack, loss: Any, members: int, compiled: bool) -> int:
    """Return the number of lanes for members, as in a `LaneGroup` of all of them; 0 if lanes cannot be used."""
    few = members <= WIDTHS[-1] and np.size(stack.forgets) <= MOST_STACKS
    if not (few and isinstance(loss, Loss) and loss.lanes and lanes_there(compiled)):
        return 0
    return next((width for width in WIDTHS if width > members), WIDTHS[-1])


def sum_of_products(c: Any, z: Any) -> Any:
    """Return the sum of c_k z_k, one after the other, so that digits do not depend on how many rows z has."""
    total = 0.0 * z[0]
    for factor, part in zip(c, z, strict=True):
        total = total + factor * part
    return total
