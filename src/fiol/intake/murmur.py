"""The hash of names, murmur3 with 32 bits, as a compiled loop."""

from fiol.compiler.compiled import inlined, jit

ALL_32 = 0xFFFFFFFF


@inlined
def scrambled(k):  # type: ignore[no-untyped-def]
    """Four bytes as they enter the hash."""
    k = (k * 0xCC9E2D51) & ALL_32
    k = ((k << 15) | (k >> 17)) & ALL_32
    return (k * 0x1B873593) & ALL_32


@inlined
def murmur3_of(data, start, end, h):  # type: ignore[no-untyped-def]
    """Murmur3 with 32 bits of data[start:end], from the seed h."""
    size, p = end - start, start
    while p + 4 <= end:
        k = int(data[p]) | int(data[p + 1]) << 8 | int(data[p + 2]) << 16 | int(data[p + 3]) << 24
        h ^= scrambled(k)
        h = ((h << 13) | (h >> 19)) & ALL_32
        h = (5 * h + 0xE6546B64) & ALL_32
        p += 4
    k = 0
    for j in range(end - p):
        k |= int(data[p + j]) << (8 * j)
    h ^= scrambled(k) ^ size
    h = ((h ^ (h >> 16)) * 0x85EBCA6B) & ALL_32
    h = ((h ^ (h >> 13)) * 0xC2B2AE35) & ALL_32
    return h ^ (h >> 16)


@jit
def hash_names(text, ends, modulus, numbers):  # type: ignore[no-untyped-def]
    """numbers[i] = murmur3 of text[ends[i]:ends[i + 1]], modulo `modulus`."""
    for i in range(numbers.shape[0]):
        numbers[i] = murmur3_of(text, ends[i], ends[i + 1], 0) % modulus
