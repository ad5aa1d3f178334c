"""Model files that claim more memory than is free, or hold numbers that are not finite, are refused."""

import os
import tracemalloc
import warnings

import numpy as np
import pytest
from campaigns import damage
from interpreted import interpret

import fiol
from fiol.persistence import memory, model_file, records
from fiol.persistence.model_file import ModelFileError
from fiol.persistence.state_checks import check_finite, find_not_finite

FEATURES = 10**6


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "model.fiol")


def one_row(*features):
    """Rows with a 1 for one feature each."""
    n = len(features)
    return fiol.Chunk(np.arange(n + 1), np.array(features, np.int32), np.ones(n))


def ensemble(path):
    model = fiol.Learner(compiled=False)
    model.learn(one_row(3, 7), [1.0, -1.0])
    model.save(path)


def one_vs_rest(path):
    model = fiol.OneVsRest(fiol.FIOL(fiol.Logistic(), fiol.L1(0.01)), compiled=False)
    model.learn(one_row(3, 7, 5), ["a", "b", "c"])
    model.save(path)


def softmax_ensemble(path):
    model = fiol.Learner(fiol.Stacked(fiol.Softmax()), compiled=False)
    model.learn(one_row(3, 7, 5), ["a", "b", "c"])
    model.save(path)


def classifier(path):
    X = np.eye(8)[[3, 5, 7, 1, 2, 4]]
    with pytest.MonkeyPatch.context() as patch:
        interpret(patch)
        fiol.FIOLClassifier("hinge", max_iter=1, shuffle=False).fit(X, ["a", "b", "c"] * 2).save(path)


def claim(path, features):
    """Let all learners of a file claim this many features; return the bytes of their states, by learner."""
    whole, arrays = model_file.read(path)
    claimed = damage.packed(records.unpack(arrays), features)
    model_file.write(path, whole, claimed)
    owners = [name.removesuffix("seen") for name in claimed if name.rpartition("/")[2] == "seen"]
    return [
        features * sum(a.nbytes for name, a in claimed.items() if name.startswith(f"{owner}fresh.")) for owner in owners
    ]


@pytest.mark.parametrize(
    ("make", "learners"), [(ensemble, 7), (one_vs_rest, 4), (softmax_ensemble, 7), (classifier, 3 * 7)]
)
def test_memory_of_all_members_and_classes_is_checked_before_any_is_allocated(path, monkeypatch, make, learners):
    make(path)
    sizes = claim(path, FEATURES)
    assert len(sizes) == learners
    assert os.path.getsize(path) < 200_000
    free = records.LOADING_COPIES * max(sizes) + 1.0  # enough for each, but not for all of them
    monkeypatch.setattr(memory, "free_memory", lambda: free)
    says = (
        rf"^{path}: a model of 1,000,000 features in {learners} learners takes .* GiB of memory, of which .* are free$"
    )
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match=says):
            fiol.load(path, compiled=False)
        assert tracemalloc.get_traced_memory()[1] < min(sizes) / 2
    finally:
        tracemalloc.stop()


def test_memory_of_statistics_that_an_older_version_did_not_store_is_checked(monkeypatch):
    new = {"state.w": np.zeros(0), "fresh.w": np.zeros(1), "state.square": np.zeros(0), "fresh.square": np.ones(1)}
    old = {"state.w": np.zeros(FEATURES), "fresh.w": np.zeros(1)}
    monkeypatch.setattr(memory, "free_memory", lambda: 1e6)
    with pytest.raises(ValueError, match=r"^a model of 1,000,000 features takes"):
        records.fill_missing(old, new, ("state.w",))


@pytest.mark.parametrize("make", [ensemble, one_vs_rest])
def test_header_with_more_features_than_stored_is_rejected_early(path, make):
    make(path)
    whole, arrays = model_file.read(path)
    whole["model"]["features"] = whole["model"]["options"]["n_features"] = 10**8
    model_file.write(path, whole, arrays)
    says = r"array '(0/)?state.w' is missing or does not fit the update: expected shape \(100000000,\), got \(8,\)"
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match=says):
            fiol.load(path, compiled=False)
        assert tracemalloc.get_traced_memory()[1] < 10**7
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["state.w", "state.square", "intercept.w", "fresh.w", "clock", "uncounted"])
def test_non_finite_numbers_are_rejected_with_array_and_index(path, name, value):
    model = fiol.Learner(fiol.FIOL(fiol.Squared(), step_size=fiol.AdaGrad(0.5)), compiled=False)
    model.learn([[1.0, 2.0, 3.0], [2.0, 0.0, 1.0]], [1.0, 2.0])
    model.save(path)
    whole, arrays = model_file.read(path)
    place = arrays[name].size - 1
    arrays[name].reshape(-1)[place] = value
    model_file.write(path, whole, arrays)
    with pytest.raises(ModelFileError, match=rf"^{path}: array '{name}' must be finite, got {value} at \[{place}\]$"):
        fiol.load(path)


@pytest.mark.parametrize("make", [ensemble, one_vs_rest, softmax_ensemble, classifier])
def test_every_array_of_members_and_classes_is_checked(path, make):
    make(path)
    whole, arrays = model_file.read(path)
    for name, array in arrays.items():
        if array.dtype.kind == "f" and array.size:
            model_file.write(path, whole, {**arrays, name: np.full_like(array, np.nan)})
            with pytest.raises(ModelFileError, match=rf"array '{name}' must be finite, got nan at \[0"):
                fiol.load(path, compiled=False)


def test_index_of_a_packed_number_is_its_feature(path):
    model = fiol.Learner(fiol.FIOL(fiol.Squared()), compiled=False)
    model.learn(one_row(70, 5000), [1.0, 2.0])
    model.save(path)
    whole, arrays = model_file.read(path)
    assert arrays["seen"].tolist() == [70, 5000]
    arrays["seen.w"][1] = np.inf
    model_file.write(path, whole, arrays)
    with pytest.raises(ModelFileError, match=r"array 'state.w' must be finite, got inf at \[5000\]$"):
        fiol.load(path)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_large_arrays_are_checked_to_the_end(dtype):
    array = np.zeros((10**6, 2), dtype)
    assert find_not_finite({"w": array}) == []
    check_finite({"w": array}, [])
    array[-1, 1] = np.nan
    assert find_not_finite({"w": array}) == ["w"]
    with pytest.raises(ValueError, match=r"^array 'w' must be finite, got nan at \[999999, 1\]$"):
        check_finite({"w": array}, [])
    check_finite({"w": array}, ["w"])


def test_diverged_learner_is_saved_and_loaded(path):
    model = fiol.Learner(fiol.SGD(fiol.Squared(), step_size=fiol.Constant(1e90)), compiled=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        model.learn(np.ones((20, 2)), np.arange(20.0))
    assert not np.isfinite(model.weights).any()
    model.save(path)
    whole, arrays = model_file.read(path)
    assert whole["not_finite"] == ["state.w", "intercept.w"]
    assert fiol.load(path, compiled=False).weights.tobytes() == model.weights.tobytes()
    model_file.write(path, {**whole, "not_finite": ["state.w"]}, arrays)
    with pytest.raises(ModelFileError, match=r"array 'intercept.w' must be finite, got nan at \[0\]$"):
        fiol.load(path)
    model_file.write(path, {**whole, "not_finite": "state.w"}, arrays)
    with pytest.raises(ModelFileError, match=r"its not_finite must be a list of arrays, got 'state\.w'"):
        fiol.load(path)


def test_ensemble_with_overflowed_member_is_saved_and_loaded(path):
    members = [fiol.FIOL(fiol.Squared()), fiol.SGD(fiol.Squared(), step_size=fiol.Constant(1e6))]
    model = fiol.Learner(fiol.Ensemble(members), compiled=False)
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 4))
    with pytest.warns(RuntimeWarning, match="member 1 overflows and is left out"):
        model.learn(X, X @ [1.0, 2.0, 3.0, 4.0])
    assert not np.isfinite(model.core.arrays()["1/state.w"]).all()
    model.save(path)
    again = fiol.load(path, compiled=False)
    assert again.scores(X).tobytes() == model.scores(X).tobytes()
    assert np.isfinite(again.learn(X, X @ [1.0, 2.0, 3.0, 4.0])).all()


def test_file_of_finite_numbers_lists_no_arrays(path):
    ensemble(path)
    assert "not_finite" not in model_file.read(path)[0]
