"""Member-parallel learning has the bits of one stream for any split of members."""

import numpy as np
import pytest

import fiol
from fiol.engine.ensemble import lane_group
from fiol.models.member_parallel import MemberSubset, StackLearner, split_members

PIECE = 40


def material(rows, scores):
    """Rows with a centered column, missing values, and a few numbers that no lane step is exact for."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((rows, 6)) * (rng.random((rows, 6)) < 0.6)
    X[:, 0] = 1000.0 + rng.standard_normal(rows)
    X[:: rows // 7, 1] = 1e9
    y = np.sign(X[:, 2] - X[:, 3] + 0.3 * rng.standard_normal(rows) + 1e-9)
    return X, y if scores == 1 else rng.integers(0, scores, rows).tolist(), rng.choice([0.5, 1.0, 1e4], rows)


def apart(base, X, y, weight, workers, passes=1):
    places = split_members(base, workers)
    shares, stack, scores = [MemberSubset(base, some) for some in places], StackLearner(base, places), []
    for number in range(passes):
        for start in range(0, len(y), PIECE):
            rows = slice(start, start + PIECE)
            said = [share.learn(X[rows], y[rows], weight[rows]) for share in shares]
            scores.append(stack.learn(said, freeze=number > 0))
    return stack.finish([share.state() for share in shares]), np.concatenate(scores[: len(scores) // passes])


def one(base, X, y, weight, passes):
    learner = base.copy()
    scores = learner.learn(X, y, weight)
    for _ in range(passes - 1):
        with learner.engine.freeze_stack():
            learner.learn(X, y, weight)
    return learner, scores


#: One of them has none, but is among lanes that have.
RIDGED = [
    fiol.FIOL(fiol.Logistic(), fiol.Ridge(lam), fiol.ScaleFree(fiol.Curvature())) for lam in (0.1, 0.0, 1e-3, 1.0)
]
#: How a learner is made, rows (few in the interpreter), scores, passes.
CASES = {
    "lanes": (lambda: fiol.Learner(), 700, 1, 2),
    "a ridge": (lambda: fiol.Learner(fiol.Ensemble(RIDGED), compiled=False), 60, 1, 1),
    "a gate": (lambda: fiol.Learner(regularizer=fiol.L1(1e-2), compiled=False), 60, 1, 1),
    "classes": (lambda: fiol.Learner(loss=fiol.Softmax(), classes=[0, 1, 2], compiled=False), 60, 3, 1),
    "squared": (lambda: fiol.Learner(loss=fiol.Squared(), compiled=False), 60, 1, 2),
}


@pytest.mark.parametrize("name", CASES)
def test_member_parallel_learning_matches_one_stream_bitwise(name, tmp_path, monkeypatch):
    monkeypatch.setattr(lane_group, "INTERPRETED", name == "a ridge")
    make, rows, scores, passes = CASES[name]
    X, y, weight = material(rows, scores)
    base = make()
    base.learn(X[:20], y[:20])  # members need not begin with nothing
    whole, expected = one(base, X, y, weight, passes)
    whole.save(tmp_path / "whole")
    for workers in (2, 3, 100):
        found, said = apart(base, X, y, weight, workers, passes)
        assert said.tobytes() == expected.tobytes()
        found.save(tmp_path / "found")
        assert (tmp_path / "found").read_bytes() == (tmp_path / "whole").read_bytes()


def test_split_members_keeps_lanes_together():
    lanes = fiol.Learner(n_features=1)
    assert split_members(lanes, 2) == [(0, 1, 2, 6), (3, 4, 5)]
    assert split_members(fiol.Learner(n_features=1, dtype="float32"), 2) == [tuple(range(7))]
    gated = fiol.Learner(regularizer=fiol.L1(0.1), n_features=1)
    assert sorted(k for share in split_members(gated, 3) for k in share) == list(range(8))
    with pytest.raises(TypeError, match="no members to learn in parallel"):
        split_members(fiol.Learner(fiol.FIOL(fiol.Logistic())), 2)
