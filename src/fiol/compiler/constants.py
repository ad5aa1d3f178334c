"""What a function can know of its components before it is typed: classes' constants, and methods that only return one.

A step size that watches no pulls says so by a constant of its class. Where a function asks, the answer stands in its
place from here on, and numba leaves out the branch that is never taken, with all that would be compiled for it.
"""

from __future__ import annotations

import dis
import functools
import types as python_types
from collections.abc import Callable
from typing import Any

from numba.core import ir

#: Constants that have one type wherever they stand.
SETTLED = bool, float


def settle(function: Any, kinds: Any, attribute: Callable[[Any, str], Any]) -> None:
    """Put constants in place of what is asked for in a function of arguments of these types.

    `attribute(kind, name)` is what a value of that type has under a name, a type for a field; or None.
    """
    found: dict[str, Any] = {}
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
                found[name] = attribute(found.get(value.value.name), value.attr)
            elif isinstance(value, ir.Expr) and value.op == "call":
                called = found.get(value.func.name)
                found[name] = returned(called) if isinstance(called, python_types.FunctionType) else None
            else:
                continue
            if isinstance(found[name], SETTLED):
                statement.value = ir.Const(found[name], statement.loc)
                function._definitions[name] = [statement.value]


@functools.cache
def returned(function: python_types.FunctionType) -> Any:
    """The constant that is all that a function returns, whatever it is given; None if there is none."""
    code = function.__code__
    body = [step for step in dis.get_instructions(code) if step.opname not in ("RESUME", "NOP")]
    if [step.opname for step in body] in (["LOAD_CONST", "RETURN_VALUE"], ["RETURN_CONST"]):
        return body[0].argval
    return None
