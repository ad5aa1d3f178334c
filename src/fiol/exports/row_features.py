"""Features of one row in plain Python: beside `fiol.features.cell_rules`, what exported modules consist of.

The functions do for a dict what `fiol.features.table_encoding` and `fiol.features.interactions` do for whole columns;
tests compare the two on made-up tables. They call one another, the rules of cells and `math` alone, and are copied
without their annotations.
"""

from __future__ import annotations

import math
from typing import Any

from fiol.features.cell_rules import column_features, is_marker, is_missing


def flat_row(row: Any, before: str = "") -> dict[str, Any]:
    """Return a row in which nested dicts have dotted names.

    >>> flat_row({"user": {"age": 30}})
    {'user.age': 30}
    """
    found = {}
    for key, value in row.items():
        found.update(flat_row(value, f"{before}{key}.") if isinstance(value, dict) else {f"{before}{key}": value})
    return found


def features_of_columns(
    row: Any, columns: Any, optional: bool, markers: Any, everywhere: bool
) -> list[tuple[str, float, str]]:
    """Return the features of a dict of columns, each (name, kind, ngrams, parts).

    An absent column is missing. If columns are `optional`, it has no feature, and the kind of an unknown one is that of
    its value.

    >>> features_of_columns({"age": 30}, [("age", "number", 1, ())], False, ["?"], False)
    [('age', 30.0, 'age')]
    """
    found = []
    row = flat_row(row) if optional else row
    for name, kind, ngrams, parts in columns:
        if not optional or (name in row and kind != "undecided"):
            found += column_features(name, kind, ngrams, parts, row.get(name), markers, everywhere)
    undecided = {column[0] for column in columns if column[1] == "undecided"}
    known = {column[0] for column in columns} - undecided
    for name, value in row.items() if optional else ():
        if name not in known:
            number = isinstance(value, (int, float)) and not is_missing(value)
            kind = "number" if number else "tags" if isinstance(value, (list, tuple)) else "category"
            kind = "undecided" if name in undecided and is_marker(value, markers) else kind
            found += column_features(name, kind, 1, (), value, markers, everywhere)
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


def place_of_number(value: float, knots: Any) -> tuple[int, float]:
    """Return the interval of knots that a number is in, and its distance from the lower knot as a fraction.

    >>> place_of_number(2.5, [0.0, 2.0, 4.0]), place_of_number(-1.0, [0.0, 2.0, 4.0])
    ((1, 0.25), (0, 0.0))
    """
    if len(knots) == 1:
        return 0, 0.0
    low, high = 0, len(knots) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if knots[middle] <= value:
            low = middle
        else:
            high = middle
    part = (value - knots[low]) / (knots[low + 1] - knots[low])
    return low, 0.0 if part < 1e-9 else part if part < 1.0 - 1e-9 else 1.0


def terms_of_basis(found: Any, slots: Any, curves: Any, nodes: Any) -> list[tuple[Any, float]]:
    """Return weights and values of the hats and nodes of a row, a dict of features.

    A slot is (number of points, knots, knots that are points, feature that is the number, features of missing values,
    points of categories, period of which the number is taken as a part).

    >>> slots = [(3, [0.0, 2.0], [0.0, 2.0], "a", [], {}, 0.0), (2, [], [], None, [], {"b=x": 0}, 0.0)]
    >>> terms_of_basis({"a": 0.5, "b=x": 1.0}, slots, {0: [10.0, 20.0]}, [(0, 1, {0: 7.0, 2: 9.0})])
    [(10.0, 0.75), (20.0, 0.25), (7.0, 0.75), (9.0, 0.25)]
    """
    terms, places = [], []
    for s, (count, knots, grid, number, missing, codes, period) in enumerate(slots):
        point, part = -1, 0.0
        for name in codes:
            point = codes[name] if found.get(name) else point
        if number is not None:
            point = count - 1
            if not any(found.get(name) for name in missing):
                value = found.get(number, 0.0)
                value = value / period - math.floor(value / period) if period else value
                point, part = place_of_number(value, grid)
                if s in curves:
                    j, own = place_of_number(value, knots)
                    terms += [(curves[s][j], 1.0 - own), (curves[s][j + 1], own)]
        places.append((point, part))
    for left, right, weights in nodes:
        (i, a), (j, b), size = places[left], places[right], slots[right][0]
        if i >= 0 and j >= 0:  # the corners of a triangle
            node, aside = i * size + j, size if a >= b else 1
            corners = (node, 1.0 - max(a, b)), (node + aside, abs(a - b)), (node + size + 1, min(a, b))
            terms += [(weights[k], value) for k, value in corners if value and k in weights]
    return terms
