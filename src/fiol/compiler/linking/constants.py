"""Constants in place of what returns them, before types are inferred: of classes of components, and sizes of tuples.

A step size that watches no pulls says so by a constant of its class. Where a function reads it, the constant replaces
the attribute, and numba prunes the branch that is never taken, with all that would be compiled for it.
"""

from __future__ import annotations

import dis
import functools
import types as python_types
from typing import Any

from numba.core import ir, types

#: Constants that have one type wherever they stand; an int is a number of axes, or the size of a tuple.
REPLACED = bool, float, int


def insert_constants(function: Any, kinds: Any) -> bool:
    """Put constants into a function of arguments of these types; return whether there were any."""
    found: dict[str, Any] = {}
    changed = False
    for _, block in sorted(function.blocks.items()):
        for statement in block.body:
            if not isinstance(statement, ir.Assign) or len(function._definitions[statement.target.name]) != 1:
                continue
            name, value = statement.target.name, statement.value
            if isinstance(value, ir.Arg):
                found[name] = kinds[value.index]
            elif isinstance(value, ir.Var):
                found[name] = found.get(value.name)
            elif isinstance(value, ir.Expr) and value.op == "getattr":
                found[name] = attribute_of(found.get(value.value.name), value.attr)
            elif isinstance(value, ir.Global) and value.value is len:
                found[name] = len
            elif isinstance(value, ir.Expr) and value.op == "call":
                called = found.get(value.func.name)
                found[name] = returned(called) if isinstance(called, python_types.FunctionType) else None
                if called is len:
                    found[name] = size_of(found.get(value.args[0].name))
            else:
                continue
            if isinstance(found[name], REPLACED):
                statement.value = ir.Const(found[name], statement.loc)
                function._definitions[name] = [statement.value]
                changed = True
    return changed


def attribute_of(kind: Any, name: str) -> Any:
    """Return what a value of this type has under a name: a type, a constant or a method; None if that is unknown."""
    if isinstance(kind, types.NamedTuple) and name in kind.fields:
        return kind.types[kind.fields.index(name)]
    if isinstance(kind, types.Array):
        return kind.ndim if name == "ndim" else None
    found = kind.attribute(name) if hasattr(kind, "attribute") else None  # of `ComponentType`
    return None if type(found) is int else found


def size_of(kind: Any) -> int | None:
    """Return the number of entries of a value of this type; None unless it is a tuple, or lanes."""
    return len(kind) if isinstance(kind, types.BaseTuple) else getattr(kind, "count", None)  # of `Lanes`


@functools.cache
def returned(function: python_types.FunctionType) -> Any:
    """Return the constant that is all that a function returns, whatever its arguments; None if there is none."""
    code = function.__code__
    body = [step for step in dis.get_instructions(code) if step.opname not in ("RESUME", "NOP")]
    if [step.opname for step in body] in (["LOAD_CONST", "RETURN_VALUE"], ["RETURN_CONST"]):
        return None if type(body[0].argval) is int else body[0].argval
    return None
