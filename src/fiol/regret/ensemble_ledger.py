"""The ledger of an ensemble: sums of its loss and of each member's loss, and the bounds between them."""

from __future__ import annotations

from typing import Any

import numpy as np

from fiol.components.combiners import NewtonStack
from fiol.components.row import Floats
from fiol.engine.centering import Centering
from fiol.engine.ensemble.engine import EnsembleEngine
from fiol.engine.ensemble.stack_state import CURVED, FROZEN, SQUARES
from fiol.features.chunk import Chunk
from fiol.learner import Learner
from fiol.regret.ensemble_bounds import EnsembleRecords, ensemble_bounds, largest_curvature
from fiol.regret.ledger import Ledger, check_learner


class EnsembleLedger(Ledger):
    """`Ledger` of a learner of an `Ensemble`, with `EnsembleRecords`.

    The ensemble is compared with its members, so there is no `comparator`; `audit_stack` compares it with the best
    combination of them. Repeated rows, which the stack does not learn from, are not counted.

    >>> from fiol import FIOL, Bayes, Constant, Ensemble, Learner, Logistic
    >>> updates = [FIOL(Logistic(), step_size=Constant(size)) for size in (0.001, 0.1, 10.0)]
    >>> learner = Learner(Ensemble(updates, Bayes()))
    >>> with Ledger(learner, every=20) as ledger:
    ...     scores = learner.learn([[1.0], [-1.0]] * 30, [1, -1] * 30)
    >>> ledger.records.t, ledger.records.members.shape
    (array([20, 40, 60]), (3, 3))
    >>> ledger.bounds["bayes"].round(3), bool((ledger.records.regret <= ledger.bounds["bayes"]).all())
    (array([1.099, 1.099, 1.099]), True)
    """

    engine: EnsembleEngine

    def _ride_along(self, learner: Learner, comparator: Any, every: int) -> None:
        engine: Any = learner.engine
        if engine.observer is not None:
            raise ValueError("this learner has a ledger already: close() it first")
        if comparator is not None:
            raise TypeError("an ensemble is compared with its members: leave comparator out, and see audit_stack")
        check_learner(learner, engine.plan, None)
        self.learner, self.engine, self.ensemble = learner, engine, engine.ensemble
        self.started, self.every = learner.rounds, int(every)  # rounds before the ledger
        self.curvature = (
            largest_curvature(engine.plan.problem.loss) if isinstance(engine.ensemble.stack, NewtonStack) else np.nan
        )
        members = len(self.ensemble.updates)
        self.first, self.first_losses = engine.mixing.copy(), engine.stack.state.losses.copy()
        self.t, self.heaviest, self.error = 0, 0.0, 0.0
        self.products = np.full((members, members), np.nan if np.isnan(self.curvature) or self.started else 0.0)
        #: Scores of all members and of the ensemble in every round, if they are kept; [row, member + 1] each.
        self.kept: list[Floats] | None = None
        self.recorded: list[Any] = []
        engine.set_observer(self)

    def now(self) -> tuple[Any, ...]:
        """Return a row of `EnsembleRecords`."""
        known = self.engine.stack.state
        losses = known.losses - self.first_losses
        unit, error = 1.0, 1.0
        if self.engine.plan.problem.loss.value_unit == 0.0:
            curved = known.ticks[CURVED]
            unit, error = known.ticks[SQUARES] / curved if curved > 0.0 else 0.0, self.error
        members = np.where(known.live > 0.0, losses[1:], np.nan)
        return self.t, losses[0], members, self.heaviest, unit, error, self.products

    @property
    def records(self) -> EnsembleRecords:  # type: ignore[override]
        """The sums at every recorded round, and after the last one."""
        with self.learner.core.lock:
            done = not self.t or (len(self.recorded) > 0 and self.recorded[-1][0] == self.t)
            rows = self.recorded if done else [*self.recorded, self.now()]
        members = len(self.ensemble.updates)
        columns = list(zip(*rows, strict=True)) or [()] * len(EnsembleRecords._fields)
        found = EnsembleRecords(*(np.array(column) for column in columns))
        shaped = {
            "members": found.members.reshape(-1, members),
            "products": found.products.reshape(-1, members, members),
        }
        return found._replace(t=found.t.astype(np.int64), **shaped)

    @property
    def bounds(self) -> dict[str, Floats]:
        """The upper bounds on `records.regret` that apply, see `fiol.regret.ensemble_bounds`."""
        return ensemble_bounds(self.ensemble, self.records, self.first)

    # As the engine's observer.

    def center(self, centering: Centering) -> None:
        """Do nothing: there is no comparator that scores rows."""

    def observe(self, chunk: Chunk, y: Floats, sample_weights: Floats) -> Floats:
        engine, scores = self.engine, np.zeros(chunk.rows)
        if engine.ticks[FROZEN] > 0.0:
            return engine.learn_plainly(chunk, y, sample_weights)
        start = 0
        while start < chunk.rows:
            some = slice(start, min(chunk.rows, start + self.every - self.t % self.every))
            member_scores, before = self.new_scores(some.stop - start), engine.rounds
            try:
                rows = chunk.row_block(start, some.stop), y[some], sample_weights[some]
                scores[some] = engine.learn_plainly(*rows, kept_scores=member_scores)
            finally:  # an interrupt may come in the middle
                n = engine.rounds - before
                self.add(None if member_scores is None else member_scores[:n], y[some][:n], sample_weights[some][:n])
            start = some.stop
        return scores

    def new_scores(self, rows: int) -> Any:
        """Return an array for the scores of these rows, None if they are not kept."""
        needed = self.kept is not None or np.isfinite(self.products).all()
        return np.zeros((rows, len(self.ensemble.updates) + 1)) if needed else None

    def add(self, member_scores: Any, y: Any, weight: Any = None) -> None:  # type: ignore[override]
        """Add the losses of rounds, one per target, and record the sums if that is due."""
        n = len(y)
        if not n:
            return
        self.t += n
        self.heaviest = max(self.heaviest, float(weight.max()))
        if member_scores is not None:
            Z = np.where(self.engine.stack.live > 0.0, member_scores[:, :-1], 0.0)
            self.products = self.products + (Z * (self.curvature * weight)[:, None]).T @ Z
            self.error = max(self.error, float((weight * (member_scores[:, -1] - y) ** 2).max()))
            if self.kept is not None:
                self.kept.append(member_scores)
        if self.t % self.every == 0:
            self.record()

    def record(self) -> None:
        """Record the sums now, after any number of rounds."""
        self.recorded.append(self.now())

    @property
    def row_cost(self) -> float:
        return self.engine.row_cost

    def mark(self) -> Any:
        kept = None if self.kept is None else len(self.kept)
        return self.t, self.heaviest, self.error, self.products, len(self.recorded), kept

    def rewind(self, mark: Any) -> None:
        self.t, self.heaviest, self.error, self.products, recorded, kept = mark
        del self.recorded[recorded:]
        if self.kept is not None:
            del self.kept[kept:]
