"""Joint losses: exact steps of softmax and Crammer-Singer match independent solvers."""

import pickle

import cvxpy as cp
import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import logsumexp, softmax
from sklearn.linear_model import LogisticRegression
from tests.interpreted import interpret

import fiol
from fiol import FIOLClassifier

LOSSES = [fiol.Softmax(), fiol.CrammerSinger()]
ONE_PASS = {"max_iter": 1, "shuffle": False}


def duals(loss, q, p, y):
    out = np.full(len(q), np.nan)
    loss.duals(np.array(q, float), p, y, out)
    return out


def draw(seed, classes=None):
    rng = np.random.default_rng(seed)
    k = classes or rng.integers(2, 7)
    return rng, rng.standard_normal(k) * 10.0 ** rng.uniform(-1, 1.5), 10.0 ** rng.uniform(-3, 3), int(rng.integers(k))


# --- one step ---------------------------------------------------------------------------------


@given(st.integers(0, 2**32))
def test_softmax_solves_its_equation(seed):
    rng, q, p, y = draw(seed)
    p = p ** rng.integers(1, 4)  # from 1e-9 to 1e9
    beta = duals(fiol.Softmax(), q, p, y)
    mpmath.mp.dps = 50
    z = [mpmath.mpf(a) + mpmath.mpf(p) * mpmath.mpf(b) for a, b in zip(q, beta, strict=True)]
    top = max(z)
    mass = sum(mpmath.exp(v - top) for v in z)
    # an error of e in beta moves the scores by p e, and rounding of beta alone is that much
    allowed = 1e-14 * (1.0 + np.abs(q).max() + p * np.abs(beta).max())
    for k in range(len(q)):
        expected = (k == y) - mpmath.exp(z[k] - top) / mass
        assert abs(beta[k] - expected) <= allowed
    assert abs(beta.sum()) <= 1e-15 * len(q)


@given(st.integers(0, 2**32))
def test_crammer_singer_step_is_a_projection(seed):
    _, q, p, y = draw(seed)
    beta = duals(fiol.CrammerSinger(), q, p, y)
    pull = np.eye(len(q))[y] - beta  # in the simplex, and only on classes whose new score is the highest
    assert (pull >= -1e-12).all()
    assert pull.sum() == pytest.approx(1.0, abs=1e-12)
    z = q + p * beta + (np.arange(len(q)) != y)
    tight = 1e-12 * (np.abs(q).max() + p)
    assert (z[pull > 1e-12] >= z.max() - tight).all()


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_joint_steps_match_a_convex_solver(loss):
    for seed in range(8):
        _, q, p, y = draw(seed)
        z = cp.Variable(len(q))
        margins = z + (np.arange(len(q)) != y)
        phi = (cp.log_sum_exp(z) if loss == fiol.Softmax() else cp.max(margins)) - z[y]
        cp.Problem(cp.Minimize(phi + cp.sum_squares(z - q) / (2.0 * p))).solve(solver=cp.CLARABEL)
        np.testing.assert_allclose(q + p * duals(loss, q, p, y), z.value, atol=1e-3)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_joint_steps_at_extreme_scores(loss):
    for q in ([0.0, 0.0, 0.0], [1e3, -1e3, 0.0], [-1e3, 1e3, 1e3]):
        for p in (0.0, 1e-300, 1e-9, 1e9, 1e150):
            for y in range(3):
                beta = duals(loss, q, p, y)
                assert np.isfinite(beta).all()
                assert beta[y] >= 0.0
                assert (np.delete(beta, y) <= 0.0).all()
                assert np.abs(beta).max() <= 1.0 + 1e-12
    assert duals(loss, [3.0], 1.0, 0) == [0.0]


def test_joint_loss_values_and_gradient_norms():
    for seed in range(20):
        _, z, _, y = draw(seed)
        gradient = softmax(z) - np.eye(len(z))[y]
        assert fiol.Softmax().value(z, y) == pytest.approx(logsumexp(z) - z[y], rel=1e-12, abs=1e-14)
        assert fiol.Softmax().steepness(z, y) == pytest.approx(np.linalg.norm(gradient), rel=1e-9, abs=1e-14)
        margin = np.delete(z, y).max() + 1.0 - z[y]
        assert fiol.CrammerSinger().value(z, y) == pytest.approx(max(margin, 0.0))
        assert fiol.CrammerSinger().steepness(z, y) == pytest.approx(np.sqrt(2.0) * (margin > 0.0))


# --- streams ----------------------------------------------------------------------------------


def stream(rows=60, d=5, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    X, w = rng.standard_normal((rows, d)), rng.standard_normal((d, classes))
    X[rng.random(X.shape) < 0.4] = 0.0
    return X, (X @ w + 0.3 * rng.standard_normal((rows, classes))).argmax(axis=1), rng.uniform(0.0, 3.0, rows)


def play(loss, X, y, weight, lam=0.0, eta=0.7, steps="constant", classes=3):
    """Play all rounds by a loop over all features, each step by the optimality conditions of the whole matrix."""
    d = X.shape[1]
    W, b, scores = np.zeros((d, classes)), np.zeros(classes), []
    squares, peak, b_square = np.zeros(d), np.zeros(d), 0.0
    for x, target, c in zip(X, y, weight, strict=True):
        seen = x != 0.0
        if steps == "scale_free":  # a value larger than any before shrinks its weights first
            grown = (np.abs(x) > peak) & (peak > 0.0)
            W[grown] *= (peak[grown] / np.abs(x[grown]))[:, None]
            peak = np.maximum(peak, np.abs(x))
        z = x @ W + b
        scores.append(z)
        step, b_step = np.full(d, eta), eta
        if steps != "constant":
            slope, unit = c * loss.steepness(z, target), np.ones(d)
            if steps == "scale_free":  # in units of 8, times the length of the row and its intercept
                unit = np.where(peak > 0.0, peak, 1.0)
                slope *= np.hypot(1.0, np.linalg.norm(x / unit)) / 8.0
            squares[seen] += (slope * x[seen]) ** 2
            b_square += slope**2
            step = eta / (unit**2 * (0.1 + np.sqrt(squares) / unit))
            b_step = eta / (0.1 + np.sqrt(b_square))
            if steps == "scale_free":
                step[peak == 0.0] = 0.0  # nothing is known of these
        shrink = 1.0 / (1.0 + step * lam * (peak**2 if steps == "scale_free" else 1.0))  # penalties in feature units
        p = b_step + np.sum(shrink * step * x * x)
        beta = c * duals(loss, x @ (shrink[:, None] * W) + b, c * p, int(target))
        W = shrink[:, None] * (W + np.outer(step * x, beta))
        b = b + b_step * beta
    return W.T, b, np.array(scores)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize(
    ("lam", "steps"), [(0.0, "constant"), (0.3, "adagrad"), (0.0, "scale_free"), (0.3, "scale_free")]
)
def test_joint_learners_match_eager_loop(loss, lam, steps):
    X, y, weight = stream()
    regularizer = fiol.Ridge(lam) if lam else fiol.Unregularized()
    adagrad = fiol.AdaGrad(0.7, 0.1)
    step_size = {"constant": fiol.Constant(0.7), "adagrad": adagrad, "scale_free": fiol.ScaleFree(adagrad)}[steps]
    compiled = steps == "scale_free" and not lam  # the default, which other tests compile, too
    update = fiol.FIOL(loss, regularizer, step_size)
    learner = fiol.Learner(update, n_features=5, classes=range(3), compiled=compiled)
    scores = learner.learn(X, y, weight)
    W, b, expected = play(loss, X, y, weight, lam, steps=steps)
    np.testing.assert_allclose(scores, expected, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(learner.weights, W, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(learner.intercept, b, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(learner.scores(X), X @ W.T + b, rtol=1e-9, atol=1e-9)
    assert learner.rounds == 60


def test_two_class_softmax_is_logistic_with_twice_the_step(monkeypatch):
    interpret(monkeypatch)
    X, y, weight = stream(classes=2)
    joint = fiol.Learner(fiol.FIOL(fiol.Softmax(), step_size=fiol.Constant(0.5)), n_features=5, classes=[0, 1])
    binary = fiol.Learner(fiol.FIOL(fiol.Logistic(), step_size=fiol.Constant(1.0)), n_features=5)
    scores = joint.learn(X, y, weight)
    np.testing.assert_allclose(
        scores[:, 1] - scores[:, 0], binary.learn(X, 2.0 * y - 1.0, weight), rtol=1e-9, atol=1e-12
    )


def test_joint_scores_are_invariant_to_feature_units():
    X, y, _ = stream()
    scale = 2.0 ** np.arange(-20, 30, 10)
    for loss in LOSSES:
        a, b = (fiol.Learner(fiol.FIOL(loss), n_features=5, classes=range(3)).learn(Z, y) for Z in (X, X * scale))
        assert np.array_equal(a, b)


def test_joint_learner_is_invariant_to_chunking_and_copies():
    X, y, weight = stream()
    whole, parts = (fiol.Learner(fiol.FIOL(fiol.Softmax()), n_features=5, classes=range(3)) for _ in range(2))
    whole.learn(X, y, weight)
    for start in range(0, 60, 7):
        parts.learn(sparse.csr_matrix(X[start : start + 7]), y[start : start + 7], weight[start : start + 7])
        parts = pickle.loads(pickle.dumps(parts))
    assert np.array_equal(whole.weights, parts.weights)


def test_invalid_joint_updates_raise():
    with pytest.raises(TypeError, match=r"Softmax goes with Ridge\(lam\) of one strength or .*, not L1"):
        fiol.Learner(fiol.FIOL(fiol.Softmax(), fiol.L1(0.1)))
    with pytest.raises(TypeError, match=r"Hinge has one score, not one per class: use a joint loss"):
        fiol.Learner(fiol.FIOL(fiol.Hinge()), classes=[0, 1])
    with pytest.raises(ValueError, match=r"y\[1\]: 3 is none of the classes \[0, 1, 2\]"):
        fiol.Learner(fiol.FIOL(fiol.Softmax()), classes=[0, 1, 2]).learn([[1.0], [1.0]], [0, 3])


# --- in the classifier ------------------------------------------------------------------------

NAMES = np.array(["cherry", "apple", "banana"])


@pytest.mark.parametrize("loss", ["softmax", "crammer_singer"])
def test_classifier_with_joint_loss(loss):
    X, y, weight = stream(rows=200)
    model = FIOLClassifier(loss, **ONE_PASS).fit(X, NAMES[y], sample_weight=weight)
    order = np.argsort(NAMES)
    update = fiol.FIOL({"softmax": fiol.Softmax(), "crammer_singer": fiol.CrammerSinger()}[loss])
    learner = fiol.Learner(update, n_features=5, classes=range(3))
    learner.learn(X, np.argsort(order)[y], weight)
    assert np.array_equal(model.coef_, learner.weights)
    assert np.array_equal(model.intercept_, learner.intercept)
    pieces = FIOLClassifier(loss)
    for k in range(200):
        pieces.partial_fit(
            sparse.csr_matrix(X[k : k + 1]), NAMES[y[k : k + 1]], NAMES if k == 0 else None, weight[k : k + 1]
        )
    assert np.array_equal(model.coef_, pieces.coef_)
    assert model.score(X, NAMES[y]) > 0.7
    assert model.loss_curve_[0] == pytest.approx(np.average(pieces.loss_curve_, weights=weight))
    if loss == "softmax":
        np.testing.assert_allclose(model.predict_proba(X), softmax(model.decision_function(X), axis=1), rtol=1e-12)
        np.testing.assert_allclose(model.to_sklearn().predict_proba(X), model.predict_proba(X), rtol=1e-9)
    assert hasattr(model, "predict_proba") == (loss == "softmax")


def test_two_class_joint_classifier_has_one_row_of_weights():
    X, y, _ = stream(classes=2)
    model = FIOLClassifier("softmax", **ONE_PASS).fit(X, y)
    assert model.coef_.shape == (1, 5)
    np.testing.assert_allclose(
        model.decision_function(X), X @ model.coef_[0] + model.intercept_[0], rtol=1e-9, atol=1e-12
    )
    plain = model.to_sklearn()
    assert type(plain) is LogisticRegression
    np.testing.assert_allclose(plain.predict_proba(X), model.predict_proba(X), rtol=1e-9)


def test_partial_fit_starts_new_classes_at_zero():
    X, y, _ = stream()
    model = FIOLClassifier("softmax").partial_fit(X[y == 0], NAMES[y[y == 0]])
    assert model.classes_.tolist() == ["cherry"]
    model.partial_fit(X[y != 1], NAMES[y[y != 1]])
    learner = model.learners_[0]  # its classes are in the order of their appearance
    before = learner.weights[learner.core.codes_of(model.classes_)]
    model.partial_fit(np.zeros((1, 5)), ["apple"], sample_weight=[1e-300])  # a column may be centered
    assert model.classes_.tolist() == ["apple", "banana", "cherry"]
    np.testing.assert_allclose(model.coef_, np.vstack([np.zeros(5), before]), atol=1e-200)
    assert model.partial_fit(X, NAMES[y]).score(X, NAMES[y]) > 0.6


def test_joint_classifier_rejects_invalid_parameters():
    X, y, _ = stream()
    refused = {"solver": "newton"}, {"record_every": 9}
    for wrong in ({"algorithm": "SGD"}, {"average": True}, {"positive": True}, *refused):
        (name,) = wrong
        if wrong in refused:
            with pytest.raises(ValueError, match=f"^Softmax has no use for {name}="):
                FIOLClassifier("softmax", **wrong).fit(X, y)
        assert len(FIOLClassifier(**wrong, **ONE_PASS)._update().loss.targets) > 0  # auto is one against the rest then
    for wrong in ({"penalty": "l1"}, {"positive": True}):
        with pytest.raises(TypeError, match=r'goes with Ridge.*: use LinearizedLoss.*, or loss="log_loss"$'):
            FIOLClassifier("softmax", **wrong).fit(X, y)
    with pytest.raises(TypeError, match=r"Softmax goes with Euclidean\(\) or DiagonalMetric\(\)"):
        FIOLClassifier("softmax", geometry="entropy").fit(X, y)


@pytest.mark.parametrize(
    "options",
    [
        {"average": True},
        {"algorithm": "SGD", "penalty": "l1", "alpha": 0.01},
        {"algorithm": "COMID", "penalty": "elasticnet", "positive": True},
        {"algorithm": "RDA", "penalty": "l1"},
        {"algorithm": "FTRLProximal", "penalty": "l1", "average": True},
        {"algorithm": "ImplicitFTRL", "penalty": "l2"},
        {"algorithm": "PA1", "step_size": 0.1},
        {"algorithm": "ISGD", "penalty": "l1"},
        {"geometry": "euclidean"},
    ],
    ids=str,
)
def test_joint_classifier_with_any_algorithm(options, monkeypatch):
    """One pass of the estimator is one pass of the learner with the update it names."""
    interpret(monkeypatch)
    X, y, weight = stream()
    model = FIOLClassifier("crammer_singer", **options, **ONE_PASS).fit(X, NAMES[y], sample_weight=weight)
    average = options.get("average", False)
    twin = fiol.Learner(model._update(), n_features=5, classes=sorted(NAMES), average=average, compiled=False)
    twin.learn(X, NAMES[y], weight)
    assert np.array_equal(model.coef_, twin.weights)
    assert np.array_equal(model.intercept_, twin.intercept)
    assert np.abs(model.coef_).max() > 0.0
