"""What nothing to tune costs: one pass of the default ensemble beside single learners, scikit-learn and Vowpal Wabbit.

    python -m benchmarks.ensembles [--data DIR] [--sets NAME ...] [--rounds N] [--cpu] [--base DIR] [--vw COMMAND]
                                   [--json FILE]

Microseconds per row of one pass over rows in memory by one thread, input checks included, logistic loss. All take
turns, the best of several rounds counts, nothing is compiled while the clock runs.

- `single` is the learner one gets with step_size="single", `base` the same in another checkout of this project, in a
  process of its own (`--base`).
- `ensemble` is `Learner()`, stored in doubles, and in floats; `gate` and `ridge` are `Learner(regularizer=...)`.
- `softmax` is the ensemble of all classes at once; the class of a row follows from its length and its target.
- `single l1` and `single ridge` have steps of one size, as scikit-learn's `l1` and `l2` have, with the same strength.
- `VW cache` is a pass of Vowpal Wabbit, as it comes, over its binary cache: the time of a process that reads all rows,
  less that of one which reads ten.

An event is one call of `Learner.learn_one` with 20 features of 10,000.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import data
from benchmarks.data import Rows
from benchmarks.report import Contestant, Target, header, progress, table, take_turns, verdicts
from benchmarks.stream import ETA, LAM, peer
from fiol import FIOL, L1, Constant, Learner, Logistic, Ridge, Softmax, Stacked

#: What learns in the process of another checkout: a new learner for every line "new", a pass for every line "go".
CHILD = """
import sys, time
import numpy as np, scipy.sparse
import fiol
clock = time.process_time if sys.argv[2] == "cpu" else time.perf_counter
found = np.load(sys.argv[1])
shape = len(found["y"]), int(found["d"])
X = scipy.sparse.csr_matrix((found["data"], found["indices"], found["indptr"]), shape=shape)
for line in sys.stdin:
    if line == "new\\n":
        learner = fiol.Learner(fiol.FIOL(fiol.Logistic()), n_features=X.shape[1])
        print(0.0, flush=True)
    else:
        start = clock()
        learner.learn(X, found["y"])
        print(clock() - start, flush=True)
"""
#: Rows that Vowpal Wabbit starts with, and features of single events.
FEW, EVENT = 10, 20
#: Classes of `softmax`.
CLASSES = 5

# --- contestants ------------------------------------------------------------------------------


def ours(rows: Rows, compiled: bool) -> dict[str, Contestant]:
    """Our own learners, new in every turn."""
    X, steps = rows.matrix(), Constant(ETA)
    single: dict[str, Any] = {"n_features": rows.d, "compiled": compiled}
    made: dict[str, Callable[[], Learner]] = {
        "single": lambda: Learner(FIOL(Logistic()), **single),
        "ensemble": lambda: Learner(**single),
        "ensemble, floats": lambda: Learner(dtype="float32", **single),
        "gate": lambda: Learner(regularizer=L1(LAM), **single),
        "ridge": lambda: Learner(regularizer=Ridge(LAM), **single),
        "softmax": lambda: Learner(Stacked(Softmax()), classes=range(CLASSES), **single),
        "single l1": lambda: Learner(FIOL(Logistic(), L1(LAM), steps), **single),
        "single ridge": lambda: Learner(FIOL(Logistic(), Ridge(LAM), steps), **single),
    }

    classes = (np.diff(rows.indptr) + (rows.y > 0.0)) % CLASSES

    def passing(make: Callable[[], Learner], y: Any) -> Callable[[], Any]:
        learner = make()
        return lambda: learner.learn(X, y)

    return {
        name: Contestant(partial(passing, make, classes if name == "softmax" else rows.y))
        for name, make in made.items()
    }


def of_scikit_learn(rows: Rows) -> dict[str, Contestant]:
    """Constant steps of the same size and strength."""
    if not peer("sklearn"):
        return {}
    from sklearn.linear_model import SGDClassifier

    X, options = rows.matrix(), {"loss": "log_loss", "alpha": LAM, "learning_rate": "constant", "eta0": ETA}

    def passing(penalty: str) -> Callable[[], Any]:
        model = SGDClassifier(penalty=penalty, max_iter=1, tol=None, shuffle=False, **options)
        return lambda: model.fit(X, rows.y)

    return {f"scikit-learn {penalty}": Contestant(partial(passing, penalty)) for penalty in ("l1", "l2")}


@contextlib.contextmanager
def of_base(rows: Rows, base: Path, folder: Path, cpu: bool) -> Iterator[Contestant]:
    """Run the single learner of another checkout in a process that lives as long as the block."""
    path = folder / "rows.npz"
    np.savez(path, indptr=rows.indptr, indices=rows.indices, data=rows.data, y=rows.y, d=rows.d)
    environment = {**os.environ, "PYTHONPATH": str(base / "src"), "NUMBA_CACHE_DIR": str(base / "build" / "versus")}
    command = [sys.executable, "-W", "ignore", "-c", CHILD, str(path), "cpu" if cpu else "wall"]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    spent = 0.0
    with subprocess.Popen(command, env=environment, cwd=base, **pipes) as process:

        def say(line: str) -> None:
            nonlocal spent
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(line)
            process.stdin.flush()
            answer = process.stdout.readline()
            if not answer:
                raise RuntimeError(f"the process of {base} has ended")
            spent += float(answer)

        def passing() -> Callable[[], Any]:
            say("new\n")
            return lambda: say("go\n")

        contestant = Contestant(passing)
        contestant.clock = lambda: spent  # the process reads its own
        yield contestant


def of_vw(rows: Rows, vw: list[str], folder: Path) -> Contestant:
    """Run a process of Vowpal Wabbit that reads its cache of these rows."""
    text, cache = folder / f"rows{rows.size}.vw", folder / f"rows{rows.size}.cache"
    with open(text, "w") as file:
        for r in range(rows.size):
            a, b = rows.indptr[r], rows.indptr[r + 1]
            pairs = zip(rows.indices[a:b].tolist(), rows.data[a:b].tolist(), strict=True)
            file.write(f"{rows.y[r]:g} | " + " ".join(f"{i}:{x:.9g}" for i, x in pairs) + "\n")
    command = [*vw, "--loss_function", "logistic", "--quiet", "--no_stdin", "--cache_file", str(cache), "-d", str(text)]
    run = partial(subprocess.run, command, check=True, capture_output=True)
    run()  # writes the cache, which stands for the text from then on
    return Contestant(lambda: run)


def event_contestant(compiled: bool, events: int) -> Contestant:
    """Call `learn_one` for every row."""
    draw = np.random.default_rng(1)
    indices = [np.sort(draw.choice(10_000, EVENT, replace=False)).astype(np.int32) for _ in range(events)]
    values, labels = draw.standard_normal((events, EVENT)), draw.choice([-1.0, 1.0], events).tolist()
    learner = Learner(n_features=10_000, compiled=compiled)

    def loop() -> None:
        for i, x, y in zip(indices, values, labels, strict=True):
            learner.learn_one(i, x, y)

    return Contestant(lambda: loop)


def measure(rows: Rows, options: argparse.Namespace) -> dict[str, float]:
    """Microseconds per row of everybody."""
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        runs = ours(rows, not options.quick) | of_scikit_learn(rows)
        if options.cpu:
            for run in runs.values():
                run.clock = time.process_time
        if options.base:
            runs["base"] = stack.enter_context(of_base(rows, options.base, folder, options.cpu))
        if options.vw:
            runs["VW start"] = of_vw(rows.take(np.arange(FEW)), options.vw, folder)
            runs["VW cache"] = of_vw(rows, options.vw, folder)
        for one, run in runs.items():
            progress(f"{rows.name}: {one}")
            run.once()  # compiles
            run.seconds = np.inf
        take_turns(runs.values(), options.rounds)
        us = {one: 1e6 * run.seconds / rows.size for one, run in runs.items()}
        if options.vw:
            us["VW cache"] -= us.pop("VW start")
    return us


# --- the report -------------------------------------------------------------------------------

#: What is asked for: whose time, at most how many times whose.
CLAIMS = (
    ("ensemble", 1.7, "base"),
    ("ensemble, floats", 1.1, "base"),
    ("gate", 1.5, "ensemble"),
    ("ridge", 1.5, "ensemble"),
    ("ensemble", 1.0, "VW cache"),
    ("single l1", 1.0, "scikit-learn l1"),
    ("single", 1.5, "scikit-learn l2"),
)


def targets_of(found: dict[str, dict[str, float]], event: float) -> list[Target]:
    """Each claim, with the worst set; without a base, the single learner of today stands for it."""
    made = []
    for one, most, other in CLAIMS:
        named = "single" if other == "base" and not all("base" in us for us in found.values()) else other
        ratios = {name: us[one] / us[named] for name, us in found.items() if named in us}
        if ratios:
            worst = max(ratios, key=lambda name: ratios[name])
            text = f"{min(ratios.values()):.2f} to {ratios[worst]:.2f} ({worst})"
            made.append(Target(f"{one} at most {most:g} times {named}", text, ratios[worst] <= most))
    made.append(Target(f"learn_one of {EVENT} features in 6 us", f"{event:.1f} us", event <= 6.0))
    return made


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, metavar="DIR", help="a folder of public data sets")
    parser.add_argument("--sets", nargs="*", metavar="NAME", help="only these of them")
    parser.add_argument(
        "--rounds", type=int, default=7, help="number of runs, of which the best counts (default: %(default)s)"
    )
    parser.add_argument(
        "--cpu", action="store_true", help="processor time, of all but Vowpal Wabbit: on a busy machine"
    )
    parser.add_argument("--base", type=Path, metavar="DIR", help="another checkout of this project")
    parser.add_argument("--vw", type=shlex.split, metavar="COMMAND", help="how to start Vowpal Wabbit")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers to a file")
    parser.add_argument("--quick", action="store_true", help="few rows, in the interpreter: that it works")
    options = parser.parse_args(arguments)
    sets: list[Rows] = [data.text_like(*((12, 50, 6) if options.quick else (50_000, 47_000)))]
    if options.data:
        sources = [s for s in data.SOURCES if not options.sets or s.name in options.sets]
        sets = [rows for source in sources for rows in data.load(options.data, sources=(source,))]
    found = {rows.name: measure(rows, options) for rows in sets}
    events = 4 if options.quick else 2000
    single = event_contestant(not options.quick, events)
    single.clock = time.process_time if options.cpu else single.clock
    single.once()  # compiles
    take_turns([single], options.rounds)
    event = 1e6 * single.seconds / events
    progress("")
    names = list(next(iter(found.values())))
    shapes = {rows.name: f"{rows.name}, {rows.nnz:.0f} a row" for rows in sets}
    print(table(["us per row", *names], [[shapes[s], *(f"{us[n]:.2f}" for n in names)] for s, us in found.items()]))
    targets = targets_of(found, event)
    print("\n" + verdicts(targets, not options.quick))
    if options.json:
        numbers = {"us": found, "event": event, "targets": [t._asdict() for t in targets]}
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(
            json.dumps(header("benchmarks.ensembles", arguments, options.quick) | numbers, indent=1)
        )


if __name__ == "__main__":
    main()
