"""Features of one row in plain Python: the functions that exported modules consist of.

They do for a dict what `fiol.features.table_encoding` and `fiol.features.interactions` do for whole columns; tests
compare the two on made-up tables. Functions here call one another and `math` alone, and are copied without their
annotations.
"""

from __future__ import annotations

from typing import Any


def is_absent(value: Any) -> bool:
    """Return whether a value is missing: None, NaN, or the missing value of pandas.

    >>> is_absent(None), is_absent(float("nan")), is_absent("")
    (True, True, False)
    """
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return not hasattr(value, "__len__") and bool(value != value)  # noqa: PLR0124


def value_text(value: Any) -> str:
    """Return an entry of a list as part of a feature's name; a whole number has no point.

    >>> value_text("red"), value_text(2.0), value_text(2.5), value_text(True)
    ('red', '2', '2.5', 'True')
    """
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float) and value == value and abs(value) != float("inf") and value == int(value):  # noqa: PLR0124
        return str(int(value))
    return str(value)


def cell_text(value: Any) -> str:
    """Return a category as part of a feature's name: a boolean is a number, a date is in ISO form.

    >>> cell_text(True), cell_text(2.0), cell_text("red")
    ('1', '2', 'red')
    """
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, bool):
        return str(int(value))
    if hasattr(value, "year"):
        moment = value.isoformat()[:26]
        clock = (value.hour, value.minute, value.second, value.microsecond) if hasattr(value, "hour") else (0,)
        return moment[:10] if not any(clock) else f"{moment[:19]}.{value.microsecond:06d}"
    return value.isoformat() if hasattr(value, "isoformat") else value_text(value)


def words_of_text(text: str, most: int) -> list[str]:
    """Return the words of a text in lower case, and up to `most` in a row.

    >>> words_of_text("In New_York, 1999!", 2)
    ['in', 'new_york', '1999', 'in new_york', 'new_york 1999']
    """
    words = "".join(c if c.isalnum() or c == "_" else " " for c in text.lower()).split(" ")
    words = [word for word in words if word]
    found = list(words)
    for n in range(2, most + 1):
        found += [" ".join(words[k : k + n]) for k in range(len(words) - n + 1)]
    return found


def number_of_text(text: str) -> Any:
    """Return the number that a text is, None if it is empty or nan; ValueError if it is none.

    >>> number_of_text(" -1.5e3 "), number_of_text("NaN")
    (-1500.0, None)
    """
    plain = text.strip().lower()
    if plain in ("", "nan"):
        return None
    if (not plain[-1].isdigit() and plain[-1] != ".") or any(c not in "+-.e" and not c.isdigit() for c in plain):
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


def moment_of_value(value: Any) -> tuple[int, int, int]:
    """Return days since 1970, month, and microseconds since midnight of a date or an ISO text; time zones are ignored.

    >>> moment_of_value("1970-01-02 00:00:01+02:00"), moment_of_value("2024-03-01")
    ((1, 1, 1000000), (19783, 3, 0))
    """
    if not isinstance(value, str):
        micros = 0
        if hasattr(value, "hour"):
            micros = ((value.hour * 60 + value.minute) * 60 + value.second) * 1000000 + value.microsecond
        return day_number(value.year, value.month, value.day), value.month, micros
    text = value.strip()
    shape = "".join("0" if c in "0123456789" else c for c in text)
    clock = shape[10:]
    for zone in ("Z", "+00:00", "-00:00", "+0000", "-0000", "+00", "-00"):
        if clock.endswith(zone):
            clock = clock[: -len(zone)]
            break
    clock, point, fraction = clock.partition(".")
    fine = shape[:10] == "0000-00-00" and clock.replace(" ", "T", 1) in ("", "T00:00", "T00:00:00")
    if not fine or (point and (len(clock) < 9 or fraction not in "000000000" or not fraction)):
        raise ValueError(f"a date must be as 2024-03-01 or 2024-03-01T07:30, got {value!r}")
    hour, minute, second = [int(text[k : k + 2] if len(clock) > k - 10 else 0) for k in (11, 14, 17)]
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(f"there is no time {text[11:]}")
    micros = int((text[20 : 20 + len(fraction)] + "000000")[:6])
    year, month, day = int(text[:4]), int(text[5:7]), int(text[8:10])
    return day_number(year, month, day), month, ((hour * 60 + minute) * 60 + second) * 1000000 + micros


def time_of_value(value: Any) -> tuple[int, int, int]:
    """Return day, month and microseconds of a time of day, or of a text such as 13:45, on the first day of 2000.

    >>> time_of_value("13:45"), time_of_value("0:00:01.5")
    ((10957, 1, 49500000000), (10957, 1, 1500000))
    """
    text = value.strip() if isinstance(value, str) else value.isoformat()
    return moment_of_value("2000-01-01T" + ("0" + text if text[1:2] == ":" else text))


def date_features(name: str, value: Any, parts: Any, is_time: bool = False) -> list[tuple[str, float, str]]:
    """Return name, value and group of the features of a date, or of a time of day.

    >>> [feature for feature, value, group in date_features("day", "2000-01-03T07:00", ("days", "weekday", "hour"))]
    ['day', 'day.weekday=Mon', 'day.hour=7']
    """
    if is_absent(value) or (isinstance(value, str) and not value.strip()):
        return [(f"{name} is missing", 1.0, name)]
    days, month, clock = time_of_value(value) if is_time else moment_of_value(value)
    weekday = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[(days + 3) % 7]
    values = {"month": month, "weekday": weekday, "hour": clock // 3600000000}
    found = []
    if "days" in parts:
        found.append((name, ((days - 10957) * 86400000000 + clock) / 86400000000, name))
    for part in ("month", "weekday", "hour"):
        if part in parts:
            found.append((f"{name}.{part}={values[part]}", 1.0, f"{name}.{part}"))
    return found


def column_features(name: str, kind: str, ngrams: int, parts: Any, value: Any) -> list[tuple[str, float, str]]:
    """Return name, value and group of the features of a column's value, by the kind of the column.

    >>> column_features("city", "category", 1, (), "Rome"), column_features("age", "number", 1, (), None)
    ([('city=Rome', 1.0, 'city')], [('age is missing', 1.0, 'age')])
    """
    if kind in ("date", "time"):
        return date_features(name, value, parts, kind == "time")
    if kind == "numeric_text" and isinstance(value, str):
        value = number_of_text(value)
    if is_absent(value):
        return [(f"{name} is missing", 1.0, name)]
    if kind in ("number", "numeric_text"):
        if isinstance(value, str):
            raise TypeError(f"column {name!r} must be a number, got {value!r}")
        return [(name, number_of_value(value), name)]
    if kind == "words":
        return [(f"{name}:{word}", 1.0, name) for word in words_of_text(cell_text(value), ngrams)]
    if kind == "tags":
        value = value.tolist() if hasattr(value, "tolist") else value
        entries = value if isinstance(value, (list, tuple)) else [value]
        return [(f"{name}={value_text(entry)}", 1.0, name) for entry in entries if not is_absent(entry)]
    return [(f"{name}={cell_text(value)}", 1.0, name)]


def flat_row(row: Any, before: str = "") -> dict[str, Any]:
    """Return a row in which nested dicts have dotted names.

    >>> flat_row({"user": {"age": 30}})
    {'user.age': 30}
    """
    found = {}
    for key, value in row.items():
        found.update(flat_row(value, f"{before}{key}.") if isinstance(value, dict) else {f"{before}{key}": value})
    return found


def features_of_columns(row: Any, columns: Any, optional: bool) -> list[tuple[str, float, str]]:
    """Return the features of a dict of columns, each (name, kind, ngrams, parts).

    If columns are `optional`, an absent column has no feature, and the kind of an unknown one is that of its value.

    >>> features_of_columns({"age": 30}, [("age", "number", 1, ())], False)
    [('age', 30.0, 'age')]
    """
    found = []
    row = flat_row(row) if optional else row
    for name, kind, ngrams, parts in columns:
        if name in row:
            found += column_features(name, kind, ngrams, parts, row[name])
        elif not optional:
            raise KeyError(f"the column {name!r} is not there: give None if its value is missing")
    known = {column[0] for column in columns}
    for name, value in row.items() if optional else ():
        if name not in known:
            number = isinstance(value, (int, float)) and not is_absent(value)
            kind = "number" if number else "tags" if isinstance(value, (list, tuple)) else "category"
            found += column_features(name, kind, 1, (), value)
    return found


def features_of_names(row: Any, space: str = "^") -> list[tuple[str, float, str]]:
    """Return the features of a dict of names and values, where text is part of the name; groups are namespaces.

    >>> features_of_names({"age": 30, "a^color": "red"})
    [('age', 30.0, ''), ('a^color=red', 1.0, 'a')]
    """
    found = []
    for key, value in row.items():
        name = f"{key}={value}" if isinstance(value, str) else key
        group = key.partition(space)[0] if isinstance(key, str) and space in key else ""
        found.append((name, 1.0 if isinstance(value, str) else float(value), group))
    return found


def products(found: list[tuple[str, float, str]], pairs: Any) -> list[tuple[str, float, str]]:
    """Return features, those of one name added up, and the products of pairs and triples of groups.

    >>> [name for name, value, group in products([("a", 2.0, "x"), ("b", 3.0, "y")], [("x", "y"), ("x", "x")])]
    ['a', 'b', 'a*b', 'a*a']
    """
    sums: dict[str, float] = {}
    groups: dict[str, str] = {}
    for name, value, group in found:
        sums[name] = sums.get(name, 0.0) + value
        groups.setdefault(name, group)
    own = [(name, value, groups[name]) for name, value in sums.items()]
    made = list(own)
    for pair in pairs:
        chosen: list[tuple[tuple[int, ...], float]] = [((), 1.0)]
        for k, element in enumerate(pair):
            places = [i for i, entry in enumerate(own) if (entry[2] + ".").startswith(element + ".")]
            same = [j for j in range(k) if pair[j] == element]
            chosen = [
                ((*before, i), product * own[i][1])
                for before, product in chosen
                for i in places
                if not same or i >= before[same[-1]]
            ]
        for factors, product in chosen:
            names = [own[i][0] for i in factors]
            for element in set(pair):
                twins = [k for k, other in enumerate(pair) if other == element]
                for k, name in zip(twins, sorted(names[k] for k in twins)):  # noqa: B905
                    names[k] = name
            made.append(("*".join(names), product, "*".join(pair)))
    return made


def murmur3_number(data: bytes) -> int:
    """Return the 32-bit murmur3 hash of bytes.

    >>> murmur3_number(b"hello"), murmur3_number(b"")
    (613153351, 0)
    """
    mask, h, whole = 0xFFFFFFFF, 0, len(data) // 4 * 4
    for p in range(0, len(data), 4):
        k = int.from_bytes(data[p : p + 4], "little")
        k = (k * 0xCC9E2D51) & mask
        k = ((k << 15) | (k >> 17)) & mask
        h ^= (k * 0x1B873593) & mask
        if p < whole:
            h = ((h << 13) | (h >> 19)) & mask
            h = (5 * h + 0xE6546B64) & mask
    h ^= len(data)
    h = ((h ^ (h >> 16)) * 0x85EBCA6B) & mask
    h = ((h ^ (h >> 13)) * 0xC2B2AE35) & mask
    return h ^ (h >> 16)


def hashed_number(name: Any, size: int) -> int:
    """Return the number of a feature among `size`.

    >>> hashed_number("age", 2**18), hashed_number(2**18 + 7, 2**18)
    (165201, 7)
    """
    if isinstance(name, str):
        return murmur3_number(name.encode("utf-8", "surrogatepass")) % size
    return int(name) % size
