"""Values that stay in memory between calls of compiled code, and arrays at addresses.

Taking a plan and all arrays of an engine from their Python objects takes longer than a round of a short row.
`StoredValues` does so once and keeps the values in memory; later calls pass its address.
"""

from __future__ import annotations

from array import array
from typing import Any

from fiol.compiler.borrowed_arrays import borrowed_array, lent
from fiol.compiler.compiled import bind_by_key, jit, kind_of
from fiol.compiler.numba_names import NativeValue, cgutils, ir, models, register_model, typeof, types, unbox
from fiol.compiler.numba_names import intrinsic as typed_intrinsic
from fiol.components.component import borrowed

#: The type checker would count the first parameter of an intrinsic, which the compiler fills in.
intrinsic: Any = typed_intrinsic
WORD = ir.IntType(64)


class BlockType(types.Type):  # type: ignore[misc]
    """The address of a value of this type; an int in Python."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        super().__init__(f"Block({kind})")


@register_model(BlockType)
class _BlockModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: BlockType) -> None:
        super().__init__(manager, kind, WORD)


@unbox(BlockType)
def _unbox_block(kind: BlockType, address: Any, c: Any) -> NativeValue:
    return c.unbox(types.int64, address)  # type: ignore[no-any-return]


@intrinsic
def load_values(typing_context: Any, block: Any) -> Any:
    """Return the `borrowed` value in a block."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = context.get_value_type(signature.return_type)
        return builder.load(builder.inttoptr(arguments[0], kind.as_pointer()))

    return lent(block.kind)(block), codegen


@intrinsic
def load_values_like(typing_context: Any, values: Any, address: Any) -> Any:
    """Return the value in another block, at an address; `values` are those of a block of the same type."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = context.get_value_type(signature.return_type)
        return builder.load(builder.inttoptr(arguments[1], kind.as_pointer()))

    return values(values, types.int64), codegen


@intrinsic
def _stored(typing_context: Any, address: Any, size: Any, value: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = context.get_value_type(value)
        needed = WORD(context.get_abi_sizeof(kind))
        with builder.if_then(builder.icmp_signed("<=", needed, arguments[1])):
            builder.store(arguments[2], builder.inttoptr(arguments[0], kind.as_pointer()))
        return needed

    return types.int64(types.int64, types.int64, value), codegen


@jit
def store_values(address, size, values):  # type: ignore[no-untyped-def]
    """Store values in `size` bytes at an address, if they fit; return how many bytes they need."""
    return _stored(address, size, borrowed(values))


def array_at(address: Any, n: Any, dtype: Any) -> Any:
    """Return signature and code of a function that returns the n numbers at an address as a borrowed array."""
    kind = lent(types.Array(dtype, 1, "C"))

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = builder.inttoptr(arguments[0], context.get_data_type(dtype).as_pointer())
        size, width = context.cast(builder, arguments[1], n, types.intp), WORD(dtype.bitwidth // 8)
        fields = {"nitems": size, "itemsize": width, "data": place}
        fields |= {"shape": cgutils.pack_array(builder, [size]), "strides": cgutils.pack_array(builder, [width])}
        return borrowed_array(context, builder, kind, fields)

    return kind(types.int64, n), codegen


@intrinsic
def floats_at(typing_context: Any, address: Any, n: Any) -> Any:
    """Return the n float64 at an address as a borrowed array."""
    return array_at(address, n, types.float64)


@intrinsic
def ints_at(typing_context: Any, address: Any, n: Any) -> Any:
    """Return the n int32 at an address as a borrowed array."""
    return array_at(address, n, types.int32)


class StoredValues:
    """Memory that holds values for compiled code, and keeps alive what they point to.

    Parameters
    ----------
    values : a tuple of what kernels take.
    """

    __slots__ = ("address", "kind", "memory", "values")

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.values, self.memory = values, array("q", bytes(4096))
        #: A key of the compiled type of the values.
        self.kind = kind_of(values)
        store = bind_by_key((store_values, self.kind), lambda: map(typeof, (0, 0, values)))
        size = len(self.memory) * 8
        needed = store(self.memory.buffer_info()[0], size, values)
        if needed > size:
            self.memory = array("q", bytes(-(-needed // 8) * 8))
            store(self.memory.buffer_info()[0], needed, values)
        self.address = self.memory.buffer_info()[0]


def compile_for_block(kernel: Any, block: StoredValues, *others: Any) -> Any:
    """Return `kernel(block, ...)` compiled for the address of such a block, and such other arguments."""
    key = kernel, block.kind, *map(kind_of, others)
    return bind_by_key(key, lambda: (BlockType(typeof(block.values)), *map(typeof, others)))


def hold_one_type(blocks: list[StoredValues]) -> bool:
    """Return whether all blocks hold values of the same compiled type."""
    return len({block.kind for block in blocks}) == 1 or len({typeof(block.values) for block in blocks}) == 1
