"""Estimators beside scikit-learn's: time of one pass, of single events, and what they have learned after one pass.

python -m benchmarks.estimators [--quick] [--data FOLDER] [--json FILE] [--no-times]
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from benchmarks import data
from benchmarks.report import Contestant, Target, header, progress, table, take_turns, verdicts
from fiol.integrations.classifier import FIOLClassifier
from fiol.integrations.regressor import FIOLRegressor

#: Data sets with more rows than this must not be slower.
LARGE = 20_000
ONE_PASS: dict[str, Any] = {"max_iter": 1, "tol": None}


class Task(NamedTuple):
    """Rows to learn from and rows to be tested on."""

    name: str
    X: Any
    y: Any
    X_test: Any
    y_test: Any

    @property
    def numeric(self) -> bool:
        """Whether targets are numbers."""
        return bool(self.y.dtype.kind == "f")


# --- data -------------------------------------------------------------------------------------

#: From an open file to rows and targets.
Reader = Callable[[IO[str]], tuple[Any, Any]]


def svmlight(file: IO[str], first: int = 1) -> tuple[Any, Any]:
    """Return a sparse matrix and labels from lines of `label index:value ...`; indices count from `first`."""
    labels, indptr, indices, values = data.parse_libsvm(file, first)
    return sparse.csr_matrix((values, indices, indptr.astype(np.int32))), labels


def cut(X: Any, y: Any, shuffle: bool, share: float = 0.7) -> tuple[Any, Any, Any, Any]:
    """Return the first part for learning and the rest for tests, after shuffling unless the rows are a stream."""
    order = np.random.default_rng(1).permutation(len(y)) if shuffle else np.arange(len(y))
    stop = int(share * len(y))
    return X[order[:stop]], y[order[:stop]], X[order[stop:]], y[order[stop:]]


def paired(read: Reader, first: Path, second: Path) -> tuple[Any, Any, Any, Any]:
    """Return a file for learning and one for tests."""
    (X, y), (X_test, y_test) = (opened(path, read) for path in (first, second))
    d = max(X.shape[1], X_test.shape[1])
    for part in (X, X_test):
        part.resize(part.shape[0], d)
    return X, y, X_test, y_test


def opened(path: Path, read: Reader) -> tuple[Any, Any]:
    """Return the content of a file, compressed or not."""
    with data.open_text(path) as file:
        return read(file)


LIBFM = partial(svmlight, first=0)


def load(folder: Path) -> Iterator[Task]:
    """Return every known data set in the folder."""

    pairs: tuple[tuple[str, Reader, str, str], ...] = (
        ("a9a", svmlight, "a9a", "a9a.t"),
        ("frappe", LIBFM, "frappe.validation.libfm", "frappe.test.libfm"),
        ("sector", svmlight, "sector.scale", "sector.t.scale"),
    )
    for name, read, *files in pairs:
        first, second = (data.find(folder, file) for file in files)
        if first and second:
            X, y, X_test, y_test = paired(read, first, second)
            yield Task(name, X, y.astype(int), X_test, y_test.astype(int))
    if path := data.find(folder, "news20_bydate.svm"):
        X, y = opened(path, svmlight)
        yield Task("news20", X[:11314], y[:11314].astype(int), X[11314:], y[11314:].astype(int))
    sets: tuple[tuple[str, Reader, str, bool, bool], ...] = (
        ("w8a", svmlight, "w8a", True, False),
        ("reuters", svmlight, "reuters21578_earn.svm", True, False),
        ("spam", svmlight, "spam_drift_40k.svm", False, False),
        ("elec", data.columns, "elec.csv", False, False),
        ("covtype", data.columns, "covtype.csv", True, False),
        ("flights", svmlight, "nycflights13_arrdelay.svm", False, True),
        ("bike", data.BIKE, "bike_hour.csv", False, True),
        ("casp", data.CASP, "casp_protein.csv", True, True),
    )
    for name, read, file, shuffle, numeric in sets:
        if path := data.find(folder, file):
            X, y = opened(path, read)
            y = y.astype(np.float64) if numeric else np.unique(y, return_inverse=True)[1]
            yield Task(name, *cut(X, y, shuffle))
            if name == "covtype":
                yield Task("covtype, class 2", *cut(X, (y == 1).astype(int), shuffle))


def made_up(rows: int = 2000, seed: int = 0) -> Iterator[Task]:
    """Small tasks, for trying this out."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, 20))
    scores = X @ rng.standard_normal((20, 3)) + rng.standard_normal((rows, 3))
    yield Task("two classes", *cut(X, (scores[:, 0] > 0).astype(int), False))
    yield Task("three classes", *cut(X, scores.argmax(axis=1), False))
    yield Task("numbers", *cut(X, scores[:, 0], False))


# --- measuring --------------------------------------------------------------------------------


def contestants(task: Task, penalty: str | None) -> dict[str, Any]:
    """Estimators with the same loss, or the nearest, and the same penalty."""
    options: dict[str, Any] = {"penalty": penalty, **ONE_PASS}
    if task.numeric:
        constant = FIOLRegressor(step_size=0.01, **options)
        return {"sklearn": SGDRegressor(**options), "fiol": FIOLRegressor(**options), "constant": constant}
    loss = "auto" if penalty in (None, "l2") else "log_loss"
    constant = FIOLClassifier("log_loss", step_size=0.1, **options)
    theirs = SGDClassifier(loss="log_loss", **options)
    return {"sklearn": theirs, "fiol": FIOLClassifier(loss, **options), "constant": constant}


def pass_times(task: Task, rounds: int, penalties: tuple[str | None, ...]) -> list[dict[str, Any]]:
    """Seconds of `fit` with one pass, scikit-learn and ours in turns."""
    found = []
    for penalty in penalties:
        models = contestants(task, penalty)
        timed = {name: Contestant(partial(partial, fit, model, task)) for name, model in models.items()}
        for name in ("fiol", "constant"):
            fit(models[name], task)  # compile
        take_turns(timed.values(), rounds)
        seconds = {name: contestant.seconds for name, contestant in timed.items()}
        found.append({"task": task.name, "rows": len(task.y), "penalty": penalty, "seconds": seconds})
    return found


def fit(model: Any, task: Task) -> Any:
    """Fit and ignore overflow, which explicit steps have on raw columns."""
    try:
        return model.fit(task.X, task.y)
    except ValueError as error:
        if "overflow" not in str(error):
            raise
        return None


def accuracies(task: Task, seeds: int) -> dict[str, Any]:
    """Mean accuracy, or R^2, on the rows for tests, after one pass at default settings, alone and with scaled columns.

    With each its standard error over seeds, and the worst. Of dense rows also with curves and pairs.
    """
    theirs, ours = (SGDRegressor, FIOLRegressor) if task.numeric else (SGDClassifier, FIOLClassifier)
    found: dict[str, Any] = {"task": task.name, "what": "R2" if task.numeric else "accuracy"}
    kinds = [("sklearn", theirs, ONE_PASS), ("fiol", ours, {"max_iter": 1})]
    if not sparse.issparse(task.X):
        kinds.append(("fiol auto", ours, {"max_iter": 1, "features": "auto"}))
    for name, kind, options in kinds:
        for scaled in (False,) if name == "fiol auto" else (False, True):
            scores = []
            for seed in range(seeds):
                model = kind(random_state=seed, **options)
                model = fit(behind_scaler(model, task.X) if scaled else model, task)
                scores.append(-np.inf if model is None else model.score(task.X_test, task.y_test))
            column = f"{name} scaled" if scaled else name
            found[column], found[f"{column} worst"] = float(np.mean(scores)), float(np.min(scores))
            found[f"{column} error"] = float(np.std(scores, ddof=1) / np.sqrt(seeds))
    return found


def behind_scaler(model: Any, X: Any) -> Any:
    """Return a pipeline of the usual scaler and the model: StandardScaler, MaxAbsScaler for sparse rows."""
    return make_pipeline(MaxAbsScaler() if sparse.issparse(X) else StandardScaler(), model)


def event_times(events: int = 2000, d: int = 100_000, nnz: int = 50, rounds: int = 5) -> dict[str, float]:
    """Microseconds of `partial_fit` for one sparse row."""
    rng = np.random.default_rng(0)
    rows = [
        sparse.csr_matrix((rng.random(nnz), np.sort(rng.choice(d, nnz, replace=False)), [0, nnz]), shape=(1, d))
        for _ in range(events)
    ]
    labels = [np.array([k]) for k in rng.integers(0, 2, events)]
    first, found = {"classes": [0, 1]}, {}
    for name, model, some, start in (
        ("fiol", FIOLClassifier(), events, first),
        ("fiol, open classes", FIOLClassifier(), events, {}),
        ("fiol, numbers", FIOLRegressor(), events, {}),
        ("sklearn", SGDClassifier(loss="log_loss"), min(events, 100), first),
    ):
        for k in range(2):
            model.partial_fit(rows[k], labels[k], **(start if k == 0 else {}))
        times = []
        for _ in range(rounds):
            begin = time.perf_counter()
            for row, label in zip(rows[:some], labels[:some], strict=True):
                model.partial_fit(row, label)
            times.append((time.perf_counter() - begin) / some * 1e6)
        found[name] = min(times)
    return found


# --- saying what was found --------------------------------------------------------------------


def report_times(passes: list[dict[str, Any]], events: dict[str, float]) -> None:
    """Print how long everything took."""
    print("\nOne pass of `fit`, milliseconds; constant: constant steps instead of those that need no tuning")
    rows = []
    for found in passes:
        t = found["seconds"]
        ratios = [f"{t[name] / t['sklearn']:.2f}" for name in ("fiol", "constant")]
        times = [f"{1e3 * t[name]:.1f}" for name in ("sklearn", "fiol", "constant")]
        rows.append([found["task"], f"{found['rows']:,}", str(found["penalty"]), *times, *ratios])
    print(table(["", "rows", "penalty", "sklearn", "fiol", "constant", "ratio", "ratio"], rows))
    print("\nOne row in `partial_fit`, 100,000 features, microseconds")
    print(table(["", "us"], [[name, f"{value:.1f}"] for name, value in events.items()]))


def report(passes: list[dict[str, Any]], events: dict[str, float], learned: list[dict[str, Any]]) -> list[Target]:
    """Print everything; returns how it compares with what the project set itself."""
    if passes:
        report_times(passes, events)
    print("\nAfter one pass at default settings, on rows for tests: mean, its standard error, and worst of all seeds")
    means = ("sklearn", "sklearn scaled", "fiol", "fiol scaled", "fiol auto")
    worst, rows = ("sklearn worst", "fiol worst"), []
    for a in learned:
        both = [f"{a[c]:.4g} ({a[f'{c} error']:.1g})" if c in a else "-" for c in means]
        rows.append([a["task"], a["what"], *both, *(f"{a[c]:.4g}" for c in worst)])
    print(table(["", "", *means, *worst], rows))
    large = [found for found in passes if found["rows"] > LARGE]
    ratio = {
        name: max((f["seconds"][name] / f["seconds"]["sklearn"], f["task"], f["penalty"]) for f in large)
        for name in ("fiol", "constant")
    } if large else {}  # fmt: skip
    behind = {c: [a["task"] for a in learned if a["fiol"] < a[c]] for c in ("sklearn", "sklearn scaled")}
    return [
        *(
            Target(
                f"not slower on more than {LARGE:,} rows ({name})", "{:.2f} ({}, {})".format(*worst), worst[0] <= 1.0
            )
            for name, worst in ratio.items()
        ),
        *(Target("one row in at most 30 us", f"{us:.1f}", us <= 30.0) for name, us in events.items() if name == "fiol"),
        *(
            Target(f"at least as good as {column} everywhere", f"behind on {', '.join(some) or 'none'}", not some)
            for column, some in behind.items()
        ),
    ]


def main(arguments: list[str] | None = None) -> None:
    """Run and report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.estimators", description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of public data sets")
    parser.add_argument("--quick", action="store_true", help="made-up rows only, few rounds: shows that it works")
    parser.add_argument("--json", type=Path, help="where to write the numbers")
    parser.add_argument("--no-times", action="store_true", help="only what is learned")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")  # explicit steps diverge on some of these
    tasks = load(options.data) if options.data and not options.quick else made_up()
    passes, learned = [], []
    for task in tasks:
        progress(f"{task.name}: {task.X.shape[0]} x {task.X.shape[1]}")
        slow = task.X.shape[0] * len(np.unique(task.y)[:200]) > 1e6 and not task.numeric
        penalties: tuple[str | None, ...] = (None, "l2") if slow else (None, "l2", "l1", "elasticnet")
        if not options.no_times:
            passes += pass_times(task, 2 if options.quick else 3 if slow else 9, penalties)
        learned.append(accuracies(task, 2 if options.quick else 3 if slow else 10))
    events = {} if options.no_times else event_times(*((100, 1000, 10, 2) if options.quick else ()))
    progress("")
    targets = report(passes, events, learned)
    print("\n" + verdicts(targets, judged=not options.quick and options.data is not None))
    if options.json:
        found = {"passes": passes, "events": events, "learned": learned, "targets": [t._asdict() for t in targets]}
        head = header("benchmarks.estimators", arguments, options.quick, ("scikit-learn", "scipy"))
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({**head, **found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
