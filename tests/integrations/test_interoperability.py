"""Models elsewhere: as ONNX graphs scored by onnxruntime, and through pickle, joblib and skops."""

import io
import pickle
import subprocess
import sys

import joblib
import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from tests.interpreted import interpret

import fiol
from fiol import FIOLClassifier, FIOLRegressor
from fiol.integrations.passive_aggressive import PassiveAggressiveClassifier, PassiveAggressiveRegressor
from fiol.onnx import to_onnx

FEW = {"max_iter": 2, "tol": None, "random_state": 0}


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    """Nothing is compiled."""
    interpret(monkeypatch)


def rows(n=60, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * 10.0 ** rng.integers(-1, 2, d)
    return X, rng.integers(3, size=n)


def run(model, X, dtype="float64"):
    """Run a model in onnxruntime; return its outputs by name."""
    proto = to_onnx(model, dtype)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [out.name for out in session.get_outputs()]
    return dict(zip(names, session.run(names, {"X": X.astype(dtype)}), strict=True))


LABELS = {
    "texts": ["pear", "apple", "plum"],
    "unicode": ["é", "日本", ""],
    "objects": np.array(["pear", "apple", "plum"], dtype=object),
    "integers": [5, -3, 2**40],
    "small integers": np.array([1, 2, 3], dtype=np.uint8),
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("loss", ["log_loss", "exponential", "hinge", "squared_error", "softmax", "crammer_singer"])
def test_classifiers_in_onnxruntime(labels, classes, loss):
    X, codes = rows()
    model = FIOLClassifier(loss, step_size=0.1, **FEW).fit(X, np.asarray(labels)[np.minimum(codes, classes - 1)])
    found = run(model, X)
    assert found["label"].tolist() == model.predict(X).tolist()
    assert len(set(found["label"].tolist())) > 1
    if loss in ("log_loss", "exponential", "softmax"):
        assert list(found) == ["label", "probability", "score"]
        assert np.allclose(found["probability"], model.predict_proba(X), rtol=1e-12, atol=1e-15)
    else:
        assert list(found) == ["label", "score"]
        assert np.allclose(found["score"].squeeze(), model.decision_function(X), rtol=1e-12, atol=1e-12)


def test_onnx_bool_labels_and_float32():
    X, codes = rows()
    model = FIOLClassifier(penalty="l1", **FEW).fit(X, codes > 0).sparsify()
    found = run(model, X, "float32")
    assert found["label"].dtype == bool
    assert found["probability"].dtype == np.float32
    sure = np.abs(model.decision_function(X)) > 1e-4
    assert np.array_equal(found["label"][sure], model.predict(X)[sure])
    assert np.allclose(found["probability"], model.predict_proba(X), atol=1e-5)


@pytest.mark.parametrize(("classes", "expected"), [(2, [[1.0, 0.0], [0.0, 1.0]]), (3, [[1 / 3] * 3] * 2)])
def test_onnx_probabilities_at_extreme_scores(classes, expected):
    """Scores so low that every class has probability 0 in double precision, or so high that it has 1."""
    X = np.array([[-1e6], [1e6]])
    model = FIOLClassifier("log_loss", **FEW).fit(np.ones((3, 1)), np.arange(3) % classes)
    for k, (label, learner) in enumerate(model._model.learners.items()):
        fresh = fiol.Learner(learner.update, n_features=1, compiled=False)
        fresh.start_from([1.0 + (k == 0)])
        model._model.learners[label] = fresh
    model._coef = None
    found = run(model, X)["probability"]
    assert np.allclose(found, expected, atol=1e-15)
    assert np.allclose(found, model.predict_proba(X), atol=1e-15)


@pytest.mark.parametrize("loss", ["squared_error", "poisson", fiol.Quantile(0.9)])
def test_regressors_in_onnxruntime(loss):
    X, y = rows()
    model = FIOLRegressor(loss, step_size=0.01, **FEW).fit(X, y)
    found = run(model, X)
    assert list(found) == ["prediction", "score"]
    assert found["prediction"].shape == (len(X), 1)
    assert np.allclose(found["prediction"][:, 0], model.predict(X), rtol=1e-12, atol=1e-14)
    if loss == "poisson":  # no infinities
        huge = np.full((1, 5), 1e9) * np.sign(model.coef_)
        assert run(model, huge)["prediction"][0, 0] == pytest.approx(model.predict(huge)[0], rel=1e-12)
        assert np.isfinite(run(model, huge, "float32")["prediction"]).all()


@pytest.mark.parametrize("loss", [fiol.Squared(), fiol.Logistic(), fiol.Hinge(), fiol.Poisson()])
def test_learners_in_onnxruntime(loss):
    X, y = rows()
    learner = fiol.Learner(fiol.FIOL(loss, fiol.L1(0.01), fiol.Constant(0.05)), compiled=False)
    learner.learn(X, np.where(y > 0, 1.0, -1.0) if isinstance(loss, fiol.Binary) else y)
    found = run(learner, X)
    assert np.allclose(found["score"][:, 0], learner.scores(X), rtol=1e-12, atol=1e-14)
    if loss.link == "sign":
        assert found["label"].tolist() == learner.predict(X).tolist()
    elif loss.link == "logit":
        assert np.allclose(found["probability"][:, 1], learner.predict(X), rtol=1e-12, atol=1e-14)
        assert found["label"].tolist() == np.where(learner.predict(X) > 0.5, 1, -1).tolist()
    else:
        assert np.allclose(found["prediction"][:, 0], learner.predict(X), rtol=1e-12, atol=1e-14)


def test_passive_aggressive_models_in_onnxruntime(monkeypatch):
    X, y = rows()
    for target in (y, y > 0):
        model = PassiveAggressiveClassifier(C=0.01, **FEW).fit(X, target)
        assert run(model, X)["label"].tolist() == model.predict(X).tolist()
    model = PassiveAggressiveRegressor(C=0.01, **FEW).fit(X, y)
    assert np.allclose(run(model, X)["prediction"][:, 0], model.predict(X), rtol=1e-12, atol=1e-14)


def test_onnx_graph_uses_standard_operators():
    """Double inputs and outputs, numbered columns, standard ONNX operators only."""
    X, y = rows()
    proto = to_onnx(FIOLClassifier(**FEW).fit(X, y))
    assert [entry.domain for entry in proto.opset_import] == [""]
    (matrix,) = proto.graph.input
    assert matrix.type.tensor_type.elem_type == TensorProto.DOUBLE
    assert [dim.dim_value for dim in matrix.type.tensor_type.shape.dim] == [0, 5]
    assert [out.type.tensor_type.shape.dim[-1].dim_value for out in proto.graph.output] == [0, 3, 3]


class Cubed(fiol.Loss):
    """A loss with a prediction of its own."""

    def value(self, z, y):
        return 0.5 * (z - y) ** 2

    def grad(self, z, y):
        return z - y

    def predict(self, z):
        return z**3


def test_models_without_onnx_graph_raise():
    X, y = rows()
    with pytest.raises(TypeError, match="Cubed has a predict of its own, which has no graph"):
        to_onnx(FIOLRegressor(Cubed(), step_size=0.1, **FEW).fit(X, y))
    with pytest.raises(TypeError, match="must be a fitted estimator or a Learner, got int"):
        to_onnx(3)
    with pytest.raises(TypeError, match="numbered features"):
        to_onnx(fiol.Learner(fiol.FIOL(fiol.Squared()), bits=3))
    with pytest.raises(ValueError, match=r"dtype must be .float64. or .float32., got .float16."):
        to_onnx(FIOLRegressor(**FEW).fit(X, y), "float16")
    single = FIOLClassifier().partial_fit(X, np.zeros(len(X)))
    with pytest.raises(TypeError, match="single class"):
        to_onnx(single)


def test_onnx_is_optional():
    code = "import sys; sys.modules['onnx'] = None; from fiol.exports.onnx_graph import Graph; Graph('float64')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "ImportError: fiol.onnx needs onnx: pip install fiol[onnx]" in done.stderr


# --- persistence --------------------------------------------------------------------------------


def by_joblib(model):
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    return joblib.load(file)


def by_skops(model):
    """Types that are not scikit-learn's have to be trusted by name."""
    from skops import io as skops  # which looks at all of scikit-learn, for seconds

    data = skops.dumps(model)
    unknown = skops.get_untrusted_types(data=data)
    assert all(name.startswith("fiol.") for name in unknown)
    assert not any("kernel" in name or "engine" in name for name in unknown)
    return skops.loads(data, trusted=unknown)


@pytest.mark.parametrize("stored", [lambda m: pickle.loads(pickle.dumps(m)), by_joblib, by_skops])
@pytest.mark.parametrize("average", [False, True])
def test_pickle_joblib_and_skops_round_trips(stored, average):
    """A loaded model predicts and learns with the same bits, new classes included."""
    X, codes = rows()
    y = np.array(["pear", "apple", "plum"])[codes]
    settings = {"penalty": "l1", "alpha": 0.01, "step_size": 0.1, "average": average}
    for model, target in ((FIOLClassifier(**settings), y), (FIOLRegressor(**settings), codes.astype(float))):
        model.partial_fit(X[:20], np.where(target[:20] == "plum", "pear", target[:20]) if target is y else target[:20])
        twin = stored(model)
        assert np.array_equal(twin.predict(X), model.predict(X))
        for each in (model, twin):
            each.partial_fit(X[20:], target[20:])
        assert np.array_equal(twin.coef_, model.coef_)
        assert np.array_equal(twin.intercept_, model.intercept_)
        assert twin.loss_curve_ == model.loss_curve_
        assert twin.get_params() == model.get_params()


@pytest.mark.parametrize("stored", [lambda m: pickle.loads(pickle.dumps(m)), by_joblib, by_skops])
def test_pickle_joblib_and_skops_round_trips_of_joint_classifiers(stored):
    X, codes = rows()
    model = FIOLClassifier("softmax", penalty="l2", alpha=0.01).partial_fit(X[:20], codes[:20])
    twin = stored(model)
    for each in (model, twin):
        each.partial_fit(X[20:], codes[20:])
    assert np.array_equal(twin.coef_, model.coef_)
    assert np.array_equal(twin.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize(
    "model", [FIOLClassifier(), FIOLRegressor(), PassiveAggressiveClassifier(), PassiveAggressiveRegressor()]
)
def test_onnx_of_unfitted_estimator_raises(model):
    with pytest.raises(NotFittedError, match=f"This {type(model).__name__} instance is not fitted yet"):
        to_onnx(model)


def test_unsupported_model_error_names_supported_ones():
    river = pytest.importorskip("fiol.river")
    X, y = rows()
    own = FIOLRegressor(**FEW).fit(X, y)
    message = r"Pipeline is no single model: convert the last step: to_onnx\(pipeline\[-1\]\)"
    with pytest.raises(TypeError, match=message):
        to_onnx(make_pipeline(own))
    assert to_onnx(make_pipeline(own)[-1]) == to_onnx(own)
    with pytest.raises(TypeError, match="LinearRegression is no model of fiol: skl2onnx converts"):
        to_onnx(LinearRegression().fit(X, y))
    with pytest.raises(TypeError, match=r"FIOLRegressor of fiol\.river .*: fit a fiol\.FIOLRegressor, or"):
        to_onnx(river.FIOLRegressor())


@pytest.mark.parametrize(
    "make", [lambda: fiol.Learner(fiol.FIOL(fiol.Softmax())), lambda: fiol.OneVsRest(fiol.FIOL(fiol.Logistic()))]
)
def test_models_of_several_classes_in_onnxruntime(make):
    X, codes = rows()
    model = make()
    model.learn(X, codes)
    found, scores = run(model, X), model.scores(X)
    assert np.allclose(found["score"], scores, rtol=1e-12, atol=1e-12)
    assert found["label"].tolist() == [model.classes[k] for k in scores.argmax(axis=1)]
    expected = model.probabilities(X) if isinstance(model, fiol.OneVsRest) else model.predict(X)
    assert np.allclose(found["probability"], expected, rtol=1e-12, atol=1e-14)


def test_learner_of_a_river_model_in_onnxruntime(monkeypatch):
    """The advice of the error works: columns are features in the order they appeared."""
    river = pytest.importorskip("fiol.river")
    X, y = rows()
    model = river.FIOLRegressor()
    events = [dict(zip("edcba", x, strict=True)) for x in X.tolist()]
    for x, target in zip(events, y.tolist(), strict=True):
        model.learn_one(x, target)
    found = run(model.learner, X)["prediction"][:, 0]
    assert np.allclose(found, [model.predict_one(x) for x in events], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("dtype", ["float32", "f4", np.float32, np.dtype("float32")])
def test_onnx_dtypes_as_in_numpy(dtype):
    X, y = rows()
    model = FIOLRegressor(**FEW).fit(X, y)
    assert to_onnx(model, dtype) == to_onnx(model, "float32") != to_onnx(model)
    for wrong in (None, int, "f2", "no such", 3):
        with pytest.raises(ValueError, match=r"dtype must be .float64. or .float32., got"):
            to_onnx(model, wrong)


@pytest.mark.parametrize(("fitted", "today"), [("log_loss", "hinge"), ("hinge", "log_loss"), ("softmax", "hinge")])
def test_onnx_uses_the_loss_of_the_fit(fitted, today):
    X, y = rows()
    model = FIOLClassifier(fitted, step_size=0.1, **FEW).fit(X, y)
    before = to_onnx(model)
    assert to_onnx(model.set_params(loss=today)) == before


def test_onnx_regression_uses_the_loss_of_the_fit():
    X, y = rows()
    model = FIOLRegressor("poisson", step_size=0.01, **FEW).fit(X, y)
    expected = model.predict(X)
    model.set_params(loss="squared_error")
    assert np.allclose(run(model, X)["prediction"][:, 0], expected, rtol=1e-12, atol=1e-14)
