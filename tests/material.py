"""Components and random problems for tests."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

import fiol

LOSSES = [
    fiol.Squared(),
    fiol.Absolute(),
    fiol.Quantile(0.3),
    fiol.EpsilonInsensitive(0.5),
    fiol.SquaredEpsilonInsensitive(0.5),
    fiol.Huber(1.5),
    fiol.Hinge(),
    fiol.SquaredHinge(),
    fiol.Logistic(),
    fiol.Exponential(),
    fiol.Poisson(),
]
SOLVERS = [
    fiol.Newton(),
    fiol.Bisection(),
    fiol.Sorting(),
    fiol.Partition(),
    fiol.Partition(fiol.MedianOfMedians()),
    fiol.ClosedForm(),
]
QUADRATIC = ["Euclidean", "DiagonalMetric", "Mahalanobis"]
ENTROPIC = ["Entropy", "SignedEntropy", "Simplex"]


def name(component):
    return repr(component)


class Case(NamedTuple):
    """Everything `solve_step` takes."""

    x: np.ndarray
    y: float
    w: np.ndarray
    loss: fiol.Loss
    regularizer: fiol.Regularizer
    geometry: fiol.Geometry
    eta: float
    weight: float

    def solve(self, solver=None, compiled=False, x=None):
        return fiol.solve_step(
            self.x if x is None else x,
            self.y,
            self.w,
            loss=self.loss,
            regularizer=self.regularizer,
            geometry=self.geometry,
            eta=self.eta,
            sample_weight=self.weight,
            solver=solver,
            compiled=compiled,
        )

    def solvers(self):
        working = self.geometry.working()
        return [s for s in SOLVERS if not s.objection(self.regularizer, working)]


def magnitudes(low, high):
    """Positive numbers spread evenly over the decades from 10^low to 10^high."""
    return st.floats(low, high).map(lambda e: 10.0**e)


def signed(low, high):
    return st.tuples(st.sampled_from([-1.0, 1.0]), magnitudes(low, high)).map(lambda t: t[0] * t[1])


def strengths(d):
    one = st.one_of(st.just(0.0), magnitudes(-6, 3))
    return st.one_of(one, one, st.lists(one, min_size=d, max_size=d).map(np.array))


@st.composite
def regularizers(draw, d, boxed=True):
    lam = strengths(d)
    plain = draw(
        st.one_of(
            st.just(fiol.Unregularized()),
            lam.map(fiol.L1),
            lam.map(fiol.Ridge),
            st.builds(fiol.ElasticNet, lam, lam),
        )
    )
    if not boxed or draw(st.integers(0, 2)):
        return plain
    lo = draw(st.one_of(st.just(-np.inf), st.just(0.0), signed(-3, 2)))
    hi = draw(st.one_of(st.just(np.inf), magnitudes(-2, 3).map(lambda width: max(lo, -width) + width)))
    return fiol.Box(plain, lo, hi)


def targets(loss):
    if isinstance(loss, fiol.Binary):
        return st.sampled_from([-1.0, 1.0])
    return magnitudes(-2, 3) if isinstance(loss, fiol.Poisson) else st.one_of(st.just(0.0), signed(-2, 3))


@st.composite
def cases(draw, kinds, wide=False, losses=LOSSES):
    """Rows with zeros, ties and repeated weights; `wide` lets features reach from 1e-150 to 1e150."""
    d = draw(st.integers(1, 6))
    loss, kind = draw(st.sampled_from(losses)), draw(st.sampled_from(kinds))
    feature = st.one_of(st.just(0.0), st.sampled_from([1.0, -1.0]), signed(-150, 150) if wide else signed(-2, 2))
    x = np.array(draw(st.lists(feature, min_size=d, max_size=d)))
    value = st.one_of(st.just(0.0), st.just(1.0), signed(-3, 3))
    w = np.array(draw(st.lists(value, min_size=d, max_size=d)))
    w = w / np.maximum(np.abs(x), 1.0)  # margins stay within about 1e3
    regularizer = draw(regularizers(d, boxed=not wide))
    geometry = fiol.Euclidean()
    if kind == "DiagonalMetric":
        geometry = fiol.DiagonalMetric(draw(st.lists(magnitudes(-3, 3), min_size=d, max_size=d)))
    elif kind == "Mahalanobis":
        a = np.random.default_rng(draw(st.integers(0, 99))).standard_normal((d, d))
        geometry = fiol.Mahalanobis(a @ a.T + np.eye(d))
        regularizer = draw(st.one_of(st.just(fiol.Unregularized()), magnitudes(-6, 3).map(fiol.Ridge)))
    elif kind in ENTROPIC:
        geometry = getattr(fiol, kind)()
        w = np.abs(w)
        if kind == "SignedEntropy":
            w = fiol.SignedEntropy.split(np.clip(w, 0, 30.0))
        if kind == "Simplex":
            w = (w + 1e-3) / (w + 1e-3).sum()
            lam = strengths(d)
            regularizer = draw(st.one_of(st.just(fiol.Unregularized()), lam.map(fiol.L1)))
        elif isinstance(regularizer, fiol.Box) and regularizer.hi <= 0.0:
            regularizer = regularizer.replace(lo=0.0, hi=1.0)
    weight = draw(st.one_of(st.just(1.0), st.just(0.0), magnitudes(-2, 3)))
    return Case(x, draw(targets(loss)), w, loss, regularizer, geometry, draw(magnitudes(-6, 6)), weight)
