"""`StackEngine`: combines the scores of an ensemble's members and learns how; one subclass for each kind of stack."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np

from fiol.components.row import Floats
from fiol.engine.centering import first_loss
from fiol.engine.ensemble.stack_state import LAST, MASS, NEXT, T

#: How kernels are called: `Engine.call`.
Call = Callable[..., Any]
Self = TypeVar("Self", bound="StackEngine")


class StackEngine(ABC):
    """The state of a stack, and its rounds.

    Scores of members are Z [row, member], or [row, score, member] with a joint loss. Kernels are called by `call`
    (`Engine.call`). Model files store the fields of `state` by their names.
    """

    #: The number of SIMD lanes for members, 0 if the stack does not use lanes.
    width: int = 0
    #: Whether the linear model of an ensemble can be moved by moving members.
    moves: ClassVar[bool] = False

    def __init__(self, stack: Any, loss: Any, members: int, compiled: bool = False) -> None:
        self.stack, self.loss, self.members = stack, loss, members
        self.set_state(self.new_state())

    @abstractmethod
    def new_state(self) -> Any:
        """Return the arrays before the first row, a named tuple with fields live, losses and ticks."""

    def set_state(self, state: Any) -> None:
        """Use these arrays."""
        self.own_state = state

    @property
    def state(self) -> Any:
        """The arrays, a named tuple; writing into an array changes the stack."""
        return self.own_state

    @property
    def ticks(self) -> Any:
        """The clock, see `fiol.engine.ensemble.stack_state.T`; rounds of the stack are those of the ensemble."""
        return self.own_state.ticks

    @property
    def live(self) -> Any:
        """1 for every member, 0 for those that have been taken out because they overflowed."""
        return self.state.live

    @property
    def nbytes(self) -> int:
        """Bytes of the state."""
        return sum(array.nbytes for array in self.state)

    def mean_losses(self) -> Floats:
        """Return the mean progressive loss of the ensemble, and of each member while it was live; at first 0."""
        return self.state.losses / max(self.ticks[MASS], 1e-300)  # type: ignore[no-any-return]

    # --- rounds -------------------------------------------------------------------------------

    def add_first_loss(self, y: Floats, sample_weights: Floats) -> None:
        """Count the losses of the first targets, predicted as 0: members learn from them less their origin."""
        self.state.losses[...] += first_loss(self.loss, y, sample_weights)

    @abstractmethod
    def learn(self, call: Call, Z: Floats, y: Floats, sample_weights: Floats) -> Floats:
        """Make a round per row and return the scores of the ensemble before each."""

    def learn_sample(self, call: Call, rows: int, Z: Floats, y: Floats, sample_weights: Floats) -> None:
        """Learn from a sample of `rows` rows, whose scores Z come from members that did not change between the rows."""
        self.learn(call, Z, y, sample_weights)
        self.ticks[[T, LAST, NEXT]] += rows - len(y)  # rows that are not in the sample make it forget nothing

    def learned_anew(self: Self, call: Call, Z: Floats, y: Floats, sample_weights: Floats) -> Self:
        """Return a stack that has learned from these rows alone, starting from the member weights of this one."""
        raise NotImplementedError  # see `moves`

    # --- reading ------------------------------------------------------------------------------

    @abstractmethod
    def member_weights(self) -> Floats:
        """Return the weight of each member's score now."""

    def scores(self, call: Call, Z: Floats) -> Floats:
        """Return the scores of the ensemble, where they are not linear in those of the members."""
        raise NotImplementedError  # scores are linear: see `member_weights`

    def variances(self, Z: Floats) -> Floats:
        """Return the variances of the ensemble's scores that come from the choice of member weights."""
        raise NotImplementedError  # unknown, see `Stack.variance_known_with`

    # --- the state as a whole -----------------------------------------------------------------

    def with_state(self: Self, state: Any) -> Self:
        """Return the same stack with these arrays."""
        new = copy.copy(self)
        new.set_state(state)
        return new

    def copy(self: Self) -> Self:
        """Return the same stack with its own copy of the arrays."""
        return self.with_state(type(self.state)(*(array.copy() for array in self.state)))

    def merged(self: Self, others: Sequence[Self], share: Any, t: float) -> Self:
        """Return the mean of this stack and others, with these shares, after t rounds."""
        return self.with_state(self.merged_state([self.state, *(other.state for other in others)], share, t))

    @abstractmethod
    def merged_state(self, states: list[Any], share: Any, t: float) -> Any:
        """Return the mean of states, with these shares, after t rounds."""

    def arrays(self) -> dict[str, Any]:
        """Return all arrays, by name."""
        return {f"stack.{name}": a for name, a in self.state._asdict().items()}

    def restored(self: Self, arrays: dict[str, Any]) -> Self:
        """Return the same stack with copies of these arrays; ValueError if they do not fit."""
        found = {}
        for name, own in self.state._asdict().items():
            array = arrays.get(f"stack.{name}")
            if array is None or array.dtype != own.dtype or array.shape != own.shape or not np.isfinite(array).all():
                raise ValueError(f"array 'stack.{name}' is missing or does not fit the ensemble")
            found[name] = array.copy()
        return self.with_state(type(self.state)(**found))


def mean_of_arrays(states: Sequence[Any], share: Any) -> Any:
    """Return the mean of named tuples of arrays, with these shares."""
    parts = zip(*states, strict=True)
    return type(states[0])(*(sum(c * array for c, array in zip(share, arrays, strict=True)) for arrays in parts))
