"""Loss over one pass: defaults against defaults, and against others' best setting in hindsight."""

from __future__ import annotations

import math
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import fiol
from benchmarks.data import Rows
from benchmarks.tuning import BINARY, NUMBERS, Kind, Task, as_it_is, find_vw, sgd_scores, standardized, vw_lines

#: Learning rates that are tried for scikit-learn's best, over the mean squared length of a row.
RATES = (0.001, 0.01, 0.1, 1.0, 10.0)
VW_BEST = (("-l", "0.5"), ("-l", "0.1"), ("-l", "2"), ("-l", "10"), ("--coin",), ("--ftrl",))
#: River takes rows with at most this many entries in all.
RIVER_ENTRIES = 400_000


class Entrant(NamedTuple):
    """A way to learn: its library, whether it is that library's default, and scores of rows before they are learned."""

    library: str
    setting: str
    default: bool
    scores: Callable[[Task], Any]


# --- fiol -----------------------------------------------------------------------------------------


def fiol_scores(task: Task, update: Callable[[Any], Any] = fiol.Stacked) -> Any:
    """Return scores of a learner, by default of one without any setting."""
    return fiol.Learner(update(task.kind.loss)).learn(task.rows.matrix(), task.labels)


# --- scikit-learn ---------------------------------------------------------------------------------


def sgd_default_scores(task: Task, scaled: bool) -> Any:
    """Return scores of scikit-learn's SGD as it comes, row by row; `scaled` by all rows, which no stream has."""
    from sklearn.linear_model import SGDClassifier, SGDRegressor
    from sklearn.preprocessing import StandardScaler

    x = task.array if task.is_table else task.rows.matrix()
    if scaled:
        x = StandardScaler(with_mean=task.is_table).fit_transform(x)
    binary = task.kind is BINARY
    model = SGDClassifier("log_loss") if binary else SGDRegressor()
    predict = model.decision_function if binary else model.predict
    found, y = np.zeros(task.rows.size), task.rows.y
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for k in range(task.rows.size):
            row = x[k : k + 1]
            try:
                found[k] = predict(row)[0] if k else 0.0
                model.partial_fit(row, y[k : k + 1], **({"classes": [-1.0, 1.0]} if binary and not k else {}))
            except ValueError:  # overflow
                return np.full(task.rows.size, np.inf)
    return found


def scikit_learn(task: Task) -> Iterator[Entrant]:
    """Yield the default, and constant learning rates, made by `fiol.SGD`, which makes the same steps faster."""
    yield Entrant("scikit-learn", "default", True, partial(sgd_default_scores, scaled=False))
    yield Entrant("scikit-learn", "default, scaled", False, partial(sgd_default_scores, scaled=True))
    ways: tuple[tuple[str, Callable[[Task], Rows]], ...] = (("", as_it_is), (", scaled", standardized))
    for title, scaled in ways:
        for rate in RATES:
            yield Entrant("scikit-learn", f"rate {rate}{title}", False, partial(sgd_scores, rate, scaled, False))


# --- Vowpal Wabbit --------------------------------------------------------------------------------


def vw_scores(task: Task, command: Sequence[str], run: tuple[str, ...]) -> Any:
    """Return scores of Vowpal Wabbit, each before learning from its row."""
    loss = "logistic" if task.kind is BINARY else "squared"
    with tempfile.TemporaryDirectory() as folder:
        text, out = Path(folder, "rows.vw"), Path(folder, "scores")
        with text.open("w") as file:
            file.writelines(vw_lines(task))
        bits = max(18, math.ceil(math.log2(task.rows.d + 1)) + 1)
        words = [*command, "-d", str(text), "-p", str(out), "--loss_function", loss, "-b", str(bits), "--quiet", *run]
        subprocess.run(words, check=True, capture_output=True)
        return np.array([float(line.split()[0]) for line in out.read_text().splitlines()])


def vowpal_wabbit(task: Task) -> Iterator[Entrant]:
    """Yield its default and five other runs; none if it is not installed."""
    command = find_vw(None)
    if command is None:
        return
    for run in VW_BEST:
        yield Entrant("Vowpal Wabbit", " ".join(run), run == VW_BEST[0], partial(vw_scores, command=command, run=run))


# --- River ----------------------------------------------------------------------------------------


def river_scores(task: Task, rate: float) -> Any:
    """Return scores of River's linear models with its StandardScaler, each before learning from its row."""
    from river import linear_model, optim, preprocessing

    if task.kind is BINARY:
        model: Any = linear_model.LogisticRegression(optim.SGD(rate))
    else:
        model = linear_model.LinearRegression(optim.SGD(rate))
    scaler: Any = preprocessing.StandardScaler()
    found = np.zeros(task.rows.size)
    with np.errstate(all="ignore"):
        for k, (row, y) in enumerate(zip(task.array.tolist(), task.rows.y.tolist(), strict=True)):
            x = dict(enumerate(row))
            scaler.learn_one(x)
            x = scaler.transform_one(x)
            if task.kind is BINARY:
                p = min(max(model.predict_proba_one(x)[True], 1e-15), 1.0 - 1e-15)
                found[k] = math.log(p / (1.0 - p))
                model.learn_one(x, y > 0.0)
            else:
                found[k] = model.predict_one(x)
                model.learn_one(x, y)
    return found


def river(task: Task) -> Iterator[Entrant]:
    """Yield its default learning rate of 0.01 and three others, for tables."""
    if task.is_table and task.rows.size * task.rows.d <= RIVER_ENTRIES:
        for rate in (0.01, 0.001, 0.1, 1.0):
            yield Entrant("River", f"rate {rate}", rate == 0.01, partial(river_scores, rate=rate))


# --- results --------------------------------------------------------------------------------------


def judged(task: Task, entrant: Entrant) -> float:
    """Return the loss of an entrant; infinite if it overflowed."""
    try:
        return task.judge(entrant.scores(task))
    except (OverflowError, FloatingPointError):
        return math.inf


def contest(rows: Rows, kind: Kind, seeds: int, report: Callable[[str], None]) -> dict[str, Any]:
    """Return the losses of all entrants on one set; of shuffled rows ours, and scikit-learn's least of all rates."""
    task = Task(rows, kind)
    ours = Entrant("fiol", "default", True, fiol_scores)
    single = Entrant("fiol", "one learner", False, partial(fiol_scores, update=fiol.FIOL))
    losses: dict[str, dict[str, float]] = {}
    for entrant in (ours, single, *scikit_learn(task), *vowpal_wabbit(task), *river(task)):
        report(f"{rows.name}: {entrant.library} {entrant.setting}")
        losses.setdefault(entrant.library, {})[entrant.setting] = judged(task, entrant)
    rates = [entrant for entrant in scikit_learn(task) if entrant.setting.startswith("rate")]
    shuffled = []
    for seed in range(seeds):
        report(f"{rows.name}: shuffle {seed + 1} of {seeds}")
        other = Task(rows.take(np.random.default_rng(seed).permutation(rows.size)), kind)
        shuffled.append([judged(other, ours), min(judged(other, entrant) for entrant in rates)])
    return {
        "name": rows.name,
        "rows": rows.size,
        "features": rows.d,
        "unit": kind.unit,
        "losses": losses,
        "shuffled": shuffled,
    }


__all__ = ["BINARY", "NUMBERS", "contest"]
