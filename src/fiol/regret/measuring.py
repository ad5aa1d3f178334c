"""Measure the cost of every round while a learner learns: one `Measurement` per round.

`MeasuringBySums` keeps sums over all weights up to date, so that a round costs time in the entries of its row and the
logarithm of the number of weights. It supports the last iterate in Euclidean geometry with l1 and ridge penalties.
`MeasuringEveryWeight` reads every weight before and after every round, for all other updates.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from fiol.algorithms.plan import Plan
from fiol.algorithms.state import aligned
from fiol.components.geometries import Geometry
from fiol.components.regularizers import Regularizer
from fiol.components.row import Floats
from fiol.engine.update_engine import UpdateEngine
from fiol.features.chunk import Chunk


class Measurement(NamedTuple):
    """The cost of round t in all its parts, with w the weights before the round and w_new those after.

    An array of measurements has a row per round and a column per field; `Measurement(*rounds.T)` names the columns.
    """

    loss: Any  #: f(w)
    penalty: Any  #: r(w)
    improvement: Any  #: delta = (f + r)(w_new) - (f + r)(w) - <f'(w) + r'(w), w_new - w>
    gradient: Any  #: dual norm of f'(w) + r'(w)
    distance: Any  #: B(w*, w)
    nonzeros: Any  #: of w_new, the intercept not counted
    loss_after: Any  #: f(w_new)
    penalty_after: Any  #: r(w_new)
    slope: Any  #: absolute derivative of the loss by the score, at w
    square: Any  #: |x|^2, the intercept's 1 included
    comparator_loss: Any  #: f(w*)
    weight: Any  #: of the sample
    convexity: Any  #: c with B >= c/2 norm^2 between w and w_new


class Measuring:
    """Run the rounds of an engine, and measure each.

    `regularizer`, `best` and `intercept_best` are the penalty and the comparator w* as the working geometry sees them.
    """

    #: Whether an interrupt may leave a round without a measurement, so that it must be rolled back.
    looks_back: ClassVar[bool] = False
    #: The measurements of the last call, for an interrupt that comes right after it.
    measured: Floats

    @property
    def row_cost(self) -> float:
        """The cost of measuring a round besides the entries of its row, in entries."""
        return 16.0

    def __init__(
        self, engine: UpdateEngine, geometry: Geometry, regularizer: Regularizer, best: Floats, intercept_best: float
    ) -> None:
        self.engine, self.geometry, self.regularizer = engine, geometry, regularizer
        self.best, self.intercept_best = best, intercept_best

    def compare_with(self, best: Floats) -> None:
        """Have these weights of the comparator from now on."""
        self.best = best

    def rounds(self, chunk: Chunk, y: Floats, weight: Floats) -> tuple[Floats, Floats]:
        """Make a round per row, for known features; return the scores before, and the measurements."""
        raise NotImplementedError


def choose_measuring(
    engine: UpdateEngine, geometry: Geometry, regularizer: Regularizer, best: Floats, intercept_best: float
) -> Measuring:
    """Return the cheapest exact measuring of the rounds of an engine."""
    kind = MeasuringBySums if has_sums(engine.plan, regularizer) else MeasuringEveryWeight
    return kind(engine, geometry, regularizer, best, intercept_best)


def with_zeros(w: Floats, features: int) -> Floats:
    """Return the weights padded with zeros for features without a weight.

    >>> with_zeros(np.array([1.0, 2.0]), 3), with_zeros(np.array([1.0, 2.0]), 1)
    (array([1., 2., 0.]), array([1.]))
    """
    found = np.zeros(features)
    found[: w.shape[0]] = w[:features]
    return found


def has_sums(plan: Plan, regularizer: Regularizer) -> bool:
    """Return whether the penalty follows from sums over all weights, and absent weights decay by a common factor.

    >>> from fiol import COMID, FIOL, L1, RDA, Entropy, Logistic, ScaleFree
    >>> from fiol.algorithms.plan import make_plan
    >>> updates = FIOL(Logistic(), L1(0.1)), RDA(Logistic(), L1(0.1)), COMID(Logistic(), L1(0.1), geometry=Entropy())
    >>> [has_sums(make_plan(update), update.regularizer) for update in updates]
    [False, False, False]
    >>> has_sums(make_plan(FIOL(Logistic(), L1(0.1), ScaleFree(raw_penalty=1))), L1(0.1))
    True
    """
    parts = regularizer.strengths()
    return (
        plan.problem.geometry.unit_metric
        and not plan.anchor.keeps_all_rounds
        and not plan.regularizer_step.pushes
        and plan.lazy_update.shared_decay
        and not plan.units.scaled
        and not regularizer.is_bounded()
        and parts is not None
        and all(isinstance(part, float) for part in parts)
    )


class MeasuringBySums(Measuring):
    """Measure by running sums over all weights, see `fiol.regret.kernels`."""

    seen: tuple[Any, ...] = ()

    def compare_with(self, best: Floats) -> None:
        self.best, self.seen = best, ()

    def rounds(self, chunk: Chunk, y: Floats, weight: Floats) -> tuple[Floats, Floats]:
        from fiol.regret.kernels import measure_rows, no_absent  # imported here: `import fiol` loads no compiler

        engine = self.engine
        stale = self.is_stale()
        if stale:
            self.absent = no_absent(with_zeros(self.best, engine.state.w.shape[0]))
        if self.absent.before.shape[0] < engine.buffers.shape[1]:
            self.absent = self.absent._replace(before=aligned(engine.buffers.shape[1], np.float64))
        scores, out = np.empty(chunk.rows), np.ones((chunk.rows, len(Measurement._fields)))
        comparator, self.measured = (float(self.best @ self.best), float(self.intercept_best)), out
        known = engine.memory, self.absent, self.regularizer.strengths(), comparator
        stale = engine.call(measure_rows, *engine.plans, chunk, y, weight, *known, stale, scores, out)
        self.seen = () if stale else (engine.state, engine.ticks.tobytes())
        return scores, out

    def is_stale(self) -> bool:
        """Return whether the engine changed since its last measured round."""
        return not self.seen or self.seen[0] is not self.engine.state or self.seen[1] != self.engine.ticks.tobytes()


class MeasuringEveryWeight(Measuring):
    """Measure by all weights before and after every round, with each formula as in the paper."""

    looks_back: ClassVar[bool] = True

    @property
    def row_cost(self) -> float:
        return 100.0 * (100.0 + self.engine.state.w.shape[0])

    def rounds(self, chunk: Chunk, y: Floats, weight: Floats) -> tuple[Floats, Floats]:
        scores, out = np.empty(chunk.rows), np.empty((chunk.rows, len(Measurement._fields)))
        for t in range(chunk.rows):
            row = chunk.row_block(t, t + 1)
            scores[t], out[t] = self.measure(row, y[t], weight[t])
        return scores, out

    def measure(self, row: Chunk, y: float, weight: float) -> tuple[float, Measurement]:
        """Make one round; return the score before it, and its measurement."""
        engine, loss = self.engine, self.engine.plan.problem.loss
        here = engine.state.w.shape[0]
        features = max(here, self.best.shape[0])  # the comparator may have features that come later
        w, best = with_zeros(self.weights_before(row), features), with_zeros(self.best, features)
        intercept, has_intercept = engine.working_intercept(False), engine.intercept.w.shape[0] > 0
        z = float(engine.learn_plainly(row, np.array([y]), np.array([weight]))[0])
        w_new, intercept_new = with_zeros(engine.weights(here, False), features), engine.working_intercept(False)
        x = np.zeros(features)
        x[row.indices] = row.data

        slope = weight * loss.grad(z, y)
        unit = self.units(features)
        gradient = slope * x + unit * slopes(self.regularizer, unit * w)
        value, value_new = weight * loss.value(z, y), weight * loss.value(float(x @ w_new) + intercept_new, y)
        penalty, penalty_new = values(self.regularizer, unit * w), values(self.regularizer, unit * w_new)
        linear = float(gradient @ (w_new - w)) + slope * (intercept_new - intercept)
        norm, distance = self.geometry.dual_norm(gradient), self.geometry.distance(best, w)
        convexity = self.geometry.strong_convexity(w, w_new)
        if has_intercept:  # a Euclidean coordinate beside the others
            away = self.intercept_best - intercept
            norm, distance = float(np.hypot(norm, slope)), distance + 0.5 * away * away
            convexity = min(convexity, 1.0)
        z_best = float(x @ best) + self.intercept_best * has_intercept
        return z, Measurement(
            value,
            penalty,
            value_new + penalty_new - value - penalty - linear,
            norm,
            distance,
            np.count_nonzero(w_new),
            value_new,
            penalty_new,
            abs(slope),
            float(x @ x) + has_intercept,
            weight * loss.value(z_best, y),
            weight,
            convexity,
        )

    def units(self, features: int) -> Floats:
        """Return the units in which the penalty sees weights in the last round."""
        plan, found = self.engine.plan, np.ones(features)
        if plan.units.scaled:
            records = self.engine.state.statistics.astype(np.float64)
            found[: len(records)] = [plan.units.unit_of(plan.step_size, s) for s in records]
        return found

    def weights_before(self, row: Chunk) -> Floats:
        """Return all weights before the round: steps may rescale a weight when its feature exceeds its maximum."""
        engine, plan = self.engine, self.engine.plan
        w = engine.weights(engine.state.w.shape[0], False)
        for i, x in zip(row.indices, row.data, strict=True):
            w[i] = plan.anchor.weight_for_value(plan, engine.state, i, x, w[i])
        return w


def values(regularizer: Regularizer, w: Floats) -> float:
    """Return r(w).

    >>> from fiol import ElasticNet
    >>> values(ElasticNet(0.5, 2.0), np.array([1.0, -2.0]))
    6.5
    """
    parts = regularizer.strengths()
    if parts is None:
        return float(sum(regularizer.value(v, i) for i, v in enumerate(w.tolist())))
    return float(np.sum(parts[0] * np.abs(w)) + 0.5 * np.sum(parts[1] * w * w))


def slopes(regularizer: Regularizer, w: Floats) -> Floats:
    """Return a subgradient of r at w, the middle one at kinks.

    >>> from fiol import ElasticNet
    >>> slopes(ElasticNet(0.5, 2.0), np.array([1.0, 0.0]))
    array([2.5, 0. ])
    """
    parts = regularizer.strengths()
    if parts is None:
        return np.array([regularizer.slope(v, 0, i) for i, v in enumerate(w.tolist())])
    return np.asarray(parts[0] * np.sign(w) + parts[1] * w)
