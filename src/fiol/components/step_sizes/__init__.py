"""Step sizes: how far a weight may move in a round.

The step of weight i in round t is eta(t) / h_i. A `Schedule` has one step for all weights (h_i = 1); an `Adaptive`
step size has a metric h_i per feature, from the statistics it keeps of the feature. They are frozen while the feature
is absent.
"""

from fiol.components.step_sizes.coin_betting import CoinBetting
from fiol.components.step_sizes.merge import MergedShards, merge_shards
from fiol.components.step_sizes.protocol import (
    Adaptive,
    Schedule,
    StepSize,
    scale_of,
    shrink_for,
    states_its_rule,
)
from fiol.components.step_sizes.rule import LARGEST_SUM, LONGEST, STEEPEST, Observation, StepOutcome, StepRule
from fiol.components.step_sizes.scale_free import ScaleFree, ScaleFreeSteps
from fiol.components.step_sizes.schedules import Anytime, Constant, FixedHorizon, Inverse, Polynomial
from fiol.components.step_sizes.sums import AdaGrad, Curvature, Normalized, WalkingCurvature

__all__ = [
    "LARGEST_SUM",
    "LONGEST",
    "STEEPEST",
    "AdaGrad",
    "Adaptive",
    "Anytime",
    "CoinBetting",
    "Constant",
    "Curvature",
    "FixedHorizon",
    "Inverse",
    "MergedShards",
    "Normalized",
    "Observation",
    "Polynomial",
    "ScaleFree",
    "ScaleFreeSteps",
    "Schedule",
    "StepOutcome",
    "StepRule",
    "StepSize",
    "WalkingCurvature",
    "merge_shards",
    "scale_of",
    "shrink_for",
    "states_its_rule",
]
