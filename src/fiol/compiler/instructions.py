"""Plain functions of the library that compile to a few instructions in place of a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fiol.compiler.numba_names import (
    AbstractTemplate,
    LoweringError,
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


def argument(kinds: Any, place: int) -> Any:
    """Return signature and code of a function that returns one of its arguments."""
    result = types.unliteral(kinds[place])

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        value = context.cast(builder, values[place], signature.args[place], result)
        return impl_ret_borrowed(context, builder, result, value)

    return result(*kinds), codegen


def constant(kinds: Any, result: Any, value: Any) -> Any:
    """Return signature and code of a function that returns a constant."""
    return result(*kinds), lambda context, builder, signature, values: context.get_constant(result, value)


def sum_type(context: Any, *kinds: Any) -> Any:
    """Return the type of a sum of numbers of these types."""
    return context.unify_types(*map(types.unliteral, kinds))


def field_of(context: Any, builder: Any, kind: Any, value: Any, name: str) -> Any:
    """Return a field of an array or another struct."""
    return context.data_model_manager[kind].get(builder, value, name)


def indexed_place(
    context: Any, builder: Any, kind: Any, array: Any, indices: list[tuple[Any, Any]]
) -> tuple[Any, list[Any], list[Any]]:
    """Return the address of an entry or a view of an array, and the lengths and strides of the view.

    Indices are pairs of type and value: slices, or numbers, of which signed ones count from the end if negative.
    """
    shape, strides = (
        cgutils.unpack_tuple(builder, field_of(context, builder, kind, array, name)) for name in ("shape", "strides")
    )
    lengths, steps, firsts = [], [], []
    for axis, (its_kind, index) in enumerate(indices):
        if isinstance(its_kind, types.SliceType):
            if its_kind.has_step:
                raise LoweringError("a slice of a borrowed array takes no step")
            first, last = (within(builder, builder.extract_value(index, k), shape[axis]) for k in (0, 1))
            length = builder.sub(last, first)
            some = builder.icmp_signed(">", length, length.type(0))
            lengths.append(builder.select(some, length, length.type(0)))
            steps.append(strides[axis])
        elif isinstance(its_kind, types.Integer):
            first = context.cast(builder, index, its_kind, types.intp)
            first = from_end(builder, first, shape[axis]) if its_kind.signed else first
        else:
            raise LoweringError(f"a borrowed array takes numbers and slices as indices, not {its_kind}")
        firsts.append(first)
    firsts += [shape[axis].type(0) for axis in range(len(indices), kind.ndim)]
    data = field_of(context, builder, kind, array, "data")
    place = cgutils.get_item_pointer2(context, builder, data, shape, strides, kind.layout, firsts)
    return place, lengths + shape[len(indices) :], steps + strides[len(indices) :]


def within(builder: Any, index: Any, size: Any) -> Any:
    """Return one end of a slice, from 0 to the size."""
    if isinstance(index, ir.Constant) and index.constant == 0:
        return index
    index = from_end(builder, index, size)
    index = builder.select(builder.icmp_signed("<", index, size), index, size)
    return builder.select(builder.icmp_signed("<", index, size.type(0)), size.type(0), index)


def from_end(builder: Any, index: Any, size: Any) -> Any:
    """Return an index from the beginning for one that counts from the end if it is negative."""
    if isinstance(index, ir.Constant) and index.constant >= 0:
        return index
    negative = builder.icmp_signed("<", index, index.type(0))
    return builder.select(negative, builder.add(index, size), index)


def load_entry(context: Any, builder: Any, kind: Any, array: Any, indices: Any) -> Any:
    """Return an entry of an array, see `indexed_place`."""
    place, _, _ = indexed_place(context, builder, kind, array, indices)
    return context.unpack_value(builder, kind.dtype, place, align=None if kind.aligned else 1)


def store_entry(context: Any, builder: Any, kind: Any, array: Any, indices: Any, new: tuple[Any, Any]) -> Any:
    """Store a number, given as type and value, in an array, see `indexed_place`."""
    place, lengths, _ = indexed_place(context, builder, kind, array, indices)
    if lengths:
        raise LoweringError("a borrowed array is written entry by entry")
    value = context.cast(builder, new[1], new[0], kind.dtype)
    context.pack_value(builder, kind.dtype, value, place, align=None if kind.aligned else 1)
    return context.get_dummy_value()


@infer_global(bool)
class _TruthType(AbstractTemplate):
    """The type of `bool(x)`, which numba puts in every branch, for numbers: tried before rules for sequences."""

    metadata = TRIED_FIRST

    def generic(self, args: Any, kws: Any) -> Any:
        return signature(types.boolean, *args) if isinstance(args[0], (types.Boolean, types.Number)) else None
