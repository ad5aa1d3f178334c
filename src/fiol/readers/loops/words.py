"""Bytes eight at a time: `words[p]` are those from p on as one integer, the first byte the lowest.

`data` are the bytes of a block, which ends with a line's end and has `byte_words.SPARE` zeros behind it. Places are
unsigned, as all indices of arrays in these loops: a sign would be looked at for every byte.
"""

import numpy as np

from fiol.compiler.compiled import inlined_strictly
from fiol.features.murmur import FIRST_BYTES, MIXER

LOW_7, HIGH = np.uint64(0x7F7F7F7F7F7F7F7F), np.uint64(0x8080808080808080)
ONES = np.uint64(0x0101010101010101)
U0, U1, U2, U3, U4, U5, U7, U8, U9 = (np.uint64(n) for n in (0, 1, 2, 3, 4, 5, 7, 8, 9))
U10, U14, U16, U18, U24, U32, U40, U56, U63 = (np.uint64(n) for n in (10, 14, 16, 18, 24, 32, 40, 56, 63))
HALF = np.uint64(0xFFFFFFFF)
SPACE, TAB, NEWLINE, RETURN, SHARP, COLON, BAR, QUOTE, CARET = (ord(c) for c in " \t\n\r#:|'^")
POINT, MINUS, PLUS, DIGIT_0, DIGIT_9, LETTER_E, LETTER_T = (ord(c) for c in ".-+09eT")
#: Ends of lines, eight times.
NEWLINES, RETURNS = np.uint64(NEWLINE) * ONES, np.uint64(RETURN) * ONES


@inlined_strictly
def place_of(hit):
    """Which of 8 bytes, from the first, is the first whose high bit is set; 8 if none is."""
    return U8 if hit == U0 else (((((hit & (~hit + U1)) >> U7) - U1) & ONES) * ONES) >> U56


@inlined_strictly
def equal_bytes(word, pattern):
    """Mark by high bits which of 8 bytes equal the pattern; bytes behind the first such one may be marked too."""
    v = word ^ pattern
    return (v - ONES) & ~v & HIGH


@inlined_strictly
def low_bytes(word, least):
    """Mark those of 8 bytes that are below the least, at most 128, as `equal_bytes` does."""
    return (word - least) & ~word & HIGH


@inlined_strictly
def hash_of(words, p, end, h):
    """Return a hash of 64 bits of the bytes from p to the end, continuing the hash h of the bytes before them."""
    h = (h ^ (end - p)) * MIXER
    while p + U8 <= end:
        h = (h ^ words[p]) * MIXER
        h = h ^ (h >> U32)
        p += U8
    h = (h ^ (words[p] & FIRST_BYTES[end - p])) * MIXER
    return h ^ (h >> U32)


@inlined_strictly
def same_bytes(words, p, end, others, o):
    """Return whether the bytes from p to the end are those from o on in others."""
    while p + U8 <= end:
        if words[p] != others[o]:
            return False
        p += U8
        o += U8
    return (words[p] ^ others[o]) & FIRST_BYTES[end - p] == U0


@inlined_strictly
def appended(words, k, stop, target_words, o):
    """Write the bytes from k to stop to a target, from o on, and return where they end; bytes behind may change."""
    while k < stop:
        target_words[o] = words[k]
        o += U8
        k += U8
    return o - (k - stop)
