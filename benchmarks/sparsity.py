"""Loss against non-zeros: models with an l1 penalty, over strengths from none to all.

    python -m benchmarks.sparsity [--data DIR] [--json FILE] [--plot FILE] [--sets NAME ...] [--rows N] [--future]
                                  [--vw COMMAND] [--no-vw] [--keep] [--quick]

Five sets of two classes, as in `benchmarks.tuning`; news20 is its first ten groups against the others, shuffled. Every
fifth row is held back (with `--future` the last fifth of all, which in a stream that drifts are of another kind); the
others are learned from, once, in order. Three numbers are kept of every run: the mean log loss of these, each before it
was learned from (progressive); that of the rows held back, by the model in the end; and how many of its weights are not
exactly 0, the intercept not counted. Every model has the same 15 strengths, 10^-8 to 10^-1, and from its runs follows
its loss at any number of non-zeros: losses are interpolated between runs along the logarithm of that number, and a run
that is better with fewer counts for more, too. Without a number, no run left so few.

- `ensemble` is `Stacked(Logistic(), L1(lam))`, a gate and seven members; `all l1` are the seven with the penalty each,
  and a stack of them.
- `budget` is a `Stacked(Logistic(), L1(1e-5))`, `truncated` to ten and up to three thousand weights. Held back only.
- `best single` is the best of our single learners: `FIOL`, `COMID`, `RDA`, its implicit form, `FTRLProximal` and
  `ImplicitFTRL` with scale-free AdaGrad steps of 0.5 and 3, and `FIOL` with `Curvature`, at each number of non-zeros.
- `VW --l1`, `VW --ftrl`: Vowpal Wabbit with `-l` 0.5 (its default) and 2, and with `--ftrl_alpha` 0.005 (its default),
  0.1 and 1. Its intercept is not penalised, as ours is not. The penalty of `--ftrl` counts once in all, that of the
  others once a row: it gets the strength times the number of rows.
- `sklearn l1`: `SGDClassifier` with `penalty="l1"`, its own schedule and constant steps of three sizes over the mean
  squared length of a row. Held back: one pass of `fit` in order. Progressive: `partial_fit` of 256 rows after the
  other, each predicted before, with the non-zeros that this leaves: more, since the penalty forgets with every call
  what absent features owe. Row by row it would not reach them at all.
- `batch l1`: scikit-learn's `LogisticRegression` (liblinear), which sees all rows as often as it likes. Held back only;
  not counted among the others.

Numbers are kept in build/sparsity, with what they were made from, and only what has changed is measured again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import data
from benchmarks.data import Rows
from benchmarks.report import header, progress, table
from benchmarks.tuning import BINARY, CACHE, Kept, Task, VowpalWabbit, code_digest, find_vw, log_loss
from fiol import (
    COMID,
    FIOL,
    L1,
    RDA,
    AdaGrad,
    Curvature,
    Ensemble,
    FTRLProximal,
    ImplicitFTRL,
    Learner,
    Logistic,
    Origin,
    ScaleFree,
    Stacked,
    Update,
)
from fiol.presets import STACKED

STRENGTHS = np.logspace(-8.0, -1.0, 15).tolist()
#: Numbers of weights, for models with a budget of weights, and their penalty.
WEIGHTS, WEAK = [10, 20, 30, 50, 100, 200, 300, 500, 1000, 2000, 3000], 1e-5
#: One row in this number is held out; rows in a batch of scikit-learn.
FIFTH, BLOCK = 5, 256
#: The least strength for the batch.
WEAKEST_BATCH = 3e-6
#: Numbers of non-zeros in the table.
BUDGETS = {"a9a": (20, 50, 100)}
USUAL_BUDGETS = (30, 100, 300, 1000, 3000)


class Split(NamedTuple):
    """The rows to learn from, and those held back."""

    first: Task
    rest: Task


class Run(NamedTuple):
    """What became of one strength."""

    nonzero: int
    progressive: float
    held_back: float


class Model(NamedTuple):
    """Something that learns under an l1 penalty; `made_from` is what its numbers depend on."""

    name: str
    made_from: str
    run: Callable[[Split, float], Run]
    budgets: bool = False  #: whether the model is given a number of weights instead of a penalty strength


#: Models there are when all rows have been seen: these have no progressive loss, and are not counted among the others.
AFTERWARDS = ("budget", "batch l1")
#: Columns of the table: models whose best is shown.
Columns = dict[str, list[Model]]

# --- ours -------------------------------------------------------------------------------------


def implicit_rda(loss: Any, regularizer: Any, step_size: Any) -> Update:
    """Dual averaging with the newest loss exactly."""
    return Update(loss, regularizer, step_size, anchor=Origin())


def all_penalised(loss: Any, regularizer: Any) -> Ensemble:
    """Return the members of `Stacked` with the penalty each."""
    return Ensemble([FIOL(loss, regularizer, ScaleFree(size)) for size in STACKED])  # type: ignore[arg-type]


KINDS: dict[str, Callable[..., Update]] = {
    "FIOL": FIOL,
    "COMID": COMID,
    "RDA": RDA,
    "implicit RDA": implicit_rda,
    "FTRLProximal": FTRLProximal,
    "ImplicitFTRL": ImplicitFTRL,
}
#: What a `Learner` takes, from loss and penalty.
SINGLES: dict[str, Callable[..., Any]] = {
    **{
        f"{name} {s}": partial(make, step_size=ScaleFree(AdaGrad(s)))
        for name, make in KINDS.items()
        for s in (0.5, 3.0)
    },
    "FIOL Curvature": partial(FIOL, step_size=ScaleFree(Curvature())),
}


def own_run(make: Callable[..., Any], split: Split, lam: float) -> Run:
    first, rest = split
    learner = Learner(make(Logistic(), L1(lam)), n_features=first.rows.d, compiled=first.compiled)
    progressive = log_loss(learner.learn(first.rows.matrix(), first.rows.y), first.rows.y)
    return Run(learner.n_nonzero, progressive, log_loss(learner.scores(rest.rows.matrix()), rest.rows.y))


def budget_run(split: Split, budget: float) -> Run:
    """Return a weak penalty, and a model with a budget of weights."""
    first, rest = split
    learner = Learner(Stacked(Logistic(), L1(WEAK)), n_features=first.rows.d, compiled=first.compiled)
    learner.learn(first.rows.matrix(), first.rows.y)
    few = learner.truncated(int(budget))
    return Run(few.n_nonzero, np.nan, log_loss(few.scores(rest.rows.matrix()), rest.rows.y))


def own() -> Columns:
    """Our models."""
    digest = code_digest()
    made = {name: Model(name, digest, partial(own_run, make)) for name, make in SINGLES.items()}
    return {
        "ensemble": [Model("ensemble", digest, partial(own_run, Stacked))],
        "budget": [Model("budget", digest, budget_run, budgets=True)],
        "all l1": [Model("all l1", digest, partial(own_run, all_penalised))],
        "best single": list(made.values()),
    }


# --- others -----------------------------------------------------------------------------------


#: Vowpal Wabbit's options besides the strength, by column.
VW_PENALISED = {
    "VW --l1": (("-l", "0.5"), ("-l", "2")),
    "VW --ftrl": tuple(("--ftrl", "--ftrl_alpha", alpha) for alpha in ("0.005", "0.1", "1")),
}


class PenalisedWabbit:
    """Vowpal Wabbit, learning from one text and predicting another."""

    def __init__(self, command: list[str], folder: Path) -> None:
        parts = [folder / name for name in ("first", "rest")]
        for part in parts:
            part.mkdir()
        self.command, self.folder = command, folder
        self.first, self.rest = (VowpalWabbit(command, part) for part in parts)

    def run(self, options: tuple[str, ...], split: Split, lam: float) -> Run:
        bits = max(18, (split.first.rows.d + 1).bit_length())
        model, readable = self.folder / "model", self.folder / "readable"
        lam = lam * split.first.rows.size if "--ftrl" in options else lam
        learn = [*options, "--l1", f"{lam:.9g}", "--no_bias_regularization", "--loss_function", "logistic"]
        learn += ["-b", str(bits), "-f", str(model), "--readable_model", str(readable), "--predict_only_model"]
        progressive = self.scores(self.first.text(split.first), learn)
        held_back = self.scores(self.rest.text(split.rest), ["-t", "-i", str(model)])
        lines = readable.read_text().partition("\n:0\n")[2].split()
        features = [int(line.partition(":")[0]) for line in lines if float(line.partition(":")[2]) != 0.0]
        nonzero = sum(i < split.first.rows.d for i in features)  # the intercept is beyond
        return Run(nonzero, log_loss(progressive, split.first.rows.y), log_loss(held_back, split.rest.rows.y))

    def scores(self, text: Path, options: list[str]) -> Any:
        out = self.folder / "scores"
        subprocess.run([*self.command, "-d", str(text), *options, "-p", str(out), "--quiet"], check=True)
        return np.array(out.read_text().split(), np.float64)

    def columns(self) -> Columns:
        release = self.first.release
        return {
            column: [Model(f"VW {' '.join(o)}", release, partial(self.run, o)) for o in runs]
            for column, runs in VW_PENALISED.items()
        }


def sgd_model(size: float | None, task: Task, lam: float) -> Any:
    """scikit-learn's SGD with its own schedule, or with constant steps: one pass, in order."""
    from sklearn.linear_model import SGDClassifier

    steps: dict[str, Any] = {"learning_rate": "optimal"}
    if size is not None:
        length = 1.0 + float(np.sum(task.rows.data**2)) / task.rows.size
        steps = {"learning_rate": "constant", "eta0": size / length}
    return SGDClassifier(loss="log_loss", penalty="l1", alpha=lam, shuffle=False, max_iter=1, tol=None, **steps)


def sgd_pass(size: float | None, split: Split, lam: float) -> Run:
    """Make one pass of `fit`; return its result on the rows held back."""
    first, rest = split
    model = sgd_model(size, first, lam).fit(first.rows.matrix(), first.rows.y)
    held_back = log_loss(model.decision_function(rest.rows.matrix()), rest.rows.y)
    return Run(int(np.count_nonzero(model.coef_)), np.nan, held_back)


def sgd_stream(size: float | None, split: Split, lam: float) -> Run:
    """Blocks, each predicted before `partial_fit`."""
    first, model = split.first, sgd_model(size, split.first, lam)
    X, y, scores = first.rows.matrix(), first.rows.y, np.zeros(first.rows.size)
    for start in range(0, first.rows.size, BLOCK):
        block = slice(start, start + BLOCK)
        if start:
            scores[block] = model.decision_function(X[block])
        model.partial_fit(X[block], y[block], classes=[-1.0, 1.0])
    return Run(int(np.count_nonzero(model.coef_)), log_loss(scores, y), np.nan)


def batch_run(split: Split, lam: float) -> Run:
    """Solve the lasso of all rows; weaker penalties would take minutes."""
    if lam < WEAKEST_BATCH:
        return Run(0, np.nan, np.nan)
    from sklearn.linear_model import LogisticRegression

    first, rest = split
    model = LogisticRegression(penalty="l1", solver="liblinear", C=1.0 / (lam * first.rows.size), max_iter=200)
    model.fit(first.rows.matrix(), first.rows.y)
    held_back = log_loss(model.decision_function(rest.rows.matrix()), rest.rows.y)
    return Run(int(np.count_nonzero(model.coef_)), np.nan, held_back)


def scikit_learn_l1() -> Columns:
    """SGD with its own schedule and three constant steps; and the batch."""
    from sklearn import __version__ as release

    sizes = {"SGD optimal": None, **{f"SGD {s}": s for s in (0.03, 0.3, 3.0)}}
    ways = {"fit": sgd_pass, "partial_fit": sgd_stream}
    return {
        "sklearn l1": [
            Model(f"{name} {way}", release, partial(run, size))
            for name, size in sizes.items()
            for way, run in ways.items()
        ],
        "batch l1": [Model("batch l1", release, batch_run)],
    }


# --- measuring --------------------------------------------------------------------------------


class Found(NamedTuple):
    """All runs of a set: by model and strength, and which models every column has."""

    name: str
    rows: int
    runs: dict[str, list[Run]]
    columns: dict[str, list[str]]

    def at(self, column: str, what: str, nonzero: int) -> float:
        """Return the best loss of a column with at most `nonzero` non-zeros; infinite if it never has so few."""
        return min((loss_at(self.runs[name], what, nonzero) for name in self.columns[column]), default=np.nan)

    def peer(self, what: str, nonzero: int) -> float:
        """Return the best of all but the ensemble, itself with a budget, and the batch."""
        others = [self.at(c, what, nonzero) for c in self.columns if c not in ("ensemble", *AFTERWARDS)]
        return float(np.nanmin([np.inf, *others]))


def loss_at(runs: list[Run], what: str, nonzero: int) -> float:
    """Return the loss at `nonzero` weights, interpolated between runs on a log scale; infinite if no run has so few.

    >>> runs = [Run(10, 0.4, 0.0), Run(1000, 0.2, 0.0), Run(2000, 0.3, 0.0), Run(0, 0.7, 0.0)]
    >>> [round(loss_at(runs, "progressive", n), 12) for n in (9, 10, 100, 1000, 5000)]
    [inf, 0.4, 0.3, 0.2, 0.2]
    """
    known = sorted((run.nonzero, getattr(run, what)) for run in runs)
    known = [(n, loss) for n, loss in known if n > 0 and np.isfinite(loss)]
    if not known or known[0][0] > nonzero:
        return np.inf
    n, losses = zip(*known, strict=True)
    return float(np.interp(np.log(nonzero), np.log(n), np.minimum.accumulate(losses)))


def measure(split: Split, columns: Columns, strengths: list[float], kept: Kept) -> Found:
    """Measure all models on one set."""
    numbers, runs, task = kept.read(split.first), dict[str, list[Run]](), split.first
    for model in (model for column in columns.values() for model in column):
        for lam in WEIGHTS if model.budgets else strengths:
            key = f"{model.name} {lam:.3g}"
            old = numbers.get(key)
            if old is None or (old["made_from"] != model.made_from and not kept.keep):
                progress(f"{task.rows.name}: {key}")
                begin = time.perf_counter()
                with warnings.catch_warnings(), np.errstate(all="ignore"):
                    warnings.simplefilter("ignore")
                    run = model.run(split, lam)
                seconds = round(time.perf_counter() - begin, 2)
                numbers[key] = {"made_from": model.made_from, "run": list(run), "seconds": seconds}
                kept.write(task, numbers)
            runs.setdefault(model.name, []).append(Run(*numbers[key]["run"]))
    names = {column: [model.name for model in models] for column, models in columns.items()}
    return Found(task.rows.name, task.rows.size, runs, names)


def two_groups(rows: Rows) -> Rows:
    """Return the first ten classes of twenty against the others, shuffled."""
    order = np.random.default_rng(1).permutation(rows.size)
    return rows._replace(name="news20 2", y=np.where(rows.y < 10.0, 1.0, -1.0)).take(order)


SETS = ("a9a", "reuters", "spam", "news20 2", "frappe")


def splits(options: argparse.Namespace, compiled: bool) -> Iterator[Split]:
    """Return the chosen sets."""
    if options.data is None or options.quick:
        found = iter([data.text_like(40, 200, 20) if options.quick else data.text_like(5000, 2000, 20)])
    else:
        found = (rows for name in SETS if name in options.sets for rows in load(options.data, name))
    for rows in found:
        size = rows.size if options.rows is None else min(rows.size, options.rows)
        order = np.arange(size)
        held_back = order >= size - size // FIFTH if options.future else order % FIFTH == FIFTH - 1
        yield Split(*(Task(rows.take(order[part]), BINARY, compiled) for part in (~held_back, held_back)))


def load(folder: Path, name: str) -> Iterator[Rows]:
    """Return one of `SETS`, or None if the folder lacks it."""
    if name == "news20 2":
        yield from map(two_groups, data.load(folder, sources=data.MANY_CLASSES[:1]))
    else:
        yield from data.load(folder, sources=tuple(source for source in data.SOURCES if source.name == name))


# --- saying what was found --------------------------------------------------------------------


def report(found: list[Found]) -> str:
    """Losses at numbers of non-zeros, progressive and held back; worse cells of the ensemble have a mark."""
    parts = []
    for what in ("progressive", "held_back"):
        columns = [c for c in found[0].columns if what == "held_back" or c not in AFTERWARDS]
        body = []
        for f in found:
            for n in BUDGETS.get(f.name, USUAL_BUDGETS):
                losses, peer = [f.at(c, what, n) for c in columns], f.peer(what, n)
                if not np.isfinite([losses[0], peer]).all():
                    continue
                ratio = losses[0] / peer
                cells = [f"{loss:.4f}" if np.isfinite(loss) else "-" for loss in losses]
                body.append([f.name, str(n), *cells, f"{ratio:.3f}" + (" worse" if ratio > 1.0 else "")])
        head = ["", "non-zeros", *columns, "ensemble / best other"]
        parts.append(f"Log loss, {what.replace('_', ' ')}\n{table(head, body)}")
    return "\n\n".join(parts)


def plot(found: list[Found], path: Path) -> None:
    """Loss against non-zeros: a column per set, progressive above held back; of a column's models the best."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.fonttype"] = "none"  # text as text
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(2, len(found), figsize=(3.2 * len(found), 5.6), squeeze=False, layout="constrained")
    for column, f in enumerate(found):
        for axis, what in zip(axes[:, column], ("progressive", "held_back"), strict=True):
            most = max(run.nonzero for name in f.columns["ensemble"] for run in f.runs[name])
            n = np.unique(np.round(np.logspace(0.5, np.log10(max(most, 10)), 30)).astype(int))
            for name in f.columns:
                losses = np.array([f.at(name, what, int(k)) for k in n])
                there = np.isfinite(losses)
                ours = name == "ensemble"
                axis.plot(n[there], losses[there], label=name, lw=2.5 if ours else 1.2, color="k" if ours else None)
            low = min((f.at(c, what, int(n[-1])) for c in f.columns), default=0.0)
            axis.set(xscale="log", title=f"{f.name}, {what.replace('_', ' ')}", ylim=(0.9 * low, min(0.7, 4.0 * low)))
            axis.grid(alpha=0.3)
    for axis in axes[-1]:
        axis.set_xlabel("non-zeros")
    axes[0, 0].set_ylabel("log loss")
    axes[0, -1].legend(fontsize=7)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)


# --- command line -----------------------------------------------------------------------------


def parse(arguments: list[str] | None) -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    text = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sparsity", description=text)
    parser.add_argument("--data", type=Path, metavar="DIR", help="a folder with data sets (see benchmarks/data.py)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers, versions and the command")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw loss against non-zeros")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS, metavar="NAME", help=f"of {', '.join(SETS)}")
    parser.add_argument("--rows", type=int, metavar="N", help="the first N rows of every set")
    parser.add_argument("--future", action="store_true", help="hold back the last fifth of the rows")
    parser.add_argument("--vw", metavar="COMMAND", help="how to start Vowpal Wabbit, such as 'python -m vowpalwabbit'")
    parser.add_argument("--no-vw", action="store_true", help="leave Vowpal Wabbit out")
    parser.add_argument(
        "--keep", action="store_true", help="take numbers of ours that another version of the code made"
    )
    parser.add_argument("--quick", action="store_true", help="few made-up rows, three strengths, nothing kept")
    options = parser.parse_args(arguments)
    if options.data is not None and not options.data.is_dir():
        parser.error(f"--data: {options.data} is no folder")
    return parser, options


def main(arguments: list[str] | None = None, compiled: bool = True) -> None:
    parser, options = parse(arguments)
    command = None if options.no_vw else find_vw(options.vw)
    kept = Kept(None if options.quick else CACHE.parent / "sparsity", options.keep)
    strengths = STRENGTHS[8::3] if options.quick else STRENGTHS
    with tempfile.TemporaryDirectory() as folder:
        vw = PenalisedWabbit(command, Path(folder)) if command else None
        columns = {**own(), **(vw.columns() if vw else {}), **scikit_learn_l1()}
        found = [measure(split, columns, strengths, kept) for split in splits(options, compiled)]
        release = vw.first.release if vw else None
    progress("")
    if not found:
        parser.error(f"--data: {options.data} has none of {', '.join(options.sets)}")
    print(report(found))
    if not options.no_vw and not command:
        print("Vowpal Wabbit is not installed (pip install vowpalwabbit, or --vw): left out.")
    if options.json:
        head = header("benchmarks.sparsity", arguments, options.quick, ["scikit-learn"])
        if release:
            head["versions"]["vowpalwabbit"] = release
        results = [{**f._asdict(), "runs": {k: [r._asdict() for r in v] for k, v in f.runs.items()}} for f in found]
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({**head, "strengths": strengths, "results": results}, indent=1) + "\n")
    if options.plot:
        plot(found, options.plot)


if __name__ == "__main__":
    main()
