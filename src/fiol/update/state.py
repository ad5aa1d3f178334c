"""What a learner remembers: one number of each kind per feature, and a clock for all."""

from __future__ import annotations

import mmap
from typing import Any, NamedTuple

import numpy as np

from fiol.components.row import Floats


class State(NamedTuple):
    """Arrays with one entry per feature; those an update has no use for are empty.

    The first axis of every array is the feature, so that K learners can share a pass with `w` of shape [d, K].
    """

    w: Any  #: weights, or what they are computed from: sums of pulls (origin, all iterates), weights / clock.scale
    mark: Floats  #: what the clock said when the feature was last seen
    square: Any  #: sum of squared gradients
    peak: Any  #: largest abs(x)
    total: Floats  #: sum of the weight over all rounds up to the mark


class Clock(NamedTuple):
    """What all features share."""

    t: float  #: rounds made
    eta: float  #: step size of the last round; of the first before it
    scale: float  #: product of the ridge's factors, 1 / prod(1 + eta lam2)
    shrunk: float  #: sum of eta / scale: what l1 has taken, for lam1 = 1, in units of weight / scale
    path: float  #: sum of `scale` over the rounds
    slopes: float  #: sum of the squared derivatives of the loss, where the step size asks for it


#: The clock before the first round, but for eta.
START = Clock(0.0, 1.0, 1.0, 0.0, 0.0, 0.0)


class Room(NamedTuple):
    """Where one row is worked on: arrays as long as the longest row, or longer.

    What is known of its features is read from the state once, side by side, so that loops over it vectorise.
    """

    w: Floats  #: its weights before the round
    square: Floats  #: sums of squared gradients, first before and then after the round
    peak: Floats  #: largest abs(x), in the same way
    step: Floats  #: their steps
    before: Floats  #: h / eta before the round
    center: Floats  #: where their paths start
    new: Floats  #: its weights after the round


def empty_state(features: int, start: float, dtype: Any, kept: dict[str, bool]) -> State:
    """A state of `features` weights at `start`, with the arrays that are `kept`."""
    w = aligned(features, dtype)
    if start != 0.0:
        w.fill(start)
    sizes = {name: features if kept[name] else 0 for name in State._fields[1:]}
    return State(
        w,
        aligned(sizes["mark"], np.float64),
        aligned(sizes["square"], dtype),
        aligned(sizes["peak"], dtype),
        aligned(sizes["total"], np.float64),
    )


def make_room(entries: int) -> Any:
    """Working space for rows of so many entries, each use of it beginning at a cache line."""
    width = -(-max(entries, 1) // 8) * 8
    return aligned(len(Room._fields) * width, np.float64).reshape(len(Room._fields), width)


def grown(state: State, features: int, fresh: State) -> State:
    """A copy with room for more features, each like the one of `fresh`."""
    new = State(*(aligned(features if a.shape[0] else 0, a.dtype) for a in fresh))
    for a, b, first in zip(state, new, fresh, strict=True):
        b[: a.shape[0]] = a
        if first.shape[0] and first[0] != 0.0:
            b[a.shape[0] :] = first[0]
    return new


def aligned(size: int, dtype: Any) -> Any:
    """Zeros that start at a cache line, which is worth a fifth of the time of a row; memory is used when touched."""
    dtype = np.dtype(dtype)
    room = size * dtype.itemsize + 64
    raw = np.frombuffer(untouched(room), np.uint8) if room >= LARGE else np.zeros(room, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size * dtype.itemsize].view(dtype)


#: From so many bytes on, numpy asks for huge pages, of which a single feature would make 2 MB resident.
LARGE = 2**22


def untouched(size: int) -> Any:
    """Zeroed memory in small pages, private to the process."""
    if not hasattr(mmap, "MAP_PRIVATE"):  # Windows
        return bytearray(size)
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
