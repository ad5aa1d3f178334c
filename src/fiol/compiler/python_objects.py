"""Compiled code that Python calls as it calls its own functions, and that looks at Python's objects.

For one event, numba's way into compiled code takes longer than all else: every array and number of a plan is taken from
its object again. Here these values wait in one block of memory (`keep`, `block_in`), the code is a function of the C
interface of Python (`python_function`), and a dict is read where it is, by functions of that interface (`next_item`).

Such code holds the interpreter's lock from its first to its last instruction, and runs no Python: nobody changes what
it reads, and no signal comes in between. An object is its address here, an int.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from _thread import RLock, get_ident
from typing import Any

import numpy as np
from llvmlite import ir
from numba import typeof
from numba.core import cgutils, types
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, lower_getattr_generic, models, register_model
from numba.extending import intrinsic as typed_intrinsic

from fiol.compiler.compiled import ComponentType, bind, jit, lent

#: Python's types see the first argument of these, which the compiler fills in.
intrinsic: Any = typed_intrinsic
WORD, REAL, POINTER = ir.IntType(64), ir.DoubleType(), ir.IntType(8).as_pointer()
#: Where Python's objects, and numpy's arrays after that, have what is read of them here.
TYPE, DATA, AXES, SHAPE, DTYPE, FLAGS = 8, 16, 24, 32, 56, 64
#: The same for lists, texts and integers, whose digits are of 30 bits.
SIZE, ITEMS, HASH, DIGITS = 16, 24, 24, 24
#: What an array's flags say if it is contiguous and aligned.
PLAIN_ARRAY = 0x0001 | 0x0100


@functools.cache
def usable() -> bool:
    """Whether objects are laid out as expected: by CPython of 64 bits, with the lock that keeps other threads away."""
    if sys.implementation.name != "cpython" or sys.maxsize < 2**32 or not hasattr(jit(usable_kernel), "compile"):
        return False
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False
    array, items = np.zeros((3, 5), np.int32), ["a", "b", 2**30 - 1]
    things: tuple[Any, ...] = 1.5, "a", {}, 7, array

    def word(offset: int, of: Any = array) -> int | None:
        return word_of(of, offset)

    shape = (ctypes.c_ssize_t * 2).from_address(word(SHAPE) or 0)
    return (
        all(word(TYPE, thing) == id(type(thing)) for thing in things)
        and all(ctypes.c_double.from_address(id(half) + DATA).value == half for half in (0.5, np.float64(0.25)))
        and word(DATA) == array.ctypes.data
        and ctypes.c_int.from_address(id(array) + AXES).value == 2
        and tuple(shape) == (3, 5)
        and word(DTYPE) == id(array.dtype) == id(np.dtype(np.int32))
        and ctypes.c_int.from_address(id(array) + FLAGS).value & PLAIN_ARRAY == PLAIN_ARRAY
        and word(SIZE, items) == 3
        and list((ctypes.c_ssize_t * 3).from_address(word(ITEMS, items) or 0)) == list(map(id, items))
        and ctypes.c_ssize_t.from_address(id("a") + HASH).value == hash("a")
        and all(ctypes.c_int.from_address(id(whole) + DIGITS).value == whole for whole in (1, 256, 12345, 2**30 - 1))
        and len({word(SIZE, whole) for whole in (1, 256, 12345, 2**30 - 1)} - {word(SIZE, 0), word(SIZE, 2**30)}) == 1
        and owner_place() is not None
    )


def word_of(thing: Any, offset: int) -> int | None:
    """The word that stands `offset` bytes after the address of an object; None for 0."""
    return ctypes.c_void_p.from_address(id(thing) + offset).value


@functools.cache
def owner_place() -> int | None:
    """Where a lock has the thread that holds it, or 0 if nobody does; None if that is nowhere to be found.

    The word changes with the interpreter's lock held alone: a thread that waits takes that first, and then writes.
    """
    lock, offsets = RLock(), range(TYPE + 8, RLock.__basicsize__, 8)
    free = [word_of(lock, offset) for offset in offsets]
    with lock, lock:
        taken = [word_of(lock, offset) for offset in offsets]
    again = [word_of(lock, offset) for offset in offsets]
    words = zip(offsets, free, taken, again, strict=True)
    places = [offset for offset, *found in words if found == [None, get_ident(), None]]
    return places[0] if len(places) == 1 else None


def usable_kernel() -> None:
    """Nothing: whether this is compiled tells whether anything is."""


# --- functions of Python's C interface --------------------------------------------------------

#: Letters of `c_function`: an object or another address, an integer, a C int, a double.
C_TYPES = {"p": POINTER, "n": WORD, "i": ir.IntType(32), "d": REAL}
#: And what they are to compiled code.
NUMBA_TYPES = {"p": types.intp, "n": types.intp, "i": types.intp, "d": types.float64}


def call(builder: Any, name: str, result: str, letters: str, arguments: list[Any]) -> Any:
    """Call a C function, addresses being integers here."""
    kind = ir.FunctionType(C_TYPES[result], [C_TYPES[letter] for letter in letters])
    function = cgutils.get_or_insert_function(builder.module, kind, name)
    if function.function_type != kind:  # numba has declared it otherwise
        function = builder.bitcast(function, kind.as_pointer())
    pairs = zip(letters, arguments, strict=True)
    given = [builder.inttoptr(a, POINTER) if letter == "p" and a.type == WORD else a for letter, a in pairs]
    found = builder.call(function, given)
    if result == "p":
        return builder.ptrtoint(found, WORD)
    return builder.sext(found, WORD) if result == "i" else found


def c_function(name: str, result: str, letters: str) -> Any:
    """A function of Python's C interface, for compiled code."""
    signature = NUMBA_TYPES[result](*(NUMBA_TYPES[letter] for letter in letters))

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return call(builder, name, result, letters, values)

    forms = (  # numba counts parameters
        lambda typing_context: (signature, codegen),
        lambda typing_context, a: (signature, codegen),
        lambda typing_context, a, b: (signature, codegen),
        lambda typing_context, a, b, c: (signature, codegen),
        lambda typing_context, a, b, c, d: (signature, codegen),
    )
    return intrinsic(forms[len(letters)])


dict_size = c_function("PyDict_Size", "n", "p")
dict_set = c_function("PyDict_SetItem", "i", "ppp")
dict_remove = c_function("PyDict_DelItem", "i", "pp")
list_append = c_function("PyList_Append", "i", "pp")
list_replace = c_function("PyList_SetSlice", "i", "pnnp")
tuple_size = c_function("PyTuple_Size", "n", "p")
tuple_item = c_function("PyTuple_GetItem", "p", "pn")
attribute = c_function("PyObject_GetAttr", "p", "pp")
set_attribute = c_function("PyObject_SetAttr", "i", "ppp")
new_int = c_function("PyLong_FromLongLong", "p", "n")
int_value = c_function("PyLong_AsLongLong", "n", "p")
new_float = c_function("PyFloat_FromDouble", "p", "d")
error_occurred = c_function("PyErr_Occurred", "p", "")
find = c_function("PyDict_GetItemWithError", "p", "pp")
order_of_texts = c_function("PyUnicode_Compare", "i", "pp")
this_thread = c_function("PyThread_get_thread_ident", "n", "")


@intrinsic
def next_item(typing_context: Any, row: Any, place: Any) -> Any:
    """The item of a dict at a place, from 0: whether there is one, the place of the next, key and value."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        slots = [cgutils.alloca_once(builder, WORD) for _ in range(3)]
        builder.store(values[1], slots[0])
        pointers = [builder.bitcast(slot, POINTER) for slot in slots]
        more = call(builder, "PyDict_Next", "i", "pppp", [values[0], *pointers])
        return context.make_tuple(builder, signature.return_type, [more, *map(builder.load, slots)])

    return types.UniTuple(types.intp, 4)(types.intp, types.intp), codegen


@intrinsic
def whole_number(typing_context: Any, value: Any) -> Any:
    """The value of an int as a C integer, and not 0 if it is too large for one."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        slot = cgutils.alloca_once(builder, ir.IntType(32))
        number = call(builder, "PyLong_AsLongLongAndOverflow", "n", "pp", [values[0], builder.bitcast(slot, POINTER)])
        overflow = builder.sext(builder.load(slot), WORD)
        return context.make_tuple(builder, signature.return_type, [number, overflow])

    return types.UniTuple(types.intp, 2)(types.intp), codegen


@intrinsic
def forget_error(typing_context: Any) -> Any:
    """Be as if no function of Python's had failed."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        context.get_python_api(builder).err_clear()
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def share(typing_context: Any, thing: Any) -> Any:
    """One reference more to an object."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        context.get_python_api(builder).incref(builder.inttoptr(values[0], POINTER))
        return values[0]

    return types.intp(types.intp), codegen


@intrinsic
def release(typing_context: Any, thing: Any) -> Any:
    """One reference less to an object."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        context.get_python_api(builder).decref(builder.inttoptr(values[0], POINTER))
        return context.get_dummy_value()

    return types.void(types.intp), codegen


@intrinsic
def ones(typing_context: Any, word: Any) -> Any:
    """How many bits of a word are 1."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.ctpop(values[0])

    return types.uint64(types.uint64), codegen


def at_address(kind: Any, result: Any) -> Any:
    """Reads what is at an address, so many bytes beyond it."""

    def typed(typing_context: Any, address: Any, offset: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            place = builder.inttoptr(builder.add(values[0], values[1]), kind.as_pointer())
            found = builder.load(place)
            return found if kind in (WORD, REAL) else builder.sext(found, WORD)

        return result(types.intp, types.intp), codegen

    return intrinsic(typed)


word_at, half_at, real_at = (
    at_address(kind, result)
    for kind, result in ((WORD, types.intp), (ir.IntType(32), types.intp), (REAL, types.float64))
)


# --- what a function works on -----------------------------------------------------------------


class BlockType(types.Type):  # type: ignore[misc]
    """The address of a named tuple of this compiled type, whose values are the attributes of the block."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        super().__init__(f"Block({kind})")


class HeldType(types.Type):  # type: ignore[misc]
    """An array of numpy's whose data are a block."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        super().__init__(f"Held({kind})")


@register_model(HeldType)
@register_model(BlockType)
class _PointerModel(models.OpaqueModel):  # type: ignore[misc]
    pass


@intrinsic
def block_in(typing_context: Any, held: Any) -> Any:
    """The block that is the data of an array."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        place = builder.add(builder.ptrtoint(values[0], WORD), WORD(DATA))
        return builder.load(builder.inttoptr(place, POINTER.as_pointer()))

    return BlockType(held.kind)(held), codegen


@infer_getattr
class _Values(AttributeTemplate):  # type: ignore[misc]
    key = BlockType

    def generic_resolve(self, block: BlockType, name: str) -> Any:
        fields = block.kind.fields
        return lent(block.kind.types[fields.index(name)]) if name in fields else None  # nobody counts references


@lower_getattr_generic(BlockType)
def _value(context: Any, builder: Any, block: BlockType, value: Any, name: str) -> Any:
    place = builder.bitcast(value, context.get_value_type(block.kind).as_pointer())
    return builder.load(cgutils.gep_inbounds(builder, place, 0, block.kind.fields.index(name)))


def without_owner(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """The same value; nobody counts references to arrays in it."""
    if isinstance(kind, types.BaseTuple):
        items = cgutils.unpack_tuple(builder, value)
        parts = [without_owner(context, builder, k, v) for k, v in zip(kind.types, items, strict=True)]
        return context.make_tuple(builder, kind, parts)
    if isinstance(kind, types.Array):
        array = cgutils.create_struct_proxy(kind)(context, builder, value=value)
        array.meminfo = cgutils.get_null_value(array.meminfo.type)
        array.parent = cgutils.get_null_value(array.parent.type)
        return array._getvalue()
    if isinstance(kind, ComponentType):
        struct = cgutils.create_struct_proxy(kind)(context, builder, value=value)
        for name, field in kind.fields:
            setattr(struct, name, without_owner(context, builder, field, getattr(struct, name)))
        return struct._getvalue()
    return value


@intrinsic
def _store(typing_context: Any, address: Any, size: Any, values: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = context.get_value_type(values)
        needed = WORD(context.get_abi_sizeof(kind))
        with builder.if_then(builder.icmp_signed("<=", needed, arguments[1])):
            value = without_owner(context, builder, values, arguments[2])
            builder.store(value, builder.inttoptr(arguments[0], kind.as_pointer()))
        return needed

    return types.intp(types.intp, types.intp, values), codegen


@jit
def keep(address, size, values):  # type: ignore[no-untyped-def]
    """Store values in a block of so many bytes, if they fit; return how many they need."""
    return _store(address, size, values)


class HeldBlock(np.ndarray[Any, Any]):
    """A block of memory, and what its values point to."""

    alive: Any


def block_of(values: tuple[Any, ...], alive: Any) -> HeldBlock:
    """A block that holds these values; what they point to is kept alive with it, and `alive`."""
    block, needed = np.zeros(512, np.int64), 0
    store = bind(keep, block.ctypes.data, block.nbytes, values)
    needed = store(block.ctypes.data, block.nbytes, values)
    if needed > block.nbytes:
        block = np.zeros(-(-needed // 8), np.int64)
        store(block.ctypes.data, block.nbytes, values)
    whole = block.view(HeldBlock)
    whole.alive = values, alive
    return whole


# --- functions --------------------------------------------------------------------------------


@intrinsic
def attempted(typing_context: Any, function: Any, arguments: Any) -> Any:
    """Whether a kernel raises, and what it returns unless it does; if it does, Python knows of the exception."""
    signature = typing_context.resolve_function_type(function, arguments.types, {})
    both = types.Tuple((types.boolean, signature.return_type))

    def codegen(context: Any, builder: Any, whole: Any, values: Any) -> Any:
        found = function.dispatcher.get_compile_result(signature)
        context.add_linking_libs([found.library])
        items = cgutils.unpack_tuple(builder, values[1])
        status, result = context.call_internal_no_propagate(builder, found.fndesc, signature, items)
        with builder.if_then(status.is_error, likely=False):
            context.call_conv.raise_error(builder, context.get_python_api(builder), status)
        return context.make_tuple(builder, both, [status.is_error, result])

    return both(function, arguments), codegen


class MethodDef(ctypes.Structure):
    """Python's description of a function written in C."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("code", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


#: A function that is called with an array of arguments, and their number.
METH_FASTCALL = 0x0080


#: All definitions that were made: a function points at its own without owning a reference.
_definitions: list[MethodDef] = []


@functools.cache
def definition(kernel: Any, kind: Any) -> MethodDef:
    """Return the definition of a kernel for blocks of this type; it is never freed.

    Threads that call this at once may each make a definition, of which the cache keeps the last one only.
    """
    arguments = (HeldType(kind), types.intp, types.intp)
    kernel.compile(arguments)
    found = kernel.overloads[arguments]
    code = found.library.get_pointer_to_function(found.fndesc.llvm_cfunc_wrapper_name)
    made = MethodDef(kernel.__name__.encode(), code, METH_FASTCALL, None)
    _definitions.append(made)
    return made


def python_function(kernel: Any, values: tuple[Any, ...], alive: Any) -> Any:
    """A Python function that runs `kernel(held, arguments, count)`, where `block_in(held)` has these values.

    The kernel returns the address of an object that the caller owns from then on, or 0 after an error. The function
    keeps alive what the values point to, and `alive`.
    """
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    return new(ctypes.addressof(definition(kernel, typeof(values))), block_of(values, alive), None)
