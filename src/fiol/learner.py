"""The learner: a stream of rows in, scores before learning out."""

from __future__ import annotations

import copy
import itertools
import math
import operator
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from fiol.components.component import per_feature_sizes
from fiol.components.geometries import Euclidean
from fiol.components.joint_losses import AnyLoss, JointLoss
from fiol.components.losses import Logistic, Loss
from fiol.components.problem import expect
from fiol.components.regularizers import Regularizer, Unregularized
from fiol.components.row import Floats
from fiol.engine.at_hand import second_look
from fiol.engine.engine import IN_ORDER, Engine
from fiol.engine.ensemble import Member, make_engine
from fiol.engine.merging import merge_engines, shares_of
from fiol.engine.pooling import in_threads, learn_in_rounds
from fiol.files import recipe, records
from fiol.files.model import Path, build_model, read_model, register_kind, write_model
from fiol.intake.blocks import blocks_of, check_order, learned_in_blocks, learned_in_chunks, padded, scattered
from fiol.intake.chunk import MOST_FEATURES, Chunk
from fiol.intake.coding import Coding
from fiol.intake.file_header import check_header, classes_in
from fiol.intake.frames import as_list
from fiol.intake.hashing import Hashing, integer
from fiol.intake.intake import Intake, counted, one_row
from fiol.intake.labels import AnyLabels, Labels, check_classes, labels_from_header, labels_of_rows
from fiol.intake.targets import check_sample_weights, check_targets
from fiol.intake.transaction import Transaction
from fiol.intake.turns import Turns
from fiol.intake.uniting import Places, check_places, united
from fiol.intake.vocabulary import Vocabulary
from fiol.presets import Stacked
from fiol.snapshot import Snapshot, scores_in_turn
from fiol.summary import SHOWN, Summary, by_importance, deviations
from fiol.update.ensemble import Ensemble
from fiol.update.plan import Plan, make_plan
from fiol.update.update import Update

Self = TypeVar("Self", bound="Learner")
#: What `Learner.save` writes.
KIND = "learner"


class Learner:
    """A linear model that learns from a stream, one exact round per row.

    Parameters
    ----------
    update : what happens in a round: an `Update`, most easily one of `fiol.presets`; or an `Ensemble` of them, whose
        weights, scores and predictions are those of the one linear model it makes. By default `Stacked(loss,
        regularizer)`, an ensemble with nothing to tune.
    loss, regularizer : instead of an update: a loss, `Logistic()` by default, and a penalty, none by default.
    n_features : how many features there are. By default the model grows as new ones appear in dicts, sparse rows and
        chunks. Arrays and frames have as many columns as the first one that was learned from.
    bits : fold all features, named or numbered, into 2**bits by hashing.
    classes : with a joint loss (`Softmax()`, `CrammerSinger()`), the labels of all classes there are. By default
        classes may appear at any time; the weights of a new one start at 0.
    max_features : hold at most so many features. When a row needs more, those whose weight is exactly 0 are
        dropped; one that comes back later starts anew.
    coding : how columns of frames become features: a dict from columns to kinds ("category", "words", "date", ...), a
        `Coding`, or None, which leaves it to the first frame: docs/columns.md.
    intercept : whether there is one. It is never penalised.
    average : keep the average of the weights over all rounds, and predict with it.
    dtype : how the numbers per feature are stored, "float64" or "float32". All arithmetic is in float64. Values are 0
        or from 1e-100 to 1e100 in size, for float32 from 1e-30 to 1e30; rows after which a weight or statistic is
        beyond float32 are an OverflowError.
    compiled : False runs the same code in the interpreter.

    The same rows give the same bits however they are cut into chunks, whatever holds them, and whether or not
    the learner was saved and loaded in between. Every weight is what a loop over all features in every round
    would have made of it, at a cost that depends on the entries of a row alone (`fiol.update.laziness` has the few
    exceptions). If anything is wrong with a chunk, an error names the place and nothing has been learned from it.

    Rounds are exact for steps from 1e-12 to 1e12, and for longer ones, while the pull beta of a row is a double with
    all its digits, at least 1e-308. It is about the row's error divided by the sum of step x^2, so that only absurd
    numbers get there; below, weights miss the row's target by what is lost of beta, and no error says so.
    (`solve_step` looks at every step, and refuses those.)

    Threads may share a learner: every call is one turn, and the others wait. So whatever they do, the result is that of
    the same calls in some order, one after the other; what is read, saved, pickled, copied or merged is one moment
    between two calls. (`rounds`, `rows` and `n_features` do not wait: they tell how far learning has come.) Reading
    changes nothing. `snapshot()` is a scorer that never changes, for threads that must not wait.

    A signal stops learning within a fraction of a second, in the middle of a chunk. The exception, such as
    KeyboardInterrupt, says how many rows have been learned from, as `rows_learned` and in a note; without that
    attribute there are none, or all if the signal came while the call returned: `rounds` tells. To go on, leave these
    rows out: the result is that of learning without a break.

    Memory beyond the data is `nbytes`: 8 bytes per feature (4 for float32), and 8 more for a mark if absent
    features have to catch up; as much again for each of AdaGrad's sums and the scale-free maxima; 8 for averages.

    Examples
    --------
    >>> from fiol import FIOL, L1, Learner, Logistic
    >>> learner = Learner()  # logistic loss, nothing to tune
    >>> scores = learner.learn([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [1, -1, 1])
    >>> scores.shape, learner.rounds, len(learner.members)
    ((3,), 3, 7)

    One exact learner of the paper, with a penalty:

    >>> learner = Learner(FIOL(Logistic(), L1(0.01)))
    >>> scores = learner.learn([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [1, -1, 1])
    >>> scores.shape, learner.rounds, learner.n_features
    ((3,), 3, 2)
    >>> learner.predict([[1.0, 0.0]]) > 0.5  # the probability of +1
    array([ True])

    Dicts of named features, one at a time:

    >>> clicks = Learner(FIOL(Logistic()))
    >>> for day in range(3):
    ...     score = clicks.learn_named({"site": "news", "hour": 9 + day}, y=1)
    >>> clicks.names
    ['site=news', 'hour']

    With a loss of one score per class, y holds labels, scores are of shape (rows, classes) and weights of shape
    (classes, features):

    >>> from fiol import Softmax
    >>> fruit = Learner(FIOL(Softmax()))
    >>> fruit.learn([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], ["apple", "pear", "pear"]).shape, fruit.classes
    ((3, 2), ['apple', 'pear'])
    >>> fruit.predict([[1.0, 0.0]]).shape  # the probability of each class
    (1, 2)
    """

    def __init__(
        self,
        update: Update | Ensemble | None = None,
        *,
        loss: AnyLoss | None = None,
        regularizer: Regularizer | None = None,
        n_features: int | None = None,
        bits: int | None = None,
        max_features: int | None = None,
        coding: Any = None,
        intercept: bool = True,
        average: bool = False,
        dtype: Any = "float64",
        classes: Sequence[Any] | None = None,
        compiled: bool = True,
    ) -> None:
        update = chosen_update(update, loss, regularizer)
        expect("update", update, Ensemble if isinstance(update, Ensemble) else Update)
        for name, flag in (("intercept", intercept), ("average", average), ("compiled", compiled)):
            check_flag(name, flag)
        self.update = update
        self.intercept_fitted, self.averages, self.dtype = bool(intercept), bool(average), check_dtype(dtype)
        self.compiled = compiled
        self.meta: dict[str, Any] = {}  #: yours: any JSON values, kept in copies and files
        self.ledger: Any = None  #: the `fiol.regret.Ledger` that rides along, if there is one
        self._turns: Any = Turns()
        plans = plans_of(update, self.averages)
        if max_features is not None:
            check_size("max_features", max_features)
        width = fixed_features(update, plans, n_features, bits, max_features)
        counts_unseen = any(plan.first_weight(1) != 0.0 for plan in plans)
        self._intake = Intake(width, bits, max_features, counts_unseen, coding=coding_given(coding, width, bits))
        labels = self._intake.labels = labels_for(update, classes)
        self._whole_rows = update.geometry.whole_rows  # rows do not enter the geometry as they are
        size = update.geometry.entered(self._intake.features)
        many = None if labels is None else len(labels)
        #: Plan, state and rounds: for the rest of the package, which works with the engine of a learner in its turn.
        self.engine = make_engine(update, plans, size, bool(intercept), self.averages, self.dtype, compiled, many)

    # --- learning -----------------------------------------------------------------------------

    def learn(self, X: Any, y: Any, sample_weight: Any = None) -> Floats:
        """One round per row, in order; returns the score of each row before its round.

        X is a scipy sparse matrix, an array or nested list, a pandas or polars frame, an arrow table, or a list of
        dicts; frames may have texts, dates and missing values (`coding`). y has one target per row (-1 or +1 for binary
        losses; a label, str, int or bool, for joint ones); sample_weight multiplies the loss. Scores of a joint loss
        have a column per class known after the call, which is 0 in the rows before the first one of the class: until
        then nobody knew of it. A generator of dicts is read 4096 rows at a time, and each such block is learned from
        whole or not at all; an error says how many rows were learned from before, as `rows_learned`.

        A row's score is what `scores` would have said just before the row, but for one case: `ScaleFree` steps, the
        default ones, begin the round of a value larger than all before it (farther from the mean, if it is centred) by
        shrinking its weight, and the score that the round's equation starts from, which is returned, is that of the
        weights so shrunk.

        >>> from fiol import FIOL, Learner, Squared
        >>> learner = Learner(FIOL(Squared()), intercept=False)
        >>> learner.learn([[1.0], [float("nan")]], [1.0, 2.0])
        Traceback (most recent call last):
        ValueError: X[1, 0] must be finite, got nan
        >>> learner.rounds
        0
        """
        X, rows = counted(X)
        if rows is None:
            scores = self._joined(learned_in_blocks(self._learn_rows, X, self._targets(y, None), sample_weight))
            self._watch(scores)
            return scores
        with self._turns, self._intake.transaction(learner=self):
            scores = self._learn_all(X, self._targets(y, rows), check_sample_weights(sample_weight, rows))
            self._watch(scores)
            return scores

    def _targets(self, y: Any, rows: int | None) -> Any:
        """One target per row that the loss accepts, or one label; None is any number of rows."""
        loss = self.update.loss
        return check_targets(y, rows, loss) if isinstance(loss, Loss) else labels_of_rows(y, rows, self._intake.labels)

    def _learn_rows(self, X: Any, y: Any, sample_weights: Floats) -> Floats:
        """A round per row, all or nothing, or as many as the exception says."""
        with self._turns, self._intake.transaction(learner=self):
            return self._learn_all(X, y, sample_weights)

    def _learn_all(self, X: Any, y: Any, sample_weights: Floats) -> Floats:
        """`_learn_rows`; call it inside a transaction."""
        if self._intake.max_features is not None:
            return self._learn_bounded(X, y, sample_weights)
        return self._rounds(self._intake.take_in(X), y, sample_weights)

    def _rounds(self, chunk: Chunk, y: Any, sample_weights: Floats, order: Any = IN_ORDER) -> Floats:
        """A round per row of features that were taken in; labels are taken in, too. Call it inside a transaction."""
        chunk, labels = self._entered(chunk), self._intake.labels
        if labels is None:
            return self.engine.learn(chunk, y, sample_weights, order)
        codes, first = labels.code(y if order is IN_ORDER else [y[k] for k in order])
        if order is not IN_ORDER:
            codes = scattered(codes, order, chunk.rows)
        if not first.size:
            return self.engine.learn(chunk, codes, sample_weights, order)
        if order is not IN_ORDER:
            scores = self._meet_classes(chunk.take(order), codes[order], sample_weights[order], first)
            return scattered(scores, order, chunk.rows)
        return self._meet_classes(chunk, codes, sample_weights, first)

    def _meet_classes(self, chunk: Chunk, codes: Any, sample_weights: Floats, first: Any) -> Floats:
        """A round per row, where a new class appears in each of the rows `first`, and is known from that row on."""
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
            if self.engine.rounds > before.rounds:  # interrupted: classes that no row had yet are still to come
                labels = self._intake.labels
                assert labels is not None
                labels.arrange(labels.classes[: self.engine.trailing[0]])
            else:
                self.engine = before
            raise
        return self._joined(scores)

    def _joined(self, scores: list[Floats]) -> Floats:
        """The scores of one block of rows after another; classes that a block did not know have 0 there."""
        if self._intake.labels is None:
            return np.concatenate([np.empty(0), *scores])
        return padded(scores, self._intake.labels)

    def _learn_bounded(self, X: Any, y: Any, sample_weights: Floats) -> Floats:
        """A round per row with at most `max_features`, all or nothing."""
        scores, before = list[Floats](), None

        def mark() -> Any:
            return before or (self.engine, self.engine.snapshot())

        def drop_zeros() -> int:
            nonlocal before
            before = mark()
            return self.prune()

        try:
            for start, chunk in self._intake.blocks(X, drop_zeros):
                if chunk.rows < len(y):
                    before = mark()
                stop = start + chunk.rows
                scores.append(self._rounds(chunk, y[start:stop], sample_weights[start:stop]))
        except BaseException:
            if before is not None:
                self.engine, arrays = before
                self.engine.restore(arrays)
            raise
        return self._joined(scores)

    def learn_chunks(self, chunks: Iterable[Any]) -> Floats:
        """`learn` for one pair (X, y), or triple (X, y, sample_weight), after another; returns the scores of all rows.

        One chunk at a time is held, and 8 bytes per row for the scores. Every chunk is learned from whole or not at
        all: an error says how many rows were learned from before.

        >>> from fiol import FIOL, Learner, Squared
        >>> learner = Learner(FIOL(Squared()))
        >>> learner.learn_chunks(([[float(k)]], [1.0]) for k in range(3)).shape, learner.rounds
        ((3,), 3)
        """
        return self._joined(learned_in_chunks(self.learn, chunks))

    def learn_parallel(
        self, X: Any, y: Any, sample_weight: Any = None, parts: int = 2, threads: int | None = None
    ) -> Floats:
        """`learn` in rounds, the rows of each in so many parts, which are learned from side by side, in threads.

        A round has a tenth of the rows so far, after 2,000 rows alone. Its parts go on from one learner, apart from
        each other; then what they know is put together (`fiol.engine.pooling`), and one more exact step finds how far
        all of it goes. So the learner is not the one of a single stream; docs/parallel.md tells how near it is. It
        depends on `parts`, not on `threads` (by default as many as there is work for, but no more than processors).

        One part is `learn`, to the bit, but that members of an ensemble go side by side in threads if they do not go
        in lanes of one vector: those of a joint loss, or with penalties that lanes do not have.

        Returns the score of every row before it was learned from, by the part that did. All rows are learned from, or
        none is; with one part an interrupt may come in between, as in `learn`.

        >>> from fiol import Learner
        >>> import numpy as np
        >>> X = np.random.default_rng(0).normal(size=(5000, 3))
        >>> learner = Learner()
        >>> scores = learner.learn_parallel(X, np.sign(X[:, 0] + X[:, 1]), parts=4)
        >>> learner.rows, float(np.mean(np.sign(learner.scores(X)) == np.sign(X[:, 0] + X[:, 1]))) > 0.95
        (5000, True)
        """
        parts = check_size("parts", parts)
        if threads is not None:
            check_size("threads", threads)
        X, rows = counted(X)
        if rows is None:
            raise TypeError("X must be rows that can be counted, not a generator: use learn")
        if parts > 1 and not self.goes_in_parts:
            raise TypeError(
                "rows are not learned from in parallel with max_features, a geometry or a ledger: use learn"
            )
        with self._turns, self._intake.transaction(learner=self):
            targets, sample_weights = self._targets(y, rows), check_sample_weights(sample_weight, rows)
            if parts == 1:
                with self._members_in_threads(threads):
                    scores = self._learn_all(X, targets, sample_weights)
            else:
                chunk, labels, engine = self._intake.take_in(X), self._intake.labels, self.engine
                if labels is not None:
                    targets, first = labels.code(targets)
                    if first.size:  # known from the first row on: all who learn side by side have the same classes
                        engine = engine.copy()
                        engine.add_scores(np.arange(engine.trailing[0]), engine.trailing[0] + len(first))
                scores = self._learn_in_parts(engine, chunk, targets, sample_weights, parts, threads)
            self._watch(scores)
            return scores

    def _learn_in_parts(
        self, engine: Engine, chunk: Chunk, y: Any, sample_weights: Floats, parts: int, threads: int | None
    ) -> Floats:
        """Go on with what an engine knows after rows in so many parts; all of them, or none."""
        with in_threads(min(threads or parts, parts, processors())) as each:
            engine, scores = learn_in_rounds(engine.copy(), chunk, y, sample_weights, parts, each)
        self.engine = engine
        return scores

    @contextmanager
    def _members_in_threads(self, threads: int | None) -> Iterator[None]:
        """Let members of an ensemble that do not go in lanes go side by side."""
        engine: Any = self.engine
        several = 1 if engine.observer is not None else engine.apart
        with in_threads(min(threads or processors(), max(several, 1))) as each:
            engine.each = each
            try:
                yield
            finally:
                engine.each = map

    @property
    def goes_in_parts(self) -> bool:
        """Whether rows can be learned from in several parts."""
        return self.max_features is None and self.update.geometry == Euclidean() and self.ledger is None

    def parts_for(self, jobs: int) -> int:
        """In how many parts of rows so many threads have enough to do: 1 if members keep them busy, which is exact.

        >>> from fiol import FIOL, Learner, Logistic, Softmax, Stacked
        >>> Learner().parts_for(2), Learner(FIOL(Logistic())).parts_for(2), Learner(Stacked(Softmax())).parts_for(2)
        (2, 2, 1)
        """
        return jobs if self.goes_in_parts and self.engine.apart < 2 else 1

    def learn_chunk(self, chunk: Chunk, y: Any, sample_weight: Any = None, order: Any = None) -> Floats:
        """`learn` for a canonical chunk (`fiol.to_chunk`, `Chunk.from_bytes`) of numbered features: cheap checks only.

        `order` names the rows to learn from, one round each, in that order; the others have score 0. By default these
        are all rows as they come.

        >>> from fiol import FIOL, Learner, Squared, to_chunk
        >>> learner = Learner(FIOL(Squared()))
        >>> learner.learn_chunk(to_chunk([[1.0], [2.0]]), [1.0, 2.0], order=[1]), learner.rounds
        (array([0., 0.]), 1)
        """
        with self._turns, self._intake.transaction(learner=self):
            chunk = self._intake.take_in_chunk(chunk)
            targets = self._targets(y, chunk.rows)
            sample_weights = check_sample_weights(sample_weight, chunk.rows)
            order = IN_ORDER if order is None else check_order(order, chunk.rows)
            if order is not IN_ORDER and not order.size:
                return np.zeros((chunk.rows, *self.engine.trailing))
            scores = self._rounds(chunk, targets, sample_weights, order)
            self._watch(scores)
            return scores

    def score_chunk(self, chunk: Chunk) -> Floats:
        """`scores` for a canonical chunk of numbered features: cheap checks only.

        >>> from fiol import FIOL, Learner, Squared, to_chunk
        >>> Learner(FIOL(Squared())).score_chunk(to_chunk([[1.0], [2.0]]))
        array([0., 0.])
        """
        with self._turns:
            return self.score_canonical(self._intake.read_chunk(chunk))

    # For the rest of the package: what has been checked before is not looked at again, and whose turn it is neither.

    def learn_canonical(
        self, chunk: Chunk, y: Any, sample_weights: Floats, order: Any = IN_ORDER, jobs: int = 1
    ) -> Floats:
        """`learn_chunk` for rows of features there are, with checked targets, or codes of classes there are.

        So many `jobs` do what `parts_for` says, each in a thread of its own.
        """
        parts = self.parts_for(jobs)
        if parts == 1:
            with self._members_in_threads(jobs):
                scores = self.engine.learn(self._entered(chunk), y, sample_weights, order)
        elif not len(order):
            scores = self._learn_in_parts(self.engine, chunk, y, sample_weights, parts, jobs)
        else:
            rows = chunk.take(order), y[order], sample_weights[order]
            scores = scattered(self._learn_in_parts(self.engine, *rows, parts, jobs), order, chunk.rows)
        self._watch(scores)
        return scores

    def score_canonical(self, chunk: Chunk) -> Floats:
        """`score_chunk` for rows that an `Intake` has checked; features beyond those seen weigh as one never seen."""
        return self.engine.scores(self._entered(chunk))

    def try_row(self, indices: Any, values: Any, y: Any, sample_weight: Any, grows: bool = False) -> float | None:
        """The round of a row that is in order; None, and no round, if anything about it needs a second look.

        So does a feature beyond those seen, unless the learner `grows`, and has room for the feature.
        """
        if type(y) not in TARGET_TYPES or type(sample_weight) not in TARGET_TYPES or self._whole_rows:
            return None
        y, sample_weight, intake = float(y), float(sample_weight), self._intake
        at_hand = self.engine.have_at_hand(len(values), (intake,), learning=True, grows=grows)
        if at_hand.learn is second_look:
            return self.watch_one(self.engine.learn_one(indices, values, y, sample_weight, intake.features))
        return self.watch_one(at_hand.learn(indices, values, y, sample_weight))

    def try_event(self, row: Any, y: Any, sample_weight: Any, *outer: Intake, grows: bool = True) -> float | None:
        """`try_row` for a dict; its names are numbered by the first of the intakes around the learner, or its own."""
        if (
            type(y) not in TARGET_TYPES
            or type(sample_weight) not in TARGET_TYPES
            or self._whole_rows
            or type(row) is not dict
        ):
            return None
        at_hand = self.engine.have_at_hand(len(row), (*outer, self._intake), learning=True, grows=grows)
        return self.watch_one(at_hand.learn(row, float(y), float(sample_weight)))

    def score_event(self, row: Any, *outer: Intake, turns: Any, predict: bool = False) -> float | None:
        """The score of a dict, see `try_event`, or its prediction; None if anything about it needs a second look.

        `turns` is the lock of the model whose intake numbers the names.
        """
        if self._whole_rows or type(row) is not dict:
            return None
        at_hand = self.engine.have_at_hand(len(row), (*outer, self._intake), learning=False, turns=turns)
        found: float | None = at_hand.predict(row) if predict else at_hand.score(row)
        return found

    def watch_one(self, z: Any) -> Any:
        """The score before a round; a warning if it is not finite."""
        if z is not None and not math.isfinite(z):
            self._warn("the score", z)
        return z

    def taking_in(self) -> Transaction:
        """`with learner.taking_in():` features that `take_in` finds are forgotten unless rows are learned from."""
        return self._intake.transaction(learner=self)

    def take_in(self, X: Any) -> Chunk:
        """Rows for `learn_canonical`, their features taken in."""
        return self._intake.take_in(X)

    def read_in(self, X: Any) -> Chunk:
        """Rows for `score_canonical`."""
        return self._intake.read(X)

    def share_features(self, other: Any) -> None:
        """Know the features that another model knows, before the first round."""
        self._intake.share_features(other._intake)

    def mark(self) -> Any:
        """Where `rewind` goes back to: see `fiol.intake.transaction`."""
        return self.engine, self.engine.mark(), self._intake.mark()

    def rewind(self, mark: Any) -> None:
        """Take back all rounds, features and classes since the mark."""
        self.engine, rounds, features = mark
        self.engine.rewind(rounds)
        self._intake.rewind(features)

    def with_intake(self: Self, intake: Intake) -> Self:
        """The learner of the same state, not a copy, whose features are those of another intake."""
        new = copy.copy(self)
        new._intake = intake
        return new

    def with_engine(self: Self, engine: Engine, intake: Intake) -> Self:
        """A learner of the same recipe that knows what this engine does, of the features of this intake."""
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__)  # `copy.copy` would copy the engine
        new.engine, new._intake, new._turns, new.meta = engine, intake, Turns(), copy.deepcopy(self.meta)
        return new

    def extend(self, features: int) -> None:
        """Have at least so many features, unless their number is fixed."""
        if self._intake.width is None:
            self._intake.features = max(self._intake.features, features)

    def rename(self, classes: Sequence[Any]) -> None:
        """Call the classes there are, in their order, by these labels; for joint losses."""
        assert self._intake.labels is not None
        self._intake.labels.arrange(classes)

    def codes_of(self, y: Any) -> Any:
        """The code of every label in y: its place in `classes`; KeyError if one is none of them."""
        assert self._intake.labels is not None
        return self._intake.labels.codes_of(labels_of_rows(AnyLabels(as_list(y)), None))

    def mean_loss(self, scores: Floats, y: Any, sample_weights: Floats, order: Any = IN_ORDER) -> float:
        """The weighted mean loss of scores; y are targets, or the codes of classes."""
        return self.engine.mean_loss(scores, y, sample_weights, order)

    def _watch(self, scores: Floats) -> None:
        """Warn of the first score that is not finite."""
        if not math.isfinite(scores.sum()):  # cheaper than asking every score
            finite: Any = np.isfinite(scores) if scores.ndim == 1 else np.isfinite(scores).all(axis=1)
            row = int(np.argmin(finite))
            if not finite[row]:
                self._warn(f"the score of row {row}", scores[row], stacklevel=4)

    def learn_one(self, indices: Any, values: Any, y: Any, sample_weight: float = 1.0) -> Any:
        """One round for the row with these values at these indices; returns its score before, or an array of scores.

        Fastest for arrays of int32 and float64 whose indices rise.

        >>> from fiol import FIOL, Learner, Squared
        >>> learner = Learner(FIOL(Squared()), intercept=False)
        >>> learner.learn_one([3, 5], [1.0, 2.0], y=1.0), learner.n_features
        (0.0, 6)
        """
        turns = self._turns
        try:
            turns.acquire()
            intake, at_hand = self._intake, self.engine.at_hand
            if intake.encoder is None:
                z = at_hand.learn(indices, values, y, sample_weight) if at_hand.intake is intake else None
                if z is not None:
                    return z if math.isfinite(z) else self.watch_one(z)
                if is_vector(indices, INDEX_TYPE) and is_vector(values, VALUE_TYPE):
                    z = self.try_row(indices, values, y, sample_weight, grows=True)
                if z is not None:
                    return z
        finally:
            try:  # noqa: SIM105
                turns.release()
            except RuntimeError:  # an interrupt came while this thread waited: see `Turns`
                pass
        return self._only(self.learn(one_row(indices, values), [y], [sample_weight]))

    def _only(self, scores: Floats) -> Any:
        """The score of the only row, a number or an array."""
        return scores[0] if scores.ndim > 1 else float(scores[0])

    def learn_named(self, features: Mapping[Any, Any], y: Any, sample_weight: float = 1.0) -> Any:
        """One round for a dict of features; returns its score before, or an array of scores.

        Keys are names, or numbers; a text as value is part of the name: {"color": "red"} is {"color=red": 1}.

        >>> from fiol import FIOL, Learner, Squared
        >>> Learner(FIOL(Squared())).learn_named({"age": 30, "color": "red"}, y=1.0)
        0.0
        """
        turns = self._turns
        try:
            turns.acquire()
            intake, at_hand = self._intake, self.engine.at_hand
            if at_hand.intake is intake and at_hand.encoder is intake.encoder:
                z = at_hand.learn(features, y, sample_weight)
                if z is not None:
                    return z if math.isfinite(z) else self.watch_one(z)
            return self._learn_named(features, y, sample_weight)
        finally:
            try:  # noqa: SIM105
                turns.release()
            except RuntimeError:  # as in `learn_one`
                pass

    def _learn_named(self, features: Mapping[Any, Any], y: Any, sample_weight: float) -> Any:
        """`learn_named` for a row that needs a second look."""
        intake = self._intake
        z = self.try_event(features, y, sample_weight)
        if z is not None:
            return z
        if self.max_features is not None:
            return self._only(self.learn([features], [y], [sample_weight]))
        row = intake.known_row(features)
        z = None if row is None else self.try_row(*row, y, sample_weight)
        if z is not None:
            return z
        with intake.transaction(learner=self):
            before, row = intake.features, intake.take_in_row(features)
            z = self.try_row(*row, y, sample_weight) if intake.features == before else None
            if z is not None:
                return z
            scores = self._rounds(one_row(*row), self._targets([y], 1), check_sample_weights([sample_weight], 1))
            self._watch(scores)
            return self._only(scores)

    def _warn(self, what: str, score: Any, stacklevel: int = 3) -> None:
        """Warn that a score is not finite, on behalf of whoever called the learner."""
        held_in = "double precision" if self.dtype.itemsize == 8 else 'float32: use dtype="float64"'
        why = f"the weights left the range of {held_in}" if self.update.is_implicit() else "use an implicit loss step"
        warnings.warn(f"{what} is {score}: this update diverges; {why}", RuntimeWarning, stacklevel=stacklevel)

    def start_from(self, weights: Any, intercept: Any = 0.0) -> None:
        """Begin with these weights instead of the geometry's origin; before the first round.

        A learner that grows has as many features as there are weights. With a joint loss these are of shape (classes,
        features), for the classes there are, and there is an intercept for all classes or one each.

        >>> from fiol import FIOL, Learner, Squared
        >>> learner = Learner(FIOL(Squared()), n_features=2)
        >>> learner.start_from([1.0, 2.0], intercept=3.0)
        >>> learner.scores([[1.0, 1.0]])
        array([6.])
        """
        with self._turns:
            self._start_from(weights, intercept)

    def _start_from(self, weights: Any, intercept: Any) -> None:
        if self.rounds or not self.update.starts_anywhere():
            raise TypeError("only a learner before its first round, anchored at LastIterate(), can start elsewhere")
        w, many = np.array(weights, np.float64), self.engine.trailing
        given = w.size if not many else w.shape[-1] if w.ndim else 0
        features = self.n_features if self.width is not None else max(self.n_features, given)
        if w.shape != (*many, features):
            each = f"for each of {many[0]} classes and " if many else "for each of "
            raise ValueError(f"weights must have one entry {each}{features} features, got shape {w.shape}")
        shift = np.broadcast_to(np.asarray(intercept, np.float64), many)
        if not (np.isfinite(w).all() and np.isfinite(shift).all()):
            raise ValueError("weights and intercept must be finite")
        if max(np.abs(w).max(initial=0.0), np.abs(shift).max(initial=0.0)) > np.finfo(self.dtype).max:
            raise OverflowError('weights or intercept leave the range of float32: use dtype="float64"')
        self.engine.start_from(np.ascontiguousarray(w.T), shift)
        self._intake.features = features

    def with_update(self: Self, update: Update | Ensemble) -> Self:
        """A learner with another update that starts from the weights of this one; what it knows of steps is forgotten.

        >>> from fiol import FIOL, Constant, Learner, Squared
        >>> learner = Learner(FIOL(Squared()), n_features=1)
        >>> learner.start_from([2.0])
        >>> score = learner.learn([[1.0]], [2.0])
        >>> learner.with_update(FIOL(Squared(), step_size=Constant(0.1))).weights
        array([2.])
        """
        with self._turns:
            header, rounds, weights, intercept = self._intake.header(), self.rounds, self.weights, self.intercept
        known = classes_in(header.get("labels"))
        new = type(self)(update, **self._options(), classes=known, compiled=self.compiled)
        new._intake.restore(header)
        new.meta = copy.deepcopy(self.meta)
        if rounds:
            new.start_from(weights, intercept)
        return new

    def truncated(self: Self, max_nonzero: int, X: Any = None) -> Self:
        """A learner with at most so many weights of this one, those that matter most; all others are exactly 0.

        A feature matters by its squared weight (the mean over classes) times its mean square in the rows X. Without X,
        it is what leaving the feature out would cost if the loss were quadratic: the squared weight times the sum of
        the loss's second derivatives along it, which `Curvature` steps, and so those of `Stacked`, have kept;
        `AdaGrad`'s have squared gradients for that, and of others the largest value, squared, or 1 has to do. Of equal
        ones the larger weight stays.

        The result is a model to predict with, to save or to export, of which weights, scores and files say the same.
        It has the plainest update there is for the loss, and would learn anew, from these weights.

        >>> from fiol import FIOL, Learner, Squared
        >>> learner = Learner(FIOL(Squared()), n_features=3)
        >>> learner.start_from([0.5, -2.0, 1.0])
        >>> learner.truncated(2).weights, learner.truncated(1, X=[[9.0, 1.0, 1.0]]).weights
        (array([ 0., -2.,  1.]), array([0.5, 0. , 0. ]))
        """
        if integer("max_nonzero", max_nonzero) < 0:
            raise ValueError(f"max_nonzero must be at least 0, got {max_nonzero}")
        moment = self.copy()
        new = moment.with_update(Update(self.update.loss))
        w, intercept = moment.weights, moment.intercept
        squares = w * w if w.ndim == 1 else np.mean(w * w, axis=0)
        cost = squares * (moment._stiffness() if X is None else moment._intake.moments(X)[1])
        w[..., np.lexsort((-squares, -cost))[max_nonzero:]] = 0.0
        new.start_from(w, intercept)
        return new

    def _stiffness(self) -> Floats:
        """What a squared change of every weight costs, as far as that is known: see `Engine.stiffness`."""
        return np.ones(self.n_features) if self._whole_rows else self.engine.stiffness(self.n_features)

    def meet(self, classes: Iterable[Any]) -> None:
        """Know of these classes from now on, though there was no row of them yet; for joint losses.

        >>> from fiol import FIOL, Learner, Softmax
        >>> learner = Learner(FIOL(Softmax()))
        >>> learner.meet(["apple", "pear"])
        >>> learner.learn([[1.0]], ["pear"])
        array([[0., 0.]])
        """
        labels = self._intake.labels
        if labels is None:
            raise TypeError(f"{type(self.update.loss).__name__} has one score, not one per class")
        with self._turns, self._intake.transaction():
            new = labels.take_in(labels_of_rows(classes if isinstance(classes, list) else list(classes), None, labels))
            if new:
                engine = self.engine.copy()
                engine.add_scores(np.arange(len(labels) - len(new)), len(labels))
                self.engine = engine

    def opened(self: Self) -> Self:
        """A copy that takes classes that appear, though they were given; the weights of a new one start at 0."""
        new = self.copy()
        if new._intake.labels is None:
            raise TypeError(f"{type(self.update.loss).__name__} has one score, not one per class")
        new._intake.labels.closed = False
        return new

    def negated(self: Self) -> Self:
        """A copy whose scores are those of this learner times -1; before its first round if weights have a sign."""
        new = self.copy()
        if not self.update.is_symmetric():
            return type(self)(self.update, **self._options(), compiled=self.compiled)
        flipped = {name: -a if name.endswith((".w", ".total")) else a for name, a in self.arrays().items()}
        new.engine.restore(flipped)
        return new

    # --- predicting ---------------------------------------------------------------------------

    def scores(self, X: Any) -> Floats:
        """The score <x, w> plus intercept of every row, by the averaged weights if averages are kept.

        With a joint loss these are of shape (rows, classes). Scores are linear in the values, also beyond all values
        that were learned from.
        """
        X, rows = counted(X, "predict_named or score_named")
        if rows is None:
            return self._joined([self.scores(block) for block in blocks_of(X)])
        return scores_in_turn(self, X)

    def uncertainty(self, X: Any) -> Floats:
        """The standard deviation of the score of every row: what the rows so far leave open about the weights.

        Weights count as independent and normal with the variances that a `Curvature` step size knows, so that of a
        score it is the sum of x_i^2 / h_i, intercept included, times the dispersion of the loss: 1 for logistic,
        softmax and Poisson loss, whose curvature is that of a likelihood, and the mean squared error so far for
        squared loss. Of features that go together more is known than that. Names never seen are left out, as
        by `scores`.

        An ensemble, the default, adds two variances: that of its best `Curvature` member, and what the stack leaves
        open about how members are combined, the sum over its stacks j of pi_j (z' P_j z + (z' v_j - score)^2), with
        the scores z of the members and the P = A^-1 of `fiol.NewtonStack` (of many scores their mean). With a thousand
        rows together they are what squared errors are, within a factor of two.

        >>> from fiol import FIOL, Curvature, Learner, Logistic, ScaleFree
        >>> learner = Learner(FIOL(Logistic(), step_size=ScaleFree(Curvature())))
        >>> _ = learner.learn([[1.0, 0.0], [-1.0, 0.0]] * 26, [1.0, 1.0, -1.0, -1.0] * 13)
        >>> learner.uncertainty([[1.0, 0.0], [0.0, 1.0]]).round(2)  # a feature seen in 52 rows, and one in none
        array([0.4 , 1.04])
        """
        if not self.update.knows_variance():
            raise TypeError(
                "uncertainty needs step_size=Curvature() or ScaleFree(Curvature()), or an ensemble with such a member "
                "and NewtonStack(), and squared, logistic, softmax or Poisson loss; this learner has "
                f"{self.update.brief()}"
            )
        X, rows = counted(X, "a list of such dicts")
        if rows is None:
            return np.concatenate([self.uncertainty(block) for block in blocks_of(X)])
        with self._turns:
            return np.sqrt(self.engine.variances(self._entered(self._intake.read(X))))

    def predict(self, X: Any) -> Any:
        """The prediction for every row: the mean for regression and counts, the probability of +1 for logistic and
        exponential loss, the label -1 or +1 for hinges; for softmax the probability of every class, of shape
        (rows, classes), and for Crammer and Singer's hinge the label of the highest score.
        """
        return self.predictions(self.scores(X))

    def predictions(self, scores: Floats) -> Any:
        """The predictions that belong to these scores, in place where predictions are numbers."""
        labels = self._intake.labels
        if labels is None:
            return self.engine.predictions(scores)
        loss = self.update.loss
        if loss.link == "logit":
            return softmax(loss.link_factor * scores)
        if not scores.shape[1]:
            raise ValueError("there are no classes yet")
        return labels.array(scores.shape[1])[scores.argmax(axis=1)]

    @property
    def counts_unseen(self) -> bool:
        """Whether a feature that was never seen has a weight."""
        return self._intake.counts_unseen

    def score_one(self, indices: Any, values: Any) -> Any:
        """The score of one row, see `learn_one`."""
        at_hand = self.engine.at_hand
        z = at_hand.score(indices, values)
        intake = self._intake
        if z is not None and at_hand.intake is intake and intake.encoder is None and at_hand is self.engine.at_hand:
            return z
        if not (is_vector(indices, INDEX_TYPE) and is_vector(values, VALUE_TYPE)) or self._whole_rows:
            return self._only(self.scores(one_row(indices, values)))
        with self._turns:
            if self._intake.encoder is None:
                at_hand = self.engine.have_at_hand(len(values), (self._intake,), learning=False, turns=self._turns)
                z = at_hand.score(indices, values)
                if z is not None:
                    return z
            return self._only(self.scores(one_row(indices, values)))

    def score_named(self, features: Mapping[Any, Any]) -> Any:
        """The score of a dict of features, see `learn_named`."""
        at_hand = self.engine.at_hand
        z = at_hand.score(features)
        intake = self._intake
        if (
            z is not None
            and at_hand.intake is intake
            and at_hand.encoder is intake.encoder
            and at_hand is self.engine.at_hand
        ):
            return z
        with self._turns:
            return self._score_named(features)

    def _score_named(self, features: Mapping[Any, Any], predict: bool = False) -> Any:
        """The score of a dict that needs a second look, or its prediction."""
        z = self.score_event(features, turns=self._turns, predict=predict)
        if z is not None:
            return z
        if self.max_features is not None:
            scores = self.scores([features])
        else:
            scores = self.score_canonical(one_row(*self._intake.read_row(features)))
        return self.predictions(scores)[0] if predict else self._only(scores)

    def predict_named(self, features: Mapping[Any, Any]) -> Any:
        """The prediction for a dict of features, see `predict` and `learn_named`.

        >>> from fiol import FIOL, Learner, Logistic
        >>> clicks = Learner(FIOL(Logistic()))
        >>> score = clicks.learn_named({"site": "news"}, y=1)
        >>> clicks.predict_named({"site": "news"}) > 0.5, clicks.predict_named({"site": "mail"}) > 0.5
        (True, True)
        """
        at_hand = self.engine.at_hand
        found = at_hand.predict(features)
        intake = self._intake
        if (
            found is not None
            and at_hand.intake is intake
            and at_hand.encoder is intake.encoder
            and at_hand is self.engine.at_hand
        ):
            return found
        with self._turns:
            found = self._score_named(features, predict=True)
        return found.item() if isinstance(found, np.generic) else found

    # --- the model ----------------------------------------------------------------------------

    @property
    def weights(self) -> Floats:
        """The weight of every feature (its average, if averages are kept), exactly up to date; a copy.

        With a joint loss of shape (classes, features). TypeError for a model that is not linear (`Bayes`).
        """
        return self._read(self.averages)

    @property
    def last_weights(self) -> Floats:
        """The weights of the last round, also where averages are kept."""
        return self._read(False)

    def weights_of_first(self, features: int) -> Floats:
        """The weights of so many features, also of those never seen."""
        return self._read(self.averages, features)

    def _read(self, averaged: bool, features: int | None = None) -> Floats:
        geometry = self.update.geometry
        with self._turns:
            n = geometry.entered(self.n_features if features is None else features)
            w = geometry.leave_weights(self.engine.weights(n, averaged))
        return w if w.ndim == 1 else np.ascontiguousarray(w.T)

    def importances(self, most: int | None = None, X: Any = None) -> dict[str | int, float]:
        """How much every feature matters, by its name: its weight times its scale, the largest in size first.

        Weights alone compare metres with kilometres. The scale is the feature's standard deviation in the rows X;
        without X the largest value it had (the largest distance from its mean, if it is centred), which `ScaleFree`
        steps, the default ones, keep, and 1 with other steps. With a joint loss it is the root mean square over
        classes, otherwise it has the sign of the weight. What is 0 is left out; `most` is how many to return.

        >>> from fiol import Learner, Squared
        >>> learner = Learner(loss=Squared(), compiled=False)
        >>> rows = [{"metres": 9000.0 * k, "grams": 0.001 * (k % 2)} for k in range(20)]
        >>> scores = learner.learn(rows, [row["metres"] / 9000.0 for row in rows])
        >>> list(learner.importances(1))
        ['metres']
        """
        model = self.copy()
        scales = model.scales_of(model.n_features) if X is None else deviations(*model._intake.moments(X))
        return by_importance(model.names, model.weights, scales, most)

    def scales_of(self, features: int) -> Floats:
        """The size of the values of so many features, as far as that is known: see `Engine.scales`."""
        return np.ones(features) if self._whole_rows else self.engine.scales(features)

    @property
    def row_cost(self) -> float:
        """The cost of a round besides the entries of its row: see `Engine.row_cost`."""
        return self.engine.row_cost

    @property
    def intercept(self) -> Any:
        """The intercept (its average, if averages are kept); 0 without one. With a joint loss, an array of them."""
        with self._turns:
            return self.engine.intercept_weight(self.averages)

    @property
    def last_intercept(self) -> Any:
        """The intercept of the last round, also where averages are kept."""
        with self._turns:
            return self.engine.intercept_weight(False)

    @property
    def members(self) -> list[Member]:
        """How every member of an ensemble does, in the order of `update.members`, and last its gate, if there is one.

        An `Update` has none.

        >>> from fiol import FIOL, Constant, Ensemble, Learner, Logistic
        >>> updates = [FIOL(Logistic(), step_size=Constant(size)) for size in (0.001, 1.0)]
        >>> learner = Learner(Ensemble(updates))
        >>> scores = learner.learn([[1.0], [-1.0]] * 50, [1, -1] * 50)
        >>> slow, fast = learner.members
        >>> slow.loss > fast.loss > 0.0, slow.loss > learner.progressive_loss > 0.0
        (True, True)
        """
        with self._turns:
            return self.engine.report(self.n_features)

    def member(self: Self, k: int | None = None) -> Self:
        """A learner that is what member k of an ensemble is, alone, and goes on from there; by default the best one.

        The best has the least progressive loss of those that have not overflowed. Behind a gate, members have not seen
        all of the rows, and are none alone.

        >>> from fiol import FIOL, L1, Learner, Logistic, tuned
        >>> learner = Learner(tuned(FIOL(Logistic(), L1(0.0)), {"lam": [10.0, 0.1]}))
        >>> scores = learner.learn([[1.0], [-1.0]] * 50, [1, -1] * 50)
        >>> best = learner.member()
        >>> best.update.regularizer, best.rounds, bool((best.weights == learner.weights).all())
        (L1(lam=0.1), 100, True)
        """
        if not isinstance(self.update, Ensemble):
            raise TypeError(f"only an ensemble has members, this learner has {self.update.brief()}")
        with self._turns:
            members = self.engine.report(self.n_features)
            if k is None:
                k = min(range(len(members)), key=lambda j: (members[j].overflowed, members[j].loss))
            if not -len(members) <= operator.index(k) < len(members):
                raise IndexError(f"there are members 0 to {len(members) - 1}, got {k!r}")
            k = range(len(members))[k]
            if self.update.gate is not None and members[k].update is not self.update.gate:
                raise TypeError("members behind a gate have not seen all of the rows: they are none alone")
            options = {**self._options(), "classes": classes_in(self._intake.header().get("labels"))}
            new = type(self)(members[k].update, **options, compiled=self.compiled)
            new._intake.restore(self._intake.header())
            new.engine = self.engine.alone(k)
            new.meta = copy.deepcopy(self.meta)
        return new

    @property
    def progressive_loss(self) -> float:
        """The mean loss of an ensemble's scores, each from before its row was learned from, by sample weights."""
        with self._turns:
            return self.engine.progressive_loss

    @property
    def mixing(self) -> Floats:
        """What the score of each member of an ensemble counts with now."""
        with self._turns:
            return self.engine.mixing

    @property
    def rounds(self) -> int:
        """Rounds made: rows learned from, or their average where learners were merged."""
        return self.engine.rounds

    @property
    def rows(self) -> int:
        """Rows learned from, those of all merged learners together."""
        return self.engine.rows

    @property
    def n_features(self) -> int:
        """Features there are, or were seen so far."""
        return self._intake.features

    @property
    def width(self) -> int | None:
        """Features there are, if that was known from the start."""
        return self._intake.width

    @property
    def bits(self) -> int | None:
        """Features are folded into 2**bits, unless that is None."""
        return self._intake.bits

    @property
    def max_features(self) -> int | None:
        """The most features that are held, unless that is None."""
        return self._intake.max_features

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Names of the columns, if the first rows had any."""
        return self._intake.columns

    @property
    def coding(self) -> Coding | None:
        """How columns of frames become features; None while they are plain numbers, a feature each.

        >>> import pandas as pd
        >>> from fiol import FIOL, Learner, Squared
        >>> learner = Learner(FIOL(Squared()))
        >>> scores = learner.learn(pd.DataFrame({"age": [30, None], "city": ["Rome", "Oslo"]}), [1.0, 2.0])
        >>> learner.names
        ['age', 'city=Rome', 'age is missing', 'city=Oslo']
        >>> learner.coding.describe()
        ['age: a number', 'city: one feature for every value (city=...)']
        """
        return self._intake.coding

    @property
    def classes(self) -> list[Any] | None:
        """The labels of the classes there are, in the order of weights and scores; None unless the loss is a joint one.

        Without `classes` given, the order is that of their appearance.
        """
        with self._turns:
            return None if self._intake.labels is None else self._intake.labels.classes

    @property
    def closed(self) -> bool:
        """Whether there will be no classes but those there are."""
        return self._intake.labels is None or self._intake.labels.closed

    @property
    def n_nonzero(self) -> int:
        """Features whose weight is not exactly 0, for any class (with any member, if `Bayes` is the stack)."""
        return int(np.count_nonzero(self._weighed(self.averages)))

    def _weighed(self, averaged: bool) -> Any:
        """Which features have a weight other than 0, for any class; where the model has none, with any member."""
        if self.update.is_linear():
            return features_with_weight(self._read(averaged))
        with self._turns:
            return self.engine.weighed(self.n_features)

    @property
    def numbered(self) -> bool:
        """Whether features are the columns of a matrix, not names or hashes."""
        return self._intake.encoder is None

    @property
    def names(self) -> list[str | int] | None:
        """The names of the features, in the order of `weights`; None if features are numbers."""
        with self._turns:
            return self._intake.names

    @property
    def nbytes(self) -> int:
        """Bytes of memory for everything that is learned (names of features not counted)."""
        return self.engine.nbytes

    def settle(self) -> None:
        """Bring every stored weight up to date. `weights`, `save` and the rest do not need it."""
        with self._turns:
            self.engine.settle()

    def prune(self) -> int:
        """Drop all features whose weight is exactly 0, with what is remembered of them; returns how many.

        For learners that hold names, or `max_features`. Where steps do not depend on a feature's past
        (a schedule, last iterate) this changes no later score. The weight is that of the last round: an
        average is dropped with it.
        """
        if not isinstance(self._intake.encoder, Vocabulary):
            raise TypeError("features are numbered by the caller here: prune() needs named features or max_features")
        with self._turns, self._intake.transaction():
            kept, engine = np.flatnonzero(self._weighed(averaged=False)), self.engine
            state, centring = engine.state, engine.centring
            dropped = self.n_features - kept.shape[0]
            try:
                if dropped:
                    each = self.update.geometry.entered(1)
                    self.engine.select((each * kept[:, None] + np.arange(each)).ravel())
                    self._intake.keep(kept)
            except BaseException:  # both or neither
                engine.state, engine.centring = state, centring
                raise
            return dropped

    def has_recipe_of(self, other: Learner) -> bool:
        """Whether this learner does the same steps as another one, with the same options."""
        return self.update == other.update and self._options() == other._options()

    def copy(self: Self) -> Self:
        """A learner of its own that goes on from here."""
        new = object.__new__(type(self))
        with self._turns:
            new.__setstate__(self._parts())
        return new

    def snapshot(self) -> Snapshot:
        """A scorer with the weights of this moment, which never change: for threads that read while others learn.

        >>> from fiol import FIOL, Learner, Squared
        >>> learner = Learner(FIOL(Squared()))
        >>> score = learner.learn_named({"age": 30.0}, y=1.0)
        >>> before = learner.snapshot()
        >>> score = learner.learn_named({"age": 31.0, "size": 2.0}, y=2.0)
        >>> before.names, before.rounds, before.predict([{"age": 30.0}]).shape
        (['age'], 1, (1,))
        """
        return Snapshot(self.copy())

    def _parts(self) -> dict[str, Any]:
        parts = {"update": self.update, "options": self._options(), "compiled": self.compiled}
        return {**parts, "header": self.header(), "arrays": self.arrays(), "meta": self.meta}

    def __getstate__(self) -> dict[str, Any]:
        with self._turns:
            parts = self._parts()
            return {**parts, "arrays": {name: a.copy() for name, a in parts["arrays"].items()}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Become the learner with this state, which is not shared."""
        header = state["header"]
        known = classes_in(header.get("labels"))
        Learner.__init__(self, state["update"], **state["options"], classes=known, compiled=state["compiled"])
        self._restore(header, state["arrays"])
        self.meta = copy.deepcopy(state["meta"])

    @classmethod
    def merge(
        cls: type[Self], learners: Iterable[Self], weights: Sequence[float] | None = None, base: Self | None = None
    ) -> Self:
        """The mean of learners with the same recipe that saw different rows, for parallel work.

        Parameters
        ----------
        learners : one or more. They stay as they are.
        weights : how much each counts; by default the rows n_k it learned from.
        base : the learner from whose copies all of them went on. Then n_k are the rows since.

        With shares c_k = n_k / (n_1 + n_2 + ...), every number v that learners keep (weights, or the sums they follow
        from; averages; statistics of step sizes; rounds, to the nearest whole number) becomes the sum of c_k v_k, which
        is base + sum of c_k (v_k - base). Of the largest values of a feature the largest is taken. `rows` add up.

        Named features are united by name, in the order in which they come, columns of frames by name, all others by
        number. A feature that a learner has not seen counts with the weight that learner would give it, as a rule 0.
        Classes are united by label; one that a learner has not met counts with weights of 0.
        `meta` is the first learner's. With `max_features`, features of weight 0 are dropped if there are too many;
        ValueError if that is not enough.

        To rounding, the result does not depend on the order, nor on who is merged first: merge([merge([a, b]), c]) is
        merge([a, b, c]). Equal learners merge into their equal, and one that saw no rows changes nothing. (Without any
        rows at all, or with `weights`, shares do not tell how often an entry was merged before.)

        A mean is not the learner of all rows in one stream: after one long run each, it has learned about as much as
        one of them. Short rounds from a common base lose less (docs/streams.md has numbers).

        >>> from fiol import FIOL, Learner, Squared
        >>> parts = [Learner(FIOL(Squared()), n_features=2) for _ in range(2)]
        >>> for part, x in zip(parts, ([[1.0, 0.0]], [[0.0, 1.0]])):
        ...     score = part.learn(x, [1.0])
        >>> whole = Learner.merge(parts)
        >>> whole.rounds, whole.rows, bool(np.allclose(whole.weights, (parts[0].weights + parts[1].weights) / 2))
        (1, 2, True)
        """
        parts = [learner.copy() for learner in check_parts(cls, learners, base)]  # a moment of each
        base = None if base is None else base.copy()
        share = shares_of(weights, [learner.rows for learner in parts], 0 if base is None else base.rows)
        everyone = parts if base is None else [base, *parts]
        called = ["base"] * (base is not None) + [f"learners[{k}]" for k in range(len(parts))]
        intake, places = united([learner._intake for learner in everyone], called)
        check_places(parts[0].update, places, called)
        engines = [part._placed(place, intake) for part, place in zip(parts, places[-len(parts) :], strict=True)]
        new = parts[0]
        new._intake = intake
        new.engine = merge_engines(engines, share, 0 if base is None else base.rows)
        if new.max_features is not None and new.n_features > new.max_features:
            new.prune()
            if new.n_features > new.max_features:
                raise ValueError(
                    f"together, {new.n_features} features have weights that are not 0, more than "
                    f"max_features={new.max_features}"
                )
        return new

    def _placed(self, places: Places, intake: Intake) -> Engine:
        """A copy of the engine, up to date, with its features and classes where they are in `intake`."""
        geometry = self.update.geometry
        each = geometry.entered(1)
        features = (each * places.features[:, None] + np.arange(each)).ravel()
        scores = None if intake.labels is None else len(intake.labels)
        return self.engine.placed(features, geometry.entered(intake.features), places.scores, scores)

    # --- files --------------------------------------------------------------------------------

    def save(self, path: Path) -> None:
        """Write everything, `meta` included, to a file (see `fiol.files.model`): atomically, checksummed, no pickle.

        A learner loaded from it goes on exactly, to the bit, as this one would have. Features never seen take no room.
        Labels of classes must be str, int or bool.
        """
        if self._intake.labels is not None:
            self._intake.labels.check_storable()
        with self._turns:  # learners wait for the disk: `copy().save(path)` lets them go on
            write_model(path, KIND, self.header(), self.arrays(), self.meta)

    @classmethod
    def load(cls: type[Self], path: Path, compiled: bool = True) -> Self:
        """The learner in a file, by whatever version it was written; ModelFileError for a model of another kind.

        Own components must have been defined or imported before.
        """
        return build_model(path, read_model(path, KIND), cls.from_parts, compiled)

    def _options(self) -> dict[str, Any]:
        return {
            "n_features": self.width if self.bits is None else None,
            "bits": self.bits,
            "max_features": self.max_features,
            "intercept": self.intercept_fitted,
            "average": self.averages,
            "dtype": self.dtype.name,
        }

    def header(self) -> dict[str, Any]:
        kept = list(self.update.statistics())
        parts = {"update": recipe.to_json(self.update), "options": self._options(), "statistics": kept}
        return {**parts, **self._intake.header()}

    def arrays(self) -> dict[str, Any]:
        """Everything that changes while learning, by name; not copies."""
        return self.engine.arrays()

    def _restore(self, header: dict[str, Any], arrays: dict[str, Any]) -> None:
        self._intake.restore(header)
        self.engine.restore(arrays)

    @classmethod
    def from_parts(cls: type[Self], header: dict[str, Any], arrays: dict[str, Any], compiled: bool = True) -> Self:
        """The learner of what a file says; whatever an older version did not write is as in a new learner."""
        check_header(header)
        update = recipe.from_json(header["update"])
        if not isinstance(update, (Update, Ensemble)):
            raise ValueError(f"its recipe is a {type(update).__name__}, not an Update")
        kept = list(update.statistics())
        if header.get("statistics", kept) != kept:  # an older version did not write them
            raise ValueError(f"array of statistics {header['statistics']!r} does not fit the update")
        labels = labels_from_header(header.get("labels"))
        if (labels is None) == isinstance(update.loss, JointLoss):
            raise ValueError(f"its labels do not go with {type(update.loss).__name__}")
        new = cls(update, **header["options"], classes=classes_in(labels), compiled=compiled)
        if new.n_features not in (0, header["features"]):  # 0 if their number is not fixed
            raise ValueError(f"it has {header['features']} features, but its options say {new.n_features}")
        new._restore(header, records.fill_missing(arrays, new.arrays(), new.engine.needed_arrays))
        return new

    def __repr__(self) -> str:
        return f"<Learner of {self.n_features} features after {self.rounds} rounds of {self.update.brief()}>"

    def __str__(self) -> str:
        return self._summary().text()

    def _repr_html_(self) -> str:
        return self._summary().html()

    def _summary(self) -> Summary:
        """What there is to tell about this learner: `print(learner)`, and what notebooks show."""
        model = self.copy()  # one moment of it, whatever other threads do
        held = {"features": model.n_features, "features with weight": model.n_nonzero, "rounds": model.rounds}
        classes = {} if model.classes is None else {"classes": len(model.classes)}
        members = model.members
        loss = {"progressive loss": model.progressive_loss} if members and model.rounds else {}
        facts = {"update": model.update.brief(), **held, **classes, **loss}
        return Summary("fiol.Learner", facts, members, model.importances(SHOWN) if model.update.is_linear() else {})

    def _entered(self, chunk: Chunk) -> Chunk:
        """The rows as the working geometry sees them."""
        return Chunk(*self.update.geometry.enter_rows(chunk, self._intake.features))


# --- arguments --------------------------------------------------------------------------------

INDEX_TYPE, VALUE_TYPE = np.dtype(np.int32), np.dtype(np.float64)
#: Types of a target that need no second look.
TARGET_TYPES = {float, int, np.float64, np.int64}


def is_vector(array: Any, dtype: Any) -> bool:
    """Whether a compiled loop can take `array` as it is."""
    if type(array) is not np.ndarray or array.dtype is not dtype or array.ndim != 1:
        return False
    flags = array.flags
    return flags.c_contiguous and flags.aligned


def labels_for(update: Update | Ensemble, classes: Any) -> Labels | None:
    """The classes of a learner whose loss has a score for each; None for a loss of one score."""
    if isinstance(update.loss, JointLoss):
        return Labels(() if classes is None else check_classes(classes), closed=classes is not None)
    if classes is not None:
        name = type(update.loss).__name__
        raise TypeError(f"{name} has one score, not one per class: use a joint loss, such as Softmax(), or OneVsRest")
    return None


def features_with_weight(weights: Floats) -> Any:
    """Which features have a weight other than 0, for any class."""
    return weights != 0.0 if weights.ndim == 1 else weights.any(axis=0)


def softmax(scores: Floats) -> Floats:
    """Probabilities of classes, one row per row of scores.

    >>> softmax(np.array([[0.0, 0.0], [1000.0, 0.0]]))
    array([[0.5, 0.5],
           [1. , 0. ]])
    """
    if not scores.shape[1]:
        return scores
    p: Floats = np.exp(scores - scores.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def processors() -> int:
    """How many there are."""
    return os.cpu_count() or 1


def check_flag(name: str, value: Any) -> None:
    """ValueError unless an option is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False, got {value!r}")


def check_size(name: str, value: Any) -> int:
    """A number of features."""
    size = integer(name, value)
    if not 1 <= size <= MOST_FEATURES:
        raise ValueError(f"{name} must be from 1 to {MOST_FEATURES}, got {size}")
    return size


def coding_given(coding: Any, width: int | None, bits: int | None) -> Coding | None:
    """The coding that is told by hand, if there is one; TypeError where columns have to be features."""
    if coding is None:
        return None
    if width is not None and bits is None:
        raise TypeError("a coding makes as many features as there are names: leave out n_features")
    return Coding.given(coding)


def chosen_update(update: Any, loss: Any, regularizer: Any) -> Any:
    """The update that is given, or `Stacked` with this loss and penalty.

    >>> from fiol import FIOL, Squared
    >>> chosen_update(None, Squared(), None).brief()
    'Ensemble of 7 with Squared()'
    >>> chosen_update(FIOL(Squared()), Squared(), None)
    Traceback (most recent call last):
    TypeError: give an update, which has a loss and a regularizer, or these
    """
    if update is None:
        return Stacked(Logistic() if loss is None else loss, Unregularized() if regularizer is None else regularizer)
    if loss is not None or regularizer is not None:
        raise TypeError("give an update, which has a loss and a regularizer, or these")
    return update


def plans_of(update: Update | Ensemble, averaging: bool) -> list[Plan]:
    """The plan of an update, or of every member of an ensemble."""
    if not isinstance(update, Ensemble):
        return [make_plan(update, averaging)]
    if averaging:
        raise TypeError("an ensemble keeps no averages: its stack takes the place of them")
    return [make_plan(member) for member in update.updates]


def fixed_features(
    update: Update | Ensemble, plans: list[Plan], n_features: Any, bits: Any, max_features: Any
) -> int | None:
    """How many features there are from the start to the end; None if their number grows."""
    given = [name for name, value in (("n_features", n_features), ("bits", bits)) if value is not None]
    if max_features is not None:
        given.append("max_features")
    if len(given) > 1:
        raise TypeError(f"{' and '.join(given)} exclude each other")
    if n_features is not None:
        check_size("n_features", n_features)
        n_features = operator.index(n_features)
    if bits is not None:
        n_features = Hashing(bits).size
    sizes = per_feature_sizes(update)
    if sizes and max_features is not None:
        raise TypeError(f"{sizes[0][0]} has one number per feature, so max_features cannot renumber them")
    if n_features is None and sizes:
        n_features = sizes[0][1][0]
    for name, shape in sizes:
        if shape[0] != n_features:
            raise ValueError(f"{name} is for {shape[0]} features, but there are {n_features}")
    everywhere = any(plan.laziness.everywhere and plan.first_weight(1) != 0.0 for plan in plans)
    if n_features is None and (update.geometry.mixes_features() or everywhere):
        raise TypeError(f"{type(update.geometry).__name__} needs to know how many features there are: give n_features")
    return n_features


def check_parts(kind: Any, learners: Any, base: Any) -> list[Any]:
    """Learners of one kind and recipe, as a list; TypeError or ValueError if that is not what they are."""
    if not isinstance(learners, Iterable):
        raise TypeError(f"learners must be a list of learners, got {type(learners).__name__}: use merge([a, b])")
    parts = list(learners)
    if not parts:
        raise ValueError("merge needs at least one learner")
    named = [(f"learners[{k}]", learner) for k, learner in enumerate(parts)]
    for name, learner in [*named, *([] if base is None else [("base", base)])]:
        if not isinstance(learner, kind):
            raise TypeError(f"{name} must be a {kind.__name__}, got {type(learner).__name__}")
        if learner.update != parts[0].update or learner._options() != parts[0]._options():
            raise ValueError(f"{name} has another recipe than learners[0]")
    return parts


def check_dtype(dtype: Any) -> Any:
    """float64 or float32."""
    try:
        found = np.dtype(dtype)
    except TypeError:
        found = None
    if found is None or found not in (np.dtype(np.float64), np.dtype(np.float32)):  # numpy finds None equal to float64
        raise ValueError(f'dtype must be "float64" or "float32", got {dtype!r}')
    return found


register_kind(KIND, Learner.from_parts)
