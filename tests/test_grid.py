"""Grids of values learned in one pass, the best member, and truncated models."""

import pickle

import numpy as np
import pytest

import fiol
from fiol import (
    FIOL,
    L1,
    AdaGrad,
    Constant,
    ElasticNet,
    Learner,
    Logistic,
    NewtonStack,
    ScaleFree,
    Softmax,
    Squared,
    tuned,
)


def stream(n=80, d=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.logspace(-1, 1, d)
    y = np.sign(X @ (rng.normal(size=d) / np.logspace(-1, 1, d)) + 0.3 * rng.normal(size=n))
    return X, y


LASSO = FIOL(Logistic(), L1(0.0))


def new(update, **options):
    return Learner(update, compiled=False, **options)


# --- the members ------------------------------------------------------------------------------


def test_grid_has_a_member_per_combination():
    update = FIOL(Logistic(), ElasticNet(1.0, 1.0), ScaleFree(AdaGrad(1.0)))
    members = tuned(update, {"size": [0.5, 3.0], "lam1": [0.0, 0.1, 0.2]}).members
    found = [(m.step_size.step_size.size, m.regularizer.lam1) for m in members]
    assert found == [(0.5, 0.0), (0.5, 0.1), (0.5, 0.2), (3.0, 0.0), (3.0, 0.1), (3.0, 0.2)]
    assert {m.regularizer.lam2 for m in members} == {1.0}
    assert tuned(update, {"regularizer.lam2": [7.0]}).members[0].regularizer == ElasticNet(1.0, 7.0)
    whole = tuned(LASSO, {"regularizer.lam": [[0.1, 0.2]]}).members[0]  # strengths per feature
    assert whole.regularizer == L1([0.1, 0.2])


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: tuned(LASSO, {}), TypeError, "values by name"),
        (lambda: tuned(LASSO, [1.0]), TypeError, "values by name"),
        (lambda: tuned(LASSO, {"lam": []}), ValueError, r"grid\['lam'\] must be a list of values, got \[\]"),
        (lambda: tuned(LASSO, {"lam": 0.1}), TypeError, r"grid\['lam'\] must be a list of values, got 0.1"),
        (lambda: tuned(LASSO, {"lam": [-1.0]}), ValueError, "L1.lam must be at least 0"),
        (lambda: tuned(LASSO, {"loss": [1.0]}), ValueError, "there are regularizer.lam, step_size"),
        (lambda: tuned(fiol.Stacked(Logistic()), {"lam": [1.0]}), TypeError, "update must be"),
        (
            lambda: tuned(
                FIOL(fiol.Huber(1.0), step_size=fiol.Polynomial(0.5), regularizer=Twice(L1(1.0), L1(2.0))),
                {"lam": [1.0]},
            ),
            ValueError,
            "'lam' may be regularizer.one.lam or regularizer.other.lam: give the whole path",
        ),
        (lambda: new(LASSO).member(), TypeError, "only an ensemble has members"),
        (lambda: new(fiol.Stacked(Logistic(), L1(0.1))).member(0), TypeError, "behind a gate"),
        (lambda: new(LASSO).truncated(-1), ValueError, "max_nonzero must be at least 0, got -1"),
        (lambda: new(LASSO).truncated(1.5), TypeError, "max_nonzero must be an integer"),
    ],
)
def test_invalid_grids_raise(make, error, message):
    with pytest.raises(error, match=message):
        make()


class Twice(fiol.Regularizer):
    """Two penalties with fields of one name."""

    one: fiol.Regularizer
    other: fiol.Regularizer

    def value(self, w, i):
        return self.one.value(w, i) + self.other.value(w, i)

    def prox(self, u, step, i):
        return self.one.prox(self.other.prox(u, step, i), step, i)


# --- the best of them -------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [Logistic(), Squared(), Softmax()], ids=repr)
def test_best_combiner_follows_the_member_of_least_loss(loss, tmp_path):
    X, y = stream()
    joint, weight = isinstance(loss, Softmax), np.random.default_rng(1).choice([1.0, 0.5, 2.0], len(y))
    classes = [-1, 1] if joint else None
    y = y.astype(int).tolist() if joint else y
    update = FIOL(loss, fiol.Ridge(0.0)) if joint else FIOL(loss, L1(0.0))
    grid = tuned(update, {"lam": [0.3, 0.001, 0.03]})
    alone = [new(member, classes=classes) for member in grid.members]
    Z = [learner.learn(X, y, weight) for learner in alone]
    codes = [classes.index(label) for label in y] if joint else y
    losses = np.array([[loss.value(z, c) for z, c in zip(scores, codes, strict=True)] for scores in Z]) * weight
    before = np.hstack([np.zeros((3, 1)), np.cumsum(losses, axis=1)[:, :-1]])
    best = before.argmin(axis=0)
    assert len(set(best)) > 1  # who leads changes
    model = new(grid, classes=classes)
    model.engine.settle_origin()  # of targets, at 0, as learners alone have it
    scores = np.concatenate([model.learn(X[:33], y[:33], weight[:33]), model.learn(X[33:], y[33:], weight[33:])])
    assert (scores == [Z[k][t] for t, k in enumerate(best)]).all()
    last = losses.sum(axis=1).argmin()
    assert (model.weights == alone[last].weights).all()
    assert (model.scores(X) == alone[last].scores(X)).all()
    np.testing.assert_allclose([m.loss for m in model.members], losses.sum(axis=1) / weight.sum())
    assert [m.nonzero for m in model.members] == [learner.n_nonzero for learner in alone]
    assert model.mixing.tolist() == [float(k == last) for k in range(3)]
    model.save(tmp_path / "model.fiol")
    others = [
        fiol.load(tmp_path / "model.fiol", compiled=False),
        pickle.loads(pickle.dumps(model)),
        Learner.merge([model]),
    ]
    single = model.member()
    assert single.update == grid.members[last]
    after = model.learn(X, y)
    for other in others:
        assert (other.learn(X, y) == after).all()
    assert (single.learn(X, y) == alone[last].learn(X, y)).all()  # goes on as if it had been alone


def test_compiled_grid_matches_interpreter():
    X, y = stream()
    grid = tuned(FIOL(Logistic(), step_size=ScaleFree(AdaGrad(1.0))), {"size": [1.0, 30.0, 0.1, 3.0]})
    fast, slow = Learner(grid, n_features=6), new(grid, n_features=6)
    assert fast.engine.group is not None
    np.testing.assert_allclose(fast.learn(X, y), slow.learn(X, y), rtol=1e-9)
    alone = fast.member(1)
    expected = new(grid.members[1], n_features=6)
    expected.learn(X, y)
    np.testing.assert_allclose(alone.weights, expected.weights, rtol=1e-9)
    assert alone.rounds == 80
    assert alone.update == grid.members[1]


def test_overflowed_member_is_no_longer_the_best():
    X, y = stream(300)
    diverging = fiol.SGD(Squared(), step_size=Constant(1.0))
    model = new(tuned(diverging, {"size": [1e6, 1e-6]}))
    with pytest.warns(RuntimeWarning, match="member 0 overflows"):
        scores = model.learn(X, y)
    assert np.isfinite(scores).all()
    assert model.mixing.tolist() == [0.0, 1.0]
    assert model.member().update.step_size == Constant(1e-6)


def test_grid_may_be_stacked():
    X, y = stream()
    model = new(tuned(LASSO, {"lam": [0.3, 0.001]}, NewtonStack()))
    model.learn(X, y)
    assert np.count_nonzero(model.mixing) == 2


# --- few weights ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("update", "stiff"),
    [
        (FIOL(Logistic(), step_size=Constant(0.1)), lambda X, z, y: np.ones(6)),
        (FIOL(Squared(), step_size=ScaleFree(Constant(0.1))), lambda X, z, y: np.abs(X).max(axis=0) ** 2),
        (FIOL(Logistic(), step_size=AdaGrad(1.0)), lambda X, z, y: (X.T**2) @ (1.0 / (1.0 + np.exp(y * z))) ** 2),
        (FIOL(Squared(), step_size=fiol.Curvature()), lambda X, z, y: (X**2).sum(axis=0)),
        (tuned(FIOL(Squared(), step_size=fiol.Curvature()), {"size": [1.0, 2.0]}), lambda X, z, y: (X**2).sum(axis=0)),
        (FIOL(Softmax(), step_size=Constant(0.1)), lambda X, z, y: np.ones(6)),
    ],
    ids=["nothing known", "largest", "squared gradients", "second derivatives", "grid", "joint"],
)
def test_truncated_model_keeps_only_the_largest_weights(update, stiff, tmp_path):
    X, y = stream()
    y = y.astype(int).tolist() if isinstance(update.loss, Softmax) else y
    rows = [{f"f{i}": v for i, v in enumerate(row)} for row in X.tolist()]
    model = new(update)
    scores = model.learn(rows, y)
    w = np.atleast_2d(model.weights)
    found = {3: (model.truncated(3), stiff(X, scores, y)), 2: (model.truncated(2, rows), (X**2).mean(axis=0))}
    for k, (few, stiffness) in found.items():
        kept = np.argsort(-(w**2).mean(axis=0) * stiffness)[:k]
        expected = np.zeros_like(w)
        expected[:, kept] = w[:, kept]
        assert (few.weights == expected.reshape(few.weights.shape)).all()
        assert few.n_nonzero == k
        np.testing.assert_allclose(few.scores(rows), X @ few.weights.T + model.intercept, rtol=1e-9)
        few.save(tmp_path / "few.fiol")
        again = fiol.load(tmp_path / "few.fiol", compiled=False)
        assert (again.weights == few.weights).all()
        assert (again.predict(rows) == few.predict(rows)).all()
        assert few.names == model.names
    assert (model.truncated(100).weights == model.weights).all()
    assert not model.truncated(0).weights.any()
