"""Products of features: against nested loops over dicts, by names and by hashes, for all rows and for some."""

import itertools
import math
import operator
import tracemalloc

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fiol.features.chunk import Chunk
from fiol.features.column_values import BadValueError
from fiol.features.hashing import Hashing
from fiol.features.interactions import Products, add_interactions
from fiol.features.named_rows import NamedRows
from fiol.features.vocabulary import Vocabulary

NAMES = ["", "a", "é", "a*b", "b", "abc", "abcd", "abcde", "x" * 9, "a.b^c", "\U0001f600", "|p q"]
GROUPS = ["g", "g", "h", "g", "h", "i", "h", "i", "g", "h", "i", ""]
ENTRIES = st.lists(st.tuples(st.integers(0, len(NAMES) - 1), st.sampled_from([1.0, -2.0, 0.5, 3.0])), max_size=7)
PAIRS = st.lists(st.lists(st.sampled_from(["g", "h", "i", ""]), min_size=2, max_size=3).map(tuple), max_size=3)


def named_rows(rows):
    """Rows of entries as a reader makes them, names numbered as they first appear; and the group of each name."""
    known = {}
    indices = [known.setdefault(code, len(known)) for row in rows for code, _ in row]
    indptr = np.cumsum([0, *(len(row) for row in rows)])
    chunk = Chunk(indptr, np.array(indices, np.int32), np.array([value for row in rows for _, value in row]))
    return NamedRows(chunk, [NAMES[code] for code in known]), [GROUPS[code] for code in known]


def multiplied_slowly(row, pairs):
    """The entries of a row by name, products included; equal features of the row added up first."""
    sums = {}
    for code, value in row:
        sums[code] = sums.get(code, 0.0) + value
    own = [(code, value) for code, value in sums.items() if value != 0.0]
    entries = [(NAMES[code], value) for code, value in own]
    for pair in pairs:
        some = sorted(own, key=lambda entry: NAMES[entry[0]]) if len(set(pair)) < len(pair) else own
        places = [[k for k, (code, _) in enumerate(some) if GROUPS[code] == element] for element in pair]
        for combination in itertools.product(*places):
            twins = [(i, j) for i, j in itertools.combinations(range(len(pair)), 2) if pair[i] == pair[j]]
            if all(combination[i] <= combination[j] for i, j in twins):
                names = "*".join(NAMES[some[k][0]] for k in combination)
                entries.append((names, math.prod(some[k][1] for k in combination)))
    return entries


def entries_of(rows):
    values = [(rows.names[i], value) for i, value in zip(rows.chunk.indices, rows.chunk.data.tolist(), strict=True)]
    return [values[a:b] for a, b in itertools.pairwise(rows.chunk.indptr.tolist())]


@given(st.lists(ENTRIES, max_size=4), PAIRS)
def test_products_are_those_of_nested_loops(rows, pairs):
    X, groups = named_rows(rows)
    expected = [multiplied_slowly(row, pairs) for row in rows]
    products = Products(X, groups, pairs, operator.eq)
    made = products.named(np.arange(X.rows))
    assert entries_of(made) == expected
    assert made.names == list(dict.fromkeys(name for row in expected for name, _ in row))
    if pairs:
        assert entries_of(add_interactions(X, groups, pairs)) == expected
    parts = list(products.parts(5))
    assert np.concatenate([np.empty(0, np.int64), *parts]).tolist() == list(range(X.rows))
    assert [row for part in parts for row in entries_of(products.named(part))] == expected
    for bits in (4, 20, 31):
        hashed = products.hashed(np.arange(X.rows), Hashing(bits))
        assert repr(hashed) == repr(made.encoded(Hashing(bits)))
        assert repr(hashed) == repr(NamedRows(made.chunk, list(made.names)).encoded(Hashing(bits)))


def test_product_out_of_range_is_named_with_its_row():
    X, groups = named_rows([[(1, 2.0)], [(1, 1e60), (2, 1e60)]])
    with pytest.raises(BadValueError) as caught:
        add_interactions(X, groups, [("g", "h")])
    assert (caught.value.row, caught.value.column) == (1, "a*é")


def test_dotted_groups_belong_to_a_column_but_not_to_a_namespace():
    chunk = Chunk(np.array([0, 2]), np.array([0, 1], np.int32), np.ones(2))
    X, groups = NamedRows(chunk, ["a.b^x", "c^y"]), ["a.b", "c"]
    assert add_interactions(X, groups, [("a", "c")]).names[2:] == ["a.b^x*c^y"]
    assert Products(X, groups, [("a", "c")], operator.eq).named(np.arange(1)).names == X.names


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="millions of products")
def test_memory_is_that_of_some_rows_at_a_time():
    """120 rows with 300 features each have 5.4 million products, which would take more than 100 MB at once."""
    draw = np.random.default_rng(5)
    indices = np.concatenate([draw.choice(2000, 300, replace=False) for _ in range(120)]).astype(np.int32)
    X = NamedRows(Chunk(np.arange(0, 36001, 300), indices, draw.random(36000) + 0.5), [f"f^{k}" for k in range(2000)])
    products = Products(X, ["f"] * 2000, [("f", "f")])
    products.hashed(np.arange(1), Hashing(18))  # compiled before memory is measured
    tracemalloc.start()
    try:
        entries = sum(len(products.hashed(order, Hashing(18)).data) for order in products.parts(2**18))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert entries > 5_000_000
    assert peak < 30e6


def test_vocabulary_numbers_many_names_as_they_first_appear():
    vocabulary = Vocabulary(["b", 7])
    assert vocabulary.numbers_of_names(["x", "b", "y", "x"], False, -1).tolist() == [-1, 0, -1, -1]
    assert vocabulary.numbers_of_names(["x", "b", "y", "x"], True, -1).tolist() == [2, 0, 3, 2]
    assert vocabulary.names == ["b", 7, "x", "y"]
    mark = vocabulary.mark()
    assert vocabulary.numbers_of_names(["z", "x"], True, -1).tolist() == [4, 2]
    vocabulary.rewind(mark)
    assert (vocabulary.names, vocabulary.knows("z")) == (["b", 7, "x", "y"], False)


def test_vocabulary_without_room_for_new_names_raises(monkeypatch):
    monkeypatch.setattr("fiol.features.vocabulary.MOST_FEATURES", 2)
    vocabulary = Vocabulary(["a"])
    with pytest.raises(ValueError, match="has the new key 'c': index overflow"):
        vocabulary.numbers_of_names(["a", "b", "c"], True, -1)
