"""Importances of features and columns: weight times standard deviation, for every kind of input."""

import json

import numpy as np
import pandas as pd
import pytest
from tests.commands import CliRunner

import fiol
from fiol.cli import main
from fiol.features.feature_moments import FeatureMoments
from fiol.workflow.model import open_model

ROWS = 1500


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(5)
    found = pd.DataFrame(
        {
            "near": rng.normal(size=ROWS),
            "far": rng.normal(size=ROWS) + 4.0,
            "year": 2011.0 + rng.integers(0, 3, ROWS),
            "city": rng.choice(["Rome", "Oslo", "Bern"], ROWS, p=[0.8, 0.15, 0.05]),
            "gap": np.where(rng.random(ROWS) < 0.2, np.nan, rng.normal(size=ROWS) + 50.0),
        }
    )
    noise = rng.normal(size=ROWS)
    price = found.near + 0.5 * found.far + (found.city == "Oslo") + 0.2 * found.year + 0.3 * found.gap.fillna(50.0)
    return found.assign(price=price + 0.3 * noise)


def exact_column(model, frame, column):
    """The standard deviation of what a column adds to scores, from one row with the column changed at a time."""
    base = frame.drop(columns="price")
    common = base.assign(**{name: base[name].iloc[0] for name in base.columns if name != column})
    return np.std(model.scores(common))


@pytest.fixture(scope="module", params=["train", "estimator", "file of an estimator"])
def model(request, frame, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "model.fiol"
    if request.param == "train":
        frame.to_csv(path.with_suffix(".csv"), index=False)
        return fiol.train(path.with_suffix(".csv"), target="price", features="linear")
    estimator = fiol.FIOLRegressor(random_state=0, max_iter=3, tol=None)
    estimator.fit(frame.drop(columns="price"), frame.price)
    estimator.save(path)
    return open_model(path) if "file" in request.param else estimator


def test_importances_of_numbers_are_weights_times_standard_deviations(model, frame):
    found = model.importances()
    weights = dict(zip(model.coef_names_, model.coef_, strict=True)) if hasattr(model, "coef_") else None
    weights = dict(zip(model.names, model.weights, strict=True)) if weights is None else weights
    for name in ("near", "far", "year"):
        assert found[name] == pytest.approx(weights[name] * frame[name].std(ddof=0), rel=1e-6)
    assert found == pytest.approx(model.importances(X=frame.drop(columns="price")), rel=0.05)


def test_importances_of_columns_are_deviations_of_their_contributions(model, frame):
    found = model.importances(by="column")
    assert set(found) == set(frame.columns) - {"price"}
    assert list(found.values()) == sorted(found.values(), reverse=True)
    scored = model if hasattr(model, "scores") else model.learners_[0]
    for name, value in found.items():
        assert value == pytest.approx(exact_column(scored, frame, name), rel=0.03)
    assert list(model.importances(1, by="column")) == list(found)[:1]
    with pytest.raises(ValueError, match="by must be"):
        model.importances(by="row")


def test_moments_do_not_depend_on_chunks():
    rng = np.random.default_rng(0)
    chunk = fiol.to_chunk(rng.normal(size=(50, 3)) * (rng.random((50, 3)) < 0.7) + [0.0, 0.0, 1e6])
    whole, parts = (FeatureMoments.of_features(["a", "b", "c"]) for _ in range(2))
    whole.add(chunk, np.arange(3))
    for start, stop in ((0, 1), (1, 20), (20, 50)):
        parts.add(chunk.row_block(start, stop), np.arange(3))
    assert whole.to_json() == parts.to_json()
    extreme = FeatureMoments.of_features(["a"])
    extreme.add(fiol.to_chunk([[1e100], [-1e100]]), np.arange(1))
    assert np.isfinite(extreme.means_and_deviations()).all()


@pytest.mark.parametrize(
    "change",
    [{"rows": -1}, {"sums": [1.0]}, {"names": [None, "b"]}, {"squares": ["x", 1.0]}, {"first": [np.inf, 0.0]}],
)
def test_wrong_moments_are_refused(change):
    right = FeatureMoments.of_features(["a", "b"]).to_json()
    with pytest.raises(ValueError, match="moments of features are not as fiol writes them"):
        FeatureMoments.from_json({**right, **change})
    with pytest.raises(ValueError, match="moments of features are not as fiol writes them"):
        FeatureMoments.from_json("moments")


def test_interactions_and_words_have_columns(tmp_path):
    path = tmp_path / "rows.csv"
    rng = np.random.default_rng(1)
    words = ["good", "bad", "old", "new", "red", "blue"]
    lines = [
        f"{a},{b},{' '.join(rng.choice(words, 6))} {k},{a * b + rng.normal():.3f}"
        for k, (a, b) in enumerate(rng.integers(1, 9, (300, 2)))
    ]
    path.write_text("a,b,text,y\n" + "\n".join(lines) + "\n")
    columns = {"a", "b", "a*b", "text"}
    for features, pairs in (("linear", set()), ("additive", set()), ("auto", {"a & b"})):
        model = fiol.train(path, target="y", pairs=[("a", "b")], columns={"text": "words"}, features=features)
        assert set(model.importances(by="column")) == columns | pairs
    hashed = fiol.train(path, target="y", bits=10)
    with pytest.raises(ValueError, match="features are hashed"):
        hashed.importances(by="column")


def test_importances_of_dicts_and_of_river_are_those_of_the_rows():
    river = pytest.importorskip("fiol.river")
    rng = np.random.default_rng(5)
    rows = [
        {"far": 1e4 * a, "near": 1e-3 * b, "city": c}
        for a, b, c in zip(*rng.normal(size=(2, 600)), rng.choice(["Rome", "Oslo", "Bonn"], 600), strict=True)
    ]
    y = np.array([row["far"] / 1e4 + 3.0 * (row["city"] == "Rome") for row in rows])
    event_by_event, many = river.FIOLRegressor(), fiol.Learner(loss="squared_error")
    for row, target in zip(rows, y.tolist(), strict=True):
        event_by_event.learn_one(row, target)
    many.learn(rows, y)
    two = river.FIOLClassifier()
    assert two.importances() == {}
    for row, target in zip(rows, (y > 0.5).tolist(), strict=True):
        two.learn_one(row, target)
    table = fiol.train(pd.DataFrame(rows).assign(y=y), "y", features="linear")
    for model in (event_by_event, many, two):
        columns = model.importances(by="column")
        assert (set(list(columns)[:2]), list(columns)[2]) == ({"city", "far"}, "near")
        assert set(model.importances(2)) == {"city=Rome", "far"}
        if model is not two:
            assert columns == pytest.approx(table.importances(by="column"), rel=0.1, abs=0.01)


def test_inspect_ranks_columns_and_features(frame, tmp_path):
    data, model = tmp_path / "rows.csv", tmp_path / "model.fiol"
    frame.to_csv(data, index=False)
    trained = fiol.train(data, target="price")
    trained.save(model)
    done = CliRunner().invoke(main, ["inspect", str(model), "--json"])
    found = json.loads(done.stdout)
    top = trained.importances(20, by="column")
    assert {c["column"]: c["matters"] for c in found["top_columns"]} == pytest.approx(top)
    assert {f["feature"]: f["matters"] for f in found["top"]} == pytest.approx(trained.importances(20))
    text = CliRunner().invoke(main, ["inspect", str(model)]).stdout
    assert "column (standard deviation of what it adds to scores)" in text
    assert "feature (weight times standard deviation)" in text
    assert text.count("  city  ") == 1  # once in the table of columns
