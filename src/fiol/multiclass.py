"""Several classes at once, exactly: one score per class, one loss of all scores, one scalar root per round.

For weights W with a column per class the round is

    argmin_W  weight * phi(W'x; y) + lam |W|^2 / 2 + sum_ik h_i (W_ik - V_ik)^2 / (2 eta)

Along W(beta) = (V + step x beta') / (1 + step lam) the scores are the line q + p beta, with one slope p for all
classes, and the minimiser is the beta with beta = -weight phi'(q + p beta). A `JointLoss` knows it.
"""

from __future__ import annotations

import operator
from math import exp, inf, log, sqrt
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from fiol.chunks import Chunk, check_weights, one_per_row, to_chunk
from fiol.component import Component
from fiol.losses import EPS, MARGIN
from fiol.problem import expect, refuse
from fiol.regularizers import Regularizer, Ridge, Unregularized
from fiol.row import Floats
from fiol.scalars import wright_omega
from fiol.state import aligned, make_room
from fiol.step_sizes import AdaGrad, ScaleFree, StepSize, entry


class JointLoss(Component):
    """A convex loss of one score per class; y is the number of the right one.

    | method | meaning |
    |---|---|
    | `value(z, y)` | phi(z; y) |
    | `steepness(z, y)` | the Euclidean norm of its gradient |
    | `duals(q, p, y, out)` | writes the beta with beta = -phi'(q + p beta; y) |
    """

    protocol: ClassVar[dict[str, tuple[str, ...]]] = {
        "value": ("z", "y"),
        "steepness": ("z", "y"),
        "duals": ("q", "p", "y", "out"),
    }
    required: ClassVar[tuple[str, ...]] = ("value", "steepness", "duals")
    #: How scores relate to predictions, see `fiol.Loss`: logit if their softmax is the probability of each class.
    link: ClassVar[str] = "sign"

    if TYPE_CHECKING:

        def value(self, z: Floats, y: int) -> float: ...
        def steepness(self, z: Floats, y: int) -> float: ...
        def duals(self, q: Floats, p: float, y: int, out: Floats) -> None: ...

    def square_slope_unit(self, slopes: float, t: float) -> float:
        """Scores of a few units more than with two classes tell many apart."""
        return (2.0 * MARGIN) ** 2


class Softmax(JointLoss):
    """Cross-entropy: phi(z; y) = log sum_k exp(z_k) - z_y.

    The new probabilities pi solve p pi_k + log(p pi_k) = log p + b_k - l, with b = q + p e_y: each is a Wright omega,
    and the one number l is such that they add up to 1.

    >>> import numpy as np
    >>> beta = np.empty(2)
    >>> Softmax().duals(np.zeros(2), 1.0, 0, beta)
    >>> beta.round(6)  # with two classes this is logistic loss at twice the slope
    array([ 0.337416, -0.337416])
    """

    link: ClassVar[str] = "logit"

    def value(self, z: Floats, y: int) -> float:
        top, others = z.max(), 0.0
        for k in range(z.shape[0]):
            others += exp(z[k] - top)
        return top - z[y] + log(others)

    def steepness(self, z: Floats, y: int) -> float:
        top, mass, rest, squares = z.max(), 0.0, 0.0, 0.0
        for k in range(z.shape[0]):
            e = exp(z[k] - top)
            mass += e
            if k != y:
                rest += e
                squares += e * e
        return sqrt(squares + rest * rest) / mass

    def duals(self, q: Floats, p: float, y: int, out: Floats) -> None:
        top = -inf
        for k in range(q.shape[0]):
            top = max(top, q[k] + p if k == y else q[k])
        mass, squares = 0.0, 0.0
        for k in range(q.shape[0]):
            out[k] = (q[k] + p if k == y else q[k]) - top
            e = exp(out[k])
            mass += e
            squares += e * e
        high = log(mass)  # pi > 0 ...
        low = high - p  # ... and pi < 1
        level = high - p * (squares / (mass * mass))
        for _ in range(100 if p > 0.0 else 0):
            total, slope = 0.0, 0.0
            for k in range(q.shape[0]):
                omega = wright_omega(log(p) + out[k] - level)
                total += omega
                slope += omega / (1.0 + omega)
            if total > p:
                low = level
            else:
                high = level
            new = level + log(total / p) * total / slope if total > 0.0 else -inf
            if abs(new - level) <= 4.0 * EPS * max(1.0, abs(level)):
                break
            if not low < new < high:
                new = 0.5 * (low + high)
                if new in (low, high):
                    break
            level = new
        rest = 0.0
        for k in range(q.shape[0]):
            out[k] = -wright_omega(log(p) + out[k] - level) / p if p > 0.0 else -exp(out[k] - high)
            if k != y:
                rest -= out[k]
        out[y] = rest  # 1 - pi_y, which may be tiny


class CrammerSinger(JointLoss):
    """Multiclass hinge: phi(z; y) = max_k (z_k + 1[k != y]) - z_y (Crammer and Singer 2001).

    The new pull -beta + e_y is the projection of e_y + (q + 1 - e_y) / p on the simplex: one threshold.

    >>> import numpy as np
    >>> beta = np.empty(3)
    >>> CrammerSinger().duals(np.zeros(3), 10.0, 0, beta)
    >>> beta.round(6)
    array([ 0.066667, -0.033333, -0.033333])
    """

    def value(self, z: Floats, y: int) -> float:
        top = z[y]
        for k in range(z.shape[0]):
            if k != y:
                top = max(top, z[k] + 1.0)
        return top - z[y]

    def steepness(self, z: Floats, y: int) -> float:
        return sqrt(2.0) if self.value(z, y) > 0.0 else 0.0

    def duals(self, q: Floats, p: float, y: int, out: Floats) -> None:
        for k in range(q.shape[0]):  # what is projected, times p; from the score of y
            out[k] = (0.0 if k == y else 1.0) + (q[k] - q[y])
        best = out.argmax()
        if p <= 0.0:
            for k in range(q.shape[0]):
                out[k] = 0.0
            out[best] = -1.0
            out[y] = 0.0 if best == y else 1.0
            return
        top, level = out[best], -inf
        for k in range(q.shape[0]):
            out[k] -= top
        out[y] += p
        while True:  # the threshold only rises; what is below it stays out
            total, count = 0.0, 0
            for k in range(q.shape[0]):
                if out[k] > level:
                    total += out[k]
                    count += 1
            if count == 0 or not (total - p) / count > level:
                break
            level = (total - p) / count
        rest = 0.0
        for k in range(q.shape[0]):
            out[k] = -max(out[k] - level, 0.0) / p
            if k != y:
                rest -= out[k]
        out[y] = rest


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
        return self._learn_checked(chunk, codes, check_weights(sample_weight, chunk.rows), np.empty(0, np.int64))

    def _learn_checked(self, chunk: Chunk, codes: Any, weights: Floats, order: Any) -> Floats:
        """`learn` for rows, codes and weights that have been checked, in `order` unless that is empty."""
        longest = int(np.diff(chunk.indptr).max(initial=0))
        scores, rooms = np.zeros((chunk.rows, self.n_classes)), (make_room(longest), make_room(1))
        kernels().learn_joint(self.plan, chunk, order, codes, weights, self.state, self.ticks, *rooms, scores)
        return scores

    def _mean_loss(self, scores: Floats, codes: Any, weights: Floats, order: Any) -> float:
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
    from fiol import kernels  # imported here: `import fiol` loads no compiler

    return kernels
