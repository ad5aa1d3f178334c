"""`OneVsRestCore`: the state of a `OneVsRest`, and what the rest of the package calls on it."""

from __future__ import annotations

import contextlib
import copy
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from fiol.algorithms.ensemble import Ensemble
from fiol.algorithms.update import Update
from fiol.components.losses import Loss
from fiol.components.row import Floats, Indices
from fiol.components.subproblem import expect
from fiol.engine.engine import IN_ORDER
from fiol.engine.interrupts import paced
from fiol.engine.levels_engine import LevelsEngine
from fiol.features.blocks import scattered
from fiol.features.chunk import Chunk
from fiol.features.feature_space import FeatureSpace
from fiol.features.labels import Labels, labels_of_rows
from fiol.features.numbered_rows import NumberedRow, number_arrays, one_row
from fiol.features.targets import check_sample_weights
from fiol.features.transaction import Transaction
from fiol.features.vocabulary_merge import merge_feature_spaces
from fiol.learner import Learner
from fiol.learner.arguments import given_labels, table_encoding_given
from fiol.learner.merge import merge_cores, part_names
from fiol.learner.model_core import ModelCore, copy_of
from fiol.models.epochs import Map

#: After an interrupt, learners that are behind get this many attempts, should other interrupts follow.
TRIES = 10
#: The label of no class: what `learners.get` does not find.
NO_CLASS = object()


class OneVsRestCore(ModelCore):
    """The state of a `OneVsRest`: its features and classes, and a learner of numbered features per class.

    Parameters
    ----------
    update, space, compiled : as for a `ModelCore`; the feature space numbers the features of all learners.
    options : the options of every learner.
    learners : the learners by class; of two given classes that of the second alone.
    standby : the learner whose target is -1 in every round, of which new classes are copies; None if new classes are
        refused.
    """

    def __init__(
        self,
        update: Update | Ensemble,
        space: FeatureSpace,
        options: Mapping[str, Any],
        learners: dict[Any, Learner],
        standby: Learner | None,
    ) -> None:
        learner = standby if standby is not None else next(iter(learners.values()))
        common = learner.core
        super().__init__(update, space, common.intercept_fitted, common.averages, common.dtype, common.compiled)
        self.learner_options, self.learners, self.standby = options, learners, standby
        self.extend_learners()

    # --- state ----------------------------------------------------------------------------------

    @property
    def labels(self) -> Labels:
        assert self.space.labels is not None
        return self.space.labels

    @property
    def is_pair(self) -> bool:
        """Whether one learner separates two classes."""
        return is_pair(self.labels)

    @property
    def all_learners(self) -> list[Learner]:
        """All learners, the standby last."""
        own = list(self.learners.values())
        return own if self.standby is None else [*own, self.standby]

    @property
    def rounds(self) -> int:
        return max(learner.rounds for learner in self.all_learners)

    @property
    def rows(self) -> int:
        return max(learner.rows for learner in self.all_learners)

    @property
    def nbytes(self) -> int:
        return sum(learner.nbytes for learner in self.all_learners)

    @property
    def levels(self) -> LevelsEngine | None:
        return self.all_learners[0].core.levels  # all have learned from the same rows

    def arrays(self) -> dict[str, Any]:
        return joined_arrays(one.core.arrays() for one in self.all_learners)

    def stored_arrays(self) -> dict[str, Any]:
        return joined_arrays(one.core.arrays_of(self.space.features) for one in self.all_learners)

    def restore(self, header: dict[str, Any], arrays: dict[str, Any]) -> None:
        self.space.restore(header)
        learners = []
        for own in arrays_by_learner(arrays, len(self.labels), self.closed):
            learner = self.new_learner()
            learner.core.restore({"features": header["features"], "columns": None, "names": None}, own)
            learners.append(learner)
        classes = self.labels.classes
        self.learners = dict(zip(classes[1:] if self.is_pair else classes, learners, strict=False))
        self.standby = None if self.closed else learners[-1]
        self.extend_learners()

    def copy(self) -> OneVsRestCore:
        learners = {label: learner.copy() for label, learner in self.learners.items()}
        standby = None if self.standby is None else self.standby.copy()
        return OneVsRestCore(self.update, copy_of(self.space), self.learner_options, learners, standby)

    def with_update(self, update: Update | Ensemble) -> OneVsRestCore:
        """Return a copy with another update that starts from the weights of this one."""
        check_two_classes(update)
        learners = {label: learner.with_update(update) for label, learner in self.learners.items()}
        standby = None if self.standby is None else self.standby.with_update(update)
        new = OneVsRestCore(update, copy_of(self.space), self.learner_options, learners, standby)
        new.space.counts_unseen = new.all_learners[0].core.counts_unseen
        return new

    def new_learner(self) -> Learner:
        """Return a learner before its first round."""
        return Learner(self.update, **self.learner_options)

    def transaction(self) -> Transaction:
        return self.space.transaction(self, learner=self)

    def mark(self) -> Any:
        return self.labels.mark(), self.learners

    def rewind(self, mark: Any) -> None:
        """Take back the classes since the mark: no round was made with them."""
        codes, self.learners = mark
        self.labels.rewind(codes)

    def encode_rows(self, X: Any) -> Chunk:
        chunk = super().encode_rows(X)
        self.extend_learners()
        return chunk

    def share_features(self, other: ModelCore) -> None:
        super().share_features(other)
        self.extend_learners()

    def extend_learners(self) -> None:
        """Let every learner have the features of the model, and know their columns."""
        for learner in self.all_learners:
            learner.core.extend(self.space.features)
            learner.core.space.outer = self.space
            learner.core.note_columns()

    def name_missing(self) -> None:
        for learner in self.all_learners:
            learner.core.space.outer = self.space
            learner.core.name_missing()
        self.extend_learners()

    # --- classes --------------------------------------------------------------------------------

    def add_classes(self, classes: Iterable[Any]) -> None:
        with Transaction(self):
            self.labels.add(classes)
            self.add_learners()

    def add_learners(self) -> None:
        """Give every class without a learner a copy of the standby."""
        if self.standby is not None and len(self.learners) < len(self.labels):
            new = {label: self.standby.copy() for label in self.labels.codes if label not in self.learners}
            self.learners = {**self.learners, **new}

    def open_classes(self) -> None:
        """Accept new classes from now on; of two classes, the first gets the negated learner of the second."""
        if self.is_pair:
            (second,) = self.learners.values()
            first = Learner.from_core(second.core.negated(), second.meta)
            self.learners = dict(zip(self.labels.classes, (first, second), strict=True))
        self.labels.closed, self.standby = False, self.new_learner()

    def arrange(self, classes: Iterable[Any]) -> None:
        """Put the classes into this order."""
        self.labels.arrange(classes)
        self.learners = {label: self.learners[label] for label in self.labels.codes if label in self.learners}

    def rename(self, classes: Sequence[Any]) -> None:
        """Replace the labels of the classes, in their order."""
        own = classes[1:] if self.is_pair else classes
        self.learners = dict(zip(own, self.learners.values(), strict=True))
        self.labels.arrange(classes)

    # --- learning -------------------------------------------------------------------------------

    def targets_of(self, label: Any) -> list[tuple[Learner, float]]:
        """Return every learner with its target in a round with this label; the standby is last.

        >>> from fiol import FIOL, Hinge, OneVsRest
        >>> fruit = OneVsRest(FIOL(Hinge()))
        >>> fruit.add_classes(["apple", "pear"])
        >>> [target for _, target in fruit.core.targets_of("pear")]
        [-1.0, 1.0, -1.0]
        """
        own = self.learners.get(label)
        tasks = [(learner, 1.0 if learner is own else -1.0) for learner in self.learners.values()]
        if self.standby is not None:
            tasks.append((self.standby, -1.0))
        return tasks

    def targets_of_rows(self, codes: Any) -> list[tuple[Learner, Floats]]:
        """Return every learner with its targets in rows whose classes have these codes; the standby is last."""
        own = ((learner, codes == self.labels.codes[label]) for label, learner in self.learners.items())
        tasks = [(learner, np.where(yes, 1.0, -1.0)) for learner, yes in own]
        return tasks if self.standby is None else [*tasks, (self.standby, np.full(codes.shape, -1.0))]

    def learn_encoded(self, chunk: Chunk, y: Any, sample_weights: Floats, order: Any = IN_ORDER) -> Floats:
        if len(order):
            some = chunk.take(order), [y[k] for k in order], sample_weights[order]
            return scattered(self.learn_encoded(*some), order, chunk.rows)  # type: ignore[no-any-return]
        before = len(self.labels)
        codes, first = self.labels.code(y)
        self.add_learners()
        scores = self.learn_each(chunk, codes, sample_weights)
        found = self.by_class(np.column_stack(scores if self.standby is None else scores[:-1] or [np.empty((0, 0))]))
        for k, row in enumerate(first, start=before):
            found[:row, k] = 0.0
        return found

    def learn_each(self, chunk: Chunk, codes: Any, sample_weights: Floats, each: Map = map) -> list[Floats]:
        """Make a round per row and learner, all of known classes; return the scores by learner, the standby last.

        The learners go through the rows in lockstep, a piece at a time, so that an interrupt finds none far behind.
        `each` may run them in threads.
        """
        tasks = self.targets_of_rows(codes)
        self.extend_learners()
        lockstep = Lockstep(chunk, tasks, sample_weights, self.rounds)
        with Transaction(*([] if self.compiled else [learner.core for learner in self.all_learners])):
            for start, stop in paced(chunk, IN_ORDER, tasks[0][0].core.row_cost * len(tasks)):
                try:
                    for _ in each(partial(lockstep.learn, start, stop), range(len(tasks))):
                        pass
                except BaseException:
                    if self.compiled:
                        lockstep.end()
                    raise
        return lockstep.scores

    def fast_learn_row(self, indices: Any, values: Any, y: Any, sample_weight: Any) -> list[float] | None:
        """Make the round of a row given as arrays, with a known label, and return the score of every class's learner.

        None, and no round, for any other row.
        """
        row = number_arrays(indices, values)
        if row is None or row.features > self.space.features:
            return None
        return self.attempt_round(row, y, sample_weight, lambda: (indices, values))

    def fast_learn_dict(self, row: Any, y: Any, sample_weight: Any, *outer: FeatureSpace) -> list[float] | None:
        """`fast_learn_row` for a dict, which may have new names: see `LearnerCore.fast_learn_dict`."""
        spaces = *outer, self.space
        with Transaction(*spaces, learner=self) as taken:
            numbered, scores = spaces[0].number_dict(row, learning=True), None
            if numbered is not None:
                if self.space.width is None:
                    self.space.features = max(self.space.features, spaces[0].features)
                scores = self.attempt_round(numbered, y, sample_weight, lambda: spaces[0].read_row(row))
            if scores is None:
                taken.rewind()
        return scores

    def attempt_round(
        self, numbered: NumberedRow, y: Any, sample_weight: Any, row: Callable[[], tuple[Any, Any]]
    ) -> list[float] | None:
        """Make a round of every learner, or none and return None; `row` returns indices and values if needed."""
        try:
            known = y in self.labels.codes
        except TypeError:  # no label at all
            return None
        if not known:
            return None
        scores, rounds, tasks = list[float](), self.rounds, self.targets_of(y)
        try:
            for learner, target in tasks:
                z = learner.core.fast_learn_numbered(numbered, target, sample_weight)
                if z is None and not scores:
                    return None
                scores.append(learner.learn_one(*row(), target, sample_weight) if z is None else z)
        except BaseException:
            if scores or self.rounds > rounds:  # some learners have made the round
                weights = np.array([sample_weight], np.float64)
                targets = [(learner, np.array([target])) for learner, target in tasks]
                Lockstep(one_row(*row()), targets, weights, rounds).end()
            raise
        return scores if self.standby is None else scores[:-1]

    def learn_dict(self, features: Any, y: Any, sample_weight: Any) -> Floats:
        """Make the round of any dict of features, and return its scores before, one per class."""
        space = self.space
        scores = self.fast_learn_dict(features, y, sample_weight)
        if scores is not None:
            return self.by_class(np.array([scores]))[0]  # type: ignore[no-any-return]
        with self.transaction():
            row = space.encode_row(features)
            labels, sample_weights = labels_of_rows([y], 1, self.labels), check_sample_weights([sample_weight], 1)
            found = self.learn_encoded(one_row(*row), labels, sample_weights)
            self.warn_if_not_finite(found)
            return found[0]  # type: ignore[no-any-return]

    # --- scoring --------------------------------------------------------------------------------

    def score_canonical(self, chunk: Chunk) -> Floats:
        found = np.empty((chunk.rows, len(self.learners)))
        self.extend_learners()
        for k, learner in enumerate(self.learners.values()):
            found[:, k] = learner.core.score_canonical(chunk)
        return self.by_class(found)

    def scores_of_dict(self, row: Any, *outer: FeatureSpace) -> Floats:
        """Return the scores of a dict, one per class: see `LearnerCore.fast_score_dict`."""
        space = (*outer, self.space)[0]
        numbered = space.number_dict(row, learning=False)
        found = [] if numbered is None else [one.core.fast_score_numbered(numbered) for one in self.learners.values()]
        if None in found or not found:
            return self.score_canonical(one_row(*space.read_row(row)))[0]  # type: ignore[no-any-return]
        return self.by_class(np.array([found]))[0]  # type: ignore[no-any-return]

    def score_dict(self, features: Any, predict: bool = False) -> Any:
        scores = self.scores_of_dict(features)
        return self.predictions(scores[None])[0] if predict else scores

    def predictions(self, scores: Floats) -> Any:
        return self.best_labels(scores)

    def probabilities(self, scores: Floats) -> Floats:
        """Return the probabilities that belong to scores of shape (rows, classes): see `OneVsRest.probabilities`."""
        if self.update.loss.link != "logit":
            raise TypeError(f"{type(self.update.loss).__name__} has no probabilities: use Logistic()")
        if not scores.shape[1]:
            return scores
        core = next(iter(self.learners.values())).core
        if self.is_pair:
            p = core.predictions(scores[:, 1].copy())
            return np.column_stack([1.0 - p, p])
        return normalized(core.predictions(scores.ravel()).reshape(scores.shape))

    def by_class(self, scores: Floats) -> Floats:
        """Return scores, intercepts or weights with a column per class, of an array with a column per learner."""
        return np.column_stack([-scores[:, 0], scores[:, 0]]) if self.is_pair else scores

    # --- weights --------------------------------------------------------------------------------

    def weights(self) -> Floats:
        n = self.space.features
        found = [learner.core.weights(features=n) for learner in self.learners.values()]
        w = np.column_stack(found) if found else np.empty((self.feature_count, 0))
        return np.ascontiguousarray(self.by_class(w).T)

    def intercept(self) -> Floats:
        found = np.array([[learner.intercept for learner in self.learners.values()]])
        return self.by_class(found)[0]  # type: ignore[no-any-return]

    def scales(self) -> Floats:
        return self.all_learners[0].core.scales(self.space.features)

    def root_mean_squares(self) -> Floats:
        n = self.feature_count
        learners = list(self.learners.values()) or self.all_learners
        return np.mean([learner.core.root_mean_squares()[:n] for learner in learners], axis=0)  # type: ignore[no-any-return]

    def missing_of_centered(self) -> tuple[Indices, Indices, Floats]:
        return self.all_learners[0].core.missing_of_centered()  # all have learned from the same rows

    def centered_means(self) -> Floats:
        n = self.feature_count
        learners = list(self.learners.values()) or self.all_learners
        return np.mean([learner.core.centered_means()[:n] for learner in learners], axis=0)  # type: ignore[no-any-return]

    def settle(self) -> None:
        for learner in self.all_learners:
            learner.settle()


class Lockstep:
    """Learners that learn from the same rows, piece by piece.

    An interrupt may come when some have learned from a piece and others have not. Compiled rounds cannot be taken back,
    so `end` lets all learn what one has. Their counts of rounds say how far each is.
    """

    def __init__(self, chunk: Chunk, tasks: list[tuple[Learner, Any]], sample_weights: Floats, rounds: int) -> None:
        self.chunk, self.tasks, self.sample_weights, self.rounds = chunk, tasks, sample_weights, rounds
        self.scores = [np.zeros(chunk.rows) for _ in tasks]
        self.ended = False

    def learn(self, start: int, stop: int, k: int) -> None:
        """Let learner k learn from these rows, unless an interrupt came before."""
        learner, y = self.tasks[k]
        with learner.core.lock:
            if not self.ended:
                chunk = self.chunk if stop - start == self.chunk.rows else self.chunk.row_block(start, stop)
                scores = learner.core.learn_encoded(chunk, y[start:stop], self.sample_weights[start:stop])
                self.scores[k][start:stop] = scores

    def end(self) -> None:
        """Let all learners catch up with the first of them, after an interrupt."""
        self.ended, furthest = True, 0
        for learner, _ in self.tasks:
            with learner.core.lock:  # another thread may have to end its piece
                furthest = max(furthest, learner.rounds - self.rounds)
        for _, (learner, y) in itertools.product(range(TRIES), self.tasks):
            rest = slice(learner.rounds - self.rounds, furthest)
            if rest.start < furthest:
                with contextlib.suppress(BaseException):  # one more interrupt: the first is raised in the end
                    chunk = self.chunk.row_block(rest.start, furthest)
                    learner.core.learn_encoded(chunk, y[rest], self.sample_weights[rest])


def make_one_vs_rest_core(
    update: Update | Ensemble,
    *,
    classes: Sequence[Any] | None = None,
    n_features: int | None = None,
    bits: int | None = None,
    table_encoding: Any = None,
    intercept: bool = True,
    average: bool = False,
    dtype: Any = "float64",
    compiled: bool = True,
) -> OneVsRestCore:
    """Return the core of a `OneVsRest` before its first round; TypeError or ValueError for arguments that are wrong."""
    expect("update", update, Ensemble if isinstance(update, Ensemble) else Update)
    check_two_classes(update)
    shared = {"intercept": intercept, "average": average, "dtype": dtype, "compiled": compiled}
    like = Learner(update, n_features=n_features, bits=bits, **shared)
    options = {**shared, "n_features": like.width}
    given = table_encoding_given(table_encoding, like.width, bits)
    space = FeatureSpace(like.width, bits, counts_unseen=like.core.counts_unseen, table_encoding=given)
    labels = space.labels = given_labels(classes)
    own = labels.classes[1:] if is_pair(labels) else labels.classes
    unused = [like] if bits is None else []  # made with the same options

    def new_learner() -> Learner:
        return unused.pop() if unused else Learner(update, **options)

    learners = {label: new_learner() for label in own}
    return OneVsRestCore(update, space, options, learners, None if labels.closed else new_learner())


def merge_one_vs_rest(
    parts: Sequence[OneVsRestCore], weights: Sequence[float] | None, base: OneVsRestCore | None
) -> OneVsRestCore:
    """Return the mean of models, class by class: see `OneVsRest.merge`; they must not change meanwhile."""
    everyone, names = [*([] if base is None else [base]), *parts], part_names(parts, base)
    space, _ = merge_feature_spaces([core.space for core in everyone], names)
    assert space.labels is not None

    def merged(label: Any) -> Learner:
        found = [named_core(core, label, name) for core, name in zip(everyone, names, strict=True)]
        start = None if base is None else found.pop(0)
        mean, numbered = (
            merge_cores(found, weights, start),
            FeatureSpace(space.width, counts_unseen=space.counts_unseen),
        )
        numbered.features = space.features
        return Learner.from_core(mean.with_engine(mean.engine, numbered))

    classes, closed = space.labels.classes, space.labels.closed
    learners = {label: merged(label) for label in (classes[1:] if is_pair(space.labels) else classes)}
    standby = None if closed else merged(NO_CLASS)
    return OneVsRestCore(parts[0].update, space, parts[0].learner_options, learners, standby)


def named_core(core: OneVsRestCore, label: Any, name: str) -> Any:
    """Return the learner of a class, or the standby, as a learner whose features are those of the model."""
    learner = core.learners.get(label, core.standby)
    if learner is None:
        raise ValueError(f"{name} has its two classes in another order: {core.labels.classes}")
    space = copy.copy(core.space)
    space.labels = None
    return learner.core.with_engine(learner.core.engine, space)


def joined_arrays(learners: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the arrays of several learners by name; those of the k-th begin with `k/`."""
    return {f"{k}/{name}": a for k, arrays in enumerate(learners) for name, a in arrays.items()}


def arrays_by_learner(arrays: Mapping[str, Any], classes: int, closed: bool) -> list[dict[str, Any]]:
    """Return the arrays of each learner of a model, the standby last; ValueError if there are more of them."""
    learners = (1 if classes == 2 else classes) if closed else classes + 1
    if any(int(name.partition("/")[0]) >= learners for name in arrays if name.partition("/")[0].isdecimal()):
        raise ValueError(f"it has more learners than its {classes} classes need")
    return [
        {name.removeprefix(f"{k}/"): a for name, a in arrays.items() if name.startswith(f"{k}/")}
        for k in range(learners)
    ]


def is_pair(labels: Labels) -> bool:
    """Return whether one learner is enough: there are two classes, and there will be no others."""
    return labels.closed and len(labels) == 2


def check_two_classes(update: Update | Ensemble) -> None:
    """Raise TypeError unless a learner with this update separates -1 from +1."""
    loss = update.loss
    if not isinstance(loss, Loss):
        raise TypeError(f"{type(loss).__name__} has a score per class already: use Learner, not OneVsRest")
    if not (loss.accepts(-1.0) and loss.accepts(1.0)):
        raise TypeError(f"{type(loss).__name__} does not take -1 and +1: its targets must be {loss.targets}")


def normalized(p: Floats) -> Floats:
    """Return probabilities of one class against the rest, for each class, as probabilities that add up to 1.

    >>> normalized(np.array([[0.5, 0.25, 0.25], [0.0, 0.0, 0.0]])).round(3)
    array([[0.5  , 0.25 , 0.25 ],
           [0.333, 0.333, 0.333]])
    """
    mass = p.sum(axis=1, keepdims=True)
    return np.divide(p, mass, out=np.full(p.shape, 1.0 / p.shape[1]), where=mass > 0.0)
