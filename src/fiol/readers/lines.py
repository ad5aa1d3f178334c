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
#: Something in cells that is wrong, or that this loop leaves to a slower way; an object with other keys than before.
STRANGE, OTHER_KEYS = 15, 16
#: What becomes of a column of cells.
SKIPPED, NUMBER_CELL, TRUTH_CELL, CATEGORY_CELL, WORDS_CELL, DATE_CELL, TIME_CELL = range(7)
TARGET_NUMBER, TARGET_WHOLE, TARGET_TRUTH, TARGET_TEXT, TARGET_ANY, WEIGHT_CELL, TAG_CELL = range(7, 14)
#: What a cell is: a text (and any field of CSV), a number, true, false, null, or not there.
TEXT, BARE, YES, NO, NULL, ABSENT = range(6)

LOW_7, HIGH, ZEROS = np.uint64(0x7F7F7F7F7F7F7F7F), np.uint64(0x8080808080808080), np.uint64(0x3030303030303030)
TO_HIGH, ONES = np.uint64(0x7676767676767676), np.uint64(0x0101010101010101)
PAIR, UPPER, LOWER = np.uint64(0x000000FF000000FF), np.uint64(0x000F424000000064), np.uint64(0x0000271000000001)
U0, U1, U2, U3, U4, U5, U7, U8, U9 = (np.uint64(n) for n in (0, 1, 2, 3, 4, 5, 7, 8, 9))
U11, U13, U14, U17, U19 = (np.uint64(n) for n in (11, 13, 14, 17, 19))
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
POINT, MINUS, PLUS, DIGIT_0, DIGIT_9, LETTER_E, LETTER_T = (ord(c) for c in ".-+09eT")
#: Fields of CSV that say that a value is missing, those of pandas but for the empty one, true and false, as words.
MISSING_WORDS = [
    "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA", "NULL",
    "NaN", "None", "n/a", "nan", "null",
]  # fmt: skip
MISSING_FIELDS = np.array([int.from_bytes(word.encode(), "little") for word in MISSING_WORDS], np.uint64)
MAY_BE_MISSING = np.isin(np.arange(256), [ord(word[0]) for word in MISSING_WORDS])
TRUE_FIELDS = np.array([int.from_bytes(word, "little") for word in (b"True", b"TRUE", b"true")], np.uint64)
FALSE_FIELDS = np.array([int.from_bytes(word, "little") for word in (b"False", b"FALSE", b"false")], np.uint64)
#: For every byte of a word what it is in lower case; 0 for those between words, 255 for those that are no ASCII.
LOWERED = np.array(
    [255 if c > 127 else ord(chr(c).lower()) * (chr(c).isalnum() or c == 95) for c in range(256)], np.uint8
)
NO_ASCII = 255
#: "qid:" as a word.
QUERY = np.uint64(int.from_bytes(b"qid:", "little"))
#: How many features there can be.
MOST = np.uint64(2**31 - 1)
#: The first k of 8 bytes.
FIRST_BYTES = np.array([2 ** (8 * k) - 1 for k in range(9)], np.uint64)
#: A quote and a backslash of JSON, eight times; the first byte that is no control character; words of JSON.
DOUBLE_QUOTE = ord('"')
DOUBLE_QUOTES, BACKSLASHES, CONTROLS = (np.uint64(c) * ONES for c in (DOUBLE_QUOTE, ord("\\"), SPACE))
WORD_TRUE, WORD_NULL, WORD_FALSE = (np.uint64(int.from_bytes(word, "little")) for word in (b"true", b"null", b"false"))
#: What stands for which byte behind a backslash; 0 for what means nothing, 1 for a number in four digits.
ESCAPED_NUMBER = 1
ESCAPES = np.zeros(256, np.int64)
ESCAPES[[ord(c) for c in '"\\/bfnrtu']] = [*b'"\\/\b\f\n\r\t', ESCAPED_NUMBER]
#: The value of every digit in hexadecimal; 16 for what is none.
HEXADECIMAL = np.array([int(chr(c), 16) if chr(c) in "0123456789abcdefABCDEF" else 16 for c in range(256)], np.int64)
#: Ends of lines, eight times.
NEWLINES, RETURNS = np.uint64(NEWLINE) * ONES, np.uint64(RETURN) * ONES
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
def wide_product(a, b):  # type: ignore[no-untyped-def]
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
    high, low = wide_product(w, FIVES[q - LEAST_POWER, 0])
    if high & UNSURE == UNSURE:
        more, _ = wide_product(w, FIVES[q - LEAST_POWER, 1])
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
    negative = data[p] == MINUS
    p += np.uint64(negative | (data[p] == PLUS))  # no branch: signs are as they like
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
            e = min(10 * e + int(data[p]) - DIGIT_0, 1 << 40)
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
def appended(source, k, stop, target, o):  # type: ignore[no-untyped-def]
    """Where the bytes from k to stop of a source end once they are written to a target, from o on."""
    while k < stop:
        target[o] = source[k]
        o += U1
        k += U1
    return o


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


# --- cells: fields of CSV, values of JSON lines -----------------------------------------------


@inlined_strictly
def place_of(hit):  # type: ignore[no-untyped-def]
    """Which of 8 bytes, from the first, is the first whose high bit is set; 8 if none is."""
    return U8 if hit == U0 else (((((hit & (~hit + U1)) >> U7) - U1) & ONES) * ONES) >> U56


@inlined_strictly
def equal_bytes(word, pattern):  # type: ignore[no-untyped-def]
    """The high bits of those of 8 bytes that are those of the pattern; others behind the first such one may be set."""
    v = word ^ pattern
    return (v - ONES) & ~v & HIGH


@inlined_strictly
def is_one_of(words, start, stop, fields):  # type: ignore[no-untyped-def]
    """Whether a cell is one of these fields of at most 8 bytes."""
    if stop - start > U8 or stop == start:
        return False
    word = words[start] & FIRST_BYTES[stop - start]
    for k in range(fields.shape[0]):  # noqa: SIM110 - compiled
        if word == fields[k]:
            return True
    return False


@inlined_strictly
def is_missing_field(data, words, start, stop):  # type: ignore[no-untyped-def]
    """Whether a field of CSV says that a value is missing."""
    size = stop - start
    if size == U0:
        return True
    if size > U8 or not MAY_BE_MISSING[data[start]]:
        return False
    return is_one_of(words, start, stop, MISSING_FIELDS)


@inlined_strictly
def two_digits(data, p):  # type: ignore[no-untyped-def]
    """The number that two digits are; -1 if they are none."""
    a, b = np.int64(data[p]) - DIGIT_0, np.int64(data[p + U1]) - DIGIT_0
    return 10 * a + b if 0 <= a <= 9 and 0 <= b <= 9 else -1


@inlined_strictly
def moment_at(data, start, stop):  # type: ignore[no-untyped-def]
    """Days since 1970, the month, and microseconds since midnight of a date in ISO's form; month 0 if it is none."""
    size = stop - start
    if size != U10 and size != U16 and size != U19:
        return 0, 0, 0
    century, of_century = two_digits(data, start), two_digits(data, start + U2)
    month, day = two_digits(data, start + U5), two_digits(data, start + U8)
    hour, minute, second = 0, 0, 0
    fine = (data[start + U4] == MINUS) & (data[start + U7] == MINUS) & (century >= 0) & (of_century >= 0)
    if size >= U16:
        mark = data[start + U10]
        hour, minute = two_digits(data, start + U11), two_digits(data, start + U14)
        fine &= ((mark == SPACE) | (mark == LETTER_T)) & (data[start + U13] == COLON)
    if size == U19:
        second = two_digits(data, start + U17)
        fine &= data[start + U16] == COLON
    fine &= (1 <= month <= 12) & (0 <= hour < 24) & (0 <= minute < 60) & (0 <= second < 60)
    if not fine:
        return 0, 0, 0
    year = 100 * century + of_century
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    length = 28 + leap if month == 2 else 31 - (month - 1) % 7 % 2
    if not 1 <= day <= length:
        return 0, 0, 0
    y = year + 400 - (month <= 2)  # years from March on, none below 0 (Hinnant, chrono-compatible date algorithms)
    of_era = y % 400
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    days = (y // 400) * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468 - 146097
    return days, month, ((hour * 60 + minute) * 60 + second) * 1000000


@inlined_strictly
def clock_at(data, start, stop):  # type: ignore[no-untyped-def]
    """`moment_at` of a time of day, hours and minutes or seconds, too, of two digits each; on the first day of 2000."""
    size, second = stop - start, 0
    if size != U5 and size != U8:
        return 0, 0, 0
    hour, minute = two_digits(data, start), two_digits(data, start + U3)
    fine = (data[start + U2] == COLON) & (0 <= hour < 24) & (0 <= minute < 60)
    if size == U8:
        second = two_digits(data, start + U3 + U3)
        fine &= (data[start + U5] == COLON) & (0 <= second < 60)
    return 10957, int(fine), ((hour * 60 + minute) * 60 + second) * 1000000


@inlined_strictly
def fixed_feature(f, fixed, table, names, mask):  # type: ignore[no-untyped-def]
    """The number, from 1, of a feature whose name is known beforehand; 0 if there is no room. And names, mask."""
    known, fixed_text, fixed_ends = fixed
    _slots, about, text, _text_words = table
    found = np.uint64(known[f])
    if found == U0:
        o, k, stop = about[names, U0], np.uint64(fixed_ends[f]), np.uint64(fixed_ends[f + 1])
        if names + U1 >= np.uint64(about.shape[0]) or o + stop - k + U16 > np.uint64(text.shape[0]):
            return U0, names, mask
        o = appended(fixed_text, k, stop, text, o)
        about[names, U1], about[names, U2] = np.uint64(f) * MIXER, np.uint64(f + f)
        names += U1
        about[names, U0] = o
        known[f] = names
        found = names
    return found, names, mask


@inlined_strictly
def text_feature(data, words, start, stop, j, prefixes, table, names, mask):  # type: ignore[no-untyped-def]
    """The number, from 1, of the feature of column j that a text is; 0 if there is no room. And names, mask."""
    prefix_text, prefix_ends = prefixes
    slots, about, text, text_words = table
    owner = np.uint64(j + j + 1)
    h = hash_of(words, start, stop, owner * MIXER)
    k, prefix_end = np.uint64(prefix_ends[j]), np.uint64(prefix_ends[j + 1])
    prefix, size = prefix_end - k, prefix_end - k + stop - start
    slot = h & mask
    found = np.uint64(slots[slot])
    while found > U0:
        name = found - U1
        o = about[name, U0]
        if (
            about[name, U1] == h
            and about[name, U2] == owner
            and about[found, U0] - o == size
            and same_bytes(words, start, stop, text_words, o + prefix)
        ):
            break
        slot = (slot + U1) & mask
        found = np.uint64(slots[slot])
    if found == U0:
        o = about[names, U0]
        if names + U1 >= np.uint64(about.shape[0]) or o + size + U16 > np.uint64(text.shape[0]):
            return U0, names, mask
        o = appended(data, start, stop, text, appended(prefix_text, k, prefix_end, text, o))
        about[names, U1], about[names, U2], about[names, U3] = h, owner, slot
        names += U1
        about[names, U0] = o
        slots[slot] = names
        found = names
        if names + names > mask and mask + U1 < np.uint64(slots.shape[0]):
            mask = mask + mask + U1
            rehash(slots, about[:, 3], about[:, 1], names, mask)
    return found, names, mask


@inlined_strictly
def blanks_at(data, p):  # type: ignore[no-untyped-def]
    """How many blanks and tabs there are from p on."""
    count = U0
    while data[p + count] == SPACE or data[p + count] == TAB:
        count += U1
    return count


@inlined_strictly
def add_cells(  # type: ignore[no-untyped-def]
    data, words, end, scratch, cells, columns, fixed, prefixes, table, rows, row, n, names, mask, low, high
):
    """The features of one row of cells, column by column, behind the `n` entries that are there.

    `cells` are where every cell starts and stops in `data`, its form, its number if it is one, the cell of every column
    (-1 for none), and whether they are of CSV, where texts may say that a value is missing. What is behind `scratch`
    may be written to. Returns DONE, FULL without room for them, or STRANGE for a row that another way has to look at;
    how many entries and names there are, and the mask.
    """
    starts, stops, forms, numbers, cell_of, is_csv = cells
    kinds, bases, parts, ngrams, spans = columns
    indices, values, y, y_forms, weights, tags = rows
    room = np.uint64(indices.shape[0])
    for j in range(kinds.shape[0]):
        kind, cell = kinds[j], cell_of[j]
        if kind == SKIPPED or cell < 0:
            continue
        start, stop, form = np.uint64(starts[cell]), np.uint64(stops[cell]), forms[cell]
        f, value, part = np.int64(-1), 1.0, 0  # a name that is known; what it is; the next part of a date
        days, month, micros = 0, 0, 0
        count, size, first, p, behind = 0, 1, 0, scratch, scratch  # words, those in a row, the first of them; written
        if kind == NUMBER_CELL and form != NULL and form != YES and form != NO:
            value, f = numbers[cell], bases[j]
            if form == TEXT:
                if not is_csv or not is_missing_field(data, words, start, stop):
                    return STRANGE, n, names, mask
                value, f = 1.0, f + 1
            elif not (low <= abs(value) <= high or value == 0.0):
                return STRANGE, n, names, mask
        else:
            if is_csv and is_missing_field(data, words, start, stop):
                form = NULL
            if kind >= TARGET_NUMBER:
                if kind == TAG_CELL:
                    if (form != NULL and form != TEXT) or start >= end:
                        return STRANGE, n, names, mask
                    tags[row, U0], tags[row, U1] = start, start if form == NULL else stop
                    continue
                if form == NULL:
                    return STRANGE, n, names, mask
                if kind == TARGET_TRUTH or form == YES or form == NO:  # noqa: SIM109 - compiled
                    truth = form == YES or is_one_of(words, start, stop, TRUE_FIELDS)
                    if kind == WEIGHT_CELL or not (truth or form == NO or is_one_of(words, start, stop, FALSE_FIELDS)):
                        return STRANGE, n, names, mask
                    y[row], y_forms[row] = np.float64(truth), YES
                    continue
                if kind != TARGET_TEXT and not (kind == TARGET_ANY and form == TEXT):
                    whole, k = stop - start <= U14, start
                    while k < stop:
                        whole &= DIGIT_0 <= data[k] <= DIGIT_9 or (data[k] == MINUS and k == start)
                        k += U1
                    long = not is_csv and stop - start > U14  # whole or not: not decided here
                    if form != BARE or long or (kind == TARGET_WHOLE and not whole):
                        return STRANGE, n, names, mask
                    if kind == WEIGHT_CELL:
                        weights[row] = numbers[cell]
                    else:
                        y[row], y_forms[row] = numbers[cell], NULL if whole else BARE
                    continue
            elif form == NULL:
                f = bases[j] + 1
            elif kind == NUMBER_CELL or kind == TRUTH_CELL:  # noqa: SIM109 - compiled
                f, value = bases[j], 1.0 if form == YES or is_one_of(words, start, stop, TRUE_FIELDS) else 0.0
                if form == TEXT and value == 0.0 and not is_one_of(words, start, stop, FALSE_FIELDS):
                    return STRANGE, n, names, mask
            elif form != TEXT:
                return STRANGE, n, names, mask
            elif kind == DATE_CELL or kind == TIME_CELL:  # noqa: SIM109 - compiled
                if kind == DATE_CELL:
                    days, month, micros = moment_at(data, start, stop)
                else:
                    days, month, micros = clock_at(data, start, stop)
                if month == 0:
                    return STRANGE, n, names, mask
            elif kind == WORDS_CELL and p + U2 * (stop - start) + U16 > np.uint64(words.shape[0]):
                return FULL, n, names, mask
        k = start
        while True:  # every feature of the cell; one as a rule
            begin, more = start, False
            if month > 0:
                while part < 4 and not parts[j] >> part & 1:
                    part += 1
                if part == 4:
                    break
                f, value, more = bases[j], 1.0, True
                if part == 0:
                    value = np.float64((days - 10957) * 86400000000 + micros) / 86400000000.0  # since 2000
                elif part == 1:
                    f += 1 + month
                elif part == 2:
                    f += 14 + (days + 3 + 7 * 200000) % 7
                else:
                    f += 21 + micros // 3600000000
                part += 1
            elif kind == WORDS_CELL and f < 0:
                more = True
                while size == 1 and k < stop and LOWERED[data[k]] == 0:
                    k += U1
                if size == 1 and k < stop:
                    begin = p
                    c = LOWERED[data[k]]
                    while c != 0 and k < stop:
                        if c == NO_ASCII:
                            return STRANGE, n, names, mask
                        data[p] = c
                        p += U1
                        k += U1
                        c = LOWERED[data[k]]
                    stop_of_word = p
                    if ngrams[j] > 1:
                        spans[count, 0], spans[count, 1] = begin, p
                        count += 1
                        data[p] = SPACE
                        p += U1
                else:
                    size = max(size, 2)
                    while first + size > count and size <= ngrams[j]:
                        size, first = size + 1, 0
                    if size > ngrams[j]:
                        break
                    begin, stop_of_word = np.uint64(spans[first, 0]), np.uint64(spans[first + size - 1, 1])
                    first += 1
                behind = stop_of_word
            else:
                behind = stop
            if value != 0.0:
                if n >= room:
                    return FULL, n, names, mask
                if f >= 0:
                    found, names, mask = fixed_feature(f, fixed, table, names, mask)
                else:
                    found, names, mask = text_feature(data, words, begin, behind, j, prefixes, table, names, mask)
                if found == U0:
                    return FULL, n, names, mask
                if kind >= TARGET_NUMBER:
                    y[row], y_forms[row] = np.float64(np.int64(found - U1)), TEXT
                else:
                    indices[n], values[n] = np.int32(found - U1), value
                    n += U1
            if not more:
                break
    return DONE, n, names, mask


@jit
def csv_rows(  # type: ignore[no-untyped-def]
    data, words, p, end, delimiter, quote, is_number, starts, stops, forms, numbers, cell_of,
    kinds, bases, parts, ngrams, spans, known, fixed_text, fixed_ends, prefix_text, prefix_ends,
    slots, about, text, text_words, indices, values, y, y_forms, weights, tags, indptr, mask, low, high,
):  # fmt: skip
    """Records of CSV from p to the end, all of which have one there, as rows of features.

    What is behind the `sources.SPARE` zeros after the end of `data` is used for texts that are written otherwise there.
    Fields are as `csv_records.find_records` has them. Name i is text[about[i, 0]:about[i + 1, 0]]; about[i, 2] is 2 f
    for the name that `fixed_text` has at place f, 2 j + 1 for a text of column j behind its prefix. about[i, 1] is its
    hash, by which it is found as those of `vw_rows` are, about[i, 3] its slot.

    Returns DONE, FULL or STRANGE (see `add_cells`), how many rows and names there are, and where the first row starts.
    """
    data, words, is_number, starts, stops = borrowed((data, words, is_number, starts, stops))
    forms, numbers, cell_of = borrowed((forms, numbers, cell_of))
    kinds, bases, parts, ngrams, spans = borrowed((kinds, bases, parts, ngrams, spans))
    known, fixed_text, fixed_ends = borrowed((known, fixed_text, fixed_ends))
    prefix_text, prefix_ends, slots, about = borrowed((prefix_text, prefix_ends, slots, about))
    text, text_words = borrowed((text, text_words))
    indices, values, y, y_forms, weights, tags, indptr = borrowed((indices, values, y, y_forms, weights, tags, indptr))
    cells, columns = (starts, stops, forms, numbers, cell_of, True), (kinds, bases, parts, ngrams, spans)
    fixed, prefixes = (known, fixed_text, fixed_ends), (prefix_text, prefix_ends)
    table, rows = (slots, about, text, text_words), (indices, values, y, y_forms, weights, tags)
    delimiters, quotes = np.uint64(delimiter) * ONES, np.uint64(quote) * ONES
    width, tail, first = starts.shape[0], end + U16, end
    row, n, names = 0, U0, U0
    while p < end:
        if data[p] == NEWLINE:
            p += U1
            continue
        if data[p] == RETURN and data[p + U1] == NEWLINE:
            p += U2
            continue
        if row >= y.shape[0]:
            return FULL, row, names, first
        first = min(first, p)
        cell, scratch = 0, tail
        while True:
            if cell >= width:
                return STRANGE, row, names, first
            start, form = p, TEXT
            if is_number[cell]:
                value, stop, code = number_at(data, words, p)
                if code == DONE and (data[stop] == delimiter or data[stop] == NEWLINE or data[stop] == RETURN):
                    numbers[cell], form, p = value, BARE, stop
            if form == BARE:
                stop = p
            elif data[p] == quote:
                start = p = p + U1
                written = scratch
                while True:
                    k = place_of(equal_bytes(words[p], quotes))
                    while k == U8 and p < end:
                        p += U8
                        k = place_of(equal_bytes(words[p], quotes))
                    p += k
                    if p >= end:
                        return STRANGE, row, names, first
                    if data[p + U1] != quote:
                        break
                    p += U1  # the first of two, which are one
                    if written + (p - start) + U16 > np.uint64(words.shape[0]):
                        return FULL, row, names, first
                    written = appended(data, start, p, data, written)
                    p += U1
                    start = p
                stop = p
                p += U1
                if written > scratch:
                    if written + (stop - start) + U16 > np.uint64(words.shape[0]):
                        return FULL, row, names, first
                    written = appended(data, start, stop, data, written)
                    start, stop, scratch = scratch, written, written
            else:
                word = words[p]
                hit = equal_bytes(word, delimiters) | equal_bytes(word, NEWLINES) | equal_bytes(word, RETURNS)
                while hit == U0:
                    p += U8
                    word = words[p]
                    hit = equal_bytes(word, delimiters) | equal_bytes(word, NEWLINES) | equal_bytes(word, RETURNS)
                p += place_of(hit)
                stop = p
            if form == TEXT and is_number[cell] and stop > start:  # in quotes, or with blanks around it
                value, behind, code = number_at(data, words, np.uint64(min(start + blanks_at(data, start), stop)))
                if code == DONE and behind + blanks_at(data, behind) == stop:
                    numbers[cell], form = value, BARE
            starts[cell], stops[cell], forms[cell] = start, stop, form
            cell += 1
            if data[p] == delimiter:
                p += U1
                continue
            if data[p] == RETURN:
                p += U1
            if data[p] != NEWLINE:
                return STRANGE, row, names, first
            p += U1
            break
        if cell != width:
            return STRANGE, row, names, first
        code, n, names, mask = add_cells(
            data, words, end, scratch, cells, columns, fixed, prefixes, table, rows, row, n, names, mask, low, high
        )
        if code != DONE:
            return code, row, names, first
        row += 1
        indptr[row] = n
    return DONE, row, names, first


@inlined_strictly
def text_of_json(data, words, p, end, written):  # type: ignore[no-untyped-def]
    """A text of JSON whose first byte is at p: where it starts and stops, where its quote is, and what was written.

    A text with escapes is written without them from `written` on. It stops at 0 if it is none, or one that another way
    has to look at.
    """
    start, scratch = p, written
    while True:
        word = words[p]
        hit = equal_bytes(word, DOUBLE_QUOTES) | equal_bytes(word, BACKSLASHES) | ((word - CONTROLS) & ~word & HIGH)
        while hit == U0:
            p += U8
            word = words[p]
            hit = equal_bytes(word, DOUBLE_QUOTES) | equal_bytes(word, BACKSLASHES) | ((word - CONTROLS) & ~word & HIGH)
        p += place_of(hit)
        if p >= end or data[p] < SPACE:
            return start, U0, p, written
        if data[p] == DOUBLE_QUOTE:
            break
        if written + (p - start) + U24 > np.uint64(words.shape[0]):
            return start, U0, p, written
        written = appended(data, start, p, data, written)
        code = ESCAPES[data[p + U1]]
        p += U2
        if code == ESCAPED_NUMBER:
            code = 0
            for k in range(4):
                digit = HEXADECIMAL[data[p + np.uint64(k)]]
                if digit > 15:
                    return start, U0, p, written
                code = 16 * code + digit
            p += U4
            if 0xD800 <= code < 0xE000:
                return start, U0, p, written
        elif code == 0:
            return start, U0, p, written
        if code < 0x80:
            data[written] = code
            written += U1
        elif code < 0x800:
            data[written], data[written + U1] = 0xC0 | code >> 6, 0x80 | code & 63
            written += U2
        else:
            data[written], data[written + U1] = 0xE0 | code >> 12, 0x80 | code >> 6 & 63
            data[written + U2] = 0x80 | code & 63
            written += U3
        start = p
    if written == scratch:
        return start, p, p, written
    if written + (p - start) + U24 > np.uint64(words.shape[0]):
        return start, U0, p, written
    written = appended(data, start, p, data, written)
    return scratch, written, p, written


@inlined_strictly
def json_number(data, words, p):  # type: ignore[no-untyped-def]
    """The number of JSON at p, where it ends, and whether it is one, by JSON's rules, that is decided here."""
    first = p + np.uint64(data[p] == MINUS)
    value, stop, code = number_at(data, words, p)
    fine = code == DONE and DIGIT_0 <= data[first] <= DIGIT_9
    fine &= not (data[first] == DIGIT_0 and DIGIT_0 <= data[first + U1] <= DIGIT_9)
    k = first
    while DIGIT_0 <= data[k] <= DIGIT_9:
        k += U1
    return value, stop, fine and not (data[k] == POINT and not DIGIT_0 <= data[k + U1] <= DIGIT_9)


@jit
def json_rows(  # type: ignore[no-untyped-def]
    data, words, p, end, literals, literal_words, literal_ends, firsts, cells_of,
    starts, stops, forms, numbers, cell_of, kinds, bases, parts, ngrams, spans,
    known, fixed_text, fixed_ends, prefix_text, prefix_ends,
    slots, about, text, text_words, indices, values, y, y_forms, weights, tags, indptr, mask, low, high,
):  # fmt: skip
    """Lines of JSON from p to the end as rows of features, as `csv_rows` has them.

    Objects look like one of some patterns: what stands between their values, byte by byte. Pattern t is the literals
    from firsts[t] to firsts[t + 1], a value behind each but the last; cells_of[t, j] is the value of column j.

    Returns DONE, FULL, STRANGE, or OTHER_KEYS for an object that looks otherwise; how many rows and names there are,
    where the first row starts, and where it came to.
    """
    data, words, literals, literal_words = borrowed((data, words, literals, literal_words))
    literal_ends, firsts, cells_of = borrowed((literal_ends, firsts, cells_of))
    starts, stops, forms, numbers, cell_of = borrowed((starts, stops, forms, numbers, cell_of))
    kinds, bases, parts, ngrams, spans = borrowed((kinds, bases, parts, ngrams, spans))
    known, fixed_text, fixed_ends = borrowed((known, fixed_text, fixed_ends))
    prefix_text, prefix_ends, slots, about = borrowed((prefix_text, prefix_ends, slots, about))
    text, text_words = borrowed((text, text_words))
    indices, values, y, y_forms, weights, tags, indptr = borrowed((indices, values, y, y_forms, weights, tags, indptr))
    cells, columns = (starts, stops, forms, numbers, cell_of, False), (kinds, bases, parts, ngrams, spans)
    fixed, prefixes = (known, fixed_text, fixed_ends), (prefix_text, prefix_ends)
    table, rows = (slots, about, text, text_words), (indices, values, y, y_forms, weights, tags)
    tail, first, patterns = end + U16, end, firsts.shape[0] - 1
    row, n, names, t = 0, U0, U0, 0
    while p < end:
        if data[p] == NEWLINE:
            p += U1
            continue
        if row >= y.shape[0]:
            return FULL, row, names, first, p
        first = min(first, p)
        q, scratch, tries, matched = p, tail, 0, False
        while tries < patterns and not matched:
            q, scratch, cell = p, tail, 0
            last = firsts[t + 1] - firsts[t] - 1
            while True:
                a, b = np.uint64(literal_ends[firsts[t] + cell]), np.uint64(literal_ends[firsts[t] + cell + 1])
                if not same_bytes(literal_words, a, b, words, q):
                    break
                q += b - a
                if cell == last:
                    q += np.uint64(data[q] == RETURN)
                    matched = data[q] == NEWLINE
                    break
                c, start, stop, form = data[q], q, q, NULL
                if c == DOUBLE_QUOTE:
                    start, stop, q, scratch = text_of_json(data, words, q + U1, end, scratch)
                    if stop == U0:
                        return STRANGE, row, names, first, p
                    q, form = q + U1, TEXT
                elif c == MINUS or DIGIT_0 <= c <= DIGIT_9:
                    value, q, fine = json_number(data, words, q)
                    if not fine:
                        return STRANGE, row, names, first, p
                    numbers[cell], form = value, BARE
                elif words[q] & FIRST_BYTES[4] == WORD_TRUE:
                    q, form = q + U4, YES
                elif words[q] & FIRST_BYTES[4] == WORD_NULL:
                    q += U4
                elif words[q] & FIRST_BYTES[5] == WORD_FALSE:
                    q, form = q + U5, NO
                else:
                    break
                starts[cell], stops[cell], forms[cell] = start, q if form == BARE else stop, form
                cell += 1
            if not matched:
                tries += 1
                t = t + 1 if t + 1 < patterns else 0
        if not matched:
            return OTHER_KEYS, row, names, first, p
        for j in range(cell_of.shape[0]):
            cell_of[j] = cells_of[t, j]
        code, n, names, mask = add_cells(
            data, words, end, scratch, cells, columns, fixed, prefixes, table, rows, row, n, names, mask, low, high
        )
        if code != DONE:
            return code, row, names, first, p
        row += 1
        indptr[row] = n
        p = q + U1
    return DONE, row, names, first, p
