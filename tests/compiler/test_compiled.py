"""Compiled code against the interpreter, on combinations in which every pair of parts meets."""

import itertools

import numpy as np
import pytest
from material import LOSSES, SOLVERS

import fiol
from fiol.components.problem import make_problem

D = 5
REGULARIZERS = [
    fiol.Unregularized(),
    fiol.L1(0.1),
    fiol.L1([0.1, 0.0, 0.2, 0.3, 0.1]),
    fiol.Ridge(0.3),
    fiol.ElasticNet([0.1, 0.0, 0.2, 0.3, 0.1], 0.2),
    fiol.Box(fiol.L1(0.1), -0.5, 0.5),
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


def covering():
    """Few combinations, chosen greedily, in which every valid pair of regularizer, geometry and solver meets.

    A loss meets the rest only through numbers, so it is enough that each one appears.
    """
    valid = [parts for parts in itertools.product(REGULARIZERS, GEOMETRIES, SOLVERS) if fits(parts)]
    pairs = [frozenset(itertools.combinations(enumerate(map(repr, parts)), 2)) for parts in valid]
    left, chosen = frozenset().union(*pairs), []
    while left:
        best = max(range(len(valid)), key=lambda k: len(pairs[k] & left))
        chosen.append((LOSSES[len(chosen) % len(LOSSES)], *valid[best]))
        left -= pairs[best]
    assert len(chosen) >= len(LOSSES)
    return chosen


@pytest.mark.parametrize("parts", covering(), ids=lambda parts: "-".join(type(p).__name__ for p in parts))
def test_compiled_equals_interpreted(parts):
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
        fast, slow = (fiol.solve_step(x, y, w, compiled=c, **args) for c in (True, False))
        np.testing.assert_allclose(fast.w, slow.w, rtol=1e-9, atol=1e-12)
        assert fast.residual <= 1e-9 * (1 + abs(fast.beta) + abs(fast.z))
