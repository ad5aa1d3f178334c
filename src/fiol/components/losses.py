"""Losses: convex functions of the score z = <x, w> and the target y, per sample.

A loss is its value, its derivative and its one-dimensional prox. The prox is given in dual form,
because that is the number the fully implicit step looks for and the one that keeps its digits:
on a line g(beta) = p * beta + q the new score is

    z = argmin_z  phi(z; y) + (z - q)^2 / (2 p),        beta = (z - q) / p = -phi'(z; y)

and `dual(q, p, y)` returns beta (which is -phi'(q; y) if p = 0).

Between that implicit step and the explicit one, whose beta is -phi'(q; y), lies the limit of many
small ones: the score follows z' = -phi'(z; y) from z = q for the time p and stops at a kink, and
`flow(q, p, y)` returns beta = (z - q) / p for the z reached (Karampatziakis and Langford,
"Online importance weight aware updates", 2011).

Targets are -1 or +1 for the binary losses. `dual` is exact for scores and targets up to 1e100 and p from 0 to 1e290;
`flow` is finite for scores and targets up to 1e100 and p from 0 to 1e240.
"""

from __future__ import annotations

from collections.abc import Callable
from math import copysign, exp, expm1, inf, log, log1p
from typing import TYPE_CHECKING, Any, ClassVar

from fiol.components.component import Component, require
from fiol.components.logistic_roots import (
    AHEAD,
    EVEN,
    UNFINISHED,
    even_logistic_root,
    far_logistic_root,
    logistic_flow,
    rough_log,
    rough_omega,
)
from fiol.components.scalars import EPS, HUGE, between, clamp, safe_exp, safe_log, sigmoid, sign, softplus, wright_omega
from fiol.components.simd import (
    LOG2E,
    LOWEST,
    anywhere,
    choose,
    lane,
    lanes,
    larger,
    smaller,
    whole_power,
)

#: The unit of derivatives where scores are margins: one over the largest curvature of the logistic loss.
MARGIN = 4.0
#: The prediction as a function of the score, by the name of the link; see `Loss.link`.
LINKS: dict[str, Callable[[float], float]] = {
    "identity": lambda z: z,
    "sign": lambda z: copysign(1.0, z),
    "logit": sigmoid,
    "log": safe_exp,
}


#: The methods that an ensemble calls with SIMD lanes.
LANE_METHODS: tuple[str, ...] = (
    "value",
    "grad",
    "hess",
    "dual",
    "curvature",
    "scale_statistic",
    "square_slope_unit",
    "step_unit",
)
LANE_METHODS += ("lane_step", "lane_exact")


class Loss(Component):
    """A convex loss. A user's own needs `value` and `grad`; everything else is optional.

    | method | meaning |
    |---|---|
    | `value(z, y)` | phi(z; y) |
    | `grad(z, y)` | d phi / d z (any subgradient at a kink) |
    | `hess(z, y)` | second derivative, of a loss without kinks; lets the default `dual` use Newton |
    | `dual(q, p, y)` | beta on the line (p, q), see the module; the default finds the root of `grad` |
    | `flow(q, p, y)` | beta of the importance-aware step, see the module; there is no default |
    | `guess(q, p, y)` | a rough `dual` to start from, where that is much cheaper; the default is `dual` |
    | `conjugate_grad(beta, y)` | derivative of beta -> phi*(-beta), infinite outside its domain |
    | `flat_interval(y)` | (a, b), for piecewise linear losses: phi is 0 from a to b, and linear on both sides |
    | `predict(z)` | the prediction of y from the score: the mean, the probability of +1, or the label |
    | `accepts(y)` | whether y is a valid target |
    | `lower(y)` | infimum of phi(.; y) |
    | `square_slope_unit(slopes, t)` | the square of the unit of its derivatives, for `fiol.ScaleFree` |
    | `step_unit(slopes, t)` | the unit of its steps, a score by a derivative; 1 by default |
    | `dispersion(slopes, t)` | variance of the derivative by mean curvature, for `Learner.uncertainty`; no default |
    | `lane_step(z, p, tolerance, reach, y, weight)` | beta and curvature of an exact step, for lanes |
    | `lane_exact(z, p, y)` | whether `lane_step` is exact in all lanes; elsewhere `exact_step` is used |
    | `scale_statistic(z, y)` | what `slopes` adds up where there is a `step_unit`; squared derivatives by default |

    | attribute | meaning |
    |---|---|
    | `targets` | what the targets are, in words for error messages |
    | `link`, `link_factor` | `predict(z)` is the inverse of the link (see `LINKS`) at `link_factor` z |
    | `convexity` | the largest known gamma with phi(z) - gamma z^2 / 2 convex |
    | `value_unit` | 1 if values count as they are, as those of margins do; 0, the default, if targets have units |
    | `is_probability` | whether exp(-phi) is the probability of the target |
    | `shift_invariant` | whether phi(z + c; y + c) = phi(z; y) for every c: then targets may be far from 0 |
    | `alias` | the name of the loss, with its defaults, in estimators and in other libraries |
    | `lanes` | True if all methods are written for SIMD lanes, too: see docs/guides/components.md |

    All that follows from a derivative belongs to it. A subclass with a `grad` of its own therefore inherits no `hess`,
    `dual`, `guess`, `flow`, `conjugate_grad`, `flat_interval`, `dispersion`, `convexity`, `is_probability`,
    `shift_invariant` or `alias` (`defaults_of_grad`), and has the defaults unless it defines them. A subclass with a
    `predict` of its own sets its `link`, or has no ONNX graph; one with another link than its base has a `predict` of
    its own.

    >>> class LogCosh(Loss):
    ...     def value(self, z, y): return abs(z - y) + log1p(safe_exp(-2 * abs(z - y))) - log(2)
    ...     def grad(self, z, y): return 2 * sigmoid(2 * (z - y)) - 1
    >>> round(LogCosh().dual(0.0, 2.0, 3.0), 6)
    0.857704
    """

    protocol: ClassVar[dict[str, tuple[str, ...]]] = {
        "value": ("z", "y"),
        "grad": ("z", "y"),
        "hess": ("z", "y"),
        "dual": ("q", "p", "y"),
        "guess": ("q", "p", "y"),
        "flow": ("q", "p", "y"),
        "conjugate_grad": ("beta", "y"),
        "flat_interval": ("y",),
        "predict": ("z",),
        "accepts": ("y",),
        "lower": ("y",),
        "square_slope_unit": ("slopes", "t"),
        "scale_statistic": ("z", "y"),
        "step_unit": ("slopes", "t"),
        "dispersion": ("slopes", "t"),
    }
    required: ClassVar[tuple[str, ...]] = ("value", "grad")
    #: What the targets are, in words for error messages.
    targets: ClassVar[str] = "any finite number"
    #: How the score relates to the prediction: identity, sign, logit or log.
    link: ClassVar[str] = "identity"
    #: What the score is multiplied by inside the link.
    link_factor: ClassVar[float] = 1.0
    #: What the loss with its defaults is called by estimators and by other libraries, '' if it has no such name.
    alias: ClassVar[str] = ""
    #: The largest known gamma with phi(z) - gamma z^2 / 2 convex: the paper's strong convexity of the loss.
    convexity: ClassVar[float] = 0.0
    #: Whether the derivative may jump: of a loss that has no `hess`.
    kinked: ClassVar[bool] = True
    #: The unit of its values, if these count as they are, as minus a log-likelihood does; 0 if targets have units.
    value_unit: ClassVar[float] = 0.0
    #: Whether its steps have a unit: whether a loss defines `step_unit`.
    has_step_scale: ClassVar[bool] = False
    #: Whether the methods in `LANE_METHODS` are for lanes, too (`fiol.components.simd`).
    lanes: ClassVar[bool] = False
    #: Whether exp(-phi) is the probability of the target: the sum over all targets is 1, whatever the score.
    is_probability: ClassVar[bool] = False
    #: Whether phi(z + c; y + c) = phi(z; y) for every c: then a target far from 0 is as easy as one near it.
    shift_invariant: ClassVar[bool] = False

    if TYPE_CHECKING:

        def value(self, z: float, y: float) -> float: ...
        def grad(self, z: float, y: float) -> float: ...
        def hess(self, z: float, y: float) -> float: ...
        def flow(self, q: float, p: float, y: float) -> float: ...
        def conjugate_grad(self, beta: float, y: float) -> float: ...
        def flat_interval(self, y: float) -> tuple[float, float]: ...
        def dispersion(self, slopes: float, t: float) -> float: ...

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own, base = vars(cls), next(kind for kind in cls.__mro__[1:] if issubclass(kind, Loss))
        if "grad" in own:
            for name, default in defaults_of_grad().items():
                if name not in own and getattr(cls, name, None) is not default:
                    setattr(cls, name, default)
        cls.kinked = not callable(getattr(cls, "hess", None))
        if cls.dual is Loss.dual and not cls.kinked:
            cls.dual = Loss.newton_dual  # type: ignore[method-assign]
        if cls.curvature is Loss.curvature and not cls.kinked:
            cls.curvature = Loss.smooth_curvature  # type: ignore[method-assign]
        if "lanes" not in own and any(name in own for name in LANE_METHODS):
            cls.lanes = False
        cls.has_step_scale = cls.step_unit is not Loss.step_unit
        if own.get("lanes") and cls.dual in (Loss.dual, Loss.newton_dual) and cls.lane_step is Loss.lane_step:
            raise TypeError(
                f"{cls.__name__} sets lanes = True, but its dual is found by a loop: define dual in closed form, or "
                "lane_step; or leave lanes out, and ensembles solve for one member after the other"
            )
        if cls.link not in LINKS:
            raise TypeError(f"{cls.__name__}.link must be one of {', '.join(LINKS)}, got {cls.link!r}")
        if "predict" not in own and (cls.link, cls.link_factor) != (base.link, base.link_factor):
            raise TypeError(f"{cls.__name__} sets its link, but its predict is that of {base.__name__}: define predict")

    def states_link(self) -> bool:
        """Return whether `link` describes `predict`: not if a subclass has redefined `predict` alone."""
        kinds = (vars(kind) for kind in type(self).__mro__)
        return "link" in next(names for names in kinds if "predict" in names or "link" in names)

    def dual(self, q: float, p: float, y: float) -> float:
        """Return the root of beta + phi'(q + p beta) = 0 by bisection between 0 and -phi'(q)."""
        start, end = 0.0, -self.grad(q, y)
        if p == 0.0:
            return end
        for _ in range(200):
            beta = between(start, end)
            if beta == start or beta == end:  # noqa: SIM109 - `in` is a call that may raise
                break
            gap = beta + self.grad(q + p * beta, y)
            if gap == 0.0:
                return beta
            if (gap > 0.0) == (end > 0.0):
                end = beta
            else:
                start = beta
        return end

    def newton_dual(self, q: float, p: float, y: float) -> float:
        """Return the root of beta + phi'(q + p beta) = 0 by Newton's method, kept inside the shrinking bracket."""
        start, end = 0.0, -self.grad(q, y)
        beta = end / (1.0 + p * self.hess(q, y))
        last = abs(end)
        for _ in range(200):
            z = q + p * beta
            gap = beta + self.grad(z, y)
            if gap == 0.0:
                break
            if (gap > 0.0) == (end > 0.0):
                end = beta
            else:
                start = beta
            step = -gap / (1.0 + p * self.hess(z, y))
            new = beta + step
            if not min(start, end) < new < max(start, end) or abs(step) > 0.5 * last:
                new = between(start, end)
            last = abs(new - beta)
            beta = new
            if last <= EPS * abs(beta):
                break
        return beta

    def guess(self, q: float, p: float, y: float) -> float:
        return self.dual(q, p, y)

    def predict(self, z: float) -> float:
        return z

    def accepts(self, y: float) -> bool:
        return abs(y) < inf

    def lower(self, y: float) -> float:
        return 0.0

    def least_grad(self, z: float, tolerance: float, y: float) -> float:
        """Return the derivative nearest to 0 at scores within `tolerance` of z; of a smooth loss, the one at z.

        An exact step lands on a kink but for the last digit, and that digit must not choose the derivative.
        """
        if not self.kinked:
            return self.grad(z, y)
        return clamp(0.0, self.grad(z - tolerance, y), self.grad(z + tolerance, y))

    def least_slope(self, z: float, tolerance: float, y: float) -> float:
        """Return abs(`least_grad`)."""
        return abs(self.least_grad(z, tolerance, y))

    def curvature(
        self, z: float, after: float, beta: float, tolerance: float, reach: float, y: float, weight: float
    ) -> float:
        """Return the curvature of weight phi on the step from the score z to `after`, with the pull beta.

        That is the slope of the derivative over the step, or over `reach`, a unit of scores, if the step is shorter: a
        short step across a kink is no estimate for other rows.
        """
        met = abs(-beta - weight * self.least_grad(z, tolerance, y))
        over = larger(abs(after - z), choose(reach > 0.0, reach, 1.0))
        return met / over * choose(reach > 0.0, 1.0, 0.0)  # type: ignore[no-any-return] # scores may be lanes

    def smooth_curvature(
        self, z: float, after: float, beta: float, tolerance: float, reach: float, y: float, weight: float
    ) -> float:
        """Return weight phi'' at the score after the step."""
        return weight * self.hess(after, y)

    def scale_statistic(self, z: float, y: float) -> float:
        slope = self.grad(z, y)
        return slope * slope

    def exact_step(
        self, z: float, p: float, tolerance: float, reach: float, y: float, weight: float
    ) -> tuple[float, float]:
        """Return the pull of an exact step from z, which moves z by p times the pull, and the curvature it meets."""
        beta = weight * self.dual(z, weight * p, y)
        return beta, self.curvature(z, z + p * beta, beta, tolerance, reach, y, weight)

    def lane_step(
        self, z: float, p: float, tolerance: float, reach: float, y: float, weight: float
    ) -> tuple[float, float]:
        """Return `exact_step` without a branch on a score: for lanes, where `lane_exact` allows it."""
        return self.exact_step(z, p, tolerance, reach, y, weight)

    def lane_exact(self, z: float, p: float, y: float) -> bool:
        """Return whether `lane_step` is exact in all lanes, for a sample weight of 1."""
        return True

    def step_unit(self, slopes: float, t: float) -> float:
        """Return the unit of steps, 1 unless a loss defines its own."""
        return 1.0

    def square_slope_unit(self, slopes: float, t: float) -> float:
        """Return 4 slopes / t, where `slopes` is the sum of squared derivatives of t rounds: targets have units."""
        return 4.0 * slopes / t


def defaults_of_grad() -> dict[str, Any]:
    """Return the attributes that belong to a derivative, with their values in a class that defines `grad` alone."""
    defaults = {"dual": Loss.dual, "guess": Loss.guess, "convexity": 0.0, "alias": ""}
    defaults |= {"curvature": Loss.curvature, "is_probability": False, "shift_invariant": False}
    return defaults | dict.fromkeys(("hess", "flow", "conjugate_grad", "flat_interval", "dispersion"))


class Binary(Loss):
    """Losses of the margin y z, for targets -1 and +1."""

    targets: ClassVar[str] = "-1 or +1"
    link: ClassVar[str] = "sign"
    value_unit: ClassVar[float] = 1.0

    def predict(self, z: float) -> float:
        return copysign(1.0, z)

    def accepts(self, y: float) -> bool:
        return abs(y) == 1.0

    def square_slope_unit(self, slopes: float, t: float) -> float:
        """Return a constant: margins have no unit."""
        return MARGIN * MARGIN


# --- regression -------------------------------------------------------------------------------


class Squared(Loss):
    """Squared error: phi(z; y) = (z - y)^2 / 2.

    >>> Squared().value(1.0, 3.0), Squared().dual(1.0, 1.0, 3.0), round(Squared().flow(1.0, 1.0, 3.0), 6)
    (2.0, 1.0, 1.264241)
    """

    alias: ClassVar[str] = "squared_error"
    shift_invariant: ClassVar[bool] = True
    lanes: ClassVar[bool] = True
    convexity: ClassVar[float] = 1.0

    def value(self, z: float, y: float) -> float:
        return 0.5 * (z - y) * (z - y)

    def grad(self, z: float, y: float) -> float:
        return z - y

    def hess(self, z: float, y: float) -> float:
        return 1.0

    def dual(self, q: float, p: float, y: float) -> float:
        return (y - q) / (1.0 + p)

    def flow(self, q: float, p: float, y: float) -> float:
        return (y - q) * mean_decay(p)

    def dispersion(self, slopes: float, t: float) -> float:
        return slopes / t

    def conjugate_grad(self, beta: float, y: float) -> float:
        return beta - y


class Straight(Loss):
    """Losses of the error e = z - y that are straight lines: errors have the unit of targets, derivatives have none.

    So steps have the unit of targets: the mean size of the errors, each before its step, by that of derivatives.
    """

    def slope_unit(self) -> float:
        """Return the size of derivatives."""
        return 1.0

    def scale_statistic(self, z: float, y: float) -> float:
        return abs(z - y)

    def square_slope_unit(self, slopes: float, t: float) -> float:
        return 4.0 * self.slope_unit() ** 2

    def step_unit(self, slopes: float, t: float) -> float:
        return slopes / (t * self.slope_unit())


class Quantile(Straight):
    """Pinball loss: phi(z; y) = tau (y - z) below the target, (1 - tau) (z - y) above it.

    Its minimizer is the tau-quantile of y. `Quantile(0.5)` is half the absolute error.

    Parameters
    ----------
    tau : float
        The quantile, from 0 to 1.

    Examples
    --------
    >>> Quantile(0.9).value(0.0, 10.0), Quantile(0.9).dual(0.0, 1.0, 10.0)
    (9.0, 0.9)
    """

    alias: ClassVar[str] = "quantile"
    shift_invariant: ClassVar[bool] = True
    lanes: ClassVar[bool] = True
    tau: float = 0.5

    def validate(self) -> None:
        require("Quantile.tau", self.tau, 0.0, 1.0)

    def value(self, z: float, y: float) -> float:
        return larger(self.tau * (y - z), (1.0 - self.tau) * (z - y))  # type: ignore[no-any-return]

    def grad(self, z: float, y: float) -> float:
        return (1.0 - self.tau) * (z > y) - self.tau * (z < y)

    def slope_unit(self) -> float:
        return max(self.tau, 1.0 - self.tau)

    def dual(self, q: float, p: float, y: float) -> float:
        return slope_to(y - q, p, self.tau - 1.0, self.tau)

    def flow(self, q: float, p: float, y: float) -> float:
        return self.dual(q, p, y)

    def flat_interval(self, y: float) -> tuple[float, float]:
        return y, y

    def conjugate_grad(self, beta: float, y: float) -> float:
        return barrier(beta, self.tau - 1.0, self.tau) - y


class Absolute(Straight):
    """Absolute error: phi(z; y) = |z - y|.

    >>> Absolute().value(1.0, 3.0), Absolute().dual(1.0, 4.0, 3.0)
    (2.0, 0.5)
    """

    alias: ClassVar[str] = "absolute_error"
    shift_invariant: ClassVar[bool] = True
    lanes: ClassVar[bool] = True

    def value(self, z: float, y: float) -> float:
        return abs(z - y)

    def grad(self, z: float, y: float) -> float:
        return 1.0 * (z > y) - 1.0 * (z < y)

    def dual(self, q: float, p: float, y: float) -> float:
        return slope_to(y - q, p, -1.0, 1.0)

    def flow(self, q: float, p: float, y: float) -> float:
        return self.dual(q, p, y)

    def flat_interval(self, y: float) -> tuple[float, float]:
        return y, y

    def conjugate_grad(self, beta: float, y: float) -> float:
        return barrier(beta, -1.0, 1.0) - y


class EpsilonInsensitive(Straight):
    """Absolute error beyond a tube: phi(z; y) = max(0, |z - y| - epsilon).

    Parameters
    ----------
    epsilon : float
        Half the width of the tube, in units of targets.

    Examples
    --------
    >>> EpsilonInsensitive(0.5).value(1.0, 3.0), EpsilonInsensitive(0.5).dual(2.8, 1.0, 3.0)
    (1.5, 0.0)
    """

    alias: ClassVar[str] = "epsilon_insensitive"
    shift_invariant: ClassVar[bool] = True
    lanes: ClassVar[bool] = True
    epsilon: float = 0.1

    def validate(self) -> None:
        require("EpsilonInsensitive.epsilon", self.epsilon, 0.0)

    def value(self, z: float, y: float) -> float:
        return larger(0.0, abs(z - y) - self.epsilon)  # type: ignore[no-any-return]

    def grad(self, z: float, y: float) -> float:
        return 1.0 * (z - y > self.epsilon) - 1.0 * (y - z > self.epsilon)

    def dual(self, q: float, p: float, y: float) -> float:
        return slope_to(beyond(y - q, self.epsilon), p, -1.0, 1.0)

    def flow(self, q: float, p: float, y: float) -> float:
        return self.dual(q, p, y)

    def flat_interval(self, y: float) -> tuple[float, float]:
        return y - self.epsilon, y + self.epsilon

    def conjugate_grad(self, beta: float, y: float) -> float:
        return barrier(beta, -1.0, 1.0) + self.epsilon * sign(beta) - y


class SquaredEpsilonInsensitive(Loss):
    """Squared error beyond a tube: phi(z; y) = max(0, |z - y| - epsilon)^2 / 2.

    Parameters
    ----------
    epsilon : float
        Half the width of the tube, in units of targets.

    Examples
    --------
    >>> SquaredEpsilonInsensitive(1.0).value(0.0, 3.0), SquaredEpsilonInsensitive(1.0).dual(0.0, 1.0, 3.0)
    (2.0, 1.0)
    """

    alias: ClassVar[str] = "squared_epsilon_insensitive"
    shift_invariant: ClassVar[bool] = True
    lanes: ClassVar[bool] = True
    epsilon: float = 0.1

    def validate(self) -> None:
        require("SquaredEpsilonInsensitive.epsilon", self.epsilon, 0.0)

    def value(self, z: float, y: float) -> float:
        error = beyond(z - y, self.epsilon)
        return 0.5 * (error * error)

    def grad(self, z: float, y: float) -> float:
        return beyond(z - y, self.epsilon)

    def hess(self, z: float, y: float) -> float:
        return 1.0 * (abs(z - y) > self.epsilon)

    def dual(self, q: float, p: float, y: float) -> float:
        return beyond(y - q, self.epsilon) / (1.0 + p)

    def flow(self, q: float, p: float, y: float) -> float:
        return beyond(y - q, self.epsilon) * mean_decay(p)

    def conjugate_grad(self, beta: float, y: float) -> float:
        return beta + self.epsilon * sign(beta) - y


class Huber(Loss):
    """Squared near the target, linear beyond delta: phi(z; y) = e^2/2 if |e| <= delta, else delta |e| - delta^2/2.

    flow: the score moves at speed delta until it is within delta of y, then as for the squared error.

    Parameters
    ----------
    delta : float
        The error beyond which the loss is linear, in units of targets.

    Examples
    --------
    >>> Huber(1.0).value(0.0, 3.0), Huber(1.0).dual(0.0, 1.0, 3.0), Huber(1.0).flow(0.0, 1.0, 3.0)
    (2.5, 1.0, 1.0)
    """

    alias: ClassVar[str] = "huber"
    shift_invariant: ClassVar[bool] = True
    lanes: ClassVar[bool] = True
    delta: float = 1.0

    def validate(self) -> None:
        require("Huber.delta", self.delta, 0.0, open_low=True)

    def value(self, z: float, y: float) -> float:
        inner = smaller(abs(z - y), self.delta)
        return inner * (abs(z - y) - 0.5 * inner)  # type: ignore[no-any-return]

    def grad(self, z: float, y: float) -> float:
        return clamp(z - y, -self.delta, self.delta)

    def hess(self, z: float, y: float) -> float:
        return 1.0 * (abs(z - y) < self.delta)

    def dual(self, q: float, p: float, y: float) -> float:
        return clamp((y - q) / (1.0 + p), -self.delta, self.delta)

    def flow(self, q: float, p: float, y: float) -> float:
        near, far = min(abs(y - q), self.delta), max(0.0, abs(y - q) - self.delta)
        rest = p - far / self.delta  # what is left of p once the score is within delta
        if rest < 0.0 or p == 0.0:
            return copysign(near, y - q)
        return copysign(far - near * expm1(-rest), y - q) / p

    def conjugate_grad(self, beta: float, y: float) -> float:
        return barrier(beta, -self.delta, self.delta) + beta - y


# --- binary classification --------------------------------------------------------------------


class Hinge(Binary):
    """Hinge loss of the support vector machine: phi(z; y) = max(0, 1 - y z).

    >>> Hinge().value(0.5, 1.0), Hinge().dual(0.0, 2.0, 1.0)
    (0.5, 0.5)
    """

    alias: ClassVar[str] = "hinge"
    lanes: ClassVar[bool] = True

    def value(self, z: float, y: float) -> float:
        return larger(0.0, 1.0 - y * z)  # type: ignore[no-any-return]

    def grad(self, z: float, y: float) -> float:
        return -y * (y * z < 1.0)

    def dual(self, q: float, p: float, y: float) -> float:
        return y * slope_to(1.0 - y * q, p, 0.0, 1.0)

    def flow(self, q: float, p: float, y: float) -> float:
        return self.dual(q, p, y)

    def flat_interval(self, y: float) -> tuple[float, float]:
        return y, y

    def conjugate_grad(self, beta: float, y: float) -> float:
        return y * (barrier(y * beta, 0.0, 1.0) - 1.0)


class SquaredHinge(Binary):
    """Squared hinge loss: phi(z; y) = max(0, 1 - y z)^2 / 2.

    >>> SquaredHinge().value(0.0, 1.0), SquaredHinge().dual(0.0, 1.0, 1.0)
    (0.5, 0.5)
    """

    alias: ClassVar[str] = "squared_hinge"
    lanes: ClassVar[bool] = True

    def value(self, z: float, y: float) -> float:
        short = larger(0.0, 1.0 - y * z)
        return 0.5 * (short * short)  # type: ignore[no-any-return]

    def grad(self, z: float, y: float) -> float:
        return -y * larger(0.0, 1.0 - y * z)  # type: ignore[no-any-return]

    def hess(self, z: float, y: float) -> float:
        return 1.0 * (y * z < 1.0)

    def dual(self, q: float, p: float, y: float) -> float:
        return y * larger(0.0, 1.0 - y * q) / (1.0 + p)  # type: ignore[no-any-return]

    def flow(self, q: float, p: float, y: float) -> float:
        return y * max(0.0, 1.0 - y * q) * mean_decay(p)

    def conjugate_grad(self, beta: float, y: float) -> float:
        return beta + y * (barrier(y * beta, 0.0, inf) - 1.0)


class Logistic(Binary):
    """Logistic loss: phi(z; y) = log(1 + exp(-y z)).

    dual: beta = y c where c = sigmoid(-(y q + p c)) lies between 0 and 1.
    flow: beta = y d / p where the margin, y q, rises by d, and d + exp(margin) (exp(d) - 1) = p.

    >>> Logistic().predict(0.0), round(Logistic().dual(0.0, 1.0, 1.0), 6), round(Logistic().flow(0.0, 1.0, 1.0), 6)
    (0.5, 0.401058, 0.442854)
    """

    alias: ClassVar[str] = "log_loss"
    lanes: ClassVar[bool] = True
    link: ClassVar[str] = "logit"
    is_probability: ClassVar[bool] = True

    def value(self, z: float, y: float) -> float:
        return softplus(-y * z)

    def grad(self, z: float, y: float) -> float:
        return -y * sigmoid(-y * z)

    def hess(self, z: float, y: float) -> float:
        return sigmoid(z) * sigmoid(-z)

    def dual(self, q: float, p: float, y: float) -> float:
        margin = y * q
        if abs(margin) + p <= EVEN and margin <= UNFINISHED:
            # In a lane, where no sum is rearranged: the same digits as in many.
            return y * lane(even_logistic_root(lanes((margin,)), lanes((p,)))[0], 0)
        return y * far_logistic_root(margin, p)

    def guess(self, q: float, p: float, y: float) -> float:
        margin, inverse = y * q, 1.0 / (p + AHEAD)
        high = margin < -0.5 * p
        x = rough_log(lanes((p + AHEAD,))) - (-margin - p if high else margin)
        small = whole_power(smaller(larger(x, LOWEST), 0.0) * LOG2E)[1]  # exp(x), and omega is about as small
        c = lane(choose(x > -3.0, rough_omega(x), small), 0) * inverse
        return y * (1.0 - c if high else c)

    def lane_step(
        self, z: float, p: float, tolerance: float, reach: float, y: float, weight: float
    ) -> tuple[float, float]:
        c, curvature = even_logistic_root(y * z, weight * p)
        return weight * y * c, weight * curvature

    def lane_exact(self, z: float, p: float, y: float) -> bool:
        return not anywhere(abs(z) + p > EVEN)

    def flow(self, q: float, p: float, y: float) -> float:
        return y * logistic_flow(y * q, p)

    def dispersion(self, slopes: float, t: float) -> float:
        return 1.0  # minus the log-likelihood of the targets

    def conjugate_grad(self, beta: float, y: float) -> float:
        c = y * beta
        if c <= 0.0 or c >= 1.0:
            return y * copysign(inf, c - 0.5)
        return y * (log(c) - log1p(-c))

    def predict(self, z: float) -> float:
        return sigmoid(z)


class Exponential(Binary):
    """Exponential loss of boosting: phi(z; y) = exp(-y z).

    dual: beta = y c where c = exp(-(y q + p c)).
    flow: beta = y log(1 + p exp(-y q)) / p.
    Where exp(-y z), or its product with a sample weight, is no double any more, the largest double stands for it.

    >>> round(Exponential().dual(0.0, 1.0, 1.0), 6), round(Exponential().flow(0.0, 1.0, 1.0), 6)
    (0.567143, 0.693147)
    """

    alias: ClassVar[str] = "exponential"
    link: ClassVar[str] = "logit"
    link_factor: ClassVar[float] = 2.0

    def value(self, z: float, y: float) -> float:
        return safe_exp(-y * z)

    def grad(self, z: float, y: float) -> float:
        return -y * safe_exp(-y * z)

    def hess(self, z: float, y: float) -> float:
        return safe_exp(-y * z)

    def dual(self, q: float, p: float, y: float) -> float:
        margin = y * q
        if p == 0.0 or log(p) - margin < -36.0:  # p c is below the rounding error of the margin
            return y * safe_exp(-margin)
        return y * min(wright_omega(log(p) - margin) / p, HUGE)

    def flow(self, q: float, p: float, y: float) -> float:
        margin = y * q
        if p == 0.0 or log(p) - margin < -36.0:  # p exp(-margin) is below the rounding error of 1
            return y * safe_exp(-margin)
        return y * min(softplus(log(p) - margin) / p, HUGE)

    def conjugate_grad(self, beta: float, y: float) -> float:
        return y * log(y * beta) if y * beta > 0.0 else -y * inf

    def predict(self, z: float) -> float:
        return sigmoid(2.0 * z)


# --- counts -----------------------------------------------------------------------------------


class Poisson(Loss):
    """Poisson deviance with log link: phi(z; y) = exp(z) - y z, for y >= 0.

    flow: beta = -log(1 + (exp(q) - y) (1 - exp(-p y)) / y) / p.

    >>> Poisson().predict(0.0), round(Poisson().dual(0.0, 1.0, 2.0), 6), round(Poisson().flow(0.0, 1.0, 2.0), 6)
    (1.0, 0.442854, 0.566219)
    """

    alias: ClassVar[str] = "poisson"
    targets: ClassVar[str] = "a finite number of at least 0"
    link: ClassVar[str] = "log"

    def value(self, z: float, y: float) -> float:
        return safe_exp(z) - y * z

    def scale_statistic(self, z: float, y: float) -> float:
        return y

    def square_slope_unit(self, slopes: float, t: float) -> float:
        return 4.0 * (slopes / t) ** 2

    def step_unit(self, slopes: float, t: float) -> float:
        """Return one over the mean target: derivatives have the unit of targets, scores have none."""
        return t / slopes if slopes > 0.0 else 1.0

    def grad(self, z: float, y: float) -> float:
        # Near 0 the difference keeps its digits through exp(z) - 1.
        return expm1(z) - (y - 1.0) if abs(z) < 0.5 else safe_exp(z) - y

    def hess(self, z: float, y: float) -> float:
        return safe_exp(z)

    def dual(self, q: float, p: float, y: float) -> float:
        if p == 0.0 or log(p) + q + p * y < -36.0:  # p exp(z) is below the rounding error of z
            return y - safe_exp(q + p * y)
        if p > HUGE:
            return 0.0
        # Where p y or q is huge, the difference has no digits left; but then z is log(y) to six, or p exp(z) is omega.
        z = q + p * y - wright_omega(log(p) + q + p * y) if p * y < 1e12 else safe_log(y)
        if abs(q) > 1e12 and p * y < HUGE:
            z = log(wright_omega(log(p) + q + p * y)) - log(p)
        for _ in range(20):
            step = ((z - q) / p + self.grad(z, y)) / (1.0 / p + safe_exp(z))
            z -= step
            if abs(step) <= EPS * abs(z):
                break
        # Two ways to beta; take the one whose terms cancel less.
        e = safe_exp(z)
        return (z - q) / p if (abs(z) + abs(q)) / p < y + e * (1.0 + abs(z)) else y - e

    def flow(self, q: float, p: float, y: float) -> float:
        slope = mean_decay(p * y) * self.grad(q, y)
        if abs(p * slope) < EPS:
            return -slope
        if -0.5 < p * slope < 1e3:
            return -log1p(p * slope) / p
        # 1 + p slope as a sum of two positive terms, given by their logarithms.
        a, b = -p * y, q + log(p * mean_decay(p * y))
        return -(max(a, b) + log1p(exp(-abs(a - b)))) / p

    def dispersion(self, slopes: float, t: float) -> float:
        return 1.0  # minus the log-likelihood of the targets

    def conjugate_grad(self, beta: float, y: float) -> float:
        return -log(y - beta) if beta < y else inf

    def predict(self, z: float) -> float:
        return safe_exp(z)

    def accepts(self, y: float) -> bool:
        return 0.0 <= y < inf

    def lower(self, y: float) -> float:
        return y - y * log(y) if y > 0.0 else 0.0


# --- the shapes several losses share ----------------------------------------------------------


def slope_to(e: float, p: float, low: float, high: float) -> float:
    """Return e / p kept in [low, high], for any p >= 0: how hard to pull a score over the distance e."""
    inside = choose(p > 0.0, e / choose(p > 0.0, p, 1.0), 0.0)
    return choose(e > high * p, high, choose(e < low * p, low, inside))  # type: ignore[no-any-return]


def beyond(e: float, epsilon: float) -> float:
    """Return the part of e outside [-epsilon, epsilon]."""
    return e - clamp(e, -epsilon, epsilon)


def mean_decay(p: float) -> float:
    """Return (1 - exp(-p)) / p, and 1 at p = 0: the mean of exp(-t) over 0 <= t <= p."""
    return -expm1(-p) / p if p > 0.0 else 1.0


def barrier(beta: float, low: float, high: float) -> float:
    """Return 0 inside [low, high], infinite outside: the edge of a conjugate's domain."""
    return -inf if beta < low else (inf if beta > high else 0.0)
