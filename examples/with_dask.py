"""Rows that Dask keeps, learned from where they are: rounds of `fiol.models.distributed_round` on the workers of a
cluster.

python examples/with_dask.py [--quick]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import dask
import numpy as np

import fiol
from fiol.models.distributed_round import RoundMerger, learn_shard, losses_along_line


def one_round(base: fiol.Learner, blocks: Sequence[tuple[Any, Any]]) -> fiol.Learner:
    """The learner after a round; each block, a pair of delayed X and y, is one part of it."""
    k = len(blocks)
    parts = dask.compute(*[dask.delayed(learn_shard)(base, X, y, parts=k) for X, y in blocks])
    merger = RoundMerger(base, parts)
    along = [dask.delayed(losses_along_line)(merger.base, merger.full, X, y, parts=k) for X, y in blocks]
    return merger.finish(sum(dask.compute(*along)))


@dask.delayed(nout=2)
def rows(number: int, size: int) -> tuple[Any, Any]:
    """Some rows, made up on a worker, as a file would be read there."""
    rng = np.random.default_rng(number)
    X = rng.standard_normal((size, 20))
    return X, np.where(X[:, :5].sum(axis=1) + rng.standard_normal(size) > 0.0, 1.0, -1.0)


def main(arguments: Sequence[str] | None = None) -> dict[str, float]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few rows")
    rounds = 5 if parser.parse_args(arguments).quick else 30
    learner = fiol.Learner()
    learner.learn(*dask.compute(*rows(0, 2000)))  # alone at first; then a round is a tenth of the rows so far
    one = learner.copy()
    for number in range(1, rounds + 1):
        size = learner.rows // 40
        blocks = [tuple(rows(4 * number + k, size)) for k in range(4)]
        learner = one_round(learner, blocks)
        for block in blocks:
            one.learn(*dask.compute(*block))
    X, y = dask.compute(*rows(10**6, 20_000))
    losses = {
        name: float(np.mean(np.logaddexp(0.0, -y * model.scores(X))))
        for name, model in (("Dask", learner), ("one stream", one))
    }
    print(f"{learner.rows:,} rows: " + ", ".join(f"{name} {loss:.4f}" for name, loss in losses.items()))
    return losses


if __name__ == "__main__":
    main()
