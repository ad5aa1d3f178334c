"""The compiled loops that multiply features: products of the entries of a row, their hashes and their numbers."""

import numpy as np

from fiol.compiler.accessors import prefetch
from fiol.compiler.compiled import inlined_strictly, jit, jit_beside
from fiol.features.murmur import ALL_32, MIXER, finished, stirred
from fiol.features.product_names import FACTOR_BITS

#: Products that are hashed at a time: their hashes stay in the fastest cache.
AT_A_TIME = 256
NO_BITS, LAST_BIT, TWO, BYTE_BITS, WORD_BITS, STAR = (np.uint64(n) for n in (0, 1, 2, 8, 32, ord("*")))
#: Where the second and the third factor of a key begin.
SECOND_SHIFT, THIRD_SHIFT = np.uint64(FACTOR_BITS), np.uint64(2 * FACTOR_BITS)


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
def gather_names(factors, first, count, column, starts, sizes, begins, left):
    """Write where the words of names begin, and their sizes; 0 for none. Return the largest size."""
    most = 0
    for j in range(count):
        name = factors[first + j, column]
        begins[j], left[j] = (starts[name], sizes[name]) if name >= 0 else (0, 0)
        most = max(most, left[j])
    return most


@inlined_strictly
def gather_words(words, begins, left, k, count, found):
    """Write word k of names, 0 where a name has less: apart from the loop that hashes, which vectorizes."""
    for j in range(count):
        found[j] = words[begins[j] + k] if left[j] > 4 * k else NO_BITS


@inlined_strictly
def hash_words(h, tail, rest, found, left, k, count):
    """Continue hashes by word k of names, as `hash_bytes` does."""
    for j in range(count):
        size = min(max(left[j] - 4 * k, 0), 4)
        h[j], tail[j], rest[j] = hash_bytes(h[j], tail[j], rest[j], found[j], size)


@inlined_strictly
def hash_stars(factors, first, count, h, tail, rest, size):
    """Continue the hashes of products with a third factor by a star."""
    for j in range(count):
        if factors[first + j, 2] >= 0:
            h[j], tail[j], rest[j] = hash_bytes(h[j], tail[j], rest[j], STAR, 1)
            size[j] += 1


@inlined_strictly
def hash_column(factors, first, count, column, names, state, size):
    """Continue the hashes of some products by the names of one of their factors."""
    words, starts, sizes = names
    h, tail, rest, begins, left, found = state
    most = gather_names(factors, first, count, column, starts, sizes, begins, left)
    for k in range((most + 3) // 4):
        gather_words(words, begins, left, k, count, found)
        hash_words(h, tail, rest, found, left, k, count)
    for j in range(count):
        size[j] += left[j]


@jit_beside
def hash_names_and_stars(words, starts, sizes, whole, hashes, tails, rests):
    """Write murmur3 of every name, and what a name and a star behind it leave of a hash that goes on.

    The bytes of name i are sizes[i] of words[starts[i]:], four in each, the last filled up by zeros.
    """
    for i in range(starts.shape[0]):
        h, tail, rest = NO_BITS, NO_BITS, 0
        for k in range((sizes[i] + 3) // 4):
            h, tail, rest = hash_bytes(h, tail, rest, words[starts[i] + k], min(sizes[i] - 4 * k, 4))
        whole[i] = finished(h, tail, np.uint64(sizes[i]))
        hashes[i], tails[i], rests[i] = hash_bytes(h, tail, rest, STAR, 1)


@inlined_strictly
def start_hashes(factors, first, count, sizes, hashes, tails, rests, h, tail, rest, size):
    """Write the hashes of the first factors of some products and a star."""
    for j in range(count):
        a = factors[first + j, 0]
        h[j], tail[j], rest[j], size[j] = hashes[a], tails[a], rests[a], sizes[a] + 1


@inlined_strictly
def finish_hashes(h, tail, size, count):
    """Finish hashes of products: h is the hash."""
    for j in range(count):
        h[j] = finished(h[j], tail[j], np.uint64(size[j]))


@jit_beside
def hash_factors(factors, words, starts, sizes, whole, hashes, tails, rests, modulus, indices):
    """indices[n] = murmur3 of the names of n's factors, joined by *, modulo `modulus`.

    The other arrays are those of `hash_names_and_stars`. Products are hashed some at a time, in loops that vectorize.
    """
    modulus = np.uint64(modulus)
    mask = modulus - LAST_BIT if modulus & (modulus - LAST_BIT) == NO_BITS else NO_BITS  # divisions take long
    h, tail, found = np.empty(AT_A_TIME, np.uint64), np.empty(AT_A_TIME, np.uint64), np.empty(AT_A_TIME, np.uint64)
    rest, begins, left = np.empty(AT_A_TIME, np.int64), np.empty(AT_A_TIME, np.int64), np.empty(AT_A_TIME, np.int64)
    size = np.empty(AT_A_TIME, np.int64)
    names, state = (words, starts, sizes), (h, tail, rest, begins, left, found)
    for first in range(0, indices.shape[0], AT_A_TIME):
        count = min(AT_A_TIME, indices.shape[0] - first)
        start_hashes(factors, first, count, sizes, hashes, tails, rests, h, tail, rest, size)
        hash_column(factors, first, count, 1, names, state, size)
        thirds = 0
        for j in range(count):
            thirds += factors[first + j, 2] >= 0
        if thirds > 0:
            hash_stars(factors, first, count, h, tail, rest, size)
            hash_column(factors, first, count, 2, names, state, size)
        finish_hashes(h, tail, size, count)
        for j in range(count):
            found_hash = h[j] if factors[first + j, 1] >= 0 else whole[factors[first + j, 0]]
            indices[first + j] = found_hash & mask if mask > NO_BITS else found_hash % modulus


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


@inlined_strictly
def first_slot(key, mask):
    """Return the slot at which the search for a key begins."""
    h = (key ^ (key >> WORD_BITS)) * MIXER
    return (h ^ (h >> WORD_BITS)) & mask


@inlined_strictly
def find_key(key, slots, mask):
    """Return the slot of a key: the one it is in, or an empty one."""
    slot = first_slot(key, mask)
    while slots[slot, 1] != NO_BITS and slots[slot, 0] != key:
        slot = (slot + LAST_BIT) & mask
    return slot


@inlined_strictly
def prefetch_slots(keys, count, slots, mask):
    """Ask for the slots of some keys: a search that waits for memory alone takes long."""
    for j in range(count):
        prefetch(slots, TWO * first_slot(keys[j], mask))


@jit
def enter_keys(keys, count, slots):
    """Enter the first keys but those that are 0 into empty slots; the slots are a power of two."""
    mask = np.uint64(slots.shape[0] - 1)
    for first in range(0, count, AT_A_TIME):
        some = min(AT_A_TIME, count - first)
        prefetch_slots(keys[first:], some, slots, mask)
        for k in range(first, first + some):
            if keys[k] != NO_BITS:
                slot = find_key(keys[k], slots, mask)
                slots[slot, 0], slots[slot, 1] = keys[k], np.uint64(k + 1)


@jit
def number_keys(ids, factors, slots, keys, count, grow, unseen, numbers):
    """Write the numbers of products; new ones get the next with `grow`, else `unseen`. Return how many keys there are.

    Factor i of a product has the id ids[i + 1], and one that is not there, -1, the id 0.
    """
    mask, found = np.uint64(slots.shape[0] - 1), np.empty(AT_A_TIME, np.uint64)
    for first in range(0, factors.shape[0], AT_A_TIME):
        some = min(AT_A_TIME, factors.shape[0] - first)
        for j in range(some):
            a, b, c = factors[first + j, 0], factors[first + j, 1], factors[first + j, 2]
            found[j] = ids[a + 1] | (ids[b + 1] << SECOND_SHIFT) | (ids[c + 1] << THIRD_SHIFT)
        prefetch_slots(found, some, slots, mask)
        for j in range(some):
            slot = find_key(found[j], slots, mask)
            if slots[slot, 1] == NO_BITS and grow:
                keys[count] = found[j]
                count += 1
                slots[slot, 0], slots[slot, 1] = found[j], np.uint64(count)
            numbers[first + j] = np.int64(slots[slot, 1]) - 1 if slots[slot, 1] != NO_BITS else unseen
    return count
