"""`LearnerCore`: the state of a `Learner`, and what the rest of the package calls on it."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fiol.algorithms.ensemble import Ensemble
from fiol.algorithms.update import Update
from fiol.components.row import Floats, Indices
from fiol.components.subproblem import expect
from fiol.engine.engine import IN_ORDER, Engine
from fiol.engine.ensemble.engine import make_engine
from fiol.engine.levels_engine import LevelsEngine
from fiol.engine.single_row.fast_path import target_of
from fiol.engine.single_row.learning import learn_numbered
from fiol.features.blocks import scattered
from fiol.features.chunk import MOST_FEATURES, Chunk
from fiol.features.feature_space import FeatureSpace, counted
from fiol.features.labels import labels_of_rows
from fiol.features.missing_values import name_indicators
from fiol.features.numbered_rows import NumberedRow, number_arrays, one_row
from fiol.features.targets import check_sample_weights
from fiol.features.transaction import Transaction
from fiol.features.vocabulary import Vocabulary
from fiol.learner.arguments import (
    check_dtype,
    check_flag,
    check_levels,
    fixed_features,
    labels_for,
    plans_of,
    table_encoding_given,
)
from fiol.learner.model_core import ModelCore, known_classes
from fiol.persistence import records
from fiol.summary import root_mean_squares


class LearnerCore(ModelCore):
    """The state of a `Learner`: its update, its engine and its features.

    `make_learner_core` builds one from the arguments of a `Learner`.

    >>> from fiol import FIOL, Learner, Squared, to_chunk
    >>> core = Learner(FIOL(Squared()), n_features=1, intercept=False).core
    >>> core.learn_canonical(to_chunk([[1.0], [2.0]]), np.array([1.0, 2.0]), np.ones(2)).shape, core.rounds
    ((2,), 2)
    """

    def __init__(
        self,
        update: Update | Ensemble,
        space: FeatureSpace,
        engine: Engine,
        intercept: bool,
        average: bool,
        dtype: Any,
        compiled: bool,
    ) -> None:
        super().__init__(update, space, intercept, average, dtype, compiled)
        self.engine = engine
        self.whole_rows = not update.geometry.reparametrization().is_identity  # rows change before the engine sees them

    # --- state ----------------------------------------------------------------------------------

    @property
    def rounds(self) -> int:
        return self.engine.rounds

    @property
    def rows(self) -> int:
        return self.engine.rows

    @property
    def nbytes(self) -> int:
        return self.engine.nbytes

    @property
    def row_cost(self) -> float:
        """The cost of a round besides the entries of its row: see `Engine.row_cost`."""
        return self.engine.row_cost

    @property
    def counts_unseen(self) -> bool:
        """Whether a feature that was never seen has a weight."""
        return self.space.counts_unseen

    @property
    def numbered(self) -> bool:
        """Whether features are the columns of a matrix, not names or hashes."""
        return self.space.encoder is None

    @property
    def levels(self) -> LevelsEngine | None:
        return self.engine if isinstance(self.engine, LevelsEngine) else None

    def options(self) -> dict[str, Any]:
        return {**super().options(), "max_features": self.space.max_features}

    def header(self) -> dict[str, Any]:
        return {**super().header(), "statistics": list(self.update.statistics())}

    def arrays(self) -> dict[str, Any]:
        return self.engine.arrays()

    def stored_arrays(self) -> dict[str, Any]:
        return self.arrays_of(self.space.features)

    def arrays_of(self, features: int) -> dict[str, Any]:
        """Return `arrays` without room for more than these features."""
        arrays = self.arrays()
        if self.levels is not None:  # levels have features of their own
            return arrays
        entries = features * self.update.geometry.reparametrization().weights_per_feature
        return {
            name: array[:entries] if name.rpartition("/")[2].startswith("state.") else array
            for name, array in arrays.items()
        }

    def restore(self, header: dict[str, Any], arrays: dict[str, Any]) -> None:
        self.space.restore(header)
        self.engine.restore(records.fill_missing(arrays, self.arrays(), self.engine.needed_arrays))
        self.note_columns()

    def with_engine(self, engine: Engine, space: FeatureSpace) -> LearnerCore:
        """Return a core with the same update and options, and this engine and space, not copies."""
        options = self.intercept_fitted, self.averages, self.dtype, self.compiled
        new = LearnerCore(self.update, space, engine, *options)
        new.note_columns()
        return new

    def copy(self) -> LearnerCore:
        new = self.with_update(self.update)
        new.engine.restore(self.arrays())
        new.note_columns()
        return new

    def note_columns(self) -> None:
        """Pass on to the engine which columns features belong to, and which of them stand for missing values."""
        if self.levels is not None:
            self.levels.roles = self.space.roles
        if not self.whole_rows and self.space.indicators is not self.engine.indicators:
            self.engine.set_indicators(self.space.indicators)

    def name_missing(self) -> None:
        space, centering = self.space if self.space.outer is None else self.space.outer, self.engine.centering
        if space.table_encoding is not None and isinstance(space.encoder, Vocabulary):
            centered = [] if centering is None else centering.features.tolist()
            every = range(space.features) if self.levels is not None else centered
            name_indicators(every, space.encoder, space.table_encoding)
            space.features = space.encoder.size
            self.note_columns()

    def with_update(self, update: Update | Ensemble) -> LearnerCore:
        """Return a core with another update and the same options, features and classes, before its first round."""
        new = make_learner_core(update, **self.options(), classes=known_classes(self), compiled=self.compiled)
        new.space.restore(self.space.header())
        return new

    def mark(self) -> Any:
        return self.engine, self.engine.mark(), self.space.mark()

    def rewind(self, mark: Any) -> None:
        self.engine, rounds, features = mark
        self.engine.rewind(rounds)
        self.space.rewind(features)

    def extend(self, features: int) -> None:
        """Grow to at least `features` features, unless their number is fixed."""
        if self.space.width is None:
            self.space.features = max(self.space.features, features)

    # --- classes --------------------------------------------------------------------------------

    def add_classes(self, classes: list[Any]) -> None:
        """Number new classes, whose weights start at 0; all of them or none."""
        labels = self.labels
        if labels is None:
            raise TypeError(f"{type(self.update.loss).__name__} has one score, not one per class")
        with self.space.transaction():
            new = labels.add(labels_of_rows(classes, None, labels))
            if new:
                self.add_scores(len(labels))

    def add_scores(self, scores: int) -> None:
        """Replace the engine by a copy with this number of scores."""
        engine = self.engine.copy()
        engine.add_scores(np.arange(engine.trailing[0]), scores)
        self.engine = engine

    def open_classes(self) -> None:
        """Accept new classes from now on."""
        if self.labels is None:
            raise TypeError(f"{type(self.update.loss).__name__} has one score, not one per class")
        self.labels.closed = False

    def rename(self, classes: Sequence[Any]) -> None:
        """Replace the labels of the classes, in their order."""
        assert self.labels is not None
        self.labels.arrange(classes)

    # --- learning from chunks -------------------------------------------------------------------

    def learn_container(self, X: Any, y: Any, sample_weights: Floats) -> Floats:
        if self.space.max_features is not None:
            return self.learn_bounded(X, y, sample_weights)
        return super().learn_container(X, y, sample_weights)

    def learn_encoded(self, chunk: Chunk, y: Any, sample_weights: Floats, order: Any = IN_ORDER) -> Floats:
        chunk, labels = self.entered(chunk), self.labels
        if labels is None:
            return self.engine.learn(chunk, y, sample_weights, order)
        codes, first = labels.code(y if order is IN_ORDER else [y[k] for k in order])
        if order is not IN_ORDER:
            codes = scattered(codes, order, chunk.rows)
        if not first.size:
            return self.engine.learn(chunk, codes, sample_weights, order)
        if order is not IN_ORDER:
            scores = self.learn_new_classes(chunk.take(order), codes[order], sample_weights[order], first)
            return scattered(scores, order, chunk.rows)
        return self.learn_new_classes(chunk, codes, sample_weights, first)

    def learn_new_classes(self, chunk: Chunk, codes: Any, sample_weights: Floats, first: Any) -> Floats:
        """Make a round per row, where each of the rows `first` is the first of a new class."""
        before, scores = self.engine, []
        self.engine = before.copy()
        try:
            for start, stop in itertools.pairwise([0, *first.tolist(), chunk.rows]):
                if start < stop:
                    block = chunk.row_block(start, stop)
                    scores.append(self.engine.learn(block, codes[start:stop], sample_weights[start:stop]))
                if stop < chunk.rows:
                    known = self.engine.trailing[0]
                    self.engine.add_scores(np.arange(known), known + 1)
        except BaseException:
            if self.engine.rounds > before.rounds:  # interrupted: forget the classes whose first row was not reached
                labels = self.labels
                assert labels is not None
                labels.arrange(labels.classes[: self.engine.trailing[0]])
            else:
                self.engine = before
            raise
        return self.join_scores(scores)

    def learn_bounded(self, X: Any, y: Any, sample_weights: Floats) -> Floats:
        """Make a round per row with at most `max_features` features, all or none."""
        scores, before = list[Floats](), None

        def saved() -> Any:
            return before or (self.engine, self.engine.mark())

        def drop_zeros() -> int:
            nonlocal before
            before = saved()
            return self.prune()

        try:
            for start, chunk in self.space.blocks(X, drop_zeros):
                if chunk.rows < len(y):
                    before = saved()
                stop = start + chunk.rows
                scores.append(self.learn_encoded(chunk, y[start:stop], sample_weights[start:stop]))
        except BaseException:
            if before is not None:
                self.engine, mark = before
                self.engine.rewind(mark)
            raise
        return self.join_scores(scores)

    def learn_canonical(self, chunk: Chunk, y: Any, sample_weights: Floats, order: Any = IN_ORDER) -> Floats:
        """Make a round per row of known features, with checked targets or codes of known classes.

        Warns if a score is not finite.
        """
        scores = self.engine.learn(self.entered(chunk), y, sample_weights, order)
        self.warn_if_not_finite(scores)
        return scores

    def entered(self, chunk: Chunk) -> Chunk:
        """Return the rows in the coordinates of the geometry, after passing the columns of features to the engine."""
        self.note_columns()
        if self.levels is not None:
            return chunk
        return Chunk(*self.update.geometry.reparametrization().transform_rows(chunk, self.space.features))

    # --- learning from single rows --------------------------------------------------------------

    def fast_learn_row(self, indices: Any, values: Any, y: Any, sample_weight: Any) -> float | None:
        """Make the round of a row given as arrays, and return its score before; None, and no round, for other rows."""
        z = self.engine.fast_path.learn_arrays(indices, values, y, sample_weight, self.space.features)
        if z is not None:
            return z if math.isfinite(z) else self.warn_if_score_not_finite(z)  # type: ignore[no-any-return]
        row = number_arrays(indices, values)
        return None if row is None else self.fast_learn_numbered(row, y, sample_weight)

    def fast_learn_dict(self, row: Any, y: Any, sample_weight: Any, *outer: FeatureSpace) -> float | None:
        """Make the round of a dict and return its score before; None, and no round, if it needs `learn`.

        The first of the `outer` spaces numbers its names, or the learner's own.
        """
        spaces = *outer, self.space
        if self.whole_rows or not self.engine.learns_single_rows:
            return None
        with Transaction(*spaces, learner=self) as taken:
            numbered = spaces[0].number_dict(row, learning=True)
            z = None if numbered is None else self.fast_learn_numbered(numbered, y, sample_weight)
            if z is None:
                taken.rewind()
        return z

    def fast_learn_numbered(self, row: NumberedRow, y: Any, sample_weight: Any) -> float | None:
        """Make the round of a numbered row and return its score before; None, and no round, if it needs `learn`.

        A feature that was never seen is new, unless the number of features is fixed.
        """
        target, weight, space = target_of(y), target_of(sample_weight), self.space
        if target is None or weight is None or self.whole_rows:
            return None
        features, rounds = space.features, self.rounds
        self.extend(row.features)
        if space.table_encoding is not None or space.outer is not None:
            self.note_columns()
        try:
            z = learn_numbered(self.engine, row, target, weight, space.features)
        finally:
            if self.rounds == rounds:
                space.features = features
        self.warn_if_score_not_finite(z)
        return z

    def learn_dict(self, features: Any, y: Any, sample_weight: Any) -> Any:
        """Make the round of any dict of features, and return its score before."""
        z = self.fast_learn_dict(features, y, sample_weight)
        if z is not None:
            return z
        with self.transaction():
            if self.space.max_features is None:
                row = one_row(*self.space.encode_row(features))
                targets, weights = self.check_targets([y], 1), check_sample_weights([sample_weight], 1)
                scores = self.learn_encoded(row, targets, weights)
            else:
                X, _ = counted([features])
                targets, weights = self.check_targets([y], 1), check_sample_weights([sample_weight], 1)
                scores = self.learn_container(X, targets, weights)
            self.warn_if_not_finite(scores)
            return only_score(scores)

    # --- scoring --------------------------------------------------------------------------------

    def score_canonical(self, chunk: Chunk) -> Floats:
        return self.engine.scores(self.entered(chunk))

    def fast_score_dict(self, row: Any, *outer: FeatureSpace, predict: bool = False) -> float | None:
        """Return the score of a dict, or its prediction; None if it needs `scores`. See `fast_learn_dict`."""
        numbered = (*outer, self.space)[0].number_dict(row, learning=False)
        return None if numbered is None else self.fast_score_numbered(numbered, predict=predict)

    def fast_score_row(self, indices: Any, values: Any) -> float | None:
        """Return the score of a row given as arrays; None if it needs `scores`."""
        limit = MOST_FEATURES if self.space.width is None else self.space.width
        z = self.engine.fast_path.score_arrays(indices, values, limit)
        if z is not None:
            return z
        row = number_arrays(indices, values)
        return None if row is None else self.fast_score_numbered(row, limit)

    def fast_score_numbered(self, row: NumberedRow, limit: int = MOST_FEATURES, predict: bool = False) -> float | None:
        """Return the score of a numbered row with features below `limit`, or its prediction; None for other rows."""
        return None if self.whole_rows else self.engine.score_numbered(row, limit, predict)

    def score_dict(self, features: Any, predict: bool = False) -> Any:
        z = self.fast_score_dict(features, predict=predict)
        if z is not None:
            return z
        if self.space.max_features is not None:
            scores = self.scores(counted([features])[0])
        else:
            scores = self.score_canonical(one_row(*self.space.read_row(features)))
        return self.predictions(scores)[0] if predict else only_score(scores)

    def predictions(self, scores: Floats) -> Any:
        if self.labels is None:
            return self.engine.predictions(scores)
        loss = self.update.loss
        return softmax(loss.link_factor * scores) if loss.link == "logit" else self.best_labels(scores)

    def mean_loss(self, scores: Floats, y: Any, sample_weights: Floats, order: Any = IN_ORDER) -> float:
        """Return the weighted mean loss of scores; y are targets, or the codes of classes."""
        return self.engine.mean_loss(scores, y, sample_weights, order)

    # --- weights --------------------------------------------------------------------------------

    def weights(self, averaged: bool | None = None, features: int | None = None) -> Floats:
        """Return the weights of the first `features` features, by default of all, up to date.

        `averaged` chooses between averages and the weights of the last round; by default averages if they are kept.
        """
        to = self.update.geometry.reparametrization()
        n = to.weights_per_feature * (self.space.features if features is None else features)
        w = to.restore_weights(self.engine.raw_weights(n, self.averages if averaged is None else averaged))
        return w if w.ndim == 1 else np.ascontiguousarray(w.T)

    def intercept(self, averaged: bool | None = None) -> Any:
        return self.engine.intercept_weight(self.averages if averaged is None else averaged)

    def nonzero(self, averaged: bool) -> Any:
        """Return a mask of features whose weight is not 0 for any class, or of any member of a nonlinear model."""
        if not self.update.is_linear():
            return self.engine.weighed(self.space.features)
        weights = self.weights(averaged)
        return weights != 0.0 if weights.ndim == 1 else weights.any(axis=0)

    def scales(self, features: int | None = None) -> Floats:
        n = self.space.features if features is None else features
        return np.ones(n) if self.whole_rows else self.engine.scales(n)

    def root_mean_squares(self) -> Floats:
        engine: Any = self.engine
        known_by = min(member.stiffness_known_by for member in getattr(engine, "members", None) or [engine])
        if known_by > 1 or self.whole_rows:
            return self.scales()
        largest = self.scales() if engine.knows_scales else np.full(self.space.features, np.inf)
        stiffness = self.stiffness()
        if self.levels is not None and self.levels.basis is not None:
            stiffness = self.levels.basis.less_inherited(stiffness)
        return root_mean_squares(largest, stiffness, engine.intercept_stiffness())

    def missing_of_centered(self) -> tuple[Indices, Indices, Floats]:
        engine = self.engine if self.levels is None else self.levels.levels[-1]
        if engine.centering is None:
            return np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0)
        known = engine.centering
        there = (known.missing >= 0) & (known.missing < self.feature_count)
        return known.features[there], known.missing[there], known.means[there]

    def centered_means(self) -> Floats:
        means, engine = np.zeros(self.feature_count), self.engine if self.levels is None else self.levels.levels[-1]
        if engine.centering is not None and not self.whole_rows:
            means[engine.centering.features] = engine.centering.means
        return means

    def stiffness(self) -> Floats:
        """Return the cost of a squared change of every weight, as far as it is known: see `Engine.stiffness`."""
        n = self.space.features
        return np.ones(n) if self.whole_rows else self.engine.stiffness(n)

    def settle(self) -> None:
        self.engine.settle()

    def start_from(self, weights: Any, intercept: Any) -> None:
        """Begin with these weights; raises for weights of another shape or beyond the range of the dtype."""
        if self.rounds or not self.update.starts_anywhere():
            raise TypeError("only a learner before its first round, anchored at LastIterate(), can start elsewhere")
        w, classes, space = np.array(weights, np.float64), self.engine.trailing, self.space
        given = w.size if not classes else w.shape[-1] if w.ndim else 0
        features = space.features if space.width is not None else max(space.features, given)
        if w.shape != (*classes, features):
            each = f"for each of {classes[0]} classes and " if classes else "for each of "
            raise ValueError(f"weights must have one entry {each}{features} features, got shape {w.shape}")
        shift = np.broadcast_to(np.asarray(intercept, np.float64), classes)
        if not (np.isfinite(w).all() and np.isfinite(shift).all()):
            raise ValueError("weights and intercept must be finite")
        if max(np.abs(w).max(initial=0.0), np.abs(shift).max(initial=0.0)) > np.finfo(self.dtype).max:
            raise OverflowError('weights or intercept leave the range of float32: use dtype="float64"')
        self.engine.start_from(np.ascontiguousarray(w.T), shift)
        space.features = features

    def negated(self) -> LearnerCore:
        """Return a copy whose scores have the opposite sign; before its first round if weights must have a sign."""
        if not self.update.is_symmetric():
            return make_learner_core(self.update, **self.options(), compiled=self.compiled)
        new = self.copy()
        new.engine.restore({name: negated_array(name, array) for name, array in self.arrays().items()})
        return new

    def truncated(self, max_nonzero: int, X: Any) -> LearnerCore:
        """Return a core with at most `max_nonzero` weights of this one: see `Learner.truncated`."""
        if self.levels is not None:
            raise TypeError('a model with curves and pairs cannot be truncated: train one with features="linear"')
        w = self.weights()
        squares = w * w if w.ndim == 1 else np.mean(w * w, axis=0)
        cost = squares * (self.stiffness() if X is None else self.moments(X)[1])
        w[..., np.lexsort((-squares, -cost))[max_nonzero:]] = 0.0
        new = self.with_update(Update(self.update.loss))
        new.start_from(w, self.intercept())
        return new

    def member(self, k: int | None) -> LearnerCore:
        """Return a core that continues from member k of an ensemble: see `Learner.member`."""
        if not isinstance(self.update, Ensemble):
            raise TypeError(f"only an ensemble has members, this learner has {self.update.brief()}")
        if self.levels is not None:
            raise TypeError("members of a model with curves and pairs are its levels: none of them is a model alone")
        members = self.engine.report(self.space.features)
        if k is None:
            k = min(range(len(members)), key=lambda j: (members[j].overflowed, members[j].loss))
        if not -len(members) <= operator.index(k) < len(members):
            raise IndexError(f"there are members 0 to {len(members) - 1}, got {k!r}")
        k = range(len(members))[k]
        if self.update.gate is not None and members[k].update is not self.update.gate:
            raise TypeError("members behind a gate have not seen all of the rows: they are none alone")
        new = self.with_update(members[k].update)
        new.engine = self.engine.alone(k)
        new.note_columns()
        return new

    def prune(self) -> int:
        """Drop all features whose last weight is exactly 0 and return their number."""
        if not isinstance(self.space.encoder, Vocabulary):
            raise TypeError("features are numbered by the caller here: prune() needs named features or max_features")
        with self.space.transaction():
            kept, engine = np.flatnonzero(self.nonzero(averaged=False)), self.engine
            before = engine.storage_in_use()
            dropped = self.space.features - kept.shape[0]
            try:
                if dropped:
                    each = self.update.geometry.reparametrization().weights_per_feature
                    engine.select((each * kept[:, None] + np.arange(each)).ravel())
                    self.space.keep(kept)
                    self.note_columns()
            except BaseException:  # both or neither
                engine.put_back(before)
                raise
            return dropped


def negated_array(name: str, array: Any) -> Any:
    """Return what an array of an engine would be if all targets had the opposite sign."""
    if name.endswith(".origin"):  # and how many targets there were
        return array * np.array([-1.0, 1.0])
    return -array if name.endswith((".w", ".total", ".targets")) else array


def make_learner_core(
    update: Update | Ensemble,
    *,
    n_features: int | None = None,
    bits: int | None = None,
    max_features: int | None = None,
    table_encoding: Any = None,
    intercept: bool = True,
    average: bool = False,
    dtype: Any = "float64",
    classes: Sequence[Any] | None = None,
    compiled: bool = True,
) -> LearnerCore:
    """Return the core of a learner before its first round; TypeError or ValueError for arguments that are wrong."""
    expect("update", update, Ensemble if isinstance(update, Ensemble) else Update)
    for name, flag in (("intercept", intercept), ("average", average), ("compiled", compiled)):
        check_flag(name, flag)
    intercept, average, dtype = bool(intercept), bool(average), check_dtype(dtype)
    plans = plans_of(update, average)
    width = fixed_features(update, plans, n_features, bits, max_features)
    counts_unseen = any(plan.first_weight(1) != 0.0 for plan in plans)
    space = FeatureSpace(
        width, bits, max_features, counts_unseen, table_encoding=table_encoding_given(table_encoding, width, bits)
    )
    labels = space.labels = labels_for(update, classes)
    size = update.geometry.reparametrization().weights_per_feature * space.features
    scores = None if labels is None else len(labels)
    if isinstance(update, Ensemble) and update.basis is not None:
        check_levels(bits, max_features)
        level = make_engine(replace(update, basis=None), plans, size, intercept, average, dtype, compiled, scores)
        engine: Engine = LevelsEngine(update, level)  # type: ignore[arg-type]
    else:
        engine = make_engine(update, plans, size, intercept, average, dtype, compiled, scores)
    return LearnerCore(update, space, engine, intercept, average, dtype, compiled)


def only_score(scores: Floats) -> Any:
    """Return the score of the only row: a number, or an array with one per class."""
    return scores[0] if scores.ndim > 1 else float(scores[0])


def softmax(scores: Floats) -> Floats:
    """Return the probabilities of classes, one row per row of scores.

    >>> softmax(np.array([[0.0, 0.0], [1000.0, 0.0]]))
    array([[0.5, 0.5],
           [1. , 0. ]])
    """
    if not scores.shape[1]:
        return scores
    p: Floats = np.exp(scores - scores.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)
