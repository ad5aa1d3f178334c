"""The state of a learner: weights and a record per feature, and a clock."""

from __future__ import annotations

import contextlib
import mmap
from math import prod
from typing import Any, NamedTuple

import numpy as np

from fiol.components.row import Floats


class State(NamedTuple):
    """Arrays whose first axis is the feature; those an update has no use for have no entries.

    `w` and `total` are [feature], or [feature, score] where rows have many scores.
    """

    w: Any  #: weights, or what they are computed from: sums of pulls (origin, all iterates), weights / clock.scale
    last_seen: Floats  #: `LazyUpdate.now(clock)` when the feature was last seen: rounds, or a sum over them
    statistics: Any  #: [feature, statistic]: what the step size keeps, a record per feature
    total: Any  #: sum of the weight over all rounds up to the last in which the feature was seen


class Clock(NamedTuple):
    """The numbers that all features share: the rounds made, and sums and products over them."""

    t: float  #: rounds made
    eta: float  #: step size of the last round; of the first before it
    scale: float  #: product of the ridge's factors, 1 / prod(1 + eta lam2)
    cumulative_l1: float  #: sum of eta / scale: what l1 has taken from weight / scale, for lam1 = 1
    cumulative_scale: float  #: sum of `scale` over the rounds
    slopes: float  #: sum of squared derivatives, or of `Loss.scale_statistic`, where the step size needs it


class RoundRow(NamedTuple):
    """A row in its round, as anchors take it."""

    feature: Any  #: its features
    x: Any  #: their values, perhaps with zeros behind them (`fiol.algorithms.layout`)
    eta: float  #: the step size of the round
    clock: Clock  #: before the round
    buffers: Any  #: a `RowBuffers`


class Uncounted(NamedTuple):
    """The rows and parts of rounds that the clock of a merged model does not count; 0 in all other models."""

    rows: float  #: rows learned from, beyond the rounds of the clock
    rounds: float  #: the part of a round that the mean of merged clocks has beyond a whole number


#: Numbers of rounds below this are floats, and so are its multiples.
FLOAT_ROUNDS = 2**24
#: The clock before the first round, but for eta.
START = Clock(0.0, 1.0, 1.0, 0.0, 0.0, 0.0)


def empty_state(
    shape: tuple[int, ...], start: float, dtype: Any, last_seen: bool, statistics: int, totals: bool
) -> State:
    """Return a state of weights of this shape at `start`, with `statistics` numbers per feature."""
    features, *trailing = shape
    w = aligned(shape, dtype)
    if start != 0.0:
        w.fill(start)
    return State(
        w,
        aligned(features * last_seen, np.float64),
        aligned((features, statistics), dtype),
        aligned((features * totals, *trailing), np.float64),
    )


def make_row_buffers(entries: int, statistics: int, trailing: tuple[int, ...] = ()) -> Any:
    """Return row buffers for rows of up to `entries` entries, aligned to cache lines; see `rounds.split_buffers`."""
    width = -(-max(entries, 1) // 8) * 8
    return aligned((9 + statistics + len(trailing), width, *trailing), np.float64)


def grown(state: State, features: int, fresh: State) -> State:
    """Return a copy with this many features, new ones like the one of `fresh`."""
    new = State(*(aligned((features * bool(a.shape[0]), *a.shape[1:]), a.dtype) for a in fresh))
    for a, b, first in zip(state, new, fresh, strict=True):
        b[: a.shape[0]] = a
        if first.any():
            b[a.shape[0] :] = first[0]
    return new


def placed(state: State, places: Any, features: int, fresh: State) -> State:
    """Return a copy with this many features, old feature i at places[i], and the others like that of `fresh`."""
    new = grown(State(*(a[:0] for a in state)), features, fresh)
    for a, b in zip(state, new, strict=True):
        if a.shape[0]:
            b[places] = a[: len(places)]
    return new


def spread(state: State, places: Any, scores: int, start: float) -> State:
    """Return a copy with more scores, old score k at places[k]; the weights of the others are `start`."""
    w, total = (aligned((a.shape[0], scores), a.dtype) for a in (state.w, state.total))
    w.fill(start)
    w[:, places], total[:, places] = state.w, state.total
    return State(w, state.last_seen.copy(), realigned(state.statistics), total)


def arrays_by_name(state: State, statistics: tuple[str, ...]) -> dict[str, Any]:
    """Return the arrays by their names in model files, one for each statistic; `last_seen` is called mark there."""
    records = {name: state.statistics[:, k] for k, name in enumerate(statistics)}
    return {"w": state.w, "mark": state.last_seen, **records, "total": state.total}


def assembled(arrays: dict[str, Any], statistics: tuple[str, ...]) -> State:
    """Return a state of copies of the arrays that `arrays_by_name` gives, each at a cache line."""
    records = aligned((arrays["w"].shape[0], len(statistics)), arrays["w"].dtype)
    for k, name in enumerate(statistics):
        records[:, k] = arrays[name]
    return State(realigned(arrays["w"]), realigned(arrays["mark"]), records, realigned(arrays["total"]))


def realigned(array: Any) -> Any:
    """Return a copy that starts at a cache line."""
    new = aligned(array.shape, array.dtype)
    new[...] = array
    return new


def aligned(shape: int | tuple[int, ...], dtype: Any) -> Any:
    """Return zeros that start at a cache line, which saves a fifth of the time of a row."""
    dtype, size = np.dtype(dtype), int(prod(shape) if isinstance(shape, tuple) else shape)
    length = size * dtype.itemsize + 64
    raw = np.frombuffer(untouched(length), np.uint8) if length >= LARGE else np.zeros(length, np.uint8)
    start = -raw.__array_interface__["data"][0] % 64
    return raw[start : start + size * dtype.itemsize].view(dtype).reshape(shape)


#: From this many bytes on, arrays have small pages: numpy asks for huge ones, of which a single feature makes 2 MB
#: resident. With small ones the default learner takes a third more time on rows of text.
LARGE = 2**26
#: Bytes of a small page, and entries that are looked at to choose between small and huge ones.
SMALL_PAGE, ENTRIES_LOOKED_AT = 4096, 2**17


def use_huge_pages(records: Any, indices: Any, size: int) -> None:
    """Ask for huge pages for an array of `aligned` if these features, of `size` bytes each, are on half of its pages.

    Where rows have features from all over a large array, most of the time goes to finding its small pages. Pages that
    are in use stay as they are.
    """
    pages = records.nbytes // SMALL_PAGE
    if records.nbytes < LARGE or 2 * len(indices) < pages or not hasattr(mmap, "MADV_HUGEPAGE"):
        return
    used = np.zeros(pages + 1, bool)
    used[indices[:ENTRIES_LOOKED_AT].astype(np.int64) * size // SMALL_PAGE] = True
    memory = records
    while isinstance(memory, (np.ndarray, memoryview)):
        memory = memory.base if isinstance(memory, np.ndarray) else memory.obj
    if 2 * np.count_nonzero(used) >= pages and isinstance(memory, mmap.mmap):
        with contextlib.suppress(OSError):  # a system without them
            memory.madvise(mmap.MADV_HUGEPAGE)


def untouched(size: int) -> Any:
    """Return zeroed memory in small pages, private to the process."""
    if not hasattr(mmap, "MAP_PRIVATE"):  # Windows
        return bytearray(size)
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
