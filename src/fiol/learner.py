"""The learner: a stream of rows in, scores before learning out."""

from __future__ import annotations

import math
import operator
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar, Union

import numpy as np

from fiol.components.component import per_feature_sizes
from fiol.components.joint_losses import JointLoss
from fiol.components.problem import expect
from fiol.components.row import Floats
from fiol.engine.engine import IN_ORDER, Engine
from fiol.files import model_file, recipe
from fiol.intake.bounds import renumbered, rows_that_fit
from fiol.intake.chunks import (
    FEATURES,
    Chunk,
    as_matrix,
    check_targets,
    check_two_dimensional,
    check_weights,
    column_names,
    to_chunk,
)
from fiol.intake.vocabulary import Hashing, Vocabulary
from fiol.update.anchors import LastIterate
from fiol.update.loss_steps import ImplicitLoss
from fiol.update.plan import Plan, make_plan, rotated
from fiol.update.update import Update

Path = Union[str, "os.PathLike[str]"]
Self = TypeVar("Self", bound="Learner")
#: What `Learner.save` writes.
KIND = "learner"


class Learner:
    """A linear model that learns from a stream, one exact round per row.

    Parameters
    ----------
    update : what happens in a round: an `Update`, most easily one of `fiol.presets`.
    n_features : how many features there are. By default the model grows as new ones appear.
    bits : fold all features, named or numbered, into 2**bits by hashing.
    max_features : hold at most so many features. When a row needs more, those whose weight is exactly 0 are
        dropped; one that comes back later starts anew.
    intercept : whether there is one. It is never penalised.
    average : keep the average of the weights over all rounds, and predict with it.
    dtype : how the numbers per feature are stored, "float64" or "float32". All arithmetic is in float64.
    compiled : False runs the same code in the interpreter.

    The same rows give the same bits however they are cut into chunks, whatever holds them, and whether or not
    the learner was saved and loaded in between. Every weight is what a loop over all features in every round
    would have made of it, at a cost that depends on the entries of a row alone (`fiol.update.laziness` has the few
    exceptions). If anything is wrong with a chunk, an error names the place and nothing has been learned from it.

    Memory beyond the data is `nbytes`: 8 bytes per feature (4 for float32), and 8 more for a mark if absent
    features have to catch up; as much again for each of AdaGrad's sums and the scale-free maxima; 8 for averages.

    Examples
    --------
    >>> from fiol import FIOL, L1, Learner, Logistic
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
    """

    def __init__(
        self,
        update: Update,
        *,
        n_features: int | None = None,
        bits: int | None = None,
        max_features: int | None = None,
        intercept: bool = True,
        average: bool = False,
        dtype: Any = "float64",
        compiled: bool = True,
    ) -> None:
        expect("update", update, Update)
        if isinstance(update.loss, JointLoss):
            raise TypeError(f"Learner has one score per row, {update.loss!r} one per class: use JointLearner")
        self.update = update
        self.bits, self.max_features = bits, max_features
        self.intercept_fitted, self.averages, self.dtype = bool(intercept), bool(average), check_dtype(dtype)
        self.compiled = compiled
        self.columns: tuple[str, ...] | None = None  #: names of the columns, if the first rows had any
        self.ledger: Any = None  #: the `fiol.regret.Ledger` that rides along, if there is one
        self._plan = make_plan(update, self.averages)
        self._encoder: Vocabulary | Hashing | None = None if bits is None else Hashing(bits)
        if max_features is not None:
            check_size("max_features", max_features)
            self._encoder = Vocabulary()
        self.width = check_width(update, self._plan, n_features, bits, max_features)
        self._features = self.width or 0
        size = update.geometry.entered(self._features)
        first = self._plan.first_entry(size)
        self._engine = Engine(self._plan, size, first, bool(intercept), self.averages, self.dtype, compiled)

    # --- learning -----------------------------------------------------------------------------

    def learn(self, X: Any, y: Any, sample_weight: Any = None) -> Floats:
        """One round per row, in order; returns the score of each row before its round.

        X is a scipy sparse matrix, an array or nested list, a pandas or polars frame, an arrow table, or a list
        of dicts; y has one target per row (-1 or +1 for binary losses); sample_weight multiplies the loss.

        >>> from fiol import FIOL, Learner, Squared
        >>> learner = Learner(FIOL(Squared()), intercept=False)
        >>> learner.learn([[1.0], [float("nan")]], [1.0, 2.0])
        Traceback (most recent call last):
        ValueError: X[1, 0] must be finite, got nan
        >>> learner.rounds
        0
        """
        X, rows = counted(X)
        targets = check_targets(y, rows, self.update.loss)
        weights = check_weights(sample_weight, rows)
        if self.max_features is not None:
            scores = self._learn_bounded(X, targets, weights)
        else:
            scores = self._learn_all(X, targets, weights)
        self._watch(scores)
        return scores

    def _learn_checked(self, chunk: Chunk, y: Floats, weights: Floats, order: Any = IN_ORDER) -> Floats:
        """`learn` for canonical rows of at most `n_features`, targets and weights that have been checked."""
        scores = self._engine.learn(self._entered(chunk, self._features), y, weights, order)
        self._watch(scores)
        return scores

    def _scores_checked(self, chunk: Chunk) -> Floats:
        """`scores` for canonical rows; features beyond those seen have the weight of one never seen."""
        return self._engine.scores(self._entered(chunk, self._features))

    def _mean_loss(self, scores: Floats, y: Floats, weights: Floats, order: Any = IN_ORDER) -> float:
        """The weighted mean loss of scores."""
        return self._engine.mean_loss(scores, y, weights, order)

    def _watch(self, scores: Floats) -> None:
        """Warn of the first score that is not finite."""
        if not math.isfinite(scores.sum()):  # cheaper than asking every score
            finite = np.isfinite(scores)
            row = int(np.argmin(finite))
            if not finite[row]:
                self._warn(f"the score of row {row}", scores[row], stacklevel=4)

    def learn_one(self, indices: Any, values: Any, y: float, sample_weight: float = 1.0) -> float:
        """One round for the row with these values at these indices; returns its score before.

        Fastest for arrays of int32 and float64 whose indices rise.

        >>> from fiol import FIOL, Learner, Squared
        >>> learner = Learner(FIOL(Squared()), intercept=False)
        >>> learner.learn_one([3, 5], [1.0, 2.0], y=1.0), learner.n_features
        (0.0, 6)
        """
        if self._plain and is_vector(indices, INT32) and is_vector(values, FLOAT64):
            z = self._learn_ready(indices, values, y, sample_weight)
            if z is not None:
                return z
        return float(self.learn(one_row(indices, values), [y], [sample_weight])[0])

    def learn_named(self, features: Mapping[Any, Any], y: float, sample_weight: float = 1.0) -> float:
        """One round for a dict of features; returns its score before.

        Keys are names, or numbers; a text as value is part of the name: {"color": "red"} is {"color=red": 1}.

        >>> from fiol import FIOL, Learner, Squared
        >>> Learner(FIOL(Squared())).learn_named({"age": 30, "color": "red"}, y=1.0)
        0.0
        """
        words = self._encoder
        if words is not None and self.max_features is None and not self.update.geometry.whole_rows:
            size = words.size
            row = words.again(features) if type(features) is dict else None
            z = None if row is None else self._learn_ready(*row, y, sample_weight)
            if z is None:
                row = words.encode_one(features)
                z = self._learn_ready(*row, y, sample_weight) if words.size == size else None
            if z is not None:
                return z
            words.forget(size)
        return float(self.learn([features], [y], [sample_weight])[0])

    def _learn_ready(self, indices: Any, values: Any, y: Any, sample_weight: Any) -> float | None:
        """The round of a row that is in order; None, and no round, if anything about it needs a second look."""
        if type(y) not in NUMBERS or type(sample_weight) not in NUMBERS:
            return None
        z = self._engine.learn_one(indices, values, float(y), float(sample_weight), self._features)
        if z is not None and not math.isfinite(z):
            self._warn("the score", z)
        return z

    def _warn(self, what: str, score: float, stacklevel: int = 3) -> None:
        """Warn that a score is not finite, on behalf of whoever called the learner."""
        implicit = isinstance(self.update.loss_step, ImplicitLoss)
        why = "the weights left the range of double precision" if implicit else "use an implicit loss step"
        warnings.warn(f"{what} is {score}: this update diverges; {why}", RuntimeWarning, stacklevel=stacklevel)

    def start_from(self, weights: Any, intercept: float = 0.0) -> None:
        """Begin with these weights instead of the geometry's origin; before the first round.

        A learner that grows has as many features as there are weights.

        >>> from fiol import FIOL, Learner, Squared
        >>> learner = Learner(FIOL(Squared()), n_features=2)
        >>> learner.start_from([1.0, 2.0], intercept=3.0)
        >>> learner.scores([[1.0, 1.0]])
        array([6.])
        """
        if self.rounds or not isinstance(self.update.anchor, LastIterate) or self.update.geometry.whole_rows:
            raise TypeError("only a learner before its first round, anchored at LastIterate(), can start elsewhere")
        w = np.array(weights, np.float64)
        features = self._features if self.width is not None else max(self._features, w.size)
        if w.shape != (features,):
            raise ValueError(f"weights must have one entry for each of {features} features, got shape {w.shape}")
        if not (np.isfinite(w).all() and math.isfinite(intercept)):
            raise ValueError("weights and intercept must be finite")
        self._engine.start_from(w, float(intercept))
        self._features = features

    # --- predicting ---------------------------------------------------------------------------

    def scores(self, X: Any, linear: bool = False) -> Floats:
        """The score <x, w> plus intercept of every row, by the averaged weights if averages are kept.

        `ScaleFree` steps take a value larger than any before as the largest so far, as they do when they learn from
        it; `linear` scores do not.
        """
        X, _ = counted(X)
        if self.max_features is not None:
            return self._scores_named(X, linear)
        if is_dicts(X) and not isinstance(self._encoder, Hashing) and self._plan.first_weight(1) != 0.0:
            self._vocabulary()
            return self._scores_named(X, linear)
        chunk, features = self._encode(X, grow=False)
        return self._engine.scores(self._entered(chunk, features), linear)

    def predict(self, X: Any) -> Floats:
        """What the scores say: the mean for regression and counts, the probability of +1 for logistic and
        exponential loss, the label -1 or +1 for hinges.
        """
        return self._engine.predictions(self.scores(X))

    def score_one(self, indices: Any, values: Any) -> float:
        """The score of one row, see `learn_one`."""
        return float(self.scores(one_row(indices, values))[0])

    def score_named(self, features: Mapping[Any, Any]) -> float:
        """The score of a dict of features, see `learn_named`."""
        return float(self.scores([features])[0])

    # --- the model ----------------------------------------------------------------------------

    @property
    def weights(self) -> Floats:
        """The weight of every feature (its average, if averages are kept), exactly up to date; a copy."""
        return self._read(self.averages)

    @property
    def last_weights(self) -> Floats:
        """The weights of the last round, also where averages are kept."""
        return self._read(False)

    def _read(self, averaged: bool) -> Floats:
        geometry = self.update.geometry
        return geometry.leave_weights(self._engine.weights(geometry.entered(self.n_features), averaged))

    @property
    def intercept(self) -> float:
        """The intercept (its average, if averages are kept); 0 without one."""
        return self._engine.bias_weight(self.averages)

    @property
    def rounds(self) -> int:
        """Rounds made: rows learned from, or their average where learners were merged."""
        return self._engine.rounds

    @property
    def n_features(self) -> int:
        """Features there are, or were seen so far."""
        return self._encoder.size if isinstance(self._encoder, Vocabulary) else self._features

    @property
    def n_nonzero(self) -> int:
        """Features whose weight is not exactly 0."""
        return int(np.count_nonzero(self.weights))

    @property
    def names(self) -> list[str | int] | None:
        """What the features are called, in the order of `weights`; None if they are numbers."""
        if isinstance(self._encoder, Vocabulary):
            return list(self._encoder.names)
        return None if self.columns is None else list(self.columns)

    @property
    def nbytes(self) -> int:
        """Bytes of memory for everything that is learned (names of features not counted)."""
        return self._engine.nbytes

    def settle(self) -> None:
        """Bring every stored weight up to date. `weights`, `save` and the rest do not need it."""
        self._engine.settle()

    def prune(self) -> int:
        """Drop all features whose weight is exactly 0, with what is remembered of them; returns how many.

        For learners that hold names, or `max_features`. Where steps do not depend on a feature's past
        (no `AdaGrad`, last iterate) this changes no later score. The weight is that of the last round: an
        average is dropped with it.
        """
        if not isinstance(self._encoder, Vocabulary):
            raise TypeError("features are numbered by the caller here: prune() needs named features or max_features")
        kept = np.flatnonzero(self.last_weights)
        dropped = self.n_features - kept.shape[0]
        if dropped:
            each = self.update.geometry.entered(1)
            self._engine.select((each * kept[:, None] + np.arange(each)).ravel())
            self._encoder = Vocabulary([self._encoder.names[i] for i in kept])
            self._features = kept.shape[0]
        return dropped

    def copy(self: Self) -> Self:
        """A learner of its own that goes on from here."""
        new = object.__new__(type(self))
        new.__setstate__(self.__getstate__())
        return new

    def __getstate__(self) -> dict[str, Any]:
        parts = {"update": self.update, "options": self._options(), "compiled": self.compiled}
        return {**parts, "header": self._header(), "arrays": self._arrays()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Become the learner with this state, which is not shared."""
        Learner.__init__(self, state["update"], **state["options"], compiled=state["compiled"])
        self._restore(state["header"], state["arrays"])

    @classmethod
    def merge(cls: type[Self], learners: Sequence[Self], weights: Sequence[float] | None = None) -> Self:
        """The average of learners with the same recipe that saw different rows, for parallel work.

        Every number they learned, their round included, is averaged in proportion to `weights` (by default to the
        rounds made); of the largest values of each feature the largest is taken. Learners that are equal
        merge into one equal to them, so merging may be repeated.

        >>> from fiol import FIOL, Learner, Squared
        >>> parts = [Learner(FIOL(Squared()), n_features=2) for _ in range(2)]
        >>> for part, x in zip(parts, ([[1.0, 0.0]], [[0.0, 1.0]])):
        ...     score = part.learn(x, [1.0])
        >>> whole = Learner.merge(parts)
        >>> whole.rounds, bool(np.allclose(whole.weights, (parts[0].weights + parts[1].weights) / 2))
        (1, True)
        """
        if not learners:
            raise ValueError("merge needs at least one learner")
        first = learners[0]
        for k, other in enumerate(learners):
            if other.update != first.update or other._options() != first._options():
                raise ValueError(f"learners[{k}] has another recipe than learners[0]")
            if other.names != first.names:
                raise ValueError(f"learners[{k}] has other named features than learners[0]; bits=... lets them share")
        share = merge_weights(weights, [learner.rounds for learner in learners])
        new = first.copy()
        new._features = max(learner._features for learner in learners)
        new._engine.average([learner._engine for learner in learners], share)
        return new

    # --- files --------------------------------------------------------------------------------

    def save(self, path: Path) -> None:
        """Write everything to a file (see `fiol.files.model_file`): atomically, checksummed, without pickle.

        A learner loaded from it goes on exactly, to the bit, as this one would have.
        """
        model_file.write(path, self._header(), self._arrays())

    @classmethod
    def load(cls: type[Self], path: Path, compiled: bool = True) -> Self:
        """The learner in a file. Own components must have been defined or imported before."""
        header, arrays = model_file.read(path)
        try:
            if header.get("kind") != KIND:
                raise ValueError(f"it holds {header.get('kind')!r}, not a learner")
            for key in ("update", "options", "features", "columns", "names"):
                if key not in header:
                    raise ValueError(f"{key!r} is missing from its header")
            return cls._from_parts(header, arrays, compiled)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise model_file.ModelFileError(f"{os.fspath(path)}: {error}") from error

    def _options(self) -> dict[str, Any]:
        return {
            "n_features": self.width if self.bits is None else None,
            "bits": self.bits,
            "max_features": self.max_features,
            "intercept": self.intercept_fitted,
            "average": self.averages,
            "dtype": self.dtype.name,
        }

    def _header(self) -> dict[str, Any]:
        vocabulary = isinstance(self._encoder, Vocabulary)
        return {
            "kind": KIND,
            "update": recipe.to_json(self.update),
            "options": self._options(),
            "features": self._features,
            "columns": None if self.columns is None else list(self.columns),
            "names": self.names if vocabulary else None,
        }

    def _arrays(self) -> dict[str, Any]:
        return self._engine.arrays()

    def _restore(self, header: dict[str, Any], arrays: dict[str, Any]) -> None:
        self._features = header["features"]
        self.columns = None if header["columns"] is None else tuple(header["columns"])
        if header["names"] is not None:
            self._encoder = Vocabulary(header["names"])
        self._engine.restore(arrays)

    @classmethod
    def _from_parts(cls: type[Self], header: dict[str, Any], arrays: dict[str, Any], compiled: bool = True) -> Self:
        update = recipe.from_json(header["update"])
        if not isinstance(update, Update):
            raise ValueError(f"its recipe is a {type(update).__name__}, not an Update")
        new = cls(update, **header["options"], compiled=compiled)
        check_header(header, new.bits, new.max_features)
        new._restore(header, arrays)
        return new

    def __repr__(self) -> str:
        return f"<Learner of {self.n_features} features after {self.rounds} rounds of {self.update!r}>"

    # --- rows ---------------------------------------------------------------------------------

    @property
    def _plain(self) -> bool:
        """Whether indices are features and rows enter the geometry as they are."""
        return self._encoder is None and not self.update.geometry.whole_rows

    def _vocabulary(self) -> Vocabulary:
        """The names of the features, none yet if this learner may still get some; TypeError if it has numbers."""
        if isinstance(self._encoder, Vocabulary):
            return self._encoder
        if self.rounds or self._features:
            raise TypeError("this learner has numbered features: pass arrays, or bits=... to a new learner")
        return Vocabulary()

    def _encode(self, X: Any, grow: bool = True) -> tuple[Chunk, int]:
        """Canonical rows and how many features there are with them; nothing is remembered if that fails."""
        features = self._features
        if X is NOTHING:
            return X, features
        if isinstance(self._encoder, Hashing):
            return self._encode_hashed(self._encoder, X), features
        if is_dicts(X):
            words = self._vocabulary()
            chunk = words.encode(X, grow)
            if grow:
                self._encoder = words
            return chunk, max(features, words.size)
        if isinstance(self._encoder, Vocabulary):
            raise TypeError("this learner has named features: pass dicts")
        columns = column_names(X)
        chunk = to_chunk(X, columns=self.columns or columns, n_features=self.width)
        if grow and columns is not None and self.columns is None:
            if features and len(columns) != features:
                raise ValueError(f"X has {len(columns)} columns, but there are {features} features")
            self.columns = columns
        seen = int(chunk.indices.max(initial=-1)) + 1
        return chunk, max(features, X.shape[1] if hasattr(X, "shape") else seen)

    def _encode_hashed(self, encoder: Hashing, X: Any) -> Chunk:
        """Rows whose features, named or numbered, are folded; the columns of a frame are names."""
        if is_dicts(X):
            return encoder.encode(X)
        columns = column_names(X)
        chunk = to_chunk(X, columns=columns)
        if columns is None:
            return encoder.fold(chunk)
        return renumbered(chunk, np.array([encoder.number(name) for name in columns]))

    def _learn_all(self, X: Any, y: Floats, weights: Floats) -> Floats:
        """`learn` with room for whatever comes."""
        before, size = (self._encoder, self.columns), self.n_features
        try:
            chunk, features = self._encode(X)
            scores = self._engine.learn(self._entered(chunk, features), y, weights)
        except BaseException:  # memory may run out
            self._encoder, self.columns = before
            if self._encoder is not None:
                self._encoder.forget(size)
            raise
        self._features = features
        return scores

    def _entered(self, chunk: Chunk, features: int) -> Chunk:
        """The rows as the working geometry sees them."""
        return Chunk(*self.update.geometry.enter_rows(chunk, features))

    def _named(self, X: Any) -> tuple[Chunk, list[str | int]]:
        """Rows with features numbered for these rows only, in the order of their names; and these names."""
        names: list[str | int]
        if is_dicts(X):
            words = Vocabulary()
            chunk, names = words.encode(X), words.names
        else:
            columns = column_names(X)
            chunk = X if X is NOTHING else to_chunk(X, columns=columns)
            found, local = np.unique(chunk.indices, return_inverse=True)
            chunk = chunk._replace(indices=local.astype(np.int32))
            names = [int(i) if columns is None else columns[i] for i in found]
        order = sorted(range(len(names)), key=lambda i: (isinstance(names[i], str), names[i]))
        return renumbered(chunk, np.argsort(order)), [names[i] for i in order]

    def _numbers(self, names: list[str | int]) -> Any:
        """The features of these names, -1 for those not held."""
        words = self._vocabulary()
        return np.array([words.number(name) if words.knows(name) else -1 for name in names], np.int64)

    def _scores_named(self, X: Any, linear: bool) -> Floats:
        """Scores where names that are not held may count: each has the weight of a feature never seen."""
        chunk, names = self._named(X)
        numbers = self._numbers(names)
        numbers[numbers < 0] = self.n_features
        rows = renumbered(chunk, numbers)
        return self._engine.scores(self._entered(rows, self.n_features), linear)

    def _learn_bounded(self, X: Any, y: Floats, weights: Floats) -> Floats:
        """`learn` with at most `max_features`: before a row that does not fit, zeros are dropped."""
        chunk, names = self._named(X)
        scores, numbers = np.empty(chunk.rows), self._numbers(names)
        start, ahead, pruned, before = 0, chunk.rows, False, None
        while start < chunk.rows:
            block = chunk.row_block(start, start + ahead)
            fit, new = rows_that_fit(block, numbers, self.max_features - self.n_features)  # type: ignore[operator]
            if before is None and fit < chunk.rows:
                before = self._header(), self._engine.snapshot()
            if fit > 0:
                numbers[new] = [self._vocabulary().number(names[i]) for i in new]
                rows, stop = renumbered(block.row_block(0, fit), numbers), start + fit
                rows = self._entered(rows, self.n_features)
                scores[start:stop] = self._engine.learn(rows, y[start:stop], weights[start:stop])
                self._features, start, ahead, pruned = self.n_features, stop, 2 * ahead, False
            elif pruned or not self.prune():
                self._restore(*before)  # type: ignore[misc]
                raise ValueError(
                    f"row {start} brings more features than max_features={self.max_features} leaves room for: "
                    "all others have weights that are not 0; raise max_features or the strength of l1"
                )
            else:
                numbers, ahead, pruned = self._numbers(names), AHEAD, True
        return scores


# --- arguments --------------------------------------------------------------------------------

INT32, FLOAT64 = np.dtype(np.int32), np.dtype(np.float64)
#: Types of a target that need no second look.
NUMBERS = {float, int, np.float64, np.int64}
#: No rows.
NOTHING = Chunk(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0))
#: So many rows are looked at to find which of them fit, after features had to be dropped.
AHEAD = 16


def is_vector(array: Any, dtype: Any) -> bool:
    """Whether a compiled loop can take `array` as it is."""
    if type(array) is not np.ndarray or array.dtype is not dtype or array.ndim != 1:
        return False
    flags = array.flags
    return flags.c_contiguous and flags.aligned


def counted(X: Any) -> tuple[Any, int]:
    """X and its number of rows; what can be read only once becomes a list, and a nested list a matrix."""
    if isinstance(X, Mapping):
        raise TypeError("X must be rows, not a single dict: use learn_named, or put it in a list")
    if isinstance(X, Chunk):
        return X, X.rows
    if hasattr(X, "shape") and len(X.shape) > 0:
        check_two_dimensional(X.shape)
        return X, int(X.shape[0])
    if isinstance(X, (str, bytes)) or not isinstance(X, Iterable):
        raise TypeError(f"X must be a matrix, a frame or a list of dicts, got {type(X).__name__}")
    X = X if isinstance(X, (list, tuple)) else list(X)
    if len(X) == 0:
        return NOTHING, 0
    if not is_dicts(X):
        X = as_matrix(X)
    return X, len(X)


def is_dicts(X: Any) -> bool:
    """Whether the rows are dicts."""
    return isinstance(X, (list, tuple)) and not isinstance(X, Chunk) and len(X) > 0 and isinstance(X[0], Mapping)


def one_row(indices: Any, values: Any) -> Chunk:
    """One row given by indices and values."""
    index, data = np.asarray(indices), np.asarray(values)
    if index.size == 0:
        index = index.astype(np.int32)
    if index.ndim != 1 or index.shape != data.shape:
        raise ValueError(f"indices and values must have one length, got shapes {index.shape} and {data.shape}")
    return Chunk(np.array([0, index.shape[0]]), index, data)


def check_size(name: str, value: Any) -> int:
    """A number of features."""
    try:
        size = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {value!r}") from None
    if not 1 <= size <= FEATURES:
        raise ValueError(f"{name} must be from 1 to {FEATURES}, got {size}")
    return size


def check_width(update: Update, plan: Plan, n_features: Any, bits: Any, max_features: Any) -> int | None:
    """How many features there are, if that is known from the start."""
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
    if n_features is None and (rotated(update.geometry) or (plan.laziness.everywhere and plan.first_weight(1) != 0.0)):
        raise TypeError(f"{type(update.geometry).__name__} needs to know how many features there are: give n_features")
    return n_features


def check_header(header: dict[str, Any], bits: int | None, max_features: int | None) -> None:
    """Refuse what a file says of the features if it makes no sense."""
    features, columns, names = header["features"], header["columns"], header["names"]
    if type(features) is not int or not 0 <= features <= FEATURES:
        raise ValueError(f"its number of features is given as {features!r}")
    for what, found, kinds in (("columns", columns, (str,)), ("names", names, (str, int))):
        if found is None:
            continue
        if not isinstance(found, list) or len(found) != features or not all(type(name) in kinds for name in found):
            raise ValueError(f"its {what} are not one name for each of {features} features")
        if len(set(found)) < len(found):
            raise ValueError(f"its {what} are not all different")
    if (names is None and max_features is not None) or (names is not None and bits is not None):
        raise ValueError("its names do not go with its options")


def check_dtype(dtype: Any) -> Any:
    """float64 or float32."""
    try:
        found = np.dtype(dtype)
    except TypeError:
        found = None
    if found is None or found not in (np.dtype(np.float64), np.dtype(np.float32)):  # numpy finds None equal to float64
        raise ValueError(f'dtype must be "float64" or "float32", got {dtype!r}')
    return found


def merge_weights(weights: Sequence[float] | None, rounds: list[int]) -> Floats:
    """The shares of merged learners, which add up to 1."""
    share = np.asarray(rounds if weights is None else weights, np.float64)
    if share.shape != (len(rounds),) or not np.isfinite(share).all() or (share < 0.0).any():
        raise ValueError(f"weights must be one number of at least 0 per learner, got {weights!r}")
    if share.sum() == 0.0:
        if weights is not None:
            raise ValueError("weights must not all be 0")
        share = np.ones(len(rounds))
    return share / share.sum()
