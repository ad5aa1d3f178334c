"""Entries and views of arrays, fields of values and counted loops as few instructions.

Numba writes a value to memory to read one of its fields, and asks of every slice and every range which way it goes.
Here fields are taken from values, and what is known of slices and ranges that go up by 1 is not asked.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

#: The fields of an array that are relied upon.
ARRAY_FIELDS = "meminfo", "parent", "nitems", "itemsize", "data", "shape", "strides"


def field(builder: Any, value: Any, place: int) -> Any:
    """A field of a struct or an entry of a tuple, as it was put there if that is known."""
    inner = value
    while isinstance(inner, ir.instructions.InsertValue):
        aggregate, put = inner.operands
        if inner.indices[0] == place and len(inner.indices) == 1:
            return put
        if inner.indices[0] == place:
            break
        inner = aggregate
    return builder.extract_value(value, place)


def struct_of(builder: Any, kind: Any, parts: Any) -> Any:
    """A struct or tuple of this type of instructions."""
    value = ir.Constant(kind, ir.Undefined)
    for place, part in enumerate(parts):
        value = builder.insert_value(value, part, place)
    return value


def power(builder: Any, x: Any, n: int) -> Any:
    """x times itself, n times, by squaring: as numba does for an n that it does not know."""
    result = None
    while True:
        if n & 1:
            result = x if result is None else builder.fmul(result, x)
        n >>= 1
        if not n:
            return result
        x = builder.fmul(x, x)


# --- arrays -----------------------------------------------------------------------------------


def is_known(context: Any, kind: Any) -> bool:
    """Whether this is an array as it should be."""
    if not isinstance(kind, types.Array) or kind.ndim == 0 or kind.layout not in "CA" or context.enable_boundscheck:
        return False
    return tuple(getattr(context.data_model_manager[kind], "_fields", ())) == ARRAY_FIELDS


def of_array(builder: Any, array: Any, name: str) -> Any:
    """A field of an array, by its name."""
    return field(builder, array, ARRAY_FIELDS.index(name))


def indices_of(builder: Any, kind: Any, index: Any) -> list[tuple[Any, Any]] | None:
    """What an index says of each axis, with its type; None unless these are numbers, and slices that go up by 1."""
    if isinstance(kind, types.BaseTuple):
        found = [(each, field(builder, index, k)) for k, each in enumerate(kind.types)]  # type: ignore[attr-defined]
    else:
        found = [(kind, index)]
    if all(isinstance(each, types.Integer) or is_slice(each) for each, _ in found):
        return found
    return None


def is_slice(kind: Any) -> bool:
    """Whether this is the type of slices that go up by 1."""
    return isinstance(kind, types.SliceType) and not kind.has_step


def place_in_array(context: Any, builder: Any, kind: Any, array: Any, indices: Any) -> tuple[Any, list[Any], list[Any]]:
    """Where an entry or a view is, and the lengths and strides of the view."""
    shape, strides = of_array(builder, array, "shape"), of_array(builder, array, "strides")
    sizes = [field(builder, shape, axis) for axis in range(kind.ndim)]
    lengths, steps, firsts = [], [], []
    for axis, (its_kind, index) in enumerate(indices):
        if is_slice(its_kind):
            first, last = (within(builder, field(builder, index, k), sizes[axis]) for k in (0, 1))
            length = builder.sub(last, first)
            some = builder.icmp_signed(">", length, length.type(0))
            lengths.append(builder.select(some, length, length.type(0)))
            steps.append(field(builder, strides, axis))
        elif its_kind.signed:
            first = from_end(builder, context.cast(builder, index, its_kind, types.intp), sizes[axis])
        else:
            first = context.cast(builder, index, its_kind, types.uintp)
        firsts.append(first)
    rest = range(len(indices), kind.ndim)
    lengths += [sizes[axis] for axis in rest]
    steps += [field(builder, strides, axis) for axis in rest]
    data, place = of_array(builder, array, "data"), None
    for axis, first in enumerate(firsts):
        if kind.layout == "C":
            for size in sizes[axis + 1 :]:
                first = builder.mul(first, size)
        else:
            first = builder.mul(field(builder, strides, axis), first)
        place = first if place is None else builder.add(place, first)
    if kind.layout == "C":
        return builder.gep(data, [place]), lengths, steps
    return cgutils.pointer_add(builder, data, place), lengths, steps


def from_end(builder: Any, index: Any, size: Any) -> Any:
    """An index, counted from the end if it is negative."""
    if isinstance(index, ir.Constant) and index.constant >= 0:
        return index
    negative = builder.icmp_signed("<", index, index.type(0))
    return builder.select(negative, builder.add(index, size), index)


def within(builder: Any, index: Any, size: Any) -> Any:
    """One end of a slice, from 0 to the size."""
    if isinstance(index, ir.Constant) and index.constant == 0:
        return index
    index = from_end(builder, index, size)
    index = builder.select(builder.icmp_signed("<", index, size), index, size)
    return builder.select(builder.icmp_signed("<", index, size.type(0)), size.type(0), index)


def view(context: Any, builder: Any, kind: Any, array: Any, place: Any, lengths: Any, steps: Any) -> Any:
    """A view of an array, as an array of this type."""
    items = lengths[0]
    for length in lengths[1:]:
        items = builder.mul(items, length, flags=["nsw"])
    whole = context.get_value_type(kind)
    axes = [
        struct_of(builder, whole.elements[ARRAY_FIELDS.index(name)], values)
        for name, values in (("shape", lengths), ("strides", steps))
    ]
    kept = [of_array(builder, array, name) for name in ("meminfo", "parent")]
    return struct_of(builder, whole, [*kept, items, of_array(builder, array, "itemsize"), place, *axes])


# --- counting ---------------------------------------------------------------------------------


def begin_range(context: Any, builder: Any, kind: Any, start: Any, stop: Any) -> Any:
    """An iterator of this type, as numba's own, over the numbers from start to before stop."""
    whole = context.get_value_type(kind)
    left = builder.sub(stop, start)
    left = builder.select(builder.icmp_signed(">", left, left.type(0)), left, left.type(0))
    now, count = (cgutils.alloca_once(builder, start.type) for _ in range(2))
    builder.store(start, now)
    builder.store(left, count)
    return struct_of(builder, whole, [now, stop, start.type(1), count])


def next_of_range(builder: Any, iterator: Any) -> tuple[Any, Any]:
    """The next number, and whether there is one."""
    now, count = field(builder, iterator, 0), field(builder, iterator, 3)
    left, value = builder.load(count), builder.load(now)
    some = builder.icmp_signed(">", left, left.type(0))
    builder.store(builder.sub(left, left.type(1), flags=["nsw"]), count)
    builder.store(builder.add(value, field(builder, iterator, 2)), now)
    return value, some
