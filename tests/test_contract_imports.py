"""The modules that `import fiol` loads, and its public names."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import fiol
from fiol.components.component import Component

SOURCE = Path(fiol.__file__).parent
FILES = sorted(path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py"))
#: Names that several modules may define: one meaning each. An experiment is a program with parts of its own.
SHARED = {"__all__", "Self", "KIND", "read", "FIOLClassifier", "FIOLRegressor"}

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
def test_import_loads_no_compiler(script):
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert {"fiol", "numpy"} <= loaded if script is not IMPORT else loaded & {"fiol", "numpy"} == {"fiol"}
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


@pytest.mark.parametrize("name", FILES)
def test_every_module_class_and_function_is_documented(name):
    tree = ast.parse((SOURCE / name).read_text())
    assert ast.get_docstring(tree)
    definitions = [node for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))]
    assert [d.name for d in definitions if d.name[0] != "_" and not ast.get_docstring(d)] == []


def names_defined_in(tree):
    """The names of the classes, functions and constants of a module."""
    for node in tree.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            yield node.name
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            yield from (part.id for part in getattr(target, "elts", [target]) if isinstance(part, ast.Name))


def test_names_are_defined_in_one_module_only():
    """One name, one meaning."""
    places = {}
    for name in FILES:
        if not name.startswith("experiments/"):
            for defined in {*names_defined_in(ast.parse((SOURCE / name).read_text()))} - SHARED:
                places.setdefault(defined, []).append(name)
    assert len(places) > 500
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


@pytest.mark.parametrize("name", fiol.__all__)
def test_required_methods_have_a_signature(name):
    family = getattr(fiol, name)
    if isinstance(family, type) and issubclass(family, Component):
        assert set(family.required) <= set(family.protocol)
