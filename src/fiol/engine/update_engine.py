"""`UpdateEngine`: the engine of a single update, with a plan and the state that its rounds work on."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import numpy as np

from fiol.algorithms.plan import Plan, intercept_plan
from fiol.algorithms.state import (
    START,
    Clock,
    State,
    Uncounted,
    arrays_by_name,
    assembled,
    grown,
    make_row_buffers,
    placed,
    realigned,
    spread,
)
from fiol.components.row import Floats
from fiol.components.step_sizes.rule import raise_peak
from fiol.engine.centering import NO_ROWS, Centering, centering_from, shifted
from fiol.engine.engine import IN_ORDER, Engine
from fiol.engine.float32_guard import limits, longest_step
from fiol.engine.interrupts import paced, piece_of
from fiol.engine.single_row.fast_path import means_of_events
from fiol.features.chunk import Chunk

#: Statistics that estimate the curvature of the loss along a weight, the best first: sums of second derivatives times
#: x^2, of squared gradients; the largest value, squared.
STIFF = (("bends", "pending"), ("square",), ("peak",))
#: The states that `UpdateEngine.arrays` names, in this order.
STATES = ("state", "intercept", "fresh")


class Storage(NamedTuple):
    """The arrays of an `UpdateEngine`."""

    state: State  #: weights and records of all features
    intercept: State  #: weight and record of the intercept, empty without one
    fresh: State  #: weight and record of one feature that was never seen
    ticks: Any  #: a `Clock`
    uncounted: Any  #: an `Uncounted`
    buffers: Any  #: buffers for the entries of one row
    intercept_buffers: Any  #: buffers for the intercept
    centering: Centering | None


class UpdateEngine(Engine):
    """The engine of a plan: `features` weights at first, `grow` allocates more.

    With a joint loss there are `scores` scores per row.
    """

    storage: Storage

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
        super().__init__(plan, intercept_plan(plan), compiled)
        self.longest, self.dtype = longest_step(plan), np.dtype(dtype)
        self.limits = limits(self.dtype, self.longest)
        trailing = () if scores is None else (scores,)
        fresh = plan.new_state((1, *trailing), first, dtype, average)
        state = plan.new_state((features, *trailing), first, dtype, average)
        own = self.intercept_plan.new_state((int(intercept), *trailing), 0.0, dtype, average)
        for record in own.statistics:
            raise_peak(plan.step_size, record, 1.0)  # its values are all 1
        ticks = np.array(START._replace(eta=plan.step_size.eta(1.0)))
        uncounted = np.array(Uncounted(0.0, 0.0))
        new_buffers = self.make_row_buffers(16, trailing), self.make_row_buffers(1, trailing)
        self.storage = Storage(state, own, fresh, ticks, uncounted, *new_buffers, None)

    @property
    def state(self) -> State:
        """Weights and records of all features."""
        return self.storage.state

    @property
    def intercept(self) -> State:
        """Weight and record of the intercept, empty without one."""
        return self.storage.intercept

    @property
    def fresh(self) -> State:
        """Weight and record of a feature that was never seen."""
        return self.storage.fresh

    @property
    def ticks(self) -> Any:
        return self.storage.ticks

    @property
    def uncounted(self) -> Any:
        """An `Uncounted` as an array."""
        return self.storage.uncounted

    @property
    def buffers(self) -> Any:
        """Buffers for the entries of one row."""
        return self.storage.buffers

    @property
    def trailing(self) -> tuple[int, ...]:
        return self.storage.state.w.shape[1:]  # type: ignore[no-any-return]

    @property
    def memory(self) -> tuple[Any, ...]:
        """What kernels that learn take: state, intercept, clock and buffers."""
        storage = self.storage
        return storage.state, storage.intercept, storage.ticks, storage.buffers, storage.intercept_buffers

    @property
    def known(self) -> tuple[Any, ...]:
        """What kernels that read weights take."""
        return self.plan, self.storage.state, self.storage.fresh, self.storage.ticks

    @property
    def scoring(self) -> tuple[Any, ...]:
        """What kernels that score rows take after the rows."""
        storage = self.storage
        return storage.state, storage.intercept, storage.fresh, storage.ticks

    # --- learning -----------------------------------------------------------------------------

    def learn_plainly(self, chunk: Chunk, y: Floats, sample_weights: Floats, order: Any = IN_ORDER) -> Floats:
        from fiol.engine.round.rounds import learn_rows  # imported here: `import fiol` loads no compiler

        scores = np.zeros((chunk.rows, *self.trailing))
        if chunk.rows == 1 and not len(order):  # fast for single rows
            self.call(learn_rows, *self.plans, chunk, order, y, sample_weights, *self.memory, scores)
            return scores
        for start, stop in paced(chunk, order, self.row_cost):
            some = slice(0, chunk.rows) if len(order) else slice(start, stop)
            piece = piece_of(chunk, some.start, some.stop), order[start:stop], y[some], sample_weights[some]
            self.call(learn_rows, *self.plans, *piece, *self.memory, scores[some])
        return scores

    @property
    def row_cost(self) -> float:
        return float(self.state.w.size) if self.plan.lazy_update.everywhere else 1.0

    def event_kernels(self) -> tuple[Any, Any, Any]:
        from fiol.engine.single_row.events import Means, UpdateValues, learn_event, score_event

        known = *self.plans, *self.scoring, self.buffers, self.storage.intercept_buffers
        values = *known, self.limits, Means._make(means_of_events(self))
        return score_event, learn_event, UpdateValues._make(values)

    def start_from(self, w: Floats, intercept: Any) -> None:
        from fiol.engine.round.reading import store_weights

        self.settle_origin()
        self.grow(w.shape[0])
        self.call(store_weights, self.plan, self.state, self.ticks, w)
        if self.intercept.w.shape[0] > 0:
            shift = np.array([intercept], np.float64) - self.origin
            self.call_for_intercept(store_weights, self.intercept_plan, self.intercept, self.ticks, shift)

    def shift(self, change: Any, of_average: Any) -> None:
        """Add `change` to the intercept of every score, and `of_average` to its average."""
        one = np.zeros(1, np.int64)
        add_to_weights(self.intercept_plan, self.intercept, self.ticks, one, change, of_average)

    def add_to_weights(self, features: Any, change: Any, of_average: Any) -> Any:
        """Add to the weights of features, which are up to date, and to their averages; return which could change."""
        return add_to_weights(self.plan, self.state, self.ticks, features, change, of_average)

    def shifted_storage(self, shift: float) -> Storage:
        new = copy.copy(self)
        new.storage = self.storage._replace(intercept=State(*map(realigned, self.intercept)))
        if self.intercept.w.shape[0] and not self.plan.anchor.keeps_all_rounds:
            change = shifted(float(self.intercept.w[0]), shift) - float(self.intercept.w[0])
            new.shift(change, change)
        return new.storage

    def settle(self) -> None:
        if not (self.plan.lazy_update.replays or self.plan.lazy_update.records):
            return  # all weights are up to date
        from fiol.engine.round.reading import settle_all

        ticks, fresh = self.ticks.copy(), State(*map(realigned, self.fresh))
        self.call(settle_all, self.plan, fresh, ticks)
        try:
            self.call(settle_all, self.plan, self.state, self.ticks)
        finally:  # both or neither, also if an interrupt comes
            if (self.ticks == ticks).all():
                self.replace(fresh=fresh)

    def raise_peaks(self, largest: Floats) -> None:
        if self.knows_scales:
            peaks = self.state.statistics[: len(largest), self.plan.step_size.statistics().index("peak")]
            np.maximum(peaks, largest[: len(peaks)], out=peaks, where=peaks > 0.0, casting="same_kind")

    def expect_values(self, features: slice, size: float) -> None:
        """Let the largest values of features be at least `size`, whether they were seen or not."""
        if self.knows_scales:
            peaks = self.state.statistics[features, self.plan.step_size.statistics().index("peak")]
            np.maximum(peaks, size, out=peaks, casting="same_kind")

    def centered_storage(self, centering: Centering) -> Storage:
        self.settle()
        features, means = centering.features, centering.means
        state, intercept = State(*map(realigned, self.state)), State(*map(realigned, self.intercept))
        if self.plan.anchor.keeps_all_rounds:
            state.w[features] = self.fresh.w[0]
        else:
            centering.add_to_missing(state.w, -1.0, learned=True)  # first: missing values may be centered themselves
            intercept.w[0] += means @ state.w[features].astype(np.float64)
            if state.total.shape[0]:
                centering.add_to_missing(state.total, -1.0, learned=True)
                intercept.total[0] += means @ state.total[features]
        if self.knows_scales:  # the record starts again, with distances from the mean instead of values
            peak = self.plan.step_size.statistics().index("peak")
            state.statistics[features, :peak], state.statistics[features, peak] = 0.0, centering.widths
        return self.storage._replace(state=state, intercept=intercept)

    # --- reading ------------------------------------------------------------------------------

    def scores(self, chunk: Chunk) -> Floats:
        from fiol.engine.round.reading import score_rows, score_rows_of_many

        chunk = self.centered(chunk)
        scores = np.empty((chunk.rows, *self.trailing))
        kernel = score_rows_of_many if self.trailing else score_rows
        if chunk.rows == 1:  # fast for single rows
            self.call(kernel, *self.plans, chunk, *self.scoring, scores)
            return scores + self.origin
        for start, stop in paced(chunk, IN_ORDER):
            self.call(kernel, *self.plans, piece_of(chunk, start, stop), *self.scoring, scores[start:stop])
        return scores + self.origin

    def variances(self, chunk: Chunk) -> Floats:
        from fiol.engine.round.reading import variance_rows

        chunk = self.centered(chunk)
        variances = np.empty(chunk.rows)
        for start, stop in paced(chunk, IN_ORDER):
            self.call(variance_rows, *self.plans, piece_of(chunk, start, stop), *self.scoring, variances[start:stop])
        clock = Clock(*self.ticks)
        return variances * self.plan.problem.loss.dispersion(clock.slopes, max(clock.t, 1.0))

    def weights(self, features: int, averaged: bool) -> Floats:
        from fiol.engine.round.reading import read_weights

        out, have = np.empty((features, *self.trailing)), min(features, self.state.w.shape[0])
        self.call(read_weights, self.plan, self.state, self.ticks, averaged, out[:have])
        if have < features:
            self.call(read_weights, self.plan, self.fresh, self.ticks, averaged, out[have : have + 1])
            out[have:] = out[have]
        return out

    def add_weights(self, features: Any, factor: float, out: Floats) -> None:
        """Add the weights of `features`, times a factor, to `out`."""
        from fiol.engine.round.reading import add_weights

        self.call(add_weights, *self.known, features, factor, out)

    @property
    def stiffness_known_by(self) -> int:
        """The index in `STIFF` of the statistics that records have, its length if none."""
        kept = self.plan.step_size.statistics()
        return next((k for k, names in enumerate(STIFF) if names[0] in kept), len(STIFF))

    def stiffness(self, features: int) -> Floats:
        return self.stored_stiffness(self.state.statistics, features)

    def intercept_stiffness(self) -> float:
        return float(self.stored_stiffness(self.intercept.statistics, 1)[0])

    def stored_stiffness(self, records: Any, features: int) -> Floats:
        """Return the stiffness of each of the first weights that have these records."""
        which, kept = self.stiffness_known_by, self.plan.step_size.statistics()
        if which == len(STIFF):
            return np.ones(features)
        out, have = np.zeros(features), min(features, records.shape[0])
        columns = [kept.index(name) for name in STIFF[which] if name in kept]
        out[:have] = records[:have, columns].astype(np.float64).sum(axis=1)
        return out**2 if STIFF[which] == ("peak",) else out

    @property
    def knows_scales(self) -> bool:
        return "peak" in self.plan.step_size.statistics()

    def scales(self, features: int) -> Floats:
        if not self.knows_scales:
            return np.ones(features)
        out, have = np.zeros(features), min(features, self.state.w.shape[0])
        out[:have] = self.state.statistics[:have, self.plan.step_size.statistics().index("peak")]
        return out

    def working_intercept(self, averaged: bool) -> Any:
        from fiol.engine.round.reading import read_weights

        out = np.zeros((1, *self.trailing))
        present = out[: self.intercept.w.shape[0]]
        self.call_for_intercept(read_weights, self.intercept_plan, self.intercept, self.ticks, averaged, present)
        return out[0] if self.trailing else float(out[0])

    @property
    def rows(self) -> int:
        return int(self.ticks[0] + Uncounted(*self.uncounted).rows)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in (*self.state, *self.intercept, self.ticks, self.uncounted))

    # --- the state as a whole -----------------------------------------------------------------

    def storage_in_use(self) -> Storage:
        return self.storage

    def put_back(self, storage: Storage) -> None:
        self.set_storage(storage)

    def undo_growth(self, storage: Storage) -> None:
        if storage.state.w.shape != self.state.w.shape:  # otherwise rounds wrote into these arrays
            self.replace(state=storage.state)

    def grow(self, features: int) -> None:
        have = self.state.w.shape[0]
        if features > have:
            self.replace(state=grown(self.state, max(features, 2 * have), self.fresh))

    def make_place(self, features: int, longest: int) -> bool:
        before = self.storage
        self.grow(features)
        if longest > self.buffers.shape[1]:
            self.replace(buffers=self.make_row_buffers(2 * longest, self.trailing))
        return before is not self.storage

    def make_row_buffers(self, entries: int, trailing: tuple[int, ...]) -> Any:
        """Return buffers for rows of this many entries."""
        return make_row_buffers(entries, self.plan.step_size.width(), trailing)

    def add_scores(self, places: Any, scores: int) -> None:
        # Weights with a common lazy factor (`ScaledWeights`) are stored divided by it: bring them up to date first.
        self.settle()
        first, old = self.plan.first_entry(self.state.w.shape[0]), self.storage
        self.replace(
            state=spread(old.state, places, scores, first),
            fresh=spread(old.fresh, places, scores, first),
            intercept=spread(old.intercept, places, scores, 0.0),
            buffers=self.make_row_buffers(old.buffers.shape[1], (scores,)),
            intercept_buffers=self.make_row_buffers(1, (scores,)),
        )

    def arrays(self) -> dict[str, Any]:
        kept, parts = self.plan.step_size.statistics(), (self.state, self.intercept, self.fresh)
        found = {f"{p}.{n}": a for p, s in zip(STATES, parts, strict=True) for n, a in arrays_by_name(s, kept).items()}
        return {**found, "clock": self.ticks, "uncounted": self.uncounted, **self.centering_arrays()}

    @property
    def needed_arrays(self) -> tuple[str, ...]:
        return "state.w", "clock"

    def restore(self, arrays: dict[str, Any]) -> None:
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
        parts = {
            part: assembled({name: arrays[f"{part}.{name}"] for name in arrays_by_name(self.fresh, kept)}, kept)
            for part in STATES
        }
        centering = None if self.centering is None else centering_from(arrays, features[0], NO_ROWS)
        clocks = {"ticks": arrays["clock"].copy(), "uncounted": arrays["uncounted"].copy()}
        self.replace(**parts, **clocks, centering=centering)
        self.rewind_observer(arrays)

    def select(self, kept: Any) -> None:
        state = State(*(realigned(a[kept]) if a.shape[0] else a for a in self.state))
        self.indicators = None
        self.replace(state=state, centering=None if self.centering is None else self.centering.selected(kept))

    def copy(self) -> UpdateEngine:
        new = copy.copy(self)
        new.centered_rows, new.observer = None, None
        new.restore(self.arrays())
        new_buffers = new.make_row_buffers(self.buffers.shape[1], self.trailing), new.make_row_buffers(1, self.trailing)
        new.replace(buffers=new_buffers[0], intercept_buffers=new_buffers[1])
        return new

    def placed(self, places: Any, features: int, score_places: Any = None, scores: int | None = None) -> UpdateEngine:
        new = self.copy()
        new.indicators = None
        new.grow(len(places))
        new.settle()
        if scores is not None:
            new.add_scores(score_places, scores)
        new.replace(state=placed(new.state, places, features, new.fresh))
        if new.centering is not None:
            new.replace(centering=new.centering.placed(places))
        return new

    def without_features(self) -> UpdateEngine:
        """Return a copy before its first round, with no features, and the rows that its clock does not count."""
        new = copy.copy(self)
        new.observer = None
        new.replace(
            state=State(*(a[:0].copy() for a in self.state)),
            intercept=State(*(a.copy() for a in self.intercept)),
            ticks=np.array(START._replace(eta=self.plan.step_size.eta(1.0))),
            uncounted=self.uncounted.copy(),
        )
        return new


def add_to_weights(plan: Plan, state: State, ticks: Any, features: Any, change: Any, of_average: Any) -> Any:
    """Add to the weights of features, which are up to date, and to their averages; return which could change.

    Weights that follow from sums change with their sums; those of features without a step stay, since they are 0
    whatever the sum is.

    Parameters
    ----------
    change, of_average : [feature], or [feature, score] with a joint loss; or one number for all.
    """
    change, of_average = (np.broadcast_to(a, state.w[features].shape) for a in (change, of_average))
    held = np.ones(len(features), bool)
    if plan.anchor.keeps_all_rounds:
        clock, regularizer = Clock(*ticks), plan.problem.regularizer
        if not regularizer.has("slope"):
            raise ValueError(
                f"means cannot change: {type(regularizer).__name__} has no `slope`, from which sums of pulls for given "
                f"weights follow ({type(plan.anchor).__name__}); define it, or use LastIterate()"
            )
        held[...] = [plan.step_of(state, i, clock.eta) > 0.0 for i in features.tolist()]
        features, change, of_average = features[held], change[held], of_average[held]
        sums, trailing = state.w[features].astype(np.float64), state.w.shape[1:]
        for j, i in enumerate(features.tolist()):
            for k in np.ndindex(trailing):
                if change[(j, *k)]:
                    w = plan.anchor.weight_of_score(plan, state, i, k[0] if k else 0, clock)
                    sums[(j, *k)] = plan.anchor.sum_for_weight(plan, state, i, w + change[(j, *k)], clock)
        state.w[features] = sums
    else:
        state.w[features] += change
    if state.total.shape[0]:
        state.total[features] += of_average * ticks[0]
    return held
