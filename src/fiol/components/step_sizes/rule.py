"""The formulas of a step, for a number or for SIMD lanes, and the facts of a round that step sizes use.

A single learner has one `StepRule` of numbers. Members of an ensemble that learn in lanes have one `StepRule` whose
entries are lanes, a lane per member. The functions below are written with the operations of `fiol.components.simd`, so
both run the same formulas; only the loops over memory differ.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from fiol.components.simd import choose, larger, smaller, square_root

#: Sums of squares stop growing here: an infinite sum would leave no difference between steps.
LARGEST_SUM = 1e300
#: Derivatives count as no larger than this before they are squared, so that sums of squares stay finite.
STEEPEST = 1e145
#: A value this many times the largest absolute value of its feature before is an outlier,
OUTLYING = 8.0
#: and learned as this many times the largest one. (A larger factor follows a change of scale in fewer rows, and needs
#: fewer outliers to silence a feature: ten of 1e6 among 20,000 normal rows cost 1.4 % of R2, with 2 they cost 27 %.)
OUTLIER_GROWTH = 1.25
#: Steps in units of a loss are no longer than this, so that their products with penalty strengths are finite.
LONGEST = 1e280
#: The squares of metrics between these are numbers.
SMALLEST_METRIC, LARGEST_METRIC = 1e-150, 1e150


class StepRule(NamedTuple):
    """The coefficients of a step: the step of a weight is size / h with

        h = base + length L + root sqrt(s) + part s

    where L is the squared length of the row and s the sum that is kept of the feature, both in units of features.
    Every entry is a number, or lanes with a number per member. Compiled code takes neither keywords nor defaults here:
    use `rule_of_squares`, `rule_of_curvatures` or `rule_of_length`.
    """

    size: Any  #: the numerator of steps
    base: Any
    root: Any
    part: Any
    length: Any
    squares: Any  #: 1 if s adds up squared gradients, each before its step
    curvatures: Any  #: 1 if s adds up curvatures, each after its step
    adaptive: Any  #: 1 if steps depend on derivatives of the loss
    scale_free: Any  #: 1 if values are divided by the largest absolute value of their feature


def rule_of_squares(size: Any, base: Any, root: Any, part: Any) -> StepRule:
    """Return the rule of steps size / (base + root sqrt(s) + part s), where s adds up squared gradients."""
    return StepRule(size, base, root, part, 0.0, 1.0, 0.0, 1.0, 0.0)


def rule_of_curvatures(size: Any, base: Any, part: Any) -> StepRule:
    """Return the rule of steps size / (base + part s), where s adds up curvatures."""
    return StepRule(size, base, 0.0, part, 0.0, 0.0, 1.0, 1.0, 0.0)


def rule_of_length(size: Any, base: Any, length: Any) -> StepRule:
    """Return the rule of steps size / (base + length L), where L is the squared length of the row."""
    return StepRule(size, base, 0.0, 0.0, length, 0.0, 0.0, 1.0, 0.0)


class StepProperties(NamedTuple):
    """The properties of a step size by which plans and rounds are made."""

    constant: Any  #: whether eta(t) is the same in every round
    uses_pulls: Any  #: whether steps depend on what rounds did, by the pulls of `observe_step`
    penalizes_in_units: Any  #: whether penalties are applied to a weight times the size of its feature's values
    centers_features: Any  #: whether features far from 0 are learned less their mean, see `fiol.engine.centering`


class RoundScale(NamedTuple):
    """How a round counts derivatives and steps."""

    square: Any  #: the squared gradient of a feature with the value x is square x^2
    slopes: Any  #: `Clock.slopes` after the round
    slope: Any  #: the size of beta that counts as 1 where steps depend on pulls
    step_scale: Any  #: the unit of steps


class Observation(NamedTuple):
    """The facts about a feature before the step of a round: the argument of `Adaptive.observe`."""

    x: float  #: the value of the feature
    square: float  #: its squared gradient is square x^2, at the weights before the step
    length: float = 1.0  #: the squared length of the row in units of features, intercept included, if `uses_length`
    unit: float = 1.0  #: the square of the feature's own unit, as in `h`
    step_scale: float = 1.0  #: the unit of steps in this round, for `ScaleFree` alone


class StepOutcome(NamedTuple):
    """The facts about a feature after the step of a round: the argument of `Adaptive.observe_step`.

    With many scores, `pull` is the length of beta, and `gain` the sum of the gains.
    """

    x: float  #: the value of the feature
    curvature: float  #: the step adds curvature x^2 to the metric of a rule that adds up curvatures
    pull: float = 0.0  #: abs(beta), if `uses_pulls`
    gain: float = 0.0  #: beta x w with the weight before the round, if `uses_pulls`
    slope: float = 1.0  #: the size of beta that counts as 1
    step_scale: float = 1.0  #: the length of a step that counts as 1


def base_metric(rule: StepRule, length: Any) -> Any:
    """Return the part of h that all features of a row share, for a row of this squared length."""
    return rule.base + rule.length * length


def metric(rule: StepRule, base: Any, root: Any, square: Any) -> Any:
    """Return h of a weight whose feature has the sum `square`, with the square root `root`, beside the `base_metric`.

    h is linear in these three, so u^2 h follows from u^2 base, u^2 root and u^2 square.
    """
    return base + rule.root * root + rule.part * square


def step_length(size: Any, h: Any) -> Any:
    """Return size / h, and 0 where nothing is known.

    >>> step_length(1.0, 4.0), step_length(1.0, 0.0)
    (0.25, 0.0)
    """
    known = h > 0.0
    return choose(known, size / choose(known, h, 1.0), 0.0)


def steps_under_ridge(size: Any, h: Any, strength: Any) -> Any:
    """Return size / h, and size / (h + strength size), its product with `ridge_factor`; 0 where nothing is known.

    One division makes both.

    >>> steps_under_ridge(1.0, 4.0, 4.0), steps_under_ridge(1.0, 0.0, 4.0)
    ((0.25, 0.125), (0.0, 0.0))
    """
    known = smaller(larger(h, SMALLEST_METRIC), LARGEST_METRIC)
    both = known + strength * size
    quotient = choose(h > 0.0, size / (known * both), 0.0)
    return quotient * both, quotient * known


def add_to_sum(s: Any, term: Any) -> Any:
    """Return s + term, at most `LARGEST_SUM`."""
    return smaller(s + term, LARGEST_SUM)


def is_outlier(x: Any, peak: Any) -> Any:
    """Return whether the value x is an outlier of a feature whose largest absolute value before is `peak`.

    The first value of a feature is none.
    """
    return (abs(x) > OUTLYING * peak) & (peak > 0.0)


def learned_value(x: Any, peak: Any) -> Any:
    """Return the value that a scale-free step learns from where a feature has the value x, and at most `peak` before.

    The unit of a feature is its largest absolute value. So that a few wrong values do not set it for ever, a value
    beyond `OUTLYING` times the largest one before counts as `OUTLIER_GROWTH` times that: where the scale of a feature
    has changed, the following values soon raise the unit. The first value of a feature is learned as it is.

    >>> learned_value(-1.5, 1.0), learned_value(-1e6, 1.0), learned_value(1e6, 0.0)
    (-1.5, -1.25, 1000000.0)
    """
    most = OUTLIER_GROWTH * peak
    return choose(is_outlier(x, peak), choose(x > 0.0, most, -most), x)


def peak_of(step_size: Any, s: Any) -> Any:
    """Return the largest absolute value of a feature with the record s, 0 if the step size keeps none."""
    if not step_size.scale_free:
        return 0.0
    return 1.0 * s[step_size.peak_place()]  # in double precision, whatever s is stored in: it is squared


def raise_peak(step_size: Any, s: Any, x: Any) -> None:
    """Take the value x into account in the record s, before anything else happens in its round."""
    if step_size.scale_free:
        s[step_size.peak_place()] = larger(peak_of(step_size, s), abs(x))


def outgrows(size: Any, peak: Any) -> Any:
    """Return whether a value of this size is beyond `peak`, the largest one before; the first of a feature is not."""
    return (size > peak) & (peak > 0.0)


def shrink(peak: Any, size: Any) -> Any:
    """Return the factor of a feature's weight when its largest absolute value grows from `peak` to `size`; else 1.

    So a score made of values in units of their features stays what it was.

    >>> shrink(1.0, 4.0), shrink(4.0, 1.0), shrink(0.0, 1.0)
    (0.25, 1.0, 1.0)
    """
    grown = outgrows(size, peak)
    return choose(grown, peak / choose(grown, size, 1.0), 1.0)


def slope_square_unit(loss: Any, rule: StepRule, slopes: Any, t: Any) -> Any:
    """Return the square of the unit of derivatives after t rounds: that of the loss for scale-free rules, else 1."""
    return choose(rule.scale_free > 0.5, loss.square_slope_unit(slopes, t), 1.0)


def unit_of_steps(loss: Any, rule: StepRule, slopes: Any, t: Any) -> Any:
    """Return the unit of steps after t rounds: that of the loss for scale-free rules, else 1."""
    return choose(rule.scale_free > 0.5, loss.step_unit(slopes, t), 1.0)


def round_scale(
    loss: Any, rule: StepRule, z: Any, tolerance: Any, y: Any, weight: float, length: Any, slopes: Any, t: Any
) -> RoundScale:
    """Return how round t counts, by the derivative of the loss at the score z before the step.

    `tolerance` is the rounding tolerance of z, `length` the squared length of the row in units of features, intercept
    included, and `slopes` the sum over the rounds before. With a unit g of derivatives, the gradient of feature i
    counts as weight phi'(z) x_i / g, times the length of the row where the rule is scale-free.
    """
    slope = smaller(loss.least_slope(z, tolerance, y), STEEPEST)
    square = slope * slope * rule.adaptive
    added = square
    if loss.has_step_scale:
        added = choose(rule.scale_free > 0.5, smaller(loss.scale_statistic(z, y), LARGEST_SUM), square)
    slopes = slopes + added
    unit = slope_square_unit(loss, rule, slopes, t)
    square = square * (weight * weight) * choose(rule.scale_free > 0.5, length, 1.0)
    square = choose(unit > 0.0, square / choose(unit > 0.0, unit, 1.0), 0.0)
    pull = choose(rule.scale_free > 0.5, 0.25 * square_root(unit), 1.0)
    return RoundScale(square, slopes, pull, unit_of_steps(loss, rule, slopes, t))


def observed_curvature(curvature: Any, p: Any, step_scale: Any) -> Any:
    """Return what a step adds to the metric of a feature with x = 1 when it met this curvature of the loss.

    p is the sum of step_i x_i^2 over the row, intercept included. With a full matrix, a row would lower the variance
    of its score from p to p / (1 + curvature p); the diagonal of that matrix is kept.
    """
    curved = curvature > 0.0
    return choose(curved, step_scale / (1.0 / choose(curved, curvature, 1.0) + p), 0.0)


def precision(rule: StepRule, square_unit: Any, s: Any) -> Any:
    """Return the precision of a weight whose feature has the sum of curvatures s and this squared unit."""
    return metric(rule, rule.base * square_unit, 0.0, s)


def merge_share(rule: StepRule, own: Any, total: Any, seen: Any) -> Any:
    """Return the fraction of a shard's weight change to apply when `seen` shards updated the weight.

    Where sums are curvatures, weights are normal variables whose natural parameters add up: the shard's precision `own`
    by the `total`. Otherwise it is the mean over the shards that updated the weight. AdaGrad's steps become shorter
    with the squares of all shards, and there are `seen` times as many: 1 / sqrt(seen).
    """
    known = total > 0.0
    natural = choose(known, own / choose(known, total, 1.0), 0.0)
    mean = choose(rule.root > 0.0, 1.0 / square_root(seen), 1.0 / seen)
    return choose(rule.curvatures > 0.0, natural, mean)


#: The functions that kernels call as well as components.
FORMULAS: tuple[Any, ...] = (base_metric, metric, step_length, steps_under_ridge, add_to_sum, is_outlier)
FORMULAS += (
    learned_value,
    peak_of,
    raise_peak,
    outgrows,
    shrink,
    slope_square_unit,
    unit_of_steps,
    round_scale,
    observed_curvature,
    precision,
    merge_share,
)
FORMULAS += (rule_of_squares, rule_of_curvatures, rule_of_length)
