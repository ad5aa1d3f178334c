"""Dates and times of day in ISO's form."""

import numpy as np

from fiol.compiler.compiled import inlined_strictly
from fiol.readers.loops.words import (
    COLON,
    DIGIT_0,
    LETTER_T,
    MINUS,
    SPACE,
    U1,
    U2,
    U3,
    U4,
    U5,
    U7,
    U8,
    U10,
    U11,
    U13,
    U14,
    U16,
    U17,
    U19,
)


@inlined_strictly
def two_digits(data, p):
    """The number that two digits are; -1 if they are none."""
    a, b = np.int64(data[p]) - DIGIT_0, np.int64(data[p + U1]) - DIGIT_0
    return 10 * a + b if 0 <= a <= 9 and 0 <= b <= 9 else -1


@inlined_strictly
def moment_at(data, start, stop):
    """Days since 1970, the month, and microseconds since midnight of a date in ISO's form; month 0 if it is none."""
    size = stop - start
    if size != U10 and size != U16 and size != U19:
        return 0, 0, 0
    century, of_century = two_digits(data, start), two_digits(data, start + U2)
    month, day = two_digits(data, start + U5), two_digits(data, start + U8)
    hour, minute, second = 0, 0, 0
    fine = (data[start + U4] == MINUS) & (data[start + U7] == MINUS) & (century >= 0) & (of_century >= 0)
    if size >= U16:
        mark = data[start + U10]
        hour, minute = two_digits(data, start + U11), two_digits(data, start + U14)
        fine &= ((mark == SPACE) | (mark == LETTER_T)) & (data[start + U13] == COLON)
    if size == U19:
        second = two_digits(data, start + U17)
        fine &= data[start + U16] == COLON
    fine &= (1 <= month <= 12) & (0 <= hour < 24) & (0 <= minute < 60) & (0 <= second < 60)
    if not fine:
        return 0, 0, 0
    year = 100 * century + of_century
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    length = 28 + leap if month == 2 else 31 - (month - 1) % 7 % 2
    if not 1 <= day <= length:
        return 0, 0, 0
    y = year + 400 - (month <= 2)  # years from March on, none below 0 (Hinnant, chrono-compatible date algorithms)
    of_era = y % 400
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    days = (y // 400) * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468 - 146097
    return days, month, ((hour * 60 + minute) * 60 + second) * 1000000


@inlined_strictly
def clock_at(data, start, stop):
    """Return day, month and microseconds of a time of day such as 13:45 or 13:45:00, on the first day of 2000."""
    size, second = stop - start, 0
    if size != U5 and size != U8:
        return 0, 0, 0
    hour, minute = two_digits(data, start), two_digits(data, start + U3)
    fine = (data[start + U2] == COLON) & (0 <= hour < 24) & (0 <= minute < 60)
    if size == U8:
        second = two_digits(data, start + U3 + U3)
        fine &= (data[start + U5] == COLON) & (0 <= second < 60)
    return 10957, int(fine), ((hour * 60 + minute) * 60 + second) * 1000000
