"""The passive-aggressive drop-ins pass scikit-learn's checks and have the weights of its estimators."""

import pickle
import warnings

import numpy as np
import pytest
import sklearn
from scipy import sparse
from sklearn import linear_model
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.interpreted import interpret

import fiol
from fiol.integrations.passive_aggressive import PassiveAggressiveClassifier, PassiveAggressiveRegressor


@parametrize_with_checks([PassiveAggressiveClassifier(max_iter=5), PassiveAggressiveRegressor(max_iter=5)])
@pytest.mark.filterwarnings("ignore")
def test_passive_aggressive_estimators_pass_scikit_learns_checks(estimator, check):
    check(estimator)


def reference(model):
    """scikit-learn's estimator with the same parameters; its SGD does the same once they are removed."""
    parameters = model.get_params()
    name = type(model).__name__
    if hasattr(linear_model, name):
        return getattr(linear_model, name)(**parameters)
    number = "epsilon" in parameters
    parameters["learning_rate"] = "pa2" if "squared" in parameters["loss"] else "pa1"
    parameters |= {"loss": "epsilon_insensitive" if number else "hinge", "penalty": None, "eta0": parameters.pop("C")}
    return (linear_model.SGDRegressor if number else linear_model.SGDClassifier)(**parameters)


def rows(n=150, d=8, seed=0, empty=True):
    rng = np.random.default_rng(seed)
    X, w = rng.standard_normal((n, d)), rng.standard_normal((d, 3))
    X[rng.random(X.shape) < 0.4] = 0.0
    X[5] = 0.0 if empty else 1.0
    noise = rng.standard_normal((n, 3))
    return X, (X @ w + noise).argmax(axis=1), X @ w[:, 0] + 2.0 + 0.3 * noise[:, 0]


def same(mine, other, rtol=1e-9):
    assert mine.n_iter_ == other.n_iter_
    assert mine.t_ == other.t_
    assert mine.coef_.shape == other.coef_.shape
    assert mine.intercept_.shape == other.intercept_.shape
    np.testing.assert_allclose(mine.coef_, other.coef_, rtol=rtol, atol=rtol * np.abs(other.coef_).max())
    np.testing.assert_allclose(mine.intercept_, other.intercept_, rtol=rtol, atol=rtol)


OPTIONS = [
    {},
    {"C": 0.01},
    {"C": 100.0},
    {"shuffle": False},
    {"average": True},
    {"average": 40},
    {"average": 10_000},
    {"early_stopping": True, "validation_fraction": 0.2},
    {"fit_intercept": False},
    {"tol": None, "max_iter": 3},
    {"n_iter_no_change": 1, "tol": 1e-2},
]


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.filterwarnings("ignore")
def test_passive_aggressive_weights_match_scikit_learn(options, container):
    X, y, target = rows(empty="average" not in options and options.get("C") != 100.0)
    X, options = container(X), {"max_iter": 20, "random_state": 3, **options}
    squared = "average" not in options  # averages, of weights that are there, need not know the loss
    for loss in ("hinge", "squared_hinge")[: 1 + squared]:
        for labels in (y, np.array(["no", "yes"])[(y > 0).astype(int)]):
            model = PassiveAggressiveClassifier(loss=loss, **options)
            other = reference(model).fit(X, labels)
            same(model.fit(X, labels), other)
            assert np.array_equal(model.predict(X), other.predict(X))
    for loss in ("epsilon_insensitive", "squared_epsilon_insensitive")[: 1 + squared]:
        model = PassiveAggressiveRegressor(loss=loss, epsilon=0.2, **options)
        other = reference(model).fit(X, target)
        same(model.fit(X, target), other)
        np.testing.assert_allclose(model.predict(X), other.predict(X), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.filterwarnings("ignore")
def test_class_weights_multiply_the_step(container):
    X, y, _ = rows()
    for labels in (y, y > 0):
        for weight in ("balanced", {0: 2.0, 1: 0.5, 2: 1.0} if labels is y else {False: 2.0, True: 0.5}):
            for loss in ("hinge", "squared_hinge"):
                model = PassiveAggressiveClassifier(loss=loss, class_weight=weight, random_state=0, max_iter=5)
                other = reference(model).fit(container(X), labels)
                same(model.fit(container(X), labels), other)


@pytest.mark.parametrize("average", [False, True, 60])
@pytest.mark.filterwarnings("ignore")
def test_partial_fit_and_warm_start_continue(average):
    X, y, target = rows(empty=False)
    intercept = not average  # scikit-learn's classifiers forget it between calls where averages are kept
    for model, labels in (
        (PassiveAggressiveClassifier(average=average, random_state=1, n_jobs=2, fit_intercept=intercept), y),
        (PassiveAggressiveRegressor(average=average, random_state=1), target),
    ):
        other, first = reference(model), {"classes": np.unique(y)} if labels is y else {}
        for a in (model, other):
            a.partial_fit(X[:50], labels[:50], **first)
            a.partial_fit(X[50:], labels[50:])
        same(model, other)
        again = pickle.loads(pickle.dumps(model))
        for a in (model, other, again):
            a.partial_fit(X, labels)
        same(model, other)
        assert np.array_equal(again.coef_, model.coef_)
        if average:
            continue
        model, other = clone(model).set_params(warm_start=True), clone(other).set_params(warm_start=True)
        for _ in range(2):
            same(model.fit(X, labels), other.fit(X, labels))
        start = {"coef_init": np.ones_like(model.coef_), "intercept_init": np.ones_like(model.intercept_)}
        same(model.fit(X, labels, **start), other.fit(X, labels, **start))


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.filterwarnings("ignore")
def test_given_intercept_that_is_not_fitted_stays(container):
    X, y, target = rows(empty=False)
    X = container(X)
    for options in ({}, {"average": True}, {"early_stopping": True}):
        for kind, loss, labels in (
            (PassiveAggressiveClassifier, "hinge", y),
            (PassiveAggressiveClassifier, "squared_hinge", y > 0),
            (PassiveAggressiveRegressor, "epsilon_insensitive", target),
            (PassiveAggressiveRegressor, "squared_epsilon_insensitive", target),
        ):
            if "squared" in loss and "average" in options:
                continue  # averages need not know the loss
            model = kind(loss=loss, fit_intercept=False, max_iter=5, random_state=2, **options)
            start = np.array([0.5, -1.0, 2.0]) if labels is y else np.array([1.5])
            other = reference(model).fit(X, labels, intercept_init=start)
            same(model.fit(X, labels, intercept_init=start), other)
            assert model.intercept_.tolist() == start.tolist()
            if not options:
                same(model.partial_fit(X, labels), other.partial_fit(X, labels))


def test_passive_aggressive_steps_match_the_presets(monkeypatch):
    interpret(monkeypatch)
    X, y, target = rows(empty=False)
    options = {"max_iter": 1, "shuffle": False, "fit_intercept": False, "C": 0.3}
    for model, labels, update in (
        (PassiveAggressiveClassifier(**options), 2.0 * (y > 0) - 1.0, fiol.PA1(0.3)),
        (PassiveAggressiveRegressor(**options), target, fiol.PA1(0.3, fiol.EpsilonInsensitive(0.1))),
    ):
        learner = fiol.Learner(update, n_features=8, intercept=False)
        learner.learn(X, labels)
        np.testing.assert_allclose(model.fit(X, labels).coef_.ravel(), learner.weights, rtol=1e-12)


def test_passive_aggressive_errors_match_scikit_learn():
    X, y, target = rows()
    for wrong, message in (
        ({"C": -1.0}, r"The 'C' parameter .* in the range \(0"),
        ({"loss": "log"}, "The 'loss' param"),
    ):
        with pytest.raises(ValueError, match=message):
            PassiveAggressiveClassifier(**wrong).fit(X, y)
    with pytest.raises(ValueError, match="classes must be passed on the first call to partial_fit"):
        PassiveAggressiveClassifier().partial_fit(X, y)
    for model in (PassiveAggressiveClassifier(early_stopping=True), PassiveAggressiveRegressor(early_stopping=True)):
        with pytest.raises(ValueError, match="early_stopping should be False with partial_fit"):
            model.partial_fit(X, y)
    with pytest.raises(ValueError, match="'balanced' is not supported for partial_fit"):
        PassiveAggressiveClassifier(class_weight="balanced").partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="must be for 1 x 8 weights"):
        PassiveAggressiveRegressor().fit(X, target, coef_init=np.ones(3))
    with pytest.warns(ConvergenceWarning, match="max_iter=2 passes did not reach tol"):
        PassiveAggressiveRegressor(max_iter=2).fit(X, target)


def test_rejected_calls_leave_passive_aggressive_estimators_unchanged():
    X, y, target = rows()
    model = PassiveAggressiveClassifier(max_iter=1, tol=None)
    new = model.__dict__.copy()
    with pytest.raises(ValueError, match="class_weight"):
        model.set_params(class_weight={7: 2.0}).partial_fit(X, y, classes=[0, 1, 2])
    assert model.set_params(class_weight=None).__dict__ == new
    number = PassiveAggressiveRegressor(max_iter=1, tol=None)
    for fitted, labels, message in ((model, y, "at least two classes"), (number, target, "coef_init")):
        state = fitted.fit(X, labels).__dict__.copy()
        with pytest.raises(ValueError, match=message):
            fitted.fit(X[:, 1:], np.ones(len(y)), coef_init=np.ones(3))
        assert fitted.__dict__ == state
    with pytest.raises(ValueError, match="The 'n_jobs' parameter"):
        PassiveAggressiveClassifier(n_jobs=0).fit(X, y)


def test_no_deprecation_warning():
    assert tuple(map(int, sklearn.__version__.split(".")[:2])) >= (1, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fiol.PassiveAggressiveClassifier(max_iter=1)
        fiol.PassiveAggressiveRegressor(max_iter=1)
