"""The feature space: all or nothing, reading without a trace, chunks as bytes, generators block by block."""

import copy
import functools
import os
import pickle
import struct
import subprocess
import sys
import zlib

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from tests.interpreted import interpret

import fiol
from fiol import FIOL, L1, Chunk, Constant, Learner, Logistic, Squared, to_chunk
from fiol.features import frames
from fiol.features.chunk import HEAVIEST
from fiol.features.feature_space import FeatureSpace
from fiol.features.labels import Labels
from fiol.features.targets import check_sample_weights
from fiol.features.transaction import Transaction
from fiol.features.vocabulary import Vocabulary, check_value

learner = functools.partial(Learner, compiled=False)


def seen(space):
    """Return a copy of the state of a feature space."""
    labels = None if space.labels is None else (id(space.labels), dict(space.labels.codes))
    known = None if space.bits is not None or space.encoder is None else dict(space.encoder.known)
    return copy.deepcopy(space.header()), type(space.encoder), labels, known


def whole(model):
    """All there is to a learner, bit by bit, but for how much room it has to grow."""
    d = model.update.geometry.reparametrization().weights_per_feature * model.n_features
    arrays = {name: a[:d] if name.startswith("state.") else a for name, a in model.core.arrays().items()}
    return model.core.header(), {name: (a.dtype, a.tobytes()) for name, a in arrays.items()}


# --- all or nothing ---------------------------------------------------------------------------

ROWS = st.lists(st.dictionaries(st.sampled_from("abcdef") | st.integers(0, 3), st.sampled_from([0.0, 1.0, "red"])))
ERRORS = st.sampled_from([ValueError, KeyboardInterrupt, MemoryError, SystemExit])


@given(st.lists(ROWS, max_size=3), ROWS, ERRORS, st.sampled_from([{}, {"bits": 3}, {"any_names": True}]))
def test_any_error_restores_the_feature_space(before, rows, error, options):
    space = FeatureSpace(**options)
    for each in before:
        with space.transaction():
            space.encode_rows(each) if each else None
    space.labels = Labels(["x"])
    expected = seen(space)

    def attempt():
        with space.transaction():
            for row in rows:
                space.encode_row(row)
            if rows:
                space.encode_rows(rows)
            space.labels.add(["y", "z"])
            space.labels.arrange("zyx")
            raise error("gone")

    with pytest.raises(error):
        attempt()
    assert seen(space) == expected


@pytest.mark.parametrize(
    "X", [np.eye(3), sp.eye(5, format="csr"), pd.DataFrame({"a": [1.0], "b": [2.0]}), [{"a": 1.0}]]
)
def test_error_restores_columns_and_numbers(X):
    space = FeatureSpace()
    expected = seen(space)

    def attempt():
        with space.transaction():
            space.encode_rows(X)
            space.labels = Labels(["new"])
            assert seen(space) != expected
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        attempt()
    assert seen(space) == expected
    with space.transaction():
        space.encode_rows(X)
    assert space.features > 0


def test_interrupted_bounded_rows_are_rolled_back(monkeypatch):
    """Also after features were dropped and rows learned: weights, names and round are restored."""
    model = learner(FIOL(Logistic(), L1(0.2), Constant(0.1)), max_features=3)
    model.learn([{"a": 5.0, "b": 0.1}], [1])
    before, twin = whole(model), model.copy()
    plain, calls = model.engine.learn, []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return plain(*arguments)

    rows = [{f"c{k}": 0.1, "a": 1.0} for k in range(8)]
    with monkeypatch.context() as patch:
        patch.setattr(model.engine, "learn", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.learn(rows, np.ones(8))
    assert len(calls) == 3
    assert whole(model) == before
    assert model.learn(rows, np.ones(8)).tobytes() == twin.learn(rows, np.ones(8)).tobytes()
    assert whole(model) == whole(twin)


# --- reading ----------------------------------------------------------------------------------


@given(ROWS, st.lists(ROWS, min_size=1), st.booleans())
def test_reading_changes_no_feature(learned, read, counts):
    space = FeatureSpace(counts_unseen=counts, any_names=True)
    if learned:
        with space.transaction():
            space.encode_rows(learned)
    before = seen(space)
    for rows in read:
        if rows:
            chunk = space.read(rows)
            strangers = chunk.indices[chunk.indices >= space.features]
            assert set(strangers.tolist()) <= ({space.features} if counts else set())
        for row in rows:
            indices, values = space.read_row(row)
            numbered = space.number_dict(row, learning=False)
            assert numbered is None or [a.tolist() for a in numbered.chunk()[1:]] == [
                indices.tolist(),
                values.tolist(),
            ]
    assert seen(space) == before


@pytest.mark.parametrize("geometry", [None, "entropy", "signed_entropy"])
def test_river_predictions_change_no_feature(geometry, monkeypatch):
    from fiol.river import FIOLRegressor

    if geometry is not None:  # the feature space is the same; one compiled model is enough
        interpret(monkeypatch)
    model = FIOLRegressor(geometry=geometry, step_size="auto" if geometry is None else 0.1)
    for _ in range(3):
        model.learn_one({"a": 1.0, "b": 2.0}, 1.0)
    before = pickle.dumps(model)
    for x in ({"new": 1.0, "a": 2.0}, {"a": 1.0, "b": 5.0}, {"color": "red"}):
        model.predict_one(x)
        model.predict_many(pd.DataFrame([x]))
    assert pickle.dumps(model) == before


# --- canonical chunks -------------------------------------------------------------------------


def stream(rows=40, d=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, d)) * (rng.random((rows, d)) < 0.5)
    return X, np.sign(X @ rng.standard_normal(d) + 0.1), rng.choice([0.0, 0.5, 2.0], rows)


def test_learning_from_chunks_matches_learning_from_rows():
    X, y, weight = stream()
    plain, model = learner(FIOL(Logistic(), L1(0.01))), learner(FIOL(Logistic(), L1(0.01)))
    chunk = to_chunk(X)
    assert model.learn_chunk(chunk, y, weight).tobytes() == plain.learn(X, y, weight).tobytes()
    model.core.space.dense_columns = plain.core.space.dense_columns  # as if nothing were known of the chunks
    assert whole(model) == whole(plain)
    order = np.random.default_rng(1).integers(len(X), size=30)
    scores = model.learn_chunk(chunk, y, weight, order)
    expected = np.zeros(len(X))
    expected[order] = plain.learn(X[order], y[order], weight[order])
    assert scores.tobytes() == expected.tobytes()
    assert whole(model) == whole(plain)
    assert model.score_chunk(chunk).tobytes() == plain.scores(X).tobytes()
    assert model.learn_chunk(chunk, y, order=[]).tolist() == [0.0] * len(X)
    assert whole(model) == whole(plain)


def test_chunks_are_folded_and_grow_the_model():
    X, y, _ = stream()
    hashed, plain = (learner(FIOL(Logistic()), bits=2) for _ in range(2))
    assert hashed.learn_chunk(to_chunk(X), y).tobytes() == plain.learn(X, y).tobytes()
    grown = learner(FIOL(Logistic()))
    grown.learn_chunk(to_chunk(X[:, :2]), y)
    grown.learn_chunk(to_chunk(X), y)
    assert grown.n_features == X.shape[1]


FINE = to_chunk([[1.0, 2.0], [0.0, 3.0]])
WRONG_CHUNKS = [
    ([[1.0, 2.0]], TypeError, "chunk must be a fiol.Chunk, got list"),
    (FINE._replace(indices=FINE.indices.astype(np.int64)), TypeError, "indices of a canonical chunk is a plain array"),
    (FINE._replace(data=FINE.data[::-1]), TypeError, "data of a canonical chunk"),
    (FINE._replace(data=FINE.data[:1].copy()), ValueError, "as many indices as values"),
    (FINE._replace(indptr=np.array([0, 9, 3])), ValueError, "indptr must not decrease"),
    (FINE._replace(indptr=np.array([0, 2, 9])), ValueError, "indptr must end"),
    (FINE._replace(indptr=np.array([0, 2, 2])), ValueError, "none to spare"),
    (FINE._replace(indices=np.array([0, 1, -1], np.int32)), ValueError, "an index is at least 0"),
    (FINE._replace(indices=np.array([0, 1, 7], np.int32)), ValueError, "there are 2 features"),
]


@pytest.mark.parametrize(("chunk", "error", "message"), WRONG_CHUNKS)
def test_chunks_invalid_for_kernels_raise(chunk, error, message):
    model = learner(FIOL(Squared()), n_features=2)
    before = whole(model)
    with pytest.raises(error, match=message):
        model.learn_chunk(chunk, [1.0, 2.0])
    with pytest.raises(error, match=message):
        model.score_chunk(chunk)
    assert whole(model) == before


def test_chunk_arguments_are_checked():
    model = learner(FIOL(Logistic()))
    before = whole(model)
    for arguments, message in [
        (([1.0],), "y must have one entry per row: 2, got 1"),
        (([1.0, 0.5],), "y.1. must be -1 or"),
        (([1, 1], [1.0, -1.0]), "sample_weight.1. must be at least 0"),
        (([1, 1], None, [0, 2]), "order must be numbers of rows from 0 to 1, got 2"),
        (([1, 1], None, [-1]), "order must be numbers of rows from 0 to 1, got -1"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.learn_chunk(FINE, *arguments)
    with pytest.raises(TypeError, match="order must be numbers of rows, got float64"):
        model.learn_chunk(FINE, [1, 1], order=[0.5])
    assert whole(model) == before
    named = learner(FIOL(Logistic()))
    named.learn_named({"a": 1.0}, 1)
    with pytest.raises(TypeError, match="named features"):
        named.learn_chunk(FINE, [1, 1])


# --- bytes ------------------------------------------------------------------------------------


@given(st.integers(0, 5), st.integers(0, 6), st.integers(0, 9))
def test_chunk_bytes_round_trip(rows, d, seed):
    chunk = to_chunk(stream(rows, d, seed)[0])
    data = chunk.to_bytes()
    for form in (data, bytearray(data), memoryview(data)):
        for own, found in zip(chunk, Chunk.from_bytes(form), strict=True):
            assert (own.dtype, own.tobytes()) == (found.dtype, found.tobytes())
            assert found.flags.carray
    words = struct.unpack_from("<8s3Q", data)
    assert words == (b"FIOLROWS", zlib.crc32(data[16:]), chunk.rows, len(chunk.data))
    n, start = len(chunk.data), 32 + 8 * (rows + 1)
    assert struct.unpack_from(f"<{rows + 1}q", data, 32) == tuple(chunk.indptr)
    assert struct.unpack_from(f"<{n}d", data, start) == tuple(chunk.data)
    assert struct.unpack_from(f"<{n}i", data, start + 8 * n) == tuple(chunk.indices)


def test_writable_chunk_bytes_are_shared():
    room = bytearray(FINE.to_bytes())
    chunk = Chunk.from_bytes(room)
    assert all(np.shares_memory(array, np.frombuffer(room, np.uint8)) for array in chunk)
    learner(FIOL(Squared())).learn_chunk(chunk, [1.0, 2.0])


def test_damaged_chunk_bytes_raise_with_a_reason():
    data = FINE.to_bytes()
    for k in range(len(data)):
        broken = bytearray(data)
        broken[k] ^= 1 << (k % 8)
        with pytest.raises(ValueError, match="bytes of a chunk"):
            Chunk.from_bytes(broken)
    for short in (b"", data[:7], data[:31], data[:-1], data + b"0"):
        with pytest.raises(ValueError, match="bytes of a chunk"):
            Chunk.from_bytes(short)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (([0, 2], [1, 0], [1.0, 2.0]), "indices must rise"),
        (([0, 2], [0, 1], [1.0, 0.0]), "without zeros"),
        (([0, 2], [0, 1], [1.0, np.nan]), "must be finite, got nan"),
        (([0, 3], [0, 1], [1.0, 2.0]), "indptr must end"),
        (([0, 2], [0, -1], [1.0, 2.0]), "an index is at least 0"),
    ],
)
def test_bytes_of_non_canonical_chunks_raise(arrays, message):
    indptr, indices, data = (np.array(a, t) for a, t in zip(arrays, ("<i8", "<i4", "<f8"), strict=True))
    with pytest.raises(ValueError, match=message):
        Chunk.from_bytes(Chunk(indptr, indices, data).to_bytes())


# --- generators -------------------------------------------------------------------------------


@pytest.fixture
def blocks(monkeypatch):
    monkeypatch.setattr("fiol.features.blocks.BLOCK", 4)


@pytest.mark.parametrize("rows", [0, 1, 3, 4, 5, 8, 11])
@pytest.mark.parametrize("options", [{}, {"bits": 3}, {"max_features": 9}])
@pytest.mark.usefixtures("blocks")
def test_generator_matches_list_and_is_read_in_blocks(rows, options):
    dicts = [{f"c{k % 5}": 1.0 + k, "a": 0.5} for k in range(rows)]
    y, weight = np.where(np.arange(rows) % 3, 1.0, -1.0), np.linspace(0.5, 2.0, rows)
    plain, model = (learner(FIOL(Logistic(), L1(0.01)), **options) for _ in range(2))
    ahead = []

    def rows_of():
        for k, row in enumerate(dicts):
            ahead.append(k - model.rounds)
            yield row

    assert model.learn(rows_of(), y, weight).tobytes() == plain.learn(dicts, y, weight).tobytes()
    assert whole(model) == whole(plain)
    assert max(ahead, default=0) < 4
    assert model.scores(iter(dicts)).tobytes() == plain.scores(dicts).tobytes()


@pytest.mark.usefixtures("blocks")
def test_generator_block_is_learned_completely_or_not_at_all():
    def rows(bad):
        for k in range(20):
            if k == 10:
                raise bad
            yield {f"c{k}": 1.0}

    for bad in (OSError("the file is gone"), KeyboardInterrupt()):
        model, plain = learner(FIOL(Logistic())), learner(FIOL(Logistic()))
        with pytest.raises(type(bad)) as caught:
            model.learn(rows(bad), np.ones(20))
        if hasattr(caught.value, "__notes__"):
            assert caught.value.__notes__[-1] == "the first 8 rows have been learned from"
        plain.learn([{f"c{k}": 1.0} for k in range(8)], np.ones(8))
        assert whole(model) == whole(plain)
    for targets, learned in ((9, 8), (3, 0), (30, 8)):
        model = learner(FIOL(Logistic()))
        with pytest.raises(ValueError, match=rf"y must have one entry per row: \d+, got {targets}"):
            model.learn(({f"c{k}": 1.0} for k in range(11)), np.ones(targets))
        assert model.rounds == learned
    model = learner(FIOL(Logistic()))
    with pytest.raises(ValueError, match=r"y\[9\] must be -1 or"):
        model.learn(({"a": 1.0} for _ in range(10)), [*np.ones(9), 0.5])
    assert model.rounds == 0  # all targets are looked at before the first row


def test_learn_chunks_matches_learn():
    X, y, weight = stream()
    plain, model, held = learner(FIOL(Logistic())), learner(FIOL(Logistic())), []

    def parts():
        for k in range(0, 40, 7):
            held.append(model.rounds)
            yield (X[k : k + 7], y[k : k + 7], weight[k : k + 7]) if k else (X[:7], y[:7])

    expected = [plain.learn(X[:7], y[:7]), plain.learn(X[7:], y[7:], weight[7:])]
    assert model.learn_chunks(parts()).tobytes() == np.concatenate(expected).tobytes()
    assert held == [0, 7, 14, 21, 28, 35]
    assert model.learn_chunks([]).shape == (0,)
    with pytest.raises(ValueError, match="must be finite") as caught:
        model.learn_chunks([(X, y), (X * np.nan, y)])
    assert model.rounds == 80
    if hasattr(caught.value, "__notes__"):
        assert caught.value.__notes__[-1] == "in chunk 1: the first 40 rows have been learned from"
    with pytest.raises(TypeError, match="chunks must be pairs"):
        model.learn_chunks([to_chunk(X)])


# --- containers -------------------------------------------------------------------------------


class Table:
    """A frame of an unknown library."""

    def __init__(self, **columns):
        self.columns_ = columns


def test_register_container(monkeypatch):
    monkeypatch.setattr(frames, "CONVERSIONS", dict(frames.CONVERSIONS))
    table = Table(b=[1.0, 0.0], a=[2.0, 3.0])
    with pytest.raises(TypeError, match="must be a matrix"):
        learner(FIOL(Squared())).learn(table, [1.0, 2.0])
    frames.register(Table, lambda table: pa.table(table.columns_))
    model, plain = learner(FIOL(Squared())), learner(FIOL(Squared()))
    model.learn(table, [1.0, 2.0])
    plain.learn(pd.DataFrame(table.columns_), [1.0, 2.0])
    assert whole(model) == whole(plain)
    assert model.names == ["b", "a"]
    with pytest.raises(ValueError, match=r"^X\[0, 'a'\] must be finite, got inf$"):
        model.learn(Table(a=[float("inf")], b=[1.0]), [1.0])
    assert model.scores(Table(a=[1.0], b=[2.0])).tolist() == plain.scores([[2.0, 1.0]]).tolist()
    frames.conversion_of.cache_clear()


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table])
def test_river_returns_the_kind_of_frame_it_was_given(kind):
    from fiol.river import FIOLClassifier, FIOLRegressor

    X, y = kind({"a": [1.0, 2.0, 3.0], "color": ["r", "g", "r"]}), ["p", "q", "p"]
    model, numbers = FIOLClassifier(), FIOLRegressor()
    assert len(model.predict_many(X)) == 3
    model.learn_many(X, pa.array(y) if kind is pa.table else y)
    numbers.learn_many(X, [1.0, 2.0, 3.0])
    series = {pd.DataFrame: pd.Series, pl.DataFrame: pl.Series, pa.table: pa.ChunkedArray}[kind]
    labels, p, z = model.predict_many(X), model.predict_proba_many(X), numbers.predict_many(X)
    assert (type(labels), type(p), type(z)) == (series, type(X), series)
    rows = [{"a": 1.0, "color": "r"}, {"a": 2.0, "color": "g"}, {"a": 3.0, "color": "r"}]
    assert list(labels.to_pylist() if kind is pa.table else labels) == [model.predict_one(x) for x in rows]
    assert list(z.to_pylist() if kind is pa.table else z) == [numbers.predict_one(x) for x in rows]


def test_arrow_needs_no_other_frame_library():
    script = """
import sys
sys.modules["polars"] = None
import pyarrow as pa
from fiol.river import FIOLRegressor
model = FIOLRegressor()
table = pa.table({"a": [1.0, 2.0]})
model.learn_many(table, pa.array([1.0, 2.0]))
print(type(model.predict_many(table)).__name__)
"""
    uncompiled = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=uncompiled)
    assert done.stdout == "ChunkedArray\n"


def test_import_loads_no_frame_library():
    script = "import sys, fiol; print({'narwhals', 'pandas', 'polars', 'pyarrow'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
    assert fiol.Chunk is Chunk


def test_transaction_rolls_back_all_parts():
    first, second = Vocabulary(["a"]), Vocabulary(["b"])

    def work():
        with Transaction(first, second):
            first.number("c"), second.number("d")
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        work()
    assert (first.names, second.names) == (["a"], ["b"])


def test_largest_and_zero_sample_weights():
    assert check_sample_weights([HEAVIEST, 0.0], 2).tolist() == [HEAVIEST, 0.0]
    with pytest.raises(ValueError, match=r"^sample_weight\[1\] must be at least 0"):
        check_sample_weights([0.0, -1.0, HEAVIEST], 3)
    with pytest.raises(ValueError, match=r"^sample_weight\[2\] must be at least 0"):
        check_sample_weights([0.0, HEAVIEST, 2.0 * HEAVIEST], 3)


@pytest.mark.parametrize("sign", [1, -1])
def test_integers_beyond_float_range_are_infinite(sign):
    """With their own sign."""
    assert check_value("X[0]", "a", sign * 10**400) == sign * np.inf
