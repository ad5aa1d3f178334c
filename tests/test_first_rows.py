"""The first 25 rows of a stream: bounds relative to the error of the running mean of targets."""

import numpy as np
import pytest
from interpreted import interpret

from fiol import Learner

SEEDS = range(6)


def sparse_rows(draw):
    """Return rows of 40 of 400 small values, and targets 0 and 1."""
    X = np.where(draw.random((25, 400)) < 0.1, 0.1 * draw.random((25, 400)), 0.0)
    z = X @ draw.normal(size=400)
    return X, (z > np.median(z)).astype(float)


def noise(draw):
    """Return dense rows and targets around 0.5 that columns say little about."""
    X = draw.normal(size=(25, 10))
    return X, 0.5 + 0.03 * X @ draw.normal(size=10) + 0.1 * draw.normal(size=25)


def line(draw):
    """Return dense rows and targets that are nearly linear in five columns."""
    X = draw.normal(size=(25, 5))
    return X, X @ draw.normal(size=5) + 0.3 * draw.normal(size=25)


@pytest.mark.parametrize(("rows", "bound"), [(sparse_rows, 1.5), (noise, 1.3), (line, 0.6)])
def test_first_25_rows_have_at_most_this_error_relative_to_the_running_mean(rows, bound, monkeypatch):
    interpret(monkeypatch)
    ours, means = 0.0, 0.0
    for seed in SEEDS:
        X, y = rows(np.random.default_rng(seed))
        before = np.concatenate([[0.0], np.cumsum(y)[:-1] / np.arange(1, len(y))])
        ours += np.mean((Learner("squared").learn(X, y) - y) ** 2)
        means += np.mean((before - y) ** 2)
    assert ours <= bound * means
