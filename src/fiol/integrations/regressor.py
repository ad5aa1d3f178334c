"""`FIOLRegressor`, a regression for scikit-learn."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

try:
    from sklearn.base import RegressorMixin
except ImportError as error:
    raise ImportError("fiol.FIOLClassifier needs scikit-learn: pip install fiol[sklearn]") from error
from sklearn.model_selection import ShuffleSplit

from fiol.components.losses import Loss
from fiol.components.row import Floats
from fiol.features.containers import to_chunk
from fiol.features.frames import Frame
from fiol.features.targets import check_targets
from fiol.integrations.estimators import LinearEstimator
from fiol.integrations.fitting import Passes, continued, predictions, r2
from fiol.integrations.validation import (
    NameOptions,
    all_or_nothing,
    is_event,
    one_array,
    unless_refused,
    validate_data,
)
from fiol.learner import Learner
from fiol.names import REGRESSION, component_named, is_component_name


@dataclass(eq=False, repr=False)
class FIOLRegressor(RegressorMixin, LinearEstimator):  # type: ignore[misc]
    """A linear regression that learns row by row with exact steps.

    Every round solves argmin_w loss(<x, w>; y) + penalty(w) + B(w, w_old) / eta; see `fiol.presets`.

    Parameters
    ----------
    loss : "squared_error", "absolute_error", "huber", "quantile", "epsilon_insensitive", "squared_epsilon_insensitive",
        "poisson" (for counts: predicts exp(score)), or a `fiol.Loss`, such as `fiol.Quantile(0.9)`.
    {parameters}

    Notes
    -----
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
    >>> from fiol import FIOLRegressor
    >>> model = FIOLRegressor(max_iter=100, tol=None, random_state=0).fit([[1.0], [2.0], [3.0]], [2.0, 4.0, 6.0])
    >>> model.predict([[4.0]]).round()
    array([8.])
    """

    loss: Any = "squared_error"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearEstimator._parameter_constraints,
        "loss": [NameOptions(REGRESSION), Loss],
    }
    _kind = "regressor"
    learners_: list[Learner] = field(init=False)

    def _inside(self) -> Learner:
        return self.learners_[0]

    def _go_on_with(self, model: Learner) -> None:
        self.learners_ = [model]

    def _loss(self) -> Any:
        return component_named(self.loss, REGRESSION)

    def _takes_positive_targets_only(self) -> bool:
        """Return whether the loss refuses targets below 0."""
        known = not isinstance(self.loss, str) or is_component_name(self.loss, REGRESSION)
        loss = self._loss() if known else None
        return isinstance(loss, Loss) and not loss.accepts(-0.5)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = self._takes_positive_targets_only()
        return tags

    def _more_tags(self) -> dict[str, Any]:  # scikit-learn < 1.6
        return {**super()._more_tags(), "requires_positive_y": self._takes_positive_targets_only()}

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> FIOLRegressor:
        """Learn from the rows until nothing improves, or `max_iter` times, from the start unless `warm_start`.

        X is an array, a scipy sparse matrix or a frame; y has one number per row; sample_weight multiplies the loss.
        """
        self._validate_params()
        again = self._goes_on()
        with unless_refused(self):
            frame = self._frame_to_code(X, first=not again)
            if frame is None:
                X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, y_numeric=True, reset=not again)
            else:
                X, y = self._coded_data(frame, y, not again, numeric=True)
            chunk, sample_weights = to_chunk(X), self._sample_weights(sample_weight, X)
            update = self._update()
            y = check_targets(y, len(y), self._loss())
            held_out = self._held_out(y, sample_weights, ShuffleSplit)
            new = self._new_learner(update, frame is not None)
            if frame is not None:
                chunk = self._taken_in(frame, self.learners_[0] if again else None, new)
            self.learners_ = [continued(self.learners_[0], new) if again else new]
            if not again:
                self._begin()
        self._run(chunk, [(self.learners_[0], y)], sample_weights, held_out, r2)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> FIOLRegressor:
        """Learn one round per row, in order.

        One row of a scipy CSR matrix costs a few microseconds, however many features there are.
        """
        if hasattr(self, "learners_") and self._plain(X):
            try:
                return self._learn(X, y, sample_weight)
            except (KeyError, TypeError, ValueError):  # nothing has been learned; scikit-learn may have its own words
                pass
        first = not hasattr(self, "learners_")
        if first:
            self._first_checks()
        with unless_refused(self) if first else nullcontext():
            frame = self._frame_to_code(X, first)
            if frame is None:
                X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, y_numeric=True, reset=first)
            else:
                X, y = self._coded_data(frame, y, first, numeric=True)
            if first:
                update = self._update()
                self._begin()
                self.learners_ = [self._new_learner(update, frame is not None)]
            return self._learn(X, y, sample_weight, frame)

    def _learn(self, X: Any, y: Any, sample_weight: Any, frame: Frame | None = None) -> FIOLRegressor:
        """Learn one round per row; an error is raised before the first round."""
        learner, loss = self.learners_[0], self._fitted_loss()
        if is_event(X, y, sample_weight):
            target, weight = float(y[0]), 1.0 if sample_weight is None else float(sample_weight[0])
            z = learner.learn_one(X.indices, X.data, target, weight)
            self._note([loss.value(z, target)])
            return self
        chunk = to_chunk(X, n_features=self.n_features_in_) if frame is None else None
        sample_weights = self._sample_weights(sample_weight, X, online=True)
        targets = check_targets(one_array(y, X.shape[0]), X.shape[0], loss)
        self._coef = None  # also if an interrupt comes
        with learner.core.transaction():
            chunk = learner.core.encode_rows(frame) if chunk is None else chunk
            self._note([Passes(learner, chunk, targets, sample_weights)()])
        return self

    def predict(self, X: Any) -> Floats:
        """Return the predicted targets: the scores X @ coef_ + intercept_, or exp(score) for counts."""
        return self._read(X, lambda X: predictions(self.learners_[0], self._chunk(X)))

    @property
    def coef_(self) -> Any:
        """Weights, exactly up to date."""
        w = self._weights_and_intercepts()[0]
        return w if self._sparse else w[0]

    @property
    def intercept_(self) -> Any:
        """The intercept, as an array of one."""
        return self._weights_and_intercepts()[1]
