"""The single-row fast path: compiled functions that take a dict, or two arrays, from Python as they are.

They return the score of the row, or None if the row needs the general code: a text, a value out of range, a name that
is neither str nor int, a label that may be wrong. Then nothing has changed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fiol.compiler.compiled import inlined, jit_as_c
from fiol.compiler.python_objects import (
    AXES,
    DATA,
    DIGITS,
    DTYPE,
    FLAGS,
    HASH,
    ITEMS,
    PLAIN_ARRAY,
    SHAPE,
    SIZE,
    TYPE,
    attempted,
    attribute,
    block_in,
    dict_remove,
    dict_set,
    dict_size,
    error_occurred,
    find,
    forget_error,
    half_at,
    int_value,
    list_append,
    list_replace,
    new_float,
    new_int,
    next_item,
    ones,
    order_of_texts,
    owner_place,
    python_function,
    real_at,
    release,
    set_attribute,
    share,
    this_thread,
    tuple_item,
    tuple_size,
    usable,
    whole_number,
    word_at,
    word_of,
)
from fiol.engine.centering import NO_ROWS
from fiol.engine.float32_guard import SMALLEST_SINGLE
from fiol.engine.round.center_rows import centre_row
from fiol.engine.round.reading import prediction, score_one_row
from fiol.engine.round.rounds import clock_from, clock_into, in_order, learn_row, row_buffers
from fiol.features.canonicalize import arrange
from fiol.features.chunk import LARGEST, MOST_FEATURES, SMALLEST
from fiol.features.turns import Free, Turns

#: The bitmap that sorts the features of a row has this many words of 64 bits.
WORDS = 1024
#: Size of the cache of features by the hash of their names; a power of 2.
GUESSES = 2048
#: Rows of up to this many entries are sorted by insertion.
FEW = 16
#: Indices of `RowReading.facts`.
DICT, STR, INT, FLOAT, FLOAT64, BOOL, TRUE, NONE, ARRAY, INT32_VALUES, FLOAT64_VALUES = range(11)
STRINGS, INTEGERS, NAMES, INTAKES, FEATURES_NAME, FEATURES, WIDTH, UNKNOWN, OWNER, SHORT = range(11, 21)
#: What to do with an unknown name: return None, leave it out, give it the next number; return None, while features that
#: are numbers may have any.
REFUSED, LEFT_OUT, NUMBERED, ANY_NUMBER = range(4)
#: Stand for the owner of a lock that no thread can hold, and of one whose owner is not known.
FREE, UNSEEN = np.zeros(1, np.int64), np.full(1, -1)


class RowReading(NamedTuple):
    """Buffers and constants for reading a row."""

    low: float  #: limits of values that need no overflow check when they are learned from
    high: float
    heaviest: float
    feature: Any  #: buffer: the indices of a row
    x: Any  #: its values
    keys: Any  #: its new names
    guesses: Any  #: features, by the last bits of the hashes of their names
    new_feature: Any  #: the row, sorted
    new_x: Any
    bits: Any  #: one for each feature
    smaller: Any  #: how many features are smaller than those of a word of bits
    centred: Any  #: features whose means are subtracted,
    sums: Any  #: the sums of their values,
    count: Any  #: and the number of rows
    least: float  #: differences from a mean that are smaller are 0
    raw_feature: Any  #: buffer: the row before means are subtracted
    raw_x: Any
    facts: Any  #: addresses of objects, and numbers


class Values(NamedTuple):
    """Plans and arrays of an engine that the functions work on."""

    predicting: int  #: whether the prediction is wanted, not the score
    plan: Any
    intercept_plan: Any
    state: Any
    intercept: Any
    fresh: Any
    ticks: Any
    buffers: Any
    intercept_buffers: Any
    reading: RowReading


@inlined
def number_in(facts, value):
    """Whether an object is a number of a plain type, and this number."""
    kind = word_at(value, TYPE)
    if kind == facts[FLOAT] or kind == facts[FLOAT64]:
        return True, real_at(value, DATA)  # where a float has its value, as an array has its data
    if kind == facts[INT]:
        whole, overflow = whole_number(value)
        return overflow == 0, float(whole)
    return kind == facts[BOOL], 1.0 if value == facts[TRUE] else 0.0


@inlined
def whole(facts, number):
    """The value of an int, the number of a name."""
    return half_at(number, DIGITS) if word_at(number, SIZE) == facts[SHORT] else int_value(number)


@inlined
def is_name(facts, name, key, kind):
    """Whether the key of a dict, of this kind, equals a name: the same object, usually, or the same text."""
    if name == key:
        return True
    if kind != facts[STR] or word_at(name, TYPE) != kind or word_at(name, HASH) != word_at(key, HASH):
        return False
    return order_of_texts(name, key) == 0


@inlined
def read_dict(facts, row, feature, x, keys, guesses):
    """Write the entries of a dict, unsorted; return their number, that of new names, and whether indices rise.

    The number is -1 if the row needs the general code.
    """
    n, new, place, known, names, missed = 0, 0, 0, word_at(facts[NAMES], SIZE), word_at(facts[NAMES], ITEMS), False
    last: Any = -1
    rising: Any = True
    if word_at(row, TYPE) != facts[DICT] or dict_size(row) > keys.shape[0]:
        return -1, 0, True
    while True:
        more, place, key, value = next_item(row, place)
        if more == 0:
            break
        kind = word_at(key, TYPE)
        fine, number = number_in(facts, value)
        fine &= kind == facts[STR] or kind == facts[INT]
        fine &= number == 0.0 or SMALLEST <= abs(number) <= LARGEST
        if not fine:
            return -1, 0, True
        if number == 0.0:
            continue
        guess = (word_at(key, HASH) if kind == facts[STR] else key >> 4) & (GUESSES - 1)
        i: Any = np.int64(guesses[guess])
        if i >= known or not is_name(facts, word_at(names, 8 * i), key, kind):
            found = find(facts[STRINGS] if kind == facts[STR] else facts[INTEGERS], key)
            i = whole(facts, found) if found != 0 else -1
            missed |= found == 0
            if i >= 0:
                guesses[guess] = i
            elif facts[UNKNOWN] == LEFT_OUT:
                continue
            elif facts[UNKNOWN] == NUMBERED:
                i = known + new
                keys[new] = key
                new += 1
            else:
                break
        rising &= i > last
        last = i
        feature[n], x[n] = i, number
        n += 1
    kept = facts[UNKNOWN] == LEFT_OUT or facts[UNKNOWN] == NUMBERED
    if missed and (error_occurred() != 0 or not kept):
        forget_error()
        return -1, 0, True
    return n, new, rising


@inlined
def read_arrays(facts, indices, values, feature, x, most):
    """`read_dict` for an array of int32 and one of float64, of at most `most` entries."""
    fine = word_at(indices, TYPE) == facts[ARRAY] and word_at(values, TYPE) == facts[ARRAY]
    if not fine:
        return -1, 0, True
    fine = word_at(indices, DTYPE) == facts[INT32_VALUES] and word_at(values, DTYPE) == facts[FLOAT64_VALUES]
    fine &= half_at(indices, AXES) == 1 and half_at(values, AXES) == 1
    fine &= half_at(indices, FLAGS) & half_at(values, FLAGS) & PLAIN_ARRAY == PLAIN_ARRAY
    if not fine:
        return -1, 0, True
    n = word_at(word_at(indices, SHAPE), 0)
    if n != word_at(word_at(values, SHAPE), 0) or n > most:
        return -1, 0, True
    place, value_place, last, rising = word_at(indices, DATA), word_at(values, DATA), -1, True
    for k in range(n):
        i, value = half_at(place, 4 * k), real_at(value_place, 8 * k)
        fine &= 0 <= i < facts[WIDTH] and SMALLEST <= abs(value) <= LARGEST
        rising &= i > last
        last = i
        feature[k], x[k] = i, value
    return n if fine else -1, 0, rising


@inlined
def sort_by_rank(feature, x, n, reading):
    """Sort entries by the number of smaller features, counted in a bitmap; return whether that was done.

    Rows in which a feature comes twice, or which need too many bits, are not changed.
    """
    top = np.int32(0)
    for k in range(n):
        top = max(top, feature[k])
    words = (top >> 6) + 1
    bits, smaller, new_feature, new_x = reading.bits, reading.smaller, reading.new_feature, reading.new_x
    if words > bits.shape[0] or words > 4 * n + 16:
        return False
    for j in range(words):
        bits[j] = 0
    for k in range(n):
        bits[feature[k] >> 6] |= np.uint64(1) << np.uint64(feature[k] & 63)
    total = np.uint64(0)
    for j in range(words):
        smaller[j] = total
        total += ones(bits[j])
    if total != n:
        return False
    for k in range(n):
        i = feature[k]
        below = bits[i >> 6] & ((np.uint64(1) << np.uint64(i & 63)) - np.uint64(1))
        place = smaller[i >> 6] + ones(below)
        new_feature[place], new_x[place] = i, x[k]
    for k in range(n):
        feature[k], x[k] = new_feature[k], new_x[k]
    return True


@inlined
def sort_few(feature, x, n):
    """Sort entries by insertion, which is stable; return whether no feature comes twice."""
    apart = True
    for k in range(1, n):
        i, value, j = feature[k], x[k], k
        while j > 0 and feature[j - 1] > i:
            feature[j], x[j] = feature[j - 1], x[j - 1]
            j -= 1
        feature[j], x[j] = i, value
        apart &= j == 0 or feature[j - 1] != i
    return apart


@inlined
def sort_entries(feature, x, n, rising, reading):
    """Sort entries; return how many are left, -1 if the row needs the general code."""
    if n < 0 or rising or (sort_few(feature, x, n) if n <= FEW else sort_by_rank(feature, x, n, reading)):
        return n
    return arrange(
        reading.feature[:n], reading.x[:n], SMALLEST, LARGEST
    )  # typed as Python's own call, and compiled with it


@inlined
def features_with(facts, feature, new):
    """The number of features, with new names included."""
    if new > 0:
        return word_at(facts[NAMES], SIZE) + new
    if feature.shape[0] > 0 and feature[-1] >= facts[FEATURES]:  # perhaps there are more since the last look
        features = 2**62
        for k in range(tuple_size(facts[INTAKES])):
            number = attribute(tuple_item(facts[INTAKES], k), facts[FEATURES_NAME])
            features = min(features, int_value(number))
            release(number)
        facts[FEATURES] = features
    return facts[FEATURES]


@inlined
def have_features(facts, features):
    """Store the number of features in all spaces; return whether there was memory for that."""
    number = new_int(features)
    fine = number != 0
    for k in range(tuple_size(facts[INTAKES])):
        fine = fine and set_attribute(tuple_item(facts[INTAKES], k), facts[FEATURES_NAME], number) == 0
    if number != 0:
        release(number)
    if fine:
        facts[FEATURES] = features
    else:
        forget_error()
    return fine


@inlined
def number_names(facts, keys, new):
    """Give new names the next numbers, all or none; return whether there was memory for that."""
    names, before, done = facts[NAMES], word_at(facts[NAMES], SIZE), 0
    fine = True
    for k in range(new):
        table = facts[STRINGS] if word_at(keys[k], TYPE) == facts[STR] else facts[INTEGERS]
        number = new_int(before + k)
        if number == 0:
            fine = False
            break
        fine = dict_set(table, keys[k], number) == 0
        release(number)
        done += fine
        fine = fine and list_append(names, keys[k]) == 0
        if not fine:
            break
    if fine and have_features(facts, before + new):
        return True
    forget_error()
    for k in range(done):
        table = facts[STRINGS] if word_at(keys[k], TYPE) == facts[STR] else facts[INTEGERS]
        dict_remove(table, keys[k])
    list_replace(names, before, word_at(names, SIZE), 0)
    forget_error()
    return False


@inlined
def read_event(reading, arguments, dicts):
    """Write the entries of a row, one of `dicts` or two arrays, sorted; return their number, and that of new names.

    The number is -1 if the row needs the general code.
    """
    first = word_at(arguments, 0)
    if dicts:
        n, new, rising = read_dict(reading.facts, first, reading.feature, reading.x, reading.keys, reading.guesses)
    else:
        most = reading.keys.shape[0]
        n, new, rising = read_arrays(reading.facts, first, word_at(arguments, 8), reading.feature, reading.x, most)
    return sort_entries(reading.feature, reading.x, n, rising, reading), new


@inlined
def read_example(reading, arguments, count):
    """`read_event` for `count` arguments: a row, a target and a weight; also returns target and weight."""
    facts, target, weight = reading.facts, word_at(arguments, 8 * count - 16), word_at(arguments, 8 * count - 8)
    fine, y = number_in(facts, target)
    also, w = number_in(facts, weight)
    if not (fine and also) or word_at(target, TYPE) == facts[BOOL] or word_at(weight, TYPE) == facts[BOOL]:
        return -1, 0, y, w
    n, new = read_event(reading, arguments, count == 3)
    return n, new, y, w


@inlined
def features_after(reading, n, new, dicts):
    """The number of features after a row, and whether the row has feature numbers beyond the present ones."""
    facts, feature = reading.facts, reading.feature
    features = features_with(facts, feature[:n], new)
    more = not dicts and n > 0 and facts[UNKNOWN] == ANY_NUMBER and feature[n - 1] >= features
    return (np.int64(feature[n - 1]) + 1 if more else features), more


@inlined
def store_new(reading, new, more, features):
    """Store new names and features of a row; return whether there was memory for that."""
    if new > 0 and not number_names(reading.facts, reading.keys, new):
        return False
    return not more or have_features(reading.facts, features)


@inlined
def without_means(reading, n):
    """Subtract the means from a row of n entries, with a copy in the raw buffers; return its number of entries."""
    if reading.centred.shape[0] == 0:
        return n
    feature, x, part = reading.raw_feature[:n], reading.raw_x[:n], 1.0 / reading.count[0]
    for k in range(n):
        feature[k], x[k] = reading.feature[k], reading.x[k]
    return centre_row(feature, x, reading.centred, reading.sums, part, False, reading.least, reading.feature, reading.x)


@inlined
def add_to_means(reading, n):
    """Add the raw row of n entries to the means."""
    if reading.centred.shape[0] == 0:
        return
    feature, x, k = reading.raw_feature, reading.raw_x, 0
    for j in range(reading.centred.shape[0]):
        while k < n and feature[k] < reading.centred[j]:
            k += 1
        if k < n and feature[k] == reading.centred[j]:
            reading.sums[j] += x[k]
    reading.count[0] += 1.0


@inlined
def locked_by_other(reading):
    """Whether another thread holds the lock."""
    owner = word_at(reading.facts[OWNER], 0)
    return owner != 0 and owner != this_thread()


@jit_as_c
def score_event(function, arguments, count):
    """Return the score of a row, a dict or two arrays, or its prediction; None if the row needs the general code.

    It does while another thread holds the lock: no lock is taken here.
    """
    engine_values = block_in(function)
    reading = engine_values.reading
    n = -1 if locked_by_other(reading) else read_event(reading, arguments, count == 1)[0]
    if n < 0:
        return share(reading.facts[NONE])
    n = without_means(reading, n)
    known = engine_values.state, engine_values.intercept, engine_values.fresh, engine_values.ticks
    failed, z = attempted(
        score_one_row, (engine_values.plan, engine_values.intercept_plan, reading.feature[:n], reading.x[:n], *known)
    )
    if not failed and engine_values.predicting:
        failed, z = attempted(prediction, (engine_values.plan.problem.loss, z))
    return 0 if failed else new_float(z)


@jit_as_c
def learn_event(function, arguments, count):
    """Make a round for a row, a dict or two arrays, a target and a weight; return the score before.

    None if the row needs the general code.
    """
    engine_values = block_in(function)
    reading = engine_values.reading
    entries, new, y, w = read_example(reading, arguments, count)
    if entries < 0:
        return share(reading.facts[NONE])
    features, more = features_after(reading, entries, new, count == 3)
    n = without_means(reading, entries)
    row, values = reading.feature[:n], reading.x[:n]
    sizes = (
        min(features, engine_values.state.w.shape[0]),
        engine_values.buffers.shape[1],
        reading.low,
        reading.high,
        reading.heaviest,
    )
    failed, fine = attempted(in_order, (engine_values.plan.problem.loss, row, values, y, w, *sizes))
    if failed:
        return 0
    if not fine or not store_new(reading, new, more, features):
        return share(reading.facts[NONE])
    buffers = row_buffers(engine_values.buffers), row_buffers(engine_values.intercept_buffers)
    memory = engine_values.state, engine_values.intercept, clock_from(engine_values.ticks), *buffers, 0.0
    failed, (z, clock) = attempted(
        learn_row, (engine_values.plan, engine_values.intercept_plan, row, values, y, w, *memory)
    )
    if failed:
        return 0
    clock_into(engine_values.ticks, clock)
    add_to_means(reading, entries)
    return new_float(z)


def owner_address(lock: Any) -> int:
    """The address of a word that has the thread that holds the lock, 0 for none."""
    if isinstance(lock, Turns):
        return id(lock) + (owner_place() or 0)
    return int((FREE if isinstance(lock, Free) else UNSEEN).ctypes.data)


def reading_for(
    engine: Any, fast_path: Any, spaces: tuple[Any, ...], learning: bool, grows: bool, lock: Any
) -> tuple[RowReading, Any]:
    """Buffers and constants for reading rows, and objects to keep alive for them: see `Engine.prepare_fast_path`."""
    own, encoder = spaces[0], fast_path.encoder
    strings, integers, names = ({}, {}, []) if encoder is None else encoder.tables
    things = [dict, str, int, float, np.float64, bool, True, None, np.ndarray, np.dtype(np.int32), np.dtype(np.float64)]
    things += [strings, integers, names, spaces, "features"]
    unknown = REFUSED
    if learning and grows and own.numbers_new_names:
        unknown = NUMBERED
    elif learning and grows and encoder is None and own.width is None:
        unknown = ANY_NUMBER
    elif not learning and own.leaves_new_names_out:
        unknown = LEFT_OUT
    features, width = (
        min(space.features for space in spaces),
        MOST_FEATURES if own.width is None else own.width,
    )
    numbers = features, width, unknown, owner_address(lock), word_of(1, SIZE)
    facts, entries = np.array([*map(id, things), *numbers]), fast_path.entries
    known, least = engine.centering or NO_ROWS, SMALLEST if engine.dtype.itemsize == 8 else SMALLEST_SINGLE
    size = entries + known.features.shape[0] + 1  # absent features that are centred have entries, too
    row = np.empty(size, np.int32), np.empty(size), np.empty(entries, np.int64), np.zeros(GUESSES, np.int32)
    sorting = np.empty(entries, np.int32), np.empty(entries), np.empty(WORDS, np.uint64), np.empty(WORDS, np.uint64)
    means = known.features, known.sums, known.so_far, least, np.empty(size, np.int32), np.empty(size)
    return RowReading._make((*engine.limits, *row, *sorting, *means, facts)), (things, lock)


def functions_for(engine: Any, fast_path: Any, spaces: tuple[Any, ...], learning: bool, grows: bool, lock: Any) -> None:
    """Compile the functions of a `FastPath` for an engine: see `Engine.prepare_fast_path`."""
    if not usable():
        return
    reading, alive = reading_for(engine, fast_path, spaces, learning, grows, lock)
    known = *engine.scoring, engine.buffers, engine.storage.intercept_buffers

    def function(kernel: Any, predicting: int = 0) -> Any:
        return python_function(kernel, Values._make((predicting, *engine.plans, *known, reading)), alive)

    if learning:
        fast_path.learn = function(learn_event)
    else:
        fast_path.score, fast_path.predict = function(score_event), function(score_event, 1)
