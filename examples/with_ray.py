"""Rows that Ray keeps, learned from where they are: rounds of `fiol.models.distributed_round` as its tasks.

python examples/with_ray.py [--quick]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np
import ray

import fiol
from fiol.models.distributed_round import RoundMerger, learn_shard, losses_along_line


@ray.remote
def on_rows(work: Any, learners: Sequence[Any], rows: tuple[Any, Any], parts: int) -> Any:
    """Do something with rows that Ray keeps, where they are."""
    return work(*learners, *rows, parts=parts)


def one_round(base: fiol.Learner, blocks: Sequence[Any]) -> fiol.Learner:
    """The learner after a round; each block, a reference to a pair of X and y, is one part of it."""
    k = len(blocks)
    merger = RoundMerger(base, ray.get([on_rows.remote(learn_shard, [base], block, k) for block in blocks]))
    learners = [merger.base, merger.full]
    return merger.finish(sum(ray.get([on_rows.remote(losses_along_line, learners, block, k) for block in blocks])))


@ray.remote
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
    learner.learn(*ray.get(rows.remote(0, 2000)))  # alone at first; then a round is a tenth of the rows so far
    one = learner.copy()
    for number in range(1, rounds + 1):
        blocks = [rows.remote(4 * number + k, learner.rows // 40) for k in range(4)]
        learner = one_round(learner, blocks)
        for block in ray.get(blocks):
            one.learn(*block)
    X, y = ray.get(rows.remote(10**6, 20_000))
    losses = {
        name: float(np.mean(np.logaddexp(0.0, -y * model.scores(X))))
        for name, model in (("Ray", learner), ("one stream", one))
    }
    print(f"{learner.rows:,} rows: " + ", ".join(f"{name} {loss:.4f}" for name, loss in losses.items()))
    return losses


if __name__ == "__main__":
    main()
