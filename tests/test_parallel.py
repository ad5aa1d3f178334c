"""Parallel learning: merging the parts of a round, and the step along the merge direction."""

import threading
from itertools import pairwise

import numpy as np
import pytest

import fiol
from fiol import (
    FIOL,
    L1,
    AdaGrad,
    Constant,
    Curvature,
    ElasticNet,
    FTRLProximal,
    ImplicitCoin,
    Learner,
    Logistic,
    Normalized,
    Ridge,
    ScaleFree,
    Softmax,
    Squared,
    Stacked,
)
from fiol.compiler.compiled import interpreted
from fiol.engine.ensemble import lane_group
from fiol.engine.ensemble.newton_stack_engine import BACK
from fiol.engine.parallel import rounds as parallel_rounds
from fiol.engine.parallel import shards as pooling
from fiol.engine.parallel.merge_kernels import interpolate, merge_records
from fiol.engine.parallel.rounds import MOST_IN_ROUND, learn_in_rounds, round_ends, teach_stack
from fiol.engine.parallel.shards import ALONG, MemberMerge

rng = np.random.default_rng(4)
X = rng.normal(size=(240, 6)) * (rng.random((240, 6)) < 0.6) * [1.0, 2.0, 0.1, 30.0, 1.0, 1.0] + [0, 0, 0, 0, 0, 50.0]
W = np.array([1.0, -0.5, 8.0, 0.05, 0.0, 1.0])
Y = np.sign((X - X.mean(axis=0)) @ W + rng.normal(size=240))
Y[Y == 0] = 1.0
NUMBERS = X @ W + rng.normal(size=240)


@pytest.fixture(autouse=True)
def short_rounds(monkeypatch):
    monkeypatch.setattr(parallel_rounds, "ALONE", 40)


def made(update, **options):
    return Learner(update, compiled=False, **options)


UPDATES = {
    "curvature": FIOL(Logistic(), step_size=ScaleFree(Curvature())),
    "curvature, raw": FIOL(Logistic(), step_size=Curvature(prior=3.0)),
    "curvature, squared": FIOL(Squared(), step_size=ScaleFree(Curvature())),
    "curvature that forgets": FIOL(Logistic(), step_size=ScaleFree(Curvature(noise=0.1))),
    "default": FIOL(Logistic()),
    "ridge": FIOL(Logistic(), Ridge(0.01)),
    "l1": FIOL(Logistic(), L1(0.01), Constant(0.05)),
    "l1, scale-free": FIOL(Logistic(), ElasticNet(0.01, 0.001)),
    "normalized": FIOL(Logistic(), step_size=ScaleFree(Normalized(0.3))),
    "adagrad, absolute": FIOL(fiol.Absolute(), step_size=ScaleFree(AdaGrad())),
    "schedule": FIOL(Logistic(), step_size=fiol.Polynomial()),
    "ftrl": FTRLProximal(Logistic(), L1(0.001)),
    "coin": ImplicitCoin(Logistic()),
    "softmax": FIOL(Softmax()),
}


def targets(update):
    if isinstance(update.loss, (Squared, fiol.Absolute)):
        return NUMBERS
    return ["yes" if y > 0 else "no" for y in Y] if isinstance(update.loss, Softmax) else Y


@pytest.mark.parametrize("name", UPDATES)
def test_one_part_matches_the_single_stream(name):
    update = UPDATES[name]
    y = targets(update)
    plain, rounds = (made(update, **({"classes": ["no", "yes"]} if name == "softmax" else {})) for _ in range(2))
    expected, codes = plain.learn(X, y), plain.core.codes_of(y) if name == "softmax" else np.asarray(y)
    rounds.core.encode_rows(X)
    rounds.core.engine, found = learn_in_rounds(rounds.engine, fiol.to_chunk(X), codes, np.ones(len(X)), 1)
    np.testing.assert_allclose(rounds.weights, plain.weights, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(rounds.intercept, plain.intercept, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)
    assert (rounds.rows, rounds.rounds) == (plain.rows, plain.rounds)
    more = plain.learn(X, y), rounds.learn(X, y)  # what is known for steps is the same, too
    np.testing.assert_allclose(more[1], more[0], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", UPDATES)
def test_four_parts_learn_about_as_much_as_one_stream(name):
    update = UPDATES[name]
    y = targets(update)
    plain, rounds = made(update), made(update)
    plain.learn(X, y)
    rounds.learn_parallel(X, y, parts=4, threads=1)
    assert rounds.rows == plain.rows == len(X)
    codes = [["no", "yes"].index(label) for label in y] if name == "softmax" else y
    order = [plain.classes.index(c) for c in rounds.classes] if name == "softmax" else None
    assert order in (None, [0, 1], [1, 0])
    losses = []
    for model in (plain, rounds):
        if name == "softmax":
            codes = [model.classes.index(label) for label in y]
        losses.append(model.core.mean_loss(model.scores(X), np.asarray(codes), np.ones(len(X))))
    most = {"coin": 1.35, "l1, scale-free": 1.55}.get(name, 1.25)  # means learn less than the whole
    assert losses[1] < most * losses[0] + 0.02


def test_merge_adds_natural_parameters():
    update = UPDATES["curvature, raw"]
    base = made(update, intercept=False)
    base.learn(X[:60], Y[:60])
    parts = [base.copy() for _ in range(3)]
    for k, part in enumerate(parts):
        part.learn(X[60 + 50 * k : 110 + 50 * k], Y[60 + 50 * k : 110 + 50 * k])
    way = MemberMerge(base.engine, [part.engine for part in parts]).directions[0]
    for i in range(X.shape[1]):
        own = [3.0 + sum(one.engine.state.statistics[i]) for one in (base, *parts)]
        P = own[0] + sum(p - own[0] for p in own[1:])
        moved = sum(p * (part.weights[i] - base.weights[i]) for p, part in zip(own[1:], parts, strict=True)) / P
        assert way.engine.state.w[i] == pytest.approx(base.weights[i] + moved, rel=1e-12)
        assert 3.0 + way.engine.state.statistics[i].sum() == pytest.approx(P, rel=1e-12)
    cost = sum(
        (3.0 + sum(base.engine.state.statistics[i])) * (way.engine.state.w[i] - base.weights[i]) ** 2 for i in range(6)
    )
    assert way.cost == pytest.approx(cost, rel=1e-12)


@pytest.mark.parametrize(
    "update", [UPDATES["curvature"], UPDATES["default"], Stacked(Logistic())], ids=["curvature", "adagrad", "ensemble"]
)
def test_step_along_the_merge_direction_minimizes_the_loss(update):
    base = made(update)
    base.learn(X[:60], Y[:60])
    parts = [base.copy() for _ in range(4)]
    for k, part in enumerate(parts):
        part.learn(X[60 + 40 * k : 100 + 40 * k], Y[60 + 40 * k : 100 + 40 * k])
    means = pooling.pooled_means(base.engine.centering, [part.engine.centering for part in parts])
    pool = MemberMerge(base.engine, [part.engine for part in parts])
    chunk = fiol.to_chunk(X[60:220])
    losses = pool.losses(chunk, Y[60:220], np.ones(160))
    rows = pooling.rows_of_members(base.engine, chunk)
    before = [member.scores(rows) for member in pool.members]
    after = [way.engine.scores(rows) for way in pool.directions]
    engine, chosen = pool.finish(losses, means)
    for z, ahead, way, s in zip(before, after, pool.directions, chosen, strict=True):

        def cost(s, z=z, ahead=ahead, way=way):
            return np.logaddexp(0, -Y[60:220] * (z + s * (ahead - z))).sum() + s * s / 2 * way.cost

        assert 0.25 <= s <= 1.0
        assert cost(s) <= min(cost(s) for s in ALONG if s >= 0.25) + 1e-9
    for j, (member, s) in enumerate(zip(pooling.members_of(engine), chosen, strict=True)):
        again = member.scores(pooling.rows_of_members(engine, chunk))
        np.testing.assert_allclose(again, before[j] + s * (after[j] - before[j]), rtol=1e-8, atol=1e-8)


def test_parallel_result_does_not_depend_on_part_order_or_threads():
    update = Stacked(Logistic())
    base = made(update)
    base.learn(X[:60], Y[:60])
    parts = [base.copy() for _ in range(3)]
    for k, part in enumerate(parts[:2]):
        part.learn(X[60 + 50 * k : 110 + 50 * k], Y[60 + 50 * k : 110 + 50 * k])
    ways = [
        MemberMerge(base.engine, [parts[k].copy().engine for k in order]).directions for order in ([0, 1, 2], [2, 1, 0])
    ]
    for one, other in zip(*ways, strict=True):
        np.testing.assert_allclose(one.engine.state.w, other.engine.state.w, rtol=1e-12)
    models = [made(update) for _ in range(2)]
    for model, threads in zip(models, (1, 3), strict=True):
        model.learn_parallel(X, Y, parts=3, threads=threads)
    assert models[0].weights.tobytes() == models[1].weights.tobytes()
    np.testing.assert_array_equal(models[0].mixing, models[1].mixing)


def test_parallel_penalties_count_all_rounds():
    """For unseen features they shrink weights to 0 and not beyond; for a feature of one part all rounds count."""
    base = made(FIOL(Logistic(), L1(0.01), AdaGrad()), n_features=3, intercept=False)
    base.learn(np.eye(3)[[0, 1, 2, 0, 1, 2]], [1, 1, 1, 1, 1, 1])
    base.engine.settle()
    base.engine.state.w[:] = [1.0, 0.015, 1.0]
    parts = [base.copy() for _ in range(4)]
    for k, part in enumerate(parts):
        part.learn(np.eye(3)[[2]] if k == 0 else np.zeros((1, 3)), [1])
        part.engine.settle()
    step = [base.weights - part.weights for part in parts[1:]]
    assert all(0.015 > one[1] > 0.015 / 4 for one in step)
    way = MemberMerge(base.engine, [part.engine for part in parts]).directions[0]
    np.testing.assert_allclose(way.engine.state.w[0], 1.0 - 4 * step[0][0], rtol=1e-12)
    assert way.engine.state.w[1] == 0.0
    np.testing.assert_allclose(way.engine.state.w[2], parts[0].weights[2] - 3 * step[0][2], rtol=1e-12)


def test_parallel_adagrad_sums_squares_of_all_parts():
    """Three of four parts saw the feature: each change counts 1 / sqrt(3), also the penalty's in the fourth."""
    base = made(FIOL(Logistic(), L1(1e-3), AdaGrad()), n_features=1, intercept=False)
    base.learn(np.ones((5, 1)), np.ones(5))
    base.engine.settle()
    parts = [base.copy() for _ in range(4)]
    for k, part in enumerate(parts):
        part.learn(np.zeros((3, 1)) if k == 3 else np.full((3, 1), 1.0 + k), [1, -1, 1])
        part.engine.settle()
    way = MemberMerge(base.engine, [part.engine for part in parts]).directions[0]
    moved = sum(part.weights[0] - base.weights[0] for part in parts)
    assert parts[3].weights[0] < base.weights[0]
    np.testing.assert_allclose(way.engine.state.w[0] - base.weights[0], moved / np.sqrt(3.0), rtol=1e-12)


def test_weights_zero_in_most_parts_stay_zero():
    base = made(UPDATES["l1"])
    base.learn(X[:60], Y[:60])
    base.engine.settle()
    base.engine.state.w[:] = 0.1
    parts = [base.copy() for _ in range(3)]
    for k, part in enumerate(parts):
        part.learn(X[60 + 50 * k : 110 + 50 * k], Y[60 + 50 * k : 110 + 50 * k])
    values = [[0.0, 0.0, 0.5, 0.0, 1.0, 1.0], [0.0, 0.3, 0.0, 0.0, 1.0, 1.0], [0.2, 0.4, 0.0, 0.0, 1.0, 1.0]]
    for part, w in zip(parts, values, strict=True):
        part.engine.settle()
        part.engine.state.w[:] = w
    pool = MemberMerge(base.engine, [part.engine for part in parts])
    engine, _ = pool.finish(pool.losses(fiol.to_chunk(X[60:210]), Y[60:210], np.ones(150)), base.engine.centering)
    assert (engine.state.w == 0.0).tolist() == [True, False, True, True, False, False]
    new = [np.array([[1.0]]), np.array([[0.0]])]  # who has not seen a feature does not say that its weight is 0
    states = [base.engine.state._replace(w=row[0], statistics=row) for row in new]
    assert pooling.zero_with_most(states[1], states).tolist() == [False]


def test_ensemble_learned_in_parallel_is_saved_and_learns_on(tmp_path):
    for update in (Stacked(Logistic()), Stacked(Logistic(), L1(1e-3))):
        model = made(update)
        model.learn_parallel(X[:120], Y[:120], parts=3)
        model.save(tmp_path / "model.fiol")
        again = Learner.load(tmp_path / "model.fiol", compiled=False)
        assert again.learn(X[120:], Y[120:]).tobytes() == model.learn(X[120:], Y[120:]).tobytes()
        assert again.rows == len(X)


MEMBERS = fiol.Ensemble(
    [FIOL(Softmax(), step_size=ScaleFree(size)) for size in (AdaGrad(), AdaGrad(30.0), Curvature())]
)


def test_threads_change_no_bit_of_members(monkeypatch):
    labels, workers, call = np.where(Y > 0, "yes", "no"), set(), pooling.Engine.call

    def noted(engine, kernel, *arguments):
        if kernel.__name__ == "learn_rows":
            workers.add(threading.current_thread().name)
        return call(engine, kernel, *arguments)

    monkeypatch.setattr(pooling.Engine, "call", noted)
    plain, threads = (made(MEMBERS, classes=["no", "yes"]) for _ in range(2))
    expected = plain.learn(X, labels)
    assert workers == {"MainThread"}
    found = threads.learn_parallel(X, labels, parts=1, threads=3)
    assert len(workers) > 1
    assert found.tobytes() == expected.tobytes()
    arrays = threads.core.arrays()
    assert all(array.tobytes() == arrays[name].tobytes() for name, array in plain.core.arrays().items())
    plain.learn(X, labels)  # and goes on without threads
    threads.learn(X, labels)
    assert plain.weights.tobytes() == threads.weights.tobytes()


def test_interrupt_waits_for_members_in_other_threads():
    """The piece is finished after an interrupt: no member makes a round twice, also with a running thread."""
    plain, engine = (made(MEMBERS, classes=["no", "yes"]).engine for _ in range(2))
    rows, threads = (fiol.to_chunk(X), (Y > 0).astype(int), np.ones(len(X))), []
    for one in (plain, engine):
        one.fit_in(rows[0])

    def interrupted(work, items):
        items = list(items)
        if not threads:
            threads.extend(threading.Thread(target=work, args=(k,)) for k in items)
            for thread in threads:
                thread.start()
            raise KeyboardInterrupt
        return map(work, items)

    plain.learn_piece(*rows)
    engine.compiled, engine.call, engine.each = True, plain.call, interrupted  # as if no component could raise
    with pytest.raises(KeyboardInterrupt):
        engine.learn_piece(*rows)
    for thread in threads:
        thread.join()
    assert engine.rounds == len(X)
    kept = engine.arrays()
    assert all(array.tobytes() == kept[name].tobytes() for name, array in plain.arrays().items())


@pytest.mark.parametrize("loss", [Logistic(), Squared(), fiol.Absolute()], ids=str)
def test_parallel_lanes_match_separate_members(loss, monkeypatch):
    monkeypatch.setattr(lane_group, "INTERPRETED", True)
    monkeypatch.setattr(parallel_rounds, "GROWTH", 0.3)
    draw = np.random.default_rng(7)  # all parts see all features, and no row is without loss
    X = draw.normal(size=(160, 4)) * [1.0, 30.0, 1.0, 1.0] + [0.0, 0.0, 0.0, 50.0]
    y = draw.choice([-1.0, 1.0], 160) if isinstance(loss, Logistic) else X[:, 0] + draw.normal(size=160)
    together, apart = made(Stacked(loss)), made(Stacked(loss))
    together.learn_parallel(X, y, parts=3, threads=1)
    assert pooling.lanes_alone(together.engine)
    assert len(together.engine.centering.features) == 1
    for module in (pooling, parallel_rounds):
        monkeypatch.setattr(module, "lanes_alone", lambda engine: False)
    apart.learn_parallel(X, y, parts=3, threads=1)
    for one, other in zip(together.engine.members, apart.engine.members, strict=True):
        for mine, theirs in ((one.state, other.state), (one.intercept, other.intercept)):
            np.testing.assert_allclose(mine.w, theirs.w, rtol=1e-7, atol=1e-9)
            np.testing.assert_allclose(mine.statistics, theirs.statistics, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(together.mixing, apart.mixing, rtol=1e-6, atol=1e-9)
    assert (together.rows, together.rounds) == (apart.rows, apart.rounds)


def pooled(rules, base, parts, step_scales):
    """Merge records [feature, 2, lane] by the kernel; return them and the costs."""
    new, costs, tables = base.copy().ravel(), np.zeros(base.shape[2]), np.concatenate([one.ravel() for one in parts])
    known = (0.0,) * base.shape[2], rules.ravel(), step_scales, len(parts), base.ravel(), tables
    interpreted(merge_records)(*known, new, costs)
    return new.reshape(base.shape), costs


def test_shards_without_a_feature_do_not_count_in_its_merge():
    """Two parts, of which the first alone saw the feature: lanes of curvature, constant and normalized steps."""
    rules = np.zeros((10, 4))
    rules[0], rules[1] = 1.0, [2.0, 1.0, 0.0, 1.0]
    rules[6, 0] = rules[3, 0] = rules[4, 2] = 1.0
    base = np.array([[[1.0, 1.0, 1.0, 3.0], [4.0, 4.0, 0.0, 0.0]]])
    seen = np.array([[[2.0, 3.0, 5.0, 3.0], [6.0, 7.0, 0.0, 0.0]]])
    found, costs = pooled(rules, base, [seen, base], np.ones(4))
    # 1 + (2 + 6) (2 - 1) / (2 + 6), the one update, the one update, the peak
    np.testing.assert_allclose(found[0, 0], [2.0, 3.0, 5.0, 3.0])
    np.testing.assert_allclose(found[0, 1], [6.0, 7.0, 0.0, 0.0])
    np.testing.assert_allclose(costs, [(2.0 + 4.0) * 1.0, 0.0, 0.0, 0.0])


def test_merged_lane_records_match_array_oracle():
    """Three parts, scale-free lanes of every rule, new largest values, and unseen features."""
    draw = np.random.default_rng(3)
    rules, step_scales = np.zeros((9, 8)), draw.uniform(0.5, 2.0, 8)
    rules[0], rules[1] = draw.uniform(0.5, 2.0, 8), draw.uniform(0.5, 2.0, 8)
    rules[6, :2] = rules[3, :2] = rules[4, 2:4] = 1.0
    rules[2, 4:6] = rules[8, [0, 2, 4]] = 1.0  # the last member has constant steps
    base = draw.uniform(0.5, 2.0, (20, 2, 8))
    saw = draw.random((3, 20)) < 0.5
    saw[:, 4] = False
    parts = [np.where(one[:, None, None], base + draw.uniform(0.0, 1.0, base.shape), base) for one in saw]
    found, costs = pooled(rules, base, parts, step_scales)
    peak = np.max([one[:, 0, -1] for one in (base, *parts)], axis=0)
    w = [np.where(rules[8] > 0.0, one[:, 0] * (one[:, 0, -1] / peak)[:, None], one[:, 0]) for one in (base, *parts)]
    unit = rules[1] * np.where(rules[8] > 0.0, peak[:, None] ** 2, 1.0)
    sums = base[:, 1] + sum(one[:, 1] - base[:, 1] for one in parts)
    natural = sum((unit + one[:, 1]) * (mine - w[0]) for one, mine in zip(parts, w[1:], strict=True)) / (unit + sums)
    mean_of_seers = sum(mine - w[0] for mine in w[1:]) / np.maximum(saw.sum(axis=0), 1)[:, None]
    roots = mean_of_seers * np.sqrt(np.maximum(saw.sum(axis=0), 1))[:, None]
    change = np.where(rules[2] > 0.0, roots, mean_of_seers)
    change = np.where(rules[6] > 0.0, natural, change)
    some = saw.any(axis=0)
    np.testing.assert_allclose(found[some, 0, :-1], (w[0] + change)[some, :-1], rtol=1e-12)
    np.testing.assert_allclose(found[some, 1, :-1], sums[some, :-1], rtol=1e-12)
    np.testing.assert_array_equal(found[:, 0, -1], peak)
    np.testing.assert_array_equal(found[~some], base[~some])
    stiff = (unit + base[:, 1]) / rules[0] / step_scales
    expected = np.where(rules[6] > 0.0, (stiff * change**2)[some].sum(axis=0), 0.0)
    np.testing.assert_allclose(costs, expected, rtol=1e-12)
    near, steps = found.copy().ravel(), draw.random(8)
    interpreted(interpolate)((0.0,) * 8, base.ravel(), steps, near)
    way = base[:, 0, :-1] + steps[:-1] * (found - base)[:, 0, :-1]
    np.testing.assert_allclose(near.reshape(base.shape)[:, 0, :-1], way, rtol=1e-12)
    np.testing.assert_array_equal(near.reshape(base.shape)[:, 1], found[:, 1])


def test_skipped_line_search_points_are_never_the_best():
    """Losses are convex, so the best allowed point is the one nearest to the overall best."""
    base = made(Stacked(Logistic()))
    base.learn(X[:60], Y[:60])
    parts = [base.copy() for _ in range(4)]
    for k, part in enumerate(parts):
        part.learn(X[60 + 40 * k : 100 + 40 * k], Y[60 + 40 * k : 100 + 40 * k])
    pool = MemberMerge(base.engine, [part.engine for part in parts])
    rows = fiol.to_chunk(X[60:220]), Y[60:220], np.ones(160)
    losses = pool.losses(*rows)
    pool.parts = 100
    everywhere, costs = pool.losses(*rows), np.array([way.cost for way in pool.directions])
    assert np.isinf(losses[:, :4]).all()
    assert np.isfinite(everywhere).all()
    np.testing.assert_array_equal(losses[:, 4:], everywhere[:, 4:])
    chosen = [pooling.best_steps(found, costs, 4) for found in (losses, everywhere)]
    np.testing.assert_array_equal(*chosen)


def test_teach_stack_updates_shares_by_out_of_sample_losses():
    model = made(Stacked(Logistic()))
    model.learn(X[:60], Y[:60])
    engine = model.engine
    Z = np.random.default_rng(1).normal(size=(50, 7))
    before, share = engine.stack.state.v.copy(), engine.stack.state.share.copy()
    losses = np.array([np.logaddexp(0, -Y[:50] * (Z @ v)).sum() for v in before])
    teach_stack(engine, 500, Z, Y[:50], np.ones(50))
    common = BACK
    expected = share * np.exp(-losses)
    expected = (1 - common) * expected / expected.sum() + common / 3
    np.testing.assert_allclose(engine.stack.state.share, expected, rtol=1e-10)
    assert (engine.rounds, np.abs(engine.stack.state.v - before).max() > 0.01) == (560, True)
    engine.stack.state.v[1] = 1e200  # what cannot be said counts as bad, not as an error
    with np.errstate(over="ignore"):
        teach_stack(engine, 50, Z, Y[:50], np.ones(50))
    assert np.isfinite(engine.stack.state.share).all()
    assert engine.stack.state.share.sum() == pytest.approx(1.0)


def test_repeated_parallel_passes_do_not_change_the_stack():
    model = made(Stacked(Logistic()))
    model.learn_parallel(X, Y, parts=2)
    before = model.mixing.copy()
    with model.engine.freeze_stack():
        model.learn_parallel(X, Y, parts=2)
    np.testing.assert_array_equal(model.mixing, before)
    model.learn_parallel(X, Y, parts=2)
    assert not np.array_equal(model.mixing, before)


def test_learn_parallel_is_all_or_nothing():
    model = made(UPDATES["default"])
    model.learn(X[:50], Y[:50])
    before = model.weights.tobytes(), model.rows, model.n_features
    wrong = X.copy()
    wrong[200, 3] = np.nan
    with pytest.raises(ValueError, match=r"X\[200, 3\]"):
        model.learn_parallel(wrong, Y, parts=2)
    with pytest.raises(ValueError, match="parts"):
        model.learn_parallel(X, Y, parts=0)
    with pytest.raises(TypeError, match="generator"):
        model.learn_parallel(iter(X), Y)
    assert (model.weights.tobytes(), model.rows, model.n_features) == before
    with pytest.raises(TypeError, match="max_features"):
        made(UPDATES["default"], max_features=3).learn_parallel(X, Y)


def test_parallel_rounds_grow_with_the_rows():
    ends = round_ends(100_000, 0)
    assert ends[0] == 40
    assert ends[-1] == 100_000
    assert all(b - a <= max(0.1 * a, 1) for a, b in pairwise(ends))
    assert len(ends) < 100
    assert round_ends(0, 10_000) == [0]
    assert max(np.diff(round_ends(10_000_000, 0))) == MOST_IN_ROUND


def test_an_ensemble_with_a_score_per_class_learns_in_parallel():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 3))
    labels = np.argmax(rows + 0.1 * rng.normal(size=(300, 3)), axis=1)
    learner = fiol.Learner(Stacked(fiol.Softmax()), compiled=False)
    learner.learn_parallel(rows, labels, parts=2)
    right = np.array(learner.classes)[np.argmax(learner.scores(rows), axis=1)] == labels
    assert (learner.rounds, np.mean(right) > 0.9) == (300, True)
