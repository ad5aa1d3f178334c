"""Feature records round-trip bitwise, and unseen features take no space in a file."""

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fiol
from fiol.persistence import model_file, records
from fiol.persistence.model import read_model, write_model
from fiol.persistence.model_file import ModelFileError
from fiol.persistence.records import OVERHEAD, fill_missing, pack, unpack
from fiol.persistence.state_checks import find_not_finite

#: Numbers that are easily confused: zeros of either sign, the smallest, NaNs that differ in their payload.
SPECIAL = {
    "<f8": np.array([0, 1 << 63, 1, 0x7FF8 << 48, 0x7FF4000000000123, 0xFFF8 << 48, 0x3FF << 52], "<u8"),
    "<f4": np.array([0, 1 << 31, 1, 0x7FC00000, 0x7FA00123, 0xFFC00000, 0x3F800000], "<u4"),
    "<i8": np.array([0, 1 << 63, 1, 2**64 - 1], "<u8"),
    "|b1": np.array([0, 1], "u1"),
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.fiol"


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    return tmp_path_factory.mktemp("shared") / "model.fiol"


def assert_same(one, other):
    assert one.keys() == other.keys()
    for name, array in one.items():
        assert (array.dtype, array.shape) == (other[name].dtype, other[name].shape)
        assert array.tobytes() == other[name].tobytes()


def draw_state(draw, n, seed):
    """Arrays of n features, of which some have the fresh record but for a few entries, or none at all."""
    dtype, trail = draw(st.sampled_from(sorted(SPECIAL))), draw(st.sampled_from([(), (1,), (3,), (2, 2), (0,)]))
    rng, choice = np.random.default_rng(seed), SPECIAL[dtype]
    fresh = rng.choice(choice, (1, *trail)) if draw(st.booleans()) else np.zeros((1, *trail), choice.dtype)
    state = np.repeat(fresh, n, axis=0)
    some = rng.random(state.shape) < draw(st.sampled_from([0.0, 0.01, 0.1, 0.5, 1.0]))
    state[some] = rng.choice(choice, int(some.sum()))
    return state.view(dtype), fresh.view(dtype)


@st.composite
def models(draw):
    arrays = {}
    for owner in draw(st.sampled_from([[""], ["pear/"], ["", "a/", "a/b/"]])):
        n = draw(st.sampled_from([0, 1, 2, 50, 700]))
        for x in draw(st.sampled_from([["w"], ["w", "square"], ["w", "mark", "peak of \n x"]])):
            state, fresh = draw_state(draw, n, draw(st.integers(0, 99)))
            turned = draw(st.booleans())  # in Fortran's order, or backwards
            arrays[f"{owner}state.{x}"] = np.asfortranarray(state)[::-1] if turned else state
            arrays[f"{owner}fresh.{x}"] = fresh
        arrays[f"{owner}state.unused"], arrays[f"{owner}fresh.unused"] = np.zeros(0), np.zeros(0)
        arrays[f"{owner}clock"] = np.arange(3.0)
    return arrays


@given(models())
def test_feature_records_round_trip_bitwise(shared, arrays):
    diverged = find_not_finite(arrays)
    listed = {"not_finite": diverged} if diverged else {}
    model_file.write(shared, {"kind": "some", "model": {}, "meta": {}, **listed}, arrays)
    plain = shared.stat().st_size
    write_model(shared, "some", {}, arrays, {})
    assert shared.stat().st_size <= plain + OVERHEAD  # arrays of equal entries are small without packing
    assert_same(read_model(shared).arrays, arrays)
    assert_same(read_by_the_docstring(model_file.read(shared)[1]), arrays)


def read_by_the_docstring(found):
    arrays = {name: array for name, array in found.items() if "seen" not in name and "features" not in name}
    for name in found:
        owner, _, x = name.partition("seen.")
        if x:
            records = dict(zip(found[f"{owner}seen"].tolist(), found[name], strict=True))
            fresh, n = found[f"{owner}fresh.{x}"], int(found[f"{owner}features"][0])
            every = [records.get(i, fresh[0]) for i in range(n)]
            arrays[f"{owner}state.{x}"] = np.array(every, fresh.dtype).reshape(n, *fresh.shape[1:])
    return arrays


@given(models())
def test_records_are_packed_where_that_is_smaller(arrays):
    packed = pack(arrays)
    for owner in {name.partition("state.")[0] for name in arrays if "state." in name}:
        used = {x.split("state.")[1]: a for x, a in arrays.items() if x.startswith(f"{owner}state.") and a.shape[0]}
        n = len(next(iter(used.values()))) if used else 0
        differs = [
            any(a[i].tobytes() != arrays[f"{owner}fresh.{x}"][0].tobytes() for x, a in used.items()) for i in range(n)
        ]
        record = sum(a[:1].nbytes for a in used.values())
        saves = n * record - sum(differs) * (record + 4)
        assert (f"{owner}seen" in packed) == (saves >= 512)
        if saves >= 512:
            assert packed[f"{owner}seen"].tolist() == np.flatnonzero(differs).tolist()


def test_file_of_few_touched_features_is_small(path):
    model = fiol.Learner(fiol.FIOL(fiol.Logistic(), fiol.L1(0.01)), compiled=False)
    for i in (2**22, 5, 77, 12345, 2**20, 3):
        model.learn_one([i], [1.5], y=1.0)
    model.save(path)
    assert path.stat().st_size < 10_000
    loaded = fiol.load(path, compiled=False)
    assert_same(loaded.core.arrays(), model.core.arrays())
    assert np.flatnonzero(loaded.core.arrays()["state.w"]).tolist() == [3, 5, 77, 12345, 2**20, 2**22]


def test_packing_memory_is_bounded(path):
    n, size = 500_000, 0
    arrays = {"fresh.w": np.zeros((1, 3)), "fresh.mark": np.ones(1), "fresh.n": np.zeros(1, np.float32)}
    for name, fresh in list(arrays.items()):
        state = arrays[name.replace("fresh", "state")] = np.repeat(fresh, n, axis=0)
        state[: 4 * n // 5] = 5.0
        size += state.nbytes
    one = arrays["state.w"].nbytes  # the largest
    tracemalloc.start()
    try:
        write_model(path, "some", {}, arrays, {})
        assert tracemalloc.get_traced_memory()[1] < 2 * 4 * n + 8 * model_file.CHUNK
        assert path.stat().st_size < size
        tracemalloc.reset_peak()
        found = read_model(path).arrays
        assert tracemalloc.get_traced_memory()[1] < size + one + 8 * n + 8 * model_file.CHUNK
    finally:
        tracemalloc.stop()
    assert_same(found, arrays)


@pytest.mark.parametrize("chunk", [8, 64, 1000])
def test_packing_in_pieces_of_any_size(path, monkeypatch, chunk):
    for module in (model_file, records):
        monkeypatch.setattr(module, "CHUNK", chunk)
    rng = np.random.default_rng(1)
    arrays = {"state.w": np.zeros((700, 2)), "fresh.w": np.zeros((1, 2))}
    arrays["state.w"][rng.choice(700, 60, replace=False)] = rng.standard_normal((60, 2))
    write_model(path, "some", {}, arrays, {})
    assert "seen" in model_file.read(path)[1]
    assert_same(read_model(path).arrays, arrays)


@pytest.mark.parametrize("name", ["seen", "seen.w", "features", "pear/seen", "a/b/features"])
def test_reserved_array_names_raise(name):
    with pytest.raises(ValueError, match=rf"^an array must not be called '{name}': "):
        pack({name: np.zeros(1)})


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"features": None}, "array 'features' is missing or is not one number"),
        ({"features": np.array([9.0])}, "array 'features' is missing"),
        ({"features": np.array([9, 9], "<u4")}, "array 'features' is missing"),
        ({"features": np.array(900, "<u4")}, "array 'features' is missing"),
        ({"features": np.array([7], "<u4")}, "array 'seen' does not name different features of 7, in their order"),
        ({"seen": np.array([1, 900], "<u4")}, "array 'seen' does not name"),
        ({"seen": np.array([1, 7, 900], "<u4")}, "array 'seen' does not name"),
        ({"seen": np.array([7, 1], "<u4")}, "array 'seen' does not name"),
        ({"seen": np.array([7, 7], "<u4")}, "array 'seen' does not name"),
        ({"seen": np.array([1, 7], "<i4")}, "array 'seen' does not name"),
        ({"seen": np.array([[1, 7]], "<u4")}, "array 'seen' does not name"),
        ({"seen": np.array(7, "<u4")}, "array 'seen' does not name"),
        ({"seen": np.array([1], "<u4")}, "array 'seen.w' has not one record for each feature of 'seen'"),
        ({"seen.w": np.zeros((3, 2))}, "array 'seen.w' has not one record"),
    ],
    ids=repr,
)
def test_invalid_packed_records_are_rejected(path, changes, reason):
    arrays = {"fresh.w": np.zeros((1, 2)), "features": np.array([900], "<u4"), "seen": np.array([1, 7], "<u4")}
    arrays["seen.w"] = np.ones((2, 2))
    whole = {"kind": "some", "model": {}, "meta": {}}
    model_file.write(path, whole, arrays)
    assert read_model(path).arrays["state.w"].sum() == 4.0
    arrays = {name: array for name, array in {**arrays, **changes}.items() if array is not None}
    model_file.write(path, whole, arrays)
    with pytest.raises(ModelFileError, match=rf"^{path}: {reason}"):
        read_model(path)


@pytest.mark.parametrize("other", [np.zeros((2, 2), np.float32), np.zeros((2, 3)), np.zeros(2), np.zeros(())], ids=repr)
def test_packed_records_of_another_dtype_are_rejected(other):
    arrays = {"fresh.w": np.zeros((1, 2)), "features": np.array([9], "<u4"), "seen": np.array([1, 7], "<u4")}
    assert "state.w" not in unpack({**arrays, "seen.w": other})


def test_arrays_missing_in_old_files_take_initial_values():
    new = {
        "state.w": np.zeros((0, 2)),
        "fresh.w": np.full((1, 2), math.nan),
        "state.n": np.zeros((0, 2), np.int64),
        "fresh.n": np.array([[3, 4]]),
        "state.unused": np.zeros(0),
        "fresh.unused": np.zeros(0),
        "intercept.n": np.array([7.0]),
        "clock": np.arange(3.0),
    }
    old = {"state.w": np.ones((5, 2)), "fresh.w": np.zeros((1, 2)), "extra": np.ones(1)}
    whole = fill_missing(old, new, ("state.w", "clock"))
    added = {"state.n": np.array([[3, 4]] * 5), **{name: new[name] for name in ("fresh.n", "intercept.n")}}
    assert_same(whole, {**old, **added, **{name: new[name] for name in ("state.unused", "fresh.unused")}})
    assert_same(fill_missing({}, new, ("state.w", "clock")), {})
    assert_same(fill_missing({"state.w": np.ones(())}, new, ("state.w", "clock")), {"state.w": np.ones(())})


@pytest.mark.parametrize("compiled", [False, True])
def test_default_ensemble_takes_at_most_120_bytes_a_feature(path, compiled):
    rng, n = np.random.default_rng(0), 600
    model = fiol.Learner(n_features=n, compiled=compiled)
    rows = 100
    features = np.sort(rng.permuted(np.tile(np.arange(n), (rows, 1)), axis=1)[:, :50], axis=1)
    X = fiol.Chunk(np.arange(rows + 1) * 50, features.ravel().astype(np.int32), rng.standard_normal(rows * 50))
    y = rng.choice([-1.0, 1.0], rows)
    model.learn(X, y)
    model.save(path)
    whole = path.stat().st_size
    fiol.Learner(n_features=n, compiled=compiled).save(path)
    assert whole - path.stat().st_size <= 120 * n
    model.save(path)
    loaded = fiol.load(path, compiled=compiled)
    assert_same(loaded.core.arrays(), model.core.arrays())
    for one in (model, loaded):
        one.learn(X, y)
    assert_same(loaded.core.arrays(), model.core.arrays())
