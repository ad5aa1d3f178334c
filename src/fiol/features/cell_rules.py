"""The rules of one cell: what it is as a number, a category, a date or a time, and which features it makes.

These functions are plain Python, and they are the statement of the rules: arrays, compiled loops and SQL are compared
with them by tests, and exported Python modules consist of them. Functions here call one another and nothing else, so
that their source can be copied, without annotations, into a module.
"""

from __future__ import annotations

from typing import Any

#: Strings that stand for a missing value in columns of numbers, dates and times, in lower case.
MISSING_MARKERS = (
    "", "na", "n/a", "#na", "#n/a", "#n/a n/a", "<na>", "nan", "-nan", "1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan",
    "null", "none",
    "?", "-", "--", ".", "inf", "+inf", "-inf", "infinity", "+infinity", "-infinity", "missing", "unknown",
)  # fmt: skip


def is_missing(value: Any) -> bool:
    """Return whether a value is missing: None, NaN, NaT, or the NA of pandas.

    >>> is_missing(None), is_missing(float("nan")), is_missing(""), is_missing([None])
    (True, True, False, False)
    """
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return not hasattr(value, "__len__") and bool(value != value)  # noqa: PLR0124


def cell_text(value: Any) -> str:
    """Return a cell as a category, which is part of a feature's name; it depends on nothing but the cell.

    Integers keep all their digits, a whole number has no point, dates and times are in ISO form without their zone, and
    midnight is the date alone.

    >>> cell_text("red"), cell_text(2**60 + 1), cell_text(2.0), cell_text(2.5), cell_text(True)
    ('red', '1152921504606846977', '2', '2.5', 'True')
    """
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float):
        return str(int(value)) if value - value == 0.0 and value == int(value) else repr(value)
    if hasattr(value, "total_seconds"):
        return cell_text(value.total_seconds() / 86400.0)
    if hasattr(value, "as_tuple"):  # a decimal number
        text = format(value, "f")
        text = text.rstrip("0").rstrip(".") if "." in text else text
        return "0" if text == "-0" else text
    if hasattr(value, "isoformat"):
        text = value.isoformat()
        if not (hasattr(value, "year") and hasattr(value, "hour")):
            return text
        fraction = f".{value.microsecond:06d}" if value.microsecond else ""
        midnight = not (value.hour or value.minute or value.second or fraction)
        return text[:10] if midnight else text[:19] + fraction
    return str(value)


def is_marker(value: Any, markers: Any) -> bool:
    """Return whether a value is a text that stands for a missing one, whatever its case and the blanks around it.

    >>> is_marker(" N/A ", MISSING_MARKERS), is_marker("", MISSING_MARKERS), is_marker("no", MISSING_MARKERS)
    (True, True, False)
    """
    return isinstance(value, str) and (value.strip().lower() in markers or not value.strip())


def words_of_text(text: str, most: int) -> list[str]:
    """Return the words of a text in lower case, and up to `most` in a row.

    >>> words_of_text("In New_York, 1999!", 2)
    ['in', 'new_york', '1999', 'in new_york', 'new_york 1999']
    """
    text = text.lower()
    for c in set(text):  # much faster than character by character
        if not (c.isalnum() or c == "_"):
            text = text.replace(c, " ")
    words = text.split()
    found = list(words) if most > 1 else words
    for n in range(2, most + 1):
        found += [" ".join(words[k : k + n]) for k in range(len(words) - n + 1)]
    return found


def number_of_text(text: str) -> float:
    """Return the number that a text is; ValueError if it is none.

    >>> number_of_text(" -1.5e3 ")
    -1500.0
    """
    plain = text.strip().lower()
    if (
        not plain
        or (not plain[-1].isdigit() and plain[-1] != ".")
        or any(c not in "+-.e" and not c.isdigit() for c in plain)
    ):
        raise ValueError(f"a number is expected, got {text!r}")
    return float(plain)


def number_of_value(value: Any) -> float:
    """Return the number that a value is; a duration is in days.

    >>> import datetime
    >>> number_of_value(True), number_of_value(datetime.timedelta(hours=12))
    (1.0, 0.5)
    """
    return value.total_seconds() / 86400.0 if hasattr(value, "total_seconds") else float(value)


def day_number(year: int, month: int, day: int) -> int:
    """Return the days since 1970 of a date; ValueError if there is no such day.

    >>> day_number(1970, 1, 2), day_number(2000, 2, 29)
    (1, 11016)
    """
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    lengths = [31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
    if not (1 <= month <= 12 and 1 <= day <= lengths[month - 1]):
        raise ValueError(f"there is no day {year}-{month}-{day}")
    before = year - 1
    days = 365 * before + before // 4 - before // 100 + before // 400 - 719162
    return days + sum(lengths[: month - 1]) + day - 1


def date_parts(text: str, form: str) -> dict[str, int]:
    """Return the number of every part of a text in a date format, by the letter of the part; ValueError if it has none.

    %Y is four digits, %y two, %m, %d, %H, %I, %M and %S one or two, %b is Jan to Dec, and %p AM or PM, in any case; any
    other character stands for itself.

    >>> date_parts("5/28/2011 1:45 PM", "%m/%d/%Y %I:%M %p")
    {'m': 5, 'd': 28, 'Y': 2011, 'I': 1, 'M': 45, 'p': 1}
    """
    found, p, k = {}, 0, 0
    words = {
        "b": ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
        "p": ("am", "pm"),
    }
    while k < len(form):
        is_part, size = form[k] == "%", 1
        letter = form[k + 1] if is_part else ""
        if letter in words:
            size = 3 if letter == "b" else 2
            word = text[p : p + size].lower()
            fine = word in words[letter]
            found[letter] = words[letter].index(word) + (letter == "b") if fine else 0
        elif is_part:
            least = {"Y": 4, "y": 2}.get(letter, 1)
            size = 0
            while size < max(least, 2) and p + size < len(text) and text[p + size] in "0123456789":
                size += 1
            fine = size >= least
            found[letter] = int(text[p : p + size]) if fine else 0
        else:
            fine = text[p : p + 1] == form[k]
        if not fine:
            raise ValueError(f"a date must be as {form}, got {text!r}")
        p, k = p + size, k + 1 + is_part
    if p < len(text):
        raise ValueError(f"a date must be as {form}, got {text!r}")
    return found


def moment_of_parts(parts: dict[str, int], text: str) -> tuple[int, int, int]:
    """Return days since 1970, month, and microseconds since midnight of `date_parts`; ValueError if there is none.

    Two digits of a year are from 1969 to 2068.

    >>> moment_of_parts({"y": 70, "b": 1, "d": 2, "I": 12, "M": 0, "S": 1, "p": 0}, "")
    (1, 1, 1000000)
    """
    short = parts.get("y", 0)
    year, month = parts.get("Y", short + (1900 if short >= 69 else 2000)), parts.get("m", parts.get("b", 0))
    hour, minute, second = parts.get("H", 0), parts.get("M", 0), parts.get("S", 0)
    if "I" in parts:
        hour = parts["I"] % 12 + 12 * parts["p"] if 1 <= parts["I"] <= 12 else 24
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(f"there is no time {text}")
    return day_number(year, month, parts["d"]), month, ((hour * 60 + minute) * 60 + second) * 1000000


def moment_of_value(value: Any, form: str = "") -> tuple[int, int, int]:
    """Return days since 1970, month, and microseconds since midnight of a date, or of a text.

    The text has a format of `date_parts`, or is an ISO date or date-time, whose zone is ignored.

    >>> moment_of_value("1970-01-02 00:00:01+02:00"), moment_of_value("2024-03-01")
    ((1, 1, 1000000), (19783, 3, 0))
    >>> moment_of_value("3/1/2024", "%m/%d/%Y")
    (19783, 3, 0)
    """
    if not isinstance(value, str):
        micros = 0
        if hasattr(value, "hour"):
            micros = ((value.hour * 60 + value.minute) * 60 + value.second) * 1000000 + value.microsecond
        return day_number(value.year, value.month, value.day), value.month, micros
    text = value.strip()
    if form:
        return moment_of_parts(date_parts(text, form), text)
    clock = text[10:]
    shape = "".join("0" if c in "0123456789" else c for c in clock)
    for zone in ("Z", "+00:00", "-00:00", "+0000", "-0000", "+00", "-00"):
        if shape.endswith(zone):
            clock, shape = clock[: -len(zone)], shape[: -len(zone)]
            break
    clock, point, fraction = clock.partition(".")
    mark = " " if clock[:1] == " " else "T"
    iso = {0: "", 6: mark + "%H:%M", 9: mark + "%H:%M:%S"}.get(len(clock))
    if point and (len(clock) < 9 or not fraction or shape[10:] not in "000000000"):
        iso = None
    if iso is None or len(text) < 10:
        raise ValueError(f"a date must be as 2024-03-01 or 2024-03-01T07:30, got {value!r}")
    days, month, micros = moment_of_parts(date_parts(text[:10] + clock, "%Y-%m-%d" + iso), text)
    return days, month, micros + int((fraction + "000000")[:6])


def time_of_value(value: Any) -> tuple[int, int, int]:
    """Return day, month and microseconds of a time of day, or of a text such as 13:45, on the first day of 2000.

    >>> time_of_value("13:45"), time_of_value("0:00:01.5")
    ((10957, 1, 49500000000), (10957, 1, 1500000))
    """
    text = value.strip() if isinstance(value, str) else value.isoformat()
    return moment_of_value("2000-01-01T" + ("0" + text if text[1:2] == ":" else text))


def date_features(name: str, value: Any, parts: Any, kind: str = "date") -> list[tuple[str, float, str]]:
    """Return name, value and group of the features of a date, or of a time of day.

    `kind` is date, date with its format after a colon, or time.

    >>> [feature for feature, value, group in date_features("day", "2000-01-03T07:00", ("days", "weekday", "hour"))]
    ['day', 'day.weekday=Mon', 'day.hour=7']
    """
    days, month, clock = time_of_value(value) if kind == "time" else moment_of_value(value, kind[5:])
    weekday = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[(days + 3) % 7]
    values = {"month": month, "weekday": weekday, "hour": clock // 3600000000}
    found = []
    if "days" in parts:
        found.append((name, ((days - 10957) * 86400000000 + clock) / 86400000000, name))
    for part in ("month", "weekday", "hour"):
        if part in parts:
            found.append((f"{name}.{part}={values[part]}", 1.0, f"{name}.{part}"))
    return found


def column_features(
    name: str, kind: str, ngrams: int, parts: Any, value: Any, markers: Any, everywhere: bool
) -> list[tuple[str, float, str]]:
    """Return name, value and group of the features of a column's value, by the kind of the column.

    The empty text is missing. `markers` are other strings for a missing value, in columns of text as well if they hold
    `everywhere`. A date may have its format after a colon.

    >>> column_features("city", "category", 1, (), "?", MISSING_MARKERS, False)
    [('city=?', 1.0, 'city')]
    >>> column_features("age", "number", 1, (), "?", MISSING_MARKERS, False)
    [('age is missing', 1.0, 'age')]
    >>> column_features("day", "date:%d.%m.%Y", 1, ("month",), "28.5.2011", MISSING_MARKERS, False)
    [('day.month=5', 1.0, 'day.month')]
    """
    marked = is_marker(value, markers) and (everywhere or kind not in ("category", "words", "tags"))
    if is_missing(value) or marked or (isinstance(value, str) and not value):
        return [(f"{name} is missing", 1.0, name)]
    if kind[:4] in ("date", "time"):
        return date_features(name, value, parts, kind)
    if kind in ("number", "numeric_text"):
        return [(name, number_of_text(value) if isinstance(value, str) else number_of_value(value), name)]
    if kind == "undecided":
        raise ValueError(f"column {name!r} had no values when the model was made: its kind is not known")
    if kind == "words":
        return [(f"{name}:{word}", 1.0, name) for word in words_of_text(cell_text(value), ngrams)]
    if kind == "tags":
        value = value.tolist() if hasattr(value, "tolist") else value
        entries = value if isinstance(value, (list, tuple)) else [value]
        return [(f"{name}={cell_text(entry)}", 1.0, name) for entry in entries if not is_missing(entry)]
    if kind == "category":
        return [(f"{name}={cell_text(value)}", 1.0, name)]
    raise ValueError(f"column {name!r} has the kind {kind!r}, for which there is no rule")
