"""Targets far from 0: rounds learn from targets less an origin, for every kind of input."""

import itertools

import numpy as np
import pytest

import fiol
from fiol.engine.first_rows import WINDOW
from fiol.models.member_parallel import MemberSubset, StackLearner, split_members
from fiol.regret import Comparator, Ledger

LOSSES = ("squared", "absolute", "huber", "quantile:0.7", "epsilon_insensitive", "squared_epsilon_insensitive")
#: A power of 2, so that targets keep their digits: about 2 * 10^6 standard deviations.
FAR = 2.0**21
OFFSETS = np.array([0.0, 50.0, 0.0])


def rows(n=120, seed=3):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3)) + OFFSETS
    y = (X - OFFSETS) @ [1.0, -0.5, 0.3] + 0.2 * rng.standard_normal(n)
    return X, np.round(y * 2**20) / 2**20


def made(loss="squared", **options):
    return fiol.Learner(loss, compiled=False, **options)


def assert_same_model(one, other):
    X = rows(7, seed=9)[0]
    np.testing.assert_array_equal(one.scores(X), other.scores(X))
    np.testing.assert_array_equal(one.weights, other.weights)
    assert one.intercept == other.intercept


@pytest.mark.parametrize("loss", LOSSES)
def test_shifted_targets_are_learned_alike(loss):
    X, y = rows()
    near, far = made(loss), made(loss)
    scores, shifted = near.learn(X, y), far.learn(X, y + FAR)
    assert scores[0] == shifted[0] == 0.0  # before any target
    np.testing.assert_allclose(shifted[1:] - FAR, scores[1:], atol=1e-7)
    np.testing.assert_allclose(far.weights, near.weights, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(far.scores(X), X @ far.weights + far.intercept, atol=1e-7)


@pytest.mark.parametrize("features", ["additive", "pairwise"])
def test_levels_learn_shifted_targets_alike(features):
    X, y = rows(260)
    basis = fiol.TableBasis(rows=100, **({"max_pairs": 0} if features == "additive" else {}))
    one, other = (fiol.Learner(fiol.Stacked(fiol.Squared(), basis=basis), compiled=False) for _ in range(2))
    scores, shifted = one.learn(X, y), other.learn(X, y + FAR)
    np.testing.assert_allclose(shifted[1:] - FAR, scores[1:], atol=1e-6)
    np.testing.assert_allclose(other.scores(X) - FAR, one.scores(X), atol=1e-6)
    cut = fiol.Learner(fiol.Stacked(fiol.Squared(), basis=basis), compiled=False)
    parts = [cut.learn(X[a:b], y[a:b]) for a, b in itertools.pairwise([0, 1, 20, 40, 110, 260])]
    np.testing.assert_array_equal(np.concatenate(parts), scores)


def test_poisson_targets_have_no_origin():
    X, y = rows(40)
    learner = made("poisson")
    learner.learn(X, np.abs(y) + 100.0)
    assert learner.engine.origin == 0.0


@pytest.mark.parametrize("compiled", [False, True])
def test_single_rows_and_chunks_have_the_same_bits(compiled):
    X, y = rows(60)
    y, weights = y + FAR, np.ones(60)
    weights[[0, 1, 40]] = 0.0
    whole, cut, single = (fiol.Learner("squared", compiled=compiled) for _ in range(3))
    scores = whole.learn(X, y, weights)
    parts = [cut.learn(X[a:b], y[a:b], weights[a:b]) for a, b in itertools.pairwise([0, 1, 2, 5, 30, 33, 60])]
    ones = [single.learn_one([0, 1, 2], x, t, w) for x, t, w in zip(X, y.tolist(), weights.tolist(), strict=True)]
    np.testing.assert_array_equal(np.concatenate(parts), scores)
    np.testing.assert_array_equal(ones, scores)
    assert (scores[:3] == 0.0).all()  # no target with a weight was known
    assert_same_model(cut, whole)
    assert_same_model(single, whole)
    assert single.score_one([0, 1, 2], X[5]) == whole.scores(X[5:6])[0]


@pytest.mark.parametrize("seen", [0, 1, 20, WINDOW, 40])
def test_resumed_model_has_the_same_bits(seen, tmp_path):
    X, y = rows(60)
    y, one = y + FAR, made()
    one.learn(X[:seen], y[:seen])
    one.save(tmp_path / "model")
    other = fiol.load(tmp_path / "model", compiled=False)
    np.testing.assert_array_equal(one.learn(X[seen:], y[seen:]), other.learn(X[seen:], y[seen:]))
    assert_same_model(one, other)


@pytest.mark.parametrize("seen", [5, 40])
def test_files_without_origin_have_origin_0(seen):
    X, y = rows(60)
    learner = made()
    learner.engine.settle_origin()  # as older versions learned
    learner.learn(X[:seen], y[:seen] + 1.0)
    arrays = {
        name: a for name, a in learner.core.arrays().items() if name not in ("centring.origin", "centring.targets")
    }
    old = fiol.Learner.from_parts(learner.core.header(), arrays, compiled=False)
    np.testing.assert_array_equal(old.scores(X), learner.scores(X))
    np.testing.assert_array_equal(old.learn(X[seen:], y[seen:]), learner.learn(X[seen:], y[seen:]))
    assert old.engine.origin == 0.0


def test_unusual_first_target_is_no_origin_for_long():
    X, y = rows(400)
    y = y + 1000.0
    y[0] = 0.0
    scores = made().learn(X, y)
    late = slice(300, None)
    assert np.mean((scores - y)[late] ** 2) < 0.2 * np.var(y[late])


def test_progressive_loss_counts_the_first_target():
    X, y = rows(50)
    learner = made()
    scores = learner.learn(X, y + 10.0)
    np.testing.assert_allclose(learner.progressive_loss, np.mean(0.5 * (scores - y - 10.0) ** 2))


def test_merge_of_a_model_with_itself_keeps_its_scores():
    X, y = rows(120)
    one = made()
    one.learn(X, y + FAR)
    both = fiol.Learner.merge([one, one.copy()])
    np.testing.assert_allclose(both.scores(X), one.scores(X), rtol=1e-9)


def test_merge_of_first_rows_finds_a_common_origin():
    X, y = rows(40)
    parts = [made(), made()]
    for k, part in enumerate(parts):
        part.learn(X[20 * k : 20 * k + 20], y[20 * k : 20 * k + 20] + FAR)
    both = fiol.Learner.merge(parts)
    assert abs(both.engine.origin - FAR) < 3.0
    assert np.abs(both.scores(X) - y - FAR).max() < 5.0


def test_parallel_learning_of_shifted_targets_is_alike():
    X, y = rows(2600)
    near, far = (fiol.Learner("squared") for _ in range(2))
    scores, shifted = near.learn_parallel(X, y, parts=3), far.learn_parallel(X, y + FAR, parts=3)
    np.testing.assert_allclose(shifted[1:] - FAR, scores[1:], atol=1e-6)


def test_subsets_of_members_have_the_same_bits():
    X, y = rows(50)
    y, base = y + FAR, made()
    places, one = split_members(base, 2), base.copy()
    subsets, stack = [MemberSubset(base, some) for some in places], StackLearner(base, places)
    found = [stack.learn([s.learn(X[a : a + 25], y[a : a + 25]) for s in subsets]) for a in (0, 25)]
    np.testing.assert_array_equal(np.concatenate(found), one.learn(X, y))
    new = stack.finish([subset.state() for subset in subsets])
    assert_same_model(new, one)
    assert new.progressive_loss == one.progressive_loss


def test_given_weights_keep_their_scores():
    X, y = rows(40)
    learner = fiol.Learner(fiol.Stacked(fiol.Squared()), compiled=False, n_features=3)
    learner.core.engine.start_from(np.array([1.0, 2.0, 3.0]), 4.0)
    before = learner.scores(X[:1])
    np.testing.assert_allclose(learner.learn(X[:1], y[:1] + FAR), before, rtol=1e-12)
    np.testing.assert_allclose(learner.scores(X), X @ learner.weights + learner.intercept)


def test_fit_of_shifted_targets_is_alike():
    X, y = rows(200)
    models = [fiol.FIOLRegressor(random_state=0).fit(X, y + c) for c in (0.0, FAR)]
    np.testing.assert_allclose(models[1].predict(X) - FAR, models[0].predict(X), atol=1e-4)
    assert models[0].score(X, y) > 0.9


def test_float32_learns_shifted_targets_alike():
    X, y = rows()
    near, far = (made(dtype="float32") for _ in range(2))
    scores, shifted = near.learn(X, y), far.learn(X, y + FAR)
    np.testing.assert_allclose(shifted[1:] - FAR, scores[1:], atol=1e-5)


EVERY_LOSS = (
    *(fiol.Squared(), fiol.Absolute(), fiol.Quantile(0.3), fiol.EpsilonInsensitive(0.1), fiol.Huber(1.5)),
    *(fiol.SquaredEpsilonInsensitive(0.1), fiol.Logistic(), fiol.Hinge(), fiol.SquaredHinge(), fiol.Exponential()),
    fiol.Poisson(),
)


@pytest.mark.parametrize("loss", EVERY_LOSS, ids=lambda loss: type(loss).__name__)
def test_shift_invariant_losses_are_those_that_say_so(loss):
    points = [(0.25, 1.0), (-2.0, 1.0), (4.0, 1.0)]
    same = all(loss.value(z + 1.0, y + 1.0) == pytest.approx(loss.value(z, y), rel=1e-12) for z, y in points)
    assert same == loss.shift_invariant


def test_own_derivative_inherits_no_shift_invariance():
    class Relative(fiol.Squared):
        def value(self, z, y):
            return 0.5 * (z / y - 1.0) ** 2

        def grad(self, z, y):
            return (z / y - 1.0) / y

    assert not Relative.shift_invariant
    Relative.shift_invariant = True
    with pytest.raises(fiol.checks.CheckError, match="8 is added to both"):
        fiol.checks.check_loss(Relative(), [1.0, 2.0])


def test_member_taken_before_the_first_row_learns_targets_as_they_are():
    X, y = rows(40)
    ensemble = made()
    member, alone = ensemble.member(0), fiol.Learner(ensemble.update.members[0], compiled=False)
    np.testing.assert_array_equal(member.learn(X, y + 100.0), alone.learn(X, y + 100.0))
    assert member.engine.origin == 0.0


@pytest.mark.parametrize("seen", [5, 40])
def test_ledger_of_a_member_counts_losses_of_targets_as_they_are(seen):
    X, y = rows(60)
    y, ensemble = y + 100.0, made()
    ensemble.learn(X[:seen], y[:seen])
    member = ensemble.member(0)
    origin = member.engine.origin
    best = Comparator(np.array([1.0, -0.5, 0.3]), 75.0, 0.0, 0.0, "duality gap", "none", 60)
    with Ledger(member, best) as ledger:
        scores = member.learn(X[seen:], y[seen:])
    expected = X[seen:] @ [1.0, -0.5, 0.3] + 75.0
    np.testing.assert_allclose(ledger.records.loss[-1], 0.5 * np.sum((scores - y[seen:]) ** 2))
    np.testing.assert_allclose(ledger.records.comparator[-1], 0.5 * np.sum((expected - y[seen:]) ** 2))
    assert member.engine.origin == origin != 0.0
