"""How functions are compiled into kernels: options of numba, and the decorators for parts of kernels."""

from __future__ import annotations

import dis
from collections.abc import Callable
from typing import Any

from fiol.compiler import linking
from fiol.compiler.numba_names import CPUDispatcher, config, types

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


class InlinedFunction(CPUDispatcher):
    """A function that is compiled into kernels.

    Python runs it in the interpreter: compiled code has no entry for Python, and calling it would crash.
    """

    def __call__(self, *arguments: Any) -> Any:
        return self.py_func(*arguments)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Return how calls with such arguments are typed: a constant is a number like others, not a type of its own."""
        plain = {name: types.unliteral(kind) for name, kind in kws.items()}
        return super().get_call_template([types.unliteral(kind) for kind in args], plain)


def dispatcher(kind: Any, function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Return `function` as a dispatcher of this class; the function itself if numba is switched off."""
    if config.DISABLE_JIT:
        return function
    targetoptions = {"nopython": True, **options}
    pipeline = {name: targetoptions.pop(name) for name in ("pipeline_class",) if name in options}
    return kind(function, targetoptions=targetoptions, **pipeline)


def inlined_with(function: Callable[..., Any], fastmath: Any) -> Any:
    """Compile `function` into the kernels that call it, with sums reordered as `fastmath` allows."""
    return dispatcher(InlinedFunction, function, {**INNER, "fastmath": fastmath})


def inlined(function: Callable[..., Any]) -> Any:
    """Compile `function` into the kernels that call it. Without a loop, none of its sums is reordered."""
    loops = any(i.opname == "FOR_ITER" for i in dis.get_instructions(function))
    return inlined_with(function, FAST if loops else AS_WRITTEN)


def inlined_strictly(function: Callable[..., Any]) -> Any:
    """Compile `function` into the kernels that call it, without reordering: it has the same bits in every kernel."""
    return inlined_with(function, False)
