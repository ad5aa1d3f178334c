"""`EnsembleEngine`: the engine of an ensemble, with an engine per member and a stack of their scores."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from fiol.algorithms.ensemble import Ensemble
from fiol.algorithms.plan import Plan, intercept_plan, make_plan
from fiol.algorithms.update import Update
from fiol.components.combiners import Bayes, BestMember, NewtonStack, Stack
from fiol.components.row import Floats
from fiol.components.step_sizes import Constant
from fiol.engine.centering import (
    AS_THEY_ARE,
    NO_ROWS,
    Centering,
    centering_from,
    first_centering,
    less,
    own_centering,
)
from fiol.engine.engine import IN_ORDER, Engine
from fiol.engine.ensemble.bayes_engine import BayesEngine
from fiol.engine.ensemble.best_member_engine import BestMemberEngine
from fiol.engine.ensemble.lane_group import LaneGroup, chosen_lanes, fits_lanes
from fiol.engine.ensemble.members import Members
from fiol.engine.ensemble.newton_stack_engine import NewtonStackEngine
from fiol.engine.ensemble.pieces import Piece
from fiol.engine.ensemble.restacking import restacked
from fiol.engine.ensemble.stack_engine import StackEngine
from fiol.engine.ensemble.stack_state import FROZEN
from fiol.engine.float32_guard import limits
from fiol.engine.interrupts import paced, piece_of
from fiol.engine.single_row.fast_path import NO_FAST_PATH, means_of_events
from fiol.engine.update_engine import UpdateEngine
from fiol.features.chunk import Chunk


class Member(NamedTuple):
    """The weight and losses of a member of an ensemble."""

    update: Update
    weight: float  #: the weight of its score now
    loss: float  #: its mean loss, that of every row before it was learned from
    overflowed: bool  #: whether its scores left the range of double precision: then it is not used any more
    nonzero: int  #: how many of its features have a weight that is not exactly 0 (and pass the gate, if there is one)
    in_lanes: bool  #: whether it shares SIMD lanes with others; if not, the time of its rounds is added


class EnsembleStorage(NamedTuple):
    """Everything of an `EnsembleEngine` that learning changes."""

    members: Members
    stack: StackEngine
    centering: Centering | None

    def copied(self, records: Any = None) -> EnsembleStorage:
        """Return a copy; records of lanes are in `records`, if that is given."""
        centering = None if self.centering is None else own_centering(self.centering)
        return EnsembleStorage(self.members.copy(records), self.stack.copy(), centering)


#: The largest value of a single row that the fast path takes.
LARGEST_EVENT = 1e50
#: The cost of a round of the stack, in entries of rows.
STACK_COST = 16.0


class EnsembleEngine(Engine):
    """An engine whose scores and weights are those of the linear model that a stack makes of its members.

    If the combination is not linear (`Ensemble.is_linear`), there are scores, and no weights.

    All members learn from a piece of rows, each as if it were alone; then the stack learns from their scores of the
    piece. A gate learns first, and the others see the entries that pass it. The ensemble's clock is that of the stack.
    After an interrupt the piece is finished before KeyboardInterrupt is raised, so that all members have learned from
    the same rows.

    Members are independent of each other, so they may learn in threads (`each`), with the same bits.
    """

    storage: EnsembleStorage
    #: The `map` that calls a function for every learner, perhaps in threads.
    each: Callable[..., Any] = staticmethod(map)
    #: Buffers for the entries that pass a gate.
    passed_rows: Chunk | None = None

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
        #: The plan of the linear model; members make rounds by their own plans.
        plan = make_plan(Update(ensemble.loss, step_size=Constant(1.0)))
        super().__init__(plan, intercept_plan(plan), compiled)
        self.ensemble, self.has_intercept = ensemble, intercept
        #: The place of the gate among the members, the last; -1 without one.
        self.gate = -1 if ensemble.gate is None else len(plans) - 1
        engines = {
            k: UpdateEngine(plan, features, plan.first_entry(features), intercept, False, dtype, compiled, scores)
            for k, plan in enumerate(plans)
        }
        self.dtype, self.longest = np.dtype(dtype), max(engine.longest for engine in engines.values())
        low, high, heaviest = limits(self.dtype, self.longest)
        # Larger values go to `learn`, which warns if a member overflows.
        self.limits = max(low, 1.0 / LARGEST_EVENT), min(high, LARGEST_EVENT), heaviest
        # By the update, not by what this machine has.
        self.apart = 0 if sum(map(fits_lanes, plans)) > 1 else len(plans) - (self.gate >= 0)
        lane_places = chosen_lanes([plan for k, plan in enumerate(plans) if k != self.gate], compiled)
        all_zero = not any(plan.first_entry(features) for plan in plans)
        members = Members(engines, lane_places, self.gate, new=all_zero)
        self.storage = EnsembleStorage(
            members, make_stack(ensemble.stack, plan.problem.loss, len(plans), compiled), None
        )

    # --- members and stack --------------------------------------------------------------------

    @property
    def members_in_use(self) -> Members:
        """The members; `members` has copies of those that are lanes."""
        return self.storage.members

    @property
    def stack(self) -> StackEngine:
        """The stack of the members' scores."""
        return self.storage.stack

    @property
    def members(self) -> list[UpdateEngine]:
        """An engine per member; those of lanes are copies. Assigning engines replaces all members."""
        return self.members_in_use.engines()

    @members.setter
    def members(self, engines: Sequence[UpdateEngine]) -> None:
        self.replace(members=self.members_in_use.with_engines(engines))

    @property
    def group(self) -> LaneGroup | None:
        """The members that are lanes; None if there are none."""
        return self.members_in_use.group

    @property
    def trailing(self) -> tuple[int, ...]:
        return self.members_in_use.templates[0].trailing

    @property
    def ticks(self) -> Any:
        return self.storage.stack.ticks

    @property
    def rows(self) -> int:
        return self.members_in_use.rows

    @property
    def nbytes(self) -> int:
        return self.members_in_use.nbytes + self.stack.nbytes

    @property
    def all_in_lanes(self) -> bool:
        """Whether all members are lanes, and the stack uses lanes: then one kernel makes all rounds."""
        members = self.members_in_use
        return members.group is not None and self.stack.width > 0 and not members.separate

    @property
    def lanes_behind_gate(self) -> bool:
        """Whether all members but the gate are lanes, and the stack has a lane for the gate behind theirs."""
        members, width = self.members_in_use, self.stack.width
        behind = members.group is not None and width == members.group.width and [*members.separate] == [self.gate]
        return behind and members.in_lanes == [*range(self.gate)]

    # --- learning -----------------------------------------------------------------------------

    def learn_plainly(
        self, chunk: Chunk, y: Floats, sample_weights: Floats, order: Any = IN_ORDER, kept_scores: Any = None
    ) -> Floats:
        """Learn from rows that fit the arrays; without an `order`, write scores into `kept_scores`, see `Piece`."""
        scores, live = np.zeros((chunk.rows, *self.trailing)), self.stack.live.copy()
        for start, stop in paced(chunk, order, self.row_cost):
            if len(order):
                chosen = order[start:stop]
                scores[chosen] = self.learn_piece(chunk.take(chosen), y[chosen], sample_weights[chosen])
            else:
                rows = slice(start, stop)
                piece = piece_of(chunk, start, stop), y[rows], sample_weights[rows]
                scores[rows] = self.learn_piece(*piece, None if kept_scores is None else kept_scores[rows])
        for k in np.flatnonzero(live > self.stack.live):
            text = f"member {k} overflows and is left out from now on: {self.ensemble.updates[k].brief()}"
            warnings.warn(text, RuntimeWarning, stacklevel=6)
        return scores

    def learn_piece(self, chunk: Chunk, y: Floats, sample_weights: Floats, kept_scores: Any = None) -> Floats:
        """Make a round per row of every member and of the stack; an interrupt is raised after the last round."""
        if self.all_in_lanes and kept_scores is None:
            scores = np.zeros(chunk.rows)
            rows = chunk, y, sample_weights, None
            self.stack.learn_with_lanes(self.call, self.group, *rows, scores)  # type: ignore[attr-defined]
            return scores
        return Piece(self, chunk, self.buffers_to_pass(chunk), y, sample_weights, kept_scores).learn()

    def buffers_to_pass(self, chunk: Chunk) -> Chunk:
        """Return buffers for the entries that pass the gate, at most all and one more; without a gate the rows."""
        if self.gate < 0:
            return chunk
        entries, buffers = int(chunk.indptr[-1] - chunk.indptr[0]) + 1, self.passed_rows
        if buffers is None or buffers.indptr.shape[0] <= chunk.rows or buffers.data.shape[0] < entries:
            buffers = Chunk(np.zeros(chunk.rows + 1, np.int64), np.zeros(entries, np.int32), np.zeros(entries))
            self.passed_rows = buffers  # memory that is new to the process costs as much as a round
        return Chunk(buffers.indptr[: chunk.rows + 1], buffers.indices[:entries], buffers.data[:entries])

    @contextlib.contextmanager
    def freeze_stack(self) -> Iterator[None]:
        was = self.ticks[FROZEN]
        self.ticks[FROZEN] = 1.0
        try:
            yield
        finally:
            self.ticks[FROZEN] = was

    def restack(self, chunk: Chunk, y: Floats, sample_weights: Floats) -> Floats:
        if not self.stack.moves:
            return self.scores(chunk)
        Z, y = self.scores_of_members(self.centered(chunk)), less(y, self.origin)
        now, stack = restacked(self, self.stack, Z, Z @ self.mixing, y, sample_weights)
        if stack is not self.stack:
            self.replace(stack=stack)
        return now + self.origin

    def count_first_loss(self, y: Floats, sample_weights: Floats) -> None:
        self.stack.add_first_loss(y, sample_weights)

    @property
    def row_cost(self) -> float:
        return STACK_COST + sum(learner.row_cost for learner in self.members_in_use.learners)

    @property
    def learns_single_rows(self) -> bool:
        return super().learns_single_rows and self.all_in_lanes

    def event_kernels(self) -> tuple[Any, Any, Any] | None:
        if not self.all_in_lanes:
            return None
        from fiol.engine.single_row.events import LaneValues, Means, learn_lane_event, score_lane_event

        group: Any = self.group
        stack: Any = self.stack
        learning = *stack.lane_parts, group.digits, stack.members, group.memory, stack.own_state, stack.buffers
        values = *learning, self.limits, Means._make(means_of_events(self))
        return score_lane_event, learn_lane_event, LaneValues._make(values)

    def start_from(self, w: Floats, intercept: Any) -> None:
        self.settle_origin()
        members = self.members
        for member in members:
            member.start_from(w, intercept - self.origin)
        self.members = members

    @property
    def moves(self) -> bool:
        return self.stack.moves and all(member.starts_anywhere() for member in self.ensemble.members)

    def move_to(self, w: Floats, intercept: Any) -> None:
        """Move members with the least sum of squared changes: member k by v_k / |v|^2 of the change.

        A gate does not move, and features that do not pass it have no weight afterwards either.
        """
        now = self.mixing
        v = now.copy()
        if self.gate >= 0:
            v[self.gate] = 0.0
        size = float(v @ v)
        if size == 0.0:  # no member to move
            return
        indices = np.arange(w.shape[0], dtype=np.int32)
        change = (w - self.weights_of(indices, now)) / size
        change[~self.members_in_use.passing(indices)] = 0.0
        shift = intercept - self.origin - self.intercept_of(now)
        if self.centering is not None and self.centering.features.shape[0]:  # to the intercept of centered rows
            features = self.centering.features
            shift = shift + self.centering.means @ w[features]
        self.fast_path = NO_FAST_PATH
        self.grow(w.shape[0])
        self.members_in_use.move(v, change, shift / size)

    def shifted_storage(self, shift: float) -> EnsembleStorage:
        return self.storage._replace(members=self.members_in_use.shifted(shift))

    def raise_peaks(self, largest: Floats) -> None:
        for learner in self.members_in_use.learners:
            learner.raise_peaks(largest)

    def expect_values(self, features: slice, size: float) -> None:
        """Let the largest values of features be at least `size`, whether they were seen or not.

        The largest value of a feature is its unit: one that was only seen near 0 would have large weights otherwise.
        """
        self.grow(features.stop)
        for learner in self.members_in_use.learners:
            learner.expect_values(features, size)

    def centered_storage(self, centering: Centering) -> EnsembleStorage:
        return self.storage._replace(members=self.members_in_use.centered(centering))

    def settle(self) -> None:
        self.members_in_use.settle()

    # --- reading ------------------------------------------------------------------------------

    @property
    def mixing(self) -> Floats:
        return self.stack.member_weights()

    def report(self, features: int) -> list[Member]:
        """Return the weight and losses of every member, the gate last, with nonzeros among the first features."""
        losses, live = self.mean_losses()[1:].tolist(), (self.stack.live > 0.0).tolist()
        nonzeros = [int(np.count_nonzero(there)) for there in self.members_in_use.with_weight(features)]
        parts = zip(self.ensemble.updates, self.mixing.tolist(), losses, live, nonzeros, strict=True)
        in_lanes = self.members_in_use.in_lanes
        return [
            Member(update, v, loss, not alive, nonzero, k in in_lanes)
            for k, (update, v, loss, alive, nonzero) in enumerate(parts)
        ]

    def alone(self, k: int) -> UpdateEngine:
        separate = self.members_in_use.separate
        engine = separate[k].copy() if k in separate else self.members[k]
        if self.has_intercept and self.ensemble.updates[k].centers_features():  # whether or not the others do
            engine.replace(centering=own_centering(AS_THEY_ARE if self.centering is None else self.centering))
            engine.settle_origin()  # a learner alone has none of its own
        return engine

    @property
    def progressive_loss(self) -> float:
        return float(self.mean_losses()[0])

    def mean_losses(self) -> Floats:
        """Return the mean loss of the ensemble, and of every member."""
        return self.stack.mean_losses()

    def weighed(self, features: int) -> Any:
        there = zip(self.stack.live, self.members_in_use.with_weight(features), strict=True)
        return np.any([its for live, its in there if live > 0.0] or [np.zeros(features, bool)], axis=0)

    def weights_of(self, features: Any, v: Floats) -> Floats:
        """Return the weights of these features in the linear model with weights v of members."""
        out = np.zeros((len(features), *self.trailing))
        self.members_in_use.add_weights(features, v, out)
        return out

    def intercept_of(self, v: Floats) -> Any:
        """Return the intercept of every score in the linear model with weights v of members."""
        out = np.zeros((1, *self.trailing))
        self.members_in_use.add_intercepts(v, out)
        return out[0]

    def stiffness(self, features: int) -> Floats:
        return self.members_in_use.knowing_stiffness().stiffness(features)

    def intercept_stiffness(self) -> float:
        return self.members_in_use.knowing_stiffness().intercept_stiffness()

    @property
    def knows_scales(self) -> bool:
        return self.members_in_use.knows_scales

    def scales(self, features: int) -> Floats:
        return self.members_in_use.scales(features)

    def scores(self, chunk: Chunk) -> Floats:
        return self.scores_less_origin(chunk) + self.origin

    def scores_less_origin(self, chunk: Chunk) -> Floats:
        """Return the scores of rows without the origin of targets."""
        chunk = self.centered(chunk)
        if self.ensemble.is_linear():
            return self.linear_scores(chunk, self.mixing)
        return self.stack.scores(self.call, self.scores_of_members(chunk))

    def scores_of_members(self, chunk: Chunk) -> Floats:
        """Return the scores of centered rows by every live member, [row, ..., member], less the origin; else 0."""
        each = np.eye(self.stack.members)
        Z = np.zeros((chunk.rows, *self.trailing, len(each)))
        members = self.members_in_use
        if members.group is not None:
            Z[:, members.in_lanes] = members.group.scores(members.passing_rows(chunk))
        for k in members.separate:
            Z[..., k] = self.linear_scores(chunk, each[k])
        Z[..., self.stack.live == 0.0] = 0.0
        return Z

    def variances(self, chunk: Chunk) -> Floats:
        """Return the variances of scores: of the best member that has any, plus those of the stack's weights.

        With several scores per row the latter is their mean. Infinite if no live member has variances.
        """
        losses, live, members = self.mean_losses()[1:], self.stack.live, self.members_in_use
        knowing = [k for k, member in enumerate(self.ensemble.members) if live[k] > 0.0 and member.has_variance()]
        if not knowing:
            return np.full(chunk.rows, np.inf)
        chunk = self.centered(chunk)
        seen = members.passing_rows(chunk)
        best = min(knowing, key=lambda k: losses[k])
        if best in members.separate:
            own = members.separate[best].variances(seen)
        else:
            features, places = np.unique(seen.indices, return_inverse=True)
            group: Any = copy.copy(self.group)
            group.select(features[features < group.features])  # the others come last, and are as if never seen
            member = group.unpacked_member(members.in_lanes.index(best))
            own = member.variances(seen._replace(indices=places.astype(np.int32)))
        left = self.stack.variances(self.scores_of_members(chunk))
        return own + left.reshape(chunk.rows, -1).mean(axis=1)  # type: ignore[no-any-return]

    def linear_scores(self, chunk: Chunk, v: Floats) -> Floats:
        """Return the scores of centered rows by the linear model with weights v of members, less the origin."""
        from fiol.engine.round.reading import add_weighted_rows, add_weighted_rows_of_many  # loads the compiler

        scores = np.empty((chunk.rows, *self.trailing))
        scores[...] = self.intercept_of(v)
        kernel = add_weighted_rows_of_many if self.trailing else add_weighted_rows
        for start, stop in paced(chunk, IN_ORDER, float(len(v))):
            begin, end = int(chunk.indptr[start]), int(chunk.indptr[stop])
            weights = self.weights_of(chunk.indices[begin:end], v)
            self.call(
                kernel, chunk.indptr[start : stop + 1] - begin, chunk.data[begin:end], weights, scores[start:stop]
            )
        return scores

    def weights(self, features: int, averaged: bool) -> Floats:
        self.expect_linear()
        return self.weights_of(np.arange(features, dtype=np.int32), self.mixing)

    def expect_linear(self) -> None:
        """Raise TypeError unless there are weights."""
        if not self.ensemble.is_linear():
            raise TypeError(
                f"{self.ensemble.stack!r} takes the mean of probabilities, which is no linear model, so there are no "
                "weights: use NewtonStack(), or member(k) for one of the members"
            )

    def working_intercept(self, averaged: bool) -> Any:
        self.expect_linear()
        found = self.intercept_of(self.mixing)
        return found if self.trailing else float(found)

    # --- the state as a whole -----------------------------------------------------------------

    def storage_in_use(self) -> Any:
        return self.storage, self.members_in_use.storage_in_use()

    def put_back(self, storage: Any) -> None:
        own, of_members = storage
        own.members.put_back(of_members)
        self.set_storage(own)

    def undo_growth(self, storage: Any) -> None:
        self.fast_path = NO_FAST_PATH
        self.members_in_use.undo_growth(storage[1])

    def fit_in(self, chunk: Chunk) -> None:
        super().fit_in(chunk)
        if self.group is not None:
            self.group.use_huge_pages(chunk.indices)

    def make_place(self, features: int, longest: int) -> bool:
        replaced = self.members_in_use.make_place(features, longest)
        if replaced:
            self.fast_path = NO_FAST_PATH
        return replaced

    def add_scores(self, places: Any, scores: int) -> None:
        self.members_in_use.add_scores(places, scores)

    def select(self, kept: Any) -> None:
        self.indicators = None
        self.replace(centering=None if self.centering is None else self.centering.selected(kept))
        self.members_in_use.select(kept)

    def arrays(self) -> dict[str, Any]:
        members = zip(self.members_in_use.places, self.members, strict=True)
        own = {f"{k}/{name}": a for k, member in members for name, a in member.arrays().items()}
        return {**own, **self.stack.arrays(), **self.centering_arrays()}

    @property
    def needed_arrays(self) -> tuple[str, ...]:
        templates = self.members_in_use.templates
        return tuple(f"{k}/{name}" for k, engine in enumerate(templates) for name in engine.needed_arrays)

    def restore(self, arrays: dict[str, Any]) -> None:
        stack, places = self.stack.restored(arrays), self.members_in_use.places
        members = [engine.copy() for engine in self.members]
        for k, member in zip(places, members, strict=True):
            start = f"{k}/"
            member.restore({name.removeprefix(start): a for name, a in arrays.items() if name.startswith(start)})
            if member.rows != members[0].rows:  # rounds may differ where they were means
                raise ValueError(f"member {k} has learned from {member.rows} rows, member 0 from {members[0].rows}")
        if not 0.0 <= stack.ticks[0] <= members[0].rows:
            raise ValueError(f"the stack has made {stack.ticks[0]} rounds, its members {members[0].rows}")
        centering = (
            None
            if self.centering is None
            else centering_from(arrays, members[0].state.w.shape[0], first_centering(self.plan.problem.loss))
        )
        self.set_storage(EnsembleStorage(self.members_in_use.with_engines(members), stack, centering))
        self.rewind_observer(arrays)

    def mark(self) -> Any:
        return self.storage.copied(), None if self.observer is None else self.observer.mark()

    def rewind(self, mark: Any) -> None:
        storage, of_observer = mark
        self.set_storage(storage.copied())
        if self.observer is not None:
            self.observer.rewind(of_observer)

    def copy(self, records: Any = None) -> EnsembleEngine:
        """Return an engine with its own copy of the state; records of lanes are in `records`, if that is given."""
        new = copy.copy(self)
        new.centered_rows, new.passed_rows, new.each, new.observer = None, None, map, None
        new.set_storage(self.storage.copied(records))
        return new

    def placed(self, places: Any, features: int, score_places: Any = None, scores: int | None = None) -> EnsembleEngine:
        new = self.copy()
        new.indicators = None
        centering = None if new.centering is None else new.centering.placed(places)
        members = self.members_in_use.placed(places, features, score_places, scores)
        new.replace(members=members, centering=centering)
        return new


#: The engine of each kind of stack.
STACK_ENGINES: dict[type[Stack], type[StackEngine]] = {
    NewtonStack: NewtonStackEngine,
    Bayes: BayesEngine,
    BestMember: BestMemberEngine,
}


def make_stack(stack: Stack, loss: Any, members: int, compiled: bool) -> StackEngine:
    """Return the engine of a stack; a subclass has that of its base."""
    for kind in type(stack).__mro__:
        if kind in STACK_ENGINES:
            return STACK_ENGINES[kind](stack, loss, members, compiled)
    raise TypeError(f"a stack must be a NewtonStack, a Bayes or a BestMember, got {stack!r}")


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
    """Return the engine of an update or an ensemble, of which these are the plans."""
    if isinstance(update, Ensemble):
        engine: Engine = EnsembleEngine(update, plans, features, intercept, dtype, compiled, scores)
    else:
        (plan,) = plans
        first = plan.first_entry(features)
        engine = UpdateEngine(plan, features, first, intercept, average, dtype, compiled, scores)
    if intercept and update.centers_features():
        engine.replace(centering=first_centering(update.loss) if isinstance(update, Ensemble) else NO_ROWS)
    return engine
