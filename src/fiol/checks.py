"""Check that a component, yours or ours, computes what its methods promise.

Each function raises `CheckError` with the component, the method and the numbers that do not agree, and returns nothing
if all checks pass. Only public methods are used.

>>> import fiol
>>> class Lopsided(fiol.Loss):
...     def value(self, z, y): return (z - y) ** 2 / 2
...     def grad(self, z, y): return 2 * (z - y)  # twice the derivative
>>> fiol.checks.check_loss(Lopsided())
Traceback (most recent call last):
fiol.checks.CheckError: Lopsided().grad: at z = -100, y = -2 the line of slope -196 lies above the value at v = -100.001
"""

from __future__ import annotations

import copy
import functools
import itertools
import os
import pickle
import sys
from collections.abc import Callable, Sequence
from math import inf, isfinite
from types import CodeType, FunctionType, TracebackType
from typing import Any, TypeVar

import numpy as np

from fiol.algorithms.ensemble import Ensemble
from fiol.algorithms.update import Update
from fiol.components.component import Component, check_complete, per_feature_sizes
from fiol.components.geometries import Euclidean, Geometry, Separable, SignedEntropy
from fiol.components.lane_checks import check_lanes
from fiol.components.losses import LINKS, Huber, Loss, Poisson, Squared
from fiol.components.regularizers import L1, Box, ElasticNet, Regularizer, Unregularized
from fiol.components.row import Floats
from fiol.components.solvers import Bisection, Solver
from fiol.components.step_sizes import Observation, ScaleFree, StepOutcome, StepRule, StepSize, states_its_rule
from fiol.components.step_sizes.rule import base_metric, metric, peak_of, raise_peak
from fiol.learner import Learner
from fiol.step import Step, solve_step

SCORES = (-100.0, -10.0, -3.0, -1.0, -0.5, -1e-3, 0.0, 1e-3, 0.5, 1.0, 2.0, 10.0, 100.0)
#: Scores at which loss and slope must be finite: streams have such outliers.
OUTLIERS = (-1000.0, 1000.0)
TARGETS = (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0)
SLOPES = (0.0, 1e-6, 0.1, 1.0, 10.0, 1e6)
#: Scores and slopes of large rows, which members in SIMD lanes meet, too.
FAR_SCORES = (-1e12, -1e9, -1e6, *SCORES, 1e6, 1e9, 1e12)
FAR_SLOPES = (*SLOPES, 1e3, 1e9, 1e12)
WEIGHTS = (-20.0, -2.0, -1.0, -0.3, -1e-3, 0.0, 1e-3, 0.1, 0.5, 1.0, 3.0, 20.0)
STEPS = (1e-3, 0.5, 1.0, 100.0)
ROUNDS = (1.0, 2.0, 3.0, 10.0, 1e3, 1e6, 1e9)
#: Relative tolerance for rounding.
ROUNDING = 1e-9


class CheckError(AssertionError):
    """A component violates the contract of its methods."""


Check = TypeVar("Check", bound=Callable[..., None])
#: Modules of this package's components.
OUR_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep


def naming_methods(check: Check) -> Check:
    """Return a check that reports an error in a user's method as a `CheckError` with the method and its arguments."""

    @functools.wraps(check)
    def named(*args: Any, **kwargs: Any) -> None:
        try:
            check(*args, **kwargs)
        except CheckError:
            raise
        except Exception as error:
            call = users_call(error.__traceback__)
            if not call:
                raise
            raise CheckError(f"{call} raises {type(error).__name__}: {error}") from error

    return named  # type: ignore[return-value]


def users_call(trace: TracebackType | None) -> str:
    """Return the last call of a user's method in a traceback, with its arguments; '' if there is none."""
    found = ""
    while trace is not None:
        code, values = trace.tb_frame.f_code, trace.tb_frame.f_locals
        names = code.co_varnames[: code.co_argcount]
        owner = values.get(names[0]) if names else None
        if isinstance(owner, Component) and not code.co_filename.startswith(OUR_FOLDER):
            given = ", ".join(f"{name}={values[name]!r}" for name in names[1:])
            found = f"{owner!r}.{code.co_name}: at {given} it"
        trace = trace.tb_next
    return found


@naming_methods
def check_loss(loss: Loss, targets: Sequence[float] | None = None) -> None:
    """Check a loss: convexity, derivatives, prox, flow, conjugate, lower bound, link, compilation, copies.

    `targets` are the y to try; by default some that the loss accepts.

    >>> import fiol
    >>> fiol.checks.check_loss(fiol.Logistic())
    """
    check_component(loss, Loss)
    ys = [y for y in TARGETS if loss.accepts(y)] if targets is None else list(targets)
    must_hold(bool(ys), loss, "accepts", "none of the usual targets is accepted; pass `targets`")
    for y, z in itertools.product(ys, OUTLIERS):
        for method, found in (("value", loss.value(z, y)), ("grad", loss.grad(z, y))):
            must_hold(isfinite(found), loss, method, f"at z = {z:g}, y = {y:g} it is {found}")
    for y, z in itertools.product(ys, SCORES):
        check_subgradient(loss, "grad", loss.grad(z, y), z, y)
        floor = loss.lower(y)
        must_hold(
            loss.value(z, y) >= floor - ROUNDING * abs(floor), loss, "lower", f"value({z:g}, {y:g}) is below {floor:g}"
        )
        if loss.shift_invariant:
            same = close(loss.value(z, y), loss.value(z + 8.0, y + 8.0))
            must_hold(same, loss, "shift_invariant", f"value({z:g}, {y:g}) changes if 8 is added to both")
        if loss.has("hess"):
            check_derivative(loss, "hess", lambda v, y=y: loss.grad(v, y), loss.hess(z, y), z)  # type: ignore[misc]
        if loss.has("conjugate_grad"):
            beta = -loss.grad(z, y)
            back = -loss.conjugate_grad(beta, y)
            if abs(back) < inf and abs(beta) > 1e-300:
                check_subgradient(loss, "conjugate_grad", -beta, back, y)
    for y, q, p in itertools.product(ys, SCORES, SLOPES):
        beta = loss.dual(q, p, y)
        must_hold(isfinite(beta), loss, "dual", f"dual({q:g}, {p:g}, {y:g}) is {beta}")
        check_subgradient(loss, "dual", -beta, q + p * beta, y, where=f"for q = {q:g}, p = {p:g}: ")
        if loss.has("flow"):
            check_flow(loss, q, p, y)
    unused = "lane_step" in vars(type(loss)) and not loss.lanes
    must_hold(not unused, loss, "lane_step", "no lane uses it: set lanes = True in the class")
    if loss.lanes:
        check_lane_steps(loss, ys)
    if loss.states_link():
        check_link(loss)
    if loss.has("flat_interval"):
        for y in ys:
            check_valley(loss, y)
    y = ys[-1]
    check_compiled(loss, lambda c: step(y=y, loss=loss, regularizer=L1(0.1), compiled=c))


@naming_methods
def check_regularizer(regularizer: Regularizer, d: int | None = None) -> None:
    """Check a regularizer for features 0 to d - 1: convexity, prox, pieces, kinks, slopes, missed rounds.

    `d` is by default the length of its per-feature arrays, 4 if it has none.

    >>> import fiol
    >>> fiol.checks.check_regularizer(fiol.Box(fiol.ElasticNet(0.1, 0.5), lo=-1.0))
    """
    check_component(regularizer, Regularizer)
    d = d or max((shape[0] for _, shape in per_feature_sizes(regularizer) if shape), default=4)
    r = regularizer
    for i, u, step_size in itertools.product(range(d), WEIGHTS, STEPS):
        here = f"at u = {u:g}, step = {step_size:g}, i = {i}"
        w = r.prox(u, step_size, i)
        best = r.value(w, i) + (w - u) ** 2 / (2 * step_size)
        for v in (*WEIGHTS, w - 1e-3, w + 1e-3, 0.999 * w, 1.001 * w):
            other = r.value(v, i) + (v - u) ** 2 / (2 * step_size)
            worse = other >= best - ROUNDING * (1 + abs(best))
            must_hold(worse, r, "prox", f"{here} it is {w:g}, but v = {v:g} is better: {other:g} < {best:g}")
        if r.has("piece"):
            m, b = r.piece(u, step_size, i)
            must_hold(close(m * u + b, w), r, "piece", f"{here} it gives {m * u + b:g}, but prox is {w:g}")
            share = r.share(2.0, u, 0.5, step_size, i)
            m, b = r.piece(u + step_size, step_size, i)
            expected = (4.0 * m, 2.0 * (m * u + b))
            must_hold(
                close(share[0], expected[0]) and close(share[1], expected[1]),
                r,
                "share",
                f"{here} is {share}, not {expected}",
            )
        if r.has("kink"):
            check_pieces(r, step_size, i)
        inside = r.clip(u)
        for side in (-1, 0, 1) if r.has("slope") else ():
            s = r.slope(inside, side, i)
            for v in map(r.clip, (*WEIGHTS, inside - 1e-4, inside + 1e-4)):
                above = r.value(v, i) >= r.value(inside, i) + s * (v - inside) - ROUNDING * (1 + abs(s * v))
                must_hold(above, r, "slope", f"{here}: slope {s:g} is no subgradient at w = {inside:g}")
        for begin in {u, inside}:
            looped = begin
            for n in range(4):
                once = r.catch_up(begin, step_size, n, i)
                must_hold(
                    close(once, looped), r, "catch_up", f"{here}: {n} rounds give {once:g}, one by one {looped:g}"
                )
                looped = r.prox(looped, step_size, i)
    check_compiled(r, lambda c: step(loss=Squared(), regularizer=r, d=d, compiled=c))


@naming_methods
def check_geometry(geometry: Geometry, d: int = 4) -> None:
    """Check a geometry for features 0 to d - 1: mirror map and inverse, divergence, strong convexity, working weights.

    >>> import fiol
    >>> fiol.checks.check_geometry(fiol.Entropy())
    """
    check_component(geometry, Geometry)
    positive = is_positive(geometry)
    g = geometry
    for i in range(d) if isinstance(g, Separable) else ():
        assert isinstance(g, Separable)
        for w in (v for v in WEIGHTS if v > 0.0 or not positive):
            here = f"at w = {w:g}, i = {i}"
            theta = g.mirror(w, i)
            must_hold(
                close(g.inverse(theta, i), w), g, "inverse", f"{here}: inverse(mirror(w)) = {g.inverse(theta, i):g}"
            )
            check_derivative(g, "mirror, inverse_hess", lambda v, i=i: g.mirror(v, i), 1 / g.inverse_hess(w, i), w)  # type: ignore[misc]
            for ridge in (0.0, 0.5, 10.0):
                v = g.resolve(theta, ridge, i)
                left = g.mirror(v, i) + ridge * v
                near = abs(left - theta) <= ROUNDING * (1.0 + abs(theta) + abs(ridge * v))
                must_hold(near, g, "resolve", f"{here}: mirror + {ridge:g} v = {left:g}, not {theta:g}")
            for u in (v for v in WEIGHTS if v > 0.0 or not positive):
                b = g.divergence(u, w, i)
                must_hold(b >= 0.0 and (b > 0.0) == (u != w), g, "divergence", f"B({u:g}, {w:g}) = {b:g}")
                slope = g.mirror(u, i) - theta
                check_derivative(g, "divergence", lambda v, w=w, i=i: g.divergence(v, w, i), slope, u)  # type: ignore[misc]
    check_reparametrization(g, d)
    if type(g).norm is not Geometry.norm:
        check_strong_convexity(g, d)
    check_compiled(g, lambda c: step(loss=Squared(), geometry=g, d=d, compiled=c))


@naming_methods
def check_solver(solver: Solver, rounds: int = 30) -> None:
    """Check a solver against bisection on random rows that it supports.

    >>> import fiol
    >>> fiol.checks.check_solver(fiol.Sorting())
    """
    check_component(solver, Solver)
    rng = np.random.default_rng(0)
    parts = itertools.product(
        (Squared(), Huber(0.5), Poisson()),
        (Unregularized(), L1(0.1), Box(ElasticNet(0.1, 0.2), -0.5, 0.5)),
        (Euclidean(),),
    )
    used = None
    for loss, regularizer, geometry in parts:
        if solver.objection(regularizer, geometry):
            continue
        used = loss, regularizer
        for _ in range(rounds):
            x, w = rng.standard_normal((2, int(rng.integers(1, 9))))
            eta, y = float(10 ** rng.uniform(-3, 3)), float(rng.integers(0, 4))
            here = f"x = {x.tolist()}, y = {y:g}, w = {w.tolist()}, eta = {eta:g}, {loss}, {regularizer}"
            args: dict[str, Any] = {"loss": loss, "regularizer": regularizer, "eta": eta, "compiled": False}
            got, expected = (solve_step(x, y, w, solver=s, **args) for s in (solver, Bisection()))
            must_hold(
                np.allclose(got.w, expected.w, rtol=1e-9, atol=1e-11),
                solver,
                "solve",
                f"{here}: {got.w} != {expected.w}",
            )
            must_hold(got.residual <= 1e-9 * (1 + abs(got.beta)), solver, "solve", f"{here}: residual {got.residual:g}")
    must_hold(used is not None, solver, "objection", "it objects to everything")
    assert used is not None
    check_compiled(solver, lambda c: step(loss=used[0], regularizer=used[1], solver=solver, compiled=c))


@naming_methods
def check_step_size(step_size: StepSize) -> None:
    """Check a step size: steps over many rounds, metrics and statistics over values of many sizes, units, compilation.

    Public methods that neither step sizes nor other methods of the class use are refused, too.

    >>> import fiol
    >>> fiol.checks.check_step_size(fiol.Polynomial(0.5))
    """
    check_component(step_size, StepSize)
    for part in (step_size, getattr(step_size, "step_size", step_size)):
        check_methods(part, StepSize)
    check_copies(step_size)
    in_lane = states_its_rule(step_size)
    for t in ROUNDS:
        eta = step_size.eta(t)
        must_hold(isfinite(eta) and eta > 0.0, step_size, "eta", f"eta({t:g}) is {eta}")
        same = not (step_size.properties().constant or in_lane) or eta == step_size.eta(1.0)
        must_hold(same, step_size, "constant", f"eta({t:g}) is {eta:g}, but eta(1) is {step_size.eta(1.0):g}")
    if step_size.per_feature:
        records = [check_record(step_size, 0)]
        free = step_size if isinstance(step_size, ScaleFree) else ScaleFree(step_size)
        records += [check_record(free, power) for power in (0, -8, 12)]
        for power, found in zip((-8, 12), records[2:], strict=True):
            fits = np.array_equal(found * 4.0**-power, records[1])
            must_hold(fits, free, "h", f"is {found[-1]:g} for values times 2^{power}, {records[1][-1]:g} without")
    ours, plain = (stream(step_size, compiled) for compiled in (True, False))
    must_hold(np.allclose(ours, plain, rtol=1e-9, atol=1e-12), step_size, "compiled", f"{ours} is not {plain}")
    if in_lane:
        beside = stream(step_size, True, members=2)
        message = f"in lanes a stream gives the weights {beside}, alone {plain}"
        must_hold(np.allclose(beside, plain, rtol=1e-9, atol=1e-12), step_size, "rule", message)


# --- single checks ----------------------------------------------------------------------------


def check_component(component: Component, family: type[Component]) -> None:
    """Check the family of a component, and that it has the required methods."""
    must_hold(isinstance(component, family), component, "class", f"not a {family.__name__}")
    check_complete(component)


def check_methods(component: Component, family: type[Component]) -> None:
    """Check that the public methods of a user's class are those of its family, or used by others of its methods."""
    classes = type(component).__mro__
    own = [cls for cls in classes if issubclass(cls, family) and not cls.__module__.startswith("fiol.")]
    methods = [(name, found) for cls in own for name, found in vars(cls).items() if isinstance(found, FunctionType)]
    known = set(component.protocol).union(*(vars(cls) for cls in classes if cls not in own))
    known = known.union(*(names_used(method.__code__) for _, method in methods))
    of_family = {name for name, found in vars(family).items() if isinstance(found, FunctionType) and name[0] != "_"}
    methods_known = ", ".join(sorted(of_family.union(component.protocol)))
    for name, _ in methods:
        message = f"{family.__name__} has no such method, and no other method uses it: it has {methods_known}"
        must_hold(name[0] == "_" or name in known, component, name, f"{message}; name a method of your own _{name}")


def names_used(code: CodeType) -> set[str]:
    """Return the names of attributes and globals that a function uses, and the functions in it."""
    inner = (names_used(part) for part in code.co_consts if isinstance(part, CodeType))
    return set(code.co_names).union(*inner)


def check_copies(component: Component) -> None:
    """Check that copies are equal, and pickles too if pickle can find the class."""
    twins = [copy.deepcopy(component), component.replace()]
    if is_importable(type(component)):
        twins.append(pickle.loads(pickle.dumps(component)))
    for twin in twins:
        same = twin == component and hash(twin) == hash(component) and repr(twin) == repr(component)
        must_hold(same, component, "copy", f"came back as {twin!r}")


def is_importable(cls: type) -> bool:
    """Return whether a class can be found by its name, unlike one defined inside a function."""
    found: Any = sys.modules.get(cls.__module__)
    for part in cls.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is cls


def check_record(step_size: StepSize, power: int) -> Floats:
    """Return the metrics of a feature after values times 2^power, with the same loss; check its statistics."""
    step_size = step_size.for_loss(Squared())  # as in a round
    s, found, pulled = np.zeros(step_size.width()), [], False
    rule, total = step_size.rule() if states_its_rule(step_size) else None, 0.0
    for x, square in itertools.product((1.0, -0.25, 3.0, 1e-6, 1e6), (0.0, 1.0, 1e-8, 1e8)):
        value = x * 2.0**power
        raise_peak(step_size, s, value)
        length = 1.0 + (value / (peak_of(step_size, s) if isinstance(step_size, ScaleFree) else 1.0)) ** 2
        pulled = pulled or square > 0.0
        with np.errstate(all="ignore"):
            step_size.observe(s, Observation(value, square, length))
            h = step_size.h(s, 1.0)
            if rule is not None:
                total += rule.squares * square * value * value
                check_rule(step_size, rule, h, length, total, peak_of(step_size, s) ** 2 if rule.scale_free else 1.0)
                total += rule.curvatures * square * value * value
            step_size.observe_step(s, StepOutcome(value, square, square**0.5, (0.5 - (x < 0.0)) * square**0.5))
        here = f"for x = {value:g}, square = {square:g}"
        must_hold(bool(np.isfinite(s).all()), step_size, "observe", f"{here} the record becomes {s}")
        must_hold(isfinite(h) and h >= 0.0, step_size, "h", f"{here} it is {h} with the record {s}")
        must_hold(h > 0.0 or not pulled, step_size, "h", f"{here} it is 0 after gradients: no steps at all")
        found.append(h)
    own = s[: step_size.step_size.width()] if isinstance(step_size, ScaleFree) else s
    message = f"writes nothing into the record, which stays {own} (it is written to, not returned)"
    must_hold(not own.size or bool(own.any()), step_size, "observe", message)
    return np.array(found)


def check_rule(step_size: StepSize, rule: StepRule, h: float, length: float, total: float, unit: float) -> None:
    """Check that `rule` and `h` give the same step for a feature with the sum `total` and the squared unit `unit`."""
    by_rule = unit * metric(rule, base_metric(rule, length), (total / unit) ** 0.5, total / unit)
    steps = [size / its if its > 0.0 else 0.0 for size, its in ((rule.size, by_rule), (step_size.eta(1.0), h))]
    message = f"in lanes the step is {steps[0]:g}, by `h` it is {steps[1]:g}, where the sum of the feature is {total:g}"
    must_hold(abs(steps[0] - steps[1]) <= ROUNDING * abs(steps[1]), step_size, "rule", message)


def check_subgradient(loss: Loss, method: str, slope: float, z: float, y: float, where: str = "") -> None:
    """Check that a line through (z, phi(z)) with a subgradient as slope is nowhere above a convex phi."""
    base = loss.value(z, y)
    for v in (*SCORES, z - 1e-3, z + 1e-3, z * 0.99, z * 1.01):
        height = base + slope * (v - z)
        slack = ROUNDING * (abs(base) + abs(slope) * (abs(v) + abs(z)) + abs(y * z)) + 1e-12
        message = f"{where}at z = {z:g}, y = {y:g} the line of slope {slope:g} lies above the value at v = {v:g}"
        must_hold(loss.value(v, y) >= height - slack, loss, method, message)


def check_lane_steps(loss: Loss, ys: Sequence[float]) -> None:
    """Check that lanes take the methods of a loss, and that steps in lanes are exact wherever `lane_exact` says so."""
    try:
        check_lanes(loss)
    except TypeError as error:
        raise CheckError(str(error)) from error
    q, p = (part.ravel() for part in np.meshgrid(FAR_SCORES, FAR_SLOPES))
    in_lanes: Any = loss.lane_step  # takes lanes, too
    for y, weight in itertools.product(ys, (1.0, 0.25)):
        with np.errstate(all="ignore"):
            found = [np.broadcast_to(part, q.shape) for part in in_lanes(q, p, 0.0, 1.0, y, weight)]
        for k, (z, slope) in enumerate(zip(q.tolist(), p.tolist(), strict=True)):
            if loss.lane_exact(z, weight * slope, y):
                check_lane_step(loss, z, slope, y, weight, float(found[0][k]), float(found[1][k]))


def check_lane_step(loss: Loss, z: float, p: float, y: float, weight: float, beta: float, met: float) -> None:
    """Check beta and curvature of a step in a lane against those of exact steps from scores that rounding may give."""
    here, exact = (
        f"for z = {z:g}, p = {p:g}, y = {y:g}, weight = {weight:g}",
        loss.exact_step(z, p, 0.0, 1.0, y, weight),
    )
    off = 8.0 * float(np.spacing(abs(z) + abs(p * exact[0]) + abs(y)))
    steps = [exact, *(loss.exact_step(z + move, p, 0.0, 1.0, y, weight) for move in (-off, off))]
    for what, lane, all_exact in zip(("beta", "the curvature"), (beta, met), zip(*steps, strict=True), strict=True):
        slack = ROUNDING * max(map(abs, all_exact)) + 1e-14 * weight
        inside = min(all_exact) - slack <= lane <= max(all_exact) + slack
        message = f"{here} {what} is {lane!r} in lanes, {all_exact[0]!r} by `exact_step`"
        must_hold(inside, loss, "lane_step", f"{message}; where it is not exact, `lane_exact` must be False")
    low, high = (-weight * loss.grad(z + p * beta + move, y) for move in (off, -off))
    slack = ROUNDING * max(abs(low), abs(high)) + 1e-14 * weight
    message = f"{here} beta is {beta:g}, but -weight grad at the new score is between {low:g} and {high:g}"
    must_hold(low - slack <= beta <= high + slack, loss, "lane_step", message)


def check_flow(loss: Loss, q: float, p: float, y: float) -> None:
    """Check that the score q + p flow(q, p, y) moves at the speed -phi' as p grows, and starts with -phi'(q)."""
    here, beta = f"for q = {q:g}, p = {p:g}, y = {y:g}", loss.flow(q, p, y)
    must_hold(isfinite(beta), loss, "flow", f"{here} it is {beta}")
    if p == 0.0:
        check_subgradient(loss, "flow", -beta, q, y, where=f"{here}: ")
        return
    before, after = (1.0 - 1e-4) * p, (1.0 + 1e-4) * p
    moves = [t * loss.flow(q, t, y) for t in (before, after)]
    speed = (moves[1] - moves[0]) / (after - before)
    off = 1e-12 * (abs(q) + abs(p * beta) + abs(y) + 1.0)
    least, most = -loss.grad(q + max(moves) + off, y), -loss.grad(q + min(moves) - off, y)
    slack = 1e-7 * abs(beta)
    message = f"{here} the score moves at speed {speed:g}, but -grad there is between {least:g} and {most:g}"
    must_hold(least - slack <= speed <= most + slack, loss, "flow", message)


def check_link(loss: Loss) -> None:
    """Check that `predict` agrees with the link."""
    for z in SCORES:
        expected, found = LINKS[loss.link](loss.link_factor * z), loss.predict(z)
        message = f"at z = {z:g} it is {found:g}, but the link {loss.link!r} gives {expected:g}"
        must_hold(close(found, expected), loss, "predict", message)


def check_valley(loss: Loss, y: float) -> None:
    """Check that a piecewise linear loss is 0 from a to b, and has one slope on either side."""
    a, b = loss.flat_interval(y)
    left, right = loss.grad(-inf, y), loss.grad(inf, y)
    must_hold(a <= b, loss, "flat_interval", f"for y = {y:g} it ends at {b:g}, before its start {a:g}")
    for z in (*SCORES, a, b):
        expected, found = max(left * (z - a), right * (z - b), 0.0), loss.value(z, y)
        message = f"for y = {y:g} the value at z = {z:g} is {found:g}, but straight lines have {expected:g}"
        must_hold(close(found, expected), loss, "flat_interval", message)


def check_derivative(
    component: Component, method: str, function: Callable[[float], float], slope: float, z: float
) -> None:
    """Check a derivative by a central difference, unless the one-sided ones show a kink."""
    h = 1e-5 * max(1e-2, abs(z))
    if is_positive(component) and z - h <= 0.0:
        return
    right, left = (function(z + h) - function(z)) / h, (function(z) - function(z - h)) / h
    slack = 1e-3 * (abs(slope) + abs(right)) + 1e-16 / h * (1 + abs(function(z)))
    if abs(right - left) <= slack:
        middle = 0.5 * (right + left)
        must_hold(
            abs(middle - slope) <= slack,
            component,
            method,
            f"at {z:g} it is {slope:g}, but differences give {middle:g}",
        )


def check_reparametrization(g: Geometry, d: int) -> None:
    """Check that working weights are restored to the same weights, and give rows the same scores."""
    rng, to = np.random.default_rng(0), g.reparametrization()
    name = f"reparametrization() = {type(to).__name__}"
    n = d * to.weights_per_feature
    for _ in range(5):
        w, index = start_weights(g, d, rng), np.flatnonzero(rng.random(d) < 0.7).astype(np.int32)
        working = to.transform_weights(w)
        must_hold(working.shape == (n,), g, name, f"{d} weights become an array of shape {working.shape}, not ({n},)")
        restored = to.restore_step(w, working, working)
        must_hold(np.allclose(restored, w, rtol=ROUNDING, atol=0.0), g, name, f"{w} is restored as {restored}")
        model = to.restore_weights(working)
        x = rng.standard_normal(index.size)
        _, feature, values = to.transform_rows((np.array([0, index.size]), index, x), d)
        there, here = float(values @ working[feature]), float(x @ model[index])
        rounding = ROUNDING * float(np.abs(values) @ np.abs(working[feature]))
        must_hold(abs(there - here) <= rounding, g, name, f"the score {here:g} of a row becomes {there:g}")


def check_strong_convexity(g: Geometry, d: int) -> None:
    """Check that B(u, w) >= c/2 norm(u - w)^2, and that the two norms are dual."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        u, w, x = start_weights(g, d, rng), start_weights(g, d, rng), rng.standard_normal(d)
        distance, bound = g.distance(u, w), 0.5 * g.strong_convexity(u, w) * g.norm(u - w) ** 2
        must_hold(distance >= bound * (1 - ROUNDING), g, "strong_convexity", f"B = {distance:g} is less than {bound:g}")
        if w.shape == x.shape:
            inner, most = abs(float(x @ w)), g.norm(w) * g.dual_norm(x)
            must_hold(inner <= most * (1 + ROUNDING), g, "dual_norm", f"|<x, w>| = {inner:g} > {most:g}")


def check_pieces(r: Regularizer, step_size: float, i: int) -> None:
    """Check that the prox is linear between neighboring kinks."""
    kinks = sorted(k for k in (r.kink(j, step_size, i) for j in range(r.kinks())) if isfinite(k))
    edges = [(kinks[0] if kinks else 0.0) - 9.0, *kinks, (kinks[-1] if kinks else 0.0) + 9.0]
    for low, high in itertools.pairwise(edges):
        a, b, c = (r.prox(low + t * (high - low), step_size, i) for t in (0.01, 0.5, 0.99))
        straight = abs(a + c - 2 * b) <= 1e-9 * (abs(a) + abs(b) + abs(c) + high - low)
        must_hold(straight, r, "kink", f"the prox bends between {low:g} and {high:g} for step = {step_size:g}, i = {i}")


def check_compiled(component: Component, solve: Callable[[bool], Step]) -> None:
    """Check that the compiled step agrees with the interpreter, also for a copy."""
    check_copies(component)
    ours, plain = solve(True), solve(False)
    must_hold(np.allclose(ours.w, plain.w, rtol=1e-12, atol=1e-14), component, "compiled", f"{ours.w} is not {plain.w}")


def must_hold(holds: bool, component: Component, method: str, message: str) -> None:
    """Raise CheckError unless a condition holds."""
    if not holds:
        raise CheckError(f"{component!r}.{method}: {message}")


# --- material ---------------------------------------------------------------------------------


def close(a: float, b: float) -> bool:
    """Return whether numbers are equal up to rounding."""
    return abs(a - b) <= ROUNDING * (1e-3 + abs(a) + abs(b))


def is_positive(component: Component) -> bool:
    """Return whether a geometry keeps every weight above 0 on its own."""
    return isinstance(component, Separable) and component.least_weight() == 0.0


def start_weights(geometry: Geometry, d: int, rng: np.random.Generator) -> Floats:
    """Return random weights in the domain of the geometry."""
    w = rng.standard_normal(d)
    if geometry.reparametrization().weights_per_feature == 2:
        return SignedEntropy.split(w)
    for candidate in (np.abs(w),) if is_positive(geometry) else (w, np.abs(w) / np.abs(w).sum()):
        try:
            geometry.check_domain(candidate)
        except ValueError:
            continue
        return candidate
    raise CheckError(f"{geometry!r}.check_domain: refuses every kind of weights")


def stream(step_size: StepSize, compiled: bool, members: int = 1) -> Floats:
    """Return the weights after a short, fixed stream; with several equal members, those of one in a SIMD lane."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((8, 3)) * (rng.random((8, 3)) < 0.7)
    update = Update(Squared(), Unregularized(), step_size)
    learner = Learner(update if members == 1 else Ensemble((update,) * members), n_features=3, compiled=compiled)
    learner.learn(X, rng.standard_normal(8))
    learner = learner if members == 1 else learner.member(0)
    return np.append(learner.weights, learner.intercept)


def step(
    *,
    loss: Loss,
    compiled: bool,
    y: float = 1.0,
    d: int = 4,
    regularizer: Regularizer | None = None,
    geometry: Geometry | None = None,
    solver: Solver | None = None,
) -> Step:
    """Return one step of a small, fixed problem."""
    rng = np.random.default_rng(1)
    w, x = start_weights(geometry or Euclidean(), d, rng), rng.standard_normal(d)
    args: dict[str, Any] = {"regularizer": regularizer, "geometry": geometry, "solver": solver}
    return solve_step(x, y, w, loss=loss, eta=0.5, compiled=compiled, **args)
