"""Rows of cells, which are fields of CSV or values of JSON, as features."""

import numpy as np

from fiol.compiler.compiled import inlined_strictly
from fiol.features.cell_rules import MISSING_MARKERS
from fiol.features.murmur import FIRST_BYTES, MIXER
from fiol.readers.loops.codes import (
    BARE,
    DATE_CELL,
    DONE,
    FULL,
    MISSING_WORDS,
    NO,
    NULL,
    NUMBER_CELL,
    SKIPPED,
    STRANGE,
    TAG_CELL,
    TARGET_ANY,
    TARGET_NUMBER,
    TARGET_TEXT,
    TARGET_TRUTH,
    TARGET_WHOLE,
    TEXT,
    TEXT_TARGET,
    TIME_CELL,
    TRUTH_CELL,
    UNDECIDED_CELL,
    WEIGHT_CELL,
    WORDS_CELL,
    YES,
)
from fiol.readers.loops.dates import moment_at
from fiol.readers.loops.names import add_name, find_name, has_room
from fiol.readers.loops.words import (
    DIGIT_0,
    DIGIT_9,
    HALF,
    HIGH,
    LOW_7,
    MINUS,
    NEWLINE,
    ONES,
    SPACE,
    U0,
    U1,
    U2,
    U4,
    U8,
    U14,
    U16,
    appended,
    place_of,
)

MISSING_FIELDS = np.array([int.from_bytes(word.encode(), "little") for word in MISSING_WORDS], np.uint64)
MAY_BE_MISSING = np.isin(np.arange(256), [ord(word[0]) for word in MISSING_WORDS])
#: Markers of missing numbers, dates and times in the cases that are common; `fiol.features.cell_rules` has all.
MARKERS = sorted(
    {form for word in MISSING_MARKERS if 0 < len(word) <= 8 for form in (word, word.title(), word.upper())}
)
MARKER_FIELDS = np.array([int.from_bytes(word.encode(), "little") for word in MARKERS], np.uint64)
MAY_BE_MARKER = np.isin(np.arange(256), [ord(word[0]) for word in MARKERS])
TRUE_FIELDS = np.array([int.from_bytes(word, "little") for word in (b"True", b"TRUE", b"true")], np.uint64)
FALSE_FIELDS = np.array([int.from_bytes(word, "little") for word in (b"False", b"FALSE", b"false")], np.uint64)
#: Which bytes are in words: letters, digits, _, and whatever is no ASCII.
LAST_ASCII = 127
IN_WORDS = np.array([c > LAST_ASCII or chr(c).isalnum() or chr(c) == "_" for c in range(256)])
#: What takes the high bit from bytes below and beyond some, eight times: of letters, digits, and _.
FROM_A, BEYOND_Z, FROM_0, BEYOND_9, FROM_LINE, BEYOND_LINE = (
    np.uint64(0x80 - ord(c) if k % 2 == 0 else 0x7F - ord(c)) * ONES for k, c in enumerate("az09__")
)
SMALL = np.uint64(0x20) * ONES


@inlined_strictly
def is_one_of(words, start, stop, fields):
    """Return whether a cell is one of these fields of at most 8 bytes."""
    if stop - start > U8 or stop == start:
        return False
    word = words[start] & FIRST_BYTES[stop - start]
    if word <= FIRST_BYTES[stop - start - U1]:  # its last byte is 0, and in none of them
        return False
    for k in range(fields.shape[0]):  # noqa: SIM110 - compiled
        if word == fields[k]:
            return True
    return False


@inlined_strictly
def is_missing_field(data, words, start, stop):
    """Return whether a field of CSV is a missing value."""
    size = stop - start
    if size == U0:
        return True
    if size > U8 or not MAY_BE_MISSING[data[start]]:
        return False
    return is_one_of(words, start, stop, MISSING_FIELDS)


@inlined_strictly
def lowered(word):
    """Eight bytes in lower case, and how many of them, from the first, are letters of ASCII, digits or _."""
    x = word & LOW_7
    small = x | SMALL
    letters = (small + FROM_A) & ~(small + BEYOND_Z) & ~word & HIGH
    others = ((x + FROM_0) & ~(x + BEYOND_9)) | ((x + FROM_LINE) & ~(x + BEYOND_LINE))
    return word | (letters >> U2), place_of(~(letters | (others & ~word)) & HIGH)


@inlined_strictly
def fixed_feature(f, fixed, table, names):
    """Return the number, from 1, of a feature with a fixed name, 0 without room; and the count of names."""
    known, fixed_words, fixed_ends = fixed
    _slots, about, text, text_words = table
    found = np.uint64(known[f])
    if found == U0:
        k, stop = np.uint64(fixed_ends[f]), np.uint64(fixed_ends[f + 1])
        if not has_room(table, names, stop - k):
            return U0, names
        o = appended(fixed_words, k, stop, text_words, about[names, U0])
        text[o] = NEWLINE
        about[names, U1], about[names, U2], about[names, U4] = np.uint64(f) * MIXER, U0, np.uint64(f + f)
        names += U1
        about[names, U0] = o + U1
        known[f] = names
        found = names
    return found, names


@inlined_strictly
def text_feature(words, start, stop, j, prefixes, table, names, mask):
    """Return the number, from 1, of the feature of a text in column j, 0 without room; and names, mask."""
    prefix_words, prefix_ends = prefixes
    slots, about, _text, text_words = table
    k, prefix_end, owner, size = (
        np.uint64(prefix_ends[j]),
        np.uint64(prefix_ends[j + 1]),
        np.uint64(j + 1),
        stop - start,
    )
    slot, h = find_name(words, start, stop, owner, (words, U0, U0), prefix_end - k, table, mask)
    found = slots[slot, U1] & HALF
    if found == U0:
        if not has_room(table, names, prefix_end - k + size):
            return U0, names, mask
        o = appended(
            words, start, stop, text_words, appended(prefix_words, k, prefix_end, text_words, about[names, U0])
        )
        found = names + U1
        names, mask = add_name(slot, h, owner, size, np.uint64(j + j + 1), o, table, names, mask)
    return found, names, mask


@inlined_strictly
def form_or_null(data, words, start, stop, kind, form, is_csv):
    """Return the form of a cell; NULL if its value is missing."""
    if form == TEXT and kind == NUMBER_CELL:
        if is_csv and (is_missing_field(data, words, start, stop) or is_one_of(words, start, stop, MARKER_FIELDS)):
            return NULL
        return form
    if is_csv and is_missing_field(data, words, start, stop):
        return NULL
    if form == TEXT and start == stop and kind < TARGET_NUMBER:
        return NULL
    is_moment = (kind == DATE_CELL) | (kind == TIME_CELL)
    marked = form == TEXT and is_moment | (kind == TRUTH_CELL) | (kind == UNDECIDED_CELL)
    if marked and MAY_BE_MARKER[data[start]] and is_one_of(words, start, stop, MARKER_FIELDS):
        return NULL
    return form


@inlined_strictly
def is_whole(data, start, stop):
    """Return whether a number has at most 14 digits, perhaps after a minus, and nothing else."""
    whole, k = stop - start <= U14, start
    while k < stop:
        whole &= DIGIT_0 <= data[k] <= DIGIT_9 or (data[k] == MINUS and k == start)
        k += U1
    return whole


@inlined_strictly
def write_target(data, words, end, start, stop, kind, form, number, is_csv, rows, row):
    """Write a target, a sample weight or a tag of a row: DONE, STRANGE or TEXT_TARGET."""
    _indices, _values, y, y_forms, weights, tags = rows
    if kind == TAG_CELL:
        if (form != NULL and form != TEXT) or start >= end:
            return STRANGE
        tags[row, U0], tags[row, U1] = start, start if form == NULL else stop
        return DONE
    if form == NULL:
        return STRANGE
    if kind == TARGET_TRUTH or form == YES or form == NO:  # noqa: SIM109 - compiled
        truth = form == YES or is_one_of(words, start, stop, TRUE_FIELDS)
        if kind == WEIGHT_CELL or not (truth or form == NO or is_one_of(words, start, stop, FALSE_FIELDS)):
            return STRANGE
        y[row], y_forms[row] = np.float64(truth), YES
        return DONE
    if kind == TARGET_TEXT or (kind == TARGET_ANY and form == TEXT):
        return TEXT_TARGET
    whole = is_whole(data, start, stop)
    long = not is_csv and stop - start > U14  # whole or not: not decided here
    if form != BARE or long or (kind == TARGET_WHOLE and not whole):
        return STRANGE
    if kind == WEIGHT_CELL:
        weights[row] = number
    else:
        y[row], y_forms[row] = number, NULL if whole else BARE
    return DONE


@inlined_strictly
def truth_of_cell(words, start, stop, form):
    """1 for a cell that is true, 0 for one that is false, -1 for text that is neither."""
    if form == YES or is_one_of(words, start, stop, TRUE_FIELDS):
        return 1.0
    return -1.0 if form == TEXT and not is_one_of(words, start, stop, FALSE_FIELDS) else 0.0


@inlined_strictly
def part_of_moment(part, base, days, month, micros):
    """Return the feature of a part of a moment (time, month, day of the week, hour), and its value."""
    if part == 0:
        return base, np.float64((days - 10957) * 86400000000 + micros) / 86400000000.0  # since 2000
    if part == 1:
        return base + 1 + month, 1.0
    if part == 2:
        return base + 14 + (days + 3 + 7 * 200000) % 7, 1.0
    return base + 21 + micros // 3600000000, 1.0


@inlined_strictly
def next_word(data, words, k, stop, p):
    """Write the next word from k on in lower case at p: where reading and writing end. Without one p is as before."""
    while k < stop and not IN_WORDS[data[k]]:
        k += U1
    read = U8
    while read == U8 and k < stop:
        words[p], read = lowered(words[k])
        read = min(read, stop - k)
        p += read
        k += read
    return k, p


@inlined_strictly
def next_ngram(first, size, count, most):
    """Return the first word and the size of the next n-gram of `count` words; a size beyond `most` if there is none."""
    size = max(size, 2)
    while first + size > count and size <= most:
        size, first = size + 1, 0
    return first, size


@inlined_strictly
def add_known_features(f, value, days, month, micros, parts, fixed, table, rows, n, names):
    """Add feature f with a value, or those of the `parts` of a moment: DONE or FULL; how many entries and names."""
    indices, values, _y, _y_forms, _weights, _tags = rows
    base, part = f, 0
    while True:
        if month > 0:
            while part < 4 and not parts >> part & 1:
                part += 1
            if part == 4:
                return DONE, n, names
            f, value = part_of_moment(part, base, days, month, micros)
            part += 1
        if value != 0.0:
            if n >= np.uint64(indices.shape[0]):
                return FULL, n, names
            found, names = fixed_feature(f, fixed, table, names)
            if found == U0:
                return FULL, n, names
            indices[n], values[n] = np.int32(found - U1), value
            n += U1
        if month == 0:
            return DONE, n, names


@inlined_strictly
def add_texts(data, words, start, stop, scratch, kind, j, ngrams, spans, prefixes, table, rows, row, n, names, mask):
    """Add the text of a cell, or its words and their n-grams, or write it as a target: see `add_cells`."""
    indices, values, y, y_forms, _weights, _tags = rows
    count, size, first = 0, 1, 0  # words, those of an n-gram, the first of them
    k, p = start, scratch
    while True:
        begin, behind = start, stop
        if kind == WORDS_CELL:
            if size == 1:
                begin = p
                k, behind = next_word(data, words, k, stop, p)
                p = behind
                if k < stop and data[k] > LAST_ASCII:
                    return STRANGE, n, names, mask
                if begin < behind and ngrams > 1:
                    spans[count, 0], spans[count, 1] = begin, behind
                    count += 1
                    data[p] = SPACE
                    p += U1
            if begin == behind or size > 1:
                first, size = next_ngram(first, size, count, ngrams)
                if size > ngrams:
                    return DONE, n, names, mask
                begin, behind = np.uint64(spans[first, 0]), np.uint64(spans[first + size - 1, 1])
                first += 1
        if n >= np.uint64(indices.shape[0]):
            return FULL, n, names, mask
        found, names, mask = text_feature(words, begin, behind, j, prefixes, table, names, mask)
        if found == U0:
            return FULL, n, names, mask
        if kind >= TARGET_NUMBER:
            y[row], y_forms[row] = np.float64(np.int64(found - U1)), TEXT
            return DONE, n, names, mask
        indices[n], values[n] = np.int32(found - U1), 1.0
        n += U1
        if kind != WORDS_CELL:
            return DONE, n, names, mask


@inlined_strictly
def add_cell(data, words, end, scratch, j, cell, cells, columns, fixed, prefixes, table, rows, row, n, names, mask):
    """Add the features of a cell of column j, or write it as a target: see `add_cells`."""
    starts, stops, forms, numbers, _cell_of, is_csv = cells
    kinds, bases, parts, formats, ngrams, spans = columns
    kind, start, stop = kinds[j], np.uint64(starts[cell]), np.uint64(stops[cell])
    form = form_or_null(data, words, start, stop, kind, forms[cell], is_csv)
    f, value = np.int64(-1), 1.0  # a name that is known beforehand, and its value
    days, month, micros = 0, 0, 0
    if kind >= TARGET_NUMBER:
        code = write_target(data, words, end, start, stop, kind, form, numbers[cell], is_csv, rows, row)
        if code != TEXT_TARGET:
            return code, n, names, mask
    elif form == NULL:
        f = bases[j] + 1
    elif kind == NUMBER_CELL or kind == TRUTH_CELL:  # noqa: SIM109 - compiled
        f, value = bases[j], truth_of_cell(words, start, stop, form)
        if value < 0.0 or (form == TEXT and kind == NUMBER_CELL):
            return STRANGE, n, names, mask
    elif form != TEXT or kind == UNDECIDED_CELL:
        return STRANGE, n, names, mask
    elif kind == DATE_CELL or kind == TIME_CELL:  # noqa: SIM109 - compiled
        f = bases[j]
        days, month, micros = moment_at(data, words, start, stop, formats, j)
        if month == 0:
            return STRANGE, n, names, mask
    elif kind == WORDS_CELL and scratch + U2 * (stop - start) + U16 > np.uint64(words.shape[0]):
        return FULL, n, names, mask
    if f >= 0:
        code, n, names = add_known_features(f, value, days, month, micros, parts[j], fixed, table, rows, n, names)
        return code, n, names, mask
    return add_texts(
        data, words, start, stop, scratch, kind, j, ngrams[j], spans, prefixes, table, rows, row, n, names, mask
    )


@inlined_strictly
def add_cells(data, words, end, scratch, cells, columns, fixed, prefixes, table, rows, row, n, names, mask, low, high):
    """Add the features of one row of cells, column by column, behind the `n` entries that are there.

    `cells` are where every cell starts and stops in `data`, its form, its number if it is one, the cell of every column
    (-1 for none), and whether they are of CSV, where text may say that a value is missing. What is behind `scratch`
    may be written to. Returns DONE, FULL without room for them, or STRANGE for a row that another way has to look at;
    how many entries and names there are, and the mask.
    """
    _starts, _stops, forms, numbers, cell_of, _is_csv = cells
    kinds, bases, _parts, _formats, _ngrams, _spans = columns
    indices, values, _y, _y_forms, _weights, _tags = rows
    for j in range(kinds.shape[0]):
        cell = cell_of[j]
        if kinds[j] == SKIPPED or cell < 0:
            continue
        if kinds[j] == NUMBER_CELL and forms[cell] == BARE:  # as a rule
            value = numbers[cell]
            if low <= abs(value) <= high:
                found, names = fixed_feature(bases[j], fixed, table, names)
                if found == U0 or n >= np.uint64(indices.shape[0]):
                    return FULL, n, names, mask
                indices[n], values[n] = np.int32(found - U1), value
                n += U1
            elif value != 0.0:
                return STRANGE, n, names, mask
            continue
        code, n, names, mask = add_cell(
            data, words, end, scratch, j, cell, cells, columns, fixed, prefixes, table, rows, row, n, names, mask
        )
        if code != DONE:
            return code, n, names, mask
    return DONE, n, names, mask
