"""The paper's problem: the lasso on a stream whose distribution is known, so that its objective and optimum are exact.

A row is a_j = c_j + delta d with independent standard normal c_j and d, so that any two features have the correlation
rho = delta^2 / (1 + delta^2) and the covariance of all is Sigma = I + delta^2 11'. The target is b = <a, v> + tau e
with the true weights v_j = (-1)^j exp(-(j - 1) / 10) and standard normal noise e. The objective is

    F(w) = E[1/2 (<a, w> - b)^2] + lam |w|_1 = 1/2 (w - v)' Sigma (w - v) + tau^2 / 2 + lam |w|_1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import NamedTuple

import numpy as np

from fiol.components.row import Floats
from fiol.features.chunk import Chunk


class Optimum(NamedTuple):
    """The best weights, their objective, and a bound on its error."""

    w: Floats
    value: float
    error: float


@dataclass(frozen=True)
class Lasso:
    """The problem, by default that of the paper.

    >>> problem = Lasso()
    >>> round(problem.objective(np.zeros(1000)), 4), round(problem.optimum.value, 4)
    (2.7783, 0.8782)
    >>> int(np.sum(problem.optimum.w == 0.0)), problem.optimum.error < 1e-12
    (976, True)
    """

    d: int = 1000
    rho: float = 0.0
    tau: float = 0.2
    lam: float = 0.1

    @property
    def delta(self) -> float:
        """The coefficient of the common factor in every feature."""
        return sqrt(self.rho / (1.0 - self.rho))

    @cached_property
    def true(self) -> Floats:
        """The true weights v: alternating in sign, exponentially decreasing."""
        j = np.arange(1, self.d + 1)
        return (-1.0) ** j * np.exp(-2.0 * (j - 1) / 20.0)

    # The stream.

    def rows(self, rng: np.random.Generator, n: int, out: Floats | None = None) -> tuple[Floats, Floats]:
        """Return the next n rows and targets; the rows are written to `out` if it is given."""
        x = rng.standard_normal((n, self.d), out=out)
        if self.rho:
            x += self.delta * rng.standard_normal((n, 1))
        return x, x @ self.true + self.tau * rng.standard_normal(n)

    def chunks(self, n: int, seed: int) -> Iterator[tuple[Chunk, Floats]]:
        """Yield the endless stream in chunks of n rows. Every chunk overwrites the one before."""
        rng, x = np.random.default_rng(seed), np.empty((n, self.d))
        indptr = np.arange(0, n * self.d + 1, self.d, dtype=np.int64)
        chunk = Chunk(indptr, np.tile(np.arange(self.d, dtype=np.int32), n), x.reshape(-1))
        while True:
            yield chunk, self.rows(rng, n, x)[1]

    # The exact objective and optimum.

    def objective(self, w: Floats) -> float:
        """Return F(w) exactly, in O(d); infinite for weights that are not finite."""
        with np.errstate(all="ignore"):
            miss = w - self.true
            value = 0.5 * (miss @ miss + (self.delta * miss.sum()) ** 2) + 0.5 * self.tau**2 + self.lam * norm1(w)
        return float(value) if np.isfinite(value) else np.inf

    @cached_property
    def optimum(self) -> Optimum:
        """The minimizer of F.

        Given s = 1'(w - v) the weights are soft(v - delta^2 s, lam), whose own s falls as s rises: one scalar equation,
        solved by bisection to the last bit. Sigma has no eigenvalue below 1, so F is 1-strongly convex and F(w) - F* <=
        |g|^2 / 2 for every subgradient g at w; the smallest one gives the error.
        """
        low = high = 0.0
        if self.delta:  # at s = 0 and beyond |v|_1 the sums lie on either side
            low, high = -norm1(self.true), norm1(self.true)
        while low < (middle := 0.5 * (low + high)) < high:
            if (self.given(middle) - self.true).sum() > middle:
                low = middle
            else:
                high = middle
        w = self.given(middle)
        return Optimum(w, self.objective(w), 0.5 * float(np.sum(self.smallest_subgradient(w) ** 2)))

    def given(self, s: float) -> Floats:
        """Return the minimizer of F if 1'(w - v) were s."""
        u = self.true - self.delta**2 * s
        return np.sign(u) * np.maximum(np.abs(u) - self.lam, 0.0)

    def smallest_subgradient(self, w: Floats) -> Floats:
        """Return the subgradient of F at w nearest to 0; all zeros at the optimum."""
        miss = w - self.true
        smooth = miss + self.delta**2 * miss.sum()
        at_zero = np.sign(smooth) * np.maximum(np.abs(smooth) - self.lam, 0.0)
        return np.where(w == 0.0, at_zero, smooth + self.lam * np.sign(w))


def norm1(w: Floats) -> float:
    """Return |w|_1."""
    return float(np.abs(w).sum())
