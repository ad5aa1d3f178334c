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
#: The one folder that may use private names, and a file that is to be deleted.
EXEMPT = ("compiler/linking/",)
#: Modules of numba and llvmlite that may be imported; `numba` and `numba.extending` are documented.
MODULES = {
    "llvmlite",
    "numba",
    "numba.core",
    "numba.core.caching",
    "numba.core.compiler_lock",
    "numba.core.errors",
    "numba.core.imputils",
    "numba.core.registry",
    "numba.core.typing.templates",
    "numba.extending",
}
#: Attributes that are documented in spite of their names: a struct's value and the type of a value (numba), named
#: tuples' own and `os._exit` (Python).
ATTRIBUTES = {"_getvalue", "_numba_type_", "_replace", "_fields", "_asdict", "_make", "_exit"}
#: Hooks of scikit-learn and Spark for subclasses, in the files that integrate with these.
HOOKS = {"_get_loss", "_get_param_names", "_validate_params"}
HOOKS |= {"_copyValues", "_dummy", "_input_kwargs", "_resetUid", "_set", "_setDefault"}
INTEGRATIONS = "integrations/", "exports/sklearn_model.py"


def files():
    """All source files outside the exempt folder, with their path in the package."""
    for file in sorted(SOURCE.rglob("*.py")):
        name = file.relative_to(SOURCE).as_posix()
        if not name.startswith(EXEMPT):
            yield name, ast.parse(file.read_text())


def foreign_imports(tree):
    """The modules of numba and llvmlite that a file imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found = [node.module or ""]
        else:
            continue
        yield from (name for name in found if name.partition(".")[0] in ("numba", "llvmlite"))


def private_attributes(tree):
    """The private attributes that a file uses and that no class of the package defines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            yield node.attr


def own_names():
    """All private names that the package itself defines or assigns."""
    found = set()
    for _, tree in files():
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                found.add(node.name)
            elif isinstance(node, ast.Name):
                found.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
    return found


def test_only_listed_modules_of_numba_and_llvmlite_are_imported():
    found = {(name, module) for name, tree in files() for module in foreign_imports(tree)}
    assert len(found) > 10
    assert {(name, module) for name, module in found if module not in MODULES} == set()


def test_private_attributes_are_our_own_or_listed():
    known = own_names() | ATTRIBUTES
    found = {(name, attribute) for name, tree in files() for attribute in private_attributes(tree)}
    assert ("compiler/component_types.py", "_getvalue") in found
    unknown = {(name, attribute) for name, attribute in found if attribute not in known}
    assert {pair for pair in unknown if not (pair[0].startswith(INTEGRATIONS) and pair[1] in HOOKS)} == set()


#: Names of numba that the library uses, with parameters that it relies on.
USED = {
    "numba.extending": ["intrinsic", "lower_builtin", "lower_getattr_generic", "models", "overload", "register_model"],
    "numba.core.typing.templates": ["AbstractTemplate", "AttributeTemplate", "infer_getattr", "infer_global"],
    "numba.core.imputils": ["impl_ret_borrowed", "lower_cast"],
    "numba.core.types": ["Array", "BoundFunction", "Dispatcher", "NamedTuple", "SliceType", "VarArg", "unliteral"],
}
SIGNATURES = [
    (registry.CPUDispatcher, ["py_func", "targetoptions", "pipeline_class"]),
    (registry.CPUDispatcher.compile, ["self", "sig"]),
    (cgutils.get_item_pointer2, ["context", "builder", "data", "shape", "strides", "layout", "inds"]),
]


@pytest.mark.parametrize("module", USED)
def test_numba_has_the_names_that_are_used(module):
    missing = [name for name in USED[module] if not hasattr(importlib.import_module(module), name)]
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


def test_pipelines_are_built_by_documented_names():
    assert {"add_pass", "finalize"} <= set(dir(PassManager))
    assert hasattr(DefaultPassBuilder, "define_nopython_pipeline")
    assert hasattr(CompilerBase, "define_pipelines")


UNFIT = """
import warnings
from fiol.compiler.linking import dispatchers

def refused(self, sig):
    raise AttributeError("no such name")

dispatchers.UntestedDispatcher.compile = refused
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
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "FIOL_LINKING": "1"}
    done = subprocess.run([sys.executable, "-c", UNFIT], capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    (message,) = ast.literal_eval(done.stdout)
    assert "differs from the versions that fiol was tested with" in message
    assert "\n" not in message
