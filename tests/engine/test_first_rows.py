"""Statistics of the first rows do not depend on how the rows come."""

import numpy as np
import pytest

import fiol
from fiol.engine.centering import NO_ROWS, watched_rows
from fiol.engine.first_rows import WINDOW, memory_after, with_noted_rows


def row_by_row(X, indicators=None):
    """Return `seen` after the rows, each added as a chunk."""
    centering, rows = NO_ROWS, fiol.to_chunk(X)
    for r in range(len(X)):
        centering = watched_rows(centering, rows.row_block(r, r + 1), indicators)
    return centering.seen


@pytest.mark.parametrize("before", [0, 1, 5])
def test_noted_rows_have_the_statistics_of_a_chunk(before):
    X = np.random.default_rng(1).standard_normal((12, 7)) * (np.random.default_rng(2).random((12, 7)) < 0.8)
    X[7] = 0.0  # a row without entries is noted by its number alone
    X[-1] = 0.0
    start = watched_rows(NO_ROWS, fiol.to_chunk(X[:before]), None) if before else NO_ROWS
    first, line = memory_after(float(before), X.size), 1
    for r in range(before, len(X)):
        for i in np.flatnonzero(X[r]):
            first[line], line = (r + 1.0, i, X[r, i]), line + 1
    first[0, 1] = line - 1
    found = with_noted_rows(start.seen, first, float(len(X)))
    np.testing.assert_array_equal(found, watched_rows(NO_ROWS, fiol.to_chunk(X), None).seen)
    np.testing.assert_array_equal(found, row_by_row(X))


def test_statistics_are_those_of_columns_with_missing_values_at_the_mean():
    X = np.random.default_rng(3).random((WINDOW, 3)) + 1.0
    X[:, 2] = 0.0
    X[[4, 9], 0], X[[4, 9], 2] = 0.0, 1.0  # feature 2: feature 0 is missing
    full = X.copy()
    full[4, 0] = X[:4, 0].sum() / 4
    full[9, 0] = full[:9, 0].sum() / 9
    indicators = np.array([2, -1, -1], np.int32)
    expected = watched_rows(NO_ROWS, fiol.to_chunk(full), None).seen
    np.testing.assert_allclose(row_by_row(X, indicators)[0], expected[0], rtol=1e-13)
    np.testing.assert_array_equal(watched_rows(NO_ROWS, fiol.to_chunk(X), indicators).seen, row_by_row(X, indicators))


def test_features_of_too_few_rows_are_dropped():
    X = np.zeros((WINDOW, 2))
    X[:, 0], X[:7, 1] = 1.0, 1.0
    assert watched_rows(NO_ROWS, fiol.to_chunk(X), None).seen[:, 0].tolist() == [0.0]
    X[7, 1] = 1.0
    assert watched_rows(NO_ROWS, fiol.to_chunk(X), None).seen[:, 0].tolist() == [0.0, 1.0]


def test_missing_values_count_as_rows_of_their_feature():
    X = np.zeros((WINDOW, 2))
    X[0::2, 1], X[1::4, 0] = 1.0, np.arange(1.0, 5.0)  # feature 0 has 4 values, and is missing in 8 rows, the first one
    indicators = np.array([1, -1], np.int32)
    found = watched_rows(NO_ROWS, fiol.to_chunk(X), indicators).seen
    assert found[:, :2].tolist() == [[0.0, 11.0], [1.0, 8.0]]
    np.testing.assert_array_equal(found, row_by_row(X, indicators))


def test_statistics_do_not_depend_on_rare_features():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((WINDOW, 3))
    rare = np.zeros((WINDOW, 50 * WINDOW))
    rare[np.repeat(np.arange(WINDOW), 50), rng.permutation(50 * WINDOW)] = 1.0
    found = watched_rows(NO_ROWS, fiol.to_chunk(np.hstack([X, rare])), None).seen
    np.testing.assert_array_equal(found, watched_rows(NO_ROWS, fiol.to_chunk(X), None).seen)


def test_empty_events_are_rows_of_the_statistics():
    X = np.random.default_rng(4).random((12, 2)) + 3.0
    X[[3, 5, 11]] = 0.0
    y = np.where(np.arange(12) % 2, 1.0, -1.0)
    rows = [{name: value for name, value in zip("ab", row, strict=True) if value} for row in X.tolist()]
    events, chunks = fiol.Learner(), fiol.Learner()
    events.learn(rows[:3], y[:3])
    for row, target in zip(rows[3:], y[3:], strict=True):
        events.learn_named(row, target)
    chunks.learn(rows, y)
    np.testing.assert_array_equal(events.core.engine.centering.seen, chunks.core.engine.centering.seen)
