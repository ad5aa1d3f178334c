"""Roots of the equations that steps of the logistic loss solve, for a number and in SIMD lanes."""

from __future__ import annotations

from math import exp, expm1, log, log1p

from fiol.components.scalars import EPS, clamp, sigmoid, wright_omega
from fiol.components.simd import (
    LN2,
    LN2_HIGH,
    LN2_LOW,
    LOG2E,
    LOWEST,
    anywhere,
    choose,
    larger,
    near_one,
    rough_log2,
    roughly_near_one,
    smaller,
    whole_power,
)

#: `even_logistic_root` is for scores and slopes of at most this sum, and for margins of at most this if every digit of
#: the smallest roots counts.
EVEN, UNFINISHED = 1e6, 690.0
#: -log(1 - c) is about this many times c, for c up to a half.
AHEAD = 1.3
#: Coefficients of 1, x, x^2, x^3 in the polynomial nearest to the Wright omega function for -3 <= x <= 10.
COEF0, COEF1, COEF2, COEF3 = 0.5867, 0.37642, 0.060677, -0.0025004


def even_logistic_root(margin: float, p: float) -> tuple[float, float]:
    """Return c and c (1 - c) with c = sigmoid(-(margin + p c)), to 1e-15 without branch or loop.

    That is so where abs(margin) + p is at most EVEN, and c at least 1e-303.

    Where c would exceed a half, the equation is solved for 1 - c, by symmetry. Then the new margin u is at least 0,
    and the root of f(u) = (u - margin) (1 + exp(-u)) - p exp(-u). The first guess solves the equation with log(1 - c)
    replaced by -1.3 c, by a rough Wright omega function, and is good to 0.13; Householder's step of third order makes
    that 1e-6, and Halley's the rest, with no other exponential.
    """
    high = margin < -0.5 * p
    margin = choose(high, -margin - p, margin)
    floor, omega = larger(margin, 0.0), rough_omega(rough_log(p + AHEAD) - margin)
    u = larger(margin + omega * (p / (p + AHEAD)), floor)
    end = larger(-u, LOWEST)
    n, power = whole_power(end * LOG2E)
    r = end - n * LN2_HIGH
    e, full = power * roughly_near_one(r), power * near_one(r - n * LN2_LOW)
    v = u - margin
    f, b = v * (1.0 + e) - p * e, p - v
    f1, f2, f3 = 1.0 + e * (b + 1.0), e * (b + 2.0), e * (b + 3.0)
    step = f * (6.0 * (f1 * f1) + 3.0 * (f * f2)) / (6.0 * f1 * (f1 * f1 + f * f2) + f * f * f3)
    step = smaller(step, u - floor)
    e, v = full * near_one(step), v - step
    odds = 1.0 / (1.0 + e)
    c, k = e * odds, e * odds * odds
    f, b = v * (1.0 + e) - p * e, p - v
    f1 = 1.0 + e * (b + 1.0)
    step = 2.0 * f * f1 / (2.0 * (f1 * f1) + f * (e * (b + 2.0)))
    c = c + k * step * (1.0 + step * ((0.5 - c) + step * (1.0 / 6.0 - k)))
    return choose(high, 1.0 - c, c), c * (1.0 - c)


def rough_log(x: float) -> float:
    """Return log(x) to 0.03."""
    return LN2 * rough_log2(x) + 0.0298  # type: ignore[no-any-return]


def rough_omega(x: float) -> float:
    """Return the solution w > 0 of w + log(w) = x, to 0.1 or so. A polynomial is fastest, and few x are large."""
    small = larger(x, -3.0)
    w = (COEF0 + COEF1 * small) + small * small * (COEF2 + COEF3 * small)
    if anywhere(x > 10.0):
        log_x = rough_log(larger(x, 1.0))
        w = choose(x > 10.0, x - log_x + larger(0.42 - 0.085 * log_x, 0.0), w)
    return w  # type: ignore[no-any-return]


def far_logistic_root(margin: float, p: float) -> float:
    """Return the c with c = sigmoid(-(margin + p c)), by Newton's method on log(c / (1 - c)) + margin + p c.

    The start solves the same equation with log(1 - c) replaced by -c.
    """
    high = margin < -0.5 * p
    margin = -margin - p if high else margin
    c = smaller(wright_omega(log1p(p) - margin) / (1.0 + p), 0.5)
    if p * c < EPS:
        c = sigmoid(-margin)
    else:
        for _ in range(20):
            step = (log(c) - log1p(-c) + margin + p * c) / (1.0 / (1.0 - c) + p * c)
            c *= 1.0 - step
            if abs(step) <= 1e-9:  # the next step would be of the order of its square
                break
    return 1.0 - c if high else c


def logistic_flow(margin: float, p: float) -> float:
    """Return d / p for the d >= 0 with d + exp(margin) (exp(d) - 1) = p.

    d lies between log(1 + p c) and p c, c = sigmoid(-margin).
    """
    c = sigmoid(-margin)
    if p * c < EPS:
        return c
    d = log1p(p * c)  # for margin >= 0 off by log(2) at most
    if margin < 0.0:
        # The new margin u has u + exp(u) = end. This loses digits of d, but never comes out far from it.
        end = margin + p + exp(margin)
        e = wright_omega(end)
        d = clamp((end - e if end < 1.0 else log(e)) - margin, d, p * c)
    for _ in range(20):
        # Halley's method, all divided by the derivative 1 + exp(margin + d), so that nothing overflows.
        curvature = sigmoid(margin + d)
        step = (d - p) * sigmoid(-margin - d) - curvature * expm1(-d)
        step /= 1.0 - 0.5 * step * curvature
        d -= step
        if abs(step) <= 1e-5 * min(d, 1.0):  # the next one would be of the order of its cube
            break
    return d / p
