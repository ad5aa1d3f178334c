"""This code beside another checkout of it: the same benchmark in turns, every time as a ratio.

    python -m benchmarks.versus OTHER BENCHMARK [--turns N] [--cpu] [--json FILE] [-- options of the benchmark]

OTHER is a folder that holds another version of this project, BENCHMARK one of those here that write `--json`, such as
`stream`. Each turn runs the benchmark of both versions in processes of their own, one after the other; of each time
the least of all turns counts. Both use the packages installed for this one. On a busy machine `--cpu` counts the
processor time of the benchmark's process in place of the time on the wall.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.report import checkout, header, progress, table

HERE = Path(__file__).parents[1]
#: Under these keys a benchmark writes times of contestants by name.
TIMES = ("us", "seconds", "events")
#: Runs a benchmark with the clock of its process in place of that on the wall.
BY_PROCESSOR_TIME = """
import runpy, sys, time
time.perf_counter = time.process_time
sys.argv = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


def run(root: Path, benchmark: str, options: list[str], cpu: bool) -> dict[str, float]:
    """Return all times of one run of a benchmark in the version at `root`, by where they stand in its JSON."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "found.json"
        start = ["-c", BY_PROCESSOR_TIME] if cpu else ["-m"]
        command = [sys.executable, *start, f"benchmarks.{benchmark}", *options, "--json", str(path)]
        paths = os.pathsep.join([str(root / "src"), str(root)])
        environment = {**os.environ, "PYTHONPATH": paths, "NUMBA_CACHE_DIR": str(root / "build" / "versus")}
        done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"benchmarks.{benchmark} failed in {root}:\n{done.stderr}")
        return dict(times(json.loads(path.read_text())))


def times(value: Any) -> Iterator[tuple[str, float]]:
    """Yield every time in a benchmark's JSON, and what it belongs to.

    >>> dict(times({"results": [{"name": "a9a", "rows": 3, "us": {"FIOL": 0.5}}]}))
    {'a9a, rows 3: FIOL': 0.5}
    >>> dict(times({"command": "python -m", "us": {"a9a": {"ensemble": 0.5, "gate": 0.7}}}))
    {'us, a9a: ensemble': 0.5, 'us, a9a: gate': 0.7}
    """
    if isinstance(value, list):
        for entry in value:
            yield from times(entry)
    elif isinstance(value, dict):
        facts = {key: found for key, found in value.items() if isinstance(found, (str, int, float))}
        if "command" in value:  # the header of a benchmark: machine, versions, time
            facts = {}
        label = ", ".join(str(found) if isinstance(found, str) else f"{key} {found}" for key, found in facts.items())
        for key, found in value.items():
            if key in TIMES and isinstance(found, dict):
                yield from named_times(label or key, found)
            elif key in ("results", "passes"):
                yield from times(found)


def named_times(label: str, found: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """Times by name, or such times by the name of a data set."""
    for name, time in found.items():
        if isinstance(time, dict):
            yield from named_times(f"{label}, {name}", time)
        elif isinstance(time, (int, float)):
            yield f"{label}: {name}", time


def main(arguments: list[str] | None = None) -> None:
    """Run both versions in turns and print the ratios, the largest first."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.versus", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("other", type=checkout, metavar="OTHER", help="a folder with another version of this project")
    parser.add_argument("benchmark", metavar="BENCHMARK", help="step, stream, ensembles or estimators")
    parser.add_argument("--turns", type=int, default=3, metavar="N", help="runs of each version (default 3)")
    parser.add_argument("--cpu", action="store_true", help="processor time in place of the time on the wall")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all times")
    words = sys.argv[1:] if arguments is None else arguments
    cut = words.index("--") if "--" in words else len(words)
    given, options = parser.parse_args(words[:cut]), words[cut + 1 :]
    best: dict[str, dict[str, float]] = {"this": {}, "other": {}}
    for turn in range(given.turns):
        for name, root in (("other", given.other.resolve()), ("this", HERE)):
            progress(f"turn {turn + 1} of {given.turns}: {name}")
            for where, time in run(root, given.benchmark, options, given.cpu).items():
                best[name][where] = min(time, best[name].get(where, time))
    progress("")
    shared = [where for where in best["this"] if where in best["other"]]
    ratio = {where: best["this"][where] / best["other"][where] for where in shared}
    rows = [
        [where, f"{best['other'][where]:.4g}", f"{best['this'][where]:.4g}", f"{ratio[where]:.3f}"]
        for where in sorted(shared, key=lambda where: -ratio[where])
    ]
    print(f"benchmarks.{given.benchmark}, least of {given.turns} turns: the other version, this one, this / other")
    print(table(["", "other", "this", "ratio"], rows))
    alone = len(best["this"]) + len(best["other"]) - 2 * len(shared)
    print(f"{len(shared)} times, {alone} that only one version has")
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        head = header("benchmarks.versus", arguments, False)
        given.json.write_text(json.dumps({**head, "times": best, "ratios": ratio}, indent=1) + "\n")


if __name__ == "__main__":
    main()
