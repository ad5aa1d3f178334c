"""Entries and views of borrowed arrays in few instructions: numba's own code for arrays goes through memory."""

from __future__ import annotations

import operator
from typing import Any

from fiol.compiler.borrowed_arrays import BorrowedArray, borrowed_array
from fiol.compiler.instructions import TRIED_FIRST, field_of, from_end
from fiol.compiler.numba_names import (
    AbstractTemplate,
    LoweringError,
    cgutils,
    infer_global,
    ir,
    lower_builtin,
    lower_getattr,
    signature,
    types,
)


def number_indices(array: Any, index: Any) -> Any:
    """Return the type of indices of one entry of a borrowed array; None for views, other arrays and other indices."""
    kinds = index.types if isinstance(index, types.BaseTuple) else (index,)
    if not isinstance(array, BorrowedArray) or len(kinds) != array.ndim:
        return None
    if not all(isinstance(kind, types.Integer) for kind in kinds):
        return None
    numbers = [types.intp if kind.signed else types.uintp for kind in kinds]
    return types.BaseTuple.from_types(numbers) if isinstance(index, types.BaseTuple) else numbers[0]


@infer_global(operator.getitem)
class _GetItemType(AbstractTemplate):
    metadata = TRIED_FIRST

    def generic(self, args: Any, kws: Any) -> Any:
        index = number_indices(*args)
        return None if index is None else signature(args[0].dtype, args[0], index)


@infer_global(operator.setitem)
class _SetItemType(AbstractTemplate):
    metadata = TRIED_FIRST

    def generic(self, args: Any, kws: Any) -> Any:
        index = number_indices(*args[:2]) if isinstance(args[2], types.Number) else None
        return None if index is None else signature(types.none, args[0], index, args[2])


def indices_of(builder: Any, kind: Any, index: Any) -> list[tuple[Any, Any]]:
    """Return type and value of each index of a pair of brackets."""
    if isinstance(kind, types.BaseTuple):
        return list(zip(kind.types, cgutils.unpack_tuple(builder, index), strict=True))
    return [(kind, index)]


def indexed_place(context: Any, builder: Any, kind: Any, array: Any, indices: Any) -> tuple[Any, list[Any], list[Any]]:
    """Return the address of an entry or a view, and the lengths and strides of the view."""
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


def view(context: Any, builder: Any, kind: Any, of: Any, array: Any, found: Any) -> Any:
    """Return a view of an array of type `of`, as an array of this type."""
    place, lengths, steps = found
    items = lengths[0]
    for length in lengths[1:]:
        items = builder.mul(items, length, flags=["nsw"])
    fields = {"nitems": items, "data": place, "itemsize": field_of(context, builder, of, array, "itemsize")}
    fields |= {"shape": cgutils.pack_array(builder, lengths), "strides": cgutils.pack_array(builder, steps)}
    return borrowed_array(context, builder, kind, fields)


@lower_builtin(operator.getitem, BorrowedArray, types.Integer)
@lower_builtin(operator.getitem, BorrowedArray, types.slice2_type)
@lower_builtin(operator.getitem, BorrowedArray, types.BaseTuple)
def _getitem(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    kind, asked = signature.args
    found = indexed_place(context, builder, kind, values[0], indices_of(builder, asked, values[1]))
    if isinstance(signature.return_type, types.Array):
        return view(context, builder, signature.return_type, kind, values[0], found)
    return context.unpack_value(builder, kind.dtype, found[0], align=None if kind.aligned else 1)


@lower_builtin(operator.setitem, BorrowedArray, types.Integer, types.Number)
@lower_builtin(operator.setitem, BorrowedArray, types.BaseTuple, types.Number)
def _setitem(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    kind, asked, new = signature.args
    place, lengths, _ = indexed_place(context, builder, kind, values[0], indices_of(builder, asked, values[1]))
    if lengths:
        raise LoweringError("a borrowed array is written entry by entry")
    value = context.cast(builder, values[2], new, kind.dtype)
    context.pack_value(builder, kind.dtype, value, place, align=None if kind.aligned else 1)
    return context.get_dummy_value()


@lower_getattr(BorrowedArray, "shape")
def _shape(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    return field_of(context, builder, kind, value, "shape")
