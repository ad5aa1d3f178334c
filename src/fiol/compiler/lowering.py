"""Functions as instructions, without memory for what is written once.

Numba gives a variable that is used in more than one block a place in memory, filled with zeros at first and after its
last use, and loads and stores whole structs of arrays there; LLVM then takes all that away again. Here a variable that
is assigned once is its value, wherever that is known to come first; references are counted only where there are any;
and operators are looked up once for all functions.
"""

from __future__ import annotations

import operator
from functools import partial
from typing import Any

from numba.core import ir, types
from numba.core.analysis import compute_cfg_from_blocks
from numba.core.errors import LoweringError, new_error_context
from numba.core.lowering import Lower

PLAIN_NUMBERS = types.Integer, types.Float, types.Boolean
#: Operations for which numba has other code if a number is a constant.
POWERS = operator.pow, operator.ipow
#: The signatures of operators by the types of what they are given, as long as they are these.
_operations: dict[Any, tuple[Any, Any]] = {}
#: Whether references are counted in values of a type.
_counted: dict[Any, bool] = {}


class Lean(Lower):  # type: ignore[misc]
    """Numba's lowering, for functions that nobody debugs."""

    def incref(self, kind: Any, value: Any) -> None:
        """Count a reference, if this type has any."""
        if counts(self.context, kind):
            super().incref(kind, value)

    def decref(self, kind: Any, value: Any) -> None:
        """Count one less, if this type has any."""
        if counts(self.context, kind):
            super().decref(kind, value)

    def _find_singly_assigned_variable(self) -> None:
        super()._find_singly_assigned_variable()
        self._singly_assigned_vars |= {name for name in once_before_use(self.func_ir) if self.plain(name)}

    def plain(self, name: str) -> bool:
        """Whether nothing has to be counted for a variable."""
        return not counts(self.context, self.typeof(name))

    def lower_block(self, block: Any) -> None:
        """One block, statement by statement."""
        self.pre_block(block)
        for statement in block.body:
            if isinstance(statement, ir.Del) and self.plain(statement.value):
                continue
            self.loc = statement.loc
            try:
                self.lower_inst(statement)
            except Exception:
                place: Any = self.loc
                told = {"inst": statement, "loc": place, "errcls_": partial(LoweringError, loc=place)}
                with new_error_context('lowering "{inst}" at {loc}', **told):
                    raise
        self.post_block(block)

    def lower_binop(self, kind: Any, expression: Any, operation: Any) -> Any:
        """An operation of two numbers; numba types it anew up to four times, for constants."""
        signature = self.fndesc.calltypes[expression]
        if operation in POWERS or not all(isinstance(each, PLAIN_NUMBERS) for each in signature.args):
            return super().lower_binop(kind, expression, operation)
        return self.operate(kind, operation, (expression.lhs, expression.rhs), signature)

    def lower_getitem(self, kind: Any, expression: Any, value: Any, index: Any, signature: Any) -> Any:
        """An entry of an array, or a part of it."""
        if not isinstance(signature.args[0], types.Array):
            return super().lower_getitem(kind, expression, value, index, signature)
        return self.operate(kind, operator.getitem, (value, index), signature)

    def operate(self, kind: Any, operation: Any, variables: Any, signature: Any) -> Any:
        """An operator of Python, for types for which it has been looked up before, if possible."""
        function, key = self.context.typing_context.resolve_value_type(operation), (operation, signature.args)
        then, found = _operations.get(key, (None, None))
        if then is not function:  # or somebody has added an overload
            found = function.get_call_type(self.context.typing_context, signature.args, {})
            _operations[key] = function, found
        values = [
            self.context.cast(self.builder, self.loadvar(variable.name), self.typeof(variable.name), to)
            for variable, to in zip(variables, signature.args, strict=True)
        ]
        result = self.context.get_function(function, found)(self.builder, values)
        return self.context.cast(self.builder, result, signature.return_type, kind)

    def storevar(self, value: Any, name: str, argidx: Any = None) -> None:
        """Write a variable."""
        if name in self._singly_assigned_vars or not self.plain(name):
            super().storevar(value, name, argidx)
        else:
            self._alloca_var(name, self.typeof(name))
            self.builder.store(value, self.getvar(name))

    def delvar(self, name: str) -> None:
        """Forget a variable."""
        if not self.plain(name):
            super().delvar(name)

    def alloca(self, name: str, kind: Any) -> Any:
        """Memory for a variable."""
        if counts(self.context, kind):
            return super().alloca(name, kind)
        with self.builder.goto_entry_block():
            return self.builder.alloca(self.context.get_value_type(kind), name=name)


def counts(context: Any, kind: Any) -> bool:
    """Whether references are counted in values of this type."""
    if kind not in _counted:
        _counted[kind] = bool(context.data_model_manager[kind].contains_nrt_meminfo())
    return _counted[kind]


def once_before_use(function: Any) -> set[str]:
    """The variables that are assigned once, in a block that comes before all that use them, on every way there."""
    if function.is_generator:
        return set()
    made: dict[str, list[Any]] = {}
    used: dict[str, set[Any]] = {}
    for offset, block in function.blocks.items():
        for statement in block.body:
            if isinstance(statement, ir.Del):
                continue
            if isinstance(statement, ir.Assign):
                made.setdefault(statement.target.name, []).append(offset)
            for variable in statement.list_vars():
                used.setdefault(variable.name, set()).add(offset)
    once = {name: places[0] for name, places in made.items() if len(places) == 1}
    far = {name: used[name] - {place} for name, place in once.items()}
    far = {name: places for name, places in far.items() if places and min(places) > once[name]}
    if not far:
        return set()
    dominators = compute_cfg_from_blocks(function.blocks).dominators()
    return {name for name, places in far.items() if all(once[name] in dominators.get(place, ()) for place in places)}
