"""The rows of Vowpal Wabbit's text."""

import numpy as np

from fiol.compiler.compiled import inlined_strictly, jit_beside
from fiol.components.component import borrowed
from fiol.readers.loops.codes import (
    AFTER_TAG,
    DONE,
    FULL,
    HARD,
    NO_BAR,
    NO_LABEL,
    NO_NAMESPACE,
    NO_VALUE,
    NO_WEIGHT,
    OUT_OF_RANGE,
    RETURN_INSIDE,
    THIRD_NUMBER,
)
from fiol.readers.loops.names import rehash
from fiol.readers.loops.numbers import number_at
from fiol.readers.loops.words import (
    BAR,
    CARET,
    COLON,
    DIGIT_0,
    NEWLINE,
    QUOTE,
    RETURN,
    SPACE,
    TAB,
    U0,
    U1,
    U2,
    U24,
    appended,
    hash_of,
    same_bytes,
)


@inlined_strictly
def ends_name(c):  # type: ignore[no-untyped-def]
    """Whether a byte of Vowpal Wabbit's text ends the name before it."""
    return (c == SPACE) | (c == COLON) | (c == BAR) | (c == NEWLINE) | (c == TAB) | (c == RETURN)


@inlined_strictly
def ends_number(c):  # type: ignore[no-untyped-def]
    """Whether a byte of Vowpal Wabbit's text ends the number before it."""
    return c == SPACE or (c == NEWLINE) | (c == BAR) | (c == TAB) | (c == RETURN)


@jit_beside
def vw_rows(  # type: ignore[no-untyped-def]
    data, words, p, end, row, n, y, weights, tags, indptr, indices, values,
    names, kept, mask, slots, slot_of, hashes, prefixes, ends, text, text_words, digits, digit_words,
    hard_at, hard_values, known, low, high,
):  # fmt: skip
    """Rows of Vowpal Wabbit's text from p to the end, written behind the `row` rows and `n` entries that are there.

    `tags[row]` is where the tag starts and ends, both 0 without one, and where the line starts; a target is NaN where
    there is none, a weight 1.
    Names are numbered as they appear with a value that is not 0: name i is text[ends[i]:ends[i + 1]], of which the
    first prefixes[i] bytes are a namespace and ^. There are `names` of them, of which only the first `kept` count:
    those of a line that could not be read are taken back. They are found by their hashes in the first mask + 1 `slots`,
    each of which is 0 or one more than a name.

    Returns what was found (DONE at the end, FULL if there is no room for more names), where, how many rows and entries
    there are, how many names, how many of them count, the mask, and how many numbers were HARD: see `svmlight_rows`.
    """
    data, words, y, weights, tags = borrowed((data, words, y, weights, tags))
    indptr, indices, values, digits, digit_words = borrowed((indptr, indices, values, digits, digit_words))
    slots, slot_of, hashes, prefixes, ends = borrowed((slots, slot_of, hashes, prefixes, ends))
    text, text_words, hard_at, hard_values = borrowed((text, text_words, hard_at, hard_values))
    hards, name_room, text_room = U0, np.uint64(slot_of.shape[0]), np.uint64(text.shape[0] - 16)
    while names > kept:
        names -= U1
        slots[slot_of[names]] = 0
    while p < end:
        line, kept = p, names
        while data[p] == SPACE or data[p] == TAB:
            p += U1
        if data[p] == NEWLINE or (data[p] == RETURN and data[p + U1] == NEWLINE):  # an empty line
            while data[p] != NEWLINE:
                p += U1
            p += U1
            continue
        target, weight, count, tag, tag_end = np.nan, 1.0, 0, U0, U0
        while data[p] != BAR:
            start = p
            if data[p] == NEWLINE or data[p] == RETURN:
                return NO_BAR, line, row, np.uint64(indptr[row]), names, kept, mask, hards
            if tag_end > U0:
                return AFTER_TAG, start, row, np.uint64(indptr[row]), names, kept, mask, hards
            while not ends_number(data[p]):
                p += U1
            if data[start] == QUOTE or data[p] == BAR:
                tag, tag_end = start, p
                if data[start] == QUOTE:
                    tag += U1
            else:
                value, stop, code = number_at(data, words, start)
                if code == NO_VALUE or stop != p:
                    return NO_LABEL, start, row, np.uint64(indptr[row]), names, kept, mask, hards
                if code == HARD:
                    if hards < known:
                        value = hard_values[hards]
                    elif hards < np.uint64(hard_at.shape[0]):
                        hard_at[hards] = start
                    hards += U1
                if not abs(value) < np.inf:
                    return NO_LABEL, start, row, np.uint64(indptr[row]), names, kept, mask, hards
                if count == 0:
                    target = value
                elif count == 1:
                    weight = value
                    if not 0.0 <= weight <= 1e30:
                        return NO_WEIGHT, start, row, np.uint64(indptr[row]), names, kept, mask, hards
                else:
                    return THIRD_NUMBER, start, row, np.uint64(indptr[row]), names, kept, mask, hards
                count += 1
            while data[p] == SPACE or data[p] == TAB:
                p += U1
        while data[p] == BAR:
            p += U1
            space, anonymous, factor = p, 0, 1.0  # a namespace
            while not ends_name(data[p]):
                p += U1
            space_end = p
            if data[p] == COLON:
                if space == p:
                    return NO_NAMESPACE, space, row, np.uint64(indptr[row]), names, kept, mask, hards
                p += U1
                start = p
                factor, p, code = number_at(data, words, p)
                if code == NO_VALUE or not ends_number(data[p]):
                    return NO_VALUE, start, row, np.uint64(indptr[row]), names, kept, mask, hards
                if code == HARD:
                    if hards < known:
                        factor = hard_values[hards]
                    elif hards < np.uint64(hard_at.shape[0]):
                        hard_at[hards] = start
                    hards += U1
                    if not abs(factor) < np.inf:
                        return NO_VALUE, start, row, np.uint64(indptr[row]), names, kept, mask, hards
            prefix = space_end - space
            space_hash = hash_of(words, space, space_end, U0)
            while True:
                while data[p] == SPACE or data[p] == TAB:
                    p += U1
                if data[p] == BAR or data[p] == NEWLINE:
                    break
                if data[p] == RETURN:
                    if data[p + U1] != NEWLINE:
                        return RETURN_INSIDE, p, row, np.uint64(indptr[row]), names, kept, mask, hards
                    p += U1
                    break
                start = token = p
                while not ends_name(data[p]):
                    p += U1
                stop, value = p, 1.0
                if data[p] == COLON:
                    p += U1
                    begin = p
                    value, p, code = number_at(data, words, p)
                    if code == NO_VALUE or not ends_number(data[p]):
                        return NO_VALUE, begin, row, np.uint64(indptr[row]), names, kept, mask, hards
                    if code == HARD:
                        if hards < known:
                            value = hard_values[hards]
                        elif hards < np.uint64(hard_at.shape[0]):
                            hard_at[hards] = begin
                        hards += U1
                value = value * factor
                source, source_words = data, words
                if stop == start:  # called by its place among those without a name
                    source, source_words, start, stop, left = digits, digit_words, U24, U24, anonymous
                    anonymous += 1
                    while left > 0 or start == stop:
                        start -= U1
                        digits[start] = DIGIT_0 + left % 10
                        left //= 10
                if not (low <= abs(value) <= high):
                    if value == 0.0:
                        continue
                    return OUT_OF_RANGE, token, row, np.uint64(indptr[row]), names, kept, mask, hards
                h = hash_of(source_words, start, stop, space_hash)
                size = stop - start
                if prefix > U0:
                    size += prefix + U1
                slot = h & mask
                found = np.uint64(slots[slot])
                while found > U0:
                    name = found - U1
                    o = np.uint64(ends[name])
                    if (
                        hashes[name] == h
                        and prefixes[name] == prefix
                        and np.uint64(ends[found]) - o == size
                        and same_bytes(words, space, space_end, text_words, o)
                        and same_bytes(source_words, start, stop, text_words, o + size - (stop - start))
                    ):
                        break
                    slot = (slot + U1) & mask
                    found = np.uint64(slots[slot])
                if found == U0:
                    o = np.uint64(ends[names])
                    if names >= name_room or o + size > text_room:
                        return FULL, line, row, np.uint64(indptr[row]), names, kept, mask, hards
                    hashes[names], prefixes[names], slot_of[names] = h, prefix, slot
                    o = appended(data, space, space_end, text, o)
                    if prefix > U0:
                        text[o] = CARET
                        o += U1
                    o = appended(source, start, stop, text, o)
                    names += U1
                    ends[names] = o
                    slots[slot] = names
                    found = names
                    if names + names > mask and mask + U1 < np.uint64(slots.shape[0]):
                        mask = mask + mask + U1
                        rehash(slots, slot_of, hashes, names, mask)
                indices[n] = np.int32(found - U1)
                values[n] = value
                n += U1
        y[row], weights[row], tags[row, U0], tags[row, U1], tags[row, U2] = target, weight, tag, tag_end, line
        row += U1
        indptr[row] = n
        p += U1
    return DONE, p, row, n, names, names, mask, hards
