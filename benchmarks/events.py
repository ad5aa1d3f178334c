"""One event at a time, fiol and River in one run: microseconds per call, and how many times River's time ours is.

    python -m benchmarks.events [--features 5 20 150] [--rounds 15]

Both take the same dicts, in turns, and the best of several rounds counts. Names are the same in every row; or drawn for
every row from four times as many, all of them known; or new in every row. `score_named` stands beside River's
`LinearRegression.predict_one`, which is the same sum, and `learn_named` beside its `learn_one`; so do `score_one` and
`learn_one` of a learner, which take arrays of indices and values in the place of names.
"""

from __future__ import annotations

import argparse
import gc
import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import fiol
from fiol.river import FIOLClassifier, FIOLRegressor

#: Where a row's names come from.
NAMES = ("same", "known", "new")
Event = tuple[dict[str, float], float]


def events(features: int, names: str, rows: int, seed: int = 0) -> list[Event]:
    """Rows of so many named features, and targets; see the top of this file for `names`.

    >>> [len({name for x, _ in events(2, names, 50) for name in x}) for names in NAMES]
    [2, 8, 100]
    """
    rng, pool = random.Random(seed), [f"feature {k}" for k in range(4 * features)]
    found = []
    for row in range(rows):
        if names == "new":
            own = [f"{seed}.{row}.{k}" for k in range(features)]
        else:
            own = pool[:features] if names == "same" else rng.sample(pool, features)
        found.append(({name: rng.gauss(0.0, 1.0) for name in own}, rng.gauss(0.0, 1.0)))
    return found


def as_arrays(stream: list[Event], numbers: dict[str, int]) -> list[tuple[Any, ...]]:
    """The indices and values of every row, sorted; `numbers` has those of names so far, and gets those of others."""
    found = []
    for x, _ in stream:
        row = sorted((numbers.setdefault(name, len(numbers)), value) for name, value in x.items())
        found.append((np.array([i for i, _ in row], np.int32), np.array([value for _, value in row])))
    return found


def called(
    function: Callable[..., Any],
    events: list[Event],
    target: Callable[[float], Any] | None = None,
    rows: list[tuple[Any, ...]] | None = None,
) -> float:
    """Seconds per event of calls with its features, and what `target` makes of its number, if that is given.

    `rows` are what features are given as; by default as dicts.
    """
    given = [(x,) for x, _ in events] if rows is None else rows
    arguments = [row if target is None else (*row, target(y)) for row, (_, y) in zip(given, events, strict=True)]
    gc.collect()
    start = time.perf_counter()
    for one in arguments:
        function(*one)
    return (time.perf_counter() - start) / len(events)


def contests(seen: list[Event]) -> dict[str, tuple[Callable[..., Any], Callable[..., Any], Any]]:
    """Ours, River's, and what both make of a target, by name; all have learned from the rows seen."""
    from river import linear_model, optim

    ours, theirs = FIOLRegressor(), linear_model.LinearRegression(optim.SGD(0.001))
    classifier, logistic = FIOLClassifier(), linear_model.LogisticRegression(optim.SGD(0.01))
    learner, numbered = fiol.Learner(fiol.FIOL(fiol.Squared())), fiol.Learner(fiol.FIOL(fiol.Squared()))
    for (indices, values), (_, y) in zip(as_arrays(seen, {}), seen, strict=True):
        numbered.learn_one(indices, values, y)
    for x, y in seen:
        ours.learn_one(x, y)
        theirs.learn_one(x, y)
        classifier.learn_one(x, y > 0.0)
        logistic.learn_one(x, y > 0.0)
        learner.learn_named(x, y)

    def label(y: float) -> bool:
        return y > 0.0

    return {
        "regressor predict_one": (ours.predict_one, theirs.predict_one, None),
        "score_named": (learner.score_named, theirs.predict_one, None),
        "classifier predict_one": (classifier.predict_one, logistic.predict_one, None),
        "predict_proba_one": (classifier.predict_proba_one, logistic.predict_proba_one, None),
        "regressor learn_one": (ours.learn_one, theirs.learn_one, float),
        "learn_named": (learner.learn_named, theirs.learn_one, float),
        "classifier learn_one": (classifier.learn_one, logistic.learn_one, label),
        "score_one, arrays": (numbered.score_one, theirs.predict_one, None),
        "learn_one, arrays": (numbered.learn_one, theirs.learn_one, float),
    }


def measure(features: int, names: str, rounds: int, rows: int) -> dict[str, tuple[float, float]]:
    """Seconds per call, ours and River's, by name of the contest."""
    streams = [events(features, names, rows, seed if names == "new" else 0) for seed in range(rounds + 1)]
    best, numbers = dict[str, tuple[float, float]](), dict[str, int]()
    arrays = [as_arrays(stream, numbers) for stream in streams]
    for name, (ours, theirs, target) in contests(streams[0]).items():
        for stream, arrayed in zip(streams[1:], arrays[1:], strict=True):
            given = arrayed if name.endswith("arrays") else None
            pair = called(ours, stream, target, given), called(theirs, stream, target)
            before = best.get(name, pair)
            best[name] = min(pair[0], before[0]), min(pair[1], before[1])
    return best


def table(found: dict[tuple[str, int, str], tuple[float, float]]) -> str:
    """Markdown: a row per contest, a column per number of features and kind of names."""
    columns = list(dict.fromkeys((features, names) for _, features, names in found))
    head = ["| µs, ours / River's (ratio) |", *(f" {features} {names} |" for features, names in columns)]
    lines = ["".join(head), "|---|" + "---:|" * len(columns)]
    for name in dict.fromkeys(name for name, _, _ in found):
        cells = []
        for features, names in columns:
            ours, theirs = found[name, features, names]
            cells.append(f" {1e6 * ours:.2f} / {1e6 * theirs:.2f} ({ours / theirs:.2f}) |")
        lines.append(f"| {name} |{''.join(cells)}")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--features", type=int, nargs="+", default=[5, 20, 150])
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args(arguments)
    found = {}
    for features in options.features:
        for names in NAMES:
            for name, pair in measure(features, names, options.rounds, max(50, 4000 // features)).items():
                found[name, features, names] = pair
    print(table(found))


if __name__ == "__main__":
    main()
