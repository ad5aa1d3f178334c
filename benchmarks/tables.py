"""Tables: linear, additive and pairwise models beside River's trees and forests, Vowpal Wabbit, and boosted trees.

    python -m benchmarks.tables [--data DIR] [--quick] [--json FILE] [--rows N] [--rival-rows N] [--seeds N]
        [--rival-seeds N]

Progressive losses, in the order of the file and shuffled: squared error relative to that of the running mean, or log
loss; and the loss of the stack of `auto` relative to that of its best level. Rivals that are slow see the first rows
only, and are compared with our losses of the same rows; of several settings of a rival the best counts. Batch
references learn from the first four fifths; all losses of the last fifth are compared. Times are processor time per row
of a made-up table of ten columns, in turns.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import data
from benchmarks.report import header, progress, table
from fiol import FIOLClassifier, FIOLRegressor, Learner, Logistic, Softmax, Squared

LEVELS = ("linear", "additive", "auto")
#: Probabilities of rivals are at least this.
LEAST = 1e-6
#: Bags of an EBM, whose default is 14: each takes as long as all others here.
EBM_BAGS = 2
VW_RATES = (0.05, 0.2, 0.5, 2.0)
#: Interactions of Vowpal Wabbit, whose `-q ::` has no squares. Namespace b has the columns of namespace a again, so
#: that ab are all pairs with squares.
VW_INTERACTIONS = {
    "VW -q ::": ("--ignore b -q ::",),
    "VW --interactions": ("--ignore_linear b --interactions ab", "--ignore b --interactions :: --interactions :::"),
}
RIVER_RATES = (0.003, 0.01, 0.03, 0.1)


class Table(NamedTuple):
    """Rows of a table in the order of their file; y are numbers, or codes of classes."""

    name: str
    X: Any
    y: Any
    classes: int  #: 0 for numbers

    def take(self, order: Any) -> Table:
        """Return the rows in another order."""
        return self._replace(X=self.X[order], y=self.y[order])


# --- data -------------------------------------------------------------------------------------


def made_up(rows: int, seed: int = 0) -> Iterator[Table]:
    """Yield tables whose targets are a sum of curves, a sum of products, and a line with much noise."""
    draw = np.random.default_rng(seed)
    X = draw.normal(size=(rows, 10))
    noise = draw.normal(size=rows)
    curves = np.sin(3.0 * X[:, 0]) + np.abs(X[:, 1]) + X[:, 2] ** 2 / 2.0 + X[:, 3]
    yield Table("made-up additive", X, curves + 0.3 * noise, 0)
    yield Table("made-up pairwise", X, X[:, 0] * X[:, 1] + np.sin(3.0 * X[:, 2]) * (X[:, 3] > 0) + 0.3 * noise, 0)
    yield Table("made-up noisy", X, X @ draw.normal(size=10) + 10.0 * noise, 0)


def codes(y: Any) -> tuple[Any, int]:
    """Return labels as codes, and the number of classes."""
    labels, found = np.unique(np.asarray(y).astype(str), return_inverse=True)
    return found, len(labels)


def of_files(folder: Path, chosen: Sequence[str]) -> Iterator[Table]:
    """Yield the tables of a folder: those with chosen names, or all."""
    for name, file, read, kind in (
        ("bike", "bike_hour.csv", data.BIKE, "numbers"),
        ("casp", "casp_protein.csv", data.CASP, "numbers"),
        ("elec", "elec.csv", data.columns, "labels"),
        ("covtype 2 v rest", "covtype.csv", data.columns, "second"),
        ("covtype 7 classes", "covtype.csv", data.columns, "labels"),
    ):
        path = data.find(folder, file)
        if path is None or (chosen and name not in chosen):
            continue
        with data.open_text(path) as lines:
            X, y = read(lines)
        if kind == "numbers":
            yield Table(name, X, y.astype(np.float64), 0)
        elif kind == "second":
            yield Table(name, X, (y.astype(np.float64) == 2.0).astype(int), 2)
        else:
            yield Table(name, X, *codes(y))
    path = data.find(folder, "nycflights13_arrdelay.svm")
    if path is not None and (not chosen or "nycflights" in chosen):
        with data.open_text(path) as lines:
            yield flights(lines)


def flights(lines: Any) -> Table:
    """Return nycflights as a table: each row has a value in each of nine groups of features.

    A column has the number of its feature within its group; the last one, a distance, its value.
    """
    y, _, indices, values = data.parse_libsvm(lines)
    groups, found = np.asarray(indices).reshape(len(y), -1), np.asarray(values, float).reshape(len(y), -1)
    X = (groups - groups.min(axis=0)).astype(np.float64)
    X[:, -1] = found[:, -1]
    return Table("nycflights", X, np.asarray(y).astype(np.float64), 0)


def packaged() -> Iterator[Table]:
    """Yield tables that come with River and scikit-learn."""
    from river import datasets
    from sklearn import datasets as packages

    for kind in (datasets.Bananas, datasets.Phishing, datasets.ImageSegments, datasets.TrumpApproval):
        rows = list(kind())
        names = list(rows[0][0])
        X = np.array([[float(row[name]) for name in names] for row, _ in rows])
        y = [target for _, target in rows]
        yield Table(kind.__name__, X, *((np.array(y, float), 0) if kind is datasets.TrumpApproval else codes(y)))
    for name in ("diabetes", "breast_cancer", "wine", "iris", "digits"):
        found = getattr(packages, f"load_{name}")()
        yield Table(name, found.data, *((found.target.astype(float), 0) if name == "diabetes" else codes(found.target)))


# --- losses -----------------------------------------------------------------------------------


def losses_of(found: Table, said: Any) -> Any:
    """Return the loss of every row: squared errors, or minus the logarithm of the probability of its class."""
    if found.classes == 0:
        return (np.asarray(said) - found.y) ** 2
    p = np.asarray(said)
    if p.ndim == 1:
        p = np.column_stack([1.0 - p, p])
    return -np.log(np.clip(p[np.arange(len(found.y)), found.y], LEAST, 1.0))


def baseline(found: Table) -> Any:
    """Return the loss of every row by the running mean; 1 for classes, whose loss has a unit of its own."""
    if found.classes:
        return np.ones(len(found.y))
    mean = np.concatenate([[0.0], np.cumsum(found.y)[:-1] / np.arange(1, len(found.y))])
    return (mean - found.y) ** 2


def relative(losses: Any, base: Any, rows: slice) -> float:
    """Return the loss of some rows, relative to the baseline."""
    return float(np.sum(losses[rows]) / np.sum(base[rows]))


# --- contestants ------------------------------------------------------------------------------


def learner_for(found: Table, features: str) -> Learner:
    """Return our learner, nothing given but the loss."""
    loss: Any = Squared() if found.classes == 0 else Logistic() if found.classes == 2 else Softmax()
    return Learner(loss=loss, features=features)


def our_predictions(learner: Learner, found: Table) -> Any:
    """Return what our learner predicts for every row before it learns from it."""
    if found.classes == 0:
        return learner.learn(found.X, found.y)
    if found.classes == 2:
        return 1.0 / (1.0 + np.exp(-learner.learn(found.X, np.where(found.y == 1, 1.0, -1.0))))
    learner.add_classes(list(range(found.classes)))
    scores = learner.learn(found.X, found.y.tolist())
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def river_models(found: Table) -> dict[str, list[Any]]:
    """Return River's models by name; of several the best counts."""
    from river import forest, linear_model, multiclass, optim, preprocessing, tree

    lines: list[Any]
    trees: list[Any]
    forests: list[Any]
    if found.classes == 0:
        lines = [linear_model.LinearRegression(optim.SGD(rate)) for rate in RIVER_RATES]
        trees = [tree.HoeffdingAdaptiveTreeRegressor(seed=1)]
        forests = [forest.ARFRegressor(n_models=10, seed=1)]
    else:
        lines = [linear_model.LogisticRegression(optim.SGD(rate)) for rate in RIVER_RATES]
        if found.classes > 2:
            lines = [multiclass.OneVsRestClassifier(one) for one in lines]
        trees = [tree.HoeffdingAdaptiveTreeClassifier(seed=1)]
        forests = [forest.ARFClassifier(n_models=10, seed=1)]
    scaled = [preprocessing.StandardScaler() | one for one in lines]
    return {"River linear": scaled, "River tree": trees, "River forest": forests}


def river_predictions(found: Table, model: Any, seconds: float) -> Any:
    """Return what a model of River predicts for every row before it learns from it, until the time is over."""
    said, end = [], time.process_time() + seconds
    for x, y in zip(found.X.tolist(), found.y.tolist(), strict=True):
        row = dict(enumerate(x))
        if found.classes == 0:
            said.append(model.predict_one(row))
        else:
            p = model.predict_proba_one(row)
            said.append([p.get(k, p.get(bool(k), 0.0)) or 0.0 for k in range(found.classes)] if p else even(found))
        model.learn_one(row, bool(y) if found.classes == 2 else y)
        if time.process_time() > end:
            break
    return np.nan_to_num(np.array(said, float))


def even(found: Table) -> list[float]:
    """Return equal probabilities."""
    return [1.0 / found.classes] * found.classes


def vw_predictions(found: Table, interactions: str, rate: float) -> Any:
    """Return what Vowpal Wabbit predicts for every row before it learns from it."""
    import vowpalwabbit  # type: ignore[import-untyped]

    loss, labels = "--loss_function squared", found.y.tolist()
    if found.classes == 2:
        loss, labels = "--loss_function logistic --link logistic", np.where(found.y == 1, 1, -1).tolist()
    elif found.classes:
        loss, labels = f"--loss_function logistic --oaa {found.classes} --probabilities", (found.y + 1).tolist()
    with tempfile.TemporaryDirectory() as folder:
        rows, said = Path(folder, "rows"), Path(folder, "said")
        with open(rows, "w") as file:
            for x, y in zip(found.X.tolist(), labels, strict=True):
                entries = " ".join(f"{i}:{value!r}" for i, value in enumerate(x) if value)
                file.write(f"{y!r} |a {entries} |b {entries}\n")
        model = vowpalwabbit.Workspace(f"-d {rows} -p {said} --quiet {interactions} -b 22 -l {rate} {loss}")
        model.run_parser()
        model.finish()
        lines = said.read_text().split("\n")[: len(labels)]
    if found.classes <= 2:
        return np.array(lines, float)
    return np.array([[entry.partition(":")[2] for entry in line.split()] for line in lines], float)


def batch_losses(found: Table) -> dict[str, float]:
    """Return the losses of the last fifth by models that learned from the first four fifths."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    numbers = found.classes == 0
    boosting: Any = HistGradientBoostingRegressor if numbers else HistGradientBoostingClassifier
    ours: Any = FIOLRegressor if numbers else FIOLClassifier
    models: dict[str, Callable[[], Any]] = {
        "boosting": boosting,
        "our fit, linear": lambda: ours(random_state=0),
        "our fit, auto": lambda: ours(features="auto", random_state=0),
    }
    try:
        from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

        kind = ExplainableBoostingRegressor if numbers else ExplainableBoostingClassifier
        models["EBM"] = lambda: kind(outer_bags=EBM_BAGS, n_jobs=1)
    except ImportError:
        pass  # `main` prints it
    cut = len(found.y) * 4 // 5
    last, losses = found.take(slice(cut, None)), dict[str, float]()
    base = baseline(found)[cut:]
    for name, make in models.items():
        progress(f"{found.name}: {name}")
        try:
            model = make().fit(found.X[:cut], found.y[:cut])
            said = model.predict(last.X) if numbers else with_all_classes(found, model, model.predict_proba(last.X))
        except ValueError as error:  # a class is not in the first rows
            progress(f"{found.name}: {name}: {error}")
            continue
        losses[name] = float(np.sum(losses_of(last, said)) / np.sum(base))
    return losses


def with_all_classes(found: Table, model: Any, p: Any) -> Any:
    """Return probabilities with a column for every class."""
    whole = np.zeros((len(p), found.classes))
    whole[:, np.asarray(model.classes_, int)] = p
    return whole


# --- comparisons ------------------------------------------------------------------------------


class Limits(NamedTuple):
    """How much rivals may do."""

    rival_rows: int
    seconds: float  #: for each model of River
    batch_rows: int


def compare(found: Table, order: str, limits: Limits, rivals: bool) -> dict[str, Any]:
    """Return the losses of all contestants on a table in one order."""
    base, cut, record = baseline(found), len(found.y) * 4 // 5, dict[str, Any]()
    everything, last = slice(0, None), slice(cut, None)
    ours = dict[str, Any]()
    for features in LEVELS:
        progress(f"{found.name}, {order}: {features}")
        learner = learner_for(found, features)
        ours[features] = losses_of(found, our_predictions(learner, found))
        if features == "auto":
            record["stack / best level"] = above_best_level(learner)
    record["loss"] = {name: relative(own, base, everything) for name, own in ours.items()}
    record["last fifth"] = {name: relative(own, base, last) for name, own in ours.items()}
    if rivals:
        record["first rows"] = first_rows(found, order, ours, base, limits)
        if len(found.y) <= limits.batch_rows:
            record["last fifth"] |= batch_losses(found)
    return {"table": found.name, "order": order, "rows": len(found.y), "columns": found.X.shape[1], **record}


def above_best_level(learner: Any) -> float:
    """Return the progressive loss of the stack of levels divided by that of the best level."""
    stack, *levels = learner.engine.mean_losses().tolist()
    return float(stack / min(levels))


def first_rows(found: Table, order: str, ours: Any, base: Any, limits: Limits) -> dict[str, Any]:
    """Return losses of rivals on the first rows, as many as each manages, and ours of the same rows."""
    some, compared = found.take(slice(0, limits.rival_rows)), dict[str, Any]()
    for name, models in river_models(found).items():
        best: Any = None
        for model in models:
            progress(f"{found.name}, {order}: {name}")
            began = time.process_time()
            said = river_predictions(some, model, limits.seconds / len(models))
            rows = len(said)
            own = relative(losses_of(some.take(slice(0, rows)), said), base[:rows], slice(0, None))
            each = (time.process_time() - began) / rows
            best = min(best or (math.inf,), (own, rows, each))
        assert best is not None
        loss, rows, each = best
        compared[name] = {"loss": loss, "rows": rows, "us": 1e6 * each, **same_rows(ours, base, rows)}
    for name, choices in VW_INTERACTIONS.items():
        losses = []
        for interactions in choices:
            for rate in VW_RATES:
                progress(f"{found.name}, {order}: Vowpal Wabbit {interactions} -l {rate}")
                said = vw_predictions(some, interactions, rate)
                losses.append(relative(losses_of(some, said), base[: len(some.y)], slice(0, None)))
        rows = len(some.y)
        compared[name] = {"loss": min(losses), "rows": rows, **same_rows(ours, base, rows)}
    return compared


def same_rows(ours: Any, base: Any, rows: int) -> dict[str, float]:
    """Return our losses of the first rows."""
    return {features: relative(own, base, slice(0, rows)) for features, own in ours.items()}


def times(rows: int, turns: int) -> dict[str, float]:
    """Return microseconds of processor time per row of ten columns, the least of several turns; for the forest one."""
    found = next(made_up(rows))
    least = dict.fromkeys(LEVELS, math.inf)
    for _ in range(turns + 1):
        for features in LEVELS:
            learner = learner_for(found, features)
            began = time.process_time()
            learner.learn(found.X, found.y)
            least[features] = min(least[features], 1e6 * (time.process_time() - began) / rows)
    few = found.take(slice(0, 500))
    (model,) = river_models(few)["River forest"]
    began = time.process_time()
    river_predictions(few, model, math.inf)
    memory = learner_for(found, "auto")
    memory.learn(found.X, found.y)
    return {**least, "River forest": 1e6 * (time.process_time() - began) / 500, "auto, MB": memory.nbytes / 1e6}


# --- the command ------------------------------------------------------------------------------


def shown(records: list[dict[str, Any]]) -> str:
    """Return the tables of losses."""
    head = ["progressive loss", "order", "rows", *LEVELS, "stack / best level"]
    rows = [
        [
            *(r["table"], r["order"], f"{r['rows']:,}"),
            *(f"{r['loss'][f]:.4f}" for f in LEVELS),
            number(r["stack / best level"]),
        ]
        for r in records
    ]
    parts = [table(head, rows)]
    rows = [
        [r["table"], r["order"], name, f"{own['rows']:,}", f"{own['loss']:.4f}", *(f"{own[f]:.4f}" for f in LEVELS)]
        for r in records
        for name, own in r.get("first rows", {}).items()
    ]
    parts.append(table(["first rows", "order", "rival", "rows", "its loss", *LEVELS], rows))
    others = ("boosting", "EBM", "our fit, linear", "our fit, auto")
    rows = [
        [r["table"], r["order"], *(number(r["last fifth"].get(name)) for name in (*LEVELS, *others))] for r in records
    ]
    return "\n\n".join([*parts, table(["last fifth", "order", *LEVELS, *others], rows)])


def number(value: float | None) -> str:
    """Return a loss as text."""
    return "-" if value is None else f"{value:.4f}"


def main(arguments: list[str] | None = None) -> None:
    """Run the comparisons, print tables and write a file of numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rival-seeds", type=int, default=1, help="shuffled orders in which rivals learn too")
    parser.add_argument("--rows", type=int, help="of every table, the first ones")
    parser.add_argument("--rival-rows", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=20.0, help="for each rival of River")
    parser.add_argument("--batch-rows", type=int, default=60_000)
    parser.add_argument("--ours", action="store_true", help="no rivals")
    parser.add_argument("--only", default="", help="names of tables, separated by commas")
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    limits = Limits(given.rival_rows, given.seconds, given.batch_rows)
    if given.quick:
        limits, given.seeds = Limits(300, 1.0, 1000), 1
    chosen = [name for name in given.only.split(",") if name]
    tables = [*made_up(600 if given.quick else 20_000)]
    if not given.quick:
        tables += [*packaged(), *(of_files(given.data, chosen) if given.data is not None else ())]
    records = list[dict[str, Any]]()
    packages = ["scikit-learn", "river", "vowpalwabbit"]
    if importlib.util.find_spec("interpret") is not None:
        packages.append("interpret-core")
    elif not given.ours:
        print("EBM: interpret is not installed")
    head = header("benchmarks.tables", arguments, given.quick, packages)
    for found in tables:
        if chosen and found.name not in chosen:
            continue
        found = found.take(slice(0, given.rows))
        for seed in range(-1, given.seeds):
            order = "file" if seed < 0 else f"shuffled {seed}"
            rows = np.random.default_rng(seed).permutation(len(found.y)) if seed >= 0 else np.arange(len(found.y))
            records.append(compare(found.take(rows), order, limits, rivals=seed < given.rival_seeds and not given.ours))
            if given.json is not None:
                write(given.json, {**head, "records": records})
    cost = times(1000 if given.quick else 50_000, 1 if given.quick else 3)
    print(shown(records))
    print("\n" + table(["ten columns", *cost], [["µs per row", *(f"{value:.2f}" for value in cost.values())]]))
    if given.json is not None:
        write(given.json, {**head, "records": records, "times": cost})


def write(path: Path, found: dict[str, Any]) -> None:
    """Write numbers as JSON."""
    path.write_text(json.dumps(found, indent=1) + os.linesep, encoding="utf-8")


if __name__ == "__main__":
    main()
