"""The rows of CSV."""

import numpy as np

from fiol.compiler.compiled import inlined_strictly, jit_beside
from fiol.components.component import borrowed
from fiol.readers.loops.cells import add_cells
from fiol.readers.loops.codes import BARE, DONE, FULL, STRANGE, TEXT
from fiol.readers.loops.numbers import number_at
from fiol.readers.loops.words import (
    NEWLINE,
    NEWLINES,
    ONES,
    RETURN,
    RETURNS,
    SPACE,
    TAB,
    U0,
    U1,
    U2,
    U8,
    U16,
    appended,
    equal_bytes,
    place_of,
)


@inlined_strictly
def blanks_at(data, p):
    """How many blanks and tabs there are from p on."""
    count = U0
    while data[p + count] == SPACE or data[p + count] == TAB:
        count += U1
    return count


@jit_beside
def csv_rows(
    data, words, p, end, delimiter, quote, is_number, starts, stops, forms, numbers, cell_of,
    kinds, bases, parts, formats, ngrams, spans, known, fixed_words, fixed_ends, prefix_words, prefix_ends,
    slots, about, text, text_words, indices, values, y, y_forms, weights, tags, indptr, mask, low, high,
):  # fmt: skip
    """Records of CSV from p to the end, all of which have one there, as rows of features.

    What is behind the `sources.SPARE` zeros after the end of `data` is used for texts that are written otherwise there.
    Fields are as `csv_records.find_records` has them. For names see `names.py`: about[i, 4] is 2 f for the name that
    `fixed_words` have at place f, 2 j + 1 for a text of column j behind its prefix.

    Returns DONE, FULL or STRANGE (see `add_cells`), how many rows and names there are, where the first row starts, and
    the mask.
    """
    data, words, is_number, starts, stops = borrowed((data, words, is_number, starts, stops))
    forms, numbers, cell_of = borrowed((forms, numbers, cell_of))
    kinds, bases, parts, formats, ngrams, spans = borrowed((kinds, bases, parts, formats, ngrams, spans))
    known, fixed_words, fixed_ends = borrowed((known, fixed_words, fixed_ends))
    prefix_words, prefix_ends, slots, about = borrowed((prefix_words, prefix_ends, slots, about))
    text, text_words = borrowed((text, text_words))
    indices, values, y, y_forms, weights, tags, indptr = borrowed((indices, values, y, y_forms, weights, tags, indptr))
    cells, columns = (starts, stops, forms, numbers, cell_of, True), (kinds, bases, parts, formats, ngrams, spans)
    fixed, prefixes = (known, fixed_words, fixed_ends), (prefix_words, prefix_ends)
    table, rows = (slots, about, text, text_words), (indices, values, y, y_forms, weights, tags)
    delimiters, quotes = np.uint64(delimiter) * ONES, np.uint64(quote) * ONES
    width, tail, first = starts.shape[0], end + U16, end
    row, n, names = 0, U0, U0
    while p < end:
        if data[p] == NEWLINE:
            p += U1
            continue
        if data[p] == RETURN and data[p + U1] == NEWLINE:
            p += U2
            continue
        if row >= y.shape[0]:
            return FULL, row, names, first, mask
        first = min(first, p)
        cell, scratch = 0, tail
        while True:
            if cell >= width:
                return STRANGE, row, names, first, mask
            start, form = p, TEXT
            if is_number[cell]:
                value, stop, code = number_at(data, words, p)
                if code == DONE and (data[stop] == delimiter or data[stop] == NEWLINE or data[stop] == RETURN):
                    numbers[cell], form, p = value, BARE, stop
            if form == BARE:
                stop = p
            elif data[p] == quote:
                start = p = p + U1
                written = scratch
                while True:
                    k = place_of(equal_bytes(words[p], quotes))
                    while k == U8 and p < end:
                        p += U8
                        k = place_of(equal_bytes(words[p], quotes))
                    p += k
                    if p >= end:
                        return STRANGE, row, names, first, mask
                    if data[p + U1] != quote:
                        break
                    p += U1  # the first of two, which are one
                    if written + (p - start) + U16 > np.uint64(words.shape[0]):
                        return FULL, row, names, first, mask
                    written = appended(words, start, p, words, written)
                    p += U1
                    start = p
                stop = p
                p += U1
                if written > scratch:
                    if written + (stop - start) + U16 > np.uint64(words.shape[0]):
                        return FULL, row, names, first, mask
                    written = appended(words, start, stop, words, written)
                    start, stop, scratch = scratch, written, written
            else:
                word = words[p]
                hit = equal_bytes(word, delimiters) | equal_bytes(word, NEWLINES) | equal_bytes(word, RETURNS)
                while hit == U0:
                    p += U8
                    word = words[p]
                    hit = equal_bytes(word, delimiters) | equal_bytes(word, NEWLINES) | equal_bytes(word, RETURNS)
                p += place_of(hit)
                stop = p
            if form == TEXT and is_number[cell] and stop > start:  # in quotes, or with blanks around it
                value, behind, code = number_at(data, words, np.uint64(min(start + blanks_at(data, start), stop)))
                if code == DONE and behind + blanks_at(data, behind) == stop:
                    numbers[cell], form = value, BARE
            starts[cell], stops[cell], forms[cell] = start, stop, form
            cell += 1
            if data[p] == delimiter:
                p += U1
                continue
            if data[p] == RETURN:
                p += U1
            if data[p] != NEWLINE:
                return STRANGE, row, names, first, mask
            p += U1
            break
        if cell != width:
            return STRANGE, row, names, first, mask
        code, n, names, mask = add_cells(
            data, words, end, scratch, cells, columns, fixed, prefixes, table, rows, row, n, names, mask, low, high
        )
        if code != DONE:
            return code, row, names, first, mask
        row += 1
        indptr[row] = n
    return DONE, row, names, first, mask


@jit_beside
def ends_in_quotes(data, words, size, delimiter, quote):
    """Whether a text that ends with a line ends within quotes, which count where a field begins."""
    data, words = borrowed((data, words))
    p, quotes, inside = U0, np.uint64(quote) * ONES, False
    while True:
        k = place_of(equal_bytes(words[p], quotes))
        while k == U8 and p < size:
            p += U8
            k = place_of(equal_bytes(words[p], quotes))
        p += k
        if p >= size:
            return inside
        if inside:
            if data[p + U1] == quote:
                p += U1  # two are one
            else:
                inside = False
        elif p == U0:
            inside = True
        else:
            c = data[p - U1]
            inside = c == delimiter or (c == NEWLINE) | (c == RETURN)
        p += U1
