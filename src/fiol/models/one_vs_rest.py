"""Many classes by learners that tell two apart: each is told +1 for the rows of its class and -1 for all others."""

from __future__ import annotations

import contextlib
import copy
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar, Union

import numpy as np

from fiol.components.losses import Loss
from fiol.components.problem import expect
from fiol.components.row import Floats
from fiol.engine.engine import IN_ORDER
from fiol.engine.pacing import paced
from fiol.files import recipe
from fiol.files.model import Path, build_model, read_model, register_kind, write_model
from fiol.intake.blocks import blocks_of, check_order, learned_in_blocks, learned_in_chunks, padded, scattered
from fiol.intake.chunk import Chunk
from fiol.intake.coding import Coding
from fiol.intake.file_header import check_header, classes_in
from fiol.intake.intake import Intake, counted, one_row
from fiol.intake.labels import Labels, check_classes, labels_from_header, labels_of_rows, plain_label
from fiol.intake.targets import check_sample_weights
from fiol.intake.transaction import Transaction
from fiol.intake.turns import Turns
from fiol.intake.uniting import united
from fiol.learner import INDEX_TYPE, VALUE_TYPE, Learner, check_parts, coding_given, is_vector
from fiol.models.epochs import Map
from fiol.snapshot import Snapshot, scores_in_turn
from fiol.summary import SHOWN, Summary, by_importance, deviations
from fiol.update.ensemble import Ensemble
from fiol.update.update import Update

Self = TypeVar("Self", bound="OneVsRest")
#: One round of a learner, told a target; its score before, or None.
Attempt = Callable[[Learner, float], Union[float, None]]
#: What `OneVsRest.save` writes.
KIND = "one-vs-rest"
#: So often learners are asked to catch up after an interrupt, should others follow.
TRIES = 10
#: The label of no class: what `learners.get` does not find.
NO_CLASS = object()


class OneVsRest:
    """A linear model with a learner per class, each of which tells its class from all others.

    Parameters
    ----------
    update : what happens in a round of every learner: an `Update`, or an `Ensemble`, whose loss has one score.
    classes : the labels of all classes there are. For two of them one learner is enough, that of the second; the score
        of the first is the other's, negated. By default classes may appear at any time.
    n_features, bits, coding, intercept, average, dtype, compiled : as for a `Learner`.

    Unless the classes are given, one more learner is told -1 in every round. A class starts from a copy of it, so that
    the model is exactly the one that knew all classes from the start. The container of the rows is read once for all
    learners, and if anything is wrong with a chunk, nothing has been learned from it.

    Threads take turns, and signals stop learning in the middle of a chunk, as for a `Learner`: whatever happens, all
    learners have learned from the same rows.

    Examples
    --------
    >>> from fiol import FIOL, Logistic, OneVsRest
    >>> fruit = OneVsRest(FIOL(Logistic()))
    >>> fruit.learn([{"color": "red"}, {"color": "green"}, {"color": "red"}], ["apple", "pear", "apple"]).shape
    (3, 2)
    >>> fruit.classes, fruit.weights.shape, fruit.names
    (['apple', 'pear'], (2, 2), ['color=red', 'color=green'])
    >>> fruit.predict([{"color": "green"}])
    array(['pear'], dtype='<U5')
    """

    def __init__(
        self,
        update: Update | Ensemble,
        *,
        classes: Sequence[Any] | None = None,
        n_features: int | None = None,
        bits: int | None = None,
        coding: Any = None,
        intercept: bool = True,
        average: bool = False,
        dtype: Any = "float64",
        compiled: bool = True,
    ) -> None:
        expect("update", update, Ensemble if isinstance(update, Ensemble) else Update)
        check_two_classes(update)
        shared = {"intercept": intercept, "average": average, "dtype": dtype, "compiled": compiled}
        like = Learner(update, n_features=n_features, bits=bits, **shared)
        self.update, self.compiled, self._shared = update, compiled, {**shared, "n_features": like.width}
        self.meta: dict[str, Any] = {}  #: yours: any JSON values, kept in copies and files
        self._turns: Any = Turns()
        told = coding_given(coding, like.width, bits)
        self._intake = Intake(like.width, bits, counts_unseen=like.counts_unseen, coding=told)
        labels = Labels(() if classes is None else check_classes(classes), closed=classes is not None)
        self._intake.labels = self.labels = labels
        own = labels.classes[1:] if labels.closed and len(labels) == 2 else labels.classes
        #: The learners of these classes.
        self.learners: dict[Any, Learner] = {label: self._new_learner() for label in own}
        #: The learner that is told -1 in every round; None if there will be no more classes.
        self.standby: Learner | None = None if labels.closed else self._new_learner()

    def _new_learner(self) -> Learner:
        return Learner(self.update, **self._shared)

    # --- learning -----------------------------------------------------------------------------

    def learn(self, X: Any, y: Any, sample_weight: Any = None) -> Floats:
        """One round per row and learner; returns the scores of each row before its round, of shape (rows, classes).

        X is what `Learner.learn` takes, y has one label per row: str, int or bool. There is a column for each class
        known after the call, which is 0 in the rows before the first one of the class.

        >>> from fiol import FIOL, Hinge, OneVsRest
        >>> model = OneVsRest(FIOL(Hinge()), classes=[1, 2, 3])
        >>> model.learn([[1.0], [2.0]], [1, 4])
        Traceback (most recent call last):
        ValueError: y[1]: 4 is none of the classes [1, 2, 3]
        >>> model.rounds
        0
        """
        X, rows = counted(X)
        if rows is None:
            scores = learned_in_blocks(self._learn_rows, X, labels_of_rows(y, None, self.labels), sample_weight)
            return padded(scores, self.labels)
        with self._turns:
            return self._learn_rows(X, labels_of_rows(y, rows, self.labels), check_sample_weights(sample_weight, rows))

    def _learn_rows(self, X: Any, y: list[Any], sample_weights: Floats) -> Floats:
        """A round per row, all or nothing, or as many as the exception says."""
        with self._turns, self._intake.transaction(self, learner=self):
            return self._rounds(self._intake.take_in(X), y, sample_weights)

    def learn_chunk(self, chunk: Chunk, y: Any, sample_weight: Any = None, order: Any = None) -> Floats:
        """`learn` for a canonical chunk of numbered features: see `Learner.learn_chunk`."""
        with self._turns, self._intake.transaction(self, learner=self):
            chunk = self._intake.take_in_chunk(chunk)
            labels, sample_weights = (
                labels_of_rows(y, chunk.rows, self.labels),
                check_sample_weights(sample_weight, chunk.rows),
            )
            if order is None:
                return self._rounds(chunk, labels, sample_weights)
            order = check_order(order, chunk.rows)
            scores = self._rounds(chunk.take(order), [labels[k] for k in order], sample_weights[order])
            return scattered(scores, order, chunk.rows)

    def learn_chunks(self, chunks: Iterable[Any]) -> Floats:
        """`learn` for one pair (X, y), or triple (X, y, sample_weight), after another: see `Learner.learn_chunks`.

        >>> from fiol import FIOL, Hinge, OneVsRest
        >>> model = OneVsRest(FIOL(Hinge()))
        >>> model.learn_chunks(([[float(k)]], [label]) for k, label in enumerate(["a", "b", "a"])).shape, model.rounds
        ((3, 2), 3)
        """
        return padded(learned_in_chunks(self.learn, chunks), self.labels)

    def learn_one(self, indices: Any, values: Any, y: Any, sample_weight: float = 1.0) -> Floats:
        """One round for the row with these values at these indices; returns its scores before, one per class.

        >>> from fiol import FIOL, Hinge, OneVsRest
        >>> OneVsRest(FIOL(Hinge()), classes=["a", "b", "c"]).learn_one([3, 5], [1.0, 2.0], y="b")
        array([0., 0., 0.])
        """
        if self._intake.encoder is None and is_vector(indices, INDEX_TYPE) and is_vector(values, VALUE_TYPE):
            with self._turns:
                scores = self.try_row(indices, values, y, sample_weight)
            if scores is not None:
                return self._by_class(np.array([scores]))[0]
        return self.learn(one_row(indices, values), [y], [sample_weight])[0]  # type: ignore[no-any-return]

    def learn_named(self, features: Mapping[Any, Any], y: Any, sample_weight: float = 1.0) -> Floats:
        """One round for a dict of features, see `Learner.learn_named`; returns its scores before, one per class."""
        with self._turns:
            intake = self._intake
            scores = self.try_event(features, y, sample_weight)
            if scores is None:
                row = intake.known_row(features)
                scores = None if row is None else self.try_row(*row, y, sample_weight)
            if scores is not None:
                return self._by_class(np.array([scores]))[0]
            with intake.transaction(self, learner=self):
                row = intake.take_in_row(features)
                labels, sample_weights = labels_of_rows([y], 1, self.labels), check_sample_weights([sample_weight], 1)
                return self._rounds(one_row(*row), labels, sample_weights)[0]  # type: ignore[no-any-return]

    def try_row(self, indices: Any, values: Any, y: Any, sample_weight: Any) -> list[float] | None:
        """The round of a row that is in order, and the score of every class's learner; None, and no round, otherwise.

        A row that is not in order, such as one with a new label, needs a second look.
        """

        def attempt(learner: Learner, target: float) -> float | None:
            return learner.try_row(indices, values, target, sample_weight)

        return self._try(y, sample_weight, attempt, lambda: (indices, values))

    def try_event(self, row: Any, y: Any, sample_weight: Any, *outer: Intake) -> list[float] | None:
        """`try_row` for a dict: see `Learner.try_event`."""
        intakes, alone = (*outer, self._intake), self._is_pair

        def attempt(learner: Learner, target: float) -> float | None:
            return learner.try_event(row, target, sample_weight, *intakes, grows=alone)

        return self._try(y, sample_weight, attempt, lambda: intakes[0].read_row(row))

    def _try(
        self, y: Any, sample_weight: Any, attempt: Attempt, row: Callable[[], tuple[Any, Any]]
    ) -> list[float] | None:
        """A round of every learner, or None and no round; `row` gives indices and values when they are asked for."""
        try:
            known = y in self.labels.codes
        except TypeError:  # no label at all
            return None
        if not known:
            return None
        scores, rounds, tasks = list[float](), self.rounds, self.told(y)
        undo = None if self.compiled else Transaction(*self._all())
        try:
            for learner, target in tasks:
                z = attempt(learner, target)
                if z is None and not scores:
                    return None
                scores.append(learner.learn_one(*row(), target, sample_weight) if z is None else z)
        except BaseException:
            if undo is not None:
                undo.rewind()
            else:
                weights = np.array([sample_weight], np.float64)
                targets = [(learner, np.array([target])) for learner, target in tasks]
                Passage(one_row(*row()), targets, weights, rounds).end()
            raise
        return scores if self.standby is None else scores[:-1]

    def _rounds(self, chunk: Chunk, y: list[Any], sample_weights: Floats) -> Floats:
        """A round per row of features that were taken in; labels are taken in, too. Call it inside a transaction."""
        before = len(self.labels)
        codes, first = self.labels.code(y)
        self._give_learners()
        scores = self.learn_each(chunk, codes, sample_weights)
        found = self._by_class(np.column_stack(scores if self.standby is None else scores[:-1] or [np.empty((0, 0))]))
        for k, row in enumerate(first, start=before):
            found[:row, k] = 0.0
        return found

    # For the rest of the package: rounds that each learner makes on its own.

    def learn_each(self, chunk: Chunk, codes: Any, sample_weights: Floats, each: Map = map) -> list[Floats]:
        """A round per row and learner, all of whose classes there are; the scores of every learner, as in `told_all`.

        The learners go through the rows together, a piece at a time, so that an interrupt finds none far behind.
        `each` may let them work in threads.
        """
        tasks = self.told_all(codes)
        for learner, _ in tasks:
            learner.extend(self._intake.features)
        passage = Passage(chunk, tasks, sample_weights, self.rounds)
        with Transaction(*([] if self.compiled else self._all())):
            for start, stop in paced(chunk, IN_ORDER, tasks[0][0].row_cost * len(tasks)):
                try:
                    for _ in each(partial(passage.learn, start, stop), range(len(tasks))):
                        pass
                except BaseException:
                    if self.compiled:
                        passage.end()
                    raise
        return passage.scores

    def meet(self, labels: Iterable[Any]) -> None:
        """Take in the classes that are new; ValueError if there are none to come."""
        with self._turns, Transaction(self):
            self.labels.take_in(labels)
            self._give_learners()

    def _give_learners(self) -> None:
        """A copy of the learner that stands by for every class without one."""
        if self.standby is not None and len(self.learners) < len(self.labels):
            new = {label: self.standby.copy() for label in self.labels.codes if label not in self.learners}
            self.learners = {**self.learners, **new}

    def opened(self: Self) -> Self:
        """A copy that takes classes that appear, though they were given; a new one starts as before the first round.

        Of two classes, the learner of the first becomes that of the second, negated, as their scores were.

        >>> from fiol import FIOL, Hinge, OneVsRest
        >>> model = OneVsRest(FIOL(Hinge()), classes=[False, True])
        >>> scores = model.learn([[1.0], [-1.0]], [True, False])
        >>> more = model.opened()
        >>> more.learn([[3.0]], ["perhaps"]).shape, more.classes
        ((1, 3), [False, True, 'perhaps'])
        """
        new = self.copy()
        if new._is_pair:
            (second,) = new.learners.values()
            new.learners = dict(zip(new.classes, (second.negated(), second), strict=True))
        new.labels.closed, new.standby = False, new._new_learner()
        return new

    def arrange(self, classes: Iterable[Any]) -> None:
        """Number the classes, which are those there are, in this order."""
        self.labels.arrange(classes)
        self.learners = {label: self.learners[label] for label in self.codes if label in self.learners}

    def rename(self, classes: Sequence[Any]) -> None:
        """Call the classes there are, in their order, by these labels."""
        own = classes[1:] if self._is_pair else classes
        self.learners = dict(zip(own, self.learners.values(), strict=True))
        self.labels.arrange(classes)

    def told(self, label: Any) -> list[tuple[Learner, float]]:
        """Every learner, and its target in a round with this label; the one that stands by comes last.

        >>> from fiol import FIOL, Hinge, OneVsRest
        >>> fruit = OneVsRest(FIOL(Hinge()))
        >>> fruit.meet(["apple", "pear"])
        >>> [target for _, target in fruit.told("pear")]
        [-1.0, 1.0, -1.0]
        """
        own = self.learners.get(label)
        tasks = [(learner, 1.0 if learner is own else -1.0) for learner in self.learners.values()]
        if self.standby is not None:
            tasks.append((self.standby, -1.0))
        return tasks

    def told_all(self, codes: Any) -> list[tuple[Learner, Floats]]:
        """Every learner, and its targets in rounds whose classes have these codes; the same order."""
        own = ((learner, codes == self.labels.codes[label]) for label, learner in self.learners.items())
        tasks = [(learner, np.where(yes, 1.0, -1.0)) for learner, yes in own]
        return tasks if self.standby is None else [*tasks, (self.standby, np.full(codes.shape, -1.0))]

    def taking_in(self) -> Transaction:
        """As `Learner.taking_in`."""
        return self._intake.transaction(self, learner=self)

    def take_in(self, X: Any) -> Chunk:
        """Rows for `learn_each`, their features taken in."""
        chunk = self._intake.take_in(X)
        for learner in self._all():
            learner.extend(self._intake.features)
        return chunk

    def read_in(self, X: Any) -> Chunk:
        """Rows for `score_canonical`."""
        return self._intake.read(X)

    def share_features(self, other: Any) -> None:
        """Know the features that another model knows, before the first round."""
        self._intake.share_features(other._intake)
        for learner in self._all():
            learner.extend(self._intake.features)

    def mark(self) -> Any:
        """A token for `rewind`: see `fiol.intake.transaction`."""
        return self.labels.mark(), self.learners

    def rewind(self, mark: Any) -> None:
        """Take back all classes since the mark: something went wrong before their first round."""
        codes, self.learners = mark
        self.labels.rewind(codes)

    # --- predicting ---------------------------------------------------------------------------

    def scores(self, X: Any) -> Floats:
        """The score of every row for every class, of shape (rows, classes): see `Learner.scores`."""
        X, rows = counted(X, "predict_named or score_named")
        if rows is None:
            return padded([self.scores(block) for block in blocks_of(X)], self.labels)
        return scores_in_turn(self, X)

    def score_chunk(self, chunk: Chunk) -> Floats:
        """`scores` for a canonical chunk of numbered features: cheap checks only."""
        with self._turns:
            return self.score_canonical(self._intake.read_chunk(chunk))

    def score_canonical(self, chunk: Chunk) -> Floats:
        """`score_chunk` for rows that an `Intake` has checked."""
        found = np.empty((chunk.rows, len(self.learners)))
        for k, learner in enumerate(self.learners.values()):
            found[:, k] = learner.score_canonical(chunk)
        return self._by_class(found)

    def score_one(self, indices: Any, values: Any) -> Floats:
        """The scores of one row, one per class: see `learn_one`."""
        return self.scores(one_row(indices, values))[0]  # type: ignore[no-any-return]

    def score_named(self, features: Mapping[Any, Any]) -> Floats:
        """The scores of a dict of features, one per class: see `Learner.score_named`."""
        with self._turns:
            return self.scores_of_event(features, turns=self._turns)

    def scores_of_event(self, row: Any, *outer: Intake, turns: Any) -> Floats:
        """The scores of a dict, one per class: see `Learner.score_event`; here, a second look is taken."""
        learners = self.learners.values()
        found = [learner.score_event(row, *outer, self._intake, turns=turns) for learner in learners]
        if None in found or not found:
            intake = outer[0] if outer else self._intake
            return self.score_canonical(one_row(*intake.read_row(row)))[0]  # type: ignore[no-any-return]
        return self._by_class(np.array([found]))[0]

    def predict_named(self, features: Mapping[Any, Any]) -> Any:
        """The label of a dict of features: that of the highest score.

        >>> from fiol import FIOL, Hinge, OneVsRest
        >>> fruit = OneVsRest(FIOL(Hinge()))
        >>> scores = fruit.learn([{"color": "red"}, {"color": "green"}], ["apple", "pear"])
        >>> fruit.predict_named({"color": "green"})
        'pear'
        """
        with self._turns:
            return plain_label(self.labels_of(self.scores_of_event(features, turns=self._turns)[None])[0])

    def predict(self, X: Any) -> Any:
        """The label of every row: that of the highest score."""
        return self.labels_of(self.scores(X))

    def labels_of(self, scores: Floats) -> Any:
        """The label of the highest of every row's scores, whatever classes another thread has added since."""
        if not scores.shape[1]:
            raise ValueError("there are no classes yet")
        return self.labels.array(scores.shape[1])[scores.argmax(axis=1)]

    def probabilities(self, X: Any) -> Floats:
        """The probability of every class for every row: those of one against the rest, divided by their sum.

        TypeError unless the scores of the loss are log-odds.

        >>> from fiol import FIOL, Logistic, OneVsRest
        >>> OneVsRest(FIOL(Logistic()), classes=["a", "b", "c", "d"]).probabilities([[1.0]])
        array([[0.25, 0.25, 0.25, 0.25]])
        """
        return self.probabilities_of(self.scores(X))

    def probabilities_of(self, scores: Floats) -> Floats:
        """The probabilities that belong to scores of shape (rows, classes): see `probabilities`."""
        if self.update.loss.link != "logit":
            raise TypeError(f"{type(self.update.loss).__name__} has no probabilities: use Logistic()")
        if not scores.shape[1]:
            return scores
        learner = next(iter(self.learners.values()))
        if self._is_pair:
            p = learner.predictions(scores[:, 1].copy())
            return np.column_stack([1.0 - p, p])
        return normalized(learner.predictions(scores.ravel()).reshape(scores.shape))

    @property
    def _is_pair(self) -> bool:
        """Whether one learner tells two classes apart."""
        return self.labels.closed and len(self.labels) == 2

    def _by_class(self, scores: Floats) -> Floats:
        """Scores, or intercepts or weights by feature, with a column per learner, with a column per class."""
        return np.column_stack([-scores[:, 0], scores[:, 0]]) if self._is_pair else scores

    # --- the model ----------------------------------------------------------------------------

    @property
    def classes(self) -> list[Any]:
        """The classes there are, in the order of weights and scores: as given, or as they appeared."""
        with self._turns:
            return self.labels.classes

    @property
    def closed(self) -> bool:
        """Whether there will be no classes but those there are."""
        return self.labels.closed

    @property
    def codes(self) -> dict[Any, int]:
        """The place of every class in `classes`."""
        return self.labels.codes

    @property
    def weights(self) -> Floats:
        """The weights (their averages, if these are kept) of shape (classes, features); a copy."""
        with self._turns:
            n = self.n_features
            found = [learner.weights_of_first(n) for learner in self.learners.values()]
            w = np.column_stack(found) if found else np.empty((n, 0))
            return np.ascontiguousarray(self._by_class(w).T)

    @property
    def intercept(self) -> Floats:
        """The intercept of every class."""
        with self._turns:
            found = np.array([[learner.intercept for learner in self.learners.values()]])
            return self._by_class(found)[0]  # type: ignore[no-any-return]

    @property
    def rounds(self) -> int:
        """Rounds made by each learner, or most of them: rows learned from."""
        return max(learner.rounds for learner in self._all())

    @property
    def rows(self) -> int:
        """Rows learned from, those of all merged models together."""
        return max(learner.rows for learner in self._all())

    @property
    def n_features(self) -> int:
        """Features there are, or were seen so far."""
        return self._intake.features

    @property
    def names(self) -> list[str | int] | None:
        """The names of the features, in the order of `weights`; None if they are numbers."""
        with self._turns:
            return self._intake.names

    @property
    def coding(self) -> Coding | None:
        """How columns of frames become features: see `Learner.coding`."""
        return self._intake.coding

    @property
    def nbytes(self) -> int:
        """Bytes of memory for everything that is learned (names of features not counted)."""
        return sum(learner.nbytes for learner in self._all())

    def settle(self) -> None:
        """Bring every stored weight up to date; see `Learner.settle`."""
        with self._turns:
            for learner in self._all():
                learner.settle()

    def _all(self) -> list[Learner]:
        """All learners, the one that stands by last."""
        own = list(self.learners.values())
        return own if self.standby is None else [*own, self.standby]

    def copy(self: Self) -> Self:
        """A model of its own that goes on from here."""
        new = object.__new__(type(self))
        with self._turns:
            new.__setstate__(self.__dict__)
            new.meta, new._intake = copy.deepcopy(self.meta), copy.deepcopy(self._intake)
            assert new._intake.labels is not None
            new.labels = new._intake.labels
            new.learners = {label: learner.copy() for label, learner in self.learners.items()}
            new.standby = None if self.standby is None else self.standby.copy()
        return new

    def snapshot(self) -> Snapshot:
        """A scorer with the weights of this moment, which never change: see `Learner.snapshot`."""
        return Snapshot(self.copy())

    def __getstate__(self) -> dict[str, Any]:
        return self.copy().__dict__  # one moment for all learners

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._turns = Turns()

    def with_update(self: Self, update: Update | Ensemble) -> Self:
        """A model with another update that starts from the weights of this one: see `Learner.with_update`."""
        check_two_classes(update)
        new = self.copy()
        new.update = update
        new.learners = {label: learner.with_update(update) for label, learner in new.learners.items()}
        new.standby = None if new.standby is None else new.standby.with_update(update)
        new._intake.counts_unseen = new._all()[0].counts_unseen
        return new

    @classmethod
    def merge(
        cls: type[Self], models: Iterable[Self], weights: Sequence[float] | None = None, base: Self | None = None
    ) -> Self:
        """The mean of models with the same recipe that saw different rows: that of their learners, class by class.

        See `Learner.merge`. Classes are united by label. For a class that a model has not met stands the learner that
        stands by for it there, so that it is as if all models had known all classes from the start.

        >>> from fiol import FIOL, Hinge, OneVsRest
        >>> parts = [OneVsRest(FIOL(Hinge())) for _ in range(2)]
        >>> for part, fruit in zip(parts, ("apple", "pear")):
        ...     score = part.learn_named({"size": 3.0}, fruit)
        >>> whole = OneVsRest.merge(parts)
        >>> whole.classes, whole.rows, bool((whole.weights[0] == -whole.weights[1]).all())
        (['apple', 'pear'], 2, True)
        """
        parts = [model.copy() for model in check_parts(cls, models, base)]  # a moment of each
        base = None if base is None else base.copy()
        everyone = parts if base is None else [base, *parts]
        called = ["base"] * (base is not None) + [f"learners[{k}]" for k in range(len(parts))]
        new, (intake, _) = parts[0].copy(), united([model._intake for model in everyone], called)
        assert intake.labels is not None
        new._intake, new.labels = intake, intake.labels

        def merged(label: Any) -> Learner:
            found = [model._named_learner(label, name) for model, name in zip(everyone, called, strict=True)]
            start = None if base is None else found.pop(0)
            numbered = Intake(intake.width, counts_unseen=intake.counts_unseen)
            numbered.features = intake.features
            return Learner.merge(found, weights, start).with_intake(numbered)

        new.learners = {label: merged(label) for label in (new.classes[1:] if new._is_pair else new.classes)}
        new.standby = None if new.labels.closed else merged(NO_CLASS)
        return new

    def _named_learner(self, label: Any, called: str) -> Learner:
        """The learner of a class, or the one that stands by for it, whose features are those of the model."""
        learner = self.learners.get(label, self.standby)
        if learner is None:
            raise ValueError(f"{called} has its two classes in another order: {self.classes}")
        intake = copy.copy(self._intake)
        intake.labels = None
        return learner.with_intake(intake)

    # --- files --------------------------------------------------------------------------------

    def save(self, path: Path) -> None:
        """Write everything, `meta` included, to a file: see `Learner.save`. Labels must be str, int or bool."""
        with self._turns:
            self.labels.check_storable()
            write_model(path, KIND, self.header(), self.arrays(), self.meta)

    def header(self) -> dict[str, Any]:
        return {"update": recipe.to_json(self.update), "options": self._options(), **self._intake.header()}

    def arrays(self) -> dict[str, Any]:
        """Everything that changes while learning, by the number of the learner and name; not copies."""
        return {f"{k}/{name}": a for k, one in enumerate(self._all()) for name, a in one.arrays().items()}

    @classmethod
    def load(cls: type[Self], path: Path, compiled: bool = True) -> Self:
        """The model in a file, by whatever version it was written; ModelFileError for a model of another kind."""
        return build_model(path, read_model(path, KIND), cls.from_parts, compiled)  # type: ignore[no-any-return]

    def _options(self) -> dict[str, Any]:
        like, bits = self._all()[0], self._intake.bits
        kept = {"intercept": like.intercept_fitted, "average": like.averages, "dtype": like.dtype.name}
        return {"n_features": like.width if bits is None else None, "bits": bits, **kept}

    @classmethod
    def from_parts(cls: type[Self], header: dict[str, Any], arrays: dict[str, Any], compiled: bool = True) -> Self:
        """The model of what a file says; its learners' arrays begin with their numbers, the one that stands by last."""
        check_header(header)
        update, labels = recipe.from_json(header["update"]), labels_from_header(header.get("labels"))
        if not isinstance(update, (Update, Ensemble)):
            raise ValueError(f"its recipe is a {type(update).__name__}, not an Update")
        if labels is None:
            raise ValueError("its labels are missing from its header")
        new = cls(update, **header["options"], classes=classes_in(labels), compiled=compiled)
        if new.n_features not in (0, header["features"]):
            raise ValueError(f"it has {header['features']} features, but its options say {new.n_features}")
        pair = new._is_pair and labels["closed"]
        new._intake.restore(header)
        assert new._intake.labels is not None
        new.labels = new._intake.labels
        names = labels["classes"][1:] if pair else labels["classes"]
        plain = {**header, "options": {**header["options"], "n_features": new._shared["n_features"], "bits": None}}
        plain |= {"columns": None, "names": None, "labels": None}
        found, wanted = [], len(names) + (not labels["closed"])
        if any(int(name.partition("/")[0]) >= wanted for name in arrays if name.partition("/")[0].isdecimal()):
            raise ValueError(f"it has more learners than its {len(labels['classes'])} classes need")
        for k in range(wanted):
            own = {name.removeprefix(f"{k}/"): a for name, a in arrays.items() if name.startswith(f"{k}/")}
            found.append(Learner.from_parts(plain, own, compiled))
        new.learners = dict(zip(names, found, strict=False))
        new.standby = None if labels["closed"] else found[-1]
        return new

    def __repr__(self) -> str:
        return f"<OneVsRest of {len(self.labels)} classes after {self.rounds} rounds of {self.update.brief()}>"

    def _repr_html_(self) -> str:
        return self._summary().html()

    def __str__(self) -> str:
        return self._summary().text()

    def _summary(self) -> Summary:
        """What there is to tell about this model: `print(model)`, and what notebooks show."""
        held = {"features": self.n_features, "classes": len(self.labels), "rounds": self.rounds}
        facts = {"update of every class": self.update.brief(), **held}
        return Summary("fiol.OneVsRest", facts, [], self.importances(SHOWN))

    def importances(self, most: int | None = None, X: Any = None) -> dict[str | int, float]:
        """How much every feature matters, by its name: see `Learner.importances`; root mean squares over classes."""
        model = self.copy()
        learners = list(model.learners.values())
        if not learners or not model.n_features:
            return {}
        scales = learners[0].scales_of(model.n_features) if X is None else deviations(*model._intake.moments(X))
        return by_importance(model.names, model.weights, scales, most)


class Passage:
    """The learners of a model on their way through rows, piece by piece.

    An interrupt may come when some have learned from a piece and others have not. Compiled rounds cannot be taken back,
    so `end` lets all learn what one has. Their clocks tell how far each is.
    """

    def __init__(self, chunk: Chunk, tasks: list[tuple[Learner, Any]], sample_weights: Floats, rounds: int) -> None:
        self.chunk, self.tasks, self.sample_weights, self.rounds = chunk, tasks, sample_weights, rounds
        self.scores = [np.zeros(chunk.rows) for _ in tasks]
        self.ended = False

    def learn(self, start: int, stop: int, k: int) -> None:
        """Let learner k learn from these rows, unless an interrupt came before."""
        learner, y = self.tasks[k]
        with learner._turns:
            if not self.ended:
                chunk = self.chunk if stop - start == self.chunk.rows else self.chunk.row_block(start, stop)
                scores = learner.learn_canonical(chunk, y[start:stop], self.sample_weights[start:stop])
                self.scores[k][start:stop] = scores

    def end(self) -> None:
        """After an interrupt: let all learners be where the first of them is."""
        self.ended, furthest = True, 0
        for learner, _ in self.tasks:
            with learner._turns:  # another thread may have to end its piece
                furthest = max(furthest, learner.rounds - self.rounds)
        for _, (learner, y) in itertools.product(range(TRIES), self.tasks):
            rest = slice(learner.rounds - self.rounds, furthest)
            if rest.start < furthest:
                with contextlib.suppress(BaseException):  # one more interrupt: the first is raised in the end
                    chunk = self.chunk.row_block(rest.start, furthest)
                    learner.learn_canonical(chunk, y[rest], self.sample_weights[rest])


def check_two_classes(update: Update | Ensemble) -> None:
    """TypeError unless a learner with this update tells -1 from +1."""
    loss = update.loss
    if not isinstance(loss, Loss):
        raise TypeError(f"{type(loss).__name__} has a score per class already: use Learner, not OneVsRest")
    if not (loss.accepts(-1.0) and loss.accepts(1.0)):
        raise TypeError(f"{type(loss).__name__} does not take -1 and +1: its targets must be {loss.targets}")


def normalized(p: Floats) -> Floats:
    """Probabilities of one class against the rest, for each class, as probabilities that add up to 1.

    >>> normalized(np.array([[0.5, 0.25, 0.25], [0.0, 0.0, 0.0]])).round(3)
    array([[0.5  , 0.25 , 0.25 ],
           [0.333, 0.333, 0.333]])
    """
    mass = p.sum(axis=1, keepdims=True)
    return np.divide(p, mass, out=np.full(p.shape, 1.0 / p.shape[1]), where=mass > 0.0)


register_kind(KIND, OneVsRest.from_parts)
