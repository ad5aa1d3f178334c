"""Components as compiled values: their types in numba, and the kernels that take them.

The type of a component is named by strings alone: module, class, fingerprint of the code it runs, digest of the
library's own compiled code, and the types of its fields. Hence a cached kernel is found again by any later process,
also for classes defined in a script; an edit of a component, of a helper it calls, or of any file in `CALLED` changes
the name and compiles anew; and reading the cache never imports a user's module.

So a kernel that takes a component may call kernels of its own file and of all files in `CALLED`. A kernel that takes
none may call kernels of its own file only, since numba's cache notices edits of that file alone; if it is made by
`jit_beside`, kernels of its folder and of `CALLED_BESIDE`.
"""

from __future__ import annotations

import dataclasses
import dis
import functools
import itertools
import math
import types as python_types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, typeof
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.core.imputils import impl_ret_borrowed, lower_cast
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    intrinsic,
    lower_getattr_generic,
    models,
    overload,
    register_model,
    typeof_impl,
    unbox,
)

from fiol.compiler import helping
from fiol.compiler.cache import kept
from fiol.compiler.fingerprint import code_parts, digest, fingerprint, methods_of, source_digest
from fiol.compiler.forking import wait_for_compiler
from fiol.components.component import (
    Component,
    InPlace,
    add_to_score,
    borrowed,
    choose_row_storage,
    common_factor,
    count_scores,
    flatten,
    flatten_rows,
    get_center,
    get_first_weights,
    get_row_weight,
    get_weight,
    next_score,
    own_factor,
    score_after_row,
    score_before_row,
    set_row_weight,
    set_score,
    set_weight,
    value_at,
    weights_of_score,
    zero_score,
)
from fiol.components.simd import (
    anywhere,
    both_lanes,
    choose,
    decay,
    exponential,
    first_lanes,
    is_short,
    lane,
    lane_exponential,
    lane_log_one_plus,
    lanes,
    larger,
    like_lanes,
    load_lanes,
    log_of_ratio,
    log_of_small_ratio,
    log_one_plus,
    near_one,
    repeated,
    rough_log2,
    second_of_both,
    small_expm1,
    smaller,
    square_root,
    store,
    total,
    totals,
    whole_power,
    with_first,
    with_lane,
)
from fiol.components.step_sizes.rule import FORMULAS

#: Sums may be reordered, so that they vectorise. Nothing is assumed about NaN and infinity.
FAST = {"nsz", "arcp", "contract", "reassoc"}
#: Of what has no loop, that would depend on the kernel around it.
AS_WRITTEN = {"nsz", "contract"}

#: Folders and files of the library that kernels elsewhere call into, or whose tuples they take apart.
CALLED: tuple[str, ...] = ("compiler", "engine", "components/simd.py", "components/row.py")
CALLED += ("components/step_sizes/rule.py", "features/canonicalize.py", "algorithms/state.py")
#: Part of every type's name, so that an edit of any of these files compiles anew.
ROOT = Path(__file__).parents[1]
LAYER = source_digest(ROOT, CALLED)
#: Files that kernels made by `jit_beside` call into, beside those of their folder.
CALLED_BESIDE = ("features/murmur.py",)

wait_for_compiler()

_classes: dict[str, type[Component]] = {}
_tags: dict[type[Component], str] = {}
_verbs: dict[str, tuple[int, str]] = {}
_helpers: set[python_types.FunctionType] = set()
_types: dict[Any, ComponentType] = {}
_bound: dict[Any, Any] = {}


#: How kernels are compiled.
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": FAST, "forceinline": True}
OPTIONS["no_cfunc_wrapper"] = True  # nobody calls them as functions of C
#: How their parts are: methods, helpers, and functions that are `inlined`.
INNER: dict[str, Any] = {**OPTIONS, "no_cpython_wrapper": True}
linking: Any
try:
    from fiol.compiler import linking
except ImportError:  # numba's insides are not as expected: all the same, but up to twice as long
    linking = None

    def unobserved(part: Any) -> Any:
        return part
else:
    unobserved = linking.unobserved
    OPTIONS, INNER = OPTIONS | {"pipeline_class": linking.WHOLE}, INNER | {"pipeline_class": linking.PART}
vectors: Any
try:
    from fiol.compiler import lanes as vectors
except (ImportError, AttributeError):  # no lanes: members of ensembles learn one after the other
    vectors = None
#: And methods and helpers, which `overload` would otherwise try to run in the interpreter.
METHOD: Any = {**INNER, "nopython": True}


def inlined(function: Callable[..., Any]) -> Any:
    """Compile `function` into the kernels that call it. Without a loop, none of its sums is rearranged."""
    loops = any(i.opname == "FOR_ITER" for i in dis.get_instructions(function))
    return unobserved(njit(**(INNER if loops else {**INNER, "fastmath": AS_WRITTEN}))(function))


def inlined_strictly(function: Callable[..., Any]) -> Any:
    """`inlined`, and no sum or quotient in it is rearranged: the same bits in whatever kernel it ends up."""
    return unobserved(njit(**{**INNER, "fastmath": False})(function))


def jit(function: Callable[..., Any] | None = None, *, nogil: bool = True) -> Any:
    """Compile `function` on first call, cached on disk wherever a directory can be written.

    With `nogil=False` it holds the interpreter's lock while it runs.
    """
    if function is None:
        return functools.partial(jit, nogil=nogil)
    return kept(njit(**{**OPTIONS, "nogil": nogil})(function))


def jit_beside(function: Callable[..., Any]) -> Any:
    """`jit` for a kernel that calls kernels of its folder, and of `CALLED_BESIDE`: an edit of any compiles it anew."""
    files = *Path(function.__code__.co_filename).parent.glob("*.py"), *(ROOT / name for name in CALLED_BESIDE)
    return kept(njit(**OPTIONS)(function), sorted(file for file in files if file.exists()))


@functools.cache
def interpreted(kernel: Any) -> Callable[..., Any]:
    """The plain Python function behind a kernel, calling the plain functions behind the kernels it calls."""
    function = getattr(kernel, "py_func", kernel)
    names = {i.argval for i in dis.get_instructions(function) if i.opname == "LOAD_GLOBAL"}
    kernels = {name: function.__globals__.get(name) for name in names}
    plain = {name: interpreted(found) for name, found in kernels.items() if hasattr(found, "py_func")}
    return python_types.FunctionType(function.__code__, {**function.__globals__, **plain}, function.__name__)


def bind(kernel: Any, *arguments: Any) -> Callable[..., Any]:
    """`kernel` compiled for arguments of these types, to be called without looking at types again."""
    if not hasattr(kernel, "compile"):
        return kernel
    if helping.asked_for is not None:
        helping.asked_for.append((kernel, tuple(map(typeof, arguments))))
        return helping.nothing_done
    key = kernel, *map(kind_of, arguments)
    if key not in _bound:
        _bound[key] = kernel.compile(tuple(map(typeof, arguments)))
    return _bound[key]


def kind_of(value: Any) -> Any:
    """A key that tells apart values of different compiled types, found in a tenth of the time that the type takes."""
    if isinstance(value, np.ndarray):
        return value.dtype, value.ndim, value.flags.num
    if isinstance(value, tuple):
        return type(value), *map(kind_of, value)
    return typeof(value) if isinstance(value, Component) else type(value)


class ComponentType(types.Type):  # type: ignore[misc]
    """A struct of a component's fields."""

    def __init__(self, tag: str, fields: list[tuple[str, types.Type]]) -> None:
        self.tag, self.fields = tag, tuple(fields)
        super().__init__(f"{tag}({', '.join(f'{name}: {kind}' for name, kind in self.fields)})")


def type_of(component: Component) -> ComponentType:
    """The compiled type of `component`, its methods and their helpers registered."""
    cls = type(component)
    if cls not in _tags:
        for verb, method in methods_of(cls).items():
            _register(verb, method, cls)
        code, helpers = fingerprint(cls)
        for helper in helpers - _helpers:
            _helpers.add(helper)
            _register_helper(helper)
        tag = f"{cls.__module__}.{cls.__qualname__}@{code}.{LAYER}"
        _tags[cls], _classes[tag] = tag, cls
    fields = tuple((f.name, typeof(getattr(component, f.name))) for f in dataclasses.fields(cls))  # type: ignore[arg-type]
    key = cls, fields
    if key not in _types:  # its name is long
        _types[key] = ComponentType(_tags[cls], list(fields))
    return _types[key]


@functools.cache
def portable(function: python_types.FunctionType) -> python_types.FunctionType:
    """A copy fit for the cache: from this file, and with a name that no other code has.

    Cached code imports the modules of its functions when it is loaded, and two pieces of it that both
    contain a function of one name end up with the same one.
    """
    parts = (function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    copy = python_types.FunctionType(function.__code__, *parts)
    copy.__module__ = __name__
    copy.__qualname__ = f"{function.__qualname__}@{digest(code_parts(function, set()))}"
    return copy


def _register_helper(helper: python_types.FunctionType) -> None:
    """Make calls of `helper` from a component's method compile to its own code."""
    overload(helper, strict=False, jit_options=METHOD)(lambda *args, **kwargs: portable(helper))  # type: ignore[call-arg]


def _register(verb: str, method: python_types.FunctionType, cls: type) -> None:
    """Note how many arguments a verb takes; TypeError if another class has the same verb with another number."""
    code = method.__code__
    arity, owner = code.co_argcount + code.co_kwonlyargcount, f"{cls.__module__}.{cls.__qualname__}"
    known, first = _verbs.setdefault(verb, (arity, owner))
    if arity != known:
        if owner != first:
            raise TypeError(
                f"{cls.__qualname__}.{verb} takes {arity - 1} arguments where {first}.{verb} takes {known - 1}: "
                "one name has one number of arguments, so rename it"
            )
        _verbs[verb] = arity, owner  # the class was defined again, as one does in a notebook


class MethodType(types.BoundFunction):  # type: ignore[misc]
    """A method of a component of type `this`: a call compiles to the method of the component's own class."""

    def __init__(self, function: python_types.FunctionType, this: ComponentType) -> None:
        self.function, self.this = function, this
        self.callee = types.Dispatcher(_compiled_method(function))
        types.Type.__init__(self, f"{function.__qualname__} of {this}")

    @property
    def key(self) -> Any:
        return self.function, self.this

    def unify(self, context: Any, other: Any) -> None:
        return None

    def get_impl_key(self, signature: Any) -> Any:
        return self.callee.get_impl_key(signature)

    def get_call_type(self, context: Any, args: Any, kws: Any) -> Any:
        plain = [types.unliteral(kind) for kind in args]
        named = {name: types.unliteral(kind) for name, kind in kws.items()}
        found: Any = self.callee.get_call_type(context, (self.this, *plain), named)
        return found.as_method()

    def get_call_signatures(self) -> Any:
        return self.callee.get_call_signatures()


@register_model(MethodType)
def _method_model(manager: Any, kind: MethodType) -> Any:
    return manager[kind.this]


@functools.cache
def _compiled_method(function: python_types.FunctionType) -> Any:
    """A method, compiled into the kernels that call it."""
    return inlined(portable(function))


@typeof_impl.register(Component)
def _typeof(value: Component, context: Any) -> ComponentType:
    # Kept on the instance under the name numba looks for first, so that later calls dispatch fast.
    if not hasattr(value, "_numba_type_"):
        object.__setattr__(value, "_leaves_", tuple(leaves(value)))
        object.__setattr__(value, "_numba_type_", type_of(value))
    return value._numba_type_  # type: ignore[attr-defined]


@register_model(ComponentType)
class _Model(models.StructModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: ComponentType) -> None:
        super().__init__(manager, kind, list(kind.fields))


@infer_getattr
class _Fields(AttributeTemplate):  # type: ignore[misc]
    key = ComponentType

    def generic_resolve(self, kind: ComponentType, name: str) -> Any:
        found = constant_of(kind, name)
        if isinstance(found, types.Type):
            return found
        if isinstance(found, python_types.FunctionType):
            return MethodType(found, kind)
        return typeof(found) if isinstance(found, (int, float)) else None


def constant_of(kind: Any, name: str) -> Any:
    """What a component of this type has under a name: the type of a field, or what its class has; else None."""
    if not isinstance(kind, ComponentType):
        return None
    return dict(kind.fields).get(name) or getattr(_classes[kind.tag], name, None)


if linking is not None:
    linking.constant_lookup = constant_of


@lower_getattr_generic(ComponentType)
def _getattr(context: Any, builder: Any, kind: ComponentType, value: Any, name: str) -> Any:
    fields = dict(kind.fields)
    if name not in fields:
        constant = getattr(_classes[kind.tag], name)
        return context.get_constant(typeof(constant), constant)
    found = builder.extract_value(value, list(fields).index(name))
    return impl_ret_borrowed(context, builder, fields[name], found)


def leaves(component: Component) -> list[Any]:
    """The numbers and arrays of a component and of those inside it, in the order of the fields."""
    values = (getattr(component, field.name) for field in dataclasses.fields(component))  # type: ignore[arg-type]
    return [leaf for value in values for leaf in (leaves(value) if isinstance(value, Component) else [value])]


@unbox(ComponentType)
def _unbox(kind: ComponentType, obj: Any, c: Any) -> NativeValue:
    # From one flat tuple: fetching attribute by attribute takes longer than a round with twenty features.
    flat, places = c.pyapi.object_getattr_string(obj, "_leaves_"), itertools.count()

    def build(part: ComponentType) -> Any:
        struct = cgutils.create_struct_proxy(part)(c.context, c.builder)
        for name, field in part.fields:
            if isinstance(field, ComponentType):
                setattr(struct, name, build(field))
            else:
                setattr(struct, name, c.unbox(field, c.pyapi.tuple_getitem(flat, next(places))).value)
        return struct._getvalue()

    value = build(kind)
    c.pyapi.decref(flat)
    failed = cgutils.is_not_null(c.builder, c.pyapi.err_occurred())
    return NativeValue(value, is_error=failed)


@overload(value_at, strict=False, jit_options=METHOD)
def _value_at(values: Any, i: Any) -> Any:
    if isinstance(values, types.Array):
        return lambda values, i: values[np.uint64(i)]
    return lambda values, i: values


@overload(common_factor, strict=False, jit_options=METHOD)
def _common_factor(values: Any) -> Any:
    return (lambda values: 1.0) if isinstance(values, types.Array) else lambda values: values


@overload(own_factor, strict=False, jit_options=METHOD)
def _own_factor(values: Any, k: Any) -> Any:
    if isinstance(values, types.Array):
        return lambda values, k: values[np.uint64(k)]
    return lambda values, k: 1.0


@overload(count_scores, strict=False, jit_options=METHOD)
def _count_scores(w: Any) -> Any:
    return (lambda w: 1) if w.ndim == 1 else lambda w: w.shape[1]


@overload(next_score, strict=False, jit_options=METHOD)
def _next_score(w: Any, k: Any) -> Any:
    return (lambda w, k: 1) if w.ndim == 1 else lambda w, k: k + 1


@overload(get_weight, strict=False, jit_options=METHOD)
def _get_weight(w: Any, i: Any, k: Any) -> Any:
    return (lambda w, i, k: w[i]) if w.ndim == 1 else lambda w, i, k: w[i, np.uint64(k)]


@overload(set_weight, strict=False, jit_options=METHOD)
def _set_weight(w: Any, i: Any, k: Any, value: Any) -> Any:
    def single(w: Any, i: Any, k: Any, value: Any) -> None:
        w[i] = value

    def many(w: Any, i: Any, k: Any, value: Any) -> None:
        w[i, np.uint64(k)] = value

    return single if w.ndim == 1 else many


@overload(weights_of_score, strict=False, jit_options=METHOD)
def _weights_of_score(w: Any, k: Any) -> Any:
    return (lambda w, k: w) if w.ndim == 1 else lambda w, k: w[:, k]


@overload(add_to_score, strict=False, jit_options=METHOD)
def _add_to_score(z: Any, k: Any, value: Any) -> Any:
    def many(z: Any, k: Any, value: Any) -> Any:
        z[np.uint64(k)] += value
        return z

    return many if isinstance(z, types.Array) else lambda z, k, value: z + value


@overload(zero_score, strict=False, jit_options=METHOD)
def _zero_score(z: Any) -> Any:
    def many(z: Any) -> Any:
        for k in range(z.shape[0]):
            z[k] = 0.0
        return z

    return many if isinstance(z, types.Array) else lambda z: 0.0


@overload(score_before_row, strict=False, jit_options=METHOD)
def _score_before_row(intercept: Any) -> Any:
    return (lambda intercept: intercept) if isinstance(intercept, types.Array) else lambda intercept: 0.0


@overload(score_after_row, strict=False, jit_options=METHOD)
def _score_after_row(z: Any, intercept: Any) -> Any:
    return (lambda z, intercept: z) if isinstance(z, types.Array) else lambda z, intercept: z + intercept


@overload(choose_row_storage, strict=False, jit_options=METHOD)
def _choose_row_storage(lazy_update: Any, w: Any, buffer: Any) -> Any:
    in_place = w.ndim == 2 and _classes[lazy_update.tag].in_place  # type: ignore[attr-defined]
    return (lambda lazy_update, w, buffer: InPlace(w)) if in_place else lambda lazy_update, w, buffer: buffer


@overload(get_row_weight, strict=False, jit_options=METHOD)
def _get_row_weight(weights: Any, i: Any, j: Any, k: Any) -> Any:
    if isinstance(weights, types.BaseTuple):
        return lambda weights, i, j, k: get_weight(weights.w, i, k)
    return lambda weights, i, j, k: get_weight(weights, j, k)


@overload(set_row_weight, strict=False, jit_options=METHOD)
def _set_row_weight(weights: Any, i: Any, j: Any, k: Any, value: Any) -> Any:
    def kept(weights: Any, i: Any, j: Any, k: Any, value: Any) -> None:
        set_weight(weights.w, i, k, value)

    def side_by_side(weights: Any, i: Any, j: Any, k: Any, value: Any) -> None:
        set_weight(weights, j, k, value)

    return kept if isinstance(weights, types.BaseTuple) else side_by_side


@overload(get_center, strict=False, jit_options=METHOD)
def _get_center(center: Any, new: Any, i: Any, j: Any, k: Any) -> Any:
    if isinstance(center, types.BaseTuple):
        return lambda center, new, i, j, k: get_row_weight(new, i, j, k)
    return lambda center, new, i, j, k: get_row_weight(center, i, j, k)


@overload(get_first_weights, strict=False, jit_options=METHOD)
def _get_first_weights(weights: Any) -> Any:
    in_place = isinstance(weights, types.BaseTuple)
    return (lambda weights: weights.w[0]) if in_place else lambda weights: weights[0]


@overload(set_score, strict=False, jit_options=METHOD)
def _set_score(scores: Any, r: Any, z: Any) -> Any:
    def single(scores: Any, r: Any, z: Any) -> None:
        scores[r] = z

    return single if scores.ndim == 1 else lambda scores, r, z: None


class BorrowedArray(types.Array):  # type: ignore[misc]
    """An array that somebody else keeps alive, to be written to by whoever knows that it may be.

    Laid out as any other array; by its type no code that counts references is made for it.
    """

    def copy(self, dtype: Any = None, ndim: Any = None, layout: Any = None, readonly: Any = None) -> BorrowedArray:
        return lent(super().copy(dtype, ndim, layout, readonly))

    @property
    def mangling_args(self) -> Any:
        return "Lent", [self.dtype, self.ndim, self.layout]


@register_model(BorrowedArray)
class _BorrowedModel(models.ArrayModel):  # type: ignore[misc]
    def has_nrt_meminfo(self) -> bool:
        return False

    def get_nrt_meminfo(self, builder: Any, value: Any) -> None:
        return None

    def traverse(self, builder: Any) -> list[Any]:
        return []


@lower_cast(BorrowedArray, types.Array)
@lower_cast(BorrowedArray, BorrowedArray)
def _shared(context: Any, builder: Any, kind: Any, target: Any, value: Any) -> Any:
    return value  # owned by nobody that is counted


def lent(kind: Any) -> Any:
    """The type of `borrowed` values of this type."""
    if isinstance(kind, types.BaseTuple):
        return types.BaseTuple.from_types([lent(k) for k in kind.types], getattr(kind, "instance_class", None))
    if isinstance(kind, types.Array):
        name = f"borrowed array({kind.dtype}, {kind.ndim}d, {kind.layout})"
        return BorrowedArray(kind.dtype, kind.ndim, kind.layout, name=name)
    if isinstance(kind, ComponentType):
        fields = [(name, lent(field)) for name, field in kind.fields]
        return kind if tuple(fields) == kind.fields else ComponentType(kind.tag, fields)
    return kind


@overload(borrowed, strict=False, jit_options=METHOD)
def _borrowed(values: Any) -> Any:
    return lambda values: _without_owner(values)  # type: ignore[call-arg]


@intrinsic
def _without_owner(typing_context: Any, values: Any) -> Any:
    def strip(context: Any, builder: Any, kind: Any, value: Any) -> Any:
        if isinstance(kind, types.BaseTuple):
            items = cgutils.unpack_tuple(builder, value)
            parts = [strip(context, builder, k, v) for k, v in zip(kind.types, items, strict=True)]  # type: ignore[attr-defined]
            return context.make_tuple(builder, lent(kind), parts)
        if isinstance(kind, ComponentType):
            struct = ir.Constant(context.get_value_type(lent(kind)), ir.Undefined)
            for place, (_, field) in enumerate(kind.fields):
                part = strip(context, builder, field, builder.extract_value(value, place))
                struct = builder.insert_value(struct, part, place)
            return struct
        if not isinstance(kind, types.Array):
            return value
        fields = context.data_model_manager[kind]._fields
        for name in ("meminfo", "parent"):
            place = fields.index(name)
            value = builder.insert_value(value, cgutils.get_null_value(value.type.elements[place]), place)
        return value

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return strip(context, builder, values, arguments[0])

    return lent(values)(values), codegen


@overload(flatten, strict=False, jit_options=METHOD)
def _flatten(values: Any) -> Any:
    return lambda values: _on_last_axis(values)  # type: ignore[call-arg]


@overload(flatten_rows, strict=False, jit_options=METHOD)
def _flatten_rows(values: Any) -> Any:
    return lambda values: _on_last_axis_of_rows(values)  # type: ignore[call-arg]


def _flattened(values: Any, axes: int) -> Any:
    """How an array becomes one of so many axes, of which the last is all that was behind the others."""
    if not isinstance(values, types.Array) or values.layout != "C":
        raise TypingError("flatten takes an array whose rows follow each other in memory")
    kind = lent(types.Array(values.dtype, axes, "C"))

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = cgutils.create_struct_proxy(values)(context, builder, value=arguments[0])
        line = cgutils.create_struct_proxy(kind)(context, builder)
        line.data, line.nitems, line.itemsize = array.data, array.nitems, array.itemsize
        line.meminfo, line.parent = (cgutils.get_null_value(part.type) for part in (line.meminfo, line.parent))
        shape = cgutils.unpack_tuple(builder, array.shape)
        strides = cgutils.unpack_tuple(builder, array.strides)[: axes - 1]
        last = functools.reduce(builder.mul, shape[axes - 1 :]) if axes > 1 else array.nitems
        line.shape = cgutils.pack_array(builder, [*shape[: axes - 1], last])
        line.strides = cgutils.pack_array(builder, [*strides, array.itemsize])
        return line._getvalue()

    return kind(values), codegen


@intrinsic
def _on_last_axis(typing_context: Any, values: Any) -> Any:
    return _flattened(values, 1)


@intrinsic
def _on_last_axis_of_rows(typing_context: Any, values: Any) -> Any:
    return _flattened(values, 2)


def prefetch(values: Any, i: Any) -> None:
    """Ask for values[i] to be in the cache soon. Rows in random order otherwise wait for memory one after the other."""


@overload(prefetch, strict=False, jit_options=METHOD)
def _prefetch(values: Any, i: Any) -> Any:
    return lambda values, i: _ask_for(values, np.int64(i))  # type: ignore[call-arg]


@intrinsic
def _ask_for(typing_context: Any, values: Any, i: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = cgutils.create_struct_proxy(values)(context, builder, value=arguments[0])
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        ask = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        place = builder.bitcast(builder.gep(array.data, [arguments[1]]), byte)
        builder.call(ask, [place, word(0), word(3), word(1)])  # to read, into all caches, data
        return context.get_dummy_value()

    return types.void(values, i), codegen


# --- numbers and lanes ------------------------------------------------------------------------


def in_lanes(*kinds: Any) -> bool:
    """Whether any of these types is one of lanes."""
    return vectors is not None and any(isinstance(kind, vectors.Lanes) for kind in kinds)


@overload(choose, strict=False, jit_options=METHOD)
def _choose(condition: Any, a: Any, b: Any) -> Any:
    if in_lanes(condition):
        return lambda condition, a, b: vectors.chosen(condition, a, b)
    return lambda condition, a, b: a if condition else b


@overload(larger, strict=False, jit_options=METHOD)
def _larger(a: Any, b: Any) -> Any:
    return lambda a, b: choose(b > a, b, a)


@overload(smaller, strict=False, jit_options=METHOD)
def _smaller(a: Any, b: Any) -> Any:
    return lambda a, b: choose(b < a, b, a)


@overload(anywhere, strict=False, jit_options=METHOD)
def _anywhere(condition: Any) -> Any:
    return (lambda condition: vectors.any_lane(condition)) if in_lanes(condition) else lambda condition: condition


@overload(square_root, strict=False, jit_options=METHOD)
def _square_root(x: Any) -> Any:
    return (lambda x: vectors.root_of(x)) if in_lanes(x) else lambda x: math.sqrt(x)


@overload(exponential, strict=False, jit_options=METHOD)
def _exponential(x: Any) -> Any:
    return (lambda x: lane_exponential(x)) if in_lanes(x) else lambda x: math.exp(x)


@overload(log_one_plus, strict=False, jit_options=METHOD)
def _log_one_plus(x: Any) -> Any:
    return (lambda x: lane_log_one_plus(x)) if in_lanes(x) else lambda x: math.log1p(x)


for _helper in (
    lane_exponential,
    small_expm1,
    near_one,
    lane_log_one_plus,
    log_of_ratio,
    log_of_small_ratio,
    decay,
    repeated,
    *FORMULAS,
):
    _helpers.add(_helper)  # type: ignore[arg-type]
    _register_helper(_helper)  # type: ignore[arg-type]


def form(function: Callable[..., Any], made: Callable[..., Any]) -> None:
    """Let a function compile to another."""
    overload(function, strict=False, jit_options=METHOD)(lambda *args: made)


def _define_lanes() -> None:
    """The compiled forms of what there is for lanes alone, and of what takes doubles apart."""
    form(lanes, lambda numbers: vectors.from_tuple(numbers))
    form(like_lanes, lambda values, like: vectors.as_kind(values, like))

    @overload(is_short, strict=False, jit_options=METHOD)
    def _is_short(like: Any) -> Any:
        return (lambda like: True) if like.element == types.float32 else lambda like: False

    form(load_lanes, lambda values, place, like: vectors.loaded(values, place, like))
    form(store, lambda values, place, new: vectors.stored(values, place, new))
    form(lane, lambda values, k: vectors.lane_of(values, k))
    form(with_lane, lambda values, k, x: vectors.lane_replaced(values, k, x))
    form(first_lanes, lambda values, like: vectors.first_of(values, like))
    form(with_first, lambda values, first: vectors.first_replaced(values, first))
    form(both_lanes, lambda a, b: vectors.put_together(a, b))
    form(second_of_both, lambda values, like: vectors.some_behind(values, like))
    form(total, lambda values: vectors.sum_of(values))
    form(totals, lambda a, b, c, d: vectors.sums_of(a, b, c, d))
    form(whole_power, lambda x: vectors.power_of_two(x))
    form(rough_log2, lambda x: vectors.exponent_bits(x))


def _define_numbers() -> None:
    """The same for one lane, which is its number, where there are no vectors."""
    form(lanes, lambda numbers: numbers[0])
    form(lane, lambda values, k: values)
    form(whole_power, lambda x: (np.rint(x), math.ldexp(1.0, int(np.rint(x)))))
    form(rough_log2, lambda x: 2.0 * math.frexp(x)[0] - 2.0 + math.frexp(x)[1])


if vectors is not None:
    _define_lanes()
else:
    _define_numbers()
