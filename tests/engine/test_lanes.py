"""Members of an ensemble in SIMD lanes match members learned separately."""

import mmap
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.outliers import learned
from scipy.optimize import brentq

import fiol
from fiol import FIOL, AdaGrad, Constant, Curvature, Ensemble, Learner, Logistic, Ridge, ScaleFree, Squared
from fiol.algorithms.plan import make_plan
from fiol.compiler.compiled import interpreted
from fiol.engine.centering import NO_ROWS
from fiol.engine.ensemble import lane_group
from fiol.engine.ensemble.lane_group import LaneGroup, chosen_lanes, fits_lanes
from fiol.engine.ensemble.lane_stack import lane_stack_rows
from fiol.engine.ensemble.newton_stack import stack_rows
from fiol.engine.ensemble.stack_state import lane_buffers, narrowed, new_stack_state, widened
from fiol.engine.update_engine import UpdateEngine
from fiol.features.chunk import Chunk
from fiol.presets import STACKED

BINARY = [Logistic(), fiol.Hinge(), fiol.SquaredHinge()]
REAL = [Squared(), fiol.Absolute(), fiol.Quantile(0.3), fiol.EpsilonInsensitive(0.2)]
REAL += [fiol.SquaredEpsilonInsensitive(0.2), fiol.Huber(0.7)]
STEPS = [AdaGrad(0.5), Constant(0.3), Curvature(prior=2.0), AdaGrad(2.0, kappa=0.0)]
STEPS += [fiol.Normalized(0.7), ScaleFree(fiol.Normalized(1.0))]
STEPS += [ScaleFree(step) for step in (AdaGrad(30.0), AdaGrad(1.0), Constant(10.0), Curvature(), Curvature(0.5, 0.1))]


@pytest.fixture
def in_the_interpreter(monkeypatch):
    monkeypatch.setattr(lane_group, "INTERPRETED", True)


def plans_of(loss, steps, strengths):
    """Plans with a ridge of the strength that is beside, where lanes have such a ridge."""
    found = [make_plan(FIOL(loss, Ridge(lam), step)) for step, lam in zip(steps, strengths, strict=False)]
    plain = [make_plan(FIOL(loss, step_size=step)) for step in steps]
    return [one if fits_lanes(one) else other for one, other in zip(found, plain, strict=True)]


def engines(loss, steps, features, intercept=True, dtype="float64", compiled=False, strengths=(0.0,) * 7):
    plans = plans_of(loss, steps, strengths)
    return [UpdateEngine(plan, features, 0.0, intercept, False, dtype, compiled) for plan in plans]


def rows(rng, n, d, loss, growing=0.3):
    """Sparse rows in different units, values that grow, targets, and sample weights that may be 0."""
    there = rng.random((n, d)) < 0.6
    X = (
        rng.normal(size=(n, d))
        * np.logspace(-2, 2, d)
        * np.exp(growing * rng.random((n, 1)) * np.arange(n)[:, None] / 9)
    )
    indptr, indices = np.append(0, np.cumsum(there.sum(axis=1))), np.nonzero(there)[1].astype(np.int32)
    y = np.sign(X @ (rng.normal(size=d) / np.logspace(-2, 2, d)) + 0.1)
    if loss in REAL:
        y = y * rng.exponential(3.0) + rng.choice([0.0, 1.0]) * rng.normal(size=n)
    return Chunk(indptr, indices, X[there]), y, rng.choice([0.0, 0.5, 1.0, 3.0], n)


def agree(found, expected, part=1e-12):
    scale = np.maximum.accumulate(np.abs(expected), axis=0)
    np.testing.assert_array_less(np.abs(found - expected), part * (scale + 1e-3) + 1e-300)


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs Linux")
def test_records_of_a_new_ensemble_take_no_memory_before_the_first_row():
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * mmap.PAGESIZE

    fiol.Learner(bits=4)
    before = resident()
    learner = fiol.Learner(bits=21)  # 2^21 records of 128 bytes
    assert resident() - before < 2**21 * 128 / 8
    assert learner.n_features == 2**21


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(BINARY + REAL),
    st.lists(st.sampled_from(STEPS), min_size=1, max_size=7),
    st.one_of(st.just([0.0] * 7), st.lists(st.sampled_from([0.0, 1e-4, 0.05, 20.0]), min_size=7, max_size=7)),
    st.booleans(),
    st.integers(0, 10**6),
)
def test_lanes_match_separate_members(loss, steps, strengths, intercept, seed):
    rng = np.random.default_rng(seed)
    chunk, y, weight = rows(rng, 40, 5, loss)
    alone = engines(loss, steps, 5, intercept, strengths=strengths)
    group = LaneGroup(alone)
    assert group.with_ridge == any(engine.plan.regularizer.has_ridge() for engine in alone)
    assert group.pack(alone)
    group.make_place(5, 5)
    found = group.new_scores(40)
    group.learn(chunk, y, weight, found)
    agree(group.scores_of_members(found), np.column_stack([engine.learn(chunk, y, weight) for engine in alone]))
    for one, other in zip(group.unpacked(), alone, strict=True):
        mine, theirs = one.arrays(), other.arrays()
        assert mine.keys() == theirs.keys()
        for name in mine:
            assert mine[name].shape == theirs[name].shape
            assert mine[name].dtype == theirs[name].dtype
            own = group.with_ridge and name.startswith("state.")  # then each feature has what its last step was made of
            if own or name.partition(".")[2] not in ("bends", "pending", "stride", "length"):
                np.testing.assert_allclose(
                    mine[name], theirs[name], rtol=1e-9, atol=1e-12 * (1e-6 + abs(theirs[name]).max(initial=0.0))
                )
        if "state.bends" in mine:
            sums = [arrays["state.bends"] + arrays["state.pending"] for arrays in (mine, theirs)]
            np.testing.assert_allclose(*sums, rtol=1e-9, atol=1e-300)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.sampled_from(STEPS), min_size=1, max_size=7),
    st.sampled_from([[0.0] * 7, [0.05] * 7]),
    st.booleans(),
    st.integers(0, 10**6),
)
def test_lanes_are_scored_and_centered_as_separate_members(steps, strengths, intercept, seed):
    """Scores of rows with features that were never seen; then the reset of centered features, with missing values."""
    chunk, y, weight = rows(np.random.default_rng(seed), 16, 6, Squared())
    alone = engines(Squared(), steps, 6, intercept, strengths=strengths)
    group = LaneGroup(alone)
    group.pack(alone)
    group.make_place(6, 6)
    group.learn(chunk, y, weight, group.new_scores(16))
    members = group.unpacked()
    unseen = Chunk(np.array([0, 2]), np.array([1, 9], np.int32), np.array([2.0, 3.0]))
    for rows_to_score in (chunk, unseen):
        agree(group.scores(rows_to_score), np.column_stack([member.scores(rows_to_score) for member in members]))
    if not intercept:  # then nothing is centered
        return
    centering = NO_ROWS._replace(
        so_far=np.array([16.0]),
        features=np.array([1, 4], np.int32),
        sums=np.array([160.0, -3.0]),
        widths=np.array([5.0, 0.25]),
        missing=np.array([3, -1], np.int32),
    )
    group.center(centering)
    for one, member in zip(group.unpacked(), members, strict=True):
        member.set_storage(member.centered_storage(centering))
        for name, array in member.arrays().items():
            if name != "fresh.mark":  # unseen features of lanes have missed all rounds, and have no weight
                np.testing.assert_allclose(one.arrays()[name], array, rtol=1e-14, atol=1e-300, err_msg=name)


ALL_KINDS, FREE = [STEPS[k] for k in (0, 1, 2, 5, 6, 7, 9)], [ScaleFree(step) for step in STACKED]


@pytest.mark.parametrize(
    ("loss", "dtype", "steps", "with_sums"),
    [
        (Logistic(), "float64", ALL_KINDS, 8),
        (fiol.Quantile(0.3), "float64", ALL_KINDS, 8),
        (Logistic(), "float32", FREE, 4),  # those of the second half take one step for all features of a row
        (Logistic(), "float64", [*FREE[:5], Constant(0.1)], 4),
    ],
    ids=str,
)
def test_compiled_lanes_match_separate_members(loss, dtype, steps, with_sums):
    rng = np.random.default_rng(1)
    chunk, y, weight = rows(rng, 300, 6, loss, growing=0.1)
    alone = engines(loss, steps, 6, dtype=dtype)
    group = LaneGroup(engines(loss, steps, 6, dtype=dtype, compiled=True))
    assert group.pack(alone)
    assert len(group.first) == with_sums
    assert (group.as_they_are == ()) == all(isinstance(step, ScaleFree) for step in steps)
    for engine in group.engines:
        engine.compiled = True
    group.make_place(6, 6)
    found = group.new_scores(300)
    for start in (0, 100, 250, 300)[:-1]:
        stop = {0: 100, 100: 250, 250: 300}[start]
        piece = Chunk(chunk.indptr[start : stop + 1], chunk.indices, chunk.data)
        group.learn(piece, y[start:stop], weight[start:stop], found[8 * start : 8 * stop])
    expected = np.column_stack([engine.learn(chunk, y, weight) for engine in alone])
    agree(group.scores_of_members(found), expected, 1e-11 if dtype == "float64" else 1e-4)


def test_lane_sums_use_full_width_where_needed():
    assert len(LaneGroup(engines(Logistic(), FREE, 2)).first) == 4
    assert len(LaneGroup(engines(Logistic(), [*FREE[3:], *FREE[:3]], 2)).first) == 8
    assert len(LaneGroup(engines(fiol.Quantile(0.3), FREE, 2)).first) == 8  # every feature has a longest step
    assert len(LaneGroup(engines(Logistic(), FREE, 2, strengths=[1e-3] * 7)).first) == 8  # and here its own rounds


def test_extreme_scores_in_lanes_are_exact(monkeypatch):
    """Long steps and values of all sizes: members far beyond what the form for lanes is made for."""
    rng = np.random.default_rng(2)
    chunk, y, weight = rows(rng, 60, 5, Logistic())
    chunk = Chunk(chunk.indptr, chunk.indices, chunk.data * 1e8)
    steps = [Constant(1e9), Constant(1e-9), AdaGrad(1e6), ScaleFree(Constant(1e12))]
    alone = engines(Logistic(), steps, 5)
    group = LaneGroup(alone)
    group.pack(alone)
    found, calls, exact_step = group.new_scores(60), [], Logistic.exact_step

    def seen(self, *arguments):
        calls.append(arguments)
        return exact_step(self, *arguments)

    monkeypatch.setattr(Logistic, "exact_step", seen)
    group.learn(chunk, y, weight, found)
    expected = np.column_stack([engine.learn(chunk, y, weight) for engine in alone])
    assert len(calls) > 100
    agree(group.scores_of_members(found), expected, 1e-11)


def test_members_eligible_for_lanes(in_the_interpreter):
    class Own(fiol.Logistic):
        def grad(self, z, y):
            return -y * fiol.components.scalars.sigmoid(-y * z)

    class Warm(AdaGrad):
        def eta(self, t):
            return self.size * min(t, 10.0)

    def plan(loss=None, penalty=None, step=None, **rest):
        return make_plan(FIOL(loss or Logistic(), penalty or fiol.Unregularized(), step or AdaGrad(), **rest))

    assert all(fits_lanes(plan(loss, step=step)) for loss in BINARY + REAL for step in STEPS)
    smooth = [*BINARY, Squared(), fiol.Huber(0.7)]
    assert all(fits_lanes(plan(loss, Ridge(0.1), step)) for loss in smooth for step in STEPS if step != Constant(0.3))
    others = [plan(Own()), plan(fiol.Poisson()), plan(fiol.Softmax()), plan(step=Warm()), plan(step=fiol.Polynomial())]
    others += [plan(step=ScaleFree(Curvature(noise=0.1))), plan(step=Curvature(noise=0.1))]
    others += [plan(penalty=fiol.L1(0.1)), plan(geometry=fiol.DiagonalMetric([2.0]))]
    others += [plan(penalty=Ridge([0.1, 0.2])), plan(penalty=Ridge(0.1), step=Constant(0.1))]  # by a common factor
    others += [plan(penalty=fiol.ElasticNet(0.0, 0.1)), plan(penalty=fiol.Box(Ridge(0.1), 0.0))]
    others += [plan(penalty=Ridge(0.1), step=ScaleFree(AdaGrad(), raw_penalty=1)), plan(penalty=Ridge(1e300))]
    others += [plan(fiol.Absolute(), Ridge(0.1))]
    others += [plan(penalty=fiol.Box(fiol.Unregularized(), 0.0)), make_plan(fiol.SGD(Logistic(), step_size=AdaGrad()))]
    others += [make_plan(fiol.FTRLProximal(Logistic()))]
    assert not any(map(fits_lanes, others))
    good = plan()
    assert chosen_lanes([others[0], good, others[1], good], False) == [1, 3]
    assert chosen_lanes([good, others[0]], False) == []
    assert chosen_lanes([good] * 10, False) == list(range(7))
    lane_group.INTERPRETED = False
    assert chosen_lanes([good, good], False) == []


# --- in a learner -----------------------------------------------------------------------------

MIXED = [FIOL(Logistic(), step_size=STEPS[k]) for k in (0, 1, 2, 5, 6, 8, 9, 10)]  # 8 members, 7 of which are lanes
MIXED.insert(2, FIOL(Logistic(), fiol.L1(0.01), AdaGrad()))
#: The same with a ridge, which one of the seven has not.
RIDGED = [FIOL(Logistic(), Ridge(0.02), STEPS[k]) for k in (0, 2, 3, 5, 6, 9, 10)]
RIDGED[4:4] = [FIOL(Logistic(), step_size=STEPS[8]), FIOL(Logistic(), fiol.L1(0.01), AdaGrad())]


def stream(n=60, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * rng.integers(0, 2, (n, d)) * np.logspace(-2, 2, d)
    return X, np.where(X @ rng.normal(size=d) + 0.3 * rng.normal(size=n) > 0.0, 1.0, -1.0)


def model(monkeypatch, lanes, members=MIXED, **options):
    monkeypatch.setattr(lane_group, "INTERPRETED", lanes)
    found = Learner(Ensemble(members), compiled=False, **options)
    assert len(found.engine.members_in_use.in_lanes) == 7 * lanes
    return found


@pytest.mark.parametrize(
    ("options", "members"),
    [({}, MIXED), ({}, RIDGED), ({"dtype": "float32"}, RIDGED), ({"intercept": False}, MIXED), ({"bits": 8}, RIDGED)],
    ids=["no penalty", "ridge", "ridge, float32", "no penalty, no intercept", "ridge, hashed"],
)
def test_learner_with_lanes_matches_separate_members(monkeypatch, tmp_path, options, members):
    X, y = stream(36)
    options = {**options, "members": members}
    beside = model(monkeypatch, False, **options)
    near = {"rtol": 1e-3, "atol": 1e-4} if "dtype" in options else {"rtol": 1e-9, "atol": 1e-11}
    expected, weights = beside.learn(X, y), beside.weights
    lanes = model(monkeypatch, True, **options)
    np.testing.assert_allclose(lanes.learn(X, y), expected, **near)
    np.testing.assert_allclose(lanes.weights, weights, **near)
    assert lanes.intercept == pytest.approx(beside.intercept, rel=1e-3 if "dtype" in options else 1e-9)
    assert lanes.core.arrays().keys() == beside.core.arrays().keys()
    assert [member.nonzero for member in lanes.members] == [member.nonzero for member in beside.members]
    np.testing.assert_allclose(lanes.scores(X), beside.scores(X), **near)
    lanes.save(tmp_path / "lanes.fiol")
    beside.save(tmp_path / "beside.fiol")
    exchanged = fiol.load(tmp_path / "beside.fiol", compiled=False)  # into lanes
    assert len(exchanged.engine.members_in_use.in_lanes) == 7
    again = fiol.load(tmp_path / "lanes.fiol", compiled=False)
    assert all(a.tobytes() == lanes.core.arrays()[name].tobytes() for name, a in again.core.arrays().items())
    scores = lanes.learn(X, y)
    assert (again.learn(X[:23], y[:23]) == scores[:23]).all()
    again.weights  # reading brings nothing up to date
    assert (again.learn(X[23:], y[23:]) == scores[23:]).all()
    np.testing.assert_allclose(exchanged.learn(X, y), scores, **near)
    monkeypatch.setattr(lane_group, "INTERPRETED", False)
    apart = fiol.load(tmp_path / "lanes.fiol", compiled=False)
    np.testing.assert_allclose(apart.learn(X, y), scores, **near)


@pytest.mark.parametrize("members", [MIXED, RIDGED], ids=["no penalty", "ridge"])
def test_copied_merged_and_pruned_lanes_learn_on(monkeypatch, members):
    X, y = stream(90)
    names = [{f"f{i}": float(v) for i, v in enumerate(row) if v} for row in X]
    found = []
    for in_lanes in (False, True):
        parts = [model(monkeypatch, in_lanes, members) for _ in range(2)]
        parts[0].learn(names[:40], y[:40])
        parts[1].learn(names[20:60], y[20:60])
        merged = Learner.merge([parts[0].copy(), parts[1]])
        cut = model(monkeypatch, in_lanes, members, n_features=5)
        cut.learn(X[:30], y[:30])
        cut.engine.select(np.array([4, 0, 2]))
        pooled = model(monkeypatch, in_lanes, members)
        pooled.learn_parallel(X, y, parts=3, threads=1)
        found.append([merged.learn(names[60:], y[60:]), merged.weights, cut.engine.weights(3, False), pooled.weights])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("members", [MIXED, RIDGED], ids=["no penalty", "ridge"])
def test_lanes_start_from_given_weights_of_unseen_features(monkeypatch, members):
    X, y = stream()
    found = []
    for in_lanes in (False, True):
        warm = model(monkeypatch, in_lanes, members, n_features=5)
        warm.engine.start_from(np.arange(5.0), 0.5)
        np.testing.assert_allclose(warm.weights, np.arange(5.0), rtol=1e-12)
        found.append(warm.learn(X, y))
    np.testing.assert_allclose(*found, rtol=1e-9, atol=1e-11)


def by_hand(X, y, size, lam, kappa=0.1):
    """Scores of scale-free AdaGrad with a ridge in units of features: all weights take part in every round."""
    d = X.shape[1]
    u, sums, peak, bias, own, scores = np.zeros(d), np.zeros(d), np.zeros(d), 0.0, 0.0, []  # u is a weight times peak
    for x, target in zip(X, y, strict=True):
        x = learned(x, peak)
        peak = np.maximum(peak, abs(x))
        a = np.divide(x, peak, out=np.zeros(d), where=peak > 0.0)  # u stays: weights shrink as peaks grow
        z = a @ u + bias
        square = (1.0 / (1.0 + np.exp(target * z))) ** 2 / 16.0 * (1.0 + a @ a)
        sums, own = sums + square * x * x, own + square
        root = np.divide(np.sqrt(sums), peak, out=np.zeros(d), where=peak > 0.0)
        step, lift = size / (kappa + root), size / (kappa + np.sqrt(own))
        kept = np.where(peak > 0.0, 1.0 / (1.0 + lam * step), 1.0)

        def off(beta, a=a, u=u, bias=bias, step=step, kept=kept, lift=lift, target=target):
            after = a @ (kept * (u + step * beta * a)) + bias + lift * beta
            return beta - target / (1.0 + np.exp(target * after))

        beta = brentq(off, -1.0, 1.0, xtol=1e-16, rtol=1e-15)
        u, bias = kept * (u + step * beta * a), bias + lift * beta
        scores.append(z)
    return np.array(scores), u / np.where(peak > 0.0, peak, 1.0)


def test_ridge_in_lanes_matches_eager_loop(in_the_interpreter):
    X, y = stream(120, 6)
    X[10:90, :3] = 0.0  # features that are away for long
    sizes, strengths = (1.0, 30.0, 1.0), (0.01, 0.001, 3.0)
    updates = [
        FIOL(Logistic(), Ridge(lam), ScaleFree(AdaGrad(size), centered=0))
        for size, lam in zip(sizes, strengths, strict=True)
    ]
    learner = Learner(Ensemble(updates), n_features=6, compiled=False)
    assert learner.engine.all_in_lanes
    kept = np.zeros((len(y), 4))
    chunk = Chunk(np.arange(0, 6 * len(y) + 1, 6), np.tile(np.arange(6, dtype=np.int32), len(y)), X.ravel())
    there = chunk.data != 0.0
    chunk = Chunk(np.append(0, np.cumsum(there.reshape(-1, 6).sum(axis=1))), chunk.indices[there], chunk.data[there])
    learner.engine.learn_plainly(chunk, y, np.ones(len(y)), kept_scores=kept)
    for k, (size, lam) in enumerate(zip(sizes, strengths, strict=True)):
        scores, weights = by_hand(X, y, size, lam)
        np.testing.assert_allclose(kept[:, k], scores, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(learner.engine.group.weights(6)[:, k], weights, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_last_seen_of_lanes_is_exact_beyond_2_to_24_rounds(dtype):
    """Beyond 2^24 rounds, which are the whole numbers of a float."""
    rng = np.random.default_rng(4)
    chunk, y, weight = rows(rng, 30, 5, Logistic())
    alone = engines(Logistic(), STEPS[6:11], 5, dtype=dtype, strengths=(1e-5,) * 5)
    for engine in alone:
        engine.learn(chunk, y, weight)
        engine.ticks[0] += 3.0 * 2**24 + 7.0
        engine.state.last_seen[:3] += 2.0**24 + 1.0
    group = LaneGroup(alone)
    assert group.pack(alone)
    group.make_place(5, 5)
    for one, other in zip(group.unpacked(), alone, strict=True):
        assert one.state.last_seen.tolist() == other.state.last_seen.tolist()
    found = group.new_scores(30)
    group.learn(chunk, y, weight, found)
    expected = np.column_stack([engine.learn(chunk, y, weight) for engine in alone])
    agree(group.scores_of_members(found), expected, 1e-11 if dtype == "float64" else 1e-4)
    for one, other in zip(group.unpacked(), alone, strict=True):
        assert one.state.last_seen.tolist() == other.state.last_seen.tolist()
    other = alone[1].copy()
    other.state.last_seen[0] -= 1.0
    assert not group.pack([alone[0], other, *alone[2:]])  # they have not missed the same rounds


@pytest.mark.parametrize("penalty", [fiol.ElasticNet(0.02, 0.1), Ridge(0.1)], ids=repr)
def test_gated_stack_with_a_ridge_runs_in_lanes(monkeypatch, penalty):
    X, y = stream(150)
    found = []
    for in_lanes in (False, True):
        monkeypatch.setattr(lane_group, "INTERPRETED", in_lanes)
        learner = Learner(fiol.Stacked(Logistic(), penalty), compiled=False)
        assert len(learner.engine.members_in_use.in_lanes) == 7 * in_lanes
        found.append([learner.learn(X, y), learner.weights, [m.loss for m in learner.members]])
        assert learner.n_nonzero == (5 if penalty == Ridge(0.1) else np.count_nonzero(found[0][1])) > 0
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-11)


def test_members_with_different_rows_stay_out_of_lanes(in_the_interpreter):
    X, y = stream()
    ensemble = Learner(Ensemble(MIXED), compiled=False)
    engine = ensemble.engine
    engine.grow(5)
    members = engine.members
    members[-2].state.statistics[2, -1] = 7.0  # its largest value of feature 2
    engine.members = members
    assert engine.members_in_use.in_lanes == []
    assert np.isfinite(ensemble.learn(X, y)).all()


# --- stacks -----------------------------------------------------------------------------------


def stacked(kernel, loss, Z, y, weight, *lanes, alone=0.0):
    """Return the scores and the final state of a stack; the number of zeros in `lanes` sets the width.

    Members by themselves have `alone` of all shares.
    """
    stack, members = fiol.NewtonStack(), Z.shape[1]
    state, scores, width = new_stack_state(stack, members), np.zeros(len(y)), len(lanes[0]) if lanes else 0
    if alone:
        state = state._replace(share=state.share * (1.0 - alone), alone=np.full(members, alone / members))
    if not lanes:
        kernel(stack, loss, Z, y, weight, state, scores)
        return [scores, *state]
    wide = np.zeros((len(y), width))
    wide[:, :members] = Z
    known, buffers = widened(state, width, stack.prior), lane_buffers(len(state.v), width)
    kernel(stack, loss, *lanes, wide.reshape(-1), y, weight, members, known, buffers, scores)
    return [scores, *narrowed(known, len(state.v), members)]


def members_scores(rng, loss, n, members):
    """Return scores of members with different errors, targets and sample weights."""
    f = 2.0 * rng.normal(size=n)
    y = f + rng.normal(size=n) if loss in REAL else np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-f)), 1.0, -1.0)
    Z = f[:, None] * rng.uniform(0.2, 1.5, members) + rng.normal(size=(n, members)) * rng.uniform(0.1, 1.0, members)
    return Z, y, rng.choice([0.0, 1.0, 2.0], n)


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(BINARY + REAL), st.integers(1, 8), st.integers(0, 10**6), st.sampled_from([0.0, 0.7]))
def test_newton_stack_in_lanes_matches_scalar_stack(loss, members, seed, alone):
    rng = np.random.default_rng(seed)
    Z, y, weight = members_scores(rng, loss, 60, members)
    Z[20] *= 50.0  # beyond the limit of two classes, and what is rare
    if members > 1:
        Z[40, rng.integers(members)] = np.nan  # who is taken out
    with np.errstate(all="ignore"):
        expected = stacked(interpreted(stack_rows), loss, Z, y, weight, alone=alone)
        found = stacked(interpreted(lane_stack_rows), loss, Z, y, weight, (0.0,) * 8, (0.0,) * 4, alone=alone)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-10 * abs(other).max(initial=0.0))


@pytest.mark.parametrize("alone", [0.0, 0.7])
def test_compiled_newton_stack_in_lanes_matches_scalar_stack(alone):
    Z, y, weight = members_scores(np.random.default_rng(3), Logistic(), 400, 7)
    with np.errstate(all="ignore"):
        expected = stacked(interpreted(stack_rows), Logistic(), Z, y, weight, alone=alone)
    found = stacked(lane_stack_rows, Logistic(), Z, y, weight, (0.0,) * 8, (0.0,) * 4, alone=alone)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-10 * abs(other).max(initial=0.0))
