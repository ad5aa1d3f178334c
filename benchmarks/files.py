"""From text to a trained model, beside Vowpal Wabbit; and parsing alone, beside scikit-learn and pyarrow.

    python -m benchmarks.files [--size MB] [--data DIR] [--sets NAME ...] [--rounds N] [--json FILE] [--vw COMMAND]
                               [--no-vw] [--no-parsing] [--interactions] [--quick]

**Training.** The same rows as svmlight and as Vowpal Wabbit's text, logistic loss, one pass, a process of its own each
time, all in turns, the best of several rounds. Rows are made up (`--size`, 600 MB of svmlight), and those of the sets
in `--data` whose text is larger than 5 MB; targets that are numbers or many classes are halved into two classes.

- *whole*: seconds from starting the process to its end, libraries and compiled code loaded, nothing compiled, neither
  kernels nor Python's own bytecode.
- *pass*: the same less that of a process which reads the first 10 rows only. So what it takes to start is in *whole*
  alone, of all contestants.

Ours: `fiol l1` is a single fully implicit learner with an l1 penalty, `fiol` the default ensemble, both from svmlight;
`(vw)` reads Vowpal Wabbit's text and hashes names to as many bits as Vowpal Wabbit. Vowpal Wabbit: `--l1` with the same
strength, and as it comes; no cache, no output.

**Interactions** (`--interactions`, with `--data`; nothing else then). The rows of rcv1, 20 times, with the products of
every two of their features: `-q ff` of Vowpal Wabbit, which has no faster setting for one pass over text, and `pairs`
of our reader, hashed to as many bits. Seconds are those of the whole process and of the pass, and beside them the
processor seconds of the whole process, all threads together: on a busy machine only these can be compared.

**Memory.** The largest resident size of `fiol l1` that reads a pipe of 1 GB, the made-up text again and again, and of a
tenth of it.

**Parsing.** Processor seconds of one thread, the text in the cache of the system: our readers, `load_svmlight_file` on
the same text, and pyarrow's CSV reader, without threads, on a table of numbers of the same size, which ours reads to
features, too, as CSV and as JSON lines.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import data
from benchmarks.report import Contestant, Target, header, progress, table, take_turns, verdicts
from benchmarks.tuning import find_vw
from fiol.readers.reader_config import ReaderConfig, infer_config

CACHE = data.CACHE.parent / "files"
#: Most bytes that are parsed alone.
PARSED = 100e6
#: Bytes that go through a pipe.
PIPED = 1e9
#: Sets of less text say nothing about throughput.
SMALLEST_SET = 5e6
#: Bits of hashed names, and the strength of l1.
BITS, STRENGTH = 20, 1e-6
#: How often the rows with interactions are repeated, and the namespace of their features.
REPEATED, NAMESPACE = 20, "f"
#: Features of made-up rows, and how many of them a row has on average.
FEATURES, ENTRIES = 100_000, 75

#: What runs in a process of its own: the model, the format, the file, and how many rows of it.
CHILD = f"""
import sys
import fiol
from fiol.readers.reader_config import ReaderConfig

model, form, path, compiled, *pair = sys.argv[1:]
update = fiol.FIOL(fiol.Logistic(), fiol.L1({STRENGTH})) if model == "l1" else None
options = {{"bits": {BITS}}} if form == "vw" else {{}}
learner = fiol.Learner(update, **options, compiled=compiled == "compiled")
rows = 0
pairs = (tuple(pair),) if pair else ()
for batch in ReaderConfig(form, options=options or {{"zero_based": False}}, pairs=pairs).batches(path):
    learner.learn(batch.X, batch.y)
    rows += batch.rows
with open("/proc/self/status") as file:  # the resident size of getrusage is that of the parent, if larger
    print(rows, *(line.split()[1] for line in file if line.startswith("VmHWM")))
"""

# --- rows as text -----------------------------------------------------------------------------


class DataFiles(NamedTuple):
    """The same rows twice, each with a file of the first 10 alone."""

    name: str
    svmlight: Path
    vw: Path

    @property
    def size(self) -> int:
        return self.svmlight.stat().st_size


def start_of(path: Path) -> Path:
    """Write a file with the first rows of another."""
    return path.with_name(path.name + ".start")


def write(name: str, folder: Path, lines: Iterator[tuple[str, list[str]]]) -> DataFiles:
    """Both files of rows, which are targets and entries such as "7:0.5", from 1; and those with the first rows."""
    folder.mkdir(parents=True, exist_ok=True)
    files = DataFiles(name, folder / f"{name}.svm", folder / f"{name}.vw")
    with open(files.svmlight, "w") as svmlight, open(files.vw, "w") as vw:
        for target, entries in lines:
            joined = " ".join(entries)
            svmlight.write(f"{target} {joined}\n")
            vw.write(f"{target} | {joined}\n")
    for path in files[1:]:
        with open(path) as whole:
            start_of(path).write_text("".join(line for line, _ in zip(whole, range(10), strict=False)))
    return files


def made_up(megabytes: float) -> Iterator[tuple[str, list[str]]]:
    """So much text: features as words are, values of six digits, targets that a linear model half explains."""
    draw, left = np.random.default_rng(11), megabytes * 1e6
    weights = draw.standard_normal(FEATURES)
    values = np.round(draw.uniform(0.01, 1.0, 10_000), 6)
    numbers = [f":{v:.6g}" for v in values.tolist()]
    names = [str(i + 1) for i in range(FEATURES)]
    while left > 0:
        lengths = 1 + draw.poisson(ENTRIES - 1, 1000)
        features = np.minimum((FEATURES ** draw.random(lengths.sum())).astype(np.int64), FEATURES - 1)
        chosen = draw.integers(0, len(values), len(features))
        for a, b in pairwise(np.append(0, np.cumsum(lengths)).tolist()):
            row = np.unique(features[a:b])
            v = chosen[a : a + len(row)]
            score = float(weights[row] @ values[v])
            entries = [names[i] + numbers[k] for i, k in zip(row.tolist(), v.tolist(), strict=True)]
            left -= sum(map(len, entries)) + len(entries) + 3
            yield ("1" if score + 2.0 * draw.standard_normal() > 0 else "-1"), entries
            if left <= 0:
                return


def set_lines(rows: data.Rows) -> Iterator[tuple[str, list[str]]]:
    """Return the rows of a set; other targets than -1 and +1 become these, split as evenly as possible."""
    y = rows.y
    if not set(np.unique(y).tolist()) <= {-1.0, 1.0}:
        y = np.where(y > np.median(y), 1.0, -1.0)
    entries = [f"{i + 1}:{x:.9g}" for i, x in zip(rows.indices.tolist(), rows.data.tolist(), strict=True)]
    for target, (a, b) in zip(y.tolist(), pairwise(rows.indptr.tolist()), strict=True):
        yield f"{target:g}", entries[a:b]


def prepared(options: argparse.Namespace) -> Iterator[DataFiles]:
    """Return the made-up rows, written once, and the sets that are large enough."""
    name = f"made-up-{options.size:g}"
    files = DataFiles(name, CACHE / f"{name}.svm", CACHE / f"{name}.vw")
    if not start_of(files.vw).exists():
        progress(f"{options.size:g} MB of text are written")
        write(name, CACHE, made_up(options.size))
    yield files
    if options.data is None:
        return
    for source in (*data.SOURCES, *data.NUMBERS, *data.MANY_CLASSES):
        if options.sets and source.name not in options.sets:
            continue
        for rows in data.load(options.data, sources=(source,)):
            files = DataFiles(source.name, CACHE / f"{source.name}.svm", CACHE / f"{source.name}.vw")
            if not start_of(files.vw).exists():
                files = write(source.name, CACHE, set_lines(rows))
            if files.size > SMALLEST_SET:
                yield files


def write_repeated(folder: Path) -> Path | None:
    """Return the file with the rows of rcv1, repeated, in a namespace with a name; None if there are no rows."""
    path = CACHE / f"rcv1-{REPEATED}.vw"
    for rows in data.load(folder, sources=tuple(s for s in data.MORE_BINARY if s.name == "rcv1")):
        lines = [f"{target} |{NAMESPACE} {' '.join(entries)}\n" for target, entries in set_lines(rows)]
        CACHE.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(lines * REPEATED))
        start_of(path).write_text("".join(lines[:10]))
        return path
    return None


# --- training ---------------------------------------------------------------------------------


class Timed(NamedTuple):
    """What one contestant takes for one text."""

    name: str
    whole: float  #: seconds of the process
    start: float  #: of one that reads 10 rows
    size: int  #: bytes of svmlight
    processor: float  #: processor seconds of the process

    @property
    def in_pass(self) -> float:
        return max(self.whole - self.start, 1e-9)


def command_of(model: str, form: str, path: Any, quick: bool) -> list[str]:
    """Return the command of one of our runs."""
    return [sys.executable, "-c", CHILD, model, form, str(path), "interpreted" if quick else "compiled"]


def commands(
    files: DataFiles, vw: list[str] | None, quick: bool
) -> dict[str, tuple[Callable[[Path], list[str]], Path]]:
    """Everybody, with the text each reads."""
    ours: dict[str, tuple[Callable[[Path], list[str]], Path]] = {
        "fiol l1": (lambda path: command_of("l1", "svmlight", path, quick), files.svmlight),
        "fiol": (lambda path: command_of("default", "svmlight", path, quick), files.svmlight),
    }
    if not quick:
        ours["fiol l1 (vw)"] = (lambda path: command_of("l1", "vw", path, quick), files.vw)
        ours["fiol (vw)"] = (lambda path: command_of("default", "vw", path, quick), files.vw)
    if vw:
        shared = [*vw, "--loss_function", "logistic", "-b", str(BITS), "--quiet", "--no_stdin"]
        ours["vw l1"] = (lambda path: [*shared, "--l1", str(STRENGTH), "-d", str(path)], files.vw)
        ours["vw"] = (lambda path: [*shared, "-d", str(path)], files.vw)
    return ours


def commands_of_pairs(path: Path, vw: list[str] | None) -> dict[str, tuple[Callable[[Path], list[str]], Path]]:
    """Everybody with the products of all features."""

    def ours(model: str) -> Callable[[Path], list[str]]:
        return lambda path: [*command_of(model, "vw", path, quick=False), NAMESPACE, NAMESPACE]

    everybody = {"fiol l1": (ours("l1"), path), "fiol": (ours("default"), path)}
    if vw:
        shared = [*vw, "--loss_function", "logistic", "-b", str(BITS), "--quiet", "--no_stdin", "-q", 2 * NAMESPACE]
        everybody["vw l1"] = (lambda path: [*shared, "--l1", str(STRENGTH), "-d", str(path)], path)
        everybody["vw"] = (lambda path: [*shared, "-d", str(path)], path)
    return everybody


def environment() -> dict[str, str]:
    """Return the environment of processes, in which Python's bytecode is cached for all of them alike."""
    own = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {"PYTHONPYCACHEPREFIX": str(CACHE.parent / "bytecode"), **own}


class Spent(NamedTuple):
    """The time of one process."""

    seconds: float
    processor: float


def run(command: list[str]) -> Spent:
    """Return the time that a process takes; RuntimeError with its last words if it fails."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
    if done.returncode:
        raise RuntimeError(f"{command[:3]} failed: {done.stderr[-2000:]}")
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Spent(seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def train(
    name: str, size: int, everybody: dict[str, tuple[Callable[[Path], list[str]], Path]], rounds: int
) -> list[Timed]:
    """Return everybody's best times; all run on the first rows before, so that everything has been compiled."""
    for make, path in everybody.values():
        run(make(start_of(path)))
    spent = {(one, short): list[Spent]() for one in everybody for short in (True, False)}
    for k in range(rounds):
        for one, (make, path) in everybody.items():
            progress(f"{name}: round {k + 1} of {rounds}, {one}")
            for short in (True, False):
                spent[one, short].append(run(make(start_of(path) if short else path)))
    best = {key: Spent(*map(min, zip(*found, strict=True))) for key, found in spent.items()}
    return [
        Timed(one, best[one, False].seconds, best[one, True].seconds, size, best[one, False].processor)
        for one in everybody
    ]


def peak_of_pipe(path: Path, size: float, quick: bool) -> float:
    """Return the largest resident size, in MB, of a process that learns `size` bytes of repeated text from a pipe."""
    command = command_of("l1", "svmlight", "-", quick)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        left = size
        while left > 0:
            with open(path, "rb") as file:
                while left > 0 and (some := file.read(int(min(left, 2**20)))):
                    left -= len(some)
                    if left <= 0:
                        some = some[: some.rfind(b"\n") + 1]  # whole lines
                    process.stdin.write(some)
        process.stdin.close()
        return int(process.stdout.read().split()[1]) / 1000


# --- parsing ----------------------------------------------------------------------------------


def of_reader(reading: ReaderConfig, path: Path) -> Callable[[], int]:
    """Read all batches on this thread."""
    return lambda: sum(batch.rows for batch in reading.batches(path, prefetch=False))


def of_scikit_learn(path: Path) -> Callable[[], Any]:
    """Read a whole file by scikit-learn."""
    from sklearn.datasets import load_svmlight_file

    return lambda: load_svmlight_file(str(path))


def of_pyarrow(path: Path) -> Callable[[], Any]:
    """Read a table by pyarrow, batch by batch, on one thread."""
    from pyarrow import csv

    return lambda: sum(batch.num_rows for batch in csv.open_csv(path, read_options=csv.ReadOptions(use_threads=False)))


def write_table(path: Path, size: float) -> None:
    """Write a CSV file of 20 columns of numbers."""
    draw, columns = np.random.default_rng(5), 20
    with open(path, "w") as file:
        file.write(",".join(f"x{k}" for k in range(columns)) + "\n")
        while file.tell() < size:
            file.writelines(
                ",".join(f"{v:.6g}" for v in row) + "\n" for row in draw.standard_normal((1000, columns)).tolist()
            )


def write_objects(table: Path, path: Path, size: float) -> None:
    """Write the first rows of a table as JSON lines."""
    with open(table) as rows, open(path, "w") as file:
        names = next(rows).rstrip().split(",")
        for row in rows:
            if file.tell() > size:
                break
            pairs = zip(names, row.rstrip().split(","), strict=True)
            file.write("{" + ", ".join(f'"{name}": {value}' for name, value in pairs) + "}\n")


def parse_alone(files: DataFiles, rounds: int) -> dict[str, float]:
    """Bytes per processor second of every reader, its best of several rounds."""
    size = min(files.size, PARSED)
    with tempfile.TemporaryDirectory() as folder:
        paths = {form: Path(folder, form) for form in ("svmlight", "vw", "csv")}
        for form in ("svmlight", "vw"):
            with open(getattr(files, form), "rb") as whole:
                text = whole.read(int(size))
            paths[form].write_bytes(text[: text.rfind(b"\n") + 1])
        write_table(paths["csv"], size)
        paths["json"] = Path(folder, "json")
        write_objects(paths["csv"], paths["json"], size)
        contestants: dict[str, tuple[Path, Callable[[], Any]]] = {
            "fiol svmlight": (paths["svmlight"], of_reader(ReaderConfig("svmlight"), paths["svmlight"])),
            "fiol vw, names": (paths["vw"], of_reader(ReaderConfig("vw"), paths["vw"])),
            "fiol vw, hashed": (paths["vw"], of_reader(ReaderConfig("vw", options={"bits": BITS}), paths["vw"])),
            "fiol csv, numbers": (paths["csv"], of_reader(infer_config(paths["csv"]), paths["csv"])),
            "fiol json, numbers": (paths["json"], of_reader(infer_config(paths["json"]), paths["json"])),
            "load_svmlight_file": (paths["svmlight"], of_scikit_learn(paths["svmlight"])),
            "pyarrow csv": (paths["csv"], of_pyarrow(paths["csv"])),
        }
        timed = {name: Contestant(lambda go=go: go) for name, (_, go) in contestants.items()}  # type: ignore[misc]
        for name, contestant in timed.items():
            progress(f"parsing: {name}")
            contestant.clock = time.process_time
        take_turns(timed.values(), rounds + 1)  # the first loads or compiles
        return {name: contestants[name][0].stat().st_size / one.seconds for name, one in timed.items()}


# --- the report -------------------------------------------------------------------------------


def tell(heading: list[str], found: dict[str, float]) -> None:
    """A table of numbers with names, printed at once, so that a run that is stopped has printed its results."""
    progress("")
    print(table(heading, [[name, f"{number:.0f}"] for name, number in found.items()]), "\n", flush=True)


def training_table(found: dict[str, list[Timed]]) -> str:
    """Seconds and throughput of every contestant on every text."""
    rows = [
        [
            f"{text}, {t.size / 1e6:.0f} MB" if k == 0 else "",
            t.name,
            f"{t.whole:.2f}",
            f"{t.in_pass:.2f}",
            f"{t.size / t.in_pass / 1e6:.0f}",
            f"{t.processor:.2f}",
        ]
        for text, timed in found.items()
        for k, t in enumerate(timed)
    ]
    return table(["", "", "whole s", "pass s", "MB/s in the pass", "processor s"], rows)


def targets_of(found: dict[str, list[Timed]], parsing: dict[str, float], peaks: dict[str, float]) -> list[Target]:
    """Return the bounds that times and rates are compared with."""
    made = []
    for place, (text, timed) in enumerate(found.items()):
        of = {t.name: t for t in timed}
        if "vw" in of:
            single = of["vw l1"].in_pass / of["fiol l1"].in_pass
            whole = of["vw l1"].whole / of["fiol l1"].whole
            both = of["vw"].in_pass / of["fiol"].in_pass
            wanted, wanted_whole = (1.8, 1.5) if place == 0 else (1.0, 1.0)
            claims = (
                (f"fiol l1, throughput of vw --l1 in the pass times {wanted:g}", single, wanted),
                (f"fiol l1, speed of vw --l1 in the whole process times {wanted_whole:g}", whole, wanted_whole),
                ("the default ensemble, throughput of vw in the pass", both, 1.0),
            )
            made += [Target(f"{text}: {claim}", f"{ratio:.2f}", ratio >= least) for claim, ratio, least in claims]
    if parsing:
        speed = parsing["fiol svmlight"] / 1e6
        made.append(Target("parsing svmlight alone: 400 MB/s", f"{speed:.0f}", speed >= 400))
    if peaks:
        small, large = peaks.values()
        made.append(
            Target("memory of a pipe does not grow with it", f"{small:.0f}, {large:.0f} MB", large < small + 50)
        )
    return made


def targets_of_pairs(timed: list[Timed]) -> list[Target]:
    """Return the targets of interactions: at most three times the time of Vowpal Wabbit."""
    of, made = {t.name: t for t in timed}, list[Target]()
    for one, other in (("fiol l1", "vw l1"), ("fiol", "vw")) if "vw" in of else ():
        for spent in ("whole", "processor"):
            ratio = getattr(of[one], spent) / getattr(of[other], spent)
            made.append(
                Target(f"interactions: {one}, {spent} seconds of {other} times 3", f"{ratio:.2f}", ratio <= 3.0)
            )
    return made


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=float, default=600.0, metavar="MB", help="made-up text, in MB (default: 600)")
    parser.add_argument("--data", type=Path, metavar="DIR", help="a folder of public data sets")
    parser.add_argument("--sets", nargs="*", metavar="NAME", help="only these of them")
    parser.add_argument("--rounds", type=int, default=3, help="number of runs, of which the best counts (default: 3)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers to a file")
    parser.add_argument("--vw", metavar="COMMAND", help="how to start Vowpal Wabbit, such as 'python -m vowpalwabbit'")
    parser.add_argument("--no-vw", action="store_true", help="leave Vowpal Wabbit out")
    parser.add_argument("--no-parsing", action="store_true", help="train only")
    parser.add_argument("--interactions", action="store_true", help="only rcv1 with the products of its features")
    parser.add_argument("--quick", action="store_true", help="very little text, in the interpreter: that it works")
    options = parser.parse_args(arguments)
    if options.quick:
        options.size, options.rounds = 0.05, 1
    return options


def main(arguments: list[str] | None = None) -> None:
    options = parse(arguments)
    vw = None if options.no_vw else find_vw(options.vw)
    found, parsing, peaks = dict[str, list[Timed]](), dict[str, float](), dict[str, float]()
    if options.interactions:
        path = None if options.data is None else write_repeated(options.data)
        if path is None:
            raise SystemExit("--interactions needs --data DIR with rcv1_small.dat")
        pairs = train("interactions", path.stat().st_size, commands_of_pairs(path, vw), options.rounds)
        progress("")
        print(training_table({"interactions": pairs}), "\n")
        print(verdicts(targets_of_pairs(pairs), judged=True))
        return
    for files in prepared(options):
        if not found:
            if not options.no_parsing:
                parsing = parse_alone(files, options.rounds)
            run(command_of("l1", "svmlight", start_of(files.svmlight), options.quick))  # compiled, if it was not
            for part in (0.1, 1.0):
                size = part * (2 * files.size if options.quick else PIPED)
                progress(f"memory of a pipe: {size / 1e6:.4g} MB")
                peaks[f"{size / 1e6:.4g} MB"] = peak_of_pipe(files.svmlight, size, options.quick)
            tell(["parsing alone, one thread", "MB/s"], {name: s / 1e6 for name, s in parsing.items()})
            tell(["largest resident size over a pipe", "MB"], peaks)
        found[files.name] = train(files.name, files.size, commands(files, vw, options.quick), options.rounds)
        progress("")
        print(training_table({files.name: found[files.name]}), "\n", flush=True)
    print(verdicts(targets_of(found, parsing, peaks), judged=options.size >= 100))
    if vw is None and not options.no_vw:
        print("Vowpal Wabbit is not installed (pip install vowpalwabbit, or --vw): left out.")
    if options.json:
        results = {name: [{**t._asdict(), "pass": t.in_pass} for t in timed] for name, timed in found.items()}
        head = header("benchmarks.files", arguments, options.quick, ["scikit-learn", "pyarrow"])
        options.json.parent.mkdir(parents=True, exist_ok=True)
        text = {**head, "training": results, "parsing_bytes_per_second": parsing, "peak_megabytes": peaks}
        options.json.write_text(json.dumps(text, indent=1) + "\n")


if __name__ == "__main__":
    main()
