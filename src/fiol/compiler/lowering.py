"""Functions as instructions, without memory for what is written once.

Numba gives a variable that is used in more than one block a place in memory, filled with zeros at first and after its
last use, and loads and stores whole structs of arrays there; LLVM then takes all that away again. Here a variable that
is assigned once is its value, wherever that is known to come first; references are counted only where there are any,
and not those of arguments; operators are looked up once for all functions; entries, ranges, powers, and the smallest
and largest of some numbers are a few instructions (`fiol.compiler.entries`) instead of numba's many, or calls.
"""

from __future__ import annotations

import operator
from functools import partial
from typing import Any

import llvmlite.ir as llvm
from numba.core import ir, types
from numba.core.analysis import compute_cfg_from_blocks
from numba.core.errors import LoweringError, new_error_context
from numba.core.ir_utils import get_definition, guard
from numba.core.lowering import Lower

from fiol.compiler.calling import MayFail, declared, handed_over, in_part
from fiol.compiler.entries import (
    begin_range,
    field,
    indices_of,
    is_known,
    next_of_range,
    of_array,
    place_in_array,
    power,
    struct_of,
    view,
)

PLAIN_NUMBERS = types.Integer, types.Float, types.Boolean
#: Operations for which numba has other code if a number is a constant.
POWERS = operator.pow, operator.ipow
#: Powers of floats up to this are products.
LARGEST_POWER = 8
REAL_NUMBERS = types.Integer, types.Float
#: What is called without numba's help.
CALLS = min, max, range
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
        self.arguments = set() if self.func_ir.is_generator else arguments_of(self.func_ir, self.typeof)
        self._singly_assigned_vars |= {name for name in once_before_use(self.func_ir) if self.plain(name)}

    def plain(self, name: str) -> bool:
        """Whether nothing has to be counted for a variable: an argument is held by whoever calls."""
        return name in self.arguments or not counts(self.context, self.typeof(name))

    def lower_assign(self, kind: Any, statement: Any) -> Any:
        """The value that a variable is assigned."""
        if isinstance(statement.value, ir.Arg) and statement.target.name in self.arguments:
            given = self.typeof("arg." + statement.value.name)
            if not isinstance(given, types.Omitted):
                return self.context.cast(self.builder, self.fnargs[statement.value.index], given, kind)
        return super().lower_assign(kind, statement)

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
        if not all(isinstance(each, PLAIN_NUMBERS) for each in signature.args):
            return super().lower_binop(kind, expression, operation)
        if operation not in POWERS:
            return self.operate(kind, operation, (expression.lhs, expression.rhs), signature)
        exponent = guard(get_definition, self.func_ir, expression.rhs)
        few = isinstance(exponent, ir.Const) and type(exponent.value) is int and 0 < exponent.value <= LARGEST_POWER
        if not few or not isinstance(signature.return_type, types.Float):
            return super().lower_binop(kind, expression, operation)
        x = self.cast_to(signature.return_type, expression.lhs)
        return self.context.cast(self.builder, power(self.builder, x, exponent.value), signature.return_type, kind)

    def lower_expr(self, kind: Any, expression: Any) -> Any:
        """Whatever has a value."""
        made = EXPRESSIONS.get(expression.op)
        found = made(self, kind, expression) if made is not None else None
        return super().lower_expr(kind, expression) if found is None else found

    def lower_getitem(self, kind: Any, expression: Any, value: Any, index: Any, signature: Any) -> Any:
        """An entry of an array, or a part of it."""
        if not isinstance(signature.args[0], types.Array):
            return super().lower_getitem(kind, expression, value, index, signature)
        found = self.placed(value, index, signature)
        if found is None:
            return self.operate(kind, operator.getitem, (value, index), signature)
        whole, array, (place, lengths, steps) = found
        if isinstance(signature.return_type, types.Array):
            made = view(self.context, self.builder, signature.return_type, array, place, lengths, steps)
            self.incref(signature.return_type, made)
        else:
            made = self.context.unpack_value(self.builder, whole.dtype, place, align=None if whole.aligned else 1)
        return self.context.cast(self.builder, made, signature.return_type, kind)

    def lower_setitem(self, target: Any, index: Any, value: Any, signature: Any) -> Any:
        """Write an entry of an array."""
        number = isinstance(signature.args[2], PLAIN_NUMBERS)
        found = self.placed(target, index, signature) if number else None
        if found is None or found[2][1] or not isinstance(found[0].dtype, PLAIN_NUMBERS):
            return super().lower_setitem(target, index, value, signature)
        whole, _, (place, _, _) = found
        new = self.context.cast(self.builder, self.loadvar(value.name), self.typeof(value.name), signature.args[2])
        new = self.context.cast(self.builder, new, signature.args[2], whole.dtype)
        return self.context.pack_value(self.builder, whole.dtype, new, place, align=None if whole.aligned else 1)

    def placed(self, value: Any, index: Any, signature: Any) -> Any:
        """The type of an array, the array, and what is asked for of it; None if only numba knows how."""
        whole, asked = signature.args[:2]
        if not is_known(self.context, whole) or self.typeof(value.name) != whole:
            return None
        index = self.context.cast(self.builder, self.loadvar(index.name), self.typeof(index.name), asked)
        indices = indices_of(self.builder, asked, index)
        if indices is None or len(indices) > whole.ndim:
            return None
        array = self.loadvar(value.name)
        return whole, array, place_in_array(self.context, self.builder, whole, array, indices)

    def call(self, kind: Any, expression: Any) -> Any:
        """The smallest or largest of some numbers, or a range; None for any other call."""
        function = getattr(self.typeof(expression.func.name), "typing_key", None)
        if function not in CALLS or expression.kws or expression.vararg:
            return None
        asked = self.fndesc.calltypes[expression]
        if len(asked.args) != len(expression.args) or not all(isinstance(each, REAL_NUMBERS) for each in asked.args):
            return None
        if function is not range:
            to = asked.return_type
            return self.context.cast(self.builder, self.foremost(function, to, expression.args), to, kind)
        if len(expression.args) > 2 or not isinstance(kind, types.RangeType):
            return None
        ends = [self.cast_to(kind.dtype, variable) for variable in expression.args]
        start, stop = ends if len(ends) == 2 else (ends[0].type(0), ends[0])
        return struct_of(self.builder, self.context.get_value_type(kind), [start, stop, stop.type(1)])

    def foremost(self, function: Any, kind: Any, variables: Any) -> Any:
        """The smallest or largest of some numbers, the first of those that are not in order."""
        values = [self.cast_to(kind, variable) for variable in variables]
        if isinstance(kind, types.Float):
            compare = self.builder.fcmp_ordered
        else:
            compare = self.builder.icmp_signed if kind.signed else self.builder.icmp_unsigned
        best = values[0]
        for value in values[1:]:
            best = self.builder.select(compare("<" if function is min else ">", value, best), value, best)
        return best

    def cast_to(self, kind: Any, variable: Any) -> Any:
        """A variable as a value of this type."""
        return self.context.cast(self.builder, self.loadvar(variable.name), self.typeof(variable.name), kind)

    def begin_counting(self, kind: Any, expression: Any) -> Any:
        """An iterator over a range that goes up by 1; None for any other."""
        asked = self.typeof(expression.value.name)
        if not isinstance(asked, types.RangeType) or not isinstance(kind, types.RangeIteratorType):
            return None
        made = guard(get_definition, self.func_ir, expression.value)
        if (
            not isinstance(made, ir.Expr)
            or made.op != "call"
            or len(made.args) not in (1, 2)
            or made.kws
            or made.vararg
        ):
            return None
        ends = self.loadvar(expression.value.name)
        start, stop = (field(self.builder, ends, k) for k in (0, 1))
        return begin_range(self.context, self.builder, kind, start, stop)

    def count_on(self, kind: Any, expression: Any) -> Any:
        """The next number of a range, and whether there is one; None for any other iterator."""
        if not isinstance(self.typeof(expression.value.name), types.RangeIteratorType):
            return None
        pair = next_of_range(self.builder, self.loadvar(expression.value.name))
        return struct_of(self.builder, self.context.get_value_type(kind), pair)

    def first_of_pair(self, kind: Any, expression: Any) -> Any:
        """What came from an iterator."""
        return None if counts(self.context, kind) else field(self.builder, self.loadvar(expression.value.name), 0)

    def second_of_pair(self, kind: Any, expression: Any) -> Any:
        """Whether anything came from an iterator."""
        return None if counts(self.context, kind) else field(self.builder, self.loadvar(expression.value.name), 1)

    def attribute(self, kind: Any, expression: Any) -> Any:
        """A field of a named tuple, or the shape of an array; None for anything else."""
        whole, name = self.typeof(expression.value.name), expression.attr
        if isinstance(whole, types.NamedTuple) and name in whole.fields:
            place = whole.fields.index(name)
            found, its_kind = field(self.builder, self.loadvar(expression.value.name), place), whole.types[place]
        elif name == "shape" and is_known(self.context, whole):
            found = of_array(self.builder, self.loadvar(expression.value.name), name)
            its_kind = types.UniTuple(types.intp, whole.ndim)
        else:
            return None
        self.incref(its_kind, found)
        return self.context.cast(self.builder, found, its_kind, kind)

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


class LeanPart(Lean):
    """The same for a part that gives a value and never fails: see `fiol.compiler.calling`."""

    def __init__(self, context: Any, *rest: Any, **named: Any) -> None:
        super().__init__(in_part(context), *rest, **named)

    def setup_function(self, described: Any) -> None:
        """Begin the function."""
        self.function = declared(self.context, self.module, described)
        self.entry_block = self.function.append_basic_block("entry")
        self.builder = llvm.IRBuilder(self.entry_block)
        self.call_helper = self.call_conv.init_call_helper(self.builder)

    def extract_function_arguments(self) -> Any:
        """The values that the function was handed."""
        self.fnargs = handed_over(self.function, self.fndesc.argtypes)
        return self.fnargs

    def lower_inst(self, statement: Any) -> None:
        """One statement."""
        if not isinstance(statement, ir.Return):
            super().lower_inst(statement)
        elif self.typeof(statement.value.name) != self.fndesc.restype:
            raise MayFail
        else:
            self.builder.ret(self.loadvar(statement.value.name))

    def _lower_call_RecursiveCall(self, *given: Any) -> Any:  # noqa: N802 - numba's name
        raise MayFail


#: What has a value, by numba's names, if there is a shorter way than numba's.
EXPRESSIONS: dict[str, Any] = {
    "getiter": Lean.begin_counting,
    "iternext": Lean.count_on,
    "pair_first": Lean.first_of_pair,
    "pair_second": Lean.second_of_pair,
    "getattr": Lean.attribute,
    "call": Lean.call,
}


def counts(context: Any, kind: Any) -> bool:
    """Whether references are counted in values of this type."""
    if kind not in _counted:
        _counted[kind] = bool(context.data_model_manager[kind].contains_nrt_meminfo())
    return _counted[kind]


def arguments_of(function: Any, typeof: Any) -> set[str]:
    """The variables that are arguments and nothing else, and of the argument's type."""
    made: dict[str, list[Any]] = {}
    for block in function.blocks.values():
        for statement in block.body:
            if isinstance(statement, ir.Assign):
                made.setdefault(statement.target.name, []).append(statement.value)
    once = {name: values[0] for name, values in made.items() if len(values) == 1 and isinstance(values[0], ir.Arg)}
    return {name for name, argument in once.items() if typeof(name) == typeof("arg." + argument.name)}


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
