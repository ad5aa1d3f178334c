"""Compiled loops of the 32-bit murmur3 hash.

`words[p]` are the 8 bytes from place p on as one integer, the first byte the lowest (`fiol.features.byte_words`).
"""

import numpy as np

from fiol.compiler.compiled import inlined_strictly, jit

ALL_32, MURMUR_1, MURMUR_2, MURMUR_3, MURMUR_4, MURMUR_5 = (
    np.uint64(n) for n in (0xFFFFFFFF, 0xCC9E2D51, 0x1B873593, 0xE6546B64, 0x85EBCA6B, 0xC2B2AE35)
)
#: An odd number without a pattern in its bits, which other hashes are multiplied with.
MIXER = np.uint64(0x9E3779B97F4A7C15)
NO_BITS, WORD_SIZE, BYTE_BITS, WORD_BITS = (np.uint64(n) for n in (0, 4, 8, 32))
#: The first k of 8 bytes.
FIRST_BYTES = np.array([2 ** (8 * k) - 1 for k in range(9)], np.uint64)
BY_5, BY_13, BY_15, BY_16, BY_17, BY_19 = (np.uint64(n) for n in (5, 13, 15, 16, 17, 19))


@inlined_strictly
def scrambled(k):
    """Return four bytes as they enter the hash."""
    k = (k * MURMUR_1) & ALL_32
    k = ((k << BY_15) | (k >> BY_17)) & ALL_32
    return (k * MURMUR_2) & ALL_32


@inlined_strictly
def stirred(h, k):
    """Return the hash h after four more bytes."""
    return mixed(h ^ scrambled(k))


@inlined_strictly
def mixed(h):
    """Return the hash h after the last step for four bytes that have entered it."""
    h = ((h << BY_13) | (h >> BY_19)) & ALL_32
    return (BY_5 * h + MURMUR_3) & ALL_32


@inlined_strictly
def finished(h, k, size):
    """Return the hash h of `size` bytes, of which the last ones, at most 3, are k."""
    h = h ^ scrambled(k) ^ size
    h = ((h ^ (h >> BY_16)) * MURMUR_4) & ALL_32
    h = ((h ^ (h >> BY_13)) * MURMUR_5) & ALL_32
    return h ^ (h >> BY_16)


@inlined_strictly
def hash_bytes(h, tail, rest, word, count):
    """Return the hash after up to 4 more bytes, a word: h, the bytes that are no whole word yet, and their number."""
    tail = tail | (word << (BYTE_BITS * np.uint64(rest)))
    rest += count
    if rest >= 4:
        h, tail, rest = stirred(h, tail & ALL_32), tail >> WORD_BITS, rest - 4
    return h, tail, rest


@inlined_strictly
def hash_text(h, tail, rest, words, start, stop):
    """Return the hash after the bytes from start to stop, as `hash_bytes` does.

    words[p] are the 8 bytes from place p on; places are unsigned.
    """
    p = start
    while p + WORD_SIZE <= stop:
        h, tail, rest = hash_bytes(h, tail, rest, words[p] & ALL_32, 4)
        p += WORD_SIZE
    return hash_bytes(h, tail, rest, words[p] & FIRST_BYTES[stop - p], np.int64(stop - p))


@inlined_strictly
def murmur3_of(words, start, stop):
    """Return the 32-bit murmur3 hash, with seed 0, of the bytes from start to stop."""
    h, tail, _ = hash_text(NO_BITS, NO_BITS, 0, words, start, stop)
    return finished(h, tail, stop - start)


@jit
def hash_names(words, ends, modulus, numbers):
    """Set numbers[i] to the murmur3 hash of the bytes from ends[i] to ends[i + 1], modulo `modulus`."""
    for i in range(numbers.shape[0]):
        numbers[i] = murmur3_of(words, np.uint64(ends[i]), np.uint64(ends[i + 1])) % np.uint64(modulus)
