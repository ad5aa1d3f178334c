"""The compiled loops that multiply features: products of the entries of a row, their hashes and their numbers."""

import numpy as np

from fiol.compiler.compiled import inlined_strictly, jit, jit_beside
from fiol.features.murmur import ALL_32, MIXER, finished, stirred

NO_BITS, LAST_BIT, BYTE_BITS, WORD_BITS, STAR = (np.uint64(n) for n in (0, 1, 8, 32, ord("*")))


@jit
def count_twins(indptr, codes, seen):
    """Return how many entries have the feature of an entry before them in their row; `seen` is -1 for every feature."""
    twins = 0
    for row in range(indptr.shape[0] - 1):
        for k in range(indptr[row], indptr[row + 1]):
            twins += seen[codes[k]] == row
            seen[codes[k]] = row
    return twins


@jit
def bound_products(indptr, codes, belongs, elements, bounds):
    """bounds[row] = the entries of a row and the most products that these can have."""
    counts = np.empty(belongs.shape[0], np.int64)
    for row in range(indptr.shape[0] - 1):
        for element in range(belongs.shape[0]):
            counts[element] = 0
            for k in range(indptr[row], indptr[row + 1]):
                counts[element] += belongs[element, codes[k]]
        bounds[row] = indptr[row + 1] - indptr[row]
        for pair in range(elements.shape[0]):
            product = 1
            for k in range(3):
                product *= counts[elements[pair, k]] if elements[pair, k] >= 0 else 1
            bounds[row] += product


@inlined_strictly
def write_product(a, b, c, elements, pair, rank, factors, n):
    """Write the factors of product n, those of the same element in the order of their ranks; c is -1 for none."""
    if elements[pair, 0] == elements[pair, 1] and rank[a] > rank[b]:
        a, b = b, a
    if c >= 0:
        if elements[pair, 0] == elements[pair, 2] and rank[a] > rank[c]:
            a, c = c, a
        if elements[pair, 1] == elements[pair, 2] and rank[b] > rank[c]:
            b, c = c, b
    factors[n, 0], factors[n, 1], factors[n, 2] = a, b, c


@inlined_strictly
def multiply(x, y):
    """Return x y; products of three values are multiplied from the left, wherever this is compiled."""
    return x * y


@jit
def multiply_entries(indptr, codes, data, belongs, elements, rank, room, new_indptr, factors, values):
    """Write the entries of every row, and behind them its products, pair by pair.

    Parameters
    ----------
    belongs : belongs[element, code] is 1 for the features that an element of a pair stands for.
    elements : the elements of every pair, -1 for a third that is not there.
    rank : of every feature by its name.
    room : three lists of places, as long as the longest row.
    factors, values : what is written: up to three features, -1 for none, and the product of their values.
    """
    n = 0
    new_indptr[0] = 0
    counts = np.zeros(3, np.int64)
    for row in range(indptr.shape[0] - 1):
        for k in range(indptr[row], indptr[row + 1]):
            factors[n, 0], factors[n, 1], factors[n, 2], values[n] = codes[k], -1, -1, data[k]
            n += 1
        for pair in range(elements.shape[0]):
            first, second, third = elements[pair, 0], elements[pair, 1], elements[pair, 2]
            for j in range(3):
                counts[j] = 0
                if elements[pair, j] >= 0:
                    for k in range(indptr[row], indptr[row + 1]):
                        room[j, counts[j]] = k
                        counts[j] += belongs[elements[pair, j], codes[k]]
            for i in range(counts[0]):
                a = room[0, i]
                for j in range(i if first == second else 0, counts[1]):
                    b = room[1, j]
                    value = multiply(data[a], data[b])
                    if third < 0:
                        write_product(codes[a], codes[b], -1, elements, pair, rank, factors, n)
                        values[n] = value
                        n += 1
                    else:
                        start = j if second == third else i if first == third else 0
                        for k in range(start, counts[2]):
                            c = room[2, k]
                            write_product(codes[a], codes[b], codes[c], elements, pair, rank, factors, n)
                            values[n] = multiply(value, data[c])
                            n += 1
        new_indptr[row + 1] = n
    return n


@inlined_strictly
def hash_bytes(h, tail, rest, word, count):
    """Return the hash after up to 4 more bytes, a word: h, the bytes that are no whole word yet, and their number."""
    tail = tail | (word << (BYTE_BITS * np.uint64(rest)))
    rest += count
    if rest >= 4:
        h, tail, rest = stirred(h, tail & ALL_32), tail >> WORD_BITS, rest - 4
    return h, tail, rest


@inlined_strictly
def hash_name_bytes(h, tail, rest, words, start, size):
    """Return the hash after the bytes of a name, as `hash_bytes` does; its words begin at `start`."""
    whole = size // 4
    for k in range(whole):
        tail = tail | (words[start + k] << (BYTE_BITS * np.uint64(rest)))
        h, tail = stirred(h, tail & ALL_32), tail >> WORD_BITS
    if size > 4 * whole:
        h, tail, rest = hash_bytes(h, tail, rest, words[start + whole], size - 4 * whole)
    return h, tail, rest


@jit_beside
def hash_names_and_stars(words, starts, sizes, whole, hashes, tails, rests):
    """Write murmur3 of every name, and what a name and a star behind it leave of a hash that goes on.

    The bytes of name i are sizes[i] of words[starts[i]:], four in each, the last filled up by zeros.
    """
    for i in range(starts.shape[0]):
        h, tail, rest = hash_name_bytes(NO_BITS, NO_BITS, 0, words, starts[i], sizes[i])
        whole[i] = finished(h, tail, np.uint64(sizes[i]))
        hashes[i], tails[i], rests[i] = hash_bytes(h, tail, rest, STAR, 1)


@jit_beside
def hash_factors(factors, words, starts, sizes, whole, hashes, tails, rests, modulus, indices):
    """indices[n] = murmur3 of the names of n's factors, joined by *, modulo `modulus`.

    The other arrays are those of `hash_names_and_stars`.
    """
    modulus = np.uint64(modulus)
    mask = modulus - LAST_BIT if modulus & (modulus - LAST_BIT) == NO_BITS else NO_BITS  # divisions take long
    for n in range(indices.shape[0]):
        a, b, c = factors[n, 0], factors[n, 1], factors[n, 2]
        h = whole[a]
        if b >= 0:
            size = sizes[a] + 1 + sizes[b]
            h, tail, rest = hash_name_bytes(hashes[a], tails[a], rests[a], words, starts[b], sizes[b])
            if c >= 0:
                size += 1 + sizes[c]
                h, tail, rest = hash_bytes(h, tail, rest, STAR, 1)
                h, tail, rest = hash_name_bytes(h, tail, rest, words, starts[c], sizes[c])
            h = finished(h, tail, np.uint64(size))
        indices[n] = h & mask if mask > NO_BITS else h % modulus


@jit
def number_factors(factors, slots, distinct, indices):
    """indices[n] = the number of n's factors, numbered as they first appear in `distinct`; return how many there are.

    `slots` are zeros, a power of two of them, and more than there are products.
    """
    count, mask = 0, np.uint64(slots.shape[0] - 1)
    for n in range(indices.shape[0]):
        a, b, c = factors[n, 0], factors[n, 1], factors[n, 2]
        h = (np.uint64(a + 1) * MIXER) ^ np.uint64(b + 1)
        h = ((h ^ (h >> WORD_BITS)) * MIXER) ^ np.uint64(c + 1)
        h = (h ^ (h >> WORD_BITS)) * MIXER
        slot = (h ^ (h >> WORD_BITS)) & mask
        while slots[slot] != 0:
            k = slots[slot] - 1
            if distinct[k, 0] == a and distinct[k, 1] == b and distinct[k, 2] == c:
                break
            slot = (slot + LAST_BIT) & mask
        if slots[slot] == 0:
            distinct[count, 0], distinct[count, 1], distinct[count, 2] = a, b, c
            count += 1
            slots[slot] = count
        indices[n] = slots[slot] - 1
    return count
