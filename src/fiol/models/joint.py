"""A learner of one score per class, by a loss of all of them: see `fiol.components.joint_losses`."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np

from fiol.components.component import Component
from fiol.components.joint_losses import JointLoss
from fiol.components.problem import expect, refuse
from fiol.components.regularizers import Regularizer, Ridge, Unregularized
from fiol.components.row import Floats
from fiol.components.step_sizes import AdaGrad, ScaleFree, StepSize, entry
from fiol.intake.chunk import Chunk
from fiol.intake.containers import to_chunk
from fiol.intake.targets import check_sample_weights, one_per_row
from fiol.update.state import aligned, make_room


class JointPlan(Component):
    """What a round does, as the kernels take it."""

    loss: JointLoss
    regularizer: Regularizer
    step_size: StepSize

    def step_of(self, state: JointState, i: int, eta: float) -> float:
        """The step of feature i; 0 for a feature about which nothing is known."""
        return self.step_size.step_of_feature(eta, entry(state.square, i), entry(state.peak, i))


class JointState(NamedTuple):
    """What is remembered; the first axis is the feature, arrays a plan has no use for are empty."""

    w: Any  #: weights, a column per class
    b: Floats  #: intercepts, if there are any
    mark: Floats  #: rounds made when the feature was last seen, where absent features are shrunk
    square: Floats  #: sum of squared gradients
    peak: Floats  #: largest abs(x)
    bias_square: Floats  #: the same for the intercept, whose values are all 1
    bias_peak: Floats


class JointLearner:
    """A linear model with one score per class that learns from a stream, one exact round per row.

    Parameters
    ----------
    loss : `Softmax()` or `CrammerSinger()`.
    n_features, n_classes : how many there are; y counts classes from 0.
    regularizer : `Unregularized()` or `Ridge(lam)`. With an l1 part the round is no longer one scalar root.
    step_size : any; the steps of a feature are those of all its weights. With a ridge, eta(t) must be constant.
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
        expect("regularizer", regularizer, Regularizer)
        expect("step_size", step_size, StepSize)
        ridge = isinstance(regularizer, Ridge) and isinstance(regularizer.lam, float)
        if not ridge and not isinstance(regularizer, Unregularized):
            refuse(
                f"{type(loss).__name__} goes with Ridge(lam) of one strength or Unregularized(), not {regularizer!r}"
            )
        if ridge and not step_size.is_constant():
            refuse(f"Ridge goes with steps of constant eta here, such as AdaGrad(), not {step_size!r}")
        d, classes = operator.index(n_features), operator.index(n_classes)
        if d < 1 or classes < 1:
            raise ValueError(f"there must be features and classes, got {d} and {classes}")
        self.plan, self.intercept_fitted = JointPlan(loss, regularizer, step_size), bool(intercept)
        square, peak = step_size.statistics()
        sizes = (classes * intercept, d * ridge, d * square, d * peak, square, peak)
        self.state = JointState(
            aligned(d * classes, np.float64).reshape(d, classes), *(np.zeros(int(n)) for n in sizes)
        )
        self.state.bias_peak.fill(1.0)
        self.ticks = np.zeros(2)  # rounds, the sum of squared steepness

    @property
    def loss(self) -> JointLoss:
        """The loss."""
        return self.plan.loss

    @property
    def rounds(self) -> int:
        """Rounds made."""
        return int(self.ticks[0])

    @property
    def n_features(self) -> int:
        """Features there are."""
        return int(self.state.w.shape[0])

    @property
    def n_classes(self) -> int:
        """Classes there are."""
        return int(self.state.w.shape[1])

    @property
    def weights(self) -> Floats:
        """The weights, exactly up to date, one row per class; a copy."""
        out = np.empty(self.state.w.shape)
        kernels().read_joint(self.plan, self.state, self.ticks, out)
        return np.ascontiguousarray(out.T)

    @property
    def intercept(self) -> Floats:
        """The intercepts, 0 without any."""
        return self.state.b.copy() if self.intercept_fitted else np.zeros(self.n_classes)

    def learn(self, X: Any, y: Any, sample_weight: Any = None) -> Floats:
        """One round per row, in order; returns the scores of each row before its round."""
        chunk = to_chunk(X, n_features=self.n_features)
        codes = check_codes(y, chunk.rows, self.n_classes)
        return self.learn_canonical(
            chunk, codes, check_sample_weights(sample_weight, chunk.rows), np.empty(0, np.int64)
        )

    def learn_canonical(self, chunk: Chunk, codes: Any, weights: Floats, order: Any) -> Floats:
        """`learn` for rows, codes and weights that have been checked, in `order` unless that is empty."""
        longest = int(np.diff(chunk.indptr).max(initial=0))
        scores, rooms = np.zeros((chunk.rows, self.n_classes)), (make_room(longest), make_room(1))
        kernels().learn_joint(self.plan, chunk, order, codes, weights, self.state, self.ticks, *rooms, scores)
        return scores

    def mean_loss(self, scores: Floats, codes: Any, weights: Floats, order: Any) -> float:
        """The weighted mean of the losses of scores; 0 if nothing has weight."""
        total, mass = kernels().total_loss(self.plan.loss, scores, order, codes, weights)
        return total / mass if mass > 0.0 else 0.0

    def scores(self, X: Any) -> Floats:
        """The scores X @ weights.T + intercept."""
        chunk = to_chunk(X, n_features=self.n_features)
        scores = np.zeros((chunk.rows, self.n_classes))
        kernels().score_joint(self.plan, chunk, self.state, self.ticks, scores)
        return scores

    def widened(self, places: Any, n_classes: int) -> JointLearner:
        """This learner with more classes, of which places[k] is what was class k; new ones start at 0."""
        parts = self.plan.regularizer, self.plan.step_size, self.intercept_fitted
        new = JointLearner(self.plan.loss, self.n_features, n_classes, *parts)
        new.state.w[:, places] = self.state.w
        if self.intercept_fitted:
            new.state.b[places] = self.state.b
        for own, old in zip(new.state[2:], self.state[2:], strict=True):
            own[:] = old
        new.ticks[:] = self.ticks
        return new

    def start_from(self, weights: Any, intercept: Any) -> None:
        """Begin with these weights, before the first round."""
        self.state.w[:] = np.asarray(weights).T
        if self.intercept_fitted:
            self.state.b[:] = intercept


def check_codes(y: Any, rows: int, classes: int) -> Any:
    """One class from 0 to `classes` - 1 per row."""
    found = one_per_row("y", y, rows)
    codes = np.ascontiguousarray(found, np.int64)
    wrong = (codes != found) | (codes < 0) | (codes >= classes)
    if wrong.any():
        k = int(np.argmax(wrong))
        raise ValueError(f"y[{k}] must be the number of a class, from 0 to {classes - 1}, got {found[k]}")
    return codes


def kernels() -> Any:
    """The compiled loops."""
    from fiol.engine import kernels  # imported here: `import fiol` loads no compiler

    return kernels
