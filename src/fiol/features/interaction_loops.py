"""The compiled loops that multiply features: products of the entries of a row, their hashes and their numbers."""

import numpy as np

from fiol.compiler.accessors import prefetch
from fiol.compiler.compiled import inlined_strictly, jit, jit_beside
from fiol.features.murmur import (
    ALL_32,
    BYTE_BITS,
    FIRST_BYTES,
    MIXER,
    NO_BITS,
    WORD_BITS,
    finished,
    hash_bytes,
    hash_text,
    mixed,
    scrambled,
)
from fiol.features.product_names import FACTOR_BITS

#: Keys that are looked up at a time: their slots stay in the fastest cache.
AT_A_TIME = 256
LAST_BIT, TWO, STAR = (np.uint64(n) for n in (1, 2, ord("*")))
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
def multiply(x, y):
    """Return x y; products of three values are multiplied from the left, wherever this is compiled."""
    return x * y


@inlined_strictly
def list_places(start, stop, codes, ranked, belongs, elements, pair, places, counts):
    """Write for each element of a pair the places of its features in a row: by rank if the pair repeats an element."""
    first, second, third = elements[pair, 0], elements[pair, 1], elements[pair, 2]
    by_rank = (first == second) | (first == third) | (second == third)
    for j in range(3):
        counts[j] = 0
        if elements[pair, j] >= 0:
            for k in range(start, stop):
                place = start + np.int64(ranked[k]) - 1 if by_rank else k
                places[j, counts[j]] = place
                counts[j] += belongs[elements[pair, j], codes[place]]


@inlined_strictly
def first_third(i, j, elements, pair):
    """Return where the third factors begin: features of the same element are multiplied once."""
    if elements[pair, 1] == elements[pair, 2]:
        return j
    return i if elements[pair, 0] == elements[pair, 2] else 0


@jit
def multiply_entries(indptr, codes, data, ranked, belongs, elements, places, new_indptr, factors, values):
    """Write the entries of every row, and behind them its products, pair by pair. Return how many there are.

    Parameters
    ----------
    ranked : the places of entries in their row, from 1, row by row, in the order of the names of their features.
    belongs : belongs[element, code] is 1 for the features that an element of a pair stands for.
    elements : the elements of every pair, -1 for a third that is not there.
    places : three lists, as long as the longest row.
    factors, values : the result: up to three features, -1 for none, and the product of their values.
    """
    n = 0
    new_indptr[0] = 0
    counts = np.zeros(3, np.int64)
    for row in range(indptr.shape[0] - 1):
        for k in range(indptr[row], indptr[row + 1]):
            factors[n, 0], factors[n, 1], factors[n, 2], values[n] = codes[k], -1, -1, data[k]
            n += 1
        for pair in range(elements.shape[0]):
            list_places(indptr[row], indptr[row + 1], codes, ranked, belongs, elements, pair, places, counts)
            for i in range(counts[0]):
                a = places[0, i]
                for j in range(i if elements[pair, 0] == elements[pair, 1] else 0, counts[1]):
                    b = places[1, j]
                    value = multiply(data[a], data[b])
                    if elements[pair, 2] < 0:
                        factors[n, 0], factors[n, 1], factors[n, 2], values[n] = codes[a], codes[b], -1, value
                        n += 1
                    for k in range(first_third(i, j, elements, pair), counts[2]):
                        c = places[2, k]
                        factors[n, 0], factors[n, 1], factors[n, 2] = codes[a], codes[b], codes[c]
                        values[n] = multiply(value, data[c])
                        n += 1
        new_indptr[row + 1] = n
    return n


# --- hashes -----------------------------------------------------------------------------------


@inlined_strictly
def hash_name(h, tail, rest, name, words, starts, sizes):
    """Return the hash after the bytes of a name: h, the bytes that are no whole word yet, and their number."""
    start = np.uint64(starts[name])
    return hash_text(h, tail, rest, words, start, start + np.uint64(sizes[name]))


@inlined_strictly
def reduce_hash(h, modulus, mask):
    """Return h modulo `modulus`; the mask is modulus - 1 for a power of two, since divisions take long, and else 0."""
    return h & mask if mask > NO_BITS else h % modulus


@inlined_strictly
def mask_of(modulus):
    """Return the mask that `reduce_hash` takes."""
    return modulus - LAST_BIT if modulus & (modulus - LAST_BIT) == NO_BITS else NO_BITS


@jit_beside
def hash_names_and_stars(words, starts, sizes, whole, hashes, tails, rests):
    """Write murmur3 of every name, and what a name and a star behind it leave of a hash that goes on.

    The bytes of name i are sizes[i], from the place starts[i] of `words` on.
    """
    for i in range(starts.shape[0]):
        h, tail, rest = hash_name(NO_BITS, NO_BITS, 0, i, words, starts, sizes)
        whole[i] = finished(h, tail, np.uint64(sizes[i]))
        hashes[i], tails[i], rests[i] = hash_bytes(h, tail, rest, STAR, 1)


@jit_beside
def hash_factors(factors, words, starts, sizes, whole, hashes, tails, rests, modulus, indices):
    """indices[n] = murmur3 of the names of n's factors, joined by *, modulo `modulus`.

    The other arrays are those of `hash_names_and_stars`.
    """
    modulus = np.uint64(modulus)
    mask = mask_of(modulus)
    for n in range(indices.shape[0]):
        a, b, c = factors[n, 0], factors[n, 1], factors[n, 2]
        found = whole[a]
        if b >= 0:
            h, tail, rest = hash_name(hashes[a], tails[a], rests[a], b, words, starts, sizes)
            size = sizes[a] + 1 + sizes[b]
            if c >= 0:
                h, tail, rest = hash_bytes(h, tail, rest, STAR, 1)
                h, tail, rest = hash_name(h, tail, rest, c, words, starts, sizes)
                size += 1 + sizes[c]
            found = finished(h, tail, np.uint64(size))
        indices[n] = reduce_hash(found, modulus, mask)


@inlined_strictly
def gather_last_factors(places, count, codes, data, words, starts, sizes, last):
    """Write the words, sizes and values of the features at some places side by side. Return the largest size."""
    last_words, last_sizes, last_values, _ = last
    most = 0
    for j in range(count):
        last_sizes[j], last_values[j] = sizes[codes[places[j]]], data[places[j]]
        most = max(most, last_sizes[j])
    for k in range((most + 3) // 4 + 1):
        for j in range(count):
            size = min(last_sizes[j] - 4 * k, 4)
            last_words[k, j] = words[starts[codes[places[j]]] + 4 * k] & FIRST_BYTES[size] if size > 0 else NO_BITS
    return most


@inlined_strictly
def enter_word(h, word, whole):
    """Return the hash h after a word, which may be less than four bytes."""
    h = h ^ scrambled(word)
    return mixed(h) if whole else h


@inlined_strictly
def hash_last_factors(h, tail, rest, size, most, first, last_words, last_sizes, found, modulus, mask, indices):
    """Write the hashes of products that have all but their last factors in common.

    Each loop treats all last factors alike, so that it vectorizes: word k of their names, moved by the `rest` bytes
    before them, enters the hash if there is one (0 changes nothing), and is mixed if it is a whole one. Indices begin
    at 0 for the same reason: of others the compiler does not know that they are not negative.
    """
    up = BYTE_BITS * np.uint64(rest)
    down = WORD_BITS - up
    before = last_words[0][first:]
    for j in range(indices.shape[0]):
        word = ((np.uint64(before[j]) << up) | tail) & ALL_32
        found[j] = enter_word(h, word, rest + last_sizes[j] >= 4)
    for k in range(1, (rest + most + 3) // 4):
        here = last_words[k][first:]
        for j in range(indices.shape[0]):
            word = ((np.uint64(here[j]) << up) | (np.uint64(before[j]) >> down)) & ALL_32
            found[j] = enter_word(np.uint64(found[j]), word, rest + last_sizes[j] >= 4 * (k + 1))
        before = here
    for j in range(indices.shape[0]):
        whole = finished(np.uint64(found[j]), NO_BITS, np.uint64(size + last_sizes[j]))
        indices[j] = reduce_hash(whole, modulus, mask)


@inlined_strictly
def add_products(h, tail, rest, size, value, first, count, most, last, modulus, mask, indices, values, n):
    """Write the products that have all but their last factors, from `first` on, in common. Return where they end."""
    last_words, last_sizes, last_values, found = last
    end = n + count - first
    hash_last_factors(
        h, tail, rest, size, most, first, last_words, last_sizes[first:], found, modulus, mask, indices[n:end]
    )
    others, products = last_values[first:], values[n:end]
    for j in range(end - n):
        products[j] = multiply(value, others[j])
    return end


@jit_beside
def hash_entries(
    indptr, codes, data, ranked, belongs, elements, places,
    words, starts, sizes, whole, hashes, tails, rests, modulus, last,
    new_indptr, indices, values,
):  # fmt: skip
    """Write the entries of every row and its products, as `multiply_entries` does, by hashes of names.

    `last` are arrays for the words, sizes, values and hashes of last factors, as long as the longest row.
    """
    n, modulus = 0, np.uint64(modulus)
    mask = mask_of(modulus)
    new_indptr[0] = 0
    counts = np.zeros(3, np.int64)
    for row in range(indptr.shape[0] - 1):
        for k in range(indptr[row], indptr[row + 1]):
            indices[n], values[n] = reduce_hash(whole[codes[k]], modulus, mask), data[k]
            n += 1
        for pair in range(elements.shape[0]):
            list_places(indptr[row], indptr[row + 1], codes, ranked, belongs, elements, pair, places, counts)
            third = 2 if elements[pair, 2] >= 0 else 1
            most = gather_last_factors(places[third], counts[third], codes, data, words, starts, sizes, last)
            for i in range(counts[0]):
                a = codes[places[0, i]]
                h, tail, rest, size, value = hashes[a], tails[a], rests[a], sizes[a] + 1, data[places[0, i]]
                start = i if elements[pair, 0] == elements[pair, 1] else 0
                if third == 1:
                    state = h, tail, rest, size, value, start, counts[1]
                    n = add_products(*state, most, last, modulus, mask, indices, values, n)
                    continue
                for j in range(start, counts[1]):
                    b = codes[places[1, j]]
                    h2, tail2, rest2 = hash_name(h, tail, rest, b, words, starts, sizes)
                    h2, tail2, rest2 = hash_bytes(h2, tail2, rest2, STAR, 1)
                    size2, value2 = size + sizes[b] + 1, multiply(value, data[places[1, j]])
                    state = h2, tail2, rest2, size2, value2, first_third(i, j, elements, pair), counts[2]
                    n = add_products(*state, most, last, modulus, mask, indices, values, n)
        new_indptr[row + 1] = n
    return n


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
