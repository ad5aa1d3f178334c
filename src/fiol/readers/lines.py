"""The compiled loops over the bytes of lines: numbers, and the rows of formats that are made of lines.

All of them are in this file, as kernels call kernels of their own file alone. `data` are the bytes of a block, which
ends with a line's end and has `sources.SPARE` zeros behind it; `words[p]` are its 8 bytes from p on as one integer,
the first byte the lowest. Places are unsigned, as all indices of arrays in these loops: a sign would be looked at for
every byte.

Numbers are decimal: a sign or none, digits with or without a point, an exponent or none. Their value is the double
nearest to them, as `float()` has it: exactly where digits and power of ten are doubles (Clinger, PLDI 1990), otherwise
by the product with 128 bits of the power of five (Lemire, Software: Practice and Experience 51, 2021). A number whose
last bit these do not decide is `HARD`: its place is written down, and the loop called again with what Python says.
"""

import numpy as np

from fiol.compiler.compiled import inlined_strictly, jit
from fiol.components.component import borrowed

#: What a loop found: the end; numbers that Python has to read; no room for more names; or something that is wrong.
DONE, HARD, FULL, NO_LABEL, NO_INDEX, NO_VALUE, ZERO_INDEX, LARGE_INDEX, OUT_OF_RANGE = range(9)
NO_WEIGHT, THIRD_NUMBER, AFTER_TAG, NO_BAR, NO_NAMESPACE, RETURN_INSIDE = range(9, 15)

LOW_7, HIGH, ZEROS = np.uint64(0x7F7F7F7F7F7F7F7F), np.uint64(0x8080808080808080), np.uint64(0x3030303030303030)
TO_HIGH, ONES = np.uint64(0x7676767676767676), np.uint64(0x0101010101010101)
PAIR, UPPER, LOWER = np.uint64(0x000000FF000000FF), np.uint64(0x000F424000000064), np.uint64(0x0000271000000001)
U0, U1, U2, U3, U4, U7, U8, U9 = (np.uint64(n) for n in (0, 1, 2, 3, 4, 7, 8, 9))
U10, U16, U18, U24, U32, U56, U63 = (np.uint64(n) for n in (10, 16, 18, 24, 32, 56, 63))
HALF = np.uint64(0xFFFFFFFF)
#: The last 9 bits of the upper half of a product: if all are set, the lower half of the power may matter.
UNSURE = np.uint64(0x1FF)
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
#: Integers up to here are doubles.
WHOLE_DOUBLES = np.uint64(2**53)
#: 2^(k - 1075), which takes an integer with 53 bits to the double with exponent k.
TWOS = np.array([2.0 ** (k - 1075) for k in range(2047)])
#: The powers of ten that are doubles, and those that are integers of 64 bits.
TENS = np.array([10.0**k for k in range(23)])
WHOLE_TENS = np.array([10**k for k in range(20)], np.uint64)
#: Powers of ten with an exponent from LEAST_POWER to MOST_POWER are in the table.
LEAST_POWER, MOST_POWER = -342, 308
#: So many digits fit into 64 bits, whatever they are.
MOST_DIGITS = 19
SPACE, TAB, NEWLINE, RETURN, SHARP, COLON, BAR, QUOTE, CARET = (ord(c) for c in " \t\n\r#:|'^")
POINT, MINUS, PLUS, DIGIT_0, DIGIT_9, LETTER_E = (ord(c) for c in ".-+09e")
#: "qid:" as a word.
QUERY = np.uint64(int.from_bytes(b"qid:", "little"))
#: How many features there can be.
MOST = np.uint64(2**31 - 1)
#: The first k of 8 bytes.
FIRST_BYTES = np.array([2 ** (8 * k) - 1 for k in range(9)], np.uint64)
#: An odd number without a pattern in its bits, which hashes are multiplied with.
MIXER = np.uint64(0x9E3779B97F4A7C15)


def power_of_five(q: int) -> int:
    """The first 128 bits of 5^q, rounded down for q >= 0 and up otherwise.

    >>> hex(power_of_five(1)), hex(power_of_five(-1))
    ('0xa0000000000000000000000000000000', '0xcccccccccccccccccccccccccccccccd')
    """
    if q >= 0:
        power = 5**q
        return power << (128 - power.bit_length()) if power.bit_length() <= 128 else power >> (power.bit_length() - 128)
    power = 5**-q
    bits = (power - 1).bit_length()
    c = 2 ** (bits + 127 if q >= -27 else 2 * bits + 128) // power + 1
    return c >> max(c.bit_length() - 128, 0)


#: Upper and lower half of every power of five.
FIVES = np.array(
    [[power >> 64, power & (2**64 - 1)] for power in map(power_of_five, range(LEAST_POWER, MOST_POWER + 1))], np.uint64
)


@inlined_strictly
def digits_at(word):  # type: ignore[no-untyped-def]
    """How many of 8 bytes, from the first, are digits in a row, and the integer that these are."""
    t = word ^ ZEROS  # digits are 0 to 9
    other = (((t & LOW_7) + TO_HIGH) | t) & HIGH
    k = U8
    if other != U0:
        lowest = other & (~other + U1)
        k = ((((lowest >> U7) - U1) & ONES) * ONES) >> U56
    half = (U8 - k) << U2
    t = (t << half) << half  # a shift by 64 has no meaning
    t = t * U10 + (t >> U8)
    return k, ((t & PAIR) * UPPER + ((t >> U16) & PAIR) * LOWER) >> U32


@inlined_strictly
def product(a, b):  # type: ignore[no-untyped-def]
    """Upper and lower half of the product of two integers of 64 bits."""
    a0, a1, b0, b1 = a & HALF, a >> U32, b & HALF, b >> U32
    low, m, n = a0 * b0, a1 * b0, a0 * b1
    middle = (low >> U32) + (m & HALF) + (n & HALF)
    return a1 * b1 + (m >> U32) + (n >> U32) + (middle >> U32), a * b


@inlined_strictly
def leading_zeros(w):  # type: ignore[no-untyped-def]
    """How many bits of w, from the highest, are 0, for w > 0."""
    n = 0
    for shift in (32, 16, 8, 4, 2, 1):
        if w >> np.uint64(64 - shift) == U0:
            n += shift
            w = w << np.uint64(shift)
    return n


@inlined_strictly
def nearest(w, q):  # type: ignore[no-untyped-def]
    """The double nearest to w 10^q, for w > 0; -1 if that is not decided here."""
    if q < LEAST_POWER or q > MOST_POWER:
        return -1.0
    shift = leading_zeros(w)
    w = w << np.uint64(shift)
    high, low = product(w, FIVES[q - LEAST_POWER, 0])
    if high & UNSURE == UNSURE:
        more, _ = product(w, FIVES[q - LEAST_POWER, 1])
        low = low + more
        if more > low:
            high = high + U1
    if low == ALL and (q < -27 or q > 55):
        return -1.0
    upper = high >> U63
    mantissa = high >> (upper + U9)
    exponent = ((217706 * q) >> 16) + 63 + np.int64(upper) - shift + 1023
    if low <= U1 and -4 <= q <= 23 and mantissa & U3 == U1 and (mantissa << (upper + U9)) == high:
        mantissa = mantissa ^ U1  # in the middle between two: the even one
    mantissa = (mantissa + (mantissa & U1)) >> U1
    if exponent <= 0 or exponent >= 2046:  # fewer bits than others, or nearly too large
        return -1.0
    return np.float64(np.int64(mantissa)) * TWOS[exponent]


@jit
def nearest_double(w, q):  # type: ignore[no-untyped-def]
    """`nearest` by itself, for tests."""
    return nearest(w, q)


@inlined_strictly
def first_digits(data, p, end):  # type: ignore[no-untyped-def]
    """The first 19 digits, but for zeros before them, between p and the end, as an integer; how many follow them."""
    w, count, dropped = U0, 0, 0
    while p < end:
        if data[p] != POINT:
            if count >= MOST_DIGITS:
                dropped += 1
            elif count > 0 or data[p] != DIGIT_0:
                w = w * U10 + np.uint64(data[p] - DIGIT_0)
                count += 1
        p += U1
    return w, dropped


@inlined_strictly
def number_at(data, words, p):  # type: ignore[no-untyped-def]
    """The number that starts at p, where it ends, and whether it is one: DONE, HARD, or NO_VALUE."""
    c = data[p]
    negative = c == MINUS
    if negative or c == PLUS:
        p += U1
    first, w = p, U0
    while DIGIT_0 <= data[p] <= DIGIT_9:  # few, as a rule
        w = w * U10 + np.uint64(data[p] - DIGIT_0)
        p += U1
    count, q = np.int64(p - first), np.int64(0)
    if data[p] == POINT:
        p += U1
        behind, k = p, U8
        while k == U8:
            k, more = digits_at(words[p])
            w = w * WHOLE_TENS[k] + more
            p += k
        q = -np.int64(p - behind)
        count -= q
    if count == 0:
        return 0.0, p, NO_VALUE
    end = p  # of the digits
    if data[p] | 32 == LETTER_E:
        p += U1
        down = data[p] == MINUS
        if down or data[p] == PLUS:
            p += U1
        behind, e = p, 0
        while DIGIT_0 <= data[p] <= DIGIT_9:
            e = min(10 * e + data[p] - DIGIT_0, 1 << 40)
            p += U1
        if p == behind:
            return 0.0, p, NO_VALUE
        q = q - e if down else q + e
    value, dropped = 0.0, 0
    if count > MOST_DIGITS:
        w, dropped = first_digits(data, first, end)
        q += dropped
    if w <= WHOLE_DOUBLES and -22 <= q <= 22 and dropped == 0:
        value = np.float64(np.int64(w))
        value = value * TENS[np.uint64(q)] if q >= 0 else value / TENS[np.uint64(-q)]
    elif w > U0:
        value = nearest(w, q)
        if value < 0.0 or (dropped > 0 and value != nearest(w + U1, q)):
            return 1.0, p, HARD
    return -value if negative else value, p, DONE


# --- svmlight ---------------------------------------------------------------------------------


@inlined_strictly
def ends_token(c):  # type: ignore[no-untyped-def]
    """Whether a byte of svmlight ends what is before it."""
    return c == SPACE or (c == NEWLINE) | (c == TAB) | (c == RETURN) | (c == SHARP)


@inlined_strictly
def after_query(data, words, p):  # type: ignore[no-untyped-def]
    """Where "qid:" and an integer, which may be at p, end; p if they are not there."""
    if words[p] & HALF != QUERY:
        return p
    start = p + U4
    if data[start] == MINUS:
        start += U1
    end = start
    while DIGIT_0 <= data[end] <= DIGIT_9:
        end += U1
    return end if end > start and ends_token(data[end]) else p


@jit
def svmlight_rows(  # type: ignore[no-untyped-def]
    data, words, p, end, base, row, n, y, indptr, indices, values, hard_at, hard_values, known, low, high
):
    """Rows of svmlight from p to the end: written behind the `row` rows and `n` entries that are there.

    The first feature has number `base`. Returns what was found (DONE at the end), where, how many rows and entries
    there are, and how many numbers were HARD. Of these the first `known` are in `hard_values`; where the others start
    is in `hard_at`, as far as there is room. Values are 0 or from `low` to `high` in size.
    """
    data, words, y, indptr, indices, values = borrowed((data, words, y, indptr, indices, values))
    hard_at, hard_values = borrowed((hard_at, hard_values))
    hards = U0
    while p < end:
        while data[p] == SPACE or data[p] == TAB or data[p] == RETURN:
            p += U1
        if data[p] != NEWLINE and data[p] != SHARP:
            start = p
            target, p, code = number_at(data, words, p)
            if code == NO_VALUE or not ends_token(data[p]):
                return NO_LABEL, start, row, np.uint64(indptr[row]), hards
            if code == HARD:
                if hards < known:
                    target = hard_values[hards]
                elif hards < np.uint64(hard_at.shape[0]):
                    hard_at[hards] = start
                hards += U1
                if not abs(target) < np.inf:
                    return NO_LABEL, start, row, np.uint64(indptr[row]), hards
            while True:
                while data[p] == SPACE or data[p] == TAB or data[p] == RETURN:
                    p += U1
                if data[p] == NEWLINE or data[p] == SHARP:
                    break
                start, index = p, U0
                while DIGIT_0 <= data[p] <= DIGIT_9:
                    index = index * U10 + np.uint64(data[p] - DIGIT_0)
                    p += U1
                if data[p] != COLON or p == start:
                    p = after_query(data, words, start)
                    if p == start:
                        return NO_INDEX, start, row, np.uint64(indptr[row]), hards
                    continue
                first = start
                while p - first >= U18 and data[first] == DIGIT_0:
                    first += U1
                if p - first >= U18 or index >= MOST + base:
                    return LARGE_INDEX, start, row, np.uint64(indptr[row]), hards
                if index < base:
                    return ZERO_INDEX, start, row, np.uint64(indptr[row]), hards
                p += U1
                start = p
                if data[p + U1] == SPACE and DIGIT_0 <= data[p] <= DIGIT_9:  # a single digit, as a rule a 1
                    value = np.float64(data[p] - DIGIT_0)
                    p += U1
                else:
                    value, p, code = number_at(data, words, p)
                    if code == NO_VALUE or not ends_token(data[p]):
                        return NO_VALUE, start, row, np.uint64(indptr[row]), hards
                    if code == HARD:
                        if hards < known:
                            value = hard_values[hards]
                        elif hards < np.uint64(hard_at.shape[0]):
                            hard_at[hards] = start
                        hards += U1
                if not (low <= abs(value) <= high or value == 0.0):
                    return OUT_OF_RANGE, start, row, np.uint64(indptr[row]), hards
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


# --- Vowpal Wabbit ----------------------------------------------------------------------------


@inlined_strictly
def ends_name(c):  # type: ignore[no-untyped-def]
    """Whether a byte of Vowpal Wabbit's text ends the name before it."""
    return (c == SPACE) | (c == COLON) | (c == BAR) | (c == NEWLINE) | (c == TAB) | (c == RETURN)


@inlined_strictly
def ends_number(c):  # type: ignore[no-untyped-def]
    """Whether a byte of Vowpal Wabbit's text ends the number before it."""
    return c == SPACE or (c == NEWLINE) | (c == BAR) | (c == TAB) | (c == RETURN)


@inlined_strictly
def hash_of(words, p, end, h):  # type: ignore[no-untyped-def]
    """A hash of 64 bits of the bytes from p to the end, from the hash h of what is before them."""
    h = (h ^ (end - p)) * MIXER
    while p + U8 <= end:
        h = (h ^ words[p]) * MIXER
        h = h ^ (h >> U32)
        p += U8
    h = (h ^ (words[p] & FIRST_BYTES[end - p])) * MIXER
    return h ^ (h >> U32)


@inlined_strictly
def same_bytes(words, p, end, others, o):  # type: ignore[no-untyped-def]
    """Whether the bytes from p to the end are those from o on in others."""
    while p + U8 <= end:
        if words[p] != others[o]:
            return False
        p += U8
        o += U8
    return (words[p] ^ others[o]) & FIRST_BYTES[end - p] == U0


@inlined_strictly
def rehash(slots, slot_of, hashes, names, mask):  # type: ignore[no-untyped-def]
    """Put all names into slots anew, in their order, of which there are mask + 1."""
    slot = U0
    while slot <= mask:
        slots[slot] = 0
        slot += U1
    name = U0
    while name < names:
        slot = hashes[name] & mask
        while slots[slot] != 0:
            slot = (slot + U1) & mask
        name += U1
        slots[slot] = name
        slot_of[name - U1] = slot


@jit
def vw_rows(  # type: ignore[no-untyped-def]
    data, words, p, end, row, n, y, weights, tags, indptr, indices, values,
    names, kept, mask, slots, slot_of, hashes, prefixes, ends, text, text_words, digits, digit_words,
    hard_at, hard_values, known, low, high,
):  # fmt: skip
    """Rows of Vowpal Wabbit's text from p to the end, written behind the `row` rows and `n` entries that are there.

    `tags[row]` is where the tag starts and ends, both 0 without one; a target is NaN where there is none, a weight 1.
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
                    k = space
                    while k < space_end:
                        text[o] = data[k]
                        o += U1
                        k += U1
                    if prefix > U0:
                        text[o] = CARET
                        o += U1
                    k = start
                    while k < stop:
                        text[o] = source[k]
                        o += U1
                        k += U1
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
        y[row], weights[row], tags[row, U0], tags[row, U1] = target, weight, tag, tag_end
        row += U1
        indptr[row] = n
        p += U1
    return DONE, p, row, n, names, names, mask, hards
