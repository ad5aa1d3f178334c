"""Turns, so that nobody has the quiet minutes to itself, and fits of how times grow."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

#: Where the fits of exponents begin: at the first size, and where the fixed cost of a row no longer flatters them.
FIT_FROM = (0, 1000)


def decades(first: int, last: int) -> tuple[int, ...]:
    """Return two sizes per power of ten."""
    return tuple(round(10 ** (k / 2)) for k in range(2 * first, 2 * last + 1))


class Contestant:
    """Something to time: `prepare` gives, untimed, what is then called and timed. The best time counts."""

    #: What is read before and after: the time of day, or the time the process has had.
    clock: Callable[[], float] = staticmethod(time.perf_counter)

    def __init__(self, prepare: Callable[[], Callable[[], Any]]) -> None:
        self.prepare, self.seconds = prepare, np.inf

    def once(self) -> Any:
        """Return one timed call; returns what it returned."""
        go, clock = self.prepare(), self.clock
        start = clock()
        found = go()
        self.seconds = min(self.seconds, clock() - start)
        return found

    def turn(self, seconds: float = 0.03) -> None:
        """At least one call; more of those too short to time well."""
        end = time.perf_counter() + seconds
        self.once()
        while time.perf_counter() + self.seconds < end:
            self.once()


def take_turns(contestants: Iterable[Contestant], rounds: int) -> None:
    """All contestants in turns, so that none has the quiet minutes to itself."""
    contestants = list(contestants)
    for _ in range(rounds):
        for contestant in contestants:
            contestant.turn()


def exponent(sizes: Iterable[float], times: Iterable[float], first: float = 0) -> float:
    """Return the b of time = a size^b, by least squares of the logarithms over sizes >= first."""
    n, t = np.log([(n, t) for n, t in zip(sizes, times, strict=True) if n >= first]).T
    return float(np.polyfit(n, t, 1)[0])


def fit_ranges(sizes: Iterable[float]) -> list[int]:
    """Return those of FIT_FROM that leave enough sizes for a fit."""
    sizes = list(sizes)
    return [first for first in FIT_FROM if sum(n >= first for n in sizes) > 1]
