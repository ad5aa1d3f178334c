"""The engine of an ensemble: an engine per member, and the stack of their scores."""

from __future__ import annotations

import contextlib
import copy
import warnings
from typing import Any, NamedTuple

import numpy as np

from fiol.components.row import Floats
from fiol.components.step_sizes import Constant
from fiol.engine.at_hand import AtHand
from fiol.engine.centring import NO_ROWS, centring_from
from fiol.engine.engine import IN_ORDER, Engine
from fiol.engine.lane_group import LaneGroup, chosen_lanes
from fiol.engine.pacing import paced, piece_of
from fiol.intake.chunk import Chunk
from fiol.update.ensemble import Ensemble
from fiol.update.plan import Plan, intercept_plan, make_plan
from fiol.update.state import START
from fiol.update.update import Update


class Member(NamedTuple):
    """How a member of an ensemble does."""

    update: Update
    weight: float  #: what its score counts with now
    loss: float  #: its mean loss, that of every row before it was learned from
    overflowed: bool  #: whether its scores left the range of double precision: then it counts no more


#: So often a piece is ended after an interrupt, should others follow.
ENDINGS = 10
#: What the stack costs in a round, in entries of rows.
STACK_COST = 16.0


#: A stack of so many may have its members as lanes; and a 0 for each, and for the whole.
MOST_STACKS, FOUR = 3, (0.0,) * 4


class EnsembleEngine(Engine):
    """An `Engine` whose scores and weights are those of the one linear model that a stack makes of its members.

    The members go through the rows piece by piece, each as if it were alone; then the stack goes through their scores
    of the piece. Its clock is that of the ensemble. A signal may come in between: then the piece is ended before it is
    heard, so that all members have learned from the same rows.
    """

    def __init__(
        self, ensemble: Ensemble, features: int, intercept: bool, dtype: Any, compiled: bool, scores: int | None
    ) -> None:
        from fiol.engine.stacking import new_stack_state  # imported here: `import fiol` loads no compiler

        plans = [make_plan(member) for member in ensemble.members]
        #: The plan of the one linear model: rounds are made by the members' own.
        self.plan = make_plan(Update(ensemble.loss, step_size=Constant(1.0)))
        self.intercept_plan = intercept_plan(self.plan)
        self.compiled = compiled
        #: Which members are lanes, and these; the others by their places.
        self.in_lanes: list[int] = []
        self.group: LaneGroup | None = None
        self.beside: dict[int, Engine] = {}
        self.members = [
            Engine(plan, features, plan.first_entry(features), intercept, False, dtype, compiled, scores)
            for plan in plans
        ]
        self.ensemble = ensemble
        stack: Any = ensemble.stack
        self.stack = stack
        self.mixed = new_stack_state(stack, len(plans))
        self.has_intercept = intercept
        self.bound, self.observer = {}, None

    # --- members ------------------------------------------------------------------------------

    @property
    def members(self) -> list[Engine]:
        """An engine per member; those of lanes are copies."""
        found = dict(self.beside)
        if self.group is not None:
            found.update(zip(self.in_lanes, self.group.unpacked(), strict=True))
        return [found[k] for k in sorted(found)]

    @members.setter
    def members(self, engines: list[Engine]) -> None:
        self.in_lanes, self.group = chosen_lanes([engine.plan for engine in engines], self.compiled), None
        if self.in_lanes:
            together = [engines[k] for k in self.in_lanes]
            group = LaneGroup(together)
            if group.pack(together):
                self.group = group
            else:
                self.in_lanes = []
        self.beside = {k: engine for k, engine in enumerate(engines) if k not in self.in_lanes}

    @property
    def runners(self) -> list[Any]:
        """Those who learn: engines of members, and the group of lanes."""
        return [*([] if self.group is None else [self.group]), *self.beside.values()]

    @property
    def engines(self) -> list[Engine]:
        """The engine of every member for what all engines of its plan have in common."""
        return [*([] if self.group is None else self.group.engines), *self.beside.values()]

    # --- what members have together -----------------------------------------------------------

    @property
    def dtype(self) -> Any:  # type: ignore[override]
        """How weights are stored."""
        return self.engines[0].dtype

    @property
    def trailing(self) -> tuple[int, ...]:  # type: ignore[override]
        """() for one score, (scores,) for many."""
        return self.engines[0].trailing

    @property
    def longest(self) -> float:  # type: ignore[override]
        """The largest step that any member begins with."""
        return max(engine.longest for engine in self.engines)

    @property
    def ticks(self) -> Any:  # type: ignore[override]
        """The clock: the rounds that the stack has made are those of the ensemble."""
        return self.mixed.ticks

    @property  # type: ignore[override]
    def state(self) -> list[Any]:
        """The states of all members, for going back to them."""
        return [runner.records if isinstance(runner, LaneGroup) else runner.state for runner in self.runners]

    @state.setter
    def state(self, states: list[Any]) -> None:
        for runner, state in zip(self.runners, states, strict=True):
            setattr(runner, "records" if isinstance(runner, LaneGroup) else "state", state)

    @property
    def rows(self) -> int:
        return self.runners[0].rows

    @property
    def nbytes(self) -> int:
        return sum(runner.nbytes for runner in self.runners) + sum(array.nbytes for array in self.mixed)

    @property
    def row_cost(self) -> float:
        return STACK_COST + sum(engine.row_cost for engine in self.engines)

    # --- learning -----------------------------------------------------------------------------

    def learn_plainly(self, chunk: Chunk, y: Floats, sample_weights: Floats, order: Any = IN_ORDER) -> Floats:
        scores, live = np.zeros((chunk.rows, *self.trailing)), self.mixed.live.copy()
        for start, stop in paced(chunk, order, self.row_cost):
            if len(order):
                chosen = order[start:stop]
                scores[chosen] = self.learn_piece(chunk.take(chosen), y[chosen], sample_weights[chosen])
            else:
                rows = slice(start, stop)
                scores[rows] = self.learn_piece(piece_of(chunk, start, stop), y[rows], sample_weights[rows])
        for k in np.flatnonzero(live > self.mixed.live):
            text = f"member {k} overflows and is left out from now on: {self.ensemble.members[k].brief()}"
            warnings.warn(text, RuntimeWarning, stacklevel=6)
        return scores

    def learn_piece(self, chunk: Chunk, y: Floats, sample_weights: Floats) -> Floats:
        """A round per row of every member and of the stack; a signal is heard when all have made them."""
        ends = [runner.rounds + chunk.rows for runner in self.runners], self.rounds + chunk.rows
        shape = chunk.rows, *self.trailing
        lanes = [] if self.group is None else [self.group.new_scores(chunk.rows)]
        found, scores = [*lanes, *(np.zeros(shape) for _ in self.beside)], np.zeros(shape)
        try:
            self.end_piece(chunk, y, sample_weights, found, scores, *ends)
        except BaseException:
            if self.compiled:  # no component has raised
                for _ in range(ENDINGS):
                    with contextlib.suppress(BaseException):  # one more signal: the first is raised in the end
                        self.end_piece(chunk, y, sample_weights, found, scores, *ends)
                        break
            raise
        return scores

    def end_piece(
        self,
        chunk: Chunk,
        y: Floats,
        sample_weights: Floats,
        found: list[Floats],
        scores: Floats,
        ends: list[int],
        end: int,
    ) -> None:
        """The rounds of a piece that have not been made yet: the clocks tell who has made its own."""
        for runner, its_end, its_scores in zip(self.runners, ends, found, strict=True):
            if runner.rounds < its_end:
                if isinstance(runner, LaneGroup):
                    runner.learn(chunk, y, sample_weights, its_scores)
                else:
                    rows = *runner.plans, chunk, IN_ORDER, y, sample_weights
                    runner.call("learn_rows", *rows, *runner.memory, its_scores)
        if self.rounds < end:
            parts, rows = (self.stack, self.plan.problem.loss), (y, sample_weights, self.mixed, scores)
            if self.group is not None and not self.beside and len(self.mixed.share) <= MOST_STACKS:
                self.call("lane_stack_rows", *parts, self.group.zero, FOUR, found[0], *rows)
            else:
                Z = self.side_by_side(found)
                self.call("joint_stack_rows" if self.trailing else "stack_rows", *parts, Z, *rows)

    def side_by_side(self, found: list[Floats]) -> Floats:
        """The scores of all members, in their order: [row, member], or [row, score, member]."""
        rest, lanes = found[len(found) - len(self.beside) :], self.in_lanes
        if self.group is not None and not self.beside:
            return np.ascontiguousarray(self.group.scores_of_members(found[0]))
        Z = np.empty((*rest[0].shape, len(self.beside) + len(lanes)))
        if self.group is not None:
            Z[..., lanes] = self.group.scores_of_members(found[0])
        for k, its_scores in zip(self.beside, rest, strict=True):
            Z[..., k] = its_scores
        return Z

    def have_at_hand(
        self, entries: int, intakes: tuple[Any, ...], learning: bool, grows: bool = True, turns: Any = None
    ) -> AtHand:
        return AtHand(intakes[0], entries)

    def learn_one(self, *row: Any) -> None:
        """A row of an ensemble always needs a second look."""
        return

    def start_from(self, w: Floats, intercept: Any) -> None:
        members = self.members
        for member in members:
            member.start_from(w, intercept)
        self.members = members

    def move_to_means(self, features: Any, means: Floats, distances: Floats) -> None:
        members = self.members
        for member in members:
            member.move_to_means(features, means, distances)
        self.members = members

    def settle(self) -> None:
        for member in self.beside.values():  # weights in lanes always are up to date
            member.settle()

    # --- reading ------------------------------------------------------------------------------

    @property
    def mixing(self) -> Floats:
        """What the score of each member counts with now."""
        from fiol.engine.stacking import mixing

        return mixing(self.stack, self.mixed)

    def report(self) -> tuple[list[Member], float]:
        """How every member does, and the mean loss of the whole, that of every row before it was learned from."""
        from fiol.engine.stacking import mean_losses

        *losses, whole = mean_losses(self.mixed).tolist()
        parts = zip(self.ensemble.members, self.mixing.tolist(), losses, self.mixed.live == 0.0, strict=True)
        return [Member(update, v, loss, bool(gone)) for update, v, loss, gone in parts], whole

    def weights_of(self, features: Any, v: Floats) -> Floats:
        """The weights of these features in the one linear model."""
        out = np.zeros((len(features), *self.trailing))
        if self.group is not None:
            self.group.add_weights(features, v[self.in_lanes], out)
        for k, member in self.beside.items():
            if v[k] != 0.0:
                known = member.plan, member.state, member.fresh, member.ticks
                member.call("add_weights", *known, features, float(v[k]), out)
        return out

    def intercept_of(self, v: Floats) -> Any:
        """The intercept of every score in the one linear model."""
        out = np.zeros(self.trailing)
        found = {k: np.asarray(member.intercept_weight(False)) for k, member in self.beside.items()}
        if self.group is not None and self.has_intercept:
            found.update(zip(self.in_lanes, self.group.intercepts(), strict=True))
        for k in sorted(found):
            if v[k] != 0.0:
                out = out + v[k] * found[k]
        return out

    def scores(self, chunk: Chunk) -> Floats:
        chunk, v = self.centred(chunk), self.mixing
        scores = np.empty((chunk.rows, *self.trailing))
        kernel, dtype = "score_rows_of_many" if self.trailing else "score_rows", np.dtype(np.float64)
        first, many = self.plan.first_entry(0), self.trailing
        intercept = self.intercept_plan.new_state((int(self.has_intercept), *many), 0.0, dtype, False)
        intercept.w[...] = self.intercept_of(v)
        fresh = self.plan.new_state((1, *many), first, dtype, False)
        for start, stop in paced(chunk, IN_ORDER, float(len(v))):
            begin, end = int(chunk.indptr[start]), int(chunk.indptr[stop])
            state = self.plan.new_state((0, *many), first, dtype, False)
            state = state._replace(w=self.weights_of(chunk.indices[begin:end], v))
            places = np.arange(end - begin, dtype=np.int32)
            piece = Chunk(chunk.indptr[start : stop + 1] - begin, places, chunk.data[begin:end])
            known = state, intercept, fresh, np.array(START)
            self.call(kernel, *self.plans, piece, *known, scores[start:stop])
        return scores

    def weights(self, features: int, averaged: bool) -> Floats:
        return self.weights_of(np.arange(features, dtype=np.int32), self.mixing)

    def working_intercept(self, averaged: bool) -> Any:
        found = self.intercept_of(self.mixing)
        return found if self.trailing else float(found)

    # --- the state as a whole -----------------------------------------------------------------

    def grow(self, features: int) -> None:
        for runner in self.runners:
            runner.grow(features)

    def make_place(self, features: int, longest: int) -> None:
        for runner in self.runners:
            runner.make_place(features, longest)

    def add_scores(self, places: Any, scores: int) -> None:
        for member in self.beside.values():  # lanes have one score
            member.add_scores(places, scores)

    def select(self, kept: Any) -> None:
        self.select_means(kept)
        for runner in self.runners:
            runner.select(kept)

    def arrays(self) -> dict[str, Any]:
        own = {f"{k}/{name}": a for k, member in enumerate(self.members) for name, a in member.arrays().items()}
        own |= {f"stack.{name}": a for name, a in self.mixed._asdict().items()}
        return {**own, **self.centring_arrays()}

    @property
    def needed_arrays(self) -> tuple[str, ...]:
        return tuple(f"{k}/{name}" for k, engine in enumerate(self.engines) for name in engine.needed_arrays)

    def restore(self, arrays: dict[str, Any]) -> None:
        mixed = {}
        for name, own in self.mixed._asdict().items():
            found = arrays.get(f"stack.{name}")
            if found is None or found.dtype != own.dtype or found.shape != own.shape or not np.isfinite(found).all():
                raise ValueError(f"array 'stack.{name}' is missing or does not fit the ensemble")
            mixed[name] = found.copy()
        members = [engine.copy() for engine in self.members]
        for k, member in enumerate(members):
            start = f"{k}/"
            member.restore({name.removeprefix(start): a for name, a in arrays.items() if name.startswith(start)})
            if member.rounds != int(mixed["ticks"][0]):
                raise ValueError(f"member {k} has made {member.rounds} rounds, the stack {int(mixed['ticks'][0])}")
        if self.centring is not None:
            self.centring = centring_from(arrays, members[0].state.w.shape[0])
        self.members, self.mixed = members, type(self.mixed)(**mixed)

    def copy(self) -> EnsembleEngine:
        new = copy.copy(self)
        new.spare = None
        new.group = None if self.group is None else self.group.copy()
        new.beside = {k: member.copy() for k, member in self.beside.items()}
        new.mixed = type(self.mixed)(*(array.copy() for array in self.mixed))
        new.observer = None
        return new

    def placed(self, places: Any, features: int, score_places: Any = None, scores: int | None = None) -> EnsembleEngine:
        new = self.copy()
        new.members = [member.placed(places, features, score_places, scores) for member in self.members]
        if new.centring is not None:
            new.centring = new.centring.placed(places)
        return new


def make_engine(
    update: Update | Ensemble,
    features: int,
    intercept: bool,
    average: bool,
    dtype: Any,
    compiled: bool = True,
    scores: int | None = None,
) -> Engine:
    """The engine of an update or an ensemble: see `Engine`."""
    if isinstance(update, Ensemble):
        engine: Engine = EnsembleEngine(update, features, intercept, dtype, compiled, scores)
    else:
        plan: Plan = make_plan(update, average)
        engine = Engine(plan, features, plan.first_entry(features), intercept, average, dtype, compiled, scores)
    if intercept and update.centres():
        engine.centring = NO_ROWS
    return engine
