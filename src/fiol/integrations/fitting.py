"""Passes over the same rows for scikit-learn's estimators: one pass, rows held out, a model's quality, progress."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Any

import numpy as np

from fiol.components.row import Floats
from fiol.engine.engine import IN_ORDER
from fiol.features.chunk import Chunk
from fiol.features.column_names import needs_moments
from fiol.features.feature_moments import FeatureMoments
from fiol.learner import Learner
from fiol.models.epochs import MIN_STACK_ROWS, EpochRun
from fiol.models.one_vs_rest import OneVsRest

#: So often, over this last part of a pass, `fit` looks at the weights that it takes the mean of. Longer means lag
#: behind where there is still much to learn.
LOOKS_PER_TAIL, TAIL = 8, 0.125
#: Fewer rows than that, held back, say nothing about how many passes to make.
FEWEST_HELD_BACK = 10
#: Features in less than this fraction of the rows, 1 / RARE, have a root mean square close to their standard deviation.
RARE = 8


class Passes:
    """`Passes(learner, chunk, y, sample_weights)(order)`: a pass over rows that have been checked, in this order.

    Returns the mean loss of their scores before. From the second pass on, the combination weights of an ensemble are
    frozen (`Engine.freeze_stack`), unless they have seen few rows: then overfitting them is better than hardly fitting
    them.

    The one linear model of an ensemble is looked at `LOOKS_PER_TAIL` times, evenly over the last part, `tail`, of a
    pass in some order. `settle` lets the ensemble be the mean of what was seen
    in the last pass: members with long steps carry the noise of the last rows, which in a random order say no more than
    others.
    """

    def __init__(self, learner: Learner, chunk: Chunk, y: Any, sample_weights: Floats, tail: float = 0.0) -> None:
        self.learner, self.rows, self.made = learner, (chunk, y, sample_weights), 0
        self.tail = tail if learner.engine.moves else 0.0
        self.seen: list[Any] = []  #: sums of weights and intercepts, and how many

    def __call__(self, order: Any = IN_ORDER) -> float:
        if self.made == 1:  # outliers would raise the units of their features again
            self.rows = self.learner.engine.without_outliers(self.rows[0]), *self.rows[1:]
        chunk, y, sample_weights = self.rows
        again = self.made > 0 and self.learner.rounds >= MIN_STACK_ROWS
        with self.learner.engine.freeze_stack() if again else nullcontext():
            scores = self.learn(order)
        self.made += 1
        return self.learner.core.mean_loss(scores, y, sample_weights, order if len(order) < chunk.rows else IN_ORDER)

    def learn(self, order: Any) -> Floats:
        """Make the rounds of a pass with interruptions to measure; return the scores before the rounds."""
        first = len(order) - int(self.tail * len(order))
        if first == len(order):
            return self.learner.core.learn_canonical(*self.rows, order)
        stops = np.unique(np.linspace(first, len(order), LOOKS_PER_TAIL + 1).astype(int))
        scores, self.seen = np.zeros((self.rows[0].rows, *self.learner.engine.trailing)), []
        for start, stop in zip((0, *stops), stops, strict=False):
            if start < stop:  # no order is that of all rows
                some = order[start:stop]
                scores[some] = self.learner.core.learn_canonical(*self.rows, some)[some]
            if stop > first:
                self.look()
        return scores

    def look(self) -> None:
        """Add the one linear model of now to what was seen."""
        engine = self.learner.engine
        now = [engine.weights(self.learner.n_features, False), engine.intercept_weight(False), 1.0]
        self.seen = [a + b for a, b in zip(self.seen, now, strict=True)] if self.seen else now

    def settle(self) -> None:
        """Let the ensemble be the mean of what was seen, if anything was."""
        if self.seen:
            w, intercept, looks = self.seen
            self.learner.engine.move_to(w / looks, intercept / looks)


def accuracy(learner: Learner, chunk: Chunk, y: Any, sample_weights: Floats) -> float:
    """Return the weighted share of rows whose score has the sign of their target, or is highest for their class."""
    scores = learner.core.score_canonical(chunk)
    right = (scores > 0.0) == (y > 0.0) if scores.ndim == 1 else scores.argmax(axis=1) == y
    return float(np.average(right, weights=sample_weights))


def r2(learner: Learner, chunk: Chunk, y: Floats, sample_weights: Floats) -> float:
    """Return the weighted coefficient of determination."""
    from sklearn.metrics import r2_score

    return float(r2_score(y, predictions(learner, chunk), sample_weight=sample_weights))


class HeldBackLoss:
    """`HeldBackLoss(learner, chunk, y, sample_weights, among)()`: minus the mean loss of rows held back, after a pass.

    No member has learned from these rows, so the stack may learn from them (`Engine.restack`). Outliers are left out:
    one of them could have a larger loss than all other rows, and would decide about the number of passes. What is rare
    is decided by all rows, `among` which these are.
    """

    def __init__(self, learner: Learner, chunk: Chunk, y: Any, sample_weights: Floats, among: Chunk) -> None:
        self.learner, self.chunk, self.targets, self.among = learner, chunk, (y, sample_weights), among
        self.first = True

    def __call__(self) -> float:
        engine = self.learner.engine
        if self.first:  # the sizes of values are known after the first pass
            self.chunk, self.first = engine.without_outliers(self.chunk, self.among), False
        return -self.learner.core.mean_loss(engine.restack(self.chunk, *self.targets), *self.targets)


def predictions(learner: Learner, chunk: Chunk) -> Floats:
    """Return the predicted targets."""
    return learner.core.predictions(learner.core.score_canonical(chunk))


def held_out(estimator: Any, y: Any, splitter: Any) -> Any:
    """Return a mask of the rows that an estimator holds out for early stopping, or None."""
    if not estimator.early_stopping:
        return None
    split = splitter(n_splits=1, test_size=estimator.validation_fraction, random_state=estimator.random_state)
    _, held = next(split.split(np.zeros((len(y), 1)), y))
    mask = np.zeros(len(y), bool)
    mask[held] = True
    return mask


def held_back(rows: int, fraction: float, seed: int | None) -> Any:
    """Return a mask of the rows by which an ensemble chooses its number of passes: random by a seed, or the last ones.

    None if these would be fewer than 10, which tell nothing.

    >>> held_back(100, 0.1, None).nonzero()[0].tolist(), held_back(20, 0.1, None)
    ([90, 91, 92, 93, 94, 95, 96, 97, 98, 99], None)
    """
    held = int(fraction * rows)
    if held < FEWEST_HELD_BACK:
        return None
    mask = np.zeros(rows, bool)
    mask[rows - held :] = True
    return mask if seed is None else np.random.RandomState(seed).permutation(mask)


def moments_of_fit(chunk: Chunk, names: Any, columns: Any) -> FeatureMoments:
    """Return the moments of features in at least 1 of `RARE` rows, and of columns of numbers and missing values.

    Without names, features have numbers.
    """
    counts = np.bincount(chunk.indices)
    wanted = RARE * counts >= max(chunk.rows, 1)
    if columns is not None:
        wanted |= [needs_moments(name, columns) for name in names[: len(counts)]]
    features = np.flatnonzero(wanted)
    places = np.full(len(counts), -1)
    places[features] = np.arange(len(features))
    found = FeatureMoments.of_features([i if names is None else names[i] for i in features.tolist()])
    found.add(chunk, places)
    return found


def continued(old: Any, new: Any) -> Any:
    """Return the model that continues `old`: `old` itself, or `new` with its weights if steps differ."""
    if type(old) is not type(new):
        raise ValueError(
            "with warm_start, all classes at once cannot go on from one against the rest, or vice versa: name the loss "
            'of the last fit, such as loss="log_loss" or loss="softmax"'
        )
    if isinstance(old, OneVsRest):
        new.core.learners = {label: continued(old.learners[label], learner) for label, learner in new.learners.items()}
        return new
    if old.core.has_update_of(new.core):
        return old
    curved = old.core.levels is not None or new.core.levels is not None
    if curved or not new.update.starts_anywhere():
        raise ValueError(
            "with warm_start, parameters of the update have changed, and this one cannot start from weights (curves, "
            "pairs, an ensemble with an L1 penalty, a geometry that is not Euclidean, steps from all earlier rounds): "
            "keep the parameters, or fit with warm_start=False"
        )
    places = slice(None) if old.classes is None else old.core.codes_of(new.classes)
    new.start_from(old.weights[places], old.intercept if old.classes is None else old.intercept[places])
    return new


class Progress:
    """Prints the loss, how good the best pass so far was on rows held out, and the time after every pass."""

    def __init__(self) -> None:
        self.start = time.perf_counter()
        self.show: Callable[[str], None] = print
        with suppress(ImportError):
            from rich import print as show

            self.show = show

    def __call__(self, epoch: int, runs: list[EpochRun]) -> None:
        loss = np.mean([run.losses[-1] for run in runs])
        held, best = "", np.mean([run.best for run in runs])
        if runs[0].back_to_best is not None:  # an ensemble's, whose merit is minus a loss
            held = f", least loss of rows held back {-best:.6f}"
        elif runs[0].score is not None:
            held = f", best held-out score {best:.4f}"
        left = f", {len(runs)} classes" if len(runs) > 1 else ""
        self.show(f"pass {epoch}: loss {loss:.6f}{held}{left}, {time.perf_counter() - self.start:.2f} s")
