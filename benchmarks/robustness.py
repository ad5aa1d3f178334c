"""The default learner where linear models lose: outliers, passes, offsets, targets, shares of classes, first rows.

    python -m benchmarks.robustness [--data DIR] [--json FILE] [--quick]

- outliers: cells of 1e4 and 1e6 in one of four normal columns of 20,000 rows: accuracy or R2 of the last tenth of a
  stream, and of new rows after `fit`, beside those without outliers;
- passes: scikit-learn's `bench_sgd_regression` (`make_regression`, noise 0.1, standardized): the error of `fit`, and
  after 2 and 40 passes, beside the smaller one of the best member of `fit` and of `SGDRegressor` with the parameters of
  that benchmark;
- offsets: the progressive loss of packaged tables beside that of the same rows, standardized by the rows so far;
- targets: R2 of the second half of a stream whose targets are 1e4 and 1e6 standard deviations from 0, beside that
  of the targets around 0;
- classes: the log loss of a stream whose share of positive rows falls from 0.5 to 0.05, at once or slowly, while the
  columns keep their meaning: of all rows, and of a fortieth after the middle, beside that of the true probabilities;
- first rows: the squared error of the first 25 rows of two files of Vowpal Wabbit's tests, labels as numbers, each
  predicted before it is learned from, beside that of Vowpal Wabbit (with `--data`);
- usual: the progressive losses of the default on all sets of benchmarks.tuning with one score; without `--data`, and
  with `--quick`, on made-up rows.

Accuracy and R2 are better if higher, and compared by their difference; losses and errors are better if lower, and
compared by their ratio.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import data
from benchmarks.report import header, progress, table
from benchmarks.tuning import BINARY, CLASSES, SETS, log_loss, made_up
from fiol import Learner, Stacked, read


class Sizes(NamedTuple):
    """Numbers of rows of all parts, and of columns where there are several."""

    outliers: int
    passes: tuple[int, ...]
    columns: tuple[int, ...]
    offsets: int
    targets: int
    classes: int
    usual: int  #: of made-up sets


FULL = Sizes(20_000, (100, 2575, 5050, 7525, 10_000), (10, 100, 1000), 20_000, 5000, 20_000, 5000)
QUICK = Sizes(2000, (300,), (10,), 300, 600, 800, 500)


class Found(NamedTuple):
    """One measured number, and the number beside it that it should be close to."""

    group: str
    name: str
    unit: str
    measured: float
    beside: float | None = None

    def compared(self) -> str:
        """Return the difference of numbers that are better if higher, and the ratio of others."""
        if self.beside is None:
            return ""
        if self.unit in HIGHER:
            return f"{self.measured - self.beside:+.4g}"
        return f"x {self.measured / self.beside:.3f}"


#: Units of numbers that are better if higher.
HIGHER = ("accuracy", "R2")


def power(x: float) -> str:
    """Return a power of ten as code has it.

    >>> power(1e4)
    '1e4'
    """
    return f"1e{round(np.log10(x))}"


def accuracy(scores: Any, y: Any) -> float:
    return float(np.mean((scores > 0.0) == (y > 0.0)))


def r2(scores: Any, y: Any) -> float:
    return float(1.0 - np.mean((scores - y) ** 2) / np.var(y))


# --- outliers ---------------------------------------------------------------------------------


def outliers(rows: int) -> Iterator[Found]:
    """Streams and `fit` with one or ten outliers in a column."""
    from fiol import FIOLClassifier, FIOLRegressor  # imported here: they load scikit-learn

    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, 4))
    z = X @ [2.0, -1.0, 0.5, 1.0]
    labels = np.where(rng.random(rows) * (1.0 + np.exp(-4.0 * z)) < 1.0, 1.0, -1.0)
    y, late, known = z + 0.1 * rng.standard_normal(rows), slice(rows - rows // 10, None), slice(rows - rows // 10)
    kinds = (
        ("logistic", labels, accuracy, "accuracy", FIOLClassifier),
        ("squared", y, r2, "R2", FIOLRegressor),
    )
    for loss, targets, merit, unit, estimator in kinds:

        def stream(X: Any, loss: Any = loss, targets: Any = targets, merit: Any = merit) -> float:
            return merit(Learner(loss).learn(X, targets)[late], targets[late])

        def fit(bad: Any, targets: Any = targets, estimator: Any = estimator) -> float:
            return float(estimator(random_state=0).fit(bad[known], targets[known]).score(X[late], targets[late]))

        usual = stream(X), fit(X)
        for cell, number in ((1e4, 1), (1e6, 1), (1e6, 10)):
            bad = X.copy()
            bad[np.linspace(rows // 20, rows * 4 // 5, number).astype(int), 0] = cell
            name = f"{number} of {power(cell)}, {loss}"
            yield Found("outliers", f"{name}, stream", unit, stream(bad), usual[0])
            yield Found("outliers", f"{name}, fit", unit, fit(bad), usual[1])


# --- several passes ---------------------------------------------------------------------------


def passes(sizes: Any, columns: Any) -> Iterator[Found]:
    """scikit-learn's benchmark of its regressor."""
    from sklearn.datasets import make_regression
    from sklearn.linear_model import SGDRegressor

    from fiol import FIOLRegressor

    for d in columns:
        for n in sizes:
            X, y = make_regression(n_samples=n + 1000, n_features=d, noise=0.1, random_state=0)
            X, y = (X - X[:n].mean(axis=0)) / X[:n].std(axis=0), (y - y[:n].mean()) / y[:n].std()
            new_X, new_y = X[n:], y[n:]

            def error(model: Any, new_X: Any = new_X, new_y: Any = new_y) -> float:
                return float(np.sqrt(np.mean((model.predict(new_X) - new_y) ** 2)))

            schedule = {"learning_rate": "invscaling", "eta0": 0.01, "power_t": 0.25}
            peer = SGDRegressor(alpha=0.01 / n, fit_intercept=False, max_iter=1000, random_state=0, **schedule)
            model = FIOLRegressor(random_state=0).fit(X[:n], y[:n])
            learner = model.learners_[0]
            members = [error(learner.member(k)) for k in range(len(learner.members))]
            best = min(error(peer.fit(X[:n], y[:n])), *members)
            yield Found("passes", f"{n} x {d}, fit", "RMSE", error(model), best)
            for number in (2, 40):
                model = FIOLRegressor(max_iter=number, tol=None, random_state=0).fit(X[:n], y[:n])
                yield Found("passes", f"{n} x {d}, {number} passes", "RMSE", error(model), best)


# --- offsets ----------------------------------------------------------------------------------


def standardized_so_far(X: Any) -> Any:
    """Return every row less the means of the rows up to it, divided by their standard deviations."""
    count = np.arange(1, len(X) + 1)[:, None]
    mean = np.cumsum(X, axis=0) / count
    width = np.sqrt(np.maximum(np.cumsum(X * X, axis=0) / count - mean * mean, 0.0))
    known = width > 1e-12 * np.abs(mean)
    return np.where(known, (X - mean) / np.where(known, width, 1.0), 0.0)


def progressive(X: Any, y: Any, kind: Any, classes: int) -> float:
    if classes:
        return kind.judge(Learner("softmax", classes=range(classes)).learn(X, y), y.astype(float))  # type: ignore[no-any-return]
    return kind.judge(Learner(Stacked(kind.loss)).learn(X, y), y)  # type: ignore[no-any-return]


def offsets(rows: int) -> Iterator[Found]:
    """Packaged tables of scikit-learn, and River's where it is installed."""
    from sklearn import datasets

    tables: list[tuple[str, Any, Any, Any, int]] = []
    X, y = datasets.load_digits(return_X_y=True)
    tables.append(("digits", X[:rows], y[:rows], CLASSES, 10))
    X, y = datasets.load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))[:rows]
    tables.append(("breast_cancer", X[order], np.where(y[order] > 0, 1.0, -1.0), BINARY, 0))
    try:
        from river.datasets import ImageSegments, Phishing, synth
    except ImportError:
        pass
    else:
        streams = ("Hyperplane", synth.Hyperplane(seed=42, n_features=10)), ("SEA", synth.SEA(seed=42))
        for name, made in (*streams, ("Phishing", Phishing())):  # type: ignore[no-untyped-call]
            pairs = list(made.take(min(rows, 20_000)))
            X, y = np.array([list(x.values()) for x, _ in pairs], float), np.array([float(y) for _, y in pairs])
            tables.append((name, X, np.where(y > 0.0, 1.0, -1.0), BINARY, 0))
        pairs = list(ImageSegments().take(rows))  # type: ignore[no-untyped-call]
        X, labels = np.array([list(x.values()) for x, _ in pairs], float), [y for _, y in pairs]
        y = np.unique(labels, return_inverse=True)[1]
        tables.append(("ImageSegments", X, y, CLASSES, int(y.max()) + 1))
    for name, X, y, kind, classes in tables:
        losses = (progressive(values, y, kind, classes) for values in (X, standardized_so_far(X)))
        yield Found("offsets", name, kind.unit, *losses)


def targets(rows: int) -> Iterator[Found]:
    """Targets far from 0."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((rows, 8))
    y = X @ rng.standard_normal(8) + 0.3 * rng.standard_normal(rows)
    for loss in ("squared", "absolute", "huber", "quantile:0.7"):
        found = {}
        for offset in (0.0, 1e4, 1e6):
            shifted = y + offset * y.std()
            found[offset] = r2(Learner(loss).learn(X, shifted)[rows // 2 :], shifted[rows // 2 :])
        for offset in (1e4, 1e6):
            yield Found("targets", f"{loss}, {power(offset)} standard deviations", "R2", found[offset], found[0.0])


def classes(rows: int, seeds: int = 5) -> Iterator[Found]:
    """Shares of classes that change, while the distributions of columns in both classes stay: means over seeds."""
    after, place = slice(rows // 2, rows // 2 + rows // 40), np.arange(rows) / rows
    for name, share in (("at once", np.where(place < 0.5, 0.5, 0.05)), ("slowly", 0.5 - 0.45 * place)):
        found = []
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            y, way = np.where(rng.random(rows) < share, 1.0, -1.0), 0.6 * rng.standard_normal(10)
            X = rng.standard_normal((rows, 10)) + np.outer(y, way) / 2.0
            both = Learner().learn(X, y), X @ way + np.log(share / (1.0 - share))
            found.append([[log_loss(scores[some], y[some]) for scores in both] for some in (slice(rows), after)])
        for part, losses in zip(("all rows", "after the middle"), np.mean(found, axis=0).tolist(), strict=True):
            yield Found("classes", f"share changes {name}, {part}", "log loss", *losses)


def first_rows(folder: Path) -> Iterator[Found]:
    """Streams of 25 rows; nothing beside if Vowpal Wabbit is not installed."""
    for name in ("0001_25.dat", "0002_25.dat"):
        for path in filter(Path.is_file, (folder / name, folder / "vw" / name)):
            learner = Learner("squared")
            errors = [learner.learn(batch.X, batch.y) - batch.y for batch in read(path)]
            yield Found("first rows", name, "squared error", mean_square(np.concatenate(errors)), vw_error(path))


def vw_error(path: Path) -> float | None:
    """Return the mean squared error of what Vowpal Wabbit predicts before it learns; None if it is not installed."""
    try:
        import vowpalwabbit
    except ImportError:
        return None
    y = np.array([float(line.split()[0]) for line in path.read_text().splitlines()])
    with tempfile.TemporaryDirectory() as folder:
        said = Path(folder, "said")
        model = vowpalwabbit.Workspace(f"-d {path} -p {said} --quiet")
        model.run_parser()
        model.finish()
        return mean_square(np.loadtxt(said, ndmin=1, usecols=0) - y)


def mean_square(errors: Any) -> float:
    return float(np.mean(np.square(errors)))


def usual(folder: Path | None, rows: int) -> Iterator[Found]:
    """Progressive losses of the default on the sets of a folder, or on made-up rows; nothing beside."""
    if folder is None:
        sets = iter(made_up(rows))
    else:
        sets = ((loaded, kind) for source, kind in SETS for loaded in data.load(folder, sources=(source,)))
    for one, kind in sets:
        if kind is not CLASSES:
            loss = kind.judge(Learner(Stacked(kind.loss)).learn(one.matrix(), one.y), one.y)
            yield Found("usual", one.name, kind.unit, loss)


def measure(sizes: Sizes, folder: Path | None) -> Iterator[Found]:
    """Return all numbers."""
    yield from outliers(sizes.outliers)
    yield from passes(sizes.passes, sizes.columns)
    yield from offsets(sizes.offsets)
    yield from targets(sizes.targets)
    yield from classes(sizes.classes)
    if folder is not None:
        yield from first_rows(folder)
    yield from usual(folder, sizes.usual)


def report(found: list[Found]) -> str:
    """Return a table of all numbers."""
    beside = ["" if o.beside is None else f"{o.beside:.5g}" for o in found]
    rows = [
        [f"{o.group}: {o.name}", o.unit, f"{o.measured:.5g}", other, o.compared()]
        for o, other in zip(found, beside, strict=True)
    ]
    return table(["", "unit", "measured", "beside", "compared"], rows)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, metavar="DIR", help="a folder with data sets (see benchmarks/data.py)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers there")
    parser.add_argument("--quick", action="store_true", help="few made-up rows: shows that everything runs")
    options = parser.parse_args(arguments)
    if options.data is not None and not options.data.is_dir():
        parser.error(f"--data: {options.data} is no folder")
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for one in measure(*((QUICK, None) if options.quick else (FULL, options.data))):
            progress(f"{one.group}: {one.name}")
            found.append(one)
    progress("")
    print(report(found))
    if options.json is not None:
        head = header("benchmarks.robustness", arguments, options.quick)
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({**head, "results": [o._asdict() for o in found]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
