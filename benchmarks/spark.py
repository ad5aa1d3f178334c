"""What more workers gain on Spark: rows per second of two beside one, and a model of the cost for more of them.

    python -m benchmarks.spark [--rows N] [--features N] [--turns N] [--json FILE] [--quick]

Every run is a process of its own, with a cluster of its own on this machine: one or two executors with one core each.
It writes no rows; those it learns from are in a Parquet file, arrays of numbers with targets of -1 and 1. After a fit
of few rows, which loads compiled code, it measures `FIOLClassifier(mode="rows").fit` and what that consists of:

| part | what it is |
|---|---|
| start | a session, its executors, and Python with compiled code in them |
| prepare | reading the file, shuffling rows into rounds, and keeping them, all workers together |
| parse | Arrow batches to rows, in tasks, a row |
| learn | the rounds of rows, in tasks, a row |
| job | a job of Spark's, a round |
| sum | what the driver does in a round: put learners together, and search along the way |

One and two workers take turns; of each the best turn counts, since others may use the machine. The model of cost is

    T(n, W) = start + n (prepare + parse + learn) / W + R(n) (job + W take + search),  R(n) = log(n / alone) / log(1.1)

where `take` is what the driver needs for the learner of one more worker, and `search` for the rest of the sum.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.report import Target, header, progress, table, verdicts

#: What two workers are to gain.
GAIN = 1.6
#: For these numbers of workers, and this number of rows, costs are predicted.
WORKERS, MANY_ROWS = (1, 2, 10, 100, 1000), 1e10
#: A row group of the file.
GROUP = 50_000


class SparkRun(NamedTuple):
    """What one process measured, in seconds."""

    workers: int
    rows: int
    rounds: int
    start: float
    fit: float  #: the whole call
    prepare: float  #: before the first round
    parse: float  #: in tasks, all of them together
    learn: float  #: in tasks, all of them together
    sums: float  #: in the driver
    take: float  #: of these, what grows with the number of learners
    jobs: float  #: the rest of the rounds


def write_rows(path: Path, rows: int, features: int) -> None:
    """Arrays of small whole numbers, the first five of which say something about the target."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    schema = pa.schema([("features", pa.list_(pa.float32())), ("label", pa.float64())])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, GROUP):
            n = min(GROUP, rows - start)
            X = rng.integers(-3, 4, (n, features)).astype(np.float32)
            y = np.where(X[:, :5].sum(axis=1) + 3.0 * rng.standard_normal(n) > 0.0, 1.0, -1.0)
            lists = pa.ListArray.from_arrays(
                pa.array(np.arange(0, n * features + 1, features, dtype=np.int32)), pa.array(X.reshape(-1))
            )
            writer.write_table(pa.table([lists, pa.array(y)], schema=schema))


def run_here(path: str, workers: int) -> SparkRun:
    """Measure one fit in this process."""
    began = time.perf_counter()
    from pyspark.sql import SparkSession

    from fiol.doors import spark_training
    from fiol.spark import FIOLClassifier

    session = (
        SparkSession.builder.master(f"local-cluster[{workers},1,2048]")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.executor.memory", "2g")
        .config("spark.sql.files.maxPartitionBytes", "16m")
        .config("spark.executorEnv.PYTHONPATH", os.pathsep.join(sys.path))
        .config("spark.executorEnv.OMP_NUM_THREADS", "1")
        .getOrCreate()
    )
    spent = {"sums": 0.0, "take": 0.0, "rounds": 0.0}

    def timed(name: str, function: Any) -> Any:
        def measured(*arguments: Any, **options: Any) -> Any:
            start = time.perf_counter()
            try:
                return function(*arguments, **options)
            finally:
                spent[name] += time.perf_counter() - start

        return measured

    frame = session.read.parquet(path)
    estimator = FIOLClassifier(featuresCol="features", mode="rows", numWorkers=workers)
    estimator.fit(frame.limit(3000))  # compiled code is there, in all processes
    started = time.perf_counter() - began
    module: Any = spark_training
    module.Together = timed("take", module.Together)
    module.losses_on_the_way = timed("sums", module.losses_on_the_way)
    module.one_round, module.first_round = (timed("rounds", f) for f in (module.one_round, module.first_round))
    begins = time.perf_counter()
    model = estimator.fit(frame)
    fit = time.perf_counter() - begins
    figures = model._figures
    rounds = 1 + max(one.round for one in figures)
    learned = sum(one.seconds for one in figures)
    parse = measured_parse(session, path, model)
    rows = model.learner.rows
    slowest = sum(max(one.seconds for one in figures if one.round == k) for k in {one.round for one in figures})
    sums = spent["sums"] + spent["take"]
    jobs = spent["rounds"] - sums - slowest
    session.stop()
    return SparkRun(
        workers, rows, rounds, started, fit, fit - spent["rounds"], parse * rows, learned - parse * rows, sums,
        spent["take"], jobs,
    )  # fmt: skip


def measured_parse(session: Any, path: str, model: Any) -> float:
    """Seconds for a row to come from an Arrow batch, measured in this process."""
    import pyarrow.parquet as pq

    some, best = pq.ParquetFile(path).read_row_group(0), math.inf
    for _ in range(5):  # the first loads code
        began = time.perf_counter()
        model.rows.of(some)
        best = min(best, time.perf_counter() - began)
    return best / len(some)


def run_apart(path: Path, workers: int) -> SparkRun:
    """Measure one fit in a process of its own."""
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "benchmarks.spark",
        "--child",
        str(path),
        "--workers",
        str(workers),
    ]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        raise RuntimeError(f"a run with {workers} workers failed:\n{done.stderr[-2000:]}")
    return SparkRun(**json.loads(lines[-1]))


class CostModel(NamedTuple):
    """Seconds, fitted to the measured parts: see the module."""

    start: float
    row: float  #: prepare, parse and learn, of one worker
    job: float
    take: float
    search: float
    alone: float = 1e5

    def rounds(self, rows: float) -> float:
        """How many rounds so many rows have."""
        return math.log(max(rows / self.alone, 1.0)) / math.log(1.1)

    def seconds(self, rows: float, workers: float) -> float:
        """How long so many workers need."""
        return (
            self.start + rows * self.row / workers + self.rounds(rows) * (self.job + workers * self.take + self.search)
        )

    def most_workers(self, rows: float) -> float:
        """From how many workers on one more costs more than it gains: rows row / W = rounds take W."""
        return math.sqrt(rows * self.row / (self.rounds(rows) * self.take))


def fitted(one: SparkRun, two: SparkRun) -> CostModel:
    """The model of cost: parts of a row from the work of both runs, those of a round from their rounds."""
    both = one, two
    row = np.mean([(run.prepare * run.workers + run.parse + run.learn) / run.rows for run in both])
    job = np.mean([run.jobs / run.rounds for run in both])
    take = np.mean([run.take / run.rounds / run.workers for run in both])
    search = np.mean([(run.sums - run.take) / run.rounds for run in both])
    return CostModel(min(one.start, two.start), float(row), float(job), float(take), float(search))


def report(one: SparkRun, two: SparkRun, cost: CostModel, judged: bool) -> str:
    """All of it as tables."""
    parts = ["start", "prepare", "parse", "learn", "jobs", "sums", "take", "fit"]
    body = [[name, *(f"{getattr(run, name):.2f}" for run in (one, two))] for name in parts]
    body.append(["rows per second", *(f"{run.rows / run.fit:,.0f}" for run in (one, two))])
    gain = one.fit / two.fit
    lines = [f"{one.rows:,} rows, {one.rounds} rounds; seconds", table(["", "1 worker", "2 workers"], body)]
    lines += [verdicts([Target(f"two workers at least {GAIN} times one", f"{gain:.2f}", gain >= GAIN)], judged)]
    hours = [
        [f"{workers:,}", f"{cost.seconds(MANY_ROWS, workers) / 3600.0:.2f}",
         f"{cost.seconds(MANY_ROWS, 1) / cost.seconds(MANY_ROWS, workers):.1f}"] for workers in WORKERS
    ]  # fmt: skip
    lines += [f"predicted for {MANY_ROWS:.0e} rows", table(["workers", "hours", "times one"], hours)]
    lines += [f"more workers stop paying at {cost.most_workers(MANY_ROWS):,.0f}"]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Measure both, and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=2_000_000, metavar="N")
    parser.add_argument("--features", type=int, default=100, metavar="N")
    parser.add_argument("--turns", type=int, default=3, metavar="N")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers")
    parser.add_argument("--quick", action="store_true", help="few rows, one turn: too small to judge")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--workers", type=int, default=1, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.child:
        print(json.dumps(run_here(given.child, given.workers)._asdict()), flush=True)
        return
    rows, turns = (20_000, 1) if given.quick else (given.rows, given.turns)
    runs = list[SparkRun]()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        write_rows(path, rows, given.features)
        for turn in range(turns):
            for workers in (1, 2):
                progress(f"turn {turn + 1}, {workers} workers")
                runs.append(run_apart(path, workers))
    progress("")
    one, two = (min((run for run in runs if run.workers == k), key=lambda run: run.fit) for k in (1, 2))
    cost = fitted(one, two)
    print(report(one, two, cost, not given.quick))
    if given.json is not None:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        found = {"runs": [run._asdict() for run in runs], "cost": cost._asdict(), "gain": one.fit / two.fit}
        numbers = {**header("benchmarks.spark", arguments, given.quick, ["pyspark"]), "results": found}
        given.json.write_text(json.dumps(numbers, indent=1))


if __name__ == "__main__":
    main()
