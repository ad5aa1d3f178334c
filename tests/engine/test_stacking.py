"""Stacks of members' scores: the compiled rounds of `fiol.engine.stacking`."""

import numpy as np
import pytest

import fiol
from fiol.compiler.compiled import interpreted
from fiol.components.stacks import NewtonStack
from fiol.engine.stacking import mixing, new_stack_state, stack_rows

LOSSES = [
    fiol.Logistic(),
    fiol.Hinge(),
    fiol.SquaredHinge(),
    fiol.Exponential(),
    fiol.Squared(),
    fiol.Absolute(),
    fiol.Quantile(0.8),
    fiol.EpsilonInsensitive(0.3),
    fiol.SquaredEpsilonInsensitive(0.3),
    fiol.Huber(0.7),
    fiol.Poisson(),
]


def members(loss, rows=300, count=4, seed=0):
    """Scores of some members that know more or less about the targets, and the targets."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=rows)
    Z = np.stack(
        [a * truth + b * rng.normal(size=rows) for a, b in ((1.0, 0.5), (3.0, 2.0), (0.2, 1.0), (-1.0, 1.0))], 1
    )
    if isinstance(loss, fiol.Binary):
        y = np.where(truth + 0.7 * rng.normal(size=rows) > 0.0, 1.0, -1.0)
    elif isinstance(loss, fiol.Poisson):
        y = rng.poisson(np.exp(truth)).astype(float)
    else:
        y = 2.0 * truth + rng.standard_t(3.0, size=rows)
    return np.ascontiguousarray(Z[:, :count]), y


def run(stack, loss, Z, y, weight=None, kernel=stack_rows, pieces=(), state=None):
    """Scores before every row, and the state after the last."""
    state = new_stack_state(stack, Z.shape[1]) if state is None else state
    weight, scores = np.ones(len(y)) if weight is None else weight, np.full(len(y), np.nan)
    for first, last in zip((0, *pieces), (*pieces, len(y)), strict=True):
        kernel(stack, loss, Z[first:last], y[first:last], weight[first:last], state, scores[first:last])
    return scores, state


plain = interpreted(stack_rows)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_chunks_do_not_matter_nor_does_compilation(loss):
    Z, y = members(loss)
    stack = NewtonStack()
    scores, state = run(stack, loss, Z, y, kernel=plain)
    pieces = run(stack, loss, Z, y, kernel=plain, pieces=(1, 2, 33, 34, 200))
    assert np.array_equal(scores, pieces[0])
    assert all(map(np.array_equal, state, pieces[1]))


@pytest.mark.parametrize("loss", [fiol.Logistic(), fiol.Squared(), fiol.Absolute()], ids=repr)
def test_compiled_rounds_are_those_of_the_interpreter(loss):
    Z, y = members(loss)
    stack = NewtonStack()
    scores, state = run(stack, loss, Z, y)
    pieces = run(stack, loss, Z, y, pieces=(1, 2, 33, 34, 200))
    assert np.array_equal(scores, pieces[0])
    assert all(map(np.array_equal, state, pieces[1]))
    slow = run(stack, loss, Z, y, kernel=plain)
    np.testing.assert_allclose(scores, slow[0], rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(mixing(stack, state), mixing(stack, slow[1]), rtol=1e-9)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_score_is_that_of_the_mixing_before_the_row(loss):
    Z, y = members(loss, rows=100)
    stack, state = NewtonStack(), new_stack_state(NewtonStack(), 4)
    for r in range(100):
        v = mixing(stack, state)
        score = run(stack, loss, Z[r : r + 1], y[r : r + 1], kernel=plain, state=state)[0][0]
        assert score == pytest.approx(v @ Z[r], rel=1e-14, abs=1e-14)
