"""A streaming query in a process of its own is killed, again and again: every batch counts once.

    python tests/campaigns/stream_kills.py [--kills N] [--seed N] [--batches N]

The child reads files of rows, a batch each, with `train_stream`. Half of the time it and its Spark are killed by
SIGKILL at a random moment after the first batch of its life has begun; else it kills itself between two lines: the
model with the batch has been saved, Spark does not know yet that the batch is done, and hands it over again. In the end
the model must be that of a stream that was not disturbed, to the last byte of its file, batches and losses included; or
if Spark itself made one batch of two after a kill, have learned from as many rows.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

#: Rows of a batch.
ROWS = 50
SCHEMA = "a double, b double, label double"


def write_batches(folder, batches, seed):
    """A file for every batch, each a second younger than the one before: Spark takes the oldest first."""
    draw = np.random.default_rng(seed)
    folder.mkdir()
    for k in range(batches):
        X = draw.normal(size=(ROWS, 2)) * [1.0, 20.0]
        rows = [{"a": a, "b": b, "label": a - 0.1 * b + draw.normal()} for a, b in X.tolist()]
        file = folder / f"{k:04d}.json"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        os.utime(file, (1e9 + k, 1e9 + k))


def learn_stream(folder, die_after):
    """Learn from all batches there are, and print each; kill this process after a number of saves, if one is given."""
    from pyspark.sql import SparkSession

    import fiol
    from fiol.integrations import spark_stream
    from fiol.integrations.spark_rows import PLAIN_COLUMNS, SparkRows
    from fiol.spark import FIOLRegressionModel, train_stream

    folder = Path(folder)
    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "FATAL")
        .config("spark.sql.shuffle.partitions", "1")
        .getOrCreate()
    )
    saved, whole = 0, spark_stream.StreamTrainer.__call__

    def learn_and_tell(trainer, frame, number):
        nonlocal saved
        skipped = number <= trainer.last
        print("skipped" if skipped else "begun", number, flush=True)
        whole(trainer, frame, number)
        saved += not skipped
        if saved == die_after and not skipped:
            os.kill(os.getpid(), signal.SIGKILL)

    spark_stream.StreamTrainer.__call__ = learn_and_tell
    model = FIOLRegressionModel(
        fiol.Learner(loss=fiol.Squared(), table_encoding={"a": "number", "b": "number"}),
        SparkRows(PLAIN_COLUMNS, ("a", "b"), "label"),
    )
    frame = session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder / "in"))
    query = train_stream(frame, folder / "model", model, folder / "checkpoint", trigger={"availableNow": True})
    query.awaitTermination()
    print("done", flush=True)


def one_life(folder, die_after=0, patience=None):
    """Start a child, and kill it some seconds after its first batch began; return whether it ended, and its output.

    A child that kills itself leaves its Spark, in the same group of processes, which ends with it.
    """
    command = [sys.executable, "-W", "ignore", __file__, "--child", str(folder), "--die-after", str(die_after)]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    child = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    )
    printed = []
    try:
        for line in child.stdout:
            printed.append(line.split())
            if patience is not None and len(printed) == 1 and printed[0][0] != "done":
                time.sleep(patience)
                break
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)  # its own group: the child and its Spark
        printed += [line.split() for line in child.stdout]
        child.wait()
    return ["done"] in printed, printed


def campaign(kills, seed, batches, folder):
    """How many kills hit, batches handed over again, and lives there were."""
    import fiol

    folder, draw = Path(folder), random.Random(seed)
    for name in ("calm", "killed"):
        (folder / name).mkdir()
        write_batches(folder / name / "in", batches, seed)
    ended, printed = one_life(folder / "calm")
    assert ended, printed
    hits, again, lives = 0, 0, 0
    while True:
        how = {}
        if hits < kills:
            how = {"die_after": draw.randint(1, 2)} if draw.random() < 0.5 else {"patience": draw.expovariate(2.0)}
        ended, printed = one_life(folder / "killed", **how)
        lives += 1
        hits += not ended
        again += sum(line[0] == "skipped" for line in printed)
        if ended:
            break
    found, calm = (folder / name / "model" for name in ("killed", "calm"))
    learner = fiol.load(found)
    assert learner.rows == ROWS * batches, learner.rows
    last, other = learner.meta["spark_stream"]["last"], fiol.load(calm)
    if last != batches - 1:
        # Killed between its list of files and its list of batches, Spark hands over two files as one batch, in an order
        # of its own: every row counts once, but batches are others.
        assert last < batches - 1, last
        np.testing.assert_allclose(learner.weights, other.weights, rtol=0.1, atol=0.01)
        return hits, again, lives
    pairs = zip(learner.core.arrays().items(), other.core.arrays().values(), strict=True)
    differing = [name for (name, a), b in pairs if not np.array_equal(a, b)]
    assert found.read_bytes() == calm.read_bytes(), (differing, learner.meta, other.meta)
    return hits, again, lives


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batches", type=int, default=120)
    parser.add_argument("--child")
    parser.add_argument("--die-after", type=int, default=0)
    given = parser.parse_args()
    if given.child:
        learn_stream(given.child, given.die_after)
    else:
        with tempfile.TemporaryDirectory() as where:
            hits, again, lives = campaign(given.kills, given.seed, given.batches, where)
        print(f"{hits} kills in {lives} lives, {again} batches handed over again and skipped: every row counted once")
