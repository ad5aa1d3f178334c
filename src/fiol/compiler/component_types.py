"""Components as compiled values: their types, fields, constants and methods in numba.

The type of a component is named by strings alone: module, class, fingerprint of the code it runs, digest of the
library's own compiled code, and the types of its fields. Hence a cached kernel is found again by any later process,
also for classes defined in a script; an edit of a component, of a helper it calls, or of any file in `CALLED` changes
the name and compiles anew; and reading the cache never imports a user's module.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import types as python_types
from pathlib import Path
from typing import Any

from fiol.compiler import linking
from fiol.compiler.fingerprint import code_parts, digest, fingerprint, source_digest
from fiol.compiler.numba_names import (
    AttributeTemplate,
    NativeValue,
    cgutils,
    config,
    impl_ret_borrowed,
    infer_getattr,
    infer_global,
    lower_getattr_generic,
    models,
    register_model,
    typeof,
    typeof_impl,
    types,
    unbox,
)
from fiol.compiler.options import inlined
from fiol.components.component import Component

#: Folders and files of the library that kernels elsewhere call into, or whose tuples they take apart.
CALLED: tuple[str, ...] = ("compiler", "engine", "components/simd.py", "components/row.py")
CALLED += ("components/step_sizes/rule.py", "features/canonicalize.py", "features/basis_loops.py")
CALLED += ("algorithms/state.py", "algorithms/stored_weights.py")
ROOT = Path(__file__).parents[1]
#: Part of every type's name, so that an edit of any of these files compiles anew.
LAYER = source_digest(ROOT, CALLED)

_classes: dict[str, type[Component]] = {}
_tags: dict[type[Component], str] = {}
_helpers: set[Any] = set()
_types: dict[Any, ComponentType] = {}


class ComponentType(types.Type):
    """A struct of a component's fields."""

    def __init__(self, tag: str, fields: list[tuple[str, types.Type]]) -> None:
        self.tag, self.fields = tag, tuple(fields)
        fields_text = ", ".join(f"{name}: {kind}" for name, kind in self.fields)
        # By a digest: types nest, and their full names fill a page.
        super().__init__(f"{tag}({digest([fields_text.encode()]) if fields_text else ''})")

    def attribute(self, name: str) -> Any:
        """Return the type of a field, a constant or method of the class, or None."""
        return dict(self.fields).get(name) or getattr(_classes[self.tag], name, None)


def type_of(component: Component) -> ComponentType:
    """Return the compiled type of `component`, after its methods and their helpers are registered."""
    cls = type(component)
    if cls not in _tags:
        code, helpers = fingerprint(cls)
        register_helpers(*helpers)
        mode = "" if linking.switched_on() else ".unlinked"
        tag = f"{cls.__module__}.{cls.__qualname__}@{code}.{LAYER}{mode}"
        _tags[cls], _classes[tag] = tag, cls
    fields = tuple((f.name, typeof(getattr(component, f.name))) for f in dataclasses.fields(cls))  # type: ignore[arg-type]
    if (cls, fields) not in _types:
        _types[cls, fields] = ComponentType(_tags[cls], list(fields))
    return _types[cls, fields]


# --- code -------------------------------------------------------------------------------------


@functools.cache
def portable(function: python_types.FunctionType) -> python_types.FunctionType:
    """Return a copy fit for the cache: from this file, and with a name that no other code has.

    Cached code imports the modules of its functions when it is loaded, and two pieces of it that both
    contain a function of one name end up with the same one.
    """
    parts = (function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    copy = python_types.FunctionType(function.__code__, *parts)
    copy.__module__ = __name__
    copy.__qualname__ = f"{function.__qualname__}@{digest(code_parts(function, set()))}"
    return copy


@functools.cache
def compiled_function(function: python_types.FunctionType) -> Any:
    """Return a method or helper that is compiled into the kernels that call it."""
    return inlined(portable(function))


def register_helpers(*helpers: Any) -> None:
    """Let calls of these plain functions from compiled code compile to their own code."""
    for helper in helpers:
        if helper not in _helpers and not config.DISABLE_JIT:
            _helpers.add(helper)
            infer_global(helper, types.Dispatcher(compiled_function(helper)))


class MethodType(types.BoundFunction):
    """A method of a component of type `this`: a call compiles to the method of the component's own class."""

    def __init__(self, function: python_types.FunctionType, this: ComponentType) -> None:
        self.function, self.this = function, this
        self.callee = types.Dispatcher(compiled_function(function))
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


# --- values -----------------------------------------------------------------------------------


class WholeArgument:
    """Part of a data model: functions take the struct as one value, where numba would pass number by number.

    LLVM removes either when it inlines; but half of all instructions would take structs apart and build them again.
    """

    def get_argument_type(self) -> Any:
        return self.get_value_type()  # type: ignore[attr-defined]

    def as_argument(self, builder: Any, value: Any) -> Any:
        return value

    def from_argument(self, builder: Any, value: Any) -> Any:
        return value


@register_model(ComponentType)
class _ComponentModel(WholeArgument, models.StructModel):
    def __init__(self, manager: Any, kind: ComponentType) -> None:
        super().__init__(manager, kind, list(kind.fields))
        self.counted = any(manager[field].contains_nrt_meminfo() for _, field in kind.fields)

    def traverse(self, builder: Any) -> Any:
        return super().traverse(builder) if self.counted else []  # the fields that may have references to count


@infer_getattr
class _Attributes(AttributeTemplate):
    key = ComponentType

    def generic_resolve(self, kind: ComponentType, name: str) -> Any:
        found = kind.attribute(name)
        if isinstance(found, types.Type):
            return found
        if isinstance(found, python_types.FunctionType):
            return MethodType(found, kind)
        return typeof(found) if isinstance(found, (int, float)) else None


@lower_getattr_generic(ComponentType)
def _getattr(context: Any, builder: Any, kind: ComponentType, value: Any, name: str) -> Any:
    fields = dict(kind.fields)
    if name not in fields:
        constant = kind.attribute(name)
        return context.get_constant(typeof(constant), constant)
    found = builder.extract_value(value, list(fields).index(name))
    return impl_ret_borrowed(context, builder, fields[name], found)


@typeof_impl.register(Component)
def _typeof(value: Component, context: Any) -> ComponentType:
    # Kept on the instance under the name numba looks for first, so that later calls dispatch fast.
    if not hasattr(value, "_numba_type_"):
        object.__setattr__(value, "_numba_type_", type_of(value))
    return value._numba_type_


@unbox(ComponentType)
def _unbox(kind: ComponentType, obj: Any, c: Any) -> NativeValue:
    # From one flat tuple: fetching attribute by attribute takes longer than a round with twenty features.
    flat, places = c.pyapi.object_getattr_string(obj, "_leaves"), itertools.count()

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
