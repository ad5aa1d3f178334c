"""Compiled loops that add hat functions and cells to the features of rows; see `fiol.features.basis`."""

from fiol.compiler.compiled import inlined, jit
from fiol.features.column_roles import IS_NUMBER, NO_ROLE

#: A hat below this is 0.
NEGLIGIBLE = 1e-9
#: The bin of a column that has none in a row.
NO_BIN = -1


@inlined
def interval_of(knots, first, count, value):
    """Return j such that knots[first + j] <= value < knots[first + j + 1], from 0 to count - 2."""
    low, length = 0, count - 1
    while length > 1:  # without branches, which would be guessed wrong half of the time
        half = length // 2
        low += half * (knots[first + low + half] <= value)
        length -= half
    return low


@inlined
def place_on_curve(knots, first, count, value):
    """Return the interval of a value, and its distance from the lower knot as a fraction of the interval."""
    if count < 2:  # a constant
        return 0, 0.0
    j = interval_of(knots, first, count, value)
    low, high = knots[first + j], knots[first + j + 1]
    part = (value - low) / (high - low)
    if part < NEGLIGIBLE:
        return j, 0.0
    return j, part if part < 1.0 - NEGLIGIBLE else 1.0


@inlined
def read_columns(entries, values, features, found, codes):
    """Write the number of every column of numbers and the bin of every category, missing values as the last bin."""
    role, slot, code = features
    for s in range(codes.shape[0]):
        found[s], codes[s] = 0.0, NO_BIN
    for k in range(entries.shape[0]):
        i = entries[k]
        if i >= role.shape[0] or role[i] == NO_ROLE:
            continue
        s = slot[i]
        if role[i] == IS_NUMBER:
            found[s] = values[k]
        else:
            codes[s] = code[i]


@jit
def expand_rows(chunk, features, numbers, slots, knots, pairs, blocks, lower, upper):
    """Write rows with hats into `lower`, and with hats and cells into `upper`; return the numbers of entries.

    Parameters
    ----------
    chunk : rows of features as they are.
    features : role, slot and bin of every feature; a slot is a column with a curve or with cells.
    numbers : of every feature, in `lower` and in `upper`.
    slots : first knot, number of knots, whether knots are values, bins, first hat (or -1), and whether it is a number.
    pairs : two slots and the first cell of each pair.
    blocks : the first hat and the first cell, as numbers of features in `upper`; the first hat is that in `lower`.
    """
    starts, entries, values = chunk
    in_lower, in_upper = numbers
    first, count, few, bins, curve, numeric = slots
    left, right, cell = pairs
    found, codes, begin = blocks
    lower_starts, lower_indices, lower_data = lower
    upper_starts, upper_indices, upper_data = upper
    n, m = 0, 0
    lower_starts[0] = upper_starts[0] = 0
    for r in range(starts.shape[0] - 1):
        row, row_values = entries[starts[r] : starts[r + 1]], values[starts[r] : starts[r + 1]]
        read_columns(row, row_values, features, found, codes)
        k = 0
        while k < row.shape[0] and row[k] < begin:
            i = row[k]
            lower_indices[n], lower_data[n] = in_lower[i], row_values[k]
            upper_indices[m], upper_data[m] = in_upper[i], row_values[k]
            n, m, k = n + 1, m + 1, k + 1
        for s in range(numeric.shape[0]):
            if not numeric[s] or codes[s] != NO_BIN:
                continue
            j, part = place_on_curve(knots, first[s], count[s], found[s])
            codes[s] = j + 1 if few[s] and part >= 0.5 else j
            if curve[s] < 0:
                continue
            hat = begin + curve[s] + j
            if part < 1.0:
                lower_indices[n], lower_data[n] = hat, 1.0 - part
                upper_indices[m], upper_data[m] = hat, 1.0 - part
                n, m = n + 1, m + 1
            if part > 0.0:
                lower_indices[n], lower_data[n] = hat + 1, part
                upper_indices[m], upper_data[m] = hat + 1, part
                n, m = n + 1, m + 1
        for p in range(left.shape[0]):
            a, b = codes[left[p]], codes[right[p]]
            if a != NO_BIN and b != NO_BIN:
                upper_indices[m], upper_data[m] = cell[p] + a * bins[right[p]] + b, 1.0
                m += 1
        while k < row.shape[0]:
            i = row[k]
            lower_indices[n], lower_data[n] = in_lower[i], row_values[k]
            upper_indices[m], upper_data[m] = in_upper[i], row_values[k]
            n, m, k = n + 1, m + 1, k + 1
        lower_starts[r + 1], upper_starts[r + 1] = n, m
    return n, m
