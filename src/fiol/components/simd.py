"""Operations that mean the same for a number and in every SIMD lane.

A processor's vector register holds several numbers, its lanes, and applies an operation to all of them at once. A
function written with operators, `abs` and the functions below, without a branch on a score, works for a number and for
lanes. In the interpreter lanes are an array; compiled, they are a value of their own (`fiol.compiler.lanes`), and
these functions have compiled forms (`fiol.compiler.compiled`).
"""

from __future__ import annotations

from math import exp, frexp, ldexp, log, log1p, sqrt
from typing import Any

import numpy as np

LOG2E, LN2 = 1.4426950408889634, log(2.0)
#: log(2) as a sum whose first term has so few digits that its products with whole numbers up to 2^20 are exact.
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
#: Exponentials of numbers below this count as that of this one: about 1e-304.
LOWEST = -700.0


def choose(condition: Any, a: Any, b: Any) -> Any:
    """Return a where the condition holds, b elsewhere.

    >>> choose(True, 1.0, 2.0), choose(np.array([True, False]), 1.0, 2.0)
    (1.0, array([1., 2.]))
    """
    return np.where(condition, a, b) if isinstance(condition, np.ndarray) else (a if condition else b)


def larger(a: Any, b: Any) -> Any:
    """Return the larger of two numbers, as `max` finds it."""
    return choose(b > a, b, a)


def smaller(a: Any, b: Any) -> Any:
    """Return the smaller of two numbers, as `min` finds it."""
    return choose(b < a, b, a)


def anywhere(condition: Any) -> bool:
    """Return whether a condition holds in any lane."""
    return bool(np.any(condition))


def square_root(x: Any) -> Any:
    """Return the root of numbers that are not negative."""
    return np.sqrt(x) if isinstance(x, np.ndarray) else sqrt(x)


# --- lanes and numbers ------------------------------------------------------------------------


def lanes(numbers: tuple[float, ...]) -> Any:
    """Return a lane per number.

    >>> total(2.0 * lanes((1.0, 2.0, 3.0, 4.0)))
    20.0
    """
    return np.array(numbers)


def like_lanes(values: Any, like: Any) -> Any:
    """Return the numbers in the precision of `like`."""
    return values.astype(like.dtype)


def is_short(like: Any) -> bool:
    """Return whether lanes like these are float32."""
    return bool(like.dtype.itemsize == 4)


def load_lanes(values: Any, place: Any, like: Any) -> Any:
    """Return as many numbers of a vector as `like` has lanes, from a place on."""
    return values[int(place) : int(place) + len(like)].astype(like.dtype)


def store(values: Any, place: Any, new: Any) -> None:
    """Write lanes into a vector, from a place on."""
    values[int(place) : int(place) + len(new)] = new


def lane(values: Any, k: Any) -> float:
    """Return the number in lane k."""
    return float(values[k])


def with_lane(values: Any, k: Any, x: float) -> Any:
    """Return the lanes with x in lane k."""
    new = np.array(values)
    new[k] = x
    return new


def first_lanes(values: Any, like: Any) -> Any:
    """Return the first lanes, as many as `like` has, in its precision."""
    return values[: len(like)].astype(like.dtype)


def with_first(values: Any, first: Any) -> Any:
    """Return the lanes with the first ones replaced.

    >>> with_first(np.zeros(4), np.ones(2))
    array([1., 1., 0., 0.])
    """
    new = np.array(values)
    new[: len(first)] = first
    return new


def both_lanes(a: Any, b: Any) -> Any:
    """Return twice as many lanes as a has: those of a, then those of b, repeated.

    >>> both_lanes(np.zeros(4), np.array([1.0, 2.0]))
    array([0., 0., 0., 0., 1., 2., 1., 2.])
    """
    return np.append(a, np.resize(b, len(a)))


def second_of_both(values: Any, like: Any) -> Any:
    """Return the second of `both_lanes`: as many lanes as `like` has, from the middle on."""
    return values[len(values) // 2 :][: len(like)]


def total(values: Any) -> float:
    """Return the sum of all lanes: of the first half and the second, and so on."""
    while len(values) > 1:
        half = len(values) // 2
        values = values[:half] + values[half:]
    return float(values[0])


def totals(a: Any, b: Any, c: Any, d: Any) -> Any:
    """Return the `total` of each of four, in four lanes, in the time of two.

    >>> totals(*(k * lanes((1.0, 2.0)) for k in (0.0, 1.0, 2.0, 3.0)))
    array([0., 3., 6., 9.])
    """
    return lanes((total(a), total(b), total(c), total(d)))


# --- exponentials -----------------------------------------------------------------------------


def whole_power(x: Any) -> Any:
    """Return the integer n nearest to x, and 2^n, for abs(x) <= 1022.

    >>> whole_power(2.7), whole_power(-1.0)
    ((3.0, 8.0), (-1.0, 0.5))
    """
    if isinstance(x, np.ndarray):
        n = np.rint(x)
        return n, np.ldexp(1.0, n.astype(np.int64))
    return float(round(x)), ldexp(1.0, round(x))


def rough_log2(x: Any) -> Any:
    """Return log2 of a number x > 0, to 0.09 and never too much: exact at powers of 2, and a straight line between two.

    >>> rough_log2(8.0), rough_log2(0.75)
    (3.0, -0.5)
    """
    if isinstance(x, np.ndarray):
        part, n = np.frexp(x)
        return 2.0 * part - 2.0 + n
    return 2.0 * frexp(x)[0] - 2.0 + frexp(x)[1]


def exponential(x: Any) -> Any:
    """Return exp(x); of lanes by `lane_exponential`, which is for numbers of at most 700.

    >>> exponential(0.0), exponential(np.array([0.0]))
    (1.0, array([1.]))
    """
    return lane_exponential(x) if isinstance(x, np.ndarray) else exp(x)


def lane_exponential(x: Any) -> Any:
    """Return exp(x) without a branch, for x <= 700: to 2.3e-16 down to exp(-700), which stands for all below."""
    n, power = whole_power(larger(x, LOWEST) * LOG2E)
    return power * near_one((larger(x, LOWEST) - n * LN2_HIGH) - n * LN2_LOW)


def near_one(r: Any) -> Any:
    """Return exp(r) for abs(r) <= log(2) / 2, good to 2e-17."""
    return 1.0 + small_expm1(r)


def small_expm1(r: Any) -> Any:
    """Return exp(r) - 1 for abs(r) <= log(2) / 2: a polynomial, its terms added so that few wait for others."""
    r2 = r * r
    r4 = r2 * r2
    high = (A6 + A7 * r) + r2 * (A8 + A9 * r) + r4 * (A10 + A11 * r)
    return r + r2 * ((A2 + A3 * r) + r2 * (A4 + A5 * r) + r4 * high)


def roughly_near_one(r: Any) -> Any:
    """Return exp(r) for abs(r) <= log(2) / 2, good to 4e-7, faster than `near_one`."""
    return (1.0 + r) + r * r * ((B2 + B3 * r) + r * r * (B4 + B5 * r))


def log_one_plus(x: Any) -> Any:
    """Return log(1 + x); of lanes by `lane_log_one_plus`, which is for numbers from 0 to 1."""
    return lane_log_one_plus(x) if isinstance(x, np.ndarray) else log1p(x)


def lane_log_one_plus(x: Any) -> Any:
    """Return log(1 + x) without a branch, for 0 <= x <= 1, to 4e-16."""
    return log_of_ratio(x / (2.0 + x))


def log_of_ratio(t: Any) -> Any:
    """Return log((1 + t) / (1 - t)) = 2 atanh(t) without a branch, for 0 <= t <= 1/3, to 4e-16."""
    s = t * t
    s2 = s * s
    s4 = s2 * s2
    low = (C0 + C1 * s) + s2 * (C2 + C3 * s)
    high = (C4 + C5 * s) + s2 * (C6 + C7 * s)
    return 2.0 * (t + t * s * (low + s4 * (high + s4 * C8)))


def decay(pull: Any, h: Any, n: Any) -> Any:
    """Return the parts of a weight that n rounds of a ridge leave and take: s = (1 + pull / h)^-n and 1 - s.

    For pull >= 0, h > 0 and a whole number n, one for all lanes. Both parts have an error of 1e-15 of the weight; the
    part that is taken has all digits, and so has the part that is left where a round takes half or more. The result of
    a lane does not depend on other lanes. `mild_decay` has the same numbers where few terms of the series suffice.

    >>> decay(3.0, 1.0, 2.0)
    (0.0625, 0.9375)
    """
    t = pull / (2.0 * h + pull)
    y = n * log_of_small_ratio(t)
    if anywhere(t > FEW_TERMS):
        y = choose(t > FEW_TERMS, n * log_of_ratio(t), y)
    lost = -small_expm1(-y)
    if not anywhere(y > NEAR_ONE):
        return 1.0 - lost, lost
    kept = exponential(-y)
    if anywhere(pull > h):
        kept = choose(pull > h, repeated(h / (h + pull), n), kept)
    return kept, choose(y > NEAR_ONE, 1.0 - kept, lost)


def ridge_factor(pull: Any) -> Any:
    """Return the part of a weight that one round of a ridge leaves, 1 / (1 + pull): see `decay`."""
    return 1.0 / (1.0 + pull)


def is_mild(pull: float, h: float, n: float) -> bool:
    """Return whether `mild_decay` is exact, as it is for most of what happens while a feature is absent."""
    return pull <= 2.0**-6 * h and n * pull <= NEAR_ONE * h


def mild_decay(pull: float, h: float, n: float) -> tuple[float, float]:
    """Return `decay(pull, h, n)` without a branch or a call, so that loops over rows vectorize.

    >>> mild_decay(0.0001, 1.0, 2.0) == decay(0.0001, 1.0, 2.0)
    True
    """
    lost = -small_expm1(-n * log_of_small_ratio(pull / (2.0 * h + pull)))
    return 1.0 - lost, lost


def log_of_small_ratio(t: Any) -> Any:
    """Return log((1 + t) / (1 - t)) for 0 <= t <= FEW_TERMS, to 4e-16."""
    s = t * t
    return 2.0 * (t + t * s * ((D0 + D1 * s) + s * s * D2))


def repeated(part: Any, n: Any) -> Any:
    """Return part^n by products, for a part of at most a half: 0 for n above `MOST_HALVES`."""
    left, found = int(min(n, MOST_HALVES)), 0.0 * part + 1.0
    while left > 0:
        if left % 2 == 1:
            found = found * part
        part = part * part
        left //= 2
    return found


#: 2^-1100 is 0.
MOST_HALVES = 1100.0
#: The first coefficients of s = t^2 in the inverse hyperbolic tangent of t, enough for t up to this; and the largest
#: number for `near_one`.
D0, D1, D2, FEW_TERMS, NEAR_ONE = 1.0 / 3.0, 0.2, 1.0 / 7.0, 2.0**-6, 0.34
#: Coefficients of 1, s, s^2, ... in the polynomial nearest to (atanh(t) / t - 1) / s with s = t^2 <= 1/9.
C0, C1, C2, C3 = 0.33333333333333487, 0.19999999999780063, 0.14285714338330496, 0.11111106278964857
C4, C5, C6, C7 = 0.09091130554209872, 0.07686637438179002, 0.0675117123587855, 0.05161334635249541
C8 = 0.08435350330548605
#: Coefficients of r^2, r^3, ... in the polynomials nearest to exp(r) for abs(r) <= log(2) / 2.
A2, A3, A4, A5, A6 = (
    0.5000000000000001,
    0.16666666666666669,
    0.041666666666623824,
    0.008333333333330039,
    0.0013888888917367081,
)
A7, A8, A9, A10 = 0.00019841269863171557, 2.4801521057868204e-05, 2.7557268276905696e-06, 2.7620201591031547e-07
A11, B2, B3, B4, B5 = (
    2.5100472505694996e-08,
    0.49999747983398674,
    0.1666663068148552,
    0.04183413914955366,
    0.008357247975823195,
)

#: The functions whose compiled forms are not their sources.
BY_LANES: tuple[Any, ...] = (
    choose,
    larger,
    smaller,
    anywhere,
    square_root,
    lanes,
    like_lanes,
    is_short,
    load_lanes,
    store,
    lane,
    with_lane,
    first_lanes,
    with_first,
    both_lanes,
    second_of_both,
    total,
    totals,
)
BY_LANES += (whole_power, rough_log2, exponential, log_one_plus)
