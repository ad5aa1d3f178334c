"""Compiled code matches the interpreter for all pairs of components."""

import dis
import itertools
import pickle
import sys

import numpy as np
import pytest
from material import LOSSES, SOLVERS

import fiol
from fiol.compiler.fingerprint import global_names
from fiol.components.subproblem import make_problem

D = 5
REGULARIZERS = [
    fiol.Unregularized(),
    fiol.L1(0.1),
    fiol.Ridge(0.3),
    fiol.ElasticNet([0.1, 0.0, 0.2, 0.3, 0.1], 0.2),
    fiol.Box(fiol.ElasticNet(0.1, 0.2), -0.5, 0.5),
]
GEOMETRIES = [
    fiol.Euclidean(),
    fiol.DiagonalMetric([1.0, 2.0, 0.5, 3.0, 1.0]),
    fiol.Mahalanobis(np.eye(5) + 0.2),
    fiol.Entropy(),
    fiol.SignedEntropy(),
    fiol.Simplex(),
]


def fits(parts):
    try:
        make_problem(fiol.Squared(), *parts)
    except TypeError:
        return False
    return True


def pairs(parts):
    """Which two parts of regularizer, geometry and solver ask each other for anything.

    A solver asks a regularizer for its kinks, if it walks along them, and for nothing else.
    """
    regularizer, geometry, solver = parts
    working = type(geometry.working())
    yield working, repr(regularizer)
    yield working, repr(solver)
    if isinstance(solver, (fiol.Sorting, fiol.Partition)) and regularizer.kinks():
        yield type(solver), repr(regularizer)


def covering():
    """Few combinations, chosen greedily, in which every valid pair of parts that ask each other meets.

    A loss meets the rest only through numbers, so it is enough that each one appears. The first combinations are those
    of default solvers. In the tests of all these parts, `fiol.checks` compile no more (`interpreted.check_uncompiled`).
    """
    known = [(regularizer, fiol.Euclidean()) for regularizer in REGULARIZERS]
    known += [(fiol.Unregularized(), geometry) for geometry in GEOMETRIES[1:]]
    chosen = [(fiol.Squared(), *parts, make_problem(fiol.Squared(), *parts).solver) for parts in known]
    valid = [parts for parts in itertools.product(REGULARIZERS, GEOMETRIES, SOLVERS) if fits(parts)]
    left = {pair for parts in valid for pair in pairs(parts)} - {pair for parts in chosen for pair in pairs(parts[1:])}
    while left:
        best = max(valid, key=lambda parts: len(left.intersection(pairs(parts))))
        chosen.append((LOSSES[(1 + len(chosen) - len(known)) % len(LOSSES)], *best))
        left.difference_update(pairs(best))
    assert {loss for loss, *_ in chosen} == set(LOSSES)
    return chosen


@pytest.mark.parametrize("parts", covering(), ids=lambda parts: "-".join(type(p).__name__ for p in parts))
def test_compiled_steps_match_interpreter(parts):
    loss, regularizer, geometry, solver = parts
    rng = np.random.default_rng(0)
    for _ in range(20):
        x, w = rng.standard_normal((2, D))
        y = float(rng.choice([-1.0, 1.0])) if loss.accepts(-1.0) else float(rng.integers(0, 4))
        if isinstance(geometry, fiol.SignedEntropy):
            w = fiol.SignedEntropy.split(w)
        elif isinstance(geometry, (fiol.Entropy, fiol.Simplex)):
            w = np.abs(w) / np.abs(w).sum()
        args = {"loss": loss, "regularizer": regularizer, "geometry": geometry, "solver": solver}
        args |= {"eta": float(10 ** rng.uniform(-3, 3)), "sample_weight": float(rng.uniform(0.5, 2))}
        before = pickle.dumps((x, w, args))
        fast, slow = (fiol.solve_step(x, y, w, compiled=c, **args) for c in (True, False))
        assert pickle.dumps((x, w, args)) == before
        assert not np.shares_memory(fast.w, w)
        np.testing.assert_allclose(fast.w, slow.w, rtol=1e-9, atol=1e-12)
        assert fast.residual <= 1e-9 * (1 + abs(fast.beta) + abs(fast.z))


def test_global_names_match_dis():
    """Of all functions of two large modules, the longest of which has numbers of more than a byte."""
    many = {f"name_{k}": k for k in range(300)}
    exec("def long(): return " + " + ".join(many), many)
    functions = [f for module in (fiol.learner, fiol.components.losses) for f in vars(module).values()]
    functions += [f for cls in functions if isinstance(cls, type) for f in vars(cls).values()]
    codes = [f.__code__ for f in [*functions, many["long"]] if hasattr(f, "__code__")]
    assert len(codes) > 100
    for code in codes:
        named = {i.argval for i in dis.get_instructions(code) if i.opname == "LOAD_GLOBAL"}
        assert global_names(code) == named


def test_bound_kernel_takes_a_component_that_was_never_compiled():
    from fiol.compiler.compiled import bind, jit

    @jit
    def slope(loss, z):
        return loss.grad(z, 1.0)

    bound = bind(slope, fiol.Huber(0.5), 0.0)
    assert bound(fiol.Huber(0.25), 3.0) == 0.25  # it crashed: numbers were read that only `bind` had stored


def test_component_is_taken_without_running_python():
    """An interrupt in Python code that compiled code calls would crash the process."""
    from fiol.compiler.compiled import bind, jit

    @jit
    def slope(loss, z):
        return loss.grad(z, 1.0)

    bound, called, before = bind(slope, fiol.Huber(0.5), 0.0), [], sys.getprofile()
    loss = fiol.Huber(0.25)
    sys.setprofile(lambda frame, event, _: called.append(frame.f_code.co_name) if event == "call" else None)
    try:
        bound(loss, 3.0)
    finally:
        sys.setprofile(before)
    assert called == []
