"""Exported models give the scores of `Learner.scores`: examples with odd names, every link, JSON."""

import copy
import json
import math
import pickle
import re
import sqlite3
import subprocess
import sys

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from tests.interpreted import interpret_all

import fiol
from fiol.exports.json_model import array_from, array_to_json, load_json, model_as_json, model_from_json, model_to_json
from fiol.exports.linear import NoExportError
from fiol.exports.onnx_graph import to_onnx
from fiol.exports.python_source import python_source
from fiol.exports.sklearn_model import to_sklearn
from fiol.exports.sql import sql_scores
from fiol.features.cell_rules import moment_of_value, words_of_text
from fiol.features.date_formats import moments_of_strings
from fiol.features.table_encoding import TableEncoding
from fiol.readers.reader_config import ReaderConfig, infer_config

#: A column whose name is the worst there is, and values alike.
ODD = 'so "called" \' name = ^*: %'
CITIES = ["Rome", "it's", 'the "old" town', "a=b", "Zürich*", "日本", "new\nline", "", "a;--", "\\", None]
UPDATES = [fiol.FIOL(fiol.Logistic(), fiol.L1(1e-3)), None, fiol.FIOL(fiol.Softmax())]


@pytest.fixture(autouse=True)
def in_the_interpreter(monkeypatch):
    interpret_all(monkeypatch)
    monkeypatch.setattr(load_json, "__defaults__", (False,))
    monkeypatch.setattr(model_from_json, "__defaults__", (False,))


def odd_frame(n=60, seed=3, dates=True):
    draw = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": [None if draw.random() < 0.2 else float(draw.normal()) for _ in range(n)],
            ODD: [CITIES[k] for k in draw.integers(len(CITIES), size=n)],
            "price": [[" 1.5", "2", "", "nan", None, "-3e2"][k] for k in draw.integers(6, size=n)],
        }
    )
    if dates:
        moments = pd.Timestamp("1999-12-30") + pd.to_timedelta(draw.integers(0, 10**8, size=n), unit="s")
        frame["when"] = [None if draw.random() < 0.2 else str(moment) for moment in moments]
    return frame


def learner_of(frame, update, encoding, y=None, **options):
    learner = fiol.Learner(update, table_encoding=encoding, **options)
    draw = np.random.default_rng(1)
    if isinstance(learner.update.loss, fiol.JointLoss):
        y = [["no", 'it\'s "so"', "Zürich"][k] for k in draw.integers(3, size=len(frame))]
    else:
        y = draw.choice([-1.0, 1.0], size=len(frame))
    learner.learn(frame, y)
    return learner


def run_python(learner):
    source = python_source(learner)
    assert [line for line in source.splitlines() if "import" in line] == ["import math"]
    scope = {}
    exec(source, scope)
    return scope


def run_sql(learner, frame, **options):
    with sqlite3.connect(":memory:") as base:
        frame.to_sql('my "own" table', base, index=False)
        found = base.execute(sql_scores(learner, table='my "own" table', **options)).fetchall()
    base.close()
    return np.array(found)


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-12)


PAIRS = [(ODD, "when"), ("age", "age"), (ODD, "age", "price"), ("when", "when"), (ODD, ODD)]
KINDS = {"price": "numeric_text", ODD: "category"}


@pytest.mark.parametrize("update", UPDATES, ids=["single", "ensemble", "classes"])
def test_exports_of_odd_names_text_dates_missing_values_and_interactions(update):
    frame = odd_frame()
    encoding = TableEncoding.from_spec(KINDS, PAIRS)
    learner = learner_of(frame, update, encoding)
    new = odd_frame(seed=4)
    new.loc[0, ODD] = "never seen"
    expected = learner.scores(new)
    assert len({name for name in learner.names if "*when.hour=" in name}) > 5
    close(run_sql(learner, new, dialect="sqlite"), expected.reshape(len(new), -1))
    module = run_python(learner)
    rows = [{key: None if pd.isna(value) else value for key, value in row.items()} for row in new.to_dict("records")]
    scores, predictions = [module["score"](row) for row in rows], [module["probability"](row) for row in rows]
    if learner.classes is None:
        close(scores, expected)
        close(predictions, learner.predict(new))
    else:
        assert list(scores[0]) == learner.classes
        close([list(score.values()) for score in scores], expected)
        close([list(p.values()) for p in predictions], learner.predict(new))
    assert module["score"]({ODD: "Rome"}) == module["score"]({**dict.fromkeys(new.columns), ODD: "Rome"})
    pipeline = pickle.loads(pickle.dumps(to_sklearn(learner)))
    close(pipeline.decision_function(new), expected)


def test_models_that_sql_cannot_express():
    frame = odd_frame()
    learner = learner_of(frame, UPDATES[0], TableEncoding.from_spec(KINDS))
    with pytest.raises(NoExportError, match="dates need a dialect"):
        sql_scores(learner)
    with pytest.raises(ValueError, match="dialect must be one of"):
        sql_scores(learner, dialect="oracle")
    words = learner_of(frame, UPDATES[0], TableEncoding.from_spec({**KINDS, ODD: "words"}))
    with pytest.raises(NoExportError, match="export to python"):
        sql_scores(words, dialect="sqlite")
    markers = TableEncoding.from_spec(KINDS, missing=["", "nan", "unknown"])
    with pytest.raises(NoExportError, match="default missing markers"):
        sql_scores(learner_of(frame, UPDATES[0], markers), dialect="sqlite")
    hashed = learner_of(frame, UPDATES[0], TableEncoding.from_spec(KINDS), bits=8)
    for export in (sql_scores, to_onnx):
        with pytest.raises(NoExportError, match="hash"):
            export(hashed)
    learner = fiol.Learner(UPDATES[0])
    learner.learn_named({"a": 1.0}, 1.0)
    with pytest.raises(NoExportError, match="in no table"):
        sql_scores(learner)
    with pytest.raises(NoExportError, match="got int"):
        python_source(3)
    with pytest.raises(NoExportError, match="never seen"):
        python_source(fiol.Learner(fiol.FIOL(fiol.Squared(), geometry=fiol.Entropy())))


def test_sql_with_many_features_and_categories():
    n = 3000
    learner = fiol.Learner(fiol.FIOL(fiol.Squared()), n_features=n)
    w = np.random.default_rng(0).normal(size=n)
    learner.start_from(w, 0.5)
    some = [0, 7, n - 1]
    frame = pd.DataFrame({f"x{i}": [1.0, None] for i in some})
    query = sql_scores(learner.truncated(3, X=np.eye(n)[some]), "t", "x{}")
    with sqlite3.connect(":memory:") as base:
        frame.to_sql("t", base, index=False)
        close(base.execute(query).fetchall(), [[0.5 + w[some].sum()], [0.5]])
        base.execute("CREATE TABLE w (z REAL)")
        deep = re.sub(
            r'"z\d+"', '"z"', sql_scores(learner, "w", "z{}")
        )  # one column, so that the table is not too wide
        base.execute("INSERT INTO w VALUES (2.0)")
        close(base.execute(deep).fetchone(), [0.5 + 2.0 * w.sum()])
    base.close()
    many = pd.DataFrame({"c": [f"v{k}" for k in range(n)]})
    learner = learner_of(many, UPDATES[0], {"c": "category"})
    close(run_sql(learner, many)[:, 0], learner.scores(many))


def test_python_export_of_words_tags_hashes_names_and_numbers():
    texts = ["Call me Ishmael. Some_thing Ünïcödé 9", None, "²½ ٣ it's\tCALL call", ""]
    frame = pd.DataFrame(
        {"text": texts, "tags": [["a", "it's"], None, [], ["a", "a"]], "flag": [True, False, True, True]}
    )
    for bits in (None, 6):
        encoding = TableEncoding.from_spec(
            {"text": {"kind": "words", "ngrams": 3}}, [("text", "tags"), ("text", "text")]
        )
        learner = learner_of(frame, UPDATES[0], encoding, bits=bits)
        module = run_python(learner)
        close([module["score"](row) for row in frame.to_dict("records")], learner.scores(frame))
        close(to_sklearn(learner).decision_function(frame), learner.scores(frame))
    assert words_of_text("a_b-c", 1) == ["a_b", "c"]

    rows = [{"age": 3, "city": "it's"}, {"age": 0.5, 7: 2.0, "^x": 1}, {}]
    for bits in (None, 6):
        learner = fiol.Learner(UPDATES[0], bits=bits)
        learner.learn(rows, [1.0, -1.0, 1.0])
        module = run_python(learner)
        close([module["score"](row) for row in rows], learner.scores(rows))
        close(to_sklearn(learner).decision_function(rows), learner.scores(rows))
    learner = fiol.Learner(UPDATES[0])
    learner.learn(rows[:1], [1.0])
    assert type(to_sklearn(learner)[0]).__name__ == "DictVectorizer"
    close(to_sklearn(learner).decision_function([{"age": 1.0, "city": "it's"}, {"city": "?"}]),
          learner.scores([{"age": 1.0, "city": "it's"}, {"city": "?"}]))  # fmt: skip
    frame = pd.DataFrame({"b": [1.0, 2.0], "a": [0.0, 5.0]})
    learner = learner_of(frame, UPDATES[0], None)
    close(to_sklearn(learner).decision_function(frame), learner.scores(frame))
    close(run_sql(learner, frame)[:, 0], learner.scores(frame))
    close([run_python(learner)["score"](row) for row in frame.to_dict("records")], learner.scores(frame))


LOSSES = [fiol.Logistic(), fiol.Exponential(), fiol.Hinge(), fiol.Squared(), fiol.Poisson()]
LOSSES += [fiol.Softmax(), fiol.CrammerSinger()]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_exports_of_all_links(loss):
    draw = np.random.default_rng(5)
    X = draw.normal(size=(40, 3))
    learner = fiol.Learner(fiol.FIOL(loss))
    joint, two = isinstance(loss, fiol.JointLoss), isinstance(loss, fiol.Binary)
    z = X @ [1.0, -2.0, 0.5]
    y = np.digitize(z, [-1.0, 1.0]) * 10 if joint else np.sign(z) if two else np.abs(z)
    learner.learn(X, y)
    if two:
        learner.meta["labels"] = ["bad", "good"]
    expected = learner.predict(X)
    module = run_python(learner)
    predicts = "probability" if loss.link == "logit" else "label" if two or joint else "prediction"
    assert ("probability" in module) == (loss.link == "logit")
    found = [module[predicts](row.tolist()) for row in X]
    assert module["score"](dict(enumerate(X[0].tolist()))) == module["score"](X[0].tolist())
    if joint and loss.link == "logit":
        found = [list(p.values()) for p in found]
    close([{"bad": -1.0, "good": 1.0}[label] for label in found] if predicts == "label" and two else found, expected)
    close(
        run_sql(learner, pd.DataFrame(X, columns=["f0", "f1", "f2"])).reshape(learner.scores(X).shape),
        learner.scores(X),
    )

    theirs = to_sklearn(learner)
    if two or joint:
        assert theirs.classes_.tolist() == (["bad", "good"] if two else learner.classes)
        best = learner.scores(X).argmax(axis=1) if joint else (learner.scores(X) > 0.0).astype(int)
        assert theirs.predict(X).tolist() == theirs.classes_[best].tolist()
        if loss.link == "logit":
            p = theirs.predict_proba(X)
            close(p if joint else p[:, 1], expected)
    else:
        close(theirs.predict(X), expected)

    graph = to_onnx(learner)
    names = [out.name for out in graph.graph.output]
    result = onnxruntime.InferenceSession(graph.SerializeToString()).run(None, {"X": X})
    result = dict(zip(names, result, strict=True))
    assert ("probability" in names) == (loss.link == "logit")
    if two or joint:
        assert result["label"].tolist() == theirs.predict(X).tolist()
    close(result["score"].reshape(learner.scores(X).shape), learner.scores(X))
    if loss.link == "logit":
        np.testing.assert_allclose(
            result["probability"][:, slice(None) if joint else 1], expected, rtol=1e-9, atol=1e-12
        )
    elif not (two or joint):
        np.testing.assert_allclose(result["prediction"][:, 0], expected, rtol=1e-12)


def test_sklearn_export_of_two_joint_classes():
    X = np.random.default_rng(0).normal(size=(30, 2))
    learner = fiol.Learner(fiol.FIOL(fiol.Softmax()))
    learner.learn(X, ["a" if x > 0 else "b" for x in X[:, 0]])
    model = to_sklearn(learner)
    assert model.classes_.tolist() == learner.classes
    close(model.predict_proba(X), learner.predict(X))


def test_sklearn_export_of_a_single_class_names_it():
    learner = fiol.Learner(fiol.FIOL(fiol.Softmax()))
    with pytest.raises(ValueError, match=r"^no model of scikit-learn knows a single class$"):
        to_sklearn(learner)
    learner.learn([[1.0]], ["late"])
    with pytest.raises(
        ValueError, match=r"^no model of scikit-learn knows a single class: 'late' is the only one so far$"
    ):
        to_sklearn(learner)


# --- JSON -------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"bits": 12}, {"max_features": 5}, {"dtype": "float32"}, {"average": True}])
@pytest.mark.parametrize("update", UPDATES, ids=["single", "ensemble", "classes"])
def test_json_import_keeps_all_bits(update, options, tmp_path):
    if options.get("average") and update is None:
        pytest.skip("an ensemble keeps no averages")
    rows = [{"age": 1.0 + k, "city": ["it's", "日本\u2028", 'a "b"'][k % 3]} for k in range(9)]
    y = [f"y{k % 3}" for k in range(9)] if update is UPDATES[2] else [(-1.0) ** k for k in range(9)]
    learner = fiol.Learner(update, **options)
    learner.learn(rows, y)
    learner.meta["reading"] = {"format": "vw"}
    path = tmp_path / "model.json"
    path.write_text(model_as_json(learner), encoding="utf-8")
    again = fiol.load_json(path)
    assert again.meta == learner.meta
    assert again.scores(rows).tobytes() == learner.scores(rows).tobytes()
    result = json.loads(path.read_text(encoding="utf-8"))
    if not options.get("bits"):
        assert {name for name, _ in result["weights"]} <= {*learner.names}
    for one in (learner, again):
        one.learn(rows, y)
    assert again.weights.tobytes() == learner.weights.tobytes()
    assert again.scores(rows).tobytes() == learner.scores(rows).tobytes()
    learner.save(tmp_path / "a.fiol")
    again.save(tmp_path / "b.fiol")
    assert (tmp_path / "a.fiol").read_bytes() == (tmp_path / "b.fiol").read_bytes()

    path.write_text(model_as_json(learner, state=False), encoding="utf-8")
    for_predicting = fiol.load_json(path)
    np.testing.assert_allclose(
        for_predicting.scores(rows), learner.scores(rows), rtol=1e-6 if options.get("dtype") else 1e-12
    )
    assert for_predicting.rounds == 0


def test_edited_and_damaged_json(tmp_path):
    learner = fiol.Learner(UPDATES[0])
    learner.learn([{"a": 1.0, "b": 2.0}], [1.0])
    result = model_to_json(learner)
    edited = copy.deepcopy(result)
    edited["weights"][0][1] = 7.0
    with pytest.raises(ValueError, match="not those of its state"):
        model_from_json(edited)
    edited["state"] = None
    assert model_from_json(edited).weights[0] == 7.0
    edited["weights"][0][0] = "c"
    with pytest.raises(ValueError, match="'c', which is none of its features"):
        model_from_json(edited)
    for key in ("fiol_json", "weights", "model", "state", "intercept", "meta"):
        with pytest.raises(ValueError, match=r"no model|is missing"):
            model_from_json({name: value for name, value in result.items() if name != key})
    path = tmp_path / "bad.json"
    for text, reason in [
        ("{", "no JSON"),
        ("[]", "no model"),
        (json.dumps({**result, "state": {"w": 3}}), "'w' has not a dtype"),
        (
            json.dumps({**result, "state": {"w": {"dtype": "object", "shape": [1], "values": [1]}}}),
            "no type of numbers",
        ),
        (
            json.dumps({**result, "model": {**result["model"], "update": {"component": "os.system", "fields": {}}}}),
            "os.system",
        ),
        (json.dumps({**result, "weights": [3]}), "pairs of a name"),
    ]:
        path.write_text(text)
        with pytest.raises(ValueError, match=reason) as raised:
            load_json(path)
        assert str(path) in str(raised.value)
    odd = np.array([np.inf, -np.inf, np.nan, -0.0, 5e-324])
    assert array_from("x", json.loads(json.dumps(array_to_json(odd)))).tobytes() == odd.tobytes()


def test_text_of_a_model_in_place_of_its_path_is_refused_by_a_short_message():
    text = fiol.Learner(fiol.FIOL(fiol.Squared()), compiled=False).to_json()
    with pytest.raises(ValueError, match=r"^path must be that of a file, got the text of a model"):
        load_json(text)


# --- models of files --------------------------------------------------------------------------


def test_exports_of_models_with_pairs_and_json_rows(tmp_path):
    data = tmp_path / "rows.vw"
    data.write_text("1 |a x y:2 |b z:3 u\n-1 |a x |b z\n1 |a y:0.5 y |b u w:2\n")
    reading = ReaderConfig("vw", pairs=(("a", "b"), ("a", "a")))
    learner = fiol.Learner(UPDATES[0])
    (batch,) = reading.batches([str(data)])
    learner.learn(batch.X, batch.y)
    learner.meta["reading"] = reading.to_json()
    module = run_python(learner)
    rows = [{"a^x": 1, "a^y": 2, "b^z": 3, "b^u": 1}, {"a^x": 1, "b^z": 1}, {"a^y": 1.5, "b^u": 1, "b^w": 2}]
    close([module["score"](row) for row in rows], learner.scores(batch.X))
    with pytest.raises(NoExportError, match="while files are read"):
        to_sklearn(learner)

    data = tmp_path / "rows.jsonl"
    objects = [
        {"y": 1, "user": {"age": 3, "tags": ["a"]}, "c": "it's"},
        {"y": 0, "c": None},
        {"y": 1, "new": 2.5, "c": "x"},
    ]
    data.write_text("".join(json.dumps(row) + "\n" for row in objects))
    reading = infer_config([str(data)], target="y")
    (batch,) = reading.batches([str(data)])
    learner = fiol.Learner(UPDATES[0])
    learner.learn(batch.X, [1.0, -1.0, 1.0])
    learner.meta["reading"] = reading.to_json()
    module = run_python(learner)
    close([module["score"](row) for row in [*objects, {"later": "t", "c": "x"}]],
          [*learner.scores(batch.X), learner.score_named({"c": "x"})])  # fmt: skip


def test_nanoseconds_do_not_overflow():
    """numpy counts nanoseconds of such a text, of which 2263 has too many."""
    assert str(moments_of_strings(["2263-01-01T00:00:00.1234567"], "")[0]) == "2263-01-01T00:00:00.123456"


def test_dates_in_rows_match_dates_in_columns():
    texts = ["1600-02-29", "1999-12-31T23:59:59.999999999Z", "2024-02-29 07:30+02:00", "2000-01-01T00:00:01.5-0330"]
    texts += ["2263-01-01T00:00:00.0000000", "0001-01-01+02", "9999-12-31 23:59Z"]
    for text in texts:
        moment = moments_of_strings([text], "")[0]
        day = moment.astype("datetime64[D]")
        assert moment_of_value(text) == (
            int(day.astype(int)),
            int(moment.astype("datetime64[M]").astype(int)) % 12 + 1,
            int((moment - day).astype("timedelta64[us]").astype(int)),
        )
    assert moment_of_value(pd.Timestamp("2024-02-29 07:30:00.25")) == moment_of_value("2024-02-29 07:30:00.25")
    for text in (
        "2023-02-29",
        "2024-13-01",
        "2024-1-1",
        "2024-01-01T25:00",
        "soon",
        "2024-01-01T07",
        "2024-01-01 07:3x",
        "2024-01-01ZZ",
        "2024-01-01+2",
        "2024-01-01T07:00+02:000",
        "2024-01-01T07:00:00.1234567890",
        "2024-01-01T07:00:00.",
        "٢٠٢٤-01-01",
    ):
        with pytest.raises(ValueError, match=r"date|day|time"):
            moment_of_value(text)


def test_exported_module_imports_no_library(tmp_path):
    learner = learner_of(odd_frame(), UPDATES[0], TableEncoding.from_spec(KINDS, PAIRS))
    (tmp_path / "model.py").write_text(python_source(learner), encoding="utf-8")
    row = {"age": 1.0, ODD: "Rome", "price": "2", "when": "2024-03-01 07:00:00"}
    script = f"import model; print(repr(model.score({row!r})))"
    done = subprocess.run([sys.executable, "-S", "-c", script], cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)},
                          capture_output=True, text=True, check=True)  # fmt: skip
    assert math.isclose(float(done.stdout), learner.scores(pd.DataFrame([row]))[0], rel_tol=1e-12)


# --- methods of models ------------------------------------------------------------------------


def blobs(classes):
    draw = np.random.default_rng(7)
    X = draw.normal(size=(60, 3))
    return X, np.digitize(X @ [1.0, -2.0, 0.5], [-1.0, 1.0][: classes - 1])


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("loss", ["log_loss", "exponential", "hinge", "softmax"])
def test_classifiers_and_their_exports_agree(loss, classes):
    X, y = blobs(classes)
    model = fiol.FIOLClassifier(loss, step_size=0.1, max_iter=2, tol=None, random_state=0).fit(X, y)
    scores = model.decision_function(X).reshape(len(X), -1)
    module = {}
    exec(model.to_python(), module)
    assert [module["label"](row.tolist()) for row in X] == model.predict(X).tolist()
    found = [module["score"](row.tolist()) for row in X]
    close([list(z.values()) for z in found] if classes > 2 else np.array(found)[:, None], scores)
    if hasattr(model, "predict_proba"):
        found = [module["probability"](row.tolist()) for row in X]
        expected = model.predict_proba(X)
        close([list(p.values()) for p in found] if classes > 2 else found, expected if classes > 2 else expected[:, 1])
        close(model.to_sklearn().predict_proba(X), model.predict_proba(X))
    assert ("probability" in module) == hasattr(model, "predict_proba")
    close(run_sql(model, pd.DataFrame(X, columns=["f0", "f1", "f2"])), scores)
    again = model_from_json(json.loads(model.to_json()))
    assert again.decision_function(X).tobytes() == model.decision_function(X).tobytes()
    for each in (model, again):
        each.partial_fit(X, y)
    assert again.coef_.tobytes() == model.coef_.tobytes()
    with pytest.raises(NoExportError, match="without its state"):
        model.to_json(state=False)


@pytest.mark.parametrize("loss", [fiol.Logistic(), fiol.Hinge()], ids=["logistic", "hinge"])
def test_one_vs_rest_and_its_exports_agree(loss):
    X, y = blobs(3)
    model = fiol.OneVsRest(fiol.FIOL(loss))
    model.learn(X, [["a", "b", "c"][k] for k in y])
    module = {}
    exec(model.to_python(), module)
    assert [module["label"](row.tolist()) for row in X] == model.predict(X).tolist()
    close([list(module["score"](row.tolist()).values()) for row in X], model.scores(X))
    close(run_sql(model, pd.DataFrame(X, columns=["f0", "f1", "f2"])), model.scores(X))
    close(model.to_sklearn().decision_function(X), model.scores(X))
    if loss.link == "logit":
        close([list(module["probability"](row.tolist()).values()) for row in X], model.probabilities(X))
        close(model.to_sklearn().predict_proba(X), model.probabilities(X))
    again = model_from_json(json.loads(model.to_json()))
    assert again.scores(X).tobytes() == model.scores(X).tobytes()


def test_estimators_of_columns_and_their_exports_agree():
    frame = odd_frame()
    y = np.random.default_rng(0).normal(size=len(frame))
    model = fiol.FIOLRegressor(max_iter=1, shuffle=False, step_size=0.1, table_encoding=KINDS).fit(frame, y)
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    module = {}
    exec(model.to_python(), module)
    close([module["prediction"](row) for row in rows], model.predict(frame))
    close(run_sql(model, frame, dialect="sqlite")[:, 0], model.predict(frame))
    close(model.to_sklearn().predict(frame), model.predict(frame))
    passive = fiol.PassiveAggressiveRegressor(max_iter=1, shuffle=False).fit(frame[["age"]].fillna(0.0), y)
    assert "fiol_json" in passive.to_json()
    close(run_sql(passive, frame[["age"]].fillna(0.0))[:, 0], passive.predict(frame[["age"]].fillna(0.0)))


def test_exports_of_a_classifier_have_missing_values_of_columns_that_never_missed_any():
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"mass": draw.normal(50.0, 1.0, 60), "city": draw.choice(["Rome", "Oslo"], 60)})
    fruit = np.array(["fig", "kiwi", "pear"])[np.digitize(frame["mass"], [49.5, 50.5])]
    new = pd.DataFrame({"mass": [None, 50.5], "city": ["Rome", None]})
    for classes in (3, 2):
        some = np.isin(fruit, ["fig", "kiwi", "pear"][:classes])
        model = fiol.FIOLClassifier("log_loss", max_iter=1, random_state=0).fit(frame[some], fruit[some])
        expected = model.decision_function(new).reshape(2, -1)
        assert model.coef_.shape[1] == 3  # `coef_` is stored
        module = {}
        exec(model.to_python(), module)
        rows = [{"mass": None, "city": "Rome"}, {"mass": 50.5, "city": None}]
        scores = [module["score"](row) for row in rows]
        close([list(s.values()) if classes == 3 else [s] for s in scores], expected)
        close(run_sql(model, new, dialect="sqlite"), expected)
        close(model.to_sklearn().decision_function(new).reshape(2, -1), expected)


def test_onnx_labels_beyond_64_bits_are_text():
    classes = [3, 5, 2**63 + 1]
    model = fiol.OneVsRest(fiol.FIOL(fiol.Hinge()), classes=classes, n_features=1, compiled=False)
    scores = model.learn([[1.0], [0.0], [-1.0]], classes)
    assert scores.shape == (3, 3)
    session = onnxruntime.InferenceSession(model.to_onnx().SerializeToString())
    X = np.array([[1.0], [-1.0]])
    assert session.run(["label"], {"X": X})[0].tolist() == [str(label) for label in model.predict(X).tolist()]
    assert model.predict(X).tolist() == model.to_sklearn().predict(X).tolist() == [3, 2**63 + 1]


def test_exports_of_a_geometry_whose_weights_do_not_start_at_zero():
    X = np.random.default_rng(0).normal(size=(40, 3))
    X[:, 2] = 0.0  # never in a row
    learner = fiol.Learner(fiol.FIOL(fiol.Squared(), geometry=fiol.Entropy()), n_features=3)
    learner.learn(X, X[:, 0])
    estimator = fiol.FIOLRegressor(geometry="entropy", max_iter=1, shuffle=False).fit(X, X[:, 0])
    rows = np.eye(3)
    for model, expected in ((learner, learner.scores(rows)), (estimator, estimator.predict(rows))):
        assert expected[2] != model.to_sklearn().intercept_
        module = {}
        exec(model.to_python(), module)
        close([module["score"](row) for row in rows.tolist()], expected)
        close(model.to_sklearn().predict(rows), expected)
    learner = fiol.Learner(fiol.FIOL(fiol.Squared(), geometry=fiol.Entropy()))
    learner.learn([{"a": 1.0}], [1.0])
    with pytest.raises(NoExportError, match="no list of weights is complete"):
        learner.to_python()


def test_sql_of_a_model_without_classes_is_refused():
    with pytest.raises(NoExportError, match="a model without classes has no scores"):
        fiol.OneVsRest(fiol.FIOL(fiol.Hinge()), n_features=2).to_sql()


def test_the_registry_has_a_method_for_every_format():
    from fiol.exports.formats import EXPORT_FORMATS

    for name, export_format in EXPORT_FORMATS.items():
        assert callable(getattr(fiol.Learner, f"to_{name}"))
        assert export_format.extension.startswith(".")
