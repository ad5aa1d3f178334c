"""Compiled loops that compute running means and subtract them from rows; see `fiol.engine.centering`."""

from __future__ import annotations

from fiol.compiler.compiled import inlined, inlined_strictly, jit
from fiol.components.component import borrowed
from fiol.components.simd import larger, smaller
from fiol.components.step_sizes.rule import learned_value
from fiol.engine.centering import fewest_rows

#: A difference smaller than this fraction of the mean counts as rounding.
ONLY_ROUNDING = 1e-10

compiled_fewest_rows = inlined(fewest_rows)


@inlined_strictly
def add_to_mean(sums, widths, j, x, part):
    """Add a value of the centered feature j to its sum, as far from the mean before, `part` of it, as it is learned."""
    mean = sums[j] * part
    distance = learned_value(x - mean, widths[j])
    sums[j] += x if distance == x - mean else mean + distance
    widths[j] = larger(widths[j], abs(distance))


@inlined
def center_whole(entries, values, features, sums, widths, part, learning, least, indices, data):
    """Center a row that has exactly the centered features; return False if it has others, or a difference is 0."""
    fine = True
    for j in range(features.shape[0]):
        fine &= entries[j] == features[j]
    if not fine:
        return False
    for j in range(features.shape[0]):
        mean = sums[j] * part
        value = values[j] - mean
        fine &= abs(value) >= larger(least, ONLY_ROUNDING * abs(mean))
        indices[j] = features[j]
        data[j] = value
    if fine and learning:
        for j in range(features.shape[0]):
            add_to_mean(sums, widths, j, values[j], part)
    return fine


@inlined
def centre_row(entries, values, features, sums, widths, part, learning, least, indices, data):
    """Center any row; return the number of entries, with those of absent centered features."""
    n, k = 0, 0
    for j in range(features.shape[0]):
        i = features[j]
        while k < entries.shape[0] and entries[k] < i:
            indices[n], data[n] = entries[k], values[k]
            k += 1
            n += 1
        x = 0.0
        if k < entries.shape[0] and entries[k] == i:
            x = values[k]
            k += 1
        mean = sums[j] * part
        value = x - mean
        indices[n], data[n] = i, value
        n += 1 if abs(value) >= larger(least, ONLY_ROUNDING * abs(mean)) else 0
        if learning:
            add_to_mean(sums, widths, j, x, part)
    while k < entries.shape[0]:
        indices[n], data[n] = entries[k], values[k]
        k += 1
        n += 1
    return n


@inlined
def add_to_window(indices, data, window, count, out):
    """Write `Centering.seen` after row number `count` into `out`, given that before, and return its number of lines.

    Features that were in too few rows to be centered are dropped.
    """
    n, j, k = 0, 0, 0
    least = compiled_fewest_rows(count)
    while j < window.shape[0] or k < indices.shape[0]:
        known = j < window.shape[0] and (k == indices.shape[0] or window[j, 0] <= indices[k])
        there = k < indices.shape[0] and (j == window.shape[0] or indices[k] <= window[j, 0])
        x = data[k] if there else 0.0
        feature, rows, total = 1.0 * indices[k] if there else 0.0, 0.0, 0.0
        low, high, last = x, x, 0.0
        steps, scatter = 0.0, 0.0
        if known:
            feature, rows, total = window[j, 0], window[j, 1], window[j, 2]
            low, high, last = window[j, 3], window[j, 4], window[j, 5]
            steps, scatter = window[j, 6], window[j, 7]
        if count > 1.0:
            steps += (x - last) * (x - last)
            distance = x - total / (count - 1.0)
            scatter += distance * distance * ((count - 1.0) / count)
        if there:
            rows, total = rows + 1.0, total + x
            low, high = smaller(low, x), larger(high, x)
        j, k = j + known, k + there
        if rows >= least:
            out[n, 0], out[n, 1], out[n, 2] = feature, rows, total
            out[n, 3], out[n, 4], out[n, 5] = low, high, x
            out[n, 6], out[n, 7] = steps, scatter
            n += 1
    return n


@jit
def watch_row(indices, data, window, count, out):
    """Write `Centering.seen` after row number `count` into `out`, and return its number of lines."""
    return add_to_window(borrowed(indices), borrowed(data), borrowed(window), count, borrowed(out))


@jit
def center_rows(chunk, features, sums, widths, rows, learning, least, indptr, indices, data):
    """Write the rows with the means of `features` subtracted, also where absent; return the number of entries.

    The means are `sums` divided by the number of `rows` before the row; with `learning` the row is added to both.
    Differences below `least`, or within rounding, are 0 and left out.
    """
    (starts, entries, values), features = borrowed(chunk), borrowed(features)
    sums, widths = borrowed(sums), borrowed(widths)
    indptr, indices, data = borrowed(indptr), borrowed(indices), borrowed(data)
    n = 0
    for r in range(starts.shape[0] - 1):
        first, last, part = starts[r], starts[r + 1], 1.0 / rows
        indptr[r] = n
        row = entries[first:last], values[first:last]
        whole = last - first == features.shape[0]
        if whole:
            whole = center_whole(row[0], row[1], features, sums, widths, part, learning, least, indices[n:], data[n:])
        if whole:
            n += features.shape[0]
        else:
            n += centre_row(row[0], row[1], features, sums, widths, part, learning, least, indices[n:], data[n:])
        if learning:
            rows += 1.0
    indptr[starts.shape[0] - 1] = n
    return n
