"""What more workers gain on Spark: rows per second of two beside one, and a model of the cost for more of them.

    python -m benchmarks.spark [--rows N] [--features N] [--turns N] [--json FILE] [--quick]

Every run is a process of its own, with a cluster of its own on this machine: one or two executors with one core each.
Java and Python of an executor share that core (on Linux they are pinned to it), as they do on a cluster where a worker
has one; the driver may use any. It writes no rows; those it learns from are in a Parquet file, arrays of numbers with
targets of -1 and 1. After a fit of few rows, which loads compiled code, it measures
`FIOLClassifier(mode="rows").fit` and what that consists of:

| part | what it is |
|---|---|
| start | a session, its executors, and Python with compiled code in them |
| read | counting, reading, dealing rows out to rounds and workers, and keeping them |
| parse | Arrow batches to rows, in tasks |
| learn | the rounds of rows, in tasks |
| job | what else a round takes: planning, sending a learner, starting tasks, answers |
| sum | what the driver does in a round: put learners together, and search along the way |

One and two workers take turns; of each the best turn counts, since others may use the machine. Where they do, wall time
says little; so there is the processor time, too, of the driver D and of all executors E, and by that two workers gain
(D1 + E1) / (D2 + E2 / 2), as if nothing else ran and nothing waited. The model of cost is

    T(n, W) = start + n read / W + a(n) row + (n - a(n)) row / W + R(n) (job + W take + search)

with row = parse + learn, the rows a(n) that one task learns from alone, the number R(n) of rounds, `take` for what the
driver needs for the learner of one more worker, and `search` for the rest of the sum.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
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
from fiol.engine.parallel.rounds import GROWTH
from fiol.integrations.spark_rounds import rows_alone

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
    read: float  #: until the first rows are learned from
    parse: float  #: in tasks, all of them together
    learn: float  #: in tasks, all of them together
    jobs: float  #: the rest of the rounds
    sums: float  #: in the driver
    take: float  #: of these, what grows with the number of learners
    driver: float  #: processor time of the driver, Java and Python
    executors: float  #: and of all executors


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


class Processes(NamedTuple):
    """The processes of a session on this machine: Java of the driver, and every executor with its Python."""

    driver: int
    executors: list[list[int]]

    def seconds(self) -> tuple[float, float]:
        """Processor time of the driver, with this process, and of all executors."""
        here = sum(os.times()[:2])
        return here + spent_by(self.driver), sum(spent_by(pid) for one in self.executors for pid in one)

    def pin(self) -> None:
        """Give every executor a core of its own, as far as there are any."""
        for one, core in zip(self.executors, itertools.cycle(sorted(os.sched_getaffinity(0)))):
            for thread in (thread for pid in one for thread in os.listdir(f"/proc/{pid}/task")):
                with contextlib.suppress(OSError):  # it has ended
                    os.sched_setaffinity(int(thread), {core})


def processes(session: Any) -> Processes | None:
    """Return the processes of a session; None without /proc."""
    if not os.path.isdir("/proc/self"):
        return None
    parents, lines = dict[int, int](), dict[int, str]()
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        with contextlib.suppress(OSError):
            parents[pid] = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            lines[pid] = Path(f"/proc/{pid}/cmdline").read_text()

    def family(pid: int) -> list[int]:
        return [pid, *(one for child, parent in parents.items() if parent == pid for one in family(child))]

    everybody = [pid for pid in family(session.sparkContext._gateway.proc.pid) if pid in lines]
    executors = [pid for pid in everybody if "CoarseGrainedExecutorBackend" in lines[pid]]
    driver = next(pid for pid in everybody if "java" in lines[pid] and pid not in executors)
    return Processes(driver, [family(pid) for pid in executors])


def seconds_of(session: Any) -> tuple[float, float]:
    """`Processes.seconds`, or nothing."""
    everybody = processes(session)
    return (math.nan, math.nan) if everybody is None else everybody.seconds()


def spent_by(pid: int) -> float:
    """Return the processor time of a process, in seconds; 0 if it has ended."""
    with contextlib.suppress(OSError):
        ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
    return 0.0


def run_here(path: str, workers: int) -> SparkRun:
    """Measure one fit in this process."""
    began = time.perf_counter()
    from pyspark.sql import SparkSession

    from fiol.integrations import spark_rounds
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
    everybody = processes(session)
    if everybody is not None:
        everybody.pin()
    started = time.perf_counter() - began
    module: Any = spark_rounds
    module.RoundMerger = timed("take", module.RoundMerger)
    module.losses_along_line = timed("sums", module.losses_along_line)
    first, whole = list[float](), module.one_round

    def one_round(*arguments: Any) -> Any:
        start = time.perf_counter()
        found = whole(*arguments)
        took = time.perf_counter() - start
        if first:
            spent["rounds"] += took
        else:  # which reads all rows
            first.append(took)
        return found

    module.one_round = one_round
    before = seconds_of(session)
    begins = time.perf_counter()
    model = estimator.fit(frame)
    fit = time.perf_counter() - begins
    after = seconds_of(session)
    figures = model._figures
    later = {one.round for one in figures} - {0}
    worked, rows = sum(one.seconds for one in figures), model.learner.rows
    parse = min(measured_parse(path, model) * rows, worked)
    slowest = sum(max(one.seconds for one in figures if one.round == k) for k in later)
    alone = sum(one.seconds for one in figures if one.round == 0)
    sums = spent["sums"] + spent["take"]
    session.stop()
    return SparkRun(
        workers, rows, len(later), started, fit, fit - spent["rounds"] - alone, parse, worked - parse,
        spent["rounds"] - sums - slowest, sums, spent["take"], after[0] - before[0], after[1] - before[1],
    )  # fmt: skip


def measured_parse(path: str, model: Any) -> float:
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
    read: float  #: a row, by one worker
    row: float  #: parse and learn, a row
    job: float
    take: float
    search: float

    def rounds(self, rows: float) -> float:
        """Return the number of rounds of the rows after the first ones, which one worker learns."""
        return math.log(max(rows / rows_alone(int(rows)), 1.0)) / math.log1p(GROWTH)

    def seconds(self, rows: float, workers: float) -> float:
        """Return the seconds of a number of workers."""
        alone = min(rows_alone(int(rows)), rows)
        shared = (rows * self.read + (rows - alone) * self.row) / workers
        each = self.job + workers * self.take + self.search
        return self.start + shared + alone * self.row + self.rounds(rows) * each

    def most_workers(self, rows: float) -> float:
        """From how many workers on one more costs more than it gains: rows (read + row) / W = rounds take W."""
        return math.sqrt(rows * (self.read + self.row) / (self.rounds(rows) * self.take))


def fitted(one: SparkRun, two: SparkRun) -> CostModel:
    """Fit the cost model by processor time: a second executor makes as many rounds as the first, and shares its rows.

    So E2 - E1 is the time of an executor for its rounds, independent of the rows, and 2 E1 - E2 is for the rows; wall
    times split it into parts. Where processor time is not known, wall time is used.
    """
    both = one, two
    read, work = (np.mean(some) for some in ([run.read * run.workers for run in both],
                                             [run.parse + run.learn for run in both]))  # fmt: skip
    job = np.mean([run.jobs / run.rounds for run in both])
    take = np.mean([run.take / run.rounds / run.workers for run in both])
    search = np.mean([(run.sums - run.take) / run.rounds for run in both])
    rows = 2.0 * one.executors - two.executors
    if rows > 0.0:
        read, work = read * rows / (read + work), work * rows / (read + work)
        job = (one.driver + two.executors - one.executors) / one.rounds - take - search
    each: Any = read / one.rows, work / one.rows, max(job, 0.0), take, search
    return CostModel(min(one.start, two.start), *map(float, each))


def report(one: SparkRun, two: SparkRun, cost: CostModel, judged: bool) -> str:
    """Return all results as tables."""
    parts = ["start", "read", "parse", "learn", "jobs", "sums", "fit", "driver", "executors"]
    body = [[name, *(f"{getattr(run, name):.2f}" for run in (one, two))] for name in parts]
    body.append(["rows per second", *(f"{run.rows / run.fit:,.0f}" for run in (one, two))])
    gain, alone = one.fit / two.fit, (one.driver + one.executors) / (two.driver + two.executors / 2.0)
    lines = [f"{one.rows:,} rows, {one.rounds} rounds; seconds", table(["", "1 worker", "2 workers"], body)]
    lines += [f"two workers are {gain:.2f} times one, by processor time {alone:.2f} times"]
    lines += [verdicts([Target(f"two workers at least {GAIN} times one", f"{gain:.2f}", gain >= GAIN)], judged)]
    hours = [
        [f"{workers:,}", f"{cost.seconds(MANY_ROWS, workers) / 3600.0:.2f}",
         f"{cost.seconds(MANY_ROWS, 1) / cost.seconds(MANY_ROWS, workers):.1f}"] for workers in WORKERS
    ]  # fmt: skip
    names = [f"{name} {value:.3g}" for name, value in cost._asdict().items()]
    lines += [f"predicted for {MANY_ROWS:.0e} rows, seconds: {', '.join(names)}"]
    lines += [table(["workers", "hours", "times one"], hours)]
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
