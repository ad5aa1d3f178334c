"""The features of one row, in plain Python that needs nothing: exported models consist of these functions.

They do for a dict what `fiol.features.table_encoding` does for columns; the tests compare the two.
Functions here call one another and `math` alone, and their annotations are left out where they are copied.
"""

from __future__ import annotations

from typing import Any


def is_absent(value: Any) -> bool:
    """Whether a value is missing: None, or not a number.

    >>> is_absent(None), is_absent(float("nan")), is_absent("")
    (True, True, False)
    """
    return value is None or bool(value != value)  # noqa: PLR0124


def value_text(value: Any) -> str:
    """A value as part of a feature's name; a whole number has no point.

    >>> value_text("red"), value_text(2.0), value_text(2.5), value_text(True)
    ('red', '2', '2.5', 'True')
    """
    if isinstance(value, float) and value == value and abs(value) != float("inf") and value == int(value):  # noqa: PLR0124
        return str(int(value))
    return str(value)


def words_of_text(text: str, most: int) -> list[str]:
    """The words of a text in lower case, and up to `most` in a row.

    >>> words_of_text("In New_York, 1999!", 2)
    ['in', 'new_york', '1999', 'in new_york', 'new_york 1999']
    """
    words = "".join(c if c.isalnum() or c == "_" else " " for c in text.lower()).split(" ")
    words = [word for word in words if word]
    found = list(words)
    for n in range(2, most + 1):
        found += [" ".join(words[k : k + n]) for k in range(len(words) - n + 1)]
    return found


def day_number(year: int, month: int, day: int) -> int:
    """Days since 1970 of a date; ValueError if there is no such day.

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
    """Days since 1970, month, and microseconds since midnight of a date, a time, or an ISO text; zones are read over.

    >>> moment_of_value("1970-01-02 00:00:01+02:00"), moment_of_value("2024-03-01")
    ((1, 1, 1000000), (19783, 3, 0))
    """
    if not isinstance(value, str):
        clock = 0
        if hasattr(value, "hour"):
            clock = ((value.hour * 60 + value.minute) * 60 + value.second) * 1000000 + value.microsecond
        return day_number(value.year, value.month, value.day), value.month, clock
    text = value.strip()
    date, rest = text[:10], text[10:].rstrip("Z")
    for sign in "+-":
        rest = rest.partition(sign)[0]
    rest, _, fraction = rest.partition(".")
    fields = date.split("-") + (rest[1:].split(":") if rest else [])
    sizes = [len(field) for field in fields]
    fine = sizes in ([4, 2, 2], [4, 2, 2, 2, 2], [4, 2, 2, 2, 2, 2]) and rest[:1] in ("", "T", " ")
    if not fine or not ("".join(fields) + fraction).isdigit() or (fraction and len(fields) < 6):
        raise ValueError(f"a date must be as 2024-03-01 or 2024-03-01T07:30, got {value!r}")
    year, month, day, hour, minute, second = [int(field) for field in fields] + [0] * (6 - len(fields))
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(f"there is no time {rest[1:]}")
    clock = ((hour * 60 + minute) * 60 + second) * 1000000 + int((fraction + "000000")[:6])
    return day_number(year, month, day), month, clock


def time_of_value(value: Any) -> tuple[int, int, int]:
    """Return day, month and microseconds of a time of day, or of a text such as 13:45, on the first day of 2000.

    >>> time_of_value("13:45"), time_of_value("0:00:01.5")
    ((10957, 1, 49500000000), (10957, 1, 1500000))
    """
    text = value.strip() if isinstance(value, str) else value.isoformat()
    return moment_of_value("2000-01-01T" + ("0" + text if text[1:2] == ":" else text))


def date_features(name: str, value: Any, parts: Any, is_time: bool = False) -> list[tuple[str, float, str]]:
    """The features of a date, or of a time of day: name, value and group of each.

    >>> [feature for feature, value, group in date_features("day", "2000-01-03T07:00", ("days", "weekday", "hour"))]
    ['day', 'day.weekday=Mon', 'day.hour=7']
    """
    if is_absent(value) or (isinstance(value, str) and not value.strip()):
        return [(f"{name} is missing", 1.0, name)]
    days, month, clock = time_of_value(value) if is_time else moment_of_value(value)
    weekday = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[(days + 3) % 7]
    told = {"month": month, "weekday": weekday, "hour": clock // 3600000000}
    found = []
    if "days" in parts:
        found.append((name, ((days - 10957) * 86400000000 + clock) / 86400000000, name))
    for part in ("month", "weekday", "hour"):
        if part in parts:
            found.append((f"{name}.{part}={told[part]}", 1.0, f"{name}.{part}"))
    return found


def column_features(name: str, kind: str, ngrams: int, parts: Any, value: Any) -> list[tuple[str, float, str]]:
    """The features of a column's value, by its kind: name, value and group of each.

    >>> column_features("city", "category", 1, (), "Rome"), column_features("age", "number", 1, (), None)
    ([('city=Rome', 1.0, 'city')], [('age is missing', 1.0, 'age')])
    """
    if kind in ("date", "time"):
        return date_features(name, value, parts, kind == "time")
    if kind == "numeric_text" and isinstance(value, str):
        value = None if value.strip().lower() in ("", "nan") else float(value)
    if is_absent(value):
        return [(f"{name} is missing", 1.0, name)]
    if kind in ("number", "numeric_text"):
        if isinstance(value, str):
            raise TypeError(f"column {name!r} must be a number, got {value!r}")
        return [(name, float(value), name)]
    if kind == "words":
        return [(f"{name}:{word}", 1.0, name) for word in words_of_text(value_text(value), ngrams)]
    if kind == "tags":
        entries = value if isinstance(value, (list, tuple)) else [value]
        return [(f"{name}={value_text(entry)}", 1.0, name) for entry in entries if not is_absent(entry)]
    return [(f"{name}={value_text(value)}", 1.0, name)]


def flat_row(row: Any, before: str = "") -> dict[str, Any]:
    """A row whose dicts within have dotted names.

    >>> flat_row({"user": {"age": 30}})
    {'user.age': 30}
    """
    found = {}
    for key, value in row.items():
        found.update(flat_row(value, f"{before}{key}.") if isinstance(value, dict) else {f"{before}{key}": value})
    return found


def features_of_columns(row: Any, columns: Any, optional: bool) -> list[tuple[str, float, str]]:
    """The features of a dict of columns, each (name, kind, ngrams, parts).

    If columns are `optional`, one that is not there has no feature, and one nobody told of is what its value is.

    >>> features_of_columns({"age": 30}, [("age", "number", 1, ())], False)
    [('age', 30.0, 'age')]
    """
    found = []
    row = flat_row(row) if optional else row
    for name, kind, ngrams, parts in columns:
        if name in row:
            found += column_features(name, kind, ngrams, parts, row[name])
        elif not optional:
            raise KeyError(f"the column {name!r} is not there: give None if its value is not known")
    known = {column[0] for column in columns}
    for name, value in row.items() if optional else ():
        if name not in known:
            number = isinstance(value, (int, float)) and not is_absent(value)
            kind = "number" if number else "tags" if isinstance(value, (list, tuple)) else "category"
            found += column_features(name, kind, 1, (), value)
    return found


def features_of_names(row: Any, space: str = "^") -> list[tuple[str, float, str]]:
    """The features of a dict of names and values, where a text is part of the name; groups are namespaces.

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
    """Features, those of one name added up, and the products that pairs and triples of groups add.

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


def murmur3_number(data: bytes, seed: int = 0) -> int:
    """Murmur3 of bytes, with 32 bits.

    >>> murmur3_number(b"hello"), murmur3_number(b"")
    (613153351, 0)
    """
    mask, h, whole = 0xFFFFFFFF, seed, len(data) // 4 * 4
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
    """The number of a feature among so many.

    >>> hashed_number("age", 2**18), hashed_number(2**18 + 7, 2**18)
    (165201, 7)
    """
    if isinstance(name, str):
        return murmur3_number(name.encode("utf-8", "surrogatepass")) % size
    return int(name) % size
