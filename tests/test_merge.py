"""Merging learners is associative and commutative, by name, from scratch or from a base."""

import functools
import math
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.test_stored_numbers import BINARY, NUMBERS

import fiol
from fiol import FIOL, L1, RDA, Box, Constant, Learner, Logistic, OneVsRest, Polynomial, Ridge, Softmax, Squared
from fiol.algorithms.plan import make_plan
from fiol.engine.parallel.merge import shares_of

D = 12
#: Every preset, weights that are not 0 for features never seen, and steps or rounds that every absent feature feels.
UPDATES = {
    **BINARY,
    **NUMBERS,
    "box above 0": FIOL(Squared(), Box(Ridge(0.1), 0.5, 2.0), Polynomial()),
    "box above 0, adaptive": FIOL(Squared(), Box(Ridge(0.1), 0.5, 2.0), fiol.AdaGrad()),
    "normalised": FIOL(Squared(), Ridge(0.1), fiol.ScaleFree(fiol.Normalized())),
    "curvature, with noise": FIOL(Squared(), Ridge(0.1), fiol.ScaleFree(fiol.Curvature(noise=0.1))),
    "coin": fiol.Coin(Logistic(), Ridge(0.1)),
    "entropy": FIOL(Squared(), L1(0.1), Constant(0.1), fiol.SignedEntropy()),
    "simplex": FIOL(Squared(), step_size=Polynomial(), geometry=fiol.Simplex()),
    "RDA ridge": RDA(Logistic(), Ridge(0.1), Polynomial()),
}
NAMED = [name for name in UPDATES if name not in ("Mahalanobis", "simplex")]  # these know their features by number
NAMES = [f"word {k}" for k in range(D)]
AVERAGED = ("FIOL", "FIOL l1", "FIOL ridge, constant", "SGD ridge", "RDA net", "FTRLProximal", "squared", "entropy")


def rows_of(update, rows, seed):
    """Sparse rows, and targets that depend on them."""
    draw = np.random.default_rng(seed)
    x = np.round(draw.standard_normal((rows, D)), 2) * (draw.random((rows, D)) < 0.4)
    y = x[:, 0] - x[:, 1] + 0.5 * draw.standard_normal(rows)
    return x, np.where(y > 0.0, 1.0, -1.0) if isinstance(update.loss, fiol.Binary) else y


def dicts(x, order=range(D)):
    return [{NAMES[i]: float(row[i]) for i in order if row[i]} for row in x]


def new(update, **options):
    """A learner, with the number of features if the update needs it."""
    plan = make_plan(update, options.get("average", False))
    if update.geometry.reparametrization().whole_rows or (plan.lazy_update.everywhere and plan.first_weight(1) != 0.0):
        options.setdefault("n_features", D)
    return Learner(update, compiled=False, **options)


def trained(update, rows, seed, model=None, **options):
    model = new(update, **options) if model is None else model.copy()
    model.learn(*rows_of(update, rows, seed))
    return model


def trained_by_name(update, rows, seed, order=range(D), model=None, **options):
    model = new(update, **options) if model is None else model.copy()
    x, y = rows_of(update, rows, seed)
    model.learn(dicts(x, order), y)
    return model


def record(model):
    """Return the state that merging may depend on, by name."""
    model = model.copy()
    model.settle()
    engine, each = model.engine, model.update.geometry.reparametrization().weights_per_feature
    names = range(model.n_features) if model.names is None else model.names
    engine.grow(each * model.n_features)
    weights = engine.weights(each * model.n_features, False).reshape(-1, each)
    averages = engine.weights(each * model.n_features, True).reshape(-1, each)
    of_feature = {name: [*weights[i], *averages[i], *engine.state.statistics[each * i]] for i, name in enumerate(names)}
    rest = [
        *engine.ticks,
        *engine.uncounted,
        model.intercept,
        model.last_intercept,
        *engine.intercept.statistics.ravel(),
    ]
    fresh = [*engine.fresh.w.ravel(), *engine.fresh.statistics.ravel()]
    return {**of_feature, "all": np.array(rest + fresh), "counts": (model.rows, model.rounds, model.n_features)}


def assert_same(a, b, rtol=1e-9, atol=1e-12, goes_on=True):
    """Check that the numbers of every feature and the scores of new rows are equal."""
    found, expected = record(a), record(b)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=rtol, atol=atol, err_msg=str(name))
    if goes_on:
        x, y = rows_of(a.update, 4, seed=99)
        x = x if a.names is None else dicts(x)
        found, expected = a.copy().learn(x, y), b.copy().learn(x, y)
        np.testing.assert_allclose(found, expected, rtol=max(rtol, 1e-7), atol=max(atol, 1e-9))


# --- laws -------------------------------------------------------------------------------------


def check_laws(a, b, c, rtol=1e-9, atol=1e-12):
    merge = type(a).merge
    whole = merge([a, b, c])
    assert whole.rows == a.rows + b.rows + c.rows
    for other in (merge([merge([a, b]), c]), merge([a, merge([b, c])]), merge([merge([a, c]), b]), merge([c, a, b])):
        assert_same(other, whole, rtol, atol)
    assert_same(merge([a, b]), merge([b, a]), rtol, atol)
    empty = Learner(a.update, compiled=False, **a.core.options())
    for neutral in (merge([empty, a]), merge([a, empty, empty]), merge([a])):
        assert_same(neutral, a, rtol, atol)
    equal = merge([a, a.copy()])
    assert (equal.rounds, equal.rows) == (a.rounds, 2 * a.rows)
    np.testing.assert_allclose(equal.weights, a.weights, rtol=rtol, atol=atol)


@pytest.mark.parametrize(
    ("name", "average"), [*((name, False) for name in UPDATES), *((name, True) for name in AVERAGED)]
)
def test_merge_is_associative_and_commutative(name, average):
    update = UPDATES[name]
    check_laws(*(trained(update, n, k, average=average) for k, n in enumerate((5, 9, 1))))


@pytest.mark.parametrize("name", NAMED)
def test_merge_of_names_in_any_order(name):
    update, draw = UPDATES[name], np.random.default_rng(3)
    parts = [trained_by_name(update, n, k, draw.permutation(D)) for k, n in enumerate((4, 9, 3))]
    assert parts[0].names != parts[1].names
    check_laws(*parts)
    whole = Learner.merge(parts)
    assert whole.names == list(dict.fromkeys(name for part in parts for name in part.names))
    numbered = Learner.merge([trained(update, n, k) for k, n in enumerate((4, 9, 3))])
    place = [NAMES.index(name) for name in whole.names]
    np.testing.assert_allclose(whole.weights, numbered.weights[place], rtol=1e-9, atol=1e-12)
    assert whole.intercept == pytest.approx(numbered.intercept, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", ["FIOL l1", "FTRLProximal", "FIOL ridge, constant", "squared"])
def test_merge_laws_in_float32(name):
    parts = [trained(UPDATES[name], n, n, dtype="float32", average=name == "squared") for n in (5, 9, 2)]
    check_laws(*parts, rtol=1e-5, atol=1e-5)
    assert Learner.merge(parts).engine.state.w.dtype == np.float32


@settings(max_examples=30, deadline=None)
@given(
    name=st.sampled_from(["FIOL l1", "FIOL", "RDA net", "FIOL ridge", "SGD l1"]),
    rows=st.lists(st.integers(0, 3), min_size=2, max_size=5),  # fewer than decide which columns are centered
    tree=st.randoms(use_true_random=False),
    average=st.booleans(),
)
def test_merge_by_any_tree_gives_the_same(name, rows, tree, average):
    """For random trees of pairs and triples, in any order."""
    update = UPDATES[name]
    orders = [tree.sample(range(D), D) for _ in rows]
    parts = [trained_by_name(update, n, k, orders[k], average=average) for k, n in enumerate(rows)]
    whole, left = Learner.merge(parts), list(parts)
    while len(left) > 1:
        few = [left.pop(tree.randrange(len(left))) for _ in range(min(len(left), tree.randint(2, 3)))]
        left.append(Learner.merge(few))
    assert left[0].rows == sum(rows)
    assert_same(left[0], whole)


# --- what is merged ---------------------------------------------------------------------------


def test_merged_weights_are_row_weighted_means_by_name():
    """Against the formula, with features that one of the learners never saw."""
    update = FIOL(Squared(), Ridge(0.1), Polynomial())
    a, b = new(update, average=True), new(update, average=True)
    a.learn([{"x": 1.0}, {"y": 2.0}, {"x": 1.0, "y": -1.0}], [1.0, 2.0, 3.0])
    b.learn([{"z": 1.0, "y": 1.0}], [4.0])
    both = Learner.merge([a, b])
    assert (both.names, both.rows, both.rounds) == (["x", "y", "z"], 4, 2)  # 10 / 4 rounds
    for read in ("weights", "last_weights"):
        own = [dict(zip(part.names, getattr(part, read), strict=True)) for part in (a, b)]
        expected = [(3 * own[0].get(name, 0.0) + own[1].get(name, 0.0)) / 4 for name in both.names]
        np.testing.assert_allclose(getattr(both, read), expected, rtol=1e-13)
    assert both.intercept == pytest.approx((3 * a.intercept + b.intercept) / 4, rel=1e-13)


def test_merge_counts_the_initial_weight_of_an_unseen_feature():
    """Weights of one half at first, which decay for features seen and not seen."""
    update = FIOL(Squared(), Box(Ridge(0.5), 0.1, 2.0), Constant(0.5))
    a, b = (Learner(update, compiled=False, intercept=False) for _ in range(2))
    a.learn([{"x": 1.0}, {"y": 1.0}], [1.0, 1.0])
    b.learn([{"y": 1.0}, {"y": 1.0}], [1.0, 1.0])
    unseen = b.scores([{"new": 1.0}])[0]
    assert unseen == pytest.approx(0.1)
    assert Learner.merge([a, b]).scores([{"x": 1.0}])[0] == pytest.approx((a.weights[0] + unseen) / 2, rel=1e-13)


def test_merge_of_dual_averaging_averages_pull_sums():
    """The mean of what weights are computed from, at the mean of the clocks."""
    update = RDA(Squared(), L1(0.01), Constant(0.5))
    a, b = trained(update, 6, 1, intercept=False), trained(update, 2, 2, intercept=False)
    both = Learner.merge([a, b])
    assert (both.rounds, both.rows) == (5, 8)
    pulls = (3 * a.engine.state.w[:D] + b.engine.state.w[:D]) / 4
    expected = 0.5 * np.sign(pulls) * np.maximum(np.abs(pulls) - 5 * 0.01, 0.0)
    np.testing.assert_allclose(both.weights, expected, rtol=1e-13, atol=1e-15)


def test_merged_averages_are_means_of_averages():
    a, b = (trained(UPDATES["FIOL"], n, n, average=True) for n in (3, 9))
    both = Learner.merge([a, b], weights=[1, 1])
    np.testing.assert_allclose(both.weights, (a.weights + b.weights) / 2, rtol=1e-13, atol=1e-16)
    untrained = new(UPDATES["FIOL"], average=True)
    little = Learner.merge([a, untrained], weights=[1, 9])  # three tenths of a round
    assert (little.rounds, little.rows) == (1, 3)
    np.testing.assert_allclose(little.weights, a.weights / 10, rtol=1e-13, atol=1e-16)


def test_merged_rows_and_rounds():
    update = UPDATES["FIOL l1"]
    a, b, c = (trained(update, n, n) for n in (7, 2, 4))
    assert (a.rows, a.rounds) == (7, 7)
    ab = Learner.merge([a, b])
    assert (ab.rows, ab.rounds) == (9, 6)  # (7 * 7 + 2 * 2) / 9 rounds
    ab.learn(*rows_of(update, 3, 0))
    assert (ab.rows, ab.rounds) == (12, 9)
    abc = Learner.merge([ab, c])
    assert (abc.rows, abc.rounds) == (16, 8)  # (12 * (53 / 9 + 3) + 4 * 4) / 16 rounds
    assert Learner.merge([a, b], weights=[0, 1]).rows == 9


@pytest.mark.parametrize(("rows", "rounds"), [((1, 7, 4), 6), ((1, 10, 1), 8), ((5, 10, 5), 8), ((7, 4, 1), 6)])
def test_tied_clock_is_the_same_in_any_merge_order(rows, rounds):
    """In exact arithmetic the mean of the clocks is a half-integer; in one merge order the sum rounds beside it."""
    check_laws(*(trained(UPDATES["RDA net"], n, k) for k, n in enumerate(rows)))
    whole = Learner.merge([trained(UPDATES["RDA net"], n, k) for k, n in enumerate(rows)])
    assert whole.rounds == rounds
    assert abs(whole.engine.uncounted[1]) == pytest.approx(0.5)


def test_merge_neither_changes_nor_shares_its_inputs():
    update = UPDATES["FIOL l1"]
    parts = [trained_by_name(update, 5, k) for k in range(2)]
    before = [(pickle.dumps(part.core.header()), [a.tobytes() for a in part.core.arrays().values()]) for part in parts]
    both = Learner.merge(parts, base=new(update))
    both.learn([{"new": 1.0}], [1.0])
    alone = Learner.merge(parts[:1])
    alone.learn([{"other": 1.0}], [1.0])
    after = [(pickle.dumps(part.core.header()), [a.tobytes() for a in part.core.arrays().values()]) for part in parts]
    assert after == before
    assert "new" not in parts[0].names


@pytest.mark.parametrize("name", UPDATES)
def test_merged_learner_is_saved_and_keeps_its_bits(name, tmp_path):
    update = UPDATES[name]
    merged = Learner.merge([trained(update, n, n) for n in (6, 5)])
    merged.save(tmp_path / "model")
    others = [fiol.load(tmp_path / "model", compiled=False), merged.copy(), pickle.loads(pickle.dumps(merged))]
    rows = rows_of(update, 5, 77)
    scores = merged.learn(*rows)
    for other in others:
        assert (other.rows, other.rounds) == (11, merged.rounds - 5)
        assert other.learn(*rows).tobytes() == scores.tobytes()
        pairs = zip(other.core.arrays().values(), merged.core.arrays().values(), strict=True)
        assert all(a.tobytes() == b.tobytes() for a, b in pairs)


# --- a base -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", UPDATES)
def test_merge_with_base_adds_changes_since_the_base(name):
    update = UPDATES[name]
    base = trained(update, 6, 0)
    a, b, c = (trained(update, n, k, base) for k, n in enumerate((3, 5, 2), start=1))
    merge = functools.partial(Learner.merge, base=base)
    assert_same(merge([a]), a)
    assert_same(merge([base, a, base.copy()]), a)
    assert_same(merge([base, base]), base)
    whole = merge([a, b, c])
    assert (whole.rows, whole.rounds) == (16, 10)  # 6 + (9 + 25 + 4) / 10
    assert_same(merge([merge([a, b]), c]), whole)
    assert_same(merge([c, merge([b, a])]), whole)
    # Without a base, the common rows would count three times.
    assert Learner.merge([a, b, c]).rows == 28


def test_merge_with_a_named_base():
    update = UPDATES["FIOL l1"]
    base = trained_by_name(update, 3, 0)
    a, b = base.copy(), base.copy()
    a.learn([{"a": 1.0, "both": 1.0}], [1.0])
    b.learn([{"both": 1.0, "b": 2.0}, {"b": 1.0}], [1.0, -1.0])
    whole = Learner.merge([b, a], base=base)
    assert whole.names == [*base.names, "both", "b", "a"]
    assert whole.rows == 6
    own = [dict(zip(part.names, part.weights, strict=True)) for part in (a, b)]
    expected = [(own[0].get(name, 0.0) + 2 * own[1].get(name, 0.0)) / 3 for name in whole.names]
    np.testing.assert_allclose(whole.weights, expected, rtol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_frequent_merges_beat_one_merge(seed):
    """Four learners merged after every ten rows are better than four merged once."""
    update, draw, scales = FIOL(Squared()), np.random.default_rng(seed), np.logspace(-2, 2, D)
    x = draw.standard_normal((800, D)) * scales
    y = x @ (draw.standard_normal(D) / scales)
    together, apart = new(update), [new(update) for _ in range(4)]
    for block in np.split(np.arange(800), 20):
        workers = [together.copy() for _ in range(4)]
        for worker, rows in zip(workers, np.split(block, 4), strict=True):
            worker.learn(x[rows], y[rows])
        together = Learner.merge(workers, base=together)
    for k, worker in enumerate(apart):
        worker.learn(x[k::4], y[k::4])
    once = Learner.merge(apart)
    assert (together.rows, together.rounds, once.rows, once.rounds) == (800, 200, 800, 200)
    errors = [np.mean((model.scores(x) - y) ** 2) for model in (together, once)]
    assert errors[0] < 0.6 * errors[1]


def test_merge_with_an_invalid_base_raises():
    base, other = trained(UPDATES["FIOL"], 5, 0), trained(UPDATES["FIOL"], 3, 0)
    with pytest.raises(ValueError, match=r"^learners\[1\] has learned from 3 rows, base from 5: it did not go on from"):
        Learner.merge([base, other], base=base)
    with pytest.raises(ValueError, match=r"^base has another update than learners\[0\]$"):
        Learner.merge([base], base=trained(UPDATES["FIOL l1"], 3, 0))
    with pytest.raises(TypeError, match=r"^base must be a Learner, got int$"):
        Learner.merge([base], base=3)


def test_base_with_other_features_or_classes_raises():
    update = UPDATES["FIOL"]
    x, y = rows_of(update, 6, 0)
    base, other = new(update), new(update)
    base.learn(dicts(x[:2]), y[:2])
    other.learn(dicts(x, range(D)[::-1]), y)
    assert set(base.names) < set(other.names)
    with pytest.raises(ValueError, match=rf"^learners\[1\] lacks the feature '{base.names[0]}' of base at place 0: "):
        Learner.merge([base.copy(), other], base=base)
    with pytest.raises(
        ValueError, match=r"^learners\[0\] lacks the feature 'word \d+' of base at place 0: .*prune after"
    ):
        Learner.merge([trained(update, 6, 0)], base=base)
    narrow, wide = new(update), new(update)
    narrow.learn_one([2], [1.0], y=1.0)
    narrow.learn_one([1], [1.0], y=1.0)
    wide.learn_one([7], [1.0], y=1.0)
    with pytest.raises(ValueError, match=r"^learners\[0\] has 3 features, base has 8: it did not go on"):
        Learner.merge([narrow], base=wide)
    for kind in (functools.partial(Learner, FIOL(Softmax())), functools.partial(OneVsRest, FIOL(Logistic()))):
        start, else_where = kind(compiled=False), kind(compiled=False)
        start.learn([{"a": 1.0}], ["pear"])
        else_where.learn([{"a": 1.0}, {"a": 2.0}], ["apple", "plum"])
        with pytest.raises(ValueError, match=r"^learners\[0\] lacks the class 'pear' of base: it did not go on"):
            type(start).merge([else_where], base=start)


def test_base_with_more_rounds_raises():
    update = UPDATES["FIOL"]
    base, parts = trained(update, 5, 0), [trained(update, 4, k) for k in range(2)]
    merged = Learner.merge(parts)
    assert (merged.rows, merged.rounds) == (8, 4)
    with pytest.raises(ValueError, match=r"^learners\[0\] has made 4 rounds, base 5: it did not go on from base$"):
        Learner.merge([merged], base=base)


def test_bounded_learners_that_dropped_features_of_the_base_are_merged():
    update = FIOL(Logistic(), L1(0.2), Constant(0.5))
    base = Learner(update, max_features=4, compiled=False)
    base.learn([{"a": 1.0, "b": 0.01, "c": 0.01}], [1.0])
    part = base.copy()
    part.learn([{"d": 1.0, "e": 1.0}, {"a": 1.0}], [1.0, 1.0])
    assert "b" not in part.names
    assert Learner.merge([part, base.copy()], base=base).rows == 3


@pytest.mark.parametrize("base", [False, True])
def test_merge_of_arrays_of_different_widths_raises(base):
    update, parts = UPDATES["FIOL"], []
    for width in (2, 3):
        parts.append(Learner(update, compiled=False))
        parts[-1].learn(np.ones((4, width)), [1.0, -1.0, 1.0, 1.0])
    says = (
        r"has learned from arrays of 3 columns, (base|learners\[0\]) from arrays of 2: learners can be merged if their"
    )
    with pytest.raises(ValueError, match=rf"^learners\[{0 if base else 1}\] {says}"):
        Learner.merge(parts[1:], base=parts[0]) if base else Learner.merge(parts)
    many = [OneVsRest(FIOL(Logistic()), compiled=False) for _ in range(2)]
    for model, width in zip(many, (2, 3), strict=True):
        model.learn(np.ones((2, width)), ["a", "b"])
    with pytest.raises(ValueError, match=rf"^learners\[1\] {says}"):
        OneVsRest.merge(many)


def test_arrays_and_sparse_rows_are_merged():
    update = UPDATES["FIOL"]
    dense, sparse = Learner(update, compiled=False), Learner(update, compiled=False)
    dense.learn(np.ones((2, 2)), [1.0, -1.0])
    sparse.learn_one([4], [1.0], y=1.0)
    assert Learner.merge([dense, sparse]).n_features == 5


# --- what features are called -----------------------------------------------------------------


def test_merge_matches_columns_by_name():
    update = UPDATES["FIOL"]
    x, y = rows_of(update, 12, 5)
    frames = [pd.DataFrame(x[:6, :3], columns=["a", "b", "c"]), pd.DataFrame(x[6:, :3], columns=["c", "a", "b"])]
    parts = [new(update) for _ in frames]
    for part, frame, targets in zip(parts, frames, (y[:6], y[6:]), strict=True):
        part.learn(frame, targets)
    both = Learner.merge(parts)
    assert both.columns == ("a", "b", "c")
    expected = (parts[0].weights + parts[1].weights[[1, 2, 0]]) / 2
    np.testing.assert_allclose(both.weights, expected, rtol=1e-13)
    np.testing.assert_allclose(both.scores(frames[1]), both.scores(frames[1][["a", "b", "c"]]))
    array = new(update)
    array.learn(x[:6, :2], y[:6])
    assert Learner.merge([array, parts[0]]).columns == ("a", "b", "c")
    wide = new(update)
    wide.learn(x, y)
    with pytest.raises(ValueError, match=r"^learners\[0\] has 12 features, learners\[1\] has 3 columns$"):
        Learner.merge([wide, parts[0]])
    other = new(update)
    other.learn(frames[0].rename(columns={"c": "d"}), y[:6])
    with pytest.raises(ValueError, match=r"^learners\[0\] has no column 'd', which another has: frames must have the"):
        Learner.merge([parts[0], other])


def test_per_feature_components_keep_the_order_of_features():
    update = FIOL(Squared(), L1([0.1, 0.2]), Constant(0.5))
    a, b = new(update), new(update)
    a.learn(pd.DataFrame({"a": [1.0], "b": [2.0]}), [1.0])
    b.learn(pd.DataFrame({"b": [1.0], "a": [2.0]}), [1.0])
    with pytest.raises(ValueError, match=r"^learners\[1\] has its features in another order .* L1\.lam has one number"):
        Learner.merge([a, b])
    assert Learner.merge([a, a]).rows == 2


def test_merge_of_hashed_features():
    update = UPDATES["FIOL l1"]
    parts = [trained_by_name(update, 4, k, bits=6) for k in range(2)]
    parts.append(trained(update, 4, 9, bits=6))
    check_laws(*parts)
    assert Learner.merge(parts).n_features == 64


def test_merge_with_bounded_memory():
    update = FIOL(Squared(), L1(0.3), Constant(0.5))
    a, b = (new(update, max_features=3) for _ in range(2))
    a.learn([{"a": 4.0}, {"b": 0.1}], [9.0, 0.0])
    b.learn([{"c": 0.1}, {"d": 4.0}], [0.0, 9.0])
    both = Learner.merge([a, b])
    assert both.names == ["a", "d"]  # the others have weight 0
    assert both.weights.all()
    c = new(update, max_features=3)
    c.learn([{"e": 4.0}, {"f": 4.0}], [9.0, 9.0])
    with pytest.raises(
        ValueError, match=r"^together, 4 features have weights that are not 0, more than max_features=3$"
    ):
        Learner.merge([a, b, c])


# --- arguments --------------------------------------------------------------------------------


def test_merge_of_other_objects_raises():
    a = trained(UPDATES["FIOL"], 3, 0)
    with pytest.raises(TypeError, match=r"^learners must be a list of learners, got Learner: use merge\(\[a, b\]\)$"):
        Learner.merge(a)
    with pytest.raises(TypeError, match=r"^learners must be a list of learners, got int"):
        Learner.merge(3)
    with pytest.raises(TypeError, match=r"^learners\[1\] must be a Learner, got int$"):
        Learner.merge([a, 3])
    assert Learner.merge(part for part in (a, a)).rows == 6


@pytest.mark.parametrize("size", [1e308, 5e-324, 1.0, 1e-300])
def test_merge_with_weights_of_any_size(size):
    a, b = trained(UPDATES["FIOL"], 3, 0), trained(UPDATES["FIOL"], 5, 1)
    merged = Learner.merge([a, b], weights=[size, size])
    np.testing.assert_allclose(merged.weights, (a.weights + b.weights) / 2, rtol=1e-13)


@given(st.lists(st.floats(0.0, 1.7e308), min_size=1, max_size=8).filter(any))
def test_merge_shares_add_up_and_keep_their_order(weights):
    share = shares_of(weights, [1] * len(weights))
    assert share.sum() == pytest.approx(1.0)
    assert (np.diff(share[np.argsort(weights, kind="stable")]) >= 0.0).all()
    assert ((share >= 0.0) & (share <= 1.0)).all()


def test_merge_ignores_non_finite_weights_with_share_zero():
    a, broken = trained(UPDATES["FIOL"], 3, 0), trained(UPDATES["FIOL"], 3, 1)
    broken.engine.state.w[:] = math.nan
    assert_same(Learner.merge([a, broken], weights=[1, 0]), Learner.merge([a, trained(UPDATES["FIOL"], 3, 1)], [1, 0]))


# --- many classes -----------------------------------------------------------------------------


def classes_of(rows, seed):
    draw = np.random.default_rng(seed)
    return np.round(draw.standard_normal((rows, 4)), 2), draw.integers(0, 3, rows)


def joint(rows, labels, seed, regularizer):
    """Learned from classes that are called `labels`, in the order of these."""
    model = Learner(FIOL(Softmax(), regularizer, Polynomial()), n_features=4, compiled=False)
    model.add_classes(labels)
    x, codes = classes_of(rows, seed)
    model.learn(x, [labels[code % len(labels)] for code in codes])
    return model


@pytest.mark.parametrize("regularizer", [fiol.Unregularized(), Ridge(0.1)], ids=repr)
def test_merge_of_joint_models_matches_classes(regularizer):
    a, b, c = (
        joint(rows, labels, seed, regularizer) for seed, (rows, labels) in enumerate([(7, "pq"), (4, "rqp"), (6, "sq")])
    )
    whole = Learner.merge([a, b, c])
    labels = whole.classes
    assert labels == ["p", "q", "r", "s"]
    expected = np.zeros((4, 4))
    for model, share in zip((a, b, c), np.array([7, 4, 6]) / 17, strict=True):
        expected[[labels.index(label) for label in model.classes]] += share * model.weights
    np.testing.assert_allclose(whole.weights, expected, rtol=1e-12)
    for other in (Learner.merge([Learner.merge([a, b]), c]), Learner.merge([c, Learner.merge([b, a])])):
        order = [other.classes.index(label) for label in labels]
        np.testing.assert_allclose(other.weights[order], expected, rtol=1e-12)
        np.testing.assert_allclose(other.intercept[order], whole.intercept, rtol=1e-12)
        assert (other.rows, other.rounds) == (17, whole.rounds)
    x, codes = classes_of(3, 9)
    assert np.isfinite(whole.learn(x, [labels[code] for code in codes])).all()
    assert whole.rows == 20


def test_one_vs_rest_merge_uses_the_background_learner_for_missing_classes():
    """For a class that one model has not seen, its learner with target -1 in every round is used."""
    models = []
    for seed, labels in enumerate(["pq", "qr"]):
        model = OneVsRest(UPDATES["FIOL l1"], compiled=False)
        x, codes = classes_of(6, seed)
        for row, code in zip(x, codes % 2, strict=True):
            model.learn([row], [labels[code]])
        models.append(model)
    whole = OneVsRest.merge(models)
    assert whole.classes == ["p", "q", "r"]
    for k, label in enumerate("pqr"):
        parts = [model.learners.get(label, model.core.standby) for model in models]
        both = Learner.merge(parts)
        assert both.rows == whole.rows == 12
        np.testing.assert_allclose(both.weights, (parts[0].weights + parts[1].weights) / 2, rtol=1e-12)
        assert np.array_equal(whole.weights[k], both.weights)
        assert whole.intercept[k] == both.intercept


PARTS = st.lists(
    st.tuples(st.integers(0, 5), st.permutations("pqrs"), st.permutations(range(D))), min_size=3, max_size=3
)


@given(parts=PARTS, base=st.integers(0, 4), kind=st.sampled_from(["softmax", "rest", "rest, averaged"]))
@settings(max_examples=20)
def test_class_models_merge_by_any_tree(parts, base, kind):
    """Features are matched by name and classes by label, with and without a base; rows add up."""
    if kind == "softmax":
        start = Learner(FIOL(Softmax(), Ridge(0.1), Polynomial()), compiled=False)
    else:
        start = OneVsRest(UPDATES["FIOL l1"], average=kind != "rest", compiled=False)
    merge = type(start).merge

    def taught(model, rows, labels, order, seed):
        x, _ = rows_of(UPDATES["FIOL"], rows, seed)
        if rows:
            model.learn(dicts(x, order), [labels[k % 3] for k in range(rows)])
        return model

    taught(start, base, "sp?", range(D), 50)
    a, b, c = (taught(start.copy(), *part, seed) for seed, part in enumerate(parts))
    whole = merge([a, b, c], base=start)
    assert whole.rows == base + sum(part[0] for part in parts)
    others = merge([merge([a, b], base=start), c], base=start), merge([c, merge([b, a], base=start)], base=start)
    x, _ = rows_of(UPDATES["FIOL"], 4, seed=99)
    for other in others:
        assert set(other.classes) == set(whole.classes)
        assert set(other.names or ()) == set(whole.names or ())
        order = [other.classes.index(label) for label in whole.classes]
        left, right = other.copy(), whole.copy()
        for _ in range(2):
            np.testing.assert_allclose(left.scores(dicts(x))[:, order], right.scores(dicts(x)), rtol=1e-7, atol=1e-9)
            if whole.classes:
                for model in (left, right):
                    model.learn(dicts(x), np.resize(whole.classes, 4))


def test_merge_of_incompatible_classes_raises():
    closed = functools.partial(OneVsRest, UPDATES["FIOL"], compiled=False)
    with pytest.raises(ValueError, match=r"learners\[1\] has its two classes in another order: \['q', 'p'\]"):
        OneVsRest.merge([closed(classes=["p", "q"]), closed(classes=["q", "p"])])
    with pytest.raises(
        ValueError, match=r"learners\[1\] has the classes \['p'\], of \['p', 'q', 'r'\] in all, which are closed"
    ):
        OneVsRest.merge([closed(classes=["p", "q", "r"]), closed(classes=["p"])])
    with pytest.raises(TypeError, match=r"learners\[1\] must be a OneVsRest, got Learner"):
        OneVsRest.merge([closed(), new(UPDATES["FIOL"])])
    with pytest.raises(ValueError, match=r"learners\[1\] has another update"):
        OneVsRest.merge([closed(), closed(average=True)])
