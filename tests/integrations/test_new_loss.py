"""A new loss needs one file: integrations, checks and comparators use the properties of the loss."""

from __future__ import annotations

import ast
import itertools
from math import inf
from pathlib import Path
from types import ModuleType

import numpy as np
import onnxruntime
import pytest
from sklearn.linear_model import LogisticRegression, SGDClassifier
from tests.interpreted import interpret

import fiol
import fiol.public
from fiol import FIOLClassifier, FIOLRegressor, names
from fiol.checks import check_geometry, check_loss
from fiol.components import geometries, losses
from fiol.components.scalars import sigmoid, softplus
from fiol.integrations import parameters
from fiol.onnx import to_onnx
from fiol.regret.comparator import best_in_hindsight


class Lopsided(fiol.Loss):
    """Straight lines around a tube: 2 below the target, 1 above it."""

    alias = "lopsided"
    room: float = 0.25

    def value(self, z, y):
        return max(0.0, 2.0 * (y - self.room - z), z - y - 3.0 * self.room)

    def grad(self, z, y):
        return 1.0 * (z > y + 3.0 * self.room) - 2.0 * (z < y - self.room)

    def flat_interval(self, y):
        return y - self.room, y + 3.0 * self.room

    def conjugate_grad(self, beta, y):
        if beta < -1.0 or beta > 2.0:
            return inf if beta > 0.0 else -inf
        return (self.room if beta > 0.0 else -3.0 * self.room if beta < 0.0 else 0.0) - y


class Sharp(fiol.Binary):
    """Logistic loss of thrice the score."""

    alias = "sharp"
    link = "logit"
    link_factor = 3.0

    def value(self, z, y):
        return softplus(-3.0 * y * z) / 3.0

    def grad(self, z, y):
        return -y * sigmoid(-3.0 * y * z)

    def hess(self, z, y):
        return 3.0 * sigmoid(3.0 * z) * sigmoid(-3.0 * z)

    def predict(self, z):
        return sigmoid(3.0 * z)


class Plain(fiol.Binary):
    """Logistic loss, once more."""

    link = "logit"

    def value(self, z, y):
        return softplus(-y * z)

    def grad(self, z, y):
        return -y * sigmoid(-y * z)

    def predict(self, z):
        return sigmoid(z)


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    """Nothing is compiled."""
    interpret(monkeypatch)


def rows(n=40, d=4):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n, d))
    return X, X @ rng.standard_normal(d) + rng.standard_normal(n)


def run(model, X):
    session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString())
    return dict(zip([out.name for out in session.get_outputs()], session.run(None, {"X": X}), strict=True))


@pytest.mark.parametrize("loss", [Lopsided(), Sharp(), Plain()])
def test_new_loss_passes_public_checks(loss, monkeypatch):
    if not isinstance(loss, Lopsided):  # one shows that they compile
        monkeypatch.setattr("fiol.checks.check_compiled", lambda *_: None)
    check_loss(loss)


def test_new_loss_has_a_name_in_estimators():
    module = ModuleType("with_two_more")
    module.__dict__.update(vars(losses), Lopsided=Lopsided, Sharp=Sharp)
    found = names.by_name(module)
    assert found["lopsided"] == Lopsided()
    assert found.keys() - {"lopsided", "sharp"} == names.REGRESSION.keys() | names.CLASSIFICATION.keys()


def test_loss_names_match_other_libraries():
    for_numbers = {
        "squared_error": fiol.Squared(),
        "absolute_error": fiol.Absolute(),
        "huber": fiol.Huber(),
        "quantile": fiol.Quantile(),
        "epsilon_insensitive": fiol.EpsilonInsensitive(),
        "squared_epsilon_insensitive": fiol.SquaredEpsilonInsensitive(),
        "poisson": fiol.Poisson(),
    }
    assert for_numbers == names.REGRESSION
    for_classes = {
        "log_loss": fiol.Logistic(),
        "hinge": fiol.Hinge(),
        "squared_hinge": fiol.SquaredHinge(),
        "exponential": fiol.Exponential(),
    }
    del for_numbers["poisson"]
    assert for_classes | for_numbers == names.CLASSIFICATION
    assert names.JOINT == {"softmax": fiol.Softmax(), "crammer_singer": fiol.CrammerSinger()}
    assert parameters.GEOMETRIES == {
        "euclidean": fiol.Euclidean(),
        "entropy": fiol.Entropy(),
        "signed_entropy": fiol.SignedEntropy(),
        "simplex": fiol.Simplex(),
    }
    assert all(name not in names.by_name(geometries) for name in ("", "mahalanobis"))


def test_new_loss_exports_to_onnx():
    X, y = rows()
    model = FIOLRegressor(Lopsided(), max_iter=2, tol=None, random_state=0).fit(X, y)
    assert np.allclose(run(model, X)["prediction"][:, 0], model.predict(X), rtol=1e-12, atol=1e-14)
    for loss, classes in itertools.product((Sharp(), Plain()), (2, 3)):
        model = FIOLClassifier(loss, max_iter=2, tol=None, random_state=0)
        model.fit(X, np.digitize(y, [-0.5, 0.5][: classes - 1]))
        found = run(model, X)
        assert found["label"].tolist() == model.predict(X).tolist()
        assert np.allclose(found["probability"], model.predict_proba(X), rtol=1e-12, atol=1e-15)


def test_new_loss_converts_to_scikit_learn():
    """A factor inside the link multiplies the weights, so that scikit-learn's probabilities are the loss's own."""
    X, y = rows()
    expected = {(loss, n): kind for loss in (Plain, Sharp) for n, kind in ((2, LogisticRegression), (3, SGDClassifier))}
    for (loss, classes), kind in expected.items():
        labels = np.digitize(y, [-0.5, 0.5][: classes - 1])
        model = FIOLClassifier(loss(), max_iter=1, tol=None, random_state=0).fit(X, labels)
        other = model.to_sklearn()
        assert type(other) is kind
        assert other.predict(X).tolist() == model.predict(X).tolist()
        assert np.allclose(other.predict_proba(X), model.predict_proba(X))


def test_new_loss_comparator_is_a_linear_program():
    """With one weight the objective is a chain of straight pieces, so its least value is at one of its kinks."""
    X, y = rows(d=1)
    best = best_in_hindsight(Lopsided(), fiol.L1(0.05), X, y)
    assert best.solver == "scipy HiGHS"
    assert best.certificate == "duality gap"
    assert best.error < 1e-10
    x, loss = X[:, 0], Lopsided()
    kinks = [0.0, *(edge / v for v, target in zip(x, y, strict=True) for edge in loss.flat_interval(target))]

    def value(w):
        return sum(map(loss.value, x * w, y)) + len(y) * 0.05 * abs(w)

    assert best.value == pytest.approx(min(map(value, kinks)), rel=1e-12)
    smooth = best_in_hindsight(Sharp(), fiol.Ridge(0.1), X, np.sign(y))
    assert smooth.error < 1e-8


class Elsewhere(fiol.Euclidean):
    """A geometry with no name of its own."""


def test_geometry_subclass_keeps_its_properties():
    assert Elsewhere().unit_metric
    check_geometry(Elsewhere())


def concrete_components():
    """Return all exported components that are not base classes."""
    exported = {kind for kind in vars(fiol.public).values() if isinstance(kind, type)}
    return {kind.__name__ for kind in exported if issubclass(kind, fiol.components.component.Component)} - {
        *("Loss", "Binary", "JointLoss", "Regularizer", "Geometry", "Separable", "Solver", "StepSize", "Schedule"),
        *("Adaptive", "Update", "Ensemble"),
    }


#: Where a class is meant and no answer would do: which theorems hold for it, which step size is another one in units,
#: whose rounds a loop makes for several members at once.
MEANT = {
    ("scale_free.py", "ScaleFree"),
    ("sums.py", "Curvature"),
    ("checks.py", "ScaleFree"),
    ("bounds.py", "ImplicitLoss"),
    ("bounds.py", "LinearizedLoss"),
    ("bounds.py", "ImplicitRegularizer"),
    ("bounds.py", "Inverse"),
    ("ensemble_bounds.py", "Squared"),
    ("ensemble_bounds.py", "NewtonStack"),
    ("ensemble_bounds.py", "Bayes"),
    ("ensemble_ledger.py", "NewtonStack"),
    ("stacking.py", "NewtonStack"),
}


def test_generic_code_has_no_class_checks_of_components():
    root, known, found = Path(fiol.__file__).parent, concrete_components(), set()
    assert {"SignedEntropy", "Box", "LastIterate", "Logistic"} <= known
    for path in root.rglob("*.py"):
        if "experiments" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            asked = None
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass"):
                asked = node.args[1]
            elif isinstance(node, ast.Compare) and "type(" in ast.unparse(node.left):
                asked = node
            names = {leaf.id for leaf in ast.walk(asked) if isinstance(leaf, ast.Name)} if asked else set()
            found |= {(path.name, name) for name in names & known}
    assert found == MEANT
