"""Nothing to tune, against others' best in hindsight: progressive loss over one pass.

    python -m benchmarks.tuning [--data DIR] [--json FILE] [--sets NAME ...] [--rows N] [--vw COMMAND]
                                [--no-vw] [--no-river] [--keep] [--quick]

Every row is predicted before it is learned from, once, in the order of its file (w8a, sorted by class there, is
shuffled). No penalty. What a number is:

- of two classes, the mean log loss;
- of targets that are numbers, the squared error divided by that of the mean of the targets so far;
- of many classes, the mean log loss of all classes together; all models know from the start which classes there are.

The others, each with what suits it best:

- Vowpal Wabbit: its scores before learning (`-p`, and `-r` for many classes), logistic or squared loss, as it comes and
  the best of six runs: `-l` 0.1, 0.5 (its default), 2, 10, `--coin`, `--ftrl`. Many classes are `--oaa`, whose
  probabilities are those of its `--probabilities`: logistic functions of the scores, divided by their sum. Its table of
  weights (`-b`) has room for all features.
- scikit-learn: `SGDClassifier` and `SGDRegressor` row by row with the best of 13 constant steps. `partial_fit` of
  single rows would take hours, and `fiol.SGD` makes the same steps (a test compares their scores), so that is what
  runs. The intercept of sparse rows takes a hundredth of the step there, of dense arrays all of it: for sparse sets
  both are tried. Sizes are in units of one over the mean squared length of a row, so that they fit any scale. As the
  rows are, and scaled: the best of StandardScaler and MaxAbsScaler fitted to all rows beforehand, which no stream
  allows, and for tables a StandardScaler of the rows so far. StandardScaler leaves the means of sparse rows alone.
- River: its default, steps of 0.01, and the best of several optimizers; with its StandardScaler for tables. Sparse
  rows it gets as they are: the scaler, which sees the entries that are there, would make all indicators 0.

Ours: `fiol` is the single learner one gets without giving anything, `ensemble` is `Stacked`; the others are single
learners over kinds and sizes of steps.
Numbers are kept in build/tuning, with what they were made from, and only what has changed is measured again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, lru_cache, partial
from importlib.metadata import version
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

import fiol
from benchmarks import data
from benchmarks.data import Rows
from benchmarks.report import header, progress, table
from fiol import (
    FIOL,
    SGD,
    AdaGrad,
    Constant,
    Curvature,
    Learner,
    Logistic,
    OneVsRest,
    ScaleFree,
    Softmax,
    Squared,
    Stacked,
)

CACHE = data.CACHE.parent / "tuning"
SIZES = np.logspace(-3.0, 3.0, 13).tolist()
#: Sets with at most this number of columns are tables: other libraries get their zeros as values.
TABLE = 100
#: Largest sets for River: rows, and entries times classes, which take it a microsecond or more each.
RIVER_ROWS, RIVER_ENTRIES = 60_000, 2e7

# --- what is learned --------------------------------------------------------------------------


class Kind(NamedTuple):
    """What targets are: the loss of ours for them, and the number a row of scores is judged by."""

    loss: Any
    unit: str
    judge: Callable[[Any, Any], float]


def log_loss(scores: Any, y: Any) -> float:
    """Mean of log(1 + exp(-y z))."""
    return float(np.mean(np.logaddexp(0.0, -y * scores)))


def relative_error(scores: Any, y: Any) -> float:
    """Sum of squared errors, divided by that of predicting the mean of the targets so far (before the first one 0)."""
    mean = np.append(0.0, np.cumsum(y)[:-1]) / np.maximum(np.arange(len(y)), 1)
    return float(np.sum((scores - y) ** 2) / np.sum((mean - y) ** 2))


def class_loss(scores: Any, y: Any) -> float:
    """Mean of log sum_k exp(z_k) - z_y."""
    return float(np.mean(np.logaddexp.reduce(scores, axis=1) - scores[np.arange(len(y)), y.astype(np.int64)]))


BINARY = Kind(Logistic(), "log loss", log_loss)
NUMBERS = Kind(Squared(), "relative squared error", relative_error)
CLASSES = Kind(Softmax(), "log loss of classes", class_loss)
SETS: tuple[tuple[data.Source, Kind], ...] = (
    *((source, BINARY) for source in (*data.SOURCES, *data.MORE_BINARY)),
    *((source, NUMBERS) for source in data.NUMBERS),
    *((source, CLASSES) for source in data.MANY_CLASSES),
)


class Task:
    """A set, what is to be learned from it, and whether in compiled code."""

    def __init__(self, rows: Rows, kind: Kind, compiled: bool = True) -> None:
        self.rows, self.kind, self.compiled = rows, kind, compiled
        #: How many classes there are; 1 if there is one score.
        self.classes = int(rows.y.max()) + 1 if kind is CLASSES else 1

    @cached_property
    def digest(self) -> str:
        """What numbers of other rows do not share."""
        return f"{self.rows.size} rows {crc32(self.rows.data.tobytes(), crc32(self.rows.y.tobytes())):08x}"

    @property
    def is_table(self) -> bool:
        return self.rows.d <= TABLE

    @cached_property
    def array(self) -> Any:
        """The rows of a table, zeros included."""
        x = np.zeros((self.rows.size, self.rows.d))
        x[np.repeat(np.arange(self.rows.size), np.diff(self.rows.indptr)), self.rows.indices] = self.rows.data
        return x

    @property
    def labels(self) -> Any:
        """Targets as a learner takes them."""
        return self.rows.y.astype(np.int64) if self.kind is CLASSES else self.rows.y

    def with_rows(self, rows: Rows) -> Task:
        return Task(rows._replace(y=self.rows.y), self.kind, self.compiled)

    def judge(self, scores: Any) -> float:
        """Return the number of these scores; infinite if one of them is not finite."""
        with np.errstate(all="ignore"):
            loss = self.kind.judge(scores, self.rows.y)
        return loss if np.isfinite(loss) else np.inf


class Contestant(NamedTuple):
    """Something that predicts every row of a task before learning from it; `made_from` is what the scores depend on."""

    name: str
    made_from: str
    scores: Callable[[Task], Any]


#: Columns of the table: contestants whose best is shown.
Columns = dict[str, list[Contestant]]

# --- ours -------------------------------------------------------------------------------------

#: What a `Learner` takes, from the loss alone.
MODELS: dict[str, Callable[[Any], Any]] = {
    "fiol": FIOL,
    "ensemble": Stacked,
    "Curvature": partial(FIOL, step_size=ScaleFree(Curvature())),
    **{f"AdaGrad({s:.3g})": partial(FIOL, step_size=ScaleFree(AdaGrad(s))) for s in SIZES},
}
#: Those that have a column of their own. The best of the others is one column.
NAMED = ("fiol", "ensemble")
SINGLE = "best single"


def own_scores(make: Callable[[Any], Any], task: Task) -> Any:
    """Return the scores of a learner that is given the classes and nothing else."""
    classes = range(task.classes) if task.kind is CLASSES else None
    return Learner(make(task.kind.loss), classes=classes, compiled=task.compiled).learn(task.rows.matrix(), task.labels)


def own(digest: str) -> Columns:
    """Our models. What they depend on is the code of the library, and their parts."""
    made = {
        name: Contestant(name, f"{digest} {make(Logistic())!r}", partial(own_scores, make))
        for name, make in MODELS.items()
    }
    return {**{name: [made[name]] for name in NAMED}, SINGLE: [c for name, c in made.items() if name not in NAMED]}


def code_digest() -> str:
    """Return a digest of the library's code."""
    folder = Path(fiol.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


# --- scikit-learn's steps ---------------------------------------------------------------------


def as_it_is(task: Task) -> Rows:
    return task.rows


@lru_cache(maxsize=1)  # for all sizes
def standardized(task: Task) -> Rows:
    """Return all rows scaled by StandardScaler: unit variance, and for tables mean 0."""
    if task.is_table:
        mean, scale = task.array.mean(axis=0), task.array.std(axis=0)
        changes = scale > 1e-12 * np.abs(mean)
        return data.from_array((task.array - mean) / np.where(changes, scale, 1.0), task.rows.y)
    rows = task.rows
    mean, square = (np.bincount(rows.indices, rows.data**k, rows.d) / rows.size for k in (1, 2))
    scale = np.sqrt(np.maximum(square - mean**2, 0.0))
    return rows._replace(data=rows.data / np.where(scale > 0.0, scale, 1.0)[rows.indices])


@lru_cache(maxsize=1)  # for all sizes
def standardized_so_far(task: Task) -> Rows:
    """What a StandardScaler makes of a table's rows that has seen those before and the row itself."""
    x = task.array - task.array[0]  # sums of squares keep their digits near 0
    n = np.arange(1.0, len(x) + 1.0)[:, None]
    mean, square = np.cumsum(x, axis=0) / n, np.cumsum(x**2, axis=0) / n
    scale = np.sqrt(np.maximum(square - mean**2, 0.0))
    return data.from_array((x - mean) / np.where(scale > 1e-12 * np.sqrt(square), scale, 1.0), task.rows.y)


@lru_cache(maxsize=1)  # for all sizes
def largest_one(task: Task) -> Rows:
    """Return all rows scaled by MaxAbsScaler."""
    rows, largest = task.rows, np.zeros(task.rows.d)
    np.maximum.at(largest, rows.indices, np.abs(rows.data))
    return rows._replace(data=rows.data / largest[rows.indices])


def slow_intercept(rows: Rows) -> Rows:
    """With a last column of 0.1: its weight is an intercept that takes a hundredth of the step."""
    indices, values = (
        np.insert(entries, rows.indptr[1:], more) for entries, more in ((rows.indices, rows.d), (rows.data, 0.1))
    )
    return rows._replace(d=rows.d + 1, indptr=rows.indptr + np.arange(rows.size + 1), indices=indices, data=values)


def sgd_scores(size: float, scaled: Callable[[Task], Rows], sparse: bool, task: Task) -> Any:
    """Scores of explicit steps of one size, over the mean squared length of a row, as for dense or `sparse` rows."""
    rows = scaled(task)
    step_size = Constant(size / (1.0 + float(np.sum(rows.data**2)) / rows.size))
    x = (slow_intercept(rows) if sparse else rows).matrix()
    options: dict[str, Any] = {"intercept": not sparse, "compiled": task.compiled}
    if task.kind is not CLASSES:
        return Learner(SGD(task.kind.loss, step_size=step_size), **options).learn(x, task.labels)
    model = OneVsRest(SGD(Logistic(), step_size=step_size), classes=range(task.classes), **options)
    return one_vs_rest(model.learn(x, task.labels))


def one_vs_rest(scores: Any) -> Any:
    """Logarithms of the probabilities of classes: logistic functions of the scores, divided by their sum."""
    logs = -np.logaddexp(0.0, -scores)
    return logs - np.logaddexp.reduce(logs, axis=1, keepdims=True)


def scikit_learn(task: Task) -> Columns:
    """Measure 13 constant steps, without and with a scaler, for sparse rows with either intercept; return the best."""

    def grid(name: str, scaled: Callable[[Task], Rows]) -> Iterator[Contestant]:
        for way, sparse in (("", False), (", sparse", True)):
            if not (sparse and task.is_table):
                for s in SIZES:
                    yield Contestant(f"{name}{way}, {s:.3g}", f"{s:.3g}", partial(sgd_scores, s, scaled, sparse))

    behind = {"StandardScaler": standardized, "MaxAbsScaler": largest_one}
    if task.is_table:
        behind["running StandardScaler"] = standardized_so_far
    return {
        "sklearn": list(grid("SGD", as_it_is)),
        "sklearn scaled": [c for name, scaled in behind.items() for c in grid(f"SGD behind {name}", scaled)],
    }


# --- Vowpal Wabbit ----------------------------------------------------------------------------

#: Runs, the default first.
VW_RUNS = (("-l", "0.5"), ("-l", "0.1"), ("-l", "2"), ("-l", "10"), ("--coin",), ("--ftrl",))


def find_vw(command: str | None) -> list[str] | None:
    """Return the command of Vowpal Wabbit: the option, the program, or the Python package."""
    if command is not None:
        return shlex.split(command)
    if shutil.which("vw"):
        return ["vw"]
    return [sys.executable, "-m", "vowpalwabbit"] if find_spec("vowpalwabbit") else None


def vw_lines(task: Task) -> Iterator[str]:
    """Return the rows as Vowpal Wabbit's text; classes count from 1."""
    rows = task.rows
    labels = (task.labels + 1 if task.kind is CLASSES else rows.y).tolist()
    entries = [f"{i}:{x:.9g}" for i, x in zip(rows.indices.tolist(), rows.data.tolist(), strict=True)]
    for label, (start, stop) in zip(labels, pairwise(rows.indptr.tolist()), strict=True):
        yield f"{label:.9g} | {' '.join(entries[start:stop])}\n"


class VowpalWabbit:
    """Runs on one task, whose text is written when it is first needed, to a folder."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self.command, self.folder = command, folder

    def text(self, task: Task) -> Path:
        path = self.folder / f"{task.digest}.vw"
        if not path.exists():
            for old in self.folder.iterdir():
                old.unlink()
            with path.open("w") as file:
                file.writelines(vw_lines(task))
        return path

    def scores(self, run: tuple[str, ...], task: Task) -> Any:
        """Return its scores before learning."""
        many, out = task.kind is CLASSES, self.folder / "scores"
        bits = max(18, (task.rows.d + 1).bit_length() + (task.classes - 1).bit_length())
        options = [*run, "--loss_function", "squared" if task.kind is NUMBERS else "logistic", "-b", str(bits)]
        options += ["--oaa", str(task.classes), "-r", str(out)] if many else ["-p", str(out)]
        subprocess.run(
            [*self.command, "-d", str(self.text(task)), *options, "--quiet"], check=True, stdout=subprocess.DEVNULL
        )
        found = np.array(out.read_text().replace(":", " ").split(), np.float64)  # `score`, or `class:score ...`
        return one_vs_rest(found.reshape(task.rows.size, 2 * task.classes)[:, 1::2]) if many else found

    def version(self) -> str:
        try:
            done = subprocess.run([*self.command, "--version"], capture_output=True, text=True, check=False)
            return done.stdout.strip().split("\n")[0] or "?"
        except OSError:
            return "?"

    def columns(self) -> Columns:
        runs = [Contestant(f"VW {' '.join(run)}", self.release, partial(self.scores, run)) for run in VW_RUNS]
        return {"VW": runs[:1], "VW best": runs}

    @cached_property
    def release(self) -> str:
        return self.version()


# --- River ------------------------------------------------------------------------------------

#: Optimisers, the default of its models first: a class of `river.optim`, and its arguments.
OPTIMIZERS: tuple[tuple[str, tuple[float, ...]], ...] = (
    ("SGD", (0.01,)),
    ("SGD", (0.1,)),
    ("SGD", (1.0,)),
    ("AdaGrad", ()),
    ("AdaGrad", (1.0,)),
    ("Adam", (0.01,)),
    ("RMSProp", (0.01,)),
    ("FTRLProximal", ()),
)
#: Those that visit all weights in every row, and the number of weights at most that they are for.
VISITORS, NARROW = ("Adam", "RMSProp"), 1000
#: River's own measure of log loss keeps probabilities so far from 0 and 1.
FAR = 1e-15


def river_scores(optimizer: str, arguments: tuple[float, ...], task: Task) -> Any:
    """Scores of River's linear model before learning."""
    from river import linear_model, optim

    kinds = {
        BINARY.unit: linear_model.LogisticRegression,
        NUMBERS.unit: linear_model.LinearRegression,
        CLASSES.unit: linear_model.SoftmaxRegression,
    }
    model = kinds[task.kind.unit](optimizer=getattr(optim, optimizer)(*arguments))
    scores = np.empty((task.rows.size, task.classes) if task.kind is CLASSES else task.rows.size)
    for k in range(task.classes if task.kind is CLASSES else 0):
        model.weights[k]  # a class that it has met
    with np.errstate(all="ignore"):
        for t, (x, y) in enumerate(zip(river_rows(task), task.labels.tolist(), strict=True)):
            if task.kind is NUMBERS:
                scores[t] = model.predict_one(x)
            elif task.kind is BINARY:
                scores[t] = model.predict_proba_one(x)[True]
            else:
                found = model.predict_proba_one(x)
                scores[t] = [found[k] for k in range(task.classes)]
            model.learn_one(x, y > 0 if task.kind is BINARY else y)
        if task.kind is NUMBERS:
            return scores
        p = np.clip(scores, FAR, 1.0 - FAR)
        return np.log(p / (1.0 - p)) if task.kind is BINARY else np.log(p)


def river_rows(task: Task) -> Iterator[dict[int, float]]:
    """Return rows as dicts; those of a table all of them, and scaled by a scaler that has seen them."""
    rows = task.rows
    if not task.is_table:
        indices, values = rows.indices.tolist(), rows.data.tolist()
        for start, stop in pairwise(rows.indptr.tolist()):
            yield dict(zip(indices[start:stop], values[start:stop], strict=True))
        return
    from river.preprocessing import StandardScaler

    scaler: Any = StandardScaler()
    for row in task.array.tolist():
        x = dict(enumerate(row))
        scaler.learn_one(x)
        yield scaler.transform_one(x)


def river(task: Task) -> Columns:
    """Measure River's default, and its best optimizer, unless there are too many rows for it."""
    if task.rows.size > RIVER_ROWS or len(task.rows.data) * task.classes > RIVER_ENTRIES:
        return {}
    runs = [
        Contestant(f"River {name}({', '.join(map(str, a))})", version("river"), partial(river_scores, name, a))
        for name, a in OPTIMIZERS
        if name not in VISITORS or task.rows.d * task.classes <= NARROW
    ]
    return {"River": runs[:1], "River best": runs}


# --- measuring --------------------------------------------------------------------------------


class Found(NamedTuple):
    """All numbers of a set: by contestant, and which contestants every column has."""

    name: str
    rows: int
    unit: str
    losses: dict[str, float]
    columns: dict[str, list[str]]

    def best(self, column: str) -> float:
        """Return the smallest loss of a column; nan if the column is missing."""
        return min((self.losses[name] for name in self.columns.get(column, ())), default=np.nan)

    def winner(self, column: str) -> str:
        """Who has it."""
        return min(self.columns[column], key=self.losses.__getitem__)

    @property
    def peer(self) -> float:
        """The best of all others."""
        return min(self.best(column) for column in self.columns if column not in (*NAMED, SINGLE))

    def ratio(self, loss: float) -> float:
        """Return a loss divided by the best of all others'."""
        return loss / self.peer


class Kept:
    """Numbers on disk: for each set by contestant, with what they were made from."""

    def __init__(self, folder: Path | None, keep: bool = False) -> None:
        self.folder, self.keep = folder, keep

    def path(self, task: Task) -> Path | None:
        return None if self.folder is None else self.folder / f"{task.rows.name} {task.digest}.json"

    def read(self, task: Task) -> dict[str, Any]:
        path = self.path(task)
        return json.loads(path.read_text()) if path is not None and path.exists() else {}

    def write(self, task: Task, numbers: dict[str, Any]) -> None:
        if (path := self.path(task)) is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_suffix(".part")
            part.write_text(json.dumps(numbers, indent=1))
            part.replace(path)

    def losses(self, task: Task, contestants: Iterable[Contestant]) -> Iterator[tuple[str, float]]:
        """Return the loss of each, from disk if it was made from the same inputs (with `keep`: from any)."""
        numbers = self.read(task)
        for c in contestants:
            old = numbers.get(c.name)
            if old is None or (old["made_from"] != c.made_from and not self.keep):
                progress(f"{task.rows.name}: {c.name}")
                begin = time.perf_counter()
                loss = task.judge(run(c, task))
                seconds = round(time.perf_counter() - begin, 2)
                numbers[c.name] = {"made_from": c.made_from, "loss": loss, "seconds": seconds}
                self.write(task, numbers)
            yield c.name, numbers[c.name]["loss"]


def run(contestant: Contestant, task: Task) -> Any:
    """Scores; not a number where steps overflow, which is their loss and not ours to report."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            return contestant.scores(task)
        except OverflowError:
            return np.full((task.rows.size, task.classes), np.nan) if task.kind is CLASSES else np.nan


def measure(task: Task, columns: Columns, kept: Kept) -> Found:
    """Measure all contestants on one task."""
    distinct = {c.name: c for column in columns.values() for c in column}
    losses = dict(kept.losses(task, distinct.values()))
    names = {column: [c.name for c in contestants] for column, contestants in columns.items()}
    return Found(task.rows.name, task.rows.size, task.kind.unit, losses, names)


def made_up(rows: int, seed: int = 0) -> Iterator[tuple[Rows, Kind]]:
    """Return a made-up set of each kind."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, 8)) * 10.0 ** np.linspace(-1.0, 1.0, 8)
    scores = x @ (rng.standard_normal((8, 3)) / 10.0 ** np.linspace(-1.0, 1.0, 8)[:, None])
    scores += rng.standard_normal(scores.shape)
    yield data.text_like(rows, 2000, 20), BINARY
    yield data.from_array(x, 3.0 + scores[:, 0])._replace(name="numbers"), NUMBERS
    yield data.from_array(x, data.classes(scores.argmax(axis=1)))._replace(name="three classes"), CLASSES


# --- saying what was found --------------------------------------------------------------------

#: All columns, in order.
PEERS = ("VW", "VW best", "sklearn", "sklearn scaled", "River", "River best")


def report(found: list[Found]) -> str:
    """Losses with their ratio to the best of all others, and what our models come to over all sets."""
    columns = [c for c in (*PEERS, *NAMED, SINGLE) if any(c in f.columns for f in found)]
    body = []
    for f in found:
        cells = (f"{number(loss, 4)} {number(f.ratio(loss), 3):>7}" for loss in map(f.best, columns))
        body.append([f.name, f"{f.rows:,}", *cells])
    means = ([f.ratio(f.best(c)) for f in found if c in f.columns] for c in columns)
    body.append(["mean log ratio", "", *(f"{np.mean(np.log(ratios)):+.4f}" for ratios in means)])
    names = dict.fromkeys(name for f in found for c in (*NAMED, SINGLE) for name in f.columns[c])
    summary = []
    for name in names:
        ratios = [f.ratio(f.losses[name]) for f in found]
        worst = int(np.argmax(ratios))
        below = sum(ratio <= 1.0 for ratio in ratios)
        where = f"{ratios[worst]:.3f} ({found[worst].name})"
        summary.append([name, f"{np.mean(np.log(ratios)):+.4f}", where, f"{below} of {len(found)}"])
    units = ", ".join(dict.fromkeys(f.unit for f in found))
    return (
        f"Progressive loss over one pass ({units}), and its ratio to the best of all others, in hindsight\n"
        f"{table(['', 'rows', *columns], body)}\n\n"
        f"Ours over all sets\n{table(['', 'mean log ratio', 'worst ratio', 'at or below the best other'], summary)}"
    )


def number(value: float, digits: int) -> str:
    """Return a number with `digits` decimals, its size, or the error."""
    if not np.isfinite(value):
        return "overflow" if value == np.inf else "-"
    return f"{value:.{digits}f}" if value < 1000.0 else f"{value:.0e}"


# --- command line -----------------------------------------------------------------------------


def parse(arguments: list[str] | None) -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tuning", description=(__doc__ or "").partition("\n")[0])
    names = [source.name for source, _ in SETS]
    parser.add_argument("--data", type=Path, metavar="DIR", help="a folder with data sets (see benchmarks/data.py)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers, versions and the command")
    parser.add_argument(
        "--sets", nargs="+", choices=names, default=names, metavar="NAME", help=f"of {', '.join(names)}"
    )
    parser.add_argument("--rows", type=int, metavar="N", help="the first N rows of every set")
    parser.add_argument("--vw", metavar="COMMAND", help="how to start Vowpal Wabbit, such as 'python -m vowpalwabbit'")
    parser.add_argument("--no-vw", action="store_true", help="leave Vowpal Wabbit out")
    parser.add_argument("--no-river", action="store_true", help="leave River out, which is slow")
    parser.add_argument(
        "--keep", action="store_true", help="take numbers of ours that another version of the code made"
    )
    parser.add_argument(
        "--quick", action="store_true", help="few made-up rows, nothing kept: shows that everything runs"
    )
    options = parser.parse_args(arguments)
    if options.data is not None and not options.data.is_dir():
        parser.error(f"--data: {options.data} is no folder")
    if options.rows is not None and options.rows < 1:
        parser.error(f"--rows: must be at least 1, got {options.rows}")
    return parser, options


def tasks(options: argparse.Namespace, compiled: bool) -> Iterator[Task]:
    """Return the chosen sets."""
    if options.data is None or options.quick:
        for rows, kind in made_up(20 if options.quick else 5000):
            yield Task(rows, kind, compiled)
        return
    for source, kind in SETS:
        if source.name in options.sets:
            for rows in data.load(options.data, sources=(source,)):
                yield Task(
                    rows if options.rows is None else rows.take(np.arange(rows.size)[: options.rows]), kind, compiled
                )


def main(arguments: list[str] | None = None, compiled: bool = True) -> None:
    parser, options = parse(arguments)
    command = None if options.no_vw else find_vw(options.vw)
    with_river = not options.no_river and find_spec("river") is not None
    left_out = [
        *(
            ["Vowpal Wabbit is not installed (pip install vowpalwabbit, or --vw): left out."]
            * (not options.no_vw and not command)
        ),
        *(["River is not installed: left out."] * (not options.no_river and not with_river)),
    ]
    kept, ours, found = Kept(None if options.quick else CACHE, options.keep), own(code_digest()), []
    with tempfile.TemporaryDirectory() as folder:
        vw = VowpalWabbit(command, Path(folder)) if command else None
        for task in tasks(options, compiled):
            columns = {
                **(vw.columns() if vw else {}),
                **scikit_learn(task),
                **(river(task) if with_river else {}),
                **ours,
            }
            found.append(measure(task, columns, kept))
    progress("")
    if not found:
        parser.error(
            f"--data: {options.data} has none of {', '.join(s.file for s, _ in SETS if s.name in options.sets)}"
        )
    print("\n".join([report(found), *left_out]))
    if options.json:
        head = header("benchmarks.tuning", arguments, options.quick, ["river"] if with_river else [])
        if vw:
            head["versions"]["vowpalwabbit"] = vw.release
        results = [{**f._asdict(), "best_other": f.peer} for f in found]
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({**head, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
