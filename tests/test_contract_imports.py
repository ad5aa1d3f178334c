"""What `import fiol` loads and names."""

import ast
import importlib.util
import inspect
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import fiol
from fiol.components.component import Component

MODULES = ["fiol", *(f"fiol.{module.name}" for module in pkgutil.iter_modules(fiol.__path__))]

IMPORT = """
import sys, fiol
print(*{name.partition(".")[0] for name in sys.modules})
"""

BUILD = """
import copy, pickle, fiol
lasso = fiol.L1([0.1, 0.2])
for component in (fiol.Logistic(), fiol.Box(lasso, 0.0), fiol.Mahalanobis([[2.0]]), fiol.Partition(), fiol.Simplex()):
    repr(component), hash(component), copy.deepcopy(component) == component, pickle.loads(pickle.dumps(component))
try:
    fiol.solve_step([1.0], 1.0, [0.0], loss=fiol.Squared(), eta=-1.0)
except ValueError:
    pass  # an error in the arguments needs no compiler either
"""


@pytest.mark.parametrize("script", [IMPORT, BUILD + IMPORT], ids=["import", "build"])
def test_no_compiler_is_loaded(script):
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert {"fiol", "numpy"} <= loaded
    assert not loaded & {"numba", "llvmlite", "scipy", "matplotlib"}


def test_all_is_sorted_and_complete():
    kinds = [(not name.isupper(), not name[0].isupper(), name) for name in fiol.__all__]
    assert kinds == sorted(kinds)  # as ruff sorts: constants, classes, functions
    assert len(set(fiol.__all__)) == len(fiol.__all__)
    public = {name for name, value in vars(fiol).items() if name[0] != "_" and not inspect.ismodule(value)}
    assert public <= set(fiol.__all__)


@pytest.mark.parametrize("name", fiol.__all__)
def test_every_public_name_is_documented(name):
    value = getattr(fiol, name)
    assert value.__doc__
    assert not value.__doc__.startswith(f"{name}(")  # what a dataclass or a named tuple writes by itself


@pytest.mark.parametrize("name", MODULES)
def test_every_module_class_and_function_is_documented(name):
    tree = ast.parse(Path(importlib.util.find_spec(name).origin).read_text())
    assert ast.get_docstring(tree)
    definitions = [node for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))]
    assert [d.name for d in definitions if d.name[0] != "_" and not ast.get_docstring(d)] == []


@pytest.mark.parametrize("name", fiol.__all__)
def test_required_methods_have_a_signature(name):
    family = getattr(fiol, name)
    if isinstance(family, type) and issubclass(family, Component):
        assert set(family.required) <= set(family.protocol)
