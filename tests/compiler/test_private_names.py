"""The library uses only public names of numba, llvmlite and numpy, except in the folder of the linker."""

import ast
import importlib
import inspect
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core import cgutils, registry
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager

import fiol
from fiol.compiler import linking
from fiol.compiler.compiled import jit

SOURCE = Path(fiol.__file__).parent
#: The one folder that may use private names.
EXEMPT = ("compiler/linking/",)
#: The one other file that may import numba and llvmlite; its names and their attributes, from documented modules and
#: from those that numba's documentation of extensions and its own extensions use.
NAMES_FILE, NAMES = "compiler/numba_names.py", "fiol.compiler.numba_names."
USED = {
    "llvmlite.binding",
    "llvmlite.binding.get_host_cpu_features",
    "llvmlite.ir",
    "llvmlite.ir.Constant",
    "llvmlite.ir.DoubleType",
    "llvmlite.ir.FloatType",
    "llvmlite.ir.FunctionType",
    "llvmlite.ir.IntType",
    "llvmlite.ir.Undefined",
    "llvmlite.ir.VectorType",
    "llvmlite.ir.VoidType",
    "numba",
    "numba.__version__",
    "numba.config",
    "numba.config.CPU_FEATURES",
    "numba.config.DISABLE_JIT",
    "numba.core.caching.FunctionCache",
    "numba.core.cgutils",
    "numba.core.cgutils.create_struct_proxy",
    "numba.core.cgutils.for_range",
    "numba.core.cgutils.get_item_pointer2",
    "numba.core.cgutils.get_null_value",
    "numba.core.cgutils.get_or_insert_function",
    "numba.core.cgutils.is_not_null",
    "numba.core.cgutils.pack_array",
    "numba.core.cgutils.unpack_tuple",
    "numba.core.compiler_lock.global_compiler_lock",
    "numba.core.compiler_lock.global_compiler_lock.acquire",
    "numba.core.compiler_lock.global_compiler_lock.release",
    "numba.core.errors.LoweringError",
    "numba.core.errors.NumbaError",
    "numba.core.errors.TypingError",
    "numba.core.imputils.impl_ret_borrowed",
    "numba.core.imputils.lower_cast",
    "numba.core.registry.CPUDispatcher",
    "numba.core.types",
    "numba.core.types.Any",
    "numba.core.types.Array",
    "numba.core.types.BaseTuple",
    "numba.core.types.Boolean",
    "numba.core.types.BoundFunction",
    "numba.core.types.Dispatcher",
    "numba.core.types.Float",
    "numba.core.types.Integer",
    "numba.core.types.NamedTuple",
    "numba.core.types.Number",
    "numba.core.types.SliceType",
    "numba.core.types.Type",
    "numba.core.types.UniTuple",
    "numba.core.types.VarArg",
    "numba.core.types.boolean",
    "numba.core.types.float32",
    "numba.core.types.float64",
    "numba.core.types.int32",
    "numba.core.types.int64",
    "numba.core.types.intp",
    "numba.core.types.none",
    "numba.core.types.slice2_type",
    "numba.core.types.uintp",
    "numba.core.types.unliteral",
    "numba.core.types.void",
    "numba.core.typing.templates.AbstractTemplate",
    "numba.core.typing.templates.AttributeTemplate",
    "numba.core.typing.templates.infer_global",
    "numba.core.typing.templates.signature",
    "numba.extending.NativeValue",
    "numba.extending.infer_getattr",
    "numba.extending.intrinsic",
    "numba.extending.lower_builtin",
    "numba.extending.lower_getattr",
    "numba.extending.lower_getattr_generic",
    "numba.extending.models",
    "numba.extending.models.ArrayModel",
    "numba.extending.models.PrimitiveModel",
    "numba.extending.models.StructModel",
    "numba.extending.models.TupleModel",
    "numba.extending.overload",
    "numba.extending.register_model",
    "numba.extending.typeof_impl",
    "numba.extending.typeof_impl.register",
    "numba.extending.unbox",
    "numba.typeof",
}
#: Attributes that are documented in spite of their names: a struct's value and the type of a value (numba), named
#: tuples' own and `os._exit` (Python).
ATTRIBUTES = {"_getvalue", "_numba_type_", "_replace", "_fields", "_asdict", "_make", "_exit"}
#: Hooks of scikit-learn and Spark for subclasses, in the files that integrate with these.
HOOKS = {"_get_loss", "_get_param_names", "_validate_data", "_validate_params"}
HOOKS |= {"_copyValues", "_dummy", "_input_kwargs", "_resetUid", "_set", "_setDefault"}
INTEGRATIONS = "integrations/", "exports/sklearn_model.py"


def files():
    """All source files outside the exempt folder, with their path in the package."""
    for file in sorted(SOURCE.rglob("*.py")):
        name = file.relative_to(SOURCE).as_posix()
        if not name.startswith(EXEMPT):
            yield name, ast.parse(file.read_text())


def imports(tree):
    """The names that a file imports, with their modules, by the names that it calls them."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return found


def is_foreign(name):
    """Whether a name with its module is one of numba or llvmlite."""
    return name.partition(".")[0] in ("numba", "llvmlite")


def foreign_names():
    """The names of numba and llvmlite that the library imports, and their attributes that it uses."""
    trees = dict(files())
    known = {name: path for name, path in imports(trees[NAMES_FILE]).items() if is_foreign(path)}
    found = set(known.values())
    for tree in trees.values():
        local = {alias: known.get(path.rpartition(".")[2]) for alias, path in imports(tree).items() if NAMES in path}
        local |= {"numba": "numba", "signature": None}  # the name of a parameter, too
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and local.get(node.value.id):
                found.add(f"{local[node.value.id]}.{node.attr}")
    return found


def private_attributes(tree):
    """The private attributes that a file uses and that no class of the package defines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            yield node.attr


def own_names():
    """All private names that the package itself defines, assigns or has in `__slots__`."""
    found = set()
    for _, tree in files():
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                found.add(node.name)
            elif isinstance(node, ast.Name):
                found.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.add(node.attr)
            if isinstance(node, ast.Assign) and any(getattr(to, "id", "") == "__slots__" for to in node.targets):
                found |= {item.value for item in ast.walk(node.value) if isinstance(item, ast.Constant)}
    return found


def test_one_file_imports_numba_and_llvmlite():
    found = {(name, path) for name, tree in files() for path in imports(tree).values() if is_foreign(path)}
    assert {name for name, _ in found} == {NAMES_FILE}


def test_used_names_of_numba_and_llvmlite_are_the_listed_ones():
    found = foreign_names()
    assert "numba.core.types.Array" in found
    assert found - USED == set()
    assert found >= USED


def test_private_attributes_are_our_own_or_listed():
    known = own_names() | ATTRIBUTES
    found = {(name, attribute) for name, tree in files() for attribute in private_attributes(tree)}
    assert ("compiler/component_types.py", "_getvalue") in found
    unknown = {(name, attribute) for name, attribute in found if attribute not in known}
    assert {pair for pair in unknown if not (pair[0].startswith(INTEGRATIONS) and pair[1] in HOOKS)} == set()


#: Functions with parameters that the library relies on.
SIGNATURES = [
    (registry.CPUDispatcher, ["py_func", "targetoptions", "pipeline_class"]),
    (registry.CPUDispatcher.compile, ["self", "sig"]),
    (cgutils.get_item_pointer2, ["context", "builder", "data", "shape", "strides", "layout", "inds"]),
]


def find(path):
    """The object of a name with its module; AttributeError if there is none."""
    module, _, name = path.rpartition(".")
    try:
        return importlib.import_module(path)
    except ImportError:
        return getattr(find(module), name)


def test_numba_has_the_names_that_are_used():
    missing = []
    for path in sorted(USED):
        try:
            find(path)
        except AttributeError:
            missing.append(path)
    assert missing == []


@pytest.mark.parametrize(("function", "parameters"), SIGNATURES, ids=lambda value: getattr(value, "__name__", ""))
def test_numba_has_the_parameters_that_are_used(function, parameters):
    assert set(parameters) <= set(inspect.signature(function).parameters)  # which are passed by name, or alone


def test_this_numba_is_within_the_tested_bounds():
    """A newer numba is to be tried with this file first, then `linking.TESTED` and pyproject.toml raised together."""
    assert linking.TESTED[0] <= linking.version() < linking.TESTED[1]
    project = Path(__file__).parents[2] / "pyproject.toml"
    low, high = (".".join(map(str, version)) for version in linking.TESTED)
    assert f'"numba>={low},<{high}"' in project.read_text()


@jit
def halves(values, k):
    return 0.5 * values[k]


compiling = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing compiles without the compiler")


@compiling
def test_the_self_test_passes():
    """The self-test raises an error that names the difference if a new numba breaks linking."""
    importlib.import_module("fiol.compiler.linking.self_test").check()


@compiling
def test_a_failed_self_test_is_one_warning_and_results_stay(monkeypatch):
    def broken():
        raise AssertionError("a kernel returned 3")

    self_test = importlib.import_module("fiol.compiler.linking.self_test")
    monkeypatch.setattr(self_test, "check", broken)
    monkeypatch.setattr(linking, "switched_on", lambda: True)
    linking.passes_self_test.cache_clear()
    try:
        with pytest.warns(RuntimeWarning, match="numba .* differs .*a kernel returned 3.* results are the same"):
            assert not linking.passes_self_test()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert not linking.passes_self_test()
        plain = jit(halves.py_func)
        assert plain.py_func(np.array([2.0, 6.0]), 1) == plain(np.array([2.0, 6.0]), 1) == 3.0
    finally:
        linking.passes_self_test.cache_clear()


@pytest.mark.parametrize("missing", ["environment.lookup_environment", "codegen.JITCodeLibrary"])
def test_a_numba_without_a_private_name_is_one_warning(monkeypatch, missing):
    for name in ("pipelines", "libraries"):
        monkeypatch.delitem(sys.modules, f"fiol.compiler.linking.{name}", raising=False)
    monkeypatch.setattr(linking, "switched_on", lambda: True)
    monkeypatch.delattr(f"numba.core.{missing}")
    with pytest.warns(RuntimeWarning, match=f"numba .* differs .*{missing.rpartition('.')[2]}"):
        assert linking.options() == ({}, {})


@pytest.mark.parametrize(("variable", "version", "expected"), [("0", "0.68.1", False), ("1", "0.69.0", False)])
def test_linking_is_off_on_request_and_on_untested_versions(monkeypatch, variable, version, expected):
    monkeypatch.setenv("FIOL_LINKING", variable)
    monkeypatch.setattr(linking.numba, "__version__", version)
    assert linking.switched_on() is expected


@pytest.mark.parametrize("version", ["0.56.4", "0.70.0"])
def test_untested_numba_is_one_warning_with_versions_and_remedy(monkeypatch, version):
    monkeypatch.setattr(linking.numba, "__version__", version)
    expected = f"numba {version} was not tested .*numba>=0.57,<0.69 was.*longer; install 'numba>=0.57,<0.69' if any"
    with pytest.warns(RuntimeWarning, match=expected) as caught:
        assert linking.options() == ({}, {})
    assert len(caught) == 1


UNTESTED = """
import warnings
import numba

numba.__version__ = "0.70.0"
import fiol
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    step = fiol.solve_step([1.0], 1.0, [0.0], loss=fiol.Squared(), eta=1.0)
assert step.w[0] == 0.5, step
print([str(w.message) for w in caught])
"""
WITHOUT_A_NAME = """
import numba.extending

del numba.extending.lower_getattr_generic
import fiol
fiol.Learner(fiol.SGD(fiol.Squared())).learn_named({"a": 1.0}, 1.0)
"""


def run_script(text, folder):
    """Run a script with a cache of its own and linking on."""
    env = {**os.environ, "NUMBA_CACHE_DIR": str(folder), "FIOL_LINKING": "1"}
    command = [sys.executable, "-c", text]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env)


@compiling
def test_step_on_an_untested_numba_works_and_warns_once(tmp_path):
    done = run_script(UNTESTED, tmp_path)
    assert done.returncode == 0, done.stderr
    (message,) = ast.literal_eval(done.stdout)
    assert message.startswith("numba 0.70.0 was not tested with this version of fiol")


@compiling
def test_numba_without_a_name_is_refused_with_version_and_bounds(tmp_path):
    done = run_script(WITHOUT_A_NAME, tmp_path)
    assert done.returncode != 0
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"ImportError: numba {numba.__version__} does not fit this version of fiol")
    assert "lower_getattr_generic" in last
    assert last.endswith("install 'numba>=0.57,<0.69'")


def test_pipelines_are_built_by_documented_names():
    assert {"add_pass", "finalize"} <= set(dir(PassManager))
    assert hasattr(DefaultPassBuilder, "define_nopython_pipeline")
    assert hasattr(CompilerBase, "define_pipelines")


UNFIT = """
import warnings
from fiol.compiler.linking import libraries

def refused(library, ir_module):
    raise AttributeError("no such name")

libraries.optimized_by_function = refused
import numpy as np, fiol
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    fast, slow = (
        fiol.solve_step(np.ones(3), 1.0, np.zeros(3), loss=fiol.Squared(), regularizer=fiol.Ridge(0.1), compiled=c)
        for c in (True, False)
    )
np.testing.assert_allclose(fast.w, slow.w, rtol=1e-9)
print([str(w.message) for w in caught])
"""


@compiling
def test_step_on_an_untested_numba_has_the_same_weights_and_one_warning(tmp_path):
    done = run_script(UNFIT, tmp_path)
    assert done.returncode == 0, done.stderr
    (message,) = ast.literal_eval(done.stdout)
    assert "differs from the versions that fiol was tested with" in message
    assert "\n" not in message
