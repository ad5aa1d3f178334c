"""Kernels that merge shards of an ensemble whose members are in SIMD lanes: one pass over all records."""

from __future__ import annotations

from fiol.compiler.compiled import inlined, jit
from fiol.components.component import borrowed
from fiol.components.step_sizes.rule import StepRule, merge_share, precision, shrink


@inlined
def in_unit(w, own, peak, scale_free):
    """Return a weight in the unit of the largest value of any shard, whose feature had a largest value of `own`."""
    return w * shrink(own, peak) if scale_free > 0.0 else w


@inlined
def rule_of_lane(rules, width, j):
    """Return the `StepRule` of the member in lane j."""
    return StepRule(
        rules[j],
        rules[width + j],
        rules[2 * width + j],
        rules[3 * width + j],
        rules[4 * width + j],
        rules[5 * width + j],
        rules[6 * width + j],
        rules[7 * width + j],
        rules[8 * width + j],
    )


@inlined
def merge_weight(rule, at, j, width, own, peak, parts, base, tables, new):
    """Merge the weight of one feature in lane j; return its change, and the base's precision.

    The formulas are those of `fiol.components.step_sizes.merge.merge_shards`.
    """
    size, last, free = base.shape[0], width - 1, rule.scale_free
    square_unit, s, w = peak * peak if free > 0.0 else 1.0, base[at + width + j], in_unit(base[at + j], own, peak, free)
    seen, more, change = 0.0, 0.0, 0.0
    for k in range(parts):
        seen += 1.0 if tables[k * size + at + j] != base[at + j] else 0.0
        more += tables[k * size + at + width + j] - s
    known, seen = precision(rule, square_unit, s + more), max(seen, 1.0)
    for k in range(parts):
        part = k * size + at
        share = merge_share(rule, precision(rule, square_unit, tables[part + width + j]), known, seen)
        change += share * (in_unit(tables[part + j], tables[part + last], peak, free) - w)
    new[at + j], new[at + width + j] = w + change, s + more
    return change, precision(rule, square_unit, s)


@jit
def merge_records(zero, rules, step_scales, parts, base, tables, new, costs):
    """Write the merged records of all shards, which went on from the base, into `new`; add up `costs`.

    `tables` has the records of one shard after those of another. A shard that has not seen a feature has the record of
    the base. `step_scales` are the units of steps. The cost of a lane is the sum of h d^2, where h are curvatures.
    """
    rules, step_scales, base, tables = borrowed(rules), borrowed(step_scales), borrowed(base), borrowed(tables)
    new, costs, width, last, size = borrowed(new), borrowed(costs), len(zero), len(zero) - 1, base.shape[0]
    for at in range(0, size, 2 * width):
        own, other = base[at + last], False
        peak = own
        for k in range(parts):
            for j in range(2 * width):
                other |= tables[k * size + at + j] != base[at + j]
            peak = max(peak, tables[k * size + at + last])
        if not other:
            continue
        new[at + last] = peak
        for j in range(last):
            rule = rule_of_lane(rules, width, j)
            change, known = merge_weight(rule, at, j, width, own, peak, parts, base, tables, new)
            if rule.curvatures > 0.0:
                costs[j] += known / rule.size / step_scales[j] * change * change


@jit
def interpolate(zero, base, steps, new):
    """Replace the new weights of every lane by base + step (new - base)."""
    base, steps, new, width = borrowed(base), borrowed(steps), borrowed(new), len(zero)
    for at in range(0, base.shape[0], 2 * width):
        for j in range(width - 1):  # the last is no weight
            new[at + j] = base[at + j] + steps[j] * (new[at + j] - base[at + j])


@jit
def losses_of_lanes(loss, before, after, along, first, y, weight, found):
    """Add to found[member, point] the losses of rows at the points of `along`, from the `first` on.

    Scores before and after the full step are [row, lane].
    """
    for r in range(y.shape[0]):
        for j in range(found.shape[0]):
            z, change = before[r, j], after[r, j] - before[r, j]
            for p in range(first, along.shape[0]):
                found[j, p] += weight[r] * loss.value(z + along[p] * change, y[r])
