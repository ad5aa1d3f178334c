"""Ticks of the axes of pictures that are dates, days of the year or times of day."""

from __future__ import annotations

import numpy as np

#: The first of some months, in days of the year.
MONTH_STARTS = ((0.0, "Jan"), (90.0, "Apr"), (181.0, "Jul"), (273.0, "Oct"), (365.0, "Jan"))
#: Distances of ticks between dates: a unit of numpy, and how many of it.
DATE_STEPS = (
    *(("h", n) for n in (1, 3, 6, 12)),
    *(("D", n) for n in (1, 2, 5, 10)),
    *(("M", n) for n in (1, 3, 6)),
    *(("Y", n) for n in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)),
)
#: The largest number of ticks between dates: each is as long as a date.
MOST_DATES = 5
#: Days are counted from here.
START_OF_2000 = np.datetime64("2000-01-01", "s")


def calendar_ticks(axis: str, low: float, high: float) -> list[tuple[float, str]]:
    """Return places and labels of ticks between two values; none for an axis of numbers, or for dates far from 2000.

    Parameters
    ----------
    axis : "date" for days since 2000, "yearday" for days of the year, "time" for hours; anything else is numbers.

    >>> calendar_ticks("date", 0.0, 800.0)
    [(0.0, '2000-01'), (182.0, '2000-07'), (366.0, '2001-01'), (547.0, '2001-07'), (731.0, '2002-01')]
    >>> calendar_ticks("time", 0.0, 24.0)
    [(0.0, '0:00'), (6.0, '6:00'), (12.0, '12:00'), (18.0, '18:00'), (24.0, '24:00')]
    """
    if axis == "yearday":
        return list(MONTH_STARTS)
    if axis == "time":
        return [(6.0 * k, f"{6 * k}:00") for k in range(5)]
    if axis != "date" or not -1e6 < low < high < 1e6:
        return []
    for unit, step in DATE_STEPS:
        start, stop = (date_of_days(end).astype(f"datetime64[{unit}]").astype(int) for end in (low, high))
        places = np.arange(start // step * step, stop + 1, step).astype(f"datetime64[{unit}]")
        days = (places.astype("datetime64[s]") - START_OF_2000) / np.timedelta64(1, "D")
        inside = (days >= low) & (days <= high)
        if inside.sum() <= MOST_DATES:
            labels = [str(place).replace("T", " ") + (":00" if unit == "h" else "") for place in places[inside]]
            return list(zip(days[inside].tolist(), labels, strict=True))
    return []


def date_of_days(days: float) -> np.datetime64:
    """Return the date of days since 2000.

    >>> date_of_days(366.5)
    np.datetime64('2001-01-01T12:00:00')
    """
    return START_OF_2000 + np.timedelta64(round(86400.0 * days), "s")


def shown_date(days: float) -> str:
    """Return days since 2000 as a date.

    >>> shown_date(366.5), shown_date(1e12)
    ('2001-01-01', '1e+12')
    """
    return str(date_of_days(days))[:10] if abs(days) < 1e6 else f"{days:.4g}"
