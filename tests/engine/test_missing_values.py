"""Missing values of columns far from 0 count as the mean, in learning and scoring of every kind."""

import itertools
import json
import pickle

import numpy as np
import pandas as pd
import pytest
from interpreted import interpret

import fiol
from fiol.engine.first_rows import WINDOW

SQUARED = fiol.FIOL(fiol.Squared())
UPDATES = {
    "squared": (SQUARED, {}),
    "l1, float32": (fiol.FIOL(fiol.Squared(), fiol.L1(0.001)), {"dtype": "float32"}),
    "averaged": (SQUARED, {"average": True}),
    "sums": (fiol.ImplicitFTRL(fiol.Squared(), step_size=fiol.ScaleFree()), {}),
    "ensemble": (
        fiol.Ensemble([fiol.FIOL(fiol.Squared(), step_size=fiol.ScaleFree(fiol.AdaGrad(s))) for s in (0.3, 3.0)]),
        {},
    ),
    "softmax": (fiol.FIOL(fiol.Softmax(), fiol.Ridge(1e-3)), {}),
    "default": (fiol.Stacked(fiol.Squared()), {}),
}
KINDS = pytest.mark.parametrize("kind", UPDATES)


@pytest.fixture(autouse=True)
def in_the_interpreter(monkeypatch):
    interpret(monkeypatch)


def table(n=120, rate=0.1, far=300.0, first=0, seed=0):
    """Return a column near 0, two that are far from it with missing values from a row on, and targets."""
    draw = np.random.default_rng(seed)
    Z = draw.normal(size=(n, 3))
    frame = pd.DataFrame({"near": Z[:, 0], "far": Z[:, 1] + far, "further": Z[:, 2] - 10.0 * far})
    for name in ("far", "further"):
        frame.loc[(draw.random(n) < rate) & (np.arange(n) >= first), name] = np.nan
    return frame, Z @ [1.0, -0.5, 0.7] + 0.1 * draw.normal(size=n)


def mostly_missing(n=120, **more):
    """Return a table in which one column has a single value among the first rows, so that its absence is centered."""
    frame, y = table(n, **more)
    frame.loc[1 : WINDOW - 1, "far"] = np.nan
    return frame, y


def new(kind, **more):
    update, options = UPDATES[kind]
    return fiol.Learner(update, **{**options, **more})


def targets(kind, y):
    return np.digitize(y, [-0.5, 0.5]) if kind == "softmax" else y


def learned(kind, n=120, **more):
    frame, y = table(n, **more)
    learner = new(kind)
    learner.learn(frame, targets(kind, y))
    return learner


def as_dicts(frame):
    return frame.astype(object).where(frame.notna(), None).to_dict("records")


def features_of(frame, names):
    """Return a matrix of the features with these names, 0 where a value is missing."""
    columns = [frame[c.removesuffix(" is missing")] for c in names]
    return np.column_stack(
        [
            column.isna() if c.endswith(" is missing") else column.fillna(0.0)
            for c, column in zip(names, columns, strict=True)
        ]
    ).astype(float)


def filled(frame):
    """Return the rows with the mean of the values before for every missing one, and columns that say where they are."""
    X = frame.to_numpy(copy=True)
    gone = np.isnan(X)
    for j in range(X.shape[1]):
        total = 0.0
        for t in range(len(X)):
            X[t, j] = total / max(t, 1) if gone[t, j] else X[t, j]
            total += X[t, j]
    return np.hstack([X, gone[:, 1:]])


@KINDS
def test_a_missing_value_is_learned_as_the_mean(kind):
    frame, y = table(first=WINDOW)
    y, there, plain = targets(kind, y), new(kind, table_encoding={}), new(kind)
    found = there.learn(frame, y)
    expected = plain.learn(filled(frame), y)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-7 if kind != "l1, float32" else 2e-3)


@pytest.mark.parametrize("kind", [kind for kind in UPDATES if kind != "sums"])
def test_scores_stay_where_columns_are_centered_whose_missing_values_are_centered_too(kind):
    learner, (frame, y) = new(kind), mostly_missing()
    frame.loc[3, "further"] = np.nan
    learner.learn(frame[: WINDOW - 1], targets(kind, y[: WINDOW - 1]))
    engine, more = learner.core.engine, table(40, 0.5, seed=1)[0]
    before, chosen = learner.scores(more), engine.centering.decided(3).with_indicators(engine.indicators)
    assert [learner.names[i] for i in chosen.features] == ["far", "further", "far is missing"]
    chosen = chosen._replace(so_far=np.array([float(WINDOW)]))
    engine.set_storage(engine.centered_storage(chosen)._replace(centering=chosen))
    np.testing.assert_allclose(learner.scores(more), before, rtol=0, atol=1e-7 if kind != "l1, float32" else 2e-3)


def test_missing_values_among_the_first_do_not_keep_a_column_from_being_centered():
    frame, y = table(WINDOW, 0.0)
    frame.loc[[1, 5, 6], "far"] = np.nan
    means, learner = filled(frame).mean(axis=0), new("squared")
    learner.learn(frame, y)
    centering = learner.core.engine.centering
    assert [learner.names[i] for i in centering.features] == ["far", "further"]
    np.testing.assert_allclose(centering.means, means[1:3], rtol=1e-9)


@KINDS
@pytest.mark.parametrize("first", [1, 40, 1000])
def test_scores_are_those_of_learning_and_of_the_weights(kind, first):
    learner, (more, y) = learned(kind, first=first), table(20, 0.5, seed=1)
    for k, (row, target) in enumerate(zip(as_dicts(more), targets(kind, y).tolist(), strict=True)):
        one = more.iloc[k : k + 1]
        before = learner.scores(one)[0]
        np.testing.assert_allclose(learner.score_named(row), before, rtol=0, atol=1e-9)
        score = learner.learn(one, [target])[0] if k % 2 else learner.learn_named(row, target)
        if kind != "averaged":  # whose scores are those of averages
            np.testing.assert_allclose(score, before, rtol=0, atol=1e-7)
        if first <= 40:
            linear = features_of(one, learner.names) @ learner.weights.T + learner.intercept
            np.testing.assert_allclose(learner.scores(one)[0], np.squeeze(linear), rtol=0, atol=1e-8)
    assert np.abs(learner.scores(more)).max() < 30.0


@KINDS
def test_any_chunks_and_single_rows_learn_the_same(kind):
    frame, y = table()
    y = targets(kind, y)
    options = {"table_encoding": dict.fromkeys(frame, "number")}
    whole, parts, single = (new(kind, **options) for _ in range(3))
    expected = whole.learn(frame, y)
    cuts = [0, 3, WINDOW - 1, WINDOW + 2, 50, len(y)]
    found = [parts.learn(frame[a:b], y[a:b]) for a, b in itertools.pairwise(cuts)]
    one_by_one = [single.learn_named(row, target) for row, target in zip(as_dicts(frame), y.tolist(), strict=True)]
    more = table(20, 0.5, seed=1)[0]
    if kind != "softmax":  # its classes appear at other rows
        np.testing.assert_array_equal(np.concatenate(found), expected)
        np.testing.assert_allclose(one_by_one, expected, rtol=0, atol=1e-9)
    for learner in (parts, single):
        np.testing.assert_allclose(learner.scores(more), whole.scores(more), rtol=0, atol=1e-9)


@KINDS
@pytest.mark.parametrize("first", [1, 1000])
def test_copies_files_and_snapshots_have_the_same_scores_and_learn_the_same(kind, first, tmp_path):
    learner, (more, y) = learned(kind, first=first), table(20, 0.5, seed=1)
    learner.save(tmp_path / "model.fiol")
    expected, y = learner.scores(more), targets(kind, y)
    row = as_dicts(more)[0]
    others = [
        learner.copy(),
        fiol.Learner.load(tmp_path / "model.fiol", compiled=False),
        pickle.loads(pickle.dumps(learner)),
    ]
    for other in [learner.snapshot(), *others]:
        np.testing.assert_allclose(other.score_named(row), learner.score_named(row), rtol=0, atol=1e-12)
        np.testing.assert_allclose(other.scores(more), expected, rtol=0, atol=1e-12)
    after = learner.learn(more, y)
    for other in others:
        np.testing.assert_allclose(other.learn(more, y), after, rtol=0, atol=1e-9)


@pytest.mark.parametrize("first", [1, 1000])
@pytest.mark.parametrize("features", ["linear", "auto"])
def test_exports_have_the_same_scores(features, first):
    frame, y = table(400, first=first)
    learner = fiol.Learner(loss=fiol.Squared(), features=features, table_encoding={})
    learner.learn(frame, y)
    more, module = table(20, 0.5, seed=1)[0], {}
    rows, expected = as_dicts(more), learner.scores(more)
    exec(learner.to_python(), module)
    found = [module["score"](row) for row in rows]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)
    weights = dict(json.loads(learner.to_json())["weights"])
    assert {"far is missing", "further is missing"} <= set(weights)
    if features == "linear":
        again = fiol.exports.json_model.model_from_json(json.loads(learner.to_json(state=False)), compiled=False)
        np.testing.assert_allclose(again.scores(more), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("features", ["linear", "auto"])
def test_the_scores_of_curves_are_those_of_learning(features):
    frame, y = table(400, 0.05)
    learner = fiol.Learner(loss=fiol.Squared(), features=features)
    learner.learn(frame[:300], y[:300])
    for k in range(300, 310):
        one, row = frame[k : k + 1], as_dicts(frame[k : k + 1])[0]
        row["far"] = one["far"] = None
        before = learner.scores(one)
        np.testing.assert_allclose(learner.score_named(row), before[0], rtol=0, atol=1e-9)
        within = 0.1 if features == "auto" else 1e-9  # hats larger than before shrink their weights first
        np.testing.assert_allclose(learner.learn(one, y[k : k + 1]), before, rtol=0, atol=within)
        assert abs(before[0]) < 10.0


def test_few_missing_values_do_little_harm():
    losses = []
    for rate in (0.0, 0.01):
        frame, y = table(3000, rate, far=100.0)
        learner = fiol.Learner(loss="squared_error", table_encoding={})
        error, there = learner.learn(frame, y) - y, frame.notna().all(axis=1).to_numpy()
        losses.append(np.mean(error[1000:][there[1000:]] ** 2))
    assert losses[1] < 1.1 * losses[0]


@pytest.mark.parametrize("kind", ["squared", "ensemble", "default"])
def test_merged_learners_score_missing_values_as_their_weights_do(kind):
    parts, more = [learned(kind, first=1, seed=seed) for seed in (0, 1)], table(20, 0.5, seed=2)[0]
    merged = fiol.Learner.merge(parts)
    linear = features_of(more, merged.names) @ merged.weights + merged.intercept
    np.testing.assert_allclose(merged.scores(more), linear, rtol=0, atol=1e-8)
    means = np.mean([part.scores(more) for part in parts], axis=0)
    assert np.abs(merged.scores(more) - means).max() < 1.0


@pytest.mark.parametrize("rates", [(0.1, 0.1), (0.0, 0.1), (0.1, 0.0), (0.0, 0.0)])
@pytest.mark.parametrize("fars", [(300.0, 300.0), (300.0, 0.0), (0.0, 300.0)])
def test_merged_scores_are_means_whichever_columns_were_centered_or_missing(fars, rates):
    encoding = fiol.TableEncoding.from_spec({"near": "number", "far": "number", "further": "number"})
    parts, more = [fiol.Learner(SQUARED, table_encoding=encoding) for _ in fars], table(40, 0.5)[0]
    for seed, (part, far, rate) in enumerate(zip(parts, fars, rates, strict=True)):
        frame, y = table(120, rate, 300.0, 1, seed)
        part.learn(frame.assign(far=frame["far"] - 300.0 + far), y)
    merged, means = fiol.Learner.merge(parts), np.mean([part.scores(more) for part in parts], axis=0)
    linear = features_of(more, merged.names) @ merged.weights + merged.intercept
    gone = ~np.isin([f"{name} is missing" for name in ("far", "further")], merged.names)
    known = more[["far", "further"]].notna().to_numpy()[:, gone].all(axis=1)
    np.testing.assert_allclose(merged.scores(more)[known], linear[known], rtol=0, atol=1e-8)
    np.testing.assert_allclose(merged.scores(more)[known], means[known], rtol=0, atol=1e-9)
    np.testing.assert_allclose(merged.scores(more), means, rtol=0, atol=0.05)  # the mean of a column never missing


@pytest.mark.parametrize("kind", ["squared", "averaged"])
def test_merged_scores_are_means_where_missing_values_are_centered(kind):
    parts, more = [new(kind) for _ in range(2)], table(40, 0.5, seed=2)[0]
    for seed, part in enumerate(parts):
        frame, y = mostly_missing(rate=0.3, seed=seed, first=1)
        part.learn(frame, targets(kind, y))
        assert part.names.index("far is missing") in part.core.engine.centering.features
    merged, means = fiol.Learner.merge(parts), np.mean([part.scores(more) for part in parts], axis=0)
    np.testing.assert_allclose(merged.scores(more), means, rtol=0, atol=1e-9)


def test_one_vs_rest_and_estimators():
    frame, y = table(200, first=1000)
    labels, more = np.array(["low", "middle", "high"])[np.digitize(y, [-0.5, 0.5])], table(20, 0.5, seed=1)[0]
    model = fiol.OneVsRest(fiol.FIOL(fiol.Logistic()))
    model.learn(frame, labels)
    expected = model.scores(more)
    for other in (model, model.copy(), pickle.loads(pickle.dumps(model))):
        np.testing.assert_allclose([other.score_named(row) for row in as_dicts(more)], expected, rtol=0, atol=1e-9)
    np.testing.assert_allclose(model.learn(more[:1], labels[:1]), expected[:1], rtol=0, atol=1e-9)
    assert np.abs(expected).max() < 30.0


def test_a_blank_date_gives_a_sensible_probability():
    draw = np.random.default_rng(0)
    n = 400
    x, day = draw.normal(size=n), pd.Timestamp("2025-01-06") + pd.to_timedelta(draw.integers(0, 90, n), "D")
    frame = pd.DataFrame({"when": day, "x": x, "y": np.where(draw.random(n) < 1 / (1 + np.exp(-2 * x)), "yes", "no")})
    model = fiol.train(frame, target="y")
    dated = frame.drop(columns="y")[:50]
    blank = model.predict_proba(dated.assign(when=pd.NaT))[:, 1]
    assert np.abs(blank - model.predict_proba(dated)[:, 1]).mean() < 0.15
    assert ((blank > 0.0001) & (blank < 0.9999)).all()


def test_an_absent_value_of_a_dict_and_a_zero_of_a_table_are_still_zero():
    frame, y = table(rate=0.0)
    learner = new("squared", table_encoding=dict.fromkeys(frame, "number"))
    learner.learn(frame, y)
    zero = frame[:1].assign(far=0.0)
    linear = float(zero.to_numpy()[0] @ learner.weights + learner.intercept)
    np.testing.assert_allclose(learner.scores(zero), [linear], rtol=1e-9)
    plain = fiol.Learner(SQUARED)
    plain.learn(as_dicts(frame), y)
    np.testing.assert_allclose(plain.score_named(zero.drop(columns="far").to_dict("records")[0]), linear, rtol=1e-9)


@pytest.mark.parametrize("step_size", [fiol.ScaleFree(fiol.AdaGrad(), raw_penalty=1), fiol.ScaleFree(raw_penalty=1)])
def test_a_comparator_has_weights_of_rows_as_they_come(step_size):
    frame, y = table(60, first=1)
    frame.loc[3, ["far", "further"]] = np.nan
    learner = fiol.Learner(fiol.FIOL(fiol.Squared(), step_size=step_size), table_encoding={})
    learner.learn(frame[:20], y[:20])
    w, intercept = learner.weights, learner.intercept
    scores = features_of(frame[20:], learner.names) @ w + intercept
    best = fiol.regret.comparator.Comparator(w, intercept, 0.0, 0.0, "", "", 60)
    with fiol.regret.Ledger(learner, comparator=best, every=1) as ledger:
        learner.learn(frame[20:], y[20:])
    expected = np.cumsum([fiol.Squared().value(z, target) for z, target in zip(scores, y[20:], strict=True)])
    np.testing.assert_allclose(ledger.records.comparator, expected, rtol=1e-6)


@pytest.mark.parametrize("features", ["linear", "auto"])
def test_importances_of_columns_with_missing_values(features):
    frame, y = table(1000)
    learner = fiol.Learner(loss=fiol.Squared(), features=features)
    learner.learn(frame, y)
    for X in (None, frame):
        found, columns = learner.importances(X=X), learner.importances(X=X, by="column")
        for name, size in (("near", 1.0), ("far", 0.5 * 0.9**0.5), ("further", 0.7 * 0.9**0.5)):  # a tenth is missing
            assert abs(abs(found[name]) / size - 1.0) < 0.2
            assert abs(columns[name] / size - 1.0) < 0.2
        assert abs(found["far is missing"]) < 0.1


@KINDS
def test_first_missing_value_after_the_window_has_same_bits_by_any_chunks(kind):
    """The indicator gets its number early in one chunk, late in others, and another feature has its place before."""
    n = WINDOW + 8
    frame, y = table(n, rate=0.0)
    frame["user"] = [f"u{k // 2}" for k in range(n)]
    frame.loc[n - 2, "far"] = np.nan
    y, encoding = targets(kind, y), fiol.TableEncoding.infer(frame)
    whole = new(kind, table_encoding=encoding)
    if kind == "softmax":
        whole.add_classes([0, 1, 2])
    start = whole.copy()
    whole.learn(frame, y)
    for cut in range(3, n, 4):
        learner = start.copy()
        learner.learn(frame[:cut], y[:cut])
        learner.learn(frame[cut:], y[cut:])
        assert learner.names == whole.names
        assert np.array_equal(learner.weights, whole.weights), cut
