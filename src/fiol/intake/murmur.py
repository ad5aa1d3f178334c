"""The hash of names, murmur3 with 32 bits, as a compiled loop."""

import numpy as np

from fiol.compiler.compiled import inlined_strictly, jit

ALL_32, FIRST, SECOND, THIRD, LAST, LATER = (
    np.uint64(n) for n in (0xFFFFFFFF, 0xCC9E2D51, 0x1B873593, 0xE6546B64, 0x85EBCA6B, 0xC2B2AE35)
)
U5, U13, U15, U16, U17, U19 = (np.uint64(n) for n in (5, 13, 15, 16, 17, 19))


@inlined_strictly
def scrambled(k):  # type: ignore[no-untyped-def]
    """Four bytes as they enter the hash."""
    k = (k * FIRST) & ALL_32
    k = ((k << U15) | (k >> U17)) & ALL_32
    return (k * SECOND) & ALL_32


@inlined_strictly
def stirred(h, k):  # type: ignore[no-untyped-def]
    """The hash h after four more bytes."""
    h = h ^ scrambled(k)
    h = ((h << U13) | (h >> U19)) & ALL_32
    return (U5 * h + THIRD) & ALL_32


@inlined_strictly
def finished(h, k, size):  # type: ignore[no-untyped-def]
    """The hash h of `size` bytes, of which the last ones, at most 3, are k."""
    h = h ^ scrambled(k) ^ size
    h = ((h ^ (h >> U16)) * LAST) & ALL_32
    h = ((h ^ (h >> U13)) * LATER) & ALL_32
    return h ^ (h >> U16)


@inlined_strictly
def murmur3_of(data, start, end):  # type: ignore[no-untyped-def]
    """Murmur3 with 32 bits of data[start:end], from the seed 0."""
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
def hash_names(text, ends, modulus, numbers):  # type: ignore[no-untyped-def]
    """numbers[i] = murmur3 of text[ends[i]:ends[i + 1]], modulo `modulus`."""
    for i in range(numbers.shape[0]):
        numbers[i] = murmur3_of(text, ends[i], ends[i + 1]) % np.uint64(modulus)
