"""How parts of kernels are called: values go in as they are, one comes back, and nothing can go wrong.

Numba takes the values that it hands over apart, number by number, has the result written to memory, and looks at a
status after every call: half of all instructions, which LLVM takes away again where the part is inlined. A part that
may raise, or return nothing sometimes, is called numba's way, and so is whoever calls it.
"""

from __future__ import annotations

import copy
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.callconv import CPUCallConv
from numba.core.imputils import impl_ret_new_ref


class MayFail(BaseException):
    """A part has more to tell than a value. Numba would wrap an Exception."""


class Plain(CPUCallConv):  # type: ignore[misc]
    """Numba's way of calling, for functions in which a part may be: one that wants to fail raises `MayFail`."""

    def return_value(self, builder: Any, value: Any) -> None:
        """End the function with a value."""
        if is_part(builder.function):
            raise MayFail
        super().return_value(builder, value)

    def _return_errcode_raw(self, builder: Any, code: Any) -> None:
        if is_part(builder.function):
            raise MayFail
        super()._return_errcode_raw(builder, code)

    def _get_excinfo_argument(self, function: Any) -> Any:
        if is_part(function):
            raise MayFail
        return super()._get_excinfo_argument(function)


def is_part(function: Any) -> bool:
    """Whether a function is called as parts are."""
    return bool(getattr(function, "fiol_part", False))


def never_fails(library: Any) -> bool:
    """Whether what is compiled in a library is called as parts are."""
    return bool(getattr(library, "never_fails", False))


_contexts: dict[Any, Any] = {}


def in_part(context: Any) -> Any:
    """The same context, for what stands in a part."""
    new, given_class = copy.copy(context), type(context)
    if given_class not in _contexts:
        _contexts[given_class] = type(given_class.__name__, (given_class,), {"call_conv": property(Plain)})
    new.__class__ = _contexts[given_class]
    return new


def given(kinds: Any, values: Any) -> list[Any]:
    """The values that are handed over: none where the function has a default."""
    return [value for kind, value in zip(kinds, values, strict=True) if not isinstance(kind, types.Omitted)]


def declared(context: Any, module: Any, described: Any) -> Any:
    """A part as a function of a module."""
    kinds = [context.get_value_type(kind) for kind in given(described.argtypes, described.argtypes)]
    kind = ir.FunctionType(context.get_value_type(described.restype), kinds)
    function = cgutils.get_or_insert_function(module, kind, described.mangled_name)
    if described.inline:
        function.attributes.add("alwaysinline")
    function.fiol_part = True
    return function


def handed_over(function: Any, kinds: Any) -> list[Any]:
    """The values that a part was handed, None for those that are left to it."""
    values = iter(function.args)
    return [None if isinstance(kind, types.Omitted) else next(values) for kind in kinds]


def call_of(described: Any, libraries: Any) -> Any:
    """What numba wants to have of a function to call it."""

    def call(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        function = declared(context, builder.module, described)
        value = builder.call(function, given(described.argtypes, values))
        return impl_ret_new_ref(context, builder, described.restype, value)

    call.signature, call.libs = described.argtypes, tuple(libraries)  # type: ignore[attr-defined]
    return call
