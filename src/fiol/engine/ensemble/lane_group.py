"""`LaneGroup`: members of an ensemble that share SIMD lanes, with one record per feature for all of them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fiol.algorithms.plan import Plan
from fiol.algorithms.state import FLOAT_ROUNDS, START, Clock, State, aligned, realigned, use_huge_pages
from fiol.components.component import Component
from fiol.components.lane_checks import check_lanes
from fiol.components.losses import Loss
from fiol.components.row import Floats
from fiol.components.simd import choose, total
from fiol.components.step_sizes import LARGEST_SUM, states_its_rule
from fiol.components.step_sizes.rule import unit_of_steps
from fiol.engine.centering import Centering, shifted
from fiol.engine.engine import IN_ORDER
from fiol.engine.interrupts import paced, piece_of
from fiol.engine.update_engine import UpdateEngine
from fiol.features.chunk import Chunk

#: Numbers of lanes; one of them is no member.
WIDTHS = (4, 8)


class LaneMemory(NamedTuple):
    """The arrays of a `LaneGroup`, as kernels take them."""

    vectors: Any  #: a 0 for every vector of a record
    first: Any  #: a 0 for every lane that may have sums,
    some: Any  #: and again with as many digits as steps have
    as_they_are: Any  #: a 0 if any member is not scale-free, else nothing
    rules: Any
    records: Any
    intercept: Any
    has_intercept: float
    ticks: Any
    steps: Any
    parts: Any
    values: Any  #: of the row, as scale-free members learn from them
    spare: Any


#: If weights are float32, steps are float32 too as long as the bases of all `StepRule`s are between these.
SMALL_BASE, LARGE_BASE = 1e-15, 1e15
#: Stored as the largest value of a feature that was seen, where no member stores it.
SEEN = 1e-30
#: Whether lanes are used in the interpreter, too, where they save no time: for tests.
INTERPRETED = False


def fits_lanes(plan: Plan) -> bool:
    """Return whether `fiol.engine.ensemble.member_rounds` can make the rounds of a plan.

    It can for exact steps from the last iterate with at most a ridge.

    The parts of the plan that these rounds replace declare it by `lane_ready`.
    """
    problem = plan.problem
    return (
        isinstance(problem.loss, Loss)
        and problem.loss.lanes
        and all(map(declares_lanes, (plan.anchor, plan.loss_step, plan.lazy_update, problem.solver)))
        and (not plan.lazy_update.records or has_lane_ridge(plan))
        and problem.geometry.quadratic
        and problem.geometry.unit_metric
        and not plan.regularizer_step.pushes
        and not plan.regularizer.is_bounded()
        and not problem.regularizer.has_l1()
        and problem.regularizer.has_ridge() == plan.lazy_update.records
        and states_its_rule(plan.step_size)
    )


def declares_lanes(component: Component) -> bool:
    """Return whether the class of a component itself sets `lane_ready`; a subclass may override what lanes replace.

    >>> from fiol.algorithms.anchors import LastIterate
    >>> class Own(LastIterate):
    ...     pass
    >>> declares_lanes(LastIterate()), declares_lanes(Own())
    (True, False)
    """
    return bool(vars(type(component)).get("lane_ready", False))


def has_lane_ridge(plan: Plan) -> bool:
    """Return whether lanes can do the ridge of a plan: one strength, in units of features where these have any.

    Losses whose steps have a unit are left out: records do not store the unit of a feature's last round.
    """
    rule, ridge = plan.step_size.rule(), ridge_of(plan)
    if plan.problem.loss.has_step_scale:
        return False
    one = (rule.root > 0.0) + (rule.length > 0.0) + rule.curvatures <= 1  # which the third vector of records has
    return one and plan.units.scaled == rule.scale_free and max(ridge, ridge * rule.size) < LARGE_BASE


def ridge_of(plan: Plan) -> float:
    """Return the strength of a plan's ridge, infinite if features have strengths of their own."""
    parts = plan.problem.regularizer.strengths()
    return float(parts[1]) if parts is not None and np.ndim(parts[1]) == 0 else np.inf


def lanes_there(compiled: bool) -> bool:
    """Return whether kernels can use SIMD lanes."""
    return compiled or INTERPRETED


def chosen_lanes(plans: Sequence[Plan], compiled: bool) -> list[int]:
    """Return the members of an ensemble that share lanes: those that fit, as many as there are lanes, if not one."""
    places = [k for k, plan in enumerate(plans) if fits_lanes(plan)][: WIDTHS[-1] - 1]
    if len(places) < 2 or not lanes_there(compiled):
        return []
    check_lanes(plans[places[0]].problem.loss)
    return places


class LaneGroup:
    """Several engines as one: `pack` copies their states into records, `unpacked` copies them back.

    A feature has a record of two or three vectors, see `fiol.engine.ensemble.lane_records`: three `with_ridge`, if
    any member has one.
    """

    def __init__(self, engines: Sequence[UpdateEngine], with_ridge: bool = False) -> None:
        #: The members without any feature: their plans, and the state of an unseen feature.
        self.engines = [engine.without_features() for engine in engines]
        self.width = next(width for width in WIDTHS if width > len(engines))
        self.dtype, self.loss = engines[0].dtype, engines[0].plan.problem.loss
        self.has_intercept = engines[0].intercept.w.shape[0] > 0
        self.rules = coefficients([engine.plan for engine in engines], self.width)
        self.with_ridge = with_ridge or bool(self.rules.reshape(-1, self.width)[-1].any())
        self.vectors = (0.0,) * (3 if self.with_ridge else 2)
        self.zero = (0.0,) * self.width
        self.digits = tuple(self.zero if self.has_long_steps() else map(np.float32, self.zero))
        few = self.width // 2 if self.has_few_sums() else self.width
        self.first, self.some = self.zero[:few], self.digits[:few]
        self.as_they_are = () if all(rule.scale_free for rule in self.lane_rules) else (0.0,)
        self.spare = aligned(6 * self.width, np.float64)
        self.steps, self.parts = aligned(16 * self.width, np.asarray(self.digits).dtype), aligned(32, np.float64)
        self.values = aligned(16, np.float64)
        self.records = aligned(0, self.dtype)
        self.intercept = aligned(2 * self.width, self.dtype)
        self.ticks = np.zeros(1 + 2 * self.width)

    @property
    def lane_rules(self) -> list[Any]:
        """The step rule of every member."""
        return [engine.plan.step_size.rule() for engine in self.engines]

    def has_few_sums(self) -> bool:
        """Return whether members in the second half of the lanes take one step for all features of a row.

        Not if steps have a unit, since every feature stores its largest, nor with a ridge, since features missed
        different rounds.
        """
        late = self.lane_rules[self.width // 2 :]
        return not (self.with_ridge or self.loss.has_step_scale or any(rule.root or rule.part for rule in late))

    def has_long_steps(self) -> bool:
        """Return whether steps need float64: where weights are float64, or step sizes extreme."""
        base = self.rules[self.width : 2 * self.width]
        base = base + self.rules[4 * self.width : 5 * self.width]  # rows have a length of about 1 or more
        usual = (base > SMALL_BASE) & (base < LARGE_BASE) & (self.rules[: self.width] < LARGE_BASE)
        return self.dtype.itemsize == 8 or not usual.all()

    # --- learning and reading -----------------------------------------------------------------

    def learn(self, chunk: Chunk, y: Floats, sample_weights: Floats, scores: Floats) -> None:
        """Make a round per row of all members, and write the scores before, [row, lane] as one axis."""
        from fiol.engine.ensemble.member_rounds import learn_lanes  # imported here: `import fiol` loads no compiler

        rows = self.loss, self.zero, self.digits, chunk, y, sample_weights
        self.engines[0].call(learn_lanes, *rows, self.memory, scores)

    @property
    def memory(self) -> LaneMemory:
        """The arrays, as kernels take them."""
        kind = self.vectors, self.first, self.some, self.as_they_are
        known = self.rules, self.records, self.intercept, float(self.has_intercept), self.ticks
        return LaneMemory(*kind, *known, self.steps, self.parts, self.values, self.spare)

    @property
    def row_cost(self) -> float:
        """The cost of a round besides the entries of its row: see `Engine.row_cost`."""
        return float(len(self.engines))

    @property
    def record_size(self) -> int:
        """How many numbers the record of a feature has."""
        return len(self.vectors) * self.width

    def table(self, records: Any) -> Any:
        """Return records as [feature, vector, lane]."""
        return records.reshape(-1, len(self.vectors), self.width)

    def new_scores(self, rows: int) -> Floats:
        """Return an array for the scores of this many rows, see `learn`."""
        return np.zeros(rows * self.width)

    def scores_of_members(self, scores: Floats) -> Floats:
        """Return the scores that `learn` has written, as [row, member]."""
        return scores.reshape(-1, self.width)[:, : len(self.engines)]

    def scores(self, chunk: Chunk) -> Floats:
        """Return the scores of rows by every member, [row, member]."""
        from fiol.engine.ensemble.lane_records import score_lanes

        scores = self.new_scores(chunk.rows)
        for start, stop in paced(chunk, IN_ORDER, float(self.width)):
            some = scores[self.width * start : self.width * stop]
            self.engines[0].call(score_lanes, self.zero, self.memory, piece_of(chunk, start, stop), some)
        return self.scores_of_members(scores)

    def add_weights(self, features: Any, v: Floats, out: Floats) -> None:
        """Add the sum of weights times v, a number for every member, for each of `features`."""
        from fiol.engine.ensemble.lane_records import add_lane_weights

        self.engines[0].call(add_lane_weights, self.zero, self.memory, features, self.in_lanes_of(v), out)

    def in_lanes_of(self, v: Floats) -> Floats:
        """Append zeros for lanes without a member."""
        return np.append(v, np.zeros(self.width - len(v)))

    def move(self, v: Floats, change: Floats, shift: Any) -> None:
        """Add v times the change to the weights of the first features, and v times the shift to intercepts."""
        members = slice(len(self.engines))
        self.settle()
        self.table(self.records)[: change.shape[0], 0, members] += change[:, None] * v
        if self.has_intercept:
            self.intercept.reshape(2, self.width)[0, members] += shift * v

    def raise_peaks(self, largest: Floats) -> None:
        """Let the largest values of the first features be at least these, of features that were seen."""
        peaks = self.table(self.records)[: len(largest), 0, -1]
        np.maximum(peaks, largest[: len(peaks)], out=peaks, where=peaks > 0.0, casting="same_kind")

    def expect_values(self, features: slice, size: float) -> None:
        """Let the largest values of features be at least `size`, whether they were seen or not."""
        peaks = self.table(self.records)[features, 0, -1]
        np.maximum(peaks, size, out=peaks, casting="same_kind")

    @property
    def knows_scales(self) -> bool:
        """Whether any member stores the largest value of every feature."""
        return any(engine.knows_scales for engine in self.engines)

    def scales(self, features: int) -> Floats:
        """Return the largest value of each of the first features; 0 beyond the records."""
        out, peaks = np.zeros(features), self.table(self.records)[:features, 0, -1]
        out[: len(peaks)] = peaks
        return out

    def center(self, centering: Centering) -> None:
        """Let means be subtracted from values from now on: see `Engine.centered_storage`."""
        self.settle()
        features, table, members = centering.features, self.table(self.records), len(self.engines)
        centering.add_to_missing(table[:, 0, :members], -1.0, learned=True)  # first: these may be centered themselves
        if self.has_intercept:
            means, moved = centering.means, np.ascontiguousarray(table[features, 0, :members].T, np.float64)
            self.intercept[:members] += [means @ w for w in moved]
        scaled = [k for k, engine in enumerate(self.engines) if engine.knows_scales]
        if scaled:  # records start again, with distances from the mean instead of values
            table[features[:, None], 1:, scaled], table[features, 0, -1] = 0.0, centering.widths

    def weights(self, features: int) -> Floats:
        """Return the weights of the first features, [feature, member]; 0 beyond the records."""
        out, now = np.zeros((features, len(self.engines))), self
        if self.with_ridge:
            now = self.copy()
            now.settle()
        have = self.table(now.records)[:features, 0, : len(self.engines)]
        out[: have.shape[0]] = have
        return out

    @property
    def weights_in_place(self) -> Any:
        """The stored weights, [feature, member]; changing them changes the members."""
        return self.table(self.records)[:, 0, : len(self.engines)]

    def settle(self) -> None:
        """Bring all weights up to date."""
        from fiol.engine.ensemble.lane_records import settle_lanes

        if self.with_ridge:
            self.engines[0].call(settle_lanes, self.zero, self.memory)

    def shifted(self, shift: float) -> LaneGroup:
        """Return a group with other intercepts: see `Engine.shifted_storage`."""
        new = copy.copy(self)
        new.intercept = realigned(self.intercept)
        if self.has_intercept:
            intercepts = new.intercept[: len(self.engines)]
            intercepts[...] = shifted(intercepts.astype(np.float64), shift)
        return new

    def add_intercepts(self, v: Floats, out: Floats) -> None:
        """Add the sum of intercepts times v, a number for every member."""
        v = self.in_lanes_of(v)
        out[0] += total(choose(v != 0.0, self.intercept[: self.width] * v, 0.0))

    @property
    def rounds(self) -> int:
        """Rounds made."""
        return int(self.ticks[0])

    @property
    def rows(self) -> int:
        """Rows learned from."""
        return self.rounds + self.engines[0].rows  # whose clock stands still

    @property
    def nbytes(self) -> int:
        """Bytes of the state."""
        return self.records.nbytes + self.intercept.nbytes + self.ticks.nbytes

    # --- the state as a whole -----------------------------------------------------------------

    @property
    def features(self) -> int:
        """How many features have a record."""
        return self.records.shape[0] // self.record_size

    def grow(self, features: int) -> None:
        """Allocate records for this many features."""
        if features > self.features:
            new = aligned(max(features, 2 * self.features) * self.record_size, self.dtype)
            new[: self.records.shape[0]] = self.records
            self.records = new

    def use_huge_pages(self, indices: Any) -> None:
        """Ask for huge pages if these features are all over the records."""
        use_huge_pages(self.records, indices, self.record_size * self.records.itemsize)

    def make_place(self, features: int, longest: int) -> bool:
        """Allocate memory for this many features, and for rows of `longest` entries; whether arrays were replaced."""
        before = self.records
        self.grow(features)
        if longest * self.width > self.steps.shape[0]:
            self.steps = aligned(2 * longest * self.width, self.steps.dtype)
            self.parts, self.values = aligned(4 * longest, np.float64), aligned(2 * longest, np.float64)
            return True
        return self.records is not before

    def select(self, kept: Any) -> None:
        """Keep these features only, in this order."""
        self.records = realigned(self.records.reshape(-1, self.record_size)[kept].reshape(-1))

    def place(self, places: Any, features: int) -> None:
        """Have this many features, of which places[i] is the old feature i; the others were never seen."""
        self.grow(len(places))
        table = self.records.reshape(-1, self.record_size)[: len(places)]
        self.records = aligned(features * self.record_size, self.dtype)
        self.records.reshape(-1, self.record_size)[places] = table

    def copy(self, records: Any = None) -> LaneGroup:
        """Return a group with its own copy of the state, written into `records` if that is given."""
        new = copy.copy(self)  # with the same `engines`, which never change
        new.records = aligned(self.records.shape, self.dtype) if records is None else records
        new.records[...] = self.records
        new.intercept, new.ticks = realigned(self.intercept), self.ticks.copy()
        new.steps, new.parts = realigned(self.steps), realigned(self.parts)
        new.values, new.spare = realigned(self.values), realigned(self.spare)
        return new

    def unpacked(self) -> list[UpdateEngine]:
        """Return a copy of every member as an engine of its own."""
        return [self.unpacked_member(k) for k in range(len(self.engines))]

    def unpacked_member(self, k: int) -> UpdateEngine:
        """Return a copy of member k as an engine of its own."""
        new, slopes = self.engines[k].copy(), float(self.ticks[1 + k])
        clock = START._replace(t=self.ticks[0], eta=new.plan.step_size.eta(1.0), slopes=slopes)
        intercept = new.intercept
        if self.has_intercept:
            intercept = self.state_of(k, self.intercept.reshape(1, 2, -1), clock, new.intercept_plan)
        state = self.state_of(k, self.table(self.records), clock, new.plan)
        new.replace(ticks=np.array(clock), state=state, intercept=intercept)
        return new

    def state_of(self, k: int, table: Any, clock: Clock, plan: Plan) -> State:
        """Return the state of member k for the features of a table [feature, vector, lane]."""
        kept = plan.step_size.statistics()
        state = plan.new_state((table.shape[0],), 0.0, self.dtype, False)
        state.w[...] = table[:, 0, k]
        peak = table[:, 0, -1]
        step_scale = unit_of_steps(self.loss, plan.step_size.rule(), clock.slopes, clock.t) if clock.t > 0.0 else 0.0
        found = {"peak": peak, "stride": np.where(peak > 0.0, step_scale, 0.0)}
        if table.shape[1] == 3:
            found |= {"pending": table[:, 2, k], "length": table[:, 2, k]}
        else:
            found |= {"pending": 0.0, "length": np.where(peak > 0.0, self.ticks[1 + self.width + k], 0.0)}
        for j, name in enumerate(kept):
            state.statistics[:, j] = found.get(name, table[:, 1, k])
        if state.last_seen.shape[0]:
            state.last_seen[...] = marks_in(table)
        return state

    def pack(self, engines: Sequence[UpdateEngine], new: bool = False) -> bool:
        """Copy the states of engines; False, and no change, if these engines have not learned from the same rows.

        States of `new` engines are all 0.
        """
        peaks = [engine.state.statistics[:, of("peak", engine)] for engine in engines if of("peak", engine) >= 0]
        clocks = [Clock(*engine.ticks) for engine in engines]
        both = zip(clocks, engines, strict=True)
        seen = {(clock.t, engine.state.w.shape, engine.uncounted.tobytes()) for clock, engine in both}
        marks = [engine.state.last_seen for engine in engines if engine.plan.lazy_update.records]
        if len(seen) > 1 or (not new and any((one != many[0]).any() for many in (peaks, marks) for one in many)):
            return False
        features = engines[0].state.w.shape[0]
        records, intercept = aligned(features * self.record_size, self.dtype), aligned(2 * self.width, self.dtype)
        if not new:  # else all records are 0, and stay memory that the system has not given out
            met = self.table(records)
            for k, engine in enumerate(engines):
                for table, state in ((met, engine.state), (intercept.reshape(1, 2, -1), engine.intercept)):
                    if state.w.shape[0]:
                        self.pack_member(table, k, state, engine)
            met[:, 0, -1] = peaks[0] if peaks else np.where(met.any(axis=(1, 2)), SEEN, 0.0)
            if marks:
                met[:, 2, -1] = marks[0] // FLOAT_ROUNDS * FLOAT_ROUNDS
                met[:, 1, -1] = marks[0] - met[:, 2, -1].astype(np.float64)
        intercept[self.width - 1] = 1.0
        ticks = np.zeros(1 + 2 * self.width)
        ticks[0], ticks[1 : 1 + len(engines)] = clocks[0].t, [clock.slopes for clock in clocks]
        for k, engine in enumerate(engines):
            if of("length", engine) >= 0:  # the intercept is in every row
                state = engine.intercept if self.has_intercept else engine.state
                ticks[1 + self.width + k] = state.statistics[:, of("length", engine)].max(initial=0.0)
        self.engines = [engine.without_features() for engine in engines]
        self.records, self.intercept, self.ticks = records, intercept, ticks
        return True

    def pack_member(self, table: Any, k: int, state: State, engine: UpdateEngine) -> None:
        """Write the state of member k into records."""
        table[:, 0, k] = state.w
        added = ("square", "bends") if table.shape[1] == 3 else ("square", "bends", "pending")
        sums = [of(name, engine) for name in added if of(name, engine) >= 0]
        if sums:
            table[:, 1, k] = np.minimum(state.statistics[:, sums].astype(np.float64).sum(axis=1), LARGEST_SUM)
        for name in ("pending", "length", "square"):
            if table.shape[1] == 3 and of(name, engine) >= 0:
                kept = state.statistics[:, of(name, engine)]
                table[:, 2, k] = np.sqrt(kept) if name == "square" else kept


def marks_in(table: Any) -> Floats:
    """Return when the features of a table with three vectors were last seen."""
    return table[:, 1, -1].astype(np.float64) + table[:, 2, -1]  # type: ignore[no-any-return]


def of(name: str, engine: UpdateEngine) -> int:
    """Return the place of a statistic in the record of a feature, -1 if it is not kept."""
    kept = engine.plan.step_size.statistics()
    return kept.index(name) if name in kept else -1


def coefficients(plans: Sequence[Plan], width: int) -> Floats:
    """Return the `StepRule` of every member and its ridge as an array; lanes without a member have steps of 0."""
    table = np.zeros((10, width))
    table[1] = 1.0
    for k, plan in enumerate(plans):
        table[:, k] = *plan.step_size.rule(), ridge_of(plan)
    return table.reshape(-1)
