"""Regularizers: convex penalties of one weight, added once per round, and the set Omega.

In the Euclidean and diagonal geometries a regularizer acts through its prox,

    prox(u, step) = argmin_w  r(w) + (w - u)^2 / (2 step),

which for everything here is piecewise linear in u. `piece` names the linear piece at u, `kink` the
places where pieces meet. Strengths are numbers, or arrays with one number per feature; every
method takes the feature's index `i` for that reason.
"""

from __future__ import annotations

from math import copysign, floor, inf, log1p
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fiol.components.component import Component, PerFeature, check_complete, require, value_at
from fiol.components.row import Floats, Indices, nth
from fiol.components.scalars import HUGE, clamp, power_sums, sign, soft_threshold
from fiol.components.simd import decay, is_mild, larger, mild_decay, ridge_factor, smaller


class Regularizer(Component):
    """A convex penalty. A user's own needs `value`, and `prox` or `piece`.

    | method | meaning | needed by |
    |---|---|---|
    | `value(w, i)` | r(w) | accounting, checks |
    | `prox(u, step, i)` | see the module; follows from `piece` if that is given | Bisection |
    | `piece(u, step, i)` | (m, b) with prox = m u + b around u | Newton |
    | `kinks()`, `kink(j, step, i)` | how many kinks the prox has, and where in u the j-th is | Sorting, Partition |
    | `slope(w, side, i)` | r'(w); at a kink the left, middle or right one for side -1, 0, 1 | linearized updates, Box |
    | `catch_up(w, step, n, i)` | prox applied n times: the rounds an absent feature missed | lazy updates |
    | `catch_up_sum(w, step, n, i)` | the sum of the weights in those rounds | lazy averages |
    | `l1(i)`, `l2(i)`, `clip(w)` | strengths of the l1 and ridge parts, projection on Omega | entropic geometries |
    | `strengths()` | (l1, l2) if r(w) is l1 abs(w) + l2 w^2 / 2 on Omega, each one for all or per feature | speed |

    The default of `strengths` is None, a penalty of unknown form. Results are the same, but these are only for
    penalties with strengths:

    | what | where it is decided |
    |---|---|
    | lazy updates where eta(t) changes (else: a loop over all features in every round) | `algorithms/lazy_updates.py` |
    | rows padded to whole SIMD blocks | `algorithms/layout.py` |
    | members of an ensemble in SIMD lanes | `engine/ensemble/lane_group.py` |
    | the gate of `Stacked` | `presets.py` |
    | ensembles as the default of estimators | `integrations/parameters.py` |
    | regret measured from sums over all weights | `regret/measuring.py` |
    """

    protocol: ClassVar[dict[str, tuple[str, ...]]] = {
        "value": ("w", "i"),
        "prox": ("u", "step", "i"),
        "piece": ("u", "step", "i"),
        "share": ("x", "w", "beta", "step", "i"),
        "value_and_slope": ("x", "w", "beta", "step", "i"),
        "excess": ("w", "push", "step", "i"),
        "prox_of_excess": ("excess", "u", "step", "i"),
        "kinks": (),
        "kink": ("j", "step", "i"),
        "slope": ("w", "side", "i"),
        "catch_up": ("w", "step", "n", "i"),
        "catch_up_sum": ("w", "step", "n", "i"),
        "l1": ("i",),
        "l2": ("i",),
        "clip": ("w",),
    }
    required: ClassVar[tuple[str, ...]] = ("value", "prox")
    #: Whether the prox multiplies a weight by a number that does not depend on it.
    linear: ClassVar[bool] = False

    if TYPE_CHECKING:

        def value(self, w: float, i: int) -> float: ...
        def piece(self, u: float, step: float, i: int) -> tuple[float, float]: ...
        def kinks(self) -> int: ...
        def kink(self, j: int, step: float, i: int) -> float: ...
        def slope(self, w: float, side: int, i: int) -> float: ...
        def l1(self, i: int) -> float: ...
        def l2(self, i: int) -> float: ...

    def missing(self) -> str:
        if type(self).prox is Regularizer.prox and not self.has("piece"):
            return "prox"
        return super().missing()

    def prox(self, u: float, step: float, i: int) -> float:
        m, b = self.piece(u, step, i)
        return m * u + b

    def share(self, x: float, w: float, beta: float, step: float, i: int) -> tuple[float, float]:
        """Return (a, b) with x prox(w + step beta x) = step a beta + b around beta: what Newton sums over a row."""
        m, b = self.piece(w + step * beta * x, step, i)
        return m * x * x, x * (m * w + b)

    def value_and_slope(self, x: float, w: float, beta: float, step: float, i: int) -> tuple[float, float]:
        """Return (v, a): v = prox(w + step beta x), and x v moves by step a per unit of beta there."""
        m, b = self.piece(w + step * beta * x, step, i)
        return m * (w + step * beta * x) + b, m * x * x

    def slope_for(self, w: float, step: float, i: int) -> float:
        """Return the slope at w for a linearized step: a ridge takes at most all of w, however long the step."""
        return self.slope(w, 0, i)

    def excess(self, w: float, push: float, step: float, i: int) -> float:
        """Return how far w + step push lies beyond what the penalty takes from it, where both may be large.

        All of it by default: the form of the penalty is unknown.
        """
        return w + step * push

    def prox_of_excess(self, excess: float, u: float, step: float, i: int) -> float:
        """Return the prox of a number not far from u, given by its excess."""
        return self.prox(excess, step, i)

    def catch_up(self, w: float, step: float, n: float, i: int) -> float:
        for _ in range(int(n)):
            w = self.prox(w, step, i)
        return w

    def catch_up_row(self, feature: Indices, steps: Floats, n: Floats, w: Floats) -> None:
        """Apply `catch_up` to the weights of a row in place; `steps` and `n` are overwritten."""
        for k in range(feature.shape[0]):
            w[k] = self.catch_up(w[k], steps[k], n[k], nth(feature, k))

    def catch_up_sum(self, w: float, step: float, n: float, i: int) -> float:
        return prox_sum(self, w, step, n, i)

    def clip(self, w: float) -> float:
        return w

    # Properties that decide, before the first round, how an update is made.

    def strengths(self) -> tuple[PerFeature, PerFeature] | None:
        """Return the strengths of the l1 and ridge parts, if the penalty has no other; None if its form is unknown."""
        return None

    def has_l1(self) -> bool:
        """Return whether there may be an l1 part: a penalty of unknown form may have one."""
        parts = self.strengths()
        return parts is None or bool(np.any(parts[0]))

    def has_ridge(self) -> bool:
        """Return whether there may be a ridge part: a penalty of unknown form may have one."""
        parts = self.strengths()
        return parts is None or bool(np.any(parts[1]))

    def ridge_is_common(self) -> bool:
        """Return whether the ridge, 0 included, has one strength for all features."""
        parts = self.strengths()
        return parts is not None and isinstance(parts[1], float)

    def bounds(self) -> tuple[float, float]:
        """Return the set Omega = [lo, hi] that every weight is kept in; all numbers by default."""
        return -inf, inf

    def is_bounded(self) -> bool:
        """Return whether Omega leaves any number out."""
        return self.bounds() != (-inf, inf)

    def omega(self) -> Regularizer:
        """Return the set Omega alone: this regularizer without its penalty.

        >>> Box(L1(0.1), 0.0, 1.0).omega(), L1(0.1).omega()
        (Box(regularizer=Unregularized(), lo=0.0, hi=1.0), Unregularized())
        """
        return Unregularized()


class Elastic(Regularizer):
    """Penalties l1 |w| + l2 w^2 / 2: every formula once, for all strengths.

    prox(u, step) = soft(u, step l1) / (1 + step l2), where soft is `soft_threshold`.
    """

    def l1(self, i: int) -> float:
        return 0.0

    def l2(self, i: int) -> float:
        return 0.0

    def value(self, w: float, i: int) -> float:
        return self.l1(i) * abs(w) + 0.5 * self.l2(i) * w * w

    def slope(self, w: float, side: int, i: int) -> float:
        return self.l1(i) * (sign(w) if w != 0.0 else 1.0 * side) + self.l2(i) * w

    def slope_for(self, w: float, step: float, i: int) -> float:
        l2 = self.l2(i)  # as in `shrink`
        if l2 == 0.0 or step * l2 <= 1.0:
            return self.slope(w, 0, i)
        return self.l1(i) * sign(w) + w / step

    def shrink(self, step: float, i: int) -> float:
        l2 = self.l2(i)  # a literal 0 here vanishes from the compiled loops
        return ridge_factor(step * l2) if l2 != 0.0 else 1.0  # type: ignore[no-any-return]

    def prox(self, u: float, step: float, i: int) -> float:
        return soft_threshold(u, step * self.l1(i)) * self.shrink(step, i)

    def piece(self, u: float, step: float, i: int) -> tuple[float, float]:
        tau = step * self.l1(i)
        c = clamp(u, -tau, tau)
        m = self.shrink(step, i)
        return (m, -m * c) if u != c else (0.0, 0.0)

    def share(self, x: float, w: float, beta: float, step: float, i: int) -> tuple[float, float]:
        # Selecting x or 0, rather than branching or multiplying by a mask, halves the time of the loop.
        tau = step * self.l1(i)
        u = w + step * beta * x
        on = x if abs(u) > tau else 0.0
        m = self.shrink(step, i)
        return m * (on * x), m * (on * (w - copysign(tau, u)))

    def value_and_slope(self, x: float, w: float, beta: float, step: float, i: int) -> tuple[float, float]:
        tau = step * self.l1(i)
        u = w + step * beta * x
        on = x if abs(u) > tau else 0.0
        m = self.shrink(step, i)
        return m * soft_threshold(u, tau), m * (on * x)

    def excess(self, w: float, push: float, step: float, i: int) -> float:
        side = 1.0 if w + step * push > 0.0 else -1.0
        return w + step * (push - side * self.l1(i))

    def prox_of_excess(self, excess: float, u: float, step: float, i: int) -> float:
        side, tau = 1.0 if u > 0.0 else -1.0, step * self.l1(i)
        beyond = larger(side * excess, 0.0) + smaller(
            side * excess + 2.0 * tau, 0.0
        )  # on the side of u, or on the other
        return self.shrink(step, i) * side * beyond

    def kinks(self) -> int:
        return 2

    def kink(self, j: int, step: float, i: int) -> float:
        return (2 * j - 1) * step * self.l1(i)

    def catch_up(self, w: float, step: float, n: float, i: int) -> float:
        l2 = self.l2(i)  # as in `shrink`
        # `float`: numpy's numbers, which the interpreter sees, may have the digits of a float32.
        kept, lost = decay(min(float(step * l2), HUGE), 1.0, float(n)) if l2 != 0.0 else (1.0, 0.0)
        return self.decayed(w, step, n, kept, lost, i)

    def decayed(self, w: float, step: float, n: float, kept: float, lost: float, i: int) -> float:
        """Return the weight after n rounds: soft(s w, l1 (1 - s) / l2) with s = kept = 1 - lost = (1 + step l2)^-n."""
        l1, l2 = self.l1(i), self.l2(i)
        if l1 == 0.0:
            return kept * w
        return soft_threshold(kept * w, l1 * (lost / l2 if lost > 0.0 else n * step))

    def catch_up_row(self, feature: Indices, steps: Floats, n: Floats, w: Floats) -> None:
        for k in range(feature.shape[0]):
            i = nth(feature, k)
            if not is_mild(steps[k] * self.l2(i), 1.0, n[k]):
                w[k], steps[k], n[k] = self.catch_up(w[k], steps[k], n[k], i), 0.0, 0.0
        for k in range(feature.shape[0]):  # without calls, this loop vectorizes
            i = nth(feature, k)
            kept, lost = mild_decay(steps[k] * self.l2(i), 1.0, n[k])
            w[k] = self.decayed(w[k], steps[k], n[k], kept, lost, i)

    def catch_up_sum(self, w: float, step: float, n: float, i: int) -> float:
        """Return the sum over j of |w| s_j - l1 (1 - s_j) / l2, s_j = (1 + step l2)^-j, until w is 0."""
        tau, rate, last = step * self.l1(i), step * self.l2(i), n
        if tau > 0.0:
            last = min(n, floor(log1p(abs(w) * rate / tau) / log1p(rate) if rate > 0.0 else abs(w) / tau))
        kept, lost = power_sums(rate, last)
        return copysign(abs(w) * kept - tau * lost, w)

    def strengths(self) -> tuple[PerFeature, PerFeature] | None:
        return 0.0, 0.0


class Unregularized(Elastic):
    """No penalty: r(w) = 0.

    >>> Unregularized().prox(0.3, 1.0, 0)
    0.3
    """

    def slope_for(self, w: float, step: float, i: int) -> float:
        return 0.0

    def piece(self, u: float, step: float, i: int) -> tuple[float, float]:
        return 1.0, 0.0

    def share(self, x: float, w: float, beta: float, step: float, i: int) -> tuple[float, float]:
        return x * x, x * w

    def value_and_slope(self, x: float, w: float, beta: float, step: float, i: int) -> tuple[float, float]:
        return w + step * beta * x, x * x

    def kinks(self) -> int:
        return 0


class L1(Elastic):
    """The lasso penalty: r(w) = lam |w|. Its prox sets small weights to exactly 0.

    Parameters
    ----------
    lam : float or array
        The strength, one for all features or one per feature.

    Examples
    --------
    >>> L1(0.1).prox(0.3, 1.0, 0), L1(0.1).prox(0.05, 1.0, 0), L1(0.1).catch_up(1.0, 1.0, 4, 0)
    (0.19999999999999998, 0.0, 0.6)
    >>> L1([0.1, 0.0]).prox(0.3, 1.0, 1)  # one strength per feature
    0.3
    """

    lam: PerFeature

    def validate(self) -> None:
        require("L1.lam", self.lam, 0.0, HUGE)

    def l1(self, i: int) -> float:
        return value_at(self.lam, i)

    def strengths(self) -> tuple[PerFeature, PerFeature] | None:
        return self.lam, 0.0


class Ridge(Elastic):
    """The ridge penalty: r(w) = lam w^2 / 2.

    Parameters
    ----------
    lam : float or array
        The strength, one for all features or one per feature.

    Examples
    --------
    >>> Ridge(1.0).prox(0.5, 1.0, 0), round(Ridge(1.0).catch_up(1.0, 1.0, 3, 0), 12)
    (0.25, 0.125)
    """

    lam: PerFeature
    linear: ClassVar[bool] = True

    def validate(self) -> None:
        require("Ridge.lam", self.lam, 0.0, HUGE)

    def l2(self, i: int) -> float:
        return value_at(self.lam, i)

    def strengths(self) -> tuple[PerFeature, PerFeature] | None:
        return 0.0, self.lam

    def piece(self, u: float, step: float, i: int) -> tuple[float, float]:
        return self.shrink(step, i), 0.0

    def share(self, x: float, w: float, beta: float, step: float, i: int) -> tuple[float, float]:
        m = self.shrink(step, i)
        return m * (x * x), m * (x * w)

    def value_and_slope(self, x: float, w: float, beta: float, step: float, i: int) -> tuple[float, float]:
        m = self.shrink(step, i)
        return m * (w + step * beta * x), m * (x * x)

    def kinks(self) -> int:
        return 0


class ElasticNet(Elastic):
    """Lasso and ridge together: r(w) = lam1 |w| + lam2 w^2 / 2.

    Parameters
    ----------
    lam1, lam2 : float or array
        The strengths of the two parts, each one for all features or one per feature.

    Examples
    --------
    >>> ElasticNet(0.5, 1.0).prox(2.5, 1.0, 0), ElasticNet(0.5, 1.0).prox(0.4, 1.0, 0)
    (1.0, 0.0)
    """

    lam1: PerFeature
    lam2: PerFeature

    def validate(self) -> None:
        require("ElasticNet.lam1", self.lam1, 0.0, HUGE)
        require("ElasticNet.lam2", self.lam2, 0.0, HUGE)

    def l1(self, i: int) -> float:
        return value_at(self.lam1, i)

    def l2(self, i: int) -> float:
        return value_at(self.lam2, i)

    def strengths(self) -> tuple[PerFeature, PerFeature] | None:
        return self.lam1, self.lam2


class Box(Regularizer):
    """A penalty on the set Omega = [lo, hi]: infinite outside it.

    Parameters
    ----------
    regularizer : Regularizer
        The penalty inside the box; `Unregularized()` for bounds alone.
    lo, hi : float
        The least and the largest weight.

    Examples
    --------
    >>> Box(L1(0.1), 0.0, 1.0).prox(0.3, 1.0, 0), Box(L1(0.1), 0.0, 1.0).prox(-0.3, 1.0, 0)
    (0.19999999999999998, 0.0)
    """

    regularizer: Regularizer
    lo: float = -inf
    hi: float = inf

    def validate(self) -> None:
        if not isinstance(self.regularizer, Regularizer):
            raise TypeError(f"Box.regularizer must be a Regularizer, got {self.regularizer!r}")
        check_complete(self.regularizer)
        if not self.lo <= self.hi or self.lo == inf or self.hi == -inf:
            raise ValueError(f"Box needs lo <= hi with a number between them, got lo={self.lo:g}, hi={self.hi:g}")

    def has(self, verb: str) -> bool:
        inner = {"clip": (), "kink": ("kink", "slope")}.get(verb, (verb,))
        return super().has(verb) and all(map(self.regularizer.has, inner))

    def l1(self, i: int) -> float:
        return self.regularizer.l1(i)

    def l2(self, i: int) -> float:
        return self.regularizer.l2(i)

    def clip(self, w: float) -> float:
        return clamp(w, self.lo, self.hi)

    def value(self, w: float, i: int) -> float:
        return self.regularizer.value(w, i) if self.lo <= w <= self.hi else inf

    def slope(self, w: float, side: int, i: int) -> float:
        return self.regularizer.slope(w, side, i)

    def slope_for(self, w: float, step: float, i: int) -> float:
        return self.regularizer.slope_for(w, step, i)

    def prox(self, u: float, step: float, i: int) -> float:
        return self.clip(self.regularizer.prox(u, step, i))

    def piece(self, u: float, step: float, i: int) -> tuple[float, float]:
        m, b = self.regularizer.piece(u, step, i)
        w = m * u + b
        c = clamp(w, self.lo, self.hi)
        return (m, b) if w == c else (0.0, c)

    def excess(self, w: float, push: float, step: float, i: int) -> float:
        return self.regularizer.excess(w, push, step, i)

    def prox_of_excess(self, excess: float, u: float, step: float, i: int) -> float:
        return self.clip(self.regularizer.prox_of_excess(excess, u, step, i))

    def kinks(self) -> int:
        return self.regularizer.kinks() + 2

    def kink(self, j: int, step: float, i: int) -> float:
        inner = self.regularizer.kinks()
        if j == inner:  # the last u whose prox does not exceed lo
            return self.lo + step * self.regularizer.slope(self.lo, 1, i) if self.lo > -inf else -inf
        if j == inner + 1:
            return self.hi + step * self.regularizer.slope(self.hi, -1, i) if self.hi < inf else inf
        return self.regularizer.kink(j, step, i)

    def catch_up(self, w: float, step: float, n: float, i: int) -> float:
        if n > 0 and not self.lo <= w <= self.hi:  # weights may start outside; one round brings them in
            w, n = self.prox(w, step, i), n - 1
        # From inside, the unboxed weight moves towards the penalty's minimum: it leaves the box once, if at all.
        return self.clip(self.regularizer.catch_up(w, step, n, i)) if n > 0 else w

    def catch_up_sum(self, w: float, step: float, n: float, i: int) -> float:
        if self.lo <= 0.0 <= self.hi and self.lo <= w <= self.hi:  # towards 0 a weight never leaves such a box
            return self.regularizer.catch_up_sum(w, step, n, i)
        return prox_sum(self, w, step, n, i)

    def strengths(self) -> tuple[PerFeature, PerFeature] | None:
        return self.regularizer.strengths()

    def bounds(self) -> tuple[float, float]:
        lo, hi = self.regularizer.bounds()
        return max(lo, self.lo), min(hi, self.hi)

    def omega(self) -> Regularizer:
        return self.replace(regularizer=self.regularizer.omega())


def non_negative(regularizer: Regularizer) -> Box:
    """Return the penalty with weights kept at 0 or above.

    >>> non_negative(L1(0.1))
    Box(regularizer=L1(lam=0.1), lo=0.0, hi=inf)
    """
    return Box(regularizer, lo=0.0)


def prox_sum(regularizer: Regularizer, w: float, step: float, n: float, i: int) -> float:
    """Return the sum of n proxes, each of the one before, by a loop."""
    total = 0.0
    for _ in range(int(n)):
        w = regularizer.prox(w, step, i)
        total += w
    return total


def without_l1(regularizer: Regularizer) -> Regularizer:
    """Return the regularizer without its l1 part, or unchanged if its form is unknown.

    >>> without_l1(L1(0.1)), without_l1(ElasticNet(0.1, 0.2)), without_l1(non_negative(L1(0.1)))
    (Unregularized(), Ridge(lam=0.2), Box(regularizer=Unregularized(), lo=0.0, hi=inf))
    """
    parts, bounds = regularizer.strengths(), regularizer.bounds()
    if parts is None:
        return regularizer
    left = Ridge(parts[1]) if np.any(parts[1]) else Unregularized()
    return left if bounds == (-inf, inf) else Box(left, *bounds)
