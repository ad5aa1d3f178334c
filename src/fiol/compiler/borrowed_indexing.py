"""Entries and views of borrowed arrays in few instructions: numba's own code for arrays goes through memory."""

from __future__ import annotations

import operator
from typing import Any

from fiol.compiler.borrowed_arrays import BorrowedArray, borrowed_array
from fiol.compiler.instructions import TRIED_FIRST, field_of, indexed_place, load_entry, store_entry
from fiol.compiler.numba_names import (
    AbstractTemplate,
    cgutils,
    infer_global,
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


def view(context: Any, builder: Any, kind: Any, of: Any, array: Any, indices: Any) -> Any:
    """Return a view of an array of type `of`, as an array of this type."""
    place, lengths, steps = indexed_place(context, builder, of, array, indices)
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
    indices = indices_of(builder, asked, values[1])
    if isinstance(signature.return_type, types.Array):
        return view(context, builder, signature.return_type, kind, values[0], indices)
    return load_entry(context, builder, kind, values[0], indices)


@lower_builtin(operator.setitem, BorrowedArray, types.Integer, types.Number)
@lower_builtin(operator.setitem, BorrowedArray, types.BaseTuple, types.Number)
def _setitem(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    kind, asked, new = signature.args
    return store_entry(context, builder, kind, values[0], indices_of(builder, asked, values[1]), (new, values[2]))


@lower_getattr(BorrowedArray, "shape")
def _shape(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    return field_of(context, builder, kind, value, "shape")
