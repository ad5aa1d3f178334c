"""What parallel work costs in loss: rounds of K parts beside one stream, on rows held back.

    python -m benchmarks.parallel [--data DIR] [--json FILE] [--sets NAME ...] [--parts K ...] [--shuffles N]
                                  [--first SEED] [--clicks ROWS] [--quick]
    python -m benchmarks.parallel --clicks 10000000

Rows are shuffled; four of five are learned from once, by `Learner.learn` (one stream) and by `Learner.learn_parallel`
with K parts (simulated, one after the other: the result does not depend on threads). A number is the loss of the fifth
part, in percent above that of the one stream with the same rows and learner: the mean over shuffles, and the worst.
Of K = 4, 16 and 64 there is the first shuffle alone. `--clicks` is the number of rows of a made-up stream
(`data.clicks`), which is never whole in memory; one block of rows is held out.
"mean" is what has to be beaten: K learners, each with its part of the rows, merged once in the end (`Learner.merge`).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import data
from benchmarks.data import Rows
from benchmarks.report import header, progress, table
from fiol import FIOL, Chunk, Curvature, Learner, Logistic, ScaleFree, Squared, Stacked
from fiol.engine.parallel.rounds import rows_of_rounds
from fiol.training.rows import TargetRows, regrouped

#: The learners, by what tables call them, of a loss.
LEARNERS: dict[str, Callable[[Any], Any]] = {
    "Curvature": lambda loss: FIOL(loss, step_size=ScaleFree(Curvature())),
    "Stacked": Stacked,
}
PARTS = (2, 4, 8, 16, 32, 64)
#: With these numbers of parts, all shuffles are learned from.
SHUFFLED = (2, 8, 32)
#: Clicks that are made at once.
BLOCK = 250_000
MEAN = "mean, K = 8"
SOURCES = (*data.SOURCES, data.MORE_BINARY[1], *data.NUMBERS)
#: Most rows of a set.
MOST_ROWS = 150_000


class Costs(NamedTuple):
    """Percents above one stream, a shuffle each, by number of parts."""

    name: str
    rows: int
    learner: str
    loss: float  #: of one stream, the mean over shuffles
    percent: dict[str, list[float]]


def held_out(learner: Learner, X: Any, y: Any, squared: bool) -> float:
    """Mean log loss, or mean squared error, of rows held back."""
    z = learner.scores(X)
    return float(np.mean((z - y) ** 2 if squared else np.logaddexp(0.0, -y * z)))


def measure(rows: Rows, shuffles: int, parts: tuple[int, ...], squared: bool, first: int = 0) -> list[Costs]:
    """Both learners on one set."""
    X, found = rows.matrix(), []
    for name, make in LEARNERS.items():
        losses, percent = [], dict[str, list[float]]()
        for seed in range(first, first + shuffles):
            order = np.random.default_rng(seed).permutation(rows.size)[:MOST_ROWS]
            cut = int(0.8 * len(order))
            seen, kept = order[:cut], order[cut:]
            update = make(Squared() if squared else Logistic())

            def loss_of(learner: Learner, kept: Any = kept) -> float:
                return held_out(learner, X[kept], rows.y[kept], squared)

            one = Learner(update)
            one.learn(X[seen], rows.y[seen])
            losses.append(loss_of(one))
            for k in (k for k in parts if seed == first or k in SHUFFLED):
                progress(f"{rows.name}: {name}, shuffle {seed + 1}, {k} parts")
                many = Learner(update)
                many.learn_parallel(X[seen], rows.y[seen], parts=k, threads=1)
                percent.setdefault(f"K = {k}", []).append(100.0 * (loss_of(many) / losses[-1] - 1.0))
            each = [Learner(update) for _ in range(8)]
            for learner, some in zip(each, np.array_split(seen, 8), strict=True):
                learner.learn(X[some], rows.y[some])
            percent.setdefault(MEAN, []).append(100.0 * (loss_of(Learner.merge(each)) / losses[-1] - 1.0))
        found.append(Costs(rows.name, cut, name, float(np.mean(losses)), percent))
    progress("")
    return found


def measure_clicks(rows: int, parts: tuple[int, ...]) -> list[Costs]:
    """Both learners on a made-up stream of clicks, with parallel rounds of `parts`, or with one stream."""
    kept = data.clicks(min(BLOCK, rows), block=rows)
    X, found = kept.matrix(), []
    for name, make in LEARNERS.items():
        learners = {k: Learner(make(Logistic()), n_features=kept.d) for k in (1, *parts)}
        blocks = (
            data.clicks(min(BLOCK, rows - start), block=number) for number, start in enumerate(range(0, rows, BLOCK))
        )
        chunks = (TargetRows(Chunk(b.indptr, b.indices, b.data), b.y, np.ones(b.size)) for b in blocks)
        for block in regrouped(chunks, rows_of_rounds(0)):
            progress(f"clicks: {name}, {learners[1].rows:,} rows")
            for k, learner in learners.items():
                learner.learn_parallel(*block, parts=k, threads=1)
        losses = {k: held_out(learner, X, kept.y, squared=False) for k, learner in learners.items()}
        percent = {f"K = {k}": [100.0 * (losses[k] / losses[1] - 1.0)] for k in parts}
        found.append(Costs("clicks", rows, name, losses[1], percent))
    progress("")
    return found


def report(found: list[Costs]) -> str:
    """Return the results as a table: means over shuffles, and in brackets the worst."""
    names = list(found[0].percent)
    body = [
        [c.name, f"{c.rows:,}", c.learner, f"{c.loss:.4g}"] + [cell(c.percent.get(name, [])) for name in names]
        for c in found
    ]
    head = ["", "rows", "learner", "one stream", *names]
    return f"Loss of rows held back, percent above one stream: mean over shuffles (worst)\n{table(head, body)}"


def cell(percent: list[float]) -> str:
    """Return the mean, and the worst of several.

    >>> cell([1.0, 2.0]), cell([1.0]), cell([])
    ('+1.5 (+2.0)', '+1.0', '')
    """
    worst = f" ({max(percent):+.1f})" if len(percent) > 1 else ""
    return f"{np.mean(percent):+.1f}{worst}" if percent else ""


def main(arguments: list[str] | None = None) -> None:
    """Measure every set there is, and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.parallel", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--data", type=Path, metavar="DIR", help="a folder with public data sets")
    parser.add_argument("--sets", nargs="+", metavar="NAME", help="of these only")
    parser.add_argument("--parts", nargs="+", type=int, default=list(PARTS), metavar="K")
    parser.add_argument("--shuffles", type=int, default=3, metavar="N")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="of the first shuffle")
    parser.add_argument("--clicks", type=int, metavar="ROWS", help="rows of a made-up stream, instead of sets")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers")
    parser.add_argument("--quick", action="store_true", help="made-up rows, one shuffle")
    given = parser.parse_args(arguments)
    quick = given.quick or given.data is None
    sets: Iterator[Rows] = iter(())
    if given.clicks is not None:
        pass
    elif quick:
        sets = iter([data.text_like(4000, 2000)._replace(name="made up")])
    else:
        sources = tuple(source for source in SOURCES if not given.sets or source.name in given.sets)
        sets = data.load(given.data, sources=sources)
    numbers = {source.name for source in data.NUMBERS}
    found = [] if given.clicks is None else measure_clicks(given.clicks, tuple(given.parts))
    for rows in sets:
        found += measure(rows, 1 if quick else given.shuffles, tuple(given.parts), rows.name in numbers, given.first)
    if not found:
        parser.error(f"{given.data} has none of the data sets")
    print(report(found))
    if given.json is not None:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(
            json.dumps(
                {**header("benchmarks.parallel", arguments, quick), "results": [c._asdict() for c in found]}, indent=1
            )
        )


if __name__ == "__main__":
    main()
