"""Which code a component runs: a hash that changes with its methods and with everything they refer to.

The names of compiled types contain this hash, so that cached code is used for exactly the source it was made from.
"""

from __future__ import annotations

import dataclasses
import dis
import enum
import functools
import hashlib
import inspect
import numbers
import sys
import types
from collections import ChainMap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fiol.components.component import BY_KIND, Component
from fiol.components.simd import BY_LANES

LOAD_GLOBAL, EXTENDED_ARG = dis.opmap["LOAD_GLOBAL"], dis.EXTENDED_ARG
#: Since Python 3.11 the last bit of a global's number says something else.
SHIFTED = int(sys.version_info >= (3, 11))


def own_methods(cls: type) -> list[tuple[str, types.FunctionType]]:
    """Return the methods defined in the body of `cls`, by name."""
    methods = [(n, m) for n, m in vars(cls).items() if isinstance(m, types.FunctionType)]
    return sorted((n, m) for n, m in methods if not n.startswith("__"))


def methods_of(cls: type) -> dict[str, types.FunctionType]:
    """Return all methods of a component class, inherited ones included, without those of Component."""
    found: dict[str, types.FunctionType] = {}
    for klass in reversed(cls.__mro__):
        if klass not in (object, Component):
            found.update(own_methods(klass))
    return found


def constants_of(cls: type) -> dict[str, float]:
    """Return the numbers that are attributes of a component class, not of its instances."""
    names = set(dir(cls)) - {field.name for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    values = {name: getattr(cls, name) for name in names if not name.startswith("__")}
    return {name: value for name, value in values.items() if isinstance(value, (int, float))}


def fingerprint(cls: type) -> tuple[str, set[types.FunctionType]]:
    """Return a hash of the code that the methods of `cls` reach, helpers of other files included."""
    methods, reached = methods_of(cls), set[types.FunctionType]()
    parts = [repr(sorted(constants_of(cls).items())).encode()]
    for name in sorted(methods):
        parts += [name.encode(), *code_parts(methods[name], reached)]
    return digest(parts), reached - set(methods.values())


def digest(parts: Iterable[bytes]) -> str:
    """Return a short hash of all parts."""
    return hashlib.sha256(b"|".join(parts)).hexdigest()[:12]


def source_digest(root: Path, parts: Iterable[str]) -> str:
    """Return a short hash of the source of Python files below `root`: the files and folders that `parts` name.

    Files that are not there count as empty: an installation without sources runs, and numba caches nothing for it.
    """
    named = [root / part for part in parts]
    files = sorted({file for path in named for file in (path.rglob("*.py") if path.is_dir() else [path])})
    files = [file for file in files if file.exists()]
    return digest(piece for file in files for piece in (file.relative_to(root).as_posix().encode(), file.read_bytes()))


def code_parts(function: types.FunctionType, reached: set[types.FunctionType]) -> Iterator[bytes]:
    """Yield the bytecode, constants and defaults of `function` and of everything it refers to by name."""
    if function in reached:
        return
    reached.add(function)
    names, attributes = set[str](), set[str]()
    yield from bytecode(function.__code__, names, attributes)
    nonlocals = inspect.getclosurevars(function).nonlocals if function.__closure__ else {}
    scope = ChainMap(dict(nonlocals), function.__globals__)
    yield from value_parts("defaults", function.__defaults__, attributes, reached)
    for name in sorted(name for name in names if name in scope):
        yield from value_parts(name, scope[name], attributes, reached)


def value_parts(name: str, value: Any, attributes: set[str], reached: set[types.FunctionType]) -> Iterator[bytes]:
    """Yield what `value` adds to a fingerprint: its code, its digits, or else only its name."""
    value = getattr(value, "py_func", value)
    yield f"{name}: {getattr(value, '__module__', '')}.{getattr(value, '__name__', '')}".encode()
    if isinstance(value, types.FunctionType):
        if value not in BY_KIND + BY_LANES:
            yield from code_parts(value, reached)
    elif isinstance(value, types.ModuleType):
        if value.__name__.partition(".")[0] not in ("math", "numpy", "builtins"):
            for attribute in sorted(attributes & vars(value).keys()):  # one name less each time: modules form circles
                yield from value_parts(attribute, vars(value)[attribute], attributes - {attribute}, reached)
    elif isinstance(value, tuple):
        for k, item in enumerate(value):
            yield from value_parts(str(k), item, attributes, reached)
    elif isinstance(value, (numbers.Number, np.bool_, str, bytes)):
        yield f"{type(value).__name__} {value!r}".encode()
    elif isinstance(value, enum.EnumMeta):
        yield repr(list(value)).encode()
    elif isinstance(value, np.ndarray):
        yield f"{value.dtype}{value.shape}".encode() + value.tobytes()


@functools.cache
def global_names(code: types.CodeType) -> frozenset[str]:
    """Return the names that `code` looks up among the globals; `dis` takes ten times as long.

    >>> sorted(global_names((lambda x: len(x) + abs(x.real)).__code__))
    ['abs', 'len']
    """
    found, high = set[str](), 0
    for operation, low in zip(code.co_code[::2], code.co_code[1::2], strict=True):
        number = high | low
        high = number << 8 if operation == EXTENDED_ARG else 0
        if operation == LOAD_GLOBAL:
            found.add(code.co_names[number >> SHIFTED])
    return frozenset(found)


def bytecode(code: types.CodeType, names: set[str], attributes: set[str]) -> Iterator[bytes]:
    """Return the instructions and constants of `code`; add the names it looks up outside itself."""
    names.update(code.co_freevars, global_names(code))
    attributes.update(code.co_names)
    yield code.co_code
    yield repr((code.co_names, code.co_varnames, code.co_freevars)).encode()
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from bytecode(constant, names, attributes)
        elif isinstance(constant, frozenset):  # iteration order differs between processes
            yield repr(sorted(map(repr, constant))).encode()
        else:
            yield repr(constant).encode()
