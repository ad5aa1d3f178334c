"""Dicts given to a model with a table encoding are rows of that table, to the bit those of a frame."""

import datetime as dt
import functools
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.interpreted import interpret

from fiol import FIOL, FIOLClassifier, Learner, Logistic, OneVsRest, Softmax, Squared, TableEncoding
from fiol.features.table_rows import features_of_dict, named_rows_of_dicts

learner = functools.partial(Learner, compiled=False)
TABLE = {
    "age": [30.0, None, 0.0, 41.5],
    "zip": [120, 7, 7, 120],
    "city": ["Rome", "Oslo", None, "Rome"],
    "note": ["not good at all I fear", "good value and good food", None, "I do not know what to say"],
    "day": ["2024-03-04", "2024-03-05", "2024-03-05", None],
    "when": [dt.datetime(2024, 3, 4, 7), None, dt.datetime(2024, 3, 5), dt.datetime(2024, 3, 4, 7)],
    "old": [True, False, True, True],
    "length": [dt.timedelta(hours=12), None, dt.timedelta(days=3), dt.timedelta(0)],
    "tags": [["a", "b"], ["b"], None, []],
}
KINDS = {"zip": "category"}
Y = [1.0, -1.0, -1.0, 1.0]
LIBRARIES = {"pandas": pd.DataFrame, "polars": functools.partial(pl.DataFrame, strict=False)}


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    interpret(monkeypatch)


def dicts_of(frame):
    """The rows of a frame as its library makes dicts of them."""
    return frame.to_dict("records") if isinstance(frame, pd.DataFrame) else frame.to_dicts()


def weights_of(model):
    """Names and weights, as bytes."""
    return model.names, model.weights.tobytes(), np.asarray(model.intercept).tobytes(), model.rounds


MODELS = {
    "learner": lambda: learner(FIOL(Logistic()), table_encoding=KINDS),
    "default": lambda: learner(table_encoding=KINDS),
    "bits": lambda: learner(FIOL(Logistic()), table_encoding=KINDS, bits=12),
    "bounded": lambda: learner(FIOL(Logistic()), table_encoding=KINDS, max_features=60),
    "softmax": lambda: learner(FIOL(Softmax()), table_encoding=KINDS),
    "one_vs_rest": lambda: OneVsRest(FIOL(Logistic()), table_encoding=KINDS, compiled=False),
    "pairs": lambda: learner(FIOL(Logistic()), table_encoding=TableEncoding.from_spec(KINDS, [("city", "age")])),
}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("kind", MODELS)
def test_dicts_are_rows_of_the_table(kind, library):
    frame, model, other = LIBRARIES[library](TABLE), MODELS[kind](), MODELS[kind]()
    y = Y if model.classes is None else ["a", "b", "b", "c"]
    rows = dicts_of(frame)
    for one in (model, other):
        one.learn(frame, y)
    scores, predictions = model.scores(frame), model.predict(frame)
    for reader in (model, model.snapshot(), model.copy()):
        assert reader.scores(rows).tobytes() == scores.tobytes()
        assert np.asarray(reader.predict(rows)).tobytes() == np.asarray(predictions).tobytes()
        for k, row in enumerate(rows):
            assert reader.scores([row]).tobytes() == scores[k : k + 1].tobytes()
            assert np.array_equal(reader.score_named(row), scores[k])
            assert np.array_equal(reader.predict_named(row), predictions[k])
    model.learn(frame, y)
    for row, target in zip(rows, y, strict=True):
        other.learn_named(row, target)
    assert weights_of(model) == weights_of(other)
    model.learn(frame, y)
    other.learn(rows, y)
    assert weights_of(model) == weights_of(other)


def test_absent_columns_of_a_dict_are_missing():
    model = learner(FIOL(Logistic()))
    model.learn(pd.DataFrame(TABLE), Y)
    row = {"city": "Rome"}
    whole = dict.fromkeys(TABLE) | row
    assert model.score_named(row) == model.score_named(whole) == model.scores([row])[0]
    before = model.names
    model.learn_named(row, 1.0)
    assert set(model.names) - set(before) == {"zip is missing", "old is missing"}


def test_unknown_keys_are_counted_and_reported_once():
    model = learner(FIOL(Logistic()))
    model.learn(pd.DataFrame({"age": [30.0, None], "city": ["Rome", "Oslo"]}), [1.0, -1.0])
    row = {"age": 30.0, "city": "Rome"}
    expected, names = model.score_named(row), model.names
    with pytest.warns(UserWarning, match=r"no columns of the model.*'citty'.*the columns are 'age', 'city'"):
        assert model.score_named({**row, "citty": "Oslo"}) == expected
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.scores([{**row, "citty": 1, "b": 2}] * 2).tolist() == [expected] * 2
        model.learn_named({**row, "citty": "Oslo"}, 1.0)
    assert (model.unknown_keys, model.names) == (6, names)
    assert model.copy().unknown_keys == 0


def test_unknown_keys_of_dicts_in_cells_are_counted():
    model = learner(FIOL(Logistic()))
    model.learn(pd.DataFrame({"user.age": [30.0, 40.0], "user.city": ["Rome", "Oslo"], "n": [1.0, 2.0]}), [1.0, -1.0])
    user = {"age": 30.0, "city": "Rome", "agee": 3.0}
    plain = {"user.age": 30.0, "user.city": "Rome", "n": 1.0}
    frame = pd.DataFrame({"user": [user, None], "n": [1.0, 1.0]})
    with pytest.warns(UserWarning, match=r"dicts in cells have keys that are no columns of the model.*'user.agee'"):
        scores = model.scores(frame)
    assert scores.tolist() == model.scores([plain, {"user": None, "n": 1.0}]).tolist()
    assert scores.tolist() == [model.score_named(plain), model.score_named({"n": 1.0})]
    assert model.unknown_keys == 1
    model.learn(frame, [1.0, -1.0])
    assert model.unknown_keys == 2


def test_names_of_features_are_unknown_keys_of_a_table():
    model = learner(FIOL(Logistic()))
    model.learn(pd.DataFrame({"age": [30.0, None], "city": ["Rome", None]}), [1.0, -1.0])
    with pytest.warns(UserWarning, match="'city=Rome'"):
        score = model.score_named({"city=Rome": 1.0, "age": 30.0})
    assert score == model.score_named({"city": None, "age": 30.0})


def test_skipped_columns_of_a_dict_are_known():
    model = learner(FIOL(Logistic()), table_encoding={"id": "skip"})
    model.learn(pd.DataFrame({"id": [1, 2], "city": ["Rome", "Oslo"]}), [1.0, -1.0])
    assert model.score_named({"id": 3, "city": "Rome"}) == model.score_named({"city": "Rome"})


def test_models_of_dicts_keep_their_names():
    model = learner(FIOL(Logistic()))
    model.learn([{"city": "Rome", "age": 30.0}, {"city=Oslo": 1.0}], [1.0, -1.0])
    assert model.table_encoding is None
    assert model.names == ["city=Rome", "age", "city=Oslo"]
    assert model.score_named({"city=Rome": 1.0}) == model.score_named({"city": "Rome"})


def test_kinds_that_are_given_apply_to_first_dicts():
    rows = [{"zip": 120, "age": 3.0}, {"age": 2.0, "city": "Rome"}]
    for learn in (lambda m: m.learn(rows, [1.0, 2.0]), lambda m: m.learn_named(rows[0], 1.0)):
        model = learner(FIOL(Squared()), table_encoding={"zip": "category"})
        learn(model)
        assert model.names[:2] == ["zip=120", "age"]
        assert model.table_encoding.complete


def test_dicts_of_a_model_with_columns_of_numbers():
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [0.0, 3.0]})
    model, other = learner(FIOL(Squared())), learner(FIOL(Squared()))
    for one in (model, other):
        one.learn(frame, [1.0, 2.0])
    rows = frame[["b", "a"]].to_dict("records")
    assert model.scores(rows).tobytes() == model.scores(frame).tobytes()
    assert [model.score_named(row) for row in rows] == model.scores(frame).tolist()
    model.learn(rows, [1.0, 2.0])
    model.learn_named(rows[0], 1.0)
    other.learn(frame, [1.0, 2.0])
    other.learn(frame[:1], [1.0])
    assert weights_of(model) == weights_of(other)
    assert model.columns == ("a", "b")
    model.learn_named({"a": 1.0}, 1.0)
    other.learn(pd.DataFrame({"a": [1.0], "b": [None]}), [1.0])
    assert weights_of(model) == weights_of(other)
    assert model.names == ["a", "b", "b is missing"]


def test_estimators_predict_and_learn_from_dicts():
    frame, y = pd.DataFrame(TABLE).drop(columns="length"), ["no", "yes", "yes", "no"]
    model, other = (FIOLClassifier(max_iter=1, shuffle=False, random_state=0).fit(frame, y) for _ in range(2))
    rows = dicts_of(frame)
    assert model.predict_proba(rows).tobytes() == model.predict_proba(frame).tobytes()
    assert model.predict(rows[:1]).tolist() == model.predict(frame[:1]).tolist()
    model.partial_fit(frame, y)
    other.partial_fit(rows, y)
    assert model.coef_.tobytes() == other.coef_.tobytes()
    joint = FIOLClassifier("softmax", max_iter=1, random_state=0).fit(frame, y)
    assert joint.partial_fit(rows, y).predict(rows).shape == (len(rows),)
    with pytest.raises(ValueError, match="columns must be those of the model: missing 'city'"):
        model.partial_fit(frame.drop(columns="city"), y)


def test_errors_of_dicts_name_the_column():
    model = learner(FIOL(Logistic()))
    model.learn(pd.DataFrame({"age": [30.0, None]}), [1.0, -1.0])
    with pytest.raises(ValueError, match=r"^x\['age'\] must be a number"):
        model.score_named({"age": "old"})
    with pytest.raises(ValueError, match=r"^X\[1, 'age'\] must be a number"):
        model.scores([{"age": None}, {"age": "old"}])
    with pytest.raises(TypeError, match="must be a dict"):
        model.score_named([1])


CELLS = {
    "number": st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-1e9, 1e9).filter(lambda x: abs(x) > 1e-9),
    "category": st.none() | st.text("ab=", min_size=1, max_size=2),
    "words": st.none() | st.text("ab ", max_size=9),
    "skip": st.none() | st.integers(),
}
CELL = st.sampled_from(sorted(CELLS)).flatmap(lambda kind: CELLS[kind].map(lambda cell: (kind, cell)))


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(["a", "b", "a=b", "c"]), st.tuples(CELL, st.booleans()), min_size=1))
def test_features_of_one_dict_are_those_of_arrays(table):
    encoding = TableEncoding.from_json(
        {"columns": [{"name": name, "kind": kind} for name, ((kind, _), _) in table.items()]}
    )
    row = {name: cell for name, ((_, cell), present) in table.items() if present}
    found = features_of_dict(encoding, row)
    chunk, names = named_rows_of_dicts(encoding, [row])
    expected = {}
    for index, value in zip(chunk.indices.tolist(), chunk.data.tolist(), strict=True):
        expected[names[index]] = expected.get(names[index], 0.0) + value
    assert found is None or {name: float(value) for name, value in found.items() if value} == {
        name: value for name, value in expected.items() if value
    }


def test_missing_durations_keep_their_rows():
    frame = pl.DataFrame({"length": [None, dt.timedelta(days=2)], "city": ["Rome", "Rome"]})
    rows = TableEncoding.infer(frame).named_rows(frame)
    assert rows.names == ["length is missing", "city=Rome", "length"]
    assert rows.chunk.data.tolist() == [1.0, 1.0, 2.0, 1.0]
