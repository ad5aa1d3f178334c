"""`fiol export`, `import` and `convert` on files."""

import json
import pickle
import sqlite3
import subprocess
import sys

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from sklearn.datasets import load_svmlight_file
from tests.cli.test_train import invoke
from tests.interpreted import interpret_all

import fiol
from fiol.exports.json_model import load_json
from fiol.readers.converting import Conversion
from fiol.readers.reader_config import infer_config

CSV = '''age,city,day,at,"bought ""it"""
30,Rome,2024-03-04,07:30:10,yes
,"it's",2024-03-05,23:59,no
31.5,"Zürich, CH",,,yes
0,Rome,2024-03-09,0:00,no
-7,,2024-03-04,7:01:00,no
'''


@pytest.fixture(autouse=True)
def in_the_interpreter(monkeypatch):
    interpret_all(monkeypatch)
    monkeypatch.setattr(load_json, "__defaults__", (False,))


@pytest.fixture
def bought(tmp_path):
    """A file with columns, and a model of it."""
    (tmp_path / "bought.csv").write_text(CSV, encoding="utf-8")
    how = ["--target", 'bought "it"', "--algorithm", "FIOL"]
    invoke("train", tmp_path / "bought.csv", *how, "-o", tmp_path / "m.fiol")
    return tmp_path


def test_exported_models_score_as_predict_does(bought):
    model, data = bought / "m.fiol", bought / "bought.csv"
    scores = [float(line) for line in invoke("predict", model, data, "--scores").output.splitlines()[1:]]
    frame = pd.read_csv(data)

    source = invoke("export", model, "--to", "python").output
    scope = {}
    exec(source, scope)
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    np.testing.assert_allclose([scope["score"](row) for row in rows], scores, rtol=1e-12)

    query = invoke("export", model, "--to", "sql", "--table", "t", "--dialect", "sqlite").output
    with sqlite3.connect(":memory:") as base:
        frame.to_sql("t", base, index=False)
        np.testing.assert_allclose(base.execute(query).fetchall(), np.array(scores)[:, None], rtol=1e-12)
    base.close()

    invoke("export", model, "--to", "sklearn", "-o", bought / "m.pickle")
    theirs = pickle.loads((bought / "m.pickle").read_bytes())
    np.testing.assert_allclose(theirs.decision_function(frame), scores, rtol=1e-12)
    assert theirs.classes_.tolist() == ["no", "yes"]

    invoke("export", model, "--to", "onnx", "-o", bought / "m.onnx")
    session = onnxruntime.InferenceSession((bought / "m.onnx").read_bytes())
    label, _, _ = session.run(None, {"X": theirs[0].transform(frame).toarray()})
    assert label.tolist() == theirs.predict(frame).tolist()
    assert json.loads(session.get_modelmeta().custom_metadata_map["features"]) == fiol.load(model).names

    invoke("export", model, "--to", "json", "-o", bought / "m.json")
    printed = json.loads(invoke("import", bought / "m.json", "-o", bought / "again.fiol", "--json").output)
    assert printed["rounds"] == 5
    assert (bought / "again.fiol").read_bytes() == model.read_bytes()
    invoke("export", model, "--to", "json", "--no-state", "--force", "-o", bought / "m.json")
    invoke("import", bought / "m.json", "--force", "-o", bought / "again.fiol")
    again = [float(line) for line in invoke("predict", bought / "again.fiol", data, "--scores").output.splitlines()[1:]]
    np.testing.assert_allclose(again, scores, rtol=1e-12)


def test_rejected_export_leaves_files_unchanged(bought):
    model = bought / "m.fiol"
    assert "name a file" in invoke("export", model, "--to", "onnx", code=2).output
    (bought / "there.json").write_text("mine")
    assert "--force" in invoke("export", model, "--to", "json", "-o", bought / "there.json", code=2).output
    assert "dialect" in invoke("export", model, "--to", "sql", "-o", bought / "there.sql", code=1).output
    assert "no JSON" in invoke("import", bought / "there.json", "-o", bought / "new.fiol", code=1).output
    assert "exists" in invoke("import", bought / "there.json", "-o", model, code=2).output
    assert "no ending of a format" in invoke("convert", bought / "bought.csv", "-o", bought / "rows", code=2).output
    assert "--target" in invoke("convert", bought / "bought.csv", "-o", bought / "rows.svm", code=2).output
    assert "exists" in invoke("convert", bought / "bought.csv", "--to", "vw", "-o", model, code=2).output
    assert (
        "--table has no effect on --to json" in invoke("export", model, "--to", "json", "--table", "t", code=2).output
    )
    assert "--no-state has no effect" in invoke("export", model, "--to", "sql", "--no-state", code=2).output
    assert "by the ending of FILE" in invoke("export", model, "-o", bought / "m.txt", code=2).output
    printed = invoke("convert", bought / "bought.csv", "--target", 'bought "it"', "-o", bought / "x.vw", code=1).output
    assert "the target 'yes' is no number" in printed
    (bought / "bad.csv").write_text("a,b\n" + "1,2\n" * 400_000 + "3\n")
    bad = ["convert", bought / "bad.csv", "--target", "a", "-o", bought / "x.svm"]
    assert "bad.csv:400002" in invoke(*bad, code=1).output
    printed = invoke(*bad, "--on-error", "skip", "--json").stdout
    assert {"rows": 400_000, "skipped": 1}.items() <= json.loads(printed).items()
    assert sorted(path.name for path in bought.iterdir()) == [
        "bad.csv", "bought.csv", "m.fiol", "there.json", "x.svm",
    ]  # fmt: skip
    assert (bought / "there.json").read_text() == "mine"


def learned(*files, **given):
    reading = infer_config(list(map(str, files)), **given)
    learner = fiol.Learner(fiol.FIOL(fiol.Squared()))
    for batch in reading.batches(list(map(str, files))):
        learner.learn(batch.X, batch.y, batch.weights)
    return learner


def test_convert_columns_to_svmlight_and_vw(tmp_path):
    (tmp_path / "a.csv").write_text(CSV.replace("yes", "1").replace("no", "0"), encoding="utf-8")
    aside = ["--target", 'bought "it"']
    first = learned(tmp_path / "a.csv", target='bought "it"')
    invoke("convert", tmp_path / "a.csv", *aside, "-o", tmp_path / "a.svm", "--names", tmp_path / "names")
    names = [json.loads(line) for line in (tmp_path / "names").read_text(encoding="utf-8").splitlines()]
    assert names == first.names
    assert learned(tmp_path / "a.svm").weights.tobytes() == first.weights.tobytes()
    invoke("convert", tmp_path / "a.csv", *aside, "-o", tmp_path / "a.vw")
    assert learned(tmp_path / "a.vw").weights.tobytes() == first.weights.tobytes()
    invoke("convert", tmp_path / "a.csv", *aside, "-o", tmp_path / "b.svm", "--bits", 6)
    assert load_svmlight_file(str(tmp_path / "b.svm"))[0].shape[1] <= 64
    printed = invoke("convert", tmp_path / "a.csv", *aside, "--bits", 6, "-o", tmp_path / "c.vw", code=2).output
    assert "are for svmlight" in printed


def test_convert_keeps_target_weight_and_tag_or_refuses(tmp_path):
    """All digits of a target are written, and nothing is dropped without a word."""
    (tmp_path / "a.csv").write_text(f"y,w,id,x\n{2**53 + 1},2.5,first,0.1\n7,1,,3\n")
    aside = ["--target", "y", "--weight", "w", "--tag", "id"]
    invoke("convert", tmp_path / "a.csv", *aside, "-o", tmp_path / "a.vw")
    assert (tmp_path / "a.vw").read_text() == f"{2**53 + 1} 2.5 'first | x:0.1\n7 | x:3\n"
    printed = invoke("convert", tmp_path / "a.csv", *aside, "-o", tmp_path / "a.svm", code=1).output
    assert "svmlight has no place for sample weights" in printed
    invoke(
        "convert", tmp_path / "a.csv", "--target", "y", "--tag", "id", "--column", "w=skip", "-o", tmp_path / "a.svm"
    )
    assert (tmp_path / "a.svm").read_text() == f"{2**53 + 1} 1:0.1 # first\n7 1:3\n"
    assert (
        "otherwise it would become a feature"
        in invoke("convert", tmp_path / "a.csv", "-o", tmp_path / "b.vw", code=2).output
    )
    for form in ("csv", "json", "parquet"):
        assert (
            "is not one of" in invoke("convert", tmp_path / "a.csv", "--to", form, "-o", tmp_path / "b", code=2).output
        )


def test_convert_to_unsupported_format_is_rejected():
    with pytest.raises(ValueError, match="must be one of svmlight"):
        Conversion(None, [], "arrow")


@pytest.mark.parametrize("kind", ["FIOLClassifier", "FIOLRegressor", "PassiveAggressiveClassifier"])
def test_estimators_are_exported_as_estimators(tmp_path, kind):
    X = np.array([[1.0, 2.0], [-1.0, 0.5], [0.5, -2.0], [-2.0, 1.0]])
    options = {} if kind.startswith("Passive") else {"step_size": 0.1}  # ensembles differ in the last digits compiled
    model = getattr(fiol, kind)(max_iter=1, tol=None, random_state=0, **options).fit(X, [1, 0, 1, 0])
    model.save(tmp_path / "m.fiol")
    assert invoke("export", tmp_path / "m.fiol", "--to", "sql").output == model.to_sql()
    invoke("export", tmp_path / "m.fiol", "-o", tmp_path / "m.json")
    command = [sys.executable, "-m", "fiol", "import", tmp_path / "m.json", "-o", tmp_path / "again.fiol"]
    subprocess.run(command, check=True, capture_output=True)  # a new process, which has loaded no estimator
    again = fiol.load(tmp_path / "again.fiol")
    assert type(again) is type(model)
    assert again.coef_.tobytes() == model.coef_.tobytes()


def test_unpickled_models_are_exported(tmp_path):
    model = fiol.Learner(fiol.FIOL(fiol.Squared()), n_features=2, compiled=False)
    model.start_from([0.5, -2.0])
    (tmp_path / "m.pickle").write_bytes(pickle.dumps(model))
    script = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb')).to_sql())"
    command = [sys.executable, "-c", script, tmp_path / "m.pickle"]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip() == model.to_sql().strip()
