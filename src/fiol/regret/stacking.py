"""Measure the regret of a stack against the best fixed combination of its members, and compare it with its bound."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fiol.algorithms.ensemble import Ensemble
from fiol.components.combiners import NewtonStack
from fiol.components.regularizers import Ridge
from fiol.components.row import Floats
from fiol.components.subproblem import expect
from fiol.features.chunk import Chunk
from fiol.features.containers import to_chunk
from fiol.features.feature_space import counted
from fiol.features.targets import check_sample_weights, check_targets
from fiol.learner import Learner
from fiol.regret.auditing import check_horizons
from fiol.regret.comparator import Comparator, best_in_hindsight
from fiol.regret.ensemble_bounds import EnsembleRecords, stack_bound
from fiol.regret.ensemble_ledger import EnsembleLedger


class StackAudit(NamedTuple):
    """The regret of an ensemble after several numbers of rounds, against the best combination for these."""

    t: Any  #: rounds
    regret: Floats  #: the loss of the ensemble beyond that of the best fixed combination of its members
    bound: Floats  #: its upper bound, see `fiol.regret.ensemble_bounds`; nan if no bound is known
    records: EnsembleRecords  #: sums of losses of the ensemble and of every member
    comparators: tuple[Comparator, ...]  #: the best combinations: `w` has a weight for every member


def audit_stack(
    ensemble: Ensemble,
    X: Any,
    y: Any,
    *,
    horizons: int | Sequence[int] = 1,
    sample_weight: Any = None,
    intercept: bool = True,
    compiled: bool = True,
) -> StackAudit:
    """Measure the loss of an ensemble beyond the best fixed combination of its members, with its K log T bound.

    With the members' scores z_t before round t, the best combination for T rounds is

        u* = argmin_u  sum_t weight_t phi(<u, z_t>; y_t) + d abs(u)^2 / (2 prior),

    where d is the unit of the loss and `prior` that of the stack: without the last term, which is small and fades with
    T, there is none if members separate the rows. The regret is the loss of the ensemble less that of u*, both without
    that term; `fiol.regret.ensemble_bounds` has the bound, which depends on the size of u*.

    Parameters
    ----------
    ensemble : an `Ensemble` with `NewtonStack`, and a loss of one score.
    X, y, sample_weight : the rows, as for `Learner.learn`.
    horizons : numbers of rounds after which to measure, as for `audit`, all in one run.
    intercept : whether the members have an intercept. A combination has none of its own.

    Examples
    --------
    >>> import numpy as np
    >>> from fiol import Logistic, Stacked
    >>> from fiol.regret import audit_stack
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 3)); y = np.where(X[:, 0] + rng.logistic(size=400) > 0.0, 1.0, -1.0)
    >>> found = audit_stack(Stacked(Logistic()), X, y, horizons=[100, 400], compiled=False)
    >>> found.t, bool((found.regret <= found.bound).all()), len(found.comparators[-1].w)
    (array([100, 400]), True, 7)
    """
    expect("ensemble", ensemble, Ensemble)
    stack = ensemble.stack
    if not isinstance(stack, NewtonStack):
        raise TypeError(f"{stack!r} combines no scores: its ledger compares it with every member")
    counted(X)  # raises for containers that are no rows
    chunk = to_chunk(X)
    features = X.shape[1] if hasattr(X, "shape") else int(chunk.indices.max(initial=-1)) + 1
    times = check_horizons(horizons, chunk.rows)
    weight = check_sample_weights(sample_weight, chunk.rows)
    learner = Learner(ensemble, n_features=features, intercept=intercept, compiled=compiled)
    learner.engine.settle_origin()  # at 0: combinations of members have no other constant
    targets = check_targets(y, chunk.rows, learner.engine.plan.problem.loss)
    records, Z = learn_and_record(learner, chunk, targets, weight, times.tolist())
    best, losses = [], []
    for t, unit in zip(times.tolist(), records.unit.tolist(), strict=True):
        strength = Ridge(unit / (stack.prior * t))
        best.append(best_in_hindsight(ensemble.loss, strength, Z[:t], targets[:t], sample_weight=weight[:t]))
        losses.append(best[-1].value - 0.5 * unit / stack.prior * float(best[-1].w @ best[-1].w))
    bound = stack_bound(stack, records, np.array([one.w for one in best]))
    return StackAudit(times, records.loss - np.array(losses), bound, records, tuple(best))


def learn_and_record(
    learner: Learner, chunk: Chunk, targets: Floats, weight: Floats, times: Sequence[int]
) -> tuple[EnsembleRecords, Floats]:
    """Learn from all rows; return records at the given rounds, and the scores of members that stayed finite, else 0."""
    with EnsembleLedger(learner, every=chunk.rows + 1) as ledger:
        ledger.kept = []
        for start, stop in itertools.pairwise([0, *times]):
            learner.learn(chunk.row_block(start, stop), targets[start:stop], weight[start:stop])
            ledger.record()
    records, member_scores = ledger.records, np.concatenate(ledger.kept)
    return records, np.where(np.isfinite(records.members[-1]), member_scores[:, :-1], 0.0)
