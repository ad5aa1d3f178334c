"""Arrays that somebody else keeps alive: compiled code counts no references to them."""

from __future__ import annotations

import functools
from typing import Any

from fiol.compiler.component_types import ComponentType, WholeArgument
from fiol.compiler.instructions import field_of, instructions
from fiol.compiler.numba_names import TypingError, cgutils, ir, lower_cast, models, register_model, types
from fiol.components.component import borrowed, flatten, flatten_rows


class BorrowedArray(types.Array):
    """A writable array without an owner, laid out as any other array.

    By its type no code that counts references is made for it.
    """

    def copy(self, dtype: Any = None, ndim: Any = None, layout: Any = None, readonly: Any = None) -> BorrowedArray:
        return lent(super().copy(dtype, ndim, layout, readonly))

    @property
    def mangling_args(self) -> Any:
        return "Borrowed", [self.dtype, self.ndim, self.layout]


@register_model(BorrowedArray)
class _BorrowedModel(WholeArgument, models.ArrayModel):
    def has_nrt_meminfo(self) -> bool:
        return False

    def get_nrt_meminfo(self, builder: Any, value: Any) -> None:
        return None

    def traverse(self, builder: Any) -> list[Any]:
        return []


@lower_cast(BorrowedArray, types.Array)
@lower_cast(BorrowedArray, BorrowedArray)
def _shared(context: Any, builder: Any, kind: Any, target: Any, value: Any) -> Any:
    return value  # has no owner that is counted


def borrowed_array(context: Any, builder: Any, kind: Any, fields: dict[str, Any]) -> Any:
    """Return an array of a borrowed type with these fields, and no owner."""
    model, array = context.data_model_manager[kind], cgutils.get_null_value(context.get_value_type(kind))
    for name, value in fields.items():
        array = model.set(builder, array, value, name)
    return array


class BorrowedTuple(types.NamedTuple):
    """A named tuple of borrowed arrays and of numbers, passed to functions as one value."""


@register_model(BorrowedTuple)
class _BorrowedTupleModel(WholeArgument, models.TupleModel):
    def traverse(self, builder: Any) -> list[Any]:
        return []


def lent(kind: Any) -> Any:
    """Return the type of `borrowed` values of this type."""
    if isinstance(kind, types.NamedTuple):
        return BorrowedTuple(tuple(lent(k) for k in kind.types), kind.instance_class)
    if isinstance(kind, types.BaseTuple):
        return types.BaseTuple.from_types([lent(k) for k in kind.types], getattr(kind, "instance_class", None))
    if isinstance(kind, types.Array):
        name = f"borrowed array({kind.dtype}, {kind.ndim}d, {kind.layout})"
        return BorrowedArray(kind.dtype, kind.ndim, kind.layout, name=name)
    if isinstance(kind, ComponentType):
        fields = [(name, lent(field)) for name, field in kind.fields]
        return kind if tuple(fields) == kind.fields else ComponentType(kind.tag, fields)
    return kind


def strip_owner(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """Return a value of type `lent(kind)`: arrays in it have no owner."""
    if isinstance(kind, types.BaseTuple):
        items = cgutils.unpack_tuple(builder, value)
        parts = [strip_owner(context, builder, k, v) for k, v in zip(kind.types, items, strict=True)]
        return context.make_tuple(builder, lent(kind), parts)
    if isinstance(kind, ComponentType):
        struct = ir.Constant(context.get_value_type(lent(kind)), ir.Undefined)
        for place, (_, field) in enumerate(kind.fields):
            part = strip_owner(context, builder, field, builder.extract_value(value, place))
            struct = builder.insert_value(struct, part, place)
        return struct
    if not isinstance(kind, types.Array):
        return value
    model = context.data_model_manager[kind]
    for name in ("meminfo", "parent"):
        value = model.set(builder, value, cgutils.get_null_value(model.get(builder, value, name).type), name)
    return value


@instructions(borrowed)
def _borrowed(context: Any, values: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return strip_owner(context, builder, values, arguments[0])

    return lent(values)(values), codegen


def on_last_axis(values: Any, axes: int) -> Any:
    """Return signature and code for an array as one of fewer axes, the last of which holds all remaining ones."""
    if not isinstance(values, types.Array) or values.layout != "C":
        raise TypingError("flatten takes an array whose rows follow each other in memory")
    kind = lent(types.Array(values.dtype, axes, "C"))

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        shape, strides, size, width = (
            field_of(context, builder, values, arguments[0], name)
            for name in ("shape", "strides", "nitems", "itemsize")
        )
        shape, strides = (cgutils.unpack_tuple(builder, axes_of) for axes_of in (shape, strides))
        last = functools.reduce(builder.mul, shape[axes - 1 :]) if axes > 1 else size
        fields = {"nitems": size, "itemsize": width, "data": field_of(context, builder, values, arguments[0], "data")}
        fields["shape"] = cgutils.pack_array(builder, [*shape[: axes - 1], last])
        fields["strides"] = cgutils.pack_array(builder, [*strides[: axes - 1], width])
        return borrowed_array(context, builder, kind, fields)

    return kind(values), codegen


@instructions(flatten)
def _flatten(context: Any, values: Any) -> Any:
    return on_last_axis(values, 1)


@instructions(flatten_rows)
def _flatten_rows(context: Any, values: Any) -> Any:
    return on_last_axis(values, 2)
