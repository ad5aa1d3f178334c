"""Numbers of any size: every step is exact, or refused with a reason.

    python tests/campaigns/extremes.py [--cases N] [--seed S] [--json FILE]

A case draws a loss, a penalty, a geometry and a solver, features and targets of any size from 1e-100 to 1e100, steps
from 1e-12 to 1e12, strengths from 0 to 1e12, weights from 0 to 1e30 and sample weights from 0 to 1e12. Its step is made
in the interpreter, and has to satisfy the conditions of `tests/oracles/optimality.py` or to be refused. One case in
twenty is a learner with any step size, each of whose three rounds has to do so, unless its pull is below the smallest
double (`lost`, as the docstring of `Learner` says), and one in twenty a joint loss on a line of any slope.
A seed and a number name a case: `python tests/campaigns/extremes.py --seed 0 --only 1234`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import fiol

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
import material
from material import ENTROPIC, LOSSES, QUADRATIC
from oracles import outliers
from oracles.optimality import joint_objection, objection

GEOMETRIES = (*QUADRATIC, *ENTROPIC)
SOLVERS = (None, *material.SOLVERS)
#: Steps are no longer than this by definition.
LONGEST = 1e280
#: A line of progress is printed after this many cases.
PROGRESS = 20_000


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
            return fiol.DiagonalMetric(np.array([self.size(-6, 6) for _ in range(d)]))
        if name == "Mahalanobis":
            a = np.array([[self.rng.gauss(0, 1) for _ in range(d)] for _ in range(d)])
            return fiol.Mahalanobis((a @ a.T + np.eye(d)) * self.size(-6, 6))
        return getattr(fiol, name)()  # type: ignore[no-any-return]


class Stream(NamedTuple):
    """A few rounds of a learner."""

    update: fiol.Update
    rows: Any
    y: list[float]
    weight: list[float]
    intercept: bool


class Line(NamedTuple):
    """A joint loss on a line of scores."""

    loss: Any
    q: Any
    p: float
    y: int


def draw(seed: int, number: int) -> Case | Stream | Line:
    """The case of this seed and number."""
    numbers = Numbers(f"{seed}/{number}")
    if number % 20 == 7:
        return draw_stream(numbers)
    return draw_line(numbers) if number % 20 == 8 else draw_step(numbers)


def draw_line(numbers: Numbers) -> Line:
    rng = numbers.rng
    classes, kind = rng.choice((2, 3, 5)), rng.choice(((-3, 3), (-100, 100), (20, 22)))
    q = [0.0 if rng.random() < 0.2 else numbers.signed(*kind) for _ in range(classes)]
    p = rng.choice((0.0, numbers.size(-6, 6), numbers.size(-290, 290)))
    return Line(rng.choice((fiol.Softmax(), fiol.CrammerSinger())), np.array(q), p, rng.randrange(classes))


def draw_stream(numbers: Numbers) -> Stream:
    rng = numbers.rng
    d, loss, name = rng.choice((1, 2, 3, 4)), rng.choice(LOSSES), rng.choice(("Euclidean", "DiagonalMetric", "Entropy"))
    size = numbers.step()
    inner = rng.choice((fiol.Constant(size), fiol.Polynomial(size), fiol.AdaGrad(size, rng.choice((0.0, 0.1, 1e-6)))))
    step_size = fiol.ScaleFree(inner) if rng.random() < 0.4 else inner
    rows = [numbers.features(d) for _ in range(3)]
    if rng.random() < 0.5:
        rows = [rows[0] * rng.uniform(0.1, 1.0) for _ in rows]
    rows = [np.where(np.abs(x) < 1e-100, 0.0, x) for x in rows]
    penalty = numbers.regularizer(d, name)
    if isinstance(step_size, fiol.ScaleFree) and not set(penalty.bounds()) <= {0.0, np.inf, -np.inf}:
        step_size = step_size.replace(raw_penalty=1)  # bounds are raw
    update = fiol.FIOL(loss, penalty, step_size, numbers.geometry(name, d))
    weights = [numbers.sample_weight() for _ in rows]
    return Stream(update, np.array(rows), [numbers.target(loss) for _ in rows], weights, rng.random() < 0.5)


def draw_step(numbers: Numbers) -> Case:
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
    y, eta, weight = numbers.target(loss), numbers.step(), numbers.sample_weight()
    return Case(x, y, w, loss, regularizer, geometry, eta, weight, solver)


class Outcome(NamedTuple):
    """What became of one case: exact, refused, or why it is wrong."""

    kind: str
    why: str = ""


def judge(case: Case | Stream | Line, compiled: bool = False) -> Outcome:
    """Make the step of a case, and look at its weights."""
    try:
        if isinstance(case, Line):
            beta = np.empty(case.q.shape[0])
            with np.errstate(all="ignore"):
                case.loss.duals(case.q, case.p, case.y, beta)
            why = joint_objection(case.loss, case.q, case.p, case.y, beta)
            return Outcome("wrong", why) if why else Outcome("exact")
        if isinstance(case, Stream):
            return judge_stream(case, compiled)
        step = case.solve(compiled)
    except OverflowError as error:
        return Outcome("refused" if "double precision" in str(error) else "wrong", str(error))
    except (ArithmeticError, ValueError, Warning) as error:
        return Outcome("wrong", f"raised {error!r}")
    why = objection(case, step.w)
    return Outcome("wrong", why) if why else Outcome("exact")


def judge_stream(stream: Stream, compiled: bool) -> Outcome:
    """Every round of a learner, with the weights, steps and intercept before and after it."""
    update, d = stream.update, stream.rows.shape[1]
    learner = fiol.Learner(update, n_features=d, intercept=stream.intercept, compiled=compiled)
    for t, (x, y, weight) in enumerate(zip(stream.rows, stream.y, stream.weight, strict=True), 1):
        w, shift, before = learner.weights, learner.intercept, stats(learner)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            learner.learn([x], [y], [weight])
        after = stats(learner)
        eta = update.step_size.eta(t)
        steps, lift = (step_of(update.step_size, eta, after[part]) for part in ("state", "intercept"))
        for name, now in after["state"].items():
            if name == "peak":
                was = before["state"][name]
                x = outliers.learned(x, was)
                w = w * np.where((now > was) & (was > 0.0), was / np.where(now > 0.0, now, 1.0), 1.0)
        lo, hi = update.regularizer.bounds()
        w = np.clip(w, lo, hi)  # where a round starts
        case = Case(x, y, w, update.loss, seen_by(update, after["state"]), update.geometry, eta, weight)
        own = (shift, learner.intercept, float(np.broadcast_to(lift, 1)[0])) if stream.intercept else None
        why = objection(case, learner.weights, own, steps)
        if why and pull_is_lost(case, steps, shift, learner.update.loss):
            return Outcome("lost")
        if why:
            return Outcome("wrong", f"round {t}: {why}")
    return Outcome("exact")


def seen_by(update: fiol.Update, known: dict[str, Any]) -> fiol.Regularizer:
    """The regularizer with the strengths of a round: in units of features, times their largest values so far."""
    penalty, step_size = update.regularizer, update.step_size
    scaled = isinstance(step_size, fiol.ScaleFree) and not step_size.raw_penalty
    if not scaled or isinstance(update.geometry, fiol.Entropy):
        return penalty
    inner = getattr(penalty, "regularizer", penalty)
    powers = {fiol.L1: (1,), fiol.Ridge: (2,), fiol.ElasticNet: (1, 2)}.get(type(inner), ())
    strengths = (getattr(inner, field.name) for field in dataclasses.fields(inner))
    found = type(inner)(*(lam * known["peak"] ** power for lam, power in zip(strengths, powers, strict=True)))
    return penalty.replace(regularizer=found) if inner is not penalty else found


def pull_is_lost(case: Case, steps: Any, shift: float, loss: fiol.Loss) -> bool:
    """Whether the pull that ends the error of a row is no double: what `Learner` says about rounds that miss."""
    if isinstance(loss, (fiol.Binary, fiol.Poisson)):
        return False
    error = abs(sum(Fraction(x) * Fraction(w) for x, w in zip(case.x, case.w, strict=True)) + Fraction(shift - case.y))
    reach = sum(
        Fraction(s) * Fraction(x) ** 2 for s, x in zip(np.broadcast_to(steps, len(case.x)), case.x, strict=True)
    )
    return reach > 0 and error < reach * Fraction(float(np.finfo(float).tiny))


def stats(learner: fiol.Learner) -> dict[str, dict[str, Any]]:
    """The records of a step size: of the features, and of the intercept."""
    found: dict[str, dict[str, Any]] = {"state": {}, "intercept": {}}
    for name, array in learner.core.arrays().items():
        part, _, own = name.partition(".")
        if own in ("square", "peak", "stride") and part in found:
            found[part][own] = array.copy()
    return found


def step_of(step_size: fiol.StepSize, eta: float, known: dict[str, Any]) -> Any:
    """eta / h for all features, by the definitions of AdaGrad and ScaleFree; 0 where nothing is known."""
    scaled = isinstance(step_size, fiol.ScaleFree)
    inner = step_size.step_size if isinstance(step_size, fiol.ScaleFree) else step_size
    unit = known["peak"] ** 2 if scaled else np.ones(1)
    with np.errstate(all="ignore"):
        h = unit * (inner.kappa + np.sqrt(known["square"] / unit)) if isinstance(inner, fiol.AdaGrad) else unit
        return np.where(h > 0.0, np.minimum(eta * known.get("stride", 1.0) / h, LONGEST), 0.0)


def campaign(cases: int, seed: int, first: int = 0) -> Iterator[tuple[int, Case | Stream | Line, Outcome]]:
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
    parser.add_argument("--show", type=int, default=10, help="how many wrong cases are printed (10)")
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
        if (number + 1) % PROGRESS == 0:
            print(f"{number + 1} cases, {time.perf_counter() - start:.0f} s: {dict(counts)}", flush=True)
    seconds = time.perf_counter() - start
    print(f"{cases} cases of seed {options.seed} in {seconds:.0f} s: {dict(counts)}")
    if options.json:
        found = {"cases": cases, "seed": options.seed, "seconds": round(seconds), "counts": counts, "wrong": wrong}
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
