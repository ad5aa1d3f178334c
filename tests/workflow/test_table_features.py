"""`fiol.train` and `fiol train` on tables: curves and pairs unless the options or the data exclude them."""

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
    told = invoke("train", tmp_path / "wide.csv", "--target", "y", "-o", tmp_path / "m.fiol").output
    assert "Features: columns as they are; curves and pairs are made of at most 1,000 columns" in told
    assert not has_curves(fiol.load(tmp_path / "m.fiol"))


def test_table_of_columns_names_curves(frame, tmp_path):
    frame.to_csv(tmp_path / "rows.csv", index=False)
    told = invoke("train", tmp_path / "rows.csv", "--target", "y", "--dry-run").output
    lines = [line.split("  ") for line in told.splitlines()]
    kinds = {parts[1].strip(): next(part for part in parts[2:] if part).strip() for parts in lines if parts[0] == ""}
    assert kinds["x"] == kinds["hour"] == "number + curve"
    assert kinds["city"] == "category"
    assert "(--features linear: columns as they are)" in told
    plain = invoke("train", tmp_path / "rows.csv", "--target", "y", "--dry-run", "--features", "linear").output
    assert "curve" not in plain


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
