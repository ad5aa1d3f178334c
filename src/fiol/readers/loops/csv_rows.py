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
    """Return the number of blanks and tabs from p on."""
    count = U0
    while data[p + count] == SPACE or data[p + count] == TAB:
        count += U1
    return count


@inlined_strictly
def first_quote(words, p, end, quotes):
    """Return the place of the first quote from p on; the end or a place behind it if there is none before."""
    k = place_of(equal_bytes(words[p], quotes))
    while k == U8 and p < end:
        p += U8
        k = place_of(equal_bytes(words[p], quotes))
    return p + k


@inlined_strictly
def bare_field_end(words, p, delimiters):
    """Return where the field without quotes ends that starts at p."""
    while True:
        word = words[p]
        hit = equal_bytes(word, delimiters) | equal_bytes(word, NEWLINES) | equal_bytes(word, RETURNS)
        if hit != U0:
            return p + place_of(hit)
        p += U8


@inlined_strictly
def text_in_quotes(data, words, p, end, scratch, quote, quotes):
    """Return where the text starts and stops that is behind the quote at p, and where the field and `scratch` end.

    A text with quotes in it, which are doubled there, is copied to `scratch` with single ones. It stops at 0 if it has
    no end, or if there is no room for a copy.
    """
    start, written, room = p + U1, scratch, np.uint64(words.shape[0])
    p = first_quote(words, start, end, quotes)
    while p < end and data[p + U1] == quote:
        p += U1  # the first of two, which are one
        if written + (p - start) + U16 > room:
            return start, U0, p, scratch
        written = appended(words, start, p, words, written)
        start = p + U1
        p = first_quote(words, start, end, quotes)
    if p >= end or written == scratch:
        return start, U0 if p >= end else p, p + U1, scratch
    if written + (p - start) + U16 > room:
        return start, U0, p, scratch
    written = appended(words, start, p, words, written)
    return scratch, written, p + U1, written


@inlined_strictly
def read_field(data, words, p, end, scratch, marks, is_number, cells, cell):
    """Write the field at p into a cell. Return DONE, or STRANGE or FULL; where the field and what is written end."""
    starts, stops, forms, numbers, _cell_of, _is_csv = cells
    delimiter, quote, delimiters, quotes = marks
    if is_number[cell]:
        value, stop, code = number_at(data, words, p)
        if code == DONE and (data[stop] == delimiter or data[stop] == NEWLINE or data[stop] == RETURN):
            starts[cell], stops[cell], forms[cell] = p, stop, BARE
            numbers[cell] = value
            return DONE, stop, scratch
    start, stop, forms[cell] = p, p, TEXT
    if data[p] == quote:
        start, stop, p, scratch = text_in_quotes(data, words, p, end, scratch, quote, quotes)
        if stop == U0:
            return STRANGE if p >= end else FULL, p, scratch
    else:
        p = stop = bare_field_end(words, p, delimiters)
    starts[cell], stops[cell] = start, stop
    if is_number[cell] and stop > start:  # in quotes, or with blanks around it
        value, behind, code = number_at(data, words, np.uint64(min(start + blanks_at(data, start), stop)))
        if code == DONE and behind + blanks_at(data, behind) == stop:
            numbers[cell], forms[cell] = value, BARE
    return DONE, p, scratch


@inlined_strictly
def read_record(data, words, p, end, scratch, marks, is_number, cells):
    """Write the fields of the record at p into cells. Return the same as `read_field`, for the whole line."""
    width = is_number.shape[0]
    for cell in range(width):
        code, p, scratch = read_field(data, words, p, end, scratch, marks, is_number, cells, cell)
        if code != DONE:
            return code, p, scratch
        if cell + 1 < width:
            if data[p] != marks[0]:
                return STRANGE, p, scratch
            p += U1
    p += np.uint64(data[p] == RETURN)
    return DONE if data[p] == NEWLINE else STRANGE, p + U1, scratch


@jit_beside
def csv_rows(
    data, words, p, end, delimiter, quote, is_number, starts, stops, forms, numbers, cell_of,
    kinds, bases, parts, formats, ngrams, spans, known, fixed_words, fixed_ends, prefix_words, prefix_ends,
    slots, about, text, text_words, indices, values, y, y_forms, weights, tags, indptr, mask, low, high,
):  # fmt: skip
    """Records of CSV from p to the end, all of which have one there, as rows of features.

    Behind the `byte_words.SPARE` zeros after the end of `data` is room for text that is written in another form.
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
    marks = delimiter, quote, np.uint64(delimiter) * ONES, np.uint64(quote) * ONES
    tail, first = end + U16, end
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
        code, p, scratch = read_record(data, words, p, end, tail, marks, is_number, cells)
        if code != DONE:
            return code, row, names, first, mask
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
    """Return whether a text of whole lines ends within quotes, which count where a field begins."""
    data, words = borrowed((data, words))
    p, quotes, inside = U0, np.uint64(quote) * ONES, False
    while True:
        p = first_quote(words, p, size, quotes)
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
