"""Estimators pass scikit-learn's checks and have the weights of the learner underneath."""

import io
import pickle
import re
import subprocess
import sys
import threading
import time
import warnings
from contextlib import nullcontext, redirect_stdout
from copy import deepcopy
from itertools import pairwise

import numba
import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, SGDClassifier, SGDRegressor
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils import check_random_state, estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.interpreted import interpret

import fiol
from fiol import FIOLClassifier, FIOLRegressor
from fiol.features.chunk import loops
from fiol.integrations.fitting import held_back
from fiol.integrations.validation import LARGEST_SEED
from fiol.persistence import model_file

ONE_PASS = {"max_iter": 1, "shuffle": False}
SPARSE = {"penalty": "l1", "alpha": 0.05, "step_size": 0.1}
#: What scikit-learn expects its own SGD estimators to fail: a weight of 2 is not a row seen twice.
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": "one round of weight 2 is not two rounds",
    "check_sample_weight_equivalence_on_sparse_data": "one round of weight 2 is not two rounds",
}
NEW = tuple(map(int, sklearn.__version__.split(".")[:2])) >= (1, 6)
CHECKED = [FIOLClassifier(max_iter=5), FIOLClassifier("log_loss", max_iter=5), FIOLRegressor(max_iter=5)]


@parametrize_with_checks(CHECKED, **({"expected_failed_checks": lambda _: EXPECTED} if NEW else {}))
@pytest.mark.filterwarnings("ignore")
def test_estimators_pass_scikit_learns_checks(estimator, check):
    if not NEW and "readonly_memmap=True" in repr(check):
        pytest.skip("fails for scikit-learn's own estimators, too, with a joblib that is newer than they are")
    check(estimator)


#: Nine checks of these names failed for a loss that takes no targets below 0.
POSITIVE_ONLY = [
    "check_n_features_in_after_fitting",
    "check_regressors_train",
    "check_regressor_data_not_an_array",
    "check_regressors_no_decision_function",
    "check_fit_idempotent",
    "check_fit_check_is_fitted",
    "check_n_features_in",
]


@pytest.mark.skipif(not NEW, reason="tags of scikit-learn 1.6 and later")
@pytest.mark.filterwarnings("ignore")
def test_poisson_regressor_tags_require_positive_targets(monkeypatch):
    """Then scikit-learn's checks make targets that the loss takes."""
    interpret(monkeypatch)
    model = FIOLRegressor("poisson", step_size="single", max_iter=2, tol=None)
    assert model.__sklearn_tags__().target_tags.positive_only
    assert not FIOLRegressor().__sklearn_tags__().target_tags.positive_only
    assert not FIOLRegressor("nonsense").__sklearn_tags__().target_tags.positive_only
    found = [check for _, check in estimator_checks.estimator_checks_generator(model)]
    wanted = [check for check in found if getattr(check, "func", check).__name__ in POSITIVE_ONLY]
    assert len(wanted) >= len(POSITIVE_ONLY)
    for check in wanted:
        check(clone(model))


def test_l1_ratio_is_optional(monkeypatch):
    interpret(monkeypatch)
    X, y = line(rows=30)
    for penalty in (None, "l1", "l2"):
        same(*(FIOLRegressor(penalty=penalty, l1_ratio=r, **ONE_PASS).fit(X, y) for r in (None, 0.15)))
    with pytest.raises(ValueError, match="l1_ratio must be set when penalty is 'elasticnet'"):
        FIOLRegressor(penalty="elasticnet", l1_ratio=None).fit(X, y)


@pytest.mark.filterwarnings("ignore")
def test_t_counts_rows_as_scikit_learn(monkeypatch):
    """From the last `fit` on, also where that goes on from another."""
    interpret(monkeypatch)
    X, y = line(rows=20)
    for options in ({"max_iter": 2, "tol": None}, {"max_iter": 1}):
        ours = FIOLRegressor(step_size=0.01, warm_start=True, **options)
        theirs = SGDRegressor(warm_start=True, **options)
        for model in (ours, theirs):
            model.fit(X, y)
        assert ours.t_ == theirs.t_
        for model in (ours, theirs):
            model.fit(X[:15], y[:15])
        assert ours.t_ == theirs.t_
        for model in (ours, theirs):
            model.partial_fit(X[:7], y[:7])
        assert ours.t_ == theirs.t_
        assert ours.learners_[0].rounds > ours.t_


# --- data -------------------------------------------------------------------------------------


def blobs(rows=200, d=12, classes=2, seed=0):
    """Sparse rows around a center for each class, the columns of very different size."""
    rng = np.random.default_rng(seed)
    centers, codes = rng.standard_normal((classes, d)), rng.integers(classes, size=rows)
    X = (centers[codes] + 0.7 * rng.standard_normal((rows, d))) * 10.0 ** rng.integers(-2, 3, d)
    X[rng.random((rows, d)) < 0.4] = 0.0
    return X, codes


def line(rows=200, d=12, seed=0):
    rng = np.random.default_rng(seed)
    X, w = rng.standard_normal((rows, d)), rng.standard_normal(d)
    X[rng.random((rows, d)) < 0.4] = 0.0
    return X, X @ w + 3.0 + 0.1 * rng.standard_normal(rows)


NAMES = np.array(["cherry", "apple", "banana"])


def same(a, b):
    assert_same_weights(a, b)
    assert a.t_ == b.t_


def assert_same_weights(a, b):
    assert np.array_equal(a.coef_, b.coef_)
    assert np.array_equal(a.intercept_, b.intercept_)


def in_pieces(model, X, y, *cuts, weights=None, **first):
    edges = [0, *cuts, X.shape[0]]
    for start, stop in pairwise(edges):
        part = {} if weights is None else {"sample_weight": weights[start:stop]}
        model.partial_fit(X[start:stop], y[start:stop], **first, **part)
        first = {}
    return model


# --- the same weights -------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_classifier_fit_matches_partial_fit_and_learn(weighted):
    X, codes = blobs()
    y, weights = NAMES[codes], np.random.default_rng(1).random(200) if weighted else None
    model = FIOLClassifier(**ONE_PASS).fit(X, y, sample_weight=weights)
    learner = fiol.Learner(n_features=12)
    scores = learner.learn(X, np.where(y == "cherry", 1.0, -1.0), weights)
    assert np.array_equal(model.coef_, [learner.weights])
    assert np.array_equal(model.intercept_, [learner.intercept])
    assert np.array_equal(model.decision_function(X), learner.scores(X))
    np.testing.assert_allclose(
        model.decision_function(9.0 * X), 9.0 * X @ model.coef_[0] + model.intercept_, rtol=1e-12
    )
    share = np.ones(200) if weights is None else weights
    losses = np.logaddexp(0.0, -np.where(y == "cherry", 1.0, -1.0) * scores)
    assert model.loss_curve_ == pytest.approx([share @ losses / share.sum()], rel=1e-12)
    events = range(1, 200)
    for container in (np.asarray, sparse.csr_matrix, sparse.csr_array):
        for cuts in ((), (1, 2, 77), events):
            other = FIOLClassifier()
            in_pieces(other, container(X), y, *cuts, weights=weights, classes=["apple", "cherry"])
            same(model, other)
            assert len(other.loss_curve_) == len(cuts) + 1
    np.testing.assert_allclose(np.sum(other.loss_curve_ * share) / share.sum(), model.loss_curve_[0], rtol=1e-12)


def test_regressor_fit_matches_partial_fit_and_learn():
    X, y = line()
    model = FIOLRegressor(**ONE_PASS).fit(X, y)
    learner = fiol.Learner(loss=fiol.Squared(), n_features=12)
    scores = learner.learn(X, y)
    assert np.array_equal(model.coef_, learner.weights)
    np.testing.assert_allclose(model.predict(9.0 * X), 9.0 * X @ model.coef_ + model.intercept_, rtol=1e-12)
    assert model.loss_curve_ == pytest.approx([0.5 * np.mean((scores - y) ** 2)], rel=1e-12)
    for container in (np.asarray, sparse.csr_matrix):
        for cuts in ((), (1, 2, 77), range(1, 200)):
            same(model, in_pieces(FIOLRegressor(), container(X), y, *cuts))


@pytest.mark.parametrize("open_set", [False, True])
def test_several_classes_match_one_learner_each(open_set):
    X, codes = blobs(classes=3)
    y = NAMES[codes]
    model = FIOLClassifier("log_loss", **ONE_PASS, n_jobs=2).fit(X, y)
    learners = [fiol.Learner(n_features=12) for _ in range(3)]
    for name, learner in zip(np.sort(NAMES), learners, strict=True):
        learner.learn(X, np.where(y == name, 1.0, -1.0))
    assert np.array_equal(model.coef_, [learner.weights for learner in learners])
    assert np.array_equal(model.decision_function(X).T, [learner.scores(X) for learner in learners])
    first = {} if open_set else {"classes": NAMES}
    for cuts in ((3, 50), range(1, 200)):
        same(model, in_pieces(FIOLClassifier("log_loss"), sparse.csr_matrix(X), y, *cuts, **first))


def test_class_order_does_not_matter():
    X, codes = blobs(classes=3)
    order = np.argsort(codes != 2, kind="stable")  # cherry..., then the others: banana is new in the middle of a chunk
    X, y = X[order], NAMES[codes[order]]
    stop = int(np.sum(codes == 2)) // 2
    model = FIOLClassifier(class_weight={"apple": 3.0}).partial_fit(X[:stop], y[:stop])
    assert model.classes_.tolist() == ["banana"]
    assert set(model.predict(X)) == {"banana"}
    assert np.array_equal(model.predict_proba(X), np.ones((200, 1)))
    model.partial_fit(X[stop:], y[stop:])
    same(model, FIOLClassifier("log_loss", class_weight={"apple": 3.0}, **ONE_PASS).fit(X, y))
    two = y != "banana"
    same(
        in_pieces(FIOLClassifier(), X[two], y[two], 1, 2, 60),
        in_pieces(FIOLClassifier(), X[two], y[two], classes=["apple", "cherry"]),
    )


def test_shuffling_matches_scikit_learn(monkeypatch):
    interpret(monkeypatch)
    X, codes = blobs(d=3)
    X = X / np.abs(X).max(axis=0)
    parameters = {"max_iter": 3, "tol": None, "random_state": 7, "penalty": None, "fit_intercept": False}
    other = SGDClassifier(loss="log_loss", learning_rate="constant", eta0=0.5, **parameters).fit(X, codes)
    rng = np.random.RandomState(7)
    rng.randint(1, 2**31 - 1)  # scikit-learn draws once more before
    mine = FIOLClassifier(algorithm="SGD", step_size=0.5, **{**parameters, "random_state": rng}).fit(X, codes)
    np.testing.assert_allclose(mine.coef_, other.coef_, rtol=1e-12)
    assert mine.n_iter_ == 3
    assert mine.t_ == other.t_ == 601.0


def test_class_weights_multiply_sample_weights():
    X, codes = blobs()
    weights = np.where(codes == 1, 5.0, 1.0)
    model = FIOLClassifier(**ONE_PASS, class_weight={1: 5.0}).fit(X, codes)
    same(model, FIOLClassifier(**ONE_PASS).fit(X, codes, sample_weight=weights))
    same(model, in_pieces(FIOLClassifier(class_weight={1: 5.0}), sparse.csr_matrix(X), codes, *range(1, 200)))
    share = np.bincount(codes) / 200
    balanced = FIOLClassifier(**ONE_PASS, class_weight="balanced").fit(X, codes)
    other = FIOLClassifier(**ONE_PASS).fit(X, codes, sample_weight=0.5 / share[codes])
    np.testing.assert_allclose(balanced.coef_, other.coef_, rtol=1e-12)
    for rows in (X[:1], sparse.csr_matrix(X[:1])):  # later rows have the weights that fit found
        a = clone(balanced).fit(X, codes).partial_fit(rows, codes[:1])
        b = clone(other).fit(X, codes, sample_weight=0.5 / share[codes])
        b.partial_fit(rows, codes[:1], sample_weight=0.5 / share[codes[:1]])
        np.testing.assert_allclose(a.coef_, b.coef_, rtol=1e-12)


def test_warm_start_continues(monkeypatch):
    interpret(monkeypatch)
    X, codes = blobs()
    model = FIOLClassifier(**ONE_PASS, warm_start=True).fit(X[:100], codes[:100]).fit(X[100:], codes[100:])
    assert_same_weights(model, in_pieces(FIOLClassifier(), X, codes, 100, classes=[0, 1]))
    assert model.t_ == 101.0  # as theirs, since the last fit began
    assert len(model.loss_curve_) == 2
    before = model.coef_
    model.set_params(step_size=1e-9).fit(X, codes)  # another update starts from the old weights
    np.testing.assert_allclose(model.coef_, before, rtol=1e-4, atol=1e-6)
    assert model.t_ == 201.0
    with pytest.raises(ValueError, match=r"y must have the classes of the last fit, \[0 1\]; got \[0 2\]"):
        model.fit(X, 2 * codes)
    model.set_params(warm_start=False, step_size="auto").fit(X, codes)
    same(model, FIOLClassifier(**ONE_PASS).fit(X, codes))
    number = FIOLRegressor(**ONE_PASS, warm_start=True).fit(*line()).fit(*line())
    assert number.t_ == 201.0
    streamed = FIOLClassifier(**ONE_PASS, warm_start=True).partial_fit(X[:100], codes[:100]).fit(X[100:], codes[100:])
    assert_same_weights(streamed, in_pieces(FIOLClassifier(), X, codes, 100, classes=[0, 1]))
    with pytest.raises(ValueError, match=r"all classes at once cannot go on from one against the rest.*name the loss"):
        streamed.set_params(loss="softmax").fit(X, codes)
    for going in (number, streamed.set_params(loss="auto")):
        with pytest.raises(ValueError, match=r"X has 11 features, but .* is expecting 12"):
            going.fit(X[:, 1:], codes)
    with pytest.raises(TypeError, match=r'Softmax goes with Ridge.*: use penalty=None or "l2", or loss="log_loss"$'):
        FIOLClassifier("softmax", penalty="l1").fit(X, codes)
    assert streamed.t_ == 101.0


def test_warm_start_refuses_columns_in_another_order(monkeypatch):
    interpret(monkeypatch)
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 2)), columns=["mass", "size"])
    y = (frame["mass"] > 0.0).astype(int)
    options = {"warm_start": True, "max_iter": 1, "shuffle": False}
    passive = fiol.PassiveAggressiveClassifier(**options), fiol.PassiveAggressiveRegressor(**options)
    for model in (FIOLClassifier(**options), FIOLRegressor(**options), *passive):
        before = model.fit(frame, y).coef_.copy()
        with pytest.raises(ValueError, match="same order"):
            model.fit(frame[["size", "mass"]], y)
        assert model.feature_names_in_.tolist() == ["mass", "size"]
        assert np.array_equal(model.coef_, before)
        assert model.set_params(warm_start=False).fit(frame[["size", "mass"]], y).feature_names_in_[0] == "size"


@pytest.mark.parametrize("change", [{"penalty": "l1"}, {"features": "additive"}])
def test_warm_start_names_parameters_that_cannot_start_from_weights(change, monkeypatch):
    interpret(monkeypatch)
    X, codes = blobs()
    model = FIOLClassifier(**ONE_PASS, warm_start=True).fit(X[:40], codes[:40])
    before = model.coef_
    with pytest.raises(ValueError, match=r"with warm_start, parameters of the update have changed, .* \(curves, pairs"):
        model.set_params(**change).fit(X[:40], codes[:40])
    np.testing.assert_array_equal(model.coef_, before)


@pytest.mark.parametrize("model", [FIOLClassifier(), FIOLRegressor()], ids=["classifier", "regressor"])
def test_sparse_rows_one_by_one_have_the_sample_weights_that_many_have(model, monkeypatch):
    interpret(monkeypatch)
    X, codes = blobs()
    model = clone(model).partial_fit(X, codes)
    row, label = sparse.csr_matrix(X[:1]), codes[:1]
    expected = deepcopy(model).partial_fit(X[:1], label, sample_weight=[2.0]).coef_
    for weight in (2.0, [2.0], np.array([2.0]), pd.Series([2.0], index=[7])):
        np.testing.assert_array_equal(deepcopy(model).partial_fit(row, label, sample_weight=weight).coef_, expected)
    for weight in ([], [1.0, 2.0], [[2.0]]):
        with pytest.raises(ValueError, match=r"Sample weights|sample_weight|0 sample\(s\)"):
            model.partial_fit(row, label, sample_weight=weight)


@pytest.mark.parametrize("model", [FIOLClassifier(), FIOLRegressor()], ids=["classifier", "regressor"])
def test_partial_fit_takes_chunks_whose_sample_weights_are_all_0(model, monkeypatch):
    interpret(monkeypatch)
    X, codes = blobs()
    weights = np.where(np.arange(len(X)) % 50 < 10, 0.0, 1.0)
    whole = clone(model).partial_fit(X, codes, sample_weight=weights)
    for kind in (np.asarray, sparse.csr_matrix):
        parts = clone(model)
        for start in range(0, len(X), 10):
            rows = slice(start, start + 10)
            parts.partial_fit(kind(X[rows]), codes[rows], sample_weight=weights[rows])
        np.testing.assert_array_equal(parts.coef_, whole.coef_)


# --- when to stop -----------------------------------------------------------------------------


def test_fit_stops_when_the_loss_no_longer_improves(monkeypatch):
    interpret(monkeypatch)
    X, codes = blobs()
    model = FIOLClassifier(random_state=0, n_iter_no_change=2, tol=1e-2, step_size="single").fit(X, codes)
    losses = np.array(model.loss_curve_)
    assert 2 < model.n_iter_ == len(losses) < 100
    assert (losses[-2:] > np.minimum.accumulate(losses)[-3:-1] - 1e-2).all()
    assert losses[-3] <= losses[:-3].min() - 1e-2
    with pytest.warns(ConvergenceWarning, match=r"max_iter=2 passes did not reach tol=0\.01"):
        model.set_params(max_iter=2).fit(X, codes)


@pytest.mark.parametrize("shuffle", [False, True])
def test_ensemble_fit_restores_its_best_pass_and_learns_held_out_rows(monkeypatch, shuffle):
    """`fit` matches an explicit loop: held-out rows choose the pass, and the stack learns from them after each pass.

    If rows are shuffled, so are those held back, over which the weights are averaged in the end.
    """
    interpret(monkeypatch)
    monkeypatch.setattr("fiol.integrations.fitting.MIN_STACK_ROWS", 50)
    X, codes = blobs()
    y, weights = 2.0 * codes - 1.0, np.random.default_rng(1).random(200)
    options = {"shuffle": shuffle, "random_state": 3, "n_iter_no_change": 2, "tol": 1e-2}
    model = FIOLClassifier(**options).fit(X, codes, sample_weight=weights)
    seed = check_random_state(3).randint(LARGEST_SEED) if shuffle else None
    held, order = held_back(200, 0.1, seed), np.arange(200)
    assert held.sum() == 20
    learner, best, least, waited, passes = fiol.Learner(n_features=12, compiled=False), None, np.inf, 0, 0
    chunk, rest = (learner.core.encode_rows(rows) for rows in (X, X[held]))
    while waited < 2:
        if shuffle:
            loops().shuffle(order, seed)
        now = order[~held[order]]
        mixing = learner.engine.mixing.tolist()
        with learner.engine.freeze_stack() if passes else nullcontext():
            learner.core.learn_canonical(chunk, y, weights, now)
        assert (learner.engine.mixing.tolist() == mixing) == (passes > 0)
        if not passes:
            chunk, rest = learner.engine.without_outliers(chunk), learner.engine.without_outliers(rest)
        scores = learner.engine.restack(rest, y[held], weights[held])
        loss = np.average(np.logaddexp(0.0, -y[held] * scores), weights=weights[held])
        waited = 0 if loss <= least - 1e-2 else waited + 1
        if loss < least:
            best, least = learner.copy(), loss
        passes += 1
    best.engine.raise_scales(best.core.encode_rows(X[held]))
    rest, looks = np.flatnonzero(held), [20]
    if shuffle:
        places = np.arange(20)
        loops().shuffle(places, seed)
        rest, looks = rest[places], [2, 5, 7, 10, 12, 15, 17, 20]
    seen = []
    for count, row in enumerate(rest, start=1):
        best.learn(X[[row]], y[[row]], weights[[row]])
        if count in looks:
            seen.append([*best.weights, best.intercept])
    assert model.n_iter_ == passes
    np.testing.assert_allclose([*model.coef_[0], *model.intercept_], np.mean(seen, axis=0), rtol=1e-10)


def test_early_stopping_holds_rows_out():
    X, codes = blobs(rows=400, classes=3)
    model = FIOLClassifier(random_state=0, early_stopping=True, validation_fraction=0.25).fit(X, codes)
    assert model.n_iter_ < 100
    assert model.t_ == 1.0 + 300 * model.n_iter_
    X, y = line()
    number = FIOLRegressor(random_state=0, early_stopping=True, validation_fraction=0.25).fit(X, y)
    assert number.t_ == 1.0 + 150 * number.n_iter_
    for wrong in (FIOLClassifier(early_stopping=True), FIOLRegressor(early_stopping=True)):
        with pytest.raises(ValueError, match="early_stopping should be False with partial_fit"):
            wrong.partial_fit(X, codes[:200] % 2)
    with pytest.raises(ValueError, match="all have sample weight 0"):
        number.fit(X, y, sample_weight=np.eye(200)[np.flatnonzero(model_keeps(X, y))[0]])


def model_keeps(X, y):
    """The rows that early stopping at random_state 0 learns from."""
    from sklearn.model_selection import ShuffleSplit

    kept, _ = next(ShuffleSplit(1, test_size=0.25, random_state=0).split(X, y))
    return np.isin(np.arange(len(y)), kept)


def test_progress_is_printed():
    X, codes = blobs(classes=3)
    said = io.StringIO()
    with redirect_stdout(said):
        FIOLClassifier(max_iter=2, tol=None, verbose=1).fit(X, codes)
    assert said.getvalue().count("loss 0.") == 2
    assert "pass 2" in said.getvalue()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("options", "said_of_it"),
    [
        ({"step_size": "single", "early_stopping": True, "tol": None}, r"pass 2: .*, best held-out score (\S+),"),
        ({"tol": 1e-9}, r"pass 2: .*, least loss of rows held back (\S+),"),
        ({"step_size": "single", "tol": None}, r"pass 2: loss \S+(), \S+ s"),
    ],
)
def test_printed_progress_names_its_numbers(options, said_of_it, capsys):
    """An ensemble stops by the loss of rows held back, other learners by a score, or by the loss alone."""
    X, codes = blobs(classes=2)
    FIOLClassifier(max_iter=2, verbose=1, n_iter_no_change=9, random_state=0, **options).fit(X, codes)
    found = re.search(said_of_it, capsys.readouterr().out)
    assert found
    assert not found[1] or 0.0 < float(found[1]) <= 1.0


# --- predicting -------------------------------------------------------------------------------


def test_predicted_probabilities():
    X, codes = blobs(classes=3)
    two = codes < 2
    model = FIOLClassifier(**ONE_PASS).fit(X[two], NAMES[codes[two]])
    p = model.predict_proba(X)
    np.testing.assert_allclose(p[:, 1], 1.0 / (1.0 + np.exp(-model.decision_function(X))), rtol=1e-12)
    assert np.array_equal(model.predict(X), np.array(["apple", "cherry"])[p.argmax(axis=1)])
    many = FIOLClassifier("log_loss", **ONE_PASS).fit(X, codes)
    p = many.predict_proba(X)
    sigmoid = 1.0 / (1.0 + np.exp(-many.decision_function(X)))
    np.testing.assert_allclose(p, sigmoid / sigmoid.sum(axis=1, keepdims=True), rtol=1e-12)
    np.testing.assert_allclose(many.predict_log_proba(X), np.log(p), rtol=1e-12)
    far = many.predict_proba(-1e9 * np.ones((1, 12)) * X[:1])
    assert far.sum() == pytest.approx(1.0)


def test_missing_probabilities_suggest_calibration(monkeypatch):
    interpret(monkeypatch)
    X, codes = blobs()
    model = FIOLClassifier("hinge", **SPARSE, **ONE_PASS)
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError) as found:
        model.fit(X, codes).predict_proba(X)
    assert "CalibratedClassifierCV" in str(found.value) + str(found.value.__cause__)
    calibrated = CalibratedClassifierCV(FIOLClassifier("hinge", **SPARSE, max_iter=5, tol=None, random_state=0), cv=3)
    assert calibrated.fit(X, codes).score(X, codes) > 0.8


def test_sparsify_and_densify(monkeypatch):
    interpret(monkeypatch)
    X, codes = blobs(classes=3)
    model = FIOLClassifier("hinge", **SPARSE, **ONE_PASS).fit(X, codes)
    dense, scores = model.coef_, model.decision_function(X)
    assert np.any(dense == 0.0)
    assert sparse.issparse(model.sparsify().coef_)
    assert np.array_equal(model.coef_.toarray(), dense)
    assert np.array_equal(model.decision_function(X), scores)
    assert np.array_equal(model.densify().coef_, dense)
    number = FIOLRegressor(**ONE_PASS).fit(*line())
    assert number.coef_.shape == (12,)
    assert number.intercept_.shape == (1,)
    assert np.array_equal(number.coef_, number.sparsify().coef_.toarray()[0])


def test_conversion_to_plain_scikit_learn_models(monkeypatch):
    interpret(monkeypatch)
    X, codes = blobs(classes=3)
    two = codes < 2
    for y, rows, options, kind in (
        (codes[two], X[two], {}, LogisticRegression),
        (codes, X, {"loss": "log_loss"}, SGDClassifier),
        (codes, X, {}, LogisticRegression),
        (codes, X, {"loss": "hinge", **SPARSE}, LinearSVC),
    ):
        model = FIOLClassifier(**options, **ONE_PASS).fit(rows, y)
        plain = model.to_sklearn()
        assert type(plain) is kind
        np.testing.assert_allclose(plain.decision_function(rows), model.decision_function(rows), rtol=1e-9)
        assert np.array_equal(plain.predict(rows), model.predict(rows))
        if kind is not LinearSVC:
            np.testing.assert_allclose(plain.predict_proba(rows), model.predict_proba(rows), rtol=1e-9)
    X, y = line()
    for loss, kind in (("squared_error", LinearRegression), ("poisson", PoissonRegressor)):
        model = FIOLRegressor(loss, **ONE_PASS).fit(X, np.abs(y))
        plain = model.to_sklearn()
        assert type(plain) is kind
        np.testing.assert_allclose(plain.predict(X), model.predict(X), rtol=1e-9)


# --- parameters -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({}, fiol.Stacked(fiol.Logistic())),
        ({"step_size": "single"}, fiol.FIOL(fiol.Logistic())),
        ({"average": True}, fiol.FIOL(fiol.Logistic())),
        ({"record_every": 10}, fiol.FIOL(fiol.Logistic())),
        ({"loss": "softmax"}, fiol.FIOL(fiol.Softmax())),
        ({"penalty": "l1", "alpha": 0.1}, fiol.Stacked(fiol.Logistic(), fiol.L1(0.1))),
        ({"penalty": "l1", "alpha": 0.1, "step_size": "single"}, fiol.FIOL(fiol.Logistic(), fiol.L1(0.1))),
        ({"penalty": "l2", "alpha": 0.1}, fiol.Stacked(fiol.Logistic(), fiol.Ridge(0.1))),
        ({"penalty": "l2", "alpha": 0}, fiol.Stacked(fiol.Logistic())),
        (
            {"penalty": "elasticnet", "alpha": 0.5, "l1_ratio": 0.25},
            fiol.Stacked(fiol.Logistic(), fiol.ElasticNet(0.125, 0.375)),
        ),
        (
            {"penalty": fiol.L1(0.2), "positive": True},
            fiol.FIOL(fiol.Logistic(), fiol.non_negative(fiol.L1(0.2))),
        ),
        ({"loss": fiol.Huber(2.0)}, fiol.Stacked(fiol.Huber(2.0))),
        ({"loss": "squared_hinge", "algorithm": "PA2"}, fiol.PA2()),
        ({"loss": "hinge", "algorithm": "PA1", "step_size": 0.5}, fiol.PA1(0.5)),
        ({"loss": "hinge", "algorithm": "PA"}, fiol.PA()),
        ({"algorithm": "SGD", "step_size": 2}, fiol.SGD(fiol.Logistic(), step_size=fiol.Constant(2.0))),
        ({"algorithm": "RDA", "penalty": "l1"}, fiol.RDA(fiol.Logistic(), fiol.L1(1e-4))),
        ({"algorithm": "FTRLProximal"}, fiol.FTRLProximal(fiol.Logistic())),
        (
            {"algorithm": "IOL", "geometry": "entropy", "solver": "bisection", "step_size": "inverse_sqrt"},
            fiol.IOL(fiol.Logistic(), fiol.Polynomial(), fiol.Entropy(), fiol.Bisection()),
        ),
        ({"step_size": fiol.AdaGrad(2.0)}, fiol.FIOL(fiol.Logistic(), step_size=fiol.AdaGrad(2.0))),
    ],
    ids=str,
)
def test_parameters_are_presets(parameters, expected):
    assert FIOLClassifier(**parameters)._update() == expected


@pytest.mark.parametrize("algorithm", sorted(fiol.integrations.parameters.ALGORITHMS))
def test_all_presets_have_names(algorithm):
    single = FIOLRegressor(algorithm=algorithm, step_size="single")
    assert single._update() == getattr(fiol, algorithm)(loss=fiol.Squared())


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"loss": "lot"}, "The 'loss' parameter of FIOLClassifier must be a str among .*'hinge'.*Got 'lot' instead"),
        ({"loss": fiol.Hinge}, "must be .* an instance of 'fiol.components.losses.Loss' or"),
        ({"penalty": "l3"}, "The 'penalty' parameter .* Got 'l3' instead"),
        ({"alpha": -1.0}, r"The 'alpha' parameter .* in the range \[0.0, inf\). Got -1.0 instead"),
        ({"l1_ratio": 2}, r"The 'l1_ratio' parameter .* in the range \[0.0, 1.0\]"),
        ({"algorithm": "ADAM"}, "The 'algorithm' parameter .*'FIOL'.* Got 'ADAM' instead"),
        ({"step_size": 0.0}, r"The 'step_size' parameter .* in the range \(0.0, inf\)"),
        ({"max_iter": 0}, r"The 'max_iter' parameter .* in the range \[1, inf\)"),
        ({"n_jobs": 1.5}, "The 'n_jobs' parameter .* Got 1.5 instead"),
        ({"n_jobs": 0}, "The 'n_jobs' parameter .* Got 0 instead"),
        ({"class_weight": {0: np.nan}}, r"^class_weight\[0\] must be a finite number of at least 0, got nan$"),
        ({"class_weight": {0: np.inf}}, r"^class_weight\[0\] must be a finite number of at least 0, got inf$"),
        ({"class_weight": {0: -1}}, r"^class_weight\[0\] must be a finite number of at least 0, got -1$"),
        ({"class_weight": {np.int64(7): "x"}}, r"^class_weight\[7\] must be a finite number of at least 0, got 'x'$"),
        ({"class_weight": {0: 1e31}}, r"^class_weight times sample_weight\[\d+\] must be at most 1e\+30, got 1e\+31$"),
        ({"class_weight": "even"}, "The 'class_weight' parameter .* Got 'even' instead"),
        ({"algorithm": "PA", "penalty": "l2"}, "^PA has no use for penalty='l2'$"),
        ({"algorithm": "IOL", "positive": True}, "^IOL has no use for positive=True$"),
        ({"algorithm": "SGD", "solver": "newton"}, "^SGD has no use for solver='newton'$"),
        ({"algorithm": "FTRLProximal", "geometry": "entropy"}, "^FTRLProximal has no use for geometry='entropy'$"),
        ({"algorithm": "PA", "step_size": 0.5}, "^PA has no use for step_size=0.5$"),
    ],
    ids=str,
)
def test_fit_rejects_wrong_parameters(parameters, message):
    X, codes = blobs()
    for learn in ("fit", "partial_fit"):
        model = FIOLClassifier(**parameters)
        with pytest.raises(ValueError, match=message):
            getattr(model, learn)(X, codes)
        assert not hasattr(model, "coef_")


def test_class_weights_of_unknown_classes_raise():
    X, codes = blobs()
    wrong = r"^class_weight has keys that are no classes: \[7\]; the classes are \[0, 1\]$"
    model = FIOLClassifier("log_loss", **ONE_PASS, class_weight={0: 2.0, 7: 3.0})
    with pytest.raises(ValueError, match=wrong):
        model.fit(X, codes)
    with pytest.raises(ValueError, match=wrong):
        model.partial_fit(X, codes, classes=[0, 1])
    full = clone(model).set_params(class_weight={0: 2.0, 1: 1.0, 7: 3.0})  # scikit-learn: a fold may lack a class
    same(full.fit(X, codes), FIOLClassifier("log_loss", **ONE_PASS, class_weight={0: 2.0}).fit(X, codes))
    y = np.where(np.arange(200) < 150, codes, 7)  # a class that comes later has its weight
    same(model.partial_fit(X[:100], y[:100]).partial_fit(X[100:], y[100:]), clone(model).fit(X, y))


# --- wrong rows and labels --------------------------------------------------------------------


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
def test_invalid_rows_raise_as_in_scikit_learn_and_change_nothing(container):
    X, codes = blobs()
    model = FIOLClassifier(**ONE_PASS).fit(X, codes)
    before = model.coef_
    bad = X[:3].copy()
    bad[1, 2] = np.nan
    for rows in (bad, bad[1:2]):
        with pytest.raises(ValueError, match="Input X contains NaN"):
            model.predict(container(rows))
        with pytest.raises(ValueError, match="Input X contains NaN"):
            model.partial_fit(container(rows), codes[: len(rows)])
    with pytest.raises(ValueError, match="X has 11 features, but FIOLClassifier is expecting 12 features"):
        model.partial_fit(container(X[:, 1:]), codes)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.partial_fit(container(X[:1]), codes[:2])
    with pytest.raises(ValueError, match=r"X\[0, 0\] must be 0 or between 1e-100 and 1e\+100 in size"):
        model.predict(container([[1e200] + [0.0] * 11]))
    with pytest.raises(ValueError, match=r"(?i)sample_weight"):
        model.partial_fit(container(X[:1]), codes[:1], sample_weight=[-1.0])
    assert np.array_equal(model.coef_, before)
    assert model.t_ == 201.0


def test_failed_fit_leaves_the_model_unchanged():
    X, codes = blobs()
    huge = X.copy()
    huge[3, 4] = 1e200
    other, held = NAMES[codes], ~model_keeps(X, codes)
    for model, target in ((FIOLClassifier(**ONE_PASS), other), (FIOLRegressor(**ONE_PASS), 2.0 * codes)):
        before = model.fit(X, codes).predict(X)
        with pytest.raises(ValueError, match=r"X\[3, 4\] must be 0 or between"):
            model.fit(huge, target)
        with pytest.raises(ValueError, match="PA has no use for penalty='l2'"):
            model.set_params(algorithm="PA", penalty="l2").fit(X, target)
        model.set_params(algorithm="FIOL", penalty=None, early_stopping=True, validation_fraction=0.25, random_state=0)
        if is_regressor(model):
            with pytest.raises(ValueError, match="all have sample weight 0"):
                model.fit(X, target, sample_weight=np.where(held, 0.0, 1.0))
        frame = pd.DataFrame(X[:, 1:]).add_prefix("x")
        state = model.__dict__.copy()
        for wrong in (frame, frame.to_numpy()):  # the columns are noted before the weights are looked at
            with pytest.raises(ValueError, match="sample_weight"):
                model.fit(wrong, target, sample_weight=np.full(200, -1.0))
        assert model.__dict__ == state
        assert np.array_equal(model.predict(X), before)
        assert model.t_ == 201.0


def test_failed_first_partial_fit_leaves_no_attributes(monkeypatch):
    interpret(monkeypatch)
    X, codes = blobs()
    for model, y, options in (
        (FIOLClassifier(), codes, {"classes": [1, 2]}),
        (FIOLClassifier("log_loss"), codes, {"sample_weight": np.full(200, -1.0)}),
        (FIOLRegressor(), codes, {"sample_weight": np.full(200, -1.0)}),
        (FIOLRegressor("poisson"), -1.0 - codes, {}),
    ):
        state = model.__dict__.copy()
        with pytest.raises(ValueError, match=r"no classes: \[0\]|sample_weight|for Poisson"):
            model.partial_fit(X, y, **options)
        assert model.__dict__ == state
        with pytest.raises(NotFittedError):
            model.predict(X)
        model.partial_fit(X[:, 1:], codes)  # other columns, other classes


def test_another_loss_for_the_next_fit_does_not_reinterpret_the_weights(monkeypatch):
    interpret(monkeypatch)
    X, codes = blobs()
    model = FIOLClassifier("hinge", **ONE_PASS).fit(X, codes).set_params(loss="log_loss")
    assert not hasattr(model, "predict_proba")
    assert isinstance(model.to_sklearn(), LinearSVC)
    assert hasattr(model.fit(X, codes).set_params(loss="hinge"), "predict_proba")
    assert isinstance(model.to_sklearn(), LogisticRegression)
    joint = FIOLClassifier("softmax", **ONE_PASS).fit(X, codes).set_params(loss="hinge")
    assert joint.predict_proba(X[:2]).shape == (2, 2)
    counts = FIOLRegressor("poisson", **ONE_PASS).fit(X, codes).set_params(loss="squared_error")
    assert isinstance(counts.to_sklearn(), PoissonRegressor)
    assert isinstance(FIOLRegressor(**ONE_PASS).fit(X, codes).set_params(loss="poisson").to_sklearn(), LinearRegression)
    with pytest.raises(ValueError, match="no model of scikit-learn knows a single class: 0 is the only one"):
        FIOLClassifier().partial_fit(X[:2], [0, 0]).to_sklearn()


def test_unseen_labels_raise():
    X, codes = blobs()
    y = NAMES[codes]
    for model in (
        FIOLClassifier(**ONE_PASS).fit(X, y),
        FIOLClassifier().partial_fit(X, y, classes=["apple", "cherry"]),
    ):
        for rows in (X[:1], sparse.csr_matrix(X[:1]), X[:2]):
            with pytest.raises(
                ValueError,
                match=r"no classes: \['kiwi'\]; the classes are \['apple', 'cherry'\] \(fit, or classes=, has fixed",
            ):
                model.partial_fit(rows, ["kiwi"] * rows.shape[0])
            with pytest.raises(ValueError, match="labels that are no classes"):
                model.partial_fit(rows, np.arange(rows.shape[0]))
        with pytest.raises(ValueError, match="classes must be those of the first call"):
            model.partial_fit(X, y, classes=["apple", "kiwi"])
        model.partial_fit(X, y, classes=["cherry", "apple"])
    with pytest.raises(ValueError, match=r"at least two classes, got 1 class: 1$"):
        FIOLClassifier().fit(X, np.ones(200, int))
    with pytest.raises(ValueError, match="at least two classes, got 1 class"):
        FIOLClassifier().partial_fit(X, np.ones(200), classes=[1])
    with pytest.raises(ValueError, match="Unknown label type"):
        FIOLClassifier().partial_fit(X, X[:, 0])
    with pytest.raises(
        ValueError, match=r"no classes: \[0, 1\]; the classes are .*'\]$"
    ):  # words and numbers do not mix
        FIOLClassifier().partial_fit(X, y).partial_fit(X, codes)
    with pytest.raises(ValueError, match="compute_class_weight"):
        FIOLClassifier(class_weight="balanced").partial_fit(X, y)


def test_nullable_labels_of_pandas_keep_their_digits_and_type(monkeypatch):
    interpret(monkeypatch)
    for labels, dtype in (([2**53, 2**53 + 1], "Int64"), ([False, True], "boolean")):
        y = pd.Series(labels * 4, dtype=dtype)
        X = np.arange(8.0).reshape(-1, 1) % 2
        frame = pd.DataFrame({"size": X[:, 0], "color": ["red"] * 8})
        for model in (FIOLClassifier(max_iter=1).fit(X, y), FIOLClassifier().partial_fit(frame, y)):
            assert model.classes_.tolist() == labels
            assert type(model.classes_.tolist()[0]) is type(labels[0])


def test_labels_that_would_lose_digits_beside_the_classes_are_refused(monkeypatch):
    interpret(monkeypatch)
    model = FIOLClassifier("log_loss").partial_fit([[1.0], [2.0]], np.array([2**53, 2**53 + 1]))
    for more in (np.array([2**53 + 3], np.uint64), np.array([0.5])):
        with pytest.raises(ValueError, match="cannot join"):
            model.partial_fit([[1.0]], more)
    assert model.classes_.tolist() == [2**53, 2**53 + 1]


def test_many_integer_classes_do_not_warn():
    """scikit-learn warns of targets that look continuous where most labels differ, as those of `classes` do."""
    X, _ = blobs(rows=120)
    for y in (np.arange(120) % 30, np.arange(120.0) % 30):
        model = FIOLClassifier("log_loss", **ONE_PASS).fit(X, y)
        assert model.classes_.tolist() == list(range(30))
        same(model, FIOLClassifier("log_loss").partial_fit(X[:1], y[:1]).partial_fit(X[1:], y[1:]))
    streamed = FIOLClassifier().partial_fit(X[:2], [0, 1]).partial_fit(X[2:3], [2.0])  # 0 is 0.0
    assert streamed.partial_fit(sparse.csr_matrix(X[3:4]), [0]).classes_.tolist() == [0.0, 1.0, 2.0]
    assert streamed.t_ == 5.0


def test_targets_that_the_loss_rejects_raise(monkeypatch):
    interpret(monkeypatch)
    X, y = line()
    model = FIOLRegressor("poisson", **ONE_PASS)
    with pytest.raises(ValueError, match=r"y\[\d+\] must be .* for Poisson"):
        model.fit(X, -np.abs(y))
    model.fit(X, np.abs(y))
    for rows in (X[:1], sparse.csr_matrix(X[:1])):
        with pytest.raises(ValueError, match=r"y\[0\] must be .* for Poisson"):
            model.partial_fit(rows, [-1.0])
    with pytest.raises(ValueError, match="Input y contains NaN"):
        model.partial_fit(sparse.csr_matrix(X[:1]), [np.nan])


def test_unfitted_estimators_raise():
    for model in (FIOLClassifier(), FIOLRegressor()):
        for name in ("coef_", "intercept_", "n_iter_"):
            assert not hasattr(model, name)
        for verb in (model.sparsify, model.densify, model.to_sklearn, lambda m=model: m.predict([[1.0]])):
            with pytest.raises(NotFittedError):
                verb()


# --- at home ----------------------------------------------------------------------------------


def test_frames_are_matched_by_name():
    X, codes = blobs(d=3)
    columns = ["a", "b", "c"]
    model = FIOLClassifier(**ONE_PASS).fit(pd.DataFrame(X, columns=columns), NAMES[codes])
    same(model, FIOLClassifier(**ONE_PASS).fit(X, NAMES[codes]))
    assert model.feature_names_in_.tolist() == columns
    same(model, FIOLClassifier(**ONE_PASS).fit(pl.DataFrame(X, schema=columns), NAMES[codes]))
    with pytest.raises(ValueError, match=r"(?s)feature names.*should match.*Feature names unseen.*- d"):
        model.predict(pd.DataFrame(X, columns=["a", "b", "d"]))
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        model.partial_fit(X, NAMES[codes])
    with pytest.raises(ValueError, match="could not convert string to float"):
        model.fit(np.array([["x"], ["y"]]), [0, 1])


def test_estimators_in_pipelines_searches_and_wrappers():
    X, codes = blobs(rows=300)
    table = pd.DataFrame(X, columns=[f"x{i}" for i in range(12)])
    table["color"] = NAMES[codes]
    transform = ColumnTransformer(
        [("numbers", StandardScaler(), ["x0", "x1"]), ("words", OneHotEncoder(sparse_output=False), ["color"])]
    )
    pipe = make_pipeline(transform.set_output(transform="pandas"), FIOLClassifier(**ONE_PASS)).fit(table, codes)
    assert pipe.score(table, codes) > 0.99
    assert pipe[-1].feature_names_in_.tolist()[-1] == "words__color_cherry"
    grid = GridSearchCV(FIOLClassifier(**ONE_PASS), {"step_size": ["auto", fiol.ScaleFree(fiol.AdaGrad(1e-6))]}, cv=3)
    assert grid.fit(X, codes).best_params_ == {"step_size": "auto"}
    assert np.ptp(grid.cv_results_["mean_test_score"]) > 0.05
    rest = OneVsRestClassifier(FIOLClassifier(**ONE_PASS)).fit(X, blobs(rows=300, classes=3)[1])
    assert len(rest.estimators_) == 3
    assert cross_val_score(FIOLRegressor(max_iter=20, tol=None, random_state=0), *line()).min() > 0.9


@pytest.mark.skipif(not NEW, reason="pipelines of older versions do not route")
def test_metadata_routing():
    X, codes = blobs()
    weights = np.random.default_rng(0).random(200)
    with config_context(enable_metadata_routing=True):
        model = FIOLClassifier(**ONE_PASS).set_fit_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipe = make_pipeline(scaler, model).fit(X, codes, sample_weight=weights)
        FIOLClassifier().set_partial_fit_request(classes=True, sample_weight=True)
    other = FIOLClassifier(**ONE_PASS).fit(StandardScaler().fit_transform(X), codes, sample_weight=weights)
    same(pipe[-1], other)


def test_estimator_copies_and_repr():
    X, codes = blobs(classes=3)
    model = FIOLClassifier(loss=fiol.Logistic(), penalty=fiol.Unregularized(), **ONE_PASS)
    assert clone(model).get_params() == model.get_params()
    assert "FIOLClassifier" in model._repr_html_()
    assert repr(FIOLClassifier("hinge")) == "FIOLClassifier(loss='hinge')"
    in_pieces(model, X[:100], NAMES[codes[:100]], 50)
    again = pickle.loads(pickle.dumps(model))
    same(model, again)
    assert again.loss_curve_ == model.loss_curve_
    for a in (model, again):
        a.partial_fit(sparse.csr_matrix(X[100:101]), ["kiwi"]).partial_fit(X[101:], NAMES[codes[101:]])
    same(model, again)
    assert is_classifier(model)
    assert is_regressor(FIOLRegressor())
    assert not hasattr(clone(model), "classes_")


def test_estimators_are_loaded_lazily():
    script = (
        "import sys, fiol; assert 'sklearn' not in sys.modules; fiol.FIOLClassifier; print('sklearn' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
    without = "import sys; sys.modules['sklearn'] = None\nimport fiol\nfiol.FIOLRegressor"
    failed = subprocess.run([sys.executable, "-c", without], capture_output=True, text=True, check=False)
    assert "ImportError: fiol.FIOLClassifier needs scikit-learn: pip install fiol[sklearn]" in failed.stderr
    with pytest.raises(AttributeError, match="no attribute 'Perceptron'"):
        fiol.Perceptron


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="the interpreter needs minutes, and lets others run anyway")
def test_other_threads_run_while_one_fits():
    X, y = make_classification(20_000, 40, random_state=0)
    model = FIOLClassifier(max_iter=40, tol=None, shuffle=False)
    model.fit(X[:100], y[:100])
    ticks, stop = [], threading.Event()

    def watch():
        while not stop.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    watcher = threading.Thread(target=watch)
    watcher.start()
    for _ in range(10):  # on a busy machine the watcher may have no core during one fit
        start = time.perf_counter()
        model.fit(X, y)
        end = time.perf_counter()
        inside = [t for t in ticks if start < t < end]
        if len(inside) > 5:
            break
    stop.set()
    watcher.join()
    assert len(inside) > 5, f"{len(inside)} ticks in {end - start:.3f} s: a kernel kept the interpreter to itself"


def test_n_jobs_changes_nothing():
    X, codes = blobs(classes=3)
    one = FIOLClassifier("log_loss", random_state=0, max_iter=3, tol=None).fit(X, codes)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same(one, FIOLClassifier("log_loss", random_state=0, max_iter=3, tol=None, n_jobs=2).fit(X, codes))


@pytest.mark.parametrize("loss", ["log_loss", "softmax"])
def test_n_jobs_of_one_learner_changes_nothing(loss, monkeypatch):
    interpret(monkeypatch)
    X, codes = blobs(classes=2)
    options = {"max_iter": 2, "tol": None, "random_state": 3}
    one, two = (FIOLClassifier(loss, **options, n_jobs=jobs).fit(X, codes) for jobs in (None, 2))
    same(one, two)


def test_regressors_have_no_n_jobs_and_load_files_that_have(tmp_path, monkeypatch):
    interpret(monkeypatch)
    with pytest.raises(TypeError, match="n_jobs"):
        FIOLRegressor(n_jobs=2)
    X, codes = blobs(classes=2)
    model, path = FIOLRegressor(max_iter=1).fit(X, codes.astype(float)), tmp_path / "model.fiol"
    model.save(path)
    whole, arrays = model_file.read(path)
    whole["model"]["parameters"]["n_jobs"] = 2
    model_file.write(path, whole, arrays)
    again = fiol.load(path, compiled=False)
    assert again.get_params() == model.get_params()
    assert again.coef_.tobytes() == model.coef_.tobytes()
    whole["model"]["parameters"]["n_threads"] = 2
    model_file.write(path, whole, arrays)
    with pytest.raises(ValueError, match="n_threads"):
        fiol.load(path, compiled=False)


def test_estimator_with_a_ledger(monkeypatch):
    interpret(monkeypatch)
    X, y = load_iris(return_X_y=True)
    options = {"record_every": 50, "shuffle": True, "max_iter": 2, "tol": None, "random_state": 0}
    model = FIOLClassifier("log_loss", **options)
    plain = clone(model).set_params(record_every=None, step_size="single").fit(X, y)
    model.fit(X, y)
    np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-9, atol=1e-12)
    assert [ledger.records.t.tolist() for ledger in model.ledgers_] == [[50, 100, 150, 200, 250, 300]] * 3
    losses = [ledger.records.loss[2] / 150 for ledger in model.ledgers_]  # of the first pass
    assert np.isclose(np.mean(losses), model.loss_curve_[0])
    assert pickle.loads(pickle.dumps(model)).ledgers_ == []
    with pytest.raises(AttributeError, match="record_every"):
        plain.ledgers_
    with pytest.raises(ValueError, match="Softmax has no use for record_every"):
        model.set_params(loss="softmax").fit(X, y)


def test_rejected_row_adds_no_class():
    """Labels are taken in with the first round of their class, or not at all."""
    X, y = np.eye(3), np.array(["a", "b", "a"])
    for loss in ("log_loss", "softmax"):
        model = FIOLClassifier(loss, class_weight={"new": 1e30}).partial_fit(X, y)
        before, learners = pickle.dumps(model), list(model.learners_)
        for wrong in ((X[:1], np.array(["new"]), [1e10]), (X[:1] * np.nan, np.array(["new"])), (X[:1], np.array([7]))):
            with pytest.raises(ValueError, match=r"class_weight times|NaN|no classes|labels"):
                model.partial_fit(*wrong[:2], sample_weight=wrong[2] if len(wrong) > 2 else None)
            assert model.classes_.tolist() == ["a", "b"]
            assert model.learners_ == learners
        assert pickle.dumps(model) == before


# --- several values in one pass ---------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 3])
def test_tune_matches_the_best_of_separate_fits(classes, tmp_path):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, 4))
    y = (X @ rng.normal(size=(4, classes)) + rng.normal(size=(200, classes))).argmax(axis=1)
    options = {"loss": "log_loss", "penalty": "l1", "max_iter": 1, "tol": None, "shuffle": False}
    alphas = [1e-3, 0.3, 3e-2]
    model = FIOLClassifier(**options, tune={"alpha": alphas}).fit(X, y)
    alone = [FIOLClassifier(**options, step_size="single", alpha=alpha).fit(X, y) for alpha in alphas]
    for k, learner in enumerate(model.learners_):
        losses = [member.loss for member in learner.members]
        best = int(np.argmin(losses))
        np.testing.assert_array_equal(model.coef_[k], alone[best].coef_[k])
        assert [member.nonzero for member in learner.members] == [np.count_nonzero(a.coef_[k]) for a in alone]
    if classes == 2:
        assert losses == pytest.approx([a.loss_curve_[0] for a in alone], rel=1e-12)
    model.save(tmp_path / "tuned.fiol")
    again = FIOLClassifier.load(tmp_path / "tuned.fiol")
    assert again.get_params() == model.get_params()
    np.testing.assert_array_equal(again.partial_fit(X, y).coef_, model.partial_fit(X, y).coef_)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tune": {"alhpa": [1.0]}}, "'alhpa': there are alpha, l1_ratio"),
        ({"tune": {}}, "tune is empty"),
        ({"tune": {"alpha": 0.1}, "penalty": "l1"}, r"tune\['alpha'\] must be a list of values, got 0.1"),
        ({"tune": {"alpha": [0.1]}, "average": True}, "no average"),
        ({"tune": [1.0]}, "'tune' parameter"),
    ],
)
def test_invalid_tuning_grid_raises(options, words):
    with pytest.raises((TypeError, ValueError), match=words):
        FIOLRegressor(**options).fit([[1.0], [2.0]], [1.0, 2.0])


def test_importances_are_named_by_columns():
    frame = pd.DataFrame({"metres": [9000.0, 1000.0, 4000.0], "grams": [0.0, 0.1, 0.2]})
    model = FIOLRegressor(step_size="single", max_iter=3, tol=None).fit(frame, frame["metres"] / 1000)
    assert list(model.importances(1)) == ["metres"]
    deviations = dict(zip(frame.columns, model.coef_ * frame.to_numpy().std(axis=0), strict=True))
    assert model.importances(X=frame) == pytest.approx(deviations)
