"""Compiled functions for single rows are those of the types of an engine's arrays."""

import numpy as np
import pytest
from numba import config

import fiol

pytestmark = pytest.mark.skipif(bool(config.DISABLE_JIT), reason="nothing is compiled")


def with_strides(engine):
    """Let the sums of the means of an engine be every second number of an array."""
    sums = np.zeros(2 * len(engine.centering.sums))[::2]
    sums[...] = engine.centering.sums
    assert len(sums) > 1
    engine.replace(centering=engine.centering._replace(sums=sums))


def rows(n, seed=0):
    draw = np.random.default_rng(seed)
    X = draw.normal([50.0, -80.0, 0.0], 1.0, (n, 3))
    return [dict(zip("abc", row.tolist(), strict=True)) for row in X], np.sin(X[:, 0]) + X[:, 1] * X[:, 2]


@pytest.mark.parametrize("features", ["linear", "auto"])
def test_single_rows_match_chunks_after_an_array_has_got_strides(features):
    learner = fiol.Learner(loss=fiol.Squared(), features=features)
    X, y = rows(600)
    learner.learn(X[:580], y[:580])
    for row, target in zip(X[580:590], y[580:590], strict=True):
        learner.learn_named(row, target)
        learner.predict_named(row)
    engine = learner.core.engine
    levels = engine.levels if features == "auto" else [engine]
    assert len(levels) == (3 if features == "auto" else 1)
    with_strides(levels[-1])
    for k, (row, target) in enumerate(zip(X[590:], y[590:], strict=True)):
        expected = learner.copy().predict([row])[0]
        assert learner.predict_named(row) == pytest.approx(expected, rel=1e-12), k
        again = learner.copy().learn([row], [target])[0]
        assert learner.learn_named(row, target) == pytest.approx(again, rel=1e-12), k
