"""Members in SIMD lanes whose weights are float32: steps of rows beyond the range of float32 have double precision."""

import numpy as np
import pytest

import fiol
from fiol import AdaGrad, Constant, Curvature, Logistic, Ridge, ScaleFree, Squared
from fiol.algorithms.plan import make_plan
from fiol.components.simd import is_short, lanes
from fiol.engine.ensemble.lane_group import LaneGroup
from fiol.engine.update_engine import UpdateEngine
from fiol.features.chunk import Chunk
from fiol.presets import STACKED

ROWS = 30
SCALE_FREE = [ScaleFree(step) for step in STACKED]
WITH_SUMS = [AdaGrad(0.5), Curvature(prior=2.0), Constant(0.3)]


def stream(units, target):
    """Rows of three columns in these units, and their labels, or their targets in this unit."""
    X = np.random.default_rng(0).normal(size=(ROWS, 3))
    y = X @ [1.0, -2.0, 0.5]
    return X * units, (np.sign(y) if target is None else target * y)


def engines(loss, steps, ridge, intercept, compiled):
    penalty = {"regularizer": Ridge(ridge)} if ridge else {}
    plans = [make_plan(fiol.FIOL(loss, step_size=step, **penalty)) for step in steps]
    return [UpdateEngine(plan, 3, 0.0, intercept, False, "float32", compiled) for plan in plans]


#: Steps, strength of the ridge, units of the columns, unit of targets.
CASES = {
    "all near 1": (SCALE_FREE, 0.0, [1.0, 1.0, 1.0], None),
    "large values": (SCALE_FREE, 0.0, [1.0, 1e19, 1.0], None),
    "small values": (SCALE_FREE, 0.0, [1.0, 1e-22, 1.0], None),
    "large values, ridge": (SCALE_FREE, 0.02, [1.0, 1e19, 1.0], None),
    "large targets": (WITH_SUMS, 0.0, [1e-5, 1e-5, 1e-5], 1e21),
}


@pytest.mark.parametrize("case", CASES)
def test_compiled_float32_lanes_match_members_alone_in_the_interpreter(case):
    """There steps have double precision, and weights are rounded to float32 when they are stored."""
    steps, ridge, units, target = CASES[case]
    X, y = stream(units, target)
    loss = Logistic() if target is None else Squared()
    chunk = Chunk(np.arange(0, 3 * ROWS + 1, 3), np.tile(np.arange(3, dtype=np.int32), ROWS), X.ravel())
    alone = engines(loss, steps, ridge, target is None, compiled=False)
    group = LaneGroup(engines(loss, steps, ridge, target is None, compiled=True))
    assert group.pack(alone)
    for engine in group.engines:
        engine.compiled = True
    assert is_short(lanes(group.digits))
    assert group.with_ridge == (ridge > 0.0)
    group.make_place(3, 3)
    found = group.new_scores(ROWS)
    group.learn(chunk, y, np.ones(ROWS), found)
    expected = np.column_stack([engine.learn(chunk, y, np.ones(ROWS)) for engine in alone])
    largest = np.maximum.accumulate(np.abs(expected), axis=0)
    np.testing.assert_array_less(np.abs(group.scores_of_members(found) - expected), 1e-5 * largest + 1e-30)
