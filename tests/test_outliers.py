"""A few wrong values do not silence their column: in streams, in `fit`, for every kind of input."""

import numpy as np
import pytest
from oracles.outliers import learned
from scipy import sparse

import fiol
from fiol import Learner

CELLS = (1e4, -999999.0)


def rows(n=4000, seed=0):
    """Normal columns, labels of a logistic model, and targets of a linear one."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4))
    z = X @ [2.0, -1.0, 0.5, 1.0]
    labels = np.where(rng.random(n) * (1.0 + np.exp(-4.0 * z)) < 1.0, 1.0, -1.0)
    return X, labels, z + 0.1 * rng.standard_normal(n)


def with_outliers(X, cell, places=(200,)):
    X = X.copy()
    X[list(places), 0] = cell
    return X


def accuracy(scores, y):
    return np.mean((scores > 0.0) == (y > 0.0))


def r2(scores, y):
    return 1.0 - np.mean((scores - y) ** 2) / np.var(y)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("offset", [0.0, 30.0])
def test_outlier_costs_a_stream_at_most_a_hundredth(cell, offset):
    """Also where the column is far from 0, so that its mean is subtracted."""
    X, labels, y = rows()
    late = slice(2000, None)
    for targets, loss, merit in ((labels, "logistic", accuracy), (y, "squared", r2)):
        usual = merit(Learner(loss).learn(X + offset, targets)[late], targets[late])
        found = merit(Learner(loss).learn(with_outliers(X + offset, cell), targets)[late], targets[late])
        assert found > 0.99 * usual > 0.8


def test_several_outliers_cost_a_stream_little():
    X, labels, y = rows(8000)
    bad = with_outliers(X, 1e6, range(300, 4300, 800))
    assert r2(Learner("squared").learn(bad, y)[6000:], y[6000:]) > 0.98
    assert accuracy(Learner().learn(bad, labels)[6000:], labels[6000:]) > 0.91


@pytest.mark.parametrize("cell", CELLS)
def test_outlier_costs_fit_at_most_a_hundredth(cell):
    """In many passes over the same outlier, too, and if it is among the rows that are held back."""
    X, labels, y = rows()
    new_X, new_labels, new_y = rows(2000, seed=1)
    for options in ({"random_state": 0}, {"random_state": 1}, {"max_iter": 40, "tol": None, "random_state": 0}):
        model, other = fiol.FIOLRegressor(**options).fit(X, y), fiol.FIOLRegressor(**options)
        assert other.fit(with_outliers(X, cell), y).score(new_X, new_y) > 0.99 * model.score(new_X, new_y) > 0.9
        model, other = fiol.FIOLClassifier(**options).fit(X, labels), fiol.FIOLClassifier(**options)
        found = other.fit(with_outliers(X, cell), labels).score(new_X, new_labels)
        assert found > 0.99 * model.score(new_X, new_labels) > 0.85


@pytest.mark.parametrize("cell", CELLS)
def test_outliers_among_rows_held_back_are_rare_among_all_rows(cell):
    X, _, y = rows(1300)
    X[[50, 275, 290], 0] = cell  # without shuffling, the last tenth of 300 rows is held back
    model = fiol.FIOLRegressor(shuffle=False).fit(X[:300], y[:300])
    assert r2(model.predict(X[300:]), y[300:]) > 0.85


@pytest.mark.parametrize(("size", "least"), [(1e-3, 0.7), (1.0, 0.7), (100.0, 0.2)])
def test_fit_follows_columns_that_are_nearly_constant_in_most_rows(size, least):
    for seed in range(6):
        draw = np.random.default_rng(seed)
        X = draw.normal(size=(600, 4))
        odd = draw.random(600) < 0.07
        X[:, 1] = 3.3 + np.where(odd, size, 1e-8) * draw.normal(size=600)
        y = X[:, 0] + 0.5 * draw.normal(size=600)
        model = fiol.FIOLRegressor(random_state=seed).fit(X[:300], y[:300])
        assert model.score(X[300:], y[300:]) > least


def test_column_that_changes_its_scale_is_followed():
    X, _, y = rows()
    X[2000:, 0] *= 1000.0
    assert r2(Learner("squared").learn(X, y)[2200:], y[2200:]) > 0.99


@pytest.mark.parametrize("offset", [0.0, 30.0])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_outliers_are_learned_alike_by_every_way_in(offset, dtype):
    X, labels, _ = rows(300)
    X = with_outliers(X + offset, -999999.0, (20, 100, 180))
    whole, pieces, one_by_one, sparsely = (Learner(n_features=4, dtype=dtype) for _ in range(4))
    scores = whole.learn(X, labels)
    parts = [pieces.learn(X[k : k + 37], labels[k : k + 37]) for k in range(0, 300, 37)]
    np.testing.assert_array_equal(np.concatenate(parts), scores)
    index = np.arange(4)
    np.testing.assert_array_equal([one_by_one.learn_one(index, *row) for row in zip(X, labels, strict=True)], scores)
    np.testing.assert_array_equal(sparsely.learn(sparse.csr_matrix(X), labels), scores)
    for learner in (pieces, one_by_one, sparsely):
        np.testing.assert_array_equal(learner.weights, whole.weights)


def test_powers_of_two_change_no_bit_of_rows_with_outliers():
    X, labels, _ = rows(300)
    X = with_outliers(X, 1e6, (20, 100, 180))
    scale = 2.0 ** np.array([0.0, 40.0, -30.0, 7.0])
    first, second = Learner(), Learner()
    np.testing.assert_array_equal(first.learn(X, labels), second.learn(X * scale, labels))
    np.testing.assert_array_equal(first.weights, second.weights * scale)


def test_rows_without_outliers_are_learned_as_values_cut_by_the_definition():
    """Cutting values beforehand changes no bit of what is learned."""
    X, labels, _ = rows(200)
    X, peak = with_outliers(X, 1e6, (20, 100)), np.zeros(4)
    cut = X.copy()
    for t, row in enumerate(X):
        cut[t] = learned(row, peak)
        peak = np.maximum(peak, np.abs(cut[t]))
    first, second = Learner(), Learner()
    np.testing.assert_array_equal(first.learn(X, labels), second.learn(cut, labels))
    np.testing.assert_array_equal(first.weights, second.weights)


def test_prediction_is_linear_beyond_all_values_seen():
    X, labels, _ = rows(300)
    learner = Learner()
    learner.learn(with_outliers(X, 1e6), labels)
    far = np.array([[1e7, 0.0, 0.0, 0.0]])
    np.testing.assert_allclose(learner.scores(far), far @ learner.weights + learner.intercept, rtol=1e-12)
