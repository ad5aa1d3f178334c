"""Numbers in text.

They are decimal: a sign or none, digits with or without a point, an exponent or none. Their value is the double
nearest to them, as `float()` has it: exactly where digits and power of ten are doubles (Clinger, PLDI 1990), otherwise
by the product with 128 bits of the power of five (Lemire, Software: Practice and Experience 51, 2021). A number whose
last bit these do not decide is `HARD`: its place is written down, and the loop called again with what Python says.
"""

import numpy as np

from fiol.compiler.compiled import inlined_strictly, jit_beside
from fiol.readers.loops.codes import DONE, HARD, NO_VALUE
from fiol.readers.loops.words import (
    DIGIT_0,
    DIGIT_9,
    HALF,
    HIGH,
    LETTER_E,
    LOW_7,
    MINUS,
    ONES,
    PLUS,
    POINT,
    U0,
    U1,
    U2,
    U3,
    U7,
    U8,
    U9,
    U10,
    U16,
    U32,
    U56,
    U63,
)

ZEROS, TO_HIGH = np.uint64(0x3030303030303030), np.uint64(0x7676767676767676)
PAIR, UPPER, LOWER = np.uint64(0x000000FF000000FF), np.uint64(0x000F424000000064), np.uint64(0x0000271000000001)
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
#: The most digits that fit into 64 bits, whatever they are.
MOST_DIGITS = 19


def power_of_five(q: int) -> int:
    """Return the first 128 bits of 5^q, rounded down for q >= 0 and up otherwise.

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
def digits_at(word):
    """Return how many of 8 bytes, from the first, are digits in a row, and their integer."""
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
def wide_product(a, b):
    """Upper and lower half of the product of two integers of 64 bits."""
    a0, a1, b0, b1 = a & HALF, a >> U32, b & HALF, b >> U32
    low, m, n = a0 * b0, a1 * b0, a0 * b1
    middle = (low >> U32) + (m & HALF) + (n & HALF)
    return a1 * b1 + (m >> U32) + (n >> U32) + (middle >> U32), a * b


@inlined_strictly
def leading_zeros(w):
    """Return how many bits of w, from the highest, are 0, for w > 0."""
    n = 0
    for shift in (32, 16, 8, 4, 2, 1):
        if w >> np.uint64(64 - shift) == U0:
            n += shift
            w = w << np.uint64(shift)
    return n


@inlined_strictly
def nearest(w, q):
    """Return the double nearest to w 10^q, for w > 0; -1 if that is not decided here."""
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


@jit_beside
def nearest_double(w, q):
    """Return the double nearest to w times 10^q, or -1 if that takes more care; for tests."""
    return nearest(w, q)


@inlined_strictly
def first_digits(data, p, end):
    """Return the first 19 digits after leading zeros, between p and the end, as an integer; and how many follow."""
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
def number_at(data, words, p):
    """Return the number that starts at p, where it ends, and whether it is one: DONE, HARD, or NO_VALUE."""
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


@inlined_strictly
def known_number(value, code, start, hards, hard):
    """Return a number found at `start`, by Python if it is HARD, whose place is noted; and the count of HARD ones."""
    hard_at, hard_values, known = hard
    if code == HARD:
        if hards < known:
            value = hard_values[hards]
        elif hards < np.uint64(hard_at.shape[0]):
            hard_at[hards] = start
        hards += U1
    return value, hards
