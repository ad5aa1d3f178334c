"""Plain functions of the library that compile to a few instructions in place of a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fiol.compiler.numba_names import (
    AbstractTemplate,
    cgutils,
    impl_ret_borrowed,
    infer_global,
    ir,
    lower_builtin,
    signature,
    types,
)

#: Metadata of typing rules that numba tries before its own: it spends much of its time on rules that do not apply.
TRIED_FIRST = {"target": "cpu"}


def instructions(function: Callable[..., Any]) -> Callable[[Any], Any]:
    """Let calls of `function` compile to what the decorated function returns for the types of its arguments.

    That is a signature and a code generator as for `numba.extending.intrinsic`, or None if the types do not fit.
    Nothing is compiled apart, where an `overload` would be a function for each combination of types.
    """

    def register(typed: Callable[..., Any]) -> Callable[..., Any]:
        class Template(AbstractTemplate):
            key = function

            def generic(self, args: Any, kws: Any) -> Any:
                found = None if kws else typed(self.context, *args)
                return None if found is None else found[0]

        def lower(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return typed(context.typing_context, *signature.args)[1](context, builder, signature, values)

        infer_global(function)(Template)
        lower_builtin(function, types.VarArg(types.Any))(lower)
        return typed

    return register


def argument(kinds: Any, place: int, result: Any = None) -> Any:
    """Return signature and code of a function that returns one of its arguments."""
    result = types.unliteral(kinds[place]) if result is None else result

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        value = context.cast(builder, values[place], signature.args[place], result)
        return impl_ret_borrowed(context, builder, result, value)

    return result(*kinds), codegen


def constant(kinds: Any, result: Any, value: Any) -> Any:
    """Return signature and code of a function that returns a constant."""
    return result(*kinds), lambda context, builder, signature, values: context.get_constant(result, value)


def field_of(context: Any, builder: Any, kind: Any, value: Any, name: str) -> Any:
    """Return a field of an array or another struct."""
    return context.data_model_manager[kind].get(builder, value, name)


def entry_pointer(context: Any, builder: Any, kind: Any, array: Any, indices: list[tuple[Any, Any]]) -> Any:
    """Return where an entry of an array is; indices are pairs of type and value, and signed ones count from the end."""
    shape, strides = (
        cgutils.unpack_tuple(builder, field_of(context, builder, kind, array, name)) for name in ("shape", "strides")
    )
    places = [context.cast(builder, value, its_kind, types.intp) for its_kind, value in indices]
    places = [
        from_end(builder, place, size) if its_kind.signed else place
        for place, (its_kind, _), size in zip(places, indices, shape, strict=False)
    ]
    data = field_of(context, builder, kind, array, "data")
    return cgutils.get_item_pointer2(context, builder, data, shape, strides, kind.layout, places)


def from_end(builder: Any, index: Any, size: Any) -> Any:
    """Return an index from the beginning for one that counts from the end if it is negative."""
    if isinstance(index, ir.Constant) and index.constant >= 0:
        return index
    negative = builder.icmp_signed("<", index, index.type(0))
    return builder.select(negative, builder.add(index, size), index)


def load_entry(context: Any, builder: Any, kind: Any, array: Any, indices: Any) -> Any:
    """Return an entry of an array, see `entry_pointer`."""
    place = entry_pointer(context, builder, kind, array, indices)
    return context.unpack_value(builder, kind.dtype, place, align=None if kind.aligned else 1)


def store_entry(context: Any, builder: Any, kind: Any, array: Any, indices: Any, new: tuple[Any, Any]) -> Any:
    """Store a number, given as type and value, in an array, see `entry_pointer`."""
    place = entry_pointer(context, builder, kind, array, indices)
    value = context.cast(builder, new[1], new[0], kind.dtype)
    context.pack_value(builder, kind.dtype, value, place, align=None if kind.aligned else 1)
    return context.get_dummy_value()


@infer_global(bool)
class _TruthType(AbstractTemplate):
    """The type of `bool(x)`, which numba puts in every branch, for numbers: tried before rules for sequences."""

    metadata = TRIED_FIRST

    def generic(self, args: Any, kws: Any) -> Any:
        return signature(types.boolean, *args) if isinstance(args[0], (types.Boolean, types.Number)) else None
