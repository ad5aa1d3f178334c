"""Sparse, partly seen rows, and ensembles with and without SIMD lanes."""

from __future__ import annotations

from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import pytest
from scipy import sparse

import fiol
from fiol import AdaGrad, Constant, Curvature, Learner, Normalized, ScaleFree
from fiol.engine.ensemble import lane_group as lane_members

#: Every loss that can be a lane.
BINARY = [fiol.Logistic(), fiol.Hinge(), fiol.SquaredHinge()]
REAL = [fiol.Squared(), fiol.Huber(0.7), fiol.Absolute(), fiol.Quantile(0.3), fiol.EpsilonInsensitive(0.2)]
REAL += [fiol.SquaredEpsilonInsensitive(0.2)]
LOSSES = BINARY + REAL
#: Every step rule that can be a lane, plain and in `ScaleFree`.
PLAIN = [Constant(0.3), AdaGrad(0.5), Normalized(0.7), Curvature(prior=2.0)]
SCALE_FREE = [ScaleFree(step) for step in (Constant(10.0), AdaGrad(30.0), Normalized(0.3), Curvature())]
RULES = PLAIN + SCALE_FREE


class Stream(NamedTuple):
    """Rows, their targets and sample weights."""

    X: sparse.csr_matrix
    y: np.ndarray
    weight: np.ndarray

    def part(self, rows):
        return Stream(self.X[rows], self.y[rows], self.weight[rows])

    def named(self):
        """The rows as dicts, features by name."""
        found = []
        for r in range(self.X.shape[0]):
            row = self.X[r]
            found.append({f"f{i}": float(v) for i, v in zip(row.indices, row.data, strict=True)})
        return found


def partly_seen(loss, rows=15, features=9, seed=0, shards=1, units=1e3):
    """Rows that have a random part of the features each, in different units.

    Feature 0 is in no row, feature 1 first in the second half, feature 2 is absent for long, and an even part of the
    rest are in the rows of one of the `shards` alone; a row is empty; some values are far beyond the largest so far.
    """
    rng = np.random.default_rng(seed)
    scale = np.logspace(-1.0, 1.0, features) ** np.log10(units)
    present = rng.random((rows, features)) < 0.5
    present[:, 0], present[: rows // 2, 1], present[rows // 5 : 4 * rows // 5, 2] = False, False, False
    present[rows // 3] = False
    if shards > 1:
        own, shard = rng.integers(0, 2 * shards, features), np.arange(rows) * shards // rows
        present &= (own[None] >= shards) | (own[None] == shard[:, None])
    X = rng.normal(size=(rows, features))
    truth = rng.normal(size=features)
    z = (X * present) @ truth + 0.5 * rng.normal(size=rows)
    X *= scale
    X[rng.random((rows, features)) < 0.04] *= 30.0
    y = np.where(z > 0.0, 1.0, -1.0) if isinstance(loss, fiol.Binary) else 3.0 * z
    place = np.append(0, np.cumsum(present.sum(axis=1)))
    found = sparse.csr_matrix((X[present], np.nonzero(present)[1].astype(np.int32), place), shape=X.shape)
    return Stream(found, y, rng.choice([0.0, 0.5, 1.0, 1.0, 3.0], rows))


@contextmanager
def lanes(used):
    """Let ensembles that are made in the interpreter have their members in lanes, or not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lane_members, "INTERPRETED", used)
        yield


def ensemble_learner(update, in_lanes, compiled=False, **options):
    """A learner of an ensemble with the members in lanes, or each for itself."""
    with lanes(in_lanes):
        found = Learner(update, compiled=compiled, **options)
    found.engine.settle_origin()  # at 0: learners alone would have origins of their own
    members = len(update.members)
    assert len(found.engine.members_in_use.in_lanes) == members * (in_lanes or compiled)
    return found


def learner_alone(update, **options):
    """A learner that learns targets as they are, as an `ensemble_learner` does: with an origin of 0."""
    found = Learner(update, **options)
    found.engine.settle_origin()
    return found


def tolerance(dtype):
    """Relative differences that rounding makes."""
    return 1e-9 if dtype == "float64" else 1e-4


def assert_scores_match(found, expected, dtype="float64"):
    """Compare scores, which are sums: each with the largest so far."""
    scale = np.maximum.accumulate(np.abs(expected), axis=0)
    np.testing.assert_array_less(np.abs(found - expected), tolerance(dtype) * (scale + 1e-3))


def assert_weights_match(found, expected, stream, dtype="float64"):
    """Compare the weights of two learners, each in the unit of its feature, and their intercepts."""
    scale = np.maximum(np.abs(stream.X).max(axis=0).toarray()[0], 1e-300)
    own, other = (np.append(one.weights * scale[: len(one.weights)], one.intercept) for one in (found, expected))
    np.testing.assert_array_less(np.abs(own - other), tolerance(dtype) * (np.abs(other).max() + 1e-3))
    assert (found.rows, found.rounds) == (expected.rows, expected.rounds)
