"""A round merged block by block matches `RoundMerger` on whole learners."""

import numpy as np
import pytest

import fiol
from fiol.models.distributed_round import RoundMerger, learn_shard, losses_along_line
from fiol.models.sharded_merge import BlockMerger, engine_options, merge_block, shard_deltas

PARTS = 3


def rows_of(kind, rng, n):
    """Rows of a kind, with features that only some parts meet."""
    y = rng.choice([-1.0, 1.0], n)
    if kind == "named":
        names = [f"f{k}" for k in range(40)]
        rows = [{names[k]: float(rng.normal()) for k in rng.integers(0, 40, 4)} for _ in range(n)]
        return [{**row, "far": 1000.0 + float(rng.normal())} for row in rows], y
    X = rng.normal(size=(n, 30)) * (rng.random((n, 30)) < 0.2)
    X[:, 0] = 500.0 + rng.normal(size=n)
    return fiol.to_chunk(X[:, : int(rng.integers(20, 31))]), y


CASES = {
    "named": {},
    "numbered": {},
    "folded": {"bits": 6},
    "a penalty": {"regularizer": fiol.L1(1e-2)},
    "one learner": {"update": fiol.FIOL(fiol.Logistic(), fiol.Ridge(1e-3), fiol.ScaleFree(fiol.Curvature()))},
    "all rounds": {"update": fiol.FTRLProximal(fiol.Logistic(), fiol.L1(1e-2))},
}


@pytest.mark.parametrize("case", CASES)
def test_merge_by_blocks_matches_round_merger(case):
    rng = np.random.default_rng(5)
    kind = "numbered" if case == "numbered" else "named"
    base = fiol.Learner(**CASES[case], compiled=False)
    base.learn(*rows_of(kind, rng, 40))
    data = [rows_of(kind, rng, 12) for _ in range(PARTS)]
    parts = [learn_shard(base, X, y, parts=PARTS) for X, y in data]
    for blocks in (1, 5):
        shells, deltas = zip(*(shard_deltas(base, part, blocks) for part in parts), strict=True)
        pooled = [merge_block(base.update, some, **engine_options(base)) for some in zip(*deltas, strict=True)]
        whole, summed = RoundMerger(base, parts), BlockMerger(base, shells, pooled)
        found = []
        for one in (whole, summed):
            losses = sum(losses_along_line(one.base, one.full, X, y, parts=PARTS) for X, y in data)
            found.append(one.finish(losses))
        assert found[1].names == found[0].names
        assert found[1].rows == found[0].rows == 40 + 12 * PARTS
        arrays = [one.core.arrays() for one in found]
        assert arrays[0].keys() == arrays[1].keys()
        for name, array in arrays[0].items():
            np.testing.assert_allclose(arrays[1][name], array, rtol=1e-11, atol=1e-14, err_msg=name)
        assert np.allclose(whole._merge.directions[0].cost, summed._merge.directions[0].cost, rtol=1e-12)
    changed = sum(len(one.keys) for some in deltas for one in some)
    assert 0 < changed <= PARTS * found[0].n_features


def test_shard_deltas_contain_only_changed_features():
    base = fiol.Learner(fiol.FIOL(fiol.Logistic()), compiled=False)
    base.learn([{f"f{k}": 1.0 for k in range(50)}], [1])
    _, deltas = shard_deltas(base, learn_shard(base, [{"f3": 1.0, "new": 2.0}], [-1]), 4)
    assert sorted(map(str, (key for one in deltas for key in one.keys))) == ["3", "new"]
