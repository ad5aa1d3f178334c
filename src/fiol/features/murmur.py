"""Compiled loops of the 32-bit murmur3 hash."""

import numpy as np

from fiol.compiler.compiled import inlined_strictly, jit

ALL_32, MURMUR_1, MURMUR_2, MURMUR_3, MURMUR_4, MURMUR_5 = (
    np.uint64(n) for n in (0xFFFFFFFF, 0xCC9E2D51, 0x1B873593, 0xE6546B64, 0x85EBCA6B, 0xC2B2AE35)
)
#: An odd number without a pattern in its bits, which other hashes are multiplied with.
MIXER = np.uint64(0x9E3779B97F4A7C15)
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
def murmur3_of(data, start, end):
    """Return the 32-bit murmur3 hash of data[start:end] with seed 0."""
    h, k, p = np.uint64(0), np.uint64(0), start
    while p + 4 <= end:
        for j in range(4):
            k = (k >> np.uint64(8)) | np.uint64(data[p + j]) << np.uint64(24)
        h = stirred(h, k)
        p += 4
    k = np.uint64(0)
    for j in range(end - p):
        k |= np.uint64(data[p + j]) << np.uint64(8 * j)
    return finished(h, k, np.uint64(end - start))


@jit
def hash_names(text, ends, modulus, numbers):
    """Set numbers[i] to the murmur3 hash of text[ends[i]:ends[i + 1]], modulo `modulus`."""
    for i in range(numbers.shape[0]):
        numbers[i] = murmur3_of(text, ends[i], ends[i + 1]) % np.uint64(modulus)
