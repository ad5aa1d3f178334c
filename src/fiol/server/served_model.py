"""`ServedModel`: a model, its metrics, and the immutable snapshot that predictions come from."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fiol.components.losses import Loss
from fiol.components.row import Floats
from fiol.features.column_values import BadValueError
from fiol.models.one_vs_rest import OneVsRest
from fiol.server.labels import RefusedError
from fiol.server.messages import Features, LabelRules, LearnRecord, RowPrediction
from fiol.server.model_metrics import ProgressiveMetrics
from fiol.training.metrics import finite_or_none
from fiol.training.task_inference import Label, UnclearTargetError

#: Errors of rows that a model does not accept.
ROW_ERRORS = (ValueError, TypeError, OverflowError, KeyError, RecursionError)
#: Predictions lag at most this many seconds behind the journal, or ten times what a snapshot takes, if that is more.
LAG_SECONDS, LAG_FACTOR = 0.1, 10.0


class EncodedRows(NamedTuple):
    """Rows that a model accepts, and targets in the form of its loss."""

    X: Any
    y: Any
    weights: Floats
    entries: int


def has_logistic_link(loss: Loss) -> bool:
    """Return whether the prediction of a loss is the logistic function of the score."""
    return loss.link == "logit" and loss.link_factor == 1.0 and loss.states_link()


class SnapshotReader:
    """Predictions by one state of a model, from any thread, without a lock."""

    def __init__(self, model: Any, position: int) -> None:
        self.snapshot, self.position, self.rounds = model.snapshot(), position, model.rounds
        self.labels: list[Label] | None = self.snapshot.labels
        self.has_probabilities = self.snapshot.has_probabilities
        #: The labels of a model whose probability is the logistic function of the score.
        self.two_classes = self.labels if model.classes is None and has_logistic_link(model.update.loss) else None

    def predict(self, rows: Sequence[Features], uncertainty: bool = False) -> list[RowPrediction]:
        """Return the prediction for every row; RefusedError for a bad row, with its number and column."""
        try:
            if len(rows) == 1 and not uncertainty:
                return [self._one(self.snapshot.score_named(rows[0]))]
            scores = self.snapshot.scores(list(rows)) if rows else np.empty(0)
            doubts = self.snapshot.uncertainty(list(rows)).tolist() if uncertainty and rows else None
        except ROW_ERRORS as error:
            raise refused_rows(error, len(rows)) from None
        found = self._predictions(scores)
        for prediction, doubt in zip(found, doubts or (), strict=False):
            prediction.uncertainty = doubt
        return found

    def _one(self, score: Any) -> RowPrediction:
        """Return the prediction of one score, or of the scores of all classes."""
        if self.two_classes is not None and math.isfinite(score):  # without arrays
            share = 1.0 / (1.0 + math.exp(-score)) if score > -700.0 else 0.0
            return RowPrediction(score, self.two_classes[score > 0.0], [1.0 - share, share])
        return self._predictions(np.asarray([score], np.float64))[0]

    def _predictions(self, scores: Floats) -> list[RowPrediction]:
        """Return predictions with labels, and probabilities if the loss has them."""
        shown = [one if is_finite(one) else None for one in scores.tolist()]
        if self.labels is None:
            numbers = [finite_or_none(number) for number in self.snapshot.numbers_of(scores).tolist()]
            return [RowPrediction(*parts) for parts in zip(shown, numbers, strict=True)]
        if not self.labels:
            return [RowPrediction(score) for score in shown]
        best = (scores > 0.0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        labels = [self.labels[k] for k in best.tolist()]
        if not self.has_probabilities:
            return [RowPrediction(*parts) for parts in zip(shown, labels, strict=True)]
        shares = self.snapshot.probabilities_of(scores).tolist()
        return [RowPrediction(*parts) for parts in zip(shown, labels, shares, strict=True)]


class ServedModel:
    """A model that learns from records of the journal, in their order; only the writer's thread changes it.

    Attributes
    ----------
    position : of the last record that the model has learned from.
    reader : predictions by a recent state; replaced as a whole, so that any thread may use it.
    """

    def __init__(self, name: str, model: Any, rules: LabelRules, shadow_of: str | None = None) -> None:
        self.name, self.model, self.rules, self.shadow_of = name, model, rules, shadow_of
        stored = model.meta.get("serving", {})
        self.position = int(stored.get("position", 0))
        self.metrics = ProgressiveMetrics(stored.get("metrics"))
        self.task = model.task
        self.metrics_error: str | None = None  #: why rows are missing from the metrics
        self.errors = 0  #: of a shadow: records that it did not accept
        self.source = ""
        self.snapshot_seconds, self.refreshed = 0.0, 0.0
        self.refresh()
        self.status: dict[str, Any] = {}  #: metrics as plain JSON values, replaced as a whole
        self.publish()

    # --- predictions --------------------------------------------------------------------------

    def refresh(self) -> None:
        """Replace the reader by the present state."""
        started = time.perf_counter()
        self.reader = SnapshotReader(self.model, self.position)
        self.refreshed = time.perf_counter()
        self.snapshot_seconds = self.refreshed - started

    def publish(self) -> None:
        """Replace `status`, which other threads read."""
        self.status = {"rounds": self.model.rounds, **self.metrics.status(self.model)}

    @property
    def refresh_due(self) -> float:
        """Seconds until the reader has to be replaced; infinite if it is up to date."""
        if self.reader.position == self.position:
            return math.inf
        return self.refreshed + max(LAG_SECONDS, LAG_FACTOR * self.snapshot_seconds) - time.perf_counter()

    # --- learning -----------------------------------------------------------------------------

    def encode(self, features: Sequence[Features], labels: Sequence[Label], weights: Any = None) -> EncodedRows:
        """Return rows as the model learns from them; RefusedError for a bad row. Nothing changes."""
        rows, y = list(features), self._targets(labels)
        given = np.ones(len(rows)) if weights is None else np.array(weights, np.float64)
        space = self.model.core.space
        if not rows:
            return EncodedRows(rows, y, given, 0)
        try:
            if space.is_table(rows, None) and space.table_encoding is not None and space.table_encoding.complete:
                X = space.table_rows(rows, None, learning=False)
                entries = len(X.chunk.data)
            else:
                self.model.core.read_rows(rows)
                X, entries = rows, sum(map(len, rows))
        except ROW_ERRORS as error:
            raise refused_rows(error, len(rows)) from None
        return EncodedRows(X, y, given, entries)

    def check_rules(self, rules: LabelRules) -> None:
        """Raise RefusedError if the model cannot learn the default label of expired predictions."""
        try:
            self._targets([] if rules.default is None else [rules.default])
        except RefusedError as error:
            raise RefusedError(f"the default label of {self.name!r}: {error.reason}") from None

    def _targets(self, labels: Sequence[Label]) -> Any:
        """Return labels in the form of the loss; RefusedError for one that the model does not have."""
        if isinstance(self.model, OneVsRest) or not labels:
            return list(labels)
        try:
            y, there = self.task.coded(list(labels))
            if not there.all():
                raise RefusedError("the label is missing", int(np.argmin(there)), "label")
            self.model.core.check_targets(y, len(labels))
        except (UnclearTargetError, *ROW_ERRORS) as error:
            if isinstance(error, RefusedError) or len(labels) == 1:
                raise error if isinstance(error, RefusedError) else RefusedError(str(error), 0, "label") from None
            for row, label in enumerate(labels):  # names the row
                try:
                    self._targets([label])
                except RefusedError as one:
                    raise RefusedError(one.reason, row, "label") from None
            raise RefusedError(str(error), None, "label") from None
        return y

    def learn(self, rows: EncodedRows, record: LearnRecord, position: int) -> Floats:
        """Learn from the rows of one or more records, the last of which is at `position`; return scores from before.

        Raises ROW_ERRORS, and has learned nothing, if the model does not accept them.
        """
        model, before = self.model, self.model.n_features
        scores: Floats = model.core.learn(rows.X, rows.y, rows.weights)
        self.position = position
        try:
            y = rows.y if self.model.classes is None else model.core.codes_of(rows.y)
            if record.served and self.shadow_of is None:  # a shadow has its own scores
                scores = as_served(scores, record.served)
            self.metrics.add(model, scores, y, rows.weights, max(0, model.n_features - before), rows.entries)
        except Exception as error:  # the rows are learned: figures must not stop the server
            self.metrics_error = f"{type(error).__name__}: {error}"
        return scores

    def replace(self, model: Any, position: int) -> None:
        """Continue with another model; metrics go on."""
        self.model, self.position, self.task = model, position, model.task
        self.metrics.restart_members(model)
        self.refresh()

    def file_copy(self) -> Any:
        """Return a copy of the model whose file has the journal's position and the metrics."""
        found = self.model.copy()
        found.meta["serving"] = {
            "model": self.name,
            "position": self.position,
            "time": time.time(),
            "metrics": self.metrics.to_json(),
        }
        return found


def as_served(scores: Floats, served: Sequence[Any]) -> Floats:
    """Return scores with those replaced that were served; classes that came later had a score of 0.

    Scores of a model that had classes, where this one has none or the other way round, are left out.
    """
    found = scores.copy()
    for row, score in enumerate(served):
        if score is None or isinstance(score, list) != (found.ndim == 2):
            continue
        if isinstance(score, list):
            known = score[: found.shape[1]]  # a roll-back may have removed classes
            found[row] = 0.0
            found[row, : len(known)] = known
        else:
            found[row] = score
    return found


def is_finite(score: float | list[float]) -> bool:
    """Return whether a score, or the score of every class, is finite."""
    return all(map(math.isfinite, score)) if isinstance(score, list) else math.isfinite(score)


def refused_rows(error: Exception, rows: int) -> RefusedError:
    """Return the refusal for an error of the library, with row and column if it names them."""
    if isinstance(error, RefusedError):
        return error
    if isinstance(error, BadValueError):
        return RefusedError(f"{error.column!r} {error.reason}", error.row, error.column)
    text = str(error)
    row, column = row_and_column(text)
    return RefusedError(text or type(error).__name__, 0 if row is None and rows == 1 else row, column)


def row_and_column(text: str) -> tuple[int | None, str | None]:
    """Return row and column of a message that begins with `X[row, 'column']`.

    >>> [row_and_column(text) for text in ("X[17, 'income'] must be finite, got nan", "X[3] must be a dict", "no")]
    [(17, 'income'), (3, None), (None, None)]
    """
    found = re.match(r"[Xx]\[(\d+)?(?:, )?(?:'([^']*)')?\]", text)
    if found is None:
        return None, None
    return None if found[1] is None else int(found[1]), found[2]
