"""The equalities of the guides for users of scikit-learn, River and Vowpal Wabbit hold."""

import inspect
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import river
from river import linear_model, optim
from scipy import sparse
from sklearn.linear_model import SGDClassifier, SGDRegressor
from tests.interpreted import interpret

import fiol
from fiol import river as at_river

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
SCIKIT_LEARN, VOWPAL_WABBIT, RIVER = (
    (GUIDES / f"from_{name}.md").read_text() for name in ("scikit_learn", "vowpal_wabbit", "river")
)
ONCE = {"max_iter": 1, "tol": None, "shuffle": False}


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    """Nothing is compiled."""
    interpret(monkeypatch)


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
def test_explicit_steps_match_scikit_learn(theirs, ours, factor, schedule, step_size, penalty):
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


def test_equal_seeds_shuffle_as_scikit_learn():
    X, y = data()
    both = {"max_iter": 3, "tol": None, "random_state": 7}
    same(
        fiol.FIOLRegressor(algorithm="SGD", step_size=0.02, **both).fit(X, y),
        SGDRegressor(penalty=None, learning_rate="constant", eta0=0.02, **both).fit(X, y),
    )


def weighted(y, class_weight, *, ours):
    """Explicit steps on the logistic loss, with weights for classes: ours, or scikit-learn's."""
    if ours:
        model = fiol.FIOLClassifier("log_loss", algorithm="SGD", step_size=0.1, class_weight=class_weight, **ONCE)
    else:
        step = {"penalty": None, "learning_rate": "constant", "eta0": 0.1}
        model = SGDClassifier("log_loss", class_weight=class_weight, **step, **ONCE)
    return model.fit(data()[0], y)


@pytest.mark.parametrize("class_weight", [{0: 1.0, 1: 3.0}, "balanced"])
def test_class_weights_of_two_classes_match_scikit_learn(class_weight):
    y = (data()[1] > 0.5).astype(int)
    same(weighted(y, class_weight, ours=True), weighted(y, class_weight, ours=False))


def test_class_weights_of_three_classes_differ_from_scikit_learn():
    """Theirs: only a class's own rows have its weight, in its own problem. Ours: rows have it in every problem."""
    X, y = data()
    y, of_class = np.digitize(y, [-1.0, 1.0]), np.array([1.0, 3.0, 0.5])
    ours, theirs = (weighted(y, dict(enumerate(of_class)), ours=mine) for mine in (True, False))
    for k in range(3):
        own = weighted((y == k).astype(int), {1: of_class[k]}, ours=True)
        every = fiol.FIOLClassifier("log_loss", algorithm="SGD", step_size=0.1, **ONCE).fit(X, y == k, of_class[y])
        assert np.allclose(theirs.coef_[k], own.coef_[0], rtol=1e-10)
        assert np.array_equal(ours.coef_[k], every.coef_[0])
        assert not np.allclose(ours.coef_[k], theirs.coef_[k], rtol=0.01)


@pytest.mark.parametrize(
    ("learning_rate", "theirs", "ours"),
    [
        ("pa1", "hinge", "hinge"),
        ("pa2", "hinge", "squared_hinge"),
        ("pa1", "epsilon_insensitive", fiol.EpsilonInsensitive(0.1)),
        ("pa2", "epsilon_insensitive", fiol.SquaredEpsilonInsensitive(0.1)),
    ],
)
def test_passive_aggressive_rates_match_scikit_learn(learning_rate, theirs, ours):
    """Weights are equal without an intercept; with one they differ, since scikit-learn's step does not count it."""
    pytest.importorskip("sklearn", minversion="1.8")
    X, y = data()
    kinds = (SGDClassifier, fiol.FIOLClassifier) if theirs == "hinge" else (SGDRegressor, fiol.FIOLRegressor)
    y = y > 0 if theirs == "hinge" else y
    for intercept in (False, True):
        both = {"fit_intercept": intercept, **ONCE}
        a = kinds[0](theirs, penalty=None, learning_rate=learning_rate, eta0=0.1, **both).fit(X, y)
        b = kinds[1](ours, algorithm=learning_rate.upper(), step_size=0.1, **both).fit(X, y)
        assert np.allclose(a.coef_, b.coef_, rtol=1e-10, atol=1e-14) is not intercept


@pytest.mark.parametrize(
    ("loss", "classes", "alike"),
    [("auto", None, False), ("auto", [0, 1, 2], True), ("log_loss", None, True), ("softmax", None, True)],
)
def test_fit_matches_partial_fit_with_three_classes(loss, classes, alike):
    X, y = data()
    y = np.digitize(y, [-1.0, 1.0])
    whole, part = fiol.FIOLClassifier(loss, **ONCE).fit(X, y), fiol.FIOLClassifier(loss)
    for rows in np.split(np.arange(len(y)), [50, 51]):
        part.partial_fit(X[rows], y[rows], classes=classes)
    assert np.array_equal(whole.coef_, part.coef_) is alike


@pytest.mark.parametrize(("loss", "alike"), [("log_loss", True), ("softmax", False)])
def test_partial_fit_with_a_late_class(loss, alike):
    X, y = data()
    y = np.sort(np.digitize(y, [-1.0, 1.0]))
    whole, part = fiol.FIOLClassifier(loss, **ONCE).fit(X, y), fiol.FIOLClassifier(loss)
    for rows in np.array_split(np.arange(len(y)), 8):
        part.partial_fit(X[rows], y[rows])
    assert np.array_equal(whole.coef_, part.coef_) is alike


@pytest.mark.parametrize("closing", ["fit", "partial_fit"])
def test_given_classes_are_final(closing):
    X, y = data()
    model = fiol.FIOLClassifier("log_loss", **ONCE)
    getattr(model, closing)(X, y > 0, **({"classes": [False, True]} if closing == "partial_fit" else {}))
    with pytest.raises(ValueError, match="no classes"):
        model.partial_fit(X[:1], [2])


def test_partial_fit_reads_parameters_in_the_first_call():
    X, y = data()
    ours = fiol.FIOLRegressor(algorithm="SGD", step_size=0.02)
    theirs = SGDRegressor(penalty=None, learning_rate="constant", eta0=0.02)
    ours.partial_fit(X[:60], y[:60]).set_params(step_size=1e-9).partial_fit(X[60:], y[60:])
    before = theirs.partial_fit(X[:60], y[:60]).coef_.copy()
    theirs.set_params(eta0=1e-9).partial_fit(X[60:], y[60:])
    assert np.array_equal(ours.coef_, fiol.FIOLRegressor(algorithm="SGD", step_size=0.02).partial_fit(X, y).coef_)
    assert np.allclose(theirs.coef_, before, atol=1e-6)


def test_only_scikit_learn_counts_rows_held_out():
    X, y = data()
    both = {"early_stopping": True, "max_iter": 2, "tol": None, "random_state": 0}
    assert SGDRegressor(**both).fit(X, y).t_ == 1 + 2 * 120
    assert fiol.FIOLRegressor(**both).fit(X, y).t_ == 1 + 2 * 108


def test_rare_features_are_penalized():
    """The first example of the page."""
    X = sparse.csr_matrix(np.array([[1.0, 1.0]] + 200 * [[1.0, 0.0], [-1.0, 0.0]]))
    y = [1] + 200 * [1, 0]
    theirs = SGDClassifier("log_loss", penalty="l1", alpha=0.01, learning_rate="constant", eta0=0.1, **ONCE).fit(X, y)
    for algorithm in ("FIOL", "COMID"):
        ours = fiol.FIOLClassifier(penalty="l1", alpha=0.01, step_size=0.1, algorithm=algorithm, **ONCE).fit(X, y)
        assert ours.coef_[0, 1] == 0.0 < theirs.coef_[0, 1]


def test_intercept_of_sparse_rows_differs_from_scikit_learn():
    X, y = sparse.csr_matrix([[2.0]]), [1.0]
    theirs = SGDRegressor(penalty=None, learning_rate="constant", eta0=1e-6, **ONCE).fit(X, y)
    ours = fiol.FIOLRegressor(algorithm="SGD", step_size=1e-6, **ONCE).fit(X, y)
    assert theirs.intercept_[0] == pytest.approx(0.01 * ours.intercept_[0], rel=1e-9)
    assert theirs.coef_[0] == pytest.approx(ours.coef_[0], rel=1e-9)


def test_exact_step_of_any_size_stays_finite():
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
def test_presets_match_river(theirs, ours):
    X, y = data()
    classes = isinstance(ours, at_river.FIOLClassifier)
    theirs, ours = theirs.clone(), ours.clone()
    learned(theirs, X, y > 0 if classes else y)
    learned(ours, X, y > 0 if classes else y)
    weights = ours.weights[True] if classes else ours.weights
    assert weights == pytest.approx(dict(theirs.weights), rel=1e-9)


@pytest.mark.parametrize(
    ("mode", "loss", "ours"),
    [
        (0, fiol.EpsilonInsensitive(0.1), {"algorithm": "PA"}),
        (1, fiol.EpsilonInsensitive(0.1), {"algorithm": "PA1", "step_size": 0.2}),
        (2, fiol.SquaredEpsilonInsensitive(0.1), {"algorithm": "PA2", "step_size": 0.2}),
    ],
)
def test_passive_aggressive_regression_matches_river(monkeypatch, mode, loss, ours):
    """Once its loss takes the target itself, not 2 y - 1."""
    X, y = data()
    theirs = linear_model.PARegressor(C=0.2, mode=mode, eps=0.1, learn_intercept=False)
    loss_of = theirs.loss
    assert loss_of(3.0, 5.0) == 0.0  # 2 y - 1
    monkeypatch.setattr(theirs, "loss", lambda target, z: loss_of((target + 1.0) / 2.0, z))
    weights = learned(at_river.FIOLRegressor(loss, fit_intercept=False, **ours), X, y).weights
    assert weights == pytest.approx(dict(learned(theirs, X, y).weights), rel=1e-9)


def test_weighted_log_loss_matches_river():
    X, y = data()
    theirs = linear_model.LogisticRegression(optim.SGD(0.1), loss=optim.losses.Log(3.0, 0.5), intercept_lr=0.1)
    ours = at_river.FIOLClassifier(algorithm="SGD", step_size=0.1)
    learned(theirs, X, y > 0)
    for row, label in zip(X.tolist(), (y > 0).tolist(), strict=True):
        ours.learn_one(dict(zip("abcde", row, strict=True)), label, w=3.0 if label else 0.5)
    assert ours.weights[True] == pytest.approx(dict(theirs.weights), rel=1e-9)


def test_averages_of_river_have_no_effect():
    if tuple(map(int, river.__version__.split(".")[:2])) < (0, 26):
        pytest.skip("the guide is about River 0.26")
    X, y = data()
    plain = learned(linear_model.LogisticRegression(optim.SGD(0.1)), X, y > 0)
    averaged = learned(linear_model.LogisticRegression(optim.Averager(optim.SGD(0.1))), X, y > 0)
    assert dict(averaged.weights) == dict(plain.weights)


# --- Vowpal Wabbit ------------------------------------------------------------------------------


def test_weight_of_a_hashed_name():
    learner = fiol.Learner(fiol.FIOL(fiol.Squared()), bits=18, compiled=False)
    learner.learn([{"price": 2.0}, {"price": 3.0, "sqft": 1.0}], [1.0, 2.0])
    assert learner.names is None
    w = learner.weights[fiol.features.hashing.Hashing(18).number("price")]
    assert w * 2.0 + learner.intercept == pytest.approx(learner.score_named({"price": 2.0}))
    assert w > 0.0


def test_ftrl_proximal_matches_vowpal_wabbit():
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


@pytest.mark.parametrize("model", [SGDClassifier, SGDRegressor, fiol.FIOLClassifier, fiol.FIOLRegressor])
def test_docs_cover_all_options_of_scikit_learn_and_of_fiol(model):
    section = SCIKIT_LEARN[SCIKIT_LEARN.index("## SGDClassifier") : SCIKIT_LEARN.index("## PassiveAggressive")]
    for name in inspect.signature(model).parameters:
        assert re.search(rf"`[^`]*\b{name}\b[^`]*`", section), name


@pytest.mark.parametrize("model", [linear_model.LogisticRegression, linear_model.LinearRegression])
def test_docs_cover_all_options_of_river(model):
    section = RIVER
    for name in inspect.signature(model).parameters:
        assert re.search(rf"`[^`]*\b{name}\b[^`]*`", section), name
    for name in linear_model.__all__:
        assert name in section or name == "base", name
    for name in optim.losses.__all__:
        assert name in section or name in ("BinaryLoss", "MultiClassLoss", "RegressionLoss"), name


@pytest.mark.parametrize("view", [fiol, at_river], ids=["scikit-learn", "River"])
def test_docs_name_existing_calls(view):
    page = RIVER if view is at_river else SCIKIT_LEARN + VOWPAL_WABBIT
    calls = re.findall(r"`(FIOL(?:Classifier|Regressor)\([^`]*\))`", page)
    assert len(calls) > 5
    for call in calls:
        names = {"fiol": fiol, "C": 0.1, "eps": 0.1, "epsilon": 0.1, "passes": 2}
        for kind in ("FIOLClassifier", "FIOLRegressor"):
            names[kind] = getattr(view, kind)
        model = eval(call, names)
        if view is at_river:
            model.learn_one({"a": 1.0}, 1)
        else:
            model.partial_fit([[1.0]], [1])


def test_docs_name_existing_attributes():
    for name in re.findall(r"\bfiol\.([A-Z]\w+)", SCIKIT_LEARN + VOWPAL_WABBIT + RIVER):
        assert hasattr(fiol, name), name
    for name in re.findall(r"`(?:\w+=)?([A-Z][A-Za-z0-9]+)\(", VOWPAL_WABBIT):
        assert hasattr(fiol, name), name
