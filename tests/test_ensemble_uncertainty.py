"""The uncertainty of an ensemble combines its `Curvature` member and its stack."""

import numpy as np
import pytest
import scipy.sparse

import fiol


def drawn(seed, rows, d, loss):
    """Rows, targets, and the scores by which these were drawn."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, d))
    truth = 0.5 * (X @ rng.standard_normal(d) + rng.standard_normal())
    if isinstance(loss, fiol.Squared):
        return X, truth + rng.standard_normal(rows), truth
    return X, np.where(rng.random(rows) < 1.0 / (1.0 + np.exp(-truth)), 1.0, -1.0), truth


def by_hand(learner, X):
    """The sum of both variances, from members alone and the stack's own arrays, row by row."""
    state, members = learner.engine.stack.state, [learner.member(k) for k in range(len(learner.members))]
    Z = np.column_stack([member.scores(X) for member in members])
    total = members[0].uncertainty(X) ** 2
    for r, z in enumerate(Z):
        score = learner.scores(X[r : r + 1])[0]
        for pi, v, P in zip(state.share, state.v, state.P, strict=True):
            total[r] += pi * (z @ P @ z + (v @ z - score) ** 2)
    return np.sqrt(total)


@pytest.mark.parametrize("compiled", [False, True])
def test_ensemble_uncertainty_adds_best_member_and_stack(compiled):
    X, y, _ = drawn(1, 150, 4, fiol.Logistic())
    learner = fiol.Learner(compiled=compiled)
    X[:, 3] += 50.0  # which is centered
    learner.learn(X, y)
    rows = X[:20]
    found = learner.uncertainty(rows)
    np.testing.assert_allclose(found, by_hand(learner, rows), rtol=1e-9)
    np.testing.assert_array_equal(found, [learner.uncertainty(row[None, :])[0] for row in rows])
    np.testing.assert_array_equal(found, learner.uncertainty(scipy.sparse.csr_matrix(rows)))


@pytest.mark.parametrize("loss", [fiol.Logistic(), fiol.Squared()])
def test_default_ensemble_score_errors_match_predicted_variance(loss):
    """The best member alone underestimates the error by a factor of 2 to 6 here."""
    found = []
    for seed in range(12):
        X, y, truth = drawn(seed, 1100, 6, loss)
        learner = fiol.Learner(loss=loss)
        learner.learn(X[:1000], y[:1000])
        off = (learner.scores(X[1000:]) - truth[1000:]) / learner.uncertainty(X[1000:])
        found.append(np.mean(off**2))
    assert 0.5 < np.mean(found) < 1.8


def test_ensemble_uncertainty_scales_with_target_units():
    X, y, _ = drawn(4, 120, 3, fiol.Squared())
    one, other = (fiol.Learner(loss=fiol.Squared(), compiled=False) for _ in range(2))
    one.learn(X, y)
    other.learn(X, 1024.0 * y)
    np.testing.assert_allclose(other.uncertainty(X), 1024.0 * one.uncertainty(X), rtol=1e-9)


def test_ensemble_uncertainty_falls_with_informative_rows():
    X, y, _ = drawn(3, 3000, 5, fiol.Logistic())
    learner, means = fiol.Learner(), []
    for start, stop in ((0, 100), (100, 1000), (1000, 3000)):
        learner.learn(X[start:stop], y[start:stop])
        means.append(learner.uncertainty(X[:50]).mean())
    assert means[0] > 1.3 * means[1] > 1.3 * 1.3 * means[2]


def test_ensemble_uncertainty_with_names_gates_and_unseen_features():
    rng = np.random.default_rng(5)
    rows = [{"a": v, f"noise{k % 7}": 1.0} for k, v in enumerate(rng.standard_normal(200))]
    y = np.where([row["a"] > 0.0 for row in rows], 1.0, -1.0)
    learner = fiol.Learner(fiol.Stacked(fiol.Logistic(), fiol.L1(0.03)), compiled=False)
    learner.learn(rows, y)
    assert learner.n_nonzero == 1
    plain, noisy, new = learner.uncertainty([{"a": 0.5}, {"a": 0.5, "noise1": 1.0}, {"a": 0.5, "other": 1.0}])
    assert plain == noisy == new > 0.0  # what does not pass the gate has no weight, so nothing is open about it


def test_ensemble_uncertainty_of_best_combiner_and_overflowed_members():
    sizes = [fiol.ScaleFree(fiol.Curvature(prior=prior)) for prior in (1.0, 100.0)]
    members = [fiol.FIOL(fiol.Logistic(), step_size=size) for size in sizes]
    X, y, _ = drawn(6, 60, 3, fiol.Logistic())
    best = fiol.Learner(fiol.Ensemble(members, fiol.BestMember()), compiled=False)
    best.learn(X, y)
    np.testing.assert_allclose(best.uncertainty(X), best.member().uncertainty(X), rtol=1e-12)
    other = fiol.FIOL(fiol.Logistic(), step_size=fiol.Constant(0.1))
    with pytest.raises(TypeError, match="uncertainty needs"):
        fiol.Learner(fiol.Ensemble([members[0], other], fiol.BestMember())).uncertainty(X)
    learner = fiol.Learner(fiol.Ensemble([members[0], other]), compiled=False)
    learner.learn(X, y)
    learner.engine.stack.state.live[0] = 0.0
    assert (learner.uncertainty(X) == np.inf).all()


def test_ensemble_uncertainty_of_classes_is_one_number_per_row():
    X, _, _ = drawn(7, 90, 3, fiol.Squared())
    learner = fiol.Learner(fiol.Stacked(fiol.Softmax()), compiled=False)
    learner.learn(X, ["a", "b", "c"] * 30)
    found = learner.uncertainty(X)
    assert found.shape == (90,)
    assert (found > learner.member(0).uncertainty(X)).all()
