"""River's view of a learner: `FIOLClassifier` and `FIOLRegressor` (see `fiol.integrations.river_model`)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

try:
    from river import base
except ImportError as error:
    raise ImportError("fiol.river needs River: pip install fiol[river]") from error

from fiol.components.joint_losses import JointLoss
from fiol.components.losses import Loss
from fiol.components.row import Floats
from fiol.features.chunk import Chunk
from fiol.features.frames import as_list, frame_like, labels_like, series_like, series_name
from fiol.features.labels import AnyLabels, labels_of_rows, plain_label
from fiol.integrations.river_model import InnerModel, LinearModel, framed
from fiol.learner import Learner
from fiol.models.one_vs_rest import OneVsRest
from fiol.names import CLASSIFICATION, JOINT, REGRESSION


@dataclass(eq=False, repr=False)
class FIOLClassifier(LinearModel, base.MiniBatchClassifier):
    """A linear classifier for River that learns event by event with exact steps.

    Every round solves argmin_w loss(<x, w>; y) + penalty(w) + B(w, w_old) / eta; see `fiol.presets`. Features and
    classes may appear at any time: the model is the same as if they had been declared at the start. Labels are
    False and True, or any number of others, which are learned one against the rest, for the work of one more class, or
    all at once, where the weights of a new class start at 0. They start at 0 as well if a label that is no bool
    appears after bools.

    Parameters
    ----------
    loss
        "log_loss", "hinge", "squared_hinge", "exponential", a loss for numbers ("squared_error", ...) with targets -1
        and +1, or a `fiol.Loss`: one against the rest. "softmax", "crammer_singer" or a `fiol.JointLoss`: all at once.
    {parameters}

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from fiol.river import FIOLClassifier
    >>> evaluate.progressive_val_score(datasets.Phishing(), FIOLClassifier(), metrics.Accuracy())
    Accuracy: 89.19%

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

    loss: Any = "log_loss"

    def __post_init__(self) -> None:
        super().__post_init__()
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
        """Learn from the features x, the label y and the weight w, which multiplies the loss."""
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
        """Return the learner that separates False from True; None unless there is one."""
        model = self._model
        if type(model) is not OneVsRest or model.core.standby is not None:
            return None
        return model.core.learners[True]

    def learn_many(self, X: Any, y: Any, w: Any = 1.0) -> None:
        """Learn from every row of a frame, in order. w is one weight, or one for each row."""
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
        """Remove the labels of the rows that were learned from from the unseen classes."""
        before = self.rounds
        try:
            yield
        finally:
            if self._unseen:
                self._unseen.difference_update(map(plain_label, labels[: self.rounds - before]))

    @contextmanager
    def _first(self, model: InnerModel) -> Iterator[InnerModel]:
        """Install a first model, and remove it again if no round was made."""
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

    def _learn_chunk(self, model: Any, chunk: Chunk, y: Any, w: Any) -> Any:
        """Make a round per row; the first label that is none of two given classes opens a copy of the model."""
        known, y = set(model.classes), AnyLabels(labels_of_rows(y, None))
        new = next((k for k, label in enumerate(y) if label not in known), None) if model.closed else None
        if new is None:
            return super()._learn_chunk(model, chunk, y, w)
        model = model.copy()
        if new:
            model.learn_chunk(chunk.row_block(0, new), AnyLabels(y[:new]), w[:new])
        return super()._learn_chunk(model.opened(), chunk.row_block(new, chunk.rows), AnyLabels(y[new:]), w[new:])

    def _new_model(self, label: Any) -> InnerModel:
        """Return a model before its first round; its classes are False and True if the label is a bool."""
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
        """Return the class of every row, as a series; None before any label."""
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
        """Return the probabilities of every class, one row per row."""
        return model.core.probabilities(scores) if isinstance(model, OneVsRest) else model.core.predictions(scores)

    # --- the model --------------------------------------------------------------------------------

    @property
    def model(self) -> InnerModel | None:
        """The `fiol.OneVsRest`, or the `fiol.Learner` of all classes at once; None before the first round."""
        return self._model

    def _inner_model(self) -> InnerModel | None:
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
                return {c: self._named_weights(model, w) for c, w in zip(self.classes, model.weights, strict=True)}
            return {label: self._named_weights(learner, learner.weights) for label, learner in self.learners.items()}

    @property
    def intercept(self) -> dict[Any, float]:
        """The intercept of every class, or that of True."""
        with self._lock:
            model = self._model
            if model is not None and not isinstance(model, OneVsRest):
                return dict(zip(self.classes, model.intercept.tolist(), strict=True))
            return {label: learner.intercept for label, learner in self.learners.items()}


@dataclass(eq=False, repr=False)
class FIOLRegressor(LinearModel, base.MiniBatchRegressor):
    """A linear regression for River that learns event by event with exact steps.

    Every round solves argmin_w loss(<x, w>; y) + penalty(w) + B(w, w_old) / eta; see `fiol.presets`. Features may
    appear at any time.

    Parameters
    ----------
    loss
        "squared_error", "absolute_error", "huber", "quantile", "epsilon_insensitive", "squared_epsilon_insensitive",
        "poisson" (for counts: predicts exp(score)), or a `fiol.Loss`, such as `fiol.Quantile(0.9)`.
    {parameters}

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from fiol.river import FIOLRegressor
    >>> mae = evaluate.progressive_val_score(datasets.TrumpApproval(), FIOLRegressor(), metrics.MAE())
    >>> round(mae.get(), 2)
    0.22
    """

    _losses = REGRESSION

    loss: Any = "squared_error"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._learner = self._new_learner()

    def learn_one(self, x: dict[Any, Any], y: float, w: float = 1.0) -> None:
        """Learn from the features x, the target y and the weight w, which multiplies the loss."""
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
        """Learn from every row of a frame, in order. w is one weight, or one for each row."""
        self._rounds(self._learner, framed(X), y, w)
        self._y_name = series_name(y)

    def _continue(self) -> None:
        self._learner = self._learner.with_update(self._update)

    def predict_one(self, x: dict[Any, Any]) -> float:
        """Return the predicted target: the score, or exp(score) for counts."""
        with self._lock:
            core = self._learner.core
            found = self._fast_score(self._learner, x, predict=True)
            return float(core.predictions(self._scores_one(self._learner, x))[0]) if found is None else found

    def predict_many(self, X: Any) -> Any:
        """Return the predicted targets of the rows of a frame, as a series."""
        frame = framed(X)
        scores = self._scores_many(self._learner, frame)
        return series_like(frame, self._learner.core.predictions(scores), self._y_name)

    def _inner_model(self) -> InnerModel | None:
        return self._learner

    @property
    def learner(self) -> Learner:
        """The `fiol.Learner`."""
        return self._learner

    @property
    def weights(self) -> dict[Any, float]:
        """The weights that are not 0, by feature."""
        with self._lock:
            return self._named_weights(self._learner, self._learner.weights)

    @property
    def intercept(self) -> float:
        """The intercept."""
        with self._lock:
            return float(self._learner.intercept)
