"""Centring: columns far from 0 are learned as if their mean were 0.

A column of mean 1000 and standard deviation 1 is nearly one more intercept: what it says about targets is lost among
the digits of what the intercept says as well. With the mean m of the values so far taken away, the score

    b + sum of w_i (x_i - m_i)

is that of a linear model all the same, with the weights w_i and the intercept b - sum of w_i m_i: those are what a
learner tells. The rounds of a row see x_i - m_i with the means before the row, so that its score is the one that was
predicted; the means then go on.

Which features are centred is decided after the first `WINDOW` rows: those that were in nearly all of them, and whose
mean was large beside their distances from it. They are centred in every row from then on, also if they are absent, as
a value of 0 is in any container. All others, of sparse rows most or all, stay as they are, at no cost.

How large is a question of what rows are. Those of a stream have means that may move, and a mean that lags behind is
worse than none: it has to be clearly larger. Rows in random order, as an estimator's `fit` has them, have means that
stay, and half of the largest distance is enough (`Centring.in_random_order`).

When a feature becomes centred, the intercept takes over what its weight said about the mean, so that no prediction
changes, and what is known for its steps begins anew, with the distances from the mean in the place of values. (Anchors
that keep all rounds forget the weight, too: it follows from sums over values that were not centred.)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fiol.components.row import Floats, Indices
from fiol.intake.chunk import Chunk

#: After so many rows it is decided which features are centred.
WINDOW = 32
#: Those that are in this part of the rows,
NEARLY_ALL = 0.9
#: with a mean of more than so many times the largest distance from it,
FAR_FROM_0 = 2.0
#: or so many times where means do not move.
FAR_IN_RANDOM_ORDER = 0.5


class Centring(NamedTuple):
    """The means of centred features, and until it is decided which these are, what is known of all."""

    so_far: Floats  #: rows there were, as an array of one
    window: Floats  #: of the first rows, a feature each: its number, how many it is in, sum, least and largest value
    features: Indices  #: the centred ones, rising
    sums: Floats  #: and the sums of their values in all rows; single events add to them in place
    far: Floats  #: so many times its largest distance from it a mean has to be large, as an array of one

    @property
    def rows(self) -> float:
        """Rows there were."""
        return float(self.so_far[0])

    @property
    def watches(self) -> bool:
        """Whether it is still to be decided which features are centred."""
        return self.rows < WINDOW

    @property
    def idle(self) -> bool:
        """Whether rows are as they are, for good."""
        return not self.features.shape[0] and not self.watches

    @property
    def means(self) -> Floats:
        """The means of centred features."""
        return self.sums / self.rows

    def in_random_order(self) -> Centring:
        """The same where all rows come in random order; rows that were there before did not."""
        return self if self.rows else self._replace(far=np.array([FAR_IN_RANDOM_ORDER]))

    def watched(self, chunk: Chunk) -> Centring:
        """The same after some of the first rows."""
        rows, found = self.rows + chunk.rows, united_windows([self], chunk.indices)
        place = np.searchsorted(found[:, 0], chunk.indices)
        np.add.at(found[:, 1], place, 1.0)  # one after the other: sums do not depend on how rows are cut
        np.add.at(found[:, 2], place, chunk.data)
        np.minimum.at(found[:, 3], place, chunk.data)
        np.maximum.at(found[:, 4], place, chunk.data)
        return after_first(found, rows, self.far)

    def decided(self) -> tuple[Centring, Floats]:
        """The same with the features that are centred from now on, and the largest distance of each from its mean."""
        feature, number, total, low, high = self.window.T
        absent = number < self.rows
        low, high = np.where(absent, np.minimum(low, 0.0), low), np.where(absent, np.maximum(high, 0.0), high)
        mean = total / self.rows
        distance = np.maximum(high - mean, mean - low)
        chosen = (number >= NEARLY_ALL * self.rows) & (np.abs(mean) > self.far[0] * distance)
        new = self._replace(window=NO_WINDOW, features=feature[chosen].astype(np.int32), sums=total[chosen])
        return new, distance[chosen]

    def placed(self, places: Any) -> Centring:
        """The same where places[i] is what was feature i; features with a place below 0 are forgotten."""
        places = np.asarray(places, np.int64)
        new, seen = places[self.features], places[self.window[:, 0].astype(np.int64)]
        order, rank = (np.argsort(p, kind="stable")[np.count_nonzero(p < 0) :] for p in (new, seen))
        window = np.hstack([seen[:, None], self.window[:, 1:]])[rank]
        return self._replace(window=window, features=new[order].astype(np.int32), sums=self.sums[order])

    def arrays(self) -> dict[str, Any]:
        """What is kept, by name."""
        parts = self._replace(features=self.features.astype(np.float64))._asdict()  # type: ignore[arg-type]
        return {f"centring.{name}": array for name, array in parts.items()}


#: Nothing is known of any feature.
NO_WINDOW = np.zeros((0, 5))
#: Before the first row.
NO_ROWS = Centring(np.zeros(1), NO_WINDOW, np.empty(0, np.int32), np.empty(0), np.array([FAR_FROM_0]))
#: It is decided that no feature is centred.
AS_THEY_ARE = NO_ROWS._replace(so_far=np.array([float(WINDOW)]))


def own_centring(centring: Centring) -> Centring:
    """The same with arrays of its own: single events add to sums in place."""
    return Centring._make(array.copy() for array in centring)


def united_windows(parts: list[Centring], more: Any = ()) -> Floats:
    """What is known of features in several parts of the first rows, as a `window`, with `more` features."""
    feature = np.unique(np.concatenate([more, *(part.window[:, 0] for part in parts)]))
    found = np.tile([0.0, 0.0, 0.0, np.inf, -np.inf], (len(feature), 1))
    found[:, 0] = feature
    for part in parts:
        place = np.searchsorted(feature, part.window[:, 0])
        found[place, 1:3] += part.window[:, 1:3]
        found[place, 3] = np.minimum(found[place, 3], part.window[:, 3])
        found[place, 4] = np.maximum(found[place, 4], part.window[:, 4])
    return found


def after_first(window: Floats, rows: float, far: Floats) -> Centring:
    """The one that knows this of the first rows; features that can no longer be in nearly all of them are forgotten."""
    possible = window[:, 1] >= rows - (1.0 - NEARLY_ALL) * max(rows, WINDOW)
    return NO_ROWS._replace(so_far=np.array([rows]), window=window[possible], far=far)


def centring_from(arrays: dict[str, Any], features: int) -> Centring:
    """The one whose `arrays` these are, of so many features; ValueError if they are not."""
    for name, own in NO_ROWS.arrays().items():
        array = arrays.get(name)
        if array is None or array.dtype != np.float64 or array.ndim != own.ndim or not np.isfinite(array).all():
            raise ValueError(f"array {name!r} is missing or does not fit the update")
    rows, window, chosen, sums, far = (arrays[f"centring.{name}"] for name in Centring._fields)
    rising = (np.diff(chosen) > 0.0).all() and (chosen >= 0.0).all() and (chosen < features).all()
    one = rows.shape == far.shape == (1,) and rows[0] >= 0.0 and far[0] > 0.0
    if not one or window.shape[1:] != (5,) or sums.shape != chosen.shape or not rising:
        raise ValueError("arrays 'centring' do not fit the update")
    if (chosen != np.floor(chosen)).any() or (chosen.shape[0] and rows[0] < 1.0):
        raise ValueError("arrays 'centring' do not name features that have a mean")
    return Centring(rows.copy(), window.copy(), chosen.astype(np.int32), sums.copy(), far.copy())
