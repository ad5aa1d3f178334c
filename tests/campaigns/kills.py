"""A process that learns and saves in a loop is killed, again and again: its file is always a complete one.

    python tests/campaigns/kills.py [--kills N] [--seed N]

The child goes on from the file, says after every save how many rows the saved model has learned from, and is killed by
SIGKILL at a random moment. The file must then load, hold the model of the last save it reported, or of the one after,
and be equal, bit for bit, to a model that learned these rows undisturbed. At most one file is left beside it, however
many processes were killed.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time

import numpy as np

from fiol import FIOL, L1, Learner, Logistic, load

#: Rows learned from between two saves.
ROWS = 1
#: The model starts anew after this many rows, so that a model to compare with is soon there.
LONGEST = 100


def new():
    return Learner(FIOL(Logistic(), L1(0.01)), bits=12, compiled=False)


def rows(start):
    """The rows that follow the first `start`."""
    draw = np.random.default_rng(start)
    X = [{f"f{draw.integers(500)}": draw.normal() for _ in range(5)} for _ in range(ROWS)]
    return X, np.where(draw.random(ROWS) < 0.5, -1.0, 1.0)


def save_for_ever(path, tell):
    """Learn, save, tell."""
    model = load(path, compiled=False)
    while True:
        if model.rounds >= LONGEST:
            model = new()
        model.learn(*rows(model.rounds))
        model.save(path)
        os.write(tell, model.rounds.to_bytes(8, "little"))


def campaign(kills, seed, folder):
    """How many kills hit, how many of them left a file, and the most files that were left."""
    path, draw = os.path.join(folder, "model.fiol"), random.Random(seed)
    model, known = new(), {}
    while model.rounds < LONGEST:
        model.learn(*rows(model.rounds))
        known[model.rounds] = [a.tobytes() for a in model.core.arrays().values()]
    model.save(path)
    last, longest, most, strays = LONGEST, 0.1, 0, 0
    for _ in range(kills):
        receive, tell = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.close(receive)
                save_for_ever(path, tell)
            finally:
                os._exit(1)
        os.close(tell)
        time.sleep(draw.uniform(0.0, longest))
        os.kill(pid, signal.SIGKILL)
        status = os.waitpid(pid, 0)[1]
        assert os.WIFSIGNALED(status), f"the child failed by itself: {status}"
        with os.fdopen(receive, "rb") as pipe:
            printed = pipe.read()
        last = int.from_bytes(printed[-8:], "little") if printed else last
        found = load(path, compiled=False)
        after = last % LONGEST + ROWS
        assert found.rounds in (last, after), (found.rounds, last)
        assert [a.tobytes() for a in found.core.arrays().values()] == known[found.rounds]
        last = found.rounds
        left = [name for name in os.listdir(folder) if name != "model.fiol"]
        most, strays = max(most, len(left)), strays + bool(left)
        assert most <= 1, left
    return strays, most


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        strays, most = campaign(options.kills, options.seed, folder)
        took = time.perf_counter() - began
    print(f"{options.kills} kills, {strays} in the middle of a save, never more than {most} file left, {took:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
