"""The formulas of Newton stacks, for one stack or for several in SIMD lanes: `fiol.NewtonStack` has them in words."""

from __future__ import annotations

from math import inf

from fiol.compiler.compiled import inlined_strictly
from fiol.components.combiners import MOST_GROWTH
from fiol.components.simd import choose, exponential, larger, smaller, square_root
from fiol.components.step_sizes.rule import LARGEST_SUM
from fiol.engine.ensemble.stack_state import CURVED, EXCESS, SLOPED, SQUARES


@inlined_strictly
def mean_curvature(loss, z, reach, y):
    """Return the mean of the second derivative around the score z, weighted by a triangle that ends `reach` from it."""
    if not loss.kinked and loss.convexity > 0.0:
        return choose(abs(z) < inf, loss.curvature(z, z, 0.0, 0.0, reach, y, 1.0), 0.0)  # in as many lanes as z has
    rise = (loss.value(z + reach, y) - loss.value(z, y)) - (loss.value(z, y) - loss.value(z - reach, y))
    over = reach if reach > 0.0 else 1.0  # without reach there is no rise
    return choose(rise > 0.0, smaller(rise / over / over, LARGEST_SUM), 0.0)


@inlined_strictly
def unit_and_reach(loss, score, y, weight, robust, ticks):
    """Return the unit of the loss, and how far its kinks reach, after a row with this score of the ensemble."""
    unit, reach = loss.value_unit, 1.0
    if unit == 0.0:
        slope = loss.grad(score, y)
        ticks[EXCESS] = smaller(ticks[EXCESS] + weight * (loss.value(score, y) - loss.lower(y)), LARGEST_SUM)
        ticks[SLOPED] = smaller(ticks[SLOPED] + weight * abs(slope), LARGEST_SUM)
        reach = 2.0 * ticks[EXCESS] / ticks[SLOPED] if ticks[SLOPED] > 0.0 else 0.0
        curvature = mean_curvature(loss, score, reach, y)
        square = slope * slope
        if not loss.kinked and ticks[SQUARES] > 0.0 and ticks[CURVED] > 0.0:  # one error must not set the unit
            square = smaller(square, robust * robust * curvature * (ticks[SQUARES] / ticks[CURVED]))
        ticks[SQUARES] = smaller(ticks[SQUARES] + weight * square, LARGEST_SUM)
        ticks[CURVED] = smaller(ticks[CURVED] + weight * curvature, LARGEST_SUM)
        unit = ticks[SQUARES] / ticks[CURVED] if ticks[CURVED] > 0.0 else 0.0
    return unit, reach


@inlined_strictly
def curvature_part(stack, loss, peak):
    """Return the part of its curvature that a row of classes adds, whose members have scores of up to `peak`."""
    part = stack.limit / peak if loss.value_unit > 0.0 and peak > stack.limit else 1.0
    return part * part


@inlined_strictly
def label_pull(stack, loss, rate, t, peak, y):
    """Return the pull of labels that may be wrong on a stack that forgets at this rate; 0 where targets have units."""
    return y * stack.wrong(rate, t, peak) if loss.value_unit > 0.0 else 0.0 * rate


@inlined_strictly
def bounded_step(stack, loss, s, beta, met, q, rate, unit, part, reach, y):
    """Return the pull of a stack with the score s, the curvature h that a row adds, and h q, the growth of information.

    beta is its exact pull, which has `met` a curvature of the loss, and q = <z, A^-1 z>. Squared errors beyond `robust`
    predictive standard deviations pull as in Huber's loss, and no row adds more than `MOST_GROWTH` times the
    information about its score.
    """
    h = met
    if loss.kinked or loss.value_unit == 0.0:
        h = mean_curvature(loss, s, reach, y)
    if loss.value_unit > 0.0:
        h = larger(h, stack.floor)
    elif loss.convexity > 0.0:
        most = stack.robust * square_root(unit * loss.convexity / (1.0 + loss.convexity * rate * q))
        over = abs(beta) > most
        h = choose(over, h * (most / choose(over, abs(beta), 1.0)), h)
        beta = choose(over, choose(beta > 0.0, most, -most), beta)
    h = smaller(rate * part * h, LARGEST_SUM)
    h = choose(h * q > MOST_GROWTH, MOST_GROWTH / choose(q > 0.0, q, 1.0), h)
    return rate * beta, h, h * q


@inlined_strictly
def lost_variance(h, growth):
    """Return what a row with the curvature h takes from the inverse of information, in units of its u u'.

    (A + h z z')^-1 = P - h / (1 + growth) u u' with P = A^-1, u = P z and growth = h <z, u> (Sherman and Morrison).
    """
    return h / (1.0 + growth)


@inlined_strictly
def rate_of_row(weight, unit):
    """Return the factor of a row's losses, in the unit of the loss; infinite if all losses so far are 0 or infinite."""
    rate = weight / unit if unit > 0.0 else inf
    return rate if rate <= LARGEST_SUM else inf


@inlined_strictly
def pooled_share(share, total, common, stacks, there):
    """Return a stack's share after normalization, of which the part `common` is divided equally among all stacks.

    `there` is 1, or 0 in a lane without a stack.
    """
    return share * ((1.0 - common) / total) + there * (common / stacks)


@inlined_strictly
def judged_share(share, value, best, rate, t):
    """Return the share of a stack before normalization, whose loss in round t was rate times its value."""
    return share * larger(1.0 / (1.0 + t), exponential(rate * (best - value)))  # also where losses are infinite
