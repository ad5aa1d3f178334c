"""Names of products by their factors: the same names, numbers and hashes as by text."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fiol
from fiol.features import product_names
from fiol.features.chunk import Chunk
from fiol.features.hashing import Hashing
from fiol.features.interactions import Products
from fiol.features.named_rows import NamedRows, number_by_appearance
from fiol.features.product_names import FactorHashes, ProductNames, texts_of_factors
from fiol.features.transaction import Transaction
from fiol.features.vocabulary import Vocabulary

FACTORS = ["", "a", "b", "é", "abcd", "x" * 9]
#: Names that a vocabulary may have got as text: products, names that no product has, and a number.
TEXTS = ["a", "b", "a*b", "a*", "*", "a*b*é", "a*b*b*b", "other", "other*a", "", 7]
PRODUCT = st.tuples(st.integers(0, 5), st.integers(-1, 5), st.integers(-1, 5)).map(
    lambda abc: abc if abc[1] >= 0 else (abc[0], -1, -1)
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("products"), st.lists(PRODUCT, unique=True, max_size=12), st.booleans()),
        st.tuples(st.just("texts"), st.lists(st.sampled_from(TEXTS), max_size=4), st.booleans()),
        st.tuples(st.just("undone"), st.lists(PRODUCT, unique=True, max_size=12), st.booleans()),
        st.tuples(st.just("read"), st.just([]), st.booleans()),
    ),
    max_size=8,
)


def product_names_of(products):
    return ProductNames(FACTORS, np.array(products, np.int32).reshape(-1, 3))


@given(STEPS)
def test_vocabulary_numbers_products_as_their_texts(steps):
    lazy, plain = Vocabulary(), Vocabulary()
    for what, values, flag in steps:
        if what == "products":
            names = product_names_of(values)
            expected = plain.numbers_of_names(list(names), flag, -1)
            assert lazy.numbers_of_names(names, flag, -1).tolist() == expected.tolist()
        elif what == "texts":
            for name in values:
                assert lazy.knows(name) == plain.knows(name)
                if flag:
                    assert lazy.number(name) == plain.number(name)
            strings = [name for name in values if isinstance(name, str)]
            expected = plain.numbers_of_names(strings, not flag, -1)
            assert lazy.numbers_of_names(strings, not flag, -1).tolist() == expected.tolist()
        elif what == "undone":
            mark = lazy.mark()
            lazy.numbers_of_names(product_names_of(values), True, -1)
            if flag:
                lazy.number("new in between")
                lazy.numbers_of_names(product_names_of(values[::-1]), True, -1)
            lazy.rewind(mark)
        elif flag:
            assert lazy.names == plain.names
        assert (lazy.size, lazy.mark()) == (plain.size, plain.mark())
    for one in (pickle.loads(pickle.dumps(lazy)), copy.deepcopy(lazy), lazy):
        assert (one.names, one.tables) == (plain.names, plain.tables)


def test_vocabulary_writes_names_of_products_when_they_are_read(monkeypatch):
    written = []
    monkeypatch.setattr(product_names, "texts_of_factors", lambda *given: written.append(1) or texts_of_factors(*given))
    vocabulary = Vocabulary(["b", "a*b"])
    names = product_names_of([(1, -1, -1), (1, 2, -1), (2, 2, -1)])
    assert vocabulary.numbers_of_names(names, False, -1).tolist() == [-1, 1, -1]
    assert vocabulary.numbers_of_names(names, True, -1).tolist() == [2, 1, 3]
    assert vocabulary.numbers_of_names(names, True, -1).tolist() == [2, 1, 3]
    assert (vocabulary.size, written) == (4, [])
    assert vocabulary.encode_one({"b*b": 2.0, "a": 1.0})[0].tolist() == [2, 3]
    assert (vocabulary.names, written) == (["b", "a*b", "a", "b*b"], [1])


def test_vocabulary_takes_texts_where_products_have_too_many_factors(monkeypatch):
    monkeypatch.setattr(product_names, "MOST_FACTOR_NAMES", 3)
    vocabulary = Vocabulary(["other"])
    names = product_names_of([(1, 2, -1), (1, -1, -1)])
    assert vocabulary.numbers_of_names(names, True, -1).tolist() == [1, 2]
    assert vocabulary.names == ["other", "a*b", "a"]


def test_vocabulary_without_room_for_products_raises(monkeypatch):
    monkeypatch.setattr("fiol.features.vocabulary.MOST_FEATURES", 3)
    vocabulary = Vocabulary(["a"])
    assert vocabulary.numbers_of_names(product_names_of([(1, 2, -1), (1, -1, -1)]), True, -1).tolist() == [1, 0]
    with pytest.raises(ValueError, match=r"has the new key 'b\*b': index overflow"), Transaction(vocabulary):
        vocabulary.numbers_of_names(product_names_of([(2, -1, -1), (2, 2, -1)]), True, -1)
    assert vocabulary.names == ["a", "a*b"]


def test_hashes_of_many_products_are_those_of_their_names():
    """More products than are hashed at a time, of one to three factors with names of all lengths."""
    rng, names = np.random.default_rng(2), ["é" * (k // 2) + "x" * k for k in range(23)]
    factors = rng.integers(0, len(names), (1500, 3)).astype(np.int32)
    factors[rng.random(1500) < 0.5, 2] = -1
    factors[rng.random(1500) < 0.2, 1:] = -1
    factors[-300:, 2] = -1
    expected = Hashing(31).numbers_of_names(texts_of_factors(names, factors), True, -1)
    assert FactorHashes(names).of_products(factors, 2**31 - 1).tolist() == expected.tolist()
    small = FactorHashes(names).of_products(factors, 2**9)
    assert small.tolist() == Hashing(9).numbers_of_names(texts_of_factors(names, factors), True, -1).tolist()


def test_some_rows_have_names_of_products_in_the_order_of_appearance():
    chunk = Chunk(np.array([0, 2, 3]), np.array([0, 1, 1], np.int32), np.ones(3))
    made = Products(NamedRows(chunk, ["a", "b"]), ["g", "g"], [("g", "g")]).named(np.arange(2))
    part, order = number_by_appearance(made.chunk.row_block(1, 2), made.names)
    assert isinstance(part.names, ProductNames)
    assert (part.names, order.tolist()) == (["b", "b*b"], [1, 4])
    assert part.names == made.part(1, 2).names
    assert repr(made.names) == "['a', 'b', 'a*a', 'a*b', 'b*b']"
    assert made.names != ["a"]


@pytest.mark.parametrize("compiled", [False, True])
def test_learner_of_products_has_the_weights_of_texts(compiled):
    rng = np.random.default_rng(1)
    chunk = Chunk(np.arange(0, 61, 3), np.tile(np.arange(6, dtype=np.int32), 10), rng.random(60) + 0.5)
    made = Products(NamedRows(chunk, ["a", "b", "c", "d", "e", "f"]), ["g"] * 6, [("g", "g")]).named(np.arange(20))
    y = rng.choice([-1.0, 1.0], 20)
    lazy, plain = fiol.Learner(compiled=compiled), fiol.Learner(compiled=compiled)
    lazy.learn(made, y)
    plain.learn(NamedRows(made.chunk, list(made.names)), y)
    row = {"a*b": 2.0, "a": 1.0, "new": 1.0}
    assert lazy.predict_named(row) == plain.predict_named(row)
    assert lazy.learn_named(row, 1.0) == plain.learn_named(row, 1.0)
    lazy.learn(made, y)
    plain.learn(NamedRows(made.chunk, list(made.names)), y)
    assert lazy.names == plain.names
    assert lazy.weights.tobytes() == plain.weights.tobytes()
