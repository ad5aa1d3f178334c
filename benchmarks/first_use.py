"""What a newcomer waits for: the first fit of a process with an empty cache, here and in other checkouts, in turns.

    python -m benchmarks.first_use [OTHER ...] [--turns N] [--json FILE]

Each OTHER is a folder with another version of this project. Of each case the least of all turns counts: seconds on the
wall, and of processor time, which says more on a machine that does other things as well. Versions up to 536e298 compile
in a second process as well, whose processor time is not counted: set FIOL_HELPER=0 to compare with them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.report import checkout, header, progress, table

HERE = Path(__file__).parents[1]
START = """
import json, time, warnings
import numpy as np
import sklearn.linear_model
import fiol
warnings.simplefilter("ignore")
draw = np.random.default_rng(1)
"""
END = """
print(json.dumps([time.perf_counter() - wall, time.process_time() - cpu]))
"""
#: Scripts; what they import and make up is not timed.
CASES = {
    "default": """
X, y = draw.standard_normal((200, 12)), draw.choice([-1.0, 1.0], 200)
wall, cpu = time.perf_counter(), time.process_time()
learner = fiol.Learner()
learner.learn(X, y)
learner.predict(X)
""",
    "auto": """
X, y = draw.standard_normal((400, 12)), draw.choice([-1.0, 1.0], 400)
wall, cpu = time.perf_counter(), time.process_time()
learner = fiol.Learner(features="auto")
learner.learn(X, y)
learner.predict(X)
""",
    "single, l1": """
X, y = draw.standard_normal((200, 12)), draw.choice([-1.0, 1.0], 200)
wall, cpu = time.perf_counter(), time.process_time()
learner = fiol.Learner(fiol.FIOL(fiol.Logistic(), fiol.L1(0.01)))
learner.learn(X, y)
learner.predict(X)
""",
    "logistic, l1": """
import scipy.sparse
X, y = scipy.sparse.random(200, 123, 0.11, "csr", random_state=1), draw.integers(0, 2, 200)
X.data[:] = 1.0
wall, cpu = time.perf_counter(), time.process_time()
fiol.FIOLClassifier(penalty="l1", random_state=0).fit(X, y)
""",
    "softmax": """
X, y = draw.standard_normal((200, 12)), draw.integers(0, 3, 200)
wall, cpu = time.perf_counter(), time.process_time()
fiol.FIOLClassifier("softmax", random_state=0).fit(X, y)
""",
    "River": """
import fiol.river
model = fiol.river.FIOLClassifier()
wall, cpu = time.perf_counter(), time.process_time()
for k in range(3):
    row = {"a": 1.0, "b": 2.0 + k}
    model.predict_proba_one(row)
    model.learn_one(row, k % 2 == 1)
""",
}


def run(root: Path, case: str) -> tuple[float, float] | None:
    """Return the seconds of a case at `root` with nothing compiled: on the wall, of processor time.

    None: another version fails in this case, because it lacks what the case uses.
    """
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "PYTHONPATH": str(root / "src"), "NUMBA_CACHE_DIR": cache}
        command = [sys.executable, "-c", START + CASES[case] + END]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode and root != HERE:
        progress("")
        print(f"{case} is left out for {root.name}: {done.stderr.strip().splitlines()[-1]}")
        return None
    if done.returncode:
        raise SystemExit(f"{case} failed:\n{done.stderr}")
    wall, cpu = json.loads(done.stdout)
    return wall, cpu


def main(arguments: list[str] | None = None) -> None:
    """Run all cases of all versions in turns, and print their times."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.first_use", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("others", nargs="*", type=checkout, metavar="OTHER", help="a folder with another version")
    parser.add_argument("--turns", type=int, default=3, metavar="N", help="runs of each case and version (default 3)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all times")
    given = parser.parse_args(arguments)
    roots = [*(other.resolve() for other in given.others), HERE]
    best: dict[str, dict[str, tuple[float, float]]] = {case: {} for case in CASES}
    for turn in range(given.turns):
        for case in CASES:
            for root in roots:
                if turn > 0 and str(root) not in best[case]:
                    continue  # left out in the first turn
                progress(f"turn {turn + 1} of {given.turns}: {case} in {root.name}")
                found, old = run(root, case), best[case].get(str(root), (float("inf"), float("inf")))
                if found:
                    best[case][str(root)] = min(found[0], old[0]), min(found[1], old[1])
    progress("")
    rows = []
    for case, times in best.items():
        own = times[str(HERE)]
        for root, (wall, cpu) in times.items():
            ratios = f"{own[0] / wall:.2f}", f"{own[1] / cpu:.2f}"
            rows.append([case, "this" if root == str(HERE) else Path(root).name, f"{wall:.1f}", f"{cpu:.1f}", *ratios])
    print(f"First use with an empty cache, least of {given.turns} turns: seconds")
    print(table(["", "version", "wall", "processor", "this / version: wall", "processor"], rows))
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(
            json.dumps({**header("benchmarks.first_use", arguments, False), "times": best}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
