"""The compiler of the library: decorators for kernels, and kernels bound to the types of their arguments.

A kernel that takes a component may call kernels of its own file and of all files in `CALLED`. A kernel that takes none
may call kernels of its own file only, since numba's cache notices edits of that file alone; if it is made by
`jit_beside`, kernels of its folder and of `CALLED_BESIDE`.
"""

from __future__ import annotations

import dis
import functools
import types as python_types
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from fiol.algorithms import stored_weights
from fiol.compiler import borrowed_indexing, lanes  # noqa: F401 - imported to register compiled forms
from fiol.compiler.accessors import prefetch
from fiol.compiler.borrowed_arrays import lent
from fiol.compiler.cache import kernel
from fiol.compiler.component_types import CALLED, LAYER, ROOT, ComponentType, register_helpers
from fiol.compiler.fingerprint import source_digest
from fiol.compiler.forking import wait_for_compiler
from fiol.compiler.numba_names import typeof
from fiol.compiler.options import FAST, KERNEL, inlined, inlined_strictly
from fiol.components.component import Component

__all__ = ["CALLED", "FAST", "LAYER", "ComponentType", "inlined", "inlined_strictly", "lent", "prefetch"]

#: Files that kernels made by `jit_beside` call into, beside those of their folder.
CALLED_BESIDE = ("features/murmur.py",)

wait_for_compiler()

register_helpers(*stored_weights.WEIGHT_FUNCTIONS)

_bound: dict[Any, Any] = {}


def jit(function: Callable[..., Any] | None = None, *, nogil: bool = True) -> Any:
    """Compile `function` on first call, cached on disk wherever a directory can be written.

    With `nogil=False` it holds the interpreter's lock while it runs.
    """
    if function is None:
        return functools.partial(jit, nogil=nogil)
    return kernel(function, {**KERNEL, "nogil": nogil})


def jit_beside(function: Callable[..., Any]) -> Any:
    """Compile a kernel that calls kernels of its folder and of `CALLED_BESIDE`: an edit of any compiles it anew."""
    beside = source_digest_beside(Path(function.__code__.co_filename).parent)
    function.__qualname__ = f"{function.__qualname__}@{beside}"  # part of the name of its file in the cache
    return kernel(function, KERNEL)


@functools.cache
def source_digest_beside(folder: Path) -> str:
    """Return a digest of the files in a folder, and of `CALLED_BESIDE`."""
    files = sorted(folder.glob("*.py"))
    return source_digest(ROOT, [*(file.relative_to(ROOT).as_posix() for file in files), *CALLED_BESIDE])


@functools.cache
def interpreted(kernel: Any) -> Callable[..., Any]:
    """Return the plain Python function behind a kernel, calling the plain functions behind the kernels it calls."""
    function = getattr(kernel, "py_func", kernel)
    names = {i.argval for i in dis.get_instructions(function) if i.opname == "LOAD_GLOBAL"}
    kernels = {name: function.__globals__.get(name) for name in names}
    plain = {name: interpreted(found) for name, found in kernels.items() if hasattr(found, "py_func")}
    return python_types.FunctionType(function.__code__, {**function.__globals__, **plain}, function.__name__)


def bind(kernel: Any, *arguments: Any) -> Callable[..., Any]:
    """Return `kernel` compiled for arguments of these types, to be called without looking at types again."""
    if not hasattr(kernel, "compile"):
        return kernel
    return bind_by_key((kernel, *map(kind_of, arguments)), lambda: map(typeof, arguments))


def bind_by_key(key: tuple[Any, ...], types_of_arguments: Callable[[], Iterable[Any]]) -> Callable[..., Any]:
    """Return the kernel that comes first in `key`, compiled for types that are the same whenever the key is."""
    if key not in _bound:
        _bound[key] = key[0].compile(tuple(types_of_arguments()))
    return _bound[key]


def kind_of(value: Any) -> Any:
    """Return a key that differs for values of different compiled types, in a tenth of the time that the type takes."""
    if isinstance(value, np.ndarray):
        return value.dtype, value.ndim, value.flags.num
    if isinstance(value, tuple):
        return type(value), *map(kind_of, value)
    return typeof(value) if isinstance(value, Component) else type(value)
