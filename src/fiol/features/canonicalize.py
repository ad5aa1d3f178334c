"""Compiled loops that check rows and bring them into canonical form."""

import numpy as np

from fiol.compiler.compiled import inlined, inlined_strictly, jit, prefetch
from fiol.components.component import borrowed

#: Rows of more entries are sorted digit by digit, and rows of this many by longer digits.
SHORT_ROW, LONG_ROW = 32, 1000
#: Bits per digit: few, so that counting is cheap beside the entries of a row.
DIGIT_BITS, LONG_DIGIT_BITS = 7, 10
#: A key has an index in the higher bits, and the place of an entry in its row in the lower ones.
PLACE_BITS = 32
PLACE_MASK = (1 << PLACE_BITS) - 1

#: Rows in random order are prefetched this many ahead, by cache lines of this many values.
ROWS_AHEAD, ENTRIES_PER_LINE = 8, 8


@jit
def survey(data, low, high):
    """Return how many values are 0, and how many others are not in [low, high] in size."""
    zeros, fits = 0, 0
    for k in range(data.shape[0]):
        zeros += data[k] == 0.0
        fits += (abs(data[k]) >= low) & (abs(data[k]) <= high)
    return zeros, data.shape[0] - zeros - fits


@jit
def flaws(indptr, indices, data, low, high):
    """Return how many indices do not ascend within their row, and the results of `survey`.

    The first loop compares neighbors across rows too, so that it vectorizes; the second one subtracts these.
    """
    falls, last, n = 0, 0, data.shape[0]
    for k in range(1, n):
        falls += indices[k] <= indices[k - 1]
    for r in range(1, indptr.shape[0] - 1):
        k = indptr[r]
        if last < k < n:  # several empty rows share a start
            falls -= indices[k] <= indices[k - 1]
        last = k
    zeros, wrong = survey(data, low, high)
    return falls, zeros, wrong


@jit
def count(x, indptr):
    """Write the starts of the rows of the dense `x` without zeros."""
    indptr[0] = 0
    for r in range(x.shape[0]):
        zeros = 0
        for i in range(x.shape[1]):
            zeros += x[r, i] == 0.0
        indptr[r + 1] = indptr[r] + x.shape[1] - zeros


@jit
def fill(x, indices, data):
    """Write the entries of the dense `x` that are not 0, row by row; the arrays have one place more."""
    n = 0
    for r in range(x.shape[0]):
        for i in range(x.shape[1]):
            indices[n], data[n] = i, x[r, i]
            n += x[r, i] != 0.0


@jit
def take(indptr, indices, data, order, new_indptr, new_indices, new_data):
    """Write the rows that `order` names, in that order, to the starts in `new_indptr`."""
    for r in range(order.shape[0]):
        if r + ROWS_AHEAD < order.shape[0]:
            ahead = order[r + ROWS_AHEAD]
            for k in range(indptr[ahead], indptr[ahead + 1], ENTRIES_PER_LINE):
                prefetch(indices, k)
                prefetch(data, k)
        first, last, start = new_indptr[r], new_indptr[r + 1], indptr[order[r]]
        of_indices, of_data = indices[start : start + last - first], data[start : start + last - first]
        row_indices, row_data = new_indices[first:last], new_data[first:last]
        for k in range(row_indices.shape[0]):  # loops of their own vectorize
            row_indices[k] = of_indices[k]
        for k in range(row_data.shape[0]):
            row_data[k] = of_data[k]


@jit
def add_moments(indices, data, places, counts, first, sums, squares):
    """Add values to the arrays of `FeatureMoments`; those of feature i are at places[i], nowhere if that is -1."""
    for k in range(data.shape[0]):
        j = places[indices[k]]
        if j >= 0:
            if counts[j] == 0.0:
                first[j] = data[k]
            difference = data[k] - first[j]
            counts[j] += 1.0
            sums[j] += difference
            squares[j] += difference * difference


@jit
def count_beyond(indices, data, centers, limits):
    """Return how many values are farther from the center of their feature than its limit."""
    found = 0
    for k in range(data.shape[0]):
        i = indices[k]
        found += abs(data[k] - centers[i]) > limits[i]
    return found


@jit
def shuffle(order, seed):
    """Shuffle in place as scikit-learn's SGD does: Fisher-Yates with a 32-bit xorshift generator."""
    word = 0xFFFFFFFF
    state = seed if seed != 0 else 1
    for r in range(order.shape[0] - 1):
        state ^= (state << 13) & word
        state ^= state >> 17
        state ^= (state << 5) & word
        other = r + (state & 0x7FFFFFFF) % (order.shape[0] - r)
        order[r], order[other] = order[other], order[r]


@inlined_strictly
def sort_by_insertion(keys, n):
    """Sort the first n keys."""
    for k in range(1, n):
        key, j = keys[k], k
        while j > 0 and keys[j - 1] > key:
            keys[j] = keys[j - 1]
            j -= 1
        keys[j] = key


@inlined_strictly
def sort_by_digits(keys, others, n, top, starts):
    """Return the first n keys sorted by indices up to `top`, digit by digit: they are in `keys` or in `others`."""
    bits = DIGIT_BITS if n < LONG_ROW else LONG_DIGIT_BITS
    last, shift = (1 << bits) - 1, PLACE_BITS
    while np.int64(top) << PLACE_BITS >> shift > 0:
        for digit in range(last + 2):  # loops: assignments to slices take seconds to compile
            starts[digit] = 0
        for k in range(n):
            starts[((keys[k] >> shift) & last) + 1] += 1
        for digit in range(last + 1):
            starts[digit + 1] += starts[digit]
        for k in range(n):
            digit = (keys[k] >> shift) & last
            others[starts[digit]] = keys[k]
            starts[digit] += 1
        keys, others = others, keys
        shift += bits
    return keys


@inlined_strictly
def sorted_keys(indices, keys, others, starts):
    """Return a key for each entry of a row, its index and then its place, in ascending order.

    `keys`, `others` and `starts` are memory for it, as `key_memory` makes it.
    """
    falls, top, n = 0, 0, indices.shape[0]
    for k in range(n):
        keys[k] = (np.int64(indices[k]) << PLACE_BITS) | k
        falls += k > 0 and indices[k] < indices[k - 1]
        top = max(top, indices[k])
    if falls == 0:
        return keys
    if n > SHORT_ROW:
        return sort_by_digits(keys, others, n, top, starts)
    sort_by_insertion(keys, n)
    return keys


@inlined_strictly
def key_memory(n):
    """Return memory for the keys of rows of up to n entries."""
    keys = np.empty(n, np.int64)
    if n <= SHORT_ROW:
        return keys, keys, keys
    return keys, np.empty(n, np.int64), np.empty((1 << LONG_DIGIT_BITS) + 1, np.int64)


@inlined_strictly
def merge_entries(keys, data, new_indices, new_data, left):
    """Write the entries of a row by ascending keys, duplicates added up, without zeros. Return where they end."""
    index, value = np.int64(-1), 0.0
    for k in range(data.shape[0]):
        following, more = keys[k] >> PLACE_BITS, data[keys[k] & PLACE_MASK]
        if following == index:
            value += more
        else:
            if value != 0.0:
                new_indices[left], new_data[left] = index, value
                left += 1
            index, value = following, more
    if value != 0.0:
        new_indices[left], new_data[left] = index, value
        left += 1
    return left


@inlined
def arrange_entries(indices, data, low, high):
    """Make one row canonical in place, and return the number of entries left; -1 if a value is out of range."""
    n, falls = 0, 0
    for k in range(data.shape[0]):
        if data[k] != 0.0:
            if not low <= abs(data[k]) <= high:
                return -1
            indices[n], data[n] = indices[k], data[k]
            falls += n > 0 and indices[n] <= indices[n - 1]
            n += 1
    if falls == 0:
        return n
    keys, others, starts = key_memory(n)
    values = np.empty(n)
    for k in range(n):
        values[k] = data[k]
    left = merge_entries(sorted_keys(indices[:n], keys, others, starts), values, indices, data, 0)
    for k in range(left):
        if not low <= abs(data[k]) <= high:
            return -1
    return left


@jit
def arrange(indices, data, low, high):
    """Make one row canonical in place, and return the number of entries left; -1 if a value is out of range."""
    return arrange_entries(borrowed(indices), borrowed(data), low, high)


@jit
def arrange_rows(indptr, indices, data, new_indptr, new_indices, new_data):
    """Write rows with ascending indices, duplicates added up in their order, without zeros. Return where they end."""
    longest, left = 0, 0
    for r in range(indptr.shape[0] - 1):
        longest = max(longest, indptr[r + 1] - indptr[r])
    keys, others, starts = key_memory(longest)
    new_indptr[0] = 0
    for r in range(indptr.shape[0] - 1):
        row = sorted_keys(indices[indptr[r] : indptr[r + 1]], keys, others, starts)
        left = merge_entries(row, data[indptr[r] : indptr[r + 1]], new_indices, new_data, left)
        new_indptr[r + 1] = left
    return left


@jit
def refused(loss, y, high):
    """Return the first target beyond `high` in size or not accepted by the loss; without one, the number of targets."""
    for k in range(y.shape[0]):
        if not (abs(y[k]) <= high and loss.accepts(y[k])):
            return k
    return y.shape[0]
