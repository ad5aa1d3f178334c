"""Frames with text, dates and missing values are learned by every model as dicts of their features are, to the bit."""

import copy
import datetime as dt
import functools
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tests.interpreted import interpret

import fiol
from fiol import FIOL, L1, Column, Learner, Logistic, OneVsRest, Squared, TableEncoding

learner = functools.partial(Learner, compiled=False)
TABLE = {
    "age": [30.0, None, 0.0, 41.5],
    "city": ["Rome", "Oslo", None, "Rome"],
    "when": [dt.datetime(2024, 3, 4, 7), None, dt.datetime(2024, 3, 5), dt.datetime(2024, 3, 4, 7)],
    "old": [True, False, True, True],
}
MONDAY = {"when": 8829 + 7 / 24, "when.month": "3", "when.weekday": "Mon", "when.hour": "7", "old": 1}
DICTS = [
    {"age": 30.0, "city": "Rome", **MONDAY},
    {"age is missing": 1, "city": "Oslo", "when is missing": 1},
    {"city is missing": 1, "when": 8830.0, "when.month": "3", "when.weekday": "Tue", "when.hour": "0", "old": 1},
    {"age": 41.5, "city": "Rome", **MONDAY},
]
ROWS = [dict(zip(TABLE, values, strict=True)) for values in zip(*TABLE.values(), strict=True)]
Y = [1.0, -1.0, -1.0, 1.0]
FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    interpret(monkeypatch)


def bits(model):
    """Names and weights."""
    return model.names, model.weights.tobytes(), np.asarray(model.intercept).tobytes(), model.rounds


@pytest.mark.parametrize("library", sorted(FRAMES))
@pytest.mark.parametrize("options", [{}, {"bits": 10}, {"max_features": 30}])
def test_frames_match_their_rows_as_dicts(library, options):
    frame, model, other = (
        FRAMES[library](TABLE),
        learner(FIOL(Logistic()), **options),
        learner(FIOL(Logistic()), **options),
    )
    scores = model.learn(frame, Y)
    assert scores.tobytes() == other.learn(DICTS, Y).tobytes()
    assert bits(model) == bits(other)
    assert model.scores(frame).tobytes() == model.scores(ROWS).tobytes() == other.scores(DICTS).tobytes()
    assert model.table_encoding.names == ("age", "city", "when", "old")
    model.learn_named(ROWS[0], 1.0)  # events as dicts, after frames
    other.learn_named(DICTS[0], 1.0)
    for again in (model.copy(), pickle.loads(pickle.dumps(model)), copy.deepcopy(model), model.snapshot()):
        assert again.scores(frame).tobytes() == other.scores(DICTS).tobytes()
    model.learn(frame, Y)
    other.learn(DICTS, Y)
    assert bits(model) == bits(other)


def test_files_keep_the_encoding(tmp_path):
    model = learner(FIOL(Logistic()), table_encoding={"age": "category"})
    model.save(tmp_path / "early")  # what was given by hand is kept, too
    model = Learner.load(tmp_path / "early", compiled=False)
    model.learn(pl.DataFrame(TABLE)[:2], Y[:2])
    assert "age=30" in model.names
    model.save(tmp_path / "model")
    again = Learner.load(tmp_path / "model", compiled=False)
    assert again.table_encoding == model.table_encoding
    for each in (model, again):
        each.learn(pl.DataFrame(TABLE)[2:], Y[2:])
    assert bits(model) == bits(again)


def test_frames_in_chunks_match_one_frame():
    frame, one, many = pl.DataFrame(TABLE), learner(FIOL(Logistic())), learner(FIOL(Logistic()))
    one.learn(frame, Y)
    many.learn(frame[:3], Y[:3])
    many.learn(frame[3:].select("when", "old", "city", "age"), Y[3:])
    assert bits(one) == bits(many)


def test_learner_of_numeric_columns_accepts_missing_values():
    plain, gaps = pd.DataFrame({"a": [1.0, 2.0], "b": [0.0, 3.0]}), pd.DataFrame({"b": [1.0, 2.0], "a": [None, 5.0]})
    model, other = learner(FIOL(Squared())), learner(FIOL(Squared()))
    other.learn([{"a": 1.0, "b": 0.0}], [1.0])
    model.learn(plain, [1.0, 2.0])
    assert model.table_encoding is None
    assert model.columns == ("a", "b")
    before = bits(model)
    assert model.scores(gaps)[0] == model.weights[1] + model.intercept  # no row had a missing value yet
    with pytest.raises(ValueError, match=r"^X\[0, 'b'\] must be a number, got 'x'"):
        model.learn(pd.DataFrame({"a": [1.0], "b": ["x"]}), [1.0])
    with pytest.raises(ValueError, match="y must have one entry per row"):
        model.learn(gaps, [1.0])
    assert bits(model) == before
    assert (model.table_encoding, model.columns) == (None, ("a", "b"))
    model.learn(gaps, [1.0, 2.0])
    assert model.names == ["a", "b", "a is missing"]
    named = learner(FIOL(Squared()))
    named.learn([{"a": 1.0}, {"a": 2.0, "b": 3.0}, {"a is missing": 1, "b": 1.0}, {"a": 5.0, "b": 2.0}], [1.0, 2.0] * 2)
    assert model.weights.tobytes() == named.weights.tobytes()
    arrays = learner(FIOL(Squared()))
    arrays.learn(plain.to_numpy(), [1.0, 2.0])
    arrays.learn(gaps[["a", "b"]], [1.0, 2.0])
    assert bits(arrays) == bits(model)


def test_learner_of_dicts_accepts_frames():
    model, other = learner(FIOL(Squared())), learner(FIOL(Squared()))
    for one in (model, other):
        one.learn([{"a": 1.0, "b": 2.0}], [1.0])
    model.learn(pd.DataFrame({"b": [1.0], "c": [2.0]}), [2.0])
    other.learn([{"b": 1.0, "c": 2.0}], [2.0])
    assert bits(model) == bits(other)


def test_invalid_frames_raise():
    frame = pl.DataFrame(TABLE)
    with pytest.raises(TypeError, match="column 'city' holds"):
        learner(FIOL(Logistic()), n_features=4).learn(frame.drop("age", "when"), Y)
    with pytest.raises(TypeError, match="leave out n_features"):
        learner(FIOL(Logistic()), n_features=4, table_encoding={})
    with pytest.raises(TypeError, match="dict of kinds by column"):
        learner(FIOL(Logistic()), table_encoding="words")
    model = learner(FIOL(Logistic()))
    model.learn(frame, Y)
    before = bits(model)
    for bad, message in [
        (frame.drop("age").with_columns(more=pl.lit(1)), "missing 'age'; unexpected 'more'"),
        (frame.with_columns(age=pl.lit("x")), r"^X\[0, 'age'\] must be a number"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.learn(bad, Y)
        if "missing" not in message:  # scores take absent columns for missing
            with pytest.raises(ValueError, match=message):
                model.scores(bad)
    assert bits(model) == before
    assert model.scores(frame.with_columns(city=pl.lit("Paris"))).shape == (4,)
    with pytest.raises(TypeError, match="convert it, or leave it out by kind 'skip'"):
        learner(FIOL(Logistic())).learn(pl.DataFrame({"s": [{"a": 1}]}), [1.0])


def test_merge_of_encodings():
    frame, parts = pl.DataFrame(TABLE), [learner(FIOL(Logistic())) for _ in range(2)]
    parts[0].learn(frame[:2], Y[:2])
    parts[1].learn(frame[2:], Y[2:])
    whole = Learner.merge(parts)
    assert whole.table_encoding.columns == parts[0].table_encoding.columns
    assert set(whole.names) == set(parts[0].names) | set(parts[1].names)
    plain = [learner(FIOL(Squared())) for _ in range(2)]
    plain[0].learn(pd.DataFrame({"a": [1.0], "b": [2.0]}), [1.0])
    plain[1].learn(pd.DataFrame({"b": [1.0], "a": [None]}), [1.0])
    assert Learner.merge(plain).names == ["a", "b", "a is missing"]
    other = learner(FIOL(Logistic()), table_encoding={"age": "category"})
    other.learn(frame, Y)
    with pytest.raises(ValueError, match=r"learners\[1\] makes other features of its columns.*: age: one feature"):
        Learner.merge([parts[0], other])


def test_one_vs_rest_and_ensembles_accept_frames():
    frame, labels = pa.table(TABLE), ["a", "b", "b", "c"]
    model, other = OneVsRest(FIOL(Logistic()), table_encoding={"old": "skip"}), OneVsRest(FIOL(Logistic()))
    model.learn(frame, labels)
    other.learn([{k: v for k, v in row.items() if k != "old"} for row in DICTS], labels)
    assert model.names == other.names
    assert model.weights.tobytes() == other.weights.tobytes()
    assert model.copy().scores(frame).tobytes() == model.scores(frame).tobytes()
    table_encoding = TableEncoding((Column("city", "category"), Column("age", "number")), (("city", "age"),))
    crossing = learner(fiol.Stacked(Logistic(), L1(1e-3)), table_encoding=table_encoding)
    crossing.learn(frame.select(["age", "city"]), Y)
    assert "city=Rome*age" in crossing.names


@pytest.mark.parametrize("library", [pd.DataFrame, pl.from_pandas], ids=["pandas", "polars"])
def test_frames_of_numbers_have_the_same_bits_however_their_rows_are_cut(library):
    draw = np.random.default_rng(4)
    frame = pd.DataFrame(draw.normal(size=(40, 3)), columns=["a", "b", "c"])
    frame.loc[:9, "b"] = 0.0  # a feature that is met after the others
    frame.loc[20, "a"] = frame.loc[5, "c"] = np.nan
    y = np.sign(draw.normal(size=40))
    found = set()
    for cut in (0, 1, 5, 10, 21):
        model = learner(FIOL(Logistic()))
        for rows in (slice(0, cut), slice(cut, 40)):
            model.learn(library(frame[rows]), y[rows])
        found.add((model.scores(library(frame)).tobytes(), *model.names))
    assert len(found) == 1
