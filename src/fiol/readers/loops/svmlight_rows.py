"""The rows of svmlight."""

import numpy as np

from fiol.compiler.compiled import inlined_strictly, jit_beside
from fiol.components.component import borrowed
from fiol.readers.loops.codes import DONE, LARGE_INDEX, NO_INDEX, NO_LABEL, NO_VALUE, OUT_OF_RANGE, ZERO_INDEX
from fiol.readers.loops.numbers import known_number, number_at
from fiol.readers.loops.words import (
    COLON,
    DIGIT_0,
    DIGIT_9,
    HALF,
    MINUS,
    NEWLINE,
    RETURN,
    SHARP,
    SPACE,
    TAB,
    U0,
    U1,
    U4,
    U10,
    U18,
)

#: "qid:" as a word.
QUERY = np.uint64(int.from_bytes(b"qid:", "little"))
#: How many features there can be.
MOST = np.uint64(2**31 - 1)


@inlined_strictly
def ends_token(c):
    """Return whether a byte ends a token of svmlight."""
    return c == SPACE or (c == NEWLINE) | (c == TAB) | (c == RETURN) | (c == SHARP)


@inlined_strictly
def after_query(data, words, p):
    """Return where "qid:" and an integer, which may be at p, end; p if they are not there."""
    if words[p] & HALF != QUERY:
        return p
    start = p + U4
    if data[start] == MINUS:
        start += U1
    end = start
    while DIGIT_0 <= data[end] <= DIGIT_9:
        end += U1
    return end if end > start and ends_token(data[end]) else p


@inlined_strictly
def after_white_space(data, p):
    """Return the place of the first byte from p on that is no white space."""
    while data[p] == SPACE or data[p] == TAB or data[p] == RETURN:
        p += U1
    return p


@inlined_strictly
def index_at(data, p, base):
    """Return the index at p, where its digits end, and DONE; or why it is none, or not one of a feature."""
    start, index = p, U0
    while DIGIT_0 <= data[p] <= DIGIT_9:
        index = index * U10 + np.uint64(data[p] - DIGIT_0)
        p += U1
    if data[p] != COLON or p == start:
        return index, p, NO_INDEX
    while p - start >= U18 and data[start] == DIGIT_0:
        start += U1
    if p - start >= U18 or index >= MOST + base:
        return index, p, LARGE_INDEX
    return index, p, DONE if index >= base else ZERO_INDEX


@inlined_strictly
def feature_value_at(data, words, p, hards, hard, low, high):
    """Return the value at p, where it ends, how many numbers were HARD, and DONE; or why it is none."""
    start = p
    if data[p + U1] == SPACE and DIGIT_0 <= data[p] <= DIGIT_9:  # a single digit, as a rule a 1
        value = np.float64(data[p] - DIGIT_0)
        p += U1
    else:
        value, p, code = number_at(data, words, p)
        if code == NO_VALUE or not ends_token(data[p]):
            return value, p, hards, NO_VALUE
        value, hards = known_number(value, code, start, hards, hard)
    return value, p, hards, DONE if low <= abs(value) <= high or value == 0.0 else OUT_OF_RANGE


@jit_beside
def svmlight_rows(
    data, words, p, end, base, row, n, y, indptr, indices, values, hard_at, hard_values, known, low, high
):
    """Write rows of svmlight from p to the end behind the `row` rows and `n` entries that are there.

    The first feature has number `base`. Returns what was found (DONE at the end), where, how many rows and entries
    there are, and how many numbers were HARD. Of these the first `known` are in `hard_values`; where the others start
    is in `hard_at`, as far as there is room. Values are 0 or from `low` to `high` in size.
    """
    data, words, y, indptr, indices, values = borrowed((data, words, y, indptr, indices, values))
    hard_at, hard_values = borrowed((hard_at, hard_values))
    hards, hard = U0, (hard_at, hard_values, known)
    while p < end:
        p = after_white_space(data, p)
        if data[p] != NEWLINE and data[p] != SHARP:
            start = p
            target, p, code = number_at(data, words, p)
            if code == NO_VALUE or not ends_token(data[p]):
                return NO_LABEL, start, row, np.uint64(indptr[row]), hards
            target, hards = known_number(target, code, start, hards, hard)
            if not abs(target) < np.inf:
                return NO_LABEL, start, row, np.uint64(indptr[row]), hards
            while True:
                p = after_white_space(data, p)
                if data[p] == NEWLINE or data[p] == SHARP:
                    break
                start = p
                index, p, code = index_at(data, start, base)
                if code == NO_INDEX:
                    p = after_query(data, words, start)
                    if p > start:
                        continue
                if code != DONE:
                    return code, start, row, np.uint64(indptr[row]), hards
                start = p + U1
                value, p, hards, code = feature_value_at(data, words, start, hards, hard, low, high)
                if code != DONE:
                    return code, start, row, np.uint64(indptr[row]), hards
                indices[n] = np.int32(index - base)
                values[n] = value
                n += U1
            y[row] = target
            row += U1
            indptr[row] = n
        while data[p] != NEWLINE:
            p += U1
        p += U1
    return DONE, p, row, n, hards
