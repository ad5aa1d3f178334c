"""Coin betting: steps that grow with what a weight has won, with no step size to choose."""

from __future__ import annotations

from math import sqrt
from typing import Any, ClassVar

import numpy as np

from fiol.components.component import require
from fiol.components.row import Floats
from fiol.components.step_sizes.protocol import Adaptive
from fiol.components.step_sizes.rule import LARGEST_SUM, StepOutcome, add_to_sum


class CoinBetting(Adaptive):
    """h_i = (D + G) / (endowment D + reward / D): every weight is a bet on the sign of its next pull.

    With pulls beta x_i of feature i, G is the sum of abs(beta x_i), D the largest abs(beta) (and at least 1: `slope`),
    and reward the sum of beta x_i w_i, the gain so far, never below 0. At the `Origin`, where a weight is its step
    times the sum of its pulls, with gradient steps (`LinearizedLoss`), that is for abs(beta) <= 1

        w_i = (endowment + reward) (sum of beta x_i) / (1 + G)

    the part of the money that a gambler stakes who believes in the frequencies so far (Orabona and Pal 2016; the steps
    of COCOB, Orabona and Tommasi 2017): weights grow as fast as they win, and no step size has to be chosen. In
    `ScaleFree`, values are divided by their largest so far, M, before they count (M (M + G) in place of 1 + G), also
    those of the row whose score is computed; D is at least a quarter of the unit g of the loss's derivatives, and the
    endowment has the unit of scores, that of steps times D. `fiol.Coin` puts the three together.

    With a joint loss, the weights of a feature make one bet in as many dimensions: lengths for absolute values, inner
    products for products.

    Parameters
    ----------
    endowment : float
        The money of every feature before its first bet.

    Examples
    --------
    >>> step_size = CoinBetting()
    >>> s = [0.0, 0.0, 0.0]
    >>> step_size.observe_step(s, StepOutcome(1.0, 0.0, pull=0.5, gain=0.0))
    >>> step_size.observe_step(s, StepOutcome(1.0, 0.0, pull=0.5, gain=0.25))
    >>> s, step_size.h(s, 1.0), step_size.statistics()
    ([1.0, 1.0, 0.25], 1.6, ('steepest', 'pulled', 'reward'))
    """

    endowment: float = 1.0
    constant: ClassVar[bool] = True
    keeps: ClassVar[tuple[str, ...]] = ("steepest", "pulled", "reward")
    uses_pulls: ClassVar[bool] = True

    def validate(self) -> None:
        require("CoinBetting.endowment", self.endowment, 1e-100, 1e100)

    def eta(self, t: float) -> float:
        return 1.0

    def h(self, s: Floats, unit: float) -> float:
        largest = 1.0 * s[0]
        if largest == 0.0:  # no pull yet: nothing is won, nothing is pulled
            return 1.0 / self.endowment
        return (largest + s[1] / sqrt(unit)) / (self.endowment * largest + s[2] / largest)

    def observe_step(self, s: Floats, outcome: StepOutcome) -> None:
        s[0] = max(s[0], outcome.slope, outcome.pull)
        s[1] = add_to_sum(s[1], outcome.pull * abs(outcome.x))
        won = s[2] + outcome.gain / outcome.step_scale if outcome.step_scale > 0.0 else s[2]
        s[2] = min(max(won, 0.0), LARGEST_SUM)

    def merged(self, statistics: list[Any], share: Floats) -> Any:
        found = super().merged(statistics, share)
        found[:, 0] = np.max([record[:, 0] for record in statistics], axis=0)
        return found

    def merged_shards(self, base: Any, records: list[Any]) -> Any:
        found = super().merged_shards(base, records)
        found[:, 0] = np.max([record[:, 0] for record in records], axis=0)
        found[:, 2] = np.maximum(found[:, 2], 0.0)  # one shard may have lost what another has won
        return found
