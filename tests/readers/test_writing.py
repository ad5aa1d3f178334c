"""Written files are read back with the same bits."""

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file

from fiol import Chunk, NamedRows
from fiol.readers.batch import Batch, Place
from fiol.readers.reader_config import ReaderConfig
from fiol.readers.writing import CannotWriteError, write_rows

VALUES = st.floats(1e-100, 1e100) | st.floats(-1e100, -1e-100) | st.sampled_from([1.0, -1.0, 2.0, 0.1, 1e22, 1e23])
TARGETS = st.floats(allow_nan=False, allow_infinity=False)
FITTING = st.text(st.characters(exclude_characters=" \t\r\n|:", exclude_categories=["Cs"]), min_size=1, max_size=8)


def batch_of(rows, names, y, weights=None, tags=None):
    """Rows, each a dict from places among the names (or numbers, if there are none), as a batch."""
    indptr = np.cumsum([0, *map(len, rows)])
    chunk = Chunk(
        indptr, np.array([i for r in rows for i in r], np.int32), np.array([v for r in rows for v in r.values()], float)
    )
    if names is not None:
        order = list(dict.fromkeys(chunk.indices.tolist()))
        number = {i: k for k, i in enumerate(order)}
        chunk = chunk._replace(indices=np.array([number[i] for i in chunk.indices.tolist()], np.int32))
    X = chunk if names is None else NamedRows(chunk, [names[i] for i in order])
    return Batch(X, np.array(y), None if weights is None else np.array(weights), tags, Place("here", 1), len(rows), 0)


def written(batch, form, **options):
    file = io.BytesIO()
    assert write_rows(file, [batch], form, **options) == batch.rows
    return file.getvalue()


def check_same(found, batch):
    (found,) = found
    assert repr(found.X) == repr(batch.X)
    assert found.y.tobytes() == batch.y.tobytes()
    assert repr(found.weights) == repr(batch.weights)
    assert found.tags == batch.tags


@given(st.lists(st.tuples(TARGETS, st.dictionaries(st.integers(0, 2**31 - 2), VALUES)), min_size=1), st.booleans())
def test_svmlight_round_trips(rows, zero_based):
    batch = batch_of([dict(sorted(row.items())) for _, row in rows], None, [y for y, _ in rows])
    text = written(batch, "svmlight", zero_based=zero_based)
    check_same(
        ReaderConfig("svmlight", options={"zero_based": zero_based}).batches(io.BytesIO(text), prefetch=False), batch
    )
    X, y = load_svmlight_file(io.BytesIO(text), n_features=2**31 - 1, zero_based=zero_based)
    assert X.data.tobytes() == batch.X.data.tobytes()
    assert X.indices.tolist() == batch.X.indices.tolist()
    assert y.tobytes() == batch.y.tobytes()


@given(st.lists(FITTING, min_size=1, max_size=6, unique=True), st.data())
def test_vw_round_trips(names, data):
    row = st.dictionaries(st.integers(0, len(names) - 1), VALUES)
    rows = data.draw(st.lists(row, min_size=1, max_size=5))
    size = {"min_size": len(rows), "max_size": len(rows)}
    y = data.draw(st.lists(TARGETS, **size))
    weights = data.draw(st.none() | st.lists(st.floats(0.0, 9.0), **size).filter(lambda w: set(w) != {1.0}))
    tags = data.draw(st.none() | st.lists(st.just("") | FITTING, **size).filter(any))
    batch = batch_of(rows, names, y, weights, tags)
    check_same(ReaderConfig("vw").batches(io.BytesIO(written(batch, "vw")), prefetch=False), batch)


def test_vw_writer_names_numbers_and_escapes_blanks():
    assert written(batch_of([{0: 1.0, 7: 0.5}, {}], None, [1.0, np.nan]), "vw") == b"1 | 0 7:0.5\n|\n"
    batch = batch_of([{0: 1.0, 1: 2.0, 2: 1.0}], ["city=New York", "a^50%", "a^b"], [1.0], tags=["x y"])
    assert written(batch, "vw", escape=True) == b"1 'x%20y | city=New%20York |a 50%25:2 b\n"
    assert written(batch_of([{0: 1.0}], None, [2.0], tags=["x\ny"]), "svmlight") == b"2 1:1 # x y\n"


@pytest.mark.parametrize(
    ("form", "batch", "reason"),
    [
        ("vw", batch_of([{}, {0: 1.0}], ["a b"], [1.0, 1.0]), "row 2 of those from here:1 on .* 'a b' has a blank"),
        ("vw", batch_of([{0: 1.0}], [""], [1.0]), "or is empty"),
        ("vw", batch_of([{0: 1.0}], ["a"], [1.0], tags=["a|b"]), "the tag"),
        ("vw", batch_of([{0: 1.0}], ["a"], [np.nan], weights=[2.0]), "a weight without a target"),
        ("vw", batch_of([{0: 1.0}], ["a"], ["spam"]), "the target .*spam.* is no number"),
        ("svmlight", batch_of([{0: 1.0}], ["a"], [1.0]), "not names"),
        ("svmlight", batch_of([{0: 1.0}], None, [1.0], weights=[2.0]), "sample weights"),
        ("svmlight", batch_of([{0: 1.0}], None, [np.nan]), "starts with a target"),
    ],
)  # fmt: skip
def test_unsupported_rows_raise_and_leave_no_file(form, batch, reason, tmp_path):
    with pytest.raises(CannotWriteError, match=reason):
        write_rows(tmp_path / "rows", [batch], form)
    assert list(tmp_path.iterdir()) == []


def test_existing_file_is_kept(tmp_path):
    path, batch = tmp_path / "rows.svm", batch_of([{0: 1.0}], None, [1.0])
    assert write_rows(path, [batch, batch], "svmlight") == 2
    with pytest.raises(FileExistsError, match=r"rows\.svm"):
        write_rows(path, [batch], "svmlight")
    assert path.read_bytes() == b"1 1:1\n" * 2
    write_rows(path, [batch], "svmlight", overwrite=True)
    assert path.read_bytes() == b"1 1:1\n"
    with pytest.raises(ValueError, match="one of svmlight, vw, got 'csv'"):
        write_rows(path, [batch], "csv")
