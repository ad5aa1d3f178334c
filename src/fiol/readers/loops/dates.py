"""Dates and times of day in a format."""

import numpy as np

from fiol.compiler.compiled import inlined_strictly
from fiol.features.date_formats import MONTH_WORDS
from fiol.features.murmur import FIRST_BYTES
from fiol.readers.loops.codes import (
    BLANK_OR_T,
    DAY,
    END_OF_FORMAT,
    FIRST_PIECE,
    FULL_WIDTH,
    HALF_DAY,
    HOUR,
    HOUR_OF_12,
    MAY_END,
    MINUTE,
    MONTH,
    MONTH_WORD,
    SECOND,
    SHORT_YEAR,
    YEAR,
)
from fiol.readers.loops.words import DIGIT_0, LETTER_T, SPACE, U1, U2, U3

#: Names of months as the lowest bytes of words, in lower case.
MONTH_FIELDS = np.array([int.from_bytes(word.encode(), "little") for word in MONTH_WORDS], np.uint64)
THREE_SMALL = np.uint64(0x202020)
#: What `days_of_date` returns where there is no such day.
NO_DAY = -(10**9)
LETTER_A, LETTER_P, LETTER_M = (ord(c) for c in "apm")


@inlined_strictly
def two_digits(data, p):
    """Return the number of two digits; -1 if one is no digit."""
    a, b = np.int64(data[p]) - DIGIT_0, np.int64(data[p + U1]) - DIGIT_0
    return 10 * a + b if 0 <= a <= 9 and 0 <= b <= 9 else -1


@inlined_strictly
def days_of_date(year, month, day):
    """Days since 1970 of a date, by Hinnant's chrono-compatible algorithms; NO_DAY if there is none."""
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    length = 28 + leap if month == 2 else 31 - (month - 1) % 7 % 2
    if not (1 <= month <= 12 and 1 <= day <= length):
        return NO_DAY
    y = year + 400 - (month <= 2)  # years from March on, none below 0
    of_era = y % 400
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return (y // 400) * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468 - 146097


@inlined_strictly
def number_piece(data, p, stop, piece, full):
    """Return the number of one or two digits at p, where it ends, and whether the piece of a format may be so."""
    value = two_digits(data, p)
    if value >= 0 and p + U1 < stop:
        return value, p + U2, True
    value = np.int64(data[p]) - DIGIT_0
    return value, p + U1, 0 <= value <= 9 and not full and piece != YEAR and piece != SHORT_YEAR


@inlined_strictly
def month_of_word(word):
    """Return the month of the first three letters of its name; 0 if there is none."""
    month = 0
    for i in range(12):
        if word == MONTH_FIELDS[i]:
            month = i + 1
    return month


@inlined_strictly
def moment_at(data, words, start, stop, formats, j):
    """Days since 1970, the month, and microseconds since midnight of a date in format j; month 0 if it is none.

    A time of day is one of the first day of 2000.
    """
    year, month, day, hour, minute, second = 2000, 1, 1, 0, 0, 0
    half, full, p, k, fine = 0, False, start, 0, True
    while fine:
        piece = formats[j, k]
        k += 1
        if piece == END_OF_FORMAT or (piece == MAY_END and p == stop):
            break
        if piece < FIRST_PIECE:
            fine = data[p] == piece
            p += U1
        elif piece <= SECOND:
            value, p, fine = number_piece(data, p, stop, piece, full)
            if piece == MONTH:
                month = value
            elif piece == DAY:
                day = value
            elif piece == YEAR:
                of_century = two_digits(data, p)
                fine &= of_century >= 0
                p += U2
                year = 100 * value + of_century
            elif piece == HOUR:
                hour = value
            elif piece == MINUTE:
                minute = value
            elif piece == SECOND:
                second = value
            elif piece == HOUR_OF_12:
                fine &= 1 <= value <= 12
                hour = value % 12
            else:
                year = value + (1900 if value >= 69 else 2000)
        elif piece == BLANK_OR_T:
            fine = data[p] == SPACE or data[p] == LETTER_T
            p += U1
        elif piece == FULL_WIDTH:
            full = True
        elif piece == MONTH_WORD:
            month = month_of_word((words[p] & FIRST_BYTES[3]) | THREE_SMALL)
            p += U3
        elif piece == HALF_DAY:
            letter = data[p] | 32
            fine = ((letter == LETTER_A) | (letter == LETTER_P)) and data[p + U1] | 32 == LETTER_M
            half = 12 if letter == LETTER_P else 0
            p += U2
    days, hour = days_of_date(year, month, day), hour + half
    if not fine or p != stop or days == NO_DAY or hour > 23 or minute > 59 or second > 59:
        return 0, 0, 0
    return days, month, ((hour * 60 + minute) * 60 + second) * 1000000
