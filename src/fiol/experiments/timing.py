"""Interleaved timing of contestants, and fits of how times grow."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

#: First sizes of the fits of exponents: all, and those where the fixed cost of a row is small.
FIT_FROM = (0, 1000)


def decades(first: int, last: int) -> tuple[int, ...]:
    """Return two sizes per power of ten."""
    return tuple(round(10 ** (k / 2)) for k in range(2 * first, 2 * last + 1))


class Contestant:
    """A function to time: `prepare` returns, untimed, the function that is called and timed. The best time counts."""

    #: The clock: wall time or processor time.
    clock: Callable[[], float] = staticmethod(time.perf_counter)

    def __init__(self, prepare: Callable[[], Callable[[], Any]]) -> None:
        self.prepare, self.seconds = prepare, np.inf

    def once(self) -> Any:
        """Make one timed call, and return its result."""
        go, clock = self.prepare(), self.clock
        start = clock()
        found = go()
        self.seconds = min(self.seconds, clock() - start)
        return found

    def turn(self, seconds: float = 0.03) -> None:
        """Make at least one call, and more if they are short."""
        end = time.perf_counter() + seconds
        self.once()
        while time.perf_counter() + self.seconds < end:
            self.once()


def take_turns(contestants: Iterable[Contestant], rounds: int) -> None:
    """Time all contestants in turns, so that noise affects all alike."""
    contestants = list(contestants)
    for _ in range(rounds):
        for contestant in contestants:
            contestant.turn()


def exponent(sizes: Iterable[float], times: Iterable[float], first: float = 0) -> float:
    """Return the b of time = a size^b, by least squares of the logarithms over sizes >= first."""
    n, t = np.log([(n, t) for n, t in zip(sizes, times, strict=True) if n >= first]).T
    return float(np.polyfit(n, t, 1)[0])


def fit_ranges(sizes: Iterable[float]) -> list[int]:
    """Return the entries of FIT_FROM with enough sizes for a fit."""
    sizes = list(sizes)
    return [first for first in FIT_FROM if sum(n >= first for n in sizes) > 1]
