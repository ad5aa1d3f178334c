"""Class constants of components in place of the attributes and methods that return them, before types are inferred.

A step size that watches no pulls says so by a constant of its class. Where a function reads it, the constant replaces
the attribute, and numba prunes the branch that is never taken, with all that would be compiled for it.
"""

from __future__ import annotations

import dis
import functools
import types as python_types
from typing import Any

from numba.core import ir

#: Constants that have one type wherever they stand.
REPLACED = bool, float


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
                attribute = getattr(found.get(value.value.name), "attribute", None)  # of `ComponentType`
                found[name] = attribute(value.attr) if attribute is not None else None
            elif isinstance(value, ir.Expr) and value.op == "call":
                called = found.get(value.func.name)
                found[name] = returned(called) if isinstance(called, python_types.FunctionType) else None
            else:
                continue
            if isinstance(found[name], REPLACED):
                statement.value = ir.Const(found[name], statement.loc)
                function._definitions[name] = [statement.value]
                changed = True
    return changed


@functools.cache
def returned(function: python_types.FunctionType) -> Any:
    """Return the constant that is all that a function returns, whatever its arguments; None if there is none."""
    code = function.__code__
    body = [step for step in dis.get_instructions(code) if step.opname not in ("RESUME", "NOP")]
    if [step.opname for step in body] in (["LOAD_CONST", "RETURN_VALUE"], ["RETURN_CONST"]):
        return body[0].argval
    return None
