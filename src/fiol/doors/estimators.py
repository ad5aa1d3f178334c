"""scikit-learn's view of a learner: `FIOLClassifier` and `FIOLRegressor`.

No mathematics of its own: parameters become a preset (`fiol.presets`), rows a chunk, and `fiol.Learner` does the rest.
Needs scikit-learn, the extra `fiol[sklearn]`.
"""

from __future__ import annotations

import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
except ImportError as error:
    raise ImportError("fiol.FIOLClassifier needs scikit-learn: pip install fiol[sklearn]") from error
from joblib import effective_n_jobs
from scipy import sparse, special
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit
from sklearn.utils import check_random_state, validation
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from fiol.components.geometries import Geometry
from fiol.components.joint_losses import JointLoss, Softmax
from fiol.components.losses import Logistic, Loss
from fiol.components.regularizers import Regularizer, Ridge, Unregularized
from fiol.components.row import Floats
from fiol.components.solvers import Solver
from fiol.components.step_sizes import StepSize
from fiol.doors.parameters import (
    ALGORITHMS,
    CLASSIFICATION,
    GEOMETRIES,
    JOINT,
    PENALTIES,
    REGRESSION,
    SOLVERS,
    STEP_SIZES,
    make_regularizer,
    make_step_size,
    make_update,
    named,
)
from fiol.engine.engine import IN_ORDER
from fiol.intake.chunk import HEAVIEST, Chunk
from fiol.intake.containers import to_chunk
from fiol.intake.labels import sorted_codes
from fiol.intake.targets import check_range, check_sample_weights, check_targets
from fiol.learner import Learner
from fiol.models.epochs import Course, Stopping, run
from fiol.models.joint import JointLearner
from fiol.models.one_vs_rest import OneVsRest, normalized
from fiol.regret import Ledger
from fiol.update.update import Update


def validate_data(estimator: Any, X: Any, y: Any = "no_validation", **options: Any) -> Any:
    """scikit-learn's checks of X and y, and what they say about the features."""
    if hasattr(estimator, "_validate_data"):  # scikit-learn < 1.6
        return estimator._validate_data(X, y, **options)
    return validation.validate_data(estimator, X, y, **options)


#: Rows that need no conversion.
CSR = tuple(getattr(sparse, name) for name in ("csr_matrix", "csr_array") if hasattr(sparse, name))
LARGEST_SEED = np.iinfo(np.int32).max
#: So many entries of `loss_curve_` are kept: a stream of single events must not fill the memory.
CURVE = 100_000
#: What scikit-learn's estimators that make passes over rows have in common, and what it may be.
OF_PASSES: dict[str, list[Any]] = {
    "fit_intercept": ["boolean"],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "tol": [Interval(Real, 0, None, closed="left"), None],
    "early_stopping": ["boolean"],
    "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
    "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
    "shuffle": ["boolean"],
    "random_state": ["random_state"],
    "warm_start": ["boolean"],
    "verbose": ["verbose"],
}

#: What n_jobs may be.
THREADS: list[Any] = [Interval(Integral, None, -1, closed="right"), Interval(Integral, 1, None, closed="left"), None]

PARAMETERS = """
    penalty : None, "l1", "l2", "elasticnet", or a `fiol.Regularizer`
        What is added to the loss of every row: alpha (l1_ratio abs(w) + (1 - l1_ratio) w^2 / 2) for the elastic net,
        l1_ratio 1 for "l1" and 0 for "l2". Absent features are shrunk too, exactly. The intercept is not penalised.
    alpha : float, by default 0.0001
        Strength of a penalty given by name. Without a penalty it has no effect.
    l1_ratio : float from 0 to 1, by default 0.15
        The share of l1 in "elasticnet"; no effect elsewhere.
    algorithm : name of a preset, "FIOL" by default: "SGD", "PA", "PA1", "PA2", "IOL", "COMID", "RDA", "ISGD",
        "FTRLProximal", "ImplicitFTRL" (see `fiol.presets`).
    step_size : "auto" (what the preset prefers; for FIOL steps that need no tuning), "scale_free", "adagrad",
        "inverse_sqrt", a number (constant steps of that size; the aggressiveness of PA1 and PA2), or a
        `fiol.StepSize`.
    geometry : None (Euclidean), "euclidean", "entropy", "signed_entropy", "simplex", or a `fiol.Geometry`.
    solver : None (the fastest), "newton", "closed_form", "bisection", "sorting", "partition", or a `fiol.Solver`.
    average : predict with the average of the weights over all rounds.
    positive : keep the weights at 0 or above.
    fit_intercept : whether there is an intercept.
    max_iter : most passes over the rows that `fit` makes.
    tol : `fit` stops once n_iter_no_change passes in a row did not improve by tol: the loss of rows before they are
        learned from, or the score on held-out rows. None makes max_iter passes.
    early_stopping, validation_fraction, n_iter_no_change : whether `fit` holds out a part of the rows to decide when
        to stop, how much, and how many passes it waits.
    shuffle : whether `fit` shuffles the rows before every pass, for the regressor into the order that scikit-learn's
        `SGDRegressor` gives them (its classifiers draw their seeds otherwise). `partial_fit` takes rows in their order.
    random_state : None (another order every time), an int, or a `numpy.random.RandomState`
        Seed of shuffling and holding out.
    warm_start : `fit` goes on from where the last one ended, with what has been learned about steps as well if no
        parameter of the update has changed.
    record_every : keep an account of every round (`fiol.regret.Ledger`) in `ledgers_`, recorded every so many rounds.
    verbose : print a line per pass of `fit`; `partial_fit` prints nothing."""


class LinearEstimator(BaseEstimator):  # type: ignore[misc]
    """What both estimators share: parameters to an update, rows to learners, weights back."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "penalty": [StrOptions(set(PENALTIES)), Regularizer, None],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "l1_ratio": [Interval(Real, 0, 1, closed="both")],
        "algorithm": [StrOptions(set(ALGORITHMS))],
        "step_size": [StrOptions({"auto", *STEP_SIZES}), Interval(Real, 0, None, closed="neither"), StepSize],
        "geometry": [StrOptions(set(GEOMETRIES)), Geometry, None],
        "solver": [StrOptions(set(SOLVERS)), Solver, None],
        "average": ["boolean"],
        "positive": ["boolean"],
        "record_every": [Interval(Integral, 1, None, closed="left"), None],
        **OF_PASSES,
    }

    # --- parameters -------------------------------------------------------------------------------

    def _loss(self) -> Any:
        """The loss that the parameter names."""
        raise NotImplementedError

    def _fitted_loss(self) -> Any:
        """The loss that the weights were learned with; before that, the one that the parameter names."""
        if not hasattr(self, "learners_"):
            return self._loss()
        learner = self.learners_[0]
        return learner.loss if isinstance(learner, JointLearner) else learner.update.loss

    def _update(self) -> Update:
        """The update that the parameters describe."""
        names = ("penalty", "alpha", "l1_ratio", "algorithm", "step_size", "geometry", "solver", "positive")
        return make_update(self._loss(), **{name: getattr(self, name) for name in names})

    # --- rows -------------------------------------------------------------------------------------

    def _plain(self, X: Any) -> bool:
        """Whether a learner makes all the checks that X needs."""
        if type(X) not in CSR and not (type(X) is np.ndarray and X.dtype == np.float64):
            return False
        shape = X.shape
        return (
            len(shape) == 2
            and shape[0] > 0
            and shape[1] == self.n_features_in_
            and not hasattr(self, "feature_names_in_")
        )

    def _checked(self, X: Any) -> Any:
        """X as scikit-learn wants it for a model that is fitted."""
        return validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)

    def _read(self, X: Any, ask: Callable[[Any], Any]) -> Any:
        """`ask(X)`, where scikit-learn's checks, which take longer than scores, are made for what needs them."""
        check_is_fitted(self)
        if self._plain(X):
            try:
                return ask(X)
            except (TypeError, ValueError):  # scikit-learn may have its own words for what is wrong
                pass
        return ask(self._checked(X))

    def _weights(self, sample_weight: Any, X: Any) -> Floats:
        """One weight per row."""
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
        return check_sample_weights(sample_weight, X.shape[0])

    # --- learning ---------------------------------------------------------------------------------

    def _new_learner(self, update: Update) -> Learner:
        new = Learner(update, n_features=self.n_features_in_, intercept=self.fit_intercept, average=self.average)
        if self.record_every is not None:
            Ledger(new, every=self.record_every)
        return new

    def _goes_on(self) -> bool:
        """Whether `fit` goes on from where the last one ended."""
        return self.warm_start and hasattr(self, "learners_")

    def _begin(self) -> None:
        """What `fit` and the first `partial_fit` have in common."""
        self._losses: deque[float] = deque(maxlen=CURVE)
        self._sparse = False
        self._coef: tuple[Any, Any] | None = None

    def _run(self, rows: int, courses: list[Course], held_out: Any) -> None:
        """Pass over the rows until nothing improves."""
        stopping = Stopping(self.max_iter, self.tol, self.n_iter_no_change)
        seed = check_random_state(self.random_state).randint(LARGEST_SEED) if self.shuffle else None
        tell = Progress() if self.verbose else None
        kept = None if held_out is None else ~held_out
        self.n_iter_ = run(courses, rows, stopping, seed, kept, self._map, tell)
        for k in range(self.n_iter_):
            self._losses.append(float(np.mean([c.losses[k] for c in courses if k < len(c.losses)])))
        self._coef = None
        if self.tol is not None and 1 < self.max_iter == self.n_iter_:
            message = f"max_iter={self.max_iter} passes did not reach tol={self.tol}; raise max_iter, or give tol=None"
            warnings.warn(message, ConvergenceWarning, stacklevel=3)

    def _held_out(self, y: Any, weights: Floats, splitter: Any) -> Any:
        """Which rows are held out for early stopping; None if it is not asked for."""
        held = held_out(self, y, splitter)
        if held is not None and not weights[held].any():
            raise ValueError("the rows held out for early stopping all have sample weight 0: use another random_state")
        return held

    def _map(self, work: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        """Do the work for all items, in as many threads as n_jobs says."""
        items = list(items)
        if len(items) == 1 or effective_n_jobs(self.n_jobs) == 1:
            return [work(item) for item in items]
        return Parallel(n_jobs=self.n_jobs, require="sharedmem")(delayed(work)(item) for item in items)

    def _note(self, losses: Iterable[float]) -> None:
        """Remember what a call of `partial_fit` did."""
        losses = list(losses)
        self._losses.append(sum(losses) / len(losses))
        self.n_iter_ = 1
        self._coef = None

    def _first_checks(self) -> None:
        """What has to hold before the first `partial_fit`."""
        self._validate_params()
        if self.early_stopping:
            raise ValueError("early_stopping should be False with partial_fit")

    # --- the model --------------------------------------------------------------------------------

    def _scorers(self) -> list[Learner]:
        """The learners whose scores count."""
        return self.learners_

    def _weights_and_intercepts(self) -> tuple[Any, Any]:
        if not hasattr(self, "learners_"):
            raise AttributeError(f"this {type(self).__name__} is not fitted yet: call fit or partial_fit first")
        if self._coef is None:
            found = self._scorers()
            w, b = np.vstack([a.weights for a in found]), np.hstack([a.intercept for a in found])
            if isinstance(found[0], JointLearner) and len(w) == 2:
                w, b = w[1:] - w[:1], b[1:] - b[:1]
            self._coef = (sparse.csr_matrix(w) if self._sparse else w), b
        return self._coef

    @property
    def loss_curve_(self) -> list[float]:
        """Mean loss of rows before they were learned from, for every pass of `fit` and every call of `partial_fit`.

        For several classes it is the mean over them. The last 100,000 are kept.
        """
        check_is_fitted(self)
        return list(self._losses)

    @property
    def ledgers_(self) -> list[Ledger]:
        """The account of every learner of `learners_`, if `record_every` asks for it: a `fiol.regret.Ledger` each.

        Copies and pickles do without, and so do classes that appear later.
        """
        check_is_fitted(self)
        if self.record_every is None:
            raise AttributeError("no account was kept: give record_every, the rounds between two records")
        return [learner.ledger for learner in self.learners_ if learner.ledger is not None]

    @property
    def t_(self) -> float:
        """Rows learned from, plus 1, as scikit-learn counts."""
        check_is_fitted(self)
        return 1.0 + max(learner.rounds for learner in self.learners_)

    def sparsify(self) -> LinearEstimator:
        """Make `coef_` a sparse matrix."""
        check_is_fitted(self)
        self._sparse, self._coef = True, None
        return self

    def densify(self) -> LinearEstimator:
        """Make `coef_` an array, which it is at first."""
        check_is_fitted(self)
        self._sparse, self._coef = False, None
        return self

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {**state, "_losses": list(state["_losses"])} if "_losses" in state else state  # skops empties a deque

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "_losses" in state:
            self._losses = deque(state["_losses"], CURVE)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "learners_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _more_tags(self) -> dict[str, Any]:  # scikit-learn < 1.6
        why = "a weight multiplies the loss of one round: two rounds are not one of weight 2, nor is weight 0 no round"
        return {"_xfail_checks": {"check_sample_weights_invariance": why}}


class FIOLClassifier(ClassifierMixin, LinearEstimator):  # type: ignore[misc]
    """A linear classifier that learns row by row with exact steps.

    Every round solves argmin_w loss(<x, w>; y) + penalty(w) + B(w, w_old) / eta; see `fiol.presets`.

    Parameters
    ----------
    loss : "log_loss", "hinge", "squared_hinge", "exponential", a loss for numbers ("squared_error", ...) with targets
        -1 and +1, or a `fiol.Loss`: classes are learned one against the rest. "softmax", "crammer_singer" or a
        `fiol.JointLoss`: all classes at once, by FIOL without a penalty or with a ridge. "auto" is softmax where that
        is possible and three classes or more are known from the start, otherwise log_loss.
    {parameters}
    class_weight : None, "balanced" or a dict: the weight of every row is multiplied by that of its class.
    n_jobs : classes are learned in so many threads.

    `fit` with one pass and no shuffling, `partial_fit` in chunks of any size and `fiol.Learner.learn` give the
    same weights to the bit; for more than two classes if the loss is named, or the first `partial_fit` names the
    classes, as "auto" may choose another loss otherwise. `partial_fit` reads the parameters in its first call.

    `fit` closes the set of classes: a later `partial_fit` refuses labels that `fit` has not seen.
    If the first `partial_fit` names no `classes`, new ones may appear at any time. One against the rest, the model is
    exactly the one that knew them from the start, for the work of two more classes: a learner that was told "no" in
    every round stands by for the next one. Where all classes are learned at once, the weights of a new one start at 0.

    Attributes
    ----------
    coef_, intercept_ : weights of shape (1, n_features) for two classes, otherwise (n_classes, n_features); intercepts.
    classes_, n_features_in_, feature_names_in_ : labels, and what is known of the columns.
    n_iter_, t_, loss_curve_ : passes made, rows learned from plus 1, mean progressive loss of every pass.
    learners_ : the `fiol.Learner` of every class, or the one that tells two classes apart.

    Examples
    --------
    >>> from fiol.doors.estimators import FIOLClassifier
    >>> model = FIOLClassifier(max_iter=1, shuffle=False).fit([[1.0], [2.0], [-1.0]], ["yes", "yes", "no"])
    >>> model.predict([[3.0], [-3.0]])
    array(['yes', 'no'], dtype='<U3')
    >>> model.partial_fit([[4.0]], ["yes"]).t_
    5.0
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearEstimator._parameter_constraints,
        "loss": [StrOptions({"auto", *CLASSIFICATION, *JOINT}), Loss, JointLoss],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "n_jobs": THREADS,
    }
    _model: OneVsRest | JointLearner

    def __init__(
        self,
        loss: Any = "auto",
        *,
        penalty: Any = None,
        alpha: float = 0.0001,
        l1_ratio: float = 0.15,
        algorithm: str = "FIOL",
        step_size: Any = "auto",
        geometry: Any = None,
        solver: Any = None,
        average: bool = False,
        positive: bool = False,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        tol: float | None = 1e-3,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 5,
        shuffle: bool = True,
        random_state: Any = None,
        warm_start: bool = False,
        class_weight: Any = None,
        n_jobs: int | None = None,
        record_every: int | None = None,
        verbose: int = 0,
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
        self.max_iter = max_iter
        self.tol = tol
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.shuffle = shuffle
        self.random_state = random_state
        self.warm_start = warm_start
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.record_every = record_every
        self.verbose = verbose

    def _loss(self) -> Any:
        if isinstance(self.loss, str) and self.loss == "auto":
            plain = self.algorithm == "FIOL" and self.penalty in (None, "l2") and not (self.positive or self.average)
            plain = plain and self.geometry is None and self.solver is None and self.record_every is None
            many = getattr(self, "_closed", False) and len(self.classes_) > 2
            return Softmax() if many and plain else Logistic()
        return named(self.loss, {**CLASSIFICATION, **JOINT})

    # --- learning ---------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> FIOLClassifier:
        """Learn from the rows until nothing improves, or `max_iter` times, from the start unless `warm_start`.

        X is an array, a scipy sparse matrix or a frame; y has one label per row; sample_weight multiplies the loss.
        """
        self._validate_params()
        again = self._goes_on()
        with unless_refused(self):
            X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64)
            chunk, weights = to_chunk(X), self._weights(sample_weight, X)
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
            weights = self._weighted(weights, codes)
            held_out = self._held_out(codes, weights, StratifiedShuffleSplit)
            new = self._new_model()
            self._model = continued(self._model, new) if again else new
            if not again:
                self._begin()
        score, courses = None, []
        rest = None if held_out is None else chunk.take(np.flatnonzero(held_out))
        for learner, target in self._tasks(codes):
            if rest is not None:
                score = accuracy_on(learner, rest, target[held_out], weights[held_out])
            courses.append(Course(learning(learner, chunk, target, weights), score))
        self._run(chunk.rows, courses, held_out)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> FIOLClassifier:
        """One round per row, in order. `classes`, if given in the first call, are all there will ever be.

        One row of a scipy CSR matrix costs a few microseconds, however many features there are.
        """
        if classes is None and hasattr(self, "learners_") and self._plain(X):
            try:
                if self._learn_event(X, y, sample_weight):
                    return self
                if type(y) is np.ndarray and y.shape == X.shape[:1]:
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
            X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, reset=first)
            if first:
                closed = classes is not None
                classes = unique_labels(classes) if closed else np.unique(y)
                check_labels(classes)
                if closed and len(classes) < 2:
                    raise ValueError(f"classes must name at least two classes, got {len(classes)} class")
                self._set_classes(classes, closed)
                new = self._new_model()
                self._begin()
                self._model = new
            elif classes is not None and not np.array_equal(self.classes_, unique_labels(classes)):
                raise ValueError(f"classes must be those of the first call, {self.classes_}, got {classes!r}")
            return self._learn(X, y, sample_weight)

    def _learn(self, X: Any, y: Any, sample_weight: Any) -> FIOLClassifier:
        """One round per row for every learner; an error before the first of them."""
        chunk = to_chunk(X, n_features=self.n_features_in_)
        weights = self._weights(sample_weight, X)
        codes = self._codes(y)
        weights = self._weighted(weights, codes)
        losses = self._map(lambda task: learning(task[0], chunk, task[1], weights)(), self._tasks(codes))
        self._note(losses[: len(self.learners_)])
        return self

    def _learn_event(self, X: Any, y: Any, sample_weight: Any) -> bool:
        """The round of a single sparse row whose label is known; False, and no round, for everything else."""
        rest = self._model
        if not X.shape[0] == len(y) == 1 or type(X) not in CSR or isinstance(rest, JointLearner):
            return False
        code = rest.numbers.get(y[0])
        if code is None:
            return False
        weight = 1.0 if sample_weight is None else sample_weight[0]
        if self._class_weights is not None:
            weight *= self._class_weights[code]
        losses = [
            learner.update.loss.value(learner.learn_one(X.indices, X.data, target, weight), target)
            for learner, target in rest.told(y[0])
        ]
        self._note(losses[: len(rest.learners)])
        return True

    # --- classes ----------------------------------------------------------------------------------

    @property
    def learners_(self) -> list[Any]:
        """The `fiol.Learner` of every class, or that of the second, or the `fiol.JointLearner` of all."""
        model = self._model
        return [model] if isinstance(model, JointLearner) else list(model.learners.values())

    def _set_classes(self, classes: Any, closed: bool) -> None:
        """Fix the classes, and the weights that a dict gives them."""
        weights = None
        if isinstance(self.class_weight, dict):
            weights = np.array(weights_of(self.class_weight, classes.tolist(), closed), np.float64)
        self.classes_, self._closed, self._class_weights = classes, closed, weights

    def _codes(self, y: Any) -> Any:
        """The place in `classes_` of every label; new ones are taken in if the classes are open."""
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
        if isinstance(self._model, JointLearner):
            self._model = self._model.widened(np.searchsorted(classes, old), len(classes))
        else:
            self._model.meet(new.tolist())
            self._model.arrange(classes.tolist())
        return codes

    def _new_model(self) -> OneVsRest | JointLearner:
        """What learns to tell the classes apart, one against the rest or all at once."""
        loss = self._loss()
        if not isinstance(loss, JointLoss):
            update = self._update()
            return OneVsRest(lambda: self._new_learner(update), self.classes_.tolist(), self._closed)
        unused = {"algorithm": "FIOL", "positive": False, "average": False}
        unused |= dict.fromkeys(("geometry", "solver", "record_every"))
        for name, default in unused.items():
            if getattr(self, name) not in (default, "euclidean"):
                raise ValueError(f"{type(loss).__name__} has no use for {name}={getattr(self, name)!r}")
        regularizer = make_regularizer(self.penalty, self.alpha, self.l1_ratio)
        step_size = make_step_size("scale_free" if self.step_size == "auto" else self.step_size)
        parts = (regularizer, step_size, self.fit_intercept)
        try:
            return JointLearner(loss, self.n_features_in_, len(self.classes_), *parts)
        except TypeError as error:
            if isinstance(regularizer, Ridge | Unregularized):
                raise
            one = "log_loss" if loss.link == "logit" else "hinge"
            raise TypeError(f'{error}: use penalty=None or "l2", or loss="{one}"') from error

    def _tasks(self, codes: Any) -> list[tuple[Any, Any]]:
        """Every learner and its targets."""
        if isinstance(self._model, JointLearner):
            return [(self._model, np.ascontiguousarray(codes, np.int64))]
        return self._model.told_all(codes)

    def _weighted(self, weights: Floats, codes: Any) -> Floats:
        """The weights of rows times those of their classes."""
        if self._class_weights is None:
            return weights
        weights = weights * self._class_weights[codes]
        check_range("class_weight times sample_weight", weights, 0.0, HEAVIEST, f"at most {HEAVIEST:g}")
        return weights

    # --- predicting -------------------------------------------------------------------------------

    def _scorers(self) -> list[Learner]:
        return self.learners_[1:] if len(self.learners_) == 2 else self.learners_

    def decision_function(self, X: Any) -> Floats:
        """Scores X @ coef_.T + intercept_: of the second class for two, of shape (n_rows, n_classes) for more."""
        return self._read(X, self._scores)

    def _scores(self, X: Any) -> Floats:
        rows = to_chunk(X, n_features=self.n_features_in_)
        if isinstance(self._model, JointLearner):
            scores = self._model.scores(rows)
            return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores
        found = self._map(lambda learner: learner.scores(rows, linear=True), self._scorers())
        return found[0] if len(found) == 1 else np.column_stack(found)

    def predict(self, X: Any) -> Any:
        """The class of every row: that of the highest score."""
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
        if isinstance(self._model, JointLearner):
            p = special.expit(scores) if scores.ndim == 1 else special.softmax(scores, axis=1)
        else:
            p = self.learners_[0].predictions(np.array(scores, order="C").ravel()).reshape(scores.shape)
        if p.ndim == 1:
            return np.column_stack([1.0 - p, p])
        return normalized(p)

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Floats:
        """The logarithm of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    @property
    def coef_(self) -> Any:
        """Weights, exactly up to date: one row for two classes, otherwise one per class."""
        return self._weights_and_intercepts()[0]

    @property
    def intercept_(self) -> Any:
        """Intercepts: one for two classes, otherwise one per class."""
        return self._weights_and_intercepts()[1]

    def to_sklearn(self) -> Any:
        """A model of scikit-learn alone, with these weights: `LogisticRegression` for softmax, and for logistic loss of
        two classes, `SGDClassifier` for more; otherwise `LinearSVC`.
        """
        from sklearn.linear_model import LogisticRegression, SGDClassifier
        from sklearn.svm import LinearSVC

        check_is_fitted(self)
        if len(self.classes_) == 1:
            raise ValueError(
                f"no model of scikit-learn knows a single class: {self.classes_.tolist()[0]!r} is the only one so far"
            )
        loss = self._fitted_loss()
        logistic = loss.link == "logit" and loss.link_factor == 1.0
        if logistic and (isinstance(loss, JointLoss) or len(self.classes_) == 2):
            model = LogisticRegression()
        else:
            model = SGDClassifier(loss="log_loss") if logistic else LinearSVC()
        return with_weights(model, self, self.coef_, self.intercept_, classes_=self.classes_)


class FIOLRegressor(RegressorMixin, LinearEstimator):  # type: ignore[misc]
    """A linear regression that learns row by row with exact steps.

    Every round solves argmin_w loss(<x, w>; y) + penalty(w) + B(w, w_old) / eta; see `fiol.presets`.

    Parameters
    ----------
    loss : "squared_error", "absolute_error", "huber", "quantile", "epsilon_insensitive", "squared_epsilon_insensitive",
        "poisson" (for counts: predicts exp(score)), or a `fiol.Loss`, such as `fiol.Quantile(0.9)`.
    {parameters}

    `fit` with one pass and no shuffling, `partial_fit` in chunks of any size and `fiol.Learner.learn` give the
    same weights to the bit. `partial_fit` reads the parameters in its first call.

    Attributes
    ----------
    coef_, intercept_ : weights of shape (n_features,), and the intercept as an array of one.
    n_features_in_, feature_names_in_ : what is known of the columns.
    n_iter_, t_, loss_curve_ : passes made, rows learned from plus 1, mean progressive loss of every pass.
    learners_ : the `fiol.Learner`, in a list.

    Examples
    --------
    >>> from fiol.doors.estimators import FIOLRegressor
    >>> model = FIOLRegressor(max_iter=100, tol=None, random_state=0).fit([[1.0], [2.0], [3.0]], [2.0, 4.0, 6.0])
    >>> model.predict([[4.0]]).round()
    array([8.])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearEstimator._parameter_constraints,
        "loss": [StrOptions(set(REGRESSION)), Loss],
    }
    learners_: list[Learner]

    def __init__(
        self,
        loss: Any = "squared_error",
        *,
        penalty: Any = None,
        alpha: float = 0.0001,
        l1_ratio: float = 0.15,
        algorithm: str = "FIOL",
        step_size: Any = "auto",
        geometry: Any = None,
        solver: Any = None,
        average: bool = False,
        positive: bool = False,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        tol: float | None = 1e-3,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 5,
        shuffle: bool = True,
        random_state: Any = None,
        warm_start: bool = False,
        record_every: int | None = None,
        verbose: int = 0,
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
        self.max_iter = max_iter
        self.tol = tol
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.shuffle = shuffle
        self.random_state = random_state
        self.warm_start = warm_start
        self.record_every = record_every
        self.verbose = verbose

    def _loss(self) -> Any:
        return named(self.loss, REGRESSION)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> FIOLRegressor:
        """Learn from the rows until nothing improves, or `max_iter` times, from the start unless `warm_start`.

        X is an array, a scipy sparse matrix or a frame; y has one number per row; sample_weight multiplies the loss.
        """
        self._validate_params()
        again = self._goes_on()
        with unless_refused(self):
            X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, y_numeric=True)
            chunk, weights = to_chunk(X), self._weights(sample_weight, X)
            update = self._update()
            y = check_targets(y, len(y), update.loss)
            held_out = self._held_out(y, weights, ShuffleSplit)
            new = self._new_learner(update)
            self.learners_ = [continued(self.learners_[0], new) if again else new]
            if not again:
                self._begin()
        score, learner = None, self.learners_[0]
        if held_out is not None:
            score = r2_on(learner, chunk.take(np.flatnonzero(held_out)), y[held_out], weights[held_out])
        self._run(chunk.rows, [Course(learning(learner, chunk, y, weights), score)], held_out)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> FIOLRegressor:
        """One round per row, in order.

        One row of a scipy CSR matrix costs a few microseconds, however many features there are.
        """
        if hasattr(self, "learners_") and self._plain(X):
            try:
                if X.shape[0] == len(y) == 1 and type(X) in CSR:
                    target, weight = float(y[0]), 1.0 if sample_weight is None else float(sample_weight[0])
                    learner = self.learners_[0]
                    z = learner.learn_one(X.indices, X.data, target, weight)
                    self._note([learner.update.loss.value(z, target)])
                    return self
                if type(y) is np.ndarray:
                    return self._learn(X, y, sample_weight)
            except (KeyError, TypeError, ValueError):  # nothing has been learned; scikit-learn may have its own words
                pass
        first = not hasattr(self, "learners_")
        if first:
            self._first_checks()
        with unless_refused(self) if first else nullcontext():
            X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, y_numeric=True, reset=first)
            if first:
                update = self._update()
                self._begin()
                self.learners_ = [self._new_learner(update)]
            return self._learn(X, y, sample_weight)

    def _learn(self, X: Any, y: Any, sample_weight: Any) -> FIOLRegressor:
        learner = self.learners_[0]
        chunk, weights = to_chunk(X, n_features=self.n_features_in_), self._weights(sample_weight, X)
        y = check_targets(y, chunk.rows, learner.update.loss)
        self._note([learning(learner, chunk, y, weights)()])
        return self

    def predict(self, X: Any) -> Floats:
        """What the scores X @ coef_ + intercept_ say: the mean, or exp(score) for counts."""
        return self._read(X, lambda X: predictions(self.learners_[0], to_chunk(X, n_features=self.n_features_in_)))

    @property
    def coef_(self) -> Any:
        """Weights, exactly up to date."""
        w = self._weights_and_intercepts()[0]
        return w if self._sparse else w[0]

    @property
    def intercept_(self) -> Any:
        """The intercept, as an array of one."""
        return self._weights_and_intercepts()[1]

    def to_sklearn(self) -> Any:
        """A model of scikit-learn alone, with these weights: `PoissonRegressor` for counts, else `LinearRegression`."""
        from sklearn.linear_model import LinearRegression, PoissonRegressor

        check_is_fitted(self)
        if self._fitted_loss().link == "log":
            model = with_weights(PoissonRegressor(), self, self.coef_, float(self.intercept_[0]))
            model._base_loss = model._get_loss()
            return model
        return with_weights(LinearRegression(), self, self.coef_, float(self.intercept_[0]))


# --- parts --------------------------------------------------------------------------------------


@contextmanager
def unless_refused(estimator: Any) -> Iterator[None]:
    """Takes back what an estimator is told about itself, should an error follow: scikit-learn's checks write first."""
    before = estimator.__dict__.copy()
    try:
        yield
    except Exception:
        estimator.__dict__.clear()
        estimator.__dict__.update(before)
        raise


def check_labels(classes: Any) -> None:
    """ValueError unless classes are words or whole numbers, in scikit-learn's words."""
    if classes.dtype.kind not in "biuU":
        check_classification_targets(np.repeat(classes, 2))  # once each, it would take many for numbers


def plain(value: Any) -> Any:
    """A value without numpy's type, to show."""
    return value.item() if isinstance(value, np.generic) else value


def weights_of(class_weight: dict[Any, Any], classes: list[Any], closed: bool) -> list[float]:
    """The weight of every class, 1 by default.

    As in scikit-learn, a key that is no class is an error where another class has no weight: it may be misspelt.

    >>> weights_of({"pear": 2.0}, ["apple", "pear"], closed=True)
    [1.0, 2.0]
    """
    for label, weight in class_weight.items():
        if not (isinstance(weight, Real) and 0.0 <= float(weight) < np.inf):
            where = f"class_weight[{plain(label)!r}]"
            raise ValueError(f"{where} must be a finite number of at least 0, got {plain(weight)!r}")
    strange = [plain(label) for label in class_weight if label not in classes]
    if closed and strange and len(class_weight) - len(strange) < len(classes):
        raise ValueError(f"class_weight has keys that are no classes: {strange}; the classes are {classes}")
    return [class_weight.get(label, 1.0) for label in classes]


def continued(old: Any, new: Any) -> Any:
    """What goes on from where an old model ended: that one, or if the new one would do other steps, the new one."""
    if type(old) is not type(new):
        raise ValueError(
            "with warm_start, all classes at once cannot go on from one against the rest, or vice versa: name the loss "
            'of the last fit, such as loss="log_loss" or loss="softmax"'
        )
    if isinstance(old, OneVsRest):
        new.learners = {label: continued(old.learners[label], learner) for label, learner in new.learners.items()}
        return new
    if old.n_features != new.n_features:
        raise ValueError(
            f"with warm_start, X must have the {old.n_features} features of the last fit, got {new.n_features}"
        )
    if isinstance(old, JointLearner):
        same = (old.plan, old.intercept_fitted) == (new.plan, new.intercept_fitted)
    else:
        same = old.update == new.update and old._options() == new._options()
    if not same:
        new.start_from(old.weights, old.intercept)
    return old if same else new


def held_out(estimator: Any, y: Any, splitter: Any) -> Any:
    """A mask of the rows that an estimator holds out; None if it holds out none."""
    if not estimator.early_stopping:
        return None
    split = splitter(n_splits=1, test_size=estimator.validation_fraction, random_state=estimator.random_state)
    _, held = next(split.split(np.zeros((len(y), 1)), y))
    mask = np.zeros(len(y), bool)
    mask[held] = True
    return mask


def learning(learner: Learner | JointLearner, rows: Chunk, y: Floats, weights: Floats) -> Callable[..., float]:
    """Passes over rows that have been checked; each gives the mean loss of their scores before."""

    def learn(order: Any = IN_ORDER) -> float:
        scores = learner.learn_canonical(rows, y, weights, order)
        return learner.mean_loss(scores, y, weights, order if len(order) < rows.rows else IN_ORDER)

    return learn


def predictions(learner: Learner, rows: Chunk) -> Floats:
    """What scores that are linear in the values say."""
    return learner.predictions(learner.scores(rows, linear=True))


def accuracy_on(learner: Learner | JointLearner, rows: Chunk, y: Floats, weights: Floats) -> Callable[[], float]:
    """The weighted share of rows whose score has the sign of their target, or is the highest for their class."""
    if isinstance(learner, JointLearner):
        return lambda: float(np.average(learner.scores(rows).argmax(axis=1) == y, weights=weights))
    return lambda: float(np.average((learner.scores(rows, linear=True) > 0.0) == (y > 0.0), weights=weights))


def r2_on(learner: Learner, rows: Chunk, y: Floats, weights: Floats) -> Callable[[], float]:
    """The weighted coefficient of determination."""
    from sklearn.metrics import r2_score

    return lambda: float(r2_score(y, predictions(learner, rows), sample_weight=weights))


class Progress:
    """Says after every pass how it went."""

    def __init__(self) -> None:
        self.start = time.perf_counter()
        self.show: Callable[[str], None] = print
        with suppress(ImportError):
            from rich import print as show

            self.show = show

    def __call__(self, epoch: int, courses: list[Course]) -> None:
        loss = np.mean([course.losses[-1] for course in courses])
        held = "" if courses[0].score is None else f", best held-out score {np.mean([c.best for c in courses]):.4f}"
        left = f", {len(courses)} classes" if len(courses) > 1 else ""
        self.show(f"pass {epoch}: loss {loss:.6f}{held}{left}, {time.perf_counter() - self.start:.2f} s")


def with_weights(model: Any, estimator: LinearEstimator, coef: Any, intercept: Any, **others: Any) -> Any:
    """A model of scikit-learn with these weights."""
    model.coef_ = coef.toarray() if sparse.issparse(coef) else coef.copy()
    model.intercept_ = np.copy(intercept) if np.ndim(intercept) else intercept
    for name in ("n_features_in_", "feature_names_in_", "n_iter_"):
        if hasattr(estimator, name):
            setattr(model, name, getattr(estimator, name))
    for name, value in others.items():
        setattr(model, name, value)
    return model


for _estimator in (FIOLClassifier, FIOLRegressor):
    _estimator.__doc__ = (_estimator.__doc__ or "").replace("    {parameters}", PARAMETERS.strip("\n"))
