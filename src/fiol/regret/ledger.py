"""`Ledger`: the regret of a learner, the gain of exact steps, and upper bounds.

In round t the learner has weights w_t, sees a row, and pays F_t(w_t) = f_t(w_t) + r(w_t). Its regret after T rounds is

    R_T = sum of F_t(w_t) - min over w of the sum of F_t(w),

and delta_t = F_t(w_(t+1)) - F_t(w_t) - <F_t'(w_t), w_(t+1) - w_t> >= 0 is what a round gains by not linearizing (the
paper's one-step improvement).

- A **measurement** is the cost of one round (`measuring.py`, with the compiled rounds in `kernels.py`).
- The **ledger** sums measurements and records the sums (this file and `records.py`).
- An **audit** compares the regret with the bounds (`auditing.py`, `bounds.py`), against the best weights in hindsight
  (`comparator.py`).
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from fiol.algorithms.ensemble import Ensemble
from fiol.algorithms.plan import Plan
from fiol.algorithms.update import Update
from fiol.components.regularizers import Regularizer
from fiol.components.row import Floats
from fiol.engine.centering import Centering
from fiol.features.chunk import Chunk
from fiol.features.transaction import Transaction
from fiol.learner import Learner
from fiol.regret.bounds import bounds_of
from fiol.regret.comparator import Comparator
from fiol.regret.measuring import Measurement, choose_measuring
from fiol.regret.records import Records

Self = TypeVar("Self", bound="Ledger")


class Ledger:
    """Measure the cost of every round of a learner from now on, and record the sums.

    Parameters
    ----------
    learner : any `Learner`; the ledger does not change its weights. `learner.ledger` is this ledger. For an `Ensemble`
        it is an `EnsembleLedger`, whose records have the losses of the ensemble and of all members.
    comparator : the weights w* to compare with, a result of `best_in_hindsight` or an array; without one there is no
        regret, distance or bound.
    every : number of rounds between records. The sums include all rounds.

    A round costs time in the entries of its row for the last iterate in Euclidean geometry with l1, ridge or both
    of raw weights; for everything else a round costs time in all weights. Penalties in units of features (`ScaleFree`)
    are measured with the units of the round. Use a ledger in a `with` statement, or `close()` it, to stop
    measuring.

    The ledger is the observer of the learner's engine (`fiol.engine.observer.Observer`): `observe` makes the rounds of
    every chunk and measures them (`fiol.regret.measuring`), and `add` sums the measurements. When the engine rolls
    rounds back, `rewind` removes their measurements.

    Examples
    --------
    >>> import numpy as np
    >>> from fiol import FIOL, L1, Constant, Learner, Squared
    >>> from fiol.regret import Ledger
    >>> learner = Learner(FIOL(Squared(), L1(0.1), Constant(0.5)), intercept=False)
    >>> with Ledger(learner, comparator=[0.9, 0.0], every=1) as ledger:
    ...     scores = learner.learn([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [1.0, 0.0, 1.0])
    >>> ledger.records.t, ledger.records.nonzeros
    (array([1, 2, 3]), array([1, 1, 2]))
    >>> ledger.records.regret.round(4), ledger.records.improvement.round(4)
    (array([0.405 , 0.345 , 0.5562]), array([0.075 , 0.075 , 0.1441]))
    """

    def __new__(cls, learner: Any, *arguments: Any, **options: Any) -> Ledger:
        if cls is Ledger and isinstance(learner, Learner) and isinstance(learner.update, Ensemble):
            from fiol.regret.ensemble_ledger import EnsembleLedger  # imported here: it is a subclass

            return super().__new__(EnsembleLedger)
        return super().__new__(cls)

    def __init__(self, learner: Learner, comparator: Comparator | Any = None, every: int = 1000) -> None:
        if not isinstance(learner, Learner):
            raise TypeError(f"learner must be a fiol.Learner, got {learner!r}")
        if int(every) != every or every < 1:
            raise ValueError(f"every must be an integer of at least 1, got {every!r}")
        with learner.core.lock:
            self._ride_along(learner, comparator, every)

    def _ride_along(self, learner: Learner, comparator: Comparator | Any, every: int) -> None:
        update = learner.update
        engine: Any = learner.engine
        assert isinstance(update, Update)  # an ensemble has an `EnsembleLedger`
        if engine.observer is not None:
            raise ValueError("this learner has a ledger already: close() it first")
        check_learner(learner, engine.plan, comparator)
        self.learner, self.engine, self.update = learner, engine, update
        regularizer = update.geometry.reparametrization().transform_regularizer(update.regularizer)
        self.compared = comparator is not None
        best, intercept_best = entered_comparator(learner, comparator)
        self.best_penalty = whole_value(regularizer, best)
        self.measuring = choose_measuring(engine, engine.plan.problem.geometry, regularizer, best, intercept_best)
        self.best, self.intercept_best = best, intercept_best
        self.eta, self.gamma = update.step_size.eta, update.loss.convexity
        self.started, self.every = learner.rounds, int(every)  # rounds before the ledger
        self.sums = np.zeros(len(Records._fields))  # those of `Records` after the last round
        self.sums[Records._fields.index("convexity")] = np.inf
        self.loss_after = 0.0  # f_t(w_(t+1)) of the last round
        self.recorded: list[Floats] = []
        engine.set_observer(self)

    def close(self) -> None:
        """Stop measuring; the records stay."""
        if self.engine.observer is self:
            self.engine.set_observer(None)

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def records(self) -> Records:
        """The sums at every recorded round, and after the last one; without a comparator, nan where they need one."""
        with self.learner.core.lock:
            done = not self.sums[0] or (len(self.recorded) > 0 and self.recorded[-1][0] == self.sums[0])
            rows = np.array(self.recorded if done else [*self.recorded, self.sums]).reshape(-1, len(Records._fields))
        s = Records(*rows.T)
        s = s._replace(t=s.t.astype(np.int64), nonzeros=s.nonzeros.astype(np.int64))
        if self.compared:
            return s._replace(comparator=s.comparator + s.t * self.best_penalty)
        unknown = np.full(s.t.shape, np.nan)
        return s._replace(**dict.fromkeys(("distance", "comparator", "anchor", "first_distance"), unknown))

    @property
    def bounds(self) -> dict[str, Floats]:
        """The upper bounds on the regret at every record that apply, see `fiol.regret.bounds`."""
        return bounds_of(self.update, self.records, self.learner.intercept_fitted) if self.compared else {}

    # As the engine's observer.

    def center(self, centering: Centering) -> None:
        """Center rows by these means from now on, and targets by this origin, as the comparator must see them."""
        known, best = centering.features < self.best.shape[0], self.best.copy()
        centering.add_to_missing(best, -1.0)
        shift = centering.sums[known] @ best[centering.features[known]] / max(centering.rows, 1.0)
        self.measuring.intercept_best = self.intercept_best + float(shift - centering.origin[0])
        if (centering.missing >= 0).any():
            self.measuring.compare_with(best)

    def observe(self, chunk: Chunk, y: Floats, sample_weights: Floats) -> Floats:
        """Make the rounds of a chunk and measure them; return the score of each row before its round."""
        before, mark = self.engine.rounds, self.mark()
        if self.measuring.looks_back:
            with Transaction(self.engine):
                scores, rounds = self.measuring.rounds(chunk, y, sample_weights)
                self.add(rounds)
            return scores
        try:
            scores, rounds = self.measuring.rounds(chunk, y, sample_weights)
            self.add(rounds)
        except BaseException:
            self.rewind(mark)
            if self.engine.rounds > before:  # interrupted right after them
                self.add(self.measuring.measured)
            raise
        return scores

    @property
    def row_cost(self) -> float:
        """The cost of measuring a round besides the entries of its row."""
        return self.measuring.row_cost

    def mark(self) -> Any:
        """Return a token for `rewind`."""
        return self.sums, self.loss_after, len(self.recorded)

    def rewind(self, mark: Any) -> None:
        """Undo all measurements since the mark."""
        self.sums, self.loss_after, recorded = mark
        del self.recorded[recorded:]

    def add(self, rounds: Floats) -> None:
        """Add measurements, a row per round, and record the sums where that is due."""
        if not len(rounds):
            return
        m, old, n = Measurement(*rounds.T), Records(*self.sums), len(rounds)
        t = old.t + np.arange(1.0, n + 1)
        eta = np.array([self.eta(s) for s in self.started + t])
        begins = not old.t
        before = np.concatenate([[np.inf if begins else old.eta], eta[:-1]])
        change = m.loss - np.concatenate([[self.loss_after], m.loss_after[:-1]])
        if begins:
            change[0] = 0.0
        slopes = m.slope**2 * m.square
        shrunk = 1.0 + self.gamma * m.weight * eta * m.square
        new = Records(
            t=t,
            loss=running(old.loss, m.loss),
            penalty=running(old.penalty, m.penalty),
            improvement=running(old.improvement, m.improvement),
            nonzeros=m.nonzeros,
            gradient=np.maximum(old.gradient, np.maximum.accumulate(m.gradient)),
            distance=np.maximum(old.distance, np.maximum.accumulate(m.distance)),
            variation=running(old.variation, np.abs(change)),
            comparator=running(old.comparator, m.comparator_loss),
            eta=eta,
            growing=np.maximum(old.growing, np.maximum.accumulate(1.0 * (eta > before))),
            convexity=np.minimum(old.convexity, np.minimum.accumulate(m.convexity)),
            etas=running(old.etas, eta),
            anchor=running(old.anchor, m.distance * (1.0 / eta - 1.0 / before)),
            squares=running(old.squares, 0.5 * eta * m.gradient**2 / m.convexity),
            explicit=running(old.explicit, 0.5 * eta * slopes),
            implicit=running(old.implicit, 0.5 * eta * slopes / shrunk),
            change=running(old.change, change),
            first_distance=np.full(n, m.distance[0] if begins else old.first_distance),
            first_penalty=np.full(n, m.penalty[0] if begins else old.first_penalty),
            first_loss=np.full(n, m.loss[0] if begins else old.first_loss),
            last=m.loss_after + m.penalty_after,
        )
        sums = np.stack(new, axis=1)
        self.recorded += list(sums[t % self.every == 0.0])
        self.sums, self.loss_after = sums[-1].copy(), m.loss_after[-1]


def running(start: Any, values: Floats) -> Floats:
    """Return the running sums of `start` and the values; the bits do not depend on how values are cut into calls.

    >>> running(1.0, np.array([1.0, 2.0]))
    array([2., 4.])
    """
    return np.cumsum(np.concatenate([[start], values]))[1:]


def check_learner(learner: Learner, plan: Plan, comparator: Any) -> None:
    """Raise TypeError for a learner whose weights cannot be compared."""
    if learner.classes is not None:
        raise TypeError(f"a ledger adds up the losses of one score, {learner.update.loss!r} has one per class")
    if plan.first_weight(1) != 0.0 and learner.width is None:
        name = type(learner.update.geometry).__name__
        raise TypeError(
            f"weights in {name} do not start at 0, so a ledger needs to know how many there are: n_features"
        )
    if comparator is not None and plan.units.scaled:
        raise TypeError(
            "a comparator pays the same penalty in every round, and in units of features it grows with their largest "
            "values: use ScaleFree(..., raw_penalty=1)"
        )
    if comparator is not None and learner.max_features is not None:
        raise TypeError("max_features renumbers the features, so their weights cannot be compared: use bits")


def entered_comparator(learner: Learner, comparator: Any) -> tuple[Floats, float]:
    """Return the comparator's weights and intercept in the working geometry."""
    if comparator is None:
        return np.zeros(0), 0.0
    w, intercept = comparator_weights(comparator)
    if learner.width is not None and w.shape[0] != learner.width:
        raise ValueError(f"comparator has {w.shape[0]} weights, but there are {learner.width} features")
    if intercept and not learner.intercept_fitted:
        raise ValueError("comparator has an intercept, but the learner has none")
    geometry = learner.update.geometry
    geometry.check_domain(w)
    return geometry.reparametrization().transform_weights(w), intercept


def comparator_weights(comparator: Any) -> tuple[Floats, float]:
    """Return weights and intercept of a comparator, or of an array of weights."""
    if isinstance(comparator, Comparator):
        return comparator.w, comparator.intercept
    w = np.asarray(comparator)
    if w.ndim != 1 or w.dtype.kind not in "iuf" or not np.isfinite(w).all():
        raise ValueError(f"comparator must be a vector of finite weights, got {comparator!r}")
    return w.astype(np.float64), 0.0


def whole_value(regularizer: Regularizer, w: Floats) -> float:
    """Return r(w), infinite outside a box."""
    return float(sum(regularizer.value(v, i) for i, v in enumerate(w.tolist())))
