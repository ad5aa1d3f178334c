"""Joint losses: losses of all scores of a row, one score per class.

For weights W with a column per class the round is

    argmin_W  weight * phi(W'x; y) + lam |W|^2 / 2 + sum_ik h_i (W_ik - V_ik)^2 / (2 eta)

Along W(beta) = (V + step x beta') / (1 + step lam) the scores are the line q + p beta, with one slope p for all
classes, and the minimizer is the beta with beta = -weight phi'(q + p beta), which a `JointLoss` finds.
"""

from __future__ import annotations

from math import exp, inf, log, log1p, sqrt
from typing import TYPE_CHECKING, Any, ClassVar

from fiol.components.component import Component
from fiol.components.losses import MARGIN
from fiol.components.row import Floats
from fiol.components.scalars import EPS, STEEP, between, wright_omega
from fiol.components.simd import larger

#: The slope below which scores count as constant.
FLAT = 1e-20


class JointLoss(Component):
    """A convex loss of one score per class; y is the number of the right class.

    | method | meaning |
    |---|---|
    | `value(z, y)` | phi(z; y) |
    | `steepness(z, y)` | the Euclidean norm of its gradient |
    | `duals(q, p, y, out)` | writes the beta with beta = -phi'(q + p beta; y) |
    | `dispersion(slopes, t)` | see `fiol.Loss`; optional |
    """

    protocol: ClassVar[dict[str, tuple[str, ...]]] = {
        "value": ("z", "y"),
        "steepness": ("z", "y"),
        "duals": ("q", "p", "y", "out"),
        "dispersion": ("slopes", "t"),
    }
    required: ClassVar[tuple[str, ...]] = ("value", "steepness", "duals")
    #: How scores give predictions, see `fiol.Loss`: logit if their softmax is the probability of each class.
    link: ClassVar[str] = "sign"
    #: The factor of scores inside the link.
    link_factor: ClassVar[float] = 1.0
    #: The name of the loss, with its defaults, in estimators; '' if it has none.
    alias: ClassVar[str] = ""
    #: Whether the gradient may jump.
    kinked: ClassVar[bool] = True
    #: Whether exp(-phi) is the probability of the class.
    is_probability: ClassVar[bool] = False
    #: As of a `Loss`: scores of classes are not shifted with targets.
    shift_invariant: ClassVar[bool] = False
    #: Values count as they are, see `fiol.Loss`: scores are margins.
    value_unit: ClassVar[float] = 1.0
    #: Steps have no unit: scores are margins.
    has_step_scale: ClassVar[bool] = False

    if TYPE_CHECKING:

        def value(self, z: Floats, y: int) -> float: ...
        def steepness(self, z: Floats, y: int) -> float: ...
        def duals(self, q: Floats, p: float, y: int, out: Floats) -> None: ...

    def least_slope(self, z: Floats, tolerance: float, y: int) -> float:
        """Return the least `steepness` of all scores within `tolerance` of z, if the loss has kinks."""
        return self.steepness(z, y)

    def curvature(
        self, z: Floats, after: Floats, beta: Floats, tolerance: float, reach: float, y: int, weight: float
    ) -> float:
        """Return weight times b (1 - b), where b is the pull on the right score divided by the weight.

        For `Softmax` this is the second derivative in that score after the step, where its probability is 1 - b.
        """
        return beta[y] * (1.0 - beta[y] / weight) if weight > 0.0 else 0.0

    def step_unit(self, slopes: float, t: float) -> float:
        """Return the unit of steps: margins have none."""
        return 1.0

    def scale_statistic(self, z: Floats, y: int) -> float:
        """Return what `step_unit` would be computed from: nothing."""
        return 0.0

    def square_slope_unit(self, slopes: float, t: float) -> float:
        """Return the square of twice the unit of two classes: many classes are a few units of score further apart."""
        return 4.0 * (MARGIN * MARGIN)


#: A `fiol.Loss` of one score, or a `JointLoss` of many.
AnyLoss = Any


def largest(z: Floats) -> float:
    """Return the largest score, by a loop: `max` of an array takes half a second to compile."""
    top = -inf
    for k in range(z.shape[0]):
        top = larger(top, z[k])
    return top


class Softmax(JointLoss):
    """Cross-entropy: phi(z; y) = log sum_k exp(z_k) - z_y.

    The new probabilities pi solve p pi_k + log(p pi_k) = log p + b_k - l, with b = q + p e_y: each is a Wright omega,
    and the one number l is such that they add up to 1.

    >>> import numpy as np
    >>> beta = np.empty(2)
    >>> Softmax().duals(np.zeros(2), 1.0, 0, beta)
    >>> beta.round(6)  # with two classes this is logistic loss at twice the slope
    array([ 0.337416, -0.337416])
    """

    link: ClassVar[str] = "logit"
    alias: ClassVar[str] = "softmax"
    kinked: ClassVar[bool] = False
    is_probability: ClassVar[bool] = True

    def value(self, z: Floats, y: int) -> float:
        top, others = largest(z), 0.0
        for k in range(z.shape[0]):
            others += exp(z[k] - top)
        return top - z[y] + log(others)

    def steepness(self, z: Floats, y: int) -> float:
        top = largest(z)
        mass = rest = squares = 0.0
        for k in range(z.shape[0]):
            e = exp(z[k] - top)
            mass += e
            if k != y:
                rest += e
                squares += e * e
        return sqrt(squares + rest * rest) / mass

    def dispersion(self, slopes: float, t: float) -> float:
        return 1.0  # minus the log-likelihood of the classes

    def duals(self, q: Floats, p: float, y: int, out: Floats) -> None:
        if p > STEEP and highest_lead(q, y) < 0.5 * p:
            self.steep_duals(q, p, y, out)
            return
        top = -inf
        for k in range(q.shape[0]):
            top = larger(top, q[k] + p if k == y else q[k])
        mass, squares = 0.0, 0.0
        for k in range(q.shape[0]):
            out[k] = (q[k] + p if k == y else q[k]) - top
            e = exp(out[k])
            mass += e
            squares += e * e
        high = log(mass)  # pi > 0 ...
        low = high - p  # ... and pi < 1
        level = high - p * (squares / (mass * mass))
        for _ in range(100 if p > FLAT else 0):
            total, slope = 0.0, 0.0
            for k in range(q.shape[0]):
                omega = wright_omega(log(p) + out[k] - level)
                total += omega
                slope += omega / (1.0 + omega)
            if total > p:
                low = level
            else:
                high = level
            new = level + log(total / p) * total / slope if total > 0.0 else -inf
            if abs(new - level) <= 4.0 * EPS * larger(1.0, abs(level)):
                break
            if not low < new < high:
                new = 0.5 * (low + high)
                if new == low or new == high:  # noqa: SIM109 - `in` is a call that may raise
                    break
            level = new
        rest = 0.0
        for k in range(q.shape[0]):
            out[k] = -wright_omega(log(p) + out[k] - level) / p if p > FLAT else -exp(out[k] - high)
            if k != y:
                rest -= out[k]
        out[y] = rest  # 1 - pi_y, which may be tiny

    def steep_duals(self, q: Floats, p: float, y: int, out: Floats) -> None:
        """Write the duals where p is large, so that q + p has no digits left for q.

        With s = p (1 - pi_y), the sum of all other p pi_k, and scores counted from q_y, the number l is the root of
        s - l - log(1 - s / p), which falls with l.
        """
        count = q.shape[0]
        low, high = 0.0, larger(highest_lead(q, y), 0.0) + log(p) + count + 1.0
        level = 0.5 * high
        for _ in range(200):
            s, slope = 0.0, 0.0
            for k in range(count):
                if k != y:
                    omega = wright_omega(log(p) + (q[k] - q[y]) - level)
                    s += omega
                    slope += omega / (1.0 + omega)
            gap = s - level - log1p(-s / p) if s < p else inf
            if gap > 0.0:
                low = level
            else:
                high = level
            new = level + gap / (1.0 + slope * (1.0 + 1.0 / (p - s))) if s < p else high
            if not low < new < high:
                new = between(low, high)
                if new <= low or new >= high:
                    break
            if abs(new - level) <= EPS * level:
                break
            level = new
        rest = 0.0
        for k in range(count):
            if k != y:
                out[k] = -wright_omega(log(p) + (q[k] - q[y]) - level) / p
                rest -= out[k]
        out[y] = rest


class CrammerSinger(JointLoss):
    """Multiclass hinge: phi(z; y) = max_k (z_k + 1[k != y]) - z_y (Crammer and Singer 2001).

    The new pull -beta + e_y is the projection of e_y + (q + 1 - e_y) / p on the simplex: one threshold.

    >>> import numpy as np
    >>> beta = np.empty(3)
    >>> CrammerSinger().duals(np.zeros(3), 10.0, 0, beta)
    >>> beta.round(6)
    array([ 0.066667, -0.033333, -0.033333])
    """

    alias: ClassVar[str] = "crammer_singer"

    def value(self, z: Floats, y: int) -> float:
        top = z[y]
        for k in range(z.shape[0]):
            if k != y:
                top = larger(top, z[k] + 1.0)
        return top - z[y]

    def steepness(self, z: Floats, y: int) -> float:
        return self.least_slope(z, 0.0, y)

    def least_slope(self, z: Floats, tolerance: float, y: int) -> float:
        return sqrt(2.0) if self.value(z, y) > tolerance else 0.0

    def duals(self, q: Floats, p: float, y: int, out: Floats) -> None:
        for k in range(q.shape[0]):  # the point to project, times p, relative to the score of y
            out[k] = (0.0 if k == y else 1.0) + (q[k] - q[y])
        if p <= 0.0:
            best = out.argmax()
            for k in range(q.shape[0]):
                out[k] = 0.0
            out[best] = -1.0
            out[y] = 0.0 if best == y else 1.0
            return
        top = 0.0
        for k in range(q.shape[0]):
            top = larger(top, out[k])
        steep = p > STEEP and top < 0.5 * p
        level = self.steep_threshold(y, out) if steep else self.threshold(p, top, y, out)
        rest = 0.0
        for k in range(q.shape[0]):
            out[k] = -larger(out[k] - level, 0.0) / p
            if k != y:
                rest -= out[k]
        out[y] = rest

    def threshold(self, p: float, top: float, y: int, out: Floats) -> float:
        """Subtract `top` from `out`; return the threshold that its entries then exceed by p in total."""
        for k in range(out.shape[0]):
            out[k] -= top
        out[y] += p
        level = larger(out[y], 0.0) - p  # a lower threshold would be exceeded by more than p
        while True:  # the threshold only rises, so an entry below it stays below
            total, count = 0.0, 0
            for k in range(out.shape[0]):
                if out[k] > level:
                    total += out[k]
                    count += 1
            if count == 0 or not (total - p) / count > level:
                break
            level = (total - p) / count
        return level

    def steep_threshold(self, y: int, out: Floats) -> float:
        """Return the threshold where p is large, from the leads of the wrong classes over the right one.

        All leads above the threshold are lowered to it, and the right score rises by the threshold, as much as the
        others fall in total.
        """
        level = 0.0
        while True:  # the level only rises
            total, count = 0.0, 1
            for k in range(out.shape[0]):
                if k != y and out[k] > level:
                    total += out[k]
                    count += 1
            if not total / count > level:
                break
            level = total / count
        return level


def highest_lead(q: Floats, y: int) -> float:
    """Return the lead of the best wrong class over the right one; minus infinity if there is no wrong class."""
    lead = -inf
    for k in range(q.shape[0]):
        if k != y:
            lead = larger(lead, q[k] - q[y])
    return lead
