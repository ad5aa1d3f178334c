"""Upper bounds on regret: those of the paper, computed from the sums that a ledger recorded.

| bound on R_T | is | for |
|---|---|---|
| `lemma 1` | A + sum of eta_t G_t^2 / (2 c_t) - sum of delta_t | FIOL, any schedule |
| `theorem 1` | D^2 / eta_T + G^2 / (2c) sum of eta_t - sum of delta_t | FIOL, steps that never grow |
| `theorem 2` | sigma B_1 + G^2 (1 + log T) / (2 c sigma) - sum of delta_t | FIOL, `Inverse(sigma)`, ridge >= sigma |
| `proposition 1` | A + r(w_1) + sum of eta_t S_t / (2 (1 + gamma_t eta_t X_t)) | FIOL, Euclidean |
| `variation` | A + F_1(w_1) - F_T(w_(T+1)) + sum from t = 2 of f_t(w_t) - f_(t-1)(w_t) | FIOL, any schedule |
| `linearized` | A + r(w_1) + sum of eta_t S_t / 2 | FIOL and COMID, Euclidean |

Here B_t = B(w*, w_t), and D^2 is the largest of them; A is the sum of B_t (1/eta_t - 1/eta_(t-1)), for constant steps
B_1 / eta; G_t is the dual norm of F_t'(w_t), and G the largest; c the strong convexity of the geometry, gamma_t that
of the loss in the score; X_t = |x_t|^2 and S_t = |f_t'(w_t)|^2. All of these are measured. With the steps of the
paper's Theorem 1, `FixedHorizon` and `Anytime`, made from these D and G, `theorem 1` is at most the paper's
D G sqrt(2T/c) and 2 D G sqrt(T/c), less the improvement. `variation` is due to Campolongo and Orabona, "Temporal
variability in implicit online learning", 2020, who write the maximum over all w where their proof, and we, have w_t.
"""

from __future__ import annotations

import numpy as np

from fiol.algorithms.loss_steps import ImplicitLoss, LinearizedLoss
from fiol.algorithms.regularizer_steps import ImplicitRegularizer
from fiol.algorithms.update import Update
from fiol.components.regularizers import Regularizer
from fiol.components.row import Floats
from fiol.components.step_sizes import Inverse
from fiol.regret.records import Records


def bounds_of(update: Update, records: Records, intercept: bool) -> dict[str, Floats]:
    """Return the bounds that hold for an update at every record of its ledger; see the module."""
    s = records
    plain = not update.step_size.per_feature and not update.anchor.keeps_all_rounds
    if not plain or not isinstance(update.regularizer_step, ImplicitRegularizer):
        return {}
    euclidean, found = update.geometry.unit_metric, {}
    linearized = s.anchor + s.first_penalty + s.explicit
    if isinstance(update.loss_step, ImplicitLoss):
        found["lemma 1"] = s.anchor + s.squares - s.improvement
        falling = np.where(s.growing > 0.0, np.nan, s.distance / s.eta)
        found["theorem 1"] = falling + 0.5 * s.gradient**2 * s.etas / s.convexity - s.improvement
        if isinstance(update.step_size, Inverse) and euclidean and not intercept:
            sigma = update.step_size.sigma
            if least_ridge(update.regularizer) >= sigma:
                log = 0.5 * s.gradient**2 * (1.0 + np.log(s.t)) / (s.convexity * sigma)
                found["theorem 2"] = sigma * s.first_distance + log - s.improvement
        if euclidean:
            found["proposition 1"] = s.anchor + s.first_penalty + s.implicit
        found["variation"] = s.anchor + s.first_loss + s.first_penalty - s.last + s.change
    if euclidean and isinstance(update.loss_step, (ImplicitLoss, LinearizedLoss)):
        found["linearized"] = linearized
    return found


def least_ridge(regularizer: Regularizer) -> float:
    """Return the strong convexity of a penalty."""
    parts = regularizer.strengths()
    return 0.0 if parts is None else float(np.min(parts[1]))
