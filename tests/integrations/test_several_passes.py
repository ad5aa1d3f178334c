"""Several passes of `fit`: the stack goes on learning from rows that members have not learned from."""

import numpy as np
import pytest

from fiol import FIOLRegressor, Learner


def rows(n, d=60, noise=0.001, seed=0):
    """Rows of a linear model of ten columns, and new ones; targets have a standard deviation of about 1."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n + 1000, d))
    w = np.where(np.arange(d) < 10, rng.standard_normal(d) / np.sqrt(10.0), 0.0)
    y = X @ w + noise * rng.standard_normal(n + 1000)
    return X[:n], y[:n], X[n:], y[n:]


def error(model, X, y):
    return np.sqrt(np.mean((model.predict(X) - y) ** 2))


def best_member(model, X, y):
    learner = model.learners_[0]
    return min(np.sqrt(np.mean((learner.member(k).scores(X) - y) ** 2)) for k in range(len(learner.members)))


def test_fit_is_close_to_its_best_member_and_to_the_noise():
    X, y, new_X, new_y = rows(1500)
    model = FIOLRegressor(random_state=0).fit(X, y)
    assert error(model, new_X, new_y) < 1.05 * min(best_member(model, new_X, new_y), 0.00105)


def test_more_passes_are_not_worse():
    X, y, new_X, new_y = rows(1500)
    errors = [error(FIOLRegressor(max_iter=n, tol=None, random_state=0).fit(X, y), new_X, new_y) for n in (2, 10, 40)]
    assert errors[0] < 0.003
    assert max(errors[1:]) < 1.05 * errors[0]


def test_stack_of_noisy_rows_is_kept():
    """Where learning anew gives nothing, the weights of members stay those of the first pass."""
    X, y, _, _ = rows(1500, noise=1.0)
    learner, rest = Learner("squared"), (X[1200:], y[1200:])
    learner.learn(X[:1200], y[:1200])
    before = learner.mixing.copy()
    chunk = learner.core.encode_rows(rest[0])
    scores = learner.engine.restack(chunk, rest[1], np.ones(300))
    np.testing.assert_allclose(scores, learner.scores(rest[0]), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(learner.mixing, before)


@pytest.mark.parametrize("compiled", [True, False])
def test_stack_learns_anew_and_members_stay(compiled, tmp_path):
    X, y, new_X, new_y = rows(300 if not compiled else 1200, d=12)
    learner, ones = Learner("squared", compiled=compiled), np.ones(len(y))
    chunk = learner.core.encode_rows(X)
    for _ in range(3):
        with learner.engine.freeze_stack():  # its weights are those of a mean of all members
            learner.core.learn_canonical(chunk, y, ones)
    rounds, members = learner.rounds, [learner.member(k).weights for k in range(7)]
    before = np.mean((learner.scores(new_X) - new_y) ** 2)
    held = slice(None, 120)
    scores = learner.engine.restack(learner.core.encode_rows(new_X[held]), new_y[held], np.ones(120))
    after = np.mean((learner.scores(new_X[120:]) - new_y[120:]) ** 2)
    assert after < 0.5 * before
    assert np.mean((scores - new_y[held]) ** 2) < 0.5 * before
    assert learner.rounds == rounds
    for k, w in enumerate(members):
        np.testing.assert_array_equal(learner.member(k).weights, w)
    learner.save(tmp_path / "model.fiol")
    again = Learner.load(tmp_path / "model.fiol", compiled=compiled)
    np.testing.assert_array_equal(again.learn(new_X[:50], new_y[:50]), learner.learn(new_X[:50], new_y[:50]))


def test_raised_scales_let_new_maxima_change_no_weight():
    X, y, _, _ = rows(400, d=5)
    learner = Learner("squared")
    learner.learn(X, y)
    far, w = 2.0 * np.abs(X).max(axis=0, keepdims=True), learner.weights
    twin = learner.copy()
    learner.engine.raise_scales(learner.core.encode_rows(far))
    np.testing.assert_array_equal(learner.weights, w)
    np.testing.assert_allclose(learner.learn(far, [0.0]), twin.scores(far), rtol=1e-9)
    assert abs(twin.scores(far) - twin.learn(far, [0.0])) > 0.1 * abs(twin.scores(far))


def test_scales_of_features_never_seen_stay_unknown():
    learner = Learner("squared")
    learner.learn([{"a": 1.0}, {"a": 2.0}], [1.0, 2.0])
    learner.engine.raise_scales(learner.core.encode_rows([{"a": 3.0, "b": 5.0}]))
    np.testing.assert_array_equal(learner.engine.scales(2), [3.0, 0.0])
