"""Models with curves and pairs: features, equal bits for every kind of input, merges, losses on made-up tables."""

import itertools
import json
import pickle

import numpy as np
import pandas as pd
import pytest
from tests.interpreted import interpret
from tests.oracles.table_basis import expanded

import fiol
from fiol.components.table_basis import TableBasis
from fiol.engine.single_row.fast_path import NO_FAST_PATH
from fiol.learner.effects import effects_of
from fiol.models.distributed_round import RoundMerger, learn_shard, losses_along_line
from fiol.models.member_parallel import split_members

ROWS = 600


@pytest.fixture(autouse=True)
def in_the_interpreter(monkeypatch):
    interpret(monkeypatch)


def new(loss=None, features="auto", **options):
    return fiol.Learner(loss=fiol.Squared() if loss is None else loss, features=features, **options)


def numbers(n=ROWS, seed=0):
    """Return a table of numbers with a constant column, and targets with a curve and a product."""
    draw = np.random.default_rng(seed)
    X = draw.normal(size=(n, 5))
    X[:, 2] = np.round(2.0 * X[:, 2])
    X[:, 3] = X[:, 3] > 0.5
    X[:, 4] = 7.0
    return X, np.sin(3.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * draw.normal(size=n)


def table(n=ROWS, seed=0, cities="ABCD"):
    """Return a frame with numbers, categories, dates and missing values, and targets."""
    draw = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": draw.normal(size=n), "k": draw.integers(0, 5, n), "city": draw.choice(list(cities), n)})
    frame["day"] = pd.date_range("2024-01-01", periods=n, freq="307min").astype(str)
    frame.loc[draw.random(n) < 0.1, "a"] = np.nan
    frame.loc[draw.random(n) < 0.05, "city"] = None
    effect = frame["city"].map({c: k for k, c in enumerate("ABCDEFG")}).fillna(-1)
    y = np.sin(3.0 * frame["a"].fillna(1.0)) + 0.3 * frame["k"] * effect + 0.1 * draw.normal(size=n)
    return frame, y.to_numpy()


def as_dicts(frame):
    return frame.astype(object).where(frame.notna(), None).to_dict("records")


# --- features ---------------------------------------------------------------------------------


@pytest.mark.parametrize("features", ["additive", "pairwise"])
def test_scores_are_linear_in_hats_and_nodes_of_plain_loops(features):
    X, y = numbers()
    learner = new(features=features)
    learner.learn(X, y)
    made = expanded(X, 200)[:, : learner.n_features]
    assert np.abs(made @ learner.weights + learner.intercept - learner.scores(X)).max() < 1e-12
    assert len(learner.names) == len(set(learner.names)) == learner.n_features == len(learner.weights)


def test_values_beyond_the_knots_continue_linearly():
    X, y = numbers()
    learner = new(features="additive")
    learner.learn(X, y)
    far = np.tile(X[:1], (3, 1))
    far[:, 0] = 1e3, 2e3, 3e3
    first, second, third = learner.scores(far)
    assert third - second == pytest.approx(second - first, rel=1e-9)
    assert second - first == pytest.approx(1e3 * learner.weights[0], rel=1e-9)


def test_names_of_hats_and_nodes_have_column_and_value():
    frame, y = table()
    learner = new()
    learner.learn(frame, y)
    names = learner.names
    assert {"a", "a is missing", "city=A", "day.hour=0", "k~3", "k=3 & city=A", "a is missing & city=B"} <= {
        *names,
        *(" & ".join(reversed(str(name).split(" & "))) for name in names),
    }


# --- the same bits ----------------------------------------------------------------------------


def test_chunks_and_single_rows_give_the_same_bits():
    X, y = numbers()
    whole, chunks, single = new(), new(), new()
    scores = whole.learn(X, y)
    assert np.array_equal(
        np.concatenate([chunks.learn(X[i : i + 37], y[i : i + 37]) for i in range(0, ROWS, 37)]), scores
    )
    assert [single.learn_one(np.flatnonzero(x), x[x != 0.0], t) for x, t in zip(X, y, strict=True)] == scores.tolist()
    assert np.array_equal(whole.weights, chunks.weights)
    assert np.array_equal(whole.weights, single.weights)
    assert whole.score_one(np.flatnonzero(X[3]), X[3][X[3] != 0.0]) == whole.scores(X[3:4])[0]


def event_rows(n=900, seed=0):
    """Return dicts with numbers, text, absent keys and columns that move, some far out; and targets."""
    draw, rows = np.random.default_rng(seed), []
    for k in range(n):
        row = {"a": float(draw.normal()) + k / 200.0, "b": int(draw.integers(0, 4)), "c": str(draw.choice(list("xyz")))}
        if draw.random() < 0.2:
            del row[str(draw.choice(["a", "b", "c"]))]
        if k > 300 and draw.random() < 0.05:
            row |= {"c": f"new{k % 7}", f"late{k % 3}": 1.5}
        if draw.random() < 0.02:
            row["a"] = 1e4
        rows.append(row)
    return rows, [float(row.get("a", 0.0) * (row.get("b", 0) == 2) + draw.normal()) for row in rows]


@pytest.mark.parametrize("options", [{}, {"features": "additive"}, {"loss": fiol.Logistic()}], ids=str)
def test_single_rows_have_the_bits_of_chunks(options):
    rows, y = event_rows()
    y = [float(np.sign(t) or 1.0) for t in y] if "loss" in options else y
    fast, slow = new(**options), new(**options)
    slow.engine.__class__ = type("Careful", (type(slow.engine),), {"prepare_fast_path": lambda *_, **__: NO_FAST_PATH})
    used = 0
    for k, (row, target) in enumerate(zip(rows, y, strict=True)):
        if k in (250, 700):
            fast = fast.copy()
        assert fast.score_named(row) == slow.score_named(row)
        assert fast.predict_named(row) == slow.predict_named(row)
        assert fast.learn_named(row, target) == slow.learn_named(row, target)
        used += fast.engine.fast_path is not NO_FAST_PATH
    assert used > 0.8 * len(rows)
    assert fast.names == slow.names
    arrays = slow.core.arrays()
    assert all(np.array_equal(array, arrays[name]) for name, array in fast.core.arrays().items())


@pytest.mark.parametrize("cut", [100, 200, 450])
def test_saved_and_copied_models_continue_to_the_same_bits(tmp_path, cut):
    frame, y = table()
    whole, part = new(), new(table_encoding=fiol.TableEncoding.infer(frame))
    whole.learn(frame, y)
    part.learn(frame[:cut], y[:cut])
    part.save(tmp_path / "model.fiol")
    later = pickle.loads(pickle.dumps(fiol.Learner.load(tmp_path / "model.fiol").copy()))
    before = later.snapshot()
    scores = before.scores(frame)
    later.learn(frame[cut:], y[cut:])
    assert np.array_equal(later.weights, whole.weights)
    assert np.array_equal(before.scores(frame), scores)


def test_frames_dicts_and_files_give_the_same_model(tmp_path):
    frame, y = table()
    learner = new()
    learner.learn(frame, y)
    rows = as_dicts(frame)
    dicts, named = (new(table_encoding=learner.table_encoding) for _ in range(2))
    dicts.learn(rows, y)
    for row, target in zip(rows, y, strict=True):
        named.learn_named(row, target)
    data = frame.assign(y=y)
    data.to_csv(tmp_path / "rows.csv", index=False)
    data.to_parquet(tmp_path / "rows.parquet")
    lines = [json.dumps({**row, "y": target}) for row, target in zip(rows, y, strict=True)]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    files = [tmp_path / f"rows.{kind}" for kind in ("csv", "parquet", "jsonl")]
    trained = [fiol.train(source, target="y", features="auto") for source in (data, *map(str, files))]
    for model in (dicts, named, *trained):
        assert model.names == learner.names
        assert np.array_equal(model.weights, learner.weights)
        assert np.array_equal(model.scores(frame), learner.scores(frame))
    assert named.score_named(rows[5]) == learner.scores(frame)[5]


def test_rows_learned_in_an_order_give_the_bits_of_these_rows():
    X, y = numbers()
    order = np.random.default_rng(1).permutation(ROWS)
    chunk = fiol.to_chunk(X)
    shuffled, plain = new(), new()
    shuffled.learn_chunk(chunk, y, order=order)
    plain.learn(X[order], y[order])
    assert np.array_equal(shuffled.weights, plain.weights)


def test_interpreter_and_compiled_code_agree(monkeypatch):
    from tests.interpreted import interpret_ensembles

    X, y = numbers(260)
    compiled = new()
    compiled.learn(X, y)
    interpret_ensembles(monkeypatch)
    interpreted = new(compiled=False)
    interpreted.learn(X, y)
    assert np.abs(interpreted.scores(X) - compiled.scores(X)).max() < 1e-9


def test_float32_is_close_to_float64():
    X, y = numbers(300)
    single, double = new(dtype="float32"), new()
    single.learn(X, y)
    double.learn(X, y)
    assert np.abs(single.scores(X) - double.scores(X)).max() < 1e-4


def test_stacks_learn_anew_from_rows_held_back():
    X, y = numbers(3000)
    learner = new()
    learner.learn(X[:2000], y[:2000])
    engine, ones = learner.engine, np.ones(1000)
    rows = fiol.to_chunk(X[2000:]), y[2000:], ones
    best = np.mean((engine.restack(*rows) - y[2000:]) ** 2)
    state = engine.stack.state
    one = np.array([1.0, 0.0, 0.0])  # the linear level alone
    engine.stack.set_state(state._replace(v=0.0 * state.v + one, alone=state.alone.sum() * one))
    wrong = np.mean((engine.scores(rows[0]) - y[2000:]) ** 2)
    found = np.mean((engine.restack(*rows) - y[2000:]) ** 2)
    assert found < 1.05 * best < 0.5 * wrong
    assert np.mean((engine.scores(rows[0]) - y[2000:]) ** 2) < 1.05 * best
    assert engine.rounds == 2000


def test_overflow_in_float32_leaves_the_model_as_it_was():
    X, y = numbers(300)
    learner = new(dtype="float32")
    learner.learn(X, y)
    before = learner.scores(X)
    with pytest.raises(OverflowError):
        learner.learn(1e29 * X[:5], 1e30 * y[:5])
    assert np.array_equal(learner.scores(X), before)
    assert learner.rounds == 300


# --- several models ---------------------------------------------------------------------------


def test_merge_does_not_depend_on_order_and_unites_categories():
    frame, y = table(300)
    base = new()
    base.learn(frame, y)
    parts = [base.copy(), base.copy()]
    for part, seed, cities in zip(parts, (1, 2), ("ABE", "DFG"), strict=True):
        part.learn(*table(400, seed, cities))
    test, target = table(300, 3, "ABCDEFG")
    merged, other = fiol.Learner.merge(parts, base=base), fiol.Learner.merge(parts[::-1], base=base)
    assert np.abs(merged.scores(test) - other.scores(test)).max() < 1e-9
    errors = [np.mean((model.predict(test) - target) ** 2) for model in (merged, base)]
    assert errors[0] < errors[1]
    assert np.abs(fiol.Learner.merge([parts[0], parts[0]]).scores(test) - parts[0].scores(test)).max() < 1e-9


def test_merge_before_knots_are_known_joins_the_first_rows():
    frame, y = table(240)
    halves = [new(table_encoding=fiol.TableEncoding.infer(frame)) for _ in range(2)]
    for half, rows in zip(halves, (slice(0, 120), slice(120, 240)), strict=True):
        half.learn(frame[rows], y[rows])
    merged = fiol.Learner.merge(halves)
    assert all(half.core.levels.basis is None for half in halves)
    assert merged.core.levels.basis is not None
    merged.learn(frame, y)


def test_merge_refuses_other_columns():
    learners = [new(), new()]
    for learner, columns in zip(learners, (slice(0, 4), slice(1, 5)), strict=True):
        X, y = numbers(250)
        learner.learn(X[:, columns], y)
    with pytest.raises(ValueError, match=r"learners\[1\] has other columns"):
        fiol.Learner.merge(learners)


def test_parallel_learning_is_close_to_one_stream():
    X, y = numbers(6000)
    single, parallel = new(), new()
    single.learn(X, y)
    parallel.learn_parallel(X, y, parts=3)
    errors = [np.mean((model.predict(X) - y) ** 2) for model in (single, parallel)]
    assert errors[1] < 1.2 * errors[0]


def test_rounds_over_shards_are_close_to_one_stream():
    frame, y = table(5000, cities="ABCDEFG")
    draw = np.random.default_rng(0)
    frame = frame.drop(columns="day").assign(late=np.where(np.arange(5000) < 1200, 0.0, draw.normal(size=5000)))
    y = y + np.abs(frame["late"].to_numpy())  # this column gets its knots in shards
    single, base = (new(table_encoding=fiol.TableEncoding.infer(frame)) for _ in range(2))
    single.learn(frame[:4000], y[:4000])
    base.learn(frame[:1000], y[:1000])
    start = 1000
    while start < 4000:
        stop = min(int(1.2 * start), 4000)
        cuts = np.linspace(start, stop, 4).astype(int)
        shards = [(frame[a:b], y[a:b]) for a, b in itertools.pairwise(cuts)]
        merger = RoundMerger(base, [learn_shard(base, *shard, parts=3) for shard in shards])
        losses = sum(losses_along_line(merger.base, merger.full, *shard, parts=3) for shard in shards)
        base, start = merger.finish(losses), stop
    assert (base.rows, base.rounds) == (4000, 4000)
    errors = [np.mean((model.predict(frame[4000:]) - y[4000:]) ** 2) for model in (base, single)]
    assert errors[0] < 1.15 * errors[1]


def test_rounds_over_shards_need_a_base_with_knots():
    X, y = numbers(150)
    base = new()
    base.learn(X[:100], y[:100])
    result = learn_shard(base, X[100:], y[100:])
    with pytest.raises(ValueError, match="finds its knots from the first 200 rows"):
        RoundMerger(base, [result])


def test_members_of_levels_are_not_spread():
    with pytest.raises(TypeError, match="members of a model with curves and pairs do not learn in parallel"):
        split_members(new(), 2)


def test_one_vs_rest_and_softmax_learn_pairs():
    frame, y = table(320)
    labels = np.where(y > 0.8, "high", np.where(y < -0.5, "low", "middle")).astype(object)
    for kind, loss in ((fiol.OneVsRest, fiol.Logistic()), (fiol.Learner, fiol.Softmax())):
        rich, plain = (kind(fiol.Stacked(loss, basis=basis)) for basis in (TableBasis(), None))
        for model in (rich, plain):
            model.learn(frame, labels)
        best = [np.array(model.classes)[model.scores(frame).argmax(axis=1)] for model in (rich, plain)]
        rich_accuracy, plain_accuracy = (np.mean(found == labels) for found in best)
        assert rich_accuracy > plain_accuracy + 0.05
        assert rich.weights.shape == (3, rich.n_features)
        assert len(rich.names) == rich.n_features


# --- what is learned --------------------------------------------------------------------------


def test_curves_and_pairs_lower_the_loss_where_they_are_there():
    X, y = numbers(4000)
    losses = {
        features: np.mean((new(features=features).learn(X, y) - y)[2000:] ** 2)
        for features in ("linear", "additive", "auto")
    }
    assert losses["additive"] < 0.95 * losses["linear"]
    assert losses["auto"] < 0.4 * losses["additive"]


def test_auto_costs_little_where_the_linear_model_is_right():
    draw = np.random.default_rng(0)
    X = draw.normal(size=(3000, 6))
    y = X @ draw.normal(size=6) + draw.normal(size=3000)
    linear, auto = (np.mean((new(features=features).learn(X, y) - y) ** 2) for features in ("linear", "auto"))
    assert auto < 1.02 * linear


def test_effects_show_the_curve_and_the_pair():
    X, y = numbers(6000)
    learner = new()
    learner.learn(X, y)
    columns, pairs = effects_of(learner.core)
    curve = next(effect for effect in columns if effect.name == "0")
    inside = np.abs(curve.points) < 1.5
    assert np.abs(curve.values[0] - np.sin(3.0 * curve.points))[inside].max() < 0.4
    assert pairs[0].name == "1 & 2"
    assert next(iter(learner.importances(3, by="column"))) == "1 & 2"
    assert learner.importances(1).keys() <= set(learner.names)


# --- odd tables -------------------------------------------------------------------------------


def test_constant_and_missing_columns_make_no_features():
    frame = pd.DataFrame({"one": np.ones(300), "none": [None] * 300, "x": np.arange(300.0) ** 2})
    learner = new(table_encoding={"none": "number"})
    learner.learn(frame, np.arange(300.0))
    assert not any(str(name).startswith(("one~", "none~", "one=", "none=")) for name in learner.names)


def test_one_row_and_rows_before_the_knots_give_the_linear_model():
    X, y = numbers(150)
    auto, linear = new(), new(features="linear")
    assert np.array_equal(auto.learn(X[:1], y[:1]), linear.learn(X[:1], y[:1]))
    assert np.array_equal(auto.learn(X[1:], y[1:]), linear.learn(X[1:], y[1:]))
    assert np.array_equal(auto.scores(X), linear.scores(X))
    assert auto.n_features == 5
    assert auto.core.levels.basis is None


def test_many_columns_have_no_pairs_and_a_warning():
    X = np.random.default_rng(0).normal(size=(30, 1200))
    learner = new(features=TableBasis(rows=20))
    with pytest.warns(UserWarning, match="1,200 columns"):
        learner.learn(X, X[:, 0])
    assert learner.n_features == 1200


def test_bad_rows_leave_the_model_as_it_was():
    frame, y = table(300)
    learner = new()
    learner.learn(frame, y)
    before = learner.weights
    for value in ("many", np.inf):
        wrong = frame[:5].astype({"a": object}).copy()
        wrong.loc[2, "a"] = value
        with pytest.raises((TypeError, ValueError)):
            learner.learn(wrong, y[:5])
    assert np.array_equal(learner.weights, before)


def test_new_categories_beyond_the_bins_share_one():
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"city": draw.choice(["A", "B"], 300), "x": draw.normal(size=300)})
    learner = new()
    learner.learn(frame, frame["x"])
    later = pd.DataFrame({"city": [f"C{k}" for k in range(300)], "x": draw.normal(size=300)})
    learner.learn(later, later["x"])
    basis = learner.core.levels.basis
    assert basis.codes.max() == basis.points[basis.numeric == 0].max() - 1
    assert np.isfinite(learner.scores(later)).all()


@pytest.mark.parametrize("option", [{"bits": 10}, {"max_features": 50}])
def test_hashed_and_dropped_features_have_no_curves(option):
    with pytest.raises(TypeError, match="excludes curves and pairs"):
        new(**option)


def test_features_must_be_known_and_need_an_ensemble():
    with pytest.raises(ValueError, match="features must be one of linear, additive, pairwise, auto"):
        new(features="cubic")
    with pytest.raises(TypeError, match=r"update must be a fiol.Update, got Squared\(\): did you mean fiol.Stacked"):
        fiol.Learner(fiol.Squared(), features="auto")  # the error named a method of updates that losses lack
    with pytest.raises(TypeError, match="needs an ensemble"):
        fiol.Learner(fiol.FIOL(fiol.Squared()), features="auto")


# --- estimators and River ---------------------------------------------------------------------


def test_estimators_fit_curves_and_pairs(tmp_path):
    frame, y = table(900)
    rich, plain = (fiol.FIOLRegressor(features=f, random_state=0).fit(frame, y) for f in ("auto", "linear"))
    assert rich.score(frame, y) > plain.score(frame, y) + 0.2
    assert len(rich.coef_) == len(rich.coef_names_) > len(plain.coef_)
    rich.save(tmp_path / "model.fiol")
    assert np.array_equal(fiol.load(tmp_path / "model.fiol").predict(frame), rich.predict(frame))
    X = frame[["k"]].assign(z=np.random.default_rng(0).normal(size=900))
    named = fiol.FIOLRegressor(features="additive", random_state=0).fit(X, X["z"] ** 2)
    assert "z" in named.importances(by="column")
    assert any(name.startswith("z~") for name in named.coef_names_)


def test_river_models_learn_curves_and_pairs():
    river = pytest.importorskip("fiol.river")
    frame, y = table(500)
    rows = as_dicts(frame.drop(columns="day").fillna({"a": 0.0, "city": "?"}))
    single, many = river.FIOLRegressor(features="auto"), river.FIOLRegressor(features="auto")
    for row, target in zip(rows, y, strict=True):
        single.learn_one(row, target)
    many.learn_many(pd.DataFrame(rows), pd.Series(y))
    assert single.weights == many.weights
    assert any(" & " in str(name) for name in single.weights)
    assert single.predict_one(rows[0]) == many.predict_many(pd.DataFrame(rows[:1]))[0]


# --- columns that move ------------------------------------------------------------------------


def moving(n=3000):
    """Return a table whose first column rises for ever and whose second one is constant at first."""
    draw = np.random.default_rng(0)
    X = draw.normal(size=(n, 3))
    X[:, 0] += np.arange(n) / 300.0
    X[: n // 3, 1] = 5.0
    return X, np.sin(2.0 * X[:, 0]) + np.abs(X[:, 1] - 1.0) + 0.1 * draw.normal(size=n)


def test_knots_are_added_for_columns_that_move_in_any_chunks():
    X, y = moving()
    whole, chunks = new(), new()
    scores = whole.learn(X, y)
    assert np.array_equal(
        np.concatenate([chunks.learn(X[i : i + 41], y[i : i + 41]) for i in range(0, 3000, 41)]), scores
    )
    assert np.array_equal(chunks.weights, whole.weights)
    knots = [curve.points for curve in sorted(effects_of(whole.core).columns, key=lambda one: one.name)]
    assert knots[0][-1] > X[200:2000, 0].max() - 1.0
    assert len(knots[1]) > 10
    assert np.mean((scores - y)[2500:] ** 2) < 0.8 * np.mean((new(features="linear").learn(X, y) - y)[2500:] ** 2)


@pytest.mark.parametrize("cut", [350, 1000])
def test_models_saved_between_two_looks_continue_to_the_same_bits(tmp_path, cut):
    X, y = moving(1500)
    whole, part = new(), new()
    whole.learn(X, y)
    part.learn(X[:cut], y[:cut])
    part.save(tmp_path / "model.fiol")
    later = fiol.Learner.load(tmp_path / "model.fiol")
    later.learn(X[cut:], y[cut:])
    assert np.array_equal(later.weights, whole.weights)


def test_new_knots_leave_scores_as_they_are():
    X, y = moving(1200)
    X[200:, 0] += 2.0
    learner = new()
    learner.learn(X[:400], y[:400])
    assert learner.rounds == learner.core.levels.basis.check[0]
    before, count = learner.scores(X), learner.n_features
    learner.core.levels.look_again()
    assert learner.n_features > count
    assert np.abs(learner.scores(X) - before).max() < 1e-9


def test_effects_have_the_deviation_of_the_curve_over_all_rows_where_knots_were_added_later(tmp_path):
    draw = np.random.default_rng(0)
    X = np.column_stack([draw.random(3000) * np.maximum(1.0, np.arange(3000) / 400.0), draw.normal(size=3000)])
    learner = new(features="additive")
    learner.learn(X, X[:, 0] ** 2 + X[:, 1] + 0.1 * draw.normal(size=3000))
    learner.save(tmp_path / "model.fiol")
    for model in (learner, fiol.Learner.load(tmp_path / "model.fiol")):
        curve = next(one for one in effects_of(model.core).columns if one.name == "0")
        assert curve.size == pytest.approx(np.interp(X[:, 0], curve.points, curve.values[0]).std(), rel=0.05)
        late = X[2000:]
        expected = np.interp(late[:, 0], curve.points, curve.values[0]).std()
        assert model.importances(X=late, by="column")["0"] == pytest.approx(expected, rel=0.05)


def test_taking_a_level_as_a_member_is_refused():
    X, y = numbers(300)
    learner = new()
    learner.learn(X, y)
    with pytest.raises(TypeError, match="none of them is a model alone"):
        learner.member(1)


def test_truncating_a_model_with_curves_is_refused():
    X, y = numbers(300)
    for rows in (100, 300):  # before and after knots are found
        learner = new()
        learner.learn(X[:rows], y[:rows])
        with pytest.raises(TypeError, match="cannot be truncated"):
            learner.truncated(5)


# --- which pairs ------------------------------------------------------------------------------


def wide(n=400, columns=8):
    """Return a table with more pairs than a small budget allows, and targets with two products."""
    draw = np.random.default_rng(2)
    X = draw.normal(size=(n, columns))
    return X, 2.0 * X[:, 1] * X[:, 6] + 1.5 * X[:, 3] * (X[:, 5] > 0.0) + X[:, 2] + 0.1 * draw.normal(size=n)


FEW_PAIRS = TableBasis(rows=40, max_pairs=10, choice_rows=200)


def test_pairs_are_chosen_by_what_they_add_in_any_chunks(tmp_path):
    X, y = wide()
    whole, chunks, saved = new(features=FEW_PAIRS), new(features=FEW_PAIRS), new(features=FEW_PAIRS)
    scores = whole.learn(X, y)
    basis = whole.core.levels.basis
    pairs = list(zip(basis.left.tolist(), basis.right.tolist(), strict=True))
    assert {(1, 6), (3, 5)} <= set(pairs)
    assert len(pairs) <= 10
    assert not basis.undecided
    assert np.array_equal(
        np.concatenate([chunks.learn(X[i : i + 41], y[i : i + 41]) for i in range(0, 400, 41)]), scores
    )
    saved.learn(X[:150], y[:150])
    assert saved.core.levels.basis.undecided
    saved.save(tmp_path / "model.fiol")
    later = fiol.Learner.load(tmp_path / "model.fiol")
    for x, target in zip(X[150:], y[150:], strict=True):
        later.learn_one(np.arange(8), x, target)
    for learner in (chunks, later):
        assert np.array_equal(learner.weights, whole.weights)


def test_pairs_are_chosen_for_classes_and_in_parallel():
    X, y = wide(440)
    labels = np.where(y > 1.0, "high", np.where(y < -1.0, "low", "middle")).astype(object)
    classes, parallel = new(fiol.Softmax(), features=FEW_PAIRS), new(features=FEW_PAIRS)
    classes.learn(X, labels)
    parallel.learn_parallel(X, y, parts=2)
    for learner in (classes, parallel):
        basis = learner.core.levels.basis
        assert (1, 6) in set(zip(basis.left.tolist(), basis.right.tolist(), strict=True))


def test_gains_of_pairs_match_plain_loops():
    from fiol.features.pair_choice import GROUPS, MORE_ROWS, gains_of_pairs

    draw = np.random.default_rng(3)
    groups, slopes = [draw.integers(0, GROUPS, 50) for _ in range(3)], draw.normal(size=(50, 2))
    found = gains_of_pairs(groups, slopes)
    for a, b in ((0, 1), (0, 2), (1, 2)):
        expected = 0.0
        for g in slopes.T:
            for i in range(GROUPS):
                for j in range(GROUPS):
                    cell = (groups[a] == i) & (groups[b] == j)
                    left = g[cell] - g[groups[a] == i].mean() - g[groups[b] == j].mean() + g.mean()
                    n = cell.sum()
                    expected += (left.sum() ** 2 - n * np.mean(g**2)) / (n + MORE_ROWS)
        assert found[a, b] == pytest.approx(expected, rel=1e-9)


def test_pairs_that_explain_nothing_learn_slowly():
    draw = np.random.default_rng(0)
    X = draw.normal(size=(2000, 8))
    y = X[:, 0] * X[:, 1] + 0.1 * draw.normal(size=2000)
    learner = new(features=TableBasis(rows=100, knots=4, grid=2, choice_rows=500))
    learner.learn(X[:600], y[:600])
    basis = learner.core.levels.basis
    assert basis.undecided
    assert len(basis.left) == 28
    learner.learn(X[600:], y[600:])
    assert not learner.core.levels.basis.undecided
    assert len(learner.core.levels.basis.left) == 28
    units = learner.core.levels.levels[2].scales(learner.n_features)[int(basis.known[0]) + basis.hats :]
    strong = np.repeat((basis.left == 0) & (basis.right == 1), basis.node_counts)
    assert units[strong].max() <= 1.0
    assert np.median(units[~strong]) == 4.0


def test_names_of_hats_are_short_and_tell_all_knots_apart():
    draw = np.random.default_rng(6)
    frame = pd.DataFrame({"a": draw.normal(size=300), "near": 1e6 + draw.random(300) / 1e3})
    model = fiol.Learner(loss=fiol.Squared(), features="auto", compiled=False)
    model.learn(frame, draw.normal(size=300))
    basis, names = model.core.levels.basis, model.names
    assert len({*names}) == len(names)
    for column, digits in (("a", 6), ("near", 12)):
        hats = [name.removeprefix(f"{column}~") for name in names if name.startswith(f"{column}~") and "&" not in name]
        slot = 0 if column == "a" else 1
        knots = basis.knots[basis.first_knots[slot] :][: basis.counts[slot]]
        assert hats == [f"{knot:.{digits}g}" for knot in knots]


def test_names_of_whole_values_have_all_their_digits():
    draw = np.random.default_rng(6)
    frame = pd.DataFrame({"a": draw.normal(size=300), "id": draw.choice([1234567.0, 2345678.0], 300)})
    model = fiol.Learner(loss=fiol.Squared(), features="auto", compiled=False)
    model.learn(frame, draw.normal(size=300))
    points = {point for name in model.names for point in str(name).split(" & ")}
    assert {"id=1234567", "id=2345678"} <= points
