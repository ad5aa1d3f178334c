"""`fiol.train` and `fiol train` on tables: curves and pairs unless the options or the data exclude them."""

import json

import numpy as np
import pandas as pd
import pytest
from tests.cli.test_train import invoke
from tests.interpreted import interpret

import fiol
from fiol.workflow.job import TrainingJob
from fiol.workflow.options import TrainOptions

ROWS = 700


@pytest.fixture(autouse=True)
def in_the_interpreter(monkeypatch):
    interpret(monkeypatch)


@pytest.fixture(scope="module")
def frame():
    """Return a table whose target has a curve and a pair; its column `moving` rises for ever."""
    draw = np.random.default_rng(4)
    found = pd.DataFrame({"x": draw.normal(size=ROWS).round(3), "hour": draw.integers(0, 6, ROWS)})
    found["city"] = draw.choice(["Rome", "Oslo"], ROWS)
    found["moving"] = (draw.normal(size=ROWS) + np.arange(ROWS) / 100.0).round(3)
    found["y"] = (np.abs(found.x) + found.hour * (found.city == "Oslo") + 0.1 * draw.normal(size=ROWS)).round(4)
    return found


def has_curves(model):
    return model.core.levels is not None


def same_bits(one, other):
    arrays = other.core.arrays()
    return all(array.tobytes() == arrays[name].tobytes() for name, array in one.core.arrays().items())


def test_tables_have_curves_and_pairs_by_default(frame, tmp_path):
    frame.to_csv(tmp_path / "rows.csv", index=False)
    trained = fiol.train(frame, target="y"), fiol.train(tmp_path / "rows.csv", target="y")
    linear = fiol.train(frame, target="y", features="linear")
    assert all(map(has_curves, trained))
    assert same_bits(*trained)
    assert not has_curves(linear)
    errors = [np.mean((model.predict(frame) - frame["y"]) ** 2) for model in (trained[0], linear)]
    assert errors[0] < 0.5 * errors[1]


@pytest.mark.parametrize(
    "options",
    [{"penalty": "l1"}, {"bits": 8}, {"max_features": 50}, {"algorithm": "FIOL"}, {"step_size": "single"}],
    ids=str,
)
def test_options_of_linear_models_exclude_curves(frame, options):
    assert not has_curves(fiol.train(frame[:50], target="y", **options))


def test_sparse_formats_and_words_stay_linear(tmp_path):
    (tmp_path / "rows.svm").write_text("1 1:0.5 3:2\n-1 2:1\n" * 20)
    (tmp_path / "rows.vw").write_text("1 |a x:0.5\n-1 |b y\n" * 20)
    words = pd.DataFrame({"text": [f"good news {k}" for k in range(40)], "y": np.arange(40.0)})
    assert not has_curves(fiol.train(tmp_path / "rows.svm"))
    assert not has_curves(fiol.train(tmp_path / "rows.vw", format="vw"))
    assert not has_curves(fiol.train(words, target="y", columns={"text": "words"}))
    assert has_curves(fiol.train(words.assign(x=1.5 * words.y), target="y", columns={"text": "words"}))


def test_wide_tables_stay_linear_and_say_so(tmp_path):
    columns = ",".join(f"c{k}" for k in range(1001))
    rows = [",".join(str((k * j) % 7) for k in range(1001)) + f",{j}" for j in range(12)]
    (tmp_path / "wide.csv").write_text(f"{columns},y\n" + "\n".join(rows) + "\n")
    printed = invoke("train", tmp_path / "wide.csv", "--target", "y", "-o", tmp_path / "m.fiol").output
    assert "Features: columns as they are; curves and pairs are made of at most 1,000 columns" in printed
    assert not has_curves(fiol.load(tmp_path / "m.fiol"))


def test_table_of_columns_names_curves(frame, tmp_path):
    frame.to_csv(tmp_path / "rows.csv", index=False)
    printed = invoke("train", tmp_path / "rows.csv", "--target", "y", "--dry-run").output
    lines = [line.split("  ") for line in printed.splitlines()]
    kinds = {parts[1].strip(): next(part for part in parts[2:] if part).strip() for parts in lines if parts[0] == ""}
    assert kinds["x"] == kinds["hour"] == "number + curve"
    assert kinds["city"] == "category"
    assert "(--features linear: columns as they are)" in printed
    plain = invoke("train", tmp_path / "rows.csv", "--target", "y", "--dry-run", "--features", "linear").output
    assert "curve" not in plain


def test_columns_of_a_trained_model_have_a_curve_where_there_are_knots(frame, tmp_path):
    path = tmp_path / "model.fiol"
    fiol.train(frame.assign(flag=frame.hour % 2), target="y", output=path)
    columns = {column["name"]: column for column in json.loads(invoke("inspect", path, "--json").output)["columns"]}
    assert {name: column["curve"] for name, column in columns.items()} == {
        "x": True,
        "hour": True,
        "moving": True,
        "city": False,
        "flag": False,
    }
    assert columns["flag"]["features"] == 1


@pytest.mark.parametrize("cut", [100, 200, 390, 600])
def test_updated_model_with_curves_has_the_bits_of_one_run(frame, tmp_path, cut):
    for name, rows in (("all", frame), ("first", frame[:cut]), ("rest", frame[cut:])):
        rows.to_csv(tmp_path / f"{name}.csv", index=False)
    whole = fiol.train(tmp_path / "all.csv", target="y")
    fiol.train(tmp_path / "first.csv", target="y", output=tmp_path / "m.fiol")
    later = fiol.train(tmp_path / "rest.csv", update=tmp_path / "m.fiol", output=tmp_path / "m2.fiol")
    assert whole.names == later.names
    assert same_bits(whole, later)


def test_resumed_run_with_curves_has_the_bits_of_one_run(frame, tmp_path):
    frame.to_csv(tmp_path / "rows.csv", index=False)
    options = {"target": "y", "passes": 2, "shuffle": 100}
    whole = fiol.train(tmp_path / "rows.csv", **options)
    given = TrainOptions(**options)
    job = TrainingJob([str(tmp_path / "rows.csv")], given, str(tmp_path / "m.fiol"))
    job.begin()
    job.prepare(every_rows=300)
    for _ in job.run():
        if job.training.rows >= 900:
            job.training.checkpoint()
            job.close()
            break
    assert 0 < fiol.load(tmp_path / "m.fiol").rounds < whole.rounds
    later = fiol.train(tmp_path / "rows.csv", output=tmp_path / "m.fiol", resume=True, **options)
    assert same_bits(whole, later)


def test_checkpoint_of_a_linear_run_is_resumed_as_it_is(frame, tmp_path):
    frame[:50].to_csv(tmp_path / "rows.csv", index=False)
    linear = fiol.train(tmp_path / "rows.csv", target="y", features="linear", output=tmp_path / "m.fiol")
    del linear.meta["training"]["asked"]["features"]  # as versions before this default wrote it
    linear.save(tmp_path / "m.fiol")
    assert not has_curves(fiol.train(tmp_path / "rows.csv", target="y", output=tmp_path / "m.fiol", resume=True))


def test_column_that_turns_to_text_is_missing_there_and_counted(frame, tmp_path):
    rows = frame.astype({"x": object})
    rows.loc[500:520, "x"] = "broken"
    rows.to_csv(tmp_path / "rows.csv", index=False)
    with pytest.warns(UserWarning, match="'broken'"):
        model = fiol.train(tmp_path / "rows.csv", target="y")
    assert has_curves(model)
    assert model.rows == ROWS
    assert np.isfinite(model.predict(frame)).all()
    before = model.weights
    with pytest.raises(ValueError, match="'broken'"):
        fiol.train(tmp_path / "rows.csv", target="y", on_error="stop")
    with pytest.raises(ValueError, match="'broken'"):
        model.learn_named({**frame.iloc[0].to_dict(), "x": "broken"}, 1.0)
    assert np.array_equal(model.weights, before)


def test_constant_missing_and_infinite_values_do_no_harm(frame, tmp_path):
    rows = frame.assign(same=3.0, none=None).astype({"x": object})
    rows.loc[300, "x"] = "inf"
    rows.to_csv(tmp_path / "rows.csv", index=False)
    model = fiol.train(tmp_path / "rows.csv", target="y")
    assert "x is missing" in model.names
    assert not any(str(name).startswith(("same~", "same=", "none~")) for name in model.names)
    error = np.mean((model.predict(frame.assign(same=3.0, none=None)) - frame["y"]) ** 2)
    assert error < 0.5 * np.var(frame["y"])


def test_one_row_and_no_rows(frame, tmp_path):
    model = fiol.train(frame[:1], target="y", loss="squared_error")
    assert has_curves(model)
    assert np.isfinite(model.predict(frame[:5])).all()
    frame[:0].to_csv(tmp_path / "empty.csv", index=False)
    with pytest.raises(ValueError, match="there are no rows"):
        fiol.train(tmp_path / "empty.csv", target="y", output=tmp_path / "m.fiol")
    assert not (tmp_path / "m.fiol").exists()
    learner = fiol.Learner(features="auto")
    assert learner.learn(np.empty((0, 3)), []).shape == (0,)
    assert learner.rounds == 0


def test_ten_thousand_columns_of_a_learner_have_no_pairs_and_a_warning():
    X = np.random.default_rng(0).normal(size=(201, 10_000))
    learner = fiol.Learner(loss="squared_error", features="auto")
    with pytest.warns(UserWarning, match="10,000 columns are more than 1,000: there are no curves and pairs"):
        scores = learner.learn(X, X[:, 0])
    assert np.isfinite(scores).all()
    assert learner.n_features == 10_000
