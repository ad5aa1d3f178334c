"""Defects of other streaming libraries, one test each; fiol has none of them."""

import numpy as np
import pytest
from oracles.general import minimize
from scipy import sparse

import fiol
from fiol import (
    COMID,
    FIOL,
    L1,
    AdaGrad,
    Constant,
    ElasticNet,
    FTRLProximal,
    Hinge,
    ImplicitFTRL,
    ImportanceAware,
    Learner,
    Logistic,
    Polynomial,
    Ridge,
    ScaleFree,
    Squared,
    Update,
)

ETA, LAM = 0.1, 0.01


def learner(update, **options):
    return Learner(update, intercept=False, compiled=False, **options)


def one_feature(i, rows=1):
    """Rows that hold feature i alone."""
    return sparse.csr_matrix((np.ones(rows), (np.arange(rows), np.full(rows, i))), (rows, i + 1))


# --- penalties --------------------------------------------------------------------------------

SHRUNK = {
    "l1": (L1(LAM), lambda w: max(w - ETA * LAM, 0.0)),
    "l2": (Ridge(LAM), lambda w: w / (1.0 + ETA * LAM)),
    "both": (ElasticNet(LAM, LAM), lambda w: max(w - ETA * LAM, 0.0) / (1.0 + ETA * LAM)),
}


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize(("penalty", "once"), SHRUNK.values(), ids=SHRUNK.keys())
@pytest.mark.parametrize("rounds", [1, 150, 1999])
def test_absent_features_are_shrunk_in_every_round(rounds, penalty, once, average):
    """scikit-learn and River shrink a feature only when it is seen, so what is rare is hardly penalised."""
    model = learner(FIOL(Squared(), penalty, Constant(ETA)), average=average)
    model.learn(one_feature(0, 4), np.full(4, 3.0))
    path = [model.last_weights[0]]
    model.learn(one_feature(1, rounds), np.ones(rounds))
    for _ in range(rounds):
        path.append(once(path[-1]))
    assert 0.9 < path[0] < 3.0
    assert model.last_weights[0] == pytest.approx(path[-1], rel=1e-10, abs=1e-15)
    assert model.scores([[1.0, 0.0]])[0] == model.weights[0]
    if penalty == L1(LAM) and rounds == 1999:
        assert model.last_weights[0] == 0.0


def test_weights_are_up_to_date_without_a_flush():
    """scikit-learn never flushes its cumulative l1, so `coef_` differs from the algorithm's weights."""
    model = learner(FIOL(Squared(), L1(LAM), Constant(ETA)))
    model.learn(one_feature(0), [3.0])
    first = model.weights[0]
    for n in range(1, 30):
        model.learn(one_feature(1), [1.0])
        assert model.weights[0] == pytest.approx(first - n * ETA * LAM, rel=1e-12)


@pytest.mark.parametrize("preset", [FIOL, COMID], ids=lambda preset: preset.__name__)
@pytest.mark.parametrize("penalty", [L1(1e-3), Ridge(1e-2), ElasticNet(1e-3, 1e-2)], ids=repr)
def test_new_feature_is_not_charged_for_earlier_rounds(preset, penalty):
    """VW subtracts all l1 since the last sync from a weight that is seen for the first time."""
    found = []
    for before in (0, 100, 3000):
        model = learner(preset(Squared(), penalty, Constant(ETA)))
        model.learn(one_feature(0, before), np.ones(before))
        model.learn(one_feature(1), [2.0])
        found.append(model.weights[1])
    assert found == pytest.approx([found[0]] * 3, rel=1e-12)
    assert found[0] > 0.15


@pytest.mark.parametrize(("penalty", "once"), SHRUNK.values(), ids=SHRUNK.keys())
def test_penalties_act_when_the_loss_is_zero(penalty, once):
    """VW regularises only where the loss is positive."""
    model = learner(FIOL(Hinge(), penalty, Constant(ETA)))
    model.learn([[0.05]], [1.0], [1e6])
    w = model.weights[0]
    assert w > 15.0
    for _ in range(100):
        assert model.learn([[1.0]], [1.0])[0] > 1.0  # no loss
        w = once(w)
        assert model.weights[0] == pytest.approx(w, rel=1e-10)


METRICS = {  # h / eta from the round, sums of squared gradients and largest values
    Constant(0.5): lambda t, square, peak: np.full_like(square, 2.0),
    Polynomial(): lambda t, square, peak: np.full_like(square, np.sqrt(t)),
    AdaGrad(1.0, 1.0): lambda t, square, peak: 1.0 + np.sqrt(square),
}


@pytest.mark.parametrize(
    ("steps", "metric"), METRICS.items(), ids=lambda value: None if callable(value) else repr(value)
)
def test_l1_and_l2_can_be_combined(steps, metric):
    """River refuses l1 with l2; here every round is the minimum with both, under any steps."""
    draw = np.random.default_rng(3)
    x, y = draw.standard_normal((12, 4)), 2.0 * draw.standard_normal(12)
    model, w, square = learner(FIOL(Squared(), ElasticNet(0.2, 0.3), steps)), np.zeros(4), np.zeros(4)
    zeros = 0
    for t in range(12):
        square += ((x[t] @ w - y[t]) * x[t]) ** 2
        h = fiol.DiagonalMetric(metric(t + 1.0, square, np.abs(x[: t + 1]).max(axis=0)))
        model.learn(x[t : t + 1], y[t : t + 1])
        best = minimize(x[t], y[t], w, Squared(), 0.2, 0.3, (-np.inf, np.inf), h, 1.0, 1.0)
        w = model.weights
        np.testing.assert_allclose(w, best, atol=1e-6)
        zeros += np.count_nonzero(w == 0.0)
    assert 0 < zeros < 48


# --- FTRL-Proximal ----------------------------------------------------------------------------


def ftrl(x, y, alpha, beta, l1, l2):
    """FTRL-Proximal as McMahan et al. 2013 have it, per coordinate with z and n; the weights after every round."""
    z, n, w, path = np.zeros(x.shape[1]), np.zeros(x.shape[1]), np.zeros(x.shape[1]), []
    for row, target in zip(x, y, strict=True):
        g = -target * row / (1.0 + np.exp(target * (row @ w)))
        z += g - (np.sqrt(n + g * g) - np.sqrt(n)) / alpha * w
        n += g * g
        w = np.where(np.abs(z) <= l1, 0.0, -(z - np.sign(z) * l1) / ((beta + np.sqrt(n)) / alpha + l2))
        path.append(w)
    return np.array(path)


def test_ftrl_weights_do_not_lag():
    """River's FTRL shows the weights of the round before: 0 after the first example instead of 1/6."""
    model = learner(FTRLProximal(Logistic(), step_size=AdaGrad(0.5, 1.0)))
    assert model.learn([[1.0]], [1.0]) == [0.0]
    assert model.weights == pytest.approx([1.0 / 6.0])


@pytest.mark.parametrize(("l1", "l2"), [(0.7, 0.0), (0.7, 0.5), (0.0, 0.5)])
def test_ftrl_returns_weights_to_zero(l1, l2):
    """River's FTRL leaves a weight where it was when its sum falls below l1."""
    draw = np.random.default_rng(0)
    x = draw.choice([0.0, 0.0, 1.0, -0.5], (80, 5))
    y = np.where(np.arange(80) < 40, 1.0, -1.0) * draw.choice([1.0, 1.0, -1.0], 80)
    model, expected = learner(FTRLProximal(Logistic(), ElasticNet(l1, l2), AdaGrad(0.5, 1.0), once=True)), []
    for row, target in zip(x, y, strict=True):
        model.learn(row[None], [target])
        expected.append(model.weights)
    reference = ftrl(x, y, 0.5, 1.0, l1, l2)
    np.testing.assert_allclose(expected, reference, rtol=1e-11, atol=1e-14)
    np.testing.assert_array_equal(np.array(expected) == 0.0, reference == 0.0)
    if l1:
        back = (reference[:-1] != 0.0) & (reference[1:] == 0.0)
        assert back.any()


@pytest.mark.parametrize("preset", [FTRLProximal, ImplicitFTRL], ids=lambda preset: preset.__name__)
def test_per_round_penalty_zeroes_absent_features(preset):
    """A penalty that counts once per round sets weights of features that are not seen again to exactly 0."""
    model = learner(preset(Logistic(), L1(0.05)))
    model.learn(one_feature(0, 5), np.ones(5))
    assert model.weights[0] > 0.0
    model.learn(one_feature(1, 100), np.ones(100))
    assert model.weights[0] == 0.0


# --- importance and step sizes ----------------------------------------------------------------


@pytest.mark.parametrize("loss", [Squared(), fiol.Absolute(), fiol.Huber(0.5), fiol.EpsilonInsensitive(0.1)], ids=repr)
@pytest.mark.parametrize("steps", [Constant(0.1), AdaGrad(), ScaleFree()], ids=repr)
def test_heavy_sample_does_not_overshoot(steps, loss):
    """scikit-learn multiplies the gradient: target 1 with weight 1000 gives the weight 100."""
    reached = []
    for weight in (1e-3, 1.0, 1e3, 1e6, 1e30):
        model = learner(FIOL(loss, step_size=steps))
        model.learn([[1.0]], [1.0], [weight])
        reached.append(model.weights[0])
    assert all(0.0 < w <= 1.0 for w in reached)
    if steps == Constant(0.1):
        assert np.diff(reached).min() > -1e-12
        assert reached[-1] > 0.85


def test_sample_weight_scales_the_step():
    """A sample of weight h makes the step h eta, no more and no less."""
    x, y = [[1.0, -2.0, 0.5]], [3.0]
    one, other = learner(FIOL(Squared(), step_size=Constant(0.1))), learner(FIOL(Squared(), step_size=Constant(70.0)))
    one.learn(x, y, [700.0])
    other.learn(x, y)
    np.testing.assert_allclose(one.weights, other.weights, rtol=1e-13)


@pytest.mark.parametrize("loss", [Squared(), Logistic(), Hinge()], ids=repr)
def test_importance_aware_weight_matches_repeated_samples(loss):
    """Only VW treats a weight of h as h samples: here the importance-aware step does, to the last digits."""
    once, often = (learner(Update(loss, step_size=Constant(0.05), loss_step=ImportanceAware())) for _ in range(2))
    once.learn([[1.0, -2.0]], [1.0], [50.0])
    often.learn([[1.0, -2.0]] * 50, np.ones(50))
    np.testing.assert_allclose(once.weights, often.weights, rtol=1e-9)


def regression(rows=400):
    """Twenty features, half of them fifty times as large as the others."""
    draw = np.random.default_rng(0)
    x = draw.standard_normal((rows, 20)) * np.where(np.arange(20) < 10, 1.0, 50.0)
    truth = draw.standard_normal(20)
    return x, x @ truth + 0.1 * draw.standard_normal(rows), truth


@pytest.mark.parametrize("size", [1e-4, 1e-2, 1.0, 1e2, 1e4])
def test_unscaled_regression_never_explodes(size):
    """scikit-learn and River end with weights of 1e10 and more, silently, for every ordinary step size."""
    x, y, truth = regression()
    for steps in (Constant(size), Polynomial(size), AdaGrad(size), ScaleFree(AdaGrad(size))):
        model = learner(FIOL(Squared(), step_size=steps))
        scores = model.learn(x, y)
        assert np.abs(model.weights).max() < 10.0 * np.abs(truth).max()
        assert np.mean((scores - y) ** 2) < np.mean(y**2)  # better than nothing from the first row on


@pytest.mark.parametrize(
    ("steps", "error"), [(lambda size: AdaGrad(size, 1.0), 0.25), (lambda size: ScaleFree(Constant(size)), 0.05)]
)
def test_unscaled_regression_is_learned_by_steps_per_feature(steps, error):
    """Stability alone is not accuracy: with a metric per feature, sizes from 1 to 10000 find the truth in one pass."""
    x, y, truth = regression(800)
    for size in (1.0, 10.0, 1e4):
        model = learner(FIOL(Squared(), step_size=steps(size)))
        model.learn(x, y)
        assert np.linalg.norm(model.weights - truth) < error * np.linalg.norm(truth)


@pytest.mark.parametrize("eta", [0.01, 1.0, 10.0, 100.0])
@pytest.mark.parametrize("penalty", [L1(0.3), ElasticNet(0.3, 0.2)], ids=repr)
@pytest.mark.parametrize("loss", [Squared(), Logistic(), Hinge()], ids=repr)
def test_large_step_is_the_exact_minimum(loss, penalty, eta):
    """inc_prox_pt's step with a regularizer is off by 0.8 and more at eta = 10, the regime it is meant for."""
    draw = np.random.default_rng(1)
    x, y = draw.standard_normal((6, 5)), draw.choice([-1.0, 1.0], 6)
    model = learner(FIOL(loss, penalty, Constant(eta)))
    l2 = getattr(penalty, "lam2", 0.0)
    for row, target in zip(x, y, strict=True):
        before = model.weights if model.rounds else np.zeros(5)
        model.learn(row[None], [target])
        best = minimize(row, target, before, loss, 0.3, l2, (-np.inf, np.inf), fiol.Euclidean(), eta, 1.0)
        np.testing.assert_allclose(model.weights, best, atol=2e-5)
