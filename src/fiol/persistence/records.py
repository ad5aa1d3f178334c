"""Pack and unpack the records of features: files store those of features seen, and older files lack some arrays.

Arrays of a model whose first axis is the feature are called `state.x`, whatever the statistic `x` is; `fresh.x`, with
a first axis of 1, is the record of a feature never seen. In a model of several learners, names begin with that of the
learner and a slash: `pear/state.w`, `pear/fresh.w`.

Where that makes the file smaller, all `state.x` of n features are replaced by these:

| array | type | what |
|---|---|---|
| `features` | u4, of shape [1] | n |
| `seen` | u4 | the features whose record differs from that of a feature never seen in any bit, rising |
| `seen.x` | that of `state.x` | `state.x[seen]` |

Then `state.x[i]` is `fresh.x[0]` for all other i.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from fiol.persistence.memory import check_memory
from fiol.persistence.model_file import CHUNK, Array, Selected

#: Names of arrays: owner, part, statistic.
NAME = re.compile(r"(?P<owner>.*/|)(?P<part>state|fresh|seen)\.(?P<statistic>.*)", re.DOTALL)
RESERVED = re.compile(r"(.*/|)(features|seen(\..*|))", re.DOTALL)
INDEX = np.dtype(np.uint32)
#: Bytes that two more arrays take in a file, at most.
OVERHEAD = 512
#: Memory that loading takes at its peak, in sizes of the state: measured 2.3 for members in SIMD lanes, whose records
#: are copied once more, and from 1 to 2 for all others.
LOADING_COPIES = 2.3


def pack(arrays: Mapping[str, Array]) -> dict[str, Array | Selected]:
    """Return the arrays as a file stores them; takes 4 bytes of memory per feature seen, and little else.

    >>> w, fresh = np.zeros((1000, 2)), np.zeros((1, 2))
    >>> w[7] = 1.0
    >>> packed = pack({"state.w": w, "fresh.w": fresh})
    >>> {name: array.shape for name, array in packed.items()}
    {'fresh.w': (1, 2), 'features': (1,), 'seen': (1,), 'seen.w': (1, 2)}
    >>> bool((unpack({**packed, "seen.w": np.ones((1, 2))})["state.w"] == w).all())
    True
    """
    for name in arrays:
        if RESERVED.fullmatch(name):
            raise ValueError(f"an array must not be called {name!r}: records of features are stored there")
    packed: dict[str, Array | Selected] = dict(arrays)
    for owner, statistics in owners(arrays, "state").items():
        pairs = {x: (arrays[f"{owner}state.{x}"], arrays[f"{owner}fresh.{x}"]) for x in statistics}
        seen = find_seen(list(pairs.values()))
        if seen is None:
            continue
        packed[f"{owner}features"] = np.array([next(iter(pairs.values()))[0].shape[0]], INDEX)
        packed[f"{owner}seen"] = seen
        for x in pairs:
            packed[f"{owner}seen.{x}"] = Selected(packed.pop(f"{owner}state.{x}"), seen)  # type: ignore[arg-type]
    return packed


def unpack(arrays: dict[str, Array]) -> dict[str, Array]:
    """Replace `seen.x` by `state.x`, one at a time, so that both are in memory for at most one x.

    Changes and returns the dict that was read. Raises ValueError if the arrays are invalid, or if all `state.x` of all
    members and classes together need more memory than is free; then none has been allocated.
    """
    prefixes = [name.removesuffix("seen") for name in arrays if name == "seen" or name.endswith("/seen")]
    counts, packed = {}, owners(arrays, "seen")
    for owner in prefixes:
        check_seen(owner, arrays.get(f"{owner}features"), arrays[f"{owner}seen"])
        counts[owner] = int(arrays.pop(f"{owner}features")[0])
        for x in packed.get(owner, ()):
            if arrays[f"{owner}seen.{x}"].shape[0] != arrays[f"{owner}seen"].shape[0]:
                raise ValueError(f"array '{owner}seen.{x}' has not one record for each feature of '{owner}seen'")
    check_room(counts, {owner: [arrays[f"{owner}fresh.{x}"] for x in packed.get(owner, ())] for owner in counts})
    for owner, n in counts.items():
        seen = arrays.pop(f"{owner}seen")
        for x in packed.get(owner, ()):
            records, fresh = arrays.pop(f"{owner}seen.{x}"), arrays[f"{owner}fresh.{x}"]
            arrays[f"{owner}state.{x}"] = all_records(n, seen, records, fresh)
    return arrays


def fill_missing(arrays: Mapping[str, Array], new: Mapping[str, Array], needed: tuple[str, ...]) -> dict[str, Array]:
    """Return the arrays of a file, with those that its version did not have taken from the `new` model.

    Statistics that are missing have the values of a feature never seen. Arrays that every version had are
    `needed`, the first of them one of all features: they are never filled.

    >>> new = {"state.w": np.zeros(0), "fresh.w": np.zeros(1), "state.peak": np.zeros(0), "fresh.peak": np.ones(1)}
    >>> fill_missing({"state.w": np.array([5.0, 6.0])}, new, ("state.w",))["state.peak"]
    array([1., 1.])
    """
    some = arrays.get(needed[0])
    if some is None or not some.ndim:
        return dict(arrays)
    missing, fresh = [name for name in new if name not in arrays and name not in needed], {}
    for name in missing:
        found = NAME.fullmatch(name)
        if found is not None and found["part"] == "state":
            fresh[name] = new[f"{found['owner']}fresh.{found['statistic']}"]
    rows = 0 if some is None or not some.ndim else some.shape[0]
    check_room(dict.fromkeys(fresh, rows), {name: [record] for name, record in fresh.items()})
    return {
        **arrays,
        **{name: np.repeat(fresh[name], rows, axis=0) if name in fresh else new[name] for name in missing},
    }


def owners(arrays: Mapping[str, Array], part: str) -> dict[str, list[str]]:
    """Return, by owner, the statistics with this part and, of the same type, the record of a feature never seen."""
    found: dict[str, list[str]] = {}
    for match in filter(None, map(NAME.fullmatch, arrays)):
        array, fresh = arrays[match.string], arrays.get(f"{match['owner']}fresh.{match['statistic']}")
        if match["part"] != part or fresh is None or array.ndim == 0:
            continue
        if fresh.dtype == array.dtype and fresh.shape == (1, *array.shape[1:]):
            found.setdefault(match["owner"], []).append(match["statistic"])
    return found


def find_seen(pairs: list[tuple[Array, Array]]) -> Array | None:
    """Return the features whose records differ from the fresh ones; None if leaving out the others saves nothing."""
    n = pairs[0][0].shape[0]
    record = sum(fresh.nbytes for _, fresh in pairs)
    most = (n * record - OVERHEAD) // (record + INDEX.itemsize)
    if any(state.shape[0] != n for state, _ in pairs) or n > np.iinfo(INDEX).max or most < 0:
        return None
    found, number, few = [], 0, max(1, CHUNK // max(1, record))
    for first in range(0, n, few):
        differs = np.zeros(min(few, n - first), bool)
        for state, fresh in pairs:
            other = bits(state[first : first + few]) != bits(fresh)
            differs |= other.any(axis=tuple(range(1, state.ndim)))
        found.append((np.flatnonzero(differs) + first).astype(INDEX))
        number += found[-1].shape[0]
        if number > most:
            return None
    return np.concatenate(found)


def check_seen(owner: str, n: Array | None, seen: Array) -> None:
    """Raise ValueError unless an array lists some of n features in ascending order."""
    if n is None or n.shape != (1,) or n.dtype != INDEX:
        raise ValueError(f"array '{owner}features' is missing or is not one number")
    rising = seen.ndim == 1 and seen.dtype == INDEX and (seen[1:] > seen[:-1]).all()
    if not rising or (seen.shape[0] and seen[-1] >= n[0]):
        raise ValueError(f"array '{owner}seen' does not name different features of {n[0]}, in their order")


def check_room(counts: Mapping[str, int], fresh: Mapping[str, list[Array]]) -> None:
    """Raise ValueError if `counts` records of each owner need more memory than is free."""
    size = sum(float(n) * sum(array.nbytes for array in fresh[owner]) for owner, n in counts.items())
    parts = f" in {len(counts)} learners" if len(counts) > 1 else ""
    check_memory(LOADING_COPIES * size, f"a model of {max(counts.values(), default=0):,} features{parts}")


def all_records(n: int, seen: Array, records: Array, fresh: Array) -> Array:
    """Return n records: those given for the features seen, and the fresh one for all others."""
    whole = np.zeros((n, *fresh.shape[1:]), fresh.dtype)  # memory is used when touched
    if bits(fresh).any():
        bits(whole)[...] = bits(fresh)
    bits(whole)[seen] = bits(records)
    return whole


def bits(array: Array) -> Any:
    """Return a view of an array as unsigned integers, for which -0 is not 0 and a NaN is equal to itself."""
    return array.view(f"u{array.dtype.itemsize}")
