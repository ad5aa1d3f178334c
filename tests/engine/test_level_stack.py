"""The stack of levels: little worse than the best level on few rows; losses are those of the scores."""

import numpy as np
import pytest

import fiol
from fiol.engine.ensemble.stack_state import FROZEN
from fiol.engine.level_stack import stack_of_levels
from fiol.engine.levels_engine import LevelsEngine


def scores_of_levels(best, rows=300, seed=0):
    """Return scores of three levels, of which one is calibrated and others are noisier, and labels."""
    draw = np.random.default_rng(seed)
    z = 2.0 * draw.normal(size=rows)
    y = np.where(draw.random(rows) < 1.0 / (1.0 + np.exp(-z)), 1.0, -1.0)
    Z = z[:, None] + 3.0 * draw.normal(size=(rows, 3))
    Z[:, best] = z
    return Z, y


@pytest.mark.parametrize("best", range(3))
def test_stack_of_levels_loses_little_more_than_the_best_level(best):
    call = lambda kernel, *arguments: kernel(*arguments)  # noqa: E731
    extra = []
    for seed in range(5):
        Z, y = scores_of_levels(best, seed=seed)
        stack = stack_of_levels(3, fiol.Logistic(), True)
        stack.learn(call, Z, y, np.ones(len(y)))
        losses = stack.mean_losses() * len(y)
        extra.append(losses[0] - losses[1 + best])
        assert stack.state.share.sum() + stack.state.alone.sum() == pytest.approx(1.0)
        assert stack.state.alone.argmax() == best
    assert np.mean(extra) < 6.0


def test_progressive_loss_of_levels_is_that_of_their_scores():
    draw = np.random.default_rng(1)
    X = draw.normal(size=(150, 2))
    y = np.sin(3.0 * X[:, 0]) + X[:, 1]
    model = fiol.Learner(loss=fiol.Squared(), features=fiol.TableBasis(rows=60))
    losses = []
    for start in range(0, 150, 50):
        some = slice(start, start + 50)
        losses += (0.5 * (model.learn(X[some], y[some]) - y[some]) ** 2).tolist()
        assert isinstance(model.core.engine, LevelsEngine)
        assert model.progressive_loss == pytest.approx(np.mean(losses), rel=1e-9)


@pytest.mark.parametrize("rows", [(40, 40), (20, 30), (90, 30)], ids=["knots are found", "not yet", "one has knots"])
def test_progressive_loss_of_merged_levels_is_the_mean_of_theirs(rows):
    X = np.random.default_rng(3).normal(size=(sum(rows), 2))
    learners = []
    for some in np.split(np.arange(sum(rows)), [rows[0]]):
        learners.append(fiol.Learner(loss=fiol.Squared(), features=fiol.TableBasis(rows=60), compiled=False))
        learners[-1].learn(X[some], np.sin(3.0 * X[some, 0]) + X[some, 1])
    expected = np.average([learner.progressive_loss for learner in learners], weights=np.square(rows))
    assert fiol.Learner.merge(learners).progressive_loss == pytest.approx(expected, rel=1e-9)


def test_older_files_of_levels_have_stacks_alone():
    draw = np.random.default_rng(2)
    X = draw.normal(size=(150, 2))
    model = fiol.Learner(loss=fiol.Squared(), features=fiol.TableBasis(rows=60))
    model.learn(X, X[:, 0] * X[:, 1])
    engine = model.core.engine
    older = {name: a for name, a in engine.arrays().items() if name != "levels/stack.alone"}
    assert len(older) == len(engine.arrays()) - 1
    new = engine.copy()
    new.restore(older)
    assert new.stack.state.alone.tolist() == []
    assert "levels/stack.alone" not in new.arrays()
    assert (
        new.mixing.tolist()
        == sum(s * v for s, v in zip(new.stack.state.share, new.stack.state.v, strict=True)).tolist()
    )


def plain_call(kernel, *arguments):
    return kernel(*arguments)


def learned_stack(taken_out=False, compiled=False, rows=30):
    """Return a stack of three levels, of which the last one has overflowed in one row if it is to be taken out."""
    Z, y = scores_of_levels(0, rows)
    if taken_out:
        Z[3, 2] = 1e150
    stack = stack_of_levels(3, fiol.Logistic(), compiled)
    stack.learn(plain_call, Z, y, np.ones(rows))
    return stack


@pytest.mark.parametrize("compiled", [False, True])
def test_level_taken_out_of_a_frozen_stack_has_no_weight(compiled):
    stack = learned_stack(compiled=compiled)
    stack.ticks[FROZEN] = 1.0
    stack.learn(plain_call, np.array([[0.5, 0.5, 1e150]]), np.ones(1), np.ones(1))
    assert stack.live.tolist() == [1.0, 1.0, 0.0]
    assert stack.member_weights()[2] == 0.0


def test_level_taken_out_has_no_weight_after_a_merge_or_a_sample():
    stack, other = learned_stack(taken_out=True), learned_stack()
    merged = other.merged([stack], [0.5, 0.5], 30.0)
    stack.learn_sample(plain_call, 10, *(array[:10] for array in scores_of_levels(0)), np.ones(10))
    for one in (merged, stack):
        assert one.live.tolist() == [1.0, 1.0, 0.0]
        assert one.member_weights()[2] == 0.0


def test_stacks_of_older_files_merge_with_new_ones():
    new = learned_stack()
    older = new.with_state(new.state._replace(alone=np.empty(0)))
    assert older.merged([older], [0.5, 0.5], 30.0).state.alone.tolist() == []
    both = older.merged([new], [0.25, 0.75], 30.0)
    np.testing.assert_allclose(both.state.alone, 0.75 * new.state.alone)
    assert both.copy().state.alone.tolist() == both.state.alone.tolist()
