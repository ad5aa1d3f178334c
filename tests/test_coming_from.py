"""What docs/coming_from.md says is the same, is: presets beside scikit-learn, River and Vowpal Wabbit."""

import functools
import inspect
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from river import linear_model, optim
from scipy import sparse
from sklearn.linear_model import SGDClassifier, SGDRegressor

import fiol
from fiol import river as at_river

PAGE = (Path(__file__).parent.parent / "docs" / "coming_from.md").read_text()
ONCE = {"max_iter": 1, "tol": None, "shuffle": False}


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    """Nothing is compiled."""
    for module in ("estimators", "river"):
        monkeypatch.setattr(f"fiol.{module}.Learner", functools.partial(fiol.Learner, compiled=False))


def data(rows=120, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, d))
    return X, X @ np.resize([1.0, -2.0, 0.0, 0.5], d) + 0.3 + rng.standard_normal(rows)


def same(ours, theirs):
    assert np.allclose(ours.coef_, theirs.coef_, rtol=1e-10, atol=1e-14)
    assert np.allclose(ours.intercept_, theirs.intercept_, rtol=1e-10, atol=1e-14)


# --- scikit-learn -------------------------------------------------------------------------------


@pytest.mark.parametrize("penalty", [None, "l2"])
@pytest.mark.parametrize(
    ("schedule", "step_size"),
    [
        ({"learning_rate": "constant", "eta0": 0.02}, lambda factor: 0.02 * factor),
        ({"learning_rate": "invscaling", "eta0": 0.05, "power_t": 0.3}, lambda f: fiol.Polynomial(0.05 * f, 0.3)),
    ],
    ids=["constant", "invscaling"],
)
@pytest.mark.parametrize(
    ("theirs", "ours", "factor"),
    [
        ("log_loss", "log_loss", 1),
        ("hinge", "hinge", 1),
        ("squared_hinge", "squared_hinge", 2),
        ("squared_error", "squared_error", 1),
        ("huber", fiol.Huber(0.1), 1),
        ("epsilon_insensitive", "epsilon_insensitive", 1),
        ("squared_epsilon_insensitive", fiol.SquaredEpsilonInsensitive(0.1), 2),
    ],
)
def test_explicit_steps_of_scikit_learn(theirs, ours, factor, schedule, step_size, penalty):
    """Losses without their half: double the step, halve the penalty."""
    X, y = data()
    their, our = {"penalty": penalty, "alpha": 0.02}, {"penalty": penalty, "alpha": 0.02 / factor}
    our |= {"algorithm": "SGD", "step_size": step_size(factor)}
    if theirs not in ("log_loss", "hinge", "squared_hinge"):
        same(
            fiol.FIOLRegressor(ours, **our, **ONCE).fit(X, y),
            SGDRegressor(theirs, **their, **schedule, **ONCE).fit(X, y),
        )
    same(
        fiol.FIOLClassifier(ours, **our, **ONCE).fit(X, y > 0),
        SGDClassifier(theirs, **their, **schedule, **ONCE).fit(X, y > 0),
    )


def test_equal_seeds_shuffle_alike():
    X, y = data()
    both = {"max_iter": 3, "tol": None, "random_state": 7}
    same(
        fiol.FIOLRegressor(algorithm="SGD", step_size=0.02, **both).fit(X, y),
        SGDRegressor(penalty=None, learning_rate="constant", eta0=0.02, **both).fit(X, y),
    )


def test_rare_features_are_shrunk():
    """The first example of the page."""
    X = sparse.csr_matrix(np.array([[1.0, 1.0]] + 200 * [[1.0, 0.0], [-1.0, 0.0]]))
    y = [1] + 200 * [1, 0]
    theirs = SGDClassifier("log_loss", penalty="l1", alpha=0.01, learning_rate="constant", eta0=0.1, **ONCE).fit(X, y)
    for algorithm in ("FIOL", "COMID"):
        ours = fiol.FIOLClassifier(penalty="l1", alpha=0.01, step_size=0.1, algorithm=algorithm, **ONCE).fit(X, y)
        assert ours.coef_[0, 1] == 0.0 < theirs.coef_[0, 1]


def test_scikit_learns_intercept_of_sparse_rows():
    X, y = sparse.csr_matrix([[2.0]]), [1.0]
    theirs = SGDRegressor(penalty=None, learning_rate="constant", eta0=1e-6, **ONCE).fit(X, y)
    ours = fiol.FIOLRegressor(algorithm="SGD", step_size=1e-6, **ONCE).fit(X, y)
    assert theirs.intercept_[0] == pytest.approx(0.01 * ours.intercept_[0], rel=1e-9)
    assert theirs.coef_[0] == pytest.approx(ours.coef_[0], rel=1e-9)


def test_an_exact_step_of_any_size_survives():
    X, y = data()
    big = {"step_size": 10.0, **ONCE}
    assert np.abs(fiol.FIOLRegressor(**big).fit(X, y).coef_).max() < 10.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        exploded = fiol.FIOLRegressor(algorithm="SGD", **big).fit(X, y).coef_
    assert not np.abs(exploded).max() < 1e100


@pytest.mark.parametrize(("loss", "algorithm"), [("hinge", "PA1"), ("epsilon_insensitive", "PA1")])
def test_pa1_is_an_exact_step(loss, algorithm):
    X, y = data()
    estimator, target = (fiol.FIOLClassifier, y > 0) if loss == "hinge" else (fiol.FIOLRegressor, y)
    same(
        estimator(loss, algorithm=algorithm, step_size=0.1, **ONCE).fit(X, target),
        estimator(loss, step_size=0.1, **ONCE).fit(X, target),
    )


# --- River --------------------------------------------------------------------------------------


def learned(model, X, y):
    for row, target in zip(X.tolist(), y.tolist(), strict=True):
        model.learn_one(dict(zip("abcde", row, strict=True)), target)
    return model


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (
            linear_model.LogisticRegression(optim.SGD(0.1), intercept_lr=0.1),
            at_river.FIOLClassifier(algorithm="SGD", step_size=0.1),
        ),
        (
            linear_model.LogisticRegression(
                optim.SGD(optim.schedulers.InverseScaling(0.1, 0.4)), loss=optim.losses.Hinge(), intercept_lr=0.0
            ),
            at_river.FIOLClassifier("hinge", algorithm="SGD", step_size=fiol.Polynomial(0.1, 0.4), fit_intercept=False),
        ),
        (
            linear_model.LogisticRegression(optim.SGD(0.1), l2=0.01, intercept_lr=0.1),
            at_river.FIOLClassifier(algorithm="SGD", step_size=0.1, penalty="l2", alpha=0.01),
        ),
        (
            linear_model.LogisticRegression(optim.AdaGrad(0.1, eps=1e-300), intercept_lr=0.0),
            at_river.FIOLClassifier(algorithm="SGD", step_size=fiol.AdaGrad(0.1, kappa=0.0), fit_intercept=False),
        ),
        (
            linear_model.PAClassifier(C=0.1, mode=1, learn_intercept=False),
            at_river.FIOLClassifier("hinge", algorithm="PA1", step_size=0.1, fit_intercept=False),
        ),
        (
            linear_model.PAClassifier(C=0.1, mode=2, learn_intercept=False),
            at_river.FIOLClassifier("squared_hinge", algorithm="PA2", step_size=0.1, fit_intercept=False),
        ),
        (
            linear_model.PAClassifier(mode=0, learn_intercept=False),
            at_river.FIOLClassifier("hinge", algorithm="PA", fit_intercept=False),
        ),
        (
            linear_model.LinearRegression(optim.SGD(0.01), intercept_lr=0.01),
            at_river.FIOLRegressor(algorithm="SGD", step_size=0.02),
        ),
        *(
            (
                linear_model.LinearRegression(optim.SGD(0.01), loss=theirs, intercept_lr=0.01),
                at_river.FIOLRegressor(ours, algorithm="SGD", step_size=0.01),
            )
            for theirs, ours in (
                (optim.losses.Absolute(), "absolute_error"),
                (optim.losses.Quantile(0.8), fiol.Quantile(0.8)),
                (optim.losses.Huber(0.5), fiol.Huber(0.5)),
            )
        ),
    ],
    ids=str,
)
def test_the_same_as_rivers(theirs, ours):
    X, y = data()
    classes = isinstance(ours, at_river.FIOLClassifier)
    theirs, ours = theirs.clone(), ours.clone()
    learned(theirs, X, y > 0 if classes else y)
    learned(ours, X, y > 0 if classes else y)
    weights = ours.weights[True] if classes else ours.weights
    assert weights == pytest.approx(dict(theirs.weights), rel=1e-9)


# --- Vowpal Wabbit ------------------------------------------------------------------------------


def test_ftrl_proximal_as_vowpal_wabbit_has_it():
    """Its formulas: z += g - sigma w, and w from z by l1, l2, alpha and beta."""
    alpha, beta, l1, l2 = 0.1, 1.0, 4.0, 0.2
    X, y = data()
    y = np.where(y > 0, 1.0, -1.0)
    update = fiol.FTRLProximal(fiol.Logistic(), fiol.ElasticNet(l1, l2), fiol.AdaGrad(alpha, kappa=beta), once=True)
    learner = fiol.Learner(update, intercept=False, compiled=False)
    learner.learn(X, y)
    w, z, n = np.zeros(5), np.zeros(5), np.zeros(5)
    for x, target in zip(X, y, strict=True):
        g = -target / (1.0 + np.exp(target * (x @ w))) * x
        z += g - (np.sqrt(n + g * g) - np.sqrt(n)) / alpha * w
        n += g * g
        w = np.where(np.abs(z) <= l1, 0.0, (np.sign(z) * l1 - z) / (l2 + (beta + np.sqrt(n)) / alpha))
    assert (w == 0.0).any()
    assert np.allclose(learner.weights, w, rtol=1e-10)


# --- the page -----------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [SGDClassifier, SGDRegressor])
def test_every_option_of_scikit_learn_is_on_the_page(model):
    section = PAGE[PAGE.index("## SGDClassifier") : PAGE.index("## PassiveAggressive")]
    for name in inspect.signature(model).parameters:
        assert re.search(rf"`[^`]*\b{name}\b[^`]*`", section), name


@pytest.mark.parametrize("model", [linear_model.LogisticRegression, linear_model.LinearRegression])
def test_every_option_of_river_is_on_the_page(model):
    section = PAGE[PAGE.index("## River") :]
    for name in inspect.signature(model).parameters:
        assert re.search(rf"`[^`]*\b{name}\b[^`]*`", section), name
    for name in linear_model.__all__:
        assert name in section or name == "base", name


def test_whatever_the_page_names_exists():
    for name in re.findall(r"\bfiol\.([A-Z]\w+)", PAGE):
        assert hasattr(fiol, name), name
    for name in re.findall(r"`(?:\w+=)?([A-Z][A-Za-z0-9]+)\(", PAGE[PAGE.index("## Vowpal") : PAGE.index("## River")]):
        assert hasattr(fiol, name), name
