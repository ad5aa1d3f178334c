"""Models with curves and pairs that learned apart: knots that differ, columns that move while shards learn."""

import itertools

import numpy as np
import pandas as pd
import pytest
from tests.interpreted import interpret

import fiol
from fiol.components.table_basis import TableBasis
from fiol.engine.parallel import rounds
from fiol.engine.parallel.levels import with_other_knots, with_points
from fiol.features.basis_extension import MOST_UNITED, united_knots
from fiol.models.distributed_round import RoundMerger, learn_shard, losses_along_line

NUMBERS = {"near": "number", "far": "number", "further": "number"}


@pytest.fixture(autouse=True)
def in_the_interpreter(monkeypatch):
    interpret(monkeypatch)


def curved(n=500, shift=0.0, seed=0):
    """Return a table of numbers, and targets with a curve and a product."""
    draw = np.random.default_rng(seed)
    X = draw.normal(size=(n, 3)) + shift
    return X, np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * draw.normal(size=n)


def moving(n=4000):
    """Return a table whose first column moves to other values after two fifths of the rows, and targets."""
    X, y = curved(n)
    X[:, 0] += 4.0 * (np.arange(n) > 0.4 * n)
    return X, y + np.sin(2.0 * X[:, 0]) - np.sin(2.0 * (X[:, 0] - 4.0 * (np.arange(n) > 0.4 * n)))


def learned(data, **options):
    learner = fiol.Learner(loss=fiol.Squared(), features="auto", **options)
    learner.learn(*data)
    return learner


def level_scores(core, X, level):
    engine = core.levels
    return engine.levels[level].scores(engine.expanded(core.read_rows(X))[level])


def test_curves_stay_as_they_are_with_more_knots_between_theirs():
    parts = [learned(curved(shift=shift, seed=seed)) for shift, seed in ((0.0, 1), (0.3, 2))]
    knots = united_knots(TableBasis(), [part.core.levels.basis for part in parts])
    X = curved(300, seed=3)[0] * 1.5
    for part in parts:
        changed = part.copy()
        changed.core.engine = with_other_knots(part.core.levels, knots)
        difference = [np.abs(level_scores(changed.core, X, k) - level_scores(part.core, X, k)).max() for k in (0, 1)]
        assert max(difference) < 1e-12


def test_surfaces_have_the_same_values_at_all_nodes_with_more_knots_between_theirs():
    parts = [learned(curved(shift=shift, seed=seed)) for shift, seed in ((0.0, 1), (0.3, 2))]
    knots = united_knots(TableBasis(), [part.core.levels.basis for part in parts])
    nodes = np.stack(np.meshgrid(*(slot.points for slot in knots[:2])), axis=-1).reshape(-1, 2)
    X = np.column_stack([nodes, np.full(len(nodes), knots[2].points[3])])
    for part in parts:
        changed = part.copy()
        changed.core.engine = with_other_knots(part.core.levels, knots)
        np.testing.assert_allclose(level_scores(changed.core, X, 2), level_scores(part.core, X, 2), rtol=0, atol=1e-12)


def test_merged_models_with_knots_of_their_own_are_as_good_as_their_mean():
    parts = [learned(curved(3000, shift, seed)) for shift, seed in ((0.0, 1), (0.3, 2))]
    X, y = curved(1000, 0.15, 3)
    scores = fiol.Learner.merge(parts).scores(X)
    mean = np.mean([part.scores(X) for part in parts], axis=0)
    assert np.mean((scores - y) ** 2) < 1.1 * np.mean((mean - y) ** 2)


def test_merged_knots_are_bounded():
    options = TableBasis(rows=40, knots=8, grid=2)
    parts = [fiol.Learner(loss=fiol.Squared(), features=options) for _ in range(8)]
    for seed, part in enumerate(parts):
        part.learn(*curved(60, seed=seed))
    merged = fiol.Learner.merge(parts)
    assert merged.core.levels.basis.counts.max() <= MOST_UNITED * 8 + 1
    assert merged.core.levels.basis.points.max() <= MOST_UNITED * 2 + 2
    merged.learn(*curved(60, seed=9))


def test_merged_knots_of_columns_with_few_values_are_bounded():
    options = TableBasis(rows=40, knots=8, grid=2)
    parts = [fiol.Learner(loss=fiol.Squared(), features=options) for _ in range(8)]
    for shift, part in enumerate(parts):
        draw = np.random.default_rng(shift)
        X = draw.integers(0, 6, (60, 2)) + 6.0 * shift
        part.learn(X, np.sin(X[:, 0]) + X[:, 1])
        assert part.core.levels.basis.few.all()
    basis = fiol.Learner.merge(parts).core.levels.basis
    assert basis.counts.max() <= MOST_UNITED * 8 + 1
    assert basis.points.max() <= MOST_UNITED * 2 + 2
    assert not basis.few.any()  # knots between the values that were left out


def test_merge_with_another_choice_of_pairs_raises():
    parts = [fiol.Learner(loss=fiol.Squared(), features=TableBasis(rows=40, max_pairs=3, choice_rows=40)) for _ in "ab"]
    for seed, part in enumerate(parts):
        draw = np.random.default_rng(seed)
        X = draw.normal(size=(200, 8))
        part.learn(X, X[:, seed] * X[:, seed + 3])
    with pytest.raises(ValueError, match=r"learners\[1\] has other .*pairs: .*after 80 rows"):
        fiol.Learner.merge(parts)


def far_table(n, far, rate, seed):
    """Return a column far from 0 or not, one that is, with missing values, and targets."""
    draw = np.random.default_rng(seed)
    Z = draw.normal(size=(n, 3))
    frame = pd.DataFrame({"near": Z[:, 0], "far": Z[:, 1] + far, "further": Z[:, 2] - 3000.0})
    for name in ("far", "further"):
        frame.loc[(draw.random(n) < rate) & (np.arange(n) > 0), name] = np.nan
    return frame, Z @ [1.0, -0.5, 0.7] + 0.1 * draw.normal(size=n)


@pytest.mark.parametrize("rates", [(0.1, 0.1), (0.0, 0.1), (0.0, 0.0)])
def test_merged_levels_that_centered_other_columns_have_the_mean_score_of_missing_values(rates):
    encoding = fiol.TableEncoding.from_spec(NUMBERS)
    update = fiol.Ensemble([fiol.FIOL(fiol.Squared())], basis=TableBasis(max_pairs=0))
    parts = [fiol.Learner(update, table_encoding=encoding) for _ in rates]
    for part, far, rate in zip(parts, (300.0, 0.0), rates, strict=True):
        part.learn(*far_table(190, far, rate, 0))
    test = far_table(40, 300.0, 0.5, 7)[0]
    merged = fiol.Learner.merge(parts)
    scores = [level_scores(model.core, test, 0) for model in (merged, *parts)]
    np.testing.assert_allclose(scores[0], np.mean(scores[1:], axis=0), rtol=0.05, atol=0.3)  # stacks are means, too


# --- columns that move while shards learn -----------------------------------------------------


def learned_in_shards(X, y, first=1000):
    base = learned((X[:first], y[:first]))
    start = first
    while start < len(X):
        stop = min(int(1.2 * start), len(X))
        shards = [(X[a:b], y[a:b]) for a, b in itertools.pairwise(np.linspace(start, stop, 4).astype(int))]
        merger = RoundMerger(base, [learn_shard(base, *shard, parts=3) for shard in shards])
        base = merger.finish(sum(losses_along_line(merger.base, merger.full, *shard, parts=3) for shard in shards))
        start = stop
    return base


def learned_in_parallel(X, y):
    learner = fiol.Learner(loss=fiol.Squared(), features="auto")
    learner.learn_parallel(X, y, parts=3)
    return learner


@pytest.mark.parametrize("learn", [learned_in_shards, learned_in_parallel])
def test_rounds_add_knots_for_columns_that_move(learn):
    X, y = moving()
    stream, shards = learned((X, y)), learn(X, y)
    highest = [model.core.levels.basis.knots.max() for model in (stream, shards)]
    assert min(highest) > 5.0
    assert shards.core.levels.basis.check[0] > len(X)
    assert not shards.core.levels.is_shard
    test, target = curved(1000, seed=8)
    test[:, 0] += 4.0
    target += np.sin(2.0 * test[:, 0]) - np.sin(2.0 * (test[:, 0] - 4.0))
    errors = [np.mean((model.scores(test) - target) ** 2) for model in (stream, shards)]
    assert errors[1] < 1.5 * errors[0]


def test_rounds_begin_after_the_rows_that_knots_are_found_from(monkeypatch):
    monkeypatch.setattr(rounds, "ALONE", 50)
    X, y = curved(400, seed=0)
    learner = fiol.Learner(loss=fiol.Squared(), features=TableBasis(rows=120, max_pairs=0))
    learner.learn_parallel(X[:90], y[:90], parts=2)
    assert learner.core.levels.basis is None
    learner.learn_parallel(X[90:], y[90:], parts=2)
    assert learner.rows == 400
    assert learner.core.levels.basis is not None


def test_pairs_are_chosen_by_the_rows_of_all_shards():
    draw = np.random.default_rng(0)
    X = draw.normal(size=(600, 8))
    y = 2.0 * X[:, 1] * X[:, 6]
    options = TableBasis(rows=40, max_pairs=10, choice_rows=200)
    base = fiol.Learner(loss=fiol.Squared(), features=options)
    base.learn(X[:100], y[:100])
    assert base.core.levels.basis.undecided
    shards = [(X[a : a + 250], y[a : a + 250]) for a in (100, 350)]
    merger = RoundMerger(base, [learn_shard(base, *shard, parts=2) for shard in shards])
    found = merger.finish(sum(losses_along_line(merger.base, merger.full, *shard, parts=2) for shard in shards))
    basis = found.core.levels.basis
    assert (1, 6) in zip(basis.member[basis.left].tolist(), basis.member[basis.right].tolist(), strict=True)
    found.learn(X, y)


@pytest.mark.parametrize("moved", [0, 1])
def test_knots_are_added_for_a_column_that_moves_in_any_shard(moved):
    draw, blocks = np.random.default_rng(0), []
    for shift in (0.0, 6.0 * (moved == 0), 6.0 * (moved == 1)):
        X = draw.normal(size=(400, 2))
        X[:, 0] += shift
        blocks.append((X, np.sin(2.0 * X[:, 0])))
    base = fiol.Learner(loss=fiol.Squared(), features="additive")
    base.learn(*blocks[0])
    merger = RoundMerger(base, [learn_shard(base, *block, parts=2) for block in blocks[1:]])
    found = merger.finish(sum(losses_along_line(merger.base, merger.full, *block, parts=2) for block in blocks[1:]))
    assert found.core.levels.basis.knots.max() > 6.0


# --- what hats and nodes inherit --------------------------------------------------------------


def test_learner_without_knots_adds_nothing_inherited_to_a_merge():
    parts = [fiol.Learner(loss=fiol.Squared(), features="additive") for _ in range(2)]
    X, y = moving()
    parts[0].learn(X, y), parts[1].learn(X[:100], y[:100])
    own = parts[0].core.levels.basis.inherited
    merged = fiol.Learner.merge(parts, weights=[1, 3]).core.levels.basis.inherited
    assert own.sum() > 0.0
    np.testing.assert_allclose(merged, 0.25 * own)


def test_inherited_stiffness_moves_with_the_nodes_of_categories():
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"a": draw.normal(size=400), "city": draw.choice(list("ABCD"), 400)})
    learner = fiol.Learner(loss=fiol.Squared(), features="auto")
    learner.learn(frame, frame["a"] * (frame["city"] == "B"))
    engine = learner.core.levels
    known, added = int(engine.basis.known[0]), engine.basis.added[2]
    stiff = engine.levels[2].stiffness(known + added)[known:]
    engine.replace(basis=engine.basis._replace(inherited=stiff))
    points = [
        np.roll(np.arange(n), 1 if numeric == 0 else 0)
        for n, numeric in zip(*map(np.ndarray.tolist, (engine.basis.points, engine.basis.numeric)), strict=True)
    ]
    moved = with_points(engine, points, engine.basis.codes)
    found = moved.levels[2].stiffness(known + added)[known:]
    assert (found != stiff).any()
    assert (moved.basis.inherited == found).all()
