"""Warmup compiles the kernels that models and estimators need later."""

import itertools

import numpy as np
import pytest
from interpreted import interpret
from scipy import sparse
from tests.commands import CliRunner

import fiol
from fiol import cli, warmup
from fiol.engine.engine import Engine
from fiol.features import canonicalize

X = np.random.default_rng(0).standard_normal((12, 3))
SIGNS, THREE = np.where(X[:, 0] > 0.0, 1, -1), np.arange(12) % 3


def learned(update, y=SIGNS, rows=X, kind=fiol.Learner, **options):
    model = kind(update, **options)
    model.learn(rows, y)
    return model


MODELS = {
    "learner": lambda: learned(fiol.FIOL(fiol.Poisson()), THREE),
    "float32, averaged, no intercept": lambda: learned(
        fiol.RDA(fiol.Hinge(), fiol.L1(0.1)), average=True, intercept=False, dtype="float32"
    ),
    "joint": lambda: learned(fiol.FIOL(fiol.Softmax()), THREE),
    "hashed": lambda: learned(fiol.FIOL(fiol.Squared()), rows=[{"a": v} for v in X[:, 0]], bits=5),
    "bounded": lambda: learned(fiol.FIOL(fiol.Squared()), rows=[{"a": v} for v in X[:, 0]], max_features=2),
    "a number per feature": lambda: learned(fiol.FIOL(fiol.Logistic(), fiol.L1([0.1, 0.2, 0.3]))),
    "one feature": lambda: learned(fiol.FIOL(fiol.Logistic(), fiol.L1([0.1])), rows=X[:, :1]),
    "positive weights": lambda: learned(fiol.FIOL(fiol.Squared(), geometry=fiol.Entropy())),
    "one against the rest": lambda: learned(fiol.FIOL(fiol.Hinge()), THREE, kind=fiol.OneVsRest),
    "classifier": lambda: fiol.FIOLClassifier(max_iter=2, tol=None).fit(X, SIGNS),
    "classifier of three": lambda: fiol.FIOLClassifier("hinge", max_iter=2, tol=None, average=True).fit(X, THREE),
    "joint classifier": lambda: fiol.FIOLClassifier(max_iter=2, tol=None).fit(X, THREE),
    "regressor": lambda: fiol.FIOLRegressor(penalty="l1", max_iter=2, tol=None).fit(X, X[:, 0]),
    "passive-aggressive": lambda: fiol.PassiveAggressiveClassifier(max_iter=2, tol=None).fit(X, THREE),
}


@pytest.fixture
def called(monkeypatch):
    """The kernels that are called, each with the types of what it is called with."""
    interpret(monkeypatch)
    found = set()

    def note(name, arguments):
        found.add((name, *(repr(getattr(value, "dtype", type(value).__name__)) for value in arguments)))

    def noted(call):
        def method(self, kernel, *arguments):
            note(kernel.__name__, arguments)
            return call(self, kernel, *arguments)

        return method

    def noting(kernel):
        def loop(*arguments):
            note(kernel.__name__, arguments)
            return kernel(*arguments)

        return loop

    for method in ("call", "call_for_intercept"):
        monkeypatch.setattr(Engine, method, noted(getattr(Engine, method)))
    for name in ("flaws", "count", "fill", "shuffle"):
        monkeypatch.setattr(canonicalize, name, noting(getattr(canonicalize, name)))
    return found


def use(model):
    """Use a model as a server or a notebook does."""
    if hasattr(model, "fit"):
        y = THREE if hasattr(model, "classes_") and len(model.classes_) == 3 else SIGNS
        model.set_params(max_iter=2).fit(X, y)
        model.predict(sparse.csr_matrix(X))
        model.partial_fit(X, y)
        return
    rows = X[:, : model.n_features] if model.names is None else [{"a": 1.0}]
    y = [model.classes[0]] * len(rows) if model.classes is not None else np.ones(len(rows))
    model.learn(rows, y)
    model.learn(sparse.csr_matrix(rows) if model.names is None else rows, y)
    model.predict(rows)
    _ = model.weights, model.intercept


@pytest.mark.parametrize("name", MODELS)
def test_warmed_up_saved_model_compiles_nothing(name, called, tmp_path):
    model, path = MODELS[name](), tmp_path / "model.fiol"
    model.save(path)
    called.clear()
    seconds, folder = warmup.warm_up(lambda: fiol.load(path, compiled=False))
    assert seconds >= 0.0
    assert folder
    warm = set(called)
    called.clear()
    use(fiol.load(path, compiled=False))
    assert called - warm == set()


@pytest.mark.parametrize("loss", ["log_loss", "squared_error", "softmax", "poisson"])
def test_warmed_up_estimator_compiles_nothing(loss, called):
    for _, make in warmup.combinations([loss], ["none", "l2"]):
        warmup.warm_up(make)
    warm = set(called)
    called.clear()
    kind, y = (fiol.FIOLClassifier, THREE) if loss in ("log_loss", "softmax") else (fiol.FIOLRegressor, np.abs(X[:, 0]))
    for penalty, far in itertools.product((None, "l2"), (0.0, 9.0)):  # columns far from 0 are centered
        kind(loss, penalty=penalty, max_iter=2, tol=None).fit(X + far, y).predict(X + far)
    assert "shuffle" in {kernel[0] for kernel in called}
    assert called - warm == set()


def test_warmup_names_a_file_that_is_no_model(tmp_path):
    path = tmp_path / "model.fiol"
    path.write_text("nothing")
    done = CliRunner().invoke(cli.main, ["warmup", "--model", str(path)])
    assert done.exit_code == 2
    assert "model.fiol" in done.output
    assert "Traceback" not in done.output
