"""Progressive metrics of a run: the loss of rows before they are learned from, and that of the best constant."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fiol.algorithms.ensemble import Ensemble
from fiol.components.joint_losses import AnyLoss, JointLoss
from fiol.components.row import Floats
from fiol.learner import Learner

#: Different targets that are kept apart; above, neighbors are merged until half as many are left.
MOST_TARGETS = 1024
#: Up to this number of targets, comparing with each is faster than sorting.
FEW_TARGETS = 4
#: Largest number of windows, and rows of a window at first.
MOST_WINDOWS, FIRST_WINDOW = 128, 250
#: Losses are summed in blocks of this many rows; `MOST_WINDOWS` and lines of the table begin where blocks do.
BLOCK_ROWS = 1000
#: Of rows with one target, a loss of the best constant below this is that of a larger constant, and counts as 0.
ROUNDED_LOSS = 1e-20
#: Largest constant to try, unless a target is larger than half of it.
LARGEST_CONSTANT = 64.0


class Speed(NamedTuple):
    """Progress of a run at some moment: seconds, rows and bytes since its first row."""

    seconds: float
    rows: int
    read: int


class Line(NamedTuple):
    """A line of the training table: the metrics after a number of rows."""

    number: int  #: the pass, from 1
    rows: int  #: learned from in this pass
    loss: float  #: their mean loss, each before it was learned from
    since: float  #: the mean loss of the rows since the line before
    constant: float | None  #: the mean loss of these rows with the best constant
    held_out: float | None  #: the mean loss of the rows held out so far in this pass
    nonzeros: int  #: features with a weight other than 0
    features: int  #: number of features
    members: tuple[float, ...] = ()  #: of an ensemble: the mean loss of each, in all passes

    def to_json(self) -> dict[str, Any]:
        """Return the line as a JSON object; a number that is not finite is null there."""
        given = {**self._asdict(), "members": [finite_or_none(loss) for loss in self.members]}
        return {k: finite_or_none(v) for k, v in given.items()}

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Line:
        """Return the line that `to_json` wrote; older ones have no members."""
        fields: dict[str, Any] = {k: math.nan if v is None and k in ("loss", "since") else v for k, v in given.items()}
        fields["members"] = tuple(math.nan if loss is None else loss for loss in given.get("members", ()))
        return cls(**fields)


def finite_or_none(value: Any) -> Any:
    """Return a value for JSON: None for a number that is not finite.

    >>> finite_or_none(math.inf), finite_or_none(2.5), finite_or_none("inf")
    (None, 2.5, 'inf')
    """
    return None if isinstance(value, float) and not math.isfinite(value) else value


class Mean:
    """A running weighted mean.

    >>> mean = Mean()
    >>> mean.value, mean.add(3.0, 1.0), mean.add(1.0, 1.0), mean.value
    (nan, None, None, 2.0)
    """

    def __init__(self, total: float = 0.0, mass: float = 0.0) -> None:
        self.total, self.mass = total, mass

    def add(self, mean: float, mass: float) -> None:
        """Add values with this mean and total weight."""
        self.total += mean * mass
        self.mass += mass

    @property
    def value(self) -> float:
        """The mean; nan without values."""
        return self.total / self.mass if self.mass > 0.0 else math.nan


class Window(NamedTuple):
    """Consecutive rows: their number, their weight, and the sum of their losses."""

    rows: int
    mass: float
    total: float

    @property
    def loss(self) -> float:
        """The mean loss."""
        return self.total / self.mass if self.mass > 0.0 else math.nan


class Windows:
    """Mean losses in at most 128 windows of consecutive rows, all of one length.

    When there would be more, neighbors are merged in pairs.

    >>> windows = Windows(most=4, width=10)
    >>> for loss in range(5):
    ...     windows.add(10, float(loss), 10.0)
    >>> windows.add(5, 7.0, 5.0)  # what is left of the last one
    >>> windows.width, [(window.rows, window.loss) for window in windows.all]
    (20, [(20, 0.5), (20, 2.5), (15, 5.0)])
    """

    def __init__(self, most: int = MOST_WINDOWS, width: int = FIRST_WINDOW, all: Sequence[Sequence[Any]] = ()) -> None:
        self.most, self.width = most, width
        self.all = [Window(*window) for window in all]

    def add(self, rows: int, mean: float, mass: float) -> None:
        """Append rows, at most as many as a window has."""
        if self.all and self.all[-1].rows < self.width:
            last = self.all.pop()
            self.all.append(Window(last.rows + rows, last.mass + mass, last.total + mean * mass))
        else:
            self.all.append(Window(rows, mass, mean * mass))
        if len(self.all) > self.most:
            self.width *= 2
            pairs = [self.all[k : k + 2] for k in range(0, len(self.all), 2)]
            self.all = [Window(*map(sum, zip(*pair, strict=True))) for pair in pairs]

    def to_json(self) -> list[Any]:
        """Return the windows as plain JSON values."""
        return [self.width, [[rows, mass, as_text(total)] for rows, mass, total in self.all]]

    @classmethod
    def from_json(cls, given: list[Any]) -> Windows:
        """Return the windows that `to_json` wrote."""
        return cls(width=given[0], all=[(rows, mass, float(total)) for rows, mass, total in given[1]])


def mean_of_windows(learner: Learner, scores: Floats, y: Any, weights: Floats, windows: Windows) -> float:
    """Return the mean loss of scores, and add their losses to windows; y are targets or codes."""
    mean, width = Mean(), windows.width
    for start in range(0, len(weights), width):
        part = slice(start, start + width)
        mass = float(weights[part].sum())
        loss = learner.core.mean_loss(scores[part], y[part], weights[part])
        windows.add(len(weights[part]), loss, mass)
        mean.add(loss, mass)
    return mean.value if mean.mass else 0.0


class TargetTable:
    """Targets so far and their weights, for the best constant prediction.

    Above 1,024 different targets, neighbors are merged into their mean, which moves targets by about a thousandth of
    their range.

    >>> from fiol import Logistic, Squared
    >>> table = TargetTable()
    >>> table.add(np.array([1.0, -1.0, 1.0, 1.0]), np.ones(4))
    >>> round(table.least_loss(Logistic()), 6), round(-0.75 * math.log(0.75) - 0.25 * math.log(0.25), 6)
    (0.562335, 0.562335)
    >>> table.least_loss(Squared())  # half of the variance
    0.375
    """

    def __init__(self, values: Any = (), masses: Any = ()) -> None:
        self.values: Any = np.array(values, np.float64)
        self.masses: Any = np.array(masses, np.float64)

    def add(self, y: Any, weights: Floats) -> None:
        """Add targets, or codes of classes, and their weights."""
        if 0 < len(self.values) <= FEW_TARGETS:
            own = y[:, None] == self.values
            if own.any(axis=1).all():  # sorting would take longer
                self.masses = self.masses + weights @ own
                return
        values, places = np.unique(np.concatenate([self.values, y]), return_inverse=True)
        masses = np.bincount(places, np.concatenate([self.masses, weights]), len(values))
        if len(values) > MOST_TARGETS:
            share = np.cumsum(masses) - 0.5 * masses
            groups = np.minimum((share / masses.sum() * (MOST_TARGETS // 2)).astype(np.int64), MOST_TARGETS // 2 - 1)
            sums, together = np.bincount(groups, masses * values), np.bincount(groups, masses)
            kept = together > 0.0
            values, masses = sums[kept] / together[kept], together[kept]
        self.values, self.masses = values, masses

    def least_loss(self, loss: AnyLoss) -> float | None:
        """Return the mean loss of the best constant score; None for a joint loss without a likelihood."""
        there = self.masses > 0.0
        values, masses = self.values[there].tolist(), self.masses[there]
        if not values:
            return None
        share = (masses / masses.sum()).tolist()
        if isinstance(loss, JointLoss):
            return max(0.0, float(-sum(p * math.log(p) for p in share))) if loss.is_probability else None
        z = best_constant(loss, values, share)
        least = sum(p * loss.value(z, y) for p, y in zip(share, values, strict=True))
        is_exact = len(values) == 1 and (least < ROUNDED_LOSS or loss.value(values[0], values[0]) == 0.0)
        return 0.0 if is_exact and least > 0.0 else least


def best_constant(loss: Any, values: list[float], shares: list[float]) -> float:
    """Return the score with the least mean loss, by bisection of the derivative.

    >>> from fiol import Absolute, Squared
    >>> best_constant(Squared(), [1.0, 4.0], [2 / 3, 1 / 3])
    2.0
    >>> round(best_constant(Absolute(), [1.0, 4.0, 9.0], [0.25, 0.5, 0.25]), 9)
    4.0
    """

    def slope(z: float) -> float:
        return sum(p * loss.grad(z, y) for p, y in zip(shares, values, strict=True))

    most = max(LARGEST_CONSTANT, 2.0 * max(abs(values[0]), abs(values[-1])))
    low, high = -1.0, 1.0
    while slope(low) > 0.0 and low > -most:
        low *= 2.0
    while slope(high) < 0.0 and high < most:
        high *= 2.0
    for _ in range(100):
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        found = slope(middle)
        if found == 0.0:
            return middle
        low, high = (low, middle) if found > 0.0 else (middle, high)
    return 0.5 * (low + high)


class PassMetrics:
    """The metrics of one pass. They depend on the rows and their order only, and continue exactly from `to_json`.

    Rows are summed in blocks of `BLOCK_ROWS`, counted from the start of the pass, so that sums do not depend on how
    rows arrive. Rows of a block that is not full are pending.
    """

    def __init__(self, classes: int = 0) -> None:
        self.rows, self.classes = 0, classes
        self.loss, self.since, self.held_out = Mean(), Mean(), Mean()
        self.targets, self.windows = TargetTable(), Windows()
        self.pending: list[tuple[Floats, Any, Floats]] = []  #: scores, targets or codes, and weights

    def add(self, learner: Learner, scores: Floats, y: Any, weights: Floats) -> None:
        """Add rows that were learned from: scores from before, targets or codes of classes, and weights."""
        start = 0
        while start < len(weights):
            stop = min(len(weights), start + BLOCK_ROWS - self.rows % BLOCK_ROWS)
            self.pending.append((scores[start:stop].copy(), y[start:stop].copy(), weights[start:stop].copy()))
            self.rows += stop - start
            start = stop
            if self.rows % BLOCK_ROWS == 0:
                self.flush(learner)

    def flush(self, learner: Learner) -> None:
        """Sum the pending rows."""
        if not self.pending:
            return
        scores, y, weights = self._pending_rows()
        if scores.ndim == 2:  # classes that appear in later blocks have no score here, however rows arrive
            self.classes = max(self.classes, int(y.max()) + 1)
            scores = np.ascontiguousarray(scores[:, : self.classes])
        self.pending = []
        mean, mass = mean_of_windows(learner, scores, y, weights, self.windows), float(weights.sum())
        self.loss.add(mean, mass)
        self.since.add(mean, mass)
        self.targets.add(y, weights)

    def _pending_rows(self) -> tuple[Floats, Any, Floats]:
        """Return scores, targets and weights of all pending rows; a class that a row had no score for has 0."""
        scores, y, weights = zip(*self.pending, strict=True)
        if scores[0].ndim == 2:
            wide = max(part.shape[1] for part in scores)
            scores = tuple(np.pad(part, ((0, 0), (0, wide - part.shape[1]))) for part in scores)
        return np.concatenate(scores), np.concatenate(y), np.concatenate(weights)

    def line(self, number: int, loss: AnyLoss, learner: Learner) -> Line:
        """Return a line of the table, and start to count for the next one."""
        self.flush(learner)
        held_out = self.held_out.value if self.held_out.mass else None
        since, self.since = self.since.value, Mean()
        constant = self.targets.least_loss(loss)
        engine: Any = learner.engine
        losses = engine.mean_losses()[1:].tolist() if isinstance(learner.update, Ensemble) else ()
        features = learner.n_nonzero, learner.n_features
        return Line(number, self.rows, self.loss.value, since, constant, held_out, *features, tuple(losses))

    def to_json(self) -> dict[str, Any]:
        """Return all metrics as plain JSON values."""
        means = {name: [as_text(mean.total), mean.mass] for name, mean in self.means().items()}
        table = [self.targets.values.tolist(), self.targets.masses.tolist()]
        found = {"rows": self.rows, "targets": table, "windows": self.windows.to_json(), **means}
        if self.classes:
            found["classes"] = self.classes
        if self.pending:
            found["pending"] = [as_base64(part) for part in self._pending_rows()]
        return found

    def means(self) -> dict[str, Mean]:
        """Return the means, by name."""
        return {"loss": self.loss, "since": self.since, "held_out": self.held_out}

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> PassMetrics:
        """Return the metrics that `to_json` wrote."""
        new = cls()
        new.rows, new.targets, new.classes = given["rows"], TargetTable(*given["targets"]), given.get("classes", 0)
        if "windows" in given:
            new.windows = Windows.from_json(given["windows"])
        if "pending" in given:
            scores, y, weights = map(from_base64, given["pending"])
            if y.dtype.kind == "i":  # codes of classes: a score for each
                scores = scores.reshape(len(y), -1)
            new.pending = [(scores, y, weights)]
        for name in new.means():
            total, mass = given[name]
            setattr(new, name, Mean(float(total), mass))
        return new


def as_base64(values: Any) -> str:
    """Return numbers as text that keeps all digits; codes of classes are small integers.

    >>> from_base64(as_base64(np.array([0.1, -2.0]))), from_base64(as_base64(np.array([3, 4])))
    (array([ 0.1, -2. ]), array([3, 4]))
    """
    kind = "<f8" if values.dtype.kind == "f" else "<i8"
    return kind[1] + base64.b64encode(np.ascontiguousarray(values, kind).tobytes()).decode()


def from_base64(text: str) -> Any:
    """Return the numbers that `as_base64` wrote; ValueError if the text is no such numbers."""
    if not isinstance(text, str) or text[:1] not in ("f", "i"):
        raise ValueError(f"numbers in base64 start with f or i, got {text!r:.20}")
    return np.frombuffer(base64.b64decode(text[1:], validate=True), f"<{text[0]}8").copy()


def as_text(value: float) -> float | str:
    """Return a number, or text that `float` parses if it is not finite, since explicit steps may diverge.

    >>> as_text(0.5), as_text(np.float64(math.inf))
    (0.5, 'inf')
    """
    return value if math.isfinite(value) else repr(float(value))
