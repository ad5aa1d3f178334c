"""Names of losses, penalties and algorithms in every interface."""

import pytest
from tests.interpreted import interpret

import fiol
from fiol import names
from fiol.river import FIOLClassifier as RiverClassifier
from fiol.river import FIOLRegressor as RiverRegressor


@pytest.mark.parametrize(
    ("given", "loss"),
    [
        ("logistic", fiol.Logistic()),
        ("log", fiol.Logistic()),
        ("log_loss", fiol.Logistic()),
        ("quantile:0.9", fiol.Quantile(0.9)),
        ("pinball:0.1", fiol.Quantile(0.1)),
        ("MSE", fiol.Squared()),
        ("huber:2", fiol.Huber(2.0)),
        ("multinomial", fiol.Softmax()),
    ],
)
def test_loss_aliases_name_the_same_loss(given, loss):
    assert names.loss_named(given) == loss
    assert fiol.Learner(given, compiled=False).update.loss == loss
    assert fiol.Learner(loss=given, compiled=False).update.loss == loss


def test_every_alias_resolves():
    for name, aliases in names.ALIASES.items():
        for alias in aliases:
            known = next(known for known in (names.LOSSES, names.ALGORITHMS, names.PENALTIES) if name in known)
            assert names.canonical_name(alias, known) == name


def test_estimators_and_river_take_aliases(monkeypatch):
    interpret(monkeypatch)
    rows, y = [[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0]
    model = fiol.FIOLRegressor("quantile:0.9", penalty="ridge", algorithm="fiol", step_size="single", max_iter=1)
    assert model.fit(rows, y).learners_[0].update.loss == fiol.Quantile(0.9)
    model = fiol.FIOLClassifier("logistic", algorithm="sgd", max_iter=1).fit(rows, [0, 1, 1])
    assert model.learners_[0].update.loss == fiol.Logistic()
    assert RiverClassifier("logistic", algorithm="ftrl")._update.loss == fiol.Logistic()
    assert RiverRegressor("quantile:0.9", penalty="lasso", step_size="single")._update.regularizer == fiol.L1(1e-4)


@pytest.mark.parametrize(
    ("given", "penalty"),
    [
        ("none", fiol.Unregularized()),
        ("l1:0.5", fiol.L1(0.5)),
        ("ridge:0.25", fiol.Ridge(0.25)),
        (None, fiol.Unregularized()),
    ],
)
def test_penalties_of_estimators_and_river_are_those_of_the_command(monkeypatch, given, penalty):
    interpret(monkeypatch)
    options = {"penalty": given, "step_size": "single"}
    assert names.penalty_named(given) == penalty
    model = fiol.FIOLClassifier(**options, max_iter=1).fit([[0.0], [1.0]], [0, 1])
    assert model.learners_[0].update.regularizer == penalty
    assert RiverClassifier(**options)._update.regularizer == penalty


@pytest.mark.parametrize("given", ["l3", "l1:x", "l1:-1", 0.5])
def test_unknown_penalties_of_estimators_and_river_are_refused(given):
    with pytest.raises(ValueError, match="penalty"):
        fiol.FIOLClassifier(penalty=given).fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(ValueError, match="penalty"):
        RiverClassifier(penalty=given).learn_one({"a": 1.0}, True)


def test_unknown_names_are_refused_with_the_names_there_are():
    for make in (fiol.Learner, names.loss_named):
        with pytest.raises(ValueError, match="there is no loss 'logarithmic': choose from log_loss, "):
            make("logarithmic")
    with pytest.raises(ValueError, match="quantile:2"):
        names.loss_named("quantile:2")
    with pytest.raises(ValueError, match="choose from none, l1, l2, elasticnet"):
        fiol.Learner(regularizer="l3")
    with pytest.raises(ValueError, match="'loss' parameter of FIOLRegressor"):
        fiol.FIOLRegressor("hinge").fit([[1.0]], [1.0])


def test_alpha_beside_a_penalty_with_a_strength_is_refused():
    with pytest.raises(ValueError, match=r"alpha=0\.1 has no effect: penalty 'l1:0\.5' has a strength"):
        fiol.FIOLClassifier(penalty="l1:0.5", alpha=0.1).fit([[0.0], [1.0]], [0, 1])
    assert names.penalty_named("NONE") == fiol.Unregularized()
    with pytest.raises(ValueError, match="none has no strength"):
        names.penalty_named("none:0.5")
