"""Compiled loops that compute running means and subtract them from rows; see `fiol.engine.centering`."""

from __future__ import annotations

from fiol.compiler.compiled import inlined, inlined_strictly, jit
from fiol.components.component import borrowed
from fiol.components.simd import larger
from fiol.components.step_sizes.rule import learned_value
from fiol.engine.centering import ONLY_ROUNDING


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
