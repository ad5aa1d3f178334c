"""Metrics of predictions, in one pass and in constant memory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fiol.components.row import Floats
from fiol.learner import Learner
from fiol.learner.core import softmax
from fiol.training.metrics import Mean, TargetTable, Windows, mean_of_windows
from fiol.training.task_inference import Task

#: Different scores that are kept apart for the area under the curve.
MOST_SCORES = 2**22
#: Rows whose scores are collected before they are sorted.
SCORES_AT_ONCE = 2**20
#: Bins of the calibration table.
RANGES = 10


class ScoreTable:
    """Weights of positive and negative rows by score, for the area under the ROC curve.

    The area is exact for up to 4,194,304 different scores. Beyond that the last digits of all scores are dropped until
    half as many are left; `doubt` is then the largest possible error of the area.

    >>> table = ScoreTable()
    >>> table.add(np.array([0.1, 0.4, 0.35, 0.8]), np.array([False, False, True, True]), np.ones(4))
    >>> table.area(), table.doubt
    (0.75, 0.0)
    """

    def __init__(self, most: int = MOST_SCORES) -> None:
        self.most, self.dropped, self.waiting = most, 0, 0
        self.keys, self.masses = np.zeros(0, np.int64), np.zeros((0, 2))
        self.new: list[tuple[Any, Any]] = []

    def add(self, scores: Floats, positive: Any, weights: Floats) -> None:
        """Add scores, whether each row is positive, and weights."""
        bits = np.ascontiguousarray(scores + 0.0).view(np.int64)  # -0.0 + 0.0 is 0.0
        keys = np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)  # ascend with the scores
        self.new.append((keys, np.where(positive[:, None] == [False, True], weights[:, None], 0.0)))
        self.waiting += len(scores)
        if self.waiting >= SCORES_AT_ONCE:
            self._sort_in()

    def _sort_in(self) -> None:
        """Merge new scores into the sorted ones."""
        if self.new:
            keys, masses = (np.concatenate(parts) for parts in zip(*self.new, strict=True))
            self.new, self.waiting = [], 0
            self._merge(np.concatenate([self.keys, keys >> self.dropped]), np.concatenate([self.masses, masses]))
        while len(self.keys) > self.most:
            self.dropped += 1
            self._merge(self.keys >> 1, self.masses)
            while len(self.keys) > self.most // 2 and self.dropped < 60:
                self.dropped += 1
                self._merge(self.keys >> 1, self.masses)

    def _merge(self, keys: Any, masses: Any) -> None:
        self.keys, places = np.unique(keys, return_inverse=True)
        columns = [np.bincount(places, masses[:, k], len(self.keys)) for k in (0, 1)]
        self.masses = np.stack(columns, axis=1)

    def area(self) -> float:
        """Return the probability that a positive row has a higher score than a negative one; ties count half.

        nan if all rows are positive, or all negative.
        """
        self._sort_in()
        negative, positive = self.masses[:, 0], self.masses[:, 1]
        pairs = negative.sum() * positive.sum()
        below = np.cumsum(negative) - 0.5 * negative
        return float((positive * below).sum() / pairs) if pairs > 0.0 else math.nan

    @property
    def doubt(self) -> float:
        """The largest possible error of `area`, usually 0.0."""
        self._sort_in()
        if not self.dropped:
            return 0.0
        negative, positive = self.masses[:, 0], self.masses[:, 1]
        return float(0.5 * (positive * negative).sum() / (negative.sum() * positive.sum()))


class Evaluation:
    """Metrics of a learner's predictions: `add` rows, then `results()`.

    Two classes: log loss, AUC, accuracy, precision, recall, F1, Brier score, calibration table and confusion matrix; a
    row is predicted positive if its score is above 0. Several classes: log loss, accuracy, macro F1, confusion matrix.
    Numbers: RMSE, MAE, R^2. In all cases the learner's own loss and that of the best constant. Probabilities need a
    loss with a logit link.

    >>> from fiol import FIOL, Learner, Logistic
    >>> learner = Learner(FIOL(Logistic()))
    >>> scores = learner.learn([[1.0], [-1.0]] * 20, [1.0, -1.0] * 20)
    >>> evaluation = Evaluation(learner, Task(Logistic(), [0, 1], ""))
    >>> evaluation.add(learner.scores([[2.0], [-2.0]]), np.array([1.0, -1.0]), np.ones(2))
    >>> found = evaluation.results()
    >>> found["auc"], found["accuracy"], found["f1"], found["log_loss"] < 0.2
    (1.0, 1.0, 1.0, True)
    """

    def __init__(self, learner: Learner, task: Task) -> None:
        self.learner, self.task, self.rows = learner, task, 0
        self.loss, self.log_loss, self.brier = Mean(), Mean(), Mean()
        self.absolute, self.squared, self.first = Mean(), Mean(), Mean()
        self.spread = 0.0  #: the sum of squared distances of targets from their mean
        self.targets, self.curve, self.windows = TargetTable(), ScoreTable(), Windows()
        self.residuals = TargetTable()  #: of numbers: target minus prediction
        self.calibration = np.zeros((RANGES, 3))  #: weight, sum of probabilities, weight of positive rows
        self.confusion = np.zeros((2, 2))  #: [true, predicted] weights; negative and positive, or classes
        self.has_probabilities = task.kind != "numbers" and learner.update.loss.link == "logit"

    def add(self, scores: Floats, y: Any, weights: Floats) -> None:
        """Add scores of rows, targets as `Task.coded` returns them (labels for joint losses), and weights."""
        if not len(weights):
            return
        self.rows += len(weights)
        if self.task.kind == "classes":
            self._add_classes(scores, y, weights)
            return
        mass = float(weights.sum())
        self.loss.add(mean_of_windows(self.learner, scores, y, weights, self.windows), mass)
        self.targets.add(y, weights)
        if self.task.labels is None:
            self._add_numbers(self.learner.core.predictions(scores.copy()), y, weights, mass)
        else:
            self._add_signs(scores, y > 0.0, weights, mass)

    def _add_signs(self, scores: Floats, positive: Any, weights: Floats, mass: float) -> None:
        self.curve.add(scores, positive, weights)
        pairs = 2 * positive.astype(np.int64) + (scores > 0.0)
        self.confusion += np.bincount(pairs, weights, 4).reshape(2, 2)
        if not self.has_probabilities or mass <= 0.0:
            return
        z = self.learner.update.loss.link_factor * scores
        self.log_loss.add(float(np.average(np.logaddexp(0.0, np.where(positive, -z, z)), weights=weights)), mass)
        p = np.exp(-np.logaddexp(0.0, -z))
        self.brier.add(float(np.average((p - positive) ** 2, weights=weights)), mass)
        ranges = np.minimum((RANGES * p).astype(np.int64), RANGES - 1)
        for column, values in enumerate((weights, weights * p, weights * positive)):
            self.calibration[:, column] += np.bincount(ranges, values, RANGES)

    def _add_numbers(self, predicted: Floats, y: Floats, weights: Floats, mass: float) -> None:
        if mass <= 0.0:
            return
        self.absolute.add(float(np.average(np.abs(predicted - y), weights=weights)), mass)
        self.squared.add(float(np.average((predicted - y) ** 2, weights=weights)), mass)
        mean, before = float(np.average(y, weights=weights)), self.first.mass
        if before:  # the variances within and between both parts
            self.spread += (mean - self.first.value) ** 2 * before * mass / (before + mass)
        self.spread += float((weights * (y - mean) ** 2).sum())
        self.first.add(mean, mass)
        self.residuals.add(y - predicted, weights)

    def _add_classes(self, scores: Floats, y: Any, weights: Floats) -> None:
        classes = {label: k for k, label in enumerate(self.learner.classes or [])}
        codes = np.array([classes.get(label, -1) for label in y.tolist()], np.int64)
        known, k = codes >= 0, len(classes)
        before = self.confusion
        if before.shape != (k + 1, k):  # the last row is for unknown labels
            self.confusion = np.zeros((k + 1, k))
            if self.rows > len(weights):  # the learner has new classes
                old = before.shape[1]
                self.confusion[:old, :old], self.confusion[k, :old] = before[:old], before[old]
        predicted = scores.argmax(axis=1)
        truth = np.where(known, codes, k)
        self.confusion += np.bincount(truth * k + predicted, weights, (k + 1) * k).reshape(k + 1, k)
        if not known.all():  # the loss of a class without a score would be infinite
            self.loss.add(math.inf, 0.0 if self.task.one_vs_rest else float(weights[~known].sum()))
            self.log_loss.add(math.inf, float(weights[~known].sum()))
        if known.any():
            inside = float(weights[known].sum())
            if not self.task.one_vs_rest:  # its learners have losses of their own
                mean = mean_of_windows(self.learner, scores[known], codes[known], weights[known], self.windows)
                self.loss.add(mean, inside)
            if self.has_probabilities and inside > 0.0:
                p = self._probabilities(scores[known])[np.arange(known.sum()), codes[known]]
                with np.errstate(divide="ignore"):
                    self.log_loss.add(float(np.average(-np.log(p), weights=weights[known])), inside)
        self.targets.add(codes, weights)

    def _probabilities(self, scores: Floats) -> Floats:
        """Return the probability of every class."""
        if self.task.one_vs_rest:
            return self.learner.core.probabilities(scores)  # type: ignore[attr-defined,no-any-return]
        return softmax(self.learner.update.loss.link_factor * scores)

    def results(self) -> dict[str, Any]:
        """Return all metrics by name, as plain numbers and lists; None if one is not defined."""
        found: dict[str, Any] = {"rows": self.rows, "loss": self.loss.value}
        found["constant_loss"] = math.nan if self.task.one_vs_rest else self.targets.least_loss(self.task.loss)
        if self.has_probabilities:
            found["log_loss"] = self.log_loss.value
        if self.task.kind == "numbers":
            found |= self._of_numbers()
        else:
            found |= self._of_confusion()
        if self.task.kind == "two classes":
            found |= self._of_two()
        return {name: None if isinstance(v, float) and math.isnan(v) else v for name, v in found.items()}

    def _of_numbers(self) -> dict[str, Any]:
        error = self.squared.total
        r2 = 1.0 - error / self.spread if self.spread > 0.0 else math.nan
        rmse = math.sqrt(self.squared.value) if self.squared.mass else math.nan
        return {"rmse": rmse, "mae": self.absolute.value, "r2": r2}

    def _of_confusion(self) -> dict[str, Any]:
        """Return accuracy, F1 and the confusion matrix."""
        table = self.confusion
        k = table.shape[1]
        mass, right = table.sum(), np.diagonal(table)
        accuracy = float(right.sum() / mass) if mass > 0.0 else math.nan
        there = table.sum(axis=1)[:k] + table.sum(axis=0)
        f1 = [2.0 * right[c] / there[c] if there[c] > 0.0 else math.nan for c in range(k)]
        if self.task.labels is not None:
            labels, score = list(self.task.labels), f1[1]
        else:
            labels = list(self.learner.classes or [])
            seen = [value for value in f1 if not math.isnan(value)]
            score = sum(seen) / len(seen) if seen else math.nan
        cells = {"labels": labels, "counts": table[:k].tolist()}
        if len(table) > k and table[k].any():
            cells["unknown"] = table[k].tolist()
        return {"accuracy": accuracy, "f1": float(score), "confusion": cells}

    def _of_two(self) -> dict[str, Any]:
        (_, wrong), (missed, right) = self.confusion
        found: dict[str, Any] = {"auc": self.curve.area()}
        if self.curve.doubt:
            found["auc_doubt"] = self.curve.doubt
        found["precision"] = float(right / (right + wrong)) if right + wrong else math.nan
        found["recall"] = float(right / (right + missed)) if right + missed else math.nan
        if self.has_probabilities:
            found["brier"] = self.brier.value
            found["calibration"] = [
                {
                    "from": k / RANGES,
                    "to": (k + 1) / RANGES,
                    "weight": float(mass),
                    "predicted": float(total / mass) if mass else None,
                    "happened": float(positive / mass) if mass else None,
                }
                for k, (mass, total, positive) in enumerate(self.calibration)
            ]
        return found
