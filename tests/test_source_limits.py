"""Sizes of functions, classes and files of the library: small enough to be read at once."""

import ast
from pathlib import Path

import fiol

SOURCE = Path(fiol.__file__).parent
#: The most lines of a function, a class and a file.
FUNCTION, CLASS, FILE = 60, 500, 600
#: A plain list of components is longer.
EXCEPTIONS = {"components/losses.py"}


def too_long(source, name):
    """Yield all parts of a file that have too many lines, and the file if it has."""
    if len(source.splitlines()) > FILE:
        yield name
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            most = CLASS if isinstance(node, ast.ClassDef) else FUNCTION
            if node.end_lineno - node.lineno + 1 > most:
                yield f"{name}:{node.name}"


def test_functions_classes_and_files_are_short():
    found = set()
    for file in sorted(SOURCE.rglob("*.py")):
        found.update(too_long(file.read_text(), file.relative_to(SOURCE).as_posix()))
    assert found == EXCEPTIONS, "the list of exceptions names exactly the parts that are too long"


def test_limits_find_what_is_too_long():
    body = "\n".join(["    x = 1"] * 60)
    assert list(too_long(f"def f():\n{body}\n", "a.py")) == ["a.py:f"]
    assert list(too_long(f"def f():\n{body[10:]}\n", "a.py")) == []
    assert list(too_long("x = 1\n" * 601, "b.py")) == ["b.py"]
