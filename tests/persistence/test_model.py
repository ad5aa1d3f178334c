"""Loading models of all kinds, and errors for other files."""

import copy
import json
import os
import re
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import pytest

import fiol
from fiol.persistence import model, model_file
from fiol.persistence.model import read_model, register_kind, write_model
from fiol.persistence.model_file import ModelFileError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.fiol"


class Mean:
    """The smallest of models."""

    def __init__(self, total, rows):
        self.total, self.rows, self.meta = total, rows, {}

    def save(self, path):
        write_model(path, "mean", {"rows": self.rows}, {"total": np.array([self.total])}, self.meta)

    @staticmethod
    def from_parts(header, arrays, compiled):
        if header["rows"] < 0:
            raise ValueError(f"its rows are {header['rows']}")
        return Mean(float(arrays["total"][0]), header["rows"])


@pytest.fixture
def mean(monkeypatch, path):
    monkeypatch.setattr(model, "BUILDERS", dict(model.BUILDERS))
    register_kind("mean", Mean.from_parts)
    mean = Mean(6.0, 3)
    mean.meta["unit"] = "m"
    mean.save(path)
    return mean


def test_load_returns_models_of_all_kinds(path, mean):
    loaded = fiol.load(path)
    assert type(loaded) is Mean
    assert (loaded.total, loaded.rows, loaded.meta) == (6.0, 3, {"unit": "m"})
    fiol.Learner(fiol.FIOL(fiol.Squared())).save(path)
    assert type(fiol.load(path)) is fiol.Learner


def test_load_of_another_kind_names_it(path, mean):
    with pytest.raises(ModelFileError, match=rf"^{path}: it holds 'mean', not a learner$"):
        fiol.Learner.load(path)
    assert read_model(path, "mean").header == {"rows": 3}
    assert read_model(str(path)).kind == "mean"


def test_kind_is_registered_once(mean):
    with pytest.raises(ValueError, match=r"^there is a kind of model called 'mean' already$"):
        register_kind("mean", Mean.from_parts)


def test_unknown_kind_is_named(path):
    write_model(path, "forest", {}, {}, {})
    with pytest.raises(ModelFileError, match=rf"^{path}: it holds 'forest', a kind .* known are .*learner"):
        fiol.load(path)


def test_load_error_names_the_path(path, mean):
    Mean(1.0, -1).save(path)
    with pytest.raises(ModelFileError, match=rf"^{path}: its rows are -1$"):
        fiol.load(path)
    write_model(path, "mean", {}, {}, {})
    with pytest.raises(ModelFileError, match=rf"^{path}: 'rows'$"):
        fiol.load(path)


@pytest.mark.parametrize(
    ("whole", "reason"),
    [
        ({}, "it holds None, not a model"),
        ({"kind": 7, "model": {}}, "it holds 7, not a model"),
        ({"kind": "mean"}, "its header or its meta is no object"),
        ({"kind": "mean", "model": []}, "its header or its meta is no object"),
        ({"kind": "mean", "model": {}, "meta": 1}, "its header or its meta is no object"),
    ],
    ids=repr,
)
def test_file_without_a_model_is_rejected(path, whole, reason):
    model_file.write(path, whole, {})
    with pytest.raises(ModelFileError, match=rf"^{path}: {reason}$"):
        read_model(path)


def test_header_matches_its_documentation(path):
    write_model(path, "mean", {"rows": 3}, {}, {"unit": "m"})
    whole, _ = model_file.read(path)
    assert whole == {"kind": "mean", "model": {"rows": 3}, "meta": {"unit": "m"}}
    del whole["meta"]
    model_file.write(path, {**whole, "later": 1}, {})
    assert read_model(path) == ("mean", {"rows": 3}, {}, {})


@pytest.mark.parametrize(
    ("name", "header", "meta"), [("a header", {1: 2}, {}), ("meta", {}, {1: 2}), ("a header", (), {}), ("meta", {}, ())]
)
def test_metadata_that_is_not_json_raises_before_writing(path, name, header, meta):
    with pytest.raises(TypeError, match=f"^{name} must be a dict of plain JSON values"):
        write_model(path, "mean", header, {}, meta)
    assert os.listdir(path.parent) == []


def places(value, path=()):
    """Every place in a JSON value."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield (*path, key)
        yield from places(child, (*path, key))


#: Of ensembles the smallest is enough: the places in their recipes are those of members.
LARGE = ("learner-ensemble", "learner-ensemble-gated", "learner-ensemble-centred")
GOLDEN = [path for path in sorted((Path(__file__).parent / "golden").glob("learner-*.fiol")) if path.stem not in LARGE]
OTHERS = (None, True, False, -1, 0, 3, 7.5, 2**70, "x", "inf", [], ["a"], {}, {"a": 1})


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: path.stem)
def test_fuzzed_header_is_rejected_or_works(path, golden):
    header, arrays = model_file.read(golden)
    rows = json.loads(golden.with_suffix(".json").read_text(encoding="utf-8"))
    learned, refusals = 0, []
    every = list(places(header))
    few = len(every) < 200  # else every place gets some of the values
    for k, place in enumerate(every):
        for other in OTHERS if few else OTHERS[k % 4 :: 4]:
            changed = copy.deepcopy(header)
            here = changed
            for key in place[:-1]:
                here = here[key]
            if json.dumps(here[place[-1]]) == json.dumps(other):
                continue
            here[place[-1]] = other
            with mock.patch.object(model_file, "read", lambda _, document=changed: (document, dict(arrays))):
                try:
                    model = fiol.load(path, compiled=False)
                except ModelFileError:
                    continue
            try:
                assert model.learn(rows["X"], rows["y"]).shape[0] == 5
                learned += 1
            except (TypeError, ValueError) as error:  # such rows, targets and features do not go with that header
                refusals.append(str(error))
            assert not model.update.is_linear() or model.weights.shape[-1] == model.n_features
    assert learned >= 10
    assert all(re.match(r"this learner has|row \d|y\[\d|X\[\d|X has", reason) for reason in refusals)


def test_equal_models_have_equal_bytes(path, mean):
    before = path.read_bytes()
    fiol.load(path).save(path)
    assert path.read_bytes() == before
    assert json.loads(before[28 : before.index(b"]}", 28) + 2])["header"]["kind"] == "mean"


def test_one_column_model_round_trips_and_checks_columns(tmp_path):
    """The narrowest that rows can be learned from."""
    learner = fiol.Learner(fiol.FIOL(fiol.Squared()), compiled=False)
    learner.learn([[1.0], [2.0]], [1.0, 3.0])
    learner.save(tmp_path / "model")
    loaded = fiol.load(tmp_path / "model", compiled=False)
    assert loaded.scores([[5.0]]).tolist() == learner.scores([[5.0]]).tolist()
    with pytest.raises(ValueError, match="X has 2 columns, but the rows learned from have 1"):
        loaded.learn([[1.0, 2.0]], [1.0])


@pytest.mark.parametrize("update", [fiol.FIOL(fiol.Logistic()), fiol.Stacked(fiol.Logistic())])
def test_file_has_no_room_for_features_to_come(update, tmp_path):
    rows = [{f"f{k}": 1.0, f"f{k // 2}": 2.0} for k in range(1, 60)]
    learner = fiol.Learner(update, compiled=False)
    for k in range(0, len(rows), 7):
        learner.learn(rows[k : k + 7], [1.0 if j % 3 else -1.0 for j in range(len(rows[k : k + 7]))])
    learner.save(tmp_path / "a.fiol")
    arrays = read_model(tmp_path / "a.fiol").arrays
    assert {len(a) for name, a in arrays.items() if "state." in name and len(a)} == {learner.n_features}
    again = fiol.Learner.load(tmp_path / "a.fiol", compiled=False)
    for one in (learner, again):
        one.learn([{"new": 1.0, "f3": 1.0}], [1.0])
    assert np.array_equal(learner.weights, again.weights)


def named_rows(start, stop):
    return [{f"f{k}": 1.0, f"f{k // 2}": 2.0} for k in range(start, stop)]


@pytest.mark.parametrize("update", [fiol.FIOL(fiol.Logistic()), fiol.Stacked(fiol.Logistic())])
@pytest.mark.parametrize("classes", [None, ["a", "b"], ["a", "b", "c"]])
def test_file_of_one_vs_rest_has_no_room_for_features_to_come(update, classes, tmp_path):
    model = fiol.OneVsRest(update, classes=classes, compiled=False)
    for k in range(1, 50, 7):
        model.learn(named_rows(k, k + 7), ["ab"[j % 2] for j in range(7)])
    model.save(tmp_path / "a.fiol")
    arrays = read_model(tmp_path / "a.fiol").arrays
    assert {len(a) for name, a in arrays.items() if "state." in name and len(a)} == {model.n_features}
    again = fiol.OneVsRest.load(tmp_path / "a.fiol", compiled=False)
    for one in (model, again):
        one.learn([{"new": 1.0, "f3": 1.0}], ["a"])
    assert np.array_equal(model.weights, again.weights)


def test_file_with_room_for_features_to_come_loads(tmp_path):
    model = fiol.OneVsRest(fiol.Stacked(fiol.Logistic()), compiled=False)
    for k in range(1, 50, 7):
        model.learn(named_rows(k, k + 7), ["ab"[j % 2] for j in range(7)])
    write_model(tmp_path / "a.fiol", model.KIND, model.core.header(), model.core.arrays(), model.meta)
    again = fiol.OneVsRest.load(tmp_path / "a.fiol", compiled=False)
    assert max(len(a) for name, a in model.core.arrays().items() if "state." in name) > model.n_features
    for one in (model, again):
        one.learn(named_rows(40, 70), ["ab"[j % 2] for j in range(30)])
    assert np.array_equal(model.weights, again.weights)


def test_file_of_an_estimator_has_no_room_for_features_to_come(tmp_path):
    cities = [f"c{k % 37}" for k in range(90)]
    frame = pd.DataFrame({"age": np.arange(90.0) % 7.0, "city": cities})
    for estimator, y in (
        (fiol.FIOLClassifier(max_iter=1, random_state=0), ["no", "yes", "perhaps"] * 30),
        (fiol.FIOLRegressor(max_iter=1, random_state=0), np.arange(90.0)),
    ):
        estimator.partial_fit(
            frame[:50], y[:50], *([["no", "perhaps", "yes"]] if hasattr(estimator, "predict_proba") else [])
        )
        estimator.partial_fit(frame[50:], y[50:])
        estimator.save(tmp_path / "a.fiol")
        arrays = read_model(tmp_path / "a.fiol").arrays
        assert {len(a) for name, a in arrays.items() if "state." in name and len(a)} == {len(estimator.coef_names_)}
        again = fiol.load(tmp_path / "a.fiol")
        more = frame[:9].assign(city=[f"new{k}" for k in range(9)])
        for one in (estimator, again):
            one.partial_fit(more, y[:9])
        assert np.array_equal(estimator.coef_, again.coef_)
