"""Drop-in replacements for scikit-learn's passive-aggressive estimators, which it is about to remove.

Same parameters, same rows in the same order, same weights (up to rounding): `PA1` and `PA2` of `fiol.presets` with
scikit-learn's habits. Those are: the intercept is moved by the step but not counted in it, by a hundredth where rows
are sparse; the weight of a class multiplies the step instead of the loss; `partial_fit` shuffles. Where results differ:
rows of float32 are learned from in float64; an average counts rows without entries; between calls of
`partial_fit`, scikit-learn's classifiers forget their intercept where averages are kept; a warm start begins with the
averages themselves, and takes columns of the same names; the rows of the first call decide whether rows are sparse.
`save` and `load` are those of `fiol.FIOLClassifier`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np

try:
    from sklearn.base import BaseEstimator, RegressorMixin
except ImportError as error:
    raise ImportError("fiol.PassiveAggressiveClassifier needs scikit-learn: pip install fiol[sklearn]") from error
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model._base import LinearClassifierMixin, SparseCoefMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.multiclass import _check_partial_fit_first_call
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from fiol.algorithms.loss_steps import WithoutIntercept
from fiol.components.losses import EpsilonInsensitive, Hinge, Loss, SquaredEpsilonInsensitive, SquaredHinge
from fiol.components.row import Floats
from fiol.features.chunk import Chunk
from fiol.features.containers import to_chunk
from fiol.features.frames import is_sparse
from fiol.integrations import estimator_file
from fiol.integrations.fitting import Progress, held_out
from fiol.integrations.validation import (
    LARGEST_SEED,
    OF_PASSES,
    THREADS,
    PassParameters,
    all_or_nothing,
    unless_refused,
    validate_data,
)
from fiol.learner import Learner
from fiol.models.epochs import EpochRun, Stopping, run_epochs
from fiol.presets import PA1, PA2

#: What the intercept's step is multiplied with where rows are sparse: scikit-learn's choice.
SPARSE_DECAY = 0.01


@dataclass(eq=False, repr=False, kw_only=True)
class PassiveAggressive(PassParameters, estimator_file.Saved, SparseCoefMixin, BaseEstimator):  # type: ignore[misc]
    """The parts that both estimators share."""

    C: float = 1.0
    fit_intercept: bool = True
    average: Any = False
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "C": [Interval(Real, 0, None, closed="right")],
        **OF_PASSES,
        "average": [Interval(Integral, 0, None, closed="left"), "boolean"],
    }
    #: What makes a step passive, which also decides when to stop: the loss of PA-I.
    _judge: ClassVar[Loss]

    # A step of u moves the weights by u x and the intercept by 0.01 u where rows are sparse. Features ten times as
    # large and a hundredth of C give the same with an intercept moved by the step itself.

    def _new_learners(self, X: Any, count: int, coef: Any = None, intercept: Any = None) -> None:
        """Learners that start from these weights and intercepts; None is 0."""
        self._stretch = SPARSE_DECAY**-0.5 if is_sparse(X) else 1.0
        one = "squared" not in self.loss
        w = np.zeros((count, X.shape[1])) if coef is None else np.asarray(coef, np.float64)
        b = np.zeros(count) if intercept is None else np.asarray(intercept, np.float64).reshape(-1)
        if w.size != count * X.shape[1] or b.size != count:
            raise ValueError(f"coef_init and intercept_init must be for {count} x {X.shape[1]} weights")
        update = (PA1 if one else PA2)(self.C / self._stretch**2, self._loss_of_update(one))
        options: dict[str, Any] = {"intercept": self.fit_intercept, "average": bool(self.average)}
        self._shifts = np.zeros(count) if self.fit_intercept else b  # intercepts that nothing moves
        steps = [WithoutIntercept(float(shift)) for shift in self._shifts]
        self._learners = [Learner(update.replace(loss_step=step), n_features=X.shape[1], **options) for step in steps]
        self._before: list[Any] = [(0.0, 0.0)] * count  # averages of the rounds before averaging starts
        self.t_ = 1.0
        if coef is not None or intercept is not None:
            for learner, weights, shift in zip(self._learners, w.reshape(count, -1), b, strict=True):
                learner.start_from(weights / self._stretch, float(shift))

    def _start(self, coef_init: Any, intercept_init: Any) -> tuple[Any, Any]:
        """Weights and intercepts that `fit` starts from: those given, or those of the last fit; None is 0."""
        old = (None, None) if self._is_new() else (self.coef_, self.intercept_)
        return old[0] if coef_init is None else coef_init, old[1] if intercept_init is None else intercept_init

    def _is_new(self) -> bool:
        """Return whether `fit` forgets the last one."""
        return not (self.warm_start and hasattr(self, "coef_"))

    def _loss_of_update(self, one: bool) -> Loss:
        raise NotImplementedError

    def _parts(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return estimator_file.passive_parts_of(self)

    def _become(self, header: dict[str, Any], arrays: dict[str, Any], compiled: bool) -> None:
        learners, before = estimator_file.passive_learners(header, arrays, compiled)
        steps: list[Any] = [getattr(learner.update, "loss_step", None) for learner in learners]
        if not all(isinstance(step, WithoutIntercept) for step in steps):
            raise ValueError("its learners are not those of a passive-aggressive estimator")
        estimator_file.restore_common(self, header, learners)
        self._learners, self._before = learners, [(row[:-1], float(row[-1])) for row in before]
        self._stretch = SPARSE_DECAY**-0.5 if header["sparse_rows"] is True else 1.0
        self._shifts, self.t_ = np.array([step.shift for step in steps]), header["steps"]
        self._publish()
        if header["sparse"] is True:
            self.sparsify()

    def _publish(self) -> None:
        """Let users see the weights."""
        raise NotImplementedError

    def _rows(self, X: Any) -> Chunk:
        chunk = to_chunk(X)
        return chunk if self._stretch == 1.0 else chunk._replace(data=chunk.data * self._stretch)

    def _epoch_run(
        self, k: int, chunk: Chunk, y: Floats, sample_weights: Floats, score: Callable[[], float] | None
    ) -> EpochRun:
        """Return the k-th learner with its progress."""
        learner, ones = self._learners[k], np.ones(chunk.rows)
        if "squared" not in self.loss:  # a row without entries moves nothing
            sample_weights = np.where(np.diff(chunk.indptr) == 0, 0.0, sample_weights)
        wait = int(self.average) - 1 if self.average else 0

        def learn(order: Any) -> float:
            from fiol.engine.round.reading import total_loss

            order = order if order.shape[0] else np.arange(chunk.rows)
            first = min(max(wait - learner.rounds, 0), order.shape[0])
            scores = np.zeros(chunk.rows)
            for part in (order[:first], order[first:]):
                if part.shape[0]:
                    scores += learner.core.learn_canonical(chunk, y, sample_weights, part)
                if self.average and learner.rounds == wait > 0:
                    self._before[k] = learner.weights, learner.intercept
            total, rows = total_loss(self._judge, scores + self._shifts[k], order, y, ones)
            return total / rows

        return EpochRun(learn, score)

    def _last(self, k: int) -> tuple[Floats, float]:
        """Return the weights and the intercept after the last round."""
        learner = self._learners[k]
        return learner.last_weights * self._stretch, learner.last_intercept + self._shifts[k]

    def _read_weights(self) -> tuple[Floats, Floats]:
        """Return the weights and intercepts to predict with."""
        found = []
        for k, learner in enumerate(self._learners):
            rounds, wait = learner.rounds, int(self.average) - 1
            w, b = self._last(k)
            if self.average and rounds > wait:
                share, (w_before, b_before) = wait / (rounds - wait), self._before[k]
                w = ((1.0 + share) * learner.weights - share * w_before) * self._stretch
                b = (1.0 + share) * learner.intercept - share * b_before + self._shifts[k]
            found.append((w, b))
        return np.array([w for w, _ in found]), np.array([b for _, b in found])

    def _pass(self, run: EpochRun, rows: int, epochs: int, seed: int, held: Any) -> int:
        stopping = Stopping(epochs, self.tol, self.n_iter_no_change)
        tell = Progress() if self.verbose else None
        return run_epochs(
            [run], rows, stopping, seed if self.shuffle else None, None if held is None else ~held, map, tell
        )

    def _finish(self, epochs: int, rows: int) -> None:
        """Publish what was learned."""
        self.t_ += self.n_iter_ * rows
        if 1 < epochs == self.n_iter_ and self.tol is not None:
            message = f"max_iter={epochs} passes did not reach tol={self.tol}; raise max_iter, or give tol=None"
            warnings.warn(message, ConvergenceWarning, stacklevel=4)

    def _before_partial_fit(self) -> None:
        self._validate_params()
        if self.early_stopping:
            raise ValueError("early_stopping should be False with partial_fit")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


@dataclass(eq=False, repr=False, kw_only=True)
class PassiveAggressiveClassifier(LinearClassifierMixin, PassiveAggressive):  # type: ignore[misc]
    """Passive-aggressive classification (Crammer et al. 2006), as scikit-learn had it.

    Parameters
    ----------
    C : aggressiveness: the largest step of PA-I; PA-II divides by 2 C.
    loss : "hinge" (PA-I) or "squared_hinge" (PA-II).
    class_weight : None, "balanced" or a dict; the weight of the positive class of each learner multiplies its steps.
    average : whether to predict with the average of the weights, or from which row on they are averaged.
    n_jobs : the number of threads for classes that are learned one against the rest. It does not change the model.
    fit_intercept, max_iter, tol, early_stopping, validation_fraction, n_iter_no_change : as for `fiol.FIOLClassifier`.
    shuffle, verbose, random_state, warm_start : as for `fiol.FIOLClassifier`.

    Attributes
    ----------
    coef_, intercept_, classes_, n_iter_, t_, n_features_in_, feature_names_in_ : as scikit-learn's.

    Examples
    --------
    >>> from fiol.integrations.passive_aggressive import PassiveAggressiveClassifier
    >>> PassiveAggressiveClassifier(shuffle=False, max_iter=1).fit([[0.0, 1.0], [2.0, 0.0]], [0, 1]).coef_
    array([[ 1., -1.]])
    """

    loss: str = "hinge"
    n_jobs: int | None = None
    class_weight: Any = None
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **PassiveAggressive._parameter_constraints,
        "loss": [StrOptions({"hinge", "squared_hinge"})],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "n_jobs": THREADS,
    }
    _judge = Hinge()
    _kind = "passive-aggressive-classifier"

    def _loss_of_update(self, one: bool) -> Loss:
        return Hinge() if one else SquaredHinge()

    @all_or_nothing
    def fit(self, X: Any, y: Any, coef_init: Any = None, intercept_init: Any = None) -> PassiveAggressiveClassifier:
        """Learn from the rows until the loss no longer improves, from `coef_init` and `intercept_init` if given."""
        self._validate_params()
        start = self._start(coef_init, intercept_init)
        with unless_refused(self):
            X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, reset=self._is_new())
            classes = np.unique(y)
            if hasattr(self, "classes_"):
                del self.classes_
            _check_partial_fit_first_call(self, classes)
            if len(classes) < 2:
                raise ValueError(f"y must have at least two classes, got {len(classes)} class")
            self._new_learners(X, len(classes) if len(classes) > 2 else 1, *start)
            return self._learn(X, y, self.max_iter)

    @all_or_nothing
    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> PassiveAggressiveClassifier:
        """Learn one pass over the rows; `classes` are all classes there will be, required in the first call."""
        first = not hasattr(self, "classes_")
        if first:
            self._before_partial_fit()
            if isinstance(self.class_weight, str):
                raise ValueError("class_weight 'balanced' is not supported for partial_fit: pass the weights as a dict")
        with unless_refused(self):
            X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, reset=first)
            _check_partial_fit_first_call(self, classes)
            if first:
                self._new_learners(X, len(self.classes_) if len(self.classes_) > 2 else 1)
            return self._learn(X, y, 1)

    def _learn(self, X: Any, y: Any, epochs: int) -> PassiveAggressiveClassifier:
        chunk, rng = self._rows(X), check_random_state(self.random_state)
        share = compute_class_weight(self.class_weight, classes=self.classes_, y=y)
        if len(self._learners) == 1:
            rng.randint(1, LARGEST_SEED)  # scikit-learn draws a seed that shuffling does not use
            held = held_out(self, y, StratifiedShuffleSplit)
            tasks = [(0, 1, share[0], rng.randint(LARGEST_SEED))]
        else:
            held, tasks = held_out(self, y, StratifiedShuffleSplit), []
            for k, seed in enumerate(rng.randint(LARGEST_SEED, size=len(self.classes_))):
                own = np.random.RandomState(seed)
                own.randint(1, LARGEST_SEED)
                tasks.append((k, k, 1.0, own.randint(LARGEST_SEED)))

        def go(task: tuple[int, int, float, int]) -> int:
            k, positive, negative_weight, seed = task
            target = np.where(y == self.classes_[positive], 1.0, -1.0)
            sample_weights = np.where(target > 0.0, share[positive], negative_weight)

            def score() -> float:
                w, b = self._last(k)
                return accuracy_score(target[held] > 0.0, safe_sparse_dot(X[held], w) + b > 0.0)

            run = self._epoch_run(k, chunk, target, sample_weights, None if held is None else score)
            return self._pass(run, chunk.rows, epochs, seed, held)

        parallel = Parallel(n_jobs=self.n_jobs, require="sharedmem")
        self.n_iter_ = max(parallel(delayed(go)(task) for task in tasks) if len(tasks) > 1 else map(go, tasks))
        self._publish()
        self._finish(epochs, chunk.rows)
        return self

    def _publish(self) -> None:
        self.coef_, self.intercept_ = self._read_weights()

    def _become(self, header: dict[str, Any], arrays: dict[str, Any], compiled: bool) -> None:
        self.classes_ = estimator_file.classes_of(header, arrays)
        super()._become(header, arrays, compiled)
        wanted = len(self.classes_) if len(self.classes_) > 2 else 1
        if len(self._learners) != wanted or len(self.classes_) < 2:
            raise ValueError(f"it has {len(self._learners)} learners of {len(self.classes_)} classes")


@dataclass(eq=False, repr=False, kw_only=True)
class PassiveAggressiveRegressor(RegressorMixin, PassiveAggressive):  # type: ignore[misc]
    """Passive-aggressive regression (Crammer et al. 2006), as scikit-learn had it.

    Parameters
    ----------
    C : aggressiveness: the largest step of PA-I; PA-II divides by 2 C.
    loss : "epsilon_insensitive" (PA-I) or "squared_epsilon_insensitive" (PA-II).
    epsilon : errors up to it do not count.
    average : whether to predict with the average of the weights, or from which row on they are averaged.
    fit_intercept, max_iter, tol, early_stopping, validation_fraction, n_iter_no_change : as for `fiol.FIOLRegressor`.
    shuffle, verbose, random_state, warm_start : as for `fiol.FIOLRegressor`.

    Attributes
    ----------
    coef_, intercept_, n_iter_, t_, n_features_in_, feature_names_in_ : as scikit-learn's.

    Examples
    --------
    >>> from fiol.integrations.passive_aggressive import PassiveAggressiveRegressor
    >>> PassiveAggressiveRegressor(shuffle=False, max_iter=1, epsilon=0.0).fit([[2.0], [1.0]], [4.0, 2.0]).coef_
    array([1.])
    """

    loss: str = "epsilon_insensitive"
    epsilon: float = 0.1
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **PassiveAggressive._parameter_constraints,
        "loss": [StrOptions({"epsilon_insensitive", "squared_epsilon_insensitive"})],
        "epsilon": [Interval(Real, 0, None, closed="left")],
    }
    _kind = "passive-aggressive-regressor"

    @property
    def _judge(self) -> Loss:  # type: ignore[override]
        return EpsilonInsensitive(self.epsilon)

    def _loss_of_update(self, one: bool) -> Loss:
        return EpsilonInsensitive(self.epsilon) if one else SquaredEpsilonInsensitive(self.epsilon)

    @all_or_nothing
    def fit(self, X: Any, y: Any, coef_init: Any = None, intercept_init: Any = None) -> PassiveAggressiveRegressor:
        """Learn from the rows until the loss no longer improves, from `coef_init` and `intercept_init` if given."""
        self._validate_params()
        start = self._start(coef_init, intercept_init)
        with unless_refused(self):
            X, y = validate_data(
                self, X, y, accept_sparse="csr", dtype=np.float64, y_numeric=True, reset=self._is_new()
            )
            self._new_learners(X, 1, *start)
            return self._learn(X, y, self.max_iter)

    @all_or_nothing
    def partial_fit(self, X: Any, y: Any) -> PassiveAggressiveRegressor:
        """Learn one pass over the rows."""
        first = not hasattr(self, "coef_")
        if first:
            self._before_partial_fit()
        with unless_refused(self):
            X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, y_numeric=True, reset=first)
            if first:
                self._new_learners(X, 1)
            return self._learn(X, y, 1)

    def _learn(self, X: Any, y: Any, epochs: int) -> PassiveAggressiveRegressor:
        chunk, held, target = self._rows(X), held_out(self, y, ShuffleSplit), np.array(y, np.float64)
        seed = check_random_state(self.random_state).randint(0, LARGEST_SEED)

        def score() -> float:
            w, b = self._last(0)
            return r2_score(target[held], safe_sparse_dot(X[held], w) + b)

        run = self._epoch_run(0, chunk, target, np.ones(chunk.rows), None if held is None else score)
        self.n_iter_ = self._pass(run, chunk.rows, epochs, seed, held)
        self._publish()
        self._finish(epochs, chunk.rows)
        return self

    def _publish(self) -> None:
        w, self.intercept_ = self._read_weights()
        self.coef_ = w[0]

    def predict(self, X: Any) -> Floats:
        """X @ coef_ + intercept_."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return (safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_).ravel()
