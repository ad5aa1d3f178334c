"""A learner of one score per class, by a loss of all of them: see `fiol.components.joint_losses`."""

from __future__ import annotations

import copy
import operator
from typing import Any

import numpy as np

from fiol.components.joint_losses import JointLoss
from fiol.components.problem import expect
from fiol.components.regularizers import Regularizer, Unregularized
from fiol.components.row import Floats
from fiol.components.step_sizes import AdaGrad, ScaleFree, StepSize
from fiol.engine.engine import IN_ORDER, Engine
from fiol.intake.chunk import Chunk
from fiol.intake.containers import to_chunk
from fiol.intake.targets import check_sample_weights, one_per_row
from fiol.update.plan import make_plan
from fiol.update.update import Update


class JointLearner:
    """A linear model with one score per class that learns from a stream, one exact round per row.

    Parameters
    ----------
    loss : `Softmax()` or `CrammerSinger()`.
    n_features, n_classes : how many there are; y counts classes from 0.
    regularizer : `Unregularized()` or `Ridge(lam)`. With an l1 part the round is no longer one scalar root.
    step_size : any; the steps of a feature are those of all its weights.
    intercept : whether there is one per class. It is never penalised.

    Examples
    --------
    >>> learner = JointLearner(Softmax(), n_features=2, n_classes=3)
    >>> learner.learn([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [0, 1, 2]).shape, learner.weights.shape
    ((3, 3), (3, 2))
    """

    def __init__(
        self,
        loss: JointLoss,
        n_features: int,
        n_classes: int,
        regularizer: Regularizer = Unregularized(),  # noqa: B008
        step_size: StepSize = ScaleFree(AdaGrad()),  # noqa: B008
        intercept: bool = True,
    ) -> None:
        expect("loss", loss, JointLoss)
        d, classes = operator.index(n_features), operator.index(n_classes)
        if d < 1 or classes < 1:
            raise ValueError(f"there must be features and classes, got {d} and {classes}")
        self.plan, self.intercept_fitted = make_plan(Update(loss, regularizer, step_size)), bool(intercept)
        self.engine = self._new_engine(d, classes)

    def _new_engine(self, features: int, classes: int) -> Engine:
        return Engine(self.plan, features, 0.0, self.intercept_fitted, False, np.float64, scores=classes)

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in vars(self).items() if name != "engine"}
        return {**state, "arrays": {name: a.copy() for name, a in self.engine.arrays().items()}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        arrays = state.pop("arrays")
        vars(self).update(state)
        self.engine = self._new_engine(*arrays["state.w"].shape)
        self.engine.restore(arrays)

    @property
    def loss(self) -> JointLoss:
        """The loss."""
        return self.plan.problem.loss  # type: ignore[return-value]

    @property
    def rounds(self) -> int:
        """Rounds made."""
        return self.engine.rounds

    @property
    def n_features(self) -> int:
        """Features there are."""
        return int(self.engine.state.w.shape[0])

    @property
    def n_classes(self) -> int:
        """Classes there are."""
        return int(self.engine.state.w.shape[1])

    @property
    def weights(self) -> Floats:
        """The weights, exactly up to date, one row per class; a copy."""
        return np.ascontiguousarray(self.engine.weights(self.n_features, False).T)

    @property
    def intercept(self) -> Floats:
        """The intercepts, 0 without any."""
        return self.engine.bias_weight(False)  # type: ignore[no-any-return]

    def learn(self, X: Any, y: Any, sample_weight: Any = None) -> Floats:
        """One round per row, in order; returns the scores of each row before its round."""
        chunk = to_chunk(X, n_features=self.n_features)
        codes = check_codes(y, chunk.rows, self.n_classes)
        return self.learn_canonical(chunk, codes, check_sample_weights(sample_weight, chunk.rows), IN_ORDER)

    def learn_canonical(self, chunk: Chunk, codes: Any, weights: Floats, order: Any) -> Floats:
        """`learn` for rows, codes and weights that have been checked, in `order` unless that is empty."""
        return self.engine.learn(chunk, codes, weights, order)

    def mean_loss(self, scores: Floats, codes: Any, weights: Floats, order: Any) -> float:
        """The weighted mean of the losses of scores; 0 if nothing has weight."""
        return self.engine.mean_loss(scores, codes, weights, order)

    def scores(self, X: Any) -> Floats:
        """The scores X @ weights.T + intercept."""
        chunk = to_chunk(X, n_features=self.n_features)
        return self.engine.scores(chunk, linear=True)

    def widened(self, places: Any, n_classes: int) -> JointLearner:
        """This learner with more classes, of which places[k] is what was class k; new ones start at 0."""
        new = copy.copy(self)
        new.engine.add_scores(places, n_classes)
        return new

    def start_from(self, weights: Any, intercept: Any) -> None:
        """Begin with these weights, before the first round."""
        shift = np.broadcast_to(np.asarray(intercept, np.float64), self.n_classes)
        self.engine.start_from(np.ascontiguousarray(np.asarray(weights, np.float64).T), shift)


def check_codes(y: Any, rows: int, classes: int) -> Any:
    """One class from 0 to `classes` - 1 per row."""
    found = one_per_row("y", y, rows)
    codes = np.ascontiguousarray(found, np.int64)
    wrong = (codes != found) | (codes < 0) | (codes >= classes)
    if wrong.any():
        k = int(np.argmax(wrong))
        raise ValueError(f"y[{k}] must be the number of a class, from 0 to {classes - 1}, got {found[k]}")
    return codes
