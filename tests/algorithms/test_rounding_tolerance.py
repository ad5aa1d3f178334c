"""The rounding tolerance of a score near a kink: `tolerance_of_score`, number by number."""

from types import SimpleNamespace

import numpy as np
import pytest

import fiol
from fiol.compiler.compiled import interpreted
from fiol.engine.round.rounding import LAST_DIGITS, NEAR
from fiol.engine.round.rounds import tolerance_of_score


def tolerance(loss, w, x, y, own=0.0, z=None, per_feature=True, solves=True):
    plan = SimpleNamespace(
        problem=SimpleNamespace(loss=loss),
        loss_step=SimpleNamespace(solves=solves),
        step_size=SimpleNamespace(per_feature=per_feature),
    )
    z = x @ w + own if z is None else z
    return interpreted(tolerance_of_score)(plan, x, w, z, own, y)


def test_tolerance_is_positive_only_near_a_kink():
    """Exactly at a kink the tolerance is 0, because the least derivative is used already."""
    x, w = np.array([2.0, 1.0]), np.array([25.0, 50.0])
    assert tolerance(fiol.Absolute(), w, x, 100.05) == LAST_DIGITS * 100.0
    assert tolerance(fiol.Absolute(), w, x, 101.0) == tolerance(fiol.Absolute(), w, x, 100.0) == 0.0
    assert tolerance(fiol.Squared(), w, x, 100.05) == 0.0
    assert tolerance(fiol.Absolute(), w, x, 100.05, per_feature=False) == 0.0  # not needed
    assert tolerance(fiol.Absolute(), w, x, 100.05, per_feature=False, solves=False) == LAST_DIGITS * 100.0


def test_tolerance_grows_with_canceling_terms():
    x, w = np.array([1.0, -1.0]), np.array([64.0, 62.0])
    assert tolerance(fiol.Absolute(), w, x, 2.001) == LAST_DIGITS * 126.0
    assert tolerance(fiol.Absolute(), w, x, 5.001, own=3.0) == LAST_DIGITS * 129.0
    w = 2.0**40 * w
    assert tolerance(fiol.Absolute(), w, x, 4.001, z=4.0) == pytest.approx(NEAR * 8.001, rel=1e-12)
    assert tolerance(fiol.Absolute(), w, x, 0.0, z=0.0) == LAST_DIGITS * 2.0**40 * 126.0  # nothing to compare with


@pytest.mark.parametrize(("scores", "size"), [([0.1, -0.2, 0.0], 1.0), ([0.1, -7.0, 3.0], 7.0)])
def test_tolerance_of_many_scores_uses_the_largest_score(scores, size):
    z = np.array(scores)
    assert tolerance(fiol.CrammerSinger(), np.zeros((2, 3)), np.ones(2), 1, z=z) == LAST_DIGITS * size
