"""Divergences that are sums over the weights, with the loops over a row; the base class of users' own geometries."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, ClassVar

from fiol.components.component import common_factor, own_factor, value_at
from fiol.components.geometries.geometry import Geometry
from fiol.components.regularizers import Regularizer
from fiol.components.row import Floats, Row, nth
from fiol.components.simd import larger, smaller


class Separable(Geometry):
    """psi(w) = sum of psi_i(w_i). A user's own geometry needs the first four methods.

    | method | meaning |
    |---|---|
    | `mirror(w, i)` | psi'(w), the mirror coordinate; minus infinity at 0 if weights are kept positive |
    | `inverse(theta, i)` | the w with psi'(w) = theta |
    | `inverse_hess(w, i)` | 1 / psi''(w) |
    | `divergence(u, w, i)` | B of one weight |
    | `resolve(theta, ridge, i)` | the w with psi'(w) + ridge w = theta; the default finds the root |

    >>> from math import asinh, sinh, sqrt
    >>> class Hypentropy(Separable):  # Ghai, Hazan, Singer 2020: between gradient and exponentiated gradient
    ...     scale: float = 1.0
    ...     def mirror(self, w, i): return asinh(w / self.scale)
    ...     def inverse(self, theta, i): return self.scale * sinh(theta)
    ...     def inverse_hess(self, w, i): return sqrt(w * w + self.scale * self.scale)
    ...     def divergence(self, u, w, i):
    ...         return (u * (asinh(u / self.scale) - asinh(w / self.scale))
    ...                 - self.inverse_hess(u, i) + self.inverse_hess(w, i))
    >>> round(Hypentropy().resolve(2.0, 0.5, 0), 6)
    1.552705
    """

    protocol: ClassVar[dict[str, tuple[str, ...]]] = {
        **Geometry.protocol,
        "mirror": ("w", "i"),
        "inverse": ("theta", "i"),
        "inverse_hess": ("w", "i"),
        "divergence": ("u", "w", "i"),
        "resolve": ("theta", "ridge", "i"),
    }
    required: ClassVar[tuple[str, ...]] = ("mirror", "inverse", "inverse_hess", "divergence")

    if TYPE_CHECKING:

        def mirror(self, w: float, i: int) -> float: ...
        def inverse(self, theta: float, i: int) -> float: ...
        def inverse_hess(self, w: float, i: int) -> float: ...
        def divergence(self, u: float, w: float, i: int) -> float: ...

    def objection_to(self, regularizer: Regularizer) -> str:
        for verb in ("l1", "l2", "clip"):
            if not regularizer.has(verb):
                return (
                    f"{type(self).__name__} needs `{verb}`; {type(regularizer).__name__} has none: "
                    "use Euclidean() or DiagonalMetric()"
                )
        return ""

    def least_weight(self) -> float:
        return 0.0 if self.mirror(0.0, 0) == -inf else -inf

    def first_weight(self, features: int) -> float:
        return self.inverse(0.0, 0)

    def distance(self, u: Floats, w: Floats) -> float:
        return float(sum(self.divergence(a, b, i) for i, (a, b) in enumerate(zip(u, w, strict=True))))

    # One weight.

    def resolve(self, theta: float, ridge: float, i: int) -> float:
        free = self.inverse(theta, i)
        if ridge == 0.0 or free == 0.0:
            return free
        low, high = smaller(free, 0.0), larger(free, 0.0)
        w = free / (1.0 + ridge * self.inverse_hess(free, i))
        for _ in range(200):
            gap = self.mirror(w, i) + ridge * w - theta
            low, high = (low, w) if gap > 0.0 else (w, high)
            inverse_hess = self.inverse_hess(w, i)
            new = w - gap * inverse_hess / (1.0 + ridge * inverse_hess)
            if not low <= new <= high:
                new = low + 0.5 * (high - low)
            if abs(new - w) <= 1e-16 * abs(new):
                break
            w = new
        return w

    def gradient_step(self, regularizer: Regularizer, w: float, step: float, i: int) -> float:
        """Return argmin_v  r'(w) v + B(v, w) / step."""
        return self.inverse(self.mirror(w, i) - step * regularizer.slope(w, 0, i), i)

    def unclipped(self, regularizer: Regularizer, w: float, x: float, beta: float, step: float, i: int) -> float:
        """Return `weight` without the bounds of the regularizer: soft-thresholding in mirror coordinates."""
        theta = self.mirror(w, i) + step * beta * x
        shrink, ridge = step * regularizer.l1(i), step * regularizer.l2(i)
        origin = self.mirror(0.0, i)
        if theta - shrink > origin:
            return self.resolve(theta - shrink, ridge, i)
        if theta + shrink < origin:
            return self.resolve(theta + shrink, ridge, i)
        return 0.0

    def weight(self, regularizer: Regularizer, w: float, x: float, beta: float, step: float, i: int) -> float:
        """Return argmin_v  -beta x v + r(v) + B(v, w) / step."""
        return regularizer.clip(self.unclipped(regularizer, w, x, beta, step, i))

    def weight_and_slope(
        self, regularizer: Regularizer, w: float, x: float, beta: float, step: float, i: int
    ) -> tuple[float, float]:
        """Return (v, a): `weight`, and the a such that x v grows by step a per unit of beta."""
        free = self.unclipped(regularizer, w, x, beta, step, i)
        v = regularizer.clip(free)
        inverse_hess = self.inverse_hess(v, i) if v == free and v != 0.0 else 0.0
        return v, inverse_hess / (1.0 + step * regularizer.l2(i) * inverse_hess) * x * x

    def excess_of(self, regularizer: Regularizer, w: float, x: float, beta: float, step: float, i: int) -> float:
        """Return the mirror coordinate of `weight` before a ridge shrinks it, on its side of the kink at 0."""
        theta = self.mirror(w, i)
        side = 1.0 if theta + step * beta * x > self.mirror(0.0, i) else -1.0
        push = beta * x - side * regularizer.l1(i)
        return theta + (step * push if abs(push) < inf else step * beta * x)  # finite again if the step is short

    def weight_near(
        self, regularizer: Regularizer, excess: float, w: float, x: float, beta: float, step: float, i: int
    ) -> float:
        """Return the weight of a pull near beta, given the excess of that weight."""
        origin, ridge = self.mirror(0.0, i), step * regularizer.l2(i)
        side = 1.0 if self.mirror(w, i) + step * beta * x > origin else -1.0
        other = excess + side * (2.0 * step * regularizer.l1(i))
        v = 0.0
        if side * excess > side * origin:
            v = self.resolve(excess, ridge, i)
        elif side * other < side * origin:
            v = self.resolve(other, ridge, i)
        return regularizer.clip(v)

    # The weights of a row: the only loops. A penalty that counts n times is a step n times as long under a pull n
    # times weaker.

    def path_start(self, row: Row) -> tuple[float, float]:
        p = q = 0.0
        for k in range(row.x.shape[0]):
            x, w = row.x[k], row.center[k]
            p += own_factor(row.steps, k) * (self.inverse_hess(w, nth(row.feature, k)) * (x * x))
            q += x * w
        return common_factor(row.steps) * p + row.lift, q + row.shift

    def path_score(self, regularizer: Regularizer, row: Row, beta: float) -> float:
        z = 0.0
        pull = beta / row.rounds
        for k in range(row.x.shape[0]):
            x, step = row.x[k], row.rounds * value_at(row.steps, k)
            z += x * self.weight(regularizer, row.center[k], x, pull, step, nth(row.feature, k))
        return z + (row.shift + row.lift * beta)

    def path_fill(self, regularizer: Regularizer, row: Row, beta: float, out: Floats) -> float:
        z = 0.0
        pull = beta / row.rounds
        for k in range(row.x.shape[0]):
            x, step = row.x[k], row.rounds * value_at(row.steps, k)
            w = self.weight(regularizer, row.center[k], x, pull, step, nth(row.feature, k))
            z += x * w
            out[k] = w
        return z + (row.shift + row.lift * beta)

    def path_point(self, regularizer: Regularizer, row: Row, beta: float, out: Floats) -> tuple[float, float]:
        p = z = 0.0
        pull = beta / row.rounds
        for k in range(row.x.shape[0]):
            x, step = row.x[k], row.rounds * value_at(row.steps, k)
            w, a = self.weight_and_slope(regularizer, row.center[k], x, pull, step, nth(row.feature, k))
            p += own_factor(row.steps, k) * a
            z += x * w
            out[k] = w
        return z + (row.shift + row.lift * beta), common_factor(row.steps) * p + row.lift

    def path_excess(self, regularizer: Regularizer, row: Row, beta: float, out: Floats) -> None:
        pull = beta / row.rounds
        for k in range(row.x.shape[0]):
            step = row.rounds * value_at(row.steps, k)
            out[k] = self.excess_of(regularizer, row.center[k], row.x[k], pull, step, nth(row.feature, k))

    def path_near(
        self, regularizer: Regularizer, row: Row, beta: float, delta: float, excess: Floats, out: Floats
    ) -> float:
        z = 0.0
        pull = beta / row.rounds
        for k in range(row.x.shape[0]):
            x, step, i = row.x[k], row.rounds * value_at(row.steps, k), nth(row.feature, k)
            out[k] = self.weight_near(regularizer, excess[k], row.center[k], x, pull, step, i)
            z += x * out[k]
        return z
