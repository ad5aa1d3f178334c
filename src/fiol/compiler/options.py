"""How functions are compiled into kernels: options of numba, and the decorators for parts of kernels."""

from __future__ import annotations

import dis
from collections.abc import Callable
from typing import Any

from fiol.compiler import linking

#: Sums may be reordered, so that loops vectorize. Nothing is assumed about NaN and infinity.
FAST = {"nsz", "arcp", "contract", "reassoc"}
#: For functions without a loop, whose sums would otherwise depend on the kernel around them.
AS_WRITTEN = {"nsz", "contract"}

_of_kernels, _of_parts = linking.options()
#: How all functions are compiled.
COMMON: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": FAST, "forceinline": True}
#: How kernels are compiled, which Python calls.
KERNEL: dict[str, Any] = {**COMMON, "no_cfunc_wrapper": True, **_of_kernels}
#: How methods, helpers and `inlined` functions are compiled, which only kernels call.
INNER: dict[str, Any] = {**COMMON, "no_cfunc_wrapper": True, "no_cpython_wrapper": True, **_of_parts}
#: How overloads are compiled, which numba would otherwise try to run in the interpreter.
METHOD: Any = {**INNER, "nopython": True}


def inlined(function: Callable[..., Any]) -> Any:
    """Compile `function` into the kernels that call it. Without a loop, none of its sums is reordered."""
    loops = any(i.opname == "FOR_ITER" for i in dis.get_instructions(function))
    return linking.dispatcher(function, INNER if loops else {**INNER, "fastmath": AS_WRITTEN})


def inlined_strictly(function: Callable[..., Any]) -> Any:
    """Compile `function` into the kernels that call it, without reordering: it has the same bits in every kernel."""
    return linking.dispatcher(function, {**INNER, "fastmath": False})
