"""Compiled loops that compute running means and subtract them from rows; see `fiol.engine.centering`."""

from __future__ import annotations

import numpy as np

from fiol.compiler.compiled import inlined, inlined_strictly, jit
from fiol.components.component import borrowed
from fiol.components.simd import larger, smaller
from fiol.components.step_sizes.rule import learned_value
from fiol.engine.centering import ONLY_ROUNDING, fewest_rows

compiled_fewest_rows = inlined(fewest_rows)


@inlined_strictly
def add_to_mean(sums, widths, j, x, part):
    """Add a value of the centered feature j to its sum, as far from the mean before, `part` of it, as it is learned."""
    mean = sums[j] * part
    distance = learned_value(x - mean, widths[j])
    sums[j] += x if distance == x - mean else mean + distance
    size = abs(distance)
    widths[j] = larger(widths[j], size if size >= ONLY_ROUNDING * abs(mean) else 0.0)


@inlined
def spread_to_usual(sums, widths, places, usual_sums, usual_widths):
    """Write the numbers of every centered feature to its place in the usual row."""
    for j in range(places.shape[0]):
        usual_sums[places[j]], usual_widths[places[j]] = sums[j], widths[j]


@inlined
def gather_from_usual(usual_sums, usual_widths, places, sums, widths):
    """Write what is at the place of every centered feature in the usual row."""
    for j in range(places.shape[0]):
        sums[j], widths[j] = usual_sums[places[j]], usual_widths[places[j]]


@inlined
def center_usual(entries, values, usual, sums, widths, mask, part, learning, least, data):
    """Center a row with the features of the usual one; return False if it has others, or a value is 0.

    Sums and widths are those of all entries, `mask` is 0 for entries that are not centered: loops without branches.
    Features of the row stay, and are not written.
    """
    fine = True
    for k in range(usual.shape[0]):
        fine &= entries[k] == usual[k]
    if not fine:
        return False
    for k in range(usual.shape[0]):
        mean = sums[k] * part * mask[k]
        value = values[k] - mean
        fine &= abs(value) >= larger(least, ONLY_ROUNDING * abs(mean))
        data[k] = value
    if fine and learning:
        for k in range(usual.shape[0]):
            add_to_mean(sums, widths, k, values[k], part)
    return fine


@inlined
def has_entry(entries, i):
    """Return whether a row has feature i; none is -1."""
    low, high = 0, entries.shape[0]
    while low < high and i >= 0:
        middle = (low + high) // 2
        if entries[middle] == i:
            return True
        if entries[middle] < i:
            low = middle + 1
        else:
            high = middle
    return False


@inlined
def center_any_row(entries, values, features, sums, widths, missing, part, learning, least, indices, data):
    """Center any row; return the number of entries, with those of absent centered features that are not missing."""
    n, k = 0, 0
    for j in range(features.shape[0]):
        i = features[j]
        while k < entries.shape[0] and entries[k] < i:
            indices[n], data[n] = entries[k], values[k]
            k += 1
            n += 1
        x, mean = 0.0, sums[j] * part
        if k < entries.shape[0] and entries[k] == i:
            x = values[k]
            k += 1
        elif has_entry(entries, missing[j]):
            x = mean
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
def indicates_missing(entries, feature, indicators):
    """Return whether a row has the indicator of missing values of a feature; beyond `indicators` there is none."""
    return feature < indicators.shape[0] and has_entry(entries, indicators[feature])


@inlined
def add_to_window(indices, data, window, count, indicators, out):
    """Write `Centering.seen` after row number `count` into `out`, given that before, and return its number of lines.

    A missing value counts as the mean of the values so far. Features that were in too few rows to be centered are
    dropped.
    """
    n, j, k = 0, 0, 0
    least = compiled_fewest_rows(count)
    while j < window.shape[0] or k < indices.shape[0]:
        known = j < window.shape[0] and (k == indices.shape[0] or window[j, 0] <= indices[k])
        there = k < indices.shape[0] and (j == window.shape[0] or indices[k] <= window[j, 0])
        x, counts = data[k] if there else 0.0, there
        feature, rows, total = 1.0 * indices[k] if there else 0.0, 0.0, 0.0
        low, high, last = x, x, 0.0
        steps, scatter = 0.0, 0.0
        if known:
            feature, rows, total = window[j, 0], window[j, 1], window[j, 2]
            low, high, last = window[j, 3], window[j, 4], window[j, 5]
            steps, scatter = window[j, 6], window[j, 7]
            if not there and indicates_missing(indices, np.int64(feature), indicators):
                x, counts = total / rows, True
        if count > 1.0:
            steps += (x - last) * (x - last)
            distance = x - total / (count - 1.0)
            scatter += distance * distance * ((count - 1.0) / count)
        if counts:
            rows, total = rows + 1.0, total + x
            low, high = smaller(low, x), larger(high, x)
        j, k = j + known, k + there
        if rows >= least:
            out[n, 0], out[n, 1], out[n, 2] = feature, rows, total
            out[n, 3], out[n, 4], out[n, 5] = low, high, x
            out[n, 6], out[n, 7] = steps, scatter
            n += 1
    return n


@inlined
def watch_row(feature, x, window, lines, count, indicators, spare):
    """Add row number `count` to the first `lines` lines of a window, by memory of its size; return the lines then."""
    left = add_to_window(feature, x, window[:lines], count, indicators, spare)
    for j in range(larger(lines, left)):
        for k in range(window.shape[1]):
            window[j, k] = spare[j, k] if j < left else 0.0
    return left


@jit
def watch_rows(chunk, window, lines, count, indicators, spare):
    """Make `watch_row` for every row, given `count` rows before them; return the number of lines."""
    (starts, entries, values), window = borrowed(chunk), borrowed(window)
    indicators, spare = borrowed(indicators), borrowed(spare)
    for r in range(starts.shape[0] - 1):
        first, last = starts[r], starts[r + 1]
        lines = watch_row(entries[first:last], values[first:last], window, lines, count + r + 1.0, indicators, spare)
    return lines


@inlined
def write_usual(usual, first, last, indices):
    """Write the features of usual rows, whose entries are from `first` to `last`."""
    while first < last:
        for k in range(usual.shape[0]):
            indices[first + k] = usual[k]
        first += usual.shape[0]


@jit
def center_rows(chunk, features, known, usual, places, wide, rows, learning, least, indptr, indices, data):
    """Write the rows with the means of `features` subtracted, also where absent; return the number of entries.

    Also return up to where `indices` is written; -1 if every row has the same features as before: memory that is new to
    the process takes more time than the differences. After that come entries of usual rows.

    The means are the sums in `known`, sums, widths and `Centering.missing`, divided by the number of `rows` before the
    row; with `learning` the row is added to all. Differences below `least`, or within rounding, are 0 and left out. The
    `usual` row has the centered features at these `places`, see `usual_row`; `wide` has three numbers for each of its
    entries: 1 if it is centered, and memory for sums and widths.
    """
    (starts, entries, values), features = borrowed(chunk), borrowed(features)
    (sums, widths, missing), usual, places, wide = borrowed(known), borrowed(usual), borrowed(places), borrowed(wide)
    indptr, indices, data = borrowed(indptr), borrowed(indices), borrowed(data)
    size = usual.shape[0]
    mask, usual_sums, usual_widths = wide[:size], wide[size : 2 * size], wide[2 * size :]
    n, written, together = 0, -1 if starts[0] == 0 else 0, True
    for r in range(starts.shape[0]):
        first = starts[r]
        fine = r + 1 < starts.shape[0] and size > 0 and starts[r + 1] - first == size
        if fine:
            if together:
                spread_to_usual(sums, widths, places, usual_sums, usual_widths)
                together = False
            row = entries[first : first + size], values[first : first + size]
            fine = center_usual(
                row[0], row[1], usual, usual_sums, usual_widths, mask, 1.0 / rows, learning, least, data[n:]
            )
        if not (fine or together):
            gather_from_usual(usual_sums, usual_widths, places, sums, widths)
            together = True
        indptr[r] = n
        if fine:
            n += size
        elif r + 1 < starts.shape[0]:
            write_usual(usual, larger(written, 0), n, indices)
            last, new = starts[r + 1], (indices[n:], data[n:])
            row = entries[first:last], values[first:last]
            n += center_any_row(
                row[0], row[1], features, sums, widths, missing, 1.0 / rows, learning, least, new[0], new[1]
            )
            written = n
        if learning:
            rows += 1.0
    return n, written
