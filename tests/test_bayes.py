"""Ensembles with exponential weights: guarantees, predictions and restrictions."""

import pickle
import warnings
from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fiol
from fiol import FIOL, L1, AdaGrad, Bayes, Constant, Curvature, Ensemble, Learner, Logistic, ScaleFree, Softmax, Squared
from fiol.onnx import to_onnx

STEPS = [ScaleFree(Curvature()), ScaleFree(AdaGrad(30.0)), ScaleFree(AdaGrad(0.01)), ScaleFree(Constant(10.0))]


def ensemble(loss=None, switching=0.0, penalty=None, gate=None):
    members = [FIOL(loss or Logistic(), penalty or fiol.Unregularized(), step) for step in STEPS]
    return Ensemble(members, Bayes(switching), gate)


def stream(n=60, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * rng.integers(0, 2, (n, d)) * np.logspace(-2, 2, d)
    y = np.sign(X @ rng.normal(size=d) + 0.3 * rng.normal(size=n))
    return X, np.where(y == 0.0, 1.0, y)


def new(update=None, **options):
    return Learner(update or ensemble(), compiled=False, **options)


def known(model):
    """Return all arrays of a model as bytes, without memory reserved for new features."""
    n = model.n_features
    return {name: (a[:n] if "state." in name else a).tobytes() for name, a in model.core.arrays().items()}


# --- the guarantee ----------------------------------------------------------------------------


def least_of_sequences(losses, most):
    """[m]: the least loss of sequences of members that change m times, up to `most`; losses [round, member]."""
    best = np.full((most + 1, losses.shape[1]), np.inf)
    best[0] = losses[0]
    for row in losses[1:]:
        before = best.copy()
        for m in range(most + 1):
            for k in range(len(row)):
                other = np.delete(before[m - 1], k).min() if m else np.inf
                best[m, k] = row[k] + min(before[m, k], other)
    return best.min(axis=1)


def values(loss, scores, y):
    """The loss of every row."""
    return np.array([loss.value(z, target) for z, target in zip(scores, y, strict=True)])


@settings(max_examples=12, deadline=None)
@given(
    st.integers(0, 10**6),
    st.sampled_from([Logistic(), Softmax()]),
    st.sampled_from([0.0, 0.02, 0.3]),
    st.sampled_from(["whole", "leader", "drift", "random"]),
    st.booleans(),
)
def test_bayes_learner_regret_is_at_most_log_k(seed, loss, switching, against, weighted):
    """Targets against the ensemble, against the leading member, alternating, or random; rows of any scale."""
    rng, T, K = np.random.default_rng(seed), 24, len(STEPS)
    joint = isinstance(loss, Softmax)
    X = rng.normal(size=(T, 3)) * 10.0 ** rng.uniform(-2, 2, (T, 1))
    weight = rng.uniform(0.0, 1.0, T) if weighted else np.ones(T)
    options = {"classes": [0, 1, 2]} if joint else {}
    whole, alone = new(ensemble(loss, switching), **options), [new(m, **options) for m in ensemble(loss).members]
    targets, scores, each = [], [], []
    for t in range(T):
        row = X[t : t + 1]
        believed = whole.scores(row) if against == "whole" else alone[int(whole.mixing.argmax())].scores(row)
        if against == "random":
            target = int(rng.integers(3)) if joint else rng.choice([-1.0, 1.0])
        elif against == "drift":
            target = int(t * 3 / T) if joint else float(np.sign(X[t, 0] * (T / 2 - t) + 1e-9))
        else:
            target = int(believed[0].argmin()) if joint else (-1.0 if believed[0] > 0.0 else 1.0)
        targets.append(target)
        scores.append(whole.learn(row, [target], weight[t : t + 1])[0])
        each.append([learner.learn(row, [target], weight[t : t + 1])[0] for learner in alone])
    losses = np.array([weight * values(loss, np.array([z[k] for z in each]), targets) for k in range(K)]).T
    total = float(weight @ values(loss, np.array(scores), targets))
    assert total == pytest.approx(whole.progressive_loss * weight.sum(), rel=1e-12)
    np.testing.assert_allclose([m.loss * weight.sum() for m in whole.members], losses.sum(axis=0), rtol=1e-12)
    slack = 1e-9 * (1.0 + total)
    if not switching:
        assert total <= losses.sum(axis=0).min() + log(K) + slack
        return
    for m, least in enumerate(least_of_sequences(losses, 4)):
        assert total <= least + log(K) + m * log(K / switching) - (T - 1 - m) * log(1.0 - switching) + slack


def test_bayes_learner_attains_its_regret_bound():
    """All members but one are wrong from the first informative row, which costs the ensemble log K."""
    updates = [FIOL(Logistic(), step_size=Constant(1e-9))] * 3 + [FIOL(Logistic(), step_size=Constant(1e6))]
    model = new(Ensemble(updates, Bayes()), intercept=False)
    model.learn([[1.0]] * 400, [1.0] * 400)
    behind = 400 * (model.progressive_loss - min(member.loss for member in model.members))
    assert behind == pytest.approx(log(4), rel=1e-9)
    assert model.mixing.argmax() == 3


# --- what it computes -------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [Logistic(), Softmax()], ids=repr)
def test_bayes_predicts_the_mean_of_member_probabilities(loss):
    X, y = stream()
    joint = isinstance(loss, Softmax)
    y = np.where(X[:, 1] > 0, 3, y).astype(int).tolist() if joint else y
    options = {"classes": [-1, 1, 3]} if joint else {}
    model, alone = new(ensemble(loss, 0.01), **options), [new(m, **options) for m in ensemble(loss).members]
    model.learn(X, y)
    for learner in alone:
        learner.learn(X, y)
    mean = sum(v * learner.predict(X) for v, learner in zip(model.mixing, alone, strict=True))
    np.testing.assert_allclose(model.predict(X), mean, rtol=1e-12)
    assert model.mixing.sum() == pytest.approx(1.0)
    if not joint:
        np.testing.assert_allclose(model.scores(X), np.log(mean) - np.log1p(-mean), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("loss", [Squared(), fiol.Hinge(), fiol.CrammerSinger()], ids=repr)
def test_bayes_of_other_losses_is_one_linear_model(loss):
    X, y = stream()
    joint = isinstance(loss, fiol.CrammerSinger)
    y = y.astype(int).tolist() if joint else y
    model, alone = new(ensemble(loss)), [new(m) for m in ensemble(loss).members]
    model.engine.settle_origin()  # of targets, at 0, as learners alone have it
    scores = model.learn(X, y)
    for learner in alone:
        learner.learn(X, y)
    w = sum(v * learner.weights for v, learner in zip(model.mixing, alone, strict=True))
    np.testing.assert_allclose(model.weights, w, rtol=1e-12, atol=1e-14 * abs(w).max())
    np.testing.assert_allclose(
        model.scores(X), (X @ np.atleast_2d(w).T + model.intercept).reshape(scores.shape), rtol=1e-9, atol=1e-9
    )
    assert model.progressive_loss <= np.mean([member.loss for member in model.members])


@pytest.mark.parametrize("options", [{}, {"dtype": "float32"}, {"bits": 8}], ids=repr)
@pytest.mark.parametrize("loss", [Logistic(), Softmax()], ids=repr)
def test_bayes_keeps_bits_across_chunks_files_copies_and_pickles(loss, options, tmp_path):
    """In one call, in two, from a file, copied, pickled; merged alone up to rounding."""
    X, y = stream()
    y = np.where(X[:, 1] > 0, 3, y).astype(int).tolist() if isinstance(loss, Softmax) else y
    model, whole = new(ensemble(loss, 0.01), **options), new(ensemble(loss, 0.01), **options)
    model.learn(X[:35], y[:35])
    model.save(tmp_path / "model.fiol")
    others = [fiol.load(tmp_path / "model.fiol", compiled=False), model.copy(), pickle.loads(pickle.dumps(model))]
    snapshot, expected = model.snapshot(), model.scores(X)
    scores = model.learn(X[35:], y[35:])
    assert (whole.learn(X, y)[35:] == scores).all()
    assert known(whole) == known(model)
    for other in others:
        assert (other.learn(X[35:], y[35:]) == scores).all()
        assert known(other) == known(model)
        assert (other.predict(X) == model.predict(X)).all()
    assert (snapshot.scores(X) == expected).all()
    np.testing.assert_allclose(Learner.merge([model]).scores(X), model.scores(X), rtol=1e-12)


def test_compiled_bayes_learner_matches_interpreter():
    X, y = stream()
    fast, slow = Learner(ensemble(switching=0.01), n_features=5), new(ensemble(switching=0.01), n_features=5)
    assert fast.engine.group is not None  # members are lanes
    np.testing.assert_allclose(fast.learn(X, y), slow.learn(X, y), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(fast.scores(X), slow.scores(X), rtol=1e-7, atol=1e-10)
    assert fast.score_one(np.array([0, 3], np.int32), np.array([1.0, 2.0])) == pytest.approx(
        slow.scores([[1.0, 0.0, 0.0, 2.0, 0.0]])[0], rel=1e-9
    )


def test_merged_bayes_weights_are_geometric_means():
    X, y = stream(80)
    parts = [new(n_features=5), new(n_features=5)]
    parts[0].learn(X[:20], y[:20])
    parts[1].learn(X[20:], y[20:])
    whole = Learner.merge(parts)
    v = np.exp(0.25 * np.log(parts[0].mixing) + 0.75 * np.log(parts[1].mixing))
    np.testing.assert_allclose(whole.mixing, v / v.sum(), rtol=1e-12)
    np.testing.assert_allclose(Learner.merge(parts[::-1]).scores(X), whole.scores(X), rtol=1e-9)


def test_repeated_rows_train_members_but_not_the_combination():
    X, y = stream()
    for loss in (Logistic(), Softmax()):
        model = new(ensemble(loss))
        model.learn(X, y.astype(int))
        before, scores = (model.mixing, model.progressive_loss), model.scores(X)
        with model.engine.freeze_stack():
            model.learn(X, y.astype(int))
        assert (model.mixing == before[0]).all()
        assert model.progressive_loss == before[1]
        assert model.rounds == 120
        assert (model.scores(X) != scores).any()


def test_overflowed_member_is_removed_and_stays_removed_in_files(tmp_path):
    X, y = stream(300)
    updates = [FIOL(Squared(), step_size=STEPS[0]), fiol.SGD(Squared(), step_size=Constant(1e6))]
    model = new(Ensemble(updates, Bayes(0.01)))
    with pytest.warns(RuntimeWarning, match="member 1 overflows and is left out"):
        scores = model.learn(X, y)
    assert np.isfinite(scores).all()
    assert model.mixing.tolist() == [1.0, 0.0]
    model.save(tmp_path / "model.fiol")
    again = fiol.load(tmp_path / "model.fiol", compiled=False)
    other = Learner.merge([model, new(model.update)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (again.scores(X) == model.scores(X)).all()
        assert other.mixing.tolist() == [1.0, 0.0]
    arrays = dict(again.core.arrays())
    arrays["stack.live"] = np.array([1.0, -np.inf])
    with pytest.raises(ValueError, match=r"'stack.live' is missing or does not fit"):
        again.engine.restore(arrays)


def test_bayes_with_gate_bounded_memory_and_nonzero_features():
    gate = fiol.ImplicitFTRL(Logistic(), L1(0.02), ScaleFree(AdaGrad(1.0)))
    X, y = stream(200)
    model = new(ensemble(gate=gate))
    model.learn(X, y)
    passing = model.engine.members_in_use.separate[model.engine.gate].weights(5, False) != 0.0
    assert 0 < model.n_nonzero == passing.sum() < 5
    rows = [{f"f{i}": float(v) for i, v in enumerate(row) if v} | {f"rare{t}": 0.01} for t, row in enumerate(X)]
    bounded = new(ensemble(gate=gate), max_features=80)
    for t in range(0, 200, 5):
        bounded.learn(rows[t : t + 5], y[t : t + 5])
    assert bounded.n_features <= 80
    assert np.isfinite(bounded.scores(rows)).all()


# --- what it cannot have ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "ask",
    [
        lambda model: model.weights,
        lambda model: model.intercept,
        lambda model: model.importances(),
        lambda model: model.truncated(1),
        lambda model: model.with_update(FIOL(Logistic())),
        lambda model: model.snapshot().weights,
        to_onnx,
    ],
)
def test_bayes_without_a_linear_model_raises(ask):
    model = new()
    model.learn([[1.0], [-1.0]], [1.0, -1.0])
    with pytest.raises(TypeError, match=r"no linear model.*use NewtonStack\(\), or member\(k\)"):
        ask(model)
    assert "Ensemble of 4" in str(model)  # without a table of features
    assert model.member(0).weights.shape == (1,)
