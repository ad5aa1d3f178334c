"""Default steps are invariant to target units, and a linearized ridge stays stable with long steps."""

import numpy as np
import pytest
from interpreted import interpret
from oracles import table1
from streams import Stream

import fiol
from fiol.models.epochs import EpochRun, Stopping, run_epochs

#: A loss for targets that are c times as large.
LOSSES = {
    "squared": lambda c: fiol.Squared(),
    "absolute": lambda c: fiol.Absolute(),
    "quantile": lambda c: fiol.Quantile(0.8),
    "epsilon-insensitive": lambda c: fiol.EpsilonInsensitive(0.3 * c),
    "squared epsilon-insensitive": lambda c: fiol.SquaredEpsilonInsensitive(0.3 * c),
    "huber": lambda c: fiol.Huber(0.5 * c),
}
#: Losses whose steps have a unit.
OF_STEPS = [fiol.Absolute(), fiol.Quantile(0.2), fiol.EpsilonInsensitive(0.2), fiol.Poisson()]


def data(rows=60, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, d)) * 10.0 ** np.arange(d)
    X[rng.random(X.shape) < 0.3] = 0.0
    return X, X @ (10.0 ** -np.arange(d)) + 3.0 + 0.3 * rng.standard_normal(rows), rng.choice([0.5, 1.0, 2.0], rows)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_scores_scale_with_the_unit_of_targets(name, dtype):
    X, y, weight = data()

    def learned(c):
        update = fiol.FIOL(LOSSES[name](c))
        learner = fiol.Learner(update, n_features=4, compiled=False, dtype=dtype)
        return learner.learn(X, c * y, weight), learner.weights, learner.intercept

    expected = learned(1.0)
    for c in (2.0**-20, 2.0**7):  # not even the last bit
        for found, one in zip(learned(c), expected, strict=True):
            np.testing.assert_array_equal(found, c * one)
    close = 1e-9 if dtype == "float64" else 1e-3
    for c in (100.0, 1e-3):
        for found, one in zip(learned(c), expected, strict=True):
            np.testing.assert_allclose(found, c * one, rtol=close, atol=close * c)


def test_outliers_do_not_lengthen_huber_steps():
    """Why its steps have no unit: with the mean error as one, the first weight is 0.61 here."""
    rng = np.random.default_rng(0)
    X, truth = rng.standard_normal((800, 3)), np.array([1.0, 2.0, 3.0])
    y = X @ truth + 0.5 * rng.standard_normal(800) + (rng.random(800) < 0.05) * 1e4 * rng.standard_normal(800)
    learner = fiol.Learner(fiol.FIOL(fiol.Huber()), n_features=3, compiled=False)
    learner.learn(X, y)
    np.testing.assert_allclose(learner.weights, truth, atol=0.2)


def test_targets_of_any_scale_are_learned_in_three_passes():
    X, y, _ = data(rows=200)
    for c in (1e-3, 1.0, 1e6):
        learner = fiol.Learner(fiol.FIOL(fiol.Absolute()), n_features=4, compiled=False)
        errors = [np.mean(np.abs(learner.learn(X, c * y) / c - y)) for _ in range(3)]
        assert errors[-1] < 0.35, errors


@pytest.mark.parametrize("penalty", [fiol.Unregularized(), fiol.Ridge(0.01), fiol.ElasticNet(0.02, 0.01)], ids=repr)
@pytest.mark.parametrize("loss", OF_STEPS, ids=repr)
def test_step_scale_is_the_mean_over_all_rounds(loss, penalty):
    """Against the loop over all features in every round, whose units are written out in `oracles/table1.py`."""
    X, y, weight = data(rows=40)
    y = np.abs(y)
    parts = loss, table1.penalty_of(penalty), fiol.ScaleFree()
    played = table1.fully_implicit(Stream(X, y, weight), *parts, intercept=True)
    learner = fiol.Learner(fiol.FIOL(loss, penalty), n_features=4, compiled=False)
    np.testing.assert_allclose(learner.learn(X, y, weight), played.scores, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(learner.weights, played.weights, rtol=1e-8, atol=1e-10)
    step_scale = learner.engine.state.statistics[:, 2]
    errors, factor = np.abs(played.scores - y), 0.8 if loss == fiol.Quantile(0.2) else 1.0
    seen = [np.flatnonzero(X[:, i])[-1] + 1 for i in range(4)]  # the unit is that of the round a feature was last seen
    expected = [1.0 / y[:t].mean() if loss == fiol.Poisson() else errors[:t].mean() / factor for t in seen]
    np.testing.assert_allclose(step_scale[:4], expected, rtol=1e-8)


def test_own_loss_may_define_its_slope_unit():
    """The absolute error by a user, in cents: a hundred times the loss makes the same steps."""

    class Cents(fiol.Loss):
        def value(self, z, y):
            return 100.0 * abs(z - y)

        def grad(self, z, y):
            return 100.0 * (z > y) - 100.0 * (z < y)

        def scale_statistic(self, z, y):
            return abs(z - y)

        def square_slope_unit(self, slopes, t):
            return 4.0 * 100.0**2

        def step_unit(self, slopes, t):
            return slopes / t / 100.0

    X, y, weight = data()
    ours, theirs = (fiol.Learner(fiol.FIOL(loss), n_features=4, compiled=False) for loss in (fiol.Absolute(), Cents()))
    np.testing.assert_allclose(theirs.learn(X, y, weight), ours.learn(X, y, weight), rtol=1e-9, atol=1e-9)


def test_step_scales_are_saved_and_merged(tmp_path):
    X, y, _ = data()
    learner = fiol.Learner(fiol.FIOL(fiol.Absolute(), fiol.Ridge(0.01)), n_features=4, compiled=False)
    learner.learn(X, y)
    learner.save(tmp_path / "model")
    loaded = fiol.Learner.load(tmp_path / "model", compiled=False)
    np.testing.assert_array_equal(loaded.learn(X, y), learner.learn(X, y))
    merged = fiol.Learner.merge([learner, loaded])
    np.testing.assert_allclose(merged.engine.state.statistics, learner.engine.state.statistics)


# --- counts -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mean", [-1.0, 5.0])
def test_poisson_stream_is_close_to_batch_fit(mean, monkeypatch):
    from sklearn.linear_model import PoissonRegressor
    from sklearn.metrics import d2_tweedie_score

    interpret(monkeypatch)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((160, 3))
    rate = np.exp(X @ [0.5, -0.3, 0.2] + mean)
    y = rng.negative_binomial(5, 5.0 / (5.0 + rate)).astype(float)  # wider than Poisson's
    batch = PoissonRegressor(alpha=0.0, max_iter=1000).fit(X, y)
    ours = fiol.FIOLRegressor("poisson", random_state=0, max_iter=8, tol=None).fit(X, y)
    best, found = (d2_tweedie_score(y, model.predict(X), power=1.0) for model in (batch, ours))
    assert found > best - 0.04


# --- an explicit ridge ------------------------------------------------------------------------


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("size", [0.5, 2.0, 300.0])
def test_linearized_ridge_never_flips_the_sign_of_a_weight(size, average):
    """scikit-learn multiplies weights by max(0, 1 - eta alpha); so did a loop here, whose weights grew to 2.5e75."""
    X, y, _ = data()
    X /= np.abs(X).max(axis=0)
    update = fiol.SGD(fiol.Hinge(), fiol.Ridge(0.9), fiol.Constant(size))
    learner = fiol.Learner(update, n_features=4, compiled=False, average=average)
    w, b, total = np.zeros(4), 0.0, np.zeros(4)
    for x, target in zip(X, np.sign(y - 3.0), strict=True):
        slope = -target * (target * (x @ w + b) < 1.0)
        w = max(0.0, 1.0 - size * 0.9) * w - size * slope * x
        b -= size * slope
        total += w
        learner.learn([x], [target])
    np.testing.assert_allclose(learner.weights, total / len(y) if average else w, rtol=1e-9, atol=1e-9 * size)


def test_explicit_sgd_with_long_steps_matches_scikit_learn(monkeypatch):
    from sklearn.linear_model import SGDRegressor

    interpret(monkeypatch)
    X, y, _ = data()
    X /= np.abs(X).max(axis=0)
    same = {"alpha": 0.7, "max_iter": 3, "tol": None, "shuffle": False, "fit_intercept": False}
    theirs = SGDRegressor("epsilon_insensitive", eta0=2.0, learning_rate="constant", **same).fit(X, y)
    ours = fiol.FIOLRegressor("epsilon_insensitive", algorithm="SGD", step_size=2.0, penalty="l2", **same).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-9, atol=1e-12)


# --- when to stop -----------------------------------------------------------------------------


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_number_of_passes_is_invariant_to_the_unit_of_the_loss(unit):
    losses = [3.0, 2.0, 1.9, 1.899, 1.8985, 1.8984, 1.8983, 1.0]
    left = iter(losses)
    run = EpochRun(lambda order: unit * next(left))
    assert run_epochs([run], 1, Stopping(epochs=8, tol=1e-3, patience=3, relative=True)) == 6
    assert run.losses == [unit * loss for loss in losses[:6]]


def test_passes_with_zero_loss_stop():
    assert run_epochs([EpochRun(lambda order: 0.0)], 1, Stopping(epochs=100, tol=1e-3, patience=3, relative=True)) == 4
    assert run_epochs([EpochRun(lambda order: 1.0, lambda: 5.0)], 1, Stopping(100, 1e-3, 3, relative=True)) == 4


def test_regressor_passes_are_invariant_to_target_units(monkeypatch):
    interpret(monkeypatch)
    X, y, _ = data(40)
    for loss, units in (("squared_error", (1.0, 2.0**-12, 2.0**12)), ("absolute_error", (1.0, 2.0**12))):
        made = {fiol.FIOLRegressor(loss, random_state=0).fit(X, c * y).n_iter_ for c in units}
        assert len(made) == 1
