"""`fiol train` is killed, again and again, and goes on: its model is that of an undisturbed run, byte for byte.

    python tests/campaigns/resume.py [--kills N] [--seed N] [--processes]

A child runs the command with `--resume` and is killed by SIGKILL at a random moment; then another one goes on, until
one comes to the end. Its file must have the bytes of the file of an undisturbed run, nothing left out: it holds no
times. Then another run begins, until `--kills` is reached. Runs are of three kinds: one pass; passes with
shuffling; passes with shuffling, rows held out and an early stop. Children are forks that have all code at hand, so
that they are killed while they learn, and learn in small pieces, between which there may be checkpoints; `--processes`
starts processes of their own, which may be killed while they load code, too.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from fiol.cli import main as command_line
from fiol.training import run as loop

KINDS = {
    "one pass": [],
    "shuffled": ["--passes", "3", "--shuffle", "500", "--seed", "7"],
    "early stop": ["--passes", "9", "--shuffle", "300", "--holdout", "0.2", "--early-stop", "2"],
}


def write_rows(path, rows, seed):
    """Rows in svmlight's format, of which the later ones have other weights: the order counts."""
    draw = np.random.default_rng(seed)
    with open(path, "w") as file:
        for k in range(rows):
            features = sorted(draw.choice(60, 6, replace=False) + 1)
            values = draw.normal(size=6).round(3)
            z = sum(v * (f % 5 - 2 + k / rows) for f, v in zip(features, values, strict=True))
            entries = " ".join(f"{f}:{v}" for f, v in zip(features, values, strict=True))
            file.write(f"{int(z + 9.0 * draw.normal() > 0.0)} {entries}\n")


def run(arguments):
    """The command in this process; its exit code."""
    try:
        command_line([str(argument) for argument in arguments], prog_name="fiol")
    except SystemExit as done:
        return done.code or 0
    return 0


def start(arguments, processes):
    """A child that runs the command; its process id."""
    if processes:
        command = [sys.executable, "-m", "fiol", *map(str, arguments)]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).pid
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            code = run(arguments)
        finally:
            os._exit(code)
    return pid


def campaign(kills, seed, folder, options=(), rows=30000, every=500, processes=False):
    """How many kills hit, and how many runs came to their end in spite of them, by kind."""
    folder, draw = Path(folder), random.Random(seed)
    data, model = folder / "rows.svm", folder / "model.fiol"
    write_rows(data, rows, seed)
    whole, took, hits, ends = {}, {}, dict.fromkeys(KINDS, 0), dict.fromkeys(KINDS, 0)

    def resumable(name):
        return ["train", data, *options, *KINDS[name], "-o", model, "--resume", "--checkpoint-rows", every]

    for name, kind in KINDS.items():
        assert run(["train", data, *options, *kind, "-o", folder / "whole.fiol", "--force"]) == 0
        whole[name] = (folder / "whole.fiol").read_bytes()
        began = time.perf_counter()  # everything is compiled now
        assert os.waitpid(start(resumable(name), processes), 0)[1] == 0
        took[name] = time.perf_counter() - began
        model.unlink()
    while sum(hits.values()) < kills:
        name = draw.choice(list(KINDS))
        arguments = resumable(name)
        while True:
            pid = start(arguments, processes)
            deadline = time.perf_counter() + draw.uniform(0.0, 1.5 * took[name])
            done = (0, 0)
            while done == (0, 0) and time.perf_counter() < deadline:
                time.sleep(0.001)
                done = os.waitpid(pid, os.WNOHANG)
            if done == (0, 0):
                os.kill(pid, signal.SIGKILL)
                done = os.waitpid(pid, 0)
            if os.WIFSIGNALED(done[1]):
                hits[name] += 1
                continue
            assert os.waitstatus_to_exitcode(done[1]) == 0, f"the command failed by itself: {done[1]}"
            break
        assert model.read_bytes() == whole[name], f"{name}: another model after {hits[name]} kills"
        left = {path.name for path in folder.iterdir()} - {"rows.svm", "model.fiol", "whole.fiol"}
        assert not left, left
        ends[name] += 1
        model.unlink()
    return hits, ends


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        if not options.processes:
            loop.WORK_AT_ONCE = 3000
        hits, ends = campaign(options.kills, options.seed, folder, processes=options.processes)
        took = time.perf_counter() - began
    counts = "; ".join(f"{name}: {hits[name]} kills, {ends[name]} runs ended" for name in KINDS)
    print(f"{sum(hits.values())} kills, every model as without them ({counts}), {took:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
