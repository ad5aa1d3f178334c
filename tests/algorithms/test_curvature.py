"""Curvature steps: the predicted uncertainty of scores, and weights that drift."""

import itertools

import numpy as np
import pytest
import scipy.sparse
from oracles.outliers import learned

import fiol


def learner_of(loss, step_size=None, **rest):
    step_size = fiol.ScaleFree(fiol.Curvature()) if step_size is None else step_size
    return fiol.Learner(fiol.FIOL(loss, step_size=step_size), compiled=False, **rest)


def drawn(rng, rows, d):
    """Rows and the scores of weights that are normal with variance 1/4, the intercept too."""
    X = rng.standard_normal((rows, d))
    return X, 0.5 * (X @ rng.standard_normal(d) + rng.standard_normal())


def surprise(learner, X, truth):
    """The mean of the squared errors of scores, each by the variance that the learner expects."""
    return np.mean(((learner.scores(X) - truth) / learner.uncertainty(X)) ** 2)


def test_logistic_score_errors_match_predicted_variance():
    found = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X, truth = drawn(rng, 220, 6)
        y = np.where(rng.random(220) < 1.0 / (1.0 + np.exp(-truth)), 1.0, -1.0)
        learner = learner_of(fiol.Logistic(), fiol.Curvature(prior=4.0))
        learner.learn(X[:200], y[:200])
        found.append(surprise(learner, X[200:], truth[200:]))
    assert 0.7 < np.mean(found) < 1.5


@pytest.mark.parametrize("noise", [0.1, 10.0])
def test_squared_loss_score_errors_match_predicted_variance(noise):
    found = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X, truth = drawn(rng, 320, 6)
        truth = noise * truth
        learner = learner_of(fiol.Squared(), fiol.Curvature(prior=0.1))
        learner.learn(X[:300], truth[:300] + noise * rng.standard_normal(300))
        found.append(surprise(learner, X[300:], truth[300:]))
    assert 0.6 < np.mean(found) < 1.4


def test_uncertainty_matches_formula():
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((30, 3)), np.where(rng.random(30) < 0.5, 1.0, -1.0)
    learner = learner_of(fiol.Logistic(), fiol.Curvature(size=2.0, prior=3.0))
    h, own = np.full(3, 3.0), 3.0
    for x, label in zip(X, y, strict=True):
        learner.learn(x[None, :], [label])
        chance = 1.0 / (1.0 + np.exp(-learner.scores(x[None, :])[0]))
        b, p = chance * (1.0 - chance), 2.0 * (x**2 / h).sum() + 2.0 / own
        h, own = h + x**2 * b / (1.0 + b * p), own + b / (1.0 + b * p)
    np.testing.assert_allclose(learner.uncertainty(X) ** 2, 2.0 * (X**2 / h).sum(axis=1) + 2.0 / own, rtol=1e-12)


@pytest.mark.parametrize("loss", [fiol.Logistic(), fiol.Poisson(), fiol.Squared()])
def test_uncertainty_is_invariant_to_feature_units(loss):
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((50, 3)), 1.0 * rng.integers(0, 4, 50)
    y = np.where(y > 1.0, 1.0, -1.0) if isinstance(loss, fiol.Logistic) else y
    one, two = learner_of(loss), learner_of(loss)
    one.learn(X, y)
    two.learn(X * [1.0, 1024.0, 2.0**-9], y)
    np.testing.assert_array_equal(one.uncertainty(X), two.uncertainty(X * [1.0, 1024.0, 2.0**-9]))


def test_uncertainty_of_any_container_and_of_unseen_features():
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((40, 3)) * rng.integers(0, 2, (40, 3)), np.where(rng.random(40) < 0.5, 1.0, -1.0)
    learner = learner_of(fiol.Logistic())
    dicts = [{"abc"[j]: v for j, v in enumerate(row) if v != 0.0} for row in X]
    learner.learn(dicts, y)
    known = learner.uncertainty(dicts)
    np.testing.assert_array_equal(learner.uncertainty(iter(dicts)), known)
    numbered = learner_of(fiol.Logistic())
    numbered.learn(scipy.sparse.csr_matrix(X), y)
    np.testing.assert_allclose(numbered.uncertainty(X), known, rtol=1e-12)
    more = numbered.uncertainty(scipy.sparse.csr_matrix(np.hstack([X, np.full((40, 1), 5.0)])))
    np.testing.assert_allclose(more**2, known**2 + 1.0, rtol=1e-12)  # the prior's variance, in any unit


def test_uncertainty_falls_with_more_rows():
    learner, rng = learner_of(fiol.Softmax(), classes=[0, 1, 2]), np.random.default_rng(4)
    X, before = rng.standard_normal((200, 4)), []
    for start in range(0, 200, 50):
        learner.learn(X[start : start + 50], rng.integers(0, 3, 50))
        before.append(learner.uncertainty(X))
    assert all((a > b).all() for a, b in itertools.pairwise(before))


@pytest.mark.parametrize(
    ("loss", "step_size"),
    [(fiol.Logistic(), fiol.ScaleFree()), (fiol.Hinge(), fiol.Curvature()), (fiol.Squared(), fiol.Constant(0.1))],
)
def test_uncertainty_without_curvature_raises_and_names_the_alternative(loss, step_size):
    with pytest.raises(TypeError, match=r"uncertainty needs step_size=Curvature\(\) or .* this learner has"):
        learner_of(loss, step_size).uncertainty([[1.0]])


@pytest.mark.parametrize("loss", [fiol.Hinge(), fiol.Absolute(), fiol.Quantile(0.9)])
def test_short_step_across_a_kink_does_not_stop_learning(loss):
    """The slope over a step of 1e-9 across a kink is 1e9; used as curvature it would stop all further steps."""
    learner = learner_of(loss, fiol.Curvature())
    learner.learn([[1.0]] * 60, [1.0, 1.0 + 1e-9] * 30 if not isinstance(loss, fiol.Hinge) else [1.0] * 60)
    learner.learn([[1.0]] * 400, [-1.0] * 400)
    assert learner.scores([[1.0]])[0] < 0.0


# --- weights that walk ------------------------------------------------------------------------


@pytest.mark.parametrize("free", [False, True])
def test_noise_adds_to_variance_of_seen_features(free):
    """Number by number, with variances instead of metrics."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((40, 3)) * [1.0, 20.0, 0.1] * (rng.random((40, 3)) < 0.7)
    y = np.where(rng.random(40) < 0.5, 1.0, -1.0)
    rule = fiol.Curvature(size=2.0, prior=3.0, noise=0.2)
    learner = learner_of(fiol.Logistic(), fiol.ScaleFree(rule) if free else rule, n_features=3)
    peak, left, bends = np.append(np.zeros(3), 1.0), np.ones(4), np.zeros(4)
    for row, label in zip(X, y, strict=True):
        x = np.append(row, 1.0)
        seen = x != 0.0
        unit = np.where(seen & free, np.maximum(peak, np.abs(x)), 1.0)
        expected = 2.0 * (x[seen] ** 2 / unit[seen] ** 2 * (1.0 / (3.0 * left + bends / unit**2) + 0.2)[seen]).sum()
        np.testing.assert_allclose(learner.uncertainty(row[None, :])[0] ** 2, expected, rtol=1e-10)
        learner.learn(row[None, :], [label])
        x = learned(x, peak) if free else x
        peak = np.maximum(peak, np.abs(x))
        unit = np.where(seen & free, peak, 1.0)
        h = 3.0 * left + bends / unit**2
        grown = np.where(seen, 1.0 / (1.0 + 0.2 * h), 1.0)
        left, bends = left * grown, bends * grown
        chance = 1.0 / (1.0 + np.exp(-learner.scores(row[None, :])[0]))
        b, p = chance * (1.0 - chance), expected
        bends = bends + seen * x**2 * b / (1.0 + b * p)


def test_zero_noise_changes_no_bit():
    rng = np.random.default_rng(6)
    X, y = rng.standard_normal((50, 3)), np.where(rng.random(50) < 0.5, 1.0, -1.0)
    plain, silent, walks = (learner_of(fiol.Logistic(), fiol.Curvature(1.0, 1.0, *c)) for c in ((), (0.0,), (1e-12,)))
    scores = plain.learn(X, y)
    np.testing.assert_array_equal(silent.learn(X, y), scores)
    np.testing.assert_allclose(walks.learn(X, y), scores, rtol=1e-8)
    assert silent.update.statistics() == ("bends", "pending")
    assert walks.update.statistics() == ("bends", "pending", "lost")


def test_noise_lets_weights_follow_drift():
    rng = np.random.default_rng(7)
    X = rng.standard_normal((1200, 3))
    y = np.where(X[:, 0] * np.where(np.arange(1200) < 900, 1.0, -1.0) > 0.0, 1.0, -1.0)
    still, walks = (
        fiol.Learner(fiol.FIOL(fiol.Logistic(), step_size=fiol.ScaleFree(fiol.Curvature(noise=c))), compiled=False)
        for c in (0.0, 0.1)
    )
    late = [np.mean(y[1050:] * learner.learn(X, y)[1050:] > 0.0) for learner in (still, walks)]
    assert late[0] < 0.8 < 0.95 < late[1]


@pytest.mark.parametrize("noise", [0.1, 1e6, 1e100])
@pytest.mark.parametrize("loss", [fiol.SquaredHinge(), fiol.Hinge(), fiol.Logistic()], ids=repr)
def test_noise_on_uninformative_rows_stays_finite(loss, noise):
    """Where rows show nothing, variances grow in every round, and steps with them."""
    learner = learner_of(loss, fiol.ScaleFree(fiol.Curvature(noise=noise), centered=0), dtype="float32")
    learner.learn(np.ones((200, 1)), np.ones(200))
    assert np.isfinite(learner.engine.state.statistics).all()
    assert (learner.engine.state.statistics[0, 2] > 0.0).all()
    learner.learn(np.ones((5, 1)), [1.0, -1.0, 1.0, -1.0, 1.0])
    assert np.isfinite(learner.weights).all()
    assert np.isfinite(learner.scores([[1.0]])).all()


def test_file_without_noise_field_loads_and_learns_on(tmp_path):
    from fiol.persistence import component_json

    said = component_json.to_json(fiol.ScaleFree(fiol.Curvature(2.0, 3.0)))
    del said["fields"]["step_size"]["fields"]["noise"]
    assert component_json.from_json(said) == fiol.ScaleFree(fiol.Curvature(2.0, 3.0, 0.0))


@pytest.mark.parametrize("loss", [fiol.Logistic(), fiol.Absolute()], ids=repr)
def test_learner_with_noise_is_saved_and_merged(tmp_path, loss):
    rng = np.random.default_rng(8)
    X, y = rng.standard_normal((60, 3)), np.where(rng.random(60) < 0.5, 1.0, -1.0)
    step_size = fiol.ScaleFree(fiol.Curvature(noise=0.1))
    learner = fiol.Learner(fiol.FIOL(loss, fiol.ElasticNet(0.01, 0.01), step_size), compiled=False)
    learner.learn(X[:30], y[:30])
    learner.save(tmp_path / "model")
    loaded = fiol.Learner.load(tmp_path / "model", compiled=False)
    twin = fiol.Learner.merge([learner, loaded])
    np.testing.assert_allclose(twin.engine.state.statistics, learner.engine.state.statistics)
    np.testing.assert_array_equal(loaded.learn(X[30:], y[30:]), learner.learn(X[30:], y[30:]))


class SlowCurvature(fiol.Curvature):
    """A curvature step size without a model of noise."""

    def h(self, s, unit):
        return 2.0 * (self.prior + s[0] / unit)


class OwnNoise(fiol.Curvature):
    """A curvature step size with its own forgetting."""

    def for_loss(self, loss):
        return self


@pytest.mark.parametrize("scaled", [False, True])
def test_noise_in_a_subclass_of_curvature_is_refused_unless_the_subclass_uses_it(scaled):
    def learner(step_size):
        step_size = fiol.ScaleFree(step_size) if scaled else step_size
        return fiol.Learner(fiol.FIOL(fiol.Squared(), step_size=step_size), compiled=False)

    with pytest.raises(
        TypeError, match=r"^SlowCurvature does not use noise=0.1: set noise=0, or define for_loss\(loss\)"
    ):
        learner(SlowCurvature(noise=0.1))
    learner(SlowCurvature()).learn([[1.0]], [1.0])
    learner(OwnNoise(noise=0.1)).learn([[1.0]], [1.0])
