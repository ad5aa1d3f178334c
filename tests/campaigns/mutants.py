"""Seeded faults in the library's own code, one at a time: some test must detect each.

    python tests/campaigns/mutants.py [--count N] [--seed N] [--module PART...] [--seconds N] [--examples N]

All tests are collected once, in the interpreter (NUMBA_DISABLE_JIT=1), and run once, to see which lines each of them
visits. Then, fault by fault, a process is forked in which one function has other code, and the tests that visit the
line run, the quickest first, until one fails: the fault is killed. A fault that no test detects within the time
survives: either it has no visible effect, or a test is missing. No file is ever changed.

Code that runs when a module is imported, and code that only works compiled (`ONLY_COMPILED`), has no faults.
"""

from __future__ import annotations

import argparse
import ast
import collections
import copy
import functools
import gc
import importlib
import json
import os
import random
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "fiol"
#: Folders where faults are seeded; each has a score.
FOLDERS = (
    "algorithms",
    "components",
    "engine",
    "exports",
    "features",
    "learner",
    "models",
    "persistence",
    "readers",
    "training",
)
#: Files without faults: kernels that only work compiled.
ONLY_COMPILED = ("engine/single_row/events.py",)
#: What can become of a fault.
OUTCOMES = ("killed", "survived", "unvisited", "error")
#: Tests of the code as it is on disk, in processes of their own, or that take long in the interpreter.
LEFT_OUT = (
    "tests/campaigns",
    "tests/compiler",
    "tests/integrations",
    "tests/experiments",
    "tests/peers",
    "tests/regret",
    "tests/test_benchmarks",
    "tests/training/test_resume",
    "tests/cli",
    "tests/test_contract",
    "tests/test_examples",
    "tests/test_newcomer_errors",
    "tests/test_plots",
    "README",
    "docs",
)
#: Names of tests with libraries that do not work in a process that was forked.
UNFORKED = ("polars", "frames_agree")
#: A test that takes more seconds while its lines are recorded is left out.
LONG = 4.0
#: Most examples of a test of hypothesis while its lines are recorded, and while faults are judged without `--examples`.
EXAMPLES = 15
#: Calls of a function whose lines are recorded, for each test.
CALLS = 20

COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATORS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Add,
    ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitAnd, ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}  # fmt: skip
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "minimum": "maximum", "maximum": "minimum"}
#: Calls whose first two arguments are not swapped: a swap changes nothing, or breaks every test.
SYMMETRIC = (*NAMES, "isinstance", "getattr", "hasattr", "range", "zip")
#: Statements that are left out, one at a time.
DROPPED = (ast.Assign, ast.AugAssign, ast.Expr, ast.Raise, ast.Return, ast.Break, ast.Continue, ast.Delete)


class Fault(NamedTuple):
    """A fault: the function it is in, the line, and how the tree of the module gets it."""

    module: str
    function: str
    first: int  #: line of the function, with its decorators
    line: int
    what: str
    change: Callable[[ast.AST], None]
    place: int  #: of the node in `ast.walk`

    def __str__(self) -> str:
        return f"{self.module}:{self.line} {self.function}: {self.what}"

    def tree(self, source: str) -> ast.AST:
        tree = ast.parse(source)
        self.change(next(node for k, node in enumerate(ast.walk(tree)) if k == self.place))
        return ast.fix_missing_locations(tree)


def changes(node: Any) -> Iterator[tuple[str, Callable[[Any], None]]]:
    """Yield the faults of a node, each with the function that makes it in a copy of the node.

    >>> for what, _ in changes(ast.parse("a + 1 < b", mode="eval").body):
    ...     print(what)
    a + 1 < b -> a + 1 <= b
    a + 1 < b -> a + 1 >= b
    >>> [what for what, _ in changes(ast.parse("f(a, 2)", mode="eval").body)]
    ['f(a, 2) -> f(2, a)']
    """
    found: list[Callable[[Any], None]] = []
    if isinstance(node, ast.Compare):
        for k, op in enumerate(node.ops):
            found.append(functools.partial(_set_item, "ops", k, COMPARISONS[type(op)]()))
        opposite = {ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt}.get(type(node.ops[0]))
        if opposite is not None and len(node.ops) == 1:
            found.append(functools.partial(_set_item, "ops", 0, opposite()))
    elif isinstance(node, (ast.BinOp, ast.AugAssign)) and type(node.op) in OPERATORS:
        found.append(functools.partial(_set, "op", OPERATORS[type(node.op)]()))
    elif isinstance(node, ast.BoolOp):
        found.append(functools.partial(_set, "op", ast.Or() if isinstance(node.op, ast.And) else ast.And()))
        found += [functools.partial(_delete_item, "values", k) for k in range(len(node.values))]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        found.append(functools.partial(_set, "op", ast.UAdd()))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        found.append(functools.partial(_negate, "operand"))
    elif isinstance(node, (ast.If, ast.IfExp, ast.While)) and not isinstance(node.test, (ast.Compare, ast.UnaryOp)):
        found.append(functools.partial(_negate, "test"))
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float, bool):
        value = node.value
        other = not value if isinstance(value, bool) else value + 1 if abs(value) < 1e9 else value * 2
        if isinstance(value, float) and 0.0 < abs(value) < 0.01:
            other = value * 1e3
        found.append(functools.partial(_set, "value", other))
    elif isinstance(node, ast.Call):
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if name in NAMES:
            found.append(functools.partial(_rename, NAMES[name]))
        if len(node.args) >= 2 and name not in SYMMETRIC and not any(isinstance(a, ast.Starred) for a in node.args[:2]):
            found.append(functools.partial(_swap, "args"))
    for field in ("body", "orelse", "finalbody"):
        statements = getattr(node, field, [])
        if isinstance(statements, list) and not isinstance(node, (ast.Module, ast.ClassDef)):
            for k, statement in enumerate(statements):
                if isinstance(statement, DROPPED) and not _is_text(statement):
                    yield f"no {_text(statement)}", functools.partial(_skip_item, field, k)
    if isinstance(node, (ast.For, ast.While)):
        yield f"once {_text(node).splitlines()[0]}", _once
    for change in found:
        after = copy.deepcopy(node)
        change(after)
        head = [_text(n).splitlines()[0] for n in (node, after)]
        yield f"{head[0]} -> {head[1]}", change


def _set(field: str, value: Any, node: Any) -> None:
    setattr(node, field, value)


def _set_item(field: str, k: int, value: Any, node: Any) -> None:
    getattr(node, field)[k] = value


def _skip_item(field: str, k: int, node: Any) -> None:
    """Let a statement never run; `if False` keeps the free variables of the function, such as `__class__`."""
    old = getattr(node, field)[k]
    getattr(node, field)[k] = ast.copy_location(ast.If(ast.Constant(False), [old], []), old)


def _delete_item(field: str, k: int, node: Any) -> None:
    getattr(node, field)[k] = ast.Constant(isinstance(node.op, ast.And))


def _negate(field: str, node: Any) -> None:
    setattr(node, field, ast.copy_location(ast.UnaryOp(ast.Not(), getattr(node, field)), getattr(node, field)))


def _rename(name: str, node: Any) -> None:
    if isinstance(node.func, ast.Name):
        node.func.id = name
    else:
        node.func.attr = name


def _swap(field: str, node: Any) -> None:
    node.args[:2] = node.args[1::-1]


def _once(node: Any) -> None:
    node.body.append(ast.copy_location(ast.Break(), node.body[-1]))


def _is_text(node: Any) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _text(node: Any) -> str:
    return ast.unparse(ast.fix_missing_locations(copy.deepcopy(node)))


def faults(module: str, source: str) -> Iterator[Fault]:
    """Yield all faults of the functions of a module, except in messages, annotations, decorators and defaults.

    >>> [str(fault) for fault in faults("m.py", "def f(a):\\n    return a + 1\\n")]
    ['m.py:2 f: no return a + 1', 'm.py:2 f: a + 1 -> a - 1', 'm.py:2 f: 1 -> 2']
    """
    tree = ast.parse(source)
    place = {id(node): k for k, node in enumerate(ast.walk(tree))}

    def inside(node: Any, function: Any, name: str, statement: Any) -> Iterator[Fault]:
        first = min([function.lineno, *(d.lineno for d in function.decorator_list)])
        for what, change in changes(node):
            line = getattr(node, "lineno", statement.lineno)
            if what.startswith("no "):
                body = next(
                    s for f in ("body", "orelse", "finalbody") for s in getattr(node, f, []) if what[3:] == _text(s)
                )
                line = body.lineno
            yield Fault(module, name, first, line, what.replace("\n", " "), change, place[id(node)])
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.JoinedStr, ast.arguments)) or child is getattr(node, "returns", None):
                continue
            if isinstance(node, (ast.Raise, ast.Assert)) or child in getattr(node, "decorator_list", []):
                continue
            if isinstance(node, ast.AnnAssign) and child is node.annotation:
                continue
            yield from inside(child, function, name, child if isinstance(child, ast.stmt) else statement)

    def outside(node: Any, prefix: str) -> Iterator[Fault]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef):
                yield from inside(child, child, prefix + child.name, child)
            elif isinstance(child, (ast.ClassDef, ast.If)):
                yield from outside(child, f"{prefix}{child.name}." if isinstance(child, ast.ClassDef) else prefix)

    yield from outside(tree, "")


def modules() -> list[str]:
    """Return the files in which faults are seeded."""
    paths = (path.relative_to(SOURCE).as_posix() for folder in FOLDERS for path in (SOURCE / folder).rglob("*.py"))
    return sorted(path for path in paths if path not in ONLY_COMPILED)


def codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield a code object and all code objects in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes(constant)


def everything() -> list[Any]:
    """Return all objects of the process, frozen ones included."""
    gc.unfreeze()
    found = gc.get_objects()
    gc.freeze()
    return found


def put_in_place(fault: Fault) -> list[tuple[types.FunctionType, types.CodeType]]:
    """Give all copies of the function in this process the fault; return each with its former code."""
    path = str(SOURCE / fault.module)
    name = fault.function.rpartition(".")[2]
    importlib.import_module(
        f"fiol.{fault.module.removesuffix('.py').replace('/', '.')}"
    )  # many are loaded on first use
    new = compile(fault.tree(Path(path).read_text()), path, "exec")
    (code,) = (c for c in codes(new) if (c.co_name, c.co_firstlineno) == (name, fault.first))
    changed = []
    for thing in [
        thing for thing in everything() if type(thing) is types.FunctionType
    ]:  # `isinstance` raises for weak proxies of dead objects
        old = thing.__code__
        here = (old.co_name, old.co_firstlineno, old.co_filename) == (name, fault.first, path)
        if here and old.co_freevars == code.co_freevars:
            thing.__code__ = code
            changed.append((thing, old))
    return changed


def forget() -> None:
    """Clear caches that were filled before there was a fault."""
    for thing in everything():
        if type(thing) is functools._lru_cache_wrapper and thing.__module__.startswith("fiol"):
            thing.cache_clear()


class Watch:
    """Record which lines of the library a test visits."""

    def __init__(self) -> None:
        self.lines: set[tuple[str, int]] = set()
        self.calls: collections.Counter[types.CodeType] = collections.Counter()
        self.prefix = str(SOURCE) + os.sep

    def __enter__(self) -> Watch:
        threading.settrace(self.enter)
        sys.settrace(self.enter)
        return self

    def __exit__(self, *error: Any) -> None:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]

    def enter(self, frame: Any, event: str, argument: Any) -> Any:
        code = frame.f_code
        if not code.co_filename.startswith(self.prefix):
            return None
        self.calls[code] += 1
        return self.line if self.calls[code] <= CALLS else None

    def line(self, frame: Any, event: str, argument: Any) -> Any:
        if event == "line":
            self.lines.add((frame.f_code.co_filename, frame.f_lineno))
        return self.line

    def visited(self) -> list[str]:
        return sorted({f"{file.removeprefix(self.prefix)}:{line}" for file, line in self.lines})


def passed(item: Any, following: Any) -> bool:
    from _pytest.runner import runtestprotocol

    return not any(report.failed for report in runtestprotocol(item, nextitem=following, log=False))


def too_long(number: int, frame: Any) -> None:
    raise TimeoutError


def in_child(work: Callable[[], str]) -> tuple[int, int]:
    """Do the work in a forked process; return the id of the process, and the pipe that receives its outcome."""
    receive, send = os.pipe()
    pid = os.fork()
    if pid == 0:
        outcome = "error: no outcome"
        try:
            os.setsid()  # so that processes it starts can be ended with it
            os.close(receive)
            nothing = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(nothing, stream)
            outcome = work()
        except BaseException as error:  # the outcome names it
            outcome = f"error: {type(error).__name__}: {error}"
        finally:
            os.write(send, outcome.encode()[:1000])
            os._exit(0)
    os.close(send)
    return pid, receive


class Campaign:
    """A plugin of pytest that judges faults instead of running the tests once."""

    def __init__(self, options: Any) -> None:
        self.options = options
        self.results: list[dict[str, Any]] = []
        self.draws: Callable[[int], int] = lambda own: min(own, EXAMPLES)

    def pytest_collection(self) -> None:
        from hypothesis import Phase, settings

        full = settings.max_examples.fget  # type: ignore[attr-defined]
        few = property(lambda own: self.draws(full(own)))  # also for settings inside of tests
        type.__setattr__(settings, "max_examples", few)
        plain = settings.get_profile("default")
        settings.register_profile(
            "mutants", plain, phases=(Phase.explicit, Phase.generate)
        )  # examples are not printed, so not shrunk
        settings.load_profile("mutants")

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = [
            item
            for item in items
            if not item.nodeid.startswith(LEFT_OUT) and not any(name in item.nodeid for name in UNFORKED)
        ]

    def pytest_runtestloop(self, session: Any) -> bool:
        items = {item.nodeid: item for item in session.items}
        visits = self.visits(items)
        if self.options.examples is not None:
            self.draws = lambda own: max(1, round(own * self.options.examples))
        by_line: dict[str, list[str]] = collections.defaultdict(list)
        for name, (seconds, _, lines) in visits.items():
            if name in items and seconds is not None:
                for line in lines:
                    by_line[line].append(name)
        chosen = self.chosen()
        running: dict[int, Any] = {}
        for number, fault in [*chosen, *[(None, None)] * self.options.jobs]:
            while len(running) >= (self.options.jobs if fault else 1):
                self.wait(running)
            if fault is None:
                continue
            tests = sorted(by_line[f"{fault.module}:{fault.line}"], key=lambda name: visits[name][0])
            if not tests:
                self.record(number, fault, "unvisited", 0.0, 0)
                continue
            tests = self.affordable(tests, visits)
            pid, receive = in_child(functools.partial(self.judge, fault, [items[name] for name in tests]))
            running[pid] = (number, fault, receive, time.monotonic(), len(tests))
        while running:
            self.wait(running)
        return True

    def visits(self, items: dict[str, Any]) -> dict[str, Any]:
        """Return the lines of each test and its seconds: None if it takes too long, or fails without a fault."""
        path = Path(self.options.visits)
        found = json.loads(path.read_text()) if path.exists() else {}
        stamps = {name: str(item.path.stat().st_mtime_ns) for name, item in items.items()}
        left = [name for name in items if name not in found or found[name][1] != stamps[name]]
        print(f"{len(items)} tests, {len(left)} of them new", flush=True)
        while left:
            written, lines = path.with_suffix(".lines"), []
            written.write_text("")
            pid, receive = in_child(functools.partial(self.watch, items, left, written))
            grown, size = time.monotonic(), 0
            while not os.waitpid(pid, os.WNOHANG)[0]:
                time.sleep(0.05)
                if written.stat().st_size > size:
                    grown, size = time.monotonic(), written.stat().st_size
                if time.monotonic() - grown > 30.0:  # some libraries wait for threads that the fork did not copy
                    os.killpg(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
                    break
            os.close(receive)
            lines = [json.loads(line) for line in written.read_text().splitlines()]
            written.unlink()
            for name, seconds, visited in lines:
                found[name] = [seconds, stamps[name], visited]
            left = left[len(lines) :]
            if left:
                print(f"left out, as it does not end: {left[0]}", flush=True)
                found[left[0]] = [None, stamps[left[0]], []]
                left = left[1:]
            path.write_text(json.dumps(found))
        return found

    @staticmethod
    def watch(items: dict[str, Any], names: list[str], path: Path) -> str:
        """Run tests; write one line of JSON for each."""
        signal.signal(signal.SIGPROF, too_long)
        with path.open("w") as out:
            for name, following in zip(names, [*names[1:], None], strict=True):
                began = time.process_time()
                signal.setitimer(signal.ITIMER_PROF, LONG)
                with Watch() as watch:
                    fine = passed(items[name], items.get(following))
                signal.setitimer(signal.ITIMER_PROF, 0.0)
                seconds = time.process_time() - began
                out.write(json.dumps([name, seconds if fine else None, watch.visited()]) + "\n")
                out.flush()
        return "done"

    def affordable(self, tests: list[str], visits: dict[str, Any]) -> list[str]:
        """Return the quickest tests for half of the time, and random ones for the other half."""
        spent, taken, left = 0.0, [], list(tests)
        for part in (0.5, 1.0):
            while left and spent < part * self.options.seconds:
                taken.append(left.pop(0))
                spent += visits[taken[-1]][0]
            random.Random(self.options.seed).shuffle(left)
        return taken

    def chosen(self) -> list[tuple[int, Fault]]:
        numbered: list[tuple[int, Fault]] = []
        for module in modules():
            for fault in faults(module, (SOURCE / module).read_text()):
                numbered.append((len(numbered), fault))
        if self.options.only is not None:
            return [numbered[k] for k in self.options.only]
        wanted = [pair for pair in numbered if any(part in pair[1].module for part in self.options.module)]
        print(f"{len(wanted)} faults", flush=True)
        count = min(self.options.count, len(wanted))
        return sorted(random.Random(self.options.seed).sample(wanted, count))

    @staticmethod
    def judge(fault: Fault, items: list[Any]) -> str:
        if not put_in_place(fault):
            return "error: the function was not found in the process"
        forget()
        for item, following in zip(items, [*items[1:], None], strict=True):
            try:
                fine = passed(item, following)
            except BaseException as error:  # such as KeyboardInterrupt, which ends pytest
                return f"killed by {type(error).__name__} in {item.nodeid}"
            if not fine:
                return f"killed by {item.nodeid}"
        return "survived"

    def wait(self, running: dict[int, Any]) -> None:
        """Wait until a child has ended, or end one that takes too long."""
        while True:
            for pid, (number, fault, receive, began, tests) in list(running.items()):
                seconds = time.monotonic() - began
                if os.waitpid(pid, os.WNOHANG)[0]:
                    outcome = os.read(receive, 1000).decode() or "killed by a crash"
                elif seconds > 5.0 * self.options.seconds + 10.0:
                    os.killpg(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
                    outcome = "killed by the time limit"
                else:
                    continue
                os.close(receive)
                del running[pid]
                self.record(number, fault, outcome, seconds, tests)
                return
            time.sleep(0.005)

    def record(self, number: int, fault: Fault, outcome: str, seconds: float, tests: int) -> None:
        self.results.append({"number": number, "module": fault.module, "fault": str(fault), "outcome": outcome})
        if self.options.verbose or not outcome.startswith("killed"):
            print(f"{number}: {outcome} ({tests} tests, {seconds:.1f} s) {fault}", flush=True)
        if self.options.json:
            self.options.json.write_text(json.dumps(self.results, indent=1) + "\n")

    def pytest_unconfigure(self) -> None:
        """Print the outcomes by folder; every fault is in one column."""
        table: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
        for result in self.results:
            outcome = next(outcome for outcome in OUTCOMES if result["outcome"].startswith(outcome))
            table[result["module"].partition("/")[0]][outcome] += 1
            table["all"][outcome] += 1
        for folder, counts in sorted(table.items(), key=lambda entry: (entry[0] == "all", entry[0])):
            cells = ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES)
            print(f"{folder}: {cells}; {100 * counts['killed'] / counts.total():.0f} % killed")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=500, help="how many faults (500)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--module", nargs="+", default=[""], help="only in files whose path has one of these in it")
    parser.add_argument("--tests", nargs="+", default=["tests", "src/fiol"], help="only these tests (all)")
    parser.add_argument("--only", type=int, nargs="+", help="the faults of these numbers")
    parser.add_argument("--seconds", type=float, default=20.0, help="longest time of the tests for one fault (20)")
    parser.add_argument(
        "--examples", type=float, help="parts of the examples that each test draws (at most 15 examples)"
    )
    parser.add_argument("--jobs", type=int, default=1, help="faults at once (1)")
    parser.add_argument("--visits", default=str(ROOT / "build" / "visits.json"), help="which test visits which line")
    parser.add_argument("--json", type=Path, help="write the outcome of each fault here")
    parser.add_argument("--verbose", action="store_true", help="print killed faults, too")
    options = parser.parse_args()
    os.environ |= {"NUMBA_DISABLE_JIT": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    os.chdir(ROOT)
    Path(options.visits).parent.mkdir(exist_ok=True)
    import pytest

    campaign = Campaign(options)
    code = pytest.main(["-q", "-s", "-p", "no:cacheprovider", "-p", "no:xdist", *options.tests], plugins=[campaign])
    survived = any(not result["outcome"].startswith("killed") for result in campaign.results)
    return int(code) or int(survived)


if __name__ == "__main__":
    sys.exit(main())
