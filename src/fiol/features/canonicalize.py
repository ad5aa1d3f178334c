"""Compiled loops that check rows and bring them into canonical form."""

import numpy as np

from fiol.compiler.compiled import inlined, jit
from fiol.components.component import borrowed
from fiol.components.simd import larger

#: Bits per digit for sorting long rows: few, so that counting is cheap beside the entries of a row.
DIGIT_BITS = 7
DIGIT_VALUES = 1 << DIGIT_BITS


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
def compact(indptr, indices, data, new_indptr, new_indices, new_data):
    """Add up duplicates, drop zeros of rows with ascending indices, and return the number of entries left."""
    n = 0
    new_indptr[0] = 0
    for r in range(indptr.shape[0] - 1):
        start = n
        for k in range(indptr[r], indptr[r + 1]):
            if data[k] == 0.0:
                continue
            if n > start and new_indices[n - 1] == indices[k]:
                new_data[n - 1] += data[k]
                continue
            if n > start and new_data[n - 1] == 0.0:  # the sum before is 0
                n -= 1
            new_indices[n], new_data[n] = indices[k], data[k]
            n += 1
        if n > start and new_data[n - 1] == 0.0:
            n -= 1
        new_indptr[r + 1] = n
    return n


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
        n, start = new_indptr[r], indptr[order[r]]
        for k in range(new_indptr[r + 1] - n):
            new_indices[n + k], new_data[n + k] = indices[start + k], data[start + k]


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


@inlined
def sort_by_insertion(indices, data, n):
    """Sort the first n entries by index, stably."""
    for k in range(1, n):
        index, value, j = indices[k], data[k], k
        while j > 0 and indices[j - 1] > index:
            indices[j], data[j] = indices[j - 1], data[j - 1]
            j -= 1
        indices[j], data[j] = index, value


@inlined
def sort_by_digits(indices, data, start, n, top, buffers):
    """Sort n entries by index, stably, by the digits of indices up to `top`: faster than insertion for long rows.

    Of `buffers` the first two hold index and position of every entry as one number, the third the values.
    """
    a, b, values, starts = buffers
    for k in range(n):
        a[k] = (np.int64(indices[start + k]) << 32) | k
        values[k] = data[start + k]
    shift = 32
    while (np.int64(top) << 32) >> shift > 0:
        for digit in range(DIGIT_VALUES + 1):  # loops: assignments to slices take seconds to compile
            starts[digit] = 0
        for k in range(n):
            starts[((a[k] >> shift) & (DIGIT_VALUES - 1)) + 1] += 1
        for digit in range(DIGIT_VALUES):
            starts[digit + 1] += starts[digit]
        for k in range(n):
            digit = (a[k] >> shift) & (DIGIT_VALUES - 1)
            b[starts[digit]] = a[k]
            starts[digit] += 1
        a, b = b, a
        shift += DIGIT_BITS
    for k in range(n):
        indices[start + k], data[start + k] = a[k] >> 32, values[a[k] & 0xFFFFFFFF]


@inlined
def arrange_entries(indices, data, low, high):
    """Make one row canonical in place, and return the number of entries left; -1 if a value is out of range."""
    n, falls, top = 0, 0, 0
    for k in range(data.shape[0]):
        if data[k] != 0.0:
            if not low <= abs(data[k]) <= high:
                return -1
            indices[n], data[n] = indices[k], data[k]
            falls += n > 0 and indices[n] <= indices[n - 1]
            top = larger(top, indices[n])
            n += 1
    if falls == 0:
        return n
    if n > 32:
        buffers = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n), np.empty(DIGIT_VALUES + 1, np.int64)
        sort_by_digits(indices, data, 0, n, top, buffers)
    else:
        sort_by_insertion(indices, data, n)
    left, k = 0, 0
    while k < n:
        index, value = indices[k], data[k]
        k += 1
        while k < n and indices[k] == index:
            value += data[k]
            k += 1
        if value != 0.0:
            if not low <= abs(value) <= high:
                return -1
            indices[left], data[left] = index, value
            left += 1
    return left


@jit
def arrange(indices, data, low, high):
    """Make one row canonical in place, and return the number of entries left; -1 if a value is out of range."""
    return arrange_entries(borrowed(indices), borrowed(data), low, high)


@jit
def sort_rows(indptr, indices, data):
    """Sort the entries of every row by index in place, stably, and return the number of duplicates."""
    longest, twins = 0, 0
    for r in range(indptr.shape[0] - 1):
        longest = max(longest, indptr[r + 1] - indptr[r])
    buffers = (
        np.empty(longest, np.int64),
        np.empty(longest, np.int64),
        np.empty(longest),
        np.empty(DIGIT_VALUES + 1, np.int64),
    )
    for r in range(indptr.shape[0] - 1):
        start, n, falls, top = indptr[r], indptr[r + 1] - indptr[r], 0, 0
        for k in range(start, start + n):
            falls += k > start and indices[k] < indices[k - 1]
            top = max(top, indices[k])
        if falls > 0:
            if n > 32:
                sort_by_digits(indices, data, start, n, top, buffers)
            else:
                sort_by_insertion(indices[start : start + n], data[start : start + n], n)
        for k in range(start + 1, start + n):
            twins += indices[k] == indices[k - 1]
    return twins


@jit
def refused(loss, y, high):
    """Return the first target beyond `high` in size or not accepted by the loss; without one, the number of targets."""
    for k in range(y.shape[0]):
        if not (abs(y[k]) <= high and loss.accepts(y[k])):
            return k
    return y.shape[0]
