"""Compiled loops that add hat functions and nodes to the features of rows; see `fiol.features.basis`."""

import numpy as np

from fiol.compiler.compiled import inlined, jit
from fiol.components.component import borrowed
from fiol.features.basis import NEGLIGIBLE
from fiol.features.column_roles import IS_NUMBER, NO_ROLE

#: The point of a column that has none in a row, and of a number until its place among the knots is found.
NO_POINT, OF_NUMBER = -1, -2


@inlined
def interval_of(inner, start, count, value):
    """Return the interval of a value: how many of the knots between the outermost ones it has reached.

    The compiler makes a loop of vectors of it, which takes a tenth of the time of a binary search.
    """
    j = np.int32(0)
    for k in range(start, start + count):
        j += np.int32(inner[np.uint64(k)] <= value)
    return j


@inlined
def part_of_interval(value, low, width):
    """Return the distance of a value from the lower end of its interval as a fraction, from 0 to 1."""
    part = (value - low) / width
    part = part if part >= NEGLIGIBLE else 0.0
    return part if part < 1.0 - NEGLIGIBLE else 1.0


@inlined
def read_columns(row, values, start, end, features, slots, found, points):
    """Write the number of every column of numbers and the point of every category or missing value.

    A slot whose curve closes has the part of its period instead of the number of its column.
    """
    role, slot, code = features
    _, _, _, numeric, _, _, sources, period, closing = slots
    for s in range(np.uint64(points.shape[0])):
        found[s], points[s] = 0.0, OF_NUMBER if numeric[s] else NO_POINT
    for k in range(start, end):
        i = np.uint64(np.uint32(row[k]))
        if i >= role.shape[0] or role[i] == NO_ROLE:
            continue
        its = np.uint64(slot[i])
        if role[i] == IS_NUMBER:
            found[its] = values[k]
        else:
            points[its] = code[i]
    for k in range(np.uint64(points.shape[0])):
        own = np.uint64(points.shape[0]) - np.uint64(1) - k  # the source is before, or the slot itself
        if period[own] > 0.0:
            source = np.uint64(sources[own])
            periods = found[source] / period[own]
            found[own], is_number = periods - np.floor(periods), points[source] == OF_NUMBER
            points[own] = OF_NUMBER if is_number else closing[own]


@inlined
def write_features(entries, values, start, end, numbers, indices, data, n):
    """Write some features of a row from place n, with these numbers; return the next place."""
    for k in range(start, end):
        indices[n], data[n] = numbers[np.uint64(np.uint32(entries[k]))], values[k]
        n += np.uint64(1)
    return n


@inlined
def write_hats(slots, knots, parts, points, ahead, indices, data, n):
    """Write the hats of a row from place n; return the next place. Numbers in `parts` become their parts of the grid.

    The number of a slot is between two knots, whose hats are its distances from the other knot, and between two points
    of the grid, of which the lower one is written to `points`; the other one is `ahead` of it. The end of the last
    interval of a curve that closes is its first knot.
    """
    first, count, curve, _, first_inner, inner_count, _, _, closing = slots
    knots, inner, interval, low, width = knots
    for s in range(np.uint64(points.shape[0])):
        value, parts[s], ahead[s] = parts[s], 0.0, 0
        if points[s] != OF_NUMBER:
            continue
        if count[s] < 2:  # a constant
            points[s] = 0
            continue
        j = interval_of(inner, first_inner[s], inner_count[s], value)
        i = np.uint64(first[s] + j)
        points[s], parts[s] = interval[i], part_of_interval(value, low[i], width[i])
        back = closing[s] if j + 1 == closing[s] else np.int32(0)
        ahead[s] = 1 - back
        if curve[s] >= 0:
            part = part_of_interval(value, knots[i], knots[i + np.uint64(1)] - knots[i])
            hat = curve[s] + j
            if back:  # the end of the interval has the first hat
                hat, back, part = hat + 1 - back, back - 2, 1.0 - part
            indices[n], data[n] = hat, 1.0 - part
            n += np.uint64(part < 1.0)
            indices[n], data[n] = hat + 1 + back, part
            n += np.uint64(part > 0.0)
    return n


@inlined
def sort_entries(indices, data, start, end):
    """Sort a few entries by their features."""
    for k in range(start + np.uint64(1), end):
        j = np.uint64(k)
        while j > start and indices[j - np.uint64(1)] > indices[j]:
            i = j - np.uint64(1)
            indices[i], indices[j], data[i], data[j] = indices[j], indices[i], data[j], data[i]
            j = i


@inlined
def write_nodes(pairs, parts, points, ahead, indices, data, m):
    """Write the nodes of a row from place m: the corners of the triangle that each pair is in; return the next place.

    With parts a >= b of the two intervals, they are (0, 0), (1, 0) and (1, 1), with values 1 - a, a - b and b.
    """
    left, right, first, size = pairs
    for p in range(np.uint64(left.shape[0])):
        i, j = np.uint64(left[p]), np.uint64(right[p])
        if points[i] == NO_POINT or points[j] == NO_POINT:
            continue
        a, b, step = parts[i], parts[j], size[p]
        node = first[p] + points[i] * step + points[j]
        up, along = ahead[i] * step, ahead[j]
        large, small, aside = (a, b, up) if a >= b else (b, a, along)
        start = m
        indices[m], data[m] = node, 1.0 - large
        m += np.uint64(large < 1.0)
        indices[m], data[m] = node + aside, large - small
        m += np.uint64(large > small)
        indices[m], data[m] = node + up + along, small
        m += np.uint64(small > 0.0)
        if up < 0 or along < 0:
            sort_entries(indices, data, start, m)
    return m


@jit
def expand_rows(chunk, plain, features, numbers, known, slots, knots, pairs, buffers, lower, upper):
    """Write rows with hats into `lower`, and with hats and nodes into `upper`; return the numbers of entries.

    Parameters
    ----------
    chunk : rows of features as they are, which hats and nodes are functions of.
    plain : the same rows as they are written before and after these: the same entries, or centered ones.
    features : role, slot and point of every feature; a slot is a column with a curve or with pairs.
    numbers : of every feature, in `lower` and in `upper`; the first `known` are before all hats.
    slots : first knot, number of knots, first hat (or -1), whether it is a number; first inner knot, number of them;
        the slot whose number it has; its period (or 0); the number of knots of a curve that closes (or 0).
    knots : of all slots; inner ones with some at infinity, see `inner_knots`; the interval of the grid that each
        knot is in: its number, lower point and width.
    pairs : two slots, the first node of each pair, the number of points of the second slot.
    buffers : a number and two points for every slot.
    lower, upper : with place for one more entry; `upper` stays as it is if there are no pairs.
    """
    (starts, entries, values), (plain_starts, plain_entries, plain_values) = borrowed(chunk), borrowed(plain)
    features, slots, knots, pairs = borrowed(features), borrowed(slots), borrowed(knots), borrowed(pairs)
    in_lower, in_upper = borrowed(numbers)
    parts, points, ahead = borrowed(buffers)
    lower_starts, lower_indices, lower_data = borrowed(lower)
    upper_starts, upper_indices, upper_data = borrowed(upper)
    paired, n, m = pairs[0].shape[0] > 0, np.uint64(0), np.uint64(0)
    lower_starts[0] = upper_starts[0] = 0
    for r in range(starts.shape[0] - 1):
        start, end, row = np.uint64(plain_starts[r]), np.uint64(plain_starts[r + 1]), n
        split = end
        while split > start and plain_entries[split - np.uint64(1)] >= known:
            split -= np.uint64(1)
        read_columns(entries, values, np.uint64(starts[r]), np.uint64(starts[r + 1]), features, slots, parts, points)
        n = write_features(plain_entries, plain_values, start, split, in_lower, lower_indices, lower_data, n)
        n = write_hats(slots, knots, parts, points, ahead, lower_indices, lower_data, n)
        if paired:
            for k in range(row, n):
                upper_indices[m], upper_data[m] = lower_indices[k], lower_data[k]
                m += np.uint64(1)
            m = write_nodes(pairs, parts, points, ahead, upper_indices, upper_data, m)
            m = write_features(plain_entries, plain_values, split, end, in_upper, upper_indices, upper_data, m)
            upper_starts[r + 1] = m
        n = write_features(plain_entries, plain_values, split, end, in_lower, lower_indices, lower_data, n)
        lower_starts[r + 1] = n
    return n, m if paired else n
