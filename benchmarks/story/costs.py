"""Time, memory, growth, sparsity, robustness to step sizes, and tables against boosted trees."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import fiol
from benchmarks.data import Rows, text_like
from benchmarks.tuning import BINARY, Task


def interleaved(contestants: dict[str, Callable[[], Any]], turns: int) -> dict[str, float]:
    """Return the least processor time of each contestant; they take turns, so that a busy machine hits all alike."""
    best = dict.fromkeys(contestants, math.inf)
    for _ in range(turns):
        for name, run in contestants.items():
            start = time.process_time()
            run()
            best[name] = min(best[name], time.process_time() - start)
    return best


def speed(rows: Rows, turns: int) -> dict[str, float]:
    """Return microseconds of a row in one pass, the rows in memory."""
    from sklearn.linear_model import SGDClassifier

    x, y = rows.matrix(), rows.y
    once: dict[str, Any] = {"max_iter": 1, "tol": None, "shuffle": False}

    def sgd(penalty: str | None) -> Callable[[], Any]:
        return lambda: SGDClassifier("log_loss", penalty=penalty, learning_rate="constant", eta0=0.1, **once).fit(x, y)

    contestants: dict[str, Callable[[], Any]] = {
        "fiol, default": lambda: fiol.Learner().learn(x, y),
        "fiol, one learner": lambda: fiol.Learner(fiol.FIOL(fiol.Logistic())).learn(x, y),
        "scikit-learn SGD": sgd(None),
        "fiol, default, L1": lambda: fiol.Learner(regularizer="l1:1e-4").learn(x, y),
        "fiol, one learner, L1": lambda: fiol.Learner(fiol.FIOL(fiol.Logistic(), fiol.L1(1e-4))).learn(x, y),
        "scikit-learn SGD, L1": sgd("l1"),
    }
    for run in contestants.values():  # compiles
        run()
    return {name: 1e6 * seconds / rows.size for name, seconds in interleaved(contestants, turns).items()}


def events(count: int, turns: int) -> dict[str, float]:
    """Return microseconds to learn from one event, a dict with ten numbers."""
    from river import linear_model

    from fiol.river import FIOLClassifier

    draw = np.random.default_rng(0)
    rows = [dict(zip("abcdefghij", x, strict=True)) for x in draw.standard_normal((count, 10)).tolist()]
    labels = [x["a"] + x["b"] > 0.0 for x in rows]

    def learn_all(make: Callable[[], Any]) -> Callable[[], Any]:
        def run() -> None:
            learn_one = make().learn_one
            for x, y in zip(rows, labels, strict=True):
                learn_one(x, y)

        return run

    contestants = {
        "fiol.river, default": learn_all(FIOLClassifier),
        "fiol.river, one learner": learn_all(lambda: FIOLClassifier(step_size="single")),
        "River LogisticRegression": learn_all(linear_model.LogisticRegression),
    }
    for run in contestants.values():
        run()
    return {name: 1e6 * seconds / count for name, seconds in interleaved(contestants, turns).items()}


def growth(largest: int) -> dict[str, list[list[float]]]:
    """Return microseconds of a row against rows, non-zeros of a row, features, and shards, for the default learner."""

    def measured(rows: Rows, shards: int = 1) -> float:
        x, y = rows.matrix(), rows.y
        learner = fiol.Learner(n_features=rows.d)
        learner.learn(x[:50], y[:50])
        start = time.process_time()  # of all threads together
        if shards > 1:
            learner.learn_parallel(x, y, parts=shards)
        else:
            learner.learn(x, y)
        return (time.process_time() - start) / rows.size * 1e6

    some = [largest // 16, largest // 4, largest]
    measured(text_like(100, 1000))  # compiles
    measured(text_like(4000, 1000), 2)
    return {
        "rows": [[n, measured(text_like(n, 20_000, 30))] for n in some],
        "non-zeros of a row": [[k, measured(text_like(largest // 8, 20_000, k))] for k in (10, 40, 160)],
        "features": [[d, measured(text_like(largest // 8, d, 30))] for d in (1000, 30_000, 1_000_000)],
        "shards, all threads together": [[k, measured(text_like(largest, 20_000, 30), k)] for k in (1, 2, 4)],
    }


def memory(rows: Rows) -> dict[str, float]:
    """Return bytes for each feature that was seen, in memory and in a file."""
    found: dict[str, float] = {}
    for name, learner in {"default": fiol.Learner(), "one learner": fiol.Learner(fiol.FIOL(fiol.Logistic()))}.items():
        learner.learn(rows.matrix(), rows.y)
        seen = len(np.unique(rows.indices))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.fiol")
            learner.save(path)
            found[f"{name}, file"] = path.stat().st_size / seen
        found[f"{name}, memory"] = learner.nbytes / seen
    return found


def robustness(rows: Rows, sizes: int) -> dict[str, Any]:
    """Return losses over step sizes from 1e-3 to 1e3 of exact and explicit steps, and that of the default."""
    x, y = rows.matrix(), rows.y
    grid = np.logspace(-3.0, 3.0, sizes)

    def loss(update: Any) -> float:
        with np.errstate(all="ignore"):
            value = BINARY.judge(fiol.Learner(update).learn(x, y), y)
        return value if math.isfinite(value) else math.inf

    steps = [fiol.ScaleFree(fiol.AdaGrad(size)) for size in grid]
    return {
        "name": rows.name,
        "sizes": grid.tolist(),
        "exact steps": [loss(fiol.FIOL(fiol.Logistic(), step_size=step)) for step in steps],
        "gradient steps": [loss(fiol.SGD(fiol.Logistic(), step_size=step)) for step in steps],
        "default": loss(fiol.Stacked(fiol.Logistic())),
    }


def sparsity(rows: Rows) -> dict[str, Any]:
    """Return non-zeros and log loss on held-out rows over penalties, ours and scikit-learn's."""
    from sklearn.linear_model import SGDClassifier

    held = np.arange(rows.size) % 5 == 4
    x, y, x_new, y_new = rows.matrix()[~held], rows.y[~held], rows.matrix()[held], rows.y[held]
    found: dict[str, Any] = {"name": rows.name, "fiol": [], "scikit-learn": []}
    for strength in (1e-5, 1e-4, 1e-3, 1e-2):
        learner = fiol.Learner(regularizer=f"l1:{strength}")
        learner.learn(x, y)
        loss = BINARY.judge(learner.scores(x_new), y_new)
        found["fiol"].append([strength, int(np.count_nonzero(learner.weights)), loss])
        best = [math.inf, 0, math.inf]
        for rate in (0.01, 0.1, 1.0):
            model = SGDClassifier(
                "log_loss",
                penalty="l1",
                alpha=strength,
                learning_rate="constant",
                eta0=rate,
                max_iter=1,
                tol=None,
                random_state=0,
            ).fit(x, y)
            loss = BINARY.judge(model.decision_function(x_new), y_new)
            if loss < best[2]:
                best = [strength, int(np.count_nonzero(model.coef_)), loss]
        found["scikit-learn"].append(best)
    return found


def trees(rows: Rows) -> dict[str, Any]:
    """Return relative squared errors of the last fifth of a shuffled table, and seconds: ours and boosted trees."""
    from sklearn.ensemble import HistGradientBoostingRegressor
    from threadpoolctl import threadpool_limits

    task = Task(rows.take(np.random.default_rng(0).permutation(rows.size)), BINARY)
    x, y, cut = task.array, task.rows.y, rows.size * 4 // 5
    models: dict[str, Any] = {
        "fiol": fiol.FIOLRegressor(random_state=0),
        "fiol, curves": fiol.FIOLRegressor(features="additive", random_state=0),
        "fiol, curves and pairs": fiol.FIOLRegressor(features="pairwise", random_state=0),
        "HistGradientBoosting": HistGradientBoostingRegressor(random_state=0),
    }
    found: dict[str, Any] = {"name": rows.name, "rows": rows.size}
    mean = float(np.mean(y[:cut]))
    for name, model in models.items():
        if name != "HistGradientBoosting":
            model.fit(x[:200], y[:200])  # compiles
        start = time.process_time()
        with threadpool_limits(1):  # threads that wait for each other would count
            predicted = model.fit(x[:cut], y[:cut]).predict(x[cut:])
        error = float(np.sum((predicted - y[cut:]) ** 2) / np.sum((mean - y[cut:]) ** 2))
        found[name] = [error, time.process_time() - start]
    return found
