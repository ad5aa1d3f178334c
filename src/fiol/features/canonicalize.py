"""The compiled loops that check rows and bring them into one form. Arrays come in one type each."""

import numpy as np

from fiol.compiler.compiled import inlined, jit

#: Digits of indices by which long rows are sorted: as many as keep their counts few beside the entries of a row.
DIGIT_BITS = 7
DIGIT_VALUES = 1 << DIGIT_BITS


@jit
def survey(data, low, high):
    """How many values are 0, and how many others leave [low, high] in size."""
    zeros, fits = 0, 0
    for k in range(data.shape[0]):
        zeros += data[k] == 0.0
        fits += (abs(data[k]) >= low) & (abs(data[k]) <= high)
    return zeros, data.shape[0] - zeros - fits


@jit
def flaws(indptr, indices, data, low, high):
    """How many indices do not rise within their row, how many values are 0, how many others leave [low, high] in size.

    The first loop compares neighbours across rows too, so that it vectorises; the last takes those back.
    """
    falls, last, n = 0, 0, data.shape[0]
    for k in range(1, n):
        falls += indices[k] <= indices[k - 1]
    for r in range(1, indptr.shape[0] - 1):
        k = indptr[r]
        if last < k < n:  # a start that several rows share is one place
            falls -= indices[k] <= indices[k - 1]
        last = k
    zeros, wrong = survey(data, low, high)
    return falls, zeros, wrong


@jit
def compact(indptr, indices, data, new_indptr, new_indices, new_data):
    """Rows with rising indices: add up equal ones in their order, drop zeros; return how many entries are left."""
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
            if n > start and new_data[n - 1] == 0.0:  # the ones before have cancelled
                n -= 1
            new_indices[n], new_data[n] = indices[k], data[k]
            n += 1
        if n > start and new_data[n - 1] == 0.0:
            n -= 1
        new_indptr[r + 1] = n
    return n


@jit
def count(x, indptr):
    """Where the rows of the dense `x` start without their zeros."""
    indptr[0] = 0
    for r in range(x.shape[0]):
        zeros = 0
        for i in range(x.shape[1]):
            zeros += x[r, i] == 0.0
        indptr[r + 1] = indptr[r] + x.shape[1] - zeros


@jit
def fill(x, indices, data):
    """The entries of the dense `x` that are not 0, row by row; one place more than they need is there."""
    n = 0
    for r in range(x.shape[0]):
        for i in range(x.shape[1]):
            indices[n], data[n] = i, x[r, i]
            n += x[r, i] != 0.0


@jit
def take(indptr, indices, data, order, new_indptr, new_indices, new_data):
    """The rows that `order` names, in that order; where each starts must be known."""
    for r in range(order.shape[0]):
        n, start = new_indptr[r], indptr[order[r]]
        for k in range(new_indptr[r + 1] - n):
            new_indices[n + k], new_data[n + k] = indices[start + k], data[start + k]


@jit
def shuffle(order, seed):
    """Shuffle in place as scikit-learn's stochastic gradient does: Fisher-Yates with a 32-bit xorshift generator."""
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
def sort_by_digits(indices, data, start, n, top, room):
    """Sort n entries by index, stably, by the digits of indices up to `top`: faster than insertion for long rows.

    Of `room` the first two hold the index and the place of every entry as one number, the third the values.
    """
    a, b, values, starts = room
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


@jit
def arrange(indices, data, low, high):
    """One row in place: drop zeros, sort, add up equal indices in their order; return how many entries are left.

    -1 if a value leaves [low, high] in size.
    """
    n, falls, top = 0, 0, 0
    for k in range(data.shape[0]):
        if data[k] != 0.0:
            if not low <= abs(data[k]) <= high:
                return -1
            indices[n], data[n] = indices[k], data[k]
            falls += n > 0 and indices[n] <= indices[n - 1]
            top = max(top, indices[n])
            n += 1
    if falls == 0:
        return n
    if n > 32:
        room = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n), np.empty(DIGIT_VALUES + 1, np.int64)
        sort_by_digits(indices, data, 0, n, top, room)
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
def sort_rows(indptr, indices, data):
    """Sort the entries of every row by index in place, stably; return how many have the index of the one before."""
    longest, twins = 0, 0
    for r in range(indptr.shape[0] - 1):
        longest = max(longest, indptr[r + 1] - indptr[r])
    room = (
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
                sort_by_digits(indices, data, start, n, top, room)
            else:
                sort_by_insertion(indices[start : start + n], data[start : start + n], n)
        for k in range(start + 1, start + n):
            twins += indices[k] == indices[k - 1]
    return twins


@jit
def refused(loss, y, high):
    """The first target beyond `high` in size or not accepted by the loss, or the number of targets."""
    for k in range(y.shape[0]):
        if not (abs(y[k]) <= high and loss.accepts(y[k])):
            return k
    return y.shape[0]
