"""Whether weights are those of an exact step, in 60-digit decimals and from the definitions alone.

New weights v are optimal if one number beta satisfies all of

    beta x_k  in  r'(v_k) + (psi'(v_k) - psi'(w_k)) / eta    for every k,        beta  in  -weight phi'(<x, v>),

where derivatives at kinks are intervals. Weights are doubles, so each condition holds for an interval of beta: v is
known up to `TAU` of every term of its own condition, and the score up to `ULPS` roundings of the terms of its sum,
absolute ones where a term has lost digits to underflow. The weights pass if the intervals of all conditions have a
point in common. No code is shared with the library.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from typing import Any, NamedTuple

import numpy as np

import fiol

TAU = Decimal("1e-9")
ULPS = 2**17
EPS = Decimal(2) ** -53
ZERO, ONE, INF = Decimal(0), Decimal(1), Decimal("Infinity")
#: What the last digits of a weight are for its logarithm, as a part of `TAU`.
NEAR_ONE = 64 * EPS / TAU
#: Exponentials are distinguished up to here, far beyond what a double holds.
FAR = Decimal(10) ** 5
#: What stands for an exponential that is no double any more, and the smallest number with all its digits.
HUGE, TINY = Decimal(float(np.finfo(float).max)), Decimal(float(np.finfo(float).tiny))
#: A share of a class so small changes no weight.
LEAST_SHARE = Decimal("1e-280")
EXACT = Context(prec=60, Emax=10**9, Emin=-(10**9))


class Interval(NamedTuple):
    """Numbers between two ends, either of which may be infinite."""

    low: Decimal
    high: Decimal
    name: str = ""


class Coordinate(NamedTuple):
    """One weight of a step: all that its condition takes."""

    x: Decimal
    old: Decimal
    new: Decimal
    step: Decimal  #: eta / h
    l1: Decimal
    l2: Decimal
    lo: Decimal
    hi: Decimal


def exp(v: Decimal) -> Decimal:
    return max(min(v, FAR), -FAR).exp()


def derivatives(loss: Any, z: Decimal, y: Decimal) -> tuple[Decimal, Decimal]:
    """Left and right derivative of the loss at score z."""
    kind, e, m = type(loss).__name__, z - y, y * z
    number = {name: Decimal(getattr(loss, name)) for name in ("tau", "epsilon", "delta") if hasattr(loss, name)}
    if kind in ("Absolute", "Quantile"):
        down, up = (-ONE, ONE) if kind == "Absolute" else (-number["tau"], ONE - number["tau"])
        return (up if e > 0 else down), (up if e >= 0 else down)
    if kind == "EpsilonInsensitive":
        edge = number["epsilon"]
        return Decimal((e > edge) - (e <= -edge)), Decimal((e >= edge) - (e < -edge))
    if kind == "Hinge":
        slopes = (-y if m <= 1 else ZERO), (-y if m < 1 else ZERO)
        return min(slopes), max(slopes)
    smooth: dict[str, Callable[[], Decimal]] = {
        "Squared": lambda: e,
        "SquaredEpsilonInsensitive": lambda: max(e - number["epsilon"], ZERO) + min(e + number["epsilon"], ZERO),
        "Huber": lambda: max(-number["delta"], min(number["delta"], e)),
        "SquaredHinge": lambda: -y * max(ONE - m, ZERO),
        "Logistic": lambda: -y / (ONE + exp(m)),
        "Exponential": lambda: -y * min(exp(-m), HUGE),
        "Poisson": lambda: min(exp(z), HUGE) - y,
    }
    slope = smooth[kind]()
    return slope, slope


def of_loss(loss: Any, weight: Decimal, y: Decimal, z: Decimal, miss: Decimal) -> Interval:
    """The beta that the loss allows where the score is z, give or take a miss.

    The largest double stands for a pull that is none, of the loss or times its weight: beta is a double, and exp(1e104)
    times 6e9 asks for 1e318 where that of the loss alone, already no double, counts as 1.8e308. So capped, derivatives
    still rise with z, and the step is that of a convex loss.
    """
    low, high = derivatives(loss, z - miss, y)[0], derivatives(loss, z + miss, y)[1]
    room = TAU * max(abs(low), abs(high))
    if type(loss).__name__ == "Poisson":  # exp(z) is rounded before y is taken from it
        room = min(room, TAU * abs(low), TAU * abs(high)) + 4 * EPS * (abs(y) + min(exp(z), HUGE))
    ends = (max(-HUGE, min(-weight * end, HUGE)) for end in (high + room, low - room))
    return Interval(*ends, "loss")


def of_quadratic(c: Coordinate) -> tuple[Decimal, Decimal, Decimal]:
    """Ends of r' + (v - w) / step, and the size of its terms."""
    low = high = (c.new - c.old) / c.step + c.l2 * c.new
    size = (abs(c.new) + abs(c.old)) / c.step + c.l2 * abs(c.new) + c.l1
    low += c.l1 if c.new > 0 else -c.l1
    high += -c.l1 if c.new < 0 else c.l1
    return low, high, size


def of_entropy(c: Coordinate) -> tuple[Decimal, Decimal, Decimal]:
    """Ends of r' + log(v / w) / step, and the size of its terms; a weight at 0 stays there."""
    if c.old == 0:
        return -INF, INF, ZERO
    logs = max(c.new, TINY).ln(), c.old.ln()
    value = (logs[0] - logs[1]) / c.step + c.l2 * c.new + c.l1
    size = (abs(logs[0]) + abs(logs[1]) + NEAR_ONE) / c.step + c.l2 * c.new + c.l1
    return (-INF if c.new <= TINY else value), value, size


def of_coordinate(kind: str, c: Coordinate, name: str) -> Interval:
    """The beta that one weight allows; all if it has no step and stays where it is."""
    if c.step == 0:
        stays = abs(c.new - c.old) <= TAU / 1000 * abs(c.old)  # by a logarithm and back
        return Interval(-INF, INF, name) if stays else Interval(INF, -INF, name)
    low, high, size = of_quadratic(c) if kind == "quadratic" else of_entropy(c)
    if c.lo > -INF and c.new - c.lo <= 256 * EPS * abs(c.lo):
        low = -INF
    if c.hi < INF and c.hi - c.new <= 256 * EPS * abs(c.hi):
        high = INF
    room = TAU * size + TINY * (1 / c.step + c.l2)  # smaller weights have few digits
    low, high = low - room, high + room
    if c.x == 0:
        return Interval(-INF, INF, name) if low <= 0 <= high else Interval(INF, -INF, name)
    ends = low / c.x, high / c.x
    return Interval(min(ends), max(ends), name)


def of_simplex(coordinates: list[Coordinate], guess: Interval) -> list[Interval]:
    """The beta that the weights of the simplex allow: beta (x_k - x_j) = s_k - s_j, s = log(v / w) / eta + l1."""
    live = [c for c in coordinates if c.old > 0]
    top = max(live, key=lambda c: c.new)
    beta = max(abs(guess.low), abs(guess.high))
    beta = min(abs(guess.low), abs(guess.high)) if beta == INF else beta

    def level(c: Coordinate) -> tuple[Decimal, Decimal]:
        logs = max(c.new, TINY).ln(), c.old.ln()
        return (logs[0] - logs[1]) / c.step + c.l1, (abs(logs[0]) + abs(logs[1]) + NEAR_ONE) / c.step + c.l1

    found, (own, own_size) = [], level(top)
    for k, c in enumerate(live):
        if c is top:
            continue
        value, size = level(c)
        room = TAU * (size + own_size) + 16 * EPS * beta * (abs(c.x) + abs(top.x))
        low, high = (-INF if c.new <= TINY else value - own - room), value - own + room
        if c.x == top.x:
            found.append(Interval(-INF, INF) if low <= 0 <= high else Interval(INF, -INF, f"weight {k}"))
            continue
        ends = low / (c.x - top.x), high / (c.x - top.x)
        found.append(Interval(min(ends), max(ends), f"weight {k}"))
    return found


def of_mahalanobis(case: Any, coordinates: list[Coordinate], guess: Interval) -> list[Interval]:
    """The beta that weights which a matrix couples allow, M (v - w) / eta + l2 v = beta x: in all, to the norm."""
    x, old, new = ([c[k] for c in coordinates] for k in range(3))
    l2 = coordinates[0].l2
    beta = min(abs(guess.low), abs(guess.high))
    matrix = [[Decimal(float(v)) for v in row] for row in np.asarray(case.geometry.matrix)]
    eta, found = Decimal(case.eta), []
    size = max(abs(v) for row in matrix for v in row) * sum(map(abs, old + new), ZERO)
    room = 1000 * TAU * (size / eta + l2 * sum(map(abs, new), ZERO) + beta * max(map(abs, x)))
    for k, row in enumerate(matrix):
        value = sum((m * (v - w) for m, v, w in zip(row, new, old, strict=True)), ZERO) / eta + l2 * new[k]
        if x[k] == 0:
            found.append(Interval(-INF, INF) if abs(value) <= room else Interval(INF, -INF, f"weight {k}"))
            continue
        ends = (value - room) / x[k], (value + room) / x[k]
        found.append(Interval(min(ends), max(ends), f"weight {k}"))
    return found


def objection(case: Any, new: Any, shift: tuple[float, float, float] | None = None, steps: Any = None) -> str:
    """Why `new` are not the weights of the exact step that `case` describes, or ''.

    `case` has x, y, w, loss, regularizer, geometry, eta and weight. `shift` is the intercept before and after, and its
    step; `steps` are the steps of all weights, where they differ.
    """
    with localcontext(EXACT):
        return _objection(case, new, shift, steps)


def _objection(case: Any, new: Any, shift: tuple[float, float, float] | None, steps: Any) -> str:
    geometry, weight, y = case.geometry, Decimal(case.weight), Decimal(case.y)
    penalty = case.regularizer
    lo, hi = -INF, INF
    if isinstance(penalty, fiol.Box):
        lo, hi, penalty = Decimal(penalty.lo), Decimal(penalty.hi), penalty.regularizer
    l1 = getattr(penalty, "lam1", penalty.lam if isinstance(penalty, fiol.L1) else 0.0)
    l2 = getattr(penalty, "lam2", penalty.lam if isinstance(penalty, fiol.Ridge) else 0.0)
    x, old, found = np.ravel(case.x), np.ravel(case.w), np.ravel(new)
    if isinstance(geometry, fiol.SignedEntropy):
        x = np.concatenate([x, -x])
    n = len(x)
    if not np.isfinite(found).all():
        return "not finite"
    h = np.broadcast_to(getattr(geometry, "h", 1.0), len(case.x)) if not isinstance(geometry, fiol.Mahalanobis) else 1.0
    per = [np.resize(np.broadcast_to(v, len(case.x)), n) for v in (l1, l2, h)]
    eta = np.broadcast_to(case.eta if steps is None else steps, n)
    numbers = (map(Decimal, map(float, values)) for values in (x, old, found, eta, *per))
    coordinates = [
        Coordinate(a, b, c, step / metric, p, q, lo, hi) for a, b, c, step, p, q, metric in zip(*numbers, strict=True)
    ]
    terms = [c.x * c.new for c in coordinates]
    sizes = [abs(c.x * c.new) + abs(c.x * c.old) for c in coordinates]
    conditions = []
    if shift is not None:
        before, after, lift = (Decimal(float(v)) for v in shift)
        terms.append(after)
        sizes.append(abs(before) + abs(after))
        own = Coordinate(ONE, before, after, lift, ZERO, ZERO, -INF, INF)
        conditions.append(of_coordinate("quadratic", own, "intercept"))
    z, miss = sum(terms, ZERO), ULPS * EPS * (sum(sizes, ZERO) + len(sizes) * TINY)  # what is smaller may be 0
    if isinstance(geometry, fiol.Mahalanobis):  # rounded in another basis
        miss = ULPS * EPS * sum((abs(c.x) for c in coordinates), ZERO)
        miss *= sum((abs(c.new) + abs(c.old) for c in coordinates), ZERO)
    if abs(z) > HUGE:
        return "the score is no double"
    conditions.append(of_loss(case.loss, weight, y, z, miss))
    if isinstance(geometry, fiol.Simplex):
        if abs(sum((c.new for c in coordinates), ZERO) - 1) > TAU:
            return "weights do not sum to 1"
        conditions += of_simplex(coordinates, conditions[0])
    elif isinstance(geometry, fiol.Mahalanobis):
        conditions += of_mahalanobis(case, coordinates, conditions[0])
    else:
        kind = "entropy" if isinstance(geometry, fiol.Entropy) else "quadratic"
        conditions += [of_coordinate(kind, c, f"weight {k}") for k, c in enumerate(coordinates)]
    low, high = max(conditions, key=lambda c: c.low), min(conditions, key=lambda c: c.high)
    room = TAU * min(abs(low.low), abs(high.high)) if abs(low.low) < INF and abs(high.high) < INF else ZERO
    if low.low <= high.high + room + TINY:  # what is smaller may be 0
        return ""
    return f"{low.name} asks for beta >= {low.low:.12e}, {high.name} for beta <= {high.high:.12e}"


# --- losses of many scores --------------------------------------------------------------------


def joint_objection(loss: Any, q: Any, p: float, y: int, beta: Any) -> str:
    """Why `beta` does not solve beta = -phi'(q + p beta) for a joint loss, or ''."""
    if not np.isfinite(beta).all():
        return "not finite"
    with localcontext(EXACT):
        starts, pulls, slope = [Decimal(float(v)) for v in q], [Decimal(float(v)) for v in beta], Decimal(p)
        scores = [a + slope * b for a, b in zip(starts, pulls, strict=True)]
        size = max(max(map(abs, starts)), max(abs(slope * b) for b in pulls), ONE)
        miss, mass = ULPS * EPS * size, [-b + (k == y) for k, b in enumerate(pulls)]
        if abs(sum(pulls, ZERO)) > TAU * max(map(abs, pulls)) + TINY:
            return f"pulls add up to {sum(pulls, ZERO):.3e}"
        if type(loss).__name__ == "Softmax":
            top = max(scores)
            parts = [exp(z - top) for z in scores]
            total = sum(parts, ZERO)
            for k, (found, part) in enumerate(zip(mass, parts, strict=True)):
                wide = exp(2 * miss) if miss < 1 else INF
                share, slack = part / total, TAU / 1000 if k == y else LEAST_SHARE
                if found > share * wide * (1 + TAU) + slack:
                    return f"class {k} has {found:.12e}, not {share:.12e}"
                if found < share / wide * (1 - TAU) - slack:
                    return f"class {k} has {found:.12e}, not {share:.12e}"
            return ""
        margins = [z + (k != y) for k, z in enumerate(scores)]
        top = max(margins)
        for k, found in enumerate(mass):
            if found < -TAU:
                return f"class {k} is pushed by {found:.3e}"
            if found > 4 * EPS + TINY and margins[k] < top - 4 * miss and found * slope > miss:
                return f"class {k} is pushed, {top - margins[k]:.3e} below the highest"
        return ""
