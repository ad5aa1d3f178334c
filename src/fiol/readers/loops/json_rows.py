"""The rows of lines of JSON."""

import numpy as np

from fiol.compiler.compiled import inlined_strictly, jit_beside
from fiol.components.component import borrowed
from fiol.features.murmur import FIRST_BYTES
from fiol.readers.loops.cells import add_cells
from fiol.readers.loops.codes import BARE, DONE, FULL, NO, NULL, OTHER_KEYS, STRANGE, TEXT, YES
from fiol.readers.loops.numbers import number_at
from fiol.readers.loops.words import (
    DIGIT_0,
    DIGIT_9,
    HIGH,
    MINUS,
    NEWLINE,
    ONES,
    POINT,
    RETURN,
    SPACE,
    U0,
    U1,
    U2,
    U3,
    U4,
    U5,
    U8,
    U16,
    U24,
    appended,
    equal_bytes,
    place_of,
    same_bytes,
)

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


@inlined_strictly
def text_of_json(data, words, p, end, written):
    """Return where the JSON text at p starts and stops, where its quote is, and what was written.

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
        written = appended(words, start, p, words, written)
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
    written = appended(words, start, p, words, written)
    return scratch, written, p, written


@inlined_strictly
def json_number(data, words, p):
    """Return the number of JSON at p, where it ends, and whether it is one, by JSON's rules, that is decided here."""
    first = p + np.uint64(data[p] == MINUS)
    value, stop, code = number_at(data, words, p)
    fine = code == DONE and DIGIT_0 <= data[first] <= DIGIT_9
    fine &= not (data[first] == DIGIT_0 and DIGIT_0 <= data[first + U1] <= DIGIT_9)
    k = first
    while DIGIT_0 <= data[k] <= DIGIT_9:
        k += U1
    return value, stop, fine and not (data[k] == POINT and not DIGIT_0 <= data[k + U1] <= DIGIT_9)


@inlined_strictly
def read_value(data, words, q, end, scratch, cells, cell):
    """Write the value at q into a cell. Return DONE, STRANGE, or OTHER_KEYS if it is none; where it and escapes end."""
    c, start, stop, form = data[q], q, q, NULL
    if c == DOUBLE_QUOTE:
        start, stop, q, scratch = text_of_json(data, words, q + U1, end, scratch)
        if stop == U0:
            return STRANGE, q, scratch
        q, form = q + U1, TEXT
    elif c == MINUS or DIGIT_0 <= c <= DIGIT_9:
        value, q, fine = json_number(data, words, q)
        if not fine:
            return STRANGE, q, scratch
        cells[3][cell], form, stop = value, BARE, q
    elif words[q] & FIRST_BYTES[4] == WORD_TRUE:
        q, form = q + U4, YES
    elif words[q] & FIRST_BYTES[4] == WORD_NULL:
        q += U4
    elif words[q] & FIRST_BYTES[5] == WORD_FALSE:
        q, form = q + U5, NO
    else:
        return OTHER_KEYS, q, scratch
    cells[0][cell], cells[1][cell], cells[2][cell] = start, stop, form
    return DONE, q, scratch


@inlined_strictly
def read_object(data, words, q, end, scratch, literals, t, cells):
    """Write the values of the object at q, if it looks like pattern t, into cells. Return the same as `read_value`."""
    literal_words, literal_ends, firsts = literals
    last = firsts[t + 1] - firsts[t] - 1
    for cell in range(last + 1):
        a, b = np.uint64(literal_ends[firsts[t] + cell]), np.uint64(literal_ends[firsts[t] + cell + 1])
        if not same_bytes(literal_words, a, b, words, q):
            return OTHER_KEYS, q, scratch
        q += b - a
        if cell < last:
            code, q, scratch = read_value(data, words, q, end, scratch, cells, cell)
            if code != DONE:
                return code, q, scratch
    q += np.uint64(data[q] == RETURN)
    return DONE if data[q] == NEWLINE else OTHER_KEYS, q, scratch


@jit_beside
def json_rows(
    data, words, p, end, literal_words, literal_ends, firsts, cells_of,
    starts, stops, forms, numbers, cell_of, kinds, bases, parts, formats, ngrams, spans,
    known, fixed_words, fixed_ends, prefix_words, prefix_ends,
    slots, about, text, text_words, indices, values, y, y_forms, weights, tags, indptr, mask, low, high,
):  # fmt: skip
    """Lines of JSON from p to the end as rows of features, as `csv_rows` has them.

    Objects look like one of some patterns: what stands between their values, byte by byte. Pattern t is the literals
    from firsts[t] to firsts[t + 1], a value behind each but the last; cells_of[t, j] is the value of column j.

    Returns DONE, FULL, STRANGE, or OTHER_KEYS for an object that looks otherwise; how many rows and names there are,
    where the first row starts, the mask, and where it came to.
    """
    data, words, literal_words = borrowed((data, words, literal_words))
    literal_ends, firsts, cells_of = borrowed((literal_ends, firsts, cells_of))
    starts, stops, forms, numbers, cell_of = borrowed((starts, stops, forms, numbers, cell_of))
    kinds, bases, parts, formats, ngrams, spans = borrowed((kinds, bases, parts, formats, ngrams, spans))
    known, fixed_words, fixed_ends = borrowed((known, fixed_words, fixed_ends))
    prefix_words, prefix_ends, slots, about = borrowed((prefix_words, prefix_ends, slots, about))
    text, text_words = borrowed((text, text_words))
    indices, values, y, y_forms, weights, tags, indptr = borrowed((indices, values, y, y_forms, weights, tags, indptr))
    cells, columns = (starts, stops, forms, numbers, cell_of, False), (kinds, bases, parts, formats, ngrams, spans)
    fixed, prefixes = (known, fixed_words, fixed_ends), (prefix_words, prefix_ends)
    table, rows = (slots, about, text, text_words), (indices, values, y, y_forms, weights, tags)
    literals = literal_words, literal_ends, firsts
    tail, first, patterns = end + U16, end, firsts.shape[0] - 1
    row, n, names, t = 0, U0, U0, 0
    while p < end:
        if data[p] == NEWLINE:
            p += U1
            continue
        if row >= y.shape[0]:
            return FULL, row, names, first, mask, p
        first = min(first, p)
        code, q, scratch, tries = OTHER_KEYS, p, tail, 0
        while tries < patterns and code == OTHER_KEYS:
            code, q, scratch = read_object(data, words, p, end, tail, literals, t, cells)
            if code == OTHER_KEYS:
                tries += 1
                t = t + 1 if t + 1 < patterns else 0
        if code != DONE:
            return code, row, names, first, mask, p
        for j in range(cell_of.shape[0]):
            cell_of[j] = cells_of[t, j]
        code, n, names, mask = add_cells(
            data, words, end, scratch, cells, columns, fixed, prefixes, table, rows, row, n, names, mask, low, high
        )
        if code != DONE:
            return code, row, names, first, mask, p
        row += 1
        indptr[row] = n
        p = q + U1
    return DONE, row, names, first, mask, p
