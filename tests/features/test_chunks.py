"""Rows of any container become the same chunk, errors name their place, and inputs stay unchanged."""

import datetime
import pickle
import subprocess
import sys
from decimal import Decimal
from math import inf, nan

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from material import LOSSES
from sklearn.utils import murmurhash3_32

import fiol
from fiol.features import canonicalize, containers
from fiol.features.chunk import LARGEST, MOST_FEATURES, SMALLEST, Chunk, check_indices
from fiol.features.containers import to_chunk
from fiol.features.frames import as_frame, match_columns
from fiol.features.hashing import Hashing
from fiol.features.targets import check_sample_weights, check_targets
from fiol.features.vocabulary import Vocabulary

TYPES = {"indptr": np.int64, "indices": np.int32, "data": np.float64}


def reference(X):
    """The chunk of a dense matrix, entry by entry."""
    rows = [[(i, x) for i, x in enumerate(row) if x != 0.0] for row in np.asarray(X, float).tolist()]
    entries = [entry for row in rows for entry in row]
    indptr = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return Chunk(indptr, np.array([i for i, _ in entries], np.int32), np.array([x for _, x in entries], float))


def check_equal(chunk, expected):
    """Check that both are equal to the bit and have the type that kernels expect."""
    assert isinstance(chunk, Chunk)
    for name, dtype in TYPES.items():
        found, wanted = getattr(chunk, name), getattr(expected, name)
        assert type(found) is np.ndarray
        assert found.dtype == dtype
        assert found.flags.c_contiguous
        assert found.flags.aligned
        assert found.flags.writeable
        np.testing.assert_array_equal(found, wanted)
        assert found.tobytes() == wanted.tobytes()


# --- containers -------------------------------------------------------------------------------


def read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


def unaligned(X):
    raw = np.empty(X.nbytes + 1, np.uint8)[1:]
    odd = raw.view(X.dtype).reshape(X.shape)
    odd[...] = X
    return odd


def named(X):
    return {f"c{i}": X[:, i] for i in range(X.shape[1])}


DENSE = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "read-only": read_only,
    "strided": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "reversed": lambda X: X[::-1, ::-1].copy()[::-1, ::-1],
    "unaligned": unaligned,
    "big-endian": lambda X: X.astype(X.dtype.newbyteorder(">")),
    "matrix": lambda X: X.view(np.matrix),
    "masked": np.ma.masked_array,
    "lists": lambda X: X.tolist() if len(X) else X,
    "tuples": lambda X: tuple(map(tuple, X.tolist())) if len(X) else X,
}
FRAMES = {
    "pandas": lambda X: pd.DataFrame(X, columns=list(named(X))),
    "pandas numbered": pd.DataFrame,
    "pandas columns": lambda X: pd.DataFrame(named(X), index=range(len(X))),
    "pandas sparse": lambda X: pd.DataFrame(X, columns=list(named(X))).astype(pd.SparseDtype(X.dtype, X.dtype.type(0))),
    "pandas filled": lambda X: pd.DataFrame(X, columns=list(named(X))).astype(pd.SparseDtype(X.dtype, X.dtype.type(1))),
    "pandas mixed": lambda X: pd.DataFrame(
        {
            n: pd.arrays.SparseArray(x, fill_value=x.dtype.type(0)) if i % 2 else x
            for i, (n, x) in enumerate(named(X).items())
        },
        index=range(len(X)),
    ),
    "pandas nullable": lambda X: pd.DataFrame(X, columns=list(named(X))).convert_dtypes(),
    "pandas arrow": lambda X: pd.DataFrame(X, columns=list(named(X))).convert_dtypes(dtype_backend="pyarrow"),
    "polars": lambda X: pl.DataFrame(X, schema=list(named(X))),
    "arrow": lambda X: pa.table(named(X)),
    "arrow chunks": lambda X: pa.concat_tables([pa.table(named(X[:1])), pa.table(named(X[1:]))]),
    "arrow batch": lambda X: pa.RecordBatch.from_pydict(named(X)),
}
SPARSE = {
    f"{form}_{kind}": getattr(sp, f"{form}_{kind}")
    for form in ("csr", "csc", "coo", "lil", "dok", "bsr", "dia")
    for kind in ("matrix", "array")
}

SIZES = st.floats(1e-100, 1e100) | st.floats(1e-3, 1e3)
VALUES = SIZES | SIZES.map(lambda x: -x) | st.sampled_from([0.0, -0.0, 1.0, 1e-100, -1e100])
DTYPES = st.sampled_from(["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"])


@st.composite
def matrices(draw, least=0, dtypes=DTYPES):
    """Half of the entries are 0."""
    dtype = np.dtype(draw(dtypes))
    shape = draw(st.tuples(st.integers(least, 5), st.integers(least, 6)))
    elements = VALUES
    if dtype.kind != "f":
        elements = hnp.from_dtype(dtype)
    elif dtype.itemsize < 8:
        elements = st.integers(-1000, 1000).map(lambda k: k / 8)
    X = draw(hnp.arrays(dtype, shape, elements=elements))
    return np.where(draw(hnp.arrays(bool, shape)), X, dtype.type(0))


@given(matrices(), st.sampled_from(sorted(DENSE)))
def test_dense_containers_give_the_same_chunk(X, container):
    if container in ("lists", "tuples") and X.dtype.kind in "iu":
        X = X.astype("f8")  # lists know no type: a mix of 2**63 and -1 would be neither
    check_equal(to_chunk(DENSE[container](X)), reference(X))


@given(matrices(least=1), st.sampled_from(sorted(FRAMES)))
def test_frames_give_the_same_chunk(X, container):
    if X.dtype == np.float16:
        X = X.astype(np.float32)  # few frames know it
    check_equal(to_chunk(FRAMES[container](X)), reference(X))


@given(matrices(least=1), st.sampled_from(sorted(SPARSE)))
def test_sparse_containers_give_the_same_chunk(X, container):
    if X.dtype == np.float16:
        X = X.astype(np.float32)  # scipy does not know it
    check_equal(to_chunk(SPARSE[container](X)), reference(X))


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (1, 1)])
def test_empty_containers(shape):
    X = np.zeros(shape)
    forms = [sp.csr_matrix, sp.csc_matrix, sp.coo_matrix, sp.lil_matrix, pd.DataFrame, *DENSE.values()]
    for form in forms:
        chunk = to_chunk(form(X)) if 0 not in shape or form is not DENSE["unaligned"] else to_chunk(X)
        check_equal(chunk, reference(X))
        assert chunk.rows == shape[0]
        check_equal(chunk.row_block(0, chunk.rows), chunk)
    check_equal(to_chunk(pl.DataFrame()), reference(np.zeros((0, 0))))
    check_equal(to_chunk(pa.table({})), reference(np.zeros((0, 0))))
    assert check_targets([], 0, fiol.Squared()).shape == check_sample_weights([], 0).shape == (0,)


@pytest.mark.parametrize("dtype", [pl.Float32, pl.Int8, pl.UInt64, pl.Boolean])
def test_types_of_polars_and_arrow_columns(dtype):
    frame = pl.DataFrame({"a": [0, 1, 1], "b": [1, 0, 0]}).cast(dtype)
    expected = reference([[0, 1], [1, 0], [1, 0]])
    check_equal(to_chunk(frame), expected)
    check_equal(to_chunk(frame.to_arrow()), expected)
    check_equal(to_chunk(frame.to_pandas()), expected)


# --- sparse rows that are not canonical -------------------------------------------------------


@st.composite
def untidy(draw, most=6):
    """Rows of (index, value) in any order, with duplicates and zeros."""
    row = st.lists(st.tuples(st.integers(0, 5), st.integers(-20, 20).map(lambda k: k / 10)), max_size=most)
    return draw(st.lists(row, max_size=5))


def tidy(rows):
    """The chunk of such rows: duplicates are added up in their order."""
    lines = []
    for row in rows:
        sums = {}
        for i, x in row:
            sums[i] = sums[i] + x if i in sums else x
        lines.append(sorted((i, x) for i, x in sums.items() if x != 0.0))
    entries = [entry for row in lines for entry in row]
    indptr = np.cumsum([0, *map(len, lines)], dtype=np.int64)
    return Chunk(indptr, np.array([i for i, _ in entries], np.int32), np.array([x for _, x in entries], float))


def raw(rows, index=np.int32):
    entries = [entry for row in rows for entry in row]
    indptr = np.cumsum([0, *map(len, rows)], dtype=index)
    return np.array([x for _, x in entries], float), np.array([i for i, _ in entries], index), indptr


@given(untidy(most=40), st.sampled_from([np.int32, np.int64]))
def test_unsorted_rows_are_canonicalized_in_a_copy(rows, index):
    data, indices, indptr = raw(rows, index)
    shape, lines = (len(rows), 6), np.repeat(np.arange(len(rows)), np.diff(indptr))
    order = np.argsort(indices, kind="stable")
    columns = (data[order], lines[order], np.searchsorted(indices[order], np.arange(7)))
    containers = [
        sp.csr_matrix((data, indices, indptr), shape),
        sp.coo_matrix((data, (lines, indices)), shape),
        sp.csc_matrix(columns, shape),
        Chunk(indptr, indices, data),
        Chunk(read_only(indptr), read_only(indices), read_only(data)),
        Chunk(indptr, indices, data.astype(">f8")),
    ]
    before = pickle.dumps([vars(X) if hasattr(X, "format") else X for X in containers])
    for X in containers:
        check_equal(to_chunk(X), tidy(rows))
        check_equal(to_chunk(to_chunk(X)), tidy(rows))
    assert pickle.dumps([vars(X) if hasattr(X, "format") else X for X in containers]) == before


def test_duplicates_of_small_types_do_not_overflow_them():
    X = sp.csr_matrix((np.array([100, 100], np.int8), [0, 0], [0, 2]), (1, 1))
    for form in (X, X.tocoo(), sp.bsr_matrix(X)):
        if form.nnz == 2:
            assert to_chunk(form).data == 200.0
    assert to_chunk(sp.coo_matrix((np.array([True, True]), ([0, 0], [0, 0])), (1, 1))).data == 2.0


def test_spare_entries_of_csr_are_ignored():
    X = sp.csr_matrix(([1.0, 2.0], [0, 1], [0, 1, 2]), (2, 2))
    X.data, X.indices = np.array([1.0, 2.0, nan]), np.array([0, 1, -7], np.int32)
    check_equal(to_chunk(X), reference([[1.0, 0.0], [0.0, 2.0]]))


def test_canonical_csr_is_shared():
    X = sp.random(20, 30, 0.2, "csr", random_state=0)
    chunk = to_chunk(X)
    assert np.shares_memory(chunk.data, X.data)
    assert np.shares_memory(chunk.indices, X.indices)
    assert all(map(np.shares_memory, to_chunk(chunk), chunk))


def test_large_indices_survive():
    top = 2**31 - 2
    X = sp.csr_matrix((np.array([1.0, 2.0]), np.array([top, 0]), np.array([0, 2])), (1, 2**31 - 1))
    assert to_chunk(X).indices.tolist() == [0, top]


@given(matrices(least=1, dtypes=st.just("f8")), st.data())
def test_row_blocks_match_their_rows(X, data):
    start, stop = (data.draw(st.integers(-len(X), len(X))) for _ in range(2))
    chunk = to_chunk(X)
    block = chunk.row_block(start, stop)
    check_equal(block, reference(X[start:stop]))
    assert not block.data.size or np.shares_memory(block.data, chunk.data)


def test_loops_compile_one_variant():
    for X in (np.eye(3), np.eye(3, dtype="f4"), read_only(np.eye(3)), sp.eye(3, format="csr"), pl.DataFrame(np.eye(3))):
        to_chunk(X)
    to_chunk(Chunk(read_only(np.array([0, 2])), read_only(np.array([1, 0])), read_only(np.array([1, 2]))))
    for loop in (canonicalize.flaws, canonicalize.arrange_rows, canonicalize.count, canonicalize.fill):
        assert not hasattr(loop, "signatures") or len(loop.signatures) == 1


# --- columns by name --------------------------------------------------------------------------


def column_names(X):
    frame = as_frame(X)
    return None if frame is None else frame.names


@pytest.mark.parametrize("build", [pd.DataFrame, pl.DataFrame, pa.table, pa.RecordBatch.from_pydict])
def test_columns_are_matched_by_name(build):
    frame = build({"b": [2.0, 0.0], "a": [1.0, 3.0]})
    assert column_names(frame) == ("b", "a")
    check_equal(to_chunk(frame), reference([[2.0, 1.0], [0.0, 3.0]]))
    check_equal(to_chunk(frame, columns=["a", "b"]), reference([[1.0, 2.0], [3.0, 0.0]]))
    with pytest.raises(
        ValueError,
        match=r"^columns must be those of the model: missing 'c'; unexpected 'b'$",
    ):
        to_chunk(frame, columns=["a", "c"])
    bad = build({"b": [2.0, nan], "a": [1.0, 3.0]})
    with pytest.raises(ValueError, match=r"^X\[1, 'b'\] must be finite, got nan$"):
        to_chunk(bad, columns=["a", "b"])


def test_columns_without_names_are_matched_by_position():
    assert column_names(np.eye(2)) is column_names(pd.DataFrame(np.eye(2))) is column_names(sp.eye(2)) is None
    assert column_names(pd.Series([1.0], name="a")) is column_names(pl.DataFrame()) is None
    for X in (np.eye(2), pd.DataFrame(np.eye(2)), sp.csr_matrix(np.eye(2))):
        check_equal(to_chunk(X, columns=["a", "b"]), reference(np.eye(2)))


def test_sparse_and_nullable_columns_are_reordered():
    frame = pd.DataFrame({"b": pd.arrays.SparseArray([0, 5], fill_value=0), "a": pd.array([1, 0], "Int64")})
    check_equal(to_chunk(frame, columns=("a", "b")), reference([[1, 0], [0, 5]]))


def test_column_matching():
    assert match_columns(("a", "b"), ["a", "b"]) is None
    assert match_columns(["c", "a", "b"], ["a", "b", "c"]) == [1, 2, 0]
    many = [f"c{i}" for i in range(8)]
    with pytest.raises(ValueError, match=r"missing 'c0', 'c1', 'c2', 'c3', 'c4' and 3 more$"):
        match_columns(["a"], ["a", *many])
    with pytest.raises(ValueError, match=r"of the model: unexpected 'c0', 'c1'$"):
        match_columns(["a", "c0", "c1"], ["a"])
    with pytest.raises(TypeError, match=r"^column names must all be str or none, got 'a' and 1$"):
        column_names(pd.DataFrame([[1.0, 2.0]], columns=["a", 1]))
    with pytest.raises(ValueError, match=r"^column 'a' occurs more than once$"):
        column_names(pd.DataFrame([[1.0, 2.0]], columns=["a", "a"]))


# --- errors -----------------------------------------------------------------------------------


def csr(data=(1.0, 2.0), indices=(0, 1), indptr=(0, 1, 2), shape=(2, 3), form=sp.csr_matrix):
    """A sparse matrix that scipy has not looked at."""
    X = form(shape)
    X.data, X.indices, X.indptr = np.array(data), np.array(indices), np.array(indptr)
    return X


def coo(row, col):
    X = sp.coo_matrix(([1.0, 2.0], ([0, 1], [0, 1])), (2, 3))
    X.row, X.col = np.array(row), np.array(col)
    return X


RANGE = "must be 0 or between 1e-100 and 1e\\+100 in size"
CITY = {"age": [1.0, 2.0], "city": ["Oslo", "Rome"]}
#: Values behind which a library may keep numbers.
MOMENTS = {
    "date": datetime.date(2020, 1, 1),
    "datetime": datetime.datetime(2020, 1, 1),
    "timedelta": datetime.timedelta(1),
    "time": datetime.time(1),
}
DATES = np.array(["2020-01-01", "2020-01-02"], "M8[ns]")
WRONG_X = [
    # values
    ([[1.0, 2.0], [0.0, nan]], ValueError, r"^X\[1, 1\] must be finite, got nan$"),
    ([[1.0, -inf]], ValueError, r"^X\[0, 1\] must be finite, got -inf$"),
    ([[1.0, 1.1e100]], ValueError, rf"^X\[0, 1\] {RANGE}, got 1\.1e\+100$"),
    (np.array([[0.0], [9e-101]]), ValueError, rf"^X\[1, 0\] {RANGE}, got 9e-101$"),
    (np.array([[5e-324]]), ValueError, rf"^X\[0, 0\] {RANGE}, got 4\.94066e-324$"),
    (csr([1.0, nan]), ValueError, r"^X\[1, 1\] must be finite, got nan$"),
    (csr([inf, nan]), ValueError, r"^X\[0, 0\] must be finite, got inf$"),
    (csr([1.0, -1e200]), ValueError, rf"^X\[1, 1\] {RANGE}, got -1e\+200$"),
    (csr([1.0, nan], (2, 1), (0, 2, 2)), ValueError, r"^X\[0, 1\] must be finite"),
    (csr([1e100, 1e100], (1, 1), (0, 0, 2)), ValueError, rf"^X\[1, 1\] {RANGE}, got 2e\+100$"),
    (csr([1e-90, -(1e-90 - 1e-105)], (1, 1), (0, 0, 2)), ValueError, rf"^X\[1, 1\] {RANGE}, got \S+e-105$"),
    (pd.DataFrame({"a": [1.0], "b": [inf]}), ValueError, r"^X\[0, 'b'\] must be finite, got inf$"),
    (pl.DataFrame({"a": [1.0], "b": [nan]}), ValueError, r"^X\[0, 'b'\] must be finite, got nan$"),
    (pa.table({"a": [1.0], "b": [nan]}), ValueError, r"^X\[0, 'b'\] must be finite, got nan$"),
    (pd.DataFrame([[1.0, nan]]), ValueError, r"^X\[0, 1\] must be finite, got nan$"),
    (
        pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, nan]}).astype("Sparse[float]"),
        ValueError,
        r"^X\[1, 'b'\] (is missing|must be finite, got nan)$",
    ),
    (
        pd.DataFrame({"a": [1.0, 2.0], "b": [0.0, inf]}).astype(pd.SparseDtype(float, 0.0)),
        ValueError,
        r"^X\[1, 'b'\] must be finite, got inf$",
    ),
    # nulls
    (pl.DataFrame({"a": [1, 2], "b": [1, None]}), ValueError, r"^X\[1, 'b'\] is missing$"),
    (pl.DataFrame({"a": [True, None]}), ValueError, r"^X\[1, 'a'\] is missing$"),
    (pl.DataFrame({"a": [None, None]}), ValueError, r"^X\[0, 'a'\] is missing$"),
    (pa.table({"a": [1.0, None]}), ValueError, r"^X\[1, 'a'\] is missing$"),
    (pa.table({"a": [False, None]}), ValueError, r"^X\[1, 'a'\] is missing$"),
    (pa.RecordBatch.from_pydict({"a": [None, 1]}), ValueError, r"^X\[0, 'a'\] is missing$"),
    (pd.DataFrame({"a": pd.array([1, None], "Int64")}), ValueError, r"^X\[1, 'a'\] is missing$"),
    (pd.DataFrame({"a": pd.array([True, None], "boolean")}), ValueError, r"^X\[1, 'a'\] is missing$"),
    (pd.DataFrame({"a": pd.array([1.0, None], "double[pyarrow]")}), ValueError, r"^X\[1, 'a'\] is missing$"),
    (pd.DataFrame({"a": np.array([1, None], object)}), ValueError, r"^X\[1, 'a'\] is missing$"),
    ([[1.0, 2.0], [None, 1.0]], ValueError, r"^X\[1, 0\] is missing$"),
    (np.ma.masked_array([[1.0, 2.0]], [[False, True]]), ValueError, r"^X\[0, 1\] is missing$"),
    # what is no number
    (pd.DataFrame(CITY), TypeError, r"^column 'city' holds str: encode it, or pass dicts$"),
    (pl.DataFrame(CITY), TypeError, r"^column 'city' holds str: encode it, or pass dicts$"),
    (pa.table(CITY), TypeError, r"^column 'city' holds str: encode it, or pass dicts$"),
    (pa.RecordBatch.from_pydict(CITY), TypeError, r"^column 'city' holds str: encode it, or pass dicts$"),
    (pd.DataFrame(CITY).astype({"city": "category"}), TypeError, r"^column 'city' holds str: encode"),
    (pd.DataFrame(CITY).astype({"city": object}), TypeError, r"^column 'city' holds str: encode"),
    (pl.DataFrame({"city": ["Oslo", None]}), TypeError, r"^column 'city' holds str: encode"),
    (pa.table({"city": [None, "Oslo"]}), TypeError, r"^column 'city' holds str: encode"),
    (pd.DataFrame({"n": pd.Series([1, 2]).astype("category")}), TypeError, r"^column 'n' holds category: encode"),
    (pd.DataFrame({"day": DATES}), TypeError, r"^column 'day' holds (datetime64\S*|Timestamp|datetime): encode it"),
    (pl.DataFrame({"day": DATES}), TypeError, r"^column 'day' holds (datetime64\S*|Timestamp|datetime): encode it"),
    (pa.table({"day": DATES}), TypeError, r"^column 'day' holds (datetime64\S*|Timestamp|datetime): encode it"),
    (pd.DataFrame({"t": DATES - DATES[0]}), TypeError, r"^column 't' holds \w+"),
    *(
        (
            make({"d": [moment] * 2, "x": [1.0, 2.0]}),
            TypeError,
            rf"^column 'd' holds {kind}(64\[ns\])?: encode it, or pass dicts$",
        )
        for make in (pd.DataFrame, pl.DataFrame, pa.table)
        for kind, moment in MOMENTS.items()
    ),
    (
        pl.DataFrame({"c": pl.Series(["a", "b"], dtype=pl.Categorical), "x": [1.0, 2.0]}),
        TypeError,
        r"^column 'c' holds str",
    ),
    (pa.table({"c": pa.array([1, 2]).dictionary_encode(), "x": [1.0, 2.0]}), TypeError, r"^column 'c' holds object"),
    (pd.DataFrame({"z": [1j]}), TypeError, r"^column 'z' holds complex"),
    (pl.DataFrame({"l": [[1.0, 2.0]]}), TypeError, r"^column 'l' holds \w+: encode it"),
    (pa.table({"s": [{"a": 1}]}), TypeError, r"^column 's' holds dict: encode it"),
    ([[1.0, "a"]], TypeError, r"^column 1 holds str: encode it, or pass dicts$"),
    (np.array([["1", "2"]]), TypeError, r"^column 0 holds str: encode it, or pass dicts$"),
    (np.array([[1, 2j]]), TypeError, r"^column 0 holds complex\w*: encode it"),
    (np.array([[1, {}]], object), TypeError, r"^column 1 holds dict: encode it"),
    (DATES[None], TypeError, r"^column 0 holds datetime64\S*: encode it"),
    (sp.csr_matrix([[1j]]), TypeError, r"^X must hold numbers, got complex128$"),
    (sp.coo_matrix([[1j]]), TypeError, r"^X must hold numbers, got complex128$"),
    ([{"a": 1.0}], TypeError, r"^X holds dict: use Vocabulary"),
    ("text", TypeError, r"^X must be a matrix of numbers, got str$"),
    (None, TypeError, r"^X must be a matrix of numbers, got NoneType$"),
    (pl.LazyFrame({"a": [1.0]}), TypeError, r"^X must be a matrix of numbers, got LazyFrame$"),
    # shapes
    (np.ones(3), ValueError, r"^X must be two-dimensional, got shape \(3,\): use X\.reshape\(1, -1\) for one row$"),
    ([1.0, 2.0], ValueError, r"reshape\(1, -1\)"),
    (pd.Series([1.0, 2.0]), ValueError, r"reshape\(1, -1\)"),
    pytest.param(
        sp.coo_array([1.0, 2.0]),
        ValueError,
        r"reshape\(1, -1\)",
        marks=pytest.mark.skipif(sp.coo_array([1.0]).ndim == 2, reason="older scipy makes a row of it"),
    ),
    (np.ones((1, 1, 1)), ValueError, r"^X must be two-dimensional, got shape \(1, 1, 1\)$"),
    (1.0, ValueError, r"^X must be two-dimensional, got shape \(\)$"),
    ([[1.0], [1.0, 2.0]], ValueError, r"^X must have rows of one length, got 1 columns in row 0 and 2 in row 1$"),
    ([[1.0], 2.0], TypeError, r"^X must be a matrix of numbers, got list$"),
    # indices
    (csr(indices=(0, -1)), ValueError, r"^X\[1, -1\] is no entry: an index is at least 0$"),
    (csr(indices=(3, 1)), ValueError, r"^X\[0, 3\] is no entry: there are 3 features$"),
    (csr(indices=np.array([0, 2**32 + 1])), ValueError, r"^X\[1, 4294967297\] is no entry: index overflow"),
    (
        csr(indices=np.array([0, 2**31 - 1]), shape=(2, 2**31 + 5)),
        ValueError,
        r"^X\[1, 2147483647\] is no entry: index",
    ),
    (csr(indices=(0.0, 1.0)), TypeError, r"^X\.indices must be one-dimensional integers, got float64 of shape \(2,\)$"),
    (coo([0, 1], [0, -1]), ValueError, r"^X\[1, -1\] is no entry: an index is at least 0$"),
    (coo([0, 1], [3, 0]), ValueError, r"^X\[0, 3\] is no entry: there are 3 features$"),
    (coo([0, 2], [0, 1]), ValueError, r"^X\.row\[1\] must be from 0 to 1, got 2$"),
    (csr(indices=(0, 9), indptr=(0, 1, 2, 2), form=sp.csc_matrix), ValueError, r"^X\.indices\[1\] must be from 0 to 1"),
    (csr(indptr=(0, 9, 2, 2), form=sp.csc_matrix), ValueError, r"^X\.indptr must not decrease"),
    # indptr
    (csr(indptr=(1, 1, 2)), ValueError, r"^X\.indptr must start at 0, got 1$"),
    (csr(indptr=(0, 2, 1)), ValueError, r"^X\.indptr must not decrease, got 1 after 2 at row 1$"),
    (csr(indptr=(0, 1, 3)), ValueError, r"^X\.indptr must end at the number of entries: 2, got 3$"),
    (csr(indptr=(0, 1, 2, 2)), ValueError, r"^X\.indptr must have one entry more than there are rows: 3, got 4$"),
    (csr(data=[1.0]), ValueError, r"^X\.indptr must end at the number of entries: 1, got 2$"),
    (csr(indptr=(0.0, 1.0, 2.0)), TypeError, r"^X\.indptr must be one-dimensional integers, got float64"),
    (Chunk([], [], []), TypeError, r"^X\.indptr must be one-dimensional integers"),
    (Chunk(np.zeros(0, int), [], []), ValueError, r"^X\.indptr must have one entry more .*: 1, got 0$"),
    (Chunk([0, 1], [0], ["a"]), TypeError, r"^X must hold numbers, got <U1$"),
    (Chunk([0, 1], [0], [nan]), ValueError, r"^X\[0, 0\] must be finite, got nan$"),
]


@pytest.mark.parametrize(("X", "error", "message"), WRONG_X)
def test_errors_name_wrong_rows(X, error, message):
    with pytest.raises(error, match=message):
        to_chunk(X)


def test_number_of_features_is_checked():
    X = [[1.0, 0.0, 2.0]]
    for fine in (X, np.array(X), sp.csr_matrix(X), to_chunk(X), pd.DataFrame(X)):
        check_equal(to_chunk(fine, n_features=3), reference(X))
    for dense in (X, pd.DataFrame(X), pd.DataFrame(X).astype(pd.SparseDtype(float, 0.0))):
        for n_features in (2, 4):
            with pytest.raises(ValueError, match=rf"^X has 3 columns, but there are {n_features} features$"):
                to_chunk(dense, n_features=n_features)
    for sparse in (sp.csr_matrix(X), sp.coo_matrix(X), to_chunk(X)):
        to_chunk(sparse, n_features=4)
        with pytest.raises(ValueError, match=r"^X\[0, 2\] is no entry: there are 2 features$"):
            to_chunk(sparse, n_features=2)
        with pytest.raises(ValueError, match=r"^X\[0, 2\] is no entry: there are 2 features$"):
            to_chunk(sparse, columns=["a", "b"])
    wide = np.lib.stride_tricks.as_strided(np.zeros(1), (1, 2**31), (0, 0))
    with pytest.raises(ValueError, match=r"^X has 2147483648 columns: index overflow"):
        to_chunk(wide)


# --- targets and sample weights ---------------------------------------------------------------

SERIES = [list, tuple, np.array, pd.Series, pl.Series, pa.array, lambda y: pa.chunked_array([y[:1], y[1:]])]


@pytest.mark.parametrize("series", SERIES)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_targets_and_weights_of_any_series(series, loss):
    for y in ([1, 1, 1], [1.0, 1.0, 1.0]):
        for array in (check_targets(series(y), 3, loss), check_sample_weights(series(y), 3)):
            assert array.dtype == np.float64
            assert array.flags.c_contiguous
            assert array.flags.writeable
            assert array.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    "y",
    [
        pd.array([1, -1], "Int64"),
        pd.Series([1, -1], dtype="Int8"),
        pd.Series([1, -1], dtype="int8[pyarrow]"),
        pd.Series(pd.arrays.SparseArray([1, -1])),
        read_only(np.array([1.0, -1.0])),
        np.array([1.0, 9.0, -1.0])[::2],
        np.array([1, -1], ">f4"),
    ],
)
def test_unusual_series_of_targets(y):
    before = y.copy()
    assert check_targets(y, 2, fiol.Logistic()).tolist() == [1.0, -1.0]
    assert (y == before).all()


LABELS = r"must be -1 or \+1 for Logistic, got"
WRONG_Y = [
    ([1, -1, -1, 0], ValueError, rf"^y\[3\] {LABELS} 0$"),
    ([1, 0, 0, 1], ValueError, rf"^y\[1\] {LABELS} 0: use 2\*y - 1$"),
    (np.array([1, 0, 0, 1], np.uint8), ValueError, rf"^y\[1\] {LABELS} 0: use 2\*y - 1$"),
    ([True] * 4, ValueError, rf"^y {LABELS} bool: use 2\*y - 1$"),
    (pd.Series([True, False] * 2, dtype="boolean"), ValueError, rf"^y {LABELS} bool: use 2\*y - 1$"),
    (pl.Series([True, False] * 2), ValueError, rf"^y {LABELS} bool: use 2\*y - 1$"),
    ([1, 1, 2, 1], ValueError, rf"^y\[2\] {LABELS} 2: use 2\*y - 3; fiol"),
    ([1, nan, 1, 1], ValueError, r"^y\[1\] must be finite, got nan$"),
    ([1, -inf, 1, 1], ValueError, r"^y\[1\] must be finite, got -inf$"),
    ([1, 1e101, 1, 1], ValueError, r"^y\[1\] must be at most 1e\+100 in size, got 1e\+101$"),
    ([1, 1, 1], ValueError, r"^y must have one entry per row: 4, got 3$"),
    (np.ones((4, 1)), ValueError, r"^y must be one-dimensional, got shape \(4, 1\): use y\.ravel\(\)$"),
    (pd.DataFrame({"y": [1.0] * 4}), ValueError, r"^y must be one-dimensional, got shape \(4, 1\): use y\.ravel\(\)$"),
    (pl.DataFrame({"y": [1.0] * 4}), ValueError, r"ravel"),
    (np.ones((2, 2)), ValueError, r"^y must be one-dimensional, got shape \(2, 2\)$"),
    (1.0, ValueError, r"^y must be one-dimensional, got shape \(\)$"),
    (["a", "b", "a", "b"], TypeError, r"^y holds str: it must be -1 or \+1 for Logistic; fiol"),
    (pd.Series(list("abab")), TypeError, r"^y holds str: it must be -1 or \+1 for Logistic; fiol"),
    (pl.Series(list("abab")), TypeError, r"^y holds str: it must be -1 or \+1 for Logistic; fiol"),
    ([1, None, 1, 1], ValueError, r"^y\[1\] is missing$"),
    (pd.Series([1, None, 1, 1], dtype="Int64"), ValueError, r"^y\[1\] is missing$"),
    (pl.Series([1, None, 1, 1]), ValueError, r"^y\[1\] is missing$"),
    (pa.array([1, None, 1, 1]), ValueError, r"^y\[1\] is missing$"),
    (None, ValueError, r"^y is missing$|^y\[0\] is missing$"),
    ([[1], [1, 2], [1], [1]], TypeError, r"^y holds list: it must be -1 or \+1 for Logistic; fiol"),
]


@pytest.mark.parametrize(("y", "error", "message"), WRONG_Y)
def test_errors_name_wrong_targets(y, error, message):
    with pytest.raises(error, match=message):
        check_targets(y, 4, fiol.Logistic())


def test_target_errors_name_what_the_loss_accepts():
    with pytest.raises(ValueError, match=r"^y\[1\] must be a finite number of at least 0 for Poisson, got -1$"):
        check_targets([0.5, -1.0], 2, fiol.Poisson())
    assert check_targets([True, False], 2, fiol.Poisson()).tolist() == [1.0, 0.0]
    assert check_targets([0, 1], 2, fiol.Squared()).tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        ([1, -0.5], ValueError, r"^sample_weight\[1\] must be at least 0 and at most 1e\+30, got -0\.5$"),
        ([1, 2e30], ValueError, r"^sample_weight\[1\] must be at least 0 and at most 1e\+30, got 2e\+30$"),
        ([nan, 1], ValueError, r"^sample_weight\[0\] must be finite, got nan$"),
        ([inf, 1], ValueError, r"^sample_weight\[0\] must be finite, got inf$"),
        ([1], ValueError, r"^sample_weight must have one entry per row: 2, got 1$"),
        (
            [[1], [1]],
            ValueError,
            r"^sample_weight must be one-dimensional, got shape \(2, 1\): use sample_weight\.ravel",
        ),
        (2.0, ValueError, r"^sample_weight must be one-dimensional, got shape \(\)$"),
        (["a", "b"], TypeError, r"^sample_weight holds str: it must be numbers$"),
    ],
)
def test_errors_name_wrong_weights(weights, error, message):
    with pytest.raises(error, match=message):
        check_sample_weights(weights, 2)


# --- dicts ------------------------------------------------------------------------------------

KEYS = st.sampled_from(["a", "b", "color", "color=red", "é", "", "\ud800"]) | st.integers(0, 5)
CELLS = st.sampled_from([0, 1, True, False, -2, 0.0, 0.5, "red", "", np.float32(2), np.int64(3), Decimal("0.5")])
DICTS = st.lists(st.dictionaries(KEYS, CELLS, max_size=6), max_size=6)
LONG = st.dictionaries(st.integers(0, 300).map(str), st.sampled_from([0.0, 1.0, -2.5]), min_size=60, max_size=200)


def plainly(rows, number):
    """The chunk of dicts, feature by feature."""
    lines = []
    for row in rows:
        features = [(f"{k}={v}", 1.0) if isinstance(v, str) else (k, float(v)) for k, v in row.items()]
        lines.append([(number(k), v) for k, v in features if v != 0.0])
    return tidy(lines)


class Numbers(dict):
    def __missing__(self, name):
        return self.setdefault(name, len(self))


def hashed(bits):
    def number(name):
        if isinstance(name, int):
            return name % 2**bits
        return murmurhash3_32(name.encode("utf8", "surrogatepass"), positive=True) % 2**bits

    return number


@given(DICTS | st.lists(LONG, max_size=3), st.data())
def test_vocabulary_numbers_by_first_appearance(rows, data):
    plain, whole, cut, single = Numbers(), Vocabulary(), Vocabulary(), Vocabulary()
    expected = plainly(rows, plain.__getitem__)
    check_equal(whole.encode(iter(rows)), expected)
    k = data.draw(st.integers(0, len(rows)))
    first, second = cut.encode(rows[:k]), cut.encode(rows[k:])
    assert np.concatenate([first.data, second.data]).tobytes() == expected.data.tobytes()
    assert np.concatenate([first.indices, second.indices]).tobytes() == expected.indices.tobytes()
    for r, row in enumerate(rows):
        indices, values = single.encode_one(row)
        check_equal(Chunk(np.array([0, len(values)]), indices, values), expected.row_block(r, r + 1))
    names = [name for name, _ in sorted(plain.items(), key=lambda item: item[1])]
    assert whole.names == cut.names == single.names == names
    check_equal(whole.encode(rows), expected)
    check_equal(pickle.loads(pickle.dumps(whole)).encode(rows), expected)
    check_equal(whole.encode(rows, grow=False), expected)
    assert whole.names == names


@given(DICTS | st.lists(LONG, max_size=3), st.sampled_from([1, 3, 20]))
def test_hashing_keeps_no_vocabulary(rows, bits):
    hashing = Hashing(bits)
    expected = plainly(rows, hashed(bits))
    check_equal(hashing.encode(rows), expected)
    check_equal(hashing.encode(rows), expected)
    check_equal(pickle.loads(pickle.dumps(hashing)).encode(rows), expected)
    for r, row in enumerate(rows):
        indices, values = Hashing(bits).encode_one(row)
        check_equal(Chunk(np.array([0, len(values)]), indices, values), expected.row_block(r, r + 1))


@given(untidy(), st.sampled_from([1, 2, 3, 31]))
def test_folding_hashes_integers(rows, bits):
    rows = [dict(row) for row in rows]
    chunk = tidy([list(row.items()) for row in rows])
    before = pickle.dumps(chunk)
    folded = Hashing(bits).fold(chunk)
    check_equal(folded, tidy([[(k % 2**bits, v) for k, v in sorted(row.items())] for row in rows]))
    assert bits < 3 or folded is chunk
    check_equal(Hashing(bits).encode([dict(sorted(row.items())) for row in rows]), folded)
    assert pickle.dumps(chunk) == before


def test_hashes_are_platform_independent():
    names = ("age", "color=red", "é", "")
    assert [Hashing(18).number(name) for name in names] == [165201, 167982, 67463, 0]
    assert [Hashing(18, "crc32").number(name) for name in names] == [186462, 194679, 248357, 0]  # of older files
    assert Hashing(31).number(2**31 - 1) == 0  # the most features are one less than 2**31
    script = "from fiol.features.hashing import Hashing; print(Hashing(24).number('color=red'))"
    numbers = {
        subprocess.run(
            [sys.executable, "-c", script], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert numbers == {f"{Hashing(24).number('color=red')}\n"}


def test_hash_cache_is_bounded(monkeypatch):
    monkeypatch.setattr("fiol.features.hashing.CACHE_SIZE", 3)
    hashing = Hashing(20)
    for k in range(20):
        hashing.encode_one({f"f{k}": 1.0})
    assert len(hashing.known) <= 3


def test_hashing_compares_by_value():
    assert Hashing(3) == Hashing(3) != Hashing(4)
    assert len({Hashing(3), Hashing(3)}) == 1
    assert repr(Hashing(3)) == "Hashing(3)"
    assert Hashing(3).size == 8
    assert repr(Vocabulary(["a"])) == "<Vocabulary of 1 names>"


@pytest.mark.parametrize(
    ("bits", "error", "message"),
    [
        (0, ValueError, r"^bits must be from 1 to 31, got 0$"),
        (32, ValueError, r"^bits must be from 1 to 31, got 32$"),
        (2.5, TypeError, r"^bits must be an integer, got 2\.5$"),
    ],
)
def test_invalid_bits_raise(bits, error, message):
    with pytest.raises(error, match=message):
        Hashing(bits)


def test_integers_and_their_strings_are_different_features():
    words = Vocabulary()
    words.encode([{1: 1.0, "1": 1.0}])
    assert words.names == [1, "1"]
    for key in (True, 1.0):  # they equal 1, but are no names
        with pytest.raises(TypeError, match=rf"^x has the key {key}: keys must be str or int$"):
            words.encode_one({key: 1.0})
    assert words.encode_one({np.int64(1): 1.0, np.str_("1"): 2.0})[0].tolist() == [0, 1]


def test_unknown_names_can_be_skipped():
    words = Vocabulary()
    words.encode([{"a": 1.0, "color": "red"}])
    row = {"b": 3.0, "color": "blue", 3: 1.0, "a": 2.0}
    assert [part.tolist() for part in words.encode_one(row, grow=False)] == [[0], [2.0]]
    check_equal(words.encode([row], grow=False), reference([[2.0]]))
    assert words.names == ["a", "color=red"]


WRONG_ROW = [
    ({"new": 1.0, "age": None}, ValueError, r"'age'\] is missing$"),
    ({"new": 1.0, "age": pd.NA}, ValueError, r"'age'\] is missing$"),
    ({"new": 1.0, "age": nan}, ValueError, r"'age'\] must be finite, got nan$"),
    ({"age": nan}, ValueError, r"'age'\] must be finite, got nan$"),
    ({"age": -inf}, ValueError, r"'age'\] must be finite, got -inf$"),
    ({"age": 10**400}, ValueError, r"'age'\] must be finite, got inf$"),
    ({"age": 1e-200}, ValueError, rf"'age'\] {RANGE}, got 1e-200$"),
    ({"age": 10**101}, ValueError, rf"'age'\] {RANGE}, got 1e\+101$"),
    ({"new": 1.0, 7: 1e200}, ValueError, rf"7\] {RANGE}, got 1e\+200$"),
    ({"new": 1.0, "age": [1.0]}, TypeError, r"'age'\] must be a number or a str, got list$"),
    ({"age": b"1"}, TypeError, r"'age'\] must be a number or a str, got bytes$"),
    ({"age": 1j}, TypeError, r"'age'\] must be a number or a str, got complex$"),
    ({"new": 1.0, 2.5: 1.0}, TypeError, r" has the key 2\.5: keys must be str or int$"),
    ({None: "text"}, TypeError, r" has the key None: keys must be str or int$"),
    ({("a", 1): 0.0}, TypeError, r" has the key \('a', 1\): keys must be str or int$"),
    ([1.0], TypeError, r" must be a dict, got list$"),
    ("age", TypeError, r" must be a dict, got str$"),
    (None, TypeError, r" must be a dict, got NoneType$"),
]


@pytest.mark.parametrize("encoder", [Vocabulary, lambda: Hashing(20)], ids=["Vocabulary", "Hashing"])
@pytest.mark.parametrize(("row", "error", "message"), WRONG_ROW)
def test_invalid_dicts_raise_and_add_no_names(row, error, message, encoder):
    encoder = encoder()
    encoder.encode([{"age": 1.0, "color": "red"}])
    before, size = pickle.dumps(encoder), encoder.size
    with pytest.raises(error, match=r"^x\W?.*" + message):
        encoder.encode_one(row)
    with pytest.raises(error, match=r"^X\[2.*" + message):
        encoder.encode([{"fresh": 1.0}, {8: 1.0, "text": "new"}, row, {"later": 1.0}])
    assert pickle.dumps(encoder) == before
    assert encoder.size == size
    assert [part.tolist() for part in encoder.encode_one({"age": 2.0})] == [[encoder.number("age")], [2.0]]


@pytest.mark.parametrize("row", [{0: 1e100, 2: 1e100}, {0: 1e-90, 2: -(1e-90 - 1e-105)}])
def test_overflowing_collisions_raise(row):
    with pytest.raises(ValueError, match=rf"^X\[1\], the sum of all that is feature 0, {RANGE}, got"):
        Hashing(1).encode([{"a": 1.0}, row])
    with pytest.raises(ValueError, match=rf"^x, the sum of all that is feature 0, {RANGE}, got"):
        Hashing(1).encode_one(row)
    plain = Chunk(np.array([0, 0, 2]), np.array(list(row), np.int32), np.array(list(row.values())))
    with pytest.raises(ValueError, match=rf"^X\[1, 0\] {RANGE}, got"):
        Hashing(1).fold(plain)


def test_negative_integer_names_raise():
    with pytest.raises(ValueError, match=r"^X\[1\] has the key -1: an index is at least 0$"):
        Hashing(4).encode([{"a": 1.0}, {-1: 1.0}])
    assert Vocabulary().encode([{-1: 1.0}]).indices.tolist() == [0]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_failing_rows_add_no_names(error):
    def rows():
        yield {"a": 1.0}
        yield {"b": 1.0, "color": "red"}
        raise error("gone")

    words = Vocabulary(["z"])
    with pytest.raises(error, match="gone") as caught:
        words.encode(rows())
    assert words.names == ["z"]
    if hasattr(caught.value, "__notes__"):
        assert caught.value.__notes__ == ["in row 2"]
    assert words.encode([{"b": 1.0}]).indices.tolist() == [1]


def test_dict_instead_of_list_of_dicts_raises():
    with pytest.raises(TypeError, match=r"^rows must be an iterable of dicts: for a single one use encode_one$"):
        Vocabulary().encode({"a": 1.0})


def test_importing_features_loads_no_compiler():
    heavy = "{'narwhals', 'numba', 'scipy', 'pandas', 'polars', 'pyarrow'}"
    script = f"import sys, fiol.features.feature_space; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize("at_once", [1, 3, 7])
def test_sparse_rows_canonicalized_in_pieces_are_the_same(at_once, monkeypatch):
    """In any order, with zeros and duplicates, rows without entries, and sums that cancel."""
    draw = np.random.default_rng(at_once)
    for _ in range(30):
        lengths = draw.integers(0, 6, 8)
        indptr, n = np.concatenate([[0], np.cumsum(lengths)]), lengths.sum()
        raw = Chunk(indptr, draw.integers(0, 5, n).astype(np.int32), draw.integers(-1, 2, n).astype(np.float64))
        whole = fiol.to_chunk(raw)
        with monkeypatch.context() as patch:
            patch.setattr("fiol.features.chunk.AT_ONCE", at_once)
            found = fiol.to_chunk(raw)
        for a, b in zip(found, whole, strict=True):
            assert a.dtype == b.dtype
            assert a.tolist() == b.tolist()
    wrong = raw._replace(data=np.where(np.arange(n) == n - 1, np.nan, 1.0))
    monkeypatch.setattr("fiol.features.chunk.AT_ONCE", at_once)
    with pytest.raises(ValueError, match=r"X\[\d, \d\] must be finite, got nan"):
        fiol.to_chunk(wrong)


@pytest.mark.parametrize("at_once", [1, 3, 7])
def test_dense_rows_canonicalized_in_pieces_are_the_same(at_once, monkeypatch):
    """With zeros and without, of every type and in either order, one row at a time or several."""
    draw = np.random.default_rng(at_once)
    arrays = [draw.integers(low, 3, (draw.integers(0, 9), draw.integers(0, 4))) for low in (0, 1) for _ in range(20)]
    for x in [kind(x) for x in arrays for kind in (np.float64, np.float32, np.int8, np.asfortranarray)]:
        whole = fiol.to_chunk(x)
        with monkeypatch.context() as patch:
            patch.setattr("fiol.features.containers.AT_ONCE", at_once)
            found = fiol.to_chunk(x)
        for a, b in zip(found, whole, strict=True):
            assert a.dtype == b.dtype
            assert a.tolist() == b.tolist()
    monkeypatch.setattr("fiol.features.containers.AT_ONCE", at_once)
    with pytest.raises(ValueError, match=r"^X\[5, 1\] must be finite, got nan$"):
        fiol.to_chunk(np.where(np.arange(18).reshape(9, 2) == 11, np.nan, 1.0))


@pytest.mark.parametrize("zeros", [False, True])
def test_interrupt_between_pieces_of_dense_rows(zeros, monkeypatch):
    """A single call for millions of rows took seconds, in which no signal was seen."""
    monkeypatch.setattr("fiol.features.containers.AT_ONCE", 8)
    learner, pieces, real = fiol.Learner(fiol.FIOL(fiol.Squared()), compiled=False), [], containers.doubles

    def interrupted(array):
        if len(pieces) == 7:  # the second time, when entries are written
            raise KeyboardInterrupt
        pieces.append(array.size)
        return real(array)

    monkeypatch.setattr(containers, "doubles", interrupted)
    with pytest.raises(KeyboardInterrupt):
        learner.learn(np.ones((10, 4)) - zeros * np.eye(10, 4), np.ones(10))
    assert pieces == [8] * 7
    assert (learner.rounds, learner.n_features) == (0, 0)


def test_largest_accepted_value():
    with pytest.raises(ValueError, match=r"^X\[1, 1\] must be 0 or between 1e-100 and "):
        to_chunk(np.array([[LARGEST, SMALLEST], [0.0, 2.0 * LARGEST]]))
    assert to_chunk([[LARGEST, SMALLEST]]).data.tolist() == [LARGEST, SMALLEST]


@pytest.mark.parametrize(
    ("indices", "limit", "error", "message"),
    [
        (np.array([2**63], object), 5, ValueError, "got an integer of more than 64 bits"),
        (np.array(["a"], object), 5, TypeError, "must be one-dimensional integers, got object"),
        (np.array([0]), 0, ValueError, r"^X\[0, 0\] is no entry: there are 0 features$"),
        (np.array([-1]), 5, ValueError, r"^X\[0, -1\] is no entry: an index is at least 0$"),
        (np.array([MOST_FEATURES]), MOST_FEATURES, ValueError, r"index overflow, the largest is \d+$"),
    ],
)
def test_invalid_indices_raise_with_a_reason(indices, limit, error, message):
    with pytest.raises(error, match=message):
        check_indices(np.array([0, 1]), indices, limit)
