"""`FIOLClassifier`, a classifier for scikit-learn."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

try:
    from sklearn.base import ClassifierMixin
except ImportError as error:
    raise ImportError("fiol.FIOLClassifier needs scikit-learn: pip install fiol[sklearn]") from error
from joblib import effective_n_jobs
from scipy import special
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import unique_labels
from sklearn.utils.parallel import Parallel, delayed

from fiol.components.joint_losses import JointLoss, Softmax
from fiol.components.losses import Logistic, Loss
from fiol.components.row import Floats
from fiol.features.chunk import HEAVIEST
from fiol.features.containers import to_chunk
from fiol.features.frames import Frame
from fiol.features.labels import AnyLabels, sorted_codes
from fiol.features.table_rows import refuse_absent_columns
from fiol.features.targets import check_range
from fiol.integrations.estimators import LinearEstimator
from fiol.integrations.fitting import accuracy, continued
from fiol.integrations.validation import (
    THREADS,
    NameOptions,
    all_or_nothing,
    check_labels,
    class_weights,
    is_event,
    one_array,
    unless_refused,
    validate_data,
)
from fiol.learner import Learner
from fiol.models.one_vs_rest import OneVsRest
from fiol.models.one_vs_rest_core import normalized
from fiol.names import CLASSIFICATION, JOINT, algorithm_named, component_named, penalty_named


@dataclass(eq=False, repr=False)
class FIOLClassifier(ClassifierMixin, LinearEstimator):  # type: ignore[misc]
    """A linear classifier that learns row by row with exact steps.

    Every round solves argmin_w loss(<x, w>; y) + penalty(w) + B(w, w_old) / eta; see `fiol.presets`.

    Parameters
    ----------
    loss : "log_loss", "hinge", "squared_hinge", "exponential", a loss for numbers ("squared_error", ...) with targets
        -1 and +1, or a `fiol.Loss`: classes are learned one against the rest. "softmax", "crammer_singer" or a
        `fiol.JointLoss`: all classes at once, with any penalty by the algorithms that linearize the loss, by the others
        without one or with a ridge. "auto" is softmax where three classes or more are known from the start and no other
        parameter of the update but a penalty "l2" and the step size is given, otherwise log_loss.
    {parameters}
    class_weight : None, "balanced" or a dict: the weight of every row is multiplied by that of its class.
    n_jobs : the number of threads for classes that are learned one against the rest: None is 1, -1 all processors. It
        does not change the model. Two classes, and losses for all classes at once, are learned by one thread.

    Notes
    -----
    `fit` with one pass and no shuffling, `partial_fit` in chunks of any size and `fiol.Learner.learn` give the
    same weights to the bit; for more than two classes if the loss is named, or the first `partial_fit` names the
    classes, as "auto" may choose another loss otherwise. `partial_fit` reads the parameters in its first call.

    After `fit` the set of classes is closed: `partial_fit` refuses labels that `fit` has not seen.
    If the first `partial_fit` names no `classes`, new ones may appear at any time. One against the rest, the model is
    exactly the one that had them from the start, for the work of two more classes: a learner for which every row was
    negative becomes that of the next class. Where all classes are learned at once, the weights of a new one start at 0.

    Attributes
    ----------
    coef_, intercept_ : weights of shape (1, n_features) for two classes, otherwise (n_classes, n_features); intercepts.
    classes_, n_features_in_, feature_names_in_ : labels, and what is known of the columns.
    n_iter_, t_, loss_curve_ : passes made, rows learned from plus 1, mean progressive loss of every pass.
    learners_ : the `fiol.Learner` of every class, or the one that separates two classes.

    Examples
    --------
    >>> from fiol import FIOLClassifier
    >>> model = FIOLClassifier(max_iter=1, shuffle=False).fit([[1.0], [2.0], [-1.0]], ["yes", "yes", "no"])
    >>> model.predict([[3.0], [-3.0]])
    array(['yes', 'no'], dtype='<U3')
    >>> model.partial_fit([[4.0]], ["yes"]).t_
    5.0
    """

    loss: Any = "auto"
    class_weight: Any = field(default=None, kw_only=True)
    n_jobs: int | None = field(default=None, kw_only=True)
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearEstimator._parameter_constraints,
        "loss": [StrOptions({"auto"}), NameOptions({**CLASSIFICATION, **JOINT}), Loss, JointLoss],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "n_jobs": THREADS,
    }
    _kind = "classifier"
    _model: OneVsRest | Learner = field(init=False)

    def _inside(self) -> OneVsRest | Learner:
        return self._model

    def _go_on_with(self, model: OneVsRest | Learner) -> None:
        self._model = model

    def _loss(self) -> Any:
        if isinstance(self.loss, str) and self.loss == "auto":
            plain = algorithm_named(self.algorithm) == "FIOL" and no_l1(self.penalty)
            plain = plain and not (self.positive or self.average)
            plain = plain and self.geometry is None and self.solver is None and self.record_every is None
            many = getattr(self, "_closed", False) and len(self.classes_) > 2
            return Softmax() if many and plain else Logistic()
        return component_named(self.loss, {**CLASSIFICATION, **JOINT})

    # --- learning ---------------------------------------------------------------------------------

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> FIOLClassifier:
        """Learn from the rows until nothing improves, or `max_iter` times, from the start unless `warm_start`.

        X is an array, a scipy sparse matrix or a frame; y has one label per row; sample_weight multiplies the loss.
        """
        self._validate_params()
        again = self._goes_on()
        with unless_refused(self):
            frame = self._frame_to_code(X, first=not again)
            if frame is None:
                X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, reset=not again)
            else:
                X, y = self._coded_data(frame, y, not again)
            chunk, sample_weights = to_chunk(X), self._sample_weights(sample_weight, X)
            classes, codes = sorted_codes(y)
            check_labels(classes)
            if len(classes) < 2:
                raise ValueError(f"y must have at least two classes, got {len(classes)} class: {classes.tolist()[0]!r}")
            if again and not np.array_equal(classes, self.classes_):
                raise ValueError(
                    f"with warm_start, y must have the classes of the last fit, {self.classes_}; got {classes}"
                )
            self._set_classes(classes, closed=True)
            if self.class_weight == "balanced":
                self._class_weights = compute_class_weight("balanced", classes=classes, y=y)
            sample_weights = self._weighted(sample_weights, codes)
            held_out = self._held_out(codes, sample_weights, StratifiedShuffleSplit)
            new = self._new_model(frame is not None)
            if frame is not None:
                chunk = self._taken_in(frame, self._model if again else None, new)
            self._model = continued(self._model, new) if again else new
            if not again:
                self._begin()
        self._run(chunk, self._tasks(codes), sample_weights, held_out, accuracy)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> FIOLClassifier:
        """Learn one round per row, in order. `classes`, if given in the first call, are all classes there will be.

        One row of a scipy CSR matrix costs a few microseconds, however many features there are.
        """
        if classes is None and hasattr(self, "learners_") and self._plain(X):
            try:
                return self._learn(X, y, sample_weight)
            except (KeyError, TypeError, ValueError):  # nothing has been learned; scikit-learn may have its own words
                pass
        first = not hasattr(self, "learners_")
        if first:
            self._first_checks()
            if isinstance(self.class_weight, str):
                raise ValueError(
                    'class_weight="balanced" needs all rows: use compute_class_weight("balanced", classes=..., y=...) '
                    "on a sample and pass the weights as a dict"
                )
        with unless_refused(self) if first else nullcontext():
            frame = self._frame_to_code(X, first)
            if frame is None:
                X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, reset=first)
            else:
                X, y = self._coded_data(frame, y, first)
            if first:
                closed = classes is not None
                classes = unique_labels(classes) if closed else np.unique(y)
                check_labels(classes)
                if closed and len(classes) < 2:
                    raise ValueError(f"classes must name at least two classes, got {len(classes)} class")
                self._set_classes(classes, closed)
                new = self._new_model(frame is not None)
                self._begin()
                self._model = new
            elif classes is not None and not np.array_equal(self.classes_, unique_labels(classes)):
                raise ValueError(f"classes must be those of the first call, {self.classes_}, got {classes!r}")
            return self._learn(X, y, sample_weight, frame)

    def _learn(self, X: Any, y: Any, sample_weight: Any, frame: Any = None) -> FIOLClassifier:
        """Learn one round per row for every learner; an error is raised before the first round and changes nothing."""
        if is_event(X, y, sample_weight) and self._learn_event(X, y[0], sample_weight):
            return self
        with unless_refused(self):
            if frame is None:
                chunk = to_chunk(X, n_features=self.n_features_in_)
            else:
                if isinstance(frame, Frame):  # dicts may lack columns: these are missing values
                    refuse_absent_columns(self._inside().table_encoding, frame)
                chunk = self._inside().core.read_rows(frame)
            sample_weights = self._sample_weights(sample_weight, X, online=True)
            codes = self._codes(one_array(y, chunk.rows))
            sample_weights = self._weighted(sample_weights, codes)
        model, classes = self._model, AnyLabels(self.classes_.tolist())
        model.add_classes(classes)  # also those that the chunk has further down
        if isinstance(model, OneVsRest):
            model.core.arrange(classes)
        else:
            labels = AnyLabels(classes[code] for code in codes)
            self._coef = None  # also if an interrupt comes
            if frame is None:
                scores = model.learn_chunk(chunk, labels, sample_weights)
            else:
                scores = model.learn(frame.native if isinstance(frame, Frame) else frame, labels, sample_weights)
            self._note([model.core.mean_loss(scores, model.core.codes_of(labels), sample_weights)])
            return self
        self._coef = None  # also if an interrupt comes
        with model.core.transaction():
            chunk = chunk if frame is None else model.core.encode_rows(frame)
            found, tasks = (
                model.core.learn_each(chunk, codes, sample_weights, self._map),
                model.core.targets_of_rows(codes),
            )
            model.core.warn_if_not_finite(np.column_stack(found))
        losses = [one.core.mean_loss(scores, y, sample_weights) for (one, y), scores in zip(tasks, found, strict=True)]
        self._note(losses[: len(self.learners_)])
        return self

    def _learn_event(self, X: Any, label: Any, sample_weight: Any) -> bool:
        """Learn one sparse row whose label is known; return False, without a round, for any other input."""
        rest = self._model
        if not isinstance(rest, OneVsRest) or label not in rest.core.labels.codes:
            return False
        weight = 1.0 if sample_weight is None else float(sample_weight[0])
        if self._class_weights is not None:
            weight *= self._class_weights[rest.core.labels.codes[label]]
        loss: Any = rest.update.loss
        losses = [
            loss.value(learner.learn_one(X.indices, X.data, target, weight), target)
            for learner, target in rest.core.targets_of(label)
        ]
        self._note(losses[: len(rest.learners)])
        return True

    # --- classes ----------------------------------------------------------------------------------

    @property
    def learners_(self) -> list[Any]:
        """The `fiol.Learner` of every class, or that of the second, or the one of all classes at once."""
        model = self._model
        return list(model.learners.values()) if isinstance(model, OneVsRest) else [model]

    def _set_classes(self, classes: Any, closed: bool) -> None:
        """Fix the classes, and the weights that a dict gives them."""
        weights = None
        if isinstance(self.class_weight, dict):
            weights = np.array(class_weights(self.class_weight, classes.tolist(), closed), np.float64)
        self.classes_, self._closed, self._class_weights = classes, closed, weights

    def _codes(self, y: Any) -> Any:
        """Return the place in `classes_` of every label; add new labels to `classes_` if classes may be added."""
        old, alike = self.classes_, (y.dtype.kind in "OUS") == (self.classes_.dtype.kind in "OUS")
        classes, codes = sorted_codes(y, old) if alike else (np.unique(y), None)  # words are no numbers
        if classes is old:
            return codes
        new = np.setdiff1d(classes, old) if alike else classes
        if self._closed or not alike:
            why = " (fit, or classes=, has fixed them; start with partial_fit without classes to keep them open)"
            raise ValueError(
                f"y has labels that are no classes: {new.tolist()}; the classes are {old.tolist()}" + why * self._closed
            )
        check_labels(new)
        self._set_classes(classes, closed=False)
        return codes

    def _new_model(self, coded: bool) -> OneVsRest | Learner:
        """Return a new model that separates the classes, one against the rest or all at once."""
        loss, options = self._loss(), self._options(coded)
        options["classes"] = AnyLabels(self.classes_.tolist()) if self._closed else None
        if isinstance(loss, JointLoss):
            for name in ("solver", "record_every"):
                if getattr(self, name) is not None:
                    raise ValueError(f"{type(loss).__name__} has no use for {name}={getattr(self, name)!r}")
            try:
                joint = Learner(self._update(), **options)
                self._name_columns(joint, coded)
                return joint
            except TypeError as error:
                if no_l1(self.penalty) and not self.positive:
                    raise
                one = "log_loss" if loss.link == "logit" else "hinge"
                hint = f'(algorithm="COMID" has it): use penalty=None or "l2", or loss="{one}"'
                raise TypeError(f"{error} {hint}") from error
        new = OneVsRest(self._update(), **options)
        self._name_columns(new, coded)
        if not self._closed:
            new.add_classes(self.classes_.tolist())
        for learner in new.learners.values():
            self._keep_account(learner)
        return new

    def _tasks(self, codes: Any) -> list[tuple[Any, Any]]:
        """Return every learner with its targets."""
        model = self._model
        return (
            model.core.targets_of_rows(codes) if isinstance(model, OneVsRest) else [(model, self._places(model)[codes])]
        )

    def _places(self, learner: Learner) -> Any:
        """Return the score column of every class of `classes_`; a model of all classes has the order of appearance."""
        return learner.core.codes_of(self.classes_)

    def _weighted(self, sample_weights: Floats, codes: Any) -> Floats:
        """Return the sample weights times the weights of the rows' classes."""
        if self._class_weights is None:
            return sample_weights
        sample_weights = sample_weights * self._class_weights[codes]
        check_range("class_weight times sample_weight", sample_weights, 0.0, HEAVIEST, f"at most {HEAVIEST:g}")
        return sample_weights

    # --- predicting -------------------------------------------------------------------------------

    def _scorers(self) -> list[Learner]:
        return self.learners_[1:] if len(self.learners_) == 2 else self.learners_

    def decision_function(self, X: Any) -> Floats:
        """Scores X @ coef_.T + intercept_: of the second class for two, of shape (n_rows, n_classes) for more."""
        return self._read(X, self._scores)

    def _map(self, work: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        """Return the results of the work for all items, in as many threads as n_jobs says."""
        items = list(items)
        if len(items) == 1 or effective_n_jobs(self.n_jobs) == 1:
            return [work(item) for item in items]
        return Parallel(n_jobs=self.n_jobs, require="sharedmem")(delayed(work)(item) for item in items)

    def _scores(self, X: Any) -> Floats:
        chunk = self._chunk(X)
        model = self._model
        if not isinstance(model, OneVsRest):
            scores = model.core.score_canonical(chunk)[:, self._places(model)]
            return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else np.ascontiguousarray(scores)
        found = self._map(lambda learner: learner.scores(chunk), self._scorers())
        return found[0] if len(found) == 1 else np.column_stack(found)

    def predict(self, X: Any) -> Any:
        """Return the class of every row: that of the highest score."""
        scores = self.decision_function(X)
        if len(self.classes_) == 1:
            return np.repeat(self.classes_, len(scores))
        return self.classes_[(scores > 0.0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]

    def _has_probabilities(self) -> bool:
        """AttributeError unless scores are log-odds."""
        loss = self._fitted_loss()
        if loss.link == "logit":
            return True
        raise AttributeError(
            f"{type(loss).__name__} has no probabilities: use loss='log_loss', or calibrate the scores with "
            "sklearn.calibration.CalibratedClassifierCV"
        )

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Floats:
        """The probability of every class, in the order of `classes_`; those of one against the rest are divided by
        their sum.
        """
        scores = self.decision_function(X)
        if len(self.classes_) == 1:
            return np.ones((len(scores), 1))
        if not isinstance(self._model, OneVsRest):
            p = special.expit(scores) if scores.ndim == 1 else special.softmax(scores, axis=1)
        else:
            p = self.learners_[0].core.predictions(np.array(scores, order="C").ravel()).reshape(scores.shape)
        if p.ndim == 1:
            return np.column_stack([1.0 - p, p])
        return normalized(p)

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Floats:
        """Return the logarithm of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def _read_weights(self) -> tuple[Floats, Floats]:
        model = self._model
        if isinstance(model, OneVsRest):
            return super()._read_weights()
        places = self._places(model)
        w, b = model.weights[places], model.intercept[places]
        return (w[1:] - w[:1], b[1:] - b[:1]) if len(w) == 2 else (w, b)

    @property
    def coef_(self) -> Any:
        """Weights, exactly up to date: one row for two classes, otherwise one per class."""
        return self._weights_and_intercepts()[0]

    @property
    def intercept_(self) -> Any:
        """Intercepts: one for two classes, otherwise one per class."""
        return self._weights_and_intercepts()[1]


def no_l1(penalty: Any) -> bool:
    """Return whether a penalty is none or "l2" by any of its names."""
    return penalty is None or (isinstance(penalty, str) and not penalty_named(penalty).has_l1())
