"""Solvers of the scalar equation beta = -phi'(g(beta)), where g never decreases.

`solve(problem, row, out)` finds beta, writes the new weights w(beta) into `out`, and returns
(beta, new score, passes over the row). All solvers find the same number:

| solver | how | passes | goes with |
|---|---|---|---|
| `Newton` | solve the loss's prox on the line of g at beta, repeat | 3 to 5 | all penalties with `piece` |
| `ClosedForm` | the same, once: g is one line | 2 | quadratic geometries, no penalty or ridge |
| `Partition` | Alg. 3: narrow down the breakpoints around a pivot | O(1) expected | those, penalties with `kink` |
| `Sorting` | Alg. 2: sort the breakpoints, search for the piece | log n | as `Partition` |
| `Bisection` | Alg. 1: halve a bracket | about 70 | everything |
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fiol.components.component import Component, require, value_at
from fiol.components.geometries import Geometry
from fiol.components.regularizers import Regularizer
from fiol.components.row import Floats, Row, nth
from fiol.components.scalars import EPS, between, clamp

if TYPE_CHECKING:
    from fiol.components.subproblem import Problem

Solution = tuple[float, float, int]


class Solver(Component):
    """A method to find beta. A user's own defines `solve`, and `objection` if it cannot solve every subproblem."""

    protocol: ClassVar[dict[str, tuple[str, ...]]] = {"solve": ("problem", "row", "out")}
    required: ClassVar[tuple[str, ...]] = ("solve",)

    if TYPE_CHECKING:

        def solve(self, problem: Problem, row: Row, out: Floats) -> Solution: ...

    def objection(self, regularizer: Regularizer, geometry: Geometry) -> str:
        """Return why this solver cannot be used for these two, or ''."""
        return ""


class Newton(Solver):
    """Solve the loss exactly on the line of g at beta, move there, repeat until nothing changes.

    g is monotone, so every solve also shows on which side the root lies. A step that leaves this bracket, or that
    does not shrink in the long run, is replaced by halving the bracket.

    Parameters
    ----------
    passes : int
        The largest number of passes over the row.

    Examples
    --------
    >>> Newton()
    Newton(passes=200)
    """

    passes: int = 200

    def validate(self) -> None:
        require("Newton.passes", self.passes, 1)

    def objection(self, regularizer: Regularizer, geometry: Geometry) -> str:
        if geometry.quadratic and not regularizer.has("piece"):
            return f"Newton needs `piece`; {type(regularizer).__name__} has none: use Bisection()"
        return ""

    def solve(self, problem: Problem, row: Row, out: Floats) -> Solution:
        p, q = problem.start(row)
        beta, steep, z = problem.guess(row, p, q), p, q
        low, high, last = -inf, inf, inf
        solved = found = False  # whether beta is the root on the line (p, q), and whether it is that on the path
        n = 1
        while n < self.passes:
            z, slope = problem.point(row, beta, out)
            n += 1
            if solved and follows(p, q, beta, z):
                found = True
                break
            p, q = slope, z - slope * beta
            new = problem.dual(row, p, q)
            if abs(new - beta) <= 4.0 * EPS * abs(beta):
                found = True
                break
            ahead = new > beta if abs(p) + abs(q) + abs(new) < inf else problem.gap(row, beta) < 0.0
            low, high = (beta, high) if ahead else (low, beta)
            solved = low < new < high and (n <= PATIENCE or abs(new - beta) <= 0.5 * last)
            if solved:
                last = abs(new - beta)
                beta = new
            else:
                if high - low == inf:
                    low, high = problem.bracket(row, low, high)
                    n += 1
                beta = between(low, high)
                last = high - low
                if beta <= low or beta >= high:
                    break
        if not found:
            z = problem.fill(row, beta, out)
            n += 1
        return problem.landed(row, steep, beta, z, n, out)


class ClosedForm(Solver):
    """g is one line for all beta, so one solve of the loss on it is the answer.

    >>> ClosedForm()
    ClosedForm()
    """

    in_lanes: ClassVar[bool] = True  #: see `fiol.engine.ensemble.lane_group.declares_lanes`

    def objection(self, regularizer: Regularizer, geometry: Geometry) -> str:
        if not geometry.quadratic:
            return f"ClosedForm needs a linear path; {type(geometry).__name__} bends it: use Newton()"
        if not regularizer.has("kinks") or not regularizer.has("piece"):
            return f"ClosedForm needs `kinks` and `piece`; {type(regularizer).__name__} has not both: use Bisection()"
        if regularizer.kinks() > 0:
            return (
                f"ClosedForm needs a path without breakpoints; {type(regularizer).__name__} makes "
                f"{regularizer.kinks()} per weight: use Newton()"
            )
        return ""

    def solve(self, problem: Problem, row: Row, out: Floats) -> Solution:
        p, q = problem.line(row, 0.0)
        beta = problem.dual(row, p, q)
        return beta, problem.fill(row, beta, out), 2


class Bisection(Solver):
    """Alg. 1: halve a bracket until its ends agree to `tol`, relative to beta.

    Parameters
    ----------
    tol : float
        The relative tolerance of beta; 0 goes on to neighboring doubles.

    Examples
    --------
    >>> Bisection(1e-6)
    Bisection(tol=1e-06)
    """

    tol: float = 0.0

    def validate(self) -> None:
        require("Bisection.tol", self.tol, 0.0, 1.0)

    def solve(self, problem: Problem, row: Row, out: Floats) -> Solution:
        low, high = problem.bracket(row, -inf, inf)
        beta = between(low, high)
        n = 1
        while low < beta < high and high - low > self.tol * abs(beta):
            gap = problem.gap(row, beta)
            low, high = (low, beta) if gap > 0.0 else (beta, high)
            beta = between(low, high)
            n += 1
        steep, _ = problem.start(row)
        return problem.landed(row, steep, beta, problem.fill(row, beta, out), n + 1, out)


class Breakpoints(Solver):
    """The base class of `Sorting` and `Partition`, which search for the linear piece of g that holds the root."""

    def objection(self, regularizer: Regularizer, geometry: Geometry) -> str:
        name = type(self).__name__
        if not geometry.quadratic:
            return f"{name} needs a piecewise linear path; {type(geometry).__name__} bends it: use Newton()"
        for verb in ("kinks", "kink", "piece"):
            if not regularizer.has(verb):
                return f"{name} needs `{verb}`; {type(regularizer).__name__} has none: use Bisection()"
        return ""


class Sorting(Breakpoints):
    """Alg. 2: sort the breakpoints, then search them for the first where the equation's gap is >= 0.

    The paper scans them with running sums. A binary search that computes g anew costs no more than the sort, and
    accumulates no rounding error, however unequal the features.

    >>> Sorting()
    Sorting()
    """

    def solve(self, problem: Problem, row: Row, out: Floats) -> Solution:
        mu = np.sort(breakpoints(problem, row))
        first, end, n = 0, mu.shape[0], 0
        while first < end:
            middle = (first + end) // 2
            if problem.gap(row, mu[middle]) >= 0.0:
                end = middle
            else:
                first = middle + 1
            n += 1
        left = mu[first - 1] if first > 0 else -inf
        right = mu[first] if first < mu.shape[0] else inf
        return land(problem, row, left, right, n, out)


class Pivot(Component):
    """The rule by which `Partition` chooses a breakpoint: `pick(values, draw)`."""

    protocol: ClassVar[dict[str, tuple[str, ...]]] = {"pick": ("values", "draw")}
    required: ClassVar[tuple[str, ...]] = ("pick",)

    if TYPE_CHECKING:

        def pick(self, values: Floats, draw: int) -> float: ...


class RandomPivot(Pivot):
    """A random pivot: fewest operations on average.

    >>> float(RandomPivot(seed=7).pick(np.array([3.0, 1.0, 2.0]), 0))
    3.0
    """

    seed: int = 1

    def pick(self, values: Floats, draw: int) -> float:
        state = (abs(self.seed) % 65536 * 48271 + draw % 65536 * 69621 + 1) * 16807 % 2147483647
        return values[state % values.shape[0]]


class MedianOfMedians(Pivot):
    """The median of the medians of five: linear time in the worst case (the paper's remark).

    >>> float(MedianOfMedians().pick(np.array([3.0, 1.0, 2.0]), 0))
    2.0
    """

    def pick(self, values: Floats, draw: int) -> float:
        groups = values.shape[0] // 5
        if groups == 0:
            return select(values, values.shape[0] // 2)
        medians = np.empty(groups)
        for g in range(groups):
            a, b, c, d, e = (
                values[g],
                values[g + groups],
                values[g + 2 * groups],
                values[g + 3 * groups],
                values[g + 4 * groups],
            )
            # The median of five is that of e and the two middle ones once a < b and c < d are known.
            low, high = max(min(a, b), min(c, d)), min(max(a, b), max(c, d))
            medians[g] = max(min(low, high), min(max(low, high), e))
        return select(medians, groups // 2)


class Partition(Breakpoints):
    """Alg. 3: split the breakpoints at a pivot, keep the side of the root, repeat.

    A weight whose breakpoints are all outside the kept side moves on a line from then on, and is added to (p, q).
    Nothing is ever subtracted, so the sums stay exact, however unequal the features.

    >>> Partition(MedianOfMedians())
    Partition(pivot=MedianOfMedians())
    """

    pivot: Pivot = RandomPivot()

    def validate(self) -> None:
        if not isinstance(self.pivot, Pivot):
            raise TypeError(f"Partition.pivot must be RandomPivot() or MedianOfMedians(), got {self.pivot!r}")

    def solve(self, problem: Problem, row: Row, out: Floats) -> Solution:
        mu = breakpoints(problem, row)
        undecided = np.arange(row.x.shape[0])
        left, right, p, q, n = -inf, inf, row.lift, row.shift, 0
        while mu.shape[0] > 0:
            pivot = self.pivot.pick(mu, n)
            n += 1
            g = p * pivot + q
            for k in undecided:
                g += row.x[k] * problem.weight_of(row, k, pivot)
            if pivot + row.weight * problem.loss.grad(g, row.y) < 0.0:
                left = pivot
            else:
                right = pivot
            mu = keep_inside(mu, left, right)
            middle, count = inside(left, right), 0
            for k in undecided:
                if turns_inside(problem, row, k, left, right):
                    undecided[count] = k
                    count += 1
                else:
                    a, b = problem.share_at(row, k, middle)
                    p += value_at(row.steps, k) * a
                    q += b
            undecided = undecided[:count]
        return land(problem, row, left, right, n, out)


# --- helpers ----------------------------------------------------------------------------------

#: The number of passes of `Newton` after which every step must be at most half the step before.
PATIENCE = 12
#: The relative change of beta below which it is a root.
CLOSE = 1e-13


def follows(p: float, q: float, beta: float, z: float) -> bool:
    """Return whether the score z at beta is the p beta + q that was solved for, up to rounding."""
    miss = abs(z - (p * beta + q))
    return miss <= CLOSE * p * abs(beta) + 4.0 * EPS * abs(z) and miss <= 100.0 * CLOSE * abs(z)


def inside(left: float, right: float) -> float:
    """Return a number between left and right, either of which may be infinite."""
    if left == -inf:
        return 0.0 if right == inf else right - max(1.0, abs(right))
    return left + max(1.0, abs(left)) if right == inf else 0.5 * left + 0.5 * right


def land(problem: Problem, row: Row, left: float, right: float, n: int, out: Floats) -> Solution:
    """Return the solution on the piece of g between two neighboring breakpoints, which were found in n passes."""
    p, q = problem.line(row, inside(left, right))
    beta = clamp(problem.dual(row, p, q), left, right)
    steep, _ = problem.start(row)
    return problem.landed(row, steep, beta, problem.fill(row, beta, out), n + 2, out)


def breakpoints(problem: Problem, row: Row) -> Floats:
    """Return all beta at which a weight of the row changes its piece (Lemma 2, without those of x_i = 0)."""
    kinks = problem.regularizer.kinks()
    mu = np.empty(row.x.shape[0] * kinks)
    count = 0
    for k in range(row.x.shape[0]):
        for j in range(kinks):
            beta = breakpoint(problem, row, k, j)
            if abs(beta) < inf:
                mu[count] = beta
                count += 1
    return mu[:count]


def breakpoint(problem: Problem, row: Row, k: int, j: int) -> float:
    """Return the beta at which weight k is at its j-th kink; infinite if it never is."""
    step = problem.scaled_step(row, k)
    reach = step * row.x[k]
    return (
        (problem.regularizer.kink(j, row.rounds * step, nth(row.feature, k)) - row.center[k]) / reach
        if reach != 0.0
        else inf
    )


def turns_inside(problem: Problem, row: Row, k: int, left: float, right: float) -> bool:
    """Return whether weight k has a breakpoint strictly between left and right."""
    found = False
    for j in range(problem.regularizer.kinks()):
        found |= left < breakpoint(problem, row, k, j) < right
    return found


def keep_inside(values: Floats, left: float, right: float) -> Floats:
    """Return the values strictly between left and right, moved to the front of the same array."""
    count = 0
    for k in range(values.shape[0]):
        value = values[k]
        if left < value < right:
            values[count] = value
            count += 1
    return values[:count]


def select(values: Floats, k: int) -> float:
    """Return the k-th smallest value in worst-case linear time (Blum, Floyd, Pratt, Rivest, Tarjan 1973).

    The recursion is an explicit stack: the frame above selects the pivot of a frame, its median of medians of five.

    >>> float(select(np.array([5.0, 1.0, 4.0, 2.0, 3.0, 9.0, 7.0]), 3))
    4.0
    """
    buffer = np.empty(2 * values.shape[0] + 64)
    for j in range(values.shape[0]):
        buffer[j] = values[j]
    start, length, rank = np.zeros(64, np.int64), np.zeros(64, np.int64), np.zeros(64, np.int64)
    length[0], rank[0], depth = values.shape[0], k, 0
    while True:
        s, n = start[depth], length[depth]
        if n > 5:
            groups = (n + 4) // 5
            for g in range(groups):
                first, size = s + 5 * g, min(5, n - 5 * g)
                insertion_sort(buffer, first, size)
                buffer[s + n + g] = buffer[first + size // 2]
            depth += 1
            start[depth], length[depth], rank[depth] = s + n, groups, groups // 2
            continue
        insertion_sort(buffer, s, n)
        found = buffer[s + rank[depth]]
        while True:  # return the value to the frames below
            if depth == 0:
                return found
            depth -= 1
            s, n = start[depth], length[depth]
            less = equal = 0
            for j in range(s, s + n):
                less += buffer[j] < found
                equal += buffer[j] == found
            if less <= rank[depth] < less + equal:
                continue
            below = rank[depth] < less
            rank[depth] -= 0 if below else less + equal
            length[depth] = 0
            for j in range(s, s + n):
                if (buffer[j] < found) if below else (buffer[j] > found):
                    buffer[s + length[depth]] = buffer[j]
                    length[depth] += 1
            break


def insertion_sort(values: Floats, start: int, size: int) -> None:
    """Sort values[start : start + size] in place."""
    for i in range(start + 1, start + size):
        value, j = values[i], i
        while j > start and values[j - 1] > value:
            values[j] = values[j - 1]
            j -= 1
        values[j] = value
