"""`ModelCore`: the state of a model and what the rest of the package calls on it, common to all kinds of models."""

from __future__ import annotations

import math
import warnings
from typing import Any, TypeVar

import numpy as np

from fiol.algorithms.ensemble import Ensemble
from fiol.algorithms.update import Update
from fiol.components.component import per_feature_sizes
from fiol.components.row import Floats, Indices
from fiol.engine.engine import IN_ORDER
from fiol.engine.levels_engine import LevelsEngine
from fiol.features.basis_names import all_names
from fiol.features.blocks import learned_in_blocks, padded
from fiol.features.chunk import Chunk, FeatureCountError
from fiol.features.feature_space import FeatureSpace, counted
from fiol.features.file_header import classes_in
from fiol.features.frames import as_list
from fiol.features.labels import AnyLabels, Labels, labels_of_rows
from fiol.features.lock import Lock, NoLock
from fiol.features.targets import check_sample_weights, check_targets
from fiol.features.transaction import Transaction
from fiol.persistence import component_json

Core = TypeVar("Core", bound="ModelCore")
#: A chunk with more entries per byte of the model than this takes far longer to score than the model takes to copy.
ENTRIES_PER_BYTE = 2


class ModelCore:
    """The state of a model, and the operations that the rest of the package calls.

    `fiol.learner.model.Model` has what users call. Methods here skip the checks that have been made before, and take
    no lock unless they say so: callers hold `lock`, and learn inside `transaction()`.

    Parameters
    ----------
    update : the update rule, or the ensemble of them.
    space : numbers features and classes, and turns rows into canonical chunks.
    intercept, average, dtype, compiled : options of the model, checked.
    """

    def __init__(
        self,
        update: Update | Ensemble,
        space: FeatureSpace,
        intercept: bool,
        average: bool,
        dtype: Any,
        compiled: bool,
    ) -> None:
        self.update, self.space = update, space
        self.intercept_fitted, self.averages, self.dtype, self.compiled = intercept, average, dtype, compiled
        self.lock: Any = Lock()

    # --- state ----------------------------------------------------------------------------------

    @property
    def rounds(self) -> int:
        """Rounds made."""
        raise NotImplementedError

    @property
    def rows(self) -> int:
        """Rows learned from, including those of merged models."""
        raise NotImplementedError

    @property
    def nbytes(self) -> int:
        """Bytes of memory for everything that is learned, without the names of features."""
        raise NotImplementedError

    @property
    def labels(self) -> Labels | None:
        """The classes, or None for a model with one score."""
        return self.space.labels

    @property
    def closed(self) -> bool:
        """Whether new classes are refused."""
        return self.labels is None or self.labels.closed

    @property
    def score_shape(self) -> tuple[int, ...]:
        """The shape of the score of one row: () or (classes,)."""
        return () if self.labels is None else (len(self.labels),)

    def options(self) -> dict[str, Any]:
        """Return the options of the constructor, as the header of a file has them."""
        kept = {"intercept": self.intercept_fitted, "average": self.averages, "dtype": self.dtype.name}
        bits = self.space.bits
        return {"n_features": self.space.width if bits is None else None, "bits": bits, **kept}

    def has_update_of(self, other: ModelCore) -> bool:
        """Return whether another model has the same update and options."""
        return self.update == other.update and self.options() == other.options()

    def header(self) -> dict[str, Any]:
        """Return the header of a model file: update, options, features and classes."""
        return {"update": component_json.to_json(self.update), "options": self.options(), **self.space.header()}

    def arrays(self) -> dict[str, Any]:
        """Return everything that changes while learning, by name, not as copies."""
        raise NotImplementedError

    def stored_arrays(self) -> dict[str, Any]:
        """Return the arrays of a model file: `arrays` without room for features to come."""
        return self.arrays()

    def restore(self, header: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Take over the features and classes of a header, and copies of arrays."""
        raise NotImplementedError

    def copy(self: Core) -> Core:
        """Return a core with the same state that shares nothing with this one."""
        raise NotImplementedError

    def mark(self) -> Any:
        """Return a token for `rewind`: see `fiol.features.transaction`."""
        raise NotImplementedError

    def rewind(self, mark: Any) -> None:
        """Take back what has been learned since the mark."""
        raise NotImplementedError

    def add_classes(self, classes: list[Any]) -> None:
        """Number new classes of which there was no row yet; all of them or none."""
        raise NotImplementedError

    def open_classes(self) -> None:
        """Accept new classes from now on."""
        raise NotImplementedError

    # --- features that have weights: those that rows come with, and those that levels add to them

    @property
    def levels(self) -> LevelsEngine | None:
        """The engine that adds curves and pairs to features, of one class if there are several; None without one."""
        return None

    @property
    def feature_count(self) -> int:
        """The number of features that have weights."""
        levels = self.levels
        return self.space.features if levels is None else levels.total_features(self.space.features)

    def feature_names(self) -> list[str | int] | None:
        """Return the names of the features that have weights; None if they are numbers."""
        names, levels = (self.space if self.space.outer is None else self.space.outer).names, self.levels
        if levels is None or levels.basis is None:
            return names
        own = list(range(self.space.features)) if names is None else names
        return all_names(levels.basis, own, self.space.roles, nodes=levels.options.levels > 2)

    def name_missing(self) -> None:
        """Number `c is missing` of columns whose missing values do not count as 0, so that weights say it all."""
        raise NotImplementedError

    def own_numbers(self) -> Any:
        """Return the numbers, among features that have weights, of the features that rows come with."""
        levels, features = self.levels, self.space.features
        return np.arange(features) if levels is None else levels.places(features)[0]

    def moments(self, X: Any) -> tuple[Floats, Floats]:
        """Return the mean and mean square of every feature that has a weight in some rows."""
        chunk, levels = self.space.read_all(X), self.levels
        if levels is not None:
            levels.roles = self.space.roles
            chunk = levels.expanded(chunk)[-1]
        known = chunk.indices < self.feature_count
        indices, data = chunk.indices[known], chunk.data[known]
        mean, square = (np.bincount(indices, data**k, self.feature_count) / max(chunk.rows, 1) for k in (1, 2))
        return mean, square

    # --- rows -----------------------------------------------------------------------------------

    def transaction(self) -> Transaction:
        """`with core.transaction():` new features and classes are forgotten unless rows are learned from."""
        return self.space.transaction(learner=self)

    def encode_rows(self, X: Any) -> Chunk:
        """Return rows as a canonical chunk to learn from, with their new features numbered."""
        try:
            return self.space.encode_rows(X)
        except FeatureCountError as error:
            sizes = per_feature_sizes(self.update)
            if not sizes:
                raise
            advice = f"the length of {sizes[0][0]}, which must have one number per feature"
            raise FeatureCountError(f"{error}, {advice}") from None

    def read_rows(self, X: Any) -> Chunk:
        """Return rows as a canonical chunk to score; nothing is remembered."""
        return self.space.read(X)

    def share_features(self, other: ModelCore) -> None:
        """Take over the features of another model, before the first round."""
        self.space.share_features(other.space)

    def check_targets(self, y: Any, rows: int | None) -> Any:
        """Return checked targets, or labels for a model with classes; None is any number of rows."""
        if self.labels is None:
            return check_targets(y, rows, self.update.loss)  # type: ignore[arg-type]
        return labels_of_rows(y, rows, self.labels)

    def codes_of(self, y: Any) -> Any:
        """Return the code of every label in y, its position in `classes`; KeyError for a label without a class."""
        assert self.labels is not None
        return self.labels.codes_of(labels_of_rows(AnyLabels(as_list(y)), None))

    # --- learning and scoring -------------------------------------------------------------------

    def learn(self, X: Any, y: Any, sample_weight: Any = None) -> Floats:
        """Make a round per row of any container, with targets as the loss takes them: see `Model.learn`."""
        X, rows = counted(X)
        if rows is None:
            scores = self.join_scores(learned_in_blocks(self.learn_rows, X, self.check_targets(y, None), sample_weight))
            self.warn_if_not_finite(scores, stacklevel=3)
            return scores
        with self.lock, self.transaction():
            targets, sample_weights = self.check_targets(y, rows), check_sample_weights(sample_weight, rows)
            scores = self.learn_container(X, targets, sample_weights)
            self.warn_if_not_finite(scores, stacklevel=3)
            return scores

    def learn_rows(self, X: Any, y: Any, sample_weights: Floats) -> Floats:
        """Make a round per row, all or none, or as many as the exception says; takes the lock."""
        with self.lock, self.transaction():
            return self.learn_container(X, y, sample_weights)

    def learn_container(self, X: Any, y: Any, sample_weights: Floats) -> Floats:
        """Make a round per row of any container, with checked targets or labels; call it inside a transaction."""
        return self.learn_encoded(self.encode_rows(X), y, sample_weights)

    def learn_encoded(self, chunk: Chunk, y: Any, sample_weights: Floats, order: Any = IN_ORDER) -> Floats:
        """Make a round per row of features that are numbered, and number new labels; call it inside a transaction."""
        raise NotImplementedError

    def score_canonical(self, chunk: Chunk) -> Floats:
        """Return the scores of rows that the feature space has checked."""
        raise NotImplementedError

    def scores(self, X: Any) -> Floats:
        """Return the scores of rows; takes the lock, and scores with a copy if others would wait for long."""
        with self.lock:
            chunk, core = self.read_rows(X), self
            if chunk.data.shape[0] <= ENTRIES_PER_BYTE * self.nbytes or isinstance(self.lock, NoLock):
                return self.score_canonical(chunk)
            core = self.copy()
        return core.score_canonical(chunk)

    def score_dict(self, features: Any, predict: bool = False) -> Any:
        """Return the score of a dict of features, or its prediction."""
        raise NotImplementedError

    def predictions(self, scores: Floats) -> Any:
        """Return the predictions that belong to scores, in place where predictions are numbers."""
        raise NotImplementedError

    def best_labels(self, scores: Floats) -> Any:
        """Return the label of the highest score of every row; columns of classes added since are not needed."""
        if not scores.shape[1]:
            raise ValueError("there are no classes yet")
        assert self.labels is not None
        return self.labels.array(scores.shape[1])[scores.argmax(axis=1)]

    def join_scores(self, scores: list[Floats]) -> Floats:
        """Return the scores of consecutive blocks of rows as one array; a class unknown in a block has 0 there."""
        return np.concatenate([np.empty(0), *scores]) if self.labels is None else padded(scores, self.labels)

    def weights(self) -> Floats:
        """Return the weights that score rows, of shape (features,) or (classes, features)."""
        raise NotImplementedError

    def intercept(self) -> Any:
        """Return the intercept, or that of every class."""
        raise NotImplementedError

    def scales(self) -> Floats:
        """Return the largest values of all features, as far as they are known: see `Engine.scales`."""
        raise NotImplementedError

    def root_mean_squares(self) -> Floats:
        """Return the root mean square of every feature, as far as it is known: see `Model.importances`.

        Of centered features it is that of the distances from `centered_means`.
        """
        raise NotImplementedError

    def missing_of_centered(self) -> tuple[Indices, Indices, Floats]:
        """Return the centered features that have a feature `c is missing`, these, and the means."""
        raise NotImplementedError

    def centered_means(self) -> Floats:
        """Return the mean of every feature that is centered, 0 for others."""
        raise NotImplementedError

    def settle(self) -> None:
        """Bring every stored weight up to date."""
        raise NotImplementedError

    # --- warnings -------------------------------------------------------------------------------

    def warn_if_not_finite(self, scores: Floats, stacklevel: int = 2) -> None:
        """Warn of the first row whose score is not finite; `stacklevel` is that of `warnings.warn`, from the caller."""
        if not math.isfinite(scores.sum()):  # cheaper than a check of every score
            finite: Any = np.isfinite(scores) if scores.ndim == 1 else np.isfinite(scores).all(axis=1)
            row = int(np.argmin(finite))
            if not finite[row]:
                self.warn("the score" if len(scores) == 1 else f"the score of row {row}", scores[row], stacklevel + 2)

    def warn_if_score_not_finite(self, score: Any) -> Any:
        """Return the score of a single row; warn if it is not finite."""
        if score is not None and not math.isfinite(score):
            self.warn("the score", score, stacklevel=4)
        return score

    def warn(self, what: str, score: Any, stacklevel: int) -> None:
        """Warn that a score is not finite."""
        precision = "double precision" if self.dtype.itemsize == 8 else 'float32: use dtype="float64"'
        why = f"the weights left the range of {precision}" if self.update.is_implicit() else "use an implicit loss step"
        warnings.warn(f"{what} is {score}: this update diverges; {why}", RuntimeWarning, stacklevel=stacklevel)


def copy_of(space: FeatureSpace) -> FeatureSpace:
    """Return a feature space with the same features and classes that shares nothing with this one."""
    new = FeatureSpace(
        space.width,
        space.bits,
        space.max_features,
        space.counts_unseen,
        space.any_names,
    )
    new.restore(space.header())
    return new


def known_classes(core: ModelCore) -> Any:
    """Return the classes for a constructor: all of them if new ones are refused, None otherwise."""
    return classes_in(core.space.header().get("labels"))
