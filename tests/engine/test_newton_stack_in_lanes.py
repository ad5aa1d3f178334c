"""The Newton stack with members in SIMD lanes matches the scalar one, and both the definition, at extremes too."""

import functools

import numpy as np
import pytest
from oracles.stacking import scores_by_definition
from partly_seen import BINARY, LOSSES, lanes

import fiol
from fiol import FIOL, Ensemble, Learner, NewtonStack
from fiol.components.combiners import OVERFLOWN

ROWS = 16


def scores_of_members(loss, members, seed=0):
    """Return scores of members with different errors, targets and sample weights."""
    rng = np.random.default_rng(seed)
    f = 2.0 * rng.normal(size=ROWS)
    y = np.where(f + rng.normal(size=ROWS) > 0.0, 1.0, -1.0) if loss in BINARY else f + rng.normal(size=ROWS)
    Z = f[:, None] * rng.uniform(0.2, 1.5, members) + rng.normal(size=(ROWS, members)) * rng.uniform(0.1, 1.0, members)
    return Z, y, rng.choice([0.0, 1.0, 1.0, 2.0], ROWS)


def stacked(loss, stack, Z, y, weight, in_lanes, compiled=False):
    """The scores of the stack before each row, and its state after the last."""
    with lanes(in_lanes):
        learner = Learner(Ensemble([FIOL(loss)] * Z.shape[1], stack), compiled=compiled)
    assert (learner.engine.stack.width > Z.shape[1] or learner.engine.stack.width == 8) == (in_lanes or compiled)
    with np.errstate(all="ignore"):
        scores = learner.engine.stack.learn(learner.engine.call, Z, y, weight)
    return scores, learner.engine.stack.state


def assert_stacks_match(found, expected, Z, tolerance):
    """Compare scores, but for the last digits of the largest score of a member, and the states after all rows."""
    sizes = np.where(np.abs(Z) <= OVERFLOWN, np.abs(Z), 0.0).max(axis=1)
    largest = tolerance * np.abs(expected[0]) + (1e-12 + 1e-4 * tolerance) * (sizes + 1.0)
    np.testing.assert_array_less(np.abs(found[0] - expected[0]), largest)
    for name in ("v", "share", "live", "A", "losses"):
        own, other = getattr(found[1], name), getattr(expected[1], name)
        np.testing.assert_allclose(own, other, rtol=1e3 * tolerance, atol=tolerance * np.abs(other).max(), err_msg=name)


#: Losses whose steps and curvatures the last digits of a score of 1e20 do not decide.
HARD = [fiol.Hinge(), fiol.Squared(), fiol.Absolute()]


def cases():
    for loss in LOSSES:
        for limit in (0.5, 20.0, 1e9) if loss in BINARY else (20.0,):
            for size in (1e7, *([1e20] if loss in HARD else []), 1e150, np.inf):
                for doubt in (0.5, 0.0) if (limit, size) == (1e9, 1e7) else (0.5,):
                    yield pytest.param(loss, limit, size, doubt)


@pytest.mark.parametrize(("loss", "limit", "size", "doubt"), [*cases()], ids=str)
def test_stack_in_lanes_matches_scalar_stack_at_extreme_scores(loss, limit, size, doubt):
    """Some members have scores of this size; beyond 1e145 they are removed. One row has scores of 1e20."""
    for members, forgets in ((3, [0.0, 3e-4, 3e-3]), (5, [0.01])):
        Z, y, weight = scores_of_members(loss, members, seed=members)
        Z[4] *= 30.0  # beyond the smaller limits
        Z[7, 1], weight[7] = size, 1.0
        if size != 1e20:
            Z[9:14, 1], weight[9:14] = size * np.array([1.0, -0.5, 1.0, 1.0, 0.7]), 1.0
            Z[[10, 12], 0] = 0.01 * size
        stack = NewtonStack(limit=limit, doubt=doubt, forgets=forgets)
        expected = stacked(loss, stack, Z, y, weight, False)
        assert expected[1].live.sum() == (members if size < OVERFLOWN else members - 1 - (0.01 * size > OVERFLOWN))
        exact = size > OVERFLOWN
        assert_stacks_match(stacked(loss, stack, Z, y, weight, True), expected, Z, 1e-10 if exact else 1e-6)


@pytest.mark.parametrize("members", range(1, 9))
def test_stack_in_lanes_matches_scalar_stack_for_any_member_count(members):
    forgets = ([0.0], [0.01, 0.0], [0.0, 3e-4, 3e-3])[members % 3]
    for loss in (fiol.Logistic(), fiol.Quantile(0.3)):
        Z, y, weight = scores_of_members(loss, members, seed=members)
        Z[3], Z[9] = 0.0, 100.0 * Z[9]
        stack = NewtonStack(prior=0.3, burn=2.0, floor=0.01, limit=9.0, robust=4.0, forgets=forgets)
        assert_stacks_match(
            stacked(loss, stack, Z, y, weight, True), stacked(loss, stack, Z, y, weight, False), Z, 1e-10
        )


DEFINED = [*BINARY, fiol.Squared(), fiol.Absolute(), fiol.Quantile(0.8)]


def defined_cases():
    for in_lanes in (False, True):
        for loss in DEFINED:
            for limit in (0.5, 20.0, 1e9) if loss in BINARY else (20.0,):
                yield pytest.param(in_lanes, loss, limit)


@functools.cache
def by_definition(loss, limit):
    """Scores of members and targets, a stack, and its scores, weights and shares by the definition."""
    Z, y, weight = scores_of_members(loss, 3, seed=1)
    Z[5] *= 40.0
    Z[8:13, 1], Z[[9, 11], 0], weight[8:13] = 1e7 * np.array([1.0, -0.5, 1.0, 1.0, 0.7]), 1e5, 1.0
    stack = NewtonStack(forgets=[0.0, 0.02], limit=limit)
    fields = stack.prior, [0.0, 0.02], stack.burn, stack.floor, limit, stack.robust, stack.doubt
    exact = scores_by_definition(type(loss).__name__, Z.tolist(), y.tolist(), weight.tolist(), *fields)
    scores, v, share = np.array(exact[0], float), [[float(a) for a in row] for row in exact[1]], exact[2]
    return (stack, Z, y, weight), (scores, v, np.array(share, float))


@pytest.mark.parametrize(("in_lanes", "loss", "limit"), [*defined_cases()], ids=str)
def test_stack_matches_its_definition_in_fifty_digits(in_lanes, loss, limit):
    given, (scores, v, share) = by_definition(loss, limit)
    found, state = stacked(loss, *given, in_lanes)
    largest = np.abs(given[1]).max(axis=1)
    np.testing.assert_array_less(np.abs(found - scores), 1e-7 * (np.abs(scores) + 1e-4 * largest))
    np.testing.assert_allclose(state.v, v, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(state.share, share, rtol=1e-6)


@pytest.mark.parametrize("size", [1e7, 1e150])
def test_compiled_stack_in_lanes_matches_scalar_stack(size):
    loss, stack = fiol.Logistic(), NewtonStack()
    Z, y, weight = scores_of_members(loss, 7, seed=2)
    Z[[7, 9], 3] = size
    expected = stacked(loss, stack, Z, y, weight, False)
    assert_stacks_match(stacked(loss, stack, Z, y, weight, True, compiled=True), expected, Z, 1e-6)
