"""Centering: the running mean is subtracted from columns far from 0.

A column of mean 1000 and standard deviation 1 is nearly one more intercept: its information about targets is lost among
the digits that it shares with the intercept. With the mean m of the values so far subtracted, the score

    b + sum of w_i (x_i - m_i)

is that of a linear model all the same, with the weights w_i and the intercept b - sum of w_i m_i, which a learner
returns. The round of a row uses x_i - m_i with the means before the row, so that its score is the one that was
predicted; then the means are updated.

Which features are centered is decided after the first `WINDOW` rows: those that were in nearly all of them, and whose
mean was large compared with the distances of values from it. They are centered in every later row, also where they are
absent, since an absent value is 0. All other features, of sparse rows most or all, are not changed, at no cost.

The means of a stream may drift, and a mean that lags behind is worse than none: so the mean has to be clearly larger
than the distances. Rows in random order, as in an estimator's `fit`, have means that stay, and half of the largest
distance is enough (`Centering.in_random_order`).

When a feature becomes centered, the intercept takes over the score of the mean, so that no prediction changes, and the
statistics of its step size are reset, with the distances from the mean instead of values. (Anchors that keep all rounds
reset the weight, too: it follows from sums over values that were not centered.)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fiol.components.row import Floats, Indices
from fiol.components.simd import larger

#: After this many rows it is decided which features are centered:
WINDOW = 32
#: those that are in this fraction of the rows,
NEARLY_ALL = 0.9
#: with a mean larger than this many times the largest distance from it,
FAR_FROM_0 = 2.0
#: or than this many times where rows come in random order.
FAR_IN_RANDOM_ORDER = 0.5


class Centering(NamedTuple):
    """The means of centered features, and until these are decided, statistics of all features.

    The single-row fast path writes to `so_far`, `window` and `sums` in place.
    """

    so_far: Floats  #: number of rows, as an array of one
    window: Floats  #: the lines of `seen`, then unused lines of zeros
    features: Indices  #: the centered ones, sorted
    sums: Floats  #: and the sums of their values in all rows, each as far from the mean as it is learned,
    widths: Floats  #: and the largest distances from the mean (`learned_value`)
    far: Floats  #: `FAR_FROM_0` or `FAR_IN_RANDOM_ORDER`, as an array of one

    @property
    def rows(self) -> float:
        """Number of rows so far."""
        return float(self.so_far[0])

    @property
    def watches(self) -> bool:
        """Whether centered features are not decided yet."""
        return self.rows < WINDOW

    @property
    def seen(self) -> Floats:
        """Of the first rows, a line per feature: its number, count of rows, sum, least and largest value."""
        return self.window[: np.count_nonzero(self.window[:, 1])]

    @property
    def idle(self) -> bool:
        """Whether no feature is centered, for good."""
        return not self.features.shape[0] and not self.watches

    @property
    def means(self) -> Floats:
        """The means of centered features."""
        return self.sums / self.rows

    def in_random_order(self) -> Centering:
        """Return the centering of rows in random order; unchanged after the first row, whose order was another."""
        return self if self.rows else self._replace(far=np.array([FAR_IN_RANDOM_ORDER]))

    def decided(self) -> Centering:
        """Return the centering with the centered features decided."""
        feature, number, total, low, high = self.seen.T
        absent = number < self.rows
        low, high = np.where(absent, np.minimum(low, 0.0), low), np.where(absent, np.maximum(high, 0.0), high)
        mean = total / self.rows
        distance = np.maximum(high - mean, mean - low)
        chosen = (number >= NEARLY_ALL * self.rows) & (np.abs(mean) > self.far[0] * distance)
        kept = {"features": feature[chosen].astype(np.int32), "sums": total[chosen], "widths": distance[chosen]}
        return self._replace(window=NO_WINDOW, **kept)

    def with_room(self, entries: int) -> Centering:
        """Return a copy with its own arrays and unused lines for the features of a few rows of this many entries."""
        window = np.zeros((len(self.seen) + 8 * (entries + 1), 5))
        window[: len(self.seen)] = self.seen
        return own_centering(self._replace(window=window))

    def placed(self, places: Any) -> Centering:
        """Return the centering where places[i] is the old feature i; features with a place below 0 are dropped."""
        places, window = np.asarray(places, np.int64), self.seen
        new, seen = places[self.features], places[window[:, 0].astype(np.int64)]
        order, rank = (np.argsort(p, kind="stable")[np.count_nonzero(p < 0) :] for p in (new, seen))
        window = np.hstack([seen[:, None], window[:, 1:]])[rank]
        kept = {"features": new[order].astype(np.int32), "sums": self.sums[order], "widths": self.widths[order]}
        return self._replace(window=window, **kept)

    def arrays(self) -> dict[str, Any]:
        """Return the arrays, by name."""
        parts = self._replace(window=self.seen, features=self.features.astype(np.float64))._asdict()  # type: ignore[arg-type]
        return {f"centring.{name}": array for name, array in parts.items()}


#: The window before the first row.
NO_WINDOW = np.zeros((0, 5))
#: Before the first row.
NO_ROWS = Centering(np.zeros(1), NO_WINDOW, np.empty(0, np.int32), np.empty(0), np.empty(0), np.array([FAR_FROM_0]))
#: No feature is centered, for good.
AS_THEY_ARE = NO_ROWS._replace(so_far=np.array([float(WINDOW)]))


def own_centering(centering: Centering) -> Centering:
    """Return a copy with its own arrays."""
    return Centering._make(array.copy() for array in centering)


def united_windows(parts: list[Centering]) -> Floats:
    """Return the `seen` of several parts of the first rows together."""
    windows = [part.seen for part in parts]
    feature = np.unique(np.concatenate([window[:, 0] for window in windows]))
    found = np.tile([0.0, 0.0, 0.0, np.inf, -np.inf], (len(feature), 1))
    found[:, 0] = feature
    for window in windows:
        place = np.searchsorted(feature, window[:, 0])
        found[place, 1:3] += window[:, 1:3]
        found[place, 3] = np.minimum(found[place, 3], window[:, 3])
        found[place, 4] = np.maximum(found[place, 4], window[:, 4])
    return found


def after_first(window: Floats, rows: float, far: Floats) -> Centering:
    """The centering with this `window`, without features that can no longer be in nearly all of the first rows."""
    possible = window[:, 1] >= fewest_rows(rows)
    return NO_ROWS._replace(so_far=np.array([rows]), window=window[possible], far=far)


def fewest_rows(rows: float) -> float:
    """Return in how many of the first `rows` rows a feature must be to be in nearly all of the window in the end."""
    return rows - (1.0 - NEARLY_ALL) * larger(rows, WINDOW)


def centering_from(arrays: dict[str, Any], features: int) -> Centering:
    """Return the centering with these `arrays`, of this many features; ValueError if they do not fit."""
    if not len(arrays.get("centring.widths", ())):  # in older files: the next values set them
        arrays = {**arrays, "centring.widths": np.zeros_like(arrays.get("centring.sums", NO_ROWS.sums))}
    for name, own in NO_ROWS.arrays().items():
        array = arrays.get(name)
        if array is None or array.dtype != np.float64 or array.ndim != own.ndim or not np.isfinite(array).all():
            raise ValueError(f"array {name!r} is missing or does not fit the update")
    rows, window, chosen, sums, widths, far = (arrays[f"centring.{name}"] for name in Centering._fields)
    rising = (np.diff(chosen) > 0.0).all() and (chosen >= 0.0).all() and (chosen < features).all()
    one = rows.shape == far.shape == (1,) and rows[0] >= 0.0 and far[0] > 0.0
    if not one or window.shape[1:] != (5,) or not sums.shape == widths.shape == chosen.shape or not rising:
        raise ValueError("arrays 'centring' do not fit the update")
    if (chosen != np.floor(chosen)).any() or (chosen.shape[0] and rows[0] < 1.0):
        raise ValueError("arrays 'centring' do not name features that have a mean")
    if (widths < 0.0).any():
        raise ValueError("array 'centring.widths' must not be negative")
    return Centering(rows.copy(), window.copy(), chosen.astype(np.int32), sums.copy(), widths.copy(), far.copy())
