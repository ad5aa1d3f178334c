"""`Model`: what users call on every model, `Learner` and `OneVsRest` alike."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, TypeVar

import numpy as np

from fiol.algorithms.ensemble import Ensemble
from fiol.algorithms.update import Update
from fiol.components.row import Floats
from fiol.engine.engine import IN_ORDER
from fiol.exportable import Exportable
from fiol.features.blocks import blocks_of, check_order, learned_in_chunks
from fiol.features.chunk import Chunk
from fiol.features.feature_space import counted
from fiol.features.file_header import classes_in
from fiol.features.numbered_rows import one_row
from fiol.features.table_encoding import TableEncoding
from fiol.features.targets import check_sample_weights
from fiol.learner.importances import importances
from fiol.learner.model_core import ModelCore
from fiol.persistence.model import Path, build_model, read_model, write_model
from fiol.snapshot import Snapshot
from fiol.summary import Summary

Self = TypeVar("Self", bound="Model")
INDEX_TYPE, VALUE_TYPE = np.dtype(np.int32), np.dtype(np.float64)


class Model(Exportable):
    """A linear model that learns from a stream of rows: see `Learner` and `OneVsRest`.

    Threads may share a model: every call takes a lock, so that the result is that of the same calls one after the
    other. `rounds`, `rows` and `n_features` take no lock. Reading changes nothing.

    A signal stops learning within a fraction of a second, in the middle of a chunk. The exception, such as
    KeyboardInterrupt, has the number of rows learned from as `rows_learned` and in a note; without that attribute there
    are none, or all if the signal came while the call returned: compare `rounds`. To continue, leave these rows out:
    the result is that of learning without a break.

    Attributes
    ----------
    meta : dict
        Any JSON values of yours; copies and files keep them.
    core : ModelCore
        The state, for the rest of the package.
    """

    #: The kind of the files that `save` writes.
    KIND: ClassVar[str]
    #: Returns the core of a model before its first round.
    _make_core: ClassVar[Any]
    core: ModelCore
    meta: dict[str, Any]

    @classmethod
    def from_core(cls: type[Self], core: Any, meta: Mapping[str, Any] | None = None) -> Self:
        """Return a model with this core, not a copy of it; for the rest of the package."""
        new = cls.__new__(cls)
        new.core, new.meta = core, copy.deepcopy(dict(meta or {}))
        return new

    # --- learning -----------------------------------------------------------------------------

    def learn(self, X: Any, y: Any, sample_weight: Any = None) -> Floats:
        """Make one round per row, in order, and return the score of each row before its round.

        Parameters
        ----------
        X : rows: a scipy sparse matrix, an array or nested list, a pandas or polars frame, an Arrow table, a list of
            dicts, or a generator of dicts. Frames may have text, dates and missing values (`table_encoding`).
        y : one target per row: -1 or +1 for binary losses (of a `TrainedModel`, one of its `labels`), a label (str,
            int or bool) for joint losses and `OneVsRest`.
        sample_weight : one number per row, which multiplies the loss. A row of weight 0 is a round: the penalty acts,
            and its features count for scales and means of columns.

        Returns
        -------
        Scores of shape (rows,), or (rows, classes) with a column for each class known after the call, which is 0 in
        the rows before the first one of the class.

        Raises
        ------
        ValueError, TypeError : the message names the row and column, and nothing has been learned. From a generator
            4096 rows are read at a time, each block is learned from whole or not at all, and `rows_learned` of the
            exception is the number of rows learned from.

        Notes
        -----
        The score of a row is what `scores` would have returned just before the row, except that `ScaleFree` steps, the
        default, begin the round of a value larger than all before it (farther from the mean, if it is centered) by
        shrinking its weight: then the score is that of the shrunk weights. A value beyond 8 times the largest before
        is learned, and scored here, as 1.25 times the largest.

        Examples
        --------
        >>> from fiol import FIOL, Learner, Squared
        >>> learner = Learner(FIOL(Squared()), intercept=False)
        >>> learner.learn([[1.0], [float("nan")]], [1.0, 2.0])
        Traceback (most recent call last):
        ValueError: X[1, 0] must be finite, got nan
        >>> learner.rounds
        0
        """
        return self.core.learn(X, self.targets_of(y), sample_weight)

    def targets_of(self, y: Any) -> Any:
        """Return targets as `update.loss` takes them: y itself, unless a model has labels of its own."""
        return y

    def learn_chunks(self, chunks: Iterable[Any]) -> Floats:
        """Call `learn` for one chunk after another and return the scores of all rows.

        Parameters
        ----------
        chunks : pairs (X, y) or triples (X, y, sample_weight). One is held at a time. Each is learned from whole or
            not at all; an exception says how many rows were learned from before, as `rows_learned`.

        Examples
        --------
        >>> from fiol import FIOL, Learner, Squared
        >>> learner = Learner(FIOL(Squared()))
        >>> learner.learn_chunks(([[float(k)]], [1.0]) for k in range(3)).shape, learner.rounds
        ((3,), 3)
        """
        return self.core.join_scores(learned_in_chunks(self.learn, chunks))

    def learn_chunk(self, chunk: Chunk, y: Any, sample_weight: Any = None, order: Any = None) -> Floats:
        """Learn from a canonical chunk (`fiol.to_chunk`, `Chunk.from_bytes`) of numbered features, with few checks.

        Parameters
        ----------
        order : the numbers of the rows to learn from, one round each, in that order; by default all rows in theirs.
            The others have score 0.

        Examples
        --------
        >>> from fiol import FIOL, Learner, Squared, to_chunk
        >>> learner = Learner(FIOL(Squared()))
        >>> learner.learn_chunk(to_chunk([[1.0], [2.0]]), [1.0, 2.0], order=[1]), learner.rounds
        (array([0., 0.]), 1)
        """
        core = self.core
        with core.lock, core.transaction():
            chunk = core.space.encode_chunk(chunk)
            targets = core.check_targets(self.targets_of(y), chunk.rows)
            sample_weights = check_sample_weights(sample_weight, chunk.rows)
            order = IN_ORDER if order is None else check_order(order, chunk.rows)
            if order is not IN_ORDER and not order.size:
                return np.zeros((chunk.rows, *core.score_shape))
            scores = core.learn_encoded(chunk, targets, sample_weights, order)
            core.warn_if_not_finite(scores)
            return scores

    def learn_one(self, indices: Any, values: Any, y: Any, sample_weight: float = 1.0) -> Any:
        """Make one round for the row with these values at these indices; see the class."""
        raise NotImplementedError

    def learn_named(self, features: Mapping[Any, Any], y: Any, sample_weight: float = 1.0) -> Any:
        """Make one round for a dict of features; see the class."""
        raise NotImplementedError

    def with_update(self: Self, update: Update | Ensemble) -> Self:
        """Return a model with another update that starts from the weights of this one; see the class."""
        raise NotImplementedError

    def add_classes(self, classes: Iterable[Any]) -> None:
        """Add classes of which there was no row yet; for joint losses and `OneVsRest`.

        >>> from fiol import FIOL, Learner, Softmax
        >>> learner = Learner(FIOL(Softmax()))
        >>> learner.add_classes(["apple", "pear"])
        >>> learner.learn([[1.0]], ["pear"])
        array([[0., 0.]])
        """
        with self.core.lock:
            self.core.add_classes(classes if isinstance(classes, list) else list(classes))

    def opened(self: Self) -> Self:
        """Return a copy that accepts new classes, though all were given."""
        new = self.copy()
        new.core.open_classes()
        return new

    # --- predicting ---------------------------------------------------------------------------

    def scores(self, X: Any) -> Floats:
        """Return the score <x, w> plus intercept of every row, by averaged weights if averages are kept.

        Scores have shape (rows,), or (rows, classes) for joint losses and `OneVsRest`. They are linear in the values,
        also beyond all values learned from.
        """
        X, rows = counted(X, "predict_named or score_named")
        if rows is None:
            return self.core.join_scores([self.scores(block) for block in blocks_of(X)])
        return self.core.scores(X)

    def score_chunk(self, chunk: Chunk) -> Floats:
        """Return the scores of a canonical chunk of numbered features, with few checks.

        >>> from fiol import FIOL, Learner, Squared, to_chunk
        >>> Learner(FIOL(Squared())).score_chunk(to_chunk([[1.0], [2.0]]))
        array([0., 0.])
        """
        core = self.core
        with core.lock:
            return core.score_canonical(core.space.read_chunk(chunk))

    def score_one(self, indices: Any, values: Any) -> Any:
        """Return the score, or the scores by class, of the row with these values at these indices."""
        return self.scores(one_row(indices, values))[0]

    def score_named(self, features: Mapping[Any, Any]) -> Any:
        """Return the score, or the scores by class, of a dict of features as `learn_named` takes them."""
        with self.core.lock:
            return self.core.score_dict(features)

    def predict(self, X: Any) -> Any:
        """Return the prediction for every row.

        It is the mean for regression and counts, the probability of +1 for logistic and exponential loss, and the label
        -1 or +1 for hinges; for softmax the probability of every class, of shape (rows, classes); for Crammer and
        Singer's hinge and `OneVsRest` the label of the highest score.
        """
        return self.core.predictions(self.scores(X))

    def predict_named(self, features: Mapping[Any, Any]) -> Any:
        """Return the prediction for a dict of features, see `predict` and `learn_named`."""
        with self.core.lock:
            found = self.core.score_dict(features, predict=True)
        return found.item() if isinstance(found, np.generic) else found

    # --- the model ----------------------------------------------------------------------------

    @property
    def update(self) -> Update | Ensemble:
        """The update rule, or the ensemble of update rules."""
        return self.core.update

    @property
    def compiled(self) -> bool:
        """Whether compiled code works in the model."""
        return self.core.compiled

    @property
    def dtype(self) -> Any:
        """The numpy dtype of the numbers per feature."""
        return self.core.dtype

    @property
    def averages(self) -> bool:
        """Whether averages of the weights are kept."""
        return self.core.averages

    @property
    def intercept_fitted(self) -> bool:
        """Whether the model has an intercept."""
        return self.core.intercept_fitted

    @property
    def weights(self) -> Floats:
        """The weight of every feature (its average, if averages are kept), exactly up to date; a copy.

        Its shape is (features,), or (classes, features) for joint losses and `OneVsRest`. TypeError for an ensemble
        that is not linear (`Bayes`).
        """
        with self.core.lock:
            return self.core.weights()

    @property
    def intercept(self) -> Any:
        """The intercept (its average, if averages are kept), or an array with that of every class; 0 without one."""
        with self.core.lock:
            return self.core.intercept()

    @property
    def rounds(self) -> int:
        """Rounds made: rows learned from, or their average where models were merged."""
        return self.core.rounds

    @property
    def rows(self) -> int:
        """Rows learned from, including those of all merged models."""
        return self.core.rows

    @property
    def n_features(self) -> int:
        """The number of features, or of those seen so far if it grows."""
        return self.core.feature_count

    @property
    def names(self) -> list[str | int] | None:
        """The names of the features, in the order of `weights`; None if features are numbers."""
        with self.core.lock:
            return self.core.feature_names()

    @property
    def width(self) -> int | None:
        """The number of features if it is fixed, else None."""
        return self.core.space.width

    @property
    def bits(self) -> int | None:
        """Features are hashed into 2**bits, unless that is None."""
        return self.core.space.bits

    @property
    def max_features(self) -> int | None:
        """The largest number of features that are held, unless that is None."""
        return self.core.space.max_features

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Names of the columns, if the first rows had any."""
        return self.core.space.columns

    @property
    def table_encoding(self) -> TableEncoding | None:
        """How columns of frames become features; None while columns are plain numbers, a feature each.

        >>> import pandas as pd
        >>> from fiol import FIOL, Learner, Squared
        >>> learner = Learner(FIOL(Squared()))
        >>> scores = learner.learn(pd.DataFrame({"age": [30, None], "city": ["Rome", "Oslo"]}), [1.0, 2.0])
        >>> learner.names
        ['age', 'city=Rome', 'age is missing', 'city=Oslo']
        >>> learner.table_encoding.describe()
        ['age: a number', 'city: one feature for every value (city=...)']
        """
        return self.core.space.table_encoding

    @property
    def unknown_keys(self) -> int:
        """The number of entries of dicts that were left out because their keys are no columns of `table_encoding`."""
        return self.core.space.unknown.count

    @property
    def classes(self) -> Any:
        """The labels of the classes, in the order of weights and scores; None for a model with one score.

        The order is that of the argument `classes`, or else that of their appearance.
        """
        with self.core.lock:
            return None if self.core.labels is None else self.core.labels.classes

    @property
    def closed(self) -> bool:
        """Whether new classes are refused."""
        return self.core.closed

    @property
    def nbytes(self) -> int:
        """Bytes of memory for everything that is learned, without the names of features."""
        return self.core.nbytes

    def importances(self, most: int | None = None, X: Any = None, by: str = "feature") -> dict[Any, float]:
        """Return how much every feature, or every column, matters, the largest first.

        The importance of a feature is its weight times its standard deviation, with the sign of the weight: how far the
        feature typically moves the score. Weights alone would compare meters with kilometers. For several classes the
        weight is the root mean square over classes. The importance of a column is the standard deviation of what its
        features together add to scores; those of which a row may have several (words, tags, parts of a date) count as
        uncorrelated. It does not change if all categories of a column get the same number more, which the intercept
        gets less. Whatever has importance 0 is left out.

        Parameters
        ----------
        most : the largest number of features or columns to return.
        X : rows; standard deviations are those in them. By default they are those in the rows learned from: exact for
            columns of numbers in models of `fiol.train`, of the command, and of an estimator's `fit`; else estimated
            from what step sizes store, which takes no memory. Steps that add up curvatures or squared gradients, which
            the default learner has, give the root mean square of a feature, each row weighted by the curvature or
            the squared gradient of its loss. Of the distance from the mean, if the feature is centered, that is the
            standard deviation; of categories and words of a table, the standard deviation follows; of a
            feature that is in few rows, it is nearly the same; other features with a mean m and standard
            deviation s count as sqrt(m^2 + s^2). Other `ScaleFree` steps give the largest value, and all others 1.
        by : "feature", or "column": the features that a table encoding made of one column together, or those of the
            text values of one key of dicts; the features of an interaction count for their columns together, `a*b`.

        Examples
        --------
        >>> from fiol import Learner, Squared
        >>> learner = Learner(loss=Squared(), compiled=False)
        >>> rows = [{"meters": 9000.0 * k, "grams": 0.001 * (k % 2)} for k in range(20)]
        >>> scores = learner.learn(rows, [row["meters"] / 9000.0 for row in rows])
        >>> list(learner.importances(1))
        ['meters']
        """
        with self.core.lock:
            core = self.core.copy()
        return importances(core, self.meta, most, X, by)

    def plot_effects(self, columns: int = 6, pairs: int = 3, label: Any = None) -> Any:
        """Draw what columns and pairs of columns add to scores, the largest effects first, and return the figure.

        For models with curves (`features="additive"`, `"pairwise"` or `"auto"`). A column of numbers is a curve, with a
        band of two standard deviations that the rows so far leave, and the distribution of its values below; a category
        has bars. A pair is a heat map of what its cells add to the effects of both columns; colors mean the same in all
        pairs, and those with less than a twentieth of the largest effect are left out. Effects are in units of the
        score (the target, or log odds), and their mean over rows is 0. Needs matplotlib: `pip install "fiol[plots]"`.

        Parameters
        ----------
        columns, pairs : how many are drawn at most.
        label : with several classes, that of the score; by default the last class.
        """
        from fiol.learner.effect_plots import plot_effects

        with self.core.lock:
            core = self.core.copy()
        return plot_effects(core, columns, pairs, label)

    def settle(self) -> None:
        """Bring every stored weight up to date. `weights`, `save` and other methods do not need it."""
        with self.core.lock:
            self.core.settle()

    # --- copies and files ---------------------------------------------------------------------

    def copy(self: Self) -> Self:
        """Return an independent copy that continues from here."""
        with self.core.lock:
            return self.from_core(self.core.copy(), self.meta)

    def snapshot(self) -> Snapshot:
        """Return a scorer with the weights of this moment, which never change: for threads that must not wait.

        >>> from fiol import FIOL, Learner, Squared
        >>> learner = Learner(FIOL(Squared()))
        >>> score = learner.learn_named({"age": 30.0}, y=1.0)
        >>> before = learner.snapshot()
        >>> score = learner.learn_named({"age": 31.0, "size": 2.0}, y=2.0)
        >>> before.names, before.rounds, before.predict([{"age": 30.0}]).shape
        (['age'], 1, (1,))
        """
        return Snapshot(self.copy())

    def save(self, path: Path) -> None:
        """Write everything, `meta` included, to a file (see `fiol.persistence.model`): atomic, checksummed, no pickle.

        A model loaded from it continues exactly, to the bit. Features never seen take no space. Labels of classes must
        be str, int or bool. Learning waits for the disk: `copy().save(path)` lets it go on.
        """
        core = self.core
        if core.labels is not None:
            core.labels.check_storable()
        with core.lock:
            write_model(path, self.KIND, core.header(), core.stored_arrays(), self.meta)

    @classmethod
    def load(cls: type[Self], path: Path, compiled: bool = True) -> Self:
        """Return the model in a file of any version; ModelFileError for a model of another kind.

        Your own components must have been defined or imported before.
        """
        return build_model(path, read_model(path, cls.KIND), cls.from_parts, compiled)  # type: ignore[no-any-return]

    @classmethod
    def from_parts(cls: type[Self], header: dict[str, Any], arrays: dict[str, Any], compiled: bool = True) -> Self:
        """Return the model of the header and the arrays of a file."""
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        core = self.core
        with core.lock:
            arrays = {name: a.copy() for name, a in core.arrays().items()}
            state = {"update": core.update, "options": core.options(), "compiled": core.compiled}
            return {**state, "header": core.space.header(), "arrays": arrays, "meta": copy.deepcopy(self.meta)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        classes = classes_in(state["header"].get("labels"))
        self.core = self._make_core(state["update"], **state["options"], classes=classes, compiled=state["compiled"])
        self.core.restore(state["header"], state["arrays"])
        self.meta = copy.deepcopy(state["meta"])

    def __str__(self) -> str:
        return self._summary().text()

    def _repr_html_(self) -> str:
        return self._summary().html()

    def _summary(self) -> Summary:
        """Return what `print(model)` and notebooks show."""
        raise NotImplementedError


def is_vector(array: Any, dtype: Any) -> bool:
    """Return whether a compiled loop can take `array` as it is."""
    if type(array) is not np.ndarray or array.dtype is not dtype or array.ndim != 1:
        return False
    flags = array.flags
    return flags.c_contiguous and flags.aligned


def is_canonical_row(indices: Any, values: Any) -> bool:
    """Return whether a row is given as arrays of int32 and float64."""
    return is_vector(indices, INDEX_TYPE) and is_vector(values, VALUE_TYPE)
