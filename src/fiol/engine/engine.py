"""The engine: a plan and the state it works on. Rows come in canonical, see `fiol.intake.chunk`."""

from __future__ import annotations

import copy
from contextlib import AbstractContextManager, nullcontext
from math import nan
from typing import Any, Protocol

import numpy as np

from fiol.components.row import Floats, Indices
from fiol.engine.at_hand import NOTHING_AT_HAND, AtHand, second_look
from fiol.engine.centring import WINDOW, Centring, centring_from
from fiol.engine.holding import SMALLEST_SINGLE, held, limits, longest_step
from fiol.engine.pacing import paced, piece_of
from fiol.intake.chunk import SMALLEST, Chunk
from fiol.intake.transaction import Transaction
from fiol.update.plan import Plan, intercept_plan
from fiol.update.state import (
    START,
    Clock,
    State,
    Uncounted,
    aligned,
    arrays_by_name,
    assembled,
    grown,
    make_desk,
    placed,
    realigned,
    spread,
)

#: What `Engine.at_hand` has a share in, or depends on.
AT_HAND = frozenset(("plan", "intercept_plan", "state", "intercept", "fresh", "ticks", "desk", "intercept_desk"))
AT_HAND |= {"observer", "centring", "group", "beside", "known_to_stack"}
#: Of centred rows, so many entries are learned from at a time.
CENTRED_AT_ONCE = 2**18
#: All rows as they come.
IN_ORDER = np.empty(0, np.int64)


class Observer(Protocol):
    """Looks at an engine between rounds (`fiol.regret.Ledger` is one): `Engine.observer`, None without one.

    An observed engine makes room for a chunk and leaves its rounds to `observe`, which makes them one by one
    (`learn_plainly`) or by a kernel that contains the engine's own round.
    """

    def observe(self, chunk: Chunk, y: Floats, sample_weights: Floats) -> Floats:
        """A round per row, in order; the score of each before its round.

        Whatever is raised, what was observed goes with the rounds that the engine's clock counts.
        """

    @property
    def row_cost(self) -> float:
        """The cost of observing a round besides the entries of its row, see `Engine.row_cost`."""

    def mark(self) -> Any:
        """A token for `rewind`."""

    def rewind(self, mark: Any) -> None:
        """Forget the rounds since `mark`: the engine has taken them back."""

    def centre(self, centring: Centring) -> None:
        """Take rows from now on as centred by these means."""


class Engine:
    """Learns from canonical chunks, keeps the state, and reads weights from it without changing it.

    `features` weights are there at first; `grow` makes room for more. Rows have one score, or with a joint loss as
    many as `scores` says: then all scores, weights and intercepts have them as their last axis.
    """

    #: The means that are taken from rows, if any ever are: then learning and scoring see the differences.
    centring: Centring | None = None
    #: Where rows are that such means were taken from.
    spare: Chunk | None = None
    #: How many members of an ensemble do not go in lanes of one vector, and might as well go side by side; else 0.
    apart: int = 0

    def __init__(
        self,
        plan: Plan,
        features: int,
        first: float,
        intercept: bool,
        average: bool,
        dtype: Any,
        compiled: bool = True,
        scores: int | None = None,
    ) -> None:
        self.plan, self.intercept_plan = plan, intercept_plan(plan)
        self.compiled, self.longest, self.dtype = compiled, longest_step(plan), np.dtype(dtype)
        self.limits = limits(self.dtype, self.longest)
        self.trailing: tuple[int, ...] = () if scores is None else (scores,)
        self.fresh = plan.new_state((1, *self.trailing), first, dtype, average)  # a feature that was never seen
        self.state = plan.new_state((features, *self.trailing), first, dtype, average)
        self.intercept = self.intercept_plan.new_state((int(intercept), *self.trailing), 0.0, dtype, average)
        for record in self.intercept.statistics:
            plan.step_size.meet(record, 1.0)  # its values are all 1
        self.ticks = np.array(START._replace(eta=plan.step_size.eta(1.0)))
        self.uncounted = np.array(Uncounted(0.0, 0.0))
        self.desk, self.intercept_desk = self.make_desk(16), self.make_desk(1)
        self.bound: dict[Any, Any] = {}  # kernels, by name or themselves, compiled for this engine's types
        self.observer: Observer | None = None  # makes the rounds, if there is one

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        if name in AT_HAND:
            self.at_hand: AtHand = NOTHING_AT_HAND  # what is at hand for single events

    # Learning.

    def learn(self, chunk: Chunk, y: Floats, sample_weights: Floats, order: Any = IN_ORDER) -> Floats:
        """A round per row, or for the rows that `order` names; the score of each before its round, 0 for the others."""
        state, rounds = self.state, self.rounds
        try:
            with self.kernels_expected(), held(self, chunk, y, sample_weights), Transaction(*self.revocable):
                if self.centring is None or self.centring.idle:
                    return self.learn_in_parts(chunk, y, sample_weights, order)
                return self.learn_centred(chunk, y, sample_weights, order)
        except BaseException:
            if self.compiled and self.rounds == rounds:
                self.state = state  # without the room that was made
            raise

    def learn_centred(self, chunk: Chunk, y: Floats, sample_weights: Floats, order: Any) -> Floats:
        """`learn_in_parts` with means taken from the rows, which go on with the rounds that are made."""
        rows, start, scores = len(order) or chunk.rows, 0, np.zeros((chunk.rows, *self.trailing))
        per_row = chunk.data.shape[0] / max(chunk.rows, 1) + 1.0
        while start < rows:
            known: Any = self.centring
            most = WINDOW - int(known.rows) if known.watches else max(int(CENTRED_AT_ONCE / per_row), 1)
            if self.observer is not None and known.features.shape[0]:
                self.observer.centre(known)
                most = 1  # what is compared with has to be moved along
            some: Any = slice(start, min(start + most, rows))
            start = some.stop
            some = order[some] if len(order) else some
            block = chunk.take(some) if len(order) else chunk.row_block(some.start, some.stop)
            before, old = self.rounds, known
            centred, known = self.take_means(block, old)
            try:
                scores[some] = self.learn_in_parts(centred, y[some], sample_weights[some], IN_ORDER)
                self.go_on_with(known)
            except BaseException:
                if self.rounds > before and self.centring is old:  # interrupted: means follow the rounds that were made
                    made = block.row_block(0, self.rounds - before)
                    self.go_on_with(known if made.rows == block.rows else self.take_means(made, old)[1])
                raise
        return scores

    def go_on_with(self, means: Centring) -> None:
        """Take these means from rows from now on, and decide which features have any, if it is time: all at once."""
        if means.watches or not means.window.shape[0]:
            self.centring = means
            return
        new, distances = means.decided()
        moved = self.moved_to_means(new.features, new.means, distances) if new.features.shape[0] else {}
        vars(self).update({**moved, "centring": new, "at_hand": NOTHING_AT_HAND})  # no signal is heard inside

    def take_means(self, chunk: Chunk, centring: Any, learning: bool = True) -> tuple[Chunk, Centring]:
        """The rows with their means taken away, and the means after them.

        Of rows that are learned from, they are there until the next are.
        """
        if centring.watches:
            return chunk, centring.watched(chunk) if learning else centring
        if centring.idle:
            return chunk, centring
        room, sums = chunk.data.shape[0] + chunk.rows * centring.features.shape[0] + 1, centring.sums.copy()
        new = self.spare if learning else None
        if new is None or new.data.shape[0] < room or new.indptr.shape[0] <= chunk.rows:
            new = Chunk(aligned(chunk.rows + 1, np.int64), aligned(room, np.int32), aligned(room, np.float64))
            self.spare = new if learning else self.spare
        least = SMALLEST if self.dtype.itemsize == 8 else SMALLEST_SINGLE
        arguments = centring.features, sums, centring.rows, learning, least, *new
        n = self.call("centre_rows", tuple(chunk), *arguments)
        count = centring.so_far + chunk.rows * learning
        found = Chunk(new.indptr[: chunk.rows + 1], new.indices[:n], new.data[:n])
        return found, centring._replace(so_far=count, sums=sums)

    def centred(self, chunk: Chunk) -> Chunk:
        """Rows to be read, with the means taken away."""
        if self.centring is None or not self.centring.features.shape[0]:
            return chunk
        return self.take_means(chunk, self.centring, learning=False)[0]

    def expect_random_order(self) -> None:
        """All rows come in random order, and their means do not move: more features are centred than of a stream."""
        if self.centring is not None:
            self.centring = self.centring.in_random_order()

    def end_window(self) -> None:
        """Decide which features are centred from now on, if it is time, and bring what is known of them in form."""
        if self.centring is not None:
            self.go_on_with(self.centring)

    def moved_to_means(self, features: Indices, means: Floats, distances: Floats) -> dict[str, Any]:
        """What changes if values of `features` count as their distances from `means`: the largest so far are known.

        The intercept takes over what weights said about the means; weights that follow from sums are forgotten.
        """
        self.settle()
        state, intercept = State(*map(realigned, self.state)), State(*map(realigned, self.intercept))
        if self.plan.anchor.keeps_all_rounds:
            state.w[features] = self.fresh.w[0]
        else:
            intercept.w[0] += means @ state.w[features].astype(np.float64)
            if state.total.shape[0]:
                intercept.total[0] += means @ state.total[features]
        for i, distance in zip(features.tolist(), distances.tolist(), strict=True):
            self.plan.step_size.centre(state.statistics[i], distance)
        return {"state": state, "intercept": intercept}

    def shift(self, change: Any, of_average: Any) -> None:
        """Add something to the intercept of every score, and to its average, unless that follows from sums."""
        if not self.plan.anchor.keeps_all_rounds:
            self.intercept.w[0] += change
            if self.intercept.total.shape[0]:
                self.intercept.total[0] += of_average * self.ticks[0]

    def learn_in_parts(self, chunk: Chunk, y: Floats, sample_weights: Floats, order: Any) -> Floats:
        """`learn`, by the observer if there is one; an error leaves the rounds before it made."""
        self.fit_in(chunk)
        if self.observer is None:
            return self.learn_plainly(chunk, y, sample_weights, order)
        scores = np.zeros((chunk.rows, *self.trailing))
        if len(order):
            scores[order] = self.learn_in_parts(chunk.take(order), y[order], sample_weights[order], IN_ORDER)
            return scores
        for start, stop in paced(chunk, IN_ORDER, self.observer.row_cost):
            block = chunk.row_block(start, stop)
            scores[start:stop] = self.observer.observe(block, y[start:stop], sample_weights[start:stop])
        return scores

    def learn_plainly(self, chunk: Chunk, y: Floats, sample_weights: Floats, order: Any = IN_ORDER) -> Floats:
        """`learn` for rows that fit in, unobserved; an interrupt leaves the rounds that the clock counts."""
        scores = np.zeros((chunk.rows, *self.trailing))
        if chunk.rows == 1 and not len(order):  # no time to lose
            self.call("learn_rows", *self.plans, chunk, order, y, sample_weights, *self.memory, scores)
            return scores
        for start, stop in paced(chunk, order, self.row_cost):
            some = slice(0, chunk.rows) if len(order) else slice(start, stop)
            piece = piece_of(chunk, some.start, some.stop), order[start:stop], y[some], sample_weights[some]
            self.call("learn_rows", *self.plans, *piece, *self.memory, scores[some])
        return scores

    def rows_again(self) -> AbstractContextManager[None]:
        """`with engine.rows_again():` rows come that were learned from before.

        They flatter those members of an ensemble that remember rows best, so its stack learns nothing from them.
        """
        return nullcontext()

    @property
    def row_cost(self) -> float:
        """The cost of a round besides the entries of its row, in entries: all weights if the round visits them."""
        return float(self.state.w.size) if self.plan.laziness.everywhere else 1.0

    def have_at_hand(
        self, entries: int, intakes: tuple[Any, ...], learning: bool, grows: bool = True, turns: Any = None
    ) -> AtHand:
        """Functions for one event: a row of at most so many entries, whose names the first of `intakes` numbers.

        All `intakes` are told how many features there are when a new name gets a number; none does unless it `grows`.
        Whoever reads without a turn says whose lock `turns` is: that of the model that the first intake belongs to.
        """
        intake, found = intakes[0], self.at_hand
        if found.intake is not intake or found.encoder is not intake.encoder or entries > found.entries:
            found = AtHand(intake, max(2 * entries, self.longest_row))
        watches = self.centring is not None and self.centring.watches
        if self.trailing or not self.compiled or watches or (learning and self.observer is not None):
            return found
        if (found.learn if learning else found.score) is second_look:
            self.have_functions(found, intakes, learning, grows, turns)
        self.at_hand = found
        return found

    def have_functions(
        self, at_hand: AtHand, intakes: tuple[Any, ...], learning: bool, grows: bool, turns: Any
    ) -> None:
        """Have the functions for one event at hand, if Python's objects are as they should be."""
        from fiol.engine.events import functions_for  # imported here: `import fiol` loads no compiler

        functions_for(self, at_hand, intakes, learning, grows, turns)

    @property
    def longest_row(self) -> int:
        """How many entries a row may have that is worked on."""
        return int(self.desk.shape[1])

    def learn_one(self, feature: Indices, x: Floats, y: float, sample_weight: float, features: int) -> float | None:
        """A round for one row, and its score before; None, and no round, if the row needs a second look.

        A row with a feature beyond the first `features` does; for these there must be room.
        """
        if self.observer is not None or self.trailing or not (self.centring is None or self.centring.idle):
            return None
        room = min(features, self.state.w.shape[0]), self.desk.shape[1], *self.limits
        if not self.call("row_in_order", self.plan.problem.loss, feature, x, y, sample_weight, *room):
            return None
        row = Chunk(np.array([0, len(x)]), feature, x)
        with Transaction(*self.revocable):
            return float(self.learn_plainly(row, np.array([y]), np.array([sample_weight]))[0])

    def start_from(self, w: Floats, intercept: Any) -> None:
        """Take over weights, and the intercept of every score."""
        self.grow(w.shape[0])
        self.call("store_weights", self.plan, self.state, self.ticks, w)
        if self.intercept.w.shape[0] > 0:
            shift = np.array([intercept], np.float64)
            self.call("intercept: store_weights", self.intercept_plan, self.intercept, self.ticks, shift)

    @property
    def moves(self) -> bool:
        """Whether `move_to` is there."""
        return False

    def move_to(self, w: Floats, intercept: Any) -> None:
        """Let the one linear model of an ensemble be another one; `intercept` is that of rows as they are."""
        raise NotImplementedError  # an update has no members

    def settle(self) -> None:
        """Bring every stored weight up to date. Changes no result by more than rounding."""
        ticks, fresh = self.ticks.copy(), State(*map(realigned, self.fresh))
        self.call("settle_all", self.plan, fresh, ticks)
        try:
            self.call("settle_all", self.plan, self.state, self.ticks)
        finally:  # both or neither, also if an interrupt comes
            if (self.ticks == ticks).all():
                self.fresh = fresh

    # Reading.

    def scores(self, chunk: Chunk) -> Floats:
        """The scores of rows, by the averages if they are kept."""
        chunk = self.centred(chunk)
        scores = np.empty((chunk.rows, *self.trailing))
        kernel = "score_rows_of_many" if self.trailing else "score_rows"
        known = self.state, self.intercept, self.fresh, self.ticks
        if chunk.rows == 1:  # no time to lose
            self.call(kernel, *self.plans, chunk, *known, scores)
            return scores
        for start, stop in paced(chunk, IN_ORDER):
            self.call(kernel, *self.plans, piece_of(chunk, start, stop), *known, scores[start:stop])
        return scores

    def variances(self, chunk: Chunk) -> Floats:
        """The variances of the scores of rows, times the dispersion of the loss."""
        chunk = self.centred(chunk)
        variances, known = np.empty(chunk.rows), (self.state, self.intercept, self.fresh, self.ticks)
        for start, stop in paced(chunk, IN_ORDER):
            self.call("variance_rows", *self.plans, piece_of(chunk, start, stop), *known, variances[start:stop])
        clock = Clock(*self.ticks)
        return variances * self.plan.problem.loss.dispersion(clock.slopes, max(clock.t, 1.0))

    def weights(self, features: int, averaged: bool) -> Floats:
        """The first `features` weights, or their averages; those that have no place yet are as if never seen."""
        out, have = np.empty((features, *self.trailing)), min(features, self.state.w.shape[0])
        self.call("read_weights", self.plan, self.state, self.ticks, averaged, out[:have])
        if have < features:
            self.call("read_weights", self.plan, self.fresh, self.ticks, averaged, out[have : have + 1])
            out[have:] = out[have]
        return out

    @property
    def stiffness_known_by(self) -> int:
        """Which of `STIFF` the records of features hold, their number if none."""
        kept = self.plan.step_size.statistics()
        return next((k for k, names in enumerate(STIFF) if names[0] in kept), len(STIFF))

    def stiffness(self, features: int) -> Floats:
        """For each of the first features, what a squared change of its weight costs, as far as steps know; else 1."""
        which, kept = self.stiffness_known_by, self.plan.step_size.statistics()
        if which == len(STIFF):
            return np.ones(features)
        out, have = np.zeros(features), min(features, self.state.w.shape[0])
        columns = [kept.index(name) for name in STIFF[which] if name in kept]
        out[:have] = self.state.statistics[:have, columns].astype(np.float64).sum(axis=1)
        return out**2 if STIFF[which] == ("peak",) else out

    @property
    def knows_scales(self) -> bool:
        """Whether records of features hold the size of their values."""
        return "peak" in self.plan.step_size.statistics()

    def scales(self, features: int) -> Floats:
        """For each of the first features, the size of its values as far as steps know, 0 if it has none; else 1."""
        if not self.knows_scales:
            return np.ones(features)
        out, have = np.zeros(features), min(features, self.state.w.shape[0])
        out[:have] = self.state.statistics[:have, self.plan.step_size.statistics().index("peak")]
        return out

    def intercept_weight(self, averaged: bool) -> Any:
        """The intercept of every score, or its average, of rows as they are; 0 without one."""
        return self.uncentred(self.working_intercept(averaged), averaged)

    def uncentred(self, intercept: Any, averaged: bool) -> Any:
        """The intercept of rows as they are, from that of rows with the means taken away."""
        if self.centring is None or not self.centring.features.shape[0]:
            return intercept
        features = self.centring.features
        w = self.weights(int(features[-1]) + 1, averaged)[features]
        shift = self.centring.means @ w
        return intercept - (shift if self.trailing else float(shift))

    def working_intercept(self, averaged: bool) -> Any:
        """`intercept_weight` of rows with the means taken away."""
        out = np.zeros((1, *self.trailing))
        present = out[: self.intercept.w.shape[0]]
        self.call("intercept: read_weights", self.intercept_plan, self.intercept, self.ticks, averaged, present)
        return out[0] if self.trailing else float(out[0])

    def predictions(self, scores: Floats) -> Floats:
        """The predictions that belong to scores, in place."""
        self.call("predict_all", self.plan.problem.loss, scores)
        return scores

    def mean_loss(self, scores: Floats, y: Floats, sample_weights: Floats, order: Any = IN_ORDER) -> float:
        """The weighted mean of the losses of scores, all or those that `order` names; 0 if no row has weight."""
        total, mass = self.call("total_loss", self.plan.problem.loss, scores, order, y, sample_weights)
        return total / mass if mass > 0.0 else 0.0

    def weighed(self, features: int) -> Any:
        """Which of the first features have a weight other than 0 with any member of an ensemble that is in."""
        raise NotImplementedError  # an update has no members

    def report(self, features: int) -> list[Any]:
        """How the members of an ensemble do: see `EnsembleEngine.report`."""
        return []

    def alone(self, k: int) -> Engine:
        """The engine of member k of an ensemble, a copy."""
        raise NotImplementedError  # an update has no members

    @property
    def progressive_loss(self) -> float:
        """The mean loss of an ensemble's scores, each from before its row was learned from, by sample weights."""
        return nan

    @property
    def mixing(self) -> Floats:
        """What the score of each member of an ensemble counts with now."""
        return np.empty(0)

    @property
    def rounds(self) -> int:
        """Rounds made."""
        return int(self.ticks[0])

    @property
    def rows(self) -> int:
        """Rows learned from: more than the rounds where engines were merged."""
        return int(self.ticks[0] + Uncounted(*self.uncounted).rows)

    @property
    def nbytes(self) -> int:
        """Bytes of the state."""
        return sum(array.nbytes for array in (*self.state, *self.intercept, self.ticks, self.uncounted))

    # The state as a whole.

    def grow(self, features: int) -> None:
        """Make room for so many features."""
        have = self.state.w.shape[0]
        if features > have:
            self.state = grown(self.state, max(features, 2 * have), self.fresh)

    def add_scores(self, places: Any, scores: int) -> None:
        """Have more scores, of which places[k] is what was score k; the others are as before the first round.

        Weights that catch up by a common factor stand by it, so they are brought up to date first.
        """
        self.settle()
        first = self.plan.first_entry(self.state.w.shape[0])
        self.trailing = (scores,)
        self.state = spread(self.state, places, scores, first)
        self.fresh = spread(self.fresh, places, scores, first)
        self.intercept = spread(self.intercept, places, scores, 0.0)
        self.desk, self.intercept_desk = self.make_desk(self.desk.shape[1]), self.make_desk(1)

    def fit_in(self, chunk: Chunk) -> None:
        """Make room for the features and the longest row of a chunk."""
        rows, entries = chunk.rows, chunk.data.shape[0]
        if rows and entries:
            longest = entries if rows == 1 else int(np.diff(chunk.indptr).max())
            self.make_place(int(chunk.indices.max()) + 1, longest)

    def make_place(self, features: int, longest: int) -> bool:
        """Make room for so many features, and for rows of so many entries; whether arrays have been replaced."""
        before = self.state, self.desk
        self.grow(features)
        if longest > self.desk.shape[1]:
            self.desk = self.make_desk(2 * longest)
        return before[0] is not self.state or before[1] is not self.desk

    def make_desk(self, entries: int) -> Any:
        """A desk for rows of so many entries, as an array."""
        return make_desk(entries, self.plan.step_size.width(), self.trailing)

    def arrays(self) -> dict[str, Any]:
        """Everything that changes while learning, by name."""
        kept, parts = self.plan.step_size.statistics(), (self.state, self.intercept, self.fresh)
        found = {f"{p}.{n}": a for p, s in zip(STATES, parts, strict=True) for n, a in arrays_by_name(s, kept).items()}
        return {**found, "clock": self.ticks, "uncounted": self.uncounted, **self.centring_arrays()}

    def centring_arrays(self) -> dict[str, Any]:
        """What is kept of the means of rows, by name."""
        return {} if self.centring is None else self.centring.arrays()

    def snapshot(self) -> dict[str, Any]:
        """Copies of `arrays`, and where the observer stands: what `restore` needs to take rounds back."""
        mark = None if self.observer is None else self.observer.mark()
        return {**{name: a.copy() for name, a in self.arrays().items()}, "mark": mark}

    def restore(self, arrays: dict[str, Any]) -> None:
        """Take over copies of the arrays of an engine with the same plan; ValueError if they do not fit."""
        kept = self.plan.step_size.statistics()
        features, own_arrays = arrays["state.w"].shape[:1] if "state.w" in arrays else (0,), self.arrays()
        for name, own in own_arrays.items():
            if name.startswith("centring."):
                continue
            fresh = own_arrays.get(name.replace("state.", "fresh."), own)  # which arrays have an entry per feature
            used = name.startswith("state.") and fresh.shape[0] > 0
            found, shape = arrays.get(name), (*features, *own.shape[1:]) if used else own.shape
            if found is None or found.dtype != own.dtype or found.shape != shape:
                raise ValueError(f"array {name!r} is missing or does not fit the update")
        if not (arrays["clock"][0] >= 0.0 and arrays["clock"][0].is_integer()):
            raise ValueError(f"its number of rounds is given as {arrays['clock'][0]}")
        rows, rounds = Uncounted(*arrays["uncounted"])
        if not (rows >= 0.0 and rows.is_integer() and abs(rounds) <= 1.0):
            raise ValueError(f"what its clock does not count is given as {rows} rows and {rounds} rounds")
        centring = None if self.centring is None else centring_from(arrays, *features)
        self.state, self.intercept, self.fresh = (
            assembled({name: arrays[f"{part}.{name}"] for name in arrays_by_name(self.fresh, kept)}, kept)
            for part in STATES
        )
        self.ticks, self.uncounted, self.centring = arrays["clock"].copy(), arrays["uncounted"].copy(), centring
        if self.observer is not None and "mark" in arrays:
            self.observer.rewind(arrays["mark"])

    @property
    def needed_arrays(self) -> tuple[str, ...]:
        """Arrays that every file has; all that are added later have a value for files without them."""
        return "state.w", "clock"

    @property
    def revocable(self) -> tuple[Engine, ...]:
        """For a `Transaction`: this engine in the interpreter, where a component may raise in any row."""
        return () if self.compiled else (self,)

    def mark(self) -> dict[str, Any]:
        """Where `rewind` goes back to."""
        return self.snapshot()

    def rewind(self, mark: dict[str, Any]) -> None:
        """Take back all rounds since the mark."""
        self.restore(mark)

    def select(self, kept: Any) -> None:
        """Keep these features only, in this order."""
        self.select_means(kept)
        self.state = State(*(realigned(a[kept]) if a.shape[0] else a for a in self.state))

    def select_means(self, kept: Any) -> None:
        """`select` for the means."""
        if self.centring is not None and not self.centring.idle:
            numbers = np.concatenate([kept, self.centring.features, self.centring.window[:, 0]])
            known = int(numbers.max(initial=-1))
            places = np.full(known + 1, -1)
            places[kept] = np.arange(len(kept))
            self.centring = self.centring.placed(places)

    def copy(self) -> Engine:
        """An engine of its own with the same state."""
        new = copy.copy(self)
        new.spare = None
        new.observer = None
        new.restore(self.arrays())
        new.desk, new.intercept_desk = new.make_desk(self.desk.shape[1]), new.make_desk(1)
        return new

    def placed(self, places: Any, features: int, score_places: Any = None, scores: int | None = None) -> Engine:
        """A copy, brought up to date, with so many features, of which places[i] is what was feature i.

        The others are as a feature never seen. With `scores`, the same for scores: see `add_scores`.
        """
        new = self.copy()
        new.grow(len(places))
        new.settle()
        if scores is not None:
            new.add_scores(score_places, scores)
        new.state = placed(new.state, places, features, new.fresh)
        if new.centring is not None:
            new.centring = new.centring.placed(places)
        return new

    # Compiled code.

    @property
    def plans(self) -> tuple[Plan, Plan]:
        return self.plan, self.intercept_plan

    @property
    def known(self) -> tuple[Any, ...]:
        """What kernels that read weights take."""
        return self.plan, self.state, self.fresh, self.ticks

    @property
    def memory(self) -> tuple[Any, ...]:
        return self.state, self.intercept, self.ticks, self.desk, self.intercept_desk

    def call(self, kernel: Any, *arguments: Any) -> Any:
        """Call a kernel of this package by name, or any kernel; its types never change, so they are looked at once."""
        bound = self.bound.get(kernel)
        if bound is None:
            bound = self.bound[kernel] = self.bind(kernel, arguments)
        return bound(*arguments)

    def kernels_expected(self) -> AbstractContextManager[None]:
        """`with engine.kernels_expected():` should anything have to be compiled, a helper compiles what comes next."""
        if not self.compiled or self.bound:  # or not the first time
            return nullcontext()
        from fiol.compiler.helping import expecting
        from fiol.engine.rehearsing import rehearse

        return expecting(lambda: rehearse(self))

    def bind(self, kernel: Any, arguments: tuple[Any, ...]) -> Any:
        """A kernel for arguments of these types; "intercept: " before its name tells one set of types from another."""
        from fiol.compiler import compiled  # imported here, as the others: `import fiol` loads no compiler
        from fiol.engine import (
            centred_rows,
            choosing,
            gating,
            joint_stacking,
            lane_rounds,
            lane_scores,
            lane_stack,
            lane_ways,
            lanes,
            reading,
            rounds,
            stacking,
            weighing,
        )

        if isinstance(kernel, str):
            name, files = kernel.removeprefix("intercept: "), [rounds, reading, centred_rows, gating, stacking]
            files += [joint_stacking, choosing, weighing, lanes, lane_stack, lane_rounds, lane_scores, lane_ways]
            kernel = next(getattr(file, name) for file in files if hasattr(file, name))
        if self.compiled and hasattr(kernel, "py_func"):
            return compiled.bind(kernel, *arguments)
        plain = compiled.interpreted(kernel)

        def quiet(*args: Any) -> Any:
            with np.errstate(all="ignore"):  # the interpreter warns where compiled code goes on with infinity
                return plain(*args)

        return quiet


#: Statistics that tell how much the loss bends along a weight, the best first: sums of second derivatives times x^2, of
#: squared gradients; the largest value, squared.
STIFF = (("bends", "pending"), ("square",), ("peak",))
#: The states that `Engine.arrays` names, in this order.
STATES = ("state", "intercept", "fresh")
