"""What every round of a learner cost: measured round by round, beside the learning.

Two ways to the same numbers. `Incremental` keeps sums over all weights up to date, so that a round costs time in the
entries of its row and the logarithm of the number of weights; it is for the last iterate in Euclidean geometry with
an l1 or ridge penalty, or both. `Exhaustive` looks at every weight before and after every round, for everything else.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from fiol.components.geometries import Euclidean, Geometry
from fiol.components.regularizers import Box, Regularizer
from fiol.components.row import Floats
from fiol.engine.engine import Engine
from fiol.intake.chunk import Chunk
from fiol.update.anchors import LastIterate
from fiol.update.laziness import ByRidge, ByScale, BySums, Eager, Resting, UpToDate
from fiol.update.plan import Plan
from fiol.update.state import Books, Sums, aligned

#: What is measured in round t, with w the weights before it and w_new those after.
COLUMNS = (
    "loss",  # f(w)
    "penalty",  # r(w)
    "improvement",  # delta = (f + r)(w_new) - (f + r)(w) - <f'(w) + r'(w), w_new - w>
    "gradient",  # dual norm of f'(w) + r'(w)
    "distance",  # B(w*, w)
    "nonzeros",  # of w_new, the intercept not counted
    "loss_after",  # f(w_new)
    "penalty_after",  # r(w_new)
    "slope",  # absolute derivative of the loss by the score, at w
    "square",  # |x|^2, the intercept's 1 included
    "comparator_loss",  # f(w*)
    "weight",  # of the sample
    "convexity",  # c with B >= c/2 norm^2 between w and w_new
)


class Account(Protocol):
    """Where measurements go."""

    def add(self, rounds: Floats) -> None:
        """Take what was measured: a row per round, a column for each of `COLUMNS`."""

    def mark(self) -> Any:
        """Where the account stands."""

    def rewind(self, mark: Any) -> None:
        """Go back to where it stood: the rounds since then are taken back."""


class Accountant:
    """Learns in place of an engine's own loop, and hands what it measured to an account.

    `regularizer`, `best` and `bias_best` are the penalty and the comparator w* as the working geometry sees them.
    """

    def __init__(
        self,
        engine: Engine,
        geometry: Geometry,
        regularizer: Regularizer,
        best: Floats,
        bias_best: float,
        account: Account,
    ) -> None:
        self.engine, self.geometry, self.regularizer = engine, geometry, regularizer
        self.best, self.bias_best, self.account = best, bias_best, account

    def learn(self, chunk: Chunk, y: Floats, weight: Floats) -> Floats:
        """A round per row, for which the engine has room; the score of each before its round."""
        raise NotImplementedError


def make_accountant(
    engine: Engine, geometry: Geometry, regularizer: Regularizer, best: Floats, bias_best: float, account: Account
) -> Accountant:
    """The cheapest exact accountant for an engine."""
    kind = Incremental if is_incremental(engine.plan, regularizer) else Exhaustive
    return kind(engine, geometry, regularizer, best, bias_best, account)


def padded(w: Floats, features: int) -> Floats:
    """The weights of so many features; those there are none for have 0.

    >>> padded(np.array([1.0, 2.0]), 3), padded(np.array([1.0, 2.0]), 1)
    (array([1., 2., 0.]), array([1.]))
    """
    found = np.zeros(features)
    found[: w.shape[0]] = w[:features]
    return found


def is_incremental(plan: Plan, regularizer: Regularizer) -> bool:
    """Whether sums over all weights tell what a penalty thinks of them, and absent features move by a common law.

    >>> from fiol import COMID, FIOL, L1, RDA, Entropy, Logistic
    >>> from fiol.update.plan import make_plan
    >>> updates = FIOL(Logistic(), L1(0.1)), RDA(Logistic(), L1(0.1)), COMID(Logistic(), L1(0.1), geometry=Entropy())
    >>> [is_incremental(make_plan(update), update.regularizer) for update in updates]
    [True, False, False]
    """
    parts = regularizer.strengths()
    plain = isinstance(plan.problem.geometry, Euclidean) and isinstance(plan.anchor, LastIterate)
    known = (UpToDate, Resting, BySums, ByScale, ByRidge)
    return (
        plain
        and not plan.regularizer_step.pushes
        and isinstance(plan.laziness, known)
        and not isinstance(plan.laziness, Eager)
        and not isinstance(regularizer, Box)
        and parts is not None
        and all(isinstance(part, float) for part in parts)
    )


class Incremental(Accountant):
    """Running sums over all weights, see `fiol.update.state.Books`."""

    seen: tuple[Any, ...] = ()

    def learn(self, chunk: Chunk, y: Floats, weight: Floats) -> Floats:
        engine = self.engine
        stale = self.is_stale()
        if stale:
            self.books = empty_books(padded(self.best, engine.state.w.shape[0]))
        if self.books.before.shape[0] < engine.room.shape[1]:
            self.books = self.books._replace(before=aligned(engine.room.shape[1], np.float64))
        scores, out = np.empty(chunk.rows), np.ones((chunk.rows, len(COLUMNS)))
        l1, l2 = self.regularizer.strengths()  # type: ignore[misc]
        far = float(self.best @ self.best)
        arguments = self.books, l1, l2, far, self.bias_best, stale, scores, out
        stale = engine.call("account_rows", *engine.plans, chunk, y, weight, *engine.memory, *arguments)
        self.seen = () if stale else (engine.state, engine.ticks.tobytes())
        self.account.add(out)
        return scores

    def is_stale(self) -> bool:
        """Whether anything happened to the engine since its last accounted round."""
        return not self.seen or self.seen[0] is not self.engine.state or self.seen[1] != self.engine.ticks.tobytes()


def empty_books(best: Floats) -> Books:
    """Books for as many features as the comparator has weights."""
    features = best.shape[0]
    end, key = aligned(features, np.float64), aligned(features, np.float64)
    queue, seat = aligned(features, np.int32), aligned(features, np.int32)
    sums, near, waiting, before = np.zeros(len(Sums._fields)), np.zeros(1), np.zeros(1, np.int64), np.zeros(0)
    return Books(sums, best, end, near, queue, key, seat, waiting, before)


class Exhaustive(Accountant):
    """Every weight before and after every round, with each formula as it is written in the paper."""

    def learn(self, chunk: Chunk, y: Floats, weight: Floats) -> Floats:
        scores, out = np.empty(chunk.rows), np.empty((chunk.rows, len(COLUMNS)))
        for t in range(chunk.rows):
            row = chunk.row_block(t, t + 1)
            scores[t] = self.measure(row, y[t : t + 1], weight[t : t + 1], out[t])
        self.account.add(out)
        return scores

    def measure(self, row: Chunk, y: Floats, weight: Floats, out: Floats) -> float:
        """One round; writes its measurements."""
        engine, loss, h = self.engine, self.engine.plan.problem.loss, weight[0]
        here = engine.state.w.shape[0]
        features = max(here, self.best.shape[0])  # the comparator may know features that are yet to come
        w, best = padded(self.weights_before(row), features), padded(self.best, features)
        bias, has_bias = engine.bias_weight(False), engine.bias.w.shape[0] > 0
        z = float(engine.learn_plainly(row, y, weight)[0])
        w_new, bias_new = padded(engine.weights(here, False), features), engine.bias_weight(False)
        x = np.zeros(features)
        x[row.indices] = row.data

        slope = h * loss.grad(z, y[0])
        gradient = slope * x + slopes(self.regularizer, w)
        value, value_new = h * loss.value(z, y[0]), h * loss.value(float(x @ w_new) + bias_new, y[0])
        penalty, penalty_new = values(self.regularizer, w), values(self.regularizer, w_new)
        linear = float(gradient @ (w_new - w)) + slope * (bias_new - bias)
        norm, distance = self.geometry.dual_norm(gradient), self.geometry.distance(best, w)
        convexity = self.geometry.strong_convexity(w, w_new)
        if has_bias:  # a Euclidean coordinate beside the others
            away = self.bias_best - bias
            norm, distance = float(np.hypot(norm, slope)), distance + 0.5 * away * away
            convexity = min(convexity, 1.0)
        z_best = float(x @ best) + self.bias_best * has_bias
        out[:] = (
            value,
            penalty,
            value_new + penalty_new - value - penalty - linear,
            norm,
            distance,
            np.count_nonzero(w_new),
            value_new,
            penalty_new,
            abs(slope),
            float(x @ x) + has_bias,
            h * loss.value(z_best, y[0]),
            h,
            convexity,
        )
        return z

    def weights_before(self, row: Chunk) -> Floats:
        """All weights as the round finds them: steps may rescale a weight when its feature outgrows its maximum."""
        engine, plan = self.engine, self.engine.plan
        w = engine.weights(engine.state.w.shape[0], False)
        for i, x in zip(row.indices, row.data, strict=True):
            w[i] = plan.anchor.ready(plan, engine.state, i, x, w[i])
        return w


def values(regularizer: Regularizer, w: Floats) -> float:
    """r(w).

    >>> from fiol import ElasticNet
    >>> values(ElasticNet(0.5, 2.0), np.array([1.0, -2.0]))
    6.5
    """
    parts = regularizer.strengths()
    if parts is None:
        return float(sum(regularizer.value(v, i) for i, v in enumerate(w.tolist())))
    return float(np.sum(parts[0] * np.abs(w)) + 0.5 * np.sum(parts[1] * w * w))


def slopes(regularizer: Regularizer, w: Floats) -> Floats:
    """A subgradient of r at w, the middle one at kinks.

    >>> from fiol import ElasticNet
    >>> slopes(ElasticNet(0.5, 2.0), np.array([1.0, 0.0]))
    array([2.5, 0. ])
    """
    parts = regularizer.strengths()
    if parts is None:
        return np.array([regularizer.slope(v, 0, i) for i, v in enumerate(w.tolist())])
    return np.asarray(parts[0] * np.sign(w) + parts[1] * w)
