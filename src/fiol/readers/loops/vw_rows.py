"""The rows of Vowpal Wabbit's text."""

import numpy as np

from fiol.compiler.compiled import inlined_strictly, jit_beside
from fiol.components.component import borrowed
from fiol.features.murmur import murmur3_of
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
from fiol.readers.loops.numbers import known_number, number_at
from fiol.readers.loops.words import (
    BAR,
    CARET,
    COLON,
    DIGIT_0,
    DIGIT_9,
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
    """Return where the name ends that starts at p."""
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
    """Return whether a byte of Vowpal Wabbit's text ends the number before it."""
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
def after_blanks(data, p):
    """Return the place of the first byte from p on that is no blank and no tab."""
    while data[p] == SPACE or data[p] == TAB:
        p += U1
    return p


@inlined_strictly
def checked_number_at(data, words, p, hards, hard):
    """Return the number at p, where it ends, how many were HARD, and DONE; p as its end and NO_VALUE if it is none."""
    value, stop, code = number_at(data, words, p)
    if code == NO_VALUE or not ends_number(data[stop]):
        return value, p, hards, NO_VALUE
    value, hards = known_number(value, code, p, hards, hard)
    return value, stop, hards, DONE


@inlined_strictly
def read_label(data, words, p, line, labels, row, named_labels, hards, hard):
    """Write what stands before the first bar of a line to row `row` of the arrays `labels`.

    Returns DONE and the place of the bar, or what is wrong and where; and how many numbers were HARD.
    """
    y, weights, tags = labels
    y[row], weights[row], tags[row, U2] = np.nan, 1.0, line
    tags[row, U0], tags[row, U1], tags[row, U3], tags[row, U4] = U0, U0, U0, U0
    count, tagged = 0, False
    while data[p] != BAR:
        start = p
        if data[p] == NEWLINE or data[p] == RETURN:
            return NO_BAR, line, hards
        if tagged:
            return AFTER_TAG, start, hards
        while not ends_number(data[p]):
            p += U1
        if data[start] == QUOTE or data[p] == BAR:
            tags[row, U0], tags[row, U1] = start + np.uint64(data[start] == QUOTE), p
            tagged = True
        elif named_labels and count == 0:
            tags[row, U3], tags[row, U4] = start, p
            count = 1
        else:
            value, _, hards, code = checked_number_at(data, words, start, hards, hard)
            if code != DONE or not abs(value) < np.inf:
                return NO_LABEL, start, hards
            if count == 0:
                y[row] = value
            elif count > 1:
                return THIRD_NUMBER, start, hards
            elif 0.0 <= value <= 1e30:
                weights[row] = value
            else:
                return NO_WEIGHT, start, hards
            count += 1
        p = after_blanks(data, p)
    return DONE, p, hards


@inlined_strictly
def owner_of(words, space, space_end, space_table, spaces):
    """Return the number of a namespace, `MOST_OWNER` if there is no room for it; and how many namespaces there are."""
    slots, about, _text, text_words = space_table
    mask, size = np.uint64(slots.shape[0] - 1), space_end - space
    slot, h = find_name(words, space, space_end, U0, (words, U0, U0), U0, space_table, mask)
    owner = slots[slot, U1] & HALF
    if owner == U0:
        owner = MOST_OWNER
        if spaces + spaces <= mask and has_room(space_table, spaces, size + U2):
            o = appended(words, space, space_end, text_words, about[spaces, U0])
            spaces, _ = add_name(slot, h, U0, size, U0, o, space_table, spaces, mask)
            owner = spaces
    return owner, spaces


@inlined_strictly
def write_digits(digits, number):
    """Write a number as text that ends at 24, and return where it starts."""
    start = U24
    while number > 0 or start == U24:
        start -= U1
        digits[start] = DIGIT_0 + number % 10
        number //= 10
    return start


@inlined_strictly
def hashed_feature(words, namespace, source_words, start, stop, table, modulus):
    """Return the number, from 1, that the hash of a feature's name gives it; 0 if there is no room for the name.

    The name is in `source_words`, and its namespace, which is hashed with it, in `words`.
    """
    space, space_end, _owner, prefix, barred = namespace
    _slots, _about, text, text_words = table
    if prefix > U0:
        if prefix + (stop - start) + U16 > np.uint64(text.shape[0]):
            return U0
        if space == space_end:
            write_front(words, space, space_end, barred, text, text_words, U0)
        stop = appended(source_words, start, stop, text_words, prefix)
        source_words, start = text_words, U0
    return murmur3_of(source_words, start, stop) % modulus + U1


@inlined_strictly
def named_feature(words, namespace, source_words, start, stop, table, names, mask):
    """Return the number, from 1, of a feature by its name, 0 if there is no room for it; and names, mask.

    The name is in `source_words`, and its namespace in `words`.
    """
    space, space_end, owner, prefix, barred = namespace
    slots, about, text, text_words = table
    size, front = stop - start, (words, space - U1 if barred else space, space_end)
    slot, h = find_name(source_words, start, stop, owner, front, prefix, table, mask)
    found = slots[slot, U1] & HALF
    if found == U0:
        if not has_room(table, names, prefix + size):
            return U0, names, mask
        o = about[names, U0]
        if prefix > U0:
            o = write_front(words, space, space_end, barred, text, text_words, o)
        o = appended(source_words, start, stop, text_words, o)
        found = names + U1
        names, mask = add_name(slot, h, owner, size, prefix, o, table, names, mask)
    return found, names, mask


@inlined_strictly
def feature_number(words, namespace, source_words, start, stop, table, modulus, names, mask):
    """Return the number of a feature, from 1, 0 if there is no room for its name; and names, mask."""
    space, space_end, owner, prefix, barred = namespace
    if space == space_end:
        caret = first_caret(source_words, start, stop)
        barred = start < caret and caret + U1 < stop
        prefix = U2 if barred else U0
    namespace = space, space_end, owner, prefix, barred
    if modulus > U0:
        return hashed_feature(words, namespace, source_words, start, stop, table, modulus), names, mask
    return named_feature(words, namespace, source_words, start, stop, table, names, mask)


@inlined_strictly
def read_features(data, words, p, namespace, factor, entries, table, modulus, numerals, counts, hard, low, high):
    """Write the features of a namespace from p on behind the entries that are there, values times a factor.

    Returns DONE and the place of the bar or the line's end behind them, or what is wrong and where; and the counts.
    """
    indices, values = entries
    digits, digit_words = numerals
    n, names, mask, hards = counts
    anonymous = 0
    while True:
        p = after_blanks(data, p)
        if data[p] == BAR or data[p] == NEWLINE:
            return DONE, p, (n, names, mask, hards)
        if data[p] == RETURN:
            if data[p + U1] == NEWLINE:
                return DONE, p + U1, (n, names, mask, hards)
            return RETURN_INSIDE, p, (n, names, mask, hards)
        token = start = p
        p = stop = name_end(data, words, p)
        value, source_words = factor, words
        if data[p] == COLON:
            begin = p + U1
            p = text_value_end(data, words, begin)
            if p > begin:  # part of the name, which is the value alone where there is no other
                start = begin if start == stop else start
                stop, value = p, 1.0
            else:
                value, p, hards, code = checked_number_at(data, words, begin, hards, hard)
                if code != DONE:
                    return code, begin, (n, names, mask, hards)
                value = value * factor
        if stop == start:  # called by its place among those without a name
            source_words, start, stop = digit_words, write_digits(digits, anonymous), U24
            anonymous += 1
        if low <= abs(value) <= high:
            found, names, mask = feature_number(
                words, namespace, source_words, start, stop, table, modulus, names, mask
            )
            if found == U0:
                return FULL, token, (n, names, mask, hards)
            indices[n], values[n] = np.int32(found - U1), value
            n += U1
        elif value != 0.0:
            return OUT_OF_RANGE, token, (n, names, mask, hards)


@inlined_strictly
def namespace_at(data, words, space, table, modulus, space_table, spaces, hards, hard):
    """Return the namespace whose name starts at `space`, its factor, and DONE; or where and what is wrong.

    A namespace is where its name starts and ends, its number, how many bytes stand before the names of its features,
    and whether these have a bar. With a `modulus` these bytes are written to the table's text.
    """
    _slots, _about, text, text_words = table
    p = space_end = name_end(data, words, space)
    code, factor, owner, prefix, barred = DONE, 1.0, U0, U0, False
    if data[p] == COLON and space == p:
        code = NO_NAMESPACE
    elif data[p] == COLON:
        factor, p, hards, code = checked_number_at(data, words, p + U1, hards, hard)
        if code == DONE and not abs(factor) < np.inf:
            code, p = NO_VALUE, space_end + U1
    if code == DONE and space < space_end:
        barred = first_caret(words, space, space_end) < space_end
        prefix = space_end - space + (U2 if barred else U1)  # with what is around it
        if modulus == U0:
            owner, spaces = owner_of(words, space, space_end, space_table, spaces)
        elif prefix + U16 <= np.uint64(text.shape[0]):
            write_front(words, space, space_end, barred, text, text_words, U0)
        else:
            code = FULL
    return code, p, factor, (space, space_end, owner, prefix, barred), spaces, hards


@jit_beside
def vw_rows(
    data, words, p, end, row, n, y, weights, tags, indptr, indices, values,
    modulus, names, kept, mask, slots, about, text, text_words,
    spaces, space_slots, space_about, space_text, space_words, digits, digit_words,
    hard_at, hard_values, known, low, high, named_labels,
):  # fmt: skip
    """Write rows of Vowpal Wabbit's text from p to the end behind the `row` rows and `n` entries that are there.

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
    labels, entries, numerals = (y, weights, tags), (indices, values), (digits, digit_words)
    hards, hard, names = U0, (hard_at, hard_values, known), take_back(table, names, kept)
    while p < end:
        line, kept = p, names
        p = after_blanks(data, p)
        if data[p] == NEWLINE or (data[p] == RETURN and data[p + U1] == NEWLINE):  # an empty line
            p += U1 if data[p] == NEWLINE else U2
            continue
        code, p, hards = read_label(data, words, p, line, labels, row, named_labels, hards, hard)
        while code == DONE and data[p] == BAR:
            code, p, factor, namespace, spaces, hards = namespace_at(
                data, words, p + U1, table, modulus, space_table, spaces, hards, hard
            )
            if code == DONE:
                code, p, (n, names, mask, hards) = read_features(
                    data, words, p, namespace, factor, entries, table, modulus, numerals,
                    (n, names, mask, hards), hard, low, high,
                )  # fmt: skip
        if code != DONE:
            place = line if code == FULL else p
            return code, place, row, np.uint64(indptr[row]), names, kept, mask, spaces, hards
        row += U1
        indptr[row] = n
        p += U1
    return DONE, p, row, n, names, names, mask, spaces, hards
