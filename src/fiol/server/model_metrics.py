"""Progressive metrics of a served model: loss beside the best constant and each member, calibration, label flow."""

from __future__ import annotations

import math
import time
from collections import deque
from typing import Any

import numpy as np

from fiol.algorithms.ensemble import Ensemble
from fiol.components.row import Floats
from fiol.models.one_vs_rest import OneVsRest
from fiol.summary import brief_member
from fiol.training.evaluation import RANGES
from fiol.training.metrics import TargetTable, finite_or_none

#: Rows of a window at first, and the largest number of windows: when there are more, neighbors are merged.
FIRST_SERVED_WINDOW, MOST_SERVED_WINDOWS = 100, 240
#: Recent windows that are shown as "now".
RECENT = 10
#: Delays of labels that are kept for their quantiles, and marks of drift.
DELAYS_KEPT, MARKS_KEPT = 2000, 100
#: Rows whose mean loss is one observation of the drift detector.
DRIFT_ROWS = 25

#: Sums of a window, in this order.
SUMS = ("rows", "mass", "loss", "constant", "prediction", "label", "new", "entries", "time")


class ProgressiveMetrics:
    """Metrics of rows before they were learned from, by the prediction as served where there is one.

    They are summed in windows of consecutive rows. The sums are saved in snapshots, so that they continue after a
    restart.
    """

    def __init__(self, stored: dict[str, Any] | None = None) -> None:
        stored = stored or {}
        self.width = int(stored.get("width", FIRST_SERVED_WINDOW))
        #: Finished windows: sums in the order of `SUMS`, and then the loss of each member.
        self.windows: list[list[float]] = [
            [math.nan if value is None else value for value in window] for window in stored.get("windows", [])
        ]
        self.rows = int(stored.get("rows", 0))
        self.mass, self.loss = float(stored.get("mass", 0.0)), float(stored.get("loss", 0.0))
        self.prediction, self.label = float(stored.get("prediction", 0.0)), float(stored.get("label", 0.0))
        self.targets = TargetTable(*stored.get("targets", ((), ())))
        self.calibration = np.array(stored.get("calibration", np.zeros((RANGES, 3))), np.float64)
        self.labels = dict(stored.get("labels", {}))  #: number of labels by outcome
        self.delays: deque[float] = deque(stored.get("delays", ()), maxlen=DELAYS_KEPT)
        self.open = {**dict.fromkeys(SUMS, 0.0), **stored.get("open", {})}  #: the window that is not full
        self.open_targets = TargetTable(*stored.get("open_targets", ((), ())))
        self.members_before: Any = stored.get("members_before")
        self.drift = DriftMarks()

    def to_json(self) -> dict[str, Any]:
        """Return all sums as plain JSON values."""
        return {
            "width": self.width,
            "windows": [[finite_or_none(value) for value in window] for window in self.windows],
            **{name: getattr(self, name) for name in ("rows", "mass", "loss", "prediction", "label", "labels")},
            **{
                name: [getattr(self, name).values.tolist(), getattr(self, name).masses.tolist()]
                for name in ("targets", "open_targets")
            },
            "open": self.open,
            "calibration": self.calibration.tolist(),
            "delays": list(self.delays),
            "members_before": self.members_before,
        }

    def add(self, model: Any, scores: Floats, y: Any, weights: Floats, new: int, entries: int) -> None:
        """Add rows that were learned from: scores from before, targets or codes of classes, weights.

        `new` is the number of features that were new, `entries` that of all entries of the rows.
        """
        start, rows = 0, len(weights)
        while start < rows:
            stop = min(rows, start + max(1, int(self.width - self.open["rows"])))
            part = slice(start, stop)
            share = (stop - start) / rows
            self._add_part(model, scores[part], y[part], weights[part], new * share, entries * share)
            if self.open["rows"] >= self.width:
                self._close_window(model)
            start = stop

    def _add_part(self, model: Any, scores: Floats, y: Any, weights: Floats, new: float, entries: float) -> None:
        mass = float(weights.sum())
        with np.errstate(all="ignore"):
            loss = mean_loss(model, scores, y, weights) * mass
            predicted, happened = self._means(model, scores, y, weights)
        self.rows += len(weights)
        self.targets.add(y, weights)
        self.open_targets.add(y, weights)
        for name, value in (("mass", mass), ("loss", loss), ("prediction", predicted), ("label", happened)):
            setattr(self, name, getattr(self, name) + value)
            self.open[name] += value
        for name, value in (("rows", len(weights)), ("new", new), ("entries", entries)):
            self.open[name] += value
        if mass > 0.0:
            self.drift.add(loss / mass, self.rows, len(weights))

    def _means(self, model: Any, scores: Floats, y: Any, weights: Floats) -> tuple[float, float]:
        """Return the sums of predictions and of labels, and add to the calibration of two classes."""
        if scores.ndim == 2:
            return 0.0, 0.0
        predictions = model.core.predictions(scores.copy())
        if model.labels is None:
            return float(predictions @ weights), float(y @ weights)
        positive = (y > 0.0).astype(np.float64)
        if model.has_probabilities:
            bins = np.clip((predictions * RANGES).astype(np.int64), 0, RANGES - 1)
            for column, values in enumerate((weights, weights * predictions, weights * positive)):
                self.calibration[:, column] += np.bincount(bins, values, RANGES)
        return float(predictions @ weights), float(positive @ weights)

    def _close_window(self, model: Any) -> None:
        constant = constant_loss(model, self.open_targets)
        self.open["constant"] = math.nan if constant is None else constant * self.open["mass"]
        self.open["time"] = time.time()
        self.windows.append([*self.open.values(), *self._members_since(model)])
        self.open, self.open_targets = dict.fromkeys(SUMS, 0.0), TargetTable()
        if len(self.windows) > MOST_SERVED_WINDOWS:
            self.width *= 2
            self.windows = [merged(self.windows[k : k + 2]) for k in range(0, len(self.windows), 2)]

    def _members_since(self, model: Any) -> list[float]:
        """Return the summed loss of every member of an ensemble since the last window."""
        losses = member_losses(model)
        if losses is None:
            return []
        totals = [loss * model.rows for loss in losses]
        before, self.members_before = self.members_before or [0.0] * len(totals), totals
        if len(before) != len(totals):
            return [math.nan] * len(totals)
        rows = self.open["rows"] or 1.0
        return [(total - old) / rows * self.open["mass"] for total, old in zip(totals, before, strict=True)]

    def note_labels(self, outcomes: dict[str, int], delays: Any = ()) -> None:
        """Count labels by outcome, and store the seconds from prediction to label.

        Labels that met their prediction are counted as "labeled", too. Default labels of expired predictions are not.
        """
        met = [] if "expired" in outcomes else [delay for delay in delays or () if delay is not None]
        for outcome, count in (*outcomes.items(), *([("labeled", len(met))] if met else ())):
            self.labels[outcome] = self.labels.get(outcome, 0) + count
        self.delays.extend(met)

    def restart_members(self, model: Any) -> None:
        """Measure the losses of members from now on, after the model was replaced."""
        losses = member_losses(model)
        self.members_before = None if losses is None else [loss * model.rows for loss in losses]

    def status(self, model: Any) -> dict[str, Any]:
        """Return everything as plain JSON values: totals, recent windows, and the windows so far."""
        recent = [list(self.open.values()), *self.windows[-RECENT:]]
        sums = dict(zip(SUMS, merged([window[: len(SUMS)] for window in recent]), strict=True))
        constant = constant_loss(model, self.targets)
        delays = np.array(self.delays, np.float64)
        p50, p99 = (float(np.quantile(delays, q)) if len(delays) else None for q in (0.5, 0.99))
        return {
            "rows": self.rows,
            "loss": ratio(self.loss, self.mass),
            "constant_loss": finite_or_none(constant),
            "members": members_status(model),
            "recent": {
                "rows": int(sums["rows"]),
                "loss": ratio(sums["loss"], sums["mass"]),
                "prediction": ratio(sums["prediction"], sums["mass"]),
                "label": ratio(sums["label"], sums["mass"]),
                "unseen": ratio(sums["new"], sums["entries"]),
            },
            "prediction": ratio(self.prediction, self.mass),
            "label": ratio(self.label, self.mass),
            "calibration": calibration_rows(self.calibration),
            "windows": window_columns(self.windows),
            "label_flow": {"outcomes": dict(self.labels), "delay_p50": p50, "delay_p99": p99},
            "drift": list(self.drift.marks),
        }


class DriftMarks:
    """Changes of the loss that River's ADWIN detects; without River there are none."""

    def __init__(self) -> None:
        self.marks: deque[dict[str, Any]] = deque(maxlen=MARKS_KEPT)
        self.total, self.waiting = 0.0, 0
        self.detector: Any = None

    def add(self, loss: float, rows: int, count: int) -> None:
        """Add the mean loss of `count` rows, the last of which is row number `rows`."""
        self.total += loss * count
        self.waiting += count
        if self.waiting < DRIFT_ROWS or not math.isfinite(self.total):
            return
        if self.detector is None:
            self.detector = adwin()
        mean, self.total, self.waiting = self.total / self.waiting, 0.0, 0
        if self.detector is False:
            return
        before = self.detector.estimation
        self.detector.update(mean)
        if self.detector.drift_detected:
            self.marks.append({"rows": rows, "time": time.time(), "before": before, "after": self.detector.estimation})


def adwin() -> Any:
    """Return River's drift detector, or False if River is not installed."""
    try:
        from river.drift import ADWIN
    except ImportError:
        return False
    return ADWIN(delta=0.002)  # type: ignore[no-untyped-call]


def mean_loss(model: Any, scores: Floats, y: Any, weights: Floats) -> float:
    """Return the mean loss of scores; the share of wrong labels for a model of one learner per class."""
    if isinstance(model, OneVsRest):
        wrong = scores.argmax(axis=1) != y
        return float(weights @ wrong) / max(float(weights.sum()), 1e-300)
    return float(model.core.mean_loss(np.ascontiguousarray(scores), y, weights))


def constant_loss(model: Any, targets: TargetTable) -> float | None:
    """Return the mean loss of the best constant score; None without targets, and for one learner per class."""
    return None if isinstance(model, OneVsRest) else targets.least_loss(model.update.loss)


def member_losses(model: Any) -> list[float] | None:
    """Return the mean loss of every member of an ensemble; None for a single update."""
    if not isinstance(model.update, Ensemble) or not hasattr(model, "engine"):
        return None
    return model.engine.mean_losses()[1:].tolist()  # type: ignore[no-any-return]


def members_status(model: Any) -> list[dict[str, Any]]:
    """Return update, weight and progressive loss of every member."""
    members = getattr(model, "members", None) or ()
    return [
        {
            "update": brief_member(member.update),
            "weight": finite_or_none(float(member.weight)),
            "loss": finite_or_none(float(member.loss)),
        }
        for member in members
    ]


def window_columns(windows: list[list[float]]) -> dict[str, Any]:
    """Return the means of windows as columns, with as many digits as a chart needs.

    >>> found = window_columns([[100, 50.0, 20.0, 30.0, 10.0, 12.0, 3, 300, 1e9, 25.0]])
    >>> found["rows"], found["loss"], found["unseen"], found["members"]
    ([100], [0.4], [0.01], [[0.5]])
    """
    table = [dict(zip(SUMS, window, strict=False)) for window in windows]
    members = max((len(window) for window in windows), default=len(SUMS)) - len(SUMS)
    means = {
        name: [digits(ratio(sums[total], sums[mass])) for sums in table]
        for name, total, mass in (
            ("loss", "loss", "mass"),
            ("constant_loss", "constant", "mass"),
            ("prediction", "prediction", "mass"),
            ("label", "label", "mass"),
            ("unseen", "new", "entries"),
        )
    }
    return {
        "rows": [int(sums["rows"]) for sums in table],
        "mass": [digits(sums["mass"]) for sums in table],
        "time": [round(sums["time"], 1) for sums in table],
        **means,
        "members": [
            [digits(ratio(window[k], window[SUMS.index("mass")])) if k < len(window) else None for window in windows]
            for k in range(len(SUMS), len(SUMS) + members)
        ],
    }


def calibration_rows(sums: Any) -> list[dict[str, Any]]:
    """Return the calibration table: mean prediction beside the share of positive labels, by range of predictions."""
    return [
        {
            "from": k / RANGES,
            "to": (k + 1) / RANGES,
            "weight": float(weight),
            "predicted": ratio(predicted, weight),
            "happened": ratio(happened, weight),
        }
        for k, (weight, predicted, happened) in enumerate(sums.tolist())
        if weight > 0.0
    ]


def merged(windows: list[list[float]]) -> list[float]:
    """Return the sums of windows together; the time is that of the last one.

    >>> merged([[10.0, 1.0, 5.0], [20.0, 2.0, 6.0]])
    [30.0, 3.0, 11.0]
    """
    size = max(map(len, windows))
    found = [sum(window[k] for window in windows if len(window) > k) for k in range(size)]
    if size >= len(SUMS):
        found[SUMS.index("time")] = max(window[SUMS.index("time")] for window in windows)
    return found


def digits(value: float | None) -> float | None:
    """Return a number with six digits, which is more than a chart shows.

    >>> digits(0.123456789), digits(1234567.0), digits(None)
    (0.123457, 1234570.0, None)
    """
    return None if value is None else float(f"{value:.6g}")


def ratio(total: float, mass: float) -> float | None:
    """Return a mean, None if there is none."""
    return finite_or_none(total / mass) if mass > 0.0 else None
