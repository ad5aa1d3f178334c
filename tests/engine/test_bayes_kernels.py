"""Exponential weights over members: the compiled rounds of `fiol.engine.ensemble.bayes`."""

from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fiol
from fiol.compiler.compiled import interpreted
from fiol.components.combiners import Bayes
from fiol.engine.ensemble.bayes import bayes_rows
from fiol.engine.ensemble.bayes_engine import BayesEngine

plain = interpreted(bayes_rows)


def new_bayes_state(stack, members):
    return BayesEngine(stack, None, members).state


def member_weights(stack, state):
    return BayesEngine(stack, None, len(state.live)).with_state(state).member_weights()


def losses_of(state):
    """The losses of all members, and last that of the whole."""
    return np.roll(state.losses, -1)


def run(stack, loss, Z, y, weight=None, kernel=plain, pieces=()):
    state = new_bayes_state(stack, Z.shape[-1])
    scores, weight = np.full(Z.shape[:-1], np.nan), np.ones(len(y)) if weight is None else weight
    for first, last in zip((0, *pieces), (*pieces, len(y)), strict=True):
        kernel(stack, loss, Z[first:last], y[first:last], weight[first:last], state, scores[first:last])
    return scores, state


SCORES = st.floats(-800.0, 800.0) | st.sampled_from([0.0, 5.0, -5.0, 700.0, -700.0])


@settings(max_examples=75, deadline=None)
@given(st.data(), st.integers(1, 5), st.integers(1, 30))
def test_bayes_regret_is_at_most_log_k(data, K, rows):
    """Also on a stream whose label is the worse one for the leading member, half of the time."""
    Z = np.array(data.draw(st.lists(st.lists(SCORES, min_size=K, max_size=K), min_size=rows, max_size=rows)))
    mean = data.draw(st.booleans())
    y = np.array(data.draw(st.lists(st.sampled_from([-1.0, 1.0]), min_size=rows, max_size=rows)))
    if mean:  # against the whole
        state = new_bayes_state(Bayes(), K)
        for r in range(rows):
            score = np.zeros(1)
            copy = type(state)(*(a.copy() for a in state))
            plain(Bayes(), fiol.Logistic(), Z[r : r + 1], y[r : r + 1], np.ones(1), copy, score)
            y[r] = -1.0 if score[0] > 0.0 else 1.0
            plain(Bayes(), fiol.Logistic(), Z[r : r + 1], y[r : r + 1], np.ones(1), state, score)
    weight = np.array(data.draw(st.lists(st.floats(0.0, 1.0), min_size=rows, max_size=rows)))
    for w in (np.ones(rows), weight):
        scores, state = run(Bayes(), fiol.Logistic(), Z, y, w)
        losses = w @ np.logaddexp(0.0, -y[:, None] * np.column_stack([Z, scores]))
        np.testing.assert_allclose(losses_of(state), losses, rtol=1e-12, atol=1e-300)
        assert losses[K] <= losses[:K].min() + log(K) + 1e-10 * (1.0 + losses[:K].min())


def test_bayes_regret_bound_is_attained():
    """One member is right and the remaining ones are wrong: the first row costs log K, later rows cost nothing."""
    Z = np.full((20, 4), -700.0)
    Z[:, 2] = 700.0
    _, state = run(Bayes(), fiol.Logistic(), Z, np.ones(20))
    assert losses_of(state)[4] == pytest.approx(log(4), rel=1e-12)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.001, 0.4), st.integers(0, 4))
def test_bayes_switching_regret_is_within_its_bound(seed, switching, m):
    rng = np.random.default_rng(seed)
    T, K = 60, 4
    Z = rng.normal(size=(T, K)) * 10.0 ** rng.uniform(-1, 2, (T, K))
    y = rng.choice([-1.0, 1.0], T)
    _, state = run(Bayes(switching), fiol.Logistic(), Z, y)
    losses = np.logaddexp(0.0, -y[:, None] * Z)
    best = np.full((m + 1, K), np.inf)  # of the best sequences that end with member k, by number of changes
    best[0] = losses[0]
    for loss in losses[1:]:
        before = best.copy()
        for c in range(m + 1):
            for k in range(K):
                other = min(before[c - 1, i] for i in range(K) if i != k) if c else np.inf
                best[c, k] = min(before[c, k], other) + loss[k]
    bounds = [
        best[c].min() + log(K) + c * log(K / switching) - (T - 1 - c) * log(1.0 - switching) for c in range(m + 1)
    ]
    assert losses_of(state)[K] <= min(bounds) + 1e-9


@pytest.mark.parametrize("switching", [0.0, 0.02])
def test_joint_bayes_bound_and_mean_probabilities(switching):
    rng = np.random.default_rng(0)
    for scale in (0.5, 5.0, 300.0):
        Z, y = scale * rng.normal(size=(80, 3, 4)), rng.integers(0, 3, 80)
        scores, state = run(Bayes(switching), fiol.Softmax(), Z, y)
        slack = -79 * log(1.0 - switching)
        assert losses_of(state)[4] <= losses_of(state)[:4].min() + log(4) + slack + 1e-9 * losses_of(state)[4]
        p = np.exp(Z[0] - Z[0].max(axis=0))
        np.testing.assert_allclose(np.exp(scores[0]), (p / p.sum(axis=0)).mean(axis=1), rtol=1e-10, atol=1e-300)
    scores, _ = run(Bayes(), fiol.CrammerSinger(), Z, y)
    np.testing.assert_allclose(scores[0], Z[0].mean(axis=1), rtol=1e-12)


@pytest.mark.parametrize("loss", [fiol.Squared(), fiol.Absolute(), fiol.Hinge(), fiol.Poisson()], ids=repr)
def test_bayes_of_other_losses_averages_scores_in_loss_units(loss):
    rng = np.random.default_rng(1)
    truth = rng.normal(size=500)
    Z = np.stack([truth + 0.1 * rng.normal(size=500), rng.normal(size=500)], 1)
    y = np.sign(truth) if loss == fiol.Hinge() else np.abs(np.round(np.exp(truth))) if loss == fiol.Poisson() else truth
    scores, state = run(Bayes(), loss, Z, y)
    assert member_weights(Bayes(), state)[0] > 0.99
    assert losses_of(state)[2] < losses_of(state)[:2].mean()
    if loss in (fiol.Squared(), fiol.Absolute()):
        scaled = run(Bayes(), loss, 1024.0 * Z, 1024.0 * y)
        assert np.array_equal(1024.0 * scores, scaled[0])
        assert np.array_equal(state.logs, scaled[1].logs)


@pytest.mark.parametrize("loss", [fiol.Logistic(), fiol.Squared(), fiol.Softmax()], ids=repr)
def test_bayes_removes_overflowed_members(loss):
    rng = np.random.default_rng(2)
    joint = isinstance(loss, fiol.Softmax)
    Z = rng.normal(size=(60, 3, 4) if joint else (60, 4))
    y = rng.integers(0, 3, 60) if joint else rng.choice([-1.0, 1.0], 60)
    Z[20:, ..., 1] = np.inf
    Z[40:, ..., 2] = np.nan
    scores, state = run(Bayes(0.01), loss, Z, y)
    assert np.isfinite(scores).all()
    assert state.live.tolist() == [1.0, 0.0, 0.0, 1.0]
    assert member_weights(Bayes(), state)[1] == member_weights(Bayes(), state)[2] == 0.0
    assert member_weights(Bayes(), state).sum() == pytest.approx(1.0)
    Z[50:] = np.nan  # and no member is left
    scores, state = run(Bayes(0.01), loss, Z, y)
    assert np.isfinite(scores).all()
    assert not state.live.any()


def test_compiled_bayes_chunks_match_interpreter():
    rng = np.random.default_rng(3)
    Z, y = rng.normal(size=(200, 5)), rng.choice([-1.0, 1.0], 200)
    scores, state = run(Bayes(0.01), fiol.Logistic(), Z, y, kernel=bayes_rows)
    pieces, same = run(Bayes(0.01), fiol.Logistic(), Z, y, kernel=bayes_rows, pieces=(1, 50, 51))
    assert np.array_equal(scores, pieces)
    assert all(map(np.array_equal, state, same))
    slow, _ = run(Bayes(0.01), fiol.Logistic(), Z, y)
    np.testing.assert_allclose(scores, slow, rtol=1e-11)
