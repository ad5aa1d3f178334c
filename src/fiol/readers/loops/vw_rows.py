"""The rows of Vowpal Wabbit's text."""

import numpy as np

from fiol.compiler.compiled import inlined_strictly, jit_beside
from fiol.components.component import borrowed
from fiol.features.murmur import finished, stirred
from fiol.readers.loops.codes import (
    AFTER_TAG,
    DONE,
    FULL,
    NO_BAR,
    NO_LABEL,
    NO_NAMESPACE,
    NO_VALUE,
    NO_WEIGHT,
    OUT_OF_RANGE,
    RETURN_INSIDE,
    THIRD_NUMBER,
)
from fiol.readers.loops.names import MOST_OWNER, add_name, find_name, has_room, take_back
from fiol.readers.loops.numbers import number_at, number_told
from fiol.readers.loops.words import (
    BAR,
    CARET,
    COLON,
    DIGIT_0,
    DIGIT_9,
    FIRST_BYTES,
    HALF,
    MINUS,
    NEWLINE,
    ONES,
    PLUS,
    POINT,
    QUOTE,
    RETURN,
    SPACE,
    TAB,
    U0,
    U1,
    U2,
    U3,
    U4,
    U8,
    U16,
    U24,
    appended,
    equal_bytes,
    low_bytes,
    place_of,
)

#: Bytes that end a name, and those to look for eight at a time: two, and all below the least of the others.
ENDS_NAME = np.isin(np.arange(256), [SPACE, COLON, BAR, NEWLINE, TAB, RETURN])
COLONS, BARS, FIRST_VISIBLE = np.uint64(COLON) * ONES, np.uint64(BAR) * ONES, np.uint64(SPACE + 1) * ONES
CARETS = np.uint64(CARET) * ONES
#: Bytes that a text value cannot begin with, because numbers do.
BEGINS_NUMBER = np.isin(np.arange(256), [*range(DIGIT_0, DIGIT_9 + 1), MINUS, PLUS, POINT])
#: The first letters of values that other programs read as numbers which are not finite, in lower case.
NAN, INF = (np.uint64(int.from_bytes(word, "little")) for word in (b"nan", b"inf"))
LOWER_CASE, THREE_BYTES = np.uint64(0x202020), np.uint64(0xFFFFFF)


@inlined_strictly
def name_end(data, words, p):
    """Where the name ends that starts at p."""
    while True:
        word = words[p]
        hit = low_bytes(word, FIRST_VISIBLE) | equal_bytes(word, COLONS) | equal_bytes(word, BARS)
        p += place_of(hit)
        if hit != U0:
            if ENDS_NAME[data[p]]:
                return p
            p += U1  # another control character


@inlined_strictly
def ends_number(c):
    """Whether a byte of Vowpal Wabbit's text ends the number before it."""
    return c == SPACE or (c == NEWLINE) | (c == BAR) | (c == TAB) | (c == RETURN)


@inlined_strictly
def first_caret(words, p, end):
    """Return the place of the first caret among the bytes from p to the end; the end if there is none."""
    while p < end:
        place = place_of(equal_bytes(words[p], CARETS))
        if place < U8:
            return min(p + place, end)
        p += U8
    return end


@inlined_strictly
def text_value_end(data, words, p):
    """Return where the text value that starts at p ends; p if what stands there is no text value."""
    first = (words[p] & THREE_BYTES) | LOWER_CASE
    if BEGINS_NUMBER[data[p]] or (first == NAN) | (first == INF):
        return p
    stop = p
    while not ends_number(data[stop]):
        stop += U1
    return p if data[stop] == BAR else stop


@inlined_strictly
def write_front(words, space, space_end, barred, text, text_words, o):
    """Write what stands before the names of a namespace, from o on, and return where it ends.

    That is the namespace and a caret, or where these would be ambiguous (`barred`) a bar, the namespace and a blank.
    """
    if barred:
        text[o] = BAR
        o += U1
    o = appended(words, space, space_end, text_words, o)
    text[o] = SPACE if barred else CARET
    return o + U1


@inlined_strictly
def murmur3_of_words(words, p, end):
    """Murmur3 of the bytes from p to the end."""
    h, size = U0, end - p
    while p + U4 <= end:
        h = stirred(h, words[p] & HALF)
        p += U4
    return finished(h, words[p] & FIRST_BYTES[end - p], size)


@jit_beside
def vw_rows(
    data, words, p, end, row, n, y, weights, tags, indptr, indices, values,
    modulus, names, kept, mask, slots, about, text, text_words,
    spaces, space_slots, space_about, space_text, space_words, digits, digit_words,
    hard_at, hard_values, known, low, high, named_labels,
):  # fmt: skip
    """Rows of Vowpal Wabbit's text from p to the end, written behind the `row` rows and `n` entries that are there.

    `tags[row]` is where the tag starts and ends, both 0 without one, where the line starts, and with `named_labels`
    where the label starts and ends; a target is NaN where there is none, a weight 1.
    Features are numbered by the hash of their names if there is a `modulus`, not 0, and by their names (see `names.py`)
    otherwise, as these appear with a value that is not 0. There are `names` of them, of which only the first `kept`
    count: those of a line that could not be read are taken back. Of namespaces there are `spaces` in a small table of
    their own, which need not be all.

    Returns what was found (DONE at the end, FULL if there is no room for more names), where, how many rows and entries
    there are, how many names, how many of them count, the mask, how many namespaces, and how many numbers were HARD
    (see `svmlight_rows`).
    """
    data, words, y, weights, tags = borrowed((data, words, y, weights, tags))
    indptr, indices, values, digits, digit_words = borrowed((indptr, indices, values, digits, digit_words))
    slots, about, text, text_words = borrowed((slots, about, text, text_words))
    space_slots, space_about, space_text = borrowed((space_slots, space_about, space_text))
    space_words, hard_at, hard_values = borrowed((space_words, hard_at, hard_values))
    table, space_table = (slots, about, text, text_words), (space_slots, space_about, space_text, space_words)
    hards, hard, space_mask = U0, (hard_at, hard_values, known), np.uint64(space_slots.shape[0] - 1)
    names, text_room = take_back(table, names, kept), np.uint64(text.shape[0])
    while p < end:
        line, kept = p, names
        while data[p] == SPACE or data[p] == TAB:
            p += U1
        if data[p] == NEWLINE or (data[p] == RETURN and data[p + U1] == NEWLINE):  # an empty line
            while data[p] != NEWLINE:
                p += U1
            p += U1
            continue
        target, weight, count, tag, tag_end, label, label_end = np.nan, 1.0, 0, U0, U0, U0, U0
        while data[p] != BAR:
            start = p
            if data[p] == NEWLINE or data[p] == RETURN:
                return NO_BAR, line, row, np.uint64(indptr[row]), names, kept, mask, spaces, hards
            if tag_end > U0:
                return AFTER_TAG, start, row, np.uint64(indptr[row]), names, kept, mask, spaces, hards
            while not ends_number(data[p]):
                p += U1
            if data[start] == QUOTE or data[p] == BAR:
                tag, tag_end = start, p
                if data[start] == QUOTE:
                    tag += U1
            elif named_labels and count == 0:
                label, label_end, count = start, p, 1
            else:
                value, stop, code = number_at(data, words, start)
                if code == NO_VALUE or stop != p:
                    return NO_LABEL, start, row, np.uint64(indptr[row]), names, kept, mask, spaces, hards
                value, hards = number_told(value, code, start, hards, hard)
                if not abs(value) < np.inf:
                    return NO_LABEL, start, row, np.uint64(indptr[row]), names, kept, mask, spaces, hards
                if count == 0:
                    target = value
                elif count == 1:
                    weight = value
                    if not 0.0 <= weight <= 1e30:
                        return NO_WEIGHT, start, row, np.uint64(indptr[row]), names, kept, mask, spaces, hards
                else:
                    return THIRD_NUMBER, start, row, np.uint64(indptr[row]), names, kept, mask, spaces, hards
                count += 1
            while data[p] == SPACE or data[p] == TAB:
                p += U1
        while data[p] == BAR:
            p += U1
            space, anonymous, factor = p, 0, 1.0  # a namespace
            p = space_end = name_end(data, words, p)
            if data[p] == COLON:
                if space == p:
                    return NO_NAMESPACE, space, row, np.uint64(indptr[row]), names, kept, mask, spaces, hards
                p += U1
                start = p
                factor, p, code = number_at(data, words, p)
                if code == NO_VALUE or not ends_number(data[p]):
                    return NO_VALUE, start, row, np.uint64(indptr[row]), names, kept, mask, spaces, hards
                factor, hards = number_told(factor, code, start, hards, hard)
                if not abs(factor) < np.inf:
                    return NO_VALUE, start, row, np.uint64(indptr[row]), names, kept, mask, spaces, hards
            owner, prefix, written, barred = U0, space_end - space, U0, False
            if prefix > U0:
                barred = first_caret(words, space, space_end) < space_end
                prefix += U2 if barred else U1  # with what is around it
                if modulus > U0:
                    if prefix + U16 > text_room:
                        return FULL, line, row, np.uint64(indptr[row]), names, kept, mask, spaces, hards
                    written = write_front(words, space, space_end, barred, text, text_words, U0)
                else:
                    slot, h = find_name(words, space, space_end, U0, (words, U0, U0), U0, space_table, space_mask)
                    owner = space_slots[slot, U1] & HALF
                    if owner == U0:
                        owner = MOST_OWNER
                        if spaces + spaces <= space_mask and has_room(space_table, spaces, prefix):
                            o = appended(words, space, space_end, space_words, space_about[spaces, U0])
                            spaces, _ = add_name(slot, h, U0, space_end - space, U0, o, space_table, spaces, space_mask)
                            owner = spaces
            while True:
                while data[p] == SPACE or data[p] == TAB:
                    p += U1
                if data[p] == BAR or data[p] == NEWLINE:
                    break
                if data[p] == RETURN:
                    if data[p + U1] != NEWLINE:
                        return RETURN_INSIDE, p, row, np.uint64(indptr[row]), names, kept, mask, spaces, hards
                    p += U1
                    break
                start = token = p
                p = stop = name_end(data, words, p)
                value = factor
                if data[p] == COLON:
                    begin = p + U1
                    p = text_value_end(data, words, begin)
                    if p > begin:  # part of the name, which is the value alone where there is no other
                        start = begin if start == stop else start
                        stop, value = p, 1.0
                    else:
                        value, p, code = number_at(data, words, begin)
                        if code == NO_VALUE or not ends_number(data[p]):
                            return NO_VALUE, begin, row, np.uint64(indptr[row]), names, kept, mask, spaces, hards
                        value, hards = number_told(value, code, begin, hards, hard)
                        value = value * factor
                source_words = words
                if stop == start:  # called by its place among those without a name
                    source_words, start, stop, left = digit_words, U24, U24, anonymous
                    anonymous += 1
                    while left > 0 or start == stop:
                        start -= U1
                        digits[start] = DIGIT_0 + left % 10
                        left //= 10
                if not (low <= abs(value) <= high):
                    if value == 0.0:
                        continue
                    return OUT_OF_RANGE, token, row, np.uint64(indptr[row]), names, kept, mask, spaces, hards
                size = stop - start
                if space == space_end:
                    caret = first_caret(source_words, start, stop)
                    barred = start < caret and caret + U1 < stop
                    prefix = U2 if barred else U0
                if modulus > U0:
                    if prefix > U0:  # behind its namespace
                        if prefix + size + U16 > text_room:
                            return FULL, line, row, np.uint64(indptr[row]), names, kept, mask, spaces, hards
                        if space == space_end:
                            written = write_front(words, space, space_end, barred, text, text_words, U0)
                        stop = appended(source_words, start, stop, text_words, written)
                        source_words, start = text_words, U0
                    indices[n] = np.int32(murmur3_of_words(source_words, start, stop) % modulus)
                else:
                    front = (words, space - U1 if barred else space, space_end)
                    slot, h = find_name(source_words, start, stop, owner, front, prefix, table, mask)
                    found = slots[slot, U1] & HALF
                    if found == U0:
                        if not has_room(table, names, prefix + size):
                            return FULL, line, row, np.uint64(indptr[row]), names, kept, mask, spaces, hards
                        o = about[names, U0]
                        if prefix > U0:
                            o = write_front(words, space, space_end, barred, text, text_words, o)
                        o = appended(source_words, start, stop, text_words, o)
                        found = names + U1
                        names, mask = add_name(slot, h, owner, size, prefix, o, table, names, mask)
                    indices[n] = np.int32(found - U1)
                values[n] = value
                n += U1
        y[row], weights[row], tags[row, U0], tags[row, U1], tags[row, U2] = target, weight, tag, tag_end, line
        tags[row, U3], tags[row, U4] = label, label_end
        row += U1
        indptr[row] = n
        p += U1
    return DONE, p, row, n, names, names, mask, spaces, hards
