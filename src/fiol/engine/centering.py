"""Centering: the running mean is subtracted from columns far from 0, and an origin from targets.

A column of mean 1000 and standard deviation 1 is nearly one more intercept: its information about targets is lost among
the digits that it shares with the intercept. With the mean m of the values so far subtracted, the score

    b + sum of w_i (x_i - m_i)

is that of a linear model all the same, with the weights w_i and the intercept b - sum of w_i m_i, which a learner
returns. The round of a row uses x_i - m_i with the means before the row, so that its score is the one that was
predicted; then the means are updated.

Which features are centered is decided after the first `WINDOW` rows: those that were in nearly all of them, and whose
mean was large compared with the distances of values from it. They are centered in every later row, also where they are
absent, since an absent value is 0. All other features, of sparse rows most or all, are not changed, at no cost.

A missing cell of a table is no 0: its row has the feature `c is missing`, d = 1, instead of c. There c counts as the
mean, also in the statistics of means, and the weight of d is that of all a missing value means. The score is still that
of a linear model of the features as they come, since x - m (1 - d) is linear in x and d: the weight of d is
w_d + m w_c (`Engine.raw_weights`). `Engine.indicators` has the number of d for every c.

The means of a stream may drift, and a mean that lags behind is worse than none: so the mean has to be clearly larger
than the distances. In random order means stay, and a small part of the largest distance is enough. Rows are in random
order in an estimator's `fit` (`Centering.in_random_order`). In a stream a column is taken for one in random order if
consecutive values differ as much as any two: then the mean square of their differences is twice the variance, and less
in a series that drifts (von Neumann's ratio). Such columns need to be in half of the rows only. They are centered if
columns in random order are most entries of a row: otherwise rows are sparse, and subtracting means costs much time.

When a feature becomes centered, the intercept takes over the score of the mean, so that no prediction changes, and the
statistics of its step size are reset, with the distances from the mean instead of values. (Anchors that keep all rounds
reset the weight, too: it follows from sums over values that were not centered.)

Targets far from 0 are the same problem: with targets of 1e6 and a standard deviation of 1, the steps of all weights
are those of the intercept's error. If the loss allows it (`Loss.shift_invariant`), an ensemble learns from y - origin,
and scores are those of the rounds plus the origin. The origin is the first target with a sample weight. After 2, 4, 8
and 16 rows it becomes the median of the targets so far, since the first one may be an exception. Then intercepts
change by the difference, so that predictions stay, or by the part of it that brings them to 0: a level that was
learned is not added to the new origin, and one that was not is taken from it. (Intercepts of anchors that keep all
rounds stay here. When learners are merged, they change with all others.)
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np

from fiol.components.row import Floats, Indices
from fiol.engine.first_rows import (
    NUMBERS_SEEN,
    OFTEN_ENOUGH,
    WINDOW,
    fewest_rows,
    memory_after,
    with_noted_rows,
    with_rows,
)
from fiol.features.chunk import Chunk

#: Which features are centered after `WINDOW` rows: those that are in this fraction of the rows,
NEARLY_ALL = 0.9
#: with a mean larger than this many times the largest distance from it,
FAR_FROM_0 = 2.0
#: or in random order those that are in `OFTEN_ENOUGH` of the rows,
#: with a mean larger than this many times the largest distance from it,
FAR_IN_RANDOM_ORDER = 0.25
#: if columns in random order are at least this fraction of the entries of a row.
MOST_ENTRIES = 0.75
#: A column is in random order if squared differences of consecutive values add up to more than this many times the
#: squared distances from the mean: 2 on average, with a standard deviation of 0.5.
RANDOM_RATIO = 1.0
#: A difference from the mean that is smaller than this fraction of it counts as rounding.
ONLY_ROUNDING = 1e-10


class Centering(NamedTuple):
    """The means of centered features, and until these are decided, statistics of all features.

    The single-row fast path writes to `so_far`, `first` and `sums` in place.
    """

    so_far: Floats  #: number of rows, as an array of one
    window: Floats  #: `seen` after some of the rows
    first: Floats  #: the rows after those, `fiol.engine.first_rows`; not in files
    features: Indices  #: the centered ones, sorted
    sums: Floats  #: and the sums of their values in all rows, each as far from the mean as it is learned,
    widths: Floats  #: and the largest distances from the mean (`learned_value`)
    far: Floats  #: `FAR_FROM_0` or `FAR_IN_RANDOM_ORDER`, as an array of one
    origin: Floats  #: of targets, and how many there are in `targets`
    targets: Floats  #: the first ones, as many as the window has rows, then zeros; empty if the origin does not change
    missing: Indices  #: the indicators of missing values of the centered features, -1 without one; not in files

    @property
    def rows(self) -> float:
        """Number of rows so far."""
        return float(self.so_far[0])

    @property
    def watches(self) -> bool:
        """Whether centered features are not decided yet."""
        return self.rows < WINDOW

    @property
    def awaits_target(self) -> bool:
        """Whether the next target becomes the origin."""
        return self.targets.shape[0] > 0 and self.origin[1] == 0.0 and self.watches

    @property
    def steady_rows(self) -> int:
        """For how many more rows neither the origin nor the centered features change."""
        if not self.watches:
            return sys.maxsize
        rows = int(self.rows)
        if self.awaits_target:
            return 1
        return (min(1 << rows.bit_length(), WINDOW) if self.targets.shape[0] else WINDOW) - rows

    @property
    def seen(self) -> Floats:
        """Of the first rows, a line per feature with `NUMBERS_SEEN` numbers.

        Its number, count of rows, sum, least and largest value; of all rows, where it is 0 if absent, the last value,
        the sum of squared differences of consecutive values, and that of squared distances from the mean.
        """
        return with_noted_rows(self.window, self.first, self.rows)

    @property
    def undecided(self) -> bool:
        """Whether there are statistics from which centered features are to be decided."""
        return len(self.window) > 0 or len(self.first) > 1

    def has_memory(self, entries: int) -> bool:
        """Return whether the fast path can add one of the first rows, of this many entries."""
        return bool(len(self.first) > self.first[0, 1] + 1 + entries)

    @property
    def idle(self) -> bool:
        """Whether no feature is centered, for good, and targets are learned as they are."""
        return not self.features.shape[0] and not self.watches and self.origin[0] == 0.0

    @property
    def means(self) -> Floats:
        """The means of centered features."""
        return self.sums / self.rows

    def in_random_order(self) -> Centering:
        """Return the centering of rows in random order; unchanged after the first row, whose order was another."""
        return self if self.rows else self._replace(far=np.array([FAR_IN_RANDOM_ORDER]))

    def decided(self, entries: int = 0) -> Centering:
        """Return the centering with the centered features decided; the last row has this many entries."""
        feature, number, total, low, high, _, steps, scatter = self.seen.T
        absent = number < self.rows
        low, high = np.where(absent, np.minimum(low, 0.0), low), np.where(absent, np.maximum(high, 0.0), high)
        mean = total / self.rows
        distance = np.maximum(high - mean, mean - low)
        distance = np.where(distance < ONLY_ROUNDING * np.abs(mean), 0.0, distance)  # no unit for later values
        chosen = (number >= NEARLY_ALL * self.rows) & (np.abs(mean) > FAR_FROM_0 * distance)
        chosen &= (mean != 1.0) | (distance > 0.0)  # 1 in every row: an indicator of sparse rows
        shuffled = (steps > RANDOM_RATIO * scatter) | (self.far[0] < FAR_FROM_0)
        shuffled &= number >= OFTEN_ENOUGH * self.rows
        if np.count_nonzero(chosen | shuffled) >= MOST_ENTRIES * entries:
            chosen |= shuffled & (np.abs(mean) > FAR_IN_RANDOM_ORDER * distance)
        kept = {"features": feature[chosen].astype(np.int32), "sums": total[chosen], "widths": distance[chosen]}
        return self._replace(window=NO_WINDOW, first=NO_FIRST, **kept, missing=none_missing(int(chosen.sum())))

    def with_indicators(self, indicators: Indices) -> Centering:
        """Return the centering where indicators[i] is the indicator of missing values of feature i, -1 without one."""
        known, missing = self.features < len(indicators), none_missing(len(self.features))
        missing[known] = indicators[self.features[known]]
        return self if np.array_equal(missing, self.missing) else self._replace(missing=missing)

    def add_to_missing(self, w: Floats, sign: float = 1.0, learned: bool = False) -> None:
        """Add the scores of the means to the weights of missing values, or subtract them, in place.

        With `learned` weights of 0 stay: that value was never missing, and another feature may get the number of its
        indicator.
        """
        there = self.missing >= 0
        if not there.any():
            return
        there &= (self.missing < len(w)) & (self.features < len(w))
        if learned:
            there[there] = np.any(np.atleast_2d(w[self.missing[there]].T != 0.0), axis=0)
        if there.any():
            w[self.missing[there]] += sign * (w[self.features[there]].T * self.means[there]).T

    def with_targets(self, y: Floats, sample_weights: Floats) -> Centering:
        """Return the centering after these of the first targets; without a sample weight a target does not count."""
        if not self.watches or not self.targets.shape[0]:
            return self
        origin, targets = self.origin.copy(), self.targets.copy()
        for target in y[sample_weights > 0.0].tolist():
            number = int(origin[1])
            if number == 0:
                origin[0] = target
            if number < WINDOW:
                targets[number] = target
                origin[1] += 1.0
        return self._replace(origin=origin, targets=targets)

    @property
    def median(self) -> float:
        """The origin that is due: the lower median of the first targets after 2, 4, 8 and 16 rows, else that of now."""
        rows, number = int(self.rows), int(self.origin[1])
        if not self.targets.shape[0] or not number or rows & (rows - 1):
            return float(self.origin[0])
        return float(np.sort(self.targets[:number])[(number - 1) // 2])

    def with_origin(self, origin: float) -> Centering:
        """Return the centering with this origin of targets."""
        return self._replace(origin=np.array([origin, self.origin[1]]))

    def with_larger_window(self, entries: int) -> Centering:
        """Return a copy with its own arrays and memory for the rest of the first rows, of this many entries."""
        first = memory_after(self.rows, WINDOW * (entries + 1))
        return own_centering(self._replace(window=self.seen, first=first))

    def placed(self, places: Any) -> Centering:
        """Return the centering where places[i] is the old feature i; features with a place below 0 are dropped."""
        places, window = np.asarray(places, np.int64), self.seen
        new, seen = places[self.features], places[window[:, 0].astype(np.int64)]
        order, rank = (np.argsort(p, kind="stable")[np.count_nonzero(p < 0) :] for p in (new, seen))
        window = np.hstack([seen[:, None], window[:, 1:]])[rank]
        kept = {"features": new[order].astype(np.int32), "sums": self.sums[order], "widths": self.widths[order]}
        return self._replace(window=window, first=NO_FIRST, **kept, missing=none_missing(len(order)))

    def selected(self, kept: Any) -> Centering:
        """Return the centering if only these features are kept, in this order."""
        if self.idle:
            return self
        numbers = np.concatenate([kept, self.features, self.seen[:, 0]])
        places = np.full(int(numbers.max(initial=-1)) + 1, -1)
        places[kept] = np.arange(len(kept))
        return self.placed(places)

    def arrays(self) -> dict[str, Any]:
        """Return the arrays, by name; before the first row without an origin, as in files that had none."""
        parts = self._replace(window=self.seen, features=self.features.astype(np.float64))._asdict()  # type: ignore[arg-type]
        del parts["first"], parts["missing"]
        if not self.rows and self.targets.shape[0]:
            del parts["origin"], parts["targets"]
        return {f"centring.{name}": array for name, array in parts.items()}


def none_missing(features: int) -> Indices:
    """Return the `Centering.missing` of features without indicators of missing values."""
    return np.full(features, -1, np.int32)


#: The window before the first row.
NO_WINDOW = np.zeros((0, NUMBERS_SEEN))
#: Memory for no rows.
NO_FIRST = memory_after(0.0, 0)
#: The targets of an origin that does not change.
NO_TARGETS = np.empty(0)
#: Before the first row, with targets as they are.
NO_ROWS = Centering(
    np.zeros(1),
    NO_WINDOW,
    NO_FIRST,
    np.empty(0, np.int32),
    np.empty(0),
    np.empty(0),
    np.array([FAR_FROM_0]),
    np.zeros(2),
    NO_TARGETS,
    none_missing(0),
)
#: Before the first row, where an origin is subtracted from targets.
NO_ORIGIN = NO_ROWS._replace(targets=np.zeros(WINDOW))
#: No feature is centered, for good.
AS_THEY_ARE = NO_ROWS._replace(so_far=np.array([float(WINDOW)]))


def own_centering(centering: Centering) -> Centering:
    """Return a copy with its own arrays."""
    return Centering._make(array.copy() for array in centering)


def united_windows(parts: list[Centering]) -> Floats:
    """Return the `seen` of several parts of the first rows together."""
    windows = [part.seen for part in parts]
    feature = np.unique(np.concatenate([window[:, 0] for window in windows]))
    found = np.tile([0.0, 0.0, 0.0, np.inf, -np.inf, 0.0, 0.0, 0.0], (len(feature), 1))
    found[:, 0], rows = feature, 0.0
    for part, window in zip(parts, windows, strict=True):
        place, both = np.searchsorted(feature, window[:, 0]), rows + part.rows
        apart = found[place, 2] / max(rows, 1.0) - window[:, 2] / max(part.rows, 1.0)
        found[place, 1:3] += window[:, 1:3]
        found[place, 3] = np.minimum(found[place, 3], window[:, 3])
        found[place, 4] = np.maximum(found[place, 4], window[:, 4])
        found[place, 5] = window[:, 5]
        found[place, 6:] += window[:, 6:]
        found[place, 7] += apart**2 * rows * part.rows / max(both, 1.0)
        rows = both
    return found


def after_first(window: Floats, rows: float, far: Floats) -> Centering:
    """Return the centering with this `window`, without features that too many of the first rows lack."""
    possible = window[:, 1] >= fewest_rows(rows)
    return NO_ROWS._replace(so_far=np.array([rows]), window=window[possible], far=far)


def joined_targets(parts: list[Centering]) -> tuple[float, Floats]:
    """Return the number of the first targets of several parts, and these; none if a part has settled its origin."""
    first = np.concatenate([part.targets[: int(part.origin[1])] for part in parts])[:WINDOW]
    targets = np.zeros(WINDOW)
    targets[: len(first)] = first
    settled = any(not part.targets.shape[0] for part in parts)
    return (1.0, NO_TARGETS) if settled else (float(len(first)), targets)


def watched_rows(centering: Centering, chunk: Chunk, indicators: Indices | None) -> Centering:
    """Return the statistics of features after some more of the first rows; for `indicators` see `Engine.indicators`."""
    known = none_missing(0) if indicators is None else indicators
    numbers = np.repeat(np.arange(chunk.rows), np.diff(chunk.indptr))
    window = with_rows(centering.seen, centering.rows, chunk.rows, numbers, chunk.indices, chunk.data, known)
    return centering._replace(so_far=centering.so_far + chunk.rows, window=window, first=NO_FIRST)


def shifted(intercept: Any, shift: float) -> Any:
    """Return what is nearest to 0 between intercepts and intercepts plus a shift.

    >>> [float(shifted(intercept, 5.0)) for intercept in (-8.0, -4.0, 1.0)]
    [-3.0, 0.0, 1.0]
    """
    moved = intercept + shift
    return np.maximum(np.minimum(intercept, moved), np.minimum(np.maximum(intercept, moved), 0.0))


def less(y: Any, origin: float) -> Any:
    """Return targets less their origin; codes of classes, whose origin is 0, as they are."""
    return y - origin if origin else y


def first_loss(loss: Any, y: Any, sample_weights: Any) -> float:
    """Return the weighted sum of the losses of targets that are predicted as 0."""
    return float(sum(w * loss.value(0.0, target) for w, target in zip(sample_weights, y, strict=True)))


def first_centering(loss: Any) -> Centering:
    """Return the centering before the first row, with an origin of targets if the loss allows it."""
    return NO_ORIGIN if loss.shift_invariant else NO_ROWS


def centering_from(arrays: dict[str, Any], features: int, before: Centering) -> Centering:
    """Return the centering with these `arrays`, of this many features; ValueError if they do not fit.

    `before` is the centering before the first row. If that has an origin for good, it stays as it is in the arrays.
    """
    if not len(arrays.get("centring.widths", ())):  # in older files: the next values set them
        arrays = {**arrays, "centring.widths": np.zeros_like(arrays.get("centring.sums", NO_ROWS.sums))}
    window = arrays.get("centring.window", NO_WINDOW)
    if window.ndim == 2 and window.shape[1] == 5:  # in older files: columns that are not in random order
        arrays = {**arrays, "centring.window": np.hstack([window, np.zeros((len(window), NUMBERS_SEEN - 5))])}
    if "centring.origin" not in arrays:  # before the first row, and in older files, whose origin is 0
        first = before if not np.any(arrays.get("centring.so_far", 1.0)) else NO_ROWS
        arrays = {**arrays, "centring.origin": first.origin, "centring.targets": first.targets}
    for name, own in NO_ROWS.arrays().items():
        array = arrays.get(name)
        if array is None or array.dtype != np.float64 or array.ndim != own.ndim or not np.isfinite(array).all():
            raise ValueError(f"array {name!r} is missing or does not fit the update")
    names = [name for name in Centering._fields if name not in ("first", "missing")]
    rows, window, chosen, sums, widths, far, *origin = (arrays[f"centring.{name}"] for name in names)
    rising = (np.diff(chosen) > 0.0).all() and (chosen >= 0.0).all() and (chosen < features).all()
    one = rows.shape == far.shape == (1,) and rows[0] >= 0.0 and far[0] > 0.0
    if not one or window.shape[1:] != (NUMBERS_SEEN,) or not sums.shape == widths.shape == chosen.shape or not rising:
        raise ValueError("arrays 'centring' do not fit the update")
    if (chosen != np.floor(chosen)).any() or (chosen.shape[0] and rows[0] < 1.0):
        raise ValueError("arrays 'centring' do not name features that have a mean")
    if (widths < 0.0).any():
        raise ValueError("array 'centring.widths' must not be negative")
    number = origin[0][1] if origin[0].shape == (2,) else -1.0
    if not (0.0 <= number <= WINDOW and number.is_integer()) or origin[1].shape[0] not in (0, WINDOW):
        raise ValueError("arrays 'centring' do not have an origin of targets")
    targets = origin[1] if before.targets.shape[0] else NO_TARGETS
    centered, missing = chosen.astype(np.int32), none_missing(len(chosen))
    return own_centering(Centering(rows, window, NO_FIRST, centered, sums, widths, far, origin[0], targets, missing))
