"""A second process that compiles ahead: what it leaves in the cache, and what it may not do."""

import inspect
import multiprocessing
import os
import signal
import subprocess
import sys
import time

import numba
import numpy as np
import pytest

import fiol
from fiol.compiler import cache, compiled, helping
from fiol.components.component import Component
from fiol.engine.rehearsing import rehearse

pytestmark = [
    pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing compiles without the compiler"),
    pytest.mark.skipif(not sys.platform.startswith("linux") or cache.fcntl is None, reason="no copies of processes"),
]


class Twice(Component):
    """A class that no other process could import."""

    def of(self, x):
        return 2.0 * x


TWICE = Twice()


def first(x):
    return x + 1.0


def second(twice, x):
    return twice.of(x)


@pytest.fixture
def kernels(tmp_path, monkeypatch):
    """Two kernels of a new process, as far as the cache can tell, and a helper if there can be any."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(helping, "may_help", lambda: True)
    monkeypatch.setattr(compiled, "_bound", {})
    yield compiled.jit(first), compiled.jit(second)
    assert waited_for(lambda: not helping.there())


def waited_for(condition, seconds=20.0):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def found_in_cache(kernel):
    return sum(kernel.stats.cache_hits.values())


def test_what_comes_next_is_compiled_meanwhile(kernels):
    one, other = kernels
    with helping.expecting(lambda: (compiled.bind(one, 1.0), compiled.bind(other, TWICE, 1.0))):
        assert compiled.bind(one, 1.0)(1.0) == 2.0
    assert waited_for(lambda: not helping.there())
    assert compiled.bind(other, TWICE, 1.0)(TWICE, 3.0) == 6.0
    assert (found_in_cache(one), found_in_cache(other)) == (0, 1)


def ended():
    os.kill(os.getpid(), signal.SIGKILL)


def broken():
    raise RuntimeError("not to be seen by anybody")


@pytest.mark.parametrize("rehearsal", [ended, broken, lambda: sys.exit(3)], ids=["killed", "error", "exit"])
def test_a_helper_that_fails_is_not_noticed_and_runs_nothing_of_ours(kernels, tmp_path, capfd, rehearsal):
    one, other = kernels
    with helping.expecting(rehearsal):
        assert compiled.bind(one, 1.0)(1.0) == 2.0
    assert waited_for(lambda: not helping.there())
    with (tmp_path / "who").open("a") as file:
        file.write(f"{os.getpid()} ")
    assert compiled.bind(other, TWICE, 1.0)(TWICE, 3.0) == 6.0
    assert (tmp_path / "who").read_text() == f"{os.getpid()} "
    assert capfd.readouterr() == ("", "")


def test_a_helper_that_hangs_is_ended_by_the_system(kernels, monkeypatch):
    one, _ = kernels
    monkeypatch.setattr(helping, "LONGEST_HELP", 1)
    with helping.expecting(lambda: time.sleep(600.0)):
        assert compiled.bind(one, 1.0)(1.0) == 2.0
    assert helping.there()
    assert waited_for(lambda: not helping.there())


def test_a_helper_leaves_to_others_what_they_compile(kernels, monkeypatch):
    one, other = kernels
    monkeypatch.setattr(helping, "is_helper", True)
    path = cache.Path(other._cache.cache_path)
    path.mkdir(parents=True, exist_ok=True)
    kinds = tuple(map(numba.typeof, (TWICE, 1.0)))
    name = cache.digest([other._cache.place.encode(), str(kinds).encode()])
    with (path / f"{name}.lock").open("ab") as held:
        cache.fcntl.flock(held, cache.fcntl.LOCK_EX)
        helping.compile_all([(other, kinds), (one, (numba.float64,))])
        assert held.name.endswith(".lock")
        assert cache.Path(held.name).exists()
    assert (len(other.overloads), len(one.overloads)) == (0, 1)


def test_without_a_cache_there_is_no_helper(monkeypatch):
    asked = []
    monkeypatch.setattr(helping, "may_help", lambda: True)
    monkeypatch.setattr(helping, "fork", asked.append)
    monkeypatch.setattr(cache, "warn", lambda text: None)

    def nowhere(*_):
        raise RuntimeError("no locator available")

    monkeypatch.setattr(cache, "Kept", nowhere)
    with helping.expecting(broken):
        assert compiled.jit(first)(1.0) == 2.0
    assert asked == []


@pytest.mark.parametrize(
    ("told", "cores", "process", "where", "expected"),
    [("", 2, "MainProcess", None, True), ("0", 2, "MainProcess", None, False), ("", 1, "MainProcess", None, False),
     ("", 2, "LokyProcess-1", None, False), ("1", 2, "SpawnPoolWorker-1", None, False),
     ("", 2, "MainProcess", "PYTEST_XDIST_WORKER", False), ("1", 2, "MainProcess", "PYTEST_XDIST_WORKER", True)],
)  # fmt: skip
def test_where_a_helper_would_not_help(monkeypatch, told, cores, process, where, expected):
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    monkeypatch.setenv("FIOL_HELPER", told)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    monkeypatch.setattr(multiprocessing.current_process(), "_name", process)
    if where is not None:
        monkeypatch.setenv(where, "gw0")
    assert helping.may_help() is expected


SCRIPT = """
import os, signal, sys, time
from fiol.compiler import helping
from fiol.compiler.compiled import bind, jit

@jit
def first(x):
    return x + 1.0

def rehearsal():
    with open(sys.argv[1], "w") as file:
        file.write(str(os.getpid()))
    time.sleep(600.0)

with helping.expecting(rehearsal):
    bind(first, 1.0)
while not os.path.exists(sys.argv[1]) or not open(sys.argv[1]).read():
    time.sleep(0.01)
print("there", helping.there(), flush=True)
if sys.argv[2] == "killed":
    os.kill(os.getpid(), 9)
if sys.argv[2] == "interrupted":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which shells let jobs in the background ignore
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(600.0)
"""


@pytest.mark.parametrize("how", ["ended", "killed", "interrupted"])
def test_a_helper_ends_with_the_process_that_it_helps(tmp_path, how):
    """And whoever reads what that one prints need not wait for the helper."""
    script, told = tmp_path / "script.py", tmp_path / "pid"
    script.write_text(SCRIPT)
    environment = {**os.environ, "FIOL_HELPER": "1", "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, str(script), str(told), how]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60.0, check=False)
    assert done.stdout == "there True\n"
    helper = int(told.read_text())
    assert waited_for(lambda: not os.path.exists(f"/proc/{helper}") or state_of(helper) == "Z")


def state_of(process):
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def learned():
    draw = np.random.default_rng(1)
    learner = fiol.Learner(fiol.FIOL(fiol.Squared()))
    learner.learn(draw.standard_normal((20, 3)), draw.standard_normal(20))
    return learner.weights.tobytes().hex(), learner.predict(np.ones((1, 3))).tobytes().hex()


def test_results_have_the_same_bits_with_a_helper_and_without(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(f"import numpy as np, fiol\n{inspect.getsource(learned)}\nprint(*learned())\n")
    environment = {**os.environ, "FIOL_HELPER": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, check=True, text=True)
    assert (done.stdout.split(), done.stderr) == ([*learned()], "")


UPDATES = {
    "one learner": (fiol.FIOL(fiol.Squared()), [1.0, 2.0]),
    "classes": (fiol.FIOL(fiol.Softmax()), [0, 1]),
    "gated": (fiol.Stacked(fiol.Logistic(), fiol.L1(0.1)), [1.0, -1.0]),
    "lanes": (fiol.Stacked(fiol.Squared()), [1.0, -1.0]),
}


@pytest.mark.parametrize("name", UPDATES)
def test_a_rehearsal_asks_for_what_a_learner_asks_for(monkeypatch, name):
    """For the same types, or it would be compiled in vain."""
    update, y = UPDATES[name]
    rows, learner = np.array([[1.0, 2.0], [3.0, 4.0]]), fiol.Learner(update)
    monkeypatch.setattr(helping, "asked_for", [])
    learner.learn(rows, y)
    learner.predict(rows)
    _ = learner.weights, learner.intercept
    real = {task for task in helping.asked_for if task[0].__name__ != "settle_all"}  # for a class that comes later
    monkeypatch.setattr(helping, "asked_for", [])
    rehearse(learner.engine)
    assert real <= set(helping.asked_for)
    assert any(helping.is_large(kernel) for kernel, _ in real)
