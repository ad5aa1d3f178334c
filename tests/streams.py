"""Random streams and updates with random switches, for tests of whole streams."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import NamedTuple

import numpy as np
from material import LOSSES
from oracles import table1

import fiol

LOSS_STEPS = {
    "implicit": fiol.ImplicitLoss(),
    "linearized": fiol.LinearizedLoss(),
    "importance-aware": fiol.ImportanceAware(),
    "truncated": fiol.Truncated(),
}
REGULARIZER_STEPS = {
    "implicit": fiol.ImplicitRegularizer(),
    "once": fiol.RegularizerOnce(),
    "linearized": fiol.LinearizedRegularizer(),
    "none": fiol.IgnoredRegularizer(),
}
GEOMETRIES = ("Euclidean", "DiagonalMetric", "Mahalanobis", "Entropy", "SignedEntropy", "Simplex")
ANCHORS = {"last": fiol.LastIterate(), "origin": fiol.Origin(), "all": fiol.AllIterates()}


class Stream(NamedTuple):
    x: np.ndarray
    y: np.ndarray
    weight: np.ndarray


class Draws:
    """Everything from one seed: hypothesis draws many of those, but draws long lists slowly and mostly small ones."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def pick(self, *choices):
        return choices[self.rng.integers(len(choices))]

    def size(self, *shape):
        return 10.0 ** self.rng.uniform(-3.0, 1.0, shape)

    def start(self):
        """A loss, how many features there are, whether there is an intercept, and whether averages are kept."""
        return self.pick(*LOSSES), self.pick(1, 2, 3, 5), self.pick(False, True), self.pick(False, True)

    def stream(self, loss, d, scales=(0, 0, 0, -3, 3, -6, 6), heavy=1000.0):
        """Short and sparse, with empty rows, columns of very different size, samples that count 0 or 1000 times."""
        rng, n = self.rng, self.rng.integers(1, 10)
        x = rng.choice([0.0, 0.0, 1.0, -1.0, 2.0, np.nan], (n, d))
        x = np.where(np.isnan(x), rng.standard_normal((n, d)), x) * 10.0 ** rng.choice(scales, d)
        sign, size = rng.choice([-1.0, 1.0], n), 10.0 ** rng.uniform(-1.0, 1.0, n)
        y = sign if isinstance(loss, fiol.Binary) else size if isinstance(loss, fiol.Poisson) else sign * size
        return Stream(x, y, rng.choice([1.0, 1.0, 1.0, 0.5, 0.0, heavy], n))

    def penalty(self, d, per_feature=True, boxed=True):
        def strength():
            own = self.size(d) * self.rng.integers(0, 2, d) if per_feature and self.pick(False, True) else None
            return self.size() if own is None else own

        kind = self.pick(fiol.Unregularized, fiol.L1, fiol.Ridge, fiol.ElasticNet)
        plain = kind(*(strength() for _ in dataclasses.fields(kind)))
        lo = self.rng.standard_normal()
        box = self.pick(None, None, (0.0, np.inf), (lo, lo + self.size())) if boxed else None
        return fiol.Box(plain, *box) if box else plain

    def step_size(self, adaptive=True):
        size, other = self.size(), self.size()
        adagrad = fiol.AdaGrad(size, self.pick(0.0, 1.0, other))
        schedule = self.pick(
            fiol.Constant(size),
            fiol.FixedHorizon(size, other, 10.0),
            fiol.Anytime(size, other),
            fiol.Inverse(size),
            fiol.Polynomial(size, self.pick(0.0, 0.5, 1.0)),
        )
        # One of these by the digits of a number that is drawn already: one more draw would change all that follow.
        others = fiol.Curvature(size, other), fiol.Curvature(size, other, size), fiol.Normalized(size)
        second = others[int(1e6 * other) % 3]
        free = fiol.ScaleFree(self.pick(adagrad, second, schedule))
        return self.pick(schedule, schedule, adagrad, second, free) if adaptive else schedule


def geometry_of(draws, kind, d):
    if kind == "DiagonalMetric":
        return fiol.DiagonalMetric(draws.size(d))
    if kind == "Mahalanobis":
        a = draws.rng.standard_normal((d, d))
        return fiol.Mahalanobis(a @ a.T + np.eye(d))
    return getattr(fiol, kind)()


def penalty_for(draws, kind, d):
    """One that goes with the geometry."""
    if kind == "Mahalanobis":
        return draws.pick(fiol.Unregularized(), fiol.Ridge(draws.size()))
    if kind == "Simplex":
        return draws.pick(fiol.Unregularized(), fiol.L1(draws.size(d)))
    penalty = draws.penalty(d)
    if "Entropy" in kind and isinstance(penalty, fiol.Box):
        return penalty.replace(lo=abs(penalty.lo), hi=abs(penalty.lo) + 1.5)
    return penalty


def raw_beside_bounds(step, regularizer):
    """The step size, with raw penalties if there are bounds that have a unit."""
    raw = isinstance(step, fiol.ScaleFree) and not set(regularizer.bounds()) <= {0.0, np.inf, -np.inf}
    return step.replace(raw_penalty=1) if raw else step


def switched(draws, kind, how=None):
    """An update with all switches at random, its stream, and its oracle."""
    loss, d, intercept, average = draws.start()
    rotated = kind in ("Mahalanobis", "Simplex")
    anchor = "last" if rotated else draws.pick(*ANCHORS)
    refused = ["linearized"] * (kind == "Simplex") + ["once"] * (anchor == "last")
    how, penalized = how or draws.pick(*LOSS_STEPS), draws.pick(*(s for s in REGULARIZER_STEPS if s not in refused))
    elsewhere = anchor != "last" or penalized == "linearized"  # the path does not start at the weights
    if "Entropy" in kind and how in ("importance-aware", "truncated") and elsewhere:
        how = "implicit"
    geometry, regularizer = geometry_of(draws, kind, d), penalty_for(draws, kind, d)
    step = raw_beside_bounds(draws.step_size(adaptive=not rotated), regularizer)
    scales = (0, 0, -1, 1) if "Entropy" in kind or kind == "Simplex" else (0, 0, 0, -3, 3, -6, 6)
    stream = draws.stream(loss, d, scales)
    update = fiol.Update(
        loss, regularizer, step, LOSS_STEPS[how], REGULARIZER_STEPS[penalized], ANCHORS[anchor], geometry
    )
    parts = stream, loss, table1.penalty_of(regularizer), step, how, penalized, anchor, geometry
    return update, (stream, intercept, average), partial(table1.play, *parts, intercept=intercept)
