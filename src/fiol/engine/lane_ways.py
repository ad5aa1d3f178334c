"""What parts of a round know together in lanes, in one pass over all records; and losses on the way there."""

from __future__ import annotations

from math import sqrt

from fiol.compiler.compiled import inlined, jit
from fiol.components.component import borrowed


@inlined
def in_unit(w, own, peak, free):  # type: ignore[no-untyped-def]
    """A weight whose feature had a largest value of `own`, in the unit of whoever has seen a larger one."""
    return w * (own / peak) if free > 0.0 and peak > own else w


@jit
def pool_records(zero, rules, strides, parts, base, tables, new, costs):  # type: ignore[no-untyped-def]
    """Write what all parts know, which went on from the base, into `new`, records like the base's; add up `costs`.

    `tables` has the records of one part after those of another. A part that has seen a feature has another record of it
    than the base; one that has not moves nothing. Lanes with curvatures add natural parameters, others go a part of the
    way of those who saw the feature: `StepSize.pooled`. Steps by the length of rows never end, so their weights are
    noisy: they go the mean way of all parts, and have less noise. `strides` are the units of steps. The cost of a lane
    is the sum of h d^2, where h are curvatures.
    """
    rules, strides, base, tables = borrowed(rules), borrowed(strides), borrowed(base), borrowed(tables)
    new, costs, width, last, size = borrowed(new), borrowed(costs), len(zero), len(zero) - 1, base.shape[0]
    for at in range(0, size, 2 * width):
        among, own = 0.0, base[at + last]
        peak = own
        for k in range(parts):
            part, other = k * size + at, False
            for j in range(2 * width):
                other |= tables[part + j] != base[at + j]
            among += 1.0 if other else 0.0
            peak = max(peak, tables[part + last])
        if among == 0.0:
            continue
        new[at + last] = peak
        for j in range(last):
            prior, root, length = rules[width + j], rules[2 * width + j], rules[4 * width + j]
            curved, free = rules[6 * width + j], rules[8 * width + j]
            unit, sums = prior * (peak * peak if free > 0.0 else 1.0), base[at + width + j]
            more, change, w = 0.0, 0.0, in_unit(base[at + j], own, peak, free)
            for k in range(parts):
                more += tables[k * size + at + width + j] - sums
            known, part_of_way = unit + (sums + more), 1.0 / (sqrt(among) if root > 0.0 else among)
            for k in range(parts):
                part = k * size + at
                if curved > 0.0:
                    share = (unit + tables[part + width + j]) / known if known > 0.0 else 0.0
                else:
                    share = 1.0 / parts if length > 0.0 else part_of_way
                change += share * (in_unit(tables[part + j], tables[part + last], peak, free) - w)
            new[at + j], new[at + width + j] = w + change, sums + more
            if curved > 0.0:
                costs[j] += (unit + sums) / rules[j] / strides[j] * change * change


@jit
def go_part_way(zero, base, steps, new):  # type: ignore[no-untyped-def]
    """Let the weights of every lane go so far from those of the base to the new ones."""
    base, steps, new, width = borrowed(base), borrowed(steps), borrowed(new), len(zero)
    for at in range(0, base.shape[0], 2 * width):
        for j in range(width - 1):  # the last is no weight
            new[at + j] = base[at + j] + steps[j] * (new[at + j] - base[at + j])


@jit
def losses_of_lanes(loss, before, ahead, along, first, y, weight, found):  # type: ignore[no-untyped-def]
    """Add to found[member, point] the losses of rows at the points of `along`, from the `first` on.

    Scores before and ahead are [row, lane].
    """
    for r in range(y.shape[0]):
        for j in range(found.shape[0]):
            z, way = before[r, j], ahead[r, j] - before[r, j]
            for p in range(first, along.shape[0]):
                found[j, p] += weight[r] * loss.value(z + along[p] * way, y[r])
