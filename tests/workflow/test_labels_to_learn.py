"""A trained model learns labels as it predicts them."""

import numpy as np
import pandas as pd
import pytest
from tests.interpreted import interpret_all

import fiol
from fiol.models.distributed_round import learn_shard
from fiol.readers import compiled_parser

ROWS = 40


@pytest.fixture(autouse=True)
def in_the_interpreter(monkeypatch):
    interpret_all(monkeypatch)


def rows(labels, seed=0):
    """Return rows whose label is the second one where the sum of two columns is above 0."""
    frame = pd.DataFrame(np.random.default_rng(seed).normal(size=(ROWS, 2)).round(3), columns=["a", "b"])
    return frame.assign(y=pd.Series(labels)[(frame.sum(axis=1) > 0.0).astype(int)].to_numpy())


def weights_of(model):
    return model.weights.tolist(), model.intercept, model.rounds


PAIRS = [["no", "yes"], [0, 1], [False, True], [3, 8], [-1, 1]]


@pytest.mark.parametrize("labels", PAIRS, ids=str)
def test_every_way_to_learn_takes_the_labels_of_predictions(labels, tmp_path):
    first, second = rows(labels), rows(labels, seed=1)
    fiol.train(first, target="y", algorithm="FIOL", output=tmp_path / "m.fiol")
    expected = weights_of(fiol.train(second, update=tmp_path / "m.fiol"))
    X, y = second[["a", "b"]], second["y"]
    load = lambda: fiol.load(tmp_path / "m.fiol")  # noqa: E731
    assert {type(label) for label in load().predict(X).tolist()} <= {type(label) for label in labels}
    whole, parallel, events, dicts, chunks = (load() for _ in range(5))
    whole.learn(X, y)
    parallel.learn_parallel(X, y.tolist(), parts=1)
    for row, label in zip(X.to_dict("records"), y, strict=True):
        events.learn_named(row, label)
    dicts.learn(iter(X.to_dict("records")), y.tolist())
    chunks.learn_chunks([(X[:7], y[:7]), (X[7:], y[7:])])
    for model in (whole, parallel, events, dicts, chunks):
        assert weights_of(model) == expected
    scores = load().scores(X)
    assert np.isclose(load().learn(X[:1], whole.predict(X[:1]))[0], scores[0])


@pytest.mark.parametrize("labels", PAIRS[:4], ids=str)
def test_labels_that_a_model_does_not_know_raise_and_nothing_is_learned(labels):
    model = fiol.train(rows(labels), target="y", algorithm="FIOL")
    X, before = rows(labels)[["a", "b"]][:2], weights_of(model)
    unknown = -1 if labels[0] is not False else "no"
    with pytest.raises(ValueError, match=f"the target '?{unknown}'? is neither .* nor .*, the two labels"):
        model.learn(X, [labels[1], unknown])
    with pytest.raises(ValueError, match=f"the target '?{unknown}'? is neither"):
        model.learn_named({"a": 1.0, "b": 2.0}, unknown)
    with pytest.raises(ValueError, match=r"y\[1\] is missing"):
        model.learn(X, [labels[0], None])
    assert weights_of(model) == before


def test_numbers_and_classes_are_learned_as_they_are():
    frame = rows([0.5, 7.25])
    number = fiol.train(frame, target="y", loss="squared_error", algorithm="FIOL")
    assert number.learn(frame[["a", "b"]], frame["y"]).shape == (ROWS,)
    several = frame.assign(y=["red", "green", "blue", "blue"] * 10)
    classes = fiol.train(several, target="y", algorithm="FIOL")
    assert classes.learn(several[["a", "b"]], several["y"]).shape == (ROWS, 3)


def test_shards_of_a_round_take_labels():
    frame = rows(["no", "yes"])
    model = fiol.train(frame, target="y", algorithm="FIOL")
    result = learn_shard(model, frame[["a", "b"]], frame["y"])
    other = model.copy()
    other.learn(frame[["a", "b"]], frame["y"])
    assert weights_of(result.learner) == weights_of(other)


def test_unknown_label_names_its_row():
    frame = rows(["no", "yes"])
    model = fiol.train(frame, target="y", algorithm="FIOL")
    X = frame[["a", "b"]][:3]
    with pytest.raises(ValueError, match=r"^y\[2\]: the target 'maybe' is neither 'no' nor 'yes'"):
        model.learn(X, ["yes", "no", "maybe"])
    with pytest.raises(ValueError, match=r"^the target 'maybe' is neither"):
        model.learn_named({"a": 1.0}, "maybe")
    with pytest.raises(ValueError, match=r"^y is missing"):
        model.learn_named({"a": 1.0}, None)


CSV = "a,y\n" + "1.5,no\n2.5,yes\n" * 9
JSON = '{"a": 1.5, "y": "no"}\n{"a": 2.5, "y": "yes"}\n' * 9
SVM, VW = "0 1:1.5\n1 1:2.5\n" * 9, "-1 | a:1.5\n1 | a:2.5\n" * 9
#: Files to train on, rows to continue with, and the place of the label that is unknown.
FILES = {
    "csv": (CSV, "a,y\n1.5,no\n\n2.5,maybe\n", ":4: the target 'maybe' is neither"),
    "json": (JSON, '{"a": 1.5, "y": "no"}\n\n{"a": 2.5, "y": "maybe"}\n', ":3: the target 'maybe' is neither"),
    "vw": (VW, "-1 | a:1.5\n\n3 | a:2.5\n", ":3: the target 3 is neither"),
    "svm": (SVM, "0 1:1.5\n3 1:2.5\n", ":2: the target 3 is neither"),
    "svm, comment": (SVM, "0 1:1.5\n# no row\n3 1:2.5\n", "row 2 of the 2 rows from .*:1 on: the target 3 is neither"),
}


@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "compiled"])
@pytest.mark.parametrize("name", FILES)
def test_unknown_label_in_a_file_names_its_line(name, compiled, tmp_path, monkeypatch):
    first, more, message = FILES[name]
    kind = name.partition(",")[0]
    (tmp_path / f"first.{kind}").write_text(first)
    (tmp_path / f"more.{kind}").write_text(more)
    columns = {} if kind in ("svm", "vw") else {"target": "y"}
    output = tmp_path / "m.fiol"
    fiol.train(tmp_path / f"first.{kind}", loss="log_loss", algorithm="FIOL", output=output, **columns)
    if compiled:
        monkeypatch.setattr(compiled_parser, "COMPILED_MIN_BYTES", 0)
    with pytest.raises(ValueError, match=message):
        fiol.train(tmp_path / f"more.{kind}", update=output)


def test_unknown_class_in_a_file_names_its_line(tmp_path):
    X, output = pd.DataFrame(np.eye(3), columns=["a", "b", "c"]), tmp_path / "m.fiol"
    fiol.FIOLClassifier("softmax", algorithm="FIOL", max_iter=1).fit(X, ["u", "v", "w"]).save(output)
    X.assign(y=["u", "v", "x"]).to_csv(tmp_path / "more.csv", index=False)
    with pytest.raises(ValueError, match=r"more\.csv:4: 'x' is none of the classes \['u', 'v', 'w'\]"):
        fiol.train(tmp_path / "more.csv", target="y", update=output)


def test_unknown_label_in_a_parquet_file_names_its_row(tmp_path):
    frame, output = rows(["no", "yes"]), tmp_path / "m.fiol"
    fiol.train(frame, target="y", algorithm="FIOL", output=output)
    frame.assign(y=["no"] * (ROWS - 1) + ["maybe"]).to_parquet(tmp_path / "more.parquet")
    with pytest.raises(ValueError, match=f"more.parquet:{ROWS}: the target 'maybe' is neither"):
        fiol.train(tmp_path / "more.parquet", update=output)
