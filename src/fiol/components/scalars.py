"""Scalar functions that stay finite, for losses, geometries and solvers."""

from math import copysign, exp, inf, log, sqrt

from fiol.components.simd import choose, decay, exponential, larger, log_one_plus, smaller

#: The largest double, and the largest x whose exponential is a double.
HUGE = 1.7976931348623157e308
LOG_HUGE = 709.782712893384
#: Below this, a positive number has lost digits to underflow.
TINY = 2.2250738585072014e-308
#: The distance from 1 to the next double.
EPS = 2.220446049250313e-16
#: Slopes of scores beyond this leave a score too few digits, since the terms of its sum are much larger.
STEEP = 1e4


def safe_exp(x: float) -> float:
    """Return exp(x), with the largest double standing for anything larger.

    >>> safe_exp(0.0), safe_exp(1e6) < float("inf")
    (1.0, True)
    """
    return exp(smaller(x, LOG_HUGE))


def safe_log(x: float) -> float:
    """Return log(x) for x >= 0, minus infinity at 0."""
    return log(x) if x > 0.0 else -inf


def sigmoid(z: float) -> float:
    """Return 1 / (1 + exp(-z)), to full relative precision in both tails.

    >>> sigmoid(0.0), sigmoid(-1e6), sigmoid(1e6)
    (0.5, 0.0, 1.0)
    """
    e = exponential(-abs(z))
    return choose(z >= 0.0, 1.0, e) / (1.0 + e)


def softplus(z: float) -> float:
    """Return log(1 + exp(z)) without overflow.

    >>> softplus(1e6), softplus(-1e6)
    (1000000.0, 0.0)
    """
    return larger(z, 0.0) + log_one_plus(exponential(-abs(z)))  # type: ignore[no-any-return]


def clamp(x: float, low: float, high: float) -> float:
    """Return the point of [low, high] nearest to x."""
    return smaller(larger(x, low), high)  # type: ignore[no-any-return]


def sign(x: float) -> float:
    """Return 1 for positive numbers, -1 for negative ones, and 0 for 0."""
    return 1.0 * (x > 0.0) - 1.0 * (x < 0.0)


def soft_threshold(u: float, tau: float) -> float:
    """Return u moved towards 0 by tau, and 0 if it is nearer: the prox of tau |w|.

    >>> soft_threshold(3.0, 1.0), soft_threshold(-0.5, 1.0)
    (2.0, 0.0)
    """
    return u - clamp(u, -tau, tau)


def between(a: float, b: float) -> float:
    """Return a point between two numbers: 0 if they differ in sign, else their mean, geometric if far apart.

    Halving an interval this way reaches neighboring doubles in about 70 steps from any start,
    where plain halving needs over a thousand to come down from 1e150 to 1e-150.

    >>> between(2.0, 4.0), between(-1.0, 1.0), between(0.0, -1e300) < -1e-20
    (3.0, 0.0, True)
    """
    if smaller(a, b) < 0.0 < larger(a, b):
        return 0.0
    small, large = smaller(abs(a), abs(b)), smaller(larger(abs(a), abs(b)), HUGE)
    middle = small + 0.5 * (large - small)
    if small < 0.25 * large and large > 4.0 * TINY:
        middle = sqrt(larger(small, TINY)) * sqrt(large)
    return copysign(middle, a + b)


def power_sums(rate: float, n: float) -> tuple[float, float]:
    """Return sums over j = 1..n of s_j = (1 + rate)^-j, and of (1 - s_j) / rate, for rate >= 0.

    >>> power_sums(1.0, 2.0), power_sums(0.0, 3.0)
    ((0.75, 1.25), (3.0, 6.0))
    """
    kept = decay(float(rate), 1.0, float(n))[1] / rate if rate > 0.0 else n
    if rate * n > 0.5:
        return kept, (n - kept) / rate
    # The difference would cancel: the sum of (-rate)^k binomial(n + k + 1, k + 2) instead.
    term = 0.5 * n * (n + 1.0)
    lost, k = term, 0.0
    while abs(term) > 1e-17 * lost:
        term *= -rate * (n + k + 2.0) / (k + 3.0)
        lost += term
        k += 1.0
    return kept, lost


def wright_omega(x: float) -> float:
    """Return the solution w > 0 of w + log(w) = x, that is W(exp(x)) without forming exp(x).

    Two fourth-order steps from a guess good to a tenth; see Lawrence, Corless and Jeffrey,
    "Algorithm 917: complex double-precision evaluation of the Wright omega function", 2012.

    >>> wright_omega(1.0), wright_omega(1e6 + log(1e6)), wright_omega(-1e6)
    (1.0, 1000000.0, 0.0)
    """
    if x < -36.0:
        return exp(x)
    if x > 1e20:
        return x - log(smaller(x, HUGE))
    if x < -1.0:
        e = exp(x)
        w = e / (1.0 + e)
    elif x < 2.5:
        w = 0.5671432904097838 + 0.36189 * x + 0.0735 * x * x
    else:
        w = x - log(x) * (1.0 - 1.0 / x)
    for _ in range(2):
        r = x - w - log(w)
        t = (1.0 + w) * (1.0 + w + 2.0 * r / 3.0)
        w *= 1.0 + r / (1.0 + w) * (t - 0.5 * r) / (t - r)
    return w
