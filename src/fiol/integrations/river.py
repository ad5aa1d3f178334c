"""River's view of a learner: `FIOLClassifier` and `FIOLRegressor`.

No mathematics of its own: parameters become a preset (`fiol.integrations.parameters`), dicts become rows
(`fiol.features`), and `fiol.Learner` does the rest. Needs River, the extra `fiol[river]`.
"""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from numbers import Real
from typing import Any, ClassVar, Union

import numpy as np

try:
    from river import base
except ImportError as error:
    raise ImportError("fiol.river needs River: pip install fiol[river]") from error

from fiol.algorithms.ensemble import Ensemble
from fiol.algorithms.update import Update
from fiol.components.geometries import Geometry
from fiol.components.joint_losses import JointLoss
from fiol.components.losses import Loss
from fiol.components.regularizers import Regularizer
from fiol.components.row import Floats
from fiol.components.solvers import Solver
from fiol.components.step_sizes import StepSize
from fiol.features.chunk import Chunk
from fiol.features.feature_space import FeatureSpace, one_row
from fiol.features.frames import (
    Frame,
    as_frame,
    as_list,
    converted,
    eager,
    frame_like,
    labels_like,
    series_like,
    series_name,
)
from fiol.features.labels import AnyLabels, plain_label
from fiol.features.lock import Lock
from fiol.integrations.parameters import AUTOMATIC, GEOMETRIES, SOLVERS, STEP_SIZES, make_update
from fiol.learner import Learner
from fiol.learner.arguments import check_flag
from fiol.models.one_vs_rest import OneVsRest
from fiol.names import (
    ALGORITHMS,
    CLASSIFICATION,
    JOINT,
    PENALTIES,
    REGRESSION,
    canonical_name,
    component_named,
    is_component_name,
)

#: Parameters that describe the update, all but the loss; these can be changed in the middle of a stream.
OF_UPDATE = ("penalty", "alpha", "l1_ratio", "algorithm", "step_size", "geometry", "solver", "positive")
#: Names that a parameter may have, and the component that it may be instead.
NAMED: dict[str, tuple[tuple[str, ...], type]] = {
    "penalty": (PENALTIES, Regularizer),
    "step_size": ((*AUTOMATIC, *STEP_SIZES), StepSize),
    "geometry": (tuple(GEOMETRIES), Geometry),
    "solver": (tuple(SOLVERS), Solver),
}
#: Parameters that are True or False.
YES_OR_NO = ("average", "positive", "fit_intercept")
#: What a step size that is a number is called where it is checked, and here.
STEP_SIZE_CALLED = {"Constant.size": "step_size", "aggressiveness": "step_size"}
#: The same for the arguments of one round, and of many.
ONE_CALLED = {"sample_weight[0]": "w", "sample_weight": "w", "y[0]": "y"}
MANY_CALLED = {"sample_weight": "w"}
#: What learns: one score, a score per class at once, or a learner per class.
InnerModel = Union[Learner, OneVsRest]


class LinearModel(base.Estimator):
    """The parts that both models share: parameters to an update, dicts and frames to rows."""

    _losses: ClassVar[Mapping[str, Loss | JointLoss]]
    #: What a loss that is not a name may be.
    _loss_kinds: ClassVar[tuple[type, ...]] = (Loss,)

    def __init__(
        self,
        loss: Any,
        penalty: Any,
        alpha: float,
        l1_ratio: float | None,
        algorithm: str,
        step_size: Any,
        geometry: Any,
        solver: Any,
        average: bool,
        positive: bool,
        fit_intercept: bool,
        bits: int | None,
    ) -> None:
        self.loss = loss
        self.penalty = penalty
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.algorithm = algorithm
        self.step_size = step_size
        self.geometry = geometry
        self.solver = solver
        self.average = average
        self.positive = positive
        self.fit_intercept = fit_intercept
        self.bits = bits
        self._space = FeatureSpace(bits=bits, any_names=True)
        self._y_name: Any = None
        self._lock = Lock()
        self._update = self._make_update()
        self._space.counts_unseen = self._new_learner().core.counts_unseen

    # --- parameters -------------------------------------------------------------------------------

    def _make_update(self) -> Update | Ensemble:
        """The update that the parameters describe; an error names one that is wrong, and what it may be."""
        if not (isinstance(self.loss, str) and is_component_name(self.loss, self._losses)):
            check_choice("loss", self.loss, tuple(self._losses), self._loss_kinds)
        check_choice("algorithm", self.algorithm, tuple(ALGORITHMS), ())
        for name, (known, kind) in NAMED.items():
            value, number = getattr(self, name), name == "step_size"
            if value is not None or number:
                check_choice(name, value, known, (kind,), number)
        for name in YES_OR_NO:
            check_flag(name, getattr(self, name))
        check_in_range("alpha", self.alpha, 0.0, np.inf)
        if self.l1_ratio is not None:
            check_in_range("l1_ratio", self.l1_ratio, 0.0, 1.0)
        with calling_it({} if isinstance(self.step_size, StepSize) else STEP_SIZE_CALLED):
            given = {name: getattr(self, name) for name in OF_UPDATE}
            return make_update(component_named(self.loss, dict(self._losses)), **given, alone=self.average)

    def _new_learner(self) -> Learner:
        """A learner of numbered features before its first round: the feature space numbers them."""
        return Learner(self._update, **self._options())

    def _options(self) -> dict[str, Any]:
        """Options of every kind of model."""
        return {"n_features": self._space.width, "intercept": self.fit_intercept, "average": self.average}

    @property
    def _mutable_attributes(self) -> set[str]:
        return {"loss", *OF_UPDATE}

    def mutate(self, new_attrs: dict[str, Any]) -> None:
        """Change parameters of the update, in the middle of a stream.

        The weights stay; what has been learned about steps is forgotten. Nothing changes if there is an error.
        """
        with self._lock:
            self._mutate(new_attrs)

    def _mutate(self, new_attrs: dict[str, Any]) -> None:
        before = self.__dict__.copy()
        try:
            super().mutate(new_attrs)
            update = self._make_update()
            if update != self._update:
                self._update = update
                counts_unseen = self._new_learner().core.counts_unseen
                self._continue()
                self._space.counts_unseen = counts_unseen
        except BaseException:
            self.__dict__.update(before)
            raise

    @property
    def _raw_memory_usage(self) -> int:
        """Bytes it takes to store the model. River would walk into the compiled code that all models share."""
        return len(pickle.dumps(self))

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:  # names and weights of one moment
            return copy.deepcopy({name: value for name, value in self.__dict__.items() if name != "_lock"})

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = Lock()

    @property
    def rounds(self) -> int:
        """Rounds made: events learned from."""
        raise NotImplementedError

    def _continue(self) -> None:
        """Put a model with the update of today in the place of the one there is."""
        raise NotImplementedError

    # --- rows -------------------------------------------------------------------------------------

    def _round(self, model: Any, x: Any, y: Any, w: Any) -> Any:
        """One round, or an error and none; the model that goes on from it."""
        if model.core.fast_learn_dict(x, y, w, self._space) is not None:
            return model
        with calling_it(ONE_CALLED), self._space.transaction(learner=self):
            return self._taught(model, one_row(*self._space.encode_row(x)), AnyLabels([y]), [w])

    def _rounds(self, model: Any, frame: Frame, y: Any, w: Any) -> Any:
        """Learn from every row of a frame, one round each, and return the model, which may be a new one."""
        called = {"sample_weight[0]": "w"} if is_number(w) else MANY_CALLED
        with self._lock, calling_it(called), self._space.transaction(learner=self):
            chunk = self._space.encode_rows(frame)
            return self._taught(model, chunk, y, np.full(chunk.rows, w) if is_number(w) else w)

    def _taught(self, model: Any, chunk: Chunk, y: Any, w: Any) -> Any:
        """The model after a round per row of features that were taken in."""
        model.learn_chunk(chunk, y, w)
        return model

    def _scores_one(self, model: InnerModel, x: Any) -> Floats:
        """The score, or the scores, of one row, as an array of one row."""
        with self._lock:
            if isinstance(model, OneVsRest):
                return model.core.scores_of_dict(x, self._space)[None]
            return model.core.score_canonical(one_row(*self._space.read_row(x)))

    def _fast_score(self, learner: Learner, x: Any, predict: bool) -> float | None:
        """The score of one row by a learner of one score, or its prediction; None if it needs `_scores_one`."""
        core, space = learner.core, self._space
        z = core.engine.fast_path.score_dict(space.encoder.find, x, predict)  # type: ignore[union-attr]
        return core.fast_score_dict(x, space, predict=predict) if z is None else z

    def _scores_many(self, model: InnerModel, frame: Frame) -> Floats:
        """The scores of the rows of a frame."""
        with self._lock:
            return model.core.score_canonical(self._space.read(frame))

    def _named_weights(self, w: Floats) -> dict[Any, float]:
        """Weights that are not 0 by the names of their features, or by their numbers if these are hashes."""
        found = np.flatnonzero(w)
        names = self._space.names
        return {int(i) if names is None else names[i]: float(w[i]) for i in found}


class FIOLClassifier(LinearModel, base.MiniBatchClassifier):
    """A linear classifier for River that learns event by event with exact steps.

    Every round solves argmin_w loss(<x, w>; y) + penalty(w) + B(w, w_old) / eta; see `fiol.presets`. Features and
    classes may appear at any time: the model is exactly the one that knew them from the start. Labels are
    bool, of which there are two, or anything else, of which there may be any number, learned one against the
    rest for the work of one class more, or all at once, where the weights of a new class start at 0. They do so too in
    a model that began with bools, and meets another label.

    Parameters
    ----------
    loss
        "log_loss", "hinge", "squared_hinge", "exponential", a loss for numbers ("squared_error", ...) with targets -1
        and +1, or a `fiol.Loss`: one against the rest. "softmax", "crammer_singer" or a `fiol.JointLoss`: all at once.
    penalty, alpha, l1_ratio, algorithm, step_size, geometry, solver, average, positive, fit_intercept
        As in `fiol.FIOLClassifier`, scikit-learn's door. Nothing has to be scaled or tuned by default.
    bits
        Fold all features into 2**bits by hashing. By default there is room for all.

    Values are numbers; a text is part of the name: {"color": "red"} is {"color=red": 1}. `learn_many` gives exactly,
    to the bit, what `learn_one` gives for the same rows one by one.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from fiol.river import FIOLClassifier
    >>> evaluate.progressive_val_score(datasets.Phishing(), FIOLClassifier(), metrics.Accuracy())
    Accuracy: 88.71%

    Classes appear:

    >>> model = FIOLClassifier()
    >>> for color, fruit in [("red", "apple"), ("yellow", "banana"), ("green", "apple"), ("orange", "orange")]:
    ...     model.learn_one({"color": color}, fruit)
    >>> model.predict_one({"color": "yellow"}), model.classes
    ('banana', ['apple', 'banana', 'orange'])
    """

    # The default comes first.
    _losses: ClassVar[Mapping[str, Loss | JointLoss]] = {
        "log_loss": CLASSIFICATION["log_loss"],
        **CLASSIFICATION,
        **JOINT,
    }
    _loss_kinds = (Loss, JointLoss)

    def __init__(
        self,
        loss: Any = "log_loss",
        penalty: Any = None,
        alpha: float = 0.0001,
        l1_ratio: float | None = 0.15,
        algorithm: str = "FIOL",
        step_size: Any = "auto",
        geometry: Any = None,
        solver: Any = None,
        average: bool = False,
        positive: bool = False,
        fit_intercept: bool = True,
        bits: int | None = None,
    ) -> None:
        super().__init__(
            loss,
            penalty,
            alpha,
            l1_ratio,
            algorithm,
            step_size,
            geometry,
            solver,
            average,
            positive,
            fit_intercept,
            bits,
        )
        self._model: InnerModel | None = None
        #: Classes of the model without a row so far: one of False and True.
        self._unseen = set[bool]()

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({"_unseen": set[bool](), **state})

    @property
    def _multiclass(self) -> bool:
        return True

    # --- learning ---------------------------------------------------------------------------------

    def learn_one(self, x: dict[Any, Any], y: Any, w: float = 1.0) -> None:
        """One round with the features x, the label y and the weight w, which multiplies the loss."""
        with self._lock:
            model, pair = self._model, self._pair()
            if pair is not None and not self._unseen and (y is True or y is False):
                space, core = self._space, pair.core
                target, limit = 1.0 if y else -1.0, core.space.features
                z = core.engine.fast_path.learn_dict(space.encoder.find, x, target, w, limit)  # type: ignore[union-attr]
                if z is not None:
                    if not math.isfinite(z):
                        core.warn_if_score_not_finite(z)
                    return
            if model is None:
                with self._first(self._new_model(y)) as model:
                    self._model = self._round(model, x, y, w)
            else:
                self._model = self._round(model, x, y, w)
            self._unseen.discard(plain_label(y))

    def _pair(self) -> Learner | None:
        """The learner that tells False from True; None unless there is one."""
        model = self._model
        if type(model) is not OneVsRest or model.core.standby is not None:
            return None
        return model.core.learners[True]

    def learn_many(self, X: Any, y: Any, w: Any = 1.0) -> None:
        """One round for every row of a frame, in order. w is one weight, or one for each."""
        frame, labels = framed(X), as_list(y)
        if len(labels) != len(frame):
            raise ValueError(f"y must have one label per row: {len(frame)}, got {len(labels)}")
        with self._lock, self._noting(labels):
            if labels:
                with (
                    self._first(self._new_model(labels[0]))
                    if self._model is None
                    else nullcontext(self._model) as model
                ):
                    self._model = self._rounds(model, frame, AnyLabels(map(plain_label, labels)), w)
            self._y_name = series_name(y)

    @contextmanager
    def _noting(self, labels: list[Any]) -> Iterator[None]:
        """Take the labels of the rows that were learned from out of the classes not seen."""
        before = self.rounds
        try:
            yield
        finally:
            if self._unseen:
                self._unseen.difference_update(map(plain_label, labels[: self.rounds - before]))

    @contextmanager
    def _first(self, model: InnerModel) -> Iterator[InnerModel]:
        """A model to begin with, which stays if there was a round."""
        self._model, self._unseen = model, {False, True} if model.closed else set()
        try:
            yield model
        except BaseException:
            if not model.rounds:
                self._model, self._unseen = None, set()
            raise

    @property
    def rounds(self) -> int:
        return 0 if self._model is None else self._model.rounds

    def _taught(self, model: Any, chunk: Chunk, y: Any, w: Any) -> Any:
        """A round per row; the first label that is none of two given classes opens a copy of the model to others."""
        known = set(model.classes)
        new = next((k for k, label in enumerate(y) if label not in known), None) if model.closed else None
        if new is None:
            return super()._taught(model, chunk, y, w)
        model = model.copy()
        if new:
            model.learn_chunk(chunk.row_block(0, new), AnyLabels(y[:new]), w[:new])
        return super()._taught(model.opened(), chunk.row_block(new, chunk.rows), AnyLabels(y[new:]), w[new:])

    def _new_model(self, label: Any) -> InnerModel:
        """A model before its first round; a label that is a bool says which two there are."""
        classes = [False, True] if isinstance(label, (bool, np.bool_)) else None
        kind: Any = Learner if isinstance(self._update.loss, JointLoss) else OneVsRest
        return kind(self._update, classes=classes, **self._options())  # type: ignore[no-any-return]

    def _continue(self) -> None:
        old = self._model
        if old is None:
            return
        if isinstance(old.update.loss, JointLoss) != isinstance(self._update.loss, JointLoss):
            raise ValueError("loss must go on to learn all classes at once, or one against the rest, as it did")
        self._model = old.with_update(self._update)

    # --- predicting -------------------------------------------------------------------------------

    def predict_one(self, x: dict[Any, Any]) -> Any:  # type: ignore[override]
        """Return the class with the highest score among those seen; None before any label."""
        with self._lock:
            pair = self._pair()
            if pair is not None and not self._unseen:
                z = self._fast_score(pair, x, predict=False)
                if z is not None:
                    return z > 0.0
            if self._model is None:
                return None
            return self.classes[self._best(self._scores_one(self._model, x))[0]]

    def predict_proba_one(self, x: dict[Any, Any]) -> dict[Any, float]:  # type: ignore[override]
        """Return the probability of every class; NotImplementedError if the loss has none.

        Before any label the dict is empty, as with River's models for several classes. A first label that is a bool
        makes two classes, False and True.
        """
        if self._update.loss.link != "logit":
            self._has_probabilities()
        with self._lock:
            pair = self._pair()
            if pair is not None:
                yes = self._fast_score(pair, x, predict=True)
                if yes is not None:
                    return {False: 1.0 - yes, True: yes}
            if self._model is None:
                return {}
            p = self._probabilities(self._model, self._scores_one(self._model, x))
            return dict(zip(self.classes, p[0].tolist(), strict=True))

    def predict_many(self, X: Any) -> Any:
        """The class of every row, as a series; None before there is any."""
        frame = framed(X)
        if self._model is None:
            return series_like(frame, [None] * len(frame), self._y_name)
        with self._lock:
            classes, best = labels_like(frame, self.classes), self._best(self._scores_many(self._model, frame))
        return series_like(frame, [classes[code] for code in best], self._y_name)

    def predict_proba_many(self, X: Any) -> Any:
        """Return the probabilities of the classes for every row of a frame, as a frame with a column per class.

        Before any label there are no columns.
        """
        frame = framed(X)
        self._has_probabilities()
        if self._model is None:
            return frame_like(frame, {})
        with self._lock:
            p = self._probabilities(self._model, self._scores_many(self._model, frame))
            return frame_like(frame, dict(zip(self.classes, np.ascontiguousarray(p.T), strict=True)))

    def _best(self, scores: Floats) -> Any:
        """Return the position of the class with the highest score among those seen, for every row."""
        if self._unseen:
            scores = np.where([label in self._unseen for label in self.classes], -np.inf, scores)
        return scores.argmax(axis=1)

    def _has_probabilities(self) -> None:
        loss = self._update.loss
        if loss.link != "logit":
            raise NotImplementedError(f"{type(loss).__name__} has no probabilities: use loss='log_loss'")

    def _probabilities(self, model: InnerModel, scores: Floats) -> Floats:
        """The probabilities of every class, one row per row."""
        return model.core.probabilities(scores) if isinstance(model, OneVsRest) else model.core.predictions(scores)

    # --- the model --------------------------------------------------------------------------------

    @property
    def model(self) -> InnerModel | None:
        """The `fiol.OneVsRest`, or the `fiol.Learner` of all classes at once; None before the first round."""
        return self._model

    @property
    def classes(self) -> list[Any]:
        """The classes that have appeared, in this order."""
        return [] if self._model is None else list(self._model.classes or ())

    @property
    def learners(self) -> dict[Any, Learner]:
        """The `fiol.Learner` of every class, or that of True; none where all classes are learned at once."""
        return self._model.learners if isinstance(self._model, OneVsRest) else {}

    @property
    def weights(self) -> dict[Any, dict[Any, float]]:
        """For every class, or True, the weights that are not 0 by feature."""
        with self._lock:
            model = self._model
            if model is not None and not isinstance(model, OneVsRest):
                return dict(zip(self.classes, map(self._named_weights, model.weights), strict=True))
            return {label: self._named_weights(learner.weights) for label, learner in self.learners.items()}

    @property
    def intercept(self) -> dict[Any, float]:
        """The intercept of every class, or that of True."""
        with self._lock:
            model = self._model
            if model is not None and not isinstance(model, OneVsRest):
                return dict(zip(self.classes, model.intercept.tolist(), strict=True))
            return {label: learner.intercept for label, learner in self.learners.items()}


class FIOLRegressor(LinearModel, base.MiniBatchRegressor):
    """A linear regression for River that learns event by event with exact steps.

    Every round solves argmin_w loss(<x, w>; y) + penalty(w) + B(w, w_old) / eta; see `fiol.presets`. Features may
    appear at any time.

    Parameters
    ----------
    loss
        "squared_error", "absolute_error", "huber", "quantile", "epsilon_insensitive", "squared_epsilon_insensitive",
        "poisson" (for counts: predicts exp(score)), or a `fiol.Loss`, such as `fiol.Quantile(0.9)`.
    penalty, alpha, l1_ratio, algorithm, step_size, geometry, solver, average, positive, fit_intercept
        As in `fiol.FIOLRegressor`, scikit-learn's door. Nothing has to be scaled or tuned by default.
    bits
        Fold all features into 2**bits by hashing. By default there is room for all.

    Values are numbers; a text is part of the name: {"color": "red"} is {"color=red": 1}. `learn_many` gives exactly,
    to the bit, what `learn_one` gives for the same rows one by one.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from fiol.river import FIOLRegressor
    >>> mae = evaluate.progressive_val_score(datasets.TrumpApproval(), FIOLRegressor(), metrics.MAE())
    >>> round(mae.get(), 2)
    0.28
    """

    _losses = REGRESSION

    def __init__(
        self,
        loss: Any = "squared_error",
        penalty: Any = None,
        alpha: float = 0.0001,
        l1_ratio: float | None = 0.15,
        algorithm: str = "FIOL",
        step_size: Any = "auto",
        geometry: Any = None,
        solver: Any = None,
        average: bool = False,
        positive: bool = False,
        fit_intercept: bool = True,
        bits: int | None = None,
    ) -> None:
        super().__init__(
            loss,
            penalty,
            alpha,
            l1_ratio,
            algorithm,
            step_size,
            geometry,
            solver,
            average,
            positive,
            fit_intercept,
            bits,
        )
        self._learner = self._new_learner()

    def learn_one(self, x: dict[Any, Any], y: float, w: float = 1.0) -> None:
        """One round with the features x, the target y and the weight w, which multiplies the loss."""
        with self._lock:
            learner, space = self._learner, self._space
            core = learner.core
            z = core.engine.fast_path.learn_dict(space.encoder.find, x, y, w, core.space.features)  # type: ignore[union-attr]
            if z is None:
                self._round(learner, x, y, w)
            elif not math.isfinite(z):
                core.warn_if_score_not_finite(z)

    @property
    def rounds(self) -> int:
        return self._learner.rounds

    def learn_many(self, X: Any, y: Any, w: Any = 1.0) -> None:
        """One round for every row of a frame, in order. w is one weight, or one for each."""
        self._rounds(self._learner, framed(X), y, w)
        self._y_name = series_name(y)

    def _continue(self) -> None:
        self._learner = self._learner.with_update(self._update)

    def predict_one(self, x: dict[Any, Any]) -> float:
        """The predicted target: the score, or exp(score) for counts."""
        with self._lock:
            core = self._learner.core
            found = self._fast_score(self._learner, x, predict=True)
            return float(core.predictions(self._scores_one(self._learner, x))[0]) if found is None else found

    def predict_many(self, X: Any) -> Any:
        """Return the predicted targets of the rows of a frame, as a series."""
        frame = framed(X)
        scores = self._scores_many(self._learner, frame)
        return series_like(frame, self._learner.core.predictions(scores), self._y_name)

    @property
    def learner(self) -> Learner:
        """The `fiol.Learner`."""
        return self._learner

    @property
    def weights(self) -> dict[Any, float]:
        """The weights that are not 0, by feature."""
        with self._lock:
            return self._named_weights(self._learner.weights)

    @property
    def intercept(self) -> float:
        """The intercept."""
        with self._lock:
            return float(self._learner.intercept)


# --- rows ---------------------------------------------------------------------------------------


def framed(X: Any) -> Frame:
    """X as a frame; TypeError if it is none."""
    frame = as_frame(X)
    if frame is None:
        known = converted(X)
        if known is not X:
            name, got = type(X).__name__, type(known).__name__
            raise TypeError(f"X: {name} is registered: its conversion must give a frame here, got {got}")
        raise TypeError(f"X must be a pandas or polars frame or an Arrow table, got {type(X).__name__}{eager(X)}")
    return frame


# --- parameters ---------------------------------------------------------------------------------


def is_number(value: Any) -> bool:
    """Whether a value is a number, and not True or False."""
    return isinstance(value, Real) and not isinstance(value, bool)


def check_choice(name: str, value: Any, known: tuple[str, ...], kinds: tuple[type, ...], number: bool = False) -> None:
    """ValueError unless a parameter is a known name, a component of the right kind, or, if it may be, a number."""
    if (isinstance(value, str) and canonical_name(value, known)) or isinstance(value, kinds):
        return
    if number and is_number(value):
        return
    other = (", a number" if number else "") + ("".join(f", or a fiol.{kind.__name__}" for kind in kinds[:1]))
    raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}{other}; got {value!r}")


def check_in_range(name: str, value: Any, low: float, high: float) -> None:
    """ValueError unless a parameter is a number in a range."""
    if not (is_number(value) and low <= value <= high):
        wanted = f"at least {low:g}" if high == np.inf else f"from {low:g} to {high:g}"
        raise ValueError(f"{name} must be a number {wanted}, got {value!r}")


@contextmanager
def calling_it(names: Mapping[str, str]) -> Iterator[None]:
    """Let an error that begins with one of these names call it as the caller does.

    >>> with calling_it({"sample_weight[0]": "w"}):
    ...     raise ValueError("sample_weight[0] is missing")
    Traceback (most recent call last):
    ValueError: w is missing
    """
    try:
        yield
    except (TypeError, ValueError) as error:
        text = str(error)
        name = next((name for name in names if text.startswith(name)), None)
        if name is not None:
            error.args = (names[name] + text[len(name) :],)
        raise
