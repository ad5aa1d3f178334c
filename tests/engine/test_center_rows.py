"""Rows of tables are centered by a fast loop, with the same numbers as row by row."""

from itertools import pairwise

import numpy as np
import pytest

import fiol
from fiol.compiler.compiled import interpreted
from fiol.engine.centered_learning import usual_row
from fiol.engine.centering import NO_ROWS, watched_rows
from fiol.engine.round.center_rows import center_rows


@pytest.mark.parametrize(
    "changes", ["none", "a zero", "another feature", "the first row is longer", "equal to the mean"]
)
def test_rows_of_a_table_are_centered_as_row_by_row(changes):
    # Rows with the same features are centered in runs of consecutive centered columns, others entry by entry.
    X, features = np.random.default_rng(3).random((40, 9)) + 0.5, np.array([1, 2, 3, 6, 7], np.int32)
    X[:, 8] = 0.0
    if changes == "a zero":
        X[[5, 17], [2, 4]] = 0.0
    elif changes == "another feature":
        X[23, 8] = 4.0
    elif changes == "the first row is longer":
        X[0, 8] = 4.0
    elif changes == "equal to the mean":
        X[0, 3] = 1.0
    sums, rows, expected = dict.fromkeys(features.tolist(), 16.0), 16.0, []
    for row in X:
        less_means = {i: x - (sums[i] * (1.0 / rows) if i in sums else 0.0) for i, x in enumerate(row.tolist())}
        expected.append({i: x for i, x in less_means.items() if x != 0.0})
        sums, rows = {i: total + row[i] for i, total in sums.items()}, rows + 1.0
    chunk = fiol.to_chunk(X)
    size = chunk.data.shape[0] + X.size + 1
    new = fiol.Chunk(np.zeros(len(X) + 1, np.int64), np.zeros(size, np.int32), np.zeros(size))
    found_sums, widths = np.full(5, 16.0), np.full(5, 9.0)
    usual, places = usual_row(chunk, features)
    wide = np.zeros(3 * len(usual))
    wide[places] = 1.0
    memory = (found_sums, widths, np.full(5, -1, np.int32)), usual, places, wide
    n, written = interpreted(center_rows)(chunk, features, *memory, 16.0, True, 1e-300, *new)
    if written >= 0:
        new.indices[written:n].reshape(-1, len(usual))[...] = usual
    same = written < 0
    assert same == (changes == "none")
    entries = chunk if same else new
    rows_at = [slice(*ends) for ends in pairwise(entries.indptr)]
    found = [dict(zip(entries.indices[at].tolist(), new.data[at].tolist(), strict=True)) for at in rows_at]
    assert found == expected
    assert n == entries.indptr[-1]
    np.testing.assert_array_equal(found_sums, list(sums.values()))
    assert places.tolist() == [1, 2, 3, 6, 7]


def test_missing_value_of_the_first_rows_counts_as_the_mean_of_those_before():
    rows = fiol.to_chunk([[14.0, 0.0, 3.0], [16.0, 0.0, 0.0], [0.0, 1.0, 5.0]])  # feature 1: feature 0 is missing
    indicators = np.array([1, -1], np.int32)
    found = watched_rows(NO_ROWS, rows, indicators)
    assert found.rows == 3.0
    np.testing.assert_array_equal(found.seen[0], [0.0, 3.0, 45.0, 14.0, 16.0, 15.0, 5.0, 2.0])
    one_by_one = NO_ROWS
    for r in range(3):
        one_by_one = watched_rows(one_by_one, rows.row_block(r, r + 1), indicators)
    np.testing.assert_array_equal(one_by_one.seen, found.seen)
