"""Columns far from 0 are centered, with the same bits in all integrations and weights in original units."""

import pickle

import numpy as np
import pytest
from interpreted import interpret
from numba import config
from oracles.outliers import learned
from scipy.sparse import csr_matrix

import fiol
from fiol.engine.centering import NO_ROWS, centering_from
from fiol.engine.first_rows import WINDOW
from fiol.persistence import component_json

OFFSETS = np.array([300.0, 0.0, -40.0, 1000.0])
SQUARED = fiol.FIOL(fiol.Squared())
UPDATES = {
    "squared": (SQUARED, {}),
    "l1, float32": (fiol.FIOL(fiol.Squared(), fiol.L1(0.01)), {"dtype": "float32"}),
    "elastic net, averaged": (fiol.FIOL(fiol.Logistic(), fiol.ElasticNet(1e-3, 1e-3)), {"average": True}),
    "absolute": (fiol.FIOL(fiol.Absolute(), step_size=fiol.ScaleFree(fiol.Curvature())), {}),
    "sums": (fiol.ImplicitFTRL(fiol.Squared(), fiol.L1(0.01), fiol.ScaleFree()), {}),
    "softmax": (fiol.FIOL(fiol.Softmax(), fiol.Ridge(1e-3)), {}),
    "ensemble": (
        fiol.Ensemble([fiol.FIOL(fiol.Squared(), step_size=fiol.ScaleFree(fiol.AdaGrad(s))) for s in (0.3, 3.0)]),
        {},
    ),
    "metric": (fiol.FIOL(fiol.Logistic(), geometry=fiol.DiagonalMetric([1.0, 2.0, 0.5, 3.0, 1.0])), {"n_features": 5}),
}


def rows(n=90, seed=0):
    """Four columns, three of them far from 0 and one of these with some zeros later on, and a sparse one."""
    rng = np.random.default_rng(seed)
    X = np.hstack([rng.standard_normal((n, 4)) + OFFSETS, 5.0 * (rng.random((n, 1)) < 0.15)])
    X[:, 1] = np.abs(X[:, 1]) * (-1.0) ** np.arange(n)  # the mean of a few is near 0
    X[(rng.random(n) < 0.1) & (np.arange(n) % 60 > 32), 2] = 0.0
    y = (X[:, :4] - OFFSETS) @ [1.0, -0.5, 0.02, 0.7] + 0.1 * X[:, 4] + 3.0 + 0.1 * rng.standard_normal(n)
    return X, y


def targets(update, y):
    if isinstance(update.loss, fiol.Softmax):
        return np.digitize(y, [2.0, 4.0])
    return np.where(y > 3.0, 1.0, -1.0) if isinstance(update.loss, fiol.Logistic) else y


def made(name, **more):
    update, options = UPDATES[name]
    return fiol.Learner(update, compiled=False, **{**options, **more})


def linear_model(learner):
    return learner.weights, np.array(learner.intercept)


def assert_same(found, expected):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def as_dicts(X):
    return [{f"c{i}": v for i, v in enumerate(row) if v != 0.0} for row in X.tolist()]


# --- what is learned --------------------------------------------------------------------------


@pytest.mark.parametrize("constant", [300.0, 300.1, 0.1, 3.3])
@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("name", ["squared", "l1, float32", "sums", "ensemble"])
def test_a_column_that_was_constant_at_first_has_its_unit_from_later_values(name, again, constant):
    rng, learner = np.random.default_rng(0), made(name)
    x, offset = rng.standard_normal((2, 130))
    offset[: WINDOW + 14 * again] = 0.0  # a mean of 0.1s is a little off 0.1
    X, y = np.column_stack([x, constant + offset]), x - 0.5 * offset
    learner.learn(X, y)
    centering = learner.core.engine.centering
    assert centering.features.tolist() == [1]
    np.testing.assert_allclose(centering.means, X[:, 1].mean(), rtol=0, atol=1e-6)
    assert np.abs(learner.predict(X) - y)[-50:].max() < 2.0


def play(X, y, eta, far=2.0):
    """Implicit rounds of squared loss, scale-free with constant steps, from the definitions."""
    (n, d), taken = X.shape, X.copy()
    w, b, peak, scores, centered, mean = np.zeros(d), 0.0, np.zeros(d), [], np.zeros(d, bool), np.zeros(d)
    for t in range(n):
        if t == 16:
            first = X[:16]
            distance = np.abs(first - first.mean(axis=0)).max(axis=0)
            centered = (np.mean(first != 0.0, axis=0) >= 0.9) & (np.abs(first.mean(axis=0)) > 2.0 * distance)
            steps, scatter = (np.diff(first, axis=0) ** 2).sum(axis=0), ((first - first.mean(axis=0)) ** 2).sum(axis=0)
            shuffled = (np.mean(first != 0.0, axis=0) >= 0.5) & ((steps > scatter) | (far < 2.0))
            if (centered | shuffled).sum() >= 0.75 * np.count_nonzero(first[-1]):
                centered |= shuffled & (np.abs(first.mean(axis=0)) > 0.25 * distance)
            b += np.sum((w * first.mean(axis=0))[centered])
            peak[centered] = distance[centered]
        if t >= 16:
            mean = np.where(centered, taken[:t].mean(axis=0), 0.0)
        x = X[t] - mean
        x = learned(x, peak)
        taken[t] = np.where(centered, mean + x, X[t])
        grown = (np.abs(x) > peak) & (peak > 0.0)
        w[grown] *= peak[grown] / np.abs(x[grown])
        peak = np.maximum(peak, np.abs(x))
        z = w @ x + b
        scores.append(z)
        steps = np.where(peak > 0.0, eta / np.where(peak > 0.0, peak, 1.0) ** 2, 0.0)
        beta = (y[t] - z) / (1.0 + eta + np.sum(steps * x * x))
        w, b = w + steps * beta * x, b + eta * beta
    mean = np.where(centered, taken.mean(axis=0), 0.0)
    return np.array(scores), w, b - np.sum(w * mean)


@pytest.mark.parametrize(
    ("far", "shift", "centered"), [(2.0, 0.0, [0, 2, 3]), (0.5, 0.0, [0, 2, 3]), (0.5, 2.0, [0, 1, 2, 3])], ids=str
)
def test_centering_matches_a_slow_loop(far, shift, centered):
    """Also where rows are known to come in random order: then a mean of half the largest distance is enough."""
    X, y = rows()
    X[:, 1] += shift  # of a standard deviation of 1
    learner = fiol.Learner(fiol.FIOL(fiol.Squared(), step_size=fiol.ScaleFree(fiol.Constant(0.4))), compiled=False)
    if far < 1.0:
        learner.engine.expect_random_order()
    scores, w, b = play(X, y, 0.4, far)
    np.testing.assert_allclose(learner.learn(X, y), scores, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(learner.weights, w, rtol=1e-8, atol=1e-11)
    np.testing.assert_allclose(learner.intercept, b, rtol=1e-8)
    np.testing.assert_array_equal(learner.engine.centering.features, centered)


def fit_of(scores, y):
    half = len(y) // 2
    return 1.0 - np.mean((scores[half:] - y[half:]) ** 2) / np.var(y[half:])


@pytest.mark.parametrize("offset", [0.0, 10.0, 100.0, 1000.0])
def test_column_offsets_do_not_hurt_accuracy(offset):
    """R^2 of the second half was .998, .60, -.01, -.02."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1200, 3))
    y = X @ [1.0, -2.0, 0.5] + 0.1 * rng.standard_normal(1200)
    assert fit_of(fiol.Learner(SQUARED, compiled=False).learn(X + offset, y), y) > 0.995


def test_sensor_columns_are_learned_as_if_standardized():
    rng = np.random.default_rng(1)
    Z = rng.standard_normal((1200, 4))
    y = Z @ [1.0, -0.5, 0.7, 0.3] + 0.1 * rng.standard_normal(1200)
    raw = Z * [10.0, 500.0, 3.0, 200.0] + [290.0, 101325.0, 230.0, 1500.0]  # kelvin, pascal, volt, rounds per minute
    one, other = (fit_of(fiol.Learner(SQUARED, compiled=False).learn(X, y), y) for X in (raw, Z))
    assert other > 0.99
    assert abs(one - other) < 0.01


def test_models_and_columns_that_are_not_centered():
    X, y = rows()
    off = fiol.ScaleFree(centered=0)
    for learner in (
        fiol.Learner(SQUARED, intercept=False, compiled=False),
        fiol.Learner(fiol.FIOL(fiol.Squared(), step_size=off), compiled=False),
        fiol.Learner(fiol.FIOL(fiol.Squared(), step_size=fiol.AdaGrad()), compiled=False),
        fiol.Learner(fiol.FIOL(fiol.Squared(), geometry=fiol.SignedEntropy()), n_features=5, compiled=False),
    ):
        learner.learn(X, y)
        assert learner.engine.centering is None
    sparse = fiol.Learner(SQUARED, compiled=False)
    plain = fiol.Learner(fiol.FIOL(fiol.Squared(), step_size=off), compiled=False)
    X = X * (np.random.default_rng(0).random(X.shape) < 0.3)
    sparse.engine.settle_origin()  # of targets, at 0
    np.testing.assert_array_equal(sparse.learn(X, y), plain.learn(X, y))
    assert sparse.engine.centering.idle


# --- the same by every door -------------------------------------------------------------------


@pytest.mark.parametrize("name", UPDATES)
def test_centered_learner_has_the_same_bits_for_any_chunking(name, tmp_path):
    X, y = rows()
    y = targets(UPDATES[name][0], y)
    whole, parts = made(name), made(name)
    scores = whole.learn(X, y)
    cuts = [0, 1, 20, 33, 34, 60, len(y)]
    found = []
    for k, some in enumerate(map(slice, cuts[:-1], cuts[1:])):
        block = csr_matrix(X[some]) if k % 2 else X[some]
        before = parts.scores(block)
        found.append(parts.learn(block, y[some]))
        if before.shape == found[-1].shape and k == 3 and not parts.averages:
            np.testing.assert_allclose(found[-1][0], before[0], rtol=1e-6 if parts.dtype == np.float32 else 1e-12)
        if k == 1:
            parts.save(tmp_path / "model")
            parts = fiol.Learner.load(tmp_path / "model", compiled=False)
        elif k == 3:
            parts = pickle.loads(pickle.dumps(parts.copy()))
        elif k == 4:
            parts.save(tmp_path / "model")
            parts = fiol.load(tmp_path / "model", compiled=False)
    if found[0].ndim == 1:
        np.testing.assert_array_equal(np.concatenate(found), scores)
    assert_same(linear_model(parts), linear_model(whole))
    assert whole.engine.centering.features.tolist() == [0, 2, 3]
    w, b = linear_model(whole)
    z = X @ (w if w.ndim == 1 else w.T) + b
    np.testing.assert_allclose(whole.scores(X), z, rtol=1e-9, atol=1e-8 if whole.dtype == np.float64 else 1e-3)
    snapshot = whole.snapshot()
    np.testing.assert_array_equal(snapshot.scores(X), whole.scores(X))


def test_centered_named_hashed_and_single_rows_agree():
    X, y = rows()
    numbered, named, single = (fiol.Learner(SQUARED, compiled=False) for _ in range(3))
    scores = numbered.learn(X, y)
    np.testing.assert_array_equal(named.learn(as_dicts(X), y), scores)
    alone = [single.learn_named(row, target) for row, target in zip(as_dicts(X), y, strict=True)]
    np.testing.assert_array_equal(alone, scores)
    hashed = [fiol.Learner(SQUARED, bits=10, compiled=False) for _ in range(2)]
    np.testing.assert_array_equal(
        hashed[0].learn(as_dicts(X), y), [hashed[1].learn_named(row, t) for row, t in zip(as_dicts(X), y, strict=True)]
    )
    assert len(hashed[0].engine.centering.features) == 3
    row = as_dicts(X)[-1]
    np.testing.assert_allclose(named.score_named(row), X[-1] @ numbered.weights + numbered.intercept, rtol=1e-9)


def test_compiled_centered_rows_and_events_agree():
    X, y = rows()
    for update in (SQUARED, fiol.Stacked(fiol.Squared())):  # which others compile as well
        plain, chunked, events = (fiol.Learner(update, compiled=c) for c in (False, True, True))
        scores = chunked.learn(X, y)
        np.testing.assert_allclose(scores, plain.learn(X, y), rtol=1e-8, atol=1e-8)
        index = np.arange(5, dtype=np.int32)
        alone = [events.learn_one(index[row != 0.0], row[row != 0.0], t) for row, t in zip(X, y, strict=True)]
        np.testing.assert_array_equal(alone, scores)
        assert_same(events.engine.centering, chunked.engine.centering)
        assert_same(linear_model(events), linear_model(chunked))
        assert events.score_one(index, X[0] + 0.5) == chunked.scores(X[:1] + 0.5)[0]


@pytest.mark.parametrize("update", [SQUARED, fiol.Stacked(fiol.Squared())], ids=["one", "ensemble"])
@pytest.mark.parametrize("pool", [6, 40], ids=["dense", "sparse"])
def test_events_watch_the_first_rows_as_chunks_do(update, pool):
    """After every one of the first rows, also where features are new or can no longer be centered."""
    rng = np.random.default_rng(1)
    stream = [{f"f{i}": 50.0 + rng.standard_normal() for i in rng.choice(pool, 6, False)} for _ in range(WINDOW + 3)]
    stream[7] = stream[7] if pool == 6 else {}
    events, chunked = (fiol.Learner(update) for _ in range(2))
    for k, row in enumerate(stream):
        assert events.learn_named(row, float(k % 3)) == chunked.learn([row], [float(k % 3)])[0]
        found, expected = (learner.engine.centering_arrays() for learner in (events, chunked))
        assert found.keys() == expected.keys()
        assert_same(found.values(), expected.values())
    assert NO_ROWS.rows == 0.0
    assert len(events.engine.centering.features) == (6 if pool == 6 else 0)


@pytest.mark.skipif(bool(config.DISABLE_JIT), reason="the interpreter has no fast path")
def test_first_events_go_through_the_fast_path(monkeypatch):
    """All but the first, which makes vocabulary and fast path, and the last, which decides about centering."""
    X, y = rows(n=WINDOW)
    learner, general = fiol.Learner(SQUARED), []
    monkeypatch.setattr(learner.core, "learn_dict", lambda *row: general.append(learner.rounds) or learn_dict(*row))
    learn_dict = type(learner.core).learn_dict.__get__(learner.core)
    for row, target in zip(as_dicts(np.abs(X) + 1.0), y, strict=True):
        learner.learn_named(row, float(target))
    assert general == [0, WINDOW - 1]


def test_copies_of_a_learner_have_their_own_first_rows():
    X, y = rows(n=12)
    learner = fiol.Learner(SQUARED)
    for row, target in zip(as_dicts(X), y, strict=True):
        learner.learn_named(row, float(target))
    before = {name: array.copy() for name, array in learner.engine.centering_arrays().items()}
    for other in (learner.copy(), pickle.loads(pickle.dumps(learner))):
        other.learn_named(as_dicts(X)[0], 1.0)
        assert other.engine.centering.rows == 13.0
        assert_same(learner.engine.centering_arrays().values(), before.values())


def test_centered_rows_in_any_order():
    X, y = rows()
    order = np.random.default_rng(0).permutation(len(y))[:70]
    given, taken = fiol.Learner(SQUARED, compiled=False), fiol.Learner(SQUARED, compiled=False)
    scores = given.learn_chunk(fiol.to_chunk(X), y, order=order)
    np.testing.assert_array_equal(scores[order], taken.learn(X[order], y[order]))
    assert_same(linear_model(given), linear_model(taken))


def test_centered_learner_with_bounded_memory():
    X, y = rows()
    learner = fiol.Learner(fiol.FIOL(fiol.Squared(), fiol.L1(0.3)), max_features=5, compiled=False)
    learner.learn(X, y)
    names = learner.names
    before = learner.scores(X)
    learner.prune()
    np.testing.assert_allclose(learner.scores(X), before, rtol=1e-9, atol=1e-9)
    centered = {names[i] for i in (0, 2, 3)} & set(learner.names)
    assert {learner.names[i] for i in learner.engine.centering.features} == centered
    learner.learn(np.hstack([X, X[:, :1] + 1.0])[:, [0, 1, 2, 3, 5]], y)


def test_centered_estimators_and_river_match_learner(monkeypatch):
    from sklearn.metrics import r2_score

    from fiol.river import FIOLRegressor

    interpret(monkeypatch)
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((400, 3))
    y = Z @ [1.0, -2.0, 0.5] + 0.1 * rng.standard_normal(400)
    model = fiol.FIOLRegressor(random_state=0, max_iter=5, tol=None).fit(Z + 1000.0, y)
    assert r2_score(y, model.predict(Z + 1000.0)) > 0.99
    np.testing.assert_allclose(model.predict(Z + 1000.0), (Z + 1000.0) @ model.coef_ + model.intercept_, atol=1e-8)
    stream = FIOLRegressor()
    for row, target in zip(as_dicts(Z + 1000.0), y.tolist(), strict=True):
        stream.learn_one(row, target)
    learner = fiol.Learner(loss=fiol.Squared(), compiled=False)
    learner.learn(Z + 1000.0, y)
    assert stream.predict_one(as_dicts(Z[:1] + 1000.0)[0]) == learner.scores(Z[:1] + 1000.0)[0]


@pytest.mark.parametrize("update", [SQUARED, fiol.Stacked(fiol.Squared())], ids=["one", "ensemble"])
def test_engine_copies_own_their_means(update):
    rng = np.random.default_rng(0)
    learner = fiol.Learner(update, compiled=False)
    learner.learn(rng.standard_normal((40, 3)) + 50.0, np.zeros(40))
    new = learner.engine.copy()
    assert new.centering.features.tolist() == [0, 1, 2]
    assert not any(np.shares_memory(a, b) for a, b in zip(new.centering, learner.engine.centering, strict=True))


# --- rows in random order ---------------------------------------------------------------------


def hours(n=60, seed=0):
    """Two columns that are no farther from 0 than they are wide, in waves, and one of mean 0; what comes of them."""
    rng, t = np.random.default_rng(seed), np.arange(n)[:, None]
    X = np.hstack(
        [12.5 + 11.5 * np.sin(t * np.pi / 8.0), 0.8 + 0.5 * np.cos(t * np.pi / 8.0), rng.standard_normal((n, 1))]
    )
    X[:, 2] = np.abs(X[:, 2]) * (-1.0) ** np.arange(n)
    return X, X @ [0.2, 1.0, -0.5] + 7.0


@pytest.mark.parametrize("kind", ["classes", "numbers", "single", "one against the rest"])
def test_fit_centers_more_columns_when_it_shuffles(kind, monkeypatch):
    """Means are stationary for rows in random order and may drift in a stream."""
    interpret(monkeypatch)
    X, y = hours()
    options = {"max_iter": 1, "random_state": 0}
    if kind == "single":
        options["step_size"] = "single"
    if kind in ("classes", "one against the rest"):
        y = np.digitize(y, [10.0] if kind == "classes" else [9.0, 11.0])
        make = fiol.FIOLClassifier
        options |= {} if kind == "classes" else {"loss": "hinge"}
    else:
        make = fiol.FIOLRegressor

    def centered(model):
        return {tuple(learner.engine.centering.features) for learner in model.learners_}

    assert all({0, 1} <= {*found} for found in centered(make(**options).fit(X, y)))
    assert centered(make(**options, shuffle=False).fit(X, y)) == {()}
    assert centered(make(**options).partial_fit(X, y)) == {()}
    model = make(**options, warm_start=True).partial_fit(
        X[:10], y[:10], **({} if y.dtype == float else {"classes": np.unique(y)})
    )
    assert centered(model.fit(X, y)) == {()}  # the first rows were a stream


@pytest.mark.parametrize("update", [SQUARED, fiol.Stacked(fiol.Squared())], ids=["one", "ensemble"])
def test_model_remembers_random_row_order_until_centering_is_decided(update, tmp_path):
    """Until centering is decided, with the same bits in all integrations."""
    X, y = hours()
    new = fiol.Learner(update, compiled=False)
    new.engine.expect_random_order()
    whole = new.copy()
    whole.learn(X, y)
    assert whole.engine.centering.features.tolist() == [0, 1]
    in_parts = new.copy()
    for a, b in ((0, 10), (10, 31), (31, 33), (33, 90)):
        in_parts.learn(X[a:b], y[a:b])
    by_rows = new.copy()
    by_rows.learn(csr_matrix(X[:20]), y[:20])
    by_rows.save(tmp_path / "model")
    for model in (pickle.loads(pickle.dumps(by_rows)), fiol.load(tmp_path / "model", compiled=False), by_rows.copy()):
        model.learn(csr_matrix(X[20:]), y[20:])
        assert_same(linear_model(model), linear_model(whole))
    assert_same(linear_model(in_parts), linear_model(whole))
    mark = new.core.mark()
    new.learn(X[:5], y[:5])
    new.core.rewind(mark)
    new.learn(X, y)
    assert_same(linear_model(new), linear_model(whole))


@pytest.mark.parametrize("streams", [0, 1, 2])
def test_merge_with_a_stream_centers_as_a_stream(streams):
    X, y = hours()
    parts = [fiol.Learner(SQUARED, compiled=False) for _ in range(2)]
    for k, part in enumerate(parts):
        if k >= streams:
            part.engine.expect_random_order()
        part.learn(X[10 * k : 10 * k + 10], y[10 * k : 10 * k + 10])
    whole = fiol.Learner.merge(parts)
    assert whole.engine.centering.far.tolist() == [2.0 if streams else 0.25]
    whole.learn(X[20:], y[20:])
    assert whole.engine.centering.features.tolist() == ([] if streams else [0, 1])


def test_earlier_rows_count_as_a_stream():
    X, y = hours()
    learner = fiol.Learner(SQUARED, compiled=False)
    learner.learn(X[:1], y[:1])
    learner.engine.expect_random_order()
    learner.learn(X[1:], y[1:])
    assert not learner.engine.centering.features.size


def test_uncentered_model_stays_uncentered_in_random_order():
    learner = fiol.Learner(SQUARED, intercept=False, compiled=False)
    learner.engine.expect_random_order()
    assert learner.engine.centering is None


def test_columns_half_as_far_from_0_as_they_are_wide_are_learned_as_centered_ones():
    """In random order; a column that drifts as far is left as it is."""
    rng = np.random.default_rng(4)
    X = rng.random((300, 4))
    y = np.where((X - 0.5) @ [3.0, -2.0, 1.0, 2.0] + 0.3 * rng.standard_normal(300) > 0.0, 1.0, -1.0)
    losses, learners = [], [fiol.Learner(compiled=False) for _ in range(2)]
    for learner, values in zip(learners, (X, X - 0.5), strict=True):
        losses.append(np.logaddexp(0.0, -y * learner.learn(values, y)).mean())
    assert learners[0].engine.centering.features.tolist() == [0, 1, 2, 3]
    assert losses[0] < 1.1 * losses[1]
    drifting = fiol.Learner(compiled=False)
    drifting.learn(np.sort(X[:40], axis=0) + 0.02, y[:40])
    assert not {*drifting.engine.centering.features.tolist()} >= {0, 1, 2, 3}


def test_indicators_of_sparse_rows_are_not_centered():
    rng = np.random.default_rng(0)
    X = (rng.random((40, 30)) < 0.3) * 1.0
    X[:, 0] = 1.0
    learner = fiol.Learner(compiled=False)
    learner.learn(csr_matrix(X), np.where(rng.random(40) < 0.5, 1.0, -1.0))
    assert not learner.engine.centering.features.size


# --- merging ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["squared", "elastic net, averaged", "softmax", "ensemble"])
def test_merged_centered_learners_predict_the_mean(name):
    """Also if the learners center different features, in the first rows or later."""
    X, y = rows(120)
    y = targets(UPDATES[name][0], y)
    more = {"classes": [0, 1, 2]} if name == "softmax" else {}
    cuts = {"all centered": (0, 60, 120), "one not yet": (0, 110, 120), "none yet": (0, 5, 10)}
    for how, (a, b, c) in cuts.items():
        parts = [made(name, **more) for _ in range(2)]
        parts[0].learn(X[a:b], y[a:b])
        parts[1].learn(X[b:c], y[b:c])
        whole = fiol.Learner.merge(parts)
        share = (b - a) / (c - a)
        for part, average in zip(linear_model(whole), zip(*map(linear_model, parts), strict=True), strict=True):
            if name != "ensemble":  # whose stack is merged as well
                np.testing.assert_allclose(part, share * average[0] + (1.0 - share) * average[1], rtol=1e-6, atol=1e-8)
        if how == "all centered":
            assert whole.engine.centering.rows == c - a
            means = [part.engine.centering.means for part in parts]
            np.testing.assert_allclose(whole.engine.centering.means, share * means[0] + (1.0 - share) * means[1])
        assert whole.engine.centering.watches == (how == "none yet")
        whole.learn(X, y)
        assert whole.engine.centering.features.tolist() == [0, 2, 3]
        alone = fiol.Learner.merge([parts[0]])
        assert_same(linear_model(alone), linear_model(parts[0]))


def test_centering_of_short_shards_is_decided_by_the_merge():
    X, y = rows()
    parts = [fiol.Learner(SQUARED, compiled=False) for _ in range(3)]
    for k, part in enumerate(parts):
        part.learn(X[6 * k : 6 * k + 6], y[6 * k : 6 * k + 6])
    whole = fiol.Learner.merge(parts)
    assert whole.engine.centering.features.tolist() == [0, 2, 3]
    np.testing.assert_allclose(whole.intercept, np.mean([part.intercept for part in parts]), rtol=1e-9)
    np.testing.assert_allclose(whole.engine.centering.means, X[:18, [0, 2, 3]].mean(axis=0))


# --- ledgers, files, faults -------------------------------------------------------------------


def test_ledger_of_a_centered_learner():
    from fiol.regret import Ledger, best_in_hindsight

    X, y = rows()
    best = best_in_hindsight(fiol.Squared(), None, X, y, intercept=True)
    watched, plain = (
        fiol.Learner(SQUARED, n_features=5, compiled=False),
        fiol.Learner(SQUARED, n_features=5, compiled=False),
    )
    with Ledger(watched, comparator=best, every=1) as ledger:
        scores = watched.learn(X, y)
    np.testing.assert_allclose(scores, plain.learn(X, y), rtol=1e-12)
    np.testing.assert_allclose(ledger.records.loss[-1], 0.5 * np.sum((scores - y) ** 2), rtol=1e-9)
    np.testing.assert_allclose(ledger.records.comparator[-1], best.value, rtol=1e-6)


def test_failed_learn_restores_the_means():
    class Picky(fiol.Loss):
        def value(self, z, y):
            return 0.5 * (z - y) ** 2

        def grad(self, z, y):
            if y > 50.0:
                raise ArithmeticError("too much")
            return z - y

    X, y = rows()
    learner = fiol.Learner(fiol.FIOL(Picky()), compiled=False)
    learner.learn(X[:40], y[:40])
    before, weights = learner.engine.centering, linear_model(learner)
    bad = y[40:].copy()
    bad[30] = 100.0
    with pytest.raises(ArithmeticError):
        learner.learn(X[40:], bad)
    assert_same(linear_model(learner), weights)
    for found, one in zip(learner.engine.centering, before, strict=True):
        np.testing.assert_array_equal(found, one)


def test_old_files_are_not_centered():
    said = component_json.to_json(fiol.ScaleFree())
    del said["fields"]["centered"]
    assert component_json.from_json(said) == fiol.ScaleFree(centered=0)


@pytest.mark.parametrize("centered", [0, 1])
def test_old_name_of_a_field_loads(centered):
    stored = component_json.to_json(fiol.ScaleFree(centered=centered))
    old = {**stored["fields"], "centred": centered}
    with pytest.raises(ValueError, match=r"component\.centred is unknown: ScaleFree has step_size"):
        component_json.from_json({**stored, "fields": old})
    del old["centered"]
    assert component_json.from_json({**stored, "fields": old}) == fiol.ScaleFree(centered=centered)


@pytest.mark.parametrize(
    "change",
    [
        {"centring.features": np.array([1.5])},
        {"centring.features": np.array([9.0])},
        {"centring.sums": np.array([np.nan, 0.0, 0.0])},
        {"centring.so_far": np.array([-1.0])},
        {"centring.window": np.zeros((3, 2))},
        {"centring.features": np.array([3.0, 2.0, 1.0])},
        {"centring.far": np.array([0.0])},
        {"centring.far": np.array([2.0, 2.0])},
    ],
    ids=str,
)
def test_restoring_mismatched_mean_arrays_raises(change):
    X, y = rows()
    learner = fiol.Learner(SQUARED, compiled=False)
    learner.learn(X, y)
    arrays = {name: a.copy() for name, a in learner.core.arrays().items()}
    assert centering_from(arrays, 5, NO_ROWS).features.tolist() == [0, 2, 3]
    with pytest.raises(ValueError, match="centring"):
        learner.engine.restore({**arrays, **change})
    assert NO_ROWS.watches
    assert WINDOW == 16


def test_member_of_a_centered_ensemble_keeps_the_means():
    X, y = rows()
    steps = [fiol.ScaleFree(fiol.AdaGrad(1.0)), fiol.ScaleFree(fiol.AdaGrad(3.0))]
    both = fiol.Learner(fiol.Ensemble([SQUARED.replace(step_size=step) for step in steps]), compiled=False)
    single = fiol.Learner(SQUARED.replace(step_size=steps[1]), compiled=False)
    both.engine.settle_origin()  # of targets, at 0
    both.learn(X, y)
    single.learn(X, y)
    alone = both.member(1)
    assert alone.engine.centering.features.size
    for model in (alone, alone.copy(), pickle.loads(pickle.dumps(alone))):
        assert (model.scores(X) == single.scores(X)).all()
        assert (model.learn(X, y) == single.copy().learn(X, y)).all()


def test_member_of_an_uncentered_ensemble_learns_raw_rows():
    X, y = rows()
    steps = [fiol.AdaGrad(1.0), fiol.ScaleFree(fiol.AdaGrad(3.0))]
    both = fiol.Learner(fiol.Ensemble([SQUARED.replace(step_size=step) for step in steps]), compiled=False)
    both.learn(X, y)
    single = fiol.Learner(SQUARED.replace(step_size=steps[1].replace(centered=0)), compiled=False)
    single.learn(X, y)
    alone = both.member(1)
    assert (alone.copy().scores(X) == single.scores(X)).all()
    assert (alone.learn(X, y) == single.learn(X, y)).all()
