"""The engine of an ensemble: an engine per member, and the stack of their scores."""

from __future__ import annotations

import contextlib
import copy
import threading
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from fiol.components.losses import Loss
from fiol.components.row import Floats
from fiol.components.step_sizes import Constant
from fiol.engine.at_hand import NOTHING_AT_HAND, AtHand
from fiol.engine.centring import AS_THEY_ARE, NO_ROWS, centring_from, own_centring
from fiol.engine.engine import IN_ORDER, Engine
from fiol.engine.holding import limits
from fiol.engine.lane_group import WIDTHS, LaneGroup, chosen_lanes, fits_lanes, lanes_there
from fiol.engine.pacing import paced, piece_of
from fiol.engine.stack_state import (
    AGAIN,
    MOST_STACKS,
    STACK_KINDS,
    StackKind,
    mean_losses,
    narrowed,
    new_lane_room,
    widened,
)
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
    nonzero: int  #: how many of its features have a weight that is not exactly 0 (and pass the gate, if there is one)


class Piece(NamedTuple):
    """Some rows, their targets, the rows as the gate lets them pass, and where scores are told, if anywhere."""

    rows: Chunk
    passed: Chunk
    y: Floats
    sample_weights: Floats
    told: Any
    turns: list[Any]  #: a lock for each who learns: after an interrupt, another thread may still be about its rounds


#: So often a piece is ended after an interrupt, should others follow.
ENDINGS = 10
#: How large the values of single events may be.
LARGEST_EVENT = 1e50
#: What the stack costs in a round, in entries of rows.
STACK_COST = 16.0
#: A 0 for every stack that may have its members as lanes, and for the whole.
FOUR = (0.0,) * (MOST_STACKS + 1)


class EnsembleEngine(Engine):
    """An `Engine` whose scores and weights are those of the one linear model that a stack makes of its members.

    If the stack makes none (`Ensemble.is_linear`), there are scores, and no weights.

    The members go through the rows piece by piece, each as if it were alone; then the stack goes through their scores
    of the piece. A gate goes first, and the others see the entries that it lets pass. The stack's clock is that of the
    ensemble. A signal may come in between: then the piece is ended before it is heard, so that all members have
    learned from the same rows.

    Members know nothing of each other, so they may go side by side, in threads (`each`), which changes no bit.
    """

    #: Does something for everyone who learns: a `map`, perhaps one in threads.
    each: Any = staticmethod(map)
    #: Where entries are that a gate has let pass.
    passed: Chunk | None = None

    def __init__(
        self,
        ensemble: Ensemble,
        plans: Sequence[Plan],
        features: int,
        intercept: bool,
        dtype: Any,
        compiled: bool,
        scores: int | None,
    ) -> None:
        #: The place of the gate among the members, the last; -1 without one.
        self.gate = -1 if ensemble.gate is None else len(plans) - 1
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
        #: How many lanes the stack has for its members, 0 if it does without.
        self.width = stack_width(ensemble, compiled)
        self.mixed = self.stacking.new_state(stack, len(plans))
        self.has_intercept = intercept
        self.bound, self.observer = {}, None

    @property
    def stacking(self) -> StackKind:
        """The functions and kernels of the stack."""
        return STACK_KINDS[self.stack.kind]

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
        plans = [engine.plan for k, engine in enumerate(engines) if k != self.gate]
        self.in_lanes, self.group = chosen_lanes(plans, self.compiled), None
        if self.in_lanes:
            together = [engines[k] for k in self.in_lanes]
            group = LaneGroup(together)
            if group.pack(together):
                self.group = group
            else:
                self.in_lanes = []
        self.beside = {k: engine for k, engine in enumerate(engines) if k not in self.in_lanes}

    @property
    def mixed(self) -> Any:
        """What the stack knows: arrays to read, and to write into."""
        known = self.known_to_stack
        return narrowed(known, np.size(self.stack.forgets), len(self.ensemble.updates)) if self.width else known

    @mixed.setter
    def mixed(self, state: Any) -> None:
        #: The same, as kernels want it.
        self.known_to_stack = widened(state, self.width, self.stack.prior) if self.width else state
        self.stack_room = new_lane_room(len(state.v), self.width) if self.width else None

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
    def limits(self) -> tuple[float, float, float]:  # type: ignore[override]
        """What a single event may have: of larger numbers a member might overflow, of which somebody has to tell."""
        low, high, heaviest = limits(self.dtype, self.longest)
        return max(low, 1.0 / LARGEST_EVENT), min(high, LARGEST_EVENT), heaviest

    @property
    def ticks(self) -> Any:  # type: ignore[override]
        """The clock: the rounds that the stack has made are those of the ensemble."""
        return self.known_to_stack.ticks

    @property  # type: ignore[override]
    def state(self) -> list[Any]:
        """The states of all members, for going back to them."""
        return [runner.records if isinstance(runner, LaneGroup) else runner.state for runner in self.runners]

    @state.setter
    def state(self, states: list[Any]) -> None:
        self.at_hand = NOTHING_AT_HAND
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

    def learn_plainly(
        self, chunk: Chunk, y: Floats, sample_weights: Floats, order: Any = IN_ORDER, told: Any = None
    ) -> Floats:
        """As of any engine; rows in order are `told`, [row, member + 1]: scores of all members, then of the whole."""
        scores, live = np.zeros((chunk.rows, *self.trailing)), self.mixed.live.copy()
        for start, stop in paced(chunk, order, self.row_cost):
            if len(order):
                chosen = order[start:stop]
                scores[chosen] = self.learn_piece(chunk.take(chosen), y[chosen], sample_weights[chosen])
            else:
                rows = slice(start, stop)
                piece = piece_of(chunk, start, stop), y[rows], sample_weights[rows]
                scores[rows] = self.learn_piece(*piece, None if told is None else told[rows])
        for k in np.flatnonzero(live > self.mixed.live):
            text = f"member {k} overflows and is left out from now on: {self.ensemble.updates[k].brief()}"
            warnings.warn(text, RuntimeWarning, stacklevel=6)
        return scores

    @contextlib.contextmanager
    def rows_again(self) -> Iterator[None]:
        was = self.ticks[AGAIN]
        self.ticks[AGAIN] = 1.0
        try:
            yield
        finally:
            self.ticks[AGAIN] = was

    def learn_piece(self, chunk: Chunk, y: Floats, sample_weights: Floats, told: Any = None) -> Floats:
        """A round per row of every member and of the stack; a signal is heard when all have made them."""
        if self.all_in_lanes and told is None:
            scores = np.zeros(chunk.rows)
            self.learn_lanes_and_stack(chunk, y, sample_weights, None, scores)
            return scores
        ends = [runner.rounds + chunk.rows for runner in self.runners], self.rounds + chunk.rows
        shape = chunk.rows, *self.trailing
        lanes = [] if self.group is None else [self.group.new_scores(chunk.rows)]
        found, scores = [*lanes, *(np.zeros(shape) for _ in self.beside)], np.zeros(shape)
        turns = [threading.Lock() for _ in found]
        piece = Piece(chunk, self.room_to_pass(chunk), y, sample_weights, told, turns)
        try:
            self.end_piece(piece, found, scores, *ends)
        except BaseException:
            if self.compiled:  # no component has raised
                for _ in range(ENDINGS):
                    with contextlib.suppress(BaseException):  # one more signal: the first is raised in the end
                        self.end_piece(piece, found, scores, *ends)
                        break
            raise
        return scores

    def room_to_pass(self, chunk: Chunk) -> Chunk:
        """Where the entries go that the gate lets pass: all of them, at most, and one that does not.

        Without a gate these are the rows.
        """
        if self.gate < 0:
            return chunk
        entries, room = int(chunk.indptr[-1] - chunk.indptr[0]) + 1, self.passed
        if room is None or room.indptr.shape[0] <= chunk.rows or room.data.shape[0] < entries:
            room = Chunk(np.zeros(chunk.rows + 1, np.int64), np.zeros(entries, np.int32), np.zeros(entries))
            self.passed = room  # memory that is new to the process costs as much as a round
        return Chunk(room.indptr[: chunk.rows + 1], room.indices[:entries], room.data[:entries])

    def learn_lanes_and_stack(self, chunk: Chunk, y: Floats, sample_weights: Floats, said: Any, out: Floats) -> None:
        """The rounds of all lanes and of the stack, and the scores before; `said` are scores of the gate, or None."""
        group: Any = self.group
        parts = *self.stack_parts, group.digits, len(self.ensemble.updates), chunk, y, sample_weights, said
        self.call("learn_stacked_rows", *parts, group.memory, self.known_to_stack, self.stack_room, out)

    def end_piece(self, piece: Piece, found: list[Floats], scores: Floats, ends: list[int], end: int) -> None:
        """The rounds of a piece that have not been made yet: the clocks tell who has made its own."""
        targets = piece.y, piece.sample_weights
        runners = list(zip(self.runners, ends, found, strict=True))
        if self.gate >= 0:
            gate, its_end, its_scores = runners.pop()
            if gate.rounds < its_end:
                gate.call("gate_rows", *gate.plans, piece.rows, *targets, *gate.memory, its_scores, piece.passed)
            if piece.told is None and self.lanes_behind_gate:
                if self.rounds < end:
                    self.learn_lanes_and_stack(piece.passed, *targets, its_scores, scores)
                return

        def learn(k: int) -> None:
            runner, its_end, its_scores = runners[k]
            with piece.turns[k]:
                if runner.rounds >= its_end:
                    return
                if isinstance(runner, LaneGroup):
                    runner.learn(piece.passed, *targets, its_scores)
                else:
                    rows = *runner.plans, piece.passed, IN_ORDER, *targets
                    runner.call("learn_rows", *rows, *runner.memory, its_scores)

        for _ in self.each(learn, range(len(runners))):
            pass
        if self.rounds < end:
            Z = self.side_by_side(found)
            scores[...] = self.learn_stack(Z, *targets)
            if piece.told is not None:
                piece.told[:, :-1], piece.told[:, -1] = Z[:, : len(self.ensemble.updates)], scores

    def learn_stack(self, Z: Floats, y: Floats, sample_weights: Floats) -> Floats:
        """Rounds of the stack alone, for scores of members [row, member] or [row, score, member]."""
        scores, rows = np.zeros(Z.shape[:-1]), (y, sample_weights)
        if self.width:
            if Z.shape[1] < self.width:
                Z = np.hstack([Z, np.zeros((len(y), self.width - Z.shape[1]))])
            given = Z.reshape(-1), *rows, len(self.ensemble.updates)
            self.call("lane_stack_rows", *self.stack_parts, *given, self.known_to_stack, self.stack_room, scores)
        else:
            kernel = self.stacking.joint_rows if self.trailing else self.stacking.rows
            self.call(kernel, *self.stack_parts, Z, *rows, self.known_to_stack, scores)
        return scores

    @property
    def stack_parts(self) -> tuple[Any, ...]:
        """What kernels of the stack take first: stack and loss, and a 0 for every lane if there are any."""
        parts = self.stack, self.plan.problem.loss
        return (*parts, (0.0,) * self.width, FOUR) if self.width else parts

    @property
    def apart(self) -> int:  # type: ignore[override]
        # By the recipe, not by what this machine has: what is made of it depends on the answer (`Learner.parts_for`).
        lanes = sum(fits_lanes(engine.plan) for engine in self.engines)
        return 0 if lanes > 1 else len(self.ensemble.updates) - (self.gate >= 0)

    @property
    def all_in_lanes(self) -> bool:
        """Whether all members are lanes, and so is their stack: then one kernel makes the rounds of all."""
        return self.group is not None and self.width > 0 and not self.beside

    @property
    def lanes_behind_gate(self) -> bool:
        """Whether all members but the gate are lanes, and it has a lane of the stack behind theirs."""
        behind = self.group is not None and self.width == self.group.width and [*self.beside] == [self.gate]
        return behind and self.in_lanes == [*range(self.gate)]

    def side_by_side(self, found: list[Floats]) -> Floats:
        """The scores of all members, in their order: [row, member], or [row, score, member]; 0 in the other lanes."""
        rest, lanes = found[len(found) - len(self.beside) :], self.in_lanes
        rows = rest[0].shape if rest else (len(found[0]) // self.group.width,)  # type: ignore[union-attr]
        Z = np.zeros((*rows, self.width or len(self.ensemble.updates)))
        if self.group is not None:
            Z[..., lanes] = self.group.scores_of_members(found[0])
        for k, its_scores in zip(self.beside, rest, strict=True):
            Z[..., k] = its_scores
        return Z

    def have_functions(
        self, at_hand: AtHand, intakes: tuple[Any, ...], learning: bool, grows: bool, turns: Any
    ) -> None:
        if self.all_in_lanes:
            from fiol.engine.lane_events import lane_functions_for  # imported here: `import fiol` loads no compiler

            lane_functions_for(self, at_hand, intakes, learning, grows, turns)

    @property
    def longest_row(self) -> int:
        return 0 if self.group is None else self.group.parts.shape[0] // 2

    def learn_one(self, *row: Any) -> None:
        """A row of an ensemble that `have_at_hand` has no function for needs a second look."""
        return

    def start_from(self, w: Floats, intercept: Any) -> None:
        members = self.members
        for member in members:
            member.start_from(w, intercept)
        self.members = members

    @property
    def moves(self) -> bool:
        return self.stack.kind == "newton" and all(member.starts_anywhere() for member in self.ensemble.members)

    def move_to(self, w: Floats, intercept: Any) -> None:
        """Of all ways to move members, the one with the least sum of squares: each by its v_k / |v|^2 of the change.

        A gate stays where it is, and what it closes has no weight afterwards either.
        """
        now = self.mixing
        v = now.copy()
        if self.gate >= 0:
            v[self.gate] = 0.0
        size = float(v @ v)
        if size == 0.0:  # nobody to move
            return
        indices = np.arange(w.shape[0], dtype=np.int32)
        change = (w - self.weights_of(indices, now)) / size
        change[~self.passing(indices)] = 0.0
        shift = intercept - self.intercept_of(now)
        if self.centring is not None and self.centring.features.shape[0]:  # from rows as they are to centred ones
            features = self.centring.features
            shift = shift + self.centring.means @ w[features]
        shift = shift / size
        self.at_hand = NOTHING_AT_HAND
        self.grow(w.shape[0])
        if self.group is not None:
            self.group.move(v[self.in_lanes], change, shift)
        for k, member in self.beside.items():
            if v[k] != 0.0:
                there = v[k] * change
                member.call("add_weights", *member.known, indices, 1.0, there)
                member.start_from(there, member.intercept_weight(False) + v[k] * shift)

    def moved_to_means(self, features: Any, means: Floats, distances: Floats) -> dict[str, Any]:
        new = copy.copy(self)
        members = [member.copy() for member in self.members]
        for member in members:
            vars(member).update(member.moved_to_means(features, means, distances))
        new.members = members
        return {name: getattr(new, name) for name in ("in_lanes", "group", "beside")}

    def settle(self) -> None:
        for runner in self.runners:
            runner.settle()

    # --- reading ------------------------------------------------------------------------------

    @property
    def mixing(self) -> Floats:
        """What the score of each member counts with now."""
        return self.stacking.mixing(self.stack, self.mixed)  # type: ignore[no-any-return]

    def report(self, features: int) -> list[Member]:
        """How every member does, the gate last; there are so many features."""
        losses, live = self.mean_losses()[1:].tolist(), (self.mixed.live > 0.0).tolist()
        held = self.nonzeros(features)
        parts = zip(self.ensemble.updates, self.mixing.tolist(), losses, live, held, strict=True)
        return [Member(update, v, loss, not alive, nonzero) for update, v, loss, alive, nonzero in parts]

    def alone(self, k: int) -> Engine:
        engine = self.beside[k].copy() if k in self.beside else self.members[k]
        if self.has_intercept and self.ensemble.updates[k].centres():  # whether or not the others do
            engine.centring = own_centring(AS_THEY_ARE if self.centring is None else self.centring)
        return engine

    @property
    def progressive_loss(self) -> float:
        return float(self.mean_losses()[0])

    def mean_losses(self) -> Floats:
        """The mean loss of the whole, and of every member."""
        return mean_losses(self.mixed)  # type: ignore[no-any-return]

    def nonzeros(self, features: int) -> list[int]:
        """How many of the first features have a weight with each member, and pass."""
        return [int(np.count_nonzero(there)) for there in self.weighed_by(features)]

    def weighed(self, features: int) -> Any:
        there = zip(self.mixed.live, self.weighed_by(features), strict=True)
        return np.any([its for live, its in there if live > 0.0] or [np.zeros(features, bool)], axis=0)

    def weighed_by(self, features: int) -> list[Any]:
        """Which of the first features have a weight with each member, and pass."""
        indices, weights = np.arange(features, dtype=np.int32), dict[int, Any]()
        if self.group is not None:
            weights.update(zip(self.in_lanes, self.group.weights(features).T, strict=True))
        for k, member in self.beside.items():
            weights[k] = np.zeros((features, *self.trailing))
            member.call("add_weights", *member.known, indices, 1.0, weights[k])
        passing = self.passing(indices)
        there = (w != 0.0 if w.ndim == 1 else w.any(axis=1) for _, w in sorted(weights.items()))
        return [its & passing for its in there]

    def passing(self, features: Any) -> Any:
        """Which of these features the gate lets pass now; all without one."""
        if self.gate < 0:
            return np.ones(len(features), bool)
        gate, out = self.beside[self.gate], np.zeros(len(features))
        gate.call("mark_weights", *gate.known, features, out)
        return out > 0.0

    def weights_of(self, features: Any, v: Floats) -> Floats:
        """The weights of these features in the one linear model."""
        out = np.zeros((len(features), *self.trailing))
        if self.group is not None:
            self.group.add_weights(features, v[self.in_lanes], out)
        for k, member in self.beside.items():
            if v[k] != 0.0:
                member.call("add_weights", *member.known, features, float(v[k]), out)
        if self.gate >= 0:
            out[~self.passing(features)] = 0.0
        return out

    def stiffness(self, features: int) -> Floats:
        return min(self.members, key=lambda member: member.stiffness_known_by).stiffness(features)

    @property
    def knows_scales(self) -> bool:
        return any(member.knows_scales for member in self.members)

    def scales(self, features: int) -> Floats:
        return max(self.members, key=lambda member: member.knows_scales).scales(features)

    def intercept_of(self, v: Floats) -> Any:
        """The intercept of every score in the one linear model."""
        out = np.zeros((1, *self.trailing))
        if self.group is not None and self.has_intercept:
            self.group.add_intercepts(v[self.in_lanes], out)
        for k, member in self.beside.items():
            if v[k] != 0.0:
                out[0] += v[k] * np.asarray(member.intercept_weight(False))
        return out[0]

    def linear_memory(self, entries: int) -> tuple[Any, ...]:
        """State, intercept, features never seen and clock of the one linear model, for so many weights: all are 0."""
        many, first, dtype = self.trailing, self.plan.first_entry(0), np.dtype(np.float64)
        intercept = self.intercept_plan.new_state((int(self.has_intercept), *many), 0.0, dtype, False)
        state, fresh = (self.plan.new_state((n, *many), first, dtype, False) for n in (entries, 1))
        return state, intercept, fresh, np.array(START)

    def scores(self, chunk: Chunk) -> Floats:
        chunk = self.centred(chunk)
        if self.ensemble.is_linear():
            return self.linear_scores(chunk, self.mixing)
        Z, scores = self.scores_of_members(chunk), np.empty((chunk.rows, *self.trailing))
        kernel = self.stacking.joint_scores if self.trailing else self.stacking.scores
        self.call(kernel, self.plan.problem.loss, Z, self.known_to_stack, scores)
        return scores

    def scores_of_members(self, chunk: Chunk) -> Floats:
        """The scores of rows that are centred by every member that is in, [row, ..., member]; 0 for the others."""
        each = np.eye(len(self.ensemble.updates))
        Z = np.zeros((chunk.rows, *self.trailing, len(each)))
        for k in np.flatnonzero(self.known_to_stack.live[: len(each)]):
            Z[..., k] = self.linear_scores(chunk, each[k])
        return Z

    def variances(self, chunk: Chunk) -> Floats:
        """The variances of the scores of rows: of the best member that knows its own, and what the stack leaves open.

        With several scores per row the latter is their mean. Infinite if no member is left that knows.
        """
        losses, live = self.mean_losses()[1:], self.mixed.live
        knowing = [k for k, member in enumerate(self.ensemble.members) if live[k] > 0.0 and member.knows_variance()]
        if not knowing:
            return np.full(chunk.rows, np.inf)
        chunk = self.centred(chunk)
        seen = chunk._replace(data=np.where(self.passing(chunk.indices), chunk.data, 0.0)) if self.gate >= 0 else chunk
        best = min(knowing, key=lambda k: losses[k])
        if best in self.beside:
            own = self.beside[best].variances(seen)
        else:
            features, places = np.unique(seen.indices, return_inverse=True)
            group: Any = copy.copy(self.group)
            group.select(features[features < group.features])  # the others come last, and are as if never seen
            member = group.unpacked_member(self.in_lanes.index(best))
            own = member.variances(seen._replace(indices=places.astype(np.int32)))
        left = self.stacking.variances(self.mixed, self.scores_of_members(chunk))
        return own + left.reshape(chunk.rows, -1).mean(axis=1)  # type: ignore[no-any-return]

    def linear_scores(self, chunk: Chunk, v: Floats) -> Floats:
        """The scores of rows that are centred by the linear model in which the members count with v."""
        scores = np.empty((chunk.rows, *self.trailing))
        kernel = "score_rows_of_many" if self.trailing else "score_rows"
        state, *known = self.linear_memory(0)
        known[0].w[...] = self.intercept_of(v)
        for start, stop in paced(chunk, IN_ORDER, float(len(v))):
            begin, end = int(chunk.indptr[start]), int(chunk.indptr[stop])
            weights = state._replace(w=self.weights_of(chunk.indices[begin:end], v))
            places = np.arange(end - begin, dtype=np.int32)
            piece = Chunk(chunk.indptr[start : stop + 1] - begin, places, chunk.data[begin:end])
            self.call(kernel, *self.plans, piece, weights, *known, scores[start:stop])
        return scores

    def weights(self, features: int, averaged: bool) -> Floats:
        self.expect_linear()
        return self.weights_of(np.arange(features, dtype=np.int32), self.mixing)

    def expect_linear(self) -> None:
        """TypeError unless there are weights."""
        if not self.ensemble.is_linear():
            raise TypeError(
                f"{self.stack!r} takes the mean of probabilities, which is no linear model, so there are no weights: "
                "use NewtonStack(), or member(k) for one of the members"
            )

    def working_intercept(self, averaged: bool) -> Any:
        self.expect_linear()
        found = self.intercept_of(self.mixing)
        return found if self.trailing else float(found)

    # --- the state as a whole -----------------------------------------------------------------

    def grow(self, features: int) -> None:
        self.make_place(features, 0)

    def make_place(self, features: int, longest: int) -> bool:
        replaced = [runner.make_place(features, longest) for runner in self.runners]
        if any(replaced):
            self.at_hand = NOTHING_AT_HAND
        return any(replaced)

    def add_scores(self, places: Any, scores: int) -> None:
        for member in self.beside.values():  # lanes have one score
            member.add_scores(places, scores)

    def select(self, kept: Any) -> None:
        self.at_hand = NOTHING_AT_HAND
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
            if member.rows != members[0].rows:  # rounds may differ where they were means
                raise ValueError(f"member {k} has learned from {member.rows} rows, member 0 from {members[0].rows}")
        if not 0.0 <= mixed["ticks"][0] <= members[0].rows:
            raise ValueError(f"the stack has made {mixed['ticks'][0]} rounds, its members {members[0].rows}")
        if self.centring is not None:
            self.centring = centring_from(arrays, members[0].state.w.shape[0])
        self.members, self.mixed = members, type(self.mixed)(**mixed)
        if self.observer is not None and "mark" in arrays:
            self.observer.rewind(arrays["mark"])

    def copy(self, records: Any = None) -> EnsembleEngine:
        """An engine of its own with the same state; records of lanes go there, if that is given."""
        new = copy.copy(self)
        new.spare, new.passed, new.each = None, None, map
        new.group = None if self.group is None else self.group.copy(records)
        new.beside = {k: member.copy() for k, member in self.beside.items()}
        new.mixed = type(self.mixed)(*(array.copy() for array in self.mixed))
        new.centring = None if self.centring is None else own_centring(self.centring)
        new.observer = None
        return new

    def placed(self, places: Any, features: int, score_places: Any = None, scores: int | None = None) -> EnsembleEngine:
        new = self.copy()
        if new.group is not None and self.all_in_lanes:  # which have one score
            new.group.place(places, features)
        else:
            new.members = [member.placed(places, features, score_places, scores) for member in self.members]
        if new.centring is not None:
            new.centring = new.centring.placed(places)
        return new


def stack_width(ensemble: Ensemble, compiled: bool) -> int:
    """How many lanes a stack has for the scores of its members, as many as lanes of members have; 0 for none."""
    members, loss = len(ensemble.updates), ensemble.loss
    stack: Any = ensemble.stack
    few = stack.kind == "newton" and members <= WIDTHS[-1] and np.size(stack.forgets) <= MOST_STACKS
    if not (few and isinstance(loss, Loss) and loss.lanes and lanes_there(compiled)):
        return 0
    return next((width for width in WIDTHS if width > members), WIDTHS[-1])


def make_engine(
    update: Update | Ensemble,
    plans: Sequence[Plan],
    features: int,
    intercept: bool,
    average: bool,
    dtype: Any,
    compiled: bool = True,
    scores: int | None = None,
) -> Engine:
    """The engine of an update or an ensemble, of which these are the plans: see `Engine`."""
    if isinstance(update, Ensemble):
        engine: Engine = EnsembleEngine(update, plans, features, intercept, dtype, compiled, scores)
    else:
        (plan,) = plans
        engine = Engine(plan, features, plan.first_entry(features), intercept, average, dtype, compiled, scores)
    if intercept and update.centres():
        engine.centring = NO_ROWS
    return engine
