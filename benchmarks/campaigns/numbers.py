"""Numbers of any size: every step is exact, or refused with a reason.

    python -m benchmarks.campaigns.numbers [--cases N] [--seed S] [--json FILE]

A case draws a loss, a penalty, a geometry and a solver, features and targets of any size from 1e-100 to 1e100, steps
from 1e-12 to 1e12, strengths from 0 to 1e12, weights from 0 to 1e30 and sample weights from 0 to 1e12. Its step is made
in the interpreter, and has to satisfy the conditions of `benchmarks.campaigns.optimality` or to be refused. A seed and
a number name a case: `python -m benchmarks.campaigns.numbers --seed 0 --only 1234`.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import fiol
from benchmarks.campaigns.optimality import objection

LOSSES = (
    fiol.Squared(),
    fiol.Absolute(),
    fiol.Quantile(0.3),
    fiol.EpsilonInsensitive(0.5),
    fiol.SquaredEpsilonInsensitive(0.5),
    fiol.Huber(1.5),
    fiol.Hinge(),
    fiol.SquaredHinge(),
    fiol.Logistic(),
    fiol.Exponential(),
    fiol.Poisson(),
)
GEOMETRIES = ("Euclidean", "DiagonalMetric", "Mahalanobis", "Entropy", "SignedEntropy", "Simplex")
SOLVERS = (
    None,
    fiol.Newton(),
    fiol.Bisection(),
    fiol.Sorting(),
    fiol.Partition(),
    fiol.Partition(fiol.MedianOfMedians()),
    fiol.ClosedForm(),
)


class Case(NamedTuple):
    """One step: what `solve_step` takes."""

    x: Any
    y: float
    w: Any
    loss: fiol.Loss
    regularizer: fiol.Regularizer
    geometry: fiol.Geometry
    eta: float
    weight: float
    solver: fiol.Solver | None = None

    def solve(self, compiled: bool = False) -> fiol.Step:
        parts = {"loss": self.loss, "regularizer": self.regularizer, "geometry": self.geometry, "solver": self.solver}
        numbers = {"eta": self.eta, "sample_weight": self.weight}
        return fiol.solve_step(self.x, self.y, self.w, **parts, **numbers, compiled=compiled)  # type: ignore[arg-type]


class Numbers:
    """Random numbers of all sizes."""

    def __init__(self, seed: str) -> None:
        self.rng = random.Random(seed)

    def size(self, low: float, high: float) -> float:
        """A positive number, spread evenly over decades, round now and then."""
        e = self.rng.uniform(low, high)
        return float(10.0 ** (round(e) if self.rng.random() < 0.25 else e))

    def signed(self, low: float, high: float) -> float:
        return self.rng.choice((-1.0, 1.0)) * self.size(low, high)

    def strength(self) -> float:
        kind = self.rng.random()
        return 0.0 if kind < 0.15 else self.size(-3, 2) if kind < 0.5 else self.size(-12, 12)

    def strengths(self, d: int) -> Any:
        return [self.strength() for _ in range(d)] if self.rng.random() < 0.2 else self.strength()

    def regularizer(self, d: int, geometry: str) -> fiol.Regularizer:
        """A penalty that the geometry goes with."""
        one = self.strength()
        if geometry == "Mahalanobis":
            return self.rng.choice((fiol.Unregularized(), fiol.Ridge(one)))
        if geometry == "Simplex":
            return self.rng.choice((fiol.Unregularized(), fiol.L1(self.strengths(d))))
        kind = self.rng.randrange(5)
        plain = (
            fiol.Unregularized()
            if kind == 0
            else fiol.L1(self.strengths(d))
            if kind in (1, 2)
            else fiol.Ridge(self.strengths(d))
            if kind == 3
            else fiol.ElasticNet(self.strengths(d), self.strengths(d))
        )
        if self.rng.random() < 0.8:
            return plain
        lo = self.rng.choice((-np.inf, 0.0, self.signed(-6, 6)))
        hi = self.rng.choice((np.inf, max(lo, 0.0) + self.size(-6, 6)))
        return fiol.Box(plain, lo, hi)

    def features(self, d: int) -> Any:
        """Values: ordinary, all of one size, or of any sizes; with zeros and ties."""
        kind, common = self.rng.random(), self.rng.uniform(-100, 98)
        low, high = (-2, 2) if kind < 0.4 else (common, common + 2) if kind < 0.7 else (-100, 100)
        x = [0.0 if self.rng.random() < 0.1 else self.signed(low, high) for _ in range(d)]
        if self.rng.random() < 0.2:
            x = [x[0]] * d
        return np.array(x)

    def weights(self, d: int, x: Any) -> Any:
        kind = self.rng.random()
        if kind < 0.25:
            return np.zeros(d)
        low, high = (-3, 3) if kind < 0.75 else (-30, 30)
        w = np.array([0.0 if self.rng.random() < 0.2 else self.signed(low, high) for _ in range(d)])
        return w / np.maximum(np.abs(x), 1.0) if self.rng.random() < 0.5 else w

    def target(self, loss: fiol.Loss) -> float:
        if isinstance(loss, fiol.Binary):
            return self.rng.choice((-1.0, 1.0))
        kind = self.rng.random()
        y = 0.0 if kind < 0.1 else self.signed(-2, 3) if kind < 0.6 else self.signed(-100, 100)
        return abs(y) if isinstance(loss, fiol.Poisson) else y

    def step(self) -> float:
        return self.size(-2, 2) if self.rng.random() < 0.3 else self.size(-12, 12)

    def sample_weight(self) -> float:
        kind = self.rng.random()
        return 1.0 if kind < 0.5 else 0.0 if kind < 0.52 else self.size(-3, 3) if kind < 0.75 else self.size(-12, 12)

    def geometry(self, name: str, d: int) -> fiol.Geometry:
        if name == "DiagonalMetric":
            return fiol.DiagonalMetric([self.size(-6, 6) for _ in range(d)])
        if name == "Mahalanobis":
            a = np.array([[self.rng.gauss(0, 1) for _ in range(d)] for _ in range(d)])
            return fiol.Mahalanobis((a @ a.T + np.eye(d)) * self.size(-6, 6))
        return getattr(fiol, name)()  # type: ignore[no-any-return]


def draw(seed: int, number: int) -> Case:
    """The case of this seed and number."""
    numbers = Numbers(f"{seed}/{number}")
    rng = numbers.rng
    d, loss, name = rng.choice((1, 1, 2, 3, 4, 6)), rng.choice(LOSSES), rng.choice(GEOMETRIES)
    x, regularizer = numbers.features(d), numbers.regularizer(d, name)
    geometry, w = numbers.geometry(name, d), numbers.weights(d, x)
    if name in ("Entropy", "Simplex"):
        w = np.abs(w)
    if name == "SignedEntropy":
        w = np.abs(np.array([w, numbers.weights(d, x)]))
    if name == "Simplex":
        w = w / w.sum() if w.any() else np.full(d, 1.0 / d)
    working = geometry.working()
    solvers = [s for s in SOLVERS if s is None or not s.objection(regularizer, working)]
    solver = rng.choice(solvers)
    return Case(x, numbers.target(loss), w, loss, regularizer, geometry, numbers.step(), numbers.sample_weight(), solver)


class Outcome(NamedTuple):
    """What became of one case: exact, refused, or why it is wrong."""

    kind: str
    why: str = ""


def judge(case: Case, compiled: bool = False) -> Outcome:
    """Make the step of a case, and look at its weights."""
    try:
        step = case.solve(compiled)
    except OverflowError as error:
        return Outcome("refused" if "double precision" in str(error) else "wrong", str(error))
    except (ArithmeticError, ValueError) as error:
        return Outcome("wrong", f"raised {error!r}")
    why = objection(case, step.w)
    return Outcome("wrong", why) if why else Outcome("exact")


def campaign(cases: int, seed: int, first: int = 0) -> Iterator[tuple[int, Case, Outcome]]:
    """Case by case, with what became of it."""
    for number in range(first, first + cases):
        case = draw(seed, number)
        yield number, case, judge(case)


def main(arguments: list[str] | None = None) -> int:
    """Run a campaign; the exit code is 1 if any step was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=10_000, help="how many (10000)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="the one case of this number, in full")
    parser.add_argument("--show", type=int, default=10, help="print so many wrong cases (10)")
    parser.add_argument("--json", type=Path, help="write the counts and the numbers of wrong cases here")
    options = parser.parse_args(arguments)
    first, cases = (0, options.cases) if options.only is None else (options.only, 1)
    counts: Counter[str] = Counter()
    wrong: list[int] = []
    start = time.perf_counter()
    for number, case, outcome in campaign(cases, options.seed, first):
        counts[outcome.kind] += 1
        if outcome.kind == "wrong":
            wrong.append(number)
        if options.only is not None or (outcome.kind == "wrong" and len(wrong) <= options.show):
            print(f"case {number}: {outcome.kind} {outcome.why}\n  {case!r}", flush=True)
    seconds = time.perf_counter() - start
    print(f"{cases} cases of seed {options.seed} in {seconds:.0f} s: {dict(counts)}")
    if options.json:
        found = {"cases": cases, "seed": options.seed, "seconds": round(seconds), "counts": counts, "wrong": wrong}
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
