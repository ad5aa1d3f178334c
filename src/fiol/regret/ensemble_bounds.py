"""Upper bounds on the loss of an ensemble beyond its members, and beyond any fixed combination of them.

In round t the members have scores z_t, and f_t is the weighted loss of the whole. K is the number of members.

| bound | on the sum of f_t beyond that of | is | for |
|---|---|---|---|
| `bayes` | any member k | -log pi_k - (T - 1) log(1 - switching) | `Bayes`, logistic loss, sample weights up to 1 |
| `stack` | any combination u | d abs(u - v_1)^2 / (2 prior) + E/2 log det(I + C) + E S | `NewtonStack`, two losses |

pi_k is the weight of the member before the first round, 1/K in a new learner, so that the first bound is log K there.
v_1 = (1/K, ..., 1/K) is where the stack starts (a member is the combination with a 1 for it and 0 for the others), and
C is prior / d times the sum of c_t z_t z_t'. S is what it costs to find the best of J stacks that forget at different
rates, by exponential weights that share s_t in round t: log J - sum of log(1 - s_t), at most log(2 J T), and 0 for one
stack. Since log det(I + C) <= K log(1 + trace(C) / K), the second bound grows like K log T.

- Logistic loss: d = E = 1, and c_t = weight_t / 4, the largest curvature. This is the cost of the mixture of *all*
  combinations with a normal prior of mean v_1 and variance `prior` in every direction (Kakade and Ng).
  The stack is Newton's approximation of that mixture.
- Squared loss: d is the unit of the stack, its mean squared error so far, c_t = weight_t, and E the largest weighted
  squared error. This is the cost of least squares, solved before every round, if d is known from the start (Azoury and
  Warmuth). The stack estimates d.

`bayes` is a theorem about the algorithm itself, for any rows. `stack` combines theorems about what the stack
approximates: the proofs do not cover its tolerance of wrong labels and outliers, nor means of scores instead of means
of probabilities. The tests compare the stack with it on streams of several kinds.

References: Kakade and Ng, "Online bounds for Bayesian algorithms", 2004; Azoury and Warmuth, "Relative loss bounds for
on-line density estimation with the exponential family of distributions", 2001; Herbster and Warmuth, "Tracking the best
expert", 1998, for `switching`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fiol.algorithms.ensemble import Ensemble
from fiol.components.combiners import Bayes, NewtonStack
from fiol.components.losses import Loss, Squared
from fiol.components.row import Floats


class EnsembleRecords(NamedTuple):
    """The sums of an ensemble's ledger after `t` rounds, for every recorded t."""

    t: Any  #: rounds
    loss: Floats  #: sum of f_t, the weighted losses of the whole
    members: Floats  #: [record, member] sums of the members' weighted losses; nan for one that has overflowed
    heaviest: Floats  #: the largest sample weight
    unit: Floats  #: d, see the module; 1 where values count as they are
    error: Floats  #: E, see the module; 1 where values count as they are
    products: Floats  #: [record, member, member] sum of c_t z_t z_t'; nan if no bound is known for the loss

    @property
    def best(self) -> Floats:
        """The least of the members' sums."""
        return np.nanmin(self.members, axis=1) if len(self.t) else np.empty(0)

    @property
    def regret(self) -> Floats:
        """The loss of the ensemble beyond the best member; often negative."""
        return self.loss - self.best


def largest_curvature(loss: Loss) -> float:
    """Return c of the module for a sample weight of 1; nan for a loss without a `stack` bound.

    >>> from fiol import Hinge, Logistic
    >>> largest_curvature(Logistic()), largest_curvature(Squared()), largest_curvature(Hinge())
    (0.25, 1.0, nan)
    """
    if isinstance(loss, Squared):
        return 1.0
    return 0.25 * loss.link_factor**2 if loss.is_probability else np.nan


def pool_cost(stack: NewtonStack, t: int) -> float:
    """Return S of the module after t rounds.

    >>> three, one = NewtonStack(), NewtonStack(forgets=[0.0])
    >>> pool_cost(three, 1000) <= np.log(2 * 3 * 1000) <= 1.1 * pool_cost(three, 1000), pool_cost(one, 1000)
    (np.True_, 0.0)
    """
    stacks = np.size(stack.forgets)
    shared = -sum(np.log1p(-stack.common_share(float(s))) for s in range(1, int(t)))  # the last round needs none
    return float(np.log(stacks) + shared) if stacks > 1 else 0.0


def stack_bound(stack: NewtonStack, records: EnsembleRecords, u: Floats) -> Floats:
    """Return `stack` of the module at every record, against the combination u[record] of the members."""
    members, prior = records.members.shape[1], stack.prior
    away = ((u - 1.0 / members) ** 2).sum(axis=1) / (2.0 * prior)
    unit = np.where(records.unit > 0.0, records.unit, 1.0)
    C = prior * records.products / unit[:, None, None]
    known = np.isfinite(C).all(axis=(1, 2))
    C[~known] = 0.0
    sizes = np.linalg.slogdet(np.eye(members) + C)[1]
    pool = np.array([pool_cost(stack, t) for t in records.t])
    return np.where(known, records.unit * away + records.error * (0.5 * sizes + pool), np.nan)


def ensemble_bounds(ensemble: Ensemble, records: EnsembleRecords, first: Floats) -> dict[str, Floats]:
    """Return the known bounds on `EnsembleRecords.regret` at every record; `first` are pi before the first round.

    A ledger that began later than its learner has no `stack`.
    """
    if not len(records.t):
        return {}
    stack = ensemble.stack
    best = np.nanargmin(records.members, axis=1)
    if isinstance(stack, Bayes) and ensemble.loss.is_probability:
        with np.errstate(divide="ignore"):
            found = -np.log(first[best]) - (records.t - 1) * np.log1p(-stack.switching)
        return {"bayes": np.where(records.heaviest <= 1.0, found, np.nan)}
    if isinstance(stack, NewtonStack) and np.isfinite(records.products).all():
        return {"stack": stack_bound(stack, records, np.eye(len(ensemble.updates))[best])}
    return {}
