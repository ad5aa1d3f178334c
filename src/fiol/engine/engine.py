"""`Engine`: what the engines of a single update and of an ensemble have in common. Rows come in canonical chunks."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from fiol.components.row import Floats, Indices
from fiol.engine.centered_learning import CenteredRows, center_chunk, learn_block, learn_centered
from fiol.engine.centering import NO_TARGETS, Centering
from fiol.engine.float32_guard import overflow_guard
from fiol.engine.interrupts import paced
from fiol.engine.kernel_caller import KernelCaller
from fiol.engine.observer import Observer
from fiol.engine.outliers import cut_outliers, largest_values
from fiol.engine.single_row.fast_path import NO_FAST_PATH, FastPath, compile_fast_path
from fiol.features.chunk import Chunk
from fiol.features.numbered_rows import NumberedRow
from fiol.features.transaction import Transaction

#: An `order` of rows that stands for all rows as they come.
IN_ORDER = np.empty(0, np.int64)


class Engine(KernelCaller, ABC):
    """Learns from canonical chunks, keeps the state, and reads weights from it without changing it.

    The two kinds are `UpdateEngine` and `EnsembleEngine`. Rows have one score, or with a joint loss several: then
    scores, weights and intercepts have `trailing` as their last axis.

    `storage` holds everything that learning changes, in one named tuple with a field `centering`. Attributes that
    change together are replaced by one assignment, so that a signal finds either the old or the new ones. The
    single-row fast path (`fast_path`) points into these arrays: `set_storage` drops it.
    """

    #: How weights are stored.
    dtype: Any
    #: The largest Euclidean step of the first round.
    longest: float
    #: Least and largest value and target, and largest sample weight, of a single row that needs no overflow check.
    limits: tuple[float, float, float]
    #: How many members of an ensemble cannot share SIMD lanes, and so could learn in threads.
    apart: int = 0
    #: The arrays that learning changes.
    storage: Any
    #: Compiled functions for single rows.
    fast_path: FastPath = NO_FAST_PATH
    #: Makes the rounds instead of the engine, if there is one.
    observer: Observer | None = None
    indicators: Indices | None = None  #: the feature `c is missing` of every feature c, see `indicators_of`
    #: Buffers of centered rows.
    centered_rows: Chunk | None = None

    # --- storage ------------------------------------------------------------------------------

    def set_storage(self, storage: Any) -> None:
        """Replace all arrays at once."""
        self.fast_path = NO_FAST_PATH  # first: it points to the old arrays
        if self.indicators is not None and storage.centering is not None and storage.centering.features.shape[0]:
            storage = storage._replace(centering=storage.centering.with_indicators(self.indicators))
        self.storage = storage

    def replace(self, **changes: Any) -> None:
        """Replace some fields of `storage` at once."""
        self.set_storage(self.storage._replace(**changes))

    def set_observer(self, observer: Observer | None) -> None:
        """Let an observer make the rounds from now on, or none."""
        self.fast_path, self.observer = NO_FAST_PATH, observer

    def set_indicators(self, indicators: Indices | None) -> None:
        """Let missing values of centered features count as their mean, where the row has the feature's indicator."""
        known, self.indicators = self.centering, indicators
        if indicators is not None and known is not None and known.with_indicators(indicators) is not known:
            self.set_storage(self.storage)

    @property
    def centering(self) -> Centering | None:
        """The means that are subtracted from rows before learning and scoring; None if rows are never centered."""
        return self.storage.centering  # type: ignore[no-any-return]

    @property
    @abstractmethod
    def trailing(self) -> tuple[int, ...]:
        """() for one score per row, (scores,) for several."""

    @property
    @abstractmethod
    def ticks(self) -> Any:
        """The clock as an array; its first entry counts the rounds."""

    @property
    def rounds(self) -> int:
        """Rounds made."""
        return int(self.ticks[0])

    @property
    @abstractmethod
    def rows(self) -> int:
        """Rows learned from: more than the rounds where engines were merged."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of the state."""

    @abstractmethod
    def storage_in_use(self) -> Any:
        """Return a token for `put_back`: the arrays in use, not copies."""

    @abstractmethod
    def put_back(self, storage: Any) -> None:
        """Use the arrays of a `storage_in_use` again; they must not have been written to since then."""

    @abstractmethod
    def undo_growth(self, storage: Any) -> None:
        """Use arrays of a `storage_in_use` again where memory for more features was allocated since then.

        Rounds since then must have been taken back.
        """

    # --- learning -----------------------------------------------------------------------------

    def learn(
        self,
        chunk: Chunk,
        y: Floats,
        sample_weights: Floats,
        order: Any = IN_ORDER,
        less_origin: bool = False,
        given: CenteredRows | None = None,
    ) -> Floats:
        """Make a round per row, or for the rows in `order`; return the score of each before its round, 0 for others.

        With `less_origin` scores are those of the rounds, without the origin of targets. If the centered rows are
        `given`, they are learned from; all in order, and less the origin.
        """
        before, rounds = self.storage_in_use(), self.rounds
        try:
            with overflow_guard(self, chunk, y, sample_weights), Transaction(*self.revocable):
                if given is not None:
                    return learn_block(self, chunk, y, sample_weights, given)
                if self.centering is None or (self.centering.idle and self.observer is None):
                    return self.learn_in_parts(chunk, y, sample_weights, order)
                return learn_centered(self, chunk, y, sample_weights, order, less_origin)
        except BaseException:
            if self.compiled and self.rounds == rounds:
                self.undo_growth(before)
            raise

    def learn_in_parts(self, chunk: Chunk, y: Floats, sample_weights: Floats, order: Any = IN_ORDER) -> Floats:
        """Learn from centered rows, by the observer if there is one; an error keeps the rounds before it."""
        self.fit_in(chunk)
        if self.observer is None:
            return self.learn_plainly(chunk, y, sample_weights, order)
        scores = np.zeros((chunk.rows, *self.trailing))
        if len(order):
            scores[order] = self.learn_in_parts(chunk.take(order), y[order], sample_weights[order])
            return scores
        for start, stop in paced(chunk, IN_ORDER, self.observer.row_cost):
            block = chunk.row_block(start, stop)
            scores[start:stop] = self.observer.observe(block, y[start:stop], sample_weights[start:stop])
        return scores

    @abstractmethod
    def learn_plainly(self, chunk: Chunk, y: Floats, sample_weights: Floats, order: Any = IN_ORDER) -> Floats:
        """Learn from rows that fit the arrays, unobserved; an interrupt keeps the rounds that the clock counts."""

    def fit_in(self, chunk: Chunk) -> None:
        """Allocate memory for the features and the longest row of a chunk."""
        rows, entries = chunk.rows, chunk.data.shape[0]
        if rows and entries:
            longest = entries if rows == 1 else int(np.diff(chunk.indptr).max())
            self.make_place(int(chunk.indices.max()) + 1, longest)

    @abstractmethod
    def make_place(self, features: int, longest: int) -> bool:
        """Allocate memory for this many features, and for rows of `longest` entries; whether arrays were replaced."""

    def grow(self, features: int) -> None:
        """Allocate memory for this many features."""
        self.make_place(features, 0)

    def freeze_stack(self) -> AbstractContextManager[None]:
        """Return a context that freezes the stack of an ensemble, for rows that were learned from before.

        Repeated rows favor members that overfit.
        """
        return nullcontext()

    def restack(self, chunk: Chunk, y: Floats, sample_weights: Floats) -> Floats:
        """Let the stack of an ensemble learn anew from rows that members have not learned from; return their scores.

        Each half of the rows is scored by a stack that has learned from the other half. Unless that is better than the
        scores of now in every block of rows, nothing changes. Members do not change in any case.
        """
        return self.scores(chunk)

    @property
    @abstractmethod
    def row_cost(self) -> float:
        """The cost of a round besides the entries of its row, in entries: all weights if the round visits them."""

    @abstractmethod
    def start_from(self, w: Floats, intercept: Any) -> None:
        """Set the weights, and the intercept of every score."""

    @property
    def moves(self) -> bool:
        """Whether `move_to` is available."""
        return False

    def move_to(self, w: Floats, intercept: Any) -> None:
        """Set the weights of an ensemble's linear model; `intercept` is that of rows that are not centered."""
        raise NotImplementedError  # an update has no members

    @abstractmethod
    def settle(self) -> None:
        """Bring every stored weight up to date. Changes no result by more than rounding."""

    # --- centering ----------------------------------------------------------------------------

    def set_means(self, means: Centering, entries: int = 0) -> None:
        """Subtract these means from now on; change the origin, and decide which features are centered, if it is time.

        The last row has this many entries. After an interrupt, a call with the centering of now does the rest.
        """
        origin, shift = means.median, float(means.origin[0]) - means.median
        if shift:
            means = means.with_origin(origin)
            self.set_storage(self.shifted_storage(shift)._replace(centering=means))
        moved = self.storage
        if not means.watches and (means.undecided or means.targets.shape[0]):
            means = means.decided(entries)._replace(targets=NO_TARGETS)
            means = means if self.indicators is None else means.with_indicators(self.indicators)
            if means.features.shape[0]:
                moved = self.centered_storage(means)
        self.set_storage(moved._replace(centering=means))

    @property
    def origin(self) -> float:
        """What is subtracted from targets before learning, and part of every score."""
        return 0.0 if self.centering is None else float(self.centering.origin[0])

    def count_first_loss(self, y: Floats, sample_weights: Floats) -> None:
        """Count the loss of the first target, which becomes the origin: it was predicted as 0."""
        raise NotImplementedError  # an update has no origin of its own

    def settle_origin(self) -> None:
        """Keep the origin as it is: the intercept is given."""
        if self.centering is not None and self.centering.targets.shape[0]:
            self.replace(centering=self.centering._replace(targets=NO_TARGETS))

    def shifted_storage(self, shift: float) -> Any:
        """Return the storage with `shift` added to the intercepts, or the part of it that brings them to 0 (`shifted`).

        The intercepts are copies, everything else is not. Intercepts that follow from sums over all rounds stay.
        """
        raise NotImplementedError  # levels shift their own

    @property
    def steady_rows(self) -> int:
        """For how many more rows neither the origin of targets nor the centered features change."""
        return sys.maxsize if self.centering is None else self.centering.steady_rows

    @property
    def awaits_target(self) -> bool:
        """Whether the next target becomes the origin."""
        return self.centering is not None and self.centering.awaits_target

    def centered(self, chunk: Chunk) -> Chunk:
        """Return rows to be scored, centered."""
        if self.centering is None or not self.centering.features.shape[0]:
            return chunk
        return center_chunk(self, chunk, self.centering, learning=False)[0]

    def expect_random_order(self) -> None:
        """Center more features than of a stream: all rows come in random order, so that means do not drift."""
        if self.centering is not None:
            self.replace(centering=self.centering.in_random_order())

    def raise_scales(self, chunk: Chunk, among: Chunk | None = None) -> None:
        """Let the unit of every feature include its values in these rows, outliers left out; no weight is changed.

        Otherwise the round of a value beyond all before shrinks its weight. For `among` see `without_outliers`.
        """
        self.raise_peaks(largest_values(self.centered(self.without_outliers(chunk, among))))

    @abstractmethod
    def raise_peaks(self, largest: Floats) -> None:
        """Let the largest values of the first features be at least these."""

    def without_outliers(self, chunk: Chunk, among: Chunk | None = None) -> Chunk:
        """Return rows whose values are no larger than those that have been learned from (`learned_value`).

        For further passes over the same rows: an outlier would otherwise raise the unit of its feature in each of them.
        The rows may be `among` more, by which it is decided what is rare.
        """
        if not self.knows_scales or not chunk.data.shape[0]:
            return chunk
        return cut_outliers(chunk, self.scales(int(chunk.indices.max()) + 1), self.centering, among)

    @abstractmethod
    def centered_storage(self, centering: Centering) -> Any:
        """Return the storage after means are subtracted from values of features, with `widths` the largest left.

        The intercept takes over the scores of the means from weights of missing values; weights from sums are reset.
        """

    def uncentered(self, intercept: Any, averaged: bool) -> Any:
        """Return the intercept of rows as they come, given that of centered rows."""
        if self.centering is None or not self.centering.features.shape[0]:
            return intercept
        features = self.centering.features
        w = self.weights(int(features[-1]) + 1, averaged)[features]
        shift = self.centering.means @ w
        return intercept - (shift if self.trailing else float(shift))

    def raw_weights(self, features: int, averaged: bool) -> Floats:
        """Return the first `features` weights, or their averages, of rows as they come: see `fiol.engine.centering`."""
        w = self.weights(features, averaged)
        if self.centering is not None:
            self.centering.add_to_missing(w)
        return w

    def centering_arrays(self) -> dict[str, Any]:
        """Return the arrays of the means, by name."""
        return {} if self.centering is None else self.centering.arrays()

    # --- single rows --------------------------------------------------------------------------

    def prepare_fast_path(self, learning: bool) -> FastPath:
        """Return the fast path for single rows, compiled for scoring or learning; `NO_FAST_PATH` if there is none."""
        path = self.fast_path
        if (path.learn if learning else path.score) is not None:
            return path
        if not self.compiled or self.trailing or (learning and self.observer is not None):
            return NO_FAST_PATH
        self.fast_path = prepared = compile_fast_path(self, path, learning)
        return prepared

    @property
    def learns_single_rows(self) -> bool:
        """Whether there is a fast path that learns from single rows."""
        return self.compiled and not self.trailing and self.observer is None

    @abstractmethod
    def event_kernels(self) -> tuple[Any, Any, Any] | None:
        """Return the kernels that score a single row and make its round, and the values they take of this engine.

        None if single rows are handled as chunks.
        """

    def score_numbered(self, row: NumberedRow, limit: int, predicting: bool) -> float | None:
        """Return the score of a row with features below `limit`, or its prediction; None if that needs `scores`."""
        path = self.prepare_fast_path(learning=False)
        return None if path is NO_FAST_PATH else path.score_row(row, limit, predicting)

    def watches_missing(self, row: NumberedRow) -> bool:
        """Return whether one of the first rows has missing values, whose means the general code adds to the window."""
        known, there = self.centering, self.indicators
        return known is not None and known.watches and there is not None and bool(np.isin(row.numbers, there).any())

    def enlarge_window(self, entries: int) -> None:
        """Let the fast path add a row of this many entries to the window of centering, for one of the first rows."""
        means = self.centering
        if means is not None and means.watches and not means.has_memory(entries):
            self.replace(centering=means.with_larger_window(entries))

    # --- reading ------------------------------------------------------------------------------

    @abstractmethod
    def scores(self, chunk: Chunk) -> Floats:
        """Return the scores of rows, by the averages if they are kept."""

    @abstractmethod
    def variances(self, chunk: Chunk) -> Floats:
        """Return the variances of the scores of rows, times the dispersion of the loss."""

    @abstractmethod
    def weights(self, features: int, averaged: bool) -> Floats:
        """Return the first `features` weights, or their averages; beyond the arrays those of an unseen feature."""

    @abstractmethod
    def stiffness(self, features: int) -> Floats:
        """Return the cost of a squared change of each of the first weights, if step sizes store it; else 1.

        That is the curvature of the loss along the weight.
        """

    @abstractmethod
    def intercept_stiffness(self) -> float:
        """Return the `stiffness` of the intercept, whose value is 1 in every row; 0 without one."""

    @property
    @abstractmethod
    def knows_scales(self) -> bool:
        """Whether the size of values is stored for every feature."""

    @abstractmethod
    def scales(self, features: int) -> Floats:
        """Return the size of the values of each of the first features, 0 if never seen; 1 if that is not stored."""

    def intercept_weight(self, averaged: bool) -> Any:
        """Return the intercept of every score, or its average, of rows as they come; 0 without one."""
        return self.uncentered(self.working_intercept(averaged), averaged) + self.origin

    @abstractmethod
    def working_intercept(self, averaged: bool) -> Any:
        """Return the intercept of every score, or its average, of centered rows; 0 without one."""

    def predictions(self, scores: Floats) -> Floats:
        """Replace scores by the predictions that the loss makes from them, in place."""
        from fiol.engine.round.reading import predict_all

        self.call(predict_all, self.plan.problem.loss, scores)
        return scores

    def mean_loss(self, scores: Floats, y: Floats, sample_weights: Floats, order: Any = IN_ORDER) -> float:
        """Return the weighted mean of the losses of scores, all or those in `order`; 0 if no row has weight."""
        from fiol.engine.round.reading import total_loss

        total, mass = self.call(total_loss, self.plan.problem.loss, scores, order, y, sample_weights)
        return total / mass if mass > 0.0 else 0.0

    def weighed(self, features: int) -> Any:
        """Return which of the first features have a weight other than 0 with any live member of an ensemble."""
        raise NotImplementedError  # an update has no members

    def report(self, features: int) -> list[Any]:
        """Return the members of an ensemble with weights and losses, see `EnsembleEngine.report`; [] for an update."""
        return []

    def alone(self, k: int) -> Engine:
        """Return a copy of the engine of member k of an ensemble."""
        raise NotImplementedError  # an update has no members

    @property
    def progressive_loss(self) -> float:
        """The mean loss of an ensemble's scores, each from before its row was learned from, by sample weights.

        An update stores no losses: TypeError.
        """
        raise TypeError(
            "only an ensemble stores its progressive loss: take the mean loss of the scores that `learn` returns, or "
            "use fiol.regret.Ledger"
        )

    @property
    def mixing(self) -> Floats:
        """The weight of each member's score in an ensemble; empty for an update."""
        return np.empty(0)

    # --- the state as a whole -----------------------------------------------------------------

    @abstractmethod
    def add_scores(self, places: Any, scores: int) -> None:
        """Have more scores, of which places[k] is the old score k; the others are as before the first round."""

    @abstractmethod
    def arrays(self) -> dict[str, Any]:
        """Return everything that changes while learning, by name."""

    @property
    @abstractmethod
    def needed_arrays(self) -> tuple[str, ...]:
        """Arrays that are never taken from a new model where a file lacks them: the others were added later."""

    @abstractmethod
    def restore(self, arrays: dict[str, Any]) -> None:
        """Copy the arrays of an engine with the same plan; ValueError if they do not fit."""

    def rewind_observer(self, arrays: dict[str, Any]) -> None:
        """Take the observer back to its own mark in that of an engine."""
        if self.observer is not None and "mark" in arrays:
            self.observer.rewind(arrays["mark"])

    @property
    def revocable(self) -> tuple[Engine, ...]:
        """For a `Transaction`: this engine in the interpreter, where a component may raise in any row."""
        return () if self.compiled else (self,)

    def mark(self) -> dict[str, Any]:
        """Return a token for `rewind`: copies of `arrays`, and the observer's mark."""
        mark = None if self.observer is None else self.observer.mark()
        return {**{name: a.copy() for name, a in self.arrays().items()}, "mark": mark}

    def rewind(self, mark: dict[str, Any]) -> None:
        """Take back all rounds since the mark."""
        self.restore(mark)

    @abstractmethod
    def select(self, kept: Any) -> None:
        """Keep these features only, in this order."""

    @abstractmethod
    def copy(self) -> Engine:
        """Return an engine with its own copy of the state."""

    @abstractmethod
    def placed(self, places: Any, features: int, score_places: Any = None, scores: int | None = None) -> Engine:
        """Return a copy, brought up to date, with this many features, of which places[i] is the old feature i.

        The others are as a feature never seen. With `scores`, the same for scores: see `add_scores`.
        """
