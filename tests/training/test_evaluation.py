"""Evaluation metrics match scikit-learn's."""

import numpy as np
import pytest
from sklearn import metrics
from sklearn.calibration import calibration_curve

import fiol
from fiol.training.evaluation import Evaluation, ScoreTable
from fiol.training.metrics import PassMetrics
from fiol.training.task_inference import Task


def evaluated(learner, task, scores, y, weights, cuts):
    evaluation = Evaluation(learner, task)
    for some in np.split(np.arange(len(y)), cuts):
        evaluation.add(scores[some], y[some], weights[some])
    return evaluation.results()


@pytest.mark.parametrize("cuts", [[], [1, 700, 700]])
def test_metrics_of_two_classes_match_scikit_learn(cuts):
    draw = np.random.default_rng(3)
    y = np.where(draw.random(2000) < 0.3, 1.0, -1.0)
    scores, weights = np.round(y + draw.normal(size=2000), 1), draw.random(2000)
    learner = fiol.Learner(fiol.FIOL(fiol.Logistic()), compiled=False)
    found = evaluated(learner, Task(fiol.Logistic(), ["no", "yes"], ""), scores, y, weights, cuts)
    p, guess, w = 1.0 / (1.0 + np.exp(-scores)), np.where(scores > 0.0, 1.0, -1.0), {"sample_weight": weights}
    assert found["rows"] == 2000
    assert found["log_loss"] == pytest.approx(metrics.log_loss(y, p, **w))
    assert found["loss"] == pytest.approx(found["log_loss"])
    assert found["auc"] == pytest.approx(metrics.roc_auc_score(y, scores, **w))
    assert found["accuracy"] == pytest.approx(metrics.accuracy_score(y, guess, **w))
    assert found["f1"] == pytest.approx(metrics.f1_score(y, guess, **w))
    assert found["precision"] == pytest.approx(metrics.precision_score(y, guess, **w))
    assert found["recall"] == pytest.approx(metrics.recall_score(y, guess, **w))
    assert found["brier"] == pytest.approx(metrics.brier_score_loss(y, p, pos_label=1.0, **w))
    assert np.allclose(found["confusion"]["counts"], metrics.confusion_matrix(y, guess, **w))
    assert found["confusion"]["labels"] == ["no", "yes"]
    share = np.average(y > 0.0, weights=weights)
    assert found["constant_loss"] == pytest.approx(-share * np.log(share) - (1 - share) * np.log(1 - share))


def test_calibration_table():
    draw = np.random.default_rng(4)
    p = draw.random(5000) ** 2
    y = np.where(draw.random(5000) < p, 1.0, -1.0)
    learner = fiol.Learner(fiol.FIOL(fiol.Logistic()), compiled=False)
    found = evaluated(learner, Task(fiol.Logistic(), [0, 1], ""), np.log(p / (1 - p)), y, np.ones(5000), [20])
    happened, predicted = calibration_curve(y > 0.0, p, n_bins=10)
    assert [r["happened"] for r in found["calibration"]] == pytest.approx(happened.tolist())
    assert [r["predicted"] for r in found["calibration"]] == pytest.approx(predicted.tolist())
    assert sum(r["weight"] for r in found["calibration"]) == 5000.0


def test_hinge_losses_have_no_probability_metrics():
    learner = fiol.Learner(fiol.FIOL(fiol.Hinge()), compiled=False)
    y = np.array([1.0, -1.0])
    found = evaluated(learner, Task(fiol.Hinge(), [0, 1], ""), np.array([2.0, 0.5]), y, np.ones(2), [])
    assert found["loss"] == 0.75
    assert found["auc"] == 1.0
    assert not {"log_loss", "brier", "calibration"} & found.keys()


def test_metrics_of_numbers_and_counts_match_scikit_learn():
    draw = np.random.default_rng(5)
    for loss, inverse in ((fiol.Squared(), np.asarray), (fiol.Poisson(), np.exp)):
        y, weights = draw.poisson(3.0, 500).astype(float) + 100.0 * (loss == fiol.Squared()), draw.random(500)
        scores = np.log(3.0) + draw.normal(size=500)
        learner = fiol.Learner(fiol.FIOL(loss), compiled=False)
        found = evaluated(learner, Task(loss, None, ""), scores, y, weights, [7, 300])
        said, w = inverse(scores), {"sample_weight": weights}
        assert found["rmse"] == pytest.approx(np.sqrt(metrics.mean_squared_error(y, said, **w)))
        assert found["mae"] == pytest.approx(metrics.mean_absolute_error(y, said, **w))
        assert found["r2"] == pytest.approx(metrics.r2_score(y, said, **w))
        mean = np.average(y, weights=weights)
        constant = {fiol.Squared(): mean, fiol.Poisson(): np.log(mean)}[loss]
        least = np.average([loss.value(constant, t) for t in y], weights=weights)
        assert found["constant_loss"] == pytest.approx(least)


def test_metrics_of_classes_match_scikit_learn():
    draw = np.random.default_rng(6)
    classes = ["fig", "kiwi", "pear", "plum"]
    learner = fiol.Learner(fiol.FIOL(fiol.Softmax()), classes=classes, compiled=False)
    codes = draw.integers(0, 3, 400)  # no row is a plum
    scores, weights = draw.normal(size=(400, 4)) + 2.0 * np.eye(4)[codes], draw.random(400)
    y, task = np.array(classes, object)[codes], Task(fiol.Softmax(), None, "")
    found = evaluated(learner, task, scores, y, weights, [9])
    said, w = np.array(classes)[scores.argmax(axis=1)], {"sample_weight": weights}
    p = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    assert found["log_loss"] == pytest.approx(metrics.log_loss(y.astype(str), p, labels=classes, **w))
    assert found["accuracy"] == pytest.approx(metrics.accuracy_score(y.astype(str), said, **w))
    assert found["f1"] == pytest.approx(metrics.f1_score(y.astype(str), said, average="macro", **w))
    cells = metrics.confusion_matrix(y.astype(str), said, labels=classes, **w)
    assert np.allclose(found["confusion"]["counts"], cells)
    mixed = evaluated(learner, task, scores[:2], np.array(["fig", "melon"], object), np.ones(2), [])
    assert mixed["log_loss"] == np.inf  # melons were never seen
    assert sum(mixed["confusion"]["unknown"]) == 1.0


def test_binned_auc_reports_its_error_bound():
    draw = np.random.default_rng(7)
    y = draw.random(4000) < 0.4
    scores, weights = y + 3.0 * draw.normal(size=4000), draw.random(4000)
    order = np.argsort(scores)  # later scores are larger than all before
    scores, y, weights = scores[order], y[order], weights[order]
    exact = metrics.roc_auc_score(y, scores, sample_weight=weights)
    for most in (4000, 3999, 500, 16):
        table = ScoreTable(most)
        for some in np.split(np.arange(4000), [1000, 1001]):
            table.add(scores[some], y[some], weights[some])
            table.area()  # so that the next scores meet those that are sorted in
        assert len(table.keys) <= most
        assert abs(table.area() - exact) <= table.doubt + 1e-12
        assert (table.doubt == 0.0) == (most == 4000)
        assert table.doubt < 4.0 / most


def test_r2_of_equal_targets_is_undefined():
    learner = fiol.Learner(fiol.FIOL(fiol.Squared()), compiled=False)
    y = np.full(4, 2.0)
    found = evaluated(learner, Task(fiol.Squared(), None, ""), np.array([1.0, 2.0, 3.0, 2.0]), y, np.ones(4), [1])
    assert found["r2"] is None
    assert found["rmse"] == pytest.approx(np.sqrt(0.5))


def test_rows_of_a_block_may_have_scores_of_different_classes():
    """A class that appears within a block has the score 0 in the rows before."""
    learner = fiol.Learner(fiol.FIOL(fiol.Softmax()), compiled=False)
    draw = np.random.default_rng(2)
    scores, y = draw.normal(size=(9, 3)), np.array([0, 1, 1, 0, 2, 0, 2, 1, 0])
    scores[:4, 2] = 0.0
    whole, parts = PassMetrics(), PassMetrics()
    whole.add(learner, scores, y, np.ones(9))
    parts.add(learner, scores[:4, :2], y[:4], np.ones(4))
    parts.add(learner, scores[4:], y[4:], np.ones(5))
    for metrics_of_pass in (whole, parts):
        metrics_of_pass.flush(learner)
    expected = metrics.log_loss(y, np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True))
    assert parts.loss.value == whole.loss.value == pytest.approx(expected)


def test_auc_of_one_class_is_undefined():
    learner = fiol.Learner(fiol.FIOL(fiol.Logistic()), compiled=False)
    found = evaluated(learner, Task(fiol.Logistic(), [0, 1], ""), np.ones(3), np.ones(3), np.ones(3), [])
    assert found["auc"] is None
    assert found["accuracy"] == 1.0
