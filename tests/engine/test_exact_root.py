"""The exact root in lanes where some lane has numbers that are too large for all lanes at once."""

import numpy as np
import pytest

import fiol
from fiol.compiler.compiled import interpreted
from fiol.engine.ensemble.exact_root import root_in_lanes


@pytest.mark.parametrize("y", [-1.0, 1.0])
@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize(("score", "slope"), [(1e6, 0.5), (-1e6, 0.5), (3.0, 1e9), (1e6, 1e7)])
def test_a_lane_with_large_numbers_has_the_root_of_one_number(score, slope, place, y):
    loss, weight, none = fiol.Logistic(), 2.0, np.zeros(4)
    q, p = np.array([0.3, -1.0, 2.0, 0.5]), np.array([0.5, 2.0, 0.0, 30.0])
    q[place], p[place] = score, slope
    beta, met = interpreted(root_in_lanes)(loss, none, q, p, none, none + 1.0, y, weight, np.zeros(24))
    expected = [loss.exact_step(*numbers, 0.0, 1.0, y, weight) for numbers in zip(q.tolist(), p.tolist(), strict=True)]
    np.testing.assert_allclose(np.transpose([beta, met]), expected, rtol=1e-12, atol=1e-300)
