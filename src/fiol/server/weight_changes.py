"""`WeightChanges`: which weights of a model moved most in the last minutes, and how many are not 0."""

from __future__ import annotations

import time
from collections import deque
from typing import Any, NamedTuple

import numpy as np

from fiol.components.row import Floats
from fiol.training.metrics import finite_or_none

#: Seconds between weights that are kept for comparison, and how many of them are.
KEPT_SECONDS, KEPT = 30.0, 3
#: Weights that are reported as having moved most.
MOVED_SHOWN = 12


class WeightsThen(NamedTuple):
    """The weights of a model at one moment."""

    time: float
    weights: Floats
    names: list[Any] | None


class WeightChanges:
    """Compares the weights of one model with those of a minute or more before.

    >>> import fiol
    >>> model = fiol.Learner(fiol.FIOL(fiol.Squared()), compiled=False)
    >>> changes = WeightChanges()
    >>> for label in (1.0, 5.0):
    ...     _ = model.learn_named({"size": 1.0}, label)
    ...     changes.compare(model.snapshot())
    >>> changes.nonzeros, [one["name"] for one in changes.moved]
    (1, ['size'])
    """

    def __init__(self) -> None:
        self.before: deque[WeightsThen] = deque(maxlen=KEPT)
        self.nonzeros: int | None = None
        self.moved: list[dict[str, Any]] = []
        self.seconds = 0.0  #: that the comparison goes back

    def compare(self, snapshot: Any) -> None:
        """Compare the weights of a snapshot with older ones."""
        weights = feature_weights(snapshot)
        if weights is None:
            return
        names = snapshot.names
        now = WeightsThen(time.monotonic(), weights, names)
        if self.before and not self._is_continued(now):
            self.before.clear()
        if not self.before or now.time - self.before[-1].time > KEPT_SECONDS:
            self.before.append(now)
        oldest = self.before[0]
        change, most = largest_changes(oldest, now)
        self.nonzeros, self.seconds = int(np.count_nonzero(weights)), now.time - oldest.time
        self.moved = [
            {
                "name": str(k if names is None else names[k]),
                "weight": finite_or_none(float(weights[k])),
                "change": finite_or_none(float(change[k])),
            }
            for k in most
            if change[k] != 0.0
        ]

    def _is_continued(self, now: WeightsThen) -> bool:
        """Return whether features have kept their numbers: those that would be shown, and the last one of before.

        After a roll-back, or with another model, they have not. All names of a large model would take too long.
        """
        oldest = self.before[0]
        if len(oldest.weights) > len(now.weights):
            return False
        if oldest.names is None or now.names is None or not oldest.names:
            return True
        places = [k for k in largest_changes(oldest, now)[1] if k < len(oldest.names)]
        return all(oldest.names[k] == now.names[k] for k in (*places, len(oldest.names) - 1))


def largest_changes(before: WeightsThen, now: WeightsThen) -> tuple[Floats, list[int]]:
    """Return the change of every weight, and the features with the largest changes."""
    change = now.weights.copy()
    change[: len(before.weights)] -= before.weights
    return change, largest_first(change, MOVED_SHOWN)


def feature_weights(snapshot: Any) -> Floats | None:
    """Return the weight of every feature, of several classes the largest one; None for a model that is not linear."""
    try:
        weights: Floats = snapshot.weights
    except TypeError:  # an ensemble that is not linear
        return None
    if weights.ndim == 2:
        weights = weights[np.abs(weights).argmax(axis=0), np.arange(weights.shape[1])] if len(weights) else weights[:0]
    return weights


def weights_by_name(snapshot: Any, most: int) -> dict[Any, float]:
    """Return the largest weights by name or number of the feature; nothing for a model that is not linear."""
    weights, names = feature_weights(snapshot), snapshot.names
    if weights is None:
        return {}
    return {k if names is None else names[k]: float(weights[k]) for k in largest_first(weights, most)}


def largest_first(values: Floats, most: int) -> list[int]:
    """Return the places of the `most` largest values by size, the largest first.

    >>> largest_first(np.array([1.0, -3.0, 2.0, 0.0]), 2)
    [1, 2]
    """
    sizes = np.abs(values)
    found = np.argpartition(-sizes, most - 1)[:most] if 0 < most < len(sizes) else np.arange(len(sizes) if most else 0)
    return found[np.argsort(-sizes[found], kind="stable")].tolist()  # type: ignore[no-any-return]
