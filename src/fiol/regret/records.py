"""`Records`: sums over rounds, and extremes for the bounds, that a ledger has recorded."""

from __future__ import annotations

from typing import Any, NamedTuple

from fiol.components.row import Floats


class Records(NamedTuple):
    """The sums of a ledger after `t` rounds, for every recorded t.

    f_t is the weighted loss of round t, r the penalty, w_t the weights before the round, w* the comparator.
    """

    t: Any  #: rounds
    loss: Floats  #: sum of f_t(w_t)
    penalty: Floats  #: sum of r(w_t)
    improvement: Floats  #: sum of delta_t
    nonzeros: Any  #: weights that are not 0 after the round
    gradient: Floats  #: G, the largest dual norm of f_t'(w_t) + r'(w_t)
    distance: Floats  #: D^2, the largest B(w*, w_t)
    variation: Floats  #: sum of abs(f_t(w_t) - f_(t-1)(w_t)): how much the loss changes from round to round
    comparator: Floats  #: sum of f_t(w*) + r(w*)
    eta: Floats  #: step size of the last round
    growing: Floats  #: 1 if a step was ever longer than the one before
    convexity: Floats  #: c, the least strong convexity of the geometry between w_t and w_(t+1)
    etas: Floats  #: sum of eta_t
    anchor: Floats  #: sum of B(w*, w_t) (1/eta_t - 1/eta_(t-1))
    squares: Floats  #: sum of eta_t G_t^2 / (2 c_t)
    explicit: Floats  #: sum of eta_t S_t / 2
    implicit: Floats  #: sum of eta_t S_t / (2 (1 + gamma_t eta_t X_t))
    change: Floats  #: sum of f_t(w_t) - f_(t-1)(w_t)
    first_distance: Floats  #: B(w*, w_1)
    first_penalty: Floats  #: r(w_1)
    first_loss: Floats  #: f_1(w_1)
    last: Floats  #: F_t(w_(t+1)) of the last round

    @property
    def objective(self) -> Floats:
        """The sum of f_t(w_t) + r(w_t)."""
        return self.loss + self.penalty

    @property
    def regret(self) -> Floats:
        """The objective beyond the comparator's. For w* the best weights of all T rounds, the last one is R_T."""
        return self.objective - self.comparator
