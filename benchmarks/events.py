"""One event at a time, fiol and River in one run: microseconds per call, and how many times River's time ours is.

    python -m benchmarks.events [--features 5 20 150] [--rounds 15]

Both take the same dicts, in turns, and the least processor time of several rounds counts. Names are the same in every
row; or drawn for every row from four times as many, all of them known; or new in every row; or the same with a text
value, which River gets as a name with value 1. `score_named` stands beside River's `LinearRegression.predict_one`,
which is the same sum, and `learn_named` beside its `learn_one`; so do `score_one` and `learn_one` of a learner, which
take arrays of indices and values in the place of names. "predict and learn" is `predict_proba_one` and then `learn_one`
of the classifiers. "first events" are both of new models, the mean of the first 30 events but one.
"""

from __future__ import annotations

import argparse
import gc
import math
import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import fiol
from fiol.river import FIOLClassifier, FIOLRegressor

#: Where a row's names come from.
NAMES = ("same", "known", "new", "text")
Event = tuple[dict[str, Any], float]
#: How many events of a new model are timed.
FIRST = 30


def events(features: int, names: str, rows: int, seed: int = 0) -> list[Event]:
    """Return rows of named features, and targets; see the top of this file for `names`.

    >>> [len({name for x, _ in events(2, names, 50) for name in x}) for names in NAMES]
    [2, 8, 100, 2]
    """
    rng, pool = random.Random(seed), [f"feature {k}" for k in range(4 * features)]
    found = []
    for row in range(rows):
        if names == "new":
            own = [f"{seed}.{row}.{k}" for k in range(features)]
        else:
            own = rng.sample(pool, features) if names == "known" else pool[:features]
        x: dict[str, Any] = {name: rng.gauss(0.0, 1.0) for name in own}
        if names == "text":
            x[own[-1]] = rng.choice(["red", "green", "blue"])
        found.append((x, rng.gauss(0.0, 1.0)))
    return found


def without_text(stream: list[Event]) -> list[Event]:
    """Return the same events with every text as part of its name.

    >>> without_text([({"size": 2.0, "color": "red"}, 1.0)])
    [({'size': 2.0, 'color=red': 1.0}, 1.0)]
    """
    texts = [{name: value for name, value in x.items() if isinstance(value, str)} for x, _ in stream]
    return [
        ({**{name: x[name] for name in x if name not in text}, **{f"{k}={v}": 1.0 for k, v in text.items()}}, y)
        for (x, y), text in zip(stream, texts, strict=True)
    ]


def as_arrays(stream: list[Event], numbers: dict[str, int]) -> list[tuple[Any, ...]]:
    """Return the sorted indices and values of every row; `numbers` maps names to indices, and new names are added."""
    found = []
    for x, _ in without_text(stream):
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
    start = time.process_time()
    for one in arguments:
        function(*one)
    return (time.process_time() - start) / len(events)


def contests(seen: list[Event]) -> dict[str, tuple[Callable[..., Any], Callable[..., Any], Any]]:
    """Ours, River's, and what both make of a target, by name; all have learned from the rows seen."""
    from river import linear_model, optim

    ours, theirs = FIOLRegressor(), linear_model.LinearRegression(optim.SGD(0.001))
    classifier, logistic = FIOLClassifier(), linear_model.LogisticRegression(optim.SGD(0.01))
    learner, numbered = fiol.Learner(fiol.FIOL(fiol.Squared())), fiol.Learner(fiol.FIOL(fiol.Squared()))
    for (indices, values), (_, y) in zip(as_arrays(seen, {}), seen, strict=True):
        numbered.learn_one(indices, values, y)
    for (x, y), (plain, _) in zip(seen, without_text(seen), strict=True):
        ours.learn_one(x, y)
        theirs.learn_one(plain, y)
        classifier.learn_one(x, y > 0.0)
        logistic.learn_one(plain, y > 0.0)
        learner.learn_named(x, y)

    def label(y: float) -> bool:
        return y > 0.0

    def both(model: Any) -> Callable[..., Any]:
        return lambda x, y: (model.predict_proba_one(x), model.learn_one(x, y))

    return {
        "regressor predict_one": (ours.predict_one, theirs.predict_one, None),
        "score_named": (learner.score_named, theirs.predict_one, None),
        "classifier predict_one": (classifier.predict_one, logistic.predict_one, None),
        "predict_proba_one": (classifier.predict_proba_one, logistic.predict_proba_one, None),
        "regressor learn_one": (ours.learn_one, theirs.learn_one, float),
        "learn_named": (learner.learn_named, theirs.learn_one, float),
        "classifier learn_one": (classifier.learn_one, logistic.learn_one, label),
        "predict and learn": (both(classifier), both(logistic), label),
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
            pair = called(ours, stream, target, given), called(theirs, without_text(stream), target)
            before = best.get(name, pair)
            best[name] = min(pair[0], before[0]), min(pair[1], before[1])
    best["first events"] = first_events(streams[0], rounds)
    return best


def first_events(stream: list[Event], rounds: int) -> tuple[float, float]:
    """Seconds per event of predicting and learning with new classifiers, ours and River's, after the first event."""
    from river import linear_model, optim

    some, best = stream[:FIRST], [math.inf, math.inf]
    for _ in range(rounds):
        models: tuple[Any, ...] = FIOLClassifier(), linear_model.LogisticRegression(optim.SGD(0.01))
        for k, (model, own) in enumerate(zip(models, (some, without_text(some)), strict=True)):
            model.learn_one(own[0][0], own[0][1] > 0.0)
            start = time.process_time()
            for x, y in own[1:]:
                model.predict_proba_one(x)
                model.learn_one(x, y > 0.0)
            best[k] = min(best[k], (time.process_time() - start) / (len(own) - 1))
    return best[0], best[1]


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
