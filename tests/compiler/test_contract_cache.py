"""The cache contract: edits that recompile, and reuse in this and later processes."""

import copy
import importlib
import json
import os
import pickle
import pkgutil
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

import fiol
from fiol.compiler import compiled
from fiol.compiler.cache import Kernel
from fiol.compiler.fingerprint import source_digest
from fiol.components.component import Component
from fiol.engine.round import exact_step as steps

SOURCE = Path(fiol.__file__).parent
#: The folder whose kernels call one another's.
TOGETHER = "readers/loops/"
compiling = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing compiles without the compiler")

#: What every script below ends with: solve, and say what came from the cache.
PROBE = """
import json, time, warnings

WHOLE = ("plugin",)  # the loss for which all of a step is compiled

def report(**problems):
    answers = {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for name, problem in problems.items():
            start, before = time.perf_counter(), misses()  # loading the compiler counts
            solve = step if name == "built_in" or "regularizer" in problem or name in WHOLE else slopes
            w = solve(problem, compiled=True)
            seconds = time.perf_counter() - start
            error = max(abs(w - solve(problem, compiled=False)))
            answers[name] = dict(w=list(w), error=error, cached=misses() == before, seconds=seconds)
    print(json.dumps(dict(answers, warnings=[f"{w.category.__name__}: {w.message}" for w in caught])))

def step(problem, compiled):
    from fiol import solve_step
    row = ([0, 1, 3], [1.0, -2.0, 0.5])
    return solve_step(row, 3.0, [0.1, 0.2, 0.3, 0.4], eta=0.2, compiled=compiled, **problem).w

def slopes(problem, compiled):
    # of the loss, by a kernel that compiles in no time
    import numpy as np
    from fiol.compiler.compiled import interpreted
    from fiol.probing import slope
    kernel = slope if compiled else interpreted(slope)
    return np.array([kernel(problem["loss"], z, 1.0) for z in (0.3, -2.0, 4.0)])

def misses():
    import sys
    import fiol.probing
    import fiol.engine.round.exact_step
    ours = [module for name, module in sys.modules.items() if name.startswith("fiol.") and module]
    kernels = {id(k): k for module in ours for k in vars(module).values() if hasattr(k, "py_func")}
    return sum(sum(k.stats.cache_misses.values()) for k in kernels.values())
"""


PROBED = """
from fiol.compiler.compiled import jit

@jit
def slope(loss, z, y): return loss.grad(z, y)
"""


@pytest.fixture
def folder(tmp_path):
    """Return a folder for scripts, with its own copy of the library, which tests may edit.

    Bytecode is copied as well. Processes write none: Python would miss a second edit of a file within one second.
    """
    shutil.copytree(SOURCE, tmp_path / "install" / "fiol", ignore=shutil.ignore_patterns("*.nb?"))
    (tmp_path / "install" / "fiol" / "probing.py").write_text(PROBED)
    (tmp_path / "probe.py").write_text(PROBE)
    return tmp_path


def run(folder, script, *arguments, **settings):
    """The report of a script run by a new process, with a cache of compiled code in its folder."""
    (folder / "script.py").write_text(script)
    env = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA", "PYTHON"))}
    env |= {"PYTHONPATH": str(folder / "install"), "PYTHONDONTWRITEBYTECODE": "1"}
    env |= {"NUMBA_CACHE_DIR": str(folder / "cache"), **settings}
    command = [sys.executable, "script.py", *arguments]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def cached(report):
    return {name for name, answer in report.items() if name != "warnings" and answer["cached"]}


#: With a solver that compiles in no time.
BUILT_IN = """
from fiol import Squared
from probe import report

report(built_in=dict(loss=Squared()))
"""

IN_A_SCRIPT = '''
import sys
from fiol import L1, Loss, Regularizer, Squared
from probe import report

tau = float(sys.argv[1])  # shares its name with a field, and is not what the methods read

class Pinball(Loss):
    tau: float
    def value(self, z, y): return max(self.tau * (y - z), (self.tau - 1.0) * (y - z))
    def grad(self, z, y): return (1.0 - self.tau) * (z > y) - self.tau * (z < y)

class Shrink(Regularizer):
    lam: float
    def value(self, w, i): return 0.5 * self.lam * w * w
    def piece(self, u, step, i): return 1.0 / (1.0 + step * self.lam), 0.0

plugin = dict(__name__="plugin", Loss=Loss)  # no module that could be imported
exec("""
def pull(e, tau): return tau * e
class Elsewhere(Loss):
    tau: float
    def value(self, z, y): return 0.5 * self.tau * (z - y) ** 2
    def grad(self, z, y): return pull(z - y, self.tau)
""", plugin)

report(
    built_in=dict(loss=Squared(), regularizer=L1(0.1)),
    own=dict(loss=Pinball(tau), regularizer=Shrink(0.1)),
    plugin=dict(loss=plugin["Elsewhere"](tau)),
)
'''


def test_second_process_compiles_nothing(folder):
    first = run(folder, IN_A_SCRIPT, "0.3")
    second = run(folder, IN_A_SCRIPT, "0.7")
    interpreted = run(folder, IN_A_SCRIPT, "0.7", NUMBA_DISABLE_JIT="1")
    print(f"first step of a process: {first['built_in']['seconds']:.2f} s, later {second['built_in']['seconds']:.2f} s")

    assert cached(first) == set()
    assert cached(second) == {"built_in", "own", "plugin"}
    assert first["built_in"]["w"] == second["built_in"]["w"]
    assert first["own"]["w"] != second["own"]["w"]  # another value of tau, the same code
    for name in cached(second):
        assert max(first[name]["error"], second[name]["error"]) <= 1e-12
        np.testing.assert_allclose(interpreted[name]["w"], second[name]["w"], rtol=0, atol=1e-12)
    assert first["warnings"] == second["warnings"] == interpreted["warnings"] == []


def test_incompatible_numba_still_compiles(folder):
    first, second = (run(folder, BUILT_IN, FIOL_LINKING="0") for _ in range(2))
    assert first["built_in"]["error"] <= 1e-12
    assert (cached(first), cached(second)) == (set(), {"built_in"})
    assert first["warnings"] == second["warnings"] == []


MINE = """
from math import {function} as bend
import helpers
from fiol import Loss
from helpers import pull

RATE = {number}

class Edited(Loss):
    def value(self, z, y): return 0.5 * {number} * (z - y) ** 2
    def grad(self, z, y): return {number} * (z - y)

class Constant(Loss):
    def value(self, z, y): return 0.5 * RATE * (z - y) ** 2
    def grad(self, z, y): return RATE * (z - y)

class Imported(Loss):
    def value(self, z, y): return 0.0
    def grad(self, z, y): return pull(z - y)

class Dotted(Loss):
    def value(self, z, y): return 0.0
    def grad(self, z, y): return helpers.push(z - y)

class Renamed(Loss):
    def value(self, z, y): return 0.0
    def grad(self, z, y): return bend(z - y)

class Attribute(Loss):
    rate = {number}
    def value(self, z, y): return 0.0
    def grad(self, z, y): return self.rate * (z - y)
"""

HELPERS = """
def pull(e): return {number} * e
def push(e): return inner(e)
def inner(e): return {number} * e
def unused(e): return e
"""

IN_A_MODULE = (
    "from mine import *\n"
    + BUILT_IN.strip()[:-1]
    + """,
    **{c.__name__: dict(loss=c()) for c in (Edited, Constant, Imported, Dotted, Renamed, Attribute)})
"""
)


def test_edits_of_components_and_helpers_recompile(folder):
    def write(number, function):
        (folder / "mine.py").write_text(MINE.format(number=number, function=function))
        (folder / "helpers.py").write_text(HELPERS.format(number=number))

    write(1.0, "atan")
    before = run(folder, IN_A_MODULE)
    write(2.0, "tanh")
    after = run(folder, IN_A_MODULE)
    write(1.0, "atan")
    again = run(folder, IN_A_MODULE)

    edited = {"Edited", "Constant", "Imported", "Dotted", "Renamed", "Attribute"}
    assert cached(before) == set()
    assert cached(after) == {"built_in"}
    assert cached(again) == edited | {"built_in"}
    for name in edited:
        assert max(report[name]["error"] for report in (before, after, again)) <= 1e-12
        assert np.abs(np.subtract(before[name]["w"], after[name]["w"])).max() > 1e-3
        assert before[name]["w"] == again[name]["w"]

    (folder / "mine.py").unlink()
    (folder / "helpers.py").unlink()
    left = run(folder, BUILT_IN)
    assert cached(left) == {"built_in"}
    assert left["built_in"]["w"] == before["built_in"]["w"]


TWO_OF_A_NAME = """
import sys
from math import exp, sin
from fiol import Loss
from probe import report

def build(factor):
    def helper(e):  # long, so that it stays a function with a symbol of its own
        s = 0.0
        LOOPS
        return s + factor * e

    class Mine(Loss):
        def value(self, z, y): return 0.0
        def grad(self, z, y): return 0.25 * helper(z - y) + 0.75 * helper(z - y)

    return Mine()

report(**{factor: dict(loss=build(float(factor))) for factor in sys.argv[1:]})
""".replace(
    "LOOPS", "; ".join(f"s += {k} * (exp(-abs(e) * {k}) + sin(e + {k}) if e > 1e9 else 0.0)" for k in range(20))
)


def test_code_cached_by_two_processes_loads_in_a_third(folder):
    """A third process loads the code of two others side by side."""
    seed = {"PYTHONHASHSEED": "0"}  # or symbols would differ by accident
    alone = run(folder, TWO_OF_A_NAME, "1", **seed), run(folder, TWO_OF_A_NAME, "3", **seed)
    both = run(folder, TWO_OF_A_NAME, "1", "3", **seed)
    assert cached(both) == {"1", "3"}
    assert both["1"]["w"] == alone[0]["1"]["w"]
    assert both["3"]["w"] == alone[1]["3"]["w"]
    assert max(both["1"]["error"], both["3"]["error"]) <= 1e-12


def test_unwritable_cache_folder_warns_once(folder):
    """No permission stops root; a file where a directory would have to be stops everyone."""
    for package in list((folder / "install").rglob("__init__.py")):
        shutil.rmtree(package.parent / "__pycache__", ignore_errors=True)
        (package.parent / "__pycache__").touch()
    nowhere = dict.fromkeys(("NUMBA_CACHE_DIR", "HOME", "XDG_CACHE_HOME", "LOCALAPPDATA"), os.devnull)

    report = run(folder, BUILT_IN, **nowhere)
    assert report["built_in"]["error"] <= 1e-12
    (warning,) = report["warnings"]
    assert warning.startswith("RuntimeWarning: fiol found no writable directory to cache compiled code in")


NAMES_A_TYPE = "import fiol.compiler.compiled, json, numba; print(json.dumps(str(numba.typeof(fiol.L1(0.1)))))"


def test_edit_of_called_file_renames_all_types(folder):
    install, before = folder / "install" / "fiol", run(folder, NAMES_A_TYPE)
    assert source_digest(SOURCE, compiled.CALLED) == compiled.LAYER

    def edit(part):
        path = install / part
        assert path.exists(), f"{part} has moved: CALLED must name it"
        file = path if path.is_file() else max(path.rglob("*.py"), key=lambda file: file.stat().st_size)
        file.write_text(file.read_text() + "\nEXTRA = 1\n")
        return source_digest(install, compiled.CALLED)

    for part in ("components/losses.py", "components/regularizers.py", "learner/core.py", "features/containers.py"):
        assert edit(part) == compiled.LAYER
    assert run(folder, NAMES_A_TYPE) == before
    digests = [compiled.LAYER, *map(edit, compiled.CALLED)]
    (install / "engine" / "more.py").touch()  # a new file counts too
    digests.append(source_digest(install, compiled.CALLED))
    assert len(set(digests)) == len(digests)
    assert run(folder, NAMES_A_TYPE) != before


def test_types_have_names_without_source_files(folder):
    """The digest of files that are not there is one all the same."""
    assert source_digest(folder, ["nowhere", "nothing.py"]) == source_digest(folder, ["elsewhere"])
    (folder / "nothing.py").touch()
    assert source_digest(folder, ["nowhere", "nothing.py"]) != source_digest(folder, ["elsewhere"])


CALLER = """
from fiol.compiler.compiled import jit
from fiol.engine.called import slope

@jit
def twice(loss, z, y): return 2.0 * slope(loss, z, y)
"""

CALLED_KERNEL = """
from fiol.compiler.compiled import inlined

@inlined
def slope(loss, z, y): return {number} * loss.grad(z, y)
"""

BESIDE = """
from fiol.compiler.compiled import jit_beside
from fiol.beside.called import slope

@jit_beside
def twice(z): return 2.0 * slope(z)
"""

CALLED_BESIDE = """
from fiol.compiler.compiled import inlined

@inlined
def slope(z): return {number} * z
"""

CALLS = """
import json
from fiol import Squared
from fiol.beside.calling import twice as twice_beside
from fiol.calling import twice

def outcome(kernel, *arguments):
    value = kernel(*arguments)
    return [value, not hasattr(kernel, "stats") or not sum(kernel.stats.cache_misses.values())]

print(json.dumps([outcome(twice, Squared(), 3.0, 1.0), outcome(twice_beside, 3.0)]))
"""


def test_edits_of_called_kernels_recompile_callers_in_other_files(folder):
    """Of kernels that any file may call, and of kernels that the files of a folder call."""
    install = folder / "install" / "fiol"
    (install / "beside").mkdir()
    (install / "calling.py").write_text(CALLER)
    (install / "beside" / "calling.py").write_text(BESIDE)

    def edit(number):
        (install / "engine" / "called.py").write_text(CALLED_KERNEL.format(number=number))
        (install / "beside" / "called.py").write_text(CALLED_BESIDE.format(number=number))
        os.utime(install / "beside" / "called.py", (number, number))
        return run(folder, CALLS)

    assert [edit(1.0), edit(1.0)] == [[[4.0, False], [6.0, False]], [[4.0, True], [6.0, True]]]
    assert [edit(5.0), edit(5.0)] == [[[20.0, False], [30.0, False]], [[20.0, True], [30.0, True]]]
    assert edit(1.0) == [[4.0, True], [6.0, True]]  # what was compiled before is still there


@compiling
def test_kernels_call_only_kernels_that_the_cache_tracks():
    """Numba's cache would not see an edit of any other."""
    root, seen = SOURCE.as_posix() + "/", 0
    for module in all_modules():
        for kernel in {k for k in vars(module).values() if hasattr(k, "py_func")}:
            own = kernel.py_func.__code__.co_filename
            for name in kernel.py_func.__code__.co_names:
                called = getattr(kernel.py_func.__globals__.get(name), "py_func", None)
                if called is not None:
                    seen += 1
                    file = called.__code__.co_filename
                    may = compiled.CALLED
                    if own.removeprefix(root).startswith(TOGETHER):
                        may = (TOGETHER, *compiled.CALLED_BESIDE)
                    elif own.endswith(
                        "features/interaction_loops.py"
                    ):  # its kernels that hash are made by `jit_beside`
                        may = compiled.CALLED_BESIDE
                    assert file == own or file.removeprefix(root).startswith(may), (own, name)
    assert seen > 20


@compiling
def test_kernels_that_call_neighbors_track_all_files_of_the_folder():
    files = {file.name for file in (SOURCE / TOGETHER).glob("*.py")}
    modules = [importlib.import_module(f"fiol.readers.loops.{name.removesuffix('.py')}") for name in files]
    kernels = {k for module in modules for k in vars(module).values() if isinstance(k, Kernel)}
    assert len(kernels) >= 5
    stamp = source_digest(SOURCE, [*(TOGETHER + name for name in files), *compiled.CALLED_BESIDE])
    for kernel in kernels:
        assert kernel.__qualname__.endswith(f"@{stamp}"), kernel


def all_modules():
    """Every module of the library, imported, but for those that run something, or need Spark."""
    found = (module.name for module in pkgutil.walk_packages(fiol.__path__, "fiol."))
    return [importlib.import_module(name) for name in found if not name.endswith("__main__") and ".spark" not in name]


@compiling
def test_new_values_compile_nothing():
    x, w = np.array([1.0, -2.0, 0.5, 0.0]), np.array([0.1, 0.2, 0.3, 0.4])
    row = ([0, 2], [1.0, 2.0])

    def step(x=row, y=1.0, w=w, lam=0.1, tau=0.5, passes=100, **kwargs):
        fiol.solve_step(
            x, y, w, loss=fiol.Quantile(tau), regularizer=fiol.L1(lam), solver=fiol.Newton(passes), **kwargs
        )

    step()
    known = [len(kernel.signatures) for kernel in (steps.step_row, steps.absent_weights)]
    step(eta=3.0, sample_weight=0.5)
    step(eta=3, sample_weight=2, lam=1, tau=1, y=2, passes=np.int32(7))
    step(eta=np.float32(3), lam=np.float32(0.5), y=np.int8(1), tau=np.array(0.25), passes=50.0)
    for dense in (x, list(x), x.astype(np.float32), x.astype(int), np.repeat(x, 2)[::2], x[::-1]):
        step(dense)
    for index in (np.array([0, 2]), np.array([0, 2], np.uint8), np.array([0, 9, 2, 9])[::2], (0, 2)):
        step((index, (1, 2)))
    frozen = w.copy()
    frozen.setflags(write=False)
    for weights in (frozen, list(w), w.astype(np.float32), np.zeros(4, int), np.asfortranarray(np.tile(w, (2, 1)))[0]):
        step(w=weights)
    step([1.0], w=[0.0])
    step(np.ones(50), w=np.ones(50))
    step(([], []))
    assert [len(kernel.signatures) for kernel in (steps.step_row, steps.absent_weights)] == known


@compiling
@pytest.mark.parametrize("lam", [0.1, np.array([0.1, 0.2])], ids=["scalar", "array"])
def test_compiled_type_is_attached_to_the_value(lam):
    component: Component = fiol.Box(fiol.L1(lam), 0.0, 1.0)
    kind = numba.typeof(component)
    for other in (copy.copy(component), copy.deepcopy(component), pickle.loads(pickle.dumps(component))):
        assert not hasattr(other, "_numba_type_")
        assert numba.typeof(other) == kind
        assert pickle.loads(pickle.dumps(numba.typeof(other))) == kind
    assert numba.typeof(component.replace(lo=1, hi=2)) == kind
    assert numba.typeof(component.replace(regularizer=fiol.L1([0.1, 0.2, 0.3] if np.ndim(lam) == 0 else 0.3))) != kind
    assert numba.typeof(component.replace(regularizer=fiol.Ridge(lam))) != kind
