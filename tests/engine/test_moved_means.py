"""Scores stay, or are means of scores, where means of columns and the origin of targets move between rows."""

import numpy as np
import pandas as pd
import pytest
from interpreted import interpret

import fiol
from fiol.engine.first_rows import WINDOW
from fiol.engine.parallel.shards import move_centering

STEP = fiol.ScaleFree(fiol.AdaGrad(3.0))
NET = fiol.ElasticNet(0.01, 0.02)
PUSHED = fiol.Update(
    fiol.Squared(), NET, STEP, regularizer_step=fiol.LinearizedRegularizer(), anchor=fiol.AllIterates()
)
GATED = fiol.Ensemble(
    [fiol.FIOL(fiol.Squared(), fiol.Ridge(0.02), fiol.ScaleFree(fiol.AdaGrad(s))) for s in (0.3, 3.0)],
    gate=fiol.ImplicitFTRL(fiol.Squared(), fiol.L1(0.01), STEP),
)
UPDATES = {
    "last iterate": (fiol.FIOL(fiol.Squared(), NET), {}),
    "implicit": (fiol.ImplicitFTRL(fiol.Squared(), NET, STEP), {}),
    "averaged": (fiol.ImplicitFTRL(fiol.Squared(), NET, STEP), {"average": True}),
    "once": (fiol.FTRLProximal(fiol.Squared(), NET, STEP, once=True), {}),
    "raw penalty": (fiol.FTRLProximal(fiol.Squared(), NET, fiol.ScaleFree(raw_penalty=1)), {}),
    "dual averaging": (fiol.Update(fiol.Squared(), NET, STEP, anchor=fiol.Origin()), {}),
    "pushed": (PUSHED, {}),
    "softmax": (fiol.FTRLProximal(fiol.Softmax(), NET, STEP), {}),
    "gated": (GATED, {}),
    "stack": (fiol.Stacked(fiol.Squared()), {}),
    "stack with ridge": (fiol.Stacked(fiol.Squared(), fiol.Ridge(0.02)), {}),
}
KINDS = pytest.mark.parametrize("kind", UPDATES)
SUMS = [kind for kind in UPDATES if kind not in ("last iterate", "stack", "stack with ridge")]
COLUMNS = ("near", "far", "further")


@pytest.fixture(autouse=True)
def in_the_interpreter(monkeypatch):
    interpret(monkeypatch)


def table(n=150, rate=0.1, far=300.0, seed=0):
    draw = np.random.default_rng(seed)
    Z = draw.normal(size=(n, 3))
    frame = pd.DataFrame({"near": Z[:, 0], "far": Z[:, 1] + far, "further": Z[:, 2] - 3000.0})
    for name in COLUMNS[1:]:
        frame.loc[(draw.random(n) < rate) & (np.arange(n) > 0), name] = np.nan
    return frame, Z @ [1.0, -0.5, 0.7] + 0.1 * draw.normal(size=n)


def new(kind):
    update, options = UPDATES[kind]
    learner = fiol.Learner(update, table_encoding=dict.fromkeys(COLUMNS, "number"), **options)
    if kind == "softmax":
        learner.add_classes([0, 1, 2])
    return learner


def learned(kind, **rows):
    learner = new(kind)
    frame, y = table(**rows)
    learner.learn(frame, np.digitize(y, [-0.5, 0.5]) if kind == "softmax" else y)
    return learner


def move(learner, means, origin=0.0):
    """Let means of columns, and the origin, move this far."""
    engine = learner.core.engine
    engine.settle()
    old = engine.centering
    origins = old.origin + np.array([origin, 0.0])
    move_centering(engine, old._replace(sums=old.sums + means * old.rows, origin=origins))


def member_scores(learner, rows):
    """Return the scores of rows by all members, or those of a single learner."""
    engine, chunk = learner.core.engine, learner.core.encode_rows(rows)
    return engine.scores_of_members(engine.centered(chunk)) + engine.origin if learner.members else learner.scores(rows)


@KINDS
@pytest.mark.parametrize("rate", [0.0, 0.1])
def test_scores_stay_where_means_move(kind, rate):
    learner, (more, _) = learned(kind, rate=rate), table(40, 0.5 * (rate > 0.0), seed=1)
    assert len(learner.core.engine.centering.features) == 2
    before, weights = learner.scores(more), learner.weights[..., :3].copy()
    move(learner, np.array([3.0, -7.0]))
    np.testing.assert_allclose(learner.scores(more), before, rtol=0, atol=1e-8)
    np.testing.assert_allclose(learner.weights[..., :3], weights, rtol=0, atol=1e-12)


@KINDS
def test_scores_stay_where_means_of_missing_values_move(kind):
    learner, (frame, y) = new(kind), table(rate=0.3)
    frame.loc[1 : WINDOW - 1, "far"] = np.nan  # so that missing values are centered, too
    learner.learn(frame, np.digitize(y, [-0.5, 0.5]) if kind == "softmax" else y)
    assert len(learner.core.engine.centering.features) == 3
    more = table(40, 0.5, seed=1)[0]
    before = learner.scores(more)
    move(learner, np.array([3.0, -7.0, 0.2]))
    np.testing.assert_allclose(learner.scores(more), before, rtol=0, atol=1e-8)


@pytest.mark.parametrize("kind", ["gated", "stack", "stack with ridge"])
def test_scores_of_members_stay_where_the_origin_moves_and_those_of_the_stack_move_by_its_weights(kind):
    learner, (more, _) = learned(kind), table(40, seed=1)
    before, of_members, v = learner.scores(more), member_scores(learner, more), learner.core.engine.mixing
    move(learner, np.array([3.0, -7.0]), 2.0)
    np.testing.assert_allclose(member_scores(learner, more), of_members, rtol=0, atol=1e-8)
    np.testing.assert_allclose(learner.scores(more) - before, 2.0 * (1.0 - v.sum()), rtol=0, atol=1e-8)


def test_scores_stay_where_the_origin_of_a_merge_is_that_of_the_first_shard():
    base = fiol.Learner(fiol.Stacked(fiol.Squared()))
    base.learn(table(2)[0], np.zeros(2), sample_weight=np.zeros(2))
    before = base.scores(table(40)[0])
    move(base, np.zeros(0), 2.0)
    assert base.core.engine.mixing.sum() == pytest.approx(1.0, rel=1e-12)
    np.testing.assert_allclose(base.scores(table(40)[0]), before, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", SUMS)
@pytest.mark.parametrize("fars", [(300.0, 300.0), (300.0, 0.0), (0.0, 300.0)])
def test_merged_sums_have_means_of_scores_at_the_means_of_columns(kind, fars):
    parts = [learned(kind, far=far, seed=seed) for seed, far in enumerate(fars)]
    centered = [len(part.core.engine.centering.features) for part in parts]
    assert centered == [1 + (far > 0.0) for far in fars]
    more = table(40, 0.5, seed=2)[0]
    merged, means = fiol.Learner.merge(parts), np.mean([member_scores(part, more) for part in parts], axis=0)
    assert np.abs(member_scores(merged, more) - means).max() < 4.0


def test_sums_of_a_penalty_without_slope_are_refused():
    class NoSlope(fiol.Regularizer):
        def value(self, w, i):
            return 0.0

        def prox(self, u, step, i):
            return u

    learner = fiol.Learner(
        fiol.FTRLProximal(fiol.Squared(), NoSlope(), STEP), table_encoding=dict.fromkeys(COLUMNS, "number")
    )
    learner.learn(*table())
    with pytest.raises(ValueError, match=r"NoSlope has no `slope`.*define it, or use LastIterate\(\)"):
        move(learner, np.array([3.0, -7.0]))
