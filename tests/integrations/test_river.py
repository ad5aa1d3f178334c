"""River models pass River's checks, have the bits of the learner underneath and work in River's tools."""

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import river
from hypothesis import given, settings
from hypothesis import strategies as st
from river import (
    active,
    checks,
    compose,
    datasets,
    drift,
    ensemble,
    evaluate,
    feature_extraction,
    linear_model,
    metrics,
    naive_bayes,
    preprocessing,
    stream,
)
from tests.interpreted import interpret

import fiol
from fiol.features.frames import as_list
from fiol.integrations.parameters import GEOMETRIES
from fiol.river import FIOLClassifier, FIOLRegressor

LASSO = {"penalty": "l1", "alpha": 0.02, "step_size": 0.5}


#: The first three are compiled, as others of their kind are in other tests.
CHECKED = (
    FIOLClassifier(),
    FIOLRegressor(),
    FIOLClassifier("softmax", penalty="l2"),
    FIOLRegressor(penalty="elasticnet", algorithm="FTRLProximal"),
    FIOLRegressor("huber", average=True, step_size="inverse_sqrt"),
)


def all_checks():
    for which, model in enumerate(CHECKED):
        for k, check in enumerate(checks.yield_checks(model)):
            if model in CHECKED[:2] or check.__name__ != "check_bounded_memory_growth":  # long if interpreted
                yield pytest.param(model, check, id=f"{type(model).__name__}-{which}-{check.__name__}-{k}")


@pytest.mark.parametrize(("model", "check"), list(all_checks()))
def test_river_models_pass_rivers_checks(model, check, monkeypatch):
    assert not model._unit_test_skips()
    if model not in CHECKED[:3]:
        interpret(monkeypatch)
    check(model.clone())


@pytest.mark.skipif(not river.__version__.startswith("0.26."), reason="the count is that of River 0.26")
def test_number_of_rivers_checks():
    text = (Path(__file__).parents[2] / "docs" / "guides" / "from_river.md").read_text(encoding="utf-8")
    assert f"all checks that River 0.26 has for such models: {len(list(all_checks()))} for five settings" in text
    assert len(CHECKED) == 5


@pytest.fixture
def interpreted(monkeypatch):
    """Nothing is compiled."""
    interpret(monkeypatch)


def stream_of(rows=60, d=5, classes=3, seed=0, density=0.6):
    """Sparse rows, the first without zeros, so that names are numbered like columns; classes that appear late."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, d)) * 10.0 ** rng.integers(-2, 3, d)
    X[1:][rng.random((rows - 1, d)) > density] = 0.0
    codes = np.minimum(rng.integers(classes, size=rows), np.arange(rows) // 10)
    return pd.DataFrame(X, columns=[f"x{i}" for i in range(d)]), codes


def dicts(X):
    return X.to_dict("records")


def in_pieces(model, X, y, *cuts, w=1.0):
    for start, stop in zip((0, *cuts), (*cuts, len(X)), strict=True):
        weights = w if np.isscalar(w) else w[start:stop]
        model.learn_many(X.iloc[start:stop], pd.Series(list(y[start:stop])), weights)
    return model


def one_by_one(model, X, y, w=None):
    for k, x in enumerate(dicts(X)):
        model.learn_one(x, y[k], 1.0 if w is None else w[k])
    return model


def same(a, b):
    """Check that two models are equal to the bit."""
    assert a.weights == b.weights
    assert a.intercept == b.intercept
    assert a._space.names == b._space.names


LABELS = {
    "bool": [False, True],
    "str": ["b", "a", "c"],
    "int": [7, 3, 0],
    "one": ["only"],
}


# --- the same bits ------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
@pytest.mark.parametrize("parameters", [{}, LASSO, {"average": True, **LASSO}, {"bits": 2, **LASSO}], ids=str)
@pytest.mark.usefixtures("interpreted")
def test_river_classifier_matches_learners_of_its_classes(labels, parameters):
    """For events and frames, every class matches a learner with targets +1 and -1 from the start."""
    X, codes = stream_of(classes=len(labels))
    y, w = [labels[code] for code in codes], np.random.default_rng(1).exponential(size=len(X))
    one = one_by_one(FIOLClassifier(**parameters), X, y, w)
    same(one, in_pieces(FIOLClassifier(**parameters), X, y, w=w))
    same(one, in_pieces(FIOLClassifier(**parameters), X, y, 1, 7, 31, 32, w=w))
    assert set(one.learners) == ({True} if labels == [False, True] else set(y))
    for label, learner in one.learners.items():
        options = {"average": parameters.get("average", False), "bits": parameters.get("bits"), "compiled": False}
        alone = fiol.Learner(one._update, **options)
        alone.learn(dicts(X), [1.0 if label == each else -1.0 for each in y], w)
        assert np.array_equal(learner.weights, alone.weights)
        assert learner.intercept == alone.intercept


@pytest.mark.parametrize("loss", ["squared_error", "poisson"])
@pytest.mark.usefixtures("interpreted")
def test_river_regressor_matches_learner(loss):
    X, y = stream_of()
    one = one_by_one(FIOLRegressor(loss, **LASSO), X, y)
    same(one, in_pieces(FIOLRegressor(loss, **LASSO), X, y, 5, 20))
    alone = fiol.Learner(one._update, compiled=False)
    alone.learn(X, y)
    assert np.array_equal(one.learner.weights, alone.weights)
    assert one.predict_many(X).tolist() == alone.predict(X).tolist() == [one.predict_one(x) for x in dicts(X)]


@pytest.mark.parametrize("labels", [["b", "a", "c"], [False, True]])
@pytest.mark.usefixtures("interpreted")
def test_river_weights_match_the_estimators(labels):
    X, codes = stream_of(classes=len(labels))
    y = np.array(labels)[codes]
    here = in_pieces(FIOLClassifier(**LASSO), X, y.tolist(), 10)
    there = fiol.FIOLClassifier(**LASSO, max_iter=1, tol=None, shuffle=False).fit(X, y)
    for k, label in enumerate(there.classes_[-len(there.coef_) :].tolist()):
        assert np.array_equal(here.learners[label].weights, there.coef_[k])
        assert here.intercept[label] == there.intercept_[k]
    numbers = in_pieces(FIOLRegressor(**LASSO), X, codes, 10)
    fitted = fiol.FIOLRegressor(**LASSO, max_iter=1, tol=None, shuffle=False).fit(X, codes)
    assert np.array_equal(numbers.learner.weights, fitted.coef_)


def test_compiled_river_models_have_the_same_bits():
    X, codes = stream_of(rows=300)
    y = [["b", "a", "c"][code] for code in codes]
    one = one_by_one(FIOLClassifier(), X, y)
    same(one, in_pieces(FIOLClassifier(), X, y, 100, 200))
    assert one.predict_many(X).tolist() == [one.predict_one(x) for x in dicts(X)]
    p = one.predict_proba_many(X)
    assert [row._asdict() for row in p.itertuples(index=False)] == [one.predict_proba_one(x) for x in dicts(X)]


events = st.lists(
    st.tuples(
        st.dictionaries(
            st.one_of(st.sampled_from("abc"), st.integers(0, 2), st.tuples(st.sampled_from("ab"), st.just("z"))),
            st.one_of(st.floats(-9, 9).filter(lambda v: v == 0 or abs(v) > 1e-9), st.booleans(), st.sampled_from("uv")),
        ),
        st.sampled_from(["p", "q", 0, 1, 2.5]),
    ),
    max_size=12,
)


@settings(max_examples=40, deadline=None)
@given(events, st.data())
def test_river_events_of_any_names_values_and_labels(events, data):
    """Any names, values and labels: a class that appears late has the weights of one that was there from the start."""
    with pytest.MonkeyPatch.context() as patch:
        interpret(patch)
        model = FIOLClassifier(**LASSO)
        for x, y in events:
            before = dict(x)
            model.learn_one(x, y)
            assert x == before
            if data.draw(st.booleans()):
                model.predict_one(x)
                assert sum(model.predict_proba_one({"new": 1.0, **x}).values()) == pytest.approx(1.0)
        assert model.classes == list(dict.fromkeys(y for _, y in events))
        rows = [{k if isinstance(k, (str, int)) else repr(k): v for k, v in x.items()} for x, _ in events]
        for label in model.classes:
            alone = fiol.Learner(model._update, compiled=False)
            for row, (_, y) in zip(rows, events, strict=True):
                alone.learn_named(row, 1.0 if y == label else -1.0)
            assert np.array_equal(model.learners[label].weights, alone.weights)


# --- frames -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("interpreted")
def test_river_accepts_frames_of_any_kind():
    X = pd.DataFrame({"n": [1, 0, 3], "text": ["u", "v", "u"], "flag": [True, False, True], "z": [0.0, 0.0, 2.5]})
    y = pd.Series([1.0, 2.0, 3.0], name="price")
    one = one_by_one(FIOLRegressor(), X, y)
    assert set(one.weights) == {"n", "text=u", "text=v", "flag", "z"}
    models = [FIOLRegressor() for _ in range(4)]
    models[0].learn_many(X, y)
    models[1].learn_many(pl.from_pandas(X), pl.Series("price", y.to_list()))
    models[2].learn_many(pl.from_pandas(X).to_arrow(), y)
    models[3].learn_many(X.astype({"text": "category", "n": "Int64"}), y.to_numpy())
    for model in models:
        same(one, model)
    found = models[0].predict_many(X.set_index(pd.Index([7, 8, 9])))
    assert found.name == "price"
    assert found.index.tolist() == [7, 8, 9]
    assert models[1].predict_many(pl.from_pandas(X)).to_list() == found.tolist()


@pytest.mark.usefixtures("interpreted")
def test_river_columns_may_come_and_go():
    """Features are matched by name for any column order, and a column of zeros adds none."""
    frames = [
        pd.DataFrame({"b": [0.0, 1.0], "a": [2.0, 3.0]}),
        pd.DataFrame({"c": [0.0, 0.0], "a": [1.0, 1.0], "b": [0.5, 0.0]}),
        pd.DataFrame({0: [1.0, 2.0], ("x", "y"): [3.0, 4.0]}),
        pd.DataFrame({0: [1.0, 2.0], "b": [3.0, 4.0]}),
    ]
    one, many = FIOLRegressor(**LASSO), FIOLRegressor(**LASSO)
    for X in frames:
        one_by_one(one, X, [1.0, -1.0])
        many.learn_many(X, pd.Series([1.0, -1.0]))
    same(one, many)
    assert many._space.names == ["a", "b", 0, "('x', 'y')"]
    unknown = pd.DataFrame({"nobody": [5.0], "a": [1.0]})
    assert many.predict_many(unknown)[0] == many.predict_one({"a": 1.0, "nobody": 5.0}) == many.predict_one({"a": 1.0})
    assert many._space.features == 4


@pytest.mark.usefixtures("interpreted")
def test_river_probabilities_of_frames():
    X, codes = stream_of()
    model = in_pieces(FIOLClassifier(), X, [bool(code) for code in codes])
    p = model.predict_proba_many(X)
    assert p.columns.tolist() == [False, True]
    assert np.allclose(p.sum(axis=1), 1.0)
    assert model.predict_many(X).tolist() == (p[True] > 0.5).tolist()
    assert model.predict_proba_many(pl.from_pandas(X)).columns == ["False", "True"]
    new = FIOLClassifier()
    assert new.predict_one({"a": 1.0}) is None
    assert new.predict_many(X).tolist() == [None] * len(X)
    new.learn_many(X[:0], pd.Series([], dtype=object))
    assert new.classes == []
    new.learn_one({"a": 1.0}, "only")
    assert new.predict_one({"a": 1.0}) == "only"
    assert new.predict_proba_one({"a": 1.0}) == {"only": 1.0}


@pytest.mark.parametrize("geometry", ["entropy", "signed_entropy"])
@pytest.mark.usefixtures("interpreted")
def test_river_geometries_with_nonzero_initial_weights(geometry):
    model = FIOLRegressor(geometry=geometry, step_size=0.1)
    learner = fiol.Learner(model._update, compiled=False)
    for x, y in [({"a": 1.0}, 2.0), ({"a": 1.0, "b": -2.0}, 1.0), ({"b": 0.5}, 1.0), ({"b": 0.7}, 1.0)]:
        model.learn_one(x, y)
        learner.learn_named(x, y)
    rows = [{"a": 1.0}, {"a": 1.0, "new": 3.0}, {"new": 1.0, "newer": 2.0}]
    assert [model.predict_one(x) for x in rows] == learner.predict(rows).tolist()
    assert np.array_equal(model.learner.weights, learner.weights)
    X = pd.DataFrame(rows).fillna(0.0)
    assert model.predict_many(X).tolist() == pytest.approx([model.predict_one(x) for x in rows], rel=1e-12)
    assert model._space.names == ["a", "b"]


# --- errors -------------------------------------------------------------------------------------


BAD_EVENTS = [
    ({"a": 1.0, "new": float("nan")}, "p", 1.0, r"x\['new'\] must be finite, got nan"),
    ({"a": float("inf")}, "p", 1.0, r"x\['a'\] must be finite"),
    ({"a": None, "new": 1.0}, "never seen", 1.0, r"x\['a'\] is missing"),
    ({"a": 1.0, "new": 1.0}, "never seen", -1.0, "^w must be at least 0"),
    ({"a": 1.0}, "never seen", float("nan"), "^w must be finite"),
    ({"a": 1.0}, None, 1.0, "y is missing"),
    ({"a": 1.0}, float("nan"), 1.0, "y is missing"),
    ([1.0], "p", 1.0, "x must be a dict, got list"),
    ({"a": [1.0]}, "p", 1.0, "must be a number or a str, got list"),
]


@pytest.mark.parametrize(("x", "y", "w", "message"), BAD_EVENTS)
@pytest.mark.usefixtures("interpreted")
def test_river_error_changes_nothing(x, y, w, message):
    for start in ([], [({"a": 1.0, "b": 2.0}, "p"), ({"b": 2.0}, "q"), ({"b": 2.0}, "q")]):
        model = FIOLClassifier()
        for event in start:
            model.learn_one(*event)
        before = pickle.dumps(model)
        with pytest.raises((ValueError, TypeError), match=message):
            model.learn_one(x, y, w)
        assert pickle.dumps(model) == before


@pytest.mark.usefixtures("interpreted")
def test_river_error_in_a_frame_changes_nothing():
    model = in_pieces(FIOLClassifier(), *stream_of(rows=20))
    before = pickle.dumps(model)
    X = pd.DataFrame({"x0": [1.0, 2.0], "new": [1.0, np.nan]})
    for y, w, message in [
        (["a", "b"], 1.0, r"X\[1, 'new'\] must be finite"),
        (["a"], 1.0, "y must have one label per row: 2, got 1"),
        (["a", None], 1.0, "y is missing"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.learn_many(X, pd.Series(y), w)
        assert pickle.dumps(model) == before
    with pytest.raises(ValueError, match=r"^w\[0\] must be at least 0"):
        model.learn_many(X[:1], pd.Series(["a"]), [-1.0])
    assert pickle.dumps(model) == before
    with pytest.raises(ValueError, match=r"X\[1, 'new'\] must be finite"):
        model.predict_many(X)
    for _ in range(3):  # names that come again take a shorter way
        with pytest.raises(ValueError, match=r"x\['x0'\] must be finite"):
            model.predict_one({"x0": float("nan")})


def test_river_rejects_wrong_parameters():
    for parameters, message in [
        ({"loss": "lot"}, "loss must be one of 'log_loss', .*, or a fiol.Loss; got 'lot'"),
        ({"penalty": "l3"}, "penalty must be one of 'none', 'l1', 'l2', 'elasticnet', or a fiol.Regularizer; got 'l3'"),
        ({"algorithm": "Adam"}, "algorithm must be one of 'FIOL', .*; got 'Adam'"),
        ({"step_size": "big"}, "step_size must be one of 'auto', .*, a number, or a fiol.StepSize; got 'big'"),
        ({"step_size": True}, "step_size must be one of"),
        ({"geometry": 3}, "geometry must be one of"),
        ({"solver": "lbfgs"}, "solver must be one of"),
        ({"alpha": -1.0}, "alpha must be a number at least 0, got -1.0"),
        ({"alpha": "much"}, "alpha must be a number"),
        ({"l1_ratio": 1.5}, "l1_ratio must be a number from 0 to 1, got 1.5"),
        ({"step_size": -1.0}, "^step_size must be greater than 0"),
        ({"step_size": 0, "algorithm": "PA1", "loss": "hinge"}, "^step_size must be greater than 0"),
        ({"step_size": None}, "^step_size must be one of .*; got None"),
        ({"positive": "no"}, "^positive must be True or False, got 'no'"),
        ({"average": 5}, "^average must be True or False, got 5"),
        ({"average": "x"}, "^average must be True or False, got 'x'"),
        ({"fit_intercept": 0}, "^fit_intercept must be True or False, got 0"),
        ({"algorithm": "PA1", "penalty": "l1"}, "PA1 has no use for penalty='l1'"),
        ({"bits": 99}, "bits must be from 1 to 31"),
    ]:
        with pytest.raises(ValueError, match=message):
            FIOLClassifier(**parameters)
    FIOLClassifier(average=np.bool_(True), positive=np.bool_(False), fit_intercept=np.bool_(False))
    with pytest.raises(NotImplementedError, match="Hinge has no probabilities: use loss='log_loss'"):
        FIOLClassifier("hinge").predict_proba_one({})


def test_river_is_optional():
    code = "import sys; sys.modules['river'] = None; import fiol; import fiol.river"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "ImportError: fiol.river needs River: pip install fiol[river]" in done.stderr


# --- copies -------------------------------------------------------------------------------------


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["deepcopy", "pickle"])
@pytest.mark.parametrize("labels", [[False, True], ["a", "b", "c"]])
@pytest.mark.usefixtures("interpreted")
def test_river_copies_keep_their_bits(copied, labels):
    X, codes = stream_of(classes=len(labels))
    y = [labels[code] for code in codes]
    model = in_pieces(FIOLClassifier(**LASSO), X[:15], y[:15])
    twin = copied(model)
    before = twin.weights
    one_by_one(model, X[15:], y[15:])
    assert twin.weights == before
    same(model, one_by_one(twin, X[15:], y[15:]))
    fresh = model.clone()
    assert fresh.classes == []
    assert fresh._get_params() == model._get_params()
    assert model.clone({"alpha": 0.5}).alpha == 0.5


@pytest.mark.usefixtures("interpreted")
def test_river_mutate_keeps_the_weights():
    X, codes = stream_of()
    y = [["a", "b", "c"][code] for code in codes]
    model = in_pieces(FIOLClassifier(**LASSO), X[:30], y[:30])
    weights, intercept = model.weights, model.intercept
    model.mutate({})
    model.mutate({"alpha": 0.02})
    assert model.learners["a"].rounds == 30
    model.mutate({"alpha": 50.0, "penalty": "l2"})
    assert model.weights == weights
    assert model.intercept == intercept
    assert model._update.regularizer == fiol.Ridge(50.0)
    in_pieces(model, X[30:], y[30:])
    assert max(abs(w) for found in model.weights.values() for w in found.values()) < 0.1
    before = pickle.dumps(model)
    for wrong in ({"alpha": -1.0}, {"loss": "lot"}, {"algorithm": "RDA"}, {"bits": 3}, {"nothing": 3}):
        with pytest.raises((ValueError, TypeError)):
            model.mutate(wrong)
        assert pickle.dumps(model) == before
    numbers = FIOLRegressor(**LASSO)
    numbers.mutate({"step_size": 2.0})
    assert numbers.learner.update.step_size == fiol.Constant(2.0)


# --- inside River -------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*trapz:DeprecationWarning")  # River 0.21's area under the curve
def test_progressive_validation_with_metrics():
    """Bool labels work with all metrics of two classes, those of probabilities included."""
    metric = metrics.Accuracy() + metrics.ROCAUC() + metrics.LogLoss() + metrics.F1()
    model = preprocessing.StandardScaler() | FIOLClassifier()
    evaluate.progressive_val_score(datasets.Phishing(), model, metric)
    accuracy, auc, loss, f1 = (each.get() for each in metric)
    assert accuracy > 0.88
    assert auc > 0.94
    assert loss < 0.3
    assert f1 > 0.85


def test_river_many_classes_and_values_of_any_scale():
    """Seven classes by columns of very different size; River's softmax regression needs them scaled."""

    def f1(model):
        return evaluate.progressive_val_score(datasets.ImageSegments().take(600), model, metrics.MacroF1()).get()

    scaler, softmax = preprocessing.StandardScaler, linear_model.SoftmaxRegression
    assert f1(FIOLClassifier()) > f1(softmax()) + 0.2
    assert f1(scaler() | FIOLClassifier()) > f1(scaler() | softmax())


@pytest.mark.usefixtures("interpreted")
def test_river_pipelines():
    """Transformers before it, event by event and in mini-batches; pairs of words as names."""
    X, codes = stream_of(rows=30)
    one, many = (compose.Select("x0", "x1", "x3") | FIOLClassifier(**LASSO) for _ in range(2))
    for x, code in zip(dicts(X), codes, strict=True):
        one.learn_one(x, bool(code))
    many.learn_many(X, pd.Series([bool(code) for code in codes]))
    same(one["FIOLClassifier"], many["FIOLClassifier"])
    assert set(one["FIOLClassifier"]._space.names) == {"x0", "x1", "x3"}
    assert set(one.predict_proba_one(dicts(X)[0])) == {False, True}
    one.mutate({"FIOLClassifier": {"alpha": 0.5}})
    assert one["FIOLClassifier"]._update.regularizer == fiol.L1(0.5)
    words = feature_extraction.BagOfWords(ngram_range=(1, 2)) | FIOLClassifier()
    for text, spam in [("buy now", True), ("see you now", False), ("buy now please", True)]:
        words.learn_one(text, spam)
    assert words.predict_one("buy now") is True
    assert "('buy', 'now')" in words["FIOLClassifier"].weights[True]
    mixed = compose.SelectType(str) + compose.SelectType(float) | FIOLRegressor()
    for target in (1.0, 2.0):  # the first is the origin of targets, from which there is nothing to learn
        mixed.learn_one({"color": "red", "size": 2.0, "n": 3}, target)
    assert set(mixed["FIOLRegressor"].weights) == {"color=red", "size"}


def test_river_model_is_replaced_after_drift():
    """After a drift a detector starts a new model, which is a clone."""
    rng = np.random.default_rng(0)

    def events():
        for t in range(1500):
            x = {f"x{i}": v for i, v in enumerate(rng.standard_normal(5))}
            yield x, bool((x["x0"] + x["x1"] > 0.0) ^ (t >= 700))

    model = drift.DriftRetrainingClassifier(FIOLClassifier(), drift.binary.DDM())
    plain, watched = FIOLClassifier(), metrics.Accuracy()
    right = []
    for x, y in events():
        watched.update(y, model.predict_one(x))
        right.append((plain.predict_one(x) == y, model.predict_one(x) == y))
        plain.learn_one(x, y)
        model.learn_one(x, y)
    alone, retrained = np.mean(right[1000:], axis=0)
    assert retrained > 0.9
    assert retrained > alone
    bagging = ensemble.BaggingClassifier(FIOLClassifier(), n_models=3, seed=1)
    for x, y in events():
        bagging.learn_one(x, y)
    assert len({str(each.weights) for each in bagging}) == 3


@pytest.mark.usefixtures("interpreted")
def test_river_streams_of_arrays_have_integer_names():
    X, codes = stream_of()
    model = FIOLRegressor()
    for x, y in stream.iter_array(X.to_numpy(), codes):
        model.learn_one(x, y)
    alone = fiol.Learner(model._update, compiled=False)
    alone.learn(X.to_numpy(), codes)
    assert np.array_equal(model.learner.weights, alone.weights)
    assert set(model.weights) == set(range(5))


@pytest.mark.parametrize("bits", [None, 4])
def test_river_equal_keys_of_other_types_are_different_names(bits):
    """1, True and 1.0 are one key of a dict; the fast path for equal rows must not mix them up."""
    learner = fiol.Learner(loss=fiol.Squared(), bits=bits, compiled=False)
    model = FIOLRegressor(bits=bits)
    model._learner = fiol.Learner(model._update, n_features=None if bits is None else 2**bits, compiled=False)
    for target in (1.0, 2.0, 1.0, 2.0):
        learner.learn_named({1: 2.0, "a": 1.0, 0: 0.5}, target)
        model.learn_one({1: 2.0, "a": 1.0, 0: 0.5}, target)
    twin = fiol.Learner(loss=fiol.Squared(), bits=bits, compiled=False)
    twin.learn(4 * [{1: 2.0, "a": 1.0, 0: 0.5}], [1.0, 2.0, 1.0, 2.0])
    assert np.array_equal(twin.weights, learner.weights)
    assert np.array_equal(twin.weights, model.learner.weights)
    for key in (True, 1.0):
        with pytest.raises(TypeError, match="keys must be str or int"):
            learner.learn_named({key: 2.0, "a": 1.0, 0: 0.5}, 1.0)
    if bits is None:
        model.learn_one({True: 2.0, "a": 1.0, 0: 0.5}, 1.0)
        assert set(model.weights) == {1, "a", 0, "True"}
    else:
        for _ in range(3):
            with pytest.raises(ValueError, match="an index is at least 0"):
                learner.learn_named({-1: 2.0}, 1.0)


@pytest.mark.usefixtures("interpreted")
def test_river_errors_name_the_given_arguments():
    """Of w, not of the sample weights inside, and of a single y."""
    X, y = pd.DataFrame({"a": [1.0, 2.0]}), pd.Series([1.0, 2.0])
    for w, message in [(-1.0, "^w must be at least 0"), (None, "^w is missing"), (float("nan"), "^w must be finite")]:
        with pytest.raises(ValueError, match=message):
            FIOLRegressor().learn_one({"a": 1.0}, 1.0, w)
    with pytest.raises(TypeError, match=r"^w holds str"):
        FIOLClassifier().learn_one({"a": 1.0}, "yes", "heavy")
    for target, message in [(None, "^y is missing"), (float("nan"), "^y must be finite")]:
        with pytest.raises(ValueError, match=message):
            FIOLRegressor().learn_one({"a": 1.0}, target)
    for w, message in [
        (-1.0, "^w must be at"),
        ([1.0, -1.0], r"^w\[1\] must be at"),
        ([1.0], "^w must have one entry"),
    ]:
        with pytest.raises(ValueError, match=message):
            FIOLRegressor().learn_many(X, y, w)
    with pytest.raises(ValueError, match=r"^y\[0\] must be finite"):  # one of many
        FIOLRegressor().learn_many(X, [float("nan"), 1.0])


@pytest.mark.usefixtures("interpreted")
def test_river_rejects_rows_without_columns():
    message = "X must be a pandas or polars frame or an Arrow table, got ndarray"
    X, y = np.ones((2, 3)), pd.Series([False, True])
    one_class = FIOLClassifier()
    one_class.learn_one({"a": 1.0}, True)
    for model in (FIOLClassifier(), one_class, FIOLRegressor()):
        with pytest.raises(TypeError, match=message):
            model.learn_many(X, y)
        with pytest.raises(TypeError, match=message):
            model.predict_many(X)
    for model in (FIOLClassifier(), one_class):
        with pytest.raises(TypeError, match=message):
            model.predict_proba_many(X)


@pytest.mark.parametrize("loss", ["log_loss", "softmax"])
def test_no_class_is_predicted_before_any_label(loss):
    model, X = FIOLClassifier(loss), pd.DataFrame({"a": [1.0, 2.0]}, index=["x", "y"])
    assert model.predict_one({"a": 1.0}) is None
    assert model.predict_proba_one({"a": 1.0}) == naive_bayes.GaussianNB().predict_proba_one({"a": 1.0}) == {}
    assert model.predict_many(X).tolist() == [None, None]
    p = model.predict_proba_many(X)
    assert (p.shape, p.index.tolist()) == ((2, 0), ["x", "y"])
    assert model.predict_proba_many(pl.DataFrame({"a": [1.0]})).shape[1] == 0


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("loss", ["log_loss", "softmax"])
@pytest.mark.parametrize("label", [False, True])
@pytest.mark.parametrize("many", [False, True])
def test_no_class_is_predicted_that_has_not_been_seen(loss, label, many):
    X, model = pd.DataFrame({"a": [1.0, -1.0, 0.0]}), FIOLClassifier(loss, fit_intercept=False)
    if many:
        model.learn_many(X[:1], pd.Series([label]))
    else:
        model.learn_one({"a": 1.0}, label)
    for one in (model, pickle.loads(pickle.dumps(model)), model.clone(include_attributes=True)):
        assert [one.predict_one(x) for x in dicts(X)] == one.predict_many(X).tolist() == [label] * 3
        assert set(one.predict_proba_one({"a": 1.0})) == {False, True}  # of which there are two
        one.learn_one({"a": -1.0}, not label)
        assert [one.predict_one(x) for x in dicts(X)[:2]] == one.predict_many(X[:2]).tolist() == [label, not label]


@pytest.mark.usefixtures("interpreted")
def test_labels_that_are_text_are_the_only_classes_of_a_report():
    scores, seen = metrics.MacroF1(), set()
    model = FIOLClassifier("softmax")
    for x, y in datasets.ImageSegments().take(60):
        p = model.predict_proba_one(x)
        assert set(p) == seen
        if p:
            scores.update(y, max(p, key=p.get))
        model.learn_one(x, y)
        seen.add(y)
    assert set(scores.cm.classes) <= seen


def test_an_active_learner_asks_for_labels_after_the_first():
    sampler, asked = active.EntropySampler(FIOLClassifier(), seed=1), 0
    for k, (x, y) in enumerate(datasets.Phishing().take(200)):
        _, ask = sampler.predict_one(x)
        if ask or k == 0:  # River's samplers ask for no label of a model without classes
            asked += 1
            sampler.learn_one(x, y)
    assert 20 < asked < 200


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("loss", ["log_loss", "softmax"])
def test_river_bool_labels_followed_by_other_labels(loss):
    """Two classes learned by one learner become three, event by event or in frames, and nothing is forgotten."""
    X, codes = stream_of(rows=60)
    labels = [bool(code) for code in codes[:30]] + [["x", True, 2, False][k % 4] for k in range(30)]
    one, many, pair = FIOLClassifier(loss), FIOLClassifier(loss), FIOLClassifier(loss)
    many.learn_many(X, labels)
    for k, (x, label) in enumerate(zip(X.to_dict("records"), labels, strict=True)):
        if k == 30:
            before = [one.predict_one(row) for row in X.to_dict("records")]
            with pytest.raises(ValueError, match="must be finite"):
                one.learn_one({**x, "x0": np.nan}, "x")
            assert one.classes == [False, True]
        one.learn_one(x, label)
        if k < 30:
            pair.learn_one(x, label)
    assert one.classes == many.classes == [False, True, "x", 2]
    assert one.weights == many.weights
    assert one.intercept == many.intercept
    assert {one.predict_one(row) for row in X.to_dict("records")} > {False, True}
    opened = pair.model.opened()
    rows = fiol.to_chunk(X.to_numpy())
    assert [opened.classes[k] for k in opened.score_chunk(rows).argmax(axis=1)] == before
    assert np.array_equal(opened.score_chunk(rows), pair.model.score_chunk(rows))
    for container in (pl.from_pandas, pa.Table.from_pandas):  # one type a column
        frame = container(X)
        assert list(map(str, many.predict_many(X))) == as_list(many.predict_many(frame))


def test_river_numeric_labels_keep_their_type():
    model = FIOLClassifier()
    for label in (0, 1):
        model.learn_one({"a": 1.0}, label)
    twin = model.model
    model.learn_one({"a": 1.0}, 2)
    assert model.model is twin


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("geometry", ["entropy", "signed_entropy"])
def test_reopened_classes_in_entropic_geometries_stay_finite(geometry):
    model = fiol.OneVsRest(fiol.FIOL(fiol.Hinge(), geometry=GEOMETRIES[geometry]), classes=[False, True])
    model.learn([[1.0], [2.0]], [True, False])
    more = model.opened()
    more.learn([[1.0]], ["x"])
    assert np.isfinite(more.weights).all()


def test_river_returns_arrow_without_polars():
    code = """
import sys
sys.modules["polars"] = None  # not installed
import pyarrow as pa
from fiol.river import FIOLClassifier, FIOLRegressor
X, y = pa.table({"a": [1.0, -1.0], "b": [2.0, 0.5]}), pa.chunked_array([[True, False]])
for model, targets in ((FIOLClassifier(), y), (FIOLRegressor(), pa.chunked_array([[1.0, 2.0]]))):
    assert type(model.predict_many(X)) is pa.ChunkedArray
    model.learn_many(X, targets)
    assert type(model.predict_many(X)) is pa.ChunkedArray
    if targets is y:
        assert type(model.predict_proba_many(X)) is pa.Table
"""
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "NUMBA_DISABLE_JIT": "1"})


def test_river_l1_ratio_is_optional():
    for penalty in (None, "l1", "l2"):
        assert FIOLClassifier(penalty=penalty, l1_ratio=None)._update == FIOLClassifier(penalty=penalty)._update
    with pytest.raises(ValueError, match="l1_ratio must be set when penalty is 'elasticnet'"):
        FIOLClassifier(penalty="elasticnet", l1_ratio=None)


# --- all classes at once ----------------------------------------------------------------------


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("loss", ["softmax", "crammer_singer"])
def test_river_joint_classifier_matches_learner(loss):
    """The learner of the same rows, event by event or in frames; classes appear late."""
    frame, y = stream_of()
    X, names = frame.to_numpy(), list(frame)
    one, many = FIOLClassifier(loss), FIOLClassifier(loss)
    twin = fiol.Learner(fiol.FIOL({"softmax": fiol.Softmax(), "crammer_singer": fiol.CrammerSinger()}[loss]))
    twin.learn(X, y)
    for x, label in zip(X.tolist(), y, strict=True):
        one.learn_one(dict(zip(names, x, strict=True)), label)
    for start in range(0, len(y), 7):
        many.learn_many(pd.DataFrame(X[start : start + 7], columns=names), pd.Series(list(y[start : start + 7])))
    for model in (one, many, pickle.loads(pickle.dumps(one))):
        assert model.classes == twin.classes
        assert np.array_equal(model.model.weights, twin.weights)
        assert model.intercept == dict(zip(twin.classes, twin.intercept.tolist(), strict=True))
        assert model.weights[twin.classes[0]] == dict(zip(names, twin.weights[0].tolist(), strict=True))
        assert model.learners == {}
        x = dict(zip(names, X[3].tolist(), strict=True))
        assert model.predict_one(x) == twin.classes[twin.scores(X[3:4]).argmax()]
        if loss == "softmax":
            assert list(model.predict_proba_one(x).values()) == twin.predict(X[3:4])[0].tolist()
        else:
            with pytest.raises(NotImplementedError, match="CrammerSinger has no probabilities"):
                model.predict_proba_one(x)
    before = one.model.weights
    one.mutate({"step_size": 0.25})
    assert np.array_equal(one.model.weights, before)
    with pytest.raises(ValueError, match="loss must go on to learn all classes at once"):
        one.mutate({"loss": "log_loss"})
    assert one.loss == loss


@pytest.mark.parametrize("label", [[1], {}])
def test_labels_that_cannot_be_labels_are_refused_after_bools_as_before(label):
    for model in (FIOLClassifier(), learned_one(FIOLClassifier())):
        rounds = model.rounds
        with pytest.raises(TypeError, match=r"^y must be a label: str, int or bool, got "):
            model.learn_one({"a": 1.0}, label)
        assert model.rounds == rounds


def learned_one(model):
    """Return a model after one event with a bool."""
    model.learn_one({"a": 1.0}, True)
    return model
